//! A plan by MIG: which workloads get slices, how the cards are cut, and what has to differ for that.

mod land;

mod config;

mod change;

mod outcome;

mod group;

use std::collections::BTreeSet;

use super::assign::{self, Assignment, Card, Wishes};
use super::pool::{Spread, Waves};
use super::saving::{Saving, saving};
use super::{Alternative, Confidence, Goal, Plan, PoolKind, Proof, Request, Weighed, time_slicing};
use crate::catalog::{GpuModel, MigProfile};
use crate::fit::Reason;
use crate::inventory::Node;
use crate::pack::cards::fewest_cards;
use crate::pack::geometry::{Geometry, SliceType};
use crate::policy::Method;
use crate::units::{Mib, counted, thousands};
use change::changes;
pub(super) use change::label_today;
use config::Configs;
pub(super) use land::{IDLE_FLOOR, site};
use land::{Land, lay_of_the_land};
pub(super) use outcome::{item, left_alone};
use outcome::{items, outcomes};

/// Node label that the MIG manager acts on.
pub(super) const MIG_LABEL: &str = "nvidia.com/mig.config";

/// The best plan by MIG, or why there is none.
pub(super) fn plan(request: &Request<'_>, weighed: &[Weighed<'_>]) -> Result<Plan, Vec<Reason>> {
    let (model_name, model) = one_model(request, weighed)?;
    let chain = model.plain_profiles();
    let geometry = geometry(model, &chain);
    match request.pool.kind {
        PoolKind::Static => by_node(request, weighed, &model_name, model, &chain, &geometry),
        PoolKind::Elastic => group::by_group(request, weighed, &model_name, model, &chain, &geometry),
    }
}

/// The pool's one card model. Pools of several are left alone: one config cannot serve them.
pub(super) fn one_model<'a>(
    request: &Request<'a>,
    weighed: &[Weighed<'_>],
) -> Result<(String, &'a GpuModel), Vec<Reason>> {
    let names: BTreeSet<&str> = request
        .inventory
        .nodes
        .iter()
        .filter(|node| request.pool.nodes.contains(&node.name))
        .flat_map(Node::model_names)
        .collect();
    let models: BTreeSet<&str> = weighed.iter().filter_map(|w| w.fit.model.as_deref()).collect();
    let mut known = names.iter().filter_map(|name| Some((*name, request.catalog.find_by_product(name)?)));
    match (names.len(), models.len(), known.next()) {
        (1, 1, Some((name, model))) => Ok((name.to_owned(), model)),
        _ => Err(vec![
            Reason::new(
                "several-models",
                format!("the pool mixes card models: {}", names.into_iter().collect::<Vec<_>>().join(", ")),
            )
            .with_advice("name a pool a model under `pools:` in the configuration"),
        ]),
    }
}

fn geometry(model: &GpuModel, chain: &[&MigProfile]) -> Geometry {
    Geometry {
        memory_slices: model.memory_slices,
        types: chain
            .iter()
            .map(|profile| SliceType {
                name: profile.name.to_string(),
                compute_slices: profile.compute_slices,
                memory_slices: profile.size,
                starts: profile.starts.clone(),
                max_instances: profile.max_instances,
            })
            .collect(),
    }
}

fn by_node(
    request: &Request<'_>,
    weighed: &[Weighed<'_>],
    model_name: &str,
    model: &GpuModel,
    chain: &[&MigProfile],
    geometry: &Geometry,
) -> Result<Plan, Vec<Reason>> {
    let land = lay_of_the_land(request, weighed);
    let wishes = Wishes {
        goal: request.pool.goal,
        spread: request.pool.spread,
        spare_cards: request.pool.spare_cards,
        concurrent_rollouts: request.pool.concurrent_rollouts,
        waves: request.pool.waves,
    };
    let Some(found) = assign::assign(geometry, &land.tenants, &land.sites, wishes) else {
        let with_downtime = Wishes { waves: Waves::AllowDowntime, ..wishes };
        return Err(match assign::assign(geometry, &land.tenants, &land.sites, with_downtime) {
            Some(found) => vec![needs_downtime(request, &land, &found)],
            None => nothing_gained(geometry, &land, request),
        });
    };
    let configs = Configs::new(request, model_name, model, geometry, &found);
    let mut plan = skeleton(request, weighed, &found.converted, model_name, model);
    plan.notes = land.notes.clone();
    plan.notes.extend(others_on_drained_nodes(&land, &found));
    plan.changes = changes(request, weighed, &land, &found, &configs, chain, model_name);
    plan.nodes = outcomes(request, weighed, &land, &found, geometry);
    plan.items = items(request, weighed, &land, &found, geometry, chain);
    plan.proof = proof(&land, &found);
    plan.alternatives = alternatives(request, weighed, &found);
    plan.saving =
        saving(request, &plan.nodes, assign::autoscaled(&land.tenants, &land.sites, &found.converted));
    if found.spread < request.pool.spread {
        plan.notes.push(format!(
            "the replicas of some workloads could not be spread over two {}s: one failure takes all of them",
            if request.pool.spread == Spread::Node { "node" } else { "card" }
        ));
    }
    Ok(plan)
}

/// Pods without a GPU that are drained along, DaemonSets among them; what they ask for is all that is known of them.
fn others_on_drained_nodes(land: &Land<'_>, found: &Assignment) -> Vec<String> {
    found
        .freed
        .iter()
        .chain(&found.touched)
        .filter_map(|&i| {
            let others = land.nodes[i].allocatable?.minus(land.sites[i].room?);
            (others.cpu_milli > 0 || others.memory_bytes > 0).then(|| {
                format!(
                    "pods without a GPU ask for {} mCPU and {} of memory on {}, DaemonSets among them: the others are \
                     drained along and need room elsewhere",
                    thousands(others.cpu_milli),
                    Mib::from_bytes_ceil(others.memory_bytes),
                    land.nodes[i].name
                )
            })
        })
        .collect()
}

/// The only plans take all replicas of a workload down, which the pool's rules do not allow.
fn needs_downtime(request: &Request<'_>, land: &Land<'_>, found: &Assignment) -> Reason {
    let nodes: Vec<&str> = found.touched.iter().map(|i| land.sites[*i].name.as_str()).collect();
    Reason::new(
        "needs-downtime",
        format!(
            "{} would have to be drained, with every replica of some workload on {} (`waves` allows {})",
            nodes.join(", "),
            if nodes.len() == 1 { "it" } else { "them" },
            match request.pool.waves {
                Waves::SingleReplica => "that for workloads of one replica alone",
                Waves::NoDowntime => "it for nobody",
                Waves::AllowDowntime => "it",
            }
        ),
    )
    .with_advice("set `waves: allow-downtime` for the pool, or give the workload a replica on another node")
}

/// Why slices bring nothing.
fn nothing_gained(geometry: &Geometry, land: &Land<'_>, request: &Request<'_>) -> Vec<Reason> {
    let held = land.sites.iter().flat_map(|site| &site.cards).filter(|card| card.is_some()).count();
    let in_use = held + assign::autoscaled(&land.tenants, &land.sites, &BTreeSet::new()).before as usize;
    let everything: Vec<u32> = (0..=geometry.whole())
        .map(|slot| {
            land.tenants
                .iter()
                .filter(|tenant| tenant.slice.unwrap_or(geometry.whole()) == slot)
                .map(|tenant| tenant.planned)
                .sum()
        })
        .collect();
    let needed = fewest_cards(geometry, &everything);
    let mut reason = Reason::new(
        "nothing-gained",
        format!(
            "slices would need {} of the {in_use} cards that pods hold or autoscalers may add, and that frees no whole {}",
            counted(needed.n_cards as usize, "card"),
            if request.pool.goal == Goal::Bill { "node" } else { "card" }
        ),
    );
    if request.pool.goal == Goal::Bill && (needed.n_cards as usize) < in_use {
        reason = reason.with_advice("set `goal: capacity` for the pool to free cards on nodes that stay");
    }
    let mut reasons = vec![reason];
    reasons.extend(land.notes.iter().map(|note| Reason::new("node-left-out", note.clone())));
    reasons
}

fn skeleton(
    request: &Request<'_>,
    weighed: &[Weighed<'_>],
    converted: &BTreeSet<usize>,
    model_name: &str,
    model: &GpuModel,
) -> Plan {
    Plan {
        pool: request.pool.id.clone(),
        pool_kind: request.pool.kind,
        goal: request.pool.goal,
        model: model.id.clone(),
        model_name: model_name.to_owned(),
        method: Method::Mig,
        changes: Vec::new(),
        items: Vec::new(),
        kept: weighed
            .iter()
            .enumerate()
            .filter(|(i, _)| !converted.contains(i))
            .map(|(_, w)| {
                let mut kept = w.kept();
                if kept.reasons.is_empty() {
                    kept.reasons.push(Reason::new(
                        "not-needed",
                        "would fit a slice, but moving it frees nothing more for its restart",
                    ));
                }
                kept
            })
            .collect(),
        nodes: Vec::new(),
        saving: Saving::default(),
        proof: Proof { n_cards: 0, proven: false, sentences: Vec::new() },
        alternatives: Vec::new(),
        rollout: Vec::new(),
        rollback: Vec::new(),
        risks: Vec::new(),
        confidence: Confidence::Low,
        confidence_reason: String::new(),
        notes: Vec::new(),
        overrides: Vec::new(),
        fingerprint: String::new(),
    }
}

fn proof(land: &Land<'_>, found: &Assignment) -> Proof {
    let mut sentences = Vec::new();
    let certificate = &found.cut.certificate;
    let mut rows: Vec<_> = certificate.rows.iter().enumerate().collect();
    rows.sort_by_key(|(i, row)| (Some(*i) != certificate.binding, std::cmp::Reverse(row.n_cards), *i));
    for (i, row) in rows.into_iter().filter(|(_, row)| row.needed > 0) {
        let binding = Some(i) == certificate.binding;
        sentences.push(if binding { format!("{row}; no plan can use fewer") } else { format!("also {row}") });
    }
    let whole_then = found.cards.iter().flatten().filter(|card| matches!(card, Card::Whole(Some(_)))).count();
    if whole_then > 0 {
        sentences.push(format!("{} stay whole", counted(whole_then, "card")));
    }
    let kept = land.sites.len() - found.freed.len();
    let most = assign::fewest_nodes(&land.sites, found.fewest.n_cards) as usize;
    if !found.freed.is_empty() {
        sentences.push(if kept == most {
            format!(
                "even if every workload that may were moved into slices, the pool would need {} and so {}: no plan \
                 can keep fewer",
                counted(found.fewest.n_cards as usize, "card"),
                counted(most, "node")
            )
        } else {
            format!(
                "every plan keeps {} at least; this one keeps {kept}, and whether fewer would do is not proven",
                counted(most, "node")
            )
        });
    }
    let n_cut = found.cards.iter().flatten().filter(|card| matches!(card, Card::Cut(_))).count();
    let cut_proven = certificate.proven && n_cut as u64 == u64::from(found.cut.n_cards - certificate.whole);
    Proof {
        n_cards: u32::try_from(n_cut + whole_then).unwrap_or(u32::MAX),
        proven: cut_proven && (found.freed.is_empty() || kept == most),
        sentences,
    }
}

/// Time-slicing where policy allows it for all that move, and doing nothing.
fn alternatives(request: &Request<'_>, weighed: &[Weighed<'_>], found: &Assignment) -> Vec<Alternative> {
    let moved: Vec<&Weighed<'_>> = found.converted.iter().map(|i| &weighed[*i]).collect();
    vec![time_slicing::alternative(request, &moved), nothing(&moved)]
}

/// Leaving things as they are.
pub(super) fn nothing(moved: &[&Weighed<'_>]) -> Alternative {
    let held = |w: &&Weighed<'_>| w.pods.iter().map(|pod| pod.cards.len()).sum::<usize>();
    let cards: usize = moved.iter().map(|w| held(w).max(w.planned() as usize)).sum();
    Alternative {
        name: "nothing".to_owned(),
        n_cards: u32::try_from(cards).ok(),
        reason: format!(
            "keeps {} for {} that would fit less",
            counted(cards, "whole card"),
            counted(moved.len(), "workload")
        ),
    }
}
