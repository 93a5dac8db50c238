//! Which nodes a picture of a pool shows, and how their cards are divided, before and after.
//!
//! Follows the plan's nodes and the catalog's sizes. How it looks is the question of `bars`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use slicewright_core::catalog::{GpuModel, ProfileName};
use slicewright_core::ids::WorkloadId;
use slicewright_core::plan::{CardUse, NodeFate, NodeOutcome, Plan, PluginSharing, SliceUse};

use super::{Clothes, bars};
use crate::render::page;

/// Nodes that are drawn. Sixteen nodes of eight cards are some 5,300 pixels high; twice as many, and nobody looks.
const MOST_NODES: usize = 16;

/// Cards of one node that are drawn: the largest machines have sixteen.
const MOST_CARDS: usize = 16;

/// A pool before and after, as it is drawn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packing {
    /// The pool, `dc1/a100-40gb`.
    pub pool: String,
    /// Product name of the cards.
    pub model_name: String,
    /// Nodes that are drawn, in the order of the plan. A node that is like one of them may be left out.
    pub nodes: Vec<NodeRow>,
    /// Nodes that are neither drawn nor like one that is.
    pub n_others: u32,
}

/// One node that is drawn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRow {
    /// Node name.
    pub name: String,
    /// What happens to it, in words.
    pub what: String,
    /// Its cards today, in the order of their UUIDs.
    pub before: Vec<Bar>,
    /// Its cards then. `None`: as today.
    pub after: Option<Vec<Bar>>,
    /// Cards that are not drawn.
    pub n_more_cards: u32,
    /// Nodes that are not drawn, with the same fate and cards that are divided alike.
    pub n_alike: u32,
}

/// One card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bar {
    /// What `start` and `size` of the pieces count: all memory slices of the card, the replicas that it is offered as, or 1.
    pub units: u32,
    /// Widths are shares of the card's memory, or of its time. Otherwise the sizes are not known, and all pieces are drawn
    /// alike.
    pub to_scale: bool,
    /// From the left, without gaps or overlaps.
    pub pieces: Vec<Piece>,
}

/// A part of a card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Where it starts, in units of the bar.
    pub start: u32,
    /// How long it is, in units of the bar.
    pub size: u32,
    /// What it is.
    pub kind: PieceKind,
    /// What it is called: `2g.10gb`.
    pub label: String,
    /// Whose it is. `None`: nobody's, or not known.
    pub workload: Option<WorkloadId>,
}

/// What a part of a card is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PieceKind {
    /// The whole card in one hand.
    Whole,
    /// A MIG slice; without a workload it is room for rolling updates, or left over.
    Slice,
    /// One of several turns on the card; memory is everybody's.
    Turn,
    /// One of several MPS clients, each with an equal part of memory and threads.
    Client,
    /// Memory that belongs to no slice.
    Uncut,
    /// The whole card in nobody's hand.
    Idle,
    /// The whole card of a node that goes.
    Freed,
    /// Used in a way that the plan does not look into.
    Other,
}

impl Packing {
    /// The plan's pool. `model` is that of its cards; `None`: not in the catalog, and slices are drawn alike.
    #[must_use]
    pub fn of(plan: &Plan, model: Option<&GpuModel>) -> Self {
        let rows: Vec<NodeRow> = plan.nodes.iter().map(|node| row(node, plan, model)).collect();
        let shown = choose(&rows);
        let mut nodes: Vec<NodeRow> = shown.iter().map(|n| rows[*n].clone()).collect();
        let mut n_others = 0;
        for (n, row) in rows.iter().enumerate() {
            if shown.contains(&n) {
                continue;
            }
            let shape = shape(row);
            match nodes.iter_mut().find(|known| self::shape(known) == shape) {
                Some(known) => known.n_alike += 1,
                None => n_others += 1,
            }
        }
        Self { pool: plan.pool.to_string(), model_name: plan.model_name.clone(), nodes, n_others }
    }

    /// Draws at most so many of the nodes, those that change first, and says how many others there are.
    #[must_use]
    pub fn svg(&self, clothes: Clothes<'_>, most: usize) -> String {
        bars::draw(self, clothes, most)
    }
}

/// Places of the rows to draw, ascending: one of each shape, those that change before those that stay; then others that
/// change, in their order.
fn choose(rows: &[NodeRow]) -> Vec<usize> {
    let mut firsts: BTreeMap<Shape<'_>, usize> = BTreeMap::new();
    for (n, row) in rows.iter().enumerate() {
        firsts.entry(shape(row)).or_insert(n);
    }
    let is_first = |n: &usize| firsts.get(&shape(&rows[*n])) == Some(n);
    let mut order: Vec<usize> = (0..rows.len()).filter(|n| is_first(n) || rows[*n].after.is_some()).collect();
    order.sort_by_cached_key(|n| (!is_first(n), rows[*n].after.is_none(), *n));
    order.truncate(MOST_NODES);
    order.sort_unstable();
    order
}

/// What two nodes have in common that are drawn alike, whoever runs on them.
type Shape<'a> = (&'a str, Vec<(PieceKind, u32, u32, bool)>, Option<Vec<(PieceKind, u32, u32, bool)>>, u32);

fn shape(row: &NodeRow) -> Shape<'_> {
    let pieces = |bars: &[Bar]| {
        let of = |piece: &Piece| (piece.kind, piece.start, piece.size, piece.workload.is_some());
        bars.iter().flat_map(|bar| bar.pieces.iter().map(of)).collect::<Vec<_>>()
    };
    (&row.what, pieces(&row.before), row.after.as_deref().map(pieces), row.n_more_cards)
}

fn row(node: &NodeOutcome, plan: &Plan, model: Option<&GpuModel>) -> NodeRow {
    let bars = |cards: &[CardUse]| cards.iter().take(MOST_CARDS).map(|card| bar(card, model)).collect();
    let before: Vec<Bar> = bars(&node.before);
    let after = match node.fate {
        NodeFate::Freed => Some(vec![whole(PieceKind::Freed, "freed", None); before.len()]),
        NodeFate::Touched | NodeFate::Untouched if node.before == node.after => None,
        NodeFate::Touched | NodeFate::Untouched => Some(bars(&node.after)),
    };
    let what = match (node.fate, &after) {
        (NodeFate::Untouched, Some(_)) => "cut as it is; pods come or leave",
        (fate, _) => page::fate(fate, plan.method),
    };
    let n_cards = node.before.len().max(node.after.len());
    NodeRow {
        name: node.name.clone(),
        what: what.to_owned(),
        before,
        after,
        n_more_cards: u32::try_from(n_cards.saturating_sub(MOST_CARDS)).unwrap_or(u32::MAX),
        n_alike: 0,
    }
}

fn bar(card: &CardUse, model: Option<&GpuModel>) -> Bar {
    match card {
        CardUse::Idle => whole(PieceKind::Idle, "idle", None),
        CardUse::Whole { workload } => whole(PieceKind::Whole, "whole GPU", Some(workload)),
        CardUse::Slices { slices } => to_scale(slices, model).unwrap_or_else(|| alike(slices)),
        CardUse::Shared { sharing, replicas, workloads } => {
            let (kind, one) = match sharing {
                PluginSharing::TimeSlicing => (PieceKind::Turn, "time slice"),
                PluginSharing::Mps => (PieceKind::Client, "MPS share"),
            };
            let units = (*replicas).max(u32::try_from(workloads.len()).unwrap_or(u32::MAX)).max(1);
            let piece = |start: u32| Piece {
                start,
                size: 1,
                kind,
                label: format!("{one} {}/{units}", start + 1),
                workload: usize::try_from(start).ok().and_then(|n| workloads.get(n)).cloned(),
            };
            Bar { units, to_scale: true, pieces: (0..units).map(piece).collect() }
        }
        CardUse::Other { text } => whole(PieceKind::Other, text, None),
    }
}

fn whole(kind: PieceKind, label: &str, workload: Option<&WorkloadId>) -> Bar {
    let piece = Piece { start: 0, size: 1, kind, label: label.to_owned(), workload: workload.cloned() };
    Bar { units: 1, to_scale: true, pieces: vec![piece] }
}

/// Slices where they are on the card's memory, with what is left between them. `None`: the catalog does not know a size,
/// or the places contradict each other.
fn to_scale(slices: &[SliceUse], model: Option<&GpuModel>) -> Option<Bar> {
    let model = model.filter(|model| model.memory_slices > 0)?;
    let units = u32::from(model.memory_slices);
    let mut placed = Vec::new();
    for slice in slices {
        let size = model.profile(slice.profile.parse::<ProfileName>().ok()?)?.size;
        placed.push(piece(slice, u32::from(slice.start), u32::from(size)));
    }
    placed.sort_by_key(|piece| piece.start);
    let mut pieces = Vec::new();
    let mut at = 0;
    let uncut = |start: u32, end: u32| {
        let label = "not cut".to_owned();
        let piece = Piece { start, size: end - start, kind: PieceKind::Uncut, label, workload: None };
        (start < end).then_some(piece)
    };
    for piece in placed {
        if piece.start < at || piece.size == 0 {
            return None;
        }
        pieces.extend(uncut(at, piece.start));
        at = piece.start + piece.size;
        pieces.push(piece);
    }
    if at > units {
        return None;
    }
    pieces.extend(uncut(at, units));
    Some(Bar { units, to_scale: true, pieces })
}

fn alike(slices: &[SliceUse]) -> Bar {
    let numbered = (0_u32..).zip(slices);
    let pieces: Vec<Piece> = numbered.map(|(n, slice)| piece(slice, n, 1)).collect();
    Bar { units: u32::try_from(pieces.len()).unwrap_or(u32::MAX).max(1), to_scale: false, pieces }
}

fn piece(slice: &SliceUse, start: u32, size: u32) -> Piece {
    Piece {
        start,
        size,
        kind: PieceKind::Slice,
        label: slice.profile.clone(),
        workload: slice.workload.clone(),
    }
}
