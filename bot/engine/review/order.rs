//! A command that needs a plan: what it notes, and how the pass that follows differs from others.

use std::collections::BTreeSet;

use anyhow::Context as _;
use jiff::Timestamp;
use slicewright_core::ids::PoolId;
use slicewright_core::plan::Outcome;
use slicewright_core::policy::wished;
use slicewright_core::review::asked::Asked;
use slicewright_core::review::command::Command;
use slicewright_core::review::difference::difference;
use slicewright_core::review::lifecycle::{Action, Wanted};
use slicewright_core::review::metadata::{Metadata, Obeyed as Place};
use slicewright_core::review::overrides::{Overrides, Wishes};

use crate::engine::Engine;
use crate::engine::analyse::Analysis;
use crate::engine::pass::{Done, known};
use crate::engine::propose::There;
use crate::forge::{Forge, Found, RequestText};

/// A command about the proposal of a pool, on its way through a run.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Order {
    /// The pool.
    pub(in crate::engine) pool: PoolId,
    /// The command.
    pub(in crate::engine) command: Command,
    /// Where it stands.
    pub(in crate::engine) place: Place,
    /// Head of the branch that its author saw.
    pub(in crate::engine) head: Option<String>,
}

/// What a person asks of a run.
#[derive(Clone, Debug)]
pub(in crate::engine) enum Asking {
    /// A command about an open proposal.
    Command(Order),
    /// A look at a pool, by its box on the dashboard.
    Box {
        /// The pool.
        pool: PoolId,
        /// Names the tick.
        place: Place,
    },
}

impl Asking {
    /// The command that it comes to, given what is there. A box of a pool without an open proposal asks for nothing but the
    /// run itself.
    pub(in crate::engine) fn order(&self, found: Option<&Found>, today: jiff::civil::Date) -> Option<Order> {
        match self {
            Self::Command(order) => Some(order.clone()),
            Self::Box { pool, place } => {
                let request = found?.request.as_ref().filter(|request| request.open && request.by_bot)?;
                let known = Metadata::parse(&request.body);
                let command = match known.and_then(|known| known.silence(today)) {
                    Some(_) => Command::Resume,
                    None => Command::Regenerate { wishes: Wishes::default(), discard_edits: false },
                };
                Some(Order { pool: pool.clone(), command, place: place.clone(), head: None })
            }
        }
    }

    /// The pool that it is about.
    pub(in crate::engine) fn pool(&self) -> &PoolId {
        match self {
            Self::Command(order) => &order.pool,
            Self::Box { pool, .. } => pool,
        }
    }
}

/// A command that was noted, before the pass over its proposal.
pub(in crate::engine) struct Taken {
    /// The command.
    command: Command,
    /// How the pass differs.
    pub(in crate::engine) asked: Option<Asked>,
    /// What was noted before, and by the command.
    before: Metadata,
    noted: Metadata,
    /// Workloads of the plan before.
    named: BTreeSet<String>,
}

/// What a command did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Obeyed {
    /// The command.
    pub(in crate::engine) command: Command,
    /// In a sentence, without a full stop.
    pub(in crate::engine) what: String,
    /// Head of the branch before and after, where it moved.
    pub(in crate::engine) moved: Option<[String; 2]>,
    /// What is noted now.
    pub(in crate::engine) noted: Metadata,
}

impl Order {
    /// What is noted after the command; nothing else where it was noted before it was interrupted.
    ///
    /// # Errors
    /// Why it cannot be done, for its author.
    pub(super) fn noted(
        &self,
        before: &Metadata,
        numbered: Option<&[String]>,
        today: jiff::civil::Date,
    ) -> Result<Metadata, String> {
        if self.place.is_in(before.obeyed.as_ref()) {
            return Ok(before.clone());
        }
        let noted = self.command.noted(before, numbered, today)?;
        Ok(Metadata { obeyed: Some(self.place.clone()), ..noted })
    }
}

impl Taken {
    fn still(&self, what: String) -> Obeyed {
        Obeyed { command: self.command.clone(), what, moved: None, noted: self.noted.clone() }
    }

    /// What changed by the pass, or why it did nothing.
    ///
    /// # Errors
    /// Why nothing was done that was asked for.
    pub(in crate::engine) fn obeyed(
        &self,
        found: &Found,
        wanted: Option<&Wanted>,
        done: &Done,
    ) -> Result<Obeyed, String> {
        match &done.action {
            Action::Open { reason, .. } | Action::Update { reason, .. } => {
                let what =
                    wanted.map(|wanted| difference(&self.before, &self.named, wanted)).unwrap_or_default();
                let what = if what.is_empty() { reason.clone() } else { what };
                let heads = found.branch_head.clone().zip(done.head.clone());
                let moved =
                    heads.filter(|(before, after)| before != after).map(|(before, after)| [before, after]);
                Ok(Obeyed { moved, ..self.still(what) })
            }
            Action::Withdraw { reason } => Ok(self.still(format!("withdrawn: {reason}"))),
            Action::Leave { reason } if !done.undecided => {
                Ok(self.still(format!("measured and planned again; {reason}")))
            }
            Action::StopEdited { reason, .. } => {
                Err(format!("{reason}; `regenerate discard-edits=yes` drops what people wrote there"))
            }
            Action::Leave { reason }
            | Action::Warn { reason }
            | Action::RecordMerged { reason }
            | Action::RecordDeclined { reason, .. } => Err(reason.clone()),
        }
    }
}

impl Engine {
    /// Notes a command on its merge request and plans again with what it wishes for.
    ///
    /// # Errors
    /// When the forge cannot be read or written. The inner error is the answer to whoever asked: nothing was noted then.
    pub(in crate::engine) async fn take_up(
        &self,
        order: &Order,
        analysis: &mut Analysis,
        forge: &dyn Forge,
        there: &mut There,
    ) -> anyhow::Result<Result<Taken, String>> {
        let Some((branch, _)) = there.at.get(&order.pool) else {
            return Ok(Err(format!(
                "the pool `{}` is gone: no node belongs to it any more",
                order.pool.pool
            )));
        };
        let branch = branch.clone();
        // To measure takes its time; what was found before that is old.
        let fresh = forge.find(&branch, &analysis.snapshot.commit).await;
        let fresh = fresh.with_context(|| format!("cannot look at branch `{branch}`"))?;
        let before = match self.ready_for(order, &fresh) {
            Ok(before) => before,
            Err(why) => return Ok(Err(why)),
        };
        let numbered = numbered(analysis, &order.pool, &before);
        let today = day(analysis.at);
        let noted = match order.noted(&before, numbered.as_deref(), today) {
            Ok(noted) => noted,
            Err(why) => return Ok(Err(why)),
        };
        if order.command.asks().is_some()
            && let Some(why) = silence(&fresh, &noted, today)
        {
            return Ok(Err(why));
        }
        let named = workloads(analysis.outcome(&order.pool)).into_iter().collect();
        if let Err(why) = self.heed(order, analysis, &before, &noted) {
            return Ok(Err(why));
        }
        self.note(forge, &branch, &fresh, &before, &noted).await?;
        if noted != before {
            let again = forge.find(&branch, &analysis.snapshot.commit).await;
            let again = again.with_context(|| format!("cannot look at branch `{branch}`"))?;
            there.at.insert(order.pool.clone(), (branch, again));
        } else {
            there.at.insert(order.pool.clone(), (branch, fresh));
        }
        let command = order.command.clone();
        Ok(Ok(Taken { asked: command.asks(), command, before, noted, named }))
    }

    /// What is noted about the proposal that the order is about, if that still is what its author saw.
    pub(super) fn ready_for(&self, order: &Order, found: &Found) -> Result<Metadata, String> {
        let open = found.request.as_ref().is_some_and(|request| request.open);
        let known = known(found, &self.signing_keys).filter(|_| open);
        let known =
            known.filter(|known| known.cluster == order.pool.cluster && known.pool == order.pool.pool);
        let Some(known) = known else {
            return Err("its hidden block is gone, damaged or not the bot's: close it and delete its branch to get a fresh one".to_owned());
        };
        // Moved by an earlier command of the same comment, or by this one before it was interrupted.
        let head = found.branch_head.as_ref();
        let left_there = head == Some(&known.head) || head == found.unfinished_head.as_ref();
        let own_doing = left_there && order.place.follows(known.obeyed.as_ref());
        match (&order.head, &found.branch_head) {
            (Some(seen), now)
                if order.command.is_about_the_head() && now.as_ref() != Some(seen) && !own_doing =>
            {
                Err(format!(
                    "the branch was at `{}` when this was asked and is {} now: look at it and ask again",
                    short(seen),
                    now.as_deref().map_or_else(|| "gone".to_owned(), |now| format!("at `{}`", short(now)))
                ))
            }
            _ => Ok(known),
        }
    }

    /// Plans with what is wished for; as before where that leads nowhere.
    fn heed(
        &self,
        order: &Order,
        analysis: &mut Analysis,
        before: &Metadata,
        noted: &Metadata,
    ) -> Result<(), String> {
        if noted.overrides == before.overrides {
            return Ok(());
        }
        let Some(pool) = analysis.configured(&order.pool) else {
            return Err(format!("the pool `{}` is gone", order.pool.pool));
        };
        let new = order.command.wishes().map(|wishes| wishes.overrides.clone()).unwrap_or_default();
        let exclude = noted.overrides.exclude.difference(&before.overrides.exclude).cloned().collect();
        wished::check(&Overrides { exclude, ..new }, &analysis.policies, pool, &analysis.inventory)?;
        self.plan_again(analysis, &order.pool, &noted.overrides);
        match analysis.outcome(&order.pool) {
            Some(Outcome::Plan(_)) => Ok(()),
            Some(Outcome::Nothing(nothing)) => {
                let why =
                    nothing.reasons.first().map(|reason| format!(": {}", reason.text)).unwrap_or_default();
                self.plan_again(analysis, &order.pool, &before.overrides);
                Err(format!("with that nothing is left to propose{why}; the proposal stays as it is"))
            }
            None => Err(format!("the pool `{}` is gone", order.pool.pool)),
        }
    }

    /// Writes down what people asked for, and nothing else.
    ///
    /// # Errors
    /// When the merge request cannot be written.
    pub(in crate::engine) async fn note(
        &self,
        forge: &dyn Forge,
        branch: &str,
        found: &Found,
        before: &Metadata,
        noted: &Metadata,
    ) -> anyhow::Result<()> {
        let Some(request) = found.request.as_ref().filter(|_| noted != before) else { return Ok(()) };
        let text = RequestText {
            title: request.title.clone(),
            body: noted
                .put_into(&request.body, self.signing_keys.first())
                .context("it has no hidden block")?,
            base_branch: request.base_branch.clone().unwrap_or_else(|| noted.base_branch.clone()),
            draft: request.draft,
            labels: Vec::new(),
            reviewers: Vec::new(),
        };
        forge
            .write_request(branch, Some(&request.id), &text)
            .await
            .with_context(|| format!("cannot note it in the merge request of `{branch}`"))?;
        Ok(())
    }
}

/// Why nothing is written on a proposal whatever anybody asks.
fn silence(found: &Found, noted: &Metadata, today: jiff::civil::Date) -> Option<String> {
    if let Some(held) = found.request.as_ref().and_then(|request| request.held.as_ref()) {
        return Some(format!("nothing can be written now: {held}"));
    }
    noted.silence(today).map(|why| format!("{why}: `resume` takes that back"))
}

/// Workloads of the table that stands in the text, in its order. `None`: today's plan is another one than the text's.
pub(super) fn numbered(analysis: &Analysis, pool: &PoolId, known: &Metadata) -> Option<Vec<String>> {
    match analysis.outcome(pool)? {
        Outcome::Plan(plan) if plan.fingerprint == known.fingerprint => {
            Some(workloads(analysis.outcome(pool)))
        }
        Outcome::Plan(_) | Outcome::Nothing(_) => None,
    }
}

fn workloads(outcome: Option<&Outcome>) -> Vec<String> {
    match outcome {
        Some(Outcome::Plan(plan)) => plan.items.iter().map(|item| item.fit.workload.to_string()).collect(),
        Some(Outcome::Nothing(_)) | None => Vec::new(),
    }
}

pub(in crate::engine) fn day(at: Timestamp) -> jiff::civil::Date {
    jiff::tz::Offset::UTC.to_datetime(at).date()
}

fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}
