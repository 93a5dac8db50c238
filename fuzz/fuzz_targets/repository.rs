//! A repository with one file of any bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../exercise/repository.rs"]
mod exercise;

fuzz_target!(|data: &[u8]| exercise::run(data));
