//! What the configuration may say about one Prometheus server.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

/// One Prometheus, Thanos, Mimir, VictoriaMetrics or managed service that speaks the same API.
///
/// Secrets are named here (a file or an environment variable), never written here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Where the API lives, without `/api/v1`: `https://prometheus.example.com`, `http://vm:8481/select/0/prometheus`.
    pub url: String,
    /// File with a bearer token; read again for every request, so that rotated tokens work.
    pub bearer_token_file: Option<PathBuf>,
    /// Environment variable with a bearer token.
    pub bearer_token_env: Option<String>,
    /// User name for basic authentication.
    pub username: Option<String>,
    /// File with the password for basic authentication.
    pub password_file: Option<PathBuf>,
    /// Environment variable with the password for basic authentication.
    pub password_env: Option<String>,
    /// Headers sent with every request, such as `X-Scope-OrgID` for a tenant.
    pub headers: BTreeMap<String, HeaderValue>,
    /// PEM file with the certificate authorities to trust besides the built-in ones.
    pub ca_file: Option<PathBuf>,
    /// How long one query may take.
    pub timeout_seconds: Option<u64>,
    /// Queries at once. The server's own limit (20 by default) is shared with dashboards.
    pub max_concurrency: Option<usize>,
    /// Largest answer to accept, in MiB.
    pub max_answer_mib: Option<u64>,
    /// Label values that every series of this cluster carries: `cluster: dc1` where one server holds several.
    pub matchers: BTreeMap<String, String>,
}

/// The value of a header: plain, or a secret from a file or the environment.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum HeaderValue {
    /// Written in the configuration: `X-Scope-OrgID: team-a`.
    Plain(String),
    /// From a file.
    File {
        /// The file.
        file: PathBuf,
    },
    /// From the environment.
    Env {
        /// The variable.
        env: String,
    },
}

/// A plain value may be a secret all the same: it is not shown.
impl fmt::Debug for HeaderValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(_) => f.write_str("Plain(…)"),
            Self::File { file } => f.debug_struct("File").field("file", file).finish(),
            Self::Env { env } => f.debug_struct("Env").field("env", env).finish(),
        }
    }
}

impl Settings {
    /// Every file that the settings name, to be made absolute.
    pub fn files_mut(&mut self) -> Vec<&mut PathBuf> {
        let headers = self.headers.values_mut().filter_map(|value| match value {
            HeaderValue::File { file } => Some(file),
            HeaderValue::Plain(_) | HeaderValue::Env { .. } => None,
        });
        let own = [&mut self.bearer_token_file, &mut self.password_file, &mut self.ca_file];
        own.into_iter().flatten().chain(headers).collect()
    }

    /// Seconds that one query may take; default 120, as Prometheus' own.
    pub fn timeout(&self) -> std::time::Duration {
        std::time::Duration::from_secs(self.timeout_seconds.unwrap_or(120).max(1))
    }

    /// Queries at once; default 2.
    pub fn concurrency(&self) -> usize {
        self.max_concurrency.unwrap_or(2).clamp(1, 16)
    }

    /// Bytes of the largest answer to accept; default 256 MiB.
    pub fn max_answer_bytes(&self) -> u64 {
        self.max_answer_mib.unwrap_or(256).clamp(1, 4_096) << 20
    }
}
