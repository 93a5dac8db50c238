//! The life of a proposal: what to do next, given what the forge shows now.

pub mod lifecycle;
pub mod limits;
pub mod metadata;
