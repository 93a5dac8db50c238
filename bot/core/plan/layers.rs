//! What the configuration says about one cluster, from the outside in: service, cluster, pool.

use std::collections::BTreeMap;

use super::pool::{Pool, PoolSettings};
use crate::ids::WorkloadId;
use crate::inventory::{Declared, Inventory, Workload};
use crate::policy::rules::{Layer, PolicyRule, resolve};
use crate::policy::{Policy, PolicySettings};

/// Every layer that speaks about one cluster.
#[derive(Clone, Copy, Debug)]
pub struct Layers<'a> {
    /// Name of the cluster.
    pub cluster: &'a str,
    /// What holds in every cluster.
    pub service: General<'a>,
    /// What holds in this one.
    pub of_cluster: General<'a>,
    /// Its pools as configured.
    pub pools: &'a [PoolSettings],
}

/// What one layer says about more than one pool.
#[derive(Clone, Copy, Debug)]
pub struct General<'a> {
    /// What holds for every workload.
    pub policy: &'a PolicySettings,
    /// What holds for some.
    pub rules: &'a [PolicyRule],
    /// What holds for every pool.
    pub pool_defaults: &'a PoolSettings,
}

/// The policy of every workload of the cluster. A workload belongs to the first pool that one of its pods runs in.
pub fn policies(
    inventory: &Inventory,
    declared: &Declared,
    pools: &[Pool],
    layers: &Layers<'_>,
) -> BTreeMap<WorkloadId, Policy> {
    let policy = |workload: &Workload| {
        let mut chain = vec![
            layers.service.layer("service".to_owned()),
            layers.of_cluster.layer(format!("cluster {}", layers.cluster)),
        ];
        let pool = pool_of(workload, pools)
            .and_then(|pool| layers.pools.iter().find(|settings| settings.name == pool.id.pool));
        if let Some(pool) = pool {
            let name = format!("pool {}", pool.name);
            chain.push(Layer { name, all: &pool.policy, rules: &pool.rules });
        }
        resolve(workload, declared.of(&workload.id), &chain)
    };
    inventory.workloads.iter().map(|workload| (workload.id.clone(), policy(workload))).collect()
}

/// Rules that speak of no GPU workload of the cluster, or of the pool that they stand in, as sentences: a typing error
/// there leaves a workload unprotected.
pub fn idle_rules(
    inventory: &Inventory,
    declared: &Declared,
    pools: &[Pool],
    layers: &Layers<'_>,
) -> Vec<String> {
    let idle = |layer: Layer<'_>, workloads: Vec<&Workload>, whose: &str| -> Vec<String> {
        let speaks = |rule: &PolicyRule| workloads.iter().any(|w| rule.matches(w, declared.of(&w.id)));
        let rules = layer.rules.iter().enumerate().filter(|(_, rule)| !speaks(rule));
        rules
            .map(|(n, rule)| format!("{} speaks of no GPU workload of the {whose}", layer.place(n, rule)))
            .collect()
    };
    let all = || inventory.workloads.iter().collect();
    let mut found = idle(layers.service.layer("service".to_owned()), all(), "cluster");
    let of_cluster = layers.of_cluster.layer(format!("cluster {}", layers.cluster));
    found.extend(idle(of_cluster, all(), "cluster"));
    for settings in layers.pools {
        let in_it =
            |workload: &&Workload| pool_of(workload, pools).is_some_and(|pool| pool.id.pool == settings.name);
        let layer =
            Layer { name: format!("pool {}", settings.name), all: &settings.policy, rules: &settings.rules };
        found.extend(idle(layer, inventory.workloads.iter().filter(in_it).collect(), "pool"));
    }
    found
}

/// The first pool that one of the workload's pods runs in.
fn pool_of<'a>(workload: &Workload, pools: &'a [Pool]) -> Option<&'a Pool> {
    pools.iter().find(|pool| workload.pods.iter().any(|pod| pool.nodes.contains(&pod.node)))
}

impl<'a> General<'a> {
    fn layer(&self, name: String) -> Layer<'a> {
        Layer { name, all: self.policy, rules: self.rules }
    }
}
