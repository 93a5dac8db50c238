//! A file that says it is a recording.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../exercise/recording.rs"]
mod exercise;

fuzz_target!(|data: &[u8]| exercise::run(data));
