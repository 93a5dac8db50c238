//! How long a whole plan takes: every workload weighed, nodes searched, the rollout written, the plan checked.
//!
//! `cargo bench -p slicewright-core --bench plan` makes pools of A100 nodes with eight cards, most of them held by
//! services of one replica and mixed sizes, and prints medians.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on ends there")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the catalog")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use divan::Bencher;
use slicewright_core::catalog::{Catalog, CatalogFile};
use slicewright_core::ids::WorkloadId;
use slicewright_core::inventory::{
    Card, Declared, DeclaredWorkload, Inventory, MigStrategy, Node, Operator, Pod, PodRequests, Resources,
    Workload,
};
use slicewright_core::plan::check::check;
use slicewright_core::plan::layers::{General, Layers, policies};
use slicewright_core::plan::pool::{PoolSettings, PriceSettings, Waves, pools};
use slicewright_core::plan::{Goal, Outcome, Request, plan};
use slicewright_core::policy::PolicySettings;
use slicewright_core::units::{Mib, Ratio};
use slicewright_core::usage::{Compute, ComputeSource, DayPeak, Measured, Peak, Window, WorkloadProfile};

const MODEL: &str = "NVIDIA A100-SXM4-40GB";

/// Peak memory in MiB and 99th percentile of compute in ppm, in turn: from 1g to the whole card.
const SIZES: [(u64, u32); 8] = [
    (3_000, 50_000),
    (30_000, 900_000),
    (7_000, 180_000),
    (2_000, 30_000),
    (15_000, 200_000),
    (7_500, 60_000),
    (15_500, 330_000),
    (1_500, 90_000),
];

fn catalog() -> Catalog {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/catalog");
    let paths: BTreeSet<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    let files = paths
        .iter()
        .map(|path| serde_saphyr::from_str::<CatalogFile>(&std::fs::read_to_string(path).unwrap()).unwrap());
    Catalog::merge(files).unwrap()
}

/// A pool of so many nodes: seven of eight cards are held, each by a service of its own.
#[derive(Default)]
struct Fleet {
    inventory: Inventory,
    measured: Measured,
    declared: Declared,
}

impl Fleet {
    fn new(n_nodes: usize) -> Self {
        let mut fleet = Self::default();
        fleet.inventory.cluster = "c".into();
        fleet.declared.operator = Operator {
            mig_strategy: Some(MigStrategy::Mixed),
            version: Some("25.10.1".into()),
            ..Operator::default()
        };
        for n in 0..n_nodes {
            let name = format!("gpu-{n:04}");
            let cards = (0..8).map(|i| Card {
                uuid: format!("GPU-{name}-{i}"),
                model_name: MODEL.into(),
                driver_version: Some("550.90.07".into()),
                ..Card::default()
            });
            let cards: Vec<Card> = cards.collect();
            for (i, card) in cards.iter().enumerate().skip(1) {
                fleet.service(&name, card, SIZES[(n * 7 + i * 3) % SIZES.len()]);
            }
            fleet.inventory.nodes.push(Node {
                name,
                cards,
                allocatable: Some(Resources {
                    cpu_milli: 256_000,
                    memory_bytes: 1 << 40,
                    ..Resources::not_stated()
                }),
                requested: Some(Resources {
                    cpu_milli: 14_000,
                    memory_bytes: 7 << 33,
                    pods: 7,
                    ..Resources::default()
                }),
                ..Node::default()
            });
        }
        fleet
    }

    fn service(&mut self, node: &str, card: &Card, (peak, p99): (u64, u32)) {
        let id = WorkloadId::new("Deployment", "ml", &format!("on-{}", card.uuid.to_lowercase()));
        let day = jiff::civil::date(2026, 1, 14);
        let requests = PodRequests { cpu_milli: 2_000, memory_bytes: 1 << 33, ephemeral_bytes: 0 };
        self.inventory.workloads.push(Workload {
            id: id.clone(),
            gpus_per_pod: 1,
            resource: "nvidia.com/gpu".into(),
            containers: BTreeSet::from(["main".into()]),
            replicas: 1,
            hpa_max: None,
            max_surge: Some(0),
            pods: vec![Pod {
                name: format!("{}-0", id.name),
                node: node.into(),
                cards: vec![card.uuid.clone()],
                slices: Vec::new(),
                requests: Some(requests),
            }],
            namespace_labels: BTreeMap::new(),
        });
        self.declared.workloads.insert(
            id.clone(),
            DeclaredWorkload {
                place: "apps/ml.yaml:1".into(),
                editable: Ok(()),
                max_surge: Some(0),
                replicas: Some(1),
                ignored: false,
                labels: BTreeMap::new(),
                node_selector: BTreeMap::new(),
                tolerations: BTreeSet::new(),
                pinned: None,
                memory_flags: Vec::new(),
            },
        );
        let profile = WorkloadProfile {
            workload: id.clone(),
            model_name: MODEL.into(),
            slice: None,
            window: Window { first: day, last: day, asked_days: 30, had_days: 30 },
            peak: Some(Peak {
                memory: Mib(peak),
                pod: format!("{}-0", id.name),
                card: card.uuid.clone(),
                day,
            }),
            daily_peaks: vec![DayPeak { day, memory: Mib(peak) }],
            typical: Some(Mib(peak)),
            compute: Some(Compute { p99: Ratio::from_ppm(p99), source: ComputeSource::SmActive, day }),
            bandwidth_p99: None,
            kernel_width_p95: Some(Ratio::from_ppm(200_000)),
            media_engines_used: Some(false),
            history_days: 30,
            coverage: Some(Ratio::ONE),
            samples: 8_640,
            complete_runs: 0,
            gpus_per_pod: 1,
            pods_seen: 1,
            reservation: None,
            gaps: Vec::new(),
        };
        self.measured.profiles.insert(id, profile);
    }

    /// The plan for all of it, which must hold its own checks and free something.
    fn plan(&self, catalog: &Catalog, goal: Goal) -> usize {
        let (none, nothing) = (PolicySettings::default(), PoolSettings::default());
        let own = PoolSettings {
            name: "p".into(),
            nodes: Some(".*".into()),
            waves: Some(Waves::AllowDowntime),
            goal: Some(goal),
            ..PoolSettings::default()
        };
        let general = |pool_defaults| General { policy: &none, rules: &[], pool_defaults };
        let layers = Layers {
            cluster: "c",
            service: general(&nothing),
            of_cluster: general(&nothing),
            pools: std::slice::from_ref(&own),
        };
        let pools = pools(&self.inventory, &layers, &PriceSettings::default()).unwrap();
        let policies = policies(&self.inventory, &self.declared, &pools, &layers);
        let request = Request {
            pool: &pools[0],
            inventory: &self.inventory,
            measured: &self.measured,
            declared: &self.declared,
            catalog,
            policies: &policies,
        };
        let Outcome::Plan(plan) = plan(&request) else { panic!("nothing to gain") };
        assert_eq!(check(&request, &plan), Vec::<String>::new());
        plan.saving.nodes_freed.len()
    }
}

#[divan::bench(args = [4, 32, 100, 549], sample_count = 3)]
fn for_a_lower_bill(bencher: Bencher, n_nodes: usize) {
    let (fleet, catalog) = (Fleet::new(n_nodes), catalog());
    bencher.bench_local(|| fleet.plan(&catalog, Goal::Bill));
}

#[divan::bench(args = [4, 32, 100, 549], sample_count = 3)]
fn for_room(bencher: Bencher, n_nodes: usize) {
    let (fleet, catalog) = (Fleet::new(n_nodes), catalog());
    bencher.bench_local(|| fleet.plan(&catalog, Goal::Capacity));
}

fn main() {
    divan::main();
}
