//! What the ground of a workload allows: strategy, driver, operator and provider, whatever the workload itself needs.

use std::collections::BTreeSet;

use super::Request;
use crate::catalog::{DriverVersion, GpuModel};
use crate::fit::{Ground, Reason};
use crate::inventory::{MigStrategy, Node, Sharing};

/// Driver builds that leave pods pending on nodes that mix MIG and whole cards (NVIDIA/gpu-operator#1361; fixed in
/// 570.172.08).
pub(super) const BROKEN_MIXED_DRIVERS: [&str; 4] = ["570.124.06", "570.133.20", "570.148.08", "570.158.01"];

/// First driver whose container turns on coherent driver memory (CDMM) on Grace systems, which MIG cannot work with
/// (GPU Operator release notes 25.3).
const CDMM_DRIVER: &str = "580.65.06";

/// First GPU Operator whose MIG manager knows a model, where that is not all of them (MIG manager release notes:
/// 0.10 GH200 144G, 0.11 B200, 0.12 GB200, 0.12.3 RTX PRO 6000, 0.13 B300 and GB300).
const MIN_OPERATOR: [(&str, &str); 6] = [
    ("gh200-144gb", "24.9.2"),
    ("b200-180gb", "25.3.0"),
    ("gb200-186gb", "25.3.4"),
    ("rtx-pro-6000-blackwell-96gb", "25.3.4"),
    ("b300-269gb", "25.10.0"),
    ("gb300-278gb", "25.10.0"),
];

/// The ground under cards of `model` in the request's pool.
pub(super) fn ground(request: &Request<'_>, model_name: Option<&str>, model: Option<&GpuModel>) -> Ground {
    let nodes: Vec<&Node> = request
        .inventory
        .nodes
        .iter()
        .filter(|node| request.pool.nodes.contains(&node.name))
        .filter(|node| model_name.is_none_or(|name| node.model_names().contains(name)))
        .collect();
    let measured = request.measured;
    let operator = &request.declared.operator;
    let provider = nodes.iter().find_map(|node| provider_owned(request, node));
    Ground {
        slice_memory: model_name
            .and_then(|name| measured.slice_memory.get(name))
            .cloned()
            .unwrap_or_default(),
        driver: oldest_driver(&nodes).map(|(text, _)| text),
        smallest_framebuffer: model_name.and_then(|name| measured.smallest_framebuffer.get(name)).copied(),
        mig_refused: provider
            .clone()
            .or_else(|| off(operator.mig_manager_off.as_ref()))
            .or_else(|| off(operator.device_plugin_off.as_ref()))
            .or_else(|| model.and_then(|model| mig_refused(request, &nodes, model))),
        time_slicing_refused: provider.or_else(|| off(operator.device_plugin_off.as_ref())),
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

/// Sharing that the cloud's node pool fixes at creation.
fn provider_owned(request: &Request<'_>, node: &Node) -> Option<Reason> {
    let gke = ["cloud.google.com/gke-gpu-partition-size", "cloud.google.com/gke-gpu-sharing-strategy"];
    let clouds = ["cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool"];
    let key = gke.iter().find(|key| node.label(key).is_some()).or_else(|| {
        // Without the GPU Operator the cloud's own device plugin reads none of the operator's labels.
        let operated = request.declared.operator.declared_in_repository;
        clouds.iter().find(|key| !operated && node.label(key).is_some())
    })?;
    Some(
        Reason::new(
            "provider-owned",
            format!("`{key}` on {}: sharing is a property of the node pool, fixed when it is made", node.name),
        )
        .with_advice(
            "make a new node pool with the wanted partition size or sharing strategy; where the GPU Operator runs, keep \
             its ClusterPolicy in the repository",
        ),
    )
}

fn mig_refused(request: &Request<'_>, nodes: &[&Node], model: &GpuModel) -> Option<Reason> {
    strategy(request, nodes).or_else(|| driver(nodes, model)).or_else(|| operator(request, model))
}

/// `mig.strategy` as the labels of nodes show it. Nodes that share their cards already say nothing of the others: a
/// config of their own may set theirs, and a plan leaves them as they are.
fn live_strategies(nodes: &[&Node]) -> BTreeSet<MigStrategy> {
    let on_whole_cards = nodes.iter().filter(|node| node.sharing() == Sharing::Whole);
    on_whole_cards
        .filter_map(|node| match node.label("nvidia.com/mig.strategy")? {
            "mixed" => Some(MigStrategy::Mixed),
            "single" => Some(MigStrategy::Single),
            "none" => Some(MigStrategy::None),
            _ => None,
        })
        .collect()
}

fn strategy(request: &Request<'_>, nodes: &[&Node]) -> Option<Reason> {
    let advice = "set `spec.mig.strategy: mixed` on the ClusterPolicy as a change of its own: it renames resources \
                  in the whole cluster";
    let live = live_strategies(nodes);
    let written = request.declared.operator.mig_strategy.or_else(|| live.first().copied());
    if let Some(written) = written
        && let Some(live) = live.iter().find(|live| **live != written)
    {
        return Some(
            Reason::new(
                "mig-strategy-differs",
                format!("`mig.strategy` is both `{written:?}` and `{live:?}`, by what is written and what nodes show").to_lowercase(),
            )
            .with_advice("wait until the change of strategy has reached the nodes"),
        );
    }
    match written {
        Some(MigStrategy::Mixed) => None,
        Some(MigStrategy::Single) => Some(
            Reason::new(
                "mig-strategy-single",
                "the cluster's `mig.strategy` is `single`: slices would still be called `nvidia.com/gpu`",
            )
            .with_advice(advice),
        ),
        Some(MigStrategy::None) => Some(
            Reason::new("mig-strategy-none", "the cluster's `mig.strategy` is `none`: slices are not advertised")
                .with_advice(advice),
        ),
        None => Some(
            Reason::new(
                "mig-strategy-unknown",
                "the cluster's `mig.strategy` is not known: neither the repository's ClusterPolicy nor the node \
                 label `nvidia.com/mig.strategy` says it",
            )
            .with_advice("set `gpu_operator.mig_strategy` for the cluster in the configuration"),
        ),
    }
}

fn driver(nodes: &[&Node], model: &GpuModel) -> Option<Reason> {
    if model.can_partition() && oldest_driver(nodes).is_none() {
        return Some(
            Reason::new("driver-unknown", "no node's driver version is known, and MIG needs a minimum")
                .with_advice(
                    "let the exporter add `DCGM_FI_DRIVER_VERSION`, or kube-state-metrics the label \
                     `nvidia.com/cuda.driver-version.full`",
                ),
        );
    }
    for node in nodes {
        let version = node.driver_version().and_then(|text| text.parse::<DriverVersion>().ok());
        let (Some(have), Some(need)) = (&version, &model.min_driver) else { continue };
        if have < need {
            return Some(
                Reason::new(
                    "driver-too-old",
                    format!("{} runs driver {have}; MIG on this card needs {need} or newer", node.name),
                )
                .with_advice("update the driver first"),
            );
        }
        let cdmm: Option<DriverVersion> = CDMM_DRIVER.parse().ok();
        let grace =
            node.model_names().iter().any(|name| model.product(name).is_some_and(|product| product.grace));
        if grace && cdmm.is_some_and(|from| *have >= from) {
            return Some(
                Reason::new(
                    "grace-cdmm",
                    format!(
                        "{} is a Grace system with driver {have}, whose coherent memory mode (CDMM) excludes MIG",
                        node.name
                    ),
                )
                .with_advice("switch the driver to NUMA mode first, if that suits its other workloads"),
            );
        }
    }
    None
}

fn operator(request: &Request<'_>, model: &GpuModel) -> Option<Reason> {
    let version = request.declared.operator.version.as_deref()?;
    let need = MIN_OPERATOR.iter().find(|(id, _)| *id == model.id)?.1;
    (numbers(version) < numbers(need)).then(|| {
        Reason::new(
            "operator-too-old",
            format!("GPU Operator {version}: its MIG manager does not know this card before {need}"),
        )
        .with_advice("update the GPU Operator first")
    })
}

/// `v25.3.4` as comparable numbers.
pub(super) fn numbers(version: &str) -> Vec<u32> {
    version
        .trim_start_matches('v')
        .split(['.', '-', '+'])
        .map_while(|part| part.parse::<u32>().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        assert!(numbers("v25.10.1") > numbers("25.3.4"));
        assert!(numbers("24.9.2") < numbers("25.3.0"));
    }
}
