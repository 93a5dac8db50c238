//! The world around the bot, as the tests meet it: real servers and real repositories with known contents.
#![allow(dead_code, reason = "the world offers more than the tests of today use")]

pub(crate) mod wait;

pub(crate) mod series;

pub(crate) mod golden;

pub(crate) mod prometheus;

pub(crate) mod fleet;

pub(crate) mod repo;

pub(crate) mod kubernetes;

use std::path::{Path, PathBuf};

/// A path inside the checkout, from its root.
pub(crate) fn checkout(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A program of the Python environment that the test command makes.
pub(crate) fn python_tool(program: &str) -> PathBuf {
    let path = checkout(".test-tools/venv/bin").join(program);
    assert!(path.exists(), "`{}` is missing: run `tests/run`, which makes it", path.display());
    path
}
