//! Pools made by hand, planned and checked.

mod applied;
mod odd_fleets;

mod policy;
mod rollout;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::check::check;
use super::layers::{General, Layers, policies};
use super::pool::{PoolSettings, Price, PriceSettings, pools};
use super::*;
use crate::catalog::{Catalog, CatalogFile};
use crate::fit::Verdict;
use crate::inventory::{
    Card, DeclaredWorkload, MigStrategy, Node, Operator, Pod, PodRequests, Resources, Taint, Workload,
    sanitised_label,
};
use crate::policy::PolicySettings;
use crate::policy::rules::PolicyRule;
use crate::units::Ratio;
use crate::usage::{Compute, ComputeSource, DayPeak, Peak, Window, WorkloadProfile};
use applied::applied;

/// A cluster under construction.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) inventory: Inventory,
    pub(crate) measured: Measured,
    pub(crate) declared: Declared,
    pub(crate) rules: Vec<PolicyRule>,
    pub(crate) pool: PoolSettings,
    pub(crate) pool_defaults: PoolSettings,
}

/// Read once: parsing takes longer than most plans.
static CATALOG: LazyLock<Catalog> = LazyLock::new(read_catalog);

fn catalog() -> Catalog {
    CATALOG.clone()
}

#[expect(clippy::disallowed_methods, reason = "the test reads what the program embeds")]
fn read_catalog() -> Catalog {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/catalog");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    paths.sort();
    let files = paths
        .iter()
        .map(|path| serde_saphyr::from_str::<CatalogFile>(&std::fs::read_to_string(path).unwrap()).unwrap());
    Catalog::merge(files).unwrap()
}

impl Cluster {
    pub(crate) fn new(pool: &str) -> Self {
        Self {
            inventory: Inventory { cluster: "c".into(), ..Inventory::default() },
            measured: Measured::default(),
            declared: Declared {
                operator: Operator {
                    mig_strategy: Some(MigStrategy::Mixed),
                    version: Some("25.10.1".into()),
                    ..Operator::default()
                },
                ..Declared::default()
            },
            rules: Vec::new(),
            pool: PoolSettings {
                name: pool.into(),
                nodes: Some(".*".into()),
                node_per_hour: Some(Price(3_670_000)),
                ..PoolSettings::default()
            },
            pool_defaults: PoolSettings::default(),
        }
    }

    pub(crate) fn node(&mut self, name: &str, model: &str, n_cards: usize) {
        self.inventory.nodes.push(Node {
            name: name.into(),
            cards: (0..n_cards)
                .map(|i| Card {
                    uuid: format!("GPU-{name}-{i}"),
                    model_name: model.into(),
                    driver_version: Some("550.90.07".into()),
                    ..Card::default()
                })
                .collect(),
            labels: BTreeMap::from([(sanitised_label("nvidia.com/mig.config"), "all-disabled".into())]),
            allocatable: Some(Resources {
                cpu_milli: 64_000,
                memory_bytes: 1 << 38,
                ephemeral_bytes: 0,
                pods: 110,
            }),
            requested: Some(Resources::default()),
            ..Node::default()
        });
    }

    /// A Deployment with a pod on each of `places` (node, card), its peak and its compute.
    pub(crate) fn workload(
        &mut self,
        name: &str,
        places: &[(&str, usize)],
        peak_mib: u64,
        sm_p99: f64,
    ) -> WorkloadId {
        let id = WorkloadId::new("Deployment", "search", name);
        let model_name = {
            let node = self.inventory.node(places[0].0).unwrap();
            node.cards[0].model_name.clone()
        };
        let pods: Vec<Pod> = places
            .iter()
            .enumerate()
            .map(|(i, (node, card))| Pod {
                name: format!("{name}-{i}"),
                node: (*node).into(),
                cards: vec![format!("GPU-{node}-{card}")],
                slices: Vec::new(),
                requests: Some(PodRequests { cpu_milli: 2_000, memory_bytes: 1 << 33, ephemeral_bytes: 0 }),
            })
            .collect();
        for pod in &pods {
            let node = self.inventory.nodes.iter_mut().find(|node| node.name == pod.node).unwrap();
            node.requested = node.requested.map(|sum| sum.plus(pod.requests.unwrap().into()));
        }
        let day = jiff::civil::date(2026, 1, 14);
        self.measured.profiles.insert(
            id.clone(),
            WorkloadProfile {
                workload: id.clone(),
                model_name,
                slice: None,
                window: Window { first: day, last: day, asked_days: 30, had_days: 30 },
                peak: Some(Peak {
                    memory: Mib(peak_mib),
                    pod: pods[0].name.clone(),
                    card: pods[0].cards[0].clone(),
                    day,
                }),
                daily_peaks: vec![DayPeak { day, memory: Mib(peak_mib) }],
                typical: Some(Mib(peak_mib)),
                compute: Some(Compute {
                    p99: Ratio::from_f64(sm_p99).unwrap(),
                    source: ComputeSource::SmActive,
                    day,
                }),
                bandwidth_p99: None,
                kernel_width_p95: Ratio::from_f64(0.2),
                media_engines_used: Some(false),
                history_days: 30,
                coverage: Some(Ratio::ONE),
                samples: 8_640,
                complete_runs: 0,
                gpus_per_pod: 1,
                pods_seen: 1,
                reservation: None,
                gaps: Vec::new(),
            },
        );
        self.declared.workloads.insert(
            id.clone(),
            DeclaredWorkload {
                place: format!("apps/{name}.yaml:20"),
                editable: Ok(()),
                max_surge: Some(0),
                replicas: Some(u32::try_from(places.len()).unwrap()),
                ignored: false,
                labels: BTreeMap::new(),
                node_selector: BTreeMap::new(),
                tolerations: BTreeSet::from(["dedicated".into()]),
                pinned: None,
                memory_flags: Vec::new(),
            },
        );
        self.inventory.workloads.push(Workload {
            id: id.clone(),
            gpus_per_pod: 1,
            resource: "nvidia.com/gpu".into(),
            containers: BTreeSet::from(["main".into()]),
            replicas: u32::try_from(places.len()).unwrap(),
            hpa_max: None,
            max_surge: Some(0),
            pods,
            namespace_labels: BTreeMap::new(),
        });
        id
    }

    pub(crate) fn ask<T>(&self, ask: impl FnOnce(&Request<'_>) -> T) -> T {
        self.with_catalog(&CATALOG, ask)
    }

    pub(crate) fn with_catalog<T>(&self, catalog: &Catalog, ask: impl FnOnce(&Request<'_>) -> T) -> T {
        let none = PolicySettings::default();
        let (nothing, defaults) = (PoolSettings::default(), &self.pool_defaults);
        let layers = Layers {
            cluster: &self.inventory.cluster,
            service: General { policy: &none, rules: &self.rules, pool_defaults: defaults },
            of_cluster: General { policy: &none, rules: &[], pool_defaults: &nothing },
            pools: std::slice::from_ref(&self.pool),
        };
        let pools = pools(&self.inventory, &layers, &PriceSettings::default()).unwrap();
        let policies = policies(&self.inventory, &self.declared, &pools, &layers);
        ask(&Request {
            pool: &pools[0],
            inventory: &self.inventory,
            measured: &self.measured,
            declared: &self.declared,
            catalog,
            policies: &policies,
        })
    }

    pub(crate) fn plan(&self) -> Outcome {
        self.plan_with(&CATALOG)
    }

    fn plan_with(&self, catalog: &Catalog) -> Outcome {
        self.with_catalog(catalog, |request| {
            let outcome = plan(request);
            if let Outcome::Plan(plan) = &outcome {
                assert_eq!(check(request, plan), Vec::<String>::new(), "{plan:#?}");
            }
            outcome
        })
    }

    /// The rules that a plan breaks in this cluster.
    pub(crate) fn broken(&self, plan: &Plan) -> Vec<String> {
        self.ask(|request| check(request, plan))
    }

    pub(crate) fn declared(&mut self, name: &str) -> &mut DeclaredWorkload {
        self.declared.workloads.iter_mut().find(|(id, _)| id.name == name).unwrap().1
    }

    pub(crate) fn must_plan(&self) -> Plan {
        match self.plan() {
            Outcome::Plan(plan) => *plan,
            Outcome::Nothing(nothing) => panic!("{nothing:#?}"),
        }
    }

    pub(crate) fn must_not_plan(&self) -> Nothing {
        match self.plan() {
            Outcome::Nothing(nothing) => nothing,
            Outcome::Plan(plan) => panic!("{plan:#?}"),
        }
    }
}

pub(crate) const A100: &str = "NVIDIA A100-SXM4-40GB";

pub(crate) fn three_services() -> Cluster {
    let mut cluster = Cluster::new("a100-40gb");
    for node in ["gpu-07", "gpu-08", "gpu-09"] {
        cluster.node(node, A100, 1);
    }
    cluster.workload("embed-svc", &[("gpu-07", 0)], 7_578, 0.17);
    cluster.workload("classify-svc", &[("gpu-08", 0)], 7_066, 0.14);
    cluster.workload("ocr-svc", &[("gpu-09", 0)], 7_987, 0.19);
    cluster
}

pub(crate) fn labels_of(plan: &Plan) -> Vec<(String, String)> {
    risk::labels(plan)
        .flat_map(|(_, value, nodes)| nodes.keys().map(move |node| (node.clone(), value.to_owned())))
        .collect()
}

#[test]
fn three_services_share_the_first_card_by_the_operators_own_config() {
    let plan = three_services().must_plan();
    assert_eq!(labels_of(&plan), [("gpu-07".to_owned(), "all-2g.10gb".to_owned())]);
    assert_eq!(plan.saving.nodes_freed, ["gpu-08", "gpu-09"]);
    assert_eq!((plan.saving.cards_freed, plan.proof.n_cards, plan.proof.proven), (2, 1, true));
    assert_eq!(plan.saving.per_month.as_ref().unwrap().to_string(), "$5,358");
    assert_eq!(plan.changes.len(), 4, "{:#?}", plan.changes);
    assert!(plan.items.iter().all(|item| item.share == "2g.10gb"));
}

#[test]
fn a_workload_that_cannot_be_edited_keeps_its_card() {
    let mut cluster = three_services();
    let id = WorkloadId::new("Deployment", "search", "ocr-svc");
    cluster.declared.workloads.get_mut(&id).unwrap().editable = Err("a Helm template".into());
    let plan = cluster.must_plan();
    assert_eq!(plan.saving.nodes_freed.len(), 1);
    assert_eq!(plan.kept[0].reasons[0].code, "cannot-edit");
}

#[test]
fn a_mixed_layout_gets_a_config_of_its_own_with_a_hash() {
    let mut cluster = Cluster::new("a100 40gb");
    cluster.node("n1", A100, 1);
    cluster.node("n2", A100, 1);
    cluster.workload("small", &[("n1", 0)], 3_000, 0.05);
    cluster.workload("large", &[("n2", 0)], 15_000, 0.2);
    let plan = cluster.must_plan();
    let Some(Change::SetMigConfig { name, entries, names_in_use }) = plan.changes.first() else {
        panic!("{:#?}", plan.changes)
    };
    assert!(name.starts_with("a100-40gb-") && name.len() == "a100-40gb-".len() + 8, "{name}");
    assert_eq!(names_in_use, &["all-disabled"]);
    assert_eq!(entries.len(), 1);
}

#[test]
fn replicas_that_were_apart_stay_apart() {
    let mut cluster = Cluster::new("p");
    for node in ["n1", "n2", "n3", "n4"] {
        cluster.node(node, A100, 1);
    }
    cluster.workload("a", &[("n1", 0), ("n2", 0)], 7_000, 0.1);
    cluster.workload("b", &[("n3", 0), ("n4", 0)], 7_000, 0.1);
    let plan = cluster.must_plan();
    for item in &plan.items {
        assert_eq!(item.nodes_after.len(), 2, "{item:#?}");
    }
    assert_eq!(plan.saving.nodes_freed.len(), 2);
}

#[test]
fn cards_are_freed_on_a_node_that_stays_when_capacity_is_the_goal() {
    let mut cluster = Cluster::new("p");
    cluster.pool.goal = Some(Goal::Capacity);
    cluster.node("n1", A100, 4);
    for i in 0..3 {
        cluster.workload(&format!("s{i}"), &[("n1", i)], 4_000, 0.05);
    }
    cluster.workload("big", &[("n1", 3)], 30_000, 0.9);
    let plan = cluster.must_plan();
    assert_eq!((plan.saving.cards_freed, plan.saving.nodes_freed.len()), (2, 0));
    assert!(plan.saving.per_month.is_none());
}

#[test]
fn a_node_of_several_gpu_pods_is_never_touched() {
    let mut cluster = three_services();
    cluster.node("gpu-01", A100, 2);
    let id = cluster.workload("train", &[("gpu-01", 0)], 38_000, 0.9);
    let workload = cluster.inventory.workloads.iter_mut().find(|w| w.id == id).unwrap();
    workload.gpus_per_pod = 2;
    workload.pods[0].cards.push("GPU-gpu-01-1".into());
    let plan = cluster.must_plan();
    let node = plan.nodes.iter().find(|node| node.name == "gpu-01").unwrap();
    assert_eq!(node.fate, NodeFate::Untouched);
    assert_eq!(plan.kept[0].reasons[0].code, "several-gpus");
}

#[test]
fn memory_on_a_card_that_nobody_holds_keeps_the_node_out() {
    let mut cluster = three_services();
    cluster.node("gpu-06", A100, 2);
    cluster.workload("other", &[("gpu-06", 0)], 7_000, 0.1);
    let node = cluster.inventory.nodes.iter_mut().find(|node| node.name == "gpu-06").unwrap();
    node.cards[1].used_now = Some(Mib(9_000));
    let plan = cluster.must_plan();
    assert!(plan.notes[0].contains("gpu-06 is left out: 9,000 MiB are in use"), "{:?}", plan.notes);
    assert!(plan.nodes.iter().any(|node| node.name == "gpu-06" && node.fate == NodeFate::Untouched));
}

#[test]
fn a_pod_without_an_owner_keeps_its_node_out() {
    let mut cluster = three_services();
    cluster.inventory.unattributed_pods =
        vec![crate::inventory::UnattributedPod { pod: "x/y".into(), node: "gpu-07".into() }];
    let plan = cluster.must_plan();
    assert!(plan.nodes.iter().any(|node| node.name == "gpu-07" && node.fate == NodeFate::Untouched));
    assert_eq!(plan.saving.nodes_freed, ["gpu-09"]);
}

#[test]
fn without_room_no_pod_is_moved() {
    let mut cluster = three_services();
    for node in &mut cluster.inventory.nodes {
        node.allocatable.as_mut().unwrap().cpu_milli = 3_000;
    }
    cluster.must_not_plan();
    for node in &mut cluster.inventory.nodes {
        node.allocatable = None;
    }
    cluster.must_not_plan();
}

#[test]
fn nobody_comes_to_a_node_with_a_pod_of_unknown_needs() {
    let mut cluster = three_services();
    cluster.inventory.workloads[0].pods[0].requests = None;
    // `embed-svc` stays on gpu-07, and the two others go together without it.
    let plan = cluster.must_plan();
    assert_eq!(plan.saving.nodes_freed, ["gpu-09"]);
    cluster.inventory.workloads[1].pods[0].requests = None;
    cluster.must_not_plan();
}

#[test]
fn strategy_single_is_never_flipped() {
    let mut cluster = three_services();
    cluster.declared.operator.mig_strategy = Some(MigStrategy::Single);
    let nothing = cluster.must_not_plan();
    assert_eq!(nothing.kept[0].reasons[0].code, "mig-strategy-single");
}

#[test]
fn a_workload_that_decodes_video_gets_the_profile_with_a_decoder_and_nobody_else_does() {
    let mut cluster = Cluster::new("a100-40gb");
    cluster.node("n1", A100, 1);
    cluster.node("n2", A100, 1);
    let video = cluster.workload("video", &[("n1", 0)], 3_000, 0.05);
    cluster.workload("text", &[("n2", 0)], 3_000, 0.05);
    cluster.measured.profiles.get_mut(&video).unwrap().media_engines_used = Some(true);
    let plan = cluster.must_plan();
    let asks = |wanted: &str, resource: &str| {
        plan.changes.iter().any(|change| {
            matches!(change, Change::SetWorkloadResource { workload, to, .. }
                if workload.name == wanted && to == resource)
        })
    };
    assert!(asks("video", "nvidia.com/mig-1g.5gb.me"));
    assert!(asks("text", "nvidia.com/mig-1g.5gb"));
}

#[test]
fn a_driver_that_cannot_mix_slices_and_whole_cards_is_not_given_such_a_node() {
    let mut cluster = Cluster::new("b200");
    cluster.node("n1", "NVIDIA B200", 2);
    cluster.node("n2", "NVIDIA B200", 1);
    cluster.workload("large", &[("n1", 0)], 150_000, 0.9);
    cluster.workload("small", &[("n1", 1)], 8_000, 0.05);
    cluster.workload("tiny", &[("n2", 0)], 8_000, 0.05);
    let with_driver = |cluster: &mut Cluster, version: &str| {
        for card in cluster.inventory.nodes.iter_mut().flat_map(|node| &mut node.cards) {
            card.driver_version = Some(version.into());
        }
    };
    with_driver(&mut cluster, "570.172.08");
    assert_eq!(cluster.must_plan().saving.nodes_freed, ["n2"]);
    with_driver(&mut cluster, "570.133.20");
    let reason = cluster.must_not_plan().reasons.remove(0);
    assert_eq!(reason.code, "driver-defect");
    assert!(
        reason.text.starts_with("n1 would hold both, and driver 570.133.20 on n1, n2"),
        "{}",
        reason.text
    );
}

#[test]
fn pods_ask_for_slices_by_the_names_that_the_cluster_prints() {
    let mut model = catalog().find("gb200-186gb").unwrap().clone();
    model.sm_total = Some(152);
    let catalog = catalog().with_overrides(vec![model]).unwrap();
    let mut cluster = Cluster::new("gb200");
    for node in ["n1", "n2"] {
        cluster.node(node, "NVIDIA GB200", 1);
        cluster.workload(&format!("on-{node}"), &[(node, 0)], 8_000, 0.05);
    }
    for node in &mut cluster.inventory.nodes {
        node.cards[0].driver_version = Some("570.172.08".into());
    }
    let Outcome::Nothing(nothing) = cluster.plan_with(&catalog) else { panic!("no name is known") };
    assert_eq!(nothing.kept[0].reasons[0].code, "profile-names-unknown");
    for node in &mut cluster.inventory.nodes {
        node.labels.insert(sanitised_label("nvidia.com/mig-1g.24gb.count"), "7".into());
    }
    let Outcome::Plan(plan) = cluster.plan_with(&catalog) else { panic!("the names are known") };
    assert!(plan.items.iter().all(|item| item.share == "1g.24gb"));
    for change in &plan.changes {
        match change {
            Change::SetWorkloadResource { to, .. } => assert_eq!(to, "nvidia.com/mig-1g.24gb"),
            Change::SetMigConfig { entries, .. } => assert!(entries[0].instances.contains_key("1g.24gb")),
            Change::LabelNodes { .. }
            | Change::LabelGroup { .. }
            | Change::AddNodePool { .. }
            | Change::SetPluginConfig { .. }
            | Change::PinWorkload { .. } => {}
        }
    }
}

#[test]
fn slices_are_judged_under_the_names_that_the_cluster_prints() {
    let mut cluster = Cluster::new("gb200");
    cluster.node("n1", "NVIDIA GB200", 1);
    let id = cluster.workload("ranker", &[("n1", 0)], 46_000, 0.0);
    let node = &mut cluster.inventory.nodes[0];
    node.cards[0].driver_version = Some("570.172.08".into());
    node.gpu_allocatable.insert("nvidia_com_mig_1g_24gb".into(), 1);
    let profile = cluster.measured.profiles.get_mut(&id).unwrap();
    (profile.slice, profile.compute) = (Some("2g.47gb".into()), None);
    cluster.inventory.workloads[0].resource = "nvidia.com/mig-2g.47gb".into();
    let nothing = cluster.must_not_plan();
    assert_eq!(nothing.kept[0].fit.verdict, Verdict::Mig { profile: "3g.95gb".into() });
}

#[test]
fn what_the_ground_warns_of_stands_in_the_plan() {
    let mut cluster = three_services();
    let labels = &mut cluster.inventory.nodes[0].labels;
    labels.insert(sanitised_label("nvidia.com/gpu.deploy.driver"), "pre-installed".into());
    let plan = cluster.must_plan();
    assert!(plan.notes.iter().any(|note| note.starts_with("the driver is installed on the host of gpu-07")));
}

pub(crate) fn notebooks() -> Cluster {
    let mut cluster = Cluster::new("ml-dev");
    for (i, peak) in [4_198, 4_404, 4_608, 4_710].into_iter().enumerate() {
        let node = format!("dev-{i}");
        cluster.node(&node, "NVIDIA A10G", 1);
        cluster.workload(&format!("nb-{i}"), &[(&node, 0)], peak, 0.11);
    }
    for node in &mut cluster.inventory.nodes {
        node.taints =
            vec![Taint { key: "dedicated".into(), value: "ml-dev".into(), effect: "NoSchedule".into() }];
    }
    cluster.rules.push(PolicyRule {
        namespaces: vec!["search".into()],
        set: PolicySettings { production: Some(false), ..PolicySettings::default() },
        ..PolicyRule::default()
    });
    cluster
}

#[test]
fn four_notebooks_take_turns_on_the_first_node() {
    let plan = notebooks().must_plan();
    assert_eq!(labels_of(&plan), [("dev-0".to_owned(), "a10g-x4".to_owned())]);
    assert_eq!(plan.saving.nodes_freed, ["dev-1", "dev-2", "dev-3"]);
    assert!(plan.proof.sentences[0].contains("17,920 MiB"), "{:?}", plan.proof.sentences);
    assert!(plan.proof.sentences[0].contains("18,422 MiB"), "{:?}", plan.proof.sentences);
    assert!(plan.risks.iter().any(|risk| risk.rule == "no-memory-isolation"));
}

#[test]
fn production_never_takes_turns() {
    let mut cluster = notebooks();
    cluster.rules.clear();
    let nothing = cluster.must_not_plan();
    assert!(nothing.kept.iter().all(|kept| kept.reasons[0].text.contains("production")), "{nothing:#?}");
}

#[test]
fn without_a_taint_time_slicing_has_no_proof() {
    let mut cluster = notebooks();
    // The first node may not be shared then, and the others may.
    cluster.inventory.nodes[0].taints.clear();
    assert_eq!(labels_of(&cluster.must_plan()), [("dev-1".to_owned(), "a10g-x4".to_owned())]);
    cluster.inventory.nodes.iter_mut().for_each(|node| node.taints.clear());
    assert_eq!(cluster.must_not_plan().reasons[0].code, "no-taint");
}

#[test]
fn an_elastic_group_gets_one_layout_and_a_label_on_the_group() {
    let mut cluster = three_services();
    cluster.pool.kind = Some(PoolKind::Elastic);
    let plan = cluster.must_plan();
    assert!(plan.changes.iter().any(|change| matches!(
        change,
        Change::LabelGroup { value, beside: false, .. } if value == "all-2g.10gb"
    )));
    assert_eq!((plan.saving.nodes_before, plan.saving.nodes_after), (3, 1));
}

#[test]
fn the_order_of_the_input_does_not_change_the_plan() {
    let forward = three_services().must_plan();
    let mut cluster = three_services();
    cluster.inventory.workloads.reverse();
    cluster.inventory.nodes.reverse();
    let backward = cluster.must_plan();
    assert_eq!(forward.fingerprint, backward.fingerprint);
}

#[test]
fn noise_in_the_peaks_keeps_the_fingerprint() {
    let before = three_services().must_plan();
    let mut cluster = three_services();
    for profile in cluster.measured.profiles.values_mut() {
        profile.peak.as_mut().unwrap().memory.0 += 13;
    }
    assert_eq!(before.fingerprint, cluster.must_plan().fingerprint);
}

#[test]
fn cards_that_an_autoscaler_may_add_count_today_as_well() {
    let mut cluster = Cluster::new("p");
    cluster.pool.goal = Some(Goal::Capacity);
    cluster.pool.waves = Some(super::pool::Waves::AllowDowntime);
    cluster.node("n1", A100, 8);
    let id = cluster.workload("web", &[("n1", 0), ("n1", 1)], 15_000, 0.25);
    let workload = cluster.inventory.workloads.iter_mut().find(|w| w.id == id).unwrap();
    workload.hpa_max = Some(6);
    let plan = cluster.must_plan();
    let saving = &plan.saving;
    // Two cards now, six at the maximum; six 3g.20gb take three.
    assert_eq!((saving.cards_in_use_before, saving.cards_of_autoscalers), (6, 4));
    assert_eq!((saving.cards_in_use_after, saving.cards_freed), (3, 3));
}

pub(crate) fn taint(key: &str, effect: &str) -> Taint {
    Taint { key: key.into(), value: "x".into(), effect: effect.into() }
}

#[test]
fn pods_are_not_sent_to_nodes_whose_taint_they_do_not_tolerate() {
    let mut cluster = three_services();
    cluster.inventory.nodes[0].taints = vec![taint("team", "NoSchedule")];
    let plan = cluster.must_plan();
    // The first node repels the two others, so that the second is kept.
    assert_eq!(plan.saving.nodes_freed, ["gpu-07", "gpu-09"]);
    for name in ["classify-svc", "embed-svc", "ocr-svc"] {
        cluster.declared(name).tolerations.insert("team=x".into());
    }
    assert_eq!(cluster.must_plan().saving.nodes_freed, ["gpu-08", "gpu-09"]);
}

#[test]
fn pods_with_affinity_or_an_unknown_selector_stay_on_their_node() {
    let mut cluster = three_services();
    cluster.declared("ocr-svc").pinned = Some("required node affinity (`a.yaml:9`)".into());
    cluster.declared("classify-svc").node_selector.insert("disk".into(), "nvme".into());
    // Only the third may move.
    assert_eq!(cluster.must_plan().saving.nodes_freed, ["gpu-07"]);
    cluster.declared("embed-svc").pinned = Some("topology spread (`b.yaml:9`)".into());
    cluster.must_not_plan();
}

#[test]
fn a_cordoned_node_is_no_target() {
    let mut cluster = three_services();
    cluster.inventory.nodes[0].taints = vec![taint("node.kubernetes.io/unschedulable", "NoSchedule")];
    let plan = cluster.must_plan();
    assert_eq!(plan.saving.nodes_freed, ["gpu-09"]);
    assert!(plan.notes[0].contains("cordoned"), "{:?}", plan.notes);
}

#[test]
fn a_slice_that_the_driver_does_not_know_yet_is_not_offered() {
    let mut cluster = three_services();
    for card in cluster.inventory.nodes.iter_mut().flat_map(|node| &mut node.cards) {
        card.driver_version = Some("470.57.02".into());
    }
    let plan = cluster.must_plan();
    let small = plan.items[0].fit.considered.iter().find(|candidate| candidate.name == "1g.10gb").unwrap();
    assert!(small.reasons.iter().any(|reason| reason.code == "driver-too-old"), "{small:#?}");
    for card in cluster.inventory.nodes.iter_mut().flat_map(|node| &mut node.cards) {
        card.driver_version = None;
    }
    assert_eq!(cluster.must_not_plan().kept[0].reasons[0].code, "driver-unknown");
}

#[test]
fn a_part_of_the_operator_that_does_not_run_gets_no_labels() {
    let mut cluster = three_services();
    cluster.declared.operator.mig_manager_off = Some("`migManager.enabled` is `false` in `a.yaml:2`".into());
    let reason = cluster.must_not_plan().kept[0].reasons[0].clone();
    assert_eq!(reason.code, "operator-part-off");
    assert!(reason.text.contains("a.yaml:2"), "{}", reason.text);
}

#[test]
fn workloads_that_sleep_are_named_as_a_risk() {
    let mut cluster = three_services();
    let asleep = cluster.workload("batch-svc", &[("gpu-07", 0)], 7_000, 0.1);
    cluster.inventory.workloads.iter_mut().find(|w| w.id == asleep).unwrap().pods.clear();
    let plan = cluster.must_plan();
    let risk = plan.risks.iter().find(|risk| risk.rule == "not-running-now").unwrap();
    assert!(risk.text.ends_with("do not run now: search/batch-svc"), "{}", risk.text);
}

#[test]
fn strategy_that_differs_between_repository_and_nodes_is_waited_for() {
    let mut cluster = three_services();
    let label = sanitised_label("nvidia.com/mig.strategy");
    cluster.inventory.nodes[1].labels.insert(label, "single".into());
    assert_eq!(cluster.must_not_plan().kept[0].reasons[0].code, "mig-strategy-differs");

    // A node that is cut already may have a config of its own, and is left as it is.
    let mut cluster = three_services();
    let model = cluster.inventory.nodes[0].cards[0].model_name.clone();
    cluster.node("gpu-99", &model, 1);
    let cut = cluster.inventory.nodes.last_mut().unwrap();
    cut.cards[0].slices = vec![crate::inventory::Slice { id: "1".into(), ..Default::default() }];
    cut.labels.insert(sanitised_label("nvidia.com/mig.strategy"), "single".into());
    assert_eq!(cluster.must_plan().saving.nodes_freed.len(), 2);
}

#[test]
fn memory_that_never_reads_anything_is_no_evidence() {
    let mut cluster = three_services();
    for profile in cluster.measured.profiles.values_mut() {
        profile.peak.as_mut().unwrap().memory = Mib(0);
    }
    assert_eq!(cluster.must_not_plan().kept[0].reasons[0].code, "memory-reads-nothing");
}

#[test]
fn an_operators_name_in_a_custom_map_is_not_trusted() {
    let mut cluster = three_services();
    cluster.declared.operator.mig_config_map = Some("custom-mig".into());
    cluster.declared.operator.mig_config_names = BTreeSet::from(["all-2g.10gb".into()]);
    let plan = cluster.must_plan();
    assert!(matches!(plan.changes[0], Change::SetMigConfig { .. }), "{:#?}", plan.changes);
}

#[test]
fn a_bare_pod_on_the_pool_stops_time_slicing() {
    let mut cluster = notebooks();
    cluster.inventory.workloads[1].id.kind = "Pod".into();
    let (old, new) =
        (WorkloadId::new("Deployment", "search", "nb-1"), WorkloadId::new("Pod", "search", "nb-1"));
    let profile = cluster.measured.profiles.remove(&old).unwrap();
    cluster.measured.profiles.insert(new.clone(), WorkloadProfile { workload: new, ..profile });
    let nothing = cluster.must_not_plan();
    let reason = nothing.reasons.iter().find(|reason| reason.code == "must-not-move").unwrap();
    assert_eq!(reason.text, "a pod that nothing makes anew, or that runs to an end, runs on dev-1");
}

#[test]
fn a_taint_that_comes_and_goes_keeps_nobody_off() {
    let mut cluster = notebooks();
    for (key, effect, code) in [
        ("node.kubernetes.io/unschedulable", "NoSchedule", "node-not-plain"),
        ("dedicated", "PreferNoSchedule", "no-taint"),
    ] {
        for node in &mut cluster.inventory.nodes {
            node.taints = vec![taint(key, effect)];
        }
        assert_eq!(cluster.must_not_plan().reasons[0].code, code);
    }
}

#[test]
fn a_stranger_who_tolerates_the_taint_stops_time_slicing() {
    let mut cluster = notebooks();
    cluster.node("other", A100, 1);
    cluster.pool.nodes = Some("dev-.*".into());
    cluster.workload("llm", &[("other", 0)], 30_000, 0.5);
    let nothing = cluster.must_not_plan();
    assert!(nothing.reasons.iter().any(|reason| reason.code == "strangers-may-come"), "{nothing:#?}");
    cluster.declared("llm").tolerations.clear();
    assert_eq!(cluster.must_plan().saving.nodes_freed.len(), 3);
}

/// Fleets by MIG of several shapes.
fn fleets() -> Vec<Cluster> {
    let mut mixed = Cluster::new("mixed");
    for node in ["n1", "n2", "n3", "n4"] {
        mixed.node(node, A100, 2);
    }
    for (i, (peak, sm)) in
        [(3_000, 0.05), (15_000, 0.2), (7_000, 0.1), (30_000, 0.9), (4_000, 0.3), (2_000, 0.02)]
            .iter()
            .enumerate()
    {
        mixed.workload(&format!("s{i}"), &[(&format!("n{}", i / 2 + 1), i % 2)], *peak, *sm);
    }
    mixed.workload("twice", &[("n4", 0), ("n4", 1)], 6_000, 0.1);
    let mut surging = three_services();
    for workload in &mut surging.inventory.workloads {
        workload.max_surge = Some(1);
    }
    let mut capacity = Cluster::new("p");
    capacity.pool.goal = Some(Goal::Capacity);
    capacity.node("n1", A100, 4);
    for i in 0..3 {
        capacity.workload(&format!("s{i}"), &[("n1", i)], 4_000, 0.05);
    }
    capacity.workload("big", &[("n1", 3)], 30_000, 0.9);
    vec![three_services(), mixed, surging, capacity]
}

#[test]
fn a_plan_that_came_true_is_not_planned_again() {
    for cluster in fleets() {
        let plan = cluster.must_plan();
        let then = applied(&cluster, &plan);
        let nothing = then.must_not_plan();
        for kept in &nothing.kept {
            assert!(
                !matches!(kept.fit.verdict, Verdict::Mig { .. }) || kept.fit.holds == fit::Holds::Whole,
                "{kept:#?}"
            );
        }
    }
}

#[test]
fn a_slice_that_is_too_small_grows_into_what_is_free() {
    let cluster = three_services();
    let mut then = applied(&cluster, &cluster.must_plan());
    let id = WorkloadId::new("Deployment", "search", "embed-svc");
    then.node("gpu-10", A100, 1);
    then.workload("other", &[("gpu-10", 0)], 3_000, 0.05);
    let profile = then.measured.profiles.get_mut(&id).unwrap();
    profile.peak.as_mut().unwrap().memory = Mib(9_700);
    let plan = then.must_plan();
    let item = plan.items.iter().find(|item| item.fit.workload == id).unwrap();
    assert_eq!(item.share, "3g.20gb");
    let asks = plan.changes.iter().any(|change| {
        matches!(change, Change::SetWorkloadResource { workload, from, to, .. }
            if *workload == id && from == "nvidia.com/mig-2g.10gb" && to == "nvidia.com/mig-3g.20gb")
    });
    assert!(asks, "{:#?}", plan.changes);
}

#[test]
fn a_node_that_is_cut_already_is_waited_for_by_its_state_first() {
    let cluster = three_services();
    let mut then = applied(&cluster, &cluster.must_plan());
    let id = WorkloadId::new("Deployment", "search", "embed-svc");
    then.node("gpu-10", A100, 1);
    then.workload("other", &[("gpu-10", 0)], 3_000, 0.05);
    then.measured.profiles.get_mut(&id).unwrap().peak.as_mut().unwrap().memory = Mib(9_700);
    let plan = then.must_plan();
    let step = plan.rollout.iter().find(|step| step.what.starts_with("Wait for the slices on gpu-07"));
    if let Some(step) = step {
        assert!(step.commands[0].contains("mig\\.config\\.state}'=pending --timeout=5m"), "{step:#?}");
    }
    let back = plan.rollback.iter().find(|step| step.what.starts_with("Wait until gpu-07"));
    if let Some(back) = back {
        assert!(back.commands[0].contains("mig-2g\\.10gb}'=3"), "{back:#?}");
    }
    assert!(
        step.is_some()
            || plan.nodes.iter().all(|node| node.name != "gpu-07" || node.fate == NodeFate::Untouched)
    );
}

#[test]
fn a_slice_below_the_minimum_that_policy_sets_grows_even_where_nothing_is_freed() {
    let cluster = three_services();
    let mut then = applied(&cluster, &cluster.must_plan());
    then.rules.push(PolicyRule {
        workloads: vec!["search/embed-svc".into()],
        set: PolicySettings { min_profile: Some("3g.20gb".into()), ..PolicySettings::default() },
        ..PolicyRule::default()
    });
    let plan = then.must_plan();
    assert_eq!(plan.items[0].share, "3g.20gb");
    assert_eq!((plan.saving.cards_freed, plan.items.len()), (0, 1));
}

#[test]
fn what_is_said_of_those_who_may_meet_does_not_hang_on_the_order() {
    let mut cluster = notebooks();
    for name in ["llm-a", "llm-b"] {
        cluster.node(name, "NVIDIA A10G", 1);
        let id = cluster.workload(name, &[(name, 0)], 20_000, 0.9);
        cluster.rules.push(PolicyRule {
            workloads: vec![id.to_string()],
            set: PolicySettings { production: Some(true), ..PolicySettings::default() },
            ..PolicyRule::default()
        });
    }
    let forward = cluster.plan();
    cluster.inventory.nodes.reverse();
    cluster.inventory.workloads.reverse();
    assert_eq!(forward, cluster.plan());
}

#[test]
fn four_small_workloads_that_decode_video_share_one_card() {
    let mut cluster = Cluster::new("a100-40gb");
    for i in 0..4 {
        let node = format!("n{i}");
        cluster.node(&node, A100, 1);
        let id = cluster.workload(&format!("video-{i}"), &[(&node, 0)], 3_000, 0.05);
        cluster.measured.profiles.get_mut(&id).unwrap().media_engines_used = Some(true);
    }
    let plan = cluster.must_plan();
    assert_eq!(
        plan.saving.nodes_freed.len(),
        3,
        "{:#?}",
        plan.items.iter().map(|i| &i.share).collect::<Vec<_>>()
    );
}
