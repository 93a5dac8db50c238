//! One comment about each topic.

use slicewright::forge::Topic;

use super::story::{BRANCH, Story};
use crate::world::forge::state::{BOT, KIM};

/// What the bot has said, in order.
fn said(story: &Story) -> Vec<String> {
    let mut state = story.forge.state();
    let comments = &state.request_of(BRANCH).comments;
    comments.iter().filter(|comment| comment.author == BOT).map(|comment| comment.body.clone()).collect()
}

fn say(story: &Story, topic: Topic, text: Option<&str>) {
    story.wait(story.bot.say(BRANCH, "1", topic, text)).unwrap();
}

#[test]
fn a_topic_has_one_comment_which_is_edited() {
    let story = Story::new();
    story.propose();
    say(&story, Topic::Edited, Some("Kim wrote here."));
    say(&story, Topic::Status, Some("All is well."));
    let marked = |topic: Topic, text: &str| format!("{}\n{text}", topic.mark());
    assert_eq!(
        said(&story),
        [marked(Topic::Edited, "Kim wrote here."), marked(Topic::Status, "All is well.")]
    );
    story.writes();
    say(&story, Topic::Edited, Some("Kim wrote here.\n"));
    assert_eq!(story.writes(), Vec::<String>::new(), "it says so already");
    say(&story, Topic::Edited, Some("Kim and Robin wrote here."));
    assert_eq!(said(&story)[0], marked(Topic::Edited, "Kim and Robin wrote here."));
    say(&story, Topic::Edited, None);
    say(&story, Topic::Edited, None);
    assert_eq!(said(&story), [marked(Topic::Status, "All is well.")]);
}

#[test]
fn its_comment_is_found_among_hundreds_and_nobody_elses_is_taken_for_it() {
    let story = Story::new();
    story.propose();
    let forged = format!("{}\nForged", Topic::Status.mark());
    story.forge.state().comment(BRANCH, KIM, &forged);
    say(&story, Topic::Status, Some("First"));
    for n in 0..250 {
        story.forge.state().comment(BRANCH, KIM, &format!("Talk {n}"));
    }
    story.forge.state().comment(BRANCH, BOT, &format!("A quote of {}", Topic::Status.mark()));
    say(&story, Topic::Status, Some("Second"));
    let said = said(&story);
    assert_eq!(said.len(), 2);
    assert!(said[0].ends_with("Second") && said[1].starts_with("A quote"));
    let mut state = story.forge.state();
    assert_eq!(state.request_of(BRANCH).comments[0].body, forged);
}

#[test]
fn a_comment_that_arrived_twice_is_one_again_the_next_time() {
    let story = Story::new();
    story.propose();
    let body = format!("{}\nTwice", Topic::Status.mark());
    story.forge.state().comment(BRANCH, BOT, &body);
    story.forge.state().comment(BRANCH, BOT, &body);
    say(&story, Topic::Status, Some("Twice"));
    assert_eq!(said(&story), [body]);
}
