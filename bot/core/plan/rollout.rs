//! The steps of a rollout and of the way back: commands, what to wait for, how long, what is down meanwhile.
//!
//! The MIG manager does not drain pods, and a running CUDA process makes it fail
//! (NVIDIA/mig-parted:pkg/mig/reconfigure), so that draining comes first, node by node.

use super::risk::labels;
use super::{Change, NodeFate, NodeOutcome, Plan, Request, Step};
use crate::policy::Method;
use crate::units::counted;

/// How long the MIG manager waits for its operands to stop, five of them at 5 minutes each, before it gives up.
const MIG_TIMEOUT: &str = "30m";

/// Steps in order.
pub(super) fn rollout(plan: &Plan, request: &Request<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    let touched: Vec<&NodeOutcome> = with_fate(plan, NodeFate::Touched);
    let freed: Vec<&NodeOutcome> = with_fate(plan, NodeFate::Freed);
    match plan.method {
        Method::Mig => {
            for node in &touched {
                steps.push(drain_for_mig(plan, node));
            }
            steps.push(merge_mig(plan));
            for node in &touched {
                steps.push(wait_for_slices(plan, node));
            }
            if !plan.items.is_empty() {
                steps.push(move_pods(plan, request));
            }
        }
        Method::TimeSlicing => {
            steps.push(merge_time_slicing(plan, request));
            for node in &touched {
                steps.push(wait_for_replicas(plan, node));
            }
        }
        Method::Mps | Method::KeepWhole => {}
    }
    for node in freed {
        steps.push(free(plan, node));
    }
    steps
}

/// The way back, in order.
pub(super) fn rollback(plan: &Plan, request: &Request<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    let freed: Vec<String> = plan
        .nodes
        .iter()
        .filter(|node| node.fate == NodeFate::Freed)
        .map(|node| format!("kubectl uncordon {}", node.name))
        .collect();
    if !freed.is_empty() {
        steps.push(step("Take the freed nodes back into service.", freed));
    }
    let mut revert = step(
        "Revert the merge: the old labels and the old resource names come back with it.",
        vec!["git revert -m 1 <merge commit>".to_owned()],
    );
    revert.wait_for = Some("the pipeline has applied the revert".to_owned());
    steps.push(revert);
    let mut commands = Vec::new();
    for (key, _, nodes) in labels(plan) {
        for (node, previous) in nodes {
            if plan.method == Method::Mig {
                commands.push(format!("kubectl drain {node} --ignore-daemonsets --delete-emptydir-data"));
            }
            commands.push(match (previous, plan.method) {
                (Some(previous), _) => format!("kubectl label node {node} {key}={previous} --overwrite"),
                // Removing the label does nothing; this name is in every map that the plan writes.
                (None, Method::Mig) => format!("kubectl label node {node} {key}=all-disabled --overwrite"),
                (None, Method::TimeSlicing | Method::Mps | Method::KeepWhole) => {
                    format!("kubectl label node {node} {key}-")
                }
            });
            if plan.method == Method::Mig {
                commands.push(wait_command(node));
                commands.push(format!("kubectl uncordon {node}"));
            }
        }
    }
    if !commands.is_empty() {
        let mut back = step("Where labels are not applied by the pipeline, set them back by hand.", commands);
        back.on_failure = (plan.method == Method::Mig).then(|| stuck(request));
        steps.push(back);
    }
    steps
}

fn with_fate(plan: &Plan, fate: NodeFate) -> Vec<&NodeOutcome> {
    plan.nodes.iter().filter(|node| node.fate == fate).collect()
}

fn step(what: impl Into<String>, commands: Vec<String>) -> Step {
    Step { what: what.into(), commands, wait_for: None, cost: None, on_failure: None }
}

fn drain_for_mig(plan: &Plan, node: &NodeOutcome) -> Step {
    let single = singles(plan, node);
    Step {
        what: format!("Before the merge: cordon and drain {}, so that no process uses its GPUs.", node.name),
        commands: vec![format!("kubectl drain {} --ignore-daemonsets --delete-emptydir-data", node.name)],
        wait_for: Some(format!("no pod with a GPU runs on {}", node.name)),
        cost: Some(if node.restarts.is_empty() {
            "no GPU pod runs there: nothing stops".to_owned()
        } else {
            let mut text = format!(
                "{} from here until the slices exist (some minutes, {MIG_TIMEOUT} at most): {}",
                if node.restarts.len() == 1 { "stops" } else { "stop" },
                node.restarts.join(", ")
            );
            if !single.is_empty() {
                text.push_str(&format!(
                    "; downtime of {}, with one replica",
                    single.join(" and ")
                ));
            }
            text
        }),
        on_failure: Some(
            "a PodDisruptionBudget may hold the drain: raise its replicas elsewhere first, or agree on the downtime"
                .to_owned(),
        ),
    }
}

/// Workloads of one replica whose pod is on the node.
fn singles(plan: &Plan, node: &NodeOutcome) -> Vec<String> {
    plan.items
        .iter()
        .filter(|item| item.replicas == 1 && item.nodes_before.contains(&node.name))
        .map(|item| item.fit.workload.name.clone())
        .collect()
}

fn merge_mig(plan: &Plan) -> Step {
    let mut step =
        step("Merge. The pipeline applies the labels and the pod templates.", label_commands(plan));
    step.wait_for = Some("the pipeline is through".to_owned());
    step.cost = Some(
        "pods that ask for slices wait as Pending until the slices exist; a Deployment without surge has stopped its \
         old pod by then"
            .to_owned(),
    );
    step
}

/// For pipelines that do not apply node labels.
fn label_commands(plan: &Plan) -> Vec<String> {
    labels(plan)
        .flat_map(|(key, value, nodes)| {
            nodes.keys().map(move |node| format!("kubectl label node {node} {key}={value} --overwrite"))
        })
        .collect()
}

fn wait_command(node: &str) -> String {
    format!(
        "kubectl wait node/{node} --for=jsonpath='{{.metadata.labels.nvidia\\.com/mig\\.config\\.state}}'=success --timeout={MIG_TIMEOUT}"
    )
}

fn wait_for_slices(plan: &Plan, node: &NodeOutcome) -> Step {
    let mut resources: Vec<String> = plan
        .changes
        .iter()
        .filter_map(|change| match change {
            Change::SetWorkloadResource { to, .. } => Some(to.clone()),
            Change::SetMigConfig { .. }
            | Change::SetPluginConfig { .. }
            | Change::LabelNodes { .. }
            | Change::LabelGroup { .. } => None,
        })
        .collect();
    resources.sort();
    resources.dedup();
    Step {
        what: format!("Wait for the slices on {}, then let pods come back.", node.name),
        commands: vec![
            wait_command(&node.name),
            format!("kubectl get node {} -o jsonpath='{{.status.allocatable}}'", node.name),
            format!("kubectl uncordon {}", node.name),
        ],
        wait_for: Some(format!(
            "`nvidia.com/mig.config.state` is `success` and allocatable shows {}",
            resources.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and ")
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

fn move_pods(plan: &Plan, request: &Request<'_>) -> Step {
    let restarts = |kind: &str| !matches!(kind, "Deployment" | "StatefulSet" | "Rollout" | "DaemonSet");
    let by_hand: Vec<String> = plan
        .items
        .iter()
        .filter(|item| restarts(&item.fit.workload.kind))
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
    let _ = request;
    Step {
        what: format!("The {} roll to their slices.", counted(plan.items.len(), "workload")),
        commands,
        wait_for: Some("every new pod is ready".to_owned()),
        cost: Some(if no_surge.is_empty() {
            "one rolling update each".to_owned()
        } else {
            format!(
                "one restart each; without surge and with one replica a start-up time of downtime: {}",
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

fn merge_time_slicing(plan: &Plan, request: &Request<'_>) -> Step {
    let first_time = request.declared.operator.plugin_config_map.is_none();
    let mut step = step("Merge. The pipeline applies the config map and the labels.", label_commands(plan));
    step.wait_for = Some("the device plugin on the labelled nodes has restarted".to_owned());
    step.cost = Some(if first_time {
        "the device plugin restarts on every GPU node once, since it gets its first config map; running pods stay"
            .to_owned()
    } else {
        "the device plugin restarts on the labelled nodes; running pods stay".to_owned()
    });
    step
}

fn wait_for_replicas(plan: &Plan, node: &NodeOutcome) -> Step {
    let replicas: u32 = super::time_slicing::replicas_of(plan).into_values().max().unwrap_or(0);
    let n = replicas as usize * node.after.len();
    Step {
        what: format!("Wait until {} offers {n} replicas.", node.name),
        commands: vec![format!(
            "kubectl get node {} -o jsonpath='{{.status.allocatable.nvidia\\.com/gpu}}'",
            node.name
        )],
        wait_for: Some(format!("allocatable `nvidia.com/gpu` is {n}")),
        cost: Some("about a minute".to_owned()),
        on_failure: Some(
            "unchanged: `kubectl -n gpu-operator rollout restart daemonset/nvidia-device-plugin-daemonset`"
                .to_owned(),
        ),
    }
}

fn free(plan: &Plan, node: &NodeOutcome) -> Step {
    let single = singles(plan, node);
    let moved = match plan.method {
        Method::Mig => "its pods run in slices elsewhere by now",
        Method::TimeSlicing | Method::Mps | Method::KeepWhole => "its pods start again on the shared cards",
    };
    Step {
        what: format!("Drain {}: {moved}. Then take it out of service.", node.name),
        commands: vec![format!("kubectl drain {} --ignore-daemonsets --delete-emptydir-data", node.name)],
        wait_for: Some(format!("no pod with a GPU runs on {}", node.name)),
        cost: (plan.method == Method::TimeSlicing && !single.is_empty())
            .then(|| format!("a start-up time of downtime for {}, with one replica", single.join(", "))),
        on_failure: Some(format!("kubectl uncordon {}", node.name)),
    }
}

fn stuck(request: &Request<'_>) -> String {
    let namespace = request.declared.operator.namespace.as_deref().unwrap_or("gpu-operator");
    format!(
        "labels left at `paused-for-mig-change` keep the node without a device plugin: set every \
         `nvidia.com/gpu.deploy.*` label back to `true`, and look at the MIG manager's log in {namespace}"
    )
}
