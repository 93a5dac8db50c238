//! The repository and its objects: what it is, where its branches stand, trees, files, comparisons.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;

use super::GitHub;
use super::address::parts;
use super::client::has_next;
use super::dto::{self, Comparison, GitCommit, Reference};
use crate::forge::content::{Entry, Listing, sort_out, wanted};
use crate::forge::remote::contents::{self, Blobs, Source};
use crate::forge::remote::http::{Answer, part};
use crate::forge::remote::look::{BranchCommit, History};
use crate::forge::{ForgeError, Tree, branch};

/// Most pages of a comparison's commits: 10,000 of them.
const MOST_PAGES: usize = 100;

/// The repository as it was when it was first looked at.
pub(super) struct Repository {
    /// Its number.
    pub(super) id: u64,
    /// As GitHub writes it today: `acme/infra`.
    pub(super) name: String,
    /// Its id in GraphQL.
    pub(super) node_id: String,
    /// Branch that proposals are for.
    pub(super) base_branch: String,
}

impl Repository {
    /// `/repos/acme/infra` and what comes after.
    pub(super) fn path(&self, rest: &str) -> String {
        format!("/repos/{}{rest}", parts(&self.name))
    }

    /// Before the slash.
    pub(super) fn owner(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }
}

/// The entries of a commit's tree, and the tree's own id.
pub(super) struct Listed {
    pub(super) tree: String,
    pub(super) entries: Arc<Listing>,
}

/// A commit against another one.
pub(super) struct Compared {
    /// Their merge base.
    pub(super) base: String,
    /// Commits that the other one lacks, oldest first.
    pub(super) commits: Vec<dto::ComparedCommit>,
}

impl GitHub {
    /// The repository, looked at once.
    pub(super) async fn repository(&self) -> Result<&Repository, ForgeError> {
        self.repository.get_or_try_init(|| self.look()).await
    }

    /// What GitHub says of the repository, with the headers.
    pub(super) async fn described(&self) -> Result<(dto::Repository, Answer), ForgeError> {
        let configured = &self.target.repository;
        let what = format!("looking at the repository {configured} on {}", self.client.addresses.host);
        let (answer, moved) =
            match self.client.get_followed(&what, &format!("/repos/{}", parts(configured))).await {
                Err(ForgeError::NotFound { what }) => {
                    let what = format!("{what}: either there is none, or the bot's account may not see it:");
                    return Err(ForgeError::NotFound { what });
                }
                answer => answer?,
            };
        let found: dto::Repository = answer.json(&what)?;
        if moved || !found.full_name.eq_ignore_ascii_case(configured) {
            tracing::warn!(
                configured,
                now = found.full_name,
                "the repository was renamed: change the configuration"
            );
        }
        Ok((found, answer))
    }

    async fn look(&self) -> Result<Repository, ForgeError> {
        let (found, _) = self.described().await?;
        if let Some(what) = self.obstacle(&found).await? {
            return Err(ForgeError::Blocked { what });
        }
        let (id, name, node_id) = (found.id, found.full_name, found.node_id);
        let base_branch = self.target.default_branch.clone().or(found.default_branch).unwrap_or_default();
        Ok(Repository { id, name, node_id, base_branch })
    }

    /// Why no proposal can be made here, and the way out.
    pub(super) async fn obstacle(&self, found: &dto::Repository) -> Result<Option<String>, ForgeError> {
        let name = &found.full_name;
        if found.archived {
            return Ok(Some(format!(
                "{name} is archived: unarchive it (Settings → General → Danger zone), or take it out of the configuration"
            )));
        }
        if found.disabled {
            return Ok(Some(format!(
                "{name} is disabled: GitHub or its administrators took it out of use; ask them"
            )));
        }
        if found.has_pull_requests == Some(false) {
            return Ok(Some(format!(
                "{name} has pull requests switched off: switch them on (Settings → General → Features)"
            )));
        }
        // For an App nothing is said here; what it lacks was told with its installation, or is told by the first write.
        let may_write = found.permissions.is_none_or(|permissions| permissions.push);
        if !may_write && !self.who().await?.is_app {
            let login = &self.who().await?.login;
            return Ok(Some(format!(
                "{login} may not write to {name}: give it the role *Write* (Settings → Collaborators and teams), \
                 and a fine-grained token *Contents* and *Pull requests* with write access"
            )));
        }
        let base_branch = self.target.default_branch.as_ref().or(found.default_branch.as_ref());
        Ok(base_branch
            .is_none_or(String::is_empty)
            .then(|| format!("{name} has no default branch: push a first commit, or set `default_branch`")))
    }

    /// Where a branch stands; `None` if there is none.
    pub(super) async fn branch_head(&self, branch: &str) -> Result<Option<String>, ForgeError> {
        let repository = self.repository().await?;
        let what = format!("reading branch `{branch}` of {}", repository.name);
        let path = repository.path(&format!("/git/ref/heads/{}", parts(branch)));
        match self.client.get(&what, &path).await {
            Ok(answer) => Ok(Some(answer.json::<Reference>(&what)?.object.sha)),
            Err(ForgeError::NotFound { .. }) => Ok(None),
            Err(ForgeError::Conflict { what }) => Err(ForgeError::Blocked {
                what: format!("{what}: the repository is empty: push a first commit"),
            }),
            Err(error) => Err(error),
        }
    }

    /// Every branch that is the bot's to write.
    pub(super) async fn own_branches(&self) -> Result<BTreeSet<String>, ForgeError> {
        let repository = self.repository().await?;
        let prefix = &self.target.branch_prefix;
        let what = format!("listing the branches of {} below `{prefix}/`", repository.name);
        // What only starts alike is listed too.
        let path = repository.path(&format!("/git/matching-refs/heads/{}", parts(prefix)));
        let mut own = BTreeSet::new();
        for page in 1..=MOST_PAGES {
            // It takes no size of a page, and is said to have several.
            let at = if page == 1 { path.clone() } else { format!("{path}?page={page}") };
            let answer = self.client.get(&what, &at).await?;
            let names = answer.json::<Vec<Reference>>(&what)?.into_iter().filter_map(|reference| {
                let name = reference.name.strip_prefix("refs/heads/")?.to_owned();
                branch::own(name, prefix, &repository.base_branch)
            });
            own.extend(names);
            if !has_next(&answer) {
                return Ok(own);
            }
        }
        Err(ForgeError::Failed { what: format!("{what}: the list has no end"), cause: None })
    }

    /// Where the default branch stands.
    pub(super) async fn base_head(&self) -> Result<String, ForgeError> {
        let repository = self.repository().await?;
        let branch = &repository.base_branch;
        self.branch_head(branch).await?.ok_or_else(|| ForgeError::NotFound {
            what: format!("a commit on branch `{branch}` of {}", repository.name),
        })
    }

    /// Every entry of a commit's tree.
    pub(super) async fn listed(&self, commit: &str) -> Result<Arc<Listed>, ForgeError> {
        if let Some(known) = self.listings.get(commit) {
            return Ok(known);
        }
        let top = self.tree(commit, true).await?;
        let tree = top.sha.clone();
        let mut entries = Listing::new();
        let mut open = vec![(String::new(), top)];
        while let Some((prefix, read)) = open.pop() {
            // A list that was cut off is begun anew, folder by folder.
            let whole = match read.truncated {
                false => read,
                true => {
                    let plain = self.tree(&read.sha, false).await?;
                    if plain.truncated {
                        let name = &self.target.repository;
                        let what =
                            format!("{name}: the folder `{prefix}` has more entries than GitHub lists");
                        return Err(ForgeError::Failed { what, cause: None });
                    }
                    for folder in plain.tree.iter().filter(|entry| entry.mode == "040000") {
                        let inner = self.tree(&folder.sha, true).await?;
                        open.push((format!("{prefix}{}/", folder.path), inner));
                    }
                    plain
                }
            };
            for dto::TreeEntry { path, mode, sha, size } in whole.tree {
                entries.insert(format!("{prefix}{path}"), Entry { mode, id: sha, size });
            }
        }
        let weight = entries.len();
        Ok(self.listings.put(commit, Listed { tree, entries: Arc::new(entries) }, weight))
    }

    async fn tree(&self, id: &str, recursive: bool) -> Result<dto::Tree, ForgeError> {
        let repository = self.repository().await?;
        let what = format!("listing the files of {} at {id}", repository.name);
        let query = if recursive { "?recursive=1" } else { "" };
        let path = repository.path(&format!("/git/trees/{}{query}", part(id)));
        self.client.get_fixed(&what, &path).await?.json(&what)
    }

    /// Every file at `commit`.
    pub(super) async fn whole_tree(&self, commit: &str) -> Result<Tree, ForgeError> {
        let listed = self.listed(commit).await?;
        let mut tree = Tree { commit: commit.to_owned(), ..Tree::default() };
        let ids = wanted(Listing::clone(&listed.entries), &mut tree);
        let contents = contents::read(self, &self.target.repository, commit, &ids).await?;
        tree.files = contents.into_iter().map(|(path, content)| (path, content.to_vec())).collect();
        sort_out(&mut tree);
        Ok(tree)
    }

    /// `head` against `main`; `None` when they have no commit in common, or `head` is not there.
    pub(super) async fn compared(&self, main: &str, head: &str) -> Result<Option<Arc<Compared>>, ForgeError> {
        let key = format!("{main}...{head}");
        if let Some(known) = self.comparisons.get(&key) {
            return Ok(Some(known));
        }
        let repository = self.repository().await?;
        let what = format!("comparing {key} of {}", repository.name);
        let mut commits: Vec<dto::ComparedCommit> = Vec::new();
        for page in 1..=MOST_PAGES {
            let range = format!("{}...{}", part(main), part(head));
            let path = repository.path(&format!("/compare/{range}?per_page=100&page={page}"));
            let answer = match self.client.get_fixed(&what, &path).await {
                Err(ForgeError::NotFound { .. }) => return Ok(None),
                answer => answer?,
            };
            let read: Comparison = answer.json(&what)?;
            let n_read = read.commits.len();
            commits.extend(read.commits);
            if commits.len() >= read.total_commits {
                let weight = commits.len() + 1;
                let compared = Compared { base: read.merge_base_commit.sha, commits };
                return Ok(Some(self.comparisons.put(&key, compared, weight)));
            }
            if n_read == 0 {
                break;
            }
        }
        let what = format!("{what}: {} commits came, and more are said to be there", commits.len());
        Err(ForgeError::Failed { what, cause: None })
    }

    /// One commit, as git has it.
    pub(super) async fn git_commit(&self, id: &str) -> Result<GitCommit, ForgeError> {
        let repository = self.repository().await?;
        let what = format!("reading commit {id} of {}", repository.name);
        let path = repository.path(&format!("/git/commits/{}", part(id)));
        self.client.get_fixed(&what, &path).await?.json(&what)
    }
}

#[async_trait]
impl Source for GitHub {
    fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    async fn archive(&self, commit: &str) -> Result<Vec<u8>, ForgeError> {
        let repository = self.repository().await?;
        let what = format!("reading the archive of {} at {commit}", repository.name);
        self.client.download(&what, &repository.path(&format!("/tarball/{}", part(commit)))).await
    }

    async fn blob(&self, what: &str, id: &str) -> Result<Vec<u8>, ForgeError> {
        let at = self.repository().await?.path(&format!("/git/blobs/{}", part(id)));
        let blob: dto::Blob = self.client.get_fixed(what, &at).await?.json(what)?;
        blob.bytes().ok_or_else(|| ForgeError::Failed {
            what: format!("{what}: it is packed in a way that is not known"),
            cause: None,
        })
    }
}

#[async_trait]
impl History for GitHub {
    fn name(&self) -> &str {
        &self.target.repository
    }

    async fn listing(&self, commit: &str) -> Result<Arc<Listing>, ForgeError> {
        Ok(Arc::clone(&self.listed(commit).await?.entries))
    }

    async fn merge_base(&self, main: &str, commit: &str) -> Result<Option<String>, ForgeError> {
        Ok(self.compared(main, commit).await?.map(|compared| compared.base.clone()))
    }

    async fn commits_between(&self, main: &str, commit: &str) -> Result<Vec<BranchCommit>, ForgeError> {
        let compared = self.compared(main, commit).await?;
        let email = |person: &Option<dto::Person>| {
            person.as_ref().and_then(|person| person.email.clone()).unwrap_or_default()
        };
        let commits = compared.iter().flat_map(|compared| &compared.commits).map(|one| BranchCommit {
            id: one.sha.clone(),
            parents: one.parents.iter().map(|parent| parent.sha.clone()).collect(),
            emails: [email(&one.commit.author), email(&one.commit.committer)],
        });
        Ok(commits.collect())
    }
}
