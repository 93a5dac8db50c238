//! Any bytes as a file of Terraform's: a label is set the same way twice, and once is enough; never a panic.

use std::collections::BTreeMap;

use slicewright::infra::{Scope, Snapshot, edit};
use slicewright_core::plan::Plan;

pub(crate) fn run(data: &[u8]) {
    let scope = Scope {
        cluster: "a".to_owned(),
        folders: Vec::new(),
        deployed_by: Vec::new(),
        new_files: "slicewright/".to_owned(),
        operator_namespace: "gpu-operator".to_owned(),
    };
    for (kind, name) in [
        ("eks", "gpu-a100"),
        ("eks", "gpu-a100-20260301120000000100000001"),
        ("gke", "gpu-a100"),
        ("aks", "gpua100"),
    ] {
        for beside in [false, true] {
            let plan = plan(kind, name, beside);
            let mut snapshot = Snapshot {
                commit: "0".repeat(40),
                files: BTreeMap::from([("clusters/a/groups.tf".to_owned(), data.to_vec())]),
                skipped: BTreeMap::new(),
            };
            let set = edit(&snapshot, &scope, &plan);
            assert_eq!(set, edit(&snapshot, &scope, &plan));
            snapshot.files.extend(set.files);
            assert!(edit(&snapshot, &scope, &plan).files.is_empty(), "the second edit changes more");
        }
    }
}

fn plan(kind: &str, name: &str, beside: bool) -> Plan {
    let text = format!(
        r#"{{
          "pool": {{"cluster": "a", "pool": "gpu"}}, "pool_kind": "elastic", "goal": "bill",
          "model": "a100-40gb", "model_name": "NVIDIA A100-SXM4-40GB", "method": "mig",
          "changes": [{{
            "change": "label-group", "key": "nvidia.com/mig.config", "value": "all-2g.10gb", "previous": null,
            "beside": {beside}, "group": {{"kind": "{kind}", "name": "{name}"}}
          }}],
          "items": [], "kept": [], "nodes": [], "saving": {saving},
          "proof": {{"n_cards": 0, "proven": true, "sentences": []}},
          "alternatives": [], "rollout": [], "rollback": [], "risks": [], "confidence": "high",
          "confidence_reason": "", "notes": [], "overrides": [], "fingerprint": ""
        }}"#,
        saving =
            serde_json::to_string(&slicewright_core::plan::saving::Saving::default()).unwrap_or_default()
    );
    serde_json::from_str(&text).expect("the plan above is complete")
}
