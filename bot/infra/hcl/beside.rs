//! A block that is like another and stands behind it.

use std::ops::Range;

use hcl_edit::structure::{Block, Body, Structure};

use super::splice::{UNPLACED, indent_of, line_end, newline_at, newline_in};
use super::{leaves, parse, span};

/// A piece of text for a place, with how many things more the text says then.
pub(in crate::infra) struct Splice {
    at: Range<usize>,
    new: String,
    n_said: usize,
}

impl Splice {
    /// Another text for a name or a value.
    pub(in crate::infra) fn other(at: Range<usize>, new: String) -> Self {
        Self { at, new, n_said: 1 }
    }
}

/// The splice that adds an attribute with a plain string, behind the attributes that a block begins with.
///
/// # Errors
/// Why there is no place for it.
pub(in crate::infra) fn attribute(
    text: &str,
    block: &Block,
    name: &str,
    value: &str,
) -> Result<Splice, String> {
    let End { at, indent, newline, column } = end_of_attributes(text, block)?;
    // In one column with its neighbours where its name is short enough; else a blank line keeps theirs as it is.
    let (gap, blanks) = match column {
        Some(column) if name.len() < column => ("", column - name.len()),
        Some(_) => (newline, 1),
        None => ("", 1),
    };
    let new = format!("{newline}{gap}{indent}{name}{}= \"{value}\"", " ".repeat(blanks));
    Ok(Splice { at: at..at, new, n_said: 1 })
}

/// The splice that adds a block with these attributes, as they are written, behind those that a block begins with.
///
/// # Errors
/// Why there is no place for it.
pub(in crate::infra) fn inner_block(
    text: &str,
    block: &Block,
    name: &str,
    attributes: &[(&str, String)],
) -> Result<Splice, String> {
    let End { at, indent, newline, column } = end_of_attributes(text, block)?;
    let gap = if column.is_some() { newline } else { "" };
    let longest = attributes.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let lines: String = attributes
        .iter()
        .map(|(name, value)| format!("{newline}{indent}  {name:longest$} = {value}"))
        .collect();
    let new = format!("{newline}{gap}{indent}{name} {{{lines}{newline}{indent}}}");
    Ok(Splice { at: at..at, new, n_said: attributes.len() + 1 })
}

/// Where the attributes end that a block begins with.
struct End {
    at: usize,
    indent: String,
    newline: &'static str,
    /// How many characters the last one's name takes, blanks included; 0: it stands on several lines. `None`: there is
    /// none.
    column: Option<usize>,
}

fn end_of_attributes(text: &str, block: &Block) -> Result<End, String> {
    let place = span(block);
    let whole = text.get(place.clone()).ok_or(UNPLACED)?;
    let newline = newline_in(whole).ok_or("its block stands on one line")?;
    let attributes = block.body.iter().take_while(|structure| matches!(structure, Structure::Attribute(_)));
    let Some(last) = attributes.last() else {
        let at = line_end(text, place.start + whole.find('{').ok_or(UNPLACED)?);
        return Ok(End { at, indent: format!("{}  ", indent_of(text, place.start)), newline, column: None });
    };
    let last = span(last);
    // A here-document's span takes its line end along.
    let shown = text.get(last.clone()).ok_or(UNPLACED)?.trim_end();
    let at = line_end(text, last.start + shown.len());
    if at >= place.end {
        return Err("its block stands on one line".to_owned());
    }
    let name = shown.split('=').next().map_or(0, |before| before.chars().count());
    let column = Some(if shown.contains('\n') { 0 } else { name });
    Ok(End { at, indent: indent_of(text, last.start), newline, column })
}

/// The text with a copy of one of its blocks behind it, after a blank line. The splices change the copy; their places
/// are those of the block's own text.
///
/// # Errors
/// Why there is no such copy.
pub(in crate::infra) fn copy(text: &str, block: &Block, splices: Vec<Splice>) -> Result<Copied, String> {
    let place = span(block);
    let n_said = splices.iter().map(|splice| splice.n_said).sum();
    let copy = spliced(text, &place, splices)?;
    let end = line_end(text, place.end);
    let newline = if newline_at(text, end) == "\r\n" || copy.contains("\r\n") { "\r\n" } else { "\n" };
    let (before, after) = text.split_at_checked(end).ok_or(UNPLACED)?;
    let whole = format!("{before}{newline}{newline}{copy}{after}");
    check(text, &place, &copy, &whole, n_said)?;
    Ok(Copied { copy, whole })
}

/// A copy of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::infra) struct Copied {
    /// The new block.
    pub(in crate::infra) copy: String,
    /// The file with it.
    pub(in crate::infra) whole: String,
}

fn spliced(text: &str, place: &Range<usize>, mut splices: Vec<Splice>) -> Result<String, String> {
    let mut copy = text.get(place.clone()).ok_or(UNPLACED)?.to_owned();
    splices.sort_by_key(|splice| std::cmp::Reverse((splice.at.start, splice.at.end)));
    let mut least = place.end;
    for Splice { at, new, .. } in splices {
        if at.start < place.start || at.end > least {
            return Err(UNPLACED.to_owned());
        }
        least = at.start;
        copy.replace_range(at.start - place.start..at.end - place.start, &new);
    }
    Ok(copy)
}

/// The file says what it said, and one block more; the copy says what its block says but for what was spliced.
fn check(text: &str, place: &Range<usize>, copy: &str, whole: &str, n_said: usize) -> Result<(), String> {
    let unreadable = |why: String| format!("the edited text would be unreadable: {why}");
    let inside = |text: &str| -> Result<super::Leaves, String> {
        let body = parse(text).map_err(unreadable)?;
        // The first step of each way is the block's own name, which is one of the differences.
        let found = leaves(text, &body);
        let n_blocks = body.blocks().count();
        if n_blocks != 1 {
            return Err("the copy is not one block".to_owned());
        }
        Ok(found.into_iter().map(|((way, what), n)| ((way.into_iter().skip(1).collect(), what), n)).collect())
    };
    let own = text.get(place.clone()).ok_or(UNPLACED)?;
    let (old, new) = (inside(own)?, inside(copy)?);
    let differ = old.iter().filter(|(leaf, n)| new.get(*leaf) != Some(*n)).count();
    let come = new.iter().filter(|(leaf, n)| old.get(*leaf) != Some(*n)).count();
    let n = |body: &Body| body.iter().count();
    let (before, after) = (parse(text)?, parse(whole).map_err(unreadable)?);
    if n(&after) == n(&before) + 1 && differ <= n_said && come <= n_said {
        return Ok(());
    }
    Err("the copy would differ in more than was meant".to_owned())
}
