//! One question about a day and a shard, asked in pieces as small as the server wants them.
//!
//! On "too much" the window is cut: a day, 12 h, 6 h, 1 h; then the shard, by the next hex digit of the UUID. The
//! highest of the pieces is the day's highest, counts add up, and the highest percentile of the pieces is taken for
//! the day's: it can only be too high.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::{SignedDuration, Timestamp};

use super::query::{Shard, range};
use super::response::{Answer, Sample, Series};
use super::{Ask, AskError, Problem, Source};

/// Lengths of a piece in seconds, longest first.
const LENGTHS: [u64; 4] = [86_400, 43_200, 21_600, 3_600];

/// A stretch of time: `[start, end)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
}

impl Stretch {
    pub(super) fn seconds(&self) -> u64 {
        u64::try_from(self.end.duration_since(self.start).as_secs()).unwrap_or(0)
    }

    fn cut(&self, seconds: u64) -> Vec<Self> {
        let mut out = Vec::new();
        let mut start = self.start;
        while start < self.end {
            let step = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
            let end = start.checked_add(step).unwrap_or(self.end).min(self.end);
            out.push(Self { start, end });
            start = end;
        }
        out
    }
}

/// How pieces of an answer become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Merge {
    Highest,
    Sum,
}

/// Writes the query for a shard and a window.
pub(super) type MakeQuery<'a> = Box<dyn Fn(&Shard, &str) -> String + Send + Sync + 'a>;

/// A question that can be cut into pieces.
pub(super) struct Spec<'a> {
    pub(super) name: &'static str,
    /// For people: `memory peaks`.
    pub(super) title: &'static str,
    pub(super) merge: Merge,
    /// Cards can be split by UUID; Kubernetes' series cannot.
    pub(super) by_card: bool,
    pub(super) query: MakeQuery<'a>,
}

/// Counts what was asked.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) n_queries: AtomicU64,
    pub(super) server_micros: AtomicU64,
    pub(super) bytes: AtomicU64,
}

/// Asks one question and counts it.
pub(super) async fn ask<S: Source>(source: &S, tally: &Tally, ask: &Ask) -> Result<Answer, AskError> {
    let result = source.instant(ask).await;
    tally.n_queries.fetch_add(1, Ordering::Relaxed);
    if let Ok(answer) = &result {
        tally.bytes.fetch_add(answer.bytes, Ordering::Relaxed);
        let seconds = std::time::Duration::try_from_secs_f64(answer.server_seconds.unwrap_or(0.0));
        let micros = seconds.map_or(0, |seconds| u64::try_from(seconds.as_micros()).unwrap_or(0));
        tally.server_micros.fetch_add(micros, Ordering::Relaxed);
    }
    result
}

/// What came back, and the longest window that the server took.
pub(super) struct Fetched {
    pub(super) series: Vec<Series>,
    pub(super) window_seconds: u64,
}

/// Asks `spec` about a stretch and a shard, starting with windows of `window_seconds`.
pub(super) async fn fetch<S: Source>(
    source: &S,
    tally: &Tally,
    spec: &Spec<'_>,
    stretch: Stretch,
    shard: &Shard,
    window_seconds: u64,
) -> Result<Fetched, AskError> {
    let mut todo: Vec<(Stretch, Shard)> =
        stretch.cut(window_seconds).into_iter().rev().map(|piece| (piece, shard.clone())).collect();
    let mut merged: BTreeMap<Labels, Sample> = BTreeMap::new();
    let mut single: Option<Vec<Series>> = None;
    let mut window = window_seconds;
    let whole = todo.len() == 1;
    while let Some((piece, shard)) = todo.pop() {
        let query = (spec.query)(&shard, &range(piece.seconds()));
        // One millisecond before the end: a sample at midnight belongs to the next day, on every server.
        let time = piece.end.checked_sub(SignedDuration::from_millis(1)).unwrap_or(piece.end);
        let what = format!("{} of {}", spec.title, said(&piece, &shard));
        match ask(source, tally, &Ask { name: spec.name, what, query, time }).await {
            Ok(answer) if whole && todo.is_empty() && merged.is_empty() && single.is_none() => {
                single = Some(answer.series);
            }
            Ok(answer) => merge(&mut merged, answer.series, spec.merge),
            Err(error) if error.problem == Problem::TooMuch => {
                let shorter = LENGTHS.into_iter().find(|length| *length < piece.seconds());
                let smaller: Vec<(Stretch, Shard)> = match shorter {
                    Some(length) => {
                        window = window.min(length);
                        piece.cut(length).into_iter().rev().map(|piece| (piece, shard.clone())).collect()
                    }
                    None if spec.by_card => {
                        shard.split().into_iter().rev().map(|shard| (piece, shard)).collect()
                    }
                    None => Vec::new(),
                };
                if smaller.is_empty() {
                    return Err(error);
                }
                tracing::debug!(what = error.what, "too much at once, asking for less");
                todo.extend(smaller);
            }
            Err(error) => return Err(error),
        }
    }
    let series = match single {
        Some(series) => series,
        None => merged.into_iter().map(|(labels, sample)| Series { labels, samples: vec![sample] }).collect(),
    };
    Ok(Fetched { series, window_seconds: window })
}

type Labels = Vec<(Arc<str>, Arc<str>)>;

fn merge(into: &mut BTreeMap<Labels, Sample>, series: Vec<Series>, how: Merge) {
    for row in series {
        let Some(sample) = row.samples.last().copied() else { continue };
        into.entry(row.labels)
            .and_modify(|before| match how {
                Merge::Highest if sample.1 > before.1 => *before = sample,
                Merge::Highest => {}
                Merge::Sum => before.1 += sample.1,
            })
            .or_insert(sample);
    }
}

fn said(piece: &Stretch, shard: &Shard) -> String {
    let start = piece.start.strftime("%Y-%m-%d");
    let mut text = if piece.seconds() == 86_400 {
        start.to_string()
    } else {
        format!("{start} {} to {}", piece.start.strftime("%H:%M"), piece.end.strftime("%H:%M"))
    };
    match shard {
        Shard::All => {}
        Shard::Other => text.push_str(", cards without a usual UUID"),
        Shard::Prefixes(prefixes) => {
            text.push_str(&format!(", cards GPU-[{}]", prefixes.join("|")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Takes windows up to a length and shards up to a number of prefixes.
    struct Picky {
        longest: &'static str,
        asked: Mutex<Vec<String>>,
    }

    impl Source for Picky {
        async fn instant(&self, ask: &Ask) -> Result<Answer, AskError> {
            self.asked.lock().unwrap().push(ask.query.clone());
            if ask.query.contains(self.longest) {
                let text = r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"UUID":"a"},"value":[1,"3"]}]}}"#;
                return Ok(super::super::response::parse(text.as_bytes()).unwrap());
            }
            Err(AskError {
                what: ask.what.clone(),
                problem: Problem::TooMuch,
                status: Some(422),
                detail: "too many samples".into(),
                advice: String::new(),
            })
        }
    }

    fn run(longest: &'static str, merge: Merge) -> (Result<f64, AskError>, usize) {
        let source = Picky { longest, asked: Mutex::default() };
        let spec = Spec {
            name: "x",
            title: "samples",
            merge,
            by_card: true,
            query: Box::new(|shard, window| format!("[{window}] {shard:?}")),
        };
        let stretch = Stretch {
            start: "2026-01-03T00:00:00Z".parse().unwrap(),
            end: "2026-01-04T00:00:00Z".parse().unwrap(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let tally = Tally::default();
        let fetched = runtime.block_on(fetch(&source, &tally, &spec, stretch, &Shard::All, 86_400));
        let value = fetched.map(|fetched| fetched.series[0].value().unwrap());
        (value, source.asked.into_inner().unwrap().len())
    }

    #[test]
    fn counts_of_halves_add_up() {
        assert_eq!(run("[1d]", Merge::Sum), (Ok(3.0), 1));
        assert_eq!(run("[12h]", Merge::Sum), (Ok(6.0), 3));
        assert_eq!(run("[6h]", Merge::Sum), (Ok(12.0), 7));
        assert_eq!(run("[1h]", Merge::Sum).0, Ok(72.0));
    }

    #[test]
    fn the_highest_of_halves_is_the_days() {
        assert_eq!(run("[6h]", Merge::Highest).0, Ok(3.0));
    }

    #[test]
    fn shards_are_split_when_an_hour_is_too_much() {
        assert!(run("[\"0\"]", Merge::Sum).0.is_err());
        let error = run("never", Merge::Sum).0.unwrap_err();
        assert_eq!(error.what, "samples of 2026-01-03 00:00 to 01:00, cards GPU-[000]");
    }
}
