//! Which nodes belong together: as configured, as their labels say, else by instance type and product.
//!
//! Each rule of a pool comes from the innermost layer that states it: pool, cluster, service, built-in default.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::identity;

use serde::{Deserialize, Serialize};

use super::layers::Layers;
use super::{Goal, PoolKind};
use crate::ids::PoolId;
use crate::inventory::{Inventory, Node};
use crate::policy::freeze::{Freeze, Window};
use crate::policy::rules::{PolicyRule, wildcard};
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
    /// Nodes that must not be touched, by their whole names.
    pub frozen: BTreeSet<String>,
    /// Windows in which nothing is proposed, of all layers.
    pub freeze: Vec<Window>,
    /// What may be down while nodes are cut anew.
    pub waves: Waves,
    /// Most different MIG layouts of its cards; where there are more today, no more than those. `None`: no limit.
    pub max_layouts: Option<u32>,
    /// Which layer of the configuration decided a rule, by the setting's name: `cluster dc1`.
    pub decided_by: BTreeMap<String, String>,
    /// Price of each node, as far as one is known.
    pub prices: BTreeMap<String, NodePrice>,
}

/// Every rule of a pool that layers inherit, in the order in which people read them.
pub const SETTINGS: &[&str] = &[
    "goal",
    "spread",
    "spare_cards",
    "concurrent_rollouts",
    "waves",
    "max_layouts",
    "frozen_nodes",
    "freeze",
];

impl Pool {
    /// A pool without nodes, by the built-in defaults.
    pub(crate) fn new(id: PoolId, kind: PoolKind, found_by: String) -> Self {
        Self {
            id,
            kind,
            goal: Goal::default(),
            nodes: BTreeSet::new(),
            found_by,
            spread: Spread::default(),
            spare_cards: 0,
            concurrent_rollouts: 1,
            frozen: BTreeSet::new(),
            freeze: Vec::new(),
            waves: Waves::default(),
            max_layouts: None,
            decided_by: BTreeMap::new(),
            prices: BTreeMap::new(),
        }
    }

    /// What the node costs, if that is known.
    pub fn price_of(&self, node: &Node) -> Option<&NodePrice> {
        self.prices.get(&node.name)
    }

    /// The value of a rule by its setting's name, as people write it. Empty for a name that there is not.
    pub fn shown(&self, setting: &str) -> String {
        match setting {
            "goal" => self.goal.name().to_owned(),
            "spread" => self.spread.name().to_owned(),
            "spare_cards" => self.spare_cards.to_string(),
            "concurrent_rollouts" => self.concurrent_rollouts.to_string(),
            "waves" => self.waves.name().to_owned(),
            "max_layouts" => self.max_layouts.map_or_else(|| "no limit".to_owned(), |most| most.to_string()),
            "frozen_nodes" if self.frozen.is_empty() => "none".to_owned(),
            "frozen_nodes" => self.frozen.iter().cloned().collect::<Vec<_>>().join(", "),
            "freeze" if self.freeze.is_empty() => "none".to_owned(),
            "freeze" => {
                let windows: Vec<String> =
                    self.freeze.iter().map(|window| window.freeze.to_string()).collect();
                windows.join("; ")
            }
            _ => String::new(),
        }
    }

    /// Rules that are not the default, as `` `goal` = capacity (cluster dc1)``.
    pub fn overrides(&self) -> impl Iterator<Item = String> {
        let default = Self::new(self.id.clone(), self.kind, String::new());
        self.decided_by
            .iter()
            .filter(move |(setting, _)| self.shown(setting) != default.shown(setting))
            .map(|(setting, place)| format!("`{setting}` = {} ({place})", self.shown(setting)))
    }

    /// Takes what one layer states.
    fn apply(&mut self, settings: &PoolSettings, place: &str) {
        macro_rules! take {
            ($($setting:ident => $read:expr);* $(;)?) => {$(
                if let Some(value) = settings.$setting {
                    self.$setting = $read(value);
                    self.decided_by.insert(stringify!($setting).to_owned(), place.to_owned());
                }
            )*};
        }
        take! {
            goal => identity;
            spread => identity;
            spare_cards => identity;
            concurrent_rollouts => identity;
            waves => identity;
            max_layouts => Some;
        }
        let frozen: BTreeSet<String> =
            self.nodes.iter().filter(|node| settings.freezes(node)).cloned().collect();
        if !frozen.is_empty() {
            self.frozen.extend(frozen);
            self.also_decided_by("frozen_nodes", place);
        }
        if !settings.freeze.is_empty() {
            let windows = settings.freeze.iter().cloned();
            self.freeze.extend(windows.map(|freeze| Window { freeze, place: place.to_owned() }));
            self.also_decided_by("freeze", place);
        }
    }

    /// Notes one more layer that a union comes from.
    fn also_decided_by(&mut self, setting: &str, place: &str) {
        self.decided_by
            .entry(setting.to_owned())
            .and_modify(|places| *places = format!("{places} and {place}"))
            .or_insert_with(|| place.to_owned());
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

impl Spread {
    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Card => "card",
            Self::Node => "node",
        }
    }
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

impl Waves {
    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::SingleReplica => "single-replica",
            Self::AllowDowntime => "allow-downtime",
            Self::Borrow => "borrow",
            Self::NoDowntime => "no-downtime",
        }
    }
}

/// A pool as configured; or, without a name and nodes, what holds for every pool that does not state it itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PoolSettings {
    /// Name of the pool; part of the branch.
    pub name: String,
    /// Node names as a regular expression that must match the whole name.
    pub nodes: Option<String>,
    /// Node labels that must all be there with this value.
    pub labels: BTreeMap<String, String>,
    /// `static`: named nodes. `elastic`: made and removed by an autoscaler. Default `static`.
    pub kind: Option<PoolKind>,
    /// `bill`: free whole nodes. `capacity`: free whole cards. Default `bill`.
    pub goal: Option<Goal>,
    /// How far replicas must be apart: `node`, `card` or `none`. Default `node`.
    pub spread: Option<Spread>,
    /// Whole cards that must stay idle. Default 0.
    pub spare_cards: Option<u32>,
    /// Workloads that may roll at the same time. Default 1.
    pub concurrent_rollouts: Option<u32>,
    /// Most different MIG layouts of its cards; where there are more today, no more than those. Default: no limit.
    pub max_layouts: Option<u32>,
    /// Nodes that must not be touched, by name, `*` allowed; those of all layers together.
    pub frozen_nodes: BTreeSet<String>,
    /// Windows in which nothing is proposed; those of all layers together.
    pub freeze: Vec<Freeze>,
    /// What may be down while nodes are cut anew: `single-replica`, `allow-downtime`, `borrow` or
    /// `no-downtime`. Default `single-replica`.
    pub waves: Option<Waves>,
    /// Price of one node per hour, in the configured currency.
    pub node_per_hour: Option<Price>,
    /// What holds for the pool's workloads.
    pub policy: crate::policy::PolicySettings,
    /// What holds for some of the pool's workloads; of those about the same, later ones win.
    pub rules: Vec<PolicyRule>,
}

impl PoolSettings {
    /// The first value that cannot be used, as setting and what is wrong with it.
    ///
    /// # Errors
    /// A regular expression that cannot be read, a pool without nodes, what [`PoolSettings::check_rules`] refuses.
    pub fn check(&self) -> Result<(), (String, String)> {
        if self.name.trim().is_empty() {
            return Err(("name".to_owned(), "name the pool".to_owned()));
        }
        if let Some(text) = &self.nodes {
            expression(text).map_err(|error| ("nodes".to_owned(), format!("`{text}`: {error}")))?;
        } else if self.labels.is_empty() {
            let problem = "say which nodes: `nodes: gpu-.*` or `labels: {pool: gpu}`";
            return Err(("nodes".to_owned(), problem.to_owned()));
        }
        self.check_rules()
    }

    /// As [`PoolSettings::check`], for what holds for every pool.
    ///
    /// # Errors
    /// What only one pool can have, what [`PoolSettings::check_rules`] refuses.
    pub fn check_defaults(&self) -> Result<(), (String, String)> {
        let of_one_pool = [
            ("name", !self.name.is_empty(), "only a pool has it"),
            ("nodes", self.nodes.is_some(), "only a pool has them"),
            ("labels", !self.labels.is_empty(), "only a pool has them"),
            ("kind", self.kind.is_some(), "only a pool has it"),
            ("node_per_hour", self.node_per_hour.is_some(), "only a pool has it: see `prices` for all nodes"),
            ("policy", self.policy != Default::default(), "it stands beside `pool_defaults`, not in it"),
            ("rules", !self.rules.is_empty(), "they stand beside `pool_defaults`, not in it"),
        ];
        match of_one_pool.into_iter().find(|(_, given, _)| *given) {
            Some((setting, _, problem)) => Err((setting.to_owned(), problem.to_owned())),
            None => self.check_rules(),
        }
    }

    /// Rules that a pool or every pool may have.
    fn check_rules(&self) -> Result<(), (String, String)> {
        let too_few = "is 0: then nothing could ever be changed";
        for (setting, value) in
            [("concurrent_rollouts", self.concurrent_rollouts), ("max_layouts", self.max_layouts)]
        {
            if value == Some(0) {
                return Err((setting.to_owned(), too_few.to_owned()));
            }
        }
        if self.frozen_nodes.iter().any(|pattern| pattern.trim().is_empty()) {
            return Err(("frozen_nodes".to_owned(), "an empty name freezes no node".to_owned()));
        }
        for (i, freeze) in self.freeze.iter().enumerate() {
            freeze.check().map_err(|(setting, problem)| (format!("freeze[{i}].{setting}"), problem))?;
        }
        Ok(())
    }

    /// Whether it says that this node must not be touched.
    fn freezes(&self, node: &str) -> bool {
        self.frozen_nodes.iter().any(|pattern| wildcard(pattern, node))
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
    layers: &Layers<'_>,
    prices: &PriceSettings,
) -> Result<Vec<Pool>, String> {
    let mut matchers = Vec::new();
    for settings in layers.pools {
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
    let found_by_labels = PoolSettings::default();
    let mut pools: BTreeMap<String, (Pool, &PoolSettings)> = BTreeMap::new();
    for node in &inventory.nodes {
        let found = matchers.iter().find(|(settings, regex)| belongs(node, settings, regex.as_ref()));
        let (name, found_by, kind, settings) = match found {
            Some((settings, _)) => {
                (settings.name.clone(), "configured".to_owned(), settings.kind.unwrap_or_default(), *settings)
            }
            None => {
                let (name, found_by, kind) = by_labels(node);
                (name, found_by, kind, &found_by_labels)
            }
        };
        let (pool, _) = pools.entry(name.clone()).or_insert_with(|| {
            let id = PoolId { cluster: inventory.cluster.clone(), pool: name };
            (Pool::new(id, kind, found_by), settings)
        });
        pool.nodes.insert(node.name.clone());
        if let Some(price) = price(node, settings, prices) {
            pool.prices.insert(node.name.clone(), price);
        }
    }
    let resolved = pools.into_values().map(|(mut pool, own)| {
        pool.apply(layers.service.pool_defaults, "service");
        pool.apply(layers.of_cluster.pool_defaults, &format!("cluster {}", layers.cluster));
        let place = format!("pool {}", pool.id.pool);
        pool.apply(own, &place);
        pool
    });
    Ok(resolved.collect())
}

/// Configured names of frozen nodes that no node has, as sentences: a typing error there leaves a node unprotected.
/// The service's are left out, since they may be of any cluster.
pub fn unknown_frozen_nodes(layers: &Layers<'_>, pools: &[Pool]) -> Vec<String> {
    let unknown = |settings: &PoolSettings, nodes: Vec<&String>, place: String| -> Vec<String> {
        settings
            .frozen_nodes
            .iter()
            .filter(|pattern| !nodes.iter().any(|node| wildcard(pattern, node)))
            .map(|pattern| format!("`{pattern}` in `frozen_nodes` of {place} matches no node of it"))
            .collect()
    };
    let all = pools.iter().flat_map(|pool| &pool.nodes).collect();
    let mut found = unknown(layers.of_cluster.pool_defaults, all, format!("cluster {}", layers.cluster));
    for settings in layers.pools {
        let of_it = pools.iter().filter(|pool| pool.id.pool == settings.name);
        let nodes = of_it.flat_map(|pool| &pool.nodes).collect();
        found.extend(unknown(settings, nodes, format!("pool {}", settings.name)));
    }
    found
}

fn belongs(node: &Node, settings: &PoolSettings, regex: Option<&regex_lite::Regex>) -> bool {
    (regex.is_some() || !settings.labels.is_empty())
        && regex.is_none_or(|regex| regex.is_match(&node.name))
        && settings.labels.iter().all(|(key, value)| node.label(key) == Some(value))
}

/// Name, how it was found, and kind.
fn by_labels(node: &Node) -> (String, String, PoolKind) {
    for (key, kind) in POOL_LABELS {
        if let Some(value) = node.label(key) {
            return (value.to_owned(), format!("label {key}"), kind);
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
    (crate::ids::slug(&name), "instance type and product".to_owned(), PoolKind::default())
}
