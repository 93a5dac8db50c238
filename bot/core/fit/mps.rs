//! Weighs MPS for one workload: asked for, allowed, and small enough for an equal share of the card.
//!
//! The server gives every client the same memory and the same part of the threads and enforces both, so that one large
//! client decides for all of its card. How many share a card is the question of `pack`.

use super::mig::decided;
use super::time_slicing::{framebuffer, usable};
use super::{Candidate, Needs, Question, Reason, milli};
use crate::pack::mps::{memory_share, threads_milli};
use crate::policy::Method;
use crate::units::Mib;

/// One candidate where policy asks for MPS; without that MPS is not weighed at all.
pub(super) fn candidate(question: &Question<'_>, needs: &Needs, out: &mut Vec<Candidate>) {
    if !question.policy.methods.contains(&Method::Mps) {
        return;
    }
    let half = framebuffer(question).map(|framebuffer| Mib(memory_share(framebuffer.0, 2)));
    let mut reasons = Vec::new();
    if question.policy.production {
        reasons.push(
            Reason::new(
                "production",
                format!(
                    "production{}: a fatal fault of one MPS client ends all clients of its card",
                    decided(question, "production")
                ),
            )
            .with_advice(
                "name its namespace in a policy rule with `production: false` if it is not production",
            ),
        );
    }
    reasons.extend(question.ground.mps_refused.clone());
    if let Some(model) =
        question.model.filter(|m| !m.compute_capability.is_some_and(|c| c.mps_limits_clients()))
    {
        reasons.push(Reason::new(
            "mps-without-limits",
            format!("MPS limits no client on {}: one could take the memory of all", model.title()),
        ));
    }
    match half {
        None => reasons.push(Reason::new("framebuffer-unknown", "the card's framebuffer is not known")),
        Some(half) if needs.memory > half => reasons.push(Reason::new(
            "share-too-small",
            format!("needs {} with headroom, and the larger share of two clients is {half}", needs.memory),
        )),
        Some(_) => {}
    }
    match (needs.compute_milli, threads_milli(2)) {
        (None, _) => reasons.push(Reason::new(
            "compute-unknown",
            "its compute was not measured, and MPS caps what a client may use",
        )),
        (Some(need), half) if need > half => reasons.push(Reason::new(
            "too-busy",
            format!("needs {} of the SMs, and two clients may use {} each", milli(need), milli(half)),
        )),
        (Some(_), _) => {}
    }
    let fits = reasons.is_empty();
    if fits && let Some(half) = half {
        reasons.push(Reason::new(
            "may-share",
            format!("needs {} with headroom, of up to {half} that a client can have", needs.memory),
        ));
    }
    out.push(Candidate {
        method: Method::Mps,
        name: "MPS".into(),
        fits,
        reasons,
        memory: usable(question),
        sm: None,
        chain_index: None,
    });
}
