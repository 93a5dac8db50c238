//! Whether everybody has a place: apart, with room, with something free for rolling updates, in an order that is allowed.

use std::collections::{BTreeMap, BTreeSet};

use super::super::pool::{Spread, Waves};
use super::super::{CardUse, Item, NodeFate, NodeOutcome, Plan, Request};
use super::sharing;
use crate::ids::WorkloadId;
use crate::inventory::{Resources, Workload};
use crate::policy::Method;

/// Rules about nodes and pods, for pools of named nodes, however their cards are shared.
pub(super) fn seats(request: &Request<'_>, plan: &Plan, broken: &mut Vec<String>) {
    for node in &plan.nodes {
        fate(node, broken);
    }
    let before = Stand::new(plan, |node| &node.before);
    let after = Stand::new(plan, |node| &node.after);
    spread(request, plan, &before, &after, broken);
    room(request, plan, &before, &after, broken);
    if plan.method == Method::Mig {
        rolling_updates(request, plan, broken);
    }
    spare(request, plan, broken);
    waves(request, plan, broken);
}

/// Where the pods of every workload stand.
struct Stand<'p> {
    /// Pods of each workload by node and card.
    pods: BTreeMap<&'p WorkloadId, BTreeMap<(&'p str, usize), u32>>,
    /// Pods on each node by workload.
    on: BTreeMap<&'p str, BTreeMap<&'p WorkloadId, u32>>,
}

impl<'p> Stand<'p> {
    fn new(plan: &'p Plan, cards: impl Fn(&'p NodeOutcome) -> &'p Vec<CardUse>) -> Self {
        let mut pods: BTreeMap<&WorkloadId, BTreeMap<(&str, usize), u32>> = BTreeMap::new();
        let mut on: BTreeMap<&str, BTreeMap<&WorkloadId, u32>> = BTreeMap::new();
        for node in &plan.nodes {
            for (c, card) in cards(node).iter().enumerate() {
                for id in holders(card) {
                    *pods.entry(id).or_default().entry((node.name.as_str(), c)).or_default() += 1;
                    *on.entry(&node.name).or_default().entry(id).or_default() += 1;
                }
            }
        }
        Self { pods, on }
    }

    fn nodes(&self, id: &WorkloadId) -> BTreeSet<&'p str> {
        self.pods.get(id).into_iter().flatten().map(|((node, _), _)| *node).collect()
    }
}

pub(super) fn holders(card: &CardUse) -> Vec<&WorkloadId> {
    match card {
        CardUse::Whole { workload } => vec![workload],
        CardUse::Slices { slices } => slices.iter().filter_map(|slice| slice.workload.as_ref()).collect(),
        CardUse::Shared { workloads, .. } => workloads.iter().collect(),
        CardUse::Idle | CardUse::Other { .. } => Vec::new(),
    }
}

/// A freed node has no cards then, and one that is left alone keeps how its cards are cut.
fn fate(node: &NodeOutcome, broken: &mut Vec<String>) {
    match node.fate {
        NodeFate::Freed if !node.after.is_empty() => {
            broken.push(format!("{} is freed and would still hold something", node.name));
        }
        NodeFate::Untouched if shapes(&node.before) != shapes(&node.after) => {
            broken.push(format!("{} is left alone and would be cut anew", node.name));
        }
        NodeFate::Touched if node.before.len() != node.after.len() => {
            broken.push(format!(
                "{} has {} cards and would have {}",
                node.name,
                node.before.len(),
                node.after.len()
            ));
        }
        NodeFate::Freed | NodeFate::Untouched | NodeFate::Touched => {}
    }
}

/// The slices of each card, or that it is shared; `None`: neither.
fn shapes(cards: &[CardUse]) -> Vec<Option<Vec<&str>>> {
    cards
        .iter()
        .map(|card| match card {
            CardUse::Slices { slices } => {
                let mut names: Vec<&str> = slices.iter().map(|slice| slice.profile.as_str()).collect();
                names.sort_unstable();
                Some(names)
            }
            CardUse::Shared { .. } => Some(vec!["shared"]),
            CardUse::Idle | CardUse::Whole { .. } | CardUse::Other { .. } => None,
        })
        .collect()
}

/// Replicas that are apart today are apart then.
fn spread(
    request: &Request<'_>,
    plan: &Plan,
    before: &Stand<'_>,
    after: &Stand<'_>,
    broken: &mut Vec<String>,
) {
    for (id, spots) in &after.pods {
        let n: u32 = spots.values().sum();
        let moved = plan.items.iter().any(|item| item.fit.workload == **id);
        let stood = before.nodes(id).len();
        let asked = request.policies.get(*id).and_then(|policy| policy.spread).unwrap_or(request.pool.spread);
        let together = match asked {
            Spread::None => false,
            // Which replica of a shared card a pod gets is chosen by nobody here: seats on two cards prove nothing.
            Spread::Card => moved && (spots.len() < 2 || plan.method != Method::Mig),
            Spread::Node => stood > 1 && after.nodes(id).len() < 2,
        };
        if n > 1 && together {
            broken.push(format!(
                "all {n} replicas of {id} would be on one {}",
                if asked == Spread::Card { "card" } else { "node" }
            ));
        }
    }
}

/// CPU, memory, storage and pod slots of everything that stays or comes are there.
fn room(request: &Request<'_>, plan: &Plan, before: &Stand<'_>, after: &Stand<'_>, broken: &mut Vec<String>) {
    let nobody = BTreeMap::new();
    let mut workloads: BTreeMap<&WorkloadId, &Workload> = BTreeMap::new();
    let mut gone: BTreeMap<&str, Resources> = BTreeMap::new();
    for workload in &request.inventory.workloads {
        workloads.insert(&workload.id, workload);
        for pod in &workload.pods {
            if before.on.get(pod.node.as_str()).is_some_and(|here| here.contains_key(&workload.id)) {
                let sum = gone.entry(&pod.node).or_default();
                *sum = sum.plus(pod.requests.unwrap_or_default().into());
            }
        }
    }
    for outcome in plan.nodes.iter().filter(|node| node.fate != NodeFate::Freed) {
        let was = before.on.get(outcome.name.as_str()).unwrap_or(&nobody);
        let will_be = after.on.get(outcome.name.as_str()).unwrap_or(&nobody);
        let comes = will_be.iter().any(|(id, n)| *n > was.get(id).copied().unwrap_or(0));
        if !comes {
            continue;
        }
        let need = |pods: &BTreeMap<&WorkloadId, u32>| {
            pods.iter().try_fold(Resources::default(), |sum, (id, n)| {
                Some(sum.plus(largest_pod(workloads.get(id)?)?.times(*n)))
            })
        };
        let Some(node) = request.inventory.node(&outcome.name) else {
            broken.push(format!("{} is not a node of the cluster", outcome.name));
            continue;
        };
        let gone = gone.get(outcome.name.as_str()).copied().unwrap_or_default();
        match (node.allocatable, node.requested, need(will_be)) {
            (Some(offered), Some(asked), Some(need)) => {
                if !need.fits_in(offered.minus(asked.minus(gone))) {
                    broken.push(format!(
                        "{} lacks CPU, memory or pod slots for the pods that come",
                        outcome.name
                    ));
                }
            }
            _ => {
                broken.push(format!("pods would come to {}, and what room it has is not known", outcome.name))
            }
        }
    }
}

fn largest_pod(workload: &Workload) -> Option<Resources> {
    let pods = workload.pods.iter();
    pods.map(|pod| pod.requests.map(Resources::from)).reduce(|a, b| Some(a?.larger(b?))).flatten()
}

/// A free slice of its own kind for every workload that may roll at the same time.
fn rolling_updates(request: &Request<'_>, plan: &Plan, broken: &mut Vec<String>) {
    let mut surges: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for Item { share, max_surge, .. } in &plan.items {
        surges.entry(share).or_default().push(*max_surge);
    }
    for (share, mut surges) in surges {
        let free = plan
            .nodes
            .iter()
            .flat_map(|node| &node.after)
            .map(|card| match card {
                CardUse::Slices { slices } => {
                    slices.iter().filter(|slice| slice.profile == share && slice.workload.is_none()).count()
                }
                CardUse::Idle | CardUse::Whole { .. } | CardUse::Shared { .. } | CardUse::Other { .. } => 0,
            })
            .sum::<usize>();
        surges.sort_unstable_by(|a, b| b.cmp(a));
        let needed: u32 = surges.iter().take(request.pool.concurrent_rollouts as usize).sum();
        if free < needed as usize {
            broken
                .push(format!("rolling updates need {needed} free slices of `{share}`, and {free} are free"));
        }
    }
}

fn spare(request: &Request<'_>, plan: &Plan, broken: &mut Vec<String>) {
    let idle = plan.nodes.iter().flat_map(|node| &node.after).filter(|card| **card == CardUse::Idle).count();
    if idle < request.pool.spare_cards as usize {
        broken.push(format!("{} cards must stay idle, and {idle} would", request.pool.spare_cards));
    }
}

/// Every node that must be empty for its change is drained in one wave, and nobody is down who must not be.
fn waves(request: &Request<'_>, plan: &Plan, broken: &mut Vec<String>) {
    let mut drained: Vec<&str> = plan.waves.iter().flat_map(|wave| &wave.nodes).map(String::as_str).collect();
    drained.sort_unstable();
    let touched: Vec<&str> = plan
        .nodes
        .iter()
        .filter(|node| node.fate == NodeFate::Touched && sharing::must_be_empty(plan, node))
        .map(|node| node.name.as_str())
        .collect();
    if drained != touched {
        broken.push("the waves do not drain each node once that must be empty for its change".to_owned());
    }
    let first: BTreeSet<&str> =
        plan.waves.iter().take(1).flat_map(|wave| &wave.nodes).map(String::as_str).collect();
    let elsewhere = plan.nodes.iter().filter(|node| !first.contains(node.name.as_str()));
    let refuge = elsewhere.flat_map(|node| &node.before).any(|card| match card {
        CardUse::Idle => true,
        CardUse::Slices { slices } => slices.iter().any(|slice| slice.workload.is_none()),
        CardUse::Whole { .. } | CardUse::Shared { .. } | CardUse::Other { .. } => false,
    });
    for workload in request.inventory.workloads.iter().filter(|_| !refuge) {
        let drained =
            !workload.pods.is_empty() && workload.pods.iter().all(|pod| first.contains(pod.node.as_str()));
        if drained && !plan.waves.iter().take(1).any(|wave| wave.down.contains(&workload.id)) {
            broken.push(format!(
                "{} has no pod while the first nodes are drained, and that is not said",
                workload.id
            ));
        }
    }
    for id in plan.waves.iter().filter(|wave| wave.borrowed == 0).flat_map(|wave| &wave.down) {
        let n_pods = request.inventory.workload(id).map_or(0, |workload| workload.pods.len());
        let allowed = match request.pool.waves {
            Waves::AllowDowntime => true,
            Waves::SingleReplica => n_pods < 2,
            Waves::NoDowntime | Waves::Borrow => false,
        };
        if !allowed {
            broken.push(format!("{id} would be down, which the pool's `waves` does not allow"));
        }
    }
}
