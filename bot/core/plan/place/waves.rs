//! In which order nodes can be drained and cut, and who has no card meanwhile.
//!
//! A merge changes every label that stands in the repository at once, and the MIG manager fails on a card in use: such
//! nodes are drained together, before the merge. Nodes that are labelled by hand follow one after the other, as their
//! pods find room in what exists by then: old pods on idle whole cards, and, once the merge has changed their
//! templates, new pods in the slices that are there already.

use std::collections::{BTreeMap, BTreeSet};

use super::{Board, Card, Placement, count};
use crate::inventory::Resources;
use crate::pack::Fate;
use crate::plan::pool::Waves;

/// Nodes that are drained and cut together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::plan) struct Wave {
    /// The nodes, by index.
    pub(in crate::plan) sites: Vec<usize>,
    /// Tenants of which no pod runs until the slices exist, by index.
    pub(in crate::plan) down: BTreeSet<usize>,
    /// Tenants of which some pods find no card until then, and others run.
    pub(in crate::plan) fewer: BTreeSet<usize>,
    /// Nodes to borrow, so that nobody is down.
    pub(in crate::plan) borrowed: u32,
}

/// The order for a placement; `None` when the pool's `waves` allow none.
pub(super) fn order(board: &Board<'_>, placement: &Placement) -> Option<Vec<Wave>> {
    let mut yard = Yard::new(board, Some(placement));
    let (together, mut later): (Vec<usize>, Vec<usize>) =
        placement.with_fate(Fate::Touched).partition(|site| board.sites[*site].labelled_by_merge);
    let mut waves: Vec<Wave> = Vec::new();
    if !together.is_empty() {
        waves.push(yard.go(yard.drain(&together))?);
    }
    while !later.is_empty() {
        let mut best = later.iter().map(|site| yard.drain(&[*site])).min_by_key(|drained| {
            let wave = &drained.wave;
            (!yard.tolerates(wave), wave.down.len(), wave.fewer.len(), wave.sites.clone())
        })?;
        // Nodes that nobody stands on, or flees to, can go along with any other.
        let fled_to: BTreeSet<usize> = best.moves.iter().map(|(_, _, to)| *to).collect();
        let idle =
            |site: &usize| !best.wave.sites.contains(site) && !fled_to.contains(site) && yard.is_empty(*site);
        let along: Vec<usize> = later.iter().copied().filter(idle).collect();
        best.wave.sites.extend(along);
        later.retain(|site| !best.wave.sites.contains(site));
        let wave = yard.go(best)?;
        waves.push(wave);
    }
    if let Some(first) = waves.first_mut() {
        // The merge changes every template at once: who rolls without an extra pod gives one up for a slice that a
        // later wave brings.
        for tenant in yard.without_seats.clone() {
            if board.present(tenant) + board.tenants[tenant].elsewhere == 1 {
                if board.wishes.waves == Waves::Borrow {
                    // It waits for a slice, and a borrowed node has none.
                    return None;
                }
                first.down.insert(tenant);
            } else {
                first.fewer.insert(tenant);
            }
        }
        if !yard.tolerates(first) {
            return None;
        }
    }
    Some(waves)
}

/// Nodes that would have to be borrowed for a placement made without regard to downtime.
pub(super) fn borrowed(board: &Board<'_>, placement: &Placement) -> u32 {
    let mut yard = Yard::new(board, Some(placement));
    placement.waves.iter().fold(0, |most, wave| {
        let drained = yard.drain(&wave.sites);
        let needed = yard.to_borrow(&drained.wave);
        yard.apply(&drained);
        most.max(needed)
    })
}

/// Whether these sites may be drained together before anything is cut.
pub(super) fn may_drain(board: &Board<'_>, sites: &[usize]) -> bool {
    let yard = Yard::new(board, None);
    yard.tolerates(&yard.drain(sites).wave)
}

/// What happens when sites are drained: the wave, and the pods that find another place: tenant, from, to.
struct Drained {
    wave: Wave,
    moves: Vec<(usize, usize, usize)>,
}

/// The pool while it is changed.
struct Yard<'b, 'a> {
    board: &'b Board<'a>,
    /// `None`: nothing is cut yet.
    placement: Option<&'b Placement>,
    /// Old pods by site and tenant.
    old: Vec<BTreeMap<usize, u32>>,
    /// Free slots by site and type and, last, idle cards, on sites that are not drained.
    free: Vec<Vec<u32>>,
    room: Vec<Option<Resources>>,
    done: BTreeSet<usize>,
    /// Seats of each tenant that moves in slices that exist by now, on sites that are cut or left alone.
    seats: Vec<u32>,
    /// Old pods of each tenant.
    standing: Vec<u32>,
    /// Tenants that roll without an extra pod and had no slice to roll into when the first wave was cut.
    without_seats: BTreeSet<usize>,
}

impl<'b, 'a> Yard<'b, 'a> {
    fn new(board: &'b Board<'a>, placement: Option<&'b Placement>) -> Self {
        let mut old = vec![BTreeMap::new(); board.sites.len()];
        let mut free = vec![vec![0u32; board.whole() + 1]; board.sites.len()];
        let mut room: Vec<Option<Resources>> = board.sites.iter().map(|site| site.room).collect();
        for (i, site) in board.sites.iter().enumerate() {
            for card in &site.cards {
                for tenant in card.holders() {
                    *old[i].entry(tenant).or_insert(0) += 1;
                    let needs = board.tenants[tenant].needs.unwrap_or_default();
                    room[i] = room[i].map(|room| room.minus(needs));
                }
                match card {
                    Card::Whole(holder) => free[i][board.whole()] += u32::from(holder.is_none()),
                    Card::Cut(slots) => {
                        for slot in slots.iter().filter(|slot| slot.holder.is_none()) {
                            free[i][slot.kind] += 1;
                        }
                    }
                }
            }
        }
        let mut yard = Self {
            board,
            placement,
            old,
            free,
            room,
            done: BTreeSet::new(),
            seats: vec![0; board.tenants.len()],
            standing: (0..board.tenants.len()).map(|tenant| board.present(tenant)).collect(),
            without_seats: BTreeSet::new(),
        };
        let left_alone = placement.into_iter().flat_map(|placement| placement.with_fate(Fate::Untouched));
        left_alone.for_each(|site| yard.count_seats(site));
        yard
    }

    /// The slices of this site exist from now on.
    fn count_seats(&mut self, site: usize) {
        let Some(placement) = self.placement else { return };
        for holder in placement.cards[site].iter().flat_map(Card::holders) {
            self.seats[holder] += u32::from(placement.converted.contains(&holder));
        }
    }

    fn is_empty(&self, site: usize) -> bool {
        self.old[site].values().all(|n| *n == 0)
    }

    /// What happens to pods when these sites are drained now.
    fn drain(&self, sites: &[usize]) -> Drained {
        let (mut free, mut room) = (self.free.clone(), self.room.clone());
        let mut homeless: BTreeMap<usize, u32> = BTreeMap::new();
        let mut moves = Vec::new();
        for site in sites {
            for (tenant, n) in &self.old[*site] {
                let t = &self.board.tenants[*tenant];
                for _ in 0..*n {
                    let refuge = t.sites.iter().copied().find(|to| {
                        !sites.contains(to)
                            && !self.done.contains(to)
                            && free[*to][t.now] > 0
                            && matches!((t.needs, room[*to]), (Some(needs), Some(room)) if needs.fits_in(room))
                    });
                    match refuge {
                        Some(to) => {
                            free[to][t.now] -= 1;
                            room[to] = room[to].map(|room| room.minus(t.needs.unwrap_or_default()));
                            moves.push((*tenant, *site, to));
                        }
                        None => *homeless.entry(*tenant).or_insert(0) += 1,
                    }
                }
            }
        }
        let (down, fewer) =
            homeless.iter().map(|(t, n)| (*t, *n)).partition::<Vec<_>, _>(|(t, n)| self.running(*t) <= *n);
        let wave = Wave {
            sites: sites.to_vec(),
            down: down.into_iter().map(|(t, _)| t).collect(),
            fewer: fewer.into_iter().map(|(t, _)| t).collect(),
            borrowed: 0,
        };
        Drained { wave, moves }
    }

    /// Drains and cuts, if that is allowed.
    fn go(&mut self, drained: Drained) -> Option<Wave> {
        let borrows = self.board.wishes.waves == Waves::Borrow;
        let borrowed = if borrows { self.to_borrow(&drained.wave) } else { 0 };
        if !self.tolerates(&drained.wave) {
            return None;
        }
        self.apply(&drained);
        Some(Wave { borrowed, ..drained.wave })
    }

    /// Pods of the tenant that run now, old and new.
    fn running(&self, tenant: usize) -> u32 {
        self.standing[tenant] + self.new_pods(tenant) + self.board.tenants[tenant].elsewhere
    }

    /// Seats in slices that exist for a tenant that moves: from the merge on, after the first wave.
    fn new_pods(&self, tenant: usize) -> u32 {
        if self.done.is_empty() { 0 } else { self.seats[tenant] }
    }

    fn tolerates(&self, wave: &Wave) -> bool {
        match self.board.wishes.waves {
            Waves::AllowDowntime | Waves::Borrow => true,
            Waves::SingleReplica => wave
                .down
                .iter()
                .all(|tenant| self.board.present(*tenant) + self.board.tenants[*tenant].elsewhere == 1),
            Waves::NoDowntime => wave.down.is_empty(),
        }
    }

    /// Nodes of the largest size that hold the pods of everybody who would be down.
    fn to_borrow(&self, wave: &Wave) -> u32 {
        let pods: u32 = wave
            .down
            .iter()
            .flat_map(|tenant| wave.sites.iter().filter_map(|site| self.old[*site].get(tenant)))
            .sum();
        let cards = self.board.sites.iter().map(|site| count(site.cards.len())).max().unwrap_or(1);
        pods.div_ceil(cards.max(1))
    }

    /// The sites are cut. Pods that fled stay where they found a place; pods of tenants that move follow into what exists.
    fn apply(&mut self, drained: &Drained) {
        let Some(placement) = self.placement else { return };
        for (tenant, from, to) in &drained.moves {
            let t = &self.board.tenants[*tenant];
            if let Some(n) = self.old[*from].get_mut(tenant) {
                *n -= 1;
            }
            *self.old[*to].entry(*tenant).or_insert(0) += 1;
            self.free[*to][t.now] -= 1;
            self.room[*to] = self.room[*to].map(|room| room.minus(t.needs.unwrap_or_default()));
        }
        let first = self.done.is_empty();
        self.done.extend(&drained.wave.sites);
        for site in &drained.wave.sites {
            self.count_seats(*site);
            let gone = std::mem::take(&mut self.old[*site]);
            for (tenant, n) in gone {
                if placement.converted.contains(&tenant) {
                    self.standing[tenant] -= n;
                } else {
                    self.old[*site].insert(tenant, n);
                }
            }
        }
        for tenant in placement.converted.iter().copied() {
            let t = &self.board.tenants[tenant];
            if self.new_pods(tenant) < self.board.present(tenant) {
                if first && t.max_surge == 0 && self.new_pods(tenant) == 0 {
                    self.without_seats.insert(tenant);
                }
                continue;
            }
            if self.standing[tenant] == 0 {
                continue;
            }
            self.standing[tenant] = 0;
            for (site, old) in self.old.iter_mut().enumerate() {
                if let Some(n) = old.remove(&tenant) {
                    self.free[site][t.now] += n;
                    let needs = t.needs.unwrap_or_default().times(n);
                    self.room[site] = self.room[site].map(|room| room.plus(needs));
                }
            }
        }
    }
}
