//! One cluster, from its metrics and its repository to the plans of its pools. Writes nothing.

use std::collections::BTreeMap;

use anyhow::Context as _;
use jiff::Timestamp;
use slicewright_core::fit::{FitReport, Reason};
use slicewright_core::ids::{PoolId, WorkloadId};
use slicewright_core::inventory::{Declared, Inventory, MigStrategy, Operator, Workload};
use slicewright_core::plan::check::check;
use slicewright_core::plan::pool::{Pool, pools};
use slicewright_core::plan::{Nothing, Outcome, Request, plan, weigh_one};
use slicewright_core::policy::{Layer, Policy, PolicySettings, policy};
use slicewright_core::units::Mib;
use slicewright_core::usage::{DataGap, Finding, Measured, Severity, declared as declared_memory};

use super::{Engine, Inputs};
use crate::infra::{self, Scope, Snapshot};
use crate::prometheus::{MeasureSettings, Progress, QueryStats, measure};
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
    /// Which part of it is the cluster's.
    pub scope: Scope,
    /// Label values that every series of the cluster carries.
    pub matchers: BTreeMap<String, String>,
    /// Configured pools that no node belongs to.
    pub empty_pools: Vec<String>,
    /// Pools by name.
    pub pools: Vec<Pool>,
    /// Policy of every workload.
    pub policies: BTreeMap<WorkloadId, Policy>,
    /// What comes of each pool, in the order of `pools`.
    pub outcomes: Vec<Outcome>,
    /// Fits of workloads that hold no card in any pool now.
    pub elsewhere: Vec<FitReport>,
    /// How the questions went.
    pub stats: QueryStats,
}

impl Analysis {
    /// Why the facts about a pool are incomplete, so that nothing about it may be written: a metric that an open
    /// proposal rests on is gone, a finding blocks all decisions, part of the window could not be read, or a node that
    /// offers or uses GPUs is not seen in full. `rests_on` are the metrics of the open proposal.
    pub fn unsure(&self, pool: &PoolId, rests_on: &[String]) -> Option<String> {
        let quality = &self.measured.data_quality;
        let gone: Vec<&str> =
            rests_on.iter().filter(|name| !quality.metrics.contains(name)).map(String::as_str).collect();
        if !gone.is_empty() {
            return Some(format!("held: metrics that the proposal rests on are gone: {}", gone.join(", ")));
        }
        if let Some(finding) = quality.findings.iter().find(|finding| finding.severity == Severity::Blocker) {
            return Some(format!("held: {}", finding.text));
        }
        let pool = self.pools.iter().find(|known| known.id == *pool)?;
        let nodes = || self.inventory.nodes.iter().filter(|node| pool.nodes.contains(&node.name));
        let silent =
            nodes().find(|n| n.cards.is_empty() && n.gpu_allocatable.values().any(|offered| *offered > 0));
        if let Some(node) = silent {
            return Some(format!(
                "held: {} offers GPUs and shows no sample of them now, so that nothing is decided until it does",
                node.name
            ));
        }
        let workloads = || {
            let here = |w: &&Workload| w.pods.iter().any(|pod| pool.nodes.contains(&pod.node));
            self.inventory.workloads.iter().filter(here)
        };
        let in_use =
            nodes().flat_map(|node| &node.cards).any(|card| card.used_now.is_some_and(|used| used.0 > 1_024));
        if in_use && workloads().next().is_none() {
            return Some("held: cards are in use, and no pod is known to hold one".to_owned());
        }
        workloads()
            .filter_map(|workload| self.measured.profiles.get(&workload.id))
            .flat_map(|profile| &profile.gaps)
            .find(|gap| matches!(gap, DataGap::IncompleteAnswer { .. }))
            .map(|gap| format!("held: {gap}"))
    }
}

impl Engine {
    /// Measures one cluster, reads its repository and plans its pools.
    ///
    /// # Errors
    /// When the metrics or the repository cannot be read: nothing is decided then.
    pub async fn analyse(
        &self,
        cluster: &ClusterSettings,
        inputs: &Inputs,
        progress: &dyn Progress,
    ) -> anyhow::Result<Analysis> {
        let forge = inputs
            .forges
            .get(&cluster.name)
            .with_context(|| format!("the recording does not hold cluster `{}`", cluster.name))?;
        let source = inputs
            .sources
            .get(&cluster.name)
            .with_context(|| format!("the recording does not hold cluster `{}`", cluster.name))?;
        let commit = forge
            .head()
            .with_context(|| format!("cluster `{}`: cannot read the repository", cluster.name))?;
        let tree = forge
            .read_tree(&commit)
            .with_context(|| format!("cluster `{}`: cannot read the repository at {commit}", cluster.name))?;
        let snapshot = Snapshot { commit: tree.commit, files: tree.files, skipped: tree.skipped };
        let scope = scope(cluster);
        let mut declared = infra::read(&snapshot, &scope);
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

        let pools = pools(&inventory, &cluster.pools, &self.settings().prices)
            .map_err(|problem| anyhow::anyhow!("cluster `{}`: {problem}", cluster.name))?;
        let policies = self.policies(cluster, &inventory, &pools);
        let mut outcomes = Vec::new();
        for pool in &pools {
            let request = Request {
                pool,
                inventory: &inventory,
                measured: &measured,
                declared: &declared,
                catalog: self.catalog(),
                policies: &policies,
            };
            outcomes.push(sound(&request, plan(&request)));
        }
        let elsewhere = match pools.first() {
            None => Vec::new(),
            Some(pool) => {
                let request = Request {
                    pool,
                    inventory: &inventory,
                    measured: &measured,
                    declared: &declared,
                    catalog: self.catalog(),
                    policies: &policies,
                };
                inventory
                    .workloads
                    .iter()
                    .filter(|workload| workload.pods.is_empty())
                    .map(|workload| weigh_one(&request, workload))
                    .collect()
            }
        };
        Ok(Analysis {
            cluster: cluster.name.clone(),
            at: inputs.at,
            inventory,
            measured,
            declared,
            snapshot,
            scope,
            matchers: cluster.prometheus.matchers.clone(),
            empty_pools: cluster
                .pools
                .iter()
                .filter(|settings| !pools.iter().any(|pool| pool.id.pool == settings.name))
                .map(|settings| settings.name.clone())
                .collect(),
            pools,
            policies,
            outcomes,
            elsewhere,
            stats: measurement.stats,
        })
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

    fn policies(
        &self,
        cluster: &ClusterSettings,
        inventory: &Inventory,
        pools: &[Pool],
    ) -> BTreeMap<WorkloadId, Policy> {
        let nothing = PolicySettings::default();
        inventory
            .workloads
            .iter()
            .map(|workload| {
                let pool = pools
                    .iter()
                    .find(|pool| workload.pods.iter().any(|pod| pool.nodes.contains(&pod.node)))
                    .and_then(|pool| cluster.pools.iter().find(|settings| settings.name == pool.id.pool));
                let layers = [
                    Layer {
                        name: "service".to_owned(),
                        all: &self.settings().policy,
                        rules: &self.settings().rules,
                    },
                    Layer {
                        name: format!("cluster {}", cluster.name),
                        all: &cluster.policy,
                        rules: &cluster.rules,
                    },
                    Layer {
                        name: pool.map_or_else(String::new, |pool| format!("pool {}", pool.name)),
                        all: pool.map_or(&nothing, |pool| &pool.policy),
                        rules: &[],
                    },
                ];
                (workload.id.clone(), policy(workload, &layers))
            })
            .collect()
    }
}

/// A plan that breaks a rule of its own is never shown: better nothing than something wrong.
fn sound(request: &Request<'_>, outcome: Outcome) -> Outcome {
    let Outcome::Plan(plan) = outcome else { return outcome };
    let broken = check(request, &plan);
    if broken.is_empty() {
        return Outcome::Plan(plan);
    }
    tracing::error!(pool = %plan.pool, ?broken, "a plan failed its own checks and was dropped");
    let mut kept = plan.kept;
    kept.extend(plan.items.into_iter().map(|item| slicewright_core::plan::Kept {
        n_cards: item.replicas,
        reasons: Vec::new(),
        fit: item.fit,
    }));
    Outcome::Nothing(Nothing {
        pool: plan.pool,
        reasons: broken
            .into_iter()
            .map(|text| {
                Reason::new("check-failed", format!("the plan failed a check of its own: {text}"))
                    .with_advice(
                        "this is a defect of Slicewright: please report it with `slicewright record`",
                    )
            })
            .collect(),
        kept,
    })
}

fn scope(cluster: &ClusterSettings) -> Scope {
    let folder = |text: &String| {
        let text = text.trim_start_matches("./");
        if text.is_empty() || text.ends_with('/') { text.to_owned() } else { format!("{text}/") }
    };
    let slug = slicewright_core::ids::slug(&cluster.name);
    Scope {
        cluster: cluster.name.clone(),
        folders: cluster.repository.folders.iter().map(folder).filter(|text| !text.is_empty()).collect(),
        new_files: cluster
            .repository
            .new_files
            .as_ref()
            .map_or_else(|| format!("slicewright/{slug}/"), folder),
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
