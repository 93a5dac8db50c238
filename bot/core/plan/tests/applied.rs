//! A cluster after the plan was merged and the pods came back.

use super::*;
use crate::inventory::{Slice, SliceId};
use crate::plan::check::configs::cut_by;

/// The cluster as it stands when the plan has come true.
pub(super) fn applied(cluster: &Cluster, plan: &Plan) -> Cluster {
    let mut then = match plan.pool_kind {
        PoolKind::Static => named_nodes(cluster, plan),
        PoolKind::Elastic => new_group(cluster, plan),
    };
    for item in plan.items.iter().filter(|_| plan.method == Method::Mig) {
        let id = &item.fit.workload;
        let workload = then.inventory.workloads.iter_mut().find(|w| w.id == *id).unwrap();
        workload.resource = format!("nvidia.com/mig-{}", item.share.replace('+', "."));
        then.measured.profiles.get_mut(id).unwrap().slice = Some(item.share.clone());
    }
    then
}

/// The pods of a cluster that is filled again.
#[derive(Default)]
struct Pods(BTreeMap<WorkloadId, Vec<Pod>>);

impl Pods {
    fn put(
        &mut self,
        cluster: &Cluster,
        id: &WorkloadId,
        node: &mut Node,
        cards: Vec<String>,
        slices: Vec<SliceId>,
    ) {
        let requests = cluster.inventory.workload(id).unwrap().pods[0].requests;
        let known = self.0.entry(id.clone()).or_default();
        let name = format!("{}-then-{}", id.name, known.len());
        let held = requests.unwrap_or_default().into();
        node.requested = node.requested.map(|requested| requested.plus(held));
        known.push(Pod { name, node: node.name.clone(), cards, slices, requests });
    }
}

fn cut(card: &mut Card, profiles: impl Iterator<Item = String>) {
    let slice = |(i, profile): (usize, String)| Slice { id: i.to_string(), profile, ..Slice::default() };
    card.slices = profiles.enumerate().map(slice).collect();
}

fn offer_slices(node: &mut Node) {
    node.gpu_allocatable.retain(|resource, _| !resource.starts_with("nvidia_com_mig_"));
    let slices = node.cards.iter().flat_map(|card| &card.slices);
    for profile in slices.map(|slice| slice.profile.replace('.', "_")) {
        *node.gpu_allocatable.entry(format!("nvidia_com_mig_{profile}")).or_default() += 1;
    }
}

/// As the plan says of each node.
fn named_nodes(cluster: &Cluster, plan: &Plan) -> Cluster {
    let mut after = cluster.clone();
    after.inventory.nodes.retain(|node| !plan.saving.nodes_freed.contains(&node.name));
    let mut pods = Pods::default();
    for node in &mut after.inventory.nodes {
        let looked_into = |card: &CardUse| !matches!(card, CardUse::Idle | CardUse::Other { .. });
        let outcome = plan.nodes.iter().find(|outcome| outcome.name == node.name);
        let outcome = outcome.filter(|node| node.before.iter().chain(&node.after).any(looked_into));
        let Some(outcome) = outcome else {
            for workload in &cluster.inventory.workloads {
                let here = workload.pods.iter().filter(|pod| pod.node == node.name).cloned();
                pods.0.entry(workload.id.clone()).or_default().extend(here);
            }
            continue;
        };
        node.requested = Some(Resources::default());
        for c in 0..node.cards.len() {
            let uuid = node.cards[c].uuid.clone();
            node.cards[c].slices.clear();
            match &outcome.after[c] {
                CardUse::Whole { workload } => pods.put(cluster, workload, node, vec![uuid], Vec::new()),
                CardUse::Slices { slices } => {
                    cut(&mut node.cards[c], slices.iter().map(|slice| slice.profile.clone()));
                    for (i, slice) in slices.iter().enumerate() {
                        let held = SliceId { card: uuid.clone(), id: i.to_string() };
                        if let Some(workload) = &slice.workload {
                            pods.put(cluster, workload, node, Vec::new(), vec![held]);
                        }
                    }
                }
                CardUse::Shared { sharing, replicas, workloads } => {
                    let strategy = match sharing {
                        PluginSharing::TimeSlicing => "time-slicing",
                        PluginSharing::Mps => "mps",
                    };
                    node.labels.insert(sanitised_label("nvidia.com/gpu.sharing-strategy"), strategy.into());
                    node.labels.insert(sanitised_label("nvidia.com/gpu.replicas"), replicas.to_string());
                    for workload in workloads {
                        pods.put(cluster, workload, node, vec![uuid.clone()], Vec::new());
                    }
                }
                CardUse::Idle | CardUse::Other { .. } => {}
            }
        }
        offer_slices(node);
    }
    for workload in &mut after.inventory.workloads {
        workload.pods = pods.0.remove(&workload.id).unwrap_or_default();
    }
    after
}

/// Everybody moves: as many new nodes as the plan says, all cards cut as the label says, pods wherever there is a slice
/// and room.
fn new_group(cluster: &Cluster, plan: &Plan) -> Cluster {
    let model = CATALOG.find_by_product(&plan.model_name).unwrap();
    let mut own: BTreeMap<&str, &[MigEntry]> = BTreeMap::new();
    let mut label = None;
    for change in &plan.changes {
        match change {
            Change::SetMigConfig { name, entries, .. } => {
                own.insert(name, entries);
            }
            Change::LabelGroup { value, .. } => label = Some(value.clone()),
            Change::LabelNodes { .. }
            | Change::AddNodePool { .. }
            | Change::SetPluginConfig { .. }
            | Change::PinWorkload { .. }
            | Change::SetWorkloadResource { .. } => {}
        }
    }
    let label = label.expect("the group's label changes");
    let smallest = cluster.inventory.nodes.iter().min_by_key(|node| node.cards.len()).unwrap();
    let known = cluster.inventory.nodes.iter().filter(|node| node.allocatable.is_some());
    let narrowest = known.min_by_key(|node| node.allocatable.map(|room| room.cpu_milli)).unwrap();
    let mut after = cluster.clone();
    after.inventory.nodes = (0..plan.saving.nodes_after)
        .map(|n| {
            let name = format!("new{n}");
            let requested = Some(Resources::default());
            let mut node = Node { requested, allocatable: narrowest.allocatable, ..smallest.clone() };
            let layouts = cut_by(model, &own, &label, node.cards.len()).unwrap();
            for (c, (card, layout)) in node.cards.iter_mut().zip(layouts).enumerate() {
                card.uuid = format!("GPU-{name}-{c}");
                let profiles = layout.iter().flat_map(|(profile, n)| (0..*n).map(|_| profile.clone()));
                cut(card, profiles);
            }
            node.name = name;
            node.labels.insert(sanitised_label("nvidia.com/mig.config"), label.clone());
            offer_slices(&mut node);
            node
        })
        .collect();
    let mut pods = Pods::default();
    let mut taken: BTreeSet<(String, String)> = BTreeSet::new();
    for item in &plan.items {
        let id = &item.fit.workload;
        let needs: Resources =
            cluster.inventory.workload(id).unwrap().pods[0].requests.unwrap_or_default().into();
        for _ in 0..item.replicas {
            let place = after.inventory.nodes.iter().enumerate().find_map(|(n, node)| {
                let free = |card: &Card, slice: &Slice| {
                    slice.profile == item.share && !taken.contains(&(card.uuid.clone(), slice.id.clone()))
                };
                let room = node.allocatable.unwrap().minus(node.requested.unwrap());
                node.cards.iter().filter(|_| needs.fits_in(room)).find_map(|card| {
                    let slice = card.slices.iter().find(|slice| free(card, slice))?;
                    Some((n, card.uuid.clone(), slice.id.clone()))
                })
            });
            let (n, card, slice) = place.unwrap_or_else(|| panic!("{id} finds no slice on the new nodes"));
            taken.insert((card.clone(), slice.clone()));
            let held = vec![SliceId { card, id: slice }];
            pods.put(cluster, id, &mut after.inventory.nodes[n], Vec::new(), held);
        }
    }
    for workload in &mut after.inventory.workloads {
        workload.pods = pods.0.remove(&workload.id).unwrap_or_default();
    }
    after
}
