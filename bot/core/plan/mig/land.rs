//! The pool as the planner sees it: tenants, sites, and what is left out, with the reason.

use std::collections::{BTreeMap, BTreeSet};

use super::super::place::{self, Card, Site, Slot, Tenant};
use super::super::placement::{may_run, unfit};
use super::super::{Request, Weighed};
use super::Mig;
use crate::catalog::{MigProfile, ProfileName};
use crate::fit::{Holds, Verdict};
use crate::inventory::{Node, Pod, Resources, Sharing};
use crate::pack::geometry::Geometry;
use crate::units::Mib;

/// What an idle card may show as used: drivers keep some hundred MiB on large cards (metrics of A100-80 cards with
/// drivers from 510 on). More on a card that no known pod holds is somebody's. Doubled, a small process could be
/// overlooked and lose its card.
pub(in crate::plan) const IDLE_FLOOR: Mib = Mib(1_024);

/// What an idle slice may show as used; 6 to 15 MiB were seen. Doubled, a small CUDA context could be overlooked.
const IDLE_SLICE_FLOOR: Mib = Mib(64);

/// The pool's nodes that may be planned with, its tenants, and what was left out.
pub(super) struct Land<'a> {
    pub(super) tenants: Vec<Tenant>,
    pub(super) sites: Vec<Site>,
    pub(super) nodes: Vec<&'a Node>,
    pub(super) notes: Vec<String>,
}

/// The slice type that the verdict chose, when the plan may act on it.
pub(super) fn slice_of(weighed: &Weighed<'_>) -> Option<usize> {
    weighed.held_back.is_none().then(|| weighed.chosen()?.chain_index).flatten()
}

/// The type of a slice by the name that its driver prints.
fn kind_of(chain: &[&MigProfile], profile: &str) -> Option<usize> {
    let name: ProfileName = profile.parse().ok()?;
    chain.iter().position(|known| known.is_named(name))
}

/// Kinds whose pods are not moved: they run to an end, or nothing makes them anew.
pub(in crate::plan) fn must_not_move(kind: &str) -> bool {
    crate::inventory::is_batch_kind(kind) || kind == "Pod" || kind == "DaemonSet" || kind == "RayCluster"
}

/// Pods by the node that they run on, each with the index of its workload.
pub(in crate::plan) type Crew<'w> = BTreeMap<&'w str, Vec<(usize, &'w Pod)>>;

/// The pods of these workloads by node.
pub(in crate::plan) fn crew<'w>(weighed: &'w [Weighed<'_>]) -> Crew<'w> {
    let mut crew = Crew::new();
    for (t, w) in weighed.iter().enumerate() {
        for pod in &w.pods {
            crew.entry(&pod.node).or_default().push((t, pod));
        }
    }
    crew
}

pub(super) fn lay_of_the_land<'a>(mig: &Mig<'a, '_>) -> Land<'a> {
    let (request, weighed) = (mig.request, mig.weighed);
    let whole = mig.geometry.whole();
    let tenants: Vec<Tenant> = weighed
        .iter()
        .map(|w| {
            let now = match &w.fit.holds {
                Holds::Whole => whole,
                Holds::Slice { profile } => kind_of(&mig.chain, profile).unwrap_or(whole),
            };
            let target = slice_of(w).filter(|target| *target != now);
            Tenant {
                key: w.workload.id.to_string(),
                now,
                target,
                must_move: now < whole && target.is_some_and(|target| target > now),
                planned: w.planned(),
                max_surge: w.max_surge(request.declared),
                spread: w.spread(request.pool),
                sites: BTreeSet::new(),
                elsewhere: 0,
                needs: w
                    .workload
                    .pods
                    .iter()
                    .map(|pod| pod.requests.map(Resources::from))
                    .reduce(|a, b| Some(a?.larger(b?)))
                    .flatten(),
            }
        })
        .collect();
    let mut land = Land { tenants, sites: Vec::new(), nodes: Vec::new(), notes: Vec::new() };
    let mut nodes: Vec<&Node> =
        request.inventory.nodes.iter().filter(|node| request.pool.nodes.contains(&node.name)).collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    let crew = crew(weighed);
    for node in nodes {
        match cut_site(mig, &crew, node) {
            Ok(site) => {
                land.sites.push(site);
                land.nodes.push(node);
            }
            Err(why) => land.notes.push(format!("{} is left out: {why}", node.name)),
        }
    }
    let mut here = vec![0; weighed.len()];
    for tenant in land.sites.iter().flat_map(|site| &site.cards).flat_map(Card::holders) {
        here[tenant] += 1;
    }
    let known: BTreeSet<&str> = land.nodes.iter().map(|node| node.name.as_str()).collect();
    for (i, (tenant, w)) in land.tenants.iter_mut().zip(weighed).enumerate() {
        let declared = request.declared.of(&w.workload.id);
        let fits = |node: &&Node| may_run(request, w.workload, declared, node);
        tenant.sites = land.nodes.iter().enumerate().filter(|(_, node)| fits(node)).map(|(i, _)| i).collect();
        // Tenants keep only the replicas that stand on the nodes planned with.
        let all: usize = w.pods.iter().map(|pod| pod.cards.len() + pod.slices.len()).sum();
        let scattered = here[i] != all;
        let strange = |pod: &&Pod| !known.contains(pod.node.as_str());
        tenant.elsewhere = place::count(w.workload.pods.iter().filter(strange).count());
        if scattered || w.workload.gpus_per_pod > 1 {
            tenant.planned = place::count(here[i]);
        }
        if scattered {
            (tenant.target, tenant.must_move) = (None, false);
        }
    }
    keep_where_room_is_known(&mut land);
    land
}

/// Whose requests are not known stays where it stands, and nobody comes to a node of which the room is not known.
fn keep_where_room_is_known(land: &mut Land<'_>) {
    let (tenants, sites) = (&mut land.tenants, &land.sites);
    let mut stands: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); tenants.len()];
    let mut open = BTreeSet::new();
    for (i, site) in sites.iter().enumerate() {
        let mut known = site.room.is_some();
        for tenant in site.cards.iter().flat_map(Card::holders) {
            stands[tenant].insert(i);
            known &= tenants[tenant].needs.is_some();
        }
        if known {
            open.insert(i);
        }
    }
    for (tenant, stands) in tenants.iter_mut().zip(stands) {
        let may_come = tenant.needs.is_some();
        if !may_come || open.len() < sites.len() {
            tenant.sites.retain(|site| stands.contains(site) || (may_come && open.contains(site)));
        }
    }
}

fn pods_on<'c, 'w>(crew: &'c Crew<'w>, node: &Node) -> &'c [(usize, &'w Pod)] {
    crew.get(node.name.as_str()).map_or(&[], Vec::as_slice)
}

/// A node whose cards may be cut already, as far as its slices are known.
fn cut_site(mig: &Mig<'_, '_>, crew: &Crew<'_>, node: &Node) -> Result<Site, String> {
    if node.sharing() != Sharing::Mig {
        return site(mig.request, mig.weighed, crew, node);
    }
    if node.slices_as_gpus().is_some() {
        return Err("its slices are handed out as `nvidia.com/gpu`, whatever their size".to_owned());
    }
    if node.slices_are_shared() {
        return Err("its slices are shared by several pods each".to_owned());
    }
    let mut site = plain_site(mig.request, mig.weighed, crew, node, Sharing::Mig)?;
    for (card, known) in site.cards.iter_mut().zip(&node.cards).filter(|(_, known)| !known.slices.is_empty())
    {
        if matches!(card, Card::Whole(Some(_))) {
            return Err(format!("a pod seems to hold all of {}, which is cut", known.uuid));
        }
        *card = Card::Cut(slots(mig, pods_on(crew, node), known)?);
    }
    Ok(site)
}

/// The slices of a card with their holders, at places where they can be.
fn slots(
    mig: &Mig<'_, '_>,
    pods: &[(usize, &Pod)],
    card: &crate::inventory::Card,
) -> Result<Vec<Slot>, String> {
    let mut held: Vec<(usize, Option<usize>)> = Vec::new();
    for slice in &card.slices {
        let kind = kind_of(&mig.chain, &slice.profile)
            .ok_or_else(|| format!("`{}` on {} is a slice that no plan can use", slice.profile, card.uuid))?;
        let mut holders = pods.iter().flat_map(|(t, pod)| {
            pod.slices.iter().filter(|id| id.card == card.uuid && id.id == slice.id).map(move |_| *t)
        });
        let holder = holders.next();
        if holders.next().is_some() {
            return Err(format!("two pods hold one slice of {}", card.uuid));
        }
        let used = slice.used_now.unwrap_or_default();
        if holder.is_none() && used > IDLE_SLICE_FLOOR {
            return Err(format!("{used} are in use in a slice of {}, which no known pod holds", card.uuid));
        }
        held.push((kind, holder));
    }
    placed(&mig.geometry, held).ok_or_else(|| format!("{} is cut in a way that is not known", card.uuid))
}

/// Starts for slices whose own are not known.
fn placed(geometry: &Geometry, mut held: Vec<(usize, Option<usize>)>) -> Option<Vec<Slot>> {
    let mut counts = vec![0u32; geometry.whole()];
    for (kind, _) in &held {
        counts[*kind] += 1;
    }
    let mut slots: Vec<Slot> = Vec::new();
    for (kind, start) in geometry.place(&counts)? {
        let at = held.iter().position(|(known, _)| *known == kind)?;
        slots.push(Slot { kind, start, holder: held.remove(at).1 });
    }
    slots.sort_by_key(|slot| slot.start);
    Some(slots)
}

/// A node of whole cards.
pub(in crate::plan) fn site(
    request: &Request<'_>,
    weighed: &[Weighed<'_>],
    crew: &Crew<'_>,
    node: &Node,
) -> Result<Site, String> {
    match node.sharing() {
        Sharing::Whole => plain_site(request, weighed, crew, node, Sharing::Whole),
        Sharing::Mig => Err("its cards are cut by MIG already".to_owned()),
        Sharing::TimeSlicing { replicas } => {
            Err(format!("its cards are time-sliced already ({replicas} replicas)"))
        }
        Sharing::Mps { replicas } => {
            Err(format!("its cards are shared by MPS already ({replicas} replicas)"))
        }
    }
}

/// The node as if no card of it were cut.
fn plain_site(
    request: &Request<'_>,
    weighed: &[Weighed<'_>],
    crew: &Crew<'_>,
    node: &Node,
    sharing: Sharing,
) -> Result<Site, String> {
    if let Some(why) = unfit(node) {
        return Err(why);
    }
    if node.label("nvidia.com/mig.config.state") == Some("failed") {
        return Err("its last MIG change failed".to_owned());
    }
    let mut cards: Vec<Option<usize>> = vec![None; node.cards.len()];
    let mut frozen = request.pool.frozen.contains(&node.name);
    let mut held = Resources::default();
    for (t, pod) in pods_on(crew, node) {
        let w = &weighed[*t];
        if pod.cards.is_empty() && pod.slices.is_empty() {
            return Err(format!("which card {}/{} holds is not known", w.workload.id.namespace, pod.name));
        }
        if !pod.cards.is_empty() && matches!(w.fit.holds, Holds::Slice { .. }) {
            return Err(format!("which slice {}/{} holds is not known", w.workload.id.namespace, pod.name));
        }
        for uuid in &pod.cards {
            let Some(index) = node.cards.iter().position(|card| card.uuid == *uuid) else {
                return Err(format!(
                    "{}/{} holds a card that the node does not show",
                    w.workload.id.namespace, pod.name
                ));
            };
            if cards[index].replace(*t).is_some() {
                return Err("two pods hold one card".to_owned());
            }
        }
        held = held.plus(pod.requests.unwrap_or_default().into());
        frozen |= pod.cards.len() + pod.slices.len() > 1
            || w.workload.gpus_per_pod > 1
            || must_not_move(&w.workload.id.kind)
            || matches!(w.fit.verdict, Verdict::Excluded { .. });
    }
    if sharing == Sharing::Whole && cards.iter().all(Option::is_none) {
        return Err("no pod holds a GPU there today".to_owned());
    }
    if let Some(stranger) = request.inventory.unattributed_pods.iter().find(|pod| pod.node == node.name) {
        return Err(format!("{} asks for a GPU there, and who owns it is not known", stranger.pod));
    }
    let ghost = node.cards.iter().zip(&cards).find(|(card, holder)| {
        holder.is_none() && !card.is_cut() && card.used_now.is_some_and(|used| used > IDLE_FLOOR)
    });
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
    let carrier = request.declared.node_labels.get(&node.name);
    Ok(Site {
        name: node.name.clone(),
        cards: cards.into_iter().map(Card::Whole).collect(),
        frozen,
        cost: price,
        room,
        labelled_by_merge: carrier.is_some_and(|carrier| carrier.editable.is_ok()),
    })
}
