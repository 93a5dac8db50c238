//! Tries every choice of fates that the bound does not rule out.

use super::fleet::{Fleet, count};
use super::improve::of;
use super::prices::{Fates, Prices, Question, UNIT};
use super::search::{Budget, leave_order};
use super::totals::{Becomes, Score, Totals};

/// One group in the order of the search: how much each fate costs more than its best.
struct Level {
    group: usize,
    size: usize,
    nodes: i64,
    extra: [(i64, Becomes); 3],
}

/// What a judge thinks of one complete set of fates.
pub(super) enum Verdict {
    /// It works, with so many restarts.
    Restarts(i64),
    /// It does not work.
    Unfit,
    /// The budget ended before that was clear.
    Unknown,
}

/// Judges complete fates; those with `upper` restarts or more need no closer look.
pub(super) type Judge<'a> = dyn FnMut(&[Fates], &Totals, i64, &mut Budget) -> Verdict + 'a;

struct Walk<'a, 'j> {
    fleet: &'a Fleet<'a>,
    levels: Vec<Level>,
    judge: &'a mut Judge<'j>,
    /// Nodes per size from each level on.
    rest: Vec<Vec<i64>>,
    /// What may be lost against the bound and still be better than `upper`.
    allowed: i64,
    upper: i64,
    base: i64,
    kept_left: Vec<i64>,
    touched_left: i64,
    exactly: bool,
    fates: Vec<Fates>,
    totals: Totals,
    best: Option<(i64, Vec<Fates>)>,
    complete: bool,
}

/// Judges by slots alone.
pub(super) fn by_slots<'a>(fleet: &'a Fleet, prices: &Prices) -> Box<Judge<'a>> {
    let order = leave_order(fleet, prices);
    Box::new(move |_, totals, upper, budget| match totals.exact_score(fleet, &order, upper, budget) {
        Some((Score { short: 0, restarts }, _)) => Verdict::Restarts(restarts),
        Some(_) => Verdict::Unfit,
        None => Verdict::Unknown,
    })
}

/// The best fates with fewer than `upper` restarts, and whether every choice was considered.
pub(super) fn exhaust(
    fleet: &Fleet,
    question: &Question,
    prices: &Prices,
    upper: i64,
    judge: &mut Judge<'_>,
    budget: &mut Budget,
) -> (Option<(i64, Vec<Fates>)>, bool) {
    let bound = fleet.bound(question, prices);
    let marginal = marginals(fleet, question, &bound.values);
    let mut levels: Vec<Level> = fleet
        .groups
        .iter()
        .enumerate()
        .map(|(g, group)| {
            let v = &bound.values[g];
            let m = marginal[group.size];
            let mut extra = [
                (v.freed, Becomes::Freed),
                (v.touched - m, Becomes::Touched),
                (v.untouched - m, Becomes::Untouched),
            ];
            extra.sort();
            let best = extra[0].0;
            extra.iter_mut().for_each(|e| e.0 -= best);
            Level { group: g, size: group.size, nodes: count(group.nodes.len()), extra }
        })
        .collect();
    levels.sort_by_key(|l| (std::cmp::Reverse(l.extra[1].0), l.group));
    let mut rest = vec![vec![0; question.kept.len()]];
    for level in levels.iter().rev() {
        let mut row = rest[rest.len() - 1].clone();
        row[level.size] += level.nodes;
        rest.push(row);
    }
    rest.reverse();
    let none = vec![Fates::default(); fleet.groups.len()];
    let mut walk = Walk {
        fleet,
        judge,
        rest,
        allowed: (upper - 1) * UNIT - bound.value,
        upper,
        base: bound.value,
        kept_left: question.kept.clone(),
        touched_left: question.touched,
        exactly: question.exactly,
        totals: Totals::new(fleet, question, &none),
        fates: none,
        best: None,
        complete: true,
        levels,
    };
    walk.level(0, 0, budget);
    (walk.best, walk.complete)
}

/// What keeping one node more is worth, per size: turns the choice of nodes into one for each node alone.
pub(super) fn marginals(fleet: &Fleet, question: &Question, values: &[super::prices::Values]) -> Vec<i64> {
    question
        .kept
        .iter()
        .enumerate()
        .map(|(size, kept)| {
            let mut worth: Vec<(i64, i64)> = (0..fleet.groups.len())
                .filter(|g| fleet.groups[*g].size == size)
                .map(|g| {
                    let v = &values[g];
                    (v.touched.min(v.untouched) - v.freed, count(fleet.groups[g].nodes.len()))
                })
                .collect();
            worth.sort_unstable();
            let mut left = *kept;
            for (value, nodes) in &worth {
                left -= nodes;
                if left <= 0 {
                    return *value;
                }
            }
            worth.last().map_or(0, |w| w.0)
        })
        .collect()
}

impl Walk<'_, '_> {
    fn level(&mut self, at: usize, lost: i64, budget: &mut Budget) {
        if !self.complete {
            return;
        }
        if !budget.spend(1) {
            self.complete = false;
            return;
        }
        if at == self.levels.len() {
            if self.exactly && self.touched_left > 0 {
                return;
            }
            let upper = self.best.as_ref().map_or(self.upper, |b| b.0);
            match (self.judge)(&self.fates, &self.totals, upper, budget) {
                Verdict::Restarts(restarts) if restarts < upper => {
                    self.allowed = self.allowed.min((restarts - 1) * UNIT - self.base);
                    self.best = Some((restarts, self.fates.clone()));
                }
                Verdict::Restarts(_) | Verdict::Unfit => {}
                Verdict::Unknown => self.complete = false,
            }
            return;
        }
        let Level { group, size, nodes, extra } = self.levels[at];
        // How the nodes of this group are shared among the three fates, the cheapest first.
        for second in 0..=nodes {
            for third in 0..=nodes - second {
                let shares = [nodes - second - third, second, third];
                let cost: i64 = shares.iter().zip(&extra).map(|(n, e)| n * e.0).sum();
                if lost + cost > self.allowed {
                    break;
                }
                let mut f = Fates::default();
                for (n, e) in shares.iter().zip(&extra) {
                    *of(&mut f, e.1) += n;
                }
                let kept = f.touched + f.untouched;
                let left = self.kept_left[size] - kept;
                if left < 0 || left > self.rest[at + 1][size] || f.touched > self.touched_left {
                    continue;
                }
                self.kept_left[size] -= kept;
                self.touched_left -= f.touched;
                let before = self.totals.clone();
                for (n, e) in shares.iter().zip(&extra) {
                    self.totals.add(self.fleet, group, e.1, *n);
                }
                self.fates[group] = f;
                self.level(at + 1, lost + cost, budget);
                self.fates[group] = Fates::default();
                self.totals = before;
                self.touched_left += f.touched;
                self.kept_left[size] += kept;
            }
        }
    }
}
