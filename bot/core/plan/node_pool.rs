//! Node pools of GKE and AKS, which cut or share their cards by a field of the pool that is fixed when it is made: which
//! pools are so, and what a new one may be asked for.
//!
//! Such a field never changes in place. A plan makes a pool beside the old one and moves the pods.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::node_group::{NodeGroup, NodeGroupKind};
use super::{PoolKind, Request};
use crate::catalog::{Attribute, GpuModel, MigProfile, ProfileName};
use crate::fit::Reason;
use crate::ids::WorkloadId;
use crate::inventory::{MigStrategy, Node, Sharing, sanitised_label};

/// Labels of GKE nodes whose cards are cut or shared by GKE (GoogleCloudPlatform/container-engine-accelerators).
pub(super) const GKE_SHARED: [&str; 3] = [PARTITION_LABEL, STRATEGY_LABEL, CLIENTS_LABEL];

/// GKE's label that tells the size of a node's slices.
pub(super) const PARTITION_LABEL: &str = "cloud.google.com/gke-gpu-partition-size";

/// GKE's label that tells how a node's cards are shared.
const STRATEGY_LABEL: &str = "cloud.google.com/gke-gpu-sharing-strategy";

/// GKE's label that tells how many pods share a card.
const CLIENTS_LABEL: &str = "cloud.google.com/gke-max-shared-clients-per-gpu";

/// Labels of nodes where the GPU Operator works: two must not cut or share the same cards.
const OPERATOR: [&str; 4] = [
    "nvidia.com/mig.config",
    "nvidia.com/gpu.deploy.mig-manager",
    "nvidia.com/gpu.deploy.device-plugin",
    "nvidia.com/device-plugin.config",
];

/// What a new pool does with each of its cards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cut", rename_all = "kebab-case")]
pub enum PoolCards {
    /// Cut into slices of one size, as many as a card holds.
    Partition {
        /// List spelling, `2g.10gb`.
        profile: String,
        /// Slices of a card.
        per_card: u32,
    },
    /// Handed to several pods in turns.
    TimeSharing {
        /// Pods a card, 2 to 48.
        clients: u32,
    },
}

/// Sizes that GKE offers, by model: those that both its page on multi-instance GPUs and `partition_gpu` of
/// container-engine-accelerators know, with the models that the latter alone knows from H200 on. The program finds the
/// number of slices by the size's name alone, so that `1g.10gb` of an A100 with 40 GB is not among them.
const GKE_SIZES: [(&str, &[&str]); 6] = [
    ("a100-40gb", &["1g.5gb", "2g.10gb", "3g.20gb"]),
    ("a100-80gb", &["1g.10gb", "2g.20gb", "3g.40gb"]),
    ("h100-80gb-sxm", &["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb"]),
    ("h200-141gb", &["1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb"]),
    ("b200-180gb", &["1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb"]),
    ("rtx-pro-6000-blackwell-96gb", &["1g.24gb", "2g.48gb"]),
];

/// Models of the machine sizes that AKS cuts (MicrosoftDocs/azure-aks-docs:articles/aks/gpu-multi-instance.md).
const AKS_MODELS: [&str; 5] = ["a100-40gb", "a100-80gb", "h100-80gb-sxm", "h100-94gb", "h200-141gb"];

/// The pool that a cloud cuts or shares by itself, and that has whole cards today. `None`: it is no such pool, or the
/// GPU Operator works there.
pub(super) fn of(request: &Request<'_>) -> Option<NodeGroup> {
    let group = request.node_group()?;
    let by_field = matches!(group.kind, NodeGroupKind::Gke | NodeGroupKind::Aks) && !group.name.is_empty();
    let plain = |node: &Node| {
        let labelled = GKE_SHARED.iter().chain(&OPERATOR).any(|key| node.label(key).is_some());
        !labelled && node.sharing() == Sharing::Whole
    };
    let elastic = request.pool.kind == PoolKind::Elastic;
    let all_plain = nodes(request).all(plain);
    (by_field && elastic && all_plain && !request.declared.operator.declared_in_repository).then_some(group)
}

fn nodes<'r>(request: &'r Request<'_>) -> impl Iterator<Item = &'r Node> {
    request.inventory.nodes.iter().filter(|node| request.pool.nodes.contains(&node.name))
}

/// Whether a new pool of this kind can be cut into slices of this profile.
pub(super) fn offers(kind: NodeGroupKind, model: &GpuModel, profile: &MigProfile) -> bool {
    match kind {
        NodeGroupKind::Gke => GKE_SIZES
            .iter()
            .any(|(id, sizes)| *id == model.id && sizes.contains(&profile.name.to_string().as_str())),
        NodeGroupKind::Aks => {
            // `MIG1g` is the plain slice: of two with as many compute slices, the smaller one.
            let is_plain = |one: &&MigProfile| one.name.attribute == Attribute::Plain;
            let same = |one: &&MigProfile| one.compute_slices == profile.compute_slices;
            let smallest = model.profiles.iter().filter(is_plain).filter(same).map(|one| one.size).min();
            AKS_MODELS.contains(&model.id.as_str())
                && is_plain(&profile)
                && smallest == Some(profile.size)
                && profile.compute_slices < 7
        }
        NodeGroupKind::Karpenter | NodeGroupKind::Eks | NodeGroupKind::ClusterApi => false,
    }
}

/// Why slices cannot be had by a new pool here.
pub(super) fn refused(request: &Request<'_>, group: &NodeGroup, model: &GpuModel) -> Option<Reason> {
    if !model.profiles.iter().any(|profile| offers(group.kind, model, profile)) {
        let text = format!("{group}: no {} offers slices of these cards", group.kind.name());
        return Some(Reason::new("provider-owned", text));
    }
    match (group.kind, strategy(request)) {
        (NodeGroupKind::Aks, None) => Some(
            Reason::new(
                "mig-strategy-unknown",
                format!("{group}: what its slices are called depends on the device plugin's MIG strategy, which is not known"),
            )
            .with_advice("set `gpu_operator.mig_strategy` for the cluster in the configuration (`single` or `mixed`)"),
        ),
        (NodeGroupKind::Aks, Some(MigStrategy::None)) => Some(
            Reason::new("mig-strategy-none", format!("{group}: the device plugin's MIG strategy is `none`: slices are not advertised"))
                .with_advice("start the device plugin with `--mig-strategy=single` or `mixed` first"),
        ),
        _ => None,
    }
}

/// The device plugin's strategy, as the configuration or the nodes say it. GKE's own plugin has none.
fn strategy(request: &Request<'_>) -> Option<MigStrategy> {
    let shown: BTreeSet<&str> =
        nodes(request).filter_map(|node| node.label("nvidia.com/mig.strategy")).collect();
    let shown = match shown.into_iter().collect::<Vec<_>>().as_slice() {
        ["single"] => Some(MigStrategy::Single),
        ["mixed"] => Some(MigStrategy::Mixed),
        ["none"] => Some(MigStrategy::None),
        _ => None,
    };
    request.declared.operator.mig_strategy.or(shown)
}

/// Whether slices of the new pool are called like whole cards, `nvidia.com/gpu`.
pub(super) fn keeps_the_name(request: &Request<'_>, kind: NodeGroupKind) -> bool {
    kind == NodeGroupKind::Gke || strategy(request) != Some(MigStrategy::Mixed)
}

/// The label by which a node tells its pool.
pub fn pool_label(kind: NodeGroupKind) -> Option<&'static str> {
    match kind {
        NodeGroupKind::Gke => Some("cloud.google.com/gke-nodepool"),
        NodeGroupKind::Aks => Some("kubernetes.azure.com/agentpool"),
        NodeGroupKind::Karpenter | NodeGroupKind::Eks | NodeGroupKind::ClusterApi => None,
    }
}

/// AKS's name for slices of this profile, `MIG2g`.
pub fn azure_profile(profile: &str) -> Option<String> {
    let name: ProfileName = profile.parse().ok()?;
    Some(format!("MIG{}g", name.compute_slices))
}

/// A name for a pool with such cards, within what the cloud takes: 40 characters on GKE; on AKS 12, of small letters and
/// digits.
pub(super) fn name_beside(group: &NodeGroup, cards: &PoolCards) -> String {
    let end = match cards {
        PoolCards::Partition { profile, .. } => {
            format!("-mig-{}", profile.split('.').next().unwrap_or_default())
        }
        PoolCards::TimeSharing { clients } => format!("-shared-{clients}"),
    };
    let (longest, end) = match group.kind {
        NodeGroupKind::Aks => (12, end.replace('-', "")),
        NodeGroupKind::Gke | NodeGroupKind::Karpenter | NodeGroupKind::Eks | NodeGroupKind::ClusterApi => {
            (40, end)
        }
    };
    let kept: String = group.name.chars().take(longest - end.len()).collect();
    format!("{}{end}", kept.trim_end_matches('-'))
}

/// Whether the cloud takes a pool of this name.
pub(super) fn may_be_called(kind: NodeGroupKind, name: &str) -> bool {
    let (longest, dash) = if kind == NodeGroupKind::Aks { (12, false) } else { (40, true) };
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || (dash && c == '-');
    name.len() <= longest
        && name.chars().all(good)
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
}

/// Labels that tell the new pool's nodes from the old one's, by key.
pub(super) fn labels_of(kind: NodeGroupKind, name: &str, cards: &PoolCards) -> BTreeMap<String, String> {
    let mut labels: BTreeMap<String, String> =
        pool_label(kind).map(|key| (key.to_owned(), name.to_owned())).into_iter().collect();
    match kind {
        NodeGroupKind::Gke => labels.extend(shared_labels(cards)),
        NodeGroupKind::Aks => {
            labels.insert("agentpool".to_owned(), name.to_owned());
        }
        NodeGroupKind::Karpenter | NodeGroupKind::Eks | NodeGroupKind::ClusterApi => {}
    }
    labels
}

/// Labels by which GKE tells what becomes of a node's cards.
fn shared_labels(cards: &PoolCards) -> BTreeMap<String, String> {
    let label = |key: &str, value: String| (key.to_owned(), value);
    match cards {
        PoolCards::Partition { profile, .. } => BTreeMap::from([label(PARTITION_LABEL, profile.clone())]),
        PoolCards::TimeSharing { clients } => BTreeMap::from([
            label(STRATEGY_LABEL, "time-sharing".to_owned()),
            label(CLIENTS_LABEL, clients.to_string()),
        ]),
    }
}

/// The node selector that brings a pod to the new pool: on GKE what becomes of its cards, where that tells the pool, else
/// its name as well. No other node of the cluster may carry all of it.
pub(super) fn binding(
    request: &Request<'_>,
    kind: NodeGroupKind,
    name: &str,
    cards: &PoolCards,
) -> BTreeMap<String, String> {
    let own = shared_labels(cards);
    let carries = |node: &Node| own.iter().all(|(key, value)| node.label(key) == Some(value.as_str()));
    let mut labels = labels_of(kind, name, cards);
    if kind == NodeGroupKind::Gke && !request.inventory.nodes.iter().any(carries) {
        return own;
    }
    labels.remove("agentpool");
    labels
}

/// Selector entries on the old pool's name in a workload's manifest, with the new one's.
pub(super) fn follows(
    request: &Request<'_>,
    id: &WorkloadId,
    (kind, name, cards): (NodeGroupKind, &str, &PoolCards),
) -> BTreeMap<String, String> {
    let declared = request.declared.of(id);
    let selects = |key: &String| declared.is_some_and(|declared| declared.node_selector.contains_key(key));
    labels_of(kind, name, cards).into_iter().filter(|(key, _)| selects(key)).collect()
}

/// A node of the new pool: like one of the old, but for what tells the two apart.
pub(super) fn node_like(old: &Node, kind: NodeGroupKind, name: &str, cards: &PoolCards) -> Node {
    let mut node = Node { name: format!("a node of {name}"), ..old.clone() };
    for (key, value) in labels_of(kind, name, cards) {
        node.labels.insert(sanitised_label(&key), value);
    }
    node
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: NodeGroupKind, old: &str, profile: &str, expected: &str) {
        let group = NodeGroup { kind, name: old.into(), labels: BTreeMap::new() };
        let name = name_beside(&group, &PoolCards::Partition { profile: profile.into(), per_card: 1 });
        assert_eq!(name, expected);
        assert!(may_be_called(kind, &name), "{name}");
    }

    #[test]
    fn names_are_those_that_the_cloud_takes() {
        check(NodeGroupKind::Gke, "gpu-a100", "2g.10gb", "gpu-a100-mig-2g");
        check(NodeGroupKind::Gke, &"a-".repeat(20), "1g.5gb", "a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-mig-1g");
        check(NodeGroupKind::Aks, "gpua100", "2g.10gb", "gpua100mig2g");
        check(NodeGroupKind::Aks, "gpuanalytics", "3g.20gb", "gpuanalmig3g");
        assert!(!may_be_called(NodeGroupKind::Aks, "gpu-a100"));
    }

    #[test]
    fn every_size_is_a_profile_of_its_model_and_every_model_is_known() {
        let catalog = crate::catalog::tests::catalog();
        for (id, sizes) in GKE_SIZES {
            let model = catalog.find(id).unwrap_or_else(|| panic!("{id}"));
            for size in sizes {
                assert!(model.profile(size.parse().unwrap()).is_some(), "{id} {size}");
            }
        }
        for id in AKS_MODELS {
            let model = catalog.find(id).unwrap_or_else(|| panic!("{id}"));
            let names: Vec<String> = model
                .profiles
                .iter()
                .filter(|profile| offers(NodeGroupKind::Aks, model, profile))
                .filter_map(|profile| azure_profile(&profile.name.to_string()))
                .collect();
            assert_eq!(names, ["MIG1g", "MIG2g", "MIG3g", "MIG4g"], "{id}");
        }
    }
}
