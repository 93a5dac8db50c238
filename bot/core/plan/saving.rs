//! Cards, nodes and money that a plan frees. Two numbers, never added.

use serde::{Deserialize, Serialize};

use super::{CardUse, NodeFate, NodeOutcome, PoolKind, Request};
use crate::units::{Money, counted};

/// What a plan frees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saving {
    /// Cards of the pool.
    pub cards_before: u32,
    /// Cards that pods hold today, with those that autoscalers may add.
    pub cards_in_use_before: u32,
    /// Cards that pods hold then, with those that autoscalers may add.
    pub cards_in_use_after: u32,
    /// Of `cards_in_use_before`, those that no pod holds now and an autoscaler may add.
    pub cards_of_autoscalers: u32,
    /// Cards freed: in use today less in use then.
    pub cards_freed: u32,
    /// Nodes that may go, by name; for elastic pools empty, see `nodes_after`.
    pub nodes_freed: Vec<String>,
    /// Nodes of the pool today.
    pub nodes_before: u32,
    /// Nodes of the pool then.
    pub nodes_after: u32,
    /// What the bill loses a month when the freed nodes are gone. `None`: no price is known.
    pub per_month: Option<Money>,
    /// Price of one node per hour and where it comes from, or that none is known and how to set it.
    pub price_source: String,
    /// What has to happen for the bill to fall.
    pub condition: String,
}

impl Saving {
    /// For a group whose nodes come and go: counts instead of names.
    pub(super) fn group(&mut self, request: &Request<'_>, before: usize, after: usize, cards_after: u32) {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        self.nodes_before = count(before);
        self.nodes_after = count(after);
        self.cards_in_use_after = cards_after;
        self.cards_freed = self.cards_in_use_before.saturating_sub(cards_after);
        let fewer = i64::try_from(before.saturating_sub(after)).unwrap_or(i64::MAX);
        // The cheapest price of the group: the bill falls by this much at least.
        self.per_month = request
            .pool
            .prices
            .values()
            .map(|price| price.per_hour.clone())
            .min()
            .map(|per_hour| per_hour.times(fewer).per_month_from_hour());
        self.condition =
            format!("the autoscaler has to remove {}", counted(before.saturating_sub(after), "empty node"));
    }
}

/// Whole cards beyond those in the outcomes, which autoscalers may come to hold.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Autoscaled {
    /// As things are today.
    pub(super) before: u32,
    /// With the plan: those of workloads that keep whole cards.
    pub(super) after: u32,
}

/// Counts what the outcomes free, and prices the nodes that go.
pub(super) fn saving(request: &Request<'_>, nodes: &[NodeOutcome], autoscaled: Autoscaled) -> Saving {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let in_use = |cards: &[CardUse]| cards.iter().filter(|card| **card != CardUse::Idle).count();
    let before = nodes.iter().map(|node| in_use(&node.before)).sum::<usize>() + autoscaled.before as usize;
    let after = nodes.iter().map(|node| in_use(&node.after)).sum::<usize>() + autoscaled.after as usize;
    let freed: Vec<&NodeOutcome> = nodes.iter().filter(|node| node.fate == NodeFate::Freed).collect();
    let names: Vec<String> = freed.iter().map(|node| node.name.clone()).collect();
    let prices: Option<Vec<Money>> = freed.iter().map(|node| node.per_hour.clone()).collect();
    let per_month = prices
        .and_then(|prices| {
            prices.into_iter().try_fold(None::<Money>, |sum, price| match sum {
                None => Some(Some(price)),
                Some(sum) => sum.plus(&price).map(Some),
            })
        })
        .flatten()
        .map(|per_hour| per_hour.per_month_from_hour());
    Saving {
        cards_before: count(nodes.iter().map(|node| node.before.len()).sum()),
        cards_in_use_before: count(before),
        cards_in_use_after: count(after),
        cards_of_autoscalers: autoscaled.before,
        cards_freed: count(before.saturating_sub(after)),
        nodes_before: count(nodes.len()),
        nodes_after: count(nodes.len() - freed.len()),
        price_source: price_source(request),
        condition: condition(request.pool.kind, names.len()),
        nodes_freed: names,
        per_month,
    }
}

fn price_source(request: &Request<'_>) -> String {
    let mut sources: Vec<String> = request
        .pool
        .prices
        .values()
        .map(|price| format!("{} per node and hour, {}", price.per_hour, price.source))
        .collect();
    sources.sort();
    sources.dedup();
    if sources.is_empty() {
        "no price is known: set `node_per_hour` for the pool, or `prices`, or let Prometheus scrape OpenCost"
            .to_owned()
    } else {
        sources.join("; ")
    }
}

fn condition(kind: PoolKind, n_freed: usize) -> String {
    if n_freed == 0 {
        return "a node has to go, and none does: the freed cards are room for others".to_owned();
    }
    let nodes = counted(n_freed, "drained node");
    match kind {
        PoolKind::Static => format!("a person has to take the {nodes} out of service"),
        PoolKind::Elastic => format!("the autoscaler has to remove the {nodes}"),
    }
}
