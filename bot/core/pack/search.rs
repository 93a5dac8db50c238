//! Which nodes are freed, touched or left alone.
//!
//! Prices give a bound and good first guesses, swaps improve them, and where a gap remains every choice that the
//! bound does not rule out is tried, as far as the budget goes.

use super::exhaust::{by_slots, exhaust};
use super::fleet::{Fleet, count};
use super::improve::{prefer_first, rounded, rounded_blend, shake, swap, undecided};
use super::kept::{Kept, KeptChoices};
use super::prices::{Ascent, Fates, Prices, Question, UNIT, whole};
use super::totals::{Leaves, Score, Totals};

/// The fates that were chosen, and what is known about better ones.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) fates: Vec<Fates>,
    pub(super) leaves: Leaves,
    /// Slots that touched cards have to give, counted along the chain.
    pub(super) missing: Vec<i64>,
    /// Cards of touched nodes.
    pub(super) pool: i64,
    /// Whole cards that must stay free.
    pub(super) idle: i64,
    pub(super) touched: i64,
    pub(super) restarts: i64,
    pub(super) touched_bound: i64,
    pub(super) restarts_bound: i64,
}

impl Choice {
    /// Settles who leaves which slots for these fates; `floor` restarts are known to be needed.
    pub(super) fn new(
        fleet: &Fleet,
        kept: &Kept,
        order: &[(usize, usize)],
        fates: Vec<Fates>,
        totals: &Totals,
        floor: i64,
        budget: &mut Budget,
    ) -> Self {
        let polished = totals.polished(fleet, order, budget);
        let done = polished.restarts <= floor;
        // Proving that no fewer replicas have to leave can take long: a part of the budget must do.
        let mut share = Budget { left: if done { 0 } else { budget.left / 16 } };
        budget.left -= share.left;
        let exact = totals.exact_score(fleet, order, polished.restarts + 1, &mut share);
        budget.left += share.left;
        let (score, leaves) = exact.unwrap_or_else(|| (polished, totals.exchanged(fleet, order).1));
        let mut missing = totals.missing.clone();
        for (slot, own, n) in &leaves {
            missing[own + 1..=*slot].iter_mut().for_each(|m| *m -= n);
        }
        Self {
            fates,
            leaves,
            missing,
            pool: totals.pool,
            idle: kept.idle,
            touched: totals.touched,
            restarts: score.restarts,
            touched_bound: 0,
            restarts_bound: 0,
        }
    }
}

/// Steps that are left.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    pub(super) left: u64,
}

impl Budget {
    pub(super) fn spend(&mut self, steps: usize) -> bool {
        let steps = u64::try_from(steps).unwrap_or(u64::MAX);
        let enough = self.left >= steps;
        self.left = self.left.saturating_sub(steps);
        enough
    }
}

/// Rounds of the price ascent; more sharpen the bound a little, and cost a step a group each.
pub(super) const ROUNDS: u64 = 600;

/// Up to so many groups of nodes a pool is small.
const SMALL: usize = 24;

/// What is known about one way to keep nodes.
struct Attempt {
    question: Question,
    prices: Prices,
    bound: i64,
    guesses: Vec<(Score, Vec<Fates>)>,
}

pub(super) fn choose(fleet: &Fleet, choices: &KeptChoices, budget: &mut Budget) -> Option<Choice> {
    // First how few nodes must be touched, for each way to keep nodes.
    let mut floors: Vec<(i64, &Kept)> = choices
        .choices
        .iter()
        .map(|kept| {
            let question = Question::of_touches(kept);
            let start = start(fleet, &question);
            let target = question.touched * UNIT;
            let Ascent { bound, .. } = fleet.ascend(&question, &start, target, ROUNDS, |_| false);
            (whole(bound.value).max(0), kept)
        })
        .collect();
    floors.sort_by_key(|f| f.0);
    let lowest = floors.first()?.0;
    let highest = choices.choices.iter().map(|k| k.nodes.iter().sum::<i64>()).max()?;
    let mut touched_bound = lowest;
    let mut all_below_refuted = true;
    for touched in lowest..=highest {
        let mut best: Option<Choice> = None;
        let mut restarts_bound = i64::MAX;
        let mut refuted = true;
        for (_, kept) in floors.iter().filter(|f| f.0 <= touched) {
            let to_beat = best.as_ref().map(|b| b.restarts);
            let (found, bound, finished) = with_touched(fleet, kept, touched, to_beat, budget);
            refuted &= finished;
            restarts_bound = restarts_bound.min(bound);
            if let Some(found) = found
                && best.as_ref().is_none_or(|b| found.restarts < b.restarts)
            {
                best = Some(found);
            }
        }
        if let Some(mut best) = best {
            best.touched_bound = touched_bound;
            best.restarts_bound = restarts_bound.min(best.restarts);
            if !choices.complete {
                (best.touched_bound, best.restarts_bound) = (0, 0);
            }
            return Some(best);
        }
        all_below_refuted &= refuted;
        if all_below_refuted {
            touched_bound = touched + 1;
        }
    }
    None
}

/// The fewest restarts with exactly `touched` nodes touched: the choice, a bound, and whether the bound is the truth.
fn with_touched(
    fleet: &Fleet,
    kept: &Kept,
    touched: i64,
    to_beat: Option<i64>,
    budget: &mut Budget,
) -> (Option<Choice>, i64, bool) {
    let question = Question::of_restarts(kept, touched);
    let most: i64 = fleet.groups.iter().map(|g| g.replicas * count(g.nodes.len())).sum();
    let prices = start(fleet, &question);
    let mut attempt = Attempt { question, prices, bound: 0, guesses: Vec::new() };
    attempt.improve_bound(fleet, most * UNIT, budget);
    let mut lower = whole(attempt.bound).max(0);
    if to_beat.is_some_and(|best| best <= lower) {
        return (None, lower, true);
    }
    attempt.improve_guesses(fleet, budget);
    // A short try of everything is all that small pools need; large ones are shaken first.
    if fleet.groups.len() > SMALL && attempt.best().is_none_or(|g| g.restarts > lower) {
        attempt.shake(fleet, budget);
        let target = attempt.best().map_or(most + 1, |g| g.restarts) - 1;
        attempt.improve_bound(fleet, target * UNIT, budget);
        attempt.improve_guesses(fleet, budget);
        lower = lower.max(whole(attempt.bound));
    }
    for part in [8, 2] {
        let best = attempt.best().map_or(most + 1, |g| g.restarts);
        if best <= lower {
            break;
        }
        let mut share = Budget { left: budget.left / part };
        budget.left -= share.left;
        let mut judge = by_slots(fleet, &attempt.prices);
        let (better, complete) =
            exhaust(fleet, &attempt.question, &attempt.prices, best, &mut *judge, &mut share);
        budget.left += share.left;
        if let Some((restarts, fates)) = better {
            attempt.guesses.insert(0, (Score { short: 0, restarts }, fates));
        }
        if complete {
            lower = attempt.best().map_or(most + 1, |g| g.restarts);
            break;
        }
        if part == 8 {
            attempt.shake(fleet, budget);
        }
    }
    let order = leave_order(fleet, &attempt.prices);
    let choice = attempt.guesses.first().filter(|g| g.0.short == 0).map(|(_, fates)| {
        let mut fates = fates.clone();
        prefer_first(fleet, &attempt.question, &order, &mut fates, budget);
        let totals = Totals::new(fleet, &attempt.question, &fates);
        Choice { restarts_bound: lower, ..Choice::new(fleet, kept, &order, fates, &totals, lower, budget) }
    });
    let finished = choice.as_ref().map_or(lower > most, |c| c.restarts <= lower);
    (choice, lower, finished)
}

/// First prices: slots priced by one of the card's limits, whichever gives the best bound.
pub(super) fn start(fleet: &Fleet, question: &Question) -> Prices {
    let n_slots = fleet.need.len();
    let zero = Prices { steps: vec![0; n_slots], touch: 0 };
    let mut best = (fleet.bound(question, &zero).value, zero);
    for row in fleet.cutter.rows.rows.iter().filter(|r| r.code != "slice-weights") {
        let weights: Vec<i64> = row.weights.iter().chain([&row.per_card]).map(|w| i64::from(*w)).collect();
        for eighths in [1, 2, 3, 4, 6, 8, 12, 16, 32, 64] {
            let price = UNIT * eighths / (8 * i64::from(row.per_card));
            let mut before = 0;
            let steps = weights
                .iter()
                .map(|w| {
                    let step = (w - before).max(0);
                    before = before.max(*w);
                    step * price
                })
                .collect();
            let prices = Prices { steps, touch: 0 };
            let value = fleet.bound(question, &prices).value;
            if value > best.0 {
                best = (value, prices);
            }
        }
    }
    best.1
}

/// Kinds of leaves by what they are worth at these prices, the dearest first; of equals the longer step.
pub(super) fn leave_order(fleet: &Fleet, prices: &Prices) -> Vec<(usize, usize)> {
    let n_slots = fleet.need.len();
    let mut order: Vec<(usize, usize)> = (0..n_slots).flat_map(|s| (0..s).map(move |o| (s, o))).collect();
    let worth = |(slot, own): &(usize, usize)| prices.steps[own + 1..=*slot].iter().sum::<i64>();
    order.sort_by_key(|kind| std::cmp::Reverse((worth(kind), kind.0 - kind.1)));
    order
}

impl Attempt {
    /// The best guess that works.
    fn best(&self) -> Option<Score> {
        self.guesses.first().map(|g| g.0).filter(|s| s.short == 0)
    }

    fn improve_bound(&mut self, fleet: &Fleet, target: i64, budget: &mut Budget) {
        let mut round = 0u64;
        let mut highest = self.bound;
        let mut seen: Vec<(Score, Vec<Fates>)> = Vec::new();
        let question = self.question.clone();
        budget.spend(fleet.groups.len().saturating_mul(64));
        let order = leave_order(fleet, &self.prices);
        let Ascent { prices, bound, blend } =
            fleet.ascend(&question, &self.prices, target, ROUNDS, |bound| {
                round += 1;
                highest = highest.max(bound.value);
                if round % 20 != 1 {
                    return false;
                }
                let fates = rounded(fleet, &question, bound);
                let score = Totals::new(fleet, &question, &fates).score(fleet, &order);
                seen.push((score, fates));
                // No bound can rise above fates that work.
                score.short == 0 && score.restarts <= whole(highest).max(0)
            });
        let order = leave_order(fleet, &prices);
        for fates in [rounded(fleet, &question, &bound), rounded_blend(fleet, &question, &blend)] {
            seen.push((Totals::new(fleet, &question, &fates).score(fleet, &order), fates));
        }
        self.guesses.append(&mut seen);
        self.guesses.sort_by_key(|g| g.0);
        self.guesses.dedup();
        self.guesses.truncate(4);
        self.prices = prices;
        self.bound = self.bound.max(bound.value);
    }

    fn improve_guesses(&mut self, fleet: &Fleet, budget: &mut Budget) {
        let order = leave_order(fleet, &self.prices);
        let active = undecided(fleet, &self.question, &self.prices);
        for (score, fates) in &mut self.guesses {
            let totals = Totals::new(fleet, &self.question, fates);
            let polished = totals.polished(fleet, &order, budget);
            if polished.short == 0 && polished.restarts <= whole(self.bound) {
                *score = polished;
                continue;
            }
            *score = totals.score(fleet, &order);
            swap(fleet, &self.question, &order, &active, score, fates, whole(self.bound), budget);
            *score = Totals::new(fleet, &self.question, fates).polished(fleet, &order, budget);
        }
        self.guesses.sort_by_key(|g| g.0);
    }

    fn shake(&mut self, fleet: &Fleet, budget: &mut Budget) {
        let order = leave_order(fleet, &self.prices);
        let active = undecided(fleet, &self.question, &self.prices);
        if let Some(best) = self.guesses.first_mut() {
            shake(fleet, &self.question, &order, &active, best, whole(self.bound), budget);
        }
    }
}
