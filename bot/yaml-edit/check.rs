//! The proof: the new text holds the old data with the intended change, and nothing else moved.

use granit_parser::ScalarStyle;

use crate::plan::Change;
use crate::tree::{Id, Kind, Slot, Stream};
use crate::{Refusal, RefusalKind, Value, quote, render};

/// Compares two trees node by node: data, quotes, styles, anchors and tags of everything but the change.
pub(crate) fn check(old: &Stream, new: &Stream, change: &Change) -> Result<(), Refusal> {
    let mut compare = Compare { old, new, change, anchors: vec![None; old.anchors.len()] };
    if old.roots.len() != new.roots.len() {
        return Err(differs(new, None, "the number of documents would change"));
    }
    for (before, after) in old.roots.iter().zip(&new.roots) {
        compare
            .same(before.node, after.node)
            .map_err(|node| differs(new, Some(node), reason(old, new, node)))?;
    }
    let removes_text = match change {
        Change::Replace { node, .. } => !matches!(old.slot(*node).kind, Kind::Scalar { .. } | Kind::Alias(_)),
        Change::Remove { .. } | Change::BlockText { .. } => true,
        Change::Rename { .. } | Change::AddKey { .. } | Change::AddItem { .. } => false,
    };
    if !removes_text && !old.comments().eq(new.comments()) {
        return Err(differs(new, None, "a comment would change"));
    }
    Ok(())
}

fn reason(old: &Stream, new: &Stream, node: Id) -> &'static str {
    let is_block = matches!(&new.slot(node).kind, Kind::Scalar { block: Some(_), .. });
    if is_block && !old.text.ends_with(['\n', '\r']) {
        "the text ends in a block scalar without a line break, and lines below would add one to its value"
    } else {
        "the changed text would not hold the intended data here"
    }
}

fn differs(new: &Stream, node: Option<Id>, message: &str) -> Refusal {
    Refusal::on(RefusalKind::ResultDiffers, new, node, message)
}

struct Compare<'c> {
    old: &'c Stream,
    new: &'c Stream,
    change: &'c Change,
    /// For each old anchor the new one.
    anchors: Vec<Option<usize>>,
}

impl Compare<'_> {
    /// Errors with the new node that differs. Depth is bounded by the parser's nesting limits.
    fn same(&mut self, before: Id, after: Id) -> Result<(), Id> {
        let (old, new) = (self.old.slot(before), self.new.slot(after));
        let names = (
            old.anchor.map(|at| &self.old.anchors[at].name),
            new.anchor.map(|at| &self.new.anchors[at].name),
        );
        if old.tag != new.tag || names.0 != names.1 {
            return Err(after);
        }
        if let Some(anchor) = old.anchor {
            self.anchors[anchor] = new.anchor;
        }
        match self.change {
            Change::Replace { node, value } if *node == before => {
                return if holds(self.new, after, value) { Ok(()) } else { Err(after) };
            }
            Change::BlockText { node, text } if *node == before => {
                let is_literal = matches!(&new.kind, Kind::Scalar { text: found, style: ScalarStyle::Literal, .. } if found == text);
                return if is_literal { Ok(()) } else { Err(after) };
            }
            _ => {}
        }
        match (&old.kind, &new.kind) {
            (Kind::Scalar { text: a, style: b, .. }, Kind::Scalar { text: c, style: d, .. })
                if a == c && b == d =>
            {
                Ok(())
            }
            (Kind::Alias(a), Kind::Alias(b)) if self.anchors.get(*a) == Some(&Some(*b)) => Ok(()),
            (Kind::Sequence { flow: a, items: old }, Kind::Sequence { flow: b, items: new }) if a == b => {
                self.same_items(before, after, old, new)
            }
            (Kind::Mapping { flow: a, entries: old, .. }, Kind::Mapping { flow: b, entries: new, .. })
                if a == b =>
            {
                self.same_entries(before, after, old, new)
            }
            _ => Err(after),
        }
    }

    /// The old children that must be there again.
    fn remaining<T: Copy>(&self, before: Id, children: &[T]) -> Vec<T> {
        let skipped = match self.change {
            Change::Remove { collection, index } if *collection == before => Some(*index),
            _ => None,
        };
        (0..).zip(children).filter(|(at, _)| Some(*at) != skipped).map(|(_, child)| *child).collect()
    }

    fn same_items(&mut self, before: Id, after: Id, old: &[Id], new: &[Id]) -> Result<(), Id> {
        let old = self.remaining(before, old);
        let added = match self.change {
            Change::AddItem { sequence, value } if *sequence == before => Some(value),
            _ => None,
        };
        for (old, new) in old.iter().zip(new) {
            self.same(*old, *new)?;
        }
        let is_whole = match (added, new.get(old.len()..)) {
            (None, Some([])) => true,
            (Some(value), Some([last])) => is_unmarked(self.new.slot(*last)) && holds(self.new, *last, value),
            _ => false,
        };
        if is_whole { Ok(()) } else { Err(after) }
    }

    fn same_entries(&mut self, before: Id, after: Id, old: &[(Id, Id)], new: &[(Id, Id)]) -> Result<(), Id> {
        let old = self.remaining(before, old);
        let (renamed, added) = match self.change {
            Change::Rename { mapping, index, to } if *mapping == before => (Some((*index, to)), None),
            Change::AddKey { mapping, key, value } if *mapping == before => (None, Some((key, value))),
            _ => (None, None),
        };
        for (at, (old, new)) in old.iter().zip(new).enumerate() {
            match renamed {
                Some((index, to)) if index == at => {
                    if !is_string(self.new.slot(new.0), to) {
                        return Err(new.0);
                    }
                    let (anchor, now) = (self.old.slot(old.0).anchor, self.new.slot(new.0).anchor);
                    if anchor.is_some() != now.is_some() {
                        return Err(new.0);
                    }
                    if let Some(anchor) = anchor {
                        self.anchors[anchor] = now;
                    }
                }
                _ => self.same(old.0, new.0)?,
            }
            self.same(old.1, new.1)?;
        }
        let is_whole = match (added, new.get(old.len()..)) {
            (None, Some([])) => true,
            (Some((name, value)), Some([(key, last)])) => {
                let (key, slot) = (self.new.slot(*key), self.new.slot(*last));
                is_unmarked(key) && is_string(key, name) && is_unmarked(slot) && holds(self.new, *last, value)
            }
            _ => false,
        };
        if is_whole { Ok(()) } else { Err(after) }
    }
}

fn is_unmarked(slot: &Slot) -> bool {
    slot.tag.is_none() && slot.anchor.is_none()
}

/// Whether a scalar is this string for readers of both YAML versions.
fn is_string(slot: &Slot, expected: &str) -> bool {
    match &slot.kind {
        Kind::Scalar { text, style: ScalarStyle::Plain, .. } => {
            // A tag or an unchanged spelling may hold what would need quotes today.
            text == expected && !slot.is_missing()
        }
        Kind::Scalar { text, .. } => text == expected,
        _ => false,
    }
}

/// Whether the node is `value`, not looking at its own anchor and tag.
fn holds(stream: &Stream, id: Id, value: &Value) -> bool {
    let slot = stream.slot(id);
    let is_plain = |expected: &str| matches!(&slot.kind, Kind::Scalar { text, style: ScalarStyle::Plain, .. } if text == expected);
    match (value, &slot.kind) {
        (Value::Null, _) => is_plain("null"),
        (Value::Bool(_) | Value::Integer(_) | Value::Float(_), _) => is_plain(&render::flow(value, false)),
        (Value::String(text), Kind::Scalar { style, .. }) => {
            is_string(slot, text) && (*style != ScalarStyle::Plain || quote::is_plain_safe(text, false))
        }
        (Value::Sequence(values), Kind::Sequence { items, .. }) => {
            values.len() == items.len()
                && items
                    .iter()
                    .zip(values)
                    .all(|(&item, value)| is_unmarked(stream.slot(item)) && holds(stream, item, value))
        }
        (Value::Mapping(values), Kind::Mapping { entries, .. }) => {
            values.len() == entries.len()
                && entries.iter().zip(values).all(|(&(key, node), (name, value))| {
                    let (key, slot) = (stream.slot(key), stream.slot(node));
                    is_unmarked(key)
                        && holds_key(key, name)
                        && is_unmarked(slot)
                        && holds(stream, node, value)
                })
        }
        (Value::String(_) | Value::Sequence(_) | Value::Mapping(_), _) => false,
    }
}

fn holds_key(key: &Slot, name: &str) -> bool {
    let is_quoted = !matches!(key.kind, Kind::Scalar { style: ScalarStyle::Plain, .. });
    is_string(key, name) && (is_quoted || quote::is_plain_safe(name, false))
}
