//! Branches, files and commits.

use serde_json::{Value, json};

use super::super::git_http::from_base64;
use super::super::state::{Push, Role, State, time};
use super::{Asked, Reply, by_keyset, paged, refused, shown};

pub(super) fn protected(state: &State, asked: &Asked<'_>) -> Reply {
    if asked.role < Role::Maintain {
        return refused(403, "403 Forbidden");
    }
    let pattern = |(at, name): (usize, &String)| {
        json!({
            "id": at + 1,
            "name": name,
            "push_access_levels": [{ "access_level": 40, "access_level_description": "Maintainers" }],
            "merge_access_levels": [{ "access_level": 40, "access_level_description": "Maintainers" }],
            "allow_force_push": false,
        })
    };
    let all = asked.repository(state).protected.iter().enumerate().map(pattern).collect();
    paged(state, asked, all)
}

pub(super) fn branches(state: &State, asked: &Asked<'_>) -> Reply {
    let regex = asked.call.asked("regex").map(|regex| regex_lite::Regex::new(regex).unwrap());
    let mut names = asked.repository(state).git.branches();
    names.retain(|name| regex.as_ref().is_none_or(|regex| regex.is_match(name)));
    names.retain(|name| match asked.call.asked("search").map(|part| (part, part.strip_prefix('^'))) {
        None => true,
        Some((_, Some(start))) => name.starts_with(start),
        Some((part, None)) => name.contains(part),
    });
    let all = names.iter().filter_map(|name| shown::branch(state, asked, name)).collect();
    paged(state, asked, all)
}

pub(super) fn branch(state: &State, asked: &Asked<'_>) -> Reply {
    match shown::branch(state, asked, asked.part(2)) {
        Some(branch) => Reply::json(200, &branch),
        None => refused(404, "404 Branch Not Found"),
    }
}

pub(super) fn create_branch(state: &mut State, asked: &Asked<'_>) -> Reply {
    let body = asked.call.json();
    let (name, from) = (text(&body, "branch"), text(&body, "ref"));
    if !asked.may_write(state) || asked.repository(state).protects(name) {
        return refused(403, "403 Forbidden");
    }
    let repository = asked.repository(state);
    if repository.git.head(name).is_some() {
        return refused(400, "Branch already exists");
    }
    let commit = repository.git.try_git(&["rev-parse", "--verify", "--end-of-options", from]);
    let Some(commit) = commit else { return refused(400, format!("Invalid reference name: {from}")) };
    repository.git.git(&["update-ref", &format!("refs/heads/{name}"), commit.trim()]);
    Reply::json(201, &shown::branch(state, asked, name).expect("just made"))
}

pub(super) fn delete_branch(state: &mut State, asked: &Asked<'_>) -> Reply {
    let name = asked.part(2);
    let repository = asked.repository(state);
    if !asked.may_write(state) || repository.protects(name) {
        return refused(403, "403 Forbidden");
    }
    if repository.git.head(name).is_none() {
        return refused(404, "404 Branch Not Found");
    }
    repository.git.delete_branch(name);
    Reply { status: 204, ..Reply::default() }
}

pub(super) fn tree(state: &State, asked: &Asked<'_>) -> Reply {
    let repository = asked.repository(state);
    let name = asked.call.asked("ref").unwrap_or(&repository.default_branch).to_owned();
    let mut arguments = vec!["ls-tree", "-z", "--full-tree"];
    if asked.call.asked("recursive").is_some_and(|word| word.eq_ignore_ascii_case("true")) {
        arguments.extend(["-r", "-t"]);
    }
    arguments.push(&name);
    let Some(listing) = repository.git.try_git(&arguments) else { return refused(404, "404 Tree Not Found") };
    let item = |line: &str| {
        let (facts, path) = line.split_once('\t').unwrap();
        let facts: Vec<&str> = facts.split(' ').collect();
        let name = path.rsplit('/').next();
        json!({ "id": facts[2], "name": name, "type": facts[1], "path": path, "mode": facts[0] })
    };
    let all: Vec<Value> = listing.split_terminator('\0').map(item).collect();
    match asked.call.asked("pagination") {
        Some("keyset") => by_keyset(state, asked, &all, "path"),
        _ => paged(state, asked, all),
    }
}

pub(super) fn archive(state: &State, asked: &Asked<'_>) -> Reply {
    let repository = asked.repository(state);
    let commit = asked.call.asked("sha").unwrap_or(&repository.default_branch);
    let prefix = format!("--prefix=infra-{commit}/");
    match repository.git.bytes(&["archive", "--format=tar.gz", &prefix, commit], &[], b"") {
        Some(packed) => Reply { status: 200, headers: Vec::new(), body: packed }
            .with("content-type", "application/octet-stream"),
        None => refused(404, "404 File Not Found"),
    }
}

pub(super) fn blob(state: &State, asked: &Asked<'_>) -> Reply {
    match asked.repository(state).git.bytes(&["cat-file", "blob", asked.part(2)], &[], b"") {
        Some(content) => {
            Reply { status: 200, headers: Vec::new(), body: content }.with("content-type", "text/plain")
        }
        None => refused(404, "404 Blob Not Found"),
    }
}

pub(super) fn merge_base(state: &State, asked: &Asked<'_>) -> Reply {
    let names = asked.call.query.iter().filter(|(name, _)| name == "refs[]").map(|(_, value)| value.as_str());
    let names: Vec<&str> = names.collect();
    if names.len() < 2 {
        return refused(400, "Provide at least 2 refs");
    }
    let repository = asked.repository(state);
    let mut arguments = vec!["merge-base"];
    arguments.extend(&names);
    let base = repository.git.try_git(&arguments);
    match base.and_then(|base| shown::commit(state, repository, base.trim())) {
        Some(commit) => Reply::json(200, &commit),
        None => refused(404, "404 Not Found"),
    }
}

pub(super) fn commits(state: &State, asked: &Asked<'_>) -> Reply {
    let repository = asked.repository(state);
    let range = asked.call.asked("ref_name").unwrap_or(&repository.default_branch).to_owned();
    let order = if asked.call.asked("order") == Some("topo") { "--topo-order" } else { "--date-order" };
    match shown::commits(state, repository, &[order, &range, "--"]) {
        Some(all) => paged(state, asked, all),
        None => refused(404, "404 Commit Not Found"),
    }
}

pub(super) fn commit(state: &State, asked: &Asked<'_>) -> Reply {
    match shown::commit(state, asked.repository(state), asked.part(2)) {
        Some(commit) => Reply::json(200, &commit),
        None => refused(404, "404 Commit Not Found"),
    }
}

pub(super) fn create_commit(state: &mut State, asked: &Asked<'_>, broken: &mut Vec<String>) -> Reply {
    let body = asked.call.json();
    let branch = text(&body, "branch");
    let now = state.tick();
    let user = state.users[&asked.user].clone();
    let repository = asked.repository(state);
    if !asked.may_write(state) || repository.protects(branch) {
        return refused(403, "403 Forbidden - You are not allowed to push into this branch");
    }
    let start = body["start_sha"].as_str().or_else(|| body["start_branch"].as_str());
    let head = repository.git.head(branch);
    if start.is_some() && head.is_some() && body["force"] != true {
        let message = format!(
            "A branch called '{branch}' already exists. Switch to that branch in order to make changes"
        );
        return refused(400, message);
    }
    let parent = start.map(str::to_owned).or_else(|| head.clone());
    let Some(parent) = parent else {
        return refused(400, "You can only create or edit files when you are on a branch");
    };
    let Some(parent) =
        repository.git.try_git(&["rev-parse", "--verify", "--quiet", &format!("{parent}^{{commit}}")])
    else {
        return refused(400, format!("Cannot find start_sha '{parent}'"));
    };
    let parent = parent.trim();
    let index = repository.git.path().join("api.index");
    drop(std::fs::remove_file(&index));
    let index = index.to_string_lossy().into_owned();
    let index = [("GIT_INDEX_FILE", index.as_str())];
    let run = |arguments: &[&str], input: &[u8]| {
        repository.git.bytes(arguments, &index, input).expect("git does it")
    };
    run(&["read-tree", parent], b"");
    for action in body["actions"].as_array().unwrap_or(&Vec::new()) {
        let path = text(action, "file_path");
        let entry = run(&["ls-files", "--stage", "--", path], b"");
        let entry = String::from_utf8_lossy(&entry)
            .split(' ')
            .next()
            .map(str::to_owned)
            .filter(|mode| !mode.is_empty());
        let content = match (action["encoding"].as_str(), action["content"].as_str()) {
            (Some("base64"), Some(content)) => from_base64(content).unwrap_or_default(),
            (_, content) => content.unwrap_or_default().as_bytes().to_vec(),
        };
        match (text(action, "action"), &entry) {
            ("create", Some(_)) => return refused(400, "A file with this name already exists"),
            ("update" | "delete", None) => return refused(400, "A file with this name doesn't exist"),
            ("create" | "update", _) => {
                let blob = run(&["hash-object", "-w", "--no-filters", "--stdin"], &content);
                let blob = String::from_utf8_lossy(&blob).trim().to_owned();
                let mode = entry.as_deref().unwrap_or("100644");
                run(&["update-index", "--add", "--cacheinfo", &format!("{mode},{blob},{path}")], b"");
            }
            ("delete", Some(_)) => {
                let line = format!("0 {}\t{path}\n", "0".repeat(40));
                run(&["update-index", "--index-info"], line.as_bytes());
            }
            (other, _) => broken.push(format!("POST commits: the action `{other}` is not known here")),
        }
    }
    let tree = String::from_utf8_lossy(&run(&["write-tree"], b"")).trim().to_owned();
    let date = format!("{now} +0000");
    let (author, email) = (body["author_name"].as_str(), body["author_email"].as_str());
    let who = [
        ("GIT_AUTHOR_NAME", author.unwrap_or(&user.name)),
        ("GIT_AUTHOR_EMAIL", email.unwrap_or(&user.email)),
        ("GIT_AUTHOR_DATE", &date),
        ("GIT_COMMITTER_NAME", &user.name),
        ("GIT_COMMITTER_EMAIL", &user.email),
        ("GIT_COMMITTER_DATE", &date),
    ];
    let arguments = ["commit-tree", &tree, "-p", parent, "-F", "-"];
    let made = repository
        .git
        .bytes(&arguments, &who, text(&body, "commit_message").as_bytes())
        .expect("git does it");
    let made = String::from_utf8_lossy(&made).trim().to_owned();
    repository.git.git(&["update-ref", &format!("refs/heads/{branch}"), &made]);
    Reply::json(201, &shown::commit(state, repository, &made).expect("just made"))
}

/// What was pushed, the latest first.
pub(super) fn pushes(state: &State, asked: &Asked<'_>) -> Reply {
    let repository = asked.repository(state);
    let push = |(at, push): (usize, &Push)| {
        let (action, name) = match (&push.from, &push.to) {
            (None, _) => ("created", "pushed new"),
            (_, None) => ("removed", "deleted"),
            _ => ("pushed", "pushed to"),
        };
        json!({
            "id": at + 1,
            "project_id": repository.id,
            "action_name": name,
            "target_id": null,
            "target_type": null,
            "author_id": push.user,
            "author_username": state.users[&push.user].login,
            "author": shown::account(state, push.user, false),
            "created_at": time(push.at),
            "push_data": {
                "commit_count": 1,
                "action": action,
                "ref_type": "branch",
                "commit_from": push.from,
                "commit_to": push.to,
                "ref": push.branch,
                "commit_title": null,
            },
        })
    };
    let mut all: Vec<Value> = repository.pushes.iter().enumerate().map(push).collect();
    all.reverse();
    paged(state, asked, all)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}
