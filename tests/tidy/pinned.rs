//! What pipelines run of others is named by its content.

use super::{none, tree};
use crate::world::checkout;

/// aquasecurity/trivy-action#541: the tags of an action were moved to malicious commits. An action is named by its commit, an
/// image by its digest, and nothing that a pipeline downloads is run without a checksum.
#[test]
fn pipelines_run_nothing_that_somebody_else_can_move() {
    let mut broken = Vec::new();
    let mut n = 0;
    for path in tree().iter().filter(|path| is_pipeline(path)) {
        n += 1;
        let text = std::fs::read_to_string(checkout(path)).unwrap();
        let lines = text.lines().zip(1..).filter(|(line, _)| is_movable(line));
        broken.extend(lines.map(|(line, number)| format!("{path}:{number}: {}", line.trim())));
    }
    assert!(n >= 2, "the Action and the pipeline are among them");
    none("what a pipeline runs and somebody else can move", &broken);
}

/// Files whose text somebody's pipeline carries out.
fn is_pipeline(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.starts_with(".ci/")
        || path.starts_with(".github/")
        || [".gitlab-ci.yml", "action.yml", "Dockerfile", "Containerfile"].contains(&name)
}

/// Whether a line fetches what is not named by its content.
fn is_movable(line: &str) -> bool {
    let line = line.split(" #").next().unwrap_or_default().trim().trim_start_matches("- ");
    let after = |start: &str| line.strip_prefix(start).map(|rest| rest.trim().trim_matches(['"', '\'']));
    let is_hex = |text: &str, n: usize| text.len() == n && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let by_digest = |image: &str| image.split_once("@sha256:").is_some_and(|(_, digest)| is_hex(digest, 64));
    if let Some(action) = after("uses:") {
        return match action.strip_prefix("docker://") {
            Some(image) => !by_digest(image),
            None if action.starts_with("./") => false,
            None => !action.split_once('@').is_some_and(|(_, commit)| is_hex(commit, 40)),
        };
    }
    if let Some(image) = after("image:").or_else(|| after("FROM ")) {
        let image = image.split_whitespace().find(|word| !word.starts_with("--")).unwrap_or_default();
        return !image.is_empty() && image != "scratch" && !image.starts_with('$') && !by_digest(image);
    }
    let fetches = ["curl ", "wget "].iter().any(|tool| line.contains(tool));
    fetches
        && line.contains('|')
        && ["sh", "bash", "tar"]
            .iter()
            .any(|run| line.split('|').skip(1).any(|part| part.trim().starts_with(run)))
}

#[test]
fn what_can_be_moved_is_known_from_what_cannot() {
    let (commit, digest) = ("a".repeat(40), "b".repeat(64));
    for fixed in [
        format!("- uses: actions/checkout@{commit} # v5"),
        "  uses: ./".to_owned(),
        format!("image: rust@sha256:{digest}"),
        format!("FROM --platform=linux/amd64 rust:1@sha256:{digest} AS build"),
        "FROM scratch".to_owned(),
        "curl -fsSL https://example.com/x -o x".to_owned(),
    ] {
        assert!(!is_movable(&fixed), "{fixed}");
    }
    for movable in [
        "- uses: actions/checkout@v5",
        "uses: acme/action@main",
        "uses: docker://rust:1",
        "image: rust:1",
        "FROM rust:1 AS build",
        "curl -fsSL https://example.com/install | bash",
        "wget -qO- https://example.com/x.tgz | tar xz",
    ] {
        assert!(is_movable(movable), "{movable}");
    }
}
