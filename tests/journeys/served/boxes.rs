//! Boxes that people tick on the dashboard, from the signed delivery to what the bot did.

use super::{BRANCH, Service};
use crate::world::forge::state::{ALEX, BOT, KIM, Role, State};
use crate::world::forge::{Face, FakeForge};
use crate::world::golden;
use crate::world::prometheus::Prometheus;
use crate::world::repo::{BareRepo, example};
use crate::world::wait::until;

const POOL: &str = "dc1/a100-40gb";

/// A server whose repository has a dashboard, once that is written. `more` goes to the end of the configuration.
fn shown(face: Face, prometheus: &Prometheus, more: &str) -> Service {
    let fake = FakeForge::start(face, State::new(BareRepo::from_folder(&example("golden-dc1"))));
    let home = tempfile::tempdir().unwrap();
    super::configure(home.path(), &fake, prometheus, "");
    let path = home.path().join("slicewright.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace("onboarding: false", "onboarding: false, dashboard: true");
    std::fs::write(&path, format!("{text}{more}")).unwrap();
    let mut service = Service { fake, server: None, home };
    service.start();
    until(60, "the dashboard", || board(&service).map(drop));
    service
}

fn on_both(more: &str, story: impl Fn(&Service)) {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    for face in [Face::GitHub, Face::GitLab] {
        story(&shown(face, &prometheus, more));
    }
}

fn board(service: &Service) -> Option<String> {
    service.fake.state().infra().issues.first().map(|issue| issue.body.clone())
}

/// Somebody ticks the box, and the server hears of it.
fn tick(service: &Service, user: u64) {
    let sent = service.fake.state().ticked_by(service.fake.face(), user, POOL);
    service.deliver(&sent);
}

/// Waits until the jobs of all boxes are done.
fn idle(service: &Service, n: usize) {
    until(60, "what the boxes ask for", || {
        let figures = service.server().get("/metrics").body;
        figures.contains(&format!("kind=\"tick\",outcome=\"done\"}} {n}\n")).then_some(())
    });
}

/// renovatebot/renovate#5951, #6690: a box that stayed ticked started the same work again and again.
#[test]
fn a_ticked_box_is_emptied_and_asks_for_one_look() {
    on_both("", |service| {
        let empty = board(service).unwrap();
        let pause = service.says(KIM, "slicewright snooze for=14d");
        service.answered(&pause);
        assert!(service.noted().snoozed_until.is_some());
        let sent = service.fake.state().ticked_by(service.fake.face(), KIM, POOL);
        for _ in 0..3 {
            service.deliver(&sent);
        }
        let text = service.says_back("`resume`, as `kim` asked");
        assert!(text.contains("nothing differs"), "{text}");
        assert_eq!(service.noted().snoozed_until, None);
        assert_eq!(board(service).unwrap(), empty);
        idle(service, 1);
        // What is not silent is planned again.
        tick(service, KIM);
        service.says_back("`regenerate`, as `kim` asked");
        idle(service, 2);
        assert_eq!(board(service).unwrap(), empty);
        let n = service.words().iter().filter(|text| text.contains("as `kim` asked")).count();
        assert_eq!(n, 1, "one comment, which is edited");
    });
}

#[test]
fn a_box_takes_the_same_rights_as_a_command() {
    on_both("", |service| {
        let pause = service.says(KIM, "slicewright pause");
        service.answered(&pause);
        let (empty, words) = (board(service).unwrap(), service.words());
        let robot = 907;
        {
            let mut state = service.fake.state();
            let mut other = state.users[&BOT].clone();
            (other.id, other.login) = (robot, "other[bot]".to_owned());
            state.users.insert(robot, other);
            state.infra().roles.insert(robot, Role::Maintain);
        }
        tick(service, ALEX);
        idle(service, 1);
        assert_eq!(board(service).unwrap(), empty, "emptied all the same");
        tick(service, robot);
        // GitHub says at once that it is a program; GitLab has to be asked.
        if service.fake.face() == Face::GitLab {
            idle(service, 2);
        }
        assert!(service.noted().paused);
        assert_eq!(service.words(), words);
    });
}

#[test]
fn boxes_on_an_issue_of_somebody_else_ask_for_nothing() {
    on_both("", |service| {
        {
            let mut state = service.fake.state();
            let infra = state.infra();
            let own = infra.issues[0].clone();
            let number = infra.next_number();
            infra.issues.insert(0, crate::world::forge::state::Issue { number, author: KIM, ..own });
        }
        let before = service.words();
        tick(service, KIM);
        idle(service, 1);
        assert_eq!(service.words(), before);
        assert!(board(service).unwrap().contains("- [x]"), "nobody writes there but its author");
    });
}

/// Asked for or not, nothing new is made outside of the configured hours: a Thursday is no weekend.
#[test]
fn a_box_of_what_waits_for_its_hours_is_looked_at_and_waits_on() {
    on_both("proposals: {hours: [{days: [sat, sun]}]}\n", |service| {
        let text = board(service).unwrap();
        assert!(text.contains("## Waiting") && text.contains("- [ ] `dc1/a100-40gb`"), "{text}");
        tick(service, KIM);
        idle(service, 1);
        assert_eq!(service.fake.state().infra().git.head(BRANCH), None);
        assert_eq!(board(service).unwrap(), text);
    });
}
