//! The steps of a rollout and of the way back: commands, what to wait for, how long, what is down meanwhile.
//!
//! The MIG manager does not drain pods, and a running CUDA process makes it fail
//! (NVIDIA/mig-parted:pkg/mig/reconfigure), so that draining comes first. `nvidia.com/mig.config.state` still says
//! `success` from the last change when a label is set, so that the steps wait for what the node offers instead.

mod new_pool;

use std::collections::{BTreeMap, BTreeSet};

use super::risk::labels;
use super::{CardUse, Change, NodeFate, NodeOutcome, Plan, Request, Step, Wave, time_slicing};
use crate::catalog::ProfileName;
use crate::ids::WorkloadId;
use crate::policy::Method;
use crate::units::counted;

/// How long the MIG manager waits for its operands to stop, five of them at 5 minutes each, before it gives up.
const MIG_TIMEOUT: &str = "30m";

/// Steps in order.
pub(super) fn rollout(plan: &Plan, request: &Request<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    match plan.method {
        Method::Mig => {
            let moved: BTreeSet<&WorkloadId> = plan.items.iter().map(|item| &item.fit.workload).collect();
            let (first, later) =
                plan.waves.split_first().map_or((None, &[][..]), |(w, rest)| (Some(w), rest));
            steps.extend(
                first.into_iter().flat_map(|wave| drain_wave(plan, wave, request, "Before the merge")),
            );
            steps.extend(new_pool::first(plan).or_else(|| group_first(plan)));
            steps.push(merge_mig(plan, request));
            steps.extend(first.into_iter().flat_map(|wave| nodes_of(plan, wave)).map(wait_for_slices));
            steps.push(move_pods(plan));
            steps.extend(first.and_then(|wave| give_back(wave, &moved)));
            for wave in later {
                steps.extend(drain_wave(plan, wave, request, "Then"));
                steps.push(label_wave(plan, wave, request));
                steps.extend(nodes_of(plan, wave).into_iter().map(wait_for_slices));
                steps.extend(give_back(wave, &moved));
            }
        }
        Method::TimeSlicing | Method::Mps => steps
            .extend(new_pool::shared(plan).unwrap_or_else(|| time_slicing::rollout::steps(plan, request))),
        Method::KeepWhole => {}
    }
    steps.extend(with_fate(plan, NodeFate::Freed).into_iter().map(|node| free(plan, node, request)));
    steps.extend(new_pool::last(plan));
    steps
}

/// The way back, in order.
pub(super) fn rollback(plan: &Plan, request: &Request<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    let freed = with_fate(plan, NodeFate::Freed);
    let touched = with_fate(plan, NodeFate::Touched);
    if !freed.is_empty() {
        steps.push(step(
            "Bring the freed nodes back; make those anew that were removed.",
            freed.iter().map(|node| format!("kubectl uncordon {}", node.name)).collect(),
        ));
    }
    // An MPS server ends its clients when it stops; time-slicing lets them run on.
    let drained_first = matches!(plan.method, Method::Mig | Method::Mps);
    if drained_first {
        for node in &touched {
            let mut drained = step(format!("Drain {}.", node.name), vec![drain(&node.name)]);
            let borrowed = plan
                .waves
                .iter()
                .find(|wave| wave.nodes.contains(&node.name))
                .map_or(0, |wave| wave.borrowed);
            let stay_up = match borrowed {
                0 => String::new(),
                n => {
                    format!("; to keep everybody up, borrow {} first, as before", counted(n as usize, "node"))
                }
            };
            drained.cost = Some(format!("every GPU pod on it stops until its whole card is back{stay_up}"));
            steps.push(drained);
        }
    }
    steps.extend(new_pool::back(plan));
    let mut commands = vec!["git revert -m 1 <merge commit>".to_owned()];
    commands.extend(label_commands(plan, request, |_| true, Labels::AsBefore));
    let mut revert =
        step("Revert the merge: the old labels and the old resource names come back with it.", commands);
    revert.wait_for = Some("the pipeline has applied the revert".to_owned());
    revert.on_failure = Some(
        "there is no merge commit after a squash or a fast-forward: revert the commit itself, without `-m 1`"
            .to_owned(),
    );
    steps.push(revert);
    for node in &touched {
        let mut chain = waits(&node.name, &node.before);
        if drained_first {
            chain.push(format!("kubectl uncordon {}", node.name));
        }
        let mut back =
            step(format!("Wait until {} offers what it did before.", node.name), vec![chain.join(" &&\n")]);
        back.on_failure = (plan.method == Method::Mig).then(|| stuck(request));
        steps.push(back);
    }
    if matches!(plan.method, Method::TimeSlicing | Method::Mps) && new_pool::shared(plan).is_none() {
        steps.push(time_slicing::rollout::apart(plan));
    }
    steps
}

pub(super) fn with_fate(plan: &Plan, fate: NodeFate) -> Vec<&NodeOutcome> {
    plan.nodes.iter().filter(|node| node.fate == fate).collect()
}

pub(super) fn step(what: impl Into<String>, commands: Vec<String>) -> Step {
    Step { what: what.into(), commands, wait_for: None, cost: None, on_failure: None }
}

pub(super) fn drain(node: &str) -> String {
    format!("kubectl drain {node} --ignore-daemonsets --delete-emptydir-data")
}

/// Ends when the node offers this many of a resource, which it does not before the change.
pub(super) fn wait_for_allocatable(node: &str, resource: &str, n: usize) -> String {
    format!(
        "kubectl wait node/{node} --for=jsonpath='{{.status.allocatable.{}}}'={n} --timeout={MIG_TIMEOUT}",
        resource.replace('.', "\\.")
    )
}

fn nodes_of<'p>(plan: &'p Plan, wave: &Wave) -> Vec<&'p NodeOutcome> {
    plan.nodes.iter().filter(|node| wave.nodes.contains(&node.name)).collect()
}

/// Drains the nodes of a wave; first of all the nodes to borrow for it.
fn drain_wave(plan: &Plan, wave: &Wave, request: &Request<'_>, when: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    if wave.borrowed > 0 {
        steps.push(borrow(wave, request, "slices"));
    }
    steps.extend(nodes_of(plan, wave).into_iter().map(|node| drain_for_mig(wave, node, when)));
    steps
}

/// Borrows the wave's nodes until `what` exist on those that are drained.
pub(super) fn borrow(wave: &Wave, request: &Request<'_>, what: &str) -> Step {
    let price = request.pool.prices.values().map(|price| &price.per_hour).max();
    let mut step = step(
        format!(
            "Borrow {} of the same kind, with the pool's labels and taints: pods run there until the {what} on {} exist.",
            counted(wave.borrowed as usize, "node"),
            wave.nodes.join(", "),
        ),
        Vec::new(),
    );
    step.wait_for = Some(if wave.borrowed == 1 {
        "the borrowed node offers `nvidia.com/gpu`".to_owned()
    } else {
        format!("each of the {} borrowed nodes offers `nvidia.com/gpu`", wave.borrowed)
    });
    step.cost = Some(match price {
        Some(price) => format!("{price} an hour each, for about an hour"),
        None => "the price of such a node, which is not known, for about an hour".to_owned(),
    });
    step
}

/// The end of a loan. Draining alone would stop at once all pods that stand there, which is what the loan is to avoid:
/// they start again pod by pod first, but for workloads that the change itself rolls: these have left by then.
pub(super) fn give_back(wave: &Wave, rolled: &BTreeSet<&WorkloadId>) -> Option<Step> {
    let nodes = match wave.borrowed {
        0 => return None,
        1 => "<the borrowed node>",
        _ => "<the borrowed nodes>",
    };
    let there: BTreeSet<&WorkloadId> =
        wave.down.iter().chain(&wave.fewer).filter(|id| !rolled.contains(id)).collect();
    let mut commands = vec![format!("kubectl cordon {nodes}")];
    for id in there.iter().filter(|id| matches!(id.kind.as_str(), "Deployment" | "StatefulSet")) {
        let target = format!("{}/{}", id.kind.to_lowercase(), id.name);
        commands.push(format!("kubectl -n {} rollout restart {target}", id.namespace));
        commands.push(format!("kubectl -n {} rollout status {target} --timeout=15m", id.namespace));
    }
    commands.push(drain(nodes));
    let mut step = step(
        format!(
            "Give back what was borrowed for {}: first its pods start again on the pool's own cards, one by one.",
            wave.nodes.join(", ")
        ),
        commands,
    );
    step.wait_for =
        Some("no pod with a GPU runs on what was borrowed; then take it out of service".to_owned());
    step.on_failure = Some(
        "a pod stays Pending: a card of the pool is not free yet; uncordon what was borrowed, and see `kubectl describe \
         pod`"
            .to_owned(),
    );
    Some(step)
}

fn drain_for_mig(wave: &Wave, node: &NodeOutcome, when: &str) -> Step {
    let waits: Vec<&str> = wave.down.iter().map(|id| id.name.as_str()).collect();
    let cost = if node.restarts.is_empty() {
        "no GPU pod runs there: nothing stops".to_owned()
    } else if wave.down.is_empty() && wave.fewer.is_empty() {
        format!("starts again on idle cards of other nodes: {}", node.restarts.join(", "))
    } else if wave.borrowed > 0 {
        format!(
            "starts again on idle cards of other nodes and on the borrowed ones: {}",
            node.restarts.join(", ")
        )
    } else {
        let downtime =
            if waits.is_empty() { String::new() } else { format!("; downtime of {}", waits.join(", ")) };
        format!(
            "down from here until the slices exist (some minutes; the wait for them gives up after {MIG_TIMEOUT}): {}{downtime}",
            node.restarts.join(", ")
        )
    };
    Step {
        what: format!("{when}: cordon and drain {}, so that no process uses its GPUs.", node.name),
        commands: vec![drain(&node.name)],
        wait_for: Some(format!("no pod with a GPU runs on {}", node.name)),
        cost: Some(cost),
        on_failure: Some(
            "a PodDisruptionBudget may hold the drain: raise its replicas elsewhere first, or agree on the downtime"
                .to_owned(),
        ),
    }
}

/// Nodes after the first wave are labelled by hand, once their pods have moved.
fn label_wave(plan: &Plan, wave: &Wave, request: &Request<'_>) -> Step {
    let mut step = step(
        format!("Label {}.", wave.nodes.join(", ")),
        label_commands(plan, request, |node| wave.nodes.iter().any(|name| name == node), Labels::AsPlanned),
    );
    step.wait_for =
        Some("the MIG manager has seen the label: `nvidia.com/mig.config.state` is `pending`".to_owned());
    step
}

/// For groups whose nodes come and go: slices must exist before pods ask for them.
fn group_first(plan: &Plan) -> Option<Step> {
    plan.changes.iter().find_map(|change| match change {
        Change::LabelGroup { key, value, beside, .. } => {
            let group = if *beside { "a second node group beside this one" } else { "the node group" };
            // The label may be part of the same merge request: then its file is applied ahead of the others.
            let mut step = step(
                format!(
                    "Before the workloads change: label {group} `{key}={value}` where it is declared, and let it make nodes."
                ),
                vec![format!("kubectl get nodes -l {key}={value}")],
            );
            step.wait_for =
                Some("new nodes show `nvidia.com/mig.config.state: success` and offer the slices".to_owned());
            step.cost = Some("new nodes are paid for beside the old ones until those are gone".to_owned());
            Some(step)
        }
        Change::SetMigConfig { .. }
        | Change::SetPluginConfig { .. }
        | Change::LabelNodes { .. }
        | Change::AddNodePool { .. }
        | Change::SetWorkloadResource { .. }
        | Change::PinWorkload { .. } => None,
    })
}

/// Workloads of which no pod runs while nodes are drained.
pub(super) fn outages(plan: &Plan) -> BTreeSet<&WorkloadId> {
    plan.waves.iter().filter(|wave| wave.borrowed == 0).flat_map(|wave| &wave.down).collect()
}

fn merge_mig(plan: &Plan, request: &Request<'_>) -> Step {
    let later: BTreeSet<&str> =
        plan.waves.iter().skip(1).flat_map(|wave| &wave.nodes).map(String::as_str).collect();
    let mut commands = label_commands(plan, request, |node| !later.contains(node), Labels::AsPlanned);
    let own_map = plan.changes.iter().any(|change| matches!(change, Change::SetMigConfig { .. }));
    if own_map {
        commands.insert(
            0,
            format!(
                "kubectl -n {} rollout status daemonset/nvidia-mig-manager --timeout=10m",
                operator_namespace(request)
            ),
        );
    }
    let new_pool = plan.changes.iter().any(|change| matches!(change, Change::AddNodePool { .. }));
    let what = if new_pool { "pod templates" } else { "labels and the pod templates" };
    let mut step = step(format!("Merge. The pipeline applies the {what}."), commands);
    step.wait_for = Some("the pipeline is through".to_owned());
    step.cost = Some(
        "pods that ask for slices wait as Pending until the slices exist; a Deployment without surge stops as many of \
         its old pods for them as its `maxUnavailable` allows"
            .to_owned(),
    );
    step.on_failure = own_map.then(|| {
        "state `failed` right after the merge: the MIG manager had not loaded the new layouts yet; wait for its rollout, \
         set the label to `all-disabled` and back"
            .to_owned()
    });
    step
}

/// Which values labels get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Labels {
    /// Those of the plan.
    AsPlanned,
    /// Those of today.
    AsBefore,
}

/// Labels by hand, for nodes whose labels no file of the repository carries.
pub(super) fn label_commands(
    plan: &Plan,
    request: &Request<'_>,
    of: impl Fn(&str) -> bool,
    which: Labels,
) -> Vec<String> {
    let mut commands = Vec::new();
    for (key, value, nodes) in labels(plan) {
        for (node, previous) in nodes.iter().filter(|(node, _)| of(node.as_str())) {
            if request.declared.node_labels.get(node).is_some_and(|carrier| carrier.editable.is_ok()) {
                continue;
            }
            let value = match (which, previous) {
                (Labels::AsPlanned, _) => Some(value),
                (Labels::AsBefore, Some(old)) => Some(old.as_str()),
                // Removing the MIG label changes nothing; this name is in every map.
                (Labels::AsBefore, None) if key == super::mig::MIG_LABEL => Some("all-disabled"),
                (Labels::AsBefore, None) => None,
            };
            commands.push(match value {
                Some(value) => format!("kubectl label node {node} {key}={value} --overwrite"),
                None => format!("kubectl label node {node} {key}-"),
            });
        }
    }
    commands
}

pub(super) fn operator_namespace<'a>(request: &Request<'a>) -> &'a str {
    request.declared.operator.namespace.as_deref().unwrap_or("gpu-operator")
}

/// Ends when the MIG manager says so.
fn wait_for_state(node: &str, state: &str, timeout: &str) -> String {
    format!(
        "kubectl wait node/{node} --for=jsonpath='{{.metadata.labels.nvidia\\.com/mig\\.config\\.state}}'={state} \
         --timeout={timeout}"
    )
}

/// What these cards offer as resources, and how many.
fn offers(cards: &[CardUse]) -> BTreeMap<String, usize> {
    let mut offers: BTreeMap<String, usize> = BTreeMap::new();
    for card in cards {
        match card {
            CardUse::Slices { slices } => {
                for slice in slices {
                    let name = slice.profile.parse();
                    let resource = name.map_or_else(|_| slice.profile.clone(), ProfileName::resource);
                    *offers.entry(resource).or_default() += 1;
                }
            }
            CardUse::Idle | CardUse::Whole { .. } => {
                *offers.entry("nvidia.com/gpu".to_owned()).or_default() += 1;
            }
            CardUse::Shared { .. } | CardUse::Other { .. } => {}
        }
    }
    offers
}

/// Commands that end when the node offers what these cards do.
fn waits(node: &str, cards: &[CardUse]) -> Vec<String> {
    offers(cards).iter().map(|(resource, n)| wait_for_allocatable(node, resource, *n)).collect()
}

fn wait_for_slices(node: &NodeOutcome) -> Step {
    let then = offers(&node.after);
    let slices: BTreeMap<&str, usize> = then
        .iter()
        .filter(|(resource, _)| *resource != "nvidia.com/gpu")
        .map(|(resource, n)| (resource.as_str(), *n))
        .collect();
    let shown: BTreeMap<&str, usize> =
        if slices.is_empty() { then.iter().map(|(r, n)| (r.as_str(), *n)).collect() } else { slices };
    let mut chain: Vec<String> =
        shown.iter().map(|(resource, n)| wait_for_allocatable(&node.name, resource, *n)).collect();
    if node.before.iter().any(|card| matches!(card, CardUse::Slices { .. })) {
        // It may offer as many of a kind already: then allocatable alone would say yes before anything has happened.
        chain.insert(0, wait_for_state(&node.name, "success", MIG_TIMEOUT));
    }
    chain.push(format!("kubectl uncordon {}", node.name));
    let mut commands = vec![chain.join(" &&\n")];
    if node.before.iter().any(|card| matches!(card, CardUse::Slices { .. })) {
        commands.insert(0, wait_for_state(&node.name, "pending", "5m"));
    }
    let offers: Vec<String> = shown.iter().map(|(resource, n)| format!("{n} `{resource}`")).collect();
    Step {
        what: format!("Wait for the slices on {}, then let pods come back.", node.name),
        commands,
        wait_for: Some(format!(
            "`nvidia.com/mig.config.state` is `success` and allocatable shows {}",
            offers.join(" and ")
        )),
        cost: Some("2 to 10 minutes; the node's GPU metrics are absent meanwhile".to_owned()),
        on_failure: Some(
            "state `failed`: a process still used a GPU; drain again, then set the label to `all-disabled` and back. \
             Labels left at `paused-for-mig-change`: set every `nvidia.com/gpu.deploy.*` label back to `true`. \
             `success` without devices: reboot the node"
                .to_owned(),
        ),
    }
}

fn move_pods(plan: &Plan) -> Step {
    let by_hand: Vec<String> = plan
        .items
        .iter()
        .filter(|item| !matches!(item.fit.workload.kind.as_str(), "Deployment" | "StatefulSet" | "Rollout"))
        .map(|item| item.fit.workload.to_string())
        .collect();
    let commands = plan
        .items
        .iter()
        .filter_map(|item| {
            let id = &item.fit.workload;
            matches!(id.kind.as_str(), "Deployment" | "StatefulSet").then(|| {
                format!(
                    "kubectl -n {} rollout status {}/{} --timeout=15m",
                    id.namespace,
                    id.kind.to_lowercase(),
                    id.name
                )
            })
        })
        .collect();
    let no_surge: Vec<&str> = plan
        .items
        .iter()
        .filter(|item| item.max_surge == 0 && item.replicas == 1)
        .map(|item| item.fit.workload.name.as_str())
        .collect();
    Step {
        what: format!(
            "{} to slices.",
            if plan.items.len() == 1 {
                "1 workload rolls".to_owned()
            } else {
                format!("{} roll", counted(plan.items.len(), "workload"))
            }
        ),
        commands,
        wait_for: Some("every new pod is ready".to_owned()),
        cost: Some(if no_surge.is_empty() {
            "one rolling update each".to_owned()
        } else {
            format!(
                "one restart each; without surge and with one replica, down from the merge until the new pod is ready: {}",
                no_surge.join(", ")
            )
        }),
        on_failure: Some(if by_hand.is_empty() {
            "a pod stays Pending: its slice is not there yet, or its node selector does not match; see `kubectl \
             describe pod`"
                .to_owned()
        } else {
            format!(
                "a pod stays Pending: its slice is not there yet. These do not roll by themselves, restart their pods: {}",
                by_hand.join(", ")
            )
        }),
    }
}

fn free(plan: &Plan, node: &NodeOutcome, request: &Request<'_>) -> Step {
    let moved: BTreeSet<String> = plan
        .items
        .iter()
        .filter(|item| item.nodes_before.contains(&node.name))
        .map(|item| item.fit.workload.to_string())
        .collect();
    let whole: BTreeSet<String> = node
        .before
        .iter()
        .filter_map(|card| match card {
            CardUse::Whole { workload } => Some(workload.to_string()),
            CardUse::Idle | CardUse::Slices { .. } | CardUse::Shared { .. } | CardUse::Other { .. } => None,
        })
        .filter(|name| !moved.contains(name))
        .collect();
    let mut says = Vec::new();
    if !moved.is_empty() {
        says.push(match plan.method {
            Method::Mig => format!("the pods of {} run in slices elsewhere by now", join(&moved)),
            Method::TimeSlicing | Method::Mps | Method::KeepWhole => {
                format!("the pods of {} start again on the shared cards", join(&moved))
            }
        });
    }
    if !whole.is_empty() {
        says.push(format!("the pods of {} start again on whole cards of other nodes", join(&whole)));
    }
    let manifest = request
        .declared
        .node_labels
        .get(&node.name)
        .map(|carrier| format!(" and remove its manifest from {}", carrier.file()))
        .unwrap_or_default();
    let restarts = !whole.is_empty() || plan.method != Method::Mig;
    Step {
        what: format!("Drain {}: {}. Then take it out of service{manifest}.", node.name, says.join("; ")),
        commands: vec![drain(&node.name)],
        wait_for: Some(format!("no pod with a GPU runs on {}", node.name)),
        cost: restarts.then(|| {
            "one restart of each of these pods; with one replica a start-up time of downtime".to_owned()
        }),
        on_failure: Some(format!("kubectl uncordon {}", node.name)),
    }
}

fn join(names: &BTreeSet<String>) -> String {
    names.iter().cloned().collect::<Vec<_>>().join(", ")
}

fn stuck(request: &Request<'_>) -> String {
    format!(
        "labels left at `paused-for-mig-change` keep the node without a device plugin: set every \
         `nvidia.com/gpu.deploy.*` label back to `true`, and look at the MIG manager's log in {}",
        operator_namespace(request)
    )
}
