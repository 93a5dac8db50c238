//! One test a transition.

use super::*;
use crate::review::metadata;

mod asked;

/// 2026-03-01, noon.
const NOW: Timestamp = Timestamp::constant(1_772_366_400, 0);
const BOT: &str = "bot@slicewright.invalid";

fn wanted() -> Wanted {
    Wanted {
        title: "Share GPUs".into(),
        body: "text".into(),
        fingerprint: "f1".into(),
        files: BTreeMap::from([("a.yaml".into(), Some(b"new".to_vec()))]),
        method: "MIG".into(),
        cards_freed: 2,
        shares: BTreeMap::new(),
        outgrown: Vec::new(),
    }
}

fn own() -> Own {
    Own {
        emails: BTreeSet::from([BOT.to_owned()]),
        base_branch: "main".into(),
        version: "0.1.0".into(),
        ..Own::default()
    }
}

fn commit(id: &str, author: &str, committer: &str) -> ObservedCommit {
    ObservedCommit {
        id: id.into(),
        emails: [author.into(), committer.into()],
        merges_base: false,
        rebased: false,
    }
}

fn head() -> String {
    metadata::example().head
}

fn request(known: Metadata) -> ObservedRequest {
    ObservedRequest {
        by_bot: true,
        open: known.state == State::Open,
        title: "Share GPUs".into(),
        body: known.attach("text", None),
        base_branch: Some("main".into()),
        approvals: 0,
        held: None,
        conflicted: false,
    }
}

/// An open proposal as the bot left it.
fn proposed() -> Observed {
    Observed {
        branch_head: Some(head()),
        commits: vec![commit(&head(), BOT, BOT)],
        files: wanted().files,
        request: Some(request(metadata::example())),
        ..Observed::default()
    }
}

/// A closed one whose branch is gone.
fn closed(state: State) -> Observed {
    let known = Metadata { state, closed_on: Some(jiff::civil::date(2026, 2, 1)), ..metadata::example() };
    Observed { request: Some(request(known)), ..Observed::default() }
}

#[track_caller]
fn check(observed: &Observed, wanted: Option<&Wanted>, code: &str, says: &str) {
    let _ = checked(observed, wanted, code, says);
}

#[track_caller]
fn checked(observed: &Observed, wanted: Option<&Wanted>, code: &str, says: &str) -> Action {
    let action = decide(observed, wanted, &own(), NOW);
    assert_eq!(action.code(), code, "{action:?}");
    assert!(action.reason().contains(says), "{action:?}");
    action
}

#[track_caller]
fn check_writes(action: &Action, branch: bool, body: bool) {
    let got = match action {
        Action::Open { push, .. } => (*push, true),
        Action::Update { push, text, .. } => (*push, *text),
        Action::Warn { .. }
        | Action::Leave { .. }
        | Action::Withdraw { .. }
        | Action::StopEdited { .. }
        | Action::RecordMerged { .. }
        | Action::RecordDeclined { .. } => (false, false),
    };
    assert_eq!(got, (branch, body), "{action:?}");
}

#[test]
fn a_first_finding_opens() {
    let action = checked(&Observed::default(), Some(&wanted()), "open", "no proposal yet");
    check_writes(&action, true, true);
    check(&Observed::default(), None, "leave", "nothing to propose");
    let all_there = Wanted { files: BTreeMap::new(), ..wanted() };
    check(&Observed::default(), Some(&all_there), "leave", "nothing to propose");
}

#[test]
fn the_same_again_writes_nothing() {
    check(&proposed(), Some(&wanted()), "leave", "nothing differs");
}

#[test]
fn another_day_of_the_same_evidence_writes_nothing() {
    let known = metadata::example();
    let mut observed = proposed();
    observed.request = Some(ObservedRequest {
        body: known.attach("text\nData as of 2026-02-28", None),
        ..request(metadata::example())
    });
    let wanted = Wanted { body: "text\nData as of 2026-03-01".into(), ..wanted() };
    check(&observed, Some(&wanted), "leave", "nothing differs");
}

#[test]
fn another_plan_pushes_and_rewrites() {
    let files = BTreeMap::from([("a.yaml".into(), Some(b"newer".to_vec()))]);
    let action = checked(
        &proposed(),
        Some(&Wanted { fingerprint: "f2".into(), files, ..wanted() }),
        "update",
        "plan changed",
    );
    check_writes(&action, true, true);
}

#[test]
fn another_plan_with_the_same_files_only_rewrites() {
    let action = checked(
        &proposed(),
        Some(&Wanted { fingerprint: "f2".into(), ..wanted() }),
        "update",
        "files are the same",
    );
    check_writes(&action, false, true);
}

#[test]
fn other_evidence_rewrites_the_text_alone() {
    let action =
        checked(&proposed(), Some(&Wanted { body: "other".into(), ..wanted() }), "update", "approvals hold");
    check_writes(&action, false, true);
    let action =
        checked(&proposed(), Some(&Wanted { title: "other".into(), ..wanted() }), "update", "approvals hold");
    check_writes(&action, false, true);
}

#[test]
fn a_text_edited_by_a_person_stays_while_the_plan_is_the_same() {
    let mut observed = proposed();
    let request = observed.request.as_mut().unwrap();
    request.body = request.body.replace("text", "text, looked at by Ann");
    check(&observed, Some(&wanted()), "leave", "nothing differs");
    check(&observed, Some(&Wanted { body: "other".into(), ..wanted() }), "leave", "a person edited the text");
    check(&observed, Some(&Wanted { fingerprint: "f2".into(), ..wanted() }), "update", "plan changed");
}

#[test]
fn a_moved_base_matters_only_where_it_touches_the_same_files() {
    let files = BTreeMap::from([("a.yaml".into(), Some(b"new on newer base".to_vec()))]);
    let wanted = Wanted { files, ..wanted() };
    check(&proposed(), Some(&wanted), "leave", "as it was reviewed");
    let stale = Observed { stale: BTreeSet::from(["a.yaml".into()]), ..proposed() };
    let action = checked(&stale, Some(&wanted), "update", "changed in files of the proposal: `a.yaml`");
    check_writes(&action, true, true);
}

#[test]
fn a_vanished_finding_withdraws() {
    check(&proposed(), None, "withdraw", "no longer supports");
    let all_there = Wanted { files: BTreeMap::new(), ..wanted() };
    check(&proposed(), Some(&all_there), "withdraw", "says all of it already");
}

#[test]
fn a_persons_commit_stops_everything() {
    for (author, committer) in [("ann@x", "ann@x"), ("ann@x", BOT), (BOT, "ann@x")] {
        let mut observed = proposed();
        observed.commits.push(commit("c2", author, committer));
        observed.branch_head = Some("c2".into());
        for wanted in [Some(wanted()), None] {
            let action = checked(&observed, wanted.as_ref(), "stop-edited", "not the bot's (c2)");
            let Action::StopEdited { commits, .. } = action else { panic!("not stopped") };
            assert_eq!(commits, ["c2"]);
        }
    }
}

#[test]
fn a_branch_that_was_moved_stops_everything() {
    let mut observed = proposed();
    observed.branch_head = Some("older".into());
    observed.commits = vec![commit("older", BOT, BOT)];
    observed.files = BTreeMap::from([("a.yaml".into(), Some(b"old".to_vec()))]);
    check(&observed, Some(&wanted()), "stop-edited", "where the bot left it");
    check(&observed, None, "stop-edited", "where the bot left it");
    let own = Own { heads: BTreeSet::from(["older".into()]), ..own() };
    let action = decide(&observed, Some(&Wanted { fingerprint: "f2".into(), ..wanted() }), &own, NOW);
    check_writes(&action, true, true);
}

#[test]
fn a_run_stopped_between_branch_and_text_is_completed() {
    let orphan = Observed { request: None, ..proposed() };
    check_writes(&checked(&orphan, Some(&wanted()), "open", "stopped in between"), false, true);
    let other = Wanted { files: BTreeMap::from([("b".into(), None)]), ..wanted() };
    check_writes(&checked(&orphan, Some(&other), "open", "another one by now"), true, true);
    check(&orphan, None, "withdraw", "no text");

    let mut updated = proposed();
    updated.branch_head = Some("newer".into());
    updated.commits = vec![commit("newer", BOT, BOT)];
    check_writes(&checked(&updated, Some(&wanted()), "update", "not written yet"), false, true);

    // Stopped at another plan, and the plan is the old one again: branch and text must not speak of two.
    updated.files = BTreeMap::from([("a.yaml".into(), Some(b"of another plan".to_vec()))]);
    let own = Own { heads: BTreeSet::from(["newer".to_owned()]), ..own() };
    let action = decide(&updated, Some(&wanted()), &own, NOW);
    check_writes(&action, true, true);
    assert_eq!(action.reason(), "the bot was stopped halfway through its last update");
}

#[test]
fn what_was_closed_before_its_text_was_written_leaves_no_branch() {
    let mut closed = proposed();
    closed.request.as_mut().unwrap().open = false;
    closed.branch_head = Some("newer".into());
    closed.commits = vec![commit("newer", BOT, BOT)];
    let deletes = |observed: &Observed, own: &Own| {
        let action = decide(observed, Some(&wanted()), own, NOW);
        let Action::RecordDeclined { delete_branch, .. } = action else { panic!("{action:?}") };
        delete_branch
    };
    assert!(!deletes(&closed, &own()), "whoever put it there is not known");
    let own = Own { heads: BTreeSet::from(["newer".to_owned()]), ..own() };
    assert!(deletes(&closed, &own));
    closed.commits.insert(0, commit("theirs", "a@x", "a@x"));
    assert!(!deletes(&closed, &own), "a person's commit is below it");
}

#[test]
fn a_strange_branch_is_not_taken() {
    let theirs = Observed {
        branch_head: Some("c".into()),
        commits: vec![commit("c", "a@x", "a@x")],
        ..Observed::default()
    };
    check(&theirs, Some(&wanted()), "stop-edited", "was not made by the bot");
    let empty = Observed { branch_head: Some("c".into()), ..Observed::default() };
    check(&empty, Some(&wanted()), "stop-edited", "was not made by the bot");
    check(&empty, None, "stop-edited", "was not made by the bot");
}

#[test]
fn merged_is_recorded_once() {
    check(&Observed { merged: true, ..proposed() }, Some(&wanted()), "record-merged", "on the base branch");
    let gone = Observed { merged: true, branch_head: None, commits: vec![], ..proposed() };
    check(&gone, None, "record-merged", "on the base branch");
    check(&closed(State::Merged), None, "leave", "merged");
    check(&closed(State::Merged), Some(&wanted()), "leave", "taken back");
    check(
        &closed(State::Merged),
        Some(&Wanted { fingerprint: "f2".into(), ..wanted() }),
        "open",
        "another one",
    );
}

#[test]
fn closed_by_a_person_is_a_decline() {
    let mut observed = proposed();
    observed.request.as_mut().unwrap().open = false;
    let action = checked(&observed, Some(&wanted()), "record-declined", "a person closed it");
    assert!(matches!(action, Action::RecordDeclined { delete_branch: true, .. }));
    observed.commits.push(commit("c2", "ann@x", "ann@x"));
    let action = checked(&observed, Some(&wanted()), "record-declined", "a person closed it");
    assert!(matches!(action, Action::RecordDeclined { delete_branch: false, .. }));
    let deleted = Observed { branch_head: None, commits: vec![], files: BTreeMap::new(), ..proposed() };
    check(&deleted, Some(&wanted()), "record-declined", "deleted the branch");
}

#[test]
fn a_decline_holds_until_it_lapses() {
    let declined = closed(State::Declined);
    check(&declined, None, "leave", "nothing to propose now");
    check(&declined, Some(&wanted()), "leave", "declined on 2026-02-01");
    check(
        &declined,
        Some(&Wanted { fingerprint: "f2".into(), ..wanted() }),
        "leave",
        "declined on 2026-02-01",
    );
    check(&declined, Some(&Wanted { cards_freed: 3, ..wanted() }), "open", "free 3 GPUs now and 2 then");
    check(&declined, Some(&Wanted { method: "time-slicing".into(), ..wanted() }), "open", "the method is");
    let later = decide(&declined, Some(&wanted()), &own(), "2026-07-31T00:00:00Z".parse().unwrap());
    assert_eq!((later.code(), later.reason()), ("open", "the decline lapsed: it is 180 days old"));
}

#[test]
fn withdrawn_comes_back_with_its_finding() {
    check(&closed(State::Withdrawn), None, "leave", "still nothing");
    check(&closed(State::Withdrawn), Some(&wanted()), "open", "is back");
}

#[test]
fn closing_that_was_stopped_half_way_is_completed() {
    let left = |state| Observed { branch_head: Some(head()), ..closed(state) };
    check(&left(State::Withdrawn), None, "withdraw", "it was withdrawn earlier");
    check(&left(State::Withdrawn), Some(&wanted()), "open", "is back");
    check(&left(State::Declined), Some(&wanted()), "record-declined", "it was declined earlier");
    let mut said = left(State::Withdrawn);
    let noted =
        Metadata { state: State::Withdrawn, reason: Some("it is gone".into()), ..metadata::example() };
    said.request.as_mut().unwrap().body = noted.attach("text", None);
    check(&said, None, "withdraw", "it is gone");
    check(&left(State::Merged), None, "leave", "merged");
}

#[test]
fn reopening_is_a_wish() {
    for state in [State::Declined, State::Withdrawn] {
        let mut observed = closed(state);
        observed.request.as_mut().unwrap().open = true;
        check(&observed, Some(&wanted()), "open", "opened it again");
        check(&observed, None, "withdraw", "nothing to propose now");
    }
}

#[test]
fn a_damaged_hidden_block_writes_nothing() {
    let mut observed = proposed();
    observed.request.as_mut().unwrap().body = "text <!-- slicewright:AAAA -->".into();
    check(&observed, Some(&wanted()), "leave", "damaged");
    check(&observed, None, "leave", "damaged");
}

/// An open proposal whose request a person or the forge changed.
fn proposed_with(change: impl FnOnce(&mut ObservedRequest)) -> Observed {
    let mut observed = proposed();
    change(observed.request.as_mut().unwrap());
    observed
}

/// A plan with another change of the same file.
fn another() -> Wanted {
    let files = BTreeMap::from([("a.yaml".into(), Some(b"newer".to_vec()))]);
    Wanted { fingerprint: "f2".into(), files, ..wanted() }
}

#[test]
fn an_approved_branch_moves_only_when_it_must() {
    let approved = |change: fn(&mut Observed)| {
        let mut observed = proposed_with(|request| request.approvals = 2);
        change(&mut observed);
        observed
    };
    check(&approved(|_| {}), Some(&another()), "leave", "2 people approved it");
    let text =
        checked(&approved(|_| {}), Some(&Wanted { body: "other".into(), ..wanted() }), "update", "hold");
    check_writes(&text, false, true);
    let small = Wanted { outgrown: vec!["search/embed".into()], ..another() };
    let says = "too small by now for search/embed";
    check_writes(&checked(&approved(|_| {}), Some(&small), "update", says), true, true);
    let stale = approved(|observed| observed.stale = BTreeSet::from(["a.yaml".into()]));
    let rebased = Wanted { files: another().files, ..wanted() };
    check(&stale, Some(&rebased), "leave", "although its files changed on the base branch");
    let conflicted = approved(|observed| observed.request.as_mut().unwrap().conflicted = true);
    check_writes(&checked(&conflicted, Some(&rebased), "update", "could not be merged"), true, true);
    check(&approved(|_| {}), None, "withdraw", "no longer supports");
}

#[test]
fn a_conflict_is_made_anew_on_the_new_base() {
    let conflicted = proposed_with(|request| request.conflicted = true);
    let action = checked(&conflicted, Some(&wanted()), "update", "could not be merged");
    check_writes(&action, true, true);
}

#[test]
fn another_base_branch_is_a_persons_edit() {
    let moved = proposed_with(|request| request.base_branch = Some("release".into()));
    for wanted in [Some(wanted()), None] {
        check(&moved, wanted.as_ref(), "stop-edited", "aimed it at `release` instead of `main`");
    }
    check(&proposed_with(|request| request.base_branch = None), Some(&wanted()), "leave", "nothing differs");
}

#[test]
fn the_forges_own_merge_of_the_base_is_nobodys_edit() {
    let mut observed = proposed();
    observed.commits.push(ObservedCommit { merges_base: true, ..commit("m", "ann@x", "noreply@forge") });
    observed.branch_head = Some("m".into());
    check(&observed, Some(&wanted()), "leave", "nothing differs");
    check_writes(&checked(&observed, Some(&another()), "update", "plan changed"), true, true);
    observed.commits.push(commit("c", "ann@x", "ann@x"));
    observed.branch_head = Some("c".into());
    check(&observed, Some(&another()), "stop-edited", "(c)");
}

#[test]
fn who_asked_for_silence_gets_it() {
    let known = |change: fn(&mut Metadata)| {
        let mut known = metadata::example();
        change(&mut known);
        proposed_with(|request| request.body = known.attach("text", None))
    };
    let until = |day| {
        known(if day == 2 {
            |known| known.snoozed_until = Some(jiff::civil::date(2026, 3, 2))
        } else {
            |known| known.snoozed_until = Some(jiff::civil::date(2026, 3, 1))
        })
    };
    let held = proposed_with(|request| request.held = Some("it is in the merge queue".into()));
    let silent = [
        (until(2), "snoozed until 2026-03-02"),
        (known(|known| known.paused = true), "a person paused it"),
        (held, "held: it is in the merge queue"),
    ];
    // Harm is said, once and in a comment; the branch stays all the same.
    let outgrown = Wanted { outgrown: vec!["search/ranker".into()], ..another() };
    for (observed, why) in &silent {
        check(observed, Some(&another()), "leave", why);
        check(
            observed,
            None,
            "warn",
            &format!("no longer supports the change; the branch stays as it is ({why})"),
        );
        check(observed, Some(&outgrown), "warn", "too small by now for search/ranker");
    }
    check(&until(1), Some(&another()), "update", "plan changed");
    let merged = Observed { merged: true, ..known(|known| known.paused = true) };
    check(&merged, Some(&wanted()), "record-merged", "on the base branch");
}

#[test]
fn a_commit_that_a_forge_committed_is_its_authors() {
    let own = Own { forge_emails: BTreeSet::from(["noreply@forge".to_owned()]), ..own() };
    let by = |author, committer| {
        let commits = vec![commit(&head(), author, committer)];
        decide(&Observed { commits, ..proposed() }, Some(&wanted()), &own, NOW).code()
    };
    assert_eq!(by(BOT, "noreply@forge"), "leave");
    assert_eq!(by("robin@example.com", "noreply@forge"), "stop-edited");
    assert_eq!(by("noreply@forge", "noreply@forge"), "stop-edited", "it is everybody's");
}

#[test]
fn a_merge_request_that_a_person_opened_from_the_bots_branch_is_theirs() {
    for state in [State::Open, State::Declined, State::Withdrawn, State::Merged] {
        let theirs = ObservedRequest { by_bot: false, ..request(Metadata { state, ..metadata::example() }) };
        let observed = Observed { request: Some(theirs), ..proposed() };
        check(&observed, Some(&wanted()), "leave", "a person opened a merge request");
        check(&observed, None, "leave", "a person opened a merge request");
    }
}

#[test]
fn a_title_that_a_person_gave_stays() {
    let renamed = proposed_with(|request| request.title = "GPUs, again".into());
    check(&renamed, Some(&wanted()), "leave", "nothing differs");
    let other_text = Wanted { body: "other".into(), ..wanted() };
    check(&renamed, Some(&other_text), "leave", "a person edited the text");
    check(&renamed, Some(&another()), "update", "the plan changed");
}

#[test]
fn a_quarrel_with_somebody_else_ends() {
    let written = |n: i64| {
        let known = Metadata {
            written: (0..n).map(|i| Timestamp::from_second(NOW.as_second() - 60 * i).unwrap()).collect(),
            ..metadata::example()
        };
        proposed_with(|request| request.body = known.attach("text", None))
    };
    check(&written(5), Some(&another()), "update", "the plan changed");
    check(&written(6), Some(&another()), "leave", "it was written 6 times within an hour");
    check(&written(6), None, "withdraw", "no longer supports");
    let later = decide(&written(6), Some(&another()), &own(), "2026-03-01T13:00:01Z".parse().unwrap());
    assert_eq!(later.code(), "update");
}

#[test]
fn with_a_key_only_signed_blocks_are_the_bots() {
    let key = SigningKey::new(&[7; 32]).unwrap();
    let own = Own { keys: vec![key.clone()], ..own() };
    let signed = proposed_with(|request| request.body = metadata::example().attach("text", Some(&key)));
    assert_eq!(decide(&signed, Some(&wanted()), &own, NOW).reason(), "nothing differs");
    for wanted in [Some(wanted()), Some(another()), None] {
        let action = decide(&proposed(), wanted.as_ref(), &own, NOW);
        assert!(action.code() == "leave" && action.reason().contains("not signed by this bot"), "{action:?}");
    }
}

#[test]
fn a_closed_one_without_a_block_and_a_branch_is_over() {
    let mut observed = closed(State::Declined);
    if let Some(request) = &mut observed.request {
        request.body = "The block is gone.".into();
    }
    check(&observed, Some(&wanted()), "open", "its hidden block and its branch are gone");
    check(&observed, None, "leave", "nothing to propose");
    observed.branch_head = Some(head());
    check(&observed, Some(&wanted()), "leave", "close the proposal and delete its branch");
}

#[test]
fn a_decline_holds_whichever_key_signed_it() {
    let keys = vec![SigningKey::new(&[1; 32]).unwrap()];
    let own = Own { keys, ..own() };
    let action = decide(&closed(State::Declined), Some(&wanted()), &own, NOW);
    assert!(action.code() == "leave" && action.reason().contains("declined on"), "{action:?}");
    let action = decide(&closed(State::Withdrawn), Some(&wanted()), &own, NOW);
    assert_eq!(action.code(), "open", "{action:?}");
}

#[test]
fn the_default_branch_may_get_another_name() {
    let own = Own { base_branch: "trunk".into(), ..own() };
    let mut observed = proposed();
    let action = decide(&observed, Some(&wanted()), &own, NOW);
    assert_eq!(action.code(), "withdraw", "{action:?}");
    assert!(action.reason().contains("it is for `main`, and proposals are for `trunk` now"), "{action:?}");
    observed.request.as_mut().unwrap().base_branch = Some("trunk".into());
    assert_eq!(decide(&observed, Some(&wanted()), &own, NOW).code(), "leave");
    observed.request.as_mut().unwrap().base_branch = Some("release".into());
    assert_eq!(decide(&observed, Some(&wanted()), &own, NOW).code(), "stop-edited");
}

#[test]
fn writes_that_a_wrong_clock_noted_stop_nothing() {
    let known =
        Metadata { written: vec![NOW + jiff::SignedDuration::from_hours(99); 9], ..metadata::example() };
    let observed = Observed { request: Some(request(known)), ..proposed() };
    check(&observed, Some(&Wanted { fingerprint: "f2".into(), ..wanted() }), "update", "plan changed");
}

#[test]
fn a_finding_that_comes_and_goes_opens_no_proposal_after_proposal() {
    let mut observed = closed(State::Withdrawn);
    let known = Metadata { state: State::Withdrawn, written: vec![NOW; 6], ..metadata::example() };
    observed.request = Some(request(known));
    check(&observed, Some(&wanted()), "leave", "written 6 times within an hour");
}

#[test]
fn a_held_or_moved_one_that_is_opened_again_is_left_alone() {
    for state in [State::Declined, State::Withdrawn] {
        let mut observed = closed(state);
        let request = observed.request.as_mut().unwrap();
        request.open = true;
        request.held = Some("it has a label".into());
        check(&observed, Some(&wanted()), "leave", "held: it has a label");
        check(&observed, None, "leave", "held: it has a label");
        observed.request.as_mut().unwrap().base_branch = Some("release".into());
        check(&observed, Some(&wanted()), "stop-edited", "aimed it at `release`");
    }
}

#[test]
fn addresses_are_the_same_in_any_case() {
    let mut observed = proposed();
    observed.commits = vec![commit(&head(), "Bot@Slicewright.INVALID", BOT)];
    check(&observed, Some(&wanted()), "leave", "nothing differs");
}

#[test]
fn a_history_that_was_written_anew_is_built_upon_unless_a_person_was_there() {
    let unrelated = Observed {
        commits: vec![commit(&head(), "", "")],
        files: BTreeMap::new(),
        unrelated: true,
        ..proposed()
    };
    let action = checked(&unrelated, Some(&wanted()), "update", "another history");
    check_writes(&action, true, true);
    check(&unrelated, None, "withdraw", "no longer supports");
    let theirs = Observed { branch_head: Some("c".repeat(40)), ..unrelated.clone() };
    check(&theirs, Some(&wanted()), "stop-edited", "not the bot's");
    let nothing_said = Observed { request: None, ..unrelated };
    check(&nothing_said, Some(&wanted()), "stop-edited", "was not made by the bot");
}

#[test]
fn a_rebase_by_a_button_is_nobodys_edit_unless_somebody_else_wrote_it() {
    let rebased = |author: &str| {
        let commit = ObservedCommit { rebased: true, ..commit("r", author, "ann@x") };
        Observed { branch_head: Some("r".into()), commits: vec![commit], ..proposed() }
    };
    check(&rebased(BOT), Some(&wanted()), "leave", "nothing differs");
    check_writes(&checked(&rebased(BOT), Some(&another()), "update", "the plan changed"), true, true);
    check(&rebased("ann@x"), Some(&another()), "stop-edited", "not the bot's");
}

#[test]
fn an_older_version_does_not_take_back_what_a_newer_one_wrote() {
    let by = |version: &str, written: &str| {
        let written = vec![written.parse().unwrap()];
        let known = Metadata { updated_in: version.into(), written, ..metadata::example() };
        Observed { request: Some(request(known)), ..proposed() }
    };
    let own = Own { version: "0.9.0".into(), ..own() };
    let decide = |observed: &Observed, wanted: &Wanted| decide(observed, Some(wanted), &own, NOW);
    let lately = NOW.to_string();
    let action = decide(&by("0.10.0", &lately), &another());
    assert!(action.code() == "leave" && action.reason().contains("version 0.10.0 of the bot"), "{action:?}");
    assert_eq!(decide(&by("0.9.0", &lately), &another()).code(), "update");
    assert_eq!(decide(&by("garbage", &lately), &another()).code(), "update");
    let long_ago = NOW.checked_sub(jiff::SignedDuration::from_hours(8 * 24)).unwrap().to_string();
    assert_eq!(decide(&by("0.10.0", &long_ago), &another()).code(), "update");
    let outgrown = Wanted { outgrown: vec!["search/ranker".into()], ..another() };
    assert_eq!(decide(&by("0.10.0", &lately), &outgrown).code(), "update", "harm comes before manners");
}

/// Anybody can write the bot's address on a commit; the button that updates a branch must not make it the bot's.
#[test]
fn a_merge_of_the_base_on_top_of_a_forged_commit_is_no_button() {
    let merge = ObservedCommit { merges_base: true, ..commit("m", "ann@x", "noreply@forge") };
    let commits = vec![commit(&head(), BOT, BOT), commit("forged", BOT, BOT), merge.clone()];
    let files = BTreeMap::from([("a.yaml".into(), Some(b"evil".to_vec()))]);
    let forged = Observed { branch_head: Some("m".into()), commits, files, ..proposed() };
    check(&forged, Some(&wanted()), "stop-edited", "where the bot left it");
    let honest =
        Observed { commits: vec![commit(&head(), BOT, BOT), merge], files: wanted().files, ..forged };
    check(&honest, Some(&wanted()), "leave", "nothing differs");
}

#[test]
fn an_older_version_does_not_withdraw_what_a_newer_one_wrote_nor_open_what_it_withdrew() {
    let own = Own { version: "0.9.0".into(), ..own() };
    let by_newer = |state| {
        let known =
            Metadata { updated_in: "0.10.0".into(), written: vec![NOW], state, ..metadata::example() };
        Observed { request: Some(request(known)), ..proposed() }
    };
    let open = decide(&by_newer(State::Open), None, &own, NOW);
    assert!(open.code() == "leave" && open.reason().contains("0.10.0"), "{open:?}");
    let withdrawn = Observed { branch_head: None, commits: vec![], ..by_newer(State::Withdrawn) };
    let again = decide(&withdrawn, Some(&wanted()), &own, NOW);
    assert!(again.code() == "leave" && again.reason().contains("0.10.0"), "{again:?}");
}

#[test]
fn a_quarrel_does_not_keep_harm_quiet() {
    let written = vec![NOW; 6];
    let known = Metadata { written, ..metadata::example() };
    let observed = Observed { request: Some(request(known)), ..proposed() };
    let outgrown = Wanted { outgrown: vec!["search/ranker".into()], ..another() };
    check(&observed, Some(&outgrown), "warn", "too small by now for search/ranker");
}
