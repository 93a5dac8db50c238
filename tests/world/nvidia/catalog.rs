//! The catalog's placements, and whether slices fit on a card: by trying.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

use crate::world::checkout;

/// Every model of `config/catalog`.
static MODELS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let folder = std::fs::read_dir(checkout("config/catalog")).unwrap();
    let paths = folder.map(|entry| entry.unwrap().path());
    let files = paths.filter(|path| path.extension().is_some_and(|end| end == "yaml"));
    files
        .flat_map(|path| {
            let file: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
            file["models"].as_array().cloned().unwrap_or_default()
        })
        .collect()
});

/// Models with MIG: those of an id, of a PCI device, or all.
pub(super) fn models(of: Of<'_>) -> Vec<&'static Value> {
    let is_it = |model: &&Value| match of {
        Of::Any => true,
        Of::Id(id) => model["id"] == id,
        Of::Device(device) => {
            let mut products = model["products"].as_array().into_iter().flatten();
            products.any(|product| {
                product["pci_device_id"].as_str().is_some_and(|known| known.eq_ignore_ascii_case(device))
            })
        }
    };
    MODELS.iter().filter(|model| model["profiles"].is_array()).filter(is_it).collect()
}

/// Which models are asked for.
#[derive(Clone, Copy)]
pub(super) enum Of<'a> {
    Any,
    Id(&'a str),
    /// `0x20B0`
    Device(&'a str),
}

/// Why a card of the model cannot be cut into these slices.
pub(super) fn refused(model: &Value, slices: &BTreeMap<String, u64>) -> Option<String> {
    let id = model["id"].as_str().unwrap_or_default();
    let mut wanted: Vec<&Value> = Vec::new();
    for (name, n) in slices {
        let profiles = model["profiles"].as_array().into_iter().flatten();
        let named = |profile: &&Value| {
            let also = profile["aliases"].as_array().into_iter().flatten();
            profile["name"] == *name || also.into_iter().any(|alias| alias == name)
        };
        let Some(profile) = profiles.clone().find(named) else {
            return Some(format!("`{name}` is no profile of {id}"));
        };
        if *n > profile["max_instances"].as_u64().unwrap_or(u64::MAX) {
            return Some(format!("{n} `{name}` are more than a {id} holds"));
        }
        wanted.extend(std::iter::repeat_n(profile, usize::try_from(*n).unwrap()));
    }
    let sum = |key: &str| wanted.iter().filter_map(|profile| profile[key].as_u64()).sum::<u64>();
    if sum("compute_slices") > model["compute_slices"].as_u64().unwrap_or(u64::MAX) {
        return Some(format!("a {id} has not so many compute slices"));
    }
    for (engine, total) in model["engines_total"].as_object().into_iter().flatten() {
        let used: u64 = wanted.iter().filter_map(|profile| profile["engines"][engine].as_u64()).sum();
        if total.as_u64().is_some_and(|total| used > total) {
            return Some(format!("a {id} has not so many engines `{engine}`"));
        }
    }
    // The driver picks the places: that some way exists is what counts. Large ones first, so that trying ends soon.
    wanted.sort_by_key(|profile| std::cmp::Reverse(profile["size"].as_u64()));
    (!fits(&wanted, 0)).then(|| format!("no places on a {id} hold {slices:?}"))
}

fn fits(wanted: &[&Value], taken: u64) -> bool {
    let Some((profile, rest)) = wanted.split_first() else { return true };
    let size = profile["size"].as_u64().unwrap();
    profile["starts"].as_array().unwrap().iter().filter_map(Value::as_u64).any(|start| {
        let here = ((1u64 << size) - 1) << start;
        taken & here == 0 && fits(rest, taken | here)
    })
}
