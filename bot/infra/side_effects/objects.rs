//! What other objects say of resources and pods that the plan changes: quotas, queues, policies, autoscalers, budgets.

use std::collections::{BTreeMap, BTreeSet};

use super::Reach;
use crate::infra::kinds;
use crate::infra::manifest;
use crate::infra::repository::{File, Object};
use crate::infra::text::one_line;
use crate::infra::walk::{self, At};

impl Reach<'_> {
    pub(super) fn object(&self, file: &File<'_>, object: &Object, root: &At<'_>) -> Vec<String> {
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
}

/// The text holds a resource's name, and not as a part of a longer one: `nvidia.com/gpu` is not in `nvidia.com/gpu.shared`.
fn names(text: &str, resource: &str) -> bool {
    text.match_indices(resource).any(|(at, _)| {
        let after = text[at + resource.len()..].chars().next();
        !after.is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '/'))
    })
}
