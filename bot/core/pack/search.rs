//! Which nodes are freed, touched or left alone.
//!
//! Prices give a bound and good first guesses, swaps improve them, and where a gap remains every choice that the
//! bound does not rule out is tried, as far as the budget goes.

use super::fleet::{Fleet, count};
use super::kept::{Kept, KeptChoices};
use super::prices::{Bound, Fates, Prices, Question, UNIT};
use super::totals::{Becomes, Leaves, Score, Totals};

/// The fates that were chosen, and what is known about better ones.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) fates: Vec<Fates>,
    pub(super) leaves: Leaves,
    /// Slots that touched cards have to give, counted along the chain.
    pub(super) missing: Vec<i64>,
    /// Cards of touched nodes.
    pub(super) pool: i64,
    pub(super) touched: i64,
    pub(super) restarts: i64,
    pub(super) touched_bound: i64,
    pub(super) restarts_bound: i64,
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
const ROUNDS: u64 = 600;

/// What is known about one way to keep nodes.
struct Attempt {
    question: Question,
    prices: Prices,
    bound: i64,
    guesses: Vec<(Score, Vec<Fates>)>,
}

pub(super) fn choose(fleet: &Fleet, choices: &KeptChoices, budget: &mut Budget) -> Option<Choice> {
    // First how few nodes must be touched, for each way to keep nodes.
    let mut floors: Vec<(i64, &Kept, Prices)> = choices
        .choices
        .iter()
        .map(|kept| {
            let question = Question {
                kept: kept.nodes.clone(),
                idle: kept.idle,
                touched: kept.nodes.iter().sum(),
                exactly: false,
                per_touch: UNIT,
                per_restart: 0,
            };
            let start = start(fleet, &question);
            let target = question.touched * UNIT;
            let (prices, bound) = fleet.ascend(&question, &start, target, ROUNDS, |_| {});
            (ceil(bound.value).max(0), kept, prices)
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
        for (_, kept, prices) in floors.iter().filter(|f| f.0 <= touched) {
            let (found, bound, finished) = with_touched(fleet, kept, touched, prices, budget);
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

/// The fewest restarts with at most `touched` nodes touched: the choice, a bound, and whether they meet.
fn with_touched(
    fleet: &Fleet,
    kept: &Kept,
    touched: i64,
    prices: &Prices,
    budget: &mut Budget,
) -> (Option<Choice>, i64, bool) {
    let question = Question {
        kept: kept.nodes.clone(),
        idle: kept.idle,
        touched,
        exactly: true,
        per_touch: 0,
        per_restart: UNIT,
    };
    let most: i64 = fleet.groups.iter().map(|g| g.replicas * count(g.nodes.len())).sum();
    let mut attempt = Attempt {
        question,
        prices: start(fleet, &Question { touched, ..base(kept) }),
        bound: 0,
        guesses: Vec::new(),
    };
    let _ = prices;
    let mut upper = most + 1;
    for _ in 0..4 {
        attempt.improve_bound(fleet, (upper - 1) * UNIT, ROUNDS, budget);
        attempt.improve_guesses(fleet, budget);
        let best = attempt.guesses.first().filter(|g| g.0.short == 0).map(|g| g.0.restarts);
        if let Some(best) = best {
            let done = best >= upper || best <= ceil(attempt.bound);
            upper = upper.min(best);
            if done {
                break;
            }
        }
    }
    let lower = ceil(attempt.bound).max(0);
    let mut finished = attempt.guesses.first().is_some_and(|g| g.0.short == 0 && g.0.restarts <= lower);
    let mut lower = lower;
    if !finished {
        let upper = attempt.guesses.first().filter(|g| g.0.short == 0).map_or(most + 1, |g| g.0.restarts);
        let (better, complete) =
            super::exhaust::exhaust(fleet, &attempt.question, &attempt.prices, upper, budget);
        if let Some(better) = better {
            attempt.guesses.insert(0, better);
        }
        finished = complete;
        if complete {
            lower = attempt.guesses.first().filter(|g| g.0.short == 0).map_or(most + 1, |g| g.0.restarts);
        }
    }
    let order = leave_order(fleet, &attempt.prices);
    let choice = attempt.guesses.first().filter(|g| g.0.short == 0).map(|(score, fates)| {
        let totals = Totals::new(fleet, &attempt.question, fates);
        let exact = totals.exact_score(fleet, &order, score.restarts + 1, budget);
        let leaves = exact.map_or_else(|| totals.leaves(fleet, &order), |(s, l)| (s.short, l)).1;
        let mut missing = totals.missing.clone();
        for (slot, own, n) in &leaves {
            missing[own + 1..=*slot].iter_mut().for_each(|m| *m -= n);
        }
        Choice {
            fates: fates.clone(),
            leaves,
            missing,
            pool: totals.pool,
            touched: totals.touched,
            restarts: score.restarts,
            touched_bound: 0,
            restarts_bound: lower,
        }
    });
    (choice, lower, finished)
}

fn base(kept: &Kept) -> Question {
    Question {
        kept: kept.nodes.clone(),
        idle: kept.idle,
        touched: 0,
        exactly: true,
        per_touch: 0,
        per_restart: UNIT,
    }
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

/// Rounded up to whole units.
pub(super) fn ceil(value: i64) -> i64 {
    -(-value).div_euclid(UNIT)
}

impl Attempt {
    fn improve_bound(&mut self, fleet: &Fleet, target: i64, rounds: u64, budget: &mut Budget) {
        let mut round = 0u64;
        let mut seen: Vec<(Score, Vec<Fates>)> = Vec::new();
        let question = self.question.clone();
        let steps = fleet.groups.len().saturating_mul(usize::try_from(rounds).unwrap_or(0)) / 8;
        budget.spend(steps);
        let order = leave_order(fleet, &self.prices);
        let (prices, bound) = fleet.ascend(&question, &self.prices, target, rounds, |bound| {
            round += 1;
            if round % 20 == 1 {
                let fates = rounded(fleet, &question, bound);
                let score = Totals::new(fleet, &question, &fates).score(fleet, &order);
                seen.push((score, fates));
            }
        });
        let fates = rounded(fleet, &question, &bound);
        seen.push((Totals::new(fleet, &question, &fates).score(fleet, &order), fates));
        self.guesses.append(&mut seen);
        self.guesses.sort_by_key(|g| g.0);
        self.guesses.dedup();
        self.guesses.truncate(4);
        self.prices = prices;
        self.bound = self.bound.max(bound.value);
    }

    fn improve_guesses(&mut self, fleet: &Fleet, budget: &mut Budget) {
        let order = leave_order(fleet, &self.prices);
        for (score, fates) in &mut self.guesses {
            *score = Totals::new(fleet, &self.question, fates).score(fleet, &order);
            swap(fleet, &self.question, &order, score, fates, ceil(self.bound), budget);
        }
        self.guesses.sort_by_key(|g| g.0);
    }
}

/// Fates near those of a bound that keep and touch the right numbers of nodes.
fn rounded(fleet: &Fleet, question: &Question, bound: &Bound) -> Vec<Fates> {
    let mut fates = bound.fates.clone();
    let mut touched: i64 = fates.iter().map(|f| f.touched).sum();
    let gain = |g: &usize| (bound.values[*g].touched - bound.values[*g].untouched, *g);
    let mut order: Vec<usize> = (0..fleet.groups.len()).collect();
    order.sort_by_key(gain);
    for g in &order {
        let n = fates[*g].untouched.min(question.touched - touched).max(0);
        fates[*g].untouched -= n;
        fates[*g].touched += n;
        touched += n;
    }
    for g in order.iter().rev() {
        let n = fates[*g].touched.min(touched - question.touched).max(0);
        fates[*g].touched -= n;
        fates[*g].untouched += n;
        touched -= n;
    }
    fates
}

const ALL: [Becomes; 3] = [Becomes::Freed, Becomes::Touched, Becomes::Untouched];

pub(super) fn of(fates: &mut Fates, becomes: Becomes) -> &mut i64 {
    match becomes {
        Becomes::Freed => &mut fates.freed,
        Becomes::Touched => &mut fates.touched,
        Becomes::Untouched => &mut fates.untouched,
    }
}

/// Lets two nodes exchange their fates as long as that helps.
fn swap(
    fleet: &Fleet,
    question: &Question,
    order: &[(usize, usize)],
    score: &mut Score,
    fates: &mut [Fates],
    floor: i64,
    budget: &mut Budget,
) {
    let mut totals = Totals::new(fleet, question, fates);
    loop {
        let mut improved = false;
        for a in 0..fleet.groups.len() {
            for b in 0..fleet.groups.len() {
                for from in ALL {
                    for to in ALL {
                        if a == b || from == to || (score.short == 0 && score.restarts <= floor) {
                            continue;
                        }
                        let sizes_matter = from == Becomes::Freed || to == Becomes::Freed;
                        if sizes_matter && fleet.groups[a].size != fleet.groups[b].size {
                            continue;
                        }
                        if *of(&mut fates[a], from) == 0 || *of(&mut fates[b], to) == 0 {
                            continue;
                        }
                        if !budget.spend(1) {
                            return;
                        }
                        let before = totals.clone();
                        totals.add(fleet, a, from, -1);
                        totals.add(fleet, a, to, 1);
                        totals.add(fleet, b, to, -1);
                        totals.add(fleet, b, from, 1);
                        let now = totals.score(fleet, order);
                        if now < *score {
                            *score = now;
                            *of(&mut fates[a], from) -= 1;
                            *of(&mut fates[a], to) += 1;
                            *of(&mut fates[b], to) -= 1;
                            *of(&mut fates[b], from) += 1;
                            improved = true;
                        } else {
                            totals = before;
                        }
                    }
                }
            }
        }
        if !improved {
            return;
        }
    }
}
