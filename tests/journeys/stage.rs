//! A repository on each kind of forge, a bot that passes over it, and people: one story runs on all of them.
//!
//! The bot's side is the real thing: `engine::pass` over the real adapters. Only the plan is made up here, since what is
//! planned is another story.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use jiff::Timestamp;
use slicewright::engine::pass::{Done, Pass, Ready, Subject};
use slicewright::forge::local::{self, Local};
use slicewright::forge::settings::{RemoteKind, Settings};
use slicewright::forge::{self, Forge, Found, Target};
use slicewright::render::Dialect;
use slicewright_core::ids::PoolId;
use slicewright_core::review::lifecycle::Wanted;
use slicewright_core::review::metadata::Metadata;
use slicewright_core::review::overrides::Overrides;
use tempfile::TempDir;

use crate::world::forge::people::Merge;
use crate::world::forge::state::{INFRA, KIM, ROBIN, Request, RequestState, State, TOKEN};
use crate::world::forge::{Face, FakeForge};
use crate::world::repo::{BareRepo, MAIN};

/// The bot's branch.
pub(super) const BRANCH: &str = "slicewright/dc1/a100";
/// The file that the change is in.
pub(super) const FILE: &str = "apps/ranker.yaml";
/// A file that it is not in.
pub(super) const OTHER: &str = "apps/ocr.yaml";
/// The label that keeps a branch as it is.
pub(super) const HOLD: &str = "slicewright/hold";

const EMAIL: &str = "bot@slicewright.invalid";

/// Which kind of forge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Local,
    GitHub,
    GitLab,
}

/// What a person sees of the merge request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) open: bool,
    pub(super) title: String,
    pub(super) body: String,
    pub(super) draft: bool,
    pub(super) labels: BTreeSet<String>,
    /// The comments' texts, oldest first.
    pub(super) comments: Vec<String>,
}

/// A forge with one repository.
pub(super) struct Stage {
    pub(super) kind: Kind,
    pub(super) now: Timestamp,
    /// Show on each head whether it may be merged.
    pub(super) checks: bool,
    scene: Scene,
    runtime: tokio::runtime::Runtime,
    forge: Option<Box<dyn Forge>>,
    home: TempDir,
}

enum Scene {
    Local(BareRepo),
    Remote(FakeForge),
}

/// Runs the story on every kind of forge.
pub(super) fn on_every_forge(story: impl Fn(&mut Stage)) {
    for kind in [Kind::Local, Kind::GitHub, Kind::GitLab] {
        on(kind, &story);
    }
}

/// Runs the story where people approve, merge with a button and have roles.
pub(super) fn on_forges_with_people(story: impl Fn(&mut Stage)) {
    for kind in [Kind::GitHub, Kind::GitLab] {
        on(kind, &story);
    }
}

fn on(kind: Kind, story: &impl Fn(&mut Stage)) {
    let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| story(&mut Stage::new(kind))));
    if let Err(why) = told {
        let text = why.downcast_ref::<String>().cloned();
        let text = text.or_else(|| why.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        panic!("on {kind:?}: {}", text.unwrap_or_default());
    }
}

/// A change of `FILE` to a slice of this name.
pub(super) fn ready(slice: &str) -> Ready {
    let text = format!("limits:\n  nvidia.com/mig-{slice}: 1\n");
    Ready {
        wanted: Wanted {
            title: format!("Share GPUs by {slice}"),
            body: format!("The ranker gets a slice of {slice}."),
            fingerprint: format!("fingerprint-{slice}"),
            files: BTreeMap::from([(FILE.to_owned(), Some(text.into_bytes()))]),
            method: "MIG".to_owned(),
            cards_freed: 2,
            shares: BTreeMap::from([("search/ranker".to_owned(), slice.to_owned())]),
            outgrown: Vec::new(),
        },
        message: format!("Share GPUs by {slice}"),
        draft: false,
        reviewers: Vec::new(),
    }
}

/// As [`ready`], where what stands on the branch is too small by now.
pub(super) fn outgrown(slice: &str) -> Ready {
    let ready = ready(slice);
    Ready { wanted: Wanted { outgrown: vec!["search/ranker".to_owned()], ..ready.wanted }, ..ready }
}

impl Stage {
    pub(super) fn new(kind: Kind) -> Self {
        let home = tempfile::tempdir().unwrap();
        let files = home.path().join("files");
        std::fs::create_dir_all(files.join("apps")).unwrap();
        std::fs::write(files.join(FILE), "limits:\n  nvidia.com/gpu: 1\n").unwrap();
        std::fs::write(files.join(OTHER), "limits:\n  nvidia.com/gpu: 1\n").unwrap();
        let repo = BareRepo::from_folder(&files);
        let scene = match kind {
            Kind::Local => Scene::Local(repo),
            Kind::GitHub => Scene::Remote(FakeForge::start(Face::GitHub, State::new(repo))),
            Kind::GitLab => Scene::Remote(FakeForge::start(Face::GitLab, State::new(repo))),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let now = "2026-01-15T12:00:00Z".parse().unwrap();
        let mut stage = Self { kind, now, checks: false, scene, runtime, forge: None, home };
        stage.restart();
        stage
    }

    /// The fake forge, where there is one.
    pub(super) fn fake(&self) -> &FakeForge {
        match &self.scene {
            Scene::Remote(fake) => fake,
            Scene::Local(_) => panic!("no forge has people here"),
        }
    }

    /// A bot that knows nothing of earlier runs.
    pub(super) fn another_bot(&self) -> Box<dyn Forge> {
        self.bot_in(&self.runtime)
    }

    fn bot_in(&self, runtime: &tokio::runtime::Runtime) -> Box<dyn Forge> {
        let _inside = runtime.enter();
        match &self.scene {
            Scene::Local(repo) => {
                let settings = local::Settings {
                    author_email: EMAIL.to_owned(),
                    ..local::Settings::new(repo.path(), self.requests())
                };
                Box::new(Local::open(settings).unwrap())
            }
            Scene::Remote(fake) => {
                let token = self.home.path().join("token");
                std::fs::write(&token, TOKEN).unwrap();
                let settings = Settings {
                    name: "forge".to_owned(),
                    kind: match fake.face() {
                        Face::GitHub => RemoteKind::GitHub,
                        Face::GitLab => RemoteKind::GitLab,
                    },
                    url: Some(fake.url()),
                    token_file: Some(token),
                    timeout_seconds: Some(20),
                    ..Settings::default()
                };
                let target = Target {
                    repository: INFRA.to_owned(),
                    branch_prefix: "slicewright".to_owned(),
                    author_name: "Slicewright".to_owned(),
                    author_email: EMAIL.to_owned(),
                    ..Target::default()
                };
                forge::connect(&settings, target).unwrap()
            }
        }
    }

    /// Waits for what a bot does.
    pub(super) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// The bot loses all that it remembers.
    pub(super) fn restart(&mut self) {
        self.forge = Some(self.another_bot());
    }

    fn requests(&self) -> PathBuf {
        self.home.path().join("infra.git.proposals")
    }

    /// One pass of the bot, which must succeed.
    pub(super) fn pass(&mut self, ready: Option<&Ready>) -> Done {
        self.try_pass(ready).unwrap_or_else(|error| panic!("the pass failed: {error:#}"))
    }

    /// One pass of the bot.
    pub(super) fn try_pass(&mut self, ready: Option<&Ready>) -> anyhow::Result<Done> {
        let forge = self.forge.take().expect("there is a bot");
        let done = self.pass_of(forge.as_ref(), ready, || {});
        self.forge = Some(forge);
        done
    }

    /// One pass of a bot, with something that happens after it looked and before it writes.
    pub(super) fn pass_of(
        &self,
        forge: &dyn Forge,
        ready: Option<&Ready>,
        meanwhile: impl FnOnce(),
    ) -> anyhow::Result<Done> {
        self.runtime.block_on(self.one_pass(forge, ready, meanwhile))
    }

    async fn one_pass(
        &self,
        forge: &dyn Forge,
        ready: Option<&Ready>,
        meanwhile: impl FnOnce(),
    ) -> anyhow::Result<Done> {
        let pool = PoolId { cluster: "dc1".to_owned(), pool: "a100".to_owned() };
        let base_branch = forge.base_branch().await?;
        let base_commit = forge.head().await?;
        let identity = forge.identity().await?;
        // What the base branch says already is no change.
        let tree = forge.read_tree(&base_commit).await?;
        let ready = ready.cloned().map(|mut ready| {
            ready.wanted.files.retain(|path, content| tree.files.get(path) != content.as_ref());
            ready
        });
        let subject = Subject {
            pool: &pool,
            branch: BRANCH,
            base_branch: &base_branch,
            base_commit: &base_commit,
            at: self.now,
            metrics: &[],
            labels: &["gpu".to_owned()],
            dialect: match self.kind {
                Kind::Local => Dialect::Local,
                Kind::GitHub => Dialect::GitHub,
                Kind::GitLab => Dialect::GitLab,
            },
            keys: &[],
            checks: self.checks,
            asked: None,
            overrides: &Overrides::default(),
        };
        let pass = Pass::new(forge, subject, &identity, ready.as_ref(), None);
        let found = forge.find(BRANCH, &base_commit).await?;
        let action = pass.decide(&found);
        meanwhile();
        pass.carry_out(&found, action).await
    }

    /// The pass of another bot, while one is under way.
    pub(super) fn pass_beside(&self, ready: Option<&Ready>) -> anyhow::Result<Done> {
        // A thread of its own: a runtime cannot wait inside itself.
        let beside = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let bot = self.bot_in(&runtime);
            runtime.block_on(self.one_pass(bot.as_ref(), ready, || {}))
        };
        std::thread::scope(|scope| scope.spawn(beside).join().unwrap())
    }

    /// What the bot finds now.
    pub(super) fn find(&self) -> Found {
        let forge = self.forge.as_deref().expect("there is a bot");
        let find = async { forge.find(BRANCH, &forge.head().await?).await };
        self.runtime.block_on(find).unwrap()
    }

    /// Checks what a pass does, and that another one does nothing.
    #[track_caller]
    pub(super) fn expect(&mut self, ready: Option<&Ready>, code: &str, says: &str) {
        let done = self.pass(ready);
        assert_eq!(done.action.code(), code, "{:?}", done.action);
        assert!(done.action.reason().contains(says), "`{says}` is missing: {:?}", done.action);
        self.expect_silence(ready);
    }

    /// Checks that a pass leaves everything as it is, to the byte.
    #[track_caller]
    pub(super) fn expect_silence(&mut self, ready: Option<&Ready>) {
        let before = self.everything();
        let done = self.pass(ready);
        let after = self.everything();
        assert!(before == after, "{:?} wrote something:\n{before}\n{after}", done.action);
    }

    /// All that a person could see.
    pub(super) fn everything(&self) -> String {
        let refs = self.git(|git| format!("{:?}", git.heads()));
        match &self.scene {
            Scene::Local(_) => {
                let files = crate::world::repo::files_below;
                let requests = self.requests();
                let names = if requests.exists() { files(&requests) } else { Vec::new() };
                let texts = names.iter().map(|name| std::fs::read_to_string(requests.join(name)).unwrap());
                format!("{refs}{names:?}{:?}", texts.collect::<Vec<_>>())
            }
            Scene::Remote(fake) => {
                let mut state = fake.state();
                let infra = state.infra();
                format!("{refs}{:?}{:?}{:?}{:?}", infra.requests, infra.issues, infra.labels, infra.statuses)
            }
        }
    }

    /// The repository.
    pub(super) fn git<T>(&self, look: impl FnOnce(&BareRepo) -> T) -> T {
        match &self.scene {
            Scene::Local(repo) => look(repo),
            Scene::Remote(fake) => look(&fake.state().infra().git),
        }
    }

    /// Head of the bot's branch.
    pub(super) fn head(&self) -> Option<String> {
        self.git(|git| git.head(BRANCH))
    }

    /// Subjects of the branch's own commits, newest first.
    pub(super) fn commits(&self) -> Vec<String> {
        let log = self.git(|git| git.log(&format!("{MAIN}..{BRANCH}")));
        log.into_iter().map(|commit| commit.subject).collect()
    }

    /// The text of the changed file on the branch.
    pub(super) fn file(&self) -> String {
        self.git(|git| git.read(BRANCH, FILE)).unwrap_or_default()
    }

    /// How many merge requests there are, open or not. A folder on this machine is used again.
    pub(super) fn n_requests(&self) -> usize {
        match &self.scene {
            Scene::Local(_) => self.requests().read_dir().map_or(0, Iterator::count),
            Scene::Remote(fake) => fake.state().infra().requests.len(),
        }
    }

    /// A person sees an open merge request of the branch.
    pub(super) fn has_open_request(&self) -> bool {
        let open = |one: &Request| one.source == BRANCH && one.state == RequestState::Open;
        match &self.scene {
            Scene::Local(_) => self.folder().is_dir() && self.seen().open,
            Scene::Remote(fake) => fake.state().infra().requests.iter().any(open),
        }
    }

    /// The merge request as people see it.
    pub(super) fn seen(&self) -> Seen {
        match &self.scene {
            Scene::Local(_) => {
                let folder = self.folder();
                let state = self.state_json();
                let words = |key: &str| {
                    let list = state[key].as_array().cloned().unwrap_or_default();
                    list.iter().filter_map(|word| Some(word.as_str()?.to_owned())).collect()
                };
                let text = std::fs::read_to_string(folder.join("body.md")).unwrap();
                let (title, body) = text.trim_start_matches("# ").split_once('\n').unwrap();
                let mut comments = Vec::new();
                for entry in folder.join("comments").read_dir().into_iter().flatten() {
                    comments.push(std::fs::read_to_string(entry.unwrap().path()).unwrap());
                }
                comments.sort();
                Seen {
                    open: state["state"].as_str().is_some_and(|state| state.eq_ignore_ascii_case("open")),
                    title: title.to_owned(),
                    body: body.trim().to_owned(),
                    draft: state["draft"].as_bool().unwrap_or_default(),
                    labels: words("labels"),
                    comments,
                }
            }
            Scene::Remote(fake) => {
                let mut state = fake.state();
                let request = state.request_of(BRANCH);
                Seen {
                    open: request.state == RequestState::Open,
                    title: request.title.clone(),
                    body: request.body.clone(),
                    draft: request.draft,
                    labels: request.labels.clone(),
                    comments: request.comments.iter().map(|comment| comment.body.clone()).collect(),
                }
            }
        }
    }

    /// What the bot wrote down in the merge request.
    pub(super) fn noted(&self) -> Metadata {
        Metadata::parse(&self.seen().body).expect("the text has a hidden block")
    }

    fn folder(&self) -> PathBuf {
        self.requests().join(BRANCH.replace('/', "__"))
    }

    fn state_json(&self) -> serde_json::Value {
        serde_json::from_str(&std::fs::read_to_string(self.folder().join("state.json")).unwrap()).unwrap()
    }

    fn set_state_json(&self, key: &str, value: serde_json::Value) {
        let mut state = self.state_json();
        state[key] = value;
        std::fs::write(self.folder().join("state.json"), state.to_string()).unwrap();
    }
}

/// What people do.
impl Stage {
    /// The merge request is as if it had never been made: what a bot finds that was stopped before it made it.
    pub(super) fn forget_the_request(&self) {
        match &self.scene {
            Scene::Local(_) => std::fs::remove_dir_all(self.folder()).unwrap(),
            Scene::Remote(fake) => fake.state().infra().requests.clear(),
        }
    }

    /// Robin does something to the branches.
    pub(super) fn robin_pushes(&self, act: impl FnOnce(&BareRepo)) {
        match &self.scene {
            Scene::Local(repo) => act(repo),
            Scene::Remote(fake) => fake.state().pushing(INFRA, ROBIN, |state| act(&state.infra().git)),
        }
    }

    /// Robin commits to the bot's branch.
    pub(super) fn person_commits(&self, path: &str, text: &str) {
        self.robin_pushes(|git| drop(git.commit_as_human(BRANCH, &[(path, text)], "By hand")));
    }

    /// Robin commits to `main`.
    pub(super) fn main_moves(&self, path: &str, text: &str) {
        self.robin_pushes(|git| drop(git.commit_as_human(MAIN, &[(path, text)], "Something else")));
    }

    /// A person closes it.
    pub(super) fn close(&self) {
        match &self.scene {
            Scene::Local(_) => self.set_state_json("state", "declined".into()),
            Scene::Remote(fake) => fake.state().close(BRANCH),
        }
    }

    /// A person opens it again.
    pub(super) fn reopen(&self) {
        match &self.scene {
            Scene::Local(_) => self.set_state_json("state", "open".into()),
            Scene::Remote(fake) => fake.state().reopen(BRANCH),
        }
    }

    /// An administrator gives the default branch another name; forges aim open merge requests at it then, or the old one
    /// stays beside it.
    pub(super) fn rename_main(&self, name: &str, moves: bool) {
        self.git(|git| {
            git.git(&["branch", if moves { "--move" } else { "--copy" }, MAIN, name]);
            git.git(&["symbolic-ref", "HEAD", &format!("refs/heads/{name}")]);
        });
        if let Scene::Remote(fake) = &self.scene {
            name.clone_into(&mut fake.state().infra().default_branch);
        }
        if moves {
            self.retarget(name);
        }
    }

    /// An administrator writes the history of `main` anew, with the same files.
    pub(super) fn rewrite_main(&self) {
        self.robin_pushes(|git| {
            let tree = git.git(&["rev-parse", &format!("{MAIN}^{{tree}}")]);
            let made = git.git(&["commit-tree", tree.trim(), "-m", "From nothing"]);
            git.git(&["update-ref", &format!("refs/heads/{MAIN}"), made.trim()]);
        });
    }

    /// A person merges it.
    pub(super) fn merge(&self, how: Merge) {
        match &self.scene {
            Scene::Local(repo) => drop(repo.merge_as_human(BRANCH, how == Merge::Squash)),
            Scene::Remote(fake) => fake.state().merge(BRANCH, how),
        }
    }

    /// A person deletes the branch.
    pub(super) fn delete_branch(&self) {
        self.robin_pushes(|git| git.delete_branch(BRANCH));
    }

    /// A person puts the branch somewhere else.
    pub(super) fn put_branch(&self, commit: &str) {
        self.robin_pushes(|git| drop(git.git(&["update-ref", &format!("refs/heads/{BRANCH}"), commit])));
    }

    /// A person sets the labels.
    pub(super) fn set_labels(&self, labels: &[&str]) {
        match &self.scene {
            Scene::Local(_) => self.set_state_json("labels", labels.into()),
            Scene::Remote(fake) => {
                let labels = labels.iter().map(|label| (*label).to_owned()).collect();
                fake.state().request_of(BRANCH).labels = labels;
            }
        }
    }

    /// A person gives it another title.
    pub(super) fn set_title(&self, title: &str) {
        match &self.scene {
            Scene::Local(_) => self.set_body_file(title, &self.seen().body),
            Scene::Remote(fake) => title.clone_into(&mut fake.state().request_of(BRANCH).title),
        }
    }

    /// A person writes the text anew.
    pub(super) fn set_body(&self, body: &str) {
        match &self.scene {
            Scene::Local(_) => self.set_body_file(&self.seen().title, body),
            Scene::Remote(fake) => body.clone_into(&mut fake.state().request_of(BRANCH).body),
        }
    }

    fn set_body_file(&self, title: &str, body: &str) {
        std::fs::write(self.folder().join("body.md"), format!("# {title}\n\n{body}\n")).unwrap();
    }

    /// A person marks it as a draft, or takes the mark off.
    pub(super) fn set_draft(&self, draft: bool) {
        match &self.scene {
            Scene::Local(_) => self.set_state_json("draft", draft.into()),
            Scene::Remote(fake) => fake.state().request_of(BRANCH).draft = draft,
        }
    }

    /// A person aims it at another branch.
    pub(super) fn retarget(&self, branch: &str) {
        match &self.scene {
            Scene::Local(_) => self.set_state_json("base_branch", branch.into()),
            Scene::Remote(fake) => branch.clone_into(&mut fake.state().request_of(BRANCH).target),
        }
    }

    /// Kim approves what is there now.
    pub(super) fn approve(&self) {
        self.fake().state().approve(BRANCH, KIM);
    }
}
