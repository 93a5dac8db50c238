//! What a format of infrastructure repository must answer, and the list of those that there are.

use std::collections::BTreeSet;

use slicewright_core::ids::WorkloadId;
use slicewright_core::inventory::{Declared, DeclaredWorkload};
use slicewright_core::plan::{Change, Plan};

use super::draft::Draft;

use super::{gpu_operator, helm, manifest, node_groups, nodes};

use super::labels::common;
use super::repository::Repository;

/// One way in which repositories write down what a cluster runs.
///
/// A format reads the facts that it knows and makes the changes whose text it owns. What no format makes is left for
/// people by the caller.
pub(super) trait Format: Sync {
    /// Adds what the repository says in this format.
    fn read(&self, repository: &Repository<'_>, reading: &mut Reading);

    /// Makes those of `open` that this format can make, and takes them out of the list; also those for which it has
    /// left a change to make by hand.
    fn edit(&self, edition: &Edition<'_>, open: &mut Vec<&Change>, draft: &mut Draft<'_>);
}

/// Every format, in the order in which they are read and asked.
pub(super) const FORMATS: &[&dyn Format] = &[
    &manifest::Manifests,
    &helm::HelmValues,
    &gpu_operator::GpuOperator,
    &node_groups::NodeGroups,
    &nodes::NodeManifests,
];

/// What is known while a plan is made true.
#[derive(Debug)]
pub(super) struct Edition<'a> {
    pub(super) repository: &'a Repository<'a>,
    pub(super) declared: &'a Declared,
    /// See [`Reading`].
    pub(super) unmatched: &'a BTreeSet<String>,
    pub(super) plan: &'a Plan,
}

impl Edition<'_> {
    /// The id that a workload stands under in the repository.
    pub(super) fn written_as(&self, workload: &WorkloadId) -> WorkloadId {
        self.declared.find(workload).map_or_else(|| workload.clone(), |(id, _)| id)
    }
}

/// What has been read so far, and where each workload was seen.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) declared: Declared,
    /// Those of the notes that say of a GPU that it was matched to no workload.
    pub(super) unmatched: BTreeSet<String>,
}

impl Reading {
    /// Adds a workload. The same one in two places is not editable: either may be the one that the cluster runs.
    pub(super) fn add(&mut self, id: WorkloadId, workload: DeclaredWorkload) {
        use std::collections::btree_map::Entry;
        match self.declared.workloads.entry(id) {
            Entry::Vacant(vacant) => {
                vacant.insert(workload);
            }
            Entry::Occupied(mut occupied) => {
                let known = occupied.get_mut();
                let more = match &known.editable {
                    Err(reason) => reason.strip_prefix(SEVERAL).or(reason.strip_prefix(TWICE)),
                    Ok(()) => None,
                };
                known.editable = Err(match more {
                    Some(places) => format!("{SEVERAL}{places}, {}", workload.place),
                    None => format!("{TWICE}{}, {}", known.place, workload.place),
                });
                known.ignored |= workload.ignored;
                known.labels = common(&known.labels, &workload.labels);
                // Either surge may be the true one.
                known.max_surge = known.max_surge.max(workload.max_surge);
            }
        }
    }

    /// Lets a declaration answer to another id. Two declarations of one id leave both to people.
    pub(super) fn alias(&mut self, alias: WorkloadId, id: WorkloadId) {
        match self.declared.aliases.get(&alias).cloned() {
            Some(other) if other != id => {
                let places: Vec<String> = [&other, &id]
                    .iter()
                    .filter_map(|id| Some(self.declared.workloads.get(id)?.place.clone()))
                    .collect();
                for id in [other, id] {
                    if let Some(declared) = self.declared.workloads.get_mut(&id) {
                        declared.editable =
                            Err(format!("`{alias}` may be declared at {}", places.join(" or at ")));
                    }
                }
            }
            Some(_) => {}
            None => {
                self.declared.aliases.insert(alias, id);
            }
        }
    }

    /// Notes a GPU whose workload is not known.
    pub(super) fn unmatched(&mut self, note: String) {
        self.unmatched.insert(note.clone());
        self.note(note);
    }

    pub(super) fn note(&mut self, text: String) {
        self.declared.notes.push(text);
    }
}

const TWICE: &str = "declared twice: ";

const SEVERAL: &str = "declared several times: ";
