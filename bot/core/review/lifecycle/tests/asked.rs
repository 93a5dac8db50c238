//! Passes that a person asked for by a comment, and what comments noted.

use jiff::civil::date;

use super::*;

const DISCARD: Asked = Asked::Regenerate { discard_edits: true };
const REGENERATE: Asked = Asked::Regenerate { discard_edits: false };

#[track_caller]
fn asked(observed: &Observed, wanted: Option<&Wanted>, asked: Asked, code: &str, says: &str) -> Action {
    let own = Own { asked: Some(asked), base_commit: "c".repeat(40), ..own() };
    let action = decide(observed, wanted, &own, NOW);
    assert_eq!(action.code(), code, "{action:?}");
    assert!(action.reason().contains(says), "{action:?}");
    action
}

fn noted(known: Metadata) -> Observed {
    Observed { request: Some(ObservedRequest { open: true, ..request(known) }), ..proposed() }
}

fn other_plan() -> Wanted {
    Wanted {
        fingerprint: "f2".into(),
        files: BTreeMap::from([("a.yaml".into(), Some(b"newer".to_vec()))]),
        ..wanted()
    }
}

#[test]
fn whoever_asks_gets_the_new_plan_although_somebody_approved_the_old_one() {
    let mut observed = proposed();
    observed.request.as_mut().unwrap().approvals = 1;
    check(&observed, Some(&other_plan()), "leave", "approved it");
    let action = asked(&observed, Some(&other_plan()), REGENERATE, "update", "the plan changed");
    check_writes(&action, true, true);
    let _ = asked(&proposed(), Some(&wanted()), REGENERATE, "leave", "nothing differs");
    let same_plan = Wanted { fingerprint: "f1".into(), ..other_plan() };
    check(&proposed(), Some(&same_plan), "leave", "stays as it was reviewed");
    let action = asked(&proposed(), Some(&same_plan), REGENERATE, "update", "other files by now");
    check_writes(&action, true, true);
}

#[test]
fn commits_of_people_go_only_when_somebody_says_so() {
    let mut observed = proposed();
    observed.branch_head = Some("9".repeat(40));
    observed.commits.push(commit(&"9".repeat(40), "robin@example.com", "robin@example.com"));
    let _ = asked(&observed, Some(&wanted()), REGENERATE, "stop-edited", "not the bot's");
    let action = asked(&observed, Some(&wanted()), DISCARD, "update", "it was at `999999999999`");
    check_writes(&action, true, true);
    // The same where it is the bot's name on another's commit.
    observed.commits[1].emails = [BOT.to_owned(), BOT.to_owned()];
    observed.files = other_plan().files;
    let _ = asked(&observed, Some(&wanted()), REGENERATE, "stop-edited", "where the bot left it");
    let _ = asked(&observed, Some(&wanted()), DISCARD, "update", "was dropped");
    // Nothing of anybody's there: nothing to say about it.
    let _ = asked(&proposed(), Some(&wanted()), DISCARD, "leave", "nothing differs");
}

#[test]
fn rebasing_moves_a_branch_that_needs_nothing_else() {
    let action = asked(&proposed(), Some(&wanted()), Asked::Rebase, "update", "stands on `cccccccccccc`");
    check_writes(&action, true, true);
    let there = noted(Metadata { base_commit: "c".repeat(40), ..metadata::example() });
    let _ =
        asked(&there, Some(&wanted()), Asked::Rebase, "leave", "newest commit of the base branch already");
}

#[test]
fn what_a_comment_declined_stays_as_it_is_until_it_lapses() {
    let declined = |day| noted(Metadata { declined_on: Some(day), ..metadata::example() });
    let lately = declined(date(2026, 2, 1));
    check(&lately, Some(&wanted()), "leave", "declined on 2026-02-01; it is proposed again after 180 days");
    check(&lately, Some(&other_plan()), "leave", "declined on 2026-02-01");
    let _ = asked(&lately, Some(&other_plan()), REGENERATE, "leave", "declined on 2026-02-01");
    check(&lately, None, "warn", "no longer supports the change");
    let frees_more = Wanted { cards_freed: 3, ..other_plan() };
    check(&lately, Some(&frees_more), "update", "the plan changed");
    check(&declined(date(2025, 6, 1)), Some(&other_plan()), "update", "the plan changed");
}

#[test]
fn closing_what_was_declined_keeps_why() {
    let known = Metadata {
        declined_on: Some(date(2026, 2, 1)),
        reason: Some("not now".into()),
        ..metadata::example()
    };
    let mut observed = noted(known);
    observed.request.as_mut().unwrap().open = false;
    check(&observed, Some(&wanted()), "record-declined", "a person closed it: not now");
}
