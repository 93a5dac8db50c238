use std::collections::BTreeMap;

use crate::inventory::{MigStrategy, UnattributedPod, sanitised_label};
use crate::plan::node_pool::PoolCards;
use crate::plan::tests::{A100, Cluster};
use crate::plan::{Change, Plan, PoolKind};

const GKE: &[(&str, &str)] = &[
    ("cloud.google.com/gke-nodepool", "gpu-a100"),
    ("cloud.google.com/gke-accelerator", "nvidia-tesla-a100"),
];

const AKS: &[(&str, &str)] =
    &[("kubernetes.azure.com/agentpool", "gpua100"), ("kubernetes.azure.com/accelerator", "nvidia")];

/// Nodes of one card each with a service on each, `s1` on `n1` and so on, in a pool of a cloud without the operator.
fn services(cloud: &[(&str, &str)], peaks: &[u64]) -> Cluster {
    let mut cluster = Cluster::new("p");
    cluster.pool.kind = Some(PoolKind::Elastic);
    cluster.declared.operator.mig_strategy = None;
    for (i, peak) in peaks.iter().enumerate() {
        let node = format!("n{}", i + 1);
        cluster.node(&node, A100, 1);
        cluster.workload(
            &format!("s{}", i + 1),
            &[(&node, 0)],
            *peak,
            if *peak > 20_000 { 0.9 } else { 0.15 },
        );
    }
    for node in &mut cluster.inventory.nodes {
        node.labels = cloud.iter().map(|(key, value)| (sanitised_label(key), (*value).to_owned())).collect();
    }
    cluster
}

/// The new pool: name, profile, slices of a card, whether the old one stays.
fn added(plan: &Plan) -> (&str, &str, u32, bool) {
    let Some(Change::AddNodePool { name, cards, keeps_old, .. }) = plan.changes.first() else {
        panic!("{:#?}", plan.changes)
    };
    let PoolCards::Partition { profile, per_card } = cards else { panic!("{cards:?}") };
    (name, profile, *per_card, *keeps_old)
}

/// The selectors that the plan sets, by workload.
fn pins(plan: &Plan) -> BTreeMap<&str, Vec<String>> {
    let mut pins = BTreeMap::new();
    for change in &plan.changes {
        if let Change::PinWorkload { workload, selector } = change {
            let entries = selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
            pins.insert(workload.name.as_str(), entries);
        }
    }
    pins
}

const SIZE_2G: &str = "cloud.google.com/gke-gpu-partition-size=2g.10gb";

const OLD_GKE: &str = "cloud.google.com/gke-nodepool=gpu-a100";

#[test]
fn gke_gets_a_new_pool_and_pods_select_its_size() {
    let plan = services(GKE, &[7_000; 3]).must_plan();
    assert_eq!(added(&plan), ("gpu-a100-mig-2g", "2g.10gb", 3, false));
    let own = vec![SIZE_2G.to_owned()];
    assert_eq!(pins(&plan), BTreeMap::from([("s1", own.clone()), ("s2", own.clone()), ("s3", own)]));
    assert_eq!((plan.saving.nodes_before, plan.saving.nodes_after), (3, 1));
    assert!(plan.proof.proven);
    assert!(plan.risks.iter().any(|risk| risk.rule == "slice-called-like-a-card"));
    assert!(plan.risks.iter().all(|risk| risk.rule != "mode-switch-resets-node"));
}

#[test]
fn the_old_pool_is_drained_last_and_comes_back_first() {
    let plan = services(GKE, &[7_000; 3]).must_plan();
    let what = |steps: &[crate::plan::Step]| steps.iter().map(|step| step.what.clone()).collect::<Vec<_>>();
    let rollout = what(&plan.rollout);
    assert_eq!(
        rollout.first().unwrap(),
        "Before the workloads change: let the pipeline make the new GKE node pool `gpu-a100-mig-2g`; its file is applied \
         ahead of the others."
    );
    assert_eq!(
        rollout.last().unwrap(),
        "Drain GKE node pool `gpu-a100`, and remove it where it is declared, as a change of its own: no pod with a GPU \
         needs it."
    );
    assert_eq!(
        plan.rollout.last().unwrap().commands,
        [
            "kubectl drain -l cloud.google.com/gke-nodepool=gpu-a100 --ignore-daemonsets --delete-emptydir-data"
        ]
    );
    let back = what(&plan.rollback);
    assert!(back[0].starts_with("Let GKE node pool `gpu-a100` take pods again"), "{back:?}");
    assert!(back[1].contains("`gpu-a100-mig-2g` would go under its pods"), "{back:?}");
    assert!(back[2].starts_with("Revert the merge"), "{back:?}");
}

#[test]
fn who_keeps_a_whole_card_is_bound_to_the_old_pool() {
    let plan = services(GKE, &[7_000, 7_000, 7_000, 38_000]).must_plan();
    assert_eq!(added(&plan), ("gpu-a100-mig-2g", "2g.10gb", 3, true));
    assert_eq!(pins(&plan)["s4"], [OLD_GKE]);
    assert_eq!(pins(&plan)["s1"], [SIZE_2G]);
    assert_eq!((plan.saving.nodes_before, plan.saving.nodes_after), (4, 2));
}

#[test]
fn there_is_no_plan_where_somebody_could_be_given_a_slice_instead_of_a_card() {
    let bare = services(GKE, &[7_000, 7_000, 7_000, 38_000]);
    let mut cluster = bare.clone();
    cluster.declared("s4").editable = Err("a Helm template".into());
    let reason = &cluster.must_not_plan().reasons[0];
    assert_eq!(reason.code, "others-may-meet");
    assert_eq!(
        reason.text,
        "slices of gpu-a100-mig-2g would be called `nvidia.com/gpu` too, and may be given to 1 workload that selects no \
         node pool: search/s4"
    );
    // It selects another pool's label already.
    cluster.declared("s4").node_selector.insert("cloud.google.com/gke-nodepool".into(), "gpu-a100".into());
    assert!(!pins(&cluster.must_plan()).contains_key("s4"));

    let mut cluster = bare.clone();
    let declared = cluster.declared("s4").clone();
    let id = crate::ids::WorkloadId::new("Deployment", "other", "asleep");
    cluster.declared.workloads.insert(id, declared);
    assert_eq!(cluster.must_not_plan().reasons[0].code, "others-may-meet");

    let mut cluster = bare;
    cluster.inventory.unattributed_pods.push(UnattributedPod { pod: "x/y".into(), node: "elsewhere".into() });
    assert_eq!(cluster.must_not_plan().reasons[0].code, "unknown-pods");
}

#[test]
fn a_size_that_the_cloud_does_not_offer_is_not_planned() {
    // The smallest slice for 7,000 MiB and little compute is `1g.10gb`, which GKE does not make of this card.
    let mut cluster = services(GKE, &[7_000; 3]);
    for profile in cluster.measured.profiles.values_mut() {
        profile.compute.as_mut().unwrap().p99 = crate::units::Ratio::from_f64(0.05).unwrap();
    }
    assert_eq!(added(&cluster.must_plan()), ("gpu-a100-mig-2g", "2g.10gb", 3, false));
}

#[test]
fn all_cards_get_one_size_and_who_does_not_fit_it_stays() {
    // Six fit `1g.5gb`, two need `3g.20gb`: seven on one card and two whole cards are fewer than four cards of halves.
    let mut cluster = services(GKE, &[3_000, 3_000, 3_000, 3_000, 3_000, 3_000, 15_000, 15_000]);
    for (id, profile) in &mut cluster.measured.profiles {
        let p99 = if matches!(id.name.as_str(), "s7" | "s8") { 0.25 } else { 0.05 };
        profile.compute.as_mut().unwrap().p99 = crate::units::Ratio::from_f64(p99).unwrap();
    }
    let plan = cluster.must_plan();
    assert_eq!(added(&plan), ("gpu-a100-mig-1g", "1g.5gb", 7, true));
    assert_eq!((plan.saving.nodes_before, plan.saving.nodes_after), (8, 3));
    let kept: Vec<&str> = plan.kept.iter().map(|kept| kept.reasons[0].text.as_str()).collect();
    let why = "all cards of a GKE node pool are cut into slices of one size, and `1g.5gb x7`, which frees the most, \
               does not hold it";
    assert_eq!(kept, [why, why]);
    assert_eq!(pins(&plan)["s7"], [OLD_GKE]);
}

#[test]
fn one_size_that_frees_nothing_is_said() {
    let reasons = services(GKE, &[15_000, 38_000]).must_not_plan().reasons;
    assert_eq!(
        reasons[0].text,
        "with slices of one size on all cards, as a GKE node pool has them, 2 nodes would be needed, and there are 2 today"
    );
}

#[test]
fn on_aks_the_plugins_strategy_decides_what_is_asked_for() {
    let mut cluster = services(AKS, &[7_000; 3]);
    let kept = &cluster.must_not_plan().kept[0];
    assert!(
        kept.fit.considered.iter().any(|c| c.reasons.iter().any(|r| r.code == "mig-strategy-unknown")),
        "{kept:#?}"
    );

    cluster.declared.operator.mig_strategy = Some(MigStrategy::Single);
    let plan = cluster.must_plan();
    assert_eq!(added(&plan), ("gpua100mig2g", "2g.10gb", 3, false));
    assert_eq!(pins(&plan)["s1"], ["kubernetes.azure.com/agentpool=gpua100mig2g"]);
    cluster
        .declared("s1")
        .node_selector
        .insert("nvidia.com/gpu.product".into(), "NVIDIA-A100-SXM4-40GB".into());
    assert_eq!(cluster.must_not_plan().reasons[0].code, "selector-breaks");

    let mut cluster = services(AKS, &[7_000, 7_000, 7_000, 38_000]);
    cluster.declared.operator.mig_strategy = Some(MigStrategy::Mixed);
    cluster.declared("s1").node_selector.insert("agentpool".into(), "gpua100".into());
    let plan = cluster.must_plan();
    // Slices have a name of their own: who stays needs no selector, and who selects the old pool selects the new one.
    assert!(pins(&plan).is_empty());
    let mut asks = None;
    for change in &plan.changes {
        if let Change::SetWorkloadResource { workload, to, pin, .. } = change
            && workload.name == "s1"
        {
            asks = Some((to, pin));
        }
    }
    let pin = BTreeMap::from([("agentpool".to_owned(), "gpua100mig2g".to_owned())]);
    assert_eq!(asks, Some((&"nvidia.com/mig-2g.10gb".to_owned(), &pin)));
}

#[test]
fn a_pool_with_the_operator_or_with_slices_is_left_to_them() {
    for (key, value) in [
        ("nvidia.com/mig.config", "all-disabled"),
        ("nvidia.com/gpu.deploy.device-plugin", "true"),
        ("cloud.google.com/gke-gpu-partition-size", "1g.5gb"),
        ("cloud.google.com/gke-gpu-sharing-strategy", "time-sharing"),
    ] {
        let mut cluster = services(GKE, &[7_000; 3]);
        cluster.inventory.nodes[0].labels.insert(sanitised_label(key), value.into());
        let nothing = cluster.must_not_plan();
        let owned = |kept: &crate::plan::Kept| {
            kept.fit.considered.iter().any(|c| c.reasons.iter().any(|r| r.code == "provider-owned"))
        };
        assert!(nothing.kept.iter().all(owned), "{key}");
    }
}

#[test]
fn a_pool_of_named_nodes_is_told_what_to_set() {
    let mut cluster = services(GKE, &[7_000; 3]);
    cluster.pool.kind = Some(PoolKind::Static);
    let kept = &cluster.must_not_plan().kept[0];
    let advice: Vec<&String> =
        kept.fit.considered.iter().flat_map(|c| &c.reasons).filter_map(|r| r.advice.as_ref()).collect();
    assert!(advice.iter().any(|advice| advice.starts_with("set `kind: elastic` for the pool")), "{advice:?}");
}
