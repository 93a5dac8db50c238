//! People who are faster than the bot: each thing that they do, before each request of a pass that is no plain read.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use slicewright_core::review::metadata::State as Standing;

use super::stage::{BRANCH, FILE, Kind, OTHER, Stage, ready};
use crate::world::forge::faults::Faults;
use crate::world::forge::people::Merge;
use crate::world::forge::state::{BOT, INFRA, ROBIN, RequestState, State};

/// Stories at once; they wait for git most of the time.
const N_THREADS: usize = 6;

/// What the bot is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Updates,
    Withdraws,
}

/// What a person does meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Pushes,
    DeletesTheBranch,
    Closes,
    Merges,
    Retargets,
}

#[test]
fn a_person_may_come_before_any_request() {
    let mut stories = Vec::new();
    for kind in [Kind::GitHub, Kind::GitLab] {
        for deed in [Deed::Pushes, Deed::DeletesTheBranch, Deed::Closes, Deed::Merges, Deed::Retargets] {
            stories.push((kind, Work::Updates, deed));
        }
        for deed in [Deed::Pushes, Deed::Closes, Deed::Merges] {
            stories.push((kind, Work::Withdraws, deed));
        }
    }
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let run = || {
        while let Some(story) = stories.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (kind, work, deed) = *story;
            for n in 0.. {
                let told = std::panic::catch_unwind(|| meddle(kind, work, deed, n));
                match told {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(why) => {
                        let text = why.downcast_ref::<String>().cloned();
                        let text = text.or_else(|| why.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                        let text = text.unwrap_or_default();
                        failed.lock().unwrap().push(format!("{kind:?} {work:?} {deed:?} {n}: {text}"));
                    }
                }
                assert!(n < 100, "a pass ends");
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..N_THREADS {
            scope.spawn(run);
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// One story; `false` when the pass was over before the person came.
fn meddle(kind: Kind, work: Work, deed: Deed, n: u64) -> bool {
    let mut stage = Stage::new(kind);
    let (first, second) = (ready("2g.10gb"), ready("3g.20gb"));
    stage.pass(Some(&first));
    let wanted = match work {
        Work::Updates => Some(&second),
        Work::Withdraws => None,
    };
    stage.git(|git| git.git(&["update-ref", "refs/heads/release", "main"]));
    stage.restart();
    let person = Box::new(move |state: &mut State| act(state, deed));
    stage.fake().set_faults(Some(Faults::person_before(n, person)));
    // Whatever came of it: the next passes put it right.
    let _ = stage.try_pass(wanted);
    let came = stage.fake().person_came();
    stage.fake().set_faults(None);
    if !came {
        return false;
    }
    let done = stage.git(|git| git.head("done"));
    stage.restart();
    for _ in 0..3 {
        stage.pass(wanted);
        stage.now += jiff::SignedDuration::from_hours(2);
    }
    stage.expect_silence(wanted);
    if let Some(done) = done {
        check(&stage, deed, &done, wanted.is_some());
    }
    true
}

/// What a person did is noted as the branch `done`, if it could be done.
fn act(state: &mut State, deed: Deed) {
    let Some(head) = state.infra().git.head(BRANCH) else { return };
    let is_open =
        |one: &crate::world::forge::state::Request| one.source == BRANCH && one.state == RequestState::Open;
    let open = state.infra().requests.iter().any(is_open);
    match deed {
        Deed::Pushes => {
            let push = |state: &mut State| {
                state.infra().git.commit_as_human(BRANCH, &[(OTHER, "limits: {}\n")], "By hand");
            };
            state.pushing(INFRA, ROBIN, push);
        }
        Deed::DeletesTheBranch => {
            state.pushing(INFRA, ROBIN, |state| state.infra().git.delete_branch(BRANCH));
        }
        Deed::Closes if open => state.close(BRANCH),
        Deed::Merges if open => state.merge(BRANCH, Merge::Commit),
        Deed::Retargets if open => "release".clone_into(&mut state.request_of(BRANCH).target),
        Deed::Closes | Deed::Merges | Deed::Retargets => return,
    }
    let git = &state.infra().git;
    let head = git.head(BRANCH).unwrap_or(head);
    git.git(&["update-ref", "refs/heads/done", &head]);
}

fn check(stage: &Stage, deed: Deed, done: &str, is_wanted: bool) {
    let head = stage.head();
    let mut state = stage.fake().state();
    let requests = state.infra().requests.clone();
    drop(state);
    let open: Vec<_> = requests.iter().filter(|one| one.state == RequestState::Open).collect();
    assert!(open.len() <= 1, "{} merge requests are open", open.len());
    assert!(requests.iter().all(|one| one.author == BOT));
    for request in &requests {
        let mut topics: Vec<_> = request.comments.iter().filter_map(|one| one.body.lines().next()).collect();
        let n = topics.len();
        topics.sort_unstable();
        topics.dedup();
        assert_eq!(topics.len(), n, "a comment was made twice: {:?}", request.comments);
    }
    match deed {
        Deed::Pushes => {
            let head = head.expect("a branch with a person's commit stays");
            let kept = stage.git(|git| git.try_git(&["merge-base", "--is-ancestor", done, &head]));
            assert!(kept.is_some(), "a person's commit is lost");
        }
        Deed::DeletesTheBranch => {}
        Deed::Closes => {
            assert!(open.is_empty(), "what a person closed stays closed: {requests:#?}");
            assert_eq!(head, None, "a branch is left of which nobody knows any more");
            if is_wanted {
                assert_eq!(stage.noted().state, Standing::Declined);
            }
        }
        Deed::Merges => {
            // Nothing that is wanted now is taken for what was merged.
            let text = stage.git(|git| git.read("main", FILE)).unwrap();
            if is_wanted && open.is_empty() {
                assert!(!text.contains("gpu: 1"), "{text}");
                let noted = stage.noted();
                assert_eq!(noted.state, Standing::Merged);
                let merged = if text.contains("2g.10gb") { "2g.10gb" } else { "3g.20gb" };
                assert_eq!(noted.fingerprint, format!("fingerprint-{merged}"));
            }
        }
        Deed::Retargets => {
            let mine = requests.iter().rfind(|one| one.state == RequestState::Open);
            assert!(
                !is_wanted || mine.is_some_and(|one| one.target == "release"),
                "it stays aimed where a person aimed it: {requests:#?}"
            );
        }
    }
}
