//! Why a text was left alone.

use crate::tree::{Id, Stream};

/// The answer instead of a changed text; nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct Refusal {
    /// What a caller may tell apart.
    pub kind: RefusalKind,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// One sentence for people, without the place.
    pub message: String,
}

/// The reasons for a [`Refusal`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RefusalKind {
    /// The text does not parse, or it is larger than the limits.
    NotYaml,
    /// `{{` outside quoted scalars, block scalars and comments.
    Template,
    /// A mapping on the way has a key twice, and readers disagree on which one counts.
    DuplicateKey,
    /// A key is renamed to one that its mapping has already.
    KeyExists,
    /// The document, or the place in it, is not in the text.
    PathNotFound,
    /// The way leads through an alias; what is meant stands elsewhere.
    PathThroughAlias,
    /// The change would reach other places by their aliases.
    SharedAnchor,
    /// Something on the way is of another kind than the edit needs: no mapping, no sequence, no block scalar.
    NotAMapping,
    /// More than one document has this kind and name.
    AmbiguousDocument,
    /// The text that the edit leads to does not hold the intended data, or the editor cannot write it in this place.
    ResultDiffers,
}

impl RefusalKind {
    /// The spelling in case files and logs, such as `path-not-found`.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::NotYaml => "not-yaml",
            Self::Template => "template",
            Self::DuplicateKey => "duplicate-key",
            Self::KeyExists => "key-exists",
            Self::PathNotFound => "path-not-found",
            Self::PathThroughAlias => "path-through-alias",
            Self::SharedAnchor => "shared-anchor",
            Self::NotAMapping => "not-a-mapping",
            Self::AmbiguousDocument => "ambiguous-document",
            Self::ResultDiffers => "result-differs",
        }
    }
}

impl Refusal {
    pub(crate) fn new(kind: RefusalKind, line: usize, column: usize, message: impl Into<String>) -> Self {
        Self { kind, line, column, message: message.into() }
    }

    /// A refusal about a node, or about the start of the text where there is none.
    pub(crate) fn on(kind: RefusalKind, stream: &Stream, id: Option<Id>, message: impl Into<String>) -> Self {
        let (line, column) = id.map_or((1, 1), |id| {
            let slot = stream.slot(id);
            (slot.line, slot.column + 1)
        });
        Self::new(kind, line, column, message)
    }

    /// A refusal about a byte of the text.
    pub(crate) fn at(kind: RefusalKind, text: &str, offset: usize, message: impl Into<String>) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind(['\n', '\r']).map_or(0, |at| at + 1);
        let breaks =
            before.matches('\n').count() + before.matches('\r').count() - before.matches("\r\n").count();
        let column =
            before.get(line_start..).unwrap_or_default().chars().filter(|&c| c != '\u{feff}').count();
        Self::new(kind, breaks + 1, column + 1, message)
    }
}
