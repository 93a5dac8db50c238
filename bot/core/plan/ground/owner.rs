//! Ground that belongs to somebody else: a cloud's node pool, dynamic resource allocation.

use super::SHOWN;
use crate::fit::Reason;
use crate::inventory::{Node, Sharing};
use crate::plan::node_pool::{self, GKE_SHARED};
use crate::plan::{PoolKind, Request};
use crate::units::first_few;

/// Labels of nodes of clouds that bring a device plugin of their own.
const CLOUDS: [&str; 4] = [
    "cloud.google.com/gke-nodepool",
    "cloud.google.com/gke-accelerator",
    "kubernetes.azure.com/agentpool",
    "kubernetes.azure.com/accelerator",
];

/// Labels of nodes whose cards the DRA driver hands out: those of NVIDIA's installation guide and of GPU Operator 26.7.
const DRA: [&str; 2] = ["nvidia.com/dra-kubelet-plugin", "nvidia.com/gpu.deploy.dra-driver"];

/// Why cards may not be shared here by what the GPU Operator reads.
pub(super) fn refused(request: &Request<'_>, nodes: &[&Node]) -> Option<Reason> {
    dra(request, nodes).or_else(|| nodes.iter().find_map(|node| provider_owned(request, node)))
}

/// Why cards may not be shared here by a new pool of the cloud's.
pub(super) fn refused_to_a_new_pool(request: &Request<'_>, nodes: &[&Node]) -> Option<Reason> {
    dra(request, nodes)
}

/// The device plugin's config maps and resources mean nothing where cards are claimed.
fn dra(request: &Request<'_>, nodes: &[&Node]) -> Option<Reason> {
    let advice = "sharing is asked for in the claims of the workloads there: these cards are left alone";
    if let Some(place) = &request.declared.operator.gpu_cluster {
        let text = format!("{place} puts the GPUs of the cluster under dynamic resource allocation");
        return Some(Reason::new("dra-managed", text).with_advice(advice));
    }
    let key = DRA.iter().find(|key| nodes.iter().any(|node| node.label(key) == Some("true")))?;
    let names: Vec<&str> =
        nodes.iter().filter(|node| node.label(key) == Some("true")).map(|node| node.name.as_str()).collect();
    let text = format!(
        "`{key}` on {}: its GPUs are handed out by dynamic resource allocation",
        first_few(&names, SHOWN, ", ")
    );
    Some(Reason::new("dra-managed", text).with_advice(advice))
}

/// Sharing that the cloud's node pool fixes at creation.
fn provider_owned(request: &Request<'_>, node: &Node) -> Option<Reason> {
    let refuse = |what: &str, advice: &str| {
        let text =
            format!("{what} on {}: sharing is a property of the node pool, fixed when it is made", node.name);
        Some(Reason::new("provider-owned", text).with_advice(advice))
    };
    let new_pool = "make a new node pool with the wanted partition size or sharing strategy; where the GPU Operator \
                    runs, keep its ClusterPolicy in the repository";
    let has = |key: &&&str| node.label(key).is_some();
    if let Some(key) = GKE_SHARED.iter().find(has) {
        return refuse(&format!("`{key}`"), new_pool);
    }
    if let Some(key) = node.labels.keys().find(|key| key.starts_with("bottlerocket_aws_")) {
        return refuse(
            &format!("Bottlerocket (label `{key}`)"),
            "set `settings.kubelet-device-plugins.nvidia` in the node group's user data and replace its nodes",
        );
    }
    let cloud = CLOUDS.iter().find(has)?;
    if !request.declared.operator.declared_in_repository {
        // Without the GPU Operator the cloud's own device plugin reads none of the operator's labels.
        let by_field = request.node_group().and_then(|group| node_pool::pool_label(group.kind)).is_some();
        if by_field && request.pool.kind == PoolKind::Static {
            return refuse(
                &format!("`{cloud}`"),
                "set `kind: elastic` for the pool, so that a new node pool beside it can be planned; where the GPU \
                 Operator runs, keep its ClusterPolicy in the repository",
            );
        }
        return refuse(&format!("`{cloud}`"), new_pool);
    }
    // AKS cuts the cards of a pool made with `--gpu-instance-profile`; the MIG manager, which would have left its
    // label, must not cut them again.
    (node.sharing() == Sharing::Mig && node.label("nvidia.com/mig.config").is_none())
        .then(|| refuse(&format!("slices that no `nvidia.com/mig.config` asked for (`{cloud}`)"), new_pool))
        .flatten()
}
