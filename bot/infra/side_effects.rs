//! Things elsewhere in the cluster's files that a plan touches without changing them, a sentence each.

mod objects;

mod selectors;

mod counters;

use std::collections::{BTreeMap, BTreeSet};

use slicewright_core::ids::WorkloadId;
use slicewright_core::inventory::is_batch_kind;
use slicewright_core::plan::Change;
use slicewright_core::plan::node_pool::PoolCards;

use super::config_map;
use super::draft::Draft;
use super::format::Edition;
use super::gpu_operator;
use super::kustomize::parent;
use super::manifest::{self, Finding};
use super::repository::Repository;
use super::text::one_line;

/// Kinds that are looked at, as words in files that were not parsed for another reason.
const WORDS: &[&str] = &["HorizontalPodAutoscaler", "ScaledObject", "PodDisruptionBudget"];

/// What the plan does, in the words that matter here.
struct Reach<'a> {
    edition: &'a Edition<'a>,
    /// Workloads whose pods restart.
    workloads: BTreeSet<WorkloadId>,
    namespaces: BTreeSet<&'a str>,
    /// Old resource and the new ones that replace it, where they differ.
    renamed: BTreeMap<&'a str, BTreeSet<&'a str>>,
    mig: bool,
    sharing: bool,
    findings: Vec<Finding>,
}

/// Searches the cluster's files and adds what was found.
pub(super) fn search(edition: &Edition<'_>, draft: &mut Draft<'_>) {
    let repository = edition.repository;
    let reach = Reach::new(edition);
    let further = repository.further(WORDS);
    for file in repository.files.values().chain(further.values()) {
        let Ok(parsed) = &file.parsed else { continue };
        for object in &parsed.objects {
            let Some(root) = parsed.at(object) else { continue };
            for sentence in reach.object(file, object, &root) {
                draft.side_effect(sentence);
            }
        }
    }
    for sentence in reach
        .immutable()
        .into_iter()
        .chain(reach.selectors())
        .chain(reach.label_selectors())
        .chain(reach.other_maps())
    {
        draft.side_effect(sentence);
    }
    for sentence in unread_folders(repository, draft) {
        draft.side_effect(sentence);
    }
    if reach.mig {
        for sentence in counters::counters(repository) {
            draft.side_effect(sentence);
        }
    }
}

impl<'a> Reach<'a> {
    fn new(edition: &'a Edition<'a>) -> Self {
        let mut reach = Self {
            edition,
            workloads: BTreeSet::new(),
            namespaces: BTreeSet::new(),
            renamed: BTreeMap::new(),
            mig: false,
            sharing: false,
            findings: manifest::findings(edition.repository),
        };
        for change in &edition.plan.changes {
            match change {
                Change::SetWorkloadResource { workload, from, to, .. } => {
                    reach.workloads.insert(edition.written_as(workload));
                    reach.namespaces.insert(&workload.namespace);
                    if from != to {
                        reach.renamed.entry(from).or_default().insert(to);
                    }
                }
                Change::PinWorkload { workload, .. } => {
                    reach.workloads.insert(edition.written_as(workload));
                    reach.namespaces.insert(&workload.namespace);
                }
                Change::SetMigConfig { .. } => reach.mig = true,
                // GKE's plugin changes no label of the product.
                Change::AddNodePool { cards, .. } => {
                    reach.mig |= matches!(cards, PoolCards::Partition { .. });
                }
                Change::SetPluginConfig { .. } => reach.sharing = true,
                Change::LabelNodes { key, .. } | Change::LabelGroup { key, .. } => {
                    reach.mig |= key == "nvidia.com/mig.config";
                }
            }
        }
        reach.workloads.extend(edition.plan.items.iter().map(|item| edition.written_as(&item.fit.workload)));
        reach.namespaces.extend(edition.plan.items.iter().map(|item| item.fit.workload.namespace.as_str()));
        reach
    }

    /// Workloads whose pods cannot be changed in place.
    fn immutable(&self) -> Vec<String> {
        let mut found = Vec::new();
        for change in &self.edition.plan.changes {
            let (Change::SetWorkloadResource { workload, .. } | Change::PinWorkload { workload, .. }) =
                change
            else {
                continue;
            };
            let Some(declared) = self.edition.declared.of(workload) else { continue };
            let place = &declared.place;
            let written = self.edition.written_as(workload);
            let kind = written.kind.as_str();
            if matches!(kind, "Job" | "Pod" | "JobSet" | "TrainJob") {
                found.push(format!(
                    "`{place}`: Kubernetes does not change the pods of {kind} `{workload}` in place: one that exists must be \
                     deleted before the new manifest can be applied."
                ));
            } else if is_batch_kind(kind) && kind != "CronJob" || kind == "ReplicaSet" {
                found.push(format!(
                    "`{place}`: pods of {kind} `{workload}` that run keep what they have; the next ones take the change."
                ));
            }
        }
        found
    }

    /// Maps of the same name as the operator's in other namespaces.
    fn other_maps(&self) -> Vec<String> {
        let operator = &self.edition.declared.operator;
        let repository = self.edition.repository;
        let home = gpu_operator::home(repository, operator);
        let mut found = Vec::new();
        for name in gpu_operator::map_names(&self.edition.plan.changes, operator) {
            for map in config_map::named(repository, &name) {
                if let Some(namespace) = map.namespace.as_deref().filter(|namespace| *namespace != home) {
                    found.push(format!(
                        "`{}`: another config map `{name}` stands in namespace `{}`; the operator in `{home}` does not read it.",
                        map.place(),
                        one_line(namespace)
                    ));
                }
            }
        }
        found
    }
}

/// Symlinks and submodules beside the outermost overlays that take what is changed: one of them may lead there too.
fn unread_folders(repository: &Repository<'_>, draft: &Draft<'_>) -> Vec<String> {
    let graph = repository.graph();
    let mut overlays: BTreeSet<&str> = BTreeSet::new();
    for path in draft.changed().keys() {
        overlays.extend(graph.above(path));
        overlays.extend(Some(parent(path)).filter(|folder| graph.kustomization(folder).is_some()));
    }
    overlays.retain(|folder| graph.above(folder).is_empty());
    let mut found = Vec::new();
    for (path, why) in &repository.snapshot.skipped {
        let is_file = path[parent(path).len()..].contains('.');
        let beside = overlays.iter().find(|folder| !folder.is_empty() && parent(folder) == parent(path));
        if let Some(folder) = beside.filter(|_| !is_file) {
            found.push(format!(
                "`{}` was not read: {why}. If it leads to `{folder}`, the change reaches whoever uses it.",
                path.escape_debug()
            ));
        }
    }
    found
}
