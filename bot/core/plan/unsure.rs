//! Whether the facts about a pool are complete enough to write anything about it.

use super::mig::IDLE_FLOOR;
use super::pool::Pool;
use crate::inventory::{Inventory, Workload};
use crate::usage::{DataGap, Measured, Severity};

/// Why the facts about a pool are incomplete, so that nothing about it may be written: a metric that an open proposal
/// rests on is gone, a finding blocks all decisions, part of the window could not be read, or a node that offers or
/// uses GPUs is not seen in full. `rests_on` are the metrics of the open proposal.
pub fn unsure(
    pool: &Pool,
    inventory: &Inventory,
    measured: &Measured,
    rests_on: &[String],
) -> Option<String> {
    let quality = &measured.data_quality;
    let gone: Vec<&str> =
        rests_on.iter().filter(|name| !quality.metrics.contains(name)).map(String::as_str).collect();
    if !gone.is_empty() {
        return Some(format!("held: metrics that the proposal rests on are gone: {}", gone.join(", ")));
    }
    if let Some(finding) = quality.findings.iter().find(|finding| finding.severity == Severity::Blocker) {
        return Some(format!("held: {}", finding.text));
    }
    let nodes = || inventory.nodes.iter().filter(|node| pool.nodes.contains(&node.name));
    let silent =
        nodes().find(|n| n.cards.is_empty() && n.gpu_allocatable.values().any(|offered| *offered > 0));
    if let Some(node) = silent {
        return Some(format!(
            "held: {} offers GPUs and shows no sample of them now, so that nothing is decided until it does",
            node.name
        ));
    }
    let workloads = || {
        let here = |w: &&Workload| w.pods.iter().any(|pod| pool.nodes.contains(&pod.node));
        inventory.workloads.iter().filter(here)
    };
    let in_use =
        nodes().flat_map(|node| &node.cards).any(|card| card.used_now.is_some_and(|used| used > IDLE_FLOOR));
    if in_use && workloads().next().is_none() {
        return Some("held: cards are in use, and no pod is known to hold one".to_owned());
    }
    workloads()
        .filter_map(|workload| measured.profiles.get(&workload.id))
        .flat_map(|profile| &profile.gaps)
        .find(|gap| matches!(gap, DataGap::IncompleteAnswer { .. }))
        .map(|gap| format!("held: {gap}"))
}
