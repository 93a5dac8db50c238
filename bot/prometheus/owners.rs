//! Pod → the owner that people know, from the owner series of one day.

use std::collections::BTreeMap;

use slicewright_core::ids::WorkloadId;
use slicewright_core::usage::fold::PodName;

use super::query::{KsmLabels, POD_LABELS};
use super::response::Series;

/// A kind and a name.
pub(super) type KindName = (String, String);

/// Owner series of one day.
#[derive(Clone, Debug, Default)]
pub(super) struct Owners {
    pub(super) pods: BTreeMap<PodName, PodOwner>,
    pub(super) replica_sets: BTreeMap<(String, String), KindName>,
    pub(super) jobs: BTreeMap<(String, String), KindName>,
    pub(super) deployments: BTreeMap<(String, String), KindName>,
    /// Pod → which of [`POD_LABELS`] and its value.
    pub(super) labels: BTreeMap<PodName, (usize, String)>,
}

/// What kube-state-metrics says of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PodOwner {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
    /// Scrapes at which the pod existed.
    pub(super) scrapes: u64,
}

/// Who a pod belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resolved {
    pub(super) id: WorkloadId,
    /// The object that holds the number of replicas.
    pub(super) controller: KindName,
    /// What counts as one run.
    pub(super) run: String,
}

impl Resolved {
    /// A pod that stands for itself: nothing says whose it is.
    pub(super) fn alone(pod: &PodName) -> Self {
        Self {
            id: WorkloadId::new("Pod", &pod.namespace, &pod.name),
            controller: ("Pod".to_owned(), pod.name.clone()),
            run: format!("{}/{}", pod.namespace, pod.name),
        }
    }
}

pub(super) fn pod_name(row: &Series, labels: KsmLabels) -> Option<PodName> {
    Some(PodName {
        namespace: row.label(labels.namespace)?.to_owned(),
        name: row.label(labels.pod)?.to_owned(),
    })
}

/// `<none>` up to kube-state-metrics 2.7, empty from 2.8 on.
fn owner(row: &Series) -> Option<KindName> {
    let kind = row.label("owner_kind").filter(|kind| *kind != "<none>")?;
    let name = row.label("owner_name").filter(|name| *name != "<none>")?;
    Some((kind.to_owned(), name.to_owned()))
}

impl Owners {
    pub(super) fn add_pods(&mut self, rows: &[Series], labels: KsmLabels) {
        for row in rows {
            let Some(pod) = pod_name(row, labels) else { continue };
            let (kind, name) = owner(row).unwrap_or_default();
            let scrapes = row.value().map_or(0, super::discover::whole);
            let entry = self.pods.entry(pod).or_default();
            entry.scrapes += scrapes;
            if entry.kind.is_empty() {
                (entry.kind, entry.name) = (kind, name);
            }
            entry.uid = row.label("uid").unwrap_or_default().to_owned();
        }
    }

    pub(super) fn add_owned(
        table: &mut BTreeMap<(String, String), KindName>,
        rows: &[Series],
        label: &str,
        labels: KsmLabels,
    ) {
        for row in rows {
            if let (Some(namespace), Some(name), Some(owner)) =
                (row.label(labels.namespace), row.label(label), owner(row))
            {
                table.entry((namespace.to_owned(), name.to_owned())).or_insert(owner);
            }
        }
    }

    pub(super) fn add_labels(&mut self, rows: &[Series], labels: KsmLabels) {
        for row in rows {
            let Some(pod) = pod_name(row, labels) else { continue };
            let found =
                POD_LABELS.iter().enumerate().find_map(|(i, label)| Some((i, row.label(label)?.to_owned())));
            if let Some(found) = found {
                self.labels.entry(pod).or_insert(found);
            }
        }
    }

    /// Keeps of an older day what this day does not say: a scrape may have missed a short-lived owner.
    pub(super) fn or_older(mut self, older: Self) -> Self {
        let add = |into: &mut BTreeMap<_, _>, from: BTreeMap<_, _>| {
            for (key, value) in from {
                into.entry(key).or_insert(value);
            }
        };
        add(&mut self.replica_sets, older.replica_sets);
        add(&mut self.jobs, older.jobs);
        add(&mut self.deployments, older.deployments);
        self
    }

    /// The owner of a pod; `None` when kube-state-metrics does not know the pod.
    pub(super) fn resolve(&self, pod: &PodName) -> Option<Resolved> {
        let found = self.pods.get(pod)?;
        let namespace = &pod.namespace;
        let uid = if found.uid.is_empty() { pod.name.clone() } else { found.uid.clone() };
        let mut run = format!("{namespace}/{uid}");
        let (mut kind, mut name) = match found.kind.as_str() {
            "" | "Node" => ("Pod".to_owned(), pod.name.clone()),
            _ => (found.kind.clone(), found.name.clone()),
        };
        if kind == "Pod" && name != pod.name {
            // Spark: executors belong to the driver's pod.
            let driver = self.pods.get(&PodName { namespace: namespace.clone(), name: name.clone() });
            if let Some(driver) = driver.filter(|driver| !matches!(driver.kind.as_str(), "" | "Pod")) {
                (kind, name) = (driver.kind.clone(), driver.name.clone());
            }
        }
        if kind == "Job" {
            run = format!("{namespace}/{name}");
        }
        let next = |table: &BTreeMap<(String, String), KindName>, name: &str| {
            table.get(&(namespace.clone(), name.to_owned())).cloned()
        };
        let mut controller = (kind.clone(), name.clone());
        // ReplicaSet → Deployment → its own owner, Job → CronJob or JobSet: never more than three steps.
        for _ in 0..3 {
            let up = match kind.as_str() {
                "ReplicaSet" => next(&self.replica_sets, &name),
                "Job" => next(&self.jobs, &name),
                // Knative's Revision changes its name with every roll-out: the Deployment's name says more.
                "Deployment" => next(&self.deployments, &name).filter(|(kind, _)| kind != "Revision"),
                _ => None,
            };
            let Some(up) = up else { break };
            (kind, name) = up;
            if matches!(kind.as_str(), "Deployment" | "Rollout" | "CronJob") {
                controller = (kind.clone(), name.clone());
            }
        }
        let (kind, name) = match self.labels.get(pod) {
            Some((0, notebook)) => ("Notebook".to_owned(), notebook.clone()),
            Some((1, set)) => ("LeaderWorkerSet".to_owned(), set.clone()),
            Some((_, service)) => ("InferenceService".to_owned(), service.clone()),
            None => normalised(kind, name),
        };
        Some(Resolved { id: WorkloadId::new(&kind, namespace, &name), controller, run })
    }
}

/// Names that change with every roll-out, as the name that people gave.
fn normalised(kind: String, name: String) -> KindName {
    if kind == "Deployment"
        && let Some(revision) = name.strip_suffix("-deployment")
        && let Some((service, number)) = revision.rsplit_once('-')
        && number.len() == 5
        && number.bytes().all(|b| b.is_ascii_digit())
    {
        return match service.strip_suffix("-predictor") {
            Some(service) => ("InferenceService".to_owned(), service.to_owned()),
            None => ("Service".to_owned(), service.to_owned()),
        };
    }
    if kind == "RayCluster"
        && let Some((service, suffix)) = name.rsplit_once("-raycluster-")
        && suffix.len() == 5
    {
        return ("RayService".to_owned(), service.to_owned());
    }
    (kind, name)
}

/// Whether a resource stands for a GPU or a part of one, and not for memory or a network card.
pub(super) fn is_gpu(resource: &str) -> bool {
    resource == "nvidia_com_gpu"
        || resource.starts_with("nvidia_com_gpu_")
        || resource.starts_with("nvidia_com_mig_")
}

/// Whether a resource says that cards are shared, and by what.
pub(super) fn shares(resource: &str) -> Option<&'static str> {
    if resource.ends_with("_shared") {
        Some("time-slicing (a `.shared` resource)")
    } else if resource.starts_with("nvidia_com_gpumem") || resource.starts_with("nvidia_com_gpucores") {
        Some("HAMi")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> PodName {
        PodName { namespace: "a".into(), name: name.into() }
    }

    fn owners() -> Owners {
        let owner = |kind: &str, name: &str| PodOwner {
            kind: kind.into(),
            name: name.into(),
            uid: "u".into(),
            scrapes: 1,
        };
        Owners {
            pods: BTreeMap::from([
                (pod("web-1"), owner("ReplicaSet", "web-abc")),
                (pod("roll-1"), owner("ReplicaSet", "roll-abc")),
                (pod("night-1"), owner("Job", "night-29")),
                (pod("once-1"), owner("Job", "once")),
                (pod("bare"), owner("", "")),
                (pod("exec-1"), owner("Pod", "driver")),
                (pod("driver"), owner("SparkApplication", "etl")),
                (pod("isvc-1"), owner("ReplicaSet", "llm-predictor-00008-deployment-x")),
                (pod("ray-1"), owner("RayCluster", "chat-raycluster-7xk2p")),
                (pod("nb-0"), owner("StatefulSet", "nb")),
            ]),
            replica_sets: BTreeMap::from([
                (("a".into(), "web-abc".into()), ("Deployment".into(), "web".into())),
                (("a".into(), "roll-abc".into()), ("Rollout".into(), "roll".into())),
                (
                    ("a".into(), "llm-predictor-00008-deployment-x".into()),
                    ("Deployment".into(), "llm-predictor-00008-deployment".into()),
                ),
            ]),
            jobs: BTreeMap::from([(("a".into(), "night-29".into()), ("CronJob".into(), "night".into()))]),
            deployments: BTreeMap::new(),
            labels: BTreeMap::from([(pod("nb-0"), (0, "nb".into()))]),
        }
    }

    #[test]
    fn pods_lead_to_the_owner_that_people_know() {
        let check = |name: &str, expected: &str| {
            let found = owners().resolve(&pod(name)).unwrap();
            assert_eq!(format!("{} {}", found.id.kind, found.id), expected);
            found
        };
        assert_eq!(check("web-1", "Deployment a/web").controller, ("Deployment".into(), "web".into()));
        check("roll-1", "Rollout a/roll");
        assert_eq!(check("night-1", "CronJob a/night").run, "a/night-29");
        assert_eq!(check("once-1", "Job a/once").run, "a/once");
        check("bare", "Pod a/bare");
        check("exec-1", "SparkApplication a/etl");
        check("isvc-1", "InferenceService a/llm");
        check("ray-1", "RayService a/chat");
        check("nb-0", "Notebook a/nb");
        assert_eq!(owners().resolve(&pod("unknown")), None);
    }

    #[test]
    fn memory_and_network_are_no_gpus() {
        assert!(is_gpu("nvidia_com_mig_7g_40gb") && is_gpu("nvidia_com_gpu_shared"));
        assert!(!is_gpu("nvidia_com_gpumem") && !is_gpu("nvidia_com_hostdev"));
    }
}
