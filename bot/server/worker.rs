//! The event loop: workers that take jobs, and the clock.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::telemetry::Telemetry;
use crate::engine::service::{Service, Urgency, Worked};

/// Longest wait before the queue is asked again: jobs that other servers put there ring no bell here.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Shortest one: in a flood of deliveries nobody looks into the queue after each.
const SHORTEST_WAIT: Duration = Duration::from_millis(20);

/// Workers that only hear, so that a person need not wait until a measurement is over.
const LISTENERS: u32 = 2;

/// Workers in work.
pub(super) struct Workers(JoinSet<()>);

impl Workers {
    /// Waits until everybody has put down the job that they have, but no longer than this.
    pub(super) async fn end(mut self, most: Duration) {
        let all = async { while self.0.join_next().await.is_some() {} };
        if tokio::time::timeout(most, all).await.is_err() {
            tracing::warn!("jobs are left in the middle; they are done again when their lease is over");
        }
    }
}

pub(super) fn start(
    service: &Arc<Service>,
    telemetry: &Arc<Telemetry>,
    n_workers: u32,
    stop: &CancellationToken,
) -> Workers {
    let mut all = JoinSet::new();
    let process = std::process::id();
    let listeners = (0..LISTENERS).map(|n| (format!("{process}-hear-{n}"), Urgency::Soon));
    let others = (0..n_workers).map(|n| (format!("{process}-work-{n}"), Urgency::Later));
    for (name, urgency) in listeners.chain(others) {
        let (service, telemetry, stop) = (Arc::clone(service), Arc::clone(telemetry), stop.clone());
        let runtime = tokio::runtime::Handle::current();
        // A thread each: to plan a fleet is work for a processor, and deliveries must not wait for it.
        all.spawn_blocking(move || runtime.block_on(work(service, telemetry, name, urgency, stop)));
    }
    all.spawn(clock(Arc::clone(service), stop.clone()));
    Workers(all)
}

async fn work(
    service: Arc<Service>,
    telemetry: Arc<Telemetry>,
    name: String,
    urgency: Urgency,
    stop: CancellationToken,
) {
    let mut news = service.news();
    while !stop.is_cancelled() {
        news.borrow_and_update();
        let pause = match service.work(&name, urgency).await {
            Ok(Worked::Did { kind, failed, given_up }) => {
                telemetry.worked(&kind, failed.is_some(), given_up);
                continue;
            }
            Ok(Worked::Nothing { until }) => until.map_or(LONGEST_WAIT, from_now).min(LONGEST_WAIT),
            Err(error) => {
                tracing::error!("the queue cannot be asked: {error}");
                LONGEST_WAIT
            }
        };
        let waited = async {
            tokio::time::sleep(SHORTEST_WAIT).await;
            // The sender lives as long as the service.
            let _ = tokio::time::timeout(pause.saturating_sub(SHORTEST_WAIT), news.changed()).await;
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = waited => {}
        }
    }
}

/// Puts into the queue what is due by the clock.
async fn clock(service: Arc<Service>, stop: CancellationToken) {
    const LONGEST: Duration = Duration::from_secs(30);
    loop {
        let pause = match service.tick(Timestamp::now()).await {
            Ok(next) => next.map_or(LONGEST, from_now).min(LONGEST),
            Err(error) => {
                tracing::error!("the schedules cannot be asked: {error}");
                LONGEST
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// How long until a moment; a little at least, so that nobody turns in circles.
fn from_now(at: Timestamp) -> Duration {
    let left = Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
    left.max(Duration::from_millis(50))
}
