//! Commits and branches: one commit on its base, and the branch moved to it only if nobody else moved it.

use std::sync::atomic::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::{Value, json};

use super::GitHub;
use super::address::parts;
use super::client::{GraphQl, way_out};
use super::dto::{Object, Rule, Tree};
use crate::forge::content::writable;
use crate::forge::remote::archive::object_id;
use crate::forge::remote::http::part;
use crate::forge::{Commit, ForgeError};

/// Most entries of a tree in one request. More have been seen to time out.
const MOST_ENTRIES: usize = 100;

const UPDATE_REFS: &str =
    "mutation($input: UpdateRefsInput!) { updateRefs(input: $input) { clientMutationId } }";

impl GitHub {
    pub(super) async fn published(
        &self,
        branch: &str,
        expected_head: Option<&str>,
        commit: &Commit,
    ) -> Result<String, ForgeError> {
        self.check_own(branch).await?;
        let name = self.repository().await?.name.clone();
        if self.branch_head(branch).await?.as_deref() != expected_head {
            return Err(ForgeError::Conflict { what: format!("`{branch}` of {name}") });
        }
        let base = self.listed(&commit.base).await?;
        let mut entries = Vec::new();
        for (path, content) in &commit.files {
            let mode = writable(path, &base.entries)?;
            let there = base.entries.get(path);
            match content {
                None if there.is_none() => {}
                None => entries.push(json!({"path": path, "mode": mode, "type": "blob", "sha": null})),
                Some(content) => {
                    let same = there.is_some_and(|entry| object_id(content, entry.id.len()) == entry.id);
                    if !same {
                        entries.push(self.entry(path, &mode, content).await?);
                    }
                }
            }
        }
        if entries.is_empty() {
            let what = format!("the commit for `{branch}` of {name} changes nothing");
            return Err(ForgeError::Failed { what, cause: None });
        }
        let tree = self.written_tree(&base.tree, &entries).await?;
        // GitHub puts its own time down for an App, so that the same commit would come out as another one.
        if let Some(head) = expected_head
            && self.is_wanted(head, commit, &tree).await?
        {
            return Ok(head.to_owned());
        }
        let id = self.written_commit(commit, &tree).await?;
        self.unfinished.note(branch, &id);
        let moved = self.move_branch(branch, expected_head, Some(&id)).await;
        if let Err(error) = moved {
            // Without an answer it may still come to be.
            if !matches!(error, ForgeError::Unanswered { .. }) {
                self.unfinished.forget(branch);
            }
            return Err(error);
        }
        Ok(id)
    }

    /// Whether the commit `id` is the wanted one, whenever it was made.
    async fn is_wanted(&self, id: &str, commit: &Commit, tree: &str) -> Result<bool, ForgeError> {
        let there = self.git_commit(id).await?;
        let parents: Vec<_> = there.parents.iter().map(|parent| parent.sha.as_str()).collect();
        Ok(there.tree.sha == tree
            && parents == [commit.base.as_str()]
            && there.message.trim_end() == commit.message.trim_end())
    }

    /// An entry of a tree: with the text in it, or by the id of a blob that is written first.
    async fn entry(&self, path: &str, mode: &str, content: &[u8]) -> Result<Value, ForgeError> {
        if let Ok(text) = std::str::from_utf8(content) {
            return Ok(json!({"path": path, "mode": mode, "type": "blob", "content": text}));
        }
        let body = json!({"content": STANDARD.encode(content), "encoding": "base64"});
        let blob: Object = self.made(&format!("writing `{path}`"), "/git/blobs", &body).await?;
        Ok(json!({"path": path, "mode": mode, "type": "blob", "sha": blob.sha}))
    }

    async fn written_tree(&self, base: &str, entries: &[Value]) -> Result<String, ForgeError> {
        let mut tree = base.to_owned();
        for some in entries.chunks(MOST_ENTRIES) {
            let body = json!({"base_tree": tree, "tree": some});
            tree = self.made::<Tree>("writing a tree", "/git/trees", &body).await?.sha;
        }
        Ok(tree)
    }

    async fn written_commit(&self, commit: &Commit, tree: &str) -> Result<String, ForgeError> {
        let mut body = json!({"message": commit.message, "tree": tree, "parents": [commit.base]});
        // GitHub signs what an App or a workflow says nothing of. For others the author is the configured one, at the
        // base's own time.
        if !self.who().await?.is_app {
            let date = self.git_commit(&commit.base).await?.committer.date;
            let (name, email) = (&self.target.author_name, &self.target.author_email);
            body["author"] = json!({"name": name, "email": email, "date": date});
        }
        Ok(self.made::<Object>("writing a commit", "/git/commits", &body).await?.sha)
    }

    /// Writes an object, which nothing refers to yet.
    async fn made<T: serde::de::DeserializeOwned>(
        &self,
        what: &str,
        rest: &str,
        body: &Value,
    ) -> Result<T, ForgeError> {
        let repository = self.repository().await?;
        let what = format!("{what} in {}", repository.name);
        self.client.write(&what, Method::POST, &repository.path(rest), Some(body)).await?.json(&what)
    }

    /// Moves a branch from `before` to `after` (`None`: not there), if it is at `before`.
    pub(super) async fn move_branch(
        &self,
        branch: &str,
        before: Option<&str>,
        after: Option<&str>,
    ) -> Result<(), ForgeError> {
        if self.refs_by_rest.load(Ordering::Relaxed) {
            return self.move_by_rest(branch, before, after).await;
        }
        let repository = self.repository().await?;
        let what = format!("moving `{branch}` of {}", repository.name);
        let zero = "0".repeat(before.or(after).map_or(40, str::len));
        let update = json!({
            "name": format!("refs/heads/{branch}"),
            "beforeOid": before.unwrap_or(&zero),
            "afterOid": after.unwrap_or(&zero),
            "force": true,
        });
        let input = json!({"repositoryId": repository.node_id, "refUpdates": [update]});
        let said = match self.client.graphql(&what, UPDATE_REFS, json!({"input": input})).await {
            Ok(GraphQl::Data(_)) => return Ok(()),
            Ok(GraphQl::Unknown) => {
                tracing::info!(
                    "{}: no `updateRefs` in GraphQL here, branches are moved by REST",
                    repository.name
                );
                self.refs_by_rest.store(true, Ordering::Relaxed);
                return self.move_by_rest(branch, before, after).await;
            }
            Ok(GraphQl::Refused(errors)) => {
                let said: Vec<_> = errors.into_iter().map(|error| error.message).collect();
                Err(said.join("; "))
            }
            Err(error @ ForgeError::Unanswered { .. }) => Ok(error),
            Err(error) => return Err(error),
        };
        // A branch that moved is refused in the same words as anything else, and a lost answer says nothing: only the
        // branch itself tells what became of it.
        match (self.branch_head(branch).await?.as_deref(), said) {
            (now, _) if now == after => Ok(()),
            (now, _) if now != before => {
                Err(ForgeError::Conflict { what: format!("`{branch}` of {}", repository.name) })
            }
            (_, Ok(unanswered)) => Err(unanswered),
            (_, Err(said)) => Err(self.why_not(branch, before, after, &said).await),
        }
    }

    /// The same without a condition on the server: the branch is looked at right before and right after.
    async fn move_by_rest(
        &self,
        branch: &str,
        before: Option<&str>,
        after: Option<&str>,
    ) -> Result<(), ForgeError> {
        let repository = self.repository().await?;
        let what = format!("moving `{branch}` of {}", repository.name);
        let conflict = || ForgeError::Conflict { what: format!("`{branch}` of {}", repository.name) };
        if self.branch_head(branch).await?.as_deref() != before {
            return Err(conflict());
        }
        let one = repository.path(&format!("/git/refs/heads/{}", parts(branch)));
        let written = match (before, after) {
            (_, None) => self.client.write(&what, Method::DELETE, &one, None).await,
            (Some(_), Some(after)) => {
                let body = json!({"sha": after, "force": true});
                self.client.write(&what, Method::PATCH, &one, Some(&body)).await
            }
            (None, Some(after)) => {
                let body = json!({"ref": format!("refs/heads/{branch}"), "sha": after});
                self.client.write(&what, Method::POST, &repository.path("/git/refs"), Some(&body)).await
            }
        };
        let now = self.branch_head(branch).await?;
        match written {
            _ if now.as_deref() == after => Ok(()),
            Ok(_) => Err(conflict()),
            Err(_) if now.as_deref() != before => Err(conflict()),
            // A rule may be told by 409 too; the branch itself says that nobody moved it.
            Err(ForgeError::Failed { what, .. } | ForgeError::Conflict { what }) => {
                Err(self.why_not(branch, before, after, &what).await)
            }
            Err(error) => Err(error),
        }
    }

    /// Why a branch that stands where it was expected could not be moved: what GitHub said, and the rules that it has.
    async fn why_not(
        &self,
        branch: &str,
        before: Option<&str>,
        after: Option<&str>,
        said: &str,
    ) -> ForgeError {
        let name = self.target.repository.as_str();
        let what = format!("moving `{branch}` of {name} was refused ({said})");
        if let Some(way_out) = way_out(said) {
            return ForgeError::Blocked { what: format!("{what}: {way_out}") };
        }
        let rules = self.rules(branch).await.unwrap_or_default();
        let hinders = |kind: &str| match kind {
            "update" | "pull_request" | "required_signatures" | "merge_queue" => true,
            "creation" => before.is_none(),
            "deletion" => after.is_none(),
            "non_fast_forward" => before.is_some() && after.is_some(),
            _ => false,
        };
        let rules: Vec<String> = rules
            .into_iter()
            .filter(|rule| hinders(&rule.kind))
            .map(|rule| format!("`{}`", rule.kind))
            .collect();
        if rules.is_empty() && !said.to_lowercase().contains("protected") {
            return ForgeError::Failed { what, cause: None };
        }
        let which = match rules.is_empty() {
            true => "a branch protection rule".to_owned(),
            false => format!("a rule of type {}", rules.join(", ")),
        };
        let prefix = &self.target.branch_prefix;
        let way_out = format!(
            "{which} keeps the bot from its own branches: let it bypass that (Settings → Rules, or Branches), or choose \
             another `branch_prefix` than `{prefix}`"
        );
        ForgeError::Blocked { what: format!("{what}: {way_out}") }
    }

    pub(super) async fn rules(&self, branch: &str) -> Result<Vec<Rule>, ForgeError> {
        let repository = self.repository().await?;
        let what = format!("reading the rules for `{branch}` of {}", repository.name);
        self.client.list(&what, &repository.path(&format!("/rules/branches/{}", part(branch)))).await
    }
}
