//! Reading without editing: handles that follow aliases and merge keys lazily.

use std::collections::BTreeSet;
use std::ops::Range;

use granit_parser::ScalarStyle;

use crate::tree::{Id, Kind, Slot, Stream};
use crate::{Refusal, Step, Value};

/// The most mappings that one look-up visits through merge keys.
const MAX_MERGED: usize = 1_000;

/// The most keys of a mapping that are compared one by one.
const MAX_COMPARED: usize = 16;

/// Parses a text into its documents, within [`crate::MAX_BYTES`] and [`crate::MAX_NODES`].
///
/// # Errors
/// A [`Refusal`] of kind `not-yaml` or `template`; a template is refused even where it happens to parse.
pub fn read(text: &str) -> Result<Stream, Refusal> {
    Stream::parse(text.to_owned())
}

/// A value as one document that was never text: it has no places, and every node is on line 1.
#[must_use]
pub fn of(value: &Value) -> Stream {
    Stream::of(value)
}

/// How a node was reached, which decides whether an edit at its path can succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Via {
    /// Through an alias: an edit would be refused as `path-through-alias`.
    pub alias: bool,
    /// Through a merge key: `set` would be refused as `path-not-found`, `put` would add an own key.
    pub merge: bool,
    /// Through (or at) an anchor that aliases refer to: an edit would be refused as `shared-anchor`.
    pub shared: bool,
}

/// A node of a parsed text; cheap to copy.
///
/// Where a node is an alias, everything but [`Node::via`] speaks of the node that the alias refers to.
#[derive(Debug, Clone, Copy)]
pub struct Node<'s> {
    stream: &'s Stream,
    id: Id,
    via: Via,
}

impl Stream {
    /// The root of every document in order; an empty document has a null.
    pub fn documents(&self) -> impl ExactSizeIterator<Item = Node<'_>> {
        self.roots.iter().map(|root| Node::new(self, root.node, Via::default()))
    }

    /// The root of one document.
    #[must_use]
    pub fn document(&self, index: usize) -> Option<Node<'_>> {
        self.roots.get(index).map(|root| Node::new(self, root.node, Via::default()))
    }
}

impl<'s> Node<'s> {
    /// Follows an alias; chains do not exist, since an alias cannot carry an anchor.
    fn new(stream: &'s Stream, id: Id, mut via: Via) -> Self {
        let mut id = id;
        if let Kind::Alias(anchor) = stream.slot(id).kind {
            id = stream.anchors[anchor].node;
            via.alias = true;
        }
        via.shared |= stream.is_shared(id);
        Self { stream, id, via }
    }

    fn slot(&self) -> &'s Slot {
        self.stream.slot(self.id)
    }

    /// The value of a key, merge keys included: an own key wins over a merged one, and of merged ones the first.
    /// Where a key stands twice the last one counts, as most readers have it; an edit there is refused.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Node<'s>> {
        self.own(key).or_else(|| {
            // Most mappings take in no other.
            let mut merged = self.merged().peekable();
            merged.peek()?;
            let mut seen = BTreeSet::from([self.id]);
            merged.find_map(|source| source.get_bounded(key, &mut seen))
        })
    }

    fn get_bounded(&self, key: &str, seen: &mut BTreeSet<Id>) -> Option<Node<'s>> {
        if seen.len() >= MAX_MERGED || !seen.insert(self.id) {
            return None;
        }
        self.own(key).or_else(|| self.merged().find_map(|source| source.get_bounded(key, seen)))
    }

    /// The value of a key that stands in this mapping.
    fn own(&self, key: &str) -> Option<Node<'s>> {
        let Kind::Mapping { entries, .. } = &self.slot().kind else { return None };
        let &(_, value) = entries.iter().rfind(|&&(id, _)| self.stream.key_text(id) == Some(key))?;
        Some(Self::new(self.stream, value, self.via))
    }

    /// The mappings that this one takes in by `<<`.
    fn merged(&self) -> impl Iterator<Item = Node<'s>> + use<'s> {
        let stream = self.stream;
        let via = Via { merge: true, ..self.via };
        let entries: &'s [(Id, Id)] = match &self.slot().kind {
            Kind::Mapping { entries, .. } => entries,
            _ => &[],
        };
        entries.iter().filter(move |&&(key, _)| is_merge_key(stream.slot(key))).flat_map(
            move |&(_, value)| {
                let source = Node::new(stream, value, via);
                let items: &'s [Id] = match &source.slot().kind {
                    Kind::Sequence { items, .. } => items,
                    _ => &[],
                };
                let via = source.via;
                let listed = items.iter().map(move |&item| Node::new(stream, item, via));
                std::iter::once(source).chain(listed)
            },
        )
    }

    /// Walks a path; merge keys and aliases count.
    #[must_use]
    pub fn at(&self, path: &[Step]) -> Option<Node<'s>> {
        path.iter().try_fold(*self, |node, step| match step {
            Step::Key(key) => node.get(key),
            Step::Position(position) => node.item(*position),
        })
    }

    /// Text of a scalar after unquoting, never converted: `on` and `0755` are themselves. `None` for null
    /// (missing, `~`, `null`) and for collections.
    #[must_use]
    pub fn as_str(&self) -> Option<&'s str> {
        match &self.slot().kind {
            Kind::Scalar { text, .. } if !self.is_null() => Some(text),
            _ => None,
        }
    }

    /// Whether the value is missing, `~` or a plain `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.slot().is_null()
    }

    /// Whether this is a scalar without quotes, which readers may take for a number, a boolean or null.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        matches!(self.slot().kind, Kind::Scalar { style: ScalarStyle::Plain, .. })
    }

    /// Whether this is a block scalar of the kind `|`, into which [`crate::edit_embedded`] can reach.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        matches!(self.slot().kind, Kind::Scalar { style: ScalarStyle::Literal, .. })
    }

    /// Whether this is a mapping.
    #[must_use]
    pub fn is_mapping(&self) -> bool {
        matches!(self.slot().kind, Kind::Mapping { .. })
    }

    /// Whether this is a sequence.
    #[must_use]
    pub fn is_sequence(&self) -> bool {
        matches!(self.slot().kind, Kind::Sequence { .. })
    }

    /// Keys and values of a mapping, or `None` for other nodes; see [`Node::entries`].
    #[must_use]
    pub fn as_mapping(&self) -> Option<Vec<(&'s str, Node<'s>)>> {
        self.is_mapping().then(|| self.entries())
    }

    /// Keys and values: own ones in the order of the text, then those that merge keys add. The merge keys
    /// themselves and keys that are not scalars are left out; a key that stands twice is listed once.
    /// Empty for other nodes.
    #[must_use]
    pub fn entries(&self) -> Vec<(&'s str, Node<'s>)> {
        let mut found = Vec::new();
        match &self.slot().kind {
            Kind::Mapping { entries, .. } if self.is_simple(entries) => {
                found.extend(entries.iter().filter_map(|&(key, value)| {
                    Some((self.stream.key_text(key)?, Self::new(self.stream, value, self.via)))
                }))
            }
            _ => self.collect(&mut found, &mut BTreeSet::new(), &mut BTreeSet::new()),
        }
        found
    }

    /// Whether the entries of a mapping are few, and neither merge keys nor equal ones.
    fn is_simple(&self, entries: &[(Id, Id)]) -> bool {
        let text = |&(key, _): &(Id, Id)| self.stream.key_text(key);
        entries.len() <= MAX_COMPARED
            && entries.iter().all(|&(key, _)| !is_merge_key(self.stream.slot(key)))
            && entries.iter().enumerate().all(|(n, entry)| {
                let own = text(entry);
                own.is_none() || entries[..n].iter().all(|other| text(other) != own)
            })
    }

    fn collect(
        &self,
        found: &mut Vec<(&'s str, Node<'s>)>,
        names: &mut BTreeSet<&'s str>,
        seen: &mut BTreeSet<Id>,
    ) {
        if seen.len() >= MAX_MERGED || !seen.insert(self.id) {
            return;
        }
        let Kind::Mapping { entries, .. } = &self.slot().kind else { return };
        let from = found.len();
        // From the back, so that the last of two equal keys is the one that counts.
        for &(key, value) in entries.iter().rev() {
            if is_merge_key(self.stream.slot(key)) {
                continue;
            }
            if let Some(text) = self.stream.key_text(key)
                && names.insert(text)
            {
                found.push((text, Self::new(self.stream, value, self.via)));
            }
        }
        found[from..].reverse();
        for source in self.merged() {
            source.collect(found, names, seen);
        }
    }

    /// The entries of a sequence; none for other nodes.
    pub fn items(&self) -> impl ExactSizeIterator<Item = Node<'s>> + use<'s> {
        let (stream, via) = (self.stream, self.via);
        let items: &'s [Id] = match &self.slot().kind {
            Kind::Sequence { items, .. } => items,
            _ => &[],
        };
        items.iter().map(move |&item| Node::new(stream, item, via))
    }

    /// One entry of a sequence, from 0.
    #[must_use]
    pub fn item(&self, position: usize) -> Option<Node<'s>> {
        self.items().nth(position)
    }

    /// Whether an own key stands twice in this mapping, so that an edit through it would be refused.
    #[must_use]
    pub fn has_duplicate_key(&self) -> bool {
        crate::path::duplicate_key(self.stream, self.id).is_some()
    }

    /// How the node was reached.
    #[must_use]
    pub fn via(&self) -> Via {
        self.via
    }

    /// Line of the value, from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.slot().line
    }

    /// Column of the value, from 1, in characters.
    #[must_use]
    pub fn column(&self) -> usize {
        self.slot().column + 1
    }

    /// Bytes of the value, without anchor and tag.
    #[must_use]
    pub fn span(&self) -> Range<usize> {
        self.slot().start..self.slot().end
    }

    /// The anchor of the node, without `&`.
    #[must_use]
    pub fn anchor(&self) -> Option<&'s str> {
        self.slot().anchor.map(|anchor| self.stream.anchors[anchor].name.as_str())
    }

    /// The tag of the node, resolved, such as `tag:yaml.org,2002:str`.
    #[must_use]
    pub fn tag(&self) -> Option<&'s str> {
        self.slot().tag.as_deref()
    }
}

fn is_merge_key(key: &Slot) -> bool {
    matches!(&key.kind, Kind::Scalar { text, style: ScalarStyle::Plain, .. } if text == "<<")
}
