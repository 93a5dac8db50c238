//! MIG candidates.
use super::{Candidate, Needs, Question, Reason, Verdict};
pub(super) fn candidates(_q: &Question<'_>, _n: &Needs, _c: &mut Vec<Candidate>) {}
pub(super) fn cautions(_q: &Question<'_>, _v: &Verdict) -> Vec<Reason> {
    Vec::new()
}
