//! Deliveries: refused by their headers first, then read, proven and written down, and only then answered.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use tokio::sync::Semaphore;

use super::Shared;
use crate::engine::service::{Received, Refused, most_bytes};

/// How long it may take until the body is there, with the wait for a turn. GitHub and GitLab wait ten seconds for the
/// answer.
const BODY_TIME: Duration = Duration::from_secs(8);

/// How long a delivery may wait until others are written down: GitHub sends none again of its own accord.
const TURN_TIME: Duration = Duration::from_secs(5);

/// What is longer is read by few at a time, since nobody knows yet who sent it.
const LARGE: usize = 1 << 20;

/// Long bodies at once; each takes up to 25 MiB.
static LARGE_ONES: Semaphore = Semaphore::const_new(4);

/// Short bodies at once.
static SMALL_ONES: Semaphore = Semaphore::const_new(256);

pub(super) async fn receive(
    State(shared): State<Shared>,
    Path((kind, name)): Path<(String, String)>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let answer = take(&shared, &kind, &name, &parts.headers, body).await;
    let (result, response) = match answer {
        Ok(received) => shown(received),
        Err(turned_away) => turned_away,
    };
    shared.telemetry.delivered(&kind, result);
    response
}

type Answer = (&'static str, Response);

async fn take(
    shared: &Shared,
    kind: &str,
    name: &str,
    headers: &HeaderMap,
    body: Body,
) -> Result<Received, Answer> {
    shared.service.look_at(kind, name, headers).map_err(|refused| turned_away(&refused))?;
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > most_bytes()) {
        return Err(too_large());
    }
    // Without a length it may become a long one.
    let is_large = length.is_none_or(|length| length > LARGE);
    let by = tokio::time::Instant::now() + BODY_TIME;
    let turn = if is_large { LARGE_ONES.acquire() } else { SMALL_ONES.acquire() };
    let Ok(Ok(_permit)) = tokio::time::timeout(TURN_TIME, turn).await else {
        return Err(later("too many deliveries at once"));
    };
    let most = if is_large { most_bytes() } else { LARGE };
    let body = match tokio::time::timeout_at(by, to_bytes(body, most)).await {
        Err(_) => return Err(("slow", plain(StatusCode::REQUEST_TIMEOUT, "the body took too long"))),
        Ok(Err(_)) => return Err(too_large()),
        Ok(Ok(body)) => body,
    };
    let received = shared.service.receive(kind, name, headers, &body, Timestamp::now()).await;
    received.map_err(|refused| {
        if let Refused::Unavailable(cause) = &refused {
            tracing::error!("a delivery cannot be written down: {cause}");
        }
        turned_away(&refused)
    })
}

fn shown(received: Received) -> Answer {
    match received {
        Received::New => ("new", plain(StatusCode::ACCEPTED, "it will be done")),
        Received::Again => ("again", plain(StatusCode::OK, "it came before")),
        Received::Nothing(why) => ("nothing", plain(StatusCode::OK, why)),
    }
}

fn turned_away(refused: &Refused) -> Answer {
    use crate::engine::service::Reason;
    let said = refused.to_string();
    match refused.reason() {
        Reason::Unknown => ("unknown", plain(StatusCode::NOT_FOUND, &said)),
        Reason::Incomplete => ("refused", plain(StatusCode::BAD_REQUEST, &said)),
        Reason::ContentType => ("refused", plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, &said)),
        Reason::Unproven => ("unproven", plain(StatusCode::UNAUTHORIZED, &said)),
        Reason::Unavailable => later(&said),
    }
}

fn too_large() -> Answer {
    ("too large", plain(StatusCode::PAYLOAD_TOO_LARGE, "the body is longer than 25 MiB"))
}

fn later(why: &str) -> Answer {
    let mut response = plain(StatusCode::SERVICE_UNAVAILABLE, why);
    response.headers_mut().insert(RETRY_AFTER, axum::http::HeaderValue::from_static("30"));
    ("unavailable", response)
}

/// Words of ours alone: forges show answers to whoever may see the hook.
fn plain(status: StatusCode, words: &str) -> Response {
    (status, [(CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{words}\n")).into_response()
}
