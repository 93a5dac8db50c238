//! Taking an entry out: its own lines or its part of a line, and no comment lines around it.

use crate::plan::{self, Change, Plan};
use crate::splice::{Splice, line_end, line_start, replace_lines};
use crate::tree::{Id, Kind, Stream};
use crate::{Edit, Refusal, RefusalKind, Step, Value, path};

pub(crate) fn plan(stream: &Stream, root: Id, edit: &Edit) -> Result<Plan, Refusal> {
    let Some((last, _)) = edit.at.split_last() else {
        return Err(Refusal::on(RefusalKind::PathNotFound, stream, Some(root), "the root cannot be removed"));
    };
    let walk = path::walk_whole(stream, root, &edit.at)?;
    let node = walk.deepest();
    let collection = walk.chain.iter().rev().nth(1).copied().unwrap_or(root);
    let index = match last {
        Step::Key(key) => path::entry(stream, collection, key),
        Step::Position(position) => Some(*position),
    };
    let Some(index) = index else { return Err(path::not_found(stream, &walk, &edit.at)) };
    let (n_entries, flow, key, empty) = match &stream.slot(collection).kind {
        Kind::Mapping { entries, flow, .. } => {
            (entries.len(), *flow, entries.get(index).map(|entry| entry.0), Value::Mapping(Vec::new()))
        }
        Kind::Sequence { items, flow } => (items.len(), *flow, None, Value::Sequence(Vec::new())),
        Kind::Scalar { .. } | Kind::Alias(_) => return Err(path::not_found(stream, &walk, &edit.at)),
    };
    let touched = walk.chain.iter().copied().chain(stream.subtree(node)).chain(key);
    path::refuse_shared(stream, touched, edit.shared)?;
    if n_entries == 1 {
        return plan::replaced(stream, collection, empty, true);
    }
    let splices =
        if flow { from_flow(stream, collection, index) } else { from_block(stream, collection, index) };
    Ok(Plan { splices, change: Change::Remove { collection, index } })
}

fn cut(start: usize, end: usize) -> Splice {
    Splice { range: start..end.max(start), text: String::new() }
}

/// Starts (dash, `?` or key) and ends of the entries of a block collection.
fn block_entries(stream: &Stream, collection: Id) -> Vec<(usize, usize)> {
    let from = stream.slot(collection).start;
    match &stream.slot(collection).kind {
        Kind::Mapping { entries, .. } => entries
            .iter()
            .map(|&(key, value)| {
                let start = stream.slot(key).full_start();
                let before = stream.significant_before(start);
                let is_explicit = before > from && stream.byte_before(before) == Some(b'?');
                let start = if is_explicit { before - 1 } else { start };
                (start, stream.slot(value).end.max(stream.slot(key).end))
            })
            .collect(),
        Kind::Sequence { items, .. } => items
            .iter()
            .map(|&item| {
                let dash = stream.significant_before(stream.slot(item).full_start()).saturating_sub(1);
                (dash.max(from), stream.slot(item).end)
            })
            .collect(),
        Kind::Scalar { .. } | Kind::Alias(_) => Vec::new(),
    }
}

fn from_block(stream: &Stream, collection: Id, index: usize) -> Vec<Splice> {
    let text = &stream.text;
    let entries = block_entries(stream, collection);
    let (start, end) = entries[index];
    let line = line_start(text, start);
    let leading = text.get(line..start).unwrap_or_default();
    if leading.trim_matches(' ').is_empty() {
        return vec![replace_lines(text, line, end, &[])];
    }
    // The first entry shares its line with a dash or `?`; the next one moves up, unless comments stand between.
    match entries.get(index + 1) {
        Some(&(next, _)) if text.get(end..next).is_some_and(|gap| gap.trim().is_empty()) => {
            vec![cut(start, next)]
        }
        _ => {
            let blanks = leading.len() - leading.trim_end_matches([' ', '\t']).len();
            vec![cut(start - blanks, line_end(text, end))]
        }
    }
}

fn from_flow(stream: &Stream, collection: Id, index: usize) -> Vec<Splice> {
    let text = &stream.text;
    let entries = plan::flow_entries(stream, collection);
    let (start, end) = entries[index];
    let after_comma = |at: usize| {
        let comma = stream.significant_after(at);
        (text.as_bytes().get(comma) == Some(&b',')).then_some(comma + 1)
    };
    let own_comma = after_comma(end);
    let tail = own_comma.unwrap_or(end);
    let line = line_start(text, start);
    let leads_line = text.get(line..start).is_some_and(|before| before.trim_matches([' ', '\t']).is_empty());
    let rest = text.get(tail..line_end(text, tail)).unwrap_or_default().trim_start_matches([' ', '\t']);
    let has_own_lines = leads_line && (rest.is_empty() || rest.starts_with('#'));
    let is_bare = |from: usize, to: usize| {
        text.get(from..to).is_some_and(|gap| gap.trim_matches([' ', '\t', '\n', '\r', ',']).is_empty())
    };
    let comma_before = index.checked_sub(1).and_then(|previous| after_comma(entries[previous].1));
    // The comma before an entry goes with it where it would become one too many.
    let extra_comma = match (own_comma, comma_before) {
        (None, Some(comma)) => Some(comma - 1),
        _ => None,
    };
    if has_own_lines {
        let lines = replace_lines(text, line, tail, &[]);
        return extra_comma.map(|comma| cut(comma, comma + 1)).into_iter().chain([lines]).collect();
    }
    match (entries.get(index + 1), extra_comma) {
        (Some(&(next, _)), _) if is_bare(end, next) => vec![cut(start, next)],
        (_, Some(comma)) if is_bare(comma, start) => vec![cut(comma, end)],
        (_, Some(comma)) => vec![cut(comma, comma + 1), cut(start, end)],
        // A trailing comma: the one before the entry takes its place.
        (None, None) if comma_before.is_some_and(|comma| is_bare(comma, start)) => {
            vec![cut(comma_before.unwrap_or(start), tail)]
        }
        (_, None) => vec![cut(start, tail)],
    }
}
