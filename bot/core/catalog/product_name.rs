//! How a card's product name is written in DCGM's `modelName` and in the node label `nvidia.com/gpu.product`.

use super::profile_name::ProfileName;

/// A product name or label, taken apart.
///
/// `NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED` is product `NVIDIA-A100-SXM4-40GB`, cut into `1g.5gb`, shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProductLabel {
    /// The product with blanks as dashes and without suffixes.
    pub product: String,
    /// What the label says about MIG strategy `single`.
    pub mig: LabelMig,
    /// `-SHARED`: time-slicing or MPS is on and the resource was not renamed.
    pub shared: bool,
}

/// What a product label says about MIG. Only strategy `single` says anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelMig {
    /// No suffix: MIG is off, or the strategy is not `single`.
    Absent,
    /// `-MIG-<profile>`: every card of the node is cut into this profile.
    Every(ProfileName),
    /// `-MIG-INVALID`: the node breaks the rules of strategy `single` and offers nothing.
    Invalid,
}

impl ProductLabel {
    /// Takes apart a label, a DCGM `modelName` or NVML's name of a MIG device.
    pub fn parse(text: &str) -> Self {
        let mut product = label_of(text);
        let shared = product.ends_with("-SHARED");
        if shared {
            product.truncate(product.len() - "-SHARED".len());
        }
        let mig = product.rsplit_once("-MIG-").map_or(LabelMig::Absent, |(_, suffix)| match suffix {
            "INVALID" => LabelMig::Invalid,
            profile => ProfileName::from_kubernetes(profile).map_or(LabelMig::Absent, LabelMig::Every),
        });
        if mig != LabelMig::Absent
            && let Some((before, _)) = product.rsplit_once("-MIG-")
        {
            product.truncate(before.len());
        }
        Self { product, mig, shared }
    }

    /// The product without `NVIDIA-`, which drivers before R470 did not print for A100.
    pub(super) fn key(&self) -> &str {
        self.product.strip_prefix("NVIDIA-").unwrap_or(&self.product)
    }
}

/// The label that GPU Feature Discovery makes of a product name: drops what is not a letter, digit, `-`, `_`,
/// `.` or blank, and joins the words with `-` (NVIDIA/k8s-device-plugin:internal/lm/resource.go).
///
/// `NVIDIA A100 80GB PCIe` becomes `NVIDIA-A100-80GB-PCIe`. A `+` of a MIG profile must be a `.` already.
pub fn label_of(name: &str) -> String {
    let kept: String =
        name.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ')).collect();
    kept.split_ascii_whitespace().collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, product: &str, mig: LabelMig, shared: bool) {
        assert_eq!(ProductLabel::parse(text), ProductLabel { product: product.to_owned(), mig, shared });
    }

    fn every(profile: &str) -> LabelMig {
        LabelMig::Every(profile.parse().unwrap())
    }

    #[test]
    fn each_suffix_is_taken_apart() {
        check("NVIDIA A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB", LabelMig::Absent, false);
        check("NVIDIA-L40S-SHARED", "NVIDIA-L40S", LabelMig::Absent, true);
        check("NVIDIA-A30-MIG-1g.6gb", "NVIDIA-A30", every("1g.6gb"), false);
        check("NVIDIA-A30-MIG-1g.6gb.me-SHARED", "NVIDIA-A30", every("1g.6gb+me"), true);
        check("NVIDIA-A30-MIG-INVALID", "NVIDIA-A30", LabelMig::Invalid, false);
        check("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA-A100-SXM4-40GB", every("1g.5gb"), false);
    }

    #[test]
    fn what_only_looks_like_a_suffix_stays() {
        check("NVIDIA-A30-MIG-blue", "NVIDIA-A30-MIG-blue", LabelMig::Absent, false);
    }

    #[test]
    fn labels_drop_what_kubernetes_does_not_allow() {
        assert_eq!(label_of("NVIDIA  A100 80GB PCIe"), "NVIDIA-A100-80GB-PCIe");
        assert_eq!(label_of("Quadro RTX (8000)"), "Quadro-RTX-8000");
    }
}
