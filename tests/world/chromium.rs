//! Debian's Chromium, driven by playwright-core, with axe-core as the judge of what people can use.

use std::path::Path;
use std::process::Command;

use super::{checkout, python_tool};

/// Looks at pages wide and on a phone, light and dark; screenshots go to `folder`. Returns what is wrong.
pub(crate) fn look(folder: &Path, addresses: &[&str]) -> Vec<String> {
    assert!(
        Path::new("/usr/bin/chromium").exists(),
        "Chromium is missing: run `tests/run`, which installs it"
    );
    let output = Command::new(python_tool("node"))
        .arg(checkout("tests/tools/look.mjs"))
        .arg(folder)
        .args(addresses)
        .env("NODE_MODULES", checkout(".test-tools/npm/node_modules"))
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    serde_json::from_slice(&output.stdout).unwrap()
}
