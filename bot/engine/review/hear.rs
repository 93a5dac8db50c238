//! Whether a comment is for the bot at all, and what its author sees at once.

use anyhow::Context as _;
use slicewright_core::review::metadata::{Metadata, State};

use super::{Comment, commands};
use crate::engine::Engine;
use crate::engine::pass::known;
use crate::forge::contact::{Contact, Reaction};
use crate::forge::{Forge, Found};
use crate::settings::ClusterSettings;

/// Whether a comment is for the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It is not, and why.
    Silence(&'static str),
    /// It is, and its author saw that it was read.
    Speaks {
        /// Head of the branch that the comment is about.
        head: Option<String>,
    },
}

/// An open proposal of the bot's that somebody commented on.
pub(super) struct Sight<'a> {
    /// The cluster that it is about.
    pub(super) cluster: &'a ClusterSettings,
    /// Where it is.
    pub(super) forge: Box<dyn Forge>,
    /// Its branch.
    pub(super) branch: String,
    /// What was found there.
    pub(super) found: Found,
    /// What the bot noted about it. `None`: that cannot be read, or is not signed.
    pub(super) known: Option<Metadata>,
}

impl Sight<'_> {
    /// Its people.
    ///
    /// # Errors
    /// In a recording there are none.
    pub(super) fn contact(&self) -> anyhow::Result<&dyn Contact> {
        self.forge.contact().context("nobody can be asked here")
    }
}

impl Engine {
    /// Finds out whether a comment speaks to the bot about a proposal of its own, and shows its author that it was read.
    /// Quick: it asks for no metrics.
    ///
    /// # Errors
    /// When the forge cannot be asked.
    pub async fn hear(&self, comment: &Comment) -> anyhow::Result<Heard> {
        if commands(&comment.text, self.settings().handle()).is_none() {
            return Ok(Heard::Silence("it does not speak to the bot"));
        }
        let sight = match self.sight(comment).await? {
            Ok(sight) => sight,
            Err(why) => return Ok(Heard::Silence(why)),
        };
        if let Some(why) = sight.is_nobody(comment).await? {
            return Ok(Heard::Silence(why));
        }
        self.react(&sight, comment, Reaction::Seen).await;
        Ok(Heard::Speaks { head: sight.found.branch_head })
    }

    /// The cluster to look at where a branch of the bot's is not as it left it: moved, closed, merged. `None` where it is, or
    /// where nothing is known of it. Quick: it asks for no metrics.
    ///
    /// # Errors
    /// When the forge cannot be asked.
    pub async fn glance(&self, place: &str, branch: &str) -> anyhow::Result<Option<String>> {
        let here = |cluster: &&ClusterSettings| cluster.repository.place() == place;
        let Some(any) = self.settings().clusters.iter().find(here) else { return Ok(None) };
        let forge = self.forge(any)?;
        let main = forge.head().await.context("cannot read the default branch")?;
        let found = forge.find(branch, &main).await;
        let found = found.with_context(|| format!("cannot look at branch `{branch}`"))?;
        let Some(known) = known(&found, &self.signing_keys) else { return Ok(None) };
        let open = found.request.as_ref().is_some_and(|request| request.open);
        let as_left = match known.state {
            State::Open => open && found.branch_head.as_ref() == Some(&known.head),
            State::Withdrawn | State::Declined | State::Merged => !open,
        };
        let mut clusters = self.settings().clusters.iter().filter(here);
        Ok(clusters.find(|cluster| !as_left && cluster.name == known.cluster).map(|one| one.name.clone()))
    }

    /// The proposal that a comment is about. The inner error says why there is none that the bot speaks about.
    ///
    /// # Errors
    /// When the forge cannot be asked.
    pub(super) async fn sight(&self, comment: &Comment) -> anyhow::Result<Result<Sight<'_>, &'static str>> {
        let here = |cluster: &&ClusterSettings| cluster.repository.place() == comment.place;
        let Some(any) = self.settings().clusters.iter().find(here) else {
            return Ok(Err("the repository is none of the configuration's"));
        };
        let forge = self.forge(any)?;
        let contact = forge.contact().context("nobody can be asked here")?;
        let branch = contact.branch_of(&comment.request).await;
        let branch = branch.with_context(|| format!("cannot look at request {}", comment.request))?;
        let Some(branch) = branch else {
            return Ok(Err("it is on nothing that the bot proposed"));
        };
        let main = forge.head().await.context("cannot read the default branch")?;
        let found = forge.find(&branch, &main).await;
        let found = found.with_context(|| format!("cannot look at branch `{branch}`"))?;
        let ours = |request: &&crate::forge::FoundRequest| {
            request.open && request.by_bot && request.id == comment.request
        };
        if found.request.as_ref().filter(ours).is_none() {
            return Ok(Err("it is on nothing that the bot proposed and that is open"));
        }
        let known = known(&found, &self.signing_keys);
        let cluster = known.as_ref().map_or(Some(any), |known| {
            self.settings().clusters.iter().filter(here).find(|cluster| cluster.name == known.cluster)
        });
        let Some(cluster) = cluster else {
            return Ok(Err("its cluster is gone from the configuration"));
        };
        Ok(Ok(Sight { cluster, forge, branch, found, known }))
    }

    /// Shows a reaction, which is a courtesy.
    pub(super) async fn react(&self, sight: &Sight<'_>, comment: &Comment, reaction: Reaction) {
        let Some(contact) = sight.forge.contact() else { return };
        if let Err(error) = contact.react(&comment.request, &comment.id, reaction).await {
            tracing::info!(comment = comment.id, "cannot react to the comment: {error}");
        }
    }
}

impl Sight<'_> {
    /// Why the comment counts for nothing, whatever it says: it is gone, or nobody's.
    ///
    /// # Errors
    /// When the comments cannot be read.
    pub(super) async fn is_nobody(&self, comment: &Comment) -> anyhow::Result<Option<&'static str>> {
        let contact = self.contact()?;
        let there = contact.comments(&comment.request, None).await.context("cannot read the comments")?;
        let Some(remark) = there.iter().find(|remark| remark.id == comment.id) else {
            return Ok(Some("the comment is gone"));
        };
        let author = remark.author.as_ref().map(|author| author.id);
        Ok(if remark.own || remark.system {
            Some("the bot or the forge itself wrote it")
        } else if remark.is_bot || author != Some(comment.author.id) {
            Some("no person wrote it")
        } else if remark.internal {
            Some("not everybody may see it, and an answer would be seen by all")
        } else {
            None
        })
    }
}
