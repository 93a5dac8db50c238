//! What GitLab tells.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../exercise/gitlab_webhook.rs"]
mod exercise;

fuzz_target!(|data: &[u8]| exercise::run(data));
