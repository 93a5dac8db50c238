//! The life of a proposal: what to do next, given what the forge shows now.

/// The label with which a person asks that a branch and its text stay as they are.
pub const HOLD_LABEL: &str = "slicewright/hold";

/// The label of a proposal that a person declined by a comment.
pub const DECLINED_LABEL: &str = "slicewright/declined";

pub mod asked;
pub mod board;
pub mod boxes;
pub mod codeowners;
pub mod command;
pub mod difference;
pub mod lifecycle;
pub mod limits;
pub mod metadata;
pub mod overrides;
pub mod shares;
pub mod signature;
pub mod verdict;
