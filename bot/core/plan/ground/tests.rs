//! Nodes made by hand, and what may be planned on them.

use std::collections::BTreeMap;

use super::*;
use crate::catalog::tests::{catalog, name};
use crate::ids::WorkloadId;
use crate::inventory::{
    Card, Declared, Inventory, MigStrategy, Operator, Pod, Slice, Workload, sanitised_label,
};
use crate::plan::layers::{General, Layers};
use crate::plan::pool::{PoolSettings, PriceSettings, pools};
use crate::policy::PolicySettings;
use crate::usage::Measured;

/// A pool of nodes with one card each, under an operator that allows MIG.
struct Pool {
    inventory: Inventory,
    declared: Declared,
}

const A100: &str = "NVIDIA A100-SXM4-40GB";

impl Pool {
    fn new(model: &str, driver: &str) -> Self {
        let operator = Operator {
            mig_strategy: Some(MigStrategy::Mixed),
            version: Some("26.7.0".into()),
            declared_in_repository: true,
            ..Operator::default()
        };
        let mut pool = Self {
            inventory: Inventory { cluster: "c".into(), ..Inventory::default() },
            declared: Declared { operator, ..Declared::default() },
        };
        pool.node("n1", model, driver);
        pool
    }

    fn node(&mut self, name: &str, model: &str, driver: &str) {
        let card = Card {
            uuid: format!("GPU-{name}"),
            model_name: model.into(),
            driver_version: Some(driver.into()),
            ..Card::default()
        };
        self.inventory.nodes.push(Node { name: name.into(), cards: vec![card], ..Node::default() });
    }

    fn first(&mut self) -> &mut Node {
        &mut self.inventory.nodes[0]
    }

    fn label(&mut self, key: &str, value: &str) {
        self.first().labels.insert(sanitised_label(key), value.into());
    }

    fn ground(&self) -> Ground {
        let settings = PoolSettings { name: "p".into(), nodes: Some(".*".into()), ..PoolSettings::default() };
        let (nothing, none) = (PoolSettings::default(), PolicySettings::default());
        let general = General { policy: &none, rules: &[], pool_defaults: &nothing };
        let layers = Layers {
            cluster: &self.inventory.cluster,
            service: general,
            of_cluster: General { policy: &none, rules: &[], pool_defaults: &nothing },
            pools: std::slice::from_ref(&settings),
        };
        let pools = pools(&self.inventory, &layers, &PriceSettings::default()).unwrap();
        let request = Request {
            pool: &pools[0],
            inventory: &self.inventory,
            measured: &Measured::default(),
            declared: &self.declared,
            catalog: catalog(),
            policies: &BTreeMap::new(),
        };
        let model_name = &self.inventory.nodes[0].cards[0].model_name;
        ground(&request, Some(model_name), catalog().find_by_product(model_name))
    }

    /// Codes of why MIG and time-slicing are refused; empty where they are not.
    fn refused(&self) -> (String, String) {
        let ground = self.ground();
        let code = |reason: Option<Reason>| reason.map(|reason| reason.code).unwrap_or_default();
        (code(ground.mig_refused), code(ground.time_slicing_refused))
    }

    fn cautions(&self) -> Vec<String> {
        self.ground().cautions.into_iter().map(|caution| caution.code).collect()
    }
}

fn both(code: &str) -> (String, String) {
    (code.to_owned(), code.to_owned())
}

fn mig_alone(code: &str) -> (String, String) {
    (code.to_owned(), String::new())
}

#[test]
fn plain_ground_refuses_nothing() {
    let pool = Pool::new(A100, "550.90.07");
    assert_eq!(pool.refused(), both(""));
    // Slices of their own name exclude MPS.
    let mut rest = pool.ground();
    let mps_refused = rest.mps_refused.take();
    assert_eq!(rest, Ground { driver: Some("550.90.07".into()), ..Ground::default() });
    assert_eq!(mps_refused.unwrap().code, "mps-under-mixed");
}

#[test]
fn partitions_of_a_cloud_are_left_to_it() {
    for key in [
        "cloud.google.com/gke-gpu-partition-size",
        "cloud.google.com/gke-gpu-sharing-strategy",
        "cloud.google.com/gke-max-shared-clients-per-gpu",
        "bottlerocket.aws/updater-interface-version",
    ] {
        let mut pool = Pool::new(A100, "550.90.07");
        pool.label(key, "2.0.0");
        assert_eq!(pool.refused(), both("provider-owned"), "{key}");
    }
}

#[test]
fn a_cloud_node_is_left_alone_unless_the_operator_is_in_the_repository() {
    for key in [
        "cloud.google.com/gke-nodepool",
        "cloud.google.com/gke-accelerator",
        "kubernetes.azure.com/agentpool",
        "kubernetes.azure.com/accelerator",
    ] {
        let mut pool = Pool::new(A100, "550.90.07");
        pool.label(key, "gpu");
        assert_eq!(pool.refused(), both(""), "{key}");
        pool.declared.operator.declared_in_repository = false;
        assert_eq!(pool.refused(), both("provider-owned"), "{key}");
    }
}

#[test]
fn slices_that_the_cloud_cut_are_not_cut_again() {
    let mut pool = Pool::new(A100, "550.90.07");
    pool.label("kubernetes.azure.com/agentpool", "gpu");
    pool.first().gpu_allocatable.insert("nvidia_com_mig_1g_5gb".into(), 7);
    assert_eq!(pool.refused(), both("provider-owned"));
    pool.label("nvidia.com/mig.config", "all-1g.5gb");
    assert_eq!(pool.refused(), both(""));
}

#[test]
fn dynamic_resource_allocation_is_left_alone() {
    for key in ["nvidia.com/dra-kubelet-plugin", "nvidia.com/gpu.deploy.dra-driver"] {
        let mut pool = Pool::new(A100, "550.90.07");
        pool.label(key, "true");
        assert_eq!(pool.refused(), both("dra-managed"), "{key}");
        pool.label(key, "false");
        assert_eq!(pool.refused(), both(""), "{key}");
    }
    let mut pool = Pool::new(A100, "550.90.07");
    pool.declared.operator.gpu_cluster = Some("GPUCluster `gpus` in `a.yaml:1`".into());
    assert_eq!(pool.refused(), both("dra-managed"));
    assert_eq!(
        pool.ground().mig_refused.unwrap().text,
        "GPUCluster `gpus` in `a.yaml:1` puts the GPUs of the cluster under dynamic resource allocation"
    );
}

#[test]
fn a_node_with_cards_of_several_models_is_left_alone() {
    let mut pool = Pool::new(A100, "550.90.07");
    let other = |model: &str| Card { model_name: model.into(), ..Card::default() };
    pool.first().cards.push(other("NVIDIA A100-PCIE-40GB"));
    assert_eq!(pool.refused(), both(""), "two products of one model");
    pool.first().cards.push(other("NVIDIA L4"));
    assert_eq!(pool.refused(), both("several-models-on-node"));
}

#[test]
fn a_cluster_with_another_strategy_is_told_what_the_change_takes() {
    let mut pool = Pool::new(A100, "550.90.07");
    pool.declared.operator.mig_strategy = Some(MigStrategy::Single);
    assert_eq!(pool.refused(), mig_alone("mig-strategy-single"));
    let advice = |pool: &Pool| pool.ground().mig_refused.unwrap().advice.unwrap();
    assert_eq!(
        advice(&pool),
        "as a change of its own first, set `spec.mig.strategy: mixed` on the ClusterPolicy; it restarts the device \
         plugin on every GPU node and renames nothing, as no card is cut today"
    );
    pool.declared.operator.mig_strategy_place = Some("clusters/dc1/gpu-operator.yaml:12".into());
    pool.node("n2", A100, "550.90.07");
    pool.inventory.nodes[1]
        .labels
        .insert(sanitised_label("nvidia.com/gpu.product"), "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb".into());
    let pod =
        Pod { name: "p".into(), node: "n2".into(), cards: Vec::new(), slices: Vec::new(), requests: None };
    pool.inventory.workloads.push(Workload {
        id: WorkloadId::new("Deployment", "search", "tiny"),
        gpus_per_pod: 1,
        resource: "nvidia.com/gpu".into(),
        containers: ["main".into()].into(),
        replicas: 1,
        hpa_max: None,
        max_surge: None,
        pods: vec![pod],
        namespace_labels: BTreeMap::new(),
    });
    assert_eq!(
        advice(&pool),
        "as a change of its own first, set `mig.strategy: mixed` in `clusters/dc1/gpu-operator.yaml:12`; it restarts the \
         device plugin on every GPU node and renames `nvidia.com/gpu` to `nvidia.com/mig-<profile>` for the slices on \
         n2, and these must ask for the new name in the same change: search/tiny"
    );
    pool.declared.operator.mig_strategy = Some(MigStrategy::None);
    assert_eq!(pool.refused(), mig_alone("mig-strategy-none"));
    pool.declared.operator.mig_strategy = None;
    assert_eq!(pool.refused(), mig_alone("mig-strategy-unknown"));
}

#[test]
fn old_drivers_and_operators_are_refused() {
    assert_eq!(Pool::new(A100, "440.33.01").refused(), mig_alone("driver-too-old"));
    let mut unknown = Pool::new(A100, "550.90.07");
    unknown.first().cards[0].driver_version = None;
    assert_eq!(unknown.refused(), mig_alone("driver-unknown"));
    let mut operator = Pool::new("NVIDIA B200", "570.172.08");
    assert_eq!(operator.refused(), both(""));
    operator.declared.operator.version = Some("24.9.2".into());
    assert_eq!(operator.refused(), mig_alone("operator-too-old"));
}

#[test]
fn grace_in_coherent_memory_mode_is_refused() {
    assert_eq!(Pool::new("NVIDIA GH200 144G HBM3e", "570.172.08").refused(), both(""));
    assert_eq!(Pool::new("NVIDIA GH200 144G HBM3e", "580.65.06").refused(), mig_alone("grace-cdmm"));
}

#[test]
fn a_dgx_station_is_refused_for_gb300_alone() {
    let mut pool = Pool::new("NVIDIA GB300", "595.58.03");
    pool.label("nvidia.com/gpu.machine", "NVIDIA-DGX-Station-GB300");
    assert_eq!(pool.refused(), mig_alone("machine-refused"));
    let mut older = Pool::new("NVIDIA A100-SXM4-80GB", "550.90.07");
    older.label("nvidia.com/gpu.machine", "DGX-Station-A100");
    assert_eq!(older.refused(), both(""));
}

#[test]
fn a_workstation_card_must_be_set_to_compute() {
    let max_q = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition";
    let mut pool = Pool::new(max_q, "575.57.08");
    assert_eq!((pool.refused(), pool.cautions()), (both(""), vec!["workstation-card".to_owned()]));
    let text = pool.ground().cautions[0].text.clone();
    assert_eq!(
        text,
        "n1 holds a workstation card: MIG needs the display mode compute and VBIOS 98.02.6A.00.00 or newer"
    );
    pool.label("nvidia.com/gpu.mode", "graphics");
    assert_eq!(pool.refused(), mig_alone("display-mode"));
    pool.label("nvidia.com/gpu.mode", "compute");
    assert_eq!(pool.refused(), both(""));
    let server = Pool::new("NVIDIA RTX PRO 6000 Blackwell Server Edition", "575.57.08");
    assert_eq!(server.cautions(), Vec::<String>::new());
}

#[test]
fn drivers_that_cannot_mix_are_known() {
    let mut pool = Pool::new("NVIDIA B200", "570.133.20");
    assert_eq!(
        pool.ground().no_mixed_nodes.unwrap().text,
        "driver 570.133.20 on n1 leaves pods pending where a node holds slices and whole cards"
    );
    pool.first().cards[0].driver_version = Some("570.172.08".into());
    assert_eq!(pool.ground().no_mixed_nodes, None);
}

#[test]
fn what_should_be_known_before_the_first_node_is_said() {
    let check = |version: &str, labels: &[(&str, &str)], expected: &[&str]| {
        let mut pool = Pool::new(A100, "550.90.07");
        pool.declared.operator.version = Some(version.into());
        for (key, value) in labels {
            pool.label(key, value);
        }
        assert_eq!(pool.cautions(), expected, "{version} {labels:?}");
    };
    check("25.3.4", &[("nvidia.com/gpu.deploy.driver", "pre-installed")], &["host-driver"]);
    check("25.3.4", &[("nvidia.com/gpu.deploy.driver", "true")], &[]);
    let selinux = ("feature.node.kubernetes.io/kernel-selinux.enabled", "true");
    check("25.10.1", &[selinux], &["selinux"]);
    check("26.3.0", &[selinux], &[]);
    let rhel = [
        ("feature.node.kubernetes.io/system-os_release.ID", "rhel"),
        ("feature.node.kubernetes.io/system-os_release.VERSION_ID.major", "8"),
    ];
    check("25.10.1", &rhel, &["rhel8-glibc"]);
    check("26.7.0", &rhel, &[]);
    check("25.10.1", &rhel[..1], &[]);
    check("25.3.4", &[("cloud.google.com/gke-nodepool", "gpu")], &["gke-reboot"]);
}

const GB200: &str = "NVIDIA GB200";

/// What `1g.23gb` is called, or why that is not known.
fn called(pool: &Pool) -> String {
    let ground = pool.ground();
    match ground.mig_refused {
        Some(reason) => reason.code,
        None => ground.names.get(&name("1g.23gb")).copied().unwrap_or(name("1g.23gb")).to_string(),
    }
}

#[test]
fn names_that_nothing_shows_are_not_guessed() {
    let pool = Pool::new(GB200, "570.172.08");
    assert_eq!(called(&pool), "profile-names-unknown");
    let reason = pool.ground().mig_refused.unwrap();
    assert_eq!(
        reason.text,
        "drivers give the slices of this card different names (`1g.23gb` or `1g.24gb`), and nothing shows which on n1: \
         pods that ask for the other one would stay pending"
    );
    assert!(reason.advice.unwrap().starts_with("run `nvidia-smi mig -lgip` on a node"));
}

#[test]
fn names_are_taken_from_everything_that_nodes_show() {
    type Show = fn(&mut Pool);
    let shows: [(&str, Show); 4] = [
        ("allocatable", |pool| {
            pool.first().gpu_allocatable.insert("nvidia_com_mig_1g_24gb".into(), 7);
        }),
        ("label", |pool| pool.label("nvidia.com/mig-1g.24gb.count", "7")),
        ("slice", |pool| {
            pool.first().cards[0].slices.push(Slice { profile: "1g.24gb".into(), ..Slice::default() });
        }),
        ("config", |pool| {
            pool.label("nvidia.com/mig.config", "all-1g.24gb");
            pool.label("nvidia.com/mig.config.state", "success");
        }),
    ];
    for (what, show) in shows {
        let mut pool = Pool::new(GB200, "570.172.08");
        show(&mut pool);
        assert_eq!(called(&pool), "1g.24gb", "{what}");
    }
    let mut none = Pool::new(GB200, "570.172.08");
    none.first().gpu_allocatable.insert("nvidia_com_mig_1g_24gb".into(), 0);
    none.label("nvidia.com/mig.config", "all-1g.24gb");
    none.label("nvidia.com/mig.config.state", "failed");
    assert_eq!(called(&none), "profile-names-unknown");
}

#[test]
fn names_of_the_catalog_are_kept_where_nodes_show_them() {
    let mut pool = Pool::new(GB200, "570.172.08");
    pool.label("nvidia.com/mig-1g.23gb.count", "7");
    assert_eq!(called(&pool), "1g.23gb");
    assert!(pool.ground().names.is_empty());
}

#[test]
fn a_node_of_another_driver_proves_nothing() {
    let mut pool = Pool::new(GB200, "570.172.08");
    pool.node("n2", GB200, "570.133.20");
    pool.inventory.nodes[1].labels.insert(sanitised_label("nvidia.com/mig-1g.24gb.count"), "7".into());
    assert_eq!(called(&pool), "profile-names-unknown");
    pool.label("nvidia.com/mig-1g.23gb.count", "7");
    assert_eq!(called(&pool), "profile-names-unknown", "the two drivers disagree");
    pool.label("nvidia.com/mig-3g.95gb.count", "1");
    assert_eq!(called(&pool), "profile-names-unknown", "one driver contradicts itself");
}

#[test]
fn configs_of_the_repository_tell_where_they_agree() {
    let mut pool = Pool::new(GB200, "570.172.08");
    pool.declared.operator.mig_config_names = ["all-1g.24gb".into(), "all-disabled".into()].into();
    assert_eq!(called(&pool), "1g.24gb");
    pool.declared.operator.mig_config_names.insert("all-1g.23gb".into());
    assert_eq!(called(&pool), "profile-names-unknown", "a copy of NVIDIA's file names both");
}

#[test]
fn a_driver_decides_before_configs_that_may_be_older() {
    let mut pool = Pool::new("NVIDIA GB300", "610.10");
    pool.declared.operator.mig_config_names = ["all-1g.35gb".into()].into();
    assert_eq!(pool.ground().names.get(&name("1g.35gb")), Some(&name("1g.31gb")));
}

#[test]
fn the_model_here_carries_the_names_of_the_cluster() {
    let mut pool = Pool::new(GB200, "570.172.08");
    pool.label("nvidia.com/mig-1g.24gb.count", "7");
    let model = pool.ground().model_here(catalog().find("gb200-186gb").unwrap());
    assert_eq!(model.chain()[0].name.resource(), "nvidia.com/mig-1g.24gb");
}
