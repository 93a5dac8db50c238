//! Answers that get lost, arrive late, or say the wrong thing.

use serde_json::json;
use slicewright::forge::{ForgeError, Topic};

use super::story::{BRANCH, Story, noting, printed, reply, text};
use crate::world::forge::Reply;
use crate::world::forge::faults::{Fault, Faults};
use crate::world::forge::state::{BOT, RequestState, TOKEN};
use crate::world::repo::MAIN;

fn error(status: u16) -> Reply {
    Reply::json(status, &json!({ "message": "500 Internal Server Error" }))
}

/// In words, and as a fault.
type Lost = (&'static str, fn() -> Fault);

/// What may become of a write whose answer says nothing.
fn lost() -> [Lost; 4] {
    [
        ("done, and no answer", || Fault::DropAfter),
        ("done, and an error", || Fault::RefuseAfter(error(502))),
        ("done twice", || Fault::Twice),
        ("not done, and no answer", || Fault::Drop),
    ]
}

#[test]
fn a_branch_is_made_once_whatever_becomes_of_the_answer() {
    for (what, fault) in lost() {
        let story = Story::new();
        story.faults(vec![("POST", "/repository/commits", fault())]);
        let head = story.publish(&[("apps/a.yaml", Some("gpu: 0\n"))]).unwrap();
        assert_eq!(story.branch_head(), Some(head), "{what}");
        assert_eq!(story.forge.state().infra().git.log(&format!("{MAIN}..{BRANCH}")).len(), 1, "{what}");
    }
}

#[test]
fn a_branch_is_moved_once_whatever_becomes_of_the_answer() {
    for (what, fault) in lost().into_iter().take(3) {
        let story = Story::new();
        story.propose();
        story.faults(vec![("POST", "git-receive-pack", fault())]);
        let head = story.publish(&[("apps/a.yaml", Some("gpu: 7\n"))]).unwrap();
        assert_eq!(story.branch_head(), Some(head), "{what}");
    }
    let story = Story::new();
    let before = story.propose();
    story.faults(vec![("POST", "git-receive-pack", Fault::Refuse(error(500)))]);
    let result = story.publish(&[("apps/a.yaml", Some("gpu: 7\n"))]);
    assert!(matches!(result, Err(ForgeError::Unanswered { .. })), "{result:?}");
    assert_eq!(story.branch_head(), Some(before));
}

#[test]
fn git_is_tried_again_before_anything_less_safe_is() {
    for fault in [|| Fault::Drop, || Fault::Refuse(error(503))] {
        let story = Story::new();
        story.propose();
        story.writes();
        story.faults(vec![("GET", "info/refs", fault()), ("POST", "git-upload-pack", fault())]);
        let head = story.publish(&[("apps/a.yaml", Some("gpu: 7\n"))]).unwrap();
        assert_eq!(story.branch_head(), Some(head));
        assert!(!story.writes().iter().any(|line| line.ends_with("/repository/commits")));
    }
}

#[test]
fn a_reset_over_the_api_is_known_by_its_tree_when_the_answer_is_lost() {
    let story = Story::new();
    story.propose();
    let off = json!({ "message": "Git access over HTTP is not allowed" });
    story.faults(vec![
        ("GET", "info/refs", reply(403, &off)),
        ("POST", "/repository/commits", Fault::DropAfter),
    ]);
    let head = story.publish(&[("apps/a.yaml", Some("gpu: 7\n"))]).unwrap();
    assert_eq!(story.branch_head(), Some(head.clone()));
    // The answer never came, the program ended, and the next run asks for the same.
    story.forge.take_log();
    assert_eq!(story.publish(&[("apps/a.yaml", Some("gpu: 7\n"))]).unwrap(), head);
    assert_eq!(story.writes(), Vec::<String>::new());
}

#[test]
fn a_merge_request_is_opened_once_whatever_becomes_of_the_answer() {
    for (what, fault) in lost() {
        let story = Story::new();
        story.publish(&[("apps/a.yaml", Some("gpu: 0\n"))]).unwrap();
        story.faults(vec![("POST", "/merge_requests", fault())]);
        let url = story.request(None, &text("Share", "Body")).unwrap();
        assert!(url.ends_with("/merge_requests/1"), "{what}: {url}");
        assert_eq!(story.forge.state().infra().requests.len(), 1, "{what}");
    }
}

#[test]
fn one_that_a_copy_of_the_forge_does_not_show_yet_is_looked_for_again() {
    let story = Story::new();
    story.publish(&[("apps/a.yaml", Some("gpu: 0\n"))]).unwrap();
    let nobody = |_: &mut crate::world::forge::state::State| {};
    story.faults(vec![
        ("GET", "/merge_requests", Fault::After(Box::new(nobody))),
        ("POST", "/merge_requests", Fault::DropAfter),
        ("GET", "/merge_requests", Fault::Stale(Reply::json(200, &json!([])))),
    ]);
    story.request(None, &text("Share", "Body")).unwrap();
    assert_eq!(story.writes().iter().filter(|line| line.ends_with("/merge_requests")).count(), 1);
    assert_eq!(story.forge.state().infra().requests.len(), 1);
}

#[test]
fn an_edit_without_an_answer_is_looked_up() {
    for (what, fault) in lost().into_iter().take(3) {
        let story = Story::new();
        story.propose();
        story.faults(vec![("PUT", "/merge_requests/1", fault())]);
        story.request(Some("1"), &text("Share more", "Other")).unwrap();
        assert_eq!(story.forge.state().request_of(BRANCH).title, "Share more", "{what}");
    }
    let story = Story::new();
    story.propose();
    story.faults(vec![("PUT", "/merge_requests/1", Fault::Refuse(error(500)))]);
    let result = story.request(Some("1"), &text("Share more", "Other"));
    assert!(matches!(result, Err(ForgeError::Unanswered { .. })), "{result:?}");
}

#[test]
fn closing_goes_on_where_it_was_stopped() {
    for (method, part) in [("PUT", "/merge_requests/1"), ("POST", "git-receive-pack")] {
        for fault in [|| Fault::DropAfter, || Fault::Drop, || Fault::RefuseAfter(error(500))] {
            let story = Story::new();
            let head = story.propose();
            story.faults(vec![(method, part, fault())]);
            let close =
                || story.wait(story.bot.close(BRANCH, Some(&head), Some("1"), "Withdrawn", "No need"));
            if close().is_err() {
                close().unwrap();
            }
            assert_eq!(story.branch_head(), None);
            assert_eq!(story.forge.state().request_of(BRANCH).state, RequestState::Closed);
        }
    }
}

#[test]
fn a_comment_is_written_once_whatever_becomes_of_the_answer() {
    for (what, fault) in lost() {
        let story = Story::new();
        story.propose();
        story.faults(vec![("POST", "/notes", fault())]);
        let say = || story.wait(story.bot.say(BRANCH, "1", Topic::Status, Some("All is well.")));
        // One that certainly did not arrive is an error: the next pass says it.
        let first = say();
        assert_eq!(first.is_err(), what.starts_with("not done"), "{what}: {first:?}");
        say().unwrap();
        assert_eq!(story.forge.state().request_of(BRANCH).comments.len(), 1, "{what}");
    }
}

#[test]
fn a_forge_that_asks_to_wait_is_not_asked_again() {
    let story = Story::new();
    story.propose();
    for (status, seconds) in [(429, "7"), (403, "60")] {
        let limit =
            Reply { status, body: b"Retry later".to_vec(), ..Reply::default() }.with("retry-after", seconds);
        story.faults(vec![("GET", "/merge_requests", Fault::Refuse(limit))]);
        story.forge.take_log();
        let error = story.wait(story.look()).unwrap_err();
        let ForgeError::Busy { wait, .. } = error else { panic!("{error:?}") };
        assert_eq!(wait.unwrap().as_secs().to_string(), seconds);
    }
    let limit = Reply { status: 429, body: b"Retry later".to_vec(), ..Reply::default() };
    story.faults(vec![("PUT", "/merge_requests/1", Fault::Refuse(limit))]);
    let result = story.request(Some("1"), &text("Share more", "Other"));
    assert!(matches!(result, Err(ForgeError::Busy { .. })), "{result:?}");
}

#[test]
fn a_read_that_fails_is_repeated_and_what_is_cut_off_is_an_error() {
    let story = Story::new();
    let head = story.propose();
    story.faults(vec![
        ("GET", "/merge_requests", Fault::Refuse(error(500))),
        ("GET", "/branches", Fault::Drop),
        ("GET", "/tree", Fault::Refuse(error(503))),
    ]);
    assert_eq!(story.find().branch_head, Some(head));
    let cut = Reply { status: 200, body: b"[{\"iid\":1,".to_vec(), ..Reply::default() };
    story.faults(vec![("GET", "/merge_requests", Fault::Refuse(cut))]);
    let error = story.wait(story.look()).unwrap_err();
    assert!(error.to_string().contains("cannot be understood"), "{error}");
}

/// runatlantis/atlantis#4060: the credentials of git stood in the log.
#[test]
fn no_error_says_the_token() {
    let story = Story::new();
    story.propose();
    let base64_of_token = "Zm9yZ2UtdG9rZW4"; // of `forge-token`, at the offset that `oauth2:` gives it, or not.
    let mut seen = Vec::new();
    for (method, part) in
        [("GET", "/projects/"), ("GET", "/branches"), ("POST", "git-receive-pack"), ("GET", "info/refs")]
    {
        for status in [400, 401, 403, 404, 422] {
            let story = Story::new();
            story.propose();
            let echo = json!({ "message": "no" });
            story.faults(vec![(method, part, reply(status, &echo))]);
            if let Err(error) = story.publish(&[("apps/a.yaml", Some("gpu: 7\n"))]) {
                seen.push(printed(&error));
            }
            if let Err(error) = story.wait(story.look()) {
                seen.push(printed(&error));
            }
        }
    }
    assert!(seen.len() > 5);
    for text in seen {
        assert!(
            !text.contains(TOKEN) && !text.contains(base64_of_token) && !text.contains("oauth2:"),
            "{text}"
        );
    }
}

/// One pass as the engine makes it: what is there, the branch, the text, a comment.
fn pass(story: &Story) -> Result<(), ForgeError> {
    let found = story.wait(story.look())?;
    let head = story.wait(story.bot.publish(
        BRANCH,
        found.branch_head.as_deref(),
        &super::story::commit(&story.main(), &[("apps/a.yaml", Some("gpu: 0\n"))]),
    ))?;
    let open = found.request.filter(|request| request.open && request.by_bot).map(|request| request.id);
    story.request(open.as_deref(), &text("Share", &noting(&head)))?;
    let Some(request) = story.wait(story.look())?.request else { return Ok(()) };
    story.wait(story.bot.say(BRANCH, &request.id, Topic::Status, Some("All is well.")))
}

#[test]
fn whatever_goes_wrong_a_later_pass_ends_with_one_of_each() {
    for seed in 0..12 {
        let mut story = Story::new();
        story.forge.set_faults(Some(Faults::new(seed, 150)));
        for _ in 0..4 {
            drop(pass(&story));
            story.restart();
        }
        story.forge.set_faults(None);
        for _ in 0..2 {
            pass(&story).unwrap();
        }
        let mut state = story.forge.state();
        assert_eq!(state.infra().requests.len(), 1, "seed {seed}");
        let request = state.request_of(BRANCH).clone();
        assert_eq!((request.title.as_str(), request.state), ("Share", RequestState::Open), "seed {seed}");
        let said = request.comments.iter().filter(|comment| comment.author == BOT).count();
        assert_eq!(said, 1, "seed {seed}");
        assert_eq!(state.infra().git.log(&format!("{MAIN}..{BRANCH}")).len(), 1, "seed {seed}");
        assert_eq!(state.infra().git.changed_lines(MAIN, BRANCH), ["-gpu: 1", "+gpu: 0"], "seed {seed}");
    }
}
