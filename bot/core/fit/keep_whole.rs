//! Chooses among the candidates, and says why the card stays whole when none will do.

use super::{Candidate, Needs, Question, Reason, Verdict};
use crate::policy::Method;

/// The verdict, and the candidate "keep whole" with its reason.
pub(super) fn decide(
    question: &Question<'_>,
    needs: &Needs,
    considered: &[Candidate],
) -> (Verdict, Candidate) {
    let best = considered.iter().find(|candidate| candidate.fits);
    let verdict = match best {
        Some(candidate) if candidate.method == Method::Mig => {
            Verdict::Mig { profile: candidate.name.clone() }
        }
        Some(candidate) if candidate.method == Method::Mps => Verdict::Mps,
        Some(_) => Verdict::TimeSlicing,
        None if only_the_bound_is_too_high(needs, considered) => Verdict::NotEnoughEvidence {
            reasons: vec![
                Reason::new(
                    "upper-bound-only",
                    format!(
                        "only an upper bound of its compute is known ({}), and nothing fits under that",
                        question
                            .profile
                            .and_then(|profile| profile.compute)
                            .map_or_else(String::new, |c| format!("{} at {}", c.source.name(), c.p99))
                    ),
                )
                .with_advice(
                    "enable the profiling metrics: `DCGM_FI_PROF_SM_ACTIVE` in the exporter's counters",
                ),
            ],
        },
        None => Verdict::KeepWhole { reason: why(considered) },
    };
    let reason = match &verdict {
        Verdict::KeepWhole { reason } => reason.clone(),
        Verdict::Mig { .. } | Verdict::TimeSlicing | Verdict::Mps => {
            Reason::new("wasteful", "always possible; holds a card that others could use")
        }
        Verdict::KeepSlice { .. } | Verdict::NotEnoughEvidence { .. } | Verdict::Excluded { .. } => {
            Reason::new("until-known", "until more is known")
        }
    };
    let whole = Candidate {
        method: Method::KeepWhole,
        name: "keep whole".into(),
        fits: true,
        reasons: vec![reason],
        memory: question.model.and_then(|model| model.framebuffer),
        sm: question.model.and_then(|model| model.sm_total),
        chain_index: None,
    };
    (verdict, whole)
}

/// Some slice has everything else that is needed, and only a figure that may be too high speaks against it.
fn only_the_bound_is_too_high(needs: &Needs, considered: &[Candidate]) -> bool {
    needs.compute_is_upper_bound
        && considered.iter().any(|candidate| {
            !candidate.reasons.is_empty()
                && candidate
                    .reasons
                    .iter()
                    .all(|reason| matches!(reason.code.as_str(), "compute-too-small" | "too-busy"))
        })
}

/// The reason that stood between the workload and the largest thing that was weighed.
fn why(considered: &[Candidate]) -> Reason {
    let last_slice = considered
        .iter()
        .rev()
        .find(|candidate| candidate.method == Method::Mig && candidate.chain_index.is_some());
    let by_name = |candidate: &Candidate| {
        let mut reason = candidate.reasons.first().cloned()?;
        reason.text = format!("`{}` {}", candidate.name, reason.text);
        Some(reason)
    };
    if let Some(reason) = last_slice.and_then(by_name) {
        return Reason { text: format!("no slice fits: {}", reason.text), ..reason };
    }
    let texts: Vec<String> = considered
        .iter()
        .filter_map(|candidate| {
            candidate.reasons.first().map(|reason| format!("{}: {}", candidate.name, reason.text))
        })
        .collect();
    let code = considered
        .iter()
        .find_map(|candidate| candidate.reasons.first())
        .map_or("nothing-allowed", |reason| reason.code.as_str());
    Reason {
        code: code.to_owned(),
        text: if texts.is_empty() { "no way of sharing was weighed".to_owned() } else { texts.join("; ") },
        advice: considered.iter().rev().find_map(|candidate| candidate.reasons.first()?.advice.clone()),
    }
}
