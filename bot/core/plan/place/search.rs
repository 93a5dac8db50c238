//! Looks for the fates of nodes.
//!
//! Starts from what `pack` finds for the same pool and from plain orders, and goes on from there: another node freed, a
//! node less drained, two nodes in exchange. Pools of a few nodes are tried in every way. What is found is held against
//! `bound`; effort is counted in steps, so that the same input gives the same plan on every machine.

use std::collections::BTreeSet;

use super::board::Board;
use super::bound::Bound;
use super::convert::{candidates, convert, every_choice};
use super::cut::Style;
use super::seat::Floor;
use super::tally::Tally;
use super::waves::{self, may_drain};
use super::{Card, Placement};
use crate::pack::cards::CardsNeeded;
use crate::pack::{self, CardState, Fate, Item, NodeState, Problem, Rules};
use crate::plan::Goal;
use crate::plan::pool::Waves;

/// Steps of one search: a step is one tenant, card or pod looked at. Twice as many can only find a better plan.
const EFFORT: usize = 20_000_000;

/// Pools with so few nodes that are not frozen are tried in every way: 3⁵ = 243 choices of fates.
const TINY: usize = 5;

/// Pools up to this size are looked through pair by pair.
const SMALL: usize = 24;

/// Effort that `pack` may spend on finding where to start.
const PACK_EFFORT: u64 = 200_000;

/// What is compared, from left to right; smaller is better: cost of the nodes that stay (or cards in use), nodes drained,
/// pods that restart, cards in use, workloads that change. The fates are the last resort: the first nodes by name are
/// kept.
type Score = (i64, usize, u32, u32, usize, Vec<u8>);

pub(super) fn search(board: &Board<'_>, bound: &Bound) -> Option<Placement> {
    search_with(board, bound, TINY)
}

/// As [`search`], with another limit up to which a pool is tiny.
pub(super) fn search_with(board: &Board<'_>, bound: &Bound, tiny: usize) -> Option<Placement> {
    let mut search = Search { board, bound, left: EFFORT, best: None };
    search.run(tiny);
    search.best.map(|(_, placement)| placement)
}

struct Search<'b, 'a> {
    board: &'b Board<'a>,
    bound: &'b Bound,
    left: usize,
    best: Option<(Score, Placement)>,
}

impl Search<'_, '_> {
    fn run(&mut self, tiny: usize) {
        let movable: Vec<usize> =
            (0..self.board.sites.len()).filter(|i| !self.board.sites[*i].frozen).collect();
        if movable.len() <= tiny {
            self.every_way(&movable);
            return;
        }
        match self.board.wishes.goal {
            Goal::Bill => self.bill(&movable),
            Goal::Capacity => self.capacity(&movable),
        }
        if movable.len() <= SMALL {
            self.exchange(&movable);
        }
    }

    /// Every choice of fates.
    fn every_way(&mut self, movable: &[usize]) {
        let n_fates = if self.board.wishes.goal == Goal::Bill { 3usize } else { 2 };
        let n_ways = n_fates.pow(u32::try_from(movable.len()).unwrap_or(0));
        for mut code in 0..n_ways {
            let mut fates = vec![Fate::Untouched; self.board.sites.len()];
            for site in movable {
                fates[*site] = [Fate::Untouched, Fate::Touched, Fate::Freed][code % n_fates];
                code /= n_fates;
            }
            self.try_fates(&fates);
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
    fn try_fates(&mut self, fates: &[Fate]) -> bool {
        if self.left == 0 {
            return false;
        }
        let board = self.board;
        let n_cards: usize = board.sites.iter().map(|site| site.cards.len()).sum();
        self.spend(board.tenants.len() * 8 + n_cards * 8);
        let Some(mut placement) = lay_out(board, fates) else { return false };
        if board.sites.len() <= SMALL {
            self.fill_up(&mut placement);
        }
        let Some(score) = score(board, &placement) else { return false };
        if self.best.as_ref().is_none_or(|(best, _)| score < *best) {
            self.best = Some((score, placement));
        }
        true
    }
}

impl Search<'_, '_> {
    /// Cards cut so that replicas are apart may have room that numbers did not count on: lets more move into it, as long
    /// as that frees cards and costs nothing that counts more.
    fn fill_up(&mut self, placement: &mut Placement) {
        let board = self.board;
        let n_cards: usize = board.sites.iter().map(|site| site.cards.len()).sum();
        for tenant in candidates(board, &placement.fates) {
            let costs = board.wishes.goal == Goal::Bill && board.undisturbed(tenant, &placement.fates) > 0;
            if costs || placement.converted.contains(&tenant) || self.left == 0 {
                continue;
            }
            self.spend(board.tenants.len() * 2 + n_cards * 4);
            let mut tally = Tally::new(board, &placement.fates);
            placement.converted.iter().chain([&tenant]).for_each(|t| {
                tally.insert(*t);
            });
            let Ok(fuller) = arrange(board, &placement.fates, &tally) else { continue };
            let better = match (score(board, &fuller), score(board, placement)) {
                (Some(then), Some(now)) => then < now,
                (then, None) => then.is_some(),
                (None, Some(_)) => false,
            };
            if better {
                *placement = fuller;
            }
        }
    }
}

/// The placement for these fates, if there is one.
///
/// Numbers choose who moves. Where places do not allow that, other choices are tried: without whoever finds no place,
/// and with more than need be.
fn lay_out(board: &Board<'_>, fates: &[Fate]) -> Option<Placement> {
    if let Some(choices) = every_choice(board, fates) {
        return choices.into_iter().take(MOST_CHOICES).find_map(|choice| {
            let mut tally = Tally::new(board, fates);
            choice.into_iter().for_each(|tenant| {
                tally.insert(tenant);
            });
            arrange(board, fates, &tally).ok()
        });
    }
    let mut stay = BTreeSet::new();
    let mut found = None;
    let mut first: Option<Tally<'_, '_>> = None;
    while let Some(tally) = convert(board, fates, &stay) {
        match arrange(board, fates, &tally) {
            Ok(placement) => {
                found = Some(placement);
                break;
            }
            Err(culprit) => {
                first.get_or_insert(tally);
                match culprit {
                    Some(tenant) if stay.len() < MOST_RETRIES && stay.insert(tenant) => {}
                    Some(_) | None => break,
                }
            }
        }
    }
    let Some(tally) = first else { return found };
    let other = with_more(board, fates, tally);
    [found, other].into_iter().flatten().min_by_key(|placement| score(board, placement))
}

/// So many choices of who moves are laid out, the best first, until one can be.
const MOST_CHOICES: usize = 16;

/// So many tenants are let stay because they find no place, before other ways are tried.
const MOST_RETRIES: usize = 8;

/// Lets more move than numbers ask for, until places allow it.
fn with_more(board: &Board<'_>, fates: &[Fate], mut tally: Tally<'_, '_>) -> Option<Placement> {
    let mut more = candidates(board, fates).into_iter();
    let mut step = 1;
    loop {
        let mut added = 0;
        for tenant in more.by_ref() {
            added += usize::from(tally.insert(tenant));
            if added == step {
                break;
            }
        }
        if added == 0 || tally.short() > 0 {
            return None;
        }
        if let Ok(placement) = arrange(board, fates, &tally) {
            return Some(placement);
        }
        step *= 2;
    }
}

/// Lays out the fates with exactly these tenants moving.
///
/// # Errors
/// Who found no place; `None` when it is not one tenant's fault.
fn arrange(board: &Board<'_>, fates: &[Fate], tally: &Tally<'_, '_>) -> Result<Placement, Option<usize>> {
    let styles = [
        Style::Tight,
        Style::ByClass,
        Style::Dealt { more: 0 },
        Style::Dealt { more: 1 },
        Style::Dealt { more: 2 },
    ];
    let mut culprit = None;
    for style in styles {
        let mut floor = Floor::new(board, fates, &tally.converted);
        let Some(cut) = floor.cut(tally, style) else { continue };
        let together = match floor.seat(tally) {
            Ok(together) => together,
            Err(who) => {
                culprit = culprit.or(who);
                if floor.n_cut() == 0 {
                    break;
                }
                continue;
            }
        };
        if let Some(placement) = placed(board, floor, tally, cut, together) {
            return Ok(placement);
        }
    }
    if board.sites.len() <= SMALL {
        let mut floor = Floor::new(board, fates, &tally.converted);
        if let Some(together) = floor.try_out(tally) {
            let cut = board.cutter.fewest_cards(&tally.to_cut()[..board.whole()]);
            return placed(board, floor, tally, cut, together).ok_or(None);
        }
    }
    Err(culprit)
}

/// The placement, if its nodes can be cut in some order.
fn placed(
    board: &Board<'_>,
    floor: Floor<'_, '_>,
    tally: &Tally<'_, '_>,
    cut: CardsNeeded,
    together: BTreeSet<usize>,
) -> Option<Placement> {
    let mut placement = Placement {
        fates: floor.fates.to_vec(),
        converted: tally.converted.clone(),
        cards: floor.cards,
        cut,
        waves: Vec::new(),
        together,
    };
    if board.wishes.max_layouts.is_some_and(|most| n_layouts(&placement) > most as usize) {
        return None;
    }
    placement.waves = waves::order(board, &placement)?;
    Some(placement)
}

/// Different layouts of cards that are cut anew.
fn n_layouts(placement: &Placement) -> usize {
    let cards = placement.with_fate(Fate::Touched).flat_map(|site| &placement.cards[site]);
    let layouts: BTreeSet<Vec<usize>> = cards
        .filter_map(|card| match card {
            Card::Cut(slots) => {
                let mut kinds: Vec<usize> = slots.iter().map(|slot| slot.kind).collect();
                kinds.sort_unstable();
                Some(kinds)
            }
            Card::Whole(_) => None,
        })
        .collect();
    layouts.len()
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

/// How good it is; `None` when nothing is gained.
fn score(board: &Board<'_>, placement: &Placement) -> Option<Score> {
    let grows = placement.converted.iter().any(|tenant| board.tenants[*tenant].must_move);
    let busy = board.busy(&placement.cards, &placement.converted);
    let (first, gains) = match board.wishes.goal {
        Goal::Bill => {
            let kept = board.sites.iter().zip(&placement.fates).filter(|(_, fate)| **fate != Fate::Freed);
            (kept.map(|(site, _)| site.cost).sum(), placement.fates.contains(&Fate::Freed))
        }
        Goal::Capacity => {
            let today: Vec<Vec<Card>> = board.sites.iter().map(|site| site.cards.clone()).collect();
            (i64::from(busy), busy < board.busy(&today, &BTreeSet::new()))
        }
    };
    let touched = placement.with_fate(Fate::Touched).count();
    let restarts = board.restarts(&placement.converted, &placement.fates);
    let by_name = placement.fates.iter().map(|fate| match fate {
        Fate::Touched => 0,
        Fate::Untouched => 1,
        Fate::Freed => 2,
    });
    (gains || grows).then(|| (first, touched, restarts, busy, placement.converted.len(), by_name.collect()))
}
