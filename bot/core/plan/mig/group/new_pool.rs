//! A pool that the cloud cuts by a field of its own: a new one beside it, and who is bound to which of the two.
//!
//! GKE's plugin, and NVIDIA's under strategy `single`, call slices like whole cards. Whoever asks for a whole card and is
//! bound to none of the two pools could land on a slice, so that such a workload is bound to the old pool, or keeps
//! itself off, or there is no plan.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::super::change::resources;
use super::{Choice, Land, Mig, OneLayout};
use crate::fit::Reason;
use crate::ids::WorkloadId;
use crate::inventory::{DeclaredWorkload, Node};
use crate::plan::node_group::{NodeGroup, NodeGroupKind};
use crate::plan::node_pool::{self, PoolCards};
use crate::plan::placement::{lasts, tolerates};
use crate::plan::{Change, Request, Weighed};
use crate::units::{counted, first_few};

/// The label of the product, which ends in the profile under strategy `single`.
const PRODUCT_LABEL: &str = "nvidia.com/gpu.product";

/// Slices of one size on every card, for each size that the cloud offers, with those who fit it: a size that is large
/// enough for all of them may need more cards than one that leaves some on whole ones.
pub(super) fn choices(mig: &Mig<'_, '_>, land: &Land<'_>, movable: &BTreeSet<usize>) -> Vec<Choice> {
    let Some(group) = node_pool::of(mig.request) else { return Vec::new() };
    let fits = |i: usize, kind: usize| {
        let name = &mig.geometry.types[kind].name;
        let may = |target: usize| {
            target == kind
                || (target < kind && mig.weighed[i].fit.considered.iter().any(|c| c.name == *name && c.fits))
        };
        land.tenants[i].target.is_some_and(may)
    };
    (0..mig.geometry.whole())
        .filter(|kind| node_pool::offers(group.kind, mig.model, mig.chain[*kind]))
        .map(|kind| Choice {
            movable: movable.iter().copied().filter(|i| fits(*i, kind)).collect(),
            layouts: vec![mig.geometry.uniform_layout(kind)],
        })
        .filter(|choice| !choice.movable.is_empty())
        .collect()
}

/// Why somebody stays who would do with a slice of another size.
pub(super) fn another_size(group: &NodeGroup, layout: &str) -> Reason {
    Reason::new(
        "uniform-pool",
        format!(
            "all cards of a {} are cut into slices of one size, and `{layout}`, which frees the most, does not hold it",
            group.kind.name()
        ),
    )
    .with_advice("give it a pool of its own")
}

/// The new pool, and what each workload asks for and where it runs then.
pub(super) fn changes(
    mig: &Mig<'_, '_>,
    land: &Land<'_>,
    layout: &OneLayout,
    (group, keeps_old): (&NodeGroup, bool),
    weighed: &[Weighed<'_>],
    converted: &BTreeSet<usize>,
) -> Result<Vec<Change>, Vec<Reason>> {
    let counts = layout.layout.counts.iter().zip(&mig.geometry.types);
    let cut = counts.filter(|(n, _)| **n > 0).map(|(n, slice)| (*n, slice)).next();
    let (Some((per_card, slice)), Some(old)) = (cut, land.nodes.first()) else { return Ok(Vec::new()) };
    let cards = PoolCards::Partition { profile: slice.name.clone(), per_card };
    let name = node_pool::name_beside(group, &cards);
    let pool = NewPool { request: mig.request, group, name: &name, cards: &cards };
    let moved: BTreeSet<&WorkloadId> = converted.iter().map(|i| &weighed[*i].workload.id).collect();
    let mut changes = if node_pool::keeps_the_name(mig.request, group.kind) {
        let like = node_pool::node_like(old, group.kind, &name, &cards);
        let mut pins = pool.movers(weighed, converted).map_err(|reason| vec![reason])?;
        pins.extend(pool.stayers(&like, &moved).map_err(|reason| vec![reason])?);
        pins
    } else {
        let mut changes = resources(mig, weighed, converted);
        for change in &mut changes {
            if let Change::SetWorkloadResource { workload, pin, .. } = change {
                pin.extend(pool.follows(workload));
            }
        }
        changes
    };
    changes.insert(0, Change::AddNodePool { group: group.clone(), name, cards, keeps_old });
    Ok(changes)
}

struct NewPool<'p, 'r> {
    request: &'p Request<'r>,
    group: &'p NodeGroup,
    name: &'p str,
    cards: &'p PoolCards,
}

impl<'r> NewPool<'_, 'r> {
    /// Selector entries on the old pool's name, with the new one's.
    fn follows(&self, id: &WorkloadId) -> BTreeMap<String, String> {
        node_pool::follows(self.request, id, (self.group.kind, self.name, self.cards))
    }

    /// Node selectors that bring those who move to the new pool.
    fn movers(&self, weighed: &[Weighed<'_>], converted: &BTreeSet<usize>) -> Result<Vec<Change>, Reason> {
        let binding = node_pool::binding(self.request, self.group.kind, self.name, self.cards);
        let mut changes = Vec::new();
        for w in converted.iter().map(|i| &weighed[*i]) {
            let id = &w.workload.id;
            let product = self.request.declared.of(id).and_then(|d| d.node_selector.get(PRODUCT_LABEL));
            if let Some(product) = product.filter(|_| self.group.kind != NodeGroupKind::Gke) {
                return Err(Reason::new(
                    "selector-breaks",
                    format!(
                        "{id} selects `{PRODUCT_LABEL}: {product}`, which ends in the profile on cut cards"
                    ),
                )
                .with_advice("let it select the pool by another label"));
            }
            let selector = binding.iter().map(own).chain(self.follows(id)).collect();
            changes.push(Change::PinWorkload { workload: id.clone(), selector });
        }
        Ok(changes)
    }

    /// Node selectors that keep the others on whole cards, or who cannot be kept there.
    fn stayers(&self, like: &Node, moved: &BTreeSet<&WorkloadId>) -> Result<Vec<Change>, Reason> {
        let request = self.request;
        let taint = like.taints.iter().any(|taint| lasts(taint) && taint.key != "nvidia.com/gpu");
        let here = |node: &str| request.pool.nodes.contains(node);
        if let Some(pod) = request.inventory.unattributed_pods.iter().find(|pod| !taint || here(&pod.node)) {
            let text = format!("{} asks for a GPU, and who owns it is not known", pod.pod);
            return Err(self.may_land("unknown-pods", text));
        }
        let mut pins = Vec::new();
        let mut loose: Vec<String> = Vec::new();
        let mut seen: BTreeSet<WorkloadId> = BTreeSet::new();
        for workload in &request.inventory.workloads {
            let found = request.declared.find(&workload.id);
            seen.extend(found.iter().map(|(id, _)| id.clone()));
            if workload.resource != "nvidia.com/gpu" || moved.contains(&workload.id) {
                continue;
            }
            let all_here = workload.pods.iter().all(|pod| here(&pod.node));
            let declared = found.map(|(_, declared)| declared);
            match declared {
                Some(declared) if self.keeps_off(declared, like) => {}
                Some(declared) if all_here && !workload.pods.is_empty() && declared.editable.is_ok() => {
                    let old = node_pool::pool_label(self.group.kind);
                    let selector =
                        old.map(|key| (key.to_owned(), self.group.name.clone())).into_iter().collect();
                    pins.push(Change::PinWorkload { workload: workload.id.clone(), selector });
                }
                None if taint && !workload.pods.iter().any(|pod| here(&pod.node)) => {}
                Some(_) | None => loose.push(workload.id.to_string()),
            }
        }
        let unseen = request.declared.workloads.iter().filter(|(id, _)| !seen.contains(*id));
        loose.extend(unseen.filter(|(_, d)| !self.keeps_off(d, like)).map(|(id, _)| id.to_string()));
        if loose.is_empty() {
            return Ok(pins);
        }
        let text = format!(
            "{} that {} no node pool: {}",
            counted(loose.len(), "workload"),
            if loose.len() == 1 { "selects" } else { "select" },
            first_few(&loose, 3, ", ")
        );
        Err(self.may_land("others-may-meet", text))
    }

    fn may_land(&self, code: &str, who: String) -> Reason {
        let key = node_pool::pool_label(self.group.kind).unwrap_or_default();
        Reason::new(
            code,
            format!(
                "slices of {} would be called `nvidia.com/gpu` too, and may be given to {who}",
                self.name
            ),
        )
        .with_advice(format!(
            "let every workload with a GPU select its pool (`{key}`), in a manifest that the bot can edit"
        ))
    }

    /// A taint or a node selector of its own keeps it off such a node.
    fn keeps_off(&self, declared: &DeclaredWorkload, like: &Node) -> bool {
        !tolerates(declared, like)
            || declared.node_selector.iter().any(|(key, value)| match like.label(key) {
                Some(label) => label != value,
                // Absent where others show it is absent; where nobody shows it, nothing is known.
                None => {
                    key == "kubernetes.io/hostname"
                        || self.request.inventory.nodes.iter().any(|node| node.label(key).is_some())
                }
            })
    }
}

fn own((key, value): (&String, &String)) -> (String, String) {
    (key.clone(), value.clone())
}
