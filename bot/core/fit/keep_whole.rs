//! Keep whole.
use super::{Candidate, Needs, Question, Reason, Verdict};
use crate::policy::Method;
pub(super) fn decide(_q: &Question<'_>, _n: &Needs, _c: &[Candidate]) -> (Verdict, Candidate) {
    (
        Verdict::KeepWhole { reason: Reason::new("x", "x") },
        Candidate {
            method: Method::KeepWhole,
            name: "keep whole".into(),
            fits: true,
            reasons: vec![],
            memory: None,
            sm: None,
            chain_index: None,
        },
    )
}
