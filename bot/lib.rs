//! Slicewright: finds workloads that hold a whole GPU and use a slice of it, and proposes the change.
//!
//! Modules in reading order: `settings` says what may be configured, the adapters `prometheus`, `infra`, `render` and
//! `forge` reach the world, `store` remembers, `engine` joins them with the decisions of `slicewright-core`, `server` and `cli`
//! start it.

pub mod settings;

pub mod prometheus;

pub mod infra;

pub mod render;

pub mod forge;

pub mod store;

pub mod engine;

pub mod server;

pub mod cli;
