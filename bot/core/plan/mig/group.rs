//! A pool whose nodes come and go: one layout for all its cut cards.

use std::collections::BTreeSet;

use super::super::saving::{Autoscaled, saving};
use super::super::{Change, MigEntry, Plan, Proof, Request, Weighed, time_slicing};
use super::change::resources;
use super::config::{names_in_use, own_name, ready_made};
use super::land::{Land, lay_of_the_land, slice_of};
use super::outcome::{item, left_alone};
use super::{MIG_LABEL, nothing, nothing_gained, skeleton};
use crate::catalog::{GpuModel, MigProfile};
use crate::fit::{Reason, Verdict};
use crate::inventory::Resources;
use crate::pack::geometry::{Geometry, Layout};
use crate::units::counted;

pub(super) fn by_group(
    request: &Request<'_>,
    weighed: &[Weighed<'_>],
    model_name: &str,
    model: &GpuModel,
    chain: &[&MigProfile],
    geometry: &Geometry,
) -> Result<Plan, Vec<Reason>> {
    let land = lay_of_the_land(request, weighed);
    let movable: BTreeSet<usize> =
        (0..land.tenants.len()).filter(|i| land.tenants[*i].slice.is_some()).collect();
    let mut demand = vec![0u32; geometry.whole()];
    for i in &movable {
        let tenant = &land.tenants[*i];
        if let Some(slice) = tenant.slice {
            demand[slice] += tenant.planned + tenant.max_surge;
        }
    }
    let Some(group) = one_layout(geometry, &demand) else {
        return Err(nothing_gained(geometry, &land, request));
    };
    let cards_per_node = land.sites.iter().map(|site| site.cards.len()).max().unwrap_or(1).max(1);
    let whole: usize = land
        .sites
        .iter()
        .flat_map(|site| &site.cards)
        .flatten()
        .filter(|tenant| !movable.contains(tenant))
        .count();
    let nodes_for = |cards: usize| cards.div_ceil(cards_per_node);
    let slots: u32 = demand.iter().sum();
    let Some(pods_per_node) = pods_per_node(&land, &movable) else {
        return Err(vec![Reason::new(
            "room-unknown",
            "how much CPU and memory the nodes and pods have is not known: no pod is moved",
        )]);
    };
    if pods_per_node == 0 {
        return Err(vec![Reason::new(
            "no-room-on-nodes",
            "no node has CPU and memory for the largest of the pods",
        )]);
    }
    let by_room = slots.div_ceil(pods_per_node) as usize;
    let nodes_then = nodes_for(group.n_cards as usize).max(by_room) + nodes_for(whole);
    let nodes_now = land.sites.len();
    if nodes_then >= nodes_now {
        return Err(nothing_gained(geometry, &land, request));
    }
    // A replica may sit in a larger slice than it needs, if all replicas of the workload do.
    let mut weighed_as_one: Vec<Weighed<'_>> = weighed.to_vec();
    for i in &movable {
        if let Some(slice) = land.tenants[*i].slice {
            let profile = geometry.types[group.sits_in[slice]].name.clone();
            weighed_as_one[*i].fit.verdict = Verdict::Mig { profile };
        }
    }
    let instances = group.layout.counts.iter().zip(&geometry.types).filter(|(n, _)| **n > 0);
    let entries = vec![MigEntry {
        cards: Vec::new(),
        instances: instances.map(|(n, kind)| (kind.name.clone(), *n)).collect(),
    }];
    let mut plan = skeleton(request, &weighed_as_one, &movable, model_name, model);
    let name = ready_made(request, model_name, model, &entries).unwrap_or_else(|| {
        let text: String = entries.iter().map(|e| format!("{:?}", e.instances)).collect();
        own_name(request, &text)
    });
    if ready_made(request, model_name, model, &entries).is_none() {
        plan.changes.push(Change::SetMigConfig {
            name: name.clone(),
            entries: entries.clone(),
            names_in_use: names_in_use(request),
        });
    }
    plan.changes.push(Change::LabelGroup {
        key: MIG_LABEL.to_owned(),
        value: name,
        previous: land.nodes.iter().find_map(|node| node.label(MIG_LABEL).map(str::to_owned)),
        beside: whole > 0,
    });
    plan.changes.extend(resources(request, &weighed_as_one, &movable, chain, model_name));
    plan.items = movable
        .iter()
        .map(|i| {
            let w = &weighed_as_one[*i];
            let profile = slice_of(w).map_or(chain[0], |slice| chain[slice]);
            let memory = w.chosen().and_then(|c| c.memory).unwrap_or(profile.memory_min);
            item(request, w, profile.name.to_string(), memory, BTreeSet::new())
        })
        .collect();
    plan.nodes = left_alone(request, &[]);
    plan.notes = land.notes;
    plan.notes.push(
        "the nodes of this pool come and go: the label belongs into the node group's declaration, and nodes made \
         before it must be replaced"
            .to_owned(),
    );
    plan.proof = Proof {
        n_cards: group.n_cards + u32::try_from(whole).unwrap_or(u32::MAX),
        proven: true,
        sentences: vec![format!(
            "one layout for the whole group: with `{}` on every card {} hold {} replicas and their rolling updates; \
             every other single layout needs as many or more",
            group.layout.describe(geometry),
            counted(group.n_cards as usize, "card"),
            demand.iter().sum::<u32>(),
        )],
    };
    let moved: Vec<&Weighed<'_>> = movable.iter().map(|i| &weighed_as_one[*i]).collect();
    plan.alternatives = vec![time_slicing::alternative(request, &moved), nothing(&moved)];
    plan.saving = saving(request, &plan.nodes, Autoscaled::default());
    plan.saving.group(request, nodes_now, nodes_then, plan.proof.n_cards);
    Ok(plan)
}

/// Pods of at most the largest size that every node of the group has CPU, memory and pod slots for.
fn pods_per_node(land: &Land<'_>, movable: &BTreeSet<usize>) -> Option<u32> {
    let largest =
        movable.iter().map(|i| land.tenants[*i].needs).reduce(|a, b| Some(a?.larger(b?))).flatten()?;
    let most = |room: Resources| (0..=MOST_PODS).rev().find(|n| largest.times(*n).fits_in(room)).unwrap_or(0);
    land.sites.iter().map(|site| site.room.map(most)).reduce(|a, b| Some(a?.min(b?))).flatten()
}

/// No node holds more pods than this; the kubelet's own default is 110.
const MOST_PODS: u32 = 1_000;

/// One layout for every cut card of a group.
struct OneLayout {
    layout: Layout,
    /// The type that replicas of each type sit in.
    sits_in: Vec<usize>,
    n_cards: u32,
}

/// The single layout that serves the demand with the fewest cards, exact: every layout, and every way to put the
/// replicas of a type into one type of at least its size. Of equals, layouts of one type come first.
fn one_layout(geometry: &Geometry, demand: &[u32]) -> Option<OneLayout> {
    if demand.iter().all(|n| *n == 0) {
        return None;
    }
    let mut layouts: Vec<Layout> = (0..geometry.whole()).map(|kind| geometry.uniform_layout(kind)).collect();
    layouts.extend(geometry.maximal_layouts());
    let mut best: Option<OneLayout> = None;
    for layout in &layouts {
        for sits_in in ways(geometry.whole()) {
            let mut needed = vec![0u32; geometry.whole()];
            for (kind, n) in demand.iter().enumerate() {
                needed[sits_in[kind]] += n;
            }
            let cards =
                needed.iter().zip(&layout.counts).try_fold(0u32, |most, (need, have)| match (need, have) {
                    (0, _) => Some(most),
                    (_, 0) => None,
                    (need, have) => Some(most.max(need.div_ceil(*have))),
                });
            if let Some(n_cards) = cards
                && best.as_ref().is_none_or(|best| n_cards < best.n_cards)
            {
                best = Some(OneLayout { layout: layout.clone(), sits_in, n_cards });
            }
        }
    }
    best
}

/// Every map from a type to one of at least its size; the one that leaves all as they are comes first.
fn ways(n_types: usize) -> Vec<Vec<usize>> {
    let mut ways = vec![Vec::new()];
    for kind in 0..n_types {
        ways = ways
            .into_iter()
            .flat_map(|way: Vec<usize>| {
                (kind..n_types).map(move |to| way.iter().copied().chain(std::iter::once(to)).collect())
            })
            .collect();
    }
    ways
}
