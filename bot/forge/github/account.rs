//! Signing in: a token, or an App with its installation; and who the bot is then.

use std::collections::BTreeMap;

use octocrab::jsonwebtoken::EncodingKey;
use octocrab::models::AppId;
use octocrab::{Octocrab, OctocrabBuilder};
use reqwest::Method;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::address::{Addresses, parts};
use super::client::{judged, raw, transport};
use super::dto;
use crate::forge::ForgeError;
use crate::forge::remote::http::{Answer, retried, secret};
use crate::forge::settings::Settings;

/// What every request is signed with.
pub(super) enum Account {
    /// An access token, read anew when it was refused.
    Token(Mutex<SecretString>),
    /// An App.
    App(Box<App>),
}

/// An App, and its installation where the repository is.
pub(super) struct App {
    id: u64,
    key: EncodingKey,
    /// Signs as the App itself.
    crab: tokio::sync::OnceCell<Octocrab>,
    /// What the last token was, for this one repository.
    token: Mutex<Option<Granted>>,
}

/// A token of an installation.
struct Granted {
    token: SecretString,
    expires: jiff::Timestamp,
}

/// A token is not used for so long before it ends: a request takes its time, and clocks differ.
const MARGIN_SECONDS: i64 = 120;

/// What the bot needs at an installation.
const PERMISSIONS: [&str; 2] = ["contents", "pull_requests"];

/// What it uses where it was granted: for checks, for statuses instead, for the dashboard, for hooks that the repository has
/// of its own. It asks for nothing else.
const WELCOME: [&str; 4] = ["checks", "statuses", "issues", "repository_hooks"];

impl Account {
    /// Reads the secrets that the settings name.
    ///
    /// # Errors
    /// When they are not there, or no key.
    pub(super) fn new(settings: &Settings) -> Result<Self, ForgeError> {
        let Some(app) = &settings.app else {
            return Ok(Self::Token(Mutex::new(token(settings)?)));
        };
        let pem = secret("app.key", app.key_file.as_deref(), app.key_env.as_deref())?;
        let key = EncodingKey::from_rsa_pem(pem.expose_secret().as_bytes()).map_err(|_| {
            let what = "the App's private key (`app.key_file` or `app.key_env`) is no RSA key in PEM form: \
                        download one from the App's page";
            ForgeError::Blocked { what: what.to_owned() }
        })?;
        let (crab, token) = (tokio::sync::OnceCell::new(), Mutex::new(None));
        Ok(Self::App(Box::new(App { id: app.id, key, crab, token })))
    }

    /// The token to send, for the repository `path`.
    ///
    /// # Errors
    /// When the App is not installed there or may too little, or GitHub does not answer.
    pub(super) async fn token(&self, access: &Access<'_>) -> Result<SecretString, ForgeError> {
        match self {
            Self::Token(token) => Ok(token.lock().await.clone()),
            Self::App(app) => app.token(access).await,
        }
    }

    /// Takes note that `used` was refused. Whether there is another one to try.
    ///
    /// # Errors
    /// When the secret cannot be read any more.
    pub(super) async fn refused(&self, used: &SecretString, settings: &Settings) -> Result<bool, ForgeError> {
        match self {
            Self::Token(known) => {
                let mut known = known.lock().await;
                *known = token(settings)?;
                Ok(known.expose_secret() != used.expose_secret())
            }
            Self::App(app) => Ok(app.token.lock().await.take().is_some()),
        }
    }
}

/// Where an App asks for its installation.
pub(super) struct Access<'a> {
    pub(super) http: &'a reqwest::Client,
    pub(super) addresses: &'a Addresses,
    /// `acme/infra`.
    pub(super) repository: &'a str,
}

fn token(settings: &Settings) -> Result<SecretString, ForgeError> {
    secret("token", settings.token_file.as_deref(), settings.token_env.as_deref())
}

impl App {
    /// Asks something as the App itself. Only reads, and what may be done twice.
    pub(super) async fn ask(
        &self,
        access: &Access<'_>,
        what: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, ForgeError> {
        let crab = self.crab(access).await?;
        let at = format!("{}{path}", access.addresses.rest);
        retried(|| async { judged(raw(crab, what, method.clone(), &at, body, None).await?, what) }).await
    }

    async fn crab(&self, access: &Access<'_>) -> Result<&Octocrab, ForgeError> {
        let made = self.crab.get_or_try_init(|| async {
            OctocrabBuilder::default()
                .app(AppId(self.id), self.key.clone())
                .base_uri(access.addresses.origin.as_str())?
                .build_with_reqwest(access.http.clone())
        });
        made.await.map_err(|cause| transport("signing in as the App", &cause))
    }

    /// The installation's token. The installation is looked up for each: an App that was installed anew has another
    /// number. (octocrab would ask for one too, but for the whole of the App's permissions, and without the version of
    /// the interface.)
    async fn token(&self, access: &Access<'_>) -> Result<SecretString, ForgeError> {
        let mut known = self.token.lock().await;
        let now = jiff::Timestamp::now().as_second();
        if let Some(granted) = known.as_ref().filter(|one| one.expires.as_second() - now > MARGIN_SECONDS) {
            return Ok(granted.token.clone());
        }
        let (installation, granted) = self.installation(access).await?;
        let what = format!("asking for a token for {}", access.repository);
        let name = access.repository.rsplit('/').next().unwrap_or_default();
        let welcome = WELCOME.into_iter().filter(|name| may_write(&granted, name));
        let permissions: BTreeMap<_, _> =
            PERMISSIONS.into_iter().chain(welcome).map(|name| (name, "write")).collect();
        let body = json!({"repositories": [name], "permissions": permissions});
        // A token that nobody uses harms nobody: this may be done twice.
        let path = format!("/app/installations/{installation}/access_tokens");
        let dto::Token { token, expires_at } =
            self.ask(access, &what, Method::POST, &path, Some(&body)).await?.json(&what)?;
        let expires = expires_at.parse().map_err(|cause| ForgeError::Failed {
            what: format!("{what}: it ends at `{expires_at}`, which is no time"),
            cause: Some(Box::new(cause)),
        })?;
        Ok(known.insert(Granted { token: SecretString::from(token), expires }).token.clone())
    }

    /// The number of the installation, and what it was granted.
    async fn installation(&self, access: &Access<'_>) -> Result<(u64, BTreeMap<String, String>), ForgeError> {
        let repository = access.repository;
        let what = format!("looking up the App's installation on {repository}");
        let path = format!("/repos/{}/installation", parts(repository));
        let answer = match self.ask(access, &what, Method::GET, &path, None).await {
            Err(ForgeError::NotFound { .. }) => {
                let what = format!(
                    "the App {} is not installed on {repository}, or there is no such repository: install it \
                     there (the App's page, *Install App*), with this repository among the chosen ones",
                    self.id
                );
                return Err(ForgeError::Blocked { what });
            }
            answer => answer?,
        };
        let found: dto::Installation = answer.json(&what)?;
        for permission in PERMISSIONS {
            if !may_write(&found.permissions, permission) {
                let what = format!(
                    "the App {} may not write `{permission}` on {repository}: grant it on the App's page \
                     (*Permissions*), and accept that where it is installed",
                    self.id
                );
                return Err(ForgeError::Blocked { what });
            }
        }
        Ok((found.id, found.permissions))
    }
}

fn may_write(granted: &BTreeMap<String, String>, permission: &str) -> bool {
    granted.get(permission).is_some_and(|granted| granted == "write")
}
