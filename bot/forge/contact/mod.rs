//! Dealing with people and hooks, beside the passes over proposals: who somebody is here, what they say, what the bot
//! answers, and how the forge tells the bot of it.
//!
//! What a comment asks for, and who may ask for it, is the question of whoever calls.

pub mod checkup;

mod deliveries;
pub(super) use deliveries::{Attempt, failed, points_at};

use async_trait::async_trait;
use jiff::Timestamp;

use super::ForgeError;
use checkup::Checkup;

/// An account. The number is what counts: names can be given to somebody else.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Person {
    /// The account's number.
    pub id: u64,
    /// Its name, without `@`.
    pub login: String,
}

/// What an account may do in a repository. The names are GitHub's, with GitLab's beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Nothing that not everybody may.
    None,
    /// Read (guest, planner).
    Read,
    /// Sort issues and merge requests (reporter).
    Triage,
    /// Push (developer).
    Write,
    /// Change the settings that do no harm (maintainer).
    Maintain,
    /// Everything (owner).
    Admin,
}

impl Role {
    /// As GitHub and GitLab call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Read => "read (guest)",
            Self::Triage => "triage (reporter)",
            Self::Write => "write (developer)",
            Self::Maintain => "maintain (maintainer)",
            Self::Admin => "admin (owner)",
        }
    }
}

/// A comment on a merge request, by whomever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// What the forge calls it.
    pub id: String,
    /// Who wrote it. `None`: the account is gone.
    pub author: Option<Person>,
    /// The author is a program as far as the forge says: an App, the account of an access token, an account that the
    /// forge does not show any more.
    pub is_bot: bool,
    /// The bot itself wrote it, under the name of today or an earlier one.
    pub own: bool,
    /// What it says, with `\n` at the ends of lines.
    pub text: String,
    /// When it was written.
    pub created: Timestamp,
    /// Its text was changed since. `None`: the forge does not say (GitLab calls a comment changed when somebody reacts to
    /// it, the bot included; a folder keeps one time).
    pub edited: Option<bool>,
    /// The forge itself wrote it down: "changed the title".
    pub system: bool,
    /// Not everybody who sees the merge request sees it.
    pub internal: bool,
}

/// What the bot shows at a comment before it has words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// It was read: eyes.
    Seen,
    /// It was done: a rocket, a thumb up.
    Done,
    /// It was not done: a confused face, a thumb down.
    Failed,
}

/// A hook, by what it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookOf {
    /// The one hook of the App, for all repositories that it is installed on (GitHub).
    App,
    /// A hook of the repository itself, by its number.
    Repository(u64),
    /// A hook for all repositories of a group (GitLab).
    Group {
        /// The group's path, `acme/platform`.
        group: String,
        /// The hook's number.
        hook: u64,
    },
}

/// A delivery that did not arrive: the last attempt at telling the bot of something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The hook that it was sent by.
    pub hook: HookOf,
    /// The attempt's number.
    pub id: u64,
    /// What all attempts at one delivery share, and the receiver is sent with each of them: `X-GitHub-Delivery`,
    /// `Idempotency-Key`. A GitLab before 17.4 sends none; then it is the attempt's number.
    pub key: String,
    /// What it tells of, in the forge's word: `issue_comment`, `note_hooks`.
    pub event: String,
    /// When it was tried. `None`: the forge does not say.
    pub at: Option<Timestamp>,
    /// What came of it, in the forge's words: `502`, `internal error`.
    pub outcome: String,
}

/// People and hooks of one repository.
#[async_trait]
pub trait Contact: Send + Sync {
    /// What `person` may do here at this moment. It is asked for each time, and nothing that a payload says is taken for
    /// it.
    ///
    /// # Errors
    /// When it cannot be found out, whatever the reason: the caller then refuses.
    async fn role(&self, person: &Person) -> Result<Role, ForgeError>;

    /// The branch of the merge request with this number, open or closed, where it is one that the bot may write: a branch of
    /// this very repository, below the bot's prefix. `None` for every other number: merge requests from forks (those that
    /// are gone included) and from other branches, issues, numbers that nothing has. Who opened it is the question of
    /// [`Forge::find`](super::Forge::find). One read, which costs nothing while the merge request is as it was.
    ///
    /// # Errors
    /// When it cannot be found out.
    async fn branch_of(&self, request: &str) -> Result<Option<String>, ForgeError>;

    /// Puts a label on the merge request `request`, or takes it off, whatever its case; other labels stay. Where it is so
    /// already, nothing is written. To do so twice is to do so once.
    ///
    /// # Errors
    /// When there is no such merge request, or it cannot be read or written.
    async fn label(&self, request: &str, label: &str, on: bool) -> Result<(), ForgeError>;

    /// The comments on the merge request `request` in the order in which they were made, the bot's own and the forge's
    /// included; those after the comment `after`, where that is given. Comments on lines of the change are among them on
    /// GitLab; GitHub keeps those of reviews elsewhere.
    ///
    /// # Errors
    /// When they cannot be read in full.
    async fn comments(&self, request: &str, after: Option<&str>) -> Result<Vec<Remark>, ForgeError>;

    /// Shows `reaction` at a comment on the merge request `request`. To do so twice is to do so once.
    ///
    /// # Errors
    /// When the comment is gone or takes no reaction. It is a courtesy: nothing should depend on it.
    async fn react(&self, request: &str, comment: &str, reaction: Reaction) -> Result<(), ForgeError>;

    /// Answers once on the merge request `request`: a comment that is not edited later, with `marker` hidden in it (letters,
    /// digits, `-`, `_` and `.`; the id of the comment that is answered). Where an answer with this marker is, nothing is
    /// written, so that a call whose outcome is unknown may be repeated.
    ///
    /// # Errors
    /// When the comments cannot be read or written.
    async fn reply(&self, request: &str, marker: &str, text: &str) -> Result<(), ForgeError>;

    /// Whether an account is that of a person, as far as the forge says: no App, no access token's account, not the bot's.
    ///
    /// # Errors
    /// When it cannot be found out.
    async fn is_person(&self, person: &Person) -> Result<bool, ForgeError>;

    /// Empties all boxes on the dashboard, where the issue with this number is that, the bot's own and open; `false` where it
    /// is not, and nothing is written then. `title` is what the dashboard is called. Done twice, it is done once.
    ///
    /// # Errors
    /// When it cannot be read or written.
    async fn empty_boxes(&self, title: &str, issue: &str) -> Result<bool, ForgeError>;

    /// Keeps a file where merge requests of this repository can show it; returns the Markdown that does. `None`: there is no
    /// such place here.
    ///
    /// It is sent once: a file without an answer may lie there unseen, and harms nobody.
    ///
    /// # Errors
    /// When it was refused, or no answer came: do without it.
    async fn attach(&self, name: &str, content: &[u8]) -> Result<Option<String>, ForgeError>;

    /// What was to be told to `address` (or below it) since `since` and did not arrive, oldest first. One whose later attempt
    /// arrived is none. Forges keep them for some days: three (GitHub) or seven (GitLab).
    ///
    /// # Errors
    /// When the bot may not look (a role of maintainer or administrator, or an App, is needed), or there are too many.
    async fn failed_deliveries(&self, address: &str, since: Timestamp) -> Result<Vec<Delivery>, ForgeError>;

    /// Has a delivery sent again, with the same key. To do so twice is harmless, as long as the receiver looks at the key.
    ///
    /// # Errors
    /// When it was refused, or did not arrive again where the forge says so at once (GitLab).
    async fn redeliver(&self, delivery: &Delivery) -> Result<(), ForgeError>;

    /// How the bot stands here: its account, its role, its token, its hooks; those that point at `address`, where that is
    /// given. What it may not look at is named, and is no failure.
    ///
    /// # Errors
    /// When the forge does not answer or does not know the bot.
    async fn checkup(&self, address: Option<&str>) -> Result<Option<Checkup>, ForgeError>;
}
