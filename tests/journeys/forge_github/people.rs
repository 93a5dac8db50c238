//! Who people are, what they say, and what the bot answers.

use slicewright::forge::contact::{Contact, Person, Reaction, Role as Their};

use super::*;
use crate::world::forge::faults::{Fault, Faults};
use crate::world::forge::state::{ALEX, BOT, KIM, ROBIN, Role};

pub(super) fn person(id: u64, login: &str) -> Person {
    Person { id, login: login.to_owned() }
}

impl Story {
    pub(super) fn contact(&self) -> &dyn Contact {
        self.bot.contact().expect("a forge has people")
    }

    fn role(&self, id: u64, login: &str) -> Result<Their, ForgeError> {
        self.done(self.contact().role(&person(id, login)))
    }

    /// Everything goes wrong that is planned.
    fn faulty(&self, planned: Vec<(&'static str, &'static str, Fault)>) {
        self.forge.set_faults(Some(Faults::planned(planned)));
    }

    fn reactions(&self, comment: u64) -> Vec<(u64, String)> {
        let mut state = self.state();
        let comments = &state.infra().requests[0].comments;
        comments.iter().find(|one| one.id == comment).unwrap().reactions.clone()
    }
}

#[test]
fn a_role_is_what_github_says_at_that_moment() {
    for sign_in in [SignIn::Token, SignIn::App] {
        let story = Story::new(sign_in);
        assert_eq!(story.role(ROBIN, "robin").unwrap(), Their::Maintain);
        assert_eq!(story.role(KIM, "Kim").unwrap(), Their::Write);
        assert_eq!(story.role(ALEX, "alex").unwrap(), Their::Read);
        for (role, theirs) in [(Role::Triage, Their::Triage), (Role::Admin, Their::Admin)] {
            story.state().infra().roles.insert(KIM, role);
            assert_eq!(story.role(KIM, "kim").unwrap(), theirs, "nothing is remembered");
        }
        story.state().infra().roles.remove(&KIM);
        assert_eq!(story.role(KIM, "kim").unwrap(), Their::None);
        assert_eq!(story.role(99, "nobody").unwrap(), Their::None);
    }
}

#[test]
fn a_role_of_the_organizations_own_counts_as_what_it_was_made_from() {
    let story = Story::new(SignIn::Token);
    story.state().github.own_roles.insert(KIM, "gpu-reviewer".to_owned());
    assert_eq!(story.role(KIM, "kim").unwrap(), Their::Write);
    story.state().infra().roles.insert(KIM, Role::Triage);
    assert_eq!(story.role(KIM, "kim").unwrap(), Their::Read);
}

#[test]
fn a_role_that_cannot_be_found_out_is_no_role() {
    let story = Story::new(SignIn::Token);
    // The name was given up, and Kim took it.
    let taken = story.role(777, "kim").unwrap_err();
    assert!(taken.to_string().contains("does not stand for account 777"), "{taken}");
    let said =
        |status, body: serde_json::Value| Fault::Refuse(crate::world::forge::Reply::json(status, &body));
    let whom = serde_json::json!({"id": KIM, "login": "kim", "type": "User"});
    for answer in [
        said(403, serde_json::json!({"message": "Forbidden"})),
        said(429, serde_json::json!({"message": "Too many requests"})),
        said(200, serde_json::json!({"permission": "godlike", "role_name": "godlike", "user": whom})),
        said(200, serde_json::json!({"permission": "admin", "role_name": "admin", "user": null})),
        said(200, serde_json::json!([])),
    ] {
        story.faulty(vec![("GET", "/permission", answer)]);
        assert!(story.role(KIM, "kim").is_err());
    }
    // An answer that is lost is asked for again.
    story.faulty(vec![("GET", "/permission", Fault::Drop)]);
    assert_eq!(story.role(KIM, "kim").unwrap(), Their::Write);
}

#[test]
fn comments_say_who_wrote_what_and_whether_it_was_changed() {
    let story = Story::new(SignIn::Token);
    story.propose();
    let first = story.state().comment(BRANCH, KIM, "slicewright help\r\nplease");
    story.say(Topic::Status, Some("All is well.")).unwrap();
    story.state().edit_comment(BRANCH, first, "slicewright rebuild\r\nplease");
    let robot = 901;
    {
        let mut state = story.state();
        let mut other = state.users[&KIM].clone();
        (other.id, other.login, other.is_bot) = (robot, "other[bot]".to_owned(), true);
        state.users.insert(robot, other);
        state.comment(BRANCH, robot, "@slicewright help");
    }
    let read = |after: Option<&str>| story.done(story.contact().comments("1", after)).unwrap();
    let all = read(None);
    let shown: Vec<_> =
        all.iter().map(|one| (one.author.as_ref().unwrap().id, one.is_bot, one.own)).collect();
    assert_eq!(shown, [(KIM, false, false), (BOT, false, true), (robot, true, false)]);
    assert_eq!((all[0].text.as_str(), all[0].edited), ("slicewright rebuild\nplease", Some(true)));
    assert_eq!(all[1].edited, Some(false));
    assert!(all.iter().all(|one| !one.system && !one.internal) && all[0].created < all[1].created);
    let later = read(Some(&all[1].id));
    assert_eq!(later.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), [all[2].id.as_str()]);
    let wrong = story.done(story.contact().comments("1", Some("x"))).unwrap_err();
    assert!(matches!(wrong, ForgeError::NotFound { .. }), "{wrong}");

    for n in 0..250 {
        story.state().comment(BRANCH, KIM, &format!("Talk {n}"));
    }
    let many = read(Some(&all[2].id));
    assert_eq!((many.len(), many[249].text.as_str()), (250, "Talk 249"));
}

#[test]
fn a_reaction_is_there_once_however_often_it_is_sent() {
    let story = Story::new(SignIn::App);
    story.propose();
    let comment = story.state().comment(BRANCH, KIM, "slicewright help");
    let id = comment.to_string();
    let react = |reaction| story.done(story.contact().react("1", &id, reaction));
    react(Reaction::Seen).unwrap();
    react(Reaction::Seen).unwrap();
    for fault in [Fault::Drop, Fault::DropAfter, Fault::Twice] {
        story.faulty(vec![("POST", "/reactions", fault)]);
        react(Reaction::Done).unwrap();
    }
    react(Reaction::Failed).unwrap();
    assert_eq!(story.reactions(comment), ["eyes", "rocket", "confused"].map(|name| (BOT, name.to_owned())));
    // It leaves the comment unchanged.
    let read = story.done(story.contact().comments("1", None)).unwrap();
    assert_eq!(read[0].edited, Some(false));
    let gone = story.done(story.contact().react("1", "1", Reaction::Seen)).unwrap_err();
    assert!(matches!(gone, ForgeError::NotFound { .. }), "{gone}");
}

#[test]
fn a_question_is_answered_once_whatever_becomes_of_the_answer() {
    let error = |status| crate::world::forge::Reply::json(status, &serde_json::json!({"message": "oops"}));
    let faults: [(bool, Fault); 6] = [
        (true, Fault::DropAfter),
        (true, Fault::RefuseAfter(error(502))),
        (false, Fault::Drop),
        (false, Fault::Refuse(error(500))),
        (true, Fault::Twice),
        (true, Fault::Late),
    ];
    for (arrives, fault) in faults {
        let story = Story::new(SignIn::Token);
        story.propose();
        story.faulty(vec![("POST", "/issues/1/comments", fault)]);
        let reply = || story.done(story.contact().reply("1", "4711", "I did."));
        assert_eq!(reply().is_ok(), arrives);
        reply().unwrap();
        // What arrived twice goes away with the next comment of the bot's.
        story.say(Topic::Status, Some("Done.")).unwrap();
        let said: Vec<_> = story.comments().into_iter().map(|(_, text)| text).collect();
        assert_eq!(said[0], "<!-- slicewright-reply:4711 -->\nI did.");
        assert_eq!(said.len(), 2, "{said:?}");
    }
}

#[test]
fn an_answer_is_told_from_others_and_from_what_people_forge() {
    let story = Story::new(SignIn::Token);
    story.propose();
    story.state().comment(BRANCH, KIM, "<!-- slicewright-reply:1 -->\nForged");
    story.say(Topic::Status, Some("Now.")).unwrap();
    for marker in ["1", "11", "1"] {
        story.done(story.contact().reply("1", marker, &format!("Answer {marker}"))).unwrap();
    }
    let said: Vec<_> =
        story.comments().into_iter().filter(|(by, _)| *by == BOT).map(|(_, text)| text).collect();
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[1].ends_with("Answer 1") && said[2].ends_with("Answer 11"));
    for marker in ["", "a b", "1 -->", "ü"] {
        assert!(story.done(story.contact().reply("1", marker, "x")).is_err(), "{marker}");
    }
}

#[test]
fn a_number_leads_to_a_branch_of_the_bots_and_to_no_other() {
    let story = Story::new(SignIn::Token);
    story.propose();
    let branch_of = |number: &str| story.done(story.contact().branch_of(number)).unwrap();
    assert_eq!(branch_of("1").as_deref(), Some(BRANCH));
    story.asked();
    assert_eq!(branch_of("1").as_deref(), Some(BRANCH));
    let asked: Vec<_> = story.asked().into_iter().map(|line| (line.method, line.status)).collect();
    assert_eq!(asked, [("GET".to_owned(), 304)], "one read, for news only");

    let (elsewhere, fork, issue) = {
        let mut state = story.state();
        let elsewhere = ["kim/topic", "slicewright", "slicewrights/dc1", MAIN]
            .map(|branch| state.open_by_kim(branch, "Tidy", ""));
        let fork = state.open_by_kim(BRANCH, "From a fork", "");
        state.github.forks.insert(fork, "alex/infra".to_owned());
        (elsewhere, fork, state.report("Broken"))
    };
    for number in elsewhere.into_iter().chain([fork, issue, 99]) {
        assert_eq!(branch_of(&number.to_string()), None, "#{number}");
    }
    assert_eq!(branch_of("x"), None);

    story.state().close(BRANCH);
    assert_eq!(branch_of("1").as_deref(), Some(BRANCH), "a closed one has its branch still");
}

#[test]
fn a_fork_that_is_gone_is_no_branch_of_the_bots() {
    let story = Story::new(SignIn::Token);
    story.propose();
    // The published schema does not say that `head.repo` is null then.
    let side =
        |repo: serde_json::Value| serde_json::json!({"ref": BRANCH, "sha": "0".repeat(40), "repo": repo});
    let pull = serde_json::json!({
        "number": 1, "node_id": "PR_1", "html_url": "https://example.com/", "title": "Share", "state": "closed",
        "updated_at": "2026-01-15T00:00:00Z", "head": side(serde_json::Value::Null),
        "base": side(serde_json::json!({"full_name": INFRA})),
    });
    story.faulty(vec![("GET", "/pulls/1", Fault::Refuse(crate::world::forge::Reply::json(200, &pull)))]);
    assert_eq!(story.done(story.contact().branch_of("1")).unwrap(), None);
}

#[test]
fn a_branch_that_cannot_be_found_out_is_an_error() {
    let story = Story::new(SignIn::Token);
    story.propose();
    let refused =
        crate::world::forge::Reply::json(403, &serde_json::json!({"message": "Resource not accessible"}));
    story.faulty(vec![("GET", "/pulls/1", Fault::Refuse(refused))]);
    assert!(story.done(story.contact().branch_of("1")).is_err());
}

#[test]
fn a_label_is_put_on_and_taken_off_and_the_others_stay() {
    let story = Story::new(SignIn::Token);
    story.propose();
    let there = || -> Vec<String> { story.state().infra().requests[0].labels.iter().cloned().collect() };
    let label = |on| story.done(story.contact().label("1", "slicewright/hold", on));
    story.state().infra().requests[0].labels.insert("gpu".to_owned());
    for _ in 0..2 {
        label(true).unwrap();
        assert_eq!(there(), ["gpu", "slicewright/hold"]);
    }
    for _ in 0..2 {
        label(false).unwrap();
        assert_eq!(there(), ["gpu"]);
    }
    // A person wrote it in their own way.
    story.state().infra().requests[0].labels.insert("Slicewright/Hold".to_owned());
    story.asked();
    label(true).unwrap();
    assert!(story.asked().iter().all(|line| line.method == "GET"), "it is on already");
    label(false).unwrap();
    assert_eq!(there(), ["gpu"]);

    let refused = story.done(story.contact().label("99", "slicewright/hold", true)).unwrap_err();
    assert!(matches!(refused, ForgeError::NotFound { .. }), "{refused}");
    let issue = story.state().report("Broken").to_string();
    let refused = story.done(story.contact().label(&issue, "slicewright/hold", true)).unwrap_err();
    assert!(matches!(refused, ForgeError::NotFound { .. }), "an issue is no merge request: {refused}");
}

#[test]
fn a_label_is_there_whatever_becomes_of_the_answer() {
    let oops = || crate::world::forge::Reply::json(502, &serde_json::json!({"message": "oops"}));
    for fault in [0, 1, 2, 3, 4] {
        let fault = || match fault {
            0 => Fault::Drop,
            1 => Fault::DropAfter,
            2 => Fault::Twice,
            3 => Fault::Refuse(oops()),
            _ => Fault::RefuseAfter(oops()),
        };
        let story = Story::new(SignIn::Token);
        story.propose();
        // The label itself is made first; that goes wrong too.
        story.faulty(vec![
            ("POST", "/repos/acme/infra/labels", fault()),
            ("POST", "/issues/1/labels", fault()),
        ]);
        story.done(story.contact().label("1", "slicewright/hold", true)).unwrap();
        assert!(story.state().infra().requests[0].labels.contains("slicewright/hold"));
        story.faulty(vec![("DELETE", "/issues/1/labels", fault())]);
        story.done(story.contact().label("1", "slicewright/hold", false)).unwrap();
        assert!(story.state().infra().requests[0].labels.is_empty());
    }
}

#[test]
fn there_is_no_place_for_files() {
    let story = Story::new(SignIn::Token);
    assert_eq!(story.done(story.contact().attach("a.png", b"x")).unwrap(), None);
    assert!(story.asked().is_empty());
}

#[test]
fn whatever_goes_wrong_there_is_one_answer_and_no_wrong_role() {
    for seed in 0..8 {
        let story = Story::new(SignIn::Token);
        story.propose();
        let comment = story.state().comment(BRANCH, KIM, "slicewright help").to_string();
        story.forge.set_faults(Some(Faults::new(seed, 200)));
        for _ in 0..4 {
            assert!(matches!(story.role(KIM, "kim"), Ok(Their::Write) | Err(_)), "seed {seed}");
            assert!(matches!(story.role(99, "nobody"), Ok(Their::None) | Err(_)), "seed {seed}");
            drop(story.done(story.contact().react("1", &comment, Reaction::Seen)));
            drop(story.done(story.contact().reply("1", &comment, "I did.")));
        }
        story.forge.set_faults(None);
        story.done(story.contact().reply("1", &comment, "I did.")).unwrap();
        // What arrived twice goes away with the next comment of the bot's.
        story.say(Topic::Status, Some("Done.")).unwrap();
        let answers =
            story.comments().into_iter().filter(|(by, text)| *by == BOT && text.ends_with("I did."));
        assert_eq!(answers.count(), 1, "seed {seed}");
        assert!(story.reactions(comment.parse().unwrap()).len() <= 1, "seed {seed}");
    }
}
