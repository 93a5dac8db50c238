//! Seats pods one after the other and cuts as it goes, taking back what leads nowhere.
//!
//! Exact as far as its steps go, and slow: for small pools in which cutting first and seating then finds no way.

use std::collections::{BTreeMap, BTreeSet};

use super::seat::Floor;
use super::tally::Tally;
use super::{Card, count};
use crate::pack::Fate;
use crate::pack::geometry::Layout;

/// Steps of one try-out. Twice as many let it find its way through pools of one or two pods more.
const STEPS: usize = 3_000;

/// A pod to seat, or room that has to stay free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pod {
    tenant: Option<usize>,
    slot: usize,
}

/// One card of a touched node: who sits in slices of it.
type Cut = Vec<Pod>;

struct Tryout<'f, 'b, 'a> {
    floor: &'f mut Floor<'b, 'a>,
    tally: &'f Tally<'b, 'a>,
    pods: Vec<Pod>,
    cuts: BTreeMap<(usize, usize), Cut>,
    steps: usize,
    /// Cards that may be cut at most; `None`: as many as it takes.
    most_cut: Option<u32>,
}

impl<'b, 'a> Floor<'b, 'a> {
    /// Seats everybody on at most so many cards that are cut anew, if a way is found within the steps; gives who sits
    /// together as today although it should not.
    pub(super) fn try_out(
        &mut self,
        tally: &Tally<'b, 'a>,
        most_cut: Option<u32>,
        effort: &mut usize,
    ) -> Option<BTreeSet<usize>> {
        let board = self.board;
        let mut pods = Vec::new();
        for tenant in 0..board.tenants.len() {
            let pod = Pod { tenant: Some(tenant), slot: board.slot_of(tenant, &tally.converted) };
            pods.extend((0..self.seats(tenant, &tally.converted)).map(|_| pod));
        }
        for (slot, reserve) in tally.reserve().into_iter().enumerate() {
            pods.extend((0..reserve).map(|_| Pod { tenant: None, slot }));
        }
        let sites = |pod: &Pod| match pod.tenant {
            Some(tenant) => board.tenants[tenant].sites.len(),
            None => usize::MAX,
        };
        pods.sort_by_key(|pod| (sites(pod), std::cmp::Reverse(pod.slot), pod.tenant));
        let steps = STEPS.min(*effort);
        let mut tryout = Tryout { floor: self, tally, pods, cuts: BTreeMap::new(), steps, most_cut };
        let together = tryout.seat_from(0, (0, 0));
        let (cuts, left) = (tryout.cuts, tryout.steps);
        *effort = effort.saturating_sub(steps - left);
        let together = together?;
        self.clear_nobody();
        for ((node, card), cut) in cuts {
            self.finish(node, card, &cut)?;
        }
        Some(together)
    }

    /// Fills the cut up to a whole layout and writes down who sits where.
    fn finish(&mut self, node: usize, card: usize, cut: &Cut) -> Option<()> {
        let mut counts = vec![0u32; self.board.whole()];
        for pod in cut {
            counts[pod.slot] += 1;
        }
        self.lay((node, card), &self.board.cutter.completed(Layout { counts }))?;
        if let Card::Cut(slots) = &mut self.cards[node][card] {
            for pod in cut.iter().filter(|pod| pod.tenant.is_some()) {
                let slot = slots.iter_mut().find(|slot| slot.kind == pod.slot && slot.holder.is_none())?;
                slot.holder = pod.tenant;
            }
        }
        Some(())
    }
}

impl Tryout<'_, '_, '_> {
    /// Seats the pods from `at` on. Equal pods are seated in the order of places, so that no way is tried twice.
    fn seat_from(&mut self, at: usize, first: (usize, usize)) -> Option<BTreeSet<usize>> {
        let Some(pod) = self.pods.get(at).copied() else { return self.judge() };
        let same = |next: Option<&Pod>| next == Some(&pod);
        for node in first.0..self.floor.cards.len() {
            if let Some(tenant) = pod.tenant
                && !self.floor.may_sit(tenant, node)
            {
                continue;
            }
            let start = if node == first.0 { first.1 } else { 0 };
            for card in start..self.floor.cards[node].len() {
                self.steps = self.steps.checked_sub(1)?;
                if !self.sit(pod, node, card) {
                    continue;
                }
                let next = if same(self.pods.get(at + 1)) { (node, card) } else { (0, 0) };
                if let Some(together) = self.seat_from(at + 1, next) {
                    return Some(together);
                }
                self.rise(pod, node, card);
            }
        }
        None
    }

    /// Takes a place on the card, if there is one.
    fn sit(&mut self, pod: Pod, node: usize, card: usize) -> bool {
        let touched = self.floor.fates[node] == Fate::Touched;
        let board = self.floor.board;
        if pod.slot < board.whole() && touched {
            let another = !self.cuts.contains_key(&(node, card));
            if another && self.most_cut.is_some_and(|most| count(self.cuts.len()) >= most) {
                return false;
            }
            let cut = self.cuts.entry((node, card)).or_default();
            let held = self.floor.cards[node][card].in_use();
            cut.push(pod);
            let mut counts = vec![0u32; board.whole()];
            for pod in cut.iter() {
                counts[pod.slot] += 1;
            }
            if held || !board.geometry.feasible(&counts) {
                cut.pop();
                if cut.is_empty() {
                    self.cuts.remove(&(node, card));
                }
                return false;
            }
        } else if self.cuts.contains_key(&(node, card))
            || !self.floor.hold(pod.tenant, pod.slot, (node, card))
        {
            return false;
        }
        if let Some(tenant) = pod.tenant {
            self.floor.note(tenant, (node, card), true);
        }
        true
    }

    fn rise(&mut self, pod: Pod, node: usize, card: usize) {
        let whole = self.floor.board.whole();
        match self.cuts.get_mut(&(node, card)) {
            Some(cut) if pod.slot < whole => {
                cut.pop();
                if cut.is_empty() {
                    self.cuts.remove(&(node, card));
                }
            }
            Some(_) | None => self.floor.release(pod.tenant, pod.slot, (node, card)),
        }
        if let Some(tenant) = pod.tenant {
            self.floor.note(tenant, (node, card), false);
        }
    }

    /// Everybody is apart as asked.
    fn judge(&self) -> Option<BTreeSet<usize>> {
        let board = self.floor.board;
        let moved = |tenant: &usize| self.floor.seats(*tenant, &self.tally.converted) > 0;
        let huddled: BTreeSet<usize> =
            (0..board.tenants.len()).filter(moved).filter(|tenant| self.floor.huddles(*tenant)).collect();
        huddled.iter().all(|tenant| self.floor.may_huddle(*tenant)).then_some(huddled)
    }
}
