//! Keeps the replicas of one workload apart by letting replicas exchange their slots.
//!
//! Replicas that restart anyway are exchanged first; only when that fails does one more leave its slot.

use super::Spread;
use super::assign::{Place, Seats};

impl Seats<'_> {
    /// Whether all replicas of an item sit together although they could have been apart.
    fn huddles(&self, item: usize) -> bool {
        self.places[item].len() >= 2
            && self.together(item).is_some_and(|_| {
                // A frozen node keeps what it has, even when that breaks the rule.
                !self.places[item].iter().all(|p| self.problem.nodes[p.0].frozen)
            })
    }

    /// Moves replicas until nobody huddles; the first item that still does is the error.
    pub(super) fn spread(&mut self) -> Result<(), usize> {
        if self.problem.rules.spread == Spread::None {
            return Ok(());
        }
        for item in 0..self.problem.items.len() {
            if self.huddles(item) && !self.part(item) {
                return Err(item);
            }
        }
        Ok(())
    }

    /// Gets one replica of `item` away from the others, at the least number of restarts.
    fn part(&mut self, item: usize) -> bool {
        for restarts in 0..=2 {
            for place in self.places[item].clone() {
                if self.problem.nodes[place.0].frozen && self.stayed.contains(&place) {
                    continue;
                }
                if self.move_to_free(item, place, restarts) || self.exchange(item, place, restarts) {
                    return true;
                }
            }
        }
        false
    }

    fn cost(&self, place: Place) -> i64 {
        i64::from(self.stayed.contains(&place))
    }

    /// To a free slot elsewhere that nobody needs: one of the same type always is.
    fn move_to_free(&mut self, item: usize, place: Place, restarts: i64) -> bool {
        if self.cost(place) != restarts {
            return false;
        }
        let slot = self.slot(place);
        let spot = self.spot(place);
        let own = self.problem.items[item].slot;
        for to_slot in (own..self.free.len()).filter(|s| *s <= slot || self.can_spare(slot, *s)) {
            if let Some(to) = self.free[to_slot].iter().find(|p| self.spot(**p) != spot).copied() {
                self.unseat(place);
                self.sit(to, item);
                return true;
            }
        }
        false
    }

    /// Whether a replica may take a larger slot and give back a smaller one.
    fn can_spare(&self, smaller: usize, larger: usize) -> bool {
        (smaller + 1..=larger).all(|p| {
            let free: i64 = self.free[p..].iter().map(|f| super::fleet::count(f.len())).sum();
            free > self.must_stay_free[p]
        })
    }

    /// With a replica elsewhere, when both fit in each other's slot and the other item does not huddle then.
    fn exchange(&mut self, item: usize, place: Place, restarts: i64) -> bool {
        let slot = self.slot(place);
        let spot = self.spot(place);
        let own = self.problem.items[item].slot;
        for other in 0..self.problem.items.len() {
            if other == item || self.problem.items[other].slot > slot {
                continue;
            }
            for to in self.places[other].clone() {
                let frozen = self.problem.nodes[to.0].frozen && self.stayed.contains(&to);
                let cost = self.cost(place) + self.cost(to);
                if frozen || cost != restarts || self.spot(to) == spot || self.slot(to) < own {
                    continue;
                }
                let others_join = self.places[other].iter().all(|p| *p == to || self.spot(*p) == spot);
                if self.places[other].len() >= 2 && others_join {
                    continue;
                }
                self.unseat(place);
                self.unseat(to);
                self.sit(to, item);
                self.sit(place, other);
                return true;
            }
        }
        false
    }

    /// A replica that had stayed restarts now.
    fn unseat(&mut self, place: Place) {
        if self.stayed.remove(&place) {
            self.restarts += 1;
        }
        self.leave(place);
    }
}
