//! What forges delivered: each delivery counts once, and what it asks for is in the queue before it is answered.
//!
//! To write costs a wait for the disk, whatever is written. So deliveries that come while others are being written are
//! written together afterwards, as if one came after the other.

use std::collections::BTreeSet;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};

use super::database::{Databases, Outlives, Session, Sql, table};
use super::jobs::{NewJob, hold, put_all, revive_held};
use super::{Store, StoreError};

const DOING: &str = "accept a delivery";

/// Deliveries that are written at once.
const AT_ONCE: usize = 256;

/// What became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// What it asks for is in the queue: for the first time, or because it was given up before.
    New,
    /// It was accepted before; nothing of it was given up.
    Again,
}

/// A delivery that is to be written.
#[derive(Debug)]
struct Delivery {
    route: String,
    key: String,
    jobs: Vec<NewJob>,
    now: Timestamp,
}

type Waiting = (Delivery, oneshot::Sender<Result<Accepted, StoreError>>);

/// Hands deliveries to whoever writes them.
#[derive(Clone, Debug)]
pub(super) struct Intake(mpsc::Sender<Waiting>);

impl Intake {
    /// Starts the one who writes; it ends with the last copy of the intake.
    pub(super) fn start(databases: Databases) -> Self {
        let (sender, mut receiver) = mpsc::channel(AT_ONCE);
        tokio::spawn(async move {
            let mut waiting = Vec::new();
            while receiver.recv_many(&mut waiting, AT_ONCE).await > 0 {
                answer(&databases, std::mem::take(&mut waiting)).await;
            }
        });
        Self(sender)
    }
}

impl Store {
    /// Notes a delivery and puts what it asks for into the queue, or neither.
    ///
    /// `key` is the forge's name for it, equal for each attempt; two routes may get the same. Who delivers again what was
    /// given up wants it done: those jobs get another go, with the payload that they had.
    ///
    /// # Errors
    /// When the database is not available: then the delivery must be refused, so that the forge tries again.
    pub async fn accept(
        &self,
        route: &str,
        key: &str,
        jobs: &[NewJob],
        now: Timestamp,
    ) -> Result<Accepted, StoreError> {
        let delivery = Delivery { route: route.to_owned(), key: key.to_owned(), jobs: jobs.to_vec(), now };
        let (sender, written) = oneshot::channel();
        // The one who writes is gone only when the whole runtime ends.
        self.intake.0.send((delivery, sender)).await.map_err(|_| StoreError::silent(DOING))?;
        written.await.map_err(|_| StoreError::silent(DOING))?
    }
}

/// Writes deliveries, and tells each what became of it.
async fn answer(databases: &Databases, waiting: Vec<Waiting>) {
    let (deliveries, senders): (Vec<_>, Vec<_>) = waiting.into_iter().unzip();
    // Nobody may wait any more: the forge hung up. It sends again, and hears that it came before.
    let tell = |sender: oneshot::Sender<_>, what| drop(sender.send(what));
    match write(databases, &deliveries).await {
        Ok(all) => senders.into_iter().zip(all).for_each(|(sender, one)| tell(sender, Ok(one))),
        // Later it may go well, for all of them.
        Err(error) if error.is_passing() => {
            senders.into_iter().for_each(|sender| tell(sender, Err(error.shared())));
        }
        // One of them is at fault.
        Err(_) => {
            for (delivery, sender) in deliveries.iter().zip(senders) {
                let one = write(databases, std::slice::from_ref(delivery)).await;
                tell(sender, one.map(|all| all[0]));
            }
        }
    }
}

/// Writes all of them, or none.
async fn write(databases: &Databases, deliveries: &[Delivery]) -> Result<Vec<Accepted>, StoreError> {
    // The forge is told that it need not send them again.
    let mut session = databases.write_to(DOING, Outlives::Power).await?;
    let mut fresh = note(&mut session, deliveries).await?;
    let (mut accepted, mut jobs, mut dead) = (Vec::new(), Vec::new(), Vec::new());
    for delivery in deliveries {
        // Of two attempts at once the first is the new one.
        if fresh.remove(&(delivery.route.clone(), delivery.key.clone())) {
            accepted.push(Accepted::New);
            jobs.extend(delivery.jobs.iter().map(|job| (delivery, job)));
        } else {
            dead.extend(given_up(&mut session, delivery).await?.into_iter().map(|job| (accepted.len(), job)));
            accepted.push(Accepted::Again);
        }
    }
    let lanes = jobs.iter().map(|(_, job)| &job.lane).chain(dead.iter().map(|(_, (_, lane))| lane));
    hold(&mut session, lanes.map(String::as_str)).await?;
    let moments: Vec<_> = jobs.iter().map(|(delivery, job)| (*job, delivery.now)).collect();
    let ids = put_all(&mut session, &moments).await?;
    link(&mut session, jobs.iter().zip(ids).map(|((delivery, _), id)| (*delivery, id))).await?;
    for (n, (id, _)) in dead {
        if revive_held(&mut session, id, deliveries[n].now).await? {
            accepted[n] = Accepted::New;
        }
    }
    session.commit().await?;
    Ok(accepted)
}

/// Notes those that are new; returns which.
async fn note(
    session: &mut Session,
    deliveries: &[Delivery],
) -> Result<BTreeSet<(String, String)>, StoreError> {
    const NOTE: Sql = Sql {
        sqlite: "INSERT INTO deliveries (route, key, at) SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each($1) \
                 WHERE true ON CONFLICT (route, key) DO NOTHING RETURNING route, key",
        postgres: "INSERT INTO deliveries (route, key, at) SELECT value ->> 0, value ->> 1, (value ->> 2)::bigint \
                   FROM json_array_elements($1::json) AS value ON CONFLICT (route, key) DO NOTHING RETURNING route, key",
    };
    // In one order: two servers that get the same ones do not wait for each other for ever.
    let mut rows: Vec<_> = deliveries.iter().map(|one| (&one.route, &one.key, one.now)).collect();
    rows.sort();
    let rows = rows.into_iter().map(|(route, key, now)| [route.into(), key.into(), now.into()]);
    let table = table(DOING, rows)?;
    let fresh: Vec<(String, String)> = session.rows(NOTE, &[(&table).into()]).await?;
    Ok(fresh.into_iter().collect())
}

/// Notes which job does what a delivery asks for.
async fn link(
    session: &mut Session,
    links: impl Iterator<Item = (&Delivery, i64)>,
) -> Result<(), StoreError> {
    const LINK: Sql = Sql {
        sqlite: "INSERT INTO delivery_jobs (route, key, job) SELECT value ->> 0, value ->> 1, value ->> 2 \
                 FROM json_each($1) WHERE true ON CONFLICT (route, key, job) DO NOTHING",
        postgres: "INSERT INTO delivery_jobs (route, key, job) SELECT value ->> 0, value ->> 1, (value ->> 2)::bigint \
                   FROM json_array_elements($1::json) AS value ON CONFLICT (route, key, job) DO NOTHING",
    };
    let table = table(DOING, links.map(|(one, id)| [(&one.route).into(), (&one.key).into(), id.into()]))?;
    session.run(LINK, &[(&table).into()]).await?;
    Ok(())
}

/// What was given up of a delivery: jobs and their lanes.
async fn given_up(session: &mut Session, delivery: &Delivery) -> Result<Vec<(i64, String)>, StoreError> {
    let select = "SELECT j.id, j.lane FROM delivery_jobs d JOIN jobs j ON j.id = d.job \
                  WHERE d.route = $1 AND d.key = $2 AND j.state = 'dead' ORDER BY j.id";
    session.rows(select, &[(&delivery.route).into(), (&delivery.key).into()]).await
}
