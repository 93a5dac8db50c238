//! A delivery: headers and body.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../exercise/receiver.rs"]
mod exercise;

fuzz_target!(|data: &[u8]| exercise::run(data));
