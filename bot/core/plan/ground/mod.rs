//! What the ground of a workload allows: strategy, driver, operator and provider, whatever the workload itself needs.

mod owner;

mod strategy;

mod software;

mod names;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::node_group::NodeGroupKind;
use super::{Request, node_pool};
use crate::catalog::{DriverVersion, GpuModel};
use crate::fit::{Ground, Reason};
use crate::inventory::Node;

pub(super) use software::numbers;

/// Nodes and workloads that a sentence names at most.
const SHOWN: usize = 5;

/// The ground under cards of `model` in the request's pool.
pub(super) fn ground(request: &Request<'_>, model_name: Option<&str>, model: Option<&GpuModel>) -> Ground {
    let mut nodes: Vec<&Node> = request
        .inventory
        .nodes
        .iter()
        .filter(|node| request.pool.nodes.contains(&node.name))
        .filter(|node| model_name.is_none_or(|name| node.model_names().contains(name)))
        .collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    let measured = request.measured;
    let operator = &request.declared.operator;
    let unsafe_for_both = owner::refused(request, &nodes).or_else(|| several_models(request, &nodes));
    let new_pool = node_pool::of(request);
    let (names, names_refused) = match model {
        Some(model) => names::resolve(request, &nodes, model),
        None => (None, None),
    };
    Ground {
        slice_memory: model_name
            .and_then(|name| measured.slice_memory.get(name))
            .cloned()
            .unwrap_or_default(),
        driver: oldest_driver(&nodes).map(|(text, _)| text),
        smallest_framebuffer: model_name.and_then(|name| measured.smallest_framebuffer.get(name)).copied(),
        names: names.unwrap_or_default(),
        mig_refused: match &new_pool {
            Some(group) => owner::refused_to_a_new_pool(request, &nodes)
                .or_else(|| several_models(request, &nodes))
                .or_else(|| {
                    let model = model.filter(|model| model.can_partition())?;
                    node_pool::refused(request, group, model)
                        .or_else(|| software::refused(request, &nodes, model))
                        .or(names_refused)
                }),
            None => unsafe_for_both
                .clone()
                .or_else(|| off(operator.mig_manager_off.as_ref()))
                .or_else(|| off(operator.device_plugin_off.as_ref()))
                .or_else(|| {
                    let model = model.filter(|model| model.can_partition())?;
                    strategy::refused(request, &nodes)
                        .or_else(|| software::refused(request, &nodes, model))
                        .or(names_refused)
                }),
        },
        time_slicing_refused: match &new_pool {
            // AKS has no field for it, and its plugin reads none of the operator's labels.
            Some(group) if group.kind == NodeGroupKind::Gke => {
                owner::refused_to_a_new_pool(request, &nodes).or_else(|| several_models(request, &nodes))
            }
            Some(_) | None => unsafe_for_both.clone().or_else(|| off(operator.device_plugin_off.as_ref())),
        },
        mps_refused: unsafe_for_both
            .or_else(|| off(operator.device_plugin_off.as_ref()))
            .or_else(|| strategy::mps_refused(request, &nodes)),
        no_mixed_nodes: software::no_mixed_nodes(&nodes),
        // What the MIG manager does to nodes that run does not happen to a new pool's.
        cautions: model
            .filter(|_| new_pool.is_none())
            .map(|model| software::cautions(request, &nodes, model))
            .unwrap_or_default(),
    }
}

/// The oldest driver among the nodes, as written and as comparable.
fn oldest_driver(nodes: &[&Node]) -> Option<(String, DriverVersion)> {
    nodes
        .iter()
        .filter_map(|node| {
            let text = node.driver_version()?;
            Some((text.to_owned(), text.parse::<DriverVersion>().ok()?))
        })
        .min_by(|(_, a), (_, b)| a.cmp(b))
}

/// A part of the operator that does not run: labels for it would change nothing.
fn off(why: Option<&String>) -> Option<Reason> {
    Some(
        Reason::new("operator-part-off", format!("{}: labels and config maps would have no effect", why?))
            .with_advice(
                "let the GPU Operator run this part, or share these cards by the means that is used instead",
            ),
    )
}

/// A node with cards of several models: one config serves all cards of a node, and its labels name one model alone.
fn several_models(request: &Request<'_>, nodes: &[&Node]) -> Option<Reason> {
    nodes.iter().find_map(|node| {
        let names = node.model_names();
        let kinds: BTreeSet<&str> = names
            .iter()
            .map(|name| request.catalog.find_by_product(name).map_or(*name, |model| model.id.as_str()))
            .collect();
        (kinds.len() > 1).then(|| {
            Reason::new(
                "several-models-on-node",
                format!(
                    "{} holds cards of several models ({}), and its labels name one of them alone",
                    node.name,
                    names.into_iter().collect::<Vec<_>>().join(", ")
                ),
            )
            .with_advice("keep cards of one model on a node, or leave this node to whole cards")
        })
    })
}
