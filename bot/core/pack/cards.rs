//! The fewest cards that hold a demand, and what to cut them into.
//!
//! Looks at counts alone; who sits in which slice of which node is decided beside it.

use std::collections::BTreeMap;

use super::certificate::Certificate;
use super::geometry::{Geometry, Layout};
use super::rows::{Row, Rows};
use super::{Item, Rules, Spread, demand_with_surge};

/// The fewest cards for a demand.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct CardsNeeded {
    /// Cut and whole together.
    pub n_cards: u32,
    /// Why not fewer.
    pub certificate: Certificate,
    /// What the cut cards are cut into, most frequent first; whole cards are in the certificate.
    pub layouts: Vec<(Layout, u32)>,
}

/// A geometry with everything that is computed from it once.
#[derive(Clone, Debug)]
pub(crate) struct Cutter<'a> {
    pub(super) geometry: &'a Geometry,
    /// Limits of slices that serve exactly their own type.
    pub(super) rows: Rows,
    /// Limits of slices that may serve smaller types too.
    pub(super) chain: Rows,
    pub(super) maximal: Vec<Layout>,
}

/// The fewest cards for `demand`: slots per slice type and, last, whole cards; no larger slice stands in for a smaller
/// one. Only `+me` makes that a difference: a card has one of them and four of the next larger type.
///
/// On known tables the closed form says how many and peeling finds the cuts; on any other table a search does.
pub fn fewest_cards(geometry: &Geometry, demand: &[u32]) -> CardsNeeded {
    Cutter::new(geometry).fewest_cards(demand)
}

/// The fewest cards for these workloads, in slices of their type or larger ones: surge included, and two cards at least
/// when replicas must be apart.
pub fn fewest_cards_for(geometry: &Geometry, items: &[Item], rules: &Rules) -> CardsNeeded {
    let cutter = Cutter::new(geometry);
    let demand = demand_with_surge(geometry.whole(), items, rules.concurrent_rollouts);
    let mut needed = cutter.fewest_along_chain(&demand);
    let apart = rules.spread != Spread::None && items.iter().any(|i| i.planned >= 2);
    if apart && needed.n_cards < 2 {
        if let Some((_, n)) = needed.layouts.first_mut() {
            *n += 1;
        }
        needed.n_cards += 1;
    }
    needed
}

impl<'a> Cutter<'a> {
    pub(crate) fn new(geometry: &'a Geometry) -> Self {
        let rows = Rows::new(geometry);
        let chain = rows.along_chain();
        Self { geometry, rows, chain, maximal: geometry.maximal_layouts() }
    }

    /// Each slice serves exactly its own type.
    pub(crate) fn fewest_cards(&self, demand: &[u32]) -> CardsNeeded {
        let (counts, whole) = self.split(demand);
        let (layouts, searched) = self.cuts(&counts);
        let n_cut = layouts.iter().map(|(_, n)| n).sum();
        let mut certificate = Certificate::new(&self.rows, &counts, whole, n_cut);
        certificate.proven |= searched;
        CardsNeeded { n_cards: certificate.n_cards, certificate, layouts }
    }

    /// The linear limits of a card: a weight for each slice type, and what a card has of it.
    pub(crate) fn limits(&self) -> Vec<(&[u32], u32)> {
        self.rows.rows.iter().map(|row| (row.weights.as_slice(), row.per_card)).collect()
    }

    /// Cards that the rows demand for these counts of each type's own slices; the truth when the rows are exact.
    pub(crate) fn bound(&self, counts: &[u32]) -> u32 {
        self.rows.cards(counts)
    }

    /// A slice may serve smaller types: there are enough slices of each type or larger, which is all that it takes.
    pub(super) fn fewest_along_chain(&self, demand: &[u32]) -> CardsNeeded {
        let (counts, whole) = self.split(demand);
        let (layouts, _) = self.cuts(&self.raised(&counts));
        let n_cut = layouts.iter().map(|(_, n)| n).sum();
        let certificate = Certificate::new(&self.chain, &counts, whole, n_cut);
        CardsNeeded { n_cards: certificate.n_cards, certificate, layouts }
    }

    /// Slots per slice type, and whole cards.
    fn split(&self, demand: &[u32]) -> (Vec<u32>, u32) {
        let of = |t: usize| demand.get(t).copied().unwrap_or(0);
        ((0..self.geometry.whole()).map(of).collect(), of(self.geometry.whole()))
    }

    /// The same demand with so many slots one type larger as saves cards: only where the larger type goes on a card
    /// more often.
    fn raised(&self, counts: &[u32]) -> Vec<u32> {
        let mut counts = counts.to_vec();
        let cards = self.chain.cards(&counts);
        for t in 1..counts.len() {
            let falling: Vec<&Row> =
                self.rows.rows.iter().filter(|row| row.weights[t - 1] > row.weights[t]).collect();
            let raised = |by: u32| {
                let mut raised = counts.clone();
                raised[t - 1] -= by;
                raised[t] = raised[t].saturating_add(by);
                raised
            };
            let (mut low, mut high) = (0, if falling.is_empty() { 0 } else { counts[t - 1] });
            while low < high {
                let middle = low + (high - low) / 2;
                let trial = raised(middle);
                if falling.iter().all(|row| row.cards(&trial) <= cards) {
                    high = middle;
                } else {
                    low = middle + 1;
                }
            }
            counts = raised(low);
        }
        counts
    }

    /// What cards are cut into for these counts, and whether a search has shown that no cut needs fewer.
    fn cuts(&self, counts: &[u32]) -> (Vec<(Layout, u32)>, bool) {
        let peeled = self.peel(counts);
        if !self.rows.exact
            && peeled.values().sum::<u32>() > self.rows.cards(counts)
            && let Some(best) = self.search(counts)
        {
            return (self.tidy(best), true);
        }
        (self.tidy(peeled), false)
    }

    /// Takes away the layout that can be used most often while every use saves a card, until nothing is left.
    /// Returns what is used of each card, grouped.
    fn peel(&self, counts: &[u32]) -> BTreeMap<Layout, u32> {
        let mut left = counts.to_vec();
        let mut used: BTreeMap<Layout, u32> = BTreeMap::new();
        while left.iter().any(|n| *n > 0) {
            let now = self.rows.cards(&left);
            let mut best: Option<(u32, std::cmp::Reverse<usize>, &Layout)> = None;
            for layout in &self.maximal {
                let times = self.most_times(layout, &left, now);
                // Of equals, the card that mixes fewest types: its layout more likely has a name of its own.
                let mixed = layout.counts.iter().zip(&left).filter(|(a, d)| **a > 0 && **d > 0).count();
                let rank = (times, std::cmp::Reverse(mixed));
                if times > 0 && best.is_none_or(|(t, m, _)| rank > (t, m)) {
                    best = Some((times, rank.1, layout));
                }
            }
            // Only on an unknown table can no layout keep up with the bound: then what is left is searched through, or,
            // when it is too much for that, the fullest is taken.
            if best.is_none()
                && let Some(rest) = self.search(&left)
            {
                rest.into_iter().for_each(|(layout, n)| *used.entry(layout).or_default() += n);
                break;
            }
            let chosen = best.map(|(times, _, layout)| (times, layout));
            let Some((times, layout)) = chosen.or_else(|| self.fullest(&left).map(|l| (1, l))) else { break };
            let wanted = layout.counts.iter().zip(&left).filter(|(a, _)| **a > 0);
            let full = wanted.map(|(a, d)| d / a).min().unwrap_or(0).min(times).max(1);
            let part: Vec<u32> = layout.counts.iter().zip(&left).map(|(a, d)| *a.min(d)).collect();
            for (d, n) in left.iter_mut().zip(&part) {
                *d = d.saturating_sub(n.saturating_mul(full));
            }
            *used.entry(Layout { counts: part }).or_default() += full;
        }
        used
    }

    /// What is used of each card in the best case, by dynamic programming over all smaller demands; `None` when
    /// there are too many, or no card holds some type.
    fn search(&self, counts: &[u32]) -> Option<BTreeMap<Layout, u32>> {
        const MOST_DEMANDS: usize = 20_000;
        // A demand is a number whose digits are its counts; a smaller demand has a smaller number.
        let mut strides = Vec::with_capacity(counts.len());
        let mut total = 1usize;
        for n in counts {
            strides.push(total);
            let digits = usize::try_from(*n).ok()?.checked_add(1)?;
            total = total.checked_mul(digits).filter(|total| *total <= MOST_DEMANDS)?;
        }
        let taken = |layout: &Layout, demand: &[u32]| -> usize {
            let parts = layout.counts.iter().zip(demand).map(|(a, d)| *a.min(d));
            parts.zip(&strides).map(|(n, stride)| usize::try_from(n).unwrap_or(0) * stride).sum()
        };
        // Entry: cards, and the layout to take first.
        let mut table: Vec<(u32, usize)> = vec![(0, 0)];
        let mut demand = vec![0u32; counts.len()];
        for code in 1..total {
            for (digit, most) in demand.iter_mut().zip(counts) {
                if *digit < *most {
                    *digit += 1;
                    break;
                }
                *digit = 0;
            }
            let with = |(i, layout)| {
                let left = code.checked_sub(taken(layout, &demand)).filter(|left| *left < code)?;
                Some((table[left].0.saturating_add(1), i))
            };
            table.push(self.maximal.iter().enumerate().filter_map(with).min()?);
        }
        let mut used = BTreeMap::new();
        let mut left = counts.to_vec();
        let mut code = total - 1;
        while code > 0 {
            let layout = &self.maximal[table[code].1];
            code -= taken(layout, &left);
            let part: Vec<u32> = layout.counts.iter().zip(&left).map(|(a, d)| *a.min(d)).collect();
            left.iter_mut().zip(&part).for_each(|(d, n)| *d -= n);
            *used.entry(Layout { counts: part }).or_default() += 1;
        }
        Some(used)
    }

    /// How many cards of `layout` can go first when each must save one of the `now` cards. Monotone, so halved.
    fn most_times(&self, layout: &Layout, left: &[u32], now: u32) -> u32 {
        let mut rest = left.to_vec();
        let mut saves = |times: u32| {
            for ((r, d), a) in rest.iter_mut().zip(left).zip(&layout.counts) {
                *r = d.saturating_sub(a.saturating_mul(times));
            }
            times <= now && self.rows.cards(&rest) == now - times
        };
        let (mut low, mut high) = (0, now);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if saves(middle) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low
    }

    /// The layout that uses most memory slices for what is left.
    fn fullest(&self, left: &[u32]) -> Option<&Layout> {
        let use_of = |layout: &Layout| -> u32 {
            let taken = layout.counts.iter().zip(left).map(|(a, d)| *a.min(d));
            taken.zip(&self.geometry.types).map(|(n, t)| n * u32::from(t.memory_slices)).sum()
        };
        self.maximal.iter().rev().max_by_key(|l| use_of(l)).filter(|l| use_of(l) > 0)
    }

    /// From what is used of each card to what it is cut into: few distinct layouts, and those that have a name.
    fn tidy(&self, used: BTreeMap<Layout, u32>) -> Vec<(Layout, u32)> {
        let mut parts: Vec<(Layout, u32)> = used.into_iter().collect();
        parts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| b.0.cmp(&a.0)));
        let mut layouts: Vec<(Layout, u32)> = Vec::new();
        for (part, n) in parts {
            if let Some((_, count)) = layouts.iter_mut().find(|(l, _)| l.holds(&part.counts)) {
                *count += n;
            } else {
                layouts.push((self.completed(part), n));
            }
        }
        layouts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        layouts
    }

    /// A card for one type of slice is cut into that type alone, as NVIDIA's own `all-2g.10gb` does.
    pub(crate) fn completed(&self, part: Layout) -> Layout {
        let mut types = part.counts.iter().enumerate().filter(|(_, n)| **n > 0).map(|(t, _)| t);
        match (types.next(), types.next()) {
            (Some(only), None) => self.geometry.uniform_layout(only),
            (Some(_) | None, _) => part,
        }
    }
}
