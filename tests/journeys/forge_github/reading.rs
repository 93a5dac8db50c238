//! What the bot sees: files, branches, pull requests, and what people did to them.

use super::*;
use crate::world::forge::faults::{Fault, Faults};
use crate::world::forge::people::Merge;
use crate::world::forge::state::{ALEX, KIM, ROBIN, Role, User};

#[test]
fn every_file_is_read_as_it_is_committed() {
    let story = Story::with(
        SignIn::Token,
        &[
            (FILE, "gpu: 1\r\n"),
            ("kept-out.txt", "left out of archives\n"),
            ("version.txt", "$Format:%H$\n"),
            (".gitattributes", "kept-out.txt export-ignore\nversion.txt export-subst\n"),
            ("model.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
            ("a", "1"),
            ("b", "2"),
            ("c", "3"),
            ("d", "4"),
            ("e", "5"),
            ("f", "6"),
            ("g/h ä#?%/i", "7"),
        ],
    );
    let tree = story.tree();
    assert_eq!(tree.files[FILE], b"gpu: 1\r\n");
    assert_eq!(tree.files["kept-out.txt"], b"left out of archives\n");
    assert_eq!(tree.files["version.txt"], b"$Format:%H$\n");
    assert_eq!(tree.files["g/h ä#?%/i"], b"7");
    assert!(tree.skipped["model.bin"].contains("LFS"));
    assert_eq!(tree.files.len() + tree.skipped.len(), 12);
    story.asked();
    assert_eq!(story.tree(), tree);
    assert_eq!(story.asked().len(), 1, "where the branch stands; the rest is known by its id");
}

#[test]
fn links_and_submodules_are_named_and_not_followed() {
    let story = Story::new(SignIn::Token);
    {
        let mut state = story.state();
        let git = &state.infra().git;
        let blob = git.git(&["rev-parse", &format!("{MAIN}:{FILE}")]);
        let main = git.head(MAIN).unwrap();
        let index = git.path().join("links.index");
        let add = |entry: String| {
            let mut command = std::process::Command::new("git");
            let arguments = ["update-index", "--add", "--cacheinfo", &entry];
            command.env("GIT_DIR", git.path()).env("GIT_INDEX_FILE", &index).args(arguments);
            assert!(command.status().unwrap().success());
        };
        add(format!("120000,{},link", blob.trim()));
        add(format!("160000,{main},module"));
        let mut write = std::process::Command::new("git");
        let tree = write.env("GIT_DIR", git.path()).env("GIT_INDEX_FILE", &index).arg("write-tree").output();
        let tree = String::from_utf8(tree.unwrap().stdout).unwrap();
        let commit = git.git(&["commit-tree", tree.trim(), "-m", "Links", "-p", &main]);
        git.git(&["update-ref", "refs/heads/main", commit.trim()]);
        git.git(&["update-ref", &format!("refs/heads/{BRANCH}"), commit.trim()]);
        git.git(&["update-ref", "refs/heads/main", &main]);
    }
    let found = story.find();
    assert_eq!(found.changed["link"].as_deref(), Some(b"120000".as_slice()));
    assert_eq!(found.changed["module"].as_deref(), Some(b"160000".as_slice()));
    assert_eq!(found.changed[FILE], None);
    let tree = story.done(story.bot.read_tree(&found.branch_head.unwrap())).unwrap();
    assert_eq!(tree.skipped.keys().collect::<Vec<_>>(), ["link", "module"]);
}

#[test]
fn a_list_of_files_that_is_cut_off_is_read_folder_by_folder() {
    let files: Vec<(String, String)> =
        (0..40).map(|n| (format!("f{}/g{}/x{n}.yaml", n % 3, n % 5), format!("n: {n}\n"))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let story = Story::with(SignIn::Token, &files);
    story.state().github.most_tree_entries = Some(10);
    assert_eq!(story.tree().files.len(), 40);
}

#[test]
fn a_proposal_is_seen_as_it_was_made_and_an_unchanged_one_costs_three_requests() {
    let story = Story::new(SignIn::Token);
    let head = story.propose();
    let found = story.find();
    assert_eq!(found.branch_head.as_deref(), Some(head.as_str()));
    assert_eq!(found.base, story.head(MAIN));
    assert_eq!(found.changed, BTreeMap::from([(FILE.to_owned(), Some(b"gpu: 0.5\n".to_vec()))]));
    assert!(found.stale.is_empty() && !found.merged && found.unfinished_head.is_none());
    let commits: Vec<_> = found.commits.iter().map(|one| (one.id.clone(), one.emails.clone())).collect();
    assert_eq!(commits, [(head, ["bot@example.com".to_owned(), "bot@example.com".to_owned()])]);
    let request = found.request.as_ref().unwrap();
    assert!(request.by_bot && request.open && !request.draft && !request.conflicted);
    assert_eq!((request.id.as_str(), request.approvals, request.held.as_deref()), ("1", 0, None));
    assert_eq!(request.base_branch.as_deref(), Some(MAIN));
    assert!(request.body.contains("Saves two cards."));

    story.asked();
    assert_eq!(story.find(), found);
    let asked: Vec<u16> = story.asked().iter().map(|line| line.status).collect();
    assert_eq!(asked, [304, 304, 304]);
}

#[test]
fn nothing_is_found_where_nothing_is() {
    let story = Story::new(SignIn::Token);
    assert_eq!(story.find(), Found::default());
}

#[test]
fn what_a_person_does_to_the_branch_is_seen() {
    let story = Story::new(SignIn::Token);
    story.propose();
    story.state().infra().git.commit_as_human(MAIN, &[("apps/other.yaml", "gpu: 3\n")], "Other");
    story.state().update_branch(BRANCH);
    let found = story.find();
    assert_eq!(found.commits.len(), 2);
    assert_eq!(found.commits.iter().filter(|one| one.merges_base).count(), 1, "{:?}", found.commits);
    assert_eq!(found.commits.last().unwrap().id, found.branch_head.clone().unwrap());
    assert_eq!(found.changed.keys().collect::<Vec<_>>(), [FILE]);

    let theirs = story.state().infra().git.commit_as_human(BRANCH, &[("NOTES.md", "mine\n")], "Note");
    story.state().infra().git.commit_as_human(MAIN, &[(FILE, "gpu: 4\n")], "Meanwhile");
    let found = story.find();
    let last = found.commits.last().unwrap();
    assert_eq!((last.id.as_str(), last.merges_base), (theirs.as_str(), false));
    assert_eq!(last.emails, ["robin@example.com".to_owned(), "robin@example.com".to_owned()]);
    assert_eq!(found.stale, [FILE.to_owned()].into());
    assert!(found.request.unwrap().conflicted);
}

#[test]
fn a_merge_with_more_in_it_is_a_persons_work() {
    let story = Story::new(SignIn::Token);
    let head = story.propose();
    let main = story.state().infra().git.commit_as_human(MAIN, &[("apps/other.yaml", "gpu: 3\n")], "Other");
    {
        let mut state = story.state();
        let git = &state.infra().git;
        let evil = git.commit_as_human("evil", &[(FILE, "gpu: 9\n"), ("apps/other.yaml", "gpu: 3\n")], "x");
        let arguments = ["commit-tree", &format!("{evil}^{{tree}}"), "-m", "Merge", "-p", &head, "-p", &main];
        let merge = git.git(&arguments);
        git.git(&["update-ref", &format!("refs/heads/{BRANCH}"), merge.trim()]);
    }
    assert!(story.find().commits.iter().all(|one| !one.merges_base));
}

#[test]
fn a_merge_is_seen_however_it_is_done_and_when_the_branch_is_gone() {
    for how in [Merge::Commit, Merge::Squash] {
        for is_gone in [false, true] {
            let story = Story::new(SignIn::Token);
            story.propose();
            story.state().merge(BRANCH, how);
            if is_gone {
                story.state().infra().git.delete_branch(BRANCH);
            }
            let found = story.find();
            assert!(found.merged && !found.request.unwrap().open, "{how:?}");
        }
    }
    // Taken over by hand, without the button.
    let story = Story::new(SignIn::Token);
    story.propose();
    story.state().infra().git.commit_as_human(MAIN, &[(FILE, "gpu: 0.5\n")], "By hand");
    assert!(story.find().merged);
    story.state().close(BRANCH);
    story.state().infra().git.delete_branch(BRANCH);
    let found = story.find();
    assert!(found.merged && found.branch_head.is_none(), "the noted head is still readable");
}

#[test]
fn a_closed_one_and_one_that_was_opened_again_are_told_apart() {
    let story = Story::new(SignIn::Token);
    let head = story.propose();
    story.state().close(BRANCH);
    let found = story.find();
    assert!(!found.merged && !found.request.unwrap().open);
    story.state().infra().git.delete_branch(BRANCH);
    assert_eq!(story.find().branch_head, None);
    story.state().reopen(BRANCH);
    let found = story.find();
    assert!(found.request.unwrap().open);
    assert_eq!(found.branch_head, Some(head));
}

#[test]
fn the_branches_below_the_prefix_are_listed_whoever_made_them() {
    let story = Story::new(SignIn::Token);
    let branches = || story.done(story.bot.branches()).unwrap().into_iter().collect::<Vec<_>>();
    assert_eq!(branches(), [""; 0]);
    story.propose();
    for branch in ["slicewright/gone/l4", "slicewrights/x", "kim/topic"] {
        story.state().infra().git.git(&["branch", branch, MAIN]);
    }
    assert_eq!(branches(), [BRANCH, "slicewright/gone/l4"]);
    story.asked();
    branches();
    let asked: Vec<_> = story.asked().into_iter().map(|line| (line.method, line.status)).collect();
    assert_eq!(asked, [("GET".to_owned(), 304)], "one listing, for news only");

    // A list that goes on is read on.
    let page = |name: &str, more: bool| {
        let reference = serde_json::json!({"ref": format!("refs/heads/{name}"), "object": {"sha": "0"}});
        let reply = crate::world::forge::Reply::json(200, &serde_json::json!([reference]));
        let link = "<https://elsewhere.example/x?page=2>; rel=\"next\"";
        Fault::Refuse(if more { reply.with("link", link) } else { reply })
    };
    let pages = [page("slicewright/a/b", true), page("slicewright/c/d", false)];
    let planned = pages.map(|page| ("GET", "/git/matching-refs/", page)).into();
    story.forge.set_faults(Some(Faults::planned(planned)));
    assert_eq!(branches(), ["slicewright/a/b", "slicewright/c/d"]);
}

#[test]
fn approvals_count_for_the_head_that_was_seen() {
    let story = Story::new(SignIn::Token);
    let head = story.propose();
    let approvals = || story.find().request.unwrap().approvals;
    assert_eq!(approvals(), 0);
    story.state().approve(BRANCH, ROBIN);
    assert_eq!(approvals(), 1);
    story.state().approve(BRANCH, KIM);
    story.state().approve(BRANCH, KIM);
    assert_eq!(approvals(), 2);
    story.publish(Some(&head), "gpu: 0.25\n").unwrap();
    assert_eq!(approvals(), 0);
}

#[test]
fn only_people_who_may_write_hold_the_branch_by_their_approval() {
    let story = Story::new(SignIn::App);
    let head = story.propose();
    let approvals = || story.find().request.unwrap().approvals;
    // Whoever can read may approve, and so may programs.
    let (robot, stranger) = (901, 902);
    {
        let mut state = story.state();
        for (id, login, is_bot) in [(robot, "other[bot]", true), (stranger, "passer-by", false)] {
            let user = User { id, login: login.to_owned(), is_bot, ..state.users[&KIM].clone() };
            state.users.insert(id, user);
        }
        state.infra().roles.insert(robot, Role::Write);
        for user in [robot, stranger, ALEX] {
            state.approve(BRANCH, user);
        }
    }
    assert_eq!(approvals(), 0);
    story.state().approve(BRANCH, KIM);
    assert_eq!(approvals(), 1);

    // A look at what did not change asks about nobody.
    story.asked();
    assert_eq!(approvals(), 1);
    let asked = story.asked().into_iter().filter(|line| line.path.contains("/permission"));
    assert_eq!(asked.count(), 0);
    // Nor does one where nobody approves the head.
    story.publish(Some(&head), "gpu: 0.25\n").unwrap();
    story.asked();
    assert_eq!(approvals(), 0);
    assert!(!story.asked().iter().any(|line| line.path.contains("/permission")));
}

#[test]
fn an_approval_by_whom_nobody_knows_holds_the_branch() {
    let story = Story::new(SignIn::Token);
    story.propose();
    story.state().approve(BRANCH, ALEX);
    let refused = crate::world::forge::Reply::json(403, &serde_json::json!({"message": "Forbidden"}));
    let faults = Faults::planned(vec![("GET", "/permission", Fault::Refuse(refused))]);
    story.forge.set_faults(Some(faults));
    assert_eq!(story.find().request.unwrap().approvals, 1);
}

#[test]
fn what_keeps_the_branch_from_moving_is_said() {
    let story = Story::new(SignIn::Token);
    story.propose();
    let held = || story.find().request.unwrap().held;
    let touch = |change: &dyn Fn(&mut State)| {
        let mut state = story.state();
        change(&mut state);
        let now = state.tick();
        state.request_of(BRANCH).updated = now;
    };
    touch(&|state| state.request_of(BRANCH).labels = ["slicewright/hold".to_owned()].into());
    assert!(held().unwrap().contains("slicewright/hold"));
    touch(&|state| state.request_of(BRANCH).merging = true);
    assert!(held().unwrap().contains("as soon as it can be"));
    touch(&|state| state.github.queued = [1].into());
    assert!(held().unwrap().contains("merge queue"));
    touch(&|state| state.github.graphql = crate::world::forge::github::GraphQl::Old);
    assert!(held().unwrap().contains("as soon as it can be"), "a server that knows no queues");
}

#[test]
fn whether_it_can_be_merged_is_asked_again_while_it_is_not_known() {
    let story = Story::new(SignIn::Token);
    story.propose();
    story.state().infra().git.commit_as_human(MAIN, &[(FILE, "gpu: 4\n")], "Meanwhile");
    story.state().github.mergeable_unknown = 1;
    assert!(story.find().request.unwrap().conflicted, "known at the second look");
    story.state().infra().git.commit_as_human(MAIN, &[(FILE, "gpu: 5\n")], "Again");
    story.state().github.mergeable_unknown = 5;
    assert!(!story.find().request.unwrap().conflicted, "not known yet is no conflict");
    story.state().github.mergeable_unknown = 0;
    assert!(story.find().request.unwrap().conflicted, "and is not remembered");
}

#[test]
fn a_persons_pull_request_and_those_of_forks_are_not_the_bots() {
    let story = Story::new(SignIn::Token);
    story.publish(None, "gpu: 0.5\n").unwrap();
    let fork = story.state().open_by_kim(BRANCH, "From a fork inside the organization", "");
    story.state().github.forks.insert(fork, "acme/infra-copy".to_owned());
    assert_eq!(story.find().request, None);
    let theirs = story.state().open_by_kim(BRANCH, "Kim's own", "Kim's words");
    let request = story.find().request.unwrap();
    assert_eq!((request.id, request.by_bot), (theirs.to_string(), false));
    let opened = story.done(story.bot.write_request(BRANCH, None, &text("x", "Words")));
    is_blocked(opened, "a person has #2 open");
    let edited = story.done(story.bot.write_request(BRANCH, Some("2"), &text("x", "Words")));
    is_denied(edited, "which a person opened");
    is_denied(story.done(story.bot.close(BRANCH, None, Some("2"), "t", "b")), "which a person opened");
    assert_eq!(story.state().infra().requests[1].body, "Kim's words");
}

#[test]
fn the_bots_request_is_found_among_many() {
    let story = Story::new(SignIn::Token);
    story.propose();
    for n in 0..100 {
        story.state().open_by_kim(BRANCH, &format!("Number {n}"), "");
    }
    assert_eq!(story.find().request.unwrap().id, "1", "it is on the second page");
}

#[test]
fn the_bots_request_is_its_own_whatever_its_account_was() {
    let mut story = Story::new(SignIn::Token);
    story.propose();
    story.done(story.bot.show_board("GPU pools", "One pool.")).unwrap();
    story.state().users.get_mut(&BOT).unwrap().login = "another-bot".to_owned();
    story.restart(|_, _| {});
    let is_own = |story: &Story| story.find().request.unwrap().by_bot;
    assert!(is_own(&story), "the number of the account is the same");
    {
        // Another account, whose predecessor opened it.
        let mut state = story.state();
        let mut new = state.users[&BOT].clone();
        (new.id, new.login) = (901, "third-bot".to_owned());
        state.users.insert(901, new);
        state.tokens.insert(TOKEN.to_owned(), 901);
        state.infra().roles.insert(901, Role::Write);
    }
    story.restart(|_, _| {});
    assert!(!is_own(&story));
    // Whoever takes a person's name that was given up is not the bot.
    story.restart(|settings, _| settings.former_logins = vec!["Another-Bot".to_owned()]);
    assert!(!is_own(&story));
    story.restart(|settings, _| settings.former_ids = vec![BOT, 4_711]);
    assert!(is_own(&story));
    story.done(story.bot.show_board("GPU pools", "Two pools.")).unwrap();
    let boards: Vec<_> = story.state().infra().issues.iter().map(|issue| issue.body.clone()).collect();
    assert!(boards.len() == 1 && boards[0].contains("Two pools."), "{boards:?}");
}

#[test]
fn the_request_of_an_app_is_known_by_the_apps_name() {
    let mut story = Story::new(SignIn::App);
    story.propose();
    {
        let mut state = story.state();
        let mut old = state.users[&BOT].clone();
        (old.id, old.login) = (901, "older[bot]".to_owned());
        state.users.insert(901, old);
        state.request_of(BRANCH).author = 901;
    }
    assert!(!story.find().request.unwrap().by_bot);
    story.restart(|settings, _| settings.former_logins = vec!["Older[bot]".to_owned()]);
    assert!(story.find().request.unwrap().by_bot);
}
