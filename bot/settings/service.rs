//! The service configuration: clusters, where their metrics and repositories are, pools, policy, prices.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use slicewright_core::inventory::MigStrategy;
use slicewright_core::plan::pool::{PoolSettings, PriceSettings};
use slicewright_core::policy::PolicySettings;
use slicewright_core::policy::rules::PolicyRule;
use slicewright_core::review::limits::Limits;
use slicewright_core::review::signature::SigningKey;
use slicewright_yaml::{Document, Edit, Op, Refusal, Shared, Step, Value};

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

/// Fewest bytes of a secret. `openssl rand -hex 32` makes 64; what people think up is shorter.
const SHORTEST_SECRET: usize = 24;

/// Where a secret is. One of the two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SecretPlace {
    /// A file.
    pub file: Option<PathBuf>,
    /// An environment variable.
    pub env: Option<String>,
}

impl SecretPlace {
    /// The signing key that is there.
    ///
    /// # Errors
    /// When it cannot be read, or is too short to be a secret.
    pub fn read(&self) -> Result<SigningKey, SecretError> {
        let text = self.read_text()?;
        SigningKey::new(text.expose_secret().as_bytes()).ok_or(SecretError::Short { place: self.shown() })
    }

    /// The secret that is there, without blanks around it.
    ///
    /// # Errors
    /// When it cannot be read, or is too short to be a secret.
    pub fn read_text(&self) -> Result<SecretString, SecretError> {
        let text = match (&self.file, &self.env) {
            (Some(path), None) => std::fs::read_to_string(path)
                .map_err(|cause| SecretError::File { path: path.display().to_string(), cause })?,
            (None, Some(name)) => {
                std::env::var(name).map_err(|_| SecretError::Variable { name: name.clone() })?
            }
            _ => return Err(SecretError::Ambiguous),
        };
        let text = text.trim();
        if text.len() < SHORTEST_SECRET {
            return Err(SecretError::Short { place: self.shown() });
        }
        Ok(SecretString::from(text))
    }

    /// Where it is.
    fn shown(&self) -> String {
        let file = self.file.as_ref().map(|path| path.display().to_string());
        file.or_else(|| self.env.clone()).unwrap_or_default()
    }
}

/// A secret that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file cannot be read.
    #[error("cannot read `{path}`")]
    File {
        /// The file.
        path: String,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
    /// The variable is not set.
    #[error("the environment variable `{name}` is not set")]
    Variable {
        /// The variable.
        name: String,
    },
    /// Both places, or none.
    #[error("give either `file` or `env`")]
    Ambiguous,
    /// Too short.
    #[error("the secret in `{place}` has fewer than 24 bytes: `openssl rand -hex 32` makes one")]
    Short {
        /// Where it is.
        place: String,
    },
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

    fn check(&self) -> Result<(), (String, String)> {
        let wrong = |place: &str, problem: &str| Err((place.to_owned(), problem.to_owned()));
        if self.clusters.is_empty() {
            return wrong("clusters", "name at least one cluster");
        }
        if !(1..=400).contains(&self.window_days()) {
            return wrong("window_days", "must be between 1 and 400");
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if self.branch_prefix().split('/').any(|part| part.is_empty() || !part.chars().all(plain)) {
            return wrong("branch_prefix", "must be a plain name such as `slicewright`");
        }
        if !self.author.email.contains('@') {
            return wrong("author.email", "must be an e-mail address that belongs to the bot alone");
        }
        if let Err((at, problem)) = self.proposals.check() {
            return wrong(&format!("proposals.{at}"), &problem);
        }
        let mut names = BTreeSet::new();
        for (i, forge) in self.forges.iter().enumerate() {
            if let Err((at, problem)) = forge.check() {
                return wrong(&format!("forges[{i}].{at}"), &problem);
            }
            if !names.insert(&forge.name) {
                return wrong(&format!("forges[{i}].name"), &format!("`{}` is named twice", forge.name));
            }
        }
        if let Err((at, problem)) = self.server.check(&self.forges) {
            return wrong(&format!("server.{at}"), &problem);
        }
        let named = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if self.handle().is_empty() || self.handle().len() > 64 || !self.handle().chars().all(named) {
            return wrong("handle", "must be a name that people can mention, such as `slicewright`");
        }
        let mut names = BTreeSet::new();
        for (i, cluster) in self.clusters.iter().enumerate() {
            let place = |rest: &str| format!("clusters[{i}].{rest}");
            if cluster.name.trim().is_empty() {
                return wrong(&place("name"), "name the cluster");
            }
            if !names.insert(&cluster.name) {
                return wrong(&place("name"), &format!("`{}` is named twice", cluster.name));
            }
            if cluster.prometheus.url.is_empty() {
                return wrong(
                    &place("prometheus.url"),
                    "say where Prometheus is: `https://prometheus.example.com`",
                );
            }
            self.check_repository(&cluster.repository, &place("repository"))?;
            let shares = self
                .clusters
                .iter()
                .enumerate()
                .any(|(n, other)| n != i && other.repository.same_as(&cluster.repository));
            if shares && !cluster.repository.says_which_files() {
                return wrong(
                    &place("repository.folders"),
                    "other clusters use the same repository: say which folders are this cluster's, or give `flux` or \
                     `argo_cd`",
                );
            }
            let repository = &cluster.repository;
            let folders = repository.folders.iter().chain(&repository.new_files).chain(&repository.flux);
            for folder in folders {
                if folder.starts_with('/') || folder.split('/').any(|part| part == "..") {
                    return wrong(
                        &place("repository"),
                        &format!("`{folder}` must stay inside the repository"),
                    );
                }
            }
            let mut pools = BTreeSet::new();
            for (n, pool) in cluster.pools.iter().enumerate() {
                let place = |rest: &str| place(&format!("pools[{n}].{rest}"));
                if let Err((at, problem)) = pool.check() {
                    return wrong(&place(&at), &problem);
                }
                if !pools.insert(&pool.name) {
                    return wrong(&place("name"), &format!("`{}` is named twice", pool.name));
                }
                check_policies(&pool.policy, &pool.rules, self.window_days(), &place(""))?;
            }
            if let Err((at, problem)) = cluster.schedule.read(Some(&self.server.schedule)) {
                return wrong(&place(&format!("schedule.{at}")), &problem);
            }
            check_policies(&cluster.policy, &cluster.rules, self.window_days(), &place(""))?;
            check_defaults(&cluster.pool_defaults, &place(""))?;
        }
        check_policies(&self.policy, &self.rules, self.window_days(), "")?;
        check_defaults(&self.pool_defaults, "")
    }
}

impl ServiceSettings {
    /// Where a cluster's repository is.
    fn check_repository(&self, repository: &RepositorySettings, place: &str) -> Result<(), (String, String)> {
        let wrong = |field: &str, problem: &str| Err((format!("{place}.{field}"), problem.to_owned()));
        let Some(forge) = repository.remote() else {
            return match (repository.path.as_os_str().is_empty(), &repository.name) {
                (_, Some(_)) => {
                    wrong("name", "is for a repository on a forge: say `forge:` too, and no `path`")
                }
                (true, None) => wrong("path", "say where the git repository is"),
                (false, None) if repository.checks => {
                    wrong("checks", "is for a repository on a forge: a folder shows no checks")
                }
                (false, None) => Ok(()),
            };
        };
        if !self.forges.iter().any(|known| known.name == forge) {
            let known: Vec<_> = self.forges.iter().map(|known| format!("`{}`", known.name)).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return wrong(
                "forge",
                &format!("`{forge}` is not `local` and none of `forges`, which has {known}"),
            );
        }
        if !repository.path.as_os_str().is_empty() || repository.merge_requests.is_some() {
            return wrong(
                "path",
                "`path` and `merge_requests` are for `forge: local`; give `name`, `acme/infra`",
            );
        }
        let plain = |part: &str| {
            !part.is_empty()
                && !part.starts_with(['.', '-'])
                && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        };
        match repository.name.as_deref() {
            Some(name) if name.contains('/') && name.split('/').all(plain) => Ok(()),
            _ => wrong("name", "say which repository: `acme/infra`, `group/subgroup/project`"),
        }
    }
}

/// What one layer says about its workloads; `place` is the layer's own, with a dot at its end.
fn check_policies(
    policy: &PolicySettings,
    rules: &[PolicyRule],
    window_days: u32,
    place: &str,
) -> Result<(), (String, String)> {
    check_policy(policy, window_days, &format!("{place}policy"))?;
    let mut rules = rules.iter().enumerate();
    rules.try_for_each(|(n, rule)| check_rule(rule, window_days, &format!("{place}rules[{n}]")))
}

/// What one layer says about every pool.
fn check_defaults(defaults: &PoolSettings, place: &str) -> Result<(), (String, String)> {
    defaults
        .check_defaults()
        .map_err(|(setting, problem)| (format!("{place}pool_defaults.{setting}"), problem))
}

fn check_policy(policy: &PolicySettings, window_days: u32, place: &str) -> Result<(), (String, String)> {
    if let Some(days) = policy.min_history_days.filter(|days| *days > window_days) {
        let problem = format!(
            "{days} days are more than `window_days` ({window_days}) looks back, so that nothing could ever be proposed"
        );
        return Err((format!("{place}.min_history_days"), problem));
    }
    policy.check().map_err(|(setting, problem)| (format!("{place}.{setting}"), problem))
}

fn check_rule(rule: &PolicyRule, window_days: u32, place: &str) -> Result<(), (String, String)> {
    check_policy(&rule.set, window_days, &format!("{place}.set"))?;
    check_selectors(rule, place)?;
    if rule.set == PolicySettings::default() {
        let problem = "says nothing: give what holds for them, such as `set: {production: false}`";
        return Err((format!("{place}.set"), problem.to_owned()));
    }
    Ok(())
}

/// Whom a rule is for.
pub(super) fn check_selectors(rule: &PolicyRule, place: &str) -> Result<(), (String, String)> {
    // The name ends up between backticks in texts for reviewers.
    if let Some(name) = &rule.name
        && (name.trim().is_empty() || name.contains('`') || name.chars().any(char::is_control))
    {
        return Err((format!("{place}.name"), "must be one line of text without backticks".to_owned()));
    }
    if let Some(text) = rule.workloads.iter().find(|text| !text.contains(['/', '*'])) {
        let problem = format!("`{text}` names no workload: write `namespace/name`, such as `*/{text}`");
        return Err((format!("{place}.workloads"), problem));
    }
    if rule.selects() {
        return Ok(());
    }
    let selectors = "`namespaces`, `namespace_labels`, `workloads`, `workload_labels` or `kinds`";
    Err((place.to_owned(), format!("says nothing about whom it is for: give {selectors}")))
}

#[cfg(test)]
mod tests {
    use slicewright_core::policy::freeze::Freeze;

    use super::*;

    const MINIMAL: &str = "clusters:\n  - name: a\n    prometheus: {url: 'http://p:9090'}\n    repository: {path: \
                           infra.git}\n";

    fn error(text: &str) -> String {
        ServiceSettings::parse(text, "slicewright.yaml", Path::new("/etc")).unwrap_err().to_string()
    }

    #[test]
    fn relative_paths_are_relative_to_the_file() {
        let settings = ServiceSettings::parse(MINIMAL, "x", Path::new("/etc/slicewright")).unwrap();
        assert_eq!(settings.clusters[0].repository.path, Path::new("/etc/slicewright/infra.git"));
    }

    #[test]
    fn an_unknown_field_is_shown_with_its_line() {
        let text = format!("{MINIMAL}widow_days: 3\n");
        let message = error(&text);
        assert!(message.contains("widow_days") && message.contains('5'), "{message}");
    }

    #[test]
    fn a_rule_for_nobody_is_refused() {
        let message = error(&format!("{MINIMAL}rules:\n  - set: {{production: false}}\n"));
        assert!(message.contains("`rules[0]` (line 6): says nothing about whom"), "{message}");
    }

    #[test]
    fn a_rule_that_sets_nothing_is_refused() {
        for rule in ["{namespaces: [a]}", "{namespaces: [a], set: {}}"] {
            let message = error(&format!("{MINIMAL}rules: [{rule}]\n"));
            assert!(message.contains("`rules[0].set` (line 5): says nothing"), "{message}");
        }
    }

    #[test]
    fn an_error_names_the_line_and_speaks_of_settings() {
        for (more, said) in [
            ("policy: {max_surge: -1}", "must be a whole number and not negative at line 5, column 21"),
            ("policy: {compute_fill: much}", "must be a number at line 5, column 24"),
            ("policy: {exclude: maybe}", "must be `true` or `false` at line 5, column 19"),
            ("rules: {kinds: [Job]}", "must be a list: `[value, value]` at line 5, column 8"),
            ("policy: [exclude]", "must be a mapping: `{name: value}` at line 5, column 9"),
            (
                "pool_defaults: {goal: capasity}",
                "`capasity` is none of `bill`, `capacity` at line 5, column 23",
            ),
            ("rules: [{kind: [Job]}]", "no setting is called `kind` here; there are `name`, `namespaces`"),
            (
                "pool_defaults:\n  freeze:\n    - {weekly: [fri]}\n    - {reason: x}",
                "`pool_defaults.freeze[1].from` (line 8): says no day",
            ),
            ("policy:\n  exclude: true\n  min_runs: 1\n  headroom_percent: 2000", "(line 8)"),
        ] {
            let message = error(&format!("{MINIMAL}{more}\n"));
            assert!(message.contains(said), "`{said}` is missing in: {message}");
            assert!(!message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn a_folder_outside_the_repository_is_refused() {
        let text = MINIMAL.replace("infra.git}", "infra.git, folders: [../x/]}");
        assert!(error(&text).contains("must stay inside the repository"));
    }

    #[test]
    fn values_that_cannot_be_meant_are_refused_with_the_place() {
        for (more, said) in [
            (
                "policy: {compute_fill: 75}",
                "`policy.compute_fill` (line 5): 7500 % is not above 0 and at most 1",
            ),
            ("policy: {min_profile: banana}", "`policy.min_profile` (line 5): `banana` is no MIG profile"),
            ("policy: {methods: [keep-whole]}", "`policy.methods` (line 5): `keep-whole` is what is left"),
            ("policy: {time_slicing_max_replicas: 1}", "1 is not between 2 and 48"),
            ("rules: [{kinds: [Job], set: {min_coverage: 90}}]", "`rules[0].set.min_coverage`"),
            ("branch_prefix: a b", "`branch_prefix`"),
        ] {
            let message = error(&format!("{MINIMAL}{more}\n"));
            assert!(message.contains(said), "{message}");
        }
        let pools = MINIMAL.replace("infra.git}", "infra.git}\n    pools: [{name: p, nodes: 'x('}]");
        assert!(error(&pools).contains("`clusters[0].pools[0].nodes` (line 5): `x(`"), "{}", error(&pools));
    }

    #[test]
    fn a_repository_on_a_forge_names_an_account_that_is_there() {
        let remote = "clusters:\n  - name: a\n    prometheus: {url: 'http://p:9090'}\n    repository: {forge: gh, name: \
                      acme/infra}\n";
        let account = "forges:\n  - {name: gh, token_env: T}\n";
        let settings = ServiceSettings::parse(&format!("{remote}{account}"), "x", Path::new("/etc")).unwrap();
        let repository = &settings.clusters[0].repository;
        assert_eq!(settings.forge_of(repository).unwrap().name, "gh");
        assert_eq!(settings.limits_of(repository), Limits::shared());
        assert_eq!(repository.place(), "gh:acme/infra");
        let says = |text: &str| ServiceSettings::parse(text, "x", Path::new("/etc")).unwrap_err().to_string();
        let message = says(remote);
        assert!(
            message.contains(
                "`clusters[0].repository.forge` (line 4): `gh` is not `local` and none of `forges`"
            ),
            "{message}"
        );
        for (from, to, said) in [
            ("name: acme/infra", "path: x", "`clusters[0].repository.path`"),
            ("name: acme/infra", "name: infra", "`clusters[0].repository.name`"),
            ("name: acme/infra", "name: acme/../infra", "`clusters[0].repository.name`"),
            ("forge: gh, name: acme/infra", "path: x, name: acme/infra", "`clusters[0].repository.name`"),
        ] {
            let message = says(&format!("{}{account}", remote.replace(from, to)));
            assert!(message.contains(said), "{message}");
        }
        let twice = format!("{remote}{account}  - {{name: gh, token_env: T}}\n");
        assert!(says(&twice).contains("`forges[1].name` (line 7): `gh` is named twice"), "{}", says(&twice));
    }

    #[test]
    fn a_recording_says_nothing_of_forges() {
        let text = "forges:\n  - {name: gh, token_env: SECRET_NAME}\nclusters:\n  - name: a\n    prometheus: {url: \
                    'http://p:9090'}\n    repository:\n      forge: gh\n      name: acme/infra\n";
        let settings = ServiceSettings::parse(text, "x", Path::new("/etc")).unwrap();
        let text =
            &format!("{text}server: {{listen: '10.1.2.3:80', pages: {{user: ops, password_file: words}}}}\n");
        let recorded = settings.without_addresses(text).unwrap();
        for word in ["acme", "SECRET_NAME", "10.1.2.3", "words"] {
            assert!(!recorded.contains(word), "{recorded}");
        }
        let again = ServiceSettings::parse(&recorded, "x", Path::new("/etc")).unwrap();
        assert_eq!(again.clusters[0].repository.path, Path::new("/etc/recorded-0.git"));
    }

    #[test]
    fn a_cluster_named_twice_is_refused() {
        let twice = MINIMAL.replace("infra.git}", "infra.git, folders: [a/]}");
        let twice = format!("{twice}{}", twice.trim_start_matches("clusters:\n"));
        assert!(error(&twice).contains("`clusters[1].name` (line 5): `a` is named twice"));
    }

    #[test]
    fn the_example_shows_every_setting_with_a_value_that_works() {
        let text = include_str!("../../config/example.yaml");
        let uncommented: String = text
            .lines()
            .map(|line| line.strip_prefix("#:").unwrap_or(line))
            .map(|line| format!("{line}\n"))
            .collect();
        ServiceSettings::parse(&uncommented, "config/example.yaml", Path::new(".")).unwrap();
        let policy = serde_json::to_value(PolicySettings::default()).unwrap();
        let pool = serde_json::to_value(PoolSettings::default()).unwrap();
        let prices = serde_json::to_value(PriceSettings::default()).unwrap();
        let rule = serde_json::to_value(PolicyRule::default()).unwrap();
        let freeze = serde_json::to_value(Freeze::default()).unwrap();
        for object in [policy, pool, prices, rule, freeze] {
            for key in object.as_object().unwrap().keys() {
                assert!(
                    uncommented.contains(&format!("{key}:")),
                    "`{key}` is missing in config/example.yaml"
                );
            }
        }
        for key in [
            "handle",
            "server",
            "listen",
            "tls",
            "certificate_file",
            "key_file",
            "hooks",
            "secrets",
            "tokens",
            "store",
            "connections",
            "keep_days",
            "schedule",
            "cron",
            "time_zone",
            "jitter_minutes",
            "workers",
            "commands_per_hour",
            "lease_seconds",
            "pages",
            "enabled",
            "user",
            "forwarded_user_header",
            "window_days",
            "branch_prefix",
            "author",
            "email",
            "former_emails",
            "proposals",
            "max_open",
            "max_per_hour",
            "hours",
            "days",
            "catalog",
            "pool_defaults",
            "clusters",
            "url",
            "bearer_token_file",
            "bearer_token_env",
            "username",
            "password_file",
            "password_env",
            "headers",
            "ca_file",
            "timeout_seconds",
            "max_concurrency",
            "max_answer_mib",
            "matchers",
            "forges",
            "kind",
            "api_url",
            "token_file",
            "token_env",
            "app",
            "id",
            "key_file",
            "former_ids",
            "former_logins",
            "signing_keys",
            "labels",
            "onboarding",
            "forge",
            "path",
            "branch",
            "merge_requests",
            "folders",
            "flux",
            "argo_cd",
            "new_files",
            "gpu_operator",
            "namespace",
            "version",
            "mig_strategy",
        ] {
            assert!(uncommented.contains(&format!("{key}:")), "`{key}` is missing in config/example.yaml");
        }
    }
}
