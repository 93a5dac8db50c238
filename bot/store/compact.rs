//! Forgets what nobody asks for any more, a bounded amount at a time.

use jiff::{SignedDuration, Timestamp};

use super::database::{Session, Sql, list};
use super::{Store, StoreError};

/// How many rows of one table go at a time: others wait for the one writer of SQLite meanwhile.
const AT_ONCE: u32 = 1_000;

/// How many pages of the file are given back at a time, 4 KiB each.
const PAGES_AT_ONCE: &str = "PRAGMA incremental_vacuum(1000)";

/// GitLab lists a hook's deliveries for 7 days, GitHub for 3 to 30, and people may send each again: what is younger must be
/// known. A day more, for clocks and time zones.
const DELIVERY_DAYS: u32 = 8;

/// How long one can see in the database what was done.
const DONE_DAYS: u32 = 1;

impl Store {
    /// Deletes jobs that are done for a day, and what is older than `keep_days`: jobs that were given up, deliveries (those
    /// and their jobs are kept for 8 days whatever is configured), commands and runs. Returns how many rows went; as long as
    /// that is not zero there may be more.
    ///
    /// # Errors
    /// When the database is not available.
    pub async fn compact(&self, now: Timestamp) -> Result<u64, StoreError> {
        const DONE: &str = "DELETE FROM jobs WHERE id IN \
            (SELECT id FROM jobs WHERE state = 'done' AND ended < $1 ORDER BY ended LIMIT $2)";
        const DELIVERIES: &str = "DELETE FROM deliveries WHERE (route, key) IN \
            (SELECT route, key FROM deliveries WHERE at < $1 AND NOT EXISTS \
            (SELECT 1 FROM delivery_jobs d JOIN jobs j ON j.id = d.job \
             WHERE d.route = deliveries.route AND d.key = deliveries.key AND j.state IN ('ready', 'running')) \
            ORDER BY at LIMIT $2)";
        const DEAD: &str = "DELETE FROM jobs WHERE id IN \
            (SELECT id FROM jobs WHERE state = 'dead' AND ended < $1 ORDER BY ended LIMIT $2)";
        const COMMANDS: &str = "DELETE FROM commands WHERE (repository, comment, n) IN \
            (SELECT repository, comment, n FROM commands WHERE at < $1 ORDER BY at LIMIT $2)";
        const RUNS: &str = "DELETE FROM runs WHERE id IN \
            (SELECT id FROM runs WHERE started < $1 ORDER BY started LIMIT $2)";
        let keep = self.keep_days;
        let tables = [
            (DONE, DONE_DAYS),
            (DELIVERIES, keep.max(DELIVERY_DAYS)),
            (DEAD, keep.max(DELIVERY_DAYS)),
            (COMMANDS, keep),
            (RUNS, keep),
        ];
        let mut n = 0;
        for (delete, days) in tables {
            let before = now.saturating_sub(SignedDuration::from_hours(24 * i64::from(days))).unwrap_or(now);
            let mut session = self.write("forget what is old").await?;
            n += session.run(delete, &[before.into(), AT_ONCE.into()]).await?;
            session.commit().await?;
        }
        let mut session = self.write("forget what is old").await?;
        n += forget_lanes(&mut session).await?;
        session.commit().await?;
        self.give_room_back().await?;
        Ok(n)
    }

    /// SQLite keeps what was deleted for later; PostgreSQL has its own way.
    async fn give_room_back(&self) -> Result<(), StoreError> {
        if self.is_shared() {
            return Ok(());
        }
        let mut session = self.write("forget what is old").await?;
        session.script(PAGES_AT_ONCE.into()).await?;
        session.commit().await
    }
}

/// Deletes lanes without jobs. They are locked first and looked at again, for a job may have come meanwhile.
async fn forget_lanes(session: &mut Session) -> Result<u64, StoreError> {
    const EMPTY: Sql = Sql {
        sqlite: "SELECT lane FROM lanes WHERE NOT EXISTS (SELECT 1 FROM jobs j WHERE j.lane = lanes.lane) LIMIT $1",
        postgres: "SELECT lane FROM lanes WHERE NOT EXISTS (SELECT 1 FROM jobs j WHERE j.lane = lanes.lane) LIMIT $1 \
                   FOR UPDATE SKIP LOCKED",
    };
    const DELETE: Sql = Sql {
        sqlite: "DELETE FROM lanes WHERE lane IN (SELECT value FROM json_each($1)) \
                 AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.lane = lanes.lane)",
        postgres: "DELETE FROM lanes WHERE lane IN (SELECT json_array_elements_text($1::json)) \
                   AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.lane = lanes.lane)",
    };
    let empty: Vec<(String,)> = session.rows(EMPTY, &[AT_ONCE.into()]).await?;
    if empty.is_empty() {
        return Ok(0);
    }
    session.run(DELETE, &[(&list(empty.iter().map(|(lane,)| lane.as_str()))).into()]).await
}
