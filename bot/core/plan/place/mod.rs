//! Which nodes are freed, which are cut, and where every replica goes.
//!
//! A pod asks for one resource by its exact name, so that all replicas of a workload sit in slices of one type, or on
//! whole cards, and a workload that changes restarts as a whole. (`pack` solves the problem without that: there each
//! replica is on its own. Its answer is where the search here starts.) First as much as possible is freed by the
//! pool's goal, then as few nodes as possible are drained, then as few pods as possible restart.
//!
//! `board` holds the pool in numbers, `convert` decides which workloads change, `cut`, `seat` and `tryout` give
//! everybody a place, `lay_out` does all that for given fates, `search` and `every_way` look for the fates of nodes, `bound` says what no plan can beat, `waves` in which order it can be done.

mod board;

mod bound;

mod convert;

mod cut;

mod every_way;

mod lay_out;

mod seat;

mod search;

mod tally;

mod tryout;

pub(super) mod waves;

use std::collections::BTreeSet;

use super::Goal;
use super::pool::{Spread, Waves};
use crate::inventory::Resources;
use crate::pack::Fate;
use crate::pack::cards::CardsNeeded;
use crate::pack::geometry::Geometry;
pub(super) use board::Board;
pub(super) use bound::Bound;
use waves::Wave;

/// One workload to place.
#[derive(Clone, Debug)]
pub(super) struct Tenant {
    /// Name for ties, `namespace/name`.
    pub(super) key: String,
    /// What its pods hold today: a slice type, or [`Geometry::whole`].
    pub(super) now: usize,
    /// What they may hold instead. `None`: it keeps what it has.
    pub(super) target: Option<usize>,
    /// What it has is too small: it moves if there is room at all.
    pub(super) must_move: bool,
    /// Replicas to plan for.
    pub(super) planned: u32,
    /// Extra pods while it rolls.
    pub(super) max_surge: u32,
    /// How far its replicas must be apart.
    pub(super) spread: Spread,
    /// Sites where its pods may run, by index: taints, selectors, and where they run today.
    pub(super) sites: BTreeSet<usize>,
    /// Its pods that run on nodes which are not planned with.
    pub(super) elsewhere: u32,
    /// What one pod needs besides the GPU. `None`: not known, so that it never changes its node.
    pub(super) needs: Option<Resources>,
}

/// One node to plan with.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// Node name.
    pub(super) name: String,
    /// Its cards today.
    pub(super) cards: Vec<Card>,
    /// Must stay as it is, and so must its pods.
    pub(super) frozen: bool,
    /// Price, or 1 where none is known; only compared.
    pub(super) cost: i64,
    /// What is left for pods besides those that hold a card here. `None`: not known, so that no pod may come.
    pub(super) room: Option<Resources>,
    /// Its label stands in the repository: the merge changes it together with all others.
    pub(super) labelled_by_merge: bool,
}

/// A card, today or then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Card {
    /// MIG off, with its holder.
    Whole(Option<usize>),
    /// MIG on.
    Cut(Vec<Slot>),
}

/// One slice of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// Slice type.
    pub(super) kind: usize,
    /// First memory slice that it covers; for slices of today one that is possible.
    pub(super) start: u8,
    /// Who holds it.
    pub(super) holder: Option<usize>,
}

impl Card {
    /// A pod has it, or it is cut.
    pub(super) fn in_use(&self) -> bool {
        match self {
            Self::Whole(holder) => holder.is_some(),
            Self::Cut(_) => true,
        }
    }

    /// Holders, one entry a pod.
    pub(super) fn holders(&self) -> impl Iterator<Item = usize> {
        let slots: &[Slot] = match self {
            Self::Whole(_) => &[],
            Self::Cut(slots) => slots,
        };
        let whole = match self {
            Self::Whole(holder) => *holder,
            Self::Cut(_) => None,
        };
        whole.into_iter().chain(slots.iter().filter_map(|slot| slot.holder))
    }
}

/// The different ways in which these cards are cut: slice types, sorted.
pub(super) fn layouts_of<'c>(cards: impl IntoIterator<Item = &'c Card>) -> BTreeSet<Vec<usize>> {
    let cut = cards.into_iter().filter_map(|card| match card {
        Card::Whole(_) => None,
        Card::Cut(slots) => {
            let mut kinds: Vec<usize> = slots.iter().map(|slot| slot.kind).collect();
            kinds.sort_unstable();
            Some(kinds)
        }
    });
    cut.collect()
}

/// What the pool's owner wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wishes {
    pub(super) goal: Goal,
    pub(super) spare_cards: u32,
    pub(super) concurrent_rollouts: u32,
    pub(super) waves: Waves,
    /// Most distinct layouts of the pool's cards; where there are more today, no more than those.
    pub(super) max_layouts: Option<u32>,
}

/// Where everything goes.
#[derive(Clone, Debug)]
pub(super) struct Placement {
    /// What becomes of each site.
    pub(super) fates: Vec<Fate>,
    /// Tenants that move into another kind of slot, by index.
    pub(super) converted: BTreeSet<usize>,
    /// Cards of every site then; empty for freed ones.
    pub(super) cards: Vec<Vec<Card>>,
    /// Cards cut anew, with the proof that fewer cannot hold what is in them.
    pub(super) cut: CardsNeeded,
    /// The order in which nodes are drained and cut.
    pub(super) waves: Vec<Wave>,
    /// Workloads that could not be kept apart as asked, by index.
    pub(super) together: BTreeSet<usize>,
}

impl Placement {
    /// Sites with this fate, by index.
    pub(super) fn with_fate(&self, fate: Fate) -> impl Iterator<Item = usize> {
        self.fates.iter().enumerate().filter(move |(_, f)| **f == fate).map(|(i, _)| i)
    }
}

/// What comes of looking for a placement.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// Something is gained.
    Gain(Box<Placement>, Bound),
    /// Something would be gained, but not in an order that the pool's `waves` allow.
    NoOrder {
        /// Nodes that would be drained.
        nodes: Vec<String>,
        /// Workloads that would have no pod meanwhile.
        down: Vec<String>,
        /// Nodes of the largest size of the pool that would have to be borrowed.
        borrowed: u32,
    },
    /// Nothing is gained.
    Nothing(Bound),
}

/// Finds the placement for the goal.
pub(super) fn place(geometry: &Geometry, tenants: &[Tenant], sites: &[Site], wishes: Wishes) -> Answer {
    let board = Board::new(geometry, tenants, sites, wishes);
    let bound = Bound::new(&board);
    if let Some(placement) = search::search(&board, &bound) {
        return Answer::Gain(Box::new(placement), bound);
    }
    if wishes.waves != Waves::AllowDowntime {
        let lenient = Board::new(geometry, tenants, sites, Wishes { waves: Waves::AllowDowntime, ..wishes });
        if let Some(placement) = search::search(&lenient, &bound) {
            return Answer::NoOrder {
                nodes: placement.with_fate(Fate::Touched).map(|i| sites[i].name.clone()).collect(),
                down: {
                    let down: BTreeSet<&String> = placement
                        .waves
                        .iter()
                        .flat_map(|wave| &wave.down)
                        .map(|tenant| &tenants[*tenant].key)
                        .collect();
                    down.into_iter().cloned().collect()
                },
                borrowed: waves::borrowed(&lenient, &placement),
            };
        }
    }
    Answer::Nothing(bound)
}

/// A length as a count of cards, pods or nodes.
pub(super) fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
