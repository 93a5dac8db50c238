//! Which kinds carry pods, and where: one row a kind.
//!
//! A new kind with a pod template is a row here. A kind that is not here and names a GPU is reported, never guessed.

use super::walk::At;

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
    /// Mappings with `limits` and `requests` that stand outside of any container.
    pub(super) resources: &'static [&'static str],
    /// The key of a pod that holds a GPU as `name` and `quantity`.
    pub(super) named: Option<&'static str>,
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
    Carrier { kind, group, pods, containers: &[], resources: &[], named: None, replicas, surge }
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
        resources: &[],
        named: None,
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
    // Its pods take the containers of the runtime; see `serving_runtime`.
    row("ServingRuntime", "serving.kserve.io", &["spec"], None, Surge::Unknown),
    // The pods are those of a JobSet of the same name, whose template is the runtime's: only the resources stand here.
    Carrier {
        kind: "TrainJob",
        group: "trainer.kubeflow.org",
        pods: &[],
        containers: &[],
        resources: &["spec.trainer.resourcesPerNode"],
        named: None,
        replicas: None,
        surge: Surge::Never,
    },
    // The operator writes `name` with `quantity` into the limits of the pod's Spark container.
    Carrier {
        kind: "SparkApplication",
        group: "sparkoperator.k8s.io",
        pods: &["spec.driver", "spec.executor"],
        containers: &[],
        resources: &[],
        named: Some("gpu"),
        replicas: None,
        surge: Surge::Never,
    },
    Carrier {
        kind: "NIMService",
        group: "apps.nvidia.com",
        pods: &["spec"],
        containers: &["spec"],
        resources: &[],
        named: None,
        replicas: Some("spec.replicas"),
        surge: Surge::Unknown,
    },
];

/// What makes a kind ask for a GPU in another way than its manifest's resources say, so that an edit would not do.
pub(super) fn obstacle(kind: &str, root: &At<'_>) -> Option<String> {
    let stands = |dotted: &str| root.down(dotted).is_some_and(|at| !at.node.is_null());
    match kind {
        // The operator adds `nvidia.com/gpu` of its own for a profile of the cache, unless that very name is asked for
        // (NVIDIA/k8s-nim-operator, addGPUResources).
        "NIMService" if stands("spec.storage.nimCache.profile") => Some(
            "its `nimCache.profile` makes the NIM operator add `nvidia.com/gpu` to whatever else it asks for"
                .to_owned(),
        ),
        "NIMService" if !root.all("spec.draResources[]").is_empty() => {
            Some("its pods claim devices by dynamic resource allocation as well".to_owned())
        }
        "NIMService" if stands("spec.multiNode") => {
            Some("it spans nodes: the NIM operator makes a LeaderWorkerSet of it".to_owned())
        }
        // Without a number, the trainer starts a process for every CPU unless the name of a resource holds `gpu`
        // (kubeflow/trainer, pkg/runtime/framework/plugins/torch).
        "TrainJob" => {
            let processes = root.down("spec.trainer.numProcPerNode");
            let counted = processes.and_then(|at| at.node.as_str()?.parse::<u32>().ok()).is_some();
            let cpu = |side: &str| stands(&format!("spec.trainer.resourcesPerNode.{side}.cpu"));
            (!counted && (cpu("limits") || cpu("requests"))).then(|| {
                "without a number in `numProcPerNode` the trainer starts a process for every CPU once no resource is called \
                 `gpu`"
                    .to_owned()
            })
        }
        "SparkApplication" => {
            let entries = root.down("spec.sparkConf").map(|at| at.node.entries()).unwrap_or_default();
            let (key, value) = entries.into_iter().find(|(key, _)| key.contains(".resource.gpu."))?;
            Some(format!("line {}: `{key}` lets Spark ask for `nvidia.com/gpu` by itself", value.line()))
        }
        _ => None,
    }
}

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
