//! How long packing takes, and how long a rival takes for the same answers.
//!
//! `cargo bench -p slicewright-core --bench pack` times instances of `tests/cases/packing`, the building of the problem
//! included, and prints medians. Then it solves the `nodes` instances side by side with OR-tools CP-SAT (`benches/rival/nodes.py`),
//! when `python3` or `$RIVAL_PYTHON` has it (`python3 -m venv v && v/bin/pip install ortools`; nothing is installed
//! from here), and ends with an error where the objectives differ.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on ends there")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads files and the clock")]

#[path = "../bot/core/pack/instance.rs"]
#[allow(dead_code, reason = "the tests look at more of an instance")]
mod instance;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use divan::Bencher;
use serde_json::Value;
use slicewright_core::pack::{
    CardState, Goal, Item, NodeState, Packing, Problem, Rules, Spread, cards, geometry, pack,
};

use instance::{Instance, Model};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/packing")
}

fn load(name: &str) -> (Instance, Model) {
    let text = instance::read(&folder().join(format!("{name}.json")));
    let instance: Instance = serde_json::from_str(&text).unwrap();
    let model = instance::models(&folder()).remove(&instance.gpu_model).unwrap();
    (instance, model)
}

/// Which slice each workload needs, how many cards that takes, and what they are cut into.
#[divan::bench(args = ["mix-1000-h100", "huge-20000-a100"])]
fn fewest_cards(bencher: Bencher, name: &str) {
    let (instance, model) = load(name);
    let geometry = model.geometry();
    bencher.bench(|| {
        let items = instance.items(&model);
        cards::fewest_cards_for(&geometry, &items, &instance.rules())
    });
}

/// The same, and a seat for every replica on empty nodes of eight cards.
#[divan::bench(args = ["mix-1000-h100", "huge-20000-a100"], sample_count = 20)]
fn seats_on_empty_nodes(bencher: Bencher, name: &str) {
    let (instance, model) = load(name);
    let n_nodes = instance.expected["gpus_with_spare"].as_u64().unwrap().div_ceil(8) + 1;
    let node = |n: u64| NodeState {
        id: format!("n{n:06}"),
        cards: vec![CardState::Whole { item: None }; 8],
        cost: 8,
        frozen: false,
    };
    bencher.bench(|| {
        let nodes = (0..n_nodes).map(node).collect();
        solved(&Problem { nodes, ..instance.problem(&model) })
    });
}

/// What becomes of every node: 32, 93 and 549 of them.
#[divan::bench(args = ["nodes-medium", "nodes-large", "openb-2023-nodes-h100"], sample_count = 10)]
fn nodes(bencher: Bencher, name: &str) {
    let (instance, model) = load(name);
    bencher.bench(|| solved(&instance.problem(&model)));
}

/// 300 workloads, a quarter of them on `1g+me`, of which a card has one.
#[divan::bench(sample_count = 20)]
fn three_hundred_workloads_with_media_engines(bencher: Bencher) {
    let (_, model) = load("mix-1000-h100");
    let mut geometry = model.geometry();
    let media = geometry::SliceType { max_instances: 1, name: "+me".to_owned(), ..geometry.types[0].clone() };
    geometry.types.insert(1, media);
    bencher.bench(|| {
        let slot = |i: usize| [0, 1, 2, 3, 1, 4, 0, 5][i % 8];
        let item = |i| Item { key: format!("w{i:03}"), slot: slot(i), planned: 1, max_surge: 1 };
        let node = |n: usize| NodeState {
            id: format!("n{n:03}"),
            cards: (0..8).map(|c| CardState::Whole { item: Some(8 * n + c).filter(|i| *i < 300) }).collect(),
            cost: 8,
            frozen: false,
        };
        let rules = Rules {
            goal: Goal::Bill,
            spread: Spread::None,
            spare_cards: 0,
            concurrent_rollouts: 2,
            max_layouts: None,
            effort: 1_000_000,
        };
        let items = (0..300).map(item).collect();
        solved(&Problem { geometry: geometry.clone(), items, nodes: (0..38).map(node).collect(), rules })
    });
}

fn solved(problem: &Problem) -> Packing {
    let packing = pack(problem).unwrap();
    assert!(packing.proven, "{:?} {:?}", packing.objective, packing.lower_bounds);
    packing
}

/// The `nodes` instances without a rule on spread, which the rival does not model.
const SIDE_BY_SIDE: [&str; 11] = [
    "nodes-tiny",
    "nodes-substitute",
    "nodes-small-bill",
    "nodes-small-capacity",
    "nodes-frozen",
    "nodes-converted",
    "nodes-policy",
    "nodes-mixed-sizes",
    "nodes-medium",
    "nodes-large",
    "openb-2023-nodes-h100",
];

/// The rival's interpreter, when it has what the rival needs.
fn rival() -> Option<String> {
    let python = std::env::var("RIVAL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let probe = Command::new(&python).args(["-c", "import ortools"]).output().ok()?;
    probe.status.success().then_some(python)
}

/// The same instances by both, one after the other: medians of five of ours, one run of the rival's.
fn side_by_side(python: &str) {
    const RUNS: usize = 5;
    println!("\n{:<24} {:>11} {:>11} {:>8}  objective", "nodes", "ours", "CP-SAT", "ratio");
    for name in SIDE_BY_SIDE {
        let (instance, model) = load(name);
        let mut times: Vec<Duration> = Vec::new();
        let mut objective = Vec::new();
        for _ in 0..RUNS {
            let started = Instant::now();
            objective = solved(&instance.problem(&model)).objective;
            times.push(started.elapsed());
        }
        times.sort();
        let ours = times[RUNS / 2].as_secs_f64() * 1000.0;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/rival/nodes.py");
        let output = Command::new(python).arg(script).arg(folder()).arg(name).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let theirs = answer["milliseconds"].as_f64().unwrap();
        assert_eq!(
            answer["objective"],
            Value::from(objective.clone()),
            "{name}: the rival found another optimum"
        );
        println!("{name:<24} {ours:>8.2} ms {theirs:>8.0} ms {:>7.0}x  {objective:?}", theirs / ours);
    }
}

fn main() {
    divan::main();
    // `cargo test --all-targets` starts benchmarks too, to see that they run at all.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    match rival() {
        Some(python) => side_by_side(&python),
        None => println!(
            "\nno rival: python3 (or $RIVAL_PYTHON) has no `ortools`; see the head of benches/pack.rs"
        ),
    }
}
