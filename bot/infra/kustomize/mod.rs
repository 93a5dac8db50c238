//! What Kustomize makes of the files: namespaces, name prefixes and labels of every object; what pods are rendered to,
//! and the edit in the right overlay.

mod graph;

mod facts;

mod layer;

mod target;

mod tree;

mod merge;

mod render;

mod carrier;

mod addition;

mod edit;

mod pods;

pub(super) use edit::{edit, edit_of};
pub(super) use facts::Facts;
pub(super) use graph::{Graph, named};
pub(super) use pods::{Rendered, further, notes, own_patches, rendered, variants};
pub(super) use render::{Files, Trial};

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Deref;
use std::sync::Arc;

use slicewright_yaml::Node;

use super::index::in_parallel;
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
    by_folder: BTreeMap<Arc<str>, Kustomization>,
    /// Folders whose kustomization lists this file or folder.
    listed_by: HashMap<Arc<str>, Vec<Arc<str>>>,
    /// Files that are patches, not objects.
    pub(super) patch_files: BTreeSet<String>,
}

/// One `kustomization.yaml` with its patches.
#[derive(Debug)]
pub(super) struct Kustomization {
    facts: Arc<Facts>,
    patches: Vec<Patch>,
}

impl Deref for Kustomization {
    type Target = Facts;

    fn deref(&self) -> &Facts {
        &self.facts
    }
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
        let own = repository.texts.keys().copied().filter(|path| is_kustomization(path));
        let mut open: Vec<&str> = own.collect();
        // What most of them say is read on all processors; below it is only looked up.
        drop(in_parallel(&open, |path| repository.facts(path)));
        while let Some(path) = open.pop() {
            if overlays.by_folder.contains_key(parent(path)) {
                continue;
            }
            let Some(facts) = repository.facts(path) else { continue };
            for target in &facts.listed {
                let folders = overlays.listed_by.entry(Arc::clone(target)).or_default();
                if folders.last() != Some(&facts.folder) {
                    folders.push(Arc::clone(&facts.folder));
                }
                // Bases may stand outside of the cluster's folders: they are read, and not edited.
                open.extend(repository.graph().kustomization(target));
            }
            let mut patches = Vec::new();
            for entry in &facts.entries {
                match entry {
                    facts::Entry::Inline(inline) => patches.extend(inline.iter().cloned()),
                    facts::Entry::File { path, target } => {
                        if let Some(text) = repository.all.get(path.as_str()) {
                            patches.extend(self::patches(text, path, Some(path), target));
                        }
                        overlays.patch_files.insert(path.clone());
                    }
                }
            }
            overlays.by_folder.insert(Arc::clone(&facts.folder), Kustomization { facts, patches });
        }
        overlays
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
        seen: &mut Vec<Arc<str>>,
        found: &mut BTreeSet<Variant>,
    ) {
        if found.len() >= MAX_VARIANTS {
            return;
        }
        let mut above: Vec<&Arc<str>> = self
            .listed_by
            .get(listed)
            .into_iter()
            .flatten()
            .filter(|folder| !seen.contains(folder))
            .collect();
        above.sort_unstable();
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
            let components = components.filter_map(|component| self.by_folder.get(component.as_str()));
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
            seen.push(Arc::clone(folder));
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

#[derive(Debug)]
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
    // Most name a file beside them.
    if !matches!(relative, "" | "." | "..")
        && !relative.contains('/')
        && folder.split('/').all(|part| !part.is_empty())
    {
        return Some(format!("{folder}/{relative}"));
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
