//! Pods and their owners in plain manifests: where each GPU request stands, and the edit that changes it.

use std::collections::{BTreeMap, BTreeSet};

use slicewright_core::ids::WorkloadId;
use slicewright_core::inventory::DeclaredWorkload;
use slicewright_core::plan::Change;
use slicewright_yaml::{Node, Step};

use super::draft::Draft;
use super::format::{Edition, Format, Reading};
use super::helm_template::{self, helm_chart};
use super::index::Search;
use super::kinds::{self, Carrier, Surge};
use super::kustomize::{self, Files, Rendered, Variant};
use super::labels::{Labels, Side};
use super::memory_flags::memory_flags;
use super::repository::{Object, Parsed, Repository};
use super::serving_runtime;
use super::trials;
use super::walk::{self, At};
use super::workload_edit::{Wish, by_hand};

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

/// One key `nvidia.com/…` under `requests` or `limits`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GpuRequest {
    /// The way to the mapping that holds the key.
    pub(super) mapping: Vec<Step>,
    /// `nvidia.com/gpu`.
    pub(super) resource: String,
    /// As written, without quotes.
    pub(super) value: String,
    /// Container name.
    pub(super) container: String,
    /// `limits` or `requests`.
    pub(super) side: &'static str,
    pub(super) line: usize,
    /// Written as `name` and `quantity` rather than as key and value.
    pub(super) named: bool,
    /// Reached through an alias or a merge key: the text stands elsewhere.
    pub(super) borrowed: bool,
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

/// One object as a finding, if it is a workload with a GPU.
pub(super) fn find(path: &str, parsed: &Parsed, object: &Object) -> Option<Finding> {
    let carrier = kinds::carrier(&object.api_version, &object.kind)?;
    let root = parsed.at(object)?;
    let mut requests = Vec::new();
    let mut pods = Vec::new();
    let mut containers: Vec<At<'_>> = carrier.containers.iter().flat_map(|dotted| root.all(dotted)).collect();
    for container in &containers {
        gpu_requests(container, &mut requests);
    }
    for resources in carrier.resources.iter().flat_map(|dotted| root.all(dotted)) {
        gpu_sides(&resources, "", &mut requests);
    }
    let mut labels = BTreeMap::new();
    let mut node_selector = BTreeMap::new();
    let mut tolerations = BTreeSet::new();
    let mut pinned = None;
    let mut affinity = Vec::new();
    let mut ignored = opts_out(&root);
    let mut stated = Labels::default();
    if let Some(found) = root.down("metadata.labels") {
        stated.add_all(Side::Object, &found);
    }
    let mut claims = false;
    // The containers of an InferenceService's model stand beside its pod spec.
    let beside = !requests.is_empty();
    for dotted in carrier.pods {
        for pod in root.all(dotted) {
            let before = requests.len();
            let inside: Vec<At<'_>> =
                ["initContainers[]", "containers[]"].iter().flat_map(|list| pod.all(list)).collect();
            for container in &inside {
                gpu_requests(container, &mut requests);
            }
            if let Some(gpu) = carrier.named.and_then(|key| pod.get(key)) {
                named_gpu(&gpu, &mut requests);
            }
            let holds = requests.len() > before || (beside && carrier.pods.first() == Some(dotted));
            if holds {
                containers.extend(inside);
                claims |= pod.get("resourceClaims").is_some_and(|claims| claims.node.items().len() > 0);
                read_pod(&pod, &mut node_selector, &mut tolerations, &mut affinity);
                pinned = pinned.or_else(|| placement_rule(&pod, path));
                if let Some(found) = template_of(&root, &pod).and_then(|at| at.down("metadata.labels")) {
                    stated.add_all(Side::Pods, &found);
                }
                pods.push(pod.path.clone());
            }
        }
        if let Some(template) = dotted.strip_suffix(".spec") {
            for template in root.all(template) {
                ignored |= opts_out(&template);
                if let Some(found) = template.down("metadata.labels") {
                    labels.extend(strings(&found));
                }
            }
        } else if let Some(found) = root.down("metadata.labels") {
            labels.extend(strings(&found));
        }
    }
    if requests.is_empty() {
        return None;
    }
    let line = requests.iter().find(|request| request.side == "limits").unwrap_or(&requests[0]).line;
    let replicas = carrier.replicas.and_then(|dotted| number(&root, dotted));
    let declared = DeclaredWorkload {
        place: format!("{path}:{line}"),
        editable: Ok(()),
        max_surge: max_surge(&root, carrier, replicas),
        replicas,
        ignored,
        labels: BTreeMap::new(),
        node_selector,
        tolerations,
        pinned,
        memory_flags: memory_flags(&containers),
    };
    Some(Finding {
        path: path.to_owned(),
        object: object.clone(),
        requests,
        pods,
        labels,
        stated,
        affinity,
        auto_select: root
            .all("spec.supportedModelFormats[]")
            .iter()
            .any(|format| walk::text(format.node, "autoSelect") == Some("true")),
        obstacle: kinds::obstacle(&object.kind, &root),
        claims,
        variants: Vec::new(),
        declared,
    })
}

/// The pod template around a pod spec; `None` where the object is the pod, or has none.
fn template_of<'s>(root: &At<'s>, pod: &At<'s>) -> Option<At<'s>> {
    let (_, way) = pod.path.split_last().filter(|(_, way)| way.len() > root.path.len())?;
    let node = root.node.at(&way[root.path.len()..])?;
    Some(At::new(node, way.to_vec()))
}

/// Whether a resource name stands for a GPU or a share of one.
pub(super) fn is_gpu(resource: &str) -> bool {
    resource
        .strip_prefix("nvidia.com/")
        .is_some_and(|rest| rest == "gpu" || rest == "gpu.shared" || rest.starts_with("mig-"))
}

fn gpu_requests(container: &At<'_>, found: &mut Vec<GpuRequest>) {
    let name = walk::text(container.node, "name").unwrap_or_default();
    if let Some(resources) = container.get("resources") {
        gpu_sides(&resources, name, found);
    }
}

/// A GPU as `name` and `quantity`.
fn named_gpu(gpu: &At<'_>, found: &mut Vec<GpuRequest>) {
    let (Some(name), Some(quantity)) = (gpu.get("name"), gpu.get("quantity")) else { return };
    let resource = name.node.as_str().unwrap_or_default();
    if is_gpu(resource) {
        found.push(GpuRequest {
            mapping: gpu.path.clone(),
            resource: resource.to_owned(),
            value: quantity.node.as_str().unwrap_or_default().to_owned(),
            container: String::new(),
            side: "limits",
            line: name.node.line(),
            named: true,
            borrowed: gpu.node.via().alias || name.node.via().merge || name.node.via().alias,
        });
    }
}

fn gpu_sides(resources: &At<'_>, name: &str, found: &mut Vec<GpuRequest>) {
    for side in ["limits", "requests"] {
        let Some(mapping) = resources.get(side) else { continue };
        for (key, value) in mapping.entries() {
            if !is_gpu(key) {
                continue;
            }
            let via = value.node.via();
            found.push(GpuRequest {
                mapping: mapping.path.clone(),
                resource: key.to_owned(),
                value: value.node.as_str().unwrap_or_default().to_owned(),
                container: name.to_owned(),
                side,
                line: value.node.line(),
                named: false,
                borrowed: mapping.node.via().alias || via.merge,
            });
        }
    }
}

fn read_pod(
    pod: &At<'_>,
    node_selector: &mut BTreeMap<String, String>,
    tolerations: &mut BTreeSet<String>,
    affinity: &mut Vec<(usize, String)>,
) {
    if let Some(selector) = pod.get("nodeSelector") {
        node_selector.extend(strings(&selector));
    }
    for toleration in pod.all("tolerations[]") {
        let part = |key: &str| walk::text(toleration.node, key);
        tolerations.insert(self::toleration(part("key"), part("operator"), part("value")));
    }
    let terms = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[].matchExpressions[]";
    for term in pod.all(terms) {
        if walk::text(term.node, "key") == Some(PRODUCT) && walk::text(term.node, "operator") == Some("In") {
            affinity.extend(
                term.all("values[]")
                    .iter()
                    .filter_map(|value| Some((value.node.line(), value.node.as_str()?.to_owned()))),
            );
        }
    }
}

/// A toleration as its key, or its key and value; `*` for all.
pub(super) fn toleration(key: Option<&str>, operator: Option<&str>, value: Option<&str>) -> String {
    match (key, operator, value) {
        (None, _, _) => "*".to_owned(),
        (Some(key), Some("Exists"), _) => key.to_owned(),
        (Some(key), _, Some(value)) => format!("{key}={value}"),
        (Some(key), _, None) => format!("{key}="),
    }
}

/// The first placement rule that is more than a selector or a toleration, with its place.
fn placement_rule(pod: &At<'_>, path: &str) -> Option<String> {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let rules = [
        (format!("affinity.nodeAffinity.{required}"), "required node affinity"),
        (format!("affinity.podAffinity.{required}"), "required pod affinity"),
        (format!("affinity.podAntiAffinity.{required}"), "required pod anti-affinity"),
        ("topologySpreadConstraints".to_owned(), "topology spread"),
    ];
    rules.iter().find_map(|(dotted, name)| {
        let at = pod.down(dotted)?;
        Some(format!("{name} (`{path}:{}`)", at.node.line()))
    })
}

/// The entries of a mapping whose values are scalars.
pub(super) fn strings(mapping: &At<'_>) -> BTreeMap<String, String> {
    mapping
        .node
        .entries()
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value.as_str()?.to_owned())))
        .collect()
}

fn opts_out(object: &At<'_>) -> bool {
    object
        .down("metadata.annotations")
        .and_then(|annotations| annotations.node.get(OPT_OUT))
        .and_then(|value| value.as_str())
        .is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

pub(super) fn ignored_namespaces(repository: &Repository<'_>) -> BTreeSet<String> {
    repository
        .objects()
        .filter(|(_, _, object)| object.kind == "Namespace")
        .filter(|(_, parsed, object)| parsed.at(object).is_some_and(|root| opts_out(&root)))
        .map(|(_, _, object)| object.name.clone())
        .collect()
}

fn number(root: &At<'_>, dotted: &str) -> Option<u32> {
    walk::text(root.node, dotted)?.parse().ok()
}

/// A number, or a percentage of `replicas` rounded up.
fn share_of(text: &str, replicas: u32) -> Option<u32> {
    match text.strip_suffix('%') {
        Some(percent) => {
            let percent: u64 = percent.trim().parse().ok().filter(|percent| *percent <= 10_000)?;
            u32::try_from((u64::from(replicas) * percent).div_ceil(100)).ok()
        }
        None => text.parse().ok(),
    }
}

/// Extra pods while the workload rolls, as written or as Kubernetes does when nothing is written.
fn max_surge(root: &At<'_>, carrier: &Carrier, replicas: Option<u32>) -> Option<u32> {
    let replicas = replicas.unwrap_or(1);
    let stated =
        |dotted: &str, default: &str| share_of(walk::text(root.node, dotted).unwrap_or(default), replicas);
    match carrier.surge {
        Surge::Never => Some(0),
        Surge::Deployment if walk::text(root.node, "spec.strategy.type") == Some("Recreate") => Some(0),
        Surge::Deployment => stated("spec.strategy.rollingUpdate.maxSurge", "25%"),
        Surge::DaemonSet => stated("spec.updateStrategy.rollingUpdate.maxSurge", "0"),
        Surge::Rollout if walk::down(root.node, "spec.strategy.blueGreen").is_some() => Some(replicas),
        Surge::Rollout => stated("spec.strategy.canary.maxSurge", "25%"),
        Surge::LeaderWorkerSet => stated("spec.rolloutStrategy.rollingUpdateConfiguration.maxSurge", "0"),
        Surge::Unknown => None,
    }
}

/// Extra pods while a workload rolls that says nothing about it.
pub(super) fn rolling(surge: Surge, replicas: Option<u32>) -> Option<u32> {
    match surge {
        Surge::Never | Surge::DaemonSet | Surge::LeaderWorkerSet => Some(0),
        Surge::Deployment | Surge::Rollout => share_of("25%", replicas.unwrap_or(1)),
        Surge::Unknown => None,
    }
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
