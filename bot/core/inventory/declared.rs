//! What the infrastructure repository says of a cluster.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::ids::WorkloadId;

/// What the infrastructure repository says about a cluster, in this crate's words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declared {
    /// Workloads found, with where their GPU request stands or why it cannot be edited.
    pub workloads: BTreeMap<WorkloadId, DeclaredWorkload>,
    /// Further ids that a declaration of `workloads` may have in the cluster, where the repository does not say which:
    /// the values of a Helm chart from elsewhere do not name the kind that the chart makes. A workload that is declared
    /// under its own id is not looked for here.
    #[serde(default)]
    pub aliases: BTreeMap<WorkloadId, WorkloadId>,
    /// GPU Operator settings found in the repository or stated in the configuration.
    pub operator: Operator,
    /// Where node labels live.
    pub node_labels: BTreeMap<String, NodeCarrier>,
    /// Things a reviewer should know: unreadable files, ambiguous owners, as text with the place.
    pub notes: Vec<String>,
}

impl Declared {
    /// The workload's declaration, with the id that it stands under in the repository.
    pub fn find(&self, id: &WorkloadId) -> Option<(WorkloadId, &DeclaredWorkload)> {
        let own = id.declared_as().find_map(|id| self.workloads.get(&id).map(|declared| (id, declared)));
        own.or_else(|| {
            let id = id.declared_as().find_map(|id| self.aliases.get(&id))?;
            Some((id.clone(), self.workloads.get(id)?))
        })
    }

    /// The workload's declaration.
    pub fn of(&self, id: &WorkloadId) -> Option<&DeclaredWorkload> {
        self.find(id).map(|(_, declared)| declared)
    }
}

/// One workload as the repository declares it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredWorkload {
    /// `path:line` of the GPU limit.
    pub place: String,
    /// `Err` holds why the request cannot be edited safely.
    pub editable: Result<(), String>,
    /// `maxSurge` as written (a number, or a percentage of the replicas rounded up), else `None`.
    pub max_surge: Option<u32>,
    /// `replicas` as written.
    pub replicas: Option<u32>,
    /// `slicewright/ignore: "true"` on it, its pod template or its namespace.
    pub ignored: bool,
    /// Labels by Kubernetes key: of its pod template, else of the object. Where two declarations differ, the key is left
    /// out: either value may be the true one.
    pub labels: BTreeMap<String, String>,
    /// Node selector entries that a change of sharing would break or fix, such as `nvidia.com/gpu.product`.
    pub node_selector: BTreeMap<String, String>,
    /// Taints that its pods tolerate, as `key` (any value) or `key=value`; `*` for all.
    pub tolerations: BTreeSet<String>,
    /// A placement rule that the plan does not look into, so that its pods are not moved: required affinity, required
    /// anti-affinity, topology spread; with its place.
    pub pinned: Option<String>,
    /// Command-line flags and environment that take memory up front, as written: `--gpu-memory-utilization=0.9`.
    pub memory_flags: Vec<String>,
}

/// The GPU Operator as configured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operator {
    /// Namespace of the operator, where its config maps must be. Default `gpu-operator`.
    pub namespace: Option<String>,
    /// Version, `25.10.1`.
    pub version: Option<String>,
    /// `spec.mig.strategy`.
    pub mig_strategy: Option<MigStrategy>,
    /// `path:line` of the settings that `mig.strategy` belongs to. `None`: they are not in the repository.
    #[serde(default)]
    pub mig_strategy_place: Option<String>,
    /// The `GPUCluster` that puts the cluster's GPUs under dynamic resource allocation, with its place.
    #[serde(default)]
    pub gpu_cluster: Option<String>,
    /// `spec.migManager.config.name`.
    pub mig_config_map: Option<String>,
    /// `spec.devicePlugin.config.name`.
    pub plugin_config_map: Option<String>,
    /// `spec.devicePlugin.config.default`.
    pub plugin_config_default: Option<String>,
    /// Keys that the device plugin's config map holds already.
    pub plugin_config_keys: BTreeSet<String>,
    /// Names that the custom MIG config map holds already.
    pub mig_config_names: BTreeSet<String>,
    /// A `ClusterPolicy` (or its Helm values) was found in the repository.
    pub declared_in_repository: bool,
    /// What keeps labels for the MIG manager without effect, with its place.
    #[serde(default)]
    pub mig_manager_off: Option<String>,
    /// What keeps labels for the device plugin without effect, with its place.
    #[serde(default)]
    pub device_plugin_off: Option<String>,
}

/// `spec.mig.strategy` of the GPU Operator: how MIG devices are named to Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MigStrategy {
    /// MIG devices are not advertised.
    None,
    /// Every card of a node has the same slices, still named `nvidia.com/gpu`.
    Single,
    /// Slices are `nvidia.com/mig-<profile>`, whole cards stay `nvidia.com/gpu`.
    Mixed,
}

/// Where a node's labels are written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeCarrier {
    /// `path:line` of the `Node` manifest.
    pub place: String,
    /// The labels it declares, by Kubernetes key.
    pub labels: BTreeMap<String, String>,
    /// `Err` holds why it cannot be edited safely.
    pub editable: Result<(), String>,
}

impl NodeCarrier {
    /// The file alone: the change itself moves lines, so that a line of today is wrong once it is merged.
    pub fn file(&self) -> &str {
        self.place.rsplit_once(':').map_or(&self.place, |(file, _)| file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_is_asked_last() {
        let declared = |place: &str| DeclaredWorkload {
            place: place.to_owned(),
            editable: Ok(()),
            max_surge: None,
            replicas: None,
            ignored: false,
            labels: BTreeMap::new(),
            node_selector: BTreeMap::new(),
            tolerations: BTreeSet::new(),
            pinned: None,
            memory_flags: Vec::new(),
        };
        let release = WorkloadId::new("Release", "ai", "vllm");
        let deployment = WorkloadId::new("Deployment", "ai", "vllm");
        let mut all = Declared::default();
        all.workloads.insert(release.clone(), declared("values.yaml:4"));
        all.aliases.insert(deployment.clone(), release.clone());
        assert_eq!(all.find(&deployment).map(|(id, _)| id), Some(release));
        assert_eq!(all.of(&WorkloadId::new("StatefulSet", "ai", "vllm")), None);
        all.workloads.insert(deployment.clone(), declared("vllm.yaml:9"));
        assert_eq!(all.find(&deployment).map(|(id, _)| id), Some(deployment));
    }
}
