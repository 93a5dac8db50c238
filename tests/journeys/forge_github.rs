//! The bot on GitHub: its adapter against a stand-in that holds every call against GitHub's published schemas.

mod accounts;

mod hooks;

mod emulated;

mod judged;

mod people;

mod reading;

mod trouble;

mod writing;

use std::collections::BTreeMap;

use slicewright::forge::settings::{AppSettings, RemoteKind, Settings};
use slicewright::forge::{Commit, Forge, ForgeError, Found, RequestText, Target, Topic, Tree, connect};
use slicewright_core::review::metadata::Metadata;

use crate::world::forge::state::{BOT, INFRA, State, TOKEN};
use crate::world::forge::{Face, FakeForge, Line};
use crate::world::repo::{BareRepo, MAIN};

const BRANCH: &str = "slicewright/dc1/a100";

/// What the bot changes in the stories.
const FILE: &str = "apps/ranker.yaml";

/// How the bot signs in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SignIn {
    /// With the token of an account like a person's.
    Token,
    /// With a token that belongs to an installation, as in a workflow.
    Workflow,
    App,
}

/// A GitHub with `acme/infra`, and the bot.
struct Story {
    /// First, so that what the bot still does ends before its forge.
    bot: Box<dyn Forge>,
    forge: FakeForge,
    settings: Settings,
    target: Target,
    runtime: tokio::runtime::Runtime,
    folder: tempfile::TempDir,
}

impl Story {
    fn new(sign_in: SignIn) -> Self {
        Self::with(sign_in, &[(FILE, "gpu: 1\n"), ("apps/other.yaml", "gpu: 2\n")])
    }

    fn with(sign_in: SignIn, files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repo = folder.path().join("repo");
        for (path, text) in files {
            let path = repo.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let mut state = State::new(BareRepo::from_folder(&repo));
        if sign_in == SignIn::Token {
            let bot = state.users.get_mut(&BOT).unwrap();
            (bot.is_bot, bot.login) = (false, "slicewright-bot".to_owned());
        }
        let forge = FakeForge::start(Face::GitHub, state);
        let secret = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("{text}\n")).unwrap();
            path
        };
        let mut settings = Settings {
            name: "github".to_owned(),
            kind: RemoteKind::GitHub,
            url: Some(forge.url()),
            ..Settings::default()
        };
        match sign_in {
            SignIn::App => {
                let key_file = Some(secret("key.pem", crate::world::forge::github::APP_KEY));
                let id = crate::world::forge::github::APP;
                settings.app = Some(AppSettings { id, key_file, key_env: None });
            }
            _ => settings.token_file = Some(secret("token", TOKEN)),
        }
        settings.check().unwrap();
        let target = Target {
            repository: INFRA.to_owned(),
            branch_prefix: "slicewright".to_owned(),
            author_name: "Slicewright".to_owned(),
            author_email: "bot@example.com".to_owned(),
            ..Target::default()
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let bot = connect(&settings, target.clone()).unwrap();
        Self { bot, forge, settings, target, runtime, folder }
    }

    /// The bot starts anew, as `change` says.
    fn restart(&mut self, change: impl FnOnce(&mut Settings, &mut Target)) {
        change(&mut self.settings, &mut self.target);
        self.bot = connect(&self.settings, self.target.clone()).unwrap();
    }

    /// What a step of the bot comes to. No failure may tell a secret.
    fn done<T>(&self, step: impl Future<Output = Result<T, ForgeError>>) -> Result<T, ForgeError> {
        let result = self.runtime.block_on(step);
        if let Err(error) = &result {
            let text = format!("{error} {error:?}");
            for secret in [TOKEN, "installation-token", "PRIVATE KEY", "once-only"] {
                assert!(!text.contains(secret), "a secret is in {text}");
            }
        }
        result
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.forge.state()
    }

    fn head(&self, branch: &str) -> Option<String> {
        self.state().infra().git.head(branch)
    }

    async fn look(&self) -> Result<Found, ForgeError> {
        self.bot.find(BRANCH, &self.bot.head().await?).await
    }

    fn find(&self) -> Found {
        self.done(self.look()).unwrap()
    }

    fn tree(&self) -> Tree {
        let head = self.done(self.bot.head()).unwrap();
        self.done(self.bot.read_tree(&head)).unwrap()
    }

    /// A commit on what `main` is now.
    fn commit(&self, files: &[(&str, Option<&[u8]>)]) -> Commit {
        let owned =
            |(path, content): &(&str, Option<&[u8]>)| ((*path).to_owned(), content.map(<[u8]>::to_vec));
        Commit {
            base: self.head(MAIN).unwrap(),
            message: "Share the cards of ranker\n\nFrees two.\n".to_owned(),
            files: files.iter().map(owned).collect(),
        }
    }

    fn publish(&self, expected: Option<&str>, text: &str) -> Result<String, ForgeError> {
        let commit = self.commit(&[(FILE, Some(text.as_bytes()))]);
        self.done(self.bot.publish(BRANCH, expected, &commit))
    }

    /// Branch and pull request, as a run of the bot leaves them; returns the branch's head.
    fn propose(&self) -> String {
        let head = self.publish(None, "gpu: 0.5\n").unwrap();
        self.done(self.bot.write_request(BRANCH, None, &text(&head, "Saves two cards."))).unwrap();
        head
    }

    /// What was asked since the last time, without the answers' bodies.
    fn asked(&self) -> Vec<Line> {
        self.forge.take_log()
    }

    fn say(&self, topic: Topic, text: Option<&str>) -> Result<(), ForgeError> {
        self.done(self.bot.say(BRANCH, "1", topic, text))
    }

    /// Authors and texts of the comments on the first pull request.
    fn comments(&self) -> Vec<(u64, String)> {
        let mut state = self.state();
        let comments = &state.infra().requests[0].comments;
        comments.iter().map(|comment| (comment.author, comment.body.clone())).collect()
    }
}

/// A proposal's text, with the block that says where the branch was left.
fn text(head: &str, words: &str) -> RequestText {
    let metadata =
        Metadata { cluster: "dc1".into(), pool: "a100".into(), head: head.to_owned(), ..Metadata::default() };
    RequestText {
        title: "Share the cards of ranker".into(),
        body: metadata.attach(words, None),
        base_branch: MAIN.into(),
        ..RequestText::default()
    }
}

fn is_blocked(result: Result<impl std::fmt::Debug, ForgeError>, words: &str) {
    match result {
        Err(ForgeError::Blocked { what }) => assert!(what.contains(words), "`{words}` is not in: {what}"),
        other => panic!("not blocked: {other:?}"),
    }
}

fn is_conflict(result: Result<impl std::fmt::Debug, ForgeError>) {
    assert!(matches!(result, Err(ForgeError::Conflict { .. })), "{result:?}");
}

fn is_denied(result: Result<impl std::fmt::Debug, ForgeError>, words: &str) {
    match result {
        Err(ForgeError::Denied { what }) => assert!(what.contains(words), "`{words}` is not in: {what}"),
        other => panic!("not denied: {other:?}"),
    }
}
