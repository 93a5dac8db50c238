//! Where pods of a workload may run: taints, selectors, and constraints that the plan does not look into.

use super::Request;
use crate::inventory::{DeclaredWorkload, Node, Taint, Workload};

/// Taints that come and go with a node's state; they keep nobody off for good.
const PASSING_TAINTS: [&str; 5] = [
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "karpenter.sh/",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
];

/// The taint repels pods and says what the node is for, not how it is doing.
pub(super) fn lasts(taint: &Taint) -> bool {
    taint.effect != "PreferNoSchedule" && !PASSING_TAINTS.iter().any(|passing| taint.key.starts_with(passing))
}

/// Why nothing new may be sent to the node now: cordoned, not ready, about to go.
pub(super) fn unfit(node: &Node) -> Option<String> {
    let taint = node.taints.iter().find(|taint| taint.effect != "PreferNoSchedule" && !lasts(taint))?;
    Some(format!("it is cordoned, not ready or about to go (taint `{}`)", taint.key))
}

/// Whether its pods may run on the node. Where nothing is known of its constraints, only where they run today; and not
/// even there when the node no longer carries what they select, since they could not come back.
pub(super) fn may_run(
    request: &Request<'_>,
    workload: &Workload,
    declared: Option<&DeclaredWorkload>,
    node: &Node,
) -> bool {
    if workload.pods.iter().any(|pod| pod.node == node.name) {
        let other = |(key, value): (&String, &String)| node.label(key).is_some_and(|label| label != value);
        return !declared.is_some_and(|declared| declared.node_selector.iter().any(other));
    }
    declared.is_some_and(|declared| {
        declared.pinned.is_none() && tolerates(declared, node) && selects(request, declared, node)
    })
}

/// It tolerates every taint that lasts.
pub(super) fn tolerates(declared: &DeclaredWorkload, node: &Node) -> bool {
    node.taints.iter().filter(|taint| lasts(taint)).all(|taint| {
        declared.tolerations.contains("*")
            || declared.tolerations.contains(&taint.key)
            || declared.tolerations.contains(&format!("{}={}", taint.key, taint.value))
    })
}

/// Its node selector matches, by labels that are known.
pub(super) fn selects(request: &Request<'_>, declared: &DeclaredWorkload, node: &Node) -> bool {
    let carrier = request.declared.node_labels.get(&node.name);
    declared.node_selector.iter().all(|(key, value)| {
        let written = carrier.and_then(|carrier| carrier.labels.get(key)).map(String::as_str);
        let named = (key == "kubernetes.io/hostname").then_some(node.name.as_str());
        node.label(key).or(written).or(named) == Some(value.as_str())
    })
}
