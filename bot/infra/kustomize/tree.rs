//! An object as data, apart from its text: what patches are merged into, and what two renderings are compared by.

use std::collections::BTreeMap;

use slicewright_yaml::{Node, Step, Value};

/// The deepest object that is read.
const MAX_DEPTH: usize = 60;

/// The most nodes of one object; aliases can make more of a few lines.
const MAX_NODES: usize = 50_000;

/// A value without its style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    Null,
    Scalar {
        text: String,
        /// Text, and not a number or a boolean.
        string: bool,
    },
    List(Vec<Tree>),
    Map(BTreeMap<String, Tree>),
}

impl Tree {
    /// Reads a node; the reason says which limit it is beyond.
    pub(super) fn new(node: Node<'_>) -> Result<Self, String> {
        read(node, 0, &mut 0)
    }

    pub(super) fn text(text: &str) -> Self {
        Self::Scalar { text: text.to_owned(), string: true }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(entries) => entries.get(key),
            Self::Null | Self::Scalar { .. } | Self::List(_) => None,
        }
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Scalar { text, .. } => Some(text),
            Self::Null | Self::List(_) | Self::Map(_) => None,
        }
    }

    /// The value at a dotted path of keys.
    pub(super) fn down(&self, dotted: &str) -> Option<&Self> {
        dotted.split('.').try_fold(self, |tree, key| tree.get(key))
    }

    pub(super) fn step(&self, step: &Step) -> Option<&Self> {
        match (self, step) {
            (Self::Map(entries), Step::Key(key)) => entries.get(key),
            (Self::List(items), Step::Position(position)) => items.get(*position),
            (Self::Null | Self::Scalar { .. } | Self::List(_) | Self::Map(_), _) => None,
        }
    }

    pub(super) fn at_mut(&mut self, path: &[Step]) -> Option<&mut Self> {
        path.iter().try_fold(self, |tree, step| match (tree, step) {
            (Self::Map(entries), Step::Key(key)) => entries.get_mut(key),
            (Self::List(items), Step::Position(position)) => items.get_mut(*position),
            (Self::Null | Self::Scalar { .. } | Self::List(_) | Self::Map(_), _) => None,
        })
    }

    /// The mapping below a key, made where it is missing; `None` where something else stands there.
    pub(super) fn mapping_mut(&mut self, key: &str) -> Option<&mut BTreeMap<String, Self>> {
        let Self::Map(entries) = self else { return None };
        let entry = entries.entry(key.to_owned()).or_insert_with(|| Self::Map(BTreeMap::new()));
        if *entry == Self::Null {
            *entry = Self::Map(BTreeMap::new());
        }
        match entry {
            Self::Map(inner) => Some(inner),
            Self::Null | Self::Scalar { .. } | Self::List(_) => None,
        }
    }

    /// As a value to be written.
    pub(super) fn value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Scalar { text, string: true } => Value::String(text.clone()),
            Self::Scalar { text, string: false } => match (text.parse::<i64>(), text.as_str()) {
                (Ok(number), _) => Value::Integer(number),
                (Err(_), "true") => Value::Bool(true),
                (Err(_), "false") => Value::Bool(false),
                (Err(_), _) => Value::String(text.clone()),
            },
            Self::List(items) => Value::Sequence(items.iter().map(Self::value).collect()),
            Self::Map(entries) => {
                Value::Mapping(entries.iter().map(|(key, value)| (key.clone(), value.value())).collect())
            }
        }
    }

    /// As JSON, which YAML readers read.
    pub(super) fn json(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Scalar { text, string } => match text.parse::<i64>() {
                Ok(number) if !string => number.into(),
                Ok(_) | Err(_) => text.as_str().into(),
            },
            Self::List(items) => items.iter().map(Self::json).collect(),
            Self::Map(entries) => entries
                .iter()
                .map(|(key, value)| (key.clone(), value.json()))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        }
    }
}

fn read(node: Node<'_>, depth: usize, n_nodes: &mut usize) -> Result<Tree, String> {
    *n_nodes += 1;
    if depth > MAX_DEPTH || *n_nodes > MAX_NODES {
        return Err(format!("it is deeper than {MAX_DEPTH} levels or larger than {MAX_NODES} values"));
    }
    if node.is_mapping() {
        let entries = node.entries().into_iter();
        let read = entries.map(|(key, value)| Ok((key.to_owned(), read(value, depth + 1, n_nodes)?)));
        return Ok(Tree::Map(read.collect::<Result<_, String>>()?));
    }
    if node.is_sequence() {
        let read = node.items().map(|item| read(item, depth + 1, n_nodes));
        return Ok(Tree::List(read.collect::<Result<_, String>>()?));
    }
    Ok(match node.as_str() {
        None => Tree::Null,
        Some(text) => {
            Tree::Scalar { text: text.to_owned(), string: !(node.is_plain() && is_number_or_truth(text)) }
        }
    })
}

fn is_number_or_truth(text: &str) -> bool {
    text.parse::<f64>().is_ok() || matches!(text, "true" | "false")
}

/// One difference between two values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Delta {
    /// The value at this place should be this.
    Set(Vec<Step>, Tree),
    /// The key at this place should not be there.
    Unset(Vec<Step>),
}

/// What must change in `from` to make it `to`: keys to take out before keys to set. Lists of unequal length are a
/// difference that no key can make.
pub(super) fn differences(from: &Tree, to: &Tree) -> Result<Vec<Delta>, String> {
    let mut found = Vec::new();
    compare(from, to, &mut Vec::new(), &mut found)?;
    found.sort_by_key(|delta| matches!(delta, Delta::Set(..)));
    Ok(found)
}

fn compare(from: &Tree, to: &Tree, at: &mut Vec<Step>, found: &mut Vec<Delta>) -> Result<(), String> {
    match (from, to) {
        (Tree::Map(old), Tree::Map(new)) => {
            for (key, value) in old {
                at.push(key.as_str().into());
                match new.get(key) {
                    Some(wanted) => compare(value, wanted, at, found)?,
                    None => found.push(Delta::Unset(at.clone())),
                }
                at.pop();
            }
            for (key, wanted) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
                at.push(key.as_str().into());
                found.push(Delta::Set(at.clone(), wanted.clone()));
                at.pop();
            }
        }
        (Tree::List(old), Tree::List(new)) if old.len() == new.len() => {
            for (position, (old, new)) in old.iter().zip(new).enumerate() {
                at.push(position.into());
                compare(old, new, at, found)?;
                at.pop();
            }
        }
        (from, to) if from == to => {}
        (Tree::List(_), _) | (_, Tree::List(_)) => return Err("its lists would differ".to_owned()),
        (_, to) => found.push(Delta::Set(at.clone(), to.clone())),
    }
    Ok(())
}
