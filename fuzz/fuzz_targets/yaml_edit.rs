//! Any text, every kind of edit.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../exercise/yaml_edit.rs"]
mod exercise;

fuzz_target!(|data: &[u8]| exercise::run(data));
