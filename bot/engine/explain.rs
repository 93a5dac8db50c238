//! Every candidate, every number and every reason of one workload.

use slicewright_core::fit::FitReport;
use slicewright_core::ids::PoolId;
use slicewright_core::plan::Outcome;
use slicewright_core::plan::pool::Pool;
use slicewright_core::policy::Policy;

use super::analyse::Analysis;
use crate::render::{self, Brief};

/// What is known of one workload in one cluster.
pub struct Explained {
    /// Where it stands: `pool a100-40gb`, `not running now`.
    pub place: String,
    /// The text.
    pub text: String,
}

/// Explains every workload called `namespace/name`; several when kinds share the name.
pub fn explain(analysis: &Analysis, namespace: &str, name: &str) -> Vec<Explained> {
    fits(analysis)
        .into_iter()
        .filter(|(report, _)| report.workload.namespace == namespace && report.workload.name == name)
        .map(|(report, pool)| {
            let default = Policy::default();
            let policy = analysis.policies_in(pool).get(&report.workload).unwrap_or(&default);
            let profile = analysis.measured.profiles.get(&report.workload);
            Explained {
                place: pool
                    .map_or_else(|| "not running now".to_owned(), |pool| format!("pool {}", pool.id.pool)),
                text: render::explain(report, profile, policy, pool),
            }
        })
        .collect()
}

/// Every workload of a pool in a line: those of the table with their numbers, then the others.
pub(super) fn brief(analysis: &Analysis, pool: &PoolId) -> Vec<Brief> {
    let mut rows = Vec::new();
    for (report, at) in fits(analysis) {
        if at.is_none_or(|at| at.id != *pool) {
            continue;
        }
        let number = match analysis.outcome(pool) {
            Some(Outcome::Plan(plan)) => {
                plan.items.iter().position(|item| item.fit.workload == report.workload)
            }
            Some(Outcome::Nothing(_)) | None => None,
        };
        rows.push(render::brief(report, number.map(|number| number + 1)));
    }
    rows
}

/// Names of all workloads that `explain` knows, as `namespace/name`.
pub fn known(analysis: &Analysis) -> Vec<String> {
    fits(analysis).into_iter().map(|(report, _)| report.workload.to_string()).collect()
}

/// Every fit of the cluster with the pool that it stands in.
fn fits(analysis: &Analysis) -> Vec<(&FitReport, Option<&Pool>)> {
    let mut fits = Vec::new();
    for (pool, outcome) in analysis.pools.iter().zip(&analysis.outcomes) {
        let (items, kept) = match outcome {
            Outcome::Plan(plan) => (plan.items.as_slice(), &plan.kept),
            Outcome::Nothing(nothing) => (&[][..], &nothing.kept),
        };
        fits.extend(items.iter().map(|item| (&item.fit, Some(pool))));
        fits.extend(kept.iter().map(|kept| (&kept.fit, Some(pool))));
    }
    fits.extend(analysis.elsewhere.iter().map(|fit| (fit, None)));
    fits
}
