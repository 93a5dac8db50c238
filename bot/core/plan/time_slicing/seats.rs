//! Which nodes hold the pods of a group: the fewest by cards and by CPU, memory and pod slots.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::super::{Goal, Weighed};
use crate::inventory::{Node, Resources};

/// Nodes that may be shared, with the room that they have once no sharer is on them.
pub(super) struct Floor<'a> {
    rooms: Vec<Room<'a>>,
    /// The largest request of any sharer's pod, figure by figure: any of them may come to any node.
    largest: Resources,
    goal: Goal,
}

struct Room<'a> {
    node: &'a Node,
    n_cards: u32,
    rest: Resources,
}

/// What one group needs.
pub(super) struct Ask {
    pub(super) replicas: u32,
    pub(super) n_pods: u32,
    /// Nodes at least, so that not all replicas of a workload stand on one.
    pub(super) n_nodes: usize,
    /// Its pods on each node today.
    pub(super) here: BTreeMap<String, usize>,
}

/// Nodes for each group.
pub(super) struct Placed {
    /// In the order of the asks.
    pub(super) nodes: Vec<BTreeSet<String>>,
    /// Nodes kept (`Bill`), or cards on them (`Capacity`).
    pub(super) cost: u64,
    /// No choice costs less.
    pub(super) least: u64,
}

impl<'a> Floor<'a> {
    /// `None`: what a node offers or a pod asks for is not known.
    pub(super) fn new(sharers: &[&Weighed<'_>], nodes: &[&'a Node], goal: Goal) -> Option<Self> {
        let largest = sharers.iter().map(|w| w.largest_pod()).reduce(|a, b| Some(a?.larger(b?))).flatten()?;
        let rooms: Option<Vec<Room<'a>>> = nodes
            .iter()
            .map(|node| {
                let here = sharers
                    .iter()
                    .flat_map(|w| &w.pods)
                    .filter(|pod| pod.node == node.name)
                    .try_fold(Resources::default(), |sum, pod| Some(sum.plus(pod.requests?.into())))?;
                Some(Room {
                    node,
                    n_cards: u32::try_from(node.cards.len()).unwrap_or(u32::MAX),
                    rest: node.allocatable?.minus(node.requested?.minus(here)),
                })
            })
            .collect();
        Some(Self { rooms: rooms?, largest, goal })
    }

    /// Pods of at most the largest size that a node holds.
    fn holds(&self, room: &Room<'_>, replicas: u32) -> u32 {
        let seats = room.n_cards.saturating_mul(replicas);
        (0..=seats).rev().find(|n| self.largest.times(*n).fits_in(room.rest)).unwrap_or(0)
    }

    /// Pods that each node holds, in the order of the nodes.
    pub(super) fn seats(&self, replicas: u32) -> Vec<u32> {
        self.rooms.iter().map(|room| self.holds(room, replicas)).collect()
    }

    /// Pods that all nodes hold together.
    pub(super) fn most_pods(&self, replicas: u32) -> u32 {
        self.seats(replicas).into_iter().fold(0, u32::saturating_add)
    }

    /// The least that one group alone costs. `None`: the nodes do not hold it.
    pub(super) fn least(&self, replicas: u32, n_pods: u32) -> Option<u64> {
        if self.most_pods(replicas) < n_pods {
            return None;
        }
        match self.goal {
            Goal::Bill => {
                let mut holds = self.seats(replicas);
                holds.sort_unstable_by_key(|n| Reverse(*n));
                let mut left = n_pods;
                let full = holds.iter().take_while(|n| {
                    let needed = left > 0;
                    left = left.saturating_sub(**n);
                    needed
                });
                Some(full.count() as u64)
            }
            Goal::Capacity => Some(u64::from(n_pods.div_ceil(replicas.max(1)))),
        }
    }

    /// Nodes for every group, none for two. The group that chooses first may matter: both orders are tried.
    pub(super) fn place(&self, asks: &[Ask]) -> Option<Placed> {
        let alone = |ask: &Ask| {
            let apart = if self.goal == Goal::Bill { ask.n_nodes as u64 } else { 0 };
            self.least(ask.replicas, ask.n_pods).map(|least| least.max(apart))
        };
        let least = asks.iter().map(alone).sum::<Option<u64>>()?;
        let forward: Vec<usize> = (0..asks.len()).collect();
        let backward: Vec<usize> = forward.iter().rev().copied().collect();
        let orders = if asks.len() > 1 { vec![forward, backward] } else { vec![forward] };
        let mut best: Option<Placed> = None;
        for order in orders {
            let mut taken = BTreeSet::new();
            let mut nodes = vec![BTreeSet::new(); asks.len()];
            let seated = order.into_iter().all(|i| match self.take(&asks[i], &taken) {
                Some(chosen) => {
                    nodes[i] = chosen.iter().map(|room| self.rooms[*room].node.name.clone()).collect();
                    taken.extend(chosen);
                    true
                }
                None => false,
            });
            let cost = match self.goal {
                Goal::Bill => taken.len() as u64,
                Goal::Capacity => taken.iter().map(|room| u64::from(self.rooms[*room].n_cards)).sum(),
            };
            if seated && best.as_ref().is_none_or(|best| cost < best.cost) {
                best = Some(Placed { nodes, cost, least });
            }
        }
        best
    }

    /// Nodes for one group among those that are not taken. `Bill`: those that hold the most first, which gives the
    /// fewest. `Capacity`: those that hold the most a card, then without those that are not needed. Of equals, those
    /// where most of its pods are, then by name.
    fn take(&self, ask: &Ask, taken: &BTreeSet<usize>) -> Option<Vec<usize>> {
        let mut open: Vec<(usize, u32)> = self
            .rooms
            .iter()
            .enumerate()
            .filter(|(i, _)| !taken.contains(i))
            .map(|(i, room)| (i, self.holds(room, ask.replicas)))
            .filter(|(_, holds)| *holds > 0)
            .collect();
        let here = |i: usize| ask.here.get(&self.rooms[i].node.name).copied().unwrap_or(0);
        open.sort_by(|(a, holds_a), (b, holds_b)| {
            let cards = |i: usize| u64::from(self.rooms[i].n_cards);
            let by_goal = match self.goal {
                Goal::Bill => holds_b.cmp(holds_a),
                Goal::Capacity => (u64::from(*holds_b) * cards(*a)).cmp(&(u64::from(*holds_a) * cards(*b))),
            };
            by_goal
                .then_with(|| here(*b).cmp(&here(*a)))
                .then_with(|| self.rooms[*a].node.name.cmp(&self.rooms[*b].node.name))
        });
        let mut chosen: Vec<(usize, u32)> = Vec::new();
        let mut room = 0u32;
        for (i, holds) in open {
            if room >= ask.n_pods && chosen.len() >= ask.n_nodes {
                break;
            }
            room = room.saturating_add(holds);
            chosen.push((i, holds));
        }
        if room < ask.n_pods || chosen.len() < ask.n_nodes {
            return None;
        }
        if self.goal == Goal::Capacity {
            // The largest that can be spared goes first.
            let mut spare: Vec<(usize, u32)> = chosen.clone();
            spare.sort_by_key(|(i, _)| (Reverse(self.rooms[*i].n_cards), here(*i), Reverse(*i)));
            for (i, holds) in spare {
                if room - holds >= ask.n_pods && chosen.len() > ask.n_nodes {
                    room -= holds;
                    chosen.retain(|(kept, _)| *kept != i);
                }
            }
        }
        Some(chosen.into_iter().map(|(i, _)| i).collect())
    }
}
