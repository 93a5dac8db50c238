//! Weighs time-slicing for one workload: allowed, small enough to meet another on a card, idle enough.

use super::mig::decided;
use super::obstacle::{Obstacle, Unless};
use super::{Candidate, Needs, Question, Reason};
use crate::policy::Method;
use crate::units::{Mib, Ratio};
use crate::usage::ComputeSource;

/// GPU_UTIL above this says too little about how much room is left to share a card on its word alone.
/// Doubling it would let a workload that keeps the card busy meet others without any profiling metric.
const GPU_UTIL_LIMIT: Ratio = Ratio::from_ppm(600_000);

/// Everything that keeps it from meeting others on a card.
pub(super) fn obstacles(question: &Question<'_>, needs: &Needs) -> Vec<Obstacle> {
    let mut obstacles = Vec::new();
    if question.policy.production {
        let reason = Reason::new(
            "production",
            format!(
                "production{}: time-slicing isolates neither memory nor faults, so a neighbour could take it down",
                decided(question, "production")
            ),
        )
        .with_advice("name its namespace in a policy rule with `production: false` if it is not production");
        obstacles.push(Obstacle::setting(reason, "it were not production"));
    } else if !question.policy.allows(Method::TimeSlicing) {
        let text = format!("policy does not allow time-slicing{}", decided(question, "methods"));
        obstacles.push(Obstacle::setting(Reason::new("not-allowed", text), "policy allowed time-slicing"));
    }
    obstacles.extend(question.ground.time_slicing_refused.clone().map(Obstacle::firm));
    match usable(question) {
        None => obstacles
            .push(Obstacle::firm(Reason::new("framebuffer-unknown", "the card's framebuffer is not known"))),
        Some(usable) if needs.peak >= usable => obstacles.push(Obstacle {
            reason: Reason::new(
                "no-room-for-two",
                format!("its peak of {} leaves no room for a second pod in {usable}", needs.peak),
            ),
            unless: Some(Unless {
                condition: format!("the peak were below {usable}"),
                fact: Some(format!("it is {}", needs.peak)),
                excess_ppm: (needs.peak.0 - usable.0).saturating_mul(1_000_000) / usable.0.max(1),
            }),
        }),
        Some(_) => {}
    }
    obstacles.extend(too_busy(question));
    obstacles
}

fn too_busy(question: &Question<'_>) -> Option<Obstacle> {
    let compute = question.profile.and_then(|profile| profile.compute)?;
    let limit = question.policy.time_slicing.compute_limit;
    let (name, p99) = (compute.source.name(), compute.p99);
    let (limit, text) = if p99 >= limit {
        (limit, format!("{name} reaches {p99}, and all pods of a card may sum to {limit}"))
    } else if compute.source == ComputeSource::GpuUtil && p99 > GPU_UTIL_LIMIT {
        let text = format!("GPU_UTIL reaches {p99} and no profiling metric says how wide that is");
        (GPU_UTIL_LIMIT, text)
    } else {
        return None;
    };
    Some(Obstacle {
        reason: Reason::new("too-busy", text),
        unless: Some(Unless {
            condition: format!("the 99th percentile of {name} were below {limit}"),
            fact: Some(format!("{name} reaches {p99}")),
            excess_ppm: u64::from(p99.ppm() - limit.ppm()) * 1_000_000 / u64::from(limit.ppm().max(1)),
        }),
    })
}

/// As reviewers see it.
pub(super) fn candidate(question: &Question<'_>, needs: &Needs, obstacles: &[Obstacle]) -> Candidate {
    let usable = usable(question);
    let mut reasons: Vec<Reason> = obstacles.iter().map(|obstacle| obstacle.reason.clone()).collect();
    let fits = reasons.is_empty();
    if fits && let Some(usable) = usable {
        reasons.push(Reason::new(
            "may-share",
            format!("its peak of {} may meet others on a card with {usable} usable", needs.peak),
        ));
    }
    Candidate {
        method: Method::TimeSlicing,
        name: "time-slicing".into(),
        fits,
        reasons,
        memory: usable,
        sm: None,
        chain_index: None,
    }
}

/// What the largest peaks together may take: a share of the smallest framebuffer seen or known.
pub(super) fn usable(question: &Question<'_>) -> Option<Mib> {
    Some(framebuffer(question)?.share_floor(question.policy.time_slicing.usable_share))
}

/// What pods of a card share: the smallest framebuffer seen or known.
pub(super) fn framebuffer(question: &Question<'_>) -> Option<Mib> {
    let seen = question.ground.smallest_framebuffer;
    question.model.map_or(seen, |model| model.framebuffer_with(seen))
}
