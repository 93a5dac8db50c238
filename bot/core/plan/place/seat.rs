//! Gives every pod that moves a slot or a card: where it may run, where it has room, apart from its own kind.

use std::collections::{BTreeMap, BTreeSet};

use super::board::Board;
use super::tally::Tally;
use super::{Card, Tenant};
use crate::inventory::Resources;
use crate::pack::Fate;
use crate::plan::pool::Spread;

/// Stands for nobody: a slot that has to stay free.
const NOBODY: usize = usize::MAX;

/// Where a pod sits: node, card, position of the slot on the card.
type Place = (usize, usize, usize);

/// The cards of every kept node while they are filled.
pub(super) struct Floor<'b, 'a> {
    pub(super) board: &'b Board<'a>,
    pub(super) fates: &'b [Fate],
    pub(super) cards: Vec<Vec<Card>>,
    /// Slots of each node by type that are meant for pods that are still to be seated.
    pub(super) promised: Vec<Vec<u32>>,
    room: Vec<Option<Resources>>,
    /// Pods that were seated here, by node: they may be seated elsewhere as well.
    seated: Vec<Vec<(usize, Place)>>,
    /// Pods of each tenant by node and card.
    spots: Vec<BTreeMap<(usize, usize), u32>>,
}

impl<'b, 'a> Floor<'b, 'a> {
    /// Kept nodes with the pods that stay.
    pub(super) fn new(board: &'b Board<'a>, fates: &'b [Fate], converted: &BTreeSet<usize>) -> Self {
        let mut floor = Self {
            board,
            fates,
            cards: Vec::with_capacity(board.sites.len()),
            promised: vec![vec![0; board.whole()]; board.sites.len()],
            room: Vec::with_capacity(board.sites.len()),
            seated: vec![Vec::new(); board.sites.len()],
            spots: vec![BTreeMap::new(); board.tenants.len()],
        };
        for (node, (site, fate)) in board.sites.iter().zip(fates).enumerate() {
            let mut cards = match fate {
                Fate::Freed => Vec::new(),
                Fate::Touched => vec![Card::Whole(None); site.cards.len()],
                Fate::Untouched => site.cards.clone(),
            };
            // The room of a site leaves out the pods that hold its cards; those that stay take theirs back.
            let mut room = board.room[node];
            for (c, card) in cards.iter_mut().enumerate() {
                let mut stay = |holder: &mut Option<usize>| {
                    *holder = holder.filter(|tenant| !converted.contains(tenant));
                    if let Some(tenant) = *holder {
                        *floor.spots[tenant].entry((node, c)).or_insert(0) += 1;
                        let needs = board.tenants[tenant].needs.unwrap_or_default();
                        room = room.map(|room| room.minus(needs));
                    }
                };
                match card {
                    Card::Whole(holder) => stay(holder),
                    Card::Cut(slots) => slots.iter_mut().for_each(|slot| stay(&mut slot.holder)),
                }
            }
            floor.cards.push(cards);
            floor.room.push(room);
        }
        floor
    }

    /// Sites with this fate.
    pub(super) fn kept_with(&self, fate: Fate) -> impl Iterator<Item = usize> + use<'b> {
        let fates = self.fates;
        (0..fates.len()).filter(move |node| fates[*node] == fate)
    }

    /// Pods of the tenant that need a seat: all that it is planned for when it moves, else those that lose theirs.
    pub(super) fn seats(&self, tenant: usize, converted: &BTreeSet<usize>) -> u32 {
        if converted.contains(&tenant) {
            self.board.tenants[tenant].planned.max(self.board.present(tenant))
        } else {
            self.board.present(tenant) - self.board.undisturbed(tenant, self.fates)
        }
    }

    /// Seats everybody. Gives the tenants that all sit together as they do today although they should not.
    ///
    /// # Errors
    /// The first tenant that finds no seat, or none apart; `None` when too little stays free.
    pub(super) fn seat(&mut self, tally: &Tally<'_, '_>) -> Result<BTreeSet<usize>, Option<usize>> {
        let board = self.board;
        let mut order: Vec<usize> =
            (0..board.tenants.len()).filter(|t| self.seats(*t, &tally.converted) > 0).collect();
        let slot = |tenant: usize| board.slot_of(tenant, &tally.converted);
        order.sort_by_cached_key(|t| {
            let tenant = &board.tenants[*t];
            let sites = tenant.sites.iter().filter(|site| self.fates[**site] != Fate::Freed).count();
            (sites, std::cmp::Reverse(slot(*t)), std::cmp::Reverse(tenant.planned), &tenant.key)
        });
        for tenant in &order {
            for home in self.homes(*tenant, &tally.converted) {
                let place = self
                    .best(*tenant, slot(*tenant), home)
                    .or_else(|| self.make_way(*tenant, slot(*tenant)))
                    .ok_or(Some(*tenant))?;
                self.sit(*tenant, place);
            }
        }
        let mut together = BTreeSet::new();
        for tenant in order {
            if self.huddles(tenant) && !self.part(tenant, slot(tenant)) {
                if !self.may_huddle(tenant) {
                    return Err(Some(tenant));
                }
                together.insert(tenant);
            }
        }
        let reserve = tally.reserve();
        let enough = (0..=board.whole()).all(|slot| self.free_of(slot) >= reserve[slot]);
        if enough { Ok(together) } else { Err(None) }
    }

    /// The node that each pod comes from, where it may as well return to; `None` for additional replicas and for those
    /// that move.
    fn homes(&self, tenant: usize, converted: &BTreeSet<usize>) -> Vec<Option<usize>> {
        let seats = usize::try_from(self.seats(tenant, converted)).unwrap_or(usize::MAX);
        if converted.contains(&tenant) {
            return vec![None; seats];
        }
        let lost = self.board.pods[tenant].iter().filter(|(site, _)| self.fates[**site] != Fate::Untouched);
        lost.flat_map(|(site, n)| std::iter::repeat_n(Some(*site), usize::try_from(*n).unwrap_or(0)))
            .collect()
    }

    /// Free slots of a type, and idle cards for the last one.
    fn free_of(&self, slot: usize) -> u32 {
        let free = |card: &Card| match card {
            Card::Whole(holder) => usize::from(slot == self.board.whole() && holder.is_none()),
            Card::Cut(slots) => slots.iter().filter(|s| s.kind == slot && s.holder.is_none()).count(),
        };
        super::count(self.cards.iter().flatten().map(free).sum())
    }

    /// The free place with the fewest of its own kind on the node, then on the card; at home if it may, else the first.
    fn best(&self, tenant: usize, slot: usize, home: Option<usize>) -> Option<Place> {
        let board = self.board;
        let spread = board.tenants[tenant].spread != Spread::None;
        let mut own_on: BTreeMap<usize, u32> = BTreeMap::new();
        for ((node, _), n) in &self.spots[tenant] {
            *own_on.entry(*node).or_insert(0) += n;
        }
        let mut best: Option<((bool, u32, u32, Place), Place)> = None;
        for &node in &board.tenants[tenant].sites {
            if self.cards[node].is_empty() || !self.may_come(tenant, node) {
                continue;
            }
            let own = if spread { own_on.get(&node).copied().unwrap_or(0) } else { 0 };
            for (c, card) in self.cards[node].iter().enumerate() {
                let Some(at) = free_at(card, slot, board.whole()) else { continue };
                let own_card = self.spots[tenant].get(&(node, c)).copied().unwrap_or(0);
                let place = (node, c, at);
                let rank = (home != Some(node), own, own_card, place);
                if best.is_none_or(|(known, _)| rank < known) {
                    best = Some((rank, place));
                }
            }
        }
        best.map(|(_, place)| place)
    }

    /// Seats another pod elsewhere, so that its place is free for this one.
    fn make_way(&mut self, tenant: usize, slot: usize) -> Option<Place> {
        let board = self.board;
        for &node in &board.tenants[tenant].sites {
            for (other, place) in self.seated[node].clone() {
                if other == tenant || self.slot_at(place) != slot {
                    continue;
                }
                self.leave(other, place);
                let elsewhere = self.best(other, slot, None).filter(|found| found.0 != node);
                if let Some(elsewhere) = elsewhere
                    && self.may_come(tenant, node)
                {
                    self.sit(other, elsewhere);
                    return Some(place);
                }
                self.sit(other, place);
            }
        }
        None
    }

    /// What was not apart before need not be made so; cards are apart today, since each pod has its own.
    pub(super) fn may_huddle(&self, tenant: usize) -> bool {
        !self.board.was_spread(tenant) && self.board.tenants[tenant].spread != Spread::Card
    }

    /// All replicas sit on one node, or card, although they should be apart.
    pub(super) fn huddles(&self, tenant: usize) -> bool {
        let t: &Tenant = &self.board.tenants[tenant];
        let n: u32 = self.spots[tenant].values().sum();
        let nodes: BTreeSet<usize> = self.spots[tenant].keys().map(|(node, _)| *node).collect();
        match t.spread {
            Spread::None => false,
            Spread::Card => n > 1 && self.spots[tenant].len() < 2,
            Spread::Node => n > 1 && nodes.len() < 2,
        }
    }

    /// Gets one replica away from the others: to a free slot, or in exchange with another pod.
    fn part(&mut self, tenant: usize, slot: usize) -> bool {
        let by_node = self.board.tenants[tenant].spread == Spread::Node;
        let mine: Vec<Place> =
            self.seated.iter().flatten().filter(|(t, _)| *t == tenant).map(|(_, place)| *place).collect();
        let Some(&from) = mine.first() else { return false };
        let apart =
            |place: &Place| if by_node { place.0 != from.0 } else { (place.0, place.1) != (from.0, from.1) };
        let others: Vec<(usize, Place)> = self.seated.iter().flatten().copied().collect();
        self.leave(tenant, from);
        if let Some(place) = self.best(tenant, slot, None).filter(apart) {
            self.sit(tenant, place);
            return true;
        }
        for (other, to) in others {
            if other == tenant || !apart(&to) || self.slot_at(to) != slot {
                continue;
            }
            self.leave(other, to);
            let fits = self.allowed(tenant, to.0) && self.allowed(other, from.0);
            if fits && self.may_come(tenant, to.0) && self.may_come(other, from.0) {
                self.sit(tenant, to);
                self.sit(other, from);
                if !self.huddles(other) {
                    return true;
                }
                self.leave(other, from);
                self.leave(tenant, to);
            }
            self.sit(other, to);
        }
        self.sit(tenant, from);
        false
    }

    fn allowed(&self, tenant: usize, node: usize) -> bool {
        self.board.tenants[tenant].sites.contains(&node)
    }

    /// A pod of the tenant has room on the node. Where that is not known, no more come than stand there today.
    fn may_come(&self, tenant: usize, node: usize) -> bool {
        match (self.board.tenants[tenant].needs, self.room[node]) {
            (Some(needs), Some(room)) => needs.fits_in(room),
            _ => {
                let here = self.spots[tenant].range((node, 0)..=(node, usize::MAX)).map(|(_, n)| n);
                here.sum::<u32>() < self.board.pods[tenant].get(&node).copied().unwrap_or(0)
            }
        }
    }

    fn slot_at(&self, (node, card, at): Place) -> usize {
        match &self.cards[node][card] {
            Card::Whole(_) => self.board.whole(),
            Card::Cut(slots) => slots[at].kind,
        }
    }

    fn set(&mut self, (node, card, at): Place, holder: Option<usize>) {
        match &mut self.cards[node][card] {
            Card::Whole(whole) => *whole = holder,
            Card::Cut(slots) => slots[at].holder = holder,
        }
    }

    fn sit(&mut self, tenant: usize, place: Place) {
        self.set(place, Some(tenant));
        self.note(tenant, (place.0, place.1), true);
        self.seated[place.0].push((tenant, place));
    }

    fn leave(&mut self, tenant: usize, place: Place) {
        self.set(place, None);
        self.note(tenant, (place.0, place.1), false);
        self.seated[place.0].retain(|seat| *seat != (tenant, place));
    }

    /// Counts a pod on a card in, or out again, with the room that it takes on the node.
    pub(super) fn note(&mut self, tenant: usize, spot: (usize, usize), comes: bool) {
        let needs = self.board.tenants[tenant].needs.unwrap_or_default();
        let n = self.spots[tenant].entry(spot).or_insert(0);
        if comes {
            *n += 1;
            self.room[spot.0] = self.room[spot.0].map(|room| room.minus(needs));
        } else {
            *n -= 1;
            if *n == 0 {
                self.spots[tenant].remove(&spot);
            }
            self.room[spot.0] = self.room[spot.0].map(|room| room.plus(needs));
        }
    }

    /// The tenant may run on the node, and a pod of it has room there.
    pub(super) fn may_sit(&self, tenant: usize, node: usize) -> bool {
        self.allowed(tenant, node) && self.may_come(tenant, node)
    }

    /// Takes a free slot of a card that is not cut anew; a slot that stays free is held by nobody in particular.
    pub(super) fn hold(&mut self, tenant: Option<usize>, slot: usize, (node, card): (usize, usize)) -> bool {
        let Some(at) = free_at(&self.cards[node][card], slot, self.board.whole()) else { return false };
        self.set((node, card, at), Some(tenant.unwrap_or(NOBODY)));
        true
    }

    /// Gives back what [`Floor::hold`] took.
    pub(super) fn release(&mut self, tenant: Option<usize>, slot: usize, (node, card): (usize, usize)) {
        let holder = Some(tenant.unwrap_or(NOBODY));
        let at = match &self.cards[node][card] {
            Card::Whole(known) => (*known == holder).then_some(0),
            Card::Cut(slots) => slots.iter().rposition(|s| s.kind == slot && s.holder == holder),
        };
        if let Some(at) = at {
            self.set((node, card, at), None);
        }
    }

    /// Frees the slots that were held for nobody in particular.
    pub(super) fn clear_nobody(&mut self) {
        for card in self.cards.iter_mut().flatten() {
            match card {
                Card::Whole(holder) => *holder = holder.filter(|tenant| *tenant != NOBODY),
                Card::Cut(slots) => {
                    for slot in slots {
                        slot.holder = slot.holder.filter(|tenant| *tenant != NOBODY);
                    }
                }
            }
        }
    }
}

/// The first free slot of this type on the card.
fn free_at(card: &Card, slot: usize, whole: usize) -> Option<usize> {
    match card {
        Card::Whole(holder) => (slot == whole && holder.is_none()).then_some(0),
        Card::Cut(slots) => slots.iter().position(|s| s.kind == slot && s.holder.is_none()),
    }
}
