//! Which kustomizations of the whole repository read which files, so that an edit for one cluster reaches no other.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use slicewright_yaml::Node;

use super::{parent, resolve};
use crate::infra::deployed::folders_of;
use crate::infra::index::{Known, Search, in_parallel};
use crate::infra::repository::{Parsed, is_kustomization, is_yaml};
use crate::infra::walk::{self, At};

/// Where Flux and Argo CD patch what Kustomize has built.
const LATE_PATCHES: [&str; 5] = [
    "spec.patches",
    "spec.patchesStrategicMerge",
    "spec.patchesJson6902",
    "spec.source.kustomize.patches",
    "spec.sources[].kustomize.patches",
];

/// The files of a repository and who reads them.
#[derive(Debug, Default)]
pub(in crate::infra) struct Graph {
    /// Path of the kustomization, by folder without a slash at the end.
    folders: HashMap<String, String>,
    /// Folders whose kustomization names this file or folder.
    readers: HashMap<Arc<str>, Vec<Arc<str>>>,
    /// Manifests of Flux and Argo CD that apply a folder, by folder; with or without a kustomization in it.
    appliers: BTreeMap<String, Vec<Applier>>,
    /// Where such a manifest patches what it applies, by folder.
    patched: BTreeMap<String, String>,
    /// Where an ApplicationSet applies one folder more than once, by folder.
    several: BTreeMap<String, String>,
}

/// One manifest that applies a folder.
#[derive(Debug)]
struct Applier {
    /// Where it says so, `path:line`.
    place: String,
    /// Where its object begins, `path:line`.
    object: String,
    /// It may apply the folder more than once.
    several: bool,
}

impl Graph {
    /// Reads the kustomizations among these files, and what deploys their folders.
    pub(in crate::infra) fn new(
        files: &[(&str, &Arc<Known>)],
        is_file: impl Fn(&str) -> bool + Sync,
    ) -> Self {
        let mut graph = Self::default();
        let kustomizations: Vec<_> =
            files.iter().filter(|(path, _)| is_kustomization(path)).copied().collect();
        for (path, _) in &kustomizations {
            graph.folders.insert(parent(path).to_owned(), (*path).to_owned());
        }
        // Of several in a folder, the one that counts.
        let counts = |path: &str| graph.folders.get(parent(path)).is_some_and(|counts| counts == path);
        let read = in_parallel(&kustomizations, |(path, known)| {
            if !counts(path) {
                return Vec::new();
            }
            let folder = parent(path);
            let is_there = |target: &&Arc<str>| {
                ***target != *folder && (is_file(target) || graph.folders.contains_key(&***target))
            };
            known.names().iter().filter(is_there).cloned().collect()
        });
        for ((path, _), targets) in kustomizations.iter().zip(read) {
            let folder: Arc<str> = parent(path).into();
            for target in targets {
                let readers = graph.readers.entry(target).or_default();
                // A kustomization may name a file twice.
                if readers.last() != Some(&folder) {
                    readers.push(Arc::clone(&folder));
                }
            }
        }
        let (deployers, paths) = (Search::deployers(), Search::new(&["path"]));
        for (path, known) in files {
            if is_yaml(path) && known.holds(&deployers) && known.holds(&paths) {
                let Ok(parsed) = known.parsed() else { continue };
                graph.read_appliers(path, parsed);
            }
        }
        graph
    }

    fn read_appliers(&mut self, path: &str, parsed: &Parsed) {
        for object in &parsed.objects {
            let Some(root) = parsed.at(object) else { continue };
            // A path without a variable is the same for whatever the generators list.
            let n_applied = if object.kind == "ApplicationSet" { applications(&root) } else { Some(1) };
            for at in folders_of(&root, object) {
                let node = at.node;
                let Some(folder) = node.as_str().and_then(|text| resolve("", text.trim_start_matches('/')))
                else {
                    continue;
                };
                let place = format!("{path}:{}", node.line());
                let several = n_applied != Some(1);
                let applier =
                    Applier { place: place.clone(), object: format!("{path}:{}", object.line), several };
                self.appliers.entry(folder.clone()).or_default().push(applier);
                if !self.folders.contains_key(&folder) {
                    continue;
                }
                if several {
                    self.several.entry(folder.clone()).or_insert(place);
                }
                for patches in LATE_PATCHES.iter().flat_map(|dotted| root.all(dotted)) {
                    if names_pods(patches.node) {
                        let place = format!("{path}:{}", patches.node.line());
                        self.patched.entry(folder.clone()).or_insert(place);
                    }
                }
            }
        }
    }

    /// The path of a folder's kustomization.
    pub(in crate::infra) fn kustomization(&self, folder: &str) -> Option<&str> {
        self.folders.get(folder).map(String::as_str)
    }

    /// Where Flux or Argo CD patches pods after Kustomize has built `folder`.
    pub(super) fn patched(&self, folder: &str) -> Option<&str> {
        self.patched.get(folder).map(String::as_str)
    }

    /// Where an ApplicationSet applies `folder`, perhaps to more than one cluster.
    pub(super) fn several(&self, folder: &str) -> Option<&str> {
        self.several.get(folder).map(String::as_str)
    }

    /// Every folder whose kustomization reads this file, itself or through others.
    pub(in crate::infra) fn above(&self, path: &str) -> BTreeSet<&str> {
        let mut seen = BTreeSet::new();
        let mut open = vec![path];
        while let Some(path) = open.pop() {
            for folder in self.readers.get(path).into_iter().flatten() {
                if seen.insert(&**folder) {
                    open.push(folder);
                }
            }
        }
        seen
    }

    /// Why a file is not one user's alone by who applies its folder, or a kustomization that takes it: the nearest of
    /// these is applied more than once. Whoever applies a folder around others' folders is no second user of what those
    /// apply, and who applies the whole repository mostly applies others that apply parts.
    pub(in crate::infra) fn applied_twice(&self, path: &str) -> Option<String> {
        let taken = self.above(path);
        let around = |path: &str| {
            let folders = path.match_indices('/').map(|(at, _)| path[..at].to_owned());
            folders.chain([path.to_owned()]).collect::<Vec<_>>()
        };
        let folders: BTreeSet<String> = taken.into_iter().chain([path]).flat_map(around).collect();
        let applied = folders.iter().filter(|folder| self.appliers.contains_key(*folder));
        let longest = applied.clone().map(String::len).max()?;
        let nearest: Vec<&Applier> = applied
            .filter(|folder| folder.len() == longest)
            .flat_map(|folder| &self.appliers[folder])
            .collect();
        if nearest.len() < 2 && nearest.iter().all(|applier| !applier.several) {
            return None;
        }
        let mut places: Vec<String> = nearest.iter().map(|applier| format!("`{}`", applier.object)).collect();
        places.dedup();
        Some(format!("its folder is deployed more than once: {}", places.join(", ")))
    }

    /// What is built or applied with the help of this file or folder: outermost kustomizations, and manifests of Flux
    /// and Argo CD that apply one on the way. Empty: no kustomization reads it.
    pub(super) fn users(&self, path: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut open: Vec<&str> =
            self.readers.get(path).into_iter().flatten().map(|folder| &**folder).collect();
        if is_kustomization(path) {
            open.push(parent(path));
        } else if self.folders.contains_key(path) {
            open.push(path);
        }
        while let Some(folder) = open.pop() {
            if !seen.insert(folder) {
                continue;
            }
            let appliers = self.appliers.get(folder).filter(|_| self.folders.contains_key(folder));
            let above = self.readers.get(folder);
            found.extend(appliers.into_iter().flatten().map(|applier| applier.place.clone()));
            open.extend(above.into_iter().flatten().map(|folder| &**folder));
            if appliers.is_none() && above.is_none() {
                found.extend(self.folders.get(folder).cloned());
            }
        }
        found
    }
}

/// What a kustomization names as if it were a file or a folder, from the repository's root.
pub(in crate::infra) fn named(kustomization: &Known) -> Vec<Arc<str>> {
    let folder = parent(&kustomization.path);
    let mut found: Vec<Arc<str>> = Vec::new();
    let mut read = |name: &str| {
        // Generators write `key=path`.
        let name = name.split_once('=').map_or(name, |(_, path)| path);
        found.extend(resolve(folder, name).map(Arc::from));
    };
    match kustomization.parsed() {
        Ok(parsed) => parsed.documents().for_each(|root| {
            walk::every(root, &mut |_, node| {
                if let Some(text) = node.as_str().filter(|text| !text.contains('\n')) {
                    read(text);
                }
            });
        }),
        // What does not parse may read whatever it names.
        Err(_) => kustomization
            .text()
            .split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | '[' | ']'))
            .filter(|word| !word.is_empty())
            .for_each(&mut read),
    }
    found
}

/// How many applications a set makes, where it lists them itself.
fn applications(set: &At<'_>) -> Option<usize> {
    let generators = set.all("spec.generators[]");
    let elements =
        generators.iter().map(|generator| generator.get("list")?.get("elements").map(|at| at.items().len()));
    elements.sum()
}

/// Whether a text about patches speaks of what the bot changes.
fn names_pods(node: Node<'_>) -> bool {
    let words =
        |text: &str| ["resources", "nvidia.com", "nodeSelector"].iter().any(|word| text.contains(word));
    let mut found = false;
    walk::every(node, &mut |key, node| {
        found |= key.is_some_and(words) || node.as_str().is_some_and(words);
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_the_outermost_kustomizations_and_what_applies_them() {
        let flux = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: apps}\nspec: {path: ./overlays/b}\n";
        let texts = [
            ("base/kustomization.yaml", "resources: [a.yaml]\n"),
            ("base/a.yaml", "kind: A\n"),
            ("overlays/a/kustomization.yaml", "resources: [../../base]\n"),
            ("overlays/b/kustomization.yaml", "resources: [../../base]\npatches: [{path: p.yaml}]\n"),
            ("overlays/b/p.yaml", "kind: A\n"),
            ("clusters/dc1/apps.yaml", flux),
        ];
        let known = texts.map(|(path, text)| (path, Arc::new(Known::new(path, text))));
        let files: Vec<_> = known.iter().map(|(path, known)| (*path, known)).collect();
        let graph = Graph::new(&files, |path| known.iter().any(|(known, _)| *known == path));
        let check = |path: &str, expected: &[&str]| {
            assert_eq!(graph.users(path).iter().collect::<Vec<_>>(), expected, "{path}");
        };
        check("base/a.yaml", &["clusters/dc1/apps.yaml:4", "overlays/a/kustomization.yaml"]);
        check("overlays/b/p.yaml", &["clusters/dc1/apps.yaml:4"]);
        check("overlays/a", &["overlays/a/kustomization.yaml"]);
        check("clusters/dc1/apps.yaml", &[]);
    }
}
