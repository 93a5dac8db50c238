//! What cards can hold, as linear limits: the rows of the closed form.
//!
//! Tables are told by sizes and starts, never by names. That the rows of the known ones say exactly how many cards
//! a demand needs is proven in `proofs`; every other table gets rows that are true and may say too little.

use super::geometry::{Geometry, Layout};

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

/// A table whose rows are proven. Tables that lack some of its types are proven with it: a demand without them is
/// cut from the same cards.
struct Known {
    memory_slices: u8,
    /// In chain order.
    shapes: &'static [Shape],
    rows: &'static [KnownRow],
}

/// A slice type of a known table.
struct Shape {
    compute_slices: u8,
    memory_slices: u8,
    starts: &'static [u8],
    most: u8,
}

/// A row of a known table, one weight a shape.
struct KnownRow {
    code: &'static str,
    weights: &'static [u32],
    per_card: u32,
    /// Binds only where `1g+me` is cut: without it other rows say more.
    with_media: bool,
}

const fn shape(compute_slices: u8, memory_slices: u8, starts: &'static [u8], most: u8) -> Shape {
    Shape { compute_slices, memory_slices, starts, most }
}

const fn always(code: &'static str, weights: &'static [u32], per_card: u32) -> KnownRow {
    KnownRow { code, weights, per_card, with_media: false }
}

const fn with_media(code: &'static str, weights: &'static [u32], per_card: u32) -> KnownRow {
    KnownRow { code, weights, per_card, with_media: true }
}

/// Starts of the slices with one memory slice.
const SINGLE: &[u8] = &[0, 1, 2, 3, 4, 5, 6];

/// Place of `1g+me` in every known table: a slice like the one before it, once a card.
const MEDIA: usize = 1;

/// As `nvidia-smi mig -lgipp` prints them: A100, H100, H200, B200 and their like; A30 and RTX PRO 6000; RTX PRO 5000
/// and 4500. `2g+me` is in none: with `1g+me` it shares a limit that starts cannot express.
const KNOWN: [Known; 3] = [
    Known {
        memory_slices: 8,
        shapes: &[
            shape(1, 1, SINGLE, 7),
            shape(1, 1, SINGLE, 1),
            shape(1, 2, &[0, 2, 4, 6], 4),
            shape(2, 2, &[0, 2, 4], 3),
            shape(3, 4, &[0, 4], 2),
            shape(4, 4, &[0], 1),
            shape(7, 8, &[0], 1),
        ],
        rows: &[
            always("4g", &[0, 0, 0, 0, 0, 1, 1], 1),
            with_media("media", &[0, 1, 0, 0, 0, 0, 1], 1),
            with_media("slice-weights", &[0, 1, 0, 0, 1, 1, 2], 2),
            always("start-slots", &[0, 0, 0, 1, 1, 2, 3], 3),
            with_media("slice-weights", &[0, 1, 1, 1, 2, 2, 4], 4),
            always("memory-slices", &[1, 1, 2, 2, 4, 4, 8], 8),
            always("compute-slices", &[1, 1, 1, 2, 3, 4, 7], 7),
        ],
    },
    Known {
        memory_slices: 4,
        shapes: &[
            shape(1, 1, &[0, 1, 2, 3], 4),
            shape(1, 1, &[0, 1, 2, 3], 1),
            shape(2, 2, &[0, 2], 2),
            shape(4, 4, &[0], 1),
        ],
        rows: &[
            with_media("media", &[0, 1, 0, 1], 1),
            with_media("slice-weights", &[0, 1, 1, 2], 2),
            always("memory-slices", &[1, 1, 2, 4], 4),
        ],
    },
    Known {
        memory_slices: 2,
        shapes: &[shape(1, 1, &[0, 1], 2), shape(1, 1, &[0, 1], 1), shape(2, 2, &[0], 1)],
        rows: &[with_media("media", &[0, 1, 1], 1), always("memory-slices", &[1, 1, 2], 2)],
    },
];

impl Known {
    /// Which of the table's shapes these types are, when all are and in its order.
    fn places(&self, geometry: &Geometry) -> Option<Vec<usize>> {
        let mut rest = self.shapes.iter().enumerate();
        let same = |t: &super::geometry::SliceType, shape: &Shape| {
            let most = usize::from(t.max_instances).min(t.starts.len());
            (t.compute_slices, t.memory_slices) == (shape.compute_slices, shape.memory_slices)
                && t.starts == shape.starts
                && most == usize::from(shape.most)
        };
        let place = |t| rest.by_ref().find(|(_, shape)| same(t, shape)).map(|(place, _)| place);
        geometry.types.iter().map(place).collect()
    }

    fn rows(&self, places: &[usize]) -> Rows {
        let media = places.contains(&MEDIA);
        let rows = self.rows.iter().filter(|row| media || !row.with_media);
        let rows = rows.map(|row| Row {
            code: row.code,
            weights: places.iter().map(|place| row.weights[*place]).collect(),
            per_card: row.per_card,
        });
        Rows { rows: rows.collect(), exact: true }
    }
}

impl Rows {
    /// Of slices that serve exactly their own type. Exact for the known tables; for any other table derived from its
    /// own layouts.
    pub(super) fn new(geometry: &Geometry) -> Self {
        let known = KNOWN
            .iter()
            .filter(|known| known.memory_slices == geometry.memory_slices)
            .find_map(|known| Some(known.rows(&known.places(geometry)?)));
        known.unwrap_or_else(|| Self { rows: derived(geometry), exact: false })
    }

    /// The limits when a slice may serve a smaller type as well.
    ///
    /// A row that weighs a type more than the next larger one can be evaded by using the larger one instead, at the
    /// price of the rows that weigh that one more: together they say what no such exchange evades
    /// (Fourier-Motzkin elimination of the number exchanged).
    pub(super) fn along_chain(&self) -> Self {
        let mut rows = self.rows.clone();
        for t in 1..rows.first().map_or(0, |row| row.weights.len()) {
            let (falling, mut kept): (Vec<Row>, Vec<Row>) =
                rows.into_iter().partition(|row| row.weights[t - 1] > row.weights[t]);
            let rising: Vec<Row> =
                kept.iter().filter(|row| row.weights[t - 1] < row.weights[t]).cloned().collect();
            for row in falling {
                let fall = row.weights[t - 1] - row.weights[t];
                for other in &rising {
                    let rise = other.weights[t] - other.weights[t - 1];
                    let sum = |a: u32, b: u32| rise * a + fall * b;
                    kept.push(Row {
                        code: "slice-weights",
                        weights: row.weights.iter().zip(&other.weights).map(|(a, b)| sum(*a, *b)).collect(),
                        per_card: sum(row.per_card, other.per_card),
                    });
                }
                let mut lowered = row;
                lowered.weights[t - 1] = lowered.weights[t];
                kept.push(Row { code: "slice-weights", ..lowered });
            }
            rows = kept;
        }
        if rows.len() > self.rows.len() || rows.iter().any(|row| !self.rows.contains(row)) {
            rows = undominated(&rows);
        }
        Self { rows, exact: self.exact }
    }

    /// Cards that the rows demand for these counts; the truth when the rows are exact.
    pub(super) fn cards(&self, counts: &[u32]) -> u32 {
        self.rows.iter().map(|row| row.cards(counts)).max().unwrap_or(0)
    }
}

impl Row {
    /// Cards that this row alone demands.
    pub(super) fn cards(&self, counts: &[u32]) -> u32 {
        let needed: u64 = counts.iter().zip(&self.weights).map(|(n, w)| u64::from(*n) * u64::from(*w)).sum();
        u32::try_from(needed.div_ceil(u64::from(self.per_card))).unwrap_or(u32::MAX)
    }

    /// Whether this row says all that `other` does.
    fn covers(&self, other: &Self) -> bool {
        let product = |weight: u32, per_card: u32| u64::from(weight) * u64::from(per_card);
        let mut pairs = self.weights.iter().zip(&other.weights);
        pairs.all(|(a, b)| product(*a, other.per_card) >= product(*b, self.per_card))
    }
}

/// Without the rows that another one makes needless; of equals the first stays.
fn undominated(rows: &[Row]) -> Vec<Row> {
    let needless = |i: usize| {
        (0..rows.len()).any(|j| i != j && rows[j].covers(&rows[i]) && (j < i || !rows[i].covers(&rows[j])))
    };
    (0..rows.len()).filter(|i| !needless(*i)).map(|i| rows[i].clone()).collect()
}

/// Valid limits of any table: memory, compute, and small weights that never fall along the chain, so that they hold
/// for larger slices in the place of smaller ones too.
fn derived(geometry: &Geometry) -> Vec<Row> {
    /// Weights to 4 hold all rows of the known tables without `+me`, so they are a fair guess for an unknown one.
    const MOST_WEIGHT: u32 = 4;
    let layouts = geometry.maximal_layouts();
    let row = |code, weights: Vec<u32>| {
        let sum = |l: &Layout| l.counts.iter().zip(&weights).map(|(n, w)| n * w).sum::<u32>();
        let per_card = layouts.iter().map(sum).max().unwrap_or(0);
        (per_card > 0).then_some(Row { code, weights, per_card })
    };
    let of_types = |weight: fn(&super::geometry::SliceType) -> u8| -> Vec<u32> {
        geometry.types.iter().map(|t| u32::from(weight(t))).collect()
    };
    let mut rows: Vec<Row> = Vec::new();
    rows.extend(row("memory-slices", of_types(|t| t.memory_slices)));
    rows.extend(row("compute-slices", of_types(|t| t.compute_slices)));
    let mut vectors: Vec<Vec<u32>> = vec![Vec::new()];
    for _ in &geometry.types {
        let longer = |v: &Vec<u32>| {
            let v = v.clone();
            (v.last().copied().unwrap_or(0)..=MOST_WEIGHT)
                .map(move |weight| [v.as_slice(), &[weight]].concat())
        };
        vectors = vectors.iter().flat_map(longer).collect();
    }
    rows.extend(vectors.into_iter().filter_map(|weights| row("slice-weights", weights)));
    rows
}
