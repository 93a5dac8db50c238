//! Joins adapters and decisions: one use case a file.
//!
//! The only place besides `settings` that knows every adapter. What is decided is decided in `slicewright-core`.

pub mod recording;

pub mod source;

pub mod analyse;

pub mod pass;

pub mod onboarding;

pub mod proposal;

pub mod propose;

pub mod orphans;

pub mod review;

pub mod service;

mod board;

mod configuration;

pub mod explain;

pub mod pictures;

pub mod doctor;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use jiff::Timestamp;
use slicewright_core::catalog::Catalog;
use slicewright_core::review::signature::SigningKey;

use crate::forge::local::{self, Local};
use crate::forge::{Connections, Forge, Target};
use crate::infra::Index;
use crate::prometheus::{AskError, Client};
use crate::settings::{ClusterSettings, RepositorySettings, ServiceSettings};
use recording::{Recording, ReplayedForge};
use source::Source;

pub use crate::prometheus::{Progress, Quiet};

/// Version of this program, as it is shown in texts and recordings.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The configuration with everything that is read once for it.
#[derive(Clone, Debug)]
pub struct Engine {
    settings: ServiceSettings,
    catalog: Catalog,
    /// The operator's own catalog files in order: name and text.
    catalog_files: Vec<(String, String)>,
    /// Keys that sign the hidden blocks of proposals.
    signing_keys: Vec<SigningKey>,
    /// What is known of the files of each repository, from one run to the next.
    indexes: Arc<Mutex<BTreeMap<String, Arc<Index>>>>,
    /// Repositories on forges, from one run to the next.
    connections: Arc<Connections>,
}

/// Where one run gets its facts from, and where it writes.
pub struct Inputs {
    /// Moment that the run looks at.
    pub at: Timestamp,
    /// Metrics by cluster.
    pub sources: BTreeMap<String, Source>,
    /// Repositories by cluster.
    pub forges: BTreeMap<String, Box<dyn Forge>>,
}

impl Engine {
    /// Reads the catalog with the operator's additions.
    ///
    /// # Errors
    /// When a catalog file cannot be read or contradicts itself.
    pub fn new(settings: ServiceSettings) -> anyhow::Result<Self> {
        let mut files = Vec::new();
        for path in &settings.catalog {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read the catalog file `{}`", path.display()))?;
            files.push((path.display().to_string(), text));
        }
        Self::with_catalog_files(settings, files)
    }

    /// As [`Engine::new`], with the operator's catalog files given as name and text.
    ///
    /// # Errors
    /// When a file contradicts itself.
    pub fn with_catalog_files(
        settings: ServiceSettings,
        catalog_files: Vec<(String, String)>,
    ) -> anyhow::Result<Self> {
        let texts = catalog_files.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        let catalog =
            crate::settings::catalog::with_files(texts).context("the GPU catalog cannot be used")?;
        let keys =
            settings.signing_keys.iter().enumerate().map(|(i, place)| {
                place.read().with_context(|| format!("`signing_keys[{i}]` cannot be used"))
            });
        let signing_keys = keys.collect::<anyhow::Result<_>>()?;
        Ok(Self {
            settings,
            catalog,
            catalog_files,
            signing_keys,
            indexes: Arc::default(),
            connections: Arc::default(),
        })
    }

    /// The configuration.
    pub fn settings(&self) -> &ServiceSettings {
        &self.settings
    }

    /// What is known of the files of a repository.
    fn index_of(&self, repository: &RepositorySettings) -> Arc<Index> {
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(indexes.entry(repository.place()).or_default())
    }

    /// Every GPU model known.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Makes a new bare repository with these files in one commit, and points the cluster at it; for the demo.
    ///
    /// # Errors
    /// When the repository cannot be made.
    pub fn use_new_repository(
        &mut self,
        cluster: &str,
        files: &BTreeMap<String, Vec<u8>>,
        repository: &Path,
        requests: &Path,
    ) -> anyhow::Result<()> {
        crate::forge::new_repository(repository, "main", files)?;
        self.use_local(cluster, repository, requests);
        Ok(())
    }

    fn use_local(&mut self, cluster: &str, repository: &Path, requests: &Path) {
        for settings in self.settings.clusters.iter_mut().filter(|settings| settings.name == cluster) {
            settings.repository.forge = None;
            settings.repository.name = None;
            settings.repository.path = repository.to_owned();
            settings.repository.merge_requests = Some(requests.to_owned());
        }
    }

    /// The clusters of a run: the one named, or all that the inputs hold; a recording may hold fewer than its
    /// configuration names.
    ///
    /// # Errors
    /// When no cluster has this name.
    pub fn clusters_in(&self, inputs: &Inputs, only: Option<&str>) -> anyhow::Result<Vec<&ClusterSettings>> {
        let mut clusters = self.clusters(only)?;
        clusters.retain(|cluster| only.is_some() || inputs.forges.contains_key(&cluster.name));
        anyhow::ensure!(!clusters.is_empty(), "the recording holds none of its configuration's clusters");
        Ok(clusters)
    }

    /// The clusters of the configuration: all, or the one named.
    ///
    /// # Errors
    /// When no cluster has this name.
    pub fn clusters(&self, only: Option<&str>) -> anyhow::Result<Vec<&ClusterSettings>> {
        let clusters: Vec<_> =
            self.settings.clusters.iter().filter(|c| only.is_none_or(|only| c.name == only)).collect();
        if clusters.is_empty() {
            let known: Vec<_> = self.settings.clusters.iter().map(|c| format!("`{}`", c.name)).collect();
            anyhow::bail!(
                "no cluster is named `{}`; the configuration has {}",
                only.unwrap_or_default(),
                known.join(", ")
            );
        }
        Ok(clusters)
    }

    /// Live inputs: the configured servers and repositories.
    ///
    /// # Errors
    /// When a server's settings or a repository cannot be used.
    pub fn live(&self, only: Option<&str>, at: Timestamp) -> anyhow::Result<Inputs> {
        let mut inputs = Inputs { at, sources: BTreeMap::new(), forges: BTreeMap::new() };
        for cluster in self.clusters(only)? {
            let client =
                Client::new(&cluster.prometheus).with_context(|| format!("cluster `{}`", cluster.name))?;
            inputs.sources.insert(cluster.name.clone(), Source::Live(client));
            inputs.forges.insert(cluster.name.clone(), self.forge(cluster)?);
        }
        Ok(inputs)
    }

    /// The configured repository of a cluster.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn forge(&self, cluster: &ClusterSettings) -> anyhow::Result<Box<dyn Forge>> {
        let repository = &cluster.repository;
        let author = self.settings.author.clone();
        let branch_prefix = self.settings.branch_prefix().to_owned();
        let forge: Result<Box<dyn Forge>, _> = match self.settings.forge_of(repository) {
            Some(remote) => self.connections.connect(
                remote,
                Target {
                    repository: repository.name.clone().unwrap_or_default(),
                    default_branch: repository.branch.clone(),
                    branch_prefix,
                    author_name: author.name,
                    author_email: author.email,
                    former_emails: author.former_emails,
                },
            ),
            None => {
                let mut beside = repository.path.clone().into_os_string();
                beside.push(".proposals");
                let requests = repository.merge_requests.clone().unwrap_or_else(|| beside.into());
                Local::open(local::Settings {
                    default_branch: repository.branch.clone(),
                    branch_prefix,
                    author_name: author.name,
                    author_email: author.email,
                    former_emails: author.former_emails,
                    ..local::Settings::new(&repository.path, requests)
                })
                .map(|local| Box::new(local) as Box<dyn Forge>)
            }
        };
        forge.with_context(|| format!("cluster `{}`: the repository cannot be used", cluster.name))
    }

    /// Inputs from a recording: nothing is asked and nothing can be written.
    pub fn replayed(recording: &Recording) -> Inputs {
        let mut inputs = Inputs { at: recording.at, sources: BTreeMap::new(), forges: BTreeMap::new() };
        for (name, cluster) in &recording.clusters {
            inputs.sources.insert(name.clone(), Source::recorded(cluster.answers.clone()));
            inputs.forges.insert(name.clone(), Box::new(ReplayedForge::new(cluster.clone())));
        }
        inputs
    }

    /// Runs once over `only` (or every cluster) and keeps all that was read.
    ///
    /// # Errors
    /// When the run itself fails.
    pub async fn record(
        &self,
        config: &str,
        only: Option<&str>,
        at: Timestamp,
        progress: &dyn Progress,
    ) -> anyhow::Result<Recording> {
        recording::record(self, config, only, at, progress).await
    }
}

/// What the operator can do about an error, where one of its causes says so.
pub fn way_out(error: &anyhow::Error) -> Option<&str> {
    let asked = error.chain().find_map(|cause| cause.downcast_ref::<AskError>())?;
    Some(asked.advice.as_str()).filter(|advice| !advice.is_empty())
}
