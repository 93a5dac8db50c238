//! Time-slicing candidate.
use super::{Candidate, Needs, Question};
pub(super) fn candidate(_q: &Question<'_>, _n: &Needs, _c: &mut Vec<Candidate>) {}
