//! A pool whose nodes come and go: one layout for all its cut cards.
//!
//! New nodes are made beside the old ones, and pods move over once the slices are there. So nobody is without a card
//! meanwhile, and the pool's `waves`, which say who may be, do not apply.

mod need;

mod new_pool;

mod one_layout;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::super::place::{Card, count};
use super::super::saving::saving;
use super::super::{CardUse, Change, MigEntry, NodeOutcome, Plan, Proof, Weighed, node_pool};
use super::change::resources;
use super::config::{names_in_use, own_name, ready_made};
use super::land::{Land, lay_of_the_land};
use super::outcome::{item, left_alone};
use super::{MIG_LABEL, Mig, autoscaled, kept, label_today, nothing};
use crate::catalog::Attribute;
use crate::fit::{Reason, Verdict};
use crate::inventory::Resources;
use crate::pack::geometry::Layout;
use crate::pack::limited::uniform;
use crate::plan::node_group::NodeGroup;
use crate::policy::Method;
use crate::units::{counted, first_few};
use need::Need;
use one_layout::{OneLayout, every_layout, one_layout};

pub(super) fn by_group(mig: &Mig<'_, '_>) -> Result<Plan, Vec<Reason>> {
    let (request, geometry) = (mig.request, &mig.geometry);
    let land = lay_of_the_land(mig);
    let on_frozen = on_frozen_nodes(&land);
    let movable: BTreeSet<usize> = (0..land.tenants.len())
        .filter(|i| land.tenants[*i].target.is_some() && !on_frozen.contains_key(i))
        .collect();
    let nothing_moves =
        || vec![Reason::new("nothing-moves", "no workload of this group may change what it holds")];
    if movable.is_empty() {
        return Err(nothing_moves());
    }
    let left_out: Vec<NodeOutcome> = left_alone(request, &[])
        .into_iter()
        .filter(|node| land.sites.iter().all(|site| site.name != node.name))
        .collect();
    if let Some(why) = slices_left_out(mig, &land, &left_out) {
        return Err(vec![why]);
    }
    let unchanged = left_out.len() + land.sites.iter().filter(|site| site.frozen).count();
    let cloud = node_pool::of(request);
    let choices = match &cloud {
        Some(_) => new_pool::choices(mig, &land, &movable),
        None => vec![Choice { movable: movable.clone(), layouts: every_layout(geometry) }],
    };
    let mut refused = None;
    let mut tries: Vec<Try> = Vec::new();
    for choice in choices {
        match Try::new(mig, &land, choice, unchanged) {
            Ok(made) => tries.push(made),
            Err(reasons) => refused = refused.or(Some(reasons)),
        }
    }
    let Some(Try { movable: moves, need, group, apart, nodes: nodes_then }) =
        tries.into_iter().min_by_key(|made| (made.nodes, made.group.n_cards))
    else {
        return Err(refused.unwrap_or_else(nothing_moves));
    };
    let nodes_now = left_out.len() + land.sites.len();
    if nodes_then >= nodes_now {
        let how = match &cloud {
            Some(cloud) => {
                format!("with slices of one size on all cards, as a {} has them,", cloud.kind.name())
            }
            None => "with one layout for the whole group".to_owned(),
        };
        let text =
            format!("{how} {} would be needed, and there are {nodes_now} today", counted(nodes_then, "node"));
        return Err(vec![Reason::new("nothing-gained", text)]);
    }
    // A replica may sit in a larger slice than it needs, if all replicas of its type do. Who holds such a slice stays.
    let then: BTreeMap<usize, usize> = moves
        .iter()
        .filter_map(|i| Some((*i, group.sits_in[land.tenants[*i].target?])))
        .filter(|(i, kind)| land.tenants[*i].now != *kind)
        .collect();
    let converted: BTreeSet<usize> = then.keys().copied().collect();
    if converted.is_empty() {
        return Err(nothing_moves());
    }
    let mut weighed: Vec<Weighed<'_>> = mig.weighed.to_vec();
    for (i, kind) in &then {
        weighed[*i].fit.verdict = Verdict::Mig { profile: geometry.types[*kind].name.clone() };
    }
    for (i, node) in on_frozen.iter().filter(|(i, _)| land.tenants[**i].target.is_some()) {
        weighed[*i].held_back = Some(frozen(node));
    }
    for (i, cloud) in movable.difference(&moves).flat_map(|i| cloud.iter().map(move |cloud| (*i, cloud))) {
        weighed[i].held_back = Some(new_pool::another_size(cloud, &group.layout.describe(geometry)));
    }
    let in_use = |node: &NodeOutcome| node.before.iter().filter(|card| **card != CardUse::Idle).count();
    let left_out_in_use: usize = left_out.iter().map(in_use).sum();
    let whole = need.slots()[geometry.whole()];
    let beside = whole > 0 || unchanged > left_out.len() || left_out_in_use > 0;
    let mut plan = Plan::of(request, Method::Mig, mig.model, &mig.model_name);
    plan.kept = kept(&weighed, &converted);
    plan.notes.clone_from(&land.notes);
    match &cloud {
        Some(cloud) => {
            plan.notes.push(fixed_when_made(cloud));
            plan.changes = new_pool::changes(mig, &land, &group, (cloud, beside), &weighed, &converted)?;
        }
        None => {
            plan.notes.push(replaced(&land));
            label(mig, &land, &group, beside, &mut plan);
            plan.changes.extend(resources(mig, &weighed, &converted));
        }
    }
    plan.items = then
        .iter()
        .map(|(i, kind)| {
            let (w, profile) = (&weighed[*i], mig.chain[*kind]);
            let memory = w.chosen().and_then(|c| c.memory).unwrap_or(profile.memory_min);
            item(request, w, geometry.types[*kind].name.clone(), memory, BTreeSet::new())
        })
        .collect();
    plan.nodes = left_alone(request, &[]);
    plan.proof = proof(mig, &need, &group, apart);
    let cards_kept = kept_cards(&land, &converted) + left_out_in_use;
    if cards_kept > 0 {
        plan.proof.sentences.push(format!("{} stay as they are", counted(cards_kept, "card")));
    }
    plan.proof.n_cards = group.n_cards.saturating_add(count(cards_kept));
    let moved: Vec<&Weighed<'_>> = converted.iter().map(|i| &weighed[*i]).collect();
    plan.alternatives = vec![nothing(&moved)];
    let autoscaled = autoscaled(mig, &land, &converted);
    plan.saving = saving(request, &plan.nodes, autoscaled);
    let cards_then = plan.proof.n_cards.saturating_add(autoscaled.after);
    plan.saving.group(request, nodes_now, nodes_then, cards_then);
    Ok(plan)
}

/// Who may move, and which layouts there are for them.
struct Choice {
    movable: BTreeSet<usize>,
    layouts: Vec<Layout>,
}

/// A choice with the layout that serves it best.
struct Try {
    movable: BTreeSet<usize>,
    need: Need,
    group: OneLayout,
    /// Cards more, so that replicas are apart.
    apart: u32,
    /// Nodes of the group then, with those that stay as they are.
    nodes: usize,
}

impl Try {
    fn new(
        mig: &Mig<'_, '_>,
        land: &Land<'_>,
        choice: Choice,
        unchanged: usize,
    ) -> Result<Self, Vec<Reason>> {
        let Choice { movable, layouts } = choice;
        let need = Need::new(mig, land, &movable);
        let may_sit_in = may_sit_in(mig, land, &movable, &need.fixed);
        let Some(mut group) = one_layout(&mig.geometry, &layouts, &need.slices(), &may_sit_in) else {
            return Err(vec![Reason::new("nothing-gained", "no single layout serves all of them")]);
        };
        let apart = need.cut_cards.saturating_sub(group.n_cards);
        group.n_cards += apart;
        let nodes = unchanged + new_nodes(land, &need, &group)?;
        Ok(Self { movable, need, group, apart, nodes })
    }
}

/// A pod holds a slice on a node that is not planned with. Once the node is gone, the pod needs such a slice on the nodes
/// that are made instead, and which it is was not looked into.
fn slices_left_out(mig: &Mig<'_, '_>, land: &Land<'_>, left_out: &[NodeOutcome]) -> Option<Reason> {
    let names: BTreeSet<&str> = left_out.iter().map(|node| node.name.as_str()).collect();
    let pods = mig.weighed.iter().flat_map(|w| w.pods.iter().map(move |pod| (w, pod)));
    let mut held = pods.filter(|(_, pod)| !pod.slices.is_empty() && names.contains(pod.node.as_str()));
    let (w, pod) = held.next()?;
    let start = format!("{} is left out: ", pod.node);
    let note = land.notes.iter().find(|note| note.starts_with(&start)).map_or("", String::as_str);
    Some(Reason::new(
        "node-left-out",
        format!(
            "a pod of {} holds a slice on {}, and nodes that are made instead of it would have to offer it ({note})",
            w.workload.id, pod.node
        ),
    ))
}

/// Workloads with a pod on a node that must stay as it is, with one such node.
fn on_frozen_nodes<'l>(land: &'l Land<'_>) -> BTreeMap<usize, &'l str> {
    let frozen = land.sites.iter().filter(|site| site.frozen);
    frozen
        .flat_map(|site| site.cards.iter().flat_map(Card::holders).map(|tenant| (tenant, site.name.as_str())))
        .collect()
}

/// Which nodes have to go for the label to do its work.
fn replaced(land: &Land<'_>) -> String {
    let frozen: Vec<&str> =
        land.sites.iter().filter(|site| site.frozen).map(|site| site.name.as_str()).collect();
    let but_for = match frozen.as_slice() {
        [] => String::new(),
        frozen => format!(", but for those that must stay as they are: {}", first_few(frozen, 3, ", ")),
    };
    format!(
        "the nodes of this pool come and go: the label belongs into the node group's declaration, and nodes made before \
         it must be replaced{but_for}"
    )
}

/// Why the pool that is there is not changed.
fn fixed_when_made(cloud: &NodeGroup) -> String {
    format!(
        "how {cloud} cuts its cards is fixed when it is made: a new node pool beside it is what can change"
    )
}

fn frozen(node: &str) -> Reason {
    Reason::new("on-frozen-node", format!("a pod of it runs on {node}, which must stay as it is"))
        .with_advice("take the node out of `frozen_nodes`, or let the pods end that must not be moved")
}

/// The types that replicas of each type may sit in: their own, and each larger one that fits every workload that would
/// move there. Slices that somebody keeps stay what they are, and nobody gets media engines that were not asked for: a
/// card has one such slice.
fn may_sit_in(
    mig: &Mig<'_, '_>,
    land: &Land<'_>,
    movable: &BTreeSet<usize>,
    fixed: &BTreeSet<usize>,
) -> Vec<BTreeSet<usize>> {
    let fits = |kind: usize, to: usize| {
        let name = &mig.geometry.types[to].name;
        movable
            .iter()
            .filter(|i| land.tenants[**i].target == Some(kind))
            .all(|i| mig.weighed[*i].fit.considered.iter().any(|c| c.name == *name && c.fits))
    };
    let plain = |kind: usize| mig.chain[kind].name.attribute == Attribute::Plain;
    (0..mig.geometry.whole())
        .map(|kind| {
            let larger = kind + 1..mig.geometry.whole();
            let larger = larger.filter(|to| !fixed.contains(&kind) && (plain(*to) || !plain(kind)));
            std::iter::once(kind).chain(larger.filter(|to| fits(kind, *to))).collect()
        })
        .collect()
}

/// Nodes that are made for slices and for whole cards, by cards, by room for pods, and so that replicas are apart.
fn new_nodes(land: &Land<'_>, need: &Need, group: &OneLayout) -> Result<usize, Vec<Reason>> {
    // The autoscaler may make any kind of node that the group has: the smallest is counted on.
    let cards_per_node = land.sites.iter().map(|site| site.cards.len()).min().unwrap_or(1).max(1);
    let n_slices: u32 = need.slices().iter().sum();
    let by_room = n_slices.div_ceil(room(land, need.largest_in_slices)?) as usize;
    let cut = (group.n_cards as usize).div_ceil(cards_per_node).max(by_room).max(need.cut_nodes);
    let n_whole = need.slots().last().copied().unwrap_or(0);
    if n_whole == 0 {
        return Ok(cut);
    }
    let by_room = n_whole.div_ceil(room(land, need.largest_whole)?) as usize;
    Ok(cut + (n_whole as usize).div_ceil(cards_per_node).max(by_room).max(need.whole_nodes))
}

/// Pods of the largest size on the smallest node, or why none may be moved.
fn room(land: &Land<'_>, largest: Option<Resources>) -> Result<u32, Vec<Reason>> {
    match pods_per_node(land, largest) {
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
fn pods_per_node(land: &Land<'_>, largest: Option<Resources>) -> Option<u32> {
    let largest = largest?;
    let most = |room: Resources| (0..=MOST_PODS).rev().find(|n| largest.times(*n).fits_in(room)).unwrap_or(0);
    land.sites.iter().map(|site| site.room.map(most)).reduce(|a, b| Some(a?.min(b?))).flatten()
}

/// No node holds more pods than this; the kubelet's own default is 110.
const MOST_PODS: u32 = 1_000;

/// Cards that stay as they are: held whole by those who keep them, and cut ones on frozen nodes.
fn kept_cards(land: &Land<'_>, converted: &BTreeSet<usize>) -> usize {
    let stays = |frozen: bool, card: &Card| match card {
        Card::Whole(holder) => holder.is_some_and(|tenant| !converted.contains(&tenant)),
        Card::Cut(_) => frozen,
    };
    land.sites.iter().map(|site| site.cards.iter().filter(|card| stays(site.frozen, card)).count()).sum()
}

/// Why no other single layout needs fewer cards, or that this is not known.
fn proof(mig: &Mig<'_, '_>, need: &Need, group: &OneLayout, apart: u32) -> Proof {
    let geometry = &mig.geometry;
    let whole = geometry.whole();
    let n_slots = |counts: &[u32]| counts[..whole].iter().map(|n| *n as usize).sum::<usize>();
    let mut holds = counted(n_slots(&need.replicas), "replica");
    let free = n_slots(&need.free);
    if free > 0 {
        holds.push_str(&format!(" and, while they roll or grow, {free} more"));
    }
    // Where each replica is on its own and may sit in any larger slice: no plan with one layout needs fewer.
    let least = uniform(geometry, &need.slices()).map(|least| least.n_cards);
    let cloud = node_pool::of(mig.request);
    let proven = least.is_some_and(|least| group.n_cards - apart <= least);
    let mut sentences = vec![format!(
        "one layout for the whole group: with `{}` on every card, {} {} room for {holds}; {}",
        group.layout.describe(geometry),
        counted((group.n_cards - apart) as usize, "card"),
        if group.n_cards - apart == 1 { "has" } else { "have" },
        if proven {
            "every other single layout needs as many or more"
        } else if cloud.is_some() {
            "no other size that such a node pool can have frees more nodes"
        } else {
            "whether another single layout needs fewer, with some replicas in larger slices, is not proven"
        }
    )];
    if apart > 0 {
        sentences.push(format!("{} more, so that replicas are apart", counted(apart as usize, "card")));
    }
    Proof { n_cards: group.n_cards, proven, sentences }
}

/// The label of the group and, where the operator brings no config of that name, the config.
fn label(mig: &Mig<'_, '_>, land: &Land<'_>, group: &OneLayout, beside: bool, plan: &mut Plan) {
    let instances = group.layout.counts.iter().zip(&mig.geometry.types).filter(|(n, _)| **n > 0);
    let entries = vec![MigEntry {
        cards: Vec::new(),
        instances: instances.map(|(n, kind)| (kind.name.clone(), *n)).collect(),
    }];
    let value = ready_made(mig, &entries).unwrap_or_else(|| {
        let text: String = entries.iter().map(|e| format!("{:?}", e.instances)).collect();
        let name = own_name(mig.request, &text);
        let names_in_use = names_in_use(mig.request);
        plan.changes.push(Change::SetMigConfig { name: name.clone(), entries, names_in_use });
        name
    });
    let today: BTreeSet<Option<String>> =
        land.nodes.iter().map(|node| label_today(mig.request, node, MIG_LABEL)).collect();
    let previous = match today.len() {
        1 => today.into_iter().next().flatten(),
        _ => {
            let values: Vec<&str> =
                today.iter().map(|value| value.as_deref().unwrap_or("no value")).collect();
            plan.notes.push(format!(
                "the nodes of this group carry different values of `{MIG_LABEL}` today ({}): there is no one value to \
                 go back to",
                first_few(&values, 3, ", ")
            ));
            None
        }
    };
    if previous.as_ref() != Some(&value) {
        let group = mig.request.node_group();
        plan.changes.push(Change::LabelGroup { key: MIG_LABEL.to_owned(), value, previous, beside, group });
    }
}
