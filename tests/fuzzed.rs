//! The fuzz targets' own bodies, over what the checkout holds and over damaged copies of it.
//!
//! `fuzz/` runs them with a fuzzer; here they run with every test, over seeds that reach deep into each parser.

use std::path::Path;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::world::checkout;
use crate::world::repo::files_below;

#[path = "../fuzz/exercise/answers.rs"]
mod answers;
#[path = "../fuzz/exercise/commands.rs"]
mod commands;
#[path = "../fuzz/exercise/github_webhook.rs"]
mod github_webhook;
#[path = "../fuzz/exercise/gitlab_webhook.rs"]
mod gitlab_webhook;
#[path = "../fuzz/exercise/metadata.rs"]
mod metadata;
#[path = "../fuzz/exercise/receiver.rs"]
mod receiver;
#[path = "../fuzz/exercise/recording.rs"]
mod recording;
#[path = "../fuzz/exercise/repository.rs"]
mod repository;
#[path = "../fuzz/exercise/settings.rs"]
mod settings;
#[path = "../fuzz/exercise/terraform.rs"]
mod terraform;

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

/// Inputs of every run, for each target with a corpus.
const MOST_CHANGED: usize = 5_000;

/// Pieces that mean something to some parser.
const WORDS: [&str; 24] = [
    "slicewright ",
    "@slicewright",
    "regenerate",
    "headroom=",
    "30%",
    "\"",
    "`",
    "```\n",
    "> ",
    "\n\n",
    "<details>",
    "- [x] ",
    "{",
    "}",
    "[",
    ":",
    ",",
    "null",
    "-1",
    "1e999",
    "\\u0000",
    "\u{202e}",
    "x-gitlab-token: ",
    "\r\n",
];

/// Runs a target over its committed corpus and over inputs that are changed from it: the same ones each time.
fn over_corpus(target: &str, run: fn(&[u8])) {
    let root = checkout("fuzz/corpus").join(target);
    let corpus: Vec<Vec<u8>> =
        files_below(&root).iter().map(|name| std::fs::read(root.join(name)).unwrap()).collect();
    assert!(corpus.len() >= 4, "no corpus for {target}");
    corpus.iter().for_each(|input| run(input));
    let mut chance = StdRng::seed_from_u64(7);
    for n in 0..MOST_CHANGED {
        let input = changed(&corpus, &mut chance);
        let outcome = std::panic::catch_unwind(|| run(&input));
        assert!(outcome.is_ok(), "{target}, input {n}: {:?}", String::from_utf8_lossy(&input));
    }
}

/// One of the inputs, with one to eight changes.
fn changed(corpus: &[Vec<u8>], chance: &mut StdRng) -> Vec<u8> {
    let mut input = corpus[chance.random_range(0..corpus.len())].clone();
    for _ in 0..chance.random_range(1..=8) {
        let (a, b) = (chance.random_range(0..=input.len()), chance.random_range(0..=input.len()));
        let (from, to) = (a.min(b), a.max(b));
        match chance.random_range(0..6) {
            0 => drop(input.drain(from..to)),
            1 => drop(input.splice(from..from, input[from..to].to_vec())),
            2 => drop(input.splice(from..from, WORDS[chance.random_range(0..WORDS.len())].bytes())),
            3 => {
                let other = &corpus[chance.random_range(0..corpus.len())];
                drop(input.splice(from.., other[from.min(other.len())..].iter().copied()));
            }
            4 => drop(input.splice(from..from, [chance.random::<u8>()])),
            _ => {
                if let Some(byte) = input.get_mut(from) {
                    *byte ^= 1 << chance.random_range(0..8);
                }
            }
        }
    }
    input.truncate(16 << 10);
    input
}

#[test]
fn any_delivery_is_taken_where_it_is_signed_and_refused_otherwise() {
    over_corpus("receiver", receiver::run);
}

#[test]
fn any_comment_is_read_or_refused() {
    over_corpus("commands", commands::run);
}

#[test]
fn anything_that_github_may_tell_is_read_or_refused() {
    over_corpus("github_webhook", github_webhook::run);
}

#[test]
fn anything_that_gitlab_may_tell_is_read_or_refused() {
    over_corpus("gitlab_webhook", gitlab_webhook::run);
    seeds(&["tests/cases/webhook/gitlab"], &[".json"]).iter().for_each(|seed| gitlab_webhook::run(seed));
}
