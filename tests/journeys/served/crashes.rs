//! Servers that are killed between a delivery and its answer.
//!
//! The server ends by SIGKILL when the forge was asked so many times since the delivery, so that every step between
//! receipt and reply is hit by some seed. 15 seeds run on each database with every test run, more by hand:
//! `SLICEWRIGHT_CRASH_SEEDS=300 cargo test --release --test main crashes`.
//!
//! By hand, on two cores beside other work, on 2026-12-01: 300 seeds on SQLite in 1,385 s and 300 on PostgreSQL in 3,230 s,
//! no finding in either. GitHub was killed at even requests only then, and GitLab at odd ones.

use super::{BRANCH, Service};
use crate::world::forge::Face;
use crate::world::forge::state::{KIM, RequestState};
use crate::world::golden;
use crate::world::postgres;
use crate::world::prometheus::Prometheus;
use crate::world::wait::until;

/// Seeds of every run, for each database.
const SEEDS: usize = 15;

fn n_seeds() -> usize {
    std::env::var("SLICEWRIGHT_CRASH_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS)
}

/// Requests of the forge between a delivery and the end of what follows; more than there are, so that some seeds let it end.
const MOST_REQUESTS: usize = 40;

fn crash(prometheus: &Prometheus, more: &str, seed: usize) {
    let face = if seed.is_multiple_of(2) { Face::GitHub } else { Face::GitLab };
    let mut service = Service::new(face, prometheus, more).proposed().looked();
    let deliveries = [
        service.told(KIM, "slicewright set exclude=search/ocr-svc"),
        service.told(KIM, "slicewright help"),
        service.told(KIM, "slicewright snooze for=14d"),
    ];
    service.fake.take_log();
    // Seeds of one forge are all even or all odd.
    let kill_at = (seed / 2 * 7) % MOST_REQUESTS;
    for (_, sent) in &deliveries {
        service.deliver(sent);
    }
    // The forge stands still for none of this: where it is asked less often, all is done already.
    let last = &deliveries[2].0;
    until(60, "the moment to end", || {
        let over = service.reactions(last).len() >= 2;
        (over || service.fake.n_asked() >= kill_at).then_some(())
    });
    service.server.take().unwrap().kill();
    service.start();
    // The forge sends nothing again: what was answered is the server's to do.
    for (id, _) in &deliveries {
        until(150, &format!("the answer to {id}, seed {seed}"), || {
            let ends = ["rocket", "thumbsup", "confused", "thumbsdown"];
            service.reactions(id).iter().any(|one| ends.contains(&one.as_str())).then_some(())
        });
    }
    let words = service.words();
    let n = |what: &str| words.iter().filter(|text| text.contains(what)).count();
    assert_eq!(n("| Command | Who |"), 1, "seed {seed}: {words:?}");
    assert_eq!(n("<!-- slicewright-topic:status -->"), 1, "seed {seed}: {words:?}");
    assert_eq!(n("Not done"), 0, "seed {seed}: {words:?}");
    let noted = service.noted();
    assert_eq!(noted.overrides.shown(), ["exclude=search/ocr-svc"], "seed {seed}");
    assert_eq!(noted.snoozed_until, Some(jiff::civil::date(2026, 1, 29)), "seed {seed}");
    assert_eq!(noted.head, service.head(), "seed {seed}");
    let mut state = service.fake.state();
    let open =
        state.infra().requests.iter().filter(|one| one.source == BRANCH && one.state == RequestState::Open);
    assert_eq!(open.count(), 1, "seed {seed}");
    for (id, _) in &deliveries {
        let comment = state.request_of(BRANCH).comments.iter().find(|one| one.id.to_string() == *id).unwrap();
        let mut once = comment.reactions.clone();
        once.dedup();
        assert_eq!(once, comment.reactions, "seed {seed}");
    }
}

#[test]
fn a_killed_server_loses_nothing_and_says_nothing_twice_on_sqlite() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    for seed in 0..n_seeds() {
        crash(&prometheus, "", seed);
    }
}

#[test]
fn a_killed_server_loses_nothing_and_says_nothing_twice_on_postgresql() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    for seed in 0..n_seeds() {
        let home = tempfile::tempdir().unwrap();
        let url = home.path().join("url");
        std::fs::write(&url, postgres::new_database()).unwrap();
        crash(
            &prometheus,
            &format!("  store: {{url_file: '{}'}}\n  lease_seconds: 5\n", url.display()),
            seed,
        );
    }
}
