//! Several forges behind one server: what goes wrong with one is nothing to the others.

use super::{BRANCH, Service};
use crate::journeys::bot::AT;
use crate::world::forge::state::{INFRA, KIM, RequestState, State, TOKEN};
use crate::world::forge::{Face, FakeForge};
use crate::world::golden;
use crate::world::prometheus::Prometheus;
use crate::world::repo::{BareRepo, example};
use crate::world::served::{SECRET, Sent, Served};
use crate::world::wait::until;

const OTHER_TOKEN: &str = "the-token-of-the-other-forge-for-tests";

/// A server for a GitHub, in the service, and a GitLab that stands beside it under the name `other`.
fn both(prometheus: &Prometheus, change: impl Fn(&mut State)) -> (Service, FakeForge) {
    let start = |face| FakeForge::start(face, State::new(BareRepo::from_folder(&example("golden-dc1"))));
    let (fake, other) = (start(Face::GitHub), start(Face::GitLab));
    {
        let mut state = other.state();
        let account = state.tokens[TOKEN];
        state.tokens.remove(TOKEN);
        state.tokens.insert(OTHER_TOKEN.to_owned(), account);
        change(&mut state);
    }
    let home = tempfile::tempdir().unwrap();
    let secrets = [
        ("token", TOKEN),
        ("other-token", OTHER_TOKEN),
        ("hook", SECRET),
        ("other-hook", "another-secret-of-the-hooks-for-tests"),
    ];
    for (name, secret) in secrets {
        std::fs::write(home.path().join(name), secret).unwrap();
    }
    let cluster = |name: &str, forge: &str| {
        format!(
            "  - name: {name}\n    prometheus: {{url: '{}'}}\n    repository: {{forge: {forge}, name: {INFRA}, \
             onboarding: false}}\n    pools:\n      - {{name: a100-40gb, nodes: 'dc1-gpu-.*'}}\n",
            prometheus.url()
        )
    };
    let text = format!(
        "forges:\n  - {{name: forge, kind: github, url: '{}', token_file: token}}\n  \
         - {{name: other, kind: gitlab, url: '{}', token_file: other-token}}\nclusters:\n{}{}server:\n  \
         listen: 127.0.0.1:0\n  hooks:\n    - {{forge: forge, secrets: [{{file: hook}}]}}\n    \
         - {{forge: other, tokens: [{{file: other-hook}}]}}\n",
        fake.url(),
        other.url(),
        cluster("dc1", "forge"),
        cluster("dc2", "other"),
    );
    std::fs::write(home.path().join("slicewright.yaml"), text).unwrap();
    let server = Served::start(home.path(), AT);
    (Service { fake, server: Some(server), home }.proposed(), other)
}

fn is_proposed(other: &FakeForge) -> bool {
    let branch = BRANCH.replace("dc1", "dc2");
    let mut state = other.state();
    state.infra().requests.iter().any(|one| one.source == branch && one.state == RequestState::Open)
}

#[test]
fn secrets_of_one_forge_are_nothing_to_the_other() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let (service, other) = both(&prometheus, |_| {});
    until(60, "the proposal on the other forge", || is_proposed(&other).then_some(()));
    let (id, sent) = service.told(KIM, "slicewright help");
    // The same secret, at the address of the other.
    let stolen = other.state().pushed(Face::GitLab, BRANCH);
    assert_eq!(service.server().deliver(&Sent { path: "/hooks/gitlab/other".into(), ..stolen }).status, 401);
    for path in ["/hooks/github/other", "/hooks/gitlab/forge"] {
        assert_eq!(service.server().deliver(&Sent { path: path.into(), ..sent.clone() }).status, 404);
    }
    service.deliver(&sent);
    service.answered(&id);
    for (forge, token) in [(&service.fake, OTHER_TOKEN), (&other, TOKEN)] {
        let asked = forge.take_log();
        assert!(!asked.is_empty() && asked.iter().all(|line| line.status != 401), "{token}: {asked:?}");
    }
    let pages =
        ["/", "/pools/dc1/a100-40gb", "/metrics"].map(|path| service.server().get(path).body).concat();
    let said = pages + &service.server().log().concat();
    for secret in [TOKEN, OTHER_TOKEN, SECRET, "another-secret"] {
        assert!(!said.contains(secret));
    }
}

#[test]
fn a_forge_that_refuses_the_bot_holds_up_no_other() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let (service, other) = both(&prometheus, |state| state.tokens.clear());
    until(60, "the look that fails", || {
        service.server().get("/metrics").body.contains("kind=\"look\",outcome=\"failed\"").then_some(())
    });
    let id = service.says(KIM, "slicewright regenerate headroom=30%");
    service.answered(&id);
    assert_eq!(service.noted().overrides.shown(), ["headroom=30%"]);
    assert!(!is_proposed(&other));
    let page = service.server().get("/").body;
    assert!(page.contains("dc2") && page.contains("does not know the access token"), "{page}");
    let metrics = service.server().get("/metrics").body;
    assert!(metrics.contains("slicewright_last_look_timestamp_seconds{cluster=\"dc2\"} 0"), "{metrics}");

    // Once it is let in again, it goes on by itself.
    {
        let account = service.fake.state().tokens[TOKEN];
        other.state().tokens.insert(OTHER_TOKEN.to_owned(), account);
    }
    until(60, "the proposal on the other forge", || is_proposed(&other).then_some(()));
}
