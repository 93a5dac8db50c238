//! A pool whose nodes come and go: one layout for all its cut cards.

use std::collections::BTreeSet;

use super::super::place::{Card, count};
use super::super::saving::{Autoscaled, saving};
use super::super::{Change, MigEntry, Plan, Proof, Weighed};
use super::change::resources;
use super::config::{names_in_use, own_name, ready_made};
use super::land::{Land, lay_of_the_land, slice_of};
use super::outcome::{item, left_alone};
use super::{MIG_LABEL, Mig, kept, nothing};
use crate::fit::{Reason, Verdict};
use crate::inventory::Resources;
use crate::pack::geometry::{Geometry, Layout};
use crate::policy::Method;
use crate::units::counted;

pub(super) fn by_group(mig: &Mig<'_, '_>) -> Result<Plan, Vec<Reason>> {
    let (request, geometry) = (mig.request, &mig.geometry);
    let land = lay_of_the_land(mig);
    let movable: BTreeSet<usize> =
        (0..land.tenants.len()).filter(|i| land.tenants[*i].target.is_some()).collect();
    if movable.is_empty() {
        return Err(vec![Reason::new("nothing-moves", "no workload of this group may change what it holds")]);
    }
    let demand = demand(mig, &land, &movable);
    let fixed: BTreeSet<usize> = land
        .tenants
        .iter()
        .filter(|t| t.target.is_none() && t.now < geometry.whole())
        .map(|t| t.now)
        .collect();
    let cards_per_node = land.sites.iter().map(|site| site.cards.len()).max().unwrap_or(1).max(1);
    let whole = whole_cards(&land, &movable) + request.pool.spare_cards as usize;
    let nodes_for = |cards: usize| cards.div_ceil(cards_per_node);
    let slots: u32 = demand.iter().sum();
    let pods_per_node = room(&land, &movable)?;
    let by_room = slots.div_ceil(pods_per_node) as usize;
    let nodes_now = land.sites.len();
    let group = one_layout(geometry, &demand, &fixed);
    let nodes_then =
        group.as_ref().map(|group| nodes_for(group.n_cards as usize).max(by_room) + nodes_for(whole));
    let (Some(group), Some(nodes_then)) = (group, nodes_then.filter(|then| *then < nodes_now)) else {
        return Err(vec![Reason::new(
            "nothing-gained",
            match nodes_then {
                Some(then) => format!(
                    "with one layout for the whole group {} would be needed, and there are {nodes_now} today",
                    counted(then, "node")
                ),
                None => "no single layout serves all of them".to_owned(),
            },
        )]);
    };
    // A replica may sit in a larger slice than it needs, if all replicas of the workload do.
    let mut weighed_as_one: Vec<Weighed<'_>> = mig.weighed.to_vec();
    for i in &movable {
        if let Some(slice) = land.tenants[*i].target.filter(|slice| *slice < geometry.whole()) {
            let profile = geometry.types[group.sits_in[slice]].name.clone();
            weighed_as_one[*i].fit.verdict = Verdict::Mig { profile };
        }
    }
    let instances = group.layout.counts.iter().zip(&geometry.types).filter(|(n, _)| **n > 0);
    let entries = vec![MigEntry {
        cards: Vec::new(),
        instances: instances.map(|(n, kind)| (kind.name.clone(), *n)).collect(),
    }];
    let mut plan = Plan::of(request, Method::Mig, mig.model, &mig.model_name);
    plan.kept = kept(&weighed_as_one, &movable);
    plan.changes = label(mig, &land, entries, whole > 0);
    plan.changes.extend(resources(mig, &weighed_as_one, &movable));
    plan.items = movable
        .iter()
        .map(|i| {
            let w = &weighed_as_one[*i];
            let profile = slice_of(w).map_or(mig.chain[0], |slice| mig.chain[slice]);
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
        n_cards: group.n_cards + count(whole),
        proven: true,
        sentences: vec![format!(
            "one layout for the whole group: with `{}` on every card {} hold {slots} replicas and their rolling \
             updates; every other single layout needs as many or more",
            group.layout.describe(geometry),
            counted(group.n_cards as usize, "card"),
        )],
    };
    let moved: Vec<&Weighed<'_>> = movable.iter().map(|i| &weighed_as_one[*i]).collect();
    plan.alternatives = vec![nothing(&moved)];
    plan.saving = saving(request, &plan.nodes, Autoscaled::default());
    plan.saving.group(request, nodes_now, nodes_then, plan.proof.n_cards);
    Ok(plan)
}

/// Slots a type: of everybody who moves, of those who stay in slices, and room for rolling updates.
fn demand(mig: &Mig<'_, '_>, land: &Land<'_>, movable: &BTreeSet<usize>) -> Vec<u32> {
    let mut demand = vec![0u32; mig.geometry.whole()];
    let mut surges: Vec<Vec<u32>> = vec![Vec::new(); mig.geometry.whole()];
    for (i, tenant) in land.tenants.iter().enumerate() {
        let slot = tenant.target.filter(|_| movable.contains(&i)).unwrap_or(tenant.now);
        if let Some(sum) = demand.get_mut(slot) {
            *sum = sum.saturating_add(tenant.planned);
            surges[slot].push(tenant.max_surge);
        }
    }
    let at_once = mig.request.pool.concurrent_rollouts as usize;
    for (sum, mut surges) in demand.iter_mut().zip(surges) {
        surges.sort_unstable_by(|a, b| b.cmp(a));
        *sum = surges.iter().take(at_once).fold(*sum, |sum, surge| sum.saturating_add(*surge));
    }
    demand
}

/// Whole cards that pods hold which keep them.
fn whole_cards(land: &Land<'_>, movable: &BTreeSet<usize>) -> usize {
    let cards = land.sites.iter().flat_map(|site| &site.cards);
    cards.filter(|card| matches!(card, Card::Whole(Some(tenant)) if !movable.contains(tenant))).count()
}

/// The label of the group and, where the operator brings no config of that name, the config.
fn label(mig: &Mig<'_, '_>, land: &Land<'_>, entries: Vec<MigEntry>, beside: bool) -> Vec<Change> {
    let mut changes = Vec::new();
    let value = ready_made(mig, &entries).unwrap_or_else(|| {
        let text: String = entries.iter().map(|e| format!("{:?}", e.instances)).collect();
        let name = own_name(mig.request, &text);
        let names_in_use = names_in_use(mig.request);
        changes.push(Change::SetMigConfig { name: name.clone(), entries, names_in_use });
        name
    });
    let previous = land.nodes.iter().find_map(|node| node.label(MIG_LABEL).map(str::to_owned));
    if previous.as_ref() == Some(&value) {
        return Vec::new();
    }
    changes.push(Change::LabelGroup { key: MIG_LABEL.to_owned(), value, previous, beside });
    changes
}

/// Pods of the largest size on the smallest node, or why none may be moved.
fn room(land: &Land<'_>, movable: &BTreeSet<usize>) -> Result<u32, Vec<Reason>> {
    match pods_per_node(land, movable) {
        None => Err(vec![Reason::new(
            "room-unknown",
            "how much CPU and memory the nodes and pods have is not known: no pod is moved",
        )]),
        Some(0) => Err(vec![Reason::new(
            "no-room-on-nodes",
            "no node has CPU and memory for the largest of the pods",
        )]),
        Some(n) => Ok(n),
    }
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
/// replicas of a type into one type of at least its size, except for types that must stay as they are. Of equals, layouts
/// of one type come first.
fn one_layout(geometry: &Geometry, demand: &[u32], fixed: &BTreeSet<usize>) -> Option<OneLayout> {
    if demand.iter().all(|n| *n == 0) {
        return None;
    }
    let mut layouts: Vec<Layout> = (0..geometry.whole()).map(|kind| geometry.uniform_layout(kind)).collect();
    layouts.extend(geometry.maximal_layouts());
    let mut best: Option<OneLayout> = None;
    for layout in &layouts {
        for sits_in in
            ways(geometry.whole()).into_iter().filter(|way| fixed.iter().all(|kind| way[*kind] == *kind))
        {
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
