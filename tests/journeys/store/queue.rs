//! The queue: lanes, topics, leases, what fails and what is given up.

use slicewright::store::Store;
use slicewright::store::jobs::{NewJob, Queued};
use slicewright::store::leases::Job;

use super::{Base, KIND, at, job, seconds};

on_both! {
    jobs_of_one_lane_run_one_at_a_time,
    a_lane_goes_by_priority_then_by_moment_then_by_number,
    the_lane_that_waits_longest_goes_first,
    one_job_a_topic_waits_however_often_it_is_asked_for,
    a_topic_in_work_lets_one_more_wait,
    nothing_is_taken_before_it_is_due,
    a_worker_gets_the_kinds_that_it_asks_for,
    what_was_interrupted_is_taken_up_again_before_the_rest_of_its_lane,
    a_worker_that_comes_back_late_changes_nothing,
    a_lease_that_is_over_is_renewed_unless_the_lane_went_on,
    what_fails_waits_until_it_is_due_again,
    what_fails_joins_what_waits_about_the_same_and_keeps_its_attempts,
    what_is_given_up_stays_until_somebody_revives_it,
    a_revived_job_joins_what_waits_about_the_same,
    what_waits_is_cancelled_and_what_runs_is_not,
    the_next_moment_knows_of_leases,
    the_counts_add_up,
}

async fn add(store: &Store, job: &NewJob) -> i64 {
    store.enqueue(job, at(0)).await.unwrap().id()
}

/// Takes the next job for a minute.
async fn claim(store: &Store, second: i64) -> Option<Job> {
    store.claim("worker", at(second), seconds(60), &[KIND]).await.unwrap()
}

async fn claimed(store: &Store, second: i64) -> String {
    claim(store, second).await.map_or("nothing".to_owned(), |job| job.payload)
}

async fn jobs_of_one_lane_run_one_at_a_time(base: &Base) {
    let store = base.open().await;
    add(&store, &job("a", None, "1")).await;
    add(&store, &job("a", None, "2")).await;
    let first = claim(&store, 1).await.unwrap();
    assert_eq!((first.payload.as_str(), first.attempts), ("1", 1));
    assert_eq!(claimed(&store, 2).await, "nothing");
    assert!(store.finish(&first, at(3)).await.unwrap());
    assert_eq!(claimed(&store, 3).await, "2");
}

async fn a_lane_goes_by_priority_then_by_moment_then_by_number(base: &Base) {
    let store = base.open().await;
    for (payload, due, priority) in [("d", 5, 1), ("b", 7, 0), ("c", 7, 0), ("a", 6, 0), ("later", 50, -9)] {
        add(&store, &NewJob { due: at(due), priority, ..job("a", None, payload) }).await;
    }
    let mut order = String::new();
    while let Some(job) = claim(&store, 10).await {
        order.push_str(&job.payload);
        store.finish(&job, at(10)).await.unwrap();
    }
    assert_eq!(order, "abcd");
}

async fn the_lane_that_waits_longest_goes_first(base: &Base) {
    let store = base.open().await;
    for (lane, due) in [("busy", 1), ("busy", 2), ("busy", 5), ("quiet", 4)] {
        add(&store, &NewJob { due: at(due), ..job(lane, None, &due.to_string()) }).await;
    }
    let mut order = String::new();
    while let Some(job) = claim(&store, 10).await {
        order.push_str(&job.payload);
        store.finish(&job, at(10)).await.unwrap();
    }
    assert_eq!(order, "1245");
}

async fn one_job_a_topic_waits_however_often_it_is_asked_for(base: &Base) {
    let store = base.open().await;
    let first = NewJob { due: at(9), priority: 5, ..job("a", Some("t"), "old") };
    let id = add(&store, &first).await;
    let again = NewJob { due: at(4), priority: 7, kind: "other".to_owned(), ..job("a", Some("t"), "new") };
    assert_eq!(store.enqueue(&again, at(1)).await.unwrap(), Queued::Joined(id));
    let later = NewJob { due: at(20), priority: 3, ..job("a", Some("t"), "newest") };
    assert_eq!(store.enqueue(&later, at(2)).await.unwrap(), Queued::Joined(id));
    // The same words in another lane, and no topic at all, are something else.
    assert!(matches!(store.enqueue(&job("b", Some("t"), "b"), at(2)).await.unwrap(), Queued::New(_)));
    assert!(matches!(store.enqueue(&job("c", None, "c"), at(2)).await.unwrap(), Queued::New(_)));
    assert!(matches!(store.enqueue(&job("c", None, "c"), at(2)).await.unwrap(), Queued::New(_)));
    store.cancel("b", "t").await.unwrap();
    let waiting = store.claim("worker", at(4), seconds(60), &[KIND]).await.unwrap().unwrap();
    assert_eq!(waiting.lane, "c");
    let waiting = claim(&store, 4).await.unwrap();
    assert_eq!((waiting.id, waiting.payload.as_str()), (id, "newest"));
    assert_eq!((waiting.due, waiting.priority, waiting.created), (at(4), 3, at(0)));
}

async fn a_topic_in_work_lets_one_more_wait(base: &Base) {
    let store = base.open().await;
    let id = add(&store, &job("a", Some("t"), "1")).await;
    let running = claim(&store, 1).await.unwrap();
    let Queued::New(waiting) = store.enqueue(&job("a", Some("t"), "2"), at(2)).await.unwrap() else {
        panic!("what is in work has read its payload already");
    };
    assert_ne!(waiting, id);
    assert_eq!(store.enqueue(&job("a", Some("t"), "3"), at(3)).await.unwrap(), Queued::Joined(waiting));
    assert!(store.finish(&running, at(4)).await.unwrap());
    let next = claim(&store, 4).await.unwrap();
    assert_eq!((next.id, next.payload.as_str(), next.attempts), (waiting, "3", 1));
    store.finish(&next, at(5)).await.unwrap();
    assert_eq!(claimed(&store, 5).await, "nothing");
}

async fn nothing_is_taken_before_it_is_due(base: &Base) {
    let store = base.open().await;
    add(&store, &NewJob { due: at(10), ..job("a", None, "1") }).await;
    assert_eq!(claimed(&store, 9).await, "nothing");
    assert_eq!(store.next_due(&[KIND]).await.unwrap(), Some(at(10)));
    assert_eq!(claimed(&store, 10).await, "1");
}

async fn a_worker_gets_the_kinds_that_it_asks_for(base: &Base) {
    let store = base.open().await;
    add(&store, &job("a", None, "pass")).await;
    add(&store, &NewJob { kind: "command".to_owned(), ..job("a", None, "command") }).await;
    let claim = async |kinds: &[&str]| {
        store.claim("worker", at(1), seconds(60), kinds).await.unwrap().map(|job| job.kind)
    };
    assert_eq!(claim(&[]).await, None);
    assert_eq!(claim(&["comm", "COMMAND", "%"]).await, None);
    assert_eq!(store.next_due(&["other"]).await.unwrap(), None);
    // The one before it in its lane is passed over, and waits until this one is done.
    assert_eq!(claim(&["other", "command"]).await.as_deref(), Some("command"));
    assert_eq!(claim(&["pass", "command"]).await, None);
}

async fn what_was_interrupted_is_taken_up_again_before_the_rest_of_its_lane(base: &Base) {
    let store = base.open().await;
    add(&store, &NewJob { priority: 3, ..job("a", None, "1") }).await;
    let lost = claim(&store, 0).await.unwrap();
    add(&store, &job("a", None, "urgent")).await;
    assert_eq!(claimed(&store, 59).await, "nothing");
    let again = claim(&store, 60).await.unwrap();
    assert_eq!((again.id, again.attempts), (lost.id, 2));
    store.finish(&again, at(61)).await.unwrap();
    assert_eq!(claimed(&store, 61).await, "urgent");
}

async fn a_worker_that_comes_back_late_changes_nothing(base: &Base) {
    let store = base.open().await;
    add(&store, &job("a", Some("t"), "1")).await;
    let late = claim(&store, 0).await.unwrap();
    let new = claim(&store, 60).await.unwrap();
    assert!(!store.renew(&late, at(61), seconds(60)).await.unwrap());
    assert!(!store.finish(&late, at(61)).await.unwrap());
    assert!(!store.retry(&late, at(61), "no").await.unwrap());
    assert!(!store.bury(&late, "no", at(61)).await.unwrap());
    // The lease of the one who has it now still holds.
    add(&store, &job("a", None, "2")).await;
    assert_eq!(claimed(&store, 62).await, "nothing");
    assert!(store.renew(&new, at(100), seconds(60)).await.unwrap());
    assert_eq!(claimed(&store, 130).await, "nothing");
    assert!(store.finish(&new, at(131)).await.unwrap());
    assert!(!store.finish(&new, at(131)).await.unwrap());
    assert_eq!(claimed(&store, 131).await, "2");
}

async fn a_lease_that_is_over_is_renewed_unless_the_lane_went_on(base: &Base) {
    let store = base.open().await;
    add(&store, &job("a", None, "1")).await;
    let slow = claim(&store, 0).await.unwrap();
    assert!(store.renew(&slow, at(70), seconds(10)).await.unwrap());
    add(&store, &NewJob { kind: "other".to_owned(), ..job("a", None, "2") }).await;
    let other = store.claim("other", at(90), seconds(60), &["other"]).await.unwrap().unwrap();
    assert_eq!(other.payload, "2");
    assert!(!store.renew(&slow, at(91), seconds(60)).await.unwrap());
    // Its own work is done all the same, and the other's lease goes on.
    assert!(store.finish(&slow, at(92)).await.unwrap());
    add(&store, &job("a", None, "3")).await;
    assert_eq!(claimed(&store, 93).await, "nothing");
    assert!(store.finish(&other, at(94)).await.unwrap());
    assert_eq!(claimed(&store, 94).await, "3");
}

async fn what_fails_waits_until_it_is_due_again(base: &Base) {
    let store = base.open().await;
    add(&store, &job("a", Some("t"), "1")).await;
    add(&store, &job("a", None, "2")).await;
    let first = claim(&store, 0).await.unwrap();
    assert!(store.retry(&first, at(30), "the forge is down").await.unwrap());
    assert!(!store.retry(&first, at(30), "twice").await.unwrap());
    // The lane goes on meanwhile.
    let second = claim(&store, 1).await.unwrap();
    assert_eq!(second.payload, "2");
    store.finish(&second, at(2)).await.unwrap();
    assert_eq!(claimed(&store, 29).await, "nothing");
    let again = claim(&store, 30).await.unwrap();
    assert_eq!((again.attempts, again.error.as_deref()), (2, Some("the forge is down")));
}

async fn what_fails_joins_what_waits_about_the_same_and_keeps_its_attempts(base: &Base) {
    let store = base.open().await;
    add(&store, &job("a", Some("t"), "old")).await;
    let first = claim(&store, 0).await.unwrap();
    let waiting = add(&store, &NewJob { due: at(5), ..job("a", Some("t"), "new") }).await;
    assert!(store.retry(&first, at(30), "failed").await.unwrap());
    let again = claim(&store, 5).await.unwrap();
    assert_eq!((again.id, again.payload.as_str(), again.attempts), (waiting, "new", 2));
    assert_eq!(again.error.as_deref(), Some("failed"));
    store.finish(&again, at(6)).await.unwrap();
    assert_eq!(claimed(&store, 100).await, "nothing");
}

async fn what_is_given_up_stays_until_somebody_revives_it(base: &Base) {
    let store = base.open().await;
    let id = add(&store, &job("a", Some("t"), "1")).await;
    let first = claim(&store, 0).await.unwrap();
    assert!(store.bury(&first, "hopeless", at(1)).await.unwrap());
    assert_eq!(claimed(&store, 1_000).await, "nothing");
    let dead = store.dead(10).await.unwrap();
    assert_eq!(dead.len(), 1);
    let one = &dead[0];
    assert_eq!((one.id, one.lane.as_str(), one.topic.as_deref()), (id, "a", Some("t")));
    assert_eq!((one.error.as_str(), one.attempts, one.payload.as_str()), ("hopeless", 1, "1"));
    assert_eq!((one.kind.as_str(), one.created, one.died), (KIND, at(0), at(1)));
    assert!(store.revive(id, at(2_000)).await.unwrap());
    assert!(!store.revive(id, at(2_000)).await.unwrap());
    assert!(!store.revive(id + 1_000, at(2_000)).await.unwrap());
    assert!(store.dead(10).await.unwrap().is_empty());
    assert_eq!(claimed(&store, 1_999).await, "nothing");
    let again = claim(&store, 2_000).await.unwrap();
    assert_eq!((again.id, again.attempts, again.error.as_deref()), (id, 1, None));
    // Who gave it up long ago must not say so again.
    assert!(!store.bury(&first, "hopeless", at(2_001)).await.unwrap());
    assert!(store.finish(&again, at(2_002)).await.unwrap());
}

async fn a_revived_job_joins_what_waits_about_the_same(base: &Base) {
    let store = base.open().await;
    let id = add(&store, &job("a", Some("t"), "old")).await;
    let first = claim(&store, 0).await.unwrap();
    store.bury(&first, "hopeless", at(1)).await.unwrap();
    let waiting = add(&store, &NewJob { due: at(50), ..job("a", Some("t"), "new") }).await;
    assert!(store.revive(id, at(10)).await.unwrap());
    let next = claim(&store, 10).await.unwrap();
    assert_eq!((next.id, next.payload.as_str(), next.attempts), (waiting, "new", 1));
    assert!(store.dead(10).await.unwrap().is_empty());
}

async fn what_waits_is_cancelled_and_what_runs_is_not(base: &Base) {
    let store = base.open().await;
    add(&store, &job("a", Some("t"), "1")).await;
    assert!(store.cancel("a", "t").await.unwrap());
    assert!(!store.cancel("a", "t").await.unwrap());
    assert_eq!(claimed(&store, 1).await, "nothing");
    add(&store, &job("a", Some("t"), "2")).await;
    let running = claim(&store, 1).await.unwrap();
    assert!(!store.cancel("a", "t").await.unwrap());
    assert!(store.finish(&running, at(2)).await.unwrap());
}

async fn the_next_moment_knows_of_leases(base: &Base) {
    let store = base.open().await;
    assert_eq!(store.next_due(&[KIND]).await.unwrap(), None);
    add(&store, &NewJob { due: at(3), ..job("a", None, "1") }).await;
    add(&store, &NewJob { due: at(100), ..job("a", None, "2") }).await;
    let first = claim(&store, 3).await.unwrap();
    assert_eq!(store.next_due(&[KIND]).await.unwrap(), Some(at(63)));
    store.renew(&first, at(33), seconds(60)).await.unwrap();
    assert_eq!(store.next_due(&[KIND]).await.unwrap(), Some(at(93)));
    store.finish(&first, at(34)).await.unwrap();
    assert_eq!(store.next_due(&[KIND]).await.unwrap(), Some(at(100)));
}

async fn the_counts_add_up(base: &Base) {
    let store = base.open().await;
    assert_eq!(store.counts(at(0)).await.unwrap(), slicewright::store::jobs::QueueCounts::default());
    for (lane, due) in [("a", 0), ("b", 1), ("c", 2), ("d", 3), ("e", 500)] {
        add(&store, &NewJob { due: at(due), ..job(lane, None, lane) }).await;
    }
    let dead = claim(&store, 10).await.unwrap();
    store.bury(&dead, "hopeless", at(10)).await.unwrap();
    let done = claim(&store, 10).await.unwrap();
    store.finish(&done, at(10)).await.unwrap();
    claim(&store, 10).await.unwrap();
    let counts = store.counts(at(11)).await.unwrap();
    assert_eq!((counts.ready, counts.due, counts.running, counts.interrupted, counts.dead), (2, 1, 1, 0, 1));
    assert_eq!(counts.oldest_due, Some(at(3)));
    let counts = store.counts(at(70)).await.unwrap();
    assert_eq!((counts.running, counts.interrupted), (0, 1));
}
