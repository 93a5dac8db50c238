//! Nodes and workloads before and after, for people to read.

use std::collections::BTreeSet;

use super::super::place::{Card, Placement};
use super::super::{CardUse, Item, NodeFate, NodeOutcome, Request, SliceUse, Weighed};
use super::Mig;
use super::land::{Land, slice_of};
use crate::ids::WorkloadId;
use crate::inventory::Sharing;
use crate::pack::Fate;
use crate::pack::geometry::Geometry;
use crate::units::Mib;

pub(super) fn outcomes(mig: &Mig<'_, '_>, land: &Land<'_>, found: &Placement) -> Vec<NodeOutcome> {
    let (request, weighed, geometry) = (mig.request, mig.weighed, &mig.geometry);
    let id = |tenant: usize| weighed[tenant].workload.id.clone();
    let mut outcomes: Vec<NodeOutcome> = land
        .sites
        .iter()
        .enumerate()
        .map(|(i, site)| {
            let fate = match found.fates[i] {
                Fate::Freed => NodeFate::Freed,
                Fate::Touched => NodeFate::Touched,
                Fate::Untouched => NodeFate::Untouched,
            };
            let restarts = weighed
                .iter()
                .enumerate()
                .flat_map(|(t, w)| w.pods.iter().map(move |pod| (t, pod)))
                .filter(|(t, pod)| {
                    pod.node == site.name && (fate != NodeFate::Untouched || found.converted.contains(t))
                })
                .map(|(t, pod)| format!("{}/{}", weighed[t].workload.id.namespace, pod.name))
                .collect();
            NodeOutcome {
                name: site.name.clone(),
                fate,
                before: site.cards.iter().map(|card| card_use(card, geometry, &id)).collect(),
                after: found.cards[i].iter().map(|card| card_use(card, geometry, &id)).collect(),
                restarts,
                per_hour: request.pool.price_of(land.nodes[i]).map(|price| price.per_hour.clone()),
            }
        })
        .collect();
    outcomes.extend(left_alone(request, &outcomes));
    outcomes.sort_by(|a, b| a.name.cmp(&b.name));
    outcomes
}

/// Nodes of the pool that the plan does not look into, by name.
pub(in crate::plan) fn left_alone(request: &Request<'_>, known: &[NodeOutcome]) -> Vec<NodeOutcome> {
    let known: BTreeSet<&str> = known.iter().map(|outcome| outcome.name.as_str()).collect();
    let pods = request.inventory.workloads.iter().flat_map(|workload| &workload.pods);
    let held: BTreeSet<&str> = pods.flat_map(|pod| &pod.cards).map(String::as_str).collect();
    let mut outcomes: Vec<NodeOutcome> = request
        .inventory
        .nodes
        .iter()
        .filter(|node| request.pool.nodes.contains(&node.name))
        .filter(|node| !known.contains(node.name.as_str()))
        .map(|node| {
            let text = match node.sharing() {
                Sharing::Whole => "left as it is".to_owned(),
                Sharing::Mig => "cut by MIG already".to_owned(),
                Sharing::TimeSlicing { replicas } => format!("{replicas} time slices already"),
                Sharing::Mps { replicas } => format!("{replicas} MPS shares already"),
            };
            let cards: Vec<CardUse> = node
                .cards
                .iter()
                .map(|card| match node.sharing() {
                    Sharing::Whole if !held.contains(card.uuid.as_str()) => CardUse::Idle,
                    Sharing::Whole | Sharing::Mig | Sharing::TimeSlicing { .. } | Sharing::Mps { .. } => {
                        CardUse::Other { text: text.clone() }
                    }
                })
                .collect();
            NodeOutcome {
                name: node.name.clone(),
                fate: NodeFate::Untouched,
                before: cards.clone(),
                after: cards,
                restarts: Vec::new(),
                per_hour: request.pool.price_of(node).map(|price| price.per_hour.clone()),
            }
        })
        .collect();
    outcomes.sort_by(|a, b| a.name.cmp(&b.name));
    outcomes
}

fn card_use(card: &Card, geometry: &Geometry, id: &impl Fn(usize) -> WorkloadId) -> CardUse {
    match card {
        Card::Whole(None) => CardUse::Idle,
        Card::Whole(Some(tenant)) => CardUse::Whole { workload: id(*tenant) },
        Card::Cut(slots) => CardUse::Slices {
            slices: slots
                .iter()
                .map(|slot| SliceUse {
                    profile: geometry.types[slot.kind].name.clone(),
                    start: slot.start,
                    workload: slot.holder.map(id),
                })
                .collect(),
        },
    }
}

pub(super) fn items(mig: &Mig<'_, '_>, land: &Land<'_>, found: &Placement) -> Vec<Item> {
    found
        .converted
        .iter()
        .filter_map(|t| {
            let w = &mig.weighed[*t];
            let slice = slice_of(w)?;
            let after: BTreeSet<String> = land
                .sites
                .iter()
                .zip(&found.cards)
                .filter(|(_, cards)| cards.iter().flat_map(Card::holders).any(|holder| holder == *t))
                .map(|(site, _)| site.name.clone())
                .collect();
            Some(item(
                mig.request,
                w,
                mig.geometry.types[slice].name.clone(),
                w.chosen().and_then(|c| c.memory).unwrap_or(mig.chain[slice].memory_min),
                after,
            ))
        })
        .collect()
}

/// One row of the plan for a workload that gets a share.
pub(in crate::plan) fn item(
    request: &Request<'_>,
    weighed: &Weighed<'_>,
    share: String,
    share_memory: Mib,
    nodes_after: BTreeSet<String>,
) -> Item {
    let declared = request.declared.of(&weighed.workload.id);
    let nodes_before: BTreeSet<String> = weighed.pods.iter().map(|pod| pod.node.clone()).collect();
    Item {
        fit: weighed.fit.clone(),
        replicas: weighed.planned(),
        max_surge: weighed.max_surge(request.declared),
        share,
        share_memory,
        nodes_before: nodes_before.into_iter().collect(),
        nodes_after: nodes_after.into_iter().collect(),
        place: declared.map(|declared| declared.place.clone()),
        manual: match declared {
            None => Some("its manifest was not found in the repository".to_owned()),
            Some(declared) => declared.editable.as_ref().err().cloned(),
        },
    }
}
