//! Webhooks of a project, for its maintainers, and of a group, for its owners.

use serde_json::{Value, json};

use super::super::hooks::{Attempt, Hook, Standing};
use super::super::state::{Role, State, time};
use super::{Asked, Reply, paged, refused};

/// Entries on a page of what a hook sent: GitLab refuses more.
const MOST_EVENTS: u32 = 20;

pub(super) fn list(state: &State, asked: &Asked<'_>) -> Reply {
    if asked.role < Role::Maintain {
        return refused(403, "403 Forbidden");
    }
    let repository = asked.repository(state);
    paged(state, asked, repository.hooks.iter().map(|hook| shown(repository.id, hook)).collect())
}

pub(super) fn events(state: &State, asked: &Asked<'_>) -> Reply {
    let hook = asked.repository(state).hooks.iter().find(|hook| hook.id == asked.number(1));
    match hook {
        _ if asked.role < Role::Maintain => refused(403, "403 Forbidden"),
        None => refused(404, "404 Not found"),
        Some(_) if asked.call.asked("per_page").is_some_and(|n| n.parse::<u32>().unwrap() > MOST_EVENTS) => {
            Reply::json(400, &json!({"error": "per_page does not have a valid value"}))
        }
        Some(hook) => paged(state, asked, hook.attempts.iter().rev().map(event).collect()),
    }
}

/// Waits for what comes of it.
pub(super) fn resend(state: &mut State, asked: &Asked<'_>) -> Reply {
    if asked.role < Role::Maintain {
        return refused(403, "403 Forbidden");
    }
    let (id, at) = (state.new_id(), state.tick());
    let hooks = &mut asked.repository_mut(state).hooks;
    let Some(hook) = hooks.iter_mut().find(|hook| hook.id == asked.number(1)) else {
        return refused(404, "404 Not found");
    };
    let Some(old) = hook.attempts.iter().find(|one| one.id == asked.number(3)) else {
        return refused(404, "404 Not found");
    };
    if old.url != hook.url {
        return refused(422, "The hook URL has changed. This log entry cannot be retried.");
    }
    let sent = hook.resend(asked.number(3), id, at).expect("it was found");
    Reply::json(201, &json!({ "response_status": outcome(sent) }))
}

/// Webhooks of the group, for its owners.
pub(super) fn of_group(state: &mut State, mut asked: Asked<'_>, name: &str) -> Reply {
    asked.rest = asked.rest.split_off(2);
    let is_there = asked.call.parts().get(3).is_some_and(|path| path == "acme");
    let Some(group) = state.group.clone().filter(|_| is_there) else {
        return refused(404, "404 Group Not Found");
    };
    if !group.owners.contains(&asked.user) {
        return refused(403, "403 Forbidden");
    }
    let hook = group.hooks.iter().position(|hook| hook.id == asked.number(1));
    match (name.split_once(" /groups/:id").expect("it is about a group"), hook) {
        (("GET", "/hooks"), _) => {
            let of_group = |hook: &Hook| {
                let mut shown = shown(0, hook);
                shown.as_object_mut().expect("an object").remove("project_id");
                shown["group_id"] = json!(77);
                shown
            };
            paged(state, &asked, group.hooks.iter().map(of_group).collect())
        }
        (("GET", "/hooks/:hook/events"), Some(at)) => {
            paged(state, &asked, group.hooks[at].attempts.iter().rev().map(event).collect())
        }
        (("POST", _), Some(at)) => {
            let (id, now) = (state.new_id(), state.tick());
            let hook = &mut state.group.as_mut().expect("it is there").hooks[at];
            match hook.resend(asked.number(3), id, now) {
                Some(sent) => Reply::json(201, &json!({ "response_status": outcome(sent) })),
                None => refused(404, "404 Not found"),
            }
        }
        _ => refused(404, "404 Not found"),
    }
}

fn shown(project: u64, hook: &Hook) -> Value {
    let (status, until) = match hook.standing {
        Standing::On => ("executable", None),
        Standing::Paused => ("temporarily_disabled", Some("2026-01-15T10:00:00.000Z")),
        Standing::Off => ("disabled", None),
    };
    let mut shown = json!({
        "id": hook.id,
        "project_id": project,
        "url": hook.url,
        "created_at": "2025-01-15T00:00:00.000Z",
        "push_events_branch_filter": null,
        "enable_ssl_verification": true,
        "alert_status": status,
        "disabled_until": until,
        "url_variables": [],
        "custom_webhook_template": null,
    });
    for kind in
        ["push", "tag_push", "merge_requests", "repository_update", "issues", "confidential_issues", "note"]
            .into_iter()
            .chain(["confidential_note", "pipeline", "wiki_page", "job", "deployment", "releases", "emoji"])
    {
        shown[format!("{kind}_events")] = json!(hook.events.contains(&kind));
    }
    shown
}

fn outcome(attempt: &Attempt) -> String {
    if attempt.status == 0 { "internal error".to_owned() } else { attempt.status.to_string() }
}

fn event(attempt: &Attempt) -> Value {
    json!({
        "id": attempt.id,
        "url": attempt.url,
        "trigger": attempt.event,
        "request_headers": {"Content-Type": "application/json", "Idempotency-Key": attempt.key},
        "request_data": {"object_kind": "note", "project": {"id": attempt.repository}},
        "response_headers": {},
        "response_body": "",
        "execution_duration": 0.1,
        "response_status": outcome(attempt),
        "created_at": time(attempt.at),
    })
}
