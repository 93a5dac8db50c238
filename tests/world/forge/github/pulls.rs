//! Pull requests, their comments, labels and reviews.

use serde_json::{Value, json};

use super::super::state::{Comment, Repository, Request, RequestState, Role, State, User, time};
use super::super::{Call, Reply};
use super::schema::shaped;
use super::{invalid, not_found, refused, shown_repository, shown_user};

pub(super) fn answer(
    state: &mut State,
    name: &str,
    path: &str,
    parameters: &[String],
    who: &User,
    call: &Call,
) -> Reply {
    match name {
        "GET /repos/{owner}/{repo}/pulls" => return list(state, path, who, call),
        "POST /repos/{owner}/{repo}/pulls" => return create(state, path, who, call),
        "POST /repos/{owner}/{repo}/labels" => return create_label(state, path, call),
        _ => {}
    }
    let number: u64 = parameters[2].parse().unwrap_or_default();
    if name.contains("/issues/comments/") {
        return comment(state, path, number, who, call);
    }
    let Some(request) = state.repositories[path].request(number) else { return not_found() };
    match name {
        "GET /repos/{owner}/{repo}/pulls/{pull_number}" => {
            let shown = whole(state, path, number, who);
            state.github.mergeable_unknown = state.github.mergeable_unknown.saturating_sub(1);
            Reply::json(200, &shown)
        }
        "PATCH /repos/{owner}/{repo}/pulls/{pull_number}" => edit(state, path, number, who, call),
        "GET /repos/{owner}/{repo}/pulls/{pull_number}/reviews" => {
            let shown = |(user, commit): &(u64, String)| {
                let user = shown_user(&state.users[user]);
                shaped("pull-request-review", json!({"user": user, "state": "APPROVED", "commit_id": commit}))
            };
            let all: Vec<Value> = request.approvals.iter().map(shown).collect();
            paged(state, call, all)
        }
        "POST /repos/{owner}/{repo}/pulls/{pull_number}/requested_reviewers" => {
            ask_reviewers(state, path, number, who, call)
        }
        "POST /repos/{owner}/{repo}/issues/{issue_number}/labels" => label(state, path, number, call),
        "DELETE /repos/{owner}/{repo}/issues/{issue_number}/labels/{name}" => {
            unlabel(state, path, number, &parameters[3])
        }
        "GET /repos/{owner}/{repo}/issues/{issue_number}/comments" => {
            let all: Vec<Value> = request.comments.iter().map(|one| shown_comment(state, one)).collect();
            paged(state, call, all)
        }
        "POST /repos/{owner}/{repo}/issues/{issue_number}/comments" => {
            let (id, now) = (state.new_id(), state.tick());
            let body = call.json()["body"].as_str().unwrap_or_default().to_owned();
            let comment = Comment::new(id, who.id, &body, now);
            let shown = shown_comment(state, &comment);
            let request = request_mut(state, path, number);
            request.comments.push(comment);
            request.updated = now;
            Reply::json(201, &shown)
        }
        _ => not_found(),
    }
}

fn request_mut<'a>(state: &'a mut State, path: &str, number: u64) -> &'a mut Request {
    let repository = state.repositories.get_mut(path).expect("it was looked at");
    repository.request_mut(number).expect("it was looked at")
}

/// One page, with the address of the next.
pub(super) fn paged(state: &State, call: &Call, all: Vec<Value>) -> Reply {
    let number =
        |name: &str, otherwise: usize| call.asked(name).map_or(otherwise, |value| value.parse().unwrap());
    let (page, size) = (number("page", 1).max(1), number("per_page", 30).min(100));
    let more = all.len() > page * size;
    let reply: Vec<Value> = all.into_iter().skip((page - 1) * size).take(size).collect();
    let reply = Reply::json(200, &Value::Array(reply));
    if !more {
        return reply;
    }
    let next = format!("<{}{}?page={}&per_page={size}>; rel=\"next\"", state.url, call.path, page + 1);
    reply.with("link", &next)
}

fn list(state: &mut State, path: &str, who: &User, call: &Call) -> Reply {
    let owner = path.split('/').next().unwrap();
    let wanted = call.asked("state").unwrap_or("open");
    let head = call.asked("head");
    let repository = &state.repositories[path];
    let mut all: Vec<&Request> = (repository.requests.iter())
        .filter(|one| match wanted {
            "open" => one.state == RequestState::Open,
            "closed" => one.state != RequestState::Open,
            _ => true,
        })
        .filter(|one| {
            let user =
                state.github.forks.get(&one.number).map_or(owner, |fork| fork.split('/').next().unwrap());
            // What is no `user:branch` is no filter.
            head.is_none_or(|head| !head.contains(':') || head == format!("{user}:{}", one.source))
        })
        .collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.number));
    if state.github.lists_that_lag > 0 && !all.is_empty() {
        state.github.lists_that_lag -= 1;
        all.remove(0);
    }
    let shown: Vec<Value> = all.iter().map(|one| simple(state, path, one, who)).collect();
    paged(state, call, shown)
}

fn simple(state: &State, path: &str, request: &Request, who: &User) -> Value {
    shaped("pull-request-simple", facts(state, path, request, who))
}

fn facts(state: &State, path: &str, request: &Request, who: &User) -> Value {
    let repository = &state.repositories[path];
    let owner = path.split('/').next().unwrap();
    let here = shown_repository(state, path, who, "repository");
    let mut head_repo = here.clone();
    let mut head_owner = owner;
    if let Some(fork) = state.github.forks.get(&request.number) {
        head_repo["full_name"] = json!(fork);
        head_owner = fork.split('/').next().unwrap();
    }
    let user = |login: &str| shaped("simple-user", json!({"login": login, "id": 1, "type": "Organization"}));
    let head = repository.head_of(request).unwrap_or_else(|| "0".repeat(40));
    let base = repository.git.head(&request.target).unwrap_or_else(|| "0".repeat(40));
    let merged = matches!(request.state, RequestState::Merged(_)).then_some(request.closed).flatten();
    let label = |name: &String| json!({"id": 1, "node_id": "", "url": "", "name": name, "color": "ededed", "default": false, "description": ""});
    let enabled = json!({"enabled_by": user("robin"), "merge_method": "merge", "commit_title": "", "commit_message": ""});
    let links: Value =
        ["comments", "commits", "html", "issue", "review_comment", "review_comments", "self", "statuses"]
            .iter()
            .map(|name| ((*name).to_owned(), json!({"href": ""})))
            .collect::<serde_json::Map<_, _>>()
            .into();
    json!({
        "number": request.number,
        "id": request.number,
        "node_id": format!("PR_{}_{}", repository.id, request.number),
        "html_url": format!("{}/{path}/pull/{}", state.url, request.number),
        "title": request.title,
        "body": if request.body.is_empty() { Value::Null } else { json!(request.body) },
        "state": if request.state == RequestState::Open { "open" } else { "closed" },
        "draft": request.draft,
        "user": shown_user(&state.users[&request.author]),
        "labels": request.labels.iter().map(label).collect::<Vec<_>>(),
        "created_at": time(request.created),
        "updated_at": time(request.updated),
        "closed_at": request.closed.map(time),
        "merged_at": merged.map(time),
        "merge_commit_sha": match &request.state {
            RequestState::Merged(commit) => json!(commit),
            _ => Value::Null,
        },
        "author_association": "CONTRIBUTOR",
        "auto_merge": if request.merging { enabled } else { Value::Null },
        "_links": links,
        "head": {
            "label": format!("{head_owner}:{}", request.source), "ref": request.source, "sha": head,
            "repo": head_repo, "user": user(head_owner),
        },
        "base": {
            "label": format!("{owner}:{}", request.target), "ref": request.target, "sha": base,
            "repo": here, "user": user(owner),
        },
    })
}

fn whole(state: &State, path: &str, number: u64, who: &User) -> Value {
    let repository = &state.repositories[path];
    let request = repository.request(number).expect("it was looked at");
    let mut facts = facts(state, path, request, who);
    let open = request.state == RequestState::Open;
    let known = open && state.github.mergeable_unknown == 0;
    let mergeable = known && repository.git.head(&request.source).is_some();
    facts["mergeable"] = match mergeable {
        true => json!(repository.merges(&request.target, &request.source)),
        false => Value::Null,
    };
    facts["mergeable_state"] = json!("unknown");
    facts["merged"] = json!(matches!(request.state, RequestState::Merged(_)));
    facts["comments"] = json!(request.comments.len());
    shaped("pull-request", facts)
}

fn create(state: &mut State, path: &str, who: &User, call: &Call) -> Reply {
    let body = call.json();
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    let (title, source, target) = (text("title"), text("head"), text("base"));
    let owner = path.split('/').next().unwrap();
    let source = source.strip_prefix(&format!("{owner}:")).unwrap_or(&source).to_owned();
    if state.github.actions_may_not_open && who.is_bot {
        let message = "GitHub Actions is not permitted to create or approve pull requests.";
        return Reply::json(403, &json!({"message": message}));
    }
    if state.github.no_drafts && body["draft"] == json!(true) {
        return refused("Draft pull requests are not supported in this repository.");
    }
    if text("body").encode_utf16().count() > 65_536 {
        return invalid("PullRequest", "body is too long (maximum is 65536 characters)");
    }
    let repository = &state.repositories[path];
    if repository.git.head(&target).is_none() || repository.git.head(&source).is_none() {
        return invalid("PullRequest", "head or base is not a branch");
    }
    let own = |one: &&Request| !state.github.forks.contains_key(&one.number);
    let there = repository
        .requests
        .iter()
        .filter(own)
        .any(|one| one.state == RequestState::Open && one.source == source && one.target == target);
    if there {
        return invalid("PullRequest", &format!("A pull request already exists for {owner}:{source}."));
    }
    if repository.git.log(&format!("{target}..{source}")).is_empty() {
        return invalid("PullRequest", &format!("No commits between {target} and {source}"));
    }
    let now = state.tick();
    let number = state.repositories[path].next_number();
    let draft = body["draft"] == json!(true);
    let request = Request {
        number,
        title,
        body: text("body"),
        source,
        target,
        author: who.id,
        draft,
        ..Request::new(now)
    };
    state.repositories.get_mut(path).expect("it was looked at").requests.push(request);
    Reply::json(201, &whole(state, path, number, who))
}

fn edit(state: &mut State, path: &str, number: u64, who: &User, call: &Call) -> Reply {
    let body = call.json();
    let now = state.tick();
    let repository = state.repositories.get_mut(path).expect("it was looked at");
    let head = repository.request(number).and_then(|one| repository.git.head(&one.source));
    let exists = head.is_some();
    let request = repository.request_mut(number).expect("it was looked at");
    match (body["state"].as_str(), request.state == RequestState::Open) {
        (Some("closed"), true) => {
            request.state = RequestState::Closed;
            request.closed = Some(now);
            request.last_head = head;
        }
        (Some("open"), false) if !exists => return invalid("PullRequest", "state cannot be changed."),
        (Some("open"), false) => {
            request.state = RequestState::Open;
            request.closed = None;
        }
        _ => {}
    }
    for (field, value) in
        [("title", &mut request.title), ("body", &mut request.body), ("base", &mut request.target)]
    {
        if let Some(given) = body[field].as_str() {
            given.clone_into(value);
        }
    }
    request.updated = now;
    Reply::json(200, &whole(state, path, number, who))
}

fn ask_reviewers(state: &mut State, path: &str, number: u64, who: &User, call: &Call) -> Reply {
    let body = call.json();
    let names = |field: &str| -> Vec<String> {
        let names = body[field].as_array().into_iter().flatten();
        names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    let mut users = Vec::new();
    for login in names("reviewers") {
        let known = state.user_named(&login).map(|user| user.id);
        match known.filter(|id| state.repositories[path].roles.contains_key(id)) {
            Some(id) if id != state.repositories[path].request(number).unwrap().author => users.push(id),
            _ => return refused("Reviews may only be requested from collaborators."),
        }
    }
    for team in names("team_reviewers") {
        if !state.github.teams.contains(&team) {
            return refused("Could not resolve to a node with the global id of the team.");
        }
        state.github.asked_teams.push((number, team));
    }
    request_mut(state, path, number).reviewers.extend(users);
    let request = state.repositories[path].request(number).expect("it was looked at");
    Reply::json(201, &simple(state, path, request, who))
}

fn shown_label(name: &str) -> Value {
    shaped("label", json!({"id": 1, "name": name, "color": "ededed"}))
}

/// Labels that are not there are refused: GitHub makes them for some callers only.
fn label(state: &mut State, path: &str, number: u64, call: &Call) -> Reply {
    let body = call.json();
    let names: Vec<String> = (body["labels"].as_array().into_iter().flatten())
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect();
    let repository = state.repositories.get_mut(path).expect("it was looked at");
    if names.iter().any(|name| !repository.labels.contains(name)) {
        return invalid("Label", "does not exist");
    }
    let request = repository.request_mut(number).expect("it was looked at");
    request.labels.extend(names);
    Reply::json(200, &request.labels.iter().map(|name| shown_label(name)).collect())
}

fn unlabel(state: &mut State, path: &str, number: u64, name: &str) -> Reply {
    let repository = state.repositories.get_mut(path).expect("it was looked at");
    let request = repository.request_mut(number).expect("it was looked at");
    let n_before = request.labels.len();
    request.labels.retain(|known| !known.eq_ignore_ascii_case(name));
    if request.labels.len() == n_before {
        return Reply::json(404, &json!({"message": "Label does not exist"}));
    }
    Reply::json(200, &request.labels.iter().map(|name| shown_label(name)).collect())
}

fn create_label(state: &mut State, path: &str, call: &Call) -> Reply {
    let name = call.json()["name"].as_str().unwrap_or_default().to_owned();
    let labels = &mut state.repositories.get_mut(path).expect("it was looked at").labels;
    if name.chars().count() > 50 || !labels.insert(name.clone()) {
        return invalid("Label", "already_exists");
    }
    Reply::json(201, &shown_label(&name))
}

fn shown_comment(state: &State, comment: &Comment) -> Value {
    let given = json!({
        "id": comment.id,
        "user": shown_user(&state.users[&comment.author]),
        "body": comment.body,
        "created_at": time(comment.created),
        "updated_at": time(comment.updated),
    });
    shaped("issue-comment", given)
}

fn comment(state: &mut State, path: &str, id: u64, who: &User, call: &Call) -> Reply {
    let now = state.tick();
    let repository: &mut Repository = state.repositories.get_mut(path).expect("it was looked at");
    let holder =
        repository.requests.iter_mut().find(|one| one.comments.iter().any(|comment| comment.id == id));
    let Some(request) = holder else { return not_found() };
    let at = request.comments.iter().position(|comment| comment.id == id).expect("it has it");
    if call.path.ends_with("/reactions") {
        return react(state, path, id, who, call);
    }
    request.updated = now;
    if request.comments[at].author != who.id {
        return super::denied(who);
    }
    if call.method == "DELETE" {
        request.comments.remove(at);
        return Reply { status: 204, ..Reply::default() };
    }
    let comment = &mut request.comments[at];
    comment.body = call.json()["body"].as_str().unwrap_or_default().to_owned();
    comment.updated = now;
    let comment = comment.clone();
    Reply::json(200, &shown_comment(state, &comment))
}

/// A reaction of an account stays one, and changes neither the comment nor its times.
fn react(state: &mut State, path: &str, id: u64, who: &User, call: &Call) -> Reply {
    let content = call.json()["content"].as_str().unwrap_or_default().to_owned();
    let requests = &mut state.repositories.get_mut(path).expect("it was looked at").requests;
    let mut comments = requests.iter_mut().flat_map(|request| &mut request.comments);
    let comment = comments.find(|comment| comment.id == id).expect("it was looked at");
    let reaction = (who.id, content);
    let is_new = !comment.reactions.contains(&reaction);
    let shown = json!({"id": comment.reactions.len() + 1, "content": reaction.1, "user": shown_user(who)});
    if is_new {
        comment.reactions.push(reaction);
    }
    Reply::json(if is_new { 201 } else { 200 }, &shaped("reaction", shown))
}

/// What an account may do.
pub(super) fn permission(state: &State, path: &str, login: &str) -> Reply {
    let Some(user) = state.user_named(login) else { return not_found() };
    let (permission, role) = match state.repositories[path].roles.get(&user.id) {
        None => ("none", "none"),
        Some(Role::Read) => ("read", "read"),
        Some(Role::Triage) => ("read", "triage"),
        Some(Role::Write) => ("write", "write"),
        Some(Role::Maintain) => ("write", "maintain"),
        Some(Role::Admin) => ("admin", "admin"),
    };
    let role = state.github.own_roles.get(&user.id).map_or(role, String::as_str);
    let mut shown = shown_user(user);
    shown["role_name"] = json!(role);
    let given = json!({"permission": permission, "role_name": role, "user": shown});
    Reply::json(200, &shaped("repository-collaborator-permission", given))
}
