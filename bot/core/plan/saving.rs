//! Cards, nodes and money that a plan frees. Two numbers, never added.

use serde::{Deserialize, Serialize};

use crate::units::Money;

/// What a plan frees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saving {
    /// Cards of the pool.
    pub cards_before: u32,
    /// Cards that pods hold today.
    pub cards_in_use_before: u32,
    /// Cards that pods hold then.
    pub cards_in_use_after: u32,
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
