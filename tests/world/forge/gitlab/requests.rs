//! Merge requests, approvals and comments.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::state::{Comment, Request, RequestState, Role, State};
use super::{Asked, Reply, paged, quick_actions, refused, shown};

pub(super) fn list(state: &State, asked: &Asked<'_>) -> Reply {
    let repository = asked.repository(state);
    let wanted = |request: &&Request| {
        let state_is = match asked.call.asked("state") {
            None | Some("all") => true,
            Some("opened") => request.state == RequestState::Open,
            Some("closed") => request.state == RequestState::Closed,
            Some(_) => matches!(request.state, RequestState::Merged(_)),
        };
        let is = |name: &str, value: &str| asked.call.asked(name).is_none_or(|wanted| wanted == value);
        state_is
            && is("source_branch", &request.source)
            && is("target_branch", &request.target)
            && is("author_id", &request.author.to_string())
    };
    let mut all: Vec<&Request> = repository.requests.iter().filter(wanted).collect();
    all.sort_by_key(|request| std::cmp::Reverse((request.created, request.number)));
    paged(state, asked, all.iter().map(|request| shown::request(state, repository, request)).collect())
}

pub(super) fn one(state: &mut State, asked: &Asked<'_>) -> Reply {
    let Some(request) = asked.repository_mut(state).request_mut(asked.number(1)) else { return not_found() };
    request.unchecked = request.unchecked.saturating_sub(1);
    shown_one(state, asked, asked.number(1), 200)
}

pub(super) fn create(state: &mut State, asked: &Asked<'_>, broken: &mut Vec<String>) -> Reply {
    let body = asked.call.json();
    let repository = asked.repository(state);
    let (source, target) = (text(&body, "source_branch"), text(&body, "target_branch"));
    if !asked.may_write(state) || repository.requests_disabled {
        return refused(403, "403 Forbidden");
    }
    for (what, name) in [("source_branch", source), ("target_branch", target)] {
        if repository.git.head(name).is_none() {
            return refused(422, json!({ what: [format!("\"{name}\" does not exist")] }));
        }
    }
    let open = repository.requests.iter().find(|request| {
        request.state == RequestState::Open
            && request.fork.is_none()
            && (request.source.as_str(), request.target.as_str()) == (source, target)
    });
    if let Some(open) = open {
        let message =
            format!("Another open merge request already exists for this source branch: !{}", open.number);
        return refused(409, json!([message]));
    }
    refuse_actions(text(&body, "description"), broken);
    let number = repository.next_number();
    let (title, draft) = unmarked(text(&body, "title"));
    let known: Vec<u64> = ids(&body["reviewer_ids"]).filter(|user| state.users.contains_key(user)).collect();
    let now = state.tick();
    let request = Request {
        number,
        title,
        draft,
        body: text(&body, "description").to_owned(),
        source: source.to_owned(),
        target: target.to_owned(),
        author: asked.user,
        labels: labels(&body["labels"]),
        // Without a licence for more there is one.
        reviewers: known.into_iter().collect(),
        ..Request::new(now)
    };
    let repository = asked.repository_mut(state);
    repository.labels.extend(request.labels.iter().cloned());
    repository.requests.push(request);
    shown_one(state, asked, number, 201)
}

pub(super) fn edit(state: &mut State, asked: &Asked<'_>, broken: &mut Vec<String>) -> Reply {
    let body = asked.call.json();
    let number = asked.number(1);
    let may_write = asked.may_write(state);
    let now = state.tick();
    let repository = asked.repository_mut(state);
    let Some(request) = repository.request(number) else { return not_found() };
    if !may_write && request.author != asked.user {
        return refused(403, "403 Forbidden");
    }
    let head = repository.head_of(request);
    let event = body["state_event"].as_str();
    if event.is_some() && matches!(request.state, RequestState::Merged(_)) {
        return refused(422, "The merge request is merged");
    }
    let request = repository.request_mut(number).expect("just found");
    request.updated = now;
    if let Some(title) = body["title"].as_str() {
        (request.title, request.draft) = unmarked(title);
    }
    if let Some(description) = body["description"].as_str() {
        refuse_actions(description, broken);
        description.clone_into(&mut request.body);
    }
    if let Some(target) = body["target_branch"].as_str() {
        target.clone_into(&mut request.target);
    }
    if body.get("labels").is_some() {
        request.labels = labels(&body["labels"]);
    }
    request.labels.extend(labels(&body["add_labels"]));
    for label in labels(&body["remove_labels"]) {
        request.labels.remove(&label);
    }
    if body.get("reviewer_ids").is_some() {
        request.reviewers = ids(&body["reviewer_ids"]).collect();
    }
    match event {
        Some("close") if request.state == RequestState::Open => {
            request.state = RequestState::Closed;
            request.closed = Some(now);
            request.last_head = head.or_else(|| request.last_head.take());
        }
        Some("reopen") if request.state == RequestState::Closed => {
            request.state = RequestState::Open;
            request.closed = None;
        }
        _ => {}
    }
    shown_one(state, asked, number, 200)
}

pub(super) fn approvals(state: &State, asked: &Asked<'_>) -> Reply {
    match asked.repository(state).request(asked.number(1)) {
        Some(request) => Reply::json(200, &shown::approvals(state, asked, request)),
        None => not_found(),
    }
}

pub(super) fn notes(state: &State, asked: &Asked<'_>) -> Reply {
    let Some(request) = asked.repository(state).request(asked.number(1)) else { return not_found() };
    let mut all: Vec<Value> =
        request.comments.iter().map(|comment| shown::note(state, request, comment)).collect();
    if asked.call.asked("sort") != Some("asc") {
        all.reverse();
    }
    paged(state, asked, all)
}

pub(super) fn note(state: &State, asked: &Asked<'_>) -> Reply {
    shown_note(state, asked, asked.number(3), 200)
}

pub(super) fn create_note(state: &mut State, asked: &Asked<'_>, broken: &mut Vec<String>) -> Reply {
    let body = text(&asked.call.json(), "body").trim_end().to_owned();
    if asked.repository(state).request(asked.number(1)).is_none() {
        return not_found();
    }
    refuse_actions(&body, broken);
    if quick_actions::only(&body) {
        return Reply::json(202, &json!({ "commands_changes": {}, "summary": ["Done."] }));
    }
    let (id, now) = (state.new_id(), state.tick());
    let author = asked.user;
    let comment = Comment::new(id, author, &body, now);
    asked.repository_mut(state).request_mut(asked.number(1)).expect("there").comments.push(comment);
    shown_note(state, asked, id, 201)
}

pub(super) fn edit_note(state: &mut State, asked: &Asked<'_>, broken: &mut Vec<String>) -> Reply {
    let body = text(&asked.call.json(), "body").trim_end().to_owned();
    let (id, now) = (asked.number(3), state.tick());
    refuse_actions(&body, broken);
    let request = asked.repository_mut(state).request_mut(asked.number(1));
    let Some(comment) = request.and_then(|request| request.comments.iter_mut().find(|one| one.id == id))
    else {
        return not_found();
    };
    if comment.author != asked.user {
        return refused(403, "403 Forbidden");
    }
    (comment.body, comment.updated) = (body, now);
    shown_note(state, asked, id, 200)
}

pub(super) fn delete_note(state: &mut State, asked: &Asked<'_>) -> Reply {
    let id = asked.number(3);
    let may = |comment: &Comment| comment.author == asked.user || asked.role >= Role::Maintain;
    let Some(request) = asked.repository_mut(state).request_mut(asked.number(1)) else { return not_found() };
    match request.comments.iter().position(|comment| comment.id == id) {
        None => not_found(),
        Some(at) if !may(&request.comments[at]) => refused(403, "403 Forbidden"),
        Some(at) => {
            request.comments.remove(at);
            Reply { status: 204, ..Reply::default() }
        }
    }
}

fn shown_one(state: &State, asked: &Asked<'_>, number: u64, status: u16) -> Reply {
    let repository = asked.repository(state);
    match repository.request(number) {
        Some(request) => Reply::json(status, &shown::request(state, repository, request)),
        None => not_found(),
    }
}

fn shown_note(state: &State, asked: &Asked<'_>, id: u64, status: u16) -> Reply {
    let request = asked.repository(state).request(asked.number(1));
    let found =
        request.and_then(|request| Some((request, request.comments.iter().find(|one| one.id == id)?)));
    match found {
        Some((request, comment)) => Reply::json(status, &shown::note(state, request, comment)),
        None => not_found(),
    }
}

fn not_found() -> Reply {
    refused(404, "404 Not found")
}

/// A line that GitLab would do with the rights of its author must never be sent.
pub(super) fn refuse_actions(body: &str, broken: &mut Vec<String>) {
    for line in quick_actions::in_text(body) {
        broken.push(format!("a text has the line `{line}`, which is done instead of shown"));
    }
}

/// A title without the mark of a draft, and whether it had one.
fn unmarked(title: &str) -> (String, bool) {
    let start = |mark: &str| title.get(..mark.len()).is_some_and(|start| start.eq_ignore_ascii_case(mark));
    match ["draft:", "[draft]", "(draft)"].into_iter().find(|mark| start(mark)) {
        Some(mark) => (title[mark.len()..].trim_start().to_owned(), true),
        None => (title.to_owned(), false),
    }
}

fn labels(value: &Value) -> BTreeSet<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
        _ => String::new(),
    };
    text.split(',').map(str::trim).filter(|label| !label.is_empty()).map(str::to_owned).collect()
}

fn ids(value: &Value) -> impl Iterator<Item = u64> + '_ {
    value.as_array().into_iter().flatten().filter_map(Value::as_u64)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}
