//! Branches of the bot's that belong to no pool any more: what was proposed for a pool or a cluster that was taken out of the
//! configuration since.
//!
//! They are named and left alone. Nobody knows here whether the pool comes back, or whether another bot writes there, and
//! what is closed is noted as declined.

use std::collections::{BTreeMap, BTreeSet};

use slicewright_core::ids::PoolId;

use super::propose::{ClusterReport, Report};
use super::{Engine, Inputs, onboarding};

/// A branch of no pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// Where its repository is: `github:acme/infra`, a path.
    pub repository: String,
    /// Clusters that the repository describes.
    pub clusters: Vec<String>,
    /// Its name.
    pub branch: String,
}

impl Orphan {
    /// What to do about any of them, in a sentence.
    pub const ADVICE: &str = "close its merge request and delete the branch, or put the pool back into the configuration; \
                              where another bot writes in this repository, give one of the two another `branch_prefix`";

    /// What is the case, in a sentence.
    pub fn problem(&self) -> String {
        format!(
            "branch `{}` belongs to no pool that is configured or measured, so that nothing there is updated or withdrawn",
            self.branch
        )
    }
}

impl Engine {
    /// The branches of no pool in the repositories all of whose clusters were looked at, in the order of repositories and
    /// names. Where they cannot be listed the log says so: nothing else depends on it.
    pub(super) async fn orphans(&self, inputs: &Inputs, report: &Report) -> Vec<Orphan> {
        let mut orphans = Vec::new();
        for (repository, clusters) in self.whole(report) {
            let Some(forge) = inputs.forges.get(&clusters[0].analysis.cluster) else { continue };
            let known = self.known(&clusters);
            let names: Vec<String> = clusters.iter().map(|one| one.analysis.cluster.clone()).collect();
            match forge.branches().await {
                Ok(branches) => {
                    let of_none = branches.into_iter().filter(|branch| !known.contains(branch));
                    let orphan =
                        |branch| Orphan { repository: repository.clone(), clusters: names.clone(), branch };
                    orphans.extend(of_none.map(orphan));
                }
                Err(error) => tracing::warn!("cannot list the branches in `{repository}`: {error:#}"),
            }
        }
        orphans
    }

    /// The repositories all of whose clusters were looked at.
    pub(super) fn whole<'a>(&self, report: &'a Report) -> BTreeMap<String, Vec<&'a ClusterReport>> {
        let mut of_repository: BTreeMap<String, Vec<&ClusterReport>> = BTreeMap::new();
        for cluster in &report.clusters {
            let settings = self.settings().clusters.iter().find(|one| one.name == cluster.analysis.cluster);
            if let Some(settings) = settings {
                of_repository.entry(settings.repository.place()).or_default().push(cluster);
            }
        }
        of_repository.retain(|place, clusters| {
            let here = self.settings().clusters.iter().filter(|one| one.repository.place() == *place);
            here.count() == clusters.len()
        });
        of_repository
    }

    /// Branches that belong to something: a pool that was looked at, one that is configured and has no node now, the first
    /// contact.
    fn known(&self, clusters: &[&ClusterReport]) -> BTreeSet<String> {
        let prefix = self.settings().branch_prefix();
        let mut known = BTreeSet::from([onboarding::branch(prefix)]);
        for ClusterReport { analysis, pools } in clusters {
            known.extend(pools.iter().map(|pool| pool.branch.clone()));
            for name in &analysis.empty_pools {
                let pool = PoolId { cluster: analysis.cluster.clone(), pool: name.clone() };
                known.extend([pool.branch(prefix), pool.branch_with_hash(prefix)]);
            }
        }
        known
    }
}
