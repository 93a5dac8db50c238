//! HTTP to one server: authentication, limits, retries, and errors that say what to do.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue as HttpHeaderValue, RETRY_AFTER};
use reqwest::{StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};

use super::error::{AskError, Problem, SettingsError, one_line};
use super::response::{Answer, Complaint, NotAnAnswer, parse};
use super::settings::{HeaderValue, Settings};
use super::{Ask, Source};

/// A server, ready to be asked.
pub struct Client {
    http: reqwest::Client,
    endpoint: Url,
    auth: Auth,
    timeout: Duration,
    max_bytes: u64,
    /// First pause before a retry; tests make it short.
    first_pause: Duration,
}

enum Auth {
    None,
    Bearer(SecretString),
    BearerFile(std::path::PathBuf),
    Basic(String, SecretString),
}

impl Auth {
    fn advice(&self) -> &'static str {
        match self {
            Self::None => {
                "no credentials are configured: set `bearer_token_file`, `bearer_token_env` or `username` \
                 with `password_file`; a tenant needs `headers: {X-Scope-OrgID: …}`"
            }
            Self::Bearer(_) => "check the token in the variable that `bearer_token_env` names",
            Self::BearerFile(_) => "check the token in `bearer_token_file`",
            Self::Basic(..) => "check `username` and the password in `password_file` or `password_env`",
        }
    }
}

const RETRIES: usize = 3;
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
const MOST_ERROR_BYTES: u64 = 64 << 10;
const MOST_DETAIL: usize = 300;

impl Client {
    /// Checks the settings, reads the secrets and builds the client. Nothing is sent yet.
    ///
    /// The proxy comes from the environment (`HTTPS_PROXY`, `NO_PROXY`).
    ///
    /// # Errors
    /// A setting that cannot be used, by its name.
    pub fn new(settings: &Settings) -> Result<Self, SettingsError> {
        let endpoint = endpoint(&settings.url)?;
        let auth = auth(settings)?;
        let mut headers = HeaderMap::new();
        for (name, value) in &settings.headers {
            let place = format!("headers.{name}");
            let secret = header_value(&place, value)?;
            let header = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| SettingsError::Conflict(format!("`{place}` is not a header name")))?;
            let mut value = HttpHeaderValue::from_str(secret.expose_secret()).map_err(|_| {
                SettingsError::Conflict(format!("the value of `{place}` cannot be sent in a header"))
            })?;
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("slicewright/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            // A redirection would carry headers with secrets to another host, and turns the POST into a GET.
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(10))
            .timeout(settings.timeout() + Duration::from_secs(10));
        if let Some(path) = &settings.ca_file {
            let shown = path.display().to_string();
            let pem = std::fs::read(path).map_err(|cause| SettingsError::File {
                setting: "ca_file",
                path: shown.clone(),
                cause,
            })?;
            let certificates = reqwest::Certificate::from_pem_bundle(&pem)
                .ok()
                .filter(|certificates| !certificates.is_empty())
                .ok_or(SettingsError::Certificate { path: shown })?;
            builder = builder.tls_certs_merge(certificates);
        }
        Ok(Self {
            http: builder.build().map_err(SettingsError::Client)?,
            endpoint,
            auth,
            timeout: settings.timeout(),
            max_bytes: settings.max_answer_bytes(),
            first_pause: Duration::from_millis(500),
        })
    }

    /// The same client with another first pause before a retry.
    #[must_use]
    pub fn with_first_pause(mut self, pause: Duration) -> Self {
        self.first_pause = pause;
        self
    }

    #[tracing::instrument(name = "query", skip_all, fields(name = ask.name, what = ask.what))]
    async fn once(&self, ask: &Ask) -> Result<Answer, Failure> {
        let time = {
            let milliseconds = ask.time.as_millisecond();
            format!("{}.{:03}", milliseconds.div_euclid(1_000), milliseconds.rem_euclid(1_000))
        };
        let timeout = format!("{}s", self.timeout.as_secs());
        let form = [
            ("query", ask.query.as_str()),
            ("time", &time),
            ("timeout", &timeout),
            ("stats", "all"),
            // Thanos: both replicas as one, no silent gaps, no averages instead of raw samples.
            ("dedup", "true"),
            ("partial_response", "false"),
            ("max_source_resolution", "0s"),
            // VictoriaMetrics: no silent gaps, no cached answers of a moment ago.
            ("deny_partial_response", "1"),
            ("nocache", "1"),
        ];
        let mut request = self.http.post(self.endpoint.clone()).form(&form);
        request = match &self.auth {
            Auth::None => request,
            Auth::Bearer(token) => request.bearer_auth(token.expose_secret()),
            Auth::BearerFile(path) => {
                let token = tokio::fs::read_to_string(path).await.map_err(|cause| {
                    let detail = format!("`bearer_token_file`: {cause}");
                    Failure::from(self.error(ask, Problem::Denied, None, detail))
                })?;
                let token = SecretString::from(token.trim().to_owned());
                request.bearer_auth(token.expose_secret())
            }
            Auth::Basic(user, password) => request.basic_auth(user, Some(password.expose_secret())),
        };
        let mut response = request.send().await.map_err(|error| self.transport(ask, error))?;
        let status = response.status();
        let wait = retry_after(response.headers());
        let limit = if status.is_success() { self.max_bytes } else { MOST_ERROR_BYTES };
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.transport(ask, error))? {
            if body.len() as u64 + chunk.len() as u64 > limit {
                if status.is_success() {
                    let detail = format!("the answer is larger than {} MiB", limit >> 20);
                    return Err(self.error(ask, Problem::TooMuch, Some(status), detail).into());
                }
                break;
            }
            body.extend_from_slice(&chunk);
        }
        let parsed = tokio::task::spawn_blocking(move || {
            let parsed = parse(&body);
            (parsed, body)
        })
        .await;
        let Ok((parsed, body)) = parsed else {
            return Err(self.error(ask, Problem::Malformed, Some(status), String::new()).into());
        };
        match parsed {
            Ok(answer) if status.is_success() && answer.warnings.is_empty() => Ok(answer),
            Ok(answer) if status.is_success() => {
                let detail = one_line(&answer.warnings.join("; "), MOST_DETAIL);
                Err(self.error(ask, Problem::Partial, Some(status), detail).into())
            }
            Ok(_) => Err(self.by_status(ask, status, &Complaint::default(), wait)),
            Err(NotAnAnswer::Complaint(complaint)) => Err(self.by_status(ask, status, &complaint, wait)),
            Err(NotAnAnswer::Malformed(why)) if status.is_success() => {
                Err(self.error(ask, Problem::Malformed, Some(status), one_line(&why, MOST_DETAIL)).into())
            }
            Err(NotAnAnswer::Malformed(_)) => {
                let text = String::from_utf8_lossy(&body[..body.len().min(2_000)]).into_owned();
                Err(self.by_status(ask, status, &Complaint { kind: String::new(), text }, wait))
            }
        }
    }

    /// An answer that is an error, by its status and the server's words.
    fn by_status(&self, ask: &Ask, status: StatusCode, said: &Complaint, wait: Option<Duration>) -> Failure {
        let detail = one_line(&said.text, MOST_DETAIL);
        let (problem, again) = match status.as_u16() {
            401 | 403 | 407 => (Problem::Denied, false),
            404 | 405 | 300..=399 => (Problem::NotFound, false),
            408 | 413 | 414 => (Problem::TooMuch, false),
            429 => (Problem::TooMuch, true),
            503 if said.kind == "timeout" || said.kind == "canceled" => (Problem::TooMuch, false),
            502..=504 => (Problem::TooMuch, true),
            500 | 505..=599 if speaks_of_limits(&said.text) => (Problem::TooMuch, false),
            500 | 505..=599 => (Problem::Unreachable, true),
            _ if said.kind == "timeout" || speaks_of_limits(&said.text) => (Problem::TooMuch, false),
            _ => (Problem::Refused, false),
        };
        Failure { error: self.error(ask, problem, Some(status), detail), again, wait }
    }

    /// No answer: by what the network said.
    fn transport(&self, ask: &Ask, error: reqwest::Error) -> Failure {
        let error = error.without_url();
        let mut words = vec![error.to_string()];
        let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(&error);
        while let Some(inner) = cause {
            words.push(inner.to_string());
            cause = inner.source();
        }
        words.dedup();
        let text = words.join(": ");
        let detail = one_line(&text, MOST_DETAIL);
        if error.is_timeout() && !error.is_connect() {
            let detail = format!("no answer within {} s", self.timeout.as_secs());
            return self.error(ask, Problem::TooMuch, None, detail).into();
        }
        let lower = text.to_lowercase();
        let mut failure = self.error(ask, Problem::Unreachable, None, detail);
        let tls =
            ["certificate", "tls", "handshake", "unknownissuer"].iter().any(|word| lower.contains(word));
        if tls {
            failure.advice =
                "check the server's certificate: `ca_file` names the authority to trust, and the host in `url` \
                 must be the certificate's"
                    .to_owned();
        }
        Failure { again: !tls, error: failure, wait: None }
    }

    fn error(&self, ask: &Ask, problem: Problem, status: Option<StatusCode>, detail: String) -> AskError {
        let host = self.endpoint.host_str().unwrap_or_default();
        let advice = match problem {
            Problem::Unreachable => format!(
                "check `url` (host `{host}`), that this machine can reach it, and `HTTPS_PROXY`/`NO_PROXY`"
            ),
            Problem::Denied => self.auth.advice().to_owned(),
            Problem::NotFound => format!(
                "`url` must be the part before `/api/v1`; asked `{}`. Many servers have a prefix: `/prometheus`, \
                 `/select/0/prometheus`, `/api/prom`",
                self.endpoint.path()
            ),
            Problem::TooMuch => {
                "smaller questions are tried by themselves; if they fail too, raise the server's query limits or \
                 `timeout_seconds`"
                    .to_owned()
            }
            Problem::Refused => "the server's message says why".to_owned(),
            Problem::Partial => "a store or replica behind the server is down: run again when it is back".to_owned(),
            Problem::Malformed => "`url` may lead to a proxy or a login page instead of Prometheus".to_owned(),
            Problem::NotRecorded => "record again with this version and these settings".to_owned(),
        };
        let status = status.map(|status| status.as_u16());
        let detail = match status {
            Some(code) if code != 200 && detail.is_empty() => format!("status {code}"),
            Some(code) if code != 200 => format!("status {code}: {detail}"),
            _ => detail,
        };
        AskError { what: ask.what.clone(), problem, status, detail, advice }
    }
}

impl Source for Client {
    async fn instant(&self, ask: &Ask) -> Result<Answer, AskError> {
        let mut pauses = ExponentialBuilder::new()
            .with_min_delay(self.first_pause)
            .with_max_delay(LONGEST_PAUSE)
            .with_max_times(RETRIES)
            .build();
        loop {
            let failure = match self.once(ask).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let pause = if failure.again { pauses.next() } else { None };
            let Some(pause) = pause else { return Err(failure.error) };
            let pause = failure.wait.unwrap_or(pause).min(LONGEST_PAUSE);
            tracing::debug!(error = %failure.error, ?pause, "asking again");
            tokio::time::sleep(pause).await;
        }
    }
}

struct Failure {
    error: AskError,
    again: bool,
    wait: Option<Duration>,
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Self {
        Self { error, again: false, wait: None }
    }
}

/// The words in which servers say that a query asks for too much: Prometheus, VictoriaMetrics, Mimir, Thanos, Amazon.
fn speaks_of_limits(text: &str) -> bool {
    let lower = text.to_lowercase();
    [
        "too many",
        "too large",
        "too long",
        "exceed",
        "limit",
        "maximum",
        "cannot select more than",
        "timed out",
        "out of memory",
    ]
    .iter()
    .any(|word| lower.contains(word))
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

fn endpoint(url: &str) -> Result<Url, SettingsError> {
    let mut endpoint = Url::parse(url).map_err(|error| SettingsError::Url(format!("{error}")))?;
    if !matches!(endpoint.scheme(), "http" | "https") {
        return Err(SettingsError::Url("must start with `http://` or `https://`".to_owned()));
    }
    if !endpoint.username().is_empty() || endpoint.password().is_some() {
        return Err(SettingsError::Url(
            "must not hold credentials: use `username` and `password_file`".to_owned(),
        ));
    }
    let path = endpoint.path().trim_end_matches('/');
    let path = path.strip_suffix("/api/v1").unwrap_or(path).to_owned();
    endpoint.set_path(&format!("{path}/api/v1/query"));
    endpoint.set_fragment(None);
    Ok(endpoint)
}

fn auth(settings: &Settings) -> Result<Auth, SettingsError> {
    let bearer = (&settings.bearer_token_file, &settings.bearer_token_env);
    let password = (&settings.password_file, &settings.password_env);
    let conflict = |text: &str| Err(SettingsError::Conflict(text.to_owned()));
    match (bearer, &settings.username, password) {
        ((None, None), None, (None, None)) => Ok(Auth::None),
        ((Some(_), Some(_)), ..) => conflict("`bearer_token_file` and `bearer_token_env` exclude each other"),
        ((Some(_), _) | (_, Some(_)), Some(_), _) => {
            conflict("a bearer token and `username` exclude each other")
        }
        ((Some(path), None), None, (None, None)) => {
            read_secret("bearer_token_file", path)?;
            Ok(Auth::BearerFile(path.clone()))
        }
        ((None, Some(variable)), None, (None, None)) => {
            Ok(Auth::Bearer(from_env("bearer_token_env", variable)?))
        }
        ((None, None), Some(_), (Some(_), Some(_))) => {
            conflict("`password_file` and `password_env` exclude each other")
        }
        ((None, None), Some(user), (Some(path), None)) => {
            Ok(Auth::Basic(user.clone(), read_secret("password_file", path)?))
        }
        ((None, None), Some(user), (None, Some(variable))) => {
            Ok(Auth::Basic(user.clone(), from_env("password_env", variable)?))
        }
        ((None, None), Some(_), (None, None)) => {
            conflict("`username` needs `password_file` or `password_env`")
        }
        (_, None, _) => conflict("a password needs `username`"),
    }
}

fn header_value(place: &str, value: &HeaderValue) -> Result<SecretString, SettingsError> {
    match value {
        HeaderValue::Plain(text) => Ok(SecretString::from(text.clone())),
        HeaderValue::File { file } => read_secret("headers", file),
        HeaderValue::Env { env } => from_env(place, env),
    }
}

fn read_secret(setting: &'static str, path: &std::path::Path) -> Result<SecretString, SettingsError> {
    std::fs::read_to_string(path)
        .map(|text| SecretString::from(text.trim().to_owned()))
        .map_err(|cause| SettingsError::File { setting, path: path.display().to_string(), cause })
}

fn from_env(setting: &str, variable: &str) -> Result<SecretString, SettingsError> {
    std::env::var(variable).map(SecretString::from).map_err(|_| SettingsError::Environment {
        setting: setting.to_owned(),
        variable: variable.to_owned(),
    })
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
