//! Where proposals live, in our words: what is there, publish, say.
//!
//! The forge is the truth about a proposal. A JSON or git type never leaves an adapter's folder.

mod git;

pub mod local;

mod new_repository;
pub use new_repository::new_repository;

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use slicewright_core::review::lifecycle::{Observed, ObservedCommit, ObservedRequest};

/// What an adapter may fail with; the variants are what its caller does differently.
#[derive(Debug, thiserror::Error)]
pub enum ForgeError {
    /// The repository, branch or file is not there.
    #[error("{what} was not found")]
    NotFound {
        /// What was looked for, and where.
        what: String,
    },
    /// Not allowed.
    #[error("{what} was denied")]
    Denied {
        /// What was tried.
        what: String,
    },
    /// Somebody else moved the branch meanwhile; nothing was written.
    #[error("{what} moved while it was being written")]
    Conflict {
        /// What moved.
        what: String,
    },
    /// The forge did not answer, or answered what cannot be understood.
    #[error("{what}")]
    Failed {
        /// What was tried, on what, and what came back.
        what: String,
        /// The cause, if there is one.
        #[source]
        cause: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

/// A repository at one commit: every path with its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Commit that was read.
    pub commit: String,
    /// Files by path. Symlinks, submodules, LFS pointers and files over the limit are named in `skipped` instead.
    pub files: BTreeMap<String, Vec<u8>>,
    /// What was not read, with the reason, by path.
    pub skipped: BTreeMap<String, String>,
}

/// A commit to publish: the whole content of each changed file; `None` removes the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Commit that the change was made from.
    pub base: String,
    /// Subject and body.
    pub message: String,
    /// Changed files by path.
    pub files: BTreeMap<String, Option<Vec<u8>>>,
}

/// What the forge shows of one proposal now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Head of the branch, if the branch exists.
    pub branch_head: Option<String>,
    /// Commits on the branch that are not on its base, oldest first.
    pub commits: Vec<FoundCommit>,
    /// Commit of the default branch that the branch grew from.
    pub base: Option<String>,
    /// Content differences of the branch against its base commit, by path: `None` where the file is absent.
    pub changed: BTreeMap<String, Option<Vec<u8>>>,
    /// Paths of `changed` whose content on the default branch is no longer that of `base`.
    pub stale: BTreeSet<String>,
    /// The merge request, if there is one.
    pub request: Option<FoundRequest>,
    /// Head that the bot noted before it moved the branch, where the text was not written since: its own, whatever
    /// the text says.
    pub unfinished_head: Option<String>,
    /// The branch's change is on the default branch already.
    pub merged: bool,
}

impl Found {
    /// The same in the words of the decision about it.
    pub fn observed(&self) -> Observed {
        let commit = |found: &FoundCommit| ObservedCommit {
            id: found.id.clone(),
            emails: found.emails.clone(),
            merges_base: found.merges_base,
        };
        Observed {
            branch_head: self.branch_head.clone(),
            commits: self.commits.iter().map(commit).collect(),
            files: self.changed.clone(),
            stale: self.stale.clone(),
            request: self.request.as_ref().map(|found| ObservedRequest {
                open: found.open,
                title: found.title.clone(),
                body: found.body.clone(),
                base_branch: found.base_branch.clone(),
                approvals: found.approvals,
                held: found.held.clone(),
                conflicted: found.conflicted,
            }),
            merged: self.merged,
        }
    }
}

/// A commit as found on the branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundCommit {
    /// Commit id.
    pub id: String,
    /// Author and committer e-mail.
    pub emails: [String; 2],
    /// It merges the base branch and changes nothing else.
    pub merges_base: bool,
}

/// A merge request as found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundRequest {
    /// Open, or closed by the bot or a person.
    pub open: bool,
    /// Title.
    pub title: String,
    /// Text, with the hidden metadata.
    pub body: String,
    /// Where a person finds it.
    pub url: String,
    /// Branch that it is for. `None`: the forge does not say.
    pub base_branch: Option<String>,
    /// People who approved its current head.
    pub approvals: u32,
    /// Why its branch must not move now.
    pub held: Option<String>,
    /// It cannot be merged as it is.
    pub conflicted: bool,
}

/// A place where proposals are made. Methods are the steps of one pass over one repository.
#[async_trait]
pub trait Forge: Send + Sync {
    /// The branch that proposals are for, `main`.
    ///
    /// # Errors
    /// When the repository does not say.
    async fn base_branch(&self) -> Result<String, ForgeError>;

    /// Head commit of the default branch.
    ///
    /// # Errors
    /// When the repository cannot be reached or has no such branch.
    async fn head(&self) -> Result<String, ForgeError>;

    /// Every file at `commit`.
    ///
    /// # Errors
    /// When the commit is not there or cannot be read in full.
    async fn read_tree(&self, commit: &str) -> Result<Tree, ForgeError>;

    /// What is there for `branch`.
    ///
    /// # Errors
    /// When it cannot be read in full; the caller then treats the branch as edited by a person.
    async fn find(&self, branch: &str) -> Result<Found, ForgeError>;

    /// Sets `branch` to one commit on its base, if its head still is `expected_head` (`None`: does not exist).
    /// Returns the commit id. Equal input gives an equal commit.
    ///
    /// # Errors
    /// [`ForgeError::Conflict`] when the branch moved; nothing was written then.
    async fn publish(
        &self,
        branch: &str,
        expected_head: Option<&str>,
        commit: &Commit,
    ) -> Result<String, ForgeError>;

    /// Creates or updates the merge request of `branch`; returns where a person finds it.
    ///
    /// # Errors
    /// When it cannot be written.
    async fn write_request(&self, branch: &str, title: &str, body: &str) -> Result<String, ForgeError>;

    /// Closes the merge request of `branch` with `body`, and deletes the branch if its head still is `expected_head`.
    ///
    /// # Errors
    /// When either cannot be done.
    async fn close(
        &self,
        branch: &str,
        expected_head: Option<&str>,
        title: &str,
        body: &str,
    ) -> Result<(), ForgeError>;

    /// E-mail addresses that the bot's own commits carry.
    ///
    /// # Errors
    /// When the forge does not say who the bot is.
    async fn own_emails(&self) -> Result<Vec<String>, ForgeError>;
}
