//! A block that is like another and stands behind it.

use std::ops::Range;

use hcl_edit::structure::{Block, Body, Structure};

use super::splice::{UNPLACED, indent_of, line_end, newline_at, newline_in};
use super::{leaves, parse, span};

/// A piece of text for a place.
pub(in crate::infra) type Splice = (Range<usize>, String);

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
    let place = span(block);
    let whole = text.get(place.clone()).ok_or(UNPLACED)?;
    let newline = newline_in(whole).ok_or("its block stands on one line")?;
    let attributes = block.body.iter().take_while(|structure| matches!(structure, Structure::Attribute(_)));
    let Some(last) = attributes.last() else {
        let open = line_end(text, place.start + whole.find('{').ok_or(UNPLACED)?);
        let indent = format!("{}  ", indent_of(text, place.start));
        return Ok((open..open, format!("{newline}{indent}{name} = \"{value}\"")));
    };
    let last = span(last);
    // A here-document's span takes its line end along.
    let shown = text.get(last.clone()).ok_or(UNPLACED)?.trim_end();
    let end = line_end(text, last.start + shown.len());
    if end >= place.end {
        return Err("its block stands on one line".to_owned());
    }
    let indent = indent_of(text, last.start);
    // In one column with its neighbours where its name is short enough; else a blank line keeps theirs as it is.
    let column = shown.split('=').next().map_or(0, |before| before.chars().count());
    let aligned = !shown.contains('\n') && name.len() < column;
    let (gap, blanks) = if aligned { ("", column - name.len()) } else { (newline, 1) };
    Ok((end..end, format!("{newline}{gap}{indent}{name}{}= \"{value}\"", " ".repeat(blanks))))
}

/// The text with a copy of one of its blocks behind it, after a blank line. The splices change the copy; their places
/// are those of the block's own text.
///
/// # Errors
/// Why there is no such copy.
pub(in crate::infra) fn copy(text: &str, block: &Block, splices: Vec<Splice>) -> Result<Copied, String> {
    let place = span(block);
    let n_splices = splices.len();
    let copy = spliced(text, &place, splices)?;
    let end = line_end(text, place.end);
    let newline = if newline_at(text, end) == "\r\n" || copy.contains("\r\n") { "\r\n" } else { "\n" };
    let (before, after) = text.split_at_checked(end).ok_or(UNPLACED)?;
    let whole = format!("{before}{newline}{newline}{copy}{after}");
    check(text, &place, &copy, &whole, n_splices)?;
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
    splices.sort_by_key(|(at, _)| std::cmp::Reverse((at.start, at.end)));
    let mut least = place.end;
    for (at, new) in splices {
        if at.start < place.start || at.end > least {
            return Err(UNPLACED.to_owned());
        }
        least = at.start;
        copy.replace_range(at.start - place.start..at.end - place.start, &new);
    }
    Ok(copy)
}

/// The file says what it said, and one block more; the copy says what its block says but for what was spliced.
fn check(text: &str, place: &Range<usize>, copy: &str, whole: &str, n_splices: usize) -> Result<(), String> {
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
    if n(&after) == n(&before) + 1 && differ <= n_splices && come <= n_splices {
        return Ok(());
    }
    Err("the copy would differ in more than was meant".to_owned())
}
