//! Makes a choice of fates better: by rounding, by swaps, and by shaking.
//!
//! Knows nothing of proofs; `search` holds what comes out against the bound.

use super::exhaust::marginals;
use super::fleet::{Fleet, count};
use super::prices::{Bound, Fates, Prices, Question, UNIT};
use super::search::Budget;
use super::totals::{Becomes, Score, Totals};

/// At most so many groups take part in swaps.
const MOST_ACTIVE: usize = 80;

/// The groups whose fate the prices leave open most.
pub(super) fn undecided(fleet: &Fleet, question: &Question, prices: &Prices) -> Vec<usize> {
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
pub(super) fn rounded(fleet: &Fleet, question: &Question, bound: &Bound) -> Vec<Fates> {
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
pub(super) fn rounded_blend(fleet: &Fleet, question: &Question, blend: &[[i64; 3]]) -> Vec<Fates> {
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
pub(super) fn shake(
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
pub(super) fn swap(
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

/// At most so many pairs of groups are compared for the sake of order.
const MOST_COMPARED: u64 = 20_000;

/// Of nodes that could as well exchange their fates, keeps the first and frees the later ones.
pub(super) fn prefer_first(
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
