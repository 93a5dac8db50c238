//! Who the bot is on GitHub.

use std::collections::BTreeSet;

use reqwest::Method;

use super::GitHub;
use super::client::GraphQl;
use super::dto::{App, User};
use crate::forge::remote::http::{part, retried};
use crate::forge::{ForgeError, Identity};

/// The account of `GITHUB_TOKEN` in workflows, on every GitHub.
const ACTIONS: (u64, &str) = (41_898_282, "github-actions[bot]");

/// The bot's account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Who {
    pub(super) id: u64,
    pub(super) login: String,
    /// An App, or a workflow's token: GitHub makes and signs its commits itself.
    pub(super) is_app: bool,
}

impl GitHub {
    /// The account, looked up once.
    pub(super) async fn who(&self) -> Result<&Who, ForgeError> {
        self.who.get_or_try_init(|| self.look_up()).await
    }

    async fn look_up(&self) -> Result<Who, ForgeError> {
        let what = format!("asking {} who the bot is", self.client.addresses.host);
        if let Some(answer) = self.client.as_app(&what, Method::GET, "/app").await {
            let app: App = answer?.json(&what)?;
            let login = format!("{}[bot]", app.slug);
            let answer = self.client.get_fixed(&what, &format!("/users/{}", part(&login))).await?;
            let User { id, login, .. } = answer.json(&what)?;
            return Ok(Who { id, login, is_app: true });
        }
        match self.client.get_fixed(&what, "/user").await {
            Ok(answer) => {
                let User { id, login, .. } = answer.json(&what)?;
                let is_app = login.ends_with("[bot]");
                Ok(Who { id, login, is_app })
            }
            // A token that belongs to an installation has no user: that of a workflow, or one that was made for an App.
            Err(ForgeError::Blocked { what: said }) if said.contains("by integration") => {
                Ok(self.viewer(&what).await?.unwrap_or_else(|| {
                    let (id, login) = ACTIONS;
                    Who { id, login: login.to_owned(), is_app: true }
                }))
            }
            Err(error) => Err(error),
        }
    }

    /// The account as GraphQL names it, where there is GraphQL.
    async fn viewer(&self, what: &str) -> Result<Option<Who>, ForgeError> {
        let query = "query { viewer { login databaseId } }";
        let ask = || self.client.graphql(what, query, serde_json::json!({}));
        let GraphQl::Data(data) = retried(ask).await? else { return Ok(None) };
        let viewer = &data["viewer"];
        let known = viewer["login"].as_str().zip(viewer["databaseId"].as_u64());
        Ok(known.map(|(login, id)| Who { id, login: login.to_owned(), is_app: true }))
    }

    /// Whether an account is the bot, now or earlier. Its number says so; a name says so only of programs, since whoever
    /// takes a person's name that was given up would be the bot otherwise.
    pub(super) async fn is_own(&self, user: Option<&User>) -> Result<bool, ForgeError> {
        let Some(user) = user else { return Ok(false) };
        let who = self.who().await?;
        if user.id == who.id || self.former_ids.contains(&user.id) {
            return Ok(true);
        }
        let same = |login: &String| login.eq_ignore_ascii_case(&user.login);
        let is_named = same(&who.login) || self.former_logins.iter().any(same);
        if is_named && !user.is_program() {
            tracing::warn!(
                login = user.login,
                "this name of the bot's is that of a person's account now, number {}: if it is the bot's, put the number \
                 into `former_ids`",
                user.id
            );
        }
        Ok(is_named && user.is_program())
    }

    /// The names under which the bot made things here, that of today first: lists go by name. Accounts that are gone made
    /// nothing that is shown as theirs.
    pub(super) async fn names(&self) -> Result<Vec<String>, ForgeError> {
        let mut names = vec![self.who().await?.login.clone()];
        names.extend(self.former_logins.iter().cloned());
        for id in &self.former_ids {
            let what = format!("asking {} for account {id}", self.client.addresses.host);
            match self.client.get(&what, &format!("/user/{id}")).await {
                Ok(answer) => names.push(answer.json::<User>(&what)?.login),
                Err(ForgeError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let mut seen = BTreeSet::new();
        names.retain(|name| seen.insert(name.to_lowercase()));
        Ok(names)
    }

    /// How the bot's commits are told from those of people.
    pub(super) async fn known_as(&self) -> Result<Identity, ForgeError> {
        let who = self.who().await?;
        let host = &self.client.addresses.host;
        let mut emails: BTreeSet<String> = self.former_emails.iter().cloned().collect();
        emails.extend(self.target.former_emails.iter().cloned());
        emails.insert(format!("{}+{}@users.noreply.{host}", who.id, who.login));
        if !who.is_app {
            emails.insert(self.target.author_email.clone());
        }
        Ok(Identity { emails, forge_emails: BTreeSet::from([format!("noreply@{host}")]) })
    }
}
