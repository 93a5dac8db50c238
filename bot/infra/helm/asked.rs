//! What values ask for: GPU resources after all layers, and the names that a chart gives to who gets them.

use std::collections::BTreeSet;

use super::edit::SIDES;
use super::release::Release;
use super::values::{Tree, at, merged, under};
use crate::infra::manifest::is_gpu;

/// GPU resources among the values of a release.
pub(super) struct Asked {
    pub(super) path: Vec<String>,
    pub(super) place: (String, usize),
}

/// One GPU resource that the values of a release ask for.
pub(super) struct Request {
    /// The path of the resources.
    pub(super) resources: Vec<String>,
    pub(super) resource: String,
    pub(super) side: &'static str,
    pub(super) place: (String, usize),
}

pub(super) fn requests(release: &Release, paths: &[Vec<String>]) -> Vec<Request> {
    let mut found = Vec::new();
    for path in paths {
        for side in SIDES {
            for (key, value) in merged(&release.layers, &under(path, side)) {
                if is_gpu(key) {
                    found.push(Request {
                        resources: path.clone(),
                        resource: key.to_owned(),
                        side,
                        place: (release.layers[value.layer].path.clone(), value.entry.line),
                    });
                }
            }
        }
    }
    found
}

/// Every `resources` of the values that asks for a GPU after all layers; those in lists as each layer has them.
pub(super) fn asked(release: &Release) -> Vec<Asked> {
    let mut paths: BTreeSet<Vec<String>> = BTreeSet::new();
    let mut found = Vec::new();
    for layer in &release.layers {
        layer.root.every(&mut |path, entry| {
            let Some((Some(last), _)) = path.split_last() else { return };
            if !SIDES.contains(last) {
                return;
            }
            let Tree::Map(entries) = &entry.tree else { return };
            let Some((_, gpu)) = entries.iter().find(|(key, _)| is_gpu(key)) else { return };
            let (above, listed) = (&path[..path.len() - 1], path.contains(&None));
            let above: Vec<String> = above.iter().map(|key| key.unwrap_or("[]").to_owned()).collect();
            if listed {
                found.push(Asked { path: above, place: (layer.path.clone(), gpu.line) });
            } else {
                paths.insert(above);
            }
        });
    }
    for path in paths {
        let requests = requests(release, std::slice::from_ref(&path));
        let first = requests.iter().find(|request| request.side == "limits").or(requests.first());
        if let Some(request) = first {
            found.push(Asked { path, place: request.place.clone() });
        }
    }
    found
}

/// The names that charts give to a workload of a release: the full name or the release's, and both with the name of a
/// part that the resources belong to.
pub(super) fn names(release: &Release, name: &str, chart: &str, above: &[String]) -> BTreeSet<String> {
    let own = |key: &str| {
        let at_level = |n: usize| at(&release.layers, &under(&above[..n], key))?.entry.text();
        (0..=above.len()).rev().find_map(at_level).filter(|text| !text.is_empty())
    };
    let overridden = own("fullnameOverride");
    let full = overridden.map(ToOwned::to_owned).unwrap_or_else(|| {
        let chart = own("nameOverride").unwrap_or(chart);
        if name.contains(chart) { name.to_owned() } else { format!("{name}-{chart}") }
    });
    let mut names = BTreeSet::from([full.clone(), name.to_owned()]);
    if overridden.is_some() && full != name {
        names.remove(name);
    }
    for part in above {
        names.extend([full.as_str(), name].map(|name| format!("{name}-{}", kebab(part))));
    }
    names.retain(|name| name.len() <= 63);
    names
}

/// `servingEngine` as `serving-engine`.
fn kebab(key: &str) -> String {
    let mut out = String::new();
    for c in key.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}
