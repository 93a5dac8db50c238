//! The infrastructure repository as text: what it declares about a cluster, and the edit that makes a plan true.
//!
//! Text in, text out, no IO: `engine` hands a [`Snapshot`] in and takes a [`ChangeSet`] out.

mod format;

mod deployed;

mod index;

mod repository;

mod walk;

mod kinds;

mod manifest;

mod trials;

mod workload_edit;

mod memory_flags;

mod serving_runtime;

mod helm_template;

mod helm;

mod kustomize;

mod labels;

mod gpu_operator;

mod mig_map;

mod plugin_map;

mod operator_site;

mod config_map;

mod own_layouts;

mod nodes;

mod node_groups;

mod hcl;

mod side_effects;

mod rollback;

mod draft;

mod frame;

mod text;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use slicewright_core::inventory::Declared;
use slicewright_core::plan::{Change, Plan};

pub use deployed::DeployedBy;
use draft::Draft;
use format::{Edition, FORMATS, Reading};
pub use index::Index;
use repository::Repository;
use workload_edit::Wish;

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
    /// Who says which folders are the cluster's, besides `folders`.
    pub deployed_by: Vec<DeployedBy>,
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
    Index::default().read(snapshot, scope)
}

fn read_with(snapshot: &Snapshot, scope: &Scope, index: &Index) -> Declared {
    let mut repository = Repository::new(snapshot, scope, index);
    gpu_operator::load(&mut repository);
    reading(&repository).declared
}

/// Makes the plan true in the repository's text: the smallest diff, parsed back and compared.
///
/// On a repository that holds the plan already nothing differs.
pub fn edit(snapshot: &Snapshot, scope: &Scope, plan: &Plan) -> ChangeSet {
    Index::default().edit(snapshot, scope, plan)
}

fn edit_with(snapshot: &Snapshot, scope: &Scope, plan: &Plan, index: &Index) -> ChangeSet {
    let mut repository = Repository::new(snapshot, scope, index);
    gpu_operator::load(&mut repository);
    let Reading { declared, unmatched } = reading(&repository);
    let edition = Edition { repository: &repository, declared: &declared, unmatched: &unmatched, plan };
    let mut draft = Draft::new(&repository);
    let (configs, others): (Vec<&Change>, Vec<&Change>) =
        plan.changes.iter().partition(|change| is_config(change));
    make(&edition, configs, &mut draft);
    let (pins, others): (Vec<&Change>, Vec<&Change>) =
        others.into_iter().partition(|change| matches!(change, Change::PinWorkload { .. }));
    // A label that names a config which is nowhere puts its node into `failed`, and pods that select a node pool which is
    // nowhere wait for ever: nothing goes before the config or the pool. Nor does
    // a label go before the selectors that say who may be on its node.
    let waits_for = if draft.has_manual() {
        let new_pool = plan.changes.iter().any(|change| matches!(change, Change::AddNodePool { .. }));
        let first = if new_pool { POOL_FIRST } else { CONFIG_FIRST };
        for change in &pins {
            draft.manual(left_over(change, first.to_owned()));
        }
        Some(first)
    } else {
        (!bind(&edition, &pins, &mut draft)).then_some(SELECTORS_FIRST)
    };
    if let Some(why) = waits_for {
        for change in others {
            draft.manual(left_over(change, why.to_owned()));
        }
        rollback::write(&edition, &mut draft);
        side_effects::search(&edition, &mut draft);
        return draft.finish();
    }
    make(&edition, others, &mut draft);
    nodes::write_script(&edition, &mut draft);
    rollback::write(&edition, &mut draft);
    side_effects::search(&edition, &mut draft);
    draft.finish()
}

/// The most places that are named where a workload was not found.
const MOST_NAMED: usize = 5;

const CONFIG_FIRST: &str = "the configuration that it needs has to be made by hand first";

const POOL_FIRST: &str = "the node pool that it needs has to be made by hand first";

const SELECTORS_FIRST: &str = "the node selectors of all pods that share cards have to be there first, and one of them \
                               has to be set by hand";

/// Writes the node selectors of all workloads that share cards, or none of them: pods that no selector binds could land
/// on cards that do not count them, and pods that one binds would wait for a label. Says whether they are written.
fn bind(edition: &Edition<'_>, pins: &[&Change], draft: &mut Draft<'_>) -> bool {
    let before = draft.clone();
    let mut left = Vec::new();
    for pin in pins {
        make(edition, vec![pin], draft);
        left.push(draft.take_manual());
    }
    if left.iter().all(std::collections::BTreeSet::is_empty) {
        return true;
    }
    *draft = before;
    for (pin, left) in pins.iter().zip(left) {
        if left.is_empty() {
            draft.manual(left_over(pin, SELECTORS_FIRST.to_owned()));
        }
        left.into_iter().for_each(|change| draft.manual(change));
    }
    false
}

/// The change defines what others name.
fn is_config(change: &Change) -> bool {
    match change {
        Change::SetMigConfig { .. } | Change::SetPluginConfig { .. } | Change::AddNodePool { .. } => true,
        Change::LabelNodes { .. }
        | Change::LabelGroup { .. }
        | Change::SetWorkloadResource { .. }
        | Change::PinWorkload { .. } => false,
    }
}

/// Lets every format make what it can; the rest is for people.
fn make(edition: &Edition<'_>, changes: Vec<&Change>, draft: &mut Draft<'_>) {
    let mut open: Vec<&Change> =
        changes.into_iter().filter(|change| may_edit(edition, change, draft)).collect();
    for format in FORMATS {
        format.edit(edition, &mut open, draft);
    }
    for change in open {
        draft.manual(left_over(change, "no format of this repository holds it".to_owned()));
    }
}

fn reading(repository: &Repository<'_>) -> Reading {
    let mut reading = Reading::default();
    for format in FORMATS {
        format.read(repository, &mut reading);
    }
    let notes = &mut reading.declared.notes;
    notes.extend(repository.notes.iter().cloned());
    notes.sort();
    notes.dedup();
    reading
}

/// Whether formats may try a change; a workload that is not editable, or is not declared, goes to people at once.
fn may_edit(edition: &Edition<'_>, change: &Change, draft: &mut Draft<'_>) -> bool {
    let Some((workload, wish)) = Wish::of(change) else { return true };
    match edition.declared.of(workload) {
        Some(found) => match &found.editable {
            Ok(()) => true,
            Err(why) => {
                let mut manual = workload_edit::by_hand(workload, Some(&found.place), &wish, why.clone());
                let written = edition.written_as(workload);
                let of_release = || helm::text_by_hand(edition.repository, &written, &wish);
                let of_template = || helm_template::text_by_hand(edition.repository, &found.place, &wish);
                if let Some(text) = of_release().or_else(of_template) {
                    manual.text = text;
                }
                draft.manual(manual);
                false
            }
        },
        None => {
            let mut why = "it was not found among the cluster's files".to_owned();
            if !edition.unmatched.is_empty() {
                let first: Vec<&str> =
                    edition.unmatched.iter().take(MOST_NAMED).map(String::as_str).collect();
                why.push_str(&format!("; it may be what these places speak of: {}", first.join("; ")));
            }
            let mut manual = workload_edit::by_hand(workload, None, &wish, why);
            if let Some(text) = helm::suggestion(edition.repository, workload, &wish) {
                manual.text = text;
            }
            draft.manual(manual);
            false
        }
    }
}

/// A change for people to make.
fn left_over(change: &Change, why: String) -> ManualChange {
    match change {
        Change::SetWorkloadResource { workload, from, to, count, pin } => {
            let wish = Wish { from, to, count: Some(*count), pin };
            workload_edit::by_hand(workload, None, &wish, why)
        }
        Change::PinWorkload { workload, selector } => {
            workload_edit::by_hand(workload, None, &Wish::pin(selector), why)
        }
        Change::LabelNodes { key, value, nodes } => ManualChange {
            what: format!("Label {} nodes `{key}: {value}`", nodes.len()),
            why,
            text: nodes
                .keys()
                .map(|node| {
                    let (node, label) = (text::shell(node), text::shell(&format!("{key}={value}")));
                    format!("kubectl label node {node} {label} --overwrite\n")
                })
                .collect(),
        },
        Change::LabelGroup { key, value, previous, beside, group } => node_groups::Label {
            key,
            value,
            previous: previous.as_deref(),
            beside: *beside,
            group: group.as_ref(),
        }
        .by_hand(None, why, None),
        Change::AddNodePool { group, name, cards, keeps_old } => {
            node_groups::NewPool { group, name, cards, keeps_old: *keeps_old }.by_hand(None, why, None)
        }
        Change::SetMigConfig { name, .. } => {
            ManualChange { what: format!("Add the MIG layout `{name}`"), why, text: String::new() }
        }
        Change::SetPluginConfig { key, resource, replicas, .. } => ManualChange {
            what: format!("Add the device plugin's configuration `{key}`"),
            why,
            text: format!("{resource} x {replicas}\n"),
        },
    }
}
