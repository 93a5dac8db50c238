//! Lays out a pool whose nodes have their fates: who moves, how cards are cut, who sits where, in which order.

use std::collections::BTreeSet;

use super::board::Board;
use super::convert::{candidates, convert, every_choice};
use super::cut::Style;
use super::seat::Floor;
use super::tally::Tally;
use super::{Card, Placement, layouts_of, waves};
use crate::pack::Fate;
use crate::pack::cards::CardsNeeded;
use crate::plan::Goal;

/// Pools up to this size are looked through pair by pair, and seated by trying out where plain rules find no way.
pub(super) const SMALL: usize = 24;

/// What is compared, from left to right; smaller is better: cost of the nodes that stay (or cards in use), nodes drained,
/// pods that restart, cards in use, workloads that change. The fates are the last resort: the first nodes by name are
/// kept.
pub(super) type Score = (i64, usize, u32, u32, usize, Vec<u8>);

/// The placement for these fates, if there is one. `effort` is what may still be spent on looking, in steps.
///
/// Numbers choose who moves. Where places do not allow that, other choices are tried: without whoever finds no place,
/// and with more than need be.
pub(super) fn lay_out(board: &Board<'_>, fates: &[Fate], effort: &mut usize) -> Option<Placement> {
    if let Some(choices) = every_choice(board, fates) {
        return choices.into_iter().take(MOST_CHOICES).find_map(|choice| {
            let mut tally = Tally::new(board, fates);
            choice.into_iter().for_each(|tenant| {
                tally.insert(tenant);
            });
            arrange(board, fates, &tally, effort).ok()
        });
    }
    let mut stay = BTreeSet::new();
    let mut found = None;
    let mut first: Option<Tally<'_, '_>> = None;
    while let Some(tally) = convert(board, fates, &stay) {
        match arrange(board, fates, &tally, effort) {
            Ok(placement) => {
                found = Some(placement);
                break;
            }
            Err(culprit) => {
                first.get_or_insert(tally);
                match culprit {
                    Some(tenant) if stay.len() < MOST_RETRIES && stay.insert(tenant) => {}
                    Some(_) | None => break,
                }
            }
        }
    }
    let Some(tally) = first else { return found };
    let other = with_more(board, fates, tally, effort);
    [found, other].into_iter().flatten().min_by_key(|placement| score(board, placement))
}

/// So many choices of who moves are laid out, the best first, until one can be.
const MOST_CHOICES: usize = 16;

/// So many tenants are let stay because they find no place, before other ways are tried.
const MOST_RETRIES: usize = 8;

/// Lets more move than numbers ask for, until places allow it.
fn with_more(
    board: &Board<'_>,
    fates: &[Fate],
    mut tally: Tally<'_, '_>,
    effort: &mut usize,
) -> Option<Placement> {
    let mut more = candidates(board, fates).into_iter();
    let mut step = 1;
    loop {
        let mut added = 0;
        for tenant in more.by_ref() {
            added += usize::from(tally.insert(tenant));
            if added == step {
                break;
            }
        }
        if added == 0 || tally.short() > 0 {
            return None;
        }
        if let Ok(placement) = arrange(board, fates, &tally, effort) {
            return Some(placement);
        }
        step *= 2;
    }
}

/// Lays out the fates with exactly these tenants moving.
///
/// # Errors
/// Who found no place; `None` when it is not one tenant's fault.
fn arrange(
    board: &Board<'_>,
    fates: &[Fate],
    tally: &Tally<'_, '_>,
    effort: &mut usize,
) -> Result<Placement, Option<usize>> {
    let mut culprit = None;
    // Where no card is cut, all styles are the same.
    let mut same = false;
    let mut in_style = |style: Style, culprit: &mut Option<usize>| {
        if same {
            return None;
        }
        let mut floor = Floor::new(board, fates, &tally.converted);
        let cut = floor.cut(tally, style)?;
        match floor.seat(tally) {
            Ok(together) => placed(board, floor, tally, cut, together),
            Err(who) => {
                *culprit = culprit.or(who);
                same = floor.n_cut() == 0;
                None
            }
        }
    };
    let needed = board.cutter.fewest_cards(&tally.to_cut()[..board.whole()]);
    let mut tried_out = |most_cut: Option<u32>| {
        let small = board.sites.len() <= SMALL;
        let mut floor = small.then(|| Floor::new(board, fates, &tally.converted))?;
        let together = floor.try_out(tally, most_cut, effort)?;
        placed(board, floor, tally, needed.clone(), together)
    };
    let tight = [Style::Tight, Style::ByClass, Style::Dealt { more: 0 }];
    let loose = [Style::Dealt { more: 1 }, Style::Dealt { more: 2 }];
    let found = tight.into_iter().find_map(|style| in_style(style, &mut culprit));
    let found = found.or_else(|| tried_out(Some(needed.n_cards)));
    let found = found.or_else(|| loose.into_iter().find_map(|style| in_style(style, &mut culprit)));
    found.or_else(|| tried_out(None)).ok_or(culprit)
}

/// The placement, if its nodes can be cut in some order.
fn placed(
    board: &Board<'_>,
    floor: Floor<'_, '_>,
    tally: &Tally<'_, '_>,
    cut: CardsNeeded,
    together: BTreeSet<usize>,
) -> Option<Placement> {
    let mut placement = Placement {
        fates: floor.fates.to_vec(),
        converted: tally.converted.clone(),
        cards: floor.cards,
        cut,
        waves: Vec::new(),
        together,
    };
    if board.most_layouts.is_some_and(|most| layouts_of(placement.cards.iter().flatten()).len() > most) {
        return None;
    }
    placement.waves = waves::order(board, &placement)?;
    Some(placement)
}

/// Cards cut so that replicas are apart may have room that numbers did not count on: lets more move into it, as long
/// as that frees cards and costs nothing that counts more.
pub(super) fn fill_up(board: &Board<'_>, placement: &mut Placement, effort: &mut usize) {
    let n_cards: usize = board.sites.iter().map(|site| site.cards.len()).sum();
    for tenant in candidates(board, &placement.fates) {
        let costs = board.wishes.goal == Goal::Bill && board.undisturbed(tenant, &placement.fates) > 0;
        if costs || placement.converted.contains(&tenant) || *effort == 0 {
            continue;
        }
        *effort = effort.saturating_sub(board.tenants.len() * 2 + n_cards * 4);
        let mut tally = Tally::new(board, &placement.fates);
        placement.converted.iter().chain([&tenant]).for_each(|t| {
            tally.insert(*t);
        });
        let Ok(fuller) = arrange(board, &placement.fates, &tally, effort) else { continue };
        let better = match (score(board, &fuller), score(board, placement)) {
            (Some(then), Some(now)) => then < now,
            (then, None) => then.is_some(),
            (None, Some(_)) => false,
        };
        if better {
            *placement = fuller;
        }
    }
}

/// How good it is; `None` when nothing is gained.
pub(super) fn score(board: &Board<'_>, placement: &Placement) -> Option<Score> {
    let grows = placement.converted.iter().any(|tenant| board.tenants[*tenant].must_move);
    let busy = board.busy(&placement.cards, &placement.converted);
    let (first, gains) = match board.wishes.goal {
        Goal::Bill => {
            let kept = board.sites.iter().zip(&placement.fates).filter(|(_, fate)| **fate != Fate::Freed);
            (kept.map(|(site, _)| site.cost).sum(), placement.fates.contains(&Fate::Freed))
        }
        Goal::Capacity => {
            let today: Vec<Vec<Card>> = board.sites.iter().map(|site| site.cards.clone()).collect();
            (i64::from(busy), busy < board.busy(&today, &BTreeSet::new()))
        }
    };
    let touched = placement.with_fate(Fate::Touched).count();
    let restarts = board.restarts(&placement.converted, &placement.fates);
    let by_name = placement.fates.iter().map(|fate| match fate {
        Fate::Touched => 0,
        Fate::Untouched => 1,
        Fate::Freed => 2,
    });
    (gains || grows).then(|| (first, touched, restarts, busy, placement.converted.len(), by_name.collect()))
}
