//! The branches of a cluster's pools, and what is there for each.

use std::collections::BTreeMap;

use slicewright_core::ids::PoolId;
use slicewright_core::review::overrides::Overrides;
use slicewright_core::review::signature::SigningKey;

use crate::engine::pass::known;
use crate::forge::Found;

/// What is there for the pools of a cluster.
pub(in crate::engine) struct There {
    pub(super) keys: Vec<SigningKey>,
    /// Branch and what was found, by pool.
    pub(in crate::engine) at: BTreeMap<PoolId, (String, Found)>,
}

impl There {
    /// What the reviewers of a pool asked for, in this round or an earlier one.
    pub(super) fn overrides(&self, pool: &PoolId) -> Overrides {
        let known = self.at.get(pool).and_then(|(_, found)| known(found, &self.keys));
        known
            .filter(|known| known.cluster == pool.cluster && known.pool == pool.pool)
            .map_or_else(Overrides::default, |known| known.overrides)
    }

    /// The same of every pool.
    pub(super) fn wishes(&self) -> BTreeMap<PoolId, Overrides> {
        self.at.keys().map(|pool| (pool.clone(), self.overrides(pool))).collect()
    }
}

/// One branch a pool; pools whose slugs meet get a hash each, and so do all of a cluster whose slug meets another's.
pub(super) fn branches(prefix: &str, pools: Vec<PoolId>, cluster_meets: bool) -> BTreeMap<PoolId, String> {
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for pool in &pools {
        *count.entry(pool.branch(prefix)).or_default() += 1;
    }
    pools
        .into_iter()
        .map(|pool| {
            let plain = pool.branch(prefix);
            let branch =
                if cluster_meets || count[&plain] > 1 { pool.branch_with_hash(prefix) } else { plain };
            (pool, branch)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str) -> PoolId {
        PoolId { cluster: "c".into(), pool: name.into() }
    }

    #[test]
    fn pools_whose_slugs_meet_get_branches_of_their_own() {
        let got = branches("slicewright", vec![pool("a b"), pool("a-b"), pool("x")], false);
        assert_ne!(got[&pool("a b")], got[&pool("a-b")]);
        assert_eq!(got[&pool("x")], "slicewright/c/x");
        let met = branches("slicewright", vec![pool("x")], true);
        assert!(met[&pool("x")].starts_with("slicewright/c/x-"));
    }
}
