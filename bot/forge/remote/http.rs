//! HTTP as both forges speak it: one client, answers by their status, reads that are repeated.
//!
//! Writes are never repeated here: what became of them is looked up first, by whoever wrote.

use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use secrecy::SecretString;
use serde::de::DeserializeOwned;

use crate::forge::settings::Settings;
use crate::forge::{ForgeError, one_line};

/// Largest answer that is read. An archive of a repository that is read in full has less.
pub(in crate::forge) const LARGEST_ANSWER: usize = 256 << 20;

/// An answer with its body.
#[derive(Clone, Debug)]
pub(in crate::forge) struct Answer {
    /// Status.
    pub(in crate::forge) status: StatusCode,
    /// Headers.
    pub(in crate::forge) headers: HeaderMap,
    /// Body.
    pub(in crate::forge) body: Vec<u8>,
}

/// The client for one forge. It follows no redirection: the caller looks at where it goes, since the token goes with it.
///
/// The proxy comes from the environment (`HTTPS_PROXY`, `NO_PROXY`).
///
/// # Errors
/// When the certificate authorities cannot be read.
pub(in crate::forge) fn client(settings: &Settings) -> Result<reqwest::Client, ForgeError> {
    let failed = |what: String, cause: Box<dyn std::error::Error + Send + Sync>| ForgeError::Failed {
        what,
        cause: Some(cause),
    };
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("slicewright/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(10).min(settings.timeout()))
        .timeout(settings.timeout());
    if let Some(path) = &settings.ca_file {
        let pem = std::fs::read(path)
            .map_err(|cause| failed(format!("cannot read `ca_file` {}", path.display()), Box::new(cause)))?;
        let certificates = reqwest::Certificate::from_pem_bundle(&pem)
            .ok()
            .filter(|certificates| !certificates.is_empty())
            .ok_or_else(|| ForgeError::Blocked {
                what: format!("`ca_file` {} holds no certificate in PEM form", path.display()),
            })?;
        builder = builder.tls_certs_merge(certificates);
    }
    builder.build().map_err(|cause| failed("cannot make an HTTP client".into(), Box::new(cause)))
}

/// A secret from the file or the variable that a setting names.
///
/// # Errors
/// When it is not there or empty, by the setting's name.
pub(in crate::forge) fn secret(
    setting: &str,
    file: Option<&std::path::Path>,
    variable: Option<&str>,
) -> Result<SecretString, ForgeError> {
    let blocked = |what: String| ForgeError::Blocked { what };
    let text = match (file, variable) {
        (Some(path), _) => std::fs::read_to_string(path)
            .map_err(|cause| blocked(format!("cannot read `{setting}_file` {}: {cause}", path.display())))?,
        (None, Some(variable)) => std::env::var(variable).map_err(|_| {
            blocked(format!("the environment variable `{variable}` (`{setting}_env`) is not set"))
        })?,
        (None, None) => {
            return Err(blocked(format!("neither `{setting}_file` nor `{setting}_env` is given")));
        }
    };
    let text = text.trim();
    if text.is_empty() {
        return Err(blocked(format!("the secret of `{setting}_file` or `{setting}_env` is empty")));
    }
    Ok(SecretString::from(text.to_owned()))
}

impl Answer {
    /// Reads an answer to its end; `what` says what was asked, `reading the branches of acme/infra`.
    ///
    /// # Errors
    /// When it breaks off, or is larger than anything that is read.
    pub(in crate::forge) async fn read(
        what: &str,
        mut response: reqwest::Response,
    ) -> Result<Self, ForgeError> {
        let (status, headers) = (response.status(), response.headers().clone());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|cause| unanswered(what, cause))? {
            if body.len() + chunk.len() > LARGEST_ANSWER {
                let what = format!("{what}: the answer has more than {} MiB", LARGEST_ANSWER >> 20);
                return Err(ForgeError::Failed { what, cause: None });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Self { status, headers, body })
    }

    /// Itself, if it is a success or says that nothing changed; else the failure that its status stands for.
    ///
    /// # Errors
    /// What the caller does differently; see [`ForgeError`].
    pub(in crate::forge) fn judged(self, what: &str) -> Result<Self, ForgeError> {
        if self.status.is_success() || self.status == StatusCode::NOT_MODIFIED {
            return Ok(self);
        }
        let said = self.said();
        let what = if said.is_empty() { what.to_owned() } else { format!("{what} ({said})") };
        let wait = self.wait();
        Err(match self.status.as_u16() {
            429 => ForgeError::Busy { what, wait },
            403 if wait.is_some() || speaks_of_limits(&said) => ForgeError::Busy { what, wait },
            401 => ForgeError::Blocked {
                what: format!(
                    "{what}: the forge does not know the token or the App, or they have expired: check `token_file`, \
                     `token_env` or `app`"
                ),
            },
            403 | 407 => ForgeError::Denied { what },
            404 | 410 => ForgeError::NotFound { what },
            409 | 412 => ForgeError::Conflict { what },
            500..=599 => ForgeError::Unanswered {
                what: format!("{what}, status {}", self.status.as_u16()),
                cause: None,
            },
            status => {
                ForgeError::Failed { what: format!("{what}: refused with status {status}"), cause: None }
            }
        })
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// When it is something else, with the place.
    pub(in crate::forge) fn json<T: DeserializeOwned>(&self, what: &str) -> Result<T, ForgeError> {
        serde_json::from_slice(&self.body).map_err(|cause| ForgeError::Failed {
            what: format!("{what}: the answer cannot be understood"),
            cause: Some(Box::new(cause)),
        })
    }

    /// The forge's own words about a failure, on one line.
    pub(in crate::forge) fn said(&self) -> String {
        #[derive(serde::Deserialize, Default)]
        struct Said {
            #[serde(default)]
            message: serde_json::Value,
            #[serde(default)]
            error: serde_json::Value,
            /// What GitHub means by "Validation Failed".
            #[serde(default)]
            errors: serde_json::Value,
        }
        let said: Said = serde_json::from_slice(&self.body).unwrap_or_default();
        let reasons: Vec<String> = (said.errors.as_array().into_iter().flatten())
            .filter_map(|reason| Some(reason.get("message")?.as_str()?.to_owned()))
            .collect();
        let text = [said.message, said.error].into_iter().find_map(|value| match value {
            serde_json::Value::Null => None,
            serde_json::Value::String(text) => Some(text),
            other => Some(other.to_string()),
        });
        let text =
            text.unwrap_or_else(|| String::from_utf8_lossy(&self.body[..self.body.len().min(200)]).into());
        let text = if reasons.is_empty() { text } else { format!("{text}: {}", reasons.join("; ")) };
        one_line(&text)
    }

    /// How long the forge asks to wait: `Retry-After`, or the reset of a limit that is used up.
    pub(in crate::forge) fn wait(&self) -> Option<Duration> {
        let number = |name: &str| self.headers.get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
        if let Some(seconds) = number(RETRY_AFTER.as_str()) {
            return Some(Duration::from_secs(seconds));
        }
        let pairs =
            [("x-ratelimit-remaining", "x-ratelimit-reset"), ("ratelimit-remaining", "ratelimit-reset")];
        pairs.into_iter().find_map(|(left, reset)| {
            let now = jiff::Timestamp::now().as_second();
            let reset = i64::try_from(number(reset).filter(|_| number(left) == Some(0))?).ok()?;
            Some(Duration::from_secs(u64::try_from(reset - now).unwrap_or(0)))
        })
    }
}

/// `text` as one part of a path, or as a value in a query.
pub(in crate::forge) fn part(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encoded = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(encoded).collect()
}

/// A moment as forges write one: `2026-01-15T00:00:07Z`, `2026-01-15T01:00:07.123+01:00`.
///
/// # Errors
/// When it is none; `what` says what was read.
pub(in crate::forge) fn moment(text: &str, what: &str) -> Result<jiff::Timestamp, ForgeError> {
    text.parse().map_err(|cause| ForgeError::Failed {
        what: format!("{what}: `{}` is no time", one_line(text)),
        cause: Some(Box::new(cause)),
    })
}

/// The address without what may hold a secret: name, password, query.
pub(in crate::forge) fn bare_address(address: &str) -> String {
    match reqwest::Url::parse(address) {
        Ok(url) if url.origin().is_tuple() => {
            one_line(&format!("{}{}", url.origin().ascii_serialization(), url.path()))
        }
        _ => "an address that is none".to_owned(),
    }
}

/// Neither forge marks its secondary limits by the status alone.
fn speaks_of_limits(said: &str) -> bool {
    let said = said.to_lowercase();
    ["rate limit", "abuse", "too many requests"].iter().any(|words| said.contains(words))
}

/// No answer: by what the network said, without the address, which may hold a secret.
pub(in crate::forge) fn unanswered(what: &str, cause: reqwest::Error) -> ForgeError {
    ForgeError::Unanswered { what: what.to_owned(), cause: Some(Box::new(cause.without_url())) }
}

/// Repeats a read that was not answered, with pauses that grow; anything else is final.
///
/// # Errors
/// Those of the last attempt.
pub(in crate::forge) async fn retried<T, F>(mut read: impl FnMut() -> F) -> Result<T, ForgeError>
where
    F: Future<Output = Result<T, ForgeError>>,
{
    let pauses = ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(100))
        .with_max_delay(Duration::from_secs(5))
        .with_max_times(4)
        .with_jitter();
    (move || read()).retry(pauses).when(|error| matches!(error, ForgeError::Unanswered { .. })).await
}

/// Looks for what a write without an answer may have made, a few times with pauses: lists lag behind.
///
/// # Errors
/// When it cannot be looked for.
pub(in crate::forge) async fn looked_for<T, F>(mut look: impl FnMut() -> F) -> Result<Option<T>, ForgeError>
where
    F: Future<Output = Result<Option<T>, ForgeError>>,
{
    let pauses = ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(100))
        .with_max_delay(Duration::from_secs(2))
        .with_max_times(3);
    let found = (move || {
        let look = look();
        async { look.await.map_err(Some)?.ok_or(None) }
    })
    .retry(pauses)
    .when(Option::is_none)
    .await;
    match found {
        Ok(found) => Ok(Some(found)),
        Err(None) => Ok(None),
        Err(Some(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&'static str, &str)], body: &str) -> Answer {
        let headers =
            headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        Answer { status: StatusCode::from_u16(status).unwrap(), headers, body: body.into() }
    }

    fn judged(status: u16, headers: &[(&'static str, &str)], body: &str) -> String {
        match answer(status, headers, body).judged("reading acme/infra") {
            Ok(_) => "ok".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_status_becomes_what_its_reader_does_about_it() {
        assert_eq!(judged(200, &[], ""), "ok");
        assert_eq!(judged(304, &[], ""), "ok");
        assert_eq!(
            judged(404, &[], r#"{"message":"Not Found"}"#),
            "reading acme/infra (Not Found) was not found"
        );
        assert_eq!(
            judged(403, &[], r#"{"message":"Forbidden"}"#),
            "reading acme/infra (Forbidden) was denied"
        );
        assert_eq!(
            judged(403, &[("retry-after", "60")], "{}"),
            "reading acme/infra ({}): the forge asks to wait 60 s"
        );
        assert_eq!(
            judged(403, &[], r#"{"message":"You have exceeded a secondary rate limit"}"#),
            "reading acme/infra (You have exceeded a secondary rate limit): the forge asks to wait"
        );
        assert!(judged(401, &[], "").ends_with("check `token_file`, `token_env` or `app`"));
        assert_eq!(judged(429, &[], ""), "reading acme/infra: the forge asks to wait");
        assert_eq!(judged(502, &[], ""), "reading acme/infra, status 502: no answer");
        assert_eq!(
            judged(422, &[], r#"{"message":{"base":["is gone"]}}"#),
            r#"reading acme/infra ({"base":["is gone"]}): refused with status 422"#
        );
    }

    #[test]
    fn a_limit_that_is_used_up_says_when_it_ends() {
        let at = (jiff::Timestamp::now().as_second() + 1_000).to_string();
        let limited = answer(403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &at)], "");
        assert!((990..=1_000).contains(&limited.wait().unwrap().as_secs()));
        let free = answer(403, &[("x-ratelimit-remaining", "7"), ("x-ratelimit-reset", &at)], "");
        assert_eq!(free.wait(), None);
    }

    #[test]
    fn a_part_of_a_path_stays_one() {
        assert_eq!(part("slicewright/a#b ü"), "slicewright%2Fa%23b%20%C3%BC");
    }

    #[test]
    fn the_forges_words_are_one_line() {
        assert_eq!(answer(400, &[], "a\nb\u{1b}[31m").said(), "a b [31m");
        assert_eq!(answer(400, &[], &format!(r#"{{"error":"{}"}}"#, "x".repeat(999))).said().len(), 300);
    }

    #[tokio::test]
    async fn a_read_is_repeated_while_no_answer_comes_and_then_not() {
        let mut n_asked = 0;
        let answer = retried(|| {
            n_asked += 1;
            let result = match n_asked {
                1 | 2 => Err(ForgeError::Unanswered { what: "x".into(), cause: None }),
                _ => Err::<(), _>(ForgeError::NotFound { what: "x".into() }),
            };
            async { result }
        });
        assert!(matches!(answer.await, Err(ForgeError::NotFound { .. })));
        assert_eq!(n_asked, 3);
    }
}
