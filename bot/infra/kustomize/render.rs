//! What Kustomize makes of a root, as far as pods go: the objects it renders, with the patches that each of them met.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use slicewright_yaml::Step;

use super::layer::{Entry, Layer, Source};
use super::target::Candidate;
use super::tree::Tree;
use super::{MAX_DEPTH, merge, parent};
use crate::infra::kinds;
use crate::infra::repository::{Object, Parsed, Repository};

/// The most objects of one root.
const MAX_OBJECTS: usize = 20_000;

/// The repository's files with some of them edited.
#[derive(Clone, Debug)]
pub(in crate::infra) struct Files<'r> {
    pub(super) repository: &'r Repository<'r>,
    pub(super) edited: BTreeMap<String, String>,
    trial: Option<&'r Trial>,
}

/// A rendering, or why there is none.
type Rendered = Result<Rc<Rendering>, String>;

/// What one trial has asked so far.
#[derive(Debug, Default)]
pub(in crate::infra) struct Trial {
    /// Paths, be there a file or not.
    read: RefCell<BTreeSet<String>>,
    /// What the files as they are make of a file, by the root's folder.
    rendered: RefCell<BTreeMap<(String, String), Rendered>>,
}

impl Trial {
    /// Every path whose text was asked for, be there a file or not.
    pub(in crate::infra) fn read(self) -> BTreeSet<String> {
        self.read.into_inner()
    }
}

impl<'r> Files<'r> {
    pub(in crate::infra) fn new(repository: &'r Repository<'r>, edited: BTreeMap<String, String>) -> Self {
        Self { repository, edited, trial: None }
    }

    /// The files as they are, with a note of each whose text is asked for.
    pub(in crate::infra) fn noted(repository: &'r Repository<'r>, trial: &'r Trial) -> Self {
        Self { repository, edited: BTreeMap::new(), trial: Some(trial) }
    }

    fn note(&self, path: &str) {
        if let Some(trial) = self.trial {
            let mut read = trial.read.borrow_mut();
            if !read.contains(path) {
                read.insert(path.to_owned());
            }
        }
    }

    /// As [`render`] for one file of a root.
    pub(super) fn rendered(&self, folder: &str, only: &str) -> Rendered {
        let Some(trial) = self.trial.filter(|_| self.edited.is_empty()) else {
            return render(self, folder, Some(only)).map(Rc::new);
        };
        let key = (folder.to_owned(), only.to_owned());
        if let Some(known) = trial.rendered.borrow().get(&key) {
            return known.clone();
        }
        let made = render(self, folder, Some(only)).map(Rc::new);
        trial.rendered.borrow_mut().insert(key, made.clone());
        made
    }

    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.note(path);
        self.edited.get(path).map(String::as_str).or_else(|| self.repository.all.get(path).copied())
    }

    /// Whether the bot may edit the file.
    pub(super) fn is_own(&self, path: &str) -> bool {
        self.repository.texts.contains_key(path) || self.edited.contains_key(path)
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        self.text(path).is_some() || self.repository.graph().kustomization(path).is_some()
    }

    pub(super) fn with(&self, path: &str, text: String) -> Self {
        let mut edited = self.edited.clone();
        edited.insert(path.to_owned(), text);
        Self { repository: self.repository, edited, trial: self.trial }
    }

    pub(super) fn parsed(&self, path: &str) -> Result<Arc<Parsed>, String> {
        let text = self.text(path).ok_or_else(|| format!("`{path}` is not in the repository"))?;
        if self.edited.contains_key(path) {
            return Ok(Arc::new(Parsed::new(text)?));
        }
        self.repository.parsed(path)
    }

    /// The kustomization of a folder.
    pub(super) fn layer(&self, folder: &str) -> Result<Layer, String> {
        let path = self
            .repository
            .graph()
            .kustomization(folder)
            .ok_or_else(|| format!("`{folder}` holds no kustomization"))?
            .to_owned();
        let parsed = self.parsed(&path).map_err(|why| format!("`{path}`: {why}"))?;
        Layer::new(&path, folder, &parsed, &|path| self.text(path), &|path| self.exists(path))
            .ok_or_else(|| format!("`{path}` holds no mapping"))
    }
}

/// One object of a root.
#[derive(Clone, Debug)]
pub(in crate::infra) struct Made {
    /// The file that holds it, and its place there.
    pub(super) path: String,
    pub(super) document: usize,
    pub(super) prefix: Vec<Step>,
    pub(super) api_version: String,
    pub(super) kind: String,
    /// Names and namespaces, from the file's to the last.
    pub(super) ids: Vec<(String, Option<String>)>,
    pub(super) tree: Tree,
    /// The patches that it met, in order.
    pub(super) touches: Vec<Touch>,
    /// Folders of the kustomizations on the way, innermost first.
    pub(super) layers: Vec<String>,
    /// Why nobody can tell from here what becomes of it.
    pub(super) doubts: Vec<String>,
}

/// A patch that met an object.
#[derive(Clone, Debug)]
pub(super) struct Touch {
    pub(super) entry: Entry,
    pub(super) document: usize,
    /// A list of operations, not a part of the object.
    pub(super) operations: bool,
}

/// What a root makes.
#[derive(Debug, Default)]
pub(super) struct Rendering {
    pub(super) objects: Vec<Made>,
    /// Places of `resources` that are not in the repository.
    pub(super) remote: Vec<String>,
}

/// Renders the pods of a root's folder; of `only` this file if one is given.
pub(super) fn render(files: &Files<'_>, folder: &str, only: Option<&str>) -> Result<Rendering, String> {
    let mut rendering = Rendering::default();
    let mut objects = Vec::new();
    accumulate(files, folder, only, &mut Vec::new(), &mut objects, &mut rendering.remote)?;
    rendering.objects = objects;
    Ok(rendering)
}

fn accumulate(
    files: &Files<'_>,
    folder: &str,
    only: Option<&str>,
    stack: &mut Vec<String>,
    objects: &mut Vec<Made>,
    remote: &mut Vec<String>,
) -> Result<(), String> {
    if stack.len() >= MAX_DEPTH || stack.iter().any(|seen| seen == folder) {
        return Err(format!(
            "the kustomization of `{folder}` is reached through itself or over too many others"
        ));
    }
    stack.push(folder.to_owned());
    let layer = files.layer(folder)?;
    remote.extend(layer.remote.iter().cloned());
    for resource in &layer.resources {
        if files.text(resource).is_none() {
            if only.is_some_and(|only| !files.repository.graph().above(only).contains(resource.as_str())) {
                continue;
            }
            let mut inner = Vec::new();
            accumulate(files, resource, only, stack, &mut inner, remote)?;
            objects.append(&mut inner);
        } else if only.is_none_or(|only| only == resource) {
            load(files, resource, objects);
        }
        if objects.len() > MAX_OBJECTS {
            return Err(format!("`{folder}` holds more than {MAX_OBJECTS} objects with pods"));
        }
    }
    for component in &layer.components {
        accumulate(files, component, only, stack, objects, remote)?;
    }
    for made in objects.iter_mut() {
        made.layers.push(folder.to_owned());
        made.doubts.extend(layer.doubts.iter().cloned());
    }
    for entry in &layer.patches {
        apply(files, entry, objects);
    }
    for made in objects.iter_mut() {
        transform(&layer, made);
    }
    for entry in &layer.late_patches {
        apply(files, entry, objects);
    }
    stack.pop();
    Ok(())
}

/// Adds the objects of a file that carry pods. What does not parse holds none: Kustomize would not build it.
fn load(files: &Files<'_>, path: &str, objects: &mut Vec<Made>) {
    let Some(text) = files.text(path) else { return };
    // Every kind that carries pods has one of these in it.
    if !["containers", "predictor"].iter().any(|word| text.contains(word)) {
        return;
    }
    let Ok(parsed) = files.parsed(path) else { return };
    for object in &parsed.objects {
        if kinds::carrier(&object.api_version, &object.kind).is_none() {
            continue;
        }
        let Some(at) = parsed.at(object) else { continue };
        let (tree, doubts) = match Tree::new(at.node) {
            Ok(tree) => (tree, Vec::new()),
            Err(why) => (Tree::Null, vec![format!("`{path}:{}`: {why}", object.line)]),
        };
        objects.push(Made {
            path: path.to_owned(),
            document: object.document,
            prefix: object.prefix.clone(),
            api_version: object.api_version.clone(),
            kind: object.kind.clone(),
            ids: vec![(object.name.clone(), object.namespace.clone())],
            tree,
            touches: Vec::new(),
            layers: Vec::new(),
            doubts,
        });
    }
}

fn transform(layer: &Layer, made: &mut Made) {
    let (name, namespace) = made.now();
    let namespace = layer.namespace.clone().or(namespace.map(ToOwned::to_owned));
    let id = (format!("{}{name}{}", layer.prefix, layer.suffix), namespace);
    if made.ids.last() != Some(&id) {
        made.ids.push(id);
    }
    for (key, pairs) in [("labels", &layer.labels), ("annotations", &layer.annotations)] {
        if let Tree::Map(root) = &mut made.tree
            && !pairs.is_empty()
            && let Some(metadata) = root.get_mut("metadata")
            && let Some(into) = metadata.mapping_mut(key)
        {
            into.extend(pairs.iter().map(|(key, value)| (key.clone(), Tree::text(value))));
        }
    }
    for (name, count) in &layer.replicas {
        let scaled = matches!(
            made.kind.as_str(),
            "Deployment" | "StatefulSet" | "ReplicaSet" | "ReplicationController"
        );
        if scaled
            && made.ids.iter().any(|(known, _)| known == name)
            && let Some(spec) = made.tree.mapping_mut("spec")
        {
            spec.insert("replicas".to_owned(), Tree::Scalar { text: count.clone(), string: false });
        }
    }
    for replacement in &layer.replacements {
        let fits = |wanted: &Option<String>, known: &dyn Fn(&str) -> bool| {
            // Names may be patterns: what is no plain name may mean any.
            wanted
                .as_deref()
                .is_none_or(|text| known(text) || text.contains(|c: char| !c.is_alphanumeric() && c != '-'))
        };
        if fits(&replacement.kind, &|kind| kind == made.kind)
            && fits(&replacement.name, &|name| made.ids.iter().any(|(known, _)| known == name))
        {
            let place = &replacement.place;
            made.doubts
                .push(format!("the replacement at `{place}` may reach its resources or node selector"));
        }
    }
}

fn apply(files: &Files<'_>, entry: &Entry, objects: &mut Vec<Made>) {
    let parsed = match &entry.source {
        Source::Inline { text, .. } => Parsed::new(text).map(Arc::new),
        Source::File(path) => files.parsed(path),
    };
    let text = match &entry.source {
        Source::Inline { text, .. } => text,
        Source::File(path) => files.text(path).unwrap_or_default(),
    };
    let is_json = |text: &str| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    let parsed = parsed.and_then(|parsed| {
        if text.starts_with('[') && !is_json(text) {
            return Err("it starts as JSON does and is not JSON".to_owned());
        }
        Ok(parsed)
    });
    let parsed = match parsed {
        Ok(parsed) => parsed,
        Err(why) => {
            for made in objects.iter_mut().filter(|made| entry.may_select(made)) {
                made.doubts.push(format!("the patch at `{}`: {why}", entry.place));
            }
            return;
        }
    };
    for (document, root) in parsed.documents().enumerate() {
        if root.is_null() {
            continue;
        }
        let patch = Tree::new(root);
        let mut gone = Vec::new();
        for (position, made) in objects.iter_mut().enumerate() {
            let outcome = match &patch {
                Ok(patch) => met(entry, patch, made),
                Err(why) => Err(why.clone()),
            };
            match outcome {
                Ok(Met::No) => {}
                Ok(Met::Gone) => gone.push(position),
                Ok(Met::Yes) => {
                    made.touches.push(Touch {
                        entry: entry.clone(),
                        document,
                        operations: root.is_sequence(),
                    });
                }
                Err(why) => made.doubts.push(format!("the patch at `{}`: {why}", entry.place)),
            }
        }
        for position in gone.into_iter().rev() {
            objects.remove(position);
        }
    }
}

enum Met {
    No,
    Yes,
    Gone,
}

/// Applies one document of a patch to an object if it is for it.
fn met(entry: &Entry, patch: &Tree, made: &mut Made) -> Result<Met, String> {
    match patch {
        Tree::List(operations) => {
            let target = entry.target.as_ref().ok_or("a list of operations has no target")?;
            if !target.selects(&made.candidate())? {
                return Ok(Met::No);
            }
            for operation in operations {
                merge::operation(&mut made.tree, operation)?;
            }
        }
        Tree::Map(_) => {
            match &entry.target {
                Some(target) if !target.selects(&made.candidate())? => return Ok(Met::No),
                None if !is_for(patch, made) => return Ok(Met::No),
                Some(_) | None => {}
            }
            if entry.renames {
                return Err("it may change names or kinds".to_owned());
            }
            let mut patch = patch.clone();
            if let Tree::Map(root) = &mut patch {
                root.retain(|key, _| key != "apiVersion" && key != "kind");
                if let Some(Tree::Map(metadata)) = root.get_mut("metadata") {
                    metadata.retain(|key, _| key != "name" && key != "namespace");
                }
            }
            if !merge::strategic(&mut made.tree, &patch, merge::merges_lists(&made.api_version)?)? {
                return Ok(Met::Gone);
            }
        }
        Tree::Null | Tree::Scalar { .. } => return Err("it is neither a mapping nor a list".to_owned()),
    }
    Ok(Met::Yes)
}

/// Whether a patch without a target names this object.
fn is_for(patch: &Tree, made: &Made) -> bool {
    let text = |dotted: &str| patch.down(dotted).and_then(Tree::as_str);
    let namespace = text("metadata.namespace").unwrap_or("default");
    text("kind") == Some(&made.kind)
        && text("apiVersion") == Some(&made.api_version)
        && made.ids.iter().any(|(name, own)| {
            text("metadata.name") == Some(name) && own.as_deref().unwrap_or("default") == namespace
        })
}

impl Entry {
    /// Whether a patch that cannot be read may be for an object.
    fn may_select(&self, made: &Made) -> bool {
        self.target.as_ref().is_none_or(|target| target.selects(&made.candidate()).unwrap_or(true))
    }
}

impl Made {
    /// The last name and namespace.
    pub(super) fn now(&self) -> (&str, Option<&str>) {
        self.ids.last().map_or(("", None), |(name, namespace)| (name, namespace.as_deref()))
    }

    /// Whether it is made from this object of this file.
    pub(super) fn is_from(&self, path: &str, object: &Object) -> bool {
        self.path == path && self.document == object.document && self.prefix == object.prefix
    }

    fn candidate(&self) -> Candidate<'_> {
        let first = self.ids.first().map_or(("", None), |(name, namespace)| (name, namespace.as_deref()));
        Candidate {
            api_version: &self.api_version,
            kind: &self.kind,
            ids: [first, self.now()],
            tree: &self.tree,
        }
    }

    /// The rendered object as if it had been read from a file.
    pub(super) fn parsed(&self) -> Parsed {
        Parsed::of(&self.tree.value())
    }

    /// The folder of its file.
    pub(super) fn folder(&self) -> &str {
        parent(&self.path)
    }
}
