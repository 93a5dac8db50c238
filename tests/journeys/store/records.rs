//! Deliveries, schedules, commands, runs and pages, and what is forgotten of them.

use std::collections::BTreeSet;

use slicewright::store::Store;
use slicewright::store::commands::{CommandNote, TOO_MANY};
use slicewright::store::deliveries::Accepted;
use slicewright::store::jobs::NewJob;
use slicewright::store::leases::Job;
use slicewright::store::pages::Page;
use slicewright::store::runs::RunNote;
use slicewright::store::schedules::Schedule;

use super::{Base, KIND, at, job, seconds};

on_both! {
    a_delivery_counts_once_for_each_route,
    what_was_given_up_of_a_delivery_is_done_when_it_comes_again,
    deliveries_that_share_a_job_share_its_fate,
    deliveries_that_come_together_are_each_accepted_once,
    a_delivery_that_cannot_be_kept_harms_none_that_comes_with_it,
    a_schedule_keeps_its_moment_until_its_expression_changes,
    a_schedule_fires_once_for_each_moment,
    a_command_is_noted_once_and_its_outcome_is_the_last,
    commands_are_counted_for_a_person_in_a_repository,
    a_run_is_one_line_from_start_to_end,
    a_page_is_never_older_than_it_was,
    pages_without_a_subject_are_dropped,
    what_is_old_is_forgotten_and_what_is_needed_is_kept,
    much_is_forgotten_in_portions,
    everything_is_there_after_a_restart,
}

const DAY: i64 = 86_400;

async fn claim(store: &Store, second: i64) -> Option<Job> {
    store.claim("worker", at(second), seconds(60), &[KIND]).await.unwrap()
}

async fn finish_next(store: &Store, second: i64) {
    let job = claim(store, second).await.unwrap();
    assert!(store.finish(&job, at(second)).await.unwrap());
}

async fn bury_next(store: &Store, second: i64) {
    let job = claim(store, second).await.unwrap();
    assert!(store.bury(&job, "hopeless", at(second)).await.unwrap());
}

async fn a_delivery_counts_once_for_each_route(base: &Base) {
    let store = base.open().await;
    let jobs = [job("a", None, "1"), job("b", Some("t"), "2")];
    let accept = async |route: &str, jobs: &[NewJob]| store.accept(route, "d-1", jobs, at(0)).await.unwrap();
    assert_eq!(accept("github", &jobs).await, Accepted::New);
    assert_eq!(accept("github", &jobs).await, Accepted::Again);
    assert_eq!(store.counts(at(0)).await.unwrap().ready, 2);
    // Two hooks of one forge get the same number for the same event.
    assert_eq!(accept("github-2", &jobs[..1]).await, Accepted::New);
    assert_eq!(store.counts(at(0)).await.unwrap().ready, 3);
    for second in 1..=3 {
        assert_eq!(accept("github", &jobs).await, Accepted::Again);
        finish_next(&store, second).await;
    }
    assert_eq!(accept("github", &jobs).await, Accepted::Again);
    // One that asks for nothing is noted too.
    assert_eq!(accept("gitlab", &[]).await, Accepted::New);
    assert_eq!(accept("gitlab", &jobs).await, Accepted::Again);
    assert_eq!(store.counts(at(9)).await.unwrap().ready, 0);
}

async fn what_was_given_up_of_a_delivery_is_done_when_it_comes_again(base: &Base) {
    let store = base.open().await;
    let jobs = [job("a", None, "1"), job("b", None, "2")];
    store.accept("github", "d", &jobs, at(0)).await.unwrap();
    finish_next(&store, 1).await;
    bury_next(&store, 1).await;
    assert_eq!(store.accept("github", "d", &jobs, at(5)).await.unwrap(), Accepted::New);
    assert_eq!(store.accept("github", "d", &jobs, at(6)).await.unwrap(), Accepted::Again);
    assert!(claim(&store, 4).await.is_none());
    let again = claim(&store, 5).await.unwrap();
    assert_eq!((again.payload.as_str(), again.attempts), ("2", 1));
    assert!(claim(&store, 5).await.is_none());
    assert_eq!(store.accept("github", "d", &jobs, at(6)).await.unwrap(), Accepted::Again);
}

async fn deliveries_that_share_a_job_share_its_fate(base: &Base) {
    let store = base.open().await;
    let accept = async |key: &str, payload: &str, second: i64| {
        store.accept("github", key, &[job("a", Some("t"), payload)], at(second)).await.unwrap()
    };
    accept("d-1", "1", 0).await;
    accept("d-2", "2", 1).await;
    assert_eq!(store.counts(at(1)).await.unwrap().ready, 1);
    // The one in work joins the one that waits when it fails; then that is given up.
    let failing = claim(&store, 1).await.unwrap();
    accept("d-3", "3", 2).await;
    store.retry(&failing, at(3), "failed").await.unwrap();
    let last = claim(&store, 3).await.unwrap();
    assert_eq!((last.payload.as_str(), last.attempts), ("3", 2));
    store.bury(&last, "hopeless", at(4)).await.unwrap();
    // Whichever is sent again, the work is done again, once.
    assert_eq!(accept("d-1", "1", 10).await, Accepted::New);
    for key in ["d-1", "d-2", "d-3"] {
        assert_eq!(accept(key, "x", 11).await, Accepted::Again);
    }
    let again = claim(&store, 11).await.unwrap();
    assert_eq!(again.payload, "3");
    store.bury(&again, "hopeless", at(12)).await.unwrap();
    // Meanwhile something newer waits: they join it.
    accept("d-4", "4", 13).await;
    assert_eq!(accept("d-2", "x", 14).await, Accepted::New);
    assert_eq!(accept("d-3", "x", 14).await, Accepted::Again);
    bury_next(&store, 15).await;
    for (key, accepted) in [("d-1", Accepted::New), ("d-4", Accepted::Again)] {
        assert_eq!(accept(key, "x", 16).await, accepted, "{key}");
    }
    let counts = store.counts(at(17)).await.unwrap();
    assert_eq!((counts.ready, counts.dead), (1, 0));
}

async fn deliveries_that_come_together_are_each_accepted_once(base: &Base) {
    let store = base.open().await;
    // 40 deliveries, each five times, about ten topics in two lanes; and one without a topic each.
    let mut all = tokio::task::JoinSet::new();
    for n in 0..200_u32 {
        let (store, delivery) = (store.clone(), n % 40);
        all.spawn(async move {
            let lane = if delivery % 2 == 0 { "a" } else { "b" };
            let topic = format!("t{}", delivery % 10);
            let jobs = [job(lane, Some(&topic), &delivery.to_string()), job(lane, None, "alone")];
            (delivery, store.accept("github", &format!("d-{delivery}"), &jobs, at(0)).await.unwrap())
        });
    }
    let mut times_new = vec![0; 40];
    while let Some(one) = all.join_next().await {
        let (delivery, accepted) = one.unwrap();
        times_new[delivery as usize] += usize::from(accepted == Accepted::New);
    }
    assert_eq!(times_new, vec![1; 40]);
    assert_eq!(store.counts(at(0)).await.unwrap().ready, 10 + 40);
    // Each is linked to what does its work: when that is given up, each may be sent again, and all join one job.
    while let Some(job) = claim(&store, 1).await {
        assert!(store.bury(&job, "hopeless", at(1)).await.unwrap());
    }
    for n in 0..40 {
        let accepted = store.accept("github", &format!("d-{n}"), &[], at(2)).await.unwrap();
        assert_eq!(accepted, Accepted::New, "d-{n}: its job without a topic was given up");
    }
    assert_eq!(store.counts(at(2)).await.unwrap().ready, 10 + 40);
}

async fn a_delivery_that_cannot_be_kept_harms_none_that_comes_with_it(base: &Base) {
    let store = base.open().await;
    let mut all = tokio::task::JoinSet::new();
    for n in 0..50_u32 {
        let store = store.clone();
        all.spawn(async move {
            let payload = if n == 7 { "\0" } else { "fine" };
            (n, store.accept("github", &format!("d-{n}"), &[job("a", None, payload)], at(0)).await)
        });
    }
    while let Some(one) = all.join_next().await {
        let (n, accepted) = one.unwrap();
        match accepted {
            Ok(accepted) => assert!(n != 7 && accepted == Accepted::New, "{n}"),
            Err(error) => assert!(n == 7 && !error.is_passing(), "{n}: {error}"),
        }
    }
    assert_eq!(store.counts(at(0)).await.unwrap().ready, 49);
    assert_eq!(store.accept("github", "d-7", &[job("a", None, "fine")], at(0)).await.unwrap(), Accepted::New);
}

async fn a_schedule_keeps_its_moment_until_its_expression_changes(base: &Base) {
    let store = base.open().await;
    store.schedule("passes", "0 6 * * *", at(100)).await.unwrap();
    store.schedule("passes", "0 6 * * *", at(200)).await.unwrap();
    let only =
        Schedule { name: "passes".to_owned(), spec: "0 6 * * *".to_owned(), next: at(100), fired: None };
    assert_eq!(store.schedules().await.unwrap(), [only]);
    store.schedule("passes", "0 7 * * *", at(300)).await.unwrap();
    store.schedule("compact", "@daily", at(250)).await.unwrap();
    let shown = async || -> Vec<_> {
        let all = store.schedules().await.unwrap().into_iter();
        all.map(|schedule| (schedule.name, schedule.spec, schedule.next)).collect()
    };
    let compact = ("compact".to_owned(), "@daily".to_owned(), at(250));
    let passes = ("passes".to_owned(), "0 7 * * *".to_owned(), at(300));
    assert_eq!(shown().await, [compact, passes.clone()]);
    store.drop_schedules(&BTreeSet::from(["passes".to_owned(), "other".to_owned()])).await.unwrap();
    assert_eq!(shown().await, [passes]);
}

async fn a_schedule_fires_once_for_each_moment(base: &Base) {
    let store = base.open().await;
    store.schedule("passes", "@hourly", at(100)).await.unwrap();
    let jobs = [NewJob { due: at(100), ..job("a", Some("pass"), "1") }];
    let fire =
        async |was: i64, next: i64| store.fire("passes", at(was), at(next), &jobs, at(101)).await.unwrap();
    assert!(fire(100, 200).await);
    assert!(!fire(100, 200).await);
    assert!(!fire(150, 250).await);
    assert!(!store.fire("other", at(100), at(200), &jobs, at(101)).await.unwrap());
    let shown = &store.schedules().await.unwrap()[0];
    assert_eq!((shown.next, shown.fired), (at(200), Some(at(101))));
    finish_next(&store, 101).await;
    assert!(claim(&store, 101).await.is_none());
    assert!(fire(200, 300).await);
    assert_eq!(claim(&store, 201).await.unwrap().topic.as_deref(), Some("pass"));
}

fn command(comment: &str, n: u32, author_id: u64, second: i64) -> CommandNote {
    CommandNote {
        repository: "github:acme/infra".to_owned(),
        request: "17".to_owned(),
        comment: comment.to_owned(),
        n,
        author_id,
        author: "kim".to_owned(),
        verb: "snooze".to_owned(),
        outcome: "started".to_owned(),
        at: at(second),
    }
}

async fn a_command_is_noted_once_and_its_outcome_is_the_last(base: &Base) {
    let store = base.open().await;
    let first = command("c-1", 0, 7, 1);
    store.note_command(&first).await.unwrap();
    store.note_command(&command("c-1", 1, u64::MAX, 2)).await.unwrap();
    let again = CommandNote { outcome: "done".to_owned(), verb: "x".to_owned(), at: at(50), ..first.clone() };
    store.note_command(&again).await.unwrap();
    let noted = CommandNote { outcome: "done".to_owned(), ..first };
    assert_eq!(store.commands(10).await.unwrap(), [command("c-1", 1, u64::MAX, 2), noted]);
    assert_eq!(store.commands(1).await.unwrap().len(), 1);
}

async fn commands_are_counted_for_a_person_in_a_repository(base: &Base) {
    let store = base.open().await;
    for (comment, n, author, second) in [("a", 0, 7, 10), ("a", 1, 7, 10), ("b", 0, 7, 20), ("c", 0, 8, 20)] {
        store.note_command(&command(comment, n, author, second)).await.unwrap();
    }
    let elsewhere = CommandNote { repository: "github:acme/other".to_owned(), ..command("d", 0, 7, 20) };
    store.note_command(&elsewhere).await.unwrap();
    let refused = CommandNote { outcome: TOO_MANY.to_owned(), ..command("e", 0, 8, 30) };
    store.note_command(&refused).await.unwrap();
    for (author, since, counts) in [
        (7, 0, [3, 0, 4]),
        (7, 10, [3, 0, 4]),
        (7, 11, [1, 0, 2]),
        (7, 21, [0, 0, 0]),
        (8, 0, [2, 1, 4]),
        (9, 0, [0, 0, 4]),
    ] {
        let lately = store.commands_lately("github:acme/infra", author, "17", "-", at(since)).await.unwrap();
        let counted = [lately.by_author, lately.too_many, lately.on_request];
        assert_eq!(counted, counts, "{author} since {since}");
    }
    let but = store.commands_lately("github:acme/infra", 7, "18", "a", at(0)).await.unwrap();
    assert_eq!((but.by_author, but.on_request), (1, 0), "its own do not count, nor those on others");
}

async fn a_run_is_one_line_from_start_to_end(base: &Base) {
    let store = base.open().await;
    let started = RunNote {
        id: "r-1".to_owned(),
        cluster: "dc1".to_owned(),
        started: at(10),
        finished: None,
        outcome: "running".to_owned(),
        problem: None,
    };
    store.note_run(&started).await.unwrap();
    let later = RunNote { id: "r-2".to_owned(), started: at(20), ..started.clone() };
    store.note_run(&later).await.unwrap();
    let ended = RunNote {
        finished: Some(at(30)),
        outcome: "failed".to_owned(),
        problem: Some("the server cannot be reached".to_owned()),
        ..started
    };
    store.note_run(&ended).await.unwrap();
    assert_eq!(store.runs(10).await.unwrap(), [later.clone(), ended]);
    assert_eq!(store.runs(1).await.unwrap(), [later]);
}

async fn a_page_is_never_older_than_it_was(base: &Base) {
    let store = base.open().await;
    store.put_page("pool", "dc1/a100", "{\"n\":1}", at(10)).await.unwrap();
    store.put_page("pool", "dc1/a100", "{\"n\":2}", at(20)).await.unwrap();
    store.put_page("pool", "dc1/a100", "{\"n\":3}", at(15)).await.unwrap();
    let page = Page { key: "dc1/a100".to_owned(), json: "{\"n\":2}".to_owned(), at: at(20) };
    assert_eq!(store.page("pool", "dc1/a100").await.unwrap(), Some(page));
    assert_eq!(store.page("cluster", "dc1/a100").await.unwrap(), None);
    assert_eq!(store.page("pool", "dc1").await.unwrap(), None);
}

async fn pages_without_a_subject_are_dropped(base: &Base) {
    let store = base.open().await;
    // In the order of their bytes, whatever language the database was set up with.
    let keys = ["B", "a", "b \"quoted\"", "ä", "ö\u{1F600}\n"];
    for key in keys.iter().rev() {
        store.put_page("pool", key, "1", at(1)).await.unwrap();
    }
    store.put_page("cluster", "a", "1", at(1)).await.unwrap();
    let shown = async |kind: &str| -> Vec<String> {
        store.pages(kind).await.unwrap().into_iter().map(|page| page.key).collect()
    };
    assert_eq!(shown("pool").await, keys);
    let keep = keys[2..].iter().map(|key| (*key).to_owned()).chain(["gone".to_owned()]).collect();
    store.drop_pages("pool", "", &keep).await.unwrap();
    assert_eq!(shown("pool").await, keys[2..]);
    store.drop_pages("pool", "ö\u{1F600}", &BTreeSet::new()).await.unwrap();
    store.drop_pages("pool", "%", &BTreeSet::new()).await.unwrap();
    assert_eq!(shown("pool").await, keys[2..4]);
    store.drop_pages("pool", "", &BTreeSet::new()).await.unwrap();
    assert!(shown("pool").await.is_empty());
    assert_eq!(shown("cluster").await, ["a"]);
}

async fn what_is_old_is_forgotten_and_what_is_needed_is_kept(base: &Base) {
    let mut settings = base.settings.clone();
    settings.keep_days = Some(3);
    let store = Store::open(&settings).await.unwrap();
    store.accept("github", "done", &[job("a", None, "1")], at(0)).await.unwrap();
    finish_next(&store, 0).await;
    store.accept("github", "dead", &[job("b", None, "2")], at(0)).await.unwrap();
    bury_next(&store, 0).await;
    store
        .accept("github", "open", &[NewJob { due: at(100 * DAY), ..job("c", None, "3") }], at(0))
        .await
        .unwrap();
    store.note_command(&command("c", 0, 7, 0)).await.unwrap();
    let run = RunNote {
        id: "r".to_owned(),
        cluster: "dc1".to_owned(),
        started: at(0),
        finished: None,
        outcome: "running".to_owned(),
        problem: None,
    };
    store.note_run(&run).await.unwrap();
    let again = async |key: &str, second: i64| store.accept("github", key, &[], at(second)).await.unwrap();
    let compact = async |second: i64| store.compact(at(second)).await.unwrap();

    assert_eq!(compact(DAY).await, 0);
    // The job that is done, and its lane.
    assert_eq!(compact(DAY + 1).await, 2);
    assert_eq!(compact(DAY + 1).await, 0);
    // The command and the run; a delivery is known for longer, and what was given up of it can still be done.
    assert_eq!(compact(4 * DAY).await, 2);
    assert!(store.commands(9).await.unwrap().is_empty() && store.runs(9).await.unwrap().is_empty());
    for key in ["done", "open"] {
        assert_eq!(again(key, 4 * DAY).await, Accepted::Again);
    }
    assert_eq!(again("dead", 4 * DAY).await, Accepted::New);
    bury_next(&store, 4 * DAY).await;
    assert_eq!(compact(8 * DAY).await, 0);
    // Two deliveries; the third one's job still waits.
    assert_eq!(compact(8 * DAY + 1).await, 2);
    assert_eq!(again("done", 9 * DAY).await, Accepted::New);
    assert_eq!(again("open", 9 * DAY).await, Accepted::Again);
    assert_eq!(store.dead(9).await.unwrap().len(), 1);
    // The job that was given up, and its lane.
    assert_eq!(compact(13 * DAY).await, 2);
    assert!(store.dead(9).await.unwrap().is_empty());
    assert_eq!(claim(&store, 100 * DAY).await.unwrap().payload, "3");
    // A lane that was forgotten is made again.
    store.enqueue(&job("a", None, "4"), at(0)).await.unwrap();
    assert_eq!(claim(&store, 101 * DAY).await.unwrap().payload, "4");
}

async fn much_is_forgotten_in_portions(base: &Base) {
    let store = base.open().await;
    let jobs: Vec<NewJob> = (0..2_500).map(|n| job(&format!("lane-{n}"), None, "{}")).collect();
    store.accept("github", "d", &jobs, at(0)).await.unwrap();
    sqlx_run(base, "UPDATE jobs SET state = 'done', ended = created").await;
    let mut portions = Vec::new();
    loop {
        match store.compact(at(2 * DAY)).await.unwrap() {
            0 => break,
            n => portions.push(n),
        }
    }
    // Of jobs and lanes a thousand each at a time.
    assert_eq!(portions, [2_000, 2_000, 1_000]);
}

/// A statement that the store itself has no word for.
async fn sqlx_run(base: &Base, statement: &'static str) {
    match &base.settings.path {
        Some(path) => {
            let pool = sqlx::SqlitePool::connect(path.to_str().unwrap()).await.unwrap();
            sqlx::raw_sql(statement).execute(&pool).await.unwrap();
            pool.close().await;
        }
        None => {
            let pool = sqlx::PgPool::connect(&base.url()).await.unwrap();
            sqlx::raw_sql(statement).execute(&pool).await.unwrap();
            pool.close().await;
        }
    }
}

async fn everything_is_there_after_a_restart(base: &Base) {
    let store = base.open().await;
    assert_eq!(store.is_shared(), base.settings.path.is_none());
    store.accept("github", "d", &[job("a", Some("t"), "{\"ä\":\"\\u0000\"}")], at(0)).await.unwrap();
    store.schedule("passes", "@hourly", at(100)).await.unwrap();
    store.put_page("pool", "x", "1", at(10)).await.unwrap();
    let held = claim(&store, 0).await.unwrap();
    store.check().await.unwrap();
    store.close().await;
    assert!(store.check().await.unwrap_err().is_passing());

    let store = base.open().await;
    assert_eq!(store.accept("github", "d", &[], at(1)).await.unwrap(), Accepted::Again);
    assert_eq!(store.schedules().await.unwrap()[0].next, at(100));
    assert_eq!(store.page("pool", "x").await.unwrap().unwrap().at, at(10));
    // The lease is known too: whoever has it may be another server.
    assert!(claim(&store, 59).await.is_none());
    assert!(store.finish(&held, at(60)).await.unwrap());
}
