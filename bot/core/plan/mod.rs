//! A packing against today: what changes, in which order, and what it frees.
//!
//! Takes the fits of one pool, packs them, and says what has to differ in the cluster. Where the text for that lives
//! is the question of `infra`.

pub mod ground;

pub mod layers;

pub mod pool;

pub mod node_group;

pub mod node_pool;

mod weigh;

mod placement;

mod place;

mod mig;

mod time_slicing;

mod methods;

mod rollout;

mod risk;

pub mod saving;

pub mod check;

pub mod sound;

pub mod unsure;

pub mod fingerprint;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::catalog::{Catalog, GpuModel};
use crate::fit::{self, FitReport, Reason};
use crate::ids::{PoolId, WorkloadId};
use crate::inventory::{Declared, Inventory};
use crate::policy::{Method, Policy};
use crate::units::Mib;
use crate::usage::Measured;
use node_group::NodeGroup;
use node_pool::PoolCards;
use pool::Pool;
use saving::Saving;
pub(crate) use weigh::Weighed;
use weigh::weigh;
pub use weigh::weigh_one;

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
    /// Nodes that are drained and cut together, in order.
    #[serde(default)]
    pub waves: Vec<Wave>,
    /// Steps in order.
    pub rollout: Vec<Step>,
    /// The way back, in order.
    pub rollback: Vec<Step>,
    /// Named rules that fired, worst first.
    pub risks: Vec<Risk>,
    /// What the workloads lose in throughput and latency, with numbers and the source, as sentences.
    #[serde(default)]
    pub effects: Vec<String>,
    /// How much the evidence carries.
    pub confidence: Confidence,
    /// Why that much.
    pub confidence_reason: String,
    /// Side effects and open ends that a reviewer should know, as sentences.
    pub notes: Vec<String>,
    /// Policy values that are not the default, as `name = value (who decided)`.
    pub overrides: Vec<String>,
    /// Hash of what a reviewer accepts or declines, without the noise of metrics.
    pub fingerprint: String,
}

impl Plan {
    /// A plan for the request's pool that changes nothing yet.
    fn of(request: &Request<'_>, method: Method, model: &GpuModel, model_name: &str) -> Self {
        Self {
            pool: request.pool.id.clone(),
            pool_kind: request.pool.kind,
            goal: request.pool.goal,
            model: model.id.clone(),
            model_name: model_name.to_owned(),
            method,
            changes: Vec::new(),
            items: Vec::new(),
            kept: Vec::new(),
            nodes: Vec::new(),
            saving: Saving::default(),
            proof: Proof { n_cards: 0, proven: false, sentences: Vec::new() },
            alternatives: Vec::new(),
            waves: Vec::new(),
            rollout: Vec::new(),
            rollback: Vec::new(),
            risks: Vec::new(),
            effects: Vec::new(),
            confidence: Confidence::Low,
            confidence_reason: String::new(),
            notes: Vec::new(),
            overrides: Vec::new(),
            fingerprint: String::new(),
        }
    }
}

impl Plan {
    /// What it frees by this goal: whole nodes under `bill`, whole cards under `capacity`. Of named nodes, each idle one
    /// that is needed then takes back one that goes; in a group that comes and goes idle nodes are not counted at all.
    pub(crate) fn gain(&self, goal: Goal) -> u32 {
        let held = |cards: &[CardUse]| {
            cards.iter().any(|card| match card {
                CardUse::Idle => false,
                CardUse::Slices { slices } => slices.iter().any(|slice| slice.workload.is_some()),
                CardUse::Whole { .. } | CardUse::Shared { .. } | CardUse::Other { .. } => true,
            })
        };
        let newly_used = match self.pool_kind {
            PoolKind::Static => self.nodes.iter().filter(|n| !held(&n.before) && held(&n.after)).count(),
            PoolKind::Elastic => 0,
        };
        match goal {
            Goal::Bill => {
                let fewer = self.saving.nodes_before.saturating_sub(self.saving.nodes_after);
                fewer.saturating_sub(u32::try_from(newly_used).unwrap_or(u32::MAX))
            }
            Goal::Capacity => self.saving.cards_freed,
        }
    }
}

/// Nodes that are drained and cut together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wave {
    /// Node names.
    pub nodes: Vec<String>,
    /// Workloads of which no pod runs until the slices exist.
    pub down: Vec<WorkloadId>,
    /// Workloads of which some pods find no card until then, and others run.
    pub fewer: Vec<WorkloadId>,
    /// Nodes of the same kind to borrow, so that nobody is down.
    pub borrowed: u32,
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

impl Goal {
    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bill => "bill",
            Self::Capacity => "capacity",
        }
    }
}

/// One thing that should differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
        /// Refuse pods that ask for more than one. MPS always does.
        fail_requests_greater_than_one: bool,
        /// How the card is handed to several pods; one key has one of them, never both.
        #[serde(default)]
        sharing: PluginSharing,
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
    /// A label of a whole node group, set where the group is declared, since its nodes come and go.
    LabelGroup {
        /// Label key, `nvidia.com/mig.config`.
        key: String,
        /// Value to set.
        value: String,
        /// The value that the group's nodes have today.
        previous: Option<String>,
        /// Others stay on whole cards: make a second group for the shared ones beside it.
        beside: bool,
        /// Which group it is, if the nodes' labels tell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<NodeGroup>,
    },
    /// A node pool beside one whose cloud cuts its cards by a field that never changes in place.
    AddNodePool {
        /// The pool that it is like in everything else.
        group: NodeGroup,
        /// Name of the new pool, as the cloud takes it: `gpu-a100-mig-2g`.
        name: String,
        /// What it does with each card.
        cards: PoolCards,
        /// Somebody stays on whole cards: the old pool shrinks. Else it goes.
        keeps_old: bool,
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
    /// Node selector entries in the pod template of a workload that goes on asking for the same resource: its pods run
    /// on the nodes of their group and on no others.
    PinWorkload {
        /// The workload.
        workload: WorkloadId,
        /// Node selector entries to set, by key.
        selector: BTreeMap<String, String>,
    },
}

/// How the device plugin hands one card to several pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PluginSharing {
    /// Pods take turns; nothing is isolated.
    #[default]
    TimeSlicing,
    /// Pods run at once through one MPS server: memory and threads limited to an equal share a pod.
    Mps,
}

impl PluginSharing {
    /// The method of a plan that shares like this.
    pub fn method(self) -> Method {
        match self {
            Self::TimeSlicing => Method::TimeSlicing,
            Self::Mps => Method::Mps,
        }
    }
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

impl Item {
    /// It holds a slice today that is too small for it, or smaller than policy allows.
    pub fn grows(&self) -> bool {
        self.held().is_some_and(|held| held.is_none_or(|held| !held.fits)) || self.is_short()
    }

    /// It holds a slice today that has less memory than it needs.
    pub fn is_short(&self) -> bool {
        let memory = |held: Option<&fit::Candidate>| held.and_then(|held| held.memory);
        let needed = self.fit.needs.as_ref().map(|needs| needs.memory);
        self.held().is_some_and(|held| memory(held).zip(needed).is_none_or(|(have, need)| have < need))
    }

    /// The candidate that is the slice it holds. `None`: it holds whole cards.
    fn held(&self) -> Option<Option<&fit::Candidate>> {
        let fit::Holds::Slice { profile } = &self.fit.holds else { return None };
        Some(self.fit.considered.iter().find(|candidate| candidate.name == *profile))
    }
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
    /// Its cards today, in the order of their UUIDs.
    pub before: Vec<CardUse>,
    /// Its cards then; empty for a freed node.
    pub after: Vec<CardUse>,
    /// Pods that restart because of it.
    pub restarts: Vec<String>,
    /// Price per hour, if known.
    pub per_hour: Option<crate::units::Money>,
}

/// Who holds a card, or the pieces of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "use", rename_all = "kebab-case")]
pub enum CardUse {
    /// Nobody.
    Idle,
    /// One pod has all of it.
    Whole {
        /// Who.
        workload: WorkloadId,
    },
    /// Cut by MIG.
    Slices {
        /// Each slice with its holder; `None` is room for rolling updates, or left over.
        slices: Vec<SliceUse>,
    },
    /// Shared through the device plugin.
    Shared {
        /// How.
        #[serde(default)]
        sharing: PluginSharing,
        /// Replicas the card is offered as.
        replicas: u32,
        /// Who may be on it, one entry a pod.
        workloads: Vec<WorkloadId>,
    },
    /// Used in a way that the plan does not look into: shared already, or by a pod without a known owner.
    Other {
        /// In words.
        text: String,
    },
}

/// One MIG slice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SliceUse {
    /// List spelling, `2g.10gb`.
    pub profile: String,
    /// First memory slice that it covers in the proof; the driver may choose another.
    pub start: u8,
    /// Who holds it.
    pub workload: Option<WorkloadId>,
}

impl std::fmt::Display for CardUse {
    /// `idle`, `whole: search/embed-svc`, `3 × 2g.10gb: search/a, search/b, free`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Idle => write!(f, "idle"),
            Self::Whole { workload } => write!(f, "whole: {workload}"),
            Self::Slices { slices } => {
                let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
                for slice in slices {
                    *counts.entry(&slice.profile).or_default() += 1;
                }
                let cut: Vec<String> = counts.iter().map(|(name, n)| format!("{n} × {name}")).collect();
                let who: Vec<String> = slices
                    .iter()
                    .map(|slice| {
                        slice.workload.as_ref().map_or_else(|| "free".to_owned(), ToString::to_string)
                    })
                    .collect();
                write!(f, "{}: {}", cut.join(" + "), who.join(", "))
            }
            Self::Shared { sharing, replicas, workloads } => {
                let what = match sharing {
                    PluginSharing::TimeSlicing => "time slices",
                    PluginSharing::Mps => "MPS shares",
                };
                let who: Vec<String> = workloads.iter().map(ToString::to_string).collect();
                write!(f, "{replicas} {what}: {}", who.join(", "))
            }
            Self::Other { text } => write!(f, "{text}"),
        }
    }
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

/// Everything a pool's plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The pool, its rules and its price.
    pub pool: &'a Pool,
    /// The cluster today.
    pub inventory: &'a Inventory,
    /// What was measured.
    pub measured: &'a Measured,
    /// What the repository says.
    pub declared: &'a Declared,
    /// GPU models.
    pub catalog: &'a Catalog,
    /// Policy of every workload of the cluster.
    pub policies: &'a BTreeMap<WorkloadId, Policy>,
}

impl Request<'_> {
    /// The declared group that the pool's nodes come from, if their labels tell.
    fn node_group(&self) -> Option<NodeGroup> {
        NodeGroup::of(self.inventory.nodes.iter().filter(|node| self.pool.nodes.contains(&node.name)))
    }
}

/// What comes of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// There is something to gain.
    Plan(Box<Plan>),
    /// Nothing to do, and why.
    Nothing(Nothing),
}

/// Why a pool stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nothing {
    /// The pool.
    pub pool: PoolId,
    /// Why, for the pool as a whole.
    pub reasons: Vec<Reason>,
    /// Every workload of the pool, with its fit.
    pub kept: Vec<Kept>,
}

/// Plans one pool: weighs every workload, then looks for the plan that frees the most by its goal.
pub fn plan(request: &Request<'_>) -> Outcome {
    let weighed = weigh(request);
    let nothing = |reasons: Vec<Reason>, weighed: &[Weighed<'_>]| {
        Outcome::Nothing(Nothing {
            pool: request.pool.id.clone(),
            reasons,
            kept: weighed.iter().map(Weighed::kept).collect(),
        })
    };
    if weighed.is_empty() {
        return nothing(vec![Reason::new("no-workloads", "no pod holds a GPU here")], &weighed);
    }
    match methods::choose_method(request, &weighed) {
        Ok(plan) => Outcome::Plan(Box::new(finish(request, plan))),
        Err(reasons) => nothing(reasons, &weighed),
    }
}

/// The ground under the cards of a plan.
fn ground_of(request: &Request<'_>, plan: &Plan) -> fit::Ground {
    ground::ground(request, Some(&plan.model_name), request.catalog.find(&plan.model))
}

/// No plan puts slices beside whole cards where the driver cannot work with that, whoever made it.
fn refuse_mixed_nodes(request: &Request<'_>, plan: Plan) -> Result<Plan, Vec<Reason>> {
    let mixed = plan.nodes.iter().find(|node| {
        let cut = node.after.iter().any(|card| matches!(card, CardUse::Slices { .. }));
        let whole = node.after.iter().any(|card| matches!(card, CardUse::Whole { .. } | CardUse::Idle));
        node.fate == NodeFate::Touched && cut && whole
    });
    match (mixed, ground_of(request, &plan).no_mixed_nodes) {
        (Some(node), Some(reason)) => Err(vec![Reason {
            text: format!("{} would hold both, and {}", node.name, reason.text),
            ..reason
        }]),
        _ => Ok(plan),
    }
}

/// Fills in what follows from the rest: risks, confidence, overrides, fingerprint.
fn finish(request: &Request<'_>, mut plan: Plan) -> Plan {
    if plan.method == Method::Mig {
        plan.notes.extend(ground_of(request, &plan).cautions.into_iter().map(
            |caution| match caution.advice {
                Some(advice) => format!("{}; {advice}", caution.text),
                None => caution.text,
            },
        ));
    }
    plan.risks = risk::risks(request, &plan);
    (plan.confidence, plan.confidence_reason) = risk::confidence(&plan);
    plan.overrides = overrides(request, &plan);
    plan.rollout = rollout::rollout(&plan, request);
    plan.rollback = rollout::rollback(&plan, request);
    plan.fingerprint = fingerprint::fingerprint(&plan);
    plan
}

/// Rules of the pool and settings of its moving workloads that are not the default, with their value and who decided:
/// `production = false (cluster dc1, rule 1)`.
fn overrides(request: &Request<'_>, plan: &Plan) -> Vec<String> {
    let policies = plan.items.iter().filter_map(|item| request.policies.get(&item.fit.workload));
    let of_workloads: BTreeSet<String> = policies.flat_map(Policy::overrides).collect();
    request.pool.overrides().chain(of_workloads).collect()
}
