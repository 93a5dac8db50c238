//! One entry put into a map of a file's text.

use std::ops::Range;

use hcl_edit::expr::{Object, ObjectValueTerminator};
use hcl_edit::structure::{Body, Structure};

use super::{Holder, Leaves, Map, entry, key_text, leaves, map, parse, span};

/// Puts `key = value` into the map `name` of the holder that `find` gives; the text as it was where it holds that.
///
/// # Errors
/// Why the text is not changed: the map comes from elsewhere, or what came out says more than the entry.
pub(in crate::infra) fn put(
    text: &str,
    find: &dyn for<'b> Fn(&'b Body) -> Option<Holder<'b>>,
    name: &str,
    key: &str,
    value: &str,
) -> Result<String, String> {
    for part in [key, value] {
        if part.chars().any(|c| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'))) {
            return Err(format!("`{}` is no text of a label", part.escape_debug()));
        }
    }
    let body = parse(text)?;
    let holder = find(&body).ok_or(GONE)?;
    let (at, new) = match map(text, &holder, name)? {
        Map::Literal { object, .. } => match entry(text, object, key)? {
            Some((old, _)) if old == value => return Ok(text.to_owned()),
            Some((_, place)) => (place, format!("\"{value}\"")),
            None => into_object(text, object, &Entry::Label { key, value })?,
        },
        Map::Missing => match &holder {
            Holder::Object(object) => into_object(text, object, &Entry::Map { name, key, value })?,
            Holder::Body(body, start, end) => into_body(text, body, *start..*end, name, key, value)?,
        },
    };
    let changed = format!(
        "{}{new}{}",
        text.get(..at.start).unwrap_or_default(),
        text.get(at.end..).unwrap_or_default()
    );
    check(text, &body, &changed, find, name, key, value)?;
    Ok(changed)
}

const GONE: &str = "it is not there any more";

/// What is put into a map.
enum Entry<'a> {
    /// `"key" = "value"`
    Label { key: &'a str, value: &'a str },
    /// A map with one entry, under a name.
    Map { name: &'a str, key: &'a str, value: &'a str },
}

impl Entry<'_> {
    fn name(&self) -> String {
        match self {
            Self::Label { key, .. } => format!("\"{key}\""),
            Self::Map { name, .. } if is_plain(name) => (*name).to_owned(),
            Self::Map { name, .. } => format!("\"{name}\""),
        }
    }

    fn on_one_line(&self) -> String {
        match self {
            Self::Label { value, .. } => format!("\"{value}\""),
            Self::Map { key, value, .. } => format!("{{ \"{key}\" = \"{value}\" }}"),
        }
    }

    fn on_lines(&self, indent: &str, newline: &str) -> String {
        match self {
            Self::Label { value, .. } => format!("\"{value}\""),
            Self::Map { key, value, .. } => {
                format!("{{{newline}{indent}  \"{key}\" = \"{value}\"{newline}{indent}}}")
            }
        }
    }
}

/// A name that needs no quotes.
fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// The splice that adds an entry at the end of a map.
fn into_object(text: &str, object: &Object, new: &Entry<'_>) -> Result<(Range<usize>, String), String> {
    let whole = span(object);
    let Some((_, last)) = object.iter().last() else {
        let inside = whole.start + 1..whole.end.saturating_sub(1);
        let blank = text.get(inside.clone()).ok_or(UNPLACED)?;
        if !blank.trim().is_empty() {
            return Err("its map holds nothing but comments".to_owned());
        }
        // `{}` and `{ }` stay on their line, a map that was opened over lines keeps them.
        let Some(newline) = newline_in(blank) else {
            return Ok((inside, format!(" {} = {} ", new.name(), new.on_one_line())));
        };
        let indent = indent_of(text, whole.start);
        let deeper = format!("{indent}  ");
        let line = format!("{deeper}{} = {}", new.name(), new.on_lines(&deeper, newline));
        return Ok((inside, format!("{newline}{line}{newline}{indent}")));
    };
    let value = span(last.expr());
    let rest = text.get(value.end..whole.end).ok_or(UNPLACED)?;
    let comma = match last.terminator() {
        ObjectValueTerminator::Comma => Some(value.end + rest.find(',').ok_or(UNPLACED)? + 1),
        ObjectValueTerminator::Newline | ObjectValueTerminator::None => None,
    };
    let after = comma.unwrap_or(value.end);
    let line_end = line_end(text, after);
    let colon = before_value(text, value.start).ends_with(':');
    let sign = if colon { " : " } else { " = " };
    if line_end >= whole.end {
        let start = if comma.is_some() { " " } else { ", " };
        return Ok((after..after, format!("{start}{}{sign}{}", new.name(), new.on_one_line())));
    }
    let newline = newline_at(text, line_end);
    let (indent, column) = aligned(text, object, value.start);
    let name = new.name();
    // Where the entries' signs stand in one column, this one does too if its key is short enough.
    let blanks = match (colon, new) {
        (false, Entry::Label { .. }) => column.saturating_sub(name.len()).max(1),
        (false, Entry::Map { .. }) | (true, _) => 1,
    };
    let sign = if colon { sign.to_owned() } else { format!("{}= ", " ".repeat(blanks)) };
    // Neighbours are aligned by the language's formatter: where this entry's key is longer than theirs, a blank line
    // keeps their text as it is. A map over several lines is set off as well.
    let gap = match new {
        Entry::Label { .. } if colon || name.chars().count() < column => "",
        Entry::Label { .. } | Entry::Map { .. } => newline,
    };
    let end = if comma.is_some() { "," } else { "" };
    let entry = format!("{newline}{gap}{indent}{name}{sign}{}{end}", new.on_lines(&indent, newline));
    Ok((line_end..line_end, entry))
}

/// The splice that adds a map to a block that has none of this name.
fn into_body(
    text: &str,
    body: &Body,
    block: Range<usize>,
    name: &str,
    key: &str,
    value: &str,
) -> Result<(Range<usize>, String), String> {
    let whole = text.get(block.clone()).ok_or(UNPLACED)?;
    let newline = newline_in(whole).ok_or("its block stands on one line")?;
    let attributes = body.iter().take_while(|structure| matches!(structure, Structure::Attribute(_)));
    let (after, indent, gap) = match attributes.last() {
        Some(last) => {
            let place = span(last);
            // A here-document's span takes its line end along.
            let end = place.start + text.get(place.clone()).ok_or(UNPLACED)?.trim_end().len();
            (line_end(text, end), indent_of(text, place.start), newline)
        }
        None => {
            let open = block.start + whole.find('{').ok_or(UNPLACED)?;
            (line_end(text, open), format!("{}  ", indent_of(text, block.start)), "")
        }
    };
    if after >= block.end {
        return Err("its block stands on one line".to_owned());
    }
    let map = Entry::Map { name, key, value };
    Ok((after..after, format!("{newline}{gap}{indent}{} = {}", map.name(), map.on_lines(&indent, newline))))
}

pub(super) const UNPLACED: &str = "the place in the text could not be told";

/// The file says what it said, and the entry.
fn check(
    text: &str,
    body: &Body,
    changed: &str,
    find: &dyn for<'b> Fn(&'b Body) -> Option<Holder<'b>>,
    name: &str,
    key: &str,
    value: &str,
) -> Result<(), String> {
    let after = parse(changed).map_err(|why| format!("the edited text would be unreadable: {why}"))?;
    let holder = find(&after).ok_or(GONE)?;
    let held = match map(changed, &holder, name)? {
        Map::Literal { object, .. } => entry(changed, object, key)?.map(|(held, _)| held),
        Map::Missing => None,
    };
    let (old, new) = (leaves(text, body), leaves(changed, &after));
    let (gone, come) = (difference(&old, &new), difference(&new, &old));
    let quoted = format!("\"{value}\"");
    let is_entry =
        |(way, what): &&(Vec<String>, String)| *what == quoted && way.last().is_some_and(|last| last == key);
    let is_map =
        |(way, what): &&(Vec<String>, String)| what == "map" && way.last().is_some_and(|last| last == name);
    let n_entries = come.iter().filter(is_entry).count();
    let n_maps = come.iter().filter(is_map).count();
    let only_entry = n_entries == 1 && n_maps <= 1 && come.len() == n_entries + n_maps;
    let only_value = gone.is_empty()
        || (n_maps == 0
            && gone.len() == 1
            && gone[0].0 == come.first().map(|it| it.0.clone()).unwrap_or_default());
    if held.as_deref() == Some(value) && only_entry && only_value {
        return Ok(());
    }
    Err("the edit would change more than this entry".to_owned())
}

fn difference(one: &Leaves, other: &Leaves) -> Vec<(Vec<String>, String)> {
    one.iter()
        .filter(|(leaf, n)| other.get(*leaf).is_none_or(|m| m < n))
        .map(|(leaf, _)| leaf.clone())
        .collect()
}

/// The text of the line before a value.
fn before_value(text: &str, at: usize) -> &str {
    let before = text.get(..at).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |found| found + 1);
    before.get(start..).unwrap_or_default().trim_end()
}

/// How far entries are indented, and how many characters the names before their signs take, blanks included.
fn aligned(text: &str, object: &Object, last: usize) -> (String, usize) {
    let line = before_value(text, last);
    let indent: String = line.chars().take_while(|c| matches!(c, ' ' | '\t')).collect();
    let opened_here = object.iter().next().is_some_and(|(key, _)| {
        let key = key_text(key).unwrap_or_default();
        !line.trim_start().trim_start_matches(['"', '(']).starts_with(key) && object.len() == 1
    });
    let indent = if opened_here || line.contains('{') {
        format!("{}  ", indent_of(text, span(object).start))
    } else {
        indent
    };
    let column = line.strip_suffix('=').map_or(0, |name| name.chars().count().saturating_sub(indent.len()));
    (indent, column)
}

/// The blanks that a place's line begins with.
pub(super) fn indent_of(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |found| found + 1);
    text.get(start..).unwrap_or_default().chars().take_while(|c| matches!(c, ' ' | '\t')).collect()
}

/// Where the line of a place ends, before its line break.
pub(super) fn line_end(text: &str, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    let line = rest.split('\n').next().unwrap_or_default();
    at + line.strip_suffix('\r').unwrap_or(line).len()
}

pub(super) fn newline_at(text: &str, at: usize) -> &'static str {
    if text.get(at..).unwrap_or_default().starts_with("\r\n") { "\r\n" } else { "\n" }
}

pub(super) fn newline_in(text: &str) -> Option<&'static str> {
    let at = text.find('\n')?;
    Some(if text[..at].ends_with('\r') { "\r\n" } else { "\n" })
}
