//! The life of a proposal: what to do next, given what the forge shows now.
