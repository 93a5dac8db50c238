//! Read-only pages, for whoever is let in.

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use base64::Engine as _;
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq as _;

use super::Shared;
use crate::engine::service::{problem_page, style};
use crate::settings::server::PagesSettings;

/// Who is let in.
#[derive(Clone)]
struct Door {
    /// Digest of `user:password`.
    password: Option<[u8; 32]>,
    /// Header in which a proxy says who it let in.
    forwarded: Option<HeaderName>,
}

/// The pages below `/`.
///
/// # Errors
/// When the password cannot be read, or the header is no name.
pub(super) fn routes(settings: PagesSettings) -> anyhow::Result<Router<Shared>> {
    let door = Door::new(&settings)?;
    Ok(
        Router::new()
            .route("/", get(overview))
            .route("/pools/{cluster}/{pool}", get(pool))
            .layer(middleware::from_fn(move |request: Request, next: Next| {
                let door = door.clone();
                async move {
                    if door.lets_in(request.headers()) { next.run(request).await } else { door.keeps_out() }
                }
            }))
            .route("/style.css", get(styled)),
    )
}

impl Door {
    fn new(settings: &PagesSettings) -> anyhow::Result<Self> {
        use anyhow::Context as _;
        let password = match (&settings.user, &settings.password_file) {
            (Some(user), Some(path)) => {
                let text = std::fs::read_to_string(path).with_context(|| {
                    format!("`server.pages.password_file`: cannot read `{}`", path.display())
                })?;
                let password = text.trim_end_matches(['\r', '\n']);
                anyhow::ensure!(!password.is_empty(), "`server.pages.password_file` holds no password");
                Some(digest(&format!("{user}:{password}")))
            }
            _ => None,
        };
        let forwarded = settings.forwarded_user_header.as_deref().map(HeaderName::try_from).transpose();
        let forwarded = forwarded.context("`server.pages.forwarded_user_header` is no name of a header")?;
        Ok(Self { password, forwarded })
    }

    fn lets_in(&self, headers: &HeaderMap) -> bool {
        let knows = |password: &[u8; 32]| {
            let given =
                headers.get(AUTHORIZATION).and_then(|given| given.to_str().ok()?.strip_prefix("Basic "));
            let given = given.and_then(|given| base64::engine::general_purpose::STANDARD.decode(given).ok());
            given.is_some_and(|given| bool::from(Sha256::digest(&given).as_slice().ct_eq(password)))
        };
        let sent = |name: &HeaderName| headers.get(name).is_some_and(|who| !who.is_empty());
        match (&self.password, &self.forwarded) {
            (None, None) => true,
            (password, forwarded) => {
                password.as_ref().is_some_and(knows) || forwarded.as_ref().is_some_and(sent)
            }
        }
    }

    fn keeps_out(&self) -> Response {
        let mut response = (StatusCode::UNAUTHORIZED, "who are you?\n").into_response();
        if self.password.is_some() {
            let ask = HeaderValue::from_static("Basic realm=\"Slicewright\", charset=\"UTF-8\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, ask);
        }
        response
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

async fn styled() -> Response {
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], style()).into_response()
}

async fn overview(State(shared): State<Shared>) -> Response {
    match shared.service.overview_page(Timestamp::now()).await {
        Ok(page) => Html(page).into_response(),
        Err(error) => out_of_order(&error),
    }
}

async fn pool(State(shared): State<Shared>, Path((cluster, pool)): Path<(String, String)>) -> Response {
    match shared.service.pool_page(&cluster, &pool, Timestamp::now()).await {
        Ok(Some(page)) => Html(page).into_response(),
        Ok(None) => problem(StatusCode::NOT_FOUND, "Not found", "Nothing is known of such a pool."),
        Err(error) => out_of_order(&error),
    }
}

fn out_of_order(error: &anyhow::Error) -> Response {
    tracing::error!("a page cannot be shown: {error:#}");
    let what = "The server cannot read what it knows. Its log says why.";
    problem(StatusCode::SERVICE_UNAVAILABLE, "Out of order", what)
}

fn problem(status: StatusCode, title: &str, what: &str) -> Response {
    match problem_page(title, what, Timestamp::now()) {
        Ok(page) => (status, Html(page)).into_response(),
        Err(_) => status.into_response(),
    }
}
