//! Whether a manifest is this cluster's alone: what outside of the cluster's files takes it, or deploys its folder too.

use std::collections::BTreeSet;

use crate::infra::deployed::folders_of;
use crate::infra::index::Search;
use crate::infra::repository::{Object, Repository, is_yaml};
use crate::infra::walk::At;

/// Why a file must not be edited for one cluster; `None`: nothing else is seen to take it.
pub(super) fn users(repository: &Repository<'_>, path: &str) -> Option<String> {
    let graph = repository.graph();
    let above = graph.above(path);
    let elsewhere: Vec<String> = above
        .iter()
        .filter_map(|folder| graph.kustomization(folder))
        .filter(|other| !repository.texts.contains_key(other))
        .map(|other| format!("`{other}`"))
        .collect();
    let taken: BTreeSet<&str> = above.into_iter().chain([path]).collect();
    if !elsewhere.is_empty() {
        return Some(format!(
            "kustomizations outside of the cluster's files take it too: {}",
            elsewhere.join(", ")
        ));
    }
    let mut deployers: Vec<(usize, String)> = Vec::new();
    let search = Search::deployers();
    for (other, text) in repository.texts.iter().chain(repository.elsewhere()) {
        let worth = is_yaml(other) && repository.holds(other, &search) && text.contains("path:");
        if !worth {
            continue;
        }
        let Ok(parsed) = repository.parsed(other) else { continue };
        for object in &parsed.objects {
            let Some(root) = parsed.at(object) else { continue };
            let several = if object.kind == "ApplicationSet" { 2 } else { 1 };
            let covering = deployed(&root, object)
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

/// Folders that an object of Flux or Argo CD deploys, from the repository's root; the root itself is left out, since
/// whoever deploys all deploys others that deploy parts.
fn deployed(root: &At<'_>, object: &Object) -> Vec<String> {
    folders_of(root, object)
        .iter()
        .filter_map(|at| at.node.as_str())
        .map(|path| path.trim_start_matches("./").trim_matches('/').to_owned())
        .filter(|path| !path.is_empty() && path != ".")
        .collect()
}

/// Whether a path is a folder, or stands in it.
fn below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
