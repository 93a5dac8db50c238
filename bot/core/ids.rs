//! Names of things, as the cluster and the repository know them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The owner that people know: a Deployment, StatefulSet, Notebook, PyTorchJob … of one namespace.
///
/// Displays as `namespace/name`; ordered by namespace, name, kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkloadId {
    /// Kubernetes namespace.
    pub namespace: String,
    /// Name of the owner.
    pub name: String,
    /// Kind of the owner, `Deployment`.
    pub kind: String,
}

impl WorkloadId {
    /// Builds an id from its three parts.
    pub fn new(kind: &str, namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned(), kind: kind.to_owned() }
    }

    /// How a repository may declare it, the likeliest first.
    ///
    /// A `Notebook` is known by a label of its pods alone, and a StatefulSet of that name may carry the label without
    /// the notebook controller. Where metrics end at what an operator made, the operator's kind is told by the name that
    /// it gives: NVIDIA's names a NIMService's Deployment after it, KServe adds `-predictor` to that of an
    /// InferenceService, and Kubeflow names a TrainJob's JobSet after it.
    pub fn declared_as(&self) -> impl Iterator<Item = Self> {
        let like = |kind: &str, name: &str| Self::new(kind, &self.namespace, name);
        let built = match self.kind.as_str() {
            "Notebook" => vec![like("StatefulSet", &self.name)],
            "Deployment" => {
                let predictor = self.name.strip_suffix("-predictor").filter(|name| !name.is_empty());
                let service = predictor.map(|name| like("InferenceService", name));
                std::iter::once(like("NIMService", &self.name)).chain(service).collect()
            }
            "JobSet" => vec![like("TrainJob", &self.name)],
            _ => Vec::new(),
        };
        std::iter::once(self.clone()).chain(built)
    }
}

impl fmt::Display for WorkloadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A pool of nodes of one kind in one cluster. Displays as `cluster/pool`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PoolId {
    /// Cluster as named in the configuration.
    pub cluster: String,
    /// Pool as named in the configuration, or found from node labels.
    pub pool: String,
}

impl PoolId {
    /// The branch of this pool's proposal: `slicewright/<cluster>/<pool>`, as slugs.
    ///
    /// Two pools whose slugs meet are told apart by the caller with [`PoolId::branch_with_hash`].
    pub fn branch(&self, prefix: &str) -> String {
        format!("{prefix}/{}/{}", slug(&self.cluster), slug(&self.pool))
    }

    /// As [`PoolId::branch`], with six hex digits of the exact names' hash at the end.
    pub fn branch_with_hash(&self, prefix: &str) -> String {
        let digest = short_hash(&format!("{}\0{}", self.cluster, self.pool), 6);
        format!("{}-{digest}", self.branch(prefix))
    }
}

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.cluster, self.pool)
    }
}

/// A name as a slug of `[a-z0-9-]`: other characters become one `-`, none at the ends; `x` if nothing is left.
pub fn slug(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars().flat_map(char::to_lowercase) {
        if c.is_ascii_alphanumeric() {
            out.push(c);
        } else if !out.ends_with('-') && !out.is_empty() {
            out.push('-');
        }
    }
    let trimmed = out.trim_end_matches('-');
    if trimmed.is_empty() { "x".to_owned() } else { trimmed.to_owned() }
}

/// The first `digits` hex digits of the SHA-256 of `text`.
pub fn short_hash(text: &str, digits: usize) -> String {
    use sha2::{Digest, Sha256};
    let mut out: String = Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    out.truncate(digits);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_hold_slugs_only() {
        let id = PoolId { cluster: "DC 1/west".into(), pool: "a100_40GB..".into() };
        assert_eq!(id.branch("slicewright"), "slicewright/dc-1-west/a100-40gb");
        assert!(id.branch_with_hash("slicewright").starts_with("slicewright/dc-1-west/a100-40gb-"));
        assert_eq!(slug("…"), "x");
    }

    #[test]
    fn a_workload_is_declared_as_what_makes_it() {
        let check = |kind: &str, name: &str, expected: &[&str]| {
            let found: Vec<String> = WorkloadId::new(kind, "ai", name)
                .declared_as()
                .map(|id| format!("{} {}", id.kind, id.name))
                .collect();
            assert_eq!(found, expected);
        };
        check("Notebook", "nb", &["Notebook nb", "StatefulSet nb"]);
        check("JobSet", "tune", &["JobSet tune", "TrainJob tune"]);
        check(
            "Deployment",
            "llm-predictor",
            &["Deployment llm-predictor", "NIMService llm-predictor", "InferenceService llm"],
        );
        check("Deployment", "-predictor", &["Deployment -predictor", "NIMService -predictor"]);
        check("StatefulSet", "db", &["StatefulSet db"]);
    }

    #[test]
    fn hashes_are_stable() {
        assert_eq!(short_hash("", 6), "e3b0c4");
    }
}
