//! Which ready-made mig-parted config cuts a card into one profile, and whether NVIDIA's static file has it.

use super::{GpuModel, Product, ProfileName};

/// A config that cuts a whole card into as many instances of one profile as it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorConfig {
    /// Value of the node label `nvidia.com/mig.config`, `all-1g.10gb`.
    pub name: String,
    /// Instances on each card.
    pub count: u8,
    /// Whether the static default file offers it for these cards with this count
    /// (NVIDIA/mig-parted:deployments/systemd/config-default.yaml). Otherwise only configs generated on the node
    /// do: MIG manager 0.14 or newer, without a custom ConfigMap.
    pub in_static_file: bool,
}

/// The config that cuts every product of `model` into `profile`. `None`: the model has no such profile.
///
/// `in_static_file` holds for every product; [`for_product`] answers for one.
/// The profile may carry its name of another driver branch: the config is then named after that one.
pub fn operator_config(model: &GpuModel, profile: ProfileName) -> Option<OperatorConfig> {
    let count = model.profile(profile)?.max_instances;
    let name = profile.config_name();
    let in_static_file = model.products.iter().all(|product| product.has_static_config(&name));
    Some(OperatorConfig { name, count, in_static_file })
}

/// As [`operator_config`], for one product of `model`.
pub fn for_product(model: &GpuModel, product: &Product, profile: ProfileName) -> Option<OperatorConfig> {
    let config = operator_config(model, profile)?;
    let in_static_file = product.has_static_config(&config.name);
    Some(OperatorConfig { in_static_file, ..config })
}

impl Product {
    /// Whether the static default file offers the config `name`, one of the model's `all-<profile>` or
    /// `all-balanced`, for this card.
    pub fn has_static_config(&self, name: &str) -> bool {
        !self.missing_from_static_config.iter().any(|missing| missing == name)
    }
}
