//! Pull requests: opened once, edited where they differ, closed with their branch.

use reqwest::Method;
use serde_json::{Value, json};

use super::GitHub;
use super::client::GraphQl;
use super::dto::Pull;
use crate::forge::remote::http::{looked_for, part, retried};
use crate::forge::{ForgeError, RequestText};

const TO_DRAFT: &str = "mutation($input: ConvertPullRequestToDraftInput!) \
                        { convertPullRequestToDraft(input: $input) { clientMutationId } }";

const TO_READY: &str = "mutation($input: MarkPullRequestReadyForReviewInput!) \
                        { markPullRequestReadyForReview(input: $input) { clientMutationId } }";

impl GitHub {
    /// Opens the pull request of `branch`, or edits that which is open; returns where a person finds it.
    pub(super) async fn requested(
        &self,
        branch: &str,
        open: Option<&str>,
        request: &RequestText,
    ) -> Result<String, ForgeError> {
        self.check_own(branch).await?;
        let url = match open {
            Some(id) => {
                let pull = self.own_pull(branch, id).await?;
                if !pull.is_open() {
                    let what = format!(
                        "pull request #{id} of {}, which was closed meanwhile,",
                        self.target.repository
                    );
                    return Err(ForgeError::Conflict { what });
                }
                self.edited(pull, request).await?
            }
            None => match self.open_pull(branch, request).await? {
                Some(pull) => self.edited(pull, request).await?,
                None => self.opened(branch, request).await?,
            },
        };
        self.unfinished.forget(branch);
        Ok(url)
    }

    /// A pull request of the bot's, by its number.
    async fn own_pull(&self, branch: &str, id: &str) -> Result<Pull, ForgeError> {
        let name = &self.target.repository;
        let number = id
            .parse()
            .map_err(|_| ForgeError::NotFound { what: format!("pull request `{id}` of {name}") })?;
        let pull = self.pull(number).await?;
        let denied = |why: &str| Err(ForgeError::Denied { what: format!("writing #{id} of {name}, {why},") });
        if !self.is_own(pull.user.as_ref()).await? {
            return denied("which a person opened");
        }
        if pull.head.branch != branch {
            return denied(&format!("which is for another branch than `{branch}`"));
        }
        Ok(pull)
    }

    /// The bot's open pull request of a branch, that for the wanted base before others.
    async fn open_pull(&self, branch: &str, request: &RequestText) -> Result<Option<Pull>, ForgeError> {
        let mut own = Vec::new();
        for pull in self.pulls(branch, "open").await? {
            if self.is_own(pull.user.as_ref()).await? {
                own.push(pull);
            } else if pull.base.branch == request.base_branch {
                let what = format!(
                    "opening a pull request from `{branch}`: a person has #{} open from it; close that, and delete the \
                     branch if nobody needs it",
                    pull.number
                );
                return Err(ForgeError::Blocked { what });
            }
        }
        Ok(own.into_iter().max_by_key(|pull| (pull.base.branch == request.base_branch, pull.number)))
    }

    async fn opened(&self, branch: &str, request: &RequestText) -> Result<String, ForgeError> {
        let repository = self.repository().await?;
        let what = format!("opening a pull request from `{branch}` in {}", repository.name);
        let path = repository.path("/pulls");
        let mut body = json!({
            "title": request.title,
            "head": branch,
            "base": request.base_branch,
            "body": request.body,
            "draft": request.draft,
        });
        let mut answered = self.client.write(&what, Method::POST, &path, Some(&body)).await;
        if let Err(ForgeError::Failed { what: said, .. }) = &answered
            && request.draft
            && said.to_lowercase().contains("draft")
        {
            body["draft"] = json!(false);
            answered = self.client.write(&what, Method::POST, &path, Some(&body)).await;
        }
        let error = match answered {
            Ok(answer) => {
                let pull: Pull = answer.json(&what)?;
                self.introduce(&pull, request).await;
                return Ok(pull.html_url);
            }
            Err(error) => error,
        };
        // No answer: it may be there all the same. "Already exists": somebody was faster, or the list of before was old.
        // In both cases it is looked for, and not opened again.
        let is_lost = matches!(error, ForgeError::Unanswered { .. });
        let exists = matches!(&error, ForgeError::Failed { what, .. } if what.contains("already exists"));
        if !is_lost && !exists {
            return Err(error);
        }
        let pull = looked_for(|| self.open_pull(branch, request)).await?.ok_or(error)?;
        if is_lost {
            self.introduce(&pull, request).await;
        }
        self.edited(pull, request).await
    }

    /// What a new one gets: labels and reviewers, one by one. What cannot be had is left out.
    async fn introduce(&self, pull: &Pull, request: &RequestText) {
        for label in &request.labels {
            if let Err(error) = self.add_label(pull.number, label).await {
                tracing::warn!(%error, label, "the label was not added to #{}", pull.number);
            }
        }
        for reviewer in &request.reviewers {
            if let Err(error) = self.ask_reviewer(pull.number, reviewer).await {
                tracing::warn!(%error, reviewer, "nobody was asked to review #{}", pull.number);
            }
        }
    }

    /// Writes title, text and draft where they differ, and nothing else.
    async fn edited(&self, pull: Pull, request: &RequestText) -> Result<String, ForgeError> {
        self.patch(&pull, &request.title, &request.body, false).await?;
        if pull.draft != request.draft {
            let query = if request.draft { TO_DRAFT } else { TO_READY };
            let what = format!("changing whether #{} is a draft", pull.number);
            let input = json!({"input": {"pullRequestId": pull.node_id}});
            match self.client.graphql(&what, query, input).await {
                Ok(GraphQl::Data(_)) => {}
                Ok(GraphQl::Unknown) => tracing::info!("{what}: this server does not"),
                Ok(GraphQl::Refused(errors)) => {
                    let said: Vec<_> = errors.into_iter().map(|error| error.message).collect();
                    tracing::warn!(said = said.join("; "), "{what}");
                }
                Err(error) => tracing::warn!(%error, "{what}"),
            }
        }
        Ok(pull.html_url)
    }

    /// Edits what differs; with `close` it is closed in the same request.
    async fn patch(&self, pull: &Pull, title: &str, body: &str, close: bool) -> Result<(), ForgeError> {
        let Some(change) = difference(pull, title, body, close) else { return Ok(()) };
        let repository = self.repository().await?;
        let what = format!("editing pull request #{} of {}", pull.number, repository.name);
        let path = repository.path(&format!("/pulls/{}", pull.number));
        match self.client.write(&what, Method::PATCH, &path, Some(&change)).await {
            Ok(_) => Ok(()),
            Err(error @ ForgeError::Unanswered { .. }) => {
                let now = self.pull(pull.number).await?;
                difference(&now, title, body, close).map_or(Ok(()), |_| Err(error))
            }
            Err(error) => Err(error),
        }
    }

    /// Takes a label off. One that is gone meanwhile is off, so that this may be sent again.
    pub(super) async fn remove_label(&self, number: u64, label: &str) -> Result<(), ForgeError> {
        let repository = self.repository().await?;
        let what = format!("taking a label off #{number} of {}", repository.name);
        let path = repository.path(&format!("/issues/{number}/labels/{}", part(label)));
        match retried(|| self.client.write(&what, Method::DELETE, &path, None)).await {
            Ok(_) | Err(ForgeError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Puts a label on, and makes it first where the repository has none of that name. A pull request has each label once,
    /// and a repository too, so that all of this may be sent again.
    pub(super) async fn add_label(&self, number: u64, label: &str) -> Result<(), ForgeError> {
        let repository = self.repository().await?;
        let path = repository.path(&format!("/issues/{number}/labels"));
        let what = format!("adding a label to #{number} of {}", repository.name);
        let body = json!({"labels": [label]});
        let add = || retried(|| self.client.write(&what, Method::POST, &path, Some(&body)));
        let added = add().await;
        if !matches!(added, Err(ForgeError::Failed { .. } | ForgeError::NotFound { .. })) {
            return added.map(drop);
        }
        let new = json!({"name": label, "color": "ededed"});
        let labels = repository.path("/labels");
        match retried(|| self.client.write(&what, Method::POST, &labels, Some(&new))).await {
            Err(ForgeError::Failed { what, .. }) if what.contains("already_exists") => {}
            made => drop(made?),
        }
        add().await.map(drop)
    }

    /// Alone: GitHub refuses a whole list for one name that it does not know.
    async fn ask_reviewer(&self, number: u64, reviewer: &str) -> Result<(), ForgeError> {
        let repository = self.repository().await?;
        let path = repository.path(&format!("/pulls/{number}/requested_reviewers"));
        let what = format!("asking {reviewer} to review #{number} of {}", repository.name);
        let name = reviewer.trim_start_matches('@');
        let body = match name.split_once('/') {
            Some((_, team)) => json!({"team_reviewers": [team]}),
            None => json!({"reviewers": [name]}),
        };
        self.client.write(&what, Method::POST, &path, Some(&body)).await.map(drop)
    }

    /// Writes the last words, closes, and deletes the branch if it is where it was seen.
    pub(super) async fn closed(
        &self,
        branch: &str,
        expected_head: Option<&str>,
        id: Option<&str>,
        title: &str,
        body: &str,
    ) -> Result<(), ForgeError> {
        self.check_own(branch).await?;
        let mut head = None;
        if let Some(expected) = expected_head {
            head = self.branch_head(branch).await?;
            if head.as_deref().is_some_and(|head| head != expected) {
                return Err(ForgeError::Conflict {
                    what: format!("`{branch}` of {}", self.target.repository),
                });
            }
        }
        if let Some(id) = id {
            let pull = self.own_pull(branch, id).await?;
            self.patch(&pull, title, body, true).await?;
        }
        self.unfinished.forget(branch);
        match head {
            Some(head) => self.move_branch(branch, Some(&head), None).await,
            None => Ok(()),
        }
    }
}

/// What must be written so that it says `title` and `body`, and is closed with `close`; `None`: it is so already.
fn difference(pull: &Pull, title: &str, body: &str, close: bool) -> Option<Value> {
    let mut change = serde_json::Map::new();
    if pull.title != title {
        change.insert("title".into(), json!(title));
    }
    if pull.text() != body.replace("\r\n", "\n") {
        change.insert("body".into(), json!(body));
    }
    if close && pull.is_open() {
        change.insert("state".into(), json!("closed"));
    }
    (!change.is_empty()).then_some(Value::Object(change))
}
