//! Settings of pools and workloads in plans, and plans that are not shown.

use super::super::pool::Spread;
use super::super::{sound, unsure};
use super::*;
use crate::usage::{DataGap, Finding, Severity};

#[test]
fn a_configured_surge_comes_before_what_is_measured_and_declared() {
    let surge = |of_policy: Option<u32>| {
        let mut cluster = three_services();
        for workload in &mut cluster.inventory.workloads {
            workload.max_surge = Some(0);
        }
        cluster.rules.push(PolicyRule {
            workloads: vec!["search/ocr-svc".into()],
            set: PolicySettings { max_surge: of_policy, ..PolicySettings::default() },
            ..PolicyRule::default()
        });
        let plan = cluster.must_plan();
        let item = plan.items.iter().find(|item| item.fit.workload.name == "ocr-svc").unwrap();
        item.max_surge
    };
    assert_eq!(surge(None), 0);
    assert_eq!(surge(Some(1)), 1);
}

#[test]
fn the_spread_of_a_workload_comes_before_the_pools() {
    let nodes_kept = |of_pool: Option<Spread>, of_workload: Option<Spread>| {
        let mut cluster = Cluster::new("ml-dev");
        for node in ["dev-0", "dev-1", "dev-2", "dev-3"] {
            cluster.node(node, "NVIDIA A10G", 1);
        }
        cluster.workload("twice", &[("dev-0", 0), ("dev-1", 0)], 4_198, 0.11);
        cluster.workload("once", &[("dev-2", 0)], 4_404, 0.11);
        cluster.workload("other", &[("dev-3", 0)], 4_608, 0.11);
        for node in &mut cluster.inventory.nodes {
            node.taints =
                vec![Taint { key: "dedicated".into(), value: String::new(), effect: "NoSchedule".into() }];
        }
        cluster.pool.spread = of_pool;
        cluster.rules.push(PolicyRule {
            namespaces: vec!["search".into()],
            set: PolicySettings { production: Some(false), spread: of_workload, ..PolicySettings::default() },
            ..PolicyRule::default()
        });
        4 - cluster.must_plan().saving.nodes_freed.len()
    };
    assert_eq!(nodes_kept(None, None), 2);
    assert_eq!(nodes_kept(None, Some(Spread::None)), 1);
    assert_eq!(nodes_kept(Some(Spread::None), None), 1);
    assert_eq!(nodes_kept(Some(Spread::None), Some(Spread::Node)), 2);
}

#[test]
fn rules_of_the_pool_that_are_not_the_default_are_named_beside_those_of_workloads() {
    let mut cluster = three_services();
    cluster.pool_defaults.goal = Some(Goal::Capacity);
    cluster.pool.spread = Some(Spread::None);
    cluster.rules.push(PolicyRule {
        name: Some("search".into()),
        namespaces: vec!["search".into()],
        set: PolicySettings { headroom_percent: Some(25), min_runs: Some(5), ..PolicySettings::default() },
        ..PolicyRule::default()
    });
    assert_eq!(
        cluster.must_plan().overrides,
        [
            "`goal` = capacity (service)",
            "`spread` = none (pool a100-40gb)",
            "`headroom_percent` = 25 (service, rule 1 `search`)",
        ]
    );
}

#[test]
fn a_frozen_pattern_of_the_service_keeps_its_nodes_out_of_the_plan() {
    let mut cluster = three_services();
    cluster.pool_defaults.frozen_nodes = BTreeSet::from(["*-07".into()]);
    let plan = cluster.must_plan();
    let fate = |name: &str| plan.nodes.iter().find(|node| node.name == name).map(|node| node.fate);
    assert_eq!(fate("gpu-07"), Some(NodeFate::Untouched));
    assert_eq!(plan.saving.nodes_freed.len(), 1);
}

/// Five workloads that need two sevenths of a card and two that need four, a card each, and an idle node.
fn two_layouts() -> Cluster {
    let mut cluster = Cluster::new("a100-40gb");
    for node in ["gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5", "gpu-6", "gpu-7", "gpu-8"] {
        cluster.node(node, A100, 1);
    }
    for (i, name) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        cluster.workload(name, &[(&format!("gpu-{}", i + 1), 0)], 7_500, 0.15);
    }
    for (i, name) in ["f", "g"].into_iter().enumerate() {
        cluster.workload(name, &[(&format!("gpu-{}", i + 6), 0)], 15_000, 0.38);
    }
    cluster
}

#[test]
fn a_plan_keeps_to_the_layouts_that_the_pool_allows() {
    let mut cluster = two_layouts();
    let layouts = |plan: &Plan| {
        let cards = plan.nodes.iter().flat_map(|node| &node.after);
        let cut = cards.filter_map(|card| {
            let CardUse::Slices { slices } = card else { return None };
            Some(slices.iter().map(|slice| slice.profile.clone()).collect::<Vec<_>>())
        });
        cut.collect::<BTreeSet<_>>().len()
    };
    assert_eq!(layouts(&cluster.must_plan()), 2);
    cluster.pool.max_layouts = Some(2);
    assert_eq!(layouts(&cluster.must_plan()), 2);
    cluster.pool.max_layouts = Some(1);
    // Fewer cards are freed that way, or none.
    if let Outcome::Plan(plan) = cluster.plan() {
        assert_eq!(layouts(&plan), 1, "{plan:#?}");
    }
}

#[test]
fn a_larger_slice_than_needed_pays_where_layouts_are_few() {
    let mut cluster = Cluster::new("p");
    let kinds = [("small", 6, 7_000, 0.19), ("middle", 2, 15_000, 0.2), ("large", 4, 15_000, 0.33)];
    for (kind, n, peak, p99) in kinds {
        for i in 0..n {
            let node = format!("on-{kind}-{i}");
            cluster.node(&node, A100, 1);
            cluster.workload(&format!("{kind}-{i}"), &[(&node, 0)], peak, p99);
        }
    }
    let share = |plan: &Plan| {
        plan.items.iter().find(|item| item.fit.workload.name == "middle-0").map(|item| item.share.clone())
    };
    let free = cluster.must_plan();
    assert_eq!((free.saving.nodes_freed.len(), share(&free).as_deref()), (6, Some("3g.20gb")));
    // No card holds 2g, 3g and 4g. Six cards of 4g and 2g hold everybody when the middle ones take 4g; without that,
    // whole cards for the large or the middle ones leave seven.
    cluster.pool.max_layouts = Some(1);
    let few = cluster.must_plan();
    assert_eq!((few.saving.nodes_freed.len(), share(&few).as_deref()), (6, Some("4g.20gb")));
}

#[test]
fn a_plan_that_breaks_a_rule_of_its_own_is_dropped_with_the_rule() {
    let cluster = two_layouts();
    cluster.ask(|request| {
        let Outcome::Plan(good) = plan(request) else { panic!("no plan") };
        assert_eq!(sound::sound(request, Outcome::Plan(good.clone())), Outcome::Plan(good.clone()));
        let mut pool = request.pool.clone();
        pool.max_layouts = Some(1);
        let stricter = Request { pool: &pool, ..*request };
        let Outcome::Nothing(nothing) = sound::sound(&stricter, Outcome::Plan(good.clone())) else {
            panic!("shown all the same")
        };
        assert_eq!(nothing.reasons[0].code, sound::CHECK_FAILED);
        assert!(nothing.reasons[0].text.contains("in 2 different ways; 1 are allowed"), "{nothing:#?}");
        assert_eq!(nothing.kept.len(), good.items.len() + good.kept.len(), "nobody is forgotten");
        let idle = Outcome::Nothing(nothing);
        assert_eq!(sound::sound(&stricter, idle.clone()), idle);
    });
}

#[test]
fn nothing_is_written_about_a_pool_that_is_not_seen_in_full() {
    let said_of = |change: &dyn Fn(&mut Cluster)| {
        let mut cluster = three_services();
        cluster.measured.data_quality.metrics = vec!["DCGM_FI_DEV_FB_USED".into()];
        change(&mut cluster);
        cluster.ask(|request| {
            let rests_on = ["DCGM_FI_DEV_FB_USED".to_owned()];
            unsure::unsure(request.pool, request.inventory, request.measured, &rests_on).unwrap_or_default()
        })
    };
    assert_eq!(said_of(&|_| {}), "");
    let said = said_of(&|cluster| cluster.measured.data_quality.metrics.clear());
    assert_eq!(said, "held: metrics that the proposal rests on are gone: DCGM_FI_DEV_FB_USED");
    let said = said_of(&|cluster| {
        cluster.measured.data_quality.findings.push(Finding {
            code: "x".into(),
            severity: Severity::Blocker,
            text: "a blocker".into(),
            advice: String::new(),
        });
    });
    assert_eq!(said, "held: a blocker");
    let said = said_of(&|cluster| {
        let node = &mut cluster.inventory.nodes[0];
        node.cards.clear();
        node.gpu_allocatable = BTreeMap::from([("nvidia_com_gpu".into(), 1)]);
    });
    assert!(said.starts_with("held: gpu-07 offers GPUs and shows no sample"), "{said}");
    let said = said_of(&|cluster| {
        cluster.inventory.workloads.clear();
        cluster.inventory.nodes[0].cards[0].used_now = Some(Mib(1_025));
    });
    assert_eq!(said, "held: cards are in use, and no pod is known to hold one");
    let said = said_of(&|cluster| {
        cluster.inventory.workloads.clear();
        cluster.inventory.nodes[0].cards[0].used_now = Some(Mib(1_024));
    });
    assert_eq!(said, "", "what the driver keeps is nobody's");
    let said = said_of(&|cluster| {
        let profile = cluster.measured.profiles.values_mut().next().unwrap();
        profile.gaps.push(DataGap::IncompleteAnswer { what: "FB_USED of 2026-01-03".into() });
    });
    assert!(said.starts_with("held: ") && said.contains("2026-01-03"), "{said}");
}

#[test]
fn what_a_pool_and_labels_say_reaches_the_workloads_of_the_pool() {
    let mut cluster = three_services();
    cluster.workload("elsewhere", &[("gpu-07", 0)], 1_000, 0.1);
    cluster.inventory.workloads.last_mut().unwrap().pods.clear();
    cluster.declared("ocr-svc").labels = BTreeMap::from([("tier".into(), "gold".into())]);
    cluster.pool.policy.min_runs = Some(1);
    cluster.pool.rules.push(PolicyRule {
        workload_labels: BTreeMap::from([("tier".into(), "gold".into())]),
        set: PolicySettings { headroom_percent: Some(40), ..PolicySettings::default() },
        ..PolicyRule::default()
    });
    let said = |name: &str| {
        cluster.ask(|request| {
            let (_, policy) = request.policies.iter().find(|(id, _)| id.name == name).unwrap();
            policy.decided_by.values().cloned().collect::<Vec<_>>()
        })
    };
    assert_eq!(said("ocr-svc"), ["pool a100-40gb, rule 1", "pool a100-40gb"]);
    assert_eq!(said("embed-svc"), ["pool a100-40gb"]);
    assert_eq!(said("elsewhere"), Vec::<String>::new(), "it runs in no pool now");
}

#[test]
fn an_autoscalers_maximum_is_planned_for_unless_the_policy_says_otherwise() {
    let replicas = |plan_for_hpa_max: Option<bool>| {
        let mut cluster = three_services();
        cluster.inventory.workloads[2].hpa_max = Some(2);
        cluster.rules.push(PolicyRule {
            workloads: vec!["search/ocr-svc".into()],
            set: PolicySettings { plan_for_hpa_max, ..PolicySettings::default() },
            ..PolicyRule::default()
        });
        cluster.ask(|request| {
            let workload = &request.inventory.workloads[2];
            let policy = &request.policies[&workload.id];
            let weighed = Weighed {
                workload,
                policy,
                fit: weigh_one(request, workload),
                pods: workload.pods.iter().collect(),
                held_back: None,
            };
            weighed.planned()
        })
    };
    assert_eq!(replicas(None), 2);
    assert_eq!(replicas(Some(false)), 1);
}

#[test]
fn rules_that_speak_of_nobody_are_found_in_every_layer() {
    let mut cluster = three_services();
    cluster.node("gpu-10", A100, 1);
    let rule = |name: Option<&str>, namespace: &str| PolicyRule {
        name: name.map(str::to_owned),
        namespaces: vec![namespace.to_owned()],
        ..PolicyRule::default()
    };
    let service = [rule(None, "search"), rule(Some("gold"), "saerch")];
    let of_cluster = [rule(None, "dev")];
    let (policy, defaults) = (PolicySettings::default(), PoolSettings::default());
    let general = |rules| General { policy: &policy, rules, pool_defaults: &defaults };
    let empty = PoolSettings {
        name: "b".into(),
        nodes: Some("gpu-10".into()),
        rules: vec![rule(None, "search")],
        ..PoolSettings::default()
    };
    let configured = [empty];
    let layers = Layers {
        cluster: "c",
        service: general(&service),
        of_cluster: general(&of_cluster),
        pools: &configured,
    };
    let pools = pools(&cluster.inventory, &layers, &PriceSettings::default()).unwrap();
    assert_eq!(
        crate::plan::layers::idle_rules(&cluster.inventory, &cluster.declared, &pools, &layers),
        [
            "service, rule 2 `gold` speaks of no GPU workload of the cluster",
            "cluster c, rule 1 speaks of no GPU workload of the cluster",
            "pool b, rule 1 speaks of no GPU workload of the pool",
        ]
    );
}
