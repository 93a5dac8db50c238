//! Which way of sharing a pool takes, when more than one would do.
//!
//! Every way that policy allows is planned in full, and the plans are compared by what they free. Production moves by
//! MIG alone; on a tie hardware isolation wins.

use super::weigh::held_back;
use super::{
    Alternative, Goal, Plan, PluginSharing, Request, Weighed, mig, refuse_mixed_nodes, time_slicing,
};
use crate::fit::{Reason, Verdict};
use crate::policy::Method;
use crate::units::counted;

/// Ways to share, the one that isolates more first: on a tie it wins. MPS, which limits memory, stands behind
/// time-slicing because NVIDIA calls it experimental in the device plugin.
const METHODS: [Method; 3] = [Method::Mig, Method::TimeSlicing, Method::Mps];

/// The plan that frees the most by the pool's goal, or why there is none.
pub(super) fn choose_method(request: &Request<'_>, weighed: &[Weighed<'_>]) -> Result<Plan, Vec<Reason>> {
    let mut plans: Vec<Plan> = Vec::new();
    let mut refused: Vec<(Method, Vec<Reason>)> = Vec::new();
    for method in METHODS {
        let weighed = by_method(request, weighed, method);
        if !weighed.iter().any(|w| moves(w, method)) {
            continue;
        }
        let made = match method {
            Method::Mig => mig::plan(request, &weighed),
            Method::TimeSlicing => time_slicing::plan(request, &weighed, PluginSharing::TimeSlicing),
            Method::Mps => time_slicing::plan(request, &weighed, PluginSharing::Mps),
            Method::KeepWhole => continue,
        };
        match made.and_then(|plan| refuse_mixed_nodes(request, plan)) {
            Ok(plan) => plans.push(plan),
            Err(reasons) => refused.push((method, reasons)),
        }
    }
    let production = |plan: &Plan| {
        let is = |id| request.policies.get(id).is_none_or(|policy| policy.production);
        plan.method == Method::Mig && plan.items.iter().any(|item| is(&item.fit.workload))
    };
    let best = plans
        .iter()
        .enumerate()
        .max_by_key(|(i, plan)| (production(plan), plan.gain(request.pool.goal), std::cmp::Reverse(*i)))
        .map(|(i, _)| i);
    let Some(best) = best else {
        // One way has to speak for all: the one that isolates most is the one that people would rather have, so that
        // what forbids it is what they would change first.
        return Err(refused.into_iter().next().map_or_else(
            || vec![Reason::new("nothing-fits", "no workload of this pool may get less than a whole card")],
            |(_, reasons)| reasons,
        ));
    };
    let mut plan = plans.swap_remove(best);
    let mut others: Vec<(usize, Alternative)> = Vec::new();
    for other in &plans {
        others.push((rank(other.method), lost(request.pool.goal, &plan, other, production(&plan))));
    }
    for (method, reasons) in &refused {
        others.push((rank(*method), impossible(*method, reasons)));
    }
    for method in [Method::Mig, Method::TimeSlicing] {
        let weighed_here = plan.method == method || others.iter().any(|(known, _)| *known == rank(method));
        if !weighed_here {
            others.push((rank(method), fits_nobody(&plan, method)));
        }
    }
    others.sort_by_key(|(rank, _)| *rank);
    let others = others.into_iter().map(|(_, alternative)| alternative);
    plan.alternatives = others.chain(std::mem::take(&mut plan.alternatives)).collect();
    Ok(plan)
}

fn rank(method: Method) -> usize {
    METHODS.iter().position(|known| *known == method).unwrap_or(METHODS.len())
}

fn moves(weighed: &Weighed<'_>, method: Method) -> bool {
    weighed.held_back.is_none() && weighed.chosen().is_some_and(|chosen| chosen.method == method)
}

/// The pool as it is weighed for one method: whoever may use it does, whatever else would suit it too.
fn by_method<'a>(request: &Request<'_>, weighed: &[Weighed<'a>], method: Method) -> Vec<Weighed<'a>> {
    let mut weighed = weighed.to_vec();
    for w in &mut weighed {
        let free = matches!(w.fit.verdict, Verdict::Mig { .. } | Verdict::TimeSlicing | Verdict::Mps);
        let Some(candidate) = w.fitting(method).filter(|_| free) else { continue };
        let verdict = match method {
            Method::Mig => Verdict::Mig { profile: candidate.name.clone() },
            Method::TimeSlicing => Verdict::TimeSlicing,
            Method::Mps => Verdict::Mps,
            Method::KeepWhole => continue,
        };
        if verdict != w.fit.verdict {
            w.fit.verdict = verdict;
            w.held_back = held_back(request, w);
        }
    }
    weighed
}

fn frees(plan: &Plan) -> String {
    format!(
        "{} and {}",
        counted(plan.gain(Goal::Bill) as usize, "node"),
        counted(plan.saving.cards_freed as usize, "card")
    )
}

fn called(plan: &Plan) -> String {
    match plan.method {
        Method::Mig | Method::KeepWhole => plan.method.name().to_owned(),
        Method::TimeSlicing | Method::Mps => time_slicing::called(plan),
    }
}

/// A way that works and frees less, or as much and stands behind: the rule that decided is said last.
fn lost(goal: Goal, plan: &Plan, other: &Plan, production: bool) -> Alternative {
    let isolation = match other.method {
        Method::Mig => "isolates memory, compute and faults by hardware",
        Method::TimeSlicing => "isolates neither memory nor faults",
        Method::Mps => "limits memory and isolates no faults",
        Method::KeepWhole => "shares nothing",
    };
    let moved = |plan: &Plan| counted(plan.items.len(), "workload");
    let decided = if production {
        "; production moves by MIG alone"
    } else if plan.gain(goal) > other.gain(goal) {
        ""
    } else if plan.method == Method::Mig {
        "; both free as much, and then the way that isolates by hardware is taken"
    } else {
        "; both free as much, and then time-slicing goes before MPS, which NVIDIA calls experimental in the device plugin"
    };
    Alternative {
        name: called(other),
        n_cards: Some(other.proof.n_cards),
        reason: format!(
            "moves {} and frees {}, this way moves {} and frees {}; {isolation}{decided}",
            moved(other),
            frees(other),
            moved(plan),
            frees(plan)
        ),
    }
}

/// A way that some workload may use and the pool cannot.
fn impossible(method: Method, reasons: &[Reason]) -> Alternative {
    Alternative {
        name: method.name().to_owned(),
        n_cards: None,
        reason: reasons.first().map_or_else(String::new, |reason| reason.text.clone()),
    }
}

/// A way that no workload of the plan may use: how many, and why the first may not.
fn fits_nobody(plan: &Plan, method: Method) -> Alternative {
    let refusals: Vec<String> = plan
        .items
        .iter()
        .filter_map(|item| {
            let mut candidates = item.fit.considered.iter().filter(|candidate| candidate.method == method);
            // Slices come smallest first: the largest is the one that nearly fits.
            let candidate = candidates.rfind(|candidate| !candidate.fits)?;
            let why = &candidate.reasons.first()?.text;
            let what = if method == Method::Mig && candidate.chain_index.is_some() {
                format!("`{}` ", candidate.name)
            } else {
                String::new()
            };
            Some(format!("{}: {what}{why}", item.fit.workload))
        })
        .collect();
    Alternative {
        name: method.name().to_owned(),
        n_cards: None,
        reason: match refusals.first() {
            None => "was not weighed".to_owned(),
            Some(first) => format!(
                "fits {} of {}; {first}",
                plan.items.len() - refusals.len(),
                counted(plan.items.len(), "workload")
            ),
        },
    }
}
