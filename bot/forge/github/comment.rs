//! Comments on a pull request, which are those of an issue.

use async_trait::async_trait;
use reqwest::Method;
use serde_json::json;

use super::GitHub;
use super::dto;
use super::read::Repository;
use crate::forge::ForgeError;
use crate::forge::remote::comment::{Comment, Comments};
use crate::forge::remote::http::part;

/// Those of one pull request.
pub(super) struct OfPull<'a> {
    forge: &'a GitHub,
    repository: &'a Repository,
    /// Its number.
    id: &'a str,
}

impl GitHub {
    pub(super) async fn comments<'a>(&'a self, id: &'a str) -> Result<OfPull<'a>, ForgeError> {
        Ok(OfPull { forge: self, repository: self.repository().await?, id })
    }
}

impl OfPull<'_> {
    pub(super) fn what(&self, verb: &str) -> String {
        format!("{verb} on #{} of {}", self.id, self.repository.name)
    }

    fn list(&self) -> String {
        self.repository.path(&format!("/issues/{}/comments", part(self.id)))
    }

    /// Every comment, by whomever, in the order in which they were made.
    pub(super) async fn all(&self, what: &str) -> Result<Vec<dto::Comment>, ForgeError> {
        let mut all: Vec<dto::Comment> = self.forge.client.list(what, &self.list()).await?;
        // A comment that is removed between two pages moves the others.
        all.sort_by_key(|comment| comment.id);
        all.dedup_by_key(|comment| comment.id);
        Ok(all)
    }

    fn one(&self, id: u64) -> String {
        self.repository.path(&format!("/issues/comments/{id}"))
    }
}

#[async_trait]
impl Comments for OfPull<'_> {
    async fn own(&self) -> Result<Vec<Comment>, ForgeError> {
        let what = self.what("reading the comments");
        let mut own = Vec::new();
        for comment in self.all(&what).await? {
            if self.forge.is_own(comment.user.as_ref()).await? {
                own.push(Comment { id: comment.id, body: comment.body.unwrap_or_default() });
            }
        }
        Ok(own)
    }

    async fn make(&self, text: &str) -> Result<(), ForgeError> {
        let body = json!({"body": text});
        let what = self.what("commenting");
        self.forge.client.write(&what, Method::POST, &self.list(), Some(&body)).await.map(drop)
    }

    async fn edit(&self, id: u64, text: &str) -> Result<(), ForgeError> {
        let body = json!({"body": text});
        let what = self.what("editing a comment");
        self.forge.client.write(&what, Method::PATCH, &self.one(id), Some(&body)).await.map(drop)
    }

    async fn delete(&self, id: u64) -> Result<(), ForgeError> {
        let what = self.what("removing a comment");
        self.forge.client.write(&what, Method::DELETE, &self.one(id), None).await.map(drop)
    }
}
