//! The forge as GitHub shows it: its REST interface below `/api/v3`, as GitHub Enterprise Server has it, or at the root,
//! as github.com has it; the few mutations that exist in GraphQL only; archives at an address of their own.

mod account;

mod document;

mod git;

mod hooks;

mod graphql;

mod issues;

mod checks;

mod pulls;

mod schema;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::state::{Push, Role, State, User, time};
use super::{Call, Reply};
use schema::shaped;

pub(crate) use account::{APP, APP_KEY, Permission};
pub(crate) use graphql::GraphQl;

/// What GitHub alone knows, and how it behaves in a test.
pub(crate) struct Own {
    /// The App's installation and what it may do; `None`: nobody installed it.
    pub(crate) installation: Option<(u64, Permission)>,
    pub(crate) graphql: GraphQl,
    /// Drafts are not to be had.
    pub(crate) no_drafts: bool,
    /// The setting that lets Actions open pull requests is off.
    pub(crate) actions_may_not_open: bool,
    /// So many lists of pull requests still lack the newest one.
    pub(crate) lists_that_lag: u32,
    /// So many answers do not know yet whether a pull request can be merged.
    pub(crate) mergeable_unknown: u32,
    /// An older server, which does not note who moved which branch.
    pub(crate) no_activity: bool,
    /// Pull requests that wait in the merge queue.
    pub(crate) queued: BTreeSet<u64>,
    /// Pull requests whose branch lies in a fork with this path.
    pub(crate) forks: std::collections::BTreeMap<u64, String>,
    /// Longest list of a tree's entries.
    pub(crate) most_tree_entries: Option<usize>,
    /// Teams that may review.
    pub(crate) teams: BTreeSet<String>,
    /// Teams that were asked to review.
    pub(crate) asked_teams: Vec<(u64, String)>,
    /// Rules of a ruleset, by type, for branches that are protected.
    pub(crate) rules: Vec<&'static str>,
    /// Roles that the organization made for itself, by account.
    pub(crate) own_roles: std::collections::BTreeMap<u64, String>,
    /// The App's hook.
    pub(crate) app_hook: Option<super::hooks::Hook>,
    /// Blobs that came by themselves.
    pub(crate) blobs_written: u32,
    /// What the App was granted besides contents and pull requests, for writing.
    pub(crate) granted: Vec<&'static str>,
}

impl Own {
    /// The App may write this.
    fn grants(&self, permission: &str) -> bool {
        self.granted.contains(&permission)
    }
}

impl Default for Own {
    fn default() -> Self {
        Self {
            installation: Some((4711, Permission::Write)),
            graphql: GraphQl::Whole,
            no_drafts: false,
            actions_may_not_open: false,
            lists_that_lag: 0,
            mergeable_unknown: 0,
            no_activity: false,
            queued: BTreeSet::new(),
            forks: std::collections::BTreeMap::new(),
            most_tree_entries: None,
            teams: BTreeSet::from(["gpu".to_owned()]),
            asked_teams: Vec::new(),
            rules: vec!["update"],
            own_roles: std::collections::BTreeMap::new(),
            app_hook: None,
            blobs_written: 0,
            granted: vec!["checks", "issues"],
        }
    }
}

impl State {
    /// Whom GitHub puts down as the committer of what is written through it.
    pub(crate) fn forge_email(&self) -> String {
        "noreply@127.0.0.1".to_owned()
    }
}

/// Answers one call; what breaks a rule of GitHub's is added to `broken`.
pub(crate) fn answer(state: &mut State, call: &Call, broken: &mut Vec<String>) -> Reply {
    if call.path.starts_with("/_codeload/") {
        return git::download(state, call, broken);
    }
    if call.path == "/api/graphql" || call.path == "/graphql" {
        return match account::signed_in(state, call) {
            Ok(who) => graphql::answer(state, call, &who, broken),
            Err(reply) => reply,
        };
    }
    let parts = call.parts();
    let path = match &parts[..] {
        [api, v3, rest @ ..] if api == "api" && v3 == "v3" => rest,
        all => all,
    };
    let path = &by_name(state, path);
    let Some((operation, parameters)) = schema::operation(&call.method, path) else {
        broken.push(format!("{} {}: no such endpoint", call.method, call.path));
        return not_found();
    };
    if state.checks {
        operation.check_call(call, broken);
    }
    // Without a version GitHub answers by the newest, as some clients want it; by a wrong one not at all.
    let is_old = |version: &str| version == "2022-11-28";
    let by_itself = call.header("user-agent").is_some_and(|agent| agent.starts_with("GitHubKit"));
    if !by_itself && !call.header("x-github-api-version").is_some_and(is_old) {
        broken.push(format!("{}: without the version of the interface", operation.name));
    }
    let reply = account::for_apps(state, &operation.name, &parameters, call, broken)
        .unwrap_or_else(|| signed_in(state, &operation.name, &parameters, call));
    if state.checks {
        operation.check_reply(&reply, broken);
    }
    about_token(state, reply)
}

/// What GitHub tells with every answer of the token that was sent.
fn about_token(state: &State, mut reply: Reply) -> Reply {
    if let Some(day) = &state.token_ends {
        reply = reply.with("github-authentication-token-expiration", &format!("{day} 12:00:00 UTC"));
    }
    if let Some(scopes) = &state.token_scopes {
        reply = reply.with("x-oauth-scopes", &scopes.join(", "));
    }
    reply
}

/// Where renamed repositories lead: `repositories/<number>` stands for the repository.
fn by_name(state: &State, path: &[String]) -> Vec<String> {
    if let [repositories, id, rest @ ..] = path
        && repositories == "repositories"
        && let Some(known) = state.repositories.values().find(|one| one.id.to_string() == *id)
    {
        let start = format!("repos/{}", known.path);
        return start.split('/').map(str::to_owned).chain(rest.iter().cloned()).collect();
    }
    path.to_vec()
}

/// Operations that need a token.
fn signed_in(state: &mut State, name: &str, parameters: &[String], call: &Call) -> Reply {
    let who = match account::signed_in(state, call) {
        Ok(who) => who,
        Err(reply) => return reply,
    };
    match name {
        "GET /user" => return account::own_user(&who),
        "GET /users/{username}" => return account::user(state.user_named(&parameters[0])),
        "GET /user/{account_id}" => {
            let known = parameters[0].parse().ok().and_then(|id: u64| state.users.get(&id));
            return account::user(known);
        }
        _ => {}
    }
    let path = format!("{}/{}", parameters[0], parameters[1]);
    let renamed = state.repositories.values().find(|one| one.former_paths.contains(&path));
    if let Some(renamed) = renamed {
        let rest = call.path.split_once(&format!("/repos/{path}")).map_or("", |(_, rest)| rest);
        let to = format!("{}/api/v3/repositories/{}{rest}", state.url, renamed.id);
        return Reply::json(301, &json!({"message": "Moved Permanently", "url": to})).with("location", &to);
    }
    let Some(repository) = state.repositories.get(&path) else { return not_found() };
    let Some(role) = repository.roles.get(&who.id).copied() else { return not_found() };
    if !call.reads() {
        if repository.archived {
            let message = "Repository was archived so is read-only.";
            return Reply::json(403, &json!({"message": message}));
        }
        if role < Role::Write {
            return denied(&who);
        }
    }
    if name.contains("/{repo}/hooks") {
        return hooks::of_repository(state, name, &path, role, parameters, call);
    }
    let at = |n: usize| parameters[n].as_str();
    match name {
        "GET /repos/{owner}/{repo}" => {
            Reply::json(200, &shown_repository(state, &path, &who, "full-repository"))
        }
        "GET /repos/{owner}/{repo}/collaborators/{username}/permission" => {
            pulls::permission(state, &path, at(2))
        }
        "GET /repos/{owner}/{repo}/rules/branches/{branch}" => rules(state, &path, at(2)),
        "GET /repos/{owner}/{repo}/git/ref/{ref}" => git::get_ref(repository, at(2)),
        "GET /repos/{owner}/{repo}/git/matching-refs/{ref}" => git::matching_refs(repository, at(2)),
        "POST /repos/{owner}/{repo}/git/refs" => {
            state.pushing(&path, who.id, |state| git::create_ref(state, &path, call))
        }
        "PATCH /repos/{owner}/{repo}/git/refs/{ref}" => {
            state.pushing(&path, who.id, |state| git::update_ref(state, &path, at(2), call))
        }
        "DELETE /repos/{owner}/{repo}/git/refs/{ref}" => {
            state.pushing(&path, who.id, |state| git::delete_ref(state, &path, at(2)))
        }
        "GET /repos/{owner}/{repo}/activity" if state.github.no_activity => not_found(),
        "GET /repos/{owner}/{repo}/activity" => activity(state, &path, call),
        "GET /repos/{owner}/{repo}/git/trees/{tree_sha}" => git::get_tree(state, &path, at(2), call),
        "POST /repos/{owner}/{repo}/git/trees" => git::create_tree(state, &path, call),
        "GET /repos/{owner}/{repo}/git/blobs/{file_sha}" => git::get_blob(state, &path, at(2)),
        "POST /repos/{owner}/{repo}/git/blobs" => {
            state.github.blobs_written += 1;
            git::create_blob(state, &path, call)
        }
        "GET /repos/{owner}/{repo}/git/commits/{commit_sha}" => git::get_commit(state, &path, at(2)),
        "POST /repos/{owner}/{repo}/git/commits" => git::create_commit(state, &path, &who, call),
        "GET /repos/{owner}/{repo}/compare/{basehead}" => git::compare(state, &path, at(2), call),
        "GET /repos/{owner}/{repo}/tarball/{ref}" => git::archive(state, &path, at(2)),
        "GET /repos/{owner}/{repo}/commits/{ref}/check-runs" => checks::runs(state, &path, at(2), call),
        "POST /repos/{owner}/{repo}/check-runs" => checks::run(state, &path, &who, call),
        "GET /repos/{owner}/{repo}/commits/{ref}/status" => checks::combined(state, &path, at(2)),
        "POST /repos/{owner}/{repo}/statuses/{sha}" => checks::report(state, &path, at(2), &who, call),
        "GET /repos/{owner}/{repo}/issues" if !state.github.grants("issues") => denied(&who),
        "GET /repos/{owner}/{repo}/issues" => issues::list(state, &path, call),
        "POST /repos/{owner}/{repo}/issues" => issues::create(state, &path, &who, call),
        "PATCH /repos/{owner}/{repo}/issues/{issue_number}" => {
            issues::edit(state, &path, at(2).parse().unwrap_or_default(), call)
        }
        _ => pulls::answer(state, name, &path, parameters, &who, call),
    }
}

/// Who moved which branch, the latest first.
fn activity(state: &State, path: &str, call: &Call) -> Reply {
    let asked = call.asked("ref");
    let zero = "0".repeat(40);
    let shown = |(at, push): (usize, &Push)| {
        let name = format!("refs/heads/{}", push.branch);
        let kind = match (&push.from, &push.to) {
            (None, _) => "branch_creation",
            (_, None) => "branch_deletion",
            _ => "force_push",
        };
        let shown = json!({
            "id": at + 1, "ref": name, "activity_type": kind, "actor": shown_user(&state.users[&push.user]),
            "before": push.from.as_ref().unwrap_or(&zero), "after": push.to.as_ref().unwrap_or(&zero),
            "timestamp": time(push.at),
        });
        (asked.is_none_or(|asked| asked == name || asked == push.branch)).then(|| shaped("activity", shown))
    };
    let pushes = &state.repositories[path].pushes;
    let mut all: Vec<Value> = pushes.iter().enumerate().filter_map(shown).collect();
    all.reverse();
    let most = call.asked("per_page").and_then(|text| text.parse().ok()).unwrap_or(30);
    all.truncate(most);
    Reply::json(200, &Value::Array(all))
}

fn rules(state: &State, path: &str, branch: &str) -> Reply {
    let protects = state.repositories[path].protects(branch);
    let rules = state.github.rules.iter().filter(|_| protects);
    let origin = json!({"ruleset_source_type": "Repository", "ruleset_source": path, "ruleset_id": 1});
    let shown = |rule: &&str| {
        let mut shown = json!({"type": rule});
        shown.as_object_mut().unwrap().extend(origin.as_object().unwrap().clone());
        shown
    };
    Reply::json(200, &rules.map(shown).collect())
}

fn shown_repository(state: &State, path: &str, who: &User, schema: &str) -> Value {
    let repository = &state.repositories[path];
    let (owner, name) = path.split_once('/').unwrap();
    // What an installation may do is not told here.
    let role = repository.roles.get(&who.id).copied().filter(|_| !who.is_bot);
    let may = |least: Role| json!(role.is_some_and(|role| role >= least));
    let given = json!({
        "id": repository.id,
        "node_id": format!("R_{}", repository.id),
        "name": name,
        "full_name": path,
        "owner": {"login": owner, "id": 1, "type": "Organization"},
        "archived": repository.archived,
        "has_pull_requests": !repository.requests_disabled,
        "default_branch": repository.default_branch,
        "permissions": {
            "admin": may(Role::Admin), "maintain": may(Role::Maintain), "push": may(Role::Write),
            "triage": may(Role::Triage), "pull": may(Role::Read),
        },
    });
    shaped(schema, given)
}

fn shown_user(user: &User) -> Value {
    let kind = if user.is_bot { "Bot" } else { "User" };
    shaped(
        "simple-user",
        json!({"id": user.id, "login": user.login, "type": kind, "html_url": "https://example.com/"}),
    )
}

fn not_found() -> Reply {
    Reply::json(404, &json!({"message": "Not Found"}))
}

fn denied(who: &User) -> Reply {
    let message = match who.is_bot {
        true => "Resource not accessible by integration",
        false => "Resource not accessible by personal access token",
    };
    Reply::json(403, &json!({"message": message}))
}

/// What cannot be done as asked.
fn refused(why: &str) -> Reply {
    let url = "https://docs.github.com/rest";
    Reply::json(422, &json!({"message": why, "documentation_url": url}))
}

/// The same, with the reason beside a message that only says that there is one.
fn invalid(resource: &str, why: &str) -> Reply {
    let errors = json!([{"resource": resource, "code": "custom", "message": why}]);
    let url = "https://docs.github.com/rest";
    Reply::json(422, &json!({"message": "Validation Failed", "errors": errors, "documentation_url": url}))
}
