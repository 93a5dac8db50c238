//! Whether a manifest is this cluster's alone: what outside of the cluster's files takes it, or deploys its folder too.

use crate::infra::repository::Repository;

/// Why a file must not be edited for one cluster; `None`: nothing else is seen to take it.
pub(super) fn users(repository: &Repository<'_>, path: &str) -> Option<String> {
    let graph = repository.graph();
    let elsewhere: Vec<String> = graph
        .above(path)
        .iter()
        .filter_map(|folder| graph.kustomization(folder))
        .filter(|other| !repository.texts.contains_key(other))
        .map(|other| format!("`{other}`"))
        .collect();
    if elsewhere.is_empty() {
        return graph.applied_twice(path);
    }
    Some(format!("kustomizations outside of the cluster's files take it too: {}", elsewhere.join(", ")))
}
