//! What can go wrong when a question is asked, and what to do about it.

use serde::{Deserialize, Serialize};

/// A question that was not answered in full.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("cannot read {what}: {problem}{}", said(detail))]
pub struct AskError {
    /// What was asked: query name, day and shard.
    pub what: String,
    /// What went wrong, by what the caller does about it.
    pub problem: Problem,
    /// HTTP status, if there was an answer.
    pub status: Option<u16>,
    /// The server's own words or the network's, shortened, on one line.
    pub detail: String,
    /// What the operator can do.
    pub advice: String,
}

/// What went wrong, by what the caller does differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Problem {
    /// No connection, or the server keeps failing.
    #[error("the server cannot be reached")]
    Unreachable,
    /// 401 or 403.
    #[error("the server refuses the credentials")]
    Denied,
    /// 404, or a redirection to somewhere else: not a query API.
    #[error("there is no Prometheus API at this URL")]
    NotFound,
    /// Too many samples, too long, too large: a smaller question may be answered.
    #[error("the question is too large for the server")]
    TooMuch,
    /// The server does not understand or does not allow the question.
    #[error("the server rejects the question")]
    Refused,
    /// An answer with warnings: something is missing in it.
    #[error("the answer is incomplete")]
    Partial,
    /// Not an answer of a Prometheus API.
    #[error("the answer cannot be read")]
    Malformed,
    /// A replay asked what was not recorded.
    #[error("the recording does not hold this question")]
    NotRecorded,
}

impl Problem {
    /// No other question will fare better.
    pub fn is_fatal(self) -> bool {
        match self {
            Self::Unreachable | Self::Denied | Self::NotFound | Self::NotRecorded => true,
            Self::TooMuch | Self::Refused | Self::Partial | Self::Malformed => false,
        }
    }
}

/// The settings of a server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// Not an HTTP URL.
    #[error("`prometheus.url`: {0}")]
    Url(String),
    /// A file that a setting names cannot be read.
    #[error("`prometheus.{setting}`: cannot read `{path}`")]
    File {
        /// The setting.
        setting: &'static str,
        /// The file.
        path: String,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
    /// An environment variable that a setting names is not set.
    #[error("`prometheus.{setting}`: environment variable `{variable}` is not set")]
    Environment {
        /// The setting.
        setting: String,
        /// The variable.
        variable: String,
    },
    /// Two settings that exclude each other, or one that lacks its other half.
    #[error("`prometheus`: {0}")]
    Conflict(String),
    /// The CA file holds no certificate.
    #[error("`prometheus.ca_file`: `{path}` holds no PEM certificate")]
    Certificate {
        /// The file.
        path: String,
    },
    /// The HTTP client cannot be built.
    #[error("cannot set up the HTTP client")]
    Client(#[source] reqwest::Error),
}

fn said(detail: &str) -> String {
    if detail.is_empty() { String::new() } else { format!(": {detail}") }
}

/// A foreign text as one short line: control characters become blanks, markup is cut off, length is bounded.
pub(super) fn one_line(text: &str, most: usize) -> String {
    let mut out = String::new();
    let mut blank = false;
    for c in text.trim().chars() {
        if out.len() >= most {
            out.push('…');
            break;
        }
        if c.is_control() || c.is_whitespace() {
            blank = true;
            continue;
        }
        if blank && !out.is_empty() {
            out.push(' ');
        }
        blank = false;
        out.push(c);
    }
    if out.starts_with('<') { "an HTML page".to_owned() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_one_bounded_line() {
        assert_eq!(one_line("a\n\u{1b}[31m b", 100), "a [31m b");
        assert_eq!(one_line("<html>\n<body>", 100), "an HTML page");
        assert_eq!(one_line(&"x".repeat(50), 10).chars().count(), 11);
    }

    #[test]
    fn a_message_says_what_was_asked() {
        let error = AskError {
            what: "memory peaks of 2026-01-03".into(),
            problem: Problem::TooMuch,
            status: Some(422),
            detail: "query processing would load too many samples".into(),
            advice: String::new(),
        };
        assert_eq!(
            error.to_string(),
            "cannot read memory peaks of 2026-01-03: the question is too large for the server: \
             query processing would load too many samples"
        );
    }
}
