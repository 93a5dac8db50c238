//! How much time a run takes over the time that Prometheus itself spends on its questions.
//!
//! `cargo bench --bench measure` generates 200 cards over 7 days at 60 s in a real Prometheus (needs what `tests/run`
//! installs), runs `propose --dry-run` three times, and prints the medians. The rival is the server: a client that adds
//! nothing would take its time alone, and two questions at once may take half of it.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on ends there")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
#![allow(dead_code, unused_imports, reason = "the world is the tests': the benchmark needs a part of it")]

#[path = "../tests/world/mod.rs"]
mod world;

use std::time::Instant;

use slicewright::engine::Engine;
use slicewright::engine::propose::Wishes;
use slicewright::settings::ServiceSettings;
use world::fleet::{Fleet, FleetSpec, Way};
use world::repo::BareRepo;

const RUNS: usize = 3;

fn main() {
    let spec = FleetSpec {
        gpus: 200,
        days: 7,
        step: 60,
        infra: true,
        options: vec!["--metrics", "full"],
        ..FleetSpec::default()
    };
    let (fleet, prometheus) = Fleet::start(&spec, Way::RemoteWrite);
    let repo = BareRepo::from_folder(&fleet.infra());
    let config = format!(
        "policy: {{min_history_days: 7}}\nwindow_days: 7\nclusters:\n  - name: c1\n    prometheus: {{url: '{}'}}\n    \
         repository: {{path: {}}}\n    gpu_operator: {{mig_strategy: mixed, version: 25.10.1}}\n",
        prometheus.url(),
        repo.path().display()
    );
    let settings = ServiceSettings::parse(&config, "benchmark", std::path::Path::new("/")).unwrap();
    let engine = Engine::new(settings).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let at = jiff::Timestamp::from_second(fleet.truth.meta.end).unwrap();

    let mut rows: Vec<(f64, f64, f64)> = Vec::new();
    let mut n_queries = 0;
    for _ in 0..RUNS {
        let started = Instant::now();
        let inputs = engine.live(None, at).unwrap();
        let wishes = Wishes { dry_run: true, ..Wishes::default() };
        let report = runtime.block_on(engine.propose(&inputs, &wishes, &slicewright::engine::Quiet)).unwrap();
        let wall = started.elapsed().as_secs_f64();
        let stats = &report.clusters[0].analysis.stats;
        n_queries = stats.n_queries;
        rows.push((wall, stats.server_seconds, stats.wall_seconds));
    }
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (wall, server, asking) = rows[RUNS / 2];
    println!("200 cards, 7 days at 60 s: {:.1} million samples", fleet.truth.meta.samples as f64 / 1e6);
    println!("{n_queries} queries, whatever the number of workloads ({})", fleet.truth.workloads.len());
    println!("whole run {wall:.2} s, of that asking {asking:.2} s; the server's own time {server:.2} s");
    println!("whole run over the server's own time: {:.2}", wall / server);
}
