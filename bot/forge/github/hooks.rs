//! How GitHub tells the bot of what happens: the App's one hook, or hooks of the repository.

use jiff::Timestamp;
use reqwest::Method;

use super::GitHub;
use super::checkup::is_refused;
use super::client::next_cursor;
use super::dto;
use crate::forge::contact::{Attempt, Delivery, HookOf, failed, points_at};
use crate::forge::remote::http::{Answer, moment, part, retried};
use crate::forge::{ForgeError, one_line};

/// Most pages of attempts that are read, of 100 each. An App has one list for all repositories that it is installed on.
const MOST_PAGES: usize = 50;

impl GitHub {
    pub(super) async fn deliveries_that_failed(
        &self,
        address: &str,
        since: Timestamp,
    ) -> Result<Vec<Delivery>, ForgeError> {
        let mut attempts = Vec::new();
        let of_app = self.address_of_app().await?;
        if of_app.as_ref().is_some_and(|hook| points_at(hook, address)) {
            attempts = self.attempts(None, since).await?;
        }
        let hooks = match self.hooks().await {
            // An App has a hook of its own, and need not see those of repositories.
            Err(error) if of_app.is_some() && is_refused(&error) => Vec::new(),
            hooks => hooks?,
        };
        for hook in hooks {
            if hook.config.url.is_some_and(|url| points_at(&url, address)) {
                attempts.extend(self.attempts(Some(hook.id), since).await?);
            }
        }
        Ok(failed(attempts))
    }

    /// Has it sent again, and once more where no answer comes: the receiver knows it by its key.
    pub(super) async fn delivered_again(&self, delivery: &Delivery) -> Result<(), ForgeError> {
        let repository = self.repository().await?;
        let what = format!("sending a delivery of {} again", repository.name);
        let hook = match delivery.hook {
            HookOf::App => None,
            HookOf::Repository(hook) => Some(hook),
            HookOf::Group { .. } => {
                return Err(ForgeError::NotFound { what: format!("{what}: a group's hook") });
            }
        };
        let path = format!("{}/{}/attempts", self.deliveries_at(hook).await?, delivery.id);
        let _turn = self.writing.lock().await;
        if hook.is_some() {
            return retried(|| self.client.write(&what, Method::POST, &path, None)).await.map(drop);
        }
        match self.client.as_app(&what, Method::POST, &path).await {
            Some(answer) => answer.map(drop),
            None => Err(ForgeError::NotFound { what: format!("{what}: an App's hook") }),
        }
    }

    /// Where the App's hook points: nowhere, as long as it has none. `None` for other accounts.
    pub(super) async fn address_of_app(&self) -> Result<Option<String>, ForgeError> {
        let what = "reading where the App's hook points";
        match self.client.as_app(what, Method::GET, "/app/hook/config").await {
            None => Ok(None),
            Some(Err(ForgeError::NotFound { .. })) => Ok(Some(String::new())),
            Some(answer) => Ok(Some(answer?.json::<dto::HookConfig>(what)?.url.unwrap_or_default())),
        }
    }

    /// Hooks of the repository.
    pub(super) async fn hooks(&self) -> Result<Vec<dto::Hook>, ForgeError> {
        let repository = self.repository().await?;
        let what = format!("reading the webhooks of {}", repository.name);
        self.client.list(&what, &repository.path("/hooks")).await
    }

    async fn deliveries_at(&self, hook: Option<u64>) -> Result<String, ForgeError> {
        Ok(match hook {
            None => "/app/hook/deliveries".to_owned(),
            Some(hook) => self.repository().await?.path(&format!("/hooks/{hook}/deliveries")),
        })
    }

    /// Attempts for this repository since then, the latest first. Where there are too many, the older ones are left out: what
    /// is said of the others stays true, since a later attempt is never among those.
    pub(super) async fn attempts(
        &self,
        hook: Option<u64>,
        since: Timestamp,
    ) -> Result<Vec<Attempt>, ForgeError> {
        let (mut attempts, mut cursor) = (Vec::new(), None);
        for _ in 0..MOST_PAGES {
            let (page, next) = self.page_of_attempts(hook, cursor.as_deref()).await?;
            let is_old = |attempt: &Attempt| attempt.delivery.at.is_some_and(|at| at < since);
            let is_last = next.is_none() || page.iter().any(|(attempt, _)| is_old(attempt));
            let id = self.repository().await?.id;
            let ours = page.into_iter().filter(|(attempt, of)| *of == Some(id) && !is_old(attempt));
            attempts.extend(ours.map(|(attempt, _)| attempt));
            if is_last {
                return Ok(attempts);
            }
            cursor = next;
        }
        tracing::warn!(hook, "only the last {} deliveries were looked at", MOST_PAGES * 100);
        Ok(attempts)
    }

    /// One page: each attempt with the number of the repository that it is about.
    pub(super) async fn page_of_attempts(
        &self,
        hook: Option<u64>,
        cursor: Option<&str>,
    ) -> Result<(Vec<(Attempt, Option<u64>)>, Option<String>), ForgeError> {
        let repository = self.repository().await?;
        let what = format!("reading the deliveries of hooks for {}", repository.name);
        let cursor = cursor.map(|cursor| format!("&cursor={}", part(cursor))).unwrap_or_default();
        let path = format!("{}?per_page=100{cursor}", self.deliveries_at(hook).await?);
        let answer: Answer =
            match hook {
                Some(_) => self.client.get_fixed(&what, &path).await?,
                None => self.client.as_app(&what, Method::GET, &path).await.unwrap_or_else(|| {
                    Err(ForgeError::NotFound { what: format!("{what}: an App's hook") })
                })?,
            };
        let page: Vec<dto::Delivery> = answer.json(&what)?;
        let attempt = |one: dto::Delivery| {
            let at = Some(moment(&one.delivered_at, &what)?);
            let outcome = one_line(&one.status);
            // A hook of the repository tells of nothing else, whatever it leaves out.
            let of = if hook.is_some() { Some(repository.id) } else { one.repository_id };
            let arrived = (200..300).contains(&one.status_code);
            let hook = hook.map_or(HookOf::App, HookOf::Repository);
            let delivery = Delivery { hook, id: one.id, key: one.guid, event: one.event, at, outcome };
            Ok((Attempt { delivery, arrived }, of))
        };
        let next = next_cursor(&answer);
        Ok((page.into_iter().map(attempt).collect::<Result<_, ForgeError>>()?, next))
    }
}
