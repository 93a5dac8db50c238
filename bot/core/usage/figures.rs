//! Figures of one workload on one kind of card or slice, day after day.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;

use super::fold::CardReading;
use super::quality::Plateau;
use super::{Compute, ComputeSource, Peak};
use crate::units::{Mib, Ratio};

/// Figures of one workload on one kind of card or slice.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) peak: Option<Peak>,
    pub(super) daily: BTreeMap<Date, Option<Mib>>,
    pub(super) typical: Option<Mib>,
    pub(super) samples: u64,
    worst: [Option<(Ratio, Date)>; 3],
    /// Days on which a reading lacked the source.
    lacking: [BTreeSet<Date>; 3],
    /// Worst of each reading's best source.
    mixed: Option<(Ratio, Date, ComputeSource)>,
    lacking_all: BTreeSet<Date>,
    pub(super) bandwidth_p99: Option<Ratio>,
    pub(super) kernel_width_p95: Option<Ratio>,
    pub(super) media: Option<bool>,
    pub(super) plateau: Plateau,
}

const SOURCES: [ComputeSource; 3] =
    [ComputeSource::SmActive, ComputeSource::GrEngineActive, ComputeSource::GpuUtil];
/// Readings of fewer samples say nothing about a percentile, and profiling counters start later than memory.
const FEW_SAMPLES: u64 = 5;
/// Days of a better compute source that stand for the whole window: the default of `min_history_days`. Doubled, a
/// cluster that enables SM_ACTIVE on our advice waits a month for its first proposal.
pub(super) const ENOUGH_DAYS: usize = 14;

impl Figures {
    pub(super) fn peak_memory(&self) -> Option<Mib> {
        self.peak.as_ref().map(|peak| peak.memory)
    }

    /// Adds the memory of another place: of each figure the higher counts.
    pub(super) fn add_memory_of(&mut self, other: &Self) {
        self.samples += other.samples;
        for (day, memory) in &other.daily {
            let here = self.daily.entry(*day).or_default();
            *here = (*here).max(*memory);
        }
        self.typical = self.typical.max(other.typical);
        if let Some(theirs) = &other.peak {
            let higher = self.peak.as_ref().is_none_or(|ours| {
                (theirs.memory, std::cmp::Reverse(theirs.day)) > (ours.memory, std::cmp::Reverse(ours.day))
            });
            if higher {
                self.peak = Some(theirs.clone());
            }
        }
    }

    pub(super) fn add(&mut self, day: Date, reading: &CardReading) {
        if reading.samples == 0 && reading.peak.is_none() {
            return;
        }
        self.samples += reading.samples;
        let today = self.daily.entry(day).or_default();
        *today = (*today).max(reading.peak);
        self.typical = self.typical.max(reading.median);
        if let (Some(memory), Some(pod)) = (reading.peak, &reading.pod)
            && self.peak.as_ref().is_none_or(|peak| memory > peak.memory)
        {
            self.peak = Some(Peak { memory, pod: pod.name.clone(), card: reading.card.clone(), day });
        }
        for (i, p99) in reading.compute_p99.iter().enumerate() {
            match p99 {
                Some(p99) => {
                    let worst = &mut self.worst[i];
                    if worst.is_none_or(|(before, _)| *p99 > before) {
                        *worst = Some((*p99, day));
                    }
                }
                None if reading.samples >= FEW_SAMPLES => {
                    self.lacking[i].insert(day);
                }
                None => {}
            }
        }
        let best = reading.compute_p99.iter().zip(SOURCES).find_map(|(p99, source)| Some(((*p99)?, source)));
        match best {
            Some((p99, source)) if self.mixed.is_none_or(|(before, _, _)| p99 > before) => {
                self.mixed = Some((p99, day, source));
            }
            None if reading.samples >= FEW_SAMPLES => {
                self.lacking_all.insert(day);
            }
            Some(_) | None => {}
        }
        self.bandwidth_p99 = self.bandwidth_p99.max(reading.bandwidth_p99);
        self.kernel_width_p95 = self.kernel_width_p95.max(reading.kernel_width_p95);
        self.media = match (self.media, reading.media_engines_used) {
            (Some(a), Some(b)) => Some(a || b),
            (a, b) => a.or(b),
        };
        if let (Some(peak), Some(median)) = (reading.peak, reading.median) {
            self.plateau.add(peak, median, reading.samples);
        }
    }

    /// The best source that covers the window; else the worst over each day's own best source.
    pub(super) fn compute(&self) -> Option<Compute> {
        let enough = |lacking: &BTreeSet<Date>| {
            let covered = self.daily.len().saturating_sub(lacking.len());
            covered >= ENOUGH_DAYS || covered * 10 >= self.daily.len() * 9
        };
        for (i, source) in SOURCES.into_iter().enumerate() {
            if let Some((p99, day)) = self.worst[i]
                && enough(&self.lacking[i])
            {
                return Some(Compute { p99, source, day });
            }
        }
        let (p99, day, source) = self.mixed?;
        enough(&self.lacking_all).then_some(Compute { p99, source, day })
    }
}
