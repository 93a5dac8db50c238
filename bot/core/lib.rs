//! Every decision of Slicewright: values in, values out.
//!
//! No IO, no async, no clock, no YAML and no forge; `clippy.toml` beside this file keeps it so.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod units;

pub mod ids;

pub mod inventory;

pub mod policy;

pub mod catalog;

pub mod usage;

pub mod fit;

pub mod pack;

pub mod plan;

pub mod review;
