//! The life of a proposal, told once and played on every kind of forge.
//!
//! Comments name the reports of other bots' failures that a story is about.

use slicewright::engine::pass::Ready;
use slicewright::forge::Commit;
use slicewright_core::review::metadata::State;

use super::stage::{
    BRANCH, FILE, HOLD, OTHER, Stage, on_every_forge, on_forges_with_people, outgrown, ready,
};
use crate::world::forge::people::Merge;
use crate::world::repo::MAIN;

/// The plan of most stories.
const SLICE: &str = "2g.10gb";

/// A proposal that is open.
fn opened(stage: &mut Stage) {
    stage.expect(Some(&ready(SLICE)), "open", "there is no proposal yet");
}

/// Another plan than that of [`opened`].
fn another() -> Ready {
    ready("3g.20gb")
}

#[test]
fn a_first_finding_opens_a_merge_request() {
    on_every_forge(|stage| {
        opened(stage);
        let seen = stage.seen();
        assert!(seen.open && !seen.draft);
        assert_eq!(seen.title, "Share GPUs by 2g.10gb");
        assert!(seen.body.starts_with("The ranker gets a slice of 2g.10gb."), "{}", seen.body);
        assert_eq!(stage.commits(), ["Share GPUs by 2g.10gb"]);
        assert!(stage.file().contains("nvidia.com/mig-2g.10gb: 1"));
        let noted = stage.noted();
        assert_eq!((noted.state, noted.fingerprint.as_str()), (State::Open, "fingerprint-2g.10gb"));
        assert_eq!(Some(noted.head), stage.head());
    });
}

#[test]
fn without_a_finding_nothing_is_there() {
    on_every_forge(|stage| {
        stage.expect(None, "leave", "nothing to propose");
        assert_eq!((stage.head(), stage.n_requests()), (None, 0));
    });
}

/// Everything is on the forge: a bot that lost its disk knows as much as one that did not.
#[test]
fn a_bot_without_memory_goes_on_where_it_was() {
    on_every_forge(|stage| {
        opened(stage);
        stage.restart();
        stage.expect_silence(Some(&ready(SLICE)));
        stage.restart();
        stage.expect(Some(&another()), "update", "the plan changed");
    });
}

/// What a bot does all day: beside where the default branch stands, at most three reads for each proposal, none of which
/// counts against a limit.
#[test]
fn an_unchanged_proposal_costs_three_answers_that_say_as_before() {
    on_forges_with_people(|stage| {
        opened(stage);
        stage.fake().take_log();
        stage.pass(Some(&ready(SLICE)));
        let asked = stage.fake().take_log();
        assert!(asked.len() <= 4 && asked.iter().all(|line| line.status == 304), "{asked:?}");
    });
}

/// fluxcd/image-automation-controller#203: a bot that pushes equal trees makes a loop of commits.
#[test]
fn other_evidence_rewrites_the_text_and_leaves_the_branch() {
    on_every_forge(|stage| {
        opened(stage);
        let head = stage.head();
        let mut wanted = ready(SLICE);
        wanted.wanted.body.push_str("\n\nPeak 8,100 MiB.");
        stage.expect(Some(&wanted), "update", "the evidence changed");
        assert_eq!(stage.head(), head);
        assert!(stage.seen().body.contains("Peak 8,100 MiB."));
    });
}

#[test]
fn another_plan_replaces_the_one_commit_and_says_so_once() {
    on_every_forge(|stage| {
        opened(stage);
        let first = stage.head().unwrap();
        stage.expect(Some(&another()), "update", "the plan changed");
        stage.expect(Some(&ready("4g.20gb")), "update", "the plan changed");
        assert_eq!(stage.commits().len(), 1);
        assert!(stage.file().contains("4g.20gb"));
        let seen = stage.seen();
        assert_eq!(seen.title, "Share GPUs by 4g.20gb");
        assert_eq!(seen.comments.len(), 1, "{:?}", seen.comments);
        assert!(seen.comments[0].contains("**Updated:** the plan changed."), "{:?}", seen.comments);
        assert!(!seen.comments[0].contains(&first[..12]), "the newest change only: {:?}", seen.comments);
        assert_eq!(stage.n_requests(), 1);
    });
}

/// The forge itself knows who moved the branch: a run that was killed there leaves nothing to people.
#[test]
fn a_run_that_was_killed_between_branch_and_text_is_gone_on_with_whatever_the_plan_is_now() {
    on_every_forge(|stage| {
        opened(stage);
        let killed = another();
        let commit = Commit {
            base: stage.git(|git| git.head(MAIN)).unwrap(),
            message: killed.message.clone(),
            files: killed.wanted.files.clone(),
        };
        let bot = stage.another_bot();
        stage.wait(bot.publish(BRANCH, stage.head().as_deref(), &commit)).unwrap();
        stage.restart();
        stage.expect(Some(&ready("4g.20gb")), "update", "the plan changed");
    });
}

#[test]
fn a_base_that_moved_elsewhere_changes_nothing() {
    on_every_forge(|stage| {
        opened(stage);
        stage.main_moves(OTHER, "limits: {}\n");
        stage.expect_silence(Some(&ready(SLICE)));
    });
}

#[test]
fn a_base_that_moved_in_the_same_file_is_built_upon_anew() {
    on_every_forge(|stage| {
        opened(stage);
        stage.main_moves(FILE, "# Owned by search.\nlimits:\n  nvidia.com/gpu: 1\n");
        let mut wanted = ready(SLICE);
        let text = b"# Owned by search.\nlimits:\n  nvidia.com/mig-2g.10gb: 1\n".to_vec();
        wanted.wanted.files.insert(FILE.to_owned(), Some(text));
        stage.expect(Some(&wanted), "update", "the base branch changed in files of the proposal");
        let main = stage.git(|git| git.head(MAIN)).unwrap();
        assert_eq!(stage.git(|git| git.log(&format!("{main}..{BRANCH}"))).len(), 1);
        assert!(stage.git(|git| git.changed_lines(MAIN, BRANCH)).len() == 2);
    });
}

#[test]
fn what_cannot_be_merged_any_more_is_built_anew() {
    on_forges_with_people(|stage| {
        opened(stage);
        stage.main_moves(FILE, "limits:\n  nvidia.com/gpu: 2\n");
        stage.expect(Some(&ready(SLICE)), "update", "could not be merged into the base branch any more");
        assert!(stage.git(|git| git.try_git(&["merge-tree", "--write-tree", MAIN, BRANCH])).is_some());
    });
}

#[test]
fn a_commit_by_a_person_stops_the_bot_which_says_so_once() {
    on_every_forge(|stage| {
        opened(stage);
        stage.person_commits(FILE, "limits:\n  nvidia.com/gpu: 4\n");
        for ready in [Some(another()), None, Some(outgrown("3g.20gb"))] {
            stage.expect(ready.as_ref(), "stop-edited", "not the bot's");
        }
        assert!(stage.file().contains("nvidia.com/gpu: 4"));
        let seen = stage.seen();
        assert!(seen.open);
        assert_eq!(seen.comments.len(), 1, "{:?}", seen.comments);
        assert!(seen.comments[0].contains("**The bot leaves this to you:**"), "{:?}", seen.comments);
    });
}

/// renovatebot/renovate#20739: only the last author was looked at, and a person's commit below it was lost.
#[test]
fn a_persons_commit_below_one_of_the_bots_is_seen() {
    on_every_forge(|stage| {
        opened(stage);
        let own = stage.head().unwrap();
        stage.person_commits(OTHER, "limits: {}\n");
        // The bot's own commit again, on top of the person's.
        let person = stage.head().unwrap();
        stage.git(|git| {
            let raw = git.git(&["cat-file", "commit", &own]);
            let tree = git.git(&["rev-parse", &format!("{person}^{{tree}}")]);
            let lines = raw.lines().map(|line| match line.split_once(' ') {
                Some(("tree", _)) => format!("tree {}", tree.trim()),
                Some(("parent", _)) => format!("parent {person}"),
                _ => line.to_owned(),
            });
            let raw = lines.collect::<Vec<_>>().join("\n") + "\n";
            let top = git.git_with(&["hash-object", "-t", "commit", "-w", "--stdin"], &raw);
            git.git(&["update-ref", &format!("refs/heads/{BRANCH}"), top.trim()]);
        });
        stage.expect(Some(&another()), "stop-edited", &person[..12]);
        assert!(stage.git(|git| git.log(&format!("{MAIN}..{BRANCH}"))).iter().any(|one| one.sha == person));
    });
}

#[test]
fn a_branch_that_is_given_back_is_gone_on_with() {
    on_every_forge(|stage| {
        opened(stage);
        let own = stage.head().unwrap();
        stage.person_commits(FILE, "limits:\n  nvidia.com/gpu: 4\n");
        stage.expect(Some(&another()), "stop-edited", "not the bot's");
        stage.put_branch(&own);
        stage.expect(Some(&another()), "update", "the plan changed");
        let said = stage.seen().comments.concat();
        assert!(!said.contains("leaves this to you"), "it takes its comment away: {said}");
    });
}

/// renovatebot/renovate#982: the forge's own merge of the base was taken for a person's edit.
#[test]
fn the_button_that_updates_the_branch_is_nobodys_edit() {
    on_forges_with_people(|stage| {
        opened(stage);
        stage.main_moves(OTHER, "limits: {}\n");
        stage.robin_pushes(|git| git.update_from_main(BRANCH));
        stage.expect_silence(Some(&ready(SLICE)));
        stage.expect(Some(&another()), "update", "the plan changed");
    });
}

/// The same for the button that rebases: whoever presses it is the committer of what the bot wrote.
#[test]
fn the_button_that_rebases_the_branch_is_nobodys_edit() {
    on_forges_with_people(|stage| {
        opened(stage);
        stage.main_moves(OTHER, "limits: {}\n");
        stage.robin_pushes(|git| git.rebase_on_main(BRANCH));
        stage.expect_silence(Some(&ready(SLICE)));
        stage.expect(Some(&another()), "update", "the plan changed");
    });
}

#[test]
fn a_commit_of_the_bots_that_a_person_amended_is_a_persons_edit() {
    on_forges_with_people(|stage| {
        opened(stage);
        stage.main_moves(OTHER, "limits: {}\n");
        stage.robin_pushes(|git| {
            git.rebase_on_main(BRANCH);
            git.amend_as_human(BRANCH, FILE, "limits:\n  nvidia.com/gpu: 4\n");
        });
        stage.expect(Some(&another()), "stop-edited", "not the bot's");
    });
}

#[test]
fn a_merge_of_the_base_with_more_in_it_is_a_persons_edit() {
    on_forges_with_people(|stage| {
        opened(stage);
        stage.main_moves(OTHER, "limits: {}\n");
        stage.robin_pushes(|git| git.update_from_main(BRANCH));
        // The same commit with another tree.
        stage.git(|git| {
            let merge = git.head(BRANCH).unwrap();
            let other = git.commit_as_human("scratch", &[(FILE, "limits:\n  nvidia.com/gpu: 4\n")], "x");
            let tree = git.git(&["rev-parse", &format!("{other}^{{tree}}")]);
            let parents = git.git(&["rev-parse", &format!("{merge}^1"), &format!("{merge}^2")]);
            let parents: Vec<&str> = parents.lines().collect();
            let arguments =
                ["commit-tree", tree.trim(), "-m", "Merge main", "-p", parents[0], "-p", parents[1]];
            let evil = git.git(&arguments);
            git.git(&["update-ref", &format!("refs/heads/{BRANCH}"), evil.trim()]);
            git.delete_branch("scratch");
        });
        stage.expect(Some(&another()), "stop-edited", "not the bot's");
    });
}

#[test]
fn a_branch_that_a_person_put_somewhere_else_is_theirs() {
    on_every_forge(|stage| {
        opened(stage);
        let first = stage.head().unwrap();
        stage.expect(Some(&another()), "update", "the plan changed");
        stage.put_branch(&first);
        stage.expect(Some(&another()), "stop-edited", "where the bot left it");
        assert_eq!(stage.head(), Some(first));
    });
}

#[test]
fn a_merge_request_aimed_elsewhere_is_left_alone() {
    on_every_forge(|stage| {
        opened(stage);
        stage.git(|git| git.git(&["update-ref", "refs/heads/release", MAIN]));
        stage.retarget("release");
        stage.expect(Some(&another()), "stop-edited", "aimed it at `release` instead of `main`");
        stage.retarget(MAIN);
        stage.expect(Some(&another()), "update", "the plan changed");
    });
}

#[test]
fn a_persons_title_and_text_stay_while_the_plan_is_the_same() {
    on_every_forge(|stage| {
        opened(stage);
        stage.set_title("GPUs: share them");
        let body = stage.seen().body.replace("The ranker gets", "Our beloved ranker gets");
        stage.set_body(&body);
        let mut wanted = ready(SLICE);
        wanted.wanted.body.push_str("\n\nPeak 8,100 MiB.");
        stage.expect(Some(&wanted), "leave", "a person edited the text");
        assert_eq!(stage.seen().title, "GPUs: share them");
        stage.expect(Some(&another()), "update", "the plan changed");
        assert_eq!(stage.seen().title, "Share GPUs by 3g.20gb");
    });
}

#[test]
fn labels_are_the_bots_at_creation_and_peoples_from_then_on() {
    on_every_forge(|stage| {
        opened(stage);
        assert_eq!(stage.seen().labels, ["gpu".to_owned()].into());
        stage.set_labels(&["team-search"]);
        stage.expect(Some(&another()), "update", "the plan changed");
        assert_eq!(stage.seen().labels, ["team-search".to_owned()].into());
    });
}

#[test]
fn a_draft_becomes_ready_with_its_plan_and_a_persons_mark_stays() {
    on_every_forge(|stage| {
        let thin = Ready { draft: true, ..ready(SLICE) };
        stage.expect(Some(&thin), "open", "no proposal yet");
        assert!(stage.seen().draft);
        assert_eq!(stage.find().request.unwrap().title, "Share GPUs by 2g.10gb");
        stage.expect(Some(&another()), "update", "the plan changed");
        assert!(!stage.seen().draft);
        stage.set_draft(true);
        stage.expect(Some(&ready("4g.20gb")), "update", "the plan changed");
        assert!(stage.seen().draft, "a person marked it");
    });
}

#[test]
fn closing_is_a_decline_that_deletes_the_bots_own_branch() {
    on_every_forge(|stage| {
        opened(stage);
        stage.close();
        stage.expect(Some(&ready(SLICE)), "record-declined", "a person closed it");
        assert_eq!(stage.head(), None);
        let noted = stage.noted();
        assert_eq!(
            (noted.state, noted.closed_on.map(|day| day.to_string())),
            (State::Declined, Some("2026-01-15".into()))
        );
        assert!(stage.seen().body.contains("**Declined:**"));
        // Not with another plan either, nor after a loss of memory.
        stage.restart();
        stage.expect(Some(&another()), "leave", "declined on 2026-01-15");
        assert_eq!(stage.n_requests(), 1);
    });
}

/// renovatebot/renovate#2391: a person's branch was deleted.
#[test]
fn closing_keeps_a_branch_with_a_persons_work() {
    on_every_forge(|stage| {
        opened(stage);
        stage.person_commits(OTHER, "limits: {}\n");
        let head = stage.head();
        stage.close();
        stage.expect(Some(&ready(SLICE)), "record-declined", "a person closed it");
        assert_eq!(stage.head(), head);
    });
}

#[test]
fn deleting_the_branch_is_a_decline() {
    on_every_forge(|stage| {
        opened(stage);
        stage.delete_branch();
        stage.expect(Some(&ready(SLICE)), "record-declined", "deleted the branch");
        assert!(!stage.seen().open);
        stage.expect(Some(&ready(SLICE)), "leave", "declined");
    });
}

/// renovatebot/renovate#27960: a merge request that was opened again kept its approval for other content.
#[test]
fn a_decline_that_lapsed_makes_a_new_merge_request() {
    on_every_forge(|stage| {
        opened(stage);
        stage.close();
        stage.expect(Some(&ready(SLICE)), "record-declined", "a person closed it");
        let mut more = ready(SLICE);
        more.wanted.cards_freed = 3;
        stage.expect(Some(&more), "open", "it would free 3 GPUs now and 2 then");
        assert!(stage.seen().open && stage.head().is_some());
        if stage.kind != super::stage::Kind::Local {
            assert_eq!(stage.n_requests(), 2);
        }
    });
}

#[test]
fn a_decline_lapses_after_half_a_year() {
    on_every_forge(|stage| {
        opened(stage);
        stage.close();
        stage.expect(Some(&ready(SLICE)), "record-declined", "a person closed it");
        stage.now = "2026-07-13T12:00:00Z".parse().unwrap();
        stage.expect(Some(&ready(SLICE)), "leave", "declined on");
        stage.now = "2026-07-14T12:00:00Z".parse().unwrap();
        stage.expect(Some(&ready(SLICE)), "open", "it is 180 days old");
    });
}

#[test]
fn opening_again_is_a_wish() {
    on_every_forge(|stage| {
        opened(stage);
        stage.close();
        stage.expect(Some(&ready(SLICE)), "record-declined", "a person closed it");
        stage.reopen();
        stage.expect(Some(&another()), "open", "a person opened it again");
        assert!(stage.file().contains("3g.20gb"));
        assert_eq!(stage.n_requests(), 1);
        assert_eq!(stage.noted().state, State::Open);
    });
}

#[test]
fn a_finding_that_is_gone_withdraws_and_comes_back_as_a_new_one() {
    on_every_forge(|stage| {
        opened(stage);
        stage.expect(None, "withdraw", "no longer supports the change");
        let seen = stage.seen();
        assert!(!seen.open && seen.comments.concat().contains("**Withdrawn:**"), "{seen:?}");
        assert_eq!(stage.head(), None);
        stage.expect(Some(&ready(SLICE)), "open", "the finding is back");
        assert!(stage.seen().open);
    });
}

#[test]
fn a_person_who_did_it_by_hand_makes_it_superfluous() {
    on_every_forge(|stage| {
        opened(stage);
        stage.main_moves(OTHER, "limits: {}\n");
        stage.main_moves(FILE, &stage.file());
        let done = stage.pass(Some(&ready(SLICE)));
        assert!(["withdraw", "record-merged"].contains(&done.action.code()), "{done:?}");
        assert!(!stage.seen().open);
        stage.expect_silence(Some(&ready(SLICE)));
    });
}

#[test]
fn a_merge_is_noted_however_it_was_made() {
    for how in [Merge::Commit, Merge::Squash] {
        for delete in [false, true] {
            on_every_forge(|stage| {
                opened(stage);
                stage.merge(how);
                if delete {
                    stage.delete_branch();
                }
                stage.main_moves(OTHER, "limits: {}\n");
                stage.expect(Some(&ready(SLICE)), "record-merged", "on the base branch");
                assert_eq!(stage.noted().state, State::Merged);
                stage.restart();
                stage.expect_silence(Some(&ready(SLICE)));
                stage.expect_silence(None);
            });
        }
    }
}

#[test]
fn what_was_merged_and_taken_back_is_not_proposed_again() {
    on_every_forge(|stage| {
        opened(stage);
        stage.merge(Merge::Commit);
        stage.expect(Some(&ready(SLICE)), "record-merged", "on the base branch");
        stage.delete_branch();
        stage.main_moves(FILE, "limits:\n  nvidia.com/gpu: 1\n");
        stage.expect(Some(&ready(SLICE)), "leave", "taken back");
        stage.expect(Some(&another()), "open", "this is another one");
    });
}

/// smarkets/marge-bot#157: a push dropped the approvals.
#[test]
fn an_approved_branch_stays_as_it_was_seen() {
    on_forges_with_people(|stage| {
        opened(stage);
        stage.approve();
        let head = stage.head();
        stage.expect(Some(&another()), "leave", "a person approved it");
        assert_eq!(stage.head(), head);
    });
}

#[test]
fn an_approved_branch_that_would_do_harm_is_replaced() {
    on_forges_with_people(|stage| {
        opened(stage);
        stage.approve();
        stage.expect(Some(&outgrown("3g.20gb")), "update", "too small by now for search/ranker");
        assert!(stage.file().contains("3g.20gb"));
    });
}

#[test]
fn an_approval_of_an_older_head_holds_nothing_back() {
    on_forges_with_people(|stage| {
        opened(stage);
        stage.approve();
        stage.expect(Some(&outgrown("3g.20gb")), "update", "too small by now");
        if stage.kind == super::stage::Kind::GitHub {
            stage.expect(Some(&ready("4g.20gb")), "update", "the plan changed");
        }
    });
}

#[test]
fn a_label_holds_the_branch_and_harm_is_said_once() {
    on_every_forge(|stage| {
        opened(stage);
        stage.set_labels(&[HOLD]);
        let head = stage.head();
        stage.expect(Some(&another()), "leave", "held: it has the label `slicewright/hold`");
        stage.expect(Some(&outgrown("3g.20gb")), "warn", "too small by now for search/ranker");
        assert_eq!(stage.head(), head);
        let comments = stage.seen().comments;
        assert!(comments.concat().contains("**Do not merge this as it is:**"), "{comments:?}");
        stage.set_labels(&[]);
        stage.expect(Some(&outgrown("3g.20gb")), "update", "too small by now");
    });
}

#[test]
fn what_is_being_merged_is_not_touched() {
    on_forges_with_people(|stage| {
        opened(stage);
        stage.fake().state().request_of(BRANCH).merging = true;
        stage.expect(Some(&another()), "leave", "held: ");
    });
}

/// peter-evans/create-pull-request#4321: a branch without its merge request is found and taken up.
#[test]
fn a_run_stopped_after_the_branch_is_completed() {
    on_every_forge(|stage| {
        opened(stage);
        stage.forget_the_request();
        stage.expect(Some(&ready(SLICE)), "open", "a run was stopped in between");
        assert_eq!(stage.n_requests(), 1);
        stage.forget_the_request();
        stage.expect(Some(&another()), "open", "the change is another one by now");
        stage.forget_the_request();
        stage.expect(None, "withdraw", "no text");
        assert_eq!(stage.head(), None);
    });
}

#[test]
fn a_branch_of_that_name_by_a_person_is_not_taken() {
    on_every_forge(|stage| {
        stage.person_commits(FILE, "limits:\n  nvidia.com/gpu: 4\n");
        let head = stage.head();
        for ready in [Some(ready(SLICE)), None] {
            stage.expect(ready.as_ref(), "stop-edited", "was not made by the bot");
        }
        assert_eq!((stage.head(), stage.n_requests()), (head, 0));
    });
}

#[test]
fn a_merge_request_that_a_person_opened_from_the_bots_branch_is_theirs() {
    on_forges_with_people(|stage| {
        opened(stage);
        stage.forget_the_request();
        let text = "<!-- slicewright:e30 -->";
        stage.fake().state().open_by_kim(BRANCH, "Mine", text);
        stage.expect(Some(&another()), "leave", "a person opened a merge request from the bot's branch");
        stage.expect(None, "leave", "a person opened a merge request from the bot's branch");
        assert_eq!(stage.seen().body, text);
    });
}

#[test]
fn a_damaged_hidden_block_is_not_guessed_at() {
    on_every_forge(|stage| {
        opened(stage);
        stage.set_body("The block is gone.");
        stage.expect(Some(&another()), "leave", "hidden block is gone or damaged");
        stage.expect(None, "leave", "hidden block is gone or damaged");
    });
}

#[test]
fn two_bots_at_once_make_one_proposal() {
    on_every_forge(|stage| {
        let bot = stage.another_bot();
        let second = || assert_eq!(stage.pass_beside(Some(&ready(SLICE))).unwrap().action.code(), "open");
        let done = stage.pass_of(bot.as_ref(), Some(&ready(SLICE)), second).unwrap();
        assert_eq!(done.action.code(), "leave", "{done:?}");
        assert_eq!((stage.n_requests(), stage.commits().len()), (1, 1));
        stage.expect_silence(Some(&ready(SLICE)));
    });
}

#[test]
fn what_changes_between_look_and_write_is_seen() {
    on_every_forge(|stage| {
        opened(stage);
        let bot = stage.another_bot();
        let meanwhile = || stage.person_commits(OTHER, "limits: {}\n");
        let done = stage.pass_of(bot.as_ref(), Some(&another()), meanwhile).unwrap();
        assert_eq!(done.action.code(), "leave", "{done:?}");
        assert_eq!(stage.commits()[0], "By hand");
        stage.expect(Some(&another()), "stop-edited", "not the bot's");
    });
}

#[test]
fn what_is_closed_between_look_and_write_stays_closed() {
    on_every_forge(|stage| {
        opened(stage);
        let bot = stage.another_bot();
        let done = stage.pass_of(bot.as_ref(), Some(&another()), || stage.close()).unwrap();
        assert_eq!(done.action.code(), "leave", "{done:?}");
        assert!(!stage.seen().open && stage.file().contains(SLICE));
        stage.expect(Some(&another()), "record-declined", "a person closed it");
    });
}

/// handarbeit/fabrik#1083, k1LoW/ghdag PR 12: two bots that take back each other's work.
#[test]
fn a_quarrel_ends() {
    on_every_forge(|stage| {
        opened(stage);
        let slices = ["3g.20gb", SLICE];
        let codes: Vec<_> = (0..7).map(|n| stage.pass(Some(&ready(slices[n % 2]))).action.code()).collect();
        assert_eq!(codes, ["update", "update", "update", "update", "update", "leave", "leave"]);
        stage.now = "2026-01-15T13:00:01Z".parse().unwrap();
        assert_eq!(stage.pass(Some(&another())).action.code(), "leave", "nothing differs: that stood last");
        assert_eq!(stage.pass(Some(&ready("4g.20gb"))).action.code(), "update");
    });
}

/// 2.5 of the rules for bots: a mark alone can be forged, so that somebody else's comment would be rewritten.
#[test]
fn a_persons_comment_with_the_bots_mark_is_not_written() {
    on_forges_with_people(|stage| {
        opened(stage);
        let mark = slicewright::forge::Topic::Status.mark();
        let text = format!("{mark}\nMy own words.");
        stage.fake().state().comment(BRANCH, crate::world::forge::state::KIM, &text);
        stage.expect(Some(&another()), "update", "the plan changed");
        let comments = stage.seen().comments;
        assert_eq!(comments.len(), 2, "{comments:?}");
        assert_eq!(comments[0], text);
    });
}

/// gitlab-org/gitlab 26332, 505099, 346557: a line that starts with a slash is executed with the rights of the bot.
#[test]
fn no_text_of_the_bot_gives_the_forge_an_order() {
    on_every_forge(|stage| {
        let mut wanted = outgrown("3g.20gb");
        wanted.wanted.outgrown = vec!["x\n/close\n/merge".to_owned()];
        opened(stage);
        stage.set_labels(&[HOLD]);
        stage.pass(Some(&wanted));
        let seen = stage.seen();
        let lines = seen.body.lines().chain(seen.comments.iter().flat_map(|comment| comment.lines()));
        assert!(!lines.clone().any(|line| line.starts_with('/')), "{:?}", lines.collect::<Vec<_>>());
    });
}

#[test]
fn what_a_person_took_back_is_no_longer_said() {
    on_every_forge(|stage| {
        opened(stage);
        let own = stage.head().unwrap();
        stage.person_commits(FILE, "limits:\n  nvidia.com/gpu: 4\n");
        stage.expect(Some(&ready(SLICE)), "stop-edited", "not the bot's");
        stage.put_branch(&own);
        assert_eq!(stage.pass(Some(&ready(SLICE))).action.code(), "leave");
        assert_eq!(stage.seen().comments, [""; 0]);
        stage.expect_silence(Some(&ready(SLICE)));
    });
}

#[test]
fn a_warning_goes_with_its_reason() {
    on_every_forge(|stage| {
        opened(stage);
        stage.set_labels(&[HOLD]);
        stage.expect(None, "warn", "no longer supports");
        assert_eq!(stage.seen().comments.len(), 1);
        assert_eq!(stage.pass(Some(&ready(SLICE))).action.code(), "leave");
        assert_eq!(stage.seen().comments, [""; 0]);
    });
}

/// A person's no between look and write must not be written over.
#[test]
fn what_is_closed_while_the_bot_writes_stays_closed() {
    on_every_forge(|stage| {
        opened(stage);
        let forge = stage.another_bot();
        let (id, noted) = (stage.find().request.unwrap().id, stage.seen().body);
        stage.close();
        let request = slicewright::forge::RequestText {
            title: "Another".to_owned(),
            body: noted,
            base_branch: MAIN.to_owned(),
            ..Default::default()
        };
        let written = stage.wait(forge.write_request(BRANCH, Some(&id), &request));
        assert!(matches!(written, Err(slicewright::forge::ForgeError::Conflict { .. })), "{written:?}");
        assert!(!stage.seen().open && stage.seen().title != "Another");
        stage.expect(Some(&ready(SLICE)), "record-declined", "a person closed it");
    });
}

#[test]
fn a_renamed_default_branch_is_followed() {
    on_every_forge(|stage| {
        opened(stage);
        stage.rename_main("trunk", true);
        stage.restart();
        stage.expect_silence(Some(&ready(SLICE)));
        stage.expect(Some(&another()), "update", "the plan changed");
    });
}

#[test]
fn a_proposal_for_a_default_branch_of_before_makes_way_for_one_for_the_new() {
    on_every_forge(|stage| {
        opened(stage);
        stage.rename_main("trunk", false);
        stage.restart();
        let done = stage.pass(Some(&ready(SLICE)));
        assert_eq!(done.action.code(), "withdraw", "{done:?}");
        assert!(done.action.reason().contains("it is for `main`, and proposals are for `trunk` now"));
        stage.expect(Some(&ready(SLICE)), "open", "the finding is back");
        assert_eq!(stage.find().request.unwrap().base_branch.as_deref(), Some("trunk"));
    });
}

#[test]
fn a_default_branch_with_another_history_is_built_upon() {
    on_every_forge(|stage| {
        opened(stage);
        stage.rewrite_main();
        stage.restart();
        stage.expect(Some(&ready(SLICE)), "update", "another history");
        let main = stage.git(|git| git.head(MAIN)).unwrap();
        assert_eq!(stage.git(|git| git.log(&format!("{main}..{BRANCH}"))).len(), 1);
    });
}

#[test]
fn a_persons_commit_on_a_history_of_before_is_kept() {
    on_every_forge(|stage| {
        opened(stage);
        stage.person_commits(OTHER, "limits: {}\n");
        let head = stage.head();
        stage.rewrite_main();
        stage.restart();
        stage.expect(Some(&another()), "stop-edited", "not the bot's");
        assert_eq!(stage.head(), head);
    });
}

#[test]
fn a_closed_one_whose_hidden_block_is_gone_is_not_the_end() {
    on_every_forge(|stage| {
        opened(stage);
        stage.set_body("The block is gone.");
        stage.close();
        stage.expect(Some(&ready(SLICE)), "leave", "close the proposal and delete its branch");
        stage.delete_branch();
        stage.expect(Some(&ready(SLICE)), "open", "its hidden block and its branch are gone");
        assert!(stage.seen().open);
    });
}

#[test]
fn a_hidden_block_that_names_no_commit_is_only_a_persons_edit() {
    for head in ["main", "", "\0", "--help", "HEAD~1", "../../..", "x y", "é"] {
        on_every_forge(|stage| {
            opened(stage);
            let noted = slicewright_core::review::metadata::Metadata { head: head.into(), ..stage.noted() };
            stage.set_body(&noted.attach("Mine.", None));
            let done = stage.pass(Some(&another()));
            assert_eq!(done.action.code(), "stop-edited", "{done:?}");
        });
    }
}

#[test]
fn a_persons_further_work_is_not_closed_with_what_was_taken_over() {
    on_every_forge(|stage| {
        opened(stage);
        let text = stage.file();
        stage.person_commits(OTHER, "limits: {}\n");
        stage.main_moves(FILE, &text);
        stage.expect(Some(&ready(SLICE)), "stop-edited", "not the bot's");
        assert!(stage.seen().open);
    });
}

/// renovatebot/renovate#18676: opened and closed in turn, with a new merge request each time.
#[test]
fn a_finding_that_comes_and_goes_makes_no_merge_request_each_time() {
    on_every_forge(|stage| {
        for _ in 0..20 {
            stage.pass(Some(&ready(SLICE)));
            stage.pass(None);
        }
        assert!(stage.n_requests() <= 6, "{}", stage.n_requests());
        stage.now = "2026-01-15T13:00:01Z".parse().unwrap();
        stage.expect(Some(&ready(SLICE)), "open", "the finding is back");
    });
}

#[test]
fn a_branch_that_is_held_stays_when_it_is_opened_again() {
    on_every_forge(|stage| {
        opened(stage);
        stage.close();
        stage.expect(Some(&ready(SLICE)), "record-declined", "a person closed it");
        stage.reopen();
        stage.set_labels(&[HOLD]);
        let head = stage.head();
        stage.expect(Some(&another()), "leave", "held: ");
        assert_eq!(stage.head(), head);
    });
}

#[test]
fn closing_and_opening_again_and_again_ends_where_a_person_left_it() {
    on_every_forge(|stage| {
        opened(stage);
        for n in 0..4 {
            stage.close();
            stage.expect(Some(&ready(SLICE)), "record-declined", "a person closed it");
            stage.reopen();
            let wanted = if n % 2 == 0 { another() } else { ready(SLICE) };
            stage.expect(Some(&wanted), "open", "a person opened it again");
        }
        assert_eq!(stage.n_requests(), 1);
        assert!(stage.seen().open);
    });
}
