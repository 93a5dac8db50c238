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
}

/// More ways than this are cut off: they appear only when many sizes have prices that add up alike.
const MOST_CHOICES: usize = 64;

/// The cheapest ways to keep enough; `extra` asks for so many cards more than the slots need.
pub(super) fn kept(fleet: &Fleet, rules: &Rules, extra: i64) -> Result<KeptChoices, Infeasible> {
    let spare = i64::from(rules.spare_cards);
    let pool_for = |idle: i64| fleet.pool_cards(&fleet.missing(idle));
    let available: i64 = fleet.sizes.iter().map(|s| s.cards * s.n_nodes).sum();
    let idle = match rules.goal {
        Goal::Bill => spare,
        Goal::Capacity => {
            // Idle cards of frozen nodes are free; beyond them each idle card costs one.
            let last = (-fleet.need.last().copied().unwrap_or(0) + 1).max(spare);
            (spare..=last)
                .filter(|idle| pool_for(*idle) <= available)
                .min_by_key(|idle| (pool_for(*idle) - idle, *idle))
                .unwrap_or(spare)
        }
    };
    let least = pool_for(idle);
    let pool = least.max(fleet.least_cards) + extra;
    let n_nodes: i64 = fleet.sizes.iter().map(|s| s.n_nodes).sum();
    if pool > available || fleet.least_nodes > n_nodes {
        let clamp = |n: i64| u32::try_from(n).unwrap_or(u32::MAX);
        return Err(Infeasible::TooFewCards {
            needed: clamp(pool.max(fleet.least_nodes)),
            available: clamp(available),
        });
    }
    let table = cheapest(&fleet.sizes, pool, fleet.least_nodes);
    let cost = table[fleet.sizes.len()][at(fleet.least_nodes)][at(pool)];
    let mut ways =
        Ways { sizes: &fleet.sizes, table: &table, nodes: vec![0; fleet.sizes.len()], found: Vec::new() };
    let complete = ways.collect(fleet.sizes.len(), pool, fleet.least_nodes, cost);
    let mut objective = vec![fleet.frozen_cost + cost];
    if rules.goal == Goal::Capacity {
        // Cards that are kept only to be apart can stay idle in part; how many is not known before.
        objective.insert(0, fleet.frozen_cards + least + extra - idle);
    }
    let choices = ways
        .found
        .into_iter()
        .map(|nodes| {
            let cards: i64 = fleet.sizes.iter().zip(&nodes).map(|(s, n)| s.cards * n).sum();
            // Cards beyond the need stay idle; under the goal of capacity that is what they are kept for.
            let idle = if rules.goal == Goal::Capacity { idle + cards - least - extra } else { idle };
            Kept { nodes, idle }
        })
        .collect();
    Ok(KeptChoices { objective, choices, complete })
}

fn at(n: i64) -> usize {
    usize::try_from(n).unwrap_or(0)
}

const UNREACHABLE: i64 = i64::MAX / 4;

/// The least cost of so many cards and nodes or more: by number of sizes allowed, nodes and cards.
type Table = Vec<Vec<Vec<i64>>>;

fn cheapest(sizes: &[Size], pool: i64, least_nodes: i64) -> Table {
    let mut none = vec![vec![UNREACHABLE; at(pool) + 1]; at(least_nodes) + 1];
    none[0][0] = 0;
    let mut table = vec![none];
    for size in sizes {
        let before = &table[table.len() - 1];
        let cell = |nodes: i64, cards: i64| {
            let for_cards = if size.cards > 0 { (cards + size.cards - 1) / size.cards } else { 0 };
            let most = for_cards.max(nodes);
            // The first size has to do alone, so only one number of nodes is worth a look.
            let fewest = if table.len() == 1 { most.min(size.n_nodes) } else { 0 };
            (fewest..=size.n_nodes.min(most))
                .map(|k| {
                    let rest = before[at((nodes - k).max(0))][at((cards - k * size.cards).max(0))];
                    rest.saturating_add(k * size.cost).min(UNREACHABLE)
                })
                .min()
                .unwrap_or(UNREACHABLE)
        };
        let layer = (0..=least_nodes).map(|n| (0..=pool).map(|c| cell(n, c)).collect()).collect();
        table.push(layer);
    }
    table
}

struct Ways<'a> {
    sizes: &'a [Size],
    table: &'a Table,
    nodes: Vec<i64>,
    found: Vec<Vec<i64>>,
}

impl Ways<'_> {
    /// Collects every way to spend exactly `cost`; false when there are too many.
    fn collect(&mut self, n_sizes: usize, pool: i64, least_nodes: i64, cost: i64) -> bool {
        let Some(this) = n_sizes.checked_sub(1) else {
            if pool <= 0 && least_nodes <= 0 && cost == 0 {
                if self.found.len() == MOST_CHOICES {
                    return false;
                }
                self.found.push(self.nodes.clone());
            }
            return true;
        };
        let size = self.sizes[this];
        for k in 0..=size.n_nodes {
            let left = cost - k * size.cost;
            let (nodes, cards) = ((least_nodes - k).max(0), (pool - k * size.cards).max(0));
            if left < self.table[this][at(nodes)][at(cards)] {
                continue;
            }
            self.nodes[this] = k;
            if !self.collect(this, cards, nodes, left) {
                return false;
            }
        }
        self.nodes[this] = 0;
        true
    }
}
