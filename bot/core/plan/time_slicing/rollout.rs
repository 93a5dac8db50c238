//! The steps towards shared cards and back: the config map, the labels, then the pods.

use std::collections::BTreeSet;

use super::super::pool::Waves;
use super::super::rollout::{
    Labels, borrow, drain, give_back, label_commands, operator_namespace, step, wait_for_allocatable,
    with_fate,
};
use super::super::{CardUse, Change, NodeFate, NodeOutcome, Plan, Request, Step, Wave};
use super::pool_nodes;
use crate::fit::Reason;
use crate::ids::WorkloadId;
use crate::policy::Method;
use crate::units::{counted, first_few};

/// Up to the point where pods may move; freed nodes are drained after that.
pub(in crate::plan) fn steps(plan: &Plan, request: &Request<'_>) -> Vec<Step> {
    let touched = with_fate(plan, NodeFate::Touched);
    let cleared: BTreeSet<&str> =
        touched.iter().filter(|node| must_be_cleared(plan, node)).map(|node| node.name.as_str()).collect();
    let mut steps: Vec<Step> = touched
        .iter()
        .filter(|node| cleared.contains(node.name.as_str()))
        .map(|node| clear(plan, node))
        .collect();
    if let Some(wave) = plan.waves.iter().find(|wave| wave.borrowed > 0) {
        steps.insert(0, borrow(wave, request, "shared cards"));
    }
    steps.push(merge(plan, request));
    steps.extend(
        touched
            .iter()
            .map(|node| wait_for_replicas(plan, node, request, cleared.contains(node.name.as_str()))),
    );
    let rolled: BTreeSet<&WorkloadId> = plan
        .changes
        .iter()
        .filter_map(
            |change| if let Change::PinWorkload { workload, .. } = change { Some(workload) } else { None },
        )
        .collect();
    if !rolled.is_empty() {
        steps.push(roll(plan));
    } else if plan.nodes.iter().any(|node| node.fate != NodeFate::Touched) {
        steps.push(keep_whole_cards_away(plan));
    }
    steps.extend(plan.waves.iter().filter_map(|wave| give_back(wave, &rolled)));
    steps
}

/// Code of the reason by which a plan is refused whose drains the pool's `waves` does not allow.
pub(super) const DOWNTIME: &str = "downtime";

/// Holds the drains before the merge against the pool's `waves`, and borrows nodes where it says so: of the largest
/// size, as many as hold the drained pods of those who would be down.
pub(super) fn allow(request: &Request<'_>, plan: &mut Plan) -> Result<(), Vec<Reason>> {
    let pool = request.pool;
    let n_pods = |id: &WorkloadId| request.inventory.workload(id).map_or(0, |workload| workload.pods.len());
    for wave in &mut plan.waves {
        let forbidden: Vec<String> = match pool.waves {
            Waves::AllowDowntime => Vec::new(),
            Waves::Borrow => {
                let n_cards = pool_nodes(request).map(|node| node.cards.len()).max().unwrap_or(1).max(1);
                let down: usize = wave.down.iter().map(n_pods).sum();
                wave.borrowed = u32::try_from(down.div_ceil(n_cards)).unwrap_or(u32::MAX);
                Vec::new()
            }
            Waves::SingleReplica => {
                wave.down.iter().filter(|id| n_pods(id) > 1).map(ToString::to_string).collect()
            }
            Waves::NoDowntime => wave.down.iter().map(ToString::to_string).collect(),
        };
        if !forbidden.is_empty() {
            return Err(vec![
                Reason::new(
                    DOWNTIME,
                    format!(
                        "{} must be drained before the merge, and the pool's `waves: {}` does not allow that {} down: {}",
                        wave.nodes.join(", "),
                        pool.waves.name(),
                        if forbidden.len() == 1 {
                            "1 workload is".to_owned()
                        } else {
                            format!("{} are", counted(forbidden.len(), "workload"))
                        },
                        first_few(&forbidden, 3, ", ")
                    ),
                )
                .with_advice("set `waves: borrow` or `waves: allow-downtime` for the pool"),
            ]);
        }
    }
    Ok(())
}

/// Nodes that are drained before the merge, all of them together.
pub(super) fn waves(plan: &Plan) -> Vec<Wave> {
    let cleared: BTreeSet<&str> = with_fate(plan, NodeFate::Touched)
        .into_iter()
        .filter(|node| must_be_cleared(plan, node))
        .map(|node| node.name.as_str())
        .collect();
    if cleared.is_empty() {
        return Vec::new();
    }
    let stands_on = |id: &WorkloadId| -> BTreeSet<&str> {
        let holds = |card: &CardUse| matches!(card, CardUse::Whole { workload } if workload == id);
        let here = |node: &&NodeOutcome| node.before.iter().any(holds);
        plan.nodes.iter().filter(here).map(|node| node.name.as_str()).collect()
    };
    let ids = plan.items.iter().map(|item| &item.fit.workload);
    let hit = ids.filter(|id| !stands_on(id).is_disjoint(&cleared));
    let (down, fewer) = hit.cloned().partition(|id| stands_on(id).is_subset(&cleared));
    vec![Wave { nodes: cleared.into_iter().map(str::to_owned).collect(), down, fewer, borrowed: 0 }]
}

/// The last step of the way back: pods that share a card do not leave it by themselves.
pub(in crate::plan) fn apart(plan: &Plan) -> Step {
    let mut apart =
        step("Restart the pods, so that each gets a card of its own again.", restart_commands(plan));
    apart.cost = Some("pods that share a card go on sharing it until they restart".to_owned());
    apart
}

/// A pod there may not meet those who come: it is of another group. Under MPS no pod may stay at all: the server takes
/// the card for itself (compute mode EXCLUSIVE_PROCESS), and a process that was there before is no client of it.
fn must_be_cleared(plan: &Plan, node: &NodeOutcome) -> bool {
    node.before.iter().any(|card| match card {
        CardUse::Whole { workload } => {
            let stays = plan
                .items
                .iter()
                .any(|item| item.fit.workload == *workload && item.nodes_after.contains(&node.name));
            plan.method == Method::Mps || !stays
        }
        CardUse::Idle | CardUse::Slices { .. } | CardUse::Shared { .. } | CardUse::Other { .. } => false,
    })
}

fn clear(plan: &Plan, node: &NodeOutcome) -> Step {
    let why = if plan.method == Method::Mps {
        "so that no process holds a card that the MPS server takes"
    } else {
        "so that no pod of the other group is there when its cards are shared"
    };
    Step {
        what: format!("Before the merge: cordon and drain {}, {why}.", node.name),
        commands: vec![drain(&node.name)],
        wait_for: Some(format!("no pod with a GPU runs on {}", node.name)),
        cost: Some(if node.restarts.is_empty() {
            "nobody stops".to_owned()
        } else if plan.waves.iter().any(|wave| wave.borrowed > 0) {
            format!(
                "starts again on the borrowed nodes, or waits for shared cards: {}",
                node.restarts.join(", ")
            )
        } else {
            format!("down from here until shared cards have room, some minutes: {}", node.restarts.join(", "))
        }),
        on_failure: Some(format!(
            "a PodDisruptionBudget may hold the drain: agree on the downtime first, or `kubectl uncordon {}`",
            node.name
        )),
    }
}

fn merge(plan: &Plan, request: &Request<'_>) -> Step {
    let first_time = request.declared.operator.plugin_config_map.is_none();
    let pins = plan.changes.iter().any(|change| matches!(change, Change::PinWorkload { .. }));
    let mut step = step(
        if pins {
            "Merge. The pipeline applies the config map, the labels and the pod templates."
        } else {
            "Merge. The pipeline applies the config map and the labels."
        },
        label_commands(plan, request, |_| true, Labels::AsPlanned),
    );
    step.wait_for = Some("the device plugin on the labelled nodes has restarted".to_owned());
    let pods = if pins {
        "pods that are made anew wait as Pending until a node carries the label that they select"
    } else {
        "running pods stay"
    };
    step.cost = Some(if first_time {
        format!(
            "the device plugin restarts on every GPU node once, since it gets its first config map; {pods}"
        )
    } else {
        format!("the device plugin restarts on the labelled nodes; {pods}")
    });
    step
}

/// Pods go on asking for `nvidia.com/gpu`: any node of the pool that offers whole cards would take them.
fn keep_whole_cards_away(plan: &Plan) -> Step {
    let commands = plan
        .nodes
        .iter()
        .filter(|node| node.fate != NodeFate::Touched)
        .map(|node| format!("kubectl cordon {}", node.name))
        .collect();
    step("Cordon the pool's other nodes, so that every pod that moves lands on a shared card.", commands)
}

/// Node selectors are part of the pod template: a change of it makes the pods anew.
pub(in crate::plan) fn roll(plan: &Plan) -> Step {
    let pinned = || {
        plan.changes.iter().filter_map(|change| match change {
            Change::PinWorkload { workload, .. } => Some(workload),
            Change::SetMigConfig { .. }
            | Change::SetPluginConfig { .. }
            | Change::LabelNodes { .. }
            | Change::LabelGroup { .. }
            | Change::AddNodePool { .. }
            | Change::SetWorkloadResource { .. } => None,
        })
    };
    let (rolls, by_hand): (Vec<_>, Vec<_>) =
        pinned().partition(|id| matches!(id.kind.as_str(), "Deployment" | "StatefulSet"));
    let mut roll = step(
        format!(
            "{} node selectors name.",
            match pinned().count() {
                1 => "1 workload starts again on the nodes that its".to_owned(),
                n => format!("{} start again on the nodes that their", counted(n, "workload")),
            }
        ),
        rolls
            .iter()
            .map(|id| {
                format!(
                    "kubectl -n {} rollout status {}/{} --timeout=15m",
                    id.namespace,
                    id.kind.to_lowercase(),
                    id.name
                )
            })
            .collect(),
    );
    roll.wait_for = Some("every new pod is ready".to_owned());
    roll.cost =
        Some("one restart each; with one replica and no surge, down from the merge until then".to_owned());
    roll.on_failure = Some(if by_hand.is_empty() {
        "a pod stays Pending: no node with its label has a replica and CPU and memory left; see `kubectl describe pod`"
            .to_owned()
    } else {
        format!(
            "these do not roll by themselves, restart their pods: {}",
            by_hand.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        )
    });
    roll
}

fn wait_for_replicas(plan: &Plan, node: &NodeOutcome, request: &Request<'_>, cleared: bool) -> Step {
    let n: usize = node
        .after
        .iter()
        .map(|card| match card {
            CardUse::Shared { replicas, .. } => *replicas as usize,
            CardUse::Idle | CardUse::Whole { .. } | CardUse::Slices { .. } | CardUse::Other { .. } => 0,
        })
        .sum();
    let mut chain = vec![wait_for_allocatable(&node.name, "nvidia.com/gpu", n)];
    if cleared {
        chain.push(format!("kubectl uncordon {}", node.name));
    }
    let mps = plan.method == Method::Mps;
    Step {
        what: format!(
            "Wait until {} offers {n} replicas{}.",
            node.name,
            if cleared { ", then let pods come back" } else { "" }
        ),
        commands: vec![chain.join(" &&\n")],
        wait_for: Some(if mps {
            format!(
                "the node is labelled `nvidia.com/mps.capable=true`, its MPS control daemon runs, and allocatable \
                 `nvidia.com/gpu` is {n}"
            )
        } else {
            format!("allocatable `nvidia.com/gpu` is {n}")
        }),
        cost: Some(if mps { "some minutes".to_owned() } else { "about a minute".to_owned() }),
        on_failure: Some(format!(
            "unchanged: `kubectl -n {} rollout restart daemonset/nvidia-device-plugin-daemonset`",
            operator_namespace(request)
        )),
    }
}

/// Commands that restart the pods of everybody who shares.
fn restart_commands(plan: &Plan) -> Vec<String> {
    plan.items
        .iter()
        .map(|item| {
            let id = &item.fit.workload;
            match id.kind.as_str() {
                "Deployment" | "StatefulSet" => {
                    format!(
                        "kubectl -n {} rollout restart {}/{}",
                        id.namespace,
                        id.kind.to_lowercase(),
                        id.name
                    )
                }
                kind => format!("# restart the pods of {kind} {id}"),
            }
        })
        .collect()
}
