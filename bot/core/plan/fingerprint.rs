//! What a reviewer accepts or declines, hashed without the noise of metrics.

use std::collections::BTreeSet;

use super::{Change, NodeFate, Plan, PluginSharing};
use crate::ids::short_hash;

/// Sixteen hex digits over what the plan changes: objects, fields, old and new values, nodes freed.
///
/// Peaks, prices and dates are left out: a plan that changes the same things has the same fingerprint, however its
/// evidence moved.
pub fn fingerprint(plan: &Plan) -> String {
    let mut lines: BTreeSet<String> = plan.changes.iter().flat_map(lines).collect();
    for node in &plan.nodes {
        if node.fate == NodeFate::Freed {
            lines.insert(format!("free {}", node.name));
        }
    }
    lines.insert(format!("pool {} method {:?} kind {:?}", plan.pool, plan.method, plan.pool_kind));
    short_hash(&lines.into_iter().collect::<Vec<_>>().join("\n"), 16)
}

fn lines(change: &Change) -> Vec<String> {
    match change {
        Change::SetMigConfig { name, entries, names_in_use: _ } => {
            entries.iter().map(|e| format!("mig {name} {:?} {:?}", e.cards, e.instances)).collect()
        }
        Change::SetPluginConfig { key, resource, replicas, fail_requests_greater_than_one, sharing } => {
            // Time-slicing is left unsaid: plans that were declined before MPS was known keep their fingerprint.
            let how = if *sharing == PluginSharing::Mps { " mps" } else { "" };
            vec![format!("plugin {key} {resource} {replicas} {fail_requests_greater_than_one}{how}")]
        }
        Change::LabelNodes { key, value, nodes } => {
            nodes.iter().map(|(node, old)| format!("label {node} {key} {old:?} {value}")).collect()
        }
        // Which group it is follows from the pool: plans that were declined before it was known keep their fingerprint.
        Change::LabelGroup { key, value, previous, beside, group: _ } => {
            vec![format!("group {key} {previous:?} {value} {beside}")]
        }
        Change::AddNodePool { group, name, cards, keeps_old } => {
            vec![format!("node pool {name} beside {} {cards:?} {keeps_old}", group.name)]
        }
        Change::SetWorkloadResource { workload, from, to, count, pin } => {
            vec![format!("resource {} {workload} {from} {to} {count} {pin:?}", workload.kind)]
        }
        Change::PinWorkload { workload, selector } => {
            vec![format!("pin {} {workload} {selector:?}", workload.kind)]
        }
    }
}
