//! Whether a manifest is this cluster's alone: what outside of the cluster's files takes it, or deploys its folder too.

use std::collections::BTreeSet;

use slicewright_yaml::Node;

use crate::infra::kinds;
use crate::infra::kustomize::{parent, resolve};
use crate::infra::repository::{Parsed, Repository, is_kustomization, is_yaml};
use crate::infra::walk::At;

/// Why a file must not be edited for one cluster; `None`: nothing else is seen to take it.
pub(super) fn users(repository: &Repository<'_>, path: &str) -> Option<String> {
    let taken = takers(repository, path);
    let elsewhere: Vec<String> = repository
        .elsewhere()
        .filter(|(other, _)| is_kustomization(other))
        .filter(|(other, text)| {
            let Ok(parsed) = Parsed::new(text) else { return false };
            parsed.documents().any(|root| lists(root, parent(other)).any(|target| taken.contains(&target)))
        })
        .map(|(other, _)| format!("`{other}`"))
        .collect();
    if !elsewhere.is_empty() {
        return Some(format!(
            "kustomizations outside of the cluster's files take it too: {}",
            elsewhere.join(", ")
        ));
    }
    let mut deployers: Vec<(usize, String)> = Vec::new();
    for (other, text) in repository.texts.iter().chain(repository.elsewhere()) {
        let worth = is_yaml(other)
            && (text.contains("kustomize.toolkit.fluxcd.io") || text.contains("argoproj.io"))
            && text.contains("path:");
        if !worth {
            continue;
        }
        let Ok(parsed) = Parsed::new(text) else { continue };
        for object in &parsed.objects {
            let Some(root) = parsed.at(object) else { continue };
            let several = if object.kind == "ApplicationSet" { 2 } else { 1 };
            let covering = deployed(&root, kinds::group(&object.api_version), &object.kind)
                .into_iter()
                .filter(|folder| taken.iter().any(|one| below(one, folder)))
                .map(|folder| folder.len())
                .max();
            if let Some(length) = covering {
                deployers
                    .extend(std::iter::repeat_n((length, format!("`{other}:{}`", object.line)), several));
            }
        }
    }
    // One that deploys a folder around others' folders is no second user of what those deploy.
    let longest = deployers.iter().map(|(length, _)| *length).max()?;
    let mut nearest: Vec<String> =
        deployers.into_iter().filter(|(length, _)| *length == longest).map(|(_, place)| place).collect();
    if nearest.len() < 2 {
        return None;
    }
    nearest.dedup();
    Some(format!("its folder is deployed more than once: {}", nearest.join(", ")))
}

/// The file, and the folders of the cluster whose kustomizations take it, over any number of steps.
fn takers(repository: &Repository<'_>, path: &str) -> BTreeSet<String> {
    let mut taken = BTreeSet::from([path.to_owned()]);
    loop {
        let more: Vec<String> = repository
            .overlays()
            .all()
            .filter(|one| one.resources.iter().any(|target| taken.contains(target)))
            .map(|one| parent(&one.path).to_owned())
            .filter(|folder| !taken.contains(folder))
            .collect();
        if more.is_empty() {
            return taken;
        }
        taken.extend(more);
    }
}

/// What a kustomization takes, as paths from the repository's root.
fn lists<'s>(root: Node<'s>, folder: &'s str) -> impl Iterator<Item = String> + 's {
    ["resources", "bases", "components"]
        .into_iter()
        .filter_map(move |key| root.get(key))
        .flat_map(|list| list.items())
        .filter_map(move |entry| resolve(folder, entry.as_str()?))
}

/// Folders that an object of Flux or Argo CD deploys, from the repository's root; the root itself is left out, since
/// whoever deploys all deploys others that deploy parts.
fn deployed(root: &At<'_>, group: &str, kind: &str) -> Vec<String> {
    let paths: &[&str] = match (group, kind) {
        ("kustomize.toolkit.fluxcd.io", "Kustomization") => &["spec.path"],
        ("argoproj.io", "Application") => &["spec.source.path", "spec.sources[].path"],
        ("argoproj.io", "ApplicationSet") => {
            &["spec.template.spec.source.path", "spec.template.spec.sources[].path"]
        }
        _ => &[],
    };
    paths
        .iter()
        .flat_map(|dotted| root.all(dotted))
        .filter_map(|at| at.node.as_str())
        .map(|path| path.trim_start_matches("./").trim_matches('/').to_owned())
        .filter(|path| !path.is_empty() && path != ".")
        .collect()
}

/// Whether a path is a folder, or stands in it.
fn below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
