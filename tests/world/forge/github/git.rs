//! Git data as GitHub's interface reads and writes it: refs, trees, blobs, commits, comparisons, archives.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::state::{Repository, State, User, time};
use super::super::{Call, Reply};
use super::schema::shaped;
use super::{not_found, refused};
use crate::world::repo::BareRepo;

fn text(repo: &BareRepo, arguments: &[&str]) -> Option<String> {
    let out = repo.bytes(arguments, &[], b"")?;
    Some(String::from_utf8_lossy(&out).trim_end_matches('\n').to_owned())
}

/// The object id of `what`, if it is there and of this type.
pub(super) fn object(repo: &BareRepo, what: &str, kind: &str) -> Option<String> {
    text(repo, &["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{what}^{{{kind}}}")])
}

pub(super) fn get_ref(repository: &Repository, name: &str) -> Reply {
    if repository.git.branches().is_empty() {
        return Reply::json(409, &json!({"message": "Git Repository is empty."}));
    }
    match name.strip_prefix("heads/").and_then(|branch| repository.git.head(branch)) {
        Some(head) => Reply::json(200, &shown_ref(name, &head)),
        None => not_found(),
    }
}

/// Every branch whose name starts so.
pub(super) fn matching_refs(repository: &Repository, start: &str) -> Reply {
    let heads = repository.git.heads();
    if heads.is_empty() {
        return Reply::json(409, &json!({"message": "Git Repository is empty."}));
    }
    let named = heads.iter().map(|(branch, head)| (format!("heads/{branch}"), head));
    let shown = named.filter(|(name, _)| name.starts_with(start)).map(|(name, head)| shown_ref(&name, head));
    Reply::json(200, &shown.collect())
}

fn shown_ref(name: &str, head: &str) -> Value {
    let object = json!({"sha": head, "type": "commit"});
    shaped("git-ref", json!({"ref": format!("refs/{name}"), "object": object}))
}

/// Moves a branch as GitHub would, or says why not. `before`: `None` asks for nothing, `Some(None)` that it is new.
pub(super) fn move_branch(
    state: &mut State,
    path: &str,
    branch: &str,
    before: Option<Option<&str>>,
    after: Option<&str>,
) -> Result<(), &'static str> {
    let repository = &state.repositories[path];
    let there = repository.git.head(branch);
    if before.is_some_and(|before| before != there.as_deref()) {
        return Err("Something went wrong while executing your query.");
    }
    if repository.protects(branch) {
        return Err("Cannot update this protected ref.");
    }
    let name = format!("refs/heads/{branch}");
    if !repository.git.bytes(&["check-ref-format", &name], &[], b"").is_some_and(|_| true) {
        return Err("Reference name is invalid.");
    }
    match after {
        Some(after) if object(&repository.git, after, "commit").as_deref() != Some(after) => {
            return Err("Object does not exist");
        }
        Some(after) => drop(repository.git.git(&["update-ref", &name, after])),
        None => repository.git.delete_branch(branch),
    }
    state.head_moved(path, branch, there, after.is_none());
    Ok(())
}

impl State {
    /// A branch that goes closes its merge requests; one that moves is seen in them.
    fn head_moved(&mut self, path: &str, branch: &str, before: Option<String>, gone: bool) {
        use super::super::state::RequestState;
        let now = self.tick();
        let repository = self.repositories.get_mut(path).expect("it was looked at");
        for request in &mut repository.requests {
            if request.source == branch && request.state == RequestState::Open {
                request.updated = now;
                if gone {
                    request.state = RequestState::Closed;
                    request.closed = Some(now);
                    request.last_head = before.clone();
                }
            }
        }
    }
}

pub(super) fn create_ref(state: &mut State, path: &str, call: &Call) -> Reply {
    let body = call.json();
    let (name, sha) = (body["ref"].as_str().unwrap_or_default(), body["sha"].as_str().unwrap_or_default());
    let Some(branch) = name.strip_prefix("refs/heads/") else { return refused("Reference name is invalid.") };
    if state.repositories[path].git.head(branch).is_some() {
        return refused("Reference already exists");
    }
    match move_branch(state, path, branch, None, Some(sha)) {
        Ok(()) => Reply::json(201, &shown_ref(&format!("heads/{branch}"), sha)),
        Err(why) => refused(why),
    }
}

pub(super) fn update_ref(state: &mut State, path: &str, name: &str, call: &Call) -> Reply {
    let body = call.json();
    let sha = body["sha"].as_str().unwrap_or_default();
    let branch = name.strip_prefix("heads/").unwrap_or_default();
    let Some(head) = state.repositories[path].git.head(branch) else {
        return refused("Reference does not exist");
    };
    let ahead = state.repositories[path].git.try_git(&["merge-base", "--is-ancestor", &head, sha]).is_some();
    if body["force"] != json!(true) && !ahead {
        return refused("Update is not a fast forward");
    }
    match move_branch(state, path, branch, None, Some(sha)) {
        Ok(()) => Reply::json(200, &shown_ref(name, sha)),
        Err(why) => refused(why),
    }
}

pub(super) fn delete_ref(state: &mut State, path: &str, name: &str) -> Reply {
    let branch = name.strip_prefix("heads/").unwrap_or_default().to_owned();
    if state.repositories[path].git.head(&branch).is_none() {
        return refused("Reference does not exist");
    }
    match move_branch(state, path, &branch, None, None) {
        Ok(()) => Reply { status: 204, ..Reply::default() },
        Err(why) => refused(why),
    }
}

pub(super) fn get_tree(state: &State, path: &str, what: &str, call: &Call) -> Reply {
    let repo = &state.repositories[path].git;
    let Some(tree) = object(repo, what, "tree") else { return not_found() };
    let recursive = call.asked("recursive").is_some();
    let most = state.github.most_tree_entries.filter(|_| recursive).unwrap_or(usize::MAX);
    let mut entries = listed(repo, &tree, recursive);
    let truncated = entries.len() > most;
    entries.truncate(most);
    Reply::json(200, &shaped("git-tree", json!({"sha": tree, "tree": entries, "truncated": truncated})))
}

fn listed(repo: &BareRepo, tree: &str, recursive: bool) -> Vec<Value> {
    let flags: &[&str] = if recursive { &["-r", "-t"] } else { &[] };
    let arguments = [&["ls-tree", "-l", "-z"], flags, &[tree]].concat();
    let out = repo.bytes(&arguments, &[], b"").unwrap();
    let out = String::from_utf8_lossy(&out).into_owned();
    let entry = |line: &str| {
        let (facts, path) = line.split_once('\t').unwrap();
        let mut facts = facts.split_whitespace();
        let mut next = || facts.next().unwrap().to_owned();
        let (mode, kind, sha, size) = (next(), next(), next(), next());
        let mut entry = json!({"path": path, "mode": mode, "type": kind, "sha": sha});
        if let Ok(size) = size.parse::<u64>() {
            entry["size"] = json!(size);
        }
        entry
    };
    out.split_terminator('\0').map(entry).collect()
}

pub(super) fn create_tree(state: &State, path: &str, call: &Call) -> Reply {
    let repo = &state.repositories[path].git;
    let body = call.json();
    let index = tempfile::tempdir().unwrap();
    let index = index.path().join("index");
    let environment = [("GIT_INDEX_FILE", index.to_str().unwrap())];
    if let Some(base) = body["base_tree"].as_str() {
        // As the real one, a commit's tree is taken as well.
        if repo.bytes(&["read-tree", base], &environment, b"").is_none() {
            return refused("base_tree is not a valid tree oid");
        }
    }
    let entries = body["tree"].as_array().cloned().unwrap_or_default();
    if entries.len() > 100 {
        return refused("the stand-in takes 100 entries at once");
    }
    let mut lines = String::new();
    for entry in &entries {
        let (file, mode) = (entry["path"].as_str().unwrap(), entry["mode"].as_str().unwrap_or_default());
        let line = match (entry["content"].as_str(), &entry["sha"]) {
            (Some(content), Value::Null) if entry.get("sha").is_none() => {
                let out =
                    repo.bytes(&["hash-object", "-w", "--no-filters", "--stdin"], &[], content.as_bytes());
                format!("{mode} {}\t{file}", String::from_utf8(out.unwrap()).unwrap().trim())
            }
            (None, Value::String(sha)) if object(repo, sha, "blob").is_some() => {
                format!("{mode} {sha}\t{file}")
            }
            (None, Value::Null) if entry.get("sha").is_some() => {
                let there = repo.bytes(&["ls-files", "--error-unmatch", "--", file], &environment, b"");
                if there.is_none() {
                    return refused("GitRPC::BadObjectState");
                }
                format!("0 {}\t{file}", "0".repeat(40))
            }
            _ => return refused("Must supply either tree.sha or tree.content"),
        };
        lines.push_str(&line);
        lines.push('\n');
    }
    repo.bytes(&["update-index", "--add", "--replace", "--index-info"], &environment, lines.as_bytes())
        .expect("entries of a tree");
    let tree = repo.bytes(&["write-tree"], &environment, b"").unwrap();
    let tree = String::from_utf8(tree).unwrap().trim().to_owned();
    let entries = listed(repo, &tree, false);
    Reply::json(201, &shaped("git-tree", json!({"sha": tree, "tree": entries, "truncated": false})))
}

pub(super) fn get_blob(state: &State, path: &str, sha: &str) -> Reply {
    let repo = &state.repositories[path].git;
    let Some(content) = repo.bytes(&["cat-file", "blob", sha], &[], b"") else { return not_found() };
    // On lines, as Git and mail have it.
    let digits = STANDARD.encode(&content);
    let lines: Vec<&str> =
        digits.as_bytes().chunks(60).map(|line| std::str::from_utf8(line).unwrap()).collect();
    let shown = json!({"sha": sha, "size": content.len(), "encoding": "base64", "content": lines.join("\n")});
    Reply::json(200, &shaped("blob", shown))
}

pub(super) fn create_blob(state: &State, path: &str, call: &Call) -> Reply {
    let body = call.json();
    let content = body["content"].as_str().unwrap_or_default();
    let content = match body["encoding"].as_str() {
        Some("base64") => match STANDARD.decode(content) {
            Ok(content) => content,
            Err(_) => return refused("content is not valid Base64"),
        },
        _ => content.as_bytes().to_vec(),
    };
    let repo = &state.repositories[path].git;
    let out = repo.bytes(&["hash-object", "-w", "--no-filters", "--stdin"], &[], &content).unwrap();
    let sha = String::from_utf8(out).unwrap().trim().to_owned();
    Reply::json(201, &shaped("short-blob", json!({"sha": sha})))
}

/// A commit's facts.
struct Facts {
    sha: String,
    tree: String,
    parents: Vec<String>,
    author: [String; 3],
    committer: [String; 3],
    message: String,
}

fn facts(repo: &BareRepo, commit: &str) -> Option<Facts> {
    let sha = object(repo, commit, "commit")?;
    let format = "--format=%H%x00%T%x00%P%x00%an%x00%ae%x00%at%x00%cn%x00%ce%x00%ct%x00%B";
    let out = text(repo, &["log", "-1", format, &sha])?;
    let parts: Vec<&str> = out.splitn(10, '\0').collect();
    let person =
        |at: usize| [parts[at].to_owned(), parts[at + 1].to_owned(), time(parts[at + 2].parse().unwrap())];
    Some(Facts {
        sha,
        tree: parts[1].to_owned(),
        parents: parts[2].split_whitespace().map(str::to_owned).collect(),
        author: person(3),
        committer: person(6),
        message: parts[9].trim_end().to_owned(),
    })
}

fn person([name, email, date]: &[String; 3]) -> Value {
    json!({"name": name, "email": email, "date": date})
}

fn parents(facts: &Facts) -> Vec<Value> {
    let url = "https://example.com/";
    facts.parents.iter().map(|sha| json!({"sha": sha, "url": url, "html_url": url})).collect()
}

pub(super) fn get_commit(state: &State, path: &str, sha: &str) -> Reply {
    match facts(&state.repositories[path].git, sha) {
        Some(facts) if facts.sha == sha => Reply::json(200, &shown_commit(&facts)),
        _ => not_found(),
    }
}

fn shown_commit(facts: &Facts) -> Value {
    let given = json!({
        "sha": facts.sha,
        "author": person(&facts.author),
        "committer": person(&facts.committer),
        "tree": {"sha": facts.tree},
        "message": facts.message,
        "parents": parents(facts),
    });
    shaped("git-commit", given)
}

pub(super) fn create_commit(state: &mut State, path: &str, user: &User, call: &Call) -> Reply {
    let body = call.json();
    let now = state.tick();
    let own = |name: &str, email: &str| json!({"name": name, "email": email, "date": time(now)});
    // Who has nothing to say about it is put down themselves; for a bot GitHub is the committer, and signs.
    let author = match &body["author"] {
        Value::Null => own(&user.login, &format!("{}+{}@users.noreply.127.0.0.1", user.id, user.login)),
        given => given.clone(),
    };
    let committer = match (&body["committer"], &body["author"]) {
        (Value::Null, Value::Null) if user.is_bot => own("GitHub", &state.forge_email()),
        (Value::Null, _) => author.clone(),
        (given, _) => given.clone(),
    };
    let field = |who: &Value, name: &str| match who[name].as_str() {
        Some(value) => value.to_owned(),
        None => time(now),
    };
    let environment: Vec<(&str, String)> = vec![
        ("GIT_AUTHOR_NAME", field(&author, "name")),
        ("GIT_AUTHOR_EMAIL", field(&author, "email")),
        ("GIT_AUTHOR_DATE", field(&author, "date")),
        ("GIT_COMMITTER_NAME", field(&committer, "name")),
        ("GIT_COMMITTER_EMAIL", field(&committer, "email")),
        ("GIT_COMMITTER_DATE", field(&committer, "date")),
    ];
    let environment: Vec<(&str, &str)> =
        environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let repo = &state.repositories[path].git;
    let tree = body["tree"].as_str().unwrap_or_default();
    if object(repo, tree, "tree").as_deref() != Some(tree) {
        return refused("Tree SHA does not exist");
    }
    let mut arguments = vec!["commit-tree".to_owned(), tree.to_owned()];
    for parent in body["parents"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if object(repo, parent, "commit").is_none() {
            return refused("Parent SHA does not exist or is not a commit object");
        }
        arguments.extend(["-p".to_owned(), parent.to_owned()]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let message = body["message"].as_str().unwrap_or_default();
    let out = repo.bytes(&arguments, &environment, message.as_bytes()).expect("a commit");
    let sha = String::from_utf8(out).unwrap().trim().to_owned();
    Reply::json(201, &shown_commit(&facts(repo, &sha).expect("just written")))
}

pub(super) fn compare(state: &State, path: &str, range: &str, call: &Call) -> Reply {
    let repo = &state.repositories[path].git;
    let Some((base, head)) = range.split_once("...") else { return not_found() };
    let (Some(base), Some(head)) = (facts(repo, base), facts(repo, head)) else { return not_found() };
    let Some(merge_base) = text(repo, &["merge-base", &base.sha, &head.sha]) else {
        let message = format!("No common ancestor between {} and {}.", base.sha, head.sha);
        return Reply::json(404, &json!({"message": message}));
    };
    let log = |range: String| -> Vec<String> {
        let out = text(repo, &["log", "--reverse", "--topo-order", "--format=%H", &range]).unwrap();
        out.lines().map(str::to_owned).collect()
    };
    let ahead = log(format!("{}..{}", base.sha, head.sha));
    let behind = log(format!("{}..{}", head.sha, base.sha)).len();
    let number =
        |name: &str, otherwise: usize| call.asked(name).map_or(otherwise, |value| value.parse().unwrap());
    let (page, size) = (number("page", 1), number("per_page", 250).min(250));
    let commits: Vec<Value> = (ahead.iter().skip((page - 1) * size).take(size))
        .map(|sha| compared(&facts(repo, sha).unwrap()))
        .collect();
    let status = match (ahead.is_empty(), behind == 0) {
        (true, true) => "identical",
        (true, false) => "behind",
        (false, true) => "ahead",
        (false, false) => "diverged",
    };
    let given = json!({
        "status": status,
        "ahead_by": ahead.len(),
        "behind_by": behind,
        "total_commits": ahead.len(),
        "base_commit": compared(&base),
        "merge_base_commit": compared(&facts(repo, &merge_base).unwrap()),
        "commits": commits,
    });
    Reply::json(200, &shaped("commit-comparison", given))
}

fn compared(facts: &Facts) -> Value {
    let commit = json!({
        "author": person(&facts.author),
        "committer": person(&facts.committer),
        "message": facts.message,
        "tree": {"sha": facts.tree},
    });
    let given = json!({"sha": facts.sha, "commit": commit, "parents": parents(facts)});
    shaped("commit", given)
}

/// Where an archive is: at another address, which needs no signing in.
pub(super) fn archive(state: &State, path: &str, sha: &str) -> Reply {
    let to = format!("{}/_codeload/{path}/legacy.tar.gz/{sha}?token={ARCHIVE_TOKEN}", state.url);
    Reply { status: 302, ..Reply::default() }.with("location", &to)
}

const ARCHIVE_TOKEN: &str = "once-only";

/// The archive itself.
pub(super) fn download(state: &State, call: &Call, broken: &mut Vec<String>) -> Reply {
    let parts = call.parts();
    let [_, owner, name, _, sha] = &parts[..] else { return not_found() };
    if call.header("authorization").is_some() {
        broken.push(format!("{}: the token went to another service", call.path));
    }
    if call.asked("token") != Some(ARCHIVE_TOKEN) {
        return not_found();
    }
    let Some(repository) = state.repositories.get(&format!("{owner}/{name}")) else { return not_found() };
    let prefix = format!("--prefix={owner}-{name}-{}/", &sha[..7]);
    match repository.git.bytes(&["archive", "--format=tar.gz", &prefix, sha], &[], b"") {
        Some(body) => Reply { status: 200, headers: Vec::new(), body },
        None => not_found(),
    }
}
