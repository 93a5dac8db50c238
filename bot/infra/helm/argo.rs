//! Releases by Argo CD: an `Application` with values from files, from its own text, and as parameters.

use std::collections::BTreeSet;

use super::release::{Draft, Release, Source, clean, join, opts_out};
use super::values::{Form, Nulls};
use crate::infra::repository::{File, Object, Repository};
use crate::infra::walk::{self, At};

/// What one object installs.
pub(super) fn of(
    repository: &Repository<'_>,
    file: &File<'_>,
    object: &Object,
    root: &At<'_>,
) -> Vec<Release> {
    let place = format!("{}:{}", file.path, object.line);
    let text = |dotted: &str| walk::text(root.node, dotted).map(ToOwned::to_owned);
    let sources: Vec<At<'_>> =
        ["spec.source", "spec.sources[]"].iter().flat_map(|dotted| root.all(dotted)).collect();
    let refs: BTreeSet<&str> = sources.iter().filter_map(|source| walk::text(source.node, "ref")).collect();
    let n_ways = repository.variants(file.path, object).len();
    let mut found = Vec::new();
    for source in &sources {
        let part = |dotted: &str| walk::text(source.node, dotted);
        let folder = part("path").and_then(|path| clean("", path));
        let from = match (part("chart"), &folder) {
            (Some(chart), _) => Source::Elsewhere(chart.rsplit('/').next().unwrap_or(chart).to_owned()),
            (None, Some(folder)) if repository.texts.contains_key(join(folder, "Chart.yaml").as_str()) => {
                Source::Here(folder.clone())
            }
            (None, Some(folder)) if source.down("helm").is_some() => {
                Source::Elsewhere(folder.rsplit('/').next().unwrap_or_default().to_owned())
            }
            (None, _) => continue,
        };
        let mut draft = Draft::new(repository, place.clone(), from);
        draft.release.name =
            part("helm.releaseName").map(ToOwned::to_owned).or_else(|| Some(object.name.clone()));
        draft.release.namespace = text("spec.destination.namespace");
        draft.release.ignored = opts_out(root);
        draft.defaults();
        for given in source.all("helm.valueFiles[]") {
            let Some(given) = given.node.as_str() else { continue };
            let path = match given.strip_prefix('$').and_then(|rest| rest.split_once('/')) {
                Some((name, path)) if refs.contains(name) => clean("", path),
                Some(_) => None,
                None if given.starts_with('/') => clean("", given),
                // A chart from elsewhere is read with its own files.
                None if part("chart").is_some() => None,
                None => clean(folder.as_deref().unwrap_or_default(), given),
            };
            let known = path.as_deref().filter(|path| repository.texts.contains_key(path));
            match (known, part("helm.ignoreMissingValueFiles")) {
                (Some(path), _) => draft.file(path, Nulls::Kept),
                (None, Some("true")) => {}
                (None, _) => {
                    draft.doubt(format!("its values file `{given}` is not among the cluster's files"));
                }
            }
        }
        let inline = match (source.down("helm.valuesObject"), source.down("helm.values")) {
            // Argo CD reads `values` only where there is no `valuesObject`.
            (Some(values), _) => Some((values.path, Form::Tree, Nulls::Dropped)),
            (None, Some(values)) => Some((values.path, Form::Embedded, Nulls::Kept)),
            (None, None) => None,
        };
        if let Some((prefix, form, nulls)) = inline {
            draft.layer(file.path, object.document, prefix, form, nulls);
        }
        if let Some(list) = source.down("helm.parameters") {
            draft.layer(file.path, object.document, list.path, Form::Parameters, Nulls::Kept);
        }
        for given in source.all("helm.fileParameters[]") {
            let name = walk::text(given.node, "name").unwrap_or_default();
            draft.doubt(format!("its value `{name}` comes from a file"));
        }
        draft.release.n_ways = n_ways;
        if n_ways > 1 {
            for layer in draft.release.layers.iter_mut().filter(|layer| layer.path == file.path) {
                layer.locked = Some(format!("`{}` is shared by more than one overlay", file.path));
            }
        }
        found.push(draft.release);
    }
    found
}
