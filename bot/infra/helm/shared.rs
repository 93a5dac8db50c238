//! Which values belong to one release alone: what others read too is not written to.

use std::collections::{BTreeMap, BTreeSet};

use super::release::{INSTALLERS, Release, file_of, further, installed, join};
use super::values::Layer;
use crate::infra::Scope;
use crate::infra::kustomize::parent;
use crate::infra::manifest::is_gpu;
use crate::infra::repository::{File, Repository, is_yaml};

/// Locks every file of values that more than one release reads, or that something else in the repository may read.
pub(super) fn lock(repository: &Repository<'_>, releases: &mut [Release], files: &BTreeMap<&str, File<'_>>) {
    let mut users: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for (number, release) in releases.iter().enumerate() {
        for layer in release.layers.iter().filter(|layer| layer.prefix.is_empty()) {
            users.entry(layer.path.clone()).or_default().insert(number);
        }
    }
    let asks = |layer: &Layer| {
        let mut found = false;
        layer.root.every(&mut |path, _| found |= path.last().copied().flatten().is_some_and(is_gpu));
        found
    };
    if !releases.iter().any(|release| release.layers.iter().any(asks)) {
        return;
    }
    let narrow = !repository.scope.folders.is_empty() || !repository.scope.deployed_by.is_empty();
    let scope = Scope {
        folders: Vec::new(),
        deployed_by: Vec::new(),
        new_files: String::new(),
        ..repository.scope.clone()
    };
    let whole = narrow.then(|| Repository::new(repository.snapshot, &scope, repository.index));
    let whole_files = whole.as_ref().map(further);
    let outside = match (&whole, &whole_files) {
        (Some(whole), Some(files)) => installed(whole, files),
        _ => Vec::new(),
    };
    let known = match (&whole, &whole_files) {
        (Some(whole), Some(files)) => unread_installers(whole, files),
        _ => unread_installers(repository, files),
    };
    // An overlay of another cluster makes one more release of the same object.
    let ways = |release: &Release| {
        outside.iter().find(|other| other.place == release.place).map(|other| other.n_ways)
    };
    let counts: Vec<bool> = releases.iter().map(|release| ways(release) > Some(release.n_ways)).collect();
    for (release, shared) in releases.iter_mut().zip(counts) {
        let path = file_of(&release.place).to_owned();
        for layer in release.layers.iter_mut().filter(|layer| shared && layer.path == path) {
            layer.locked.get_or_insert_with(|| format!("an overlay of another cluster takes `{path}` too"));
        }
    }
    for (path, numbers) in &users {
        let places: BTreeSet<String> = numbers
            .iter()
            .map(|number| &releases[*number])
            .chain(outside.iter().filter(|release| release.layers.iter().any(|layer| layer.path == *path)))
            .map(|release| release.place.clone())
            .collect();
        let why = if places.len() > 1 || numbers.len() > 1 {
            let places: Vec<String> = places.iter().map(|place| format!("`{place}`")).collect();
            Some(format!("`{path}` holds values of more than one release ({})", places.join(", ")))
        } else {
            let is_default = repository.texts.contains_key(join(parent(path), "Chart.yaml").as_str());
            known
                .iter()
                .find(|(_, text)| may_read(text, path, is_default))
                .map(|(user, _)| format!("`{user}` may read `{path}` too, and it is not understood"))
        };
        let Some(why) = why else { continue };
        for number in numbers {
            for layer in releases[*number].layers.iter_mut().filter(|layer| layer.path == *path) {
                layer.locked.get_or_insert_with(|| why.clone());
            }
        }
    }
}

/// Files that install charts in a way that is not read: application sets, templates, charts that depend on a folder.
fn unread_installers<'a>(
    repository: &Repository<'a>,
    files: &BTreeMap<&str, File<'_>>,
) -> Vec<(&'a str, &'a str)> {
    let understood = |path: &str| {
        let file = repository.files.get(path).or_else(|| files.get(path));
        file.and_then(|file| file.parsed.as_ref().ok()).is_some_and(|parsed| {
            parsed.objects.iter().all(|object| object.kind != "ApplicationSet")
                && !parsed.documents().any(|root| root.get("helmCharts").is_some())
        })
    };
    let installs = |path: &str, text: &str| {
        let words = INSTALLERS.iter().any(|word| text.contains(word)) || text.contains("helmCharts");
        let template = is_yaml(path) || path.ends_with(".gotmpl");
        (template && words && !understood(path)) || (path.ends_with("Chart.yaml") && text.contains("file://"))
    };
    repository
        .texts
        .iter()
        .map(|(path, text)| (*path, *text))
        .filter(|(path, text)| installs(path, text))
        .collect()
}

/// Told by names alone, so that too much is locked rather than too little.
fn may_read(text: &str, path: &str, is_default: bool) -> bool {
    let folder = parent(path).rsplit('/').next().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or(path);
    match (is_default && name == "values.yaml", folder) {
        (true, "") => true,
        (true, folder) => text.contains(folder),
        (false, "") => text.contains(name),
        (false, folder) if name == "values.yaml" => text.contains(&format!("{folder}/{name}")),
        (false, _) => text.contains(name),
    }
}
