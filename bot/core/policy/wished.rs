//! What reviewers asked for, as policy: only what makes it stricter, as with the repository's own configuration.
//!
//! Whoever may write to a repository may comment there, so that a comment must never allow what the configuration forbids.

use std::collections::{BTreeMap, BTreeSet};

use super::narrow::narrow_one;
use super::{Method, Policy, PolicySettings};
use crate::ids::WorkloadId;
use crate::inventory::Inventory;
use crate::plan::pool::Pool;
use crate::review::overrides::{Item, Overrides};

/// Who decided, in texts.
const PLACE: &str = "a comment on the proposal";

/// Makes the policies of a pool's workloads as strict as its reviewers asked, and the pool's goal theirs.
pub fn heed(overrides: &Overrides, policies: &mut BTreeMap<WorkloadId, Policy>, pool: &mut Pool) {
    let all = settings(overrides);
    let exclude = PolicySettings { exclude: Some(true), ..PolicySettings::default() };
    for (workload, policy) in policies {
        narrow_one(policy, &all, PLACE);
        if overrides.exclude.contains(&item(workload)) {
            narrow_one(policy, &exclude, PLACE);
        }
    }
    if let Some(goal) = overrides.goal.filter(|goal| *goal != pool.goal) {
        pool.goal = goal;
        pool.decided_by.insert("goal".to_owned(), PLACE.to_owned());
    }
}

/// Checks that every one of these wishes can change something for a workload of the pool, whose policies are those of the
/// configuration.
///
/// # Errors
/// The first that cannot, for the person who asked.
pub fn check(
    overrides: &Overrides,
    policies: &BTreeMap<WorkloadId, Policy>,
    pool: &Pool,
    inventory: &Inventory,
) -> Result<(), String> {
    let here: Vec<(&WorkloadId, &Policy)> = inventory
        .workloads
        .iter()
        .filter(|workload| workload.pods.iter().any(|pod| pool.nodes.contains(&pod.node)))
        .filter_map(|workload| policies.get_key_value(&workload.id))
        .collect();
    let names: BTreeSet<Item> = here.iter().map(|(workload, _)| item(workload)).collect();
    if let Some(unknown) = overrides.exclude.iter().find(|item| !names.contains(item)) {
        return Err(format!("no workload `{unknown}` holds a GPU of this pool"));
    }
    // A comment can ask for more care than the configuration, not for less.
    let at_least: u32 = here.iter().map(|(_, policy)| policy.headroom_percent).min().unwrap_or_default();
    if let Some(percent) = overrides.headroom_percent.filter(|percent| *percent < at_least) {
        return Err(format!(
            "the configuration asks for {at_least} % of headroom: a comment can ask for more, and not for {percent} %"
        ));
    }
    if let Some(method) = overrides.method
        && method != Method::KeepWhole
        && !here.iter().any(|(_, policy)| policy.allows(method))
    {
        return Err(format!("the configuration allows {} for no workload of this pool", method.name()));
    }
    let at_most =
        here.iter().map(|(_, policy)| policy.time_slicing.max_replicas.max(policy.mps_max_replicas));
    if let (Some(wished), Some(most)) = (overrides.max_replicas, at_most.max())
        && wished > most
    {
        return Err(format!(
            "the configuration allows at most {most} pods on a card: a comment can ask for fewer, and not for {wished}"
        ));
    }
    let wished = overrides.min_profile.as_ref().map(ToString::to_string);
    let smaller = |policy: &Policy| {
        policy.min_profile.is_some()
            && policy.min_profile != wished
            && !super::narrow::larger(&wished, &policy.min_profile)
    };
    if let Some(profile) = &wished
        && !here.is_empty()
        && here.iter().all(|(_, policy)| smaller(policy))
    {
        return Err(format!("the configuration asks for larger slices than {profile} already"));
    }
    Ok(())
}

fn item(workload: &WorkloadId) -> Item {
    Item::Workload { namespace: workload.namespace.clone(), name: workload.name.clone() }
}

fn settings(overrides: &Overrides) -> PolicySettings {
    PolicySettings {
        headroom_percent: overrides.headroom_percent,
        methods: overrides.method.map(|method| BTreeSet::from([method])),
        min_profile: overrides.min_profile.as_ref().map(ToString::to_string),
        time_slicing_max_replicas: overrides.max_replicas,
        mps_max_replicas: overrides.max_replicas,
        ..PolicySettings::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::PoolId;
    use crate::inventory::{Pod, Workload};
    use crate::plan::{Goal, PoolKind};
    use crate::review::overrides::Wishes;

    fn overrides(wishes: &[(&str, &str)]) -> Overrides {
        let mut all = Wishes::default();
        wishes.iter().for_each(|(key, value)| all.set(key, value).unwrap());
        let mut overrides = Overrides::default();
        overrides.merge(all);
        overrides
    }

    fn id(name: &str) -> WorkloadId {
        WorkloadId::new("Deployment", "search", name)
    }

    fn workload(name: &str, node: &str) -> Workload {
        let pod = Pod {
            name: format!("{name}-0"),
            node: node.into(),
            cards: Vec::new(),
            slices: Vec::new(),
            requests: None,
        };
        Workload {
            id: id(name),
            gpus_per_pod: 1,
            resource: "nvidia.com/gpu".into(),
            containers: BTreeSet::new(),
            replicas: 1,
            hpa_max: None,
            max_surge: None,
            pods: vec![pod],
            namespace_labels: BTreeMap::new(),
        }
    }

    fn world() -> (BTreeMap<WorkloadId, Policy>, Pool, Inventory) {
        let workloads = [("ranker", "n1"), ("ocr", "n1"), ("elsewhere", "n9")];
        let inventory = Inventory {
            workloads: workloads.map(|(name, node)| workload(name, node)).to_vec(),
            ..Inventory::default()
        };
        let policies =
            inventory.workloads.iter().map(|workload| (workload.id.clone(), Policy::default())).collect();
        let id = PoolId { cluster: "c".into(), pool: "p".into() };
        let mut pool = Pool::new(id, PoolKind::Static, "configured".into());
        pool.nodes.insert("n1".to_owned());
        (policies, pool, inventory)
    }

    #[test]
    fn what_was_asked_for_makes_the_policy_stricter_and_says_who_asked() {
        let (mut policies, mut pool, _) = world();
        let asked = overrides(&[
            ("headroom", "30%"),
            ("method", "mig"),
            ("exclude", "search/ocr"),
            ("min-profile", "2g.10gb"),
            ("goal", "capacity"),
            ("max-replicas", "4"),
        ]);
        heed(&asked, &mut policies, &mut pool);
        let ranker = &policies[&id("ranker")];
        assert_eq!((ranker.headroom_percent, ranker.excluded.as_deref()), (30, None));
        assert_eq!(ranker.methods, BTreeSet::from([Method::Mig]));
        assert_eq!((ranker.time_slicing.max_replicas, ranker.mps_max_replicas), (4, 4));
        assert_eq!(ranker.decided_by["headroom_percent"], PLACE);
        assert!(policies[&id("ocr")].excluded.is_some());
        assert_eq!((pool.goal, pool.decided_by["goal"].as_str()), (Goal::Capacity, PLACE));
    }

    #[test]
    fn what_the_configuration_forbids_stays_forbidden() {
        let (mut policies, mut pool, _) = world();
        heed(
            &overrides(&[("headroom", "5%"), ("method", "mps"), ("max-replicas", "48")]),
            &mut policies,
            &mut pool,
        );
        let ranker = &policies[&id("ranker")];
        assert_eq!((ranker.headroom_percent, ranker.mps_max_replicas), (20, 8));
        assert!(ranker.methods.is_empty(), "nothing is allowed of what was asked for");
    }

    #[test]
    fn a_wish_that_changes_nothing_is_refused_with_the_reason() {
        let (mut policies, pool, inventory) = world();
        policies.values_mut().for_each(|policy| policy.min_profile = Some("3g.20gb".into()));
        for (key, value, says) in [
            ("headroom", "19%", "asks for 20 % of headroom"),
            ("method", "time-slicing", "allows time-slicing for no workload"),
            ("exclude", "search/other", "no workload `search/other`"),
            ("exclude", "search/elsewhere", "no workload `search/elsewhere`"),
            ("max-replicas", "9", "at most 8 pods on a card"),
            ("min-profile", "2g.10gb", "larger slices than 2g.10gb"),
        ] {
            let refused = check(&overrides(&[(key, value)]), &policies, &pool, &inventory).unwrap_err();
            assert!(refused.contains(says), "{key}={value}: {refused}");
        }
        for (key, value) in [
            ("headroom", "20%"),
            ("method", "mig"),
            ("method", "keep"),
            ("exclude", "search/ocr"),
            ("goal", "bill"),
            ("max-replicas", "8"),
            ("min-profile", "4g.20gb"),
        ] {
            assert_eq!(
                check(&overrides(&[(key, value)]), &policies, &pool, &inventory),
                Ok(()),
                "{key}={value}"
            );
        }
    }
}
