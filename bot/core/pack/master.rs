//! Proposes prices: the best ones as far as the bounds seen so far can tell.
//!
//! Every bound that was computed is a plane above which the true bound never lies; the highest point below all planes
//! is found by a simplex method over a handful of rows (Kelley's cutting planes). It computes in fixed point, so a
//! proposal can be slightly off. That is harmless: a bound counts only after it was computed exactly at its prices.

/// Fraction bits of the fixed-point numbers.
const BITS: u32 = 40;
/// What counts as zero.
const EPSILON: i128 = 1 << 16;

struct Column {
    cost: i128,
    /// The first entry belongs to the row that makes weights add up to one.
    rows: Vec<i128>,
}

/// The planes seen so far, with the basis of the last optimum.
pub(super) struct Master {
    columns: Vec<Column>,
    basis: Vec<usize>,
    inverse: Vec<Vec<i128>>,
    weights: Vec<i128>,
    last_is_equation: bool,
}

fn times(a: i128, b: i128) -> Option<i128> {
    Some(a.checked_mul(b)? >> BITS)
}

fn over(a: i128, b: i128) -> Option<i128> {
    a.checked_mul(1 << BITS)?.checked_div(b)
}

fn dot(a: &[i128], b: &[i128]) -> Option<i128> {
    a.iter().zip(b).try_fold(0i128, |sum, (x, y)| sum.checked_add(times(*x, *y)?))
}

impl Master {
    /// Starts from one plane: its value at price zero and its slope. Prices stay within 0 and `most`; the
    /// last may be negative when it belongs to an equation.
    pub(super) fn new(value: i64, slope: &[i64], most: i64, last_is_equation: bool) -> Self {
        let n = slope.len() + 1;
        let unit = |row: usize, sign: i128| (0..n).map(|r| if r == row { sign << BITS } else { 0 }).collect();
        let mut master = Self {
            columns: Vec::new(),
            basis: Vec::new(),
            inverse: (0..n).map(|r| unit(r, 1)).collect(),
            weights: vec![0; n],
            last_is_equation,
        };
        for row in 1..n {
            let cost = if last_is_equation && row == n - 1 { fixed(most) } else { 0 };
            master.columns.push(Column { cost, rows: unit(row, 1) });
            master.columns.push(Column { cost: fixed(most), rows: unit(row, -1) });
        }
        master.add(value, slope);
        master.basis.push(master.columns.len() - 1);
        master.weights[0] = 1 << BITS;
        for (row, s) in (1..n).zip(slope) {
            let short = *s > 0;
            master.basis.push(2 * (row - 1) + usize::from(short));
            let sign = if short { -1 } else { 1 };
            master.inverse[row][row] = sign << BITS;
            master.inverse[row][0] = -sign * (i128::from(*s) << BITS);
            master.weights[row] = i128::from(s.abs()) << BITS;
        }
        master
    }

    /// Adds a plane.
    pub(super) fn add(&mut self, value: i64, slope: &[i64]) {
        let rows = std::iter::once(1).chain(slope.iter().copied()).map(|s| i128::from(s) << BITS).collect();
        self.columns.push(Column { cost: fixed(value), rows });
    }

    /// The prices at the highest point below all planes, and its height.
    pub(super) fn solve(&mut self) -> Option<(Vec<i64>, i64)> {
        for _ in 0..500 {
            let costs: Vec<i128> = self.basis.iter().map(|b| self.columns[*b].cost).collect();
            let n = costs.len();
            let mut duals = vec![0i128; n];
            for (cost, row) in costs.iter().zip(&self.inverse) {
                for (dual, entry) in duals.iter_mut().zip(row) {
                    *dual = dual.checked_add(times(*cost, *entry)?)?;
                }
            }
            let mut entering: Option<(i128, usize)> = None;
            for (j, column) in self.columns.iter().enumerate() {
                let reduced = column.cost.checked_sub(dot(&duals, &column.rows)?)?;
                if reduced < -EPSILON && !self.basis.contains(&j) && entering.is_none_or(|(r, _)| reduced < r)
                {
                    entering = Some((reduced, j));
                }
            }
            let Some((_, entering)) = entering else {
                let mut prices: Vec<i64> = duals[1..].iter().map(|d| unfixed(-d)).collect();
                let signed = prices.len() - usize::from(self.last_is_equation);
                prices[..signed].iter_mut().for_each(|p| *p = (*p).max(0));
                return Some((prices, unfixed(duals[0])));
            };
            self.pivot(entering)?;
        }
        None
    }

    /// The planes that meet at the highest point, by number, and their weights in `prices::UNIT`s.
    pub(super) fn blend(&self) -> Vec<(usize, i64)> {
        let first = 2 * (self.weights.len() - 1);
        let weights = self.basis.iter().zip(&self.weights);
        weights.filter_map(|(b, w)| Some((b.checked_sub(first)?, unfixed(*w)))).collect()
    }

    fn pivot(&mut self, entering: usize) -> Option<()> {
        let column: Vec<i128> =
            self.inverse.iter().map(|row| dot(row, &self.columns[entering].rows)).collect::<Option<_>>()?;
        let mut leaving: Option<(i128, i128, usize)> = None;
        for (row, entry) in column.iter().enumerate() {
            if *entry > EPSILON {
                let ratio = over(self.weights[row].max(0), *entry)?;
                if leaving.is_none_or(|(r, e, _)| ratio < r || (ratio == r && *entry > e)) {
                    leaving = Some((ratio, *entry, row));
                }
            }
        }
        let (ratio, entry, row) = leaving?;
        let pivot_row: Vec<i128> =
            self.inverse[row].iter().map(|x| over(*x, entry)).collect::<Option<_>>()?;
        for (r, factor) in column.iter().enumerate() {
            if r == row {
                continue;
            }
            for (x, p) in self.inverse[r].iter_mut().zip(&pivot_row) {
                *x = x.checked_sub(times(*factor, *p)?)?;
            }
            self.weights[r] = self.weights[r].checked_sub(times(*factor, ratio)?)?;
        }
        self.inverse[row] = pivot_row;
        self.weights[row] = ratio;
        self.basis[row] = entering;
        Some(())
    }
}

/// From `prices::UNIT` (20 bits) to fixed point and back.
fn fixed(units: i64) -> i128 {
    i128::from(units) << (BITS - 20)
}

fn unfixed(value: i128) -> i64 {
    i64::try_from(value >> (BITS - 20)).unwrap_or(0)
}
