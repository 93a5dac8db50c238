//! How many nodes of each size have to stay: decided before which ones.
//!
//! A node that is kept can do most when it is touched, so the fewest cards follow from the demand alone, and what is
//! left is a small knapsack over sizes and prices.

use super::fleet::{Fleet, Size};
use super::{Goal, Infeasible, Rules};

/// Nodes kept per size, and what follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) nodes: Vec<i64>,
    pub(super) idle: i64,
}

/// The settled first part of the objective, and all ways to attain it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptChoices {
    pub(super) objective: Vec<i64>,
    pub(super) choices: Vec<Kept>,
    /// Whether `choices` holds every way.
    pub(super) complete: bool,
    /// Cards of kept nodes that are not frozen, at least.
    pub(super) pool: i64,
}

/// More ways than this are cut off: they appear only when many sizes have prices that add up alike.
const MOST_CHOICES: usize = 64;

pub(super) fn kept(fleet: &Fleet, rules: &Rules) -> Result<KeptChoices, Infeasible> {
    let spare = i64::from(rules.spare_cards);
    let pool_for = |idle: i64| fleet.pool_cards(&fleet.missing(idle));
    let idle = match rules.goal {
        Goal::Bill => spare,
        Goal::Capacity => {
            // Idle cards of frozen nodes are free; beyond them each idle card costs one.
            let last = (-fleet.need.last().copied().unwrap_or(0) + 1).max(spare);
            (spare..=last).min_by_key(|idle| (pool_for(*idle) - idle, *idle)).unwrap_or(spare)
        }
    };
    let pool = pool_for(idle);
    let available: i64 = fleet.sizes.iter().map(|s| s.cards * s.n_nodes).sum();
    if pool > available {
        let clamp = |n: i64| u32::try_from(n).unwrap_or(u32::MAX);
        return Err(Infeasible::TooFewCards { needed: clamp(pool), available: clamp(available) });
    }
    let cheapest = cheapest(&fleet.sizes, pool);
    let cost = cheapest[fleet.sizes.len()][usize::try_from(pool).unwrap_or(0)];
    let mut choices = Vec::new();
    let mut nodes = vec![0; fleet.sizes.len()];
    let complete = ways(&fleet.sizes, &cheapest, fleet.sizes.len(), pool, cost, &mut nodes, &mut choices);
    let mut objective = vec![fleet.frozen_cost + cost];
    if rules.goal == Goal::Capacity {
        objective.insert(0, fleet.frozen_cards + pool - idle);
    }
    let choices = choices
        .into_iter()
        .map(|nodes| {
            let cards: i64 = fleet.sizes.iter().zip(&nodes).map(|(s, n)| s.cards * n).sum();
            // Cards beyond the need stay idle; under the goal of capacity that is what they are kept for.
            let idle = if rules.goal == Goal::Capacity { idle + cards - pool } else { idle };
            Kept { nodes, idle }
        })
        .collect();
    Ok(KeptChoices { objective, choices, complete, pool })
}

const UNREACHABLE: i64 = i64::MAX / 4;

/// Row `s`, column `c`: the least cost of `c` cards or more from the first `s` sizes.
fn cheapest(sizes: &[Size], pool: i64) -> Vec<Vec<i64>> {
    let n = usize::try_from(pool).unwrap_or(0);
    let mut table = vec![vec![UNREACHABLE; n + 1]];
    table[0][0] = 0;
    for size in sizes {
        let before = &table[table.len() - 1];
        let row = (0..=pool)
            .map(|cards| {
                let most =
                    if size.cards > 0 { size.n_nodes.min((cards + size.cards - 1) / size.cards) } else { 0 };
                (0..=most)
                    .map(|k| {
                        let rest = usize::try_from((cards - k * size.cards).max(0)).unwrap_or(0);
                        before[rest].saturating_add(k * size.cost).min(UNREACHABLE)
                    })
                    .min()
                    .unwrap_or(UNREACHABLE)
            })
            .collect();
        table.push(row);
    }
    table
}

/// Collects every way to spend exactly `cost`; false when there are too many.
fn ways(
    sizes: &[Size],
    cheapest: &[Vec<i64>],
    n_sizes: usize,
    pool: i64,
    cost: i64,
    nodes: &mut Vec<i64>,
    found: &mut Vec<Vec<i64>>,
) -> bool {
    let Some(at) = n_sizes.checked_sub(1) else {
        if pool <= 0 && cost == 0 {
            if found.len() == MOST_CHOICES {
                return false;
            }
            found.push(nodes.clone());
        }
        return true;
    };
    let size = sizes[at];
    for k in 0..=size.n_nodes {
        let left = cost - k * size.cost;
        let rest = (pool - k * size.cards).max(0);
        if left < cheapest[at][usize::try_from(rest).unwrap_or(0)] {
            continue;
        }
        nodes[at] = k;
        if !ways(sizes, cheapest, at, rest, left, nodes, found) {
            return false;
        }
    }
    nodes[at] = 0;
    true
}
