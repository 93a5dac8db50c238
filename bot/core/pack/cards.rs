//! The fewest cards that hold a demand, and what to cut them into.
//!
//! Looks at counts alone; who sits in which slice of which node is decided beside it.

use std::collections::BTreeMap;

use super::certificate::Certificate;
use super::geometry::{Geometry, Layout, Rows};
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
    pub(super) rows: Rows,
    pub(super) maximal: Vec<Layout>,
}

/// The fewest cards for `demand`: slots per slice type and, last, whole cards.
///
/// On known tables the closed form says how many and peeling finds the cuts; on any other table a search does.
pub fn fewest_cards(geometry: &Geometry, demand: &[u32]) -> CardsNeeded {
    Cutter::new(geometry).fewest_cards(demand)
}

/// The fewest cards for these workloads: surge included, and two cards at least when replicas must be apart.
pub fn fewest_cards_for(geometry: &Geometry, items: &[Item], rules: &Rules) -> CardsNeeded {
    let cutter = Cutter::new(geometry);
    let demand = demand_with_surge(geometry.whole(), items, rules.concurrent_rollouts);
    let mut needed = cutter.fewest_cards(&demand);
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
        Self { geometry, rows: geometry.rows(), maximal: geometry.maximal_layouts() }
    }

    pub(crate) fn fewest_cards(&self, demand: &[u32]) -> CardsNeeded {
        let n_types = self.geometry.types.len();
        let whole = demand.get(n_types).copied().unwrap_or(0);
        let counts: Vec<u32> = (0..n_types).map(|t| demand.get(t).copied().unwrap_or(0)).collect();
        let mut used = self.peel(&counts);
        let mut searched = false;
        if !self.rows.exact
            && used.values().sum::<u32>() > self.bound(&counts)
            && let Some(best) = self.search(&counts)
        {
            used = best;
            searched = true;
        }
        let layouts = self.tidy(used);
        let n_cut = layouts.iter().map(|(_, n)| n).sum();
        let mut certificate = Certificate::new(&self.rows, &counts, whole, n_cut);
        certificate.proven |= searched;
        CardsNeeded { n_cards: certificate.n_cards, certificate, layouts }
    }

    /// The linear limits of a card: a weight for each slice type, and what a card has of it.
    pub(crate) fn limits(&self) -> Vec<(&[u32], u32)> {
        self.rows.rows.iter().map(|row| (row.weights.as_slice(), row.per_card)).collect()
    }

    /// Cards that the rows demand for these counts; the truth when the rows are exact.
    pub(crate) fn bound(&self, counts: &[u32]) -> u32 {
        self.rows
            .rows
            .iter()
            .map(|row| {
                let needed: u64 =
                    counts.iter().zip(&row.weights).map(|(n, w)| u64::from(*n) * u64::from(*w)).sum();
                u32::try_from(needed.div_ceil(u64::from(row.per_card))).unwrap_or(u32::MAX)
            })
            .max()
            .unwrap_or(0)
    }

    /// Takes away the layout that can be used most often while every use saves a card, until nothing is left.
    /// Returns what is used of each card, grouped.
    fn peel(&self, counts: &[u32]) -> BTreeMap<Layout, u32> {
        let mut left = counts.to_vec();
        let mut used: BTreeMap<Layout, u32> = BTreeMap::new();
        while left.iter().any(|n| *n > 0) {
            let now = self.bound(&left);
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
            // Only on an unknown table can no layout keep up with the bound; then the fullest is taken.
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
    /// there are too many.
    fn search(&self, counts: &[u32]) -> Option<BTreeMap<Layout, u32>> {
        const MOST_DEMANDS: usize = 20_000;
        let sizes: Vec<usize> =
            counts.iter().map(|n| usize::try_from(*n).ok()?.checked_add(1)).collect::<Option<_>>()?;
        let total =
            sizes.iter().try_fold(1usize, |all, n| all.checked_mul(*n)).filter(|n| *n <= MOST_DEMANDS)?;
        let demand_of = |mut code: usize| -> Vec<u32> {
            let digits = sizes.iter().map(|n| {
                let digit = u32::try_from(code % n).unwrap_or(0);
                code /= n;
                digit
            });
            digits.collect()
        };
        let code_of = |demand: &[u32]| {
            let step = |code: usize, (d, n): (&u32, &usize)| code * n + usize::try_from(*d).unwrap_or(0);
            demand.iter().zip(&sizes).rev().fold(0usize, step)
        };
        // Entry: cards, and the layout to take first. A smaller demand has a smaller code.
        let mut table: Vec<(u32, Option<usize>)> = vec![(0, None)];
        for code in 1..total {
            let demand = demand_of(code);
            let mut best = (u32::MAX, None);
            for (i, layout) in self.maximal.iter().enumerate() {
                let left: Vec<u32> =
                    demand.iter().zip(&layout.counts).map(|(d, a)| d.saturating_sub(*a)).collect();
                let cards = table.get(code_of(&left)).map_or(u32::MAX, |t| t.0).saturating_add(1);
                if left != demand && cards < best.0 {
                    best = (cards, Some(i));
                }
            }
            table.push(best);
        }
        let mut used = BTreeMap::new();
        let mut left = counts.to_vec();
        while let Some(i) = table.get(code_of(&left)).and_then(|t| t.1) {
            let part: Vec<u32> = self.maximal[i].counts.iter().zip(&left).map(|(a, d)| *a.min(d)).collect();
            left.iter_mut().zip(&part).for_each(|(d, n)| *d -= n);
            *used.entry(Layout { counts: part }).or_default() += 1;
        }
        Some(used)
    }

    /// How many cards of `layout` can go first when each must save one of the `now` cards. Monotone, so halved.
    fn most_times(&self, layout: &Layout, left: &[u32], now: u32) -> u32 {
        let saves = |times: u32| {
            let rest: Vec<u32> = left
                .iter()
                .zip(&layout.counts)
                .map(|(d, a)| d.saturating_sub(a.saturating_mul(times)))
                .collect();
            times <= now && self.bound(&rest) == now - times
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
