//! Who works on what, and until when.
//!
//! A worker takes a job under a lease and renews it while it works; where it is gone, the lease ends, and the next worker
//! takes the job. The lease belongs to the lane, so that no two jobs of one lane are ever in work by leases that hold.
//! What a worker says of a job counts only as long as nobody else has taken it meanwhile: each taking has its own token.

use jiff::{SignedDuration, Timestamp};

use super::database::{Session, Sql, list, moment};
use super::jobs::{attempts, fold, hold, twin};
use super::{Store, StoreError};

/// A job in work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its number.
    pub id: i64,
    /// Its lane: nothing else in it is in work as long as the lease holds.
    pub lane: String,
    /// What it is about.
    pub topic: Option<String>,
    /// What to do.
    pub kind: String,
    /// With what, JSON.
    pub payload: String,
    /// Which of those that are due in its lane goes first: the lower number.
    pub priority: i32,
    /// Since when it was due.
    pub due: Timestamp,
    /// How often it was tried, with this time: 1 for the first.
    pub attempts: u32,
    /// Why the last attempt failed, if it said so.
    pub error: Option<String>,
    /// When it was handed in.
    pub created: Timestamp,
    /// Of this taking of the job.
    token: i64,
}

/// `$what` of the first job of a lane among those of some kinds that are due: what was interrupted, then by priority. `$1`
/// is now, `$2` the kinds as a JSON list. `jobs_open` is the index for it; what is done to the columns keeps a database from
/// another one, by which it would have to read and sort everything that is due in the lane.
macro_rules! first_of_lane {
    ($what:literal, $lane:literal, $kinds:literal) => {
        concat!(
            "(SELECT f.",
            $what,
            " FROM jobs f WHERE f.lane = ",
            $lane,
            " AND f.state IN ('ready', 'running') AND +f.due <= $1 AND f.kind || '' IN (SELECT ",
            $kinds,
            ") ORDER BY f.state DESC, f.priority, f.due, f.id LIMIT 1)"
        )
    };
}

/// Whether a lane has jobs of some kinds at all; `jobs_kinds` is the index for it.
macro_rules! concerns {
    ($kinds:literal) => {
        concat!(
            "EXISTS (SELECT 1 FROM jobs k WHERE k.lane = l.lane AND k.state IN ('ready', 'running') AND k.kind IN (SELECT ",
            $kinds,
            "))"
        )
    };
}

/// Of the free lanes the one whose first job is due for the longest time.
macro_rules! pick {
    ($kinds:literal, $lock:literal) => {
        concat!(
            "SELECT l.lane FROM lanes l WHERE l.until <= $1 AND ",
            concerns!($kinds),
            " AND ",
            first_of_lane!("due", "l.lane", $kinds),
            " IS NOT NULL ORDER BY ",
            first_of_lane!("due", "l.lane", $kinds),
            ", l.lane LIMIT 1",
            $lock
        )
    };
}

macro_rules! take {
    ($kinds:literal) => {
        concat!(
            "UPDATE jobs SET state = 'running', attempts = attempts + 1, token = token + 1, worker = $4 WHERE id = ",
            first_of_lane!("id", "$3", $kinds),
            " RETURNING id, lane, topic, kind, payload, priority, due, attempts, error, created, token"
        )
    };
}

/// When the first job of some kinds (`$1`) can be taken, if nobody finishes before; `jobs_due` is the index for it.
macro_rules! next_due {
    ($kinds:literal) => {
        concat!(
            "SELECT MIN((SELECT CASE WHEN l.until > f.due THEN l.until ELSE f.due END FROM jobs f WHERE f.lane = l.lane \
             AND f.state IN ('ready', 'running') AND f.kind || '' IN (SELECT ",
            $kinds,
            ") ORDER BY f.due LIMIT 1)) FROM lanes l WHERE ",
            concerns!($kinds)
        )
    };
}

impl Store {
    /// Takes the next job of some kinds that is due, in a lane in which no lease holds.
    ///
    /// In a lane: what was interrupted goes first, then the lower priority, the earlier moment, the lower number. Between
    /// lanes: the first job that is due for the longest time. Kinds that are not asked for are passed over.
    ///
    /// `None` may also mean that somebody was changing a lane at that moment: [`Store::next_due`] is in the past then.
    ///
    /// # Errors
    /// When the database is not available.
    pub async fn claim(
        &self,
        worker: &str,
        now: Timestamp,
        lease: SignedDuration,
        kinds: &[&str],
    ) -> Result<Option<Job>, StoreError> {
        // Who waits for a lane that another one is taking takes none of the rest meanwhile.
        const PICK: Sql = Sql {
            sqlite: pick!("value FROM json_each($2)", ""),
            postgres: pick!("json_array_elements_text($2::json)", " FOR NO KEY UPDATE OF l SKIP LOCKED"),
        };
        const LOOK: Sql =
            Sql { sqlite: PICK.sqlite, postgres: pick!("json_array_elements_text($2::json)", "") };
        const TAKE: Sql = Sql {
            sqlite: take!("value FROM json_each($2)"),
            postgres: take!("json_array_elements_text($2::json)"),
        };
        const LEASE: &str = "UPDATE lanes SET job = $2, token = $3, until = $4 WHERE lane = $1";
        const DOING: &str = "take a job";
        let kinds = list(kinds.iter().copied());
        // Mostly there is none, and whoever writes need not wait for those who only look.
        let seen: Option<(String,)> =
            self.read(DOING).await?.row(LOOK, &[now.into(), (&kinds).into()]).await?;
        if seen.is_none() {
            return Ok(None);
        }
        let mut session = self.write(DOING).await?;
        let lane: Option<(String,)> = session.row(PICK, &[now.into(), (&kinds).into()]).await?;
        let Some((lane,)) = lane else {
            session.commit().await?;
            return Ok(None);
        };
        // Looked for again now that the lane is ours: it may have been worked on between the look and the lock.
        let values = [now.into(), (&kinds).into(), (&lane).into(), worker.into()];
        let row: Option<JobRow> = session.row(TAKE, &values).await?;
        let job = row.map(|row| row.read(session.doing)).transpose()?;
        if let Some(job) = &job {
            let until = until(now, lease);
            session.run(LEASE, &[(&lane).into(), job.id.into(), job.token.into(), until.into()]).await?;
        }
        session.commit().await?;
        Ok(job)
    }

    /// Holds a job for longer: `lease` from `now`. `false`: it is lost, and whoever works on it must stop.
    ///
    /// # Errors
    /// When the database is not available; the lease goes on until its end.
    pub async fn renew(&self, job: &Job, now: Timestamp, lease: SignedDuration) -> Result<bool, StoreError> {
        const RENEW: &str = "UPDATE lanes SET until = $4 WHERE lane = $1 AND job = $2 AND token = $3";
        let mut session = self.write("renew a lease").await?;
        let until = until(now, lease);
        let values = [(&job.lane).into(), job.id.into(), job.token.into(), until.into()];
        let n = session.run(RENEW, &values).await?;
        session.commit().await?;
        Ok(n > 0)
    }

    /// Ends every lease: nobody works on anything. For a store that nobody else uses, when its server starts.
    ///
    /// # Errors
    /// When the database is not available.
    pub async fn end_leases(&self) -> Result<(), StoreError> {
        let mut session = self.write("end the leases").await?;
        session.run("UPDATE lanes SET until = 0", &[]).await?;
        session.commit().await
    }

    /// It is done. `false`: somebody else took it meanwhile, or it is over already.
    ///
    /// # Errors
    /// When the database is not available; the job may be done or run again.
    pub async fn finish(&self, job: &Job, now: Timestamp) -> Result<bool, StoreError> {
        const DONE: &str = "UPDATE jobs SET state = 'done', ended = $3, error = NULL \
                            WHERE id = $1 AND token = $2 AND state = 'running'";
        self.end(job, "finish a job", DONE, &[now.into()]).await
    }

    /// It failed; it waits again, until `due`. Where another one about the same waits already, both become one that keeps
    /// the attempts. `false`: somebody else took it meanwhile, or it is over already.
    ///
    /// # Errors
    /// When the database is not available; the job runs again when its lease is over.
    pub async fn retry(&self, job: &Job, due: Timestamp, error: &str) -> Result<bool, StoreError> {
        const BACK: &str = "UPDATE jobs SET state = 'ready', due = $3, error = $4, worker = NULL \
                            WHERE id = $1 AND token = $2 AND state = 'running'";
        const CARRY: &str = "UPDATE jobs SET attempts = $2, error = $3 WHERE id = $1 AND attempts < $2";
        let mut session = self.write("put a job back").await?;
        hold(&mut session, [job.lane.as_str()]).await?;
        let fenced = "SELECT id FROM jobs WHERE id = $1 AND token = $2 AND state = 'running'";
        let mine: Option<(i64,)> = session.row(fenced, &[job.id.into(), job.token.into()]).await?;
        if mine.is_some() {
            if let Some(twin) = twin(&mut session, job.id).await? {
                session.run(CARRY, &[twin.into(), job.attempts.into(), error.into()]).await?;
                fold(&mut session, job.id, twin, due).await?;
            } else {
                let values = [job.id.into(), job.token.into(), due.into(), error.into()];
                session.run(BACK, &values).await?;
            }
            free(&mut session, job).await?;
        }
        session.commit().await?;
        Ok(mine.is_some())
    }

    /// It is given up, until somebody revives it. `false`: somebody else took it meanwhile, or it is over already.
    ///
    /// # Errors
    /// When the database is not available; the job runs again when its lease is over.
    pub async fn bury(&self, job: &Job, error: &str, now: Timestamp) -> Result<bool, StoreError> {
        const DEAD: &str = "UPDATE jobs SET state = 'dead', ended = $3, error = $4 \
                            WHERE id = $1 AND token = $2 AND state = 'running'";
        self.end(job, "give up a job", DEAD, &[now.into(), error.into()]).await
    }

    /// The moment from which a job of some kinds can be taken, if nobody finishes one before: when it is due, and the lease
    /// in its lane is over. In the past: now. `None`: there is none.
    ///
    /// # Errors
    /// When the database is not available.
    pub async fn next_due(&self, kinds: &[&str]) -> Result<Option<Timestamp>, StoreError> {
        const NEXT: Sql = Sql {
            sqlite: next_due!("value FROM json_each($1)"),
            postgres: next_due!("json_array_elements_text($1::json)"),
        };
        let mut session = self.read("look for the next job").await?;
        let kinds = list(kinds.iter().copied());
        let row: Option<(Option<i64>,)> = session.row(NEXT, &[(&kinds).into()]).await?;
        row.and_then(|(due,)| due).map(|due| moment(session.doing, due)).transpose()
    }

    /// Ends a job by a statement whose `$1` and `$2` are its number and token.
    async fn end(
        &self,
        job: &Job,
        doing: &'static str,
        statement: &'static str,
        values: &[super::database::Value<'_>],
    ) -> Result<bool, StoreError> {
        let mut session = self.write(doing).await?;
        hold(&mut session, [job.lane.as_str()]).await?;
        let all: Vec<_> =
            [job.id.into(), job.token.into()].into_iter().chain(values.iter().copied()).collect();
        let n = session.run(statement, &all).await?;
        free(&mut session, job).await?;
        session.commit().await?;
        Ok(n > 0)
    }
}

/// Gives the lane back, if the lease in it is that of this taking.
async fn free(session: &mut Session, job: &Job) -> Result<(), StoreError> {
    const FREE: &str = "UPDATE lanes SET job = NULL, token = NULL, until = 0 \
                        WHERE lane = $1 AND job = $2 AND token = $3";
    session.run(FREE, &[(&job.lane).into(), job.id.into(), job.token.into()]).await?;
    Ok(())
}

/// When a lease ends. One of no length or less is over at once.
fn until(now: Timestamp, lease: SignedDuration) -> Timestamp {
    now.saturating_add(lease).unwrap_or(now)
}

#[derive(sqlx::FromRow)]
struct JobRow {
    id: i64,
    lane: String,
    topic: Option<String>,
    kind: String,
    payload: String,
    priority: i64,
    due: i64,
    attempts: i64,
    error: Option<String>,
    created: i64,
    token: i64,
}

impl JobRow {
    fn read(self, doing: &'static str) -> Result<Job, StoreError> {
        let priority = i32::try_from(self.priority).map_err(|_| {
            StoreError::invalid(doing, format!("priority {} is no such number", self.priority))
        })?;
        Ok(Job {
            id: self.id,
            lane: self.lane,
            topic: self.topic,
            kind: self.kind,
            payload: self.payload,
            priority,
            due: moment(doing, self.due)?,
            attempts: attempts(self.attempts),
            error: self.error,
            created: moment(doing, self.created)?,
            token: self.token,
        })
    }
}
