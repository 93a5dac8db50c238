//! Observed proposal and plan to the next action.
//!
//! The state is worked out anew from what the forge shows, each time; nothing is trusted from a cache. Carrying the
//! action out is the question of `engine`. It must not ask at all when the measurement failed or is partial: "no
//! finding" closes proposals, and a silent Prometheus is not "no finding".

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::Offset;

use super::asked::Asked;
use super::limits::within_an_hour;
use super::metadata::{Metadata, State};
use super::signature::SigningKey;
use crate::units::first_few;

mod open;
use open::{aimed_elsewhere, of_a_newer_bot, open, quiet};

/// Days after which a decline lapses. Doubled, a pool that changed twice over stays unseen for a year.
const DECLINE_DAYS: i32 = 180;

/// Times within an hour that the text of one proposal is written; then the bot stops. Runs are hours apart, so that more
/// means that something takes the change back each time. Doubled, the quarrel lasts twice as long.
const MOST_WRITES_PER_HOUR: usize = 6;

/// Days for which an older version leaves alone what a newer one wrote. Doubled, whoever goes back to an older version
/// waits twice as long for it to go on.
const NEWER_DAYS: i32 = 7;

/// What is found where a person wrote on the branch.
const FOREIGN: &str = "there are commits on the branch that are not the bot's";

/// What the forge shows of one proposal now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Head of the branch, if the branch exists.
    pub branch_head: Option<String>,
    /// Commits on the branch that are not on its base, oldest first.
    pub commits: Vec<ObservedCommit>,
    /// What the branch changes, by path; `None` where it removes the file.
    pub files: BTreeMap<String, Option<Vec<u8>>>,
    /// Paths that the branch changes and that changed on the default branch since.
    pub stale: BTreeSet<String>,
    /// The proposal's text, if there is one.
    pub request: Option<ObservedRequest>,
    /// The branch's change is on the default branch.
    pub merged: bool,
    /// The branch has no commit in common with the default branch, whose history was written anew or which is another
    /// one now. What it changes is not known then.
    pub unrelated: bool,
}

/// A commit as seen on the branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedCommit {
    /// Commit id.
    pub id: String,
    /// Author and committer e-mail.
    pub emails: [String; 2],
    /// It merges the base branch into the proposal's and changes nothing else: what a forge's button to update a branch
    /// makes.
    pub merges_base: bool,
    /// It is the only one, and changes what the commit that the bot left changed, on another base: what a forge's button to
    /// rebase makes, with the bot as its author still.
    pub rebased: bool,
}

/// A proposal's text as seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedRequest {
    /// The bot made it: anybody may open one from the bot's branch, and write anything there.
    pub by_bot: bool,
    /// Open, or closed by whomever.
    pub open: bool,
    /// Title.
    pub title: String,
    /// Text, with the hidden block.
    pub body: String,
    /// Branch that it is for now; a person may have changed it. `None`: the forge does not say.
    pub base_branch: Option<String>,
    /// People who approved its current head.
    pub approvals: u32,
    /// Why its branch must not move now: it is being merged, or carries a label that asks for that.
    pub held: Option<String>,
    /// It cannot be merged into the base branch as it is.
    pub conflicted: bool,
}

/// The proposal as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Title.
    pub title: String,
    /// Text, without the hidden block.
    pub body: String,
    /// The plan's fingerprint.
    pub fingerprint: String,
    /// Whole new content by path; `None` removes the file. Only files that differ from the default branch, as they
    /// are compared with what the branch changes. Empty: the repository says all of it already.
    pub files: BTreeMap<String, Option<Vec<u8>>>,
    /// Method of the plan, `MIG`.
    pub method: String,
    /// Cards that the plan frees.
    pub cards_freed: u32,
    /// What each workload gets, `namespace/name` to `2g.10gb`.
    pub shares: BTreeMap<String, String>,
    /// Workloads for which the share that stands on the branch is too small by now: merging it would take them down.
    pub outgrown: Vec<String>,
}

/// What the bot knows of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// E-mail addresses of its commits, former ones included.
    pub emails: BTreeSet<String>,
    /// Addresses that a forge puts down as committer of what anybody writes through it: the author decides then.
    pub forge_emails: BTreeSet<String>,
    /// Heads that it remembers having made, besides the one in the hidden block: the commit of a run that was stopped
    /// between the branch and the text.
    pub heads: BTreeSet<String>,
    /// Keys that sign hidden blocks, former ones included. With any, a block without its signature is not the bot's.
    pub keys: Vec<SigningKey>,
    /// Branch that proposals are for now.
    pub base_branch: String,
    /// Commit of it that the plan was made from.
    pub base_commit: String,
    /// A person asked for this pass.
    pub asked: Option<Asked>,
    /// Version of this program, `0.1.0`.
    pub version: String,
}

/// What to do next, with the reason that people read.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make the proposal: the branch, unless it is there already, and the text.
    Open {
        /// Write the branch; its head must still be what was observed.
        push: bool,
        /// Why.
        reason: String,
    },
    /// Bring an open proposal up to date.
    Update {
        /// Write the branch; its head must still be what was observed.
        push: bool,
        /// Write the text.
        text: bool,
        /// Why.
        reason: String,
    },
    /// Leave branch and text, and say that what they hold must not be merged.
    Warn {
        /// Why.
        reason: String,
    },
    /// Write nothing at all.
    Leave {
        /// Why.
        reason: String,
    },
    /// Close the proposal, for its reason is gone.
    Withdraw {
        /// Why.
        reason: String,
    },
    /// Write nothing: the branch holds work that is not the bot's.
    StopEdited {
        /// Commits that are not the bot's; empty when only the head is not where the bot left it.
        commits: Vec<String>,
        /// What was found.
        reason: String,
        /// How a person gives it back to the bot: "taking them off the branch".
        way_back: String,
    },
    /// Note in the text that the change was merged. The branch is left to whoever merged it.
    RecordMerged {
        /// How it is known.
        reason: String,
    },
    /// Note in the text that a person said no; its fingerprint is not proposed again.
    RecordDeclined {
        /// Only the bot wrote the branch: delete it.
        delete_branch: bool,
        /// How it is known.
        reason: String,
    },
}

impl Action {
    /// One word for logs and JSON.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Open { .. } => "open",
            Self::Update { .. } => "update",
            Self::Warn { .. } => "warn",
            Self::Leave { .. } => "leave",
            Self::Withdraw { .. } => "withdraw",
            Self::StopEdited { .. } => "stop-edited",
            Self::RecordMerged { .. } => "record-merged",
            Self::RecordDeclined { .. } => "record-declined",
        }
    }

    /// Why.
    pub fn reason(&self) -> &str {
        match self {
            Self::Open { reason, .. }
            | Self::Update { reason, .. }
            | Self::Warn { reason }
            | Self::Leave { reason }
            | Self::Withdraw { reason }
            | Self::StopEdited { reason, .. }
            | Self::RecordMerged { reason }
            | Self::RecordDeclined { reason, .. } => reason,
        }
    }

    fn leave(reason: impl Into<String>) -> Self {
        Self::Leave { reason: reason.into() }
    }
}

/// Decides what to do next. `wanted` is `None` when the measurement is complete and nothing is to be proposed.
pub fn decide(observed: &Observed, wanted: Option<&Wanted>, own: &Own, now: Timestamp) -> Action {
    let today = Offset::UTC.to_datetime(now).date();
    let wanted_files = wanted.filter(|wanted| !wanted.files.is_empty());
    let Some(request) = &observed.request else {
        return without_request(observed, wanted_files, own);
    };
    if !request.by_bot {
        return Action::leave(
            "a person opened a merge request from the bot's branch: the bot leaves both alone; close that one and delete the branch to get a proposal of the bot's own",
        );
    }
    // Nothing is left to lose: forges keep what was closed, so that this is the way out where a block is of no use.
    let is_over = !request.open && observed.branch_head.is_none();
    let Some(known) = Metadata::parse(&request.body) else {
        return match wanted_files {
            Some(_) if is_over => Action::Open {
                push: true,
                reason: "the last proposal is closed, and its hidden block and its branch are gone".into(),
            },
            None if is_over => Action::leave("nothing to propose"),
            _ => Action::leave(
                "the proposal's hidden block is gone or damaged, so that the bot cannot know whose text it is: close the proposal and delete its branch to get a fresh one",
            ),
        };
    };
    if !own.keys.is_empty() && !Metadata::is_signed(&request.body, &own.keys) && !is_over {
        return Action::leave(
            "the proposal's hidden block is not signed by this bot, so that it cannot know what it wrote: close the proposal and delete its branch to get a fresh one, or give the key that signed it",
        );
    }
    if request.open && known.state == State::Open {
        return stop_a_quarrel(open(observed, request, &known, wanted, own, today), wanted, &known, now);
    }
    if request.open {
        return reopened(observed, request, &known, wanted_files, own);
    }
    if matches!(known.state, State::Declined | State::Withdrawn) && left_over(observed, &known, own) {
        // A run was stopped before it deleted the branch. What people read stays the reason for closing it.
        let reason = known.reason.clone().unwrap_or_else(|| format!("it was {} earlier", known.state.name()));
        if known.state == State::Withdrawn && wanted_files.is_none() {
            return Action::Withdraw { reason };
        }
        if known.state == State::Declined {
            return Action::RecordDeclined { delete_branch: true, reason };
        }
    }
    match known.state {
        State::Open => closed_by_a_person(observed, &known, own),
        State::Declined => match (wanted_files, lapsed(&known, known.closed_on, wanted_files, today)) {
            (None, _) => Action::leave("declined, and there is nothing to propose now"),
            (Some(_), None) => Action::leave(declined_sentence(known.closed_on)),
            (Some(_), Some(why)) => again(observed, own, format!("the decline lapsed: {why}")),
        },
        State::Withdrawn => match wanted_files {
            None => Action::leave("withdrawn, and there is still nothing to propose"),
            Some(wanted) => match of_a_newer_bot(&known, own, today) {
                Some(why) => Action::leave(why),
                None => {
                    let action = again(observed, own, "the finding is back after it was withdrawn".into());
                    stop_a_quarrel(action, Some(wanted), &known, now)
                }
            },
        },
        State::Merged => match wanted_files {
            None => Action::leave("merged; the repository says all of it"),
            Some(wanted) if wanted.fingerprint == known.fingerprint => Action::leave(
                "merged, and the same change would be proposed: it was taken back on the base branch since",
            ),
            Some(_) => again(observed, own, "the last proposal was merged; this is another one".into()),
        },
    }
}

/// No text: nothing is there, or a branch whose text was never written.
fn without_request(observed: &Observed, wanted: Option<&Wanted>, own: &Own) -> Action {
    let Some(head) = &observed.branch_head else {
        return match wanted {
            Some(_) => Action::Open { push: true, reason: "there is no proposal yet".into() },
            None => Action::leave("nothing to propose"),
        };
    };
    if observed.commits.is_empty() || !strangers(observed, own).is_empty() {
        return edited(
            observed,
            own,
            "the branch exists, has no proposal, and was not made by the bot",
            "deleting the branch",
        );
    }
    // Without a text there is no note of the last head. The e-mail addresses of author and committer say that only
    // the bot wrote here, so nothing of a person can be lost.
    match wanted {
        Some(wanted) if wanted.files == observed.files => Action::Open {
            push: false,
            reason: format!(
                "the bot's branch is there at {head}, its text is not: a run was stopped in between"
            ),
        },
        Some(_) => Action::Open {
            push: true,
            reason: "the bot's branch is there without its text, and the change is another one by now".into(),
        },
        None => Action::Withdraw {
            reason: "the bot's branch has no text, and there is nothing to propose".into(),
        },
    }
}

/// The action, unless the text was written so often within an hour that somebody must be taking it back each time.
fn stop_a_quarrel(action: Action, wanted: Option<&Wanted>, known: &Metadata, now: Timestamp) -> Action {
    let recent = known.written.iter().filter(|at| within_an_hour(**at, now)).count();
    let writes = matches!(action, Action::Update { .. } | Action::Open { .. });
    if writes && recent >= MOST_WRITES_PER_HOUR {
        let why = format!(
            "stopped: it was written {recent} times within an hour, so something takes the change back each time ({})",
            action.reason()
        );
        let holds_harm = matches!(action, Action::Update { .. });
        return if holds_harm { quiet(&why, wanted) } else { Action::leave(why) };
    }
    action
}

/// A person opened a closed proposal again: that is a wish, and drops a decline.
fn reopened(
    observed: &Observed,
    request: &ObservedRequest,
    known: &Metadata,
    wanted: Option<&Wanted>,
    own: &Own,
) -> Action {
    if observed.merged && known.state == State::Merged {
        return Action::RecordMerged { reason: "merged; opening it again changes nothing".into() };
    }
    if let Some(stop) = aimed_elsewhere(observed, request, known, own) {
        return stop;
    }
    if let Some(why) = &request.held {
        return Action::leave(format!("held: {why}"));
    }
    match wanted {
        Some(_) => {
            again(observed, own, format!("a person opened it again after it was {}", known.state.name()))
        }
        None => Action::Withdraw {
            reason: "a person opened it again, and there is nothing to propose now".into(),
        },
    }
}

/// A new round on the same branch name.
fn again(observed: &Observed, own: &Own, reason: String) -> Action {
    if strangers(observed, own).is_empty() {
        return Action::Open { push: true, reason };
    }
    edited(observed, own, FOREIGN, "deleting the branch")
}

/// It was closed, and not by the bot.
fn closed_by_a_person(observed: &Observed, known: &Metadata, own: &Own) -> Action {
    if observed.merged {
        return Action::RecordMerged {
            reason: format!("the change of {} is on the base branch", short(&known.head)),
        };
    }
    let why = known.reason.as_ref().filter(|_| known.declined_on.is_some());
    Action::RecordDeclined {
        delete_branch: left_over(observed, known, own) || unfinished(observed, own),
        reason: why
            .map_or_else(|| "a person closed it".to_owned(), |why| format!("a person closed it: {why}")),
    }
}

/// The branch is where the bot put it before it could say so: a person closed the text in that moment.
fn unfinished(observed: &Observed, own: &Own) -> bool {
    observed.branch_head.as_ref().is_some_and(|head| own.heads.contains(head))
        && strangers(observed, own).is_empty()
}

/// The branch is there as the bot left it, and nobody else wrote on it.
fn left_over(observed: &Observed, known: &Metadata, own: &Own) -> bool {
    observed.branch_head.as_ref() == Some(&known.head) && strangers(observed, own).is_empty()
}

/// Why a decline no longer holds, if so.
fn lapsed(known: &Metadata, since: Option<Date>, wanted: Option<&Wanted>, today: Date) -> Option<String> {
    let wanted = wanted?;
    if wanted.method != known.method {
        return Some(format!("the method is {} now and was {}", wanted.method, known.method));
    }
    if wanted.cards_freed != known.cards_freed {
        return Some(format!("it would free {} GPUs now and {} then", wanted.cards_freed, known.cards_freed));
    }
    let days = since?.until(today).ok()?.get_days();
    (days >= DECLINE_DAYS).then(|| format!("it is {days} days old"))
}

fn declined_sentence(since: Option<Date>) -> String {
    let day = since.map_or_else(|| "earlier".to_owned(), |day| format!("on {day}"));
    format!(
        "declined {day}; it is proposed again after {DECLINE_DAYS} days, or when the GPUs freed or the method change"
    )
}

/// Commits whose author or committer is not the bot.
fn strangers(observed: &Observed, own: &Own) -> Vec<String> {
    let foreign = |commit: &&ObservedCommit| {
        let [author, committer] = &commit.emails;
        // Nobody tells addresses apart by their case, and configurations are written by hand.
        let among = |known: &BTreeSet<String>, one: &String| {
            known.iter().any(|known| known.eq_ignore_ascii_case(one))
        };
        // Whoever presses the button to rebase is the committer of what the bot wrote.
        let ours = among(&own.emails, author)
            && (commit.rebased || among(&own.emails, committer) || among(&own.forge_emails, committer));
        !commit.merges_base && !ours
    };
    observed.commits.iter().filter(foreign).map(|commit| commit.id.clone()).collect()
}

fn edited(observed: &Observed, own: &Own, found: &str, way_back: &str) -> Action {
    let commits = strangers(observed, own);
    let which = if commits.is_empty() {
        String::new()
    } else {
        format!(" ({})", commits.iter().map(|id| short(id)).collect::<Vec<_>>().join(", "))
    };
    Action::StopEdited { commits, reason: format!("{found}{which}"), way_back: way_back.to_owned() }
}

fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

fn list(paths: &BTreeSet<String>) -> String {
    let ticked: Vec<String> = paths.iter().map(|path| format!("`{path}`")).collect();
    first_few(&ticked, 3, ", ")
}

#[cfg(test)]
mod tests;
