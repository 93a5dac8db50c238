//! How a forge tells a program of what happens, and what runs by its clock.

use std::collections::BTreeSet;

use super::state::State;

/// A webhook: of a repository, or of the App.
#[derive(Clone, Debug)]
pub(crate) struct Hook {
    pub(crate) id: u64,
    pub(crate) url: String,
    pub(crate) standing: Standing,
    /// What it tells of: `note`, `pipeline`.
    pub(crate) events: Vec<&'static str>,
    /// What the address answers now. 0: nothing.
    pub(crate) answers: u16,
    /// Oldest first.
    pub(crate) attempts: Vec<Attempt>,
}

/// Whether a hook is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    On,
    Paused,
    Off,
}

/// One attempt at a delivery.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) id: u64,
    /// What attempts at one delivery share.
    pub(crate) key: String,
    pub(crate) event: String,
    /// Where it went.
    pub(crate) url: String,
    pub(crate) at: i64,
    /// 0: nothing answered.
    pub(crate) status: u16,
    /// Number of the repository that it is about.
    pub(crate) repository: u64,
}

/// The group that all repositories are in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    /// Its owners by number.
    pub(crate) owners: BTreeSet<u64>,
    pub(crate) hooks: Vec<Hook>,
}

/// A pipeline that runs by the clock.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pub(crate) name: String,
    pub(crate) active: bool,
    /// `None`: the account is gone.
    pub(crate) owner: Option<u64>,
}

impl Hook {
    pub(crate) fn new(id: u64, url: &str) -> Self {
        let events = vec!["merge_requests", "note"];
        Self { id, url: url.to_owned(), standing: Standing::On, events, answers: 200, attempts: Vec::new() }
    }

    /// Sends a delivery again; the new attempt, or nothing where there is no such attempt.
    pub(crate) fn resend(&mut self, attempt: u64, id: u64, at: i64) -> Option<&Attempt> {
        let old = self.attempts.iter().find(|one| one.id == attempt)?.clone();
        let new = Attempt { id, at, status: self.answers, url: self.url.clone(), ..old };
        self.attempts.push(new);
        self.attempts.last()
    }
}

impl State {
    /// The hook of `acme/infra` with this number tells of something; the attempt's number.
    pub(crate) fn tell(&mut self, hook: u64, key: &str, event: &str) -> u64 {
        let (id, at, repository) = (self.new_id(), self.tick(), self.infra().id);
        let hook = self.infra().hooks.iter_mut().find(|one| one.id == hook).expect("there is one");
        let attempt = Attempt {
            id,
            key: key.to_owned(),
            event: event.to_owned(),
            url: hook.url.clone(),
            at,
            status: hook.answers,
            repository,
        };
        hook.attempts.push(attempt);
        id
    }
}
