//! Nodes before and after, for people to read, and what they free.

use std::collections::{BTreeMap, BTreeSet};

use super::super::mig::left_alone;
use super::super::pool::Spread;
use super::super::saving::{Autoscaled, saving};
use super::super::{CardUse, Goal, NodeFate, NodeOutcome, Plan, PluginSharing, PoolKind, Request, Weighed};
use super::groups::{Group, Terms};
use super::pool_nodes;
use super::seats::Floor;
use crate::fit::Reason;
use crate::ids::WorkloadId;
use crate::inventory::Node;
use crate::units::counted;

/// What happens to each node of the pool. Pods that leave a node are its restarts.
pub(super) fn outcomes(
    request: &Request<'_>,
    weighed: &[Weighed<'_>],
    sharers: &[&Weighed<'_>],
    groups: &[Group<'_, '_>],
    terms: &Terms<'_>,
) -> Result<Vec<NodeOutcome>, Vec<Reason>> {
    let mut seats: BTreeMap<String, Vec<WorkloadId>> = BTreeMap::new();
    for group in groups {
        seats.extend(seated(request, sharers, group).map_err(|reason| vec![reason])?);
    }
    let shares = |id: &WorkloadId| sharers.iter().any(|w| w.workload.id == *id);
    let holder = |uuid: &str| {
        weighed
            .iter()
            .find(|w| w.pods.iter().any(|pod| pod.cards.iter().any(|card| card == uuid)))
            .map(|w| w.workload.id.clone())
    };
    let mut known = Vec::new();
    for node in pool_nodes(request) {
        let group = groups.iter().find(|group| group.nodes.contains(&node.name));
        let stands = |w: &&&Weighed<'_>| w.pods.iter().any(|pod| pod.node == node.name);
        if group.is_none() && !sharers.iter().any(|w| stands(&w)) {
            continue;
        }
        let before: Vec<CardUse> = node
            .cards
            .iter()
            .map(|card| holder(&card.uuid).map_or(CardUse::Idle, |workload| CardUse::Whole { workload }))
            .collect();
        let others =
            weighed.iter().any(|w| !shares(&w.workload.id) && w.pods.iter().any(|pod| pod.node == node.name));
        let (fate, after) = match group {
            Some(group) => {
                let shared = node.cards.iter().map(|card| CardUse::Shared {
                    sharing: terms.sharing,
                    replicas: group.answer.replicas,
                    workloads: seats.remove(&card.uuid).unwrap_or_default(),
                });
                (NodeFate::Touched, shared.collect())
            }
            None if request.pool.goal == Goal::Bill && !others => (NodeFate::Freed, Vec::new()),
            None => {
                let left = before.iter().map(|card| match card {
                    CardUse::Whole { workload } if shares(workload) => CardUse::Idle,
                    CardUse::Idle
                    | CardUse::Whole { .. }
                    | CardUse::Slices { .. }
                    | CardUse::Shared { .. }
                    | CardUse::Other { .. } => card.clone(),
                });
                (NodeFate::Untouched, left.collect())
            }
        };
        known.push(NodeOutcome {
            name: node.name.clone(),
            fate,
            before,
            after,
            restarts: pods_on(sharers, &node.name, |w| group.is_none_or(|group| !group.has(w))),
            per_hour: request.pool.price_of(node).map(|price| price.per_hour.clone()),
        });
    }
    known.extend(left_alone(request, &known));
    known.sort_by(|a, b| a.name.cmp(&b.name));
    spare_kept(request, &mut known).map_err(|reason| vec![reason])?;
    Ok(known)
}

/// Whole cards that must stay idle: those of nodes that are not shared. As few nodes as will do are not let go for it.
fn spare_kept(request: &Request<'_>, nodes: &mut [NodeOutcome]) -> Result<(), Reason> {
    let idle_on = |cards: &[CardUse]| cards.iter().filter(|card| **card == CardUse::Idle).count();
    let wanted = request.pool.spare_cards as usize;
    let mut idle = match request.pool.kind {
        PoolKind::Static => nodes.iter().map(|node| idle_on(&node.after)).sum(),
        // All nodes of such a group are shared, those too that come later.
        PoolKind::Elastic => 0,
    };
    let mut go: Vec<&mut NodeOutcome> = match request.pool.kind {
        PoolKind::Static => nodes.iter_mut().filter(|node| node.fate == NodeFate::Freed).collect(),
        PoolKind::Elastic => Vec::new(),
    };
    go.sort_by(|a, b| b.before.len().cmp(&a.before.len()).then_with(|| a.name.cmp(&b.name)));
    for node in go {
        if idle >= wanted {
            break;
        }
        node.fate = NodeFate::Untouched;
        node.after = vec![CardUse::Idle; node.before.len()];
        idle += node.after.len();
    }
    if idle >= wanted {
        return Ok(());
    }
    Err(Reason::new(
        "spare-cards",
        format!(
            "{} must stay idle, and nodes that are not shared would have {idle}",
            counted(wanted, "whole card")
        ),
    )
    .with_advice("set `spare_cards` lower for the pool, or add a node to it"))
}

/// Sharers' pods on a node, as `namespace/pod`.
fn pods_on(sharers: &[&Weighed<'_>], node: &str, wanted: impl Fn(&Weighed<'_>) -> bool) -> Vec<String> {
    sharers
        .iter()
        .filter(|w| wanted(w))
        .flat_map(|w| w.pods.iter().map(move |pod| (w, pod)))
        .filter(|(_, pod)| pod.node == node)
        .map(|(w, pod)| format!("{}/{}", w.workload.id.namespace, pod.name))
        .collect()
}

/// Pods that stay on their node restart all the same when their manifest changes, and when an MPS server takes the card.
pub(super) fn with_restarts(
    mut nodes: Vec<NodeOutcome>,
    groups: &[Group<'_, '_>],
    sharers: &[&Weighed<'_>],
    sharing: PluginSharing,
    edited: bool,
) -> Vec<NodeOutcome> {
    if edited || sharing == PluginSharing::Mps {
        let shared: BTreeSet<&String> = groups.iter().flat_map(|group| &group.nodes).collect();
        for node in nodes.iter_mut().filter(|node| shared.contains(&node.name)) {
            node.restarts = pods_on(sharers, &node.name, |_| true);
        }
    }
    nodes
}

/// Who may be on which card: pods stay on their node, the others fill the node with the fewest first, as far as its
/// CPU, memory and cards reach; replicas that are apart today and must be, have seats on two nodes. The scheduler decides;
/// this shows that there is a place for everybody.
fn seated(
    request: &Request<'_>,
    sharers: &[&Weighed<'_>],
    group: &Group<'_, '_>,
) -> Result<BTreeMap<String, Vec<WorkloadId>>, Reason> {
    let nodes: Vec<&Node> = pool_nodes(request).filter(|node| group.nodes.contains(&node.name)).collect();
    let room: Vec<usize> = Floor::new(sharers, &nodes, request.pool.goal).map_or_else(
        || vec![0; nodes.len()],
        |floor| floor.seats(group.answer.replicas).into_iter().map(|n| n as usize).collect(),
    );
    // As things are first; where that leaves somebody together, the emptiest nodes first, which parts them if any way does.
    let on_node = seat(request, group, &nodes, &room, true)
        .or_else(|_| seat(request, group, &nodes, &room, false))
        .map_err(|id| {
            Reason::new(
                "no-room-apart",
                format!(
                    "the replicas of {id} are on several nodes today, and one shared node would hold them all"
                ),
            )
            .with_advice("set `spread: none` for it if that will do")
        })?;
    let mut seats = BTreeMap::new();
    for (node, pods) in nodes.iter().zip(on_node) {
        let cards = node.cards.len().max(1);
        for (n, id) in pods.into_iter().enumerate() {
            seats.entry(node.cards[n % cards].uuid.clone()).or_insert_with(Vec::new).push(id.clone());
        }
    }
    Ok(seats)
}

/// Seats by node, or the workload that cannot be parted. Those that must be apart choose first, two seats each.
fn seat<'w>(
    request: &Request<'_>,
    group: &Group<'w, '_>,
    nodes: &[&Node],
    room: &[usize],
    stay: bool,
) -> Result<Vec<Vec<&'w WorkloadId>>, &'w WorkloadId> {
    let mut on_node: Vec<Vec<&'w WorkloadId>> = vec![Vec::new(); nodes.len()];
    let homes = |w: &Weighed<'_>| -> Vec<usize> {
        let at = |name: &str| nodes.iter().position(|node| node.name == name);
        w.pods.iter().filter_map(|pod| at(&pod.node)).collect()
    };
    for w in group.members.iter().filter(|w| apart(request, w)) {
        let id = &w.workload.id;
        let homes = homes(w);
        for _ in 0..2 {
            let i = (0..nodes.len())
                .filter(|i| on_node[*i].len() < room[*i] && !on_node[*i].contains(&id))
                .min_by_key(|i| {
                    let left = room[*i] - on_node[*i].len();
                    (stay && !homes.contains(i), std::cmp::Reverse(left), *i)
                })
                .ok_or(id)?;
            on_node[i].push(id);
        }
    }
    let mut homeless = Vec::new();
    for w in &group.members {
        let id = &w.workload.id;
        let homes = homes(w);
        let mut left = w.planned() as usize - if apart(request, w) { 2 } else { 0 };
        for i in BTreeSet::from_iter(&homes) {
            let has = on_node[*i].iter().filter(|there| **there == id).count();
            let more = homes.iter().filter(|home| *home == i).count().saturating_sub(has);
            let n = more.min(left).min(room[*i].saturating_sub(on_node[*i].len()));
            on_node[*i].extend(std::iter::repeat_n(id, n));
            left -= n;
        }
        homeless.extend(std::iter::repeat_n(id, left));
    }
    for id in homeless {
        let free =
            (0..nodes.len()).filter(|i| on_node[*i].len() < room[*i]).min_by_key(|i| (on_node[*i].len(), *i));
        if let Some(i) = free {
            on_node[i].push(id);
        }
    }
    Ok(on_node)
}

/// Its replicas are on several nodes today and must not all be on one.
pub(super) fn apart(request: &Request<'_>, weighed: &Weighed<'_>) -> bool {
    let stands_on: BTreeSet<&str> = weighed.pods.iter().map(|pod| pod.node.as_str()).collect();
    weighed.spread(request.pool) == Spread::Node && stands_on.len() > 1
}

/// Fills in what the outcomes free.
pub(super) fn with_saving(
    request: &Request<'_>,
    plan: &mut Plan,
    sharers: &[&Weighed<'_>],
    groups: &[Group<'_, '_>],
) {
    let missing =
        |w: &&Weighed<'_>| w.planned().saturating_sub(u32::try_from(w.pods.len()).unwrap_or(u32::MAX));
    // All that may come share cards then, so that no autoscaler adds a whole one.
    let autoscaled = Autoscaled { before: sharers.iter().map(missing).sum(), after: 0 };
    plan.saving = saving(request, &plan.nodes, autoscaled);
    if request.pool.kind == PoolKind::Elastic {
        let held = |node: &&NodeOutcome| node.before.iter().any(|card| *card != CardUse::Idle);
        plan.saving.group(
            request,
            plan.nodes.iter().filter(held).count(),
            groups.iter().map(|group| group.nodes.len()).sum(),
            plan.proof.n_cards,
        );
    }
}
