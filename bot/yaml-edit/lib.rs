//! Edits YAML text byte for byte: text and edits in, text or a refusal out.
//!
//! Nothing is printed from a data model: an edit finds the bytes of one key or value and replaces only these, so
//! that comments, blanks, quotes, anchors and line endings stay as their owner wrote them.
//! The result is parsed again and compared with the intended data; where the two differ, or where the text leaves
//! a doubt (a template, a shared anchor, a key that stands twice), the answer is a [`Refusal`].
//! The rules are those of `tests/cases/yaml-edit/README.md`.
//!
//! ```
//! use slicewright_yaml::{Document, Edit, Op, Shared, Value, edit};
//!
//! let text = "limits:\n  nvidia.com/gpu: 1   # one card\n";
//! let changed = edit(text, &[Edit {
//!     document: Document::Index(0),
//!     at: vec!["limits".into(), "nvidia.com/gpu".into()],
//!     op: Op::RenameKey { to: "nvidia.com/mig-2g.10gb".to_owned() },
//!     shared: Shared::Refuse,
//! }])?;
//! assert_eq!(changed, "limits:\n  nvidia.com/mig-2g.10gb: 1   # one card\n");
//! # Ok::<(), slicewright_yaml::Refusal>(())
//! ```

mod request;

mod refusal;

mod tree;

mod plain;

mod read;

mod edit;

mod path;

mod plan;

mod remove;

mod replace;

mod splice;

mod render;

mod quote;

mod check;

mod embedded;

#[cfg(test)]
mod tests;

// The fuzz target's code, which the tests run too, names the crate from outside.
#[cfg(test)]
extern crate self as slicewright_yaml;

pub use edit::edit;
pub use embedded::edit_embedded;
pub use read::{Node, Via, of, read};
pub use refusal::{Refusal, RefusalKind};
pub use request::{Document, Edit, Op, Shared, Step, Value};
pub use tree::{MAX_BYTES, MAX_NODES, Stream};
