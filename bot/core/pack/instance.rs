//! Reads the instances of `tests/cases/packing`: for the test that runs them all, and for `benches/pack.rs`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::geometry::{Geometry, SliceType};
use super::{CardState, Goal, Item, NodeState, Problem, Rules, Spread};

#[derive(Deserialize)]
pub(super) struct Models {
    models: BTreeMap<String, Model>,
}

#[derive(Deserialize)]
pub(super) struct Model {
    memory_slices: u8,
    pub(super) profiles: Vec<Profile>,
    whole: Whole,
    pub(super) maximal_layouts: Vec<BTreeMap<String, u32>>,
    pub(super) feasible_multisets: usize,
}

#[derive(Deserialize)]
pub(super) struct Profile {
    pub(super) name: String,
    compute_slices: u8,
    memory_slices: u8,
    starts: Vec<u8>,
    memory_mib: u64,
    sm: u64,
}

#[derive(Deserialize)]
pub(super) struct Whole {
    memory_mib: u64,
    sm: u64,
}

#[derive(Deserialize)]
pub(super) struct Instance {
    pub(super) kind: String,
    pub(super) goal: Option<String>,
    pub(super) gpu_model: String,
    pub(super) policy: CasePolicy,
    pub(super) expected: Value,
    pub(super) workloads: Workloads,
    #[serde(default)]
    pub(super) nodes: Vec<CaseNode>,
    pub(super) timeslice: Option<CaseSlicing>,
}

#[derive(Deserialize)]
pub(super) struct CaseSlicing {
    pub(super) card_memory_mib: u64,
    pub(super) memory_headroom_percent: u64,
    pub(super) context_overhead_mib: u64,
    pub(super) compute_limit_milli: u64,
    pub(super) max_replicas: u32,
}

#[derive(Deserialize)]
pub(super) struct CasePolicy {
    pub(super) memory_headroom_percent: u64,
    compute_headroom_percent: u64,
    hpa: String,
    pub(super) concurrent_rollouts: u32,
    spare_gpus: u32,
    spread: String,
}

#[derive(Deserialize)]
pub(super) struct Workloads {
    columns: Vec<String>,
    pub(super) rows: Vec<(String, u32, u32, u32, u64, u64, u8)>,
}

#[derive(Deserialize)]
pub(super) struct CaseNode {
    id: String,
    gpus: usize,
    cost: i64,
    frozen: bool,
    state: Vec<CaseCard>,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum CaseCard {
    Whole(i64),
    Cut(Vec<(String, i64)>),
}

impl Model {
    pub(super) fn geometry(&self) -> Geometry {
        let mut geometry = Geometry {
            memory_slices: self.memory_slices,
            types: self
                .profiles
                .iter()
                .map(|p| SliceType {
                    name: p.name.clone(),
                    compute_slices: p.compute_slices,
                    memory_slices: p.memory_slices,
                    starts: p.starts.clone(),
                    max_instances: u8::MAX,
                })
                .collect(),
        };
        for t in 0..geometry.types.len() {
            let most = geometry.uniform_layout(t).counts[t];
            geometry.types[t].max_instances = u8::try_from(most).unwrap();
        }
        geometry
    }
}

impl Instance {
    pub(super) fn planned(&self, replicas: u32, hpa_max: u32) -> u32 {
        if self.policy.hpa == "max" { replicas.max(hpa_max) } else { replicas }
    }

    pub(super) fn items(&self, model: &Model) -> Vec<Item> {
        let columns = [
            "id",
            "replicas",
            "hpa_max",
            "max_surge",
            "peak_memory_mib",
            "peak_compute_milli",
            "mig_allowed",
        ];
        assert_eq!(self.workloads.columns, columns);
        let policy = &self.policy;
        self.workloads
            .rows
            .iter()
            .map(|(id, replicas, hpa_max, max_surge, memory, compute, mig_allowed)| {
                let memory = (memory * (100 + policy.memory_headroom_percent)).div_ceil(100);
                let compute = (compute * (100 + policy.compute_headroom_percent)).div_ceil(100).min(1000);
                let fits = |p: &Profile| p.memory_mib >= memory && p.sm * 1000 >= compute * model.whole.sm;
                let whole = model.profiles.len();
                let slot = if *mig_allowed == 0 || memory > model.whole.memory_mib {
                    whole
                } else {
                    model.profiles.iter().position(fits).unwrap_or(whole)
                };
                let planned = self.planned(*replicas, *hpa_max);
                Item { key: id.clone(), slot, planned, max_surge: *max_surge }
            })
            .collect()
    }

    pub(super) fn problem(&self, model: &Model) -> Problem {
        let index = |i: i64| usize::try_from(i).ok();
        let slice = |name: &str| model.profiles.iter().position(|p| p.name == name).unwrap();
        let nodes = self
            .nodes
            .iter()
            .map(|node| {
                assert_eq!(node.gpus, node.state.len());
                let cards = node
                    .state
                    .iter()
                    .map(|card| match card {
                        CaseCard::Whole(item) => CardState::Whole { item: index(*item) },
                        CaseCard::Cut(slices) => CardState::Cut(
                            slices.iter().map(|(name, item)| (slice(name), index(*item))).collect(),
                        ),
                    })
                    .collect();
                NodeState { id: node.id.clone(), cards, cost: node.cost, frozen: node.frozen }
            })
            .collect();
        Problem { geometry: model.geometry(), items: self.items(model), nodes, rules: self.rules() }
    }

    pub(super) fn rules(&self) -> Rules {
        Rules {
            goal: if self.goal.as_deref() == Some("capacity") { Goal::Capacity } else { Goal::Bill },
            spread: match self.policy.spread.as_str() {
                "gpu" => Spread::Gpu,
                "node" => Spread::Node,
                _ => Spread::None,
            },
            spare_cards: self.policy.spare_gpus,
            concurrent_rollouts: self.policy.concurrent_rollouts,
            max_layouts: None,
            effort: 1_000_000,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "instances live in files")]
pub(super) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

pub(super) fn models(folder: &Path) -> BTreeMap<String, Model> {
    let models: Models = serde_json::from_str(&read(&folder.join("models.json"))).unwrap();
    models.models
}
