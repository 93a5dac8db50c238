//! Which nodes are freed, touched or left alone.
//!
//! Prices give a bound and good first guesses, swaps improve them, and where a gap remains every choice that the
//! bound does not rule out is tried, as far as the budget goes.

use super::exhaust::{by_slots, exhaust, marginals};
use super::fleet::{Fleet, count};
use super::kept::{Kept, KeptChoices};
use super::prices::{Ascent, Bound, Fates, Prices, Question, UNIT};
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

/// At most so many pairs of groups are compared for the sake of order.
const MOST_COMPARED: u64 = 20_000;

/// Of nodes that could as well exchange their fates, keeps the first and frees the later ones.
fn prefer_first(
    fleet: &Fleet,
    question: &Question,
    order: &[(usize, usize)],
    fates: &mut [Fates],
    budget: &mut Budget,
) {
    let mut totals = Totals::new(fleet, question, fates);
    let mut score = totals.score(fleet, order);
    let before = (totals.polished(fleet, order, budget), fates.to_vec());
    // In a large pool not every pair can be compared; which of many equal nodes goes is no great matter there.
    let mut share = Budget { left: budget.left.min(MOST_COMPARED) };
    for a in 0..fleet.groups.len() {
        for b in (a + 1..fleet.groups.len()).rev() {
            for to in [Becomes::Untouched, Becomes::Touched] {
                let kept = fates[a].touched + fates[a].untouched;
                let first_freed = fleet.groups[a].nodes.get(usize::try_from(kept).unwrap_or(usize::MAX));
                let last_kept = (fates[b].touched + fates[b].untouched)
                    .checked_sub(1)
                    .and_then(|n| fleet.groups[b].nodes.get(usize::try_from(n).ok()?));
                let in_order = match (first_freed, last_kept) {
                    (Some(freed), Some(kept)) => fleet.rank[*freed] > fleet.rank[*kept],
                    (Some(_) | None, _) => true,
                };
                if in_order || fleet.groups[a].size != fleet.groups[b].size || *of(&mut fates[b], to) == 0 {
                    continue;
                }
                if !share.spend(1) {
                    break;
                }
                let mut swapped = totals.clone();
                swapped.add(fleet, a, Becomes::Freed, -1);
                swapped.add(fleet, a, to, 1);
                swapped.add(fleet, b, to, -1);
                swapped.add(fleet, b, Becomes::Freed, 1);
                let now = swapped.score(fleet, order);
                if now <= score {
                    (totals, score) = (swapped, now);
                    fates[a].freed -= 1;
                    *of(&mut fates[a], to) += 1;
                    *of(&mut fates[b], to) -= 1;
                    fates[b].freed += 1;
                }
            }
        }
    }
    if totals.polished(fleet, order, budget) > before.0 {
        fates.clone_from_slice(&before.1);
    }
}

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
            let Ascent { prices, bound, .. } = fleet.ascend(&question, &start, target, ROUNDS, |_| {});
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
    for _ in 0..2 {
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
        let mut judge = by_slots(fleet, &attempt.prices);
        // Half of what is left, so that one node more touched gets its turn.
        let mut share = Budget { left: budget.left / 2 };
        budget.left -= share.left;
        let (better, complete) =
            exhaust(fleet, &attempt.question, &attempt.prices, upper, &mut *judge, &mut share);
        budget.left += share.left;
        if let Some((restarts, fates)) = better {
            attempt.guesses.insert(0, (Score { short: 0, restarts }, fates));
        }
        finished = complete;
        if complete {
            lower = attempt.guesses.first().filter(|g| g.0.short == 0).map_or(most + 1, |g| g.0.restarts);
        }
    }
    let order = leave_order(fleet, &attempt.prices);
    let choice = attempt.guesses.first().filter(|g| g.0.short == 0).map(|(_, fates)| {
        let mut fates = fates.clone();
        prefer_first(fleet, &attempt.question, &order, &mut fates, budget);
        let totals = Totals::new(fleet, &attempt.question, &fates);
        Choice { restarts_bound: lower, ..Choice::new(fleet, kept, &order, fates, &totals, lower, budget) }
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
        let Ascent { prices, bound, blend } =
            fleet.ascend(&question, &self.prices, target, rounds, |bound| {
                round += 1;
                if round % 20 == 1 {
                    let fates = rounded(fleet, &question, bound);
                    let score = Totals::new(fleet, &question, &fates).score(fleet, &order);
                    seen.push((score, fates));
                }
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
            if polished.short == 0 && polished.restarts <= ceil(self.bound) {
                *score = polished;
                continue;
            }
            *score = totals.score(fleet, &order);
            swap(fleet, &self.question, &order, &active, score, fates, ceil(self.bound), budget);
            *score = Totals::new(fleet, &self.question, fates).polished(fleet, &order, budget);
        }
        self.guesses.sort_by_key(|g| g.0);
        if let Some(best) = self.guesses.first_mut() {
            shake(fleet, &self.question, &order, &active, best, ceil(self.bound), budget);
        }
    }
}

/// At most so many groups take part in swaps.
const MOST_ACTIVE: usize = 80;

/// The groups whose fate the prices leave open most.
fn undecided(fleet: &Fleet, question: &Question, prices: &Prices) -> Vec<usize> {
    let values = fleet.bound(question, prices).values;
    let marginal = marginals(fleet, question, &values);
    let mut groups: Vec<(i64, usize)> = (0..fleet.groups.len())
        .map(|g| {
            let (v, m) = (&values[g], marginal[fleet.groups[g].size]);
            let mut fates = [v.freed, v.touched - m, v.untouched - m];
            fates.sort_unstable();
            (fates[1] - fates[0], g)
        })
        .collect();
    groups.sort_unstable();
    groups.truncate(MOST_ACTIVE);
    let mut active: Vec<usize> = groups.into_iter().map(|(_, g)| g).collect();
    active.sort_unstable();
    active
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

/// Whole nodes near a blend of fates: everywhere rounded down, and the largest remainders up.
fn rounded_blend(fleet: &Fleet, question: &Question, blend: &[[i64; 3]]) -> Vec<Fates> {
    let size_of = |g: usize| count(fleet.groups[g].nodes.len());
    let mut kept: Vec<i64> = blend.iter().map(|b| (b[1] + b[2]) / UNIT).collect();
    let mut touched: Vec<i64> = blend.iter().map(|b| b[1] / UNIT).collect();
    let mut order: Vec<usize> = (0..blend.len()).collect();
    order.sort_by_key(|g| (std::cmp::Reverse((blend[*g][1] + blend[*g][2]) % UNIT), *g));
    for (size, wanted) in question.kept.iter().enumerate() {
        let of_size: Vec<usize> = order.iter().copied().filter(|g| fleet.groups[*g].size == size).collect();
        let mut left = wanted - of_size.iter().map(|g| kept[*g]).sum::<i64>();
        // Once around for the remainders; again only when rounding errors ate more than one each.
        while left > 0 && of_size.iter().any(|g| kept[*g] < size_of(*g)) {
            for g in &of_size {
                if left > 0 && kept[*g] < size_of(*g) {
                    kept[*g] += 1;
                    left -= 1;
                }
            }
        }
        for g in of_size.iter().rev() {
            let less = kept[*g].min(-left).max(0);
            kept[*g] -= less;
            left += less;
        }
    }
    order.sort_by_key(|g| (std::cmp::Reverse(blend[*g][1] % UNIT), *g));
    touched.iter_mut().zip(&kept).for_each(|(t, k)| *t = (*t).min(*k));
    let mut left = question.touched - touched.iter().sum::<i64>();
    while left > 0 && order.iter().any(|g| touched[*g] < kept[*g]) {
        for g in &order {
            if left > 0 && touched[*g] < kept[*g] {
                touched[*g] += 1;
                left -= 1;
            }
        }
    }
    (0..blend.len())
        .map(|g| Fates { freed: size_of(g) - kept[g], touched: touched[g], untouched: kept[g] - touched[g] })
        .collect()
}

const ALL: [Becomes; 3] = [Becomes::Freed, Becomes::Touched, Becomes::Untouched];

pub(super) fn of(fates: &mut Fates, becomes: Becomes) -> &mut i64 {
    match becomes {
        Becomes::Freed => &mut fates.freed,
        Becomes::Touched => &mut fates.touched,
        Becomes::Untouched => &mut fates.untouched,
    }
}

/// Shakes the best choice and improves it again, while the bound leaves room and a share of the budget lasts.
fn shake(
    fleet: &Fleet,
    question: &Question,
    order: &[(usize, usize)],
    active: &[usize],
    best: &mut (Score, Vec<Fates>),
    floor: i64,
    budget: &mut Budget,
) {
    let mut share = Budget { left: budget.left / 2 };
    budget.left -= share.left;
    // Not random: the same numbers on every machine (Knuth's linear congruential generator).
    let mut state = 1u64;
    let mut next = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap_or(0) % n.max(1)
    };
    let n = active.len();
    while share.left > 0 && n > 1 && (best.0.short > 0 || best.0.restarts > floor) {
        share.spend(n);
        let mut fates = best.1.clone();
        for _ in 0..2 + next(4) {
            let (a, b) = (active[next(n)], active[next(n)]);
            let (from, to) = (ALL[next(3)], ALL[next(3)]);
            let sizes_matter = from == Becomes::Freed || to == Becomes::Freed;
            let possible = a != b && (!sizes_matter || fleet.groups[a].size == fleet.groups[b].size);
            if possible && *of(&mut fates[a], from) > 0 && *of(&mut fates[b], to) > 0 {
                *of(&mut fates[a], from) -= 1;
                *of(&mut fates[a], to) += 1;
                *of(&mut fates[b], to) -= 1;
                *of(&mut fates[b], from) += 1;
            }
        }
        let mut score = Totals::new(fleet, question, &fates).score(fleet, order);
        swap(fleet, question, order, active, &mut score, &mut fates, floor, &mut share);
        score = Totals::new(fleet, question, &fates).polished(fleet, order, &mut share);
        if score <= best.0 {
            *best = (score, fates);
        }
    }
    budget.left += share.left;
}

/// Lets two nodes exchange their fates as long as that helps.
#[expect(clippy::too_many_arguments, reason = "the state of one local search")]
fn swap(
    fleet: &Fleet,
    question: &Question,
    order: &[(usize, usize)],
    active: &[usize],
    score: &mut Score,
    fates: &mut [Fates],
    floor: i64,
    budget: &mut Budget,
) {
    let mut totals = Totals::new(fleet, question, fates);
    loop {
        let mut improved = false;
        for a in active.iter().copied() {
            for b in active.iter().copied() {
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
