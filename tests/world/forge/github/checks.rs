//! What is said about commits: check runs of Apps, and statuses of anybody.

use serde_json::{Value, json};

use super::super::state::{State, Status, User};
use super::super::{Call, Reply};
use super::account::APP;
use super::schema::shaped;
use super::{denied, not_found, refused};

pub(super) fn runs(state: &State, path: &str, commit: &str, call: &Call) -> Reply {
    let repository = &state.repositories[path];
    let name = call.asked("check_name");
    let mut known: Vec<&Status> = (repository.statuses.iter())
        .filter(|one| one.by_app && one.commit == commit && name.is_none_or(|name| one.name == name))
        .collect();
    known.reverse();
    if call.asked("filter") != Some("all") {
        let mut seen = std::collections::BTreeSet::new();
        known.retain(|one| seen.insert(&one.name));
    }
    let shown: Vec<Value> = known.into_iter().map(shown_run).collect();
    Reply::json(200, &json!({"total_count": shown.len(), "check_runs": shown}))
}

pub(super) fn run(state: &mut State, path: &str, who: &User, call: &Call) -> Reply {
    if !who.is_bot || !state.github.grants("checks") {
        return denied(who);
    }
    let said = call.json();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    // The schema says characters; what GitHub counts is not what others count, and bytes are the most that it may be.
    if text(&said["output"]["summary"]).len() > 65_535 {
        return refused("Only 65535 characters are allowed; the summary is too long");
    }
    let commit = text(&said["head_sha"]);
    let id = state.new_id();
    state.tick();
    let repository = state.repositories.get_mut(path).expect("it was looked at");
    if repository.git.try_git(&["cat-file", "-e", &commit]).is_none() {
        return refused("No commit found for SHA");
    }
    let status = Status {
        id,
        commit,
        name: text(&said["name"]),
        state: text(&said["conclusion"]),
        sentence: text(&said["output"]["title"]),
        text: text(&said["output"]["summary"]),
        by_app: true,
    };
    repository.statuses.push(status.clone());
    Reply::json(201, &shown_run(&status))
}

fn shown_run(status: &Status) -> Value {
    let given = json!({
        "id": status.id,
        "name": status.name,
        "head_sha": status.commit,
        "status": "completed",
        "conclusion": status.state,
        "output": {"title": status.sentence, "summary": status.text},
        "app": {"id": APP, "slug": "slicewright", "owner": {"login": "acme", "id": 1, "type": "Organization"}, "permissions": {}},
    });
    shaped("check-run", given)
}

pub(super) fn combined(state: &State, path: &str, commit: &str) -> Reply {
    let repository = &state.repositories[path];
    if repository.git.try_git(&["cat-file", "-e", commit]).is_none() {
        return not_found();
    }
    let mut newest = std::collections::BTreeMap::new();
    for one in repository.statuses.iter().filter(|one| !one.by_app && one.commit == commit) {
        newest.insert(&one.name, one);
    }
    let shown: Vec<Value> = newest.into_values().map(shown_status).collect();
    let worst = if shown.iter().any(|one| one["state"] == "failure") { "failure" } else { "success" };
    let given = json!({"sha": commit, "state": worst, "statuses": shown, "total_count": shown.len()});
    Reply::json(200, &shaped("combined-commit-status", given))
}

pub(super) fn report(state: &mut State, path: &str, commit: &str, who: &User, call: &Call) -> Reply {
    if who.is_bot && !state.github.grants("statuses") {
        return denied(who);
    }
    let said = call.json();
    let text = |name: &str| said[name].as_str().unwrap_or_default().to_owned();
    if text("description").chars().count() > 140 {
        return refused("Description is too long (maximum is 140 characters)");
    }
    let id = state.new_id();
    state.tick();
    let repository = state.repositories.get_mut(path).expect("it was looked at");
    let status = Status {
        id,
        commit: commit.to_owned(),
        name: text("context"),
        state: text("state"),
        sentence: text("description"),
        text: String::new(),
        by_app: false,
    };
    repository.statuses.push(status.clone());
    Reply::json(201, &shaped("status", shown_status(&status)))
}

fn shown_status(status: &Status) -> Value {
    let given = json!({
        "id": status.id, "context": status.name, "state": status.state, "description": status.sentence,
        "avatar_url": null,
    });
    shaped("simple-commit-status", given)
}
