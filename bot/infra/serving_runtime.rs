//! KServe's serving runtimes: templates whose containers, and GPUs, the pods of InferenceServices take over.

use std::collections::{BTreeMap, BTreeSet};

use slicewright_core::ids::WorkloadId;

use super::format::Reading;
use super::kustomize::Files;
use super::manifest::{findings, refusal};
use super::repository::{File, Repository};
use super::walk::{self, At};

/// A runtime of one namespace. One of the whole cluster has no namespace, and is reported.
pub(super) const KIND: &str = "ServingRuntime";

/// Declares a runtime's GPU for the one InferenceService that names the runtime.
pub(super) fn read(repository: &Repository<'_>, reading: &mut Reading) {
    if !repository.objects().any(|(_, _, object)| object.kind == KIND) {
        return;
    }
    let runtimes: Vec<_> =
        findings(repository).into_iter().filter(|finding| finding.object.kind == KIND).collect();
    if runtimes.is_empty() {
        return;
    }
    let users = users(repository);
    let files = Files::new(repository, BTreeMap::new());
    for finding in runtimes {
        let (name, place) = (&finding.object.name, &finding.declared.place);
        let [variant] = finding.variants.as_slice() else {
            reading.unmatched(format!(
                "`{place}`: {KIND} `{name}` belongs to more than one overlay, so it was not matched"
            ));
            continue;
        };
        let Some(namespace) = &variant.namespace else {
            reading
                .unmatched(format!("`{place}`: {KIND} `{name}` names no namespace, so it was not matched"));
            continue;
        };
        let used_by = users.get(&(namespace.clone(), variant.name.clone())).cloned().unwrap_or_default();
        if used_by.is_empty() {
            reading.unmatched(format!(
                "`{place}`: no InferenceService of the cluster's files names {KIND} `{name}` as its runtime, so its GPU was \
                 not matched"
            ));
            continue;
        }
        let mut declared = finding.declared.clone();
        let names: Vec<String> = used_by.iter().map(|id| format!("`{id}`")).collect();
        declared.editable = match (used_by.len(), finding.auto_select) {
            (1, false) => refusal(&files, &finding, &finding, variant).map_or(Ok(()), Err),
            (1, true) => Err(format!(
                "KServe selects {KIND} `{name}` for other InferenceServices by itself (`autoSelect`): an edit could change \
                 them too"
            )),
            _ => Err(format!(
                "the runtime `{name}` is that of {}: an edit would change them all",
                names.join(", ")
            )),
        };
        let id = WorkloadId::new(KIND, namespace, &variant.name);
        reading.add(id.clone(), declared);
        for user in used_by {
            reading.alias(user, id.clone());
        }
    }
}

/// The InferenceServices that name a runtime, by the runtime's namespace and name.
fn users(repository: &Repository<'_>) -> BTreeMap<(String, String), BTreeSet<WorkloadId>> {
    let further = repository.further(&["InferenceService"]);
    let mut found: BTreeMap<(String, String), BTreeSet<WorkloadId>> = BTreeMap::new();
    let files = repository.files.values().chain(further.values());
    for (file, parsed) in files.filter_map(|file: &File<'_>| Some((file, file.parsed.as_deref().ok()?))) {
        for object in parsed.objects.iter().filter(|object| object.kind == "InferenceService") {
            let Some(root) = parsed.at(object) else { continue };
            let runtimes: BTreeSet<String> = root.down("spec.predictor").iter().flat_map(runtimes).collect();
            for variant in repository.variants(file.path, object) {
                let Some(namespace) = variant.namespace else { continue };
                let id = WorkloadId::new("InferenceService", &namespace, &variant.name);
                for runtime in &runtimes {
                    found.entry((namespace.clone(), runtime.clone())).or_default().insert(id.clone());
                }
            }
        }
    }
    found
}

/// `runtime` of a model, in the new form and in the older one with a key for each framework.
fn runtimes(predictor: &At<'_>) -> Vec<String> {
    let of = |(_, at): (&str, At<'_>)| walk::text(at.node, "runtime").map(ToOwned::to_owned);
    predictor.entries().into_iter().filter_map(of).collect()
}
