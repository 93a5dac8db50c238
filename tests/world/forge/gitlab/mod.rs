//! The forge as GitLab shows it.

mod rules;

mod quick_actions;

mod shown;

mod repository;

mod requests;

mod issues;

mod members;

mod hooks;

use serde_json::{Value, json};

use super::state::{Repository, Role, State};
use super::{Call, Reply};

/// One call, by whom and about what.
struct Asked<'a> {
    call: &'a Call,
    /// Number of the account.
    user: u64,
    /// Path of the repository; empty where the call is about none.
    path: String,
    role: Role,
    /// Parts of the path behind the project, decoded.
    rest: Vec<String>,
}

impl Asked<'_> {
    fn repository<'s>(&self, state: &'s State) -> &'s Repository {
        &state.repositories[&self.path]
    }

    fn repository_mut<'s>(&self, state: &'s mut State) -> &'s mut Repository {
        state.repositories.get_mut(&self.path).expect("looked up before")
    }

    /// Part `n` of the path behind the project.
    fn part(&self, n: usize) -> &str {
        self.rest.get(n).map_or("", String::as_str)
    }

    fn number(&self, n: usize) -> u64 {
        self.part(n).parse().unwrap_or(0)
    }

    fn may_write(&self, state: &State) -> bool {
        self.role >= Role::Write && !self.repository(state).archived
    }
}

/// Answers one call; what breaks a rule of GitLab's is added to `broken`.
pub(crate) fn answer(state: &mut State, call: &Call, broken: &mut Vec<String>) -> Reply {
    let parts = call.parts();
    let [api, v4, parts @ ..] = parts.as_slice() else { return no_endpoint(call, broken) };
    if api != "api" || v4 != "v4" {
        return no_endpoint(call, broken);
    }
    let token = call.header("private-token");
    let Some(user) = token.and_then(|token| state.tokens.get(token).copied()) else {
        return refused(401, "401 Unauthorized");
    };
    let asked = Asked { call, user, path: String::new(), role: Role::Read, rest: parts.to_vec() };
    let name = name_of(&call.method, parts);
    let before = broken.len();
    rules::check_request(&name, call, broken);
    if broken[before..].iter().any(|line| line.contains("no such endpoint")) {
        return refused(404, "404 Not Found");
    }
    let reply = match (parts[0].as_str(), parts.get(1)) {
        ("user", _) => Reply::json(200, &shown::account(state, user, true)),
        ("users", Some(id)) => account(state, &asked, id),
        ("users", None) => users(state, &asked),
        ("personal_access_tokens", _) => members::token(state, &asked),
        ("groups", Some(_)) => hooks::of_group(state, asked, &name),
        (_, Some(project)) => of_project(state, asked, project, &name, broken),
        (_, None) => refused(404, "404 Not Found"),
    };
    rules::check_reply(&name, &reply, broken);
    reply
}

fn no_endpoint(call: &Call, broken: &mut Vec<String>) -> Reply {
    broken.push(format!("{} {}: no such endpoint", call.method, call.path));
    refused(404, "404 Not Found")
}

/// What the endpoint is called in the documentation: `GET /projects/:id/repository/branches/:branch`.
fn name_of(method: &str, parts: &[String]) -> String {
    let mut name = format!("{method} ");
    for (at, part) in parts.iter().enumerate() {
        let before = if at == 0 { "" } else { parts[at - 1].as_str() };
        let inside = ["projects", "groups"].contains(&parts[0].as_str()) && at > 1;
        name.push('/');
        name += match before {
            "projects" | "groups" if at == 1 => ":id",
            "branches" if inside => ":branch",
            "commits" | "blobs" if inside => ":sha",
            "merge_requests" if inside => ":iid",
            "notes" if inside => ":note",
            "issues" if inside => ":iid",
            "statuses" if inside => ":sha",
            "hooks" if inside => ":hook",
            "events" if inside => ":event",
            "all" if inside => ":user",
            "users" if at == 1 => ":id",
            _ => part,
        };
    }
    name
}

fn of_project(
    state: &mut State,
    mut asked: Asked<'_>,
    project: &str,
    name: &str,
    broken: &mut Vec<String>,
) -> Reply {
    let known = state.repositories.values().find(|one| one.path == project || one.id.to_string() == project);
    let Some(known) = known else {
        let moved =
            state.repositories.values().find(|one| one.former_paths.iter().any(|path| path == project));
        let Some(moved) = moved else { return refused(404, "404 Project Not Found") };
        if !asked.call.reads() {
            return refused(405, "Non GET methods are not allowed for moved projects");
        }
        // Behind `/api/v4/projects/<path>`, as it was sent.
        let rest: String = asked.call.path.split('/').skip(5).map(|part| format!("/{part}")).collect();
        let to = format!("{}/api/v4/projects/{}{rest}", state.url, moved.id);
        return Reply { status: 301, ..Reply::default() }.with("location", &to);
    };
    let Some(role) = known.roles.get(&asked.user).copied() else {
        return refused(404, "404 Project Not Found");
    };
    asked.path = known.path.clone();
    asked.role = role;
    asked.rest = asked.rest.split_off(2);
    if name.contains("/repository/") && !asked.call.reads() {
        let (path, user) = (asked.path.clone(), asked.user);
        return state.pushing(&path, user, |state| in_project(state, &asked, name, broken));
    }
    in_project(state, &asked, name, broken)
}

fn in_project(state: &mut State, asked: &Asked<'_>, name: &str, broken: &mut Vec<String>) -> Reply {
    match name.split_once(" /projects/:id").expect("it is about a project") {
        ("GET", "/events") => repository::pushes(state, asked),
        ("GET", "") => Reply::json(200, &shown::project(state, asked)),
        ("GET", "/protected_branches") => repository::protected(state, asked),
        ("GET", "/repository/branches") => repository::branches(state, asked),
        ("POST", "/repository/branches") => repository::create_branch(state, asked),
        ("GET", "/repository/branches/:branch") => repository::branch(state, asked),
        ("DELETE", "/repository/branches/:branch") => repository::delete_branch(state, asked),
        ("GET", "/repository/tree") => repository::tree(state, asked),
        ("GET", "/repository/archive.tar.gz") => repository::archive(state, asked),
        ("GET", "/repository/blobs/:sha/raw") => repository::blob(state, asked),
        ("GET", "/repository/merge_base") => repository::merge_base(state, asked),
        ("GET", "/repository/commits") => repository::commits(state, asked),
        ("GET", "/repository/commits/:sha") => repository::commit(state, asked),
        ("POST", "/repository/commits") => repository::create_commit(state, asked, broken),
        ("GET", "/repository/commits/:sha/statuses") => issues::statuses(state, asked),
        ("POST", "/statuses/:sha") => issues::report(state, asked),
        ("GET", "/issues") => issues::list(state, asked),
        ("POST", "/issues") => issues::create(state, asked, broken),
        ("PUT", "/issues/:iid") => issues::edit(state, asked, broken),
        ("GET", "/merge_requests") => requests::list(state, asked),
        ("POST", "/merge_requests") => requests::create(state, asked, broken),
        ("GET", "/merge_requests/:iid") => requests::one(state, asked),
        ("PUT", "/merge_requests/:iid") => requests::edit(state, asked, broken),
        ("GET", "/merge_requests/:iid/approvals") => requests::approvals(state, asked),
        ("GET", "/merge_requests/:iid/notes") => requests::notes(state, asked),
        ("POST", "/merge_requests/:iid/notes") => requests::create_note(state, asked, broken),
        ("GET", "/merge_requests/:iid/notes/:note") => requests::note(state, asked),
        ("PUT", "/merge_requests/:iid/notes/:note") => requests::edit_note(state, asked, broken),
        ("DELETE", "/merge_requests/:iid/notes/:note") => requests::delete_note(state, asked),
        ("GET", "/merge_requests/:iid/notes/:note/award_emoji") => members::awards(state, asked),
        ("POST", "/merge_requests/:iid/notes/:note/award_emoji") => members::create_award(state, asked),
        ("GET", "/members/all/:user") => members::member(state, asked),
        ("GET", "/pipeline_schedules") => members::schedules(state, asked),
        ("POST", "/uploads") => members::upload(state, asked, broken),
        ("GET", "/hooks") => hooks::list(state, asked),
        ("GET", "/hooks/:hook/events") => hooks::events(state, asked),
        ("POST", "/hooks/:hook/events/:event/resend") => hooks::resend(state, asked),
        _ => no_endpoint(asked.call, broken),
    }
}

/// One account by its number, with whether it is a program.
fn account(state: &State, asked: &Asked<'_>, id: &str) -> Reply {
    let Some(user) = state.users.values().find(|user| user.id.to_string() == id) else {
        return refused(404, "404 User Not Found");
    };
    let mut shown = shown::account(state, user.id, false);
    shown["bot"] = json!(user.is_bot);
    if state.admins.contains(&asked.user) {
        shown["is_admin"] = json!(state.admins.contains(&user.id));
    }
    Reply::json(200, &shown)
}

fn users(state: &State, asked: &Asked<'_>) -> Reply {
    let named =
        |login: &str| state.users.values().filter(|user| user.login.eq_ignore_ascii_case(login)).collect();
    let users: Vec<_> = match asked.call.asked("username") {
        Some(login) => named(login),
        None => state.users.values().collect(),
    };
    let users = users.iter().map(|user| shown::account(state, user.id, false)).collect();
    paged(state, asked, users)
}

/// A refusal in GitLab's words.
fn refused(status: u16, message: impl Into<Value>) -> Reply {
    Reply::json(status, &json!({ "message": message.into() }))
}

/// One page of a list, with where it goes on.
fn paged(state: &State, asked: &Asked<'_>, all: Vec<Value>) -> Reply {
    let number = |name: &str, default: usize| {
        asked.call.asked(name).and_then(|text| text.parse().ok()).unwrap_or(default).max(1)
    };
    let (page, per_page) = (number("page", 1), number("per_page", 20).min(100));
    let n_pages = all.len().div_ceil(per_page).max(1);
    let shown: Vec<Value> = all.iter().skip((page - 1) * per_page).take(per_page).cloned().collect();
    let next = (page < n_pages).then(|| (page + 1).to_string());
    let reply = Reply::json(200, &Value::Array(shown))
        .with("x-page", &page.to_string())
        .with("x-per-page", &per_page.to_string())
        .with("x-total", &all.len().to_string())
        .with("x-total-pages", &n_pages.to_string())
        .with("x-next-page", next.as_deref().unwrap_or_default());
    match next {
        Some(next) => reply.with("link", &link(state, asked, "page", &next)),
        None => reply,
    }
}

/// One page of a list that goes on behind an entry rather than at a number.
fn by_keyset(state: &State, asked: &Asked<'_>, all: &[Value], key: &str) -> Reply {
    let per_page =
        asked.call.asked("per_page").and_then(|text| text.parse().ok()).unwrap_or(20).clamp(1, 100);
    let from = match asked.call.asked("page_token") {
        None => 0,
        Some(token) => all.iter().position(|one| one[key] == token).map_or(all.len(), |at| at + 1),
    };
    let shown: Vec<Value> = all.iter().skip(from).take(per_page).cloned().collect();
    let last =
        shown.last().filter(|_| from + per_page < all.len()).map(|one| one[key].as_str().unwrap().to_owned());
    let reply = Reply::json(200, &Value::Array(shown));
    match last {
        Some(last) => reply.with("link", &link(state, asked, "page_token", &last)),
        None => reply,
    }
}

fn link(state: &State, asked: &Asked<'_>, name: &str, value: &str) -> String {
    let escape = |text: &str| -> String {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
    };
    let mut query: Vec<String> = (asked.call.query.iter())
        .filter(|(known, _)| known != name)
        .map(|(known, value)| format!("{}={}", escape(known), escape(value)))
        .collect();
    query.push(format!("{name}={}", escape(value)));
    let to = format!("{}{}?{}", state.url, asked.call.path, query.join("&"));
    format!("<{to}>; rel=\"next\"")
}
