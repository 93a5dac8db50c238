//! What holds for every number of cards, against brute force over placements.
#![expect(clippy::cast_possible_truncation, reason = "the numbers of these tests are small")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::cards::{CardsNeeded, Cutter, fewest_cards, fewest_cards_for};
use super::geometry::{Geometry, Layout};
use super::limited::{Substitution, limited};
use super::proofs::columns_along_chain;
use super::rows::Rows;
use super::tests::{a100, a100_with_media, geometry};
use super::{Goal, Item, Rules, Spread};

fn a100_without_double_memory() -> Geometry {
    let mut geometry = a100();
    geometry.types.remove(1);
    geometry
}

fn a30() -> Geometry {
    geometry(4, &[("1g.6gb", 1, 1, &[0, 1, 2, 3], 4), ("2g.12gb", 2, 2, &[0, 2], 2)])
}

fn a30_with_media() -> Geometry {
    geometry(
        4,
        &[
            ("1g.6gb", 1, 1, &[0, 1, 2, 3], 4),
            ("1g.6gb+me", 1, 1, &[0, 1, 2, 3], 1),
            ("2g.12gb", 2, 2, &[0, 2], 2),
        ],
    )
}

fn rtx_pro_5000() -> Geometry {
    geometry(
        2,
        &[("1g.24gb", 1, 1, &[0, 1], 2), ("1g.24gb+me", 1, 1, &[0, 1], 1), ("2g.48gb", 2, 2, &[0], 1)],
    )
}

/// A table that no shipped model has.
fn odd() -> Geometry {
    geometry(6, &[("a", 1, 1, &[0, 1, 2, 3, 4], 3), ("b", 2, 2, &[0, 3], 2), ("c", 3, 3, &[0, 3], 2)])
}

/// Every cut of a card: from left to right each memory slice is left free or starts a slice.
fn by_placement(geometry: &Geometry) -> BTreeSet<Vec<u32>> {
    fn from(geometry: &Geometry, at: u8, counts: &mut Vec<u32>, found: &mut BTreeSet<Vec<u32>>) {
        if at == geometry.memory_slices {
            found.insert(counts.clone());
            return;
        }
        from(geometry, at + 1, counts, found);
        for (t, spec) in geometry.types.iter().enumerate() {
            let end = at + spec.memory_slices;
            let room = end <= geometry.memory_slices && counts[t] < u32::from(spec.max_instances);
            if room && spec.starts.contains(&at) {
                counts[t] += 1;
                from(geometry, end, counts, found);
                counts[t] -= 1;
            }
        }
    }
    let mut found = BTreeSet::new();
    from(geometry, 0, &mut vec![0; geometry.types.len()], &mut found);
    found
}

/// The fewest cards for every demand up to `most` a type, by dynamic programming over single cards.
fn by_brute_force(cuts: &[Vec<u32>], most: u32) -> BTreeMap<Vec<u32>, u32> {
    let within = |a: &Vec<u32>, b: &Vec<u32>| a != b && a.iter().zip(b).all(|(a, b)| a <= b);
    let fullest: Vec<&Vec<u32>> = cuts.iter().filter(|a| !cuts.iter().any(|b| within(a, b))).collect();
    let n = cuts[0].len();
    let base = most as usize + 1;
    let mut all = BTreeMap::new();
    for code in 0..base.pow(n as u32) {
        // Counting up in this order meets every smaller demand before.
        let demand: Vec<u32> = (0..n).map(|t| (code / base.pow(t as u32) % base) as u32).collect();
        let best = fullest
            .iter()
            .map(|cut| demand.iter().zip(*cut).map(|(d, a)| d.saturating_sub(*a)).collect::<Vec<u32>>())
            .filter(|left| *left != demand)
            .map(|left| all[&left] + 1)
            .min()
            .unwrap_or(0);
        all.insert(demand, best);
    }
    all
}

/// Slots of each type; or of each type and every larger one.
fn slots(needed: &CardsNeeded, along_chain: bool) -> Vec<u32> {
    let n = needed.layouts.first().map_or(0, |(l, _)| l.counts.len());
    let of = |t: usize| needed.layouts.iter().map(|(l, n)| l.counts[t] * n).sum::<u32>();
    (0..n).map(|t| if along_chain { (t..n).map(of).sum() } else { of(t) }).collect()
}

fn assert_fewest(
    cuts: &BTreeSet<Vec<u32>>,
    demand: &[u32],
    needed: &CardsNeeded,
    cards: u32,
    along_chain: bool,
) {
    assert_eq!(needed.n_cards, cards, "{demand:?}");
    assert!(needed.certificate.proven, "{demand:?}");
    assert_eq!(needed.layouts.iter().map(|(_, n)| n).sum::<u32>(), cards, "{demand:?}");
    assert!(needed.layouts.iter().all(|(l, _)| cuts.contains(&l.counts)), "{demand:?} {:?}", needed.layouts);
    for (t, have) in slots(needed, along_chain).into_iter().enumerate() {
        let want = if along_chain { demand[t..].iter().sum() } else { demand[t] };
        assert!(have >= want, "{demand:?} {:?}", needed.layouts);
    }
}

#[test]
fn layouts_are_those_that_placements_allow() {
    let tables = [a100(), a100_with_media(), a100_without_double_memory(), a30_with_media(), odd()];
    for geometry in tables.into_iter().chain([rtx_pro_5000()]) {
        let mut cuts = by_placement(&geometry);
        cuts.remove(&vec![0; geometry.types.len()]);
        let layouts: BTreeSet<Vec<u32>> = geometry.layouts().into_iter().map(|l| l.counts).collect();
        assert_eq!(layouts, cuts);
        for cut in cuts {
            assert!(geometry.placement_is_legal(&geometry.place(&cut).unwrap()), "{cut:?}");
        }
    }
}

#[test]
fn the_fewest_cards_are_those_of_brute_force() {
    let tables = [
        (a100(), 4),
        (a100_without_double_memory(), 4),
        (a100_with_media(), 3),
        (a30(), 9),
        (a30_with_media(), 6),
        (rtx_pro_5000(), 6),
        (odd(), 5),
    ];
    for (geometry, most) in tables {
        let cuts = by_placement(&geometry);
        let cutter = Cutter::new(&geometry);
        for (demand, cards) in by_brute_force(&cuts.iter().cloned().collect::<Vec<_>>(), most) {
            assert_fewest(&cuts, &demand, &cutter.fewest_cards(&demand), cards, false);
        }
    }
}

#[test]
fn larger_slices_stand_in_for_scarce_ones_as_in_brute_force() {
    for (geometry, most) in [(a100_with_media(), 3), (a30_with_media(), 6), (rtx_pro_5000(), 6)] {
        let cuts = by_placement(&geometry);
        let cutter = Cutter::new(&geometry);
        for (demand, cards) in by_brute_force(&columns_along_chain(&geometry), most) {
            assert_fewest(&cuts, &demand, &cutter.fewest_along_chain(&demand), cards, true);
        }
    }
    let geometry = a100_with_media();
    let four_videos = [0, 4, 0, 0, 0, 0, 0];
    assert_eq!(fewest_cards(&geometry, &four_videos).n_cards, 4);
    let together = Cutter::new(&geometry).fewest_along_chain(&four_videos);
    assert_eq!(together.layouts[0].0.describe(&geometry), "1g.5gb+me + 1g.10gb x3");
    assert_eq!(
        together.certificate.to_string(),
        "the slices need 4 memory slices, and a card has 8: 1 card; no plan can use fewer"
    );
    assert_eq!(
        fewest_cards(&geometry, &four_videos).certificate.to_string(),
        "the slices hold 4 of the `+me` kind, and a card has room for 1: 4 cards; no plan can use fewer"
    );
}

#[test]
fn whole_cards_come_on_top() {
    for demand in [[3, 1, 0, 2, 1, 5], [0, 0, 0, 0, 0, 2]] {
        let needed = fewest_cards(&a100(), &demand);
        let without = fewest_cards(&a100(), &demand[..5]);
        assert_eq!(needed.n_cards, without.n_cards + demand[5]);
        assert_eq!(needed.certificate.whole, demand[5]);
        assert_eq!(needed.layouts, without.layouts);
    }
}

/// Tables that differ from a known one in one number.
fn mutants(geometry: &Geometry) -> Vec<Geometry> {
    let mut mutants = Vec::new();
    for t in 0..geometry.types.len() {
        let mut with = |change: &dyn Fn(&mut super::geometry::SliceType)| {
            let mut mutant = geometry.clone();
            change(&mut mutant.types[t]);
            if mutant != *geometry {
                mutants.push(mutant);
            }
        };
        with(&|spec| spec.compute_slices += 1);
        with(&|spec| spec.memory_slices += 1);
        if geometry.types[t].starts.len() > 1 {
            with(&|spec| spec.starts.truncate(spec.starts.len() - 1));
            with(&|spec| spec.starts.retain(|start| *start > 0));
        }
        if geometry.types[t].max_instances > 2 {
            with(&|spec| spec.max_instances -= 1);
        }
    }
    mutants.push(Geometry { memory_slices: geometry.memory_slices + 1, ..geometry.clone() });
    mutants.retain(|mutant| (0..mutant.types.len()).all(|t| mutant.uniform_layout(t).counts[t] > 0));
    mutants
}

#[test]
fn other_placements_never_get_the_closed_form() {
    for (geometry, most) in [(a100_without_double_memory(), 2), (a30(), 5), (rtx_pro_5000(), 3)] {
        assert!(Rows::new(&geometry).exact);
        for mutant in mutants(&geometry) {
            assert!(!Rows::new(&mutant).exact, "{mutant:?}");
            let cuts = by_placement(&mutant);
            let cutter = Cutter::new(&mutant);
            for (demand, cards) in by_brute_force(&cuts.iter().cloned().collect::<Vec<_>>(), most) {
                assert_fewest(&cuts, &demand, &cutter.fewest_cards(&demand), cards, false);
            }
        }
    }
    // A type out of order is another table too: a chain is what proves that larger slices stand in for smaller ones.
    let mut turned = a100();
    turned.types.swap(1, 2);
    assert!(!Rows::new(&turned).exact);
}

/// The fewest cards with at most `n_layouts` distinct cuts, by trying every set of cuts and every number of each.
fn limited_by_brute_force(
    cuts: &[Vec<u32>],
    demand: &[u32],
    n_layouts: u32,
    substitution: Substitution,
) -> Option<u32> {
    fn covered(left: &[i64], substitution: Substitution, whole: u32) -> bool {
        let n = left.len();
        match substitution {
            Substitution::None => whole == 0 && left.iter().all(|d| *d <= 0),
            Substitution::Larger => (0..n).all(|p| left[p..].iter().sum::<i64>() <= i64::from(whole)),
        }
    }
    /// Whether so many cards do, those that are not cut taking a workload each where larger slices may.
    fn serves(
        cuts: &[Vec<u32>],
        left: &[i64],
        cards: u32,
        n_layouts: u32,
        substitution: Substitution,
    ) -> bool {
        let whole = if substitution == Substitution::Larger { cards } else { 0 };
        covered(left, substitution, whole)
            || n_layouts > 0
                && (0..cuts.len()).any(|i| {
                    (1..=cards).any(|times| {
                        let taken = cuts[i].iter().map(|a| i64::from(a * times));
                        let rest: Vec<i64> = left.iter().zip(taken).map(|(d, a)| d - a).collect();
                        serves(&cuts[i + 1..], &rest, cards - times, n_layouts - 1, substitution)
                    })
                })
    }
    let most: u32 = demand.iter().sum();
    let demand: Vec<i64> = demand.iter().map(|d| i64::from(*d)).collect();
    (0..=most).find(|cards| serves(cuts, &demand, *cards, n_layouts, substitution))
}

fn fullest(geometry: &Geometry) -> Vec<Vec<u32>> {
    let cuts = by_placement(geometry);
    let within = |a: &Vec<u32>, b: &Vec<u32>| a != b && a.iter().zip(b).all(|(a, b)| a <= b);
    cuts.iter().filter(|a| !cuts.iter().any(|b| within(a, b))).cloned().collect()
}

fn assert_limited(geometry: &Geometry, cuts: &[Vec<u32>], demand: &[u32], substitution: Substitution) {
    let mut before: Option<u32> = None;
    for n_layouts in 1..=3 {
        let found = limited(geometry, demand, n_layouts, substitution);
        let want = limited_by_brute_force(cuts, demand, n_layouts, substitution);
        let what = format!("{demand:?} {n_layouts} {substitution:?} {found:?}");
        assert_eq!(found.as_ref().map(|l| l.n_cards), want, "{what}");
        let Some(found) = found else { continue };
        assert!(found.layouts.len() <= n_layouts as usize, "{what}");
        assert!(before.is_none_or(|n| found.n_cards <= n), "{what}");
        before = Some(found.n_cards);
        let n_cut: u32 = found.layouts.iter().map(|(_, n)| n).sum();
        assert_eq!(n_cut + found.whole, found.n_cards, "{what}");
        let of = |t: usize| found.layouts.iter().map(|(l, n)| l.counts[t] * n).sum::<u32>();
        for t in 0..demand.len() {
            match substitution {
                Substitution::None => assert!(of(t) >= demand[t], "{what}"),
                Substitution::Larger => {
                    let have = (t..demand.len()).map(of).sum::<u32>() + found.whole;
                    assert!(have >= demand[t..].iter().sum(), "{what}");
                }
            }
        }
        assert!(found.layouts.iter().all(|(l, _)| geometry.feasible(&l.counts)), "{what}");
    }
}

#[test]
fn few_layouts_do_as_well_as_brute_force_on_small_cards() {
    for (geometry, most) in [(a30(), 6usize), (a30_with_media(), 3), (rtx_pro_5000(), 3)] {
        let cuts = fullest(&geometry);
        let n = geometry.types.len();
        let base = most + 1;
        for code in 0..base.pow(n as u32) {
            let demand: Vec<u32> = (0..n).map(|t| (code / base.pow(t as u32) % base) as u32).collect();
            for substitution in [Substitution::None, Substitution::Larger] {
                assert_limited(&geometry, &cuts, &demand, substitution);
            }
        }
    }
}

fn items() -> impl Strategy<Value = Vec<Item>> {
    let one = (0usize..=6, 0u32..4, 0u32..3);
    prop::collection::vec(one, 1..30).prop_map(|items| {
        let item = |(i, (slot, planned, max_surge))| Item { key: format!("w{i}"), slot, planned, max_surge };
        items.into_iter().enumerate().map(item).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn few_layouts_do_as_well_as_brute_force(demand in prop::collection::vec(0u32..4, 5), larger in any::<bool>()) {
        let geometry = a100();
        let substitution = if larger { Substitution::Larger } else { Substitution::None };
        assert_limited(&geometry, &fullest(&geometry), &demand, substitution);
    }

    #[test]
    fn more_demand_never_needs_fewer_cards(
        demand in prop::collection::vec(0u32..500, 7),
        extra in 0usize..7,
        media in any::<bool>(),
    ) {
        let geometry = if media { a100_with_media() } else { a100() };
        let demand = &demand[..=geometry.whole()];
        let mut more = demand.to_vec();
        more[extra.min(geometry.whole())] += 1;
        let cutter = Cutter::new(&geometry);
        for needed in [Cutter::fewest_cards, Cutter::fewest_along_chain] {
            let (a, b) = (needed(&cutter, demand), needed(&cutter, &more));
            prop_assert!(a.n_cards <= b.n_cards && b.n_cards <= a.n_cards + 1);
            prop_assert!(a.layouts.len() <= 9, "{:?}", a.layouts);
            prop_assert!(a.certificate.proven && b.certificate.proven);
        }
    }

    #[test]
    fn the_order_of_workloads_needs_no_other_cards((items, turned) in items().prop_flat_map(|items| {
        (Just(items.clone()), Just(items).prop_shuffle())
    })) {
        let rules = Rules {
            goal: Goal::Bill,
            spread: Spread::Gpu,
            spare_cards: 0,
            concurrent_rollouts: 2,
            max_layouts: None,
            effort: 0,
        };
        let geometry = a100_with_media();
        prop_assert_eq!(fewest_cards_for(&geometry, &items, &rules), fewest_cards_for(&geometry, &turned, &rules));
    }

    #[test]
    fn a_layout_is_placed_whenever_any_placement_exists(counts in prop::collection::vec(0u32..3, 6)) {
        let geometry = a100_with_media();
        prop_assert_eq!(geometry.feasible(&counts), by_placement(&geometry).contains(&counts));
        let layout = Layout { counts };
        prop_assert!(layout.holds(&layout.counts));
    }
}
