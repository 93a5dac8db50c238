//! When answers are lost, late, old or errors: nothing is done twice, and nothing of a person's is lost.

use serde_json::json;
use slicewright::forge::{Check, Conclusion};

use super::*;
use crate::world::forge::Reply;
use crate::world::forge::faults::{Fault, Faults};
use crate::world::forge::github::GraphQl;
use crate::world::forge::state::RequestState;

fn error(status: u16, message: &str) -> Reply {
    Reply::json(status, &json!({"message": message}))
}

impl Story {
    fn goes_wrong(&self, method: &'static str, part: &'static str, fault: Fault) {
        self.forge.set_faults(Some(Faults::planned(vec![(method, part, fault)])));
    }
}

#[test]
fn a_branch_that_was_moved_without_an_answer_was_moved() {
    for graphql in [GraphQl::Whole, GraphQl::Absent] {
        let story = Story::new(SignIn::Token);
        story.state().github.graphql = graphql;
        // So that it is known which way branches go.
        let head = story.propose();
        let (method, part) = match graphql {
            GraphQl::Whole => ("POST", "/graphql"),
            _ => ("PATCH", "/git/refs/"),
        };
        story.goes_wrong(method, part, Fault::DropAfter);
        let head = story.publish(Some(&head), "gpu: 0.25\n").unwrap();
        assert_eq!(story.head(BRANCH), Some(head.clone()));
        story.goes_wrong(method, part, Fault::RefuseAfter(error(502, "bad gateway")));
        let head = story.publish(Some(&head), "gpu: 0.125\n").unwrap();
        assert_eq!(story.head(BRANCH), Some(head.clone()));

        // Not carried out: said so, and the bot knows its own commit should it come to be after all.
        story.goes_wrong(method, part, Fault::Drop);
        let lost = story.publish(Some(&head), "gpu: 0.75\n");
        assert!(matches!(lost, Err(ForgeError::Unanswered { .. })), "{lost:?}");
        assert_eq!(story.head(BRANCH), Some(head));
    }
}

#[test]
fn a_branch_that_stands_where_it_was_was_not_moved_by_anybody_whatever_the_status_says() {
    let story = Story::new(SignIn::Token);
    story.state().github.graphql = GraphQl::Absent;
    let head = story.propose();
    let words = "Protected branch update failed for refs/heads/slicewright/dc1/a100.";
    story.goes_wrong("PATCH", "/git/refs/", Fault::Refuse(error(409, words)));
    is_blocked(story.publish(Some(&head), "gpu: 0.25\n"), "a branch protection rule");
    assert_eq!(story.head(BRANCH), Some(head));
}

#[test]
fn a_person_who_is_faster_keeps_the_branch() {
    for graphql in [GraphQl::Whole, GraphQl::Absent] {
        let story = Story::new(SignIn::Token);
        story.state().github.graphql = graphql;
        let head = story.propose();
        // Between the look and the write.
        let person = |state: &mut State| {
            state.infra().git.commit_as_human(BRANCH, &[("mine", "x\n")], "Mine");
        };
        story.goes_wrong("POST", "/git/commits", Fault::After(Box::new(person)));
        is_conflict(story.publish(Some(&head), "gpu: 0.25\n"));
        assert_eq!(story.state().infra().git.read(BRANCH, "mine").as_deref(), Some("x\n"), "{graphql:?}");
    }
    // The branch is to be deleted, and moves after the last look.
    let story = Story::new(SignIn::Token);
    let head = story.propose();
    let person = |state: &mut State| {
        state.infra().git.commit_as_human(BRANCH, &[("mine", "x\n")], "Mine");
    };
    story.goes_wrong("PATCH", "/pulls/1", Fault::After(Box::new(person)));
    is_conflict(story.done(story.bot.close(BRANCH, Some(&head), Some("1"), "t", "b")));
    assert!(story.head(BRANCH).is_some());
}

#[test]
fn a_pull_request_is_never_opened_twice() {
    for fault in [Fault::DropAfter, Fault::RefuseAfter(error(500, "oops")), Fault::Twice] {
        let story = Story::new(SignIn::Token);
        let head = story.publish(None, "gpu: 0.5\n").unwrap();
        story.state().infra().labels.insert("gpu".into());
        // The list to look it up in is old once, too.
        story.state().github.lists_that_lag = 1;
        story.goes_wrong("POST", "/pulls", fault);
        let request = RequestText { labels: vec!["gpu".into()], ..text(&head, "Words") };
        let url = story.done(story.bot.write_request(BRANCH, None, &request)).unwrap();
        assert!(url.ends_with("/pull/1"));
        assert_eq!(story.state().infra().requests.len(), 1);
    }
    let story = Story::new(SignIn::Token);
    let head = story.publish(None, "gpu: 0.5\n").unwrap();
    story.goes_wrong("POST", "/pulls", Fault::Late);
    let lost = story.done(story.bot.write_request(BRANCH, None, &text(&head, "Words")));
    story.forge.set_faults(None);
    story.done(story.bot.write_request(BRANCH, None, &text(&head, "Words"))).unwrap();
    assert_eq!(story.state().infra().requests.len(), 1, "{lost:?}");
}

#[test]
fn an_edit_without_an_answer_is_looked_up() {
    let story = Story::new(SignIn::Token);
    let head = story.propose();
    story.goes_wrong("PATCH", "/pulls/1", Fault::DropAfter);
    story.done(story.bot.write_request(BRANCH, Some("1"), &text(&head, "Other words."))).unwrap();
    story.goes_wrong("PATCH", "/pulls/1", Fault::Drop);
    let lost = story.done(story.bot.write_request(BRANCH, Some("1"), &text(&head, "More words.")));
    assert!(matches!(lost, Err(ForgeError::Unanswered { .. })), "{lost:?}");
    assert!(story.state().infra().requests[0].body.contains("Other words."));
    story.goes_wrong("PATCH", "/pulls/1", Fault::RefuseAfter(error(503, "later")));
    story.done(story.bot.close(BRANCH, Some(&head), Some("1"), "t", "b")).unwrap();
    assert_eq!(story.state().infra().requests[0].state, RequestState::Closed);
    assert_eq!(story.head(BRANCH), None);
}

#[test]
fn a_comment_is_made_once_and_one_too_many_goes() {
    let story = Story::new(SignIn::Token);
    story.propose();
    for (fault, words) in [(Fault::DropAfter, "One."), (Fault::RefuseAfter(error(500, "oops")), "Two.")] {
        story.goes_wrong("POST", "/comments", fault);
        story.say(Topic::Status, Some(words)).unwrap();
        story.forge.set_faults(None);
        assert_eq!(story.comments().len(), 1);
        story.say(Topic::Status, None).unwrap();
    }
    story.goes_wrong("POST", "/comments", Fault::Twice);
    story.say(Topic::Status, Some("Three.")).unwrap();
    assert_eq!(story.comments().len(), 2);
    story.say(Topic::Status, Some("Three.")).unwrap();
    assert_eq!(story.comments().len(), 1);
}

#[test]
fn limits_are_told_from_prohibitions() {
    let story = Story::new(SignIn::Token);
    story.propose();
    let limited = error(403, "You have exceeded a secondary rate limit").with("retry-after", "17");
    story.goes_wrong("GET", "/pulls", Fault::Refuse(limited));
    match story.done(story.look()) {
        Err(ForgeError::Busy { wait, .. }) => assert_eq!(wait.unwrap().as_secs(), 17),
        other => panic!("{other:?}"),
    }
    let limited = Reply::json(200, &json!({"errors": [{"type": "RATE_LIMITED", "message": "limit"}]}));
    story.goes_wrong("POST", "/graphql", Fault::Refuse(limited));
    let head = story.head(BRANCH);
    let busy = story.publish(head.as_deref(), "gpu: 0.25\n");
    assert!(matches!(busy, Err(ForgeError::Busy { .. })), "{busy:?}");
}

#[test]
fn the_token_goes_nowhere_else() {
    let story = Story::new(SignIn::Token);
    let files: Vec<(String, String)> = (0..20).map(|n| (format!("x{n}"), format!("{n}"))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    story.state().infra().git.commit_as_human(MAIN, &files, "Many");
    let elsewhere = Reply { status: 302, ..Reply::default() }.with("location", "http://127.0.0.1:9/archive");
    story.goes_wrong("GET", "/tarball/", Fault::Refuse(elsewhere));
    let head = story.done(story.bot.head()).unwrap();
    let refused = story.done(story.bot.read_tree(&head)).unwrap_err();
    assert!(refused.to_string().contains("does not follow"), "{refused}");
    story.goes_wrong("GET", "/tarball/", Fault::Refuse(Reply::json(200, &json!("no archive"))));
    let damaged = story.done(story.bot.read_tree(&head)).unwrap_err();
    assert!(damaged.to_string().contains("damaged"), "{damaged}");
    story.forge.set_faults(None);
    assert_eq!(story.tree().files.len(), 22);
}

#[test]
fn where_there_are_no_archives_files_are_read_one_by_one_up_to_a_limit() {
    let many = |n: usize| -> Vec<(String, String)> {
        (0..n).map(|n| (format!("x{n}.yaml"), format!("n: {n}\n"))).collect()
    };
    for (status, n_files) in [(404, 12), (403, 12), (404, 1_001)] {
        let files = many(n_files);
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let story = Story::with(SignIn::Token, &files);
        story.goes_wrong("GET", "/tarball/", Fault::Refuse(error(status, "No archives here")));
        let head = story.done(story.bot.head()).unwrap();
        let read = story.done(story.bot.read_tree(&head));
        if n_files > 1_000 {
            is_blocked(read, "let the bot's account download archives");
        } else {
            assert_eq!(read.unwrap().files.len(), n_files);
        }
    }
}

#[test]
fn a_token_that_may_not_see_statuses_is_told_the_way_out() {
    let story = Story::new(SignIn::Token);
    let main = story.head(MAIN).unwrap();
    let check = Check {
        name: "slicewright".to_owned(),
        conclusion: Conclusion::Passed,
        sentence: "It may be merged.".to_owned(),
        text: String::new(),
        url: None,
    };
    story.goes_wrong("GET", "/status", Fault::Refuse(error(404, "Not Found")));
    is_blocked(story.done(story.bot.check(&main, &check)), "set `checks: false`");
}

#[test]
fn whatever_goes_wrong_there_is_one_of_each_and_a_persons_work_stays() {
    for seed in 0..6 {
        let story = Story::new(SignIn::Token);
        let theirs =
            story.state().infra().git.commit_as_human("slicewright/dc1/theirs", &[("x", "y")], "Mine");
        story.forge.set_faults(Some(Faults::new(seed, 120)));
        for round in 0..4 {
            let words = format!("Round {round}.");
            let step = || -> Result<(), ForgeError> {
                let found = story.done(story.look())?;
                let content = format!("gpu: 0.{}\n", round + 1);
                let head = story.publish(found.branch_head.as_deref(), &content)?;
                let open = found.request.filter(|one| one.open).map(|one| one.id);
                let request = text(&head, &words);
                story.done(story.bot.write_request(BRANCH, open.as_deref(), &request))?;
                story.say(Topic::Status, Some(&words))
            };
            drop(step());
        }
        story.forge.set_faults(None);
        let mut state = story.state();
        assert!(state.infra().requests.len() <= 1, "seed {seed}");
        assert_eq!(state.infra().git.head("slicewright/dc1/theirs"), Some(theirs));
        let log = state.infra().git.log(&format!("{MAIN}..{BRANCH}"));
        assert!(log.len() <= 1, "seed {seed}: {log:?}");
    }
}
