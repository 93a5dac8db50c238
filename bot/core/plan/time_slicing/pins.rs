//! The node selectors that bind pods to the nodes of their group: where they are needed, and whether they can be written.

use std::collections::BTreeMap;

use super::super::{CardUse, Goal, NodeFate, NodeOutcome, PoolKind, Request, Weighed};
use super::groups::Group;
use super::refusals::may_follow;
use super::{PLUGIN_LABEL, PRODUCT_LABEL};
use crate::fit::Reason;
use crate::ids::WorkloadId;

/// Whether pods can be bound to the nodes of their group by a node selector in their manifest.
pub(super) struct Pins {
    /// Why not, by the first workload that cannot.
    pub(super) cannot: Option<Reason>,
    /// Workloads that select the product label, which sharing changes, with the value they select.
    products: BTreeMap<WorkloadId, String>,
}

/// Node selectors to set, by workload.
pub(super) type Selectors = BTreeMap<WorkloadId, BTreeMap<String, String>>;

impl Pins {
    pub(super) fn new(request: &Request<'_>, sharers: &[&Weighed<'_>]) -> Self {
        let products = sharers.iter().filter_map(|w| {
            let selected = request.declared.of(&w.workload.id)?.node_selector.get(PRODUCT_LABEL)?;
            (!selected.ends_with("-SHARED")).then(|| (w.workload.id.clone(), selected.clone()))
        });
        Self { cannot: sharers.iter().find_map(|w| cannot_pin(request, w)), products: products.collect() }
    }

    /// The selectors that the plan needs, or why they cannot be written.
    pub(super) fn selectors(
        &self,
        request: &Request<'_>,
        groups: &[Group<'_, '_>],
        nodes: &[NodeOutcome],
    ) -> Result<Selectors, Vec<Reason>> {
        let need = need(request, groups, nodes);
        if let Some(why) = &self.cannot {
            if need == Need::Must {
                return Err(vec![why.clone()]);
            }
            if let Some((id, _)) = self.products.first_key_value() {
                return Err(vec![selector_breaks(id, why)]);
            }
            return Ok(Selectors::new());
        }
        let mut selectors = Selectors::new();
        for (group, w) in groups.iter().flat_map(|group| group.members.iter().map(move |w| (group, w))) {
            let mut selector = BTreeMap::new();
            if need != Need::Nobody {
                if let Some(reason) = follows_elsewhere(request, group, w) {
                    return Err(vec![reason]);
                }
                selector.insert(PLUGIN_LABEL.to_owned(), group.key.clone());
            }
            if let Some(product) = self.products.get(&w.workload.id) {
                selector.insert(PRODUCT_LABEL.to_owned(), format!("{product}-SHARED"));
            }
            if !selector.is_empty() {
                selectors.insert(w.workload.id.clone(), selector);
            }
        }
        Ok(selectors)
    }
}

/// How much depends on pods being bound to shared nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// No other node of the pool stays.
    Nobody,
    /// Idle nodes stay: pods that wander there undo a part of what is freed, and endanger nobody.
    Better,
    /// Two groups, or cards on nodes that stay are what is freed.
    Must,
}

fn need(request: &Request<'_>, groups: &[Group<'_, '_>], nodes: &[NodeOutcome]) -> Need {
    let stays = || nodes.iter().filter(|node| node.fate == NodeFate::Untouched);
    let left = stays().any(|node| node.before != node.after);
    let idle = stays().any(|node| node.after.contains(&CardUse::Idle));
    if request.pool.kind == PoolKind::Elastic {
        Need::Nobody
    } else if groups.len() > 1 || left || (idle && request.pool.goal == Goal::Capacity) {
        Need::Must
    } else if idle {
        Need::Better
    } else {
        Need::Nobody
    }
}

fn cannot_pin(request: &Request<'_>, weighed: &Weighed<'_>) -> Option<Reason> {
    let id = &weighed.workload.id;
    let why = match request.declared.of(id) {
        None => "its manifest was not found in the repository".to_owned(),
        Some(declared) => match (&declared.editable, declared.node_selector.get(PLUGIN_LABEL)) {
            (Err(why), _) => format!("its manifest cannot be edited safely ({why})"),
            (Ok(()), Some(selected)) => format!("it selects `{PLUGIN_LABEL}: {selected}` already"),
            (Ok(()), None) => return None,
        },
    };
    Some(
        Reason::new("cannot-pin", format!("{id} must be bound to its nodes by a node selector, and {why}"))
            .with_advice(format!("let its pods select `{PLUGIN_LABEL}` in a manifest that the bot can edit")),
    )
}

fn selector_breaks(id: &WorkloadId, why: &Reason) -> Reason {
    Reason::new(
        "selector-breaks",
        format!("{id} selects `{PRODUCT_LABEL}`, which ends in `-SHARED` on shared cards; {}", why.text),
    )
    .with_advice("let it select the pool by another label")
}

/// Another node carries the group's key already, and pods that select the key could land there.
fn follows_elsewhere(request: &Request<'_>, group: &Group<'_, '_>, weighed: &Weighed<'_>) -> Option<Reason> {
    let declared = request.declared.of(&weighed.workload.id)?;
    let node = request
        .inventory
        .nodes
        .iter()
        .find(|node| !group.nodes.contains(&node.name) && may_follow(declared, node, &group.key))?;
    Some(Reason::new(
        "key-elsewhere",
        format!(
            "{} carries `{PLUGIN_LABEL}: {}` already: {} would be bound to it as well",
            node.name, group.key, weighed.workload.id
        ),
    ))
}
