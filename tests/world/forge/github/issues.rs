//! Issues that are no pull requests.

use serde_json::{Value, json};

use super::super::state::{Issue, Request, State, User, time};
use super::super::{Call, Reply};
use super::pulls::paged;
use super::schema::shaped;
use super::{not_found, shown_user};

/// Pull requests are listed among them, as GitHub does.
pub(super) fn list(state: &State, path: &str, call: &Call) -> Reply {
    let repository = &state.repositories[path];
    let creator = call.asked("creator");
    let by =
        |author: u64| creator.is_none_or(|creator| state.users[&author].login.eq_ignore_ascii_case(creator));
    let wanted = call.asked("state").unwrap_or("open");
    let shows = |open: bool| wanted == "all" || (wanted == "open") == open;
    let issues = repository.issues.iter().filter(|one| by(one.author) && shows(one.open));
    let mut all: Vec<(u64, Value)> = issues.map(|one| (one.number, shown(state, one))).collect();
    let is_open = |one: &Request| one.state == super::super::state::RequestState::Open;
    let requests = repository.requests.iter().filter(|one| by(one.author) && shows(is_open(one)));
    all.extend(requests.map(|one| (one.number, shown_request(state, one, is_open(one)))));
    all.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    paged(state, call, all.into_iter().map(|(_, shown)| shown).collect())
}

pub(super) fn create(state: &mut State, path: &str, who: &User, call: &Call) -> Reply {
    let said = call.json();
    let text = |name: &str| said[name].as_str().unwrap_or_default().to_owned();
    let now = state.tick();
    let repository = state.repositories.get_mut(path).expect("it was looked at");
    let issue = Issue {
        number: repository.next_number(),
        title: text("title"),
        body: text("body"),
        author: who.id,
        open: true,
        created: now,
        updated: now,
    };
    repository.issues.push(issue.clone());
    Reply::json(201, &shown(state, &issue))
}

pub(super) fn edit(state: &mut State, path: &str, number: u64, call: &Call) -> Reply {
    let said = call.json();
    let now = state.tick();
    let repository = state.repositories.get_mut(path).expect("it was looked at");
    let Some(issue) = repository.issues.iter_mut().find(|one| one.number == number) else {
        return not_found();
    };
    issue.updated = now;
    for (name, field) in [("title", &mut issue.title), ("body", &mut issue.body)] {
        if let Some(text) = said[name].as_str() {
            text.clone_into(field);
        }
    }
    if let Some(state) = said["state"].as_str() {
        issue.open = state == "open";
    }
    let issue = issue.clone();
    Reply::json(200, &shown(state, &issue))
}

fn shown(state: &State, issue: &Issue) -> Value {
    let given = json!({
        "number": issue.number,
        "title": issue.title,
        "body": issue.body,
        "state": if issue.open { "open" } else { "closed" },
        "user": shown_user(&state.users[&issue.author]),
        "html_url": format!("{}/acme/infra/issues/{}", state.url, issue.number),
        "created_at": time(issue.created),
        "updated_at": time(issue.updated),
    });
    shaped("issue", given)
}

fn shown_request(state: &State, request: &Request, open: bool) -> Value {
    let issue = Issue {
        number: request.number,
        title: request.title.clone(),
        body: request.body.clone(),
        author: request.author,
        open,
        created: request.created,
        updated: request.updated,
    };
    let mut shown = shown(state, &issue);
    let url = "https://example.com/";
    shown["pull_request"] = json!({"diff_url": url, "html_url": url, "patch_url": url, "url": url});
    shown
}
