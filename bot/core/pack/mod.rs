//! Fits the workloads of one pool on the fewest cards, with the proof.
//!
//! `pack` plans named nodes; `cards` says how few cards a demand needs, `limited` how few with one to three layouts
//! (elastic groups), `time_slicing` how many pods may take turns, `mps` how many may run at once. `check` believes none of them.
//!
//! Inside `pack`: `fleet` turns nodes into numbers, `kept` settles how many stay, `search` which are touched (`prices`
//! and `master` bound, `improve` and `exhaust` look), `assign` and `spread` seat the replicas.
//!
//! Works on counts: which slice a workload needs is decided before (`fit`), what to change in which file after (`plan`).
//! Integers only, no clock: effort is counted in steps, so that the same input gives the same plan on every machine.

pub mod geometry;

mod rows;

pub mod certificate;

pub mod cards;

pub mod limited;

pub mod time_slicing;

pub mod mps;

pub mod check;

mod fleet;

mod kept;

mod prices;

mod master;

mod totals;

mod search;

mod improve;

mod exhaust;

mod assign;

mod spread;

mod apart;

#[cfg(test)]
mod instance;

#[cfg(test)]
mod cases;

#[cfg(test)]
mod proofs;

#[cfg(test)]
mod laws;

#[cfg(test)]
mod tests;

use thiserror::Error;

use certificate::Certificate;
use geometry::Geometry;

/// What is to be packed: one pool of cards of one model, its workloads and the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How the pool's cards can be cut.
    pub geometry: Geometry,
    /// The workloads; `CardState` refers to them by index.
    pub items: Vec<Item>,
    /// The nodes as they are today. Among equals the first by id is kept and later ones are freed.
    pub nodes: Vec<NodeState>,
    /// What the pool's owner wants.
    pub rules: Rules,
}

/// One workload: all its replicas need the same kind of slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Stable name; among equals the first key is placed first.
    pub key: String,
    /// Index of the smallest slice type that fits; `geometry.types.len()` is a whole card.
    pub slot: usize,
    /// Replicas to plan for. Fewer than run today counts as those that run today.
    pub planned: u32,
    /// Most extra pods during a rolling update.
    pub max_surge: u32,
}

/// One node as it is today.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeState {
    /// Stable name.
    pub id: String,
    /// One entry a card.
    pub cards: Vec<CardState>,
    /// Price of keeping the node, in any unit that all nodes share: 0 to 2^50.
    pub cost: i64,
    /// A frozen node keeps its layout and its replicas.
    pub frozen: bool,
}

/// One card as it is today; an item is an index into `Problem::items`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CardState {
    /// MIG off.
    Whole {
        /// Who holds the card.
        item: Option<usize>,
    },
    /// MIG on: slice type and holder of each slice.
    Cut(Vec<(usize, Option<usize>)>),
}

/// What the owner of a pool wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// What to make small first.
    pub goal: Goal,
    /// How far the replicas of one workload must be apart.
    pub spread: Spread,
    /// Whole cards that must stay idle.
    pub spare_cards: u32,
    /// How many workloads may roll at the same time; each then needs its `max_surge` slots.
    pub concurrent_rollouts: u32,
    /// Most distinct MIG layouts on the touched nodes; `None` leaves it to the planner, which uses few anyway.
    /// With a limit, the plan is proven only when the limit costs nothing.
    pub max_layouts: Option<u32>,
    /// Search budget in steps. 1,000,000 is one to three seconds when all are used, which few pools need; doubling
    /// it can only turn `proven: false` into `true` or find a better plan.
    pub effort: u64,
}

/// What a plan makes small first; ties are broken by cost, nodes touched and restarts, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Goal {
    /// The cost of the nodes that stay: only a removed node cuts a bill.
    Bill,
    /// The cards in use: for hardware that is paid anyway.
    Capacity,
}

/// A workload with two or more planned replicas must not have all of them on one card or node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spread {
    /// No such rule.
    None,
    /// Over at least two cards.
    Gpu,
    /// Over at least two nodes.
    Node,
}

/// Where everything goes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Packing {
    /// In the order of `Problem::nodes`.
    pub nodes: Vec<NodePlan>,
    /// Why no plan can use fewer cards.
    pub certificate: Certificate,
    /// Bill: cost kept, nodes touched, restarts. Capacity: cards in use, then the same three. Smaller is better.
    pub objective: Vec<i64>,
    /// What no plan can beat, entry by entry under the entries before; equal to `objective` when `proven`.
    pub lower_bounds: Vec<i64>,
    /// Whether the search has shown that no plan is better.
    pub proven: bool,
    /// Slots needed per slice type and, last, whole cards: planned replicas and room for rolling updates.
    pub demand_with_surge: Vec<u32>,
}

/// What becomes of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePlan {
    /// As in the problem.
    pub id: String,
    /// Freed, touched or left alone.
    pub fate: Fate,
    /// The cards after the change; empty for a freed node.
    pub cards: Vec<CardPlan>,
}

/// What becomes of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// Drained and no longer needed.
    Freed,
    /// Drained, its cards laid out anew.
    Touched,
    /// Its cards stay as they are; single replicas may leave or arrive.
    Untouched,
}

/// One card after the change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CardPlan {
    /// MIG off.
    Whole {
        /// Who holds the card.
        item: Option<usize>,
    },
    /// MIG on, cut exactly so; slices without an item are room for rolling updates or left over.
    Cut(Vec<PlacedSlice>),
}

/// One slice of a card.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlacedSlice {
    /// Index into `Geometry::types`.
    pub slice_type: usize,
    /// First memory slice that it covers.
    pub start: u8,
    /// Who holds it.
    pub item: Option<usize>,
}

/// Why there is no packing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Infeasible {
    /// The pool is too small for what was asked.
    #[error("the workloads need {needed} cards that may be changed; the pool has {available}")]
    TooFewCards {
        /// Cards of nodes that are not frozen, needed at least.
        needed: u32,
        /// Cards of nodes that are not frozen.
        available: u32,
    },
    /// Replicas cannot be spread: too few cards or nodes.
    #[error("no plan found that spreads the replicas of `{key}` over two places")]
    Spread {
        /// The first workload that could not be spread.
        key: String,
    },
    /// The cards would do, but no fates of nodes were found that use them.
    #[error("no plan found within the effort allowed")]
    NoPlan,
    /// The problem contradicts itself.
    #[error("the packing problem is malformed: {0}")]
    Malformed(String),
}

/// Decides what becomes of every node, and where every replica goes.
///
/// The objective is compared from left to right; `proven` says whether no plan is better. The order of workloads and
/// of nodes in the problem changes nothing: of equals the first by key or id is taken.
pub fn pack(problem: &Problem) -> Result<Packing, Infeasible> {
    if problem.nodes.is_sorted_by(|a, b| a.id <= b.id) {
        return pack_sorted(problem);
    }
    let mut order: Vec<usize> = (0..problem.nodes.len()).collect();
    order.sort_by(|a, b| problem.nodes[*a].id.cmp(&problem.nodes[*b].id));
    let nodes = order.iter().map(|n| problem.nodes[*n].clone()).collect();
    let mut packing = pack_sorted(&Problem { nodes, ..problem.clone() })?;
    let mut nodes: Vec<(usize, NodePlan)> = order.into_iter().zip(packing.nodes).collect();
    nodes.sort_by_key(|(place, _)| *place);
    packing.nodes = nodes.into_iter().map(|(_, node)| node).collect();
    Ok(packing)
}

/// Takes nodes in the order of their ids.
fn pack_sorted(problem: &Problem) -> Result<Packing, Infeasible> {
    let demand =
        demand_with_surge(problem.geometry.whole(), &problem.items, problem.rules.concurrent_rollouts);
    let mut fleet = fleet::Fleet::new(problem)?;
    let certificate = fleet.cutter.fewest_along_chain(&demand).certificate;
    let mut budget = search::Budget { left: problem.rules.effort };
    let mut bounds: Option<Vec<i64>> = None;
    let mut extra = 0;
    let mut unspread = None;
    loop {
        let kept = match kept::kept(&fleet, &problem.rules, extra) {
            Ok(kept) => kept,
            Err(too_few) => return Err(unspread.unwrap_or(too_few)),
        };
        let choice = search::choose(&fleet, &kept, &mut budget).ok_or(Infeasible::NoPlan)?;
        let lower_bounds = bounds.get_or_insert_with(|| {
            let mut bounds = kept.objective.clone();
            bounds.extend([choice.touched_bound, choice.restarts_bound]);
            bounds
        });
        let Ok((mut seats, apart)) = assign::seat(problem, &fleet, &choice) else {
            // The cuts need more cards than the bound says: an unknown table, or a limit on layouts.
            fleet.slack += 1;
            continue;
        };
        let lower_bounds = lower_bounds.clone();
        let mut touched = choice.touched;
        if apart.is_err() || seats.restarts > choice.restarts_bound {
            let worst = apart.is_ok().then_some((touched, seats.restarts));
            if let Some(better) = apart::apart(problem, &fleet, &kept, worst, &choice, &mut budget) {
                (touched, seats) = better;
            } else if let Err(item) = apart {
                // More cards make room to be apart.
                unspread = Some(Infeasible::Spread { key: problem.items[item].key.clone() });
                extra += 1 + extra / 4;
                budget.left = budget.left.max(problem.rules.effort / 8);
                continue;
            }
        }
        let mut objective = kept.objective;
        if problem.rules.goal == Goal::Capacity {
            // Cards that are kept only to be apart may be idle in the end.
            objective[0] = seats.busy_cards(&fleet);
        }
        objective.extend([touched, seats.restarts]);
        let proven = lower_bounds == objective;
        let nodes = seats.nodes;
        return Ok(Packing {
            nodes,
            certificate,
            objective,
            lower_bounds,
            proven,
            demand_with_surge: demand,
        });
    }
}

/// Slots needed per slice type and, last, whole cards, when any `concurrent_rollouts` workloads may roll at once.
///
/// Exact by Hall's theorem: types form a chain, so "enough slots of this type or larger" for each type is all it takes.
pub fn demand_with_surge(n_types: usize, items: &[Item], concurrent_rollouts: u32) -> Vec<u32> {
    let at_least = cumulative_demand(n_types, items, concurrent_rollouts);
    (0..=n_types).map(|p| at_least[p] - at_least.get(p + 1).copied().unwrap_or(0)).collect()
}

/// Slots of each type or larger that replicas and surge need; non-increasing.
fn cumulative_demand(n_types: usize, items: &[Item], concurrent_rollouts: u32) -> Vec<u32> {
    let reserve = surge_reserve(n_types, items, concurrent_rollouts);
    (0..=n_types)
        .map(|p| {
            let replicas =
                items.iter().filter(|i| i.slot >= p).fold(0u32, |sum, i| sum.saturating_add(i.planned));
            replicas.saturating_add(reserve[p])
        })
        .collect()
}

/// Idle slots of each type or larger that rolling updates need.
fn surge_reserve(n_types: usize, items: &[Item], concurrent_rollouts: u32) -> Vec<u32> {
    let mut surges: Vec<(u32, usize)> = items.iter().map(|i| (i.max_surge, i.slot)).collect();
    surges.sort_unstable_by(|a, b| b.cmp(a));
    let at_once = usize::try_from(concurrent_rollouts).unwrap_or(usize::MAX);
    (0..=n_types)
        .map(|p| {
            surges
                .iter()
                .filter(|(_, slot)| *slot >= p)
                .take(at_once)
                .fold(0u32, |sum, (surge, _)| sum.saturating_add(*surge))
        })
        .collect()
}
