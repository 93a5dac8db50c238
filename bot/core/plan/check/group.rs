//! Whether one layout for a whole group of nodes holds everybody who moves to it, and who may not be moved is not.

use std::collections::{BTreeMap, BTreeSet};

use super::super::mig::{MIG_LABEL, label_today, must_not_move};
use super::super::{Change, MigEntry, Plan, Request};
use super::configs::cut_by;
use super::new_pool;
use crate::catalog::layouts::{Limits, Multiset, place};
use crate::catalog::{GpuModel, ProfileName};
use crate::fit::Verdict;
use crate::ids::WorkloadId;
use crate::inventory::{Node, Workload};
use crate::units::counted;

/// Slices of one card by profile.
type Layout = BTreeMap<ProfileName, u32>;

/// Rules for a MIG plan of a pool whose nodes come and go.
pub(super) fn group(request: &Request<'_>, model: &GpuModel, plan: &Plan, broken: &mut Vec<String>) {
    money(request, plan, broken);
    frozen_pods(request, plan, broken);
    new_pool::apart(request, plan, broken);
    match layout(request, model, plan) {
        Ok(layout) => holds_everybody(request, model, plan, &layout, broken),
        Err(why) => broken.push(why),
    }
}

/// Fewer nodes, at the lowest price that a node of the group has.
fn money(request: &Request<'_>, plan: &Plan, broken: &mut Vec<String>) {
    let saving = &plan.saving;
    let Some(fewer) = saving.nodes_before.checked_sub(saving.nodes_after).filter(|fewer| *fewer > 0) else {
        broken.push(format!(
            "the group has {} nodes and would have {}: nothing is gained",
            saving.nodes_before, saving.nodes_after
        ));
        return;
    };
    let lowest = request.pool.prices.values().map(|price| &price.per_hour).min();
    let expected = lowest.map(|price| price.times(i64::from(fewer)).per_month_from_hour());
    if saving.per_month != expected {
        broken.push(format!("the money does not equal the price of {}", counted(fewer as usize, "node")));
    }
}

/// The pool's nodes.
fn nodes<'r>(request: &'r Request<'_>) -> impl Iterator<Item = &'r Node> {
    request.inventory.nodes.iter().filter(|node| request.pool.nodes.contains(&node.name))
}

/// The node, or a pod on it, must stay where it is.
fn is_frozen(request: &Request<'_>, plan: &Plan, node: &str) -> bool {
    let stays = |workload: &&Workload| {
        let excluded = |kept: &super::super::Kept| {
            kept.fit.workload == workload.id && matches!(kept.fit.verdict, Verdict::Excluded { .. })
        };
        workload.gpus_per_pod > 1
            || must_not_move(&workload.id.kind)
            || workload.pods.iter().any(|pod| pod.node == node && pod.cards.len() + pod.slices.len() > 1)
            || plan.kept.iter().any(excluded)
    };
    request.pool.frozen.contains(node)
        || request
            .inventory
            .workloads
            .iter()
            .filter(|workload| workload.pods.iter().any(|pod| pod.node == node))
            .any(|workload| stays(&workload))
}

/// Nobody with a pod on a node that must stay as it is asks for something else then.
fn frozen_pods(request: &Request<'_>, plan: &Plan, broken: &mut Vec<String>) {
    for id in plan.items.iter().map(|item| &item.fit.workload) {
        let pods = request.inventory.workload(id).into_iter().flat_map(|workload| &workload.pods);
        let on: BTreeSet<&str> = pods.map(|pod| pod.node.as_str()).collect();
        if let Some(node) = on.into_iter().find(|node| is_frozen(request, plan, node)) {
            broken.push(format!("{id} has a pod on {node}, which must stay as it is, and would change"));
        }
    }
}

/// What the group's label cuts every card into.
fn layout(request: &Request<'_>, model: &GpuModel, plan: &Plan) -> Result<Layout, String> {
    let mut own: BTreeMap<&str, &[MigEntry]> = BTreeMap::new();
    let mut label = None;
    for change in &plan.changes {
        match change {
            Change::SetMigConfig { name, entries, .. } => {
                own.insert(name, entries);
            }
            Change::LabelGroup { key, value, .. } if key == MIG_LABEL => label = Some(value.clone()),
            Change::AddNodePool { group, cards, .. } => return new_pool::layout(model, group, cards),
            Change::LabelGroup { .. }
            | Change::LabelNodes { .. }
            | Change::SetPluginConfig { .. }
            | Change::PinWorkload { .. }
            | Change::SetWorkloadResource { .. } => {}
        }
    }
    // A group that carries the label already needs no change of it.
    let label = label.or_else(|| nodes(request).find_map(|node| label_today(request, node, MIG_LABEL)));
    let label = label.ok_or("no label says how the cards of the group are cut")?;
    let n_cards = nodes(request).map(|node| node.cards.len()).max().unwrap_or(1);
    let unclear = || format!("`{label}` does not cut all cards of the group alike");
    let cards = cut_by(model, &own, &label, n_cards).ok_or_else(unclear)?;
    let (first, rest) = cards.split_first().ok_or_else(unclear)?;
    if first.is_empty() || rest.iter().any(|card| card != first) {
        return Err(unclear());
    }
    let mut layout = Layout::new();
    for (profile, n) in first {
        let name = named(model, profile).ok_or_else(|| format!("`{profile}` is no profile"))?;
        *layout.entry(name).or_default() += n;
    }
    // More than a byte can count is more than any card holds.
    let wanted: Multiset =
        layout.iter().map(|(name, n)| (*name, u8::try_from(*n).unwrap_or(u8::MAX))).collect();
    match place(model, &wanted, Limits::CURRENT) {
        Some(_) => Ok(layout),
        None => Err(format!("no card can be cut as `{label}` says")),
    }
}

/// The catalog's name of a profile, whichever of its names is given.
fn named(model: &GpuModel, profile: &str) -> Option<ProfileName> {
    Some(model.profile(profile.parse().ok()?)?.name)
}

/// The cut cards have a slice for every replica, and free ones for rolling updates.
fn holds_everybody(
    request: &Request<'_>,
    model: &GpuModel,
    plan: &Plan,
    layout: &Layout,
    broken: &mut Vec<String>,
) {
    let moves: BTreeSet<&WorkloadId> = plan.items.iter().map(|item| &item.fit.workload).collect();
    let mut needed: BTreeMap<ProfileName, u64> = BTreeMap::new();
    let mut surges: BTreeMap<ProfileName, Vec<u32>> = BTreeMap::new();
    for item in &plan.items {
        let Some(name) = named(model, &item.share).filter(|name| layout.contains_key(name)) else {
            broken.push(format!(
                "{} asks for `{}`, which no card of the group offers",
                item.fit.workload, item.share
            ));
            continue;
        };
        *needed.entry(name).or_default() += u64::from(item.replicas);
        surges.entry(name).or_default().push(item.max_surge);
    }
    for (name, mut surges) in surges {
        surges.sort_unstable_by(|a, b| b.cmp(a));
        let at_once = surges.iter().take(request.pool.concurrent_rollouts as usize);
        *needed.entry(name).or_default() += at_once.map(|surge| u64::from(*surge)).sum::<u64>();
    }
    let frozen: BTreeSet<&str> =
        nodes(request).map(|node| node.name.as_str()).filter(|name| is_frozen(request, plan, name)).collect();
    let cards: BTreeMap<&str, (&str, &crate::inventory::Card)> = nodes(request)
        .flat_map(|node| node.cards.iter().map(|card| (card.uuid.as_str(), (node.name.as_str(), card))))
        .collect();
    let mut stay: BTreeSet<&str> = cards
        .iter()
        .filter(|(_, (node, card))| card.is_cut() && frozen.contains(node))
        .map(|(uuid, _)| *uuid)
        .collect();
    for workload in request.inventory.workloads.iter().filter(|workload| !moves.contains(&workload.id)) {
        for pod in &workload.pods {
            stay.extend(pod.cards.iter().map(String::as_str).filter(|uuid| cards.contains_key(uuid)));
            if frozen.contains(pod.node.as_str()) {
                continue;
            }
            // Slices that somebody keeps are there on the new nodes too.
            for id in &pod.slices {
                let slices = cards.get(id.card.as_str()).into_iter().flat_map(|(_, card)| &card.slices);
                let slice = slices.filter(|slice| slice.id == id.id).find_map(|s| named(model, &s.profile));
                if let Some(name) = slice {
                    *needed.entry(name).or_default() += 1;
                }
            }
        }
    }
    let n_cut = u64::from(plan.proof.n_cards).saturating_sub(stay.len() as u64);
    for (name, needed) in needed {
        let offered = n_cut * u64::from(layout.get(&name).copied().unwrap_or(0));
        if offered < needed {
            broken.push(format!("{needed} slices of `{name}` are needed, and the cut cards, {n_cut} in number, offer {offered}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::{Cluster, three_services};
    use super::*;
    use crate::plan::PoolKind;

    fn cluster() -> Cluster {
        let mut cluster = three_services();
        cluster.pool.kind = Some(PoolKind::Elastic);
        cluster
    }

    /// The rules that the plan breaks once it is changed.
    #[track_caller]
    fn check(change: impl FnOnce(&mut Plan), expected: &[&str]) {
        let cluster = cluster();
        let mut plan = cluster.must_plan();
        change(&mut plan);
        assert_eq!(cluster.broken(&plan), expected);
    }

    fn relabel(plan: &mut Plan, to: &str) {
        for change in &mut plan.changes {
            if let Change::LabelGroup { value, .. } = change {
                *value = to.to_owned();
            }
        }
    }

    fn own(plan: &mut Plan, cards: Vec<u32>, instances: &[(&str, u32)]) {
        relabel(plan, "own-1");
        let instances = instances.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        let change = Change::SetMigConfig {
            name: "own-1".into(),
            entries: vec![MigEntry { cards, instances }],
            names_in_use: vec!["all-disabled".into()],
        };
        plan.changes.insert(0, change);
    }

    #[test]
    fn the_label_offers_what_the_pods_ask_for() {
        check(
            |plan| relabel(plan, "all-3g.20gb"),
            &[
                "search/classify-svc asks for `2g.10gb`, which no card of the group offers",
                "search/embed-svc asks for `2g.10gb`, which no card of the group offers",
                "search/ocr-svc asks for `2g.10gb`, which no card of the group offers",
            ],
        );
    }

    #[test]
    fn a_config_that_no_card_can_have_is_refused() {
        check(|plan| own(plan, Vec::new(), &[("2g.10gb", 4)]), &["no card can be cut as `own-1` says"]);
    }

    #[test]
    fn a_config_that_cuts_no_card_is_refused() {
        let refused = ["`own-1` does not cut all cards of the group alike"];
        check(|plan| own(plan, Vec::new(), &[]), &refused);
        check(|plan| own(plan, vec![1], &[("2g.10gb", 3)]), &refused);
    }

    #[test]
    fn cards_hold_every_replica_and_its_rolling_update() {
        check(
            |plan| plan.items[0].max_surge = 1,
            &["4 slices of `2g.10gb` are needed, and the cut cards, 1 in number, offer 3"],
        );
        check(
            |plan| plan.proof.n_cards = 0,
            &["3 slices of `2g.10gb` are needed, and the cut cards, 0 in number, offer 0"],
        );
    }

    #[test]
    fn nodes_go_and_the_money_is_theirs() {
        check(
            |plan| plan.saving.nodes_after = 3,
            &["the group has 3 nodes and would have 3: nothing is gained"],
        );
        check(|plan| plan.saving.nodes_after = 2, &["the money does not equal the price of 1 node"]);
    }

    #[test]
    fn nobody_on_a_frozen_node_changes() {
        let mut cluster = cluster();
        let plan = cluster.must_plan();
        cluster.pool.frozen_nodes.insert("gpu-08".into());
        let frozen = "has a pod on gpu-08, which must stay as it is, and would change";
        assert_eq!(cluster.broken(&plan), [format!("search/classify-svc {frozen}")]);
    }
}
