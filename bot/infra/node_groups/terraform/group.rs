//! One declaration of a node group: its name, where its labels stand, and why it is not edited where there is a reason.

use std::ops::Range;

use hcl_edit::expr::Expression;
use hcl_edit::structure::{Block, BlockLabel};

use crate::infra::hcl::{Holder, line, slice, span};

/// Characters that a provider appends to a name prefix, so that names are unique.
pub(super) const SUFFIX: usize = 26;

/// What a declaration calls the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Literal(String),
    /// The provider appends a suffix of its own.
    Prefix(String),
    /// Computed; what is known of its start and end.
    Computed(String, String),
}

impl Name {
    pub(super) fn is(&self, name: &str) -> bool {
        match self {
            Self::Literal(literal) => literal == name,
            Self::Prefix(prefix) => name
                .strip_prefix(prefix.as_str())
                .is_some_and(|rest| rest.len() == SUFFIX && rest.chars().all(|c| c.is_ascii_hexdigit())),
            Self::Computed(..) => false,
        }
    }

    pub(super) fn may_be(&self, name: &str) -> bool {
        match self {
            Self::Literal(_) | Self::Prefix(_) => self.is(name),
            Self::Computed(start, end) => {
                name.len() >= start.len() + end.len()
                    && name.starts_with(start.as_str())
                    && name.ends_with(end.as_str())
            }
        }
    }
}

/// How a second group is made of the text of one.
#[derive(Clone, Debug)]
pub(super) enum Copy {
    /// A block of its own, whose name in this language stands there.
    Block(Option<Range<usize>>),
    /// An entry of a map, under another key.
    Entry,
    /// What there is of it stands in several places.
    No,
}

/// One declaration of a group in a parsed file.
pub(super) struct Group<'b> {
    pub(super) name: Name,
    /// Where labels are put; `Err`: there is no such place.
    pub(super) holder: Result<Holder<'b>, String>,
    /// The name of the map.
    pub(super) labels: String,
    /// The whole of it, for copies: from its first byte to its last.
    pub(super) start: usize,
    pub(super) end: usize,
    /// Where the name stands as a plain string.
    pub(super) name_at: Option<Range<usize>>,
    /// How a second group beside it is written.
    pub(super) copy: Copy,
    /// Why it is not edited, if so, with the line.
    pub(super) blocked: Option<(String, usize)>,
    /// Line of a smallest size of 0.
    pub(super) from_zero: Option<usize>,
}

/// Where a label of a block stands.
pub(super) fn title(block: &Block, n: usize) -> Option<Range<usize>> {
    block.labels.get(n).map(|label| match label {
        BlockLabel::Ident(ident) => span(ident),
        BlockLabel::String(string) => span(string),
    })
}

/// `for_each` and `count`: one text stands for several groups, or for none.
pub(super) fn many(text: &str, block: &Block) -> Option<(String, usize)> {
    ["for_each", "count"].iter().find_map(|name| {
        let value = block.body.get_attribute(name)?;
        Some((
            format!("it is declared with `{name}`, which may make several groups of it"),
            line(text, span(value).start),
        ))
    })
}

/// A name as it is written.
pub(super) fn name_of(text: &str, value: &Expression) -> Name {
    match value {
        Expression::String(string) => Name::Literal(string.as_str().to_owned()),
        Expression::StringTemplate(_) => {
            let shown = slice(text, value).trim_matches('"');
            let start = shown.split("${").next().unwrap_or_default();
            let end = shown.rsplit('}').next().unwrap_or_default();
            Name::Computed(start.to_owned(), end.to_owned())
        }
        _ => unknown(),
    }
}

/// A name of which nothing is known.
pub(super) fn unknown() -> Name {
    Name::Computed(String::new(), String::new())
}
