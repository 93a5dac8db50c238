//! Node selectors on labels that the plan changes.

use std::collections::BTreeSet;

use slicewright_core::ids::WorkloadId;
use slicewright_core::plan::Change;

use super::Reach;
use crate::infra::manifest::PRODUCT;

impl Reach<'_> {
    /// Selectors on the product label that sharing changes: a shared node's label ends with `-SHARED`.
    pub(super) fn selectors(&self) -> Vec<String> {
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
    pub(super) fn label_selectors(&self) -> Vec<String> {
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
}

/// A DCGM model name as the product label of GPU Feature Discovery: other characters dropped, words joined by `-`.
fn product_label(model_name: &str) -> String {
    let kept: String = model_name
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ' '))
        .collect();
    kept.split_whitespace().collect::<Vec<_>>().join("-")
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
