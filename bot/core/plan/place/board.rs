//! The pool in numbers: who stands where today, and what a card can be cut into.

use std::collections::{BTreeMap, BTreeSet};

use super::{Card, Site, Tenant, Wishes, count, layouts_of};
use crate::inventory::Resources;
use crate::pack::Fate;
use crate::pack::cards::Cutter;
use crate::pack::geometry::Geometry;

/// A pool with what is computed from it once.
pub(in crate::plan) struct Board<'a> {
    pub(super) geometry: &'a Geometry,
    pub(super) cutter: Cutter<'a>,
    pub(super) tenants: &'a [Tenant],
    pub(super) sites: &'a [Site],
    pub(super) wishes: Wishes,
    /// Most different layouts that its cards may have then.
    pub(super) most_layouts: Option<usize>,
    /// Pods of each tenant by site.
    pub(super) pods: Vec<BTreeMap<usize, u32>>,
    /// Pods of each tenant that run today.
    present: Vec<u32>,
    /// Pods of each tenant that stand on frozen sites.
    pub(super) frozen_pods: Vec<u32>,
    /// Free slots a type today and, last, idle cards.
    pub(super) free_today: Vec<u32>,
    /// Slots of each site a type and, last, whole cards.
    pub(super) slots: Vec<Vec<u32>>,
    /// What is left on each site for pods besides those that hold a card there. Not known where one of those asks for
    /// something that is not known: nobody else may come.
    pub(super) room: Vec<Option<Resources>>,
}

impl<'a> Board<'a> {
    pub(in crate::plan) fn new(
        geometry: &'a Geometry,
        tenants: &'a [Tenant],
        sites: &'a [Site],
        wishes: Wishes,
    ) -> Self {
        let whole = geometry.whole();
        let mut pods = vec![BTreeMap::new(); tenants.len()];
        let mut present = vec![0; tenants.len()];
        let mut frozen_pods = vec![0; tenants.len()];
        let mut free_today = vec![0; whole + 1];
        let mut slots = Vec::with_capacity(sites.len());
        let known = |site: &Site| {
            site.cards.iter().flat_map(Card::holders).all(|tenant| tenants[tenant].needs.is_some())
        };
        let room = sites.iter().map(|site| site.room.filter(|_| known(site))).collect();
        for (i, site) in sites.iter().enumerate() {
            let mut here = vec![0; whole + 1];
            for card in &site.cards {
                for tenant in card.holders() {
                    *pods[tenant].entry(i).or_insert(0) += 1;
                    present[tenant] += 1;
                    frozen_pods[tenant] += u32::from(site.frozen);
                }
                match card {
                    Card::Whole(holder) => {
                        here[whole] += 1;
                        free_today[whole] += u32::from(holder.is_none());
                    }
                    Card::Cut(cut) => {
                        for slot in cut {
                            here[slot.kind] += 1;
                            free_today[slot.kind] += u32::from(slot.holder.is_none());
                        }
                    }
                }
            }
            slots.push(here);
        }
        let today = || layouts_of(sites.iter().flat_map(|site| &site.cards)).len();
        let most_layouts = wishes.max_layouts.map(|most| today().max(most as usize));
        Self {
            geometry,
            cutter: Cutter::new(geometry),
            tenants,
            sites,
            wishes,
            most_layouts,
            pods,
            present,
            frozen_pods,
            free_today,
            slots,
            room,
        }
    }

    pub(super) fn whole(&self) -> usize {
        self.geometry.whole()
    }

    /// Pods that run today.
    pub(super) fn present(&self, tenant: usize) -> u32 {
        self.present[tenant]
    }

    /// Pods that an autoscaler may add.
    pub(super) fn missing(&self, tenant: usize) -> u32 {
        self.tenants[tenant].planned.saturating_sub(self.present(tenant))
    }

    /// The tenant may change: a frozen node keeps its pods, and the others could not change without them.
    pub(super) fn may_convert(&self, tenant: usize) -> bool {
        self.tenants[tenant].target.is_some() && self.frozen_pods[tenant] == 0
    }

    /// The kind of slot that its pods ask for then.
    pub(super) fn slot_of(&self, tenant: usize, converted: &BTreeSet<usize>) -> usize {
        let t = &self.tenants[tenant];
        t.target.filter(|_| converted.contains(&tenant)).unwrap_or(t.now)
    }

    /// Cards that pods hold or that are cut, with those that autoscalers may add for tenants that keep whole cards.
    pub(super) fn busy(&self, cards: &[Vec<Card>], converted: &BTreeSet<usize>) -> u32 {
        let keeps_whole = |i: &usize| self.slot_of(*i, converted) == self.whole() && !converted.contains(i);
        let missing: u32 = (0..self.tenants.len()).filter(keeps_whole).map(|i| self.missing(i)).sum();
        missing + count(cards.iter().flatten().filter(|card| card.in_use()).count())
    }

    /// Pods that restart: all of freed and touched sites, and those of converted tenants elsewhere.
    pub(super) fn restarts(&self, converted: &BTreeSet<usize>, fates: &[Fate]) -> u32 {
        self.pods
            .iter()
            .enumerate()
            .flat_map(|(tenant, pods)| pods.iter().map(move |(site, n)| (tenant, *site, *n)))
            .filter(|(tenant, site, _)| fates[*site] != Fate::Untouched || converted.contains(tenant))
            .map(|(.., n)| n)
            .sum()
    }

    /// Pods of the tenant that would go on undisturbed if it did not change.
    pub(super) fn undisturbed(&self, tenant: usize, fates: &[Fate]) -> u32 {
        self.pods[tenant].iter().filter(|(site, _)| fates[**site] == Fate::Untouched).map(|(_, n)| n).sum()
    }

    /// Its replicas are on several nodes today: what was not apart before need not be made so.
    pub(super) fn was_spread(&self, tenant: usize) -> bool {
        self.pods[tenant].len() > 1
    }
}
