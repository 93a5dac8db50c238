//! The fuzz targets' own bodies, over what the checkout holds and over damaged copies of it.
//!
//! `fuzz/` runs them with a fuzzer; here they run with every test, over seeds that reach deep into each parser.

use std::path::Path;

use crate::world::checkout;
use crate::world::repo::files_below;

#[path = "../fuzz/exercise/answers.rs"]
mod answers;
#[path = "../fuzz/exercise/metadata.rs"]
mod metadata;
#[path = "../fuzz/exercise/recording.rs"]
mod recording;
#[path = "../fuzz/exercise/repository.rs"]
mod repository;
#[path = "../fuzz/exercise/settings.rs"]
mod settings;
#[path = "../fuzz/exercise/terraform.rs"]
mod terraform;
#[path = "../fuzz/exercise/webhook.rs"]
mod webhook;

/// Files of some folders, each as it is and damaged in fixed ways.
fn seeds(folders: &[&str], endings: &[&str]) -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for folder in folders {
        let root = checkout(folder);
        let names = if root.is_file() { vec![String::new()] } else { files_below(&root) };
        for name in names {
            let path = if name.is_empty() { root.clone() } else { root.join(&name) };
            if !endings.iter().any(|ending| path.to_string_lossy().ends_with(ending)) {
                continue;
            }
            seeds.extend(damaged(&std::fs::read(&path).unwrap()));
        }
    }
    assert!(!seeds.is_empty(), "no seeds in {folders:?}");
    seeds
}

/// The bytes, cut off at some places, with single bytes changed, and with a piece doubled.
fn damaged(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut all = vec![bytes.to_vec()];
    let n = bytes.len();
    for part in 1..8 {
        let at = n * part / 8;
        all.push(bytes[..at].to_vec());
        for byte in [0, b'{', b':', b'\n', b'-', 0xff] {
            let mut changed = bytes.to_vec();
            if let Some(place) = changed.get_mut(at) {
                *place = byte;
            }
            all.push(changed);
        }
        all.push([&bytes[..at], &bytes[at / 2..]].concat());
    }
    all
}

#[test]
fn any_answer_of_a_server_is_read_or_refused() {
    let small = r#"{"status":"success","warnings":["w"],"data":{"resultType":"vector","result":[{"metric":{"a":"b"},"value":[1,"NaN"]}]}}"#;
    let mut all = damaged(small.as_bytes());
    all.extend(damaged(br#"{"status":"error","errorType":"execution","error":"x"}"#));
    all.extend([b"".to_vec(), b"<html>".to_vec(), "[".repeat(100_000).into_bytes()]);
    all.iter().for_each(|seed| answers::run(seed));
}

#[test]
fn any_recording_is_read_or_refused() {
    let bytes = std::fs::read(checkout("demo/recording.slicewright")).unwrap();
    recording::run(&bytes);
    for at in [1, 10, 100, bytes.len() / 2, bytes.len() - 1] {
        recording::run(&bytes[..at]);
        let mut changed = bytes.clone();
        changed[at] ^= 0x55;
        recording::run(&changed);
    }
    let header = r#"{"header":{"format":"slicewright-recording","version":1,"made_by":"x","at":"2026-01-15T00:00:00Z","config":""}}"#;
    for end in [r#"{"end":{"lines":1}}"#, r#"{"end":{"lines":2}}"#, ""] {
        recording::run(format!("{header}\n{end}\n").as_bytes());
    }
}

#[test]
fn any_configuration_is_read_or_refused() {
    seeds(&["config/example.yaml", "config/repo-example.yaml", "demo/slicewright.yaml"], &[".yaml"])
        .iter()
        .for_each(|seed| settings::run(seed));
}

#[test]
fn any_text_of_a_proposal_is_read_or_not() {
    seeds(&["tests/snapshots"], &[".snap"]).iter().for_each(|seed| metadata::run(seed));
}

#[test]
fn any_manifest_is_read_or_noted() {
    let folders = ["demo/infra", "tests/cases/infra/golden-dc1", "tests/cases/infra/golden-dev-use1"];
    seeds(&folders, &[".yaml"]).iter().for_each(|seed| repository::run(seed));
    assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/fuzz_targets").is_dir());
}

#[test]
fn any_file_of_terraform_takes_a_label_or_is_left_alone() {
    let cases = ["eks-resource-with-labels", "eks-merged-labels", "eks-module", "gke", "gke-module", "aks"];
    for case in cases {
        let folder = format!("tests/cases/infra/node-groups/{case}/repo/terraform");
        seeds(&[&folder], &[".tf"]).iter().for_each(|seed| terraform::run(seed));
    }
}

#[test]
fn any_webhook_and_any_comment_is_read_or_refused() {
    seeds(&["tests/cases/webhook/gitlab"], &[".json"]).iter().for_each(|seed| webhook::run(seed));
    let pull = r#"{"action":"created","issue":{"number":7,"pull_request":{}},"comment":{"id":1,"body":"@slicewright set headroom=30%","user":{"id":3,"login":"kim","type":"User"}},"repository":{"full_name":"acme/infra"}}"#;
    let comment = "> quoted\n\n@slicewright regenerate headroom=30% exclude=\"a/b\"\n`slicewright help`\n";
    [pull, comment].iter().flat_map(|seed| damaged(seed.as_bytes())).for_each(|seed| webhook::run(&seed));
}
