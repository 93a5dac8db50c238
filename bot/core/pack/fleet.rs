//! The nodes of a problem as numbers: what each fate of a node gives and takes.
//!
//! Slots are counted along the chain: entry `p` of a vector counts slots of type `p` or larger. Nodes that hold the
//! same kinds of replicas in the same kinds of slices are one group.

use std::collections::BTreeMap;

use super::cards::Cutter;
use super::{CardState, Infeasible, Problem, Spread, surge_reserve};

/// Nodes that differ in name only.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// Indices into `Problem::nodes`, first id first.
    pub(super) nodes: Vec<usize>,
    /// Index into `Fleet::sizes`.
    pub(super) size: usize,
    pub(super) cards: i64,
    /// Replicas on the node: all restart when it is freed or touched.
    pub(super) replicas: i64,
    /// Replicas that restart in any case: in slots too small for them, or where all of a workload sits together.
    pub(super) misfits: i64,
    /// Slots of an untouched node, less those held by replicas of smaller types.
    pub(super) supply: Vec<i64>,
    /// Replicas in larger slots than they need, as (slot type, own type, how many).
    pub(super) roomy: Vec<(usize, usize, i64)>,
}

/// Nodes of one size and price; which of them are kept is decided by number first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Size {
    pub(super) cards: i64,
    pub(super) cost: i64,
    /// Nodes that are not frozen.
    pub(super) n_nodes: i64,
}

/// A problem in numbers.
#[derive(Clone, Debug)]
pub(super) struct Fleet<'a> {
    pub(super) cutter: Cutter<'a>,
    pub(super) sizes: Vec<Size>,
    pub(super) groups: Vec<Group>,
    /// What replicas and surge need beyond what frozen nodes give.
    pub(super) need: Vec<i64>,
    /// Place of each node in the order of ids.
    pub(super) rank: Vec<usize>,
    /// For each node that is left alone, the workloads of which one replica has to leave to be apart.
    pub(super) huddled: Vec<Vec<usize>>,
    /// Idle slots of each type or larger that rolling updates need.
    pub(super) reserve: Vec<i64>,
    pub(super) frozen_cards: i64,
    pub(super) frozen_cost: i64,
    /// Cards and nodes, besides frozen ones, without which replicas could not be apart.
    pub(super) least_cards: i64,
    pub(super) least_nodes: i64,
    /// Cards held back because cuts of an unknown table turned out worse than its bound.
    pub(super) slack: i64,
}

/// What one node holds: the key that makes nodes equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Content {
    size: (i64, i64),
    /// With a rule on spread, who sits where matters, so that (few) nodes are told apart.
    alone: Option<usize>,
    replicas: i64,
    misfits: i64,
    supply: Vec<i64>,
    roomy: Vec<(usize, usize, i64)>,
}

impl<'a> Fleet<'a> {
    pub(super) fn new(problem: &'a Problem) -> Result<Self, Infeasible> {
        let whole = problem.geometry.whole();
        let reserve = surge_reserve(whole, &problem.items, problem.rules.concurrent_rollouts);
        let mut planned: Vec<i64> = problem.items.iter().map(|i| i64::from(i.planned)).collect();
        let mut present = vec![0i64; problem.items.len()];
        let mut frozen_replicas = vec![0i64; problem.items.len()];
        let mut need: Vec<i64> = reserve.iter().map(|r| i64::from(*r)).collect();
        let mut by_content: BTreeMap<Content, Vec<usize>> = BTreeMap::new();
        if let Some(item) = problem.items.iter().find(|i| i.slot > whole) {
            return Err(Infeasible::Malformed(format!("`{}` needs a slice of an unknown type", item.key)));
        }
        let huddled = huddled(problem);
        let mut order: Vec<usize> = (0..problem.nodes.len()).collect();
        order.sort_by(|a, b| problem.nodes[*a].id.cmp(&problem.nodes[*b].id));
        let mut rank = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, n)| rank[*n] = place);
        let (mut frozen_cards, mut frozen_cost) = (0, 0);
        for n in order {
            let node = &problem.nodes[n];
            let content = content(problem, n, &huddled[n])?;
            for (_, item) in slots(problem, n) {
                if let Some(item) = item {
                    present[item] += 1;
                    frozen_replicas[item] += i64::from(node.frozen);
                }
            }
            if node.frozen {
                frozen_cards += content.size.0;
                frozen_cost += content.size.1;
                for (p, s) in content.supply.iter().enumerate() {
                    need[p] -= s;
                }
                // Frozen replicas stay even in slots that are too small: neither demand nor slot.
                for (slot, item) in slots(problem, n) {
                    if let Some(item) = item
                        && problem.items[item].slot > slot
                    {
                        for (p, s) in need.iter_mut().enumerate() {
                            *s += i64::from(p <= slot) - i64::from(p <= problem.items[item].slot);
                        }
                    }
                }
            } else {
                by_content.entry(content).or_default().push(n);
            }
        }
        for (p, n) in planned.iter_mut().zip(&present) {
            *p = (*p).max(*n);
        }
        // A workload that can sit on frozen nodes only is let alone.
        let apart = planned.iter().zip(&frozen_replicas).any(|(p, f)| *p >= 2 && p > f);
        let frozen_nodes = count(problem.nodes.iter().filter(|n| n.frozen).count());
        let (least_cards, least_nodes) = match problem.rules.spread {
            Spread::Gpu if apart => (2 - frozen_cards, 0),
            Spread::Node if apart => (0, 2 - frozen_nodes),
            Spread::Gpu | Spread::Node | Spread::None => (0, 0),
        };
        for (item, n) in problem.items.iter().zip(&planned) {
            need.iter_mut().take(item.slot + 1).for_each(|s| *s += n);
        }
        let mut sizes: BTreeMap<(i64, i64), i64> = BTreeMap::new();
        for (content, nodes) in &by_content {
            *sizes.entry(content.size).or_default() += count(nodes.len());
        }
        let sizes: Vec<Size> =
            sizes.into_iter().map(|((cards, cost), n_nodes)| Size { cards, cost, n_nodes }).collect();
        let mut groups: Vec<Group> = by_content
            .into_iter()
            .map(|(content, nodes)| Group {
                nodes,
                size: sizes.iter().position(|s| (s.cards, s.cost) == content.size).unwrap_or(0),
                cards: content.size.0,
                replicas: content.replicas,
                misfits: content.misfits,
                supply: content.supply,
                roomy: content.roomy,
            })
            .collect();
        groups.sort_by_key(|g| rank[g.nodes[0]]);
        let cutter = Cutter::new(&problem.geometry);
        let reserve = reserve.iter().map(|r| i64::from(*r)).collect();
        Ok(Self {
            cutter,
            sizes,
            groups,
            need,
            rank,
            huddled,
            reserve,
            frozen_cards,
            frozen_cost,
            least_cards,
            least_nodes: least_nodes.max(0),
            slack: 0,
        })
    }

    /// What has to be cut from touched cards: slots per type and, last, whole cards.
    pub(super) fn pool_slots(&self, missing: &[i64]) -> Vec<u32> {
        let mut slots = vec![0u32; missing.len()];
        let mut above = 0i64;
        for p in (0..missing.len()).rev() {
            let here = above.max(missing[p]);
            slots[p] = u32::try_from(here - above).unwrap_or(u32::MAX);
            above = here;
        }
        slots
    }

    /// Touched cards needed for what is missing.
    pub(super) fn pool_cards(&self, missing: &[i64]) -> i64 {
        let slots = self.pool_slots(missing);
        let (cut, whole) = slots.split_at(slots.len() - 1);
        let n = i64::from(self.cutter.chain.cards(cut)) + i64::from(whole[0]);
        if n > 0 { n + self.slack } else { 0 }
    }

    /// Missing slots when nothing but frozen nodes is left alone and `idle` whole cards must stay free.
    pub(super) fn missing(&self, idle: i64) -> Vec<i64> {
        self.need.iter().map(|n| n + idle).collect()
    }
}

/// Every slot of a node: its type and its holder.
pub(super) fn slots(problem: &Problem, node: usize) -> Vec<(usize, Option<usize>)> {
    problem.nodes[node].cards.iter().flat_map(|card| card_slots(problem, card)).collect()
}

/// Every slot of a card.
pub(super) fn card_slots(problem: &Problem, card: &CardState) -> Vec<(usize, Option<usize>)> {
    match card {
        CardState::Whole { item } => vec![(problem.geometry.whole(), *item)],
        CardState::Cut(slices) => slices.clone(),
    }
}

/// Dearer nodes are a mistake; up to here sums over a pool cannot overflow.
const MOST_COST: i64 = 1 << 50;

/// More nodes than this are grouped even when it matters who sits where.
const MOST_TOLD_APART: usize = 40;

/// Workloads of which a node that is left alone has to lose a replica: all of them sit together there.
fn huddled(problem: &Problem) -> Vec<Vec<usize>> {
    let mut huddled = vec![Vec::new(); problem.nodes.len()];
    if problem.rules.spread == Spread::None {
        return huddled;
    }
    let mut spots: BTreeMap<usize, Vec<(usize, usize, usize)>> = BTreeMap::new();
    for (n, node) in problem.nodes.iter().enumerate() {
        for (c, card) in node.cards.iter().enumerate() {
            let card_spot = if problem.rules.spread == Spread::Gpu { c } else { 0 };
            for (slot, item) in card_slots(problem, card) {
                if let Some(item) = item {
                    spots.entry(item).or_default().push((n, card_spot, slot));
                }
            }
        }
    }
    for (item, spots) in spots {
        let Some(spec) = problem.items.get(item) else { continue };
        let together = spots.windows(2).all(|w| w[0] == w[1]);
        // A replica planned beyond the present ones can sit elsewhere instead.
        let all = count(spots.len()) >= i64::from(spec.planned);
        let (n, _, slot) = spots[0];
        if spots.len() >= 2 && together && all && spec.slot <= slot && !problem.nodes[n].frozen {
            huddled[n].push(item);
        }
    }
    huddled
}

fn content(problem: &Problem, n: usize, huddled: &[usize]) -> Result<Content, Infeasible> {
    let node = &problem.nodes[n];
    if !(0..=MOST_COST).contains(&node.cost) {
        return Err(Infeasible::Malformed(format!("node `{}` costs {}", node.id, node.cost)));
    }
    let mut huddled = huddled.to_vec();
    let whole = problem.geometry.whole();
    for card in &node.cards {
        if let CardState::Cut(slices) = card {
            let mut counts = vec![0u32; whole];
            for (slot, _) in slices {
                *counts.get_mut(*slot).ok_or_else(|| {
                    Infeasible::Malformed(format!("node `{}` has a slice of an unknown type", node.id))
                })? += 1;
            }
            if !problem.geometry.feasible(&counts) {
                return Err(Infeasible::Malformed(format!(
                    "node `{}` has a card cut as no card can be",
                    node.id
                )));
            }
        }
    }
    let mut supply = vec![0i64; whole + 1];
    let mut roomy: BTreeMap<(usize, usize), i64> = BTreeMap::new();
    let (mut replicas, mut misfits) = (0, 0);
    for (slot, item) in slots(problem, n) {
        let own = match item {
            Some(i) => {
                let item = problem.items.get(i).filter(|i| i.slot <= whole).ok_or_else(|| {
                    Infeasible::Malformed(format!("node `{}` holds an unknown workload", node.id))
                })?;
                replicas += 1;
                if let Some(at) = huddled.iter().position(|h| *h == i) {
                    huddled.swap_remove(at);
                    misfits += 1;
                    None
                } else {
                    Some(item.slot)
                }
            }
            None => None,
        };
        // A slot counts up to its own type, or up to the type of the smaller replica in it.
        let reach = match own {
            Some(own) if own <= slot => own,
            Some(_) | None => slot,
        };
        supply.iter_mut().take(reach + 1).for_each(|s| *s += 1);
        match own {
            Some(own) if own < slot => *roomy.entry((slot, own)).or_default() += 1,
            Some(own) if own > slot => misfits += 1,
            Some(_) | None => {}
        }
    }
    Ok(Content {
        size: (count(node.cards.len()), node.cost),
        alone: (problem.rules.spread != Spread::None && problem.nodes.len() <= MOST_TOLD_APART).then_some(n),
        replicas,
        misfits,
        supply,
        roomy: roomy.into_iter().map(|((slot, own), n)| (slot, own, n)).collect(),
    })
}

/// A length as a signed number.
pub(super) fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
