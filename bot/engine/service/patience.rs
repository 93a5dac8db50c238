//! How long a job may go on failing, and how a forge that does not answer leaves the workers to the others.
//!
//! Every question to a silent forge costs a worker its time-out, several times over. So after the first job that ended
//! like that, one at a time finds out whether the forge is back, and the rest is put off at once.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use crate::forge::ForgeError;

/// How often a job is tried.
const MOST_ATTEMPTS: u32 = 6;

/// How long it is tried where the forge is what fails: nobody can be told of it meanwhile.
const MOST_TIME: SignedDuration = SignedDuration::from_hours(12);

/// Longest wait between two attempts.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_mins(15);

/// How long a forge that did not answer is left alone.
const REST: Duration = Duration::from_secs(5);

/// Whether a job that failed like this, and was handed in then, is not tried again.
pub(super) fn gives_up(error: &anyhow::Error, attempts: u32, created: Timestamp, now: Timestamp) -> bool {
    let waits = matches!(of_forge(error), Some(ForgeError::Unanswered { .. } | ForgeError::Busy { .. }));
    attempts >= MOST_ATTEMPTS && !(waits && now.duration_since(created) < MOST_TIME)
}

/// How long to wait before the next attempt.
pub(super) fn wait(error: &anyhow::Error, attempts: u32) -> SignedDuration {
    let asked = match of_forge(error) {
        Some(ForgeError::Busy { wait: Some(wait), .. }) => SignedDuration::try_from(*wait).ok(),
        _ => None,
    };
    let doubled = SignedDuration::from_secs(5 << attempts.min(10));
    asked.unwrap_or(SignedDuration::ZERO).max(doubled).min(LONGEST_WAIT)
}

fn of_forge(error: &anyhow::Error) -> Option<&ForgeError> {
    error.chain().find_map(|cause| cause.downcast_ref::<ForgeError>())
}

/// Forges that did not answer, by name.
#[derive(Debug, Default)]
pub(super) struct Silent(Mutex<BTreeMap<String, Rest>>);

#[derive(Clone, Copy, Debug)]
struct Rest {
    /// By a clock that nobody sets.
    until: Instant,
    /// A job finds out whether it is over.
    asked: bool,
}

/// A job that asks a forge. Where it is dropped in the middle, nothing was found out.
pub(super) struct Asking<'a> {
    silent: &'a Silent,
    forge: &'a str,
}

impl Silent {
    /// Whether a job about the forge may begin.
    ///
    /// # Errors
    /// The forge did not answer a moment ago, or somebody finds out already whether it is back.
    pub(super) fn begin<'a>(&'a self, forge: &'a str, now: Instant) -> Result<Asking<'a>, ForgeError> {
        match self.all().get_mut(forge) {
            Some(rest) if rest.asked || now < rest.until => {
                let what = format!("asking `{forge}`, which was silent a moment ago");
                return Err(ForgeError::Unanswered { what, cause: None });
            }
            Some(rest) => rest.asked = true,
            None => {}
        }
        Ok(Asking { silent: self, forge })
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Rest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Asking<'_> {
    /// The job ended like this.
    pub(super) fn end(self, error: Option<&anyhow::Error>, now: Instant) {
        match error.and_then(of_forge) {
            Some(ForgeError::Unanswered { .. }) => {
                self.silent.all().insert(self.forge.to_owned(), Rest { until: now + REST, asked: false });
            }
            _ => {
                self.silent.all().remove(self.forge);
            }
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(rest) = self.silent.all().get_mut(self.forge) {
            rest.asked = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn silent() -> anyhow::Error {
        let error = ForgeError::Unanswered { what: "reading".into(), cause: None };
        anyhow::Error::from(error).context("cluster `dc1`")
    }

    #[test]
    fn one_job_at_a_time_asks_a_forge_that_did_not_answer() {
        let all = Silent::default();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let begin = |forge: &'static str, now| all.begin(forge, after(now)).ok();
        let both = [begin("a", 0).unwrap(), begin("a", 0).unwrap()];
        for asking in both {
            asking.end(Some(&silent()), after(11));
        }
        assert!(begin("a", 15).is_none(), "it is left alone");
        assert!(begin("b", 15).is_some(), "others are not");
        let first = begin("a", 16).expect("one finds out");
        assert!(begin("a", 17).is_none(), "and no other");
        first.end(Some(&silent()), after(50));
        assert!(begin("a", 54).is_none());
        drop(begin("a", 55).expect("another one, in whose middle the server is asked to end"));
        begin("a", 55).unwrap().end(Some(&anyhow::anyhow!("another matter")), after(56));
        assert!(begin("a", 56).is_some() && begin("a", 56).is_some(), "it answers");
    }

    #[test]
    fn what_fails_for_the_forge_alone_is_tried_for_half_a_day() {
        let hours = |n: i64| at(n * 3_600);
        assert!(!gives_up(&silent(), 40, hours(0), hours(11)));
        assert!(gives_up(&silent(), 60, hours(0), hours(12)));
        let other = anyhow::anyhow!("no metrics");
        assert!(!gives_up(&other, 5, hours(0), hours(1)));
        assert!(gives_up(&other, 6, hours(0), hours(0)));
    }

    #[test]
    fn attempts_wait_longer_each_time_and_as_long_as_the_forge_asks() {
        let busy = |seconds| {
            let wait = Some(Duration::from_secs(seconds));
            anyhow::Error::from(ForgeError::Busy { what: "x".into(), wait })
        };
        assert_eq!(wait(&silent(), 1).as_secs(), 10);
        assert_eq!(wait(&silent(), 5).as_secs(), 160);
        assert_eq!(wait(&silent(), 40), LONGEST_WAIT);
        assert_eq!(wait(&busy(90), 1).as_secs(), 90);
        assert_eq!(wait(&busy(100_000), 1), LONGEST_WAIT);
    }
}
