//! Terraform's and OpenTofu's language as text: where a map of labels stands, and the splice that sets one entry.
//!
//! The parser tells places only. What is written is spliced into the text, so that comments, blanks, alignment and line
//! endings stay as they are; the result is read again and compared entry by entry. A block can be copied behind itself
//! under another name as well.

mod splice;

mod beside;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;

use hcl_edit::Span;
use hcl_edit::expr::{Expression, Object, ObjectKey};
use hcl_edit::structure::{Body, Structure};

pub(super) use beside::{Copied, Splice, attribute, copy, inner_block};
pub(super) use splice::put;

/// Longest text that is read; configurations are far smaller.
const MAX_BYTES: usize = 1024 * 1024;

/// Parses a file. The parser bounds how deep it goes itself.
///
/// # Errors
/// Why the file cannot be read, in words.
pub(super) fn parse(text: &str) -> Result<Body, String> {
    if text.len() > MAX_BYTES {
        return Err(format!("{} bytes are more than the {MAX_BYTES} that are read", text.len()));
    }
    // A mark at the start is no part of the language; its bytes would be read as a name.
    if text.starts_with('\u{feff}') {
        return Err("it begins with a byte order mark".to_owned());
    }
    hcl_edit::parser::parse_body(text).map_err(|error| {
        let at = error.location();
        format!("it does not parse at line {}", at.line())
    })
}

/// A block's body or a map: both hold names with values.
#[derive(Clone, Copy, Debug)]
pub(super) enum Holder<'b> {
    /// The body of the block with this span.
    Body(&'b Body, usize, usize),
    Object(&'b Object),
}

impl<'b> Holder<'b> {
    /// The body of a block.
    pub(super) fn block(block: &'b hcl_edit::structure::Block) -> Self {
        let span = span(block);
        Self::Body(&block.body, span.start, span.end)
    }

    /// The value of a name.
    pub(super) fn get(&self, name: &str) -> Option<&'b Expression> {
        match self {
            Self::Body(body, _, _) => body.get_attribute(name).map(|attribute| &attribute.value),
            Self::Object(object) => {
                object.iter().find(|(key, _)| key_text(key) == Some(name)).map(|(_, value)| value.expr())
            }
        }
    }

    /// The text of a name that stands there as a plain string.
    pub(super) fn string(&self, name: &str) -> Option<&'b str> {
        self.get(name)?.as_str()
    }
}

/// A map that an entry can be put into.
#[derive(Clone, Copy, Debug)]
pub(super) enum Map<'b> {
    /// The name has no value yet.
    Missing,
    /// The map as it stands; `alone` is false where other maps are merged below it.
    Literal { object: &'b Object, alone: bool },
}

/// The map that `name` holds in `holder`.
///
/// # Errors
/// Why no entry can be put into it: it comes from elsewhere.
pub(super) fn map<'b>(text: &str, holder: &Holder<'b>, name: &str) -> Result<Map<'b>, String> {
    let Some(value) = holder.get(name) else { return Ok(Map::Missing) };
    let comes_from = |value: &Expression| {
        let shown: String = slice(text, value).chars().take(60).collect();
        format!("`{name}` is `{}`, not a map that stands there", shown.replace(['\r', '\n', '`'], " "))
    };
    match value {
        Expression::Object(object) => Ok(Map::Literal { object, alone: true }),
        Expression::FuncCall(call) if call.name.name.as_str() == "merge" && !call.name.is_namespaced() => {
            let args: Vec<&Expression> = call.args.iter().collect();
            let Some(Expression::Object(object)) = args.last().filter(|_| !call.args.expand_final()) else {
                return Err(format!("{}: what comes last in `merge` decides", comes_from(value)));
            };
            Ok(Map::Literal { object, alone: args.len() == 1 })
        }
        other => Err(comes_from(other)),
    }
}

/// What an entry holds today: its text and where the value stands.
///
/// # Errors
/// Why that cannot be told.
pub(super) fn entry(
    text: &str,
    object: &Object,
    key: &str,
) -> Result<Option<(String, Range<usize>)>, String> {
    // The parser keeps no place for plain keys: the value's is the same line or the next.
    if let Some((_, value)) = object.iter().find(|(key, _)| key_text(key).is_none()) {
        return Err(format!("line {} computes a key of the map", line(text, span(value.expr()).start)));
    }
    let Some((_, value)) = object.iter().find(|(found, _)| key_text(found) == Some(key)) else {
        return Ok(None);
    };
    match value.expr() {
        Expression::String(string) => Ok(Some((string.as_str().to_owned(), span(value.expr())))),
        other => Err(format!(
            "line {} sets `{key}` to `{}`, not to a plain string",
            line(text, span(other).start),
            slice(text, other).chars().take(60).collect::<String>().replace(['\r', '\n', '`'], " ")
        )),
    }
}

/// A key as text; `None`: it is computed.
pub(super) fn key_text(key: &ObjectKey) -> Option<&str> {
    let expression = match key {
        ObjectKey::Ident(ident) => return Some(ident.as_str()),
        ObjectKey::Expression(Expression::Parenthesis(inner)) => inner.inner(),
        ObjectKey::Expression(expression) => expression,
    };
    match expression {
        Expression::String(string) => Some(string.as_str()),
        _ => None,
    }
}

/// Where something stands; empty at the start where the parser does not say.
pub(super) fn span(of: &impl Span) -> Range<usize> {
    of.span().unwrap_or(0..0)
}

/// The text of something.
pub(super) fn slice<'t>(text: &'t str, of: &impl Span) -> &'t str {
    text.get(span(of)).unwrap_or_default()
}

/// The line of a place, from 1.
pub(super) fn line(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

/// Everything that a file says: the way to each value and the value's text, with how often it is said.
///
/// Maps that are spelled out and arguments of functions are ways of their own, so that one entry is one line here.
fn leaves(text: &str, body: &Body) -> BTreeMap<(Vec<String>, String), usize> {
    let mut found = BTreeMap::new();
    below_body(text, body, &[], &mut found);
    found
}

type Leaves = BTreeMap<(Vec<String>, String), usize>;

fn below_body(text: &str, body: &Body, way: &[String], found: &mut Leaves) {
    // Blocks of one kind are told by their order; where they stand among others says nothing.
    let mut n_blocks: BTreeMap<String, usize> = BTreeMap::new();
    for structure in body {
        match structure {
            Structure::Attribute(attribute) => {
                below(text, &attribute.value, &step(way, attribute.key.as_str()), found);
            }
            Structure::Block(block) => {
                let labels: Vec<&str> = block.labels.iter().map(|label| label.as_str()).collect();
                let name = format!("{} {}", block.ident.as_str(), labels.join(" "));
                let n = n_blocks.entry(name.clone()).or_default();
                let way = step(way, &format!("{name} #{n}"));
                *n += 1;
                say(&way, "block", found);
                below_body(text, &block.body, &way, found);
            }
        }
    }
}

fn below(text: &str, value: &Expression, way: &[String], found: &mut Leaves) {
    match value {
        Expression::Object(object) if object.iter().all(|(key, _)| key_text(key).is_some()) => {
            say(way, "map", found);
            for (key, value) in object {
                below(text, value.expr(), &step(way, key_text(key).unwrap_or_default()), found);
            }
        }
        Expression::FuncCall(call) => {
            say(way, slice(text, &call.name.name), found);
            for (n, argument) in call.args.iter().enumerate() {
                below(text, argument, &step(way, &n.to_string()), found);
            }
        }
        other => say(way, slice(text, other), found),
    }
}

fn step(way: &[String], next: &str) -> Vec<String> {
    way.iter().map(String::as_str).chain([next]).map(str::to_owned).collect()
}

fn say(way: &[String], what: &str, found: &mut Leaves) {
    *found.entry((way.to_vec(), what.to_owned())).or_default() += 1;
}
