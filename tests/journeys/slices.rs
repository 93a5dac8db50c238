//! Cards that MIG cuts already: who holds which instance, what it has, and what is remembered of the time before.

use std::collections::BTreeMap;

use slicewright::prometheus::{Client, MeasureSettings, Measurement, Quiet, Settings, measure};
use slicewright_core::ids::WorkloadId;
use slicewright_core::inventory::{Pod, Sharing, Slice, SliceId, Workload as Found};
use slicewright_core::units::Mib;
use slicewright_core::usage::{ComputeSource, DataGap, WorkloadProfile};

use super::bot::AT;
use crate::world::golden::DAYS;
use crate::world::prometheus::Prometheus;
use crate::world::series::{
    A100_40, Cluster, Cut, Dialect, END, HostLabel, Instance, Kind, Load, Memory, Node, PodLabels, Rhythm,
    SCRAPE_LEAD, STEP, Series, Workload,
};

fn node(name: &str, n_cards: usize, mig_strategy: &'static str, cuts: Vec<Cut>) -> Node {
    Node {
        name: name.to_owned(),
        model: A100_40,
        n_cards,
        driver: "570.172.08".to_owned(),
        labels: Vec::new(),
        taints: Vec::new(),
        cpu_cores: 64,
        memory_gib: 512,
        max_pods: 110,
        mig_strategy,
        cuts,
    }
}

/// A Deployment of one pod on `card` of `node`, on the instance `slice` of it if any.
fn service(name: &str, node: &str, card: usize, slice: Option<&'static str>, peak_mib: u64) -> Workload {
    Workload {
        kind: Kind::Deployment,
        namespace: "search".to_owned(),
        name: name.to_owned(),
        container: "server".to_owned(),
        pods: vec![(node.to_owned(), card..card + 1)],
        slices: slice.into_iter().collect(),
        days: 0..DAYS,
        load: Load {
            memory: Memory::Peak { base_mib: peak_mib * 7 / 8, peak_mib, peak_day: 4 },
            sm_active: 0.2,
            gr_engine_active: 0.8,
            dram_active: 0.1,
            rhythm: Rhythm::Daytime,
        },
        cpu_millicores: 1_000,
        memory_gib: 4,
        max_surge: Some(0),
        hpa: None,
        pod_labels: Vec::new(),
    }
}

fn cluster(nodes: Vec<Node>, workloads: Vec<Workload>) -> Cluster {
    Cluster {
        name: "cut".to_owned(),
        days: DAYS,
        dialect: Dialect::default(),
        namespaces: vec![("search".to_owned(), Vec::new())],
        nodes,
        workloads,
    }
}

/// What was measured, with the server's answers to the real queries.
struct Seen(Measurement);

impl Seen {
    fn of(cluster: &Cluster, more: &[Series]) -> Self {
        let prometheus = Prometheus::holding(&[cluster]);
        prometheus.push(more);
        let names = ["1g.5gb", "1g.5gb+me", "2g.10gb", "3g.20gb"].map(|name| name.parse().unwrap());
        let settings = MeasureSettings {
            window_days: DAYS,
            profile_names: names.into(),
            ..MeasureSettings::new("cut", AT.parse().unwrap())
        };
        let client = Client::new(&Settings { url: prometheus.url(), ..Settings::default() }).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self(runtime.block_on(measure(&client, &settings, &Quiet)).unwrap())
    }

    fn workload(&self, name: &str) -> &Found {
        self.0.inventory.workload(&WorkloadId::new("Deployment", "search", name)).unwrap()
    }

    fn pod(&self, name: &str) -> &Pod {
        let pods = &self.workload(name).pods;
        assert_eq!(pods.len(), 1, "{pods:?}");
        &pods[0]
    }

    fn profile(&self, name: &str) -> &WorkloadProfile {
        &self.0.measured.profiles[&WorkloadId::new("Deployment", "search", name)]
    }

    fn peak(&self, name: &str) -> u64 {
        self.profile(name).peak.as_ref().unwrap().memory.0
    }

    fn findings(&self) -> Vec<&str> {
        self.0.measured.data_quality.findings.iter().map(|finding| finding.code.as_str()).collect()
    }
}

fn slice(id: &str, profile: &str, usable: u64, used: u64) -> Slice {
    Slice {
        id: id.to_owned(),
        profile: profile.to_owned(),
        usable: Some(Mib(usable)),
        used_now: Some(Mib(used)),
    }
}

#[test]
fn a_node_with_one_cut_and_one_whole_card_is_told_apart() {
    // DCGM leaves out the attribute of the second, and prints nothing it can name for the third.
    let instances = vec![
        Instance::new("1", "2g.10gb", 9_855),
        Instance { printed: "1g.5gb", ..Instance::new("7", "1g.5gb+me", 4_863) },
        Instance { printed: "<<<NULL>>>", ..Instance::new("9", "1g.5gb", 4_864) },
    ];
    let mixed = node("mix-1", 2, "mixed", vec![Cut { card: 0, from_day: 0, instances }]);
    let workloads = vec![
        service("ranker", "mix-1", 0, Some("1"), 8_000),
        service("decoder", "mix-1", 0, Some("7"), 3_000),
        service("trainer", "mix-1", 1, None, 30_000),
    ];
    let plain = cluster(vec![mixed], workloads);
    let mut exported = plain.clone();
    exported.dialect.pod_labels = PodLabels::Exported;
    exported.dialect.host_label = HostLabel::Lower;
    exported.dialect.parents = true;
    let mut unlabelled = plain.clone();
    unlabelled.dialect.node_labels = false;
    for cluster in [plain, exported, unlabelled] {
        let seen = Seen::of(&cluster, &[]);
        let node = seen.0.inventory.node("mix-1").unwrap();
        assert_eq!((node.sharing(), node.slices_as_gpus()), (Sharing::Mig, None));
        assert_eq!(node.gpu_allocatable["nvidia_com_gpu"], 1);
        let uuid = |card| cluster.card_uuid("mix-1", card);
        let card = |n| node.cards.iter().find(|card| card.uuid == uuid(n)).unwrap();
        assert_eq!(
            card(0).slices,
            [
                slice("1", "2g.10gb", 9_855, 6_300),
                slice("7", "1g.5gb+me", 4_863, 2_362),
                slice("9", "unknown", 4_864, 0),
            ]
        );
        // Of the parent where it is shown, never of one instance.
        let parent = cluster.dialect.parents.then_some(Mib(40_456));
        assert_eq!(card(0).used_plus_free, parent);
        assert_eq!(card(0).used_now, parent.map(|_| Mib(0)));
        assert_eq!((card(1).is_cut(), card(1).used_now), (false, Some(Mib(23_625))));

        let held = |name, slice: &str| {
            let pod = seen.pod(name);
            assert_eq!(pod.slices, [SliceId { card: uuid(0), id: slice.to_owned() }], "{name}");
            assert!(pod.cards.is_empty(), "{name} holds {:?} whole", pod.cards);
        };
        held("ranker", "1");
        held("decoder", "7");
        let whole = seen.pod("trainer");
        assert_eq!((&whole.cards, &whole.slices), (&vec![uuid(1)], &Vec::new()));

        for (name, resource, slice, peak) in [
            ("ranker", "nvidia.com/mig-2g.10gb", Some("2g.10gb"), 8_000),
            ("decoder", "nvidia.com/mig-1g.5gb.me", Some("1g.5gb+me"), 3_000),
            ("trainer", "nvidia.com/gpu", None, 30_000),
        ] {
            assert_eq!(seen.workload(name).resource, resource);
            let profile = seen.profile(name);
            assert_eq!((profile.slice.as_deref(), seen.peak(name)), (slice, peak), "{name}");
            assert_eq!(profile.compute.is_some(), slice.is_none(), "{name}");
            assert_eq!(profile.media_engines_used, slice.is_none().then_some(false), "{name}");
            assert_eq!((profile.gaps.as_slice(), profile.history_days), ([].as_slice(), DAYS), "{name}");
            assert_eq!(profile.coverage.unwrap().to_string(), "100 %", "{name}");
        }
        let memory =
            BTreeMap::from([("2g.10gb".to_owned(), Mib(9_855)), ("1g.5gb+me".to_owned(), Mib(4_863))]);
        assert_eq!(seen.0.measured.slice_memory[A100_40.model_name], memory);
        assert!(seen.findings().contains(&"unknown-mig-profiles"), "{:?}", seen.findings());
        assert!(!seen.findings().contains(&"slices-in-use-without-a-pod"), "{:?}", seen.findings());
    }
}

#[test]
fn slices_handed_out_as_gpus_are_no_whole_cards() {
    let instances =
        ["3", "4", "5"].map(|id| Instance { printed: "<<<NULL>>>", ..Instance::new(id, "2g.10gb", 9_856) });
    let single = node("one-1", 1, "single", vec![Cut { card: 0, from_day: 0, instances: instances.into() }]);
    let workloads =
        vec![service("a", "one-1", 0, Some("3"), 8_000), service("b", "one-1", 0, Some("5"), 900)];
    let cluster = cluster(vec![single], workloads);
    // The exporter shows the parent as well, under the name of a pod.
    let (uuid, pod) = (cluster.card_uuid("one-1", 0), cluster.pod_name(&cluster.workloads[0], 0));
    let labels = [
        ("Hostname", "one-1"),
        ("UUID", uuid.as_str()),
        ("job", "nvidia-dcgm-exporter"),
        ("modelName", A100_40.model_name),
        ("namespace", "search"),
        ("pod", pod.as_str()),
    ];
    let parent = Series {
        name: "DCGM_FI_DEV_FB_USED",
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec(),
        first: END - 86_400 + STEP - SCRAPE_LEAD,
        values: vec![30_000.0; 288],
    };
    let seen = Seen::of(&cluster, &[parent]);
    let node = seen.0.inventory.node("one-1").unwrap();
    assert_eq!((node.sharing(), node.gpu_allocatable["nvidia_com_gpu"]), (Sharing::Mig, 3));
    // The product label names what DCGM could not.
    assert_eq!(node.slices_as_gpus().as_deref(), Some("2g.10gb"));
    assert!(node.cards[0].slices.iter().all(|slice| slice.profile == "2g.10gb"));
    for (name, id, peak) in [("a", "3", 8_000), ("b", "5", 900)] {
        assert_eq!(seen.workload(name).resource, "nvidia.com/gpu");
        let pod = seen.pod(name);
        assert_eq!((pod.cards.len(), pod.slices[0].id.as_str()), (0, id));
        let profile = seen.profile(name);
        assert_eq!((profile.slice.as_deref(), seen.peak(name)), (Some("2g.10gb"), peak));
        assert!(profile.gaps.is_empty(), "{:?}", profile.gaps);
    }
}

#[test]
fn a_workload_that_moved_to_a_slice_keeps_its_history() {
    for strategy in ["mixed", "single"] {
        let instances = ["1", "2", "3"].map(|id| Instance::new(id, "2g.10gb", 9_855));
        let cut = Cut { card: 0, from_day: 12, instances: instances.into() };
        let mut before = service("ranker", "n-1", 0, None, 8_000);
        before.days = 0..12;
        let mut after = service("ranker", "n-1", 0, Some("2"), 0);
        after.days = 12..DAYS;
        after.load.memory = Memory::Peak { base_mib: 6_000, peak_mib: 7_100, peak_day: 13 };
        let cluster = cluster(vec![node("n-1", 1, strategy, vec![cut])], vec![before, after]);
        let seen = Seen::of(&cluster, &[]);
        let profile = seen.profile("ranker");
        assert_eq!(profile.slice.as_deref(), Some("2g.10gb"), "{strategy}");
        let peak = profile.peak.clone().unwrap();
        assert_eq!((peak.memory, peak.day.to_string().as_str()), (Mib(8_000), "2026-01-04"));
        assert_eq!((profile.history_days, profile.daily_peaks.len()), (DAYS, DAYS as usize));
        assert_eq!(profile.daily_peaks[13].memory, Mib(7_100));
        // Of the whole-card days alone, in which a fifth of the SMs was busy.
        let compute = profile.compute.unwrap();
        assert_eq!((compute.source, compute.p99.to_string().as_str()), (ComputeSource::SmActive, "20 %"));
        assert_eq!(profile.coverage.unwrap().to_string(), "100 %", "{strategy}");
        assert!(profile.gaps.is_empty(), "{strategy}: {:?}", profile.gaps);
        let pod = seen.pod("ranker");
        assert_eq!((pod.cards.len(), pod.slices[0].id.as_str()), (0, "2"));
        let resource = if strategy == "mixed" { "nvidia.com/mig-2g.10gb" } else { "nvidia.com/gpu" };
        assert_eq!(seen.workload("ranker").resource, resource);
    }
}

#[test]
fn instances_that_the_exporter_does_not_show_are_no_evidence() {
    let mut blind = node("blind-1", 1, "single", Vec::new());
    blind.labels = [
        ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB-MIG-2g.10gb"),
        ("nvidia.com/mig.config", "all-2g.10gb"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .to_vec();
    let seen = Seen::of(&cluster(vec![blind], vec![service("a", "blind-1", 0, None, 8_000)]), &[]);
    let profile = seen.profile("a");
    assert_eq!((profile.slice.as_deref(), profile.peak.clone()), (Some("2g.10gb"), None));
    assert_eq!(profile.gaps, [DataGap::WholeCardReadings]);
    assert!(seen.pod("a").cards.is_empty() && seen.pod("a").slices.is_empty());
    assert!(seen.findings().contains(&"unread-mig-slices"), "{:?}", seen.findings());
}

#[test]
fn a_slice_in_use_without_a_pod_is_said() {
    let instances = vec![Instance::new("1", "2g.10gb", 9_855)];
    let cluster =
        cluster(vec![node("n-1", 1, "mixed", vec![Cut { card: 0, from_day: 0, instances }])], vec![]);
    let uuid = cluster.card_uuid("n-1", 0);
    let labels = [
        ("GPU_I_ID", "9"),
        ("GPU_I_PROFILE", "1g.5gb"),
        ("Hostname", "n-1"),
        ("UUID", &uuid),
        ("job", "nvidia-dcgm-exporter"),
        ("modelName", A100_40.model_name),
    ];
    let stranger = Series {
        name: "DCGM_FI_DEV_FB_USED",
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec(),
        first: END - STEP,
        values: vec![4_384.0],
    };
    let seen = Seen::of(&cluster, &[stranger]);
    assert!(seen.findings().contains(&"slices-in-use-without-a-pod"), "{:?}", seen.findings());
    let slices = &seen.0.inventory.node("n-1").unwrap().cards[0].slices;
    assert_eq!((slices[1].used_now, slices[1].usable), (Some(Mib(4_384)), None));
}
