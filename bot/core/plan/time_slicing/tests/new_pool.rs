use super::*;
use crate::plan::PoolKind;
use crate::plan::node_pool::PoolCards;

/// Notebooks in a tainted pool of GKE without the operator.
fn of_gke() -> Cluster {
    let mut cluster = notebooks();
    cluster.pool.kind = Some(PoolKind::Elastic);
    for node in &mut cluster.inventory.nodes {
        node.labels = BTreeMap::from([(sanitised_label("cloud.google.com/gke-nodepool"), "dev".into())]);
    }
    cluster
}

#[test]
fn gke_shares_cards_of_a_new_pool_that_pods_select() {
    let plan = of_gke().must_plan();
    let Some(Change::AddNodePool { name, cards, keeps_old, .. }) = plan.changes.first() else {
        panic!("{:#?}", plan.changes)
    };
    let PoolCards::TimeSharing { clients } = cards else { panic!("{cards:?}") };
    assert_eq!((name.as_str(), *keeps_old), (format!("dev-shared-{clients}").as_str(), false));
    let wanted = BTreeMap::from([
        ("cloud.google.com/gke-gpu-sharing-strategy".to_owned(), "time-sharing".to_owned()),
        ("cloud.google.com/gke-max-shared-clients-per-gpu".to_owned(), clients.to_string()),
    ]);
    let bound = selectors(&plan);
    assert_eq!(bound.len(), plan.items.len());
    assert!(bound.values().all(|selector| *selector == wanted), "{bound:?}");
    assert!(plan.saving.nodes_after < plan.saving.nodes_before);
    let first = &plan.rollout.first().unwrap().what;
    assert!(first.contains(&format!("new GKE node pool `{name}`")), "{first}");
    assert!(plan.rollout.last().unwrap().what.starts_with("Drain GKE node pool `dev`"));
}

#[test]
fn nobody_shares_who_cannot_be_bound_to_the_new_pool() {
    let mut cluster = of_gke();
    cluster.declared.workloads.values_mut().next().unwrap().editable = Err("a Helm template".into());
    assert_eq!(cluster.must_not_plan().reasons[0].code, "cannot-pin");
}

#[test]
fn the_selectors_of_a_plan_are_checked() {
    let cluster = of_gke();
    let mut plan = cluster.must_plan();
    let at = plan.changes.iter().position(|change| matches!(change, Change::PinWorkload { .. })).unwrap();
    plan.changes.remove(at);
    let broken = cluster.broken(&plan);
    assert!(broken.iter().any(|text| text.ends_with("and does not select it")), "{broken:?}");
}

#[test]
fn somebody_who_selects_shared_cards_could_come_along() {
    let mut cluster = of_gke();
    let mut declared = cluster.declared.workloads.values().next().unwrap().clone();
    declared.node_selector =
        BTreeMap::from([("cloud.google.com/gke-gpu-sharing-strategy".into(), "time-sharing".into())]);
    let id = crate::ids::WorkloadId::new("Deployment", "other", "shares");
    cluster.declared.workloads.insert(id, declared);
    // Another pool shows the label, so that its absence keeps nobody on the nodes that are there.
    cluster.node("shared", A10G, 1);
    let node = cluster.inventory.nodes.last_mut().unwrap();
    node.labels = BTreeMap::from([
        (sanitised_label("cloud.google.com/gke-nodepool"), "other".into()),
        (sanitised_label("cloud.google.com/gke-gpu-sharing-strategy"), "time-sharing".into()),
    ]);
    cluster.pool.nodes = Some("^dev.*".into());
    let reason = &cluster.must_not_plan().reasons[0];
    assert_eq!(reason.code, "others-may-meet", "{}", reason.text);
}
