//! People on GitLab: their roles, their comments, answers to them, and files to show them.

use std::sync::PoisonError;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::client::judged;
use super::{GitLab, dto, endpoints};
use crate::forge::branch::own;
use crate::forge::contact::checkup::Checkup;
use crate::forge::contact::{Contact, Delivery, Person, Reaction, Remark, Role};
use crate::forge::remote::board::empty;
use crate::forge::remote::comment::reply;
use crate::forge::remote::http::{moment, retried};
use crate::forge::{Forge as _, ForgeError};

#[async_trait]
impl Contact for GitLab {
    async fn role(&self, person: &Person) -> Result<Role, ForgeError> {
        self.role_of(self.project().await?.id, person.id).await
    }

    async fn branch_of(&self, request: &str) -> Result<Option<String>, ForgeError> {
        let request = match self.merge_request(request).await {
            Err(ForgeError::NotFound { .. }) => return Ok(None),
            request => request?,
        };
        // A fork may have a branch of the same name.
        let is_here = request.source_project_id == Some(self.project().await?.id);
        let base = self.base_branch().await?;
        let branch = Some(request.source_branch).filter(|_| is_here);
        Ok(branch.and_then(|name| own(name, &self.target.branch_prefix, &base)))
    }

    async fn label(&self, request: &str, label: &str, on: bool) -> Result<(), ForgeError> {
        let request = self.merge_request(request).await?;
        let edit = label_edit(&request, label, on);
        if on && label.contains(',') && !edit.is_empty() {
            let what = self.on(&format!("putting the label `{label}` on merge request !{}", request.iid));
            let what = format!("{what}: no label of GitLab's has a comma");
            return Err(ForgeError::Failed { what, cause: None });
        }
        let _one = self.writing.lock().await;
        self.edit(&request, edit, |now| label_edit(now, label, on).is_empty()).await
    }

    async fn comments(&self, request: &str, after: Option<&str>) -> Result<Vec<Remark>, ForgeError> {
        let notes = GitLab::comments(self, request).await?;
        let what = notes.what("reading the comments");
        let after = after.map(|after| number(after, &what)).transpose()?;
        let mut remarks = Vec::new();
        for note in notes.all(&what).await? {
            if after.is_none_or(|after| note.id > after) {
                remarks.push(self.remark(note, &what).await?);
            }
        }
        Ok(remarks)
    }

    async fn react(&self, request: &str, comment: &str, reaction: Reaction) -> Result<(), ForgeError> {
        let notes = GitLab::comments(self, request).await?;
        let what = notes.what("reacting to a comment");
        let note = number(comment, &what)?;
        let emoji = match reaction {
            Reaction::Seen => "eyes",
            Reaction::Done => "thumbsup",
            Reaction::Failed => "thumbsdown",
        };
        let asked = endpoints::create_award(notes.project, notes.number, note, emoji);
        let _one = self.writing.lock().await;
        // Without an answer it is sent again: an account has each emoji once.
        let put = retried(|| async { judged(&what, self.client.write(&what, &asked).await?) }).await;
        match put {
            // One that is there already is refused in the words for a comment that is not.
            Err(
                error @ (ForgeError::NotFound { .. }
                | ForgeError::Conflict { .. }
                | ForgeError::Failed { .. }),
            ) => {
                let asked = endpoints::awards(notes.project, notes.number, note)?;
                let there: Option<Vec<dto::Award>> = match self.client.list(&what, &asked).await {
                    Ok(there) => Some(there),
                    Err(ForgeError::NotFound { .. }) => None,
                    Err(error) => return Err(error),
                };
                for award in there.unwrap_or_default() {
                    if award.name == emoji && self.is_bot(&award.user).await? {
                        return Ok(());
                    }
                }
                Err(error)
            }
            put => put.map(drop),
        }
    }

    async fn reply(&self, request: &str, marker: &str, text: &str) -> Result<(), ForgeError> {
        let _one = self.writing.lock().await;
        reply(&GitLab::comments(self, request).await?, marker, text).await
    }

    async fn is_person(&self, person: &Person) -> Result<bool, ForgeError> {
        let is_own = person.id == self.account().await?.id || self.former_ids.contains(&person.id);
        Ok(!is_own && self.program(person.id).await? == Some(false))
    }

    async fn empty_boxes(&self, title: &str, issue: &str) -> Result<bool, ForgeError> {
        let _one = self.writing.lock().await;
        empty(self, title, issue).await
    }

    async fn attach(&self, name: &str, content: &[u8]) -> Result<Option<String>, ForgeError> {
        let what = self.on("uploading a file for a merge request");
        let asked = endpoints::upload(self.project().await?.id, name, content).ok_or_else(|| {
            ForgeError::Failed { what: format!("{what}: it holds the end of its own form"), cause: None }
        })?;
        let _one = self.writing.lock().await;
        let kept: dto::Upload = judged(&what, self.client.write(&what, &asked).await?)?.json(&what)?;
        Ok(Some(kept.markdown))
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

impl GitLab {
    /// What an account may do in a project now.
    pub(super) async fn role_of(&self, project: u64, user: u64) -> Result<Role, ForgeError> {
        let what = self.on(&format!("asking what account {user} may do in the members"));
        let found: Option<dto::Member> = self.client.find(&what, &endpoints::member(project, user)?).await?;
        let today = jiff::tz::Offset::UTC.to_datetime(Timestamp::now()).date();
        match found {
            None => Ok(Role::None),
            Some(member) => role(&member, today, &what),
        }
    }

    async fn remark(&self, note: dto::Note, what: &str) -> Result<Remark, ForgeError> {
        let own = !note.system && self.is_bot(&note.author).await?;
        // One that is not shown is nobody whose word counts.
        let is_bot = own || (!note.system && self.program(note.author.id).await? != Some(false));
        let author = Person { id: note.author.id, login: note.author.username };
        Ok(Remark {
            id: note.id.to_string(),
            author: Some(author).filter(|author| author.id != 0),
            is_bot,
            own,
            text: note.body.replace("\r\n", "\n"),
            created: moment(&note.created_at, what)?,
            // A reaction changes the time of change too (`AwardEmoji#expire_cache` in GitLab).
            edited: (note.updated_at == note.created_at).then_some(false),
            system: note.system,
            internal: note.internal.or(note.confidential) == Some(true),
        })
    }

    /// Whether an account is a program; each is asked about once. `None`: it is not shown.
    pub(super) async fn program(&self, id: u64) -> Result<Option<bool>, ForgeError> {
        let known = self.programs.lock().unwrap_or_else(PoisonError::into_inner).get(&id).copied();
        if let Some(known) = known {
            return Ok(known);
        }
        let what = format!("reading account {id}");
        let found: Option<dto::User> = self.client.find(&what, &endpoints::user(id)?).await?;
        let is_program = found.map(|user| user.bot);
        self.programs.lock().unwrap_or_else(PoisonError::into_inner).insert(id, is_program);
        Ok(is_program)
    }
}

/// What a membership is worth on this day: nothing, unless account and membership are active.
fn role(member: &dto::Member, today: jiff::civil::Date, what: &str) -> Result<Role, ForgeError> {
    let is_active =
        member.state == "active" && member.membership_state.as_deref().is_none_or(|state| state == "active");
    let ends = match member.expires_at.as_deref() {
        None => None,
        Some(text) => {
            let day = text.get(..10).unwrap_or(text).parse::<jiff::civil::Date>();
            Some(day.map_err(|cause| ForgeError::Failed {
                what: format!("{what}: a membership ends at `{}`, which is no day", text.escape_debug()),
                cause: Some(Box::new(cause)),
            })?)
        }
    };
    if !is_active || ends.is_some_and(|ends| ends <= today) {
        return Ok(Role::None);
    }
    // https://docs.gitlab.com/api/members/#roles; levels between these came with later versions.
    Ok(match member.access_level {
        0..10 => Role::None,
        10..20 => Role::Read,
        20..30 => Role::Triage,
        30..40 => Role::Write,
        40..50 => Role::Maintain,
        50.. => Role::Admin,
    })
}

/// What has to be sent so that a merge request has a label, or has it in no spelling: a hold is one in any of them.
fn label_edit(request: &dto::MergeRequest, label: &str, on: bool) -> Map<String, Value> {
    let same: Vec<&str> =
        request.labels.iter().map(String::as_str).filter(|known| known.eq_ignore_ascii_case(label)).collect();
    match (on, same.as_slice()) {
        (true, []) => Map::from_iter([("add_labels".to_owned(), json!(label))]),
        (false, [_, ..]) => Map::from_iter([("remove_labels".to_owned(), json!(same.join(",")))]),
        (true, [_, ..]) | (false, []) => Map::new(),
    }
}

fn number(id: &str, what: &str) -> Result<u64, ForgeError> {
    id.parse().map_err(|_| ForgeError::NotFound { what: format!("{what}: comment `{}`", id.escape_debug()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worth(state: &str, membership: Option<&str>, level: u32, ends: Option<&str>) -> Role {
        let member = dto::Member {
            state: state.into(),
            membership_state: membership.map(str::to_owned),
            access_level: level,
            expires_at: ends.map(str::to_owned),
        };
        role(&member, "2026-01-15".parse().unwrap(), "x").unwrap()
    }

    #[test]
    fn a_membership_is_worth_its_level_while_it_is_active() {
        let levels = [0, 5, 10, 15, 20, 25, 30, 40, 50, 60];
        let roles = levels.map(|level| worth("active", None, level, None));
        use Role::{Admin, Maintain, None as Nothing, Read, Triage, Write};
        assert_eq!(roles, [Nothing, Nothing, Read, Read, Triage, Triage, Write, Maintain, Admin, Admin]);
        assert_eq!(worth("active", Some("active"), 40, Some("2026-01-16")), Maintain);
        assert_eq!(worth("active", Some("awaiting"), 40, None), Nothing);
        assert_eq!(worth("blocked", None, 40, None), Nothing);
        assert_eq!(worth("active", None, 40, Some("2026-01-15")), Nothing, "it ends as the day begins");
        assert_eq!(worth("active", None, 40, Some("2026-01-16T00:00:00Z")), Maintain);
    }

    #[test]
    fn an_end_that_is_no_day_is_no_answer() {
        let member = dto::Member {
            state: "active".into(),
            membership_state: None,
            access_level: 40,
            expires_at: Some("soon".into()),
        };
        assert!(role(&member, "2026-01-15".parse().unwrap(), "x").is_err());
    }
}
