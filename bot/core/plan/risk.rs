//! Named rules that say what could go wrong with a plan, and how much its evidence carries.

use std::collections::BTreeMap;

use super::rollout::outages;
use super::{CardUse, Change, Confidence, Plan, PoolKind, Request, Risk, RiskLevel};
use crate::catalog::GpuModel;
use crate::fit::Reason;
use crate::ids::WorkloadId;
use crate::policy::Method;
use crate::units::{counted, first_few};

/// Every rule that fired, worst first.
pub(super) fn risks(request: &Request<'_>, plan: &Plan) -> Vec<Risk> {
    let mut risks = Vec::new();
    let mut add = |level, rule: &str, text: String| risks.push(Risk { rule: rule.to_owned(), level, text });
    match plan.method {
        Method::TimeSlicing => {
            add(
                RiskLevel::Medium,
                "no-memory-isolation",
                "nothing isolates memory: a pod that takes more than its measured peak can make its neighbours run \
                 out of memory"
                    .to_owned(),
            );
            add(
                RiskLevel::Medium,
                "no-fault-isolation",
                "nothing isolates faults or compute: a fatal GPU error of one pod can end the others, and busy pods \
                 slow each other down"
                    .to_owned(),
            );
        }
        Method::Mig => {
            let new_pool = plan.changes.iter().any(|change| matches!(change, Change::AddNodePool { .. }));
            let resets = |m: &GpuModel| m.mode_switch_needs_gpu_reset != Some(false);
            if new_pool {
                let pinned = |change: &Change| matches!(change, Change::PinWorkload { .. });
                if plan.changes.iter().any(pinned) {
                    add(
                        RiskLevel::Medium,
                        "slice-called-like-a-card",
                        "slices of the new node pool are called `nvidia.com/gpu`, like whole cards: a workload that \
                         comes later and selects no pool may be given one"
                            .to_owned(),
                    );
                }
            } else if request.catalog.find(&plan.model).is_some_and(resets) {
                add(
                    RiskLevel::Medium,
                    "mode-switch-resets-node",
                    "turning MIG on resets all GPUs of the node: it must be drained first".to_owned(),
                );
            }
        }
        Method::Mps => {
            add(
                RiskLevel::Medium,
                "no-fault-isolation",
                "the clients of a card share one MPS server: a fatal GPU fault of one pod ends all of them"
                    .to_owned(),
            );
            add(
                RiskLevel::Medium,
                "mps-experimental",
                "MPS is experimental in NVIDIA's device plugin, with field reports against it \
                 (NVIDIA/k8s-device-plugin issues 443, 647, 679, 982 and 1595): try it on one node first"
                    .to_owned(),
            );
        }
        Method::KeepWhole => {}
    }
    let shares = if plan.method == Method::Mps { "MPS shares" } else { "slices" };
    let down = outages(plan);
    let (many, one): (Vec<&WorkloadId>, Vec<&WorkloadId>) =
        down.iter().copied().partition(|id| replicas(request, id) > 1);
    let names = |ids: &[&WorkloadId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if !many.is_empty() {
        add(
            RiskLevel::High,
            "outage",
            format!(
                "all replicas stand on nodes that are drained and are down until the {shares} exist: {}",
                names(&many)
            ),
        );
    }
    if !one.is_empty() {
        add(
            RiskLevel::Medium,
            "drain",
            format!(
                "on a node that is drained, with one replica, down until the {shares} exist: {}",
                names(&one)
            ),
        );
    }
    let single: Vec<&str> = plan
        .items
        .iter()
        .filter(|item| item.replicas == 1 && !one.contains(&&item.fit.workload))
        .map(|item| item.fit.workload.name.as_str())
        .collect();
    if !single.is_empty() {
        add(
            RiskLevel::Medium,
            "single-replica",
            format!("down while it moves, with one replica: {}", single.join(", ")),
        );
    }
    for (rule, level, fired) in cautions(plan) {
        add(level, rule, fired);
    }
    let manual = plan.items.iter().filter(|item| item.manual.is_some()).count();
    if manual > 0 || plan.pool_kind == PoolKind::Elastic {
        add(
            RiskLevel::Medium,
            "by-hand",
            "parts of this change must be made by hand, see below: merged alone it is not complete"
                .to_owned(),
        );
    }
    if let Some(text) = asleep(request, plan) {
        add(RiskLevel::Medium, "not-running-now", text);
    }
    if let Some(text) = shared_fate(plan) {
        add(RiskLevel::Low, "shared-fate", text);
    }
    risks.sort_by(|a, b| a.level.cmp(&b.level).then_with(|| a.rule.cmp(&b.rule)));
    risks
}

fn replicas(request: &Request<'_>, id: &WorkloadId) -> usize {
    request.inventory.workload(id).map_or(0, |workload| workload.pods.len())
}

/// Cautions of the fits, gathered by rule.
fn cautions(plan: &Plan) -> Vec<(&'static str, RiskLevel, String)> {
    let mut by_rule: BTreeMap<&'static str, (RiskLevel, Vec<String>)> = BTreeMap::new();
    for item in &plan.items {
        for Reason { code, text, .. } in &item.fit.cautions {
            let (rule, level) = match code.as_str() {
                "latency-stretch" => ("latency-stretch", RiskLevel::Medium),
                "latency-unknown" => ("latency-unknown", RiskLevel::Low),
                "growing" => ("growing", RiskLevel::Medium),
                "upper-bound" => ("compute-upper-bound", RiskLevel::Low),
                _ => ("evidence", RiskLevel::Low),
            };
            let entry = by_rule.entry(rule).or_insert((level, Vec::new()));
            entry.1.push(format!("{}: {text}", item.fit.workload));
        }
    }
    by_rule.into_iter().map(|(rule, (level, texts))| (rule, level, first_few(&texts, 3, "; "))).collect()
}

/// Workloads that held such a card in the window and do not run now: the plan keeps no card for them.
fn asleep(request: &Request<'_>, plan: &Plan) -> Option<String> {
    let names: Vec<String> = request
        .inventory
        .workloads
        .iter()
        .filter(|workload| workload.pods.is_empty())
        .filter(|workload| {
            let profile = request.measured.profiles.get(&workload.id);
            profile.is_some_and(|profile| profile.model_name == plan.model_name)
        })
        .map(|workload| workload.id.to_string())
        .collect();
    if names.is_empty() {
        return None;
    }
    Some(format!(
        "no card is kept for workloads that held such a card in the window and do not run now: {}",
        first_few(&names, 3, ", ")
    ))
}

fn shared_fate(plan: &Plan) -> Option<String> {
    let most = plan
        .nodes
        .iter()
        .flat_map(|node| node.after.iter().map(move |card| (node, card)))
        .filter_map(|(node, card)| match card {
            CardUse::Slices { slices } => {
                Some((slices.iter().filter(|slice| slice.workload.is_some()).count(), node))
            }
            CardUse::Shared { workloads, .. } => Some((workloads.len(), node)),
            CardUse::Idle | CardUse::Whole { .. } | CardUse::Other { .. } => None,
        })
        .max_by_key(|(n, node)| (*n, std::cmp::Reverse(&node.name)))?;
    (most.0 > 1).then(|| {
        format!(
            "{} share one card on {}: when that card or node fails, all of them stop",
            counted(most.0, "pod"),
            most.1.name
        )
    })
}

/// High: real compute metrics and steady peaks for all. Low: something has to be made by hand, or a high risk is known.
/// With why, in words.
pub(super) fn confidence(plan: &Plan) -> (Confidence, String) {
    let by_hand = plan.items.iter().any(|item| item.manual.is_some());
    if by_hand || plan.pool_kind == PoolKind::Elastic {
        return (Confidence::Low, "parts of the change are made by hand".to_owned());
    }
    let n_with = |code: &str| {
        plan.items.iter().filter(|item| item.fit.cautions.iter().any(|caution| caution.code == code)).count()
    };
    let bounds = plan
        .items
        .iter()
        .filter(|item| item.fit.needs.as_ref().is_none_or(|needs| needs.compute_is_upper_bound))
        .count();
    let weaker = [
        (bounds, "whose compute is known as an upper bound only"),
        (n_with("latency-stretch"), "with kernels wider than the slice"),
        (n_with("growing"), "with growing memory"),
    ];
    let said: Vec<String> = weaker
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{} {what}", counted(*n, "workload")))
        .collect();
    if said.is_empty() {
        return (Confidence::High, "measured compute and steady peaks for every workload".to_owned());
    }
    (Confidence::Medium, said.join(", "))
}

/// Label changes of the plan, for sentences.
pub(super) fn labels(plan: &Plan) -> impl Iterator<Item = (&str, &str, &BTreeMap<String, Option<String>>)> {
    plan.changes.iter().filter_map(|change| match change {
        Change::LabelNodes { key, value, nodes } => Some((key.as_str(), value.as_str(), nodes)),
        Change::SetMigConfig { .. }
        | Change::SetPluginConfig { .. }
        | Change::LabelGroup { .. }
        | Change::AddNodePool { .. }
        | Change::SetWorkloadResource { .. }
        | Change::PinWorkload { .. } => None,
    })
}
