//! A repository on a GitLab, and the bot's adapter for it.

use std::io::Write as _;

use slicewright::forge::settings::{RemoteKind, Settings};
use slicewright::forge::{Commit, Forge, ForgeError, Found, RequestText, Target, connect};
use slicewright_core::review::metadata::Metadata;

use crate::world::forge::faults::{Fault, Faults};
use crate::world::forge::state::{INFRA, State, TOKEN};
use crate::world::forge::{Face, FakeForge, Line, Reply};
use crate::world::repo::{BareRepo, MAIN};

/// The branch of the one proposal.
pub(super) const BRANCH: &str = "slicewright/dc1/a100-40gb";

/// E-mail of the bot's commits.
pub(super) const EMAIL: &str = "slicewright@example.com";

/// What the repository holds at first.
pub(super) const FILES: [(&str, &str); 3] =
    [("README.md", "# Infra\n"), ("apps/a.yaml", "gpu: 1\n"), ("apps/b.yaml", "gpu: 2\n")];

pub(super) struct Story {
    runtime: tokio::runtime::Runtime,
    /// Dropped before the forge, which then says whether its rules were kept.
    pub(super) bot: Box<dyn Forge>,
    pub(super) forge: FakeForge,
    pub(super) token: tempfile::NamedTempFile,
}

/// A repository with these files.
pub(super) fn repository(files: &[(&str, &str)]) -> BareRepo {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    BareRepo::from_folder(folder.path())
}

impl Story {
    pub(super) fn new() -> Self {
        Self::of(repository(&FILES))
    }

    pub(super) fn of(git: BareRepo) -> Self {
        let forge = FakeForge::start(Face::GitLab, State::new(git));
        let mut token = tempfile::NamedTempFile::new().unwrap();
        writeln!(token, "{TOKEN}").unwrap();
        let bot = adapter(&forge, &token);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        Self { runtime, bot, forge, token }
    }

    /// The adapter of a program that was started anew: it remembers nothing.
    pub(super) fn restart(&mut self) {
        self.bot = adapter(&self.forge, &self.token);
    }

    pub(super) fn wait<T>(&self, asked: impl Future<Output = T>) -> T {
        self.runtime.block_on(asked)
    }

    /// A head on the default branch.
    pub(super) fn main(&self) -> String {
        self.forge.state().infra().git.head(MAIN).unwrap()
    }

    pub(super) fn branch_head(&self) -> Option<String> {
        self.forge.state().infra().git.head(BRANCH)
    }

    pub(super) async fn look(&self) -> Result<Found, ForgeError> {
        self.bot.find(BRANCH, &self.bot.head().await?).await
    }

    pub(super) fn find(&self) -> Found {
        self.wait(self.look()).unwrap()
    }

    /// Writes the branch, which must be where the forge shows it now.
    pub(super) fn publish(&self, files: &[(&str, Option<&str>)]) -> Result<String, ForgeError> {
        let head = self.branch_head();
        self.publish_over(head.as_deref(), files)
    }

    pub(super) fn publish_over(
        &self,
        expected: Option<&str>,
        files: &[(&str, Option<&str>)],
    ) -> Result<String, ForgeError> {
        self.wait(self.bot.publish(BRANCH, expected, &commit(&self.main(), files)))
    }

    pub(super) fn request(&self, open: Option<&str>, text: &RequestText) -> Result<String, ForgeError> {
        self.wait(self.bot.write_request(BRANCH, open, text))
    }

    /// A proposal as the engine leaves it: branch and merge request, with its head noted. Returns the head.
    pub(super) fn propose(&self) -> String {
        let head = self.publish(&[("apps/a.yaml", Some("gpu: 0\n"))]).unwrap();
        self.request(None, &text("Share", &noting(&head))).unwrap();
        head
    }

    /// These requests go wrong, each once.
    pub(super) fn faults(&self, planned: Vec<(&'static str, &'static str, Fault)>) {
        self.forge.set_faults(Some(Faults::planned(planned)));
    }

    /// Everything that was written since the log was last taken.
    pub(super) fn writes(&self) -> Vec<String> {
        let line = |line: &Line| (line.method != "GET").then(|| format!("{} {}", line.method, line.path));
        self.forge.take_log().iter().filter_map(line).collect()
    }
}

pub(super) fn adapter(forge: &FakeForge, token: &tempfile::NamedTempFile) -> Box<dyn Forge> {
    connect(&settings(forge, token), target(INFRA)).unwrap()
}

pub(super) fn settings(forge: &FakeForge, token: &tempfile::NamedTempFile) -> Settings {
    Settings {
        name: "gitlab".into(),
        kind: RemoteKind::GitLab,
        url: Some(forge.url()),
        token_file: Some(token.path().to_path_buf()),
        former_emails: vec!["older@example.com".into()],
        ..Settings::default()
    }
}

pub(super) fn target(repository: &str) -> Target {
    Target {
        repository: repository.to_owned(),
        default_branch: None,
        branch_prefix: "slicewright".into(),
        author_name: "Slicewright".into(),
        author_email: EMAIL.into(),
        former_emails: vec!["former@example.com".into()],
    }
}

pub(super) fn commit(base: &str, files: &[(&str, Option<&str>)]) -> Commit {
    let file =
        |(path, text): &(&str, Option<&str>)| ((*path).to_owned(), text.map(|text| text.as_bytes().to_vec()));
    let message = "Share GPUs of dc1\n\nFor fewer nodes.\n".to_owned();
    Commit { base: base.to_owned(), message, files: files.iter().map(file).collect() }
}

pub(super) fn text(title: &str, body: &str) -> RequestText {
    RequestText { title: title.into(), body: body.into(), base_branch: MAIN.into(), ..RequestText::default() }
}

/// A text in which the bot noted `head`.
pub(super) fn noting(head: &str) -> String {
    let noted = Metadata {
        cluster: "dc1".into(),
        pool: "a100-40gb".into(),
        head: head.into(),
        ..Metadata::default()
    };
    noted.attach("Six GPUs become four.", None)
}

/// An answer with a body.
pub(super) fn reply(status: u16, body: &serde_json::Value) -> Fault {
    Fault::Refuse(Reply::json(status, body))
}

/// The bytes that an error and everything below it would print.
pub(super) fn printed(error: &ForgeError) -> String {
    let mut text = format!("{error} {error:?}");
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text += &format!(" {error} {error:?}");
        cause = error.source();
    }
    text
}
