//! The part of GraphQL that the bot needs because REST lacks it.

use serde_json::{Value, json};

use super::super::state::{Role, State, User};
use super::super::{Call, Reply};
use super::{document, git};

/// How much of it there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GraphQl {
    Whole,
    /// An older server: it does not know the newer fields.
    Old,
    /// Switched off, or kept away by a proxy.
    Absent,
}

pub(super) fn answer(state: &mut State, call: &Call, who: &User, broken: &mut Vec<String>) -> Reply {
    let Some(asked) = document::read(call, broken) else { return error("UNPROCESSABLE", "A query problem") };
    match state.github.graphql {
        GraphQl::Absent => return super::not_found(),
        GraphQl::Old if asked.field != "viewer" => {
            let message = format!("Field '{}' doesn't exist on type 'Mutation'", asked.field);
            let extensions = json!({"code": "undefinedField", "fieldName": asked.field});
            return Reply::json(200, &json!({"errors": [{"message": message, "extensions": extensions}]}));
        }
        _ => {}
    }
    let input = &asked.variables["input"];
    match asked.field.as_str() {
        "viewer" => {
            Reply::json(200, &json!({"data": {"viewer": {"login": who.login, "databaseId": who.id}}}))
        }
        "node" => {
            let Some((_, number)) = pull(state, &asked.variables["id"]) else { return missing() };
            let queued = state.github.queued.contains(&number);
            Reply::json(200, &json!({"data": {"node": {"isInMergeQueue": queued}}}))
        }
        "updateRefs" => update_refs(state, who, input),
        draft @ ("convertPullRequestToDraft" | "markPullRequestReadyForReview") => {
            let Some((path, number)) = pull(state, &input["pullRequestId"]) else { return missing() };
            let now = state.tick();
            let repository = state.repositories.get_mut(&path).expect("it was found");
            let request = repository.request_mut(number).expect("it was found");
            request.draft = draft == "convertPullRequestToDraft";
            request.updated = now;
            Reply::json(200, &json!({"data": {draft: {"clientMutationId": null}}}))
        }
        other => {
            broken.push(format!("the stand-in does not answer `{other}`"));
            missing()
        }
    }
}

/// Every ref as asked, or none.
fn update_refs(state: &mut State, who: &User, input: &Value) -> Reply {
    let id = input["repositoryId"].as_str().unwrap_or_default();
    let known = state.repositories.values().find(|one| format!("R_{}", one.id) == id);
    let Some(repository) = known else { return missing() };
    let path = repository.path.clone();
    if repository.archived || repository.roles.get(&who.id).is_none_or(|role| *role < Role::Write) {
        return error("FORBIDDEN", "Resource not accessible by integration");
    }
    let by = who.id;
    state.pushing(&path.clone(), by, |state| move_all(state, &path, input))
}

fn move_all(state: &mut State, path: &str, input: &Value) -> Reply {
    let zero = |id: &str| id.bytes().all(|digit| digit == b'0');
    for update in input["refUpdates"].as_array().into_iter().flatten() {
        let text = |name: &str| update[name].as_str();
        let (name, after) = (text("name").unwrap_or_default(), text("afterOid").unwrap_or_default());
        let Some(branch) = name.strip_prefix("refs/heads/") else {
            return error("UNPROCESSABLE", "Reference name is invalid.");
        };
        let before = text("beforeOid").map(|id| (!zero(id)).then_some(id));
        let after = (!zero(after)).then_some(after);
        let there = repository_head(state, path, branch);
        if let (Some(there), Some(after)) = (&there, after)
            && update["force"] != json!(true)
            && state.repositories[path].git.try_git(&["merge-base", "--is-ancestor", there, after]).is_none()
        {
            return error("UNPROCESSABLE", "Update is not a fast forward");
        }
        if let Err(why) = git::move_branch(state, path, branch, before, after) {
            // GitHub says no more than this.
            return Reply::json(200, &json!({"data": {"updateRefs": null}, "errors": [{"message": why}]}));
        }
    }
    Reply::json(200, &json!({"data": {"updateRefs": {"clientMutationId": null}}}))
}

fn repository_head(state: &State, path: &str, branch: &str) -> Option<String> {
    state.repositories[path].git.head(branch)
}

/// The pull request with a node id: `PR_<repository>_<number>`.
fn pull(state: &State, id: &Value) -> Option<(String, u64)> {
    let (repository, number) = id.as_str()?.strip_prefix("PR_")?.split_once('_')?;
    let (repository, number): (u64, u64) = (repository.parse().ok()?, number.parse().ok()?);
    let found = state.repositories.values().find(|one| one.id == repository)?;
    found.request(number).map(|_| (found.path.clone(), number))
}

fn missing() -> Reply {
    error("NOT_FOUND", "Could not resolve to a node with the global id")
}

fn error(kind: &str, message: &str) -> Reply {
    Reply::json(200, &json!({"data": null, "errors": [{"type": kind, "message": message}]}))
}
