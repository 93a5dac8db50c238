//! People, tokens, files and what runs by the clock.

use serde_json::{Value, json};

use super::super::state::{Role, State, time};
use super::{Asked, Reply, paged, refused, shown};

/// Access level of a role.
pub(super) fn level(role: Role) -> u32 {
    match role {
        // Who may only read code is a reporter here.
        Role::Read | Role::Triage => 20,
        Role::Write => 30,
        Role::Maintain => 40,
        Role::Admin => 50,
    }
}

pub(super) fn member(state: &State, asked: &Asked<'_>) -> Reply {
    let user = asked.number(2);
    let repository = asked.repository(state);
    let Some(role) = repository.roles.get(&user) else { return refused(404, "404 Not found") };
    let mut shown = shown::basic(state, user);
    let waits = repository.awaiting.contains(&user);
    shown["access_level"] = json!(level(*role));
    shown["expires_at"] = Value::Null;
    shown["created_at"] = json!("2025-01-15T00:00:00.000Z");
    shown["membership_state"] = json!(if waits { "awaiting" } else { "active" });
    Reply::json(200, &shown)
}

pub(super) fn awards(state: &State, asked: &Asked<'_>) -> Reply {
    let comments = asked.repository(state).request(asked.number(1)).map(|request| &request.comments);
    let comment = comments.and_then(|all| all.iter().find(|comment| comment.id == asked.number(3)));
    let Some(comment) = comment else { return refused(404, "404 Not found") };
    let all = comment.reactions.iter().enumerate();
    let award = |(at, (user, name)): (usize, &(u64, String))| award(state, comment.id, at, *user, name);
    paged(state, asked, all.map(award).collect())
}

pub(super) fn create_award(state: &mut State, asked: &Asked<'_>) -> Reply {
    let name = asked.call.json()["name"].as_str().unwrap_or_default().to_owned();
    let (id, user, now) = (asked.number(3), asked.user, state.tick());
    let request = asked.repository_mut(state).request_mut(asked.number(1));
    let Some(comment) = request.and_then(|request| request.comments.iter_mut().find(|one| one.id == id))
    else {
        return refused(404, "404 Not found");
    };
    let taken = comment.reactions.contains(&(user, name.clone()));
    if taken || comment.system {
        let why = if taken { "Name has already been taken" } else { "User cannot award emoji to awardable" };
        return refused(404, format!("404 Award Emoji {why} Not Found"));
    }
    comment.reactions.push((user, name.clone()));
    // A reaction counts as a change of the comment.
    comment.updated = now;
    let at = comment.reactions.len() - 1;
    Reply::json(201, &award(state, id, at, user, &name))
}

fn award(state: &State, comment: u64, at: usize, user: u64, name: &str) -> Value {
    json!({
        "id": comment * 100 + u64::try_from(at).unwrap(),
        "name": name,
        "user": shown::basic(state, user),
        "created_at": "2026-01-15T00:00:00.000Z",
        "updated_at": "2026-01-15T00:00:00.000Z",
        "awardable_id": comment,
        "awardable_type": "Note",
        "url": null,
    })
}

/// The token that was sent; other kinds than access tokens have no such page.
pub(super) fn token(state: &State, asked: &Asked<'_>) -> Reply {
    let Some(scopes) = &state.token_scopes else { return refused(404, "404 Not Found") };
    let shown = json!({
        "id": 1,
        "name": "slicewright",
        "revoked": false,
        "created_at": time(super::super::state::CLOCK),
        "description": null,
        "scopes": scopes,
        "user_id": asked.user,
        "last_used_at": null,
        "active": true,
        "expires_at": state.token_ends,
    });
    Reply::json(200, &shown)
}

pub(super) fn schedules(state: &State, asked: &Asked<'_>) -> Reply {
    if asked.role < Role::Write {
        return refused(403, "403 Forbidden");
    }
    let schedule = |(at, one): (usize, &super::super::hooks::Schedule)| {
        json!({
            "id": at + 1,
            "description": one.name,
            "ref": "refs/heads/main",
            "cron": "17 3 * * *",
            "cron_timezone": "UTC",
            "next_run_at": "2026-01-16T03:17:00.000Z",
            "active": one.active,
            "created_at": "2025-01-15T00:00:00.000Z",
            "updated_at": "2025-01-15T00:00:00.000Z",
            "owner": one.owner.map(|owner| shown::basic(state, owner)),
        })
    };
    let all = asked.repository(state).schedules.iter().enumerate().map(schedule).collect();
    paged(state, asked, all)
}

/// Keeps the one file of a form.
pub(super) fn upload(state: &mut State, asked: &Asked<'_>, broken: &mut Vec<String>) -> Reply {
    let Some((name, content)) = file_of(asked) else {
        broken.push("POST /projects/:id/uploads: no form with a `file` in it".to_owned());
        return refused(400, "file is missing");
    };
    let alt = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem).to_owned();
    let url = format!("/uploads/66dbcd21ec5d24ed6ea225176098d52b/{name}");
    let shown = json!({
        "id": 5,
        "alt": alt,
        "url": url,
        "full_path": format!("/-/project/{}{url}", asked.repository(state).id),
        "markdown": format!("![{alt}]({url})"),
    });
    asked.repository_mut(state).uploads.push((name, content));
    Reply::json(201, &shown)
}

/// Name and content of the part that is called `file` (RFC 7578).
fn file_of(asked: &Asked<'_>) -> Option<(String, Vec<u8>)> {
    let kind = asked.call.header("content-type")?;
    let boundary = kind.strip_prefix("multipart/form-data; boundary=")?;
    let start = format!("--{boundary}\r\n").into_bytes();
    let end = format!("\r\n--{boundary}--\r\n").into_bytes();
    let part = asked.call.body.strip_prefix(start.as_slice())?.strip_suffix(end.as_slice())?;
    let at = part.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&part[..at]).ok()?;
    let said =
        head.lines().find_map(|line| line.strip_prefix("Content-Disposition: form-data; name=\"file\"; "))?;
    let name = said.strip_prefix("filename=\"")?.strip_suffix('"')?;
    Some((name.to_owned(), part[at + 4..].to_vec()))
}
