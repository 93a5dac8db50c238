//! What a choice of fates adds up to: whether it holds everything, and how many replicas restart.

use super::fleet::Fleet;
use super::prices::{Fates, Question};
use super::search::Budget;

/// The fate of one node while sums are updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Becomes {
    Freed,
    Touched,
    Untouched,
}

/// Replicas that leave an untouched node, as (slot type, own type, how many).
pub(super) type Leaves = Vec<(usize, usize, i64)>;

/// Running sums over nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) missing: Vec<i64>,
    pub(super) pool: i64,
    pub(super) touched: i64,
    restarts: i64,
    /// Replicas in larger slots than they need on untouched nodes, by slot type times width plus own type.
    roomy: Vec<i64>,
}

/// How good a choice is: cards short first, then restarts; smaller is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Score {
    pub(super) short: i64,
    pub(super) restarts: i64,
}

/// What `n` replicas that leave give back.
fn take(missing: &mut [i64], slot: usize, own: usize, n: i64) {
    missing[own + 1..=slot].iter_mut().for_each(|m| *m -= n);
}

/// Lets each kind stay as far as possible, the last first, except for one.
fn trim(fleet: &Fleet, missing: &mut [i64], leaves: &mut Leaves, limit: i64, except: usize) {
    for (kind, leave) in leaves.iter_mut().enumerate().rev() {
        if kind != except {
            trim_one(fleet, missing, leave, limit);
        }
    }
}

/// Lets one kind stay as far as possible.
fn trim_one(fleet: &Fleet, missing: &mut [i64], leave: &mut (usize, usize, i64), limit: i64) {
    let (slot, own, n) = leave;
    let (mut low, mut high) = (0, *n);
    let mut trial = missing.to_vec();
    while low < high {
        let back = low + (high - low + 1) / 2;
        trial.copy_from_slice(missing);
        take(&mut trial, *slot, *own, -back);
        if fleet.pool_cards(&trial) <= limit {
            low = back;
        } else {
            high = back - 1;
        }
    }
    take(missing, *slot, *own, -low);
    *n -= low;
}

impl Totals {
    pub(super) fn new(fleet: &Fleet, question: &Question, fates: &[Fates]) -> Self {
        let missing = fleet.missing(question.idle);
        let width = missing.len();
        let mut totals = Self { missing, pool: 0, touched: 0, restarts: 0, roomy: vec![0; width * width] };
        for (g, f) in fates.iter().enumerate() {
            totals.add(fleet, g, Becomes::Freed, f.freed);
            totals.add(fleet, g, Becomes::Touched, f.touched);
            totals.add(fleet, g, Becomes::Untouched, f.untouched);
        }
        totals
    }

    /// Adds `n` nodes of a group (takes them away when negative) with this fate.
    pub(super) fn add(&mut self, fleet: &Fleet, group: usize, becomes: Becomes, n: i64) {
        if n == 0 {
            return;
        }
        let g = &fleet.groups[group];
        match becomes {
            Becomes::Freed => self.restarts += n * g.replicas,
            Becomes::Touched => {
                self.restarts += n * g.replicas;
                self.pool += n * g.cards;
                self.touched += n;
            }
            Becomes::Untouched => {
                self.restarts += n * g.misfits;
                for (m, s) in self.missing.iter_mut().zip(&g.supply) {
                    *m -= n * s;
                }
                let width = self.missing.len();
                for (slot, own, r) in &g.roomy {
                    self.roomy[slot * width + own] += n * r;
                }
            }
        }
    }

    /// How good these fates are with the fewest leaving replicas found; kinds of leaves are tried in `order`.
    pub(super) fn score(&self, fleet: &Fleet, order: &[(usize, usize)]) -> Score {
        let (short, leaves) = self.leaves(fleet, order);
        let left: i64 = leaves.iter().map(|(_, _, n)| n).sum();
        Score { short, restarts: self.restarts + left }
    }

    /// Replicas that have to leave larger slots so that everything fits, and the cards still short then.
    pub(super) fn leaves(&self, fleet: &Fleet, order: &[(usize, usize)]) -> (i64, Leaves) {
        let width = self.missing.len();
        let mut missing = self.missing.clone();
        if fleet.pool_cards(&missing) <= self.pool {
            return (0, Vec::new());
        }
        let mut leaves: Leaves = Vec::new();
        for (slot, own) in order {
            let n = self.roomy[slot * width + own];
            if n == 0 {
                continue;
            }
            take(&mut missing, *slot, *own, n);
            leaves.push((*slot, *own, n));
            if fleet.pool_cards(&missing) <= self.pool {
                break;
            }
        }
        let short = (fleet.pool_cards(&missing) - self.pool).max(0);
        trim(fleet, &mut missing, &mut leaves, self.pool + short, usize::MAX);
        leaves.retain(|l| l.2 > 0);
        (short, leaves)
    }

    /// The score after the leaves were exchanged as well.
    pub(super) fn polished(&self, fleet: &Fleet, order: &[(usize, usize)], budget: &mut Budget) -> Score {
        budget.spend(50);
        let (short, leaves) = self.exchanged(fleet, order);
        Score { short, restarts: self.restarts + leaves.iter().map(|(_, _, n)| n).sum::<i64>() }
    }

    /// Fewer leaves by exchange: some more of one kind can save more of the others.
    pub(super) fn exchanged(&self, fleet: &Fleet, order: &[(usize, usize)]) -> (i64, Leaves) {
        let (short, found) = self.leaves(fleet, order);
        if short > 0 || found.is_empty() {
            return (short, found);
        }
        let width = self.missing.len();
        let mut leaves: Leaves = order.iter().map(|(s, o)| (*s, *o, 0)).collect();
        let mut missing = self.missing.clone();
        for (slot, own, n) in found {
            if let Some(kind) = leaves.iter_mut().find(|l| (l.0, l.1) == (slot, own)) {
                kind.2 = n;
            }
            take(&mut missing, slot, own, n);
        }
        let total = |leaves: &Leaves| leaves.iter().map(|l| l.2).sum::<i64>();
        let mut improved = true;
        while improved {
            improved = false;
            for kind in 0..leaves.len() {
                let (slot, own, n) = leaves[kind];
                let room = self.roomy[slot * width + own] - n;
                let steps = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64];
                let used: Vec<usize> = (0..leaves.len()).filter(|k| leaves[*k].2 > 0 && *k != kind).collect();
                'kind: for more in steps.into_iter().filter(|m| *m <= room) {
                    for first in &used {
                        let (mut trial, mut less) = (leaves.clone(), missing.clone());
                        trial[kind].2 += more;
                        take(&mut less, slot, own, more);
                        trim_one(fleet, &mut less, &mut trial[*first], self.pool);
                        trim(fleet, &mut less, &mut trial, self.pool, kind);
                        if total(&trial) < total(&leaves) {
                            (leaves, missing) = (trial, less);
                            improved = true;
                            break 'kind;
                        }
                    }
                }
            }
        }
        leaves.retain(|l| l.2 > 0);
        (0, leaves)
    }

    /// The score with provably fewest leaving replicas, as far as it can beat `upper` restarts; `None` when the
    /// budget ends first.
    pub(super) fn exact_score(
        &self,
        fleet: &Fleet,
        order: &[(usize, usize)],
        upper: i64,
        budget: &mut Budget,
    ) -> Option<(Score, Leaves)> {
        budget.spend(50);
        let (short, leaves) = self.exchanged(fleet, order);
        let found: i64 = leaves.iter().map(|(_, _, n)| n).sum();
        let score = Score { short, restarts: self.restarts + found };
        if short > 0 || found == 0 {
            return Some((score, leaves));
        }
        let width = self.missing.len();
        let mut kinds: Leaves =
            order.iter().map(|(s, o)| (*s, *o, self.roomy[s * width + o])).filter(|k| k.2 > 0).collect();
        kinds.sort_by_key(|(slot, own, _)| (std::cmp::Reverse(slot - own), *slot));
        for fewer in 1..found.min(upper - self.restarts) {
            let mut chosen = vec![0; kinds.len()];
            if self.can_leave(fleet, &kinds, 0, fewer, &self.missing, &mut chosen, budget)? {
                let leaves =
                    kinds.iter().zip(chosen).map(|((s, o, _), n)| (*s, *o, n)).filter(|l| l.2 > 0).collect();
                return Some((Score { short: 0, restarts: self.restarts + fewer }, leaves));
            }
        }
        Some((score, leaves))
    }

    /// Whether `n` leaving replicas of the kinds from `at` on are enough.
    #[expect(clippy::too_many_arguments, reason = "the state of one recursion")]
    fn can_leave(
        &self,
        fleet: &Fleet,
        kinds: &Leaves,
        at: usize,
        n: i64,
        missing: &[i64],
        chosen: &mut [i64],
        budget: &mut Budget,
    ) -> Option<bool> {
        if !budget.spend(1) {
            return None;
        }
        if fleet.pool_cards(missing) <= self.pool {
            return Some(true);
        }
        let hopeful: Vec<i64> = missing.iter().map(|m| m - n).collect();
        if n == 0 || at == kinds.len() || fleet.pool_cards(&hopeful) > self.pool {
            return Some(false);
        }
        let (slot, own, most) = kinds[at];
        for take in (0..=most.min(n)).rev() {
            let mut rest = missing.to_vec();
            rest[own + 1..=slot].iter_mut().for_each(|m| *m -= take);
            chosen[at] = take;
            if self.can_leave(fleet, kinds, at + 1, n - take, &rest, chosen, budget)? {
                return Some(true);
            }
        }
        chosen[at] = 0;
        Some(false)
    }
}
