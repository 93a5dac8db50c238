//! GitHub: github.com, and servers of one's own.
//!
//! What is asked where is in `client` (requests, pages, news), `account` (signing in) and `dto` (what comes back); the
//! other files have one method of [`Forge`] each, or what two of them share.

mod account;

mod address;

mod client;

mod dto;

mod who;

mod read;

mod find;

mod publish;

mod request;

mod comment;

pub(super) mod webhook;

mod check;

mod issue;

mod contact;

mod hooks;

mod checkup;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use async_trait::async_trait;
use tokio::sync::OnceCell;

use super::contact::Contact;
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
use find::Standing;
use read::{Compared, Listed, Repository};
use who::Who;

/// Entries of trees that are kept: 20 listings of a repository with 20,000 files.
const KEPT_ENTRIES: usize = 400_000;

/// Commits of comparisons that are kept.
const KEPT_COMMITS: usize = 20_000;

/// Pull requests whose standing is kept.
const KEPT_STANDINGS: usize = 1_000;

/// One repository on GitHub.
pub(super) struct GitHub {
    client: Arc<Client>,
    target: Target,
    former_ids: Vec<u64>,
    former_logins: Vec<String>,
    former_emails: Vec<String>,
    repository: OnceCell<Repository>,
    who: OnceCell<Who>,
    listings: Arc<Kept<Listed>>,
    blobs: Arc<Blobs>,
    comparisons: Arc<Kept<Compared>>,
    standings: Arc<Kept<Standing>>,
    /// The server moves branches by REST only.
    refs_by_rest: Arc<AtomicBool>,
    /// A run that ends loses them. A later one asks GitHub who moved the branch.
    unfinished: Unfinished,
    quiet: Quiet,
    /// GitHub asks to write one thing at a time.
    writing: Arc<tokio::sync::Mutex<()>>,
}

impl GitHub {
    pub(super) fn new(settings: &Settings, target: Target) -> Result<Self, ForgeError> {
        let n_parts = target.repository.split('/').filter(|part| !part.is_empty()).count();
        if n_parts != 2 || target.repository.split('/').count() != 2 {
            let what = format!("`{}` is no repository on GitHub: write `owner/name`", target.repository);
            return Err(ForgeError::Blocked { what });
        }
        check_author(&target.author_name, &target.author_email)?;
        Ok(Self {
            client: Arc::new(Client::new(settings, &target.repository)?),
            target,
            former_ids: settings.former_ids.clone(),
            former_logins: settings.former_logins.clone(),
            former_emails: settings.former_emails.clone(),
            repository: OnceCell::new(),
            who: OnceCell::new(),
            listings: Arc::new(Kept::new(KEPT_ENTRIES)),
            blobs: Arc::default(),
            comparisons: Arc::new(Kept::new(KEPT_COMMITS)),
            standings: Arc::new(Kept::new(KEPT_STANDINGS)),
            refs_by_rest: Arc::default(),
            unfinished: Unfinished::default(),
            quiet: Quiet::default(),
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
            repository: OnceCell::new(),
            who: OnceCell::new(),
            listings: Arc::clone(&self.listings),
            blobs: Arc::clone(&self.blobs),
            comparisons: Arc::clone(&self.comparisons),
            standings: Arc::clone(&self.standings),
            refs_by_rest: Arc::clone(&self.refs_by_rest),
            unfinished: Unfinished::default(),
            quiet: Quiet::default(),
            writing: Arc::clone(&self.writing),
        }
    }

    /// Refuses branches that are not the bot's to write.
    async fn check_own(&self, branch: &str) -> Result<(), ForgeError> {
        branch::check_own(branch, &self.target.branch_prefix, &self.repository().await?.base_branch)
    }
}

#[async_trait]
impl Forge for GitHub {
    async fn base_branch(&self) -> Result<String, ForgeError> {
        Ok(self.repository().await?.base_branch.clone())
    }

    async fn head(&self) -> Result<String, ForgeError> {
        self.base_head().await
    }

    async fn read_tree(&self, commit: &str) -> Result<Tree, ForgeError> {
        self.whole_tree(commit).await
    }

    async fn branches(&self) -> Result<BTreeSet<String>, ForgeError> {
        self.own_branches().await
    }

    async fn find(&self, branch: &str, main: &str) -> Result<Found, ForgeError> {
        self.found(branch, main).await
    }

    async fn publish(
        &self,
        branch: &str,
        expected_head: Option<&str>,
        commit: &Commit,
    ) -> Result<String, ForgeError> {
        let _turn = self.writing.lock().await;
        self.published(branch, expected_head, commit).await
    }

    async fn write_request(
        &self,
        branch: &str,
        open: Option<&str>,
        request: &RequestText,
    ) -> Result<String, ForgeError> {
        let _turn = self.writing.lock().await;
        self.requested(branch, open, request).await
    }

    async fn close(
        &self,
        branch: &str,
        expected_head: Option<&str>,
        id: Option<&str>,
        title: &str,
        body: &str,
    ) -> Result<(), ForgeError> {
        let _turn = self.writing.lock().await;
        self.closed(branch, expected_head, id, title, body).await
    }

    async fn say(&self, _branch: &str, id: &str, topic: Topic, text: Option<&str>) -> Result<(), ForgeError> {
        let _turn = self.writing.lock().await;
        self.quiet.say(id, &self.comments(id).await?, topic, text).await
    }

    async fn hush(&self, _branch: &str, id: &str, topics: &[Topic]) -> Result<(), ForgeError> {
        let _turn = self.writing.lock().await;
        self.quiet.hush(id, &self.comments(id).await?, topics).await
    }

    async fn check(&self, commit: &str, check: &Check) -> Result<(), ForgeError> {
        let _turn = self.writing.lock().await;
        self.show_check(commit, check).await
    }

    async fn show_board(&self, title: &str, text: &str) -> Result<Option<String>, ForgeError> {
        let _turn = self.writing.lock().await;
        show(self, title, text).await
    }

    async fn identity(&self) -> Result<Identity, ForgeError> {
        self.known_as().await
    }

    fn contact(&self) -> Option<&dyn Contact> {
        Some(self)
    }
}
