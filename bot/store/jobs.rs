//! The queue: what is to be done, in which order, and what was given up.
//!
//! Jobs of one *lane* run one at a time. A *topic* says what a job is about: of those about the same in one lane one waits
//! at most, however often it is asked for. Who works on what is the question of `leases`.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::database::{Session, Sql, count, moment, table};
use super::{Store, StoreError};

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// Jobs of one lane run one at a time: a repository, say.
    pub lane: String,
    /// What it is about; while one about the same waits, another one only brings it up to date.
    pub topic: Option<String>,
    /// What to do: workers ask for kinds.
    pub kind: String,
    /// With what, JSON.
    pub payload: String,
    /// Not before this moment.
    pub due: Timestamp,
    /// Which of those that are due in its lane goes first: the lower number.
    pub priority: i32,
}

/// What became of a job that was handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queued {
    /// It waits under this number.
    New(i64),
    /// One about the same waits already, under this number; it has the new kind and payload now, and of each the earlier
    /// moment and the lower priority.
    Joined(i64),
}

impl Queued {
    /// The job's number.
    pub fn id(self) -> i64 {
        match self {
            Self::New(id) | Self::Joined(id) => id,
        }
    }
}

/// A job that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadJob {
    /// Its number.
    pub id: i64,
    /// Its lane.
    pub lane: String,
    /// What it is about.
    pub topic: Option<String>,
    /// What was to be done.
    pub kind: String,
    /// With what, JSON.
    pub payload: String,
    /// How often it was tried.
    pub attempts: u32,
    /// Why it was given up.
    pub error: String,
    /// When it was handed in.
    pub created: Timestamp,
    /// When it was given up.
    pub died: Timestamp,
}

/// How many jobs there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Waiting, whether due or not.
    pub ready: u64,
    /// Of those, due.
    pub due: u64,
    /// In work, under a lease.
    pub running: u64,
    /// Started, and the lease is over: whoever had it is gone, and the next worker takes it.
    pub interrupted: u64,
    /// Given up.
    pub dead: u64,
    /// The moment at which the first of those that wait was or will be due.
    pub oldest_due: Option<Timestamp>,
}

/// Columns of the row come as a JSON list, of which numbers need a `$type` on one of the databases.
macro_rules! insert {
    ($column:literal, $number:literal, $rows:literal) => {
        concat!(
            "INSERT INTO jobs (lane, topic, kind, payload, state, priority, due, created, joined) SELECT ",
            $column, "0, ", $column, "1, ", $column, "2, ", $column, "3, 'ready', (", $column, "4)", $number, ", (",
            $column, "5)", $number, ", (", $column, "6)", $number, ", (", $column, "7)", $number, " FROM ", $rows,
            " WHERE true ON CONFLICT (lane, topic) WHERE state = 'ready' AND topic IS NOT NULL DO UPDATE SET \
             kind = excluded.kind, payload = excluded.payload, joined = jobs.joined + excluded.joined + 1, \
             priority = CASE WHEN excluded.priority < jobs.priority THEN excluded.priority ELSE jobs.priority END, \
             due = CASE WHEN excluded.due < jobs.due THEN excluded.due ELSE jobs.due END \
             RETURNING id, lane, topic, joined"
        )
    };
}

impl Store {
    /// Hands in a job.
    ///
    /// Without a topic a second call is a second job, also where the answer to the first was lost.
    ///
    /// # Errors
    /// When the database is not available; then it may be in the queue or not.
    pub async fn enqueue(&self, job: &NewJob, now: Timestamp) -> Result<Queued, StoreError> {
        let mut session = self.write("put a job into the queue").await?;
        hold(&mut session, [job.lane.as_str()]).await?;
        let queued = put(&mut session, job, now).await?;
        session.commit().await?;
        Ok(queued)
    }

    /// Takes back what waits about a topic; what is in work goes on. `false`: nothing waited.
    ///
    /// # Errors
    /// When the database is not available.
    pub async fn cancel(&self, lane: &str, topic: &str) -> Result<bool, StoreError> {
        let mut session = self.write("take a job out of the queue").await?;
        hold(&mut session, [lane]).await?;
        let delete = "DELETE FROM jobs WHERE lane = $1 AND topic = $2 AND state = 'ready'";
        let n = session.run(delete, &[lane.into(), topic.into()]).await?;
        session.commit().await?;
        Ok(n > 0)
    }

    /// Jobs that were given up, the last one first.
    ///
    /// # Errors
    /// When the database is not available.
    pub async fn dead(&self, limit: u32) -> Result<Vec<DeadJob>, StoreError> {
        let mut session = self.read("read the jobs that were given up").await?;
        let select = "SELECT id, lane, topic, kind, payload, attempts, error, created, ended FROM jobs \
                      WHERE state = 'dead' ORDER BY ended DESC, id DESC LIMIT $1";
        let rows: Vec<DeadRow> = session.rows(select, &[limit.into()]).await?;
        rows.into_iter().map(|row| row.read(session.doing)).collect()
    }

    /// Gives a job that was given up another go, with all attempts, now. `false`: it is not there, or not given up.
    ///
    /// # Errors
    /// When the database is not available.
    pub async fn revive(&self, id: i64, now: Timestamp) -> Result<bool, StoreError> {
        let mut session = self.write("revive a job").await?;
        let lane = "SELECT lane FROM jobs WHERE id = $1 AND state = 'dead'";
        let lane: Option<(String,)> = session.row(lane, &[id.into()]).await?;
        let Some((lane,)) = lane else {
            session.commit().await?;
            return Ok(false);
        };
        hold(&mut session, [lane.as_str()]).await?;
        let revived = revive_held(&mut session, id, now).await?;
        session.commit().await?;
        Ok(revived)
    }

    /// How many jobs there are.
    ///
    /// # Errors
    /// When the database is not available.
    pub async fn counts(&self, now: Timestamp) -> Result<QueueCounts, StoreError> {
        let mut session = self.read("count the jobs").await?;
        let select = "SELECT COUNT(CASE WHEN j.state = 'ready' THEN 1 END), \
                      COUNT(CASE WHEN j.state = 'ready' AND j.due <= $1 THEN 1 END), \
                      COUNT(CASE WHEN j.state = 'running' AND l.job = j.id AND l.until > $1 THEN 1 END), \
                      COUNT(CASE WHEN j.state = 'running' THEN 1 END), \
                      COUNT(CASE WHEN j.state = 'dead' THEN 1 END), \
                      MIN(CASE WHEN j.state = 'ready' THEN j.due END) \
                      FROM jobs j JOIN lanes l ON l.lane = j.lane WHERE j.state <> 'done'";
        let row: Option<(i64, i64, i64, i64, i64, Option<i64>)> = session.row(select, &[now.into()]).await?;
        let (ready, due, running, started, dead, oldest) = row.expect("counting gives a row");
        Ok(QueueCounts {
            ready: count(ready),
            due: count(due),
            running: count(running),
            interrupted: count(started - running),
            dead: count(dead),
            oldest_due: oldest.map(|due| moment(session.doing, due)).transpose()?,
        })
    }
}

/// Locks lanes, and makes those that are not there. Always in the same order: two who need several do not wait for each
/// other for ever.
pub(super) async fn hold(
    session: &mut Session,
    lanes: impl IntoIterator<Item = &str>,
) -> Result<(), StoreError> {
    // On SQLite who writes is alone.
    const HOLD: Sql = Sql {
        sqlite: "INSERT INTO lanes (lane) SELECT value ->> 0 FROM json_each($1) WHERE true ON CONFLICT (lane) DO NOTHING",
        postgres: "INSERT INTO lanes (lane) SELECT value ->> 0 FROM json_array_elements($1::json) AS value \
                   ON CONFLICT (lane) DO UPDATE SET lane = excluded.lane",
    };
    let lanes: BTreeSet<&str> = lanes.into_iter().collect();
    if !lanes.is_empty() {
        let lanes = table(session.doing, lanes.into_iter().map(|lane| [lane.into()]))?;
        session.run(HOLD, &[(&lanes).into()]).await?;
    }
    Ok(())
}

/// Puts a job into its lane, which is held.
pub(super) async fn put(session: &mut Session, job: &NewJob, now: Timestamp) -> Result<Queued, StoreError> {
    let rows = insert(session, &[Row::of(job, now)]).await?;
    let (id, .., joined) = rows.first().expect("the statement inserts a row or updates one");
    Ok(if *joined == 0 { Queued::New(*id) } else { Queued::Joined(*id) })
}

/// Puts jobs into their lanes, which are held, as if one came after the other at its moment; returns the number of each.
pub(super) async fn put_all(
    session: &mut Session,
    jobs: &[(&NewJob, Timestamp)],
) -> Result<Vec<i64>, StoreError> {
    // A statement changes no row twice: those about the same are joined before.
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut row_of: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (job, now) in jobs {
        let Some(topic) = &job.topic else { continue };
        match row_of.entry((&job.lane, topic)) {
            Entry::Occupied(row) => rows[*row.get()].join(job),
            Entry::Vacant(place) => {
                place.insert(rows.len());
                rows.push(Row::of(job, *now));
            }
        }
    }
    let numbers: BTreeMap<(String, String), i64> = insert(session, &rows)
        .await?
        .into_iter()
        .filter_map(|(id, lane, topic, _)| Some(((lane, topic?), id)))
        .collect();
    let mut ids = Vec::new();
    for (job, now) in jobs {
        ids.push(match &job.topic {
            Some(topic) => numbers[&(job.lane.clone(), topic.clone())],
            None => put(session, job, *now).await?.id(),
        });
    }
    Ok(ids)
}

/// What one or several jobs about the same come to.
struct Row<'a> {
    /// The last of them.
    job: &'a NewJob,
    priority: i32,
    due: Timestamp,
    created: Timestamp,
    /// How many followed the first.
    joined: u32,
}

impl<'a> Row<'a> {
    fn of(job: &'a NewJob, created: Timestamp) -> Self {
        Self { job, priority: job.priority, due: job.due, created, joined: 0 }
    }

    fn join(&mut self, job: &'a NewJob) {
        self.job = job;
        self.priority = self.priority.min(job.priority);
        self.due = self.due.min(job.due);
        self.joined += 1;
    }
}

/// Number, lane, topic, and how many were folded into it.
type Inserted = (i64, String, Option<String>, i64);

/// Inserts rows or joins them to what waits about the same. No two may be about the same.
async fn insert(session: &mut Session, rows: &[Row<'_>]) -> Result<Vec<Inserted>, StoreError> {
    const INSERT: Sql = Sql {
        sqlite: insert!("value ->> ", "", "json_each($1)"),
        postgres: insert!("value ->> ", "::bigint", "json_array_elements($1::json) AS value"),
    };
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let cells = rows.iter().map(|row| {
        [
            (&row.job.lane).into(),
            (&row.job.topic).into(),
            (&row.job.kind).into(),
            (&row.job.payload).into(),
            row.priority.into(),
            row.due.into(),
            row.created.into(),
            row.joined.into(),
        ]
    });
    let table = table(session.doing, cells)?;
    session.rows(INSERT, &[(&table).into()]).await
}

/// The job that waits in the same lane about the same.
pub(super) async fn twin(session: &mut Session, id: i64) -> Result<Option<i64>, StoreError> {
    let select = "SELECT w.id FROM jobs j JOIN jobs w \
                  ON w.lane = j.lane AND w.topic = j.topic AND w.state = 'ready' AND w.id <> j.id WHERE j.id = $1";
    let twin: Option<(i64,)> = session.row(select, &[id.into()]).await?;
    Ok(twin.map(|(id,)| id))
}

/// Makes two jobs about the same one: that which waits and has the newer payload. What was accepted for the other is done
/// when this one is.
pub(super) async fn fold(
    session: &mut Session,
    id: i64,
    into: i64,
    due: Timestamp,
) -> Result<(), StoreError> {
    let follow = "INSERT INTO delivery_jobs (route, key, job) \
                  SELECT route, key, $2 FROM delivery_jobs WHERE job = $1 ON CONFLICT (route, key, job) DO NOTHING";
    session.run(follow, &[id.into(), into.into()]).await?;
    session.run("DELETE FROM jobs WHERE id = $1", &[id.into()]).await?;
    let sooner =
        "UPDATE jobs SET joined = joined + 1, due = CASE WHEN $2 < due THEN $2 ELSE due END WHERE id = $1";
    session.run(sooner, &[into.into(), due.into()]).await?;
    Ok(())
}

/// Gives a job that was given up another go; its lane is held.
pub(super) async fn revive_held(session: &mut Session, id: i64, now: Timestamp) -> Result<bool, StoreError> {
    let dead: Option<(i64,)> =
        session.row("SELECT id FROM jobs WHERE id = $1 AND state = 'dead'", &[id.into()]).await?;
    if dead.is_none() {
        return Ok(false);
    }
    if let Some(twin) = twin(session, id).await? {
        fold(session, id, twin, now).await?;
        return Ok(true);
    }
    let revive = "UPDATE jobs SET state = 'ready', due = $2, attempts = 0, error = NULL, ended = NULL, worker = NULL \
                  WHERE id = $1";
    session.run(revive, &[id.into(), now.into()]).await?;
    Ok(true)
}

#[derive(sqlx::FromRow)]
struct DeadRow {
    id: i64,
    lane: String,
    topic: Option<String>,
    kind: String,
    payload: String,
    attempts: i64,
    error: Option<String>,
    created: i64,
    ended: i64,
}

impl DeadRow {
    fn read(self, doing: &'static str) -> Result<DeadJob, StoreError> {
        Ok(DeadJob {
            id: self.id,
            lane: self.lane,
            topic: self.topic,
            kind: self.kind,
            payload: self.payload,
            attempts: attempts(self.attempts),
            error: self.error.unwrap_or_default(),
            created: moment(doing, self.created)?,
            died: moment(doing, self.ended)?,
        })
    }
}

/// How often a job was tried.
pub(super) fn attempts(n: i64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
