//! The bot's own comment about each topic.

use std::time::Duration;

use backon::{ExponentialBuilder, Retryable as _};
use reqwest::Method;
use serde_json::json;

use super::GitHub;
use super::dto::Comment;
use super::read::Repository;
use crate::forge::{ForgeError, Topic};

impl GitHub {
    pub(super) async fn said(&self, id: &str, topic: Topic, text: Option<&str>) -> Result<(), ForgeError> {
        let repository = self.repository().await?;
        let what = format!("commenting on #{id} of {}", repository.name);
        let wanted = text.map(|text| format!("{}\n{text}", topic.mark()));
        let mut there = self.own_comments(repository, id, topic).await?;
        if there.is_empty() && wanted.is_some() {
            // A list may be a moment old; a comment that is made twice is what people see.
            there = self.own_comments(repository, id, topic).await?;
        }
        let keep = usize::from(wanted.is_some());
        // More than one is what a request that arrived twice leaves.
        for comment in there.iter().skip(keep) {
            let deleted =
                self.client.write(&what, Method::DELETE, &path_of(repository, comment.id), None).await;
            match deleted {
                Err(ForgeError::NotFound { .. }) | Ok(_) => {}
                Err(error) => return Err(error),
            }
        }
        let Some(wanted) = wanted else { return Ok(()) };
        let body = json!({"body": wanted});
        let written = match there.first() {
            Some(comment) if says(comment, &wanted) => return Ok(()),
            Some(comment) => {
                self.client.write(&what, Method::PATCH, &path_of(repository, comment.id), Some(&body)).await
            }
            None => {
                let path = repository.path(&format!("/issues/{id}/comments"));
                self.client.write(&what, Method::POST, &path, Some(&body)).await
            }
        };
        let Err(error @ ForgeError::Unanswered { .. }) = written else { return written.map(drop) };
        // No answer: whether it is there is looked for, a few times since lists lag behind.
        let pauses =
            ExponentialBuilder::default().with_min_delay(Duration::from_millis(100)).with_max_times(3);
        let look = || async {
            let there = self.own_comments(repository, id, topic).await.map_err(Some)?;
            there.iter().any(|comment| says(comment, &wanted)).then_some(()).ok_or(None)
        };
        match look.retry(pauses).when(Option::is_none).await {
            Ok(()) => Ok(()),
            Err(failed) => Err(failed.unwrap_or(error)),
        }
    }

    /// Removes the comments about each of these.
    pub(super) async fn unsaid(&self, id: &str, topics: &[Topic]) -> Result<(), ForgeError> {
        let there = self.marked_comments(self.repository().await?, id, topics).await?;
        for topic in topics {
            if there.iter().any(|comment| is_about(comment, *topic)) {
                self.said(id, *topic, None).await?;
            }
        }
        Ok(())
    }

    /// The bot's comments with the topic's mark, oldest first.
    async fn own_comments(
        &self,
        repository: &Repository,
        id: &str,
        topic: Topic,
    ) -> Result<Vec<Comment>, ForgeError> {
        self.marked_comments(repository, id, &[topic]).await
    }

    /// The bot's comments with the mark of any of these. The mark alone can be copied by anybody.
    async fn marked_comments(
        &self,
        repository: &Repository,
        id: &str,
        topics: &[Topic],
    ) -> Result<Vec<Comment>, ForgeError> {
        let what = format!("reading the comments on #{id} of {}", repository.name);
        let path = repository.path(&format!("/issues/{}/comments", super::address::part(id)));
        let mut own = Vec::new();
        for comment in self.client.list::<Comment>(&what, &path).await? {
            let marked = topics.iter().any(|topic| is_about(&comment, *topic));
            if marked && self.is_own(comment.user.as_ref()).await? {
                own.push(comment);
            }
        }
        own.sort_by_key(|comment| comment.id);
        Ok(own)
    }
}

fn is_about(comment: &Comment, topic: Topic) -> bool {
    comment.body.as_deref().is_some_and(|body| body.starts_with(&topic.mark()))
}

fn path_of(repository: &Repository, comment: u64) -> String {
    repository.path(&format!("/issues/comments/{comment}"))
}

fn says(comment: &Comment, wanted: &str) -> bool {
    comment.body.as_deref().is_some_and(|body| body.replace("\r\n", "\n") == wanted)
}
