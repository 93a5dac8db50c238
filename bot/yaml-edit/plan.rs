//! From one edit to splices, and to the change of data that they must amount to.
//!
//! Values that exist are written by `replace`, entries are taken out by `remove`; this module adds entries.

use crate::render::Layout;
use crate::request::Shown;
use crate::splice::{Splice, break_at, insert_below, line_end, line_start, usual_break};
use crate::tree::{Id, Kind, Stream};
use crate::{Edit, Op, Refusal, RefusalKind, Step, Value, path, quote, remove, render, replace};

/// The splices of one edit.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) splices: Vec<Splice>,
    pub(crate) change: Change,
}

/// What an edit does to the data, in terms of the nodes before it.
#[derive(Debug)]
pub(crate) enum Change {
    Rename { mapping: Id, index: usize, to: String },
    Replace { node: Id, value: Value },
    AddKey { mapping: Id, key: String, value: Value },
    AddItem { sequence: Id, value: Value },
    Remove { collection: Id, index: usize },
    BlockText { node: Id, text: String },
}

/// Plans one edit, or refuses it. Without `literals`, strings with line breaks are double-quoted.
pub(crate) fn plan(stream: &Stream, edit: &Edit, literals: bool) -> Result<Plan, Refusal> {
    let root = path::select(stream, &edit.document)?;
    match &edit.op {
        Op::RenameKey { to } => rename(stream, root, edit, to),
        Op::Set { value } => set(stream, root, edit, sound(value)?, literals),
        Op::Put { value } => put(stream, root, edit, sound(value)?, literals),
        Op::Append { value } => append(stream, root, edit, sound(value)?, literals),
        Op::Remove => remove::plan(stream, root, edit),
    }
}

fn sound(value: &Value) -> Result<&Value, Refusal> {
    match value.flaw(0) {
        Some(flaw) => Err(Refusal::new(RefusalKind::ResultDiffers, 1, 1, flaw)),
        None => Ok(value),
    }
}

fn rename(stream: &Stream, root: Id, edit: &Edit, to: &str) -> Result<Plan, Refusal> {
    let Some((last, way)) = edit.at.split_last() else {
        return Err(Refusal::on(
            RefusalKind::PathNotFound,
            stream,
            Some(root),
            "the root has no key to rename",
        ));
    };
    let walk = path::walk_whole(stream, root, &edit.at)?;
    let mapping = walk.chain.iter().rev().nth(1).copied().unwrap_or(root);
    let (Step::Key(from), Kind::Mapping { entries, flow, .. }) = (last, &stream.slot(mapping).kind) else {
        let message = format!("`{}` is an entry of a sequence and has no key", Shown(&edit.at));
        return Err(Refusal::on(RefusalKind::PathNotFound, stream, Some(walk.deepest()), message));
    };
    let Some(index) = path::entry(stream, mapping, from) else {
        return Err(path::not_found(stream, &walk, &edit.at));
    };
    let key = entries[index].0;
    path::refuse_shared(stream, walk.chain.iter().rev().skip(1).copied().chain([key]), edit.shared)?;
    if to != from && path::entry(stream, mapping, to).is_some() {
        let message = format!("`{}` has the key `{to}` already", Shown(way));
        return Err(Refusal::on(RefusalKind::KeyExists, stream, Some(key), message));
    }
    let slot = stream.slot(key);
    let text = match &slot.kind {
        Kind::Scalar { block: None, style, .. } if to != from => {
            replace::in_quotes(*style, to).unwrap_or_else(|| quote::plain_or_double(to, *flow))
        }
        Kind::Scalar { block: None, .. } => {
            stream.text.get(slot.start..slot.end).unwrap_or_default().to_owned()
        }
        Kind::Alias(_) => {
            let message = format!("the key `{from}` is written as an alias");
            return Err(Refusal::on(RefusalKind::PathThroughAlias, stream, Some(key), message));
        }
        Kind::Scalar { .. } | Kind::Sequence { .. } | Kind::Mapping { .. } => {
            return Err(replace::unplaceable(stream, key, "a key that is a block scalar cannot be renamed"));
        }
    };
    let splices = vec![Splice { range: slot.start..slot.end, text }];
    Ok(Plan { splices, change: Change::Rename { mapping, index, to: to.to_owned() } })
}

fn set(stream: &Stream, root: Id, edit: &Edit, value: &Value, literals: bool) -> Result<Plan, Refusal> {
    let walk = path::walk_whole(stream, root, &edit.at)?;
    let node = walk.deepest();
    path::refuse_shared(stream, walk.chain.iter().copied().chain(stream.subtree(node)), edit.shared)?;
    replaced(stream, node, value.clone(), literals)
}

pub(crate) fn replaced(stream: &Stream, node: Id, value: Value, literals: bool) -> Result<Plan, Refusal> {
    let splices = replace::replace(stream, node, &value, literals)?;
    Ok(Plan { splices, change: Change::Replace { node, value } })
}

fn put(stream: &Stream, root: Id, edit: &Edit, value: &Value, literals: bool) -> Result<Plan, Refusal> {
    let walk = path::walk(stream, root, &edit.at)?;
    if walk.found == edit.at.len() {
        return set(stream, root, edit, value, literals);
    }
    let here = walk.deepest();
    let mut keys = Vec::new();
    for step in edit.at.iter().skip(walk.found) {
        match step {
            Step::Key(key) => keys.push(key.as_str()),
            Step::Position(_) => return Err(path::not_found(stream, &walk, &edit.at)),
        }
    }
    path::refuse_shared(stream, walk.chain.iter().copied(), edit.shared)?;
    let nested = |keys: &[&str]| {
        keys.iter().rfold(value.clone(), |inner, key| Value::Mapping(vec![((*key).to_owned(), inner)]))
    };
    match (&stream.slot(here).kind, keys.split_first()) {
        (Kind::Mapping { flow, .. }, Some((first, rest))) => {
            let value = nested(rest);
            let splices = if *flow {
                let entry = render::flow_entry(first, &value, replace::is_json(stream, Some(here)));
                add_to_flow(stream, here, &entry)?
            } else {
                let column = stream.slot(here).column;
                let layout = Layout { step: replace::step_of(stream, here), literals };
                let lines = render::block_entry(first, &value, column, layout);
                vec![insert_below(&stream.text, below_comments(stream, here, column), &lines)]
            };
            Ok(Plan { splices, change: Change::AddKey { mapping: here, key: (*first).to_owned(), value } })
        }
        (Kind::Scalar { .. }, _) => replaced(stream, here, nested(&keys), literals),
        (Kind::Mapping { .. } | Kind::Sequence { .. } | Kind::Alias(_), _) => {
            Err(path::not_found(stream, &walk, &edit.at))
        }
    }
}

fn append(stream: &Stream, root: Id, edit: &Edit, value: &Value, literals: bool) -> Result<Plan, Refusal> {
    let walk = path::walk_whole(stream, root, &edit.at)?;
    let here = walk.deepest();
    path::refuse_shared(stream, walk.chain.iter().copied(), edit.shared)?;
    let slot = stream.slot(here);
    let splices = match &slot.kind {
        Kind::Sequence { flow: true, items } => {
            let json =
                replace::is_json(stream, slot.parent) || replace::holds_only_double_quoted(stream, items);
            add_to_flow(stream, here, &render::flow(value, json))?
        }
        Kind::Sequence { items, .. } => {
            let gap = items.last().map_or(2, |&item| gap_after_dash(stream, here, item));
            let layout = Layout { step: replace::step_of(stream, here), literals };
            let lines = render::block_item(value, slot.column, layout, gap);
            // Below a sequence that is not indented under its key, a comment at the dash belongs to the next key.
            let is_indented = slot.parent.is_none_or(|parent| stream.slot(parent).column < slot.column);
            let at = below_comments(stream, here, slot.column + usize::from(!is_indented));
            vec![insert_below(&stream.text, at, &lines)]
        }
        Kind::Alias(_) => {
            let message = format!("`{}` is an alias; its sequence is written elsewhere", Shown(&edit.at));
            return Err(Refusal::on(RefusalKind::PathThroughAlias, stream, Some(here), message));
        }
        Kind::Scalar { .. } if slot.is_null() => {
            return replaced(stream, here, Value::Sequence(vec![value.clone()]), literals);
        }
        Kind::Scalar { .. } | Kind::Mapping { .. } => {
            let message = format!("`{}` is not a sequence", Shown(&edit.at));
            return Err(Refusal::on(RefusalKind::NotAMapping, stream, Some(here), message));
        }
    };
    Ok(Plan { splices, change: Change::AddItem { sequence: here, value: value.clone() } })
}

/// How far the collection of an entry stands right of its dash, as `-   key: v` has 4.
fn gap_after_dash(stream: &Stream, sequence: Id, item: Id) -> usize {
    let (slot, dashes) = (stream.slot(item), stream.slot(sequence));
    let before = stream.significant_before(slot.full_start());
    let on_line = line_start(&stream.text, before) == line_start(&stream.text, slot.start);
    let gap = slot.column.saturating_sub(dashes.column);
    if slot.is_block_collection() && on_line && gap >= 2 { gap } else { 2 }
}

/// A place on the last line that belongs to a block collection: its last entry, and the comment lines directly
/// below that are indented at least as far as `column`.
fn below_comments(stream: &Stream, collection: Id, column: usize) -> usize {
    let text = &stream.text;
    let mut end = line_end(text, stream.slot(collection).end);
    loop {
        let step = break_at(text, end).len();
        let next = end + step;
        let line = text.get(next..line_end(text, next)).unwrap_or_default();
        let indent = line.len() - line.trim_start_matches([' ', '\t']).len();
        if step == 0 || indent < column || stream.comment_at(next + indent).is_none() {
            return end;
        }
        end = next + line.len();
    }
}

/// Adds an entry to a flow mapping or sequence: on its line, or on a line of its own where it has several.
fn add_to_flow(stream: &Stream, collection: Id, entry: &str) -> Result<Vec<Splice>, Refusal> {
    let text = &stream.text;
    let slot = stream.slot(collection);
    let ends = flow_entries(stream, collection);
    if matches!(slot.kind, Kind::Mapping { braces: false, .. }) {
        return Err(replace::unplaceable(stream, collection, "a mapping without braces takes no second key"));
    }
    let inner = slot.start + 1..slot.end.saturating_sub(1).max(slot.start + 1);
    let has_lines = text.get(inner.clone()).unwrap_or_default().contains(['\n', '\r']);
    let insert = |at: usize, text: String| Splice { range: at..at, text };
    let Some(&(last_start, last_end)) = ends.last() else {
        let blank = text.get(inner.clone()).unwrap_or_default();
        if !has_lines {
            return Ok(vec![Splice { range: inner, text: format!("{blank}{entry}{blank}") }]);
        }
        let closing = line_start(text, inner.end);
        let indent = text.get(closing..inner.end).unwrap_or_default();
        let brk = usual_break(text);
        return Ok(vec![insert(closing, format!("{indent}  {entry}{brk}"))]);
    };
    let after = stream.significant_after(last_end);
    let comma = (text.as_bytes().get(after) == Some(&b',')).then_some(after + 1);
    let tail = comma.unwrap_or(last_end);
    if !has_lines {
        let added = if comma.is_some() { format!(" {entry},") } else { format!(", {entry}") };
        return Ok(vec![insert(tail, added)]);
    }
    let line = line_start(text, last_start);
    let leader = ends.iter().map(|&(start, _)| start).find(|&start| start >= line).unwrap_or(last_start);
    let leading = text.get(line..leader).unwrap_or_default();
    let is_blank = leading.trim_matches([' ', '\t']).is_empty();
    let indent = if is_blank { leading.to_owned() } else { " ".repeat(leading.chars().count()) };
    let rest = text.get(tail..line_end(text, tail)).unwrap_or_default();
    let rest_start = tail + rest.len() - rest.trim_start_matches([' ', '\t']).len();
    let is_free = rest_start == tail + rest.len() || stream.comment_at(rest_start).is_some();
    let (before, own) = if comma.is_some() { ("", ",") } else { (",", "") };
    if is_free {
        let below = insert_below(text, tail, &[format!("{indent}{entry}{own}")]);
        return Ok(vec![insert(last_end, before.to_owned()), below]);
    }
    let end = line_end(text, tail);
    let brk = if break_at(text, end).is_empty() { usual_break(text) } else { break_at(text, end) };
    Ok(vec![insert(tail, format!("{before}{brk}{indent}{entry}{own}"))])
}

/// Start and end of every entry of a flow collection.
pub(crate) fn flow_entries(stream: &Stream, collection: Id) -> Vec<(usize, usize)> {
    let start_of = |id: Id| {
        let start = stream.slot(id).full_start();
        let before = stream.significant_before(start);
        let is_explicit =
            stream.byte_before(before) == Some(b'?') && before > stream.slot(collection).start + 1;
        if is_explicit && before < start { before - 1 } else { start }
    };
    match &stream.slot(collection).kind {
        Kind::Mapping { entries, .. } => entries
            .iter()
            .map(|&(key, value)| (start_of(key), stream.slot(value).end.max(stream.slot(key).end)))
            .collect(),
        Kind::Sequence { items, .. } => {
            items.iter().map(|&item| (start_of(item), stream.slot(item).end)).collect()
        }
        Kind::Scalar { .. } | Kind::Alias(_) => Vec::new(),
    }
}
