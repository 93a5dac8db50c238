//! `mig.strategy`: how the cluster names slices. Changing it renames resources everywhere, so that it is never part of
//! a plan; what the change would take is said instead.

use std::collections::BTreeSet;

use super::SHOWN;
use crate::fit::Reason;
use crate::inventory::{MigStrategy, Node, Sharing};
use crate::plan::Request;
use crate::units::first_few;

/// Why slices would not be `nvidia.com/mig-<profile>`.
pub(super) fn refused(request: &Request<'_>, nodes: &[&Node]) -> Option<Reason> {
    let live = live_strategies(nodes);
    let written = request.declared.operator.mig_strategy.or_else(|| live.first().copied());
    if let Some(written) = written
        && let Some(live) = live.iter().find(|live| **live != written)
    {
        return Some(
            Reason::new(
                "mig-strategy-differs",
                format!("`mig.strategy` is both `{written:?}` and `{live:?}`, by what is written and what nodes show").to_lowercase(),
            )
            .with_advice("wait until the change of strategy has reached the nodes"),
        );
    }
    match written {
        Some(MigStrategy::Mixed) => None,
        Some(MigStrategy::Single) => Some(
            Reason::new(
                "mig-strategy-single",
                "the cluster's `mig.strategy` is `single`: slices would still be called `nvidia.com/gpu`",
            )
            .with_advice(prerequisite(request)),
        ),
        Some(MigStrategy::None) => Some(
            Reason::new("mig-strategy-none", "the cluster's `mig.strategy` is `none`: slices are not advertised")
                .with_advice(prerequisite(request)),
        ),
        None => Some(
            Reason::new(
                "mig-strategy-unknown",
                "the cluster's `mig.strategy` is not known: neither the repository's ClusterPolicy nor the node \
                 label `nvidia.com/mig.strategy` says it",
            )
            .with_advice("set `gpu_operator.mig_strategy` for the cluster in the configuration"),
        ),
    }
}

/// The device plugin does not start with MPS under strategy `mixed`, and Feature Discovery fails on a card with MIG on
/// (NVIDIA/k8s-device-plugin:cmd/nvidia-device-plugin, internal/lm).
pub(super) fn mps_refused(request: &Request<'_>, nodes: &[&Node]) -> Option<Reason> {
    let live = live_strategies(nodes);
    let written = request.declared.operator.mig_strategy;
    if written == Some(MigStrategy::Mixed) || live.contains(&MigStrategy::Mixed) {
        return Some(
            Reason::new(
                "mps-under-mixed",
                "the device plugin does not start with MPS under `mig.strategy: mixed`",
            )
            .with_advice("use MPS in clusters without MIG, or time-slicing or MIG here"),
        );
    }
    if written.is_none() && live.is_empty() {
        return Some(
            Reason::new(
                "mig-strategy-unknown",
                "`mig.strategy` is not known, and the device plugin does not start with MPS under `mixed`",
            )
            .with_advice("set `gpu_operator.mig_strategy` for the cluster in the configuration"),
        );
    }
    let cut = nodes.iter().find(|node| mig_is_on(node))?;
    Some(
        Reason::new("mps-on-mig", format!("{} has MIG on, and MPS does not work on such cards", cut.name))
            .with_advice("give the nodes with MIG a pool of their own"),
    )
}

/// Its cards are cut, or its label asks the MIG manager for that.
fn mig_is_on(node: &Node) -> bool {
    node.sharing() == Sharing::Mig
        || node.label("nvidia.com/mig.config").is_some_and(|config| config != "all-disabled")
}

/// `mig.strategy` as the labels of nodes show it. Nodes that share their cards already say nothing of the others: a
/// config of their own may set theirs, and a plan leaves them as they are.
fn live_strategies(nodes: &[&Node]) -> BTreeSet<MigStrategy> {
    let on_whole_cards = nodes.iter().filter(|node| node.sharing() == Sharing::Whole);
    on_whole_cards
        .filter_map(|node| match node.label("nvidia.com/mig.strategy")? {
            "mixed" => Some(MigStrategy::Mixed),
            "single" => Some(MigStrategy::Single),
            "none" => Some(MigStrategy::None),
            _ => None,
        })
        .collect()
}

/// The change that comes first: where, to what, and what it renames.
///
/// Whole cards are `nvidia.com/gpu` under every strategy. Slices that are called so today would be called by their
/// profile, and who asks for them by the old name would find none.
fn prerequisite(request: &Request<'_>) -> String {
    let place = match &request.declared.operator.mig_strategy_place {
        Some(place) => format!("set `mig.strategy: mixed` in `{place}`"),
        None => "set `spec.mig.strategy: mixed` on the ClusterPolicy".to_owned(),
    };
    let cut: Vec<&Node> =
        request.inventory.nodes.iter().filter(|node| node.sharing() == Sharing::Mig).collect();
    if cut.is_empty() {
        return format!(
            "as a change of its own first, {place}; it restarts the device plugin on every GPU node and renames \
             nothing, as no card is cut today"
        );
    }
    let on_cut = |node: &str| cut.iter().any(|one| one.name == node);
    let asking: Vec<String> = request
        .inventory
        .workloads
        .iter()
        .filter(|workload| workload.resource == "nvidia.com/gpu")
        .filter(|workload| workload.pods.iter().any(|pod| on_cut(&pod.node)))
        .map(|workload| workload.id.to_string())
        .collect();
    let names: Vec<&str> = cut.iter().map(|node| node.name.as_str()).collect();
    let who = if asking.is_empty() {
        "nobody asks for those by that name today".to_owned()
    } else {
        format!("these must ask for the new name in the same change: {}", first_few(&asking, SHOWN, ", "))
    };
    format!(
        "as a change of its own first, {place}; it restarts the device plugin on every GPU node and renames \
         `nvidia.com/gpu` to `nvidia.com/mig-<profile>` for the slices on {}, and {who}",
        first_few(&names, SHOWN, ", ")
    )
}
