//! What a caller asks for: edits, the paths that they go to, and the values that they bring.

use std::fmt;

/// One change to one place of one document.
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    /// The document of the stream that is meant.
    pub document: Document,
    /// The way from the document's root to the key or value.
    pub at: Vec<Step>,
    /// What happens there.
    pub op: Op,
    /// Whether a node that aliases refer to may change.
    pub shared: Shared,
}

/// A document of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    /// By position, from 0, counting every document of the stream, empty ones too.
    Index(usize),
    /// By its `kind` and `metadata.name`; refused where two documents match.
    Named {
        /// Text of the root key `kind`, such as `Deployment`.
        kind: String,
        /// Text of `metadata.name`.
        name: String,
    },
}

impl Default for Document {
    fn default() -> Self {
        Self::Index(0)
    }
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// The value of this key, without its quotes.
    Key(String),
    /// The entry of a sequence, from 0.
    Position(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

impl From<String> for Step {
    fn from(key: String) -> Self {
        Self::Key(key)
    }
}

impl From<usize> for Step {
    fn from(position: usize) -> Self {
        Self::Position(position)
    }
}

/// What an edit does.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// Changes only the text of the key, in the quotes that it has.
    RenameKey {
        /// The new key, without quotes.
        to: String,
    },
    /// Replaces the value, which must stand in the text (not through an alias or a merge key).
    Set {
        /// The new value.
        value: Value,
    },
    /// As [`Op::Set`] where the key exists, else adds it, with the mappings that are missing above it.
    Put {
        /// The new value.
        value: Value,
    },
    /// Adds an entry at the end of the sequence; an empty value becomes a sequence.
    Append {
        /// The new entry.
        value: Value,
    },
    /// Takes a key with its value, or an entry of a sequence, out: its own lines and no comment lines around them.
    /// The last one leaves `{}` or `[]` behind.
    Remove,
}

/// What happens where an edit would change a node that aliases refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shared {
    /// The edit is refused, since it would change other places too.
    #[default]
    Refuse,
    /// The definition is changed, and every alias follows.
    Edit,
}

/// A value to be written.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A number that is written with a dot or an exponent; infinities and NaN have YAML's spellings.
    Float(f64),
    /// Text; quoted where a YAML 1.1 or 1.2 reader would take it for something else.
    String(String),
    /// Entries in order.
    Sequence(Vec<Value>),
    /// Keys and values in order; a key that stands twice is refused.
    Mapping(Vec<(String, Value)>),
}

impl Value {
    /// The deepest value that is written; a deeper one is refused.
    pub const MAX_DEPTH: usize = 64;

    pub(crate) fn is_collection(&self) -> bool {
        matches!(self, Self::Sequence(_) | Self::Mapping(_))
    }

    /// A mapping or sequence that has entries, which is the kind that takes lines of its own.
    pub(crate) fn is_filled(&self) -> bool {
        match self {
            Self::Sequence(items) => !items.is_empty(),
            Self::Mapping(entries) => !entries.is_empty(),
            _ => false,
        }
    }

    /// Says why the value cannot be written at all.
    pub(crate) fn flaw(&self, depth: usize) -> Option<String> {
        if depth > Self::MAX_DEPTH {
            return Some(format!("the value nests deeper than {} levels", Self::MAX_DEPTH));
        }
        match self {
            Self::Sequence(items) => items.iter().find_map(|item| item.flaw(depth + 1)),
            Self::Mapping(entries) => {
                let mut keys: Vec<&str> = entries.iter().map(|(key, _)| key.as_str()).collect();
                keys.sort_unstable();
                if let Some(pair) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
                    return Some(format!("the value has the key `{}` twice", pair[0]));
                }
                entries.iter().find_map(|(_, value)| value.flaw(depth + 1))
            }
            Self::Null | Self::Bool(_) | Self::Integer(_) | Self::Float(_) | Self::String(_) => None,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

/// A path as people write it, for messages: `spec.containers[0]."a.b"`.
pub(crate) struct Shown<'a>(pub(crate) &'a [Step]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return out.write_str("the root");
        }
        for (at, step) in self.0.iter().enumerate() {
            match step {
                Step::Position(position) => write!(out, "[{position}]")?,
                Step::Key(key) => {
                    if at > 0 {
                        out.write_str(".")?;
                    }
                    if key.is_empty() || key.contains(['.', '[', '"', ' ']) || key.contains(char::is_control)
                    {
                        write!(out, "{key:?}")?;
                    } else {
                        out.write_str(key)?;
                    }
                }
            }
        }
        Ok(())
    }
}
