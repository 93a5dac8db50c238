//! What must hold for one GPU model before anything is planned with it.
//!
//! Catalog files may come from users, so each message names the profile, both numbers and the way out.

use std::collections::BTreeMap;

use super::{Engines, GpuModel, MigProfile, Product, product_name::label_of, profile_name::Attribute};
use crate::units::Mib;

/// No card has more; keeps the enumeration of layouts small whatever a file says.
const MOST_SLICES: u8 = 16;
/// Kubernetes' limit for a label value.
const LONGEST_LABEL: usize = 63;

/// Says what is wrong with `model` alone. Names shared between models are the question of `Catalog::new`.
pub(super) fn model(model: &GpuModel) -> Result<(), String> {
    let id_ok = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if model.id.is_empty() || !model.id.chars().all(id_ok) {
        return Err("`id` must consist of lower-case letters, digits and `-`, like `a100-40gb`".to_owned());
    }
    if model.products.is_empty() {
        return Err(
            "lists no product, so no card would ever be recognised; add one under `products`".to_owned()
        );
    }
    model.products.iter().try_for_each(product)?;
    if let Some(capability) = model.compute_capability
        && capability.mps_max_replicas() != model.mps_max_replicas
    {
        return Err(format!(
            "`mps_max_replicas` is {}, but compute capability {capability} allows {}",
            model.mps_max_replicas,
            capability.mps_max_replicas()
        ));
    }
    if model.smallest_framebuffer() == Some(Mib(0)) {
        return Err("a framebuffer of 0 MiB; leave the key out when it is not known".to_owned());
    }
    if let (Some(mig), Some(total)) = (model.sm_mig, model.sm_total)
        && mig > total
    {
        return Err(format!("`sm_mig` is {mig}, more than the {total} SMs of the whole card"));
    }
    if model.can_partition() { partitions(model) } else { no_partitions(model) }
}

fn product(product: &Product) -> Result<(), String> {
    let named = |problem: String| Err(format!("product `{}`: {problem}", product.name));
    let label = label_of(&product.name);
    if product.name.trim().is_empty() || label != product.gfd_label {
        return named(format!("`gfd_label` is `{}`, but the name gives `{label}`", product.gfd_label));
    }
    if label.len() > LONGEST_LABEL {
        return named(format!("the label has {} characters, Kubernetes allows {LONGEST_LABEL}", label.len()));
    }
    let hex = |id: &str, digits: usize| {
        id.strip_prefix("0x").is_some_and(|rest| {
            rest.len() == digits && rest.bytes().all(|b| matches!(b, b'0'..=b'9' | b'A'..=b'F'))
        })
    };
    if let Some(id) = &product.pci_device_id
        && !hex(id, 4)
    {
        return named(format!("`pci_device_id` is `{id}`, not four upper-case hex digits like `0x20B0`"));
    }
    if let Some(id) = &product.subsystem
        && !hex(id, 8)
    {
        return named(format!("`subsystem` is `{id}`, not eight upper-case hex digits like `0x204D10DE`"));
    }
    Ok(())
}

fn no_partitions(model: &GpuModel) -> Result<(), String> {
    let slices = [model.compute_slices, model.memory_slices, model.max_instances];
    if slices != [0; 3] || model.maximal_layouts.is_some() || !model.not_together.is_empty() {
        return Err(
            "has slices but no `profiles`; list them, or leave out the keys about partitions".to_owned()
        );
    }
    Ok(())
}

fn partitions(model: &GpuModel) -> Result<(), String> {
    if model.compute_slices == 0 || model.memory_slices == 0 || model.max_instances == 0 {
        return Err("has `profiles`, so it also needs `compute_slices`, `memory_slices` and `max_instances`"
            .to_owned());
    }
    for (what, slices) in [("compute", model.compute_slices), ("memory", model.memory_slices)] {
        if slices > MOST_SLICES {
            return Err(format!("{slices} {what} slices; at most {MOST_SLICES} are understood"));
        }
    }
    for found in &model.profiles {
        profile(model, found).map_err(|problem| format!("profile `{}`: {problem}", found.name))?;
    }
    for pair in model.profiles.windows(2) {
        let (before, after) = (pair[0].name, pair[1].name);
        if before >= after {
            return Err(format!(
                "profile `{after}` must not come after `{before}`: sort by slices, GB, attribute"
            ));
        }
    }
    let mut resources = BTreeMap::new();
    for found in &model.profiles {
        for name in std::iter::once(found.name).chain(found.aliases.iter().copied()) {
            if let Some(other) = resources.insert(name.resource(), found.name) {
                return Err(format!(
                    "profiles `{other}` and `{}` would both be `{}`",
                    found.name,
                    name.resource()
                ));
            }
        }
    }
    if let Some(drivers) = &model.names_by_driver
        && drivers.alias_from < drivers.name_before
    {
        return Err(format!(
            "`names_by_driver`: drivers from {} on cannot print the alias while those before {} print the name",
            drivers.alias_from, drivers.name_before
        ));
    }
    for rule in &model.not_together {
        if let Some(unknown) = rule.profiles.iter().find(|name| model.profile(**name).is_none()) {
            return Err(format!("`not_together` names `{unknown}`, which is not one of the profiles"));
        }
    }
    Ok(())
}

fn profile(model: &GpuModel, profile: &MigProfile) -> Result<(), String> {
    let MigProfile { memory, memory_min, compute_slices, memory_slices, size, max_instances, .. } = profile;
    if profile.name.compute_slices != *compute_slices {
        return Err(format!("`compute_slices` is {compute_slices}, which is not the number before `g`"));
    }
    if *compute_slices == 0 || *compute_slices > model.compute_slices {
        return Err(format!("`compute_slices` is {compute_slices}, the card has {}", model.compute_slices));
    }
    if *memory_min == Mib(0) || memory_min > memory {
        return Err(format!(
            "`memory_mib_min` is {memory_min}, `memory_mib` is {memory}; it must be 1 to that"
        ));
    }
    if let Some(whole) = model.framebuffer
        && *memory > whole
    {
        return Err(format!("one instance has {memory}, the whole card only {whole}"));
    }
    if let (Some(sm), Some(most)) = (profile.sm, model.sm_mig)
        && sm > most
    {
        return Err(format!("one instance has {sm} SMs, the largest may have {most} (`sm_mig`)"));
    }
    if *size == 0 || size != memory_slices {
        return Err(format!("placements have size {size}, but it takes {memory_slices} memory slices"));
    }
    if profile.starts.is_empty() || !profile.starts.is_sorted_by(|a, b| a < b) {
        return Err("`starts` must list at least one memory slice, ascending".to_owned());
    }
    if let Some(start) = profile.starts.iter().find(|start| start.saturating_add(*size) > model.memory_slices)
    {
        return Err(format!(
            "start {start} and size {size} reach beyond the {} memory slices of the card",
            model.memory_slices
        ));
    }
    if profile.graphics != (profile.name.attribute == Attribute::Gfx) {
        return Err("`graphics: true` belongs to `+gfx` profiles and to no other".to_owned());
    }
    let (most, exact) = most_instances(model, profile);
    if *max_instances == 0 || *max_instances > most || (exact && *max_instances != most) {
        return Err(format!("`max_instances` is {max_instances}, but placements and engines allow {most}"));
    }
    Ok(())
}

/// How many instances of `profile` alone fit, and whether that is exact (media engines are known).
fn most_instances(model: &GpuModel, profile: &MigProfile) -> (u8, bool) {
    let mut most = 0;
    let mut free_from = 0;
    for &start in &profile.starts {
        if start >= free_from {
            most += 1;
            free_from = start + profile.size;
        }
    }
    most = most.min(model.compute_slices / profile.compute_slices).min(model.max_instances);
    let (Some(total), Some(each)) = (model.engines_total, profile.engines) else {
        return (most, false);
    };
    (most.min(fit_into(total, each)), true)
}

/// How often `each` fits into `total`.
fn fit_into(total: Engines, each: Engines) -> u8 {
    let times =
        total.counts().into_iter().zip(each.counts()).filter_map(|(have, need)| have.checked_div(need));
    times.min().unwrap_or(u8::MAX)
}
