//! A MIG profile's name in each of its spellings, and the formula that drivers make it with.
//!
//! What a profile holds is in [`super::MigProfile`]. The same name means different hardware on different
//! models (`1g.10gb` is one memory slice of an A100 80GB and two of an A100 40GB), so that a name alone never
//! answers how much memory a slice has.

use std::{collections::BTreeSet, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The name of a MIG profile, `1g.10gb+me`.
///
/// Ordered as NVIDIA lists them: by compute slices, then by GB, then by attribute.
///
/// ```
/// use slicewright_core::catalog::ProfileName;
/// let name: ProfileName = "1g.10gb+me".parse().unwrap();
/// assert_eq!(name.resource(), "nvidia.com/mig-1g.10gb.me");
/// assert_eq!(name.config_name(), "all-1g.10gb.me");
/// assert_eq!(name.label_suffix(), "-MIG-1g.10gb.me");
/// assert_eq!(name.sanitised_resource(), "nvidia_com_mig_1g_10gb_me");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProfileName {
    /// Compute slices, the number before `g`.
    pub compute_slices: u8,
    /// The number before `gb`: a label, not a measure. Usable memory is up to 11 % less.
    pub memory_gb: u32,
    /// What comes after.
    pub attribute: Attribute,
}

/// What sets a MIG profile apart from the plain one of the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attribute {
    /// Nothing: `1g.24gb`.
    Plain,
    /// `+me`, with media extensions (OFA, on A100 also JPEG and a decoder); once on a card.
    Me,
    /// `+gfx`, may run graphics APIs; RTX PRO cards only.
    Gfx,
    /// `+me.all`, takes every media engine of the card.
    MeAll,
    /// `-me`, without any media engine.
    NoMe,
}

impl Attribute {
    /// Every attribute, in the order of the names.
    pub const ALL: [Self; 5] = [Self::Plain, Self::Me, Self::Gfx, Self::MeAll, Self::NoMe];

    /// As written in lists (`nvidia-smi`, mig-parted's `mig-devices`): `+me`.
    pub const fn in_lists(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Me => "+me",
            Self::Gfx => "+gfx",
            Self::MeAll => "+me.all",
            Self::NoMe => "-me",
        }
    }

    /// As written where Kubernetes allows no `+` (resources, labels, config names): `.me`. A `-me` stays.
    pub const fn in_kubernetes(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Me => ".me",
            Self::Gfx => ".gfx",
            Self::MeAll => ".me.all",
            Self::NoMe => "-me",
        }
    }
}

const RESOURCE_PREFIX: &str = "nvidia.com/mig-";
const CONFIG_PREFIX: &str = "all-";

impl ProfileName {
    /// A plain profile's name.
    pub const fn plain(compute_slices: u8, memory_gb: u32) -> Self {
        Self { compute_slices, memory_gb, attribute: Attribute::Plain }
    }

    /// The spelling with `+` as `.`: `1g.10gb.me`, and `1g.24gb-me` as it is.
    pub fn in_kubernetes(self) -> String {
        format!("{}g.{}gb{}", self.compute_slices, self.memory_gb, self.attribute.in_kubernetes())
    }

    /// Reads [`ProfileName::in_kubernetes`].
    pub fn from_kubernetes(text: &str) -> Option<Self> {
        parse_with(text, Attribute::in_kubernetes)
    }

    /// The extended resource under MIG strategy `mixed`: `nvidia.com/mig-1g.10gb.me`
    /// (NVIDIA/k8s-device-plugin:internal/rm/rm.go).
    pub fn resource(self) -> String {
        format!("{RESOURCE_PREFIX}{}", self.in_kubernetes())
    }

    /// Reads [`ProfileName::resource`]. `None` for every other resource, renamed ones (`….shared`) included.
    pub fn from_resource(resource: &str) -> Option<Self> {
        Self::from_kubernetes(resource.strip_prefix(RESOURCE_PREFIX)?)
    }

    /// The config of mig-parted that cuts every card into this profile alone: `all-1g.10gb.me`.
    pub fn config_name(self) -> String {
        format!("{CONFIG_PREFIX}{}", self.in_kubernetes())
    }

    /// Reads [`ProfileName::config_name`]. `None` for `all-balanced`, `all-disabled` and people's own names.
    pub fn from_config_name(name: &str) -> Option<Self> {
        Self::from_kubernetes(name.strip_prefix(CONFIG_PREFIX)?)
    }

    /// What GPU Feature Discovery appends to `nvidia.com/gpu.product` under strategy `single`:
    /// `-MIG-1g.10gb.me`.
    pub fn label_suffix(self) -> String {
        format!("-MIG-{}", self.in_kubernetes())
    }

    /// The resource as kube-state-metrics prints it: `nvidia_com_mig_1g_10gb_me`.
    ///
    /// `.me` and `-me` become one spelling, so that there is no way back without
    /// [`ProfileName::from_sanitised_resource`].
    pub fn sanitised_resource(self) -> String {
        sanitise(&self.resource())
    }

    /// Every profile of `known` that kube-state-metrics prints as `resource`, ascending.
    ///
    /// None: not a MIG resource, or not a known one. More than one: only the cluster's own objects can tell.
    pub fn from_sanitised_resource(resource: &str, known: &BTreeSet<Self>) -> Vec<Self> {
        known.iter().copied().filter(|name| name.sanitised_resource() == resource).collect()
    }
}

/// kube-state-metrics' rule for the label `resource`: what is neither letter, digit nor `_` becomes `_`
/// (kubernetes/kube-state-metrics:internal/store/utils.go).
pub fn sanitise(resource: &str) -> String {
    resource.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// The number that a driver puts before `gb`, from the bytes of one instance and of the whole card.
///
/// `round(⌈8 × instance ÷ total⌉ ÷ 8 × ⌈total in GiB⌉)`, halves up, as in
/// NVIDIA/go-nvlib:pkg/nvlib/device/mig_profile.go. `None` when `total_bytes` is zero or the result is absurd.
///
/// Names therefore change with the total that the driver reports: names that the cluster prints come first.
pub fn memory_gb(instance_bytes: u64, total_bytes: u64) -> Option<u32> {
    let (instance, total) = (u128::from(instance_bytes), u128::from(total_bytes));
    if total == 0 {
        return None;
    }
    let eighths = (8 * instance).div_ceil(total);
    let total_gib = total.div_ceil(1 << 30);
    u32::try_from((eighths * total_gib + 4) / 8).ok()
}

/// A text that is no MIG profile name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a MIG profile name such as `1g.10gb`, `1g.10gb+me`, `1g.24gb+gfx`, `1g.24gb+me.all` or `1g.24gb-me`"
)]
pub struct ProfileNameError {
    /// The text.
    pub text: String,
}

impl FromStr for ProfileName {
    type Err = ProfileNameError;

    /// Reads the spelling of lists, `1g.10gb+me`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_with(text, Attribute::in_lists).ok_or_else(|| ProfileNameError { text: text.to_owned() })
    }
}

impl fmt::Display for ProfileName {
    /// The spelling of lists, `1g.10gb+me`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}g.{}gb{}", self.compute_slices, self.memory_gb, self.attribute.in_lists())
    }
}

impl TryFrom<String> for ProfileName {
    type Error = ProfileNameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ProfileName> for String {
    fn from(name: ProfileName) -> Self {
        name.to_string()
    }
}

fn parse_with(text: &str, spelling: fn(Attribute) -> &'static str) -> Option<ProfileName> {
    let (compute_slices, rest) = text.split_once("g.")?;
    let (memory_gb, suffix) = rest.split_once("gb")?;
    Some(ProfileName {
        compute_slices: number(compute_slices)?,
        memory_gb: number(memory_gb)?,
        attribute: Attribute::ALL.into_iter().find(|attribute| spelling(*attribute) == suffix)?,
    })
}

/// Digits without a sign or a leading zero, so that printing gives the same text back.
fn number<T: FromStr>(text: &str) -> Option<T> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    if plain { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> ProfileName {
        text.parse().unwrap()
    }

    #[test]
    fn every_attribute_has_its_spellings() {
        let spellings = |text: &str| {
            let name = name(text);
            [name.to_string(), name.resource(), name.config_name(), name.label_suffix()]
        };
        assert_eq!(
            spellings("1g.10gb"),
            ["1g.10gb", "nvidia.com/mig-1g.10gb", "all-1g.10gb", "-MIG-1g.10gb"]
        );
        assert_eq!(
            spellings("1g.5gb+me"),
            ["1g.5gb+me", "nvidia.com/mig-1g.5gb.me", "all-1g.5gb.me", "-MIG-1g.5gb.me"]
        );
        assert_eq!(
            spellings("1g.24gb+gfx"),
            ["1g.24gb+gfx", "nvidia.com/mig-1g.24gb.gfx", "all-1g.24gb.gfx", "-MIG-1g.24gb.gfx"]
        );
        assert_eq!(
            spellings("2g.48gb+me.all"),
            ["2g.48gb+me.all", "nvidia.com/mig-2g.48gb.me.all", "all-2g.48gb.me.all", "-MIG-2g.48gb.me.all"]
        );
        assert_eq!(
            spellings("1g.24gb-me"),
            ["1g.24gb-me", "nvidia.com/mig-1g.24gb-me", "all-1g.24gb-me", "-MIG-1g.24gb-me"]
        );
    }

    #[test]
    fn what_is_no_profile_name_is_refused() {
        for text in [
            "",
            "1g",
            "1g.10gb.me",
            "1g.10gb+me+gfx",
            "1g.10GB",
            "01g.10gb",
            "+1g.10gb",
            "0g.10gb",
            "1g.gb",
            "1c.3g.20gb",
            " 1g.10gb",
            "1g.10gb ",
            "999g.10gb",
            "1g.99999999999gb",
            "whole",
        ] {
            assert!(text.parse::<ProfileName>().is_err(), "{text}");
        }
        for resource in
            ["nvidia.com/gpu", "nvidia.com/mig-1g.10gb.shared", "nvidia.com/mig-1g.10gb+me", "mig-1g.10gb"]
        {
            assert_eq!(ProfileName::from_resource(resource), None, "{resource}");
        }
        for config in ["all-balanced", "all-disabled", "all-enabled", "search-1g.10gb"] {
            assert_eq!(ProfileName::from_config_name(config), None, "{config}");
        }
    }

    #[test]
    fn a_sanitised_resource_may_stand_for_two_profiles() {
        let known = ["1g.24gb", "1g.24gb+me", "1g.24gb-me", "1g.24gb+me.all"].map(name).into();
        let back = |resource| ProfileName::from_sanitised_resource(resource, &known);
        assert_eq!(back("nvidia_com_mig_1g_24gb"), [name("1g.24gb")]);
        assert_eq!(back("nvidia_com_mig_1g_24gb_me"), [name("1g.24gb+me"), name("1g.24gb-me")]);
        assert_eq!(back("nvidia_com_mig_1g_24gb_me_all"), [name("1g.24gb+me.all")]);
        assert_eq!(back("nvidia_com_mig_7g_80gb"), []);
        assert_eq!(back("nvidia_com_gpu"), []);
    }

    #[test]
    fn names_sort_as_nvidia_lists_them() {
        let listed =
            ["1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"].map(name);
        assert!(listed.is_sorted());
    }

    #[test]
    fn the_number_of_gigabytes_rounds_halves_up() {
        let mib = |n: u64| n << 20;
        assert_eq!(memory_gb(mib(4_864), mib(40_960)), Some(5));
        assert_eq!(memory_gb(mib(9_728), mib(81_920)), Some(10));
        // 4 ÷ 8 × 189 is 94.5: `3g.95gb` on a pre-production GB200, where 186 gives `3g.93gb`.
        assert_eq!(memory_gb(mib(92_160), mib(189 * 1024)), Some(95));
        assert_eq!(memory_gb(mib(92_160), mib(189_471)), Some(93));
        assert_eq!(memory_gb(1, 0), None);
        assert_eq!(memory_gb(u64::MAX, 1), None);
    }

    proptest! {
        #[test]
        fn reading_what_was_printed_changes_nothing(g in 1u8.., gb in 1u32.., which in 0usize..5) {
            let name = ProfileName { compute_slices: g, memory_gb: gb, attribute: Attribute::ALL[which] };
            prop_assert_eq!(name.to_string().parse(), Ok(name));
            prop_assert_eq!(ProfileName::from_resource(&name.resource()), Some(name));
            prop_assert_eq!(ProfileName::from_config_name(&name.config_name()), Some(name));
            let known = BTreeSet::from([name]);
            prop_assert_eq!(ProfileName::from_sanitised_resource(&name.sanitised_resource(), &known), vec![name]);
        }

        #[test]
        fn any_text_is_read_or_refused_but_never_changed(text in "[0-9g.b+me-]{0,12}") {
            if let Ok(name) = text.parse::<ProfileName>() {
                prop_assert_eq!(name.to_string(), text);
            }
        }
    }
}
