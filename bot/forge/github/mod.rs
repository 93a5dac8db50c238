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

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use tokio::sync::OnceCell;

use super::content::LARGEST_TREE;
use super::remote::kept::Kept;
use super::settings::Settings;
use super::{Commit, Forge, ForgeError, Found, Identity, RequestText, Target, Topic, Tree};
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
    client: Client,
    target: Target,
    former_logins: Vec<String>,
    former_emails: Vec<String>,
    repository: OnceCell<Repository>,
    who: OnceCell<Who>,
    listings: Kept<Listed>,
    blobs: Kept<Vec<u8>>,
    comparisons: Kept<Compared>,
    standings: Kept<Standing>,
    /// The server moves branches by REST only.
    refs_by_rest: AtomicBool,
    /// Heads that were published while the text was not written since, by branch. A run that ends loses them: then the
    /// e-mail addresses of the commits still tell whose they are.
    unfinished: Mutex<BTreeMap<String, String>>,
    /// GitHub asks to write one thing at a time.
    writing: tokio::sync::Mutex<()>,
}

impl GitHub {
    pub(super) fn new(settings: &Settings, target: Target) -> Result<Self, ForgeError> {
        let n_parts = target.repository.split('/').filter(|part| !part.is_empty()).count();
        if n_parts != 2 || target.repository.split('/').count() != 2 {
            let what = format!("`{}` is no repository on GitHub: write `owner/name`", target.repository);
            return Err(ForgeError::Blocked { what });
        }
        Ok(Self {
            client: Client::new(settings, &target.repository)?,
            target,
            former_logins: settings.former_logins.clone(),
            former_emails: settings.former_emails.clone(),
            repository: OnceCell::new(),
            who: OnceCell::new(),
            listings: Kept::new(KEPT_ENTRIES),
            blobs: Kept::new(usize::try_from(LARGEST_TREE).unwrap_or(usize::MAX)),
            comparisons: Kept::new(KEPT_COMMITS),
            standings: Kept::new(KEPT_STANDINGS),
            refs_by_rest: AtomicBool::new(false),
            unfinished: Mutex::default(),
            writing: tokio::sync::Mutex::new(()),
        })
    }

    fn unfinished(&self, branch: &str) -> Option<String> {
        self.unfinished.lock().unwrap_or_else(PoisonError::into_inner).get(branch).cloned()
    }

    fn note_unfinished(&self, branch: &str, head: Option<&str>) {
        let mut unfinished = self.unfinished.lock().unwrap_or_else(PoisonError::into_inner);
        match head {
            Some(head) => drop(unfinished.insert(branch.to_owned(), head.to_owned())),
            None => drop(unfinished.remove(branch)),
        }
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

    async fn find(&self, branch: &str) -> Result<Found, ForgeError> {
        self.found(branch).await
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
        self.said(id, topic, text).await
    }

    async fn hush(&self, _branch: &str, id: &str, topics: &[Topic]) -> Result<(), ForgeError> {
        let _turn = self.writing.lock().await;
        self.unsaid(id, topics).await
    }

    async fn identity(&self) -> Result<Identity, ForgeError> {
        self.known_as().await
    }
}
