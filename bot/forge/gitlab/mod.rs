//! GitLab: merge requests over the REST API, and git itself where a branch must not be moved under somebody's feet.
//!
//! `endpoints` what is asked, `client` how, `dto` what comes back; `read` files, commits and branches, `find` what is
//! there of a proposal, `publish` the branch, `request` the merge request, `note` comments.

mod endpoints;

mod client;

mod dto;

mod read;

mod find;

mod publish;

mod request;

mod note;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use tokio::sync::OnceCell;

use super::content::{LARGEST_TREE, Listing};
use super::remote::kept::Kept;
use super::settings::Settings;
use super::{Commit, Forge, ForgeError, Found, Identity, RequestText, Target, Topic, Tree};
use client::Client;

/// Entries of trees that are kept: some three trees of a repository of 100,000 files.
const MOST_ENTRIES: usize = 300_000;

/// Commits and merge bases that are kept.
const MOST_COMMITS: usize = 10_000;

/// One repository on GitLab.
pub(super) struct GitLab {
    client: Client,
    target: Target,
    former_logins: Vec<String>,
    former_emails: Vec<String>,
    project: OnceCell<dto::Project>,
    account: OnceCell<dto::User>,
    /// Patterns of protected branches, as far as the account may see them.
    protected: OnceCell<Vec<String>>,
    listings: Kept<Listing>,
    blobs: Kept<Vec<u8>>,
    commits: Kept<Vec<dto::Commit>>,
    /// Heads that were published and whose text was not written since, by branch.
    unfinished: Mutex<BTreeMap<String, String>>,
    /// One write at a time, as GitLab asks.
    writing: tokio::sync::Mutex<()>,
}

impl GitLab {
    pub(super) fn new(settings: &Settings, target: Target) -> Result<Self, ForgeError> {
        for (what, value) in [("name", &target.author_name), ("e-mail", &target.author_email)] {
            if value.trim().is_empty() || value.contains(['<', '>', '\n', '\0']) {
                return Err(ForgeError::Denied {
                    what: format!("the author {what} `{}`", value.escape_debug()),
                });
            }
        }
        Ok(Self {
            client: Client::new(settings)?,
            target,
            former_logins: settings.former_logins.clone(),
            former_emails: settings.former_emails.clone(),
            project: OnceCell::new(),
            account: OnceCell::new(),
            protected: OnceCell::new(),
            listings: Kept::new(MOST_ENTRIES),
            blobs: Kept::new(usize::try_from(LARGEST_TREE).unwrap_or(usize::MAX)),
            commits: Kept::new(MOST_COMMITS),
            unfinished: Mutex::new(BTreeMap::new()),
            writing: tokio::sync::Mutex::new(()),
        })
    }

    /// `branch main of acme/infra`, for messages.
    fn on(&self, what: &str) -> String {
        format!("{what} of {}", self.target.repository)
    }

    fn note_unfinished(&self, branch: &str, head: &str) {
        let mut unfinished = self.unfinished.lock().unwrap_or_else(PoisonError::into_inner);
        unfinished.insert(branch.to_owned(), head.to_owned());
    }

    fn note_finished(&self, branch: &str) {
        self.unfinished.lock().unwrap_or_else(PoisonError::into_inner).remove(branch);
    }

    /// The account of the token; asked once.
    async fn account(&self) -> Result<&dto::User, ForgeError> {
        let ask =
            async || self.client.get("reading the account of the token", &endpoints::current_user()?).await;
        self.account.get_or_try_init(ask).await
    }

    async fn is_bot(&self, user: &dto::User) -> Result<bool, ForgeError> {
        let former = self.former_logins.iter().any(|login| login.eq_ignore_ascii_case(&user.username));
        Ok(former || user.id == self.account().await?.id)
    }

    /// The branch name, if it is one that the bot may write.
    async fn own(&self, branch: &str) -> Result<(), ForgeError> {
        let prefix = &self.target.branch_prefix;
        let ours = branch.strip_prefix(prefix.as_str()).is_some_and(|rest| rest.starts_with('/'));
        if !ours || prefix.is_empty() {
            let what = format!("writing `{}`, which is not below `{prefix}/`,", branch.escape_debug());
            return Err(ForgeError::Denied { what });
        }
        check_branch(branch)?;
        if self.base_branch().await? == branch {
            return Err(ForgeError::Denied { what: format!("writing `{branch}`, the default branch,") });
        }
        Ok(())
    }
}

/// Refuses what git takes for something else than a branch (see `git check-ref-format`).
fn check_branch(name: &str) -> Result<(), ForgeError> {
    let bad_part = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
    let bad_char = |c: char| c.is_control() || c == ' ' || "~^:?*[\\".contains(c);
    if name.starts_with('-')
        || name.ends_with('.')
        || name.contains("..")
        || name.contains("@{")
        || name.contains(bad_char)
        || name.split('/').any(bad_part)
    {
        return Err(ForgeError::Denied { what: format!("the branch name `{}`", name.escape_debug()) });
    }
    Ok(())
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

    async fn find(&self, branch: &str) -> Result<Found, ForgeError> {
        self.proposal(branch).await
    }

    async fn publish(
        &self,
        branch: &str,
        expected_head: Option<&str>,
        commit: &Commit,
    ) -> Result<String, ForgeError> {
        let _one = self.writing.lock().await;
        self.own(branch).await?;
        let head = self.write_branch(branch, expected_head, commit).await?;
        self.note_unfinished(branch, &head);
        Ok(head)
    }

    async fn write_request(
        &self,
        branch: &str,
        open: Option<&str>,
        request: &RequestText,
    ) -> Result<String, ForgeError> {
        let _one = self.writing.lock().await;
        self.own(branch).await?;
        let url = self.write_merge_request(branch, open, request).await?;
        self.note_finished(branch);
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
        self.own(branch).await?;
        let head = self.branch(branch).await?.map(|there| there.commit.id);
        if expected_head.is_some() && head.is_some() && head.as_deref() != expected_head {
            return Err(ForgeError::Conflict { what: self.on(&format!("`{branch}`")) });
        }
        if let Some(id) = id {
            self.close_merge_request(id, title, body).await?;
        }
        self.note_finished(branch);
        match (expected_head, head) {
            (Some(expected), Some(_)) => self.delete_branch(branch, expected).await,
            _ => Ok(()),
        }
    }

    async fn say(&self, _branch: &str, id: &str, topic: Topic, text: Option<&str>) -> Result<(), ForgeError> {
        let _one = self.writing.lock().await;
        self.write_note(id, topic, text).await
    }

    async fn hush(&self, _branch: &str, id: &str, topics: &[Topic]) -> Result<(), ForgeError> {
        let _one = self.writing.lock().await;
        self.unsaid(id, topics).await
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_name_is_one_to_git_as_well() {
        for name in ["slicewright/dc1/a100", "main", "a.b/c-d_e"] {
            assert!(check_branch(name).is_ok(), "{name}");
        }
        for name in
            ["-x", "a//b", "a/", "a..b", "a b", "a~1", "a:b", "a/.b", "a/b.lock", "a@{1}", "a\n", "x."]
        {
            assert!(check_branch(name).is_err(), "{name}");
        }
    }
}
