//! One way to ask either database: statements are written once, with `$1`, and values are numbers and texts.
//!
//! SQLite takes one writer at a time, so there is one connection that writes and a few that read; another one carries what
//! was written from the log into the file meanwhile, which would hold the writer up. What a writing session
//! did counts when it is committed; one that is dropped before, by an error or because nobody waits any more, leaves nothing:
//! its connection is closed, for neither database keeps what a closed connection did not commit.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use sqlx::pool::{PoolConnection, PoolOptions};
use sqlx::postgres::{PgConnectOptions, PgRow};
use sqlx::query::Query;
use sqlx::sqlite::{SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqliteRow, SqliteSynchronous};
use sqlx::{ConnectOptions, Database, Encode, FromRow, Pool, Postgres, SqlSafeStr, Sqlite, Type};

use super::error::StoreError;

/// How long one step may take: connecting, waiting for a free connection, one statement. Twice that and an operator sees a
/// dead database later than the forge gives up on a webhook (10 s); half of it and a busy disk looks dead.
const STEP: Duration = Duration::from_secs(5);

/// How many questions SQLite answers at once, beside the one writer.
const N_READERS: u32 = 4;

/// The log of SQLite is cut back to this after a burst, bytes.
const LOG_LIMIT: &str = "16777216";

/// Pages of the log from which on the writer carries them into the file itself: 64 MiB, for a flood without an end.
const LONGEST_LOG: &str = "16384";

/// How often the log is carried into the file.
const BETWEEN_CHECKPOINTS: Duration = Duration::from_millis(250);

/// Either database.
#[derive(Clone, Debug)]
pub(super) enum Databases {
    Sqlite { writer: Pool<Sqlite>, readers: Pool<Sqlite>, checkpoints: Pool<Sqlite> },
    Postgres(Pool<Postgres>),
}

/// What a commit outlives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outlives {
    /// The end of the process. After a loss of power the last commits may be gone, all of them from one on: what was done
    /// then is done again. PostgreSQL keeps more than that.
    Process,
    /// A loss of power.
    Power,
}

/// A statement, in both dialects where they differ.
#[derive(Clone, Copy)]
pub(super) struct Sql {
    pub(super) sqlite: &'static str,
    pub(super) postgres: &'static str,
}

impl From<&'static str> for Sql {
    fn from(both: &'static str) -> Self {
        Self { sqlite: both, postgres: both }
    }
}

/// A value of a statement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Number(Option<i64>),
    Text(Option<&'a str>),
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Number(Some(number))
    }
}

impl From<i32> for Value<'_> {
    fn from(number: i32) -> Self {
        Self::Number(Some(number.into()))
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Self::Number(Some(number.into()))
    }
}

/// Whole milliseconds: what is finer is cut off.
impl From<Timestamp> for Value<'_> {
    fn from(moment: Timestamp) -> Self {
        Self::Number(Some(moment.as_millisecond()))
    }
}

impl From<Option<Timestamp>> for Value<'_> {
    fn from(moment: Option<Timestamp>) -> Self {
        Self::Number(moment.map(Timestamp::as_millisecond))
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Some(text))
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(Some(text))
    }
}

impl<'a> From<&'a Option<String>> for Value<'a> {
    fn from(text: &'a Option<String>) -> Self {
        Self::Text(text.as_deref())
    }
}

/// What a row of an answer is read into.
pub(super) trait Answer: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> {}

impl<T> Answer for T where T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> {}

impl Databases {
    /// SQLite in a file, which is made, for its owner alone, where there is none.
    pub(super) async fn sqlite(path: &Path, doing: &'static str) -> Result<Self, StoreError> {
        let cannot = |cause: std::io::Error| {
            StoreError::invalid(doing, format!("`{}` cannot be opened or made: {cause}", path.display()))
        };
        make_private(path).map_err(cannot)?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(STEP)
            .foreign_keys(true)
            .auto_vacuum(SqliteAutoVacuum::Incremental)
            .pragma("journal_size_limit", LOG_LIMIT)
            .pragma("wal_autocheckpoint", LONGEST_LOG)
            .disable_statement_logging();
        let pool = |n| PoolOptions::new().max_connections(n).acquire_timeout(STEP).max_lifetime(None);
        let writer = pool(1).test_before_acquire(false).connect_with(options.clone());
        let writer = within(doing, writer).await?;
        let checkpoints = pool(1).connect_lazy_with(options.clone());
        tokio::spawn(keep_log_short(checkpoints.clone()));
        let readers = pool(N_READERS).connect_lazy_with(options.pragma("query_only", "on"));
        Ok(Self::Sqlite { writer, readers, checkpoints })
    }

    /// PostgreSQL; connects once, so that what is wrong is said now.
    pub(super) async fn postgres(url: &str, n: u32, doing: &'static str) -> Result<Self, StoreError> {
        // The parser's own words are left out: they may hold a part of the URL.
        let not_one = |_| StoreError::invalid(doing, "the URL is not one of PostgreSQL, `postgres://…`");
        if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(StoreError::invalid(doing, "the URL must start with `postgres://`"));
        }
        let step = format!("{}ms", STEP.as_millis());
        let options: PgConnectOptions = url.parse().map_err(not_one)?;
        let options = options
            .application_name("slicewright")
            .options([
                ("statement_timeout", step.as_str()),
                ("lock_timeout", step.as_str()),
                ("idle_in_transaction_session_timeout", "60s"),
            ])
            .disable_statement_logging();
        // Not by the pool, which would wait for a server that refuses and then only say that time is up.
        let connection = within(doing, options.connect()).await?;
        let _ = within(doing, sqlx::Connection::close(connection)).await;
        let pool = PoolOptions::new().max_connections(n).acquire_timeout(STEP).connect_lazy_with(options);
        Ok(Self::Postgres(pool))
    }

    /// A session that sees what is committed.
    pub(super) async fn read(&self, doing: &'static str) -> Result<Session, StoreError> {
        let connection = match self {
            Self::Sqlite { readers, .. } => Connection::Sqlite(within(doing, readers.acquire()).await?),
            Self::Postgres(pool) => Connection::Postgres(within(doing, pool.acquire()).await?),
        };
        Ok(Session { connection, doing, writes: false, clean: true })
    }

    /// A session whose changes count together, when they are committed.
    pub(super) async fn write(&self, doing: &'static str) -> Result<Session, StoreError> {
        self.write_to(doing, Outlives::Process).await
    }

    /// As [`Databases::write`], and what was committed outlives as much as is said.
    pub(super) async fn write_to(
        &self,
        doing: &'static str,
        outlives: Outlives,
    ) -> Result<Session, StoreError> {
        let connection = match self {
            Self::Sqlite { writer, .. } => Connection::Sqlite(within(doing, writer.acquire()).await?),
            Self::Postgres(pool) => Connection::Postgres(within(doing, pool.acquire()).await?),
        };
        let mut session = Session { connection, doing, writes: true, clean: true };
        // SQLite: a transaction that starts with reading may find that it must not write after all.
        // PostgreSQL: a statement sees what was committed before it, whatever the server's default is.
        let begin = Sql {
            sqlite: match outlives {
                Outlives::Process => "PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE",
                Outlives::Power => "PRAGMA synchronous = FULL; BEGIN IMMEDIATE",
            },
            postgres: "BEGIN ISOLATION LEVEL READ COMMITTED",
        };
        session.script(begin).await?;
        Ok(session)
    }

    /// Waits for those who still use it, and closes.
    pub(super) async fn close(&self) {
        match self {
            Self::Sqlite { writer, readers, checkpoints } => {
                checkpoints.close().await;
                readers.close().await;
                writer.close().await;
            }
            Self::Postgres(pool) => pool.close().await,
        }
    }
}

/// Carries what was written into the file, as long as the database is open.
async fn keep_log_short(pool: Pool<Sqlite>) {
    while !pool.is_closed() {
        tokio::time::sleep(BETWEEN_CHECKPOINTS).await;
        // Where it fails, the writer does it when the log is long.
        if let Ok(mut connection) = pool.acquire().await
            && let Err(error) =
                sqlx::raw_sql("PRAGMA wal_checkpoint(PASSIVE)").execute(&mut *connection).await
        {
            tracing::debug!("the log of the store stays as long as it is: {error}");
        }
    }
}

enum Connection {
    Sqlite(PoolConnection<Sqlite>),
    Postgres(PoolConnection<Postgres>),
}

/// One connection for some statements.
pub(super) struct Session {
    connection: Connection,
    /// What it is for, in errors.
    pub(super) doing: &'static str,
    writes: bool,
    /// Nothing is under way on the connection: somebody else may have it.
    clean: bool,
}

impl Session {
    pub(super) fn is_sqlite(&self) -> bool {
        matches!(self.connection, Connection::Sqlite(_))
    }

    /// Changes rows; returns how many.
    pub(super) async fn run(&mut self, sql: impl Into<Sql>, values: &[Value<'_>]) -> Result<u64, StoreError> {
        let (sql, doing) = (sql.into(), self.start(values)?);
        let n = match &mut self.connection {
            Connection::Sqlite(to) => {
                let query = bound(sqlx::query(sql.sqlite), values);
                within(doing, query.execute(&mut **to)).await?.rows_affected()
            }
            Connection::Postgres(to) => {
                let query = bound(sqlx::query(sql.postgres), values);
                within(doing, query.execute(&mut **to)).await?.rows_affected()
            }
        };
        self.clean = !self.writes;
        Ok(n)
    }

    /// All rows of the answer.
    pub(super) async fn rows<T: Answer>(
        &mut self,
        sql: impl Into<Sql>,
        values: &[Value<'_>],
    ) -> Result<Vec<T>, StoreError> {
        let (sql, doing) = (sql.into(), self.start(values)?);
        let rows: Result<Vec<T>, sqlx::Error> = match &mut self.connection {
            Connection::Sqlite(to) => {
                let query = bound(sqlx::query(sql.sqlite), values);
                within(doing, query.fetch_all(&mut **to)).await?.iter().map(T::from_row).collect()
            }
            Connection::Postgres(to) => {
                let query = bound(sqlx::query(sql.postgres), values);
                within(doing, query.fetch_all(&mut **to)).await?.iter().map(T::from_row).collect()
            }
        };
        self.clean = !self.writes;
        rows.map_err(|cause| StoreError::of(doing, cause))
    }

    /// The first row of the answer, if there is one.
    pub(super) async fn row<T: Answer>(
        &mut self,
        sql: impl Into<Sql>,
        values: &[Value<'_>],
    ) -> Result<Option<T>, StoreError> {
        Ok(self.rows(sql, values).await?.into_iter().next())
    }

    /// Statements without values.
    pub(super) async fn script(&mut self, sql: Sql) -> Result<(), StoreError> {
        self.script_text(if self.is_sqlite() { sql.sqlite } else { sql.postgres }).await
    }

    /// As [`Session::script`], in the dialect of this database.
    pub(super) async fn script_text(&mut self, text: impl SqlSafeStr) -> Result<(), StoreError> {
        let (query, doing) = (sqlx::raw_sql(text), self.start(&[])?);
        match &mut self.connection {
            Connection::Sqlite(to) => within(doing, query.execute(&mut **to)).await.map(drop)?,
            Connection::Postgres(to) => within(doing, query.execute(&mut **to)).await.map(drop)?,
        }
        self.clean = !self.writes;
        Ok(())
    }

    /// Makes what was done count. After an error it is not known whether it does.
    pub(super) async fn commit(mut self) -> Result<(), StoreError> {
        self.script("COMMIT".into()).await?;
        self.clean = true;
        Ok(())
    }

    /// Looks at the values, and marks the connection as in use.
    fn start(&mut self, values: &[Value<'_>]) -> Result<&'static str, StoreError> {
        can_be_kept(self.doing, values)?;
        self.clean = false;
        Ok(self.doing)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.clean {
            match &mut self.connection {
                Connection::Sqlite(connection) => connection.close_on_drop(),
                Connection::Postgres(connection) => connection.close_on_drop(),
            }
        }
    }
}

fn bound<'q, DB: Database>(
    mut query: Query<'q, DB, DB::Arguments>,
    values: &[Value<'_>],
) -> Query<'q, DB, DB::Arguments>
where
    Option<i64>: for<'v> Encode<'v, DB> + Type<DB>,
    for<'v> Option<&'v str>: Encode<'v, DB> + Type<DB>,
{
    for value in values {
        query = match *value {
            Value::Number(number) => query.bind(number),
            Value::Text(text) => query.bind(text),
        };
    }
    query
}

/// The answer, if it comes in time.
async fn within<T>(
    doing: &'static str,
    answer: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(STEP, answer).await {
        Ok(answer) => answer.map_err(|cause| StoreError::of(doing, cause)),
        Err(_) => Err(StoreError::silent(doing)),
    }
}

/// Makes a new file readable for its owner alone: it tells who said what. SQLite gives its other files the same mode.
fn make_private(path: &Path) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

/// The moment that a column holds.
pub(super) fn moment(doing: &'static str, milliseconds: i64) -> Result<Timestamp, StoreError> {
    Timestamp::from_millisecond(milliseconds).map_err(|_| {
        StoreError::invalid(doing, format!("the database holds {milliseconds}, which is no time"))
    })
}

/// A count as the database gives it.
pub(super) fn count(n: i64) -> u64 {
    u64::try_from(n).expect("no table has fewer than 0 rows")
}

/// Texts as one value: a JSON list.
pub(super) fn list<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    serde_json::Value::from(texts.into_iter().collect::<Vec<_>>()).to_string()
}

/// Rows as one value: a JSON list of lists.
///
/// # Errors
/// When a text cannot be kept, as with a value of its own.
pub(super) fn table<'a, const N: usize>(
    doing: &'static str,
    rows: impl IntoIterator<Item = [Value<'a>; N]>,
) -> Result<String, StoreError> {
    let mut table = Vec::new();
    for row in rows {
        can_be_kept(doing, &row)?;
        let cell = |value: Value<'_>| match value {
            Value::Number(number) => number.into(),
            Value::Text(text) => text.into(),
        };
        table.push(serde_json::Value::Array(row.into_iter().map(cell).collect()));
    }
    Ok(serde_json::Value::Array(table).to_string())
}

/// PostgreSQL has no texts with NUL; a store that one database takes and the other refuses would be a trap.
fn can_be_kept(doing: &'static str, values: &[Value<'_>]) -> Result<(), StoreError> {
    if values.iter().any(|value| matches!(value, Value::Text(Some(text)) if text.contains('\0'))) {
        return Err(StoreError::invalid(doing, "a text holds the character NUL"));
    }
    Ok(())
}
