//! Webhooks of a repository and of the App.

use serde_json::{Value, json};

use super::super::hooks::{Attempt, Hook, Standing};
use super::super::state::{Role, State, time};
use super::super::{Call, Reply};
use super::not_found;
use super::schema::shaped;

/// Operations of the App.
pub(super) fn of_app(state: &mut State, name: &str, parameters: &[String], call: &Call) -> Reply {
    let config = |hook: &Hook| json!({"url": hook.url, "content_type": "json", "insecure_ssl": "0"});
    match name {
        "GET /app/hook/config" => {
            Reply::json(200, &state.github.app_hook.as_ref().map_or_else(|| json!({}), config))
        }
        "GET /app/hook/deliveries" => match &state.github.app_hook {
            Some(hook) => deliveries(state, hook, call),
            None => Reply::json(200, &json!([])),
        },
        _ => {
            let (id, at) = (state.new_id(), state.tick());
            let hook = state.github.app_hook.as_mut();
            resent(hook.and_then(|hook| hook.resend(number(&parameters[0]), id, at)).is_some())
        }
    }
}

/// Operations of a repository, for its administrators and Apps that were granted it: to others there is nothing.
pub(super) fn of_repository(
    state: &mut State,
    name: &str,
    path: &str,
    role: Role,
    parameters: &[String],
    call: &Call,
) -> Reply {
    if role < Role::Admin && !state.github.grants("repository_hooks") {
        return not_found();
    }
    let hooks = &state.repositories[path].hooks;
    if name == "GET /repos/{owner}/{repo}/hooks" {
        return super::pulls::paged(state, call, hooks.iter().map(shown).collect());
    }
    let id = number(&parameters[2]);
    let Some(hook) = hooks.iter().find(|hook| hook.id == id) else { return not_found() };
    if call.reads() {
        return deliveries(state, hook, call);
    }
    let (new, at) = (state.new_id(), state.tick());
    let hooks = &mut state.repositories.get_mut(path).expect("it was looked at").hooks;
    let hook = hooks.iter_mut().find(|hook| hook.id == id).expect("it was looked at");
    resent(hook.resend(number(&parameters[3]), new, at).is_some())
}

fn resent(done: bool) -> Reply {
    if done { Reply::json(202, &json!({})) } else { not_found() }
}

fn shown(hook: &Hook) -> Value {
    let last = hook.attempts.last();
    let response = match last {
        None => json!({"code": null, "status": "unused", "message": null}),
        Some(last) => json!({"code": last.status, "status": "x", "message": words(last)}),
    };
    let active = hook.standing == Standing::On;
    let config = json!({"url": hook.url, "content_type": "json", "insecure_ssl": "0"});
    let given = json!({
        "id": hook.id, "type": "Repository", "name": "web", "active": active, "events": ["issue_comment"],
        "config": config, "last_response": response,
    });
    shaped("hook", given)
}

fn words(attempt: &Attempt) -> String {
    match attempt.status {
        0 => "failed to connect to host".to_owned(),
        200..300 => "OK".to_owned(),
        status => format!("Invalid HTTP Response: {status}"),
    }
}

/// The latest first; a page goes on behind its last entry.
fn deliveries(state: &State, hook: &Hook, call: &Call) -> Reply {
    let size: usize = call.asked("per_page").map_or(30, |value| value.parse().unwrap()).min(100);
    let mut all: Vec<&Attempt> = hook.attempts.iter().rev().collect();
    if let Some(cursor) = call.asked("cursor") {
        let id = number(cursor.strip_prefix("v1_").unwrap_or_default());
        let Some(at) = all.iter().position(|one| one.id == id) else {
            return Reply::json(400, &json!({"message": "bad cursor"}));
        };
        all.drain(..=at);
    }
    let more = all.len() > size;
    all.truncate(size);
    let again =
        |attempt: &Attempt| hook.attempts.iter().any(|one| one.key == attempt.key && one.id < attempt.id);
    let item = |attempt: &&Attempt| {
        let given = json!({
            "id": attempt.id, "guid": attempt.key, "delivered_at": time(attempt.at), "event": attempt.event,
            "redelivery": again(attempt), "duration": 0.1, "status": words(attempt), "action": "created",
            "status_code": attempt.status, "installation_id": null, "repository_id": attempt.repository,
        });
        shaped("hook-delivery-item", given)
    };
    let reply = Reply::json(200, &all.iter().map(item).collect());
    match all.last().filter(|_| more) {
        None => reply,
        Some(last) => {
            let next = format!("{}{}?per_page={size}&cursor=v1_{}", state.url, call.path, last.id);
            reply.with("link", &format!("<{next}>; rel=\"next\""))
        }
    }
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_default()
}
