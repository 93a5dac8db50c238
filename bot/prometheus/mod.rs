//! Asks Prometheus and turns its answers into facts.
//!
//! The number of queries does not grow with the number of workloads.
