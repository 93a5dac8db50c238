//! Who people are, what they say, and what the bot answers.

use serde_json::json;
use slicewright::forge::contact::{Contact, Person, Reaction, Remark, Role as Their};
use slicewright::forge::{ForgeError, Topic};

use super::story::{BRANCH, Story, reply};
use crate::world::forge::faults::{Fault, Faults};
use crate::world::forge::state::{ALEX, BOT, Comment, KIM, ROBIN, Role};
use crate::world::repo::MAIN;

impl Story {
    pub(super) fn contact(&self) -> &dyn Contact {
        self.bot.contact().expect("a forge has people")
    }

    fn role(&self, id: u64) -> Result<Their, ForgeError> {
        self.wait(self.contact().role(&Person { id, login: "whatever".into() }))
    }

    fn read(&self, after: Option<&str>) -> Vec<Remark> {
        self.wait(self.contact().comments("1", after)).unwrap()
    }

    fn reactions(&self, comment: u64) -> Vec<(u64, String)> {
        let mut state = self.forge.state();
        let comments = &state.request_of(BRANCH).comments;
        comments.iter().find(|one| one.id == comment).unwrap().reactions.clone()
    }

    fn said(&self) -> Vec<String> {
        self.forge.state().request_of(BRANCH).comments.iter().map(|one| one.body.clone()).collect()
    }
}

#[test]
fn a_role_is_that_of_an_active_member_whatever_the_name() {
    let story = Story::new();
    assert_eq!(story.role(ROBIN).unwrap(), Their::Maintain);
    assert_eq!(story.role(KIM).unwrap(), Their::Write);
    assert_eq!(story.role(ALEX).unwrap(), Their::Triage);
    assert_eq!(story.role(99).unwrap(), Their::None);
    story.forge.state().infra().roles.insert(KIM, Role::Admin);
    assert_eq!(story.role(KIM).unwrap(), Their::Admin, "nothing is remembered");
    story.forge.state().infra().awaiting.insert(KIM);
    assert_eq!(story.role(KIM).unwrap(), Their::None);
    story.forge.state().users.get_mut(&ROBIN).unwrap().blocked = true;
    assert_eq!(story.role(ROBIN).unwrap(), Their::None);
}

#[test]
fn a_role_that_cannot_be_found_out_is_no_role() {
    let story = Story::new();
    for answer in [
        reply(403, &json!({"message": "403 Forbidden"})),
        reply(429, &json!({"message": "Retry later"})),
        reply(200, &json!({"id": KIM, "access_level": 40})),
        reply(200, &json!([])),
    ] {
        story.faults(vec![("GET", "/members/all/", answer)]);
        assert!(story.role(KIM).is_err());
    }
    story.faults(vec![("GET", "/members/all/", Fault::Drop)]);
    assert_eq!(story.role(KIM).unwrap(), Their::Write, "an answer that is lost is asked for again");
}

#[test]
fn comments_say_who_wrote_what_and_for_whom() {
    let story = Story::new();
    story.propose();
    let robot = 901;
    {
        let mut state = story.forge.state();
        let mut other = state.users[&KIM].clone();
        (other.id, other.login, other.is_bot) = (robot, "project_7_bot_1f".to_owned(), true);
        state.users.insert(robot, other);
        state.comment(BRANCH, KIM, "slicewright help\r\nplease");
        state.comment(BRANCH, robot, "slicewright help");
        let (id, now) = (state.new_id(), state.tick());
        let change = Comment { system: true, ..Comment::new(id, ROBIN, "changed the description", now) };
        let secret = Comment { internal: true, ..Comment::new(id + 1, ROBIN, "among us", now) };
        state.request_of(BRANCH).comments.extend([change, secret]);
        state.new_id();
    }
    story.wait(story.bot.say(BRANCH, "1", Topic::Status, Some("All is well."))).unwrap();
    let all = story.read(None);
    let shown: Vec<_> =
        all.iter().map(|one| (one.author.as_ref().unwrap().id, one.is_bot, one.own, one.system)).collect();
    assert_eq!(
        shown,
        [
            (KIM, false, false, false),
            (robot, true, false, false),
            (ROBIN, false, false, true),
            (ROBIN, false, false, false),
            (BOT, true, true, false)
        ]
    );
    assert_eq!(all[0].text, "slicewright help\nplease");
    assert_eq!(all.iter().map(|one| one.internal).collect::<Vec<_>>(), [false, false, false, true, false]);
    assert_eq!(story.read(Some(&all[2].id)), all[3..]);

    // Each account is looked at once, and the list is read whole.
    for n in 0..250 {
        story.forge.state().comment(BRANCH, KIM, &format!("Talk {n}"));
    }
    story.forge.take_log();
    assert_eq!(story.read(Some(&all[4].id)).len(), 250);
    let looks = story.forge.take_log().iter().filter(|line| line.path.contains("/users/")).count();
    assert_eq!(looks, 0);
}

#[test]
fn an_account_that_is_not_shown_is_nobody_whose_word_counts() {
    let story = Story::new();
    story.propose();
    story.forge.state().comment(BRANCH, KIM, "slicewright help");
    story.faults(vec![("GET", "/users/12", reply(404, &json!({"message": "404 User Not Found"})))]);
    assert!(story.read(None)[0].is_bot);
}

#[test]
fn whether_a_comment_was_changed_cannot_be_told_once_somebody_reacted() {
    let story = Story::new();
    story.propose();
    let comment = story.forge.state().comment(BRANCH, KIM, "slicewright help");
    assert_eq!(story.read(None)[0].edited, Some(false));
    story.wait(story.contact().react("1", &comment.to_string(), Reaction::Seen)).unwrap();
    assert_eq!(story.read(None)[0].edited, None);
}

#[test]
fn a_reaction_is_there_once_however_often_it_is_sent() {
    let story = Story::new();
    story.propose();
    let comment = story.forge.state().comment(BRANCH, KIM, "slicewright help");
    let id = comment.to_string();
    let react = |reaction| story.wait(story.contact().react("1", &id, reaction));
    react(Reaction::Seen).unwrap();
    // The second one is refused in the words for a comment that is not there.
    react(Reaction::Seen).unwrap();
    for fault in [Fault::Drop, Fault::DropAfter, Fault::Twice] {
        story.faults(vec![("POST", "/award_emoji", fault)]);
        react(Reaction::Done).unwrap();
    }
    react(Reaction::Failed).unwrap();
    assert_eq!(
        story.reactions(comment),
        ["eyes", "thumbsup", "thumbsdown"].map(|name| (BOT, name.to_owned()))
    );

    // Somebody else's reaction is none of the bot's, and a comment that is gone takes none.
    let (id, now) = (4_711, story.forge.state().tick());
    let mut change = Comment { system: true, ..Comment::new(id, ROBIN, "changed the title", now) };
    change.reactions.push((KIM, "eyes".to_owned()));
    story.forge.state().request_of(BRANCH).comments.push(change);
    for comment in ["4711", "5"] {
        let refused = story.wait(story.contact().react("1", comment, Reaction::Seen)).unwrap_err();
        assert!(matches!(refused, ForgeError::NotFound { .. }), "{refused}");
    }
}

#[test]
fn a_question_is_answered_once_whatever_becomes_of_the_answer() {
    let error = |status| crate::world::forge::Reply::json(status, &json!({"message": "oops"}));
    let faults: [(bool, Fault); 6] = [
        (true, Fault::DropAfter),
        (true, Fault::RefuseAfter(error(502))),
        (false, Fault::Drop),
        (false, Fault::Refuse(error(500))),
        (true, Fault::Twice),
        (true, Fault::Late),
    ];
    for (arrives, fault) in faults {
        let story = Story::new();
        story.propose();
        story.faults(vec![("POST", "/notes", fault)]);
        let answer = || story.wait(story.contact().reply("1", "4711", "I did."));
        assert_eq!(answer().is_ok(), arrives);
        answer().unwrap();
        // What arrived twice goes away with the next comment of the bot's.
        story.wait(story.bot.say(BRANCH, "1", Topic::Status, Some("Done."))).unwrap();
        let said = story.said();
        assert_eq!(said[0], "<!-- slicewright-reply:4711 -->\nI did.");
        assert_eq!(said.len(), 2, "{said:?}");
    }
}

#[test]
fn a_number_leads_to_a_branch_of_the_bots_and_to_no_other() {
    let story = Story::new();
    story.propose();
    let branch_of = |number: &str| story.wait(story.contact().branch_of(number)).unwrap();
    assert_eq!(branch_of("1").as_deref(), Some(BRANCH));
    story.forge.take_log();
    assert_eq!(branch_of("1").as_deref(), Some(BRANCH));
    let asked: Vec<_> = story.forge.take_log().into_iter().map(|line| (line.method, line.status)).collect();
    assert_eq!(asked, [("GET".to_owned(), 304)], "one read, for news only");

    let others = {
        let mut state = story.forge.state();
        let others = ["kim/topic", "slicewright", "slicewrights/dc1", MAIN, BRANCH]
            .map(|branch| state.open_by_kim(branch, "Tidy", ""));
        state.infra().requests.last_mut().unwrap().fork = Some(4_711);
        others
    };
    for number in others.into_iter().chain([99]) {
        assert_eq!(branch_of(&number.to_string()), None, "!{number}");
    }
    assert_eq!(branch_of("x"), None);

    story.forge.state().close(BRANCH);
    assert_eq!(branch_of("1").as_deref(), Some(BRANCH), "a closed one has its branch still");
}

#[test]
fn a_fork_that_is_gone_is_no_branch_of_the_bots() {
    let story = Story::new();
    story.propose();
    // GitLab's own schema does not say that the number of the project is null then.
    let gone = json!({"iid": 1, "title": "Share", "state": "closed", "target_branch": MAIN, "source_branch": BRANCH,
        "source_project_id": null});
    story.faults(vec![("GET", "/merge_requests/1", reply(200, &gone))]);
    assert_eq!(story.wait(story.contact().branch_of("1")).unwrap(), None);
    story.faults(vec![("GET", "/merge_requests/1", reply(403, &json!({"message": "403 Forbidden"})))]);
    assert!(story.wait(story.contact().branch_of("1")).is_err());
}

#[test]
fn a_label_is_put_on_and_taken_off_and_the_others_stay() {
    let story = Story::new();
    story.propose();
    let there =
        || -> Vec<String> { story.forge.state().infra().requests[0].labels.iter().cloned().collect() };
    let label = |on| story.wait(story.contact().label("1", "slicewright/hold", on));
    story.forge.state().infra().requests[0].labels.insert("gpu".to_owned());
    for _ in 0..2 {
        label(true).unwrap();
        assert_eq!(there(), ["gpu", "slicewright/hold"]);
    }
    for _ in 0..2 {
        label(false).unwrap();
        assert_eq!(there(), ["gpu"]);
    }
    // People wrote it in their own way; GitLab tells labels apart by their case.
    let spellings = ["SLICEWRIGHT/HOLD", "Slicewright/Hold"];
    story.forge.state().infra().requests[0].labels.extend(spellings.map(str::to_owned));
    story.writes();
    label(true).unwrap();
    assert_eq!(story.writes(), [""; 0], "it is on already");
    label(false).unwrap();
    assert_eq!(there(), ["gpu"]);

    let refused = story.wait(story.contact().label("1", "a,b", true)).unwrap_err();
    assert!(refused.to_string().contains("has a comma"), "{refused}");
    let refused = story.wait(story.contact().label("99", "a", true)).unwrap_err();
    assert!(matches!(refused, ForgeError::NotFound { .. }), "{refused}");
    assert_eq!(there(), ["gpu"]);
}

#[test]
fn a_label_is_there_or_the_caller_is_told() {
    let story = Story::new();
    story.propose();
    let oops = || crate::world::forge::Reply::json(502, &json!({"message": "oops"}));
    for (arrives, fault) in [
        (true, Fault::DropAfter),
        (true, Fault::RefuseAfter(oops())),
        (true, Fault::Twice),
        (false, Fault::Drop),
        (false, Fault::Refuse(oops())),
    ] {
        story.faults(vec![("PUT", "/merge_requests/1", fault)]);
        let put = story.wait(story.contact().label("1", "slicewright/hold", true));
        assert_eq!(put.is_ok(), arrives);
        let is_on = story.forge.state().infra().requests[0].labels.contains("slicewright/hold");
        assert_eq!(is_on, arrives);
        story.forge.state().infra().requests[0].labels.clear();
    }
}

#[test]
fn a_file_is_kept_byte_for_byte_and_shown_by_its_markdown() {
    let story = Story::new();
    let content = b"\x89PNG\r\n\x1a\n\r\n--slicewright\x00\xff\r\n";
    let shown = story.wait(story.contact().attach("before \"and\"\r\nafter.png", content)).unwrap().unwrap();
    let name = "before--and---after.png";
    assert_eq!(shown, format!("![before--and---after](/uploads/66dbcd21ec5d24ed6ea225176098d52b/{name})"));
    let kept = story.forge.state().infra().uploads.clone();
    assert_eq!(kept, [(name.to_owned(), content.to_vec())]);

    // It is sent once: without an answer there is none.
    story.faults(vec![("POST", "/uploads", Fault::DropAfter)]);
    let lost = story.wait(story.contact().attach("a.png", b"x")).unwrap_err();
    assert!(matches!(lost, ForgeError::Unanswered { .. }), "{lost}");
    assert_eq!(story.forge.state().infra().uploads.len(), 2);
    story.faults(vec![("POST", "/uploads", reply(413, &json!({"message": "413 Request Entity Too Large"})))]);
    assert!(story.wait(story.contact().attach("a.png", b"x")).is_err());
}

#[test]
fn whatever_goes_wrong_there_is_one_answer_and_no_wrong_role() {
    for seed in 0..8 {
        let story = Story::new();
        story.propose();
        let comment = story.forge.state().comment(BRANCH, KIM, "slicewright help").to_string();
        story.forge.set_faults(Some(Faults::new(seed, 200)));
        for _ in 0..4 {
            assert!(matches!(story.role(KIM), Ok(Their::Write) | Err(_)), "seed {seed}");
            assert!(matches!(story.role(99), Ok(Their::None) | Err(_)), "seed {seed}");
            drop(story.wait(story.contact().react("1", &comment, Reaction::Seen)));
            drop(story.wait(story.contact().reply("1", &comment, "I did.")));
        }
        story.forge.set_faults(None);
        story.wait(story.contact().reply("1", &comment, "I did.")).unwrap();
        // What arrived twice goes away with the next comment of the bot's.
        story.wait(story.bot.say(BRANCH, "1", Topic::Status, Some("Done."))).unwrap();
        let said = story.said();
        assert_eq!(said.iter().filter(|text| text.ends_with("I did.")).count(), 1, "seed {seed}: {said:?}");
        assert!(story.reactions(comment.parse().unwrap()).len() <= 1, "seed {seed}");
    }
}
