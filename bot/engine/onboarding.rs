//! The first contact with a repository: a merge request that adds its `.slicewright.yaml` and explains the bot. Nothing
//! else happens there before it is merged; closing it says no.
//!
//! A no is taken back by opening it again, where its branch is there; forges open nothing again whose branch is deleted, as
//! the bot does with its own. Giving the closed one another title asks for a new one then, as people know it from Renovate.

use anyhow::Context as _;
use jiff::Timestamp;
use slicewright_core::ids::PoolId;
use slicewright_core::review::lifecycle::{Action, Wanted};
use slicewright_core::review::metadata::State;
use slicewright_core::review::overrides::Overrides;

use super::Engine;
use super::pass::{Done, Pass, Ready, Subject, known, noted};
use crate::forge::{Forge, Found, Tree};
use crate::render::{self, Onboarding};
use crate::settings::{ClusterSettings, repo};

/// What the repository gets: every setting as a comment, but for `paused: false`, so that it changes nothing until people
/// change it.
const FILE: &str = include_str!("../../config/repo-example.yaml");

/// Branch of the merge request that asks.
pub(super) fn branch(prefix: &str) -> String {
    format!("{prefix}/onboarding")
}

/// A repository in which nothing is proposed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Where it is: `github:acme/infra`, a path.
    pub repository: String,
    /// Branch of the merge request.
    pub branch: String,
    /// What was decided about it.
    pub action: Action,
    /// Where a person finds it.
    pub url: Option<String>,
}

impl Engine {
    /// Asks the repository of `cluster`, whose default branch holds `tree`, whether the bot is welcome. `None`: it is.
    ///
    /// # Errors
    /// When the forge cannot be read or written.
    pub(super) async fn onboard(
        &self,
        cluster: &ClusterSettings,
        forge: &dyn Forge,
        tree: &Tree,
        at: Timestamp,
    ) -> anyhow::Result<Option<Waiting>> {
        if !cluster.repository.onboards() {
            return Ok(None);
        }
        if repo::is_there(&tree.files, &tree.skipped) {
            return Ok(None);
        }
        let branch = branch(self.settings().branch_prefix());
        let base_branch = forge.base_branch().await.context("cannot tell the default branch")?;
        let identity = forge.identity().await.context("cannot tell who the bot is")?;
        let dialect = self.dialect(&cluster.repository);
        let ready = self.onboarding_text(cluster, &base_branch)?;
        let pool = PoolId { cluster: String::new(), pool: "onboarding".to_owned() };
        let subject = Subject {
            pool: &pool,
            branch: &branch,
            base_branch: &base_branch,
            base_commit: &tree.commit,
            at,
            metrics: &[],
            labels: &cluster.repository.labels,
            dialect,
            keys: &self.signing_keys,
            checks: false,
            asked: None,
            overrides: &Overrides::default(),
        };
        let pass = Pass::new(forge, subject, &identity, Some(&ready), None);
        let found = forge.find(&branch, &tree.commit).await;
        let found = found.with_context(|| format!("cannot look at branch `{branch}`"))?;
        let open = found.request.as_ref().is_some_and(|request| request.open);
        // Without its block a closed one says no as well.
        let declined = found.request.as_ref().is_some_and(|request| request.by_bot)
            && noted(&found).is_none_or(|known| known.state == State::Declined);
        let action = match pass.decide(&found) {
            Action::Open { .. } | Action::Leave { .. } if self.is_asked_again(&found) => Action::Open {
                push: true,
                reason: "its people gave the closed one another title, which asks for a new one".to_owned(),
            },
            Action::Open { .. } | Action::Leave { .. } if declined && !open => {
                let way_back = match (&found.branch_head, known(&found, &self.signing_keys)) {
                    (Some(_), _) => "open it again or ",
                    (None, Some(_)) => "give the closed one another title, which gets a new one, or ",
                    (None, None) => "",
                };
                let file = repo::PLACE;
                Action::Leave {
                    reason: format!(
                        "its people closed it: nothing is proposed here until they {way_back}add `{file}`"
                    ),
                }
            }
            // To change the file before it is merged is what the merge request is for.
            Action::StopEdited { .. } => Action::Leave { reason: "its people work on it".to_owned() },
            action => action,
        };
        let Done { action, url, .. } = pass.carry_out(&found, action).await?;
        Ok(Some(Waiting { repository: cluster.repository.place(), branch, action, url }))
    }

    /// A person gave the closed one another title than it had when their no was noted, and nothing is left that could be
    /// opened again.
    fn is_asked_again(&self, found: &Found) -> bool {
        let Some(request) = found.request.as_ref().filter(|request| !request.open) else { return false };
        known(found, &self.signing_keys).is_some_and(|noted| {
            noted.state == State::Declined
                && found.branch_head.is_none()
                && !noted.title.is_empty()
                && noted.title != request.title
        })
    }

    fn onboarding_text(&self, cluster: &ClusterSettings, base_branch: &str) -> anyhow::Result<Ready> {
        let here = |other: &&ClusterSettings| other.repository.same_as(&cluster.repository);
        let clusters = self.settings().clusters.iter().filter(here).map(|other| other.name.clone()).collect();
        let limits = self.settings().limits_of(&cluster.repository);
        let view = Onboarding {
            clusters,
            file: repo::PLACE,
            base_branch,
            max_open: limits.max_open,
            max_per_hour: limits.max_per_hour,
            has_hours: !limits.hours.is_empty(),
        };
        let body = render::onboarding(&view, self.dialect(&cluster.repository))
            .context("cannot write the text about the bot")?;
        Ok(Ready {
            wanted: Wanted {
                title: "Set up Slicewright".to_owned(),
                body,
                fingerprint: "onboarding".to_owned(),
                files: [(repo::PLACE.to_owned(), Some(FILE.as_bytes().to_vec()))].into(),
                method: "onboarding".to_owned(),
                cards_freed: 0,
                shares: std::collections::BTreeMap::new(),
                outgrown: Vec::new(),
            },
            message: format!("Set up Slicewright\n\nAdds `{}`, which changes nothing as it is.", repo::PLACE),
            draft: false,
            reviewers: Vec::new(),
        })
    }
}
