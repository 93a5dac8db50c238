//! A comment.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../exercise/commands.rs"]
mod exercise;

fuzz_target!(|data: &[u8]| exercise::run(data));
