//! The answers of one shard and day, joined into one reading a card and pod.

use std::collections::{BTreeMap, BTreeSet};

use slicewright_core::units::{Mib, Ratio};
use slicewright_core::usage::fold::{CardReading, PodName, SliceName};

use super::discover::whole;
use super::response::Series;
use super::slices::{agreed, printed_profile};

/// What a question about cards was about; the order is that of the queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Topic {
    Peak,
    Samples,
    Median,
    Sm,
    Gr,
    Util,
    Dram,
    Width,
    Enc,
    Dec,
}

/// A reading's identity: card, slice, pod.
pub(super) type Key = (String, Option<String>, Option<PodName>);

/// Readings of one day, and values that cannot be true.
#[derive(Debug, Default)]
pub(super) struct Readings {
    pub(super) by_key: BTreeMap<Key, CardReading>,
    /// Memory samples by key and job, before they are put together.
    samples: BTreeMap<Key, BTreeMap<String, u64>>,
    /// Driver version by card.
    pub(super) drivers: BTreeMap<String, String>,
    /// Values to look at again.
    pub(super) suspects: Vec<(Topic, Key)>,
    /// Highest memory as read, in MiB, also where it cannot be true.
    raw_peaks: BTreeMap<Key, u64>,
    /// Profiles printed for one instance. A card that was cut anew may use the same number for another profile.
    profiles: BTreeMap<Key, BTreeSet<String>>,
}

/// Memory above which a reading cannot be true.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Of whole cards, by model.
    pub(super) cards: BTreeMap<String, Mib>,
    /// Of MIG slices, by model and profile.
    pub(super) slices: BTreeMap<(String, String), Mib>,
}

impl Bounds {
    pub(super) fn of(&self, reading: &CardReading) -> Option<Mib> {
        let slice = reading
            .slice
            .as_ref()
            .and_then(|slice| self.slices.get(&(reading.model_name.clone(), slice.profile.clone())).copied());
        slice.or_else(|| self.cards.get(&reading.model_name).copied())
    }
}

/// INT32 and larger blanks of DCGM: no reading at all.
pub(super) const BLANK_MIB: f64 = 1e7;

impl Readings {
    /// Adds the rows of one answer.
    pub(super) fn add(&mut self, topic: Topic, rows: &[Series], exported_jobs: &BTreeSet<String>) {
        for row in rows {
            let (Some(key), Some(value)) = (key(row, exported_jobs), row.value()) else { continue };
            if topic == Topic::Samples {
                let job = row.label("job").unwrap_or_default().to_owned();
                *self.samples.entry(key).or_default().entry(job).or_default() += whole(value);
                continue;
            }
            if topic == Topic::Peak {
                self.facts(row, &key);
            }
            let Some(reading) = self.by_key.get_mut(&key) else { continue };
            let out_of_range = match topic {
                Topic::Peak => {
                    let high = self.raw_peaks.entry(key.clone()).or_default();
                    *high = (*high).max(whole(value));
                    if value < BLANK_MIB {
                        reading.peak = reading.peak.max(Some(Mib(whole(value))));
                    }
                    value >= BLANK_MIB
                }
                Topic::Median => {
                    if value < BLANK_MIB {
                        reading.median = reading.median.max(Some(Mib(whole(value.ceil()))));
                    }
                    false
                }
                Topic::Sm | Topic::Gr | Topic::Util | Topic::Dram => {
                    let share = if topic == Topic::Util { value / 100.0 } else { value };
                    set_share(reading, topic, share)
                }
                Topic::Width => {
                    reading.kernel_width_p95 =
                        reading.kernel_width_p95.max(Ratio::from_f64(value.clamp(0.0, 1.0)));
                    false
                }
                Topic::Enc | Topic::Dec => {
                    if value <= 100.0 {
                        let used = value > 0.0;
                        reading.media_engines_used =
                            Some(reading.media_engines_used.unwrap_or(false) || used);
                    }
                    false
                }
                Topic::Samples => false,
            };
            if out_of_range {
                self.suspects.push((topic, key));
            }
        }
    }

    fn facts(&mut self, row: &Series, key: &Key) {
        let reading = self.by_key.entry(key.clone()).or_insert_with(|| CardReading {
            card: key.0.clone(),
            pod: key.2.clone(),
            ..CardReading::default()
        });
        if let Some(id) = &key.1 {
            let printed = self.profiles.entry(key.clone()).or_default();
            printed.extend(printed_profile(row));
            reading.slice = Some(SliceName { id: id.clone(), profile: agreed(printed) });
        }
        if let Some(model) = row.first_label(&["modelName", "modelname"])
            && reading.model_name.is_empty()
        {
            model.clone_into(&mut reading.model_name);
        }
        if reading.host.is_none() {
            reading.host = row.first_label(&["Hostname", "hostname"]).map(str::to_owned);
        }
        reading.vgpu |= row.label("vgpu").is_some();
        reading.dra |= row.label("dra_claim_name").is_some();
        if let Some(driver) = row.label("DCGM_FI_DRIVER_VERSION") {
            self.drivers.insert(key.0.clone(), driver.to_owned());
        }
    }

    /// Sets the number of samples of each reading. Every moment counts once: an HA pair of Prometheus stores each
    /// sample twice, two exporters on a node print each value twice.
    pub(super) fn count_samples(&mut self, seconds: u64, interval_seconds: u64) {
        let possible = (seconds / interval_seconds.max(1)).max(1);
        let mut highest: BTreeMap<&str, u64> = BTreeMap::new();
        for (job, n) in self.samples.values().flatten() {
            let high = highest.entry(job).or_default();
            *high = (*high).max(*n);
        }
        let copies: BTreeMap<String, u64> = highest
            .into_iter()
            .map(|(job, n)| (job.to_owned(), ((n + possible / 2) / possible).max(1)))
            .collect();
        for (key, by_job) in &self.samples {
            let n =
                by_job.iter().map(|(job, n)| n / copies.get(job).copied().unwrap_or(1)).max().unwrap_or(0);
            if let Some(reading) = self.by_key.get_mut(key) {
                reading.samples = n;
            }
        }
        self.samples.clear();
    }

    /// Finds memory above what the card or the slice has.
    pub(super) fn check_memory(&mut self, bounds: &Bounds) {
        for (key, reading) in &self.by_key {
            if bounds.of(reading).is_some_and(|bound| reading.peak > Some(bound)) {
                self.suspects.push((Topic::Peak, key.clone()));
            }
        }
        self.suspects.sort();
        self.suspects.dedup();
    }

    /// Sets what a second look at the raw samples found; `None` when there was no second look.
    pub(super) fn repair(&mut self, topic: Topic, key: &Key, good: Option<&[f64]>) {
        let raw_peak = self.raw_peaks.get(key).copied().unwrap_or(0);
        let Some(reading) = self.by_key.get_mut(key) else { return };
        match topic {
            Topic::Peak => match good {
                Some(good) => {
                    reading.peak = good.iter().copied().max_by(f64::total_cmp).map(|high| Mib(whole(high)));
                    reading.samples = reading.samples.min(good.len() as u64);
                }
                None => {
                    reading.peak = None;
                    reading.impossible = Some(raw_peak);
                }
            },
            Topic::Sm | Topic::Gr | Topic::Util | Topic::Dram => {
                if let Some(p99) = good.and_then(|good| quantile(0.99, good)) {
                    set_share(reading, topic, p99);
                }
            }
            Topic::Samples | Topic::Median | Topic::Width | Topic::Enc | Topic::Dec => {}
        }
    }
}

/// Keeps a share if it can be true; `true` when it cannot and has to be looked at again.
fn set_share(reading: &mut CardReading, topic: Topic, share: f64) -> bool {
    // Rounding in the exporter gives 1.0004 now and then.
    if !(0.0..=1.001).contains(&share) {
        return true;
    }
    let share = Ratio::from_f64(share.min(1.0));
    let place = match topic {
        Topic::Sm => &mut reading.compute_p99[0],
        Topic::Gr => &mut reading.compute_p99[1],
        Topic::Util => &mut reading.compute_p99[2],
        _ => &mut reading.bandwidth_p99,
    };
    *place = (*place).max(share);
    false
}

/// As Prometheus computes it: linear between the two nearest ranks.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rank is between 0 and the number of samples of one day"
)]
fn quantile(q: f64, values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = q * (sorted.len().checked_sub(1)?) as f64;
    let (low, weight) = (rank.floor() as usize, rank - rank.floor());
    let high = (low + 1).min(sorted.len() - 1);
    Some(sorted[low] * (1.0 - weight) + sorted[high] * weight)
}

/// The identity of a row. Where a job exports the workload's labels, `pod` alone is the exporter's.
pub(super) fn key(row: &Series, exported_jobs: &BTreeSet<String>) -> Option<Key> {
    let card = row.first_label(&["UUID", "uuid"])?.to_owned();
    let slice = row.label("GPU_I_ID").map(str::to_owned);
    Some((card, slice, holder(row, exported_jobs)))
}

/// The pod that held the card.
pub(super) fn holder(row: &Series, exported_jobs: &BTreeSet<String>) -> Option<PodName> {
    let pod = |namespace: &str, name: &str| {
        Some(PodName { namespace: row.label(namespace)?.to_owned(), name: row.label(name)?.to_owned() })
    };
    pod("exported_namespace", "exported_pod").or_else(|| pod("pod_namespace", "pod_name")).or_else(|| {
        if exported_jobs.contains(row.label("job").unwrap_or_default()) {
            None
        } else {
            pod("namespace", "pod")
        }
    })
}

/// Jobs of these rows whose workload labels are `exported_*`.
pub(super) fn exporting_jobs(rows: &[Series]) -> impl Iterator<Item = String> + '_ {
    rows.iter()
        .filter(|row| row.label("exported_pod").is_some())
        .map(|row| row.label("job").unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::response::Sample;
    use super::*;

    fn row(labels: &[(&str, &str)], value: f64) -> Series {
        let mut labels: Vec<(Arc<str>, Arc<str>)> =
            labels.iter().map(|(name, value)| (Arc::from(*name), Arc::from(*value))).collect();
        labels.sort();
        Series { labels, samples: vec![Sample(0, value)] }
    }

    #[test]
    fn the_exporters_own_pod_is_nobody() {
        let jobs = BTreeSet::from(["dcgm".to_owned()]);
        let idle = row(&[("UUID", "GPU-a"), ("job", "dcgm"), ("namespace", "gpu"), ("pod", "exporter")], 0.0);
        assert_eq!(holder(&idle, &jobs), None);
        assert!(holder(&idle, &BTreeSet::new()).is_some());
        let old = row(&[("uuid", "GPU-a"), ("pod_namespace", "team-d"), ("pod_name", "job-9")], 0.0);
        assert_eq!(holder(&old, &jobs).unwrap().name, "job-9");
    }

    #[test]
    fn blanks_are_no_readings_and_ask_for_a_second_look() {
        let mut readings = Readings::default();
        let labels = [("UUID", "GPU-a"), ("namespace", "a"), ("pod", "x"), ("modelName", "M")];
        readings.add(Topic::Peak, &[row(&labels, 2_147_483_632.0)], &BTreeSet::new());
        readings.add(Topic::Sm, &[row(&labels, 140_737_488_355_328.0)], &BTreeSet::new());
        readings.add(Topic::Util, &[row(&labels, 2_619.0)], &BTreeSet::new());
        let (key, reading) = readings.by_key.first_key_value().unwrap();
        assert_eq!((reading.peak, reading.compute_p99), (None, [None, None, None]));
        assert_eq!(readings.suspects.len(), 3);
        let key = key.clone();
        readings.repair(Topic::Util, &key, Some(&[31.0, 97.0, 33.0].map(|percent: f64| percent / 100.0)));
        readings.repair(Topic::Peak, &key, None);
        let reading = &readings.by_key[&key];
        assert_eq!(reading.compute_p99[2].unwrap().to_string(), "95.7 %");
        assert_eq!(reading.impossible, Some(2_147_483_632));
    }

    #[test]
    fn a_number_that_two_profiles_used_on_one_day_names_none() {
        let mut readings = Readings::default();
        let mut read = |profile: &str| {
            let labels = [
                ("UUID", "GPU-a"),
                ("GPU_I_ID", "5"),
                ("GPU_I_PROFILE", profile),
                ("namespace", "a"),
                ("pod", "nb-0"),
            ];
            readings.add(Topic::Peak, &[row(&labels, 900.0)], &BTreeSet::new());
            readings.by_key.first_key_value().unwrap().1.slice.clone().unwrap().profile
        };
        let printed = ["<<<NULL>>>", "2g.10gb", "2g.10gb", "1g.5gb", "2g.10gb"].map(&mut read);
        assert_eq!(printed, ["unknown", "2g.10gb", "2g.10gb", "unknown", "unknown"]);
    }

    #[test]
    fn a_slice_holds_no_more_than_slices_of_its_profile_do() {
        let mut readings = Readings::default();
        let read = |id, profile| {
            row(
                &[("UUID", "GPU-a"), ("modelName", "M"), ("GPU_I_ID", id), ("GPU_I_PROFILE", profile)],
                9_000.0,
            )
        };
        readings.add(Topic::Peak, &[read("1", "1g.5gb"), read("2", "2g.10gb")], &BTreeSet::new());
        let bounds = Bounds {
            cards: BTreeMap::from([("M".to_owned(), Mib(40_960))]),
            slices: BTreeMap::from([(("M".to_owned(), "1g.5gb".to_owned()), Mib(6_000))]),
        };
        readings.check_memory(&bounds);
        let suspects: Vec<&str> =
            readings.suspects.iter().filter_map(|(_, (_, id, _))| id.as_deref()).collect();
        assert_eq!(suspects, ["1"]);
    }

    #[test]
    fn every_moment_counts_once() {
        let mut readings = Readings::default();
        let labels = [("UUID", "GPU-a"), ("namespace", "a"), ("pod", "x"), ("job", "dcgm")];
        readings.add(Topic::Peak, &[row(&labels, 100.0)], &BTreeSet::new());
        readings.add(Topic::Samples, &[row(&labels, 576.0)], &BTreeSet::new());
        readings.count_samples(86_400, 300);
        assert_eq!(readings.by_key.first_key_value().unwrap().1.samples, 288);
    }
}
