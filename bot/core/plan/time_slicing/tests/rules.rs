//! Rules of pools and workloads that shared cards must keep: spare cards, replicas apart, who may be down.

use super::super::super::pool::{Spread, Waves};
use super::*;
use crate::inventory::UnattributedPod;

/// What the check says of a plan in this cluster.
fn says(cluster: &Cluster, plan: &Plan, what: &str) {
    let broken = cluster.broken(plan);
    assert!(broken.iter().any(|rule| rule.contains(what)), "`{what}` is missing in {broken:#?}");
}

fn idle_on_nodes_that_stay(plan: &Plan) -> usize {
    plan.nodes.iter().flat_map(|node| &node.after).filter(|card| **card == CardUse::Idle).count()
}

#[test]
fn spare_cards_stay_idle_on_nodes_that_are_not_shared() {
    let mut cluster = notebooks();
    cluster.pool.spare_cards = Some(1);
    let plan = cluster.must_plan();
    assert_eq!((plan.saving.nodes_freed.len(), idle_on_nodes_that_stay(&plan)), (2, 1));
    let spare = plan.nodes.iter().find(|node| node.name == "dev-1").unwrap();
    assert_eq!((spare.fate, spare.restarts.len()), (NodeFate::Untouched, 1));
    assert_eq!(pins(&plan).len(), 4, "pods that go back to the spare card would take it");
    cluster.pool.spare_cards = Some(2);
    says(&cluster, &plan, "2 cards must stay idle, and 1 would");
    cluster.pool.spare_cards = Some(3);
    assert_eq!(refused(&cluster), "nothing-gained");
    cluster.pool.spare_cards = Some(4);
    let reason = cluster.must_not_plan().reasons.remove(0);
    assert_eq!(reason.code, "spare-cards");
    assert_eq!(reason.text, "4 whole cards must stay idle, and nodes that are not shared would have 3");
}

#[test]
fn idle_nodes_are_the_spare_cards_where_there_are_some() {
    let mut cluster = notebooks();
    cluster.node("dev-9", A10G, 1);
    cluster.inventory.nodes[4].taints = cluster.inventory.nodes[0].taints.clone();
    cluster.pool.spare_cards = Some(1);
    assert_eq!(cluster.must_plan().saving.nodes_freed, ["dev-1", "dev-2", "dev-3"]);
}

#[test]
fn a_group_that_comes_and_goes_is_shared_as_a_whole_and_has_no_spare_card() {
    let mut cluster = notebooks();
    cluster.pool.kind = Some(PoolKind::Elastic);
    let plan = cluster.must_plan();
    cluster.pool.spare_cards = Some(1);
    assert_eq!(refused(&cluster), "spare-cards");
    says(&cluster, &plan, "every node of the group would be shared");
}

/// A workload of two pods and two of one, each on a node of its own.
fn twice() -> Cluster {
    let mut cluster = notebooks();
    let moved = cluster.inventory.workloads.remove(1);
    cluster.declared.workloads.remove(&moved.id);
    let pod = crate::inventory::Pod { name: "nb-0-1".into(), ..moved.pods[0].clone() };
    cluster.inventory.workloads[0].pods.push(pod);
    cluster.inventory.workloads[0].replicas = 2;
    cluster
}

#[test]
fn who_must_be_on_two_cards_does_not_share() {
    let mut cluster = twice();
    let plan = cluster.must_plan();
    assert_eq!(plan.saving.nodes_freed.len(), 2, "two nodes prove `spread: node`");
    cluster.pool.spread = Some(Spread::Card);
    let nothing = cluster.must_not_plan();
    assert_eq!(nothing.reasons[0].text, "dev-0 is left out: search/nb-0 has a whole card there");
    let kept = nothing.kept.iter().find(|kept| kept.fit.workload.name == "nb-0").unwrap();
    assert_eq!(kept.reasons[0].code, "spread-over-cards");
    assert_eq!(
        kept.reasons[0].text,
        "its 2 replicas must not be on one card, and on shared cards nothing keeps them apart"
    );
    says(&cluster, &plan, "all 2 replicas of search/nb-0 would be on one card");
    // What holds for the workload comes before the pool; a workload of one pod has nobody to be apart from.
    cluster.rules.push(rule(PolicySettings { spread: Some(Spread::None), ..PolicySettings::default() }));
    assert_eq!(cluster.must_plan().saving.nodes_freed.len(), 3);
    let mut cluster = notebooks();
    cluster.pool.spread = Some(Spread::Card);
    assert_eq!(cluster.must_plan().saving.nodes_freed.len(), 3);
}

/// Two pods of one workload on nodes that go, and room for them on one node that others use and on an idle one.
fn parted() -> Cluster {
    let mut cluster = pool(
        &[("n1", 2), ("n2", 2), ("n3", 1), ("n4", 1)],
        A10G,
        &[("a", "n1", 0, 4_000, 0.05), ("b", "n1", 1, 4_000, 0.05)],
    );
    cluster.workload("twice", &[("n3", 0), ("n4", 0)], 4_000, 0.05);
    cluster
}

#[test]
fn replicas_that_are_apart_today_get_seats_on_two_nodes() {
    let plan = parted().must_plan();
    let holds = |name: &str| {
        let node = plan.nodes.iter().find(|node| node.name == name).unwrap();
        node.after.iter().any(|card| match card {
            CardUse::Shared { workloads, .. } => workloads.iter().any(|id| id.name == "twice"),
            CardUse::Idle | CardUse::Whole { .. } | CardUse::Slices { .. } | CardUse::Other { .. } => false,
        })
    };
    assert!(holds("n1") && holds("n2"), "{:#?}", plan.nodes);
}

#[test]
fn replicas_that_no_two_shared_nodes_can_part_stay() {
    let mut cluster = pool(&[("n1", 4), ("n2", 1), ("n3", 1)], A10G, &[]);
    cluster.workload("a", &[("n1", 0), ("n2", 0)], 4_000, 0.05);
    cluster.workload("b", &[("n1", 1), ("n3", 0)], 4_000, 0.05);
    // Room for one pod on each of the small nodes.
    for node in &mut cluster.inventory.nodes[1..] {
        node.allocatable.as_mut().unwrap().cpu_milli = 3_000;
    }
    assert_eq!(refused(&cluster), "no-room-apart");
    cluster.pool.spread = Some(Spread::None);
    assert_eq!(cluster.must_plan().saving.nodes_freed, ["n2", "n3"]);
}

#[test]
fn an_idle_node_that_is_needed_is_no_gain() {
    let plan = parted().must_plan();
    assert_eq!((plan.saving.nodes_freed.len(), plan.gain(Goal::Bill)), (2, 1));
}

/// MPS for `twice`: nodes of both of its pods are drained.
fn mps_twice(waves: Waves) -> Cluster {
    let mut cluster = twice();
    cluster.declared.operator.mig_strategy = Some(MigStrategy::None);
    cluster.rules.push(rule(PolicySettings {
        methods: Some(BTreeSet::from([Method::Mps])),
        ..PolicySettings::default()
    }));
    cluster.pool.waves = Some(waves);
    cluster
}

#[test]
fn nobody_is_down_whom_waves_protects_when_nodes_are_drained_for_mps() {
    let plan = mps_twice(Waves::AllowDowntime).must_plan();
    assert_eq!(plan.waves[0].nodes, ["dev-0", "dev-1"]);
    assert_eq!(plan.waves[0].down.len(), 1);
    for waves in [Waves::SingleReplica, Waves::NoDowntime] {
        let cluster = mps_twice(waves);
        let reason = cluster.must_not_plan().reasons.remove(0);
        assert_eq!(reason.code, "downtime");
        assert!(reason.text.contains("does not allow that 1 workload is down: search/nb-0"), "{reason:?}");
        says(&cluster, &plan, "would be down");
    }
    let mut spoilt = plan.clone();
    spoilt.waves.clear();
    says(&mps_twice(Waves::AllowDowntime), &spoilt, "the waves do not drain each node once");

    let plan = mps_twice(Waves::Borrow).must_plan();
    assert_eq!(plan.waves[0].borrowed, 2, "two pods, cards alone on their nodes");
    let said: Vec<&str> = plan.rollout.iter().map(|step| step.what.as_str()).collect();
    assert!(
        said[0].starts_with("Borrow 2 nodes of the same kind") && said[0].ends_with("on dev-0, dev-1 exist."),
        "{said:#?}"
    );
    // Draining what was borrowed stops all pods there at once: they start again one by one before.
    let back =
        plan.rollout.iter().find(|step| step.what.starts_with("Give back what was borrowed for")).unwrap();
    let at = |text: &str| back.commands.iter().position(|command| command.contains(text));
    assert!(at("kubectl cordon").unwrap() < at("rollout restart").unwrap(), "{back:#?}");
    assert!(at("rollout status").unwrap() < at("kubectl drain").unwrap(), "{back:#?}");
    assert!(plan.rollout[1].cost.as_deref().unwrap().contains("borrowed nodes"), "{:#?}", plan.rollout);

    // A workload of one pod is down at every drain anyway.
    let mut one = mps_notebooks();
    assert_eq!(one.must_plan().waves[0].down.len(), 1);
    one.pool.waves = Some(Waves::NoDowntime);
    assert_eq!(refused(&one), "downtime");
}

#[test]
fn one_group_is_taken_where_two_would_take_somebody_down() {
    let nodes: Vec<String> = (0..8).map(|i| format!("dev-{i}")).collect();
    let names: Vec<String> = (0..8).map(|i| format!("nb-{i}")).collect();
    let cards: Vec<(&str, usize)> = nodes.iter().map(|node| (node.as_str(), 1)).collect();
    let pods: Vec<(&str, &str, usize, u64, f64)> = (0..8)
        .map(|i| (names[i].as_str(), nodes[i].as_str(), 0, if i < 4 { 9_000 } else { 2_000 }, 0.05))
        .collect();
    let mut cluster = pool(&cards, A10G, &pods);
    // Only nodes of large ones may be shared: one of them has to go before the small ones come.
    for node in &mut cluster.inventory.nodes[4..] {
        node.taints.clear();
    }
    let plan = cluster.must_plan();
    assert_eq!((plan.saving.nodes_freed.len(), plan.waves.len()), (5, 1));
    cluster.pool.waves = Some(Waves::NoDowntime);
    let plan = cluster.must_plan();
    assert_eq!((plan.saving.nodes_freed.len(), plan.waves.len()), (4, 0));
    let other = plan.alternatives.iter().find(|other| other.name == "two groups by memory").unwrap();
    assert!(other.reason.contains("`waves: no-downtime` does not allow"), "{}", other.reason);
    // Where one group has no room, the reason of the two stands.
    let mut cluster = large_and_small();
    cluster.pool.waves = Some(Waves::NoDowntime);
    for node in &mut cluster.inventory.nodes[2..] {
        node.taints.clear();
    }
    assert_eq!(refused(&cluster), "downtime");
}

#[test]
fn time_slicing_stands_in_where_slices_may_not_be_beside_whole_cards() {
    let names = ["a", "b", "c", "d"];
    let pods: Vec<_> =
        (0..4).map(|i| (names[i], if i < 2 { "n1" } else { "n2" }, i % 2, 2_000, 0.03)).collect();
    let mut cluster = pool(&[("n1", 2), ("n2", 2)], A100, &pods);
    assert_eq!(cluster.must_plan().method, Method::Mig);
    for card in cluster.inventory.nodes.iter_mut().flat_map(|node| &mut node.cards) {
        card.driver_version = Some("570.133.20".into());
    }
    let plan = cluster.must_plan();
    assert_eq!((plan.method, plan.saving.nodes_freed.len()), (Method::TimeSlicing, 1));
    let mig = plan.alternatives.iter().find(|other| other.name == "MIG").unwrap();
    assert!(mig.reason.contains("would hold both"), "{}", mig.reason);
}

#[test]
fn the_rule_that_decides_a_tie_is_said() {
    let plan = on_a100(7).must_plan();
    let said = &plan.alternatives[0].reason;
    assert!(
        said.ends_with("; both free as much, and then the way that isolates by hardware is taken"),
        "{said}"
    );
    let plan = on_a100(8).must_plan();
    assert!(!plan.alternatives[0].reason.contains("as much"), "{}", plan.alternatives[0].reason);
    let mut cluster = mps_notebooks();
    cluster.rules.push(rule(PolicySettings {
        methods: Some(BTreeSet::from([Method::TimeSlicing, Method::Mps])),
        ..PolicySettings::default()
    }));
    let plan = cluster.must_plan();
    assert_eq!(plan.method, Method::TimeSlicing);
    let mps = plan.alternatives.iter().find(|other| other.name.starts_with("MPS")).unwrap();
    assert!(
        mps.reason.contains("both free as much, and then time-slicing goes before MPS"),
        "{}",
        mps.reason
    );
}

#[test]
fn the_check_counts_who_may_come_for_itself() {
    let mut cluster = with_a_service();
    cluster.inventory.workloads.pop();
    let mut declared_alone = with_a_service();
    declared_alone.inventory.workloads.pop();
    cluster.declared("service").tolerations.clear();
    let plan = cluster.must_plan();
    says(&declared_alone, &plan, "search/service is declared and may land on dev-0");
    // Nobody owns a pod in the pool.
    let pod = UnattributedPod { pod: "x/y".into(), node: "dev-9".into() };
    cluster.inventory.unattributed_pods = vec![pod];
    says(&cluster, &plan, "x/y, whose owner is not known, may land on dev-0");
    // It ran on such cards and stands in no repository.
    let mut gone = with_a_service();
    gone.inventory.workloads.last_mut().unwrap().pods.clear();
    gone.declared.workloads.retain(|id, _| id.name != "service");
    says(&gone, &plan, "search/service may land on dev-0");
    // A node that is shared is not one that goes or stays as it is.
    let mut spoilt = plan.clone();
    for (node, fate) in spoilt.nodes.iter_mut().zip([NodeFate::Untouched, NodeFate::Freed]) {
        node.fate = fate;
    }
    says(&cluster, &spoilt, "dev-0 is labelled `a10g-x4` and would be left alone");
    says(&cluster, &spoilt, "dev-0 is left alone and would be cut anew");
}

#[test]
fn the_check_wants_room_on_shared_nodes() {
    let cluster = notebooks();
    let plan = cluster.must_plan();
    let mut tight = notebooks();
    tight.inventory.nodes[0].allocatable.as_mut().unwrap().cpu_milli = 3_000;
    says(&tight, &plan, "dev-0 lacks CPU, memory or pod slots");
}
