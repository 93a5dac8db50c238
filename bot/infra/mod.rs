//! The infrastructure repository as text: what it declares about a cluster, and the edit that makes a plan true.
//!
//! Text in, text out, no IO: `engine` hands a [`Snapshot`] in and takes a [`ChangeSet`] out.

use std::collections::BTreeMap;

use slicewright_core::inventory::Declared;
use slicewright_core::plan::Plan;

/// A repository at one commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Commit id.
    pub commit: String,
    /// Files by path.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Paths that were not read, with the reason.
    pub skipped: BTreeMap<String, String>,
}

/// Which part of a repository belongs to a cluster, and how the bot may write there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Cluster name.
    pub cluster: String,
    /// Folders that hold the cluster's files; empty: the whole repository. Paths end with `/`.
    pub folders: Vec<String>,
    /// Folder for files that the repository does not have yet, ends with `/`.
    pub new_files: String,
    /// Namespace of the GPU Operator when the repository does not say.
    pub operator_namespace: String,
}

/// The files that differ, and what is left for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeSet {
    /// Whole new content by path.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Changes that people must make by hand: the plan needs them, no file could be edited safely.
    pub manual: Vec<ManualChange>,
    /// Things elsewhere in the repository that the change touches: quotas, dashboards, selectors; as sentences.
    pub side_effects: Vec<String>,
}

/// A change for people to make.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManualChange {
    /// What to change, with the place if it was found.
    pub what: String,
    /// Why the bot does not do it.
    pub why: String,
    /// The exact text or commands.
    pub text: String,
}

/// What the repository says about one cluster.
pub fn read(snapshot: &Snapshot, scope: &Scope) -> Declared {
    let _ = (snapshot, scope);
    Declared::default()
}

/// Makes the plan true in the repository's text: the smallest diff, parsed back and compared.
pub fn edit(snapshot: &Snapshot, scope: &Scope, plan: &Plan) -> ChangeSet {
    let _ = (snapshot, scope, plan);
    ChangeSet::default()
}
