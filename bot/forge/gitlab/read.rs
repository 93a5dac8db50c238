//! The project, its branches, its commits and its files.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;

use super::{GitLab, dto, endpoints};
use crate::forge::content::{self, Entry, Listing};
use crate::forge::remote::contents::{self, Blobs, Source};
use crate::forge::remote::look::{BranchCommit, History, is_id};
use crate::forge::{Forge as _, ForgeError, Tree, branch};

/// Access level of a developer, the lowest that may push and open merge requests.
const DEVELOPER: u32 = 30;

impl GitLab {
    /// The project; looked at once. It is renamed, archived or empty for longer than a run takes.
    pub(super) async fn project(&self) -> Result<&dto::Project, ForgeError> {
        self.project
            .get_or_try_init(async || {
                let path = &self.target.repository;
                let project = self.described().await?;
                if !project.path_with_namespace.eq_ignore_ascii_case(path) {
                    tracing::warn!(
                        "project {path} is called {} now: change `repository`",
                        project.path_with_namespace
                    );
                }
                match obstacle(&project) {
                    None => Ok(project),
                    Some(why) => Err(ForgeError::Blocked { what: format!("project {path} {why}") }),
                }
            })
            .await
    }

    /// What GitLab says of the project, whatever stands in the way.
    pub(super) async fn described(&self) -> Result<dto::Project, ForgeError> {
        let path = &self.target.repository;
        let what = format!("reading project {path}");
        let found: Option<dto::Project> = self.client.find(&what, &endpoints::project(path)?).await?;
        found.ok_or_else(|| ForgeError::NotFound {
            what: format!("project {path} (or the account of the token is no member of it)"),
        })
    }

    /// A branch with its head, if it is there.
    pub(super) async fn branch(&self, name: &str) -> Result<Option<dto::Branch>, ForgeError> {
        let project = self.project().await?.id;
        let what = self.on(&format!("reading branch `{name}`"));
        self.client.find(&what, &endpoints::branch(project, name)?).await
    }

    /// Every branch that is the bot's to write.
    pub(super) async fn own_branches(&self) -> Result<BTreeSet<String>, ForgeError> {
        let (project, base) = (self.project().await?.id, self.base_branch().await?);
        let prefix = &self.target.branch_prefix;
        let what = self.on(&format!("listing the branches below `{prefix}/`"));
        let found: Vec<dto::Branch> =
            self.client.list(&what, &endpoints::branches_below(project, prefix)?).await?;
        Ok(found.into_iter().filter_map(|found| branch::own(found.name, prefix, &base)).collect())
    }

    /// One commit, if it is there.
    pub(super) async fn commit(&self, id: &str) -> Result<Option<Arc<Vec<dto::Commit>>>, ForgeError> {
        if let Some(known) = self.commits.get(id) {
            return Ok(Some(known));
        }
        let project = self.project().await?.id;
        let what = self.on(&format!("reading commit {id}"));
        let found: Option<dto::Commit> = self.client.find(&what, &endpoints::commit(project, id)?).await?;
        Ok(found.map(|commit| self.commits.put(id, vec![commit], 1)))
    }

    /// Commits of `to` that `from` does not have, oldest first. Both are ids, so that the answer never changes.
    async fn commits_of(&self, from: &str, to: &str) -> Result<Arc<Vec<dto::Commit>>, ForgeError> {
        let key = format!("{from}..{to}");
        if let Some(known) = self.commits.get(&key) {
            return Ok(known);
        }
        let project = self.project().await?.id;
        let what = self.on(&format!("reading the commits {key}"));
        let mut commits: Vec<dto::Commit> =
            self.client.list(&what, &endpoints::commits(project, from, to)?).await?;
        commits.reverse();
        let weight = commits.len() + 1;
        Ok(self.commits.put(&key, commits, weight))
    }

    /// The best common ancestor of two commits; `None` when there is none, or one of them is not there.
    async fn best_ancestor(&self, a: &str, b: &str) -> Result<Option<String>, ForgeError> {
        if a == b {
            return Ok(Some(a.to_owned()));
        }
        let key = format!("{a}...{b}");
        let first = |known: &Arc<Vec<dto::Commit>>| known.first().map(|commit| commit.id.clone());
        if let Some(known) = self.commits.get(&key) {
            return Ok(first(&known));
        }
        let project = self.project().await?.id;
        let what = self.on(&format!("reading the merge base of {a} and {b}"));
        let found: Option<dto::Commit> =
            self.client.find(&what, &endpoints::merge_base(project, a, b)).await?;
        Ok(found.and_then(|commit| first(&self.commits.put(&key, vec![commit], 1))))
    }

    /// Every entry of a commit's tree.
    pub(super) async fn listed(&self, commit: &str) -> Result<Arc<Listing>, ForgeError> {
        if let Some(known) = self.listings.get(commit) {
            return Ok(known);
        }
        let project = self.project().await?.id;
        let what = self.on(&format!("listing the files at {commit}"));
        let items: Vec<dto::Item> = self.client.list(&what, &endpoints::tree(project, commit)).await?;
        let entry = |item: dto::Item| (item.path, Entry { mode: item.mode, id: item.id, size: None });
        let listing: Listing = items.into_iter().map(entry).collect();
        let weight = listing.len() + 1;
        Ok(self.listings.put(commit, listing, weight))
    }

    /// Every file at a commit that can be read as text of ours, and what was left out.
    pub(super) async fn tree(&self, commit: &str) -> Result<Tree, ForgeError> {
        if !is_id(commit) || self.commit(commit).await?.is_none() {
            let what = self.on(&format!("commit `{}`", commit.escape_debug()));
            return Err(ForgeError::NotFound { what });
        }
        let mut tree = Tree { commit: commit.to_owned(), ..Tree::default() };
        let listing = self.listed(commit).await?;
        let wanted = content::wanted(Listing::clone(&listing), &mut tree);
        let contents = contents::read(self, &self.target.repository, commit, &wanted).await?;
        tree.files = contents.into_iter().map(|(path, content)| (path, content.to_vec())).collect();
        content::sort_out(&mut tree);
        Ok(tree)
    }
}

#[async_trait]
impl Source for GitLab {
    fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    async fn archive(&self, commit: &str) -> Result<Vec<u8>, ForgeError> {
        let project = self.project().await?.id;
        let what = self.on(&format!("reading the archive of {commit}"));
        Ok(self.client.read(&what, &endpoints::archive(project, commit)?).await?.body)
    }

    async fn blob(&self, what: &str, id: &str) -> Result<Vec<u8>, ForgeError> {
        let project = self.project().await?.id;
        Ok(self.client.read(what, &endpoints::blob(project, id)).await?.body)
    }
}

#[async_trait]
impl History for GitLab {
    fn name(&self) -> &str {
        &self.target.repository
    }

    async fn listing(&self, commit: &str) -> Result<Arc<Listing>, ForgeError> {
        self.listed(commit).await
    }

    async fn merge_base(&self, main: &str, commit: &str) -> Result<Option<String>, ForgeError> {
        // GitLab calls a commit that is not there a bad request, as it does much else.
        match self.commit(commit).await? {
            Some(_) => self.best_ancestor(main, commit).await,
            None => Ok(None),
        }
    }

    async fn commits_between(&self, main: &str, commit: &str) -> Result<Vec<BranchCommit>, ForgeError> {
        let commits = self.commits_of(main, commit).await?;
        let commit = |one: &dto::Commit| BranchCommit {
            id: one.id.clone(),
            parents: one.parent_ids.clone(),
            emails: [one.author_email.clone(), one.committer_email.clone()],
        };
        Ok(commits.iter().map(commit).collect())
    }
}

/// Why no proposal can be made in a project, and the way out. What GitLab does not say is not in the way.
pub(super) fn obstacle(project: &dto::Project) -> Option<String> {
    let is = |level: &Option<String>, word: &str| level.as_deref() == Some(word);
    let no_requests = is(&project.merge_requests_access_level, "disabled")
        || (project.merge_requests_access_level.is_none() && project.merge_requests_enabled == Some(false));
    let permissions = &project.permissions;
    let level =
        permissions.project_access.iter().chain(&permissions.group_access).map(|one| one.access_level);
    if project.archived {
        return Some("is archived and cannot be written: unarchive it (Settings, General, Advanced), or take it out of the configuration".into());
    }
    if is(&project.repository_access_level, "disabled") {
        return Some("has its repository switched off: switch it on (Settings, General, Visibility)".into());
    }
    if project.empty_repo {
        return Some("has an empty repository: push a first commit".into());
    }
    if no_requests {
        return Some(
            "has merge requests switched off: switch them on (Settings, General, Visibility)".into(),
        );
    }
    // Without either, the access comes from elsewhere: an administrator, a group that the project is shared with.
    let level = level.max().filter(|level| *level < DEVELOPER)?;
    Some(format!("gives the account of the token access level {level}: make it a developer ({DEVELOPER})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(project: dto::Project) -> String {
        obstacle(&project).unwrap_or_else(|| "nothing".into())
    }

    #[test]
    fn what_stands_in_the_way_is_told_apart() {
        let fine = dto::Project::default();
        assert_eq!(why(fine.clone()), "nothing");
        assert!(why(dto::Project { archived: true, ..fine.clone() }).contains("is archived"));
        assert!(why(dto::Project { empty_repo: true, ..fine.clone() }).contains("push a first commit"));
        let level = |word: &str| Some(word.to_owned());
        let requests = dto::Project { merge_requests_access_level: level("disabled"), ..fine.clone() };
        assert!(why(requests).contains("merge requests switched off"));
        let requests = dto::Project { merge_requests_enabled: Some(false), ..fine.clone() };
        assert!(why(requests).contains("merge requests switched off"));
        let repository = dto::Project { repository_access_level: level("disabled"), ..fine.clone() };
        assert!(why(repository).contains("repository switched off"));
        let access = |project: u32, group: u32| {
            let permissions = dto::Permissions {
                project_access: Some(dto::Access { access_level: project }),
                group_access: Some(dto::Access { access_level: group }),
            };
            dto::Project { permissions, ..fine.clone() }
        };
        assert!(why(access(20, 10)).contains("access level 20"));
        assert_eq!(why(access(20, 30)), "nothing");
    }
}
