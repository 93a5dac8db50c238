//! What people ask for by comments on a proposal, and the answers.
//!
//! A command changes what is noted about the proposal and nothing else; the proposal is then planned again from scratch by
//! the same pass that runs on a schedule.

mod answer;

mod hear;

mod order;

mod tick;

use slicewright_core::review::command::Command;

use crate::forge::contact::Person;

pub use hear::Heard;
pub(super) use order::{Asking, Obeyed, Taken, day};
pub use tick::Tick;

/// A comment on a merge request, as a webhook told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// The repository as the configuration names it: [`crate::settings::RepositorySettings::place`].
    pub place: String,
    /// The merge request's number.
    pub request: String,
    /// What the forge calls the comment.
    pub id: String,
    /// Who wrote it.
    pub author: Person,
    /// What it said when it was written.
    pub text: String,
    /// Head of the branch that its author saw. `None`: not known yet.
    pub head: Option<String>,
}

/// What came of a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is nothing that the bot should say a word to.
    Silence(&'static str),
    /// Every command in order with what came of it.
    Given(Vec<Carried>),
}

/// A command with what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The command, `regenerate headroom=30%`.
    pub command: String,
    /// It was done; else why not.
    pub outcome: Result<(), String>,
}

/// Facts for `status` that the forge does not know: when the bot looked last, when it looks again.
pub type Facts = Vec<String>;

/// The commands of a comment, or what is wrong with them.
fn commands(
    text: &str,
    handle: &str,
) -> Option<Result<Vec<Command>, slicewright_core::review::command::Refusal>> {
    use slicewright_core::review::command::{Parsed, parse};
    match parse(text, handle) {
        Parsed::Nothing => None,
        Parsed::Commands(commands) => Some(Ok(commands)),
        Parsed::Refused(refusal) => Some(Err(refusal)),
    }
}
