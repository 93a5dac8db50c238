//! Asks Prometheus and turns its answers into facts.
//!
//! The number of queries does not grow with the number of workloads. What is decided from the facts is the business
//! of `slicewright-core`; nothing of Prometheus' wire format leaves this folder.

mod settings;
pub use settings::{HeaderValue, Settings};

mod error;
pub use error::{AskError, Problem, SettingsError};

mod response;
pub use response::{Answer, Sample, Series, parse_answer};

mod client;
pub use client::Client;

mod record;
pub use record::{Recorded, RecordedAnswer, RecordedOutcome, Recorder};

mod query;

mod chunks;

mod discover;

mod rows;

mod slices;

mod owners;

mod days;

mod cards;

mod today;

mod held;

mod findings;

mod measure;
pub use measure::{MeasureError, MeasureSettings, Measurement, Progress, QueryStats, Quiet, measure};

use jiff::Timestamp;

/// One question: an instant query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Name of the query, the same for every day and shard: `memory-peak`.
    pub name: &'static str,
    /// What is asked, for people: `memory peaks of 2026-01-03, shard 2 of 4`.
    pub what: String,
    /// PromQL.
    pub query: String,
    /// Evaluation time.
    pub time: Timestamp,
}

/// Something that answers instant queries: a server, or the recording of one.
pub trait Source: Sync {
    /// Answers one question in full, or says why not. A partial answer is an error.
    fn instant(&self, ask: &Ask) -> impl Future<Output = Result<Answer, AskError>> + Send;
}

impl<S: Source> Source for &S {
    fn instant(&self, ask: &Ask) -> impl Future<Output = Result<Answer, AskError>> + Send {
        (**self).instant(ask)
    }
}
