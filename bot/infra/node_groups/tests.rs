use std::path::Path;

use serde_json::json;

use crate::infra::tests::{plan, scope, tree};
use crate::infra::{Snapshot, edit};

/// What is left to people in a case, with its text.
fn by_hand(case: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/infra/node-groups").join(case);
    let snapshot = Snapshot { files: tree(&folder.join("repo")), ..Snapshot::default() };
    let wanted = serde_json::from_slice(&std::fs::read(folder.join("plan.json")).unwrap()).unwrap();
    let set = edit(&snapshot, &scope(&json!({})), &plan(&wanted));
    set.manual.iter().map(|change| change.text.clone()).collect()
}

#[test]
fn show() {
    for case in [
        "karpenter-beside",
        "eks-beside",
        "aks-beside",
        "eks-module-beside",
        "gke-beside",
        "cluster-api-machine-pool",
        "group-unknown",
        "eks-ignore-changes",
    ] {
        println!("== {case}\n{}", by_hand(case));
    }
}
