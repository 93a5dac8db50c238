//! The text of a proposal, which anybody may have edited.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../exercise/metadata.rs"]
mod exercise;

fuzz_target!(|data: &[u8]| exercise::run(data));
