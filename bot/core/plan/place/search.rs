//! Looks for the fates of nodes.
//!
//! Starts from what `pack` finds for the same pool and from plain orders, and goes on from there: another node freed, a
//! node less drained, two nodes in exchange. Pools of a few nodes are tried in every way. What is found is held against
//! `bound`; effort is counted in steps, so that the same input gives the same plan on every machine.

use std::collections::BTreeSet;

use super::board::Board;
use super::bound::Bound;
use super::convert::{convert, every_choice};
use super::lay_out::{SMALL, Score, fill_up, lay_out, score};
use super::waves::may_drain;
use super::{Card, Placement};
use crate::pack::{self, CardState, Fate, Item, NodeState, Problem, Rules};
use crate::plan::Goal;
use crate::plan::pool::Waves;

/// Steps of one search: a step is one tenant, card or pod looked at. Twice as many can only find a better plan.
const EFFORT: usize = 20_000_000;

/// Pools with so few nodes that are not frozen are tried in every way: 3⁸ = 6,561 choices of fates.
const TINY: usize = 8;

/// Effort that `pack` may spend on finding where to start.
const PACK_EFFORT: u64 = 200_000;

pub(super) fn search(board: &Board<'_>, bound: &Bound) -> Option<Placement> {
    search_with(board, bound, TINY)
}

/// As [`search`], with another limit up to which a pool is tiny.
pub(super) fn search_with(board: &Board<'_>, bound: &Bound, tiny: usize) -> Option<Placement> {
    let mut search = Search { board, bound, left: EFFORT, best: None };
    search.run(tiny);
    search.best.map(|(_, placement)| placement)
}

pub(super) struct Search<'b, 'a> {
    pub(super) board: &'b Board<'a>,
    pub(super) bound: &'b Bound,
    /// Steps that may still be spent.
    pub(super) left: usize,
    pub(super) best: Option<(Score, Placement)>,
}

impl Search<'_, '_> {
    fn run(&mut self, tiny: usize) {
        let movable: Vec<usize> =
            (0..self.board.sites.len()).filter(|i| !self.board.sites[*i].frozen).collect();
        match self.board.wishes.goal {
            Goal::Bill => self.bill(&movable),
            Goal::Capacity => self.capacity(&movable),
        }
        if movable.len() <= tiny {
            self.every_way(&movable);
        } else if movable.len() <= SMALL {
            self.exchange(&movable);
        }
    }

    fn bill(&mut self, movable: &[usize]) {
        let (freed, touched) = self.guide();
        if !freed.is_empty() {
            self.try_fates(&self.fates(&freed, &touched));
            self.with_fewest_touched(&freed);
        }
        for order in self.orders_to_free(movable) {
            if !self.reached() {
                self.free_in(&order);
            }
        }
        if self.best.is_none() {
            // Nothing can be freed; somebody may have to grow all the same.
            self.with_fewest_touched(&BTreeSet::new());
        }
    }

    /// Frees the first nodes of an order, as many as can be, and then any other that can go too.
    fn free_in(&mut self, order: &[usize]) {
        // As far as numbers tell, fewer freed nodes are never harder.
        let mut n = least(order.len(), |n| !self.numbers_allow(&order[..=n].iter().copied().collect()));
        let mut step = 1;
        let mut freed = BTreeSet::new();
        while n > 0 {
            freed = order[..n].iter().copied().collect();
            if self.with_fewest_touched(&freed) {
                break;
            }
            n = n.saturating_sub(step);
            step += usize::from(order.len() > SMALL);
            freed.clear();
        }
        for node in order {
            if self.reached() || self.left == 0 {
                break;
            }
            if freed.insert(*node) && !(self.numbers_allow(&freed) && self.with_fewest_touched(&freed)) {
                freed.remove(node);
            }
        }
    }

    /// Every node stays.
    fn capacity(&mut self, movable: &[usize]) {
        let none = BTreeSet::new();
        let order = self.order_to_touch(&none, movable);
        let busy = |n: usize| {
            let fates = self.fates(&none, &order[..n].iter().copied().collect());
            convert(self.board, &fates, &BTreeSet::new()).map(|tally| tally.busy())
        };
        let all = busy(order.len());
        let mut n = least(order.len(), |n| busy(n).is_some_and(|busy| all.is_none_or(|all| busy <= all)));
        let mut step = 1;
        while n <= order.len() && self.left > 0 {
            let found = self.try_fates(&self.fates(&none, &order[..n].iter().copied().collect()));
            let least = all.map_or(i64::MAX, i64::from);
            let enough = self.best.as_ref().is_some_and(|(score, _)| score.0 <= least);
            if (found && (enough || order.len() > SMALL)) || n == order.len() {
                break;
            }
            n = (n + step).min(order.len());
            step = if order.len() > SMALL { step * 2 } else { 1 };
        }
        // Where not all can be had, what fewer nodes give.
        while self.best.is_none() && n > 1 {
            n = n.min(order.len() + 1) - 1;
            self.try_fates(&self.fates(&none, &order[..n].iter().copied().collect()));
        }
        self.drop_touched();
    }

    fn reached(&self) -> bool {
        let cost = self.best.as_ref().map(|(score, _)| score.0);
        self.board.wishes.goal == Goal::Bill && cost == Some(self.bound.cost)
    }

    /// What `pack` frees and touches when every replica may go its own way.
    fn guide(&mut self) -> (BTreeSet<usize>, BTreeSet<usize>) {
        let board = self.board;
        let items = board.tenants.iter().enumerate().map(|(i, tenant)| {
            let moves = tenant.target.filter(|_| board.may_convert(i));
            Item {
                key: tenant.key.clone(),
                slot: moves.unwrap_or(tenant.now),
                planned: if moves.is_some() { tenant.planned } else { board.present(i) },
                max_surge: if moves.is_some() { tenant.max_surge } else { 0 },
            }
        });
        let card = |card: &Card| match card {
            Card::Whole(item) => CardState::Whole { item: *item },
            Card::Cut(slots) => CardState::Cut(slots.iter().map(|slot| (slot.kind, slot.holder)).collect()),
        };
        let nodes = board.sites.iter().map(|site| NodeState {
            id: site.name.clone(),
            cards: site.cards.iter().map(card).collect(),
            cost: site.cost,
            frozen: site.frozen,
        });
        let problem = Problem {
            geometry: board.geometry.clone(),
            items: items.collect(),
            nodes: nodes.collect(),
            rules: Rules {
                goal: pack::Goal::Bill,
                spread: pack::Spread::None,
                spare_cards: board.wishes.spare_cards,
                concurrent_rollouts: board.wishes.concurrent_rollouts,
                max_layouts: board.wishes.max_layouts,
                effort: PACK_EFFORT,
            },
        };
        let Ok(packing) = pack::pack(&problem) else { return Default::default() };
        let with = |fate: Fate| {
            packing.nodes.iter().enumerate().filter(|(_, n)| n.fate == fate).map(|(i, _)| i).collect()
        };
        (with(Fate::Freed), with(Fate::Touched))
    }

    /// The dearest first, then either those with the fewest pods or the smallest; of equals the last by name.
    fn orders_to_free(&self, movable: &[usize]) -> [Vec<usize>; 2] {
        let mut by_pods = movable.to_vec();
        by_pods.sort_by_cached_key(|i| {
            let site = &self.board.sites[*i];
            (std::cmp::Reverse(site.cost), self.pods_on(*i), std::cmp::Reverse(&site.name))
        });
        let mut by_cards = by_pods.clone();
        by_cards.sort_by_cached_key(|i| {
            let site = &self.board.sites[*i];
            (std::cmp::Reverse(site.cost), site.cards.len())
        });
        [by_pods, by_cards]
    }

    /// Those with the fewest pods that cannot move into slices first, then the largest, then those with the fewest
    /// pods; of equals the first by name. Nodes that may not be drained together with those before are left out.
    fn order_to_touch(&self, freed: &BTreeSet<usize>, movable: &[usize]) -> Vec<usize> {
        let mut order: Vec<usize> = movable.iter().copied().filter(|i| !freed.contains(i)).collect();
        order.sort_by_cached_key(|i| {
            let site = &self.board.sites[*i];
            let (stay, pods) = self.pods_on(*i);
            (stay, std::cmp::Reverse(site.cards.len()), pods, &site.name)
        });
        let mut chosen: Vec<usize> = Vec::new();
        let mut together: Vec<usize> = Vec::new();
        let mut outside: Vec<u32> = (0..self.board.tenants.len()).map(|t| self.board.present(t)).collect();
        for node in order {
            if self.board.sites[node].labelled_by_merge {
                let here: Vec<(usize, u32)> = (0..self.board.tenants.len())
                    .filter_map(|t| Some((t, *self.board.pods[t].get(&node)?)))
                    .collect();
                let left = |(tenant, n): &(usize, u32)| outside[*tenant] > *n || self.may_be_down(*tenant);
                together.push(node);
                let small = self.board.sites.len() <= SMALL;
                let fine = here.iter().all(left) || (small && may_drain(self.board, &together));
                if !fine {
                    together.pop();
                    continue;
                }
                for (tenant, n) in here {
                    outside[tenant] = outside[tenant].saturating_sub(n);
                }
            }
            chosen.push(node);
        }
        chosen
    }

    fn may_be_down(&self, tenant: usize) -> bool {
        match self.board.wishes.waves {
            Waves::AllowDowntime | Waves::Borrow => true,
            Waves::SingleReplica => self.board.present(tenant) + self.board.tenants[tenant].elsewhere == 1,
            Waves::NoDowntime => false,
        }
    }

    /// Pods on the node that cannot move into slices, and all of them.
    fn pods_on(&self, node: usize) -> (usize, usize) {
        let holders: Vec<usize> = self.board.sites[node].cards.iter().flat_map(Card::holders).collect();
        (holders.iter().filter(|t| !self.board.may_convert(**t)).count(), holders.len())
    }

    fn fates(&self, freed: &BTreeSet<usize>, touched: &BTreeSet<usize>) -> Vec<Fate> {
        (0..self.board.sites.len())
            .map(|i| match (freed.contains(&i), touched.contains(&i)) {
                (true, _) => Fate::Freed,
                (false, true) => Fate::Touched,
                (false, false) => Fate::Untouched,
            })
            .collect()
    }

    fn others(&self, freed: &BTreeSet<usize>) -> Vec<usize> {
        let all: Vec<usize> = (0..self.board.sites.len()).filter(|i| !self.board.sites[*i].frozen).collect();
        self.order_to_touch(freed, &all)
    }

    /// As far as numbers tell, the touched cards hold everything.
    fn holds(&self, fates: &[Fate]) -> bool {
        match every_choice(self.board, fates) {
            Some(choices) => !choices.is_empty(),
            None => convert(self.board, fates, &BTreeSet::new()).is_some(),
        }
    }

    fn numbers_allow(&mut self, freed: &BTreeSet<usize>) -> bool {
        self.spend(self.board.tenants.len() * 4);
        let touched = self.others(freed).into_iter().collect();
        self.holds(&self.fates(freed, &touched))
    }

    /// Frees exactly these and drains as few others as it takes; whether that works.
    fn with_fewest_touched(&mut self, freed: &BTreeSet<usize>) -> bool {
        let order = self.others(freed);
        let mut n = least(order.len(), |n| {
            self.spend(self.board.tenants.len() * 4);
            let touched = order[..n].iter().copied().collect();
            self.holds(&self.fates(freed, &touched))
        });
        let mut step = 1;
        while n <= order.len() && self.left > 0 {
            if self.try_fates(&self.fates(freed, &order[..n].iter().copied().collect())) {
                self.drop_touched();
                return true;
            }
            if n == order.len() {
                break;
            }
            n = (n + step).min(order.len());
            step = if order.len() > SMALL { step * 2 } else { 1 };
        }
        false
    }

    /// Leaves nodes alone that need not be drained.
    fn drop_touched(&mut self) {
        let Some((_, best)) = &self.best else { return };
        let (mut fates, touched) = (best.fates.clone(), best.with_fate(Fate::Touched).collect::<Vec<_>>());
        if touched.len() < 2 {
            return;
        }
        for site in touched.into_iter().rev() {
            fates[site] = Fate::Untouched;
            self.spend(self.board.tenants.len());
            let known = self.best.as_ref().map(|(score, _)| score.clone());
            let better = self.holds(&fates) && !self.frees_less(&fates) && self.try_fates(&fates) && {
                let score = self.best.as_ref().map(|(score, _)| score);
                score < known.as_ref()
            };
            if !better {
                fates[site] = Fate::Touched;
            }
        }
    }

    /// As far as numbers tell, more cards are in use with these fates than with the best ones. Small pools are laid out
    /// all the same.
    fn frees_less(&self, fates: &[Fate]) -> bool {
        let Some((score, _)) = &self.best else { return false };
        self.board.wishes.goal == Goal::Capacity
            && self.board.sites.len() > SMALL
            && convert(self.board, fates, &BTreeSet::new())
                .is_some_and(|tally| i64::from(tally.busy()) > score.0)
    }

    /// Lets two nodes exchange their fates as long as that helps. Another set of freed nodes gets its own nodes to drain.
    fn exchange(&mut self, movable: &[usize]) {
        let mut improved = true;
        while improved && self.left > 0 {
            improved = false;
            let Some((_, best)) = &self.best else { return };
            let mut fates = best.fates.clone();
            for a in movable.iter().filter(|_| self.board.wishes.goal == Goal::Capacity) {
                let mut trial = fates.clone();
                trial[*a] = if trial[*a] == Fate::Touched { Fate::Untouched } else { Fate::Touched };
                improved |= self.improves(&trial);
            }
            if let Some((_, best)) = &self.best {
                fates.clone_from(&best.fates);
            }
            for a in movable {
                for b in movable.iter().filter(|b| *b > a) {
                    if fates[*a] == fates[*b] || self.board.sites[*a].cost != self.board.sites[*b].cost {
                        continue;
                    }
                    let mut trial = fates.clone();
                    trial.swap(*a, *b);
                    let before = self.best.as_ref().map(|(score, _)| score.clone());
                    self.try_fates(&trial);
                    if fates[*a] == Fate::Freed || fates[*b] == Fate::Freed {
                        let freed = (0..trial.len()).filter(|i| trial[*i] == Fate::Freed).collect();
                        self.with_fewest_touched(&freed);
                    }
                    if let Some((score, best)) = &self.best
                        && before.is_none_or(|before| *score < before)
                    {
                        fates.clone_from(&best.fates);
                        improved = true;
                    }
                }
            }
        }
    }

    /// Tries these fates; whether they are better than the best so far.
    fn improves(&mut self, fates: &[Fate]) -> bool {
        let before = self.best.as_ref().map(|(score, _)| score.clone());
        self.try_fates(fates);
        match (&self.best, before) {
            (Some((score, _)), Some(before)) => *score < before,
            (best, _) => best.is_some(),
        }
    }

    fn spend(&mut self, steps: usize) {
        self.left = self.left.saturating_sub(steps);
    }

    /// Lays out these fates and keeps the placement if it gains something and is the best so far; whether it can be
    /// laid out so that something is gained.
    pub(super) fn try_fates(&mut self, fates: &[Fate]) -> bool {
        if self.left == 0 {
            return false;
        }
        let board = self.board;
        let n_cards: usize = board.sites.iter().map(|site| site.cards.len()).sum();
        self.spend(board.tenants.len() * 8 + n_cards * 8);
        let Some(mut placement) = lay_out(board, fates, &mut self.left) else { return false };
        if board.sites.len() <= SMALL {
            fill_up(board, &mut placement, &mut self.left);
        }
        let Some(score) = score(board, &placement) else { return false };
        if self.best.as_ref().is_none_or(|(best, _)| score < *best) {
            self.best = Some((score, placement));
        }
        true
    }
}

/// The least number below `end` that is enough, where more than enough is enough too; `end` if there is none.
fn least(end: usize, mut enough: impl FnMut(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, end);
    while low < high {
        let middle = usize::midpoint(low, high);
        if enough(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}
