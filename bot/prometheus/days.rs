//! Reads one UTC day: what Kubernetes had, what the cards showed, whose it was.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};
use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp};
use slicewright_core::ids::WorkloadId;
use slicewright_core::units::Mib;
use slicewright_core::usage::fold::CardReading;
use slicewright_core::usage::fold::{DayFacts, PodDay, PodName};

use super::chunks::{Fetched, Merge, Spec, Stretch, Tally, ask, fetch};
use super::discover::{Discovery, whole};
use super::owners::{self, KindName, Owners, PodOwner};
use super::query::{self, FB_USED, Shard, range};
use super::response::Series;
use super::rows::{BLANK, BLANK_MIB, Key, Readings, Topic, exporting_jobs, key};
use super::{Ask, AskError, Source};

/// Fewest seconds between two looks at kernel width: a percentile of a ratio needs no denser sampling, and the
/// subquery costs ten times less than at one minute. It is still the dearest question of a day.
const WIDTH_STEP: u64 = 600;
/// Questions that may fail before the whole measurement does: a server in trouble is left alone.
const MOST_FAILURES: u32 = 12;

/// Reads days one after another.
pub(super) struct DayReader<'a, S> {
    pub(super) source: &'a S,
    pub(super) tally: &'a Tally,
    pub(super) discovery: &'a Discovery,
    /// Memory above which a reading cannot be true, by model.
    pub(super) bounds: BTreeMap<String, Mib>,
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
            let Some(resolved) = owned.resolve(pod) else { continue };
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
                running_seconds: (full > 0).then(|| stretch.seconds() * ran.min(full) / full),
                shared: wish.and_then(|wish| {
                    wish.by_resource.keys().find_map(|resource| owners::shares(resource)).map(str::to_owned)
                }),
                slice_profile: resource.strip_prefix("nvidia_com_mig_").map(owners::mig_profile),
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

    async fn cards(
        &mut self,
        day: Date,
        stretch: Stretch,
        incomplete: &mut Vec<String>,
    ) -> Result<Readings, AskError> {
        let queries = &self.discovery.queries;
        let mut readings = Readings::default();
        let mut jobs = self.discovery.exported_jobs.clone();
        let spec = |name, title, merge, query: Box<dyn Fn(&Shard, &str) -> String + Send + Sync>| Spec {
            name,
            title,
            merge,
            by_card: true,
            query,
        };
        let owned = queries.clone();
        let peak = vec![(
            Topic::Peak,
            spec(
                "memory-peak",
                "memory peaks",
                Merge::Highest,
                Box::new(move |s, w| owned.memory_peak(s, w)),
            ),
        )];
        let peaks = self.sharded(&peak, stretch).await;
        for (_, result) in &peaks {
            if let Ok(fetched) = result {
                jobs.extend(exporting_jobs(&fetched.series));
            }
        }
        self.take(peaks, &jobs, &mut readings, incomplete)?;
        if readings.by_key.is_empty() && incomplete.is_empty() {
            tracing::debug!(%day, "no GPU samples");
            return Ok(readings);
        }
        let mut specs: Vec<(Topic, Spec<'_>)> = Vec::new();
        {
            let mut add =
                |topic, name, title, merge, make: Box<dyn Fn(&Shard, &str) -> String + Send + Sync>| {
                    specs.push((topic, spec(name, title, merge, make)));
                };
            let q = queries.clone();
            add(
                Topic::Samples,
                "memory-samples",
                "memory samples",
                Merge::Sum,
                Box::new(move |s, w| q.memory_samples(s, w)),
            );
            let q = queries.clone();
            add(
                Topic::Median,
                "memory-median",
                "memory medians",
                Merge::Highest,
                Box::new(move |s, w| q.memory_median(s, w)),
            );
            for (topic, name, title, metrics) in [
                (Topic::Sm, "sm-p99", "SM_ACTIVE", query::SM_ACTIVE),
                (Topic::Gr, "gr-p99", "GR_ENGINE_ACTIVE", query::GR_ACTIVE),
                (Topic::Util, "util-p99", "GPU_UTIL", query::GPU_UTIL),
                (Topic::Dram, "dram-p99", "DRAM_ACTIVE", query::DRAM_ACTIVE),
            ] {
                if let Some(metric) = self.discovery.either(metrics) {
                    let q = queries.clone();
                    add(topic, name, title, Merge::Highest, Box::new(move |s, w| q.p99(metric, s, w)));
                }
            }
            for (topic, name, title, metrics) in [
                (Topic::Enc, "encoder-peak", "encoder use", query::ENC_UTIL),
                (Topic::Dec, "decoder-peak", "decoder use", query::DEC_UTIL),
            ] {
                if let Some(metric) = self.discovery.either(metrics) {
                    let q = queries.clone();
                    add(topic, name, title, Merge::Highest, Box::new(move |s, w| q.highest(metric, s, w)));
                }
            }
            if let (Some(sm), Some(gr)) =
                (self.discovery.either(query::SM_ACTIVE), self.discovery.either(query::GR_ACTIVE))
                && !self.width_failed
            {
                let q = queries.clone();
                let step = self.discovery.interval_seconds.max(WIDTH_STEP);
                add(
                    Topic::Width,
                    "kernel-width",
                    "kernel width",
                    Merge::Highest,
                    Box::new(move |s, w| q.kernel_width(sm, gr, s, w, step)),
                );
            }
        }
        let results = self.sharded(&specs, stretch).await;
        drop(specs);
        self.take(results, &jobs, &mut readings, incomplete)?;
        Ok(readings)
    }

    async fn sharded(
        &self,
        specs: &[(Topic, Spec<'_>)],
        stretch: Stretch,
    ) -> Vec<((Topic, &'static str), Result<Fetched, AskError>)> {
        let asked =
            self.shards.iter().flat_map(|shard| specs.iter().map(move |(topic, spec)| (shard, topic, spec)));
        let asked = asked.map(|(shard, topic, spec)| async move {
            let window = self.windows.get(spec.name).copied().unwrap_or(86_400);
            let result = fetch(self.source, self.tally, spec, stretch, shard, window).await;
            ((*topic, spec.name), result)
        });
        stream::iter(asked).buffered(self.concurrency).collect().await
    }

    fn take(
        &mut self,
        results: Vec<((Topic, &'static str), Result<Fetched, AskError>)>,
        jobs: &BTreeSet<String>,
        readings: &mut Readings,
        incomplete: &mut Vec<String>,
    ) -> Result<(), AskError> {
        for ((topic, name), result) in results {
            match result {
                Ok(fetched) => {
                    readings.add(topic, &fetched.series, jobs);
                    let window = self.windows.entry(name).or_insert(86_400);
                    *window = (*window).min(fetched.window_seconds);
                }
                Err(error) if error.problem.is_fatal() => return Err(error),
                Err(error) if topic == Topic::Width => {
                    tracing::info!(%error, "kernel width is left out");
                    self.width_failed = true;
                }
                Err(error) => {
                    self.failures += 1;
                    if self.failures > MOST_FAILURES {
                        return Err(error);
                    }
                    incomplete.push(error.to_string());
                }
            }
        }
        Ok(())
    }

    /// Looks again at values that cannot be true, one card and metric at a time, a bounded number of times a run.
    async fn repair(&mut self, readings: &mut Readings, stretch: Stretch) -> Result<(), AskError> {
        let suspects = std::mem::take(&mut readings.suspects);
        let mut looked: BTreeMap<(Topic, String), Option<Vec<Series>>> = BTreeMap::new();
        let jobs = self.discovery.exported_jobs.clone();
        for (topic, key_of) in suspects {
            let metric = match topic {
                Topic::Peak => Some(FB_USED),
                Topic::Sm => self.discovery.either(query::SM_ACTIVE),
                Topic::Gr => self.discovery.either(query::GR_ACTIVE),
                Topic::Util => self.discovery.either(query::GPU_UTIL),
                Topic::Dram => self.discovery.either(query::DRAM_ACTIVE),
                Topic::Samples | Topic::Median | Topic::Width | Topic::Enc | Topic::Dec => None,
            };
            let Some(metric) = metric else { continue };
            let place = (topic, key_of.0.clone());
            if !looked.contains_key(&place) {
                let rows = if self.repairs_left == 0 {
                    None
                } else {
                    self.repairs_left -= 1;
                    let ask_for = Ask {
                        name: "raw-samples",
                        what: format!("raw samples of `{metric}` of card {}", key_of.0),
                        query: self.discovery.queries.raw(metric, &key_of.0, &range(stretch.seconds())),
                        time: last_moment(stretch.end),
                    };
                    match ask(self.source, self.tally, &ask_for).await {
                        Ok(answer) => Some(answer.series),
                        Err(error) if error.problem.is_fatal() => return Err(error),
                        Err(_) => None,
                    }
                };
                looked.insert(place.clone(), rows);
            }
            let rows = looked.get(&place).and_then(Option::as_ref);
            let bound = readings
                .by_key
                .get(&key_of)
                .and_then(|reading| self.bounds.get(&reading.model_name))
                .copied();
            let good = rows.map(|rows| good_values(rows, topic, &key_of, bound, &jobs));
            readings.repair(topic, &key_of, good.as_deref().filter(|good| !good.is_empty()));
        }
        Ok(())
    }
}

/// The raw values of one reading that can be true.
fn good_values(
    rows: &[Series],
    topic: Topic,
    key_of: &Key,
    bound: Option<Mib>,
    jobs: &BTreeSet<String>,
) -> Vec<f64> {
    rows.iter()
        .filter(|row| key(row, jobs).as_ref() == Some(key_of))
        .flat_map(|row| row.samples.iter().map(|sample| sample.1))
        .filter_map(|value| match topic {
            Topic::Peak => {
                (value < BLANK_MIB && bound.is_none_or(|bound| Mib(whole(value)) <= bound)).then_some(value)
            }
            Topic::Util => (value <= 100.0).then_some(value / 100.0),
            _ => (value < BLANK && value <= 1.001).then_some(value),
        })
        .collect()
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

fn add_node_gpus(rows: &[Series], into: &mut BTreeMap<String, u64>) {
    for row in rows {
        if let (Some(node), Some(resource), Some(n)) = (row.label("node"), row.label("resource"), row.value())
            && owners::is_gpu(resource)
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
