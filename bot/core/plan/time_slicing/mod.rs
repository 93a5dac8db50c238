//! A plan by which pods share whole cards, in turns or through MPS: how many a card, on which nodes, what keeps others
//! off.
//!
//! The device plugin shares all cards of a node alike and isolates no faults, so that who may meet whom is part of the
//! proof. Whether MIG would do better is the question of `methods`.

mod groups;

mod pins;

mod refusals;

mod seats;

mod outcome;

mod proof;

mod new_pool;

pub(super) mod rollout;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::mig::{item, label_today, nothing, one_model};
use super::pool::Spread;
use super::{Alternative, Change, Goal, Kept, Plan, PluginSharing, PoolKind, Request, Weighed, node_pool};
use crate::catalog::GpuModel;
use crate::fit::Reason;
use crate::ids::slug;
use crate::inventory::Node;
use crate::units::counted;
use groups::{Divided, Group, Terms, divide};
use outcome::{outcomes, with_saving};
use pins::{Pins, Selectors};

/// Node label that chooses the device plugin's config.
pub(super) const PLUGIN_LABEL: &str = "nvidia.com/device-plugin.config";

/// Node label that GPU Feature Discovery changes when cards are shared: it then ends in `-SHARED`.
pub(super) const PRODUCT_LABEL: &str = "nvidia.com/gpu.product";

/// The best plan by time-slicing or MPS, or why there is none. The verdicts of `weighed` say who may share.
pub(super) fn plan(
    request: &Request<'_>,
    weighed: &[Weighed<'_>],
    sharing: PluginSharing,
) -> Result<Plan, Vec<Reason>> {
    let (model_name, model) = one_model(request, weighed)?;
    let model = &model;
    let sharers: Vec<&Weighed<'_>> = weighed.iter().filter(|w| shares(w, sharing)).collect();
    let refusals = refusals::of_the_pool(request, weighed, &sharers);
    if !refusals.is_empty() {
        return Err(refusals);
    }
    let terms = Terms::new(request, model, &model_name, &sharers, sharing).ok_or_else(|| {
        vec![Reason::new("framebuffer-unknown", format!("the framebuffer of {model_name} is not known"))]
    })?;
    let ground = refusals::ground(request, weighed, &sharers, &terms)?;
    let pins = Pins::new(request, &sharers);
    let scene =
        Scene { request, weighed, sharers: &sharers, model, terms: &terms, ground: &ground, pins: &pins };
    let divided = divide(request, &sharers, &terms, &ground.nodes, pins.cannot.as_ref())?;
    let two = divided.groups.len() > 1;
    match scene.plan(&model_name, divided) {
        // Two groups ask for drains that one group can do without.
        Err(reasons) if two && reasons.iter().all(|reason| reason.code == rollout::DOWNTIME) => {
            divide(request, &sharers, &terms, &ground.nodes, reasons.first())
                .and_then(|one| scene.plan(&model_name, one))
                .map_err(|_| reasons)
        }
        made => made,
    }
}

/// What is known before the pods are divided into groups.
struct Scene<'s, 'w, 'a> {
    request: &'s Request<'a>,
    weighed: &'w [Weighed<'a>],
    sharers: &'s [&'w Weighed<'a>],
    model: &'s GpuModel,
    terms: &'s Terms<'s>,
    ground: &'s refusals::Ground<'a>,
    pins: &'s Pins,
}

impl<'w, 'a> Scene<'_, 'w, 'a> {
    /// The plan of these groups, or what forbids it.
    fn plan(&self, model_name: &str, divided: Divided<'w, 'a>) -> Result<Plan, Vec<Reason>> {
        let Self { request, weighed, sharers, model, terms, ground, pins } = *self;
        let sharing = terms.sharing;
        let nodes = outcomes(request, weighed, sharers, &divided.groups, terms)?;
        let selectors = pins.selectors(request, &divided.groups, &nodes)?;
        let item_of = |w: &&Weighed<'_>| {
            let group = divided.group_of(w)?;
            let mut item = item(request, w, group.share(sharing), terms.usable, group.nodes.clone());
            if !selectors.contains_key(&w.workload.id) {
                // The pod keeps asking for `nvidia.com/gpu: 1`: there is nothing to edit in its manifest.
                item.manual = None;
            }
            Some(item)
        };
        let mut plan = Plan::of(request, sharing.method(), model, model_name);
        plan.changes = changes(request, &divided.groups, terms, &selectors);
        plan.items = sharers.iter().filter_map(item_of).collect();
        plan.kept = weighed.iter().filter(|w| !shares(w, sharing)).map(|w| kept(w, sharing)).collect();
        plan.nodes = outcome::with_restarts(nodes, &divided.groups, sharers, sharing, !selectors.is_empty());
        plan.proof = proof::proof(request, &divided, terms, &ground.kept_off, &selectors);
        plan.alternatives = divided.undivided.iter().cloned().chain([nothing(sharers)]).collect();
        plan.effects = proof::effects(request, &divided.groups, terms);
        plan.waves = rollout::waves(&plan);
        rollout::allow(request, &mut plan)?;
        with_saving(request, &mut plan, sharers, &divided.groups);
        if let Some(cloud) = node_pool::of(request) {
            new_pool::instead(request, &mut plan, sharers, &divided.groups, (cloud, pins))?;
        }
        if plan.gain(request.pool.goal) > 0 {
            Ok(plan)
        } else {
            Err(vec![nothing_gained(request, &plan, &divided.groups)])
        }
    }
}
/// Why a workload whose replicas must not all be on one card gets no share. Any replica of a shared card may go to any
/// pod: where a card has room for two of them, the scheduler and the device plugin may put both there, and no node
/// selector forbids it. That they are on two nodes (`Spread::Node`) is kept by two nodes with room for them, as with
/// whole cards, where the scheduler prefers to part the pods of one owner.
pub(super) fn together(request: &Request<'_>, weighed: &Weighed<'_>) -> Option<Reason> {
    let n_pods = weighed.planned();
    (n_pods > 1 && weighed.spread(request.pool) == Spread::Card).then(|| {
        Reason::new(
            "spread-over-cards",
            format!(
                "its {n_pods} replicas must not be on one card, and on shared cards nothing keeps them apart"
            ),
        )
        .with_advice("set `spread: node` or `spread: none` for it if that will do")
    })
}

/// A workload that stays, with the reason also where another way would suit it.
fn kept(weighed: &Weighed<'_>, sharing: PluginSharing) -> Kept {
    let mut kept = weighed.kept();
    if kept.reasons.is_empty() {
        kept.reasons.push(Reason::new(
            "other-method",
            format!(
                "would do with less by another way, but the pool frees more by {}, and a node shares its cards in one way",
                sharing.method().name()
            ),
        ));
    }
    kept
}

/// It takes part in a plan of this method.
fn shares(weighed: &Weighed<'_>, sharing: PluginSharing) -> bool {
    weighed.held_back.is_none() && weighed.chosen().is_some_and(|chosen| chosen.method == sharing.method())
}

/// Nodes of the pool by name: the order of the inventory says nothing.
fn pool_nodes<'a>(request: &Request<'a>) -> impl Iterator<Item = &'a Node> {
    let here = |node: &&Node| request.pool.nodes.contains(&node.name);
    let mut nodes: Vec<&Node> = request.inventory.nodes.iter().filter(here).collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    nodes.into_iter()
}

fn nothing_gained(request: &Request<'_>, plan: &Plan, groups: &[Group<'_, '_>]) -> Reason {
    let n_nodes: usize = groups.iter().map(|group| group.nodes.len()).sum();
    match request.pool.goal {
        Goal::Bill => {
            let reason = Reason::new(
                "nothing-gained",
                format!("{} would be needed, and no node could go", counted(n_nodes, "node")),
            );
            if plan.saving.cards_freed > 0 {
                reason.with_advice("set `goal: capacity` for the pool to free cards on nodes that stay")
            } else {
                reason
            }
        }
        Goal::Capacity => Reason::new(
            "nothing-gained",
            format!(
                "{} in use today and {} then: the device plugin shares all cards of a node, so that none of them is \
                 free for others",
                counted(plan.saving.cards_in_use_before as usize, "card"),
                plan.saving.cards_in_use_after
            ),
        ),
    }
}

fn changes(
    request: &Request<'_>,
    groups: &[Group<'_, '_>],
    terms: &Terms<'_>,
    selectors: &Selectors,
) -> Vec<Change> {
    let previous = |name: &str| label_today(request, request.inventory.node(name)?, PLUGIN_LABEL);
    let mut changes: Vec<Change> = groups
        .iter()
        .map(|group| Change::SetPluginConfig {
            key: group.key.clone(),
            resource: "nvidia.com/gpu".to_owned(),
            replicas: group.answer.replicas,
            fail_requests_greater_than_one: terms.policy.fail_requests_greater_than_one
                || terms.sharing == PluginSharing::Mps,
            sharing: terms.sharing,
        })
        .collect();
    changes.extend(groups.iter().map(|group| match request.pool.kind {
        PoolKind::Static => Change::LabelNodes {
            key: PLUGIN_LABEL.to_owned(),
            value: group.key.clone(),
            nodes: group.nodes.iter().map(|name| (name.clone(), previous(name))).collect(),
        },
        PoolKind::Elastic => Change::LabelGroup {
            key: PLUGIN_LABEL.to_owned(),
            value: group.key.clone(),
            previous: group.nodes.iter().find_map(|name| previous(name)),
            beside: false,
            group: request.node_group(),
        },
    }));
    changes.extend(selectors.iter().map(|(workload, selector)| Change::PinWorkload {
        workload: workload.clone(),
        selector: selector.clone(),
    }));
    changes
}

/// `a10g-x4`, `a10g-mps4`: one key a card model and number of replicas, never a default for the cluster.
fn key(model: &GpuModel, replicas: u32, sharing: PluginSharing) -> String {
    let name = model.products.first().map_or(model.id.as_str(), |product| product.name.as_str());
    let short = slug(name.trim_start_matches("NVIDIA ").trim_start_matches("Tesla "));
    match sharing {
        PluginSharing::TimeSlicing => format!("{short}-x{replicas}"),
        PluginSharing::Mps => format!("{short}-mps{replicas}"),
    }
}

/// The replicas of each key of a finished plan.
fn replicas_of(plan: &Plan) -> BTreeMap<&str, u32> {
    plan.changes
        .iter()
        .filter_map(|change| match change {
            Change::SetPluginConfig { key, replicas, .. } => Some((key.as_str(), *replicas)),
            Change::SetMigConfig { .. }
            | Change::LabelNodes { .. }
            | Change::LabelGroup { .. }
            | Change::AddNodePool { .. }
            | Change::SetWorkloadResource { .. }
            | Change::PinWorkload { .. } => None,
        })
        .collect()
}

/// How the way is called where it is one of several: `time-slicing ×4`, `time-slicing ×4 and ×8`, `MPS ×4`.
pub(super) fn called(plan: &Plan) -> String {
    let factors: BTreeSet<u32> = replicas_of(plan).into_values().collect();
    let factors: Vec<String> = factors.into_iter().map(|replicas| format!("×{replicas}")).collect();
    format!("{} {}", plan.method.name(), factors.join(" and "))
}

/// Two groups as the way not taken.
fn two_groups_left(n_cards: u32, n_nodes: usize, why: String) -> Alternative {
    Alternative {
        name: "two groups by memory".to_owned(),
        n_cards: Some(n_cards),
        reason: format!("would do with {}, but {why}", counted(n_nodes, "node")),
    }
}
