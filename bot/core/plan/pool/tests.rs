//! Nodes sorted into pools, and where each pool's rules come from.

use serde_json::json;

use super::super::layers::General;
use super::*;
use crate::policy::PolicySettings;

fn node(name: &str, labels: &[(&str, &str)]) -> Node {
    Node {
        name: name.into(),
        labels: labels
            .iter()
            .map(|(key, value)| (crate::inventory::sanitised_label(key), (*value).to_owned()))
            .collect(),
        ..Node::default()
    }
}

fn settings(value: serde_json::Value) -> PoolSettings {
    serde_json::from_value(value).unwrap()
}

/// The pools that these nodes make, with what service and cluster say about every pool, and the pools as configured;
/// beside them the frozen nodes that there are not.
fn layered(
    nodes: Vec<Node>,
    defaults: [serde_json::Value; 2],
    configured: &[PoolSettings],
) -> Result<(Vec<Pool>, Vec<String>), String> {
    let inventory = Inventory { cluster: "dc1".into(), nodes, ..Inventory::default() };
    let nothing = PolicySettings::default();
    let defaults = defaults.map(settings);
    let general = |pool_defaults| General { policy: &nothing, rules: &[], pool_defaults };
    let layers = Layers {
        cluster: "dc1",
        service: general(&defaults[0]),
        of_cluster: general(&defaults[1]),
        pools: configured,
    };
    let pools = pools(&inventory, &layers, &PriceSettings::default())?;
    let unknown = unknown_frozen_nodes(&layers, &pools);
    Ok((pools, unknown))
}

/// The only pool of the nodes `a-1` and `a-2`.
fn one(service: serde_json::Value, cluster: serde_json::Value, pool: serde_json::Value) -> Pool {
    let mut own = settings(pool);
    (own.name, own.nodes) = ("a".into(), Some("a-.*".into()));
    let nodes = vec![node("a-1", &[]), node("a-2", &[])];
    let (mut pools, _) = layered(nodes, [service, cluster], &[own]).unwrap();
    pools.remove(0)
}

fn names(nodes: Vec<Node>, configured: &[PoolSettings]) -> Vec<(String, Vec<String>)> {
    let (pools, _) = layered(nodes, [json!({}), json!({})], configured).unwrap();
    pools.into_iter().map(|pool| (pool.id.pool, pool.nodes.into_iter().collect())).collect()
}

#[test]
fn a_configured_pool_comes_before_labels() {
    let configured = [settings(json!({"name": "a", "nodes": "gpu-0[12]"}))];
    let got = names(
        vec![
            node("gpu-01", &[("karpenter.sh/nodepool", "k")]),
            node("gpu-011", &[("karpenter.sh/nodepool", "k")]),
        ],
        &configured,
    );
    assert_eq!(got, [("a".into(), vec!["gpu-01".into()]), ("k".into(), vec!["gpu-011".into()])]);
}

#[test]
fn without_labels_the_instance_type_and_product_name_the_pool() {
    let labels =
        [("node.kubernetes.io/instance-type", "g5.xlarge"), ("nvidia.com/gpu.product", "NVIDIA-A10G-SHARED")];
    assert_eq!(names(vec![node("n", &labels)], &[])[0].0, "g5-xlarge-a10g");
}

#[test]
fn a_broken_expression_is_named() {
    let configured = [settings(json!({"name": "a", "nodes": "("}))];
    let error = layered(vec![node("n", &[])], [json!({}), json!({})], &configured).unwrap_err();
    assert!(error.starts_with("pool `a`: `nodes: (`"), "{error}");
}

#[test]
fn every_rule_holds_when_it_is_set_and_the_innermost_layer_decides() {
    // A rule, what the service says, what the pool says.
    let lines = [
        ("goal", (json!("capacity"), "capacity"), (json!("bill"), "bill")),
        ("spread", (json!("none"), "none"), (json!("card"), "card")),
        ("spare_cards", (json!(2), "2"), (json!(1), "1")),
        ("concurrent_rollouts", (json!(3), "3"), (json!(2), "2")),
        ("waves", (json!("no-downtime"), "no-downtime"), (json!("allow-downtime"), "allow-downtime")),
        ("max_layouts", (json!(3), "3"), (json!(2), "2")),
        ("frozen_nodes", (json!(["*-1"]), "a-1"), (json!(["a-2"]), "a-1, a-2")),
        ("freeze", (json!([{"weekly": ["sun"]}]), "sun"), (json!([{"weekly": ["sat"]}]), "sun; sat")),
    ];
    assert_eq!(lines.iter().map(|(name, ..)| *name).collect::<Vec<_>>(), SETTINGS);
    let none = json!({});
    let default = one(none.clone(), none.clone(), none.clone());
    assert_eq!(default.overrides().count(), 0);
    for (name, (outer, outer_shown), (inner, inner_shown)) in lines {
        let line = |value: &serde_json::Value| json!({name: value});
        for (service, cluster, place) in
            [(line(&outer), none.clone(), "service"), (none.clone(), line(&outer), "cluster dc1")]
        {
            let inherited = one(service.clone(), cluster.clone(), none.clone());
            let overrides: Vec<String> = inherited.overrides().collect();
            assert_eq!(overrides, [format!("`{name}` = {outer_shown} ({place})")]);
            let changed: Vec<_> =
                SETTINGS.iter().filter(|other| inherited.shown(other) != default.shown(other)).collect();
            assert_eq!(changed, [&name], "no other rule changes");
            let own = one(service, cluster, line(&inner));
            assert_eq!(own.shown(name), inner_shown);
            let union = ["frozen_nodes", "freeze"].contains(&name);
            let expected = if union { format!("{place} and pool a") } else { "pool a".to_owned() };
            assert_eq!(own.decided_by[name], expected);
        }
        let nearer = one(line(&outer), line(&inner), none.clone());
        assert_eq!(nearer.shown(name), inner_shown, "the cluster comes before the service");
    }
}

#[test]
fn pools_that_are_found_by_labels_inherit_too() {
    let nodes = vec![node("n", &[("karpenter.sh/nodepool", "k")])];
    let (pools, _) = layered(nodes, [json!({"goal": "capacity"}), json!({})], &[]).unwrap();
    assert_eq!((pools[0].goal, pools[0].kind), (Goal::Capacity, PoolKind::Elastic));
    assert_eq!(pools[0].decided_by["goal"], "service");
}

#[test]
fn a_rule_that_equals_the_default_is_no_override() {
    let pool = one(json!({"goal": "capacity"}), json!({}), json!({"goal": "bill", "spare_cards": 0}));
    assert_eq!(pool.overrides().count(), 0);
}

#[test]
fn a_frozen_node_that_there_is_not_is_named() {
    let configured = [settings(json!({"name": "a", "nodes": "a-.*", "frozen_nodes": ["a-1", "b-1"]}))];
    let nodes = vec![node("a-1", &[]), node("b-1", &[("karpenter.sh/nodepool", "b")])];
    let cluster = json!({"frozen_nodes": ["b-*", "c-*"]});
    let (_, unknown) =
        layered(nodes, [json!({"frozen_nodes": ["elsewhere"]}), cluster], &configured).unwrap();
    assert_eq!(
        unknown,
        [
            "`c-*` in `frozen_nodes` of cluster dc1 matches no node of it",
            "`b-1` in `frozen_nodes` of pool a matches no node of it",
        ]
    );
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let mut of_all = vec![
        (json!({"concurrent_rollouts": 0}), "concurrent_rollouts", "is 0"),
        (json!({"max_layouts": 0}), "max_layouts", "is 0"),
        (json!({"frozen_nodes": [""]}), "frozen_nodes", "an empty name freezes no node"),
        (json!({"freeze": [{"weekly": ["sun"]}, {}]}), "freeze[1].from", "says no day"),
    ];
    let refused = |found: Result<(), (String, String)>, setting: &str, said: &str| {
        let (at, problem) = found.unwrap_err();
        assert_eq!(at, setting, "{problem}");
        assert!(problem.contains(said), "{problem}");
    };
    for (value, setting, said) in &of_all {
        let mut own = settings(value.clone());
        (own.name, own.nodes) = ("a".into(), Some("a-.*".into()));
        refused(own.check(), setting, said);
    }
    refused(settings(json!({"nodes": "a"})).check(), "name", "name the pool");
    refused(settings(json!({"name": "a"})).check(), "nodes", "say which nodes");
    refused(settings(json!({"name": "a", "nodes": "("})).check(), "nodes", "`(`: ");
    for (key, value) in [
        ("name", json!("a")),
        ("nodes", json!("a")),
        ("labels", json!({"a": "b"})),
        ("kind", json!("static")),
        ("node_per_hour", json!(1.5)),
    ] {
        of_all.push((json!({key: value}), key, "only a pool has"));
    }
    of_all.push((json!({"policy": {"min_runs": 1}}), "policy", "stands beside `pool_defaults`"));
    of_all.push((json!({"rules": [{}]}), "rules", "stand beside `pool_defaults`"));
    for (value, setting, said) in of_all {
        refused(settings(value).check_defaults(), setting, said);
    }
}
