//! Releases by Flux: a `HelmRelease` with its values, those of the chart and those of one patch.

use std::collections::{BTreeMap, BTreeSet};

use slicewright_yaml::Step;

use super::release::{Draft, MAX_NAME, Release, Source, clean, file_of, join, opts_out};
use super::values::{Form, Nulls};
use crate::infra::kustomize::Variant;
use crate::infra::repository::{File, Object, Repository};
use crate::infra::walk::{self, At};

/// What one object installs, once for every overlay.
pub(super) fn of(
    repository: &Repository<'_>,
    files: &BTreeMap<&str, File<'_>>,
    file: &File<'_>,
    object: &Object,
    root: &At<'_>,
) -> Vec<Release> {
    let place = format!("{}:{}", file.path, object.line);
    let text = |dotted: &str| walk::text(root.node, dotted);
    let in_git = |kind: Option<&str>| matches!(kind, Some("GitRepository" | "Bucket"));
    let here = |path: &str| {
        let path = clean("", path)?;
        repository.texts.contains_key(join(&path, "Chart.yaml").as_str()).then_some(path)
    };
    // The chart of a `HelmChart` object is written as the one of a release.
    let (chart, kind, values_files) = match text("spec.chartRef.name") {
        None => (
            text("spec.chart.spec.chart").map(ToOwned::to_owned),
            text("spec.chart.spec.sourceRef.kind").map(ToOwned::to_owned),
            root.all("spec.chart.spec.valuesFiles[]"),
        ),
        Some(name) => {
            let url = source_of(repository, files, text("spec.chartRef.kind").unwrap_or_default(), name);
            (url.map(|(chart, _)| chart), None, Vec::new())
        }
    };
    let Some(chart) = chart else { return Vec::new() };
    let source = match here(&chart).filter(|_| in_git(kind.as_deref())) {
        Some(folder) => Source::Here(folder),
        None => {
            Source::Elsewhere(chart.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned())
        }
    };
    let values_files: Vec<String> =
        values_files.iter().filter_map(|at| at.node.as_str().map(ToOwned::to_owned)).collect();
    let variants = repository.variants(file.path, object);
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for variant in &variants {
        if !seen.insert((&variant.namespace, &variant.name, &variant.patched)) {
            continue;
        }
        let mut draft = Draft::new(repository, place.clone(), source.clone());
        draft.release.n_ways = variants.len();
        let target = text("spec.targetNamespace");
        let name = match (text("spec.releaseName"), target) {
            (Some(name), _) => name.to_owned(),
            (None, Some(target)) => format!("{target}-{}", variant.name),
            (None, None) => variant.name.clone(),
        };
        draft.release.name = (name.len() <= MAX_NAME).then_some(name);
        draft.release.namespace = target.map(ToOwned::to_owned).or_else(|| variant.namespace.clone());
        draft.release.ignored = variant.ignored || opts_out(root);
        if values_files.is_empty() {
            draft.defaults();
        } else if matches!(source, Source::Here(_)) {
            for path in &values_files {
                match clean("", path) {
                    Some(path) => draft.file(&path, Nulls::Default),
                    None => draft.doubt(format!("its values file `{path}` is not among the cluster's files")),
                }
            }
        }
        if let Some(from) = root.all("spec.valuesFrom[]").first() {
            let part = |key: &str| walk::text(from.node, key).unwrap_or("?");
            let what = format!("{} `{}`", part("kind"), part("name"));
            draft.release.unread = Some((what, draft.release.layers.len()));
        }
        if let Some(values) = root.down("spec.values") {
            let prefix = values.path;
            draft.layer(file.path, object.document, prefix, Form::Tree, Nulls::Dropped);
            if variants.len() > 1
                && let Some(layer) = draft.release.layers.last_mut()
            {
                layer.locked = Some(format!("`{}` is shared by more than one overlay", file.path));
            }
        }
        if let Some(patch) = &variant.patched {
            let alone = variants.iter().filter(|other| other.patched.as_ref() == Some(patch)).count() == 1;
            match patch_of(repository, object, &variants, patch) {
                Some((path, document, prefix)) => {
                    draft.layer(&path, document, prefix, Form::Tree, Nulls::Dropped);
                    if let Some(layer) = draft.release.layers.last_mut().filter(|_| !alone) {
                        layer.locked = Some(format!("`{path}` is shared by more than one overlay"));
                    }
                }
                None => {
                    draft.doubt(format!("the patch at `{patch}` speaks about its GPU too"));
                    draft.release.patch = Some(patch.clone());
                }
            }
        }
        if let Some(renderers) = root.down("spec.postRenderers") {
            let mut speaks = false;
            walk::every(renderers.node, &mut |key, node| {
                let text = node.as_str().unwrap_or_default();
                speaks |= [key.unwrap_or_default(), text]
                    .iter()
                    .any(|text| text.contains("resources") || text.contains("nvidia.com"));
            });
            if speaks {
                draft.doubt(format!(
                    "its `postRenderers` (`{}:{}`) may set it again",
                    file.path,
                    renderers.node.line()
                ));
            }
        }
        found.push(draft.release);
    }
    found
}

/// The values in the one patch file that speaks about a release's GPU: file, document and the way to them.
///
/// A variant knows its first such patch alone, so that every patch of this release must be the first of some variant.
fn patch_of(
    repository: &Repository<'_>,
    object: &Object,
    variants: &[Variant],
    place: &str,
) -> Option<(String, usize, Vec<Step>)> {
    let first: BTreeSet<&str> =
        variants.iter().filter_map(|variant| Some(file_of(variant.patched.as_ref()?))).collect();
    let mut found = None;
    let mut all = BTreeSet::new();
    for path in &repository.overlays().patch_files {
        let Some(Ok(parsed)) = repository.files.get(path.as_str()).map(|file| &file.parsed) else { continue };
        for patch in
            parsed.objects.iter().filter(|patch| patch.kind == object.kind && patch.name == object.name)
        {
            let root = parsed.at(patch)?;
            let mut speaks = false;
            walk::every(root.node, &mut |key, _| {
                speaks |= key.is_some_and(|key| key.starts_with("nvidia.com/"))
            });
            if !speaks {
                continue;
            }
            all.insert(path.as_str());
            if path == file_of(place) {
                let values = root.down("spec.values")?;
                // Two documents of one file would be two patches.
                found = found.is_none().then(|| (path.clone(), patch.document, values.path));
            }
        }
    }
    found.filter(|_| all == first)
}

/// The chart that an object of Flux stands for: its name or path, with the kind of its source.
fn source_of(
    repository: &Repository<'_>,
    files: &BTreeMap<&str, File<'_>>,
    kind: &str,
    name: &str,
) -> Option<(String, Option<String>)> {
    let mut charts = BTreeSet::new();
    for file in repository.files.values().chain(files.values()) {
        let Ok(parsed) = &file.parsed else { continue };
        for object in parsed.objects.iter().filter(|object| object.kind == kind && object.name == name) {
            let root = parsed.at(object)?;
            let text = |dotted: &str| walk::text(root.node, dotted).map(ToOwned::to_owned);
            charts.extend(match kind {
                "OCIRepository" => text("spec.url").map(|url| (url, None)),
                _ => text("spec.chart").map(|chart| (chart, text("spec.sourceRef.kind"))),
            });
        }
    }
    if charts.len() == 1 { charts.pop_first() } else { None }
}
