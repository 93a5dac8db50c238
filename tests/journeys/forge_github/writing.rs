//! What the bot writes: branches, pull requests, comments; and what it leaves alone.

use super::*;
use crate::world::forge::github::GraphQl;
use crate::world::forge::state::{KIM, ROBIN, RequestState};

#[test]
fn a_commit_is_one_on_its_base_and_changes_what_it_says() {
    let story = Story::new(SignIn::Token);
    story.state().infra().git.git(&["update-ref", "refs/heads/old", MAIN]);
    let mut files: Vec<(String, Option<Vec<u8>>)> =
        (0..110).map(|n| (format!("many/{n}.yaml"), Some(format!("n: {n}\r\n").into_bytes()))).collect();
    files.push((FILE.to_owned(), Some(b"\xef\xbb\xbfgpu: 0.5\r\n".to_vec())));
    files.push(("apps/other.yaml".to_owned(), None));
    files.push(("never/was.yaml".to_owned(), None));
    files.push(("binary".to_owned(), Some(vec![0xff, 0, 0xfe])));
    let commit = Commit { files: files.into_iter().collect(), ..story.commit(&[]) };
    let head = story.done(story.bot.publish(BRANCH, None, &commit)).unwrap();
    assert_eq!(story.head(BRANCH), Some(head.clone()));
    assert_eq!(story.state().github.blobs_written, 1);
    let found = story.find();
    assert_eq!(found.base.as_ref(), Some(&commit.base));
    let mut wanted = commit.files.clone();
    wanted.remove("never/was.yaml");
    assert_eq!(found.changed, wanted);
    let log = story.state().infra().git.log(&format!("{MAIN}..{BRANCH}"));
    assert_eq!(log.len(), 1);
    assert_eq!(log[0].author, "Slicewright <bot@example.com>");

    // The same again is the same commit, and moves nothing.
    let again = story.done(story.bot.publish(BRANCH, Some(&head), &commit)).unwrap();
    assert_eq!(again, head);
}

#[test]
fn what_stands_on_the_branch_already_is_not_written_again_whoever_signs() {
    for sign_in in [SignIn::Token, SignIn::Workflow, SignIn::App] {
        let story = Story::new(sign_in);
        let head = story.publish(None, "gpu: 0.5\n").unwrap();
        assert_eq!(story.publish(Some(&head), "gpu: 0.5\n").unwrap(), head);
        assert_eq!(story.head(BRANCH), Some(head));
    }
}

#[test]
fn a_file_keeps_its_mode() {
    let story = Story::new(SignIn::Token);
    {
        let mut state = story.state();
        let git = &state.infra().git;
        let blob = git.git(&["rev-parse", &format!("{MAIN}:{FILE}")]);
        let index = git.path().join("mode.index");
        let run = |arguments: &[&str]| {
            let mut command = std::process::Command::new("git");
            command.env("GIT_DIR", git.path()).env("GIT_INDEX_FILE", &index).args(arguments);
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        run(&["read-tree", MAIN]);
        run(&["update-index", "--cacheinfo", &format!("100755,{},{FILE}", blob.trim())]);
        let commit = git.git(&[
            "commit-tree",
            run(&["write-tree"]).trim(),
            "-m",
            "Mode",
            "-p",
            &git.head(MAIN).unwrap(),
        ]);
        git.git(&["update-ref", "refs/heads/main", commit.trim()]);
    }
    story.publish(None, "gpu: 0.5\n").unwrap();
    let mode = story.state().infra().git.git(&["ls-tree", BRANCH, FILE]);
    assert!(mode.starts_with("100755"), "{mode}");
}

#[test]
fn what_is_not_the_bots_to_write_is_refused() {
    let story = Story::new(SignIn::Token);
    let commit = story.commit(&[(FILE, Some(b"gpu: 0.5\n"))]);
    for branch in
        ["main", "kim/work", "slicewright", "slicewrightish/x", "slicewright/../main", "slicewright/a b"]
    {
        is_denied(story.done(story.bot.publish(branch, None, &commit)), "branch");
        is_denied(story.done(story.bot.write_request(branch, None, &text("x", "y"))), "branch");
        is_denied(story.done(story.bot.close(branch, None, None, "", "")), "branch");
    }
    for path in ["../x", ".github/workflows/ci.yaml", "a/.git/config", "apps"] {
        let commit = story.commit(&[(path, Some(b"x"))]);
        is_denied(story.done(story.bot.publish(BRANCH, None, &commit)), path);
    }
    let same = story.commit(&[(FILE, Some(b"gpu: 1\n"))]);
    let nothing = story.done(story.bot.publish(BRANCH, None, &same)).unwrap_err();
    assert!(nothing.to_string().contains("changes nothing"), "{nothing}");
    assert_eq!(story.state().infra().git.branches(), [MAIN]);
}

#[test]
fn a_branch_that_moved_is_left_alone() {
    for graphql in [GraphQl::Whole, GraphQl::Old, GraphQl::Absent] {
        let story = Story::new(SignIn::Token);
        story.state().github.graphql = graphql;
        let head = story.propose();
        let theirs = story.state().infra().git.commit_as_human(BRANCH, &[("x", "y")], "Mine");
        is_conflict(story.publish(Some(&head), "gpu: 0.25\n"));
        is_conflict(story.publish(None, "gpu: 0.25\n"));
        is_conflict(story.done(story.bot.close(BRANCH, Some(&head), Some("1"), "t", "b")));
        assert_eq!(story.head(BRANCH), Some(theirs.clone()));
        assert_eq!(story.state().infra().requests[0].state, RequestState::Open);
        story.publish(Some(&theirs), "gpu: 0.25\n").unwrap();
        assert_eq!(story.state().infra().git.log(&format!("{MAIN}..{BRANCH}")).len(), 1, "{graphql:?}");
        let done = story.done(story.bot.close(BRANCH, story.head(BRANCH).as_deref(), Some("1"), "t", "b"));
        done.unwrap();
        assert_eq!(story.head(BRANCH), None);
    }
}

#[test]
fn a_server_without_the_newer_interface_is_asked_for_it_once() {
    let story = Story::new(SignIn::Token);
    story.state().github.graphql = GraphQl::Old;
    let head = story.propose();
    story.publish(Some(&head), "gpu: 0.25\n").unwrap();
    let asked = story.asked();
    assert_eq!(asked.iter().filter(|line| line.path.ends_with("/graphql")).count(), 1);
}

#[test]
fn a_rule_that_keeps_the_bot_from_its_branches_is_named() {
    let story = Story::new(SignIn::Token);
    story.state().infra().protected.push("slicewright/*".to_owned());
    is_blocked(story.publish(None, "gpu: 0.5\n"), "rule of type `update`");
    story.state().github.rules = Vec::new();
    is_blocked(story.publish(None, "gpu: 0.5\n"), "branch_prefix");
    story.state().github.graphql = GraphQl::Absent;
    is_blocked(story.publish(None, "gpu: 0.5\n"), "a branch protection rule");
    assert_eq!(story.head(BRANCH), None);
}

#[test]
fn a_pull_request_is_opened_with_labels_and_reviewers_as_far_as_they_can_be_had() {
    let story = Story::new(SignIn::Token);
    story.state().infra().labels.insert("gpu".into());
    let head = story.publish(None, "gpu: 0.5\n").unwrap();
    let request = RequestText {
        draft: true,
        labels: vec!["gpu".into(), "new".into(), "x".repeat(60)],
        reviewers: ["@nobody", "@robin", "@acme/gpu", "@acme/none", "@kim"].map(str::to_owned).to_vec(),
        ..text(&head, "Saves two cards.")
    };
    let url = story.done(story.bot.write_request(BRANCH, None, &request)).unwrap();
    assert!(url.ends_with("/acme/infra/pull/1"), "{url}");
    let mut state = story.state();
    assert_eq!(state.github.asked_teams, [(1, "gpu".to_owned())]);
    let made = &state.infra().requests[0];
    assert!(made.draft);
    assert_eq!((made.author, made.target.as_str()), (BOT, MAIN));
    assert_eq!(made.labels, ["gpu".to_owned(), "new".to_owned()].into());
    assert_eq!(made.reviewers, [ROBIN, KIM].into());
}

#[test]
fn only_what_differs_is_edited() {
    let story = Story::new(SignIn::Token);
    let head = story.propose();
    story.asked();
    let same = text(&head, "Saves two cards.");
    story.done(story.bot.write_request(BRANCH, Some("1"), &same)).unwrap();
    let n_written = |story: &Story| story.asked().iter().filter(|line| line.method != "GET").count();
    assert_eq!(n_written(&story), 0);
    story.state().request_of(BRANCH).labels.insert("people's".into());
    let other = RequestText { labels: vec!["bots".into()], draft: true, ..text(&head, "Saves three cards.") };
    story.done(story.bot.write_request(BRANCH, Some("1"), &other)).unwrap();
    assert_eq!(n_written(&story), 2, "the text, and that it is a draft");
    {
        let mut state = story.state();
        let made = state.request_of(BRANCH);
        assert!(made.draft && made.body.contains("three"));
        assert_eq!(made.labels, ["people's".to_owned()].into());
    }
    story.state().github.graphql = GraphQl::Absent;
    story.done(story.bot.write_request(BRANCH, Some("1"), &same)).unwrap();
    let mut state = story.state();
    assert!(state.request_of(BRANCH).draft && state.request_of(BRANCH).body.contains("two"));
}

#[test]
fn one_that_is_open_already_is_taken_over_and_one_that_closed_meanwhile_is_not_written() {
    let story = Story::new(SignIn::Token);
    let head = story.propose();
    story.done(story.bot.write_request(BRANCH, None, &text(&head, "Anew."))).unwrap();
    assert_eq!(story.state().infra().requests.len(), 1);
    assert!(story.state().infra().requests[0].body.contains("Anew."));
    // The list does not have it yet; the forge knows better.
    story.state().github.lists_that_lag = 1;
    story.done(story.bot.write_request(BRANCH, None, &text(&head, "Once more."))).unwrap();
    assert_eq!(story.state().infra().requests.len(), 1);
    assert!(story.state().infra().requests[0].body.contains("Once more."));
    story.state().close(BRANCH);
    is_conflict(story.done(story.bot.write_request(BRANCH, Some("1"), &text(&head, "Late."))));
    story.done(story.bot.write_request(BRANCH, None, &text(&head, "A new round."))).unwrap();
    assert_eq!(story.state().infra().requests.len(), 2);
}

#[test]
fn where_there_are_no_drafts_it_is_none() {
    let story = Story::new(SignIn::Token);
    story.state().github.no_drafts = true;
    let head = story.publish(None, "gpu: 0.5\n").unwrap();
    let request = RequestText { draft: true, ..text(&head, "Words") };
    story.done(story.bot.write_request(BRANCH, None, &request)).unwrap();
    assert!(!story.state().infra().requests[0].draft);
}

#[test]
fn closing_says_why_closes_and_takes_the_branch_and_can_be_done_again() {
    let story = Story::new(SignIn::Token);
    let head = story.propose();
    let close = |story: &Story, expected: Option<&str>| {
        story.done(story.bot.close(BRANCH, expected, Some("1"), "Closed", "Because."))
    };
    close(&story, None).unwrap();
    {
        let mut state = story.state();
        let request = &state.infra().requests[0];
        assert_eq!((request.title.as_str(), request.body.as_str()), ("Closed", "Because."));
        assert_eq!(request.state, RequestState::Closed);
    }
    assert_eq!(story.head(BRANCH), Some(head.clone()));
    close(&story, Some(&head)).unwrap();
    assert_eq!(story.head(BRANCH), None);
    story.asked();
    close(&story, Some(&head)).unwrap();
    assert!(story.asked().iter().all(|line| line.method == "GET"), "all of it is done");
    // A branch without a request.
    let head = story.publish(None, "gpu: 0.25\n").unwrap();
    story.done(story.bot.close(BRANCH, Some(&head), None, "", "")).unwrap();
    assert_eq!(story.head(BRANCH), None);
}

#[test]
fn the_bot_has_one_comment_on_each_topic() {
    let story = Story::new(SignIn::Token);
    story.propose();
    // Somebody quotes the mark, and many talk.
    story.state().comment(BRANCH, KIM, &format!("{}\nHa", Topic::Status.mark()));
    for n in 0..120 {
        story.state().comment(BRANCH, ROBIN, &format!("Number {n}"));
    }
    let own = |story: &Story| -> Vec<String> {
        story.comments().into_iter().filter(|(author, _)| *author == BOT).map(|(_, text)| text).collect()
    };
    story.say(Topic::Status, Some("Done.")).unwrap();
    story.say(Topic::Edited, Some("Yours.")).unwrap();
    assert_eq!(
        own(&story),
        ["<!-- slicewright-topic:status -->\nDone.", "<!-- slicewright-topic:edited -->\nYours."]
    );
    story.asked();
    story.say(Topic::Status, Some("Done.")).unwrap();
    assert!(story.asked().iter().all(|line| line.method == "GET"));
    story.say(Topic::Status, Some("Done again.")).unwrap();
    assert_eq!(own(&story)[0], "<!-- slicewright-topic:status -->\nDone again.");
    story.say(Topic::Status, None).unwrap();
    story.say(Topic::Status, None).unwrap();
    assert_eq!(own(&story), ["<!-- slicewright-topic:edited -->\nYours."]);
    assert_eq!(story.comments().len(), 122);
}
