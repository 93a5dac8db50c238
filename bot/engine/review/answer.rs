//! Carries the commands of a comment out, and answers.

use std::collections::BTreeMap;

use anyhow::Context as _;
use jiff::Timestamp;
use slicewright_core::ids::PoolId;
use slicewright_core::review::DECLINED_LABEL;
use slicewright_core::review::asked::named;
use slicewright_core::review::command::{Command, Least};
use slicewright_core::review::metadata::{Metadata, Obeyed};
use slicewright_core::review::overrides::Item;

use super::hear::Sight;
use super::order::{Asking, Order, day, numbered};
use super::{Answer, Carried, Comment, Facts, commands};
use crate::engine::Engine;
use crate::engine::explain::{brief, explain};
use crate::engine::propose::Wishes;
use crate::forge::contact::{Contact, Person, Reaction, Role};
use crate::forge::{ForgeError, Topic};
use crate::prometheus::Quiet;
use crate::render::{self, Answer as Answering, Dialect, Explained};

/// What one command leads to, besides what it did.
enum Said {
    /// An answer of its own.
    Reply(String),
    /// What the one comment about the state says from now on.
    Status(String),
}

impl Engine {
    /// Carries the commands of a comment out, one after the other, and answers. Done twice, it is done once.
    ///
    /// `facts` are for `status`.
    ///
    /// # Errors
    /// When the forge or the metrics cannot be read, or a write fails; it may be tried again then.
    pub async fn obey(&self, comment: &Comment, at: Timestamp, facts: &Facts) -> anyhow::Result<Answer> {
        let handle = self.settings().handle();
        let Some(commands) = commands(&comment.text, handle) else {
            return Ok(Answer::Silence("it does not speak to the bot"));
        };
        let sight = match self.sight(comment).await? {
            Ok(sight) => sight,
            Err(why) => return Ok(Answer::Silence(why)),
        };
        if let Some(why) = sight.is_nobody(comment).await? {
            return Ok(Answer::Silence(why));
        }
        let dialect = self.dialect(&sight.cluster.repository);
        let commands = match commands {
            Ok(commands) => commands,
            Err(refusal) => {
                let refused = Answering::Refused {
                    line: &refusal.line,
                    why: &refusal.why,
                    nearest: refusal.nearest,
                    handle,
                };
                let said = render::answer(&refused, dialect)?;
                self.say_once(&sight, comment, &[said], true).await?;
                let carried = Carried { command: refusal.line, outcome: Err(refusal.why) };
                return Ok(Answer::Given(vec![carried]));
            }
        };
        let mut carried: Vec<Carried> = Vec::new();
        let mut replies = Vec::new();
        for (n, command) in commands.iter().enumerate() {
            let shown = command.to_string();
            let place = Obeyed { comment: comment.id.clone(), n };
            let outcome = match Self::may(sight.contact()?, &comment.author, command.spec().least).await? {
                Ok(()) => self.carry_out(&sight, comment, command, place, at, facts).await?,
                Err(why) => Err(why),
            };
            match outcome {
                Ok(Said::Reply(text)) => replies.push(text),
                Ok(Said::Status(text)) => {
                    let request = &comment.request;
                    let said = sight.forge.say(&sight.branch, request, Topic::Status, Some(&text)).await;
                    said.context("cannot say what was done")?;
                }
                Err(why) => {
                    let refused = Answering::Refused { line: &shown, why: &why, nearest: None, handle };
                    replies.push(render::answer(&refused, dialect)?);
                    carried.push(Carried { command: shown, outcome: Err(why) });
                    // What follows may have been meant to follow what was not done.
                    break;
                }
            }
            carried.push(Carried { command: shown, outcome: Ok(()) });
        }
        let failed = carried.last().is_some_and(|last| last.outcome.is_err());
        self.say_once(&sight, comment, &replies, failed).await?;
        Ok(Answer::Given(carried))
    }

    /// Tells whoever asked that the bot gave up, and why.
    ///
    /// # Errors
    /// When the forge cannot be reached either.
    pub async fn give_up(&self, comment: &Comment, why: &str) -> anyhow::Result<()> {
        let Ok(sight) = self.sight(comment).await? else { return Ok(()) };
        if sight.is_nobody(comment).await?.is_some() {
            return Ok(());
        }
        self.refuse(&sight, comment, why).await
    }

    /// Answers that nothing of a comment is done.
    ///
    /// # Errors
    /// When the answer cannot be given.
    async fn refuse(&self, sight: &Sight<'_>, comment: &Comment, why: &str) -> anyhow::Result<()> {
        let handle = self.settings().handle();
        let line = match commands(&comment.text, handle) {
            Some(Ok(commands)) => commands.first().map(ToString::to_string).unwrap_or_default(),
            Some(Err(refusal)) => refusal.line,
            None => return Ok(()),
        };
        let refused = Answering::Refused { line: &line, why, nearest: None, handle };
        let said = render::answer(&refused, self.dialect(&sight.cluster.repository))?;
        self.say_once(sight, comment, &[said], true).await
    }

    /// Gives the answers as one comment, and shows how it came out.
    async fn say_once(
        &self,
        sight: &Sight<'_>,
        comment: &Comment,
        replies: &[String],
        failed: bool,
    ) -> anyhow::Result<()> {
        if !replies.is_empty() {
            let text = replies.join("\n\n");
            let said = sight.contact()?.reply(&comment.request, &comment.id, &text).await;
            said.context("cannot answer the comment")?;
        }
        let reaction = if failed { Reaction::Failed } else { Reaction::Done };
        self.react(sight, comment, reaction).await;
        Ok(())
    }

    /// Whether somebody may ask for this, by what the forge says now.
    ///
    /// # Errors
    /// When the forge does not answer; the inner error is a no.
    pub(super) async fn may(
        contact: &dyn Contact,
        person: &Person,
        least: Least,
    ) -> anyhow::Result<Result<(), String>> {
        let role = match contact.role(person).await {
            Ok(role) => role,
            Err(error @ (ForgeError::Busy { .. } | ForgeError::Unanswered { .. })) => {
                return Err(anyhow::Error::new(error).context("cannot ask what somebody may do here"));
            }
            Err(error) => {
                tracing::info!("cannot tell a role: {error}");
                return Ok(Err(
                    "what you may do in this repository could not be found out, so that nothing is done"
                        .to_owned(),
                ));
            }
        };
        let least = match least {
            Least::Read => Role::Read,
            Least::Write => Role::Write,
        };
        if role >= least {
            return Ok(Ok(()));
        }
        Ok(Err(format!(
            "that takes the role {} in this repository, and yours is {}",
            least.name(),
            role.name()
        )))
    }

    async fn carry_out(
        &self,
        sight: &Sight<'_>,
        comment: &Comment,
        command: &Command,
        place: Obeyed,
        at: Timestamp,
        facts: &Facts,
    ) -> anyhow::Result<Result<Said, String>> {
        let dialect = self.dialect(&sight.cluster.repository);
        match command {
            Command::Help => {
                let help = render::answer(&Answering::Help { handle: self.settings().handle() }, dialect)?;
                Ok(Ok(Said::Reply(help)))
            }
            Command::Status => Ok(Ok(Said::Reply(standing(sight, at, facts, dialect)?))),
            Command::Why(item) => self.why(sight, item.as_ref(), at).await,
            Command::Snooze(_) | Command::Pause | Command::Decline(_) => {
                self.note_alone(sight, comment, command, place, at).await
            }
            Command::Regenerate { .. } | Command::Rebase | Command::Set(_) | Command::Resume => {
                self.plan_anew(sight, comment, command, place, at).await
            }
        }
    }

    /// Why workloads get what they get.
    async fn why(
        &self,
        sight: &Sight<'_>,
        item: Option<&Item>,
        at: Timestamp,
    ) -> anyhow::Result<Result<Said, String>> {
        let Some(known) = &sight.known else { return Ok(Err(UNREADABLE.to_owned())) };
        let inputs = self.live(Some(&sight.cluster.name), at)?;
        let mut analysis = self.survey(sight.cluster, &inputs, &Quiet).await?;
        let pool = PoolId { cluster: known.cluster.clone(), pool: known.pool.clone() };
        self.plan(&mut analysis, &BTreeMap::from([(pool.clone(), known.overrides.clone())]));
        let dialect = self.dialect(&sight.cluster.repository);
        let Some(item) = item else {
            let rows = brief(&analysis, &pool);
            let handle = self.settings().handle();
            return Ok(Ok(Said::Reply(render::answer(&Answering::WhyAll { rows: &rows, handle }, dialect)?)));
        };
        let item = match named(item, numbered(&analysis, &pool, known).as_deref()) {
            Ok(item) => item,
            Err(why) => return Ok(Err(why)),
        };
        let Item::Workload { namespace, name } = &item else {
            return Ok(Err(format!("`{item}` names no workload")));
        };
        let found = explain(&analysis, namespace, name);
        if found.is_empty() {
            return Ok(Err(format!("no workload `{item}` holds a GPU of the cluster `{}`", known.cluster)));
        }
        let found: Vec<Explained> =
            found.into_iter().map(|one| Explained { place: one.place, text: one.text }).collect();
        let text = render::answer(&Answering::Why { workload: &item.to_string(), found: &found }, dialect)?;
        Ok(Ok(Said::Reply(text)))
    }

    /// Carries out what needs no plan.
    async fn note_alone(
        &self,
        sight: &Sight<'_>,
        comment: &Comment,
        command: &Command,
        place: Obeyed,
        at: Timestamp,
    ) -> anyhow::Result<Result<Said, String>> {
        // Commands before this one may have noted something.
        let main = sight.forge.head().await.context("cannot read the default branch")?;
        let fresh = sight.forge.find(&sight.branch, &main).await.context("cannot look at the branch")?;
        let Some(known) = &sight.known else { return Ok(Err(UNREADABLE.to_owned())) };
        let pool = PoolId { cluster: known.cluster.clone(), pool: known.pool.clone() };
        let order = Order { pool, command: command.clone(), place, head: comment.head.clone() };
        let before = match self.ready_for(&order, &fresh) {
            Ok(before) => before,
            Err(why) => return Ok(Err(why)),
        };
        let noted = match order.noted(&before, None, day(at)) {
            Ok(noted) => noted,
            Err(why) => return Ok(Err(why)),
        };
        self.note(sight.forge.as_ref(), &sight.branch, &fresh, &before, &noted).await?;
        if let Command::Decline(_) = command {
            let labelled = sight.contact()?.label(&comment.request, DECLINED_LABEL, true).await;
            if let Err(error) = labelled {
                tracing::warn!("cannot label what was declined: {error}");
            }
        }
        self.told(sight, comment, command, &noted, &silence_words(&noted, day(at)), None)
    }

    /// Carries out what needs a plan.
    async fn plan_anew(
        &self,
        sight: &Sight<'_>,
        comment: &Comment,
        command: &Command,
        place: Obeyed,
        at: Timestamp,
    ) -> anyhow::Result<Result<Said, String>> {
        let Some(known) = &sight.known else { return Ok(Err(UNREADABLE.to_owned())) };
        let pool = PoolId { cluster: known.cluster.clone(), pool: known.pool.clone() };
        let head = comment.head.clone();
        let order = Order { pool: pool.clone(), command: command.clone(), place, head };
        let inputs = self.live(Some(&sight.cluster.name), at)?;
        let wishes = Wishes {
            cluster: Some(sight.cluster.name.clone()),
            pool: Some(pool.pool),
            asked: true,
            dry_run: false,
        };
        let report = self.run(&inputs, &wishes, Some(&Asking::Command(order)), &Quiet).await?;
        let pools = report.clusters.into_iter().flat_map(|cluster| cluster.pools);
        let Some(obeyed) = pools.into_iter().find_map(|pool| pool.obeyed) else {
            return Ok(Err(
                "nothing is proposed in this repository before its people agreed to that".to_owned()
            ));
        };
        let obeyed = match obeyed {
            Ok(obeyed) => obeyed,
            Err(why) => return Ok(Err(why)),
        };
        if let Command::Resume = command {
            let labelled = sight.contact()?.label(&comment.request, DECLINED_LABEL, false).await;
            if let Err(error) = labelled {
                tracing::warn!("cannot take a label off: {error}");
            }
        }
        let noted = obeyed.noted.clone();
        self.told(sight, comment, command, &noted, &obeyed.what, obeyed.moved.as_ref())
    }

    fn told(
        &self,
        sight: &Sight<'_>,
        comment: &Comment,
        command: &Command,
        noted: &Metadata,
        what: &str,
        moved: Option<&[String; 2]>,
    ) -> anyhow::Result<Result<Said, String>> {
        let told = Answering::Obeyed {
            command: &command.to_string(),
            by: &comment.author.login,
            what,
            moved: moved.map(|[before, after]| [before.as_str(), after.as_str()]),
            wishes: &noted.overrides.shown(),
        };
        Ok(Ok(Said::Status(render::answer(&told, self.dialect(&sight.cluster.repository))?)))
    }
}

const UNREADABLE: &str =
    "its hidden block is gone, damaged or not the bot's: close it and delete its branch to get a fresh one";

/// What the bot does from now on, after it was told to be silent.
fn silence_words(noted: &Metadata, today: jiff::civil::Date) -> String {
    let why = noted.silence(today).unwrap_or_else(|| "nothing holds it".to_owned());
    format!("{why}; branch and text stay as they are until `resume`")
}

/// Where a proposal stands, for `status`.
fn standing(sight: &Sight<'_>, at: Timestamp, facts: &Facts, dialect: Dialect) -> anyhow::Result<String> {
    let mut lines = Vec::new();
    match &sight.known {
        None => lines.push(UNREADABLE.to_owned()),
        Some(known) => {
            let silent = known.silence(day(at));
            let held = sight.found.request.as_ref().and_then(|request| request.held.clone());
            lines.push(match silent.or(held.map(|why| format!("it is held: {why}"))) {
                Some(why) => why,
                None => "it is open, and the bot keeps it up to date".to_owned(),
            });
            let head = sight.found.branch_head.as_deref();
            if head != Some(known.head.as_str()) {
                lines.push(
                    "the branch is not where the bot left it: what people wrote there is theirs".to_owned(),
                );
            }
            let approvals = sight.found.request.as_ref().map_or(0, |request| request.approvals);
            if approvals > 0 {
                lines.push(format!("approvals of this head: {approvals}"));
            }
            if let Some(last) = known.written.last() {
                lines.push(format!("written last {}", minute(*last)));
            }
            lines.push(format!(
                "made from {} of `{}`, by {}; it frees {} GPUs",
                known.base_commit.get(..12).unwrap_or(&known.base_commit),
                known.base_branch,
                known.method,
                known.cards_freed
            ));
            let wishes = known.overrides.shown();
            if !wishes.is_empty() {
                let ticked: Vec<String> = wishes.iter().map(|wish| format!("`{wish}`")).collect();
                lines.push(format!("asked for in comments: {}", ticked.join(", ")));
            }
        }
    }
    lines.extend(facts.iter().cloned());
    Ok(render::answer(&Answering::Standing { lines: &lines }, dialect)?)
}

/// A moment as people read it, to the minute.
fn minute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M UTC").to_string()
}
