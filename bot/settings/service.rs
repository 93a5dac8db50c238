//! The service configuration: clusters, where their metrics and repositories are, pools, policy, prices.

mod check;
pub(super) use check::check_selectors;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use slicewright_core::inventory::MigStrategy;
use slicewright_core::plan::pool::{PoolSettings, PriceSettings};
use slicewright_core::policy::PolicySettings;
use slicewright_core::policy::rules::PolicyRule;
use slicewright_core::review::limits::Limits;
use slicewright_yaml::{Document, Edit, Op, Refusal, Shared, Step, Value};

use super::secret::SecretPlace;
use super::server::{ScheduleSettings, ServerSettings};
use super::{lines, wording};
use crate::forge::settings::Settings as ForgeSettings;
use crate::prometheus::Settings as PrometheusSettings;

/// The whole file. Every field is documented in `config/example.yaml`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceSettings {
    /// Accounts on GitHub and GitLab.
    pub forges: Vec<ForgeSettings>,
    /// Clusters to look at.
    pub clusters: Vec<ClusterSettings>,
    /// Days of history to ask for. Default 30.
    pub window_days: Option<u32>,
    /// What holds for every workload.
    pub policy: PolicySettings,
    /// What holds for some; of those about the same, later ones win.
    pub rules: Vec<PolicyRule>,
    /// What holds for every pool that does not state it itself.
    pub pool_defaults: PoolSettings,
    /// Prices of nodes and cards.
    pub prices: PriceSettings,
    /// Files with GPU models that add to or replace the built-in catalog.
    pub catalog: Vec<PathBuf>,
    /// First part of every branch name. Default `slicewright`.
    pub branch_prefix: Option<String>,
    /// What people mention to give a command, without the `@`. `slicewright` without it always works. Default
    /// `slicewright`.
    pub handle: Option<String>,
    /// Who the bot's commits are by.
    pub author: Author,
    /// How many proposals a repository may have, and when they are made.
    pub proposals: Limits,
    /// Secrets that sign what the bot notes in its proposals: the first signs, all are known.
    pub signing_keys: Vec<SecretPlace>,
    /// The server; without, the program runs once and ends.
    pub server: ServerSettings,
}

/// Name and address in the bot's commits. A commit by anybody else on a bot's branch stops the bot.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Author {
    /// Name.
    pub name: String,
    /// E-mail address; must belong to the bot alone.
    pub email: String,
    /// Addresses that earlier commits of the bot carry.
    pub former_emails: Vec<String>,
}

impl Default for Author {
    fn default() -> Self {
        Self {
            name: "Slicewright".to_owned(),
            email: "bot@slicewright.invalid".to_owned(),
            former_emails: Vec::new(),
        }
    }
}

/// One cluster.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterSettings {
    /// Name of the cluster; part of the branch.
    pub name: String,
    /// Where its metrics are.
    pub prometheus: PrometheusSettings,
    /// Where its configuration is.
    pub repository: RepositorySettings,
    /// Facts about the GPU Operator that the repository does not tell.
    pub gpu_operator: OperatorSettings,
    /// Pools by name; nodes that match none are sorted by their labels.
    pub pools: Vec<PoolSettings>,
    /// What holds for every workload of the cluster.
    pub policy: PolicySettings,
    /// What holds for some workloads of the cluster; of those about the same, later ones win.
    pub rules: Vec<PolicyRule>,
    /// What holds for every pool of the cluster that does not state it itself.
    pub pool_defaults: PoolSettings,
    /// When the server looks at it; what is not said is as in `server.schedule`.
    pub schedule: ScheduleSettings,
    /// When the server looks at some pools besides that, by the pool's name.
    pub pool_schedules: BTreeMap<String, ScheduleSettings>,
}

/// A repository and how to propose changes to it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RepositorySettings {
    /// `local`, a git repository on this machine, or one of `forges` by its name. Default `local`.
    pub forge: Option<String>,
    /// On `local`: path of the git repository, bare or not.
    pub path: PathBuf,
    /// On a forge: the repository's path there, `acme/infra`.
    pub name: Option<String>,
    /// Branch that changes are proposed for. Default: the one that the repository's `HEAD` names.
    pub branch: Option<String>,
    /// On `local`: folder for merge requests, a folder each. Default: `<path>.proposals`, beside the repository.
    pub merge_requests: Option<PathBuf>,
    /// On a forge: labels of new merge requests.
    pub labels: Vec<String>,
    /// On a forge: say about every commit of a proposal whether it may be merged, where the forge shows checks.
    pub checks: bool,
    /// Keep one issue (on `local` the file `dashboard.md`) that shows where every proposal stands.
    pub dashboard: bool,
    /// Ask first, with a merge request that adds the repository's own file. Default: on a forge, not on `local`.
    pub onboarding: Option<bool>,
    /// Folders of the repository that hold this cluster's files; none: all of it.
    pub folders: Vec<String>,
    /// The folder that Flux was bootstrapped with for this cluster; the folders that it deploys count as its own.
    pub flux: Option<String>,
    /// `destination.name` or `destination.server` of this cluster in Argo CD; the folders that are deployed there count as
    /// its own.
    pub argo_cd: Vec<String>,
    /// Folder for files that the repository does not have yet. Default `slicewright/<cluster>/`.
    pub new_files: Option<String>,
}

impl RepositorySettings {
    /// The name of its forge, if that is one of `forges`.
    pub fn remote(&self) -> Option<&str> {
        self.forge.as_deref().filter(|name| *name != "local")
    }

    /// Its people are asked before anything is proposed.
    pub fn onboards(&self) -> bool {
        self.onboarding.unwrap_or(self.remote().is_some())
    }

    /// Where it is, in one word: equal for clusters that share it.
    pub fn place(&self) -> String {
        match (self.remote(), &self.name) {
            (Some(forge), Some(name)) => format!("{forge}:{name}"),
            _ => self.path.display().to_string(),
        }
    }

    /// Both are the same repository.
    pub fn same_as(&self, other: &Self) -> bool {
        self.place() == other.place()
    }

    /// Something says which files of the repository are the cluster's.
    fn says_which_files(&self) -> bool {
        !self.folders.is_empty() || self.flux.is_some() || !self.argo_cd.is_empty()
    }
}

/// Facts about the GPU Operator. Version and strategy come before what is found in the repository.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OperatorSettings {
    /// Namespace of the operator, where the repository does not say it. Default `gpu-operator`.
    pub namespace: Option<String>,
    /// Version of the operator, `25.10.1`.
    pub version: Option<String>,
    /// `spec.mig.strategy`: `none`, `single` or `mixed`.
    pub mig_strategy: Option<MigStrategy>,
}

/// The configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error(
        "cannot read the configuration `{path}`: name a file with --config, or start from config/example.yaml"
    )]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
    /// Not YAML, or a field that does not exist or has a wrong value.
    #[error("the configuration `{path}` cannot be used: {text}")]
    Invalid {
        /// The file.
        path: String,
        /// What is wrong, with line and column.
        text: String,
    },
    /// Values that contradict each other.
    #[error("the configuration `{path}` cannot be used: `{place}`{}: {problem}", .line.map_or_else(String::new, |n| format!(" (line {n})")))]
    Contradiction {
        /// The file.
        path: String,
        /// `clusters[0].name`.
        place: String,
        /// Its line, or that of what is nearest around it, where it is known.
        line: Option<usize>,
        /// What is wrong and how to put it right.
        problem: String,
    },
}

impl ServiceSettings {
    /// Reads a file; relative paths in it are relative to its folder.
    ///
    /// # Errors
    /// When it cannot be read or used, with the place.
    pub fn load(path: &Path) -> Result<(Self, String), SettingsError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|cause| SettingsError::Unreadable { path: shown.clone(), cause })?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Ok((Self::parse(&text, &shown, folder)?, text))
    }

    /// Reads a text; `shown` names it in errors, `folder` is what relative paths are relative to.
    ///
    /// # Errors
    /// When it cannot be used, with the place.
    pub fn parse(text: &str, shown: &str, folder: &Path) -> Result<Self, SettingsError> {
        let mut settings: Self = serde_saphyr::from_str(text).map_err(|error| SettingsError::Invalid {
            path: shown.to_owned(),
            text: wording::worded(&error),
        })?;
        settings.check().map_err(|(place, problem)| SettingsError::Contradiction {
            path: shown.to_owned(),
            line: lines::line_of(text, &place),
            place,
            problem,
        })?;
        lines::note(&mut settings, text, shown);
        let absolute = |path: &mut PathBuf| *path = folder.join(&*path);
        settings.catalog.iter_mut().for_each(absolute);
        settings.forges.iter_mut().flat_map(ForgeSettings::files_mut).for_each(absolute);
        settings.signing_keys.iter_mut().filter_map(|key| key.file.as_mut()).for_each(absolute);
        settings.server.files_mut().into_iter().for_each(absolute);
        for cluster in &mut settings.clusters {
            if cluster.repository.remote().is_none() {
                absolute(&mut cluster.repository.path);
            }
            cluster.repository.merge_requests.iter_mut().for_each(absolute);
            cluster.prometheus.files_mut().into_iter().for_each(absolute);
        }
        Ok(settings)
    }

    /// What people mention to give a command, without the `@`.
    pub fn handle(&self) -> &str {
        self.handle.as_deref().unwrap_or("slicewright")
    }

    /// First part of every branch name.
    pub fn branch_prefix(&self) -> &str {
        self.branch_prefix.as_deref().unwrap_or("slicewright")
    }

    /// The limits of a repository. One on this machine has none of its own.
    pub fn limits_of(&self, repository: &RepositorySettings) -> Limits {
        match repository.remote() {
            None => self.proposals.clone(),
            Some(_) => self.proposals.or(&Limits::shared()),
        }
    }

    /// The account that a repository's forge stands for; `None` on this machine.
    pub fn forge_of(&self, repository: &RepositorySettings) -> Option<&ForgeSettings> {
        let name = repository.remote()?;
        self.forges.iter().find(|forge| forge.name == name)
    }

    /// Days of history to ask for.
    pub fn window_days(&self) -> u32 {
        self.window_days.unwrap_or(30)
    }

    /// `text`, from which these settings were read, with nothing but the matchers left of each `prometheus:` section and
    /// without local paths of repositories: for recordings, which are handed to others.
    ///
    /// # Errors
    /// When the text is too unusual to edit; with the place.
    pub fn without_addresses(&self, text: &str) -> Result<String, Refusal> {
        let text_at = |i: usize, keys: &[&str], op: Op| Edit {
            document: Document::default(),
            at: [Step::from("clusters"), Step::from(i)]
                .into_iter()
                .chain(keys.iter().map(|key| Step::from(*key)))
                .collect(),
            op,
            shared: Shared::Edit,
        };
        let mut edits = Vec::new();
        for (i, cluster) in self.clusters.iter().enumerate() {
            let matchers = cluster.prometheus.matchers.iter();
            let matchers = matchers.map(|(key, value)| (key.clone(), Value::String(value.clone()))).collect();
            let prometheus = Value::Mapping(vec![
                ("url".to_owned(), Value::String("http://recorded.invalid".to_owned())),
                ("matchers".to_owned(), Value::Mapping(matchers)),
            ]);
            edits.push(text_at(i, &["prometheus"], Op::Set { value: prometheus }));
            // Clusters that share a repository still do, and others do not.
            let shared_with = |other: &ClusterSettings| other.repository.same_as(&cluster.repository);
            let n = self.clusters.iter().position(shared_with).unwrap_or(i);
            let recorded = Value::String(format!("recorded-{n}.git"));
            let repository = &cluster.repository;
            let set = match repository.remote() {
                None => Op::Set { value: recorded },
                Some(_) => Op::Put { value: recorded },
            };
            edits.push(text_at(i, &["repository", "path"], set));
            let gone = [
                ("forge", repository.forge.is_some()),
                ("name", repository.name.is_some()),
                ("merge_requests", repository.merge_requests.is_some()),
                ("checks", repository.checks),
                ("dashboard", repository.dashboard),
            ];
            for (key, _) in gone.into_iter().filter(|(_, given)| *given) {
                edits.push(text_at(i, &["repository", key], Op::Remove));
            }
        }
        let server = text.lines().all(|line| !line.starts_with("server:"));
        let secrets = [
            ("forges", self.forges.is_empty()),
            ("signing_keys", self.signing_keys.is_empty()),
            ("server", server),
        ];
        for (key, _) in secrets.into_iter().filter(|(_, absent)| !absent) {
            let at = vec![Step::from(key)];
            edits.push(Edit { document: Document::default(), at, op: Op::Remove, shared: Shared::Edit });
        }
        slicewright_yaml::edit(text, &edits)
    }
}

#[cfg(test)]
mod tests;
