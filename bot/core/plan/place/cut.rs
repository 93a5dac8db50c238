//! Cuts the cards of touched nodes: as few as possible, where the pods that need the slices may run.
//!
//! Workloads that may run on the same nodes are one class. The cuts are those that hold everybody on the fewest cards;
//! classes choose among them in turn, those with the fewest nodes first. Where that leaves one without, each class is
//! cut for on its own, and only what is left over in its cuts is there for the next.

use std::collections::{BTreeMap, BTreeSet};

use super::board::Board;
use super::seat::Floor;
use super::tally::Tally;
use super::{Card, Slot, count, layouts_of};
use crate::pack::Fate;
use crate::pack::cards::CardsNeeded;
use crate::pack::geometry::Layout;
use crate::pack::limited::{Substitution, limited};

/// How cuts are laid over the touched nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Equal cuts side by side on the first nodes: few different nodes, and whole cards stay idle.
    Tight,
    /// Cuts dealt out over the nodes, and so many cards more cut like the others: room to keep replicas apart.
    Dealt {
        /// Cards beyond those that are needed.
        more: usize,
    },
    /// As `Tight`, each class of workloads on its own.
    ByClass,
}

/// The layouts for these slots: as few cards as possible, within the limit on layouts. `None`: the limit forbids it.
pub(super) fn layouts(board: &Board<'_>, slices: &[u32]) -> Option<Vec<(Layout, u32)>> {
    let best = board.cutter.fewest_cards(slices).layouts;
    match board.most_layouts {
        Some(most) if best.len() > most => {
            let few = limited(board.geometry, slices, count(most), Substitution::None)?;
            (few.whole == 0).then_some(few.layouts)
        }
        Some(_) | None => Some(best),
    }
}

/// Takes the layout that serves most of these slots, the more frequent of equals.
fn take_best(left: &mut [(Layout, u32)], slices: &[u32]) -> Option<Layout> {
    let serves = |layout: &Layout| -> u32 { layout.counts.iter().zip(slices).map(|(n, s)| *n.min(s)).sum() };
    let (layout, n) = left
        .iter_mut()
        .filter(|(layout, n)| *n > 0 && serves(layout) > 0)
        .reduce(|a, b| if serves(&b.0) > serves(&a.0) { b } else { a })?;
    *n -= 1;
    Some(layout.clone())
}

impl Floor<'_, '_> {
    /// Cuts cards for everybody who gets a slice; `None` when the touched cards are too few or in the wrong place.
    pub(super) fn cut(&mut self, tally: &Tally<'_, '_>, style: Style) -> Option<CardsNeeded> {
        let whole = self.board.whole();
        let total = tally.to_cut();
        let mut open: Vec<(usize, usize)> = self
            .kept_with(Fate::Touched)
            .flat_map(|node| (0..self.cards[node].len()).map(move |card| (node, card)))
            .collect();
        if matches!(style, Style::Dealt { .. }) {
            open.sort_by_key(|(node, card)| (*card, *node));
        }
        let needed = self.board.cutter.fewest_cards(&total[..whole]);
        let joint = layouts(self.board, &total[..whole])?;
        let mut left: Vec<(Layout, u32)> = if style == Style::ByClass { Vec::new() } else { joint.clone() };
        for (sites, mut slices) in self.classes(tally) {
            for node in &sites {
                self.promise(*node, &mut slices);
            }
            if style == Style::ByClass {
                left = layouts(self.board, &slices)?;
            }
            while slices.iter().any(|n| *n > 0) {
                let at = open.iter().position(|(node, _)| sites.contains(node))?;
                let layout = take_best(&mut left, &slices)?;
                let place = open.remove(at);
                self.lay(place, &layout)?;
                self.promise(place.0, &mut slices);
            }
        }
        if let Style::Dealt { more } = style {
            for (layout, _) in joint.iter().cycle().take(if joint.is_empty() { 0 } else { more }) {
                let place = (!open.is_empty()).then(|| open.remove(0))?;
                self.lay(place, layout)?;
            }
        }
        // Classes that were cut each on its own know nothing of each other's layouts.
        self.few_layouts().then_some(needed)
    }

    /// Cards are cut in no more different ways than the pool allows.
    fn few_layouts(&self) -> bool {
        self.board.most_layouts.is_none_or(|most| layouts_of(self.cards.iter().flatten()).len() <= most)
    }

    /// Cuts one card.
    pub(super) fn lay(&mut self, (node, card): (usize, usize), layout: &Layout) -> Option<()> {
        let placed = self.board.geometry.place(&layout.counts)?;
        let slots = placed.into_iter().map(|(kind, start)| Slot { kind, start, holder: None }).collect();
        self.cards[node][card] = Card::Cut(slots);
        Some(())
    }

    /// What each class needs, the class with the fewest nodes first.
    fn classes(&self, tally: &Tally<'_, '_>) -> Vec<(BTreeSet<usize>, Vec<u32>)> {
        let board = self.board;
        let mut classes: BTreeMap<&BTreeSet<usize>, Vec<u32>> = BTreeMap::new();
        let mut widest: Vec<Option<(u32, &BTreeSet<usize>)>> = vec![None; board.whole()];
        for (tenant, t) in board.tenants.iter().enumerate() {
            let slot = board.slot_of(tenant, &tally.converted);
            let seats = self.seats(tenant, &tally.converted);
            if slot == board.whole() || seats == 0 {
                continue;
            }
            let slices = classes.entry(&t.sites).or_insert_with(|| vec![0; board.whole()]);
            slices[slot] = slices[slot].saturating_add(seats);
            if widest[slot].is_none_or(|(surge, _)| t.max_surge > surge) {
                widest[slot] = Some((t.max_surge, &t.sites));
            }
        }
        // Room for rolling updates goes where the workload that needs most of it may run.
        for (slot, reserve) in tally.reserve().into_iter().take(board.whole()).enumerate() {
            if let Some((_, sites)) = widest[slot]
                && let Some(slices) = classes.get_mut(sites)
            {
                slices[slot] = slices[slot].saturating_add(reserve);
            }
        }
        let mut classes: Vec<(BTreeSet<usize>, Vec<u32>)> =
            classes.into_iter().map(|(sites, slices)| (sites.clone(), slices)).collect();
        classes.sort_by_key(|(sites, _)| sites.len());
        classes
    }

    /// Serves a class from slots of the node that are free and nobody else's.
    fn promise(&mut self, node: usize, slices: &mut [u32]) {
        let free = self.free_on(node);
        for (kind, wanted) in slices.iter_mut().enumerate() {
            let n = free[kind].saturating_sub(self.promised[node][kind]).min(*wanted);
            *wanted -= n;
            self.promised[node][kind] += n;
        }
    }

    /// Free slots of a node by slice type.
    fn free_on(&self, node: usize) -> Vec<u32> {
        let mut free = vec![0u32; self.board.whole()];
        for card in &self.cards[node] {
            if let Card::Cut(slots) = card {
                for slot in slots.iter().filter(|slot| slot.holder.is_none()) {
                    free[slot.kind] += 1;
                }
            }
        }
        free
    }

    /// Cards of touched nodes that are cut.
    pub(super) fn n_cut(&self) -> u32 {
        let cut = self.kept_with(Fate::Touched).flat_map(|node| &self.cards[node]);
        count(cut.filter(|card| matches!(card, Card::Cut(_))).count())
    }
}
