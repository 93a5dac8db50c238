//! Profiles with media engines: a card has one of them, and more of the next larger profile, which may have a decoder too.
//!
//! The only place where a larger slice than needed saves cards (see `pack::cards::fewest_along_chain`).

use crate::catalog::{Attribute, MigProfile};
use crate::fit::Verdict;
use crate::pack::cards::fewest_cards;
use crate::pack::geometry::Geometry;
use crate::plan::Weighed;

use super::land::slice_of;

/// Gives as many workloads the next larger profile as saves cards, the last by name first.
pub(super) fn raise(weighed: &mut [Weighed<'_>], chain: &[&MigProfile], geometry: &Geometry) {
    for kind in 0..chain.len().saturating_sub(1) {
        if chain[kind].name.attribute != Attribute::Me {
            continue;
        }
        let larger = chain[kind + 1].name.to_string();
        let fits = |w: &Weighed<'_>| w.fit.considered.iter().any(|c| c.name == larger && c.fits);
        let may: Vec<usize> = (0..weighed.len())
            .filter(|i| slice_of(&weighed[*i]) == Some(kind) && fits(&weighed[*i]))
            .collect();
        let mut demand = vec![0u32; geometry.whole()];
        for w in weighed.iter() {
            if let Some(slice) = slice_of(w) {
                demand[slice] = demand[slice].saturating_add(w.planned());
            }
        }
        let mut best = (fewest_cards(geometry, &demand).n_cards, 0);
        for (n, i) in may.iter().rev().enumerate() {
            let planned = weighed[*i].planned();
            demand[kind] = demand[kind].saturating_sub(planned);
            demand[kind + 1] = demand[kind + 1].saturating_add(planned);
            best = best.min((fewest_cards(geometry, &demand).n_cards, n + 1));
        }
        for i in may.iter().rev().take(best.1) {
            weighed[*i].fit.verdict = Verdict::Mig { profile: larger.clone() };
        }
    }
}
