//! Reads one cluster: discovery, the cluster of now, then day after day, oldest first.
//!
//! Loud where the server cannot be read at all; where a part of the window is missing, every workload that it may
//! concern carries [`DataGap::IncompleteAnswer`](slicewright_core::usage::DataGap::IncompleteAnswer).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Instant;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use slicewright_core::catalog::ProfileName;
use slicewright_core::ids::WorkloadId;
use slicewright_core::inventory::{Inventory, Pod, UnattributedPod, Workload};
use slicewright_core::units::Mib;
use slicewright_core::usage::fold::{FoldSettings, Folder, PodName};
use slicewright_core::usage::{Measured, Window, WorkloadProfile};

use super::chunks::{Stretch, Tally};
use super::days::{DayReader, SeenPod};
use super::discover::{Discovery, discover};
use super::owners::{KindName, Owners};
use super::query::Shard;
use super::slices::kubernetes_resource;
use super::today::{self, Today};
use super::{AskError, Source, findings};

/// What to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasureSettings {
    /// Name of the cluster in the configuration.
    pub cluster: String,
    /// Whole UTC days to look back; the current day so far comes on top.
    pub window_days: u32,
    /// The moment that counts as now.
    pub now: Timestamp,
    /// Label values that every series of this cluster carries: `cluster: dc1`.
    pub matchers: BTreeMap<String, String>,
    /// Samples that one query may scan; sets the number of shards. Doubled: half as many queries, each twice as
    /// heavy. 50 million is the default limit of a Prometheus.
    pub samples_per_query: u64,
    /// Queries at once.
    pub concurrency: usize,
    /// Whole memory by DCGM's `modelName`, from the catalog: used where the cluster does not say.
    pub model_memory: BTreeMap<String, Mib>,
    /// Every MIG profile of the catalog: what a resource's name, as kube-state-metrics prints it, may stand for.
    pub profile_names: BTreeSet<ProfileName>,
    /// Second looks at readings that cannot be true, a run. What is left over is refused.
    pub max_repairs: u32,
}

impl MeasureSettings {
    /// The defaults for a cluster: 30 days, 50 million samples a query, 2 queries at once, 200 second looks.
    pub fn new(cluster: &str, now: Timestamp) -> Self {
        Self {
            cluster: cluster.to_owned(),
            window_days: 30,
            now,
            matchers: BTreeMap::new(),
            samples_per_query: 50_000_000,
            concurrency: 2,
            model_memory: BTreeMap::new(),
            profile_names: BTreeSet::new(),
            max_repairs: 200,
        }
    }
}

/// Everything that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// The cluster as it is now, with workloads of the whole window.
    pub inventory: Inventory,
    /// What they were measured to use.
    pub measured: Measured,
    /// What the reading cost.
    pub stats: QueryStats,
}

/// What a measurement cost. Not part of a recording: a replay costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueryStats {
    /// Questions asked.
    pub n_queries: u64,
    /// What the server says its evaluations took together, in seconds; 0 where it does not say.
    pub server_seconds: f64,
    /// From the first question to the last fact, in seconds.
    pub wall_seconds: f64,
    /// Bytes of all answers, uncompressed.
    pub bytes: u64,
}

/// Nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The server could not be read.
    #[error("cannot measure cluster `{cluster}`")]
    Source {
        /// The cluster.
        cluster: String,
        /// What was asked and what came back.
        #[source]
        cause: AskError,
    },
    /// The window makes no sense.
    #[error("cannot look back {window_days} days from {now}: 1 to 400 days can be asked for")]
    Window {
        /// Days asked for.
        window_days: u32,
        /// From when.
        now: Timestamp,
    },
}

/// Told how far a measurement is.
pub trait Progress: Sync {
    /// `done` of `total` steps are done; `text` says what is next.
    fn step(&self, done: u32, total: u32, text: &str);
}

/// Tells nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Progress for Quiet {
    fn step(&self, _done: u32, _total: u32, _text: &str) {}
}

/// Reads a cluster.
///
/// # Errors
/// When the server cannot be reached, refuses, is not a Prometheus, or fails too often to go on.
#[tracing::instrument(skip_all, fields(cluster = settings.cluster))]
pub async fn measure(
    source: &impl Source,
    settings: &MeasureSettings,
    progress: &dyn Progress,
) -> Result<Measurement, MeasureError> {
    let started = Instant::now();
    let tally = Tally::default();
    let days = days(settings)
        .ok_or(MeasureError::Window { window_days: settings.window_days, now: settings.now })?;
    let failed = |cause| MeasureError::Source { cluster: settings.cluster.clone(), cause };
    let total = u32::try_from(days.len()).unwrap_or(u32::MAX).saturating_add(2);
    let concurrency = settings.concurrency.clamp(1, 16);

    progress.step(0, total, "looking which metrics there are");
    let found = discover(source, &tally, &settings.matchers, settings.now).await.map_err(failed)?;
    progress.step(1, total, "reading the cluster as it is now");
    let names = &settings.profile_names;
    let now = today::read(source, &tally, &found, names, settings.now, concurrency).await.map_err(failed)?;

    let window = Window {
        first: days.first().map_or(Date::ZERO, |(day, _)| *day),
        last: days.last().map_or(Date::ZERO, |(day, _)| *day),
        asked_days: settings.window_days,
        had_days: 0,
    };
    let mut card_memory = settings.model_memory.clone();
    card_memory.extend(now.framebuffer.clone());
    let mut folder = Folder::new(FoldSettings {
        window,
        card_memory,
        usable_memory: now.used_plus_free.clone(),
        slice_memory: now.slice_memory.clone(),
        nodes_today: now.nodes_today(),
        held_now: now.held_now(names),
        framework_says: now.framework_says.clone(),
    });
    // Cards may have been more earlier: half as many again.
    let per_day = found.n_cards.max(now.cards.len() as u64) * 86_400 / found.interval_seconds.max(1) * 3 / 2;
    let mut reader = DayReader {
        source,
        tally: &tally,
        discovery: &found,
        bounds: now.bounds(&settings.model_memory),
        names,
        shards: Shard::cut(per_day.div_ceil(settings.samples_per_query.max(1))),
        concurrency,
        repairs_left: settings.max_repairs,
        windows: BTreeMap::new(),
        failures: 0,
        width_failed: false,
        before: Owners::default(),
    };
    let mut ledger = Ledger::default();
    for (done, (day, stretch)) in days.iter().enumerate() {
        let done = u32::try_from(done).unwrap_or(u32::MAX).saturating_add(2);
        progress.step(done, total, &format!("reading {day}"));
        let read = reader.read(*day, *stretch).await.map_err(failed)?;
        for what in read.everybody {
            folder.incomplete_for_everybody(what);
        }
        folder.day(&read.facts);
        ledger.note(read.seen);
        ledger.drivers.extend(read.drivers);
    }
    progress.step(total, total, "done");
    let width_failed = reader.width_failed;

    let running = ledger.running(&now);
    let mut folded = folder.finish(&running, None);
    if width_failed {
        for profile in folded.profiles.values_mut() {
            profile.kernel_width_p95 = None;
        }
    }
    let inventory = ledger.inventory(settings, &now, &folded.profiles);
    let data_quality = findings::quality(&found, &now, &folded, &inventory, settings.window_days);
    let measured = Measured {
        profiles: folded.profiles,
        smallest_framebuffer: now.framebuffer,
        slice_memory: now.slice_memory,
        data_quality,
    };
    let micros = tally.server_micros.load(Ordering::Relaxed);
    let stats = QueryStats {
        n_queries: tally.n_queries.load(Ordering::Relaxed),
        server_seconds: std::time::Duration::from_micros(micros).as_secs_f64(),
        wall_seconds: started.elapsed().as_secs_f64(),
        bytes: tally.bytes.load(Ordering::Relaxed),
    };
    Ok(Measurement { inventory, measured, stats })
}

/// The UTC days of the window with their stretches; the last ends at `now`.
fn days(settings: &MeasureSettings) -> Option<Vec<(Date, Stretch)>> {
    if !(1..=400).contains(&settings.window_days) {
        return None;
    }
    let today = settings.now.to_zoned_datetime(TimeZone::UTC).date();
    let mut out = Vec::new();
    for back in (0..=settings.window_days).rev() {
        let day = today.checked_sub(SignedDuration::from_hours(i64::from(back) * 24)).ok()?;
        let start = day.to_zoned_datetime(TimeZone::UTC).ok()?.timestamp();
        let end = start.checked_add(SignedDuration::from_hours(24)).ok()?.min(settings.now);
        out.push((day, Stretch { start, end }));
    }
    // A first scrape needs a moment; a day of seconds would be a query for nothing.
    out.retain(|(_, stretch)| stretch.seconds() >= 1);
    Some(out)
}

/// What is remembered of pods and workloads while the days go by.
#[derive(Default)]
struct Ledger {
    workloads: BTreeMap<WorkloadId, Seen>,
    /// Owners of the pods of the last two days that had any.
    pods: [BTreeMap<PodName, (WorkloadId, String)>; 2],
    drivers: BTreeMap<String, String>,
}

#[derive(Default)]
struct Seen {
    resource: String,
    gpus: u32,
    containers: BTreeSet<String>,
    controller: KindName,
}

impl Ledger {
    fn note(&mut self, seen: Vec<SeenPod>) {
        if seen.is_empty() {
            return;
        }
        let mut today = BTreeMap::new();
        let mut fresh: BTreeSet<WorkloadId> = BTreeSet::new();
        for pod in seen {
            let entry = self.workloads.entry(pod.workload.clone()).or_default();
            if fresh.insert(pod.workload.clone()) {
                // Later days say better what it asks for now.
                *entry = Seen { controller: pod.controller, resource: pod.resource, ..Seen::default() };
            }
            entry.gpus = entry.gpus.max(pod.gpus);
            entry.containers.extend(pod.containers);
            today.insert(pod.pod, (pod.workload, pod.run));
        }
        self.pods.swap(0, 1);
        self.pods[1] = today;
    }

    fn owner(&self, pod: &PodName) -> Option<&(WorkloadId, String)> {
        self.pods[1].get(pod).or_else(|| self.pods[0].get(pod))
    }

    fn running(&self, now: &Today) -> BTreeSet<String> {
        now.pods
            .iter()
            .filter(|(_, pod)| pod.running)
            .filter_map(|(name, _)| self.owner(name).map(|(_, run)| run.clone()))
            .collect()
    }

    fn inventory(
        &self,
        settings: &MeasureSettings,
        now: &Today,
        profiles: &BTreeMap<WorkloadId, WorkloadProfile>,
    ) -> Inventory {
        let mut resources: BTreeMap<&WorkloadId, BTreeMap<&str, usize>> = BTreeMap::new();
        let mut pods: BTreeMap<&WorkloadId, Vec<Pod>> = BTreeMap::new();
        let mut unattributed = Vec::new();
        for (name, pod) in &now.pods {
            if !pod.running {
                continue;
            }
            let Some((id, _)) = self.owner(name) else {
                unattributed.push(UnattributedPod {
                    pod: format!("{}/{}", name.namespace, name.name),
                    node: pod.node.clone(),
                });
                continue;
            };
            *resources.entry(id).or_default().entry(&pod.resource).or_default() += 1;
            pods.entry(id).or_default().push(Pod {
                name: name.name.clone(),
                node: pod.node.clone(),
                cards: now.held.get(name).into_iter().flatten().cloned().collect(),
                slices: now.held_slices.get(name).into_iter().flatten().cloned().collect(),
                requests: pod.requests,
            });
        }
        let workloads = self
            .workloads
            .iter()
            .map(|(id, seen)| {
                let pods = pods.remove(id).unwrap_or_default();
                // While it rolls out, what most of its pods ask for.
                let asked = resources.get(id).and_then(|asked| {
                    asked.iter().min_by_key(|(_, n)| std::cmp::Reverse(**n)).map(|(resource, _)| *resource)
                });
                let held = profiles.get(id).and_then(|profile| profile.slice.as_deref());
                let (kind, name) = &seen.controller;
                let key = (kind.clone(), id.namespace.clone(), name.clone());
                let running = u32::try_from(pods.len()).unwrap_or(u32::MAX);
                let target = format!("{kind}/{name}");
                let hpa_max = now
                    .hpa_max
                    .iter()
                    .find(|((scaled, namespace, _), max)| {
                        *scaled == target && *namespace == id.namespace && **max > 0
                    })
                    .map(|(_, max)| *max);
                Workload {
                    id: id.clone(),
                    gpus_per_pod: seen.gpus,
                    resource: kubernetes_resource(
                        asked.unwrap_or(&seen.resource),
                        &settings.profile_names,
                        held,
                    ),
                    containers: seen.containers.iter().filter(|name| !name.is_empty()).cloned().collect(),
                    replicas: now.replicas.get(&key).copied().unwrap_or(running),
                    hpa_max,
                    max_surge: now
                        .max_surge
                        .get(&(id.namespace.clone(), name.clone()))
                        .copied()
                        .filter(|_| kind == "Deployment"),
                    namespace_labels: now.namespace_labels.get(&id.namespace).cloned().unwrap_or_default(),
                    pods,
                }
            })
            .collect();
        let mut nodes: Vec<_> = now.nodes.values().cloned().collect();
        for card in nodes.iter_mut().flat_map(|node| &mut node.cards) {
            if card.driver_version.is_none() {
                card.driver_version = self.drivers.get(&card.uuid).cloned();
            }
        }
        Inventory { cluster: settings.cluster.clone(), nodes, workloads, unattributed_pods: unattributed }
    }
}

/// Whether the discovery found anything to measure; for findings.
pub(super) fn is_measured(discovery: &Discovery) -> bool {
    super::discover::has_memory(discovery)
}

#[cfg(test)]
#[path = "measure_tests.rs"]
mod tests;
