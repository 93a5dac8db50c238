//! Holds a packing against its problem, without believing anything that the planner computed.
//!
//! Shares no code with the search: it counts slots, replicas and restarts again from the two values alone.

use std::collections::BTreeMap;

use super::{CardPlan, CardState, Fate, Goal, NodePlan, NodeState, Packing, Problem, Spread};

/// Everything that is wrong with `packing`; empty when it may be proposed.
pub fn check(problem: &Problem, packing: &Packing) -> Vec<String> {
    let mut wrong = Vec::new();
    if problem.nodes.len() != packing.nodes.len() {
        return vec![format!("{} nodes became {}", problem.nodes.len(), packing.nodes.len())];
    }
    for (node, plan) in problem.nodes.iter().zip(&packing.nodes) {
        check_node(problem, node, plan, &mut wrong);
    }
    check_replicas(problem, packing, &mut wrong);
    let idle = check_free_slots(problem, packing, &mut wrong);
    check_objective(problem, packing, idle, &mut wrong);
    wrong
}

/// The slots of a card: type and holder.
fn slots(problem: &Problem, card: &CardPlan) -> Vec<(usize, Option<usize>)> {
    match card {
        CardPlan::Whole { item } => vec![(problem.geometry.types.len(), *item)],
        CardPlan::Cut(slices) => slices.iter().map(|s| (s.slice_type, s.item)).collect(),
    }
}

fn slots_today(problem: &Problem, card: &CardState) -> Vec<(usize, Option<usize>)> {
    match card {
        CardState::Whole { item } => vec![(problem.geometry.types.len(), *item)],
        CardState::Cut(slices) => slices.clone(),
    }
}

fn check_node(problem: &Problem, node: &NodeState, plan: &NodePlan, wrong: &mut Vec<String>) {
    let id = &node.id;
    if *id != plan.id {
        wrong.push(format!("node `{id}` became `{}`", plan.id));
    }
    let n_cards = if plan.fate == Fate::Freed { 0 } else { node.cards.len() };
    if plan.cards.len() != n_cards {
        wrong.push(format!("node `{id}` has {} cards in the plan, not {n_cards}", plan.cards.len()));
    }
    if node.frozen && plan.fate != Fate::Untouched {
        wrong.push(format!("node `{id}` is frozen and would be changed"));
    }
    for card in &plan.cards {
        if let CardPlan::Cut(slices) = card {
            let placed: Vec<(usize, u8)> = slices.iter().map(|s| (s.slice_type, s.start)).collect();
            if !problem.geometry.placement_is_legal(&placed) {
                wrong.push(format!("node `{id}` has a card cut as no card can be"));
            }
        }
    }
    if plan.fate != Fate::Untouched {
        return;
    }
    for (before, after) in node.cards.iter().zip(&plan.cards) {
        let same_kind = matches!(
            (before, after),
            (CardState::Whole { .. }, CardPlan::Whole { .. }) | (CardState::Cut(_), CardPlan::Cut(_))
        );
        let before = slots_today(problem, before);
        let after = slots(problem, after);
        let types = |slots: &[(usize, Option<usize>)]| slots.iter().map(|s| s.0).collect::<Vec<_>>();
        if !same_kind || types(&before) != types(&after) {
            wrong.push(format!("node `{id}` is called untouched and has a card cut anew"));
        }
        if node.frozen && before.iter().zip(&after).any(|(b, a)| b.1.is_some() && a.1 != b.1) {
            wrong.push(format!("node `{id}` is frozen and would lose a replica"));
        }
    }
}

fn present(problem: &Problem) -> Vec<usize> {
    let mut present = vec![0; problem.items.len()];
    for node in &problem.nodes {
        for (_, item) in node.cards.iter().flat_map(|c| slots_today(problem, c)) {
            if let Some(count) = item.and_then(|i| present.get_mut(i)) {
                *count += 1;
            }
        }
    }
    present
}

fn check_replicas(problem: &Problem, packing: &Packing, wrong: &mut Vec<String>) {
    let mut spots: Vec<Vec<(usize, usize)>> = vec![Vec::new(); problem.items.len()];
    for (n, (node, plan)) in problem.nodes.iter().zip(&packing.nodes).enumerate() {
        for (c, card) in plan.cards.iter().enumerate() {
            for (slot, item) in slots(problem, card) {
                let Some(i) = item else { continue };
                let Some(item) = problem.items.get(i) else {
                    wrong.push(format!("node `{}` holds an unknown workload", plan.id));
                    continue;
                };
                if slot < item.slot && !node.frozen {
                    wrong.push(format!(
                        "`{}` sits in a slice too small for it on node `{}`",
                        item.key, plan.id
                    ));
                }
                spots[i].push(if problem.rules.spread == Spread::Gpu { (n, c) } else { (n, 0) });
            }
        }
    }
    for (i, (item, present)) in problem.items.iter().zip(present(problem)).enumerate() {
        let wanted = present.max(usize::try_from(item.planned).unwrap_or(usize::MAX));
        if spots[i].len() != wanted {
            wrong.push(format!("`{}` has {} slots for {wanted} replicas", item.key, spots[i].len()));
        }
        let together = spots[i].windows(2).all(|w| w[0] == w[1]);
        let frozen = spots[i].iter().all(|(n, _)| problem.nodes[*n].frozen);
        if problem.rules.spread != Spread::None && spots[i].len() >= 2 && together && !frozen {
            wrong.push(format!("all replicas of `{}` sit together", item.key));
        }
    }
}

/// Room for rolling updates and spare cards; returns the whole cards that stay idle.
fn check_free_slots(problem: &Problem, packing: &Packing, wrong: &mut Vec<String>) -> i64 {
    let whole = problem.geometry.types.len();
    let mut free = vec![0i64; whole + 1];
    for (slot, item) in packing.nodes.iter().flat_map(|n| &n.cards).flat_map(|c| slots(problem, c)) {
        if item.is_none() {
            free.iter_mut().take(slot + 1).for_each(|f| *f += 1);
        }
    }
    let at_once = usize::try_from(problem.rules.concurrent_rollouts).unwrap_or(usize::MAX);
    let mut idle = i64::MAX;
    for (p, free) in free.iter().enumerate() {
        let mut surges: Vec<i64> =
            problem.items.iter().filter(|i| i.slot >= p).map(|i| i64::from(i.max_surge)).collect();
        surges.sort_unstable_by(|a, b| b.cmp(a));
        let reserve: i64 = surges.iter().take(at_once).sum();
        if *free < reserve {
            wrong.push(format!(
                "rolling updates need {reserve} free slots of type {p} or larger; {free} are free"
            ));
        }
        idle = idle.min(free - reserve);
    }
    if idle < i64::from(problem.rules.spare_cards) {
        wrong.push(format!("{idle} cards stay idle, not {}", problem.rules.spare_cards));
    }
    idle.max(0)
}

fn check_objective(problem: &Problem, packing: &Packing, idle: i64, wrong: &mut Vec<String>) {
    let (mut cost, mut touched, mut cards, mut stayed) = (0i64, 0i64, 0i64, 0usize);
    for (node, plan) in problem.nodes.iter().zip(&packing.nodes) {
        if plan.fate == Fate::Freed {
            continue;
        }
        cost += node.cost.max(0);
        cards += i64::try_from(node.cards.len()).unwrap_or(0);
        match plan.fate {
            Fate::Touched => touched += 1,
            Fate::Untouched => stayed += stayers(problem, node, plan),
            Fate::Freed => {}
        }
    }
    let total: usize = present(problem).iter().sum();
    let restarts = i64::try_from(total.saturating_sub(stayed)).unwrap_or(0);
    let mut objective = vec![cost, touched, restarts];
    if problem.rules.goal == Goal::Capacity {
        objective.insert(0, cards - idle);
    }
    if objective != packing.objective {
        wrong.push(format!("the objective is {objective:?}, not {:?}", packing.objective));
    }
    if packing.proven != (packing.lower_bounds == packing.objective)
        || packing.lower_bounds > packing.objective
    {
        wrong.push(format!("bounds {:?} do not go with {:?}", packing.lower_bounds, packing.objective));
    }
}

/// Replicas that may stay where they are: of each card, workload and slot type, as many as before and after.
fn stayers(problem: &Problem, node: &NodeState, plan: &NodePlan) -> usize {
    let count = |cards: Vec<Vec<(usize, Option<usize>)>>| {
        let mut counts: BTreeMap<(usize, usize, usize), usize> = BTreeMap::new();
        for (card, slots) in cards.into_iter().enumerate() {
            for (slot, item) in slots {
                if let Some(item) = item {
                    *counts.entry((card, slot, item)).or_default() += 1;
                }
            }
        }
        counts
    };
    let before = count(node.cards.iter().map(|c| slots_today(problem, c)).collect());
    let after = count(plan.cards.iter().map(|c| slots(problem, c)).collect());
    before.iter().map(|(key, n)| *n.min(after.get(key).unwrap_or(&0))).sum()
}
