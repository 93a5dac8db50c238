//! Health, and the bot's own figures for Prometheus.

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::Shared;
use crate::engine::VERSION;
use crate::engine::service::Health;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Delivered {
    kind: String,
    result: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Job {
    kind: String,
    outcome: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfCluster {
    cluster: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfState {
    state: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Build {
    version: String,
}

/// What is counted.
pub(super) struct Telemetry {
    registry: Registry,
    deliveries: Family<Delivered, Counter>,
    jobs: Family<Job, Counter>,
    queue: Family<OfState, Gauge>,
    waiting_seconds: Gauge,
    looked: Family<OfCluster, Gauge>,
    open: Gauge,
    cards_freed: Gauge,
}

impl Telemetry {
    pub(super) fn new() -> Self {
        let mut registry = Registry::with_prefix("slicewright");
        let all = Self {
            registry: Registry::default(),
            deliveries: Family::default(),
            jobs: Family::default(),
            queue: Family::default(),
            waiting_seconds: Gauge::default(),
            looked: Family::default(),
            open: Gauge::default(),
            cards_freed: Gauge::default(),
        };
        let build = Family::<Build, Gauge>::default();
        build.get_or_create(&Build { version: VERSION.to_owned() }).set(1);
        registry.register("build_info", "The program", build);
        registry.register(
            "deliveries",
            "Deliveries of webhooks, by what became of them",
            all.deliveries.clone(),
        );
        registry.register("jobs", "Jobs that were tried, by how that came out", all.jobs.clone());
        registry.register("queue_jobs", "Jobs in the queue", all.queue.clone());
        registry.register(
            "queue_waiting_seconds",
            "For how long the first job that is due has been waiting",
            all.waiting_seconds.clone(),
        );
        registry.register(
            "last_look_timestamp_seconds",
            "When a cluster was last looked at from end to end; 0: never",
            all.looked.clone(),
        );
        registry.register("open_proposals", "Pools with an open proposal", all.open.clone());
        registry.register("cards_freed", "GPUs that all plans would free", all.cards_freed.clone());
        Self { registry, ..all }
    }

    pub(super) fn delivered(&self, kind: &str, result: &str) {
        // Anybody may ask for any address.
        let kind = if ["github", "gitlab"].contains(&kind) { kind } else { "other" };
        self.deliveries.get_or_create(&Delivered { kind: kind.to_owned(), result: result.to_owned() }).inc();
    }

    pub(super) fn worked(&self, kind: &str, failed: bool, given_up: bool) {
        let outcome = match (failed, given_up) {
            (false, _) => "done",
            (true, false) => "failed",
            (true, true) => "given up",
        };
        self.jobs.get_or_create(&Job { kind: kind.to_owned(), outcome: outcome.to_owned() }).inc();
    }

    fn text(&self, health: &Health, now: Timestamp) -> Result<String, std::fmt::Error> {
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let queue = &health.queue;
        for (state, n) in [
            ("ready", queue.ready),
            ("due", queue.due),
            ("running", queue.running),
            ("interrupted", queue.interrupted),
            ("dead", queue.dead),
        ] {
            self.queue.get_or_create(&OfState { state: state.to_owned() }).set(number(n));
        }
        let waits = queue.oldest_due.map_or(0, |due| now.duration_since(due).as_secs().max(0));
        self.waiting_seconds.set(waits);
        for (cluster, at) in &health.looked {
            let at = at.map_or(0, Timestamp::as_second);
            self.looked.get_or_create(&OfCluster { cluster: cluster.clone() }).set(at);
        }
        self.open.set(number(health.open));
        self.cards_freed.set(number(health.cards_freed));
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// The process answers.
pub(super) async fn alive() -> &'static str {
    "alive\n"
}

/// The memory answers, so that deliveries can be taken.
pub(super) async fn ready(State(shared): State<Shared>) -> Response {
    match shared.service.ready().await {
        Ok(()) => "ready\n".into_response(),
        Err(error) => {
            tracing::error!("not ready: {error}");
            (StatusCode::SERVICE_UNAVAILABLE, "the store does not answer\n").into_response()
        }
    }
}

pub(super) async fn metrics(State(shared): State<Shared>) -> Response {
    let now = Timestamp::now();
    let health = match shared.service.health(now).await {
        Ok(health) => health,
        Err(error) => {
            tracing::error!("no figures: {error}");
            return (StatusCode::SERVICE_UNAVAILABLE, "the store does not answer\n").into_response();
        }
    };
    match shared.telemetry.text(&health, now) {
        Ok(text) => ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "the figures cannot be written\n").into_response(),
    }
}
