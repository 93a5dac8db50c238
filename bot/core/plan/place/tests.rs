//! Placements against brute force, and placements that are applied and looked at again.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::board::Board;
use super::tally::Tally;
use super::*;
use crate::pack::geometry::SliceType;
use crate::plan::pool::Spread;

/// Four of the six types of an A100: small enough for brute force, with every kind of limit.
fn geometry() -> Geometry {
    let kind = |name: &str, compute, memory, starts: &[u8], most| SliceType {
        name: name.into(),
        compute_slices: compute,
        memory_slices: memory,
        starts: starts.to_vec(),
        max_instances: most,
    };
    Geometry {
        memory_slices: 8,
        types: vec![
            kind("1g", 1, 1, &[0, 1, 2, 3, 4, 5, 6], 7),
            kind("2g", 2, 2, &[0, 2, 4], 3),
            kind("3g", 3, 4, &[0, 4], 2),
            kind("4g", 4, 4, &[0], 1),
        ],
    }
}

fn wishes(goal: Goal) -> Wishes {
    Wishes { goal, spare_cards: 0, concurrent_rollouts: 1, waves: Waves::AllowDowntime, max_layouts: None }
}

/// A pool by numbers: what stands on each card, and what each tenant is.
#[derive(Clone, Debug)]
struct Pool {
    tenants: Vec<Tenant>,
    sites: Vec<Site>,
}

fn tenant(key: &str, target: Option<usize>) -> Tenant {
    Tenant {
        key: key.into(),
        now: geometry().whole(),
        target,
        must_move: false,
        planned: 0,
        max_surge: 0,
        spread: Spread::Node,
        sites: BTreeSet::new(),
        elsewhere: 0,
        needs: Some(Resources::default()),
    }
}

fn site(name: &str, cards: Vec<Card>) -> Site {
    Site {
        name: name.into(),
        cards,
        frozen: false,
        cost: 10,
        room: Some(Resources { cpu_milli: 1, memory_bytes: 1, ephemeral_bytes: 1, pods: 100 }),
        labelled_by_merge: true,
    }
}

/// Pools of up to three nodes with up to two cards each.
fn pools() -> impl Strategy<Value = Pool> {
    let cards =
        prop::collection::vec(prop::collection::vec(prop::option::weighted(0.8, 0usize..4), 1..3), 1..4);
    let tenants = prop::collection::vec(
        (prop::option::weighted(0.8, 0usize..4), 0u32..2, 0u32..2, prop::bool::weighted(0.2)),
        4,
    );
    let frozen = prop::collection::vec(prop::bool::weighted(0.15), 3);
    let sites = prop::collection::vec(prop::collection::btree_set(0usize..3, 1..4), 4);
    (cards, tenants, frozen, sites).prop_map(|(cards, specs, frozen, allowed)| {
        let sites: Vec<Site> = cards
            .into_iter()
            .enumerate()
            .map(|(i, holders)| Site {
                frozen: frozen[i],
                ..site(&format!("n{i}"), holders.into_iter().map(Card::Whole).collect())
            })
            .collect();
        let tenants = specs
            .into_iter()
            .enumerate()
            .map(|(t, (target, more, surge, restricted))| {
                let stands_on: BTreeSet<usize> = (0..sites.len())
                    .filter(|i| sites[*i].cards.iter().flat_map(Card::holders).any(|holder| holder == t))
                    .collect();
                let present = sites.iter().flat_map(|s| &s.cards).flat_map(Card::holders).filter(|h| *h == t);
                let n = count(present.count());
                let all: BTreeSet<usize> = (0..sites.len()).collect();
                let allowed: BTreeSet<usize> =
                    allowed[t].intersection(&all).chain(&stands_on).copied().collect();
                Tenant {
                    planned: if n > 0 { n + more } else { 0 },
                    max_surge: if n > 0 { surge } else { 0 },
                    target: target.filter(|_| n > 0),
                    sites: if restricted { allowed } else { all },
                    ..tenant(&format!("t{t}"), None)
                }
            })
            .collect();
        Pool { tenants, sites }
    })
}

/// The best (cost, nodes touched, restarts) over all fates, all choices of who moves and all seats.
fn brute_force(pool: &Pool, geometry: &Geometry) -> Option<(i64, usize, u32)> {
    let board = Board::new(geometry, &pool.tenants, &pool.sites, wishes(Goal::Bill));
    let movable: Vec<usize> = (0..pool.sites.len()).filter(|i| !pool.sites[*i].frozen).collect();
    let may: Vec<usize> = (0..pool.tenants.len()).filter(|t| board.may_convert(*t)).collect();
    let mut best = None;
    for mut code in 0..3usize.pow(count(movable.len())) {
        let mut fates = vec![Fate::Untouched; pool.sites.len()];
        for node in &movable {
            fates[*node] = [Fate::Untouched, Fate::Touched, Fate::Freed][code % 3];
            code /= 3;
        }
        if !fates.contains(&Fate::Freed) {
            continue;
        }
        for choice in 0..1usize << may.len() {
            let mut tally = Tally::new(&board, &fates);
            for (bit, tenant) in may.iter().enumerate() {
                if choice >> bit & 1 == 1 {
                    tally.insert(*tenant);
                }
            }
            let cost = pool.sites.iter().zip(&fates).filter(|(_, f)| **f != Fate::Freed).map(|(s, _)| s.cost);
            let touched = fates.iter().filter(|f| **f == Fate::Touched).count();
            let score = (cost.sum(), touched, board.restarts(&tally.converted, &fates));
            if best.is_none_or(|known| score < known) && Seats::new(&board, &fates, &tally).fill(0) {
                best = Some(score);
            }
        }
    }
    best
}

/// Every way to seat the pods, one after the other.
struct Seats<'b, 'a> {
    board: &'b Board<'a>,
    /// Slots of each card by type, whether pods of others hold it whole, by node.
    cards: Vec<Vec<(Vec<u32>, bool)>>,
    touched: Vec<bool>,
    /// Pods to seat: tenant (`None`: room that stays free) and slot.
    pods: Vec<(Option<usize>, usize)>,
    spots: Vec<Vec<usize>>,
}

impl<'b, 'a> Seats<'b, 'a> {
    fn new(board: &'b Board<'a>, fates: &[Fate], tally: &Tally<'_, '_>) -> Self {
        let whole = board.whole();
        let mut pods = Vec::new();
        let mut spots = vec![Vec::new(); board.tenants.len()];
        for (t, tenant) in board.tenants.iter().enumerate() {
            let moves = tally.converted.contains(&t);
            let stay = if moves { 0 } else { board.undisturbed(t, fates) };
            if !moves {
                for (node, n) in board.pods[t].iter().filter(|(node, _)| fates[**node] == Fate::Untouched) {
                    spots[t].extend(std::iter::repeat_n(*node, *n as usize));
                }
            }
            let all = if moves { tenant.planned.max(board.present(t)) } else { board.present(t) };
            let slot = board.slot_of(t, &tally.converted);
            pods.extend(std::iter::repeat_n((Some(t), slot), (all - stay) as usize));
        }
        for (slot, n) in tally.reserve().into_iter().enumerate() {
            pods.extend(std::iter::repeat_n((None, slot), n as usize));
        }
        let held = |card: &Card| card.holders().any(|t| !tally.converted.contains(&t));
        let cards = board
            .sites
            .iter()
            .zip(fates)
            .map(|(site, fate)| match fate {
                Fate::Freed => Vec::new(),
                Fate::Touched => vec![(vec![0; whole], false); site.cards.len()],
                Fate::Untouched => site.cards.iter().map(|card| (vec![0; whole], held(card))).collect(),
            })
            .collect();
        let touched = fates.iter().map(|fate| *fate == Fate::Touched).collect();
        Self { board, cards, touched, pods, spots }
    }

    fn fill(&mut self, at: usize) -> bool {
        let Some((tenant, slot)) = self.pods.get(at).copied() else { return self.apart() };
        for node in 0..self.cards.len() {
            if tenant.is_some_and(|t| !self.board.tenants[t].sites.contains(&node)) {
                continue;
            }
            for card in 0..self.cards[node].len() {
                let before = self.cards[node][card].clone();
                let (counts, whole) = &mut self.cards[node][card];
                if slot == self.board.whole() {
                    if *whole || counts.iter().any(|n| *n > 0) {
                        continue;
                    }
                    *whole = true;
                } else {
                    counts[slot] += 1;
                    if *whole || !self.touched[node] || !self.board.geometry.feasible(counts) {
                        self.cards[node][card] = before;
                        continue;
                    }
                }
                if let Some(t) = tenant {
                    self.spots[t].push(node);
                }
                if self.fill(at + 1) {
                    return true;
                }
                if let Some(t) = tenant {
                    self.spots[t].pop();
                }
                self.cards[node][card] = before;
            }
        }
        false
    }

    fn apart(&self) -> bool {
        (0..self.spots.len()).all(|t| {
            let nodes: BTreeSet<&usize> = self.spots[t].iter().collect();
            let moved = self.pods.iter().any(|(tenant, _)| *tenant == Some(t));
            !moved || self.spots[t].len() < 2 || nodes.len() > 1 || !self.board.was_spread(t)
        })
    }
}

/// The pool as it is when the placement has come true.
fn applied(pool: &Pool, placement: &Placement) -> Pool {
    let whole = geometry().whole();
    let kept: Vec<usize> = (0..pool.sites.len()).filter(|i| placement.fates[*i] != Fate::Freed).collect();
    let renumber = |sites: &BTreeSet<usize>| {
        kept.iter().enumerate().filter(|(_, old)| sites.contains(old)).map(|(new, _)| new).collect()
    };
    Pool {
        sites: kept
            .iter()
            .map(|i| Site { cards: placement.cards[*i].clone(), ..pool.sites[*i].clone() })
            .collect(),
        tenants: pool
            .tenants
            .iter()
            .enumerate()
            .map(|(t, tenant)| {
                let moved = placement.converted.contains(&t);
                Tenant {
                    now: if moved { tenant.target.unwrap_or(whole) } else { tenant.now },
                    target: tenant.target.filter(|_| !moved),
                    sites: renumber(&tenant.sites),
                    ..tenant.clone()
                }
            })
            .collect(),
    }
}

proptest! {
    // The search is exact as far as brute force has seen (thousands of pools), and not by proof: so that a rare miss does
    // not stop an unrelated change, the pools are always the same ones. `PROPTEST_RNG_SEED` draws others.
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        rng_seed: match ProptestConfig::default().rng_seed {
            RngSeed::Random => RngSeed::Fixed(2),
            fixed @ RngSeed::Fixed(_) => fixed,
        },
        ..ProptestConfig::default()
    })]

    #[test]
    fn small_pools_reach_the_optimum_of_brute_force(pool in pools()) {
        let geometry = geometry();
        let best = brute_force(&pool, &geometry);
        let found = place(&geometry, &pool.tenants, &pool.sites, wishes(Goal::Bill));
        match found {
            Answer::Gain(placement, bound) => {
                let cost: i64 = pool
                    .sites
                    .iter()
                    .zip(&placement.fates)
                    .filter(|(_, fate)| **fate != Fate::Freed)
                    .map(|(site, _)| site.cost)
                    .sum();
                let board = Board::new(&geometry, &pool.tenants, &pool.sites, wishes(Goal::Bill));
                let touched = placement.with_fate(Fate::Touched).count();
                let restarts = board.restarts(&placement.converted, &placement.fates);
                prop_assert_eq!(Some((cost, touched, restarts)), best, "{:#?}", placement);
                prop_assert!(bound.cost <= cost, "{:?} is no bound of {}", bound, cost);
            }
            Answer::Nothing(bound) => {
                prop_assert_eq!(best, None, "{:?}", bound);
            }
            Answer::NoOrder { nodes, .. } => prop_assert!(false, "downtime is allowed: {nodes:?}"),
        }
    }

    #[test]
    fn a_search_that_does_not_try_everything_frees_as_much(pool in pools()) {
        let geometry = geometry();
        let board = Board::new(&geometry, &pool.tenants, &pool.sites, wishes(Goal::Bill));
        let bound = Bound::new(&board);
        let every = search::search(&board, &bound);
        let some = search::search_with(&board, &bound, 0);
        let shown = |placement: &Option<Placement>| {
            placement.as_ref().map(|p| (p.with_fate(Fate::Freed).count(), p.with_fate(Fate::Touched).count(), board.restarts(&p.converted, &p.fates)))
        };
        prop_assert_eq!(shown(&some), shown(&every));
    }

    #[test]
    fn an_applied_placement_is_left_alone(pool in pools(), capacity in any::<bool>()) {
        let geometry = geometry();
        let wishes = wishes(if capacity { Goal::Capacity } else { Goal::Bill });
        if let Answer::Gain(placement, _) = place(&geometry, &pool.tenants, &pool.sites, wishes) {
            let then = applied(&pool, &placement);
            let again = place(&geometry, &then.tenants, &then.sites, wishes);
            prop_assert!(matches!(again, Answer::Nothing(_)), "{placement:#?}\n{again:#?}");
        }
    }
}

fn whole(tenants: &[usize]) -> Vec<Card> {
    tenants.iter().map(|tenant| Card::Whole(Some(*tenant))).collect()
}

fn idle(n: usize) -> Vec<Card> {
    vec![Card::Whole(None); n]
}

/// Tenants with one replica on each card that they hold, allowed everywhere.
fn pool(targets: &[Option<usize>], sites: Vec<Site>) -> Pool {
    let all: BTreeSet<usize> = (0..sites.len()).collect();
    let tenants = targets
        .iter()
        .enumerate()
        .map(|(t, target)| {
            let held = sites.iter().flat_map(|s| &s.cards).flat_map(Card::holders).filter(|h| *h == t);
            Tenant { planned: count(held.count()), sites: all.clone(), ..tenant(&format!("t{t}"), *target) }
        })
        .collect();
    Pool { tenants, sites }
}

fn gain(pool: &Pool, wishes: Wishes) -> (Placement, Bound) {
    match place(&geometry(), &pool.tenants, &pool.sites, wishes) {
        Answer::Gain(placement, bound) => (*placement, bound),
        other @ (Answer::NoOrder { .. } | Answer::Nothing(_)) => panic!("{other:#?}"),
    }
}

/// Two nodes by hand, and slices that both services can move into one after the other.
fn two_pairs() -> Pool {
    let by_hand = |name: &str, cards| Site { labelled_by_merge: false, ..site(name, cards) };
    // Two services with a replica on each of two nodes, and two more nodes full of small ones.
    let mut pool = pool(
        &[Some(2), Some(2), Some(2), Some(2)],
        vec![
            by_hand("a", whole(&[0, 1])),
            by_hand("b", whole(&[0, 1])),
            by_hand("c", whole(&[2, 3])),
            by_hand("d", whole(&[2, 3])),
        ],
    );
    for tenant in &mut pool.tenants {
        tenant.spread = Spread::Node;
    }
    pool
}

#[test]
fn nodes_that_are_labelled_by_hand_follow_one_after_the_other() {
    let pool = two_pairs();
    let strict = Wishes { waves: Waves::NoDowntime, ..wishes(Goal::Bill) };
    let (placement, bound) = gain(&pool, strict);
    assert_eq!(placement.with_fate(Fate::Freed).count(), 2, "{placement:#?}");
    assert_eq!(placement.waves.len(), 2, "{:#?}", placement.waves);
    assert!(placement.waves.iter().all(|wave| wave.down.is_empty()), "{:#?}", placement.waves);
    assert_eq!(bound.n_nodes, 2);
}

#[test]
fn labels_of_one_merge_drain_their_nodes_together() {
    let mut pool = two_pairs();
    for site in &mut pool.sites {
        site.labelled_by_merge = true;
    }
    let (placement, _) = gain(&pool, wishes(Goal::Bill));
    assert_eq!(placement.waves.len(), 1, "{:#?}", placement.waves);
    let strict = Wishes { waves: Waves::NoDowntime, ..wishes(Goal::Bill) };
    let (careful, _) = gain(&pool, strict);
    assert!(careful.waves.iter().all(|wave| wave.down.is_empty()), "{:#?}", careful.waves);
}

#[test]
fn where_no_order_is_allowed_the_nodes_to_borrow_are_said() {
    let pool = pool(&[Some(1), Some(1)], vec![site("a", whole(&[0])), site("b", whole(&[1]))]);
    let strict = Wishes { waves: Waves::NoDowntime, ..wishes(Goal::Bill) };
    let Answer::NoOrder { nodes, down, borrowed } = place(&geometry(), &pool.tenants, &pool.sites, strict)
    else {
        panic!("an order was found")
    };
    assert_eq!((nodes, down, borrowed), (vec!["a".to_owned()], vec!["t0".to_owned()], 1));
    let (placement, _) = gain(&pool, Wishes { waves: Waves::Borrow, ..strict });
    assert_eq!(placement.waves[0].borrowed, 1);
}

#[test]
fn a_pod_that_finds_an_idle_card_is_not_down() {
    let pool = pool(
        &[Some(1), Some(1), None],
        vec![
            site("a", whole(&[0])),
            site("b", whole(&[1])),
            site("c", vec![Card::Whole(Some(2)), Card::Whole(None)]),
        ],
    );
    let strict = Wishes { waves: Waves::NoDowntime, ..wishes(Goal::Bill) };
    let (placement, _) = gain(&pool, strict);
    assert!(placement.waves.iter().all(|wave| wave.down.is_empty()), "{:#?}", placement.waves);
}

#[test]
fn free_slices_are_used_before_anything_is_drained() {
    let cut = vec![
        Slot { kind: 1, start: 0, holder: Some(1) },
        Slot { kind: 1, start: 2, holder: None },
        Slot { kind: 1, start: 4, holder: None },
    ];
    let mut pool = pool(&[Some(1), None], vec![site("a", vec![Card::Cut(cut)]), site("b", whole(&[0]))]);
    pool.tenants[1].now = 1;
    let (placement, _) = gain(&pool, wishes(Goal::Bill));
    assert_eq!(placement.fates, [Fate::Untouched, Fate::Freed]);
    assert!(placement.waves.is_empty());
}

#[test]
fn a_slice_that_is_too_small_grows_even_where_nothing_is_freed() {
    let cut = vec![Slot { kind: 0, start: 0, holder: Some(0) }];
    let mut pool = pool(&[Some(2)], vec![site("a", vec![Card::Cut(cut)])]);
    (pool.tenants[0].now, pool.tenants[0].must_move) = (0, true);
    let (placement, _) = gain(&pool, wishes(Goal::Bill));
    assert_eq!(placement.fates, [Fate::Touched]);
    assert!(placement.cards[0][0].holders().eq([0]));
}

#[test]
fn pods_without_room_elsewhere_stay() {
    let mut pool = pool(&[Some(1), Some(1)], vec![site("a", whole(&[0])), site("b", whole(&[1]))]);
    for tenant in &mut pool.tenants {
        tenant.needs = Some(Resources { cpu_milli: 600, ..Resources::default() });
    }
    for site in &mut pool.sites {
        site.room = Some(Resources { cpu_milli: 1_000, pods: 10, ..Resources::default() });
    }
    let answer = place(&geometry(), &pool.tenants, &pool.sites, wishes(Goal::Bill));
    assert!(matches!(answer, Answer::Nothing(_)), "{answer:#?}");
    pool.sites[0].room = Some(Resources { cpu_milli: 1_200, pods: 10, ..Resources::default() });
    assert_eq!(gain(&pool, wishes(Goal::Bill)).0.fates, [Fate::Touched, Fate::Freed]);
}

#[test]
fn spare_cards_stay_idle() {
    let pool = pool(
        &[Some(1), Some(1), Some(1)],
        vec![site("a", whole(&[0])), site("b", whole(&[1])), site("c", whole(&[2]))],
    );
    let (placement, bound) = gain(&pool, Wishes { spare_cards: 1, ..wishes(Goal::Bill) });
    assert_eq!((placement.with_fate(Fate::Freed).count(), bound.n_nodes), (1, 2));
}

#[test]
fn rolling_updates_find_a_slice() {
    let mut pool = pool(
        &[Some(1), Some(1), Some(1), None],
        vec![site("a", whole(&[0])), site("b", whole(&[1])), site("c", whole(&[2])), site("d", idle(1))],
    );
    pool.tenants[0].max_surge = 1;
    // Four slices of 2g do not fit on one card.
    let (placement, bound) = gain(&pool, wishes(Goal::Bill));
    assert_eq!((placement.with_fate(Fate::Freed).count(), bound.n_nodes), (2, 2));
    let (at_once, _) = gain(&pool, Wishes { concurrent_rollouts: 0, ..wishes(Goal::Bill) });
    assert_eq!(at_once.with_fate(Fate::Freed).count(), 3);
}

#[test]
fn a_limit_on_layouts_is_kept() {
    let targets = [Some(0), Some(0), Some(0), Some(1), Some(1), Some(3), Some(3), Some(2)];
    let sites = vec![site("a", whole(&[0, 1, 2, 3])), site("b", whole(&[4, 5, 6, 7]))];
    let pool = pool(&targets, sites);
    let layouts = |placement: &Placement| -> usize {
        let cut = placement.cards.iter().flatten().filter_map(|card| match card {
            Card::Cut(slots) => {
                let mut kinds: Vec<usize> = slots.iter().map(|slot| slot.kind).collect();
                kinds.sort_unstable();
                Some(kinds)
            }
            Card::Whole(_) => None,
        });
        cut.collect::<BTreeSet<_>>().len()
    };
    let (free, _) = gain(&pool, wishes(Goal::Bill));
    assert!(layouts(&free) > 1, "{free:#?}");
    let (few, _) = gain(&pool, Wishes { max_layouts: Some(1), ..wishes(Goal::Bill) });
    assert_eq!(layouts(&few), 1, "{few:#?}");
}

#[test]
fn an_idle_card_is_promised_to_one_pod_only() {
    // Two nodes are cut one after the other, each with a service that must not be down, and one idle card.
    let by_hand = |name: &str, cards| Site { labelled_by_merge: false, ..site(name, cards) };
    let pool = pool(
        &[Some(2), Some(2), Some(2), Some(2), None],
        vec![
            by_hand("a", whole(&[0])),
            by_hand("b", whole(&[1])),
            by_hand("c", whole(&[2])),
            by_hand("d", whole(&[3])),
            by_hand("e", vec![Card::Whole(Some(4)), Card::Whole(None)]),
        ],
    );
    let strict = Wishes { waves: Waves::NoDowntime, ..wishes(Goal::Bill) };
    let (placement, _) = gain(&pool, strict);
    for wave in &placement.waves {
        assert!(wave.down.is_empty(), "{:#?}", placement.waves);
    }
    // With the card taken, one of them has to be down.
    let mut full = pool;
    full.sites[4].cards[1] = Card::Whole(Some(4));
    full.tenants[4].planned = 2;
    let answer = place(&geometry(), &full.tenants, &full.sites, strict);
    assert!(matches!(answer, Answer::NoOrder { .. }), "{answer:#?}");
}

#[test]
fn a_pod_without_surge_is_down_until_a_later_wave_brings_its_slice() {
    let by_hand = |name: &str, cards| Site { labelled_by_merge: false, ..site(name, cards) };
    let sites = |surge: u32| {
        let mut pool = pool(
            &[Some(3), Some(3), Some(3)],
            vec![
                by_hand("a", vec![Card::Whole(Some(0)), Card::Whole(None)]),
                by_hand("b", vec![Card::Whole(Some(1)), Card::Whole(None)]),
                by_hand("c", whole(&[2])),
            ],
        );
        pool.tenants.iter_mut().for_each(|tenant| tenant.max_surge = surge);
        pool
    };
    // One 4g a card: three cards on two nodes, so that a wave after the merge may be needed.
    let strict = Wishes { waves: Waves::NoDowntime, concurrent_rollouts: 0, ..wishes(Goal::Bill) };
    for surge in [0, 1] {
        let pool = sites(surge);
        if let Answer::Gain(placement, _) = place(&geometry(), &pool.tenants, &pool.sites, strict) {
            let later: BTreeSet<usize> =
                placement.waves.iter().skip(1).flat_map(|wave| wave.sites.iter().copied()).collect();
            let only_later = |tenant: &usize| {
                let seats: BTreeSet<usize> = (0..placement.cards.len())
                    .filter(|i| placement.cards[*i].iter().flat_map(Card::holders).any(|h| h == *tenant))
                    .collect();
                placement.converted.contains(tenant) && seats.is_subset(&later)
            };
            assert!(surge > 0 || !(0..3).any(|tenant| only_later(&tenant)), "{placement:#?}");
        }
    }
}

#[test]
fn a_node_without_a_pod_slot_left_takes_nobody() {
    let mut pool = pool(&[Some(1), Some(1)], vec![site("a", whole(&[0])), site("b", whole(&[1]))]);
    for tenant in &mut pool.tenants {
        tenant.needs = Some(Resources { pods: 1, ..Resources::default() });
    }
    for site in &mut pool.sites {
        // One slot for the pod that stands there, and none besides.
        site.room = Some(Resources { pods: 1, ..Resources::not_stated() });
    }
    let answer = place(&geometry(), &pool.tenants, &pool.sites, wishes(Goal::Bill));
    assert!(matches!(answer, Answer::Nothing(_)), "{answer:#?}");
}

#[test]
fn a_limit_on_layouts_holds_for_workloads_of_different_nodes_together() {
    let sites = ["a", "b", "c", "d"].into_iter().enumerate();
    let mut pool = pool(&[Some(2), Some(1)], sites.map(|(i, name)| site(name, whole(&[i % 2]))).collect());
    for (tenant, sites) in pool.tenants.iter_mut().zip([[0, 2], [1, 3]]) {
        (tenant.sites, tenant.spread) = (sites.into(), Spread::None);
    }
    let freed = |max_layouts| {
        let (placement, _) = gain(&pool, Wishes { max_layouts, ..wishes(Goal::Bill) });
        placement.with_fate(Fate::Freed).count()
    };
    // Two cards of `3g` twice and `2g` three times; with one layout, one of the two services moves.
    assert_eq!((freed(None), freed(Some(1))), (2, 1));
}

#[test]
fn a_limit_on_layouts_counts_those_of_today() {
    let cut = |kinds: &[(usize, u8)], holder| {
        let slot = |(kind, start): &(usize, u8)| Slot { kind: *kind, start: *start, holder };
        vec![Card::Cut(kinds.iter().map(slot).collect())]
    };
    // Two services would share a card of `3g` twice; another card is cut as one sees fit and must stay so.
    let kept = |kinds: &[(usize, u8)]| {
        let frozen = Site { frozen: true, ..site("c", cut(kinds, Some(2))) };
        let mut pool =
            pool(&[Some(2), Some(2), None], vec![site("a", whole(&[0])), site("b", whole(&[1])), frozen]);
        pool.tenants[2].now = kinds[0].0;
        pool
    };
    let limit = |max_layouts| Wishes { max_layouts, ..wishes(Goal::Bill) };
    let is_planned = |pool: &Pool, max_layouts| {
        matches!(place(&geometry(), &pool.tenants, &pool.sites, limit(max_layouts)), Answer::Gain(..))
    };
    let (other, same) = (kept(&[(1, 0), (1, 2), (1, 4)]), kept(&[(2, 0), (2, 4)]));
    assert_eq!(
        [is_planned(&other, None), is_planned(&other, Some(2)), is_planned(&other, Some(1))],
        [true, true, false]
    );
    assert!(is_planned(&same, Some(1)), "the layout is there already");
}

#[test]
fn a_card_is_cut_on_the_node_that_has_room_for_its_pods() {
    // Four pods of a quarter card each fit one card, and node `a` has room for two pods.
    let mut pool = pool(
        &[Some(0), Some(0), Some(0), Some(0), None],
        vec![site("a", whole(&[0, 4])), site("b", whole(&[1, 2, 3]))],
    );
    for tenant in &mut pool.tenants {
        (tenant.needs, tenant.spread) = (Some(Resources { pods: 1, ..Resources::default() }), Spread::None);
    }
    for (site, pods) in pool.sites.iter_mut().zip([2, 100]) {
        site.room = Some(Resources { pods, ..Resources::not_stated() });
    }
    let (placement, _) = gain(&pool, wishes(Goal::Capacity));
    let busy: Vec<usize> =
        placement.cards.iter().map(|cards| cards.iter().filter(|card| card.in_use()).count()).collect();
    assert_eq!(busy, [1, 1], "{placement:#?}");
}
