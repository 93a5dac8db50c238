//! Deliveries that did not arrive, and how the bot stands.

use slicewright::forge::contact::checkup::{Checkup, HookState};
use slicewright::forge::contact::{HookOf, Role as Their};

use super::people::person;
use super::*;
use crate::world::forge::faults::{Fault, Faults};
use crate::world::forge::hooks::{Hook, Standing};
use crate::world::forge::state::{CLOCK, Role};

const OURS: &str = "https://bot.example.com/hooks/github";

/// The beginning of the forge's time.
fn start() -> jiff::Timestamp {
    jiff::Timestamp::from_second(CLOCK).unwrap()
}

/// Keys and outcomes of what failed.
fn failed(story: &Story, since: jiff::Timestamp) -> Vec<(String, String)> {
    let failed = story.done(story.contact().failed_deliveries("https://bot.example.com", since)).unwrap();
    failed.into_iter().map(|one| (one.key, one.outcome)).collect()
}

/// An administrator's token, and hooks: ours (1) and somebody else's (2).
fn with_hooks() -> Story {
    let story = Story::new(SignIn::Token);
    {
        let mut state = story.state();
        state.infra().roles.insert(BOT, Role::Admin);
        state.infra().hooks =
            vec![Hook::new(1, OURS), Hook::new(2, "https://bot.example.com.evil.example/hooks")];
    }
    story
}

fn answers(state: &mut State, hook: u64, status: u16) {
    state.infra().hooks.iter_mut().find(|one| one.id == hook).unwrap().answers = status;
}

/// bors-ng/bors-ng#187: a webhook that was lost left its state stuck.
#[test]
fn what_did_not_arrive_is_found_and_sent_again() {
    let story = with_hooks();
    {
        let mut state = story.state();
        state.tell(1, "arrived", "issue_comment");
        answers(&mut state, 1, 502);
        state.tell(1, "lost", "issue_comment");
        answers(&mut state, 1, 0);
        state.tell(1, "unheard", "pull_request");
        answers(&mut state, 2, 500);
        state.tell(2, "not ours", "push");
    }
    let words = |key: &str, outcome: &str| (key.to_owned(), outcome.to_owned());
    let (lost, unheard) =
        (words("lost", "Invalid HTTP Response: 502"), words("unheard", "failed to connect to host"));
    assert_eq!(failed(&story, start()), [lost.clone(), unheard.clone()]);

    // Sent again in vain it is still one delivery, and after it arrived none.
    let all = story.done(story.contact().failed_deliveries(OURS, start())).unwrap();
    story.done(story.contact().redeliver(&all[0])).unwrap();
    let again = story.done(story.contact().failed_deliveries(OURS, start())).unwrap();
    assert_eq!(again.len(), 2);
    assert!(again[1].id > all[1].id && again[1].key == "lost");
    answers(&mut story.state(), 1, 200);
    story.forge.set_faults(Some(Faults::planned(vec![("POST", "/attempts", Fault::DropAfter)])));
    story.done(story.contact().redeliver(&again[1])).unwrap();
    assert_eq!(failed(&story, start()), [unheard]);
    let gone = slicewright::forge::contact::Delivery { id: 5, ..again[1].clone() };
    assert!(matches!(story.done(story.contact().redeliver(&gone)), Err(ForgeError::NotFound { .. })));
}

#[test]
fn an_app_asks_as_itself_and_about_its_one_repository() {
    let story = Story::new(SignIn::App);
    {
        let mut state = story.state();
        state.infra().hooks = vec![Hook { answers: 502, ..Hook::new(1, OURS) }];
        state.tell(1, "ours", "issue_comment");
        state.tell(1, "of another repository", "issue_comment");
        let mut hook = state.infra().hooks.remove(0);
        hook.attempts[1].repository = 5;
        hook.answers = 200;
        state.github.app_hook = Some(hook);
    }
    assert_eq!(failed(&story, start()).len(), 1);
    let all = story.done(story.contact().failed_deliveries(OURS, start())).unwrap();
    assert_eq!((all[0].key.as_str(), &all[0].hook), ("ours", &HookOf::App));
    story.done(story.contact().redeliver(&all[0])).unwrap();
    assert_eq!(failed(&story, start()), []);
    assert!(story.asked().iter().all(|line| !line.path.contains("/repos/acme/infra/hooks/")));

    story.state().github.app_hook.as_mut().unwrap().url = "https://elsewhere.example.com/".into();
    assert_eq!(failed(&story, start()), []);
    story.state().github.app_hook = None;
    assert_eq!(failed(&story, start()), []);
}

#[test]
fn an_app_sees_the_hooks_of_the_repository_where_it_was_granted_that() {
    let mut story = Story::new(SignIn::App);
    {
        let mut state = story.state();
        state.infra().hooks = vec![Hook { answers: 502, ..Hook::new(1, OURS) }];
        state.tell(1, "lost", "issue_comment");
    }
    let lacks = "the webhooks of the repository (an App needs *Webhooks* with write access)";
    assert_eq!(failed(&story, start()), [], "what it may not see is no failure");
    assert_eq!(checkup(&story, Some(OURS)).unseen, [lacks]);

    story.state().github.granted.push("repository_hooks");
    story.restart(|_, _| {});
    let all = story.done(story.contact().failed_deliveries(OURS, start())).unwrap();
    assert_eq!((all[0].key.as_str(), &all[0].hook), ("lost", &HookOf::Repository(1)));
    let seen = checkup(&story, Some(OURS));
    let [hook] = seen.hooks.as_slice() else { panic!("{:?}", seen.hooks) };
    assert_eq!(hook.failed.as_deref(), Some("502 Invalid HTTP Response: 502"));
    answers(&mut story.state(), 1, 200);
    story.done(story.contact().redeliver(&all[0])).unwrap();
    assert_eq!(failed(&story, start()), []);

    // Both may point at the bot.
    story.state().github.app_hook = Some(Hook::new(2, OURS));
    assert_eq!(checkup(&story, Some(OURS)).hooks.len(), 2);
    assert_eq!(checkup(&story, None).hooks.len(), 1);
}

#[test]
fn a_long_list_is_read_page_by_page_as_far_back_as_was_asked() {
    let story = with_hooks();
    let mut middle = 0;
    {
        let mut state = story.state();
        answers(&mut state, 1, 502);
        for n in 0..250 {
            let id = state.tell(1, &format!("key {n}"), "issue_comment");
            let at = state.infra().hooks[0].attempts.last().unwrap().at;
            middle = if n == 230 { at } else { middle };
            assert!(id > 0);
        }
    }
    assert_eq!(failed(&story, start()).len(), 250);
    let pages = |story: &Story| story.asked().iter().filter(|line| line.path.contains("/deliveries")).count();
    assert_eq!(pages(&story), 3);
    let late = failed(&story, jiff::Timestamp::from_second(middle).unwrap());
    assert_eq!((late.len(), late[0].0.as_str()), (20, "key 230"));
    assert_eq!(pages(&story), 1);
}

#[test]
fn who_may_not_look_says_so() {
    let story = Story::new(SignIn::Token);
    let denied = story.done(story.contact().failed_deliveries(OURS, start()));
    assert!(matches!(denied, Err(ForgeError::NotFound { .. })), "{denied:?}");
}

fn checkup(story: &Story, address: Option<&str>) -> Checkup {
    story.done(story.contact().checkup(address)).unwrap().unwrap()
}

#[test]
fn the_bot_knows_how_it_stands() {
    let story = with_hooks();
    {
        let mut state = story.state();
        state.token_ends = Some("2026-02-01".into());
        state.token_scopes = Some(vec!["public_repo".into(), "read:org".into()]);
        state.infra().protected.push("slicewright/*".into());
        answers(&mut state, 1, 502);
        state.tell(1, "lost", "issue_comment");
        state.infra().hooks[0].standing = Standing::Off;
    }
    let seen = checkup(&story, Some(OURS));
    assert_eq!(seen.account, Some(person(BOT, "slicewright-bot")));
    assert_eq!((seen.repository.as_str(), seen.role), (INFRA, Some(Their::Admin)));
    assert_eq!(seen.token_ends, Some("2026-02-01".parse().unwrap()));
    assert_eq!(seen.protected, ["update"]);
    assert_eq!((seen.obstacles.len(), seen.unseen.len()), (0, 0));
    let [hook] = seen.hooks.as_slice() else { panic!("{:?}", seen.hooks) };
    assert_eq!((hook.address.as_str(), &hook.state), (OURS, &HookState::Off));
    assert_eq!(hook.failed.as_deref(), Some("502 Invalid HTTP Response: 502"));
    // Without an address nobody else's hooks are looked at.
    assert!(checkup(&story, None).hooks.is_empty());
}

#[test]
fn what_the_bot_lacks_is_said_and_what_it_may_not_see_is_no_failure() {
    let story = Story::new(SignIn::Token);
    let seen = checkup(&story, Some(OURS));
    assert_eq!((seen.role, seen.token_ends, &seen.scopes), (Some(Their::Write), None, &None));
    assert_eq!(seen.unseen, ["the webhooks of the repository (for administrators)"]);

    story.state().infra().roles.insert(BOT, Role::Read);
    let seen = checkup(&story, None);
    assert_eq!(seen.role, Some(Their::Read));
    assert!(seen.obstacles[0].contains("give it the role *Write*"), "{:?}", seen.obstacles);
    story.state().infra().roles.remove(&BOT);
    assert!(checkup(&story, None).obstacles[0].contains("may not see it"));

    let story = Story::new(SignIn::App);
    story.state().github.app_hook = Some(Hook { answers: 502, ..Hook::new(1, OURS) });
    let seen = checkup(&story, None);
    assert_eq!((seen.role, seen.hooks[0].failed.as_deref()), (Some(Their::Write), None));
    let story = Story::new(SignIn::App);
    story.state().github.installation = None;
    let seen = checkup(&story, None);
    assert!(seen.obstacles[0].contains("is not installed"), "{:?}", seen.obstacles);

    let story = Story::new(SignIn::Workflow);
    assert_eq!(checkup(&story, None).role, None, "a workflow's token does not say");
}
