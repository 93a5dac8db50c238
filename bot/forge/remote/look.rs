//! What stands on a branch and what became of it, from commits and trees that are read by their ids.

use std::sync::Arc;

use async_trait::async_trait;

use super::compare::{Change, compare, merges_only};
use super::contents::{self, Source};
use crate::forge::content::{Listing, filled, ids, is_merged};
use crate::forge::{ForgeError, Found, FoundCommit};

/// A commit of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::forge) struct BranchCommit {
    /// Commit id.
    pub(in crate::forge) id: String,
    /// Ids of its parents.
    pub(in crate::forge) parents: Vec<String>,
    /// Author and committer e-mail.
    pub(in crate::forge) emails: [String; 2],
}

/// The history of a repository.
#[async_trait]
pub(in crate::forge) trait History: Source {
    /// The repository, for messages.
    fn name(&self) -> &str;

    /// Every entry of a commit's tree.
    async fn listing(&self, commit: &str) -> Result<Arc<Listing>, ForgeError>;

    /// The best common ancestor of a commit of the default branch and another one; `None` when there is none, or `commit`
    /// is not there.
    async fn merge_base(&self, main: &str, commit: &str) -> Result<Option<String>, ForgeError>;

    /// The commits of `commit` that `main` does not have, oldest first.
    async fn commits_between(&self, main: &str, commit: &str) -> Result<Vec<BranchCommit>, ForgeError>;
}

/// Adds to `found`, which knows the branch's head and its request, what stands on the branch and whether that is merged.
/// `main` is the head of the default branch; `noted` the head that the bot noted in the text.
///
/// # Errors
/// When the forge does not answer.
pub(in crate::forge) async fn look(
    history: &dyn History,
    main: &str,
    noted: Option<&str>,
    found: &mut Found,
) -> Result<(), ForgeError> {
    let head = found.branch_head.clone();
    if let Some(head) = &head {
        let Some((base, change)) = change_of(history, main, head).await? else {
            *found = std::mem::take(found).unrelated(head);
            return Ok(());
        };
        let own = history.commits_between(main, head).await?;
        for commit in &own {
            let merges_base = merges_base(history, commit, &own).await?;
            let (id, emails) = (commit.id.clone(), commit.emails.clone());
            let rebased =
                match (noted.filter(|noted| *noted != id), own.as_slice(), commit.parents.as_slice()) {
                    (Some(noted), [_], [_]) => is_same_change(history, main, noted, &change).await?,
                    _ => false,
                };
            found.commits.push(FoundCommit { id, emails, merges_base, rebased });
        }
        let contents = contents::read(history, history.name(), head, &ids(&change.files)).await?;
        found.changed =
            filled(change.files, |path| contents.get(path).map(|content| content.as_ref().clone()));
        found.stale = change.stale;
        found.merged |= is_merged(change.merged, &base, head, noted);
        found.base = Some(base);
    }
    // What a person added to it is not merged with it.
    let is_open_question = !found.merged && found.commits.is_empty();
    if let Some(noted) = noted.filter(|noted| is_open_question && head.as_deref() != Some(*noted)) {
        let change = change_of(history, main, noted).await?;
        found.merged =
            change.is_some_and(|(base, change)| is_merged(change.merged, &base, noted, Some(noted)));
    }
    Ok(())
}

/// Whether it is the whole id of an object.
pub(in crate::forge) fn is_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The merge base of a commit with the default branch, and what it changes since.
async fn change_of(
    history: &dyn History,
    main: &str,
    commit: &str,
) -> Result<Option<(String, Change)>, ForgeError> {
    let Some(base) = history.merge_base(main, commit).await? else { return Ok(None) };
    let [then, head, now] =
        [history.listing(&base).await?, history.listing(commit).await?, history.listing(main).await?];
    Ok(Some((base, compare(&then, &head, &now))))
}

/// Whether the commit that the bot left changes the same files to the same contents.
async fn is_same_change(
    history: &dyn History,
    main: &str,
    noted: &str,
    change: &Change,
) -> Result<bool, ForgeError> {
    let left = change_of(history, main, noted).await?;
    Ok(left.is_some_and(|(_, left)| !left.files.is_empty() && left.files == change.files))
}

/// Whether a commit only brings what the default branch has: its second parent is none of the branch's `own` commits, and
/// the result is what both sides say.
async fn merges_base(
    history: &dyn History,
    commit: &BranchCommit,
    own: &[BranchCommit],
) -> Result<bool, ForgeError> {
    let [ours, theirs] = commit.parents.as_slice() else { return Ok(false) };
    if own.iter().any(|one| one.id == *theirs) {
        return Ok(false);
    }
    let Some(base) = history.merge_base(theirs, ours).await? else { return Ok(false) };
    let listings = [
        history.listing(&base).await?,
        history.listing(ours).await?,
        history.listing(theirs).await?,
        history.listing(&commit.id).await?,
    ];
    let [base, ours, theirs, merge] = &listings;
    Ok(merges_only(base, ours, theirs, merge))
}
