//! Which folders of a repository a cluster runs, by what Argo CD or Flux are told.
//!
//! What cannot be evaluated (a generator that asks a cluster, a template with functions, another branch) is noted and
//! adds no folder. What the folders' kustomizations list is added by [`closure`].

mod application_set;

use std::collections::{BTreeMap, BTreeSet};

use slicewright_yaml::Node;

use super::kinds;
use super::kustomize::{parent, resolve};
use super::repository::{Object, Parsed, is_kustomization, is_plain_path, is_yaml};
use super::walk::{self, At};

/// Who says which folders are a cluster's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeployedBy {
    /// Flux, from the folder that it was bootstrapped with: its `Kustomization` objects name the others.
    Flux {
        /// Ends with `/`.
        root: String,
    },
    /// Argo CD: `Application` and `ApplicationSet` objects with one of these destinations.
    ArgoCd {
        /// `destination.name` or `destination.server`.
        destinations: BTreeSet<String>,
    },
}

/// Folders (with a slash at the end) and single files that the cluster runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Deployed {
    pub(super) paths: BTreeSet<String>,
    /// What could not be told, as sentences with the place.
    pub(super) notes: BTreeSet<String>,
    /// `Application` objects of other destinations, as path and line: they are in the files and not the cluster's.
    pub(super) foreign: BTreeSet<(String, usize)>,
    /// What whoever deploys a folder gives to its objects: more than one where it is deployed more than once.
    pub(super) given: BTreeMap<String, BTreeSet<Given>>,
}

/// What the objects of a folder get after all else.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Given {
    pub(super) namespace: Option<String>,
    /// Also objects that name another one (Flux' `targetNamespace`); Argo CD fills in what is missing.
    pub(super) all: bool,
    /// Before and after every name.
    pub(super) prefix: String,
    pub(super) suffix: String,
}

/// The longest chain of folders that name each other.
const MAX_ROUNDS: usize = 16;

/// What the cluster runs.
pub(super) fn deployed(texts: &BTreeMap<&str, &str>, by: &[DeployedBy]) -> Deployed {
    let mut all = Deployed::default();
    for by in by {
        let found = match by {
            DeployedBy::Flux { root } => flux(texts, root),
            DeployedBy::ArgoCd { destinations } => argo_cd(texts, destinations),
        };
        all.paths.extend(found.paths);
        all.notes.extend(found.notes);
        all.foreign.extend(found.foreign);
        for (folder, given) in found.given {
            all.given.entry(folder).or_default().extend(given);
        }
    }
    closure(texts, &mut all.paths, &mut BTreeSet::new());
    all
}

/// Adds the files and folders that the kustomizations of these folders list, again and again. Those in `seen` were
/// followed before.
fn closure<'t>(
    texts: &BTreeMap<&'t str, &'t str>,
    paths: &mut BTreeSet<String>,
    seen: &mut BTreeSet<&'t str>,
) {
    for _ in 0..MAX_ROUNDS {
        let new: Vec<(&str, &str)> = texts
            .iter()
            .map(|(path, text)| (*path, *text))
            .filter(|(path, _)| is_kustomization(path) && holds(paths, path) && !seen.contains(path))
            .collect();
        if new.is_empty() {
            break;
        }
        for (path, text) in new {
            seen.insert(path);
            let Ok(parsed) = Parsed::new(text) else { continue };
            for root in parsed.documents() {
                for target in listed(root, parent(path)) {
                    let as_folder = format!("{target}/");
                    if texts.contains_key(target.as_str()) {
                        paths.insert(target);
                    } else if has_folder(texts, &as_folder) {
                        paths.insert(as_folder);
                    }
                }
            }
        }
    }
}

/// Whether one of the folders or files is or holds this path.
pub(super) fn holds(paths: &BTreeSet<String>, path: &str) -> bool {
    paths.contains(path) || path.match_indices('/').any(|(at, _)| paths.contains(&path[..=at]))
}

fn has_folder(texts: &BTreeMap<&str, &str>, folder: &str) -> bool {
    folder == "/" || texts.range(folder..).next().is_some_and(|(path, _)| path.starts_with(folder))
}

/// Paths that a kustomization reads: resources, components, patches.
fn listed(root: Node<'_>, folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for key in ["resources", "bases", "components", "patchesStrategicMerge", "crds", "configurations"] {
        for entry in root.get(key).into_iter().flat_map(|list| list.items()) {
            found.extend(entry.as_str().and_then(|text| resolve(folder, text)));
        }
    }
    for key in ["patches", "patchesJson6902"] {
        for entry in root.get(key).into_iter().flat_map(|list| list.items()) {
            found.extend(walk::text(entry, "path").and_then(|text| resolve(folder, text)));
        }
    }
    found
}

/// Where an object of Flux or Argo CD says which folders it deploys.
pub(super) fn folders_of<'s>(root: &At<'s>, object: &Object) -> Vec<At<'s>> {
    let paths: &[&str] = match (kinds::group(&object.api_version), object.kind.as_str()) {
        ("kustomize.toolkit.fluxcd.io", "Kustomization") => &["spec.path"],
        ("argoproj.io", "Application") => &["spec.source.path", "spec.sources[].path"],
        ("argoproj.io", "ApplicationSet") => {
            &["spec.template.spec.source.path", "spec.template.spec.sources[].path"]
        }
        _ => &[],
    };
    paths.iter().flat_map(|dotted| root.all(dotted)).collect()
}

/// A path as written in an object, as a folder from the repository's root.
fn folder(text: &str) -> Option<String> {
    let path = resolve("", text.trim_start_matches('/'))?;
    if path.is_empty() {
        return Some("/".to_owned());
    }
    is_plain_path(&path).then(|| format!("{path}/"))
}

/// Every object of the YAML files that hold `word`.
fn objects<'t>(
    texts: &BTreeMap<&'t str, &'t str>,
    word: &str,
    wanted: impl Fn(&str) -> bool,
) -> Vec<(&'t str, Parsed)> {
    let files = texts.iter().filter(|(path, text)| is_yaml(path) && wanted(path) && text.contains(word));
    files.filter_map(|(path, text)| Some((*path, Parsed::new(text).ok()?))).collect()
}

fn flux(texts: &BTreeMap<&str, &str>, root: &str) -> Deployed {
    let mut deployed = Deployed { paths: BTreeSet::from([root.to_owned()]), ..Deployed::default() };
    let (mut seen, mut followed): (BTreeSet<&str>, BTreeSet<&str>) = Default::default();
    for _ in 0..MAX_ROUNDS {
        closure(texts, &mut deployed.paths, &mut followed);
        let new = |path: &str| holds(&deployed.paths, path) && !seen.contains(path);
        let files = objects(texts, "kustomize.toolkit.fluxcd.io", new);
        if files.is_empty() {
            break;
        }
        for (path, parsed) in files {
            seen.insert(path);
            for object in &parsed.objects {
                if object.kind == "Kustomization" && object.api_version.starts_with("kustomize.toolkit.") {
                    of_flux(texts, path, &parsed, object, &mut deployed);
                }
            }
        }
    }
    deployed
}

/// What one Flux `Kustomization` adds.
fn of_flux(
    texts: &BTreeMap<&str, &str>,
    path: &str,
    parsed: &Parsed,
    object: &Object,
    deployed: &mut Deployed,
) {
    let Some(node) = parsed.at(object).map(|at| at.node) else { return };
    let place = format!("`{path}:{}`", object.line);
    let kind = walk::text(node, "spec.sourceRef.kind").unwrap_or("GitRepository");
    if kind != "GitRepository" {
        deployed
            .notes
            .insert(format!("{place}: a `{kind}` is deployed from elsewhere and was not looked into"));
        return;
    }
    // Flux names the source of its own repository so; others may be any repository.
    let source = walk::text(node, "spec.sourceRef.name").unwrap_or("flux-system");
    let wanted = walk::text(node, "spec.path").unwrap_or("./");
    match folder(wanted).filter(|folder| has_folder(texts, folder)) {
        Some(found) if source == "flux-system" => {
            let own = |dotted: &str| walk::text(node, dotted).map(ToOwned::to_owned);
            let given = Given {
                namespace: own("spec.targetNamespace"),
                all: true,
                prefix: own("spec.namePrefix").unwrap_or_default(),
                suffix: own("spec.nameSuffix").unwrap_or_default(),
            };
            deployed.given.entry(found.clone()).or_default().insert(given);
            deployed.paths.insert(found);
        }
        Some(_) => {
            deployed.notes.insert(format!(
                "{place}: `{wanted}` of the source `{source}` may be in another repository and was not looked into"
            ));
        }
        None if source == "flux-system" => {
            deployed.notes.insert(format!("{place}: there is no folder `{wanted}`"));
        }
        None => {}
    }
    let patches = node.get("spec").and_then(|spec| spec.get("patches"));
    if let Some(patches) = patches.filter(|patches| names_gpu(*patches)) {
        deployed.notes.insert(format!(
            "`{path}:{}`: patches of a Flux `Kustomization` speak of a GPU and were not looked into",
            patches.line()
        ));
    }
}

fn names_gpu(node: Node<'_>) -> bool {
    let mut found = false;
    walk::every(node, &mut |key, value| {
        let names = |text: &str| text.contains("nvidia.com");
        found |= key.is_some_and(names) || value.as_str().is_some_and(names);
    });
    found
}

fn argo_cd(texts: &BTreeMap<&str, &str>, destinations: &BTreeSet<String>) -> Deployed {
    let mut deployed = Deployed::default();
    for (path, parsed) in objects(texts, "argoproj.io/", |_| true) {
        for object in &parsed.objects {
            let Some(node) = parsed.at(object).map(|at| at.node) else { continue };
            let place = format!("`{path}:{}`", object.line);
            match object.kind.as_str() {
                "Application" => {
                    let Some(spec) = node.get("spec") else { continue };
                    let own = application_set::Params::default();
                    match application_set::destination(spec, &own, destinations) {
                        Ok(true) => {
                            deployed.paths.insert(path.to_owned());
                            application_set::sources(texts, spec, &own, &place, &mut deployed);
                        }
                        Ok(false) => {
                            deployed.foreign.insert((path.to_owned(), object.line));
                        }
                        Err(why) => {
                            deployed.notes.insert(format!("{place}: {why}"));
                        }
                    }
                }
                "ApplicationSet" => {
                    application_set::read(texts, node, &place, destinations, &mut deployed);
                }
                _ => {}
            }
        }
    }
    deployed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)], by: &DeployedBy) -> (Vec<String>, Vec<String>) {
        let texts: BTreeMap<&str, &str> = files.iter().copied().collect();
        let deployed = deployed(&texts, std::slice::from_ref(by));
        (deployed.paths.into_iter().collect(), deployed.notes.into_iter().collect())
    }

    fn argo_of(destination: &str) -> DeployedBy {
        DeployedBy::ArgoCd { destinations: BTreeSet::from([destination.to_owned()]) }
    }

    const LEAF: &str = "kind: Deployment\napiVersion: apps/v1\nmetadata: {name: a}\n";

    #[test]
    fn flux_is_followed_from_its_root_through_kustomizations_of_both_kinds() {
        let flux = |path: &str, source: &str| {
            format!(
                "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: apps}}\nspec:\n  \
                 path: {path}\n  sourceRef: {{kind: GitRepository, name: {source}}}\n"
            )
        };
        let (apps, other, strange) = (
            flux("./apps/dc1", "flux-system"),
            flux("./apps/dc2", "flux-system"),
            flux("./infra", "platform"),
        );
        let files = [
            ("clusters/dc1/apps.yaml", apps.as_str()),
            ("clusters/dc1/infra.yaml", strange.as_str()),
            ("clusters/dc2/apps.yaml", other.as_str()),
            (
                "apps/dc1/kustomization.yaml",
                "resources: [../base]\npatches:\n  - path: ../patches/gpu.yaml\n",
            ),
            ("apps/dc2/kustomization.yaml", "resources: [../base]\n"),
            ("apps/base/kustomization.yaml", "resources: [a.yaml]\n"),
            ("apps/base/a.yaml", LEAF),
            ("apps/patches/gpu.yaml", LEAF),
            ("infra/a.yaml", LEAF),
        ];
        let (paths, notes) = of(&files, &DeployedBy::Flux { root: "clusters/dc1/".into() });
        assert_eq!(
            paths,
            ["apps/base/", "apps/base/a.yaml", "apps/dc1/", "apps/patches/gpu.yaml", "clusters/dc1/"]
        );
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(
            notes[0].contains("`./infra` of the source `platform` may be in another repository"),
            "{notes:?}"
        );
    }

    #[test]
    fn applications_are_told_by_their_destination() {
        let app = |name: &str, destination: &str, path: &str| {
            format!(
                "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: {name}}}\nspec:\n  \
                 destination: {destination}\n  source: {{repoURL: https://git.example.com/infra, path: {path}}}\n"
            )
        };
        let both = format!(
            "{}---\n{}",
            app("a", "{name: dc1}", "apps/a"),
            app("b", "{server: 'https://10.0.0.2'}", "apps/b")
        );
        let files = [("argo/apps.yaml", both.as_str()), ("apps/a/a.yaml", LEAF), ("apps/b/b.yaml", LEAF)];
        assert_eq!(of(&files, &argo_of("dc1")).0, ["apps/a/", "argo/apps.yaml"]);
        assert_eq!(of(&files, &argo_of("https://10.0.0.2")).0, ["apps/b/", "argo/apps.yaml"]);
    }

    #[test]
    fn sets_of_applications_are_made_out_where_the_repository_says_it_all() {
        let set = |generators: &str, path: &str, name: &str| {
            format!(
                "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {{name: apps}}\nspec:\n  generators:\n{generators}  \
                 template:\n    spec:\n      destination: {{name: '{name}'}}\n      source: {{path: '{path}'}}\n"
            )
        };
        let leaves =
            [("apps/dc1/a/a.yaml", LEAF), ("apps/dc2/b/b.yaml", LEAF), ("apps/dc1/old/o.yaml", LEAF)];
        let paths = |text: &str| {
            let mut files = vec![("set.yaml", text)];
            files.extend(leaves);
            of(&files, &argo_of("dc1"))
        };
        let list = set(
            "    - list:\n        elements:\n          - {cluster: dc1, folder: a}\n          - {cluster: dc2, folder: b}\n",
            "apps/{{cluster}}/{{ .folder }}",
            "{{cluster}}",
        );
        assert_eq!(paths(&list).0, ["apps/dc1/a/", "set.yaml"]);
        let git = set(
            "    - git:\n        directories:\n          - path: apps/*/*\n          - {path: apps/dc1/old, exclude: true}\n",
            "{{.path.path}}",
            "{{ index .path.segments 1 }}",
        );
        let (none, notes) = paths(&git);
        assert_eq!((none.len(), notes.len()), (0, 1), "{notes:?}");
        let git = git.replace("{{ index .path.segments 1 }}", "{{path[1]}}").replace(".path.path", "path");
        assert_eq!(paths(&git).0, ["apps/dc1/a/", "set.yaml"]);
        let clusters = set("    - clusters: {}\n", "apps/{{name}}/a", "{{name}}");
        assert_eq!(paths(&clusters).0, ["apps/dc1/a/", "set.yaml"]);
        let matrix = set(
            "    - matrix:\n        generators:\n          - clusters: {}\n          - list: {elements: [{app: a}, {app: old}]}\n",
            "apps/{{name}}/{{app}}",
            "{{name}}",
        );
        assert_eq!(paths(&matrix).0, ["apps/dc1/a/", "apps/dc1/old/", "set.yaml"]);
        let (none, notes) = paths(&set("    - pullRequest: {}\n", "apps/dc1/a", "dc1"));
        assert!(none.is_empty() && notes[0].contains("`pullRequest`"), "{none:?} {notes:?}");
    }

    #[test]
    fn another_branch_is_not_this_commit() {
        let text = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: a}\nspec:\n  destination: {name: \
                    dc1}\n  source: {path: apps, targetRevision: v1.2}\n";
        let (paths, notes) = of(&[("a.yaml", text), ("apps/a.yaml", LEAF)], &argo_of("dc1"));
        assert_eq!(paths, ["a.yaml"]);
        assert!(notes[0].contains("`v1.2`"), "{notes:?}");
    }

    #[test]
    fn who_deploys_a_folder_gives_its_objects_a_namespace() {
        let flux = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: apps}\nspec: {path: \
                    ./apps, targetNamespace: search}\n";
        let argo = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: a}\nspec:\n  destination: {name: \
                    dc1, namespace: search}\n  source: {path: apps}\n";
        let gpu = |namespace: &str| {
            format!(
                "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: a{namespace}}}\nspec: {{template: {{spec: \
                 {{containers: [{{name: c, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]}}}}}}\n"
            )
        };
        let namespaces = |by: DeployedBy, deployer: &str, namespace: &str| {
            let file = |path: &str, text: &str| (path.to_owned(), text.as_bytes().to_vec());
            let snapshot = super::super::Snapshot {
                files: [file("clusters/dc1/x.yaml", deployer), file("apps/a.yaml", &gpu(namespace))].into(),
                ..Default::default()
            };
            let scope = super::super::Scope {
                cluster: "dc1".into(),
                folders: Vec::new(),
                deployed_by: vec![by],
                new_files: "new/".into(),
                operator_namespace: "gpu-operator".into(),
            };
            let read = super::super::read(&snapshot, &scope);
            read.workloads.into_keys().map(|id| id.namespace).collect::<Vec<_>>()
        };
        let by_flux = || DeployedBy::Flux { root: "clusters/dc1/".into() };
        assert_eq!(namespaces(by_flux(), flux, ""), ["search"]);
        assert_eq!(namespaces(by_flux(), flux, ", namespace: own"), ["search"]);
        assert_eq!(namespaces(argo_of("dc1"), argo, ""), ["search"]);
        assert_eq!(namespaces(argo_of("dc1"), argo, ", namespace: own"), ["own"]);
    }
}
