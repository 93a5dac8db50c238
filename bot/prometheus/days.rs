//! Reads one UTC day: what Kubernetes had, what the cards showed, whose it was.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};
use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp};
use slicewright_core::catalog::ProfileName;
use slicewright_core::ids::WorkloadId;
use slicewright_core::usage::fold::CardReading;
use slicewright_core::usage::fold::{DayFacts, PodDay, PodName};

use super::chunks::{Merge, Spec, Stretch, Tally, fetch};
use super::discover::{Discovery, whole};
use super::owners::{self, KindName, Owners, PodOwner, Resolved};
use super::query::{self, Shard};
use super::response::Series;
use super::rows::Bounds;
use super::{AskError, Source, slices};

/// Reads days one after another.
pub(super) struct DayReader<'a, S> {
    pub(super) source: &'a S,
    pub(super) tally: &'a Tally,
    pub(super) discovery: &'a Discovery,
    pub(super) bounds: Bounds,
    /// Every MIG profile that a resource may stand for.
    pub(super) names: &'a BTreeSet<ProfileName>,
    pub(super) shards: Vec<Shard>,
    pub(super) concurrency: usize,
    pub(super) repairs_left: u32,
    /// Longest window that the server took yesterday, by query.
    pub(super) windows: BTreeMap<&'static str, u64>,
    pub(super) failures: u32,
    /// The width of kernels could not be read on some day: no figure is better than one that is too small.
    pub(super) width_failed: bool,
    pub(super) before: Owners,
}

/// What a day gave.
pub(super) struct DayRead {
    pub(super) facts: DayFacts,
    /// What each pod asks for, for the inventory.
    pub(super) seen: Vec<SeenPod>,
    /// Parts that could not be read and may concern anybody.
    pub(super) everybody: Vec<String>,
    pub(super) drivers: BTreeMap<String, String>,
}

/// A pod that asked for GPUs.
#[derive(Clone, Debug)]
pub(super) struct SeenPod {
    pub(super) pod: PodName,
    pub(super) workload: WorkloadId,
    pub(super) controller: KindName,
    pub(super) run: String,
    /// As kube-state-metrics prints it.
    pub(super) resource: String,
    pub(super) gpus: u32,
    pub(super) containers: BTreeSet<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kube {
    Requests,
    InitRequests,
    NodeGpus,
    Scrapes,
    Owners,
    ReplicaSets,
    Jobs,
    Deployments,
    Running,
    Labels,
}

/// What one pod asks for.
#[derive(Clone, Debug, Default)]
pub(super) struct Wish {
    pub(super) node: Option<String>,
    /// Resource → containers with their count.
    pub(super) by_resource: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Wish {
    /// The GPU resource, how many of it, and the containers that ask for it.
    pub(super) fn gpus(&self) -> Option<(&str, u32, BTreeSet<String>)> {
        let total = |containers: &BTreeMap<String, u64>| -> u32 {
            u32::try_from(containers.values().sum::<u64>()).unwrap_or(u32::MAX)
        };
        self.by_resource
            .iter()
            .filter(|(resource, containers)| owners::is_gpu(resource) && total(containers) > 0)
            .max_by_key(|(_, containers)| total(containers))
            .map(|(resource, containers)| {
                (resource.as_str(), total(containers), containers.keys().cloned().collect())
            })
    }
}

/// Groups request rows by pod.
pub(super) fn wishes(rows: &[Series], discovery: &Discovery, into: &mut BTreeMap<PodName, Wish>) {
    let labels = discovery.queries.ksm;
    for row in rows {
        let Some(pod) = owners::pod_name(row, labels) else { continue };
        let (Some(resource), Some(value)) = (row.label("resource"), row.value()) else { continue };
        let container = row.label(labels.container).unwrap_or_default().to_owned();
        let wish = into.entry(pod).or_default();
        if let Some(node) = row.label("node") {
            wish.node = Some(node.to_owned());
        }
        let count = wish.by_resource.entry(resource.to_owned()).or_default().entry(container).or_default();
        *count = (*count).max(whole(value));
    }
}

impl<S: Source> DayReader<'_, S> {
    /// Reads `day` from its start to `end`.
    pub(super) async fn read(&mut self, day: Date, stretch: Stretch) -> Result<DayRead, AskError> {
        let discovery = self.discovery;
        let queries = &discovery.queries;
        let mut incomplete: Vec<String> = Vec::new();
        let mut everybody: Vec<String> = Vec::new();

        // What Kubernetes had.
        let mut first = vec![
            (
                Kube::Requests,
                kube(discovery, "requests", "GPU requests", Merge::Highest, |q, w| {
                    q.requests("kube_pod_container_resource_requests", w)
                }),
            ),
            (
                Kube::NodeGpus,
                kube(discovery, "node-gpus", "GPUs of nodes", Merge::Highest, |q, w| q.gpus_of_nodes(w)),
            ),
            (
                Kube::Scrapes,
                kube(discovery, "scrapes", "scrapes of kube-state-metrics", Merge::Sum, |q, w| q.scrapes(w)),
            ),
        ];
        if self.discovery.has("kube_pod_init_container_resource_requests") {
            first.push((
                Kube::InitRequests,
                kube(
                    discovery,
                    "init-requests",
                    "GPU requests of init containers",
                    Merge::Highest,
                    |q, w| q.requests("kube_pod_init_container_resource_requests", w),
                ),
            ));
        }
        let mut wished: BTreeMap<PodName, Wish> = BTreeMap::new();
        let mut init: BTreeMap<PodName, Wish> = BTreeMap::new();
        let mut node_gpus: BTreeMap<String, u64> = BTreeMap::new();
        let mut scrapes = 0;
        for (kind, result) in self.all(&first, stretch).await? {
            match (kind, result) {
                (Kube::Requests, Ok(rows)) => wishes(&rows, self.discovery, &mut wished),
                (Kube::InitRequests, Ok(rows)) => wishes(&rows, self.discovery, &mut init),
                (Kube::NodeGpus, Ok(rows)) => add_node_gpus(&rows, &mut node_gpus),
                (Kube::Scrapes, Ok(rows)) => scrapes = rows.first().and_then(Series::value).map_or(0, whole),
                (_, Ok(_)) => {}
                (_, Err(error)) => everybody.push(error.to_string()),
            }
        }
        for (pod, wish) in init {
            let entry = wished.entry(pod).or_default();
            for (resource, containers) in wish.by_resource {
                // Init containers give back what they asked for: a pod's wish is the larger of the two sums.
                entry.by_resource.entry(resource).or_insert(containers);
            }
        }
        let mut names: BTreeSet<String> = wished.keys().map(|pod| pod.namespace.clone()).collect();
        // Holders without a request (dynamic allocation) and the exporter's own pods have owners too.
        names.extend(self.discovery.reading_namespaces.iter().cloned());
        let mut owned = Owners::default();
        let mut running: BTreeMap<PodName, u64> = BTreeMap::new();
        let has_phase = self.discovery.has("kube_pod_status_phase");
        let has_owners = self.discovery.has("kube_pod_owner");
        if !has_owners {
            everybody.push("owners of pods: there is no `kube_pod_owner` series".to_owned());
        }
        for piece in queries.namespaces(names.into_iter()) {
            let specs = self.owner_specs(&piece, has_phase);
            for (kind, result) in self.all(&specs, stretch).await? {
                let rows = match result {
                    Ok(rows) => rows,
                    Err(error) => {
                        everybody.push(error.to_string());
                        continue;
                    }
                };
                let labels = queries.ksm;
                match kind {
                    Kube::Owners => owned.add_pods(&rows, labels),
                    Kube::ReplicaSets => {
                        Owners::add_owned(&mut owned.replica_sets, &rows, "replicaset", labels)
                    }
                    Kube::Jobs => Owners::add_owned(&mut owned.jobs, &rows, "job_name", labels),
                    Kube::Deployments => {
                        Owners::add_owned(&mut owned.deployments, &rows, "deployment", labels)
                    }
                    Kube::Labels => owned.add_labels(&rows, labels),
                    Kube::Running => {
                        for row in &rows {
                            if let (Some(pod), Some(n)) = (owners::pod_name(row, labels), row.value()) {
                                *running.entry(pod).or_default() += whole(n);
                            }
                        }
                    }
                    Kube::Requests | Kube::InitRequests | Kube::NodeGpus | Kube::Scrapes => {}
                }
            }
        }
        let today = owned.clone();
        let owned = owned.or_older(std::mem::take(&mut self.before));
        self.before = today;
        let full = owned
            .pods
            .values()
            .map(|pod| pod.scrapes)
            .chain(running.values().copied())
            .max()
            .unwrap_or(0)
            .max(scrapes);

        // What the cards showed.
        let mut readings = self.cards(day, stretch, &mut incomplete).await?;
        readings.count_samples(stretch.seconds(), self.discovery.interval_seconds);
        readings.check_memory(&self.bounds);
        self.repair(&mut readings, stretch).await?;
        let drivers = std::mem::take(&mut readings.drivers);
        let mut cards: Vec<CardReading> = readings.by_key.into_values().collect();
        for reading in &mut cards {
            if reading.pod.as_ref().is_some_and(|pod| {
                !wished.contains_key(pod) && is_exporter(pod, owned.pods.get(pod), reading.host.as_deref())
            }) {
                reading.pod = None;
            }
        }

        // Whose it was.
        let mut held: BTreeMap<&PodName, u32> = BTreeMap::new();
        for reading in &cards {
            if let Some(pod) = &reading.pod {
                *held.entry(pod).or_default() += 1;
            }
        }
        let mut pods = Vec::new();
        let mut seen = Vec::new();
        let names: BTreeSet<&PodName> = wished.keys().chain(held.keys().copied()).collect();
        for pod in names {
            let resolved = owned.resolve(pod).or_else(|| (!has_owners).then(|| Resolved::alone(pod)));
            let Some(resolved) = resolved else { continue };
            let wish = wished.get(pod);
            let asked = wish.and_then(Wish::gpus);
            let Some((resource, gpus, containers)) =
                asked.or_else(|| held.get(pod).map(|n| ("nvidia_com_gpu", *n, BTreeSet::new())))
            else {
                continue;
            };
            let ran = if has_phase {
                running.get(pod).copied().unwrap_or(0)
            } else {
                owned.pods.get(pod).map_or(0, |pod| pod.scrapes)
            };
            pods.push(PodDay {
                pod: pod.clone(),
                workload: resolved.id.clone(),
                run: resolved.run.clone(),
                node: wish.and_then(|wish| wish.node.clone()),
                gpus,
                running_seconds: (full > 0 && (has_phase || has_owners))
                    .then(|| stretch.seconds() * ran.min(full) / full),
                shared: wish.and_then(|wish| {
                    wish.by_resource.keys().find_map(|resource| owners::shares(resource)).map(str::to_owned)
                }),
                slice_profile: slices::asked_profile(resource, self.names),
            });
            seen.push(SeenPod {
                pod: pod.clone(),
                workload: resolved.id,
                controller: resolved.controller,
                run: resolved.run,
                resource: resource.to_owned(),
                gpus,
                containers,
            });
        }
        let facts = DayFacts {
            day,
            seconds: stretch.seconds(),
            interval_seconds: self.discovery.interval_seconds,
            cards,
            pods,
            node_gpus,
            incomplete,
        };
        Ok(DayRead { facts, seen, everybody, drivers })
    }

    fn owner_specs(&self, namespaces: &str, has_phase: bool) -> Vec<(Kube, Spec<'_>)> {
        let has = |metric: &str| self.discovery.has(metric);
        let mut specs = Vec::new();
        let mut add = |kind, name, title, merge, make: fn(&query::Queries, &str, &str) -> String| {
            let namespaces = namespaces.to_owned();
            let queries = &self.discovery.queries;
            let query = Box::new(move |_: &Shard, window: &str| make(queries, &namespaces, window));
            specs.push((kind, Spec { name, title, merge, by_card: false, query }));
        };
        if has("kube_pod_owner") {
            add(Kube::Owners, "pod-owners", "owners of pods", Merge::Sum, |q, n, w| q.owners(n, w));
        }
        if has_phase {
            add(Kube::Running, "running", "running time of pods", Merge::Sum, |q, n, w| q.running(n, w));
        }
        if has("kube_replicaset_owner") {
            add(
                Kube::ReplicaSets,
                "replicaset-owners",
                "owners of ReplicaSets",
                Merge::Highest,
                |q, n, w| q.owners_of("kube_replicaset_owner", "replicaset", n, w),
            );
        }
        if has("kube_job_owner") {
            add(Kube::Jobs, "job-owners", "owners of Jobs", Merge::Highest, |q, n, w| {
                q.owners_of("kube_job_owner", "job_name", n, w)
            });
        }
        if has("kube_deployment_owner") {
            add(
                Kube::Deployments,
                "deployment-owners",
                "owners of Deployments",
                Merge::Highest,
                |q, n, w| q.owners_of("kube_deployment_owner", "deployment", n, w),
            );
        }
        if self.discovery.pod_labels {
            add(Kube::Labels, "pod-labels", "labels of pods", Merge::Highest, |q, n, w| q.pod_labels(n, w));
        }
        specs
    }

    /// Asks all of `specs`; a fatal error ends the day, others come back with their kind.
    async fn all<K: Copy>(
        &self,
        specs: &[(K, Spec<'_>)],
        stretch: Stretch,
    ) -> Result<Vec<(K, Result<Vec<Series>, AskError>)>, AskError> {
        let asked = specs.iter().map(|(kind, spec)| async move {
            let result = fetch(self.source, self.tally, spec, stretch, &Shard::All, 86_400).await;
            (*kind, result.map(|fetched| fetched.series))
        });
        let results: Vec<_> = stream::iter(asked).buffered(self.concurrency).collect().await;
        for (_, result) in &results {
            if let Err(error) = result
                && error.problem.is_fatal()
            {
                return Err(error.clone());
            }
        }
        Ok(results)
    }
}

/// A question about Kubernetes' objects of a day.
fn kube<'d>(
    discovery: &'d Discovery,
    name: &'static str,
    title: &'static str,
    merge: Merge,
    make: fn(&query::Queries, &str) -> String,
) -> Spec<'d> {
    let query = Box::new(move |_: &Shard, window: &str| make(&discovery.queries, window));
    Spec { name, title, merge, by_card: false, query }
}

/// One millisecond before an end, see [`fetch`].
pub(super) fn last_moment(end: Timestamp) -> Timestamp {
    end.checked_sub(SignedDuration::from_millis(1)).unwrap_or(end)
}

/// Slices with names of their own are left out: they are no seats on a card.
fn add_node_gpus(rows: &[Series], into: &mut BTreeMap<String, u64>) {
    for row in rows {
        if let (Some(node), Some(resource), Some(n)) = (row.label("node"), row.label("resource"), row.value())
            && owners::is_gpu(resource)
            && !slices::is_slice(resource)
        {
            *into.entry(node.to_owned()).or_default() += whole(n);
        }
    }
}

/// With `honorLabels` an idle card carries the exporter's own pod.
fn is_exporter(pod: &PodName, owner: Option<&PodOwner>, host: Option<&str>) -> bool {
    pod.name.contains("dcgm-exporter")
        || host == Some(pod.name.as_str())
        || owner.is_some_and(|owner| owner.kind == "DaemonSet")
}
