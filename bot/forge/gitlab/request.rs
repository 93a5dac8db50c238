//! The merge request of a proposal: opened once, edited where it differs, closed.

use serde_json::{Map, Value, json};

use super::client::judged;
use super::{GitLab, dto, endpoints};
use crate::forge::remote::http::looked_for;
use crate::forge::{ForgeError, RequestText};

/// How often a merge request is opened while no answer comes. GitLab itself refuses a second one from the same branch.
const MOST_TRIES: usize = 2;

impl GitLab {
    /// Opens the merge request of `branch`, or edits that with the number `open`; returns where a person finds it.
    pub(super) async fn write_merge_request(
        &self,
        branch: &str,
        open: Option<&str>,
        text: &RequestText,
    ) -> Result<String, ForgeError> {
        if let Some(id) = open {
            let request = self.own_request(branch, id).await?;
            if !request.is_open() {
                let what = self.on(&format!("merge request !{id}, which was closed meanwhile,"));
                return Err(ForgeError::Conflict { what });
            }
            return self.edit_request(request, text).await;
        }
        match self.open_request(branch).await? {
            Some(request) => self.edit_request(request, text).await,
            None => self.create_request(branch, text).await,
        }
    }

    /// Writes title and text of a merge request and closes it, as far as that is not done yet.
    pub(super) async fn close_merge_request(
        &self,
        branch: &str,
        id: &str,
        title: &str,
        body: &str,
    ) -> Result<(), ForgeError> {
        let request = self.own_request(branch, id).await?;
        let mut edit = edit_of(&request, title, body, request.is_draft());
        if request.is_open() {
            edit.insert("state_event".into(), json!("close"));
        }
        self.edit(&request, edit, |now| {
            !now.is_open() && edit_of(now, title, body, now.is_draft()).is_empty()
        })
        .await
    }

    /// A merge request of the bot's, by its number.
    async fn own_request(&self, branch: &str, id: &str) -> Result<dto::MergeRequest, ForgeError> {
        let request = self.merge_request(id).await?;
        let denied = |why: &str| {
            Err(ForgeError::Denied { what: self.on(&format!("writing merge request !{id}, {why},")) })
        };
        if !self.is_bot(&request.author).await? {
            return denied("which a person opened");
        }
        if request.source_branch != branch {
            return denied(&format!("which is for another branch than `{branch}`"));
        }
        Ok(request)
    }

    /// A merge request by its number.
    pub(super) async fn merge_request(&self, id: &str) -> Result<dto::MergeRequest, ForgeError> {
        let project = self.project().await?.id;
        let what = self.on(&format!("merge request !{id}"));
        let number = id.parse().map_err(|_| ForgeError::NotFound { what: what.clone() })?;
        self.client.get(&format!("reading {what}"), &endpoints::merge_request(project, number)?).await
    }

    /// The bot's open merge request of a branch.
    async fn open_request(&self, branch: &str) -> Result<Option<dto::MergeRequest>, ForgeError> {
        let open = self.requests_of(branch).await?.into_iter().filter(|(request, _)| request.is_open());
        Ok(open.filter(|(_, by_bot)| *by_bot).map(|(request, _)| request).max_by_key(|request| request.iid))
    }

    async fn edit_request(
        &self,
        request: dto::MergeRequest,
        text: &RequestText,
    ) -> Result<String, ForgeError> {
        let edit = edit_of(&request, &text.title, &text.body, text.draft);
        self.edit(&request, edit, |now| edit_of(now, &text.title, &text.body, text.draft).is_empty()).await?;
        Ok(request.web_url)
    }

    /// Sends an edit, unless it is empty. Without an answer the merge request itself says whether it was `done`.
    pub(super) async fn edit(
        &self,
        request: &dto::MergeRequest,
        edit: Map<String, Value>,
        done: impl Fn(&dto::MergeRequest) -> bool,
    ) -> Result<(), ForgeError> {
        if edit.is_empty() {
            return Ok(());
        }
        let project = self.project().await?.id;
        let what = self.on(&format!("editing merge request !{}", request.iid));
        let asked = endpoints::edit_merge_request(project, request.iid, Value::Object(edit));
        match self.client.write(&what, &asked).await.and_then(|answer| judged(&what, answer)) {
            Ok(_) => Ok(()),
            Err(error @ ForgeError::Unanswered { .. }) => {
                let now = self.merge_request(&request.iid.to_string()).await?;
                if done(&now) { Ok(()) } else { Err(error) }
            }
            Err(error) => Err(error),
        }
    }

    async fn create_request(&self, branch: &str, text: &RequestText) -> Result<String, ForgeError> {
        let project = self.project().await?.id;
        let what = self.on(&format!("opening a merge request for `{branch}`"));
        let mut order = json!({
            "source_branch": branch,
            "target_branch": text.base_branch,
            "title": dto::marked(&text.title, text.draft),
            "description": text.body,
        });
        // GitLab makes labels that it does not have yet. They go as one text, in which a comma ends a label.
        let (labels, others): (Vec<&str>, Vec<&str>) =
            text.labels.iter().map(String::as_str).partition(|label| !label.contains(','));
        for label in others {
            tracing::warn!("{what}: the label `{label}` has a comma and is left out");
        }
        if !labels.is_empty() {
            order["labels"] = json!(labels.join(","));
        }
        let reviewers = self.reviewers(&text.reviewers).await;
        if !reviewers.is_empty() {
            order["reviewer_ids"] = json!(reviewers);
        }
        let asked = endpoints::create_merge_request(project, order);
        let mut last = None;
        for _ in 0..MOST_TRIES {
            let answer = self.client.write(&what, &asked).await;
            match answer.and_then(|answer| judged(&what, answer)) {
                Ok(answer) => return Ok(answer.json::<dto::MergeRequest>(&what)?.web_url),
                Err(error @ (ForgeError::Conflict { .. } | ForgeError::Unanswered { .. })) => {
                    last = Some(error)
                }
                Err(error) => return Err(error),
            }
            // Another one is open already, or no answer came: there is one, or there is none.
            if let Some(request) = looked_for(|| self.open_request(branch)).await? {
                return self.edit_request(request, text).await;
            }
            if matches!(last, Some(ForgeError::Conflict { .. })) {
                break;
            }
        }
        Err(match last {
            Some(ForgeError::Conflict { .. }) | None => ForgeError::Blocked {
                what: format!(
                    "{what}: somebody else opened one from this branch; close it, and delete the branch if nobody needs it"
                ),
            },
            Some(error) => error,
        })
    }

    /// Numbers of the accounts to ask for a review; whoever cannot be asked is left out, with a line in the log.
    async fn reviewers(&self, names: &[String]) -> Vec<u64> {
        let mut numbers = Vec::new();
        for name in names {
            let login = name.strip_prefix('@').unwrap_or(name);
            if login.contains(['/', '@']) {
                tracing::info!("{name} is a group or an address: nobody is asked for a review by it");
                continue;
            }
            let what = format!("looking for the account {name}");
            let found = match endpoints::user_named(login) {
                Ok(asked) => self.client.list::<dto::User>(&what, &asked).await,
                Err(error) => Err(error),
            };
            match found.map(|users| users.into_iter().find(|user| user.username.eq_ignore_ascii_case(login)))
            {
                Ok(Some(user)) => numbers.push(user.id),
                Ok(None) => tracing::info!("there is no account {name}: nobody is asked for a review by it"),
                Err(error) => tracing::warn!("{name} is not asked for a review: {error}"),
            }
        }
        numbers
    }
}

/// What has to be sent to make title and text so.
fn edit_of(request: &dto::MergeRequest, title: &str, body: &str, draft: bool) -> Map<String, Value> {
    let mut edit = Map::new();
    if dto::bare(&request.title) != dto::bare(title) || request.is_draft() != draft {
        edit.insert("title".into(), json!(dto::marked(title, draft)));
    }
    if request.body().replace("\r\n", "\n").trim_end() != body.trim_end() {
        edit.insert("description".into(), json!(body));
    }
    edit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_sent() {
        let there = dto::MergeRequest {
            title: "WIP: Share".into(),
            description: Some("body\r\n".into()),
            ..dto::MergeRequest::default()
        };
        let edit = |title, body, draft| Value::Object(edit_of(&there, title, body, draft));
        assert_eq!(edit("Share", "body\n", true), json!({}));
        assert_eq!(edit("Share", "body\n", false), json!({ "title": "Share" }));
        assert_eq!(edit("Other", "body", true), json!({ "title": "Draft: Other" }));
        assert_eq!(edit("Share", "other", true), json!({ "description": "other" }));
    }
}
