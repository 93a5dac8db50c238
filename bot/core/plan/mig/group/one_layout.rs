//! The single layout that serves a demand with the fewest cards.

use std::collections::BTreeSet;

use crate::pack::geometry::{Geometry, Layout};

/// One layout for every cut card of a group.
pub(super) struct OneLayout {
    /// What each card is cut into.
    pub(super) layout: Layout,
    /// The type that replicas of each type sit in.
    pub(super) sits_in: Vec<usize>,
    /// Cards that hold the demand.
    pub(super) n_cards: u32,
}

/// Every layout that a card can have; those of one type come first.
pub(super) fn every_layout(geometry: &Geometry) -> Vec<Layout> {
    let mut layouts: Vec<Layout> = (0..geometry.whole()).map(|kind| geometry.uniform_layout(kind)).collect();
    layouts.extend(geometry.maximal_layouts());
    layouts
}

/// Looks at every layout of these, and at every way to put the replicas of a type into one of the types in `may_sit_in`. Of
/// equals, layouts of one type come first, and ways that leave types as they are.
pub(super) fn one_layout(
    geometry: &Geometry,
    layouts: &[Layout],
    demand: &[u32],
    may_sit_in: &[BTreeSet<usize>],
) -> Option<OneLayout> {
    if demand.iter().all(|n| *n == 0) {
        return None;
    }
    let ways = ways(may_sit_in);
    let mut best: Option<OneLayout> = None;
    for layout in layouts {
        for sits_in in &ways {
            let mut needed = vec![0u32; geometry.whole()];
            for (n, kind) in demand.iter().zip(sits_in) {
                needed[*kind] = needed[*kind].saturating_add(*n);
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
                best = Some(OneLayout { layout: layout.clone(), sits_in: sits_in.clone(), n_cards });
            }
        }
    }
    best
}

/// Every choice of one type for each type.
fn ways(may_sit_in: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    let mut ways = vec![Vec::new()];
    for types in may_sit_in {
        ways = ways
            .iter()
            .flat_map(|way: &Vec<usize>| {
                types.iter().map(move |to| way.iter().copied().chain(std::iter::once(*to)).collect())
            })
            .collect();
    }
    ways
}
