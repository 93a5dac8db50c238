//! The bot's one comment about each topic, and its one answer to each question: found, written, and looked for when no
//! answer came.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::http::looked_for;
use crate::forge::{ForgeError, Topic};

/// A comment of the bot's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::forge) struct Comment {
    /// What the forge calls it. Later ones have higher numbers.
    pub(in crate::forge) id: u64,
    /// Text.
    pub(in crate::forge) body: String,
}

/// The comments on one merge request. Each write is sent once.
#[async_trait]
pub(in crate::forge) trait Comments: Sync {
    /// Those that the bot made.
    async fn own(&self) -> Result<Vec<Comment>, ForgeError>;

    /// Makes one.
    async fn make(&self, text: &str) -> Result<(), ForgeError>;

    /// Gives one another text.
    async fn edit(&self, id: u64, text: &str) -> Result<(), ForgeError>;

    /// Removes one.
    async fn delete(&self, id: u64) -> Result<(), ForgeError>;
}

/// What the bot has no comment about that it could take back, by merge request, as far as it knows: it looked, and made none
/// since. Looking again each time would be one request more for every proposal that nobody touched. What another bot with
/// the same account says there is for that one to take back, or for this one once it starts anew.
#[derive(Default)]
pub(in crate::forge) struct Quiet(Mutex<BTreeMap<String, BTreeSet<Topic>>>);

impl Quiet {
    /// As [`say`], on the merge request `id`.
    ///
    /// # Errors
    /// When the comments cannot be read or written.
    pub(in crate::forge) async fn say(
        &self,
        id: &str,
        comments: &dyn Comments,
        topic: Topic,
        text: Option<&str>,
    ) -> Result<(), ForgeError> {
        if text.is_some() {
            // It may arrive twice: the next look, whatever it is for, takes the second one away.
            self.known().remove(id);
        }
        say(comments, topic, text).await
    }

    /// As [`hush`], on the merge request `id`.
    ///
    /// # Errors
    /// When the comments cannot be read or removed.
    pub(in crate::forge) async fn hush(
        &self,
        id: &str,
        comments: &dyn Comments,
        topics: &[Topic],
    ) -> Result<(), ForgeError> {
        let is_known = |quiet: &BTreeSet<Topic>| topics.iter().all(|topic| quiet.contains(topic));
        if self.known().get(id).is_some_and(is_known) {
            return Ok(());
        }
        hush(comments, topics).await?;
        self.known().entry(id.to_owned()).or_default().extend(topics);
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, BTreeSet<Topic>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes `text` the bot's one comment about `topic`, or removes it; see [`crate::forge::Forge::say`].
///
/// # Errors
/// When the comments cannot be read or written.
async fn say(comments: &dyn Comments, topic: Topic, text: Option<&str>) -> Result<(), ForgeError> {
    let all = comments.own().await?;
    for double in doubles(&all) {
        comments.delete(double).await.or_else(is_gone)?;
    }
    let mut there = all;
    there.retain(|comment| is_about(comment, topic));
    there.sort_by_key(|comment| comment.id);
    there.truncate(1);
    if there.is_empty() && text.is_some() {
        // A list may be a moment old; a comment that is made twice is what people see.
        there = about(comments, topic).await?;
    }
    let mut there = there.into_iter();
    if let Some(text) = text {
        let text = format!("{}\n{text}", topic.mark());
        let written = match there.next() {
            Some(comment) if same(&comment.body, &text) => Ok(()),
            Some(comment) => comments.edit(comment.id, &text).await,
            None => comments.make(&text).await,
        };
        match written {
            Err(error @ ForgeError::Unanswered { .. }) => {
                let arrived = || async {
                    let there = about(comments, topic).await?;
                    Ok(there.iter().any(|comment| same(&comment.body, &text)).then_some(()))
                };
                looked_for(arrived).await?.ok_or(error)?;
            }
            written => written?,
        }
    }
    // All of them when there is nothing to say; else those that a request that arrived twice left behind.
    for comment in there {
        match comments.delete(comment.id).await {
            Ok(()) | Err(ForgeError::NotFound { .. }) => {}
            Err(error @ ForgeError::Unanswered { .. }) => {
                if about(comments, topic).await?.iter().any(|there| there.id == comment.id) {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Removes the bot's comments about each of these; see [`crate::forge::Forge::hush`].
///
/// # Errors
/// When the comments cannot be read or removed.
async fn hush(comments: &dyn Comments, topics: &[Topic]) -> Result<(), ForgeError> {
    let there = comments.own().await?;
    for double in doubles(&there) {
        comments.delete(double).await.or_else(is_gone)?;
    }
    for topic in topics.iter().filter(|topic| there.iter().any(|comment| is_about(comment, **topic))) {
        say(comments, *topic, None).await?;
    }
    Ok(())
}

/// Answers once; see [`crate::forge::contact::Contact::reply`].
///
/// # Errors
/// When the comments cannot be read or written.
pub(in crate::forge) async fn reply(
    comments: &dyn Comments,
    marker: &str,
    text: &str,
) -> Result<(), ForgeError> {
    let mark = reply_mark(marker)?;
    let is_there = || async {
        let own = comments.own().await?;
        let is_it = |comment: &Comment| comment.body.lines().next().is_some_and(|line| line.trim() == mark);
        Ok(own.iter().any(is_it).then_some(()))
    };
    // Twice: a list may be a moment old, and an answer that is made twice is what people see.
    if is_there().await?.is_some() || is_there().await?.is_some() {
        return Ok(());
    }
    match comments.make(&format!("{mark}\n{text}")).await {
        Err(error @ ForgeError::Unanswered { .. }) => looked_for(is_there).await?.ok_or(error),
        made => made,
    }
}

/// How the mark of every answer starts.
const REPLY_MARK: &str = "<!-- slicewright-reply:";

/// The line that marks an answer; no forge shows it.
///
/// # Errors
/// When the marker could end the mark.
fn reply_mark(marker: &str) -> Result<String, ForgeError> {
    check_marker(marker)?;
    Ok(format!("{REPLY_MARK}{marker} -->"))
}

/// Refuses a marker that could lead out of its place.
///
/// # Errors
/// [`ForgeError::Failed`].
pub(in crate::forge) fn check_marker(marker: &str) -> Result<(), ForgeError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match !marker.is_empty() && marker.len() <= 100 && marker.chars().all(is_plain) {
        true => Ok(()),
        false => Err(ForgeError::Failed {
            what: format!("`{}` is no marker for an answer", marker.escape_debug()),
            cause: None,
        }),
    }
}

/// Comments about a topic that an older one is about, and answers that were given before: a request that arrived twice, or
/// late, leaves them.
fn doubles(own: &[Comment]) -> Vec<u64> {
    let is_marked =
        |comment: &&Comment| [Topic::MARK, REPLY_MARK].iter().any(|mark| comment.body.starts_with(mark));
    let mut own: Vec<&Comment> = own.iter().filter(is_marked).collect();
    own.sort_by_key(|comment| comment.id);
    own.dedup_by_key(|comment| comment.id);
    let mut seen = BTreeSet::new();
    let first_line = |comment: &Comment| comment.body.lines().next().unwrap_or_default().trim().to_owned();
    own.into_iter().filter(|comment| !seen.insert(first_line(comment))).map(|comment| comment.id).collect()
}

/// What is not there any more needs no removing.
fn is_gone(error: ForgeError) -> Result<(), ForgeError> {
    match error {
        ForgeError::NotFound { .. } => Ok(()),
        error => Err(error),
    }
}

fn is_about(comment: &Comment, topic: Topic) -> bool {
    comment.body.lines().next().is_some_and(|line| line.trim() == topic.mark())
}

/// The bot's comments with the topic's mark, oldest first. The mark alone can be copied by anybody.
async fn about(comments: &dyn Comments, topic: Topic) -> Result<Vec<Comment>, ForgeError> {
    let mut own = comments.own().await?;
    own.retain(|comment| is_about(comment, topic));
    own.sort_by_key(|comment| comment.id);
    own.dedup_by_key(|comment| comment.id);
    Ok(own)
}

/// Forges keep a comment as it was sent, but for line ends and blanks at its end.
fn same(there: &str, text: &str) -> bool {
    there.replace("\r\n", "\n").trim_end() == text.trim_end()
}
