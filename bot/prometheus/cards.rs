//! Reads what the cards showed on one day, shard by shard, and looks again at what cannot be true.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};
use jiff::civil::Date;
use slicewright_core::units::Mib;

use super::chunks::{Fetched, MakeQuery, Merge, Spec, Stretch, ask, fetch};
use super::days::{DayReader, last_moment};
use super::discover::whole;
use super::query::{self, FB_USED, range};
use super::response::Series;
use super::rows::{BLANK_MIB, Key, Readings, Topic, exporting_jobs, key};
use super::{Ask, AskError, Source};

/// Fewest seconds between two looks at kernel width: a percentile of a ratio needs no denser sampling, and the
/// subquery costs ten times less than at one minute. It is still the dearest question of a day.
const WIDTH_STEP: u64 = 600;
/// Questions that may fail before the whole measurement does: a server in trouble is left alone.
const MOST_FAILURES: u32 = 12;

/// The answer of one question about one shard.
type CardAnswer = ((Topic, &'static str), Result<Fetched, AskError>);

impl<S: Source> DayReader<'_, S> {
    pub(super) async fn cards(
        &mut self,
        day: Date,
        stretch: Stretch,
        incomplete: &mut Vec<String>,
    ) -> Result<Readings, AskError> {
        let queries = &self.discovery.queries;
        let mut readings = Readings::default();
        let mut jobs = self.discovery.exported_jobs.clone();
        let spec =
            |name, title, merge, query: MakeQuery<'static>| Spec { name, title, merge, by_card: true, query };
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
            let mut add = |topic, name, title, merge, make: MakeQuery<'static>| {
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

    async fn sharded(&self, specs: &[(Topic, Spec<'_>)], stretch: Stretch) -> Vec<CardAnswer> {
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
        results: Vec<CardAnswer>,
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
    pub(super) async fn repair(&mut self, readings: &mut Readings, stretch: Stretch) -> Result<(), AskError> {
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
            let bound = readings.by_key.get(&key_of).and_then(|reading| self.bounds.of(reading));
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
            _ => (value <= 1.001).then_some(value),
        })
        .collect()
}
