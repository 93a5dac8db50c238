//! People on GitHub: their roles, their comments, answers to them.

use async_trait::async_trait;
use jiff::Timestamp;
use reqwest::Method;
use serde_json::json;

use super::GitHub;
use super::dto::{self, CollaboratorPermission};
use crate::forge::ForgeError;
use crate::forge::branch::own;
use crate::forge::contact::checkup::Checkup;
use crate::forge::contact::{Contact, Delivery, Person, Reaction, Remark, Role};
use crate::forge::remote::board::empty;
use crate::forge::remote::comment::reply;
use crate::forge::remote::http::{moment, part, retried};

#[async_trait]
impl Contact for GitHub {
    async fn role(&self, person: &Person) -> Result<Role, ForgeError> {
        let repository = self.repository().await?;
        let what = format!("asking what {} may do in {}", person.login, repository.name);
        let path = repository.path(&format!("/collaborators/{}/permission", part(&person.login)));
        let said: CollaboratorPermission = match self.client.get_fixed(&what, &path).await {
            Ok(answer) => answer.json(&what)?,
            Err(ForgeError::NotFound { .. }) => return Ok(Role::None),
            Err(error) => return Err(error),
        };
        // Names are given up and taken by others.
        if said.user.as_ref().map(|user| user.id) != Some(person.id) {
            let what = format!("{what}: that name does not stand for account {} (any more)", person.id);
            return Err(ForgeError::Failed { what, cause: None });
        }
        role(&said).ok_or_else(|| {
            let said = said.permission.escape_debug();
            ForgeError::Failed { what: format!("{what}: the permission `{said}` is not known"), cause: None }
        })
    }

    async fn branch_of(&self, request: &str) -> Result<Option<String>, ForgeError> {
        let Some(pull) = self.pull_of_number(request).await? else { return Ok(None) };
        let repository = self.repository().await?;
        let branch = Some(pull.head).filter(|head| head.is_in(&repository.name)).map(|head| head.branch);
        Ok(branch.and_then(|name| own(name, &self.target.branch_prefix, &repository.base_branch)))
    }

    async fn label(&self, request: &str, label: &str, on: bool) -> Result<(), ForgeError> {
        let Some(pull) = self.pull_of_number(request).await? else {
            return Err(ForgeError::NotFound { what: format!("pull request #{}", request.escape_debug()) });
        };
        let is_on = pull.labels.iter().any(|known| known.name.eq_ignore_ascii_case(label));
        let _turn = self.writing.lock().await;
        match (on, is_on) {
            (true, false) => self.add_label(pull.number, label).await,
            (false, true) => self.remove_label(pull.number, label).await,
            (true, true) | (false, false) => Ok(()),
        }
    }

    async fn comments(&self, request: &str, after: Option<&str>) -> Result<Vec<Remark>, ForgeError> {
        let comments = GitHub::comments(self, request).await?;
        let what = comments.what("reading the comments");
        let after = after.map(|after| number(after, &what)).transpose()?;
        let mut remarks = Vec::new();
        for comment in comments.all(&what).await? {
            if after.is_none_or(|after| comment.id > after) {
                remarks.push(self.remark(comment, &what).await?);
            }
        }
        Ok(remarks)
    }

    async fn react(&self, request: &str, comment: &str, reaction: Reaction) -> Result<(), ForgeError> {
        let repository = self.repository().await?;
        let what = format!("reacting to a comment on #{request} of {}", repository.name);
        let path = repository.path(&format!("/issues/comments/{}/reactions", number(comment, &what)?));
        let content = match reaction {
            Reaction::Seen => "eyes",
            Reaction::Done => "rocket",
            Reaction::Failed => "confused",
        };
        let body = json!({"content": content});
        let _turn = self.writing.lock().await;
        // Without an answer it is sent again: the same reaction of the same account stays one (200 instead of 201).
        retried(|| self.client.write(&what, Method::POST, &path, Some(&body))).await.map(drop)
    }

    async fn reply(&self, request: &str, marker: &str, text: &str) -> Result<(), ForgeError> {
        let _turn = self.writing.lock().await;
        reply(&GitHub::comments(self, request).await?, marker, text).await
    }

    async fn is_person(&self, person: &Person) -> Result<bool, ForgeError> {
        let what = format!("reading the account {}", person.login);
        let user = match self.client.get_fixed(&what, &format!("/users/{}", part(&person.login))).await {
            Ok(answer) => answer.json::<dto::User>(&what)?,
            Err(ForgeError::NotFound { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        Ok(user.id == person.id && user.is_person() && !self.is_own(Some(&user)).await?)
    }

    async fn empty_boxes(&self, title: &str, issue: &str) -> Result<bool, ForgeError> {
        let _turn = self.writing.lock().await;
        empty(self, title, issue).await
    }

    /// GitHub takes files through its pages only.
    async fn attach(&self, _name: &str, _content: &[u8]) -> Result<Option<String>, ForgeError> {
        Ok(None)
    }

    async fn failed_deliveries(&self, address: &str, since: Timestamp) -> Result<Vec<Delivery>, ForgeError> {
        self.deliveries_that_failed(address, since).await
    }

    async fn redeliver(&self, delivery: &Delivery) -> Result<(), ForgeError> {
        self.delivered_again(delivery).await
    }

    async fn checkup(&self, address: Option<&str>) -> Result<Option<Checkup>, ForgeError> {
        self.checked(address).await.map(Some)
    }
}

impl GitHub {
    /// The pull request with this number. `None`: there is none, or it is an issue.
    async fn pull_of_number(&self, number: &str) -> Result<Option<dto::Pull>, ForgeError> {
        let Ok(number) = number.parse() else { return Ok(None) };
        match self.pull(number).await {
            Ok(pull) => Ok(Some(pull)),
            Err(ForgeError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn remark(&self, comment: dto::Comment, what: &str) -> Result<Remark, ForgeError> {
        let own = self.is_own(comment.user.as_ref()).await?;
        Ok(Remark {
            id: comment.id.to_string(),
            is_bot: comment.user.as_ref().is_none_or(|user| !user.is_person()),
            author: comment.user.map(|user| Person { id: user.id, login: user.login }),
            own,
            text: comment.body.unwrap_or_default().replace("\r\n", "\n"),
            created: moment(&comment.created_at, what)?,
            // A reaction leaves the time of change as it is, unlike on GitLab.
            edited: Some(comment.updated_at != comment.created_at),
            system: false,
            internal: false,
        })
    }
}

/// The role that GitHub tells of; `None`: it is in no word that is known. A role that an organization made for itself counts
/// as what it was made from.
fn role(said: &CollaboratorPermission) -> Option<Role> {
    let known = |name: &str| {
        Some(match name {
            "admin" => Role::Admin,
            "maintain" => Role::Maintain,
            "write" => Role::Write,
            "triage" => Role::Triage,
            "read" => Role::Read,
            "none" => Role::None,
            _ => return None,
        })
    };
    said.role_name.as_deref().and_then(known).or_else(|| known(&said.permission))
}

fn number(id: &str, what: &str) -> Result<u64, ForgeError> {
    id.parse().map_err(|_| ForgeError::NotFound { what: format!("{what}: comment `{}`", id.escape_debug()) })
}
