//! Issues, and what is reported for commits.

use serde_json::{Value, json};

use super::super::state::{Issue, Role, State, Status, time};
use super::{Asked, Reply, paged, refused, shown};

pub(super) fn list(state: &State, asked: &Asked<'_>) -> Reply {
    let author = asked.call.asked("author_id").and_then(|id| id.parse::<u64>().ok());
    let mut all: Vec<&Issue> = (asked.repository(state).issues.iter())
        .filter(|one| author.is_none_or(|author| one.author == author))
        .collect();
    all.reverse();
    paged(state, asked, all.into_iter().map(|one| shown_issue(state, asked, one)).collect())
}

pub(super) fn create(state: &mut State, asked: &Asked<'_>, broken: &mut Vec<String>) -> Reply {
    let said = asked.call.json();
    let text = |name: &str| said[name].as_str().unwrap_or_default().to_owned();
    super::requests::refuse_actions(&text("description"), broken);
    let now = state.tick();
    let repository = asked.repository_mut(state);
    let issue = Issue {
        number: repository.next_number(),
        title: text("title"),
        body: text("description"),
        author: asked.user,
        open: true,
        created: now,
        updated: now,
    };
    repository.issues.push(issue.clone());
    Reply::json(201, &shown_issue(state, asked, &issue))
}

pub(super) fn edit(state: &mut State, asked: &Asked<'_>, broken: &mut Vec<String>) -> Reply {
    let said = asked.call.json();
    if let Some(text) = said["description"].as_str() {
        super::requests::refuse_actions(text, broken);
    }
    let (now, number) = (state.tick(), asked.number(1));
    let repository = asked.repository_mut(state);
    let Some(issue) = repository.issues.iter_mut().find(|one| one.number == number) else {
        return refused(404, "404 Not found");
    };
    issue.updated = now;
    for (name, field) in [("title", &mut issue.title), ("description", &mut issue.body)] {
        if let Some(text) = said[name].as_str() {
            text.clone_into(field);
        }
    }
    match said["state_event"].as_str() {
        Some("close") => issue.open = false,
        Some("reopen") => issue.open = true,
        _ => {}
    }
    let issue = issue.clone();
    Reply::json(200, &shown_issue(state, asked, &issue))
}

fn shown_issue(state: &State, asked: &Asked<'_>, issue: &Issue) -> Value {
    json!({
        "id": issue.number + 5_000,
        "iid": issue.number,
        "project_id": asked.repository(state).id,
        "title": issue.title,
        "description": issue.body,
        "state": if issue.open { "opened" } else { "closed" },
        "author": shown::account(state, issue.author, false),
        "created_at": time(issue.created),
        "updated_at": time(issue.updated),
        "web_url": format!("{}/{}/-/issues/{}", state.url, asked.path, issue.number),
    })
}

pub(super) fn statuses(state: &State, asked: &Asked<'_>) -> Reply {
    let name = asked.call.asked("name");
    let of = |one: &&Status| one.commit == asked.part(2) && name.is_none_or(|name| one.name == name);
    let mut all: Vec<&Status> = asked.repository(state).statuses.iter().filter(of).collect();
    all.reverse();
    if asked.call.asked("all") != Some("true") {
        let mut seen = std::collections::BTreeSet::new();
        all.retain(|one| seen.insert(&one.name));
    }
    paged(state, asked, all.into_iter().map(shown_status).collect())
}

pub(super) fn report(state: &mut State, asked: &Asked<'_>) -> Reply {
    if asked.role < Role::Write {
        return refused(403, "403 Forbidden");
    }
    let said = asked.call.json();
    let text = |name: &str| said[name].as_str().unwrap_or_default().to_owned();
    if text("description").chars().count() > 255 {
        return refused(400, "description is too long (maximum is 255 characters)");
    }
    let id = state.new_id();
    state.tick();
    let repository = asked.repository_mut(state);
    let commit = asked.part(1).to_owned();
    if repository.git.try_git(&["cat-file", "-e", &commit]).is_none() {
        return refused(404, "404 Commit Not Found");
    }
    let status = Status {
        id,
        commit,
        name: text("name"),
        state: text("state"),
        sentence: text("description"),
        text: String::new(),
        by_app: false,
    };
    let last =
        repository.statuses.iter().rev().find(|one| one.commit == status.commit && one.name == status.name);
    // A finished one is never taken up again.
    if last.is_some_and(|last| last.state == "pending" && last.state == status.state) {
        let why = format!("Cannot transition status via :{} from :{0}", status.state);
        return refused(400, why);
    }
    repository.statuses.push(status.clone());
    Reply::json(201, &shown_status(&status))
}

fn shown_status(status: &Status) -> Value {
    json!({
        "id": status.id,
        "sha": status.commit,
        "ref": "main",
        "status": status.state,
        "name": status.name,
        "target_url": null,
        "description": status.sentence,
        "created_at": "2026-01-15T00:00:00Z",
        "finished_at": "2026-01-15T00:00:00Z",
        "allow_failure": false,
        "author": {"id": 1, "state": "active", "avatar_url": "", "web_url": ""},
    })
}
