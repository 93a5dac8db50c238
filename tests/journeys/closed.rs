//! What people close while the bot is at work, and what is left of it: told once and played on every kind of forge.

use slicewright::engine::pass::Ready;
use slicewright::forge::Commit;

use super::stage::{BRANCH, OTHER, Stage, on_every_forge, ready};
use crate::world::repo::MAIN;

/// An open proposal whose branch the bot has moved to another plan, and whose text it has not written yet.
fn moved(stage: &mut Stage) -> [String; 2] {
    stage.expect(Some(&ready("2g.10gb")), "open", "there is no proposal yet");
    let (head, base) = (stage.head().unwrap(), stage.git(|git| git.head(MAIN)).unwrap());
    let Ready { message, wanted, .. } = another();
    let commit = Commit { base, message, files: wanted.files };
    let bot = stage.another_bot();
    let moved = stage.wait(bot.publish(BRANCH, Some(&head), &commit)).unwrap();
    assert_eq!(stage.head().as_ref(), Some(&moved));
    [head, moved]
}

fn another() -> Ready {
    ready("3g.20gb")
}

#[test]
fn nothing_is_left_of_what_is_closed_between_branch_and_text() {
    on_every_forge(|stage| {
        let [head, moved] = moved(stage);
        stage.close();
        assert_eq!(stage.noted().head, head);
        stage.expect(Some(&another()), "record-declined", "a person closed it");
        assert_eq!((stage.head(), stage.noted().head), (None, moved.clone()));
        // The run is stopped before it deletes the branch.
        stage.git(|git| git.git(&["update-ref", &format!("refs/heads/{BRANCH}"), &moved]));
        stage.expect(Some(&another()), "record-declined", "a person closed it");
        assert_eq!(stage.head(), None);
        stage.expect(Some(&another()), "leave", "declined");
    });
}

#[test]
fn a_persons_commit_on_what_is_closed_between_branch_and_text_stays() {
    on_every_forge(|stage| {
        moved(stage);
        stage.person_commits(OTHER, "limits: {}\n");
        let theirs = stage.head();
        stage.close();
        stage.expect(Some(&another()), "record-declined", "a person closed it");
        assert_eq!(stage.head(), theirs);
    });
}
