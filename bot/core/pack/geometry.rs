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
}
