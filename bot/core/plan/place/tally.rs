//! Whether a choice of fates can hold everybody, while tenants are let move and stay again.
//!
//! Those that move get a slot for every planned replica and for their rolling updates. For the others the plan must not
//! make it worse: what autoscalers and rolling updates may want stays free as far as it is free today.

use std::collections::{BTreeMap, BTreeSet};

use super::board::Board;
use super::{Card, count};
use crate::pack::Fate;

/// Surges with how many tenants have each.
type Surges = BTreeMap<u32, u32>;

/// Running sums over the tenants for fixed fates.
pub(super) struct Tally<'b, 'a> {
    board: &'b Board<'a>,
    pub(super) converted: BTreeSet<usize>,
    /// Slots on sites that are left alone, by type and, last, whole cards.
    supply: Vec<u32>,
    touched_cards: u32,
    /// Cards of sites that are left alone and are cut already.
    cut_already: u32,
    firm: Vec<u32>,
    wished: Vec<u32>,
    moving: Vec<Surges>,
    staying: Vec<Surges>,
    /// Whole cards that autoscalers may add for tenants that keep them.
    missing_whole: u32,
}

impl<'b, 'a> Tally<'b, 'a> {
    /// Nobody moves.
    pub(super) fn new(board: &'b Board<'a>, fates: &[Fate]) -> Self {
        let n = board.whole() + 1;
        let mut supply = vec![0u32; n];
        let (mut touched_cards, mut cut_already) = (0, 0);
        for ((site, slots), fate) in board.sites.iter().zip(&board.slots).zip(fates) {
            match fate {
                Fate::Untouched => {
                    supply.iter_mut().zip(slots).for_each(|(sum, n)| *sum += n);
                    cut_already += count(site.cards.iter().filter(|c| matches!(c, Card::Cut(_))).count());
                }
                Fate::Touched => touched_cards += count(site.cards.len()),
                Fate::Freed => {}
            }
        }
        let mut tally = Self {
            board,
            converted: BTreeSet::new(),
            supply,
            touched_cards,
            cut_already,
            firm: vec![0; n],
            wished: vec![0; n],
            moving: vec![Surges::new(); n],
            staying: vec![Surges::new(); n],
            missing_whole: 0,
        };
        for tenant in 0..board.tenants.len() {
            tally.stays(tenant, true);
        }
        tally
    }

    /// Lets a tenant move; false if it did already.
    pub(super) fn insert(&mut self, tenant: usize) -> bool {
        let new = self.converted.insert(tenant);
        if new {
            self.stays(tenant, false);
            self.moves(tenant, true);
        }
        new
    }

    /// Lets a tenant stay; false if it did already.
    pub(super) fn remove(&mut self, tenant: usize) -> bool {
        let was = self.converted.remove(&tenant);
        if was {
            self.moves(tenant, false);
            self.stays(tenant, true);
        }
        was
    }

    fn stays(&mut self, tenant: usize, more: bool) {
        let (slot, surge) = (self.board.tenants[tenant].now, self.board.tenants[tenant].max_surge);
        let missing = self.board.missing(tenant);
        add(&mut self.firm[slot], self.board.present(tenant), more);
        add(&mut self.wished[slot], missing, more);
        if slot == self.board.whole() {
            add(&mut self.missing_whole, missing, more);
        }
        count_surge(&mut self.staying[slot], surge, more);
    }

    fn moves(&mut self, tenant: usize, more: bool) {
        let t = &self.board.tenants[tenant];
        let slot = t.target.unwrap_or(t.now);
        add(&mut self.firm[slot], t.planned.max(self.board.present(tenant)), more);
        count_surge(&mut self.moving[slot], t.max_surge, more);
    }

    /// The sum of the largest surges that may happen at once.
    fn at_once(&self, surges: &Surges) -> u32 {
        let mut left = self.board.wishes.concurrent_rollouts;
        let mut sum = 0u32;
        for (surge, n) in surges.iter().rev() {
            let n = left.min(*n);
            sum = sum.saturating_add(surge.saturating_mul(n));
            left -= n;
            if left == 0 {
                break;
            }
        }
        sum
    }

    /// Slots a type that must be free for rolling updates and autoscalers and, last, whole cards that must be idle.
    pub(super) fn reserve(&self) -> Vec<u32> {
        (0..self.firm.len())
            .map(|slot| {
                let wished = self.wished[slot].saturating_add(self.at_once(&self.staying[slot]));
                let spare = if slot == self.board.whole() { self.board.wishes.spare_cards } else { 0 };
                let kept = wished.min(self.board.free_today[slot]);
                self.at_once(&self.moving[slot]).saturating_add(kept).saturating_add(spare)
            })
            .collect()
    }

    /// What has to come from touched cards: slots a type and, last, whole cards.
    pub(super) fn to_cut(&self) -> Vec<u32> {
        let needed = self.firm.iter().zip(self.reserve()).map(|(firm, reserve)| firm.saturating_add(reserve));
        needed.zip(&self.supply).map(|(needed, have)| needed.saturating_sub(*have)).collect()
    }

    fn new_cuts(&self, slots: &[u32]) -> u32 {
        let slices = &slots[..self.board.whole()];
        if slices.iter().all(|n| *n == 0) { 0 } else { self.board.cutter.bound(slices) }
    }

    /// Cards short; 0 or less: there are enough, as far as numbers tell.
    pub(super) fn short(&self) -> i64 {
        let slots = self.to_cut();
        let whole = slots[self.board.whole()];
        i64::from(self.new_cuts(&slots)) + i64::from(whole) - i64::from(self.touched_cards)
    }

    /// Cards that pods hold, that autoscalers may add, or that are cut then.
    pub(super) fn busy(&self) -> u32 {
        let held = self.firm[self.board.whole()].saturating_add(self.missing_whole);
        held + self.cut_already + self.new_cuts(&self.to_cut())
    }
}

fn add(sum: &mut u32, n: u32, more: bool) {
    *sum = if more { sum.saturating_add(n) } else { sum.saturating_sub(n) };
}

fn count_surge(surges: &mut Surges, surge: u32, more: bool) {
    if surge == 0 {
        return;
    }
    let n = surges.entry(surge).or_insert(0);
    add(n, 1, more);
    if *n == 0 {
        surges.remove(&surge);
    }
}
