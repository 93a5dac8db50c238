//! Every candidate, every number and every reason of one workload.

use slicewright_core::fit::FitReport;
use slicewright_core::plan::Outcome;
use slicewright_core::policy::Policy;

use super::analyse::Analysis;
use crate::render;

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
        .map(|(report, place)| {
            let default = Policy::default();
            let policy = analysis.policies.get(&report.workload).unwrap_or(&default);
            let profile = analysis.measured.profiles.get(&report.workload);
            Explained { place, text: render::explain(report, profile, policy) }
        })
        .collect()
}

/// Names of all workloads that `explain` knows, as `namespace/name`.
pub fn known(analysis: &Analysis) -> Vec<String> {
    fits(analysis).into_iter().map(|(report, _)| report.workload.to_string()).collect()
}

/// Every fit of the cluster with where it stands.
fn fits(analysis: &Analysis) -> Vec<(&FitReport, String)> {
    let mut fits = Vec::new();
    for outcome in &analysis.outcomes {
        match outcome {
            Outcome::Plan(plan) => {
                let place = format!("pool {}", plan.pool.pool);
                fits.extend(plan.items.iter().map(|item| (&item.fit, place.clone())));
                fits.extend(plan.kept.iter().map(|kept| (&kept.fit, place.clone())));
            }
            Outcome::Nothing(nothing) => {
                let place = format!("pool {}", nothing.pool.pool);
                fits.extend(nothing.kept.iter().map(|kept| (&kept.fit, place.clone())));
            }
        }
    }
    fits.extend(analysis.elsewhere.iter().map(|fit| (fit, "not running now".to_owned())));
    fits
}
