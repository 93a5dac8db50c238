//! A packing against today: what changes, in which order, and what it frees.
//!
//! Takes the fits of one pool, packs them, and says what has to differ in the cluster. Where the text for that lives
//! is the question of `infra`.

pub mod check;
pub mod fingerprint;
pub mod saving;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fit::{FitReport, Reason};
use crate::ids::{PoolId, WorkloadId};
use crate::policy::Method;
use crate::units::Mib;
use saving::Saving;

/// What should differ in one pool, with everything a reviewer needs to judge it.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The pool.
    pub pool: PoolId,
    /// Named nodes with a layout each, or one layout for the whole group.
    pub pool_kind: PoolKind,
    /// What counts as success.
    pub goal: Goal,
    /// Catalog id of the cards, `a100-40gb`.
    pub model: String,
    /// Product name of the cards, as DCGM prints it.
    pub model_name: String,
    /// How cards are shared.
    pub method: Method,
    /// What should differ, in the order in which it is applied.
    pub changes: Vec<Change>,
    /// Workloads that move to a share of a card, by id.
    pub items: Vec<Item>,
    /// Every workload of the pool that stays as it is, with the reason.
    pub kept: Vec<Kept>,
    /// Every node of the pool: what happens to it.
    pub nodes: Vec<NodeOutcome>,
    /// Cards, nodes and money.
    pub saving: Saving,
    /// Why fewer cards are impossible, in sentences.
    pub proof: Proof,
    /// Other ways that were computed for the same pool, with their numbers and why they lost.
    pub alternatives: Vec<Alternative>,
    /// Steps in order.
    pub rollout: Vec<Step>,
    /// The way back, in order.
    pub rollback: Vec<Step>,
    /// Named rules that fired, worst first.
    pub risks: Vec<Risk>,
    /// How much the evidence carries.
    pub confidence: Confidence,
    /// Side effects and open ends that a reviewer should know, as sentences.
    pub notes: Vec<String>,
    /// Policy values that are not the default, as `name = value (who decided)`.
    pub overrides: Vec<String>,
    /// Hash of what a reviewer accepts or declines, without the noise of metrics.
    pub fingerprint: String,
}

/// Named nodes, or a group that an autoscaler makes and removes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PoolKind {
    /// Named nodes: a layout each.
    #[default]
    Static,
    /// Nodes come and go: one layout for the whole group.
    Elastic,
}

/// What counts as success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Goal {
    /// Free whole nodes.
    #[default]
    Bill,
    /// Free whole cards.
    Capacity,
}

/// One thing that should differ.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "kebab-case")]
pub enum Change {
    /// A named layout in the MIG manager's config map.
    SetMigConfig {
        /// Name of the config inside the map; holds a content hash.
        name: String,
        /// One entry a group of equal cards.
        entries: Vec<MigEntry>,
        /// Names in use on any node label, which the map must hold too.
        names_in_use: Vec<String>,
    },
    /// A key in the device plugin's config map.
    SetPluginConfig {
        /// Key, `a10g-x4`.
        key: String,
        /// `nvidia.com/gpu`.
        resource: String,
        /// Replicas a card, at least 2.
        replicas: u32,
        /// Refuse pods that ask for more than one.
        fail_requests_greater_than_one: bool,
    },
    /// The same value for one label on some nodes.
    LabelNodes {
        /// Label key, `nvidia.com/mig.config`.
        key: String,
        /// Value to set.
        value: String,
        /// Node and the value it has today.
        nodes: BTreeMap<String, Option<String>>,
    },
    /// Another resource in the pod template of a workload.
    SetWorkloadResource {
        /// The workload.
        workload: WorkloadId,
        /// Resource it asks for today, `nvidia.com/gpu`.
        from: String,
        /// Resource it asks for then, `nvidia.com/mig-2g.10gb`.
        to: String,
        /// How many, today and then.
        count: u32,
        /// Node selector entries to set so that the resource means this model, by key.
        pin: BTreeMap<String, String>,
    },
}

/// One entry of a mig-parted config.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MigEntry {
    /// Card indices on the node; empty means all.
    pub cards: Vec<u32>,
    /// Instances by list spelling. Empty: MIG off.
    pub instances: BTreeMap<String, u32>,
}

/// A workload that moves to a share of a card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Its fit, with needs and candidates.
    pub fit: FitReport,
    /// Replicas planned for.
    pub replicas: u32,
    /// Extra pods while it rolls.
    pub max_surge: u32,
    /// `2g.10gb`, or `1 of 4 time slices`.
    pub share: String,
    /// Usable memory of that share; with time-slicing the whole card's usable memory.
    pub share_memory: Mib,
    /// Nodes its replicas run on today.
    pub nodes_before: Vec<String>,
    /// Nodes its replicas run on then.
    pub nodes_after: Vec<String>,
    /// `path:line` in the repository.
    pub place: Option<String>,
    /// Why it cannot be edited by the bot, if so.
    pub manual: Option<String>,
}

/// A workload that stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Its fit.
    pub fit: FitReport,
    /// Why it stays; from the fit, or from the plan when the fit would have allowed more.
    pub reasons: Vec<Reason>,
    /// Whole cards it holds.
    pub n_cards: u32,
}

/// What happens to one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeOutcome {
    /// Node name.
    pub name: String,
    /// Freed, touched or untouched.
    pub fate: NodeFate,
    /// One text a card: `whole: search/embed-svc`, `idle`.
    pub before: Vec<String>,
    /// One text a card: `2g.10gb ×3: search/embed-svc, …`.
    pub after: Vec<String>,
    /// Pods that restart because of it.
    pub restarts: Vec<String>,
    /// Price per hour, if known.
    pub per_hour: Option<crate::units::Money>,
}

/// What a plan does to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeFate {
    /// Drained and no longer needed.
    Freed,
    /// Drained, changed, used again.
    Touched,
    /// Nothing happens to its layout; pods may come or leave.
    Untouched,
}

/// Why fewer cards are impossible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// Cards that hold the workloads then.
    pub n_cards: u32,
    /// The bound is reached.
    pub proven: bool,
    /// One sentence a row, the binding one first.
    pub sentences: Vec<String>,
}

/// Another way for the same pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alternative {
    /// `time-slicing ×3`, `MIG`, `nothing`.
    pub name: String,
    /// Cards it would need. `None`: not possible.
    pub n_cards: Option<u32>,
    /// Why it lost.
    pub reason: String,
}

/// One step of a rollout or rollback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What happens, as a sentence.
    pub what: String,
    /// Commands for people or pipelines; may be empty.
    pub commands: Vec<String>,
    /// What must be true before the next step.
    pub wait_for: Option<String>,
    /// How long it takes or may take, and what is down meanwhile.
    pub cost: Option<String>,
    /// What to do when it fails.
    pub on_failure: Option<String>,
}

/// A named risk rule that fired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Risk {
    /// Stable name, `no-memory-isolation`.
    pub rule: String,
    /// How bad.
    pub level: RiskLevel,
    /// The sentence.
    pub text: String,
}

/// How bad a risk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RiskLevel {
    /// Could take a service down.
    High,
    /// A planned interruption or a weaker guarantee.
    Medium,
    /// Good to know.
    Low,
}

/// How much the evidence carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Full window, real compute metric, steady.
    High,
    /// Something weaker: an upper bound, growth, thin coverage.
    Medium,
    /// Opened as a draft.
    Low,
}
