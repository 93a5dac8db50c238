//! How many proposals a repository has, and whether there is room for another.

use std::collections::BTreeSet;

use slicewright_core::review::lifecycle::Action;
use slicewright_core::review::limits::{Limits, Standing};
use slicewright_core::review::metadata::State;

use crate::engine::pass::noted;
use crate::forge::Found;

/// The room that a repository has for new proposals.
pub(super) struct Room<'a> {
    pub(super) limits: Limits,
    pub(super) tally: &'a mut Tally,
}

/// What a repository has, and the branches that are counted in it.
#[derive(Default)]
pub(super) struct Tally {
    standing: Standing,
    pub(super) counted: BTreeSet<String>,
}

impl Room<'_> {
    /// Counts what is there, once.
    pub(super) fn count(&mut self, branch: &str, found: &Found) {
        if !self.tally.counted.insert(branch.to_owned()) {
            return;
        }
        let Some(known) = noted(found) else { return };
        let standing = &mut self.tally.standing;
        standing.made.extend(known.created_at);
        let open = known.state == State::Open && found.request.as_ref().is_some_and(|request| request.open);
        standing.n_open += u32::from(open);
    }

    /// The action, unless it would make one proposal too many.
    pub(super) fn allow(&mut self, action: Action, at: jiff::Timestamp, asked: bool) -> Action {
        if !matches!(action, Action::Open { .. }) {
            return action;
        }
        if let Some(why) = self.limits.forbid(&self.tally.standing, at, asked) {
            return Action::Leave { reason: format!("waits: {why}") };
        }
        self.tally.standing.n_open += 1;
        self.tally.standing.made.push(at);
        action
    }
}
