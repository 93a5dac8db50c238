//! The repository and its files.

use serde_json::json;
use slicewright::forge::local::{Local, Settings as LocalSettings};
use slicewright::forge::{ForgeError, connect};

use super::story::{BRANCH, EMAIL, Story, printed, reply, repository, settings, target};
use crate::world::forge::Reply;
use crate::world::forge::faults::Fault;
use crate::world::forge::state::{BOT, INFRA, Role, TOKEN};
use crate::world::repo::{BareRepo, MAIN};

/// A commit on `main` with an entry of another kind.
fn with_entry(git: &BareRepo, mode: &str, path: &str, content: &str) {
    git.commit_as_human("scratch", &[("scratch", content)], "Scratch");
    let blob = git.git(&["rev-parse", "scratch:scratch"]);
    git.delete_branch("scratch");
    let id = if mode == "160000" { git.head(MAIN).unwrap() } else { blob.trim().to_owned() };
    git.git(&["read-tree", MAIN]);
    git.git(&["update-index", "--add", "--cacheinfo", &format!("{mode},{id},{path}")]);
    let tree = git.git(&["write-tree"]);
    let commit = git.git(&["commit-tree", tree.trim(), "-m", "More", "-p", MAIN]);
    git.git(&["update-ref", "refs/heads/main", commit.trim()]);
}

#[test]
fn reads_what_a_git_directory_would_show() {
    let many: Vec<(String, String)> =
        (0..230).map(|n| (format!("apps/{n:03}/values.yaml"), format!("replicas: {n}\n"))).collect();
    let mut files: Vec<(&str, &str)> =
        many.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    files.push((".gitattributes", "secret.yaml export-ignore\nversion.txt export-subst\n"));
    files.push(("secret.yaml", "hidden: true\n"));
    files.push(("version.txt", "$Format:%H$\n"));
    files.push(("model.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"));
    files.push(("with space & ümlaut.yaml", "a: 1\n"));
    let git = repository(&files);
    with_entry(&git, "120000", "link.yaml", "apps/000/values.yaml");
    with_entry(&git, "100755", "run.sh", "#!/bin/sh\n");
    with_entry(&git, "160000", "module", "");
    let local = Local::open(LocalSettings::new(git.path(), git.path().join("requests"))).unwrap();
    let head = local.head().unwrap();
    let expected = local.read_tree(&head).unwrap();

    let story = Story::of(git);
    assert_eq!(story.wait(story.bot.base_branch()).unwrap(), MAIN);
    assert_eq!(story.wait(story.bot.head()).unwrap(), head);
    let tree = story.wait(story.bot.read_tree(&head)).unwrap();
    assert_eq!(tree.skipped, expected.skipped);
    assert_eq!(tree.files.keys().collect::<Vec<_>>(), expected.files.keys().collect::<Vec<_>>());
    assert_eq!(tree, expected);

    story.forge.take_log();
    assert_eq!(story.wait(story.bot.read_tree(&head)).unwrap(), expected);
    assert!(story.forge.take_log().is_empty(), "a commit never changes");
}

#[test]
fn a_later_commit_costs_what_changed() {
    let story = Story::new();
    let first = story.main();
    story.wait(story.bot.read_tree(&first)).unwrap();
    story.forge.state().infra().git.commit_as_human(MAIN, &[("apps/a.yaml", "gpu: 4\n")], "More");
    let second = story.main();
    story.forge.take_log();
    let tree = story.wait(story.bot.read_tree(&second)).unwrap();
    assert_eq!(tree.files["apps/a.yaml"], b"gpu: 4\n");
    let log = story.forge.take_log();
    assert_eq!(log.iter().filter(|line| line.path.contains("/blobs/")).count(), 1);
    assert!(!log.iter().any(|line| line.path.contains("archive")));
}

#[test]
fn a_commit_that_is_not_there_is_named() {
    let story = Story::new();
    for commit in ["main", "--help", &"0".repeat(40)] {
        let error = story.wait(story.bot.read_tree(commit)).unwrap_err();
        assert!(matches!(&error, ForgeError::NotFound { what } if what.contains(commit)), "{error}");
    }
}

#[test]
fn knows_its_commits_by_every_address_that_they_may_carry() {
    let story = Story::new();
    let identity = story.wait(story.bot.identity()).unwrap();
    let account = story.forge.state().users[&BOT].email.clone();
    let all = [&account, "former@example.com", "older@example.com", EMAIL];
    assert_eq!(identity.emails, all.map(str::to_owned).into());
    assert!(identity.forge_emails.is_empty());
    story.forge.take_log();
    story.wait(story.bot.identity()).unwrap();
    assert!(story.forge.take_log().is_empty());
}

#[test]
fn what_keeps_proposals_away_is_told_apart() {
    let why = |story: &Story| {
        let error = story.wait(story.bot.head()).unwrap_err();
        assert!(matches!(error, ForgeError::Blocked { .. } | ForgeError::NotFound { .. }), "{error:?}");
        assert!(!printed(&error).contains(TOKEN));
        error.to_string()
    };
    let story = Story::new();
    story.forge.state().infra().archived = true;
    assert!(why(&story).contains("is archived"));
    story.forge.state().infra().archived = false;
    story.forge.state().infra().requests_disabled = true;
    assert!(why(&story).contains("merge requests switched off"));
    story.forge.state().infra().requests_disabled = false;
    story.forge.state().infra().roles.insert(BOT, Role::Read);
    assert!(why(&story).contains("access level 20: make it a developer"));
    story.forge.state().infra().roles.remove(&BOT);
    assert!(why(&story).contains("no member of it"));
    story.forge.state().infra().roles.insert(BOT, Role::Write);
    let expired = json!({ "error": "invalid_token", "error_description": "Token is expired. You can either do re-authorization or token refresh." });
    story.faults(vec![("GET", "/projects/", reply(401, &expired))]);
    assert!(why(&story).contains("has expired"));
    let scope = json!({ "error": "insufficient_scope", "error_description": "The request requires higher privileges than provided by the access token.", "scope": "api" });
    story.faults(vec![("GET", "/projects/", reply(403, &scope))]);
    assert!(why(&story).contains("lacks the scope `api`"));
    story.forge.set_faults(None);
    assert_eq!(story.wait(story.bot.head()).unwrap(), story.main());

    let empty = repository(&[("a", "a")]);
    empty.delete_branch(MAIN);
    assert!(why(&Story::of(empty)).contains("push a first commit"));
}

#[test]
fn follows_a_project_that_was_renamed_but_never_to_a_stranger() {
    let story = Story::new();
    story.forge.state().infra().former_paths.push("acme/gitops".into());
    let settings = settings(&story.forge, &story.token);
    let bot = connect(&settings, target("acme/gitops")).unwrap();
    assert_eq!(story.wait(bot.head()).unwrap(), story.main());

    let elsewhere = Reply { status: 302, ..Reply::default() }.with("location", "http://127.0.0.1:9/steal");
    let bot = connect(&settings, target(INFRA)).unwrap();
    story.faults(vec![("GET", "/projects/", Fault::Refuse(elsewhere))]);
    let error = story.wait(bot.head()).unwrap_err();
    assert!(error.to_string().contains("is not followed"), "{error}");
}

#[test]
fn a_token_that_was_rotated_is_read_again() {
    let story = Story::new();
    story.wait(story.bot.head()).unwrap();
    let mut state = story.forge.state();
    state.tokens.clear();
    state.tokens.insert("the-next-token".into(), BOT);
    drop(state);
    let error = story.wait(story.bot.head()).unwrap_err();
    assert!(error.to_string().contains("does not know the access token"), "{error}");
    std::fs::write(story.token.path(), "the-next-token\n").unwrap();
    assert_eq!(story.wait(story.bot.head()).unwrap(), story.main());
}

#[test]
fn git_itself_clones_and_pushes() {
    let story = Story::new();
    let folder = tempfile::tempdir().unwrap();
    let url =
        format!("http://oauth2:{TOKEN}@{}/{INFRA}.git", story.forge.url().trim_start_matches("http://"));
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        command
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .arg("-C")
            .arg(folder.path());
        command.args(["-c", "user.name=Kim", "-c", "user.email=kim@example.com"]).args(arguments);
        assert!(command.output().unwrap().status.success(), "{arguments:?}");
    };
    git(&["clone", "--quiet", &url, "."]);
    std::fs::write(folder.path().join("apps/a.yaml"), "gpu: 3\n").unwrap();
    git(&["commit", "--quiet", "-am", "By hand"]);
    git(&["push", "--quiet", "origin", &format!("HEAD:refs/heads/{BRANCH}")]);
    let found = story.find();
    assert_eq!(found.branch_head, story.branch_head());
    assert_eq!(found.commits[0].emails, ["kim@example.com", "kim@example.com"]);
}
