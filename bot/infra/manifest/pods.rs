//! What one object says of its pods: where each GPU request stands, labels, selectors, tolerations.

use std::collections::{BTreeMap, BTreeSet};

use slicewright_core::inventory::DeclaredWorkload;
use slicewright_yaml::Step;

use super::surge::{max_surge, number};
use super::{Finding, OPT_OUT, PRODUCT};
use crate::infra::kinds;
use crate::infra::labels::{Labels, Side};
use crate::infra::memory_flags::memory_flags;
use crate::infra::repository::{Object, Parsed};
use crate::infra::walk::{self, At};

/// One key `nvidia.com/…` under `requests` or `limits`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::infra) struct GpuRequest {
    /// The way to the mapping that holds the key.
    pub(in crate::infra) mapping: Vec<Step>,
    /// `nvidia.com/gpu`.
    pub(in crate::infra) resource: String,
    /// As written, without quotes.
    pub(in crate::infra) value: String,
    /// Container name.
    pub(in crate::infra) container: String,
    /// `limits` or `requests`.
    pub(in crate::infra) side: &'static str,
    pub(in crate::infra) line: usize,
    /// Written as `name` and `quantity` rather than as key and value.
    pub(in crate::infra) named: bool,
    /// Reached through an alias or a merge key: the text stands elsewhere.
    pub(in crate::infra) borrowed: bool,
}

/// One object as a finding, if it is a workload with a GPU.
pub(in crate::infra) fn find(path: &str, parsed: &Parsed, object: &Object) -> Option<Finding> {
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
pub(in crate::infra) fn is_gpu(resource: &str) -> bool {
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
pub(in crate::infra) fn toleration(key: Option<&str>, operator: Option<&str>, value: Option<&str>) -> String {
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
pub(in crate::infra) fn strings(mapping: &At<'_>) -> BTreeMap<String, String> {
    mapping
        .node
        .entries()
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value.as_str()?.to_owned())))
        .collect()
}

pub(super) fn opts_out(object: &At<'_>) -> bool {
    object
        .down("metadata.annotations")
        .and_then(|annotations| annotations.node.get(OPT_OUT))
        .and_then(|value| value.as_str())
        .is_some_and(|value| value.eq_ignore_ascii_case("true"))
}
