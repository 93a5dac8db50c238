//! What no choice of fates can beat: a bound from prices of slots.
//!
//! Give every slot type a price that never falls along the chain, and a touched card the price of the dearest cut it
//! allows. Then each node can be judged alone, and whatever the prices are, the sum is a lower bound (Lagrangian
//! duality). Better prices only make the bound better, so they are found by a plain ascent in integers.

use super::fleet::{Fleet, count};
use super::kept::Kept;
use super::master::Master;

/// Fixed-point unit of one restart or one touched node.
pub(super) const UNIT: i64 = 1 << 20;

/// What a search is about: the question and the numbers that are already settled.
#[derive(Clone, Debug)]
pub(super) struct Question {
    /// Nodes kept, per size.
    pub(super) kept: Vec<i64>,
    /// Whole cards that must stay free.
    pub(super) idle: i64,
    /// Most nodes touched.
    pub(super) touched: i64,
    /// Whether exactly that many must be touched, because fewer are known to be too few.
    pub(super) exactly: bool,
    /// What is counted: 0 or `UNIT` for a touched node.
    pub(super) per_touch: i64,
    /// And 0 or `UNIT` for a restart.
    pub(super) per_restart: i64,
}

impl Question {
    /// The fewest touched nodes.
    pub(super) fn of_touches(kept: &Kept) -> Self {
        Self {
            kept: kept.nodes.clone(),
            idle: kept.idle,
            touched: kept.nodes.iter().sum(),
            exactly: false,
            per_touch: UNIT,
            per_restart: 0,
        }
    }

    /// The fewest restarts with exactly so many touched nodes.
    pub(super) fn of_restarts(kept: &Kept, touched: i64) -> Self {
        Self {
            kept: kept.nodes.clone(),
            idle: kept.idle,
            touched,
            exactly: true,
            per_touch: 0,
            per_restart: UNIT,
        }
    }
}

/// Prices: how much dearer each slot type is than the one before, and what touching a node costs on top (less than
/// nothing when too few would be touched).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prices {
    pub(super) steps: Vec<i64>,
    pub(super) touch: i64,
}

/// How many nodes of a group have each fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fates {
    pub(super) freed: i64,
    pub(super) touched: i64,
    pub(super) untouched: i64,
}

/// The value of each fate of one node of a group, at given prices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values {
    pub(super) freed: i64,
    pub(super) touched: i64,
    pub(super) untouched: i64,
}

/// The bound at given prices, and the fates that attain it.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    pub(super) value: i64,
    pub(super) fates: Vec<Fates>,
    pub(super) values: Vec<Values>,
    /// How far the fates are from holding every limit: the direction in which prices should move.
    slope: Vec<i64>,
    slope_touch: i64,
}

/// The best prices found.
#[derive(Clone, Debug)]
pub(super) struct Ascent {
    pub(super) prices: Prices,
    pub(super) bound: Bound,
    /// Freed, touched and untouched nodes of each group in `UNIT`s: the blend of fates that holds every limit at the
    /// cost of the bound, if nodes could be divided.
    pub(super) blend: Vec<[i64; 3]>,
}

impl Fleet<'_> {
    /// Judges every node alone at these prices.
    pub(super) fn bound(&self, question: &Question, prices: &Prices) -> Bound {
        let n_slots = self.need.len();
        let mut price = Vec::with_capacity(n_slots);
        let mut sum = 0;
        for step in &prices.steps {
            sum += step;
            price.push(sum);
        }
        let (card_price, best_cut) = self.card_price(&price);
        let leaves = |slot: usize, own: usize| price[slot] - price[own] - question.per_restart;
        let mut slope = self.missing(question.idle);
        let mut value = slope.iter().zip(&prices.steps).map(|(n, s)| n * s).sum::<i64>();
        value -= prices.touch * question.touched;
        let values: Vec<Values> = self
            .groups
            .iter()
            .map(|group| {
                let restart = group.replicas * question.per_restart;
                let given: i64 = group.supply.iter().zip(&prices.steps).map(|(n, s)| n * s).sum();
                let left: i64 = group.roomy.iter().map(|(slot, own, n)| n * leaves(*slot, *own).max(0)).sum();
                Values {
                    freed: restart,
                    touched: restart + question.per_touch + prices.touch - card_price * group.cards,
                    untouched: group.misfits * question.per_restart - given - left,
                }
            })
            .collect();
        let mut fates = vec![Fates::default(); self.groups.len()];
        let mut slope_touch = -question.touched;
        for (size, kept) in question.kept.iter().enumerate() {
            let mut order: Vec<usize> =
                (0..self.groups.len()).filter(|g| self.groups[*g].size == size).collect();
            order.sort_by_key(|g| (values[*g].touched.min(values[*g].untouched) - values[*g].freed, *g));
            let mut left = *kept;
            for g in order {
                let nodes = count(self.groups[g].nodes.len());
                let keep = nodes.min(left);
                left -= keep;
                let v = &values[g];
                value += v.freed * (nodes - keep) + v.touched.min(v.untouched) * keep;
                fates[g].freed = nodes - keep;
                if v.touched < v.untouched {
                    fates[g].touched = keep;
                    slope_touch += keep;
                    for (s, n) in slope.iter_mut().zip(&best_cut) {
                        *s -= keep * self.groups[g].cards * n;
                    }
                } else {
                    fates[g].untouched = keep;
                    for (s, n) in slope.iter_mut().zip(&self.groups[g].supply) {
                        *s -= keep * n;
                    }
                    for (slot, own, n) in &self.groups[g].roomy {
                        if leaves(*slot, *own) > 0 {
                            slope[own + 1..=*slot].iter_mut().for_each(|s| *s -= keep * n);
                        }
                    }
                }
            }
        }
        Bound { value, fates, values, slope, slope_touch }
    }

    /// The dearest cut of a card, or the card whole, and its slots counted along the chain.
    fn card_price(&self, price: &[i64]) -> (i64, Vec<i64>) {
        let whole = price.len() - 1;
        let mut best = (price[whole], vec![1; price.len()]);
        for layout in &self.cutter.maximal {
            let worth: i64 = layout.counts.iter().zip(price).map(|(n, p)| i64::from(*n) * p).sum();
            if worth > best.0 {
                let chain = (0..price.len())
                    .map(|p| layout.counts.iter().skip(p).map(|n| i64::from(*n)).sum())
                    .collect();
                best = (worth, chain);
            }
        }
        best
    }

    /// Raises the bound from `start` until it exceeds `target`, cannot rise or `rounds` are over; `seen` gets every
    /// set of fates on the way, and ends it by answering that it has seen enough.
    pub(super) fn ascend(
        &self,
        question: &Question,
        start: &Prices,
        target: i64,
        rounds: u64,
        mut seen: impl FnMut(&Bound) -> bool,
    ) -> Ascent {
        let first = self.bound(question, start);
        let mut enough = seen(&first);
        let (height, slope) = first.plane(start);
        let mut master = Master::new(height, &slope, MOST, question.exactly);
        let mut all = vec![first.fates.clone()];
        let mut best = (start.clone(), first);
        for _ in 0..rounds {
            if enough || best.1.value > target {
                break;
            }
            let Some((mut steps, ceiling)) = master.solve() else { break };
            // Restarts are searched for by the bound itself; of touched nodes only the whole number is asked for.
            let cannot_rise = question.per_touch > 0 && whole(ceiling + UNIT / 1024) <= whole(best.1.value);
            if cannot_rise || ceiling - best.1.value < UNIT / 1024 {
                break;
            }
            let touch = steps.pop().unwrap_or(0);
            let prices = Prices { steps, touch };
            let bound = self.bound(question, &prices);
            enough = seen(&bound);
            let (height, slope) = bound.plane(&prices);
            master.add(height, &slope);
            all.push(bound.fates.clone());
            if bound.value > best.1.value {
                best = (prices, bound);
            }
        }
        let mut blend = vec![[0i64; 3]; self.groups.len()];
        for (seen, weight) in master.blend() {
            for (b, f) in blend.iter_mut().zip(&all[seen]) {
                for (b, n) in b.iter_mut().zip([f.freed, f.touched, f.untouched]) {
                    *b += weight * n;
                }
            }
        }
        Ascent { prices: best.0, bound: best.1, blend }
    }
}

/// Rounded up to whole units.
pub(super) fn whole(value: i64) -> i64 {
    -(-value).div_euclid(UNIT)
}

/// Prices stay below this: no slot is worth more than a card full of restarts.
const MOST: i64 = UNIT << 6;

impl Bound {
    /// The plane that touches the bound here: its height at price zero, and its slope.
    fn plane(&self, prices: &Prices) -> (i64, Vec<i64>) {
        let mut slope = self.slope.clone();
        slope.push(self.slope_touch);
        let here =
            slope.iter().zip(prices.steps.iter().chain([&prices.touch])).map(|(s, p)| s * p).sum::<i64>();
        (self.value - here, slope)
    }
}
