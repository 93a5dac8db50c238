//! What the planner is told of a workload whose resources stand in values.

use std::collections::{BTreeMap, BTreeSet};

use slicewright_core::inventory::DeclaredWorkload;

use super::asked::Request;
use super::chart::{Feed, Workload};
use super::release::Release;
use super::values::{Entry, Tree, at, merged};
use crate::infra::kinds::Surge;
use crate::infra::manifest::{self, OPT_OUT, rolling};
use crate::infra::memory_flags;

/// What is known of any workload that values speak about.
pub(super) fn plain(release: &Release, requests: &[Request]) -> DeclaredWorkload {
    let first = requests.iter().find(|request| request.side == "limits").or(requests.first());
    let opted_out = release.layers.iter().any(|layer| {
        let mut found = false;
        layer.root.every(&mut |path, entry| {
            found |= path.last() == Some(&Some(OPT_OUT)) && entry.text() == Some("true");
        });
        found
    });
    DeclaredWorkload {
        place: first.map_or_else(
            || release.place.clone(),
            |request| format!("{}:{}", request.place.0, request.place.1),
        ),
        editable: Ok(()),
        max_surge: None,
        replicas: None,
        ignored: release.ignored || opted_out,
        labels: BTreeMap::new(),
        node_selector: BTreeMap::new(),
        tolerations: BTreeSet::new(),
        pinned: None,
        memory_flags: memory_flags(release),
    }
}

/// Flags and variables among the values that take memory up front; which container they are for is not looked at.
fn memory_flags(release: &Release) -> Vec<String> {
    let mut found: BTreeSet<String> = BTreeSet::new();
    for layer in &release.layers {
        layer.root.every(&mut |path, entry| match &entry.tree {
            Tree::Null => {}
            Tree::Scalar(text) => {
                let name = path.last().copied().flatten().unwrap_or_default();
                found.extend(memory_flags::variable_of(name, Some(text)));
                if path.last() != Some(&None) {
                    found.extend(memory_flags::in_command(&[text]));
                }
            }
            Tree::List(items) => {
                let texts: Vec<&str> = items.iter().filter_map(Entry::text).collect();
                found.extend(memory_flags::in_command(&texts));
            }
            Tree::Map(entries) => {
                let text = |key: &str| entries.get(key).and_then(Entry::text);
                found.extend(text("name").and_then(|name| memory_flags::variable_of(name, text("value"))));
            }
        });
    }
    found.into_iter().collect()
}

/// What the template and the values say of a workload.
pub(super) fn declared(release: &Release, workload: &Workload, requests: &[Request]) -> DeclaredWorkload {
    let mut declared = plain(release, requests);
    declared.replicas = workload.replicas.as_deref().and_then(|written| {
        let inner = written.trim_start_matches("{{").trim_end_matches("}}").trim_matches('-').trim();
        match inner.split(['|', ' ']).next()?.strip_prefix(".Values.") {
            Some(path) => {
                let path: Vec<String> = path.split('.').map(ToOwned::to_owned).collect();
                at(&release.layers, &path)?.entry.text()?.parse().ok()
            }
            None => written.parse().ok(),
        }
    });
    declared.max_surge = match (workload.carrier.surge, workload.strategy) {
        (Surge::Never, _) => Some(0),
        (_, true) | (Surge::Unknown, _) => None,
        (surge, false) => rolling(surge, declared.replicas),
    };
    let written = "written in a Helm template";
    for feed in [&workload.affinity, &workload.spread] {
        match feed {
            Feed::Absent => {}
            Feed::Written(line) => declared.pinned = Some(format!("{written} (`{}:{line}`)", workload.path)),
            Feed::Values(path) => {
                if let Some(place) = filled(release, path) {
                    declared.pinned = Some(format!("placement rules in Helm values (`{place}`)"));
                }
            }
        }
    }
    match &workload.node_selector {
        Feed::Absent => {}
        Feed::Written(line) => declared.pinned = Some(format!("{written} (`{}:{line}`)", workload.path)),
        Feed::Values(path) => read_selector(release, path, &mut declared),
    }
    match &workload.tolerations {
        Feed::Absent => {}
        Feed::Written(line) => declared.pinned = Some(format!("{written} (`{}:{line}`)", workload.path)),
        Feed::Values(path) => read_tolerations(release, path, &mut declared),
    }
    declared
}

/// The first placement rule among the values of a chart from elsewhere, wherever it stands: which pods it is for is not
/// known. The node selector at `selector` is read for itself.
pub(super) fn placement(release: &Release, selector: &[String]) -> Option<String> {
    let rules = ["affinity", "topologySpreadConstraints", "nodeSelector"];
    let mut paths: BTreeSet<Vec<String>> = BTreeSet::new();
    for layer in &release.layers {
        layer.root.every(&mut |path, _| {
            let whole: Option<Vec<String>> = path.iter().map(|key| key.map(ToOwned::to_owned)).collect();
            if let Some(path) = whole
                && path.last().is_some_and(|last| rules.contains(&last.as_str()))
                && path != selector
            {
                paths.insert(path);
            }
        });
    }
    let place = paths.iter().find_map(|path| filled(release, path))?;
    Some(format!("placement rules in Helm values (`{place}`)"))
}

/// The place of a value that is neither empty nor absent.
fn filled(release: &Release, path: &[String]) -> Option<String> {
    let found = at(&release.layers, path)?;
    let empty = match &found.entry.tree {
        Tree::Null => true,
        Tree::Scalar(text) => text.is_empty(),
        Tree::List(items) => items.is_empty(),
        Tree::Map(entries) => entries.is_empty(),
    };
    (!empty).then(|| release.layers[found.layer].place(found.entry))
}

pub(super) fn read_selector(release: &Release, path: &[String], declared: &mut DeclaredWorkload) {
    let entries = merged(&release.layers, path);
    declared.node_selector.extend(
        entries.into_iter().filter_map(|(key, found)| Some((key.to_owned(), found.entry.text()?.to_owned()))),
    );
}

pub(super) fn read_tolerations(release: &Release, path: &[String], declared: &mut DeclaredWorkload) {
    let Some(found) = at(&release.layers, path) else { return };
    let Tree::List(items) = &found.entry.tree else { return };
    for item in items {
        let part = |key: &str| match &item.tree {
            Tree::Map(entries) => entries.get(key).and_then(Entry::text),
            Tree::Null | Tree::Scalar(_) | Tree::List(_) => None,
        };
        declared.tolerations.insert(manifest::toleration(part("key"), part("operator"), part("value")));
    }
}
