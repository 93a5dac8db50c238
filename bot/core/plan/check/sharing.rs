//! What every plan that shares whole cards must hold: the worst that can meet fits, and nobody else can come.
//!
//! Computed anew from measurements, policies and the catalog; none of the planner's own figures are used.

use std::collections::{BTreeMap, BTreeSet};

use super::super::node_pool::PoolCards;
use super::super::{CardUse, Change, NodeFate, NodeOutcome, Plan, PluginSharing, PoolKind, Request};
use super::new_pool;
use crate::catalog::GpuModel;
use crate::ids::WorkloadId;
use crate::inventory::{DeclaredWorkload, MigStrategy, Node, Sharing, Taint};
use crate::policy::{Method, Policy};
use crate::usage::WorkloadProfile;

const PLUGIN_LABEL: &str = "nvidia.com/device-plugin.config";

/// One key of the device plugin, who asks for cards under it, and where.
struct Key<'p> {
    name: &'p str,
    replicas: u32,
    sharing: PluginSharing,
    members: Vec<Member<'p>>,
    nodes: BTreeSet<&'p str>,
}

/// One workload of a group.
struct Member<'p> {
    id: &'p WorkloadId,
    /// Pods that may be there at once, those of a rolling update included.
    n_pods: u32,
    replicas: u32,
    profile: &'p WorkloadProfile,
    policy: &'p Policy,
}

/// Every rule that a plan by time-slicing or MPS breaks.
pub(super) fn shared_cards(request: &Request<'_>, plan: &Plan, broken: &mut Vec<String>) {
    for item in &plan.items {
        let id = &item.fit.workload;
        match request.policies.get(id) {
            Some(policy) if !policy.production && policy.methods.contains(&plan.method) => {}
            _ => broken.push(format!(
                "{id} is production, or its policy does not allow {}, and it would share cards",
                plan.method.name()
            )),
        }
    }
    let keys = keys(request, plan, broken);
    if keys.is_empty() {
        broken.push("no key of the device plugin says how cards are shared".to_owned());
    }
    for key in &keys {
        factor(request, plan, key, broken);
        worst(request, plan, key, broken);
        room(request, plan, key, broken);
        if key.sharing == PluginSharing::Mps {
            equal_shares(request, plan, key, broken);
        }
        meets_nobody_else(request, plan, key, broken);
    }
}

/// The node selector that the plan sets for a workload.
pub(super) fn pinned<'p>(plan: &'p Plan, id: &WorkloadId) -> Option<&'p BTreeMap<String, String>> {
    plan.changes.iter().find_map(|change| match change {
        Change::PinWorkload { workload, selector } if workload == id => Some(selector),
        Change::PinWorkload { .. }
        | Change::SetMigConfig { .. }
        | Change::SetPluginConfig { .. }
        | Change::LabelNodes { .. }
        | Change::LabelGroup { .. }
        | Change::AddNodePool { .. }
        | Change::SetWorkloadResource { .. } => None,
    })
}

/// Nobody may run on the node while its cards change: always with MIG; under MPS where a pod holds a card, which the
/// server takes; under time-slicing where a pod is bound to the key of other nodes.
pub(super) fn must_be_empty(plan: &Plan, node: &NodeOutcome) -> bool {
    let key_here = plan.changes.iter().find_map(|change| match change {
        Change::LabelNodes { key, value, nodes } if key == PLUGIN_LABEL && nodes.contains_key(&node.name) => {
            Some(value)
        }
        Change::LabelNodes { .. }
        | Change::SetMigConfig { .. }
        | Change::SetPluginConfig { .. }
        | Change::LabelGroup { .. }
        | Change::AddNodePool { .. }
        | Change::SetWorkloadResource { .. }
        | Change::PinWorkload { .. } => None,
    });
    let mut holders = node.before.iter().filter_map(|card| match card {
        CardUse::Whole { workload } => Some(workload),
        CardUse::Idle | CardUse::Slices { .. } | CardUse::Shared { .. } | CardUse::Other { .. } => None,
    });
    match plan.method {
        Method::Mig => true,
        Method::Mps => holders.next().is_some(),
        Method::TimeSlicing => holders.any(|id| {
            pinned(plan, id)
                .and_then(|selector| selector.get(PLUGIN_LABEL))
                .is_some_and(|key| Some(key) != key_here)
        }),
        Method::KeepWhole => false,
    }
}

/// The plan's keys with their members: those bound to the key, or everybody where there is only one.
fn keys<'p>(request: &'p Request<'_>, plan: &'p Plan, broken: &mut Vec<String>) -> Vec<Key<'p>> {
    let mut keys: Vec<Key<'p>> = Vec::new();
    for change in &plan.changes {
        if let Change::SetPluginConfig { key, replicas, sharing, .. } = change {
            if keys.iter().any(|known| known.name == key) {
                broken.push(format!("`{key}` is defined twice"));
            }
            let (members, nodes) = (Vec::new(), BTreeSet::new());
            keys.push(Key { name: key, replicas: *replicas, sharing: *sharing, members, nodes });
        }
    }
    for change in &plan.changes {
        if let Change::AddNodePool { name, cards: PoolCards::TimeSharing { clients }, .. } = change {
            let (members, nodes) = (Vec::new(), BTreeSet::new());
            let sharing = PluginSharing::TimeSlicing;
            keys.push(Key { name, replicas: *clients, sharing, members, nodes });
            let bound =
                |id: &WorkloadId| pinned(plan, id).is_some_and(|selector| new_pool::is_meant(plan, selector));
            let ids = plan.items.iter().map(|item| &item.fit.workload);
            for id in ids.filter(|id| !bound(id)) {
                broken.push(format!("{id} is to share cards of {name} and does not select it"));
            }
        }
    }
    for change in &plan.changes {
        if let Change::LabelNodes { key: label, value, nodes } = change
            && label == PLUGIN_LABEL
            && let Some(key) = keys.iter_mut().find(|key| key.name == value)
        {
            key.nodes.extend(nodes.keys().map(String::as_str));
        }
    }
    if plan.pool_kind == PoolKind::Elastic
        && let Some(key) = keys.first_mut()
    {
        key.nodes.extend(request.pool.nodes.iter().map(String::as_str));
    }
    let several = keys.len() > 1;
    for item in &plan.items {
        let id = &item.fit.workload;
        let bound = pinned(plan, id).and_then(|selector| selector.get(PLUGIN_LABEL));
        let key = match bound {
            Some(bound) => keys.iter_mut().find(|key| key.name == bound),
            None if several => None,
            None => keys.first_mut(),
        };
        let (Some(key), Some(profile), Some(policy)) =
            (key, request.measured.profiles.get(id), request.policies.get(id))
        else {
            broken.push(format!("{id} is bound to no group of nodes, or has no measurement or policy"));
            continue;
        };
        let n_pods = item.replicas.saturating_add(item.max_surge);
        key.members.push(Member { id, n_pods, replicas: item.replicas, profile, policy });
    }
    keys
}

/// What the device plugin and the policies allow as a number of replicas.
fn factor(request: &Request<'_>, plan: &Plan, key: &Key<'_>, broken: &mut Vec<String>) {
    let Key { name, replicas, .. } = key;
    if *replicas < 2 {
        broken.push(format!("`{name}` has {replicas} replicas; the device plugin refuses fewer than 2"));
    }
    let most = key
        .members
        .iter()
        .map(|member| match key.sharing {
            PluginSharing::TimeSlicing => member.policy.time_slicing.max_replicas,
            PluginSharing::Mps => member.policy.mps_max_replicas,
        })
        .min();
    let by_card = match key.sharing {
        PluginSharing::TimeSlicing => u32::MAX,
        PluginSharing::Mps => model(request, plan).map_or(0, |model| model.mps_max_replicas),
    };
    if most.is_none_or(|most| *replicas > most.min(by_card)) {
        broken.push(format!("`{name}` has {replicas} replicas, more than its policies or the card allow"));
    }
    if plan.method != key.sharing.method() {
        broken.push(format!("`{name}` shares by another method than the plan"));
    }
}

fn model<'a>(request: &Request<'a>, plan: &Plan) -> Option<&'a GpuModel> {
    request.catalog.find(&plan.model)
}

fn framebuffer(request: &Request<'_>, plan: &Plan) -> u64 {
    let seen = request.measured.smallest_framebuffer.get(&plan.model_name).copied();
    model(request, plan).map_or(seen, |model| model.framebuffer_with(seen)).map_or(0, |known| known.0)
}

/// The largest peaks and the busiest pods that can meet on one card fit it.
fn worst(request: &Request<'_>, plan: &Plan, key: &Key<'_>, broken: &mut Vec<String>) {
    let share = key.members.iter().map(|member| member.policy.time_slicing.usable_share.ppm()).min();
    let usable = u128::from(framebuffer(request, plan)) * u128::from(share.unwrap_or(0)) / 1_000_000;
    let worst = worst_sum(key, |profile| profile.peak.as_ref().map(|peak| peak.memory.0));
    if worst.is_none_or(|worst| u128::from(worst) > usable) {
        broken.push(format!(
            "the {} largest peaks under `{}` need {} MiB of {usable} MiB",
            key.replicas,
            key.name,
            worst.map_or_else(|| "an unknown number of".to_owned(), |worst| worst.to_string())
        ));
    }
    let limit = key.members.iter().map(|member| member.policy.time_slicing.compute_limit.ppm()).min();
    let busiest = worst_sum(key, |profile| Some(u64::from(profile.compute?.p99.ppm())));
    if busiest.is_none_or(|busiest| busiest > u64::from(limit.unwrap_or(0))) {
        broken
            .push(format!("the {} busiest pods under `{}` exceed the compute limit", key.replicas, key.name));
    }
}

/// The sum of the largest figures, as many as there are replicas. `None`: some figure is not known.
fn worst_sum(key: &Key<'_>, figure: impl Fn(&WorkloadProfile) -> Option<u64>) -> Option<u64> {
    let mut all = Vec::new();
    for member in &key.members {
        all.extend(std::iter::repeat_n(figure(member.profile)?, member.n_pods as usize));
    }
    all.sort_unstable_by(|a, b| b.cmp(a));
    Some(all.iter().take(key.replicas as usize).fold(0, |sum, n| sum.saturating_add(*n)))
}

/// Every pod has a replica on the nodes of its group, and all cards there are offered as the key says.
fn room(request: &Request<'_>, plan: &Plan, key: &Key<'_>, broken: &mut Vec<String>) {
    let cards: usize =
        key.nodes.iter().filter_map(|name| request.inventory.node(name)).map(|node| node.cards.len()).sum();
    let pods: usize = key.members.iter().map(|member| member.n_pods as usize).sum();
    if cards.saturating_mul(key.replicas as usize) < pods {
        broken
            .push(format!("{pods} pods and {cards} cards of {} replicas under `{}`", key.replicas, key.name));
    }
    if plan.pool_kind == PoolKind::Elastic {
        return;
    }
    let mut seated: BTreeMap<&WorkloadId, u32> = BTreeMap::new();
    for node in &plan.nodes {
        let labelled = key.nodes.contains(node.name.as_str());
        for card in &node.after {
            let CardUse::Shared { sharing, replicas, workloads } = card else {
                if labelled {
                    broken.push(format!(
                        "{} is labelled `{}` and keeps a card that is not shared",
                        node.name, key.name
                    ));
                }
                continue;
            };
            if !labelled {
                continue;
            }
            if (*sharing, *replicas) != (key.sharing, key.replicas) || workloads.len() > *replicas as usize {
                broken.push(format!("a card of {} does not hold to `{}`", node.name, key.name));
            }
            for id in workloads {
                *seated.entry(id).or_default() += 1;
            }
        }
        match node.fate {
            NodeFate::Freed if labelled => {
                broken.push(format!("{} is labelled `{}` and would be freed", node.name, key.name));
            }
            NodeFate::Untouched if labelled => {
                broken.push(format!("{} is labelled `{}` and would be left alone", node.name, key.name));
            }
            NodeFate::Freed | NodeFate::Untouched | NodeFate::Touched => {}
        }
    }
    for member in &key.members {
        let got = seated.remove(member.id).unwrap_or(0);
        if got != member.replicas {
            broken.push(format!(
                "{} has {got} seats under `{}` for {} replicas",
                member.id, key.name, member.replicas
            ));
        }
    }
    for id in seated.keys() {
        broken.push(format!("{id} sits under `{}` and is of another group", key.name));
    }
}

/// The server gives every client the same: the largest must get along with it. Never on cards with MIG.
fn equal_shares(request: &Request<'_>, plan: &Plan, key: &Key<'_>, broken: &mut Vec<String>) {
    let replicas = u64::from(key.replicas.max(1));
    let memory = framebuffer(request, plan) / replicas;
    let milli = 100 / replicas * 10;
    for member in &key.members {
        let need = member.profile.peak.as_ref().map(|peak| member.policy.memory_need(peak.memory).0);
        if need.is_none_or(|need| need > memory) {
            broken.push(format!("{} needs more than the {memory} MiB that an MPS client gets", member.id));
        }
        let need = member.profile.compute.map(|compute| member.policy.compute_need_milli(compute.p99));
        if need.is_none_or(|need| u64::from(need) > milli) {
            broken.push(format!(
                "{} needs more than the {milli} thousandths of the SMs of an MPS client",
                member.id
            ));
        }
    }
    let mixed = |node: &Node| node.label("nvidia.com/mig.strategy") == Some("mixed");
    let on = |node: &Node| {
        node.sharing() == Sharing::Mig
            || node.label("nvidia.com/mig.config").is_some_and(|config| config != "all-disabled")
    };
    let nodes = || key.nodes.iter().filter_map(|name| request.inventory.node(name));
    if request.declared.operator.mig_strategy == Some(MigStrategy::Mixed) || nodes().any(mixed) {
        broken.push("the device plugin does not start with MPS under `mig.strategy: mixed`".to_owned());
    }
    if nodes().any(on) {
        broken.push(format!("nodes under `{}` have MIG on, and MPS does not work there", key.name));
    }
}

/// No pod of somebody else can land on the group's cards: each is repelled by a taint, or chooses other nodes. Whoever
/// runs, ran on such cards in the window, or is declared and not seen, may come; so may pods that nobody owns.
fn meets_nobody_else(request: &Request<'_>, plan: &Plan, key: &Key<'_>, broken: &mut Vec<String>) {
    let seen: BTreeSet<WorkloadId> = request
        .inventory
        .workloads
        .iter()
        .filter_map(|workload| Some(request.declared.find(&workload.id)?.0))
        .collect();
    let unseen: Vec<(&WorkloadId, &DeclaredWorkload)> =
        request.declared.workloads.iter().filter(|(id, _)| !seen.contains(*id)).collect();
    for node in key.nodes.iter().filter_map(|name| request.inventory.node(name)) {
        let of_its_own = lasting_taints(node).any(|taint| taint.key != "nvidia.com/gpu");
        for pod in &request.inventory.unattributed_pods {
            if !of_its_own || request.pool.nodes.contains(&pod.node) {
                broken.push(format!("{}, whose owner is not known, may land on {}", pod.pod, node.name));
            }
        }
        let mut kept_off = 0;
        for other in &request.inventory.workloads {
            let id = &other.id;
            if other.resource != "nvidia.com/gpu" || key.members.iter().any(|member| member.id == id) {
                continue;
            }
            if other.pods.iter().any(|pod| pod.node == node.name)
                && !plan.items.iter().any(|item| item.fit.workload == *id)
            {
                broken.push(format!("{id} has a whole card on {}, which would be shared", node.name));
            }
            let bound = pinned(plan, id).and_then(|selector| selector.get(PLUGIN_LABEL));
            let in_pool = other.pods.iter().any(|pod| request.pool.nodes.contains(&pod.node));
            let ran_on_such = request.measured.profiles.get(id).is_some_and(|profile| {
                other.pods.is_empty() && node.model_names().contains(profile.model_name.as_str())
            });
            let off = match (bound, request.declared.of(id)) {
                (Some(bound), _) => bound != key.name,
                (None, None) => of_its_own && !in_pool && !ran_on_such,
                (None, Some(declared)) => stays_off(request, node, key, declared),
            };
            if !off {
                broken.push(format!("{id} may land on {}, whose cards are shared", node.name));
            }
            // The plan's own pods say nothing of those that come later.
            kept_off += usize::from(bound.is_none());
        }
        for (id, declared) in &unseen {
            if !stays_off(request, node, key, declared) {
                broken
                    .push(format!("{id} is declared and may land on {}, whose cards are shared", node.name));
            }
            kept_off += 1;
        }
        if !of_its_own && kept_off == 0 {
            broken.push(format!("nothing keeps other pods off {}", node.name));
        }
    }
}

/// Taints that say what the node is for, not how it is doing.
fn lasting_taints(node: &Node) -> impl Iterator<Item = &Taint> {
    node.taints.iter().filter(|taint| {
        taint.effect != "PreferNoSchedule"
            && !taint.key.contains("node.kubernetes.io/")
            && !taint.key.starts_with("karpenter.sh/")
    })
}

/// Pods so declared cannot come to the node: a taint repels them, or they select what it will not carry.
fn stays_off(request: &Request<'_>, node: &Node, key: &Key<'_>, declared: &DeclaredWorkload) -> bool {
    let repelled = lasting_taints(node).any(|taint| {
        let forms = ["*".to_owned(), taint.key.clone(), format!("{}={}", taint.key, taint.value)];
        !forms.iter().any(|form| declared.tolerations.contains(form))
    });
    repelled || declared.node_selector.iter().any(|(label, value)| mismatch(request, node, key, label, value))
}

/// The node will not carry the label with this value.
fn mismatch(request: &Request<'_>, node: &Node, key: &Key<'_>, label: &str, value: &str) -> bool {
    match label {
        PLUGIN_LABEL => value != key.name,
        "nvidia.com/gpu.product" => node.label(label).is_some_and(|today| format!("{today}-SHARED") != value),
        "kubernetes.io/hostname" => value != node.name,
        _ => {
            let written =
                request.declared.node_labels.get(&node.name).and_then(|carrier| carrier.labels.get(label));
            match node.label(label).or(written.map(String::as_str)) {
                Some(today) => today != value,
                None => request.inventory.nodes.iter().any(|other| other.label(label).is_some()),
            }
        }
    }
}
