//! From measured series to what a workload used.
//!
//! Whether that is enough evidence, and what it fits, is the question of `fit`.

mod figures;
pub mod fold;
mod places;
pub mod quality;

pub mod declared;
mod sharing;

use std::collections::BTreeMap;
use std::fmt;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::ids::WorkloadId;
use crate::units::{Mib, Ratio};

/// What one workload was measured to use on one card model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadProfile {
    /// Who was measured.
    pub workload: WorkloadId,
    /// DCGM's `modelName` of the cards it ran on.
    pub model_name: String,
    /// The MIG slice that most of its pods hold now, in list spelling: `2g.10gb`, or
    /// [`UNKNOWN_PROFILE`](crate::inventory::UNKNOWN_PROFILE). `None`: whole cards.
    ///
    /// On a slice, memory figures cover all places of this model that it held in the window, whole cards and other
    /// slices too: the higher counts. Compute, bandwidth, kernel width and media engines are those of its whole-card
    /// days, and `None` where those are too few to stand for the window: profiling counters of slices are scaled by the
    /// smallest instance of the card.
    pub slice: Option<String>,
    /// First and last UTC day asked for.
    pub window: Window,
    /// The highest memory of any of its pods on any card. `None`: nothing usable was measured.
    pub peak: Option<Peak>,
    /// Highest memory a day, oldest first; days without samples are absent.
    pub daily_peaks: Vec<DayPeak>,
    /// Highest daily median of memory: what it holds when nothing happens.
    pub typical: Option<Mib>,
    /// Compute need. `None`: no compute metric was measured.
    pub compute: Option<Compute>,
    /// Worst day's 99th percentile of DRAM_ACTIVE.
    pub bandwidth_p99: Option<Ratio>,
    /// 95th percentile of SM_ACTIVE ÷ GR_ENGINE_ACTIVE while busy: which share of the SMs its kernels fill.
    pub kernel_width_p95: Option<Ratio>,
    /// Encoder or decoder use was seen. `None`: not measured.
    pub media_engines_used: Option<bool>,
    /// Days with samples.
    pub history_days: u32,
    /// Samples had over samples that its pods' life times should have given.
    pub coverage: Option<Ratio>,
    /// Memory samples in the window.
    pub samples: u64,
    /// Pods that ran to their end in the window, for batch kinds.
    pub complete_runs: u32,
    /// Most GPUs that one pod asked for.
    pub gpus_per_pod: u32,
    /// Distinct pods seen.
    pub pods_seen: u32,
    /// Memory that looks like a setting, not a need.
    pub reservation: Option<Reservation>,
    /// Why the figures above are incomplete or cannot be used.
    pub gaps: Vec<DataGap>,
}

/// The days that were asked for and had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// First UTC day asked for.
    pub first: Date,
    /// Last UTC day asked for; may be in progress.
    pub last: Date,
    /// Days asked for.
    pub asked_days: u32,
    /// Days for which Prometheus holds any GPU sample.
    pub had_days: u32,
}

/// The highest memory reading, and whose it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peak {
    /// Device-level `FB_USED`: CUDA contexts are in it.
    pub memory: Mib,
    /// Pod that held the card.
    pub pod: String,
    /// Card UUID.
    pub card: String,
    /// UTC day.
    pub day: Date,
}

/// One day's highest memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DayPeak {
    /// UTC day.
    pub day: Date,
    /// Highest `FB_USED` of any of its pods.
    pub memory: Mib,
}

/// Compute need of one pod, as a share of the whole card's SMs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compute {
    /// 99th percentile of the worst day.
    pub p99: Ratio,
    /// Where it comes from.
    pub source: ComputeSource,
    /// The worst day.
    pub day: Date,
}

/// Which metric a compute figure comes from, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ComputeSource {
    /// `DCGM_FI_PROF_SM_ACTIVE`: time × width.
    SmActive,
    /// `DCGM_FI_PROF_GR_ENGINE_ACTIVE`: an upper bound of SM_ACTIVE.
    GrEngineActive,
    /// `DCGM_FI_DEV_GPU_UTIL`: a looser upper bound.
    GpuUtil,
}

impl ComputeSource {
    /// The figure can only be too high, never too low.
    pub fn is_upper_bound(self) -> bool {
        self != Self::SmActive
    }

    /// The metric's short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::SmActive => "SM_ACTIVE",
            Self::GrEngineActive => "GR_ENGINE_ACTIVE",
            Self::GpuUtil => "GPU_UTIL",
        }
    }
}

/// Memory that a framework takes at start, whatever it needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// Plateau over the memory of the card, or of the slice that it holds.
    pub share_of_card: Ratio,
    /// What gave it away: a flat series at a known fraction, a framework metric, a flag in the repository.
    pub evidence: String,
    /// The framework, if known: `vLLM`.
    pub framework: Option<String>,
}

/// Why a measurement is missing or cannot be used. Each is shown to reviewers with its way out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum DataGap {
    /// No memory sample carries one of its pods.
    NoSamples,
    /// The card was handed to several pods: a reading belongs to none of them.
    SharedCard {
        /// `time-slicing`, `MPS`, `several pods on one card` …
        how: String,
    },
    /// A reading was above the card's memory and could not be repaired.
    ImpossibleReading {
        /// Card UUID.
        card: String,
        /// The reading.
        mib: u64,
    },
    /// Per-process readings are all zero: the exporter cannot see the processes (hostPID is off).
    ZeroPerProcess,
    /// Part of the window could not be read.
    IncompleteAnswer {
        /// Which query, day and shard, and what the server said.
        what: String,
    },
    /// No SM_ACTIVE, GR_ENGINE_ACTIVE or GPU_UTIL series.
    NoComputeMetric,
    /// It ran on several card models; figures are of the one named in the profile.
    SeveralModels {
        /// All models seen.
        models: Vec<String>,
    },
    /// It is allotted by Dynamic Resource Allocation.
    DraManaged,
    /// The pod holds the GPU for others (run:ai reservation pods).
    ReservationPod,
    /// It holds a MIG slice, and the exporter shows the card alone.
    WholeCardReadings,
}

impl DataGap {
    /// What to do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::NoSamples => {
                "check that the DCGM exporter attributes pods: `slicewright doctor` says which label is missing"
            }
            Self::SharedCard { .. } => "shared cards are not sized; measure it on a card of its own",
            Self::ImpossibleReading { .. } => "look at the exporter's log for this card; update DCGM",
            Self::ZeroPerProcess => "set `hostPID: true` on the DCGM exporter",
            Self::IncompleteAnswer { .. } => "run again when the server answers in full",
            Self::NoComputeMetric => {
                "enable `DCGM_FI_PROF_SM_ACTIVE` and `DCGM_FI_PROF_GR_ENGINE_ACTIVE` in the exporter's counters"
            }
            Self::SeveralModels { .. } => "pin the workload to one card model",
            Self::DraManaged => "workloads under Dynamic Resource Allocation are left alone",
            Self::ReservationPod => "the scheduler that made the reservation pod shares this card already",
            Self::WholeCardReadings => {
                "have the DCGM exporter show MIG instances: no `-d g` among its arguments, and \
                 `NVIDIA_MIG_MONITOR_DEVICES=all` in its environment"
            }
        }
    }
}

impl fmt::Display for DataGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSamples => write!(f, "no memory sample carries one of its pods"),
            Self::SharedCard { how } => write!(f, "the card is shared already ({how})"),
            Self::ImpossibleReading { card, mib } => {
                write!(f, "card {card} reported {} MiB, more than it has", crate::units::thousands(*mib))
            }
            Self::ZeroPerProcess => write!(f, "per-process memory reads 0 for every pod"),
            Self::IncompleteAnswer { what } => write!(f, "part of the window could not be read: {what}"),
            Self::NoComputeMetric => write!(f, "no compute metric was measured"),
            Self::SeveralModels { models } => write!(f, "ran on several card models: {}", models.join(", ")),
            Self::DraManaged => write!(f, "allotted by Dynamic Resource Allocation"),
            Self::ReservationPod => write!(f, "a reservation pod holds the GPU for others"),
            Self::WholeCardReadings => write!(f, "its readings are of the whole card, not of its MIG slice"),
        }
    }
}

/// Everything measured of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// One profile a workload, by id; where it ran on several models, the one with the highest peak.
    /// Serialised as a list: JSON has no structured keys.
    #[serde(with = "by_workload")]
    pub profiles: BTreeMap<WorkloadId, WorkloadProfile>,
    /// Smallest framebuffer seen a model: `nvidia.com/gpu.memory` labels and `FB_TOTAL`.
    pub smallest_framebuffer: BTreeMap<String, Mib>,
    /// Usable memory seen on real slices, by model and GPU_I_PROFILE (`FB_USED + FB_FREE`, smallest).
    pub slice_memory: BTreeMap<String, BTreeMap<String, Mib>>,
    /// Facts about the metrics for `doctor` and for the merge request.
    pub data_quality: DataQuality,
}

/// What the metrics of a cluster have and lack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataQuality {
    /// `exported_pod` or `pod`: where the workload's labels are.
    pub pod_label: String,
    /// `Hostname` or `hostname`.
    pub host_label: Option<String>,
    /// Seconds between two samples of one series.
    pub sample_interval_seconds: Option<u64>,
    /// Metrics found.
    pub metrics: Vec<String>,
    /// Metrics that would help and are absent.
    pub missing_metrics: Vec<String>,
    /// kube-state-metrics exposes GPU node labels.
    pub node_labels: bool,
    /// Days in the window for which there is any GPU sample.
    pub days_had: u32,
    /// Days asked for.
    pub days_asked: u32,
    /// Cards seen.
    pub n_cards: u32,
    /// Pods with GPU samples that could not be attributed to an owner.
    pub n_unattributed_pods: u32,
    /// Other findings, as a sentence with its way out.
    pub findings: Vec<Finding>,
}

/// Something wrong with the metrics or the repository, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Finding {
    /// Stable name, `no-sm-active`.
    pub code: String,
    /// How much it matters.
    pub severity: Severity,
    /// What is the case.
    pub text: String,
    /// What to do about it.
    pub advice: String,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing can be proposed until it is fixed.
    Blocker,
    /// Fewer or weaker proposals.
    Warning,
    /// Good to know.
    Note,
}

/// Profiles as a list on the wire, each with its workload inside.
mod by_workload {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    use super::{WorkloadId, WorkloadProfile};

    pub(super) fn serialize<S: Serializer>(
        profiles: &BTreeMap<WorkloadId, WorkloadProfile>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(profiles.values())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<WorkloadId, WorkloadProfile>, D::Error> {
        let list = Vec::<WorkloadProfile>::deserialize(deserializer)?;
        Ok(list.into_iter().map(|profile| (profile.workload.clone(), profile)).collect())
    }
}
