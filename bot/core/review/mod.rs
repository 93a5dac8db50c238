//! The life of a proposal: what to do next, given what the forge shows now.

pub mod board;
pub mod codeowners;
pub mod lifecycle;
pub mod limits;
pub mod metadata;
pub mod shares;
pub mod signature;
pub mod verdict;
