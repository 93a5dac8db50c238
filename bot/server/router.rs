//! Which address is whose.

use std::time::Duration;

use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::set_header::SetResponseHeaderLayer;
use tower_http::timeout::TimeoutLayer;
use tracing::Instrument as _;

use super::{Shared, pages, telemetry, webhook};
use crate::settings::server::PagesSettings;

/// Pages need their own style and nothing else.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// Longest that anything takes; deliveries are answered much sooner.
const MOST_TIME: Duration = Duration::from_secs(30);

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

pub(super) fn router(shared: Shared, settings: PagesSettings) -> anyhow::Result<Router> {
    let mut app = Router::new()
        .route("/hooks/{kind}/{name}", post(webhook::receive))
        .route("/healthz", get(telemetry::alive))
        .route("/readyz", get(telemetry::ready))
        .route("/metrics", get(telemetry::metrics));
    if settings.enabled.unwrap_or(true) {
        app = app.merge(pages::routes(settings)?);
    }
    let fixed = |name: HeaderName, value: &'static str| {
        SetResponseHeaderLayer::overriding(name, HeaderValue::from_static(value))
    };
    Ok(app
        .with_state(shared)
        .layer(TimeoutLayer::with_status_code(axum::http::StatusCode::SERVICE_UNAVAILABLE, MOST_TIME))
        .layer(CatchPanicLayer::new())
        .layer(fixed(CONTENT_SECURITY_POLICY, POLICY))
        .layer(fixed(X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .layer(fixed(REFERRER_POLICY, "no-referrer"))
        .layer(fixed(CACHE_CONTROL, "no-store"))
        .layer(middleware::from_fn(logged)))
}

/// Gives every request a number, in the log and in the answer.
async fn logged(request: Request, next: Next) -> Response {
    let id = format!("{:016x}", rand::random::<u64>());
    let path = request.extensions().get::<MatchedPath>().map_or("-", MatchedPath::as_str).to_owned();
    let watches = ["/healthz", "/readyz", "/metrics"].contains(&path.as_str());
    let delivery = delivery_of(&request);
    let span = tracing::info_span!("request", id, method = %request.method(), path, delivery);
    let start = std::time::Instant::now();
    let mut response = next.run(request).instrument(span.clone()).await;
    span.in_scope(|| {
        let (status, took) = (response.status().as_u16(), start.elapsed().as_millis());
        let took_ms = u64::try_from(took).unwrap_or(u64::MAX);
        // Somebody looks every few seconds, and finds what was there before.
        if watches && status < 400 {
            tracing::debug!(status, took_ms, "answered");
        } else {
            tracing::info!(status, took_ms, "answered");
        }
    });
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// What the forge calls the delivery, where it can be such a name: anybody may send anything.
fn delivery_of(request: &Request) -> String {
    let names = ["x-github-delivery", "webhook-id", "idempotency-key", "x-gitlab-event-uuid"];
    let given = names.iter().find_map(|name| request.headers().get(*name)?.to_str().ok());
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    given.filter(|id| id.len() <= 64 && id.chars().all(plain)).unwrap_or("-").to_owned()
}
