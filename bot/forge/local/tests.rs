//! Against the real `git` program, in folders of their own.

use std::path::Path;
use std::process::Command;

use slicewright_core::review::lifecycle::{self, Action, Own, Wanted};
use slicewright_core::review::metadata::{Metadata, State};

use super::*;

const BRANCH: &str = "slicewright/dc1/a100-40gb";

struct World {
    _folder: tempfile::TempDir,
    work: PathBuf,
    local: Local,
}

impl World {
    /// A repository with a work tree and one commit that holds `a.yaml` and `run.sh`.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().join("infra");
        std::fs::create_dir(&work).unwrap();
        let settings = Settings::new(&work, folder.path().join("requests"));
        std::fs::create_dir_all(work.join("apps")).unwrap();
        git(&work, &["init", "-q", "-b", "main"]);
        std::fs::write(work.join("apps/a.yaml"), "gpu: 1\n").unwrap();
        std::fs::write(work.join("run.sh"), "#!/bin/sh\n").unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(work.join("run.sh"), executable).unwrap();
        git(&work, &["add", "."]);
        git(&work, &["commit", "-q", "-m", "first"]);
        let local = Local::open(settings).unwrap();
        Self { _folder: folder, work, local }
    }

    fn look(&self) -> Result<Found, ForgeError> {
        self.local.find(BRANCH, &self.local.head().unwrap())
    }

    fn find(&self) -> Found {
        self.look().unwrap()
    }

    /// Where the state of the branch's merge request is.
    fn state_file(&self) -> PathBuf {
        self.local.settings.requests.join(BRANCH.replace('/', "__")).join("state.json")
    }

    fn commit(&self, content: &str) -> Commit {
        Commit {
            base: self.local.head().unwrap(),
            message: "Share GPUs".into(),
            files: BTreeMap::from([("apps/a.yaml".into(), Some(content.as_bytes().to_vec()))]),
        }
    }

    fn publish(&self, content: &str) -> String {
        let head = self.find().branch_head;
        self.local.publish(BRANCH, head.as_deref(), &self.commit(content)).unwrap()
    }

    /// A commit on `branch` as a person makes it.
    fn person_commits(&self, branch: &str, path: &str, content: &str) {
        git(&self.work, &["checkout", "-q", branch]);
        std::fs::write(self.work.join(path), content).unwrap();
        git(&self.work, &["add", "."]);
        git(&self.work, &["commit", "-q", "-m", "by hand"]);
        git(&self.work, &["checkout", "-q", "main"]);
    }

    fn body(&self, head: &str, state: State) -> String {
        Metadata {
            cluster: "dc1".into(),
            pool: "a100-40gb".into(),
            created_in: "0.1.0".into(),
            updated_in: "0.1.0".into(),
            base_branch: "main".into(),
            base_commit: self.local.head().unwrap(),
            head: head.into(),
            fingerprint: "f1".into(),
            title: "Share GPUs".into(),
            state,
            method: "MIG".into(),
            cards_freed: 2,
            ..Metadata::default()
        }
        .attach("the text", None)
    }
}

fn git(folder: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .args(["-c", "user.name=Ann", "-c", "user.email=ann@example.invalid"])
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn publishes_one_commit_and_the_work_tree_is_left_alone() {
    let world = World::new();
    let id = world.publish("gpu: slice\n");
    let found = world.find();
    assert_eq!(found.branch_head.as_deref(), Some(id.as_str()));
    assert_eq!(found.commits.len(), 1);
    assert_eq!(found.commits[0].emails, ["slicewright@localhost.invalid"; 2].map(str::to_owned));
    assert_eq!(found.changed, world.commit("gpu: slice\n").files);
    assert!(found.stale.is_empty() && !found.merged);
    assert_eq!(std::fs::read_to_string(world.work.join("apps/a.yaml")).unwrap(), "gpu: 1\n");
    assert_eq!(git(&world.work, &["status", "--porcelain"]), "");
    assert!(git(&world.work, &["show", &format!("{id}:run.sh")]).starts_with("#!"));
    let left: Vec<_> = std::fs::read_dir(world.work.join(".git")).unwrap().flatten().collect();
    assert!(!left.iter().any(|entry| entry.file_name().to_string_lossy().contains("slicewright")));
}

#[test]
fn equal_input_gives_an_equal_commit() {
    let world = World::new();
    let id = world.publish("gpu: slice\n");
    assert_eq!(world.publish("gpu: slice\n"), id);
    git(&world.work, &["update-ref", "-d", &format!("refs/heads/{BRANCH}")]);
    assert_eq!(world.publish("gpu: slice\n"), id);
}

#[test]
fn an_update_replaces_the_commit() {
    let world = World::new();
    let first = world.publish("gpu: slice\n");
    let second = world.publish("gpu: other\n");
    assert_ne!(first, second);
    let found = world.find();
    assert_eq!(found.commits.iter().map(|commit| commit.id.as_str()).collect::<Vec<_>>(), [second.as_str()]);
}

#[test]
fn files_are_added_and_removed_and_keep_their_mode() {
    let world = World::new();
    let mut commit = world.commit("x\n");
    commit.files = BTreeMap::from([
        ("apps/a.yaml".into(), None),
        ("new/deep/b.yaml".into(), Some(b"b".to_vec())),
        ("run.sh".into(), Some(b"#!/bin/bash\n".to_vec())),
    ]);
    let id = world.local.publish(BRANCH, None, &commit).unwrap();
    assert_eq!(world.find().changed, commit.files);
    let listing = git(&world.work, &["ls-tree", "-r", &id]);
    assert!(listing.contains("100755 blob") && !listing.contains("a.yaml"), "{listing}");
}

#[test]
fn a_persons_commit_is_seen_and_never_overwritten() {
    let world = World::new();
    let id = world.publish("gpu: slice\n");
    world.person_commits(BRANCH, "apps/a.yaml", "gpu: mine\n");
    let found = world.find();
    assert_eq!(found.commits.len(), 2);
    assert_eq!(found.commits[1].emails, ["ann@example.invalid"; 2].map(str::to_owned));
    let error = world.local.publish(BRANCH, Some(&id), &world.commit("gpu: again\n")).unwrap_err();
    assert!(matches!(error, ForgeError::Conflict { .. }), "{error}");
    let error = world.local.close(BRANCH, Some(&id), "t", &world.body(&id, State::Withdrawn)).unwrap_err();
    assert!(matches!(error, ForgeError::Conflict { .. }), "{error}");
    assert_eq!(world.find(), found);
}

#[test]
fn a_branch_that_moves_between_check_and_write_is_a_conflict() {
    let world = World::new();
    let first = world.publish("gpu: slice\n");
    let second = world.publish("gpu: other\n");
    let name = format!("refs/heads/{BRANCH}");
    let error = world.local.git.move_ref(&name, Some(&first), None).unwrap_err();
    assert!(matches!(error, ForgeError::Conflict { .. }), "{error}");
    let error = world.local.git.move_ref(&name, None, Some(&first)).unwrap_err();
    assert!(matches!(error, ForgeError::Conflict { .. }), "{error}");
    assert_eq!(world.find().branch_head, Some(second));
}

#[test]
fn merged_is_seen_after_a_merge_a_squash_and_with_the_branch_gone() {
    for (merge, delete) in [(true, false), (true, true), (false, false), (false, true)] {
        let world = World::new();
        let id = world.publish("gpu: slice\n");
        world.local.write_request(BRANCH, false, &texts("Title", &world.body(&id, State::Open))).unwrap();
        assert!(!world.find().merged);
        let how = if merge { "--no-ff" } else { "--squash" };
        git(&world.work, &["merge", "-q", how, BRANCH]);
        if !merge {
            git(&world.work, &["commit", "-q", "-m", "squashed"]);
        }
        if delete {
            git(&world.work, &["branch", "-q", "-D", BRANCH]);
        }
        world.person_commits("main", "other.yaml", "x\n");
        assert!(world.find().merged, "merge {merge}, delete {delete}");
    }
}

#[test]
fn a_branch_deleted_or_put_back_by_a_person_is_not_merged() {
    let world = World::new();
    let id = world.publish("gpu: slice\n");
    world.local.write_request(BRANCH, false, &texts("Title", &world.body(&id, State::Open))).unwrap();
    git(&world.work, &["branch", "-q", "-f", BRANCH, "main"]);
    assert!(!world.find().merged);
    git(&world.work, &["branch", "-q", "-D", BRANCH]);
    let found = world.find();
    assert!(!found.merged && found.branch_head.is_none() && found.request.is_some());
}

#[test]
fn a_base_that_moved_in_the_same_file_is_named() {
    let world = World::new();
    world.publish("gpu: slice\n");
    world.person_commits("main", "other.yaml", "x\n");
    assert!(world.find().stale.is_empty());
    world.person_commits("main", "apps/a.yaml", "# note\ngpu: 1\n");
    let found = world.find();
    assert_eq!(found.stale.into_iter().collect::<Vec<_>>(), ["apps/a.yaml"]);
}

#[test]
fn the_merge_request_is_a_folder_that_people_answer_in() {
    let world = World::new();
    let id = world.publish("gpu: slice\n");
    let body = world.body(&id, State::Open);
    let text = RequestText {
        base_branch: "main".into(),
        labels: vec!["gpu".into()],
        reviewers: vec!["@ml".into()],
        ..texts("Share\nGPUs", &body)
    };
    let path = PathBuf::from(world.local.write_request(BRANCH, false, &text).unwrap());
    let folder = path.parent().unwrap();
    assert!(folder.ends_with("slicewright__dc1__a100-40gb") && path.ends_with("body.md"));
    let shown = std::fs::read_to_string(&path).unwrap();
    assert!(shown.starts_with("# Share GPUs\n\nthe text\n"), "{shown}");
    let state = folder.join("state.json");
    let json = std::fs::read_to_string(&state).unwrap();
    let read: serde_json::Value = serde_json::from_str(&json).unwrap();
    let expected = serde_json::json!({
        "state": "open", "branch": BRANCH, "base_branch": "main", "draft": false, "labels": ["gpu"], "reviewers": ["@ml"],
    });
    assert_eq!(read, expected);
    let request = world.find().request.unwrap();
    assert_eq!((request.open, request.by_bot, request.title.as_str()), (true, true, "Share GPUs"));
    assert_eq!(request.body, body.trim_end());

    let before = [&path, &state].map(|path| std::fs::metadata(path).unwrap().modified().unwrap());
    world.local.write_request(BRANCH, false, &RequestText { labels: Vec::new(), ..text }).unwrap();
    assert_eq!(before, [&path, &state].map(|path| std::fs::metadata(path).unwrap().modified().unwrap()));

    // What people do: line ends of another system, a label of their own, their answer.
    std::fs::write(&path, shown.replace('\n', "\r\n")).unwrap();
    std::fs::write(&state, json.replace("[\n    \"gpu\"", "[\n    \"slicewright/hold\"")).unwrap();
    let request = world.find().request.unwrap();
    assert_eq!(request.held.as_deref(), Some("it has the label `slicewright/hold`"));
    std::fs::write(&state, json.replace("\"open\"", "\"Declined\"")).unwrap();
    let request = world.find().request.unwrap();
    assert_eq!((request.open, request.title.as_str()), (false, "Share GPUs"));
    assert!(Metadata::parse(&request.body).is_some());
    std::fs::write(&state, "{").unwrap();
    let error = world.look().unwrap_err().to_string();
    assert!(error.contains("state.json` cannot be understood; put it right, or remove it"), "{error}");
    std::fs::remove_file(&state).unwrap();
    assert!(world.find().request.unwrap().open, "what the bot wrote last holds");

    world.local.close(BRANCH, Some(&id), "Share GPUs", &world.body(&id, State::Withdrawn)).unwrap();
    assert!(std::fs::read_to_string(&state).unwrap().contains("\"state\": \"withdrawn\""));
    let found = world.find();
    assert!(found.branch_head.is_none() && !found.request.unwrap().open);
}

#[test]
fn the_bot_has_one_comment_a_topic() {
    let world = World::new();
    let id = world.publish("gpu: slice\n");
    let path =
        world.local.write_request(BRANCH, false, &texts("Title", &world.body(&id, State::Open))).unwrap();
    let comment = Path::new(&path).with_file_name("comments").join("status.md");
    let say = |text| world.local.say(BRANCH, Topic::Status, text).unwrap();
    say(Some("one"));
    say(Some("two"));
    assert_eq!(std::fs::read_to_string(&comment).unwrap(), "two\n");
    say(None);
    say(None);
    assert!(!comment.exists());
}

#[test]
fn a_folder_or_file_that_is_a_symlink_is_refused() {
    let world = World::new();
    let requests = &world.local.settings.requests;
    std::fs::create_dir_all(requests).unwrap();
    std::os::unix::fs::symlink("/etc", requests.join("slicewright__dc1__a100-40gb")).unwrap();
    let error = world.look().unwrap_err().to_string();
    assert!(error.contains("which is a symlink"), "{error}");
}

#[test]
fn what_is_not_a_plain_file_is_skipped_with_its_reason() {
    let world = World::new();
    std::os::unix::fs::symlink("/etc/passwd", world.work.join("link")).unwrap();
    std::os::unix::fs::symlink("apps", world.work.join("folder-link")).unwrap();
    std::fs::write(world.work.join("big"), vec![b'x'; 2 * 1024 * 1024 + 1]).unwrap();
    std::fs::write(world.work.join("model.bin"), "version https://git-lfs.github.com/spec/v1\noid x\n")
        .unwrap();
    std::fs::write(world.work.join("ünï code.yaml"), "a: 1\n").unwrap();
    git(&world.work, &["add", "."]);
    let main = git(&world.work, &["rev-parse", "main"]);
    git(&world.work, &["update-index", "--add", "--cacheinfo", &format!("160000,{main},sub")]);
    git(&world.work, &["commit", "-q", "-m", "odd things"]);
    let tree = world.local.read_tree(&world.local.head().unwrap()).unwrap();
    let says = |path: &str| tree.skipped.get(path).cloned().unwrap_or_default();
    assert!(says("link").contains("symlink") && says("folder-link").contains("symlink"));
    assert!(says("big").contains("2097153 bytes"), "{}", says("big"));
    assert!(says("model.bin").contains("LFS") && says("sub").contains("submodule"));
    assert_eq!(tree.files.keys().collect::<Vec<_>>(), ["apps/a.yaml", "run.sh", "ünï code.yaml"]);
    assert_eq!(tree.files["apps/a.yaml"], b"gpu: 1\n");

    for path in [
        "link",
        "folder-link/a.yaml",
        "sub/x",
        "apps",
        "../x",
        "-x",
        ".git/config",
        "a//b",
        ".github/workflows/x",
    ] {
        let mut commit = world.commit("x");
        commit.files = BTreeMap::from([(path.into(), Some(b"x".to_vec()))]);
        let error = world.local.publish(BRANCH, None, &commit).unwrap_err();
        assert!(matches!(error, ForgeError::Denied { .. }), "{path}: {error}");
    }
    assert_eq!(world.find().branch_head, None);
}

#[test]
fn names_that_git_or_we_would_misread_are_refused() {
    let world = World::new();
    for branch in ["-d", "main", "slicewright", "slicewright-x/y", "slicewright/../main", "slicewright/a b"] {
        let error = world.local.publish(branch, None, &world.commit("x")).unwrap_err();
        assert!(matches!(error, ForgeError::Denied { .. }), "{branch}: {error}");
    }
    assert!(matches!(world.local.read_tree("--help"), Err(ForgeError::Denied { .. })));
    git(&world.work, &["checkout", "-q", "-b", BRANCH]);
    let head = world.local.git.resolve("HEAD").unwrap();
    let error = world.local.publish(BRANCH, head.as_deref(), &world.commit("x")).unwrap_err();
    assert!(error.to_string().contains("checked out"), "{error}");
}

#[test]
fn what_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let says = |result: Result<String, ForgeError>| result.unwrap_err().to_string();
    let settings = Settings::new(folder.path().join("none"), folder.path());
    let error = Local::open(settings).unwrap_err().to_string();
    assert!(error.starts_with("a git repository at `") && error.ends_with("none` was not found"), "{error}");

    let bare = folder.path().join("infra.git");
    git(folder.path(), &["init", "-q", "--bare", "-b", "main", "infra.git"]);
    let unborn = Local::open(Settings::new(&bare, folder.path())).unwrap();
    assert!(says(unborn.head()).starts_with("a commit on branch `main` of `"), "{}", says(unborn.head()));

    let world = World::new();
    let other = Settings { default_branch: Some("trunk".into()), ..world.local.settings.clone() };
    let error = says(Local::open(other).unwrap().head());
    assert!(
        error.starts_with("a commit on branch `trunk` of `") && error.ends_with("was not found"),
        "{error}"
    );
    let error = world.local.read_tree(&"0".repeat(40)).unwrap_err().to_string();
    assert!(error.contains(&"0".repeat(40)) && error.ends_with("was not found"), "{error}");
    let mut nothing = world.commit("gpu: 1\n");
    let error = says(world.local.publish(BRANCH, None, &nothing));
    assert!(error.contains("changes nothing"), "{error}");
    nothing.base = "nowhere".into();
    assert!(says(world.local.publish(BRANCH, None, &nothing)).contains("base commit `nowhere`"));
}

#[test]
fn a_bare_clone_works_as_well() {
    let world = World::new();
    let bare = world.work.with_file_name("bare.git");
    git(&world.work, &["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    let local = Local::open(Settings { repository: bare, ..world.local.settings.clone() }).unwrap();
    assert_eq!(local.head().unwrap(), world.local.head().unwrap());
    let id = local.publish(BRANCH, None, &world.commit("gpu: slice\n")).unwrap();
    assert_eq!(id, world.publish("gpu: slice\n"));
}

fn texts(title: &str, body: &str) -> RequestText {
    RequestText { title: title.to_owned(), body: body.to_owned(), ..RequestText::default() }
}

/// One pass as `engine` makes it: look, decide, act.
fn pass(world: &World, wanted: Option<&Wanted>) -> Action {
    let found = world.find();
    let own = Own {
        emails: world.local.identity().emails,
        heads: found.unfinished_head.iter().cloned().collect(),
        ..Own::default()
    };
    let action = lifecycle::decide(&found.observed(), wanted, &own, "2026-03-01T00:00:00Z".parse().unwrap());
    let head = found.branch_head.as_deref();
    let text = |head: &str, state: State| {
        let mut noted = Metadata::parse(&world.body(head, state)).unwrap();
        noted.fingerprint = wanted.map_or_else(|| "gone".into(), |wanted| wanted.fingerprint.clone());
        noted.closed_on = (state != State::Open).then(|| jiff::civil::date(2026, 3, 1));
        noted.attach(wanted.map_or("gone", |wanted| &wanted.body), None)
    };
    match &action {
        Action::Open { push, .. } | Action::Update { push, .. } => {
            let wanted = wanted.unwrap();
            let commit = Commit {
                base: world.local.head().unwrap(),
                message: "x".into(),
                files: wanted.files.clone(),
            };
            let head = match push {
                true => world.local.publish(BRANCH, head, &commit).unwrap(),
                false => head.unwrap().to_owned(),
            };
            world
                .local
                .write_request(BRANCH, false, &texts(&wanted.title, &text(&head, State::Open)))
                .unwrap();
        }
        Action::Withdraw { .. } => {
            world.local.close(BRANCH, head, "Share GPUs", &text(head.unwrap(), State::Withdrawn)).unwrap();
        }
        Action::RecordDeclined { delete_branch, .. } => {
            let delete = head.filter(|_| *delete_branch);
            world
                .local
                .close(BRANCH, delete, "Share GPUs", &text(head.unwrap_or("gone"), State::Declined))
                .unwrap();
        }
        Action::RecordMerged { .. } => {
            world
                .local
                .close(BRANCH, None, "Share GPUs", &text(head.unwrap_or("gone"), State::Merged))
                .unwrap();
        }
        Action::Warn { .. } | Action::Leave { .. } | Action::StopEdited { .. } => {}
    }
    action
}

fn wanted(fingerprint: &str, content: &str) -> Wanted {
    Wanted {
        title: "Share GPUs".into(),
        body: format!("plan {fingerprint}"),
        fingerprint: fingerprint.into(),
        files: BTreeMap::from([("apps/a.yaml".into(), Some(content.as_bytes().to_vec()))]),
        method: "MIG".into(),
        cards_freed: 2,
        shares: BTreeMap::new(),
        outgrown: Vec::new(),
    }
}

#[track_caller]
fn passes(world: &World, wanted: Option<&Wanted>, codes: &[&str]) {
    for code in codes {
        let action = pass(world, wanted);
        assert_eq!(action.code(), *code, "{action:?}");
    }
}

#[test]
fn a_proposal_lives_from_its_opening_to_its_end() {
    let world = World::new();
    let (one, two) = (wanted("f1", "gpu: slice\n"), wanted("f2", "gpu: other\n"));
    passes(&world, None, &["leave"]);
    passes(&world, Some(&one), &["open", "leave", "leave"]);
    passes(&world, Some(&two), &["update", "leave"]);
    passes(&world, None, &["withdraw", "leave", "leave"]);
    assert_eq!(world.find().branch_head, None);
    passes(&world, Some(&one), &["open", "leave"]);
    git(&world.work, &["merge", "-q", "--no-ff", BRANCH]);
    passes(&world, Some(&Wanted { files: BTreeMap::new(), ..one.clone() }), &["record-merged", "leave"]);
    passes(&world, Some(&two), &["open", "leave"]);
    world.person_commits(BRANCH, "apps/a.yaml", "gpu: mine\n");
    passes(&world, Some(&one), &["stop-edited", "stop-edited"]);
    passes(&world, None, &["stop-edited"]);
    assert_eq!(git(&world.work, &["show", &format!("{BRANCH}:apps/a.yaml")]), "gpu: mine");
}

#[test]
fn declining_works_by_the_state_and_by_the_branch() {
    for by_file in [true, false] {
        let world = World::new();
        let one = wanted("f1", "gpu: slice\n");
        passes(&world, Some(&one), &["open", "leave"]);
        let path = world.state_file();
        if by_file {
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::write(&path, text.replacen("\"open\"", "\"declined\"", 1)).unwrap();
        } else {
            git(&world.work, &["branch", "-q", "-D", BRANCH]);
        }
        passes(&world, Some(&one), &["record-declined", "leave", "leave"]);
        assert_eq!(world.find().branch_head, None);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replacen("\"declined\"", "\"open\"", 1)).unwrap();
        passes(&world, Some(&one), &["open", "leave"]);
    }
}

#[test]
fn a_run_stopped_between_branch_and_file_is_completed_by_the_next() {
    let world = World::new();
    let (one, two) = (wanted("f1", "gpu: slice\n"), wanted("f2", "gpu: other\n"));
    world.publish("gpu: slice\n");
    passes(&world, Some(&one), &["open", "leave"]);
    world.publish("gpu: other\n");
    passes(&world, Some(&two), &["update", "leave"]);
    world.publish("gpu: third\n");
    passes(&world, Some(&one), &["update", "leave"]);
    world.publish("gpu: third\n");
    passes(&world, None, &["withdraw", "leave"]);
    assert_eq!(std::fs::read_dir(&world.local.settings.requests).unwrap().count(), 1);
}

#[test]
fn the_branches_below_the_prefix_are_listed_whoever_made_them() {
    let world = World::new();
    assert!(world.local.branches().unwrap().is_empty());
    world.publish("gpu: 0\n");
    for branch in ["slicewright/gone/l4", "slicewrights/x", "kim/topic"] {
        git(&world.work, &["branch", branch]);
    }
    let branches: Vec<String> = world.local.branches().unwrap().into_iter().collect();
    assert_eq!(branches, [BRANCH, "slicewright/gone/l4"]);
}
