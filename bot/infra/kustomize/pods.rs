//! Workloads as their roots render them: which of them ask for a GPU, and what the planner reads about them.

use std::collections::{BTreeMap, BTreeSet};

use super::addition::patch_name;
use super::edit::made_of;
use super::layer::Source;
use super::render::{Files, Made, Touch, render};
use super::{Kustomization, Variant, parent};
use crate::infra::helm_template::helm_chart;
use crate::infra::manifest::{Finding, find};
use crate::infra::repository::{Object, Repository};

/// What a root makes of a workload.
pub(in crate::infra) enum Rendered {
    /// No kustomization lists it.
    AsWritten,
    /// It asks for no GPU after all patches.
    NoGpu,
    /// It was not rendered, and why.
    Unknown(String),
    /// As it comes out; its lines say nothing, its place does.
    Pods(Box<Finding>),
}

/// What becomes of an object in this cluster. Of roots that make the same of it, those that only other clusters use are
/// left out: a cluster's folders often hold the overlays of all.
pub(in crate::infra) fn variants(repository: &Repository<'_>, path: &str, object: &Object) -> Vec<Variant> {
    let all = repository.overlays().variants(path, object);
    let id = |variant: &Variant| (variant.name.clone(), variant.namespace.clone());
    let is_own = |variant: &&Variant| {
        variant.root.as_ref().is_none_or(|root| {
            repository.graph().users(parent(root)).iter().any(|user| {
                let file = user.rsplit_once(':').map_or(user.as_str(), |(file, _)| file);
                repository.texts.contains_key(file) || repository.texts.contains_key(user.as_str())
            })
        })
    };
    let own: BTreeSet<_> = all.iter().filter(is_own).map(id).collect();
    all.iter().filter(|variant| is_own(variant) || !own.contains(&id(variant))).cloned().collect()
}

/// Renders one variant of an object.
pub(in crate::infra) fn rendered(
    files: &Files<'_>,
    path: &str,
    object: &Object,
    variant: &Variant,
) -> Rendered {
    let Some(root) = &variant.root else { return Rendered::AsWritten };
    let made = match files
        .rendered(parent(root), path)
        .and_then(|rendering| made_of(&rendering, path, object, variant).cloned())
    {
        Ok(made) => made,
        Err(why) => return Rendered::Unknown(why),
    };
    let parsed = made.parsed();
    let Some(mut finding) = parsed.objects.first().and_then(|object| find(root, &parsed, object)) else {
        return Rendered::NoGpu;
    };
    let patched = made.touches.iter().rev().find_map(|touch| gpu_place(files, touch));
    finding.declared.place = patched.unwrap_or_default();
    // Every line is that of the rendered object, which is nowhere.
    finding.declared.pinned = finding.declared.pinned.map(|rule| rule.replace(&format!("{root}:1"), root));
    finding.affinity = Vec::new();
    finding.path = path.to_owned();
    finding.object = object.clone();
    Rendered::Pods(Box::new(finding))
}

/// Where a patch names a GPU.
fn gpu_place(files: &Files<'_>, touch: &Touch) -> Option<String> {
    let text = match &touch.entry.source {
        Source::Inline { text, .. } => text.clone(),
        Source::File(path) => files.text(path)?.to_owned(),
    };
    let stream = slicewright_yaml::read(&text).ok()?;
    let line = super::gpu_line(stream.document(touch.document)?)?;
    Some(match &touch.entry.source {
        Source::Inline { .. } => touch.entry.place.clone(),
        Source::File(path) => format!("{path}:{line}"),
    })
}

/// Workloads whose GPU is not in a file of the cluster: it comes from a patch, or the base stands outside of the
/// cluster's folders.
pub(in crate::infra) fn further(repository: &Repository<'_>, known: &[Finding]) -> Vec<Finding> {
    let overlays = repository.overlays();
    let patches = overlays.all().any(Kustomization::names_gpu);
    if !patches && repository.texts.len() == repository.all.len() {
        return Vec::new();
    }
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for path in overlays.all().flat_map(|kustomization| &kustomization.resources) {
        let Some(text) = repository.all.get(path.as_str()) else { continue };
        let foreign = !repository.texts.contains_key(path.as_str());
        let holds_pods = ["containers", "predictor"].iter().any(|word| text.contains(word));
        if !(foreign || patches)
            || !holds_pods
            || helm_chart(&repository.all, path).is_some()
            || !seen.insert(path.as_str())
        {
            continue;
        }
        let Ok(parsed) = repository.parsed(path) else { continue };
        for object in &parsed.objects {
            if known.iter().any(|finding| finding.path == *path && finding.object == *object) {
                continue;
            }
            let own = find(path, &parsed, object);
            let mut variants = variants(repository, path, object);
            if own.is_none() {
                variants.retain(|variant| variant.patched.is_some());
            }
            let mut finding = own;
            let files = Files::new(repository, BTreeMap::new());
            variants.retain(|variant| match rendered(&files, path, object, variant) {
                Rendered::Pods(pods) => {
                    finding.get_or_insert(*pods);
                    true
                }
                Rendered::AsWritten | Rendered::Unknown(_) => finding.is_some(),
                Rendered::NoGpu => false,
            });
            if let Some(mut finding) = finding.filter(|_| !variants.is_empty()) {
                finding.variants = variants;
                found.push(finding);
            }
        }
    }
    found
}

/// Patches that the bot made for one variant of a workload, each with the kustomization that lists it.
pub(in crate::infra) fn own_patches(
    repository: &Repository<'_>,
    edited: &BTreeMap<String, String>,
    finding: &Finding,
    variant: &Variant,
) -> Vec<(String, String)> {
    let Some(root) = &variant.root else { return Vec::new() };
    let files = Files::new(repository, edited.clone());
    let Ok(rendering) = render(&files, parent(root), Some(&finding.path)) else { return Vec::new() };
    let Ok(made) = made_of(&rendering, &finding.path, &finding.object, variant) else { return Vec::new() };
    let name = patch_name(&finding.object.kind, &finding.object.name);
    made.touches
        .iter()
        .filter_map(|touch| match &touch.entry.source {
            Source::File(path) if path.rsplit('/').next() == Some(&name) => {
                let (kustomization, _) = touch.entry.place.rsplit_once(':')?;
                Some((path.clone(), kustomization.to_owned()))
            }
            Source::File(_) | Source::Inline { .. } => None,
        })
        .collect()
}

/// What of the cluster's kustomizations stays unseen, as sentences.
pub(in crate::infra) fn notes(repository: &Repository<'_>) -> Vec<String> {
    let files = Files::new(repository, BTreeMap::new());
    let mut notes = Vec::new();
    for kustomization in repository.overlays().all() {
        let path = kustomization.path.as_str();
        for (line, values) in &kustomization.charts {
            let names_gpu = |path: &str| files.text(path).is_some_and(|text| text.contains("nvidia.com"));
            if names_gpu(path) || values.as_deref().is_some_and(names_gpu) {
                notes.push(format!(
                    "`{path}:{line}`: Kustomize renders a Helm chart with a GPU here, which was not read"
                ));
            }
        }
        if !kustomization.names_gpu() {
            continue;
        }
        let folder = parent(path);
        let (Ok(layer), Ok(rendering)) = (files.layer(folder), render(&files, folder, None)) else {
            continue;
        };
        let met: Vec<&Source> = rendering.objects.iter().flat_map(sources).collect();
        for entry in layer.patches.iter().chain(&layer.late_patches) {
            let touch = |document| Touch { entry: entry.clone(), document, operations: false };
            if met.contains(&&entry.source) || rendering.remote.is_empty() {
                continue;
            }
            if let Some(place) = (0..20).find_map(|document| gpu_place(&files, &touch(document))) {
                notes.push(format!(
                    "`{place}`: the patch asks for a GPU for an object that is not in this repository ({}), so it was not \
                     matched",
                    rendering.remote.join(", ")
                ));
            }
        }
    }
    notes
}

fn sources(made: &Made) -> impl Iterator<Item = &Source> {
    made.touches.iter().map(|touch| &touch.entry.source)
}
