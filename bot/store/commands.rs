//! What people asked in comments, and what came of it.

use jiff::Timestamp;

use super::database::{count, moment};
use super::{Store, StoreError};

/// One command of a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandNote {
    /// Where: what the bot calls the repository.
    pub repository: String,
    /// On which merge request: its number.
    pub request: String,
    /// What the forge calls the comment.
    pub comment: String,
    /// Which command of the comment: 0 is the first.
    pub n: u32,
    /// The author's number on the forge.
    pub author_id: u64,
    /// The author's name there at that time.
    pub author: String,
    /// What was asked.
    pub verb: String,
    /// What came of it, in one word.
    pub outcome: String,
    /// When the bot took it up.
    pub at: Timestamp,
}

/// The outcome of a command that was one too many.
pub const TOO_MANY: &str = "too many";

/// How many commands there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lately {
    /// Of a person in a repository.
    pub by_author: u64,
    /// Of those, how many were too many.
    pub too_many: u64,
    /// On a merge request, by anybody, without those that were too many.
    pub on_request: u64,
}

impl Store {
    /// Notes a command; a second time only its outcome is new.
    ///
    /// # Errors
    /// When the database is not available.
    pub async fn note_command(&self, note: &CommandNote) -> Result<(), StoreError> {
        const NOTE: &str = "INSERT INTO commands \
             (repository, comment, n, request, author_id, author, verb, outcome, at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) \
             ON CONFLICT (repository, comment, n) DO UPDATE SET outcome = excluded.outcome";
        let mut session = self.write("note a command").await?;
        let values = [
            (&note.repository).into(),
            (&note.comment).into(),
            note.n.into(),
            (&note.request).into(),
            stored(note.author_id).into(),
            (&note.author).into(),
            (&note.verb).into(),
            (&note.outcome).into(),
            note.at.into(),
        ];
        session.run(NOTE, &values).await?;
        session.commit().await
    }

    /// How many commands there were at `since` or later, without those of the comment `but`: its job may have begun before.
    ///
    /// # Errors
    /// When the database is not available.
    pub async fn commands_lately(
        &self,
        repository: &str,
        author_id: u64,
        request: &str,
        but: &str,
        since: Timestamp,
    ) -> Result<Lately, StoreError> {
        let select = "SELECT COUNT(CASE WHEN author_id = $2 THEN 1 END), \
                      COUNT(CASE WHEN author_id = $2 AND outcome = $6 THEN 1 END), \
                      COUNT(CASE WHEN request = $3 AND outcome <> $6 THEN 1 END) \
                      FROM commands WHERE repository = $1 AND comment <> $4 AND at >= $5";
        let mut session = self.read("count the last commands").await?;
        let values = [
            repository.into(),
            stored(author_id).into(),
            request.into(),
            but.into(),
            since.into(),
            TOO_MANY.into(),
        ];
        let row: Option<(i64, i64, i64)> = session.row(select, &values).await?;
        let (by_author, too_many, on_request) = row.expect("counting gives a row");
        let [by_author, too_many, on_request] = [by_author, too_many, on_request].map(count);
        Ok(Lately { by_author, too_many, on_request })
    }

    /// The last commands, the newest first.
    ///
    /// # Errors
    /// When the database is not available.
    pub async fn commands(&self, limit: u32) -> Result<Vec<CommandNote>, StoreError> {
        const SELECT: &str = "SELECT repository, comment, n, request, author_id, author, verb, outcome, at \
                              FROM commands ORDER BY at DESC, repository, comment, n LIMIT $1";
        let mut session = self.read("read the last commands").await?;
        let rows: Vec<CommandRow> = session.rows(SELECT, &[limit.into()]).await?;
        rows.into_iter().map(|row| row.read(session.doing)).collect()
    }
}

/// Databases know numbers with a sign only; the bits are the same, so each number has its own.
fn stored(id: u64) -> i64 {
    id.cast_signed()
}

#[derive(sqlx::FromRow)]
struct CommandRow {
    repository: String,
    comment: String,
    n: i64,
    request: String,
    author_id: i64,
    author: String,
    verb: String,
    outcome: String,
    at: i64,
}

impl CommandRow {
    fn read(self, doing: &'static str) -> Result<CommandNote, StoreError> {
        Ok(CommandNote {
            repository: self.repository,
            request: self.request,
            comment: self.comment,
            n: u32::try_from(self.n).unwrap_or(u32::MAX),
            author_id: self.author_id.cast_unsigned(),
            author: self.author,
            verb: self.verb,
            outcome: self.outcome,
            at: moment(doing, self.at)?,
        })
    }
}
