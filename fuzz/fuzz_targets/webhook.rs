//! A webhook, and a comment.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../exercise/webhook.rs"]
mod exercise;

fuzz_target!(|data: &[u8]| exercise::run(data));
