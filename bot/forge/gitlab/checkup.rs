//! How the bot stands on GitLab.

use std::collections::BTreeMap;

use super::publish::matches;
use super::read::obstacle;
use super::{GitLab, dto, endpoints};
use crate::forge::contact::checkup::{Checkup, Hook, HookState, Schedule};
use crate::forge::contact::{HookOf, Person, Role, points_at};
use crate::forge::remote::http::bare_address;
use crate::forge::{ForgeError, one_line};

/// Where administrators are GitLab's own people.
const GITLAB_COM: &str = "gitlab.com";

/// The scope that the bot's requests need. Git takes it too.
const SCOPE: &str = "api";

impl GitLab {
    pub(super) async fn checked(&self, address: Option<&str>) -> Result<Checkup, ForgeError> {
        let mut checkup = Checkup { repository: self.target.repository.clone(), ..Checkup::default() };
        let account = match self.account().await {
            Ok(account) => account,
            Err(ForgeError::Blocked { what }) => {
                checkup.obstacles.push(what);
                return Ok(checkup);
            }
            Err(error) => return Err(error),
        };
        checkup.account = Some(Person { id: account.id, login: account.username.clone() });
        self.check_token(&mut checkup).await?;
        let project = match self.described().await {
            Ok(project) => project,
            Err(error @ (ForgeError::Blocked { .. } | ForgeError::NotFound { .. })) => {
                checkup.obstacles.push(error.to_string());
                return Ok(checkup);
            }
            Err(error) => return Err(error),
        };
        checkup.repository.clone_from(&project.path_with_namespace);
        if let Some(why) = obstacle(&project) {
            checkup.obstacles.push(format!("project {} {why}", project.path_with_namespace));
        }
        checkup.role = seen(self.role_of(project.id, account.id).await, &mut checkup, "its own role")?;
        self.check_protected(project.id, &mut checkup).await?;
        self.check_hooks(&project, address, &mut checkup).await?;
        self.check_schedules(project.id, &mut checkup).await?;
        Ok(checkup)
    }

    /// Tokens of other kinds are not told about.
    async fn check_token(&self, checkup: &mut Checkup) -> Result<(), ForgeError> {
        let what = "reading the access token";
        let token: dto::Token = match self.client.get(what, &endpoints::own_token()?).await {
            Ok(token) => token,
            Err(error) if is_refused(&error) => return Ok(()),
            Err(ForgeError::Failed { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        checkup.token_ends = token.expires_at.and_then(|day| day.get(..10)?.parse().ok());
        if !token.scopes.iter().any(|scope| scope == SCOPE) {
            checkup.missing_scopes.push(SCOPE.to_owned());
        }
        checkup.scopes = Some(token.scopes);
        Ok(())
    }

    async fn check_protected(&self, project: u64, checkup: &mut Checkup) -> Result<(), ForgeError> {
        let patterns = self.protected_patterns(project).await;
        let patterns = seen(patterns, checkup, "the protected branches (for maintainers)")?;
        let below = format!("{}/", self.target.branch_prefix);
        let hinders =
            |pattern: &String| pattern.starts_with(&below) || matches(pattern, &format!("{below}doctor"));
        checkup.protected = patterns.unwrap_or_default().into_iter().filter(hinders).collect();
        Ok(())
    }

    async fn check_hooks(
        &self,
        project: &dto::Project,
        address: Option<&str>,
        checkup: &mut Checkup,
    ) -> Result<(), ForgeError> {
        let own = seen(self.hooks(project.id).await, checkup, "the webhooks (for maintainers)")?;
        let own = own.unwrap_or_default().into_iter();
        let mut hooks: Vec<_> = own.map(|hook| (HookOf::Repository(hook.id), hook)).collect();
        for group in project.namespace.groups() {
            let what = format!("the webhooks of the group {group} (for its owners)");
            hooks.extend(seen(self.group_hooks(group).await, checkup, &what)?.unwrap_or_default());
        }
        let may_be_ours = |hook: &dto::Hook| match address {
            Some(address) => points_at(&hook.url, address),
            None => hook.may_be_for_a_bot(),
        };
        for (of, hook) in hooks.into_iter().filter(|(_, hook)| may_be_ours(hook)) {
            let until = hook.disabled_until.as_deref().and_then(|until| until.parse().ok());
            let state = match hook.alert_status.as_deref() {
                Some("disabled") => HookState::Off,
                Some("temporarily_disabled") => HookState::Paused(until),
                _ => HookState::On,
            };
            // Servers before 17.3 do not tell what a hook sent.
            let failed = match self.last_failure(project.id, &of).await {
                Ok(failed) => failed,
                Err(error) if is_refused(&error) => None,
                Err(error) => return Err(error),
            };
            let is_ours = address.is_some();
            checkup.hooks.push(Hook { address: bare_address(&hook.url), is_ours, state, failed });
        }
        Ok(())
    }

    async fn check_schedules(&self, project: u64, checkup: &mut Checkup) -> Result<(), ForgeError> {
        let what = self.on("reading the pipeline schedules");
        let found: Result<Vec<dto::PipelineSchedule>, _> =
            self.client.list(&what, &endpoints::pipeline_schedules(project)?).await;
        let mut left = BTreeMap::new();
        for schedule in seen(found, checkup, "the pipeline schedules")?.unwrap_or_default() {
            let mut owner_left = true;
            if let Some(owner) = &schedule.owner {
                let known = left.get(&owner.id).copied();
                owner_left = match known {
                    Some(known) => known,
                    None => self.has_left(project, owner, checkup).await?,
                };
                left.insert(owner.id, owner_left);
            }
            checkup.schedules.push(Schedule {
                name: one_line(&schedule.description),
                active: schedule.active,
                owner: schedule.owner.map(|owner| owner.username),
                owner_left,
            });
        }
        Ok(())
    }
}

impl GitLab {
    /// Whether the owner of a pipeline schedule may nothing here any more. What cannot be found out is named.
    async fn has_left(
        &self,
        project: u64,
        owner: &dto::User,
        checkup: &mut Checkup,
    ) -> Result<bool, ForgeError> {
        if !owner.is_active() {
            return Ok(true);
        }
        let name = one_line(&owner.username);
        let what = format!("what {name}, who owns pipeline schedules, may do");
        let Some(role) = seen(self.role_of(project, owner.id).await, checkup, &what)? else {
            return Ok(false);
        };
        // Administrators of the instance are not listed as members. On gitlab.com they own nobody's schedules.
        if role != Role::None || self.client.site().host_str() == Some(GITLAB_COM) {
            return Ok(role == Role::None);
        }
        let what =
            format!("whether {name}, who owns pipeline schedules and is no member, is an administrator");
        let verb = "reading the owner of a pipeline schedule";
        let user: Result<dto::User, _> = self.client.get(verb, &endpoints::user(owner.id)?).await;
        let Some(user) = seen(user, checkup, &what)? else { return Ok(false) };
        if user.is_admin.is_none() {
            checkup.unseen.push(what);
        }
        Ok(user.is_admin == Some(false))
    }
}

/// What was found; `None`, with a line that says so, where the bot may not look.
fn seen<T>(found: Result<T, ForgeError>, checkup: &mut Checkup, what: &str) -> Result<Option<T>, ForgeError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_refused(&error) => {
            checkup.unseen.push(what.to_owned());
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The bot may not look.
pub(super) fn is_refused(error: &ForgeError) -> bool {
    matches!(error, ForgeError::Denied { .. } | ForgeError::NotFound { .. } | ForgeError::Blocked { .. })
}
