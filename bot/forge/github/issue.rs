//! Issues, for the page that shows where every proposal stands.

use async_trait::async_trait;
use reqwest::Method;
use serde_json::json;

use super::GitHub;
use super::dto;
use crate::forge::ForgeError;
use crate::forge::remote::board::{self, Issue, Issues};
use crate::forge::remote::http::{Answer, part};

impl GitHub {
    async fn write_issue(
        &self,
        verb: &str,
        method: Method,
        rest: &str,
        body: &serde_json::Value,
    ) -> Result<Answer, ForgeError> {
        let repository = self.repository().await?;
        let what = format!("{verb} in {}", repository.name);
        let path = repository.path(&format!("/issues{rest}"));
        self.client.write(&what, method, &path, Some(body)).await.map_err(explained)
    }
}

/// What stands in the way of issues, where that is known.
fn explained(error: ForgeError) -> ForgeError {
    board::explained(
        error,
        "issues are switched off there, or the bot may not see them: switch them on (Settings → General → Features), give the \
         App or token *Issues* with write access",
        "give the App or token *Issues* with write access",
    )
}

#[async_trait]
impl Issues for GitHub {
    async fn own(&self) -> Result<Vec<Issue>, ForgeError> {
        let repository = self.repository().await?;
        let what = format!("reading the bot's issues in {}", repository.name);
        let mut own = Vec::new();
        for login in self.names().await? {
            let path = repository.path(&format!("/issues?state=all&creator={}", part(&login)));
            for issue in self.client.list::<dto::Issue>(&what, &path).await.map_err(explained)? {
                if issue.pull_request.is_none() && self.is_own(issue.user.as_ref()).await? {
                    own.push(issue.shown());
                }
            }
        }
        Ok(own)
    }

    async fn make(&self, title: &str, text: &str) -> Result<Issue, ForgeError> {
        let body = json!({"title": title, "body": text});
        let answer = self.write_issue("opening the dashboard", Method::POST, "", &body).await?;
        Ok(answer.json::<dto::Issue>("opening the dashboard")?.shown())
    }

    async fn edit(&self, number: u64, title: &str, text: &str) -> Result<(), ForgeError> {
        let body = json!({"title": title, "body": text});
        self.write_issue("writing the dashboard", Method::PATCH, &format!("/{number}"), &body).await.map(drop)
    }

    async fn close(&self, number: u64) -> Result<(), ForgeError> {
        let body = json!({"state": "closed"});
        let verb = "closing a second dashboard";
        self.write_issue(verb, Method::PATCH, &format!("/{number}"), &body).await.map(drop)
    }
}
