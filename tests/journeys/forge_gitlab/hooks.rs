//! Deliveries that did not arrive, and how the bot stands.

use slicewright::forge::ForgeError;
use slicewright::forge::contact::checkup::{Checkup, HookState};
use slicewright::forge::contact::{Delivery, HookOf, Role as Their};

use super::story::{Story, reply};
use crate::world::forge::faults::Fault;
use crate::world::forge::hooks::{Group, Hook, Schedule, Standing};
use crate::world::forge::state::{BOT, CLOCK, INFRA, KIM, ROBIN, Role, State, User};

const OURS: &str = "https://bot.example.com/hooks/gitlab";

/// A maintainer's token, and hooks: ours (1) and somebody else's (2).
fn with_hooks() -> Story {
    let story = Story::new();
    {
        let mut state = story.forge.state();
        state.infra().roles.insert(BOT, Role::Maintain);
        state.infra().hooks =
            vec![Hook::new(1, OURS), Hook::new(2, "https://other.example.com/hooks/gitlab")];
    }
    story
}

fn answers(state: &mut State, hook: u64, status: u16) {
    state.infra().hooks.iter_mut().find(|one| one.id == hook).unwrap().answers = status;
}

fn since(seconds: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(seconds).unwrap()
}

fn failed(story: &Story, from: i64) -> Vec<Delivery> {
    story.wait(story.contact().failed_deliveries("https://bot.example.com/", since(from))).unwrap()
}

fn keys(story: &Story) -> Vec<(String, String)> {
    failed(story, CLOCK).into_iter().map(|one| (one.key, one.outcome)).collect()
}

/// bors-ng/bors-ng#187: a webhook that was lost left its state stuck.
#[test]
fn what_did_not_arrive_is_found_and_sent_again() {
    let story = with_hooks();
    {
        let mut state = story.forge.state();
        state.tell(1, "arrived", "note_hooks");
        answers(&mut state, 1, 502);
        state.tell(1, "lost", "note_hooks");
        answers(&mut state, 1, 0);
        state.tell(1, "unheard", "merge_request_hooks");
        answers(&mut state, 2, 500);
        state.tell(2, "not ours", "push_hooks");
    }
    let words = |key: &str, outcome: &str| (key.to_owned(), outcome.to_owned());
    assert_eq!(keys(&story), [words("lost", "502"), words("unheard", "internal error")]);

    // GitLab waits for what comes of it, and says so.
    let lost = failed(&story, CLOCK).remove(0);
    let vain = story.wait(story.contact().redeliver(&lost)).unwrap_err();
    assert!(vain.to_string().contains("did not arrive (internal error)"), "{vain}");
    answers(&mut story.forge.state(), 1, 200);
    let lost = failed(&story, CLOCK).into_iter().find(|one| one.key == "lost").unwrap();
    story.wait(story.contact().redeliver(&lost)).unwrap();
    assert_eq!(keys(&story), [words("unheard", "internal error")]);

    // Without an answer the list says what became of it.
    let unheard = failed(&story, CLOCK).remove(0);
    story.faults(vec![("POST", "/resend", Fault::DropAfter)]);
    let unknown = story.wait(story.contact().redeliver(&unheard)).unwrap_err();
    assert!(matches!(unknown, ForgeError::Unanswered { .. }), "{unknown}");
    assert_eq!(keys(&story), []);
    let limit =
        reply(429, &serde_json::json!({"message": "This endpoint has been requested too many times."}));
    story.faults(vec![("POST", "/resend", limit)]);
    let busy = story.wait(story.contact().redeliver(&unheard)).unwrap_err();
    assert!(matches!(busy, ForgeError::Busy { .. }), "{busy}");
}

#[test]
fn hooks_of_the_group_are_seen_by_its_owners() {
    let story = with_hooks();
    let (ours, theirs) = (Hook { answers: 502, ..Hook::new(31, OURS) }, 5);
    {
        let mut state = story.forge.state();
        state.infra().hooks = vec![ours];
        state.tell(31, "lost", "note_hooks");
        state.tell(31, "of another project", "note_hooks");
        let mut hook = state.infra().hooks.remove(0);
        hook.attempts[1].repository = theirs;
        state.group = Some(Group { owners: [KIM].into(), hooks: vec![hook] });
    }
    // A project is looked at once.
    let mut story = story;
    story.restart();
    let seen = checkup(&story, Some(OURS));
    assert_eq!(
        (seen.hooks.len(), &seen.unseen[..]),
        (0, &["the webhooks of the group acme (for its owners)".to_owned()][..])
    );
    assert_eq!(keys(&story), [], "what it may not see is no failure");

    story.forge.state().group.as_mut().unwrap().owners.insert(BOT);
    let seen = checkup(&story, Some(OURS));
    let [hook] = seen.hooks.as_slice() else { panic!("{:?}", seen.hooks) };
    assert_eq!((hook.address.as_str(), hook.failed.as_deref()), (OURS, Some("502")));
    assert!(seen.unseen.is_empty());
    let [lost] = &failed(&story, CLOCK)[..] else { panic!("{:?}", failed(&story, CLOCK)) };
    assert_eq!(lost.hook, HookOf::Group { group: "acme".into(), hook: 31 });
    story.forge.state().group.as_mut().unwrap().hooks[0].answers = 200;
    story.wait(story.contact().redeliver(lost)).unwrap();
    assert_eq!(keys(&story), []);
}

#[test]
fn what_went_where_the_hook_does_not_point_any_more_is_not_sent_again() {
    let story = with_hooks();
    {
        let mut state = story.forge.state();
        answers(&mut state, 1, 502);
        state.tell(1, "lost", "note_hooks");
        state.infra().hooks[0].url = "https://bot.example.com/hooks/new".into();
    }
    assert_eq!(keys(&story), []);
}

#[test]
fn a_long_list_is_read_twenty_by_twenty_as_far_back_as_was_asked() {
    let story = with_hooks();
    {
        let mut state = story.forge.state();
        answers(&mut state, 1, 502);
        for n in 0..90 {
            state.tell(1, &format!("key {n}"), "note_hooks");
        }
    }
    story.forge.take_log();
    let all = failed(&story, CLOCK);
    assert_eq!((all.len(), all[0].key.as_str()), (90, "key 0"));
    let pages = || story.forge.take_log().iter().filter(|line| line.path.ends_with("/events")).count();
    assert_eq!(pages(), 5);
    let from = all[80].at.unwrap().as_second();
    assert_eq!(failed(&story, from).first().unwrap().key, "key 80");
    assert_eq!(pages(), 1);
}

#[test]
fn who_may_not_look_says_so() {
    let story = Story::new();
    let denied = story.wait(story.contact().failed_deliveries(OURS, since(CLOCK)));
    assert!(matches!(denied, Err(ForgeError::Denied { .. })), "{denied:?}");
}

fn checkup(story: &Story, address: Option<&str>) -> Checkup {
    story.wait(story.contact().checkup(address)).unwrap().unwrap()
}

#[test]
fn the_bot_knows_how_it_stands() {
    let story = with_hooks();
    {
        let mut state = story.forge.state();
        state.token_ends = Some("2026-02-01".into());
        state.token_scopes = Some(vec!["read_api".into()]);
        state.infra().protected.push("slicewright/dc1/*".into());
        answers(&mut state, 1, 0);
        state.tell(1, "lost", "note_hooks");
        state.infra().hooks[0].standing = Standing::Paused;
        state.users.get_mut(&ROBIN).unwrap().blocked = true;
        let schedule = |name: &str, active, owner| Schedule { name: name.to_owned(), active, owner };
        state.infra().schedules = vec![
            schedule("nightly", true, Some(KIM)),
            schedule("old", false, Some(KIM)),
            schedule("Robin's", true, Some(ROBIN)),
            schedule("nobody's", true, None),
        ];
    }
    let seen = checkup(&story, Some(OURS));
    assert_eq!(seen.account.as_ref().unwrap().id, BOT);
    assert_eq!((seen.repository.as_str(), seen.role), (INFRA, Some(Their::Maintain)));
    assert_eq!(seen.token_ends, Some("2026-02-01".parse().unwrap()));
    assert_eq!(seen.missing_scopes, ["api"]);
    assert_eq!(seen.protected, ["slicewright/dc1/*"]);
    let [hook] = seen.hooks.as_slice() else { panic!("{:?}", seen.hooks) };
    let until = "2026-01-15T10:00:00Z".parse().unwrap();
    assert_eq!((hook.address.as_str(), &hook.state), (OURS, &HookState::Paused(Some(until))));
    assert_eq!(hook.failed.as_deref(), Some("internal error"));
    let schedules: Vec<_> =
        seen.schedules.iter().map(|one| (one.name.as_str(), one.active, one.owner_left)).collect();
    assert_eq!(
        schedules,
        [("nightly", true, false), ("old", false, false), ("Robin's", true, true), ("nobody's", true, true)]
    );
    assert!(seen.obstacles.is_empty() && seen.unseen.is_empty());
}

#[test]
fn without_an_address_every_hook_is_shown_that_may_be_the_bots() {
    let story = with_hooks();
    {
        let mut state = story.forge.state();
        let pipelines = Hook { events: vec!["pipeline"], ..Hook::new(3, "https://ci.example.com/") };
        state.infra().hooks.push(pipelines);
        state.infra().hooks[1].standing = Standing::Off;
    }
    let seen = checkup(&story, None);
    let shown: Vec<_> =
        seen.hooks.iter().map(|hook| (hook.address.as_str(), hook.is_ours, &hook.state)).collect();
    let other = "https://other.example.com/hooks/gitlab";
    assert_eq!(shown, [(OURS, false, &HookState::On), (other, false, &HookState::Off)]);
    let seen = checkup(&story, Some(OURS));
    assert_eq!(seen.hooks.iter().map(|hook| hook.is_ours).collect::<Vec<_>>(), [true]);
}

#[test]
fn who_owns_a_schedule_is_gone_only_where_that_is_known() {
    let story = Story::new();
    let (boss, gone) = (901, 902);
    {
        let mut state = story.forge.state();
        for (id, login) in [(boss, "boss"), (gone, "gone")] {
            let user = User { id, login: login.to_owned(), ..state.users[&KIM].clone() };
            state.users.insert(id, user);
        }
        state.admins.insert(boss);
        let schedule = |owner| Schedule { name: "x".to_owned(), active: true, owner: Some(owner) };
        state.infra().schedules = [KIM, boss, gone, gone].map(schedule).into();
    }
    let left = || -> (Vec<bool>, Vec<String>) {
        let mut seen = checkup(&story, None);
        seen.unseen.retain(|what| what.contains("schedules"));
        (seen.schedules.iter().map(|one| one.owner_left).collect(), seen.unseen)
    };
    let whether =
        |name| format!("whether {name}, who owns pipeline schedules and is no member, is an administrator");
    // An administrator is no member either, and only administrators see who is one.
    assert_eq!(left(), (vec![false; 4], vec![whether("boss"), whether("gone")]));
    story.forge.state().admins.insert(BOT);
    assert_eq!(left(), (vec![false, false, true, true], vec![]));

    // What is refused is named, and everything else is looked at all the same.
    let members = "/members/all/12";
    story.faults(vec![("GET", members, reply(403, &serde_json::json!({"message": "403 Forbidden"})))]);
    let what = "what kim, who owns pipeline schedules, may do".to_owned();
    assert_eq!(left(), (vec![false, false, true, true], vec![what]));
}

#[test]
fn what_the_bot_lacks_is_said_and_what_it_may_not_see_is_no_failure() {
    let story = Story::new();
    let seen = checkup(&story, Some(OURS));
    assert_eq!((seen.role, seen.token_ends, &seen.scopes), (Some(Their::Write), None, &None));
    assert_eq!(seen.unseen, ["the protected branches (for maintainers)", "the webhooks (for maintainers)"]);

    story.forge.state().infra().roles.insert(BOT, Role::Read);
    let seen = checkup(&story, None);
    assert_eq!(seen.role, Some(Their::Triage));
    assert!(seen.obstacles[0].contains("make it a developer"), "{:?}", seen.obstacles);
    story.forge.state().infra().archived = true;
    assert!(checkup(&story, None).obstacles[0].contains("is archived"));
    story.forge.state().infra().roles.remove(&BOT);
    assert!(checkup(&story, None).obstacles[0].contains("no member"));
    story.forge.state().tokens.clear();
    assert!(checkup(&story, None).obstacles[0].contains("does not know the access token"));
}
