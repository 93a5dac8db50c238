//! The branch of a proposal: made, put on a new commit, deleted; never under somebody's feet.
//!
//! A branch that must be new is made over the API, which refuses when there is one. A branch that is there is moved by
//! git itself: the API can force a branch, but only git's push takes the head that the branch must still have. Where
//! git does not get through, the API is used after all, with a look right before and right after.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

use super::client::judged;
use super::{GitLab, dto, endpoints};
use crate::forge::content::{Entry, Listing, writable};
use crate::forge::git::remote::{Pushed, Remote};
use crate::forge::git::{Git, Signature};
use crate::forge::remote::archive::object_id;
use crate::forge::remote::compare::compare;
use crate::forge::remote::http::{part, retried};
use crate::forge::{Commit, ForgeError};

/// How often a branch that must be new is made while no answer comes. It can be made only once.
const MOST_TRIES: usize = 2;

/// A commit as it must come out.
struct Wanted<'a> {
    branch: &'a str,
    commit: &'a Commit,
    /// The base with the change.
    listing: Listing,
    /// What the base has.
    there: std::sync::Arc<Listing>,
}

impl GitLab {
    /// Sets `branch` to one commit on its base, if its head still is `expected`.
    pub(super) async fn write_branch(
        &self,
        branch: &str,
        expected: Option<&str>,
        commit: &Commit,
    ) -> Result<String, ForgeError> {
        let there = self.branch(branch).await?;
        let head = there.as_ref().map(|there| there.commit.id.as_str());
        if head != expected {
            return Err(self.moved(branch));
        }
        self.refuse_protected(branch, there.as_ref()).await?;
        let wanted = self.wanted(branch, commit).await?;
        match expected {
            None => self.create_branch(&wanted).await,
            // What was asked for is there: an earlier call was stopped before its answer came.
            Some(head) if self.is_wanted(head, &wanted).await? => Ok(head.to_owned()),
            Some(head) => match self.reset_by_git(head, &wanted).await? {
                Ok(id) => Ok(id),
                Err(why) => {
                    tracing::warn!("{}: {why}; it is written over the API instead", self.on(branch));
                    self.reset_by_api(head, &wanted).await
                }
            },
        }
    }

    fn moved(&self, branch: &str) -> ForgeError {
        ForgeError::Conflict { what: self.on(&format!("`{branch}`")) }
    }

    /// Nothing goes on here until somebody changes a rule of the repository.
    fn barred(&self, branch: &str, why: &str) -> ForgeError {
        let what = self.on(&format!("branch `{branch}`"));
        let prefix = &self.target.branch_prefix;
        ForgeError::Blocked {
            what: format!(
                "the bot may not write {what} ({why}): let its account push and force-push there (Settings, Repository, \
                 Protected branches, Push rules), or choose another `branch_prefix` than `{prefix}`"
            ),
        }
    }

    async fn refuse_protected(&self, branch: &str, there: Option<&dto::Branch>) -> Result<(), ForgeError> {
        let patterns = self.protected.get_or_try_init(async || {
            match self.protected_patterns(self.project().await?.id).await {
                Ok(patterns) => Ok(patterns),
                // Some servers show them to maintainers only, and refuse the write by themselves.
                Err(ForgeError::Denied { .. } | ForgeError::NotFound { .. }) => Ok(Vec::new()),
                Err(error) => Err(error),
            }
        });
        let protects = patterns.await?.iter().any(|pattern| matches(pattern, branch));
        if protects || there.is_some_and(|there| there.protected) {
            return Err(self.barred(branch, "it is protected"));
        }
        Ok(())
    }

    /// Patterns of protected branches.
    pub(super) async fn protected_patterns(&self, project: u64) -> Result<Vec<String>, ForgeError> {
        let what = self.on("reading the protected branches");
        let found: Vec<dto::Protected> =
            self.client.list(&what, &endpoints::protected_branches(project)?).await?;
        Ok(found.into_iter().map(|protected| protected.name).collect())
    }

    /// The tree as it must come out, if all of it may be written and it is another one.
    async fn wanted<'a>(&self, branch: &'a str, commit: &'a Commit) -> Result<Wanted<'a>, ForgeError> {
        let there = self.listed(&commit.base).await?;
        let mut listing = (*there).clone();
        for (path, content) in &commit.files {
            let mode = writable(path, &there)?;
            match content {
                None => drop(listing.remove(path)),
                Some(content) => {
                    let id = object_id(content, commit.base.len());
                    listing.insert(path.clone(), Entry { mode, id, size: None });
                }
            }
        }
        if compare(&there, &listing, &there).files.is_empty() {
            let what = format!("the commit for `{branch}` changes nothing");
            return Err(ForgeError::Failed { what, cause: None });
        }
        Ok(Wanted { branch, commit, listing, there })
    }

    /// Whether a commit is the wanted one: its id depends on when it was made, so that its parent, message and tree
    /// decide.
    async fn is_wanted(&self, id: &str, wanted: &Wanted<'_>) -> Result<bool, ForgeError> {
        let commit = self.commit(id).await?;
        let Some(commit) = commit.as_ref().and_then(|commit| commit.first()) else { return Ok(false) };
        if commit.parent_ids != [wanted.commit.base.clone()]
            || commit.message.trim_end() != wanted.commit.message.trim_end()
        {
            return Ok(false);
        }
        let listing = self.listed(id).await?;
        Ok(compare(&wanted.listing, &listing, &wanted.listing).files.is_empty())
    }

    /// What the API is told. The content at `start_sha` is what the change was made from, so that no file needs a
    /// `last_commit_id` besides; a mode that is left out stays.
    fn order(&self, wanted: &Wanted<'_>, force: bool) -> Value {
        let actions: Vec<Value> = (wanted.commit.files.iter())
            .filter_map(|(path, content)| {
                let known = wanted.there.get(path);
                let Some(content) = content else {
                    return known.map(|_| json!({ "action": "delete", "file_path": path }));
                };
                let action = if known.is_some() { "update" } else { "create" };
                Some(match std::str::from_utf8(content) {
                    Ok(text) => json!({ "action": action, "file_path": path, "content": text }),
                    Err(_) => json!({
                        "action": action, "file_path": path, "content": STANDARD.encode(content), "encoding": "base64",
                    }),
                })
            })
            .collect();
        let mut order = json!({
            "branch": wanted.branch,
            "start_sha": wanted.commit.base,
            "commit_message": wanted.commit.message.trim_end(),
            "author_name": self.target.author_name,
            "author_email": self.target.author_email,
            "actions": actions,
            "stats": false,
        });
        if force {
            order["force"] = Value::Bool(true);
        }
        order
    }

    async fn create_branch(&self, wanted: &Wanted<'_>) -> Result<String, ForgeError> {
        let project = self.project().await?.id;
        let what = self.on(&format!("creating branch `{}`", wanted.branch));
        let asked = endpoints::create_commit(project, self.order(wanted, false));
        let mut last = None;
        for _ in 0..MOST_TRIES {
            let answer = self.client.write(&what, &asked).await;
            let failure = match answer.and_then(|answer| judged(&what, answer)) {
                Ok(answer) => return answer.json::<dto::Commit>(&what).map(|made| made.id),
                Err(error @ (ForgeError::Unanswered { .. } | ForgeError::Failed { .. })) => error,
                Err(ForgeError::Conflict { .. }) => return Err(self.moved(wanted.branch)),
                // Who is no maintainer does not see which branches are protected before.
                Err(ForgeError::Denied { what }) => return Err(self.barred(wanted.branch, &what)),
                Err(error) => return Err(error),
            };
            // No answer, or a refusal that may say that the branch is there: the branch itself knows.
            match self.branch(wanted.branch).await? {
                Some(there) if self.is_wanted(&there.commit.id, wanted).await? => return Ok(there.commit.id),
                Some(_) => return Err(self.moved(wanted.branch)),
                None if matches!(failure, ForgeError::Failed { .. }) => return Err(failure),
                None => last = Some(failure),
            }
        }
        Err(last.unwrap_or_else(|| self.moved(wanted.branch)))
    }

    /// Moves the branch with git. The inner error says why git does not get through; nothing was written then.
    async fn reset_by_git(
        &self,
        head: &str,
        wanted: &Wanted<'_>,
    ) -> Result<Result<String, String>, ForgeError> {
        let remote = self.remote().await?;
        let base = wanted.commit.base.clone();
        if base.len() != 40 {
            return Ok(Err("the repository has SHA-256 object ids".into()));
        }
        let workshop = match Workshop::new() {
            Ok(workshop) => workshop,
            Err(error) => return Ok(Err(error.to_string())),
        };
        match retried(|| workshop.git.fetch(&remote, &base)).await {
            Ok(()) => {}
            Err(error @ ForgeError::Unanswered { .. }) => return Err(error),
            Err(error) => return Ok(Err(error.to_string())),
        }
        let (git, commit, listing) = (workshop.git.clone(), wanted.commit.clone(), wanted.listing.clone());
        let (name, email) = (self.target.author_name.clone(), self.target.author_email.clone());
        let make = move || -> Result<String, ForgeError> {
            let mut entries = std::collections::BTreeMap::new();
            for (path, content) in &commit.files {
                let entry = match content {
                    None => None,
                    Some(content) => {
                        let mode = listing.get(path).map_or("100644", |entry| entry.mode.as_str());
                        Some((mode.to_owned(), git.write_blob(content)?))
                    }
                };
                entries.insert(path.clone(), entry);
            }
            let tree = git.write_tree(Some(&commit.base), &entries)?;
            // The base's own time: equal input gives an equal commit, whenever it is made.
            let seconds = git.committed_at(&commit.base)?;
            let by = Signature { name: &name, email: &email, seconds: &seconds };
            git.write_commit(&tree, Some(&commit.base), &commit.message, &by)
        };
        let id = tokio::task::spawn_blocking(make).await.map_err(|cause| ForgeError::Failed {
            what: "the work on git was broken off".into(),
            cause: Some(Box::new(cause)),
        })??;
        let pushed = workshop.git.push(&remote, wanted.branch, head, Some(&id)).await;
        if pushed.as_ref().is_ok_and(|pushed| *pushed == Pushed::Done) {
            return Ok(Ok(id));
        }
        // Whatever git says, the branch itself knows: a push may arrive twice, or its answer get lost.
        let now = self.branch(wanted.branch).await?.map(|there| there.commit.id);
        if now.as_deref() == Some(id.as_str()) {
            return Ok(Ok(id));
        }
        if now.as_deref() != Some(head) {
            return Err(self.moved(wanted.branch));
        }
        match pushed {
            Ok(Pushed::Refused(why)) => Err(self.barred(wanted.branch, &why)),
            Ok(Pushed::Done | Pushed::Stale) => Err(self.moved(wanted.branch)),
            Err(error @ ForgeError::Unanswered { .. }) => Err(error),
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    /// Moves the branch over the API, which takes no head that it must have: the look right before leaves a moment in
    /// which a person's commit would be lost.
    async fn reset_by_api(&self, head: &str, wanted: &Wanted<'_>) -> Result<String, ForgeError> {
        let project = self.project().await?.id;
        let what = self.on(&format!("resetting branch `{}`", wanted.branch));
        let asked = endpoints::create_commit(project, self.order(wanted, true));
        if self.branch(wanted.branch).await?.map(|there| there.commit.id).as_deref() != Some(head) {
            return Err(self.moved(wanted.branch));
        }
        let answer = self.client.write(&what, &asked).await.and_then(|answer| judged(&what, answer));
        let made = match answer {
            Ok(answer) => Some(answer.json::<dto::Commit>(&what)?.id),
            Err(ForgeError::Unanswered { .. }) => None,
            Err(ForgeError::Denied { what }) => return Err(self.barred(wanted.branch, &what)),
            Err(error) => return Err(error),
        };
        let now = self.branch(wanted.branch).await?.map(|there| there.commit.id);
        match (now, made) {
            (Some(now), Some(made)) if now == made => Ok(made),
            (Some(now), None) if self.is_wanted(&now, wanted).await? => Ok(now),
            (Some(now), None) if now == head => Err(ForgeError::Unanswered { what, cause: None }),
            _ => Err(self.moved(wanted.branch)),
        }
    }

    /// Deletes the branch, if its head still is `expected`; one that is gone is fine.
    pub(super) async fn delete_branch(&self, branch: &str, expected: &str) -> Result<(), ForgeError> {
        let head = async || -> Result<Option<String>, ForgeError> {
            Ok(self.branch(branch).await?.map(|there| there.commit.id))
        };
        if let Ok(workshop) = Workshop::new() {
            let remote = self.remote().await?;
            let pushed = workshop.git.push(&remote, branch, expected, None).await;
            match head().await?.as_deref() {
                None => return Ok(()),
                Some(now) if now != expected => return Err(self.moved(branch)),
                Some(_) => {
                    let why = match pushed {
                        Ok(Pushed::Refused(why)) => why,
                        Ok(Pushed::Done | Pushed::Stale) => "the branch is there as before".into(),
                        Err(error @ ForgeError::Unanswered { .. }) => return Err(error),
                        Err(error) => error.to_string(),
                    };
                    tracing::debug!("{}: {why}; it is deleted over the API instead", self.on(branch));
                }
            }
        }
        if head().await?.is_none_or(|now| now != expected) {
            return match head().await? {
                None => Ok(()),
                Some(_) => Err(self.moved(branch)),
            };
        }
        let project = self.project().await?.id;
        let what = self.on(&format!("deleting branch `{branch}`"));
        let answer = self.client.write(&what, &endpoints::delete_branch(project, branch)).await;
        match answer.and_then(|answer| judged(&what, answer)) {
            Ok(_) | Err(ForgeError::NotFound { .. }) => Ok(()),
            Err(error @ ForgeError::Unanswered { .. }) => match head().await? {
                None => Ok(()),
                Some(_) => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// The repository as git reaches it.
    async fn remote(&self) -> Result<Remote, ForgeError> {
        let path = &self.project().await?.path_with_namespace;
        let path: Vec<String> = path.split('/').map(part).collect();
        let pair = format!("oauth2:{}", self.client.token().expose_secret());
        Ok(Remote {
            url: format!("{}{}.git", self.client.site(), path.join("/")),
            authorization: SecretString::from(format!("Basic {}", STANDARD.encode(pair))),
            ca_file: self.client.ca_file().map(Path::to_path_buf),
            timeout: 2 * self.client.timeout(),
        })
    }
}

/// An empty repository in a folder of its own, which goes with it.
struct Workshop {
    git: Git,
    folder: PathBuf,
}

impl Workshop {
    fn new() -> Result<Self, ForgeError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("slicewright-{}-{n}.git", std::process::id()));
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&folder).map_err(|cause| ForgeError::Failed {
            what: format!("cannot make the folder `{}`", folder.display()),
            cause: Some(Box::new(cause)),
        })?;
        match Git::init(&folder, "main") {
            Ok(git) => Ok(Self { git, folder }),
            Err(error) => {
                drop(std::fs::remove_dir_all(&folder));
                Err(error)
            }
        }
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        // Best effort: what is left is in the folder for temporary files.
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// Whether a pattern of GitLab's, in which `*` stands for anything, names a branch.
pub(super) fn matches(pattern: &str, branch: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == branch };
    let Some(mut left) = branch.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_names_branches_as_gitlabs_does() {
        for (pattern, branch, named) in [
            ("main", "main", true),
            ("main", "main2", false),
            ("*", "slicewright/x", true),
            ("slice*", "slicewright/x", true),
            ("*/x", "slicewright/x", true),
            ("s*/*x", "slicewright/x", true),
            ("s*y*", "slicewright/x", false),
            ("release-*", "slicewright/x", false),
        ] {
            assert_eq!(matches(pattern, branch), named, "{pattern} {branch}");
        }
    }
}
