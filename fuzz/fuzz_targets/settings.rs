//! A configuration file.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../exercise/settings.rs"]
mod exercise;

fuzz_target!(|data: &[u8]| exercise::run(data));
