//! Brings a database to the schema of this program, or refuses one that is further.
//!
//! One transaction for all steps, with a lock: several servers may start at once. sqlx's own migrator takes no lock on
//! SQLite, and on PostgreSQL one that outlives an error.

use sqlx::AssertSqlSafe;

use super::database::{Databases, Sql};
use super::error::StoreError;

/// Every step since the first, each in a file that is never changed once it was released.
const STEPS: [&str; 1] = [include_str!("migrations/0001_first.sql")];

/// A number that SQLite gives to each new row and never twice.
const NUMBERED: (&str, &str) =
    ("BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "INTEGER PRIMARY KEY AUTOINCREMENT");

/// Any number, the same in all servers: who holds it looks at the schema.
const LOCK: Sql = Sql { sqlite: "SELECT 1", postgres: "SELECT pg_advisory_xact_lock(7304910246613)" };

/// Brings the database up to date. `place` names it in errors.
pub(super) async fn bring_up_to_date(
    databases: &Databases,
    place: &str,
    doing: &'static str,
) -> Result<(), StoreError> {
    let known = i64::try_from(STEPS.len()).expect("a few steps");
    let mut session = databases.write(doing).await?;
    session.script(LOCK).await?;
    session.script("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT PRIMARY KEY)".into()).await?;
    let found = session.row("SELECT MAX(version) FROM schema_version", &[]).await?;
    let found = found.and_then(|(version,): (Option<i64>,)| version).unwrap_or(0);
    if found > known {
        return Err(StoreError::TooNew { place: place.to_owned(), found, known });
    }
    for (to, text) in (1..).zip(STEPS).filter(|(to, _)| *to > found) {
        let text = if session.is_sqlite() { text.replace(NUMBERED.0, NUMBERED.1) } else { text.to_owned() };
        session.script_text(AssertSqlSafe(text)).await.map_err(|error| match error {
            StoreError::Invalid { source: Some(source), .. } => {
                StoreError::Migration { place: place.to_owned(), from: found, to, source }
            }
            other => other,
        })?;
        session.run("INSERT INTO schema_version (version) VALUES ($1)", &[to.into()]).await?;
    }
    session.commit().await
}
