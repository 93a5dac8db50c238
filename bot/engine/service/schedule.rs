//! What happens by the clock.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use jiff::{SignedDuration, Timestamp, TimestampRound, Unit};

use super::Service;
use super::job::{Job, look};
use crate::engine::Engine;
use crate::settings::server::Schedule;
use crate::store::StoreError;

/// Between two looks for deliveries that did not arrive.
const DELIVERIES_EVERY: SignedDuration = SignedDuration::from_mins(10);

/// Between two times that old things are forgotten.
const COMPACT_EVERY: SignedDuration = SignedDuration::from_hours(6);

/// Something that happens by the clock.
struct Planned {
    name: String,
    spec: String,
    job: Job,
    place: String,
    when: When,
}

enum When {
    Cron(Box<Schedule>),
    Every(SignedDuration),
}

impl Planned {
    /// When it happens next. Servers that share a database agree on it.
    fn next(&self, now: Timestamp) -> Option<Timestamp> {
        match &self.when {
            When::Every(span) => now.checked_add(*span).ok(),
            When::Cron(schedule) => {
                let next = schedule.next(now)?;
                let most = schedule.jitter.as_secs();
                let late = if most == 0 { 0 } else { number(&self.name, next) % most };
                next.checked_add(SignedDuration::from_secs(i64::try_from(late).ok()?)).ok()
            }
        }
    }
}

/// A number that looks like chance, and is the same for everybody.
fn number(name: &str, at: Timestamp) -> u64 {
    let mut hasher = DefaultHasher::new();
    (name, at.as_second()).hash(&mut hasher);
    hasher.finish()
}

/// The present in whole minutes, so that a run that is repeated within the minute asks the same.
pub(super) fn present() -> Timestamp {
    let now = Timestamp::now();
    now.round(TimestampRound::new().smallest(Unit::Minute).mode(jiff::RoundMode::Trunc)).unwrap_or(now)
}

fn planned(engine: &Engine) -> Vec<Planned> {
    let settings = engine.settings();
    let mut all = Vec::new();
    let mut places = BTreeSet::new();
    for cluster in &settings.clusters {
        let Ok(schedule) = cluster.schedule.read(Some(&settings.server.schedule)) else { continue };
        let place = cluster.repository.place();
        all.push(Planned {
            name: look(&cluster.name, None),
            spec: schedule.spec.clone(),
            job: Job::Look { cluster: cluster.name.clone(), pool: None },
            place: place.clone(),
            when: When::Cron(Box::new(schedule)),
        });
        for (pool, schedule) in &cluster.pool_schedules {
            // What neither says is as for all clusters.
            let otherwise = cluster.schedule.or(&settings.server.schedule);
            let Ok(schedule) = schedule.read(Some(&otherwise)) else { continue };
            all.push(Planned {
                name: look(&cluster.name, Some(pool)),
                spec: schedule.spec.clone(),
                job: Job::Look { cluster: cluster.name.clone(), pool: Some(pool.clone()) },
                place: place.clone(),
                when: When::Cron(Box::new(schedule)),
            });
        }
        let hooked = |forge: &str| settings.server.hooks.iter().any(|hook| hook.forge == forge);
        let told = settings.server.url.is_some() && cluster.repository.remote().is_some_and(hooked);
        if told && places.insert(place.clone()) {
            all.push(Planned {
                name: format!("deliveries:{place}"),
                spec: "10 min".to_owned(),
                job: Job::Deliveries { place: place.clone() },
                place,
                when: When::Every(DELIVERIES_EVERY),
            });
        }
    }
    all.push(Planned {
        name: "compact".to_owned(),
        spec: "6 h".to_owned(),
        job: Job::Compact,
        place: String::new(),
        when: When::Every(COMPACT_EVERY),
    });
    all
}

impl Service {
    /// Writes down what happens when, for a server that starts or was configured anew. A cluster that nobody looked at yet
    /// is looked at now, and what forges could not tell while no server was there is asked for now.
    ///
    /// # Errors
    /// When the memory cannot be written.
    pub async fn set_up(&self, now: Timestamp) -> anyhow::Result<()> {
        let engine = self.engine();
        let known: BTreeSet<String> = self.store.schedules().await?.into_iter().map(|one| one.name).collect();
        let planned = planned(&engine);
        for one in &planned {
            if let Some(next) = one.next(now) {
                self.store.schedule(&one.name, &one.spec, next).await?;
            }
            let now_too = match one.job {
                Job::Look { pool: None, .. } => !known.contains(&one.name),
                Job::Deliveries { .. } => true,
                Job::Look { pool: Some(_), .. }
                | Job::Hear(_)
                | Job::Obey(_)
                | Job::Tick(_)
                | Job::Glance { .. }
                | Job::Compact => false,
            };
            if now_too {
                self.store.enqueue(&one.job.queued(&one.place, now, SignedDuration::ZERO), now).await?;
            }
        }
        self.store.drop_schedules(&planned.into_iter().map(|one| one.name).collect()).await?;
        self.forget_strangers().await?;
        self.news.send_replace(());
        Ok(())
    }

    /// Puts into the queue what is due; returns when to ask again.
    ///
    /// # Errors
    /// When the memory cannot be asked.
    pub async fn tick(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let planned = planned(&self.engine());
        let mut first = None;
        for known in self.store.schedules().await? {
            let Some(one) = planned.iter().find(|one| one.name == known.name) else { continue };
            if known.next > now {
                first = Some(first.map_or(known.next, |first: Timestamp| first.min(known.next)));
                continue;
            }
            let Some(next) = one.next(now) else { continue };
            let job = one.job.queued(&one.place, now, SignedDuration::ZERO);
            if self.store.fire(&one.name, known.next, next, &[job], now).await? {
                self.news.send_replace(());
            }
            first = Some(first.map_or(next, |first: Timestamp| first.min(next)));
        }
        Ok(first)
    }
}
