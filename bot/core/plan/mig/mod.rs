//! A plan by MIG: which workloads get slices, how the cards are cut, and what has to differ for that.

mod land;

mod config;

mod change;

mod outcome;

mod few;

mod group;

mod media;

use std::collections::BTreeSet;

use super::place::{self, Answer, Bound, Card, Placement, Wishes};
use super::pool::Waves;
use super::saving::{Autoscaled, saving};
use super::{Alternative, Goal, Plan, PoolKind, Proof, Request, Weighed, ground};
use crate::catalog::{Attribute, DriverVersion, GpuModel, MigProfile};
use crate::fit::{Holds, Reason};
use crate::inventory::Node;
use crate::pack::Fate;
use crate::pack::geometry::{Geometry, SliceType};
use crate::policy::Method;
use crate::units::{Mib, counted, first_few, thousands};
use change::changes;
pub(super) use change::label_today;
use config::Configs;
pub(super) use land::{Crew, IDLE_FLOOR, crew, must_not_move, site};
use land::{Land, lay_of_the_land};
pub(super) use outcome::{item, left_alone};
use outcome::{items, outcomes};

/// Node label that the MIG manager acts on.
pub(in crate::plan) const MIG_LABEL: &str = "nvidia.com/mig.config";

/// A pool of one card model that can be cut.
pub(super) struct Mig<'a, 'w> {
    request: &'w Request<'a>,
    weighed: &'w [Weighed<'a>],
    /// Product name of the cards, as DCGM prints it.
    model_name: String,
    model: &'w GpuModel,
    /// Profiles that a fit may choose, smallest first.
    chain: Vec<&'w MigProfile>,
    /// The same for the packer.
    geometry: Geometry,
}

/// The best plan by MIG, or why there is none.
pub(super) fn plan(request: &Request<'_>, weighed: &[Weighed<'_>]) -> Result<Plan, Vec<Reason>> {
    let (model_name, model) = one_model(request, weighed)?;
    let driver = ground::ground(request, Some(&model_name), request.catalog.find(&model.id)).driver;
    let (chain, mut weighed) = chain_in_use(&model, driver.as_deref(), weighed);
    let geometry = geometry(&model, &chain);
    media::raise(&mut weighed, &chain, &geometry);
    let (model, weighed) = (&model, weighed.as_slice());
    let mig = Mig { request, weighed, model_name, model, chain, geometry };
    match request.pool.kind {
        PoolKind::Static if request.pool.max_layouts.is_some() => few::within_layouts(&mig),
        PoolKind::Static => by_node(&mig),
        PoolKind::Elastic => group::by_group(&mig),
    }
}

/// The profiles that this pool is planned with, and the workloads with their candidates counted among those.
///
/// A profile with media engines is there only where a workload was given it or holds it: nobody else may land on it, and
/// the proof of the plain profiles holds without it. What the pool's driver cannot make is not there for anybody.
fn chain_in_use<'m, 'w>(
    model: &'m GpuModel,
    driver: Option<&str>,
    weighed: &[Weighed<'w>],
) -> (Vec<&'m MigProfile>, Vec<Weighed<'w>>) {
    let mut weighed = weighed.to_vec();
    let wanted = |name: &str| {
        weighed.iter().any(|w| match &w.fit.holds {
            Holds::Slice { profile } if profile == name => true,
            Holds::Slice { .. } | Holds::Whole => w.chosen().is_some_and(|chosen| chosen.name == name),
        })
    };
    let driver: Option<DriverVersion> = driver.and_then(|text| text.parse().ok());
    let made = driver.map_or_else(|| model.chain(), |driver| model.chain_on(&driver));
    let chain: Vec<&MigProfile> = made
        .into_iter()
        .filter(|profile| profile.name.attribute == Attribute::Plain || wanted(&profile.name.to_string()))
        .collect();
    for candidate in weighed.iter_mut().flat_map(|w| &mut w.fit.considered) {
        let place = || chain.iter().position(|profile| profile.name.to_string() == candidate.name);
        candidate.chain_index = candidate.chain_index.and_then(|_| place());
    }
    (chain, weighed)
}

/// The pool's one card model. Pools of several are left alone: one config cannot serve them.
/// Its profiles are called as the pool's drivers call them.
pub(super) fn one_model(
    request: &Request<'_>,
    weighed: &[Weighed<'_>],
) -> Result<(String, GpuModel), Vec<Reason>> {
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
        (1, 1, Some((name, model))) => {
            let here = ground::ground(request, Some(name), Some(model)).model_here(model);
            Ok((name.to_owned(), here))
        }
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

fn by_node(mig: &Mig<'_, '_>) -> Result<Plan, Vec<Reason>> {
    let (request, pool) = (mig.request, mig.request.pool);
    let land = lay_of_the_land(mig);
    let wishes = Wishes {
        goal: pool.goal,
        spare_cards: pool.spare_cards,
        concurrent_rollouts: pool.concurrent_rollouts,
        waves: pool.waves,
        max_layouts: pool.max_layouts,
    };
    let (found, bound) = match place::place(&mig.geometry, &land.tenants, &land.sites, wishes) {
        Answer::Gain(found, bound) => (found, bound),
        Answer::NoOrder { nodes, down, borrowed } => {
            return Err(vec![needs_downtime(request, &nodes, &down, borrowed)]);
        }
        Answer::Nothing(bound) => return Err(nothing_gained(mig, &land, &bound)),
    };
    let configs = Configs::new(mig, &found);
    let mut plan = Plan::of(request, Method::Mig, mig.model, &mig.model_name);
    plan.kept = kept_here(mig, &land, &found);
    plan.notes = land.notes.clone();
    plan.notes.extend(others_on_drained_nodes(&land, &found));
    plan.notes.extend(still_together(&land, &found));
    plan.changes = changes(mig, &land, &found, &configs);
    plan.nodes = outcomes(mig, &land, &found);
    plan.items = items(mig, &land, &found);
    plan.waves = waves(mig, &land, &found);
    plan.proof = proof(mig, &land, &found, &bound);
    let moved: Vec<&Weighed<'_>> = found.converted.iter().map(|i| &mig.weighed[*i]).collect();
    plan.alternatives = vec![nothing(&moved)];
    plan.saving = saving(request, &plan.nodes, autoscaled(mig, &land, &found.converted));
    Ok(plan)
}

/// Workloads that stay as they are, with the reason.
fn kept(weighed: &[Weighed<'_>], converted: &BTreeSet<usize>) -> Vec<super::Kept> {
    let stays = weighed.iter().enumerate().filter(|(i, _)| !converted.contains(i));
    stays
        .map(|(_, w)| {
            let mut kept = w.kept();
            if kept.reasons.is_empty() {
                kept.reasons
                    .push(Reason::new("not-needed", "moving it would restart it and free nothing more"));
            }
            kept
        })
        .collect()
}

/// As [`kept`], where the nodes tell more.
fn kept_here(mig: &Mig<'_, '_>, land: &Land<'_>, found: &Placement) -> Vec<super::Kept> {
    let mut weighed = mig.weighed.to_vec();
    for (i, w) in weighed.iter_mut().enumerate() {
        let frozen = land
            .sites
            .iter()
            .find(|site| site.frozen && site.cards.iter().flat_map(Card::holders).any(|holder| holder == i));
        if land::slice_of(w).is_none() || found.converted.contains(&i) {
            continue;
        }
        if let Some(site) = frozen {
            let why = format!(
                "a pod of it stands on {}, which must not change: it is frozen, or holds pods that are not moved",
                site.name
            );
            w.held_back = Some(Reason::new("frozen-node", why));
        } else if land.tenants[i].elsewhere > 0 {
            let why = "some of its pods stand on nodes that are left out, and one pod template serves all";
            w.held_back = Some(Reason::new("node-left-out", why));
        }
    }
    kept(&weighed, &found.converted)
}

/// Whole cards that autoscalers may add: today, and for those that keep whole cards.
fn autoscaled(mig: &Mig<'_, '_>, land: &Land<'_>, converted: &BTreeSet<usize>) -> Autoscaled {
    let holders = |i: usize| {
        land.sites.iter().flat_map(|site| &site.cards).flat_map(Card::holders).filter(|t| *t == i).count()
    };
    let missing: Vec<(usize, u32)> = land
        .tenants
        .iter()
        .enumerate()
        .filter(|(_, tenant)| tenant.now == mig.geometry.whole())
        .map(|(i, tenant)| (i, tenant.planned.saturating_sub(place::count(holders(i)))))
        .collect();
    Autoscaled {
        before: missing.iter().map(|(_, n)| n).sum(),
        after: missing.iter().filter(|(i, _)| !converted.contains(i)).map(|(_, n)| n).sum(),
    }
}

/// The waves of a placement in the plan's words.
fn waves(mig: &Mig<'_, '_>, land: &Land<'_>, found: &Placement) -> Vec<super::Wave> {
    let names = |tenants: &BTreeSet<usize>| {
        tenants.iter().map(|tenant| mig.weighed[*tenant].workload.id.clone()).collect()
    };
    found
        .waves
        .iter()
        .map(|wave| super::Wave {
            nodes: wave.sites.iter().map(|site| land.sites[*site].name.clone()).collect(),
            down: names(&wave.down),
            fewer: names(&wave.fewer),
            borrowed: wave.borrowed,
        })
        .collect()
}

/// Replicas that stood on one node and do so then, although they should be apart.
fn still_together(land: &Land<'_>, found: &Placement) -> Option<String> {
    let names: Vec<&str> = found.together.iter().map(|tenant| land.tenants[*tenant].key.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "all replicas stand on one node, as they do today: one failure takes all of them: {}",
            first_few(&names, 3, ", ")
        )
    })
}

/// Pods without a GPU that are drained along, DaemonSets among them; what they ask for is all that is known of them.
fn others_on_drained_nodes(land: &Land<'_>, found: &Placement) -> Vec<String> {
    let drained = |i: &usize| found.fates[*i] != Fate::Untouched;
    (0..land.sites.len())
        .filter(drained)
        .filter_map(|i| {
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
fn needs_downtime(request: &Request<'_>, nodes: &[String], down: &[String], borrowed: u32) -> Reason {
    let price = request.pool.prices.values().map(|price| &price.per_hour).max();
    let price = price.map_or_else(String::new, |price| format!(", at {price} an hour each"));
    Reason::new(
        "needs-downtime",
        format!(
            "{} would have to be drained, and {} would have no pod meanwhile (`waves` allows {})",
            first_few(nodes, 5, ", "),
            first_few(down, 3, ", "),
            match request.pool.waves {
                Waves::SingleReplica => "that for workloads of one replica alone",
                Waves::NoDowntime => "it for nobody",
                Waves::Borrow | Waves::AllowDowntime => "it",
            }
        ),
    )
    .with_advice(format!(
        "set `waves: borrow` for the pool: {} more for the duration{price} would keep everybody up; or set `waves: \
         allow-downtime`, or give the workload a replica on another node",
        counted(borrowed as usize, "node")
    ))
}

/// Why slices bring nothing.
fn nothing_gained(mig: &Mig<'_, '_>, land: &Land<'_>, bound: &Bound) -> Vec<Reason> {
    let in_use = land.sites.iter().flat_map(|site| &site.cards).filter(|card| card.in_use()).count()
        + autoscaled(mig, land, &BTreeSet::new()).before as usize;
    let goal = mig.request.pool.goal;
    let mut reason = Reason::new(
        "nothing-gained",
        format!(
            "slices would need {} at least of the {in_use} that pods hold or autoscalers may add, and no way was found \
             that frees a whole {}",
            counted(bound.n_busy as usize, "card"),
            if goal == Goal::Bill { "node" } else { "card" }
        ),
    );
    if goal == Goal::Bill && (bound.n_busy as usize) < in_use {
        reason = reason.with_advice("set `goal: capacity` for the pool to free cards on nodes that stay");
    }
    let mut reasons = vec![reason];
    reasons.extend(land.notes.iter().map(|note| Reason::new("node-left-out", note.clone())));
    reasons
}

/// Why the cuts cannot be fewer, and the nodes that stay neither; or how far from the bound it is.
fn proof(mig: &Mig<'_, '_>, land: &Land<'_>, found: &Placement, bound: &Bound) -> Proof {
    let mut sentences = Vec::new();
    let certificate = &found.cut.certificate;
    let mut rows: Vec<_> = certificate.rows.iter().enumerate().collect();
    rows.sort_by_key(|(i, row)| (Some(*i) != certificate.binding, std::cmp::Reverse(row.n_cards), *i));
    for (i, row) in rows.into_iter().filter(|(_, row)| row.needed > 0) {
        let binding = Some(i) == certificate.binding;
        sentences.push(if binding {
            format!("{row}; these slices fit on no fewer")
        } else {
            format!("also {row}")
        });
    }
    let cut_anew = |i: &usize| found.fates[*i] == Fate::Touched;
    let is_cut = |card: &&Card| matches!(card, Card::Cut(_));
    let n_new: usize =
        (0..land.sites.len()).filter(cut_anew).map(|i| found.cards[i].iter().filter(is_cut).count()).sum();
    let more = n_new.saturating_sub(found.cut.n_cards as usize);
    if more > 0 {
        sentences.push(format!(
            "{} more {} cut, so that replicas are apart or run where they may{}",
            thousands(more as u64),
            if more == 1 { "card is" } else { "cards are" },
            if mig.request.pool.max_layouts.is_some() {
                ", within the layouts that the pool allows"
            } else {
                ""
            }
        ));
    }
    let whole_then = found.cards.iter().flatten().filter(|card| matches!(card, Card::Whole(Some(_)))).count();
    if whole_then > 0 {
        sentences.push(format!("{} stay whole", counted(whole_then, "card")));
    }
    let in_use = found.cards.iter().flatten().filter(|card| card.in_use()).count();
    let (sentence, reached) = match mig.request.pool.goal {
        Goal::Bill => kept_nodes(land, found, bound),
        Goal::Capacity => busy_cards(in_use + autoscaled(mig, land, &found.converted).after as usize, bound),
    };
    sentences.extend(sentence);
    Proof { n_cards: place::count(in_use), proven: certificate.proven && more == 0 && reached, sentences }
}

fn kept_nodes(land: &Land<'_>, found: &Placement, bound: &Bound) -> (Option<String>, bool) {
    let kept: Vec<&place::Site> = land
        .sites
        .iter()
        .zip(&found.fates)
        .filter(|(_, fate)| **fate != Fate::Freed)
        .map(|(s, _)| s)
        .collect();
    let cost: i64 = kept.iter().map(|site| site.cost).sum();
    if kept.len() == land.sites.len() {
        return (None, cost == bound.cost);
    }
    let least = bound.n_nodes as usize;
    if cost == bound.cost {
        let sentence = format!(
            "whoever moves into slices, the pods need {} at least, and no nodes that hold so many cost less than the {} \
             that stay",
            counted(bound.n_cards as usize, "card"),
            kept.len()
        );
        return (Some(sentence), true);
    }
    let sentence = if kept.len() > least {
        format!(
            "every plan keeps {} at least; this one keeps {}, and whether fewer would do is not proven",
            counted(least, "node"),
            kept.len()
        )
    } else {
        "whether cheaper nodes could be kept instead is not proven".to_owned()
    };
    (Some(sentence), false)
}

fn busy_cards(in_use: usize, bound: &Bound) -> (Option<String>, bool) {
    let least = bound.n_busy as usize;
    if in_use <= least {
        let sentence = format!(
            "whoever moves into slices, the pods need {} at least: no plan can use fewer",
            counted(least, "card")
        );
        return (Some(sentence), true);
    }
    let sentence = format!(
        "every plan uses {} at least; this one uses {in_use}, and whether fewer would do is not proven",
        counted(least, "card")
    );
    (Some(sentence), false)
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
