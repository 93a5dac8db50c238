//! Which kinds carry pods, and where: one row a kind.
//!
//! A new kind with a pod template is a row here. A kind that is not here and names a GPU is reported, never guessed.

/// What a kind does with extra pods while it rolls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Surge {
    /// Old pods leave before new ones come.
    Never,
    /// `spec.strategy`, with the default of 25 %.
    Deployment,
    /// `spec.updateStrategy.rollingUpdate.maxSurge`, with the default of 0.
    DaemonSet,
    /// `spec.strategy.canary.maxSurge` with the default of 25 %; blue-green doubles the replicas.
    Rollout,
    /// `spec.rolloutStrategy.rollingUpdateConfiguration.maxSurge`, with the default of 0.
    LeaderWorkerSet,
    /// Depends on more than the manifest says.
    Unknown,
}

/// One kind that carries pods.
///
/// Paths are dotted keys; `[]` stands for every entry of a list, `*` for every value of a mapping.
#[derive(Debug)]
pub(super) struct Carrier {
    /// `Deployment`.
    pub(super) kind: &'static str,
    /// `apiVersion` up to the slash; empty for the core group.
    pub(super) group: &'static str,
    /// Pod specs.
    pub(super) pods: &'static [&'static str],
    /// Containers that stand outside of a pod spec's `containers`.
    pub(super) containers: &'static [&'static str],
    /// Where `replicas` stands, if the kind has one number for it.
    pub(super) replicas: Option<&'static str>,
    /// Extra pods while it rolls.
    pub(super) surge: Surge,
}

const TEMPLATE: &[&str] = &["spec.template.spec"];

const RAY_CLUSTER: &[&str] = &["spec.headGroupSpec.template.spec", "spec.workerGroupSpecs[].template.spec"];

const fn row(
    kind: &'static str,
    group: &'static str,
    pods: &'static [&'static str],
    replicas: Option<&'static str>,
    surge: Surge,
) -> Carrier {
    Carrier { kind, group, pods, containers: &[], replicas, surge }
}

/// Every kind whose pods the bot finds in plain manifests.
pub(super) const CARRIERS: &[Carrier] = &[
    row("Deployment", "apps", TEMPLATE, Some("spec.replicas"), Surge::Deployment),
    row("StatefulSet", "apps", TEMPLATE, Some("spec.replicas"), Surge::Never),
    row("DaemonSet", "apps", TEMPLATE, None, Surge::DaemonSet),
    row("ReplicaSet", "apps", TEMPLATE, Some("spec.replicas"), Surge::Never),
    row("ReplicationController", "", TEMPLATE, Some("spec.replicas"), Surge::Never),
    row("Pod", "", &["spec"], None, Surge::Never),
    row("Job", "batch", TEMPLATE, None, Surge::Never),
    row("CronJob", "batch", &["spec.jobTemplate.spec.template.spec"], None, Surge::Never),
    row("Job", "batch.volcano.sh", &["spec.tasks[].template.spec"], None, Surge::Never),
    row("Rollout", "argoproj.io", TEMPLATE, Some("spec.replicas"), Surge::Rollout),
    row("Notebook", "kubeflow.org", TEMPLATE, None, Surge::Never),
    row("PyTorchJob", "kubeflow.org", &["spec.pytorchReplicaSpecs.*.template.spec"], None, Surge::Never),
    row("TFJob", "kubeflow.org", &["spec.tfReplicaSpecs.*.template.spec"], None, Surge::Never),
    row("MPIJob", "kubeflow.org", &["spec.mpiReplicaSpecs.*.template.spec"], None, Surge::Never),
    row("XGBoostJob", "kubeflow.org", &["spec.xgbReplicaSpecs.*.template.spec"], None, Surge::Never),
    row("PaddleJob", "kubeflow.org", &["spec.paddleReplicaSpecs.*.template.spec"], None, Surge::Never),
    row("RayCluster", "ray.io", RAY_CLUSTER, None, Surge::Unknown),
    row(
        "RayJob",
        "ray.io",
        &[
            "spec.rayClusterSpec.headGroupSpec.template.spec",
            "spec.rayClusterSpec.workerGroupSpecs[].template.spec",
        ],
        None,
        Surge::Never,
    ),
    row(
        "RayService",
        "ray.io",
        &[
            "spec.rayClusterConfig.headGroupSpec.template.spec",
            "spec.rayClusterConfig.workerGroupSpecs[].template.spec",
        ],
        None,
        Surge::Unknown,
    ),
    Carrier {
        kind: "InferenceService",
        group: "serving.kserve.io",
        pods: &["spec.predictor", "spec.transformer", "spec.explainer"],
        containers: &[
            "spec.predictor.model",
            "spec.predictor.huggingface",
            "spec.predictor.onnx",
            "spec.predictor.pytorch",
            "spec.predictor.tensorflow",
            "spec.predictor.triton",
        ],
        replicas: Some("spec.predictor.minReplicas"),
        surge: Surge::Unknown,
    },
    row(
        "LeaderWorkerSet",
        "leaderworkerset.x-k8s.io",
        &["spec.leaderWorkerTemplate.leaderTemplate.spec", "spec.leaderWorkerTemplate.workerTemplate.spec"],
        Some("spec.replicas"),
        Surge::LeaderWorkerSet,
    ),
    row(
        "JobSet",
        "jobset.x-k8s.io",
        &["spec.replicatedJobs[].template.spec.template.spec"],
        None,
        Surge::Never,
    ),
    row("Service", "serving.knative.dev", TEMPLATE, None, Surge::Unknown),
];

/// The row for a document's `apiVersion` and `kind`.
pub(super) fn carrier(api_version: &str, kind: &str) -> Option<&'static Carrier> {
    let group = group(api_version);
    CARRIERS.iter().find(|row| {
        row.kind == kind && (row.group == group || (row.group == "apps" && group == "extensions"))
    })
}

/// `apps` of `apps/v1`; empty for the core group.
pub(super) fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_tells_two_kinds_of_one_name_apart() {
        assert_eq!(carrier("batch/v1", "Job").unwrap().pods, ["spec.template.spec"]);
        assert_eq!(carrier("batch.volcano.sh/v1alpha1", "Job").unwrap().pods, ["spec.tasks[].template.spec"]);
        assert!(carrier("v1", "Service").is_none());
        assert!(carrier("v1", "Deployment").is_none());
    }
}
