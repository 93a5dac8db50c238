//! What a Prometheus server may answer.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../exercise/answers.rs"]
mod exercise;

fuzz_target!(|data: &[u8]| exercise::run(data));
