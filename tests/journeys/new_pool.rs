//! A node pool of GKE without the GPU Operator: from its metrics to a new pool in Terraform.

use super::bot::Bot;
use crate::world::checkout;
use crate::world::golden::DAYS;
use crate::world::prometheus::Prometheus;
use crate::world::repo::{BareRepo, MAIN};
use crate::world::series::{A100_40, Cluster, Dialect, Kind, Load, Memory, Node, Rhythm, Workload};

const BRANCH: &str = "slicewright/dc1/gpu-a100";

fn node(name: &str) -> Node {
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    Node {
        name: name.to_owned(),
        model: A100_40,
        n_cards: 1,
        driver: "550.90.07".to_owned(),
        labels: vec![
            label("cloud.google.com/gke-nodepool", "gpu-a100"),
            label("cloud.google.com/gke-accelerator", "nvidia-tesla-a100"),
        ],
        taints: Vec::new(),
        cpu_cores: 12,
        memory_gib: 85,
        max_pods: 110,
        mig_strategy: "",
        cuts: Vec::new(),
    }
}

fn service(name: &str, node: &str) -> Workload {
    Workload {
        kind: Kind::Deployment,
        namespace: "search".to_owned(),
        name: name.to_owned(),
        container: "server".to_owned(),
        pods: vec![(node.to_owned(), 0..1)],
        slices: Vec::new(),
        days: 0..DAYS,
        load: Load {
            memory: Memory::Peak { base_mib: 6_000, peak_mib: 7_000, peak_day: 4 },
            sm_active: 0.15,
            gr_engine_active: 0.5,
            dram_active: 0.1,
            rhythm: Rhythm::Daytime,
        },
        cpu_millicores: 1_000,
        memory_gib: 4,
        max_surge: Some(0),
        hpa: None,
        pod_labels: Vec::new(),
    }
}

#[test]
fn two_services_of_gke_get_slices_of_a_new_pool() {
    let cluster = Cluster {
        name: "dc1".to_owned(),
        days: DAYS,
        dialect: Dialect::default(),
        namespaces: vec![("search".to_owned(), Vec::new())],
        nodes: vec![node("gke-1"), node("gke-2")],
        workloads: vec![service("embed-svc", "gke-1"), service("rank-svc", "gke-2")],
    };
    let prometheus = Prometheus::holding(&[&cluster]);
    // The repository and what becomes of it are those of the case.
    let case = checkout("tests/cases/infra/node-groups/gke-partition");
    let repo = BareRepo::from_folder(&case.join("repo"));
    let bot = Bot::new(&prometheus, repo, "dc1", "");
    let shown = bot.propose(&[]);
    assert!(bot.repo.head(BRANCH).is_some(), "no proposal:\n{shown}");
    for path in ["terraform/pools.tf", "apps/embed.yaml", "apps/rank.yaml"] {
        let expected = std::fs::read_to_string(case.join("expected").join(path)).unwrap();
        assert_eq!(bot.repo.read(BRANCH, path).unwrap(), expected, "{path}");
        assert_ne!(bot.repo.read(MAIN, path), bot.repo.read(BRANCH, path));
    }
    let request = bot.request();
    for said in [
        "| a new node group beside GKE node pool `gpu-a100` | `gpu-a100-mig-2g` | not there | 3 × `2g.10gb` on every card |",
        "Before the workloads change: let the pipeline make the new GKE node pool `gpu-a100-mig-2g`",
        "kubectl drain -l cloud.google.com/gke-nodepool=gpu-a100 --ignore-daemonsets",
        "Revert the workloads' files first",
    ] {
        assert!(request.contains(said), "`{said}` is missing in:\n{request}");
    }
    // What is written there already is proposed no second time.
    let before = bot.left();
    bot.propose(&[]);
    assert_eq!(bot.left().branches, before.branches);
}
