//! Every line of a policy: that it holds, for whom, and who is named.

use serde_json::json;

use super::rules::{Layer, PolicyRule, resolve, wildcard};
use super::*;
use crate::ids::WorkloadId;
use crate::inventory::{DeclaredWorkload, Workload};

fn workload(namespace: &str, name: &str) -> Workload {
    Workload {
        id: WorkloadId::new("StatefulSet", namespace, name),
        gpus_per_pod: 1,
        resource: "nvidia.com/gpu".into(),
        containers: BTreeSet::new(),
        replicas: 1,
        hpa_max: None,
        max_surge: None,
        pods: Vec::new(),
        namespace_labels: BTreeMap::from([("example_com_env".into(), "dev-eu".into())]),
    }
}

fn declared(labels: &[(&str, &str)]) -> DeclaredWorkload {
    DeclaredWorkload {
        place: "apps/a.yaml:1".into(),
        editable: Ok(()),
        max_surge: None,
        replicas: None,
        ignored: false,
        labels: labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
        node_selector: BTreeMap::new(),
        tolerations: BTreeSet::new(),
        pinned: None,
        memory_flags: Vec::new(),
    }
}

fn rule(value: serde_json::Value) -> PolicyRule {
    serde_json::from_value(value).unwrap()
}

fn settings(value: serde_json::Value) -> PolicySettings {
    let settings: PolicySettings = serde_json::from_value(value).unwrap();
    assert_eq!(settings.check(), Ok(()));
    settings
}

/// The headroom that these rules of service, cluster and pool give `ml-dev/nb-a`, and who decided it.
fn headroom(layers: [(u32, &[serde_json::Value]); 3]) -> (u32, String) {
    let all = layers.map(|(all, _)| settings(json!({"headroom_percent": all})));
    let rules = layers.map(|(_, rules)| rules.iter().cloned().map(rule).collect::<Vec<_>>());
    let layers: Vec<Layer<'_>> = ["service", "cluster dc1", "pool a100"]
        .iter()
        .zip(all.iter().zip(&rules))
        .map(|(name, (all, rules))| Layer { name: (*name).into(), all, rules })
        .collect();
    let declared = declared(&[("tier", "gold")]);
    let policy = resolve(&workload("ml-dev", "nb-a"), Some(&declared), &layers);
    (policy.headroom_percent, policy.decided_by["headroom_percent"].clone())
}

#[test]
fn every_setting_holds_when_it_is_set() {
    let lines = [
        ("production", json!(false), "false"),
        ("exclude", json!(true), "true"),
        ("headroom_percent", json!(33), "33"),
        ("headroom_min_mib", json!(1024), "1024"),
        ("compute_fill", json!(0.5), "50 %"),
        ("bandwidth_fill", json!(0.5), "50 %"),
        ("min_history_days", json!(3), "3"),
        ("min_coverage", json!(0.5), "50 %"),
        ("min_runs", json!(2), "2"),
        ("methods", json!(["mps", "mig"]), "MIG, MPS"),
        ("min_profile", json!("2g.10gb"), "2g.10gb"),
        ("time_slicing_usable_share", json!(0.5), "50 %"),
        ("time_slicing_compute_limit", json!(0.5), "50 %"),
        ("time_slicing_max_replicas", json!(4), "4"),
        ("mps_max_replicas", json!(4), "4"),
        ("fail_requests_greater_than_one", json!(false), "false"),
        ("plan_for_hpa_max", json!(false), "false"),
        ("max_surge", json!(2), "2"),
        ("spread", json!("card"), "card"),
        ("refuse_latency_stretch", json!(true), "true"),
        ("manual_edits", json!("allow"), "allow"),
    ];
    assert_eq!(lines.iter().map(|(name, ..)| *name).collect::<Vec<_>>(), SETTINGS);
    let known = serde_json::to_value(PolicySettings::default()).unwrap();
    assert_eq!(known.as_object().unwrap().len(), SETTINGS.len());
    let default = Policy::default();
    for (name, value, shown) in lines {
        let mut all = settings(json!({name: value}));
        all.stands_at.insert(name.into(), "x.yaml:7".into());
        let layers = [Layer { name: "service".into(), all: &all, rules: &[] }];
        let policy = resolve(&workload("a", "b"), None, &layers);
        assert_eq!(policy.shown(name), shown, "{name}");
        assert_eq!(policy.decided_by, BTreeMap::from([(name.into(), "service".into())]));
        assert_eq!(policy.stands_at, BTreeMap::from([(name.into(), "x.yaml:7".into())]));
        let overrides: Vec<String> = policy.overrides().collect();
        assert_eq!(overrides, [format!("`{name}` = {shown} (service)")]);
        let changed: Vec<_> =
            SETTINGS.iter().filter(|other| policy.shown(other) != default.shown(other)).collect();
        assert_eq!(changed, [&name], "no other setting changes");
    }
}

#[test]
fn the_most_specific_line_wins_whatever_layer_it_stands_in() {
    let by_namespace = json!({"namespaces": ["ml-*"], "set": {"headroom_percent": 40}});
    let by_workload = json!({"workloads": ["ml-dev/*"], "set": {"headroom_percent": 50}});
    let (namespace, workload) = (&[by_namespace.clone()][..], &[by_workload.clone()][..]);
    let check = |layers, expected: (u32, &str)| {
        let (percent, place) = headroom(layers);
        assert_eq!((percent, place.as_str()), expected);
    };
    check([(1, &[]), (2, &[]), (3, &[])], (3, "pool a100"));
    check([(1, namespace), (2, &[]), (3, &[])], (40, "service, rule 1"));
    check([(1, workload), (2, namespace), (3, namespace)], (50, "service, rule 1"));
    check([(1, &[]), (2, &[by_workload, by_namespace]), (3, &[])], (50, "cluster dc1, rule 1"));
}

#[test]
fn of_lines_about_the_same_the_later_wins() {
    let rule = |percent: u32| json!({"workloads": ["ml-dev/nb-a"], "set": {"headroom_percent": percent}});
    assert_eq!(headroom([(1, &[rule(40)]), (2, &[rule(41)]), (3, &[])]), (41, "cluster dc1, rule 1".into()));
    assert_eq!(headroom([(1, &[rule(40), rule(41)]), (2, &[]), (3, &[])]), (41, "service, rule 2".into()));
    assert_eq!(
        headroom([(1, &[rule(40)]), (2, &[rule(41)]), (3, &[rule(42)])]),
        (42, "pool a100, rule 1".into())
    );
}

#[test]
fn labels_of_a_workload_are_as_specific_as_its_name() {
    let by_label = json!({"workload_labels": {"tier": "gold"}, "set": {"headroom_percent": 60}});
    let by_namespace = json!({"namespaces": ["*"], "set": {"headroom_percent": 40}});
    assert_eq!(headroom([(1, &[by_label]), (2, &[by_namespace]), (3, &[])]), (60, "service, rule 1".into()));
}

#[test]
fn a_rules_name_is_shown_beside_its_number() {
    let named = json!({"name": "dev notebooks", "kinds": ["StatefulSet"], "set": {"headroom_percent": 40}});
    assert_eq!(
        headroom([(1, &[]), (2, &[named]), (3, &[])]),
        (40, "cluster dc1, rule 1 `dev notebooks`".into())
    );
}

#[test]
fn a_rule_speaks_of_those_whom_all_its_selectors_match() {
    let declared = declared(&[("app.kubernetes.io/part-of", "search-api")]);
    let workload = workload("ml-dev", "nb-a");
    for (selectors, expected) in [
        (json!({}), false),
        (json!({"namespaces": ["ml-dev"]}), true),
        (json!({"namespaces": ["prod", "ml-*"]}), true),
        (json!({"namespaces": ["ml"]}), false),
        (json!({"namespace_labels": {"example.com/env": "dev-*"}}), true),
        (json!({"namespace_labels": {"example.com/env": "prod"}}), false),
        (json!({"namespace_labels": {"example.com/team": "*"}}), false),
        (json!({"workloads": ["*/nb-*"]}), true),
        (json!({"workloads": ["nb-a"]}), false),
        (json!({"kinds": ["StatefulSet", "Notebook"]}), true),
        (json!({"kinds": ["Notebook"]}), false),
        (json!({"workload_labels": {"app.kubernetes.io/part-of": "search-*"}}), true),
        (json!({"workload_labels": {"app.kubernetes.io/part-of": "search"}}), false),
        (json!({"workload_labels": {"app.kubernetes.io/part-of": "*", "tier": "*"}}), false),
        (json!({"namespaces": ["ml-dev"], "kinds": ["Notebook"]}), false),
        (json!({"namespaces": ["ml-dev"], "workload_labels": {"tier": "gold"}}), false),
    ] {
        assert_eq!(rule(selectors.clone()).matches(&workload, Some(&declared)), expected, "{selectors}");
    }
    let by_label = rule(json!({"workload_labels": {"app.kubernetes.io/part-of": "*"}}));
    assert!(!by_label.matches(&workload, None), "a workload that is not declared has no labels");
}

#[test]
fn only_what_is_included_is_looked_at() {
    let all = settings(json!({"exclude": true}));
    let rules = [rule(json!({"namespaces": ["ml-*"], "set": {"exclude": false}}))];
    let layers = [Layer { name: "service".into(), all: &all, rules: &rules }];
    let excluded = |namespace: &str| resolve(&workload(namespace, "a"), None, &layers).excluded;
    assert_eq!(excluded("ml-dev"), None);
    assert_eq!(excluded("prod").as_deref(), Some("excluded by service"));
}

#[test]
fn a_line_without_a_known_place_takes_away_that_of_the_line_before() {
    let mut all = settings(json!({"headroom_percent": 30}));
    all.stands_at.insert("headroom_percent".into(), "x.yaml:7".into());
    let rules = [rule(json!({"namespaces": ["*"], "set": {"headroom_percent": 40}}))];
    let layers = [Layer { name: "service".into(), all: &all, rules: &rules }];
    assert_eq!(resolve(&workload("a", "b"), None, &layers).stands_at, BTreeMap::new());
}

#[test]
fn a_value_set_to_the_default_is_no_override() {
    let all = settings(json!({"headroom_percent": 20, "min_runs": 5}));
    let layers = [Layer { name: "service".into(), all: &all, rules: &[] }];
    assert_eq!(resolve(&workload("a", "b"), None, &layers).overrides().count(), 0);
}

#[test]
fn unknown_means_production() {
    assert!(resolve(&workload("anything", "a"), None, &[]).production);
}

#[test]
fn production_shares_only_where_hardware_isolates() {
    let every = BTreeSet::from([Method::Mig, Method::TimeSlicing, Method::Mps]);
    let production = Policy { methods: every, ..Policy::default() };
    let other = Policy { production: false, ..production.clone() };
    for (method, in_production) in [(Method::Mig, true), (Method::TimeSlicing, false), (Method::Mps, false)] {
        assert_eq!(production.allows(method), in_production, "{method:?}");
        assert!(other.allows(method), "{method:?}");
    }
}

#[test]
fn mps_is_asked_for_or_not_used() {
    assert!(!Policy { production: false, ..Policy::default() }.allows(Method::Mps));
}

#[test]
fn values_that_cannot_be_meant_are_refused() {
    for (value, setting, said) in [
        (json!({"compute_fill": 75}), "compute_fill", "7500 % is not above 0 and at most 1"),
        (json!({"headroom_percent": 1001}), "headroom_percent", "1001 is more than 1,000 percent"),
        (json!({"time_slicing_max_replicas": 1}), "time_slicing_max_replicas", "1 is not between 2 and 48"),
        (json!({"mps_max_replicas": 49}), "mps_max_replicas", "49 is not between 2 and 48"),
        (json!({"methods": ["keep-whole"]}), "methods", "write `[]`, or `exclude: true`"),
        (json!({"max_surge": 1001}), "max_surge", "1,001 extra pods are more than 1,000"),
        (json!({"min_profile": "banana"}), "min_profile", "`banana` is no MIG profile"),
    ] {
        let settings: PolicySettings = serde_json::from_value(value).unwrap();
        let (at, problem) = settings.check().unwrap_err();
        assert_eq!(at, setting);
        assert!(problem.contains(said), "{problem}");
    }
}

#[test]
fn needs_round_up() {
    let policy = Policy::default();
    assert_eq!(policy.memory_need(Mib(1_000)), Mib(1_512));
    assert_eq!(policy.memory_need(Mib(7_987)), Mib(9_585));
    assert_eq!(policy.compute_need_milli(Ratio::from_ppm(190_000)), 254);
}

#[test]
fn wildcards_match_runs_of_characters() {
    for (pattern, text, expected) in [
        ("dev-*", "dev-a", true),
        ("*", "", true),
        ("a*b*c", "axxbyyc", true),
        ("a*b", "ac", false),
        ("a?c", "abc", true),
        ("a?c", "ac", false),
    ] {
        assert_eq!(wildcard(pattern, text), expected, "{pattern} {text}");
    }
}
