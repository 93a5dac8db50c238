//! The jobs of the queue, one at a time in each repository.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures_util::FutureExt as _;
use jiff::{SignedDuration, Timestamp};
use tracing::Instrument as _;

use super::Service;
use super::job::{Job, Said, Ticked, Urgency};
use super::patience;
use crate::engine::propose::Wishes;
use crate::engine::review::{Answer, Comment, Heard};
use crate::forge::ForgeError;
use crate::prometheus::Quiet;
use crate::settings::ClusterSettings;
use crate::store::StoreError;
use crate::store::commands::{CommandNote, Lately, TOO_MANY};
use crate::store::leases::Job as Leased;
use crate::store::runs::RunNote;

/// People who may use up their commands on one merge request within an hour.
const MOST_PEOPLE: u64 = 3;

/// Wait before the memory is asked again to take what came of a job.
const BETWEEN_WRITES: Duration = Duration::from_secs(1);

/// Hours for which a forge keeps deliveries that did not arrive; asked for with a margin.
const DELIVERY_HOURS: i64 = 70;

/// What came of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Worked {
    /// A job of this kind was done, or tried.
    Did {
        /// Its kind.
        kind: String,
        /// Why it failed, if it did.
        failed: Option<String>,
        /// It will not be tried again.
        given_up: bool,
    },
    /// Nothing is to be done before this moment, as far as is known.
    Nothing {
        /// When something may be.
        until: Option<Timestamp>,
    },
}

/// The job's outcome; a panic is an error, or the worker would be gone, and with the next attempt the next one.
async fn whole(job: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let done = std::panic::AssertUnwindSafe(job).catch_unwind().await;
    done.unwrap_or_else(|_| Err(anyhow::anyhow!("a fault of the program: the lines before say where")))
}

impl Service {
    /// Takes a job and carries it out. `worker` names whoever asks, for people who look into the queue.
    ///
    /// # Errors
    /// When the queue cannot be asked.
    pub async fn work(&self, worker: &str, urgency: Urgency) -> Result<Worked, StoreError> {
        let kinds = urgency.kinds();
        let Some(leased) = self.store.claim(worker, Timestamp::now(), self.lease(), kinds).await? else {
            return Ok(Worked::Nothing { until: self.store.next_due(kinds).await? });
        };
        let (id, kind, lane, attempt) = (leased.id, &leased.kind, &leased.lane, leased.attempts);
        let span = tracing::info_span!("job", id, kind, lane, attempt);
        let done = tokio::select! {
            done = whole(self.attempt(&leased)).instrument(span) => done,
            () = self.hold(&leased) => {
                tracing::warn!(job = leased.id, kind = leased.kind, "another server took the job: it is left to that");
                return Ok(Worked::Did { kind: leased.kind, failed: Some("taken by another".into()), given_up: false });
            }
        };
        match done {
            Ok(()) => {
                self.written(async || self.store.finish(&leased, Timestamp::now()).await).await?;
                Ok(Worked::Did { kind: leased.kind, failed: None, given_up: false })
            }
            Err(error) => {
                let why = format!("{error:#}");
                let now = Timestamp::now();
                let given_up = patience::gives_up(&error, leased.attempts, leased.created, now);
                if given_up {
                    tracing::error!(job = leased.id, kind = leased.kind, "given up: {why}");
                    self.apologise(&leased, &error).await;
                    self.written(async || self.store.bury(&leased, &why, Timestamp::now()).await).await?;
                } else {
                    tracing::warn!(
                        job = leased.id,
                        kind = leased.kind,
                        attempt = leased.attempts,
                        "failed: {why}"
                    );
                    let due = now.saturating_add(patience::wait(&error, leased.attempts)).unwrap_or(now);
                    self.written(async || self.store.retry(&leased, due, &why).await).await?;
                }
                Ok(Worked::Did { kind: leased.kind, failed: Some(why), given_up })
            }
        }
    }

    /// Writes down what came of a job, again and again as long as the lease may hold: else the job would be done once more.
    async fn written<T>(
        &self,
        mut write: impl AsyncFnMut() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let start = Timestamp::now();
        loop {
            match write().await {
                Err(error) if error.is_passing() && Timestamp::now().duration_since(start) < self.lease() => {
                    tracing::warn!("what came of a job is not written down yet: {error}");
                    tokio::time::sleep(BETWEEN_WRITES).await;
                }
                written => return written,
            }
        }
    }

    fn lease(&self) -> SignedDuration {
        let lease = self.engine().settings().server.lease();
        SignedDuration::try_from(lease).unwrap_or(SignedDuration::from_mins(1))
    }

    /// Says now and then that somebody works on the job; returns when it is somebody else's.
    async fn hold(&self, leased: &Leased) {
        let (lease, mut last) = (self.lease(), Timestamp::now());
        loop {
            tokio::time::sleep(lease.unsigned_abs() / 3).await;
            let now = Timestamp::now();
            match self.store.renew(leased, now, lease).await {
                Ok(true) => last = now,
                Ok(false) => return,
                // Without the database nobody else can take it either, until the lease is over.
                Err(error) if now.duration_since(last) < lease => {
                    tracing::warn!("cannot hold a job: {error}")
                }
                Err(_) => return,
            }
        }
    }

    /// Carries the job out, unless its forge is silent.
    async fn attempt(&self, leased: &Leased) -> anyhow::Result<()> {
        let job: Job =
            serde_json::from_str(&leased.payload).context("the job was written by another version")?;
        let Some(forge) = self.forge_of(&job) else { return self.carry_out(&job).await };
        let asking = self.silent.begin(&forge, Instant::now())?;
        let done = self.carry_out(&job).await;
        asking.end(done.as_ref().err(), Instant::now());
        done
    }

    /// The forge that a job asks, by its name in the configuration.
    fn forge_of(&self, job: &Job) -> Option<String> {
        let is_meant = |cluster: &&ClusterSettings| match job {
            Job::Hear(Said { place, .. })
            | Job::Obey(Said { place, .. })
            | Job::Tick(Ticked { place, .. })
            | Job::Glance { place, .. }
            | Job::Deliveries { place } => cluster.repository.place() == *place,
            Job::Look { cluster: name, .. } => cluster.name == *name,
            Job::Compact => false,
        };
        let engine = self.engine();
        let cluster = engine.settings().clusters.iter().find(is_meant)?;
        cluster.repository.remote().map(str::to_owned)
    }

    async fn carry_out(&self, job: &Job) -> anyhow::Result<()> {
        match job {
            Job::Hear(said) => self.hear(said).await,
            Job::Obey(said) => self.obey(said).await,
            Job::Tick(ticked) => self.look_again(ticked).await,
            Job::Glance { place, branch } => self.glance(place, branch).await,
            Job::Look { cluster, pool } => self.look(cluster, pool.as_deref()).await,
            Job::Deliveries { place } => self.redeliver(place).await,
            Job::Compact => {
                while self.store.compact(Timestamp::now()).await? > 0 {}
                Ok(())
            }
        }
    }

    /// Shows that a comment was read, and hands on what it asks for.
    async fn hear(&self, said: &Said) -> anyhow::Result<()> {
        let engine = self.engine();
        let comment = said.comment();
        let head = match engine.hear(&comment).await? {
            Heard::Speaks { head } => said.head.clone().or(head),
            Heard::Silence(why) => {
                tracing::debug!(comment = said.comment, "nothing is said: {why}");
                return Ok(());
            }
        };
        let lately = self.lately(&comment, said.at).await?;
        let most = u64::from(engine.settings().server.commands_per_hour());
        let reached = if lately.by_author >= most {
            Some(format!("{most} commands"))
        } else if lately.on_request >= MOST_PEOPLE * most {
            Some(format!("{} commands on this merge request", MOST_PEOPLE * most))
        } else {
            None
        };
        if let Some(reached) = reached {
            self.note(&comment, 0, "-", TOO_MANY, said.at).await?;
            if lately.too_many == 0 {
                let why =
                    format!("these were {reached} within an hour, and more are not taken: ask again later");
                engine.give_up(&comment, &why).await?;
            }
            return Ok(());
        }
        self.note(&comment, 0, "-", "waits", said.at).await?;
        let obey =
            Job::Obey(Said { head, ..said.clone() }).queued(&said.place, said.at, SignedDuration::ZERO);
        self.store.enqueue(&obey, Timestamp::now()).await?;
        self.news.send_replace(());
        Ok(())
    }

    async fn obey(&self, said: &Said) -> anyhow::Result<()> {
        let engine = self.engine();
        let comment = said.comment();
        let at = self.look_at.unwrap_or_else(super::schedule::present);
        let facts = self.facts(&said.place).await?;
        match engine.obey(&comment, at, &facts).await? {
            Answer::Silence(why) => tracing::debug!(comment = said.comment, "nothing is said: {why}"),
            Answer::Given(carried) => {
                for (n, one) in carried.iter().enumerate() {
                    let outcome = if one.outcome.is_ok() { "done" } else { "refused" };
                    tracing::info!(
                        repository = said.place,
                        request = said.request,
                        comment = said.comment,
                        by = said.login,
                        command = one.command,
                        outcome,
                        "carried out a command"
                    );
                    let n = u32::try_from(n).unwrap_or(u32::MAX);
                    self.note(&comment, n, &one.command, outcome, said.at).await?;
                }
            }
        }
        Ok(())
    }

    /// Looks at a pool whose box somebody ticked.
    async fn look_again(&self, ticked: &Ticked) -> anyhow::Result<()> {
        let engine = self.engine();
        let tick = ticked.tick();
        let comment = Comment {
            place: tick.place.clone(),
            request: tick.issue.clone(),
            id: format!("{}:{}", tick.id, tick.pool),
            author: tick.by.clone(),
            text: String::new(),
            head: None,
        };
        let lately = self.lately(&comment, ticked.at).await?;
        if lately.by_author >= u64::from(engine.settings().server.commands_per_hour()) {
            tracing::info!(by = tick.by.login, pool = %tick.pool, "ticked too many boxes within an hour");
            return Ok(());
        }
        let at = self.look_at.unwrap_or_else(super::schedule::present);
        match engine.tick(&tick, at).await? {
            Answer::Silence(why) => tracing::debug!(issue = tick.issue, "a box leads to nothing: {why}"),
            Answer::Given(carried) => {
                for one in carried {
                    let (outcome, why) = match &one.outcome {
                        Ok(()) => ("done", None),
                        Err(why) => ("refused", Some(why)),
                    };
                    tracing::info!(
                        repository = tick.place,
                        by = tick.by.login,
                        pool = %tick.pool,
                        command = one.command,
                        outcome,
                        why,
                        "carried out what a box asked for"
                    );
                    self.note(&comment, 0, &one.command, outcome, ticked.at).await?;
                }
            }
        }
        Ok(())
    }

    /// What was asked for within the last hour, besides this.
    async fn lately(&self, comment: &Comment, at: Timestamp) -> Result<Lately, StoreError> {
        let hour_ago = Timestamp::now().saturating_sub(SignedDuration::from_hours(1)).unwrap_or(at);
        let (place, request) = (&comment.place, &comment.request);
        self.store.commands_lately(place, comment.author.id, request, &comment.id, hour_ago).await
    }

    async fn note(
        &self,
        comment: &Comment,
        n: u32,
        verb: &str,
        outcome: &str,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let note = CommandNote {
            repository: comment.place.clone(),
            request: comment.request.clone(),
            comment: comment.id.clone(),
            n,
            author_id: comment.author.id,
            author: comment.author.login.clone(),
            verb: verb.to_owned(),
            outcome: outcome.to_owned(),
            at,
        };
        self.store.note_command(&note).await
    }

    /// Measures a cluster only where its proposal is not as the bot left it.
    async fn glance(&self, place: &str, branch: &str) -> anyhow::Result<()> {
        let Some(cluster) = self.engine().glance(place, branch).await? else { return Ok(()) };
        let look = Job::Look { cluster, pool: None }.queued(place, Timestamp::now(), SignedDuration::ZERO);
        self.store.enqueue(&look, Timestamp::now()).await?;
        self.news.send_replace(());
        Ok(())
    }

    async fn look(&self, cluster: &str, pool: Option<&str>) -> anyhow::Result<()> {
        let engine = self.engine();
        if !engine.settings().clusters.iter().any(|known| known.name == cluster) {
            tracing::info!(cluster, "the cluster is gone from the configuration");
            return Ok(());
        }
        let started = Timestamp::now();
        // A look at one pool is none at the cluster.
        let subject = pool.map_or_else(|| cluster.to_owned(), |pool| format!("{cluster}/{pool}"));
        let note = |finished, outcome: &str, problem| RunNote {
            id: format!("{subject}-{}", started.as_millisecond()),
            cluster: subject.clone(),
            started,
            finished,
            outcome: outcome.to_owned(),
            problem,
        };
        self.store.note_run(&note(None, "runs", None)).await?;
        let run = async {
            let inputs = engine.live(Some(cluster), self.look_at.unwrap_or_else(super::schedule::present))?;
            let (cluster, pool) = (Some(cluster.to_owned()), pool.map(str::to_owned));
            let wishes = Wishes { cluster, pool, ..Wishes::default() };
            engine.propose(&inputs, &wishes, &Quiet).await
        };
        let done = run.await;
        let (outcome, problem) = match &done {
            Ok(_) => ("done", None),
            Err(error) => ("failed", Some(format!("{error:#}"))),
        };
        self.store.note_run(&note(Some(Timestamp::now()), outcome, problem)).await?;
        let keep = self.show(&done?).await?;
        if pool.is_none() {
            self.forget_pools(cluster, &keep).await?;
        }
        Ok(())
    }

    /// Has the forge send again what did not arrive. The receiver knows what it has.
    async fn redeliver(&self, place: &str) -> anyhow::Result<()> {
        let engine = self.engine();
        let Some(url) = engine.settings().server.url.clone() else { return Ok(()) };
        let here = |cluster: &&ClusterSettings| cluster.repository.place() == place;
        let Some(cluster) = engine.settings().clusters.iter().find(here) else { return Ok(()) };
        let forge = engine.forge(cluster)?;
        let Some(contact) = forge.contact() else { return Ok(()) };
        let since = Timestamp::now().saturating_sub(SignedDuration::from_hours(DELIVERY_HOURS));
        let failed = match contact.failed_deliveries(&url, since.unwrap_or(Timestamp::UNIX_EPOCH)).await {
            Ok(failed) => failed,
            // To see hooks takes rights that the bot need not have.
            Err(
                error
                @ (ForgeError::Denied { .. } | ForgeError::NotFound { .. } | ForgeError::Blocked { .. }),
            ) => {
                tracing::info!(place, "deliveries that did not arrive cannot be seen: {error}");
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        for delivery in &failed {
            tracing::info!(place, delivery = delivery.key, event = delivery.event, "asking for it again");
            if let Err(error) = contact.redeliver(delivery).await {
                tracing::warn!(place, delivery = delivery.key, "it was not sent again: {error}");
            }
        }
        Ok(())
    }

    /// Tells whoever asked that nothing came of it. The word of it is a courtesy.
    async fn apologise(&self, leased: &Leased, error: &anyhow::Error) {
        let Ok(Job::Obey(said)) = serde_json::from_str::<Job>(&leased.payload) else { return };
        // What went wrong may hold addresses of servers that are nobody's business there.
        let why = match error.downcast_ref::<ForgeError>() {
            Some(ForgeError::Blocked { what }) => what.clone(),
            _ => format!(
                "it was tried {} times and failed; the server's log says why. Ask again later",
                leased.attempts
            ),
        };
        if let Err(error) = self.engine().give_up(&said.comment(), &why).await {
            tracing::warn!(comment = said.comment, "nobody was told that it was given up: {error:#}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_job_that_panics_has_failed_and_its_worker_goes_on() {
        let panics = async { panic!("on purpose") };
        let error = whole(panics).await.unwrap_err();
        assert!(error.to_string().contains("a fault of the program"), "{error}");
        assert!(whole(async { Ok(()) }).await.is_ok());
    }
}
