//! Runs every instance of `tests/cases/packing` against its proven optimum.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::cards::{fewest_cards, fewest_cards_for};
use super::check::check;
use super::geometry::{Geometry, SliceType};
use super::limited::{Substitution, limited};
use super::rows::Rows;
use super::time_slicing::{Limits, Pod, time_slicing};
use super::{CardState, Goal, Item, NodeState, Problem, Rules, Spread, demand_with_surge, pack};

#[derive(Deserialize)]
struct Models {
    models: BTreeMap<String, Model>,
}

#[derive(Deserialize)]
struct Model {
    memory_slices: u8,
    profiles: Vec<Profile>,
    whole: Whole,
    maximal_layouts: Vec<BTreeMap<String, u32>>,
    feasible_multisets: usize,
}

#[derive(Deserialize)]
struct Profile {
    name: String,
    compute_slices: u8,
    memory_slices: u8,
    starts: Vec<u8>,
    memory_mib: u64,
    sm: u64,
}

#[derive(Deserialize)]
struct Whole {
    memory_mib: u64,
    sm: u64,
}

#[derive(Deserialize)]
struct Instance {
    kind: String,
    goal: Option<String>,
    gpu_model: String,
    policy: CasePolicy,
    expected: Value,
    workloads: Workloads,
    #[serde(default)]
    nodes: Vec<CaseNode>,
    timeslice: Option<CaseSlicing>,
}

#[derive(Deserialize)]
struct CaseSlicing {
    card_memory_mib: u64,
    memory_headroom_percent: u64,
    context_overhead_mib: u64,
    compute_limit_milli: u64,
    max_replicas: u32,
}

#[derive(Deserialize)]
struct CasePolicy {
    memory_headroom_percent: u64,
    compute_headroom_percent: u64,
    hpa: String,
    concurrent_rollouts: u32,
    spare_gpus: u32,
    spread: String,
}

#[derive(Deserialize)]
struct Workloads {
    columns: Vec<String>,
    rows: Vec<(String, u32, u32, u32, u64, u64, u8)>,
}

#[derive(Deserialize)]
struct CaseNode {
    id: String,
    gpus: usize,
    cost: i64,
    frozen: bool,
    state: Vec<CaseCard>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum CaseCard {
    Whole(i64),
    Cut(Vec<(String, i64)>),
}

impl Model {
    fn geometry(&self) -> Geometry {
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
    fn planned(&self, replicas: u32, hpa_max: u32) -> u32 {
        if self.policy.hpa == "max" { replicas.max(hpa_max) } else { replicas }
    }

    fn items(&self, model: &Model) -> Vec<Item> {
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

    fn problem(&self, model: &Model) -> Problem {
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

    fn rules(&self) -> Rules {
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

/// A result that differs from what the instance proves.
fn differs<T: PartialEq + std::fmt::Debug>(what: &str, got: T, expected: T) -> Result<(), String> {
    if got == expected { Ok(()) } else { Err(format!("{what}: got {got:?}, expected {expected:?}")) }
}

fn run(instance: &Instance, model: &Model) -> Result<(), String> {
    match instance.kind.as_str() {
        "gpus" => run_gpus(instance, model),
        "layouts" => run_layouts(instance, model),
        "nodes" => run_nodes(instance, model),
        "timeslice" => run_time_slicing(instance),
        _ => Ok(()),
    }
}

fn by_name(model: &Model, demand: &[u32]) -> BTreeMap<String, u32> {
    let names = model.profiles.iter().map(|p| p.name.clone()).chain(["whole".to_owned()]);
    names.zip(demand.iter().copied()).filter(|(_, n)| *n > 0).collect()
}

fn counts(value: &Value) -> BTreeMap<String, u32> {
    serde_json::from_value(value.clone()).unwrap()
}

fn run_gpus(instance: &Instance, model: &Model) -> Result<(), String> {
    let geometry = model.geometry();
    let items = instance.items(model);
    let rules = instance.rules();
    let expected = &instance.expected;
    differs(
        "demand",
        by_name(model, &demand_with_surge(geometry.whole(), &items, 0)),
        counts(&expected["demand"]),
    )?;
    let demand = demand_with_surge(geometry.whole(), &items, rules.concurrent_rollouts);
    differs("demand with surge", by_name(model, &demand), counts(&expected["demand_with_surge"]))?;
    let needed = fewest_cards_for(&geometry, &items, &rules);
    differs("cards", u64::from(needed.n_cards), expected["gpus"].as_u64().unwrap())?;
    let free = fewest_cards(&geometry, &demand);
    differs("proven", free.certificate.proven, true)?;
    let mut slots = vec![0; demand.len()];
    for (layout, n) in &free.layouts {
        differs("feasible", geometry.feasible(&layout.counts), true)?;
        slots.iter_mut().zip(&layout.counts).for_each(|(s, c)| *s += c * n);
    }
    run_gpus_on_empty_nodes(instance, model)?;
    let enough = slots.iter().zip(&demand).take(geometry.whole()).all(|(s, d)| s >= d);
    differs("slots hold the demand", enough, true)
}

/// Packs the workloads on empty nodes of one card each: the certificate is good only if they can really be seated.
fn run_gpus_on_empty_nodes(instance: &Instance, model: &Model) -> Result<(), String> {
    let expected = instance.expected["gpus_with_spare"].as_i64().unwrap();
    let node = |n: i64| NodeState {
        id: format!("n{n:06}"),
        cards: vec![CardState::Whole { item: None }],
        cost: 1,
        frozen: false,
    };
    let nodes = (0..expected + 2).map(node).collect();
    let problem = Problem { nodes, ..instance.problem(model) };
    let packing = pack(&problem).map_err(|e| e.to_string())?;
    differs("cost", packing.objective[0], expected)?;
    differs("cost bound", packing.lower_bounds[0], expected)?;
    differs("check", check(&problem, &packing), Vec::new())
}

fn run_layouts(instance: &Instance, model: &Model) -> Result<(), String> {
    let geometry = model.geometry();
    let items = instance.items(model);
    let demand = demand_with_surge(geometry.whole(), &items, instance.policy.concurrent_rollouts);
    let expected = &instance.expected;
    differs("demand with surge", by_name(model, &demand), counts(&expected["demand_with_surge"]))?;
    for (field, substitution) in [
        ("gpus_by_max_layouts", Substitution::Larger),
        ("gpus_by_max_layouts_without_substitution", Substitution::None),
    ] {
        for n_layouts in 1..=3u32 {
            let answer = limited(&geometry, &demand, n_layouts, substitution);
            let want = expected[field][n_layouts.to_string()].as_u64();
            let what = format!("{field} {n_layouts}");
            differs(&what, answer.as_ref().map(|l| u64::from(l.n_cards)), want)?;
            differs(&what, answer.is_none_or(|l| l.layouts.len() <= n_layouts as usize), true)?;
        }
        let unlimited = fewest_cards(&geometry, &demand).n_cards;
        differs(field, Some(u64::from(unlimited)), expected[field]["unlimited"].as_u64())?;
    }
    Ok(())
}

fn run_nodes(instance: &Instance, model: &Model) -> Result<(), String> {
    let problem = instance.problem(model);
    let packing = pack(&problem).map_err(|e| e.to_string())?;
    let numbers =
        |field: &str| -> Vec<i64> { serde_json::from_value(instance.expected[field].clone()).unwrap() };
    differs("objective", &packing.objective, &numbers("objective"))?;
    differs("lower bounds", &packing.lower_bounds, &numbers("lower_bounds"))?;
    differs("proven", packing.proven, true)?;
    differs("check", check(&problem, &packing), Vec::new())
}

fn run_time_slicing(instance: &Instance) -> Result<(), String> {
    let slicing = instance.timeslice.as_ref().unwrap();
    let limits = Limits {
        card_mib: slicing.card_memory_mib,
        headroom_percent: slicing.memory_headroom_percent,
        context_mib: slicing.context_overhead_mib,
        compute_limit_milli: slicing.compute_limit_milli,
        max_replicas: slicing.max_replicas,
    };
    let pods: Vec<Pod> = instance
        .workloads
        .rows
        .iter()
        .flat_map(|(id, replicas, hpa_max, _, peak_mib, compute_milli, _)| {
            let pod = Pod { key: id.clone(), peak_mib: *peak_mib, compute_milli: *compute_milli };
            std::iter::repeat_n(pod, instance.planned(*replicas, *hpa_max) as usize)
        })
        .collect();
    let answer = time_slicing(&pods, &limits);
    let expected = &instance.expected;
    let number = |n: Option<u32>| n.map_or(Value::Null, Value::from);
    differs("usable", Value::from(answer.usable_mib), expected["usable_mib"].clone())?;
    differs("pods", Value::from(pods.len()), expected["pods"].clone())?;
    differs("replicas", Value::from(answer.one.replicas), expected["one_pool"]["replicas"].clone())?;
    differs("cards", number(answer.one.n_cards), expected["one_pool"]["gpus"].clone())?;
    let (two, threshold, small, large) = match &answer.two {
        Some(two) => (
            Some(two.n_cards),
            Value::from(two.small_max_peak_mib),
            two.small.replicas,
            Some(two.large.replicas),
        ),
        None => (answer.one.n_cards, Value::Null, answer.one.replicas, None),
    };
    let expected = &expected["two_pools"];
    differs("two pools", number(two), expected["gpus"].clone())?;
    differs("threshold", threshold, expected["small_pool_max_peak_mib"].clone())?;
    differs("small", Value::from(small), expected["replicas_small"].clone())?;
    differs("large", number(large), expected["replicas_large"].clone())
}

#[expect(clippy::disallowed_methods, reason = "test data lives in files")]
fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[expect(clippy::disallowed_methods, reason = "more cases may live outside of the repository")]
fn folders() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/packing");
    let extra = std::env::var("SLICEWRIGHT_EXTRA_CASES").ok().map(|dir| Path::new(&dir).join("packing"));
    std::iter::once(own).chain(extra).collect()
}

fn models(folder: &Path) -> BTreeMap<String, Model> {
    let models: Models = serde_json::from_str(&read(&folder.join("models.json"))).unwrap();
    models.models
}

#[test]
#[expect(clippy::print_stderr, reason = "says how many cases ran")]
fn every_instance_reaches_its_proven_optimum() {
    let folders = folders();
    let own_models = models(&folders[0]);
    let mut failed = Vec::new();
    for folder in &folders {
        let more_models = folder.join("models.json").exists().then(|| models(folder));
        let models = more_models.as_ref().unwrap_or(&own_models);
        let listing = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        let mut files: Vec<PathBuf> = listing
            .map(|entry| entry.unwrap().path())
            .filter(|p| p.extension().is_some_and(|e| e == "json") && !p.ends_with("models.json"))
            .collect();
        files.sort();
        assert!(!files.is_empty(), "no cases in {}", folder.display());
        eprintln!("{} cases in {}", files.len(), folder.display());
        for file in files {
            let instance: Instance = serde_json::from_str(&read(&file)).unwrap();
            let model = &models[&instance.gpu_model];
            if let Err(why) = run(&instance, model) {
                failed.push(format!("{}: {why}", file.file_stem().unwrap().display()));
            }
        }
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn layouts_are_those_of_the_tables() {
    for (name, model) in models(&folders()[0]) {
        let geometry = model.geometry();
        let mut known: Vec<Vec<u32>> = model
            .maximal_layouts
            .iter()
            .map(|l| model.profiles.iter().map(|p| l.get(&p.name).copied().unwrap_or(0)).collect())
            .collect();
        known.sort();
        let found: Vec<Vec<u32>> = geometry.maximal_layouts().into_iter().map(|l| l.counts).collect();
        assert_eq!(found, known, "{name}");
        assert_eq!(geometry.layouts().len(), model.feasible_multisets, "{name}");
        assert!(Rows::new(&geometry).exact, "{name}");
    }
}
