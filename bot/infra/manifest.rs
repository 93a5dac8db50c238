//! Pods and their owners in plain manifests: where each GPU request stands, and the edit that changes it.

mod pods;

mod surge;

use std::collections::{BTreeMap, BTreeSet};

use slicewright_core::ids::WorkloadId;
use slicewright_core::inventory::DeclaredWorkload;
use slicewright_core::plan::Change;
use slicewright_yaml::{Node, Step};

use super::draft::Draft;
use super::format::{Edition, Format, Reading};
use super::helm_template::{self, helm_chart};
use super::index::Search;
use super::kinds;
use super::kustomize::{self, Files, Rendered, Variant};
use super::labels::Labels;
use super::repository::{Object, Repository};
use super::serving_runtime;
use super::trials;
use super::walk;
use super::workload_edit::{Wish, by_hand};
use pods::opts_out;
pub(super) use pods::{GpuRequest, find, is_gpu, strings, toleration};
pub(super) use surge::rolling;

/// Annotation that keeps the bot away from a workload or a namespace.
pub(super) const OPT_OUT: &str = "slicewright/ignore";

/// Node label that holds the product name of the cards.
pub(super) const PRODUCT: &str = "nvidia.com/gpu.product";

/// Plain manifests, `List` kinds and custom resources with pod templates.
#[derive(Debug)]
pub(super) struct Manifests;

/// One declaration of a workload that asks for a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) path: String,
    pub(super) object: Object,
    /// Where `nvidia.com/…` stands as a resource.
    pub(super) requests: Vec<GpuRequest>,
    /// Paths of the pod specs that ask for a GPU.
    pub(super) pods: Vec<Vec<Step>>,
    /// Labels of the pod templates, for selectors elsewhere.
    pub(super) labels: BTreeMap<String, String>,
    /// Labels for policies, before Kustomize.
    pub(super) stated: Labels,
    /// Node selector terms on the product label outside of `nodeSelector`, as `line: value`.
    pub(super) affinity: Vec<(usize, String)>,
    /// KServe selects this runtime for models that name none.
    pub(super) auto_select: bool,
    /// Something else of the object speaks against an edit.
    obstacle: Option<String>,
    /// A pod template claims devices by dynamic resource allocation.
    pub(super) claims: bool,
    pub(super) variants: Vec<Variant>,
    pub(super) declared: DeclaredWorkload,
}

impl Format for Manifests {
    fn read(&self, repository: &Repository<'_>, reading: &mut Reading) {
        let ignored_namespaces = ignored_namespaces(repository);
        let findings = findings(repository);
        // Every one is tried, which takes most of the time.
        for declarations in trials::tried(repository, findings, declarations) {
            for (id, declared) in &declarations.workloads {
                let ignored = declared.ignored || ignored_namespaces.contains(&id.namespace);
                reading.add(id.clone(), DeclaredWorkload { ignored, ..declared.clone() });
            }
            declarations.notes.iter().for_each(|note| reading.unmatched(note.clone()));
        }
        kustomize::notes(repository).into_iter().for_each(|note| reading.unmatched(note));
        serving_runtime::read(repository, reading);
        helm_template::read(repository, reading);
        unknown_kinds(repository, reading);
    }

    fn edit(&self, edition: &Edition<'_>, open: &mut Vec<&Change>, draft: &mut Draft<'_>) {
        if !open.iter().any(|change| Wish::of(change).is_some()) {
            return;
        }
        let findings = findings(edition.repository);
        open.retain(|change| {
            let Some((workload, wish)) = Wish::of(change) else { return true };
            let written = edition.written_as(workload);
            let Some((finding, variant)) =
                findings.iter().find_map(|finding| Some((finding, finding.variant(&written)?)))
            else {
                return true;
            };
            match kustomize::edit(edition.repository, draft.changed(), finding, variant, &wish) {
                Ok(changed) => changed.into_iter().for_each(|(path, text)| draft.set(&path, text)),
                Err(why) => {
                    let place = edition.declared.of(workload).map(|found| found.place.as_str());
                    draft.manual(by_hand(workload, place, &wish, why));
                }
            }
            false
        });
    }
}

/// What one finding declares.
#[derive(Debug, Default)]
pub(super) struct Declarations {
    workloads: Vec<(WorkloadId, DeclaredWorkload)>,
    notes: Vec<String>,
}

/// What one finding declares, by trying. All that counts is the finding, which paths there are and are the cluster's, the
/// graph, and the texts that `files` are asked for.
fn declarations(files: &Files<'_>, finding: &Finding) -> Declarations {
    let mut found = Declarations::default();
    let place = &finding.declared.place;
    let name = format!("{} `{}`", finding.object.kind, finding.object.name);
    if finding.object.kind == serving_runtime::KIND {
        return found;
    }
    let mut seen = BTreeSet::new();
    for variant in &finding.variants {
        // Two ways to a root can make the same object of it; `refusal` says so.
        if !seen.insert((&variant.namespace, &variant.name)) {
            continue;
        }
        if finding.object.name.is_empty() {
            found.notes.push(format!("`{place}`: a {} without a name was not matched", finding.object.kind));
            continue;
        }
        let Some(namespace) = &variant.namespace else {
            found.notes.push(format!(
                "`{place}`: {name} names no namespace and no kustomization gives it one, so it was not matched"
            ));
            continue;
        };
        let mut declared = finding.declared.clone();
        let refused = match kustomize::rendered(files, &finding.path, &finding.object, variant) {
            Rendered::AsWritten => refusal(files, finding, finding, variant),
            Rendered::NoGpu => continue,
            Rendered::Unknown(why) => Some(why),
            Rendered::Pods(pods) => {
                let refused = refusal(files, finding, &pods, variant);
                let place = Some(pods.declared.place).filter(|place| !place.is_empty());
                declared = DeclaredWorkload {
                    place: place.unwrap_or(declared.place),
                    pinned: pods.declared.pinned.and_then(|rule| declared.pinned.or(Some(rule))),
                    ..pods.declared
                };
                refused
            }
        };
        declared.ignored |= variant.ignored;
        declared.editable = refused.map_or(Ok(()), Err);
        declared.labels = variant.labels(&finding.stated).resolved();
        found.workloads.push((WorkloadId::new(&finding.object.kind, namespace, &variant.name), declared));
    }
    found
}

impl Finding {
    /// What becomes of this under the name of `workload`. `None`: it is another one.
    pub(super) fn variant(&self, workload: &WorkloadId) -> Option<&Variant> {
        self.variants.iter().filter(|_| self.object.kind == workload.kind).find(|variant| {
            variant.name == workload.name && variant.namespace.as_deref() == Some(&workload.namespace)
        })
    }

    /// Whether this declares `workload`.
    pub(super) fn is(&self, workload: &WorkloadId) -> bool {
        self.variant(workload).is_some()
    }
}

/// Every declaration of a workload with a GPU, in the order of paths.
pub(super) fn findings(repository: &Repository<'_>) -> Vec<Finding> {
    let overlays = repository.overlays();
    let mut found: Vec<Finding> = repository
        .objects()
        .filter(|(file, _, object)| {
            kinds::carrier(&object.api_version, &object.kind).is_some()
                && helm_chart(&repository.texts, file.path).is_none()
                && !overlays.patch_files.contains(file.path)
        })
        .filter_map(|(file, parsed, object)| {
            let mut finding = find(file.path, parsed, object)?;
            let variants = kustomize::variants(repository, file.path, object);
            finding.variants = repository.as_deployed(file.path, variants);
            Some(finding)
        })
        .collect();
    let further = kustomize::further(repository, &found);
    found.extend(further);
    found
}

pub(super) fn ignored_namespaces(repository: &Repository<'_>) -> BTreeSet<String> {
    repository
        .objects()
        .filter(|(_, _, object)| object.kind == "Namespace")
        .filter(|(_, parsed, object)| parsed.at(object).is_some_and(|root| opts_out(&root)))
        .map(|(_, _, object)| object.name.clone())
        .collect()
}

/// Why one variant of a finding cannot be edited, told by trying. `pods` is what is rendered of it.
pub(super) fn refusal(
    files: &Files<'_>,
    finding: &Finding,
    pods: &Finding,
    variant: &Variant,
) -> Option<String> {
    let same = |other: &&Variant| (&other.name, &other.namespace) == (&variant.name, &variant.namespace);
    let roots: Vec<String> = finding
        .variants
        .iter()
        .filter(same)
        .map(|variant| format!("`{}`", variant.root.as_deref().unwrap_or(&finding.path)))
        .collect();
    if roots.len() > 1 {
        return Some(format!("more than one overlay makes it of `{}`: {}", finding.path, roots.join(", ")));
    }
    if let Some(obstacle) = finding.obstacle.as_ref().or(pods.obstacle.as_ref()) {
        return Some(obstacle.clone());
    }
    if pods.claims {
        return Some("its pods claim devices by dynamic resource allocation as well".to_owned());
    }
    let resources: BTreeSet<&str> = pods.requests.iter().map(|request| request.resource.as_str()).collect();
    let pin = BTreeMap::new();
    resources.into_iter().find_map(|from| {
        let wish = Wish { from, to: "nvidia.com/mig-0g.0gb", count: None, pin: &pin };
        kustomize::edit_of(files, finding, variant, &wish).err()
    })
}

/// GPU requests in kinds that the table does not know, and in files that hold no objects, such as Helm values.
fn unknown_kinds(repository: &Repository<'_>, reading: &mut Reading) {
    let search = Search::new(&["nvidia.com/"]);
    for file in repository.files.values() {
        let Ok(parsed) = &file.parsed else { continue };
        if !repository.holds(file.path, &search)
            || helm_chart(&repository.texts, file.path).is_some()
            || repository.overlays().patch_files.contains(file.path)
        {
            continue;
        }
        for object in &parsed.objects {
            if kinds::carrier(&object.api_version, &object.kind).is_none()
                && !(matches!(object.kind.as_str(), "HelmRelease" | "Application")
                    && repository.helm().holds_values(file.path))
                && let Some(line) = parsed.at(object).and_then(|root| first_gpu(root.node))
            {
                reading.unmatched(format!(
                    "`{}:{line}`: {} `{}` asks for a GPU in a place that is not known to hold pods, so it was not \
                     matched",
                    file.path, object.kind, object.name
                ));
            }
        }
        if parsed.objects.is_empty()
            && !repository.helm().holds_values(file.path)
            && let Some(line) = parsed.documents().find_map(first_gpu)
        {
            reading.unmatched(format!(
                "`{}:{line}` asks for a GPU in a file that holds no Kubernetes objects, so it was not matched",
                file.path
            ));
        }
    }
}

/// The line of the first `resources` below a node that name a GPU.
fn first_gpu(root: Node<'_>) -> Option<usize> {
    let mut line = None;
    walk::every(root, &mut |key, node| {
        if key != Some("resources") {
            return;
        }
        for side in ["limits", "requests"] {
            let entries = node.get(side).map(|side| side.entries()).unwrap_or_default();
            if let Some((_, value)) = entries.into_iter().find(|(key, _)| is_gpu(key)) {
                line.get_or_insert(value.line());
            }
        }
    });
    line
}
