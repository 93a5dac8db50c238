//! What autoscalers do not know about slices of cards and shared ones, with the places that say so.

use std::collections::BTreeSet;

use slicewright_core::plan::Change;
use slicewright_core::plan::node_group::NodeGroupKind;

use super::{Label, Objects, karpenter, terraform};
use crate::infra::format::Edition;

/// Sentences about the group that carries the label.
pub(super) fn of(edition: &Edition<'_>, objects: &Objects<'_>, label: &Label<'_>) -> Vec<String> {
    let Some(group) = label.group else { return Vec::new() };
    let slices = slices(edition);
    let mut found = Vec::new();
    match group.kind {
        NodeGroupKind::Karpenter => {
            for (one, root) in karpenter::named(objects, &group.name) {
                let place = one.place(one.object.line);
                let unknown: Vec<String> = slices
                    .iter()
                    .filter(|resource| !karpenter::overlay_tells(objects, resource))
                    .map(|resource| format!("`{resource}`"))
                    .collect();
                if !unknown.is_empty() {
                    found.push(format!(
                        "`{place}`: Karpenter knows no instance type with {}, so that it starts no node for a pod that asks \
                         for it: nodes must be there first, or a `NodeOverlay` (alpha) must name this capacity.",
                        unknown.join(", ")
                    ));
                }
                if !slices.is_empty() && !label.beside {
                    found.push(format!(
                        "`{place}`: Karpenter may still start a node of this NodePool for a pod that asks for \
                         `nvidia.com/gpu`; once its cards are cut, the node offers none."
                    ));
                }
                if slices.is_empty() && shares(edition) {
                    found.push(format!(
                        "`{place}`: Karpenter counts `nvidia.com/gpu` by the cards of an instance type, not by shares, and \
                         may start more nodes than shared cards need."
                    ));
                }
                found.extend(karpenter::traps(&one, &root, label));
            }
        }
        NodeGroupKind::Eks => {
            let tags: Vec<String> = slices
                .iter()
                .map(|resource| format!("k8s.io/cluster-autoscaler/node-template/resources/{resource}"))
                .filter(|tag| !terraform::says(edition.repository, tag))
                .map(|tag| format!("`{tag}`"))
                .collect();
            if !tags.is_empty() {
                found.extend(terraform::from_zero(edition.repository, group).into_iter().map(|place| {
                    format!(
                        "`{place}`: the group may have no node. The Cluster Autoscaler makes the first one for pods with \
                         slices only if a tag of the Auto Scaling group tells how many a node has: {}. (AWS does not hand tags of a managed node group on to it.)",
                        tags.join(" and ")
                    )
                }));
            }
        }
        NodeGroupKind::Gke | NodeGroupKind::Aks => {
            if !slices.is_empty() {
                found.extend(terraform::from_zero(edition.repository, group).into_iter().map(|place| {
                    format!(
                        "`{place}`: the group may have no node. The cluster's autoscaler knows slices only from nodes that \
                         it has seen, and may not make the first one for pods with slices: keep one node."
                    )
                }));
            }
        }
        NodeGroupKind::ClusterApi => {}
    }
    found
}

/// Pods must not ask for slices before there are some.
pub(super) fn order(edition: &Edition<'_>, label: &Label<'_>) -> Option<String> {
    let first = if label.beside { "The second node group" } else { "The node group's label" };
    (!slices(edition).is_empty()).then(|| {
        format!(
            "{first} comes first: where one merge applies it together with the workloads, their new pods wait until nodes \
             with slices are there."
        )
    })
}

/// Slices that pods ask for in this plan.
fn slices<'a>(edition: &Edition<'a>) -> BTreeSet<&'a str> {
    let asked = edition.plan.changes.iter().filter_map(|change| match change {
        Change::SetWorkloadResource { to, .. } => Some(to.as_str()),
        Change::SetMigConfig { .. }
        | Change::SetPluginConfig { .. }
        | Change::LabelNodes { .. }
        | Change::LabelGroup { .. }
        | Change::AddNodePool { .. }
        | Change::PinWorkload { .. } => None,
    });
    asked.filter(|resource| resource.starts_with("nvidia.com/mig-")).collect()
}

/// The plan lets pods share whole cards.
fn shares(edition: &Edition<'_>) -> bool {
    edition.plan.changes.iter().any(|change| matches!(change, Change::SetPluginConfig { .. }))
}
