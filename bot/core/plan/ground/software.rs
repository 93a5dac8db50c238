//! Drivers, operators and settings of nodes: too old for MIG, known to fail, or worth a word.

use super::{SHOWN, oldest_driver};
use crate::catalog::{DriverVersion, GpuModel};
use crate::fit::Reason;
use crate::inventory::Node;
use crate::plan::Request;
use crate::units::first_few;

/// Driver builds that leave pods pending on nodes that mix MIG and whole cards (NVIDIA/gpu-operator#1361; fixed in
/// 570.172.08).
const BROKEN_MIXED_DRIVERS: [&str; 4] = ["570.124.06", "570.133.20", "570.148.08", "570.158.01"];

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

/// Node label with the machine's product name (GPU Feature Discovery).
const MACHINE_LABEL: &str = "nvidia.com/gpu.machine";

/// Node label that says whether cards are set to compute or to graphics (GPU Feature Discovery).
const MODE_LABEL: &str = "nvidia.com/gpu.mode";

/// Why this card must not be cut on these nodes.
pub(super) fn refused(request: &Request<'_>, nodes: &[&Node], model: &GpuModel) -> Option<Reason> {
    machine(nodes, model)
        .or_else(|| display_mode(nodes, model))
        .or_else(|| driver(nodes, model))
        .or_else(|| operator(request, model))
}

/// Why no node may hold slices beside whole cards.
pub(super) fn no_mixed_nodes(nodes: &[&Node]) -> Option<Reason> {
    let broken =
        |node: &&&Node| node.driver_version().is_some_and(|version| BROKEN_MIXED_DRIVERS.contains(&version));
    let first = nodes.iter().find(broken)?;
    let names: Vec<&str> = nodes.iter().filter(broken).map(|node| node.name.as_str()).collect();
    Some(
        Reason::new(
            "driver-defect",
            format!(
                "driver {} on {} leaves pods pending where a node holds slices and whole cards",
                first.driver_version().unwrap_or_default(),
                first_few(&names, SHOWN, ", ")
            ),
        )
        .with_advice("update the driver to 570.172.08 or newer first"),
    )
}

fn machine(nodes: &[&Node], model: &GpuModel) -> Option<Reason> {
    nodes.iter().find_map(|node| {
        let machine = node.label(MACHINE_LABEL)?;
        let same = |wanted: &str| machine.to_lowercase().contains(&wanted.to_lowercase());
        let refused = model.refused_machines.iter().find(|refused| same(&refused.machine))?;
        Some(
            Reason::new(
                "machine-refused",
                format!("{} is a {machine}, where slices of this card fail: {}", node.name, refused.reason),
            )
            .with_advice("share this card by time-slicing, where policy allows it"),
        )
    })
}

/// Workstation cards that are set to graphics cannot be cut.
fn display_mode(nodes: &[&Node], model: &GpuModel) -> Option<Reason> {
    let node = nodes.iter().find(|node| {
        workstation(node, model).is_some()
            && node.label(MODE_LABEL).is_some_and(|mode| mode != "compute" && mode != "unknown")
    })?;
    Some(
        Reason::new(
            "display-mode",
            format!(
                "`{MODE_LABEL}` is `{}` on {}: a workstation card must be set to compute before MIG can be used",
                node.label(MODE_LABEL).unwrap_or_default(),
                node.name
            ),
        )
        .with_advice("switch the card's display mode to compute with NVIDIA's displaymodeselector"),
    )
}

/// The VBIOS that a workstation card on the node needs.
fn workstation<'a>(node: &Node, model: &'a GpuModel) -> Option<&'a str> {
    node.model_names().iter().find_map(|name| model.product(name)?.min_vbios.as_deref())
}

fn driver(nodes: &[&Node], model: &GpuModel) -> Option<Reason> {
    if oldest_driver(nodes).is_none() {
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

/// What does not forbid MIG here, and should be known before the first node is changed.
pub(super) fn cautions(request: &Request<'_>, nodes: &[&Node], model: &GpuModel) -> Vec<Reason> {
    let nodes_where = |holds: &dyn Fn(&Node) -> bool| {
        let names: Vec<&str> =
            nodes.iter().filter(|node| holds(node)).map(|node| node.name.as_str()).collect();
        (!names.is_empty()).then(|| first_few(&names, SHOWN, ", "))
    };
    let version = request.declared.operator.version.as_deref().map(numbers).unwrap_or_default();
    let mut cautions = Vec::new();
    if let Some(places) =
        nodes_where(&|node| node.label("nvidia.com/gpu.deploy.driver") == Some("pre-installed"))
    {
        cautions.push(
            Reason::new(
                "host-driver",
                format!(
                    "the driver is installed on the host of {places}: the MIG manager stops its GPU services, and for \
                     some 30 s the kubelet when MIG is turned on or off (NVIDIA/mig-parted#19: it stayed stopped)"
                ),
            )
            .with_advice("see that the kubelet runs again before the next node"),
        );
    }
    let selinux = "feature.node.kubernetes.io/kernel-selinux.enabled";
    if version.starts_with(&[25, 10])
        && let Some(places) = nodes_where(&|node| node.label(selinux) == Some("true"))
    {
        cautions.push(
            Reason::new(
                "selinux",
                format!("SELinux is on on {places}, and it kept the MIG manager of GPU Operator 25.10 from working"),
            )
            .with_advice("update the GPU Operator to 26.3 first, or try one node and look at `mig.config.state`"),
        );
    }
    let release = |node: &Node, key: &str| {
        node.label(&format!("feature.node.kubernetes.io/system-os_release.{key}")).map(str::to_owned)
    };
    if (vec![25, 10, 1]..=vec![26, 3, 0]).contains(&version)
        && let Some(places) = nodes_where(&|node| {
            release(node, "ID").as_deref() == Some("rhel")
                && release(node, "VERSION_ID.major").as_deref() == Some("8")
        })
    {
        cautions.push(
            Reason::new(
                "rhel8-glibc",
                format!(
                    "{places} runs RHEL 8, whose GLIBC is too old for the MIG manager of this GPU Operator \
                     (NVIDIA/mig-parted#329)"
                ),
            )
            .with_advice("use MIG manager 0.14.1 or newer"),
        );
    }
    if model.mode_switch_needs_gpu_reset != Some(false)
        && let Some(places) = nodes_where(&|node| node.label("cloud.google.com/gke-nodepool").is_some())
    {
        cautions.push(
            Reason::new(
                "gke-reboot",
                format!("{places} runs on GKE, where turning MIG on takes a reboot of the node"),
            )
            .with_advice("set `WITH_REBOOT=true` in `spec.migManager.env` of the ClusterPolicy"),
        );
    }
    if let Some((node, vbios)) = nodes.iter().find_map(|node| Some((node, workstation(node, model)?))) {
        let mode =
            if node.label(MODE_LABEL) == Some("compute") { "" } else { "the display mode compute and " };
        cautions.push(
            Reason::new(
                "workstation-card",
                format!("{} holds a workstation card: MIG needs {mode}VBIOS {vbios} or newer", node.name),
            )
            .with_advice("look at `nvidia-smi -q` on every node first: MIG must not read `N/A`"),
        );
    }
    cautions
}

/// `v25.3.4` as comparable numbers.
pub(in crate::plan) fn numbers(version: &str) -> Vec<u32> {
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
