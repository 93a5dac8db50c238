//! Gaps, copied values and memory grabbed up front.
