//! How one card model can be cut: slice types, where they may start, and which cuts are possible.
//!
//! Slices must not overlap on the memory axis; that alone implies NVIDIA's limits on compute slices. Which numbers a
//! model has is the catalog's business.

use std::collections::BTreeSet;

/// How the cards of one model can be cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Length of the memory axis: 8 on an A100, 4 on an A30.
    pub memory_slices: u8,
    /// In chain order: each type has at least the memory and the SMs of the one before. The index `types.len()`
    /// stands for a whole card with MIG off.
    pub types: Vec<SliceType>,
}

/// One MIG profile as far as packing cares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceType {
    /// NVIDIA's name, `2g.10gb`.
    pub name: String,
    /// Of the card's seven (A30: four).
    pub compute_slices: u8,
    /// Length on the memory axis.
    pub memory_slices: u8,
    /// Where it may start on the memory axis.
    pub starts: Vec<u8>,
    /// Most of them on one card.
    pub max_instances: u8,
}

/// A cut of one card: how many slices of each type, in the order of `Geometry::types`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Layout {
    /// One count a type.
    pub counts: Vec<u32>,
}

impl Layout {
    /// Whether every count of `self` is at least `counts`.
    pub fn holds(&self, counts: &[u32]) -> bool {
        self.counts.iter().zip(counts).all(|(have, want)| have >= want)
    }

    /// `2g.10gb x3`, `1g.5gb x2 + 3g.20gb`: for people and logs.
    pub fn describe(&self, geometry: &Geometry) -> String {
        let parts: Vec<String> = geometry
            .types
            .iter()
            .zip(&self.counts)
            .filter(|(_, n)| **n > 0)
            .map(|(t, n)| if *n == 1 { t.name.clone() } else { format!("{} x{n}", t.name) })
            .collect();
        if parts.is_empty() { "empty".to_owned() } else { parts.join(" + ") }
    }
}

/// Shape of a slice type: compute slices, memory slices, starts, most on one card.
type Shape = (u8, u8, &'static [u8], u8);

/// The types of A100, H100, H200 and B200 as `nvidia-smi mig -lgipp` prints them, with their weights in the four rows
/// of the closed form: 4g, even starts, memory, compute.
const EIGHT_SLICE: [(Shape, [u32; 4]); 6] = [
    ((1, 1, &[0, 1, 2, 3, 4, 5, 6], 7), [0, 0, 1, 1]),
    ((1, 2, &[0, 2, 4, 6], 4), [0, 0, 2, 1]),
    ((2, 2, &[0, 2, 4], 3), [0, 1, 2, 2]),
    ((3, 4, &[0, 4], 2), [0, 1, 4, 3]),
    ((4, 4, &[0], 1), [1, 2, 4, 4]),
    ((7, 8, &[0], 1), [1, 3, 8, 7]),
];

/// The types of the A30; one row, memory.
const FOUR_SLICE: [(Shape, [u32; 1]); 3] =
    [((1, 1, &[0, 1, 2, 3], 4), [1]), ((2, 2, &[0, 2], 2), [2]), ((4, 4, &[0], 1), [4])];

/// One linear limit of a card: the weights of its slices add up to `per_card` at most.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    pub(super) code: &'static str,
    pub(super) weights: Vec<u32>,
    pub(super) per_card: u32,
}

/// The limits of a geometry, and whether together they say exactly what a number of cards can hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rows {
    pub(super) rows: Vec<Row>,
    pub(super) exact: bool,
}

impl Geometry {
    /// Index that stands for a whole card with MIG off.
    pub fn whole(&self) -> usize {
        self.types.len()
    }

    /// Whether slices with these counts fit on one card.
    pub fn feasible(&self, counts: &[u32]) -> bool {
        self.place(counts).is_some()
    }

    /// Non-overlapping starts for these counts as (type, start), larger types first; `None` when they do not fit.
    ///
    /// Tries the highest start first, as the driver does: that leaves the most room for larger slices.
    pub fn place(&self, counts: &[u32]) -> Option<Vec<(usize, u8)>> {
        if counts.len() > self.types.len() && counts.iter().skip(self.types.len()).any(|n| *n > 0) {
            return None;
        }
        let over = |(t, n): (&SliceType, &u32)| *n > u32::from(t.max_instances);
        if self.types.iter().zip(counts).any(over) {
            return None;
        }
        let wanted: Vec<usize> = (0..self.types.len().min(counts.len()))
            .rev()
            .flat_map(|t| std::iter::repeat_n(t, usize::try_from(counts[t]).unwrap_or(0)))
            .collect();
        let mut placed = Vec::with_capacity(wanted.len());
        self.place_rest(&wanted, 0, &mut placed).then_some(placed)
    }

    fn place_rest(&self, wanted: &[usize], taken: u64, placed: &mut Vec<(usize, u8)>) -> bool {
        let Some(&slice_type) = wanted.get(placed.len()) else { return true };
        let spec = &self.types[slice_type];
        // Equal slices are placed from high to low, so that their order is not tried twice.
        let below = match placed.last() {
            Some((t, start)) if *t == slice_type => *start,
            Some(_) | None => u8::MAX,
        };
        for &start in spec.starts.iter().rev().filter(|s| **s < below) {
            let Some(mask) = self.mask(start, spec.memory_slices) else { continue };
            if taken & mask == 0 {
                placed.push((slice_type, start));
                if self.place_rest(wanted, taken | mask, placed) {
                    return true;
                }
                placed.pop();
            }
        }
        false
    }

    /// The memory slices that a slice covers, as bits; `None` when it would not fit on the card.
    fn mask(&self, start: u8, length: u8) -> Option<u64> {
        let end = u32::from(start) + u32::from(length);
        (end <= u32::from(self.memory_slices) && end < 64 && length > 0)
            .then(|| ((1u64 << length) - 1) << start)
    }

    /// Whether slices at these places overlap nowhere, stand on allowed starts and keep within `max_instances`.
    pub fn placement_is_legal(&self, placed: &[(usize, u8)]) -> bool {
        let mut taken = 0u64;
        let mut counts = vec![0u32; self.types.len()];
        for (slice_type, start) in placed {
            let Some(spec) = self.types.get(*slice_type) else { return false };
            let Some(mask) = self.mask(*start, spec.memory_slices) else { return false };
            if taken & mask != 0 || !spec.starts.contains(start) {
                return false;
            }
            taken |= mask;
            counts[*slice_type] += 1;
        }
        counts.iter().zip(&self.types).all(|(n, t)| *n <= u32::from(t.max_instances))
    }

    /// Every non-empty cut that fits on one card, sorted.
    pub fn layouts(&self) -> Vec<Layout> {
        let mut found = BTreeSet::new();
        let mut open = vec![vec![0u32; self.types.len()]];
        while let Some(counts) = open.pop() {
            for t in 0..self.types.len() {
                let mut more = counts.clone();
                more[t] += 1;
                if !found.contains(&more) && self.feasible(&more) {
                    found.insert(more.clone());
                    open.push(more);
                }
            }
        }
        found.into_iter().map(|counts| Layout { counts }).collect()
    }

    /// The cuts to which nothing can be added, sorted.
    pub fn maximal_layouts(&self) -> Vec<Layout> {
        let all = self.layouts();
        let known: BTreeSet<&Vec<u32>> = all.iter().map(|l| &l.counts).collect();
        all.iter()
            .filter(|layout| {
                (0..self.types.len()).all(|t| {
                    let mut more = layout.counts.clone();
                    more[t] += 1;
                    !known.contains(&more)
                })
            })
            .cloned()
            .collect()
    }

    /// Only this type, as often as a card holds it: what NVIDIA ships as `all-<profile>`.
    pub fn uniform_layout(&self, slice_type: usize) -> Layout {
        let mut counts = vec![0u32; self.types.len()];
        if slice_type < counts.len() {
            loop {
                counts[slice_type] += 1;
                if !self.feasible(&counts) {
                    counts[slice_type] -= 1;
                    break;
                }
            }
        }
        Layout { counts }
    }

    /// Whether the table is (part of) that of A100, H100, H200 and B200: compares sizes and starts, never names.
    pub fn is_eight_slice(&self) -> bool {
        self.memory_slices == 8 && self.weights(&EIGHT_SLICE).is_some()
    }

    /// Whether the table is (part of) that of the A30.
    pub fn is_four_slice(&self) -> bool {
        self.memory_slices == 4 && self.weights(&FOUR_SLICE).is_some()
    }

    /// The row weights of each type, when every type is in the table and in its order.
    fn weights<const N: usize>(&self, table: &[(Shape, [u32; N])]) -> Option<Vec<[u32; N]>> {
        let mut rest = table.iter();
        self.types
            .iter()
            .map(|t| {
                rest.by_ref()
                    .find(|((compute, memory, starts, most), _)| {
                        (t.compute_slices, t.memory_slices) == (*compute, *memory)
                            && t.starts == *starts
                            && t.max_instances >= *most
                    })
                    .map(|(_, weights)| *weights)
            })
            .collect()
    }

    /// The linear limits of a card. Exact (proven by exhaustive dynamic programming) for the known tables; for any
    /// other table they are derived from its own layouts and bound from below only.
    pub(super) fn rows(&self) -> Rows {
        if self.memory_slices == 8
            && let Some(weights) = self.weights(&EIGHT_SLICE)
        {
            let row = |code, i: usize, per_card| Row {
                code,
                weights: weights.iter().map(|w| w[i]).collect(),
                per_card,
            };
            let rows = vec![
                row("4g", 0, 1),
                row("start-slots", 1, 3),
                row("memory-slices", 2, 8),
                row("compute-slices", 3, 7),
            ];
            return Rows { rows, exact: true };
        }
        if self.memory_slices == 4
            && let Some(weights) = self.weights(&FOUR_SLICE)
        {
            let weights = weights.iter().map(|w| w[0]).collect();
            return Rows { rows: vec![Row { code: "memory-slices", weights, per_card: 4 }], exact: true };
        }
        Rows { rows: self.derived_rows(), exact: false }
    }

    /// Valid limits of any table: memory, compute, the count of each type, and small weights along the chain.
    fn derived_rows(&self) -> Vec<Row> {
        let layouts = self.maximal_layouts();
        let row = |code, weights: Vec<u32>| {
            let sum = |l: &Layout| l.counts.iter().zip(&weights).map(|(n, w)| n * w).sum::<u32>();
            let per_card = layouts.iter().map(sum).max().unwrap_or(0);
            (per_card > 0).then_some(Row { code, weights, per_card })
        };
        let mut rows: Vec<Row> = Vec::new();
        rows.extend(row("memory-slices", self.types.iter().map(|t| u32::from(t.memory_slices)).collect()));
        rows.extend(row("compute-slices", self.types.iter().map(|t| u32::from(t.compute_slices)).collect()));
        // Weights 0 to 4 hold all four rows of the known tables, so they are a fair guess for an unknown one.
        let n_vectors = 5usize.checked_pow(u32::try_from(self.types.len()).unwrap_or(u32::MAX)).unwrap_or(0);
        for code in 1..n_vectors.min(15_625) {
            let mut rest = code;
            let mut weights = Vec::with_capacity(self.types.len());
            for _ in &self.types {
                weights.push(u32::try_from(rest % 5).unwrap_or(0));
                rest /= 5;
            }
            if weights.windows(2).all(|w| w[0] <= w[1]) {
                rows.extend(row("slice-weights", weights));
            }
        }
        rows
    }
}
