//! Which workloads change what they ask for, once the fates of nodes are chosen.
//!
//! A workload of which every pod restarts anyway costs nothing more; every other one costs the restart of its pods on
//! nodes that are left alone. As few of those as possible.

use std::collections::BTreeSet;

use super::board::Board;
use super::tally::Tally;
use crate::pack::Fate;
use crate::plan::Goal;

/// The tenants that move, so that the touched cards hold everything; `None` when there are too few whoever moves.
/// Those in `stay` do not.
pub(super) fn convert<'b, 'a>(
    board: &'b Board<'a>,
    fates: &[Fate],
    stay: &BTreeSet<usize>,
) -> Option<Tally<'b, 'a>> {
    let mut tally = whoever_must(board, fates);
    let mut order = candidates(board, fates);
    order.retain(|tenant| !stay.contains(tenant));
    let mut short = tally.short();
    for tenant in order.iter().filter(|i| board.undisturbed(**i, fates) == 0) {
        tally.insert(*tenant);
        let then = tally.short();
        if then > short {
            tally.remove(*tenant);
        } else {
            short = then;
        }
    }
    for tenant in &order {
        if short <= 0 {
            break;
        }
        if tally.insert(*tenant) {
            short = tally.short();
        }
    }
    // A reserve for rolling updates can cost more than one workload's move wins.
    for tenant in &order {
        if short <= 0 {
            break;
        }
        toggle(&mut tally, *tenant);
        let then = tally.short();
        if then < short {
            short = then;
        } else {
            toggle(&mut tally, *tenant);
        }
    }
    if short > 0 {
        return None;
    }
    if board.wishes.goal == Goal::Capacity {
        add_while_cards_go(&mut tally, &order);
    }
    drop_needless(board, &mut tally, fates, &order);
    Some(tally)
}

/// So few candidates are tried in every combination: 2⁸ = 256.
const FEW: usize = 8;

fn toggle(tally: &mut Tally<'_, '_>, tenant: usize) {
    if !tally.remove(tenant) {
        tally.insert(tenant);
    }
}

/// All combinations that hold everything, best first: by the pool's goal, restarts and cards in use. `None`: there are
/// too many candidates to look at all.
pub(super) fn every_choice<'b, 'a>(board: &'b Board<'a>, fates: &[Fate]) -> Option<Vec<BTreeSet<usize>>> {
    let order = candidates(board, fates);
    if order.len() > FEW {
        return None;
    }
    let mut tally = whoever_must(board, fates);
    let mut choices: Vec<((u32, u32, u32), BTreeSet<usize>)> = Vec::new();
    for combination in 0..1usize << order.len() {
        for (bit, tenant) in order.iter().enumerate() {
            if tally.converted.contains(tenant) != (combination >> bit & 1 == 1) {
                toggle(&mut tally, *tenant);
            }
        }
        if tally.short() > 0 {
            continue;
        }
        let (restarts, busy) = (board.restarts(&tally.converted, fates), tally.busy());
        let rank = match board.wishes.goal {
            Goal::Bill => (restarts, busy, combination.count_ones()),
            Goal::Capacity => (busy, restarts, combination.count_ones()),
        };
        choices.push((rank, tally.converted.clone()));
    }
    choices.sort();
    Some(choices.into_iter().map(|(_, choice)| choice).collect())
}

/// Those move whose slice is too small.
fn whoever_must<'b, 'a>(board: &'b Board<'a>, fates: &[Fate]) -> Tally<'b, 'a> {
    let mut tally = Tally::new(board, fates);
    for tenant in (0..board.tenants.len()).filter(|i| board.may_convert(*i) && board.tenants[*i].must_move) {
        tally.insert(tenant);
    }
    tally
}

/// Tenants that may move and need not, the cheapest first.
pub(super) fn candidates(board: &Board<'_>, fates: &[Fate]) -> Vec<usize> {
    let mut order: Vec<usize> =
        (0..board.tenants.len()).filter(|i| board.may_convert(*i) && !board.tenants[*i].must_move).collect();
    order.sort_by_cached_key(|i| rank(board, *i, fates));
    order
}

/// What it costs over what it gives: pods that restart for it, over memory slices that its cards win. The cheapest
/// first; of equals the smallest slices, then the fewest replicas, then the first by name.
fn rank<'b>(board: &'b Board<'_>, tenant: usize, fates: &[Fate]) -> (u32, usize, u32, &'b str) {
    let t = &board.tenants[tenant];
    let size = |slot: usize| match board.geometry.types.get(slot) {
        Some(kind) => u32::from(kind.memory_slices),
        None => u32::from(board.geometry.memory_slices) + 1,
    };
    let target = t.target.unwrap_or(t.now);
    let gain = board.present(tenant).saturating_mul(size(t.now).saturating_sub(size(target)));
    let cost = board.undisturbed(tenant, fates).saturating_mul(1_000).checked_div(gain).unwrap_or(u32::MAX);
    (cost, target, t.planned, &t.key)
}

/// Under the goal of capacity every card counts more than a restart.
fn add_while_cards_go(tally: &mut Tally<'_, '_>, order: &[usize]) {
    let mut best = tally.busy();
    let mut trying: Vec<usize> = Vec::new();
    for tenant in order {
        if !tally.insert(*tenant) {
            continue;
        }
        if tally.short() > 0 {
            tally.remove(*tenant);
            continue;
        }
        trying.push(*tenant);
        let busy = tally.busy();
        if busy < best {
            best = busy;
            trying.clear();
        }
    }
    for tenant in trying {
        tally.remove(tenant);
    }
}

/// Leaves out again who is not needed: whose move frees no card or, under the goal of a lower bill, costs a restart
/// that the plan can do without.
fn drop_needless(board: &Board<'_>, tally: &mut Tally<'_, '_>, fates: &[Fate], order: &[usize]) {
    let mut busy = tally.busy();
    for tenant in order.iter().rev() {
        if !tally.remove(*tenant) {
            continue;
        }
        let costs = board.wishes.goal == Goal::Bill && board.undisturbed(*tenant, fates) > 0;
        let then = tally.busy();
        if tally.short() > 0 || (!costs && then > busy) {
            tally.insert(*tenant);
        } else {
            busy = then.max(busy);
        }
    }
}
