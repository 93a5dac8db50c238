//! What there is to do, as it is written into the queue.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use slicewright_core::ids::PoolId;

use crate::engine::review::{Comment, Tick};
use crate::forge::contact::Person;
use crate::store::jobs::NewJob;

/// A job. Its JSON is read by later versions too: fields may be added, with a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub(super) enum Job {
    /// Find out whether a comment is for the bot.
    Hear(Said),
    /// Carry out what a comment asks for.
    Obey(Said),
    /// Look at a pool whose box on the dashboard somebody ticked.
    Tick(Ticked),
    /// See whether a proposal is as the bot left it.
    Glance { place: String, branch: String },
    /// Measure a cluster, and bring its proposals up to date: all of them, or that of one pool.
    Look {
        cluster: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pool: Option<String>,
    },
    /// Have the forge send again what did not arrive.
    Deliveries { place: String },
    /// Forget what is old.
    Compact,
}

/// A comment in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Said {
    pub(super) place: String,
    pub(super) request: String,
    pub(super) comment: String,
    pub(super) author: u64,
    pub(super) login: String,
    pub(super) text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) head: Option<String>,
    /// When the delivery came in.
    pub(super) at: Timestamp,
}

impl Said {
    pub(super) fn comment(&self) -> Comment {
        Comment {
            place: self.place.clone(),
            request: self.request.clone(),
            id: self.comment.clone(),
            author: Person { id: self.author, login: self.login.clone() },
            text: self.text.clone(),
            head: self.head.clone(),
        }
    }
}

/// A box of the dashboard in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ticked {
    pub(super) place: String,
    pub(super) issue: String,
    pub(super) cluster: String,
    pub(super) pool: String,
    pub(super) by: u64,
    pub(super) login: String,
    /// Names the tick.
    pub(super) id: String,
    /// When the delivery came in.
    pub(super) at: Timestamp,
}

impl Ticked {
    pub(super) fn tick(&self) -> Tick {
        Tick {
            place: self.place.clone(),
            issue: self.issue.clone(),
            pool: PoolId { cluster: self.cluster.clone(), pool: self.pool.clone() },
            by: Person { id: self.by, login: self.login.clone() },
            id: self.id.clone(),
        }
    }
}

/// How long somebody waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// A person sees within seconds that they were heard.
    Soon,
    /// It takes as long as it takes to measure.
    Later,
}

impl Urgency {
    /// Kinds of jobs.
    pub(super) fn kinds(self) -> &'static [&'static str] {
        match self {
            Self::Soon => &["hear", "glance"],
            Self::Later => &["obey", "tick", "look", "deliveries", "compact"],
        }
    }
}

impl Job {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Hear(_) => "hear",
            Self::Obey(_) => "obey",
            Self::Tick(_) => "tick",
            Self::Glance { .. } => "glance",
            Self::Look { .. } => "look",
            Self::Deliveries { .. } => "deliveries",
            Self::Compact => "compact",
        }
    }

    /// As it goes into the queue, after `wait`. `place` is the repository of a look.
    pub(super) fn queued(&self, place: &str, now: Timestamp, wait: SignedDuration) -> NewJob {
        let (lane, topic, priority) = match self {
            // Comments on one merge request are heard in their order, whatever else is done in the repository.
            Self::Hear(said) => (hearing(&said.place, &said.request), Some(topic(&said.comment)), 0),
            Self::Obey(said) => (writing(&said.place), Some(topic(&said.comment)), 0),
            Self::Tick(ticked) => {
                let topic = format!("tick:{}:{}/{}", ticked.id, ticked.cluster, ticked.pool);
                (writing(&ticked.place), Some(topic), 0)
            }
            Self::Glance { place, branch } => (format!("glance:{place}:{branch}"), Some("glance".into()), 0),
            Self::Look { cluster, pool } => (writing(place), Some(look(cluster, pool.as_deref())), 5),
            Self::Deliveries { place } => (format!("deliveries:{place}"), Some("deliveries".into()), 5),
            Self::Compact => ("compact".into(), Some("compact".into()), 9),
        };
        NewJob {
            lane,
            topic,
            kind: self.kind().to_owned(),
            payload: serde_json::to_string(self).expect("texts and numbers always serialise"),
            due: now.saturating_add(wait).unwrap_or(now),
            priority,
        }
    }
}

/// What a look is about.
pub(super) fn look(cluster: &str, pool: Option<&str>) -> String {
    pool.map_or_else(|| format!("look:{cluster}"), |pool| format!("look:{cluster}\n{pool}"))
}

/// Where the comments on a merge request wait to be heard.
pub(super) fn hearing(place: &str, request: &str) -> String {
    format!("hear:{place}:{request}")
}

/// Where all that writes to a repository waits for its turn.
pub(super) fn writing(place: &str) -> String {
    format!("write:{place}")
}

pub(super) fn topic(comment: &str) -> String {
    format!("comment:{comment}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_read_as_it_was_written() {
        let said = Said {
            place: "github:acme/infra".into(),
            request: "7".into(),
            comment: "4711".into(),
            author: 1,
            login: "kim".into(),
            text: "slicewright help".into(),
            head: None,
            at: Timestamp::UNIX_EPOCH,
        };
        for job in [
            Job::Hear(said.clone()),
            Job::Obey(said),
            Job::Tick(Ticked {
                place: "p".into(),
                issue: "3".into(),
                cluster: "dc1".into(),
                pool: "a100".into(),
                by: 1,
                login: "kim".into(),
                id: "box-1".into(),
                at: Timestamp::UNIX_EPOCH,
            }),
            Job::Glance { place: "p".into(), branch: "b".into() },
            Job::Look { cluster: "dc1".into(), pool: None },
            Job::Look { cluster: "dc1".into(), pool: Some("a100".into()) },
            Job::Deliveries { place: "p".into() },
            Job::Compact,
        ] {
            let queued = job.queued("p", Timestamp::UNIX_EPOCH, SignedDuration::from_secs(5));
            assert_eq!(serde_json::from_str::<Job>(&queued.payload).unwrap(), job);
            assert_eq!(queued.due.as_second(), 5);
            let all: Vec<_> = [Urgency::Soon, Urgency::Later].iter().flat_map(|one| one.kinds()).collect();
            assert!(all.contains(&&queued.kind.as_str()));
        }
    }

    #[test]
    fn what_writes_to_one_repository_waits_for_its_turn() {
        let now = Timestamp::UNIX_EPOCH;
        let look = Job::Look { cluster: "dc1".into(), pool: None }.queued(
            "github:acme/infra",
            now,
            SignedDuration::ZERO,
        );
        let text = r#"{"do": "obey", "place": "github:acme/infra", "request": "1", "comment": "2", "author": 3,
                      "login": "x", "text": "y", "at": "2026-01-01T00:00:00Z"}"#;
        let obey: Job = serde_json::from_str(text).unwrap();
        let obey = obey.queued("", now, SignedDuration::ZERO);
        assert_eq!(look.lane, obey.lane);
        assert!(obey.priority < look.priority);
    }
}
