//! A generated fleet with noise and churn, in a real Prometheus, and the truth about it.
//!
//! `tests/tools/gen_fleet.py` makes it; the same parameters make the same fleet.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;
use tempfile::TempDir;

use super::prometheus::Prometheus;

/// What to generate.
#[derive(Clone, Debug)]
pub(crate) struct FleetSpec {
    pub(crate) gpus: u32,
    pub(crate) days: u32,
    /// Seconds between scrapes; below 300, or an instant query at the end sees nothing.
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

/// How the samples get into Prometheus. Both hold the same; the times are in the crate's notes on testing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Day files of JSON lines, sent by remote write series by series.
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
        let fleet = Self::generate(spec, way);
        let server = fleet.load(way);
        (fleet, server)
    }

    /// Runs the generator.
    pub(crate) fn generate(spec: &FleetSpec, way: Way) -> Self {
        let home = tempfile::tempdir().unwrap();
        let format = match way {
            Way::RemoteWrite => "vmjson",
            Way::Blocks => "openmetrics",
        };
        let mut command = Command::new(super::python_tool("python"));
        command.arg(super::checkout("tests/tools/gen_fleet.py")).arg("--out").arg(home.path());
        for (option, value) in [
            ("--gpus", spec.gpus),
            ("--days", spec.days),
            ("--step", spec.step),
            ("--seed", spec.seed),
            ("--clusters", spec.clusters),
        ] {
            command.arg(option).arg(value.to_string());
        }
        command.args(["--shared", spec.shared, "--format", format]);
        command.args(spec.infra.then_some("--infra")).args(&spec.options);
        let output = command.output().unwrap();
        assert!(output.status.success(), "gen_fleet.py: {}", String::from_utf8_lossy(&output.stderr));
        let truth = std::fs::read(home.path().join("truth.json")).unwrap();
        Self { truth: serde_json::from_slice(&truth).unwrap(), home }
    }

    /// The generated manifests; there when the spec asked for them.
    pub(crate) fn infra(&self) -> PathBuf {
        self.home.path().join("infra")
    }

    fn load(&self, way: Way) -> Prometheus {
        match way {
            Way::Blocks => Prometheus::from_openmetrics(&self.day_files("openmetrics")),
            Way::RemoteWrite => {
                let server = Prometheus::start();
                for file in self.day_files("vmjson") {
                    let file = std::fs::File::open(file).unwrap();
                    let lines: Vec<String> = BufReader::new(file).lines().map(Result::unwrap).collect();
                    let rows: Vec<Row<'_>> =
                        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
                    server.push_rows(rows.iter().map(|row| {
                        let labels = row.metric.iter().map(|(key, value)| (&**key, value.as_ref())).collect();
                        let samples = row.values.iter().copied().zip(row.timestamps.iter().copied());
                        (labels, samples.collect())
                    }));
                }
                server
            }
        }
    }

    fn day_files(&self, folder: &str) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(self.home.path().join(folder)).unwrap().map(|e| e.unwrap().path()).collect();
        files.sort();
        files
    }
}

#[derive(Deserialize)]
struct Row<'a> {
    #[serde(borrow)]
    metric: BTreeMap<&'a str, std::borrow::Cow<'a, str>>,
    values: Vec<f64>,
    timestamps: Vec<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

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
