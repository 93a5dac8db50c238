//! The pool as the planner sees it: tenants, sites, and what is left out, with the reason.

use std::collections::BTreeSet;

use super::super::assign::{Site, Tenant};
use super::super::placement::{may_run, unfit};
use super::super::{Request, Weighed};
use crate::fit::Verdict;
use crate::inventory::{Node, Resources, Sharing};
use crate::units::Mib;

/// What an idle card may show as used: drivers keep some hundred MiB on large cards (metrics of A100-80 cards with
/// drivers from 510 on). More on a card that no known pod holds is somebody's. Doubled, a small process could be
/// overlooked and lose its card.
pub(in crate::plan) const IDLE_FLOOR: Mib = Mib(1_024);

/// The pool's nodes that may be planned with, its tenants, and what was left out.
pub(super) struct Land<'a> {
    pub(super) tenants: Vec<Tenant>,
    pub(super) sites: Vec<Site>,
    pub(super) nodes: Vec<&'a Node>,
    pub(super) notes: Vec<String>,
}

pub(super) fn slice_of(weighed: &Weighed<'_>) -> Option<usize> {
    weighed.held_back.is_none().then(|| weighed.chosen()?.chain_index).flatten()
}

/// Kinds whose pods are not moved: they run to an end, or nothing makes them anew.
fn must_not_move(kind: &str) -> bool {
    crate::inventory::is_batch_kind(kind) || kind == "Pod" || kind == "DaemonSet" || kind == "RayCluster"
}

pub(super) fn lay_of_the_land<'a>(request: &Request<'a>, weighed: &[Weighed<'_>]) -> Land<'a> {
    let tenants: Vec<Tenant> = weighed
        .iter()
        .map(|w| Tenant {
            key: w.workload.id.to_string(),
            slice: slice_of(w),
            planned: w.planned(),
            max_surge: w.max_surge(request.declared),
            sites: BTreeSet::new(),
            needs: w
                .pods
                .iter()
                .map(|pod| pod.requests.map(Resources::from))
                .reduce(|a, b| Some(a?.larger(b?)))
                .flatten(),
        })
        .collect();
    let mut land = Land { tenants, sites: Vec::new(), nodes: Vec::new(), notes: Vec::new() };
    for node in request.inventory.nodes.iter().filter(|node| request.pool.nodes.contains(&node.name)) {
        match site(request, weighed, node) {
            Ok(site) => {
                land.sites.push(site);
                land.nodes.push(node);
            }
            Err(why) => land.notes.push(format!("{} is left out: {why}", node.name)),
        }
    }
    for (tenant, w) in land.tenants.iter_mut().zip(weighed) {
        let fits = |node: &&Node| may_run(request, w.workload, node);
        tenant.sites = land.nodes.iter().enumerate().filter(|(_, node)| fits(node)).map(|(i, _)| i).collect();
    }
    // Tenants keep only the replicas that stand on the nodes planned with.
    for (i, tenant) in land.tenants.iter_mut().enumerate() {
        let here = land.sites.iter().flat_map(|site| &site.cards).filter(|card| **card == Some(i)).count();
        let all: usize = weighed[i].pods.iter().map(|pod| pod.cards.len()).sum();
        if here != all {
            tenant.slice = None;
            tenant.planned = u32::try_from(here).unwrap_or(u32::MAX);
        }
        if weighed[i].workload.gpus_per_pod > 1 {
            tenant.planned = u32::try_from(here).unwrap_or(u32::MAX);
        }
    }
    land
}

pub(in crate::plan) fn site(
    request: &Request<'_>,
    weighed: &[Weighed<'_>],
    node: &Node,
) -> Result<Site, String> {
    match node.sharing() {
        Sharing::Whole => {}
        Sharing::Mig => return Err("its cards are cut by MIG already".to_owned()),
        Sharing::TimeSlicing { replicas } => {
            return Err(format!("its cards are time-sliced already ({replicas} replicas)"));
        }
        Sharing::Mps { replicas } => {
            return Err(format!("its cards are shared by MPS already ({replicas} replicas)"));
        }
    }
    if let Some(why) = unfit(node) {
        return Err(why);
    }
    if node.label("nvidia.com/mig.config.state") == Some("failed") {
        return Err("its last MIG change failed".to_owned());
    }
    let mut cards: Vec<Option<usize>> = vec![None; node.cards.len()];
    let mut frozen = request.pool.frozen.contains(&node.name);
    let mut held = Resources::default();
    for (t, w) in weighed.iter().enumerate() {
        for pod in w.pods.iter().filter(|pod| pod.node == node.name) {
            if pod.cards.is_empty() {
                return Err(format!(
                    "which card {}/{} holds is not known",
                    w.workload.id.namespace, pod.name
                ));
            }
            for uuid in &pod.cards {
                let Some(index) = node.cards.iter().position(|card| card.uuid == *uuid) else {
                    return Err(format!(
                        "{}/{} holds a card that the node does not show",
                        w.workload.id.namespace, pod.name
                    ));
                };
                if cards[index].replace(t).is_some() {
                    return Err("two pods hold one card".to_owned());
                }
            }
            held = held.plus(pod.requests.unwrap_or_default().into());
            frozen |= pod.cards.len() > 1
                || w.workload.gpus_per_pod > 1
                || must_not_move(&w.workload.id.kind)
                || matches!(w.fit.verdict, Verdict::Excluded { .. });
        }
    }
    if cards.iter().all(Option::is_none) {
        return Err("no pod holds a GPU there today".to_owned());
    }
    if let Some(stranger) = request.inventory.unattributed_pods.iter().find(|pod| pod.node == node.name) {
        return Err(format!("{} asks for a GPU there, and who owns it is not known", stranger.pod));
    }
    let ghost = node
        .cards
        .iter()
        .zip(&cards)
        .find(|(card, holder)| holder.is_none() && card.used_now.is_some_and(|used| used > IDLE_FLOOR));
    if let Some((card, _)) = ghost {
        return Err(format!(
            "{} are in use on {}, which no known pod holds: a pod that sees GPUs without asking for one, perhaps",
            card.used_now.unwrap_or_default(),
            card.uuid
        ));
    }
    let room = match (node.allocatable, node.requested) {
        (Some(allocatable), Some(requested)) => Some(allocatable.minus(requested.minus(held))),
        _ => None,
    };
    let price = request.pool.price_of(node).map_or(1, |price| price.per_hour.micros.max(1));
    Ok(Site { name: node.name.clone(), cards, frozen, cost: price, room })
}
