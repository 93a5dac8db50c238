//! How the bot stands on a forge, as far as the forge shows it; what follows from it is the question of `doctor`.

use jiff::Timestamp;
use jiff::civil::Date;

use super::{Person, Role};

/// One repository, with the bot's eyes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkup {
    /// The repository as the forge calls it today, `acme/infra`.
    pub repository: String,
    /// The bot's account.
    pub account: Option<Person>,
    /// What it may do. `None`: the forge does not say (a workflow's token).
    pub role: Option<Role>,
    /// What keeps the bot from working here, each with the way out.
    pub obstacles: Vec<String>,
    /// When the access token ends. `None`: never, or the forge does not say.
    pub token_ends: Option<Date>,
    /// What the access token was made for. `None`: the forge does not say.
    pub scopes: Option<Vec<String>>,
    /// Scopes that the bot needs and the token lacks.
    pub missing_scopes: Vec<String>,
    /// Hooks that tell the bot of what happens, or may.
    pub hooks: Vec<Hook>,
    /// Pipelines that run by the clock.
    pub schedules: Vec<Schedule>,
    /// Patterns or rules that keep the bot from branches with its prefix.
    pub protected: Vec<String>,
    /// What the bot may not look at, each as it follows on "not looked at".
    pub unseen: Vec<String>,
}

/// A hook of the repository, or the App's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// Where it points, without its query: that may hold a secret.
    pub address: String,
    /// It is the bot's: the App's own, or it points where the bot is said to listen. Others may be the bot's.
    pub is_ours: bool,
    /// Whether it is sent at all.
    pub state: HookState,
    /// What came of the last delivery, where that is known and it did not arrive.
    pub failed: Option<String>,
}

/// Whether a hook is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookState {
    /// It is.
    On,
    /// Not before this moment: it failed several times in a row.
    Paused(Option<Timestamp>),
    /// Not until somebody switches it on.
    Off,
}

/// A pipeline that runs by the clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// What people call it.
    pub name: String,
    /// It runs.
    pub active: bool,
    /// Whose rights it runs with.
    pub owner: Option<String>,
    /// The owner is no active member any more, nor an administrator of the instance, who needs not be one.
    pub owner_left: bool,
}
