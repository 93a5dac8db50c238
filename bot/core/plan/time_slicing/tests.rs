//! Pools whose pods may share whole cards, planned and checked.

mod new_pool;
mod rules;

use std::collections::{BTreeMap, BTreeSet};

use super::super::tests::{A100, Cluster, labels_of, notebooks};
use super::*;
use crate::inventory::{MigStrategy, UnattributedPod, sanitised_label};
use crate::plan::{CardUse, NodeFate, RiskLevel};
use crate::policy::rules::PolicyRule;
use crate::policy::{Method, PolicySettings};
use crate::units::Mib;

const A10G: &str = "NVIDIA A10G";

fn rule(set: PolicySettings) -> PolicyRule {
    PolicyRule { namespaces: vec!["search".into()], set, ..PolicyRule::default() }
}

/// Notebooks in a tainted pool that are not production, one a card: name, node, card, peak, p99.
fn pool(nodes: &[(&str, usize)], model: &str, pods: &[(&str, &str, usize, u64, f64)]) -> Cluster {
    let mut cluster = Cluster::new("ml-dev");
    for (node, n_cards) in nodes {
        cluster.node(node, model, *n_cards);
    }
    for node in &mut cluster.inventory.nodes {
        node.taints = vec![super::super::tests::taint("dedicated", "NoSchedule")];
    }
    for (name, node, card, peak, p99) in pods {
        cluster.workload(name, &[(*node, *card)], *peak, *p99);
    }
    cluster.rules.push(rule(PolicySettings { production: Some(false), ..PolicySettings::default() }));
    cluster
}

/// Two large and six small ones, each on a node of its own.
fn large_and_small() -> Cluster {
    let nodes: Vec<String> = (0..8).map(|i| format!("dev-{i}")).collect();
    let names: Vec<String> = (0..8).map(|i| format!("nb-{i}")).collect();
    let nodes_with_cards: Vec<(&str, usize)> = nodes.iter().map(|node| (node.as_str(), 1)).collect();
    let pods: Vec<(&str, &str, usize, u64, f64)> = (0..8)
        .map(|i| (names[i].as_str(), nodes[i].as_str(), 0, if i < 2 { 9_000 } else { 2_000 }, 0.05))
        .collect();
    pool(&nodes_with_cards, A10G, &pods)
}

/// The node selectors that a plan sets, by workload.
fn selectors(plan: &Plan) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for change in &plan.changes {
        if let Change::PinWorkload { workload, selector } = change {
            found.insert(workload.name.clone(), selector.clone());
        }
    }
    found
}

/// The key that each workload is bound to.
fn pins(plan: &Plan) -> BTreeMap<String, String> {
    selectors(plan)
        .into_iter()
        .filter_map(|(name, selector)| Some((name, selector.get(PLUGIN_LABEL)?.clone())))
        .collect()
}

fn label(cluster: &mut Cluster, node: &str, key: &str, value: &str) {
    let node = cluster.inventory.nodes.iter_mut().find(|known| known.name == node).unwrap();
    node.labels.insert(sanitised_label(key), value.into());
}

fn refused(cluster: &Cluster) -> String {
    cluster.must_not_plan().reasons[0].code.clone()
}

#[test]
fn two_groups_free_more_where_large_pods_lower_the_factor_of_all() {
    let plan = large_and_small().must_plan();
    let labels: BTreeMap<String, String> =
        labels_of(&plan).into_iter().map(|(node, key)| (key, node)).collect();
    assert_eq!(labels.keys().collect::<Vec<_>>(), ["a10g-x2", "a10g-x6"]);
    // One group would share by two and keep four nodes.
    assert_eq!((plan.saving.nodes_freed.len(), plan.proof.proven), (6, true));
    let pins = pins(&plan);
    assert_eq!(pins.len(), 8, "every pod is bound to its group");
    assert_eq!((pins["nb-0"].as_str(), pins["nb-2"].as_str()), ("a10g-x2", "a10g-x6"));
    assert!(
        ["dev-0", "dev-1"].contains(&labels["a10g-x2"].as_str()),
        "a group stays where pods of it are: {labels:?}"
    );
    let said = plan.proof.sentences.join("\n");
    assert!(said.contains("`a10g-x2`, pods up to 9,000 MiB") && said.contains("18,000 MiB"), "{said}");
    assert!(said.contains("pods of the two never meet"), "{said}");
    assert!(plan.items.iter().all(|item| item.nodes_after.len() == 1));
}

#[test]
fn one_group_where_a_manifest_cannot_be_edited_and_the_other_way_is_named() {
    let mut cluster = large_and_small();
    cluster.declared("nb-5").editable = Err("a Helm template".into());
    let plan = cluster.must_plan();
    assert_eq!(plan.saving.nodes_freed.len(), 4);
    assert!(pins(&plan).is_empty() && !plan.proof.proven);
    let other = plan.alternatives.iter().find(|other| other.name == "two groups by memory").unwrap();
    assert_eq!(other.n_cards, Some(2));
    assert!(other.reason.contains("nb-5") && other.reason.contains("a Helm template"), "{}", other.reason);
}

#[test]
fn a_node_of_the_other_group_is_drained_before_the_merge() {
    let mut cluster = large_and_small();
    // The small ones may run on the node of a large one alone, so that it has to go first.
    for i in 2..8 {
        cluster.inventory.nodes[i].taints = vec![];
    }
    let plan = cluster.must_plan();
    assert_eq!(plan.saving.nodes_freed.len(), 6, "two nodes are tainted: {:?}", plan.changes);
    let first = &plan.rollout[0];
    assert!(first.what.starts_with("Before the merge: cordon and drain dev-"), "{first:?}");
    let uncordons =
        plan.rollout.iter().flat_map(|step| &step.commands).any(|c| c.contains("kubectl uncordon dev-"));
    assert!(uncordons, "{:#?}", plan.rollout);
}

#[test]
fn cards_are_freed_on_nodes_that_stay_when_capacity_is_the_goal() {
    let names: Vec<String> = (0..8).map(|i| format!("nb-{i}")).collect();
    let pods: Vec<_> =
        (0..8).map(|i| (names[i].as_str(), if i < 4 { "n1" } else { "n2" }, i % 4, 4_500, 0.05)).collect();
    let mut cluster = pool(&[("n1", 4), ("n2", 4)], A10G, &pods);
    cluster.pool.goal = Some(Goal::Capacity);
    let plan = cluster.must_plan();
    assert_eq!((plan.saving.cards_freed, plan.saving.nodes_freed.len()), (4, 0));
    assert_eq!((plan.saving.nodes_before, plan.saving.nodes_after), (2, 2));
    assert!(plan.saving.per_month.is_none());
    assert_eq!(labels_of(&plan), [("n1".to_owned(), "a10g-x4".to_owned())]);
    let left = plan.nodes.iter().find(|node| node.name == "n2").unwrap();
    assert_eq!((left.fate, left.after.clone()), (NodeFate::Untouched, vec![CardUse::Idle; 4]));
    assert_eq!(left.restarts.len(), 4);
    assert_eq!(pins(&plan).len(), 8, "pods that go back to whole cards would undo it");

    cluster.declared("nb-3").editable = Err("a Helm template".into());
    assert_eq!(refused(&cluster), "cannot-pin");
}

#[test]
fn a_node_alone_frees_no_card_since_all_of_its_cards_are_shared() {
    let names = ["a", "b", "c", "d"];
    let pods: Vec<_> = (0..4).map(|i| (names[i], "n1", i, 4_500, 0.05)).collect();
    let mut cluster = pool(&[("n1", 4)], A10G, &pods);
    cluster.pool.goal = Some(Goal::Capacity);
    assert_eq!(refused(&cluster), "nothing-gained");
    cluster.pool.goal = Some(Goal::Bill);
    assert_eq!(refused(&cluster), "nothing-gained");
}

/// The notebooks, and a service of the same pool that needs its card.
fn with_a_service() -> Cluster {
    let mut cluster = notebooks();
    cluster.node("dev-9", A10G, 1);
    let taints = cluster.inventory.nodes[0].taints.clone();
    cluster.inventory.nodes.last_mut().unwrap().taints = taints;
    cluster.workload("service", &[("dev-9", 0)], 20_000, 0.5);
    cluster
}

#[test]
fn others_of_the_pool_are_kept_off_by_a_selector_that_shared_nodes_do_not_match() {
    let mut cluster = with_a_service();
    assert_eq!(refused(&cluster), "others-may-meet");
    let select = |cluster: &mut Cluster, key: &str, value: &str| {
        let selector = &mut cluster.declared("service").node_selector;
        selector.clear();
        selector.insert(key.into(), value.into());
    };
    // Nobody shows this label: nothing is known of it.
    select(&mut cluster, "disk", "nvme");
    assert_eq!(refused(&cluster), "others-may-meet");
    label(&mut cluster, "dev-9", "disk", "nvme");
    let plan = cluster.must_plan();
    assert_eq!(plan.saving.nodes_freed, ["dev-1", "dev-2", "dev-3"]);
    assert_eq!(plan.kept.len(), 1);
    let said = plan.proof.sentences.join("\n");
    assert!(said.contains("kept off by their node selectors: search/service"), "{said}");
    // A selector that the shared nodes match keeps nobody off.
    for node in 0..4 {
        label(&mut cluster, &format!("dev-{node}"), "disk", "nvme");
    }
    assert_eq!(refused(&cluster), "others-may-meet");
    // The product label of shared cards ends in -SHARED.
    select(&mut cluster, PRODUCT_LABEL, "NVIDIA-A10G");
    assert_eq!(refused(&cluster), "others-may-meet", "the label is not known");
    for node in ["dev-0", "dev-1", "dev-2", "dev-3", "dev-9"] {
        label(&mut cluster, node, PRODUCT_LABEL, "NVIDIA-A10G");
    }
    assert_eq!(cluster.must_plan().saving.nodes_freed.len(), 3);
}

#[test]
fn without_a_taint_selectors_of_all_others_are_a_proof_and_nothing_less() {
    let mut cluster = notebooks();
    cluster.inventory.nodes.iter_mut().for_each(|node| node.taints.clear());
    cluster.node("other", A100, 1);
    cluster.pool.nodes = Some("dev-.*".into());
    cluster.workload("llm", &[("other", 0)], 30_000, 0.5);
    assert_eq!(refused(&cluster), "no-taint");
    cluster.declared("llm").node_selector.insert("pool".into(), "llm".into());
    label(&mut cluster, "other", "pool", "llm");
    let plan = cluster.must_plan();
    let said = plan.proof.sentences.join("\n");
    assert!(
        said.contains("no taint keeps others off these nodes, node selectors do: 1 other GPU workload"),
        "{said}"
    );
    // A pod that nobody owns selects nothing that is known.
    cluster.inventory.unattributed_pods = vec![UnattributedPod { pod: "x/y".into(), node: "other".into() }];
    assert_eq!(refused(&cluster), "unknown-pods");
    cluster.inventory.unattributed_pods.clear();
    // Nor does a workload that stands in no repository.
    cluster.declared.workloads.retain(|id, _| id.name != "llm");
    assert_eq!(refused(&cluster), "no-taint");
}

#[test]
fn a_pod_without_an_owner_that_stands_in_the_pool_stops_it_there() {
    let mut cluster = with_a_service();
    cluster.inventory.workloads.pop();
    cluster.declared.workloads.retain(|id, _| id.name != "service");
    assert_eq!(cluster.must_plan().saving.nodes_freed.len(), 3);
    cluster.inventory.unattributed_pods = vec![UnattributedPod { pod: "x/y".into(), node: "dev-9".into() }];
    assert_eq!(refused(&cluster), "unknown-pods");
}

#[test]
fn a_workload_that_is_declared_alone_may_come_too() {
    let mut cluster = with_a_service();
    cluster.inventory.workloads.pop();
    assert_eq!(refused(&cluster), "strangers-may-come");
    cluster.declared("service").tolerations.clear();
    assert_eq!(cluster.must_plan().saving.nodes_freed.len(), 3);
}

#[test]
fn pods_are_bound_to_shared_nodes_while_an_idle_node_stays() {
    let mut cluster = with_a_service();
    let id = cluster.inventory.workloads.pop().unwrap().id;
    cluster.declared.workloads.remove(&id);
    let plan = cluster.must_plan();
    assert_eq!(pins(&plan).len(), 4);
    assert!(
        plan.rollout.iter().any(|step| step.what.contains("their node selectors name")),
        "{:#?}",
        plan.rollout
    );
    cluster.declared("nb-2").editable = Err("a Helm template".into());
    let plan = cluster.must_plan();
    assert!(pins(&plan).is_empty());
    assert!(plan.rollout.iter().any(|step| step.commands.iter().any(|c| c == "kubectl cordon dev-9")));
    // Where no other node stays nothing binds them: their manifests are left alone.
    assert!(pins(&notebooks().must_plan()).is_empty());
}

#[test]
fn pods_are_not_bound_to_a_key_that_another_node_carries() {
    let mut cluster = large_and_small();
    cluster.pool.nodes = Some("dev-.*".into());
    cluster.node("old", A10G, 1);
    cluster.inventory.nodes.last_mut().unwrap().taints = cluster.inventory.nodes[0].taints.clone();
    label(&mut cluster, "old", PLUGIN_LABEL, "a10g-x6");
    assert_eq!(refused(&cluster), "key-elsewhere");
    cluster.inventory.nodes.last_mut().unwrap().taints =
        vec![super::super::tests::taint("team", "NoSchedule")];
    assert_eq!(cluster.must_plan().saving.nodes_freed.len(), 6);
}

#[test]
fn a_selector_on_the_product_follows_the_shared_label() {
    let mut cluster = notebooks();
    for node in 0..4 {
        label(&mut cluster, &format!("dev-{node}"), PRODUCT_LABEL, "NVIDIA-A10G");
    }
    cluster.declared("nb-1").node_selector.insert(PRODUCT_LABEL.into(), "NVIDIA-A10G".into());
    let plan = cluster.must_plan();
    let shared = BTreeMap::from([(PRODUCT_LABEL.to_owned(), "NVIDIA-A10G-SHARED".to_owned())]);
    assert_eq!(selectors(&plan), BTreeMap::from([("nb-1".to_owned(), shared)]));
    cluster.declared("nb-1").editable = Err("a Helm template".into());
    assert_eq!(refused(&cluster), "selector-breaks");
}

#[test]
fn what_is_lost_is_said_in_numbers_with_its_source() {
    let plan = notebooks().must_plan();
    let said = plan.effects.join("\n");
    for part in [
        "while all 4 pods of a card are busy, each gets 1/4 of its time",
        "the 4 largest p99 of compute are 44 % of a card together, of 70 %",
        "about 220 % of the card's time",
        "about 2.2 times as long",
        "NVIDIA GPU Operator documentation",
    ] {
        assert!(said.contains(part), "`{part}` is missing in:\n{said}");
    }
    assert!(plan.proof.sentences.iter().any(|s| s.contains("CUDA contexts already")), "{:?}", plan.proof);
    let mut cluster = notebooks();
    cluster.measured.profiles.values_mut().for_each(|profile| profile.kernel_width_p95 = None);
    assert!(cluster.must_plan().effects.join("\n").contains("cannot be estimated"));
}

fn mps_notebooks() -> Cluster {
    let mut cluster = notebooks();
    cluster.declared.operator.mig_strategy = Some(MigStrategy::None);
    cluster.rules.push(rule(PolicySettings {
        methods: Some(BTreeSet::from([Method::Mps])),
        ..PolicySettings::default()
    }));
    cluster
}

#[test]
fn mps_shares_a_card_where_it_is_asked_for() {
    let plan = mps_notebooks().must_plan();
    assert_eq!((plan.method, plan.saving.nodes_freed.len()), (Method::Mps, 3));
    assert_eq!(
        plan.changes[0],
        Change::SetPluginConfig {
            key: "a10g-mps4".into(),
            resource: "nvidia.com/gpu".into(),
            replicas: 4,
            fail_requests_greater_than_one: true,
            sharing: PluginSharing::Mps,
        }
    );
    let said = plan.proof.sentences.join("\n");
    assert!(said.contains("each of 4 MPS clients may take 5,757 MiB and 25 % of the SMs"), "{said}");
    assert!(
        plan.rollout[0].what.contains("drain dev-0, so that no process holds a card"),
        "{:#?}",
        plan.rollout
    );
    assert!(
        plan.rollout.iter().any(|s| s.wait_for.as_deref().is_some_and(|w| w.contains("mps.capable=true")))
    );
    for rule in ["no-fault-isolation", "mps-experimental"] {
        assert!(plan.risks.iter().any(|risk| risk.rule == rule && risk.level == RiskLevel::Medium), "{rule}");
    }
    assert!(plan.effects.join("\n").contains("25 % of the SMs even when the others rest"));
}

#[test]
fn the_largest_client_and_the_policy_limit_the_factor_of_mps() {
    let mut cluster = mps_notebooks();
    let largest = cluster.measured.profiles.values_mut().last().unwrap();
    // 4,798 MiB need 5,758 with headroom, a fourth of the card is 5,757.
    largest.peak.as_mut().unwrap().memory = Mib(4_798);
    let plan = cluster.must_plan();
    assert_eq!(plan.saving.nodes_freed.len(), 2);
    let said = plan.proof.sentences.join("\n");
    assert!(
        said.contains("with 4 clients each may take 5,757 MiB, and the largest needs 5,758 MiB"),
        "{said}"
    );

    let mut cluster = mps_notebooks();
    cluster.rules.push(rule(PolicySettings { mps_max_replicas: Some(2), ..PolicySettings::default() }));
    let plan = cluster.must_plan();
    assert_eq!(plan.saving.nodes_freed.len(), 2);
    assert!(plan.proof.sentences.join("\n").contains("2 replicas are the most that policy allows"));
}

#[test]
fn mps_is_refused_where_the_device_plugin_cannot_run_it() {
    let code = |cluster: &Cluster| {
        let kept = cluster.must_not_plan().kept;
        let candidate = kept[0].fit.considered.iter().find(|candidate| candidate.method == Method::Mps);
        candidate.unwrap().reasons[0].code.clone()
    };
    let mut cluster = mps_notebooks();
    cluster.declared.operator.mig_strategy = Some(MigStrategy::Mixed);
    assert_eq!(code(&cluster), "mps-under-mixed");
    cluster.declared.operator.mig_strategy = None;
    assert_eq!(code(&cluster), "mig-strategy-unknown");
    label(&mut cluster, "dev-3", "nvidia.com/mig.strategy", "mixed");
    assert_eq!(code(&cluster), "mps-under-mixed");
    let mut cluster = mps_notebooks();
    label(&mut cluster, "dev-3", "nvidia.com/mig.config", "all-1g.5gb");
    assert_eq!(code(&cluster), "mps-on-mig");
    let mut cluster = mps_notebooks();
    cluster.rules.push(rule(PolicySettings { production: Some(true), ..PolicySettings::default() }));
    assert_eq!(code(&cluster), "production");
    // Nobody gets it who did not ask.
    let plan = notebooks().must_plan();
    assert!(plan.items[0].fit.considered.iter().all(|candidate| candidate.method != Method::Mps));
}

/// `n` small pods on A100 nodes of one card each, not production.
fn on_a100(n: usize) -> Cluster {
    let nodes: Vec<String> = (0..n).map(|i| format!("n{i}")).collect();
    let names: Vec<String> = (0..n).map(|i| format!("nb-{i}")).collect();
    let cards: Vec<(&str, usize)> = nodes.iter().map(|node| (node.as_str(), 1)).collect();
    let pods: Vec<_> = (0..n).map(|i| (names[i].as_str(), nodes[i].as_str(), 0, 2_000, 0.03)).collect();
    pool(&cards, A100, &pods)
}

#[test]
fn mig_wins_a_tie_and_says_what_time_slicing_would_free() {
    let plan = on_a100(7).must_plan();
    assert_eq!((plan.method, plan.saving.nodes_freed.len()), (Method::Mig, 6));
    let other = &plan.alternatives[0];
    assert_eq!((other.name.as_str(), other.n_cards), ("time-slicing ×7", Some(1)));
    assert!(
        other.reason.contains("frees 6 nodes and 6 cards, this way moves 7 workloads and frees 6 nodes"),
        "{}",
        other.reason
    );
}

#[test]
fn time_slicing_wins_where_it_frees_more_and_production_moves_by_mig_all_the_same() {
    let mut cluster = on_a100(8);
    let plan = cluster.must_plan();
    assert_eq!((plan.method, plan.saving.nodes_freed.len()), (Method::TimeSlicing, 7));
    let other = &plan.alternatives[0];
    assert_eq!((other.name.as_str(), other.n_cards), ("MIG", Some(2)));
    assert!(
        other.reason.contains("frees 6 nodes and 6 cards") && other.reason.contains("by hardware"),
        "{}",
        other.reason
    );
    cluster.rules.clear();
    let plan = cluster.must_plan();
    assert_eq!((plan.method, plan.saving.nodes_freed.len()), (Method::Mig, 6));
    let other = &plan.alternatives[0];
    assert!(other.reason.starts_with("fits 0 of 7 workloads; search/nb-0: production"), "{}", other.reason);
}

#[test]
fn time_slicing_takes_over_where_no_manifest_can_be_edited() {
    let mut cluster = on_a100(4);
    for i in 0..4 {
        cluster.declared(&format!("nb-{i}")).editable = Err("a Helm template".into());
    }
    assert_eq!(cluster.must_plan().method, Method::TimeSlicing);
}

#[test]
fn why_not_mig_counts_and_gives_the_numbers() {
    let plan = notebooks().must_plan();
    let mig = plan.alternatives.iter().find(|other| other.name == "MIG").unwrap();
    assert!(mig.reason.starts_with("fits 0 of 4 workloads; search/nb-0: "), "{}", mig.reason);
}

#[test]
fn the_check_finds_what_a_planner_could_get_wrong() {
    let cluster = large_and_small();
    let plan = cluster.must_plan();
    let check = |what: &str, spoil: &dyn Fn(&mut Plan)| {
        let mut spoilt = plan.clone();
        spoil(&mut spoilt);
        let broken = cluster.broken(&spoilt);
        assert!(broken.iter().any(|rule| rule.contains(what)), "`{what}` is missing in {broken:#?}");
    };
    let each = |plan: &mut Plan, change: &dyn Fn(&mut Change)| plan.changes.iter_mut().for_each(change);
    check("largest peaks under `a10g-x2` need", &|plan| {
        each(plan, &|change| {
            if let Change::PinWorkload { workload, selector } = change
                && workload.name == "nb-2"
            {
                selector.insert(PLUGIN_LABEL.into(), "a10g-x2".into());
            }
            if let Change::SetPluginConfig { replicas, .. } = change {
                *replicas = 3;
            }
        });
    });
    check("bound to no group", &|plan| {
        plan.changes.retain(|change| !matches!(change, Change::PinWorkload { .. }));
    });
    check("refuses fewer than 2", &|plan| {
        each(plan, &|change| {
            if let Change::SetPluginConfig { replicas, .. } = change {
                *replicas = 1;
            }
        });
    });
    check("does not hold to", &|plan| {
        for card in plan.nodes.iter_mut().flat_map(|node| &mut node.after) {
            if let CardUse::Shared { replicas, .. } = card {
                *replicas += 1;
            }
        }
    });
    check("seats under", &|plan| {
        for card in plan.nodes.iter_mut().flat_map(|node| &mut node.after) {
            if let CardUse::Shared { workloads, .. } = card {
                workloads.pop();
            }
        }
    });
    check("by another method", &|plan| {
        each(plan, &|change| {
            if let Change::SetPluginConfig { sharing, .. } = change {
                *sharing = PluginSharing::Mps;
            }
        });
    });
    let mut production = large_and_small();
    production.rules.clear();
    assert!(production.broken(&plan).iter().any(|rule| rule.contains("is production")));
    let mut open = large_and_small();
    open.inventory.nodes.iter_mut().for_each(|node| node.taints.clear());
    assert!(!open.broken(&plan).is_empty());
}

#[test]
fn an_idle_node_that_is_used_then_takes_back_a_node_that_goes() {
    // At the autoscaler's maximum the pods fit on the large idle node alone: as many nodes are needed then as now.
    let mut cluster = pool(&[("n1", 1), ("n2", 2)], A10G, &[("a", "n1", 0, 4_000, 0.05)]);
    let id = cluster.inventory.workloads[0].id.clone();
    let workload = &mut cluster.inventory.workloads[0];
    workload.hpa_max = Some(6);
    cluster.declared.workloads.get_mut(&id).unwrap().replicas = Some(1);
    assert_eq!(refused(&cluster), "nothing-gained");
}

#[test]
fn production_in_the_pool_moves_by_mig_although_time_slicing_of_the_others_frees_more() {
    let names: Vec<(String, String)> = (0..15).map(|i| (format!("n{i}"), format!("nb-{i}"))).collect();
    let cards: Vec<(&str, usize)> = names.iter().map(|(node, _)| (node.as_str(), 1)).collect();
    let pods: Vec<_> =
        names.iter().map(|(node, name)| (name.as_str(), node.as_str(), 0, 4_500, 0.03)).collect();
    let mut cluster = pool(&cards, A100, &pods);
    assert_eq!(cluster.must_plan().method, Method::TimeSlicing);
    cluster.rules.push(PolicyRule {
        workloads: vec!["search/nb-14".into()],
        set: PolicySettings { production: Some(true), ..PolicySettings::default() },
        ..PolicyRule::default()
    });
    cluster.declared("nb-14").node_selector.insert("kubernetes.io/hostname".into(), "n14".into());
    let plan = cluster.must_plan();
    assert_eq!(plan.method, Method::Mig);
    let other = &plan.alternatives[0];
    assert_eq!((other.name.as_str(), other.n_cards), ("time-slicing ×7", Some(2)));
    assert!(other.reason.contains("production moves by MIG alone"), "{}", other.reason);
}

#[test]
fn a_node_where_somebody_may_not_run_is_not_shared() {
    let mut cluster = notebooks();
    cluster.declared("nb-1").node_selector.insert("disk".into(), "nvme".into());
    for node in &mut cluster.inventory.nodes {
        node.labels.insert(sanitised_label("disk"), if node.name == "dev-1" { "nvme" } else { "ssd" }.into());
    }
    // Shared cards are for all of them, and only dev-1 would take everybody.
    let plan = cluster.must_plan();
    let labelled: Vec<String> =
        super::super::tests::labels_of(&plan).into_iter().map(|(node, _)| node).collect();
    assert_eq!(labelled, ["dev-1"]);
    for node in &mut cluster.inventory.nodes {
        node.labels.insert(sanitised_label("disk"), "ssd".into());
    }
    cluster.inventory.nodes[1].labels.insert(sanitised_label("disk"), "none".into());
    assert_eq!(refused(&cluster), "may-not-run");
}

#[test]
fn a_node_that_is_not_at_rest_is_left_out() {
    let mut cluster = notebooks();
    // An idle node with more cards would be the best of all.
    cluster.node("dev-9", A10G, 4);
    cluster.inventory.nodes[4].taints = cluster.inventory.nodes[0].taints.clone();
    let shared = |cluster: &Cluster| super::super::tests::labels_of(&cluster.must_plan()).remove(0).0;
    cluster.pool.frozen_nodes = BTreeSet::from(["dev-9".into()]);
    assert_eq!(shared(&cluster), "dev-0");
    cluster.pool.frozen_nodes = BTreeSet::from(["dev-*".into()]);
    assert_eq!(refused(&cluster), "must-not-move");
}

#[test]
fn a_card_takes_no_more_mps_clients_than_its_generation_does() {
    let many = |model: &str| {
        let mut cluster = Cluster::new("ml-dev");
        cluster.declared.operator.mig_strategy = Some(MigStrategy::None);
        cluster.rules = mps_notebooks().rules;
        cluster.rules.push(rule(PolicySettings {
            mps_max_replicas: Some(48),
            headroom_min_mib: Some(1),
            time_slicing_compute_limit: Some(crate::units::Ratio::ONE),
            ..PolicySettings::default()
        }));
        for i in 0..50 {
            let node = format!("n{i:02}");
            cluster.node(&node, model, 1);
            cluster.inventory.nodes[i].taints = vec![super::super::tests::taint("dedicated", "NoSchedule")];
            cluster.workload(&format!("w{i:02}"), &[(&node, 0)], 100, 0.0);
        }
        cluster
    };
    for (model, most) in [("Tesla V100-SXM2-16GB", 16), ("Tesla T4", 48)] {
        let plan = many(model).must_plan();
        let replicas = plan.changes.iter().find_map(|change| match change {
            Change::SetPluginConfig { replicas, .. } => Some(*replicas),
            Change::SetMigConfig { .. }
            | Change::LabelNodes { .. }
            | Change::LabelGroup { .. }
            | Change::AddNodePool { .. }
            | Change::SetWorkloadResource { .. }
            | Change::PinWorkload { .. } => None,
        });
        assert_eq!(replicas, Some(most), "{model}");
    }
    // Before Volta nothing keeps a client within its share.
    let kept = many("Tesla P100-PCIE-16GB").must_not_plan().kept;
    let mps = kept[0].fit.considered.iter().find(|candidate| candidate.method == Method::Mps).unwrap();
    assert_eq!(mps.reasons[0].code, "mps-without-limits");
}
