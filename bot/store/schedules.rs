//! What happens by the clock: of several servers one fires.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::database::{Sql, list, moment};
use super::jobs::{NewJob, hold, put};
use super::{Store, StoreError};

/// Something that happens by the clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// What it is called.
    pub name: String,
    /// The expression that says when, as it was configured.
    pub spec: String,
    /// When it fires next.
    pub next: Timestamp,
    /// When it fired last.
    pub fired: Option<Timestamp>,
}

impl Store {
    /// Makes a schedule, or changes it where its expression is another one by now; otherwise it goes on as it was.
    ///
    /// # Errors
    /// When the database is not available.
    pub async fn schedule(&self, name: &str, spec: &str, next: Timestamp) -> Result<(), StoreError> {
        let upsert = "INSERT INTO schedules (name, spec, next) VALUES ($1, $2, $3) \
                      ON CONFLICT (name) DO UPDATE SET spec = excluded.spec, next = excluded.next \
                      WHERE schedules.spec <> excluded.spec";
        let mut session = self.write("note a schedule").await?;
        session.run(upsert, &[name.into(), spec.into(), next.into()]).await?;
        session.commit().await
    }

    /// Fires a schedule that was to fire at `was`: puts its jobs into the queue and notes when it fires `next`, or neither.
    /// `false`: another server did, or it was changed.
    ///
    /// # Errors
    /// When the database is not available.
    pub async fn fire(
        &self,
        name: &str,
        was: Timestamp,
        next: Timestamp,
        jobs: &[NewJob],
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let swap = "UPDATE schedules SET next = $3, fired = $4 WHERE name = $1 AND next = $2";
        let mut session = self.write("fire a schedule").await?;
        let fired = session.run(swap, &[name.into(), was.into(), next.into(), now.into()]).await? > 0;
        if fired {
            hold(&mut session, jobs.iter().map(|job| job.lane.as_str())).await?;
            for job in jobs {
                put(&mut session, job, now).await?;
            }
        }
        session.commit().await?;
        Ok(fired)
    }

    /// All schedules, the next one first.
    ///
    /// # Errors
    /// When the database is not available.
    pub async fn schedules(&self) -> Result<Vec<Schedule>, StoreError> {
        let mut session = self.read("read the schedules").await?;
        let select = "SELECT name, spec, next, fired FROM schedules ORDER BY next, name";
        let rows: Vec<(String, String, i64, Option<i64>)> = session.rows(select, &[]).await?;
        let read = |(name, spec, next, fired): (_, _, _, Option<i64>)| {
            Ok(Schedule {
                name,
                spec,
                next: moment(session.doing, next)?,
                fired: fired.map(|at| moment(session.doing, at)).transpose()?,
            })
        };
        rows.into_iter().map(read).collect()
    }

    /// Forgets the schedules that nobody configures any more.
    ///
    /// # Errors
    /// When the database is not available.
    pub async fn drop_schedules(&self, keep: &BTreeSet<String>) -> Result<(), StoreError> {
        const DROP: Sql = Sql {
            sqlite: "DELETE FROM schedules WHERE name NOT IN (SELECT value FROM json_each($1))",
            postgres: "DELETE FROM schedules WHERE name NOT IN (SELECT json_array_elements_text($1::json))",
        };
        let mut session = self.write("forget schedules").await?;
        session.run(DROP, &[(&list(keep.iter().map(String::as_str))).into()]).await?;
        session.commit().await
    }
}
