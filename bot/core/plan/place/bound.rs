//! What no plan can beat, computed from numbers alone.
//!
//! Every limit of a card is a weighted sum (see `pack::certificate`). Whether a workload keeps its whole cards or moves
//! into slices, it takes at least the smaller of the two weights; what everybody takes together bounds the cards, and
//! so the nodes, that have to stay.

use super::board::Board;
use super::{Card, count};

/// Lower bounds on what any plan keeps and drains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::plan) struct Bound {
    /// Cards that stay, those of frozen nodes included.
    pub(in crate::plan) n_cards: u32,
    /// Cost of the nodes that stay.
    pub(in crate::plan) cost: i64,
    /// Nodes that stay.
    pub(in crate::plan) n_nodes: u32,
    /// Cards that pods hold, that autoscalers may add, or that are cut, frozen nodes included.
    pub(in crate::plan) n_busy: u32,
}

/// One workload in one limit of a card, in units of the limit.
struct Load {
    /// What its pods take where they are.
    stays: u64,
    /// What all its replicas take in slices. `None`: it cannot move.
    moves: Option<u64>,
    /// The slice type that it moves to, and the weight of one slot of it.
    target: (usize, u64),
    surge: u64,
}

impl Bound {
    pub(in crate::plan) fn new(board: &Board<'_>) -> Self {
        let frozen: Vec<&super::Site> = board.sites.iter().filter(|site| site.frozen).collect();
        let frozen_cards = count(frozen.iter().map(|site| site.cards.len()).sum());
        let least = cards(board, Count::Kept);
        let movable: Vec<(u32, i64)> = board
            .sites
            .iter()
            .filter(|site| !site.frozen)
            .map(|site| (count(site.cards.len()), site.cost))
            .collect();
        let frozen_cost: i64 = frozen.iter().map(|site| site.cost).sum();
        let frozen_busy = frozen.iter().flat_map(|site| &site.cards).filter(|card| card.in_use()).count();
        Self {
            n_cards: frozen_cards + least,
            cost: frozen_cost + cheapest(&movable, least),
            n_nodes: count(frozen.len()) + fewest(&movable, least),
            n_busy: count(frozen_busy) + cards(board, Count::Busy),
        }
    }
}

/// Idle cards that any plan keeps on nodes that are not frozen.
fn idle(board: &Board<'_>) -> u32 {
    // Those who can only stay want room as far as there is some today; whoever moves brings its own.
    let whole = board.whole();
    let missing: u32 = (0..board.tenants.len())
        .filter(|i| board.tenants[*i].now == whole && !board.may_convert(*i))
        .map(|i| board.missing(i))
        .sum();
    missing.min(board.free_today[whole]).saturating_add(board.wishes.spare_cards)
}

/// Which cards are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Count {
    /// Cards that have to stay, those that must be idle included.
    Kept,
    /// Cards that pods hold or autoscalers may add.
    Busy,
}

/// Cards of nodes that are not frozen which everybody takes together.
fn cards(board: &Board<'_>, what: Count) -> u32 {
    let rows = board.cutter.limits();
    rows.iter()
        .map(|(weights, per_card)| {
            let whole = u64::from(*per_card);
            let weight = |slot: usize| weights.get(slot).map_or(whole, |w| u64::from(*w));
            let loads = loads(board, &weight, what);
            let mut sum: u64 = loads.iter().filter(|load| load.moves.is_none()).map(|load| load.stays).sum();
            for kind in 0..=board.whole() {
                sum +=
                    least_of_type(loads.iter().filter(|load| load.moves.is_some() && load.target.0 == kind));
            }
            if what == Count::Kept {
                sum += u64::from(idle(board)) * whole;
            }
            let frozen: u64 = on_frozen(board, what, whole, &weight);
            u32::try_from(sum.saturating_sub(frozen).div_ceil(whole.max(1))).unwrap_or(u32::MAX)
        })
        .max()
        .unwrap_or(0)
}

/// What free places of frozen nodes may take. An idle card there is no longer idle then.
fn on_frozen(board: &Board<'_>, what: Count, whole: u64, weight: &impl Fn(usize) -> u64) -> u64 {
    let frozen = board.sites.iter().filter(|site| site.frozen);
    frozen
        .flat_map(|site| &site.cards)
        .map(|card| match card {
            Card::Whole(None) if what == Count::Kept => whole,
            Card::Whole(_) => 0,
            Card::Cut(slots) => {
                slots.iter().filter(|slot| slot.holder.is_none()).map(|slot| weight(slot.kind)).sum()
            }
        })
        .sum()
}

fn loads(board: &Board<'_>, weight: &impl Fn(usize) -> u64, what: Count) -> Vec<Load> {
    let rolls = board.wishes.concurrent_rollouts > 0;
    board
        .tenants
        .iter()
        .enumerate()
        .map(|(i, tenant)| {
            let outside = u64::from(board.present(i) - board.frozen_pods[i]);
            let added = if what == Count::Busy && tenant.now == board.whole() { board.missing(i) } else { 0 };
            let target = tenant.target.filter(|_| board.may_convert(i));
            Load {
                stays: (outside + u64::from(added)) * weight(tenant.now),
                moves: target.map(|slot| u64::from(tenant.planned.max(board.present(i))) * weight(slot)),
                target: target.map_or((0, 0), |slot| (slot, weight(slot))),
                surge: if rolls { u64::from(tenant.max_surge) } else { 0 },
            }
        })
        .collect()
}

/// The least that workloads with one slice type for a target can take: for each reserve for rolling updates, those who
/// surge more than that have to stay, and the others do what takes less.
fn least_of_type<'l>(loads: impl Iterator<Item = &'l Load>) -> u64 {
    let mut loads: Vec<&Load> = loads.collect();
    loads.sort_by_key(|load| load.surge);
    let mut staying: u64 = loads.iter().map(|load| load.stays).sum();
    let mut choosing = 0u64;
    let mut best = staying;
    let mut at = 0;
    while at < loads.len() {
        let surge = loads[at].surge;
        while let Some(load) = loads.get(at).filter(|load| load.surge == surge) {
            staying -= load.stays;
            choosing += load.moves.map_or(load.stays, |moves| moves.min(load.stays));
            at += 1;
        }
        let weight = loads[at - 1].target.1;
        best = best.min(staying + choosing + surge * weight);
    }
    best
}

/// The least cost of nodes with so many cards; every node may be taken once.
fn cheapest(nodes: &[(u32, i64)], n_cards: u32) -> i64 {
    const UNREACHABLE: i64 = i64::MAX / 2;
    let wanted = usize::try_from(n_cards).unwrap_or(usize::MAX);
    let all: usize = nodes.iter().map(|(cards, _)| *cards as usize).sum();
    if wanted > all {
        return nodes.iter().map(|(_, cost)| *cost).sum();
    }
    let mut least = vec![UNREACHABLE; wanted + 1];
    least[0] = 0;
    for (cards, cost) in nodes {
        for have in (0..=wanted).rev() {
            let then = (have + *cards as usize).min(wanted);
            least[then] = least[then].min(least[have].saturating_add(*cost));
        }
    }
    least[wanted]
}

/// The fewest nodes with so many cards.
fn fewest(nodes: &[(u32, i64)], n_cards: u32) -> u32 {
    let mut sizes: Vec<u32> = nodes.iter().map(|(cards, _)| *cards).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let mut left = n_cards;
    let mut n = 0;
    for size in sizes {
        if left == 0 {
            break;
        }
        left = left.saturating_sub(size);
        n += 1;
    }
    n
}
