//! One pass over a cluster's files: which are read, what objects they hold, what was left out and why.
//!
//! Only files whose text names something of interest are parsed; the others are parsed when somebody asks for them.

mod paths;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use slicewright_yaml::{MAX_BYTES, Node, RefusalKind, Step, Stream, Value};

use super::deployed::{Deployed, Given, deployed, holds};
use super::helm::Helm;
use super::index::{Index, Known, Search, in_parallel};
use super::kustomize::{Facts, Graph, Overlays, Variant};
use super::walk::{self, At};
use super::{Scope, Snapshot};
use paths::is_read;
pub(super) use paths::{is_kustomization, is_plain_path, is_protected, is_terraform, is_yaml};

/// Texts that make a file worth parsing at once.
const SIGNS: &[&str] =
    &["nvidia.com/", "nvidia.com~1", "slicewright/ignore", "gpu-operator", "mig-configs", "timeSlicing"];

/// How a file starts whose content Git LFS keeps.
const LFS_POINTER: &str = "version https://git-lfs.github.com/spec/";

/// The files of one cluster.
#[derive(Debug)]
pub(super) struct Repository<'a> {
    pub(super) scope: &'a Scope,
    /// All files, also those of other clusters.
    pub(super) snapshot: &'a Snapshot,
    /// Texts of the scope, YAML or not, by path.
    pub(super) texts: BTreeMap<&'a str, &'a str>,
    /// Texts of the whole repository, to see who else reads a file; never edited.
    pub(super) all: BTreeMap<&'a str, &'a str>,
    /// Parsed files by path.
    pub(super) files: BTreeMap<&'a str, File<'a>>,
    /// What was not read, as sentences with the place.
    pub(super) notes: BTreeSet<String>,
    /// Paths that exist and were not read; nothing is written over them.
    pub(super) unread: BTreeSet<&'a str>,
    /// Objects in these files that are other clusters', by path and line.
    foreign: BTreeSet<(String, usize)>,
    /// What whoever deploys a folder gives to its objects, by folder.
    given: BTreeMap<String, BTreeSet<Given>>,
    overlays: OnceLock<Overlays>,
    graph: OnceLock<Arc<Graph>>,
    pub(super) index: &'a Index,
    /// What is known of each of `all`.
    known: HashMap<&'a str, Arc<Known>>,
    /// The scope's YAML files in their order.
    yaml: Vec<(&'a str, &'a str, Arc<Known>)>,
    helm: OnceLock<Helm>,
}

/// One parsed file.
#[derive(Debug)]
pub(super) struct File<'a> {
    pub(super) path: &'a str,
    pub(super) text: &'a str,
    /// `Err` holds why it does not parse.
    pub(super) parsed: Result<Arc<Parsed>, String>,
}

/// The documents of a file and the objects in them.
#[derive(Debug)]
pub(super) struct Parsed {
    stream: Stream,
    pub(super) objects: Vec<Object>,
}

/// One Kubernetes object: a document, or an item of a `List`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) document: usize,
    /// The way to the object from the document's root; empty but in a `List`.
    pub(super) prefix: Vec<Step>,
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) namespace: Option<String>,
    /// Where the object starts.
    pub(super) line: usize,
}

impl Parsed {
    /// Parses a text; the reason is a sentence with the place.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let stream = slicewright_yaml::read(text).map_err(|refusal| match refusal.kind {
            RefusalKind::Template => "it is a template".to_owned(),
            _ => format!("it does not parse: {refusal}"),
        })?;
        Ok(Self::with(stream))
    }

    fn with(stream: Stream) -> Self {
        let mut objects = Vec::new();
        for (document, root) in stream.documents().enumerate() {
            collect(document, root, Vec::new(), &mut objects);
        }
        Self { stream, objects }
    }

    /// A value as one document, without a text.
    pub(super) fn of(value: &Value) -> Self {
        Self::with(slicewright_yaml::of(value))
    }

    pub(super) fn n_nodes(&self) -> usize {
        self.stream.n_nodes()
    }

    /// The root of every document.
    pub(super) fn documents(&self) -> impl Iterator<Item = Node<'_>> {
        self.stream.documents()
    }

    /// The object's node with its path.
    pub(super) fn at(&self, object: &Object) -> Option<At<'_>> {
        let node = self.stream.document(object.document)?.at(&object.prefix)?;
        Some(At::new(node, object.prefix.clone()))
    }
}

fn collect(document: usize, node: Node<'_>, prefix: Vec<Step>, objects: &mut Vec<Object>) {
    let kind = node.get("kind").and_then(|kind| kind.as_str()).unwrap_or_default();
    let api_version = node.get("apiVersion").and_then(|version| version.as_str()).unwrap_or_default();
    if kind.ends_with("List")
        && prefix.is_empty()
        && node.get("items").is_some_and(|items| items.is_sequence())
    {
        for (position, item) in node.get("items").into_iter().flat_map(|items| items.items()).enumerate() {
            collect(document, item, vec!["items".into(), position.into()], objects);
        }
        return;
    }
    if kind.is_empty() {
        return;
    }
    objects.push(Object {
        document,
        prefix,
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: walk::text(node, "metadata.name").unwrap_or_default().to_owned(),
        namespace: walk::text(node, "metadata.namespace").map(ToOwned::to_owned),
        line: node.line(),
    });
}

impl<'a> Repository<'a> {
    /// Reads the scope's part of a snapshot.
    pub(super) fn new(snapshot: &'a Snapshot, scope: &'a Scope, index: &'a Index) -> Self {
        let found = index.texts(snapshot);
        let all: BTreeMap<_, _> = found.iter().map(|(path, text, _)| (*path, *text)).collect();
        let Deployed { paths, mut notes, foreign, given } = deployed(&all, &scope.deployed_by);
        let in_scope = |path: &str| {
            let everything = scope.folders.is_empty() && scope.deployed_by.is_empty();
            let new = !scope.new_files.is_empty() && path.starts_with(scope.new_files.as_str());
            let listed = || scope.folders.iter().any(|folder| path.starts_with(folder.as_str()));
            (everything || new || listed() || holds(&paths, path)) && !is_protected(path)
        };
        for (path, reason) in &snapshot.skipped {
            if in_scope(path) && is_read(path) {
                notes.insert(format!("`{path}` was not read: {reason}"));
            }
        }
        let (mut texts, mut unread): (Vec<(&str, &str)>, BTreeSet<&str>) = Default::default();
        let mut yaml = Vec::new();
        let mut read = found.iter().peekable();
        for (path, bytes) in &snapshot.files {
            let found = read.next_if(|(other, ..)| *other == path);
            if !in_scope(path) {
                continue;
            }
            let why = match found {
                Some((path, text, known)) if !text.starts_with(LFS_POINTER) => {
                    texts.push((*path, *text));
                    if is_yaml(path) {
                        yaml.push((*path, *text, Arc::clone(known)));
                    }
                    continue;
                }
                Some(_) => "it is a Git LFS pointer".to_owned(),
                None if !is_plain_path(path) => "its path is not a plain relative one".to_owned(),
                None if bytes.len() > MAX_BYTES => {
                    format!("{} bytes are more than the {MAX_BYTES} that are read", bytes.len())
                }
                None => "it is not UTF-8 text".to_owned(),
            };
            unread.insert(path.as_str());
            if is_read(path) || !is_plain_path(path) {
                notes.insert(format!("`{}` was not read: {why}", path.escape_debug()));
            }
        }
        let texts: BTreeMap<&str, &str> = texts.into_iter().collect();
        unread.extend(snapshot.skipped.keys().map(String::as_str).filter(|path| in_scope(path)));
        let (signs, node) = (Search::new(SIGNS), Search::new(&["Node"]));
        let is_wanted = |known: &Known, text: &str| {
            known.holds(&signs) || (known.holds(&node) && holds_word(text, "Node"))
        };
        let wanted =
            yaml.iter().filter(|(path, text, known)| is_wanted(known, text) || is_kustomization(path));
        let files = parse_all(wanted.collect());
        let known = found.into_iter().map(|(path, _, known)| (path, known)).collect();
        for file in files.values() {
            if let Err(reason) = &file.parsed
                && file.text.contains("nvidia.com/")
                && super::helm_template::helm_chart(&texts, file.path).is_none()
            {
                notes.insert(format!("`{}` names a GPU and was not read: {reason}", file.path));
            }
        }
        Self {
            scope,
            snapshot,
            texts,
            all,
            files,
            notes,
            unread,
            foreign,
            given,
            overlays: OnceLock::new(),
            graph: OnceLock::new(),
            index,
            known,
            yaml,
            helm: OnceLock::new(),
        }
    }

    /// Every object of every parsed file that is not another cluster's, in the order of paths.
    pub(super) fn objects(&self) -> impl Iterator<Item = (&File<'a>, &Parsed, &Object)> {
        self.files
            .values()
            .filter_map(|file| Some((file, file.parsed.as_deref().ok()?)))
            .flat_map(|(file, parsed)| parsed.objects.iter().map(move |object| (file, parsed, object)))
            .filter(|(file, _, object)| !self.is_foreign(file.path, object))
    }

    /// Whether an object is another cluster's, although it stands in this one's files.
    pub(super) fn is_foreign(&self, path: &str, object: &Object) -> bool {
        !self.foreign.is_empty() && self.foreign.contains(&(path.to_owned(), object.line))
    }

    /// Parses the YAML files that hold one of `words` and were not parsed at first.
    pub(super) fn further(&self, words: &[&str]) -> BTreeMap<&'a str, File<'a>> {
        let search = Search::new(words);
        let wanted = self
            .yaml
            .iter()
            .filter(|(path, _, known)| known.holds(&search) && !self.files.contains_key(path));
        parse_all(wanted.collect())
    }

    /// Whether a file of the whole repository holds one of the words.
    pub(super) fn holds(&self, path: &str, search: &Search<'_>) -> bool {
        self.known.get(path).is_some_and(|known| known.holds(search))
    }

    /// Adds the files that hold one of `words`, so that [`Repository::objects`] gives their objects too.
    pub(super) fn load(&mut self, words: &[&str]) {
        let further = self.further(words);
        self.files.extend(further);
    }

    /// How Kustomize treats the files.
    pub(super) fn overlays(&self) -> &Overlays {
        self.overlays.get_or_init(|| Overlays::new(self))
    }

    /// The releases of Helm charts, and the workloads that their values speak about.
    pub(super) fn helm(&self) -> &Helm {
        self.helm.get_or_init(|| Helm::new(self))
    }

    /// What an object becomes by Kustomize and by who deploys it, once for every way to a root; never empty.
    pub(super) fn variants(&self, path: &str, object: &Object) -> Vec<Variant> {
        self.as_deployed(path, self.overlays().variants(path, object))
    }

    /// These variants of an object with the names and namespaces that whoever deploys them gives: one each for everybody
    /// who deploys the folder.
    pub(super) fn as_deployed(&self, path: &str, variants: Vec<Variant>) -> Vec<Variant> {
        if self.given.is_empty() {
            return variants;
        }
        let mut found: Vec<Variant> = Vec::new();
        for variant in variants {
            let root = variant.root.as_deref().unwrap_or(path);
            let folders = root.match_indices('/').map(|(at, _)| &root[..=at]).chain(["/"]);
            let longest = folders
                .filter_map(|folder| Some((folder.len(), self.given.get(folder)?)))
                .max_by_key(|(n, _)| *n);
            let Some((_, given)) = longest else {
                found.push(variant);
                continue;
            };
            for given in given {
                let mut variant = variant.clone();
                variant.name = format!("{}{}{}", given.prefix, variant.name, given.suffix);
                if given.all || variant.namespace.is_none() {
                    variant.namespace = given.namespace.clone().or(variant.namespace.take());
                }
                if !found.contains(&variant) {
                    found.push(variant);
                }
            }
        }
        found
    }

    /// Texts outside of the scope, by path; never edited.
    pub(super) fn elsewhere(&self) -> impl Iterator<Item = (&&'a str, &&'a str)> {
        self.all.iter().filter(|(path, _)| !self.texts.contains_key(**path) && !is_protected(path))
    }

    /// Which kustomizations of the whole repository read which files.
    pub(super) fn graph(&self) -> &Arc<Graph> {
        self.graph.get_or_init(|| {
            let known = |path: &&'a str| Some((*path, self.known.get(path)?));
            let files: Vec<_> = self.all.keys().filter_map(known).collect();
            self.index.graph(&files, || Graph::new(&files, |path| self.known.contains_key(path)))
        })
    }

    /// What is known of a file of the whole repository.
    pub(super) fn known(&self, path: &str) -> Option<&Arc<Known>> {
        self.known.get(path)
    }

    /// What a kustomization of the whole repository says by itself. `None`: it is none that can be read.
    pub(super) fn facts(&self, path: &str) -> Option<Arc<Facts>> {
        self.known.get(path)?.facts().cloned()
    }

    /// A file of the whole repository, parsed once.
    pub(super) fn parsed(&self, path: &str) -> Result<Arc<Parsed>, String> {
        match self.known.get(path) {
            Some(known) => known.parsed().clone(),
            None => Err(format!("`{path}` is not in the repository")),
        }
    }

    /// The namespace that an object ends up in, if all ways to it agree.
    pub(super) fn namespace(&self, path: &str, object: &Object) -> Option<String> {
        let mut variants = self.variants(path, object).into_iter();
        let first = variants.next()?.namespace;
        variants.all(|variant| variant.namespace == first).then_some(first).flatten()
    }
}

/// `Node` as a word of its own, so that `NodePort` does not count.
fn holds_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        let letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric());
        !letter(before) && !letter(after)
    })
}

fn parse_all<'a>(wanted: Vec<&(&'a str, &'a str, Arc<Known>)>) -> BTreeMap<&'a str, File<'a>> {
    let parsed = in_parallel(&wanted, |(_, _, known)| known.parsed().clone());
    let files = wanted.into_iter().zip(parsed);
    files.map(|((path, text, _), parsed)| (*path, File { path, text, parsed })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_is_looked_for_as_a_word() {
        assert!(holds_word("kind: Node\n", "Node"));
        assert!(holds_word("\"kind\":\"Node\"", "Node"));
        assert!(!holds_word("type: NodePort, fooNode", "Node"));
    }
}
