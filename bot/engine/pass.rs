//! One proposal in one pass: decide, look again, write, say.
//!
//! What to do is decided in `core::review`. Here is the order in which it is done, so that a run that is stopped and a
//! forge that fails leave nothing that the next pass cannot complete.

use anyhow::Context as _;
use jiff::Timestamp;
use slicewright_core::ids::PoolId;
use slicewright_core::review::asked::Asked;
use slicewright_core::review::lifecycle::{self, Action, Own, Wanted};
use slicewright_core::review::limits::within_an_hour;
use slicewright_core::review::metadata::{Metadata, State, strip};
use slicewright_core::review::overrides::Overrides;
use slicewright_core::review::shares::Shares;
use slicewright_core::review::signature::SigningKey;
use slicewright_core::review::verdict::{Verdict, verdict};

use super::VERSION;
use crate::forge::{Check, Commit, Conclusion, Forge, ForgeError, Found, Identity, RequestText, Topic};
use crate::render::{self, Dialect, Reply};

/// What is said while something stands in the way, and taken back when it does not.
const PASSING: [Topic; 3] = [Topic::Edited, Topic::Configuration, Topic::Warning];

/// What people and rules see the verdict under.
pub(super) const CHECK: &str = "slicewright";

/// What a pass is about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The pool.
    pub pool: &'a PoolId,
    /// Branch of its proposal.
    pub branch: &'a str,
    /// Branch that proposals are for.
    pub base_branch: &'a str,
    /// Commit of it that was read and that changes are made from.
    pub base_commit: &'a str,
    /// Moment that the run looks at.
    pub at: Timestamp,
    /// Metrics that the texts rest on.
    pub metrics: &'a [String],
    /// Labels of a new merge request.
    pub labels: &'a [String],
    /// How texts are written here.
    pub dialect: Dialect,
    /// Keys that sign hidden blocks: the first signs, all are known.
    pub keys: &'a [SigningKey],
    /// Show on the branch's head whether it may be merged.
    pub checks: bool,
    /// A person asked for this pass, and is answered by whoever carries the command out.
    pub asked: Option<Asked>,
    /// Wishes of reviewers that the plan was made with.
    pub overrides: &'a Overrides,
}

/// A proposal as it should be, with what is said once.
#[derive(Clone, Debug)]
pub struct Ready {
    /// Change and text.
    pub wanted: Wanted,
    /// Message of its commit.
    pub message: String,
    /// It waits for people.
    pub draft: bool,
    /// Whom CODEOWNERS names for its files.
    pub reviewers: Vec<String>,
}

/// One pass over one proposal.
pub struct Pass<'a> {
    forge: &'a dyn Forge,
    subject: Subject<'a>,
    identity: &'a Identity,
    ready: Option<&'a Ready>,
    doubt: Option<Doubt>,
}

/// What stands on the forge after a write.
struct Written {
    /// Where a person finds the merge request.
    url: String,
    /// Head of its branch.
    head: String,
}

/// Why nothing may be decided now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// It passes: metrics that are missing, a freeze.
    Wait(String),
    /// The repository's own configuration cannot be used, and its people should know.
    Configuration(String),
}

/// What came of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// What was done, which is not always what was meant at first.
    pub action: Action,
    /// Where a person finds the merge request, if there is one.
    pub url: Option<String>,
    /// Head of its branch, if there is one.
    pub head: Option<String>,
    /// Something stood in the way of deciding: a doubt, or somebody who wrote meanwhile.
    pub undecided: bool,
}

impl<'a> Pass<'a> {
    /// `ready` is `None` when the measurement is complete and nothing is to be proposed. `doubt` says why nothing at all may
    /// be decided now.
    pub fn new(
        forge: &'a dyn Forge,
        subject: Subject<'a>,
        identity: &'a Identity,
        ready: Option<&'a Ready>,
        doubt: Option<Doubt>,
    ) -> Self {
        Self { forge, subject, identity, ready, doubt }
    }

    fn key(&self) -> Option<&SigningKey> {
        self.subject.keys.first()
    }

    /// What to do, given what is there.
    pub fn decide(&self, found: &Found) -> Action {
        let pool = self.subject.pool;
        if let Some(known) =
            noted(found).filter(|known| known.cluster != pool.cluster || known.pool != pool.pool)
        {
            let reason = format!(
                "the branch belongs to pool `{}` of cluster `{}`: give one of the two another name",
                known.pool, known.cluster
            );
            return Action::Leave { reason };
        }
        if let Some(Doubt::Wait(reason) | Doubt::Configuration(reason)) = &self.doubt {
            return Action::Leave { reason: reason.clone() };
        }
        let wanted = self.ready.map(|ready| &ready.wanted);
        lifecycle::decide(&found.observed(), wanted, &self.own(found), self.subject.at)
    }

    fn own(&self, found: &Found) -> Own {
        Own {
            emails: self.identity.emails.clone(),
            forge_emails: self.identity.forge_emails.clone(),
            heads: found.unfinished_head.iter().cloned().collect(),
            keys: self.subject.keys.to_vec(),
            base_branch: self.subject.base_branch.to_owned(),
            base_commit: self.subject.base_commit.to_owned(),
            asked: self.subject.asked,
            version: VERSION.to_owned(),
        }
    }

    /// Does what was decided for `found`. Before the first write it looks again, since reading and planning take their
    /// time: what is another case by now is left to the next run.
    ///
    /// # Errors
    /// When the forge cannot be read or written.
    pub async fn carry_out(&self, found: &Found, action: Action) -> anyhow::Result<Done> {
        let url = found.request.as_ref().map(|request| request.url.clone());
        if let Action::Leave { .. } = action {
            match &self.doubt {
                Some(Doubt::Configuration(problem)) if is_open(found) => {
                    self.say(found, Topic::Configuration, &Reply::Misconfigured { problem }).await?;
                }
                // Whatever was said is no longer so.
                None if self.is_ours(found) => {
                    self.hush(found, &PASSING).await;
                    self.show_verdict(&action, found, found.branch_head.as_deref(), url.as_deref()).await;
                }
                // It holds, but something else makes the bot wait.
                Some(Doubt::Wait(_)) if self.is_ours(found) => {
                    self.hush(found, &[Topic::Configuration]).await;
                }
                _ => {}
            }
            return Ok(Done {
                action,
                url,
                head: found.branch_head.clone(),
                undecided: self.doubt.is_some(),
            });
        }
        let branch = self.subject.branch;
        let main = self.forge.head().await.context("cannot read the default branch")?;
        let fresh = self.forge.find(branch, &main).await;
        let fresh = fresh.with_context(|| format!("cannot look at branch `{branch}`"))?;
        let action = if fresh == *found { action } else { self.second_thought(action, &fresh) };
        match self.act(&fresh, &action).await {
            Ok(written) => {
                let (url, head) = match written {
                    Some(Written { url, head }) => (Some(url), Some(head)),
                    None => (url, fresh.branch_head.clone()),
                };
                // For whoever asks later what was written, and in whose job.
                tracing::info!(
                    branch,
                    action = action.code(),
                    before = fresh.branch_head,
                    after = head,
                    url,
                    "wrote to the forge"
                );
                self.show_verdict(&action, &fresh, head.as_deref(), url.as_deref()).await;
                let undecided = action == moved();
                Ok(Done { action, url, head, undecided })
            }
            Err(error) if matches!(error.downcast_ref(), Some(ForgeError::Conflict { .. })) => {
                tracing::info!("{error:#}");
                Ok(Done { action: moved(), url, head: fresh.branch_head, undecided: true })
            }
            Err(error) => Err(error),
        }
    }

    fn second_thought(&self, action: Action, fresh: &Found) -> Action {
        let now = self.decide(fresh);
        if now.code() == action.code() || matches!(now, Action::Leave { .. }) { now } else { moved() }
    }

    async fn act(&self, found: &Found, action: &Action) -> anyhow::Result<Option<Written>> {
        match action {
            Action::Leave { .. } => {}
            Action::Warn { reason } => {
                self.say(found, Topic::Warning, &Reply::Warned { reason }).await?;
                self.hush(found, &[Topic::Edited, Topic::Configuration]).await;
            }
            // Whoever asked for the pass is told there.
            Action::StopEdited { .. } if self.subject.asked.is_some() => {}
            Action::StopEdited { reason, way_back, .. } => {
                self.say(found, Topic::Edited, &Reply::Edited { reason, way_back }).await?;
                self.hush(found, &[Topic::Warning, Topic::Configuration]).await;
            }
            Action::Open { push, .. } => return self.write(found, *push).await.map(Some),
            Action::Update { push: false, text: false, .. } => {}
            Action::Update { push, reason, .. } => {
                let written = self.write(found, *push).await?;
                // Another text alone is nothing that somebody must know, and whoever asked gets an answer of their own.
                let moved = found.branch_head.as_deref().filter(|before| *before != written.head);
                if let Some(before) = moved.filter(|_| self.subject.asked.is_none()) {
                    let updated = Reply::Updated { reason, before, after: &written.head };
                    self.say(found, Topic::Status, &updated).await?;
                }
                return Ok(Some(written));
            }
            Action::Withdraw { reason } => {
                self.say(found, Topic::Status, &Reply::Closed { reason }).await?;
                self.close(found, State::Withdrawn, reason, true).await?;
            }
            Action::RecordMerged { reason } => self.close(found, State::Merged, reason, false).await?,
            Action::RecordDeclined { delete_branch, reason } => {
                self.close(found, State::Declined, reason, *delete_branch).await?;
            }
        }
        Ok(None)
    }

    /// Shows on the head of an open proposal whether it may be merged, where that is wanted. What was done is no less done
    /// without it.
    async fn show_verdict(&self, action: &Action, found: &Found, head: Option<&str>, url: Option<&str>) {
        if !self.subject.checks {
            return;
        }
        let verdict = verdict(action, &found.observed(), self.ready.map(|ready| &ready.wanted));
        let (Some(head), Some(verdict)) = (head, verdict) else { return };
        let (conclusion, lead, reply) = match &verdict {
            Verdict::Fine(reason) => (Conclusion::Passed, "It holds", Reply::Supported { reason }),
            // What is closed is not brought up to date any more.
            Verdict::Harmful(reason) if matches!(action, Action::Withdraw { .. }) => {
                (Conclusion::Failed, "Do not merge", Reply::Closed { reason })
            }
            Verdict::Harmful(reason) => (Conclusion::Failed, "Do not merge", Reply::Warned { reason }),
            Verdict::Unchecked(reason) => (Conclusion::Neutral, "Not checked", Reply::Unchecked { reason }),
        };
        let shown = async {
            let check = Check {
                name: CHECK.to_owned(),
                conclusion,
                sentence: format!("{lead}: {}", verdict.sentence()),
                text: render::reply(&reply, self.subject.dialect)?,
                url: url.map(str::to_owned),
            };
            anyhow::Ok(self.forge.check(head, &check).await?)
        };
        if let Err(error) = shown.await {
            tracing::warn!("cannot show on {head} whether it may be merged: {error:#}");
        }
    }

    /// Branch and text.
    async fn write(&self, found: &Found, push: bool) -> anyhow::Result<Written> {
        let Subject { branch, base_branch, .. } = self.subject;
        let ready = self.ready.context("a proposal without a plan")?;
        let head = match (&found.branch_head, push) {
            (Some(head), false) => head.clone(),
            (None, false) => anyhow::bail!("the branch is gone"),
            (expected, true) => {
                let commit = Commit {
                    base: self.subject.base_commit.to_owned(),
                    message: ready.message.clone(),
                    files: ready.wanted.files.clone(),
                };
                let published = self.forge.publish(branch, expected.as_deref(), &commit).await;
                published.with_context(|| format!("cannot write branch `{branch}`"))?
            }
        };
        let open = found.request.as_ref().filter(|request| request.open);
        let known = noted(found);
        let metadata = self.metadata(ready, known.as_ref(), &head, push);
        // A person who marked it as a draft, or took the mark off, is right until the plan says another thing.
        let draft = match (open, &known) {
            (Some(open), Some(known)) if known.draft == ready.draft => open.draft,
            _ => ready.draft,
        };
        let request = RequestText {
            title: ready.wanted.title.clone(),
            body: metadata.attach(&ready.wanted.body, self.key()),
            base_branch: base_branch.to_owned(),
            draft,
            labels: self.subject.labels.to_vec(),
            reviewers: ready.reviewers.clone(),
        };
        let url = self
            .forge
            .write_request(branch, open.map(|request| request.id.as_str()), &request)
            .await
            .with_context(|| format!("cannot write the merge request of `{branch}`"))?;
        if is_open(found) {
            // Whatever stood in the way is gone: the bot writes there again.
            self.hush(found, &PASSING).await;
        }
        Ok(Written { url, head })
    }

    fn metadata(&self, ready: &Ready, known: Option<&Metadata>, head: &str, push: bool) -> Metadata {
        let at = self.subject.at;
        let open = known.filter(|known| known.state == State::Open);
        // Of the round before too: what comes and goes is a quarrel as well.
        let earlier = known.map(|known| known.written.as_slice()).unwrap_or_default();
        let lately = earlier.iter().filter(|written| within_an_hour(**written, at));
        Metadata {
            schema: Metadata::SCHEMA,
            cluster: self.subject.pool.cluster.clone(),
            pool: self.subject.pool.pool.clone(),
            created_in: known.map_or_else(|| VERSION.to_owned(), |known| known.created_in.clone()),
            created_at: open.map_or(Some(at), |known| known.created_at),
            updated_in: VERSION.to_owned(),
            base_branch: self.subject.base_branch.to_owned(),
            base_commit: match known {
                Some(known) if !push => known.base_commit.clone(),
                _ => self.subject.base_commit.to_owned(),
            },
            head: head.to_owned(),
            fingerprint: ready.wanted.fingerprint.clone(),
            body_hash: String::new(),
            title: ready.wanted.title.clone(),
            draft: ready.draft,
            written: lately.copied().chain([at]).collect(),
            state: State::Open,
            method: ready.wanted.method.clone(),
            cards_freed: ready.wanted.cards_freed,
            metrics: self.subject.metrics.to_vec(),
            shares: Shares::of(&ready.wanted.shares),
            overrides: self.subject.overrides.clone(),
            obeyed: known.and_then(|known| known.obeyed.clone()),
            declined_on: None,
            snoozed_until: known.and_then(|known| known.snoozed_until),
            paused: known.is_some_and(|known| known.paused),
            closed_on: None,
            reason: None,
        }
    }

    /// Closes what is there; with `delete` the branch goes too, if it still is where it was seen.
    async fn close(&self, found: &Found, state: State, reason: &str, delete: bool) -> anyhow::Result<()> {
        let Subject { branch, at, .. } = self.subject;
        let expected = found.branch_head.as_deref().filter(|_| delete);
        let today = jiff::tz::Offset::UTC.to_datetime(at).date();
        let request = found.request.as_ref();
        let (title, body) = match (request, noted(found)) {
            (Some(request), Some(known)) => {
                let closed = Metadata {
                    state,
                    // What is to be deleted is the bot's own; noted, a run that is stopped before that knows it again.
                    head: expected.unwrap_or(&known.head).to_owned(),
                    updated_in: VERSION.to_owned(),
                    // Done again after a run that was stopped, it is no later for that.
                    closed_on: known.closed_on.filter(|_| known.state == state).or(Some(today)),
                    reason: Some(reason.to_owned()),
                    // As it is called now: a title that a person gives it later is a word of theirs.
                    title: request.title.clone(),
                    ..known
                };
                let body = render::closing(&strip(&request.body), state, reason);
                (request.title.clone(), closed.attach(&body, self.key()))
            }
            (Some(request), None) => (request.title.clone(), request.body.clone()),
            (None, _) => (String::new(), String::new()),
        };
        self.hush(found, &PASSING).await;
        self.forge
            .close(branch, expected, request.map(|request| request.id.as_str()), &title, &body)
            .await
            .with_context(|| format!("cannot close the proposal of `{branch}`"))
    }

    /// One comment on the merge request, where there is one.
    async fn say(&self, found: &Found, topic: Topic, reply: &Reply<'_>) -> anyhow::Result<()> {
        let Some(request) = &found.request else { return Ok(()) };
        let text = render::reply(reply, self.subject.dialect).context("cannot write a comment")?;
        let said = self.forge.say(self.subject.branch, &request.id, topic, Some(&text)).await;
        // The comment tells of what was done; that is no less done without it.
        if let Err(error) = said {
            tracing::warn!("cannot comment on {}: {error}", request.url);
        }
        Ok(())
    }

    /// Takes away what was said and holds no more.
    async fn hush(&self, found: &Found, topics: &[Topic]) {
        let Some(request) = found.request.as_ref().filter(|request| request.by_bot) else { return };
        if let Err(error) = self.forge.hush(self.subject.branch, &request.id, topics).await {
            tracing::warn!("cannot remove a comment of `{}`: {error}", self.subject.branch);
        }
    }

    /// An open merge request of this pool's that the bot wrote.
    fn is_ours(&self, found: &Found) -> bool {
        let pool = self.subject.pool;
        is_open(found)
            && noted(found).is_some_and(|known| known.cluster == pool.cluster && known.pool == pool.pool)
    }
}

fn is_open(found: &Found) -> bool {
    found.request.as_ref().is_some_and(|request| request.open && request.by_bot)
}

fn moved() -> Action {
    Action::Leave { reason: "it changed while this run looked at it; the next run looks again".to_owned() }
}

/// The same where it is proven to be the bot's, if there are keys to prove it with.
pub(super) fn known(found: &Found, keys: &[SigningKey]) -> Option<Metadata> {
    let known = noted(found)?;
    let request = found.request.as_ref()?;
    (keys.is_empty() || Metadata::is_signed(&request.body, keys)).then_some(known)
}

/// What the bot wrote down in the merge request that is there. Nobody else's is read.
pub(super) fn noted(found: &Found) -> Option<Metadata> {
    let request = found.request.as_ref().filter(|request| request.by_bot)?;
    Metadata::parse(&request.body)
}
