//! The whole program against GitHub and GitLab: configuration, onboarding, limits, a run repeated, a merge.

use std::process::Output;

use tempfile::TempDir;

use super::bot::{AT, failed, ok, run};
use crate::world::forge::people::Merge;
use crate::world::forge::state::{INFRA, RequestState, State, Status, TOKEN};
use crate::world::forge::{Face, FakeForge};
use crate::world::golden;
use crate::world::prometheus::Prometheus;
use crate::world::repo::{BareRepo, example};

const ONBOARDING: &str = "slicewright/onboarding";
const BRANCH: &str = "slicewright/dc1/a100-40gb";

/// The program, its configuration, and a forge.
struct Service {
    fake: FakeForge,
    home: TempDir,
}

impl Service {
    fn new(face: Face, prometheus: &Prometheus) -> Self {
        let repo = BareRepo::from_folder(&example("golden-dc1"));
        let service =
            Self { fake: FakeForge::start(face, State::new(repo)), home: tempfile::tempdir().unwrap() };
        std::fs::write(service.home.path().join("token"), format!("{TOKEN}\n")).unwrap();
        service.configure(prometheus, "", "");
        service
    }

    /// `beside` goes to the repository's settings, `more` to the end of the file.
    fn configure(&self, prometheus: &Prometheus, beside: &str, more: &str) {
        let kind = match self.fake.face() {
            Face::GitHub => "github",
            Face::GitLab => "gitlab",
        };
        let text = format!(
            "forges:\n  - {{name: forge, kind: {kind}, url: '{}', token_file: token}}\nclusters:\n  - name: dc1\n    \
             prometheus: {{url: '{}'}}\n    repository: {{forge: forge, name: {INFRA}, labels: [gpu]{beside}}}\n    pools:\n      \
             - {{name: a100-40gb, nodes: 'dc1-gpu-.*'}}\n{more}",
            self.fake.url(),
            prometheus.url()
        );
        std::fs::write(self.home.path().join("slicewright.yaml"), text).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Output {
        run(self.home.path(), &[&["propose", "--at", AT], arguments].concat())
    }

    fn propose(&self, arguments: &[&str]) -> String {
        ok(&self.run(arguments))
    }

    /// Branches of all merge requests with whether they are open.
    fn requests(&self) -> Vec<(String, bool)> {
        let mut state = self.fake.state();
        let shown = |request: &crate::world::forge::state::Request| {
            (request.source.clone(), request.state == RequestState::Open)
        };
        state.infra().requests.iter().map(shown).collect()
    }
}

fn on_both(story: impl Fn(&Service, &Prometheus)) {
    let prometheus = Prometheus::holding(&[&golden::dc1()]);
    for face in [Face::GitHub, Face::GitLab] {
        story(&Service::new(face, &prometheus), &prometheus);
    }
}

#[test]
fn from_the_first_contact_to_the_merge() {
    on_both(|service, prometheus| {
        let shown = service.propose(&["--dry-run"]);
        assert!(shown.contains("would open a merge request"), "{shown}");
        assert!(service.requests().is_empty(), "a dry run writes nothing");
        let shown = service.propose(&[]);
        assert!(shown.contains("nothing is proposed before its people said so"), "{shown}");
        assert_eq!(service.requests(), [(ONBOARDING.to_owned(), true)]);
        service.propose(&[]);
        assert_eq!(service.requests().len(), 1);
        service.fake.state().merge(ONBOARDING, Merge::Squash);
        let shown = service.propose(&[]);
        assert!(shown.contains("opened") && shown.contains(&service.fake.url()), "{shown}");
        let (title, body, labels) = {
            let mut state = service.fake.state();
            let request = state.request_of(BRANCH);
            (request.title.clone(), request.body.clone(), request.labels.clone())
        };
        assert_eq!(title, "Free 2 GPUs in dc1/a100-40gb by MIG");
        assert!(body.contains("mig-2g.10gb") && body.contains("**Decline:** close this"), "{body}");
        assert_eq!(labels, ["gpu".to_owned()].into());
        assert!(!body.lines().any(|line| line.starts_with('/')), "{body}");
        let shown = service.propose(&[]);
        assert!(shown.contains("nothing differs"), "{shown}");
        service.fake.state().merge(BRANCH, Merge::Commit);
        let shown = service.propose(&[]);
        assert!(shown.contains("merged"), "{shown}");
        // No more than the configuration allows, counted on the forge.
        service.configure(prometheus, "", "proposals: {max_open: 1}\n");
        let shown = service.propose(&[]);
        assert!(shown.contains("left as it is"), "{shown}");
    });
}

/// Forges open nothing again whose branch is deleted.
#[test]
fn a_no_to_the_first_contact_is_taken_back_by_another_title() {
    on_both(|service, _| {
        let title = |service: &Service, title: &str| {
            title.clone_into(&mut service.fake.state().request_of(ONBOARDING).title);
        };
        let of_bot = (ONBOARDING.to_owned(), true);
        let closed = (ONBOARDING.to_owned(), false);
        service.propose(&[]);
        let body = service.fake.state().request_of(ONBOARDING).body.clone();
        assert!(body.contains("another title, which gets a new one"), "{body}");
        service.fake.state().close(ONBOARDING);
        service.propose(&[]);
        assert_eq!(service.fake.state().infra().git.head(ONBOARDING), None);
        let shown = service.propose(&[]);
        assert!(shown.contains("its people closed it"), "{shown}");
        assert_eq!(service.requests().len(), 1);

        title(service, "Set up Slicewright (we changed our minds)");
        let shown = service.propose(&[]);
        assert!(shown.contains("gave the closed one another title"), "{shown}");
        assert_eq!(service.requests(), [closed.clone(), of_bot.clone()]);
        assert_eq!(service.fake.state().request_of(ONBOARDING).title, "Set up Slicewright");
        // Once: a no to that is a no, whatever the title of the first.
        title(service, "Called otherwise while it is open");
        service.fake.state().close(ONBOARDING);
        for _ in 0..3 {
            service.propose(&[]);
        }
        assert_eq!(service.requests(), [closed.clone(), closed.clone()]);

        // A person restores the branch, and opens it again.
        service.fake.state().reopen(ONBOARDING);
        service.propose(&[]);
        assert_eq!(service.requests(), [closed, of_bot]);
        service.fake.state().merge(ONBOARDING, Merge::Squash);
        assert!(service.propose(&[]).contains("opened"));
    });
}

#[test]
fn what_stands_in_the_way_is_said_with_the_way_out_and_without_the_token() {
    on_both(|service, _| {
        service.fake.state().infra().archived = true;
        let said = failed(&service.run(&[]), 1);
        assert!(said.contains("archived") && said.contains(INFRA), "{said}");
        service.fake.state().infra().archived = false;
        service.fake.state().tokens.clear();
        let said = failed(&service.run(&[]), 1);
        assert!(said.to_lowercase().contains("token"), "{said}");
        assert!(!said.contains(TOKEN), "{said}");
        std::fs::remove_file(service.home.path().join("token")).unwrap();
        let said = failed(&service.run(&[]), 1);
        assert!(said.contains("cannot read `token_file`"), "{said}");
    });
}

#[test]
fn the_dashboard_and_the_checks_say_where_it_stands() {
    on_both(|service, prometheus| {
        service.configure(prometheus, ", onboarding: false, checks: true, dashboard: true", "");
        service.propose(&[]);
        let board = |service: &Service| {
            let mut state = service.fake.state();
            assert_eq!(state.infra().issues.len(), 1);
            state.infra().issues[0].body.clone()
        };
        let text = board(service);
        assert!(text.contains("s: 1**, of 1 pool.") && text.contains("free 2 GPUs"), "{text}");
        assert!(text.contains("## Open") && text.contains("`dc1/a100-40gb`"), "{text}");
        let head = service.fake.state().infra().git.head(BRANCH).unwrap();
        {
            let mut state = service.fake.state();
            let [status] = &state.infra().statuses[..] else { panic!("one check for the one head") };
            assert_eq!((status.commit.as_str(), status.state.as_str()), (head.as_str(), "success"));
        }

        // A run over some of it says nothing about all of it.
        service.fake.state().close(BRANCH);
        service.propose(&["--pool", "a100-40gb"]);
        assert_eq!(board(service), text);
        service.propose(&[]);
        let text = board(service);
        assert!(text.contains("## Declined") && !text.contains("## Open"), "{text}");

        service.fake.state().infra().git.commit_as_human(
            crate::world::repo::MAIN,
            &[(".slicewright.yaml", "paused: perhaps\n")],
            "Pause it",
        );
        service.propose(&[]);
        let main = service.fake.state().infra().git.head(crate::world::repo::MAIN).unwrap();
        let mut state = service.fake.state();
        let said = state.infra().statuses.iter().find(|one| one.commit == main).expect("its own check");
        assert_eq!(said.name, "slicewright/configuration");
        assert!(["failure", "failed"].contains(&said.state.as_str()));
        assert!(said.sentence.contains("line 1"), "{}", said.sentence);
        assert!(state.infra().issues[0].body.contains("## Problems"), "{}", state.infra().issues[0].body);
    });
}

#[test]
fn what_was_proposed_for_a_pool_that_is_configured_no_more_is_named_and_left_alone() {
    on_both(|service, prometheus| {
        let beside = ", onboarding: false, dashboard: true";
        service.configure(prometheus, beside, "");
        service.propose(&[]);
        // The branch of the first contact belongs to no pool, and is no orphan.
        let main = crate::world::repo::MAIN;
        service.fake.state().infra().git.git(&["branch", ONBOARDING, main]);
        let shown = service.propose(&[]);
        assert!(!shown.contains("belongs to no pool"), "{shown}");

        let config = service.home.path().join("slicewright.yaml");
        let before = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, before.replace("name: a100-40gb", "name: renamed")).unwrap();
        let head = service.fake.state().infra().git.head(BRANCH);
        let shown = service.propose(&[]);
        let problem = format!("repository of dc1: branch `{BRANCH}` belongs to no pool that is configured");
        assert!(shown.contains(&problem) && shown.contains("put the pool back"), "{shown}");
        assert_eq!(shown.matches("belongs to no pool").count(), 1, "{shown}");
        let shown: serde_json::Value = serde_json::from_str(&service.propose(&["--output", "json"])).unwrap();
        let [orphan] = shown["orphans"].as_array().unwrap().as_slice() else { panic!("{shown}") };
        assert_eq!((&orphan["branch"], &orphan["clusters"]), (&BRANCH.into(), &serde_json::json!(["dc1"])));
        let board = service.fake.state().infra().issues[0].body.clone();
        assert!(
            board.contains("## Branches of no pool") && board.contains(&format!("- `{BRANCH}`")),
            "{board}"
        );
        // A dry run says so as well, and a run over some pools does not look.
        let shown = service.propose(&["--dry-run"]);
        assert!(shown.contains(&problem), "{shown}");
        let shown = service.propose(&["--pool", "renamed"]);
        assert!(!shown.contains("belongs to no pool"), "{shown}");
        assert_eq!(service.fake.state().infra().git.head(BRANCH), head);
        assert!(service.requests().contains(&(BRANCH.to_owned(), true)), "{:?}", service.requests());

        // A pool that is configured and has no node now has its branch still.
        let empty = before
            .replace("nodes: 'dc1-gpu-.*'", "nodes: 'dc1-gpu-.*'}\n      - {name: old, nodes: 'none-.*'");
        std::fs::write(&config, empty).unwrap();
        {
            let mut state = service.fake.state();
            state.close("slicewright/dc1/renamed");
            state.infra().git.delete_branch("slicewright/dc1/renamed");
            state.infra().git.git(&["branch", "slicewright/dc1/old", main]);
        }
        let shown = service.propose(&[]);
        assert!(!shown.contains("belongs to no pool"), "{shown}");
        let board = service.fake.state().infra().issues[0].body.clone();
        assert!(!board.contains("Branches of no pool"), "{board}");
    });
}

/// Another version of the bot, or another setting, can use what was refused at the same commit.
#[test]
fn a_configuration_that_can_be_used_again_is_red_no_more() {
    on_both(|service, prometheus| {
        service.configure(prometheus, ", onboarding: false, checks: true", "");
        let git = |path: &str, text: &str| {
            let mut state = service.fake.state();
            state.infra().git.commit_as_human(crate::world::repo::MAIN, &[(path, text)], "Set it up")
        };
        let main = git(".slicewright.yaml", "paused: true\n");
        service.propose(&[]);
        assert_eq!(service.fake.state().infra().statuses.len(), 0, "nothing is wrong, and nothing was");
        {
            let red = if service.fake.face() == Face::GitHub { "failure" } else { "failed" };
            let mut state = service.fake.state();
            let id = state.new_id();
            state.infra().statuses.push(Status {
                id,
                commit: main.clone(),
                name: "slicewright/configuration".to_owned(),
                state: red.to_owned(),
                sentence: "The repository's own configuration cannot be used: there is no `paused`"
                    .to_owned(),
                text: String::new(),
                by_app: service.fake.face() == Face::GitHub,
            });
        }
        for _ in 0..2 {
            service.propose(&[]);
            let mut state = service.fake.state();
            let said: Vec<_> =
                state.infra().statuses.iter().map(|one| (one.name.as_str(), one.state.as_str())).collect();
            assert_eq!(said.len(), 2, "taken back once: {said:?}");
            assert_eq!(said[1], ("slicewright/configuration", "success"));
            let last = &state.infra().statuses[1];
            assert_eq!(last.commit, main);
            assert_eq!(last.sentence, "The repository's own configuration can be used.");
        }
    });
}

#[test]
fn doctor_says_who_the_bot_is_there_and_what_it_lacks() {
    use crate::world::forge::hooks::{Hook, Schedule, Standing};
    use crate::world::forge::state::{BOT, ROBIN, Role};
    on_both(|service, _| {
        let face = service.fake.face();
        {
            let mut state = service.fake.state();
            // An account like a person's: of an installation's token GitHub tells no role.
            let bot = state.users.get_mut(&BOT).unwrap();
            (bot.is_bot, bot.login) = (false, "slicewright-bot".to_owned());
            state.token_ends = Some("2026-01-20".into());
            state.token_scopes = Some(vec![if face == Face::GitHub { "repo" } else { "api" }.to_owned()]);
            state.infra().roles.insert(BOT, Role::Admin);
            state
                .infra()
                .hooks
                .push(Hook { answers: 502, ..Hook::new(1, "https://bot.example.com/hooks?s=for-us-alone") });
            state.tell(1, "lost", "note_hooks");
            state.infra().hooks[0].standing = Standing::Off;
            state.infra().protected.push("slicewright/*".into());
            let schedule = |name: &str, active, owner| Schedule { name: name.to_owned(), active, owner };
            state.infra().schedules = vec![schedule("old", false, Some(ROBIN)), schedule("lost", true, None)];
        }
        let doctor = |more: &[&str]| run(service.home.path(), &[&["doctor", "--at", AT], more].concat());
        let shown = ok(&doctor(&["--hooks-at", "https://bot.example.com"]));
        let who = "forge: slicewright-bot in acme/infra, role admin (owner), access token until 2026-01-20";
        let mut wanted =
            vec![who, "warning [token-ends]", "[hook-off]: the hook to https://bot.example.com/hooks is"];
        wanted.extend(["warning [hook-failing]: the last delivery", "warning [protected-branches]"]);
        if face == Face::GitLab {
            wanted.extend(["note [schedule-off]: pipeline schedules that are switched off: `old`"]);
            wanted.extend(["warning [schedule-owner]", "any more: `lost`"]);
        }
        for words in wanted {
            assert!(shown.contains(words), "{words:?} is not in\n{shown}");
        }
        assert!(!shown.contains("for-us-alone"), "{shown}");

        // Where the bot may not even read, that is said before the run ends.
        service.fake.state().infra().roles.insert(BOT, Role::Read);
        let output = doctor(&[]);
        failed(&output, 1);
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(shown.contains("blocker [forge-obstacle]"), "{shown}");
    });
}
