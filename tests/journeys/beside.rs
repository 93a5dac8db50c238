//! What the bot shows beside merge requests: checks on commits, and the dashboard of a repository.

use slicewright::forge::{Check, Conclusion};

use super::stage::{FILE, HOLD, Kind, Stage, on_every_forge, on_forges_with_people, outgrown, ready};
use crate::world::forge::people::Merge;

const SLICE: &str = "2g.10gb";

/// What the forge shows on the head of the branch, or was said last about the last head.
fn shown(stage: &Stage) -> (String, String) {
    let head = stage.head().expect("there is a branch");
    let mut state = stage.fake().state();
    let last = state.infra().statuses.iter().rev().find(|one| one.commit == head);
    last.map_or_else(Default::default, |one| (one.state.clone(), one.sentence.clone()))
}

fn n_said(stage: &Stage) -> usize {
    stage.fake().state().infra().statuses.len()
}

#[test]
fn every_head_of_a_proposal_says_whether_it_may_be_merged() {
    on_forges_with_people(|stage| {
        stage.checks = true;
        stage.expect(Some(&ready(SLICE)), "open", "there is no proposal yet");
        let fine = |stage: &Stage| {
            let (state, sentence) = shown(stage);
            assert_eq!(state, "success");
            assert!(sentence.contains("frees 2 GPUs by MIG"), "{sentence}");
        };
        fine(stage);
        assert_eq!(n_said(stage), 1, "once for each commit");

        stage.expect(Some(&ready("3g.20gb")), "update", "the plan changed");
        fine(stage);
        assert_eq!(n_said(stage), 2);

        stage.set_labels(&[HOLD]);
        stage.expect(Some(&outgrown("4g.20gb")), "warn", "too small by now");
        let (state, sentence) = shown(stage);
        assert!(["failure", "failed"].contains(&state.as_str()), "{state}");
        assert!(sentence.starts_with("Do not merge: ") && sentence.contains("search/ranker"), "{sentence}");

        stage.set_labels(&[]);
        stage.expect(Some(&ready("3g.20gb")), "leave", "nothing differs");
        fine(stage);
    });
}

#[test]
fn what_people_changed_is_not_checked_and_stops_nobody() {
    on_forges_with_people(|stage| {
        stage.checks = true;
        stage.pass(Some(&ready(SLICE)));
        stage.person_commits(FILE, "limits:\n  nvidia.com/gpu: 4\n");
        stage.expect(Some(&ready(SLICE)), "stop-edited", "not the bot's");
        let (state, sentence) = shown(stage);
        match stage.kind {
            Kind::GitHub => {
                assert_eq!(state, "neutral");
                assert!(sentence.starts_with("Not checked: "), "{sentence}");
            }
            // It knows no such state, and green would be a lie.
            _ => assert_eq!(state, ""),
        }
    });
}

/// What was said about a commit is corrected when its meaning changes, and not made green.
#[test]
fn a_head_that_people_took_over_is_not_green_any_more() {
    on_forges_with_people(|stage| {
        stage.checks = true;
        stage.pass(Some(&ready(SLICE)));
        assert_eq!(shown(stage).0, "success");
        stage.git(|git| drop(git.git(&["branch", "release", "main"])));
        stage.retarget("release");
        stage.expect(Some(&ready(SLICE)), "stop-edited", "aimed it at `release`");
        let (state, sentence) = shown(stage);
        assert!(["neutral", "pending"].contains(&state.as_str()), "{state}");
        assert!(sentence.starts_with("Not checked: "), "{sentence}");
    });
}

/// The moment between two looks: a person's commit must not get the bot's word.
#[test]
fn a_push_while_the_bot_looks_earns_no_check() {
    on_forges_with_people(|stage| {
        stage.checks = true;
        stage.pass(Some(&ready(SLICE)));
        let bot = stage.another_bot();
        stage
            .pass_of(bot.as_ref(), Some(&ready("3g.20gb")), || {
                stage.person_commits(FILE, "limits:\n  nvidia.com/gpu: 4\n");
            })
            .unwrap();
        let (state, _) = shown(stage);
        assert!(["", "neutral"].contains(&state.as_str()), "{state}");
    });
}

/// A plan that is another one by now says nothing good about what was approved.
#[test]
fn what_stands_on_the_branch_is_not_praised_by_another_plan() {
    on_forges_with_people(|stage| {
        stage.checks = true;
        stage.pass(Some(&ready(SLICE)));
        stage.approve();
        let n = n_said(stage);
        let mut other = ready("3g.20gb");
        other.wanted.cards_freed = 9;
        stage.expect(Some(&other), "leave", "approved it");
        assert_eq!(n_said(stage), n);
        assert!(shown(stage).1.contains("frees 2 GPUs"), "{:?}", shown(stage));
    });
}

#[test]
fn a_withdrawn_head_is_no_longer_recommended() {
    on_forges_with_people(|stage| {
        stage.checks = true;
        stage.pass(Some(&ready(SLICE)));
        let head = stage.head().unwrap();
        stage.pass(None);
        let mut state = stage.fake().state();
        let last = state.infra().statuses.iter().rev().find(|one| one.commit == head).unwrap();
        assert!(["failure", "failed"].contains(&last.state.as_str()), "{last:?}");
        assert!(!last.text.contains("next run"), "it is closed, and nothing brings it up to date: {last:?}");
    });
}

/// A forged block must not earn a stranger's commit the bot's word.
#[test]
fn nothing_is_said_about_what_the_bot_does_not_know() {
    on_forges_with_people(|stage| {
        stage.checks = true;
        stage.pass(Some(&ready(SLICE)));
        let n = n_said(stage);
        stage.set_body("My own words.");
        stage.person_commits(FILE, "limits:\n  nvidia.com/gpu: 4\n");
        stage.expect(Some(&ready(SLICE)), "leave", "hidden block is gone");
        assert_eq!(n_said(stage), n);
        stage.merge(Merge::Commit);
        stage.pass(Some(&ready(SLICE)));
        assert_eq!(n_said(stage), n);
    });
}

#[test]
fn without_the_setting_no_check_is_made() {
    on_forges_with_people(|stage| {
        stage.pass(Some(&ready(SLICE)));
        assert_eq!(n_said(stage), 0);
    });
}

fn check(sentence: &str) -> Check {
    Check {
        name: "slicewright".to_owned(),
        conclusion: Conclusion::Failed,
        sentence: sentence.to_owned(),
        text: "Because.".to_owned(),
        url: Some("https://forge.example/1".to_owned()),
    }
}

#[test]
fn a_long_sentence_is_cut_where_the_forge_takes_less_and_said_once() {
    on_forges_with_people(|stage| {
        let main = stage.git(|git| git.head("main")).unwrap();
        let long = check(&"x".repeat(300));
        for _ in 0..2 {
            let bot = stage.another_bot();
            stage.wait(bot.check(&main, &long)).unwrap();
        }
        assert_eq!(n_said(stage), 1);
    });
}

#[test]
fn what_is_settled_is_said_only_where_something_else_was() {
    on_forges_with_people(|stage| {
        for granted in ["checks", "statuses"] {
            let main = stage.git(|git| {
                git.commit_as_human("main", &[("notes", granted)], "Note");
                git.head("main").unwrap()
            });
            stage.fake().state().github.granted = vec![granted];
            let last = || {
                let mut state = stage.fake().state();
                let of_main = state.infra().statuses.iter().rev().find(|one| one.commit == main);
                of_main.map(|one| (one.state.clone(), one.sentence.clone()))
            };
            let say = |conclusion, sentence: &str| {
                let bot = stage.another_bot();
                stage.wait(bot.check(&main, &Check { conclusion, ..check(sentence) })).unwrap();
                last()
            };
            let green = |sentence: &str| Some(("success".to_owned(), sentence.to_owned()));
            assert_eq!(say(Conclusion::Settled, "fine"), None);
            assert_ne!(say(Conclusion::Failed, "broken"), None);
            assert_eq!(say(Conclusion::Settled, "fine"), green("fine"));
            assert_eq!(say(Conclusion::Settled, "fine still"), green("fine"));
            assert_eq!(say(Conclusion::Passed, "good"), green("good"));
            assert_eq!(say(Conclusion::Settled, "fine"), green("good"));
        }
    });
}

/// actions/dependency-review-action#779: a text over the limit made the whole report fail.
#[test]
fn a_text_longer_than_the_forge_takes_is_cut_and_said() {
    on_forges_with_people(|stage| {
        let main = stage.git(|git| git.head("main")).unwrap();
        // Letters that are one character, two bytes, and two units of UTF-16.
        for (n, letter) in ["x", "ü", "🙂"].into_iter().enumerate() {
            let name = format!("slicewright-{n}");
            let check = Check { name, text: letter.repeat(100_000), ..check("too much") };
            let bot = stage.another_bot();
            stage.wait(bot.check(&main, &check)).unwrap();
        }
        assert_eq!(n_said(stage), 3);
        let mut state = stage.fake().state();
        for said in state.infra().statuses.iter().filter(|said| said.by_app) {
            assert!(said.text.len() > 30_000 && said.text.ends_with('…'), "{}", said.text.len());
        }
    });
}

/// runatlantis/atlantis#2685, #5228: a status that is there already was taken for a failure.
#[test]
fn another_sentence_for_the_same_outcome_is_no_failure() {
    on_forges_with_people(|stage| {
        let main = stage.git(|git| git.head("main")).unwrap();
        let bot = stage.another_bot();
        stage.wait(bot.check(&main, &check("first"))).unwrap();
        stage.wait(bot.check(&main, &check("second"))).unwrap();
    });
}

#[test]
fn an_app_without_checks_reports_a_status_and_without_either_says_what_it_lacks() {
    on_forges_with_people(|stage| {
        if stage.kind == Kind::GitLab {
            return;
        }
        let main = stage.git(|git| git.head("main")).unwrap();
        stage.fake().state().github.granted = vec!["statuses"];
        let bot = stage.another_bot();
        stage.wait(bot.check(&main, &check("first"))).unwrap();
        assert!(!stage.fake().state().infra().statuses[0].by_app);
        stage.fake().state().github.granted = vec![];
        let bot = stage.another_bot();
        let error = stage.wait(bot.check(&main, &check("second"))).unwrap_err().to_string();
        assert!(error.contains("*Checks* or *Commit statuses*"), "{error}");
    });
}

/// The text of the dashboard as people see it.
fn boards(stage: &Stage) -> Vec<(String, bool)> {
    let mut state = stage.fake().state();
    state.infra().issues.iter().map(|one| (one.body.clone(), one.open)).collect()
}

#[test]
fn there_is_one_dashboard_which_is_edited_in_place() {
    on_every_forge(|stage| {
        let show = |stage: &Stage, text: &str| {
            let bot = stage.another_bot();
            stage.wait(bot.show_board("GPU pools", text)).unwrap()
        };
        let first = show(stage, "One pool.").unwrap();
        assert_eq!(show(stage, "Two pools."), Some(first));
        let before = stage.everything();
        show(stage, "Two pools.");
        assert_eq!(stage.everything(), before, "it says so already");
        assert!(before.contains("Two pools.") && !before.contains("One pool."), "{before}");
    });
}

#[test]
fn a_dashboard_that_people_closed_stays_closed() {
    on_forges_with_people(|stage| {
        let bot = stage.another_bot();
        stage.wait(bot.show_board("GPU pools", "One pool.")).unwrap();
        stage.fake().state().infra().issues[0].open = false;
        assert_eq!(stage.wait(bot.show_board("GPU pools", "Two pools.")).unwrap(), None);
        let boards = boards(stage);
        assert!(boards.len() == 1 && boards[0].0.contains("One pool."), "{boards:?}");
    });
}

#[test]
fn a_second_dashboard_is_closed_and_a_strangers_is_left_alone() {
    on_forges_with_people(|stage| {
        let bot = stage.another_bot();
        stage.wait(bot.show_board("GPU pools", "One pool.")).unwrap();
        {
            let mut state = stage.fake().state();
            let infra = state.infra();
            let own = infra.issues[0].clone();
            for author in [own.author, crate::world::forge::state::KIM] {
                let number = infra.next_number();
                infra.issues.push(crate::world::forge::state::Issue { number, author, ..own.clone() });
            }
        }
        stage.wait(bot.show_board("GPU pools", "Two pools.")).unwrap();
        let open: Vec<bool> = boards(stage).into_iter().map(|(_, open)| open).collect();
        assert_eq!(open, [true, false, true], "that of Kim is hers");
        assert!(boards(stage)[0].0.contains("Two pools."));
    });
}
