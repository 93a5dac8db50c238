//! What forges tell by webhooks: bytes to an event, or a reason to refuse them.
//!
//! An event is only a wake-up. What it says was true when it was sent, at best: whoever acts on it asks the forge.

mod signature;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use secrecy::SecretString;
use sha2::{Digest as _, Sha256};
use slicewright_core::ids::PoolId;

use super::contact::Person;
use super::settings::RemoteKind;
use super::{github, gitlab};

/// What deliveries are signed with. Several of each, so that one can follow the other without a gap.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    /// GitHub: the webhook's secret. GitLab: a signing token, `whsec_…`.
    pub signing: Vec<SecretString>,
    /// GitLab: the hook's secret token, which is sent as it is. Looked at only where nothing is signed.
    pub tokens: Vec<SecretString>,
}

/// One delivery that comes from the forge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The same for every attempt at it.
    pub key: String,
    /// The forge's word for what it is about, `issue_comment`.
    pub name: String,
    /// What it tells.
    pub news: News,
}

/// What a delivery tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Something in a repository.
    Event(Event),
    /// The hook works.
    Ping,
    /// The App was installed somewhere, or taken away.
    Installation,
    /// Nothing that the bot acts upon, and why.
    Nothing(&'static str),
}

/// Something in a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The repository's path, `acme/infra`.
    pub repository: String,
    /// What happened there.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Somebody wrote a comment on a merge request.
    Comment {
        /// The merge request's number.
        request: String,
        /// What the forge calls the comment.
        comment: String,
        /// Who wrote it.
        author: Person,
        /// The author is no person, as far as the forge says.
        is_bot: bool,
        /// The text.
        text: String,
        /// Head of the branch at that moment, where the forge says it.
        head: Option<String>,
        /// Not everybody who sees the merge request sees it.
        internal: bool,
    },
    /// A comment on a merge request is gone.
    CommentGone {
        /// The merge request's number.
        request: String,
        /// What the forge called it.
        comment: String,
    },
    /// Somebody ticked boxes on an issue.
    Ticked {
        /// The issue's number.
        issue: String,
        /// The pools of the boxes that are ticked now and were not before.
        pools: Vec<PoolId>,
        /// Who did it. Nobody can be asked for that later.
        by: Person,
        /// That is no person, as far as the forge says.
        is_bot: bool,
    },
    /// A merge request was opened, changed, approved, closed or merged.
    Request {
        /// Its number.
        request: String,
        /// Its branch; `None` where that is in another repository.
        branch: Option<String>,
    },
    /// A branch was moved.
    Push {
        /// The branch.
        branch: String,
    },
}

/// Why a delivery is not taken. No variant holds anything of what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// A header is not there that every delivery has.
    #[error("the header `{0}` is missing")]
    Header(&'static str),
    /// Another content type.
    #[error("the content type must be `application/json`: choose it in the webhook's settings")]
    ContentType,
    /// Nothing proves where it comes from, or the proof does not hold.
    #[error("the signature does not hold")]
    Signature,
    /// The signature is older than five minutes, or from times to come.
    #[error("the signature is too old or from times to come: check the clocks")]
    Stale,
    /// It is signed, and no JSON.
    #[error("the body is no JSON object")]
    Malformed,
}

/// Looks at the headers alone, before the body is read: what can be refused by them costs nothing more.
///
/// # Errors
/// Why the delivery is not taken.
pub fn look(kind: RemoteKind, headers: &HeaderMap) -> Result<(), Rejected> {
    let required: &[&str] = match kind {
        RemoteKind::GitHub => &["x-github-event", "x-github-delivery", "x-hub-signature-256"],
        RemoteKind::GitLab => &["x-gitlab-event"],
    };
    if let Some(missing) = required.iter().find(|name| !headers.contains_key(**name)) {
        return Err(Rejected::Header(missing));
    }
    if kind == RemoteKind::GitLab
        && !headers.contains_key("webhook-signature")
        && !headers.contains_key("x-gitlab-token")
    {
        return Err(Rejected::Header("webhook-signature"));
    }
    let content_type = text(headers, CONTENT_TYPE.as_str()).unwrap_or_default();
    let is_json = content_type
        .split(';')
        .next()
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
    if is_json { Ok(()) } else { Err(Rejected::ContentType) }
}

/// Reads a delivery: the signature over the very bytes first, then what they say.
///
/// # Errors
/// Why it is not taken.
pub fn read(
    kind: RemoteKind,
    headers: &HeaderMap,
    body: &[u8],
    secrets: &Secrets,
    now: Timestamp,
) -> Result<Delivery, Rejected> {
    look(kind, headers)?;
    match kind {
        RemoteKind::GitHub => signature::github(headers, body, secrets)?,
        RemoteKind::GitLab => signature::gitlab(headers, body, secrets, now)?,
    }
    let key_headers: &[&str] = match kind {
        RemoteKind::GitHub => &["x-github-delivery"],
        RemoteKind::GitLab => &["webhook-id", "idempotency-key"],
    };
    let key = key_headers.iter().find_map(|name| text(headers, name)).filter(|key| !key.is_empty());
    let name = text(headers, if kind == RemoteKind::GitHub { "x-github-event" } else { "x-gitlab-event" });
    let name = name.unwrap_or_default();
    let news = told(kind, name, body)?;
    // A GitLab before 17.4 numbers nothing. Comments and merge requests carry numbers and times; the same move of a branch,
    // made again, counts once there, and the next look at the branch sees it anyway.
    let key = key.map_or_else(|| format!("sha256-{:x}", HexOf(&Sha256::digest(body))), str::to_owned);
    Ok(Delivery { key, name: name.to_owned(), news })
}

/// What a body tells as the event `name`, whoever sent it.
///
/// # Errors
/// When it is no JSON object.
pub fn told(kind: RemoteKind, name: &str, body: &[u8]) -> Result<News, Rejected> {
    let said: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(body).map_err(|_| Rejected::Malformed)?;
    let said = serde_json::Value::Object(said);
    Ok(match kind {
        RemoteKind::GitHub => github::webhook::news(name, &said),
        RemoteKind::GitLab => gitlab::webhook::news(name, &said),
    })
}

struct HexOf<'a>(&'a [u8]);

impl std::fmt::LowerHex for HexOf<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A header's text; `None` where it is missing or no text.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}
