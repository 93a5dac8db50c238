//! A file of Terraform's that declares a node group.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../exercise/terraform.rs"]
mod exercise;

fuzz_target!(|data: &[u8]| exercise::run(data));
