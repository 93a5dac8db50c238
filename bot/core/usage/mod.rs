//! From measured series to what a workload used.
