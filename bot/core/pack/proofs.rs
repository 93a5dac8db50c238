//! Proves the closed form for every table that it is used on.
//!
//! The claim: the fewest cards for a demand `d` are `F(d)`, the largest of the rows, each rounded up. Three facts that
//! a program can check are enough, for a table of `n` types:
//!
//! 1. Every layout obeys every row: no plan can use fewer than `F(d)` cards.
//! 2. Every corner of the body that the rows bound is a layout (or less). So the body is what blends of layouts hold,
//!    and the linear program "fewest cards, divisible" has the value of the largest row, not rounded.
//! 3. `F` is the optimum for all small demands, by dynamic programming.
//!
//! Large demands follow. Take an optimal corner `x` of the linear program: at most `n` layouts are used, `|x|` times in
//! all. Use each as often as `x` says, rounded down: `k` whole cards. What is left of the demand, `r`, is held by at
//! most `n` parts of cards, so every row of `r` is below `n` cards, and `r` has less than `n` times what a card holds
//! at most of each type. That is what "small" means above. So `OPT(d) <= k + OPT(r) = k + F(r)`, and
//! `F(r) <= ceil(|x| - k)` since the parts hold `r`; together at most `ceil(|x|) = F(d)`.
//!
//! A type that fills a card (7g of 8 slices) weighs a whole card in every row: it adds one to both sides. A table that
//! lacks types has the demands in which they are zero.
#![expect(clippy::disallowed_methods, reason = "the tests read the catalog that the program embeds")]

use std::collections::BTreeSet;

use super::geometry::{Geometry, SliceType};
use super::rows::{Row, Rows};
use crate::catalog::{Catalog, CatalogFile, GpuModel, MigProfile, profile_name::Attribute};

fn catalog() -> Catalog {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/catalog");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut yaml: Vec<_> = paths.filter(|path| path.extension().is_some_and(|e| e == "yaml")).collect();
    yaml.sort();
    let read = |path: &std::path::PathBuf| std::fs::read_to_string(path).unwrap();
    let files = yaml.iter().map(|path| serde_saphyr::from_str::<CatalogFile>(&read(path)).unwrap());
    Catalog::merge(files).unwrap()
}

fn of_model(model: &GpuModel, keep: impl Fn(&MigProfile) -> bool) -> Geometry {
    let mut profiles: Vec<&MigProfile> = model.profiles.iter().filter(|p| keep(p)).collect();
    profiles.sort_by_key(|p| (p.memory_slices, p.compute_slices, p.name.attribute != Attribute::Plain));
    let types = profiles.iter().map(|p| SliceType {
        name: p.name.to_string(),
        compute_slices: p.compute_slices,
        memory_slices: p.size,
        starts: p.starts.clone(),
        max_instances: p.max_instances,
    });
    Geometry { memory_slices: model.memory_slices, types: types.collect() }
}

/// The plain profiles, the one that fills the card among them.
fn plain(model: &GpuModel) -> Geometry {
    of_model(model, |p| p.name.attribute == Attribute::Plain)
}

/// And `1g+me`.
fn with_media(model: &GpuModel) -> Geometry {
    let media = |p: &MigProfile| p.name.attribute == Attribute::Me && p.compute_slices == 1;
    of_model(model, |p| p.name.attribute == Attribute::Plain || media(p))
}

/// Every table that is left when types are left out.
fn sub_tables(geometry: &Geometry) -> Vec<Geometry> {
    let n = geometry.types.len();
    (1usize..1 << n)
        .map(|kept| {
            let types = (0..n).filter(|t| kept >> t & 1 == 1).map(|t| geometry.types[t].clone());
            Geometry { types: types.collect(), ..geometry.clone() }
        })
        .collect()
}

/// What one card can serve.
fn columns(geometry: &Geometry) -> Vec<Vec<u32>> {
    geometry.maximal_layouts().into_iter().map(|l| l.counts).collect()
}

/// What one card can serve when a slice may serve smaller types too.
pub(super) fn columns_along_chain(geometry: &Geometry) -> Vec<Vec<u32>> {
    let mut all: BTreeSet<Vec<u32>> = BTreeSet::new();
    let mut open = columns(geometry);
    while let Some(counts) = open.pop() {
        for t in 1..counts.len() {
            if counts[t] > 0 {
                let mut lower = counts.clone();
                lower[t] -= 1;
                lower[t - 1] += 1;
                open.push(lower);
            }
        }
        all.insert(counts);
    }
    let within = |a: &Vec<u32>, b: &Vec<u32>| a != b && a.iter().zip(b).all(|(a, b)| a <= b);
    all.iter().filter(|a| !all.iter().any(|b| within(a, b))).cloned().collect()
}

fn assert_proven(what: &str, columns: &[Vec<u32>], rows: &[Row]) {
    for (column, row) in columns.iter().flat_map(|c| rows.iter().map(move |r| (c, r))) {
        assert!(row.cards(column) <= 1, "{what}: {column:?} breaks {row:?}");
    }
    for corner in corners(rows) {
        let held = columns.iter().any(|c| corner.iter().zip(c).all(|((n, d), c)| *n <= i128::from(*c) * d));
        assert!(held, "{what}: no card holds the corner {corner:?} of {rows:?}");
    }
    let n = columns[0].len();
    let most: Vec<u32> =
        (0..n).map(|t| columns.iter().map(|c| c[t]).max().unwrap() * u32::try_from(n).unwrap() - 1).collect();
    Table::new(columns, rows, &most, Some(u32::try_from(n).unwrap())).assert_optimal(what);
}

/// The corners of the body in which every row and no count below zero: each entry a fraction.
fn corners(rows: &[Row]) -> Vec<Vec<(i128, i128)>> {
    let n = rows[0].weights.len();
    let mut planes: Vec<(Vec<i128>, i128)> = rows
        .iter()
        .map(|row| (row.weights.iter().map(|w| i128::from(*w)).collect(), i128::from(row.per_card)))
        .collect();
    planes.extend((0..n).map(|t| ((0..n).map(|u| -i128::from(t == u)).collect(), 0)));
    let mut found = Vec::new();
    let mut chosen: Vec<usize> = (0..n).collect();
    loop {
        let meeting: Vec<&(Vec<i128>, i128)> = chosen.iter().map(|p| &planes[*p]).collect();
        if let Some(point) = meeting_point(&meeting)
            && planes.iter().all(|plane| is_within(&point, plane))
        {
            found.push(point);
        }
        // The next choice of n planes.
        let Some(at) = (0..n).rev().find(|i| chosen[*i] < planes.len() - n + i) else { return found };
        chosen[at] += 1;
        for i in at + 1..n {
            chosen[i] = chosen[i - 1] + 1;
        }
    }
}

fn is_within(point: &[(i128, i128)], (weights, limit): &(Vec<i128>, i128)) -> bool {
    // All denominators of a point are the same.
    let denominator = point[0].1;
    point.iter().zip(weights).map(|((n, _), w)| n * w).sum::<i128>() <= limit * denominator
}

/// Where planes meet, if in one point: elimination without fractions, numerators over one positive denominator.
fn meeting_point(planes: &[&(Vec<i128>, i128)]) -> Option<Vec<(i128, i128)>> {
    let n = planes.len();
    let mut rows: Vec<Vec<i128>> =
        planes.iter().map(|(w, limit)| [w.as_slice(), &[*limit]].concat()).collect();
    let mut last = 1;
    for column in 0..n {
        let pivot = (column..n).find(|r| rows[*r][column] != 0)?;
        rows.swap(column, pivot);
        let by = rows[column].clone();
        for (_, row) in rows.iter_mut().enumerate().filter(|(r, _)| *r != column) {
            let factor = row[column];
            for (x, p) in row.iter_mut().zip(&by) {
                *x = (*x * by[column] - *p * factor) / last;
            }
        }
        last = by[column];
    }
    let sign = last.signum();
    Some(rows.iter().map(|row| (row[n] * sign, last * sign)).collect())
}

/// Optimal cards for every demand of a box, in one flat array.
struct Table<'a> {
    columns: &'a [Vec<u32>],
    rows: &'a [Row],
    most: &'a [u32],
    /// Only demands of which every row is below so many cards.
    below: Option<u32>,
    strides: Vec<usize>,
    cards: Vec<u8>,
    hint: usize,
    n_seen: usize,
}

impl<'a> Table<'a> {
    fn new(columns: &'a [Vec<u32>], rows: &'a [Row], most: &'a [u32], below: Option<u32>) -> Self {
        let mut strides = vec![1; most.len()];
        for t in (1..most.len()).rev() {
            strides[t - 1] = strides[t] * (most[t] as usize + 1);
        }
        let size = strides[0] * (most[0] as usize + 1);
        Self { columns, rows, most, below, strides, cards: vec![0; size], hint: 0, n_seen: 0 }
    }

    /// Demands are met in dictionary order, every smaller one before.
    fn assert_optimal(mut self, what: &str) -> usize {
        let mut demand = vec![0; self.most.len()];
        self.walk(what, 0, &mut demand, 0, &vec![0; self.rows.len()]);
        self.n_seen
    }

    fn walk(&mut self, what: &str, t: usize, demand: &mut Vec<u32>, code: usize, sums: &[u32]) {
        if t == demand.len() {
            let needed = self.rows.iter().zip(sums).map(|(row, sum)| sum.div_ceil(row.per_card)).max();
            self.settle(what, demand, code, needed.unwrap_or(0));
            return;
        }
        let mut sums = sums.to_vec();
        for n in 0..=self.most[t] {
            demand[t] = n;
            self.walk(what, t + 1, demand, code + n as usize * self.strides[t], &sums);
            sums.iter_mut().zip(self.rows).for_each(|(sum, row)| *sum += row.weights[t]);
            let beyond = |below| self.rows.iter().zip(&sums).any(|(row, sum)| *sum >= below * row.per_card);
            if self.below.is_some_and(beyond) {
                break;
            }
        }
        demand[t] = 0;
    }

    /// The rows are a lower bound, so the first card that reaches them will do.
    fn settle(&mut self, what: &str, demand: &[u32], code: usize, needed: u32) {
        self.n_seen += 1;
        if needed == 0 {
            return;
        }
        let n = self.columns.len();
        for i in (0..n).map(|i| (self.hint + i) % n) {
            let taken = self.columns[i].iter().zip(demand).zip(&self.strides);
            let left: usize = code - taken.map(|((a, d), stride)| *a.min(d) as usize * stride).sum::<usize>();
            if left != code && u32::from(self.cards[left]) + 1 == needed {
                self.cards[code] = u8::try_from(needed).unwrap();
                self.hint = i;
                return;
            }
        }
        panic!("{what}: {demand:?} needs more than the {needed} cards of the rows");
    }
}

fn without_full_card(geometry: &Geometry) -> Geometry {
    let mut small = geometry.clone();
    small.types.retain(|t| t.memory_slices < geometry.memory_slices);
    small
}

fn model<'a>(catalog: &'a Catalog, id: &str) -> &'a GpuModel {
    catalog.models().iter().find(|m| m.id == id).unwrap()
}

/// One model for each of the three known tables.
const TABLES: [&str; 3] = ["a100-40gb", "a30-24gb", "rtx-pro-5000-blackwell-48gb"];

#[test]
fn the_closed_form_is_proven_for_every_known_table() {
    let catalog = catalog();
    for id in TABLES {
        let model = model(&catalog, id);
        for full in [plain(model), with_media(model)] {
            let rows = Rows::new(&full);
            assert!(rows.exact, "{id}");
            let full_card = full.types.len() - 1;
            assert!(rows.rows.iter().all(|row| row.weights[full_card] == row.per_card), "{id}");
            let geometry = without_full_card(&full);
            assert_proven(id, &columns(&geometry), &Rows::new(&geometry).rows);
        }
    }
}

#[test]
fn larger_slices_save_cards_only_where_a_type_is_scarce_and_that_is_proven_too() {
    let catalog = catalog();
    for id in TABLES {
        let model = model(&catalog, id);
        for geometry in sub_tables(&without_full_card(&plain(model))) {
            assert_eq!(Rows::new(&geometry).along_chain(), Rows::new(&geometry), "{id}");
            assert_eq!(columns_along_chain(&geometry), columns(&geometry), "{id}");
        }
        for geometry in sub_tables(&without_full_card(&with_media(model))) {
            assert_proven(id, &columns_along_chain(&geometry), &Rows::new(&geometry).along_chain().rows);
        }
    }
}

#[test]
fn the_closed_form_holds_in_the_whole_box_of_the_largest_remainders() {
    let catalog = catalog();
    for (id, most) in
        [("a100-40gb", &[34, 19, 14, 9, 4][..]), ("a30-24gb", &[7, 3]), ("rtx-pro-5000-blackwell-48gb", &[1])]
    {
        let geometry = without_full_card(&plain(model(&catalog, id)));
        let rows = Rows::new(&geometry);
        let n = Table::new(&columns(&geometry), &rows.rows, most, None).assert_optimal(id);
        assert_eq!(n, most.iter().map(|m| *m as usize + 1).product::<usize>());
    }
}

#[test]
fn every_table_of_the_catalog_is_a_known_one() {
    let catalog = catalog();
    let mut n_tables = 0;
    for model in catalog.models().iter().filter(|m| m.can_partition()) {
        for geometry in sub_tables(&with_media(model)) {
            let rows = Rows::new(&geometry);
            assert!(rows.exact, "{}: {:?}", model.id, geometry.types);
            n_tables += 1;
        }
    }
    assert!(n_tables > 1000, "{n_tables}");
}
