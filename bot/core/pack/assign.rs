//! From numbers to a plan: which node has which fate, what its cards are cut into, and who sits where.
//!
//! The numbers are right already (`search`); here nothing is weighed any more except how to keep replicas apart.

use std::collections::{BTreeMap, BTreeSet};

use super::fleet::{Fleet, card_slots};
use super::geometry::Layout;
use super::limited::{Substitution, limited};
use super::search::Choice;
use super::{CardPlan, CardState, Fate, NodePlan, PlacedSlice, Problem, Spread};

/// One slot of the plan: node, card, slice.
pub(super) type Place = (usize, usize, usize);

/// The slots of a plan while they are filled.
#[derive(Clone, Debug)]
pub(super) struct Seats<'a> {
    pub(super) problem: &'a Problem,
    pub(super) nodes: Vec<NodePlan>,
    /// Slots without a replica, by type.
    pub(super) free: Vec<BTreeSet<Place>>,
    /// Where the replicas of each item are.
    pub(super) places: Vec<BTreeSet<Place>>,
    /// Places whose replica has not moved.
    pub(super) stayed: BTreeSet<Place>,
    /// Replicas that restart.
    pub(super) restarts: i64,
    /// Free slots of each type or larger that must remain: for rolling updates and spare cards.
    pub(super) must_stay_free: Vec<i64>,
}

/// The cards that the cuts need beyond those that are there: only with an unknown table or few layouts.
pub(super) struct Short;

/// How cuts are laid over the touched nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Equal cuts side by side, as few cards as possible: few different nodes, and whole cards stay idle.
    Tight,
    /// Cuts dealt out over all touched nodes, idle cards cut like the others: room to keep replicas apart.
    Wide,
}

/// Lays the choice out and keeps replicas apart; the error inside is the first workload that could not be.
pub(super) fn seat<'a>(
    problem: &'a Problem,
    fleet: &Fleet,
    choice: &Choice,
) -> Result<(Seats<'a>, Result<(), usize>), Short> {
    let mut tight = assign(problem, fleet, choice, Style::Tight)?;
    let apart = tight.spread();
    tight.recount();
    if apart.is_ok() && tight.restarts <= choice.restarts {
        return Ok((tight, apart));
    }
    let mut wide = assign(problem, fleet, choice, Style::Wide)?;
    let wide_apart = wide.spread();
    wide.recount();
    let better = wide_apart.is_ok() && (apart.is_err() || wide.restarts < tight.restarts);
    Ok(if better { (wide, wide_apart) } else { (tight, apart) })
}

fn assign<'a>(
    problem: &'a Problem,
    fleet: &Fleet,
    choice: &Choice,
    style: Style,
) -> Result<Seats<'a>, Short> {
    let fates = fates(problem, fleet, choice);
    let mut cards = pool_cards(problem, fleet, choice)?;
    if style == Style::Wide {
        widen(&mut cards, choice);
    }
    let mut seats = Seats {
        problem,
        nodes: Vec::with_capacity(problem.nodes.len()),
        free: vec![BTreeSet::new(); problem.geometry.whole() + 1],
        places: vec![BTreeSet::new(); problem.items.len()],
        stayed: BTreeSet::new(),
        restarts: 0,
        must_stay_free: fleet.reserve.iter().map(|r| r + choice.idle).collect(),
    };
    let mut left = plan_nodes(problem, &fates, cards, style);
    for (n, node) in problem.nodes.iter().enumerate() {
        let cards = std::mem::take(&mut left[n]);
        seats.nodes.push(NodePlan { id: node.id.clone(), fate: fates[n], cards });
    }
    seats.seat_stayers(fleet, choice);
    seats.seat_movers();
    Ok(seats)
}

/// The nodes of each group in order of their ids: untouched first, freed last.
fn fates(problem: &Problem, fleet: &Fleet, choice: &Choice) -> Vec<Fate> {
    let mut fates = vec![Fate::Untouched; problem.nodes.len()];
    for (group, f) in fleet.groups.iter().zip(&choice.fates) {
        let mut left = *f;
        for n in &group.nodes {
            fates[*n] = if left.untouched > 0 {
                left.untouched -= 1;
                Fate::Untouched
            } else if left.touched > 0 {
                left.touched -= 1;
                Fate::Touched
            } else {
                Fate::Freed
            };
        }
    }
    fates
}

/// Cuts idle cards like the others, in turn, as long as enough stay whole.
fn widen(cards: &mut Vec<CardPlan>, choice: &Choice) {
    let mut distinct = cards.clone();
    distinct.dedup();
    let n_whole = choice.missing.last().copied().unwrap_or(0).max(0);
    let surplus = choice.pool - super::fleet::count(cards.len()) - n_whole;
    let more = distinct.iter().cycle().take(usize::try_from(surplus).unwrap_or(0)).cloned();
    cards.extend(more.collect::<Vec<_>>());
}

/// What the touched cards become, in the order in which nodes take them; further cards stay whole and idle.
fn pool_cards(problem: &Problem, fleet: &Fleet, choice: &Choice) -> Result<Vec<CardPlan>, Short> {
    let whole = problem.geometry.whole();
    let slots = fleet.pool_slots(&choice.missing);
    let mut n_whole = slots[whole];
    let mut layouts = fleet.cutter.fewest_along_chain(&slots).layouts;
    if let Some(most) = problem.rules.max_layouts
        && layouts.len() > usize::try_from(most).unwrap_or(usize::MAX)
    {
        let few = limited(&problem.geometry, &slots, most.max(1), Substitution::Larger).ok_or(Short)?;
        n_whole = few.whole;
        layouts = few.layouts;
    }
    let n_cut: u32 = layouts.iter().map(|(_, n)| n).sum();
    if i64::from(n_cut) + i64::from(n_whole) > choice.pool {
        return Err(Short);
    }
    let mut cards = Vec::new();
    for (layout, n) in layouts {
        let card = cut(problem, &layout);
        cards.extend(std::iter::repeat_n(card, usize::try_from(n).unwrap_or(0)));
    }
    Ok(cards)
}

fn cut(problem: &Problem, layout: &Layout) -> CardPlan {
    let mut placed = problem.geometry.place(&layout.counts).unwrap_or_default();
    placed.sort_unstable_by_key(|(_, start)| *start);
    CardPlan::Cut(
        placed.into_iter().map(|(slice_type, start)| PlacedSlice { slice_type, start, item: None }).collect(),
    )
}

/// The cards of every node after the change, nobody in them yet.
fn plan_nodes(problem: &Problem, fates: &[Fate], pool: Vec<CardPlan>, style: Style) -> Vec<Vec<CardPlan>> {
    let mut order: Vec<usize> = (0..problem.nodes.len()).collect();
    order.sort_by(|a, b| problem.nodes[*a].id.cmp(&problem.nodes[*b].id));
    let touched = order.iter().copied().filter(|n| fates[*n] == Fate::Touched);
    let mut places: Vec<(usize, usize)> =
        touched.flat_map(|n| (0..problem.nodes[n].cards.len()).map(move |c| (n, c))).collect();
    if style == Style::Wide {
        places.sort_by_key(|(_, card)| *card);
    }
    let mut planned: Vec<Vec<CardPlan>> = problem
        .nodes
        .iter()
        .zip(fates)
        .map(|(node, fate)| match fate {
            Fate::Freed => Vec::new(),
            Fate::Touched => vec![CardPlan::Whole { item: None }; node.cards.len()],
            Fate::Untouched => node.cards.iter().map(|card| unchanged(problem, card)).collect(),
        })
        .collect();
    for ((n, c), card) in places.into_iter().zip(pool) {
        planned[n][c] = card;
    }
    planned
}

/// A card as it is, its slices in their present order, at places where they can be.
fn unchanged(problem: &Problem, card: &CardState) -> CardPlan {
    match card {
        CardState::Whole { .. } => CardPlan::Whole { item: None },
        CardState::Cut(slices) => {
            let mut counts = vec![0; problem.geometry.whole()];
            slices.iter().for_each(|(t, _)| counts[*t] += 1);
            let mut placed = problem.geometry.place(&counts).unwrap_or_default();
            placed.sort_unstable_by_key(|(_, start)| *start);
            let mut take = |slice_type: usize| {
                let at = placed.iter().position(|(t, _)| *t == slice_type);
                at.map_or(0, |at| placed.remove(at).1)
            };
            CardPlan::Cut(
                slices
                    .iter()
                    .map(|(slice_type, _)| PlacedSlice {
                        slice_type: *slice_type,
                        start: take(*slice_type),
                        item: None,
                    })
                    .collect(),
            )
        }
    }
}

impl Seats<'_> {
    /// The type of a slot.
    pub(super) fn slot(&self, place: Place) -> usize {
        match &self.nodes[place.0].cards[place.1] {
            CardPlan::Whole { .. } => self.problem.geometry.whole(),
            CardPlan::Cut(slices) => slices[place.2].slice_type,
        }
    }

    /// Who sits there.
    pub(super) fn at(&mut self, place: Place) -> &mut Option<usize> {
        match &mut self.nodes[place.0].cards[place.1] {
            CardPlan::Whole { item } => item,
            CardPlan::Cut(slices) => &mut slices[place.2].item,
        }
    }

    pub(super) fn sit(&mut self, place: Place, item: usize) {
        let slot = self.slot(place);
        self.free[slot].remove(&place);
        self.places[item].insert(place);
        *self.at(place) = Some(item);
    }

    pub(super) fn leave(&mut self, place: Place) {
        if let Some(item) = self.at(place).take() {
            self.places[item].remove(&place);
        }
        let slot = self.slot(place);
        self.free[slot].insert(place);
    }

    /// Where replicas must not all be together: the node, or the card.
    pub(super) fn spot(&self, place: Place) -> (usize, usize) {
        match self.problem.rules.spread {
            Spread::Gpu => (place.0, place.1),
            Spread::Node | Spread::None => (place.0, 0),
        }
    }

    /// Cards of kept nodes less the whole cards that neither replicas nor rolling updates use.
    pub(super) fn busy_cards(&self, fleet: &Fleet) -> i64 {
        let cards: usize = self.nodes.iter().map(|n| n.cards.len()).sum();
        let free = |p: usize| self.free[p..].iter().map(BTreeSet::len).sum::<usize>();
        let idle = fleet.reserve.iter().enumerate().map(|(p, r)| super::fleet::count(free(p)) - r);
        super::fleet::count(cards) - idle.min().unwrap_or(0).max(0)
    }

    /// Counts restarts again: a replica that left can end in a slot of its card that is just like the old one.
    fn recount(&mut self) {
        let mut restarts = 0i64;
        for (n, node) in self.problem.nodes.iter().enumerate() {
            for (c, card) in node.cards.iter().enumerate() {
                let today = card_slots(self.problem, card);
                let mut held: BTreeMap<(usize, usize), i64> = BTreeMap::new();
                for (slot, item) in &today {
                    if let Some(item) = item {
                        *held.entry((*slot, *item)).or_default() += 1;
                    }
                }
                if self.nodes[n].fate == Fate::Untouched {
                    for (s, (slot, _)) in today.iter().enumerate() {
                        if let Some(item) = self.held_by((n, c, s))
                            && let Some(left) = held.get_mut(&(*slot, item))
                        {
                            *left = (*left - 1).max(0);
                        }
                    }
                }
                restarts += held.values().sum::<i64>();
            }
        }
        self.restarts = restarts;
    }

    fn held_by(&self, place: Place) -> Option<usize> {
        match &self.nodes[place.0].cards[place.1] {
            CardPlan::Whole { item } => *item,
            CardPlan::Cut(slices) => slices[place.2].item,
        }
    }

    /// Replicas that a plan has to hold: a workload never shrinks here.
    fn planned(&self, item: usize, present: u32) -> u32 {
        self.problem.items[item].planned.max(present)
    }

    fn seat_stayers(&mut self, fleet: &Fleet, choice: &Choice) {
        let mut apart = fleet.huddled.clone();
        let mut must_leave: BTreeMap<(usize, usize), i64> =
            choice.leaves.iter().map(|(slot, own, n)| ((*slot, *own), *n)).collect();
        let problem = self.problem;
        let whole = problem.geometry.whole();
        let mut order: Vec<usize> = (0..problem.nodes.len()).collect();
        order.sort_by(|a, b| problem.nodes[*b].id.cmp(&problem.nodes[*a].id));
        for n in order {
            let node = &problem.nodes[n];
            if self.nodes[n].fate == Fate::Untouched {
                for (c, card) in node.cards.iter().enumerate() {
                    for (s, (slot, item)) in card_slots(problem, card).into_iter().enumerate() {
                        self.free[slot].insert((n, c, s));
                        let Some(item) = item else { continue };
                        let own = problem.items[item].slot;
                        if let Some(at) = apart[n].iter().position(|h| *h == item) {
                            apart[n].swap_remove(at);
                            self.restarts += 1;
                            continue;
                        }
                        let asked = must_leave.get_mut(&(slot, own)).filter(|n| **n > 0);
                        match asked {
                            Some(asked) if !node.frozen => {
                                *asked -= 1;
                                self.restarts += 1;
                            }
                            Some(_) | None if own > slot && !node.frozen => self.restarts += 1,
                            Some(_) | None => {
                                self.sit((n, c, s), item);
                                self.stayed.insert((n, c, s));
                            }
                        }
                    }
                }
            } else {
                for (c, card) in self.nodes[n].cards.iter().enumerate() {
                    match card {
                        CardPlan::Whole { .. } => {
                            self.free[whole].insert((n, c, 0));
                        }
                        CardPlan::Cut(slices) => {
                            for (s, slice) in slices.iter().enumerate() {
                                self.free[slice.slice_type].insert((n, c, s));
                            }
                        }
                    }
                }
                let held = super::fleet::slots(problem, n).iter().filter(|s| s.1.is_some()).count();
                self.restarts += super::fleet::count(held);
            }
        }
    }

    fn seat_movers(&mut self) {
        let mut present = vec![0u32; self.problem.items.len()];
        for n in 0..self.problem.nodes.len() {
            for (_, item) in super::fleet::slots(self.problem, n) {
                if let Some(item) = item {
                    present[item] += 1;
                }
            }
        }
        // The largest types first, each into the smallest slot that will do: by Hall's theorem all find a seat.
        let items = &self.problem.items;
        let mut order: Vec<usize> = (0..items.len()).collect();
        order.sort_by(|a, b| {
            items[*b].slot.cmp(&items[*a].slot).then_with(|| items[*a].key.cmp(&items[*b].key))
        });
        for item in order {
            let wanted = usize::try_from(self.planned(item, present[item])).unwrap_or(usize::MAX);
            while self.places[item].len() < wanted {
                let Some(place) = self.seat_for(item) else { break };
                self.sit(place, item);
            }
        }
    }

    /// A free slot of the smallest type that will do; away from the first replica if there is one.
    fn seat_for(&self, item: usize) -> Option<Place> {
        let own = self.problem.items[item].slot;
        let free = self.free[own..].iter().find(|f| !f.is_empty())?;
        let together = self.together(item);
        free.iter()
            .find(|p| together.is_none_or(|spot| self.spot(**p) != spot))
            .or_else(|| free.first())
            .copied()
    }

    /// The one spot where all replicas of an item sit so far, when it has any and must be spread.
    pub(super) fn together(&self, item: usize) -> Option<(usize, usize)> {
        if self.problem.rules.spread == Spread::None {
            return None;
        }
        let mut spots = self.places[item].iter().map(|p| self.spot(*p));
        let first = spots.next()?;
        spots.all(|s| s == first).then_some(first)
    }
}
