//! The steps towards shared cards and back: the config map, the labels, then the pods.

use super::super::rollout::{label_commands, operator_namespace, step, wait_for_allocatable, with_fate};
use super::super::{NodeFate, NodeOutcome, Plan, Request, Step};
use super::replicas_of;

/// Up to the point where pods may move; freed nodes are drained after that.
pub(in crate::plan) fn steps(plan: &Plan, request: &Request<'_>) -> Vec<Step> {
    let mut steps = vec![merge(plan, request)];
    let touched = with_fate(plan, NodeFate::Touched);
    steps.extend(touched.iter().map(|node| wait_for_replicas(plan, node, request)));
    steps.push(keep_whole_cards_away(plan));
    steps
}

/// The last step of the way back: pods that share a card do not leave it by themselves.
pub(in crate::plan) fn apart(plan: &Plan) -> Step {
    let mut apart =
        step("Restart the pods, so that each gets a card of its own again.", restart_commands(plan));
    apart.cost = Some("pods that share a card go on sharing it until they restart".to_owned());
    apart
}

fn merge(plan: &Plan, request: &Request<'_>) -> Step {
    let first_time = request.declared.operator.plugin_config_map.is_none();
    let mut step = step(
        "Merge. The pipeline applies the config map and the labels.",
        label_commands(plan, request, |_| None),
    );
    step.wait_for = Some("the device plugin on the labelled nodes has restarted".to_owned());
    step.cost = Some(if first_time {
        "the device plugin restarts on every GPU node once, since it gets its first config map; running pods stay"
            .to_owned()
    } else {
        "the device plugin restarts on the labelled nodes; running pods stay".to_owned()
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

fn wait_for_replicas(plan: &Plan, node: &NodeOutcome, request: &Request<'_>) -> Step {
    let replicas = replicas_of(plan).into_values().max().unwrap_or(0);
    let n = replicas as usize * node.after.len();
    Step {
        what: format!("Wait until {} offers {n} replicas.", node.name),
        commands: vec![wait_for_allocatable(&node.name, "nvidia.com/gpu", n)],
        wait_for: Some(format!("allocatable `nvidia.com/gpu` is {n}")),
        cost: Some("about a minute".to_owned()),
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
