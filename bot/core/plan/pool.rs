//! Which nodes belong together: as configured, as their labels say, else by instance type and product.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Goal, PoolKind};
use crate::ids::PoolId;
use crate::inventory::{Inventory, Node};
use crate::units::Money;

/// Nodes of one kind, with the rules that hold for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Cluster and name.
    pub id: PoolId,
    /// Named nodes or a group that comes and goes.
    pub kind: PoolKind,
    /// What counts as success.
    pub goal: Goal,
    /// Node names.
    pub nodes: BTreeSet<String>,
    /// How the pool was found: `configured`, `label karpenter.sh/nodepool`.
    pub found_by: String,
    /// How far replicas must be apart.
    pub spread: Spread,
    /// Whole cards that must stay idle.
    pub spare_cards: u32,
    /// Workloads that may roll at the same time.
    pub concurrent_rollouts: u32,
    /// Nodes that must not be touched.
    pub frozen: BTreeSet<String>,
    /// What may be down while nodes are cut anew.
    pub waves: Waves,
    /// Price of each node, as far as one is known.
    pub prices: BTreeMap<String, NodePrice>,
}

impl Pool {
    /// What the node costs, if that is known.
    pub fn price_of(&self, node: &Node) -> Option<&NodePrice> {
        self.prices.get(&node.name)
    }
}

/// What a node costs, and who says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePrice {
    /// Per hour.
    pub per_hour: Money,
    /// `configured for pool a100-40gb`, `node_total_hourly_cost of OpenCost`.
    pub source: String,
}

/// Prices as configured, for nodes whose pool states none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PriceSettings {
    /// ISO 4217 code of every price. Default `USD`.
    pub currency: String,
    /// One node per hour, by `node.kubernetes.io/instance-type`.
    pub instance_types: BTreeMap<String, Price>,
    /// One card per hour, by DCGM's model name or the `nvidia.com/gpu.product` label.
    pub gpu_models: BTreeMap<String, Price>,
}

impl Default for PriceSettings {
    fn default() -> Self {
        Self { currency: "USD".to_owned(), instance_types: BTreeMap::new(), gpu_models: BTreeMap::new() }
    }
}

/// The first of: the pool's own price, the instance type's, the card model's times cards, OpenCost's.
fn price(node: &Node, pool: &PoolSettings, prices: &PriceSettings) -> Option<NodePrice> {
    let configured =
        |price: &Price, source: String| NodePrice { per_hour: price.in_currency(&prices.currency), source };
    if let Some(price) = &pool.node_per_hour {
        return Some(configured(price, format!("configured for pool `{}`", pool.name)));
    }
    let instance = node.label("node.kubernetes.io/instance-type");
    if let Some(price) = instance.and_then(|kind| prices.instance_types.get(kind)) {
        return Some(configured(price, format!("configured for `{}`", instance.unwrap_or_default())));
    }
    let names = node.model_names().into_iter().chain(node.label("nvidia.com/gpu.product"));
    for name in names {
        if let Some(price) = prices.gpu_models.get(name) {
            let cards = i64::try_from(node.cards.len()).unwrap_or(i64::MAX);
            return Some(NodePrice {
                per_hour: price.in_currency(&prices.currency).times(cards),
                source: format!("configured for `{name}`, a card"),
            });
        }
    }
    let per_hour = node.opencost_per_hour.clone()?;
    Some(NodePrice { per_hour, source: "`node_total_hourly_cost` of OpenCost".to_owned() })
}

/// How far the replicas of one workload must be apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Spread {
    /// No rule.
    None,
    /// Over two cards at least.
    Card,
    /// Over two nodes at least.
    #[default]
    Node,
}

/// What may be down while nodes are drained and cut anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waves {
    /// Workloads of one replica, whose every drain is a downtime anyway.
    #[default]
    SingleReplica,
    /// Workloads of several replicas too.
    AllowDowntime,
    /// Nothing: nodes are borrowed for the pods that would be down.
    Borrow,
    /// Nothing.
    NoDowntime,
}

/// A pool as configured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PoolSettings {
    /// Name of the pool; part of the branch.
    pub name: String,
    /// Node names as a regular expression that must match the whole name.
    pub nodes: Option<String>,
    /// Node labels that must all be there with this value.
    pub labels: BTreeMap<String, String>,
    /// `static`: named nodes. `elastic`: made and removed by an autoscaler.
    pub kind: PoolKind,
    /// `bill`: free whole nodes. `capacity`: free whole cards.
    pub goal: Goal,
    /// How far replicas must be apart: `node`, `card` or `none`.
    pub spread: Spread,
    /// Whole cards that must stay idle.
    pub spare_cards: u32,
    /// Workloads that may roll at the same time. Default 1.
    pub concurrent_rollouts: Option<u32>,
    /// Nodes that must not be touched, by name.
    pub frozen_nodes: BTreeSet<String>,
    /// What may be down while nodes are cut anew: `single-replica`, `allow-downtime`, `borrow` or
    /// `no-downtime`.
    pub waves: Waves,
    /// Price of one node per hour, in the configured currency.
    pub node_per_hour: Option<Price>,
    /// What holds for the pool's workloads.
    pub policy: crate::policy::PolicySettings,
}

impl PoolSettings {
    /// The first value that cannot be used, as setting and what is wrong with it.
    ///
    /// # Errors
    /// A regular expression that cannot be read.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        match &self.nodes {
            Some(text) => {
                expression(text).map(|_| ()).map_err(|error| ("nodes", format!("`{text}`: {error}")))
            }
            None => Ok(()),
        }
    }
}

/// A regular expression for the whole of a node's name.
fn expression(text: &str) -> Result<regex_lite::Regex, regex_lite::Error> {
    regex_lite::Regex::new(&format!("^(?:{text})$"))
}

/// A price in the configured currency, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Price(pub i64);

impl Price {
    /// With its currency.
    pub fn in_currency(self, currency: &str) -> Money {
        Money { micros: self.0, currency: currency.to_owned() }
    }
}

impl Serialize for Price {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000))
    }
}

impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let units = f64::deserialize(deserializer)?;
        Money::from_f64(units, "")
            .filter(|money| money.micros >= 0)
            .map(|money| Self(money.micros))
            .ok_or_else(|| serde::de::Error::custom(format!("{units} is not a price")))
    }
}

/// Node labels that name a pool, with what they say about its kind.
const POOL_LABELS: [(&str, PoolKind); 5] = [
    ("karpenter.sh/nodepool", PoolKind::Elastic),
    ("cloud.google.com/gke-nodepool", PoolKind::Elastic),
    ("eks.amazonaws.com/nodegroup", PoolKind::Elastic),
    ("kubernetes.azure.com/agentpool", PoolKind::Elastic),
    ("cluster.x-k8s.io/deployment-name", PoolKind::Elastic),
];

/// Sorts the cluster's GPU nodes into pools: each node into the first configured pool that matches, else by label,
/// else by instance type and product.
///
/// # Errors
/// When a configured regular expression cannot be read: the pool's name and what is wrong.
pub fn pools(
    inventory: &Inventory,
    configured: &[PoolSettings],
    prices: &PriceSettings,
) -> Result<Vec<Pool>, String> {
    let mut matchers = Vec::new();
    for settings in configured {
        let regex = settings
            .nodes
            .as_ref()
            .map(|text| {
                expression(text)
                    .map_err(|error| format!("pool `{}`: `nodes: {text}`: {error}", settings.name))
            })
            .transpose()?;
        matchers.push((settings, regex));
    }
    let mut pools: BTreeMap<String, Pool> = BTreeMap::new();
    for node in &inventory.nodes {
        let found = matchers.iter().find(|(settings, regex)| belongs(node, settings, regex.as_ref()));
        let (name, found_by, defaults) = match found {
            Some((settings, _)) => (settings.name.clone(), "configured".to_owned(), (*settings).clone()),
            None => by_labels(node),
        };
        let pool = pools.entry(name.clone()).or_insert_with(|| Pool {
            id: PoolId { cluster: inventory.cluster.clone(), pool: name },
            kind: defaults.kind,
            goal: defaults.goal,
            nodes: BTreeSet::new(),
            found_by,
            spread: defaults.spread,
            spare_cards: defaults.spare_cards,
            concurrent_rollouts: defaults.concurrent_rollouts.unwrap_or(1),
            frozen: defaults.frozen_nodes.clone(),
            waves: defaults.waves,
            prices: BTreeMap::new(),
        });
        pool.nodes.insert(node.name.clone());
        if let Some(price) = price(node, &defaults, prices) {
            pool.prices.insert(node.name.clone(), price);
        }
    }
    Ok(pools.into_values().collect())
}

fn belongs(node: &Node, settings: &PoolSettings, regex: Option<&regex_lite::Regex>) -> bool {
    (regex.is_some() || !settings.labels.is_empty())
        && regex.is_none_or(|regex| regex.is_match(&node.name))
        && settings.labels.iter().all(|(key, value)| node.label(key) == Some(value))
}

fn by_labels(node: &Node) -> (String, String, PoolSettings) {
    for (key, kind) in POOL_LABELS {
        if let Some(value) = node.label(key) {
            let settings = PoolSettings { kind, ..PoolSettings::default() };
            return (value.to_owned(), format!("label {key}"), settings);
        }
    }
    let product = node
        .label("nvidia.com/gpu.product")
        .map(|label| label.trim_end_matches("-SHARED").to_owned())
        .or_else(|| node.model_names().into_iter().next().map(str::to_owned))
        .unwrap_or_else(|| "unknown".to_owned());
    let product = product.split("-MIG-").next().unwrap_or(&product).trim_start_matches("NVIDIA-").to_owned();
    let name = match node.label("node.kubernetes.io/instance-type") {
        Some(instance) => format!("{instance}-{product}"),
        None => product,
    };
    (crate::ids::slug(&name), "instance type and product".to_owned(), PoolSettings::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, labels: &[(&str, &str)]) -> Node {
        Node {
            name: name.into(),
            labels: labels
                .iter()
                .map(|(key, value)| (crate::inventory::sanitised_label(key), (*value).to_owned()))
                .collect(),
            ..Node::default()
        }
    }

    fn names(nodes: Vec<Node>, configured: &[PoolSettings]) -> Vec<(String, Vec<String>)> {
        let inventory = Inventory { cluster: "c".into(), nodes, ..Inventory::default() };
        pools(&inventory, configured, &PriceSettings::default())
            .unwrap()
            .into_iter()
            .map(|pool| (pool.id.pool, pool.nodes.into_iter().collect()))
            .collect()
    }

    #[test]
    fn a_configured_pool_comes_before_labels() {
        let configured =
            [PoolSettings { name: "a".into(), nodes: Some("gpu-0[12]".into()), ..PoolSettings::default() }];
        let got = names(
            vec![
                node("gpu-01", &[("karpenter.sh/nodepool", "k")]),
                node("gpu-011", &[("karpenter.sh/nodepool", "k")]),
            ],
            &configured,
        );
        assert_eq!(got, [("a".into(), vec!["gpu-01".into()]), ("k".into(), vec!["gpu-011".into()])]);
    }

    #[test]
    fn without_labels_the_instance_type_and_product_name_the_pool() {
        let labels = [
            ("node.kubernetes.io/instance-type", "g5.xlarge"),
            ("nvidia.com/gpu.product", "NVIDIA-A10G-SHARED"),
        ];
        assert_eq!(names(vec![node("n", &labels)], &[])[0].0, "g5-xlarge-a10g");
    }

    #[test]
    fn a_broken_expression_is_named() {
        let configured =
            [PoolSettings { name: "a".into(), nodes: Some("(".into()), ..PoolSettings::default() }];
        let inventory = Inventory { nodes: vec![node("n", &[])], ..Inventory::default() };
        assert!(
            pools(&inventory, &configured, &PriceSettings::default())
                .unwrap_err()
                .starts_with("pool `a`: `nodes: (`")
        );
    }
}
