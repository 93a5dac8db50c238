//! Why no plan can use fewer cards: one line of arithmetic that a reviewer can check.

use std::fmt;

use super::rows::Rows;
use crate::units::{counted, thousands};

/// The proof of a number of cards: each row is a lower bound that holds for any plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The bounds for the cards that are cut, without the whole ones.
    pub rows: Vec<CertificateRow>,
    /// The row that decides; `None` when nothing is cut.
    pub binding: Option<usize>,
    /// Cards that are needed whole.
    pub whole: u32,
    /// Cards needed in all.
    pub n_cards: u32,
    /// Whether `n_cards` is the fewest possible.
    pub proven: bool,
}

/// One lower bound: `needed` of something of which a card has `per_card`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateRow {
    /// `4g`, `media` (slices with media engines of their own), `start-slots`, `memory-slices`, `compute-slices`, or
    /// `slice-weights`: a sum without a name, on cards with an unknown table or with `+me`.
    pub code: &'static str,
    /// What the slices need together.
    pub needed: u32,
    /// What one card has.
    pub per_card: u32,
    /// `needed / per_card`, rounded up.
    pub n_cards: u32,
}

impl Certificate {
    /// The rows for slices with these counts; `n_cut` is the number of cards that a plan really uses for them.
    pub(super) fn new(rows: &Rows, counts: &[u32], whole: u32, n_cut: u32) -> Self {
        let mut shown: Vec<CertificateRow> = rows
            .rows
            .iter()
            .map(|row| {
                let needed = counts
                    .iter()
                    .zip(&row.weights)
                    .fold(0u32, |sum, (n, w)| sum.saturating_add(n.saturating_mul(*w)));
                CertificateRow {
                    code: row.code,
                    needed,
                    per_card: row.per_card,
                    n_cards: needed.div_ceil(row.per_card),
                }
            })
            .collect();
        let bound = shown.iter().map(|r| r.n_cards).max().unwrap_or(0);
        if !rows.exact {
            // A derived table has hundreds of rows: people want the plain ones and the one that decides.
            let best = shown.iter().position(|r| r.n_cards == bound);
            let mut at = 0;
            shown.retain(|r| {
                at += 1;
                r.code != "slice-weights" || Some(at - 1) == best
            });
        }
        let binding = if bound == 0 { None } else { binding(&shown, bound) };
        Self { rows: shown, binding, whole, n_cards: whole.saturating_add(n_cut), proven: n_cut == bound }
    }
}

/// Memory first: of equal bounds it is the one that people check in their head.
fn binding(rows: &[CertificateRow], bound: u32) -> Option<usize> {
    let decides = |i: &usize| rows[*i].n_cards == bound;
    (0..rows.len())
        .filter(|i| rows[*i].code == "memory-slices")
        .find(decides)
        .or_else(|| (0..rows.len()).rev().find(decides))
}

impl fmt::Display for CertificateRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needed = thousands(u64::from(self.needed));
        let per_card = self.per_card;
        match self.code {
            "4g" => write!(f, "the slices hold {needed} of the 4g kind, and a card has room for {per_card}"),
            "media" => {
                write!(f, "the slices hold {needed} of the `+me` kind, and a card has room for {per_card}")
            }
            "start-slots" => {
                write!(f, "the slices need {needed} places to start at, and a card has {per_card}")
            }
            "memory-slices" => write!(f, "the slices need {needed} memory slices, and a card has {per_card}"),
            "compute-slices" => {
                write!(f, "the slices need {needed} compute slices, and a card has {per_card}")
            }
            _ => write!(f, "the slices weigh {needed} where a card holds {per_card}"),
        }?;
        write!(f, ": {}", counted(self.n_cards as usize, "card"))
    }
}

impl fmt::Display for Certificate {
    /// `the slices need 6 memory slices, and a card has 8: 1 card; no plan can use fewer`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = counted(self.whole as usize, "card");
        match (self.binding.and_then(|i| self.rows.get(i)), self.whole) {
            (Some(row), 0) => write!(f, "{row}")?,
            (Some(row), _) => write!(f, "{row}, and {whole} whole")?,
            (None, 0) => return write!(f, "nothing needs a card"),
            (None, _) => write!(f, "{whole} are needed whole")?,
        }
        if self.proven {
            write!(f, "; no plan can use fewer")
        } else {
            write!(f, " at least; the plan uses {}", counted(self.n_cards as usize, "card"))
        }
    }
}
