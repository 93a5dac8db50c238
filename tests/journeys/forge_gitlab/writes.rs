//! Branches and merge requests are written, and nobody's work is lost.

use serde_json::json;
use slicewright::forge::{ForgeError, RequestText};

use super::story::{BRANCH, EMAIL, Story, commit, noting, reply, text};
use crate::world::forge::faults::Fault;
use crate::world::forge::state::{BOT, KIM, RequestState};
use crate::world::repo::{Commit as Line, MAIN};

#[test]
fn a_new_proposal_is_one_commit_and_one_draft() {
    let story = Story::new();
    let files = [("apps/a.yaml", Some("gpu: 0\n")), ("apps/b.yaml", None), ("apps/new.yaml", Some("x: 1\n"))];
    let head = story.publish(&files).unwrap();
    let wanted = RequestText {
        draft: true,
        labels: vec!["gpu".into(), "cost".into()],
        reviewers: vec!["@kim".into(), "@nobody".into(), "@acme/platform".into()],
        ..text("Share 6 GPUs", &noting(&head))
    };
    let url = story.request(None, &wanted).unwrap();
    let mut state = story.forge.state();
    let git = &state.infra().git;
    let log = git.log(&format!("{MAIN}..{BRANCH}"));
    let author = format!("Slicewright <{EMAIL}>");
    assert_eq!(log, [Line { sha: head.clone(), author, subject: "Share GPUs of dc1".into() }]);
    assert_eq!(
        git.changed_lines(MAIN, BRANCH),
        ["-gpu: 1", "+gpu: 0", "-gpu: 2", "+x: 1"].map(str::to_owned)
    );
    let request = state.request_of(BRANCH).clone();
    assert_eq!(url, format!("{}/acme/infra/-/merge_requests/{}", state.url, request.number));
    drop(state);
    assert_eq!((request.title.as_str(), request.draft, request.author), ("Share 6 GPUs", true, BOT));
    assert_eq!(request.target, MAIN);
    assert_eq!(request.labels, ["cost", "gpu"].map(str::to_owned).into());
    assert_eq!(request.reviewers, [KIM].into());
    let found = story.find();
    let shown = found.request.clone().unwrap();
    assert_eq!(
        (shown.title.as_str(), shown.draft, shown.open, shown.by_bot),
        ("Share 6 GPUs", true, true, true)
    );
    assert_eq!((found.branch_head.as_deref(), found.base), (Some(head.as_str()), Some(story.main())));
    assert_eq!(found.changed["apps/b.yaml"], None);
    assert_eq!(found.changed["apps/new.yaml"].as_deref(), Some(&b"x: 1\n"[..]));
    assert!(!found.merged && found.stale.is_empty());
    let account = story.forge.state().users[&BOT].email.clone();
    assert_eq!(found.commits[0].emails, [EMAIL.to_owned(), account]);
}

#[test]
fn a_branch_moves_to_a_new_base_with_modes_and_bytes_kept() {
    let story = Story::new();
    {
        let mut state = story.forge.state();
        let git = &state.infra().git;
        git.git(&["read-tree", MAIN]);
        let blob = git.git(&["rev-parse", "main:README.md"]);
        git.git(&["update-index", "--add", "--cacheinfo", &format!("100755,{},run.sh", blob.trim())]);
        let tree = git.git(&["write-tree"]);
        let made = git.git(&["commit-tree", tree.trim(), "-m", "A program", "-p", MAIN]);
        git.git(&["update-ref", "refs/heads/main", made.trim()]);
    }
    story.propose();
    let files = [("run.sh", Some("#!/bin/sh\n")), ("apps/ümlaut.yaml", Some("a: ü\r\n"))];
    story.forge.state().infra().git.commit_as_human(MAIN, &[("other.yaml", "y: 1\n")], "Meanwhile");
    let head = story.publish(&files).unwrap();
    let mut state = story.forge.state();
    let git = &state.infra().git;
    assert_eq!(git.log(&format!("{MAIN}..{BRANCH}")).len(), 1);
    assert_eq!(git.git(&["rev-parse", &format!("{BRANCH}^")]).trim(), git.head(MAIN).unwrap());
    assert_eq!(git.git(&["diff", "--name-only", "-z", MAIN, BRANCH]), "apps/ümlaut.yaml\0run.sh\0");
    assert!(git.git(&["ls-tree", BRANCH, "run.sh"]).starts_with("100755"));
    assert_eq!(git.read(BRANCH, "apps/ümlaut.yaml").unwrap(), "a: ü\r\n");
    assert_eq!(state.request_of(BRANCH).state, RequestState::Open);
    drop(state);
    assert_eq!(story.publish(&files).unwrap(), head, "equal input, equal commit");
    assert!(story.find().commits[0].emails.iter().all(|email| email == EMAIL));
}

#[test]
fn bytes_that_are_no_text_arrive_as_they_are() {
    let story = Story::new();
    let mut wanted = commit(&story.main(), &[]);
    wanted.files.insert("logo.png".into(), Some(vec![0xff, 0xfe, 0, 10]));
    story.wait(story.bot.publish(BRANCH, None, &wanted)).unwrap();
    let found = story.find();
    assert_eq!(found.changed["logo.png"], Some(vec![0xff, 0xfe, 0, 10]));
}

#[test]
fn a_base_that_is_no_branchs_head_any_more_is_still_built_on() {
    let story = Story::new();
    let base = story.main();
    let head = story.propose();
    story.forge.state().infra().git.commit_as_human(MAIN, &[("other.yaml", "y: 1\n")], "Meanwhile");
    let wanted = commit(&base, &[("apps/a.yaml", Some("gpu: 9\n"))]);
    story.forge.take_log();
    let head = story.wait(story.bot.publish(BRANCH, Some(&head), &wanted)).unwrap();
    // The folders of the base, and that the server has it: neither contents nor history.
    let asked = story.forge.take_log();
    assert_eq!(asked.iter().filter(|line| line.path.ends_with("/git-upload-pack")).count(), 2, "{asked:?}");
    assert_eq!(story.branch_head(), Some(head.clone()));
    assert_eq!(story.forge.state().infra().git.git(&["rev-parse", &format!("{head}^")]).trim(), base);
}

#[test]
fn a_branch_that_moved_is_left_alone() {
    let story = Story::new();
    let head = story.propose();
    let theirs =
        story.forge.state().infra().git.commit_as_human(BRANCH, &[("apps/a.yaml", "gpu: 5\n")], "Better");
    let conflict = |result: Result<String, ForgeError>| matches!(result, Err(ForgeError::Conflict { .. }));
    assert!(conflict(story.publish_over(Some(&head), &[("apps/a.yaml", Some("gpu: 7\n"))])));
    assert!(conflict(story.publish_over(None, &[("apps/a.yaml", Some("gpu: 7\n"))])));
    assert_eq!(story.branch_head(), Some(theirs));
    story.forge.state().infra().git.delete_branch(BRANCH);
    assert!(conflict(story.publish_over(Some(&head), &[("apps/a.yaml", Some("gpu: 7\n"))])));
    assert_eq!(story.branch_head(), None);
}

#[test]
fn a_person_who_pushes_at_the_same_moment_wins() {
    for moment in ["info/refs", "git-receive-pack"] {
        let story = Story::new();
        story.propose();
        let person = |state: &mut crate::world::forge::state::State| {
            drop(state.infra().git.commit_as_human(BRANCH, &[("apps/a.yaml", "gpu: 5\n")], "Better"));
        };
        let method = if moment == "info/refs" { "GET" } else { "POST" };
        story.faults(vec![(method, moment, Fault::After(Box::new(person)))]);
        let result = story.publish(&[("apps/a.yaml", Some("gpu: 7\n"))]);
        assert!(matches!(result, Err(ForgeError::Conflict { .. })), "{moment}: {result:?}");
        let mut state = story.forge.state();
        assert_eq!(state.infra().git.read(BRANCH, "apps/a.yaml").unwrap(), "gpu: 5\n");
    }
}

#[test]
fn a_branch_that_must_be_new_is_never_taken_over() {
    let story = Story::new();
    let person = |state: &mut crate::world::forge::state::State| {
        drop(state.infra().git.commit_as_human(BRANCH, &[("apps/a.yaml", "gpu: 5\n")], "Mine"));
    };
    story.faults(vec![("POST", "/repository/commits", Fault::After(Box::new(person)))]);
    let result = story.publish_over(None, &[("apps/a.yaml", Some("gpu: 7\n"))]);
    assert!(matches!(result, Err(ForgeError::Conflict { .. })), "{result:?}");
    assert_eq!(story.forge.state().infra().git.read(BRANCH, "apps/a.yaml").unwrap(), "gpu: 5\n");
}

#[test]
fn where_git_does_not_get_through_the_api_moves_the_branch() {
    let story = Story::new();
    story.propose();
    let off = json!({ "message": "Git access over HTTP is not allowed" });
    story.faults(vec![("GET", "info/refs", reply(403, &off))]);
    let head = story.publish(&[("apps/a.yaml", Some("gpu: 7\n"))]).unwrap();
    assert_eq!(story.branch_head(), Some(head));
    let mut state = story.forge.state();
    assert_eq!(state.infra().git.log(&format!("{MAIN}..{BRANCH}")).len(), 1);
    assert_eq!(state.request_of(BRANCH).state, RequestState::Open);
    drop(state);

    // A person who is faster than the look right before is seen.
    let person = |state: &mut crate::world::forge::state::State| {
        drop(state.infra().git.commit_as_human(BRANCH, &[("apps/a.yaml", "gpu: 5\n")], "Better"));
    };
    let nobody = |_: &mut crate::world::forge::state::State| {};
    story.faults(vec![
        ("GET", "info/refs", reply(403, &off)),
        ("GET", "/branches/slicewright", Fault::After(Box::new(nobody))),
        ("GET", "/branches/slicewright", Fault::After(Box::new(person))),
    ]);
    story.writes();
    let result = story.publish(&[("apps/a.yaml", Some("gpu: 8\n"))]);
    assert!(matches!(result, Err(ForgeError::Conflict { .. })), "{result:?}");
    assert!(!story.writes().iter().any(|line| line.ends_with("/repository/commits")));
    assert_eq!(story.forge.state().infra().git.read(BRANCH, "apps/a.yaml").unwrap(), "gpu: 5\n");
}

#[test]
fn refuses_what_is_not_its_own_to_write() {
    let story = Story::new();
    let base = story.main();
    let change = commit(&base, &[("apps/a.yaml", Some("gpu: 0\n"))]);
    let write = |branch: &str, commit: &slicewright::forge::Commit| {
        story.wait(story.bot.publish(branch, None, commit)).unwrap_err()
    };
    for branch in
        [MAIN, "feature/x", "slicewright", "slicewrightx/y", "slicewright/../main", "slicewright/-x/."]
    {
        assert!(matches!(write(branch, &change), ForgeError::Denied { .. }), "{branch}");
    }
    for path in ["../x", ".gitlab-ci.yml", ".github/workflows/x.yml", "apps/a.yaml/b", "apps", ".git/config"]
    {
        let error = write(BRANCH, &commit(&base, &[(path, Some("x"))]));
        assert!(matches!(error, ForgeError::Denied { .. }), "{path}: {error}");
    }
    let nothing = write(BRANCH, &commit(&base, &[("apps/a.yaml", Some("gpu: 1\n"))]));
    assert!(nothing.to_string().contains("changes nothing"), "{nothing}");
    story.forge.state().infra().protected.push("slicewright/*".into());
    let protected = write(BRANCH, &change);
    assert!(matches!(protected, ForgeError::Blocked { .. }), "{protected}");
    story.forge.state().infra().git.commit_as_human(BRANCH, &[("apps/a.yaml", "gpu: 5\n")], "There");
    let head = story.branch_head();
    let there = story.wait(story.bot.publish(BRANCH, head.as_deref(), &change)).unwrap_err();
    assert!(there.to_string().contains("is protected"), "{there}");
    assert_eq!(story.branch_head(), head);
}

#[test]
fn a_maintainer_is_kept_from_protected_names_before_anything_is_written() {
    let story = Story::new();
    story.forge.state().infra().roles.insert(BOT, crate::world::forge::state::Role::Maintain);
    story.forge.state().infra().protected.push("slice*/dc1/*".into());
    let error = story.publish(&[("apps/a.yaml", Some("gpu: 0\n"))]).unwrap_err();
    assert!(error.to_string().contains("is protected"), "{error}");
    assert!(story.writes().is_empty());
}

#[test]
fn a_text_is_written_where_it_differs() {
    let story = Story::new();
    let head = story.propose();
    let id = story.find().request.unwrap().id;
    story.writes();
    story.request(Some(&id), &text("Share", &noting(&head))).unwrap();
    assert_eq!(story.writes(), Vec::<String>::new());
    story.request(Some(&id), &RequestText { draft: true, ..text("Share", &noting(&head)) }).unwrap();
    assert!(story.forge.state().request_of(BRANCH).draft);
    story.request(Some(&id), &text("Share more", "Other")).unwrap();
    assert_eq!(story.writes().len(), 2);
    let mut state = story.forge.state();
    let request = state.request_of(BRANCH);
    assert_eq!(
        (request.title.as_str(), request.body.as_str(), request.draft),
        ("Share more", "Other", false)
    );
}

#[test]
fn one_that_is_open_already_is_adopted_if_it_is_the_bots() {
    let story = Story::new();
    story.propose();
    story.request(None, &text("Share more", "Other")).unwrap();
    let mut state = story.forge.state();
    assert_eq!(state.infra().requests.len(), 1);
    assert_eq!(state.request_of(BRANCH).title, "Share more");
}

#[test]
fn one_that_closed_meanwhile_and_one_of_a_persons_are_not_written() {
    let story = Story::new();
    story.propose();
    story.forge.state().close(BRANCH);
    let late = story.request(Some("1"), &text("Share more", "Late"));
    assert!(matches!(late, Err(ForgeError::Conflict { .. })), "{late:?}");
    let kims = story.forge.state().open_by_kim(BRANCH, "Mine", "Text of Kim's").to_string();
    let written = story.request(Some(&kims), &text("Share more", "Other"));
    assert!(matches!(written, Err(ForgeError::Denied { .. })), "{written:?}");
    let closed = story.wait(story.bot.close(BRANCH, None, Some(&kims), "Withdrawn", "No need"));
    assert!(matches!(closed, Err(ForgeError::Denied { .. })), "{closed:?}");
    let mut state = story.forge.state();
    let bodies: Vec<_> = state.infra().requests.iter().map(|request| request.body.clone()).collect();
    assert!(!bodies.iter().any(|body| body == "Late" || body == "Other" || body == "No need"), "{bodies:?}");
}

#[test]
fn one_that_somebody_else_opened_is_left_alone() {
    let story = Story::new();
    story.publish(&[("apps/a.yaml", Some("gpu: 0\n"))]).unwrap();
    story.forge.state().open_by_kim(BRANCH, "Mine", "Text of Kim's");
    let error = story.request(None, &text("Share", "Body")).unwrap_err();
    assert!(matches!(&error, ForgeError::Blocked { what } if what.contains("somebody else")), "{error}");
    let mut state = story.forge.state();
    assert_eq!((state.infra().requests.len(), state.request_of(BRANCH).body.as_str()), (1, "Text of Kim's"));
}

#[test]
fn closing_writes_the_text_closes_and_deletes_and_may_be_repeated() {
    let story = Story::new();
    let head = story.propose();
    let id = story.find().request.unwrap().id;
    let close = || story.wait(story.bot.close(BRANCH, Some(&head), Some(&id), "Withdrawn", "No need"));
    close().unwrap();
    let mut state = story.forge.state();
    let request = state.request_of(BRANCH).clone();
    assert_eq!((request.title.as_str(), request.body.as_str()), ("Withdrawn", "No need"));
    assert_eq!(request.state, RequestState::Closed);
    drop(state);
    assert_eq!(story.branch_head(), None);
    story.writes();
    close().unwrap();
    assert_eq!(story.writes(), Vec::<String>::new());
}

#[test]
fn closing_leaves_a_branch_that_moved_and_its_text() {
    let story = Story::new();
    let head = story.propose();
    let id = story.find().request.unwrap().id;
    let theirs =
        story.forge.state().infra().git.commit_as_human(BRANCH, &[("apps/a.yaml", "gpu: 5\n")], "Better");
    story.writes();
    let result = story.wait(story.bot.close(BRANCH, Some(&head), Some(&id), "Withdrawn", "No need"));
    assert!(matches!(result, Err(ForgeError::Conflict { .. })), "{result:?}");
    assert_eq!(story.writes(), Vec::<String>::new());
    assert_eq!(story.branch_head(), Some(theirs));
    // Without a head the branch stays.
    story.wait(story.bot.close(BRANCH, None, Some(&id), "Declined", "By Kim")).unwrap();
    assert!(story.branch_head().is_some());
    assert_eq!(story.forge.state().request_of(BRANCH).state, RequestState::Closed);
}

#[test]
fn a_person_who_pushes_while_the_branch_is_deleted_keeps_it() {
    let story = Story::new();
    let head = story.propose();
    let id = story.find().request.unwrap().id;
    let person = |state: &mut crate::world::forge::state::State| {
        drop(state.infra().git.commit_as_human(BRANCH, &[("apps/a.yaml", "gpu: 5\n")], "Better"));
    };
    story.faults(vec![("POST", "git-receive-pack", Fault::After(Box::new(person)))]);
    let result = story.wait(story.bot.close(BRANCH, Some(&head), Some(&id), "Withdrawn", "No need"));
    assert!(matches!(result, Err(ForgeError::Conflict { .. })), "{result:?}");
    assert_eq!(story.forge.state().infra().git.read(BRANCH, "apps/a.yaml").unwrap(), "gpu: 5\n");
}

#[test]
fn a_branch_goes_over_the_api_where_git_does_not_get_through() {
    let story = Story::new();
    let head = story.propose();
    let off = json!({ "message": "Git access over HTTP is not allowed" });
    story.faults(vec![("GET", "info/refs", reply(403, &off))]);
    story.wait(story.bot.close(BRANCH, Some(&head), None, "", "")).unwrap();
    assert_eq!(story.branch_head(), None);
}
