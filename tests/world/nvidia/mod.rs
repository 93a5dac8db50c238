//! What the parsers of NVIDIA's operator, MIG manager and device plugin take: rules of their own, which no Kubernetes schema
//! knows, written from their documentation and sources (each rule names where it comes from).
//!
//! Kept apart from the bot's own knowledge on purpose: the catalog's figures are all that both read.

mod catalog;

mod mig;

mod plugin;

mod policy;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::repo::files_below;

/// What is wrong with the configuration in a folder's YAML files, one line a complaint, and how many configurations were
/// looked at.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) complaints: Vec<String>,
    pub(crate) n_mig: usize,
    pub(crate) n_plugin: usize,
    pub(crate) n_policies: usize,
}

/// Layouts that are meant for one card model, by config name; the model is the catalog's id.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meant {
    pub(crate) model: String,
    pub(crate) names: Vec<String>,
}

/// One config map, or the data that the operator's chart makes one of.
struct Map {
    place: String,
    name: String,
    data: BTreeMap<String, String>,
}

/// Looks at every config map, operator's chart values and cluster policy below a folder.
pub(crate) fn look(folder: &Path, meant: &Meant) -> Verdict {
    let mut verdict = Verdict::default();
    let (mut maps, mut policies, mut labels) = (Vec::new(), Vec::new(), Vec::new());
    for path in files_below(folder) {
        if !(path.ends_with(".yaml") || path.ends_with(".yml")) {
            continue;
        }
        let text = std::fs::read_to_string(folder.join(&path)).unwrap_or_default();
        // Templates and broken files are others' business.
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap_or_default();
        for object in documents.iter().flat_map(objects) {
            maps.extend(config_map(&path, object));
            maps.extend(chart_data(&path, object));
            labels.extend(node_labels(&path, object));
            if object["kind"] == "ClusterPolicy" && text_of(&object["apiVersion"]).starts_with("nvidia.com/")
            {
                policies.push((path.clone(), object.clone()));
            }
        }
    }
    for map in &maps {
        for (key, text) in &map.data {
            let Ok(value) = serde_saphyr::from_str::<Value>(text) else { continue };
            let place = format!("{}: {} `{key}`", map.place, map.name);
            if value.get("mig-configs").is_some() {
                verdict.n_mig += 1;
                verdict
                    .complaints
                    .extend(mig::complaints(key, &value, meant).into_iter().map(|c| format!("{place}: {c}")));
            } else if plugin::is_config(&value) {
                verdict.n_plugin += 1;
                verdict
                    .complaints
                    .extend(plugin::complaints(key, &value).into_iter().map(|c| format!("{place}: {c}")));
            }
        }
    }
    for (path, policy) in &policies {
        verdict.n_policies += 1;
        verdict
            .complaints
            .extend(policy::complaints(policy, &maps).into_iter().map(|c| format!("{path}: {c}")));
        verdict.complaints.extend(policy::labels(policy, &maps, &labels));
    }
    verdict.complaints.sort();
    verdict
}

/// A document, or the items of a list.
fn objects(document: &Value) -> Vec<&Value> {
    match document["items"].as_array() {
        Some(items) if text_of(&document["kind"]).ends_with("List") => items.iter().collect(),
        Some(_) | None => vec![document],
    }
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn config_map(path: &str, object: &Value) -> Option<Map> {
    let data = object["data"].as_object().filter(|_| object["kind"] == "ConfigMap")?;
    Some(Map {
        place: path.to_owned(),
        name: text_of(&object["metadata"]["name"]).to_owned(),
        data: data.iter().map(|(key, value)| (key.clone(), text_of(value).to_owned())).collect(),
    })
}

/// `devicePlugin.config.data` and `migManager.config.data` of the operator's chart, wherever its values stand.
fn chart_data(path: &str, value: &Value) -> Vec<Map> {
    let mut found = Vec::new();
    let Value::Object(entries) = value else {
        return value.as_array().into_iter().flatten().flat_map(|item| chart_data(path, item)).collect();
    };
    for (key, below) in entries {
        if matches!(key.as_str(), "devicePlugin" | "migManager")
            && let Some(data) = below["config"]["data"].as_object()
        {
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            found.push(Map {
                place: path.to_owned(),
                name: text_of(&below["config"]["name"]).to_owned(),
                data: data.iter().map(|(key, value)| (key.clone(), text(value))).collect(),
            });
        }
        found.extend(chart_data(path, below));
    }
    found
}

/// Labels of `Node` manifests, as place, key and value.
fn node_labels(path: &str, object: &Value) -> Vec<(String, String, String)> {
    let labels = object["metadata"]["labels"].as_object().filter(|_| object["kind"] == "Node");
    let of = |(key, value): (&String, &Value)| (path.to_owned(), key.clone(), text_of(value).to_owned());
    labels.into_iter().flatten().map(of).collect()
}

/// Kubernetes' limit on label values, which names of configs are.
fn is_label_value(name: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    name.len() <= 63 && name.chars().all(good) && ends(name.chars().next()) && ends(name.chars().last())
}

/// Keys of a mapping that are none of those known.
fn unknown<'v>(value: &'v Value, known: &[&str]) -> Vec<&'v str> {
    let keys = value.as_object().into_iter().flat_map(serde_json::Map::keys);
    keys.map(String::as_str).filter(|key| !known.contains(key)).collect()
}

#[cfg(test)]
mod tests;
