//! How this cluster's driver calls the profiles of a model, where driver branches disagree.

use std::collections::BTreeSet;

use super::SHOWN;
use crate::catalog::names::Names;
use crate::catalog::{DriverVersion, GpuModel, ProfileName};
use crate::fit::Reason;
use crate::inventory::Node;
use crate::plan::Request;
use crate::units::first_few;

/// The names, where they differ from the catalog's; or why they are not known.
///
/// What nodes show comes first, then what the driver's version says, then names of configs in the repository, which
/// may be older than the driver. Nodes of different drivers must agree.
pub(super) fn resolve(
    request: &Request<'_>,
    nodes: &[&Node],
    model: &GpuModel,
) -> (Option<Names>, Option<Reason>) {
    if !model.has_several_names() {
        return (None, None);
    }
    let written: BTreeSet<ProfileName> = request
        .declared
        .operator
        .mig_config_names
        .iter()
        .filter_map(|name| ProfileName::from_config_name(name))
        .collect();
    let mut answers: BTreeSet<Names> = BTreeSet::new();
    let drivers: BTreeSet<Option<&str>> = nodes.iter().map(|node| node.driver_version()).collect();
    for driver in drivers {
        let seen = seen(request, model, driver);
        let by_nodes = model.names_seen(&seen);
        if by_nodes.is_empty() {
            return (None, Some(contradiction(model, &seen)));
        }
        let by_driver = || model.names_on(&driver?.parse::<DriverVersion>().ok()?);
        let found = only(by_nodes).or_else(by_driver).or_else(|| only(model.names_seen(&written)));
        match found {
            Some(names) => answers.insert(names),
            None => return (None, Some(unknown(model, nodes))),
        };
    }
    match only(answers.into_iter().collect()) {
        Some(names) => (names.iter().any(|(own, printed)| own != printed).then_some(names), None),
        None => (None, Some(unknown(model, nodes))),
    }
}

fn only(mut sets: Vec<Names>) -> Option<Names> {
    if sets.len() == 1 { sets.pop() } else { None }
}

/// Profile names that nodes with this model and driver show.
fn seen(request: &Request<'_>, model: &GpuModel, driver: Option<&str>) -> BTreeSet<ProfileName> {
    let known: Vec<ProfileName> = model
        .profiles
        .iter()
        .flat_map(|profile| std::iter::once(profile.name).chain(profile.aliases.iter().copied()))
        .collect();
    let alike = request.inventory.nodes.iter().filter(|node| {
        node.driver_version() == driver && node.model_names().iter().any(|name| model.product(name).is_some())
    });
    let mut seen = BTreeSet::new();
    for node in alike {
        let slices = node.cards.iter().flat_map(|card| &card.slices);
        seen.extend(slices.filter_map(|slice| slice.profile.parse::<ProfileName>().ok()));
        seen.extend(known.iter().copied().filter(|name| {
            let offered = node.gpu_allocatable.get(&name.sanitised_resource()).is_some_and(|n| *n > 0);
            offered || node.label(&format!("{}.count", name.resource())).is_some()
        }));
        if node.label("nvidia.com/mig.config.state") == Some("success") {
            seen.extend(node.label("nvidia.com/mig.config").and_then(ProfileName::from_config_name));
        }
    }
    seen
}

/// `1g.23gb` or `1g.24gb`, for a sentence.
fn both_names(model: &GpuModel) -> String {
    model
        .chain()
        .into_iter()
        .find_map(|profile| Some(format!("`{}` or `{}`", profile.name, profile.aliases.first()?)))
        .unwrap_or_default()
}

fn unknown(model: &GpuModel, nodes: &[&Node]) -> Reason {
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    Reason::new(
        "profile-names-unknown",
        format!(
            "drivers give the slices of this card different names ({}), and nothing shows which on {}: pods that ask \
             for the other one would stay pending",
            both_names(model),
            first_few(&names, SHOWN, ", ")
        ),
    )
    .with_advice(format!(
        "run `nvidia-smi mig -lgip` on a node, then write `{}` with the printed names under `catalog:` in the \
         configuration",
        model.id
    ))
}

fn contradiction(model: &GpuModel, seen: &BTreeSet<ProfileName>) -> Reason {
    let shown: Vec<String> = seen.iter().map(ToString::to_string).collect();
    Reason::new(
        "profile-names-unknown",
        format!(
            "nodes with one driver show slices of this card under names that no driver prints together ({}); known are {}",
            shown.join(", "),
            both_names(model)
        ),
    )
    .with_advice("wait until every node shows its slices anew, or look at `nvidia-smi mig -lgip`")
}
