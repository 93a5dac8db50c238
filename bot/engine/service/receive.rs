//! Deliveries of webhooks: proven, written down, and then answered.

use std::sync::PoisonError;

use jiff::{SignedDuration, Timestamp};
use reqwest::header::HeaderMap;
use slicewright_core::ids::PoolId;
use slicewright_core::review::command::{Parsed, parse};

use super::Service;
use super::job::{Job, Said, Ticked, hearing, topic, writing};
use crate::engine::Engine;
use crate::forge::settings::RemoteKind;
use crate::forge::webhook::{self, Event, News, Rejected, What};
use crate::settings::ClusterSettings;
use crate::store::StoreError;
use crate::store::deliveries::Accepted;
use crate::store::jobs::NewJob;

/// Bytes of the longest delivery: both forges send no longer ones.
pub fn most_bytes() -> usize {
    25 << 20
}

/// Longest comment that is read, in bytes.
const LONGEST_COMMENT: usize = 64 << 10;

/// Boxes of one change of the dashboard that are acted upon. Each costs a measurement.
const MOST_TICKS: usize = 10;

/// Letters of a delivery's key that name what follows from it. Forges send 36.
const LONGEST_NAME: usize = 72;

/// How long a change of a branch may be followed by others before anybody looks at it.
const SETTLE: SignedDuration = SignedDuration::from_secs(3);

/// The same for the default branch, where a look costs a measurement.
const SETTLE_MAIN: SignedDuration = SignedDuration::from_secs(60);

/// What became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// It is written down, and so is what follows from it.
    New,
    /// It came before.
    Again,
    /// It asks for nothing, and why.
    Nothing(&'static str),
}

/// Why a delivery is not taken.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// No forge of this name tells the bot anything.
    #[error("there is no hook of this name")]
    Unknown,
    /// It does not come from the forge, or is no delivery.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// It cannot be written down now: the forge must send it again.
    #[error("it cannot be written down now")]
    Unavailable(#[source] StoreError),
}

/// What whoever sent a delivery that was not taken can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Another address.
    Unknown,
    /// Something is missing, or cannot be read.
    Incomplete,
    /// Another content type.
    ContentType,
    /// Sign it, with the secret of now.
    Unproven,
    /// Send it again.
    Unavailable,
}

impl Refused {
    /// What can be done about it.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Unknown => Reason::Unknown,
            Self::Rejected(Rejected::ContentType) => Reason::ContentType,
            Self::Rejected(Rejected::Signature | Rejected::Stale) => Reason::Unproven,
            Self::Rejected(Rejected::Header(_) | Rejected::Malformed) => Reason::Incomplete,
            Self::Unavailable(_) => Reason::Unavailable,
        }
    }
}

impl Service {
    /// Looks at the headers of a delivery to `/hooks/<kind>/<name>` alone: what they refuse costs no reading.
    ///
    /// # Errors
    /// Why it is not taken.
    pub fn look_at(&self, kind: &str, name: &str, headers: &HeaderMap) -> Result<(), Refused> {
        let hooks = self.hooks.read().unwrap_or_else(PoisonError::into_inner);
        let hook = hooks.get(name).filter(|hook| slug(hook.kind) == kind).ok_or(Refused::Unknown)?;
        Ok(webhook::look(hook.kind, headers)?)
    }

    /// Takes a delivery: proves it over its very bytes, and writes down what follows from it. The answer may be given then.
    ///
    /// # Errors
    /// Why it is not taken. Nothing follows from it then.
    pub async fn receive(
        &self,
        kind: &str,
        name: &str,
        headers: &HeaderMap,
        body: &[u8],
        now: Timestamp,
    ) -> Result<Received, Refused> {
        let hook = {
            let hooks = self.hooks.read().unwrap_or_else(PoisonError::into_inner);
            hooks.get(name).filter(|hook| slug(hook.kind) == kind).cloned().ok_or(Refused::Unknown)?
        };
        let delivery = webhook::read(hook.kind, headers, body, &hook.secrets, now)?;
        let engine = self.engine();
        let jobs = match &delivery.news {
            News::Event(event) => match follows(&engine, name, event, &delivery.key, now) {
                Follows::Jobs(jobs) => jobs,
                Follows::Gone { place, request, comment } => {
                    self.forget(&place, &request, &comment).await.map_err(Refused::Unavailable)?;
                    Vec::new()
                }
                Follows::Nothing(why) => return Ok(Received::Nothing(why)),
            },
            News::Ping => return Ok(Received::Nothing("the hook works")),
            News::Installation => {
                return Ok(Received::Nothing("repositories are named in the configuration"));
            }
            News::Nothing(why) => return Ok(Received::Nothing(why)),
        };
        let accepted = self.store.accept(name, &delivery.key, &jobs, now).await;
        match accepted.map_err(Refused::Unavailable)? {
            Accepted::New => {
                self.news.send_replace(());
                Ok(Received::New)
            }
            Accepted::Again => Ok(Received::Again),
        }
    }

    /// A comment is gone: what it asked for is not done, unless it is being done.
    async fn forget(&self, place: &str, request: &str, comment: &str) -> Result<(), StoreError> {
        self.store.cancel(&hearing(place, request), &topic(comment)).await?;
        self.store.cancel(&writing(place), &topic(comment)).await?;
        Ok(())
    }
}

/// The path that a forge sends its deliveries to.
pub(super) fn route(kind: RemoteKind, name: &str) -> String {
    format!("/hooks/{}/{name}", slug(kind))
}

/// As it stands in the address.
fn slug(kind: RemoteKind) -> &'static str {
    match kind {
        RemoteKind::GitHub => "github",
        RemoteKind::GitLab => "gitlab",
    }
}

/// What follows from an event.
enum Follows {
    Jobs(Vec<NewJob>),
    Gone { place: String, request: String, comment: String },
    Nothing(&'static str),
}

fn follows(engine: &Engine, forge: &str, event: &Event, key: &str, now: Timestamp) -> Follows {
    let settings = engine.settings();
    let here = |cluster: &&ClusterSettings| {
        let repository = &cluster.repository;
        repository.remote() == Some(forge)
            && repository.name.as_ref().is_some_and(|name| name.eq_ignore_ascii_case(&event.repository))
    };
    let clusters: Vec<&ClusterSettings> = settings.clusters.iter().filter(here).collect();
    let Some(first) = clusters.first() else {
        return Follows::Nothing("the repository is none of the configuration's");
    };
    let place = first.repository.place();
    let is_own = |branch: &str| {
        branch.strip_prefix(settings.branch_prefix()).is_some_and(|rest| rest.starts_with('/'))
    };
    match &event.what {
        What::Comment { request, comment, author, is_bot, text, head, internal } => {
            let text = cut(text);
            if *is_bot || *internal || parse(text, settings.handle()) == Parsed::Nothing {
                return Follows::Nothing("it does not speak to the bot");
            }
            let said = Said {
                place: place.clone(),
                request: request.clone(),
                comment: comment.clone(),
                author: author.id,
                login: author.login.clone(),
                text: text.to_owned(),
                head: head.clone(),
                at: now,
            };
            Follows::Jobs(vec![Job::Hear(said).queued(&place, now, SignedDuration::ZERO)])
        }
        What::Ticked { is_bot: true, .. } => Follows::Nothing("no person ticked the boxes"),
        What::Ticked { issue, pools, by, .. } => {
            let is_shown = |pool: &&PoolId| {
                clusters.iter().any(|one| one.name == pool.cluster && one.repository.dashboard)
            };
            let job = |pool: &PoolId| {
                Job::Tick(Ticked {
                    place: place.clone(),
                    issue: issue.clone(),
                    cluster: pool.cluster.clone(),
                    pool: pool.pool.clone(),
                    by: by.id,
                    login: by.login.clone(),
                    id: format!("box-{}", named(key)),
                    at: now,
                })
                .queued(&place, now, SignedDuration::ZERO)
            };
            let jobs: Vec<_> = pools.iter().filter(is_shown).take(MOST_TICKS).map(job).collect();
            match jobs.is_empty() {
                true => Follows::Nothing("the boxes are on no dashboard of the configuration's"),
                false => Follows::Jobs(jobs),
            }
        }
        What::CommentGone { request, comment } => {
            Follows::Gone { place, request: request.clone(), comment: comment.clone() }
        }
        What::Request { branch: Some(branch), .. } | What::Push { branch } if is_own(branch) => {
            let glance = Job::Glance { place: place.clone(), branch: branch.clone() };
            Follows::Jobs(vec![glance.queued(&place, now, SETTLE)])
        }
        What::Push { branch } if is_base(&clusters, branch) => {
            let look = |cluster: &&ClusterSettings| {
                Job::Look { cluster: cluster.name.clone(), pool: None }.queued(&place, now, SETTLE_MAIN)
            };
            Follows::Jobs(clusters.iter().map(look).collect())
        }
        What::Request { .. } | What::Push { .. } => Follows::Nothing("it is about no branch of the bot's"),
    }
}

/// The branch is one that proposals may be for: the configured one; else one that is called so nearly everywhere, since
/// which it is would have to be asked first.
fn is_base(clusters: &[&ClusterSettings], branch: &str) -> bool {
    clusters.iter().any(|cluster| match &cluster.repository.branch {
        Some(configured) => configured == branch,
        None => ["main", "master", "trunk"].contains(&branch),
    })
}

/// The key of a delivery in letters that may stand anywhere.
fn named(key: &str) -> String {
    key.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).take(LONGEST_NAME).collect()
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(LONGEST_COMMENT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
