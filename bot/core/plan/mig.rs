//! A plan by MIG: which workloads get slices, how the cards are cut, and what has to differ for that.

use std::collections::{BTreeMap, BTreeSet};

use super::assign::{self, Assignment, Card, Site, Tenant, Wishes};
use super::saving::{Saving, saving};
use super::{
    Alternative, CardUse, Change, Confidence, Goal, Item, MigEntry, NodeFate, NodeOutcome, Plan, PoolKind,
    Proof, Request, SliceUse, Weighed,
};
use crate::catalog::operator_config::for_product;
use crate::catalog::{GpuModel, MigProfile};
use crate::fit::Reason;
use crate::ids::{WorkloadId, short_hash, slug};
use crate::inventory::{Node, Resources, Sharing};
use crate::pack::cards::fewest_cards;
use crate::pack::geometry::{Geometry, Layout, SliceType};
use crate::policy::Method;
use crate::units::{Mib, counted};

/// Node label that the MIG manager acts on.
pub(super) const MIG_LABEL: &str = "nvidia.com/mig.config";

/// The best plan by MIG, or why there is none.
pub(super) fn plan(request: &Request<'_>, weighed: &[Weighed<'_>]) -> Result<Plan, Vec<Reason>> {
    let (model_name, model) = one_model(request, weighed)?;
    let chain = model.plain_profiles();
    let geometry = geometry(model, &chain);
    match request.pool.kind {
        PoolKind::Static => by_node(request, weighed, &model_name, model, &chain, &geometry),
        PoolKind::Elastic => by_group(request, weighed, &model_name, model, &chain, &geometry),
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

/// The pool's nodes that may be planned with, its tenants, and what was left out.
struct Ground<'a> {
    tenants: Vec<Tenant>,
    sites: Vec<Site>,
    nodes: Vec<&'a Node>,
    notes: Vec<String>,
}

fn slice_of(weighed: &Weighed<'_>) -> Option<usize> {
    weighed.held_back.is_none().then(|| weighed.chosen()?.chain_index).flatten()
}

/// Kinds whose pods are not moved: they run to an end, or nothing makes them anew.
fn must_not_move(kind: &str) -> bool {
    crate::inventory::is_batch_kind(kind) || kind == "Pod" || kind == "DaemonSet" || kind == "RayCluster"
}

fn lay_of_the_land<'a>(request: &Request<'a>, weighed: &[Weighed<'_>]) -> Ground<'a> {
    let tenants: Vec<Tenant> = weighed
        .iter()
        .map(|w| Tenant {
            key: w.workload.id.to_string(),
            slice: slice_of(w),
            planned: w.planned(),
            max_surge: w.max_surge(request.declared),
            needs: w
                .pods
                .iter()
                .map(|pod| pod.requests.map(Resources::from))
                .reduce(|a, b| Some(a?.larger(b?)))
                .flatten(),
        })
        .collect();
    let mut ground = Ground { tenants, sites: Vec::new(), nodes: Vec::new(), notes: Vec::new() };
    for node in request.inventory.nodes.iter().filter(|node| request.pool.nodes.contains(&node.name)) {
        match site(request, weighed, node) {
            Ok(site) => {
                ground.sites.push(site);
                ground.nodes.push(node);
            }
            Err(why) => ground.notes.push(format!("{} is left out: {why}", node.name)),
        }
    }
    // Tenants keep only the replicas that stand on the nodes planned with.
    for (i, tenant) in ground.tenants.iter_mut().enumerate() {
        let here = ground.sites.iter().flat_map(|site| &site.cards).filter(|card| **card == Some(i)).count();
        let all: usize = weighed[i].pods.iter().map(|pod| pod.cards.len()).sum();
        if here != all {
            tenant.slice = None;
            tenant.planned = u32::try_from(here).unwrap_or(u32::MAX);
        }
        if weighed[i].workload.gpus_per_pod > 1 {
            tenant.planned = u32::try_from(here).unwrap_or(u32::MAX);
        }
    }
    ground
}

fn site(request: &Request<'_>, weighed: &[Weighed<'_>], node: &Node) -> Result<Site, String> {
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
                || matches!(w.fit.verdict, crate::fit::Verdict::Excluded { .. });
        }
    }
    if cards.iter().all(Option::is_none) {
        return Err("no pod holds a GPU there today".to_owned());
    }
    if request.inventory.unattributed_pods.iter().any(|pod| pod.ends_with(&format!("@{}", node.name))) {
        return Err("a pod without a known owner holds a GPU there".to_owned());
    }
    let room = match (node.allocatable, node.requested) {
        (Some(allocatable), Some(requested)) => Some(allocatable.minus(requested.minus(held))),
        _ => None,
    };
    let price = request.pool.price_of(node).map_or(1, |price| price.per_hour.micros.max(1));
    Ok(Site { name: node.name.clone(), cards, frozen, cost: price, room })
}

fn by_node(
    request: &Request<'_>,
    weighed: &[Weighed<'_>],
    model_name: &str,
    model: &GpuModel,
    chain: &[&MigProfile],
    geometry: &Geometry,
) -> Result<Plan, Vec<Reason>> {
    let ground = lay_of_the_land(request, weighed);
    let wishes = Wishes {
        goal: request.pool.goal,
        spread: request.pool.spread,
        spare_cards: request.pool.spare_cards,
        concurrent_rollouts: request.pool.concurrent_rollouts,
    };
    let Some(found) = assign::assign(geometry, &ground.tenants, &ground.sites, wishes) else {
        return Err(nothing_gained(geometry, &ground, request));
    };
    let configs = Configs::new(request, model_name, model, geometry, &found);
    let mut plan = skeleton(request, weighed, &found.converted, model_name, model);
    plan.notes = ground.notes.clone();
    plan.changes = changes(request, weighed, &ground, &found, &configs, chain, model_name);
    plan.nodes = outcomes(request, weighed, &ground, &found, geometry);
    plan.items = items(request, weighed, &ground, &found, geometry, chain);
    plan.proof = proof(&ground, &found, geometry);
    plan.alternatives = alternatives(request, weighed, &found);
    plan.saving = saving(request, &plan.nodes);
    if found.spread < request.pool.spread {
        plan.notes.push(format!(
            "the replicas of some workloads could not be spread over two {}s: one failure takes all of them",
            if request.pool.spread == super::pool::Spread::Node { "node" } else { "card" }
        ));
    }
    Ok(plan)
}

fn nothing_gained(geometry: &Geometry, ground: &Ground<'_>, request: &Request<'_>) -> Vec<Reason> {
    let in_use = ground.sites.iter().flat_map(|site| &site.cards).filter(|card| card.is_some()).count();
    let everything: Vec<u32> = (0..=geometry.whole())
        .map(|slot| {
            ground
                .tenants
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
            "slices would need {} of the {in_use} cards in use, and that frees no whole {}",
            counted(needed.n_cards as usize, "card"),
            if request.pool.goal == Goal::Bill { "node" } else { "card" }
        ),
    );
    if request.pool.goal == Goal::Bill && (needed.n_cards as usize) < in_use {
        reason = reason.with_advice("set `goal: capacity` for the pool to free cards on nodes that stay");
    }
    let mut reasons = vec![reason];
    reasons.extend(ground.notes.iter().map(|note| Reason::new("node-left-out", note.clone())));
    reasons
}

/// Which config name each touched node gets, and what is behind names that the operator does not bring.
struct Configs {
    /// Name by node index.
    by_node: BTreeMap<usize, String>,
    /// Entries by name, for names of our own.
    own: BTreeMap<String, Vec<MigEntry>>,
}

impl Configs {
    fn new(
        request: &Request<'_>,
        model_name: &str,
        model: &GpuModel,
        geometry: &Geometry,
        found: &Assignment,
    ) -> Self {
        let mut configs = Self { by_node: BTreeMap::new(), own: BTreeMap::new() };
        for &node in &found.touched {
            let entries = entries(&found.cards[node], geometry);
            let name = ready_made(request, model_name, model, &entries).unwrap_or_else(|| {
                let text: String =
                    entries.iter().map(|e| format!("{:?}{:?};", e.cards, e.instances)).collect();
                let mut pool = slug(&request.pool.id.pool);
                pool.truncate(40);
                let name = format!("{}-{}", pool.trim_end_matches('-'), short_hash(&text, 8));
                configs.own.insert(name.clone(), entries.clone());
                name
            });
            configs.by_node.insert(node, name);
        }
        configs
    }
}

/// Card indices by what they are cut into. The node is drained, and its cards are equal: any index will do.
fn entries(cards: &[Card], geometry: &Geometry) -> Vec<MigEntry> {
    let mut by_layout: BTreeMap<BTreeMap<String, u32>, Vec<u32>> = BTreeMap::new();
    for (index, card) in cards.iter().enumerate() {
        let mut instances = BTreeMap::new();
        if let Card::Cut(slices) = card {
            for (kind, ..) in slices {
                *instances.entry(geometry.types[*kind].name.clone()).or_default() += 1;
            }
        }
        by_layout.entry(instances).or_default().push(u32::try_from(index).unwrap_or(u32::MAX));
    }
    let whole_node = by_layout.len() == 1;
    let mut entries: Vec<MigEntry> = by_layout
        .into_iter()
        .map(|(instances, cards)| MigEntry { cards: if whole_node { Vec::new() } else { cards }, instances })
        .collect();
    entries.sort_by(|a, b| a.cards.cmp(&b.cards));
    entries
}

/// The operator's own name for "every card cut into this profile", when that is what is wanted and it is there.
fn ready_made(
    request: &Request<'_>,
    model_name: &str,
    model: &GpuModel,
    entries: &[MigEntry],
) -> Option<String> {
    let [MigEntry { cards, instances }] = entries else { return None };
    let (profile, count) = instances.iter().next().filter(|_| cards.is_empty() && instances.len() == 1)?;
    let product = model.product(model_name)?;
    let config = for_product(model, product, profile.parse().ok()?)?;
    let operator = &request.declared.operator;
    let generated = operator.mig_config_map.is_none()
        && operator.version.as_deref().is_some_and(|version| super::ground::numbers(version) >= vec![26, 3]);
    let known = match &operator.mig_config_map {
        // A custom map replaces the operator's own configs on every node.
        Some(_) => operator.mig_config_names.contains(&config.name),
        None => config.in_static_file || generated,
    };
    (u32::from(config.count) == *count && known).then_some(config.name)
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
        notes: Vec::new(),
        overrides: Vec::new(),
        fingerprint: String::new(),
    }
}

fn changes(
    request: &Request<'_>,
    weighed: &[Weighed<'_>],
    ground: &Ground<'_>,
    found: &Assignment,
    configs: &Configs,
    chain: &[&MigProfile],
    model_name: &str,
) -> Vec<Change> {
    let mut changes: Vec<Change> = configs
        .own
        .iter()
        .map(|(name, entries)| Change::SetMigConfig {
            name: name.clone(),
            entries: entries.clone(),
            names_in_use: names_in_use(request),
        })
        .collect();
    let mut by_name: BTreeMap<&str, BTreeMap<String, Option<String>>> = BTreeMap::new();
    for (node, name) in &configs.by_node {
        let node = ground.nodes[*node];
        let previous = node.label(MIG_LABEL).map(str::to_owned);
        by_name.entry(name).or_default().insert(node.name.clone(), previous);
    }
    changes.extend(by_name.into_iter().map(|(name, nodes)| Change::LabelNodes {
        key: MIG_LABEL.to_owned(),
        value: name.to_owned(),
        nodes,
    }));
    changes.extend(resources(request, weighed, &found.converted, chain, model_name));
    changes
}

/// The pod templates that ask for a slice then.
fn resources(
    request: &Request<'_>,
    weighed: &[Weighed<'_>],
    converted: &BTreeSet<usize>,
    chain: &[&MigProfile],
    model_name: &str,
) -> Vec<Change> {
    converted
        .iter()
        .filter_map(|i| {
            let w = &weighed[*i];
            let profile = chain[slice_of(w)?];
            Some(Change::SetWorkloadResource {
                workload: w.workload.id.clone(),
                from: w.workload.resource.clone(),
                to: profile.name.resource(),
                count: w.workload.gpus_per_pod,
                pin: pin(request, w, profile, model_name),
            })
        })
        .collect()
}

/// A selector on the product, where another model of the cluster offers a slice of the same name but other size.
fn pin(
    request: &Request<'_>,
    weighed: &Weighed<'_>,
    profile: &MigProfile,
    model_name: &str,
) -> BTreeMap<String, String> {
    let own = request.catalog.find_by_product(model_name);
    let ambiguous = request
        .inventory
        .nodes
        .iter()
        .flat_map(Node::model_names)
        .filter_map(|name| request.catalog.find_by_product(name))
        .filter(|model| own.is_none_or(|own| own.id != model.id))
        .any(|model| model.profile(profile.name).is_some());
    let label = "nvidia.com/gpu.product";
    let selected = request
        .declared
        .workloads
        .get(&weighed.workload.id)
        .is_some_and(|declared| declared.node_selector.contains_key(label));
    match own.and_then(|model| model.product(model_name)) {
        Some(product) if ambiguous && !selected => {
            BTreeMap::from([(label.to_owned(), product.gfd_label.clone())])
        }
        _ => BTreeMap::new(),
    }
}

/// Every value of the MIG label in the cluster: a custom config map must hold them all.
fn names_in_use(request: &Request<'_>) -> Vec<String> {
    let names: BTreeSet<String> = request
        .inventory
        .nodes
        .iter()
        .filter_map(|node| node.label(MIG_LABEL).map(str::to_owned))
        .chain(
            request
                .declared
                .node_labels
                .values()
                .filter_map(|carrier| carrier.labels.get(MIG_LABEL).cloned()),
        )
        .chain(std::iter::once("all-disabled".to_owned()))
        .collect();
    names.into_iter().collect()
}

fn outcomes(
    request: &Request<'_>,
    weighed: &[Weighed<'_>],
    ground: &Ground<'_>,
    found: &Assignment,
    geometry: &Geometry,
) -> Vec<NodeOutcome> {
    let id = |tenant: usize| weighed[tenant].workload.id.clone();
    let mut outcomes: Vec<NodeOutcome> = ground
        .sites
        .iter()
        .enumerate()
        .map(|(i, site)| {
            let fate = if found.freed.contains(&i) {
                NodeFate::Freed
            } else if found.touched.contains(&i) {
                NodeFate::Touched
            } else {
                NodeFate::Untouched
            };
            let restarts = weighed
                .iter()
                .enumerate()
                .flat_map(|(t, w)| w.pods.iter().map(move |pod| (t, pod)))
                .filter(|(t, pod)| {
                    pod.node == site.name && (fate != NodeFate::Untouched || found.converted.contains(t))
                })
                .map(|(t, pod)| format!("{}/{}", weighed[t].workload.id.namespace, pod.name))
                .collect();
            NodeOutcome {
                name: site.name.clone(),
                fate,
                before: site
                    .cards
                    .iter()
                    .map(|holder| holder.map_or(CardUse::Idle, |t| CardUse::Whole { workload: id(t) }))
                    .collect(),
                after: found.cards[i].iter().map(|card| card_use(card, geometry, &id)).collect(),
                restarts,
                per_hour: request.pool.price_of(ground.nodes[i]).map(|price| price.per_hour.clone()),
            }
        })
        .collect();
    outcomes.extend(left_alone(request, &outcomes));
    outcomes.sort_by(|a, b| a.name.cmp(&b.name));
    outcomes
}

/// Nodes of the pool that the plan does not look into.
pub(super) fn left_alone(request: &Request<'_>, known: &[NodeOutcome]) -> Vec<NodeOutcome> {
    request
        .inventory
        .nodes
        .iter()
        .filter(|node| request.pool.nodes.contains(&node.name))
        .filter(|node| known.iter().all(|outcome| outcome.name != node.name))
        .map(|node| {
            let text = match node.sharing() {
                Sharing::Whole => "left as it is".to_owned(),
                Sharing::Mig => "cut by MIG already".to_owned(),
                Sharing::TimeSlicing { replicas } => format!("{replicas} time slices already"),
                Sharing::Mps { replicas } => format!("{replicas} MPS shares already"),
            };
            let holds = |uuid: &str| {
                request
                    .inventory
                    .workloads
                    .iter()
                    .any(|w| w.pods.iter().any(|pod| pod.cards.iter().any(|card| card == uuid)))
            };
            let cards: Vec<CardUse> = node
                .cards
                .iter()
                .map(|card| match node.sharing() {
                    Sharing::Whole if !holds(&card.uuid) => CardUse::Idle,
                    Sharing::Whole | Sharing::Mig | Sharing::TimeSlicing { .. } | Sharing::Mps { .. } => {
                        CardUse::Other { text: text.clone() }
                    }
                })
                .collect();
            NodeOutcome {
                name: node.name.clone(),
                fate: NodeFate::Untouched,
                before: cards.clone(),
                after: cards,
                restarts: Vec::new(),
                per_hour: request.pool.price_of(node).map(|price| price.per_hour.clone()),
            }
        })
        .collect()
}

fn card_use(card: &Card, geometry: &Geometry, id: &impl Fn(usize) -> WorkloadId) -> CardUse {
    match card {
        Card::Whole(None) => CardUse::Idle,
        Card::Whole(Some(tenant)) => CardUse::Whole { workload: id(*tenant) },
        Card::Cut(slices) => CardUse::Slices {
            slices: slices
                .iter()
                .map(|(kind, start, holder)| SliceUse {
                    profile: geometry.types[*kind].name.clone(),
                    start: *start,
                    workload: holder.map(id),
                })
                .collect(),
        },
    }
}

fn items(
    request: &Request<'_>,
    weighed: &[Weighed<'_>],
    ground: &Ground<'_>,
    found: &Assignment,
    geometry: &Geometry,
    chain: &[&MigProfile],
) -> Vec<Item> {
    found
        .converted
        .iter()
        .filter_map(|t| {
            let w = &weighed[*t];
            let slice = slice_of(w)?;
            let after: BTreeSet<String> = ground
                .sites
                .iter()
                .zip(&found.cards)
                .filter(|(_, cards)| {
                    cards.iter().any(|card| match card {
                        Card::Cut(slices) => slices.iter().any(|(_, _, holder)| *holder == Some(*t)),
                        Card::Whole(_) => false,
                    })
                })
                .map(|(site, _)| site.name.clone())
                .collect();
            Some(item(
                request,
                w,
                geometry.types[slice].name.clone(),
                w.chosen().and_then(|c| c.memory).unwrap_or(chain[slice].memory_min),
                after,
            ))
        })
        .collect()
}

/// One row of the plan for a workload that gets a share.
pub(super) fn item(
    request: &Request<'_>,
    weighed: &Weighed<'_>,
    share: String,
    share_memory: Mib,
    nodes_after: BTreeSet<String>,
) -> Item {
    let declared = request.declared.workloads.get(&weighed.workload.id);
    let nodes_before: BTreeSet<String> = weighed.pods.iter().map(|pod| pod.node.clone()).collect();
    Item {
        fit: weighed.fit.clone(),
        replicas: weighed.planned(),
        max_surge: weighed.max_surge(request.declared),
        share,
        share_memory,
        nodes_before: nodes_before.into_iter().collect(),
        nodes_after: nodes_after.into_iter().collect(),
        place: declared.map(|declared| declared.place.clone()),
        manual: match declared {
            None => Some("its manifest was not found in the repository".to_owned()),
            Some(declared) => declared.editable.as_ref().err().cloned(),
        },
    }
}

fn proof(ground: &Ground<'_>, found: &Assignment, geometry: &Geometry) -> Proof {
    let mut sentences = Vec::new();
    let certificate = &found.cut.certificate;
    let mut rows: Vec<_> = certificate.rows.iter().enumerate().collect();
    rows.sort_by_key(|(i, row)| (Some(*i) != certificate.binding, std::cmp::Reverse(row.n_cards), *i));
    for (i, row) in rows.into_iter().filter(|(_, row)| row.needed > 0) {
        let binding = Some(i) == certificate.binding;
        sentences.push(if binding { row.to_string() } else { format!("also {row}") });
    }
    let whole_then = found.cards.iter().flatten().filter(|card| matches!(card, Card::Whole(Some(_)))).count();
    if whole_then > 0 {
        sentences.push(format!("{} stay whole", counted(whole_then, "card")));
    }
    let kept = ground.sites.len() - found.freed.len();
    let most = assign::fewest_nodes(&ground.sites, found.fewest.n_cards) as usize;
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
    let _ = geometry;
    Proof {
        n_cards: u32::try_from(n_cut + whole_then).unwrap_or(u32::MAX),
        proven: cut_proven && (found.freed.is_empty() || kept == most),
        sentences,
    }
}

/// Time-slicing where policy allows it for all that move, and doing nothing.
fn alternatives(request: &Request<'_>, weighed: &[Weighed<'_>], found: &Assignment) -> Vec<Alternative> {
    let moved: Vec<&Weighed<'_>> = found.converted.iter().map(|i| &weighed[*i]).collect();
    vec![super::time_slicing::alternative(request, &moved), nothing(&moved)]
}

/// Leaving things as they are.
pub(super) fn nothing(moved: &[&Weighed<'_>]) -> Alternative {
    let cards: usize = moved.iter().flat_map(|w| &w.pods).map(|pod| pod.cards.len()).sum();
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

fn by_group(
    request: &Request<'_>,
    weighed: &[Weighed<'_>],
    model_name: &str,
    model: &GpuModel,
    chain: &[&MigProfile],
    geometry: &Geometry,
) -> Result<Plan, Vec<Reason>> {
    let ground = lay_of_the_land(request, weighed);
    let movable: BTreeSet<usize> =
        (0..ground.tenants.len()).filter(|i| ground.tenants[*i].slice.is_some()).collect();
    let mut demand = vec![0u32; geometry.whole()];
    for i in &movable {
        let tenant = &ground.tenants[*i];
        if let Some(slice) = tenant.slice {
            demand[slice] += tenant.planned + tenant.max_surge;
        }
    }
    let Some(group) = one_layout(geometry, &demand) else {
        return Err(nothing_gained(geometry, &ground, request));
    };
    let cards_per_node = ground.sites.iter().map(|site| site.cards.len()).max().unwrap_or(1).max(1);
    let whole: usize = ground
        .sites
        .iter()
        .flat_map(|site| &site.cards)
        .flatten()
        .filter(|tenant| !movable.contains(tenant))
        .count();
    let nodes_for = |cards: usize| cards.div_ceil(cards_per_node);
    let nodes_then = nodes_for(group.n_cards as usize) + nodes_for(whole);
    let nodes_now = ground.sites.len();
    if nodes_then >= nodes_now {
        return Err(nothing_gained(geometry, &ground, request));
    }
    // A replica may sit in a larger slice than it needs, if all replicas of the workload do.
    let mut weighed_as_one: Vec<Weighed<'_>> = weighed.to_vec();
    for i in &movable {
        if let Some(slice) = ground.tenants[*i].slice {
            let profile = geometry.types[group.sits_in[slice]].name.clone();
            weighed_as_one[*i].fit.verdict = crate::fit::Verdict::Mig { profile };
        }
    }
    let instances = group.layout.counts.iter().zip(&geometry.types).filter(|(n, _)| **n > 0);
    let entries = vec![MigEntry {
        cards: Vec::new(),
        instances: instances.map(|(n, kind)| (kind.name.clone(), *n)).collect(),
    }];
    let mut plan = skeleton(request, &weighed_as_one, &movable, model_name, model);
    let name = ready_made(request, model_name, model, &entries).unwrap_or_else(|| {
        let text: String = entries.iter().map(|e| format!("{:?}", e.instances)).collect();
        format!("{}-{}", slug(&request.pool.id.pool), short_hash(&text, 8))
    });
    if ready_made(request, model_name, model, &entries).is_none() {
        plan.changes.push(Change::SetMigConfig {
            name: name.clone(),
            entries: entries.clone(),
            names_in_use: names_in_use(request),
        });
    }
    plan.changes.push(Change::LabelGroup {
        key: MIG_LABEL.to_owned(),
        value: name,
        previous: ground.nodes.iter().find_map(|node| node.label(MIG_LABEL).map(str::to_owned)),
        beside: whole > 0,
    });
    plan.changes.extend(resources(request, &weighed_as_one, &movable, chain, model_name));
    plan.items = movable
        .iter()
        .map(|i| {
            let w = &weighed_as_one[*i];
            let profile = slice_of(w).map_or(chain[0], |slice| chain[slice]);
            let memory = w.chosen().and_then(|c| c.memory).unwrap_or(profile.memory_min);
            item(request, w, profile.name.to_string(), memory, BTreeSet::new())
        })
        .collect();
    plan.nodes = left_alone(request, &[]);
    plan.notes = ground.notes;
    plan.notes.push(
        "the nodes of this pool come and go: the label belongs into the node group's declaration, and nodes made \
         before it must be replaced"
            .to_owned(),
    );
    plan.proof = Proof {
        n_cards: group.n_cards + u32::try_from(whole).unwrap_or(u32::MAX),
        proven: true,
        sentences: vec![format!(
            "one layout for the whole group: with `{}` on every card {} hold {} replicas and their rolling updates; \
             every other single layout needs as many or more",
            group.layout.describe(geometry),
            counted(group.n_cards as usize, "card"),
            demand.iter().sum::<u32>(),
        )],
    };
    let moved: Vec<&Weighed<'_>> = movable.iter().map(|i| &weighed_as_one[*i]).collect();
    plan.alternatives = vec![super::time_slicing::alternative(request, &moved), nothing(&moved)];
    plan.saving = saving(request, &plan.nodes);
    plan.saving.group(request, nodes_now, nodes_then, plan.proof.n_cards);
    Ok(plan)
}

/// One layout for every cut card of a group.
struct OneLayout {
    layout: Layout,
    /// The type that replicas of each type sit in.
    sits_in: Vec<usize>,
    n_cards: u32,
}

/// The single layout that serves the demand with the fewest cards, exact: every layout, and every way to put the
/// replicas of a type into one type of at least its size. Of equals, layouts of one type come first.
fn one_layout(geometry: &Geometry, demand: &[u32]) -> Option<OneLayout> {
    if demand.iter().all(|n| *n == 0) {
        return None;
    }
    let mut layouts: Vec<Layout> = (0..geometry.whole()).map(|kind| geometry.uniform_layout(kind)).collect();
    layouts.extend(geometry.maximal_layouts());
    let mut best: Option<OneLayout> = None;
    for layout in &layouts {
        for sits_in in ways(geometry.whole()) {
            let mut needed = vec![0u32; geometry.whole()];
            for (kind, n) in demand.iter().enumerate() {
                needed[sits_in[kind]] += n;
            }
            let cards =
                needed.iter().zip(&layout.counts).try_fold(0u32, |most, (need, have)| match (need, have) {
                    (0, _) => Some(most),
                    (_, 0) => None,
                    (need, have) => Some(most.max(need.div_ceil(*have))),
                });
            if let Some(n_cards) = cards
                && best.as_ref().is_none_or(|best| n_cards < best.n_cards)
            {
                best = Some(OneLayout { layout: layout.clone(), sits_in, n_cards });
            }
        }
    }
    best
}

/// Every map from a type to one of at least its size; the one that leaves all as they are comes first.
fn ways(n_types: usize) -> Vec<Vec<usize>> {
    let mut ways = vec![Vec::new()];
    for kind in 0..n_types {
        ways = ways
            .into_iter()
            .flat_map(|way: Vec<usize>| {
                (kind..n_types).map(move |to| way.iter().copied().chain(std::iter::once(to)).collect())
            })
            .collect();
    }
    ways
}
