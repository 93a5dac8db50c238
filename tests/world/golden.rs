//! The hand-made clusters with a known right answer: the product's golden cases.
//!
//! Their infrastructure repositories are `tests/cases/infra/golden-*`, with the same names.

use super::series::{A10G, A100_40, A100_80, Cluster, Dialect, Kind, Load, Memory, Node, Rhythm, Workload};

/// Days of history of every golden cluster; one more than the product asks for.
pub(crate) const DAYS: u32 = 15;

/// Service, peak in MiB (7.4, 6.9 and 7.8 GiB), p99 of SM_ACTIVE on every day.
pub(crate) const DC1_SERVICES: [(&str, u32, f64); 3] =
    [("embed-svc", 7_578, 0.17), ("classify-svc", 7_066, 0.14), ("ocr-svc", 7_987, 0.19)];

/// Notebook and peak in MiB (4.1, 4.3, 4.5 and 4.6 GiB), together 17,920.
pub(crate) const NOTEBOOKS: [(&str, u32); 4] =
    [("nb-asha", 4_198), ("nb-jonas", 4_403), ("nb-mei", 4_608), ("nb-tomas", 4_711)];

/// Where the notebooks of `dev-use1` live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notebooks {
    /// Namespace `dev-notebooks`, labelled `env: dev`.
    Dev,
    /// Namespace `pricing`, labelled `env: prod`.
    Production,
}

impl Notebooks {
    /// The namespace's name.
    pub(crate) fn namespace(self) -> &'static str {
        match self {
            Self::Dev => "dev-notebooks",
            Self::Production => "pricing",
        }
    }
}

impl Notebooks {
    /// A file of `golden-dev-use1` as it reads with the notebooks in this namespace; for `BareRepo::from_folder_with`.
    pub(crate) fn placed(self, text: &str) -> String {
        match self {
            Self::Dev => text.to_owned(),
            Self::Production => {
                text.replace(Self::Dev.namespace(), self.namespace()).replace("env: dev", "env: prod")
            }
        }
    }
}

/// Case a: three services on three single-card nodes that fit three slices of one card.
pub(crate) fn dc1() -> Cluster {
    let nodes = ["dc1-gpu-07", "dc1-gpu-08", "dc1-gpu-09"];
    let gr = [0.80, 0.70, 0.85];
    let dram = [0.12, 0.08, 0.14];
    let workloads = DC1_SERVICES.iter().enumerate().map(|(n, (name, peak, sm))| Workload {
        kind: Kind::Deployment,
        namespace: "search".to_owned(),
        name: (*name).to_owned(),
        container: "server".to_owned(),
        pods: vec![(nodes[n].to_owned(), 0..1)],
        slices: Vec::new(),
        days: 0..DAYS,
        load: Load {
            memory: Memory::Peak {
                base_mib: u64::from(*peak) * 7 / 8,
                peak_mib: u64::from(*peak),
                peak_day: 4 + 3 * u32::try_from(n).expect("three services"),
            },
            sm_active: *sm,
            gr_engine_active: gr[n],
            dram_active: dram[n],
            rhythm: Rhythm::Daytime,
        },
        cpu_millicores: 4_000,
        memory_gib: 16,
        max_surge: Some(0),
        hpa: None,
        pod_labels: labels(&[("app.kubernetes.io/name", name)]),
    });
    Cluster {
        name: "dc1".to_owned(),
        days: DAYS,
        dialect: Dialect::default(),
        namespaces: vec![
            ("search".to_owned(), labels(&[("kubernetes.io/metadata.name", "search"), ("env", "prod")])),
            ("gpu-operator".to_owned(), labels(&[("kubernetes.io/metadata.name", "gpu-operator")])),
        ],
        workloads: workloads.collect(),
        nodes: nodes
            .map(|name| Node {
                name: name.to_owned(),
                model: A100_40,
                n_cards: 1,
                driver: "570.172.08".to_owned(),
                labels: labels(&[("node.kubernetes.io/instance-type", "dc1-a100-1x"), ("pool", "a100-40gb")]),
                taints: taints(&[("nvidia.com/gpu", "present", "NoSchedule")]),
                cpu_cores: 64,
                memory_gib: 512,
                max_pods: 110,
                mig_strategy: "mixed",
                cuts: Vec::new(),
            })
            .to_vec(),
    }
}

/// Case b: four notebooks on four single-card nodes that may take turns on one card, if they are not production.
pub(crate) fn dev_use1(notebooks: Notebooks) -> Cluster {
    let nodes = ["ip-10-40-1-21", "ip-10-40-1-34", "ip-10-40-2-17", "ip-10-40-2-58"];
    let namespace = notebooks.namespace();
    let env = match notebooks {
        Notebooks::Dev => "dev",
        Notebooks::Production => "prod",
    };
    let sm = [0.05, 0.09, 0.07, 0.11];
    let workloads = NOTEBOOKS.iter().enumerate().map(|(n, (name, peak))| Workload {
        kind: Kind::StatefulSet,
        namespace: namespace.to_owned(),
        name: (*name).to_owned(),
        container: "notebook".to_owned(),
        pods: vec![(nodes[n].to_owned(), 0..1)],
        slices: Vec::new(),
        days: 0..DAYS,
        load: Load {
            memory: Memory::Peak {
                base_mib: u64::from(*peak) * 3 / 4,
                peak_mib: u64::from(*peak),
                peak_day: 2 + 3 * u32::try_from(n).expect("four notebooks"),
            },
            sm_active: sm[n],
            gr_engine_active: sm[n],
            dram_active: sm[n] / 2.0,
            rhythm: Rhythm::Daytime,
        },
        cpu_millicores: 1_000,
        memory_gib: 4,
        max_surge: None,
        hpa: None,
        pod_labels: labels(&[("app.kubernetes.io/name", name), ("notebook-name", name)]),
    });
    Cluster {
        name: "dev-use1".to_owned(),
        days: DAYS,
        dialect: Dialect::default(),
        namespaces: vec![
            (namespace.to_owned(), labels(&[("kubernetes.io/metadata.name", namespace), ("env", env)])),
            ("gpu-operator".to_owned(), labels(&[("kubernetes.io/metadata.name", "gpu-operator")])),
        ],
        workloads: workloads.collect(),
        nodes: nodes
            .map(|name| Node {
                name: name.to_owned(),
                model: A10G,
                n_cards: 1,
                driver: "570.172.08".to_owned(),
                labels: labels(&[("node.kubernetes.io/instance-type", "g5.2xlarge"), ("pool", "ml-dev")]),
                taints: taints(&[("dedicated", "ml-dev", "NoSchedule")]),
                cpu_cores: 8,
                memory_gib: 30,
                max_pods: 58,
                mig_strategy: "mixed",
                cuts: Vec::new(),
            })
            .to_vec(),
    }
}

/// The pool of case b with eight notebooks on eight nodes, two of them large: one factor for all would be two, and with
/// two groups the six small ones share by more.
pub(crate) fn two_sizes() -> Cluster {
    let mut cluster = dev_use1(Notebooks::Dev);
    let more = ["ip-10-40-3-11", "ip-10-40-3-12", "ip-10-40-3-13", "ip-10-40-3-14"];
    for name in more {
        let node = Node { name: name.to_owned(), ..cluster.nodes[0].clone() };
        cluster.nodes.push(node);
    }
    for (workload, peak_mib) in cluster.workloads.iter_mut().zip([9_000, 9_100, 2_000, 2_100]) {
        workload.load.memory = Memory::Peak { base_mib: peak_mib * 3 / 4, peak_mib, peak_day: 5 };
    }
    for (n, name) in more.iter().enumerate() {
        cluster.workloads[2 + n / 2].pods.push(((*name).to_owned(), 0..1));
    }
    cluster
}

/// Case c: a training job that needs its eight cards, and a server that grabbed 90 % of a card it hardly uses.
pub(crate) fn train1() -> Cluster {
    let node = |name: &str, n_cards: usize, instance: &str, pool: &str| Node {
        name: name.to_owned(),
        model: A100_80,
        n_cards,
        driver: "570.172.08".to_owned(),
        labels: labels(&[("node.kubernetes.io/instance-type", instance), ("pool", pool)]),
        taints: taints(&[("nvidia.com/gpu", "present", "NoSchedule")]),
        cpu_cores: 96,
        memory_gib: 1_024,
        max_pods: 110,
        mig_strategy: "mixed",
        cuts: Vec::new(),
    };
    let training = Workload {
        kind: Kind::PyTorchJob,
        namespace: "research".to_owned(),
        name: "sft-13b".to_owned(),
        container: "pytorch".to_owned(),
        pods: vec![("train1-hgx-01".to_owned(), 0..8)],
        slices: Vec::new(),
        days: 0..DAYS,
        load: Load {
            memory: Memory::Peak { base_mib: 72_300, peak_mib: 73_728, peak_day: 6 },
            sm_active: 0.90,
            gr_engine_active: 0.97,
            dram_active: 0.55,
            rhythm: Rhythm::Always,
        },
        cpu_millicores: 64_000,
        memory_gib: 768,
        max_surge: None,
        hpa: None,
        pod_labels: labels(&[("training.kubeflow.org/job-name", "sft-13b")]),
    };
    let serving = Workload {
        kind: Kind::Deployment,
        namespace: "chat".to_owned(),
        name: "llm-8b-chat".to_owned(),
        container: "vllm".to_owned(),
        pods: vec![("train1-gpu-01".to_owned(), 0..1)],
        slices: Vec::new(),
        days: 0..DAYS,
        load: Load {
            // vLLM's `--gpu-memory-utilization` of 0.90, of all 81,920 MiB.
            memory: Memory::Flat { mib: 73_728 },
            sm_active: 0.03,
            gr_engine_active: 0.05,
            dram_active: 0.02,
            rhythm: Rhythm::Daytime,
        },
        cpu_millicores: 8_000,
        memory_gib: 64,
        max_surge: Some(1),
        hpa: None,
        pod_labels: labels(&[("app.kubernetes.io/name", "llm-8b-chat")]),
    };
    Cluster {
        name: "train1".to_owned(),
        days: DAYS,
        dialect: Dialect::default(),
        namespaces: ["research", "chat", "gpu-operator"]
            .map(|name| (name.to_owned(), labels(&[("kubernetes.io/metadata.name", name)])))
            .to_vec(),
        nodes: vec![
            node("train1-hgx-01", 8, "hgx-a100-8x", "hgx-a100"),
            node("train1-gpu-01", 1, "a100-80-1x", "a100-80gb"),
        ],
        workloads: vec![training, serving],
    }
}

fn labels(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn taints(all: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
    all.iter().map(|(a, b, c)| ((*a).to_owned(), (*b).to_owned(), (*c).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::repo::{BareRepo, MAIN, example};

    #[test]
    fn the_notebooks_move_to_production_as_a_whole() {
        let place = |_: &str, text: String| Notebooks::Production.placed(&text);
        let repo = BareRepo::from_folder_with(&example("golden-dev-use1"), place);
        let namespace = repo.read(MAIN, "notebooks/namespace.yaml").unwrap();
        assert!(namespace.contains("name: pricing") && namespace.contains("env: prod"), "{namespace}");
        let notebook = repo.read(MAIN, "notebooks/nb-mei.yaml").unwrap();
        assert!(notebook.contains("namespace: pricing") && !notebook.contains("dev-notebooks"), "{notebook}");
    }

    #[test]
    fn the_peaks_are_those_of_the_golden_cases() {
        assert_eq!(NOTEBOOKS.iter().map(|(_, peak)| peak).sum::<u32>(), 17_920);
        let gib = |mib: u32| format!("{:.1}", f64::from(mib) / 1_024.0);
        assert_eq!(DC1_SERVICES.map(|(_, peak, _)| gib(peak)), ["7.4", "6.9", "7.8"]);
        assert_eq!(NOTEBOOKS.map(|(_, peak)| gib(peak)), ["4.1", "4.3", "4.5", "4.6"]);
    }
}
