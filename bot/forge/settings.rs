//! What the configuration may say about a forge on the network.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

/// One account on GitHub or GitLab; repositories name it.
///
/// Secrets are named here (a file or an environment variable), never written here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// What repositories call it in `forge:`.
    pub name: String,
    /// What speaks there.
    pub kind: RemoteKind,
    /// Where it is, as people open it in a browser: `https://github.example.com`, `https://example.com/gitlab`.
    /// Default: github.com or gitlab.com.
    pub url: Option<String>,
    /// Where its REST API is, when it is not where the forge puts it.
    pub api_url: Option<String>,
    /// File with an access token; read again when it was refused, so that rotated tokens work.
    pub token_file: Option<PathBuf>,
    /// Environment variable with an access token.
    pub token_env: Option<String>,
    /// GitHub App to sign in as, instead of a token.
    pub app: Option<AppSettings>,
    /// PEM file with the certificate authorities to trust besides the built-in ones.
    pub ca_file: Option<PathBuf>,
    /// How long one request may take. Default 30.
    pub timeout_seconds: Option<u64>,
    /// Numbers of the accounts that the bot had there earlier: their merge requests are its own.
    pub former_ids: Vec<u64>,
    /// Names of Apps (`slicewright[bot]`) or of accounts of access tokens that the bot had there earlier, where nobody knows
    /// the number any more. A person's account counts by its number alone: whoever takes a name that was given up would be
    /// taken for the bot.
    pub former_logins: Vec<String>,
    /// E-mail addresses that earlier commits of the bot carry.
    pub former_emails: Vec<String>,
}

/// What speaks on the other side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RemoteKind {
    /// github.com, GitHub Enterprise Cloud or Server.
    #[default]
    GitHub,
    /// gitlab.com or a GitLab of one's own.
    GitLab,
}

/// A GitHub App.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AppSettings {
    /// Its number, from the App's page.
    pub id: u64,
    /// File with its private key, PEM.
    pub key_file: Option<PathBuf>,
    /// Environment variable with its private key, PEM.
    pub key_env: Option<String>,
}

impl Settings {
    /// Every file that the settings name, to be made absolute.
    pub fn files_mut(&mut self) -> Vec<&mut PathBuf> {
        let key = self.app.as_mut().and_then(|app| app.key_file.as_mut());
        [self.token_file.as_mut(), self.ca_file.as_mut(), key].into_iter().flatten().collect()
    }

    /// A mark of what the files that the settings name hold now: another one, and a secret was changed.
    pub(super) fn mark(&self) -> [u8; 32] {
        let key = self.app.as_ref().and_then(|app| app.key_file.as_ref());
        let mut hasher = Sha256::new();
        for path in [self.token_file.as_ref(), self.ca_file.as_ref(), key].into_iter().flatten() {
            // One that is gone is found to be by whoever needs it.
            let content = std::fs::read(path).unwrap_or_default();
            hasher.update(Sha256::digest(&content));
        }
        hasher.finalize().into()
    }

    /// Its hooks may bring a secret token as it is, in place of a signature.
    pub fn sends_tokens(&self) -> bool {
        self.kind == RemoteKind::GitLab
    }

    /// How long one request may take.
    pub fn timeout(&self) -> std::time::Duration {
        std::time::Duration::from_secs(self.timeout_seconds.unwrap_or(30).clamp(1, 600))
    }

    /// The first value that cannot be meant, as setting and what is wrong with it.
    ///
    /// # Errors
    /// No way to sign in, or more than one; an address that would send the token in the clear.
    pub fn check(&self) -> Result<(), (String, String)> {
        let wrong = |setting: &str, problem: &str| Err((setting.to_owned(), problem.to_owned()));
        if self.name.is_empty() || !self.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        {
            return wrong(
                "name",
                "give it a plain name, such as `github`; repositories say `forge: github` then",
            );
        }
        if self.name == "local" {
            return wrong("name", "`local` is a git repository on this machine: use another name");
        }
        let n_ways = [self.token_file.is_some(), self.token_env.is_some(), self.app.is_some()];
        match n_ways.into_iter().filter(|given| *given).count() {
            0 => return wrong("token_file", "say how to sign in: `token_file`, `token_env` or `app`"),
            1 => {}
            _ => return wrong("token_file", "give one of `token_file`, `token_env` and `app`, not several"),
        }
        if let Some(app) = &self.app {
            if self.kind == RemoteKind::GitLab {
                return wrong("app", "is for GitHub: on GitLab use a project or group access token");
            }
            if app.id == 0 {
                return wrong("app.id", "give the App's number, from its page");
            }
            if app.key_file.is_some() == app.key_env.is_some() {
                return wrong("app.key_file", "give either `key_file` or `key_env`");
            }
        }
        for (setting, url) in [("url", &self.url), ("api_url", &self.api_url)] {
            if let Some(Err(problem)) = url.as_deref().map(check_url) {
                return Err((setting.to_owned(), problem));
            }
        }
        Ok(())
    }
}

fn check_url(text: &str) -> Result<(), String> {
    let url = reqwest::Url::parse(text).map_err(|error| format!("`{text}` is not an address: {error}"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not hold credentials: use `token_file` or `token_env`".to_owned());
    }
    let loopback = matches!(url.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"));
    match url.scheme() {
        "https" => Ok(()),
        "http" if loopback => Ok(()),
        "http" => Err("must start with `https://`: the token would be sent in the clear".to_owned()),
        _ => Err("must start with `https://`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Settings {
        Settings { name: "x".into(), token_env: Some("T".into()), ..Settings::default() }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        let app = |id, key: Option<&str>| AppSettings { id, key_file: key.map(PathBuf::from), key_env: None };
        let no_token = Settings { token_env: None, ..token() };
        for (settings, setting) in [
            (Settings { name: String::new(), ..token() }, "name"),
            (Settings { name: "local".into(), ..token() }, "name"),
            (no_token.clone(), "token_file"),
            (Settings { token_file: Some("f".into()), ..token() }, "token_file"),
            (Settings { app: Some(app(0, Some("k"))), ..no_token.clone() }, "app.id"),
            (Settings { app: Some(app(7, None)), ..no_token.clone() }, "app.key_file"),
            (Settings { app: Some(app(7, Some("k"))), kind: RemoteKind::GitLab, ..no_token.clone() }, "app"),
            (Settings { url: Some("http://gitlab.example.com".into()), ..token() }, "url"),
            (Settings { url: Some("https://me:secret@gitlab.example.com".into()), ..token() }, "url"),
            (Settings { api_url: Some("ssh://x".into()), ..token() }, "api_url"),
        ] {
            assert_eq!(settings.check().unwrap_err().0, setting);
        }
        assert_eq!(token().check(), Ok(()));
        assert_eq!(Settings { app: Some(app(7, Some("k"))), ..no_token }.check(), Ok(()));
        assert_eq!(Settings { url: Some("http://127.0.0.1:3000".into()), ..token() }.check(), Ok(()));
    }
}
