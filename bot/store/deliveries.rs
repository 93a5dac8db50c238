//! What forges delivered: each delivery counts once, and what it asks for is in the queue before it is answered.

use jiff::Timestamp;

use super::database::Session;
use super::jobs::{NewJob, hold, put, revive_held};
use super::{Store, StoreError};

/// What became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// What it asks for is in the queue: for the first time, or because it was given up before.
    New,
    /// It was accepted before; nothing of it was given up.
    Again,
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
        const NOTE: &str = "INSERT INTO deliveries (route, key, at) VALUES ($1, $2, $3) \
                            ON CONFLICT (route, key) DO NOTHING";
        const LINK: &str = "INSERT INTO delivery_jobs (route, key, job) VALUES ($1, $2, $3) \
                            ON CONFLICT (route, key, job) DO NOTHING";
        let mut session = self.write("accept a delivery").await?;
        let accepted = if session.run(NOTE, &[route.into(), key.into(), now.into()]).await? > 0 {
            hold(&mut session, jobs.iter().map(|job| job.lane.as_str())).await?;
            for job in jobs {
                let id = put(&mut session, job, now).await?.id();
                session.run(LINK, &[route.into(), key.into(), id.into()]).await?;
            }
            Accepted::New
        } else if revive_dead(&mut session, route, key, now).await? {
            Accepted::New
        } else {
            Accepted::Again
        };
        session.commit().await?;
        Ok(accepted)
    }
}

/// Gives what was given up of a delivery another go. `false`: nothing was.
async fn revive_dead(
    session: &mut Session,
    route: &str,
    key: &str,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let select = "SELECT j.id, j.lane FROM delivery_jobs d JOIN jobs j ON j.id = d.job \
                  WHERE d.route = $1 AND d.key = $2 AND j.state = 'dead' ORDER BY j.id";
    let dead: Vec<(i64, String)> = session.rows(select, &[route.into(), key.into()]).await?;
    hold(session, dead.iter().map(|(_, lane)| lane.as_str())).await?;
    let mut revived = false;
    for (id, _) in dead {
        revived |= revive_held(session, id, now).await?;
    }
    Ok(revived)
}
