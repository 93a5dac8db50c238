//! What went wrong with the commands of other bots, by the reports about it.

use slicewright::engine::review::{Answer, Heard};
use slicewright_core::review::command::{self, Parsed};

use super::{BRANCH, DECLINED, on_both};
use crate::world::forge::state::{BOT, Role};

/// dependabot/dependabot-core#9147: a command of an App was refused and nobody knew why. Here programs are not heard at all,
/// whatever they may do in the repository, and the README says so.
#[test]
fn a_program_that_may_write_is_not_heard() {
    on_both(|talk| {
        let robot = 907;
        {
            let mut state = talk.fake.state();
            let mut other = state.users[&BOT].clone();
            (other.id, other.login) = (robot, "other[bot]".to_owned());
            state.users.insert(robot, other);
            state.infra().roles.insert(robot, Role::Maintain);
        }
        let before = (talk.words(), talk.body(), talk.has_label(DECLINED));
        let mut comment = talk.told(robot, "@slicewright pause");
        assert_eq!(talk.hear(&mut comment), Heard::Silence("no person wrote it"));
        assert_eq!(talk.obey(&comment), Answer::Silence("no person wrote it"));
        talk.fake.state().request_of(BRANCH).comments.pop();
        assert_eq!((talk.words(), talk.body(), talk.has_label(DECLINED)), before);
    });
}

/// conda-forge/conda-forge-webservices#1451: the bot answered its own comments. handarbeit/fabrik#1141: it mentioned another
/// bot in them, which answered in turn.
#[test]
fn no_answer_of_the_bot_asks_it_or_anybody_for_anything() {
    on_both(|talk| {
        talk.kim("slicewright help").done("| Command | Who |");
        talk.kim("slicewright status").done("**Where this");
        talk.kim("slicewright why").done("| 1 | `search/");
        talk.kim("@slicewright hlep").refused("Did you mean `help`?");
        talk.kim("@slicewright pause\n@slicewright set headroom=\"@other-bot pause\"")
            .refused("no percentage");
        talk.kim("@slicewright decline reason=\"@other-bot pause\"").done("declined on");
        let mut state = talk.fake.state();
        let request = state.request_of(BRANCH).clone();
        let own = request.comments.iter().filter(|comment| comment.author == BOT);
        let texts: Vec<&str> = own.map(|one| one.body.as_str()).chain([request.body.as_str()]).collect();
        assert!(texts.len() > 4, "{texts:?}");
        for text in texts {
            for handle in ["slicewright", "other-bot"] {
                assert_eq!(command::parse(text, handle), Parsed::Nothing, "{text}");
            }
            let plain = text.split('`').step_by(2);
            assert!(!plain.clone().any(|part| part.contains("@other-bot")), "a live mention in {text}");
        }
    });
}

/// renovatebot/renovate#22292: a label stayed that stood for a request, or its absence was an error.
#[test]
fn a_label_that_a_person_took_off_or_put_on_stops_no_command() {
    on_both(|talk| {
        talk.kim("slicewright decline").done("declined on 2026-01-15");
        talk.fake.state().request_of(BRANCH).labels.remove(DECLINED);
        talk.kim("slicewright resume").done("nothing differs");
        // Put on by hand it says nothing, and is taken off with the next word about it.
        talk.fake.state().request_of(BRANCH).labels.insert(DECLINED.to_owned());
        talk.kim("slicewright pause").done("it is paused");
        talk.kim("slicewright resume").done("nothing differs");
        assert!(!talk.has_label(DECLINED));
        assert_eq!(talk.noted().declined_on, None);
    });
}
