//! One cluster, from its metrics and its repository to the plans of its pools. Writes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use jiff::Timestamp;
use slicewright_core::fit::FitReport;
use slicewright_core::ids::{PoolId, WorkloadId};
use slicewright_core::inventory::{Declared, Inventory, MigStrategy, Operator};
use slicewright_core::plan::layers::{General, Layers, idle_rules, policies};
use slicewright_core::plan::pool::{Pool, pools, unknown_frozen_nodes};
use slicewright_core::plan::sound::{CHECK_FAILED, sound};
use slicewright_core::plan::{Outcome, Request, plan, weigh_one};
use slicewright_core::policy::{Policy, narrow, wished};
use slicewright_core::review::overrides::Overrides;
use slicewright_core::units::Mib;
use slicewright_core::usage::{Finding, Measured, Severity, declared as declared_memory};

use super::{Engine, Inputs};
use crate::forge::Tree;
use crate::infra::{DeployedBy, Index, Scope, Snapshot};
use crate::prometheus::{MeasureSettings, Progress, QueryStats, measure};
use crate::settings::repo::{self, RepoSettings};
use crate::settings::{ClusterSettings, OperatorSettings};

/// Everything known and decided about one cluster.
pub struct Analysis {
    /// Cluster name.
    pub cluster: String,
    /// Moment that was looked at.
    pub at: Timestamp,
    /// What runs there.
    pub inventory: Inventory,
    /// What was measured.
    pub measured: Measured,
    /// What the repository says.
    pub declared: Declared,
    /// The repository that was read.
    pub snapshot: Snapshot,
    /// What is known of its files.
    pub index: Arc<Index>,
    /// Which part of it is the cluster's.
    pub scope: Scope,
    /// What the repository says about itself, or why that cannot be used: nothing is done there then.
    pub repo: Result<RepoSettings, String>,
    /// Label values that every series of the cluster carries.
    pub matchers: BTreeMap<String, String>,
    /// Configured pools that no node belongs to.
    pub empty_pools: Vec<String>,
    /// Configured names of frozen nodes that no node has, as sentences.
    pub unknown_frozen_nodes: Vec<String>,
    /// Rules of the policy that speak of nobody, as sentences.
    pub idle_rules: Vec<String>,
    /// Pools by name, as the configuration has them.
    configured: Vec<Pool>,
    /// Pools by name, with what their reviewers asked for.
    pub pools: Vec<Pool>,
    /// Policy of every workload, as the configuration has it.
    pub policies: BTreeMap<WorkloadId, Policy>,
    /// Policies as they are in pools whose reviewers asked for something.
    wished: BTreeMap<PoolId, BTreeMap<WorkloadId, Policy>>,
    /// What comes of each pool, in the order of `pools`. Empty before [`Engine::plan`].
    pub outcomes: Vec<Outcome>,
    /// Fits of workloads that hold no card in any pool now.
    pub elsewhere: Vec<FitReport>,
    /// How the questions went.
    pub stats: QueryStats,
}

impl Analysis {
    /// Policies of the workloads as they are in a pool.
    pub fn policies_in(&self, pool: Option<&Pool>) -> &BTreeMap<WorkloadId, Policy> {
        pool.and_then(|pool| self.wished.get(&pool.id)).unwrap_or(&self.policies)
    }

    /// Has the pool at place `n` as its reviewers asked for.
    fn wish(&mut self, n: usize, wish: &Overrides) {
        let mut pool = self.configured[n].clone();
        self.wished.remove(&pool.id);
        if !wish.is_empty() {
            let mut policies = self.policies.clone();
            wished::heed(wish, &mut policies, &mut pool);
            self.wished.insert(pool.id.clone(), policies);
        }
        self.pools[n] = pool;
    }

    /// The pool as the configuration has it.
    pub(super) fn configured(&self, pool: &PoolId) -> Option<&Pool> {
        self.configured.iter().find(|configured| configured.id == *pool)
    }

    /// What comes of a pool.
    pub(super) fn outcome(&self, pool: &PoolId) -> Option<&Outcome> {
        let mut both = self.pools.iter().zip(&self.outcomes);
        both.find(|(known, _)| known.id == *pool).map(|(_, outcome)| outcome)
    }
}

impl Engine {
    /// Measures one cluster, reads its repository and plans its pools as the configuration has them.
    ///
    /// # Errors
    /// When the metrics or the repository cannot be read: nothing is decided then.
    pub async fn analyse(
        &self,
        cluster: &ClusterSettings,
        inputs: &Inputs,
        progress: &dyn Progress,
    ) -> anyhow::Result<Analysis> {
        let mut analysis = self.survey(cluster, inputs, progress).await?;
        self.plan(&mut analysis, &BTreeMap::new());
        Ok(analysis)
    }

    /// Plans every pool, with what its reviewers asked for.
    pub(super) fn plan(&self, analysis: &mut Analysis, wishes: &BTreeMap<PoolId, Overrides>) {
        analysis.pools.clone_from(&analysis.configured);
        let none = Overrides::default();
        let all = 0..analysis.pools.len();
        all.clone().for_each(|n| analysis.wish(n, wishes.get(&analysis.pools[n].id).unwrap_or(&none)));
        analysis.outcomes = all.map(|n| self.outcome(analysis, n)).collect();
    }

    /// Plans one pool again, with other wishes.
    pub(super) fn plan_again(&self, analysis: &mut Analysis, pool: &PoolId, wish: &Overrides) {
        let Some(n) = analysis.pools.iter().position(|known| known.id == *pool) else { return };
        analysis.wish(n, wish);
        analysis.outcomes[n] = self.outcome(analysis, n);
    }

    fn outcome(&self, analysis: &Analysis, n: usize) -> Outcome {
        let request = self.request(analysis, &analysis.pools[n]);
        let outcome = sound(&request, plan(&request));
        log_defects(&outcome);
        outcome
    }

    fn request<'a>(&'a self, analysis: &'a Analysis, pool: &'a Pool) -> Request<'a> {
        Request {
            pool,
            inventory: &analysis.inventory,
            measured: &analysis.measured,
            declared: &analysis.declared,
            catalog: self.catalog(),
            policies: analysis.policies_in(Some(pool)),
        }
    }

    /// Measures one cluster and reads its repository.
    ///
    /// # Errors
    /// When the metrics or the repository cannot be read: nothing is decided then.
    pub(super) async fn survey(
        &self,
        cluster: &ClusterSettings,
        inputs: &Inputs,
        progress: &dyn Progress,
    ) -> anyhow::Result<Analysis> {
        let tree = self.tree(cluster, inputs).await?;
        self.survey_of(cluster, inputs, tree, progress).await
    }

    /// Everything on the default branch of a cluster's repository.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) async fn tree(&self, cluster: &ClusterSettings, inputs: &Inputs) -> anyhow::Result<Tree> {
        let forge = inputs
            .forges
            .get(&cluster.name)
            .with_context(|| format!("the recording does not hold cluster `{}`", cluster.name))?;
        let commit = forge
            .head()
            .await
            .with_context(|| format!("cluster `{}`: cannot read the repository", cluster.name))?;
        let tree = forge.read_tree(&commit).await;
        tree.with_context(|| format!("cluster `{}`: cannot read the repository at {commit}", cluster.name))
    }

    /// As [`Engine::survey`], of a repository that was read already.
    ///
    /// # Errors
    /// When the metrics cannot be read: nothing is decided then.
    pub(super) async fn survey_of(
        &self,
        cluster: &ClusterSettings,
        inputs: &Inputs,
        tree: Tree,
        progress: &dyn Progress,
    ) -> anyhow::Result<Analysis> {
        let source = inputs
            .sources
            .get(&cluster.name)
            .with_context(|| format!("the recording does not hold cluster `{}`", cluster.name))?;
        let snapshot = Snapshot { commit: tree.commit, files: tree.files, skipped: tree.skipped };
        let repo = repo::read(&snapshot.files, &snapshot.skipped);
        let scope = scope(cluster);
        let index = self.index_of(&cluster.repository);
        let mut declared = index.read(&snapshot, &scope);
        override_operator(&mut declared.operator, &cluster.gpu_operator);

        let wanted = MeasureSettings {
            window_days: self.settings().window_days(),
            matchers: cluster.prometheus.matchers.clone(),
            concurrency: cluster.prometheus.concurrency(),
            model_memory: self.model_memory(),
            profile_names: self.catalog().profile_names(),
            ..MeasureSettings::new(&cluster.name, inputs.at)
        };
        let measurement = measure(source, &wanted, progress).await.with_context(|| {
            format!("cluster `{}`: cannot measure it, so nothing is decided", cluster.name)
        })?;
        let (mut inventory, mut measured) = (measurement.inventory, measurement.measured);
        let impossible = inventory.drop_impossible_names();
        if let Some(first) = impossible.first() {
            measured.data_quality.findings.push(Finding {
                code: "impossible-names".to_owned(),
                severity: Severity::Warning,
                text: format!(
                    "{} names that Kubernetes does not allow are left out, `{first}` first",
                    impossible.len()
                ),
                advice: "look at what writes these series".to_owned(),
            });
        }
        for (id, profile) in &mut measured.profiles {
            if let Some(declared) = declared.of(id) {
                declared_memory::with_flags(profile, &declared.memory_flags);
            }
        }

        let layers = self.layers(cluster);
        let mut pools = pools(&inventory, &layers, &self.settings().prices)
            .map_err(|problem| anyhow::anyhow!("cluster `{}`: {problem}", cluster.name))?;
        let mut policies = policies(&inventory, &declared, &pools, &layers);
        if let Ok(repo) = &repo {
            repo.freeze(&mut pools);
            narrow::narrow(&mut policies, &inventory, &declared, &repo.policy, &repo.rules, repo::PLACE);
        }
        let mut idle_rules = idle_rules(&inventory, &declared, &pools, &layers);
        if let Ok(repo) = &repo {
            idle_rules.extend(narrow::idle(&inventory, &declared, &repo.rules, repo::PLACE));
        }
        let mut analysis = Analysis {
            cluster: cluster.name.clone(),
            at: inputs.at,
            inventory,
            measured,
            declared,
            snapshot,
            index,
            scope,
            repo,
            matchers: cluster.prometheus.matchers.clone(),
            empty_pools: cluster
                .pools
                .iter()
                .filter(|settings| !pools.iter().any(|pool| pool.id.pool == settings.name))
                .map(|settings| settings.name.clone())
                .collect(),
            unknown_frozen_nodes: unknown_frozen_nodes(&layers, &pools),
            idle_rules,
            pools: pools.clone(),
            configured: pools,
            policies,
            wished: BTreeMap::new(),
            outcomes: Vec::new(),
            elsewhere: Vec::new(),
            stats: measurement.stats,
        };
        if let Some(pool) = analysis.pools.first() {
            let request = self.request(&analysis, pool);
            let idle = analysis.inventory.workloads.iter().filter(|workload| workload.pods.is_empty());
            analysis.elsewhere = idle.map(|workload| weigh_one(&request, workload)).collect();
        }
        Ok(analysis)
    }

    /// The whole card's memory by every name of a product, for readings that cannot be true.
    fn model_memory(&self) -> BTreeMap<String, Mib> {
        let products = self.catalog().models().iter().filter_map(|model| Some((model, model.framebuffer?)));
        products
            .flat_map(|(model, memory)| model.products.iter().map(move |product| (product, memory)))
            .flat_map(|(product, memory)| {
                std::iter::once(&product.name).chain(&product.aliases).map(move |name| (name.clone(), memory))
            })
            .collect()
    }

    /// Every layer of the configuration that speaks about the cluster.
    fn layers<'a>(&'a self, cluster: &'a ClusterSettings) -> Layers<'a> {
        let service = self.settings();
        Layers {
            cluster: &cluster.name,
            service: General {
                policy: &service.policy,
                rules: &service.rules,
                pool_defaults: &service.pool_defaults,
            },
            of_cluster: General {
                policy: &cluster.policy,
                rules: &cluster.rules,
                pool_defaults: &cluster.pool_defaults,
            },
            pools: &cluster.pools,
        }
    }
}

/// A plan that failed its own checks was dropped: that is the program's fault, and the operator's log says so.
fn log_defects(outcome: &Outcome) {
    let Outcome::Nothing(nothing) = outcome else { return };
    for reason in nothing.reasons.iter().filter(|reason| reason.code == CHECK_FAILED) {
        tracing::error!(pool = %nothing.pool, "{}", reason.text);
    }
}

fn scope(cluster: &ClusterSettings) -> Scope {
    let folder = |text: &String| {
        let text = text.trim_start_matches("./");
        if text.is_empty() || text.ends_with('/') { text.to_owned() } else { format!("{text}/") }
    };
    let slug = slicewright_core::ids::slug(&cluster.name);
    let repository = &cluster.repository;
    let argo_cd = || DeployedBy::ArgoCd { destinations: repository.argo_cd.iter().cloned().collect() };
    let flux = repository.flux.as_ref().map(|root| DeployedBy::Flux { root: folder(root) });
    Scope {
        cluster: cluster.name.clone(),
        folders: repository.folders.iter().map(folder).filter(|text| !text.is_empty()).collect(),
        deployed_by: flux.into_iter().chain((!repository.argo_cd.is_empty()).then(argo_cd)).collect(),
        new_files: repository.new_files.as_ref().map_or_else(|| format!("slicewright/{slug}/"), folder),
        operator_namespace: cluster
            .gpu_operator
            .namespace
            .clone()
            .unwrap_or_else(|| "gpu-operator".to_owned()),
    }
}

fn override_operator(operator: &mut Operator, settings: &OperatorSettings) {
    let text = |into: &mut Option<String>, from: &Option<String>| {
        if from.is_some() {
            into.clone_from(from);
        }
    };
    if operator.namespace.is_none() {
        operator.namespace.clone_from(&settings.namespace);
    }
    text(&mut operator.version, &settings.version);
    let strategy: Option<MigStrategy> = settings.mig_strategy;
    operator.mig_strategy = strategy.or(operator.mig_strategy);
}
