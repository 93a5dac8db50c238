//! The steps around a node pool that is made beside one: made first, drained into, and the other taken away last.

use super::{drain, step};
use crate::plan::node_group::NodeGroup;
use crate::plan::node_pool::{PoolCards, pool_label};
use crate::plan::{Change, Plan, Step, time_slicing};

/// A new pool of the plan.
struct Added<'p> {
    group: &'p NodeGroup,
    name: &'p str,
    cards: &'p PoolCards,
    keeps_old: bool,
}

fn added(plan: &Plan) -> Option<Added<'_>> {
    plan.changes.iter().find_map(|change| match change {
        Change::AddNodePool { group, name, cards, keeps_old } => {
            Some(Added { group, name, cards, keeps_old: *keeps_old })
        }
        Change::SetMigConfig { .. }
        | Change::SetPluginConfig { .. }
        | Change::LabelNodes { .. }
        | Change::LabelGroup { .. }
        | Change::SetWorkloadResource { .. }
        | Change::PinWorkload { .. } => None,
    })
}

/// `-l cloud.google.com/gke-nodepool=gpu-a100`
fn selector(group: &NodeGroup, name: &str) -> String {
    format!("-l {}={name}", pool_label(group.kind).unwrap_or_default())
}

/// Slices must exist before pods ask for them.
pub(super) fn first(plan: &Plan) -> Option<Step> {
    let Added { group, name, cards, .. } = added(plan)?;
    let offers = match cards {
        PoolCards::Partition { profile, per_card } => format!("{per_card} slices `{profile}` a card"),
        PoolCards::TimeSharing { clients } => format!("`nvidia.com/gpu` {clients} times a card"),
    };
    let mut first = step(
        format!(
            "Before the workloads change: let the pipeline make the new {} `{name}`; its file is applied ahead of the \
             others.",
            group.kind.name()
        ),
        vec![format!("kubectl get nodes {} -o wide", selector(group, name))],
    );
    first.wait_for = Some(format!(
        "its nodes are ready and offer {offers}; a pool that starts with no node makes its \
         first one for the first pod"
    ));
    first.cost = Some("new nodes are paid for beside the old ones until those are gone".to_owned());
    first.on_failure = Some(
        "the cloud has no such machines left, or a quota is used up: nothing has changed for the pods yet"
            .to_owned(),
    );
    Some(first)
}

/// The steps of pods that share the cards of a new pool, without the last one. `None`: there is no such pool.
pub(super) fn shared(plan: &Plan) -> Option<Vec<Step>> {
    let mut merge = step("Merge. The pipeline applies the pod templates.", Vec::new());
    merge.wait_for = Some("the pipeline is through".to_owned());
    Some(vec![first(plan)?, merge, time_slicing::rollout::roll(plan)])
}

/// The old pool goes, or what is empty of it.
pub(super) fn last(plan: &Plan) -> Option<Step> {
    let Added { group, keeps_old, .. } = added(plan)?;
    let mut last = if keeps_old {
        step(
            format!(
                "Let the autoscaler take the empty nodes of {group} away; those with whole cards in use stay. A pool of a \
                 fixed size gets its smaller size where it is declared, as a change of its own."
            ),
            vec![format!("kubectl get nodes {}", selector(group, &group.name))],
        )
    } else {
        step(
            format!(
                "Drain {group}, and remove it where it is declared, as a change of its own: no pod with a GPU needs it."
            ),
            vec![drain(&selector(group, &group.name))],
        )
    };
    last.wait_for = Some(if keeps_old {
        "only nodes with pods on whole cards are left".to_owned()
    } else {
        "no pod with a GPU runs on its nodes".to_owned()
    });
    last.on_failure = Some(format!("kubectl uncordon {}", selector(group, &group.name)));
    Some(last)
}

/// Before the revert: the old pool takes pods again.
pub(super) fn back(plan: &Plan) -> Vec<Step> {
    let Some(Added { group, name, .. }) = added(plan) else { return Vec::new() };
    let mut old = step(
        format!("Let {group} take pods again; make it anew, with its old size, if it was removed."),
        vec![format!("kubectl uncordon {}", selector(group, &group.name))],
    );
    old.wait_for = Some("its nodes offer whole cards, or its autoscaler may make them".to_owned());
    let mut workloads = step(
        format!(
            "Revert the workloads' files first: reverted together with them, `{name}` would go under its pods."
        ),
        Vec::new(),
    );
    workloads.wait_for = Some(format!("no pod with a GPU runs on `{name}`"));
    vec![old, workloads]
}
