//! What the nodes of a group must hold once everybody who may move has moved, in numbers.
//!
//! As in `place`: who moves gets a slot for every planned replica and for rolling updates; for the others the plan must
//! not make it worse, so that what they may add stays free as far as it is free today. Frozen nodes stay as they are
//! with all that stands on them, and nobody is sent there.

use std::collections::BTreeSet;

use super::super::Mig;
use super::super::land::Land;
use crate::inventory::Resources;
use crate::plan::place::{Card, Tenant, count};
use crate::plan::pool::Spread;

/// What nodes that are made anew must hold; slots are counted a type and, last, in whole cards.
pub(super) struct Need {
    /// Slots for replicas that run or are planned for.
    pub(super) replicas: Vec<u32>,
    /// Slots that must be free: for rolling updates, autoscalers, and as spare cards.
    pub(super) free: Vec<u32>,
    /// Types of which somebody holds slices and keeps them.
    pub(super) fixed: BTreeSet<usize>,
    /// Fewest cut cards, so that replicas are apart.
    pub(super) cut_cards: u32,
    /// Fewest nodes of cut cards, so that replicas are apart.
    pub(super) cut_nodes: usize,
    /// Fewest nodes of whole cards, so that replicas are apart.
    pub(super) whole_nodes: usize,
    /// Largest pod of those that sit in slices then. `None`: not known.
    pub(super) largest_in_slices: Option<Resources>,
    /// Largest pod of those that keep whole cards on nodes that are not frozen. `None`: not known.
    pub(super) largest_whole: Option<Resources>,
}

impl Need {
    /// With those in `movable` in slices of the type that fits them best.
    pub(super) fn new(mig: &Mig<'_, '_>, land: &Land<'_>, movable: &BTreeSet<usize>) -> Self {
        let whole = mig.geometry.whole();
        let mut need = Self {
            replicas: vec![0; whole + 1],
            free: vec![0; whole + 1],
            fixed: BTreeSet::new(),
            cut_cards: 1,
            cut_nodes: 1,
            whole_nodes: 0,
            largest_in_slices: Some(Resources::default()),
            largest_whole: Some(Resources::default()),
        };
        let mut wished = vec![0u32; whole + 1];
        let mut moving: Vec<Vec<u32>> = vec![Vec::new(); whole + 1];
        let mut staying = moving.clone();
        for (i, tenant) in land.tenants.iter().enumerate() {
            let stand = Stand::new(land, i);
            let target = tenant.target.filter(|_| movable.contains(&i));
            let slot = target.unwrap_or(tenant.now);
            let on_new_nodes = if target.is_some() { tenant.planned } else { stand.loose };
            need.replicas[slot] = need.replicas[slot].saturating_add(on_new_nodes);
            if target.is_some() {
                moving[slot].push(tenant.max_surge);
            } else {
                let missing = tenant.planned.saturating_sub(stand.loose.saturating_add(stand.frozen));
                wished[slot] = wished[slot].saturating_add(missing);
                staying[slot].push(tenant.max_surge);
                if slot < whole {
                    need.fixed.insert(slot);
                }
            }
            if on_new_nodes > 0 {
                need.keep_apart(tenant, &stand, target.is_some(), slot < whole);
                let largest =
                    if slot < whole { &mut need.largest_in_slices } else { &mut need.largest_whole };
                *largest = largest.and_then(|largest| Some(largest.larger(tenant.needs?)));
            }
        }
        let at_once = |mut surges: Vec<u32>| {
            surges.sort_unstable_by(|a, b| b.cmp(a));
            let at_once = surges.iter().take(mig.request.pool.concurrent_rollouts as usize);
            at_once.fold(0u32, |sum, surge| sum.saturating_add(*surge))
        };
        let free_today = free_slots(land, whole, false);
        let on_frozen = free_slots(land, whole, true);
        for (slot, (moving, staying)) in moving.into_iter().zip(staying).enumerate() {
            let spare = if slot == whole { mig.request.pool.spare_cards } else { 0 };
            let kept = wished[slot].saturating_add(at_once(staying)).min(free_today[slot]);
            let beside_frozen = kept.saturating_add(spare).saturating_sub(on_frozen[slot]);
            need.free[slot] = at_once(moving).saturating_add(beside_frozen);
        }
        need
    }

    /// Who is apart today is apart then, and cards of one node are enough where the pool says so.
    fn keep_apart(&mut self, tenant: &Tenant, stand: &Stand, moves: bool, in_slices: bool) {
        let several = tenant.planned > 1;
        match tenant.spread {
            Spread::None => {}
            Spread::Card if several && moves => self.cut_cards = 2,
            Spread::Card => {}
            // A pod on a frozen node and one on a new node are apart already.
            Spread::Node if several && stand.n_sites > 1 && stand.frozen == 0 => {
                if in_slices {
                    (self.cut_cards, self.cut_nodes) = (2, 2);
                } else {
                    self.whole_nodes = 2;
                }
            }
            Spread::Node => {}
        }
    }

    /// Slots a type, without whole cards.
    pub(super) fn slices(&self) -> Vec<u32> {
        let all = self.slots();
        all[..all.len() - 1].to_vec()
    }

    /// Slots a type and, last, whole cards.
    pub(super) fn slots(&self) -> Vec<u32> {
        self.replicas.iter().zip(&self.free).map(|(n, free)| n.saturating_add(*free)).collect()
    }
}

/// Where the pods of one tenant stand today.
struct Stand {
    loose: u32,
    frozen: u32,
    n_sites: usize,
}

impl Stand {
    fn new(land: &Land<'_>, tenant: usize) -> Self {
        let mut stand = Self { loose: 0, frozen: 0, n_sites: 0 };
        for site in &land.sites {
            let here =
                count(site.cards.iter().flat_map(Card::holders).filter(|holder| *holder == tenant).count());
            stand.n_sites += usize::from(here > 0);
            *if site.frozen { &mut stand.frozen } else { &mut stand.loose } += here;
        }
        stand
    }
}

/// Free slots a type today and, last, idle cards: on all nodes, or on frozen ones alone.
fn free_slots(land: &Land<'_>, whole: usize, only_frozen: bool) -> Vec<u32> {
    let mut free = vec![0u32; whole + 1];
    for card in land.sites.iter().filter(|site| site.frozen || !only_frozen).flat_map(|site| &site.cards) {
        match card {
            Card::Whole(holder) => free[whole] += u32::from(holder.is_none()),
            Card::Cut(slots) => {
                for slot in slots.iter().filter(|slot| slot.holder.is_none()) {
                    free[slot.kind] += 1;
                }
            }
        }
    }
    free
}
