//! A pool with a limit on layouts: a larger profile than needed can pay there.
//!
//! All workloads of one profile move to one larger profile together; each pair of profiles is tried, and the plan that
//! frees most wins. Without a limit that never saves a card (see `pack`: the shrink lemma).

use super::land::slice_of;
use super::{Mig, by_node};
use crate::fit::{Reason, Verdict};
use crate::plan::{Goal, Plan, Weighed};

/// The best plan within the pool's limit on layouts.
pub(super) fn within_layouts(mig: &Mig<'_, '_>) -> Result<Plan, Vec<Reason>> {
    let mut best = by_node(mig);
    for variant in raised(mig) {
        let other = Mig {
            request: mig.request,
            weighed: &variant,
            model_name: mig.model_name.clone(),
            model: mig.model,
            chain: mig.chain.clone(),
            geometry: mig.geometry.clone(),
        };
        let Ok(plan) = by_node(&other) else { continue };
        if best.as_ref().map_or(true, |best| gain(&plan) > gain(best)) {
            best = Ok(plan);
        }
    }
    best
}

/// Nodes and cards that the plan frees, what its goal asks for first.
fn gain(plan: &Plan) -> (u32, u32) {
    let nodes = plan.saving.nodes_before.saturating_sub(plan.saving.nodes_after);
    match plan.goal {
        Goal::Bill => (nodes, plan.saving.cards_freed),
        Goal::Capacity => (plan.saving.cards_freed, nodes),
    }
}

/// The pool with all workloads of one profile in a larger one, for every pair that they fit.
fn raised<'a>(mig: &Mig<'a, '_>) -> Vec<Vec<Weighed<'a>>> {
    let mut variants = Vec::new();
    for from in 0..mig.chain.len() {
        for to in from + 1..mig.chain.len() {
            let name = mig.chain[to].name.to_string();
            let mut variant = mig.weighed.to_vec();
            let mut n_raised = 0;
            for w in variant.iter_mut().filter(|w| slice_of(w) == Some(from)) {
                if w.fit.considered.iter().any(|c| c.name == name && c.fits) {
                    w.fit.verdict = Verdict::Mig { profile: name.clone() };
                    n_raised += 1;
                }
            }
            if n_raised > 0 {
                variants.push(variant);
            }
        }
    }
    variants
}
