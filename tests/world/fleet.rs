//! A generated fleet with noise and churn, in a real Prometheus, and the truth about it.
//!
//! `tests/tools/gen_fleet.py` makes it; the same parameters make the same fleet.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use tempfile::TempDir;

use super::prometheus::Prometheus;

/// What to generate.
#[derive(Clone, Debug)]
pub(crate) struct FleetSpec {
    pub(crate) gpus: u32,
    pub(crate) days: u32,
    /// Seconds between scrapes. The last one lies a step before the end: with 300 an instant query at the end still
    /// sees it in Prometheus 2, not in 3.
    pub(crate) step: u32,
    pub(crate) seed: u32,
    pub(crate) clusters: u32,
    /// Share of cards on nodes that are shared already, as the script wants it: `0`, `0.08`.
    pub(crate) shared: &'static str,
    /// Also write the Kubernetes manifests of the workloads.
    pub(crate) infra: bool,
    /// Further options of the script.
    pub(crate) options: Vec<&'static str>,
}

impl Default for FleetSpec {
    /// A small fleet for every run: 24 cards, three days, one cluster.
    fn default() -> Self {
        Self {
            gpus: 24,
            days: 3,
            step: 240,
            seed: 1,
            clusters: 1,
            shared: "0",
            infra: false,
            options: Vec::new(),
        }
    }
}

impl FleetSpec {
    /// The fleet of the demo, as `demo/make-metrics` writes it: the cluster of `demo/infra`.
    pub(crate) fn demo() -> Self {
        Self { gpus: 36, days: 14, seed: 80, options: vec!["--metrics", "full"], ..Self::default() }
    }
}

/// How the samples get into Prometheus. Both hold the same.
///
/// 200 cards, seven days at 60 s (19 million samples): 36 s, blocks more than five minutes, on two busy cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By remote write, without files.
    RemoteWrite,
    /// OpenMetrics day files made into blocks by `promtool`.
    Blocks,
}

/// A generated fleet: files and truth.
pub(crate) struct Fleet {
    home: TempDir,
    pub(crate) truth: Truth,
}

/// The parts of `truth.json` that tests compare with; the script's own text explains the fields.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Truth {
    pub(crate) meta: Meta,
    pub(crate) workloads: Vec<TrueWorkload>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Meta {
    /// Seconds; the window is `[start, end)`.
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) step: u32,
    pub(crate) samples: u64,
}

/// What one workload really did.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct TrueWorkload {
    pub(crate) cluster: String,
    pub(crate) namespace: String,
    pub(crate) owner_kind: String,
    pub(crate) name: String,
    /// The generator's kind, `inference-small`.
    pub(crate) kind: String,
    pub(crate) expected_class: String,
    pub(crate) gpu_model: String,
    pub(crate) gpu_mem_mib: u64,
    /// `none`, `ts:4` or `mig:1g.10gb`.
    pub(crate) node_mode: String,
    pub(crate) gpus_per_pod: u32,
    /// Resource, spelled as kube-state-metrics does, and count.
    pub(crate) request: BTreeMap<String, u32>,
    pub(crate) max_replicas: u32,
    pub(crate) pods: u32,
    pub(crate) peak_fb_mib: u64,
    pub(crate) peak_fb_at: i64,
    pub(crate) peak_fb_pod: String,
    /// Engine-active ratio, 0 to 1.
    pub(crate) peak_util: f64,
    pub(crate) p95_util: f64,
    pub(crate) mean_util: f64,
}

impl Fleet {
    /// Generates a fleet and puts it into a Prometheus of its own.
    pub(crate) fn start(spec: &FleetSpec, way: Way) -> (Self, Prometheus) {
        let home = tempfile::tempdir().unwrap();
        match way {
            Way::RemoteWrite => {
                let server = Prometheus::start();
                let push = format!("{}/api/v1/write", server.url());
                run("tests/tools/push_fleet.py", spec, home.path(), &["--push", &push]);
                (Self::read(home), server)
            }
            Way::Blocks => {
                run("tests/tools/gen_fleet.py", spec, home.path(), &["--format", "openmetrics"]);
                let folder = home.path().join("openmetrics");
                let files = super::repo::files_below(&folder).into_iter().map(|name| folder.join(name));
                let server = Prometheus::from_openmetrics(&files.collect::<Vec<_>>());
                (Self::read(home), server)
            }
        }
    }

    /// Files and truth without a Prometheus; no series are written.
    pub(crate) fn truth_of(spec: &FleetSpec) -> Self {
        let home = tempfile::tempdir().unwrap();
        run("tests/tools/gen_fleet.py", spec, home.path(), &["--format", "none"]);
        Self::read(home)
    }

    fn read(home: TempDir) -> Self {
        let truth = std::fs::read(home.path().join("truth.json")).unwrap();
        Self { truth: serde_json::from_slice(&truth).unwrap(), home }
    }

    /// The generated manifests; there when the spec asked for them.
    pub(crate) fn infra(&self) -> PathBuf {
        self.home.path().join("infra")
    }
}

fn run(script: &str, spec: &FleetSpec, out: &Path, more: &[&str]) {
    let mut command = Command::new(super::python_tool("python"));
    // Nothing is left behind in the checkout, not even compiled modules.
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command.arg(super::checkout(script)).arg("--out").arg(out);
    for (option, value) in [
        ("--gpus", spec.gpus),
        ("--days", spec.days),
        ("--step", spec.step),
        ("--seed", spec.seed),
        ("--clusters", spec.clusters),
    ] {
        command.arg(option).arg(value.to_string());
    }
    command.args(["--shared", spec.shared]).args(spec.infra.then_some("--infra"));
    let output = command.args(&spec.options).args(more).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Namespace, name and kind of the objects that own GPU pods, as files say: one `kind:` a document, by convention.
    fn owners_below(folder: &Path) -> Vec<String> {
        let mut out = Vec::new();
        for file in crate::world::kubernetes::manifests_below(folder) {
            let text = std::fs::read_to_string(file).unwrap();
            let document = text.split("\n---\n").find(|text| text.contains("nvidia.com/gpu: ")).unwrap_or("");
            let field = |name: &str| {
                let start = document.find(&format!("{name}: "))? + name.len() + 2;
                document[start..].split([',', '}', '\n']).next()
            };
            let metadata = document.find("metadata:").map_or("", |at| &document[at..]);
            let named =
                metadata.split(['{', ',', '\n', '}']).find_map(|part| part.trim().strip_prefix("name: "));
            if let (Some(namespace), Some(name), Some(kind)) = (field("namespace"), named, field("kind")) {
                out.push(format!("{namespace}/{name} {kind}"));
            }
        }
        out.sort();
        out
    }

    #[test]
    fn the_demo_repository_owns_the_workloads_of_the_demo_fleet() {
        let fleet = Fleet::truth_of(&FleetSpec::demo());
        let mut expected: Vec<String> = fleet
            .truth
            .workloads
            .iter()
            .map(|one| format!("{}/{} {}", one.namespace, one.name, one.owner_kind))
            .collect();
        expected.sort();
        assert_eq!(owners_below(&crate::world::checkout("demo/infra/apps")), expected);
    }

    #[test]
    fn the_golden_repositories_own_the_workloads_of_the_golden_clusters() {
        use crate::world::golden;
        let clusters = [golden::dc1(), golden::dev_use1(golden::Notebooks::Dev), golden::train1()];
        for cluster in clusters {
            let mut expected: Vec<String> = cluster
                .workloads
                .iter()
                .map(|one| format!("{}/{} {:?}", one.namespace, one.name, one.kind))
                .collect();
            expected.sort();
            let folder = crate::world::repo::example(&format!("golden-{}", cluster.name));
            assert_eq!(owners_below(&folder), expected, "{}", cluster.name);
            let texts: String = crate::world::kubernetes::manifests_below(&folder)
                .iter()
                .map(|file| std::fs::read_to_string(file).unwrap())
                .collect();
            for node in &cluster.nodes {
                assert!(texts.contains(&format!("  name: {}\n", node.name)), "{}", node.name);
            }
        }
    }

    #[test]
    fn peaks_of_a_generated_fleet_equal_its_truth() {
        let (fleet, server) = Fleet::start(&FleetSpec::default(), Way::RemoteWrite);
        let Meta { start, end, .. } = fleet.truth.meta;
        let query = format!(
            "max by (namespace, pod) (max_over_time(DCGM_FI_DEV_FB_USED{{pod!=\"\"}}[{}s]))",
            end - start
        );
        let rows = server.instant(&query, end);
        let peaks: BTreeMap<(&str, &str), f64> = rows
            .iter()
            .map(|(labels, peak)| ((labels["namespace"].as_str(), labels["pod"].as_str()), *peak))
            .collect();
        assert!(fleet.truth.workloads.len() > 10);
        for workload in &fleet.truth.workloads {
            let found = peaks[&(workload.namespace.as_str(), workload.peak_fb_pod.as_str())];
            assert!((found - workload.peak_fb_mib as f64).abs() < 0.1, "{}: {found}", workload.name);
        }
        assert!(!server.instant("kube_node_labels", end).is_empty(), "the last scrape is seen at the end");
    }
}
