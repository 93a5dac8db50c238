//! The bot as a server: what forges tell it is written down before it is answered, and done afterwards, once.
//!
//! Three steps. `receive` takes a delivery and puts jobs into the queue, in one write. `work` takes a job under a lease and
//! carries it out. `schedule` adds the jobs that nobody has to ask for. A job that was interrupted is done again: every one
//! of them may be, since the forge is asked what is there first.

mod job;

mod pages;

mod patience;

mod receive;

mod schedule;

mod work;

mod shown;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use anyhow::Context as _;
use jiff::Timestamp;
use tokio::sync::watch;

use super::Engine;
use crate::forge::settings::RemoteKind;
use crate::forge::webhook::Secrets;
use crate::store::Store;

pub use job::Urgency;
pub use pages::{problem_page, style};
pub use receive::{Reason, Received, Refused, most_bytes};
pub use shown::{Health, PoolShown, Shown};
pub use work::Worked;

/// The engine with its memory.
pub struct Service {
    /// Another one after the configuration was read again.
    engine: RwLock<Arc<Engine>>,
    hooks: RwLock<BTreeMap<String, Hook>>,
    store: Store,
    /// Somebody put a job into the queue.
    news: watch::Sender<()>,
    /// Moment that looks are made at, instead of the present: for metrics of the past.
    look_at: Option<Timestamp>,
    silent: patience::Silent,
    /// When its memory was last seen to be writable.
    ready_at: tokio::sync::Mutex<Option<Instant>>,
    /// Held as long as the server runs: a file is for one server.
    _lock: Option<File>,
}

/// What one forge may send.
#[derive(Clone, Debug)]
struct Hook {
    kind: RemoteKind,
    secrets: Secrets,
}

impl Service {
    /// Opens the memory, and reads the secrets of the hooks.
    ///
    /// # Errors
    /// When the memory cannot be opened or a secret is not there.
    pub async fn open(engine: Engine, look_at: Option<Timestamp>) -> anyhow::Result<Self> {
        let hooks = hooks(&engine)?;
        let settings = &engine.settings().server.store;
        let lock = settings.path.as_deref().map(lock).transpose()?;
        let store = Store::open(settings).await;
        let store = store.with_context(|| format!("`server.store`: cannot use {}", settings.shown()))?;
        if lock.is_some() {
            // Whoever worked here before is gone.
            store.end_leases().await.context("cannot write into the store")?;
        }
        Ok(Self {
            _lock: lock,
            engine: RwLock::new(Arc::new(engine)),
            hooks: RwLock::new(hooks),
            store,
            silent: patience::Silent::default(),
            ready_at: tokio::sync::Mutex::default(),
            news: watch::Sender::new(()),
            look_at,
        })
    }

    /// Goes on with another configuration, for which [`Service::set_up`] is the next step. What is in work ends with the one
    /// that it began with.
    ///
    /// # Errors
    /// When a secret of it is not there; then everything stays as it was.
    pub fn reload(&self, engine: Engine) -> anyhow::Result<()> {
        let hooks = hooks(&engine)?;
        *self.hooks.write().unwrap_or_else(PoisonError::into_inner) = hooks;
        *self.engine.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(engine);
        Ok(())
    }

    /// Where forges send their deliveries: each forge's name with the path.
    pub fn routes(&self) -> Vec<(String, String)> {
        let hooks = self.hooks.read().unwrap_or_else(PoisonError::into_inner);
        hooks.iter().map(|(name, hook)| (name.clone(), receive::route(hook.kind, name))).collect()
    }

    /// The engine of now.
    pub fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.engine.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tells whenever this process puts something into the queue. Other servers' jobs are found by asking.
    pub fn news(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    /// Ends the connections to the database.
    pub async fn close(&self) {
        self.store.close().await;
    }
}

/// Keeps other servers away from a database that is a file.
fn lock(path: &Path) -> anyhow::Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let shown = path.display();
    let file = File::create(&name).with_context(|| {
        format!(
            "cannot make `{shown}.lock`: `server.store.path` must name a file in a folder that is there and can be written"
        )
    })?;
    file.try_lock().with_context(|| {
        format!(
            "another server uses `{shown}`: give this one another file, or PostgreSQL to both (`server.store.url_file`)"
        )
    })?;
    Ok(file)
}

fn hooks(engine: &Engine) -> anyhow::Result<BTreeMap<String, Hook>> {
    let settings = engine.settings();
    let mut hooks = BTreeMap::new();
    for (n, hook) in settings.server.hooks.iter().enumerate() {
        let [signing, tokens] = hook.read().with_context(|| format!("`server.hooks[{n}]` cannot be used"))?;
        let forge = settings.forges.iter().find(|forge| forge.name == hook.forge);
        let kind = forge.with_context(|| format!("`server.hooks[{n}].forge` is none of `forges`"))?.kind;
        hooks.insert(hook.forge.clone(), Hook { kind, secrets: Secrets { signing, tokens } });
    }
    Ok(hooks)
}
