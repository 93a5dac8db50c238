//! What an infrastructure repository may say about its own workloads: only what makes the policy stricter.
//!
//! Whoever may write to the repository may write its configuration too, so that it must never allow what the service's
//! configuration forbids. Of two values the stricter holds; a value that could only widen is refused when it is read.

use std::collections::BTreeMap;

use super::rules::{PolicyRule, decided};
use super::{ManualEdits, Policy, PolicySettings};
use crate::catalog::ProfileName;
use crate::ids::WorkloadId;
use crate::inventory::{Declared, Inventory};
use crate::plan::pool::Spread;
use crate::units::Mib;

/// The first value that only widens, as setting and what is wrong with it.
///
/// # Errors
/// `production: false` and the like.
pub fn check(settings: &PolicySettings) -> Result<(), (&'static str, String)> {
    let widens = [
        ("production", settings.production == Some(false), "`true`"),
        ("exclude", settings.exclude == Some(false), "`true`"),
        ("fail_requests_greater_than_one", settings.fail_requests_greater_than_one == Some(false), "`true`"),
        ("plan_for_hpa_max", settings.plan_for_hpa_max == Some(false), "`true`"),
        ("refuse_latency_stretch", settings.refuse_latency_stretch == Some(false), "`true`"),
        ("manual_edits", settings.manual_edits == Some(ManualEdits::Allow), "`deny`"),
        ("spread", settings.spread.is_some_and(|spread| spread != Spread::Node), "`node`"),
    ];
    for (setting, wide, only) in widens {
        if wide {
            let problem =
                format!("a repository can only make the policy stricter: {only} is the one value here");
            return Err((setting, problem));
        }
    }
    match settings.max_surge {
        Some(_) => Err((
            "max_surge",
            "is for the service's configuration: it may be less than is measured".to_owned(),
        )),
        None => settings.check(),
    }
}

/// Makes every policy as strict as the repository asks: `all` for each workload, `rules` for those that they speak of.
pub fn narrow(
    policies: &mut BTreeMap<WorkloadId, Policy>,
    inventory: &Inventory,
    declared: &Declared,
    all: &PolicySettings,
    rules: &[PolicyRule],
    place: &str,
) {
    for workload in &inventory.workloads {
        let Some(policy) = policies.get_mut(&workload.id) else { continue };
        narrow_one(policy, all, place);
        for (n, rule) in rules.iter().enumerate() {
            if rule.matches(workload, declared.of(&workload.id)) {
                narrow_one(policy, &rule.set, &rule_place(place, n, rule));
            }
        }
    }
}

/// Rules that speak of no GPU workload, as sentences: a typing error there leaves a workload unprotected.
pub fn idle(inventory: &Inventory, declared: &Declared, rules: &[PolicyRule], place: &str) -> Vec<String> {
    let speaks = |rule: &PolicyRule| {
        inventory.workloads.iter().any(|workload| rule.matches(workload, declared.of(&workload.id)))
    };
    let idle = rules.iter().enumerate().filter(|(_, rule)| !speaks(rule));
    idle.map(|(n, rule)| format!("{} speaks of no GPU workload of the cluster", rule_place(place, n, rule)))
        .collect()
}

/// `.slicewright.yaml, rule 2`, with the rule's own name where it has one.
fn rule_place(place: &str, n: usize, rule: &PolicyRule) -> String {
    let name = rule.name.as_ref().map_or_else(String::new, |name| format!(" `{name}`"));
    format!("{place}, rule {}{name}", n + 1)
}

pub(super) fn narrow_one(policy: &mut Policy, settings: &PolicySettings, place: &str) {
    macro_rules! stricter {
        ($($setting:ident => $target:expr, $read:expr, $is:expr);* $(;)?) => {$(
            if let Some(value) = settings.$setting.clone().map($read)
                && $is(&value, &$target)
            {
                $target = value;
                decided(policy, settings, stringify!($setting), place);
            }
        )*};
    }
    stricter! {
        production => policy.production, std::convert::identity, |new: &bool, old: &bool| *new && !*old;
        exclude => policy.excluded, |_| Some(format!("excluded by {place}")), |_: &_, old: &Option<String>| old.is_none();
        headroom_percent => policy.headroom_percent, std::convert::identity, PartialOrd::gt;
        headroom_min_mib => policy.headroom_min, Mib, PartialOrd::gt;
        compute_fill => policy.compute_fill, std::convert::identity, PartialOrd::lt;
        bandwidth_fill => policy.bandwidth_fill, std::convert::identity, PartialOrd::lt;
        min_history_days => policy.min_history_days, std::convert::identity, PartialOrd::gt;
        min_coverage => policy.min_coverage, std::convert::identity, PartialOrd::gt;
        min_runs => policy.min_runs, std::convert::identity, PartialOrd::gt;
        min_profile => policy.min_profile, Some, larger;
        time_slicing_usable_share => policy.time_slicing.usable_share, std::convert::identity, PartialOrd::lt;
        time_slicing_compute_limit => policy.time_slicing.compute_limit, std::convert::identity, PartialOrd::lt;
        time_slicing_max_replicas => policy.time_slicing.max_replicas, std::convert::identity, PartialOrd::lt;
        mps_max_replicas => policy.mps_max_replicas, std::convert::identity, PartialOrd::lt;
        fail_requests_greater_than_one => policy.time_slicing.fail_requests_greater_than_one,
            std::convert::identity, |new: &bool, old: &bool| *new && !*old;
        plan_for_hpa_max => policy.plan_for_hpa_max, std::convert::identity, |new: &bool, old: &bool| *new && !*old;
        refuse_latency_stretch => policy.refuse_latency_stretch,
            std::convert::identity, |new: &bool, old: &bool| *new && !*old;
        spread => policy.spread, Some, |new: &_, old: &_| new != old;
        manual_edits => policy.manual_edits, std::convert::identity, |new: &_, old: &_| new != old;
    }
    if let Some(methods) = &settings.methods {
        let both = policy.methods.intersection(methods).copied().collect();
        if both != policy.methods {
            policy.methods = both;
            decided(policy, settings, "methods", place);
        }
    }
}

/// `new` is at least as large as `old` in compute and memory, and larger in one.
pub(super) fn larger(new: &Option<String>, old: &Option<String>) -> bool {
    let parsed = |name: &Option<String>| name.as_deref().and_then(|name| name.parse::<ProfileName>().ok());
    match (parsed(new), parsed(old)) {
        (Some(_), None) => true,
        (Some(new), Some(old)) => {
            let at_least = new.compute_slices >= old.compute_slices && new.memory_gb >= old.memory_gb;
            at_least && (new.compute_slices, new.memory_gb) != (old.compute_slices, old.memory_gb)
        }
        (None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::policy::{Method, SETTINGS};
    use crate::units::Ratio;

    fn narrowed(settings: &PolicySettings) -> Policy {
        let mut policy = Policy::default();
        narrow_one(&mut policy, settings, "x.yaml");
        policy
    }

    #[test]
    fn the_stricter_value_holds_and_says_who_asked() {
        let policy = narrowed(&PolicySettings {
            exclude: Some(true),
            headroom_percent: Some(30),
            compute_fill: Some(Ratio::from_ppm(900_000)),
            methods: Some([Method::Mig, Method::Mps].into()),
            min_profile: Some("2g.10gb".into()),
            ..PolicySettings::default()
        });
        assert_eq!(policy.excluded.as_deref(), Some("excluded by x.yaml"));
        assert_eq!((policy.headroom_percent, policy.compute_fill), (30, Policy::default().compute_fill));
        assert_eq!(policy.methods, [Method::Mig].into());
        let said: Vec<_> = policy.decided_by.keys().map(String::as_str).collect();
        assert_eq!(said, ["exclude", "headroom_percent", "methods", "min_profile"]);
    }

    #[test]
    fn what_only_widens_is_refused() {
        for (settings, setting) in [
            (PolicySettings { production: Some(false), ..PolicySettings::default() }, "production"),
            (PolicySettings { exclude: Some(false), ..PolicySettings::default() }, "exclude"),
            (PolicySettings { spread: Some(Spread::None), ..PolicySettings::default() }, "spread"),
            (PolicySettings { max_surge: Some(3), ..PolicySettings::default() }, "max_surge"),
            (
                PolicySettings { manual_edits: Some(ManualEdits::Allow), ..PolicySettings::default() },
                "manual_edits",
            ),
            (
                PolicySettings { headroom_percent: Some(5_000), ..PolicySettings::default() },
                "headroom_percent",
            ),
        ] {
            assert_eq!(check(&settings).unwrap_err().0, setting);
        }
        assert_eq!(check(&PolicySettings { production: Some(true), ..PolicySettings::default() }), Ok(()));
    }

    #[test]
    fn a_smallest_profile_only_grows() {
        let profile = |name: &str| Some(name.to_owned());
        assert!(larger(&profile("2g.10gb"), &profile("1g.10gb")));
        assert!(!larger(&profile("1g.10gb"), &profile("2g.10gb")));
        assert!(!larger(&profile("1g.20gb"), &profile("2g.10gb")), "more memory, less compute");
        assert!(!larger(&profile("2g.10gb"), &profile("2g.10gb")));
    }

    proptest! {
        /// Whatever a repository says: nothing is allowed that was not, and nothing is needed less.
        #[test]
        fn nothing_ever_widens(
            (production, exclude) in (any::<bool>(), any::<bool>()),
            (percent, mib, days, runs) in (0_u32..100, 0_u64..2_000, 0_u32..60, 0_u32..10),
            (fill, coverage, share) in (1_u32..1_000_000, 1_u32..1_000_000, 1_u32..1_000_000),
            replicas in 2_u32..48,
            methods in proptest::collection::btree_set(
                prop_oneof![Just(Method::Mig), Just(Method::TimeSlicing), Just(Method::Mps)], 0..3),
        ) {
            let old = Policy { production, ..Policy::default() };
            let mut new = old.clone();
            narrow_one(&mut new, &PolicySettings {
                production: Some(true),
                exclude: exclude.then_some(true),
                headroom_percent: Some(percent),
                headroom_min_mib: Some(mib),
                compute_fill: Some(Ratio::from_ppm(fill)),
                bandwidth_fill: Some(Ratio::from_ppm(fill)),
                min_history_days: Some(days),
                min_coverage: Some(Ratio::from_ppm(coverage)),
                min_runs: Some(runs),
                methods: Some(methods),
                time_slicing_usable_share: Some(Ratio::from_ppm(share)),
                time_slicing_compute_limit: Some(Ratio::from_ppm(share)),
                time_slicing_max_replicas: Some(replicas),
                mps_max_replicas: Some(replicas),
                ..PolicySettings::default()
            }, "x");
            for method in [Method::Mig, Method::TimeSlicing, Method::Mps] {
                prop_assert!(old.allows(method) || !new.allows(method));
            }
            for peak in [1, 500, 40_000].map(Mib) {
                prop_assert!(new.memory_need(peak) >= old.memory_need(peak));
            }
            let p99 = Ratio::from_ppm(400_000);
            prop_assert!(new.compute_need_milli(p99) >= old.compute_need_milli(p99));
            prop_assert!(new.min_history_days >= old.min_history_days && new.min_coverage >= old.min_coverage);
            prop_assert!(new.time_slicing.max_replicas <= old.time_slicing.max_replicas);
            prop_assert!(new.time_slicing.usable_share <= old.time_slicing.usable_share);
        }
    }

    /// Every setting is met here: a new one is narrowed, refused, or the list below is wrong.
    #[test]
    fn no_setting_is_forgotten() {
        let text = include_str!("narrow.rs");
        for setting in SETTINGS {
            assert!(
                text.contains(&format!("{setting} =>")) || text.contains(&format!("settings.{setting}")),
                "{setting}"
            );
        }
    }
}
