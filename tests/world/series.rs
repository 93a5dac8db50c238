//! The metrics of a hand-made cluster: what a Prometheus holds after scraping DCGM exporter and kube-state-metrics.
//!
//! Every value is chosen by the test, nothing is random: a peak is exactly the peak that was asked for.
//! Large fleets with noise come from `fleet`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use slicewright_core::catalog::ProfileName;
use slicewright_core::ids::short_hash;

/// 2026-01-15 00:00:00 UTC: the end of every hand-made window, and of the generated fleets by default.
pub(crate) const END: i64 = 1_768_435_200;
/// Seconds between two scrapes. Divides a day.
pub(crate) const STEP: i64 = 300;
/// A scrape happens this long before each full step, so that a UTC day holds exactly 288 samples whether its window is
/// open or closed at either end, and an instant query at [`END`] still sees the last one (five minutes look-back).
pub(crate) const SCRAPE_LEAD: i64 = 15;

const DAY: i64 = 86_400;
const SAMPLES_A_DAY: usize = 288;
const GIB: u64 = 1 << 30;

/// One series: a name, its labels, and one sample a step from `first` on.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: &'static str,
    /// Sorted by name, without empty values.
    pub(crate) labels: Vec<(String, String)>,
    /// Time of the first sample, in seconds.
    pub(crate) first: i64,
    pub(crate) values: Vec<f64>,
}

/// How exporters and the scrape were set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialect {
    pub(crate) host_label: HostLabel,
    pub(crate) pod_labels: PodLabels,
    /// Whether series carry `cluster`.
    pub(crate) cluster_label: bool,
    /// Whether the exporter was told to collect `SM_ACTIVE`, which no default does.
    pub(crate) sm_active: bool,
    /// Whether profiling metrics exist at all.
    pub(crate) profiling: bool,
    /// Whether kube-state-metrics may expose node labels.
    pub(crate) node_labels: bool,
    /// Whether the exporter prints a cut card beside its instances (`-d g+i`).
    pub(crate) parents: bool,
}

impl Default for Dialect {
    fn default() -> Self {
        Self {
            host_label: HostLabel::Upper,
            pod_labels: PodLabels::Plain,
            cluster_label: true,
            sm_active: true,
            profiling: true,
            node_labels: true,
            parents: false,
        }
    }
}

/// `Hostname` until exporter 4.8.2, `hostname` after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostLabel {
    Upper,
    Lower,
}

/// `pod` with honorLabels; without, `exported_pod` beside the exporter's own `pod`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodLabels {
    Plain,
    Exported,
}

/// A cluster and its history of `days` days up to [`END`].
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) name: String,
    pub(crate) days: u32,
    pub(crate) dialect: Dialect,
    /// Names and labels, for `kube_namespace_labels`.
    pub(crate) namespaces: Vec<(String, Vec<(String, String)>)>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) workloads: Vec<Workload>,
}

/// A kind of card, as the driver names and measures it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CardModel {
    /// DCGM's `modelName`.
    pub(crate) model_name: &'static str,
    /// GPU feature discovery's `nvidia.com/gpu.product`.
    pub(crate) product: &'static str,
    pub(crate) memory_mib: u64,
    /// What `FB_FREE` leaves out. 0: the exporter counts it as used, so that used and free make up the whole card.
    pub(crate) reserved_mib: u64,
    pub(crate) mig_capable: bool,
}

pub(crate) const A100_40: CardModel = CardModel {
    model_name: "NVIDIA A100-SXM4-40GB",
    product: "NVIDIA-A100-SXM4-40GB",
    memory_mib: 40_960,
    reserved_mib: 504,
    mig_capable: true,
};
pub(crate) const A100_80: CardModel = CardModel {
    model_name: "NVIDIA A100-SXM4-80GB",
    product: "NVIDIA-A100-SXM4-80GB",
    memory_mib: 81_920,
    reserved_mib: 633,
    mig_capable: true,
};
pub(crate) const A10G: CardModel = CardModel {
    model_name: "NVIDIA A10G",
    product: "NVIDIA-A10G",
    memory_mib: 23_028,
    reserved_mib: 0,
    mig_capable: false,
};

/// A node with `n_cards` cards of one model.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) model: CardModel,
    pub(crate) n_cards: usize,
    pub(crate) driver: String,
    /// Labels beside those that GPU feature discovery sets, with their Kubernetes names.
    pub(crate) labels: Vec<(String, String)>,
    /// Key, value and effect.
    pub(crate) taints: Vec<(String, String, String)>,
    pub(crate) cpu_cores: u32,
    pub(crate) memory_gib: u64,
    pub(crate) max_pods: u32,
    /// `none`, `single` or `mixed`: what the operator was told.
    pub(crate) mig_strategy: &'static str,
    /// Cards that MIG cuts, from some day on.
    pub(crate) cuts: Vec<Cut>,
}

/// A card that is cut into MIG instances from a day of the window on, and whole before.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    pub(crate) card: usize,
    pub(crate) from_day: u32,
    pub(crate) instances: Vec<Instance>,
}

/// One MIG instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instance {
    /// DCGM's `GPU_I_ID`.
    pub(crate) id: &'static str,
    /// List spelling: what the device plugin makes the resource's name from.
    pub(crate) profile: &'static str,
    /// DCGM's `GPU_I_PROFILE`, which a DCGM older than the driver leaves blank.
    pub(crate) printed: &'static str,
    pub(crate) usable_mib: u64,
}

impl Instance {
    /// One whose profile DCGM knows.
    pub(crate) fn new(id: &'static str, profile: &'static str, usable_mib: u64) -> Self {
        Self { id, profile, printed: profile, usable_mib }
    }

    fn name(&self) -> ProfileName {
        self.profile.parse().expect("a profile in list spelling")
    }
}

impl Node {
    fn cut(&self, card: usize) -> Option<&Cut> {
        self.cuts.iter().find(|cut| cut.card == card)
    }

    /// Stretches of days in which no card changes between whole and cut.
    fn spans(&self, days: u32) -> Vec<Range<u32>> {
        let mut edges: Vec<u32> = self.cuts.iter().map(|cut| cut.from_day).chain([0, days]).collect();
        edges.sort_unstable();
        edges.dedup();
        edges.windows(2).map(|pair| pair[0]..pair[1]).collect()
    }

    /// Instances that exist on `day`.
    fn instances(&self, day: u32) -> Vec<&Instance> {
        self.cuts.iter().filter(|cut| cut.from_day <= day).flat_map(|cut| &cut.instances).collect()
    }

    fn is_single(&self, day: u32) -> bool {
        self.mig_strategy == "single" && !self.instances(day).is_empty()
    }

    /// Allocatable GPU resources on `day`, as kube-state-metrics prints them.
    fn gpus(&self, day: u32) -> BTreeMap<String, usize> {
        let instances = self.instances(day);
        let cut = self.cuts.iter().filter(|cut| cut.from_day <= day).count();
        let whole = if self.is_single(day) { instances.len() } else { self.n_cards - cut };
        let mut gpus = BTreeMap::from([("nvidia_com_gpu".to_owned(), whole)]);
        if !self.is_single(day) {
            for instance in instances {
                *gpus.entry(instance.name().sanitised_resource()).or_default() += 1;
            }
        }
        gpus
    }
}

/// A workload whose pods ran on the same cards for all of `days`.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) kind: Kind,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) container: String,
    /// One entry a pod: the node and its cards.
    pub(crate) pods: Vec<(String, Range<usize>)>,
    /// One entry a pod: the instance of its card that it holds. Empty: whole cards.
    pub(crate) slices: Vec<&'static str>,
    /// Days of the window, counted from its start, in which it ran.
    pub(crate) days: Range<u32>,
    pub(crate) load: Load,
    /// Of each pod.
    pub(crate) cpu_millicores: u32,
    /// Of each pod.
    pub(crate) memory_gib: u64,
    /// `maxSurge` of a Deployment's rolling update, in pods.
    pub(crate) max_surge: Option<u32>,
    /// Least and most replicas of a HorizontalPodAutoscaler.
    pub(crate) hpa: Option<(u32, u32)>,
    /// Labels of the pod that kube-state-metrics exposes.
    pub(crate) pod_labels: Vec<(String, String)>,
}

/// What owns the pods, as kube-state-metrics sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Deployment,
    StatefulSet,
    Job,
    PyTorchJob,
}

/// What each card of a pod shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) memory: Memory,
    /// Level while busy, 0 to 1: the p99 of every day.
    pub(crate) sm_active: f64,
    pub(crate) gr_engine_active: f64,
    pub(crate) dram_active: f64,
    pub(crate) rhythm: Rhythm,
}

/// `FB_USED` over time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Memory {
    /// `base_mib`, and half an hour of `peak_mib` from 09:00 UTC on day `peak_day` of the window.
    Peak { base_mib: u64, peak_mib: u64, peak_day: u32 },
    /// The same figure from the first to the last sample.
    Flat { mib: u64 },
}

/// When the card is busy. A tenth of the level at other times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rhythm {
    /// 08:00 to 18:00 UTC.
    Daytime,
    Always,
}

impl Cluster {
    /// Start of the window, in seconds.
    pub(crate) fn start(&self) -> i64 {
        END - i64::from(self.days) * DAY
    }

    /// The UUID of one card: fixed by the names alone, spread over the first hex digit.
    pub(crate) fn card_uuid(&self, node: &str, card: usize) -> String {
        let hex = short_hash(&format!("{}/{node}/{card}", self.name), 32);
        let part = |range: Range<usize>| hex.get(range).expect("a hash has 32 digits");
        format!("GPU-{}-{}-4{}-a{}-{}", part(0..8), part(8..12), part(13..16), part(17..20), part(20..32))
    }

    /// The name of one pod of a workload.
    pub(crate) fn pod_name(&self, workload: &Workload, pod: usize) -> String {
        let name = &workload.name;
        match workload.kind {
            Kind::Deployment => {
                format!("{}-{}", replicaset_name(workload), generated(&format!("{name}/{pod}"), 5))
            }
            Kind::StatefulSet => format!("{name}-{pod}"),
            Kind::Job => format!("{name}-{}", generated(&format!("{name}/{pod}"), 5)),
            Kind::PyTorchJob if pod == 0 => format!("{name}-master-0"),
            Kind::PyTorchJob => format!("{name}-worker-{}", pod - 1),
        }
    }

    /// All series of the cluster, in a fixed order.
    pub(crate) fn series(&self) -> Vec<Series> {
        let mut out = Collector { cluster: self, series: Vec::new() };
        self.nodes.iter().for_each(|node| out.node(node));
        for (name, labels) in &self.namespaces {
            let mut all = vec![("namespace", name.as_str())];
            let labels = exposed(labels);
            all.extend(labels.iter().map(|(key, value)| (key.as_str(), value.as_str())));
            out.constant("kube_namespace_labels", &all, 1.0);
        }
        self.workloads.iter().for_each(|workload| out.workload(workload));
        out.series
    }

    /// Writes one OpenMetrics file a UTC day, for `promtool tsdb create-blocks-from openmetrics`.
    pub(crate) fn write_openmetrics(&self, folder: &Path) -> Vec<PathBuf> {
        let mut series = self.series();
        series.sort_by(|a, b| (a.name, &a.labels).cmp(&(b.name, &b.labels)));
        let days = 0..i64::from(self.days);
        days.map(|day| {
            let from = self.start() + day * DAY;
            let mut text = String::new();
            let mut family = "";
            for one in &series {
                if one.name != family {
                    family = one.name;
                    writeln!(text, "# TYPE {family} gauge").unwrap();
                }
                let labels: Vec<String> =
                    one.labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
                let id = format!("{family}{{{}}}", labels.join(","));
                for (value, time) in one.values.iter().zip((0..).map(|n| one.first + n * STEP)) {
                    if (from..from + DAY).contains(&time) {
                        writeln!(text, "{id} {value} {time}").unwrap();
                    }
                }
            }
            text.push_str("# EOF\n");
            let path = folder.join(format!("{}-day-{day:03}.om", self.name));
            std::fs::write(&path, text).unwrap();
            path
        })
        .collect()
    }
}

struct Collector<'a> {
    cluster: &'a Cluster,
    series: Vec<Series>,
}

impl Collector<'_> {
    fn add(
        &mut self,
        name: &'static str,
        job: &str,
        labels: &[(&str, &str)],
        days: Range<u32>,
        values: Vec<f64>,
    ) {
        let mut labels: Vec<(String, String)> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        labels.push(("job".to_owned(), job.to_owned()));
        if self.cluster.dialect.cluster_label {
            labels.push(("cluster".to_owned(), self.cluster.name.clone()));
        }
        labels.retain(|(_, value)| !value.is_empty());
        labels.sort();
        let first = self.cluster.start() + i64::from(days.start) * DAY + STEP - SCRAPE_LEAD;
        self.series.push(Series { name, labels, first, values });
    }

    /// A kube-state-metrics series that never changes.
    fn constant(&mut self, name: &'static str, labels: &[(&str, &str)], value: f64) {
        self.constant_in(name, labels, 0..self.cluster.days, value);
    }

    fn constant_in(&mut self, name: &'static str, labels: &[(&str, &str)], days: Range<u32>, value: f64) {
        let mut labels = labels.to_vec();
        labels.push(("instance", "kube-state-metrics:8080"));
        let values = vec![value; days.len() * SAMPLES_A_DAY];
        self.add(name, "kube-state-metrics", &labels, days, values);
    }

    fn node(&mut self, node: &Node) {
        let name = node.name.as_str();
        for span in node.spans(self.cluster.days) {
            if self.cluster.dialect.node_labels {
                self.node_labels(node, span.clone());
            }
            for (resource, amount) in node.gpus(span.start) {
                for metric in ["kube_node_status_allocatable", "kube_node_status_capacity"] {
                    let labels = [("node", name), ("resource", &resource), ("unit", "integer")];
                    self.constant_in(metric, &labels, span.clone(), amount as f64);
                }
            }
        }
        let info = [
            ("node", name),
            ("kubelet_version", "v1.33.2"),
            ("container_runtime_version", "containerd://1.7.27"),
            ("os_image", "Ubuntu 22.04.5 LTS"),
        ];
        self.constant("kube_node_info", &info, 1.0);
        for (key, value, effect) in &node.taints {
            let labels = [("node", name), ("key", key), ("value", value), ("effect", effect)];
            self.constant("kube_node_spec_taint", &labels, 1.0);
        }
        let amounts = [
            ("cpu", "core", f64::from(node.cpu_cores)),
            ("memory", "byte", (node.memory_gib * GIB) as f64),
            ("ephemeral_storage", "byte", (400 * GIB) as f64),
            ("pods", "integer", f64::from(node.max_pods)),
        ];
        for (resource, unit, amount) in amounts {
            for metric in ["kube_node_status_allocatable", "kube_node_status_capacity"] {
                self.constant(metric, &[("node", name), ("resource", resource), ("unit", unit)], amount);
            }
        }
        let exporter = exporter_pod(name);
        let pod = PodFacts {
            namespace: "gpu-operator",
            name: &exporter,
            container: EXPORTER,
            node: name,
            owner: ("DaemonSet", "nvidia-dcgm-exporter"),
        };
        self.pod(&pod, 0..self.cluster.days, &[("cpu", "core", 0.1), ("memory", "byte", (GIB / 4) as f64)]);
        self.idle_cards(node);
    }

    fn node_labels(&mut self, node: &Node, span: Range<u32>) {
        let name = node.name.as_str();
        let instances = node.instances(span.start);
        let single = instances.first().filter(|_| node.is_single(span.start));
        let memory = single.map_or(node.model.memory_mib, |instance| instance.usable_mib).to_string();
        let count = if single.is_some() { instances.len() } else { node.n_cards }.to_string();
        let product =
            node.model.product.to_owned() + &single.map_or(String::new(), |one| one.name().label_suffix());
        let mut labels: Vec<(String, String)> = [
            ("kubernetes.io/hostname", name),
            ("nvidia.com/gpu.present", "true"),
            ("nvidia.com/gpu.product", &product),
            ("nvidia.com/gpu.memory", &memory),
            ("nvidia.com/gpu.count", &count),
            ("nvidia.com/gpu.replicas", "1"),
            ("nvidia.com/gpu.sharing-strategy", "none"),
            ("nvidia.com/cuda.driver-version.full", &node.driver),
            ("nvidia.com/mig.capable", if node.model.mig_capable { "true" } else { "false" }),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .to_vec();
        // The operator's labels; without it nobody sets them.
        if node.model.mig_capable && !node.mig_strategy.is_empty() {
            let set = [
                ("nvidia.com/mig.config", if instances.is_empty() { "all-disabled" } else { "cut" }),
                ("nvidia.com/mig.config.state", "success"),
                ("nvidia.com/mig.strategy", node.mig_strategy),
            ];
            labels.extend(set.map(|(key, value)| (key.to_owned(), value.to_owned())));
        }
        for (key, value) in &node.labels {
            labels.retain(|(known, _)| known != key);
            labels.push((key.clone(), value.clone()));
        }
        let labels = exposed(&labels);
        let mut all = vec![("node", name)];
        all.extend(labels.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        self.constant_in("kube_node_labels", &all, span, 1.0);
    }

    /// Cards and instances that nothing ever ran on: series without a pod, or with the exporter's own.
    fn idle_cards(&mut self, node: &Node) {
        let idle = Load {
            memory: Memory::Flat { mib: 0 },
            sm_active: 0.0,
            gr_engine_active: 0.0,
            dram_active: 0.0,
            rhythm: Rhythm::Always,
        };
        let days = self.cluster.days;
        for card in 0..node.n_cards {
            let cut = node.cut(card);
            let whole = 0..cut.map_or(days, |cut| cut.from_day);
            if !whole.is_empty() && !self.is_taken(node, card, None) {
                self.card(node, card, None, None, whole.clone(), &idle);
            }
            let Some(cut) = cut else { continue };
            for instance in &cut.instances {
                if !self.is_taken(node, card, Some(instance.id)) {
                    self.card(node, card, Some(instance), None, cut.from_day..days, &idle);
                }
            }
            if self.cluster.dialect.parents {
                self.card(node, card, None, None, cut.from_day..days, &idle);
            }
        }
    }

    fn is_taken(&self, node: &Node, card: usize, instance: Option<&str>) -> bool {
        self.cluster.workloads.iter().any(|workload| {
            let mut pods = workload.pods.iter().enumerate();
            pods.any(|(n, (on, cards))| {
                *on == node.name && cards.contains(&card) && workload.slices.get(n).copied() == instance
            })
        })
    }

    /// DCGM's series of one card, or of one instance of it, while one pod holds it: namespace, pod, container.
    fn card(
        &mut self,
        node: &Node,
        card: usize,
        instance: Option<&Instance>,
        pod: Option<(&str, &str, &str)>,
        days: Range<u32>,
        load: &Load,
    ) {
        let dialect = self.cluster.dialect;
        let uuid = self.cluster.card_uuid(&node.name, card);
        let index = card.to_string();
        let device = format!("nvidia{card}");
        let bus = format!("00000000:{:02X}:00.0", 7 + 8 * card);
        let target = format!("{}:9400", node.name);
        let exporter = exporter_pod(&node.name);
        let host = match dialect.host_label {
            HostLabel::Upper => "Hostname",
            HostLabel::Lower => "hostname",
        };
        let mut labels = vec![
            ("gpu", index.as_str()),
            ("UUID", &uuid),
            ("pci_bus_id", &bus),
            ("device", &device),
            ("modelName", node.model.model_name),
            (host, &node.name),
            ("DCGM_FI_DRIVER_VERSION", &node.driver),
            ("instance", &target),
        ];
        if let Some(instance) = instance {
            labels.extend([("GPU_I_ID", instance.id), ("GPU_I_PROFILE", instance.printed)]);
        }
        if dialect.pod_labels == PodLabels::Exported {
            labels.extend([("namespace", "gpu-operator"), ("pod", &exporter), ("container", EXPORTER)]);
        }
        if let Some((namespace, pod, container)) = pod {
            let keys = match dialect.pod_labels {
                PodLabels::Plain => ["namespace", "pod", "container"],
                PodLabels::Exported => ["exported_namespace", "exported_pod", "exported_container"],
            };
            labels.extend(keys.into_iter().zip([namespace, pod, container]));
        }
        let used: Vec<f64> = days
            .clone()
            .flat_map(|day| (0..SAMPLES_A_DAY).map(move |sample| load.memory.at(day, sample) as f64))
            .collect();
        let whole = node.model.memory_mib - node.model.reserved_mib;
        let sum = instance.map_or(whole, |instance| instance.usable_mib) as f64;
        let free = used.iter().map(|mib| sum - mib).collect();
        let n = used.len();
        let level = |busy: f64| load.rhythm.levels(busy, n);
        let mut add = |name, values: Vec<f64>| self.add(name, EXPORTER, &labels, days.clone(), values);
        add("DCGM_FI_DEV_FB_USED", used);
        add("DCGM_FI_DEV_FB_FREE", free);
        // None of these is supported on MIG.
        if instance.is_none() {
            if node.model.reserved_mib > 0 {
                add("DCGM_FI_DEV_FB_RESERVED", vec![node.model.reserved_mib as f64; n]);
            }
            let percent = (load.gr_engine_active * 100.0).ceil();
            add("DCGM_FI_DEV_GPU_UTIL", level(percent).iter().map(|value| value.ceil()).collect());
            let copying = level(percent / 2.0).iter().map(|value| value.ceil()).collect();
            add("DCGM_FI_DEV_MEM_COPY_UTIL", copying);
            add("DCGM_FI_DEV_ENC_UTIL", vec![0.0; n]);
            add("DCGM_FI_DEV_DEC_UTIL", vec![0.0; n]);
        }
        if dialect.profiling {
            add("DCGM_FI_PROF_GR_ENGINE_ACTIVE", level(load.gr_engine_active));
            add("DCGM_FI_PROF_DRAM_ACTIVE", level(load.dram_active));
            add("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", level(load.sm_active / 4.0));
            if dialect.sm_active {
                add("DCGM_FI_PROF_SM_ACTIVE", level(load.sm_active));
            }
        }
    }

    fn workload(&mut self, workload: &Workload) {
        let Workload { namespace, name, days, .. } = workload;
        let replicas = workload.pods.len() as f64;
        let id = |key| [("namespace", namespace.as_str()), (key, name.as_str())];
        let replicaset = replicaset_name(workload);
        let owner = match workload.kind {
            Kind::Deployment => {
                let owned = [
                    ("namespace", namespace.as_str()),
                    ("replicaset", &replicaset),
                    ("owner_kind", "Deployment"),
                    ("owner_name", name),
                    ("owner_is_controller", "true"),
                ];
                self.constant_in("kube_replicaset_owner", &owned, days.clone(), 1.0);
                let deployment = id("deployment");
                for metric in ["kube_deployment_spec_replicas", "kube_deployment_status_replicas_available"] {
                    self.constant_in(metric, &deployment, days.clone(), replicas);
                }
                if let Some(surge) = workload.max_surge {
                    let metric = "kube_deployment_spec_strategy_rollingupdate_max_surge";
                    self.constant_in(metric, &deployment, days.clone(), f64::from(surge));
                    let metric = "kube_deployment_spec_strategy_rollingupdate_max_unavailable";
                    let unavailable = if surge == 0 { 1.0 } else { 0.0 };
                    self.constant_in(metric, &deployment, days.clone(), unavailable);
                }
                ("ReplicaSet", replicaset.as_str())
            }
            Kind::StatefulSet => {
                self.constant_in("kube_statefulset_replicas", &id("statefulset"), days.clone(), replicas);
                ("StatefulSet", name.as_str())
            }
            Kind::Job => {
                self.constant_in("kube_job_info", &id("job_name"), days.clone(), 1.0);
                self.constant_in("kube_job_owner", &id("job_name"), days.clone(), 1.0);
                self.constant_in("kube_job_spec_parallelism", &id("job_name"), days.clone(), replicas);
                ("Job", name.as_str())
            }
            Kind::PyTorchJob => ("PyTorchJob", name.as_str()),
        };
        if let Some((least, most)) = workload.hpa {
            let hpa = id("horizontalpodautoscaler");
            let mut info = hpa.to_vec();
            info.extend([
                ("scaletargetref_api_version", "apps/v1"),
                ("scaletargetref_kind", "Deployment"),
                ("scaletargetref_name", name),
            ]);
            self.constant_in("kube_horizontalpodautoscaler_info", &info, days.clone(), 1.0);
            let spec = "kube_horizontalpodautoscaler_spec_min_replicas";
            self.constant_in(spec, &hpa, days.clone(), f64::from(least));
            let spec = "kube_horizontalpodautoscaler_spec_max_replicas";
            self.constant_in(spec, &hpa, days.clone(), f64::from(most));
        }
        for (index, (on, cards)) in workload.pods.iter().enumerate() {
            let node = self.cluster.nodes.iter().find(|node| node.name == *on);
            let node = node.expect("a pod runs on a node of the cluster");
            let pod = self.cluster.pod_name(workload, index);
            let facts = PodFacts { namespace, name: &pod, container: &workload.container, node: on, owner };
            let instance = workload.slices.get(index).map(|id| {
                let cut = node.cut(cards.start).expect("a pod on a slice is on a cut card");
                cut.instances.iter().find(|instance| instance.id == *id).expect("its instance exists")
            });
            let resource = match instance {
                Some(instance) if node.mig_strategy != "single" => instance.name().sanitised_resource(),
                Some(_) | None => "nvidia_com_gpu".to_owned(),
            };
            let requests = [
                (resource.as_str(), "integer", cards.len() as f64),
                ("cpu", "core", f64::from(workload.cpu_millicores) / 1_000.0),
                ("memory", "byte", (workload.memory_gib * GIB) as f64),
            ];
            self.pod(&facts, days.clone(), &requests);
            if !workload.pod_labels.is_empty() {
                let uid = pod_uid(namespace, &pod);
                let labels = exposed(&workload.pod_labels);
                let mut all = vec![("namespace", namespace.as_str()), ("pod", &pod), ("uid", &uid)];
                all.extend(labels.iter().map(|(key, value)| (key.as_str(), value.as_str())));
                self.constant_in("kube_pod_labels", &all, days.clone(), 1.0);
            }
            for card in cards.clone() {
                let held = Some((namespace.as_str(), pod.as_str(), workload.container.as_str()));
                self.card(node, card, instance, held, days.clone(), &workload.load);
            }
        }
    }

    fn pod(&mut self, pod: &PodFacts<'_>, days: Range<u32>, requests: &[(&str, &str, f64)]) {
        let uid = pod_uid(pod.namespace, pod.name);
        let id = [("namespace", pod.namespace), ("pod", pod.name), ("uid", &uid)];
        let with = |more: &[(&'static str, &str)]| -> Vec<(String, String)> {
            id.iter().chain(more).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let mut add = |metric, labels: Vec<(String, String)>, value| {
            let labels: Vec<(&str, &str)> =
                labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            self.constant_in(metric, &labels, days.clone(), value);
        };
        let (owner_kind, owner_name) = pod.owner;
        let made_by = [
            ("node", pod.node),
            ("created_by_kind", owner_kind),
            ("created_by_name", owner_name),
            ("host_network", "false"),
        ];
        add("kube_pod_info", with(&made_by), 1.0);
        let owned = [("owner_kind", owner_kind), ("owner_name", owner_name), ("owner_is_controller", "true")];
        add("kube_pod_owner", with(&owned), 1.0);
        for phase in ["Pending", "Running", "Succeeded", "Failed", "Unknown"] {
            let value = if phase == "Running" { 1.0 } else { 0.0 };
            add("kube_pod_status_phase", with(&[("phase", phase)]), value);
        }
        // A pod of the whole window is older than the window.
        let earlier = if days.start == 0 { 3 } else { 0 };
        let started = self.cluster.start() + (i64::from(days.start) - earlier) * DAY;
        let mut add = |metric, labels: Vec<(String, String)>, value| {
            let labels: Vec<(&str, &str)> =
                labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            self.constant_in(metric, &labels, days.clone(), value);
        };
        add("kube_pod_start_time", with(&[]), started as f64);
        for (resource, unit, amount) in requests {
            let labels = with(&[
                ("container", pod.container),
                ("node", pod.node),
                ("resource", resource),
                ("unit", unit),
            ]);
            add("kube_pod_container_resource_requests", labels.clone(), *amount);
            if *resource != "cpu" {
                add("kube_pod_container_resource_limits", labels, *amount);
            }
        }
    }
}

struct PodFacts<'a> {
    namespace: &'a str,
    name: &'a str,
    container: &'a str,
    node: &'a str,
    /// Kind and name.
    owner: (&'a str, &'a str),
}

const EXPORTER: &str = "nvidia-dcgm-exporter";

impl Memory {
    fn at(self, day: u32, sample: usize) -> u64 {
        match self {
            Memory::Flat { mib } => mib,
            Memory::Peak { base_mib, peak_mib, peak_day } => {
                // 09:00 is sample 108 of a day; six samples are half an hour.
                let peak = day == peak_day && (108..114).contains(&sample);
                // A quiet night: allocators give some of it back.
                let night = !(96..216).contains(&sample);
                if peak {
                    peak_mib
                } else if night {
                    base_mib * 9 / 10
                } else {
                    base_mib
                }
            }
        }
    }
}

impl Rhythm {
    fn levels(self, busy: f64, n: usize) -> Vec<f64> {
        let on = |sample: usize| match self {
            Rhythm::Always => true,
            Rhythm::Daytime => (96..216).contains(&(sample % SAMPLES_A_DAY)),
        };
        (0..n).map(|sample| if on(sample) { busy } else { busy / 10.0 }).collect()
    }
}

/// Kubernetes labels as kube-state-metrics exposes them: `a.b/c-d` is `label_a_b_c_d`.
fn exposed(labels: &[(String, String)]) -> Vec<(String, String)> {
    let clean = |key: &str| key.replace(|c: char| !c.is_ascii_alphanumeric(), "_").to_lowercase();
    labels.iter().map(|(key, value)| (format!("label_{}", clean(key)), value.clone())).collect()
}

/// Text of Kubernetes' alphabet for generated names, fixed by `seed`.
fn generated(seed: &str, n: usize) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let hex = short_hash(seed, 2 * n);
    hex.as_bytes()
        .chunks(2)
        .map(|pair| {
            let pair = std::str::from_utf8(pair).expect("hex digits");
            let byte = usize::from_str_radix(pair, 16).expect("hex digits");
            char::from(ALPHABET[byte % ALPHABET.len()])
        })
        .collect()
}

/// A workload that moves to slices gets another pod template, and with it another ReplicaSet.
fn replicaset_name(workload: &Workload) -> String {
    let template = if workload.slices.is_empty() { "" } else { "/slices" };
    let seed = format!("{}/{}{template}", workload.namespace, workload.name);
    format!("{}-{}", workload.name, generated(&seed, 9))
}

fn exporter_pod(node: &str) -> String {
    format!("{EXPORTER}-{}", generated(node, 5))
}

fn pod_uid(namespace: &str, pod: &str) -> String {
    let hex = short_hash(&format!("{namespace}/{pod}"), 32);
    format!("{}-{}-4{}-a{}-{}", &hex[0..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..32])
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
