//! Things elsewhere in the cluster's files that a plan touches without changing them, a sentence each.

use std::collections::{BTreeMap, BTreeSet};

use slicewright_core::ids::WorkloadId;
use slicewright_core::inventory::is_batch_kind;
use slicewright_core::plan::Change;

use super::config_map;
use super::draft::Draft;
use super::format::Edition;
use super::gpu_operator;
use super::kinds;
use super::kustomize::parent;
use super::manifest::{self, Finding, PRODUCT};
use super::repository::{File, Object, Repository, is_yaml};
use super::text::one_line;
use super::walk::{self, At};

/// Kinds that are looked at, as words in files that were not parsed for another reason.
const WORDS: &[&str] = &["HorizontalPodAutoscaler", "ScaledObject", "PodDisruptionBudget"];

/// Counters that have no value for MIG instances (NVML does not support utilisation rates there), and what does.
const WITHOUT_MIG: [(&str, &str); 2] = [
    ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_PROF_DRAM_ACTIVE"),
];

/// Longest text that is searched for the counter; dashboards are smaller.
const MAX_SEARCHED: usize = 4 * 1024 * 1024;

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
        for sentence in counters(repository) {
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
                Change::SetMigConfig { .. } | Change::AddNodePool { .. } => reach.mig = true,
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

    fn object(&self, file: &File<'_>, object: &Object, root: &At<'_>) -> Vec<String> {
        let named = format!("{} `{}`", object.kind, one_line(&object.name));
        let place = |line: usize| format!("`{}:{line}`", file.path);
        let namespace = self.edition.repository.namespace(file.path, object);
        let near = namespace.as_deref().is_none_or(|namespace| self.namespaces.contains(namespace));
        match (kinds::group(&object.api_version), object.kind.as_str()) {
            ("", "ResourceQuota") if near => self.names_in(root, "spec.hard", |from, to, line| {
                format!("{}: {named} limits `{from}`, which does not count {to}.", place(line))
            }),
            ("", "LimitRange") if near => self.names_in(root, "spec", |from, to, line| {
                format!("{}: {named} sets limits for `{from}` and none for {to}.", place(line))
            }),
            ("kueue.x-k8s.io", "ClusterQueue" | "ResourceFlavor" | "Cohort") => {
                self.names_in(root, "spec", |from, to, line| {
                    format!("{}: {named} of Kueue names `{from}` and needs an entry for {to}.", place(line))
                })
            }
            ("kyverno.io" | "constraints.gatekeeper.sh" | "templates.gatekeeper.sh", _)
            | ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy") => {
                self.speaks_of(root, |from, to, line| {
                    format!(
                        "{}: the policy {named} speaks about `{from}`; see whether it must know {to}.",
                        place(line)
                    )
                })
            }
            ("autoscaling", "HorizontalPodAutoscaler") | ("keda.sh", "ScaledObject") => {
                self.autoscaler(object, root, namespace.as_deref(), &place(object.line)).into_iter().collect()
            }
            ("apps", "StatefulSet" | "DaemonSet")
                if walk::text(root.node, "spec.updateStrategy.type") == Some("OnDelete")
                    && self.touches(file, object) =>
            {
                vec![format!(
                    "{}: {named} has the update strategy `OnDelete`: its pods take the change when they are deleted.",
                    place(object.line)
                )]
            }
            ("policy", "PodDisruptionBudget") => {
                self.budget(object, root, namespace.as_deref(), &place(object.line))
            }
            _ => Vec::new(),
        }
    }

    /// Whether the plan changes the workload that an object declares.
    fn touches(&self, file: &File<'_>, object: &Object) -> bool {
        self.findings
            .iter()
            .filter(|finding| finding.path == file.path && finding.object == *object)
            .any(|finding| self.workloads.iter().any(|workload| finding.is(workload)))
    }

    /// Keys or values below a path that name a resource which the plan replaces; the first of each. Nothing where
    /// the new resources are named as well.
    fn names_in(
        &self,
        root: &At<'_>,
        dotted: &str,
        sentence: impl Fn(&str, &str, usize) -> String,
    ) -> Vec<String> {
        let Some(below) = walk::down(root.node, dotted) else { return Vec::new() };
        let mut texts: BTreeMap<&str, usize> = BTreeMap::new();
        walk::every(below, &mut |key, node| {
            for text in [key, node.as_str()].into_iter().flatten() {
                texts.entry(text).or_insert(node.line());
            }
        });
        let bare = |text: &str| text.trim_start_matches("requests.").trim_start_matches("limits.").to_owned();
        let known: BTreeSet<String> = texts.keys().map(|text| bare(text)).collect();
        let mut found = Vec::new();
        for (text, line) in &texts {
            let Some(to) = self.renamed.get(bare(text).as_str()) else { continue };
            let missing: Vec<String> =
                to.iter().filter(|to| !known.contains(**to)).map(|to| format!("`{to}`")).collect();
            if !missing.is_empty() {
                found.push(sentence(text, &missing.join(", "), *line));
            }
        }
        found
    }

    /// As [`Reach::names_in`], where the resource may stand anywhere in a text: in Rego, in CEL.
    fn speaks_of(&self, root: &At<'_>, sentence: impl Fn(&str, &str, usize) -> String) -> Vec<String> {
        let mut found = Vec::new();
        for (from, to) in &self.renamed {
            let (mut line, mut known): (Option<usize>, BTreeSet<&str>) = (None, BTreeSet::new());
            walk::every(root.node, &mut |key, node| {
                for text in [key, node.as_str()].into_iter().flatten() {
                    if names(text, from) {
                        line.get_or_insert(node.line());
                    }
                    known.extend(to.iter().copied().filter(|to| names(text, to)));
                }
            });
            let missing: Vec<String> =
                to.iter().filter(|to| !known.contains(*to)).map(|to| format!("`{to}`")).collect();
            if let Some(line) = line.filter(|_| !missing.is_empty()) {
                found.push(sentence(from, &missing.join(", "), line));
            }
        }
        found
    }

    fn autoscaler(
        &self,
        object: &Object,
        root: &At<'_>,
        namespace: Option<&str>,
        place: &str,
    ) -> Option<String> {
        let target = |key: &str| walk::text(root.node, &format!("spec.scaleTargetRef.{key}"));
        let name = target("name")?;
        let kind = target("kind").unwrap_or("Deployment");
        let workload = self.workloads.iter().find(|workload| {
            workload.name == name
                && workload.kind == kind
                && namespace.is_none_or(|found| found == workload.namespace)
        })?;
        let most = walk::text(root.node, "spec.maxReplicas")
            .or_else(|| walk::text(root.node, "spec.maxReplicaCount"));
        let most = most.map_or_else(String::new, |most| format!(" up to {} replicas", one_line(most)));
        Some(format!(
            "{place}: {} `{}` scales {} `{workload}`{most}; metrics of whole cards mean something else on a share.",
            object.kind,
            one_line(&object.name),
            workload.kind
        ))
    }

    fn budget(&self, object: &Object, root: &At<'_>, namespace: Option<&str>, place: &str) -> Vec<String> {
        let Some(wanted) = root.down("spec.selector.matchLabels") else { return Vec::new() };
        let wanted = manifest::strings(&wanted);
        let rule = ["minAvailable", "maxUnavailable"]
            .iter()
            .find_map(|key| {
                Some(format!(" (`{key}: {}`)", one_line(walk::text(root.node, &format!("spec.{key}"))?)))
            })
            .unwrap_or_default();
        let selected = self.workloads.iter().filter(|workload| {
            namespace.is_none_or(|found| found == workload.namespace)
                && self.findings.iter().any(|finding| {
                    finding.is(workload)
                        && wanted.iter().all(|(key, value)| finding.labels.get(key) == Some(value))
                })
        });
        selected
            .map(|workload| {
                format!(
                    "{place}: PodDisruptionBudget `{}`{rule} selects the pods of {} `{workload}`: a drain waits for it.",
                    one_line(&object.name),
                    workload.kind
                )
            })
            .collect()
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

    /// Selectors on the product label that sharing changes: a shared node's label ends with `-SHARED`.
    fn selectors(&self) -> Vec<String> {
        if !self.sharing {
            return Vec::new();
        }
        let plain = product_label(&self.edition.plan.model_name);
        let pinned: BTreeSet<WorkloadId> = self
            .edition
            .plan
            .changes
            .iter()
            .filter_map(|change| match change {
                Change::SetWorkloadResource { workload, pin, .. } if pin.contains_key(PRODUCT) => {
                    Some(self.edition.written_as(workload))
                }
                Change::PinWorkload { workload, selector } if selector.contains_key(PRODUCT) => {
                    Some(self.edition.written_as(workload))
                }
                Change::SetWorkloadResource { .. }
                | Change::PinWorkload { .. }
                | Change::SetMigConfig { .. }
                | Change::SetPluginConfig { .. }
                | Change::LabelGroup { .. }
                | Change::AddNodePool { .. }
                | Change::LabelNodes { .. } => None,
            })
            .collect();
        let mut found = Vec::new();
        for (id, workload) in &self.edition.declared.workloads {
            let finding = self.findings.iter().find(|finding| finding.is(id));
            let by_selector = workload.node_selector.get(PRODUCT).filter(|_| !pinned.contains(id));
            let by_affinity = finding.into_iter().flat_map(|finding| {
                finding.affinity.iter().map(move |(line, value)| (format!("{}:{line}", finding.path), value))
            });
            let all = by_selector.map(|value| (workload.place.clone(), value)).into_iter().chain(by_affinity);
            for (place, value) in all {
                if *value == plain {
                    found.push(format!(
                        "`{place}`: {} `{id}` selects `{PRODUCT}: {value}`; nodes that share their cards carry \
                         `{value}-SHARED` and are not selected any more.",
                        id.kind
                    ));
                }
            }
        }
        found
    }

    /// Selectors on a label whose value the plan changes.
    fn label_selectors(&self) -> Vec<String> {
        let mut found = Vec::new();
        for change in &self.edition.plan.changes {
            let (key, value, old, on): (_, _, BTreeSet<&str>, _) = match change {
                Change::LabelNodes { key, value, nodes } => {
                    let on = if nodes.len() == 1 { "on one node" } else { "on some nodes" };
                    (key, value, nodes.values().flatten().map(String::as_str).collect(), on)
                }
                Change::LabelGroup { key, value, previous, beside: false, .. } => {
                    (key, value, previous.iter().map(String::as_str).collect(), "in the whole node group")
                }
                Change::LabelGroup { .. }
                | Change::AddNodePool { .. }
                | Change::SetMigConfig { .. }
                | Change::SetPluginConfig { .. }
                | Change::SetWorkloadResource { .. }
                | Change::PinWorkload { .. } => continue,
            };
            for (id, workload) in &self.edition.declared.workloads {
                let Some(wanted) = workload.node_selector.get(key).filter(|wanted| *wanted != value) else {
                    continue;
                };
                if old.contains(wanted.as_str()) {
                    found.push(format!(
                        "`{}`: {} `{id}` selects `{key}: {wanted}`, a label that the plan changes {on}.",
                        workload.place, id.kind
                    ));
                }
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

/// The text holds a resource's name, and not as a part of a longer one: `nvidia.com/gpu` is not in `nvidia.com/gpu.shared`.
fn names(text: &str, resource: &str) -> bool {
    text.match_indices(resource).any(|(at, _)| {
        let after = text[at + resource.len()..].chars().next();
        !after.is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '/'))
    })
}

/// A DCGM model name as the product label of GPU Feature Discovery: other characters dropped, words joined by `-`.
fn product_label(model_name: &str) -> String {
    let kept: String = model_name
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ' '))
        .collect();
    kept.split_whitespace().collect::<Vec<_>>().join("-")
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

/// Alerts and dashboards on counters that vanish under MIG, one sentence a file and counter; those of the whole
/// repository, as monitoring is often declared for all clusters in one place.
fn counters(repository: &Repository<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in repository.texts.iter().chain(repository.elsewhere()) {
        let searched = is_yaml(path)
            || [".json", ".jsonnet", ".libsonnet", ".tpl", ".rules"].iter().any(|end| path.ends_with(end));
        if !searched || text.len() > MAX_SEARCHED {
            continue;
        }
        for (counter, instead) in WITHOUT_MIG {
            if !text.contains(counter) {
                continue;
            }
            let mut lines = text.lines().enumerate().filter(|(_, line)| line.contains(counter));
            let Some((first, _)) = lines.next() else { continue };
            let more = match lines.count() {
                0 => String::new(),
                1 => " (and on 1 more line)".to_owned(),
                n => format!(" (and on {n} more lines)"),
            };
            found.push(format!(
                "`{path}:{}`{more}: reads `{counter}`, which is missing or 0 for cards under MIG; `{instead}` is there.",
                first + 1
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn product_labels_are_spelled_as_feature_discovery_does() {
        assert_eq!(product_label("NVIDIA A100 80GB PCIe"), "NVIDIA-A100-80GB-PCIe");
        assert_eq!(product_label("NVIDIA A100-SXM4-40GB"), "NVIDIA-A100-SXM4-40GB");
    }
}
