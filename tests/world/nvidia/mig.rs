//! The MIG manager's file (NVIDIA/mig-parted:api/spec/v1, pkg/mig/config, cmd/nvidia-mig-parted).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::catalog::{Of, models, refused};
use super::{Meant, is_label_value, text_of, unknown};

/// NVIDIA's PCI vendor, the second half of a device filter.
const VENDOR: &str = "10DE";

pub(super) fn complaints(key: &str, file: &Value, meant: &Meant) -> Vec<String> {
    let mut found = Vec::new();
    if key != "config.yaml" {
        found.push("the MIG manager reads the key `config.yaml` and no other".to_owned());
    }
    if file["version"] != "v1" {
        found.push(format!("`version` must be `v1`, not {}", file["version"]));
    }
    found.extend(
        unknown(file, &["version", "mig-configs"]).iter().map(|key| format!("unknown field `{key}`")),
    );
    let Some(configs) = file["mig-configs"].as_object() else {
        return [found, vec!["`mig-configs` is no mapping".to_owned()]].concat();
    };
    if !configs.contains_key("all-disabled") {
        found.push(
            "a map of one's own must hold `all-disabled`: nodes with that label fail without it".to_owned(),
        );
    }
    for (name, entries) in configs {
        let mut of_config = Vec::new();
        if !is_label_value(name) {
            of_config.push("its name is no label value".to_owned());
        }
        match entries.as_array().filter(|entries| !entries.is_empty()) {
            None => of_config.push("it needs one entry at least".to_owned()),
            Some(entries) => {
                for entry in entries {
                    of_config.extend(of_entry(entry, meant.names.contains(name).then_some(&meant.model)));
                }
                of_config.extend(covered_twice(entries));
            }
        }
        found.extend(of_config.into_iter().map(|text| format!("`{name}`: {text}")));
    }
    found
}

fn of_entry(entry: &Value, model: Option<&String>) -> Vec<String> {
    let mut found: Vec<String> = unknown(entry, &["device-filter", "devices", "mig-enabled", "mig-devices"])
        .iter()
        .map(|key| format!("unknown field `{key}`"))
        .collect();
    let filters = match &entry["device-filter"] {
        Value::Null => Vec::new(),
        Value::String(one) => vec![one.as_str()],
        Value::Array(several) if several.iter().all(Value::is_string) => {
            several.iter().map(text_of).collect()
        }
        other => {
            found.push(format!("`device-filter` is neither a string nor a list of strings: {other}"));
            Vec::new()
        }
    };
    for filter in &filters {
        found.extend(of_filter(filter));
    }
    match &entry["devices"] {
        Value::String(all) if all == "all" => {}
        Value::Array(indices) if !indices.is_empty() && indices.iter().all(Value::is_u64) => {}
        other => found.push(format!("`devices` must be `all` or a list of indices, not {other}")),
    }
    let Some(enabled) = entry["mig-enabled"].as_bool() else {
        found.push("`mig-enabled` is mandatory".to_owned());
        return found;
    };
    let devices = &entry["mig-devices"];
    if !enabled {
        if devices.as_object().is_some_and(|devices| !devices.is_empty()) {
            found.push("`mig-devices` without `mig-enabled`".to_owned());
        }
        return found;
    }
    let Some(devices) = devices.as_object() else {
        found.push("`mig-devices` is mandatory where MIG is on".to_owned());
        return found;
    };
    let mut slices: BTreeMap<String, u64> = BTreeMap::new();
    for (profile, n) in devices {
        match n.as_u64() {
            Some(n) => {
                slices.insert(profile.clone(), n);
            }
            None => found.push(format!("the number of `{profile}` must be a whole one: {n}")),
        }
    }
    if !slices.is_empty() && slices.values().all(|n| *n == 0) {
        found.push("all numbers are 0".to_owned());
    }
    slices.retain(|_, n| *n > 0);
    found.extend(cannot_be_cut(&filters, model, &slices));
    found
}

/// A packed PCI id, device first, then vendor; a part behind a colon is for MIG managers from 0.15 on alone.
fn of_filter(filter: &str) -> Option<String> {
    let hex = filter.strip_prefix("0x").filter(|hex| hex.len() == 8);
    let (device, vendor) = hex?.split_at(4);
    let known = !models(Of::Device(&format!("0x{device}"))).is_empty();
    (vendor != VENDOR || !known).then(|| format!("`{filter}` is the id of no card that can be cut"))
}

/// The layout must be possible on the cards that are meant: those of the filters, of the plan, or else on some card.
fn cannot_be_cut(filters: &[&str], model: Option<&String>, slices: &BTreeMap<String, u64>) -> Option<String> {
    let by_filter: Vec<&Value> = filters
        .iter()
        .filter_map(|filter| filter.get(..6))
        .flat_map(|device| models(Of::Device(device)))
        .collect();
    let meant = match model {
        Some(id) => models(Of::Id(id)),
        None if !by_filter.is_empty() => by_filter,
        None => {
            let why: Vec<Option<String>> =
                models(Of::Any).iter().map(|model| refused(model, slices)).collect();
            return why.iter().all(Option::is_some).then(|| format!("no card can be cut into {slices:?}"));
        }
    };
    meant.iter().find_map(|model| refused(model, slices))
}

/// Entries are walked in order and the last one wins: a card that two of them name is a mistake.
fn covered_twice(entries: &[Value]) -> Option<String> {
    let mut seen = BTreeSet::new();
    for entry in entries.iter().filter(|entry| entry["device-filter"].is_null()) {
        let indices: Vec<Option<u64>> = match entry["devices"].as_array() {
            Some(indices) => indices.iter().map(Value::as_u64).collect(),
            None => vec![None],
        };
        for index in indices {
            if !seen.insert(index) || (seen.contains(&None) && seen.len() > 1) {
                return Some("several entries cover one card".to_owned());
            }
        }
    }
    None
}
