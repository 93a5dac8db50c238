//! Config maps of the GPU Operator: where one stands, and what it holds.

use std::collections::BTreeSet;

use slicewright_yaml::{Document, Edit, Node, Op, Shared, Step, Value};

use super::ManualChange;
use super::draft::Draft;
use super::kustomize::parent;
use super::repository::{Parsed, Repository, is_yaml};
use super::text::one_line;

/// The deepest tree that is compared.
const MAX_DEPTH: usize = 32;

/// One `ConfigMap` in a file.
#[derive(Clone, Debug)]
pub(super) struct ConfigMap {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) document: usize,
    pub(super) prefix: Vec<Step>,
    pub(super) namespace: Option<String>,
    /// The whole text of its file, as it was read.
    text: String,
}

impl ConfigMap {
    /// `path:line`.
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.path, self.line)
    }

    /// The keys of `data`.
    pub(super) fn keys(&self) -> BTreeSet<String> {
        self.with_data(&self.text, |data| data.entries().into_iter().map(|(key, _)| key.to_owned()).collect())
            .unwrap_or_default()
    }

    /// The text under a key, in `text`, which is this map's file as it stands.
    pub(super) fn inner(&self, text: &str, key: &str) -> Option<String> {
        self.with_data(text, |data| data.get(key)?.as_str().map(ToOwned::to_owned)).flatten()
    }

    /// The keys of a mapping in the YAML under a key.
    pub(super) fn inner_keys(&self, key: &str, mapping: &str) -> BTreeSet<String> {
        self.inner_keys_of(&self.text, key, mapping).unwrap_or_default()
    }

    /// As [`ConfigMap::inner_keys`], in `text`; the reason when it cannot be told.
    pub(super) fn inner_keys_of(
        &self,
        text: &str,
        key: &str,
        mapping: &str,
    ) -> Result<BTreeSet<String>, String> {
        let inner = self
            .inner(text, key)
            .ok_or_else(|| format!("`{}` has no text under the key `{key}`", self.place()))?;
        let stream = slicewright_yaml::read(&inner).map_err(|refusal| refusal.to_string())?;
        let mapping = stream.document(0).and_then(|root| root.get(mapping));
        Ok(mapping
            .map(|node| node.entries().into_iter().map(|(key, _)| key.to_owned()).collect())
            .unwrap_or_default())
    }

    fn with_data<T>(&self, text: &str, look: impl FnOnce(Node<'_>) -> T) -> Option<T> {
        let parsed = Parsed::new(text).ok()?;
        let root = parsed.documents().nth(self.document)?.at(&self.prefix)?;
        Some(look(root.get("data")?))
    }
}

/// Every config map of this name, whatever its namespace.
pub(super) fn named(repository: &Repository<'_>, name: &str) -> Vec<ConfigMap> {
    let mut found = all(repository);
    found.retain(|map| map.name == name);
    found
}

/// Every config map of the files that were parsed.
pub(super) fn all(repository: &Repository<'_>) -> Vec<ConfigMap> {
    repository
        .objects()
        .filter(|(file, _, object)| {
            object.kind == "ConfigMap"
                && super::helm_template::helm_chart(&repository.texts, file.path).is_none()
        })
        .map(|(file, _, object)| ConfigMap {
            name: object.name.clone(),
            path: file.path.to_owned(),
            line: object.line,
            document: object.document,
            prefix: object.prefix.clone(),
            namespace: repository.namespace(file.path, object),
            text: file.text.to_owned(),
        })
        .collect()
}

/// The config maps of this name in the operator's namespace; one that names no namespace counts, since the tool that
/// applies it decides.
pub(super) fn find(repository: &Repository<'_>, name: &str, namespace: &str) -> Vec<ConfigMap> {
    let mut found = named(repository, name);
    found.retain(|map| map.namespace.as_deref().is_none_or(|found| found == namespace));
    found
}

/// The config map of this name in one text.
pub(super) fn in_text(path: &str, text: &str, name: &str) -> Option<ConfigMap> {
    let parsed = Parsed::new(text).ok()?;
    let object = parsed.objects.iter().find(|object| object.kind == "ConfigMap" && object.name == name)?;
    Some(ConfigMap {
        name: name.to_owned(),
        path: path.to_owned(),
        line: object.line,
        document: object.document,
        prefix: object.prefix.clone(),
        namespace: object.namespace.clone(),
        text: text.to_owned(),
    })
}

/// A template of a Helm chart that names a map.
pub(super) fn in_charts<'a>(repository: &Repository<'a>, name: &str) -> Option<&'a str> {
    repository
        .texts
        .iter()
        .find(|(path, text)| {
            is_yaml(path)
                && text.contains(name)
                && text.contains("ConfigMap")
                && super::helm_template::helm_chart(&repository.texts, path).is_some()
        })
        .map(|(path, _)| *path)
}

/// Where Kustomize makes a map of this name.
pub(super) fn generated(repository: &Repository<'_>, name: &str) -> Option<(String, usize)> {
    repository
        .overlays()
        .all()
        .find_map(|kustomization| Some((kustomization.path.clone(), *kustomization.config_maps.get(name)?)))
}

/// Adds a new manifest to the kustomization that governs its folder, without which it would not be applied.
pub(super) fn list(
    repository: &Repository<'_>,
    draft: &mut Draft<'_>,
    path: &str,
    namespace: &str,
    name: &str,
) {
    let mut folder = parent(path);
    let (kustomization, relative) = loop {
        if let Some(found) = repository.overlays().of_folder(folder) {
            let start = if folder.is_empty() { 0 } else { folder.len() + 1 };
            break (found, path[start..].to_owned());
        }
        if folder.is_empty() {
            return;
        }
        folder = parent(folder);
    };
    if kustomization.resources.contains(path)
        || kustomization
            .resources
            .iter()
            .any(|listed| path.strip_prefix(listed.as_str()).is_some_and(|rest| rest.starts_with('/')))
    {
        return;
    }
    let manual = |why: String| ManualChange {
        what: format!("List `{relative}` under `resources` of `{}`", kustomization.path),
        why,
        text: format!("resources:\n  - {}\n", one_line(&relative)),
    };
    if kustomization.namespace.as_deref().is_some_and(|found| found != namespace) {
        let found = kustomization.namespace.clone().unwrap_or_default();
        draft.manual(manual(format!(
            "that kustomization puts everything into namespace `{found}`, and the map `{name}` must be in `{namespace}`"
        )));
        return;
    }
    let text = draft.text(&kustomization.path).unwrap_or_default().to_owned();
    let op = if kustomization.resources.is_empty() {
        Op::Put { value: Value::Sequence(vec![relative.as_str().into()]) }
    } else {
        Op::Append { value: relative.as_str().into() }
    };
    let edit =
        Edit { document: Document::Index(0), at: vec!["resources".into()], op, shared: Shared::Refuse };
    match slicewright_yaml::edit(&text, &[edit]) {
        Ok(changed) => draft.set(&kustomization.path, changed),
        Err(refusal) => draft.manual(manual(refusal.to_string())),
    }
}

/// A tree without styles and comments, for comparison. Numbers and strings of one spelling count as equal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Plain {
    Text(String),
    List(Vec<Plain>),
    Map(std::collections::BTreeMap<String, Plain>),
}

pub(super) fn plain(node: Node<'_>, depth: usize) -> Plain {
    if depth > MAX_DEPTH {
        return Plain::Text("deeper than is compared".to_owned());
    }
    if node.is_mapping() {
        let entries = node.entries().into_iter();
        return Plain::Map(entries.map(|(key, value)| (key.to_owned(), plain(value, depth + 1))).collect());
    }
    if node.is_sequence() {
        return Plain::List(node.items().map(|item| plain(item, depth + 1)).collect());
    }
    Plain::Text(node.as_str().unwrap_or_default().to_owned())
}
