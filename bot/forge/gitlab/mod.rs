//! GitLab: merge requests over the REST API, and git itself where a branch must not be moved under somebody's feet.
//!
//! `endpoints` what is asked, `client` how, `dto` what comes back; `read` files, commits and branches, `find` what is
//! there of a proposal, `publish` the branch, `request` the merge request, `note` comments, `status` what is said about
//! commits, `issue` the dashboard, `contact` people, `hooks` how the bot is told of things, `checkup` how it stands.

mod endpoints;

mod client;

mod dto;

mod read;

mod find;

mod publish;

mod request;

mod note;

pub(super) mod webhook;

mod status;

mod issue;

mod contact;

mod hooks;

mod checkup;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::sync::OnceCell;

use super::contact::Contact;
use super::content::Listing;
use super::remote::board::show;
use super::remote::comment::Quiet;
use super::remote::contents::Blobs;
use super::remote::kept::Kept;
use super::remote::unfinished::Unfinished;
use super::settings::Settings;
use super::{
    Check, Commit, Forge, ForgeError, Found, Identity, RequestText, Target, Topic, Tree, branch, check_author,
};
use client::Client;

/// Entries of trees that are kept: some three trees of a repository of 100,000 files.
const MOST_ENTRIES: usize = 300_000;

/// Commits and merge bases that are kept.
const MOST_COMMITS: usize = 10_000;

/// One repository on GitLab.
pub(super) struct GitLab {
    client: Arc<Client>,
    target: Target,
    former_ids: Vec<u64>,
    former_logins: Vec<String>,
    former_emails: Vec<String>,
    project: OnceCell<dto::Project>,
    account: OnceCell<dto::User>,
    /// Patterns of protected branches, as far as the account may see them.
    protected: OnceCell<Vec<String>>,
    listings: Arc<Kept<Listing>>,
    blobs: Arc<Blobs>,
    commits: Arc<Kept<Vec<dto::Commit>>>,
    unfinished: Unfinished,
    quiet: Quiet,
    /// Accounts that were looked at: whether they are programs, which never changes. `None`: they are not shown.
    programs: Arc<Mutex<BTreeMap<u64, Option<bool>>>>,
    /// One write at a time, as GitLab asks.
    writing: Arc<tokio::sync::Mutex<()>>,
}

impl GitLab {
    pub(super) fn new(settings: &Settings, target: Target) -> Result<Self, ForgeError> {
        check_author(&target.author_name, &target.author_email)?;
        Ok(Self {
            client: Arc::new(Client::new(settings)?),
            target,
            former_ids: settings.former_ids.clone(),
            former_logins: settings.former_logins.clone(),
            former_emails: settings.former_emails.clone(),
            project: OnceCell::new(),
            account: OnceCell::new(),
            protected: OnceCell::new(),
            listings: Arc::new(Kept::new(MOST_ENTRIES)),
            blobs: Arc::default(),
            commits: Arc::new(Kept::new(MOST_COMMITS)),
            unfinished: Unfinished::default(),
            quiet: Quiet::default(),
            programs: Arc::default(),
            writing: Arc::default(),
        })
    }

    /// The same for another run: what may have changed is asked anew, what never does is at hand.
    pub(super) fn afresh(&self, target: Target) -> Self {
        Self {
            client: Arc::clone(&self.client),
            target,
            former_ids: self.former_ids.clone(),
            former_logins: self.former_logins.clone(),
            former_emails: self.former_emails.clone(),
            project: OnceCell::new(),
            account: OnceCell::new(),
            protected: OnceCell::new(),
            listings: Arc::clone(&self.listings),
            blobs: Arc::clone(&self.blobs),
            commits: Arc::clone(&self.commits),
            unfinished: Unfinished::default(),
            quiet: Quiet::default(),
            programs: Arc::clone(&self.programs),
            writing: Arc::clone(&self.writing),
        }
    }

    /// `branch main of acme/infra`, for messages.
    fn on(&self, what: &str) -> String {
        format!("{what} of {}", self.target.repository)
    }

    /// The account of the token; asked once.
    async fn account(&self) -> Result<&dto::User, ForgeError> {
        let ask =
            async || self.client.get("reading the account of the token", &endpoints::current_user()?).await;
        self.account.get_or_try_init(ask).await
    }

    /// Whether an account is the bot, now or earlier. Its number says so; a name says so only of accounts of access tokens,
    /// since whoever takes a person's name that was given up would be the bot otherwise.
    async fn is_bot(&self, user: &dto::User) -> Result<bool, ForgeError> {
        if user.id == self.account().await?.id || self.former_ids.contains(&user.id) {
            return Ok(true);
        }
        if !self.former_logins.iter().any(|login| login.eq_ignore_ascii_case(&user.username)) {
            return Ok(false);
        }
        let is_program = self.program(user.id).await? == Some(true);
        if !is_program {
            tracing::warn!(
                login = user.username,
                "this former name of the bot's is that of a person's account, number {}: if it is the bot's, put the \
                 number into `former_ids`",
                user.id
            );
        }
        Ok(is_program)
    }

    /// Refuses branches that are not the bot's to write.
    async fn check_own(&self, branch: &str) -> Result<(), ForgeError> {
        branch::check_own(branch, &self.target.branch_prefix, &self.base_branch().await?)
    }
}

#[async_trait]
impl Forge for GitLab {
    async fn base_branch(&self) -> Result<String, ForgeError> {
        let project = self.project().await?;
        let own = self.target.default_branch.clone().or_else(|| project.default_branch.clone());
        own.ok_or_else(|| ForgeError::NotFound { what: self.on("the default branch") })
    }

    async fn head(&self) -> Result<String, ForgeError> {
        let name = self.base_branch().await?;
        let branch = self.branch(&name).await?;
        let branch =
            branch.ok_or_else(|| ForgeError::NotFound { what: self.on(&format!("branch `{name}`")) })?;
        Ok(branch.commit.id)
    }

    async fn read_tree(&self, commit: &str) -> Result<Tree, ForgeError> {
        self.tree(commit).await
    }

    async fn branches(&self) -> Result<BTreeSet<String>, ForgeError> {
        self.own_branches().await
    }

    async fn find(&self, branch: &str, main: &str) -> Result<Found, ForgeError> {
        self.proposal(branch, main).await
    }

    async fn publish(
        &self,
        branch: &str,
        expected_head: Option<&str>,
        commit: &Commit,
    ) -> Result<String, ForgeError> {
        let _one = self.writing.lock().await;
        self.check_own(branch).await?;
        let head = self.write_branch(branch, expected_head, commit).await?;
        self.unfinished.note(branch, &head);
        Ok(head)
    }

    async fn write_request(
        &self,
        branch: &str,
        open: Option<&str>,
        request: &RequestText,
    ) -> Result<String, ForgeError> {
        let _one = self.writing.lock().await;
        self.check_own(branch).await?;
        let url = self.write_merge_request(branch, open, request).await?;
        self.unfinished.forget(branch);
        Ok(url)
    }

    async fn close(
        &self,
        branch: &str,
        expected_head: Option<&str>,
        id: Option<&str>,
        title: &str,
        body: &str,
    ) -> Result<(), ForgeError> {
        let _one = self.writing.lock().await;
        self.check_own(branch).await?;
        let head = self.branch(branch).await?.map(|there| there.commit.id);
        if expected_head.is_some() && head.is_some() && head.as_deref() != expected_head {
            return Err(ForgeError::Conflict { what: self.on(&format!("`{branch}`")) });
        }
        if let Some(id) = id {
            self.close_merge_request(branch, id, title, body).await?;
        }
        self.unfinished.forget(branch);
        match (expected_head, head) {
            (Some(expected), Some(_)) => self.delete_branch(branch, expected).await,
            _ => Ok(()),
        }
    }

    async fn say(&self, _branch: &str, id: &str, topic: Topic, text: Option<&str>) -> Result<(), ForgeError> {
        let _one = self.writing.lock().await;
        self.quiet.say(id, &self.comments(id).await?, topic, text).await
    }

    async fn hush(&self, _branch: &str, id: &str, topics: &[Topic]) -> Result<(), ForgeError> {
        let _one = self.writing.lock().await;
        self.quiet.hush(id, &self.comments(id).await?, topics).await
    }

    async fn check(&self, commit: &str, check: &Check) -> Result<(), ForgeError> {
        let _one = self.writing.lock().await;
        self.show_check(commit, check).await
    }

    async fn show_board(&self, title: &str, text: &str) -> Result<Option<String>, ForgeError> {
        let _one = self.writing.lock().await;
        show(self, title, text).await
    }

    async fn identity(&self) -> Result<Identity, ForgeError> {
        let account = self.account().await?;
        // What the bot writes over the API has the author that it gives, and its account as committer.
        let of_account = [&account.commit_email, &account.email, &account.public_email].into_iter().flatten();
        let emails = (of_account.chain([&self.target.author_email]))
            .chain(self.target.former_emails.iter().chain(&self.former_emails));
        Ok(Identity {
            emails: emails.filter(|email| !email.is_empty()).cloned().collect(),
            ..Identity::default()
        })
    }

    fn contact(&self) -> Option<&dyn Contact> {
        Some(self)
    }
}
