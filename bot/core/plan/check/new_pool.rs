//! Whether a new node pool beside one can be what the plan says, and who is bound to which of the two.

use std::collections::{BTreeMap, BTreeSet};

use super::super::mig::must_not_move;
use super::super::node_group::NodeGroup;
use super::super::node_pool::{self, PoolCards, labels_of};
use super::super::{Change, Plan, Request};
use super::sharing::pinned;
use crate::catalog::layouts::{Limits, Multiset, place};
use crate::catalog::{GpuModel, ProfileName};
use crate::ids::WorkloadId;

/// What the pool cuts every card into: slices of a size that the cloud offers, as many as a card holds.
pub(super) fn layout(
    model: &GpuModel,
    group: &NodeGroup,
    cards: &PoolCards,
) -> Result<BTreeMap<ProfileName, u32>, String> {
    let PoolCards::Partition { profile, per_card } = cards else {
        return Err(format!("the cards of a new {} would not be cut", group.kind.name()));
    };
    let known = profile.parse().ok().and_then(|name| model.profile(name));
    let Some(known) = known.filter(|known| node_pool::offers(group.kind, model, known)) else {
        return Err(format!("no {} offers `{profile}`", group.kind.name()));
    };
    let fits = |n: u32| {
        let n = u8::try_from(n).unwrap_or(u8::MAX);
        place(model, &Multiset::from([(known.name, n)]), Limits::CURRENT).is_some()
    };
    if *per_card == 0 || !fits(*per_card) || fits(per_card + 1) {
        return Err(format!("a card does not hold {per_card} slices of `{profile}`"));
    }
    Ok(BTreeMap::from([(known.name, *per_card)]))
}

/// The selector matches nodes of the new pool and none of the old one.
pub(super) fn is_meant(plan: &Plan, selector: &BTreeMap<String, String>) -> bool {
    plan.changes.iter().any(|change| match change {
        Change::AddNodePool { group, name, cards, .. } => {
            let labels = labels_of(group.kind, name, cards);
            !selector.is_empty() && selector.iter().all(|(key, value)| labels.get(key) == Some(value))
        }
        Change::SetMigConfig { .. }
        | Change::SetPluginConfig { .. }
        | Change::LabelNodes { .. }
        | Change::LabelGroup { .. }
        | Change::SetWorkloadResource { .. }
        | Change::PinWorkload { .. } => false,
    })
}

/// Where slices are called like whole cards, everybody in the old pool who asks for a whole card selects it, and nobody
/// who would not come up again in another pool is bound.
pub(super) fn apart(request: &Request<'_>, plan: &Plan, broken: &mut Vec<String>) {
    let added = plan.changes.iter().find_map(|change| match change {
        Change::AddNodePool { group, name, cards, .. } => Some((group, name, cards)),
        Change::SetMigConfig { .. }
        | Change::SetPluginConfig { .. }
        | Change::LabelNodes { .. }
        | Change::LabelGroup { .. }
        | Change::SetWorkloadResource { .. }
        | Change::PinWorkload { .. } => None,
    });
    let Some((group, name, cards)) = added else { return };
    let labels = labels_of(group.kind, name, cards);
    let moved: BTreeSet<&WorkloadId> = plan.items.iter().map(|item| &item.fit.workload).collect();
    for id in moved.iter().filter(|id| must_not_move(&id.kind)) {
        broken.push(format!("{id} is not moved to another pool: nothing makes its pods anew"));
    }
    if !node_pool::keeps_the_name(request, group.kind) {
        return;
    }
    for workload in request.inventory.workloads.iter().filter(|w| w.resource == "nvidia.com/gpu") {
        let here = workload.pods.iter().any(|pod| request.pool.nodes.contains(&pod.node));
        if moved.contains(&workload.id) || !here {
            continue;
        }
        let declared = request.declared.of(&workload.id).map(|declared| &declared.node_selector);
        let selects = declared.into_iter().chain(pinned(plan, &workload.id)).flatten();
        if !selects.into_iter().any(|(key, value)| labels.get(key).is_some_and(|label| label != value)) {
            broken
                .push(format!("{} could be given a slice of {name} instead of its whole card", workload.id));
        }
    }
}
