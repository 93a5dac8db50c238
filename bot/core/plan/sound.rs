//! What becomes of a plan that breaks a rule of its own.

use super::check::check;
use super::{Kept, Nothing, Outcome, Request};
use crate::fit::Reason;

/// Code of the reasons of a plan that was dropped here: a defect of the planner, which deserves a line in the log.
pub const CHECK_FAILED: &str = "check-failed";

/// The outcome, unless it is a plan that breaks a rule: such a one is never shown. Better nothing than something wrong.
pub fn sound(request: &Request<'_>, outcome: Outcome) -> Outcome {
    let plan = match outcome {
        Outcome::Plan(plan) => plan,
        Outcome::Nothing(_) => return outcome,
    };
    let broken = check(request, &plan);
    if broken.is_empty() {
        return Outcome::Plan(plan);
    }
    let mut kept = plan.kept;
    kept.extend(plan.items.into_iter().map(|item| Kept {
        n_cards: item.replicas,
        reasons: Vec::new(),
        fit: item.fit,
    }));
    let reason = |text: String| {
        Reason::new(CHECK_FAILED, format!("the plan failed a check of its own: {text}"))
            .with_advice("this is a defect of Slicewright: please report it with `slicewright record`")
    };
    Outcome::Nothing(Nothing { pool: plan.pool, reasons: broken.into_iter().map(reason).collect(), kept })
}
