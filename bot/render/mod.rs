//! Plans as text that people read.
