//! Issues, for the page that shows where every proposal stands.

use std::collections::BTreeSet;

use async_trait::async_trait;
use serde_json::json;

use super::client::judged;
use super::endpoints::Asked;
use super::{GitLab, dto, endpoints};
use crate::forge::ForgeError;
use crate::forge::remote::board::{self, Issue, Issues};
use crate::forge::remote::http::Answer;

impl GitLab {
    async fn write_issue(&self, verb: &str, asked: &Asked) -> Result<Answer, ForgeError> {
        let what = self.on(verb);
        self.client.write(&what, asked).await.and_then(|answer| judged(&what, answer)).map_err(explained)
    }
}

/// What stands in the way of issues, where that is known.
fn explained(error: ForgeError) -> ForgeError {
    let way_out = "issues are switched off there (Settings → General → Visibility), or the token's role is too low: give it \
                   *Developer*";
    board::explained(error, way_out, way_out)
}

#[async_trait]
impl Issues for GitLab {
    async fn own(&self) -> Result<Vec<Issue>, ForgeError> {
        let project = self.project().await?.id;
        let what = self.on("reading the bot's issues");
        let mut authors = BTreeSet::from([self.account().await?.id]);
        authors.extend(&self.former_ids);
        for login in &self.former_logins {
            let found: Vec<dto::User> = self.client.list(&what, &endpoints::user_named(login)?).await?;
            for user in found {
                if self.is_bot(&user).await? {
                    authors.insert(user.id);
                }
            }
        }
        let mut own = Vec::new();
        for author in authors {
            let listed = self.client.list::<dto::Issue>(&what, &endpoints::issues(project, author)?).await;
            own.extend(listed.map_err(explained)?.into_iter().map(dto::Issue::shown));
        }
        Ok(own)
    }

    async fn make(&self, title: &str, text: &str) -> Result<Issue, ForgeError> {
        let project = self.project().await?.id;
        let body = json!({"title": title, "description": text});
        let made = self.write_issue("opening the dashboard", &endpoints::create_issue(project, body)).await?;
        Ok(made.json::<dto::Issue>("opening the dashboard")?.shown())
    }

    async fn edit(&self, number: u64, title: &str, text: &str) -> Result<(), ForgeError> {
        let project = self.project().await?.id;
        let body = json!({"title": title, "description": text});
        let asked = endpoints::edit_issue(project, number, body);
        self.write_issue("writing the dashboard", &asked).await.map(drop)
    }

    async fn close(&self, number: u64) -> Result<(), ForgeError> {
        let project = self.project().await?.id;
        let asked = endpoints::edit_issue(project, number, json!({"state_event": "close"}));
        self.write_issue("closing a second dashboard", &asked).await.map(drop)
    }
}
