//! The one issue that shows where every proposal of a repository stands: found, written, and looked for when no answer
//! came.

use async_trait::async_trait;
use slicewright_core::review::boxes;

use super::http::{looked_for, retried};
use crate::forge::ForgeError;

/// How the text starts; no forge shows it.
const MARK: &str = "<!-- slicewright-dashboard -->";

/// An issue of the bot's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::forge) struct Issue {
    /// Its number.
    pub(in crate::forge) number: u64,
    /// Title.
    pub(in crate::forge) title: String,
    /// Text.
    pub(in crate::forge) body: String,
    /// Open, or closed by whomever.
    pub(in crate::forge) open: bool,
    /// Where a person finds it.
    pub(in crate::forge) url: String,
}

/// The issues of one repository. Each write is sent once.
#[async_trait]
pub(in crate::forge) trait Issues: Sync {
    /// Those that the bot made, open or not.
    async fn own(&self) -> Result<Vec<Issue>, ForgeError>;

    /// Makes one.
    async fn make(&self, title: &str, text: &str) -> Result<Issue, ForgeError>;

    /// Gives one another title and text.
    async fn edit(&self, number: u64, title: &str, text: &str) -> Result<(), ForgeError>;

    /// Closes one.
    async fn close(&self, number: u64) -> Result<(), ForgeError>;
}

/// What stands in the way of issues, where that is known: what to do where there are none to see, and where the bot may not
/// write them.
pub(in crate::forge) fn explained(error: ForgeError, unseen: &str, denied: &str) -> ForgeError {
    let blocked = |what: String, way_out: &str| ForgeError::Blocked {
        what: format!("{what}: {way_out}, or set `dashboard: false`"),
    };
    match error {
        ForgeError::NotFound { what } => blocked(what, unseen),
        ForgeError::Denied { what } => blocked(what, denied),
        error => error,
    }
}

/// See [`crate::forge::Forge::show_board`].
///
/// # Errors
/// When the issues cannot be read or written.
pub(in crate::forge) async fn show(
    issues: &dyn Issues,
    title: &str,
    text: &str,
) -> Result<Option<String>, ForgeError> {
    let text = format!("{MARK}\n{text}");
    let mut boards = boards(issues, title).await?;
    // A request that arrived twice leaves a second one; two runs at once may, too.
    let first_open = boards.iter().position(|board| board.open);
    let keep = first_open.unwrap_or(0);
    for double in boards.iter().skip(keep + 1).filter(|board| board.open) {
        issues.close(double.number).await?;
    }
    if boards.is_empty() {
        return made(issues, title, &text).await.map(|board| Some(board.url));
    }
    let board = boards.swap_remove(keep);
    if !board.open {
        return Ok(None);
    }
    if is_so(&board, title, &text) {
        return Ok(Some(board.url));
    }
    match issues.edit(board.number, title, &text).await {
        Err(error @ ForgeError::Unanswered { .. }) => {
            let arrived = || async {
                let there = self::boards(issues, title).await?;
                Ok(there
                    .iter()
                    .any(|one| one.number == board.number && is_so(one, title, &text))
                    .then_some(()))
            };
            looked_for(arrived).await?.ok_or(error)?;
        }
        written => written?,
    }
    Ok(Some(board.url))
}

/// See [`crate::forge::contact::Contact::empty_boxes`].
///
/// # Errors
/// When the issues cannot be read or written.
pub(in crate::forge) async fn empty(
    issues: &dyn Issues,
    title: &str,
    issue: &str,
) -> Result<bool, ForgeError> {
    let boards = boards(issues, title).await?;
    let Some(board) = boards.into_iter().find(|board| board.open && board.number.to_string() == issue) else {
        return Ok(false);
    };
    let text = boxes::emptied(&board.body);
    if text != board.body {
        // Written twice, it is the same text.
        retried(|| issues.edit(board.number, &board.title, &text)).await?;
    }
    Ok(true)
}

async fn made(issues: &dyn Issues, title: &str, text: &str) -> Result<Issue, ForgeError> {
    match issues.make(title, text).await {
        Err(error @ ForgeError::Unanswered { .. }) => {
            let arrived = || async { Ok(boards(issues, title).await?.into_iter().next()) };
            looked_for(arrived).await?.ok_or(error)
        }
        made => made,
    }
}

/// The bot's issues with the mark or the title, oldest first: people may write over either. Both can be copied by anybody,
/// so that only the bot's own count.
async fn boards(issues: &dyn Issues, title: &str) -> Result<Vec<Issue>, ForgeError> {
    let mut own = issues.own().await?;
    own.retain(|issue| issue.title == title || issue.body.trim_start().starts_with(MARK));
    own.sort_by_key(|issue| issue.number);
    own.dedup_by_key(|issue| issue.number);
    Ok(own)
}

/// Forges keep a text as it was sent, but for line ends and blanks at its end.
fn is_so(board: &Issue, title: &str, text: &str) -> bool {
    board.title == title && board.body.replace("\r\n", "\n").trim_end() == text.trim_end()
}
