//! What is known, as GitLab writes it.

use serde_json::{Value, json};

use super::super::state::{Comment, Repository, Request, RequestState, Role, State, time};
use super::Asked;

/// `Draft: `, as GitLab marks one.
pub(super) const DRAFT: &str = "Draft: ";

pub(super) fn basic(state: &State, user: u64) -> Value {
    let user = &state.users[&user];
    json!({
        "id": user.id,
        "username": user.login,
        "public_email": "",
        "name": user.name,
        "state": if user.blocked { "blocked" } else { "active" },
        "locked": false,
        "avatar_url": format!("{}/uploads/-/system/user/avatar/{}/avatar.png", state.url, user.id),
        "web_url": format!("{}/user-{}", state.url, user.id),
    })
}

/// An account; its addresses are shown to itself.
pub(super) fn account(state: &State, user: u64, to_itself: bool) -> Value {
    let mut shown = basic(state, user);
    if to_itself {
        let user = &state.users[&user];
        shown["email"] = json!(user.email);
        shown["commit_email"] = json!(user.email);
        shown["bot"] = json!(user.is_bot);
    }
    shown
}

pub(super) fn project(state: &State, asked: &Asked<'_>) -> Value {
    let known = asked.repository(state);
    let level = super::members::level(asked.role);
    let name = known.path.rsplit('/').next().unwrap();
    let empty = known.git.branches().is_empty();
    let requests = if known.requests_disabled { "disabled" } else { "enabled" };
    json!({
        "id": known.id,
        "description": null,
        "name": name,
        "path": name,
        "name_with_namespace": known.path.replace('/', " / "),
        "path_with_namespace": known.path,
        "namespace": {
            "id": 77, "name": "acme", "path": "acme", "full_path": known.path.rsplit_once('/').map(|(group, _)| group),
            "kind": if state.group.is_some() { "group" } else { "user" }, "parent_id": null,
        },
        "created_at": "2025-01-15T00:00:00.000Z",
        "default_branch": (!empty).then_some(&known.default_branch),
        "ssh_url_to_repo": format!("git@forge.example.com:{}.git", known.path),
        "http_url_to_repo": format!("{}/{}.git", state.url, known.path),
        "web_url": format!("{}/{}", state.url, known.path),
        "archived": known.archived,
        "empty_repo": empty,
        "visibility": "private",
        "merge_requests_enabled": !known.requests_disabled,
        "merge_requests_access_level": requests,
        "repository_access_level": "enabled",
        "merge_method": "merge",
        "permissions": {
            "project_access": { "access_level": level, "notification_level": 3 },
            "group_access": null,
        },
    })
}

/// Commits that `arguments` of `git log` name.
pub(super) fn commits(state: &State, repository: &Repository, arguments: &[&str]) -> Option<Vec<Value>> {
    let format = "--format=%H%x01%P%x01%an%x01%ae%x01%aI%x01%cn%x01%ce%x01%cI%x01%B";
    let mut all = vec!["log", "-z", format];
    all.extend(arguments);
    let text = repository.git.try_git(&all)?;
    let commit = |record: &str| {
        let fields: Vec<&str> = record.splitn(9, '\u{1}').collect();
        let [id, parents, author, author_email, authored, committer, committer_email, committed, message] =
            fields[..]
        else {
            panic!("git log printed `{record}`");
        };
        json!({
            "id": id,
            "short_id": &id[..8],
            "created_at": committed,
            "parent_ids": parents.split_whitespace().collect::<Vec<_>>(),
            "title": message.lines().next().unwrap_or_default(),
            "message": message,
            "author_name": author,
            "author_email": author_email,
            "authored_date": authored,
            "committer_name": committer,
            "committer_email": committer_email,
            "committed_date": committed,
            "trailers": {},
            "web_url": format!("{}/{}/-/commit/{id}", state.url, repository.path),
        })
    };
    Some(text.split('\0').filter(|record| !record.is_empty()).map(commit).collect())
}

/// One commit.
pub(super) fn commit(state: &State, repository: &Repository, id: &str) -> Option<Value> {
    let plain = !id.starts_with('-') && !id.contains("..");
    commits(state, repository, &["-1", id, "--"]).filter(|_| plain)?.pop()
}

pub(super) fn branch(state: &State, asked: &Asked<'_>, name: &str) -> Option<Value> {
    let repository = asked.repository(state);
    let head = repository.git.head(name)?;
    let protected = repository.protects(name);
    Some(json!({
        "name": name,
        "commit": commit(state, repository, &head)?,
        "merged": false,
        "protected": protected,
        "developers_can_push": false,
        "developers_can_merge": false,
        "can_push": asked.role >= if protected { Role::Maintain } else { Role::Write },
        "default": name == repository.default_branch,
        "web_url": format!("{}/{}/-/tree/{name}", state.url, repository.path),
    }))
}

pub(super) fn request(state: &State, repository: &Repository, request: &Request) -> Value {
    let base = repository.git.head(&repository.default_branch).unwrap_or_default();
    let sha = match request.fork {
        Some(_) => base,
        None => repository.head_of(request).unwrap_or(base),
    };
    let open = request.state == RequestState::Open;
    let conflicts = open && request.fork.is_none() && !repository.merges(&request.target, &sha);
    let (status, old_status) = match (open, request.unchecked > 0, conflicts, request.draft) {
        (false, ..) => ("not_open", "can_be_merged"),
        (_, true, ..) => ("checking", "checking"),
        (_, _, true, _) => ("conflict", "cannot_be_merged"),
        (_, _, _, true) => ("draft_status", "can_be_merged"),
        _ => ("mergeable", "can_be_merged"),
    };
    let (word, merge_commit) = match &request.state {
        RequestState::Open => ("opened", None),
        RequestState::Closed => ("closed", None),
        RequestState::Merged(commit) => ("merged", Some(commit)),
    };
    let merged = merge_commit.is_some();
    let prefix = if request.draft { DRAFT } else { "" };
    let mut whole = json!({
        "id": 100_000 + request.number,
        "iid": request.number,
        "project_id": repository.id,
        "title": format!("{prefix}{}", request.title),
        "description": request.body,
        "state": word,
        "created_at": time(request.created),
        "updated_at": time(request.updated),
        "merged_by": null,
        "merged_at": request.closed.filter(|_| merged).map(time),
        "closed_by": null,
        "closed_at": request.closed.filter(|_| !merged).map(time),
        "target_branch": request.target,
        "source_branch": request.source,
        "user_notes_count": request.comments.len(),
        "upvotes": 0,
        "downvotes": 0,
        "author": basic(state, request.author),
        "assignees": [],
        "assignee": null,
        "reviewers": request.reviewers.iter().map(|user| basic(state, *user)).collect::<Vec<_>>(),
        "source_project_id": request.fork.unwrap_or(repository.id),
        "target_project_id": repository.id,
        "labels": request.labels,
    });
    let more = json!({
        "draft": request.draft,
        "work_in_progress": request.draft,
        "milestone": null,
        "merge_when_pipeline_succeeds": request.merging,
        "merge_status": old_status,
        "detailed_merge_status": status,
        "has_conflicts": conflicts && request.unchecked == 0,
        "sha": sha,
        "merge_commit_sha": merge_commit,
        "squash_commit_sha": null,
        "discussion_locked": null,
        "should_remove_source_branch": null,
        "force_remove_source_branch": false,
        // Filled in by a job that runs later, if ever.
        "prepared_at": null,
        "diff_refs": null,
        "reference": format!("!{}", request.number),
        "web_url": format!("{}/{}/-/merge_requests/{}", state.url, repository.path, request.number),
        "squash": false,
        "task_completion_status": { "count": 0, "completed_count": 0 },
        "blocking_discussions_resolved": true,
    });
    if let (Value::Object(whole), Value::Object(more)) = (&mut whole, more) {
        whole.extend(more);
    }
    whole
}

pub(super) fn approvals(state: &State, asked: &Asked<'_>, request: &Request) -> Value {
    let head = asked.repository(state).head_of(request);
    // The project takes approvals back when the branch moves.
    let now = request.approvals.iter().filter(|(_, seen)| Some(seen) == head.as_ref());
    let by: Vec<Value> = now.map(|(user, _)| json!({ "user": basic(state, *user) })).collect();
    json!({
        "user_has_approved": request.approvals.iter().any(|(user, _)| *user == asked.user),
        "user_can_approve": request.author != asked.user,
        "approved": !by.is_empty(),
        "approved_by": by,
    })
}

pub(super) fn note(state: &State, request: &Request, comment: &Comment) -> Value {
    json!({
        "id": comment.id,
        "type": null,
        "body": comment.body,
        "attachment": null,
        "author": basic(state, comment.author),
        "created_at": time(comment.created),
        "updated_at": time(comment.updated),
        "system": comment.system,
        "noteable_id": 100_000 + request.number,
        "noteable_iid": request.number,
        "noteable_type": "MergeRequest",
        "resolvable": false,
        "confidential": comment.internal,
        "internal": comment.internal,
        "commands_changes": {},
    })
}
