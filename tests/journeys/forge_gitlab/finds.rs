//! What is there of a proposal, whatever people did.

use serde_json::json;

use super::story::{BRANCH, Story, noting, reply, text};
use crate::world::forge::people::Merge;
use crate::world::forge::state::{BOT, KIM, ROBIN, RequestState, Role, User};
use crate::world::repo::MAIN;

#[test]
fn nothing_is_found_where_nothing_is() {
    let found = Story::new().find();
    assert_eq!(found, slicewright::forge::Found::default());
}

#[test]
fn an_unchanged_proposal_costs_three_answers_that_say_as_before() {
    let story = Story::new();
    story.propose();
    let found = story.find();
    let main = story.wait(story.bot.head()).unwrap();
    let again = || {
        story.forge.take_log();
        let found = story.wait(story.bot.find(BRANCH, &main)).unwrap();
        let statuses: Vec<_> = story.forge.take_log().iter().map(|line| line.status).collect();
        (found, statuses)
    };
    assert_eq!(again(), (found.clone(), vec![304; 3]));

    let id = found.request.unwrap().id;
    story
        .wait(story.bot.close(BRANCH, None, Some(&id), "Declined", &noting(&found.branch_head.unwrap())))
        .unwrap();
    story.forge.state().infra().git.delete_branch(BRANCH);
    let found = story.find();
    assert_eq!(again(), (found, vec![404, 304]), "the branch is gone, and nobody approves what is closed");
}

#[test]
fn a_persons_commit_is_seen_with_both_its_addresses() {
    let story = Story::new();
    let head = story.propose();
    let theirs =
        story.forge.state().infra().git.commit_as_human(BRANCH, &[("apps/a.yaml", "gpu: 5\n")], "Better");
    let found = story.find();
    let commits: Vec<_> = found.commits.iter().map(|commit| commit.id.clone()).collect();
    assert_eq!(commits, [head, theirs.clone()], "oldest first");
    assert_eq!(found.commits[1].emails, ["robin@example.com", "robin@example.com"]);
    assert!(!found.commits[1].merges_base);
    assert_eq!(found.branch_head, Some(theirs));
    assert_eq!(found.changed["apps/a.yaml"].as_deref(), Some(&b"gpu: 5\n"[..]));
}

#[test]
fn a_merge_of_the_base_is_told_from_work() {
    let story = Story::new();
    story.propose();
    story.forge.state().infra().git.commit_as_human(MAIN, &[("other.yaml", "y: 1\n")], "Meanwhile");
    story.forge.state().update_branch(BRANCH);
    let found = story.find();
    assert_eq!(found.commits.iter().map(|commit| commit.merges_base).collect::<Vec<_>>(), [false, true]);
    assert_eq!(found.changed.keys().collect::<Vec<_>>(), ["apps/a.yaml"]);
    assert_eq!(found.base, Some(story.main()));

    // The same, with a line of somebody's in it.
    let mut state = story.forge.state();
    let git = &state.infra().git;
    let more =
        git.commit_as_human("scratch", &[("apps/a.yaml", "gpu: 0\n"), ("more.yaml", "z: 1\n")], "More");
    let tree = git.git(&["rev-parse", &format!("{more}^{{tree}}")]);
    let parents = ["-p", &format!("{BRANCH}^1"), "-p", MAIN];
    let mut arguments = vec!["commit-tree", tree.trim(), "-m", "Merge branch 'main'"];
    arguments.extend(parents);
    let made = git.git(&arguments);
    git.git(&["update-ref", &format!("refs/heads/{BRANCH}"), made.trim()]);
    drop(state);
    let found = story.find();
    assert_eq!(found.commits.iter().map(|commit| commit.merges_base).collect::<Vec<_>>(), [false, false]);
}

#[test]
fn what_became_of_its_files_on_the_base_is_said() {
    let story = Story::new();
    story.propose();
    story.forge.state().infra().git.commit_as_human(MAIN, &[("apps/b.yaml", "gpu: 9\n")], "Elsewhere");
    assert!(story.find().stale.is_empty());
    story.forge.state().infra().git.commit_as_human(MAIN, &[("apps/a.yaml", "gpu: 9\n")], "Here");
    let found = story.find();
    assert_eq!(found.stale, ["apps/a.yaml".to_owned()].into());
    assert!(found.request.unwrap().conflicted);
}

#[test]
fn the_branches_below_the_prefix_are_listed_whoever_made_them() {
    let story = Story::new();
    let branches = || story.wait(story.bot.branches()).unwrap().into_iter().collect::<Vec<_>>();
    assert_eq!(branches(), [""; 0]);
    story.propose();
    for branch in ["slicewright/gone/l4", "slicewrights/x", "kim/topic", "kim/slicewright/x"] {
        story.forge.state().infra().git.git(&["branch", branch, MAIN]);
    }
    assert_eq!(branches(), [BRANCH, "slicewright/gone/l4"]);
    story.forge.take_log();
    branches();
    let asked: Vec<_> = story.forge.take_log().into_iter().map(|line| (line.method, line.status)).collect();
    assert_eq!(asked, [("GET".to_owned(), 304)], "one listing, for news only");
    for n in 0..150 {
        story.forge.state().infra().git.git(&["branch", &format!("slicewright/many/{n}"), MAIN]);
    }
    assert_eq!(branches().len(), 152);
}

#[test]
fn approvals_holds_and_drafts_are_seen() {
    let story = Story::new();
    story.propose();
    let shown = || story.find().request.unwrap();
    assert_eq!((shown().approvals, shown().held, shown().conflicted), (0, None, false));
    story.forge.state().approve(BRANCH, KIM);
    story.forge.state().approve(BRANCH, ROBIN);
    story.forge.state().approve(BRANCH, BOT);
    assert_eq!(shown().approvals, 2, "the bot's own does not count");
    story.forge.state().infra().git.commit_as_human(BRANCH, &[("x", "y")], "More");
    assert_eq!(shown().approvals, 0, "they were for what is there no more");
    story.forge.state().request_of(BRANCH).labels.insert("slicewright/hold".into());
    assert!(shown().held.unwrap().contains("slicewright/hold"));
    story.forge.state().request_of(BRANCH).labels.clear();
    story.forge.state().request_of(BRANCH).merging = true;
    assert!(shown().held.unwrap().contains("merged by itself"));
    story.forge.state().request_of(BRANCH).draft = true;
    assert_eq!((shown().title.as_str(), shown().draft), ("Share", true));
    story.forge.state().request_of(BRANCH).target = "release".into();
    assert_eq!(shown().base_branch.as_deref(), Some("release"));
}

#[test]
fn an_approval_by_a_program_holds_nothing_back() {
    let story = Story::new();
    story.propose();
    let robot = 901;
    {
        let mut state = story.forge.state();
        let login = "project_7_bot_1f".to_owned();
        let user = User { id: robot, login, is_bot: true, ..state.users[&KIM].clone() };
        state.users.insert(robot, user);
        state.infra().roles.insert(robot, Role::Write);
        state.approve(BRANCH, robot);
    }
    let approvals = || story.find().request.unwrap().approvals;
    assert_eq!(approvals(), 0);
    story.forge.state().approve(BRANCH, KIM);
    assert_eq!(approvals(), 1);
    // Each account is looked at once.
    story.forge.take_log();
    assert_eq!(approvals(), 1);
    assert!(!story.forge.take_log().iter().any(|line| line.path.contains("/users/")));
}

#[test]
fn an_approval_by_whom_nobody_knows_holds_the_branch() {
    for status in [403, 404] {
        let story = Story::new();
        story.propose();
        story.forge.state().approve(BRANCH, KIM);
        story.faults(vec![("GET", "/users/12", reply(status, &json!({"message": "no"})))]);
        assert_eq!(story.find().request.unwrap().approvals, 1, "{status}");
    }
}

/// runatlantis/atlantis#4276: a merge request that GitLab had not worked out yet was given up on.
#[test]
fn a_conflict_that_is_still_worked_out_is_looked_at_again_and_then_is_none() {
    let story = Story::new();
    story.propose();
    story.forge.state().infra().git.commit_as_human(MAIN, &[("apps/a.yaml", "gpu: 9\n")], "Here");
    story.forge.state().request_of(BRANCH).unchecked = 2;
    assert!(story.find().request.unwrap().conflicted);
    story.forge.state().request_of(BRANCH).unchecked = 100;
    story.forge.take_log();
    assert!(!story.find().request.unwrap().conflicted);
    let looks = story.forge.take_log().iter().filter(|line| line.path.ends_with("/merge_requests/1")).count();
    assert_eq!(looks, 2);
}

#[test]
fn a_merged_change_is_known_however_it_was_merged() {
    for (how, branch_goes) in
        [(Merge::Commit, false), (Merge::Squash, false), (Merge::Commit, true), (Merge::Squash, true)]
    {
        let story = Story::new();
        story.propose();
        story.forge.state().merge(BRANCH, how);
        if branch_goes {
            story.forge.state().infra().git.delete_branch(BRANCH);
        }
        let found = story.find();
        assert!(found.merged, "{how:?} {branch_goes}");
        assert!(!found.request.unwrap().open);
    }
}

#[test]
fn a_change_that_a_person_made_by_hand_is_merged_too() {
    let story = Story::new();
    story.propose();
    story.forge.state().infra().git.commit_as_human(MAIN, &[("apps/a.yaml", "gpu: 0\n")], "By hand");
    assert!(story.find().merged);
    story.forge.state().close(BRANCH);
    story.forge.state().infra().git.delete_branch(BRANCH);
    let found = story.find();
    assert!(found.merged, "its head is noted in the text, and still readable");
    assert!(!found.request.unwrap().open);
}

#[test]
fn a_branch_that_was_put_back_is_no_merged_change() {
    let story = Story::new();
    story.propose();
    story.forge.state().infra().git.git(&["update-ref", &format!("refs/heads/{BRANCH}"), MAIN]);
    let found = story.find();
    assert!(!found.merged && found.changed.is_empty() && found.commits.is_empty());
}

#[test]
fn the_bots_open_one_comes_before_anybodys_and_those_before_its_last() {
    let story = Story::new();
    let head = story.propose();
    let first = story.find().request.unwrap();
    story.forge.state().close(BRANCH);
    let closed = story.find().request.unwrap();
    assert_eq!((closed.id.as_str(), closed.open, closed.by_bot), (first.id.as_str(), false, true));
    let kims = story.forge.state().open_by_kim(BRANCH, "Mine", &noting(&head));
    let shown = story.find().request.unwrap();
    assert_eq!((shown.id, shown.open, shown.by_bot), (kims.to_string(), true, false));
    story.forge.state().request_of(BRANCH).state = RequestState::Closed;
    assert_eq!(story.find().request.unwrap().id, first.id, "Kim's closed one says nothing");
    for number in [1, kims] {
        story.forge.state().infra().request_mut(number).unwrap().state = RequestState::Open;
    }
    let shown = story.find().request.unwrap();
    assert_eq!((shown.id, shown.open, shown.by_bot), (first.id, true, true));
}

#[test]
fn a_fork_with_the_same_branch_name_is_somebody_elses() {
    let story = Story::new();
    let number = story.forge.state().open_by_kim(BRANCH, "From a fork", "");
    story.forge.state().infra().request_mut(number).unwrap().fork = Some(77);
    assert_eq!(story.find().request, None);
    story.propose();
    assert!(story.find().request.unwrap().by_bot);
    assert_eq!(story.forge.state().infra().requests.len(), 2);
}

#[test]
fn one_among_hundreds_is_found() {
    let story = Story::new();
    story.propose();
    {
        let mut state = story.forge.state();
        for _ in 0..230 {
            let number = state.open_by_kim(BRANCH, "Again", "");
            let later = state.tick();
            let request = state.infra().request_mut(number).unwrap();
            (request.state, request.created) = (RequestState::Closed, later);
        }
    }
    assert!(story.find().request.unwrap().by_bot);
}

#[test]
fn a_symlink_does_not_look_like_a_file_of_the_bots() {
    let story = Story::new();
    story.propose();
    let mut state = story.forge.state();
    let git = &state.infra().git;
    git.git(&["read-tree", BRANCH]);
    let blob = git.git(&["rev-parse", &format!("{BRANCH}:apps/a.yaml")]);
    git.git(&["update-index", "--cacheinfo", &format!("120000,{},apps/a.yaml", blob.trim())]);
    let tree = git.git(&["write-tree"]);
    let made = git.git(&["commit-tree", tree.trim(), "-m", "A link", "-p", BRANCH]);
    git.git(&["update-ref", &format!("refs/heads/{BRANCH}"), made.trim()]);
    drop(state);
    assert_eq!(story.find().changed["apps/a.yaml"].as_deref(), Some(&b"120000"[..]));
}

#[test]
fn a_branch_without_a_common_past_is_nobodys() {
    let story = Story::new();
    let mut state = story.forge.state();
    let git = &state.infra().git;
    let tree = git.git(&["rev-parse", "main^{tree}"]);
    let made = git.git(&["commit-tree", tree.trim(), "-m", "From nothing"]);
    git.git(&["update-ref", &format!("refs/heads/{BRANCH}"), made.trim()]);
    drop(state);
    let found = story.find();
    assert_eq!((found.branch_head.as_deref(), found.base), (Some(made.trim()), None));
    assert_eq!(found.commits.len(), 1);
    assert_eq!(found.commits[0].emails, [String::new(), String::new()]);
}

#[test]
fn a_head_whose_text_was_not_written_yet_is_remembered() {
    let story = Story::new();
    story.propose();
    let head = story.publish(&[("apps/a.yaml", Some("gpu: 7\n"))]).unwrap();
    assert_eq!(story.find().unfinished_head, Some(head.clone()));
    story.request(None, &text("Share", &noting(&head))).unwrap();
    assert_eq!(story.find().unfinished_head, None);
}

#[test]
fn a_program_that_was_stopped_before_the_text_knows_its_head_from_gitlabs_own_notes() {
    let mut story = Story::new();
    let first = story.propose();
    let head = story.publish(&[("apps/a.yaml", Some("gpu: 7\n"))]).unwrap();
    story.restart();
    assert_eq!(story.find().unfinished_head, Some(head.clone()));

    // Anybody may write the bot's address on a commit; who pushed it is another question.
    let mut state = story.forge.state();
    let git = &state.infra().git;
    git.git(&["update-ref", &format!("refs/heads/{BRANCH}"), &first]);
    for push in &mut state.infra().pushes {
        push.user = KIM;
    }
    state.request_of(BRANCH).body = noting(&head);
    drop(state);
    assert_eq!(story.find().unfinished_head, None);
}

#[test]
fn the_bots_request_is_its_own_whatever_its_account_was() {
    let story = Story::new();
    story.forge.state().infra().git.commit_as_human(BRANCH, &[("apps/a.yaml", "gpu: 0\n")], "Share");
    story.forge.state().open_by_kim(BRANCH, "Share", "");
    assert!(!story.find().request.unwrap().by_bot);
    let bot = |ids: &[u64], logins: &[&str]| {
        let mut settings = super::story::settings(&story.forge, &story.token);
        settings.former_ids = ids.to_vec();
        settings.former_logins = logins.iter().map(|login| (*login).to_owned()).collect();
        slicewright::forge::connect(&settings, super::story::target("acme/infra")).unwrap()
    };
    let main = story.main();
    let is_own = |ids: &[u64], logins: &[&str]| {
        story.wait(bot(ids, logins).find(BRANCH, &main)).unwrap().request.unwrap().by_bot
    };
    assert!(!is_own(&[], &["kim"]), "whoever takes a person's name that was given up is not the bot");
    assert!(is_own(&[KIM], &[]));
    story.forge.state().users.get_mut(&KIM).unwrap().is_bot = true;
    assert!(is_own(&[], &["Kim"]), "the account of an access token");

    // The dashboard of an earlier account is written on, whatever it is known by.
    story.wait(story.bot.show_board("GPU pools", "One pool.")).unwrap();
    story.forge.state().infra().issues[0].author = KIM;
    for (ids, logins) in [(&[KIM, 4_711][..], &[][..]), (&[], &["kim"]), (&[KIM], &["kim"])] {
        story.wait(bot(ids, logins).show_board("GPU pools", "Two pools.")).unwrap();
        let mut state = story.forge.state();
        let boards: Vec<_> = state.infra().issues.iter().map(|issue| (&issue.body, issue.open)).collect();
        assert!(boards.len() == 1 && boards[0].0.contains("Two pools.") && boards[0].1, "{boards:?}");
    }
}
