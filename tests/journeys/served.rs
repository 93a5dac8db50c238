//! The program as a server: from a signed delivery to the answer on the forge.

mod boxes;

mod crashes;

mod down;

mod full;

mod hostile;

mod reloaded;

mod replicas;

mod shown;

mod tenants;

mod traced;

use std::path::Path;

use slicewright_core::review::metadata::Metadata;
use tempfile::TempDir;

use super::bot::AT;
use crate::world::forge::people::Merge;
use crate::world::forge::state::{ALEX, INFRA, KIM, RequestState, Role, State, TOKEN, User};
use crate::world::forge::{Face, FakeForge};
use crate::world::golden;
use crate::world::prometheus::Prometheus;
use crate::world::repo::{BareRepo, MAIN, example};
use crate::world::served::{SECRET, Sent, Served};
use crate::world::wait::until;

pub(super) const BRANCH: &str = "slicewright/dc1/a100-40gb";

/// A forge, and a server that is told of what happens there.
pub(super) struct Service {
    pub(super) fake: FakeForge,
    pub(super) server: Option<Served>,
    pub(super) home: TempDir,
}

impl Service {
    /// `more` goes into `server:`, indented by two blanks.
    pub(super) fn new(face: Face, prometheus: &Prometheus, more: &str) -> Self {
        let fake = FakeForge::start(face, State::new(BareRepo::from_folder(&example("golden-dc1"))));
        let home = tempfile::tempdir().unwrap();
        configure(home.path(), &fake, prometheus, more);
        let mut service = Self { fake, server: None, home };
        service.start();
        service
    }

    /// Starts a server, and waits for the proposal that it makes of its own accord.
    pub(super) fn start(&mut self) {
        self.server = Some(Served::start(self.home.path(), AT));
    }

    pub(super) fn server(&self) -> &Served {
        self.server.as_ref().expect("it runs")
    }

    /// Waits until the server has made its proposal.
    pub(super) fn proposed(self) -> Self {
        until(60, "the first proposal", || {
            let mut state = self.fake.state();
            let open = |one: &crate::world::forge::state::Request| {
                one.source == BRANCH
                    && one.state == RequestState::Open
                    && Metadata::parse(&one.body).is_some()
            };
            state.infra().requests.iter().any(open).then_some(())
        });
        self
    }

    /// Waits until the first look has ended.
    pub(super) fn looked(self) -> Self {
        until(30, "the first look", || {
            self.server().get("/metrics").body.contains("kind=\"look\",outcome=\"done\"").then_some(())
        });
        self
    }

    /// Somebody says something; returns the comment's number and what the forge sends about it.
    pub(super) fn told(&self, user: u64, text: &str) -> (String, Sent) {
        self.fake.state().told_by(self.fake.face(), BRANCH, user, text)
    }

    pub(super) fn deliver(&self, sent: &Sent) {
        let heard = self.server().deliver(sent);
        assert!([200, 202].contains(&heard.status), "{heard:?}");
    }

    /// Somebody says something, and the server hears of it; returns the comment's number.
    pub(super) fn says(&self, user: u64, text: &str) -> String {
        let (id, sent) = self.told(user, text);
        self.deliver(&sent);
        id
    }

    pub(super) fn words(&self) -> Vec<String> {
        self.fake.state().request_of(BRANCH).comments.iter().map(|comment| comment.body.clone()).collect()
    }

    pub(super) fn reactions(&self, id: &str) -> Vec<String> {
        let mut state = self.fake.state();
        let comment = state.request_of(BRANCH).comments.iter().find(|comment| comment.id.to_string() == id);
        comment.unwrap().reactions.iter().map(|(_, emoji)| emoji.clone()).collect()
    }

    /// Waits until a comment was answered one way or the other.
    #[track_caller]
    pub(super) fn answered(&self, id: &str) {
        let ends = ["rocket", "thumbsup", "confused", "thumbsdown"];
        until(60, "the answer", || {
            self.reactions(id).iter().any(|one| ends.contains(&one.as_str())).then_some(())
        });
    }

    /// Waits until some comment says this.
    #[track_caller]
    pub(super) fn says_back(&self, words: &str) -> String {
        until(60, words, || self.words().into_iter().find(|text| text.contains(words)))
    }

    pub(super) fn head(&self) -> String {
        self.fake.state().infra().git.head(BRANCH).unwrap()
    }

    pub(super) fn noted(&self) -> Metadata {
        Metadata::parse(&self.fake.state().request_of(BRANCH).body).unwrap()
    }
}

fn configure(home: &Path, fake: &FakeForge, prometheus: &Prometheus, more: &str) {
    std::fs::write(home.join("token"), format!("{TOKEN}\n")).unwrap();
    std::fs::write(home.join("hook-secret"), format!("{SECRET}\n")).unwrap();
    let (kind, field) = match fake.face() {
        Face::GitHub => ("github", "secrets"),
        Face::GitLab => ("gitlab", "tokens"),
    };
    let text = format!(
        "forges:\n  - {{name: forge, kind: {kind}, url: '{}', token_file: token}}\nclusters:\n  - name: dc1\n    \
         prometheus: {{url: '{}'}}\n    repository: {{forge: forge, name: {INFRA}, onboarding: false}}\n    pools:\n      \
         - {{name: a100-40gb, nodes: 'dc1-gpu-.*'}}\nserver:\n  listen: 127.0.0.1:0\n  hooks:\n    - {{forge: forge, {field}: \
         [{{file: hook-secret}}]}}\n{more}",
        fake.url(),
        prometheus.url()
    );
    std::fs::write(home.join("slicewright.yaml"), text).unwrap();
}

pub(super) fn on_both(story: impl Fn(Service, &Prometheus)) {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    for face in [Face::GitHub, Face::GitLab] {
        story(Service::new(face, &prometheus, "").proposed(), &prometheus);
    }
}

#[test]
fn a_comment_is_seen_carried_out_and_answered() {
    on_both(|service, _| {
        let before = service.head();
        let id = service.says(KIM, "@slicewright regenerate headroom=30%");
        until(10, "the eyes", || service.reactions(&id).contains(&"eyes".to_owned()).then_some(()));
        service.answered(&id);
        let text = service.says_back("as `kim` asked");
        assert!(text.contains("3g.20gb instead of 2g.10gb"), "{text}");
        assert_ne!(service.head(), before);
        let log = service.server().log();
        let written = |line: &&String| {
            [&before, &service.head()].iter().all(|head| line.contains(*head))
                && line.contains("wrote to the forge")
        };
        let line = log.iter().find(written).expect("what was written is in the log");
        assert!(line.contains("\"kind\":\"obey\""), "in the job of whoever asked: {line}");
        assert_eq!(service.noted().overrides.shown(), ["headroom=30%"]);

        let id = service.says(KIM, "slicewright why item=search/ocr-svc");
        service.answered(&id);
        service.says_back("**`search/ocr-svc`**, pool a100-40gb");
        let id = service.says(ALEX, "slicewright pause");
        service.answered(&id);
        service.says_back("that takes the role write");
        let id = service.says(KIM, "slicewright status");
        service.answered(&id);
        let text = service.says_back("**Where this");
        assert!(text.contains("cluster `dc1` was looked at last"), "{text}");
        assert!(text.contains("cluster `dc1` is looked at next"), "{text}");
        assert_eq!(service.server.unwrap().stop(), Some(0), "it ends when it is asked to");
    });
}

#[test]
fn what_comes_twice_is_done_once() {
    on_both(|service, _| {
        let (id, sent) = service.told(KIM, "slicewright help");
        assert_eq!(service.server().deliver(&sent).status, 202);
        for _ in 0..3 {
            assert_eq!(service.server().deliver(&sent).status, 200);
        }
        service.answered(&id);
        assert_eq!(service.server().deliver(&sent).status, 200);
        let id = service.says(KIM, "slicewright status");
        service.answered(&id);
        let helps = service.words().iter().filter(|text| text.contains("| Command | Who |")).count();
        assert_eq!(helps, 1);
    });
}

/// bors-ng#187 and others: the queue of one repository is one queue.
#[test]
fn commands_that_race_are_carried_out_one_after_the_other() {
    on_both(|service, _| {
        let (first, one) = service.told(KIM, "slicewright set exclude=search/ocr-svc");
        let (second, two) = service.told(KIM, "slicewright set headroom=25%");
        std::thread::scope(|scope| {
            scope.spawn(|| service.deliver(&one));
            scope.spawn(|| service.deliver(&two));
        });
        service.answered(&first);
        service.answered(&second);
        // Whoever came second saw another head than there is now, and is told.
        let refused = service.words().iter().filter(|text| text.contains("look at it and ask again")).count();
        let shown = service.noted().overrides.shown();
        assert_eq!((refused, shown.len()), (1, 1), "{shown:?}");
    });
}

#[test]
fn a_person_who_asks_too_much_is_told_once_and_then_not_heard() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    for face in [Face::GitHub, Face::GitLab] {
        let service = Service::new(face, &prometheus, "  commands_per_hour: 2\n").proposed();
        for _ in 0..2 {
            let id = service.says(KIM, "slicewright help");
            service.answered(&id);
        }
        let third = service.says(KIM, "slicewright help");
        service.answered(&third);
        service.says_back("2 commands within an hour");
        let fourth = service.says(KIM, "slicewright help");
        // Somebody else is heard, so that the fourth was before.
        let other = service.says(ALEX, "slicewright help");
        service.answered(&other);
        assert!(!service.reactions(&fourth).contains(&"confused".to_owned()));
        let told = service.words().iter().filter(|text| text.contains("commands within an hour")).count();
        assert_eq!(told, 1);
    }
}

#[test]
fn a_merge_request_takes_so_many_commands_an_hour_whoever_gives_them() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let service = Service::new(Face::GitHub, &prometheus, "  commands_per_hour: 1\n").proposed();
    {
        let mut state = service.fake.state();
        for (id, login) in [(31, "jo"), (32, "lee")] {
            let person = User { id, login: login.to_owned(), ..state.users[&KIM].clone() };
            state.users.insert(id, person);
            state.infra().roles.insert(id, Role::Read);
        }
    }
    for person in [KIM, ALEX, 31] {
        let id = service.says(person, "slicewright help");
        service.answered(&id);
    }
    let id = service.says(32, "slicewright help");
    service.answered(&id);
    service.says_back("3 commands on this merge request within an hour");
}

#[test]
fn what_happens_to_the_branch_is_noticed() {
    on_both(|service, _| {
        service.fake.state().merge(BRANCH, Merge::Squash);
        let sent = service.fake.state().pushed(service.fake.face(), BRANCH);
        service.deliver(&sent);
        until(60, "the merge to be noted", || {
            (service.noted().state == slicewright_core::review::metadata::State::Merged).then_some(())
        });
    });
}

#[test]
fn a_change_of_the_default_branch_is_looked_at_after_a_while() {
    on_both(|service, _| {
        let sent = {
            let mut state = service.fake.state();
            state.infra().git.commit_as_human(MAIN, &[("README.md", "other\n")], "Say more");
            state.pushed(service.fake.face(), MAIN)
        };
        service.deliver(&sent);
        let figures = service.server().get("/metrics").body;
        assert!(figures.contains("slicewright_queue_jobs{state=\"ready\"} 1"), "{figures}");
    });
}

/// A comment that is deleted before its turn asks for nothing.
#[test]
fn a_comment_that_is_gone_is_not_carried_out() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let service = Service::new(Face::GitHub, &prometheus, "").proposed();
    let (id, sent) = service.told(KIM, "slicewright pause");
    service.fake.state().request_of(BRANCH).comments.retain(|one| one.id.to_string() != id);
    service.deliver(&sent);
    let help = service.says(KIM, "slicewright help");
    service.answered(&help);
    assert!(!service.noted().paused);
}

#[test]
fn another_configuration_is_taken_without_an_end() {
    on_both(|mut service, prometheus| {
        configure(service.home.path(), &service.fake, prometheus, "handle: gpu-bot\n");
        service.server().reload();
        until(30, "the new configuration", || {
            service.server().log().iter().any(|line| line.contains("as it is now")).then_some(())
        });
        let id = service.says(KIM, "@gpu-bot help");
        service.answered(&id);
        std::fs::write(service.home.path().join("slicewright.yaml"), "clusters: nonsense\n").unwrap();
        service.server().reload();
        until(30, "the complaint", || {
            service.server().log().iter().any(|line| line.contains("stays as it was")).then_some(())
        });
        let id = service.says(KIM, "@gpu-bot help");
        service.answered(&id);
        // Whoever comes after it cannot start with that.
        configure(service.home.path(), &service.fake, prometheus, "");
        service.server.take().unwrap().kill();
        service.start();
        let id = service.says(KIM, "@slicewright help");
        service.answered(&id);
    });
}

/// Beside the looks at its cluster, a pool has its own; they leave the other pools on the pages.
#[test]
fn a_pool_is_looked_at_by_its_own_schedule() {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    let fake = FakeForge::start(Face::GitHub, State::new(BareRepo::from_folder(&example("golden-dc1"))));
    let home = tempfile::tempdir().unwrap();
    configure(home.path(), &fake, &prometheus, "");
    let path = home.path().join("slicewright.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    // Every second.
    let schedules = "    pool_schedules: {a100-40gb: {cron: '* * * * * *', jitter_minutes: 0}}\n    pools:\n      \
                     - {name: other, nodes: dc1-gpu-09}\n";
    std::fs::write(&path, text.replace("    pools:\n", schedules)).unwrap();
    let mut service = Service { fake, server: None, home };
    service.start();
    until(60, "a look at the pool, and one at all", || {
        let page = service.server().get("/").body;
        ["<th scope=\"row\">dc1</th>", "<th scope=\"row\">dc1&#x2f;a100-40gb</th>"]
            .iter()
            .all(|run| page.contains(run))
            .then_some(())
    });
    let page = until(60, "the pool looked at again", || {
        let page = service.server().get("/").body;
        (page.matches("<th scope=\"row\">dc1&#x2f;a100-40gb</th>").count() > 3).then_some(page)
    });
    assert_eq!(page.matches("<th scope=\"row\">dc1</th>").count(), 1, "{page}");
    for pool in ["a100-40gb", "other"] {
        assert_eq!(service.server().get(&format!("/pools/dc1/{pool}")).status, 200, "{pool}: {page}");
    }
    assert_eq!(service.server.unwrap().stop(), Some(0));
}

#[test]
fn what_one_job_read_the_next_asks_only_for_news_of() {
    on_both(|service, _| {
        let id = service.says(KIM, "slicewright status");
        service.answered(&id);
        service.fake.take_log();
        let id = service.says(KIM, "slicewright why item=search/ocr-svc");
        service.answered(&id);
        let asked = service.fake.take_log();
        let contents =
            ["tarball", "archive", "/git/blobs/", "/git/trees/", "repository/tree", "repository/blobs"];
        let read: Vec<_> = asked
            .iter()
            .filter(|line| line.method == "GET" && line.status == 200)
            .filter(|line| contents.iter().any(|part| line.path.contains(part)))
            .collect();
        assert!(read.is_empty(), "nothing was committed: {read:?}");
        assert!(asked.iter().any(|line| line.status == 304), "{asked:?}");
    });
}

/// A secret that was replaced on the disk is used at once, whether or not the old one still works.
#[test]
fn a_token_that_was_replaced_is_used_by_the_next_job() {
    on_both(|service, _| {
        let other = "another-token-of-the-bots-for-tests";
        {
            let mut state = service.fake.state();
            let account = state.tokens[TOKEN];
            state.tokens.remove(TOKEN);
            state.tokens.insert(other.to_owned(), account);
        }
        std::fs::write(service.home.path().join("token"), other).unwrap();
        let id = service.says(KIM, "slicewright status");
        service.answered(&id);
        service.says_back("**Where this");
    });
}
