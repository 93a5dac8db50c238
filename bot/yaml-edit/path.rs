//! From a document and a path to nodes, with the doubts that refuse an edit before it is planned.

use std::collections::BTreeSet;

use crate::request::Shown;
use crate::tree::{Id, Kind, Stream};
use crate::{Document, Refusal, RefusalKind, Shared, Step};

/// How far a path leads in the text.
#[derive(Debug)]
pub(crate) struct Walk {
    /// Every node on the way, from the root to the deepest that exists.
    pub(crate) chain: Vec<Id>,
    /// How many steps the text has.
    pub(crate) found: usize,
}

impl Walk {
    /// The deepest node that exists.
    pub(crate) fn deepest(&self) -> Id {
        *self.chain.last().expect("a walk starts with the root")
    }
}

/// The root node of a document.
pub(crate) fn select(stream: &Stream, document: &Document) -> Result<Id, Refusal> {
    match document {
        Document::Index(index) => stream.roots.get(*index).map(|root| root.node).ok_or_else(|| {
            let n_documents = stream.roots.len();
            let message = format!("document {index} (from 0) is not in the text, which has {n_documents}");
            Refusal::new(RefusalKind::PathNotFound, 1, 1, message)
        }),
        Document::Named { kind, name } => {
            let mut matching = (0..).zip(stream.documents()).filter(|(_, root)| {
                let named = root.get("metadata").and_then(|metadata| metadata.get("name"));
                root.get("kind").and_then(|node| node.as_str()) == Some(kind)
                    && named.and_then(|node| node.as_str()) == Some(name)
            });
            let Some((index, _)) = matching.next() else {
                let message = format!("no document has kind `{kind}` and name `{name}`");
                return Err(Refusal::new(RefusalKind::PathNotFound, 1, 1, message));
            };
            if let Some((_, second)) = matching.next() {
                let message = format!("a second document has kind `{kind}` and name `{name}`");
                let (line, column) = (second.line(), second.column());
                return Err(Refusal::new(RefusalKind::AmbiguousDocument, line, column, message));
            }
            let index: usize = index;
            Ok(stream.roots[index].node)
        }
    }
}

/// Follows `path` as far as the text has it.
///
/// Refuses a step through an alias, through a mapping with a duplicate key, or by key into a scalar or a sequence.
pub(crate) fn walk(stream: &Stream, root: Id, path: &[Step]) -> Result<Walk, Refusal> {
    let mut walk = Walk { chain: vec![root], found: 0 };
    for (at, step) in path.iter().enumerate() {
        let here = walk.deepest();
        let way = Shown(path.get(..at).unwrap_or_default());
        let next = match (&stream.slot(here).kind, step) {
            (Kind::Alias(anchor), _) => {
                let name = &stream.anchors[*anchor].name;
                let message =
                    format!("`{way}` is the alias `*{name}`; what it stands for is written elsewhere");
                return Err(Refusal::on(RefusalKind::PathThroughAlias, stream, Some(here), message));
            }
            (Kind::Mapping { .. }, Step::Key(key)) => {
                refuse_duplicates(stream, here, &way)?;
                entry(stream, here, key).map(|index| value_at(stream, here, index))
            }
            (Kind::Sequence { items, .. }, Step::Position(position)) => items.get(*position).copied(),
            (Kind::Mapping { .. }, Step::Position(_)) => None,
            (Kind::Scalar { .. }, _) if stream.slot(here).is_null() => None,
            (Kind::Scalar { .. }, _) => {
                let message = format!("`{way}` is a scalar, so `{}` cannot be in it", Shown(path));
                return Err(Refusal::on(RefusalKind::NotAMapping, stream, Some(here), message));
            }
            (Kind::Sequence { .. }, Step::Key(key)) => {
                let message = format!("`{way}` is a sequence, so it has no key `{key}`");
                return Err(Refusal::on(RefusalKind::NotAMapping, stream, Some(here), message));
            }
        };
        match next {
            Some(next) => {
                walk.chain.push(next);
                walk.found += 1;
            }
            None => break,
        }
    }
    Ok(walk)
}

/// Follows the whole of `path`, or refuses.
pub(crate) fn walk_whole(stream: &Stream, root: Id, path: &[Step]) -> Result<Walk, Refusal> {
    let walk = walk(stream, root, path)?;
    if walk.found == path.len() { Ok(walk) } else { Err(not_found(stream, &walk, path)) }
}

pub(crate) fn not_found(stream: &Stream, walk: &Walk, path: &[Step]) -> Refusal {
    let missing = Shown(path.get(..=walk.found).unwrap_or(path));
    let message = format!("`{missing}` is not in the text");
    Refusal::on(RefusalKind::PathNotFound, stream, Some(walk.deepest()), message)
}

/// The position of a key in a mapping.
pub(crate) fn entry(stream: &Stream, mapping: Id, key: &str) -> Option<usize> {
    let Kind::Mapping { entries, .. } = &stream.slot(mapping).kind else { return None };
    entries.iter().position(|&(id, _)| stream.key_text(id) == Some(key))
}

fn value_at(stream: &Stream, mapping: Id, index: usize) -> Id {
    match &stream.slot(mapping).kind {
        Kind::Mapping { entries, .. } => entries[index].1,
        Kind::Scalar { .. } | Kind::Alias(_) | Kind::Sequence { .. } => mapping,
    }
}

/// The second of two equal keys of a mapping.
pub(crate) fn duplicate_key(stream: &Stream, mapping: Id) -> Option<Id> {
    let Kind::Mapping { entries, .. } = &stream.slot(mapping).kind else { return None };
    let mut names = BTreeSet::new();
    entries.iter().map(|&(key, _)| key).find(|&key| match stream.key_text(key) {
        Some(text) => !names.insert(text),
        None => false,
    })
}

/// Refuses a mapping in which a key stands twice.
pub(crate) fn refuse_duplicates(
    stream: &Stream,
    mapping: Id,
    way: &dyn std::fmt::Display,
) -> Result<(), Refusal> {
    let Some(key) = duplicate_key(stream, mapping) else { return Ok(()) };
    let name = stream.key_text(key).unwrap_or_default();
    let message = format!("`{way}` has the key `{name}` twice, and readers disagree on which one counts");
    Err(Refusal::on(RefusalKind::DuplicateKey, stream, Some(key), message))
}

/// Refuses to change `nodes` where aliases refer to one of them.
pub(crate) fn refuse_shared(
    stream: &Stream,
    nodes: impl IntoIterator<Item = Id>,
    shared: Shared,
) -> Result<(), Refusal> {
    if shared == Shared::Edit {
        return Ok(());
    }
    let Some(node) = nodes.into_iter().find(|&node| stream.is_shared(node)) else { return Ok(()) };
    let Some(anchor) = stream.slot(node).anchor.map(|anchor| &stream.anchors[anchor]) else { return Ok(()) };
    let times = if anchor.uses == 1 { "once".to_owned() } else { format!("{} times", anchor.uses) };
    let message = format!("the anchor `&{}` is used {times} more, which would change too", anchor.name);
    Err(Refusal::on(RefusalKind::SharedAnchor, stream, Some(node), message))
}
