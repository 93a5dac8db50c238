//! What every plan must hold; run before anything is proposed.
//!
//! Written against the plan's own words and the catalog, not against the planner, so that a fault of the planner
//! shows here.

pub(super) mod configs;

mod group;

mod new_pool;

mod seats;

mod sharing;

use std::collections::{BTreeMap, BTreeSet};

use super::{CardUse, Change, NodeFate, Plan, PoolKind, Request, SliceUse, node_pool};
use crate::catalog::layouts::{Limits, Multiset, place};
use crate::catalog::{GpuModel, ProfileName};
use crate::fit::Holds;
use crate::ids::WorkloadId;
use crate::policy::Method;

/// Every rule that the plan breaks, as sentences. Empty for a sound plan.
pub fn check(request: &Request<'_>, plan: &Plan) -> Vec<String> {
    let mut broken = Vec::new();
    names(plan, &mut broken);
    savings(request, plan, &mut broken);
    frozen(request, plan, &mut broken);
    match plan.method {
        Method::Mig => {
            match request.catalog.find(&plan.model) {
                Some(model) => {
                    slices(model, plan, &mut broken);
                    layouts(request, plan, &mut broken);
                    match plan.pool_kind {
                        PoolKind::Static => {
                            configs::configs(model, plan, &mut broken);
                            seats::seats(request, plan, &mut broken);
                        }
                        PoolKind::Elastic => group::group(request, model, plan, &mut broken),
                    }
                }
                None => broken.push(format!("the model `{}` is not in the catalog", plan.model)),
            }
            sizes(request, plan, &mut broken);
        }
        Method::TimeSlicing | Method::Mps => {
            sharing::shared_cards(request, plan, &mut broken);
            if plan.pool_kind == PoolKind::Static {
                seats::seats(request, plan, &mut broken);
            } else if request.pool.spare_cards > 0 {
                broken.push(format!(
                    "{} cards must stay idle, and every node of the group would be shared",
                    request.pool.spare_cards
                ));
            }
        }
        Method::KeepWhole => broken.push("a plan must share cards in some way".to_owned()),
    }
    selectors(request, plan, &mut broken);
    if plan.pool_kind == PoolKind::Static {
        everyone_placed(request, plan, &mut broken);
    }
    broken
}

/// Kubernetes' limits on label values and config keys, and names that refer to each other.
fn names(plan: &Plan, broken: &mut Vec<String>) {
    let valid = |name: &str| {
        !name.is_empty()
            && name.len() <= 63
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
            && name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    let mut made = BTreeSet::new();
    for change in &plan.changes {
        match change {
            Change::SetMigConfig { name, names_in_use, entries } => {
                made.insert(name.as_str());
                if !names_in_use.iter().any(|name| name == "all-disabled") {
                    broken.push(format!("the MIG config map with `{name}` would lack `all-disabled`"));
                }
                if entries.is_empty() {
                    broken.push(format!("MIG config `{name}` has no entry"));
                }
                if !valid(name) {
                    broken.push(format!("`{name}` is no valid label value"));
                }
            }
            Change::SetPluginConfig { key, .. } => {
                made.insert(key.as_str());
                if !valid(key) {
                    broken.push(format!("`{key}` is no valid label value"));
                }
            }
            Change::LabelNodes { value, .. } | Change::LabelGroup { value, .. } => {
                let ready_made = ProfileName::from_config_name(value).is_some() || value == "all-disabled";
                if !made.contains(value.as_str()) && !ready_made {
                    broken.push(format!("label value `{value}` names a config that nothing defines"));
                }
            }
            Change::AddNodePool { group, name, .. } => {
                if !node_pool::may_be_called(group.kind, name) || *name == group.name {
                    broken.push(format!("`{name}` is no name of a new {}", group.kind.name()));
                }
            }
            Change::SetWorkloadResource { .. } | Change::PinWorkload { .. } => {}
        }
    }
}

/// Totals of cards, nodes and money.
fn savings(request: &Request<'_>, plan: &Plan, broken: &mut Vec<String>) {
    let saving = &plan.saving;
    let freed: Vec<&str> = plan
        .nodes
        .iter()
        .filter(|node| node.fate == NodeFate::Freed)
        .map(|node| node.name.as_str())
        .collect();
    if freed != saving.nodes_freed.iter().map(String::as_str).collect::<Vec<_>>() {
        broken.push("the freed nodes and the saving name different nodes".to_owned());
    }
    if plan.pool_kind == PoolKind::Static {
        let in_use = |node: &super::NodeOutcome| node.before.iter().filter(|c| **c != CardUse::Idle).count();
        let before: usize = plan.nodes.iter().map(in_use).sum();
        if saving.cards_in_use_before as usize != before + saving.cards_of_autoscalers as usize {
            broken.push(format!("{before} cards are in use today, which the saving does not say"));
        }
        if saving.nodes_before as usize != plan.nodes.len()
            || saving.nodes_after as usize + freed.len() != plan.nodes.len()
        {
            broken.push("the nodes before and after are not those of the plan".to_owned());
        }
    }
    if saving.cards_in_use_before.saturating_sub(saving.cards_in_use_after) != saving.cards_freed {
        broken.push("cards before, after and freed do not add up".to_owned());
    }
    let frees = saving.cards_freed > 0 || saving.nodes_after < saving.nodes_before;
    if !frees && !plan.items.iter().any(super::Item::grows) {
        broken.push("the plan frees nothing, and nothing grows".to_owned());
    }
    if plan.pool_kind == PoolKind::Static
        && let Some(total) = &saving.per_month
    {
        let sum: i64 = request
            .inventory
            .nodes
            .iter()
            .filter(|node| freed.contains(&node.name.as_str()))
            .filter_map(|node| request.pool.price_of(node))
            .map(|price| price.per_hour.per_month_from_hour().micros)
            .sum();
        if sum != total.micros {
            broken.push("the money does not equal the prices of the freed nodes".to_owned());
        }
    }
}

fn frozen(request: &Request<'_>, plan: &Plan, broken: &mut Vec<String>) {
    for node in plan.nodes.iter().filter(|node| node.fate != NodeFate::Untouched) {
        if request.pool.frozen.contains(&node.name) {
            broken.push(format!("{} is frozen and would be changed", node.name));
        }
        for workload in &request.inventory.workloads {
            if !workload.pods.iter().any(|pod| pod.node == node.name) {
                continue;
            }
            if workload.gpus_per_pod > 1 {
                broken.push(format!("{} holds {}, whose pods take several cards", node.name, workload.id));
            }
            let opted_out = request.declared.of(&workload.id).is_some_and(|declared| declared.ignored);
            if plan.method == Method::Mig && (opted_out || workload.is_batch() || workload.id.kind == "Pod") {
                broken.push(format!("{} holds {}, whose pods are not moved", node.name, workload.id));
            }
        }
    }
}

/// Cards are cut in no more different ways than the pool allows, or than there are today.
fn layouts(request: &Request<'_>, plan: &Plan, broken: &mut Vec<String>) {
    let Some(most) = request.pool.max_layouts else { return };
    let today = n_layouts(plan.nodes.iter().flat_map(|node| &node.before));
    let then = n_layouts(plan.nodes.iter().flat_map(|node| &node.after));
    if then > today.max(most as usize) {
        broken.push(format!("cards would be cut in {then} different ways; {most} are allowed"));
    }
}

/// Different ways in which these cards are cut.
fn n_layouts<'p>(cards: impl Iterator<Item = &'p CardUse>) -> usize {
    let mut different: BTreeSet<BTreeMap<&str, u32>> = BTreeSet::new();
    for card in cards {
        let CardUse::Slices { slices } = card else { continue };
        let mut counts = BTreeMap::new();
        for slice in slices {
            *counts.entry(slice.profile.as_str()).or_default() += 1;
        }
        different.insert(counts);
    }
    different.len()
}

/// Every cut card is possible, and every pod has exactly one slice of the name it asks for.
fn slices(model: &GpuModel, plan: &Plan, broken: &mut Vec<String>) {
    let mut offered: BTreeMap<String, u32> = BTreeMap::new();
    let mut held: BTreeMap<(WorkloadId, String), u32> = BTreeMap::new();
    for node in &plan.nodes {
        for card in &node.after {
            let CardUse::Slices { slices } = card else { continue };
            match multiset(slices) {
                Ok(wanted) if place(model, &wanted, Limits::CURRENT).is_some() => {}
                Ok(_) => broken.push(format!("{}: no card can be cut into {card}", node.name)),
                Err(name) => broken.push(format!("{}: `{name}` is no profile", node.name)),
            }
            for slice in slices {
                *offered.entry(slice.profile.clone()).or_default() += 1;
                if let Some(workload) = &slice.workload {
                    *held.entry((workload.clone(), slice.profile.clone())).or_default() += 1;
                }
            }
        }
    }
    if plan.pool_kind == PoolKind::Elastic {
        return;
    }
    for item in &plan.items {
        let got = held.get(&(item.fit.workload.clone(), item.share.clone())).copied().unwrap_or(0);
        if got != item.replicas {
            broken.push(format!(
                "{} has {got} slices of `{}` for {} replicas",
                item.fit.workload, item.share, item.replicas
            ));
        }
    }
}

fn multiset(slices: &[SliceUse]) -> Result<Multiset, String> {
    let mut wanted = Multiset::new();
    for slice in slices {
        let name: ProfileName = slice.profile.parse().map_err(|_| slice.profile.clone())?;
        *wanted.entry(name).or_default() += 1;
    }
    Ok(wanted)
}

/// No slice is smaller than what its workload needs, measured anew from the profile and the catalog.
fn sizes(request: &Request<'_>, plan: &Plan, broken: &mut Vec<String>) {
    for item in &plan.items {
        let id = &item.fit.workload;
        let (Some(profile), Some(policy), Some(model)) =
            (request.measured.profiles.get(id), request.policies.get(id), request.catalog.find(&plan.model))
        else {
            broken.push(format!("{id} has no measurement or policy"));
            continue;
        };
        let name: Option<ProfileName> = item.share.parse().ok();
        let slice = name.and_then(|name| model.profile(name));
        let (Some(peak), Some(name), Some(slice)) = (&profile.peak, name, slice) else {
            broken.push(format!("{id}: `{}` is no slice of {}", item.share, model.id));
            continue;
        };
        let seen = request.measured.slice_memory.get(&plan.model_name).and_then(|seen| seen.get(&item.share));
        let usable = seen.map_or(slice.memory_min, |seen| slice.memory_min.min(*seen));
        if policy.memory_need(peak.memory) > usable {
            broken.push(format!("{id} peaks at {} and `{}` has {usable}", peak.memory, item.share));
        }
        let need = profile.compute.map(|compute| policy.compute_need_milli(compute.p99));
        match (need, slice.sm, model.sm_total) {
            (Some(need), Some(sm), Some(total))
                if u64::from(need) * u64::from(total) <= 1_000 * u64::from(sm) => {}
            // Profiling counters of slices say nothing: what it needs is not known, and it keeps as many SMs at least.
            (None, Some(sm), _) if held_sms(model, &item.fit.holds).is_some_and(|held| held <= sm) => {}
            _ => broken.push(format!("{id} needs more compute than `{}` is known to have", item.share)),
        }
        let declares = plan.changes.iter().any(|change| match change {
            Change::SetWorkloadResource { workload, to, .. } => workload == id && *to == name.resource(),
            // Where slices are called like whole cards, the pool is what is asked for.
            Change::PinWorkload { workload, selector } => {
                workload == id && new_pool::is_meant(plan, selector)
            }
            Change::SetMigConfig { .. }
            | Change::SetPluginConfig { .. }
            | Change::LabelNodes { .. }
            | Change::LabelGroup { .. }
            | Change::AddNodePool { .. } => false,
        });
        if !declares {
            broken.push(format!("{id} is to get `{}` and no change asks for it", item.share));
        }
    }
}

/// SMs of the slice that it holds. `None`: it holds a whole card, or a slice that is not known.
fn held_sms(model: &GpuModel, holds: &Holds) -> Option<u32> {
    match holds {
        Holds::Slice { profile } => model.profile(profile.parse().ok()?)?.sm,
        Holds::Whole => None,
    }
}

/// A selector that matched a node before must match one then.
fn selectors(request: &Request<'_>, plan: &Plan, broken: &mut Vec<String>) {
    if plan.pool_kind == PoolKind::Elastic {
        return;
    }
    for item in &plan.items {
        let Some(declared) = request.declared.of(&item.fit.workload) else { continue };
        let pinned = sharing::pinned(plan, &item.fit.workload);
        for (key, value) in pinned_to(plan, &item.fit.workload) {
            let other = |name: &&String| {
                let node = request.inventory.node(name);
                node.and_then(|node| node.label(key)).is_some_and(|label| label != value)
            };
            if let Some(node) = item.nodes_after.iter().find(other) {
                broken.push(format!(
                    "{} would select `{key}={value}`, which {node} does not carry",
                    item.fit.workload
                ));
            }
        }
        for (key, declared) in &declared.node_selector {
            let value = pinned.and_then(|selector| selector.get(key)).unwrap_or(declared);
            let product = key == "nvidia.com/gpu.product";
            let matches = |name: &String| {
                let Some(node) = request.inventory.node(name) else { return false };
                let Some(label) = node.label(key) else { return node.labels.is_empty() };
                let label = if product && matches!(plan.method, Method::TimeSlicing | Method::Mps) {
                    format!("{label}-SHARED")
                } else {
                    label.to_owned()
                };
                label == *value
            };
            let known = request.inventory.nodes.iter().any(|node| node.label(key).is_some());
            if known && !item.nodes_after.is_empty() && !item.nodes_after.iter().all(matches) {
                broken.push(format!(
                    "{} selects `{key}={value}`, which {} will not carry then",
                    item.fit.workload,
                    item.nodes_after.join(", ")
                ));
            }
        }
    }
}

/// Selector entries that a new resource brings along.
fn pinned_to<'p>(plan: &'p Plan, id: &WorkloadId) -> impl Iterator<Item = (&'p String, &'p String)> {
    let pins = plan.changes.iter().filter_map(move |change| match change {
        Change::SetWorkloadResource { workload, pin, .. } if workload == id => Some(pin),
        Change::SetWorkloadResource { .. }
        | Change::SetMigConfig { .. }
        | Change::SetPluginConfig { .. }
        | Change::LabelNodes { .. }
        | Change::LabelGroup { .. }
        | Change::AddNodePool { .. }
        | Change::PinWorkload { .. } => None,
    });
    pins.flatten()
}

/// Every pod that runs on the pool today has a card, a slice or a turn then.
fn everyone_placed(request: &Request<'_>, plan: &Plan, broken: &mut Vec<String>) {
    let moved: BTreeSet<&WorkloadId> = plan.items.iter().map(|item| &item.fit.workload).collect();
    for workload in &request.inventory.workloads {
        if moved.contains(&workload.id) {
            continue;
        }
        let before = holdings(plan, &workload.id, |node| &node.before);
        let after = holdings(plan, &workload.id, |node| &node.after);
        if after < before {
            broken.push(format!("{} has {before} places today and {after} then", workload.id));
        }
    }
}

fn holdings(plan: &Plan, id: &WorkloadId, cards: impl Fn(&super::NodeOutcome) -> &Vec<CardUse>) -> usize {
    let cards = plan.nodes.iter().flat_map(cards);
    cards.flat_map(seats::holders).filter(|holder| *holder == id).count()
}
