//! The device plugin's configuration (NVIDIA/k8s-device-plugin:api/config/v1, cmd/nvidia-device-plugin, internal/rm).

use std::collections::BTreeSet;

use serde_json::Value;

use super::{is_label_value, text_of, unknown};

/// Clients that one MPS server takes from compute capability 7.5 on.
const MOST_CLIENTS: u64 = 48;

/// Whether a text is such a configuration: those of other programs have other fields.
pub(super) fn is_config(value: &Value) -> bool {
    let fields = ["version", "flags", "resources", "sharing", "imex"];
    value.get("sharing").is_some()
        || (value.get("version").is_some() && value.is_object() && unknown(value, &fields).is_empty())
}

pub(super) fn complaints(key: &str, config: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if !is_label_value(key) {
        found.push("its key is no label value, and nodes choose it by a label".to_owned());
    }
    if config["version"] != "v1" {
        found.push(format!("`version` must be `v1`, not {}", config["version"]));
    }
    let fields = ["version", "flags", "resources", "sharing", "imex"];
    found.extend(unknown(config, &fields).iter().map(|key| format!("unknown field `{key}`")));
    let flags = &config["flags"];
    if let Some(strategy) = flags.get("migStrategy")
        && !["none", "single", "mixed"].contains(&text_of(strategy))
    {
        found.push(format!("`migStrategy` must be none, single or mixed, not {strategy}"));
    }
    if flags.get("failOnInitError").is_some_and(|flag| !flag.is_boolean()) {
        found.push("`failOnInitError` must be true or false".to_owned());
    }
    let sharing = &config["sharing"];
    found.extend(
        unknown(sharing, &["timeSlicing", "mps"]).iter().map(|key| format!("unknown way to share `{key}`")),
    );
    if sharing.get("timeSlicing").is_some() && sharing.get("mps").is_some() {
        found.push("`timeSlicing` and `mps` exclude each other".to_owned());
    }
    for way in ["timeSlicing", "mps"] {
        if let Some(shared) = sharing.get(way) {
            found.extend(of_way(way, shared, text_of(&flags["migStrategy"])));
        }
    }
    found
}

fn of_way(way: &str, shared: &Value, strategy: &str) -> Vec<String> {
    let fields = ["renameByDefault", "failRequestsGreaterThanOne", "resources"];
    let mut found: Vec<String> =
        unknown(shared, &fields).iter().map(|key| format!("`{way}`: unknown field `{key}`")).collect();
    for flag in ["renameByDefault", "failRequestsGreaterThanOne"] {
        if shared.get(flag).is_some_and(|value| !value.is_boolean()) {
            found.push(format!("`{way}.{flag}` must be true or false"));
        }
    }
    match (way, shared.get("failRequestsGreaterThanOne").and_then(Value::as_bool)) {
        ("timeSlicing", None) => found.push(
            "`failRequestsGreaterThanOne` is not said: without it a pod that asks for 2 gets no more than one".to_owned(),
        ),
        ("mps", Some(false)) => found.push("most plugins take no `false` for `failRequestsGreaterThanOne` under MPS".to_owned()),
        _ => {}
    }
    if way == "mps" && strategy == "mixed" {
        found.push("the plugin does not start with MPS under `mixed`".to_owned());
    }
    let resources = shared["resources"].as_array().filter(|resources| !resources.is_empty());
    let Some(resources) = resources else {
        found.push(format!("`{way}`: no resources specified"));
        return found;
    };
    let mut names = BTreeSet::new();
    for resource in resources {
        let name = text_of(&resource["name"]);
        let bare = name.strip_prefix("nvidia.com/").unwrap_or(name);
        if !(bare == "gpu" || bare.starts_with("mig-")) || "nvidia.com/".len() + bare.len() > 63 {
            found.push(format!("`{name}` is no resource of the plugin"));
        }
        if !names.insert(bare) {
            found.push(format!("`{name}` is shared twice"));
        }
        if way == "mps" && bare.starts_with("mig-") {
            found.push(format!("MPS does not work on `{name}`"));
        }
        for field in unknown(resource, &["name", "replicas"]) {
            found.push(match field {
                "rename" | "devices" => format!("`{field}` of `{name}` is ignored by the plugin"),
                other => format!("unknown field `{other}` of `{name}`"),
            });
        }
        match resource["replicas"].as_u64() {
            Some(n) if n < 2 => {
                found.push(format!("{n} replicas of `{name}`: fewer than 2 crash the plugin"))
            }
            Some(n) if way == "mps" && n > MOST_CLIENTS => {
                found.push(format!("{n} replicas of `{name}`: one MPS server takes {MOST_CLIENTS}"));
            }
            Some(_) => {}
            None => {
                found.push(format!("`replicas` of `{name}` must be a whole number: {}", resource["replicas"]))
            }
        }
    }
    found
}
