//! What can go wrong with the database, by what the caller does about it.

use sqlx::error::DatabaseError;

/// Something was not written or not read. A write that failed left nothing behind, or all of it where the answer was lost.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Gone, out of room, locked or too slow: try again later.
    #[error("cannot {doing}: the database is not available{}", .advice)]
    Unavailable {
        /// What was tried.
        doing: &'static str,
        /// Why, in words for an operator; starts with `: `, or is empty.
        advice: &'static str,
        /// What the database said.
        #[source]
        source: Option<sqlx::Error>,
    },
    /// A newer program wrote the database: run that one, or give this one another database.
    #[error(
        "the database {place} has schema {found}, this program knows {known}: run the newer program, or start with \
         another database, which the bot fills again"
    )]
    TooNew {
        /// Which database.
        place: String,
        /// The version of its schema.
        found: i64,
        /// The newest that this program knows.
        known: i64,
    },
    /// The schema could not be brought up to date.
    #[error("cannot bring the database {place} from schema {from} to {to}")]
    Migration {
        /// Which database.
        place: String,
        /// The version it has.
        from: i64,
        /// The version it should get.
        to: i64,
        /// Why.
        #[source]
        source: sqlx::Error,
    },
    /// The file is no SQLite database, or is damaged: put it away; the bot fills a new one.
    #[error("cannot {doing}: the database is damaged; move the file away, and the bot fills a new one")]
    Damaged {
        /// What was tried.
        doing: &'static str,
        /// What the database said.
        #[source]
        source: sqlx::Error,
    },
    /// Settings or values that the database cannot take: trying again changes nothing.
    #[error("cannot {doing}: {problem}")]
    Invalid {
        /// What was tried.
        doing: &'static str,
        /// What is wrong.
        problem: String,
        /// What the database said, if it was asked.
        #[source]
        source: Option<sqlx::Error>,
    },
}

/// What to do about an error of the database.
enum Kind {
    Unavailable(&'static str),
    Damaged,
    Invalid,
}

const NO_ROOM: &str = ": no room is left";
const UNWRITTEN: &str = ": its file cannot be written; is there room on the disk?";
const LOCKED: &str = ": another program holds it";
const SILENT: &str = ": it does not answer";

impl StoreError {
    /// A value that cannot be meant.
    pub(super) fn invalid(doing: &'static str, problem: impl Into<String>) -> Self {
        Self::Invalid { doing, problem: problem.into(), source: None }
    }

    /// No answer in time.
    pub(super) fn silent(doing: &'static str) -> Self {
        Self::Unavailable { doing, advice: SILENT, source: None }
    }

    pub(super) fn of(doing: &'static str, source: sqlx::Error) -> Self {
        match kind(&source) {
            Kind::Unavailable(advice) => Self::Unavailable { doing, advice, source: Some(source) },
            Kind::Damaged => Self::Damaged { doing, source },
            Kind::Invalid => {
                let problem = "the database refuses it".to_owned();
                Self::Invalid { doing, problem, source: Some(source) }
            }
        }
    }

    /// The same for somebody else whose work was to be written with this.
    pub(super) fn shared(&self) -> Self {
        match self {
            Self::Unavailable { doing, advice, .. } => Self::Unavailable { doing, advice, source: None },
            Self::TooNew { .. } | Self::Migration { .. } | Self::Damaged { .. } | Self::Invalid { .. } => {
                Self::invalid("write it together with others", self.to_string())
            }
        }
    }

    /// Trying the same again later may succeed.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}

fn kind(error: &sqlx::Error) -> Kind {
    match error {
        sqlx::Error::Database(error) => {
            let code = error.code().unwrap_or_default();
            match code.parse::<u32>() {
                Ok(code) if error.try_downcast_ref::<sqlx::sqlite::SqliteError>().is_some() => sqlite(code),
                _ => postgres(&code, &**error),
            }
        }
        sqlx::Error::PoolTimedOut => Kind::Unavailable(SILENT),
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::BeginFailed => Kind::Unavailable(""),
        _ => Kind::Invalid,
    }
}

/// By result code: <https://www.sqlite.org/rescode.html>.
fn sqlite(code: u32) -> Kind {
    /// `SQLITE_IOERR_WRITE`: a limit or a quota that is used up, or a disk that is broken.
    const WRITE: u32 = 778;
    match code & 0xff {
        _ if code == WRITE => Kind::Unavailable(UNWRITTEN),
        // FULL; and TOOBIG never, for texts are far below its 1 GB.
        13 => Kind::Unavailable(NO_ROOM),
        // BUSY, LOCKED, PROTOCOL (a race for the lock of the log).
        5 | 6 | 15 => Kind::Unavailable(LOCKED),
        // NOMEM, READONLY, INTERRUPT, IOERR, CANTOPEN.
        7 | 8 | 9 | 10 | 14 => Kind::Unavailable(""),
        // CORRUPT, NOTADB.
        11 | 26 => Kind::Damaged,
        _ => Kind::Invalid,
    }
}

/// By SQLSTATE: <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
fn postgres(code: &str, error: &dyn DatabaseError) -> Kind {
    match (code.get(..2), code) {
        (_, "53100" | "53200") => Kind::Unavailable(NO_ROOM),
        // Lock not available, deadlock, serialization failure.
        (_, "55P03") | (Some("40"), _) => Kind::Unavailable(LOCKED),
        // Statement time-out.
        (_, "57014") => Kind::Unavailable(SILENT),
        // A standby that was not promoted yet.
        (_, "25006") => Kind::Unavailable(": it only reads"),
        (Some("08" | "53" | "57" | "58" | "XX"), _) => Kind::Unavailable(""),
        _ if error.is_transient_in_connect_phase() => Kind::Unavailable(""),
        _ => Kind::Invalid,
    }
}
