//! The world around the bot, as the tests meet it: real servers and real repositories with known contents.
#![allow(dead_code, reason = "the world offers more than the tests of today use")]

pub(crate) mod wait;

pub(crate) mod series;

pub(crate) mod golden;

pub(crate) mod prometheus;

pub(crate) mod postgres;

pub(crate) mod fleet;

pub(crate) mod repo;

pub(crate) mod forge;

pub(crate) mod emulate;

pub(crate) mod certificates;

pub(crate) mod collector;

pub(crate) mod deliveries;

pub(crate) mod served;

pub(crate) mod chromium;

pub(crate) mod pictures;

pub(crate) mod kubernetes;

pub(crate) mod nvidia;

pub(crate) mod renderers;

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

/// A script of the npm package `package`, as the test command installs it.
pub(crate) fn npm_script(package: &str, script: &str) -> PathBuf {
    let path = checkout(".test-tools/npm/node_modules").join(package).join(script);
    assert!(path.exists(), "`{}` is missing: run `tests/run`, which installs it", path.display());
    path
}

/// Folders `<suite>/<group>/<case>` with a `plan.json`, of the project and of `SLICEWRIGHT_EXTRA_CASES`.
pub(crate) fn case_folders(suite: &str) -> Vec<PathBuf> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let extra = std::env::var_os("SLICEWRIGHT_EXTRA_CASES").map(|folder| PathBuf::from(folder).join(suite));
    let suites = std::iter::once(checkout("tests/cases").join(suite)).chain(extra);
    let groups: Vec<PathBuf> = suites.flat_map(|suite| below(&suite)).collect();
    let mut cases: Vec<PathBuf> = groups.iter().flat_map(|group| below(group)).collect();
    cases.retain(|case| case.join("plan.json").is_file());
    cases.sort();
    cases
}

/// Copies what is below `from`, if there is such a folder, over what is below `to`.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    if !from.is_dir() {
        return;
    }
    for path in repo::files_below(from) {
        let target = to.join(&path);
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(from.join(&path), target).unwrap();
    }
}
