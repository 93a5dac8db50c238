//! Looks for fates under which replicas can be kept apart, when the first choice does not allow it.
//!
//! Fates are tried in the order of what they cost without the rule. Whether replicas can be apart is decided by
//! exchanging them, which may miss a way: so the result is proven only when it meets the bound.

use super::assign::{Seats, seat};
use super::exhaust::{Verdict, exhaust};
use super::fleet::Fleet;
use super::kept::KeptChoices;
use super::prices::{Ascent, Question, UNIT, whole};
use super::search::{Budget, Choice, ROUNDS, leave_order, start};
use super::{Problem, Spread};

/// More touched nodes than the bound says are tried up to this many.
const MOST_MORE_TOUCHED: i64 = 3;

/// A better plan than `known` (nodes touched, restarts), if one is found.
pub(super) fn apart<'a>(
    problem: &'a Problem,
    fleet: &Fleet,
    choices: &KeptChoices,
    known: Option<(i64, i64)>,
    first: &Choice,
    budget: &mut Budget,
) -> Option<(i64, Seats<'a>)> {
    if problem.rules.spread == Spread::None {
        return None;
    }
    for touched in first.touched_bound..=first.touched_bound + MOST_MORE_TOUCHED {
        if known.is_some_and(|k| touched > k.0) {
            break;
        }
        // Half of what is left for each number of touched nodes, so that the next one gets its turn.
        let mut share = Budget { left: budget.left / 2 };
        budget.left -= share.left;
        let limit = known.filter(|k| k.0 == touched).map(|k| k.1);
        let found = with_touched(problem, fleet, choices, touched, limit, &mut share);
        budget.left += share.left;
        if let Some(seats) = found {
            return Some((touched, seats));
        }
    }
    None
}

fn with_touched<'a>(
    problem: &'a Problem,
    fleet: &Fleet,
    choices: &KeptChoices,
    touched: i64,
    limit: Option<i64>,
    budget: &mut Budget,
) -> Option<Seats<'a>> {
    let most: i64 = fleet.groups.iter().map(|g| g.replicas * super::fleet::count(g.nodes.len())).sum();
    let limit = limit.unwrap_or(most + 1);
    let mut best: Option<Seats> = None;
    for kept in &choices.choices {
        let question = Question::of_restarts(kept, touched);
        let Ascent { prices, bound, .. } =
            fleet.ascend(&question, &start(fleet, &question), most * UNIT, ROUNDS, |_| false);
        let order = leave_order(fleet, &prices);
        // One restart more at a time: the first that works is the fewest.
        let lower = whole(bound.value).max(0);
        let mut upper = lower + 1;
        loop {
            upper = upper.min(best.as_ref().map_or(limit, |b| b.restarts));
            let mut found: Option<Seats> = None;
            let mut judge = |fates: &[super::prices::Fates],
                             totals: &super::totals::Totals,
                             upper,
                             budget: &mut Budget| {
                let choice = Choice::new(fleet, kept, &order, fates.to_vec(), totals, lower, budget);
                if totals.score(fleet, &order).short > 0 || choice.restarts >= upper {
                    return Verdict::Unfit;
                }
                if !budget.spend(problem.items.len() + problem.nodes.len()) {
                    return Verdict::Unknown;
                }
                let Ok((seats, apart)) = seat(problem, fleet, &choice) else { return Verdict::Unfit };
                if apart.is_err() || seats.restarts >= upper {
                    return Verdict::Unfit;
                }
                let restarts = seats.restarts;
                found = Some(seats);
                Verdict::Restarts(restarts)
            };
            let (_, complete) = exhaust(fleet, &question, &prices, upper, &mut judge, budget);
            if found.is_some() {
                best = found;
                break;
            }
            if !complete || upper >= best.as_ref().map_or(limit, |b| b.restarts) {
                break;
            }
            upper += 1;
        }
    }
    best
}
