//! A patch as text: where it stands, and the edits that make it say something else about a pod.

use slicewright_yaml::{Document, Edit, Node, Op, RefusalKind, Shared, Step, Value};

use super::layer::Source;
use super::merge;
use super::render::{Files, Touch};
use super::tree::{Delta, Tree};
use crate::infra::repository::Parsed;
use crate::infra::text::yaml;
use crate::infra::walk::At;

/// One document of one patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Carrier {
    pub(super) source: Source,
    /// Position in the patch's own text.
    pub(super) document: usize,
    pub(super) operations: bool,
}

/// What the writing of a part of an object must know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aim<'a> {
    /// The object as it should become.
    pub(super) wanted: &'a Tree,
    /// Its lists of containers are merged by name.
    pub(super) lists: bool,
}

impl Carrier {
    pub(super) fn of(touch: &Touch) -> Self {
        Self { source: touch.entry.source.clone(), document: touch.document, operations: touch.operations }
    }

    /// The file that holds the text.
    pub(super) fn path(&self) -> &str {
        match &self.source {
            Source::Inline { path, .. } | Source::File(path) => path,
        }
    }

    /// The patch's own text as it stands.
    fn text(&self, files: &Files<'_>) -> Result<String, String> {
        let path = self.path();
        match &self.source {
            Source::File(_) => files
                .text(path)
                .map(ToOwned::to_owned)
                .ok_or_else(|| format!("`{path}` is not in the repository")),
            Source::Inline { document, at, .. } => {
                let parsed = files.parsed(path)?;
                let node = parsed.documents().nth(*document).and_then(|root| root.at(at));
                let text = node.and_then(|node| node.as_str().map(ToOwned::to_owned));
                text.ok_or_else(|| format!("the patch in `{path}` is gone"))
            }
        }
    }

    /// Edits the patch's text where it stands.
    fn edit(&self, files: &Files<'_>, edits: &[(Vec<Step>, Op)]) -> Result<String, String> {
        let edits: Vec<Edit> = edits
            .iter()
            .map(|(at, op)| Edit {
                document: Document::Index(self.document),
                at: at.clone(),
                op: op.clone(),
                // What aliases change along with it is in this patch alone, and the rendering shows it.
                shared: Shared::Edit,
            })
            .collect();
        let outer = files.text(self.path()).unwrap_or_default();
        match &self.source {
            Source::File(_) => slicewright_yaml::edit(outer, &edits).map_err(|refusal| refusal.to_string()),
            Source::Inline { document, at, .. } => {
                let document = Document::Index(*document);
                match slicewright_yaml::edit_embedded(outer, &document, at, &edits) {
                    Ok(changed) => Ok(changed),
                    Err(refusal) if refusal.kind == RefusalKind::NotAMapping => {
                        let inner = slicewright_yaml::edit(&self.text(files)?, &edits)
                            .map_err(|refusal| refusal.to_string())?;
                        self.replaced(files, inner)
                    }
                    Err(refusal) => Err(refusal.to_string()),
                }
            }
        }
    }

    /// The file with another text for the patch: a string is written anew, in the quotes that it has.
    fn replaced(&self, files: &Files<'_>, text: String) -> Result<String, String> {
        let Source::Inline { path, document, at, .. } = &self.source else { return Ok(text) };
        let document = Document::Index(*document);
        let op = Op::Set { value: Value::String(text) };
        let edit = Edit { document, at: at.clone(), op, shared: Shared::Refuse };
        slicewright_yaml::edit(files.text(path).unwrap_or_default(), &[edit])
            .map_err(|refusal| refusal.to_string())
    }

    /// Lets the patch ask for `to` wherever it asks for `from`. `None`: it does not.
    pub(super) fn renamed(&self, files: &Files<'_>, from: &str, to: &str) -> Result<Option<String>, String> {
        let parsed = Parsed::new(&self.text(files)?)?;
        let Some(root) = parsed.documents().nth(self.document) else { return Ok(None) };
        let root = At::new(root, Vec::new());
        let mut edits = Vec::new();
        if self.operations {
            for operation in root.items() {
                rename_operation(&operation, from, to, &mut edits);
            }
        } else {
            renames(&root, &mut Vec::new(), from, to, &mut edits);
        }
        if edits.is_empty() { Ok(None) } else { self.edit(files, &edits).map(Some) }
    }

    /// Writes differences of the rendered object into the patch.
    pub(super) fn with(&self, files: &Files<'_>, deltas: &[Delta], aim: Aim<'_>) -> Result<String, String> {
        let mut files = files.clone();
        let path = self.path().to_owned();
        if self.operations && self.text(&files)?.starts_with('[') {
            let text = in_json(&self.text(&files)?, deltas)?;
            return self.replaced(&files, text);
        }
        if self.operations {
            for delta in deltas {
                let op = Op::Append { value: operation(delta) };
                let text = self.edit(&files, &[(Vec::new(), op)])?;
                files = files.with(&path, text);
            }
        } else {
            for (at, value) in leaves(deltas) {
                let text = self.text(&files)?;
                let edits = merged(&text, self.document, &at, value, aim)?;
                if !edits.is_empty() {
                    files = files.with(&path, self.edit(&files, &edits)?);
                }
            }
        }
        Ok(files.text(&path).unwrap_or_default().to_owned())
    }
}

/// Whether a way leads to this resource of a container.
fn is_request(way: &[String], resource: &str) -> bool {
    match way {
        [.., resources, side, key] => {
            resources == "resources" && (side == "limits" || side == "requests") && key == resource
        }
        _ => false,
    }
}

fn renames(at: &At<'_>, way: &mut Vec<String>, from: &str, to: &str, edits: &mut Vec<(Vec<Step>, Op)>) {
    if way.len() > 60 {
        return;
    }
    for (key, value) in at.entries() {
        way.push(key.to_owned());
        // What is reached through an alias or a merge key follows the text that it stands for.
        let borrowed = value.node.via().alias || value.node.via().merge;
        if is_request(way, from) && !value.node.is_null() && !borrowed {
            edits.push((value.path.clone(), Op::RenameKey { to: to.to_owned() }));
        }
        renames(&value, way, from, to, edits);
        way.pop();
    }
    for (position, item) in at.items().iter().enumerate() {
        way.push(position.to_string());
        renames(item, way, from, to, edits);
        way.pop();
    }
}

fn rename_operation(operation: &At<'_>, from: &str, to: &str, edits: &mut Vec<(Vec<Step>, Op)>) {
    let text = |key: &str| operation.get(key).and_then(|at| at.node.as_str().map(ToOwned::to_owned));
    let (Some(op), Some(path)) = (text("op"), text("path")) else { return };
    let Some(mut way) = merge::pointer(&path) else { return };
    if op != "add" && op != "replace" {
        return;
    }
    if is_request(&way, from) {
        let before = path.rfind('/').map_or("", |at| &path[..at]);
        let mut at = operation.path.clone();
        at.push("path".into());
        edits.push((at, Op::Set { value: Value::String(format!("{before}/{}", escaped(to))) }));
        if op == "replace" {
            let mut at = operation.path.clone();
            at.push("op".into());
            edits.push((at, Op::Set { value: Value::from("add") }));
        }
    } else if let Some(value) = operation.get("value") {
        renames(&value, &mut way, from, to, edits);
    }
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn pointer(path: &[Step]) -> String {
    path.iter()
        .map(|step| match step {
            Step::Key(key) => format!("/{}", escaped(key)),
            Step::Position(position) => format!("/{position}"),
        })
        .collect()
}

/// A difference as an operation of a JSON patch.
fn operation(delta: &Delta) -> Value {
    let text = |key: &str, value: &str| (key.to_owned(), Value::from(value));
    match delta {
        Delta::Set(path, value) => Value::Mapping(vec![
            text("op", "add"),
            text("path", &pointer(path)),
            ("value".to_owned(), value.value()),
        ]),
        Delta::Unset(path) => Value::Mapping(vec![text("op", "remove"), text("path", &pointer(path))]),
    }
}

/// A list of operations in JSON with some more at its end, on lines of their own where the others have them. Kustomize
/// takes a list that starts with a bracket for JSON, not for YAML.
fn in_json(text: &str, deltas: &[Delta]) -> Result<String, String> {
    let end = text.rfind(']').ok_or("the list of operations has no end")?;
    let (before, after) = text.split_at(end);
    let items = before.trim_end();
    let between = before.get(items.len()..).unwrap_or_default();
    let separator = if between.contains('\n') {
        let line = items.rsplit('\n').next().unwrap_or_default();
        let indent = line.get(..line.len() - line.trim_start().len()).unwrap_or_default();
        format!("{}{indent}", if between.contains('\r') { "\r\n" } else { "\n" })
    } else {
        " ".to_owned()
    };
    let mut out = items.to_owned();
    for delta in deltas {
        if !out.ends_with('[') {
            out.push(',');
        }
        let quoted = |path: &[Step]| Tree::text(&pointer(path)).json();
        out.push_str(&separator);
        out.push_str(&match delta {
            Delta::Set(path, value) => {
                format!("{{\"op\": \"add\", \"path\": {}, \"value\": {}}}", quoted(path), value.json())
            }
            Delta::Unset(path) => format!("{{\"op\": \"remove\", \"path\": {}}}", quoted(path)),
        });
    }
    Ok(format!("{out}{between}{after}"))
}

/// The differences as the text of a new JSON patch.
pub(super) fn operations(deltas: &[Delta]) -> String {
    let mut text = String::new();
    for delta in deltas {
        match delta {
            Delta::Unset(path) => text.push_str(&format!("- op: remove\n  path: {}\n", pointer(path))),
            Delta::Set(path, value) => {
                text.push_str(&format!("- op: add\n  path: {}\n", pointer(path)));
                match value {
                    Tree::Map(entries) => {
                        text.push_str("  value:\n");
                        for (key, value) in entries {
                            text.push_str(&format!("    {}: {}\n", yaml(key), scalar(value)));
                        }
                    }
                    value => text.push_str(&format!("  value: {}\n", scalar(value))),
                }
            }
        }
    }
    text
}

fn scalar(value: &Tree) -> String {
    match value {
        Tree::Scalar { text, string: true } => yaml(text),
        Tree::Scalar { text, string: false } => text.clone(),
        Tree::Null | Tree::List(_) | Tree::Map(_) => value.json().to_string(),
    }
}

/// Single keys to set, or to take out (`None`), for a merge.
fn leaves(deltas: &[Delta]) -> Vec<(Vec<Step>, Option<Tree>)> {
    let mut found = Vec::new();
    for delta in deltas {
        match delta {
            Delta::Unset(path) => found.push((path.clone(), None)),
            Delta::Set(path, value) => flatten(path, value, &mut found),
        }
    }
    found
}

fn flatten(path: &[Step], value: &Tree, found: &mut Vec<(Vec<Step>, Option<Tree>)>) {
    match value {
        Tree::Map(entries) if !entries.is_empty() => {
            for (key, value) in entries {
                flatten(&[path, &[key.as_str().into()]].concat(), value, found);
            }
        }
        value => found.push((path.to_vec(), Some(value.clone()))),
    }
}

/// The edits that let a part of an object say one thing more: containers are found by name, a key goes by null. None: it
/// says so already.
///
/// Kustomize puts the containers that a patch names first, so that those before a new one are named too: else they would
/// change places, and patches that count them would hit another one.
fn merged(
    text: &str,
    document: usize,
    path: &[Step],
    value: Option<Tree>,
    aim: Aim<'_>,
) -> Result<Vec<(Vec<Step>, Op)>, String> {
    let parsed = Parsed::new(text)?;
    let mut node = parsed.documents().nth(document);
    let mut tree = Some(aim.wanted);
    let mut at: Vec<Step> = Vec::new();
    let mut whole = false;
    for (position, step) in path.iter().enumerate() {
        let above = tree;
        tree = tree.and_then(|tree| tree.step(step));
        let index = match step {
            Step::Key(key) => {
                at.push(key.as_str().into());
                node = node.and_then(|node| node.get(key));
                continue;
            }
            Step::Position(index) => *index,
        };
        let items = node.map(|node| node.items().collect::<Vec<_>>()).unwrap_or_default();
        if !aim.lists {
            if node.is_none_or(|node| !node.is_sequence()) {
                return Err(
                    "Kustomize replaces its lists as a whole, so that a part of one cannot be merged"
                        .to_owned(),
                );
            }
            whole = true;
            at.push(index.into());
            node = items.get(index).copied();
            continue;
        }
        let named = |item: &Node<'_>| item.get("name").and_then(|name| name.as_str().map(ToOwned::to_owned));
        let known: Vec<Option<String>> = items.iter().map(named).collect();
        let name = name_of(tree)?;
        if let Some(found) = known.iter().position(|known| known.as_deref() == Some(name)) {
            at.push(found.into());
            node = items.get(found).copied();
            continue;
        }
        let mut entries = Vec::new();
        for before in 0..index {
            let name = name_of(above.and_then(|above| above.step(&before.into())))?;
            if !known.iter().any(|known| known.as_deref() == Some(name)) {
                entries.push(Value::Mapping(vec![("name".to_owned(), Value::from(name))]));
            }
        }
        let mut entry = vec![("name".to_owned(), Value::from(name))];
        if let Value::Mapping(rest) = nested(path.get(position + 1..).unwrap_or_default(), value.as_ref())? {
            entry.extend(rest);
        }
        entries.push(Value::Mapping(entry));
        return Ok(if node.is_some_and(|node| node.is_sequence()) {
            entries.into_iter().map(|value| (at.clone(), Op::Append { value })).collect()
        } else {
            vec![(at, Op::Put { value: Value::Sequence(entries) })]
        });
    }
    let says = node.map(Tree::new).transpose()?;
    Ok(match value {
        Some(value) if says.as_ref() == Some(&value) => Vec::new(),
        None if !whole && says == Some(Tree::Null) => Vec::new(),
        Some(value) => vec![(at, Op::Put { value: value.value() })],
        None if whole => vec![(at, Op::Remove)],
        None => vec![(at, Op::Put { value: Value::Null })],
    })
}

fn name_of(container: Option<&Tree>) -> Result<&str, String> {
    container
        .and_then(|container| container.get("name"))
        .and_then(Tree::as_str)
        .ok_or_else(|| "one of its containers has no name, by which it could be merged".to_owned())
}

fn nested(path: &[Step], value: Option<&Tree>) -> Result<Value, String> {
    match path {
        [] => Ok(value.map_or(Value::Null, Tree::value)),
        [Step::Key(key), rest @ ..] => Ok(Value::Mapping(vec![(key.clone(), nested(rest, value)?)])),
        [Step::Position(_), ..] => Err("a list in a list is not merged".to_owned()),
    }
}
