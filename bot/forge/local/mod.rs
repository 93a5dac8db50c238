//! A plain git directory: dry runs, and forges without an API.
//!
//! Branches and commits go into the repository, each merge request is a folder beside it. What is written in which case
//! is the question of `core::review::lifecycle`.
//!
//! A person who does not want a change writes `declined` as its state, or deletes the branch; writing `open` again brings
//! it back.
//!
//! Objects are written first, then a note of the new head in the folder, then the branch, then the files, and the note
//! goes; closing writes the files first. A run that is stopped in between leaves nothing that the next one cannot
//! complete.

mod folder;

mod contact;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use async_trait::async_trait;
use folder::Folder;
use serde::{Deserialize, Serialize};

use super::contact::Contact;
use super::content::{Entry, filled, ids, is_merged, writable};
use super::git::{Git, Signature};
use super::{
    Check, Commit, Forge, ForgeError, Found, FoundCommit, Identity, RequestText, Topic, Tree, branch,
    check_author, noted_head,
};

/// Where the repository is, and who the bot is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Folder of the repository, bare or with a work tree.
    pub repository: PathBuf,
    /// Folder for the merge requests, a folder each; made when it is first needed.
    pub requests: PathBuf,
    /// Branch that proposals are for; else the one that the repository's `HEAD` names.
    #[serde(default)]
    pub default_branch: Option<String>,
    /// First part of every branch that the bot writes; it writes no other.
    #[serde(default = "default_prefix")]
    pub branch_prefix: String,
    /// Name on the bot's commits.
    #[serde(default = "default_name")]
    pub author_name: String,
    /// E-mail address on the bot's commits: how it tells its own from those of people.
    #[serde(default = "default_email")]
    pub author_email: String,
    /// Addresses that earlier commits of the bot carry.
    #[serde(default)]
    pub former_emails: Vec<String>,
}

fn default_prefix() -> String {
    "slicewright".into()
}

fn default_name() -> String {
    "Slicewright".into()
}

fn default_email() -> String {
    "slicewright@localhost.invalid".into()
}

impl Settings {
    /// The defaults for a repository and a folder for its merge requests.
    pub fn new(repository: impl Into<PathBuf>, requests: impl Into<PathBuf>) -> Self {
        Self {
            repository: repository.into(),
            requests: requests.into(),
            default_branch: None,
            branch_prefix: default_prefix(),
            author_name: default_name(),
            author_email: default_email(),
            former_emails: Vec::new(),
        }
    }
}

/// A git directory as a forge.
#[derive(Clone, Debug)]
pub struct Local {
    git: Git,
    settings: Settings,
}

impl Local {
    /// Opens the repository; nothing is written.
    ///
    /// # Errors
    /// When there is no repository, or the settings name things that git would take for something else.
    pub fn open(settings: Settings) -> Result<Self, ForgeError> {
        let git = Git::open(&settings.repository)?;
        check_author(&settings.author_name, &settings.author_email)?;
        Ok(Self { git, settings })
    }

    fn default_ref(&self) -> Result<String, ForgeError> {
        match &self.settings.default_branch {
            Some(branch) => Self::checked_ref(branch),
            None => self.git.head_ref(),
        }
    }

    /// `refs/heads/<branch>`, if that is a name that git takes for a branch.
    fn checked_ref(branch: &str) -> Result<String, ForgeError> {
        branch::check(branch)?;
        Ok(format!("refs/heads/{branch}"))
    }

    /// As [`Local::checked_ref`], and ours to write.
    fn own_ref(&self, branch: &str) -> Result<String, ForgeError> {
        let name = Self::checked_ref(branch)?;
        if self.git.head_ref().ok().as_deref() == Some(&name) {
            let what = format!("writing `{branch}`, which is checked out in `{}`,", self.git.name());
            return Err(ForgeError::Denied { what });
        }
        branch::check_own(branch, &self.settings.branch_prefix, &self.base_branch()?)?;
        Ok(name)
    }

    fn folder(&self, branch: &str) -> Folder {
        Folder::new(&self.settings.requests, branch)
    }

    /// The change of `commit` against the default branch at `main`.
    fn change_of(&self, commit: &str, main: &str) -> Result<Option<Change>, ForgeError> {
        let Some(base) = self.git.merge_base(main, commit)? else { return Ok(None) };
        let files = self.git.diff(&base, commit)?;
        let moved = self.git.diff(&base, main)?;
        let there = self.git.diff(main, commit)?;
        let merged =
            commit == base || (!files.is_empty() && files.keys().all(|path| !there.contains_key(path)));
        Ok(Some(Change {
            stale: files.keys().filter(|path| moved.contains_key(*path)).cloned().collect(),
            base,
            files,
            merged,
        }))
    }
}

/// What a commit changes, seen from the default branch.
struct Change {
    base: String,
    files: BTreeMap<String, Option<Entry>>,
    stale: BTreeSet<String>,
    merged: bool,
}

/// What a forge does, on the thread that asks.
impl Local {
    /// The branch that proposals are for.
    ///
    /// # Errors
    /// See [`Forge::base_branch`].
    pub fn base_branch(&self) -> Result<String, ForgeError> {
        let name = self.default_ref()?;
        Ok(name.strip_prefix("refs/heads/").unwrap_or(&name).to_owned())
    }

    /// Head commit of the default branch.
    ///
    /// # Errors
    /// See [`Forge::head`].
    pub fn head(&self) -> Result<String, ForgeError> {
        let name = self.default_ref()?;
        let branch = name.strip_prefix("refs/heads/").unwrap_or(&name);
        self.git.resolve(&format!("{name}^{{commit}}"))?.ok_or_else(|| ForgeError::NotFound {
            what: format!("a commit on branch `{branch}` of `{}`", self.git.name()),
        })
    }

    /// Every file at `commit`.
    ///
    /// # Errors
    /// See [`Forge::read_tree`].
    pub fn read_tree(&self, commit: &str) -> Result<Tree, ForgeError> {
        let known = self.git.resolve(&format!("{commit}^{{commit}}"))?;
        let known = known.ok_or_else(|| ForgeError::NotFound {
            what: format!("commit `{}` in `{}`", commit.escape_debug(), self.git.name()),
        })?;
        self.git.tree(&known)
    }

    /// Every branch that is the bot's to write.
    ///
    /// # Errors
    /// See [`Forge::branches`].
    pub fn branches(&self) -> Result<BTreeSet<String>, ForgeError> {
        let (prefix, base) = (&self.settings.branch_prefix, self.base_branch()?);
        let found = self.git.branches_below(prefix)?.into_iter();
        Ok(found.filter_map(|name| branch::own(name, prefix, &base)).collect())
    }

    /// What is there for `branch`.
    ///
    /// # Errors
    /// See [`Forge::find`].
    pub fn find(&self, branch: &str, main: &str) -> Result<Found, ForgeError> {
        let folder = self.folder(branch);
        let mut found = Found { request: folder.read()?, ..Found::default() };
        found.branch_head = self.git.resolve(&format!("{}^{{commit}}", Self::checked_ref(branch)?))?;
        found.unfinished_head = folder.unfinished_head()?;
        let noted = found.request.as_ref().and_then(|request| noted_head(&request.body));
        if let Some(head) = found.branch_head.clone() {
            let Some(change) = self.change_of(&head, main)? else { return Ok(found.unrelated(&head)) };
            found.commits = (self.git.log(main, &head)?.into_iter())
                .map(|(id, emails)| FoundCommit { id, emails, ..FoundCommit::default() })
                .collect();
            let mut contents = self.git.blobs(ids(&change.files))?;
            found.changed = filled(change.files, |path| contents.remove(path));
            found.stale = change.stale;
            found.merged = is_merged(change.merged, &change.base, &head, noted.as_deref());
            found.base = Some(change.base);
        }
        // What a person added to it is not merged with it.
        if let (false, true, Some(noted)) = (found.merged, found.commits.is_empty(), noted)
            && self.git.resolve(&format!("{noted}^{{commit}}"))?.is_some()
        {
            found.merged = self.change_of(&noted, main)?.is_some_and(|change| change.merged);
        }
        Ok(found)
    }

    /// Sets `branch` to one commit, if its head still is `expected_head`.
    ///
    /// # Errors
    /// See [`Forge::publish`].
    pub fn publish(
        &self,
        branch: &str,
        expected_head: Option<&str>,
        commit: &Commit,
    ) -> Result<String, ForgeError> {
        let name = self.own_ref(branch)?;
        if self.git.resolve(&name)?.as_deref() != expected_head {
            return Err(ForgeError::Conflict { what: format!("`{branch}` of `{}`", self.git.name()) });
        }
        let base = self.git.resolve(&format!("{}^{{commit}}", commit.base))?;
        let base =
            base.ok_or_else(|| ForgeError::NotFound { what: format!("base commit `{}`", commit.base) })?;
        let there = self.git.entries(&base)?;
        let mut entries = BTreeMap::new();
        for (path, content) in &commit.files {
            let mode = writable(path, &there)?;
            let entry = match content {
                Some(content) => Some((mode, self.git.write_blob(content)?)),
                None => None,
            };
            entries.insert(path.clone(), entry);
        }
        let tree = self.git.write_tree(Some(&base), &entries)?;
        if self.git.resolve(&format!("{base}^{{tree}}"))?.as_deref() == Some(tree.as_str()) {
            return Err(ForgeError::Failed {
                what: format!("the commit for `{branch}` changes nothing"),
                cause: None,
            });
        }
        // The base's own time: equal input gives an equal commit, whenever it is made.
        let seconds = self.git.committed_at(&base)?;
        let by = Signature {
            name: &self.settings.author_name,
            email: &self.settings.author_email,
            seconds: &seconds,
        };
        let id = self.git.write_commit(&tree, Some(&base), &commit.message, &by)?;
        if expected_head != Some(id.as_str()) {
            let folder = self.folder(branch);
            folder.note_head(&id)?;
            if let Err(error) = self.git.move_ref(&name, expected_head, Some(&id)) {
                // The note speaks of a commit that is nowhere; the reason to report is the one above.
                drop(folder.forget_head());
                return Err(error);
            }
        }
        Ok(id)
    }

    /// Writes the merge request's files.
    ///
    /// # Errors
    /// See [`Forge::write_request`].
    pub fn write_request(
        &self,
        branch: &str,
        open: bool,
        request: &RequestText,
    ) -> Result<String, ForgeError> {
        self.own_ref(branch)?;
        let folder = self.folder(branch);
        if open && folder.read()?.is_some_and(|there| !there.open) {
            let what = format!("the merge request of `{branch}`, closed meanwhile,");
            return Err(ForgeError::Conflict { what });
        }
        if !open {
            // The folder may have been another merge request's, of which they speak.
            Topic::ALL.iter().try_for_each(|topic| folder.say(*topic, None))?;
        }
        let path = folder.write(request)?;
        folder.forget_head()?;
        Ok(path.display().to_string())
    }

    /// Writes the closed merge request's files and deletes the branch.
    ///
    /// # Errors
    /// See [`Forge::close`].
    pub fn close(
        &self,
        branch: &str,
        expected_head: Option<&str>,
        title: &str,
        body: &str,
    ) -> Result<(), ForgeError> {
        let name = self.own_ref(branch)?;
        if expected_head.is_some() && self.git.resolve(&name)?.as_deref() != expected_head {
            return Err(ForgeError::Conflict { what: format!("`{branch}` of `{}`", self.git.name()) });
        }
        let folder = self.folder(branch);
        folder.close(title, body)?;
        folder.forget_head()?;
        match expected_head {
            Some(head) => self.git.move_ref(&name, Some(head), None),
            None => Ok(()),
        }
    }

    /// Writes or removes the file with the bot's words about `topic`.
    ///
    /// # Errors
    /// See [`Forge::say`].
    pub fn say(&self, branch: &str, topic: Topic, text: Option<&str>) -> Result<(), ForgeError> {
        self.own_ref(branch)?;
        self.folder(branch).say(topic, text)
    }

    /// Writes the file `dashboard.md` in the folder of the merge requests; returns its path.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn show_board(&self, title: &str, text: &str) -> Result<String, ForgeError> {
        let path = folder::show_board(&self.settings.requests, title, text)?;
        Ok(path.display().to_string())
    }

    /// Who the bot is: addresses on its commits.
    pub fn identity(&self) -> Identity {
        let emails = std::iter::once(&self.settings.author_email).chain(&self.settings.former_emails);
        Identity { emails: emails.cloned().collect(), ..Identity::default() }
    }
}

#[async_trait]
impl Forge for Local {
    async fn base_branch(&self) -> Result<String, ForgeError> {
        self.aside(|local| local.base_branch()).await
    }

    async fn head(&self) -> Result<String, ForgeError> {
        self.aside(|local| local.head()).await
    }

    async fn read_tree(&self, commit: &str) -> Result<Tree, ForgeError> {
        let commit = commit.to_owned();
        self.aside(move |local| local.read_tree(&commit)).await
    }

    async fn branches(&self) -> Result<BTreeSet<String>, ForgeError> {
        self.aside(|local| local.branches()).await
    }

    async fn find(&self, branch: &str, main: &str) -> Result<Found, ForgeError> {
        let (branch, main) = (branch.to_owned(), main.to_owned());
        self.aside(move |local| local.find(&branch, &main)).await
    }

    async fn publish(
        &self,
        branch: &str,
        expected_head: Option<&str>,
        commit: &Commit,
    ) -> Result<String, ForgeError> {
        let (branch, expected, commit) =
            (branch.to_owned(), expected_head.map(str::to_owned), commit.clone());
        self.aside(move |local| local.publish(&branch, expected.as_deref(), &commit)).await
    }

    async fn write_request(
        &self,
        branch: &str,
        open: Option<&str>,
        request: &RequestText,
    ) -> Result<String, ForgeError> {
        let (branch, open, request) = (branch.to_owned(), open.is_some(), request.clone());
        self.aside(move |local| local.write_request(&branch, open, &request)).await
    }

    async fn close(
        &self,
        branch: &str,
        expected_head: Option<&str>,
        _id: Option<&str>,
        title: &str,
        body: &str,
    ) -> Result<(), ForgeError> {
        let expected = expected_head.map(str::to_owned);
        let [branch, title, body] = [branch, title, body].map(str::to_owned);
        self.aside(move |local| local.close(&branch, expected.as_deref(), &title, &body)).await
    }

    async fn say(&self, branch: &str, _id: &str, topic: Topic, text: Option<&str>) -> Result<(), ForgeError> {
        let (branch, text) = (branch.to_owned(), text.map(str::to_owned));
        self.aside(move |local| local.say(&branch, topic, text.as_deref())).await
    }

    async fn hush(&self, branch: &str, _id: &str, topics: &[Topic]) -> Result<(), ForgeError> {
        let (branch, topics) = (branch.to_owned(), topics.to_vec());
        self.aside(move |local| topics.iter().try_for_each(|topic| local.say(&branch, *topic, None))).await
    }

    /// A folder shows no checks: its texts say it all.
    async fn check(&self, _commit: &str, _check: &Check) -> Result<(), ForgeError> {
        Ok(())
    }

    async fn show_board(&self, title: &str, text: &str) -> Result<Option<String>, ForgeError> {
        let (title, text) = (title.to_owned(), text.to_owned());
        self.aside(move |local| local.show_board(&title, &text).map(Some)).await
    }

    async fn identity(&self) -> Result<Identity, ForgeError> {
        Ok(Local::identity(self))
    }

    fn contact(&self) -> Option<&dyn Contact> {
        Some(self)
    }
}

impl Local {
    /// Runs git on a thread where waiting for it holds up nobody.
    async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, ForgeError> + Send + 'static,
    ) -> Result<T, ForgeError> {
        let local = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&local)).await;
        done.unwrap_or_else(|e| {
            Err(ForgeError::Failed {
                what: "the work on git was broken off".into(),
                cause: Some(Box::new(e)),
            })
        })
    }
}

#[cfg(test)]
mod tests;
