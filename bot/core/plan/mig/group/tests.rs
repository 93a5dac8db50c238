use std::collections::{BTreeMap, BTreeSet};

use super::super::super::tests::{A100, Cluster, taint, three_services};
use super::super::{chain_in_use, geometry, one_model};
use super::*;
use crate::inventory::{Slice, SliceId, UnattributedPod, sanitised_label};
use crate::plan::pool::Spread;
use crate::plan::{PoolKind, weigh};

fn elastic(mut cluster: Cluster) -> Cluster {
    cluster.pool.kind = Some(PoolKind::Elastic);
    cluster
}

/// Services of one replica that fit `2g.10gb`, each on a node of one card: `n1` and so on.
fn services(n: usize) -> Cluster {
    let mut cluster = elastic(Cluster::new("p"));
    for i in 1..=n {
        let node = format!("n{i}");
        cluster.node(&node, A100, 1);
        cluster.workload(&format!("s{i}"), &[(&node, 0)], 7_000, 0.15);
    }
    cluster
}

/// One more node, on which a workload that fills a card holds the first.
fn with_large(mut cluster: Cluster, node: &str, n_cards: usize) -> Cluster {
    cluster.node(node, A100, n_cards);
    cluster.workload(&format!("large-{node}"), &[(node, 0)], 38_000, 0.9);
    cluster
}

fn nodes(plan: &Plan) -> (u32, u32) {
    (plan.saving.nodes_before, plan.saving.nodes_after)
}

fn names(plan: &Plan) -> Vec<&str> {
    plan.items.iter().map(|item| item.fit.workload.name.as_str()).collect()
}

fn group_label(plan: &Plan) -> (&str, Option<&str>, bool) {
    let mut labels = plan.changes.iter().filter_map(|change| match change {
        Change::LabelGroup { value, previous, beside, .. } => {
            Some((value.as_str(), previous.as_deref(), *beside))
        }
        Change::SetMigConfig { .. }
        | Change::SetPluginConfig { .. }
        | Change::LabelNodes { .. }
        | Change::AddNodePool { .. }
        | Change::SetWorkloadResource { .. }
        | Change::PinWorkload { .. } => None,
    });
    labels.next().unwrap()
}

#[test]
fn nobody_on_a_frozen_node_moves_and_the_node_stays() {
    let mut cluster = services(4);
    cluster.pool.frozen_nodes = BTreeSet::from(["n1".into()]);
    let plan = cluster.must_plan();
    assert_eq!(names(&plan), ["s2", "s3", "s4"]);
    assert_eq!(plan.kept[0].reasons[0].text, "a pod of it runs on n1, which must stay as it is");
    assert_eq!(nodes(&plan), (4, 2));
    assert_eq!((plan.saving.cards_in_use_after, plan.saving.cards_freed), (2, 2));
    assert_eq!(group_label(&plan), ("all-2g.10gb", Some("all-disabled"), true));
    assert!(plan.notes.iter().any(|note| note.ends_with("must stay as they are: n1")), "{:?}", plan.notes);
}

#[test]
fn a_job_keeps_its_neighbour_where_it_is() {
    let mut cluster = elastic(Cluster::new("p"));
    for node in ["n1", "n2", "n3"] {
        cluster.node(node, A100, 2);
    }
    for (name, node, card) in [("job", "n1", 0), ("beside", "n1", 1), ("a", "n2", 0), ("b", "n3", 0)] {
        cluster.workload(name, &[(node, card)], 7_000, 0.15);
    }
    cluster.inventory.workloads[0].id.kind = "Job".into();
    let plan = cluster.must_plan();
    assert_eq!(names(&plan), ["a", "b"]);
    assert_eq!(nodes(&plan), (3, 2));
}

#[test]
fn replicas_that_are_apart_get_two_nodes_of_slices() {
    let mut cluster = services(1);
    for node in ["m1", "m2"] {
        cluster.node(node, A100, 1);
    }
    cluster.workload("twice", &[("m1", 0), ("m2", 0)], 7_000, 0.15);
    let plan = cluster.must_plan();
    assert_eq!((nodes(&plan), plan.proof.n_cards), ((3, 2), 2));
    assert_eq!(plan.proof.sentences[1], "1 card more, so that replicas are apart");
    cluster.pool.spread = Some(Spread::None);
    let plan = cluster.must_plan();
    assert_eq!((nodes(&plan), plan.proof.n_cards), ((3, 1), 1));
}

#[test]
fn what_those_with_whole_cards_may_add_stays_free_as_far_as_it_is_today() {
    let grow = |mut cluster: Cluster| {
        cluster.inventory.workloads.iter_mut().for_each(|w| {
            if w.id.name.starts_with("large") {
                w.hpa_max = Some(5);
            }
        });
        cluster
    };
    // Of four more cards that it may ask for, one is idle today.
    assert_eq!(nodes(&with_large(services(3), "m1", 2).must_plan()), (4, 2));
    assert_eq!(nodes(&grow(with_large(services(3), "m1", 2)).must_plan()), (4, 3));
    assert_eq!(nodes(&grow(with_large(services(3), "m1", 1)).must_plan()), (4, 2));
    let mut surging = with_large(services(3), "m1", 2);
    surging.inventory.workloads[3].max_surge = Some(1);
    assert_eq!(nodes(&surging.must_plan()), (4, 3));
}

#[test]
fn the_smallest_node_of_the_group_is_counted_on() {
    let mut cluster = with_large(services(3), "m1", 2);
    cluster.workload("other", &[("m1", 1)], 38_000, 0.9);
    assert_eq!(nodes(&cluster.must_plan()), (4, 3));
}

#[test]
fn whole_cards_need_room_for_their_pods_too() {
    let mut cluster = services(4);
    for node in &mut cluster.inventory.nodes {
        node.cards
            .push(crate::inventory::Card { uuid: format!("{}-idle", node.name), ..node.cards[0].clone() });
    }
    for node in ["m1", "m2"] {
        cluster = with_large(cluster, node, 2);
    }
    assert_eq!(nodes(&cluster.must_plan()), (6, 2));
    for workload in cluster.inventory.workloads.iter_mut().filter(|w| w.id.name.starts_with("large")) {
        let requests = workload.pods[0].requests.as_mut().unwrap();
        let more = 40_000 - requests.cpu_milli;
        requests.cpu_milli += more;
        let node =
            cluster.inventory.nodes.iter_mut().find(|node| node.name == workload.pods[0].node).unwrap();
        node.requested.as_mut().unwrap().cpu_milli += more;
    }
    assert_eq!(nodes(&cluster.must_plan()), (6, 3));
}

#[test]
fn a_node_that_is_left_out_keeps_its_cards_in_the_count() {
    let mut cluster = with_large(services(3), "m1", 1);
    cluster.inventory.unattributed_pods.push(UnattributedPod { pod: "x/y".into(), node: "m1".into() });
    let plan = cluster.must_plan();
    assert_eq!(nodes(&plan), (4, 2));
    assert_eq!((plan.saving.cards_in_use_before, plan.saving.cards_in_use_after), (4, 2));
    assert!(group_label(&plan).2);
}

#[test]
fn values_of_the_label_that_differ_leave_none_to_go_back_to() {
    let mut cluster = elastic(three_services());
    cluster.inventory.nodes[1].labels = BTreeMap::from([(sanitised_label(MIG_LABEL), "all-1g.5gb".into())]);
    let plan = cluster.must_plan();
    assert_eq!(group_label(&plan), ("all-2g.10gb", None, false));
    assert!(plan.notes.iter().any(|note| note.contains("(all-1g.5gb, all-disabled)")), "{:?}", plan.notes);
}

#[test]
fn the_proof_says_how_many_slots_are_for_rolling_updates() {
    let mut cluster = elastic(three_services());
    for workload in &mut cluster.inventory.workloads {
        workload.max_surge = Some(1);
    }
    assert_eq!(
        cluster.must_plan().proof.sentences[0],
        "one layout for the whole group: with `2g.10gb x3` on every card, 2 cards have room for 3 replicas and, while \
         they roll or grow, 1 more; every other single layout needs as many or more"
    );
}

/// The types that replicas of each type may sit in, by name, once candidates are changed.
fn allowed(cluster: &Cluster, change: impl Fn(&mut Vec<Weighed<'_>>)) -> BTreeMap<String, Vec<String>> {
    cluster.ask(|request| {
        let mut weighed = weigh(request);
        change(&mut weighed);
        let (model_name, model) = one_model(request, &weighed).unwrap();
        let (chain, weighed) = chain_in_use(&model, None, &weighed);
        let geometry = geometry(&model, &chain);
        let mig = Mig { request, weighed: &weighed, model_name, model: &model, chain, geometry };
        let land = lay_of_the_land(&mig);
        let movable = (0..land.tenants.len()).filter(|i| land.tenants[*i].target.is_some()).collect();
        let name = |kind: usize| mig.geometry.types[kind].name.clone();
        may_sit_in(&mig, &land, &movable, &BTreeSet::new())
            .into_iter()
            .enumerate()
            .map(|(kind, to)| (name(kind), to.into_iter().map(name).collect()))
            .collect()
    })
}

#[test]
fn a_replica_sits_in_a_larger_slice_only_where_that_fits_all_of_its_type() {
    let cluster = elastic(three_services());
    assert_eq!(allowed(&cluster, |_| ())["2g.10gb"], ["2g.10gb", "3g.20gb", "4g.20gb"]);
    let refuse = |weighed: &mut Vec<Weighed<'_>>| {
        let candidates = weighed[1].fit.considered.iter_mut();
        candidates.filter(|c| c.name == "3g.20gb").for_each(|c| c.fits = false);
    };
    assert_eq!(allowed(&cluster, refuse)["2g.10gb"], ["2g.10gb", "4g.20gb"]);
}

#[test]
fn nobody_gets_media_engines_that_were_not_asked_for() {
    let mut cluster = services(2);
    for (i, profile) in cluster.measured.profiles.values_mut().enumerate() {
        profile.peak.as_mut().unwrap().memory = crate::units::Mib(3_000);
        profile.compute.as_mut().unwrap().p99 = crate::units::Ratio::from_f64(0.05).unwrap();
        profile.media_engines_used = Some(i == 0);
    }
    // Even where its own fit would do.
    let fits = |weighed: &mut Vec<Weighed<'_>>| {
        let mut candidate = weighed[0].fit.considered.iter().find(|c| c.name == "1g.5gb+me").unwrap().clone();
        candidate.fits = true;
        weighed[1].fit.considered.retain(|c| c.name != candidate.name);
        weighed[1].fit.considered.push(candidate);
    };
    let allowed = allowed(&cluster, fits);
    assert!(allowed.contains_key("1g.5gb+me"), "{allowed:?}");
    assert!(!allowed["1g.5gb"].iter().any(|name| name.ends_with("+me")), "{allowed:?}");
    assert!(allowed["1g.5gb"].len() > 2, "{allowed:?}");
}

#[test]
fn a_slice_on_a_node_that_is_left_out_stops_the_plan() {
    let mut cluster = services(4);
    let node = &mut cluster.inventory.nodes[3];
    node.cards[0].slices = vec![Slice { id: "0".into(), profile: "3g.20gb".into(), ..Slice::default() }];
    node.gpu_allocatable.insert("nvidia_com_mig_3g_20gb".into(), 1);
    node.taints = vec![taint("node.kubernetes.io/unschedulable", "NoSchedule")];
    let holder = &mut cluster.inventory.workloads[3];
    holder.resource = "nvidia.com/mig-3g.20gb".into();
    let uuid = holder.pods[0].cards.remove(0);
    holder.pods[0].slices = vec![SliceId { card: uuid, id: "0".into() }];
    let reasons = cluster.must_not_plan().reasons;
    assert_eq!(
        reasons[0].text,
        "a pod of search/s4 holds a slice on n4, and nodes that are made instead of it would have to offer it (n4 is \
         left out: it is cordoned, not ready or about to go (taint `node.kubernetes.io/unschedulable`))"
    );
}
