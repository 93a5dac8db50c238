//! What Kustomize makes of the files: namespaces, name prefixes and labels of every object; what pods are rendered to,
//! and the edit in the right overlay.

mod graph;

mod layer;

mod target;

mod tree;

mod merge;

mod render;

mod carrier;

mod addition;

mod edit;

mod pods;

pub(super) use edit::edit;
pub(super) use graph::Graph;
pub(super) use pods::{Rendered, further, notes, own_patches, rendered, variants};

use std::collections::{BTreeMap, BTreeSet, HashMap};

use slicewright_yaml::Node;

use super::labels::{self, LabelEdit, Labels, Side};
use super::repository::{Object, Parsed, Repository, is_kustomization};
use super::walk;

/// The longest chain of folders that list each other.
const MAX_DEPTH: usize = 12;

/// The most ways from one file to a root; more are not told apart.
const MAX_VARIANTS: usize = 64;

/// All kustomizations of a repository.
#[derive(Debug, Default)]
pub(super) struct Overlays {
    /// By folder, without a slash at the end; the repository's root is empty.
    by_folder: BTreeMap<String, Kustomization>,
    /// Folders whose kustomization lists this file or folder.
    listed_by: HashMap<String, BTreeSet<String>>,
    /// Files that are patches, not objects.
    pub(super) patch_files: BTreeSet<String>,
}

/// One `kustomization.yaml`.
#[derive(Debug, Default)]
pub(super) struct Kustomization {
    pub(super) path: String,
    pub(super) namespace: Option<String>,
    pub(super) resources: BTreeSet<String>,
    prefix: String,
    suffix: String,
    components: Vec<String>,
    patches: Vec<Patch>,
    /// `commonLabels` and `labels`.
    labels: Vec<LabelEdit>,
    /// Helm charts that it renders: their lines and files of values.
    charts: Vec<(usize, Option<String>)>,
    /// Config maps that it makes, by name, with the line.
    pub(super) config_maps: BTreeMap<String, usize>,
}

/// One patch for one target.
#[derive(Clone, Debug)]
struct Patch {
    place: String,
    /// `None`: any.
    kind: Option<String>,
    /// `None`: any.
    name: Option<String>,
    /// It names something of `nvidia.com`, or replaces resources as a whole.
    gpu: bool,
    /// It sets the opt-out annotation.
    ignore: bool,
    /// What it does to labels.
    labels: Vec<LabelEdit>,
    /// The target is told by more than kind and name, or cannot be read: it may be another object.
    vague: bool,
}

/// What one object becomes on one way to a root.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Variant {
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    /// Name and namespace as Kustomize renders them, before who deploys the object gives it others.
    rendered: (String, Option<String>),
    /// Where a patch speaks about the object's GPU.
    pub(super) patched: Option<String>,
    /// A patch opts it out.
    pub(super) ignored: bool,
    /// What the kustomizations on the way do to labels, in order; with a mark where it is not certain.
    label_edits: Vec<(LabelEdit, bool)>,
    /// Path of the outermost kustomization, if any.
    pub(super) root: Option<String>,
}

impl Overlays {
    pub(super) fn new(repository: &Repository<'_>) -> Self {
        let mut overlays = Self::default();
        let own = repository.texts.keys().filter(|path| is_kustomization(path));
        let mut open: Vec<String> = own.map(|path| (*path).to_owned()).collect();
        while let Some(path) = open.pop() {
            let folder = parent(&path).to_owned();
            if overlays.by_folder.contains_key(&folder) {
                continue;
            }
            let Ok(parsed) = repository.parsed(&path) else { continue };
            let Some(root) = parsed.root() else { continue };
            let mut found = Kustomization { path: path.clone(), ..Kustomization::default() };
            found.namespace = walk::text(root, "namespace").map(ToOwned::to_owned);
            found.prefix = walk::text(root, "namePrefix").unwrap_or_default().to_owned();
            found.suffix = walk::text(root, "nameSuffix").unwrap_or_default().to_owned();
            for key in ["resources", "bases", "components"] {
                for entry in root.get(key).into_iter().flat_map(|list| list.items()) {
                    let Some(target) = entry.as_str().and_then(|text| resolve(&folder, text)) else {
                        continue;
                    };
                    overlays.listed_by.entry(target.clone()).or_default().insert(folder.clone());
                    // Bases may stand outside of the cluster's folders: they are read, and not edited.
                    if let Some(base) = repository.graph().kustomization(&target) {
                        open.push(base.to_owned());
                    }
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
                let values = walk::text(chart, "valuesFile").and_then(|name| resolve(&folder, name));
                found.charts.push((chart.line(), values));
            }
            found.labels = labels::of_transformers(root);
            overlays.read_patches(repository, root, &folder, &mut found);
            overlays.by_folder.insert(folder, found);
        }
        overlays
    }

    fn read_patches(
        &mut self,
        repository: &Repository<'_>,
        root: Node<'_>,
        folder: &str,
        found: &mut Kustomization,
    ) {
        for key in ["patches", "patchesStrategicMerge", "patchesJson6902"] {
            for entry in root.get(key).into_iter().flat_map(|list| list.items()) {
                let target = entry.get("target");
                let part =
                    |key: &str| target.and_then(|target| target.get(key)).and_then(|node| node.as_str());
                let told = Target {
                    kind: part("kind").map(ToOwned::to_owned),
                    name: part("name").map(ToOwned::to_owned),
                    given: target.is_some(),
                    vague: ["labelSelector", "annotationSelector", "group", "version", "namespace"]
                        .iter()
                        .any(|key| part(key).is_some()),
                };
                let text = entry.as_str().or_else(|| entry.get("path").and_then(|path| path.as_str()));
                let inline = entry.get("patch").and_then(|patch| patch.as_str());
                match (inline, text) {
                    (Some(patch), _) => {
                        let place = format!("{}:{}", found.path, entry.line());
                        found.patches.extend(patches(patch, &place, None, &told));
                    }
                    (None, Some(text)) if text.contains('\n') => {
                        let place = format!("{}:{}", found.path, entry.line());
                        found.patches.extend(patches(text, &place, None, &told));
                    }
                    (None, Some(text)) => {
                        let Some(path) = resolve(folder, text) else { continue };
                        if let Some(patch) = repository.all.get(path.as_str()) {
                            found.patches.extend(patches(patch, &path, Some(&path), &told));
                        }
                        self.patch_files.insert(path);
                    }
                    (None, None) => {}
                }
            }
        }
    }

    /// The kustomization of a folder (without a slash at the end).
    pub(super) fn of_folder(&self, folder: &str) -> Option<&Kustomization> {
        self.by_folder.get(folder)
    }

    /// Every kustomization, by folder.
    pub(super) fn all(&self) -> impl Iterator<Item = &Kustomization> {
        self.by_folder.values()
    }

    /// What an object becomes, once for every way to a root; never empty.
    pub(super) fn variants(&self, path: &str, object: &Object) -> Vec<Variant> {
        let start = Variant {
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            rendered: (object.name.clone(), object.namespace.clone()),
            patched: None,
            ignored: false,
            label_edits: Vec::new(),
            root: None,
        };
        let mut found = BTreeSet::new();
        self.climb(path, object, &start, &mut Vec::new(), &mut found);
        found.into_iter().collect()
    }

    fn climb(
        &self,
        listed: &str,
        object: &Object,
        so_far: &Variant,
        seen: &mut Vec<String>,
        found: &mut BTreeSet<Variant>,
    ) {
        if found.len() >= MAX_VARIANTS {
            return;
        }
        let above: Vec<&String> = self
            .listed_by
            .get(listed)
            .into_iter()
            .flatten()
            .filter(|folder| !seen.contains(folder))
            .collect();
        if above.is_empty() || seen.len() >= MAX_DEPTH {
            found.insert(so_far.clone());
            return;
        }
        for folder in above {
            let Some(step) = self.by_folder.get(folder) else { continue };
            let mut next = so_far.clone();
            // As Kustomize does it: components before their owner, in each the patches before the labels. What a component
            // brings itself meets those after it.
            let after = step.components.iter().position(|component| component == listed);
            let components = step.components.iter().skip(after.map_or(0, |at| at + 1));
            let components = components.filter_map(|component| self.by_folder.get(component));
            for kustomization in components.chain([step]) {
                let name = next.name.clone();
                for patch in kustomization.patches.iter().filter(|patch| patch.meets(object, &name)) {
                    if patch.gpu && next.patched.is_none() {
                        next.patched = Some(patch.place.clone());
                    }
                    next.ignored |= patch.ignore;
                    let certain = patch.surely_meets(object, &name);
                    next.label_edits.extend(patch.labels.iter().map(|edit| (edit.clone(), certain)));
                }
                let labels = kustomization.labels.iter().filter(|edit| edit.transforms(&object.kind));
                next.label_edits.extend(labels.map(|edit| (edit.clone(), true)));
                next.namespace = kustomization.namespace.clone().or(next.namespace);
                next.name = format!("{}{name}{}", kustomization.prefix, kustomization.suffix);
            }
            next.rendered = (next.name.clone(), next.namespace.clone());
            next.root = Some(step.path.clone());
            seen.push(folder.clone());
            self.climb(folder, object, &next, seen, found);
            seen.pop();
        }
    }
}

impl Variant {
    /// The labels after all kustomizations.
    pub(super) fn labels(&self, stated: &Labels) -> Labels {
        self.label_edits.iter().fold(stated.clone(), |labels, (edit, certain)| {
            if *certain { labels.edited([edit]) } else { labels.edited(&edit.clone().perhaps(&labels)) }
        })
    }
}

impl Patch {
    /// Whether the patch is for this object beyond doubt.
    fn surely_meets(&self, object: &Object, name_now: &str) -> bool {
        let names = |wanted: &Option<String>, values: &[&str]| {
            wanted.as_ref().is_none_or(|text| values.contains(&text.as_str()))
        };
        !self.vague && names(&self.kind, &[&object.kind]) && names(&self.name, &[&object.name, name_now])
    }

    fn meets(&self, object: &Object, name_now: &str) -> bool {
        let same = |wanted: &Option<String>, values: &[&str]| match wanted {
            // Kustomize reads these as regular expressions: where one is not a plain name, any may be meant.
            Some(text) if text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') => {
                values.contains(&text.as_str())
            }
            Some(_) | None => true,
        };
        same(&self.kind, &[&object.kind]) && same(&self.name, &[&object.name, name_now])
    }
}

struct Target {
    kind: Option<String>,
    name: Option<String>,
    given: bool,
    /// By more than kind and name.
    vague: bool,
}

fn patches(text: &str, place: &str, file: Option<&str>, told: &Target) -> Vec<Patch> {
    let at = |line: usize| file.map_or_else(|| place.to_owned(), |file| format!("{file}:{line}"));
    let Ok(stream) = slicewright_yaml::read(text) else {
        // What cannot be read may say anything.
        return vec![Patch {
            place: at(1),
            kind: told.kind.clone(),
            name: told.name.clone(),
            gpu: text.contains("nvidia.com"),
            ignore: false,
            labels: vec![LabelEdit::Clear(Side::Object), LabelEdit::Clear(Side::Pods)],
            vague: true,
        }];
    };
    let mut found = Vec::new();
    for root in stream.documents() {
        let gpu = gpu_line(root);
        let mut ignore = false;
        walk::every(root, &mut |key, node| {
            let value = node.as_str().unwrap_or_default();
            let opt_out = key == Some("slicewright/ignore")
                || (key == Some("path") && value.ends_with("/slicewright~1ignore"));
            ignore |= opt_out && value != "false";
        });
        let own = |dotted: &str| walk::text(root, dotted).map(ToOwned::to_owned);
        let (kind, name) = if told.given {
            (told.kind.clone(), told.name.clone())
        } else {
            (own("kind"), own("metadata.name"))
        };
        let labels = labels::of_patch(root);
        let place = at(gpu.unwrap_or(1));
        found.push(Patch { place, kind, name, gpu: gpu.is_some(), ignore, labels, vague: told.vague });
    }
    found
}

/// The line on which a patch names something of `nvidia.com`, or replaces resources as a whole.
fn gpu_line(root: Node<'_>) -> Option<usize> {
    let mut line = None;
    walk::every(root, &mut |key, node| {
        let value = node.as_str().unwrap_or_default();
        let names_gpu = |text: &str| text.starts_with("nvidia.com/") || text.contains("/nvidia.com~1");
        let whole = key == Some("path") && value.rsplit('/').next() == Some("resources");
        if key.is_some_and(names_gpu) || names_gpu(value) || whole {
            line.get_or_insert(node.line());
        }
    });
    line
}

impl Kustomization {
    /// One of its patches speaks about a GPU.
    fn names_gpu(&self) -> bool {
        self.patches.iter().any(|patch| patch.gpu)
    }
}

impl Parsed {
    /// The root of the first document that is not empty.
    fn root(&self) -> Option<Node<'_>> {
        self.documents().find(|root| root.is_mapping())
    }
}

/// The folder of a path, without a slash at the end.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// A relative path of a kustomization as one from the repository's root. `None`: it leads out, or it is a URL.
pub(super) fn resolve(folder: &str, relative: &str) -> Option<String> {
    if is_remote(relative) || relative.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Whether a kustomization means something outside of the repository.
fn is_remote(name: &str) -> bool {
    name.contains("://")
        || name.contains("?ref=")
        || name.starts_with("git@")
        || name.starts_with("github.com/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_do_not_leave_the_repository() {
        assert_eq!(resolve("overlays/prod", "../../base"), Some("base".into()));
        assert_eq!(resolve("", "./a.yaml"), Some("a.yaml".into()));
        assert_eq!(resolve("a", "../../b"), None);
        assert_eq!(resolve("a", "https://example.com/b"), None);
    }
}
