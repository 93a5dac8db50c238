//! Sharing by a field of GKE's node pools: a new pool beside the old one, and pods that select it.

use std::collections::BTreeSet;

use super::super::mig::left_alone;
use super::super::node_group::NodeGroup;
use super::super::node_pool::{self, PoolCards};
use super::super::placement::tolerates;
use super::super::{Change, Plan, Request, Weighed};
use super::groups::Group;
use super::pins::Pins;
use super::pool_nodes;
use crate::fit::Reason;
use crate::ids::WorkloadId;
use crate::inventory::DeclaredWorkload;

/// The most pods that GKE lets share a card (`max_shared_clients_per_gpu`).
const MOST_CLIENTS: u32 = 48;

/// Makes the plan one for a new pool: who shares is bound to it, and the nodes that are there stay as they are until the
/// old pool goes. Nobody else is in the pool: a group whose nodes come and go is shared as a whole.
pub(super) fn instead(
    request: &Request<'_>,
    plan: &mut Plan,
    sharers: &[&Weighed<'_>],
    groups: &[Group<'_, '_>],
    (cloud, pins): (NodeGroup, &Pins),
) -> Result<(), Vec<Reason>> {
    let [group] = groups else { return Ok(()) };
    if let Some(why) = &pins.cannot {
        return Err(vec![why.clone()]);
    }
    let cards = PoolCards::TimeSharing { clients: group.answer.replicas.min(MOST_CLIENTS) };
    let name = node_pool::name_beside(&cloud, &cards);
    let binding = node_pool::binding(request, cloud.kind, &name, &cards);
    if let Some(other) = comes_along(request, sharers, (&cloud, &name, &cards)) {
        return Err(vec![
            Reason::new(
                "others-may-meet",
                format!("{other} selects shared cards and could land on those of {name}"),
            )
            .with_advice("let it select its own pool by name"),
        ]);
    }
    let pin = |w: &&Weighed<'_>| {
        let id = &w.workload.id;
        let follows = node_pool::follows(request, id, (cloud.kind, &name, &cards));
        let selector = binding.clone().into_iter().chain(follows).collect();
        Change::PinWorkload { workload: id.clone(), selector }
    };
    let pinned: Vec<Change> = sharers.iter().map(pin).collect();
    plan.notes.push(format!(
        "how {cloud} shares its cards is fixed when it is made: a new node pool beside it is what can change"
    ));
    plan.changes = vec![Change::AddNodePool { group: cloud, name, cards, keeps_old: false }];
    plan.changes.extend(pinned);
    plan.nodes = left_alone(request, &[]);
    plan.saving.nodes_freed.clear();
    plan.waves.clear();
    for item in &mut plan.items {
        item.nodes_after.clear();
    }
    Ok(())
}

/// Somebody else whose selectors ask for such shared cards, which no node had before.
fn comes_along(
    request: &Request<'_>,
    sharers: &[&Weighed<'_>],
    (cloud, name, cards): (&NodeGroup, &str, &PoolCards),
) -> Option<WorkloadId> {
    let old = pool_nodes(request).next()?;
    let like = node_pool::node_like(old, cloud.kind, name, cards);
    let new = node_pool::labels_of(cloud.kind, name, cards);
    let own: BTreeSet<WorkloadId> =
        sharers.iter().filter_map(|w| request.declared.find(&w.workload.id).map(|(id, _)| id)).collect();
    let others = request.declared.workloads.iter().filter(|(id, _)| !own.contains(*id));
    let comes = |declared: &DeclaredWorkload| {
        tolerates(declared, &like)
            && declared.node_selector.keys().any(|key| new.contains_key(key))
            && declared
                .node_selector
                .iter()
                .all(|(key, value)| like.label(key).is_none_or(|label| label == value))
    };
    others.filter(|(_, declared)| comes(declared)).map(|(id, _)| id.clone()).next()
}
