//! The values of a release: its layers, and what Helm makes of them.

use std::collections::BTreeMap;

use slicewright_yaml::{Node, Step};

use crate::infra::walk;

/// The deepest tree and the most nodes that are read.
const MAX_DEPTH: usize = 48;
const MAX_NODES: usize = 50_000;

/// One place that sets values.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    pub(super) path: String,
    pub(super) document: usize,
    /// The way to the values, or to the list of parameters.
    pub(super) prefix: Vec<Step>,
    pub(super) form: Form,
    /// Whether a `null` written here reaches Helm, which deletes a default key only by it.
    pub(super) nulls: Nulls,
    /// Why the place does not belong to this release alone, or must not be written to.
    pub(super) locked: Option<String>,
    pub(super) root: Entry,
}

/// How a layer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A mapping of the file.
    Tree,
    /// YAML in a block scalar.
    Embedded,
    /// A list of `name` and `value`, as `helm --set` takes them.
    Parameters,
}

/// What becomes of a `null`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nulls {
    Kept,
    /// The layer is part of a Kubernetes object: a later apply drops the key (fluxcd/kustomize-controller#372,
    /// argoproj/argo-cd#19781), so that the chart's default comes back.
    Dropped,
    /// These are the defaults themselves, or take their place: there is nothing below that a `null` could delete.
    Default,
}

/// A value and where it stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    pub(super) line: usize,
    pub(super) tree: Tree,
    /// Reached through an alias or a merge key: the text stands elsewhere.
    pub(super) borrowed: bool,
    /// The parameter that says it.
    pub(super) position: Option<usize>,
}

/// A value.
#[derive(Clone, Debug, Default)]
pub(super) enum Tree {
    #[default]
    Null,
    Scalar(String),
    List(Vec<Entry>),
    Map(BTreeMap<String, Entry>),
}

impl Layer {
    /// Reads the values anew from `text`, the layer's file as it stands.
    pub(super) fn load(&mut self, text: &str) -> Result<(), String> {
        let stream = slicewright_yaml::read(text).map_err(|refusal| refusal.to_string())?;
        let Some(root) = stream.document(self.document) else {
            self.root = Entry::default();
            return Ok(());
        };
        let node = root.at(&self.prefix).ok_or_else(|| "the values are no longer there".to_owned())?;
        let mut left = MAX_NODES;
        self.root = match self.form {
            Form::Tree => owned(node, &Above { lines: 0, depth: 0, borrowed: false }, &mut left),
            Form::Embedded => {
                let inner = slicewright_yaml::read(node.as_str().unwrap_or_default())
                    .map_err(|refusal| refusal.to_string())?;
                inner
                    .document(0)
                    .and_then(|root| {
                        owned(root, &Above { lines: node.line(), depth: 0, borrowed: false }, &mut left)
                    })
                    .map_or_else(|| (left > 0).then(Entry::default), Some)
            }
            Form::Parameters => Some(parameters(node)?),
        }
        .ok_or_else(|| "the values are too large to be read".to_owned())?;
        Ok(())
    }

    /// What stands at a path.
    pub(super) fn get(&self, path: &[String]) -> Option<&Entry> {
        path.iter().try_fold(&self.root, |entry, key| match &entry.tree {
            Tree::Map(entries) => entries.get(key),
            Tree::Null | Tree::Scalar(_) | Tree::List(_) => None,
        })
    }

    /// Whether it sets something at a path.
    pub(super) fn sets(&self, path: &[String]) -> bool {
        self.get(path).is_some_and(|entry| !matches!(entry.tree, Tree::Null))
    }

    /// `path:line`.
    pub(super) fn place(&self, entry: &Entry) -> String {
        format!("{}:{}", self.path, entry.line)
    }
}

impl Entry {
    pub(super) fn text(&self) -> Option<&str> {
        match &self.tree {
            Tree::Scalar(text) => Some(text),
            Tree::Null | Tree::List(_) | Tree::Map(_) => None,
        }
    }

    /// Calls `visit` for every entry below, with its path; `None` in the path stands for a list.
    pub(super) fn every<'e>(&'e self, visit: &mut dyn FnMut(&[Option<&'e str>], &'e Self)) {
        self.below(&mut Vec::new(), visit);
    }

    fn below<'e>(
        &'e self,
        path: &mut Vec<Option<&'e str>>,
        visit: &mut dyn FnMut(&[Option<&'e str>], &'e Self),
    ) {
        visit(path, self);
        match &self.tree {
            Tree::Null | Tree::Scalar(_) => {}
            Tree::List(items) => {
                for item in items {
                    path.push(None);
                    item.below(path, visit);
                    path.pop();
                }
            }
            Tree::Map(entries) => {
                for (key, entry) in entries {
                    path.push(Some(key));
                    entry.below(path, visit);
                    path.pop();
                }
            }
        }
    }
}

/// Where a value is on the way down.
struct Above {
    /// Lines of the file above the text that is read.
    lines: usize,
    depth: usize,
    borrowed: bool,
}

/// `None`: too deep or too large.
fn owned(node: Node<'_>, above: &Above, left: &mut usize) -> Option<Entry> {
    if above.depth > MAX_DEPTH || *left == 0 {
        *left = 0;
        return None;
    }
    *left -= 1;
    let via = node.via();
    let borrowed = above.borrowed || via.alias || via.merge;
    let below = Above { lines: above.lines, depth: above.depth + 1, borrowed };
    let tree = if node.is_mapping() {
        let mut entries = BTreeMap::new();
        for (key, value) in node.entries() {
            entries.insert(key.to_owned(), owned(value, &below, left)?);
        }
        Tree::Map(entries)
    } else if node.is_sequence() {
        let items: Option<Vec<Entry>> = node.items().map(|item| owned(item, &below, left)).collect();
        Tree::List(items?)
    } else if node.is_null() {
        Tree::Null
    } else {
        Tree::Scalar(node.as_str()?.to_owned())
    };
    Some(Entry { line: above.lines + node.line(), tree, borrowed, position: None })
}

/// A list of parameters as the mapping that they stand for.
fn parameters(list: Node<'_>) -> Result<Entry, String> {
    let mut root = Entry { line: list.line(), tree: Tree::Map(BTreeMap::new()), ..Entry::default() };
    for (position, item) in list.items().enumerate() {
        let name = walk::text(item, "name").unwrap_or_default();
        if name.contains(['[', '{', ',']) {
            if name.contains("nvidia") || name.contains("resources") {
                return Err(format!("line {}: a parameter is given in a way that is not read", item.line()));
            }
            continue;
        }
        let value = item.get("value");
        let tree = match value.and_then(|value| value.as_str()) {
            None | Some("null") => Tree::Null,
            Some(text) => Tree::Scalar(text.to_owned()),
        };
        insert(
            &mut root,
            &keys(name),
            Entry { line: item.line(), tree, borrowed: false, position: Some(position) },
        );
    }
    Ok(root)
}

fn insert(at: &mut Entry, path: &[String], entry: Entry) {
    let Some((key, rest)) = path.split_first() else {
        *at = entry;
        return;
    };
    if !matches!(at.tree, Tree::Map(_)) {
        at.tree = Tree::Map(BTreeMap::new());
    }
    if let Tree::Map(entries) = &mut at.tree {
        insert(entries.entry(key.clone()).or_default(), rest, entry);
    }
}

/// `resources.limits.nvidia\.com/gpu` as keys.
fn keys(name: &str) -> Vec<String> {
    let mut keys = vec![String::new()];
    let mut characters = name.chars();
    while let Some(c) = characters.next() {
        match c {
            '.' => keys.push(String::new()),
            c => {
                let c = if c == '\\' { characters.next().unwrap_or(c) } else { c };
                if let Some(key) = keys.last_mut() {
                    key.push(c);
                }
            }
        }
    }
    keys.truncate(MAX_DEPTH);
    keys
}

/// Keys as the name of a parameter.
pub(super) fn parameter(path: &[String]) -> String {
    let escaped: Vec<String> =
        path.iter().map(|key| key.replace('\\', "\\\\").replace('.', "\\.").replace(',', "\\,")).collect();
    escaped.join(".")
}

/// A value after all layers, and the layer that it comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'l> {
    pub(super) layer: usize,
    pub(super) entry: &'l Entry,
}

/// The mapping at a path after all layers, the weakest first, as Helm merges them: mappings key by key, anything else
/// as a whole; `null` takes a key away.
pub(super) fn merged<'l>(layers: &'l [Layer], path: &[String]) -> BTreeMap<&'l str, Found<'l>> {
    let mut found = BTreeMap::new();
    for (layer, values) in layers.iter().enumerate() {
        let mut at = &values.root;
        let mut missing = false;
        for key in path {
            match &at.tree {
                Tree::Map(entries) => match entries.get(key) {
                    Some(entry) => at = entry,
                    None => {
                        missing = true;
                        break;
                    }
                },
                Tree::Null | Tree::Scalar(_) | Tree::List(_) => break,
            }
        }
        if missing {
            continue;
        }
        match &at.tree {
            Tree::Map(entries) => {
                for (key, entry) in entries {
                    if matches!(entry.tree, Tree::Null) {
                        found.remove(key.as_str());
                    } else {
                        found.insert(key.as_str(), Found { layer, entry });
                    }
                }
            }
            // A file without values says nothing; a key without a mapping takes the mapping's place.
            Tree::Null | Tree::Scalar(_) | Tree::List(_) if std::ptr::eq(at, &values.root) => {}
            Tree::Null | Tree::Scalar(_) | Tree::List(_) => found.clear(),
        }
    }
    found
}

/// The value at a path after all layers.
pub(super) fn at<'l>(layers: &'l [Layer], path: &[String]) -> Option<Found<'l>> {
    let (last, above) = path.split_last()?;
    merged(layers, above).get(last.as_str()).copied()
}

/// A path with one more key.
pub(super) fn under(path: &[String], key: &str) -> Vec<String> {
    path.iter().cloned().chain([key.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(text: &str) -> Layer {
        let mut layer = Layer {
            path: "values.yaml".into(),
            document: 0,
            prefix: Vec::new(),
            form: Form::Tree,
            nulls: Nulls::Kept,
            locked: None,
            root: Entry::default(),
        };
        layer.load(text).unwrap();
        layer
    }

    #[test]
    fn layers_merge_as_helm_merges_them() {
        let check = |texts: &[&str], expected: &[(&str, usize)]| {
            let layers: Vec<Layer> = texts.iter().map(|text| layer(text)).collect();
            let got: Vec<(&str, usize)> =
                merged(&layers, &["r".into()]).into_iter().map(|(key, found)| (key, found.layer)).collect();
            assert_eq!(got, expected, "{texts:?}");
        };
        check(&["r: {a: 1, b: 1}", "r: {b: 2}"], &[("a", 0), ("b", 1)]);
        check(&["r: {a: 1}", "r: {a: null, b: 2}"], &[("b", 1)]);
        check(&["r: {a: 1}", "r: null"], &[]);
        check(&["r: {a: 1}", "r: {}"], &[("a", 0)]);
        check(&["r: {a: 1}", ""], &[("a", 0)]);
        check(&["r: {a: 1}", "other: 2"], &[("a", 0)]);
    }

    #[test]
    fn names_of_parameters_are_read_as_they_are_written() {
        let path = keys(r"worker.resources.limits.nvidia\.com/gpu");
        assert_eq!(path, ["worker", "resources", "limits", "nvidia.com/gpu"]);
        assert_eq!(parameter(&path), r"worker.resources.limits.nvidia\.com/gpu");
    }
}
