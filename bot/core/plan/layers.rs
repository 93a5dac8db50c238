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
        let pool = pools
            .iter()
            .find(|pool| workload.pods.iter().any(|pod| pool.nodes.contains(&pod.node)))
            .and_then(|pool| layers.pools.iter().find(|settings| settings.name == pool.id.pool));
        if let Some(pool) = pool {
            let name = format!("pool {}", pool.name);
            chain.push(Layer { name, all: &pool.policy, rules: &pool.rules });
        }
        resolve(workload, declared.of(&workload.id), &chain)
    };
    inventory.workloads.iter().map(|workload| (workload.id.clone(), policy(workload))).collect()
}

impl<'a> General<'a> {
    fn layer(&self, name: String) -> Layer<'a> {
        Layer { name, all: self.policy, rules: self.rules }
    }
}
