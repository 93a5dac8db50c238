//! Any bytes as a manifest: read twice alike, never a panic.

use std::collections::BTreeMap;

use slicewright::infra::{Scope, Snapshot, read};

pub(crate) fn run(data: &[u8]) {
    let snapshot = Snapshot {
        commit: "0".repeat(40),
        files: BTreeMap::from([("clusters/a/file.yaml".to_owned(), data.to_vec())]),
        skipped: BTreeMap::new(),
    };
    let scope = Scope {
        cluster: "a".to_owned(),
        folders: Vec::new(),
        deployed_by: Vec::new(),
        new_files: "slicewright/".to_owned(),
        operator_namespace: "gpu-operator".to_owned(),
    };
    assert_eq!(read(&snapshot, &scope), read(&snapshot, &scope));
}
