//! What one GPU model is: its products, its sizes, and the MIG profiles it can be cut into.
//!
//! Each field documents the key of the same name in `config/catalog/*.yaml`.

use serde::{Deserialize, Serialize};

use super::{ComputeCapability, DriverVersion, ProfileName, profile_name::Attribute};
use crate::units::Mib;

/// GPUs of one geometry: same memory, slices, SMs and MIG profiles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuModel {
    /// Slicewright's own name, `a100-40gb`; unique in a catalog.
    pub id: String,
    /// NVIDIA's generation, `ampere`.
    pub generation: String,
    /// Cards that are sold with this geometry; at least one.
    pub products: Vec<Product>,
    /// GB in the data sheet, which is more than a driver ever reports.
    #[serde(default)]
    pub nominal_gb: Option<u32>,
    /// Memory of the whole card as the driver reports it.
    #[serde(default, rename = "framebuffer_mib")]
    pub framebuffer: Option<Mib>,
    /// Every figure seen for it. ECC, driver branch and vGPU change it by a few percent.
    #[serde(default, rename = "framebuffer_mib_seen")]
    pub framebuffer_seen: Vec<Mib>,
    /// Stands in where no report was seen. For names only; nothing may be sized from it.
    #[serde(default, rename = "framebuffer_mib_estimate")]
    pub framebuffer_estimate: Option<Mib>,
    /// Compute slices of the card, 7 on an A100. 0 for a card that cannot partition.
    #[serde(default)]
    pub compute_slices: u8,
    /// Memory slices of the card, 8 on an A100. 0 for a card that cannot partition.
    #[serde(default)]
    pub memory_slices: u8,
    /// The most MIG instances at once. 0 for a card that cannot partition.
    #[serde(default)]
    pub max_instances: u8,
    /// SMs of the whole card without MIG, 108 on an A100.
    #[serde(default)]
    pub sm_total: Option<u32>,
    /// SMs of the largest instance, 98 on an A100.
    #[serde(default)]
    pub sm_mig: Option<u32>,
    /// CUDA compute capability.
    #[serde(default)]
    pub compute_capability: Option<ComputeCapability>,
    /// The most replicas of one card under MPS: 48 from compute capability 7.5 on, else 16.
    pub mps_max_replicas: u32,
    /// The first driver that can cut this card.
    #[serde(default)]
    pub min_driver: Option<DriverVersion>,
    /// Whether turning MIG on or off needs a reset of the card (Ampere). `None`: not established, assume yes.
    #[serde(default)]
    pub mode_switch_needs_gpu_reset: Option<bool>,
    /// Whether MIG mode survives a reboot (Ampere). Instances never do. `None`: cannot partition.
    #[serde(default)]
    pub mode_survives_reboot: Option<bool>,
    /// Media engines of the card, a second budget beside the slices. `None`: not established.
    #[serde(default)]
    pub engines_total: Option<Engines>,
    /// MIG profiles in NVIDIA's order. Empty: this card cannot partition.
    #[serde(default)]
    pub profiles: Vec<MigProfile>,
    /// Profiles that older drivers refuse side by side.
    #[serde(default)]
    pub not_together: Vec<NotTogether>,
    /// Which drivers print `name` and which `aliases` of the profiles. `None`: not established; only the cluster can
    /// tell.
    #[serde(default)]
    pub names_by_driver: Option<NamesByDriver>,
    /// Machines in which this card must not be cut although it could be.
    #[serde(default)]
    pub refused_machines: Vec<RefusedMachine>,
    /// Self-check: how many ways there are to fill the card. Tests hold `layouts::maximal` against it.
    #[serde(default)]
    pub maximal_layouts: Option<MaximalLayouts>,
    /// How far the figures of the whole model can be trusted.
    pub confidence: Confidence,
    /// What else a planner or reader should know.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Where the figures come from.
    #[serde(default)]
    pub sources: Vec<String>,
}

/// One card as it is sold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Product {
    /// DCGM's `modelName`, which is also what `nvidia-smi` prints: `NVIDIA A100-SXM4-40GB`.
    pub name: String,
    /// Node label `nvidia.com/gpu.product` before any suffix: `NVIDIA-A100-SXM4-40GB`.
    pub gfd_label: String,
    /// PCI device id, `0x20B0`. Not unique: A2 and A16 share one.
    #[serde(default)]
    pub pci_device_id: Option<String>,
    /// PCI subsystem id where the device id alone does not tell products apart, `0x204D10DE`.
    #[serde(default)]
    pub subsystem: Option<String>,
    /// Other spellings of `name` that drivers have printed.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Part of a Grace system. Its driver's coherent memory mode (CDMM) is incompatible with MIG and is the
    /// default of the driver container from 580.65.06 on.
    #[serde(default)]
    pub grace: bool,
    /// A workstation card: MIG needs its display mode set to compute, and this VBIOS or a newer one,
    /// `98.02.55.00.00`.
    #[serde(default)]
    pub min_vbios: Option<String>,
    /// How far name and ids can be trusted.
    pub confidence: Confidence,
    /// Configs (`all-1g.10gb`, `all-balanced`) that NVIDIA's static mig-parted file does not offer for this card:
    /// no entry matches its device id, or the entry asks for another count than the card holds.
    #[serde(default)]
    pub missing_from_static_config: Vec<String>,
    /// What else a planner or reader should know.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Product {
    /// The `device-filter` of mig-parted: device id and NVIDIA's vendor id, `0x20B010DE`.
    pub fn device_filter(&self) -> Option<String> {
        self.pci_device_id.as_ref().map(|id| format!("{id}10DE"))
    }
}

/// One way to cut off a piece of a card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MigProfile {
    /// Name on current drivers, `1g.10gb+me`.
    pub name: ProfileName,
    /// Usable memory of one instance as a real driver printed it; an estimate on the low side unless
    /// `confidence` is `verified`.
    #[serde(rename = "memory_mib")]
    pub memory: Mib,
    /// The lowest figure across drivers. Plan with this one.
    #[serde(rename = "memory_mib_min")]
    pub memory_min: Mib,
    /// SMs of one instance. `None`: not established, so it is no evidence of compute.
    #[serde(default)]
    pub sm: Option<u32>,
    /// Compute slices of one instance.
    pub compute_slices: u8,
    /// Memory slices of one instance.
    pub memory_slices: u8,
    /// Memory slices at which an instance may start, ascending.
    pub starts: Vec<u8>,
    /// Memory slices that an instance takes from its start.
    pub size: u8,
    /// The most instances of this profile alone on one card.
    pub max_instances: u8,
    /// Media engines of one instance. `None`: not established.
    #[serde(default)]
    pub engines: Option<Engines>,
    /// Copy engines of one instance.
    #[serde(default)]
    pub copy_engines: Option<u8>,
    /// NVML's GPU instance profile id.
    #[serde(default)]
    pub profile_id: Option<u16>,
    /// May run graphics APIs.
    #[serde(default)]
    pub graphics: bool,
    /// The first driver with this profile, where that is later than the model's.
    #[serde(default)]
    pub min_driver: Option<DriverVersion>,
    /// Names of the same profile on other driver branches.
    #[serde(default)]
    pub aliases: Vec<ProfileName>,
    /// How far the figures can be trusted.
    pub confidence: Confidence,
    /// How far `starts` can be trusted, where that differs.
    #[serde(default)]
    pub placements_confidence: Option<Confidence>,
}

impl MigProfile {
    /// Whether this is the profile `name`, on whatever driver branch.
    pub fn is_named(&self, name: ProfileName) -> bool {
        self.name == name || self.aliases.contains(&name)
    }

    /// One compute slice with two memory slices, `1g.20gb` on an A100 80GB.
    pub fn is_double_memory(&self) -> bool {
        self.compute_slices == 1 && self.memory_slices == 2
    }
}

/// Media engines, of a card or of one instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Engines {
    /// Video decoders (NVDEC).
    pub decoders: u8,
    /// Video encoders (NVENC).
    pub encoders: u8,
    /// JPEG decoders (NVJPG).
    pub jpeg: u8,
    /// Optical flow accelerators (OFA).
    pub ofa: u8,
}

impl Engines {
    /// Each kind, in the order of the fields.
    pub const fn counts(self) -> [u8; 4] {
        [self.decoders, self.encoders, self.jpeg, self.ofa]
    }
}

/// Profiles that drivers before `before_driver` refuse on one card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotTogether {
    /// The profiles; refused when all of them are there.
    pub profiles: Vec<ProfileName>,
    /// The first driver that allows it.
    pub before_driver: DriverVersion,
}

/// Which drivers print which names. Between the two nothing was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamesByDriver {
    /// Drivers before this one print `name`.
    pub name_before: DriverVersion,
    /// This driver and newer ones print the first alias.
    pub alias_from: DriverVersion,
}

/// A machine in which a card must not be cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefusedMachine {
    /// Part of the node label `nvidia.com/gpu.machine`, `DGX-Station`.
    pub machine: String,
    /// What goes wrong there.
    pub reason: String,
}

/// How many ways there are to fill a card so that nothing more fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaximalLayouts {
    /// With profiles that have no attribute, the largest included.
    pub plain_profiles: LayoutCount,
    /// The same without the double-memory `1g`.
    #[serde(default)]
    pub plain_without_double_memory_1g: Option<LayoutCount>,
    /// With every profile but `+gfx`, within the card's media engines where they are known.
    pub all_but_gfx_with_engine_limits: LayoutCount,
}

/// A number of layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayoutCount {
    /// Told apart by where each instance sits.
    pub placements: usize,
    /// Told apart by how many instances of each profile there are.
    pub multisets: usize,
}

/// How far a figure can be trusted; best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Seen in NVIDIA's material or in real command output.
    Verified,
    /// Follows from a verified formula or a sibling product.
    Derived,
    /// Weak or conflicting.
    Uncertain,
}

impl GpuModel {
    /// The model for people: `A100 80GB`, `RTX PRO 6000 Blackwell 96GB`.
    pub fn title(&self) -> String {
        let word = |word: &str| {
            let short = word.len() <= 3 || word.bytes().any(|byte| byte.is_ascii_digit());
            let mut letters = word.chars();
            match letters.next() {
                Some(first) if !short => first.to_ascii_uppercase().to_string() + letters.as_str(),
                Some(_) | None => word.to_ascii_uppercase(),
            }
        };
        self.id.split('-').map(word).collect::<Vec<_>>().join(" ")
    }

    /// Whether the card can be cut at all.
    pub fn can_partition(&self) -> bool {
        !self.profiles.is_empty()
    }

    /// The lowest figure known for the memory of the whole card. `None`: no report was ever seen.
    pub fn smallest_framebuffer(&self) -> Option<Mib> {
        self.framebuffer.into_iter().chain(self.framebuffer_seen.iter().copied()).min()
    }

    /// The smallest framebuffer known of the model or seen of it in the cluster: what sharing starts from.
    pub fn framebuffer_with(&self, seen: Option<Mib>) -> Option<Mib> {
        self.smallest_framebuffer().into_iter().chain(seen).min()
    }

    /// The profile of this name, or of this name on another driver branch.
    pub fn profile(&self, name: ProfileName) -> Option<&MigProfile> {
        let current = self.profiles.iter().find(|profile| profile.name == name);
        current.or_else(|| self.profiles.iter().find(|profile| profile.is_named(name)))
    }

    /// The profiles that shared cards are cut into: no attribute, and less than the whole card.
    ///
    /// Smallest first, by memory slices, compute slices and SMs, so that each has at least the memory of the
    /// one before.
    pub fn plain_profiles(&self) -> Vec<&MigProfile> {
        let mut plain: Vec<_> = self
            .profiles
            .iter()
            .filter(|profile| profile.name.attribute == Attribute::Plain)
            .filter(|profile| profile.memory_slices < self.memory_slices)
            .collect();
        plain.sort_by_key(|profile| (profile.memory_slices, profile.compute_slices, profile.sm));
        plain
    }

    /// The product with this exact `modelName` or label; see [`super::Catalog::find_by_product`] for looser names.
    pub fn product(&self, name_or_label: &str) -> Option<&Product> {
        let wanted = super::product_name::ProductLabel::parse(name_or_label);
        self.products.iter().find(|product| {
            let names = [&product.name, &product.gfd_label].into_iter().chain(&product.aliases);
            names.into_iter().any(|name| super::product_name::ProductLabel::parse(name).key() == wanted.key())
        })
    }
}
