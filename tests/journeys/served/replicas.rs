//! Several servers, databases that go away, and forges that could not tell.

use super::Service;
use crate::world::forge::Face;
use crate::world::forge::hooks::Hook;
use crate::world::forge::state::{BOT, KIM, Role};
use crate::world::golden;
use crate::world::postgres::{self, Postgres};
use crate::world::prometheus::Prometheus;
use crate::world::served::Served;
use crate::world::wait::until;

/// `store:` for a server, with a URL in a file that lives as long as the value beside it.
fn store(url: &str) -> (String, tempfile::TempDir) {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("url");
    std::fs::write(&file, url).unwrap();
    (format!("  store: {{url_file: '{}'}}\n  lease_seconds: 5\n", file.display()), home)
}

#[test]
fn of_two_servers_one_is_killed_and_the_other_goes_on() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    for face in [Face::GitHub, Face::GitLab] {
        let (store, _home) = store(&postgres::new_database());
        let mut service = Service::new(face, &prometheus, &store).proposed();
        let other = Served::start(service.home.path(), super::AT);
        let (set, sent) = service.told(KIM, "slicewright set exclude=search/ocr-svc");
        let asked = service.fake.n_asked();
        // Either may take it up; the one that was told is killed when somebody is at it.
        service.deliver(&sent);
        until(60, "somebody to take it up", || (service.fake.n_asked() > asked + 6).then_some(()));
        service.server.take().unwrap().kill();
        until(60, "the other to finish", || {
            let ends = ["rocket", "thumbsup"];
            service.reactions(&set).iter().any(|one| ends.contains(&one.as_str())).then_some(())
        });
        let (help, sent) = service.told(KIM, "slicewright help");
        assert_eq!(other.deliver(&sent).status, 202);
        service.answered(&help);
        let words = service.words();
        let n = |what: &str| words.iter().filter(|text| text.contains(what)).count();
        assert_eq!((n("| Command | Who |"), n("<!-- slicewright-topic:status -->")), (1, 1), "{words:?}");
        assert_eq!(service.noted().overrides.shown(), ["exclude=search/ocr-svc"]);
        // One of the two looked at the cluster when they started, and the other left it alone.
        assert_eq!(other.stop(), Some(0));
    }
}

#[test]
fn a_database_file_is_for_one_server() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let service = Service::new(Face::GitHub, &prometheus, "");
    let output = super::super::bot::run(service.home.path(), &["serve"]);
    let said = super::super::bot::failed(&output, 1);
    assert!(said.contains("another server uses") && said.contains("PostgreSQL"), "{said}");
}

#[test]
fn what_cannot_be_written_down_is_refused_and_taken_when_it_comes_again() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let mut database = Postgres::start();
    let (store, _home) = store(&database.new_database());
    let service = Service::new(Face::GitHub, &prometheus, &store).proposed().looked();
    let (help, sent) = service.told(KIM, "slicewright help");
    database.crash();
    let heard = service.server().deliver(&sent);
    assert_eq!(heard.status, 503, "{heard:?}");
    assert!(heard.headers.contains("retry-after"), "{}", heard.headers);
    assert_eq!(service.server().get("/readyz").status, 503);
    assert_eq!(service.server().get("/healthz").status, 200, "it need not be started again");
    assert_eq!(service.server().get("/").status, 503);
    database.start_again();
    until(60, "the server to be ready", || (service.server().get("/readyz").status == 200).then_some(()));
    assert_eq!(service.server().deliver(&sent).status, 202);
    service.answered(&help);
}

#[test]
fn what_a_forge_could_not_tell_is_asked_for_again() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    for face in [Face::GitHub, Face::GitLab] {
        let url = "https://bot.example.com";
        let mut service = Service::new(face, &prometheus, &format!("  url: {url}\n")).proposed();
        service.server.take().unwrap().kill();
        {
            let mut state = service.fake.state();
            state.set_clock_to_now();
            state.infra().roles.insert(BOT, Role::Admin);
            let name = if face == Face::GitHub { "github" } else { "gitlab" };
            let hook = Hook { answers: 502, ..Hook::new(1, &format!("{url}/hooks/{name}/forge")) };
            state.infra().hooks.push(hook);
            state.tell(1, "lost", if face == Face::GitHub { "issue_comment" } else { "note_hooks" });
            state.infra().hooks[0].answers = 202;
        }
        service.start();
        until(60, "another attempt", || {
            (service.fake.state().infra().hooks[0].attempts.len() == 2).then_some(())
        });
    }
}
