//! What holds for every packing, against brute force where that is affordable.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "the numbers of these tests are small"
)]

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::cards::{Cutter, fewest_cards};
use super::check::check;
use super::geometry::{Geometry, SliceType};
use super::{
    CardPlan, CardState, Fate, Goal, Infeasible, Item, NodeState, Packing, Problem, Rules, Spread, pack,
};

pub(super) fn geometry(memory_slices: u8, types: &[(&str, u8, u8, &[u8], u8)]) -> Geometry {
    let types = types
        .iter()
        .map(|(name, compute_slices, memory_slices, starts, max_instances)| SliceType {
            name: (*name).to_owned(),
            compute_slices: *compute_slices,
            memory_slices: *memory_slices,
            starts: starts.to_vec(),
            max_instances: *max_instances,
        })
        .collect();
    Geometry { memory_slices, types }
}

pub(super) fn a100() -> Geometry {
    geometry(
        8,
        &[
            ("1g.5gb", 1, 1, &[0, 1, 2, 3, 4, 5, 6], 7),
            ("1g.10gb", 1, 2, &[0, 2, 4, 6], 4),
            ("2g.10gb", 2, 2, &[0, 2, 4], 3),
            ("3g.20gb", 3, 4, &[0, 4], 2),
            ("4g.20gb", 4, 4, &[0], 1),
        ],
    )
}

/// With `1g+me`, of which a card has one.
pub(super) fn a100_with_media() -> Geometry {
    let mut geometry = a100();
    let media = SliceType { name: "1g.5gb+me".to_owned(), max_instances: 1, ..geometry.types[0].clone() };
    geometry.types.insert(1, media);
    geometry
}

#[test]
fn the_certificate_reads_as_a_proof() {
    let show = |demand: &[u32]| fewest_cards(&a100(), demand).certificate.to_string();
    assert_eq!(
        show(&[0, 0, 3, 0, 0, 0]),
        "the slices need 6 memory slices, and a card has 8: 1 card; no plan can use fewer"
    );
    assert_eq!(
        show(&[0, 0, 7, 0, 0, 1]),
        "the slices need 7 places to start at, and a card has 3: 3 cards, and 1 card whole; no plan can use fewer"
    );
    assert_eq!(show(&[0; 6]), "nothing needs a card");
}

#[test]
fn one_type_of_slice_gets_the_layout_that_has_a_name() {
    let needed = fewest_cards(&a100(), &[0, 0, 3, 0, 0, 0]);
    assert_eq!(needed.layouts[0].0.describe(&a100()), "2g.10gb x3");
    assert_eq!(needed.layouts.len(), 1);
}

fn rules() -> Rules {
    Rules {
        goal: Goal::Bill,
        spread: Spread::None,
        spare_cards: 0,
        concurrent_rollouts: 0,
        max_layouts: None,
        effort: 200_000,
    }
}

fn node(id: &str, cards: Vec<CardState>) -> NodeState {
    NodeState { id: id.to_owned(), cost: 100 * cards.len() as i64, cards, frozen: false }
}

fn item(key: &str, slot: usize, planned: u32) -> Item {
    Item { key: key.to_owned(), slot, planned, max_surge: 0 }
}

fn packed(problem: &Problem) -> Packing {
    let packing = pack(problem).unwrap();
    assert_eq!(check(problem, &packing), Vec::<String>::new());
    packing
}

#[test]
fn three_small_workloads_on_three_cards_end_on_the_first() {
    let nodes = ["a", "b", "c"]
        .iter()
        .enumerate()
        .map(|(i, id)| node(id, vec![CardState::Whole { item: Some(i) }]))
        .collect();
    let items = vec![item("x", 2, 1), item("y", 2, 1), item("z", 2, 1)];
    let packing = packed(&Problem { geometry: a100(), items, nodes, rules: rules() });
    let fates: Vec<Fate> = packing.nodes.iter().map(|n| n.fate).collect();
    assert_eq!(fates, [Fate::Touched, Fate::Freed, Fate::Freed]);
    let CardPlan::Cut(slices) = &packing.nodes[0].cards[0] else { panic!("not cut") };
    let slices: Vec<(usize, u8, Option<usize>)> =
        slices.iter().map(|s| (s.slice_type, s.start, s.item)).collect();
    assert_eq!(slices, [(2, 0, Some(0)), (2, 2, Some(1)), (2, 4, Some(2))]);
    assert!(packing.proven);
}

#[test]
fn the_first_of_equal_nodes_is_kept_whatever_it_holds() {
    let nodes = ["a", "b", "c"]
        .iter()
        .enumerate()
        .map(|(i, id)| node(id, vec![CardState::Whole { item: Some(i) }]))
        .collect();
    let items = vec![item("x", 3, 1), item("y", 1, 1), item("z", 2, 1)];
    let packing = packed(&Problem { geometry: a100(), items, nodes, rules: rules() });
    let fates: Vec<Fate> = packing.nodes.iter().map(|n| n.fate).collect();
    assert_eq!(fates, [Fate::Touched, Fate::Freed, Fate::Freed]);
}

#[test]
fn a_pool_that_is_too_small_says_by_how_much() {
    let nodes = vec![node("a", vec![CardState::Whole { item: Some(0) }])];
    let items = vec![item("x", 5, 3)];
    let problem = Problem { geometry: a100(), items, nodes, rules: rules() };
    assert_eq!(pack(&problem), Err(Infeasible::TooFewCards { needed: 3, available: 1 }));
}

#[test]
fn nonsense_is_refused_and_not_a_panic() {
    let problem = |cards, slot| Problem {
        geometry: a100(),
        items: vec![item("x", slot, 1)],
        nodes: vec![node("a", cards)],
        rules: rules(),
    };
    let cases = [
        problem(vec![CardState::Whole { item: Some(7) }], 2),
        problem(vec![CardState::Cut(vec![(9, None)])], 2),
        problem(vec![CardState::Cut(vec![(4, None), (4, None)])], 2),
        problem(vec![], 17),
    ];
    for case in cases {
        assert!(matches!(pack(&case), Err(Infeasible::Malformed(_))), "{case:?}");
    }
}

/// The plan as the next run would find it.
fn applied(problem: &Problem, packing: &Packing) -> Problem {
    let mut after = problem.clone();
    after.nodes = problem
        .nodes
        .iter()
        .zip(&packing.nodes)
        .filter(|(_, plan)| plan.fate != Fate::Freed)
        .map(|(node, plan)| {
            let cards = plan
                .cards
                .iter()
                .map(|card| match card {
                    CardPlan::Whole { item } => CardState::Whole { item: *item },
                    CardPlan::Cut(slices) => {
                        CardState::Cut(slices.iter().map(|s| (s.slice_type, s.item)).collect())
                    }
                })
                .collect();
            NodeState { cards, ..node.clone() }
        })
        .collect();
    after
}

/// The objective of the best plan, by trying every fate and every set of replicas that leave.
fn best_by_brute_force(problem: &Problem) -> Option<Vec<i64>> {
    let whole = problem.geometry.types.len();
    let mut best: Option<Vec<i64>> = None;
    let n = problem.nodes.len();
    let cutter = Cutter::new(&problem.geometry);
    for code in 0..3usize.pow(n as u32) {
        let fates: Vec<usize> = (0..n).map(|i| code / 3usize.pow(i as u32) % 3).collect();
        if (0..n).any(|i| problem.nodes[i].frozen && fates[i] != 2) {
            continue;
        }
        let mut free = vec![0i64; whole + 1];
        let mut need = vec![0i64; whole + 1];
        let (mut cost, mut touched, mut restarts, mut pool, mut cards) = (0, 0, 0, 0u32, 0);
        let mut choices: Vec<(usize, usize)> = Vec::new();
        let mut present = vec![0u32; problem.items.len()];
        for (node, fate) in problem.nodes.iter().zip(&fates) {
            if *fate > 0 {
                cost += node.cost;
                cards += node.cards.len() as i64;
            }
            if *fate == 1 {
                touched += 1;
                pool += node.cards.len() as u32;
            }
            for card in &node.cards {
                let slots = match card {
                    CardState::Whole { item } => vec![(whole, *item)],
                    CardState::Cut(slices) => slices.clone(),
                };
                for (slot, held) in slots {
                    let own = held.map(|i| problem.items[i].slot);
                    if let Some(i) = held {
                        present[i] += 1;
                    }
                    match (fate, own) {
                        (2, Some(_)) if node.frozen => {}
                        (2, Some(own)) if own <= slot => choices.push((slot, own)),
                        (2, own) => {
                            free[slot] += 1;
                            if let Some(own) = own {
                                need[own] += 1;
                                restarts += 1;
                            }
                        }
                        (_, Some(own)) => {
                            need[own] += 1;
                            restarts += 1;
                        }
                        (_, None) => {}
                    }
                }
            }
        }
        for (item, present) in problem.items.iter().zip(&present) {
            need[item.slot] += i64::from(item.planned.saturating_sub(*present));
        }
        for set in 0..1usize << choices.len() {
            let (mut free, mut need) = (free.clone(), need.clone());
            for (bit, (slot, own)) in choices.iter().enumerate() {
                if set >> bit & 1 == 1 {
                    free[*slot] += 1;
                    need[*own] += 1;
                }
            }
            let restarts = restarts + i64::from(set.count_ones());
            let spare = i64::from(problem.rules.spare_cards);
            let most_idle = if problem.rules.goal == Goal::Capacity { spare + cards } else { spare };
            for idle in spare..=most_idle {
                let mut slots = vec![0u32; whole + 1];
                let mut above = 0;
                for p in (0..=whole).rev() {
                    let mut surges: Vec<u32> =
                        problem.items.iter().filter(|i| i.slot >= p).map(|i| i.max_surge).collect();
                    surges.sort_by_key(|s| std::cmp::Reverse(*s));
                    let at_once = problem.rules.concurrent_rollouts as usize;
                    let reserve: u32 = surges.iter().take(at_once).sum();
                    let missing = need[p..].iter().sum::<i64>() + i64::from(reserve) + idle
                        - free[p..].iter().sum::<i64>();
                    let here = missing.max(above);
                    slots[p] = (here - above) as u32;
                    above = here;
                }
                if cutter.chain.cards(&slots[..whole]) + slots[whole] > pool {
                    break;
                }
                let mut objective = vec![cost, touched, restarts];
                if problem.rules.goal == Goal::Capacity {
                    objective.insert(0, cards - idle);
                }
                if best.as_ref().is_none_or(|b| objective < *b) {
                    best = Some(objective);
                }
            }
        }
    }
    best
}

/// A problem and an order of its workloads and of its nodes.
fn shuffled() -> impl Strategy<Value = (Problem, Vec<usize>, Vec<usize>)> {
    problems().prop_flat_map(|problem| {
        let items: Vec<usize> = (0..problem.items.len()).collect();
        let nodes: Vec<usize> = (0..problem.nodes.len()).collect();
        (Just(problem), Just(items).prop_shuffle(), Just(nodes).prop_shuffle())
    })
}

fn card(geometry: &Geometry) -> impl Strategy<Value = (Option<usize>, u8)> + use<> {
    let n = geometry.layouts().len();
    (prop_oneof![2 => Just(None), 1 => (0..n).prop_map(Some)], any::<u8>())
}

/// Small problems: up to four nodes of one or two cards, cut in any way, held by workloads that fit or not.
fn problems() -> impl Strategy<Value = Problem> {
    prop_oneof![2 => problems_on(a100()), 1 => problems_on(a100_with_media())]
}

fn problems_on(geometry: Geometry) -> impl Strategy<Value = Problem> {
    let whole = geometry.whole();
    let items = prop::collection::vec((0..=whole, 0u32..3, 0u32..2), 1..5);
    let nodes = prop::collection::vec((prop::collection::vec(card(&geometry), 1..3), 0u8..10, 0i64..3), 1..5);
    let rules = (any::<bool>(), 0u32..2, 0u32..2);
    (items, nodes, rules).prop_map(move |(items, nodes, (capacity, spare_cards, concurrent_rollouts))| {
        let items: Vec<Item> = items
            .into_iter()
            .enumerate()
            .map(|(i, (slot, planned, max_surge))| Item { key: format!("w{i}"), slot, planned, max_surge })
            .collect();
        let layouts = geometry.layouts();
        let mut n_held = 0;
        let nodes = nodes
            .into_iter()
            .enumerate()
            .map(|(n, (cards, frozen, cost))| {
                let cards: Vec<CardState> = cards
                    .into_iter()
                    .map(|(layout, seed)| {
                        let mut seed = usize::from(seed);
                        let mut holder = |slot: usize| {
                            let pick = seed % (items.len() + 1);
                            seed = seed / 2 + 7 * slot;
                            // Brute force tries every set of replicas, so there must be few.
                            let held = (pick < items.len() && n_held < 7).then_some(pick);
                            n_held += usize::from(held.is_some());
                            held
                        };
                        match layout {
                            None => CardState::Whole { item: holder(whole) },
                            Some(l) => CardState::Cut(
                                layouts[l]
                                    .counts
                                    .iter()
                                    .enumerate()
                                    .flat_map(|(t, n)| std::iter::repeat_n(t, *n as usize))
                                    .map(|t| (t, holder(t)))
                                    .collect(),
                            ),
                        }
                    })
                    .collect();
                let cost = cards.len() as i64 * 10 + cost;
                NodeState { id: format!("n{n}"), cards, cost, frozen: frozen == 0 }
            })
            .collect();
        let goal = if capacity { Goal::Capacity } else { Goal::Bill };
        let rules = Rules { goal, spare_cards, concurrent_rollouts, ..self::rules() };
        Problem { geometry: geometry.clone(), items, nodes, rules }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn small_problems_reach_the_optimum_of_brute_force(problem in problems()) {
        match (pack(&problem), best_by_brute_force(&problem)) {
            (Ok(packing), Some(best)) => {
                prop_assert_eq!(check(&problem, &packing), Vec::<String>::new());
                prop_assert_eq!(&packing.objective, &best);
                prop_assert!(packing.proven, "{:?}", packing.lower_bounds);
            }
            (Err(Infeasible::TooFewCards { .. }), None) => {}
            (got, want) => prop_assert!(false, "{got:?} {want:?}"),
        }
    }

    #[test]
    fn an_applied_packing_is_left_alone(problem in problems()) {
        if let Ok(packing) = pack(&problem) {
            let mut next = applied(&problem, &packing);
            next.rules = problem.rules;
            let again = packed(&next);
            let n = packing.objective.len();
            prop_assert_eq!(&again.objective[..n - 2], &packing.objective[..n - 2]);
            prop_assert_eq!(&again.objective[n - 2..], &[0, 0]);
            prop_assert!(again.nodes.iter().all(|n| n.fate == Fate::Untouched));
            prop_assert_eq!(applied(&next, &again), next);
        }
    }

    #[test]
    fn the_order_of_workloads_and_nodes_changes_nothing((problem, items, nodes) in shuffled()) {
        // `items[i]` is the old place of the workload that is now the i-th.
        let mut turned = problem.clone();
        turned.items = items.iter().map(|old| problem.items[*old].clone()).collect();
        turned.nodes = nodes.iter().map(|old| problem.nodes[*old].clone()).collect();
        let now = |item: &mut Option<usize>| {
            *item = item.map(|old| items.iter().position(|i| *i == old).unwrap());
        };
        for card in turned.nodes.iter_mut().flat_map(|n| &mut n.cards) {
            match card {
                CardState::Whole { item } => now(item),
                CardState::Cut(slices) => slices.iter_mut().for_each(|s| now(&mut s.1)),
            }
        }
        let mut there = pack(&turned);
        if let Ok(packing) = &mut there {
            let before = |item: &mut Option<usize>| *item = item.map(|i| items[i]);
            for card in packing.nodes.iter_mut().flat_map(|n| &mut n.cards) {
                match card {
                    CardPlan::Whole { item } => before(item),
                    CardPlan::Cut(slices) => slices.iter_mut().for_each(|s| before(&mut s.item)),
                }
            }
            packing.nodes = (0..nodes.len())
                .map(|old| packing.nodes[nodes.iter().position(|n| *n == old).unwrap()].clone())
                .collect();
        }
        let here = pack(&problem);
        prop_assert_eq!(&here, &there);
        prop_assert_eq!(here, pack(&problem));
    }

    #[test]
    fn replicas_that_must_be_apart_are_apart(problem in problems(), gpu in any::<bool>()) {
        let mut problem = problem;
        problem.rules.spread = if gpu { Spread::Gpu } else { Spread::Node };
        if let Ok(packing) = pack(&problem) {
            prop_assert_eq!(check(&problem, &packing), Vec::<String>::new());
        }
    }
}

#[test]
fn replicas_on_single_card_nodes_stay_on_two_of_them() {
    let nodes = [0, 0, 1]
        .iter()
        .zip(["a", "b", "c"])
        .map(|(i, id)| node(id, vec![CardState::Whole { item: Some(*i) }]))
        .collect();
    let items = vec![item("x", 2, 2), item("y", 2, 1)];
    let rules = Rules { spread: Spread::Node, ..rules() };
    let packing = packed(&Problem { geometry: a100(), items, nodes, rules });
    assert_eq!(packing.objective, [200, 1, 2]);
    assert!(packing.proven);
}

#[test]
fn a_limit_on_layouts_is_kept_and_never_called_free() {
    let nodes = (0..9).map(|i| node(&format!("n{i}"), vec![CardState::Whole { item: Some(i) }])).collect();
    let items = [0, 0, 0, 0, 1, 2, 3, 3, 4].iter().enumerate();
    let items = items.map(|(i, slot)| item(&format!("w{i}"), *slot, 1)).collect();
    let mut problem = Problem { geometry: a100(), items, nodes, rules: rules() };
    let free = packed(&problem);
    problem.rules.max_layouts = Some(1);
    let limited = packed(&problem);
    let cuts: BTreeMap<Vec<usize>, ()> = limited
        .nodes
        .iter()
        .flat_map(|n| &n.cards)
        .filter_map(|card| match card {
            CardPlan::Cut(slices) => Some((slices.iter().map(|s| s.slice_type).collect(), ())),
            CardPlan::Whole { .. } => None,
        })
        .collect();
    assert_eq!(cuts.len(), 1);
    assert!(limited.objective >= free.objective);
    assert_eq!(limited.proven, limited.objective == free.objective);
}

#[test]
fn a_frozen_node_keeps_a_replica_that_it_should_not_hold() {
    let mut frozen = node("a", vec![CardState::Cut(vec![(0, Some(0)), (0, None)])]);
    frozen.frozen = true;
    let nodes = vec![frozen, node("b", vec![CardState::Whole { item: Some(1) }])];
    let problem =
        Problem { geometry: a100(), items: vec![item("x", 3, 1), item("y", 0, 1)], nodes, rules: rules() };
    let packing = packed(&problem);
    assert_eq!(packing.objective, [100, 0, 1]);
}

#[test]
fn idle_cards_of_frozen_nodes_count_as_free_only_when_others_take_the_work() {
    let frozen = |id| NodeState { frozen: true, ..node(id, vec![CardState::Whole { item: None }]) };
    let rules = Rules { goal: Goal::Capacity, ..rules() };
    let nodes = vec![frozen("a"), frozen("b")];
    let packing = packed(&Problem { geometry: a100(), items: vec![item("x", 0, 2)], nodes, rules });
    assert_eq!(packing.objective, [2, 200, 0, 0]);
}
