//! What one kustomization says by itself, before other files are looked at: kept with its text.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use slicewright_yaml::Node;

use super::{Patch, Target, parent, patches, resolve};
use crate::infra::labels::{self, LabelEdit};
use crate::infra::repository::Parsed;
use crate::infra::walk;

/// One `kustomization.yaml`.
#[derive(Debug, Default)]
pub(in crate::infra) struct Facts {
    pub(in crate::infra) path: String,
    /// Without a slash at the end; the repository's root is empty.
    pub(super) folder: Arc<str>,
    pub(in crate::infra) namespace: Option<String>,
    pub(in crate::infra) resources: BTreeSet<String>,
    /// `resources`, `bases` and `components` in their order, from the repository's root.
    pub(super) listed: Vec<Arc<str>>,
    pub(super) prefix: String,
    pub(super) suffix: String,
    pub(super) components: Vec<String>,
    /// Its patches in their order.
    pub(super) entries: Vec<Entry>,
    /// `commonLabels` and `labels`.
    pub(super) labels: Vec<LabelEdit>,
    /// Helm charts that it renders: their lines and files of values.
    pub(super) charts: Vec<(usize, Option<String>)>,
    /// Config maps that it makes, by name, with the line.
    pub(in crate::infra) config_maps: BTreeMap<String, usize>,
}

/// One entry of a list of patches.
#[derive(Debug)]
pub(super) enum Entry {
    /// Its text stands in the kustomization.
    Inline(Vec<Patch>),
    /// Its text stands in a file.
    File { path: String, target: Target },
}

impl Facts {
    /// Reads a kustomization; `None` where it holds no mapping.
    pub(in crate::infra) fn new(path: &str, parsed: &Parsed) -> Option<Self> {
        let root = parsed.root()?;
        let folder = parent(path);
        let mut found = Self { path: path.to_owned(), folder: folder.into(), ..Self::default() };
        found.namespace = walk::text(root, "namespace").map(ToOwned::to_owned);
        found.prefix = walk::text(root, "namePrefix").unwrap_or_default().to_owned();
        found.suffix = walk::text(root, "nameSuffix").unwrap_or_default().to_owned();
        for key in ["resources", "bases", "components"] {
            for entry in root.get(key).into_iter().flat_map(|list| list.items()) {
                let Some(target) = entry.as_str().and_then(|text| resolve(folder, text)) else { continue };
                found.listed.push(target.as_str().into());
                if key == "components" {
                    found.components.push(target);
                } else {
                    found.resources.insert(target);
                }
            }
        }
        for entry in root.get("configMapGenerator").into_iter().flat_map(|list| list.items()) {
            if let Some(name) = entry.get("name").and_then(|name| name.as_str()) {
                found.config_maps.insert(name.to_owned(), entry.line());
            }
        }
        for chart in root.get("helmCharts").into_iter().flat_map(|list| list.items()) {
            let values = walk::text(chart, "valuesFile").and_then(|name| resolve(folder, name));
            found.charts.push((chart.line(), values));
        }
        found.labels = labels::of_transformers(root);
        for key in ["patches", "patchesStrategicMerge", "patchesJson6902"] {
            for entry in root.get(key).into_iter().flat_map(|list| list.items()) {
                found.entries.extend(Entry::new(path, folder, entry));
            }
        }
        Some(found)
    }
}

impl Entry {
    fn new(kustomization: &str, folder: &str, entry: Node<'_>) -> Option<Self> {
        let target = entry.get("target");
        let part = |key: &str| target.and_then(|target| target.get(key)).and_then(|node| node.as_str());
        let target = Target {
            kind: part("kind").map(ToOwned::to_owned),
            name: part("name").map(ToOwned::to_owned),
            given: target.is_some(),
            vague: ["labelSelector", "annotationSelector", "group", "version", "namespace"]
                .iter()
                .any(|key| part(key).is_some()),
        };
        let place = || format!("{kustomization}:{}", entry.line());
        let text = entry.as_str().or_else(|| entry.get("path").and_then(|path| path.as_str()));
        match (entry.get("patch").and_then(|patch| patch.as_str()), text) {
            (Some(patch), _) => Some(Self::Inline(patches(patch, &place(), None, &target))),
            (None, Some(text)) if text.contains('\n') => {
                Some(Self::Inline(patches(text, &place(), None, &target)))
            }
            (None, Some(text)) => Some(Self::File { path: resolve(folder, text)?, target }),
            (None, None) => None,
        }
    }
}
