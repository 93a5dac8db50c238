//! A new value where one stands: what goes, what stays, and where the new lines go.

use granit_parser::ScalarStyle;

use crate::render::{self, Layout, Rendered};
use crate::splice::{Splice, break_at, insert_below, line_end, line_start, replace_lines, usual_break};
use crate::tree::{Block, Chomp, Id, Kind, Slot, Stream};
use crate::{Refusal, RefusalKind, Value, quote};

/// Where a node stands.
#[derive(Debug, Clone, Copy)]
enum Place {
    Root,
    Value { key: Id },
    Item,
}

/// The indentation that a place asks for.
#[derive(Debug, Clone, Copy)]
struct Room {
    place: Place,
    /// Column of the keys or dashes that the node belongs to.
    parent: usize,
    /// Column of the keys or dashes of a new block collection below it.
    column: usize,
    layout: Layout,
}

/// Replaces the value of `node`; its anchor and tag stay.
pub(crate) fn replace(
    stream: &Stream,
    node: Id,
    value: &Value,
    literals: bool,
) -> Result<Vec<Splice>, Refusal> {
    let slot = stream.slot(node);
    if let Some(tag) = &slot.tag
        && !tag_fits(tag, value)
    {
        let message = format!("the tag `{tag}` stays and does not fit the new value");
        return Err(unplaceable(stream, node, &message));
    }
    if slot.parent.is_some_and(|parent| stream.slot(parent).is_flow_collection()) {
        return in_flow(stream, node, value);
    }
    let room = room_of(stream, node, literals);
    match &slot.kind {
        Kind::Scalar { block: Some(block), style, .. } => {
            over_block_scalar(stream, node, room, (block, *style), value)
        }
        Kind::Sequence { flow: false, .. } | Kind::Mapping { flow: false, .. } => {
            Ok(over_block_collection(stream, node, room, value))
        }
        Kind::Scalar { .. } | Kind::Alias(_) | Kind::Sequence { .. } | Kind::Mapping { .. } => {
            over_inline(stream, node, room, value)
        }
    }
}

/// The refusal for a place that this editor cannot write into.
pub(crate) fn unplaceable(stream: &Stream, node: Id, message: &str) -> Refusal {
    Refusal::on(RefusalKind::ResultDiffers, stream, Some(node), message)
}

/// How far nested lines are indented: the column of a mapping's keys less that of its parent's keys or dash.
pub(crate) fn step_of(stream: &Stream, collection: Id) -> usize {
    let slot = stream.slot(collection);
    let Some(parent) = slot.parent else { return 2 };
    let above = stream.slot(parent);
    let is_under_key =
        matches!(slot.kind, Kind::Sequence { .. }) && matches!(above.kind, Kind::Mapping { .. });
    if is_under_key {
        return step_of(stream, parent);
    }
    match slot.column.saturating_sub(above.column) {
        0 => 2,
        step => step,
    }
}

/// Whether added keys and strings take JSON's quotes: the nearest flow mapping that has keys, from `from` upwards,
/// has them all double-quoted.
pub(crate) fn is_json(stream: &Stream, from: Option<Id>) -> bool {
    let mut at = from;
    while let Some(id) = at {
        let slot = stream.slot(id);
        if !slot.is_flow_collection() {
            return false;
        }
        if let Kind::Mapping { entries, .. } = &slot.kind
            && !entries.is_empty()
        {
            return entries.iter().all(|&(key, _)| is_double_quoted(stream.slot(key)));
        }
        at = slot.parent;
    }
    false
}

pub(crate) fn holds_only_double_quoted(stream: &Stream, items: &[Id]) -> bool {
    !items.is_empty() && items.iter().all(|&item| is_double_quoted(stream.slot(item)))
}

fn is_double_quoted(slot: &Slot) -> bool {
    matches!(slot.kind, Kind::Scalar { style: ScalarStyle::DoubleQuoted, .. })
}

/// The text in the quotes of a scalar that has some; single quotes that cannot hold it become double ones.
pub(crate) fn in_quotes(style: ScalarStyle, text: &str) -> Option<String> {
    match style {
        ScalarStyle::SingleQuoted => Some(quote::single(text).unwrap_or_else(|| quote::double(text))),
        ScalarStyle::DoubleQuoted => Some(quote::double(text)),
        _ => None,
    }
}

fn tag_fits(tag: &str, value: &Value) -> bool {
    match tag.strip_prefix("tag:yaml.org,2002:") {
        Some("str") => matches!(value, Value::String(_)),
        Some("int") => matches!(value, Value::Integer(_)),
        Some("float") => matches!(value, Value::Float(_) | Value::Integer(_)),
        Some("bool") => matches!(value, Value::Bool(_)),
        Some("null") => matches!(value, Value::Null),
        Some("map") => matches!(value, Value::Mapping(_)),
        Some("seq") => matches!(value, Value::Sequence(_)),
        _ => true,
    }
}

fn room_of(stream: &Stream, node: Id, literals: bool) -> Room {
    let Some(parent) = stream.slot(node).parent else {
        return Room { place: Place::Root, parent: 0, column: 0, layout: Layout { step: 2, literals } };
    };
    let above = stream.slot(parent);
    let step = step_of(stream, parent);
    let place = match &above.kind {
        Kind::Mapping { entries, .. } => {
            let key = entries.iter().find(|&&(_, value)| value == node).map_or(node, |&(key, _)| key);
            Place::Value { key }
        }
        Kind::Scalar { .. } | Kind::Alias(_) | Kind::Sequence { .. } => Place::Item,
    };
    Room { place, parent: above.column, column: above.column + step, layout: Layout { step, literals } }
}

fn splice(start: usize, end: usize, text: impl Into<String>) -> Splice {
    Splice { range: start..end, text: text.into() }
}

/// A node inside a flow collection: everything stays on its line.
fn in_flow(stream: &Stream, node: Id, value: &Value) -> Result<Vec<Splice>, Refusal> {
    let slot = stream.slot(node);
    let json = is_json(stream, slot.parent);
    let text = match (&slot.kind, value) {
        (Kind::Scalar { text: old, style, .. }, Value::String(text)) => {
            // A plain word shows that this mapping is no JSON, whatever its keys look like.
            let was_json =
                old.is_empty() || matches!(old.as_str(), "true" | "false" | "null") || is_number(old);
            in_quotes(*style, text).unwrap_or_else(|| render::flow_string(text, json && was_json))
        }
        _ => render::flow(value, json),
    };
    if !slot.is_missing() {
        return Ok(vec![splice(slot.start, slot.end, text)]);
    }
    let above = slot.parent.map(|parent| &stream.slot(parent).kind);
    let has_colon = match above {
        Some(Kind::Mapping { entries, .. }) => {
            let key = entries.iter().find(|&&(_, value)| value == node).map(|&(key, _)| key);
            key.is_some_and(|key| stream.colon(key).is_some())
        }
        _ => return Err(unplaceable(stream, node, "an empty entry of a flow sequence cannot be set")),
    };
    let before = if has_colon { " " } else { ": " };
    Ok(vec![splice(slot.start, slot.start, format!("{before}{text}"))])
}

fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c == '-' || c.is_ascii_digit()) && quote::is_other_type(text)
}

/// Over a plain or quoted scalar, an alias, a flow collection or a missing value, within block context.
fn over_inline(stream: &Stream, node: Id, room: Room, value: &Value) -> Result<Vec<Splice>, Refusal> {
    let text = &stream.text;
    let slot = stream.slot(node);
    refuse_placeless(stream, node, room)?;
    let lead = if slot.is_missing() { " " } else { "" };
    let kept = match (&slot.kind, value) {
        (Kind::Scalar { style, .. }, Value::String(text)) => in_quotes(*style, text),
        (Kind::Sequence { .. } | Kind::Mapping { .. }, _) if value.is_collection() => {
            Some(render::flow(value, is_json(stream, Some(node))))
        }
        _ => None,
    };
    if let Some(inline) = kept.or_else(|| render::inline_scalar(value, room.layout)) {
        return Ok(vec![splice(slot.start, slot.end, format!("{lead}{inline}"))]);
    }
    if !value.is_collection() {
        let Rendered { inline, below } = render::block(value, room.parent, room.layout);
        let header = splice(slot.start, slot.end, format!("{lead}{inline}"));
        return Ok(vec![header, insert_below(text, slot.end, &below)]);
    }
    if let Some(column) = compact_column(stream, slot, room) {
        let lines = render::block_lines(value, column, room.layout);
        let first = lines.first().map_or("", |line| line.trim_start_matches(' '));
        let start = splice(slot.start, slot.end, format!("{lead}{first}"));
        return Ok(vec![start, insert_below(text, slot.end, lines.get(1..).unwrap_or_default())]);
    }
    let lines = render::block_lines(value, room.column, room.layout);
    Ok(vec![splice(blanks_before(text, slot.start), slot.end, ""), insert_below(text, slot.end, &lines)])
}

/// Refuses a missing value that has no `:`, dash or `---` to stand after.
fn refuse_placeless(stream: &Stream, node: Id, room: Room) -> Result<(), Refusal> {
    let slot = stream.slot(node);
    let has_place = match room.place {
        Place::Root => stream.roots.iter().any(|root| root.node == node && root.marker_end.is_some()),
        Place::Value { key } => stream.colon(key).is_some(),
        Place::Item => true,
    };
    if slot.is_missing() && slot.props.is_none() && !has_place {
        return Err(unplaceable(stream, node, "an empty value without `:` or `---` before it cannot be set"));
    }
    Ok(())
}

/// Where a block collection can start on the line of the old value: after a dash, or on a line of its own.
fn compact_column(stream: &Stream, slot: &Slot, room: Room) -> Option<usize> {
    if slot.props.is_some() {
        return None;
    }
    let before = stream.text.get(line_start(&stream.text, slot.start)..slot.start).unwrap_or_default();
    let before = before.trim_start_matches('\u{feff}');
    match room.place {
        Place::Item if slot.is_missing() => Some(room.parent + 2),
        Place::Item => Some(slot.column),
        Place::Root | Place::Value { .. } if before.trim_matches(' ').is_empty() && !slot.is_missing() => {
            Some(before.len())
        }
        Place::Root | Place::Value { .. } => None,
    }
}

fn blanks_before(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or_default().trim_end_matches([' ', '\t']).len()
}

/// Over `|` and `>`: the header line keeps its comment, and its indicators where the new text fits them.
fn over_block_scalar(
    stream: &Stream,
    node: Id,
    room: Room,
    (block, style): (&Block, ScalarStyle),
    value: &Value,
) -> Result<Vec<Splice>, Refusal> {
    let text = &stream.text;
    let slot = stream.slot(node);
    let header = block.header.clone();
    let content = |lines: &[String]| match &block.content {
        Some(content) => replace_lines(text, content.start, content.end, lines),
        None => insert_below(text, header.end, lines),
    };
    if let Value::String(new) = value
        && new.contains('\n')
    {
        if room.layout.literals
            && let Some(lines) = lines_under(block, style, room, new)
        {
            return Ok(vec![content(&lines)]);
        }
        let column =
            block.indent.filter(|&indent| indent > room.parent).unwrap_or(room.parent + room.layout.step);
        return Ok(match render::literal(new, room.parent, column).filter(|_| room.layout.literals) {
            Some((inline, lines)) => vec![splice(header.start, header.end, inline), content(&lines)],
            None => vec![splice(header.start, header.end, quote::double(new)), content(&[])],
        });
    }
    if let Some(inline) = render::inline_scalar(value, room.layout) {
        return Ok(vec![splice(header.start, header.end, inline), content(&[])]);
    }
    if let Some(column) = compact_column(stream, slot, room) {
        let lines = render::block_lines(value, column, room.layout);
        let first = lines.first().map_or("", |line| line.trim_start_matches(' '));
        return Ok(vec![
            splice(header.start, header.end, first),
            content(lines.get(1..).unwrap_or_default()),
        ]);
    }
    let lines = render::block_lines(value, room.column, room.layout);
    Ok(vec![splice(blanks_before(text, header.start), header.end, ""), content(&lines)])
}

/// The lines that say `new` under the header that stands there, if they can.
fn lines_under(block: &Block, style: ScalarStyle, room: Room, new: &str) -> Option<Vec<String>> {
    let body = new.trim_end_matches('\n');
    let n_breaks = new.len() - body.len();
    let chomp_fits = match block.chomp {
        Chomp::Strip => n_breaks == 0,
        Chomp::Clip => n_breaks == 1,
        Chomp::Keep => n_breaks >= 1,
    };
    let needs_digit = new.starts_with(['\n', ' ', '\t']);
    if !chomp_fits || !quote::fits_block(new) || (needs_digit && block.digit.is_none()) {
        return None;
    }
    let column = match block.digit {
        Some(digit) => room.parent + digit,
        None => block.indent.filter(|&indent| indent > room.parent).unwrap_or(room.parent + room.layout.step),
    };
    let mut lines: Vec<&str> =
        if style == ScalarStyle::Folded { quote::folded_lines(body) } else { body.split('\n').collect() };
    lines.extend(std::iter::repeat_n("", n_breaks.saturating_sub(1)));
    Some(render::indented(lines.into_iter(), column))
}

/// Over a mapping or sequence in block style.
fn over_block_collection(stream: &Stream, node: Id, room: Room, value: &Value) -> Vec<Splice> {
    let text = &stream.text;
    let slot = stream.slot(node);
    let is_mapping = matches!(slot.kind, Kind::Mapping { .. });
    let step = if is_mapping { step_of(stream, node) } else { room.layout.step };
    let layout = Layout { step, ..room.layout };
    let first_line = line_start(text, slot.start);
    let leads_line = text.get(first_line..slot.start).unwrap_or_default().trim_matches(' ').is_empty();
    // Whatever stands here must be deeper than the key, but for a sequence.
    let needs_deeper = matches!(room.place, Place::Value { .. }) && !matches!(value, Value::Sequence(_));
    let column = if needs_deeper && slot.column <= room.parent { room.parent + step } else { slot.column };
    if let Place::Value { key } = room.place
        && leads_line
        && let Some(place) =
            slot.props.as_ref().map(|props| props.end).or_else(|| Some(stream.colon(key)? + 1))
    {
        if value.is_filled() {
            let lines = render::block_lines(value, column, layout);
            return vec![replace_lines(text, first_line, slot.end, &lines)];
        }
        let Rendered { inline, below } = render::block(value, room.parent, room.layout);
        return vec![
            splice(place, place, format!(" {inline}")),
            replace_lines(text, first_line, slot.end, &below),
        ];
    }
    let mut lines = if value.is_filled() {
        render::block_lines(value, column, layout)
    } else {
        let Rendered { inline, below } = render::block(value, room.parent, room.layout);
        std::iter::once(inline).chain(below).collect()
    };
    if let Some(first) = lines.first_mut() {
        *first = first.trim_start_matches(' ').to_owned();
    }
    let end = line_end(text, slot.start);
    let brk = if break_at(text, end).is_empty() { usual_break(text) } else { break_at(text, end) };
    vec![splice(slot.start, slot.end, lines.join(brk))]
}
