//! Runs every instance of `tests/cases/packing` against its proven optimum.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::cards::{fewest_cards, fewest_cards_for};
use super::check::check;
use super::instance::{Instance, Model, models, read};
use super::limited::{Substitution, limited};
use super::rows::Rows;
use super::time_slicing::{Limits, Pod, time_slicing};
use super::{CardState, NodeState, Problem, demand_with_surge, pack};

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

#[expect(clippy::disallowed_methods, reason = "more cases may live outside of the repository")]
fn folders() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/packing");
    let extra = std::env::var("SLICEWRIGHT_EXTRA_CASES").ok().map(|dir| Path::new(&dir).join("packing"));
    std::iter::once(own).chain(extra).collect()
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
