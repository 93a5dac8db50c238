//! Folds one day's answers after another into workload profiles, in bounded memory.
//!
//! A day is a list of plain facts: what each card read under each pod, and which pods existed. What is kept between
//! days grows with workloads and days, not with samples: daily peaks, worst days, and eight bytes a pod.
//!
//! **Coverage** is memory samples had over samples that the pods' running time should have given. Running time comes
//! from kube-state-metrics, as the share of its own scrapes of that day at which the pod ran, times the whole day: a
//! pod of one hour is expected to have one hour of samples, and an hour in which nothing was scraped at all still
//! counts against everyone who ran through it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;

use super::places::{Place, Places};
use super::sharing::{self, Handed, NotAlone};
use super::{DataGap, DayPeak, Window, WorkloadProfile};
use crate::ids::WorkloadId;
use crate::units::{Mib, Ratio};

/// A pod by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodName {
    /// Kubernetes namespace.
    pub namespace: String,
    /// Pod name.
    pub name: String,
}

/// A MIG instance on a card.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SliceName {
    /// GPU_I_ID, opaque.
    pub id: String,
    /// List spelling of GPU_I_PROFILE, `1g.10gb`; [`UNKNOWN_PROFILE`](crate::inventory::UNKNOWN_PROFILE) where DCGM
    /// prints none.
    pub profile: String,
}

/// What one card (or slice of it) read under one pod on one day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardReading {
    /// Card UUID, of the parent under MIG.
    pub card: String,
    /// The slice, under MIG.
    pub slice: Option<SliceName>,
    /// DCGM's `modelName`.
    pub model_name: String,
    /// The node as the exporter names it; may be the exporter's pod.
    pub host: Option<String>,
    /// The pod that held it. `None`: nobody.
    pub pod: Option<PodName>,
    /// The exporter numbered the pods of this card (`vgpu`): it is shared.
    pub vgpu: bool,
    /// Allotted by Dynamic Resource Allocation.
    pub dra: bool,
    /// Highest memory. `None`: no usable reading.
    pub peak: Option<Mib>,
    /// Median memory.
    pub median: Option<Mib>,
    /// Memory samples, each moment counted once.
    pub samples: u64,
    /// 99th percentiles of SM_ACTIVE, GR_ENGINE_ACTIVE and GPU_UTIL ÷ 100.
    pub compute_p99: [Option<Ratio>; 3],
    /// 99th percentile of DRAM_ACTIVE.
    pub bandwidth_p99: Option<Ratio>,
    /// 95th percentile of SM_ACTIVE ÷ GR_ENGINE_ACTIVE while busy.
    pub kernel_width_p95: Option<Ratio>,
    /// Encoder or decoder were used.
    pub media_engines_used: Option<bool>,
    /// A reading above the card's memory that could not be repaired, in MiB.
    pub impossible: Option<u64>,
}

/// A pod that asks for GPUs, on one day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodDay {
    /// The pod.
    pub pod: PodName,
    /// Its owner that people know.
    pub workload: WorkloadId,
    /// What counts as one run of a batch workload: the Job of a CronJob, else the pod's uid.
    pub run: String,
    /// Node, if scheduled.
    pub node: Option<String>,
    /// GPUs (or slices) that it asks for.
    pub gpus: u32,
    /// Seconds of the day in which it ran. `None`: not known.
    pub running_seconds: Option<u64>,
    /// Its resource says that the card is shared: `nvidia.com/gpu.shared`, HAMi.
    pub shared: Option<String>,
    /// Its resource says that it is on a slice: list spelling of the profile, `1g.5gb`;
    /// [`UNKNOWN_PROFILE`](crate::inventory::UNKNOWN_PROFILE) where the name may stand for several.
    pub slice_profile: Option<String>,
}

/// One UTC day as it was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayFacts {
    /// Which day.
    pub day: Date,
    /// Its length so far.
    pub seconds: u64,
    /// Seconds between two samples of one series.
    pub interval_seconds: u64,
    /// Readings by card and pod.
    pub cards: Vec<CardReading>,
    /// Pods that ask for GPUs.
    pub pods: Vec<PodDay>,
    /// GPUs that each node offered that day, all whole or shared resources together; slices with names of their own
    /// are not among them.
    pub node_gpus: BTreeMap<String, u64>,
    /// Parts of the day that could not be read.
    pub incomplete: Vec<String>,
}

/// What is known before the first day is folded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoldSettings {
    /// First and last day asked for.
    pub window: Window,
    /// Whole memory of a card by model, for plateaus. Absent: not known.
    pub card_memory: BTreeMap<String, Mib>,
    /// `FB_USED + FB_FREE` by model, the base that some frameworks take their fraction of.
    pub usable_memory: BTreeMap<String, Mib>,
    /// The same of real slices, by model and profile.
    pub slice_memory: BTreeMap<String, BTreeMap<String, Mib>>,
    /// Nodes of today that do not hand out whole cards or readable slices, one pod each; used on days whose own facts
    /// are silent.
    pub nodes_today: BTreeMap<String, NodeToday>,
    /// What the pods that run now hold, as far as it is known.
    pub held_now: BTreeMap<PodName, HeldNow>,
    /// Pods whose framework says on a metric of its own that it takes memory up front: framework and evidence.
    pub framework_says: BTreeMap<PodName, (String, String)>,
}

/// What a node hands out today, where that is neither whole cards nor readable slices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeToday {
    /// Cards to several pods each, and how: `time-slicing`, `MPS`.
    SharedCards(String),
    /// Slices to several pods each.
    SharedSlices,
    /// Slices of this profile under the name of whole GPUs, and the exporter shows no instance.
    UnreadSlices(String),
}

/// What one pod holds now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HeldNow {
    /// Whole cards.
    Whole,
    /// MIG slices of this profile, in list spelling.
    Slice(String),
}

impl HeldNow {
    /// What most of the pods hold. Whole cards count where the same number holds either: for those more is known.
    pub fn of_most(pods: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut counts: BTreeMap<Self, usize> = BTreeMap::new();
        for held in pods {
            *counts.entry(held).or_default() += 1;
        }
        counts.into_iter().min_by_key(|(_, n)| std::cmp::Reverse(*n)).map(|(held, _)| held)
    }
}

/// What is left when all days are folded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    /// One profile a workload.
    pub profiles: BTreeMap<WorkloadId, WorkloadProfile>,
    /// Pods with GPU samples and no owner.
    pub unattributed: BTreeSet<PodName>,
    /// Days with any GPU sample.
    pub days_had: u32,
    /// Most cards seen on one day.
    pub n_cards: usize,
    /// Some reading named a pod.
    pub pods_named: bool,
}

/// How exactly kube-state-metrics' scrapes tell a pod's running time.
const GRAIN_SECONDS: u64 = 600;
/// How many unattributed pods are remembered by name; more are only a bigger number of the same problem.
const UNATTRIBUTED_KEPT: usize = 10_000;
/// Days for which a pod's owner is remembered after the pod was last seen.
const OWNER_DAYS: i64 = 3;

/// Takes the days in order and gives the profiles.
#[derive(Debug)]
pub struct Folder {
    settings: FoldSettings,
    workloads: BTreeMap<WorkloadId, Usage>,
    owners: BTreeMap<PodName, (Date, WorkloadId)>,
    waiting: Vec<(Date, CardReading, Handed)>,
    unattributed: BTreeSet<PodName>,
    everybody: BTreeSet<String>,
    days_had: u32,
    n_cards: usize,
    pods_named: bool,
}

impl Folder {
    /// Starts with nothing measured.
    pub fn new(settings: FoldSettings) -> Self {
        Self {
            settings,
            workloads: BTreeMap::new(),
            owners: BTreeMap::new(),
            waiting: Vec::new(),
            unattributed: BTreeSet::new(),
            everybody: BTreeSet::new(),
            days_had: 0,
            n_cards: 0,
            pods_named: false,
        }
    }

    /// Marks every workload as incomplete: a part of the window is missing and nobody can say whose it was.
    pub fn incomplete_for_everybody(&mut self, what: String) {
        self.everybody.insert(what);
    }

    /// Folds one day; days must come oldest first.
    pub fn day(&mut self, facts: &DayFacts) {
        let first = self.days_had == 0 && !facts.cards.is_empty();
        if let Some(cut) = if first { began_in_the_day(facts) } else { None } {
            self.whole_day(&cut);
        } else {
            self.whole_day(facts);
        }
    }

    fn whole_day(&mut self, facts: &DayFacts) {
        let pods: BTreeMap<&PodName, &PodDay> = facts.pods.iter().map(|pod| (&pod.pod, pod)).collect();
        let handed = sharing::handed(facts, &pods, &self.settings.nodes_today);
        let not_alone = sharing::not_alone(facts, &pods, &handed, &self.settings.nodes_today);
        let mut alive: BTreeSet<WorkloadId> = BTreeSet::new();
        let mut had: BTreeMap<&PodName, u64> = BTreeMap::new();
        for (reading, handed) in facts.cards.iter().zip(&handed) {
            if let (Some(pod), Handed::Alone | Handed::Slice(_)) = (&reading.pod, handed) {
                *had.entry(pod).or_default() += reading.samples;
            }
        }
        for pod in &facts.pods {
            self.owners.insert(pod.pod.clone(), (facts.day, pod.workload.clone()));
            alive.insert(pod.workload.clone());
            let first_day = facts.day == self.settings.window.first;
            let usage = self.workloads.entry(pod.workload.clone()).or_default();
            if sharing::is_reservation_pod(&pod.pod) {
                usage.gaps.insert(DataGap::ReservationPod);
            }
            let samples = had.get(&pod.pod).copied().unwrap_or(0);
            usage.exists(pod, facts, first_day, not_alone.get(&pod.pod), samples);
        }
        for (day, reading, handed) in std::mem::take(&mut self.waiting) {
            if !self.attribute(day, &reading, &handed, facts, false) {
                self.note_unattributed(reading.pod);
            }
        }
        let cards: BTreeSet<&str> = facts.cards.iter().map(|reading| reading.card.as_str()).collect();
        self.n_cards = self.n_cards.max(cards.len());
        self.days_had += u32::from(!cards.is_empty());
        for (reading, handed) in facts.cards.iter().zip(handed) {
            let Some(pod) = &reading.pod else { continue };
            self.pods_named = true;
            if sharing::is_reservation_pod(pod) {
                continue;
            }
            let known_today = pods.contains_key(pod);
            if self.attribute(facts.day, reading, &handed, facts, known_today) {
                if let Some((_, id)) = self.owners.get(pod) {
                    alive.insert(id.clone());
                }
            } else {
                self.waiting.push((facts.day, reading.clone(), handed));
            }
        }
        for what in &facts.incomplete {
            for id in &alive {
                let gap = DataGap::IncompleteAnswer { what: what.clone() };
                self.workloads.entry(id.clone()).or_default().gaps.insert(gap);
            }
        }
        let day = facts.day;
        self.owners.retain(|_, (seen, _)| days_between(*seen, day) <= OWNER_DAYS);
    }

    /// Gives the profiles. `running` holds the runs that are not over.
    pub fn finish(mut self, running: &BTreeSet<String>, days_had: Option<u32>) -> Folded {
        for (_, reading, _) in std::mem::take(&mut self.waiting) {
            self.note_unattributed(reading.pod);
        }
        let running: BTreeSet<u64> = running.iter().map(|run| short(run)).collect();
        let had_days = days_had.unwrap_or(self.days_had).min(self.settings.window.asked_days);
        let window = Window { had_days, ..self.settings.window };
        let everybody: Vec<DataGap> =
            self.everybody.into_iter().map(|what| DataGap::IncompleteAnswer { what }).collect();
        let mut held_now: BTreeMap<WorkloadId, Vec<HeldNow>> = BTreeMap::new();
        for (pod, held) in &self.settings.held_now {
            if let Some((_, id)) = self.owners.get(pod) {
                held_now.entry(id.clone()).or_default().push(held.clone());
            }
        }
        let profiles = self
            .workloads
            .into_iter()
            .map(|(id, mut usage)| {
                usage.gaps.extend(everybody.iter().cloned());
                let held = HeldNow::of_most(held_now.remove(&id).unwrap_or_default());
                let profile = usage.profile(&id, window, &self.settings, &running, held);
                (id, profile)
            })
            .collect();
        Folded {
            profiles,
            unattributed: self.unattributed,
            days_had: self.days_had,
            n_cards: self.n_cards,
            pods_named: self.pods_named,
        }
    }

    fn note_unattributed(&mut self, pod: Option<PodName>) {
        if let Some(pod) = pod
            && self.unattributed.len() < UNATTRIBUTED_KEPT
        {
            self.unattributed.insert(pod);
        }
    }

    fn attribute(
        &mut self,
        day: Date,
        reading: &CardReading,
        handed: &Handed,
        facts: &DayFacts,
        known_today: bool,
    ) -> bool {
        let Some(pod) = &reading.pod else { return true };
        let Some((_, id)) = self.owners.get(pod) else { return false };
        let says = self.settings.framework_says.get(pod).cloned();
        let usage = self.workloads.entry(id.clone()).or_default();
        if let Some(says) = says {
            usage.framework_says.get_or_insert(says);
        }
        usage.read(day, reading, handed);
        if !known_today && matches!(handed, Handed::Alone | Handed::Slice(_)) {
            usage.had += reading.samples;
            usage.expected += if facts.pods.is_empty() {
                // kube-state-metrics was silent that day: a whole day was to be expected.
                facts.seconds / facts.interval_seconds.max(1)
            } else {
                // The pod is over; exporters keep its name on the card for up to half an hour.
                reading.samples
            };
        }
        true
    }
}

/// What is kept of one workload.
#[derive(Debug, Default)]
struct Usage {
    places: Places,
    expected: u64,
    had: u64,
    pods: BTreeSet<u64>,
    /// Run → it began before the window.
    runs: BTreeMap<u64, bool>,
    gpus_per_pod: u32,
    last_shared: Option<(Date, String)>,
    last_alone: Option<(Date, Place)>,
    /// The last day on which only the card of its slice was read.
    last_unread: Option<Date>,
    last_model: String,
    last_slice_request: Option<(Date, String)>,
    gaps: BTreeSet<DataGap>,
    framework_says: Option<(String, String)>,
}

impl Usage {
    fn exists(
        &mut self,
        pod: &PodDay,
        facts: &DayFacts,
        first_day: bool,
        not_alone: Option<&NotAlone>,
        samples: u64,
    ) {
        self.gpus_per_pod = self.gpus_per_pod.max(pod.gpus);
        // Pods that are over or wait for a node are still listed.
        if pod.running_seconds != Some(0) {
            self.pods.insert(short(&format!("{}\0{}", pod.pod.name, pod.run)));
            let whole_day = pod.running_seconds.is_some_and(|ran| ran * 100 >= facts.seconds * 99);
            self.runs.entry(short(&pod.run)).or_insert(first_day && whole_day);
        }
        if let Some(profile) = &pod.slice_profile {
            self.last_slice_request = Some((facts.day, profile.clone()));
        }
        match not_alone {
            // Under the single strategy a slice is asked for as a whole GPU; the node tells.
            Some(NotAlone::UnreadSlice(profile)) => {
                self.last_slice_request = Some((facts.day, profile.clone()));
            }
            Some(NotAlone::Shared(how)) => self.last_shared = Some((facts.day, how.clone())),
            None => {
                let (interval, gpus) = (facts.interval_seconds.max(1), u64::from(pod.gpus.max(1)));
                let seconds = pod.running_seconds.unwrap_or(facts.seconds).min(facts.seconds);
                let expected = seconds * gpus / interval;
                self.expected += expected;
                // Samples under the name of a pod that is over must not stand for those that another pod lacks.
                self.had += samples.min(expected + GRAIN_SECONDS * gpus / interval);
            }
        }
    }

    fn read(&mut self, day: Date, reading: &CardReading, handed: &Handed) {
        if reading.dra {
            self.gaps.insert(DataGap::DraManaged);
        }
        let model = reading.model_name.clone();
        self.last_model.clone_from(&model);
        let place = match handed {
            Handed::Shared(how) => {
                self.last_shared = Some((day, how.clone()));
                return;
            }
            Handed::Unusable => {
                self.gaps.insert(DataGap::ZeroPerProcess);
                return;
            }
            Handed::CardOfSlice(profile) => {
                self.last_unread = Some(day);
                self.last_slice_request = Some((day, profile.clone()));
                return;
            }
            Handed::Slice(profile) => Place::Slice { model, profile: profile.clone() },
            Handed::Alone => Place::Whole { model },
        };
        if let Some(mib) = reading.impossible {
            self.gaps.insert(DataGap::ImpossibleReading { card: reading.card.clone(), mib });
        }
        if self.last_alone.as_ref().is_none_or(|(seen, _)| *seen <= day) {
            self.last_alone = Some((day, place.clone()));
        }
        self.places.add(place, day, reading);
    }

    fn profile(
        mut self,
        id: &WorkloadId,
        window: Window,
        settings: &FoldSettings,
        running: &BTreeSet<u64>,
        held: Option<HeldNow>,
    ) -> WorkloadProfile {
        let coverage = Ratio::of(self.had.min(self.expected), self.expected);
        let on_slice = match held {
            Some(HeldNow::Whole) => None,
            Some(HeldNow::Slice(profile)) => Some(profile),
            None => self.last_slice(),
        };
        let mut gaps = std::mem::take(&mut self.gaps);
        let later_than_alone = |day: &Date| self.last_alone.as_ref().is_none_or(|(alone, _)| alone < day);
        if let Some((shared, how)) = &self.last_shared
            && self.last_alone.as_ref().is_none_or(|(alone, _)| alone <= shared)
        {
            gaps.insert(DataGap::SharedCard { how: how.clone() });
        }
        let unread = on_slice.is_some() && self.last_unread.as_ref().is_some_and(later_than_alone);
        if unread {
            gaps.insert(DataGap::WholeCardReadings);
        }
        let standing = match &on_slice {
            None => self.places.on_whole_cards(settings, self.framework_says.as_ref()),
            Some(profile) => self.places.on_slices(profile, settings, self.framework_says.as_ref()),
        };
        let figures = standing.memory;
        if standing.models.len() > 1 {
            gaps.insert(DataGap::SeveralModels { models: standing.models.into_iter().collect() });
        }
        if figures.peak.is_none() && self.last_shared.is_none() && !unread {
            gaps.insert(DataGap::NoSamples);
        }
        if figures.peak.is_some() && standing.compute.is_none() && on_slice.is_none() {
            gaps.insert(DataGap::NoComputeMetric);
        }
        let complete =
            self.runs.iter().filter(|(run, began_before)| !**began_before && !running.contains(*run)).count();
        WorkloadProfile {
            workload: id.clone(),
            model_name: standing.model.unwrap_or(self.last_model),
            slice: on_slice,
            window,
            history_days: count(figures.daily.len()),
            daily_peaks: figures
                .daily
                .iter()
                .filter_map(|(day, memory)| memory.map(|memory| DayPeak { day: *day, memory }))
                .collect(),
            typical: figures.typical,
            bandwidth_p99: standing.bandwidth_p99,
            kernel_width_p95: standing.kernel_width_p95,
            media_engines_used: standing.media_engines_used,
            coverage,
            samples: figures.samples,
            complete_runs: count(complete),
            gpus_per_pod: self.gpus_per_pod,
            pods_seen: count(self.pods.len()),
            reservation: standing.reservation,
            compute: standing.compute,
            peak: figures.peak,
            gaps: gaps.into_iter().collect(),
        }
    }

    /// The slice that it held last, as the days tell. `None`: whole cards, or nothing is known.
    fn last_slice(&self) -> Option<String> {
        match (&self.last_alone, &self.last_slice_request) {
            (Some((_, Place::Slice { profile, .. })), _) => Some(profile.clone()),
            (Some((seen, Place::Whole { .. })), Some((asked, profile))) => {
                (asked > seen).then(|| profile.clone())
            }
            (None, Some((_, profile))) => Some(profile.clone()),
            (Some((_, Place::Whole { .. })), None) | (None, None) => None,
        }
    }
}

/// The first day with samples, cut to the time since they began: retention or the exporter's installation ended or
/// began in its middle, and nobody has to answer for the hours before.
fn began_in_the_day(facts: &DayFacts) -> Option<DayFacts> {
    // One pod may have followed another on a card: its samples together tell how long it was seen.
    let mut seen: BTreeMap<(&str, Option<&SliceName>), u64> = BTreeMap::new();
    for reading in &facts.cards {
        *seen.entry((&reading.card, reading.slice.as_ref())).or_default() += reading.samples;
    }
    let samples = seen.into_values().max()?;
    let seconds = samples.saturating_mul(facts.interval_seconds).max(1);
    if seconds >= facts.seconds {
        return None;
    }
    let mut cut = facts.clone();
    cut.seconds = seconds;
    for pod in &mut cut.pods {
        pod.running_seconds = pod.running_seconds.map(|ran| ran * seconds / facts.seconds.max(1));
    }
    Some(cut)
}

fn days_between(from: Date, to: Date) -> i64 {
    i64::from(from.until(to).map_or(0, |span| span.get_days()))
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Eight bytes that stand for a name: FNV-1a. Two pods that meet are counted once, which harms nobody.
fn short(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
#[path = "fold_tests.rs"]
mod tests;
