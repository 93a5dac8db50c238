//! Keeps what a server answered, so that the same run can be repeated without it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::error::{AskError, Problem};
use super::response::{Answer, Series};
use super::{Ask, Source};

/// One question with its answer, normalised: the same data gives the same bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedAnswer {
    /// Name of the query.
    pub name: String,
    /// Evaluation time.
    pub time: Timestamp,
    /// PromQL.
    pub query: String,
    /// What came back.
    pub outcome: RecordedOutcome,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordedOutcome {
    /// Series, sorted by labels.
    Series(Vec<Series>),
    /// An error, after all retries.
    Error(AskError),
}

type Key = (Timestamp, String);

/// Wraps a source and keeps every question with its answer.
#[derive(Debug)]
pub struct Recorder<S> {
    source: S,
    kept: Mutex<BTreeMap<Key, RecordedAnswer>>,
}

impl<S: Source> Recorder<S> {
    /// Nothing kept yet.
    pub fn new(source: S) -> Self {
        Self { source, kept: Mutex::new(BTreeMap::new()) }
    }

    /// Everything kept, sorted by time and query.
    pub fn finish(self) -> Vec<RecordedAnswer> {
        self.kept.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
    }
}

impl<S: Source> Source for Recorder<S> {
    async fn instant(&self, ask: &Ask) -> Result<Answer, AskError> {
        let result = self.source.instant(ask).await;
        let outcome = match &result {
            Ok(answer) => RecordedOutcome::Series(answer.series.clone()),
            Err(error) => RecordedOutcome::Error(error.clone()),
        };
        let entry =
            RecordedAnswer { name: ask.name.to_owned(), time: ask.time, query: ask.query.clone(), outcome };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert((ask.time, ask.query.clone()), entry);
        result
    }
}

/// Answers from a recording.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    kept: BTreeMap<Key, RecordedOutcome>,
}

impl Recorded {
    /// The answers of a recording.
    pub fn new(answers: Vec<RecordedAnswer>) -> Self {
        Self {
            kept: answers.into_iter().map(|answer| ((answer.time, answer.query), answer.outcome)).collect(),
        }
    }
}

impl Source for Recorded {
    async fn instant(&self, ask: &Ask) -> Result<Answer, AskError> {
        match self.kept.get(&(ask.time, ask.query.clone())) {
            Some(RecordedOutcome::Series(series)) => {
                Ok(Answer { series: series.clone(), ..Answer::default() })
            }
            Some(RecordedOutcome::Error(error)) => Err(error.clone()),
            None => Err(AskError {
                what: ask.what.clone(),
                problem: Problem::NotRecorded,
                status: None,
                detail: format!("`{}` at {}", ask.name, ask.time),
                advice: "record again with this version and these settings".to_owned(),
            }),
        }
    }
}
