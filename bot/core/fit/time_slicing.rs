//! Weighs time-slicing for one workload: allowed, small enough to meet another on a card, idle enough.

use super::mig::decided;
use super::{Candidate, Needs, Question, Reason};
use crate::policy::Method;
use crate::units::{Mib, Ratio};
use crate::usage::ComputeSource;

/// GPU_UTIL above this says too little about how much room is left to share a card on its word alone.
/// Doubling it would let a workload that keeps the card busy meet others without any profiling metric.
const GPU_UTIL_LIMIT: Ratio = Ratio::from_ppm(600_000);

/// One candidate, with why it may or may not meet others on a card.
pub(super) fn candidate(question: &Question<'_>, needs: &Needs, out: &mut Vec<Candidate>) {
    let usable = usable(question);
    let mut reasons = Vec::new();
    if question.policy.production {
        reasons.push(
            Reason::new(
                "production",
                format!(
                    "production{}: time-slicing isolates neither memory nor faults, so a neighbour could take it down",
                    decided(question, "production")
                ),
            )
            .with_advice("name its namespace in a policy rule with `production: false` if it is not production"),
        );
    } else if !question.policy.allows(Method::TimeSlicing) {
        reasons.push(Reason::new(
            "not-allowed",
            format!("policy does not allow time-slicing{}", decided(question, "methods")),
        ));
    }
    reasons.extend(question.ground.time_slicing_refused.clone());
    match usable {
        None => reasons.push(Reason::new("framebuffer-unknown", "the card's framebuffer is not known")),
        Some(usable) if needs.peak >= usable => reasons.push(Reason::new(
            "no-room-for-two",
            format!("its peak of {} leaves no room for a second pod in {usable}", needs.peak),
        )),
        Some(_) => {}
    }
    if let Some(compute) = question.profile.and_then(|profile| profile.compute) {
        let limit = question.policy.time_slicing.compute_limit;
        if compute.p99 >= limit {
            reasons.push(Reason::new(
                "too-busy",
                format!(
                    "{} reaches {}, and all pods of a card may sum to {limit}",
                    compute.source.name(),
                    compute.p99
                ),
            ));
        } else if compute.source == ComputeSource::GpuUtil && compute.p99 > GPU_UTIL_LIMIT {
            reasons.push(Reason::new(
                "too-busy",
                format!("GPU_UTIL reaches {} and no profiling metric says how wide that is", compute.p99),
            ));
        }
    }
    let fits = reasons.is_empty();
    if fits && let Some(usable) = usable {
        reasons.push(Reason::new(
            "may-share",
            format!("its peak of {} may meet others on a card with {usable} usable", needs.peak),
        ));
    }
    out.push(Candidate {
        method: Method::TimeSlicing,
        name: "time-slicing".into(),
        fits,
        reasons,
        memory: usable,
        sm: None,
        chain_index: None,
    });
}

/// What the largest peaks together may take: a share of the smallest framebuffer seen or known.
pub(super) fn usable(question: &Question<'_>) -> Option<Mib> {
    let known = question.model.and_then(crate::catalog::GpuModel::smallest_framebuffer);
    let seen = question.ground.smallest_framebuffer;
    let smallest = match (known, seen) {
        (Some(known), Some(seen)) => known.min(seen),
        (known, seen) => known.or(seen)?,
    };
    Some(smallest.share_floor(question.policy.time_slicing.usable_share))
}
