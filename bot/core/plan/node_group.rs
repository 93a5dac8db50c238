//! Which declared group the nodes of a pool come from, read off labels that all of them carry with one value.
//!
//! Where a group is declared is the question of `infra`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::inventory::Node;

/// A group of equal nodes that is declared outside of the nodes themselves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeGroup {
    /// What makes its nodes.
    pub kind: NodeGroupKind,
    /// The name that the nodes carry, `gpu-a100`. Empty: the nodes tell no name, only the labels below.
    pub name: String,
    /// For Cluster API, the labels that it copies from machines to nodes, with keys as kube-state-metrics spells them:
    /// `node_cluster_x_k8s_io_pool`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// What makes the nodes of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeGroupKind {
    /// A Karpenter `NodePool`.
    Karpenter,
    /// A managed node group of EKS.
    Eks,
    /// A node pool of GKE.
    Gke,
    /// A node pool of AKS.
    Aks,
    /// A `MachineDeployment` or `MachinePool` of Cluster API.
    ClusterApi,
}

impl NodeGroupKind {
    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Karpenter => "Karpenter NodePool",
            Self::Eks => "EKS node group",
            Self::Gke => "GKE node pool",
            Self::Aks => "AKS node pool",
            Self::ClusterApi => "Cluster API machines",
        }
    }
}

/// Karpenter comes first: it makes nodes on any cloud, and the cloud's own label may stand beside its own.
const NAMES: [(&str, NodeGroupKind); 6] = [
    ("karpenter.sh/nodepool", NodeGroupKind::Karpenter),
    ("eks.amazonaws.com/nodegroup", NodeGroupKind::Eks),
    ("cloud.google.com/gke-nodepool", NodeGroupKind::Gke),
    ("kubernetes.azure.com/agentpool", NodeGroupKind::Aks),
    ("agentpool", NodeGroupKind::Aks),
    // Cluster API sets it on machines; some platforms copy it to nodes.
    ("cluster.x-k8s.io/deployment-name", NodeGroupKind::ClusterApi),
];

/// Cluster API copies labels of this domain from machines to nodes, here as kube-state-metrics spells it.
const SYNCED: &str = "node_cluster_x_k8s_io_";

impl NodeGroup {
    /// The group that all of `nodes` come from; `None` where their labels do not tell, or tell of several.
    pub fn of<'n>(nodes: impl IntoIterator<Item = &'n Node>) -> Option<Self> {
        let nodes: Vec<&Node> = nodes.into_iter().collect();
        let (first, others) = nodes.split_first()?;
        let shared = |key: &str| {
            let value = first.label(key)?;
            others.iter().all(|node| node.label(key) == Some(value)).then(|| value.to_owned())
        };
        let labels: BTreeMap<String, String> = first
            .labels
            .iter()
            .filter(|(key, value)| key.starts_with(SYNCED) && !value.is_empty())
            .filter(|(key, value)| others.iter().all(|node| node.labels.get(*key) == Some(*value)))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let with = |kind: NodeGroupKind, name: String| {
            let labels = if kind == NodeGroupKind::ClusterApi { labels.clone() } else { BTreeMap::new() };
            Self { kind, name, labels }
        };
        if let Some((key, kind)) =
            NAMES.iter().find(|(key, _)| nodes.iter().any(|node| node.label(key).is_some()))
        {
            return shared(key).map(|name| with(*kind, name));
        }
        (!labels.is_empty()).then(|| with(NodeGroupKind::ClusterApi, String::new()))
    }
}

impl std::fmt::Display for NodeGroup {
    /// ``Karpenter NodePool `gpu-a100` ``
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.kind.name())?;
        if !self.name.is_empty() {
            return write!(f, " `{}`", self.name);
        }
        let labels: Vec<String> =
            self.labels.iter().map(|(key, value)| format!("`{key}: {value}`")).collect();
        write!(f, " labelled {}", labels.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::sanitised_label;

    fn check(nodes: &[&[(&str, &str)]], expected: Option<(NodeGroupKind, &str)>) {
        let nodes: Vec<Node> = nodes
            .iter()
            .enumerate()
            .map(|(n, labels)| Node {
                name: format!("n{n}"),
                labels: labels
                    .iter()
                    .map(|(key, value)| (sanitised_label(key), (*value).to_owned()))
                    .collect(),
                ..Node::default()
            })
            .collect();
        let found = NodeGroup::of(&nodes);
        assert_eq!(found.as_ref().map(|group| (group.kind, group.name.as_str())), expected);
    }

    #[test]
    fn all_nodes_must_carry_one_value() {
        let gpu: &[(&str, &str)] = &[("karpenter.sh/nodepool", "gpu")];
        check(&[gpu, gpu], Some((NodeGroupKind::Karpenter, "gpu")));
        check(&[gpu, &[("karpenter.sh/nodepool", "other")]], None);
        check(&[gpu, &[]], None);
        check(&[], None);
    }

    #[test]
    fn karpenter_comes_before_the_cloud_that_it_runs_on() {
        let both: &[(&str, &str)] = &[("karpenter.sh/nodepool", "gpu"), ("agentpool", "system")];
        check(&[both], Some((NodeGroupKind::Karpenter, "gpu")));
        check(&[both, &[("agentpool", "system")]], None);
        check(&[&[("agentpool", "gpua100")]], Some((NodeGroupKind::Aks, "gpua100")));
    }

    #[test]
    fn cluster_api_is_told_by_the_labels_that_it_copies() {
        let gpu: &[(&str, &str)] = &[("node.cluster.x-k8s.io/pool", "gpu")];
        check(&[gpu, gpu], Some((NodeGroupKind::ClusterApi, "")));
        check(&[gpu, &[("node.cluster.x-k8s.io/pool", "cpu")]], None);
    }
}
