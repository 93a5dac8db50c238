//! Where proposals live, in our words: what is there, publish, say.
//!
//! The forge is the truth about a proposal. A JSON or git type never leaves an adapter's folder.

pub mod settings;

pub mod contact;

mod branch;

mod content;

mod git;

pub mod local;

mod remote;

mod github;

mod gitlab;

mod connections;
pub use connections::Connections;

pub mod webhook;

mod new_repository;
pub use new_repository::new_repository;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use slicewright_core::review::HOLD_LABEL;
use slicewright_core::review::lifecycle::{Observed, ObservedCommit, ObservedRequest};
use slicewright_core::review::metadata::Metadata;

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
    /// Somebody else moved the branch or closed the merge request meanwhile; nothing was written.
    #[error("{what} changed while it was being written")]
    Conflict {
        /// What changed.
        what: String,
    },
    /// The forge asks to wait; nothing was done.
    #[error("{what}: the forge asks to wait{}", .wait.map_or_else(String::new, |wait| format!(" {} s", wait.as_secs())))]
    Busy {
        /// What was tried.
        what: String,
        /// How long to wait, where the forge says so.
        wait: Option<Duration>,
    },
    /// No proposal can be made here until somebody changes something: an archived repository, a missing permission.
    #[error("{what}")]
    Blocked {
        /// What stands in the way, and the way out.
        what: String,
    },
    /// The request was sent and no answer came, or one that leaves open whether it was carried out. A write must be
    /// looked up before it is tried again.
    #[error("{what}: no answer")]
    Unanswered {
        /// What was tried.
        what: String,
        /// What came instead.
        #[source]
        cause: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The forge answered what cannot be understood, or refused for a reason of its own.
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
    /// Commit of the default branch that the branch grew from. `None` with a head: the two have none in common.
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
            rebased: found.rebased,
        };
        Observed {
            branch_head: self.branch_head.clone(),
            commits: self.commits.iter().map(commit).collect(),
            files: self.changed.clone(),
            stale: self.stale.clone(),
            request: self.request.as_ref().map(|found| ObservedRequest {
                by_bot: found.by_bot,
                open: found.open,
                title: found.title.clone(),
                body: found.body.clone(),
                base_branch: found.base_branch.clone(),
                approvals: found.approvals,
                held: found.held.clone(),
                conflicted: found.conflicted,
            }),
            merged: self.merged,
            unrelated: self.branch_head.is_some() && self.base.is_none(),
        }
    }

    /// A branch that has no commit in common with the default branch: nobody knows whose it is but for its head.
    fn unrelated(mut self, head: &str) -> Self {
        self.commits = vec![FoundCommit { id: head.to_owned(), ..FoundCommit::default() }];
        self
    }
}

/// The head that the bot noted in a text, where it can be one: people and strangers write there.
fn noted_head(text: &str) -> Option<String> {
    let head = Metadata::parse(text)?.head;
    remote::look::is_id(&head).then_some(head)
}

/// A commit as found on the branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundCommit {
    /// Commit id.
    pub id: String,
    /// Author and committer e-mail.
    pub emails: [String; 2],
    /// It merges the base branch and changes nothing else.
    pub merges_base: bool,
    /// It is the only one, and makes of another base what the commit that the bot left made of its own.
    pub rebased: bool,
}

/// A merge request as found: the open one of the branch, else the last that was closed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FoundRequest {
    /// What the forge calls it: its number, without `#` or `!`.
    pub id: String,
    /// The bot made it. The text of any other is nothing that is acted upon.
    pub by_bot: bool,
    /// Open, or closed by the bot or a person.
    pub open: bool,
    /// Marked as not ready to be merged.
    pub draft: bool,
    /// Title.
    pub title: String,
    /// Text, with the hidden metadata.
    pub body: String,
    /// Where a person finds it.
    pub url: String,
    /// Branch that it is for. `None`: the forge does not say.
    pub base_branch: Option<String>,
    /// People who approved its current head, as far as their approval counts: programs and strangers are none.
    pub approvals: u32,
    /// Why its branch must not move now.
    pub held: Option<String>,
    /// It cannot be merged as it is.
    pub conflicted: bool,
}

/// One repository on a forge on the network, and how the bot writes there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Its path there: `acme/infra`, `group/subgroup/project`.
    pub repository: String,
    /// Branch that proposals are for; else the one that the forge names.
    pub default_branch: Option<String>,
    /// First part of every branch that the bot writes; it writes no other.
    pub branch_prefix: String,
    /// Name on the bot's commits, where the forge does not put its own there.
    pub author_name: String,
    /// E-mail address on the bot's commits, where the forge does not put its own there.
    pub author_email: String,
    /// Addresses that earlier commits of the bot carry.
    pub former_emails: Vec<String>,
}

/// The repository `target` as it is seen with the account `settings`. Nothing is asked yet.
///
/// # Errors
/// When the settings cannot be used: a secret that is not there, a file that cannot be read.
pub fn connect(settings: &settings::Settings, target: Target) -> Result<Box<dyn Forge>, ForgeError> {
    Connections::default().connect(settings, target)
}

/// Who the bot is on a forge: how its own commits are told from those of people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// E-mail addresses of its commits, former ones included.
    pub emails: BTreeSet<String>,
    /// Addresses that the forge itself puts down as the committer of what the bot wrote through it. They are everybody's,
    /// so that only a commit whose author is the bot counts as its own.
    pub forge_emails: BTreeSet<String>,
}

/// A merge request as it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestText {
    /// Title, without a mark for drafts.
    pub title: String,
    /// Text, with the hidden metadata.
    pub body: String,
    /// Branch that it is for.
    pub base_branch: String,
    /// Not ready to be merged.
    pub draft: bool,
    /// Labels of a new one. Those of one that is there are people's.
    pub labels: Vec<String>,
    /// Whom to ask for a review of a new one, as CODEOWNERS writes them: `@login`, `@org/team`.
    pub reviewers: Vec<String>,
}

/// What is said about a commit where a forge shows whether it may be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What people see it under, and what rules name: one name, one check a commit.
    pub name: String,
    /// How it came out.
    pub conclusion: Conclusion,
    /// The outcome in a sentence.
    pub sentence: String,
    /// More about it, in Markdown. Not shown everywhere.
    pub text: String,
    /// Where to read on.
    pub url: Option<String>,
}

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conclusion {
    /// It may be merged.
    Passed,
    /// It must not be merged.
    Failed,
    /// Nobody looked. It stops nothing.
    Neutral,
    /// What stood in the way is gone: said only where the last word about the commit was another than that all is well.
    Settled,
}

/// Words cut to so many characters, with a sign where something is missing.
fn cut(words: &str, most: usize) -> String {
    if words.chars().count() <= most {
        return words.to_owned();
    }
    words.chars().take(most - 1).chain(['…']).collect()
}

/// Why the labels of a merge request hold its branch, if they do.
fn held_by_label<'a>(labels: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let held = labels.into_iter().any(|label| label.eq_ignore_ascii_case(HOLD_LABEL));
    held.then(|| format!("it has the label `{HOLD_LABEL}`"))
}

/// Most characters of somebody else's words in a message.
const MOST_WORDS: usize = 300;

/// Words of a forge or of git, on one line.
fn one_line(words: &str) -> String {
    let plain: String = words.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MOST_WORDS).collect()
}

/// Refuses a name and an address that git would not take for those of an author.
fn check_author(name: &str, email: &str) -> Result<(), ForgeError> {
    for (setting, value) in [("author.name", name), ("author.email", email)] {
        if value.trim().is_empty() || value.contains(['<', '>', '\n', '\0']) {
            let what = format!(
                "`{setting}` is `{}`, which cannot stand in a commit: give one line without `<` and `>`",
                value.escape_debug()
            );
            return Err(ForgeError::Blocked { what });
        }
    }
    Ok(())
}

/// What a comment of the bot is about: it has one comment for each on a merge request, and edits that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// What the bot did last.
    Status,
    /// A person wrote on the branch; what they can do.
    Edited,
    /// The repository's own configuration cannot be used.
    Configuration,
    /// It must not be merged as it is.
    Warning,
}

impl Topic {
    /// All of them.
    const ALL: [Self; 4] = [Self::Status, Self::Edited, Self::Configuration, Self::Warning];

    /// How the mark of every topic starts.
    const MARK: &str = "<!-- slicewright-topic:";

    /// One word, for the hidden mark in the comment.
    pub fn code(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Edited => "edited",
            Self::Configuration => "configuration",
            Self::Warning => "warning",
        }
    }

    /// The line that marks a comment as the bot's on this topic; no forge shows it.
    pub fn mark(self) -> String {
        format!("{}{} -->", Self::MARK, self.code())
    }
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

    /// Every branch that is the bot's to write, by name, whoever made it and whether anything is proposed from it or not.
    /// One listing, which costs nothing while it is as it was.
    ///
    /// # Errors
    /// When they cannot be listed in full.
    async fn branches(&self) -> Result<BTreeSet<String>, ForgeError>;

    /// What is there for `branch`, beside `main`, a commit of the default branch: one pass holds everything against the
    /// same.
    ///
    /// # Errors
    /// When it cannot be read in full; the caller then treats the branch as edited by a person.
    async fn find(&self, branch: &str, main: &str) -> Result<Found, ForgeError>;

    /// Sets `branch` to one commit on its base, if its head still is `expected_head` (`None`: does not exist).
    /// Returns the commit id. A branch that holds this very commit already (base, message and files) is left as it is;
    /// otherwise the id may depend on the moment, where the forge puts its own time down.
    ///
    /// # Errors
    /// [`ForgeError::Conflict`] when the branch moved; nothing was written then.
    async fn publish(
        &self,
        branch: &str,
        expected_head: Option<&str>,
        commit: &Commit,
    ) -> Result<String, ForgeError>;

    /// Creates the merge request of `branch`, or writes that with the id `open`; returns where a person finds it. Finds
    /// and writes one that is there already although `open` does not say so.
    ///
    /// # Errors
    /// When it cannot be written.
    async fn write_request(
        &self,
        branch: &str,
        open: Option<&str>,
        request: &RequestText,
    ) -> Result<String, ForgeError>;

    /// Writes title and text of the merge request `id`, closes it if it is open, and then deletes the branch if its head
    /// still is `expected_head`. Without `id` there is only a branch; without `expected_head` it stays.
    ///
    /// # Errors
    /// When any of it cannot be done; doing it again completes it.
    async fn close(
        &self,
        branch: &str,
        expected_head: Option<&str>,
        id: Option<&str>,
        title: &str,
        body: &str,
    ) -> Result<(), ForgeError>;

    /// Makes `text` the bot's one comment about `topic` on the merge request `id`, or removes it. Writes nothing where
    /// it says so already.
    ///
    /// # Errors
    /// When the comments cannot be read or written.
    async fn say(&self, branch: &str, id: &str, topic: Topic, text: Option<&str>) -> Result<(), ForgeError>;

    /// Removes the bot's comments about `topics` from the merge request `id`. One read where there are none.
    ///
    /// # Errors
    /// When the comments cannot be read or removed.
    async fn hush(&self, branch: &str, id: &str, topics: &[Topic]) -> Result<(), ForgeError>;

    /// Says `check` about a commit; what was said about it under the same name before holds no more. Writes nothing where
    /// it is said already. A place that shows no checks passes over it.
    ///
    /// # Errors
    /// When it cannot be read or written.
    async fn check(&self, commit: &str, check: &Check) -> Result<(), ForgeError>;

    /// Makes the one page of this repository, its dashboard, say `text`; returns where a person finds it, or `None` where
    /// a person closed it. Writes nothing where it says so already.
    ///
    /// # Errors
    /// When it cannot be read or written.
    async fn show_board(&self, title: &str, text: &str) -> Result<Option<String>, ForgeError>;

    /// Who the bot is here.
    ///
    /// # Errors
    /// When the forge does not say.
    async fn identity(&self) -> Result<Identity, ForgeError>;

    /// Its people and its hooks. `None` in a recording, where nobody is.
    fn contact(&self) -> Option<&dyn contact::Contact>;
}
