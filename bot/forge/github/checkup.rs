//! How the bot stands on GitHub.

use jiff::civil::Date;

use super::GitHub;
use super::dto::{self, Permissions};
use crate::forge::contact::checkup::{Checkup, Hook, HookState};
use crate::forge::contact::{Person, Role, points_at};
use crate::forge::remote::http::{Answer, bare_address};
use crate::forge::{ForgeError, one_line};

/// Rules that keep the bot from making, moving or deleting a branch, unless it may bypass them.
const HINDERING: [&str; 7] = [
    "creation",
    "update",
    "deletion",
    "non_fast_forward",
    "pull_request",
    "required_signatures",
    "merge_queue",
];

impl GitHub {
    pub(super) async fn checked(&self, address: Option<&str>) -> Result<Checkup, ForgeError> {
        let mut checkup = Checkup { repository: self.target.repository.clone(), ..Checkup::default() };
        match self.who().await {
            Ok(who) => checkup.account = Some(Person { id: who.id, login: who.login.clone() }),
            Err(ForgeError::Blocked { what }) => checkup.obstacles.push(what),
            Err(error) => return Err(error),
        }
        let (found, answer) = match self.described().await {
            Ok(described) => described,
            Err(error @ (ForgeError::Blocked { .. } | ForgeError::NotFound { .. })) => {
                let said = error.to_string();
                if !checkup.obstacles.contains(&said) {
                    checkup.obstacles.push(said);
                }
                return Ok(checkup);
            }
            Err(error) => return Err(error),
        };
        checkup.repository.clone_from(&found.full_name);
        if checkup.account.is_some() {
            checkup.obstacles.extend(self.obstacle(&found).await?);
            checkup.role = self.own_role(&found).await?;
        }
        let header = |name: &str| Some(answer.headers.get(name)?.to_str().ok()?.trim().to_owned());
        checkup.token_ends = token_ends(&answer);
        if let Some(scopes) = header("x-oauth-scopes").filter(|scopes| !scopes.is_empty()) {
            let scopes: Vec<String> = scopes.split(',').map(|scope| scope.trim().to_owned()).collect();
            let has = |wanted: &str| scopes.iter().any(|scope| scope == wanted);
            if !has("repo") && (found.private || !has("public_repo")) {
                checkup.missing_scopes.push("repo".to_owned());
            }
            checkup.scopes = Some(scopes);
        }
        if checkup.obstacles.is_empty() {
            self.check_rules(&mut checkup).await?;
            self.check_hooks(address, &mut checkup).await?;
        }
        Ok(checkup)
    }

    /// An installation's token was only given for an App that may write; a workflow's says nothing.
    async fn own_role(&self, found: &dto::Repository) -> Result<Option<Role>, ForgeError> {
        if self.client.is_app() {
            return Ok(Some(Role::Write));
        }
        Ok(found.permissions.filter(|_| !self.who.get().is_some_and(|who| who.is_app)).map(role))
    }

    async fn check_rules(&self, checkup: &mut Checkup) -> Result<(), ForgeError> {
        let branch = format!("{}/doctor", self.target.branch_prefix);
        let rules = match self.rules(&branch).await {
            Ok(rules) => rules,
            Err(error) if is_refused(&error) => {
                checkup.unseen.push("the rules for the bot's branches".to_owned());
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let mut kinds: Vec<String> = rules.into_iter().map(|rule| rule.kind).collect();
        kinds.retain(|kind| HINDERING.contains(&kind.as_str()));
        kinds.sort();
        kinds.dedup();
        checkup.protected = kinds;
        Ok(())
    }

    async fn check_hooks(&self, address: Option<&str>, checkup: &mut Checkup) -> Result<(), ForgeError> {
        let is_ours = |url: &str| address.is_none_or(|address| points_at(url, address));
        match self.address_of_app().await {
            // The App's own hook is nobody else's.
            Ok(Some(url)) if !url.is_empty() && is_ours(&url) => {
                let failed = self.last_failure().await?;
                let (address, state) = (bare_address(&url), HookState::On);
                checkup.hooks.push(Hook { address, is_ours: true, state, failed });
            }
            Ok(_) => {}
            Err(error) if is_refused(&error) => {
                checkup.unseen.push("the App's hook".to_owned());
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        // Whose the others are is known by where they point alone.
        if address.is_none() {
            return Ok(());
        }
        let hooks = match self.hooks().await {
            Ok(hooks) => hooks,
            // The App's own is found, and tells of the same.
            Err(error) if is_refused(&error) && !checkup.hooks.is_empty() => return Ok(()),
            Err(error) if is_refused(&error) && self.client.is_app() => {
                let what = "the webhooks of the repository (an App needs *Webhooks* with write access)";
                checkup.unseen.push(what.to_owned());
                return Ok(());
            }
            Err(error) if is_refused(&error) => {
                checkup.unseen.push("the webhooks of the repository (for administrators)".to_owned());
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        for hook in hooks {
            let Some(url) = hook.config.url.filter(|url| is_ours(url)) else { continue };
            let last = hook.last_response.and_then(|last| Some((last.code?, last.message)));
            let failed = last.filter(|(code, _)| !(200..300).contains(code));
            let failed = failed.map(|(code, said)| one_line(&format!("{code} {}", said.unwrap_or_default())));
            let state = if hook.active { HookState::On } else { HookState::Off };
            checkup.hooks.push(Hook { address: bare_address(&url), is_ours: true, state, failed });
        }
        Ok(())
    }

    /// What came of the App's last delivery for this repository, where it did not arrive. One page tells enough.
    async fn last_failure(&self) -> Result<Option<String>, ForgeError> {
        let (page, _) = self.page_of_attempts(None, None).await?;
        let id = self.repository().await?.id;
        let last = page.into_iter().find(|(_, of)| *of == Some(id));
        Ok(last.filter(|(last, _)| !last.arrived).map(|(last, _)| last.delivery.outcome))
    }
}

fn role(may: Permissions) -> Role {
    let ladder = [
        (may.admin, Role::Admin),
        (may.maintain, Role::Maintain),
        (may.push, Role::Write),
        (may.triage, Role::Triage),
        (may.pull, Role::Read),
    ];
    ladder.into_iter().find(|(may, _)| *may).map_or(Role::None, |(_, role)| role)
}

/// GitHub says so with every answer to a token that ends: `2026-01-31 12:00:00 UTC`.
fn token_ends(answer: &Answer) -> Option<Date> {
    let said = answer.headers.get("github-authentication-token-expiration")?.to_str().ok()?;
    said.split_whitespace().next()?.parse().ok()
}

/// The bot may not look.
pub(super) fn is_refused(error: &ForgeError) -> bool {
    matches!(error, ForgeError::Denied { .. } | ForgeError::NotFound { .. } | ForgeError::Blocked { .. })
}
