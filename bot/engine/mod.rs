//! Joins adapters and decisions: one use case a file.
