//! One kustomization as far as it decides what becomes of pods: what it lists, which patches it has, what else may
//! touch a pod's resources.

use slicewright_yaml::{Node, Step};

use super::target::Target;
use super::{is_remote, resolve};
use crate::infra::repository::Parsed;
use crate::infra::walk;

/// A kustomization.
#[derive(Debug, Default)]
pub(super) struct Layer {
    /// Its own path.
    pub(super) path: String,
    /// Position of its document in the file.
    pub(super) document: usize,
    /// A component, whose patches other kustomizations take in.
    pub(super) is_component: bool,
    pub(super) namespace: Option<String>,
    pub(super) prefix: String,
    pub(super) suffix: String,
    /// `resources` and `bases` as paths from the repository's root.
    pub(super) resources: Vec<String>,
    pub(super) components: Vec<String>,
    /// URLs and what else is not in the repository, with the place.
    pub(super) remote: Vec<String>,
    /// In the order in which Kustomize applies them; those of `patchesJson6902` come after names and labels.
    pub(super) patches: Vec<Entry>,
    pub(super) late_patches: Vec<Entry>,
    pub(super) labels: Vec<(String, String)>,
    pub(super) annotations: Vec<(String, String)>,
    /// Name and count.
    pub(super) replicas: Vec<(String, String)>,
    pub(super) replacements: Vec<Replacement>,
    /// Why nobody can tell from here what becomes of any object, with the place.
    pub(super) doubts: Vec<String>,
}

/// One entry of a list of patches.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// `<file>:<line>` of the entry itself.
    pub(super) place: String,
    pub(super) target: Option<Target>,
    pub(super) source: Source,
    /// It may change names or kinds.
    pub(super) renames: bool,
}

/// Where the text of a patch stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// In the kustomization, at this place of this document.
    Inline {
        path: String,
        document: usize,
        at: Vec<Step>,
        text: String,
    },
    File(String),
}

/// A target of `replacements` that may be in a pod's resources or node selector.
#[derive(Clone, Debug)]
pub(super) struct Replacement {
    pub(super) place: String,
    pub(super) kind: Option<String>,
    pub(super) name: Option<String>,
}

impl Layer {
    /// Reads the kustomization of a folder; `text` gives other files' texts, `exists` knows files and folders.
    pub(super) fn new<'t>(
        path: &str,
        folder: &str,
        parsed: &Parsed,
        text: &dyn Fn(&str) -> Option<&'t str>,
        exists: &dyn Fn(&str) -> bool,
    ) -> Option<Self> {
        let (document, root) = parsed.documents().enumerate().find(|(_, root)| root.is_mapping())?;
        let own = |key: &str| walk::text(root, key).map(ToOwned::to_owned);
        let mut layer = Self {
            path: path.to_owned(),
            document,
            is_component: walk::text(root, "kind") == Some("Component"),
            namespace: own("namespace").filter(|namespace| !namespace.is_empty()),
            prefix: own("namePrefix").unwrap_or_default(),
            suffix: own("nameSuffix").unwrap_or_default(),
            ..Self::default()
        };
        for key in ["resources", "bases", "components"] {
            for entry in items(root, key) {
                let Some(name) = entry.as_str() else { continue };
                match resolve(folder, name).filter(|target| !is_remote(name) && exists(target)) {
                    Some(target) if key == "components" => layer.components.push(target),
                    Some(target) => layer.resources.push(target),
                    None if key == "components" => {
                        layer
                            .doubts
                            .push(format!("`{path}:{}`: the component `{name}` is not here", entry.line()));
                    }
                    None => layer.remote.push(format!("`{path}:{}`: `{name}`", entry.line())),
                }
            }
        }
        for key in ["patchesStrategicMerge", "patches", "patchesJson6902"] {
            for (position, entry) in items(root, key).enumerate() {
                let Some(found) = layer.entry(folder, key, position, entry, exists) else { continue };
                if key == "patchesJson6902" {
                    layer.late_patches.push(found);
                } else {
                    layer.patches.push(found);
                }
            }
        }
        let pairs = |node: Node<'_>| -> Vec<(String, String)> {
            let text = |(key, value): (&str, Node<'_>)| Some((key.to_owned(), value.as_str()?.to_owned()));
            node.entries().into_iter().filter_map(text).collect()
        };
        for entry in items(root, "labels") {
            layer.labels.extend(entry.get("pairs").map(pairs).unwrap_or_default());
        }
        layer.labels.extend(root.get("commonLabels").map(pairs).unwrap_or_default());
        layer.annotations.extend(root.get("commonAnnotations").map(pairs).unwrap_or_default());
        for entry in items(root, "replicas") {
            if let (Some(name), Some(count)) = (walk::text(entry, "name"), walk::text(entry, "count")) {
                layer.replicas.push((name.to_owned(), count.to_owned()));
            }
        }
        layer.read_replacements(folder, root, text);
        layer.read_doubts(folder, root, text);
        Some(layer)
    }

    fn entry(
        &self,
        folder: &str,
        key: &str,
        position: usize,
        entry: Node<'_>,
        exists: &dyn Fn(&str) -> bool,
    ) -> Option<Entry> {
        let inline = |at: Vec<Step>, text: &str| Source::Inline {
            path: self.path.clone(),
            document: self.document,
            at,
            text: text.to_owned(),
        };
        let at: Vec<Step> = vec![key.into(), position.into()];
        let source = if let Some(text) = entry.as_str() {
            // As Kustomize does it: a file if there is one, else the patch itself.
            match resolve(folder, text).filter(|path| !text.contains('\n') && exists(path)) {
                Some(path) => Source::File(path),
                None => inline(at, text),
            }
        } else if let Some(path) = walk::text(entry, "path") {
            Source::File(resolve(folder, path).unwrap_or_else(|| path.to_owned()))
        } else {
            let text = walk::text(entry, "patch")?;
            inline([at, vec!["patch".into()]].concat(), text)
        };
        let on = |dotted: &str| walk::text(entry, dotted) == Some("true");
        Some(Entry {
            place: format!("{}:{}", self.path, entry.line()),
            target: entry.get("target").map(Target::new),
            source,
            renames: on("options.allowNameChange") || on("options.allowKindChange"),
        })
    }

    fn read_replacements<'t>(
        &mut self,
        folder: &str,
        root: Node<'_>,
        text: &dyn Fn(&str) -> Option<&'t str>,
    ) {
        for entry in items(root, "replacements") {
            let place = format!("{}:{}", self.path, entry.line());
            match walk::text(entry, "path") {
                None => self.replacements.extend(replacements(entry, &place)),
                Some(path) => {
                    let read = resolve(folder, path).and_then(|path| text(&path)).map(Parsed::new);
                    let Some(Ok(parsed)) = read else {
                        self.doubts.push(format!("the replacement at `{place}` cannot be read"));
                        continue;
                    };
                    for root in parsed.documents() {
                        self.replacements.extend(replacements(root, &place));
                        self.replacements.extend(root.items().flat_map(|entry| replacements(entry, &place)));
                    }
                }
            }
        }
    }

    fn read_doubts<'t>(&mut self, folder: &str, root: Node<'_>, text: &dyn Fn(&str) -> Option<&'t str>) {
        for (key, what) in [
            ("transformers", "a transformer may change any object"),
            ("openapi", "a schema of its own says how lists merge"),
        ] {
            if let Some(found) = root.get(key).filter(|found| !found.is_null()) {
                self.doubts.push(format!("`{}:{}`: {what}", self.path, found.line()));
            }
        }
        for entry in items(root, "configurations") {
            let read = entry.as_str().and_then(|name| resolve(folder, name)).and_then(|path| text(&path));
            if read.is_none_or(|text| ["resources", "nodeSelector"].iter().any(|word| text.contains(word))) {
                self.doubts.push(format!(
                    "`{}:{}`: a transformer's configuration may reach resources or node selectors",
                    self.path,
                    entry.line()
                ));
            }
        }
    }
}

pub(super) fn items<'s>(root: Node<'s>, key: &str) -> impl Iterator<Item = Node<'s>> + use<'s> {
    root.get(key).into_iter().flat_map(|list| list.items())
}

/// Targets of one replacement whose fields are, or hold, what the bot changes.
fn replacements(entry: Node<'_>, place: &str) -> Vec<Replacement> {
    let reaches = |field: &str| {
        let last = field.rsplit('.').next().unwrap_or_default();
        ["resources", "nodeSelector", "nvidia"].iter().any(|word| field.contains(word))
            || matches!(last, "spec" | "template" | "containers" | "initContainers" | "*")
            || last.ends_with(']')
            || last.parse::<usize>().is_ok()
    };
    items(entry, "targets")
        .filter(|target| items(*target, "fieldPaths").any(|field| field.as_str().is_none_or(reaches)))
        .map(|target| Replacement {
            place: place.to_owned(),
            kind: walk::text(target, "select.kind").map(ToOwned::to_owned),
            name: walk::text(target, "select.name").map(ToOwned::to_owned),
        })
        .collect()
}
