//! Whatever people did before: once the bot has passed, it passes again without a word.
//!
//! Which states can be reached is not listed but walked to: people and the bot act in an order that comes from a seed, and
//! after every pass a second one must leave all that anybody can see as it is, to the byte.
//! `SLICEWRIGHT_SETTLED_SEEDS=2000 cargo test --test main settled` walks further than every test run does.

use super::stage::{BRANCH, FILE, HOLD, Kind, OTHER, Stage, outgrown, ready};
use crate::world::forge::faults::Random;
use crate::world::forge::people::Merge;
use crate::world::repo::MAIN;

/// Seeds of every test run, over all kinds of forges.
const SEEDS: u64 = 36;

/// Steps of one walk.
const STEPS: usize = 12;

const SLICES: [&str; 3] = ["1g.5gb", "2g.10gb", "3g.20gb"];

#[test]
fn a_second_pass_writes_nothing_wherever_people_and_the_bot_have_come_to() {
    let n_seeds = std::env::var("SLICEWRIGHT_SETTLED_SEEDS").map_or(SEEDS, |text| text.parse().unwrap());
    for seed in 0..n_seeds {
        let kind = [Kind::Local, Kind::GitHub, Kind::GitLab][usize::try_from(seed % 3).unwrap()];
        let mut said = Vec::new();
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| walk(kind, seed, &mut said)));
        if let Err(why) = told {
            let text = why.downcast_ref::<String>().cloned();
            let text = text.or_else(|| why.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            let text = text.unwrap_or_default();
            panic!("seed {seed} on {kind:?}, after {said:?}: {text}");
        }
    }
}

fn walk(kind: Kind, seed: u64, said: &mut Vec<String>) {
    let mut stage = Stage::new(kind);
    let mut random = Random::new(seed ^ 0x0005_e771_ed00);
    for _ in 0..STEPS {
        if let Some(deed) = deed(&mut stage, &mut random) {
            said.push(deed.to_owned());
        }
        if random.below(3) > 0 {
            let slice = random.of(&SLICES);
            let ready = match random.below(8) {
                0 => None,
                1 => Some(outgrown(slice)),
                _ => Some(ready(slice)),
            };
            // What became of the last proposal is noted first; the next pass may open another one.
            for _ in 0..2 {
                let code = stage.pass(ready.as_ref()).action.code();
                said.push(format!("pass {slice}: {code}"));
                if !code.starts_with("record-") {
                    break;
                }
            }
            stage.expect_silence(ready.as_ref());
            stage.now += jiff::SignedDuration::from_mins(40);
        }
    }
}

/// What people do next, if they can.
fn deed(stage: &mut Stage, random: &mut Random) -> Option<&'static str> {
    let (open, branch) = (stage.has_open_request(), stage.head().is_some());
    let number = random.below(1_000);
    let merges =
        |stage: &Stage| stage.git(|git| git.try_git(&["merge-tree", "--write-tree", MAIN, BRANCH]).is_some());
    let deed = match random.below(18) {
        0 => (true, "restart"),
        1 => (true, "main moves"),
        2 => (true, "main changes the same file"),
        3 => (branch, "a commit beside"),
        4 => (branch, "a commit on the same file"),
        5 => (open, "closed"),
        6 => (open && branch && merges(stage), "merged"),
        7 => (open && branch && merges(stage), "squashed"),
        8 => (branch, "branch deleted"),
        9 => (open, "held"),
        10 => (open, "let go"),
        11 => (open, "another title"),
        12 => (open, "draft"),
        13 => (open, "no draft"),
        14 => (open && branch && stage.kind != Kind::Local, "approved"),
        15 => (true, "a day goes by"),
        16 => (true, "two months go by"),
        _ => (branch, "branch put on main"),
    };
    let (true, what) = deed else { return None };
    match what {
        "restart" => stage.restart(),
        "main moves" => stage.main_moves(OTHER, &format!("limits: {{}} # {number}\n")),
        "main changes the same file" => {
            stage.main_moves(FILE, &format!("limits:\n  nvidia.com/gpu: 1 # {number}\n"));
        }
        "a commit beside" => stage.person_commits(OTHER, &format!("limits: {{}} # by hand {number}\n")),
        "a commit on the same file" => {
            stage.person_commits(FILE, &format!("limits:\n  nvidia.com/gpu: 1 # by hand {number}\n"));
        }
        "closed" => stage.close(),
        "merged" => stage.merge(Merge::Commit),
        "squashed" => stage.merge(Merge::Squash),
        "branch deleted" => stage.delete_branch(),
        "held" => stage.set_labels(&[HOLD]),
        "let go" => stage.set_labels(&[]),
        "another title" => stage.set_title(&format!("Ours {number}")),
        "draft" => stage.set_draft(true),
        "no draft" => stage.set_draft(false),
        "approved" => stage.approve(),
        "a day goes by" => stage.now += jiff::SignedDuration::from_hours(24),
        "two months go by" => stage.now += jiff::SignedDuration::from_hours(24 * 61),
        _ => {
            let main = stage.git(|git| git.head(MAIN)).expect("there is a default branch");
            stage.put_branch(&main);
        }
    }
    Some(what)
}
