//! The fewest cards when only a few distinct layouts may be used.
//!
//! An elastic node group has one layout for every card it will ever get; two or three groups have two or three.
//! Here a workload may sit in a larger slice than it needs: under such a limit that pays.

use super::cards::Cutter;
use super::geometry::{Geometry, Layout};
use super::rows::Rows;

/// Whether a workload may sit in a larger slice than it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Substitution {
    /// Any slice of its type or a larger one.
    Larger,
    /// Exactly its own type.
    None,
}

/// A demand on cards of few layouts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Limited {
    /// Cut and whole together; the fewest possible.
    pub n_cards: u32,
    /// Cards that stay whole; they do not count as a layout.
    pub whole: u32,
    /// Layouts in use and how many cards get each, most frequent first.
    pub layouts: Vec<(Layout, u32)>,
}

/// The one layout for every cut card of a group that needs the fewest cards; of equals the one with a name of its own.
///
/// `demand` holds slots per slice type and, last, whole cards. `None` when no single layout serves it.
pub fn uniform(geometry: &Geometry, demand: &[u32]) -> Option<Limited> {
    limited(geometry, demand, 1, Substitution::Larger)
}

/// The fewest cards with at most `n_layouts` (1, 2 or 3) distinct layouts; more than 3 are answered as 3.
///
/// Exact for 1 to 3: three layouts reached the unlimited optimum in every case tried.
pub fn limited(
    geometry: &Geometry,
    demand: &[u32],
    n_layouts: u32,
    substitution: Substitution,
) -> Option<Limited> {
    let n_types = geometry.types.len();
    let whole = demand.get(n_types).copied().unwrap_or(0);
    let counts: Vec<u32> = (0..n_types).map(|t| demand.get(t).copied().unwrap_or(0)).collect();
    if n_layouts == 0 && counts.iter().any(|n| *n > 0) {
        return None;
    }
    let cutter = Cutter::new(geometry);
    let candidates = candidates(geometry, &cutter.maximal);
    let search = Search {
        chain: &cutter.chain,
        table: candidates.iter().map(|l| rows_of(&l.counts, substitution)).collect(),
        need: rows_of(&counts, substitution),
        substitution,
    };
    let limits = match substitution {
        Substitution::Larger => &cutter.chain,
        Substitution::None => &cutter.rows,
    };
    let fewest = i64::from(limits.cards(&counts));
    let mut found = search.one_layout();
    for n in 2..=n_layouts.min(3) {
        if found.as_ref().is_some_and(|f| f.total <= fewest) {
            break;
        }
        found = search.smallest_total(n, fewest, found.as_ref()).or(found);
    }
    let found = found?;
    let mut layouts: Vec<(Layout, u32)> = found
        .uses
        .into_iter()
        .filter_map(|(i, n)| u32::try_from(n).ok().filter(|n| *n > 0).map(|n| (candidates[i].clone(), n)))
        .collect();
    layouts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let n_cards = u32::try_from(found.total).unwrap_or(u32::MAX).saturating_add(whole);
    let n_cut: u32 = layouts.iter().map(|(_, n)| n).sum();
    Some(Limited { n_cards, whole: n_cards - n_cut, layouts })
}

/// Cards per candidate; what is missing to `total` are whole cards that take a slice's workload.
struct Uses {
    total: i64,
    uses: Vec<(usize, i64)>,
}

/// Layouts of one type first, then the others: of equals the first is taken.
fn candidates(geometry: &Geometry, maximal: &[Layout]) -> Vec<Layout> {
    let mut all: Vec<Layout> = (0..geometry.types.len()).map(|t| geometry.uniform_layout(t)).collect();
    for layout in maximal {
        if !all.contains(layout) {
            all.push(layout.clone());
        }
    }
    all
}

/// One limit a type: slots of the type itself, or of the type and every larger one.
fn rows_of(counts: &[u32], substitution: Substitution) -> Vec<i64> {
    match substitution {
        Substitution::None => counts.iter().map(|n| i64::from(*n)).collect(),
        Substitution::Larger => {
            (0..counts.len()).map(|p| counts[p..].iter().map(|n| i64::from(*n)).sum()).collect()
        }
    }
}

struct Search<'a> {
    chain: &'a Rows,
    table: Vec<Vec<i64>>,
    need: Vec<i64>,
    substitution: Substitution,
}

impl Search<'_> {
    /// What is left to serve when `extra` workloads get a whole card instead of a slice: the largest ones.
    fn need_beside(&self, extra: i64) -> Vec<i64> {
        self.need.iter().map(|n| (n - extra).max(0)).collect()
    }

    /// How many whole cards may stand in for slices.
    fn most_extra(&self) -> i64 {
        match self.substitution {
            Substitution::Larger => self.need.iter().copied().max().unwrap_or(0),
            Substitution::None => 0,
        }
    }

    fn one_layout(&self) -> Option<Uses> {
        let cards = |have: &Vec<i64>, need: &[i64]| -> Option<i64> {
            have.iter().zip(need).try_fold(0, |most: i64, (a, d)| match (*a, *d) {
                (_, d) if d <= 0 => Some(most),
                (0, _) => None,
                (a, d) => Some(most.max(ceil(d, a))),
            })
        };
        let mut best: Option<(i64, i64, usize)> = None;
        for extra in 0..=self.most_extra() {
            let need = self.need_beside(extra);
            let found = self
                .table
                .iter()
                .enumerate()
                .filter_map(|(i, have)| cards(have, &need).map(|n| (n, i)))
                .min();
            if let Some((n, i)) = found
                && best.is_none_or(|(total, ..)| n + extra < total)
            {
                best = Some((n + extra, n, i));
            }
        }
        best.map(|(total, n, i)| Uses { total, uses: vec![(i, n)] })
    }

    /// The smallest total with `n` layouts; one card more never hurts, so the range is halved.
    fn smallest_total(&self, n: u32, fewest: i64, known: Option<&Uses>) -> Option<Uses> {
        // One card a slot is enough for any layouts that can serve the demand at all.
        let mut high = known.map_or_else(|| self.need.iter().sum::<i64>().max(fewest), |k| k.total - 1);
        let mut low = fewest;
        let mut best = None;
        while low <= high {
            let middle = low + (high - low) / 2;
            match self.with_total(n, middle) {
                Some(uses) => {
                    best = Some(Uses { total: middle, uses });
                    high = middle - 1;
                }
                None => low = middle + 1,
            }
        }
        best
    }

    fn with_total(&self, n: u32, total: i64) -> Option<Vec<(usize, i64)>> {
        for extra in 0..=self.most_extra().min(total) {
            let need = self.need_beside(extra);
            if self.substitution == Substitution::Larger {
                // A whole card takes one workload, so the sum below never falls as `extra` grows.
                let counts: Vec<u32> = (0..need.len())
                    .map(|p| u32::try_from(need[p] - need.get(p + 1).copied().unwrap_or(0)).unwrap_or(0))
                    .collect();
                if i64::from(self.chain.cards(&counts)) + extra > total {
                    break;
                }
            }
            let found = if n == 2 {
                self.two_layouts(&need, total - extra)
            } else {
                self.three_layouts(&need, total - extra)
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn two_layouts(&self, need: &[i64], total: i64) -> Option<Vec<(usize, i64)>> {
        let none = vec![0; need.len()];
        for (i, a) in self.table.iter().enumerate() {
            for (j, b) in self.table.iter().enumerate().skip(i + 1) {
                if let Some(x) = shares(a, b, &none, need, total, 0) {
                    return Some(vec![(i, x), (j, total - x)]);
                }
            }
        }
        None
    }

    fn three_layouts(&self, need: &[i64], total: i64) -> Option<Vec<(usize, i64)>> {
        for (i, a) in self.table.iter().enumerate() {
            for (j, b) in self.table.iter().enumerate().skip(i + 1) {
                for (k, c) in self.table.iter().enumerate().skip(j + 1) {
                    let reach = |p: usize| a[p].max(b[p]).max(c[p]).saturating_mul(total) >= need[p];
                    if !(0..need.len()).all(reach) {
                        continue;
                    }
                    let Some((low, high)) = third_range(a, b, c, need, total) else { continue };
                    for z in low..=high {
                        if let Some(x) = shares(a, b, c, need, total, z) {
                            return Some(vec![(i, x), (j, total - z - x), (k, z)]);
                        }
                    }
                }
            }
        }
        None
    }
}

/// The smallest x with x cards of `a`, `z` of `c` and the rest of `total` of `b` that serve `need`.
fn shares(a: &[i64], b: &[i64], c: &[i64], need: &[i64], total: i64, z: i64) -> Option<i64> {
    let rest = total - z;
    let (mut low, mut high) = (0, rest);
    for p in 0..need.len() {
        // x a + (rest - x) b + z c >= need
        let slope = a[p] - b[p];
        let missing = need[p] - rest * b[p] - z * c[p];
        if slope > 0 {
            low = low.max(ceil(missing, slope));
        } else if slope < 0 {
            high = high.min(floor(-missing, -slope));
        } else if missing > 0 {
            return None;
        }
    }
    (low <= high).then_some(low)
}

/// The values of z for which a fractional x exists: each lower limit of x against each upper one.
fn third_range(a: &[i64], b: &[i64], c: &[i64], need: &[i64], total: i64) -> Option<(i64, i64)> {
    // Each limit is slope * x >= base + tilt * z.
    let mut limits: Vec<(i64, i64, i64)> =
        (0..need.len()).map(|p| (a[p] - b[p], need[p] - total * b[p], b[p] - c[p])).collect();
    limits.push((1, 0, 0));
    limits.push((-1, -total, 1));
    let (mut low, mut high) = (0, total);
    let mut at_least = |base: i64, tilt: i64| {
        // 0 >= base + tilt * z
        if tilt > 0 {
            high = high.min(floor(-base, tilt));
        } else if tilt < 0 {
            low = low.max(ceil(base, -tilt));
        } else if base > 0 {
            high = -1;
        }
    };
    for (slope, base, tilt) in &limits {
        if *slope == 0 {
            at_least(*base, *tilt);
        }
        if *slope > 0 {
            for (other, base2, tilt2) in limits.iter().filter(|l| l.0 < 0) {
                at_least(base * -other + base2 * slope, tilt * -other + tilt2 * slope);
            }
        }
    }
    (low <= high).then_some((low, high))
}

/// ⌈a / b⌉ for b > 0.
fn ceil(a: i64, b: i64) -> i64 {
    -(-a).div_euclid(b)
}

/// ⌊a / b⌋ for b > 0.
fn floor(a: i64, b: i64) -> i64 {
    a.div_euclid(b)
}
