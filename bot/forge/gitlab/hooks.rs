//! How GitLab tells the bot of what happens: webhooks of the project.

use jiff::Timestamp;

use super::checkup::is_refused;
use super::client::judged;
use super::{GitLab, dto, endpoints};
use crate::forge::contact::{Attempt, Delivery, HookOf, failed, points_at};
use crate::forge::remote::http::moment;
use crate::forge::{ForgeError, one_line};

/// Entries on a page of what a hook sent. More are refused, unlike everywhere else.
const PER_PAGE: &str = "20";

/// Most pages of what one hook sent that are read: 1,000 attempts.
const MOST_PAGES: usize = 50;

/// What all attempts at one delivery share, since GitLab 17.4. (`X-Gitlab-Event-UUID` is shared by deliveries that one event
/// led to, and so by different ones.)
const KEY: &str = "idempotency-key";

impl GitLab {
    /// Hooks of the project; for maintainers.
    pub(super) async fn hooks(&self, project: u64) -> Result<Vec<dto::Hook>, ForgeError> {
        self.client.list(&self.on("reading the webhooks"), &endpoints::hooks(project)?).await
    }

    /// Hooks of a group that the project is in; for its owners.
    pub(super) async fn group_hooks(&self, group: &str) -> Result<Vec<(HookOf, dto::Hook)>, ForgeError> {
        let what = format!("reading the webhooks of the group {group}");
        let hooks: Vec<dto::Hook> = self.client.list(&what, &endpoints::group_hooks(group)).await?;
        let of = |hook: &dto::Hook| HookOf::Group { group: group.to_owned(), hook: hook.id };
        Ok(hooks.into_iter().map(|hook| (of(&hook), hook)).collect())
    }

    pub(super) async fn deliveries_that_failed(
        &self,
        address: &str,
        since: Timestamp,
    ) -> Result<Vec<Delivery>, ForgeError> {
        let project = self.project().await?;
        let own = self.hooks(project.id).await?.into_iter();
        let mut hooks: Vec<_> = own.map(|hook| (HookOf::Repository(hook.id), hook)).collect();
        for group in project.namespace.groups() {
            match self.group_hooks(group).await {
                Ok(more) => hooks.extend(more),
                // The bot need not own the group.
                Err(error) if is_refused(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let mut attempts = Vec::new();
        for (of, hook) in hooks.into_iter().filter(|(_, hook)| points_at(&hook.url, address)) {
            attempts.extend(self.attempts(project.id, &of, &hook, since).await?);
        }
        Ok(failed(attempts))
    }

    /// Attempts of one hook for this project since then, as far as they can be sent again. The latest come first, so that
    /// leaving out the older ones leaves what is said of the others true.
    async fn attempts(
        &self,
        project: u64,
        of: &HookOf,
        hook: &dto::Hook,
        since: Timestamp,
    ) -> Result<Vec<Attempt>, ForgeError> {
        let what = self.on("reading what a webhook sent");
        let Some(asked) = endpoints::hook_events(project, of) else { return Ok(Vec::new()) };
        let time =
            |event: &dto::HookEvent| event.created_at.as_deref().map(|at| moment(at, &what)).transpose();
        let is_old = |event: &dto::HookEvent| matches!(time(event), Ok(Some(at)) if at < since);
        let (events, whole) =
            self.client.first(&what, &asked, PER_PAGE, MOST_PAGES, |page| page.iter().any(is_old)).await?;
        if !whole {
            tracing::warn!(hook = hook.id, "only the last {} deliveries were looked at", events.len());
        }
        let is_here = |event: &dto::HookEvent| match of {
            HookOf::Group { .. } => {
                let said = &event.request_data;
                [&said["project"]["id"], &said["project_id"]].iter().any(|id| id.as_u64() == Some(project))
            }
            HookOf::Repository(_) | HookOf::App => true,
        };
        let mut attempts = Vec::new();
        // GitLab refuses to send again what went to where the hook does not point any more.
        let can_be_sent = |event: &dto::HookEvent| event.url == hook.url && !is_old(event) && is_here(event);
        for event in events.into_iter().filter(can_be_sent) {
            let at = time(&event)?;
            let key = (event.request_headers.iter())
                .find(|(name, _)| name.eq_ignore_ascii_case(KEY))
                .and_then(|(_, key)| Some(key.as_str()?.to_owned()));
            let delivery = Delivery {
                hook: of.clone(),
                id: event.id,
                key: key.unwrap_or_else(|| event.id.to_string()),
                event: event.trigger,
                at,
                outcome: one_line(&event.response_status.0),
            };
            attempts.push(Attempt { delivery, arrived: event.response_status.arrived() });
        }
        Ok(attempts)
    }

    /// Has it sent again, while GitLab waits for what comes of it. Sent once: GitLab takes five such requests a minute, and
    /// the next look at the deliveries shows whether it arrived.
    pub(super) async fn delivered_again(&self, delivery: &Delivery) -> Result<(), ForgeError> {
        let project = self.project().await?.id;
        let what = self.on("sending a delivery of a webhook again");
        let asked = endpoints::resend(project, &delivery.hook, delivery.id);
        let asked = asked.ok_or_else(|| ForgeError::NotFound { what: format!("{what}: an App's hook") })?;
        let _one = self.writing.lock().await;
        let sent: dto::Resent = judged(&what, self.client.write(&what, &asked).await?)?.json(&what)?;
        if sent.response_status.arrived() {
            return Ok(());
        }
        let outcome = one_line(&sent.response_status.0);
        Err(ForgeError::Failed { what: format!("{what}: it did not arrive ({outcome})"), cause: None })
    }

    /// What came of the last delivery of a hook, where it did not arrive.
    pub(super) async fn last_failure(&self, project: u64, of: &HookOf) -> Result<Option<String>, ForgeError> {
        let what = self.on("reading what a webhook sent");
        let Some(asked) = endpoints::hook_events(project, of) else { return Ok(None) };
        let (events, _): (Vec<dto::HookEvent>, _) =
            self.client.first(&what, &asked, "1", 1, |_| true).await?;
        let last = events.into_iter().max_by_key(|event| event.id);
        let last = last.filter(|event| !event.response_status.arrived());
        Ok(last.map(|event| one_line(&event.response_status.0)))
    }
}
