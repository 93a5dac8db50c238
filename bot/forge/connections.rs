//! Repositories that were seen before: what is known of them is kept for the next run.
//!
//! A connection, answers with their tags and contents by their ids cost time and requests, and none of them can be wrong
//! later. What can be (who the bot is, which branch proposals are for) is asked anew in every run.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::github::GitHub;
use super::gitlab::GitLab;
use super::settings::{RemoteKind, Settings};
use super::{Forge, ForgeError, Target};

/// How long a repository that nobody looks at is kept in memory.
const KEPT_FOR: Duration = Duration::from_mins(30);

/// Repositories on forges by account and path.
#[derive(Default)]
pub struct Connections(Mutex<BTreeMap<(String, String), Known>>);

struct Known {
    remote: Remote,
    /// Of what the named secrets held then.
    mark: [u8; 32],
    used: Instant,
}

/// A repository on either forge.
enum Remote {
    GitHub(Box<GitHub>),
    GitLab(Box<GitLab>),
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_set().entries(all.keys()).finish()
    }
}

impl Remote {
    fn new(settings: &Settings, target: Target) -> Result<Self, ForgeError> {
        match settings.kind {
            RemoteKind::GitHub => Ok(Self::GitHub(Box::new(GitHub::new(settings, target)?))),
            RemoteKind::GitLab => Ok(Self::GitLab(Box::new(GitLab::new(settings, target)?))),
        }
    }

    fn afresh(&self, target: Target) -> Box<dyn Forge> {
        match self {
            Self::GitHub(known) => Box::new(known.afresh(target)),
            Self::GitLab(known) => Box::new(known.afresh(target)),
        }
    }
}

impl Connections {
    /// The repository `target` as it is seen with the account `settings`, for one run. Nothing is asked yet.
    ///
    /// The settings of one account, by its name, and whose commits are the bot's must be the same each time.
    ///
    /// # Errors
    /// When the settings cannot be used: a secret that is not there, a file that cannot be read.
    pub fn connect(&self, settings: &Settings, target: Target) -> Result<Box<dyn Forge>, ForgeError> {
        let key = (settings.name.clone(), target.repository.clone());
        let (mark, now) = (settings.mark(), Instant::now());
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, known| now.duration_since(known.used) < KEPT_FOR);
        if let Some(known) = all.get_mut(&key).filter(|known| known.mark == mark) {
            known.used = now;
            return Ok(known.remote.afresh(target));
        }
        let remote = Remote::new(settings, target.clone())?;
        let forge = remote.afresh(target);
        all.insert(key, Known { remote, mark, used: now });
        Ok(forge)
    }
}
