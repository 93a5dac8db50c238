//! A generated fleet with churn, noise and traps: every verdict against the ground truth.

use std::collections::BTreeMap;

use serde_json::Value;

use super::bot::{ok, run};
use crate::world::fleet::{Fleet, FleetSpec, TrueWorkload, Way};
use crate::world::prometheus::Prometheus;
use crate::world::repo::BareRepo;

/// Usable MiB and share of the SMs of each plain slice, written down again from NVIDIA's tables so that a slip in the
/// catalog shows here.
fn slices(model: &str) -> &'static [(&'static str, u64, f64)] {
    match model {
        "NVIDIA A100-SXM4-40GB" => &[
            ("1g.5gb", 4_863, 14.0 / 108.0),
            ("1g.10gb", 9_855, 14.0 / 108.0),
            ("2g.10gb", 9_855, 28.0 / 108.0),
            ("3g.20gb", 19_968, 42.0 / 108.0),
            ("4g.20gb", 19_968, 56.0 / 108.0),
        ],
        "NVIDIA A100-SXM4-80GB" => &[
            ("1g.10gb", 9_728, 14.0 / 108.0),
            ("1g.20gb", 19_968, 14.0 / 108.0),
            ("2g.20gb", 19_968, 28.0 / 108.0),
            ("3g.40gb", 40_192, 42.0 / 108.0),
            ("4g.40gb", 40_192, 56.0 / 108.0),
        ],
        "NVIDIA H100 80GB HBM3" => &[
            ("1g.10gb", 9_984, 16.0 / 132.0),
            ("1g.20gb", 20_096, 26.0 / 132.0),
            ("2g.20gb", 20_096, 32.0 / 132.0),
            ("3g.40gb", 40_448, 60.0 / 132.0),
            ("4g.40gb", 40_448, 64.0 / 132.0),
        ],
        _ => &[],
    }
}

/// What a slice must offer for the true peak: 20 % on top, 512 MiB at least.
fn need(peak: u64) -> u64 {
    (peak * 6).div_ceil(5).max(peak + 512)
}

/// The generator's SM_ACTIVE is four fifths of the engine's activity.
const SM_OF_ENGINE: f64 = 0.8;

/// A slice holds the true peak with headroom and the true compute with its fill.
fn shareable(workload: &TrueWorkload) -> bool {
    workload.expected_class == "slice"
        && workload.gpus_per_pod == 1
        && slices(&workload.gpu_model).iter().any(|(_, memory, share)| {
            *memory >= need(workload.peak_fb_mib) && workload.peak_util * SM_OF_ENGINE <= 0.75 * share
        })
}

/// Every fit of the report, by cluster, namespace and name.
fn fits(document: &Value) -> BTreeMap<(String, String), Value> {
    let mut fits = BTreeMap::new();
    for cluster in document["clusters"].as_array().unwrap() {
        let name = cluster["name"].as_str().unwrap();
        let mut add = |fit: &Value| {
            fits.insert((name.to_owned(), fit["workload"].as_str().unwrap().to_owned()), fit.clone());
        };
        cluster["not_running"].as_array().unwrap().iter().for_each(&mut add);
        for pool in cluster["pools"].as_array().unwrap() {
            pool["kept"].as_array().unwrap().iter().for_each(&mut add);
            if let Some(items) = pool["proposal"]["items"].as_array() {
                items.iter().for_each(&mut add);
            }
        }
    }
    fits
}

fn report(prometheus: &Prometheus, fleet: &Fleet) -> Value {
    let home = tempfile::tempdir().unwrap();
    let repo = BareRepo::from_folder(&fleet.infra());
    let clusters: std::collections::BTreeSet<&str> =
        fleet.truth.workloads.iter().map(|workload| workload.cluster.as_str()).collect();
    let mut config = String::from("policy: {min_history_days: 7}\nwindow_days: 7\nclusters:\n");
    for cluster in clusters {
        config.push_str(&format!(
            "  - name: {cluster}\n    prometheus: {{url: '{}', matchers: {{cluster: {cluster}}}}}\n    repository: \
             {{path: {}, merge_requests: {}/mr, folders: [clusters/{cluster}/]}}\n    gpu_operator: {{mig_strategy: \
             mixed, version: 25.10.1}}\n",
            prometheus.url(),
            repo.path().display(),
            home.path().display(),
        ));
    }
    std::fs::write(home.path().join("slicewright.yaml"), config).unwrap();
    let at = jiff_time(fleet.truth.meta.end);
    let output = run(home.path(), &["propose", "--dry-run", "--output", "json", "--at", &at]);
    serde_json::from_str(&ok(&output)).unwrap()
}

fn jiff_time(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).unwrap().to_string()
}

fn check(spec: &FleetSpec) {
    let (fleet, prometheus) = Fleet::start(spec, Way::RemoteWrite);
    let document = report(&prometheus, &fleet);
    let fits = fits(&document);
    let (mut unsafe_ones, mut missed, mut n_shareable) = (Vec::new(), Vec::new(), 0);
    for workload in &fleet.truth.workloads {
        let key = (workload.cluster.clone(), format!("{}/{}", workload.namespace, workload.name));
        let who = format!("{}/{} ({})", key.0, key.1, workload.kind);
        let fit = fits.get(&key);
        let profile = fit.and_then(|fit| fit["profile"].as_str());
        if let Some(profile) = profile {
            let slice = slices(&workload.gpu_model).iter().find(|(name, ..)| *name == profile);
            let fits_memory = slice.is_some_and(|(_, memory, _)| *memory >= need(workload.peak_fb_mib));
            if !fits_memory || workload.gpus_per_pod > 1 || workload.expected_class == "opaque-memory" {
                unsafe_ones.push(format!("{who} gets {profile} and peaks at {} MiB", workload.peak_fb_mib));
            }
        }
        if shareable(workload) {
            n_shareable += 1;
            if profile.is_none() {
                let why =
                    fit.map_or_else(|| "not in the report".to_owned(), |fit| fit["reasons"].to_string());
                missed.push(format!("{who}: {why}"));
            }
        }
    }
    assert!(unsafe_ones.is_empty(), "{unsafe_ones:#?}");
    assert!(n_shareable > 0, "the fleet has nothing to share");
    assert!(missed.len() * 20 <= n_shareable, "missed {} of {n_shareable}: {missed:#?}", missed.len());
}

#[test]
fn two_hundred_cards_over_a_week_are_judged_safely_and_found() {
    check(&FleetSpec {
        gpus: 200,
        days: 7,
        step: 60,
        clusters: 2,
        shared: "0.08",
        infra: true,
        options: vec!["--metrics", "full"],
        ..FleetSpec::default()
    });
}

#[test]
fn gaps_swapped_cards_and_exported_labels_change_no_verdict_for_the_worse() {
    check(&FleetSpec {
        gpus: 48,
        days: 7,
        step: 240,
        seed: 5,
        shared: "0.1",
        infra: true,
        options: vec![
            "--metrics",
            "full",
            "--noise",
            "real",
            "--scrape-labels",
            "exported",
            "--hostname-label",
            "hostname",
            "--no-owner",
            "none",
            "--time-slicing",
            "duplicate",
        ],
        ..FleetSpec::default()
    });
}
