//! What keeps the bot from its work on a forge, or soon will.

use jiff::Timestamp;
use slicewright_core::units::first_few;
use slicewright_core::usage::{Finding, Severity};

use crate::engine::Inputs;
use crate::forge::contact::Role;
use crate::forge::contact::checkup::{Checkup, Hook, HookState};

/// Days before the end of an access token at which it is named: a month, in which somebody reads this.
const SOON_DAYS: i32 = 30;

/// What there is to say of one repository on a forge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OnForge {
    /// Who the bot is there, on one line. `None`: a repository on this machine, or a recording.
    pub who: Option<String>,
    /// What it lacks.
    pub findings: Vec<Finding>,
}

/// Looks at how the bot stands with the repository of `cluster`, and at the hooks that point at `address`.
pub async fn on_forge(inputs: &Inputs, cluster: &str, address: Option<&str>) -> OnForge {
    let Some(contact) = inputs.forges.get(cluster).and_then(|forge| forge.contact()) else {
        return OnForge::default();
    };
    match contact.checkup(address).await {
        Ok(None) => OnForge::default(),
        Ok(Some(checkup)) => {
            OnForge { who: Some(who(&checkup)), findings: findings(&checkup, address, inputs.at) }
        }
        Err(error) => {
            let text = format!("how the bot stands there is not known: {:#}", anyhow::Error::new(error));
            let advice = "what else stands here was found out without it; try again";
            OnForge { who: None, findings: vec![finding("forge-not-seen", Severity::Warning, text, advice)] }
        }
    }
}

fn finding(code: &str, severity: Severity, text: String, advice: &str) -> Finding {
    Finding { code: code.to_owned(), severity, text, advice: advice.to_owned() }
}

fn who(checkup: &Checkup) -> String {
    let account = checkup.account.as_ref().map_or("an account that is not known", |account| &account.login);
    let role = checkup.role.map(|role| format!(", role {}", role.name())).unwrap_or_default();
    let ends = checkup.token_ends.map(|day| format!(", access token until {day}")).unwrap_or_default();
    let scopes = checkup.scopes.as_ref().map(|scopes| format!(", scopes {}", scopes.join(" ")));
    format!("{account} in {}{role}{ends}{}", checkup.repository, scopes.unwrap_or_default())
}

/// Every finding about a forge that was looked at, at the moment `at`.
fn findings(checkup: &Checkup, address: Option<&str>, at: Timestamp) -> Vec<Finding> {
    let mut found = Vec::new();
    for obstacle in &checkup.obstacles {
        found.push(finding("forge-obstacle", Severity::Blocker, obstacle.clone(), ""));
    }
    // An obstacle says so already, with what to do about it.
    if let Some(role) = checkup.role.filter(|role| *role < Role::Write && checkup.obstacles.is_empty()) {
        let text = format!(
            "the bot's role in {} is {}, and it needs {}",
            checkup.repository,
            role.name(),
            Role::Write.name()
        );
        found.push(finding("forge-role", Severity::Blocker, text, "give its account that role there"));
    }
    if !checkup.missing_scopes.is_empty() {
        let has = checkup.scopes.clone().unwrap_or_default();
        let text =
            format!("the access token lacks {}; it has {}", quoted(&checkup.missing_scopes), quoted(&has));
        let advice = "make one with that scope, and put it where `token_file` or `token_env` says";
        found.push(finding("token-scopes", Severity::Blocker, text, advice));
    }
    if let Some(ends) = checkup.token_ends {
        let today = jiff::tz::Offset::UTC.to_datetime(at).date();
        let days = today.until(ends).map_or(0, |span| span.get_days());
        if days < SOON_DAYS {
            let when = match days {
                ..0 => "which is over".to_owned(),
                0 => "which is today".to_owned(),
                1 => "in 1 day".to_owned(),
                days => format!("in {days} days"),
            };
            let text = format!("the access token ends on {ends}, {when}");
            let advice = "make a new one and put it where `token_file` or `token_env` says; a file is read anew when \
                          the old token is refused";
            found.push(finding("token-ends", Severity::Warning, text, advice));
        }
    }
    if !checkup.protected.is_empty() {
        let text = format!(
            "branches of the bot are protected in {} by {}",
            checkup.repository,
            quoted(&checkup.protected)
        );
        let advice = "let its account make, move and delete them there, or choose another `branch_prefix`";
        found.push(finding("protected-branches", Severity::Warning, text, advice));
    }
    found.extend(checkup.hooks.iter().flat_map(of_hook));
    let looked = !checkup.unseen.iter().any(|what| what.contains("hook"));
    if let Some(address) =
        address.filter(|_| looked && checkup.obstacles.is_empty() && checkup.hooks.is_empty())
    {
        let text = format!("no hook of {} points at {address}", checkup.repository);
        let advice = "without one, comments and merges are seen only when the bot looks by itself";
        found.push(finding("no-hook", Severity::Warning, text, advice));
    }
    found.extend(of_schedules(checkup));
    if !checkup.unseen.is_empty() {
        let text = format!("not looked at, since the bot may not: {}", checkup.unseen.join(", "));
        found.push(finding("not-looked-at", Severity::Note, text, ""));
    }
    found
}

/// A hook that may be somebody else's is a note.
fn of_hook(hook: &Hook) -> Vec<Finding> {
    let mut found = Vec::new();
    let address = &hook.address;
    let (severity, whose) = match hook.is_ours {
        true => (Severity::Warning, ""),
        false => (Severity::Note, "if it is the bot's: "),
    };
    let mut add = |code: &str, text: String, advice: &str| {
        found.push(finding(code, severity, text, &format!("{whose}{advice}")));
    };
    match hook.state {
        HookState::On => {}
        HookState::Paused(until) => {
            let until = until.map(|until| format!(" before {until}")).unwrap_or_default();
            let text = format!("the hook to {address} is not sent{until}: it failed several times in a row");
            add("hook-paused", text, "see that the address can be reached and answers within 10 s");
        }
        HookState::Off => {
            let text = format!("the hook to {address} is switched off");
            let advice = "switch it on where the repository lists its webhooks; GitLab does so after a *Test* that arrives";
            add("hook-off", text, advice);
        }
    }
    if let Some(outcome) = &hook.failed {
        let text = format!("the last delivery to {address} did not arrive: {outcome}");
        let advice = "see that the address can be reached, and that both sides have the same secret";
        add("hook-failing", text, advice);
    }
    found
}

/// Which of them runs the bot is not known, so that all are named.
fn of_schedules(checkup: &Checkup) -> Vec<Finding> {
    let names = |wanted: &dyn Fn(&crate::forge::contact::checkup::Schedule) -> bool| -> Vec<String> {
        let wanted = checkup.schedules.iter().filter(|schedule| wanted(schedule));
        wanted.map(|schedule| format!("`{}`", schedule.name)).collect()
    };
    let mut found = Vec::new();
    let inactive = names(&|schedule| !schedule.active);
    if !inactive.is_empty() {
        let text = format!("pipeline schedules that are switched off: {}", first_few(&inactive, 5, ", "));
        let advice = "switch on the one that runs the bot, if there is one; GitLab does so never by itself";
        found.push(finding("schedule-off", Severity::Note, text, advice));
    }
    let left = names(&|schedule| schedule.active && schedule.owner_left);
    if !left.is_empty() {
        let text = format!(
            "pipeline schedules whose owner is no active member any more: {}",
            first_few(&left, 5, ", ")
        );
        let advice = "let a member take them over: a pipeline runs with the rights of its schedule's owner";
        found.push(finding("schedule-owner", Severity::Warning, text, advice));
    }
    found
}

fn quoted(words: &[String]) -> String {
    match words {
        [] => "none".to_owned(),
        words => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forge::contact::checkup::Schedule;

    fn at() -> Timestamp {
        "2026-01-15T12:00:00Z".parse().unwrap()
    }

    fn said(checkup: &Checkup, address: Option<&str>) -> Vec<String> {
        let line = |finding: Finding| format!("{:?} {}: {}", finding.severity, finding.code, finding.text);
        findings(checkup, address, at()).into_iter().map(line).collect()
    }

    #[test]
    fn a_token_is_named_in_its_last_month() {
        let ends = |day: &str| said(&Checkup { token_ends: day.parse().ok(), ..Checkup::default() }, None);
        assert_eq!(ends("2026-02-14"), [""; 0]);
        assert_eq!(
            ends("2026-02-13"),
            ["Warning token-ends: the access token ends on 2026-02-13, in 29 days"]
        );
        assert!(ends("2026-01-15")[0].ends_with("which is today"));
        assert!(ends("2026-01-14")[0].ends_with("which is over"));
        assert_eq!(ends("2027-02-01"), [""; 0], "a year away is no month away");
    }

    #[test]
    fn a_role_that_is_too_low_is_named_once() {
        let low = Checkup { repository: "a/b".into(), role: Some(Role::Triage), ..Checkup::default() };
        let named =
            "Blocker forge-role: the bot's role in a/b is triage (reporter), and it needs write (developer)";
        assert_eq!(said(&low, None), [named]);
        let told = Checkup { obstacles: vec!["make it a developer".into()], ..low.clone() };
        assert_eq!(said(&told, None), ["Blocker forge-obstacle: make it a developer"]);
        assert_eq!(said(&Checkup { role: Some(Role::Write), ..low }, None), [""; 0]);
    }

    #[test]
    fn a_hook_that_is_missed_was_looked_for() {
        let ours = Some("https://bot.example.com");
        let none = Checkup { repository: "a/b".into(), ..Checkup::default() };
        assert_eq!(said(&none, ours), ["Warning no-hook: no hook of a/b points at https://bot.example.com"]);
        assert_eq!(said(&none, None), [""; 0]);
        let unseen = Checkup { unseen: vec!["the webhooks (for maintainers)".into()], ..none };
        let note = "Note not-looked-at: not looked at, since the bot may not: the webhooks (for maintainers)";
        assert_eq!(said(&unseen, ours), [note]);
    }

    #[test]
    fn a_hook_that_may_be_somebody_elses_is_a_note() {
        let hook = |is_ours| Hook {
            address: "https://x.example.com/".into(),
            is_ours,
            state: HookState::Off,
            failed: None,
        };
        let said = |is_ours| said(&Checkup { hooks: vec![hook(is_ours)], ..Checkup::default() }, None);
        assert_eq!(said(true), ["Warning hook-off: the hook to https://x.example.com/ is switched off"]);
        assert_eq!(said(false), ["Note hook-off: the hook to https://x.example.com/ is switched off"]);
        assert!(of_hook(&hook(false))[0].advice.starts_with("if it is the bot's: switch it on"));
    }

    #[test]
    fn schedules_are_named_by_what_is_wrong_with_them() {
        let schedule =
            |name: &str, active, owner_left| Schedule { name: name.into(), active, owner: None, owner_left };
        let schedules =
            vec![schedule("fine", true, false), schedule("off", false, true), schedule("left", true, true)];
        assert_eq!(
            said(&Checkup { schedules, ..Checkup::default() }, None),
            [
                "Note schedule-off: pipeline schedules that are switched off: `off`",
                "Warning schedule-owner: pipeline schedules whose owner is no active member any more: `left`",
            ]
        );
    }
}
