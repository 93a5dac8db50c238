//! Pools, cards and workloads as they are today.
//!
//! Filled from kube-state-metrics, the DCGM exporter and the repository. What was not seen is `None`, never zero.

mod declared;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::catalog::product_name::{LabelMig, ProductLabel};
use crate::catalog::{Attribute, ProfileName};
use crate::ids::WorkloadId;
use crate::units::{Mib, Money};
pub use declared::{Declared, DeclaredWorkload, MigStrategy, NodeCarrier, Operator};

/// Stands for a slice's profile where nothing says which it is: DCGM printed none, and no object of Kubernetes names it.
/// It is no profile name, so that whatever reads one refuses it.
pub const UNKNOWN_PROFILE: &str = "unknown";

/// A slice's profile from what DCGM prints of it and from the resource that its pod asks for, in list spelling; either may
/// be [`UNKNOWN_PROFILE`].
///
/// The resource is exact where its name has one meaning: the device plugin makes it from the slice itself, and DCGM may
/// leave out the attribute. A resource of several meanings has an attribute, so that a reading without one is no answer.
pub fn slice_profile(read: &str, asked: Option<&str>) -> String {
    let known = |text: &str| text.parse::<ProfileName>().ok();
    let told = match (known(read), asked.map(known)) {
        (_, None) => return read.to_owned(),
        (None, Some(asked)) => asked,
        (Some(read), Some(None)) => (read.attribute != Attribute::Plain).then_some(read),
        // Whose slice is it, if they are not even of one size?
        (Some(read), Some(Some(asked))) => (read.compute_slices == asked.compute_slices).then_some(asked),
    };
    told.map_or_else(|| UNKNOWN_PROFILE.to_owned(), |name| name.to_string())
}

/// One cluster at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    /// Name of the cluster in the configuration.
    pub cluster: String,
    /// Nodes that have a GPU, by name.
    pub nodes: Vec<Node>,
    /// Workloads that hold or held a GPU in the window, by id.
    pub workloads: Vec<Workload>,
    /// Pods that ask for a GPU now and whose owner could not be found.
    pub unattributed_pods: Vec<UnattributedPod>,
}

/// A pod that asks for a GPU and whose owner could not be found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnattributedPod {
    /// `namespace/pod`.
    pub pod: String,
    /// Node it runs on.
    pub node: String,
}

impl Inventory {
    /// The node called `name`.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// The workload `id`.
    pub fn workload(&self, id: &WorkloadId) -> Option<&Workload> {
        self.workloads.iter().find(|workload| workload.id == *id)
    }
}

impl Inventory {
    /// Drops nodes, pods and workloads whose names Kubernetes would not take: their names would end up in commands for
    /// people to run. Returns them.
    pub fn drop_impossible_names(&mut self) -> Vec<String> {
        let mut dropped = Vec::new();
        let mut keep = |name: &str| {
            let fine = is_name(name);
            if !fine {
                dropped.push(name.escape_debug().to_string());
            }
            fine
        };
        self.nodes.retain(|node| keep(&node.name));
        self.workloads.retain(|workload| {
            keep(&workload.id.namespace)
                && keep(&workload.id.name)
                && workload.id.kind.chars().all(|c| c.is_ascii_alphanumeric())
        });
        for workload in &mut self.workloads {
            workload.pods.retain(|pod| keep(&pod.name) && (pod.node.is_empty() || keep(&pod.node)));
        }
        dropped
    }
}

/// A DNS subdomain, as Kubernetes asks of names.
fn is_name(name: &str) -> bool {
    (1..=253).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.'))
}

/// A node with GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Kubernetes node name.
    pub name: String,
    /// Its cards, by UUID.
    pub cards: Vec<Card>,
    /// Node labels as kube-state-metrics spells them, without the leading `label_`: `nvidia_com_gpu_product`.
    /// Empty when kube-state-metrics does not expose node labels.
    pub labels: BTreeMap<String, String>,
    /// Taints that keep pods off the node.
    pub taints: Vec<Taint>,
    /// CPU, memory, storage and pods that the node offers. `None`: not seen.
    pub allocatable: Option<Resources>,
    /// What all pods on the node ask for together. `None`: not seen.
    pub requested: Option<Resources>,
    /// Allocatable GPU resources by sanitised name: `nvidia_com_gpu`, `nvidia_com_mig_1g_5gb`.
    pub gpu_allocatable: BTreeMap<String, u64>,
    /// Price per hour from `node_total_hourly_cost` (OpenCost), if that is scraped.
    pub opencost_per_hour: Option<Money>,
}

impl Node {
    /// The value of a node label by its Kubernetes key, `nvidia.com/gpu.product`.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(&sanitised_label(key)).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Model names of the cards, as DCGM prints them.
    pub fn model_names(&self) -> BTreeSet<&str> {
        self.cards.iter().map(|card| card.model_name.as_str()).collect()
    }

    /// NVIDIA driver version, from the cards or from the node label.
    pub fn driver_version(&self) -> Option<&str> {
        self.cards
            .iter()
            .find_map(|card| card.driver_version.as_deref())
            .or_else(|| self.label("nvidia.com/cuda.driver-version.full"))
    }

    /// How the node's cards are handed out today. Under MIG some cards may be whole: [`Card::is_cut`] tells them apart,
    /// and `nvidia_com_gpu` in [`Node::gpu_allocatable`] counts the whole ones alone, unless
    /// [`Node::slices_as_gpus`] says otherwise.
    pub fn sharing(&self) -> Sharing {
        let replicas = self.label("nvidia.com/gpu.replicas").and_then(|text| text.parse::<u32>().ok());
        let strategy = self.label("nvidia.com/gpu.sharing-strategy");
        let shared_resource =
            self.gpu_allocatable.iter().any(|(name, n)| name.ends_with("_shared") && *n > 0);
        let product_shared =
            self.label("nvidia.com/gpu.product").is_some_and(|product| product.ends_with("-SHARED"));
        if self.cards.iter().any(Card::is_cut)
            || self.offers_slices()
            || self.label("nvidia.com/gpu.product").is_some_and(|product| product.contains("-MIG-"))
        {
            return Sharing::Mig;
        }
        if strategy == Some("mps") {
            return Sharing::Mps { replicas: replicas.unwrap_or(2) };
        }
        if strategy == Some("time-slicing")
            || product_shared
            || shared_resource
            || replicas.is_some_and(|n| n > 1)
        {
            return Sharing::TimeSlicing { replicas: replicas.unwrap_or(2) };
        }
        let advertised = self.gpu_allocatable.get("nvidia_com_gpu").copied();
        if let Some(advertised) = advertised
            && !self.cards.is_empty()
            && advertised > self.cards.len() as u64
        {
            let replicas = u32::try_from(advertised / self.cards.len() as u64).unwrap_or(u32::MAX);
            return Sharing::TimeSlicing { replicas };
        }
        Sharing::Whole
    }

    /// Strategy `mixed`: slices are offered under names of their own.
    fn offers_slices(&self) -> bool {
        self.gpu_allocatable.iter().any(|(name, n)| name.starts_with("nvidia_com_mig_") && *n > 0)
    }

    /// The profile of the slices that the node hands out as `nvidia.com/gpu` (strategy `single`), in list spelling;
    /// [`UNKNOWN_PROFILE`] where nothing says which. `None`: `nvidia.com/gpu` is a whole card here.
    pub fn slices_as_gpus(&self) -> Option<String> {
        if self.sharing() != Sharing::Mig || self.offers_slices() {
            return None;
        }
        match self.label("nvidia.com/gpu.product").map(|label| ProductLabel::parse(label).mig) {
            Some(LabelMig::Every(profile)) => return Some(profile.to_string()),
            Some(LabelMig::Invalid) => return Some(UNKNOWN_PROFILE.to_owned()),
            Some(LabelMig::Absent) | None => {}
        }
        let whole = self.cards.iter().filter(|card| !card.is_cut()).count() as u64;
        let offered = self.gpu_allocatable.get("nvidia_com_gpu").copied();
        let single = match self.label("nvidia.com/mig.strategy") {
            Some("mixed") => false,
            Some("single") => true,
            // More whole cards on offer than there are: some of them are slices.
            Some(_) | None => offered.is_none_or(|offered| offered > whole),
        };
        let mut profiles = self.cards.iter().flat_map(|card| &card.slices).map(|slice| &slice.profile);
        let first = profiles.next();
        single.then(|| match first {
            Some(first) if profiles.all(|other| other == first) => first.clone(),
            Some(_) | None => UNKNOWN_PROFILE.to_owned(),
        })
    }

    /// The node's slices are handed to several pods each: time-slicing or MPS on top of MIG.
    pub fn slices_are_shared(&self) -> bool {
        let several = |value: &str| value.parse::<u32>().is_ok_and(|n| n > 1);
        let each = |(key, value): (&String, &String)| {
            key.starts_with("nvidia_com_mig_") && key.ends_with("_replicas") && several(value)
        };
        let offered = |(name, n): (&String, &u64)| {
            name.starts_with("nvidia_com_mig_") && name.ends_with("_shared") && *n > 0
        };
        self.sharing() == Sharing::Mig
            && (self.labels.iter().any(each)
                || self.gpu_allocatable.iter().any(offered)
                || self.slices_as_gpus().is_some()
                    && (self.label("nvidia.com/gpu.replicas").is_some_and(several)
                        || self
                            .label("nvidia.com/gpu.product")
                            .is_some_and(|label| ProductLabel::parse(label).shared)))
    }
}

/// How a node hands out its cards today.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sharing {
    /// One pod a card.
    Whole,
    /// Cut by MIG, all or in part.
    Mig,
    /// Time-slicing with this many replicas a card.
    TimeSlicing {
        /// Replicas a card.
        replicas: u32,
    },
    /// MPS with this many replicas a card.
    Mps {
        /// Replicas a card.
        replicas: u32,
    },
}

/// One physical GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// `GPU-…`, of the parent also under MIG.
    pub uuid: String,
    /// DCGM's `modelName`.
    pub model_name: String,
    /// `FB_USED + FB_FREE`, which leaves out reserved memory; never that of one instance. `None`: not seen.
    pub used_plus_free: Option<Mib>,
    /// Memory in use now, whoever uses it; never that of one instance. `None`: not seen, as on most cut cards.
    pub used_now: Option<Mib>,
    /// MIG instances seen on it, by id. Empty: MIG is off, or nothing is cut.
    pub slices: Vec<Slice>,
    /// NVIDIA driver version, `550.90.07`.
    pub driver_version: Option<String>,
}

impl Card {
    /// It is cut into MIG instances: nobody can hold it whole.
    pub fn is_cut(&self) -> bool {
        !self.slices.is_empty()
    }
}

/// One MIG instance of a card.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Slice {
    /// DCGM's `GPU_I_ID`, opaque; one card has no two of the same.
    pub id: String,
    /// List spelling of DCGM's `GPU_I_PROFILE`, `2g.10gb`; where that is missing or leaves out the attribute, of the
    /// resource that its pod asks for. [`UNKNOWN_PROFILE`] where neither says.
    pub profile: String,
    /// `FB_USED + FB_FREE` of the instance. `None`: not seen.
    pub usable: Option<Mib>,
    /// Memory in use now, whoever uses it. `None`: not seen.
    pub used_now: Option<Mib>,
}

/// A node taint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Taint {
    /// Key, `dedicated`.
    pub key: String,
    /// Value, may be empty.
    pub value: String,
    /// `NoSchedule`, `NoExecute` or `PreferNoSchedule`.
    pub effect: String,
}

/// CPU, memory, ephemeral storage and pods: asked for, or offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Thousandths of a CPU core.
    pub cpu_milli: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes of ephemeral storage; 0 where nobody asked, the most there is where a node does not state it.
    pub ephemeral_bytes: u64,
    /// Number of pods.
    pub pods: u64,
}

impl Resources {
    /// Sum, saturating.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            cpu_milli: self.cpu_milli.saturating_add(other.cpu_milli),
            memory_bytes: self.memory_bytes.saturating_add(other.memory_bytes),
            ephemeral_bytes: self.ephemeral_bytes.saturating_add(other.ephemeral_bytes),
            pods: self.pods.saturating_add(other.pods),
        }
    }

    /// Difference, not below zero.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            cpu_milli: self.cpu_milli.saturating_sub(other.cpu_milli),
            memory_bytes: self.memory_bytes.saturating_sub(other.memory_bytes),
            ephemeral_bytes: self.ephemeral_bytes.saturating_sub(other.ephemeral_bytes),
            pods: self.pods.saturating_sub(other.pods),
        }
    }

    /// The larger of each figure.
    #[must_use]
    pub fn larger(self, other: Self) -> Self {
        Self {
            cpu_milli: self.cpu_milli.max(other.cpu_milli),
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
            ephemeral_bytes: self.ephemeral_bytes.max(other.ephemeral_bytes),
            pods: self.pods.max(other.pods),
        }
    }

    /// Each figure `n` times, saturating.
    #[must_use]
    pub fn times(self, n: u32) -> Self {
        let n = u64::from(n);
        Self {
            cpu_milli: self.cpu_milli.saturating_mul(n),
            memory_bytes: self.memory_bytes.saturating_mul(n),
            ephemeral_bytes: self.ephemeral_bytes.saturating_mul(n),
            pods: self.pods.saturating_mul(n),
        }
    }

    /// What a node offers before anything of it was read: no CPU and memory, and no limit on storage and pods, which a
    /// node need not state.
    pub fn not_stated() -> Self {
        Self { cpu_milli: 0, memory_bytes: 0, ephemeral_bytes: u64::MAX, pods: u64::MAX }
    }

    /// Every figure of `self` is at most that of `room`.
    pub fn fits_in(self, room: Self) -> bool {
        self.cpu_milli <= room.cpu_milli
            && self.memory_bytes <= room.memory_bytes
            && self.ephemeral_bytes <= room.ephemeral_bytes
            && self.pods <= room.pods
    }
}

/// A workload that holds or held a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// Who it is.
    pub id: WorkloadId,
    /// GPUs that one pod asks for.
    pub gpus_per_pod: u32,
    /// The resource that its pods ask for now, else asked for last, as Kubernetes spells it: `nvidia.com/gpu`,
    /// `nvidia.com/mig-1g.10gb.me`. A name that may stand for several stays as kube-state-metrics prints it:
    /// `nvidia_com_mig_1g_24gb_me`.
    pub resource: String,
    /// Names of the containers that ask for it.
    pub containers: BTreeSet<String>,
    /// Wanted replicas now; the pods that run now where no controller says.
    pub replicas: u32,
    /// Most replicas that its autoscaler may make.
    pub hpa_max: Option<u32>,
    /// Extra pods while it rolls. `None`: not known.
    pub max_surge: Option<u32>,
    /// Pods that run now, by name.
    pub pods: Vec<Pod>,
    /// Labels of its namespace, as kube-state-metrics spells them, without the leading `label_`.
    pub namespace_labels: BTreeMap<String, String>,
}

impl Workload {
    /// Replicas to plan for: now, or what the autoscaler may make of it.
    pub fn planned_replicas(&self) -> u32 {
        self.replicas.max(self.hpa_max.unwrap_or(0))
    }

    /// Kinds whose pods come and go by design: judged by complete runs, not by days.
    pub fn is_batch(&self) -> bool {
        is_batch_kind(&self.id.kind)
    }
}

/// Whether pods of this kind run to completion.
pub fn is_batch_kind(kind: &str) -> bool {
    matches!(
        kind,
        "Job"
            | "CronJob"
            | "PyTorchJob"
            | "TFJob"
            | "MPIJob"
            | "TrainJob"
            | "RayJob"
            | "JobSet"
            | "SparkApplication"
            | "XGBoostJob"
            | "PaddleJob"
            | "Workflow"
    )
}

/// A pod that runs now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Pod {
    /// Pod name.
    pub name: String,
    /// Node it runs on.
    pub node: String,
    /// UUIDs of the whole cards it holds, as DCGM reports them.
    pub cards: Vec<String>,
    /// MIG instances it holds.
    #[serde(default)]
    pub slices: Vec<SliceId>,
    /// What it asks for besides GPUs: CPU milli, memory bytes, storage bytes. `None`: not seen.
    pub requests: Option<PodRequests>,
}

/// Which MIG instance of which card.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SliceId {
    /// UUID of the card.
    pub card: String,
    /// [`Slice::id`].
    pub id: String,
}

/// What one pod asks for besides GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PodRequests {
    /// Thousandths of a CPU core.
    pub cpu_milli: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes of ephemeral storage.
    pub ephemeral_bytes: u64,
}

impl From<PodRequests> for Resources {
    fn from(requests: PodRequests) -> Self {
        Self {
            cpu_milli: requests.cpu_milli,
            memory_bytes: requests.memory_bytes,
            ephemeral_bytes: requests.ephemeral_bytes,
            pods: 1,
        }
    }
}

/// A Kubernetes label key as kube-state-metrics exposes it, without the leading `label_`: every character outside
/// `[a-zA-Z0-9_]` becomes `_`, camelCase becomes snake_case, all lower case.
pub fn sanitised_label(key: &str) -> String {
    let mut out = String::with_capacity(key.len() + 4);
    let mut previous_lower = false;
    for c in key.chars() {
        if c.is_ascii_uppercase() && previous_lower {
            out.push('_');
        }
        previous_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        out.push(if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_lowercase() } else { '_' });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_manifest_is_its_place_without_the_line() {
        let carrier = NodeCarrier { place: "a/l4.yaml:29".into(), labels: BTreeMap::new(), editable: Ok(()) };
        assert_eq!(carrier.file(), "a/l4.yaml");
    }

    #[test]
    fn labels_are_found_by_their_kubernetes_key() {
        let node = Node {
            labels: BTreeMap::from([("nvidia_com_gpu_product".into(), "NVIDIA-A10G-SHARED".into())]),
            ..Node::default()
        };
        assert_eq!(node.label("nvidia.com/gpu.product"), Some("NVIDIA-A10G-SHARED"));
        assert_eq!(node.sharing(), Sharing::TimeSlicing { replicas: 2 });
    }

    #[test]
    fn names_that_would_run_in_a_shell_are_dropped() {
        let node = |name: &str| Node { name: name.into(), ..Node::default() };
        let mut inventory = Inventory {
            nodes: vec![node("gpu-01.example"), node("n0;$(id)"), node("n' --all")],
            ..Inventory::default()
        };
        assert_eq!(inventory.drop_impossible_names().len(), 2);
        assert_eq!(inventory.nodes.len(), 1);
    }

    #[test]
    fn more_gpus_than_cards_means_time_slicing() {
        let node = Node {
            cards: vec![Card::default()],
            gpu_allocatable: BTreeMap::from([("nvidia_com_gpu".into(), 4)]),
            ..Node::default()
        };
        assert_eq!(node.sharing(), Sharing::TimeSlicing { replicas: 4 });
    }

    fn cut(labels: &[(&str, &str)], gpus: &[(&str, u64)], cards: &[&[&str]]) -> Node {
        let owned = |(key, value): &(&str, &str)| (sanitised_label(key), (*value).to_owned());
        let slice = |profile: &&str| Slice { profile: (*profile).to_owned(), ..Slice::default() };
        let card = |slices: &&[&str]| Card { slices: slices.iter().map(slice).collect(), ..Card::default() };
        Node {
            labels: labels.iter().map(owned).collect(),
            gpu_allocatable: gpus.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect(),
            cards: cards.iter().map(card).collect(),
            ..Node::default()
        }
    }

    #[test]
    fn slices_under_the_name_of_gpus_are_told_from_whole_cards() {
        let product = "nvidia.com/gpu.product";
        let strategy = "nvidia.com/mig.strategy";
        let check = |node: Node, expected: Option<&str>| {
            assert_eq!(node.slices_as_gpus().as_deref(), expected, "{node:?}");
        };
        check(cut(&[(product, "NVIDIA-H100-NVL-MIG-1g.12gb.me")], &[], &[]), Some("1g.12gb+me"));
        check(cut(&[(product, "NVIDIA-H100-NVL-MIG-INVALID")], &[], &[]), Some(UNKNOWN_PROFILE));
        check(cut(&[(product, "NVIDIA-H100-NVL"), (strategy, "single")], &[], &[]), None);
        check(cut(&[(strategy, "single")], &[], &[&["1g.5gb", "1g.5gb"]]), Some("1g.5gb"));
        check(cut(&[(strategy, "single")], &[], &[&["1g.5gb", "2g.10gb"]]), Some(UNKNOWN_PROFILE));
        check(cut(&[(strategy, "mixed")], &[("nvidia_com_gpu", 1)], &[&["1g.5gb"]]), None);
        // Without labels the counts tell.
        let both = [("nvidia_com_gpu", 1), ("nvidia_com_mig_1g_5gb", 2)];
        check(cut(&[], &both, &[&["1g.5gb", "1g.5gb"], &[]]), None);
        check(cut(&[], &[("nvidia_com_gpu", 2)], &[&["1g.5gb", "1g.5gb"]]), Some("1g.5gb"));
        check(cut(&[], &[("nvidia_com_gpu", 1)], &[&["1g.5gb", "1g.5gb"], &[]]), None);
    }

    #[test]
    fn a_slice_is_what_its_reading_and_its_resource_agree_on() {
        for (read, asked, told) in [
            ("1g.5gb", None, "1g.5gb"),
            ("unknown", None, "unknown"),
            ("unknown", Some("1g.5gb+me"), "1g.5gb+me"),
            ("1g.5gb", Some("1g.5gb+me"), "1g.5gb+me"),
            ("1g.24gb-me", Some("unknown"), "1g.24gb-me"),
            ("1g.24gb", Some("unknown"), "unknown"),
            ("2g.10gb", Some("1g.5gb"), "unknown"),
            ("1c.3g.20gb", Some("unknown"), "unknown"),
            ("unknown", Some("unknown"), "unknown"),
        ] {
            assert_eq!(slice_profile(read, asked), told, "{read} {asked:?}");
        }
    }

    #[test]
    fn slices_of_several_pods_each_are_seen() {
        let check = |node: Node, expected: bool| assert_eq!(node.slices_are_shared(), expected, "{node:?}");
        let cards: &[&[&str]] = &[&["1g.5gb"]];
        let mixed = [("nvidia_com_mig_1g_5gb", 2)];
        check(cut(&[("nvidia.com/mig-1g.5gb.replicas", "2")], &mixed, cards), true);
        check(cut(&[("nvidia.com/mig-1g.5gb.replicas", "1")], &mixed, cards), false);
        // Of the whole cards of a mixed node.
        check(cut(&[("nvidia.com/gpu.replicas", "2")], &mixed, cards), false);
        check(cut(&[], &[("nvidia_com_mig_1g_5gb_shared", 2)], cards), true);
        check(cut(&[("nvidia.com/gpu.product", "NVIDIA-A30-MIG-1g.6gb-SHARED")], &[], cards), true);
        check(cut(&[("nvidia.com/gpu.product", "NVIDIA-A30-MIG-1g.6gb")], &[], cards), false);
    }

    #[test]
    fn label_keys_are_spelled_as_kube_state_metrics_does() {
        assert_eq!(sanitised_label("karpenter.sh/nodepool"), "karpenter_sh_nodepool");
        assert_eq!(sanitised_label("example.com/nodeGroup"), "example_com_node_group");
    }
}
