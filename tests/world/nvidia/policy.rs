//! The GPU Operator's `ClusterPolicy`, and what it and node labels name
//! (NVIDIA/gpu-operator:api/nvidia/v1, controllers/object_controls.go).

use serde_json::Value;

use super::{Map, text_of};

pub(super) fn complaints(policy: &Value, maps: &[Map]) -> Vec<String> {
    let spec = &policy["spec"];
    let mut found = Vec::new();
    let mut one_of = |field: &str, value: &Value, known: &[&str]| {
        if !value.is_null() && !value.as_str().is_some_and(|text| known.contains(&text)) {
            found.push(format!("`{field}` must be one of {known:?}, not {value}"));
        }
    };
    one_of("mig.strategy", &spec["mig"]["strategy"], &["none", "single", "mixed"]);
    one_of("migManager.config.default", &spec["migManager"]["config"]["default"], &["all-disabled", ""]);
    for part in ["migManager", "devicePlugin"] {
        let config = &spec[part]["config"];
        let name = &config["name"];
        if !(name.is_null() || name.is_string()) {
            found.push(format!("`{part}.config.name` must be a text, not {name}"));
        }
        if !config.is_object() && !config.is_null() {
            found.push(format!("`{part}.config` must be a mapping, not {config}"));
        }
    }
    if spec["migManager"]["config"]["name"] == "default-mig-parted-config" {
        found.push(
            "`migManager.config.name` names the operator's own map: from 26.3 on that pins its static file"
                .to_owned(),
        );
    }
    let plugin = &spec["devicePlugin"]["config"];
    let default = text_of(&plugin["default"]);
    if let (false, Some(map)) = (default.is_empty(), named(maps, &plugin["name"])) {
        match map.data.get(default) {
            None => found
                .push(format!("`devicePlugin.config.default` names `{default}`, which `{}` lacks", map.name)),
            Some(text) if text.contains("sharing:") => {
                found.push(format!(
                    "`devicePlugin.config.default` is `{default}`, which shares every card of the fleet"
                ));
            }
            Some(_) => {}
        }
    }
    found
}

/// Names on node labels that the maps must hold: a MIG config that is missing fails the node, a key that is missing is
/// skipped.
pub(super) fn labels(policy: &Value, maps: &[Map], labels: &[(String, String, String)]) -> Vec<String> {
    let mut found = Vec::new();
    let spec = &policy["spec"];
    for (path, key, value) in labels {
        let (part, is_held): (_, fn(&Map, &str) -> bool) = match key.as_str() {
            "nvidia.com/mig.config" => ("migManager", |map, value| {
                let text = map.data.get("config.yaml").map_or("", String::as_str);
                let file: Value = serde_saphyr::from_str(text).unwrap_or_default();
                file["mig-configs"].get(value).is_some()
            }),
            "nvidia.com/device-plugin.config" => ("devicePlugin", |map, value| map.data.contains_key(value)),
            _ => continue,
        };
        if let Some(map) = named(maps, &spec[part]["config"]["name"]).filter(|map| !is_held(map, value)) {
            found.push(format!("{path}: `{key}: {value}` is not in the map `{}`", map.name));
        }
    }
    found
}

/// The map of a name, if the files have one.
fn named<'m>(maps: &'m [Map], name: &Value) -> Option<&'m Map> {
    let name = name.as_str().filter(|name| !name.is_empty())?;
    maps.iter().find(|map| map.name == name)
}
