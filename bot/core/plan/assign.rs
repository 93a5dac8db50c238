//! Which nodes are freed, which are cut, and where every replica goes.
//!
//! A pod asks for one resource by its exact name, so that all replicas of a workload sit in slices of one type, or on
//! whole cards. (`pack` proves how few cards are possible; there a replica may sit in a larger slice, which a
//! Kubernetes pod cannot ask for.) First the most nodes that can be spared are freed, then as few nodes as possible
//! are cut, then as few workloads as possible are moved into slices.

use std::collections::{BTreeMap, BTreeSet};

use super::Goal;
use super::pool::{Spread, Waves};
use super::saving::Autoscaled;
use crate::inventory::Resources;
use crate::pack::cards::{CardsNeeded, fewest_cards};
use crate::pack::geometry::{Geometry, Layout};

/// One workload to place.
#[derive(Clone, Debug)]
pub(super) struct Tenant {
    /// Name for ties, `namespace/name`.
    pub(super) key: String,
    /// Smallest slice type that fits; `None`: needs a whole card.
    pub(super) slice: Option<usize>,
    /// Replicas to plan for.
    pub(super) planned: u32,
    /// Extra pods while it rolls.
    pub(super) max_surge: u32,
    /// Sites where its pods may run, by index: taints, selectors, and where they run today.
    pub(super) sites: BTreeSet<usize>,
    /// What one pod needs besides the GPU. `None`: not known, so that it never changes its node.
    pub(super) needs: Option<Resources>,
}

/// One node to plan with.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// Node name.
    pub(super) name: String,
    /// Holder of each card: an index into the tenants.
    pub(super) cards: Vec<Option<usize>>,
    /// Must stay as it is, and so must its pods.
    pub(super) frozen: bool,
    /// Price, or 1 where none is known; only compared.
    pub(super) cost: i64,
    /// What is left for pods besides those that hold a card here. `None`: not known, so that no pod may come.
    pub(super) room: Option<Resources>,
}

/// What the pool's owner wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wishes {
    pub(super) goal: Goal,
    pub(super) spread: Spread,
    pub(super) spare_cards: u32,
    pub(super) concurrent_rollouts: u32,
    pub(super) waves: Waves,
}

/// A card then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Card {
    Whole(Option<usize>),
    /// Slice type, start, holder.
    Cut(Vec<(usize, u8, Option<usize>)>),
}

/// Where everything goes.
#[derive(Clone, Debug)]
pub(super) struct Assignment {
    /// Nodes that are no longer needed, by index.
    pub(super) freed: BTreeSet<usize>,
    /// Nodes that are drained and laid out anew, by index.
    pub(super) touched: BTreeSet<usize>,
    /// Tenants that move into slices, by index.
    pub(super) converted: BTreeSet<usize>,
    /// Cards of every node then; empty for freed ones.
    pub(super) cards: Vec<Vec<Card>>,
    /// Cards needed for the converted tenants, with the proof.
    pub(super) cut: CardsNeeded,
    /// Cards needed if every tenant that may were converted: no plan can use fewer.
    pub(super) fewest: CardsNeeded,
    /// Spread that the plan keeps.
    pub(super) spread: Spread,
}

/// Finds the assignment for the goal; `None` when nothing is gained.
pub(super) fn assign(
    geometry: &Geometry,
    tenants: &[Tenant],
    sites: &[Site],
    wishes: Wishes,
) -> Option<Assignment> {
    let fewest = needed(geometry, tenants, &eligible(tenants), wishes);
    for spread in [Spread::Node, Spread::Card, Spread::None] {
        if spread > wishes.spread {
            continue;
        }
        let planner = Planner { geometry, tenants, sites, wishes, spread };
        let found = match wishes.goal {
            Goal::Bill => planner.bill(),
            Goal::Capacity => planner.capacity(),
        };
        if let Some((freed, draft)) = found {
            return Some(Assignment {
                freed,
                touched: draft.touched,
                converted: draft.converted,
                cards: draft.cards,
                cut: draft.cut,
                fewest,
                spread,
            });
        }
    }
    None
}

fn eligible(tenants: &[Tenant]) -> BTreeSet<usize> {
    (0..tenants.len()).filter(|i| tenants[*i].slice.is_some()).collect()
}

/// Cards for all tenants when exactly `converted` sit in slices.
fn needed(
    geometry: &Geometry,
    tenants: &[Tenant],
    converted: &BTreeSet<usize>,
    wishes: Wishes,
) -> CardsNeeded {
    fewest_cards(geometry, &demand(geometry, tenants, converted, wishes))
}

/// Slots a type that exactly these tenants need, surge included. No slot of a larger type can stand in, so that the
/// reserve is counted type by type.
fn demand(geometry: &Geometry, tenants: &[Tenant], converted: &BTreeSet<usize>, wishes: Wishes) -> Vec<u32> {
    let whole = geometry.whole();
    let mut demand = vec![0u32; whole + 1];
    let mut surges: Vec<Vec<u32>> = vec![Vec::new(); whole + 1];
    for (i, tenant) in tenants.iter().enumerate() {
        let slot = if converted.contains(&i) { tenant.slice.unwrap_or(whole) } else { whole };
        demand[slot] += tenant.planned;
        surges[slot].push(tenant.max_surge);
    }
    for (slot, mut surges) in surges.into_iter().enumerate() {
        // Whole cards roll today with whatever room there is; the plan must not make it worse, and does not promise
        // more than it found. Slices have no such past.
        if slot < whole {
            surges.sort_unstable_by(|a, b| b.cmp(a));
            let at_once = usize::try_from(wishes.concurrent_rollouts).unwrap_or(usize::MAX);
            demand[slot] += surges.iter().take(at_once).sum::<u32>();
        }
    }
    demand
}

struct Planner<'a> {
    geometry: &'a Geometry,
    tenants: &'a [Tenant],
    sites: &'a [Site],
    wishes: Wishes,
    spread: Spread,
}

/// An assignment in the making.
#[derive(Clone, Debug)]
struct Draft {
    touched: BTreeSet<usize>,
    converted: BTreeSet<usize>,
    cards: Vec<Vec<Card>>,
    cut: CardsNeeded,
}

impl Planner<'_> {
    /// Frees node after node while everything still fits; of equals the last by name goes first.
    fn bill(&self) -> Option<(BTreeSet<usize>, Draft)> {
        let mut order: Vec<usize> = (0..self.sites.len()).filter(|i| !self.sites[*i].frozen).collect();
        order.sort_by_key(|i| {
            let site = &self.sites[*i];
            let moves_whole =
                site.cards.iter().flatten().filter(|t| self.tenants[**t].slice.is_none()).count();
            let pods = site.cards.iter().flatten().count();
            (std::cmp::Reverse(site.cost), moves_whole, pods, std::cmp::Reverse(&site.name))
        });
        let mut best: Option<(BTreeSet<usize>, Draft)> = None;
        let mut freed = BTreeSet::new();
        for node in order {
            freed.insert(node);
            match self.without(&freed) {
                Some(draft) => best = Some((freed.clone(), draft)),
                None => {
                    freed.remove(&node);
                }
            }
        }
        best
    }

    /// Frees cards, keeps every node.
    fn capacity(&self) -> Option<(BTreeSet<usize>, Draft)> {
        let in_use: u32 = (0..self.tenants.len()).map(|tenant| self.now(tenant) + self.missing(tenant)).sum();
        let mut best: Option<(usize, Draft)> = None;
        for n_touched in 1..=self.sites.iter().filter(|site| !site.frozen).count() {
            let Some(draft) = self.touching(&BTreeSet::new(), n_touched) else { continue };
            let used = draft.cards.iter().flatten().filter(|card| card.in_use()).count()
                + (0..self.tenants.len())
                    .filter(|tenant| !draft.converted.contains(tenant))
                    .map(|tenant| self.missing(tenant) as usize)
                    .sum::<usize>();
            if used < in_use as usize && best.as_ref().is_none_or(|(fewest, _)| used < *fewest) {
                best = Some((used, draft));
            } else if best.is_some() {
                break;
            }
        }
        best.map(|(_, draft)| (BTreeSet::new(), draft))
    }

    /// Whole cards that the tenant holds today.
    fn now(&self, tenant: usize) -> u32 {
        count(self.sites.iter().flat_map(|site| &site.cards).filter(|card| **card == Some(tenant)).count())
    }

    /// Whole cards that an autoscaler may add for it.
    fn missing(&self, tenant: usize) -> u32 {
        self.tenants[tenant].planned.saturating_sub(self.now(tenant))
    }

    /// A draft that does without `freed`, with the fewest nodes cut; `None` when it cannot be done.
    fn without(&self, freed: &BTreeSet<usize>) -> Option<Draft> {
        let kept: Vec<usize> = (0..self.sites.len()).filter(|i| !freed.contains(i)).collect();
        let n_cards: usize = kept.iter().map(|i| self.sites[*i].cards.len()).sum();
        let all = needed(self.geometry, self.tenants, &eligible(self.tenants), self.wishes);
        if (all.n_cards + self.wishes.spare_cards) as usize > n_cards {
            return None;
        }
        let most = kept.iter().filter(|i| !self.sites[**i].frozen).count();
        (0..=most).find_map(|n_touched| self.touching(freed, n_touched))
    }

    /// A draft that cuts exactly `n_touched` of the nodes that are left: those with idle cards and with pods that
    /// gain from it come first, then the first by name.
    fn touching(&self, freed: &BTreeSet<usize>, n_touched: usize) -> Option<Draft> {
        let mut candidates: Vec<usize> =
            (0..self.sites.len()).filter(|i| !freed.contains(i) && !self.sites[*i].frozen).collect();
        candidates.sort_by_key(|i| {
            let site = &self.sites[*i];
            let moves_whole =
                site.cards.iter().flatten().filter(|t| self.tenants[**t].slice.is_none()).count();
            (moves_whole, std::cmp::Reverse(site.cards.len()), &site.name)
        });
        let mut touched = BTreeSet::new();
        for node in candidates {
            if touched.len() == n_touched {
                break;
            }
            touched.insert(node);
            if !self.tolerable(&touched) {
                touched.remove(&node);
            }
        }
        if touched.len() < n_touched {
            return None;
        }
        let mut converted = self.first_to_convert(freed, &touched);
        loop {
            if let Some(draft) = self.place(freed, &touched, &converted) {
                return Some(draft);
            }
            let more = self.next_to_convert(&touched, &converted)?;
            converted.insert(more);
        }
    }

    /// Nobody is down who must not be while these nodes are drained together.
    fn tolerable(&self, touched: &BTreeSet<usize>) -> bool {
        (0..self.tenants.len()).all(|tenant| {
            let stands_elsewhere = self
                .sites
                .iter()
                .enumerate()
                .any(|(i, site)| !touched.contains(&i) && site.cards.contains(&Some(tenant)));
            match (self.wishes.waves, self.now(tenant)) {
                (_, 0) | (Waves::AllowDowntime, _) | (Waves::SingleReplica, 1) => true,
                (Waves::SingleReplica | Waves::NoDowntime, _) => stands_elsewhere,
            }
        })
    }

    /// Those that restart anyway, because their node is freed or cut.
    fn first_to_convert(&self, freed: &BTreeSet<usize>, touched: &BTreeSet<usize>) -> BTreeSet<usize> {
        if touched.is_empty() {
            return BTreeSet::new();
        }
        freed
            .iter()
            .chain(touched)
            .flat_map(|i| self.sites[*i].cards.iter().flatten().copied())
            .filter(|t| self.tenants[*t].slice.is_some())
            .collect()
    }

    /// The smallest of the others, since it saves the most for one restart; then the first by name.
    fn next_to_convert(&self, touched: &BTreeSet<usize>, converted: &BTreeSet<usize>) -> Option<usize> {
        if touched.is_empty() {
            return None;
        }
        eligible(self.tenants).difference(converted).copied().min_by_key(|t| {
            let tenant = &self.tenants[*t];
            (tenant.slice, tenant.planned, &tenant.key)
        })
    }

    fn place(
        &self,
        freed: &BTreeSet<usize>,
        touched: &BTreeSet<usize>,
        converted: &BTreeSet<usize>,
    ) -> Option<Draft> {
        let mut cut = needed(self.geometry, self.tenants, converted, self.wishes);
        let n_cut: u32 = cut.layouts.iter().map(|(_, n)| n).sum();
        let offered: usize = touched.iter().map(|i| self.sites[*i].cards.len()).sum();
        if n_cut as usize > offered {
            return None;
        }
        let mut floor = Floor::new(self, freed, touched, converted);
        floor.lay_out(&cut.layouts)?;
        // Spread may need one card or node more than the slices do: cut another card the same way.
        let mut extra = 0;
        while !floor.fill_slices(converted) {
            extra += 1;
            if n_cut as usize + extra > offered || n_cut == 0 {
                return None;
            }
            let (_, n) = cut.layouts.first_mut()?;
            *n += 1;
            floor = Floor::new(self, freed, touched, converted);
            floor.lay_out(&cut.layouts)?;
        }
        floor.fill_whole(converted, freed, touched)?;
        let idle = floor.cards.iter().flatten().filter(|card| **card == Card::Whole(None)).count();
        (idle >= self.wishes.spare_cards as usize).then(|| Draft {
            touched: touched.clone(),
            converted: converted.clone(),
            cards: floor.cards,
            cut,
        })
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Whole cards that autoscalers may add: for all tenants, and for those that are not in `converted`.
pub(super) fn autoscaled(tenants: &[Tenant], sites: &[Site], converted: &BTreeSet<usize>) -> Autoscaled {
    let missing = |(t, tenant): (usize, &Tenant)| {
        let now = sites.iter().flat_map(|site| &site.cards).filter(|card| **card == Some(t)).count();
        (t, tenant.planned.saturating_sub(count(now)))
    };
    let all: Vec<(usize, u32)> = tenants.iter().enumerate().map(missing).collect();
    Autoscaled {
        before: all.iter().map(|(_, n)| n).sum(),
        after: all.iter().filter(|(t, _)| !converted.contains(t)).map(|(_, n)| n).sum(),
    }
}

impl Card {
    /// A pod has it, or a piece of it.
    pub(super) fn in_use(&self) -> bool {
        match self {
            Self::Whole(holder) => holder.is_some(),
            Self::Cut(_) => true,
        }
    }
}

/// The cards of every kept node while they are filled.
struct Floor<'a> {
    planner: &'a Planner<'a>,
    touched: Vec<usize>,
    cards: Vec<Vec<Card>>,
    room: Vec<Option<Resources>>,
}

impl<'a> Floor<'a> {
    fn new(
        planner: &'a Planner<'a>,
        freed: &BTreeSet<usize>,
        touched: &BTreeSet<usize>,
        converted: &BTreeSet<usize>,
    ) -> Self {
        let mut floor =
            Self { planner, touched: touched.iter().copied().collect(), cards: Vec::new(), room: Vec::new() };
        for (i, site) in planner.sites.iter().enumerate() {
            let stays =
                |tenant: &usize| site.frozen || (!touched.contains(&i) && !converted.contains(tenant));
            let cards = if freed.contains(&i) {
                Vec::new()
            } else {
                site.cards.iter().map(|holder| Card::Whole(holder.filter(|t| stays(t)))).collect()
            };
            // `room` of a site leaves out the pods that hold its cards; those that stay take theirs back.
            let room = cards.iter().fold(site.room, |room, card| match card {
                Card::Whole(Some(t)) => {
                    room.map(|room| room.minus(planner.tenants[*t].needs.unwrap_or_default()))
                }
                Card::Whole(None) | Card::Cut(_) => room,
            });
            floor.cards.push(cards);
            floor.room.push(room);
        }
        floor
    }

    /// Cuts cards of the touched nodes, layout after layout, so that equal layouts stand together.
    fn lay_out(&mut self, layouts: &[(Layout, u32)]) -> Option<()> {
        let mut slots = self.touched.iter().flat_map(|i| (0..self.cards[*i].len()).map(move |c| (*i, c)));
        let mut cuts = Vec::new();
        for (layout, n) in layouts {
            let placed = self.planner.geometry.place(&layout.counts)?;
            for _ in 0..*n {
                cuts.push((slots.next()?, placed.clone()));
            }
        }
        for ((i, c), placed) in cuts {
            self.cards[i][c] =
                Card::Cut(placed.into_iter().map(|(kind, start)| (kind, start, None)).collect());
        }
        Some(())
    }

    /// A slot for every replica of the converted tenants, apart as asked; the largest slices first.
    fn fill_slices(&mut self, converted: &BTreeSet<usize>) -> bool {
        let mut order: Vec<usize> = converted.iter().copied().collect();
        order.sort_by(|a, b| {
            let (x, y) = (&self.planner.tenants[*a], &self.planner.tenants[*b]);
            y.slice.cmp(&x.slice).then(y.planned.cmp(&x.planned)).then(x.key.cmp(&y.key))
        });
        order.into_iter().all(|tenant| self.fill_one(tenant))
    }

    fn fill_one(&mut self, tenant: usize) -> bool {
        let planner = self.planner;
        let Some(slice) = planner.tenants[tenant].slice else { return false };
        let planned = planner.tenants[tenant].planned;
        let mut used_nodes: BTreeMap<usize, u32> = BTreeMap::new();
        let mut used_cards: BTreeMap<(usize, usize), u32> = BTreeMap::new();
        for _ in 0..planned {
            // Fewest of its own on the node, then on the card, then the first: replicas spread as far as they can.
            let mut best: Option<((u32, u32, usize, usize), usize)> = None;
            for &node in &self.touched {
                if !self.may_come(tenant, node) {
                    continue;
                }
                for (c, card) in self.cards[node].iter().enumerate() {
                    let Card::Cut(slices) = card else { continue };
                    let free = slices.iter().position(|(kind, _, holder)| *kind == slice && holder.is_none());
                    let Some(position) = free else { continue };
                    let rank = (
                        used_nodes.get(&node).copied().unwrap_or(0),
                        used_cards.get(&(node, c)).copied().unwrap_or(0),
                        node,
                        c,
                    );
                    if best.is_none_or(|(known, _)| rank < known) {
                        best = Some((rank, position));
                    }
                }
            }
            let Some(((_, _, node, c), position)) = best else { return false };
            if let Card::Cut(slices) = &mut self.cards[node][c] {
                slices[position].2 = Some(tenant);
            }
            self.take_room(tenant, node);
            *used_nodes.entry(node).or_default() += 1;
            *used_cards.entry((node, c)).or_default() += 1;
        }
        match planner.spread {
            Spread::None => true,
            Spread::Card => planned < 2 || used_cards.len() > 1,
            Spread::Node => planned < 2 || used_nodes.len() > 1 || !self.was_spread(tenant),
        }
    }

    /// Its replicas are on several nodes today: what was not apart before need not be made so.
    fn was_spread(&self, tenant: usize) -> bool {
        self.planner.sites.iter().filter(|site| site.cards.contains(&Some(tenant))).count() > 1
    }

    /// Whole cards for the pods of freed and cut nodes that keep one.
    fn fill_whole(
        &mut self,
        converted: &BTreeSet<usize>,
        freed: &BTreeSet<usize>,
        touched: &BTreeSet<usize>,
    ) -> Option<()> {
        let planner = self.planner;
        let mut homeless: Vec<(usize, usize)> = Vec::new();
        for &i in freed.iter().chain(touched) {
            for tenant in planner.sites[i].cards.iter().flatten() {
                if !converted.contains(tenant) {
                    homeless.push((*tenant, i));
                }
            }
        }
        for (tenant, from) in homeless {
            // Back to its own node if that is kept, else the first with an idle card and room.
            let nodes = std::iter::once(from).chain(0..self.cards.len());
            let (node, c) = nodes.filter(|node| self.may_come(tenant, *node)).find_map(|node| {
                Some((node, self.cards[node].iter().position(|c| *c == Card::Whole(None))?))
            })?;
            self.cards[node][c] = Card::Whole(Some(tenant));
            self.take_room(tenant, node);
        }
        // Replicas that an autoscaler may add need a card as well, as they have today.
        for (t, tenant) in planner.tenants.iter().enumerate() {
            if !converted.contains(&t) {
                let now = planner.sites.iter().flat_map(|s| &s.cards).filter(|c| **c == Some(t)).count();
                let idle_before =
                    planner.sites.iter().flat_map(|s| &s.cards).filter(|card| card.is_none()).count();
                let missing = (tenant.planned as usize).saturating_sub(now).min(idle_before);
                let idle = self.cards.iter().flatten().filter(|card| **card == Card::Whole(None)).count();
                if missing > idle {
                    return None;
                }
            }
        }
        Some(())
    }

    /// A pod of the tenant has room on the node. Pods of unknown needs stay where they are.
    fn may_come(&self, tenant: usize, node: usize) -> bool {
        let was_here = self.planner.sites[node].cards.contains(&Some(tenant));
        if !self.planner.tenants[tenant].sites.contains(&node) {
            return false;
        }
        match (self.planner.tenants[tenant].needs, self.room[node]) {
            (Some(needs), Some(room)) => needs.fits_in(room),
            _ => was_here,
        }
    }

    fn take_room(&mut self, tenant: usize, node: usize) {
        let needs = self.planner.tenants[tenant].needs.unwrap_or_default();
        self.room[node] = self.room[node].map(|room| room.minus(needs));
    }
}

/// Fewest nodes that can hold `n_cards`, the largest first: no plan can keep fewer.
pub(super) fn fewest_nodes(sites: &[Site], n_cards: u32) -> u32 {
    let mut sizes: Vec<u32> =
        sites.iter().map(|site| u32::try_from(site.cards.len()).unwrap_or(u32::MAX)).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let mut left = n_cards;
    let mut nodes = 0;
    for size in sizes {
        if left == 0 {
            break;
        }
        left = left.saturating_sub(size);
        nodes += 1;
    }
    nodes
}
