//! What the steps of a rollout and of the way back say.

use super::super::pool::Waves;
use super::*;

/// One node that holds everything: two cards stay whole, two replicas get slices, more may come.
fn one_node(waves: Waves) -> Cluster {
    let mut cluster = Cluster::new("p");
    cluster.pool.goal = Some(Goal::Capacity);
    cluster.pool.waves = Some(waves);
    cluster.node("n1", A100, 8);
    cluster.workload("big", &[("n1", 2), ("n1", 3)], 36_000, 0.9);
    let id = cluster.workload("web", &[("n1", 0), ("n1", 1)], 15_000, 0.25);
    let workload = cluster.inventory.workloads.iter_mut().find(|w| w.id == id).unwrap();
    workload.hpa_max = Some(6);
    cluster
}

#[test]
fn borrowed_nodes_are_given_back_pod_by_pod_once_the_others_have_left() {
    let plan = one_node(Waves::Borrow).must_plan();
    let position = |start: &str| plan.rollout.iter().position(|step| step.what.starts_with(start));
    let (borrow, rolled, back) = (
        position("Borrow 1 node of the same kind, with the pool's labels and taints").unwrap(),
        position("1 workload rolls to slices").unwrap(),
        position("Give back what was borrowed for n1").unwrap(),
    );
    assert!(borrow < rolled && rolled < back, "{:#?}", plan.rollout);
    assert_eq!(
        plan.rollout[back].commands,
        [
            "kubectl cordon <the borrowed node>",
            "kubectl -n search rollout restart deployment/big",
            "kubectl -n search rollout status deployment/big --timeout=15m",
            "kubectl drain <the borrowed node> --ignore-daemonsets --delete-emptydir-data",
        ]
    );
    let cost = plan.rollback[0].cost.as_deref().unwrap();
    assert!(cost.ends_with("to keep everybody up, borrow 1 node first, as before"), "{cost}");
}

#[test]
fn nothing_is_given_back_where_nothing_was_borrowed() {
    let plan = one_node(Waves::AllowDowntime).must_plan();
    assert!(!plan.rollout.iter().any(|step| step.what.contains("orrow")), "{:#?}", plan.rollout);
    let cost = plan.rollback[0].cost.as_deref();
    assert_eq!(cost, Some("every GPU pod on it stops until its whole card is back"));
}

#[test]
fn a_revert_is_possible_after_a_squash() {
    let plan = one_node(Waves::AllowDowntime).must_plan();
    let revert = plan.rollback.iter().find(|step| step.what.starts_with("Revert")).unwrap();
    assert!(revert.on_failure.as_deref().unwrap().contains("without `-m 1`"), "{revert:#?}");
}

#[test]
fn frozen_nodes_and_pods_that_cannot_move_are_told_apart() {
    let mut cluster = notebooks();
    cluster.pool.frozen_nodes = BTreeSet::from(["dev-0".into(), "dev-2".into()]);
    let nothing = cluster.must_not_plan();
    assert_eq!(
        nothing.reasons[0].text,
        "pods that would share run on frozen nodes, which keep them: dev-0, dev-2"
    );
    assert!(nothing.reasons[0].advice.as_deref().unwrap().contains("`frozen_nodes`"), "{nothing:#?}");
}
