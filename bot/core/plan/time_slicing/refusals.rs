//! What forbids sharing: pods that may not be moved, and others that could land on a shared card.
//!
//! A number of replicas has a proof only when every pod that can land on the card was counted. So something must keep
//! all others off: a taint that they do not tolerate, or node selectors of theirs that do not match.

use std::collections::BTreeSet;

use super::super::mig::{Crew, IDLE_FLOOR, crew, site};
use super::super::placement::{lasts, may_run, tolerates, unfit};
use super::super::{PoolKind, Request, Weighed};
use super::groups::Terms;
use super::{PLUGIN_LABEL, PRODUCT_LABEL, pool_nodes};
use crate::fit::Reason;
use crate::ids::{WorkloadId, slug};
use crate::inventory::{DeclaredWorkload, Node, Sharing};
use crate::units::{counted, first_few};

/// The nodes whose cards may be shared, and what keeps others off them.
pub(super) struct Ground<'a> {
    pub(super) nodes: Vec<&'a Node>,
    /// Sentences for the proof.
    pub(super) kept_off: Vec<String>,
}

/// What forbids a proof for the pool as a whole.
pub(super) fn of_the_pool(
    request: &Request<'_>,
    weighed: &[Weighed<'_>],
    sharers: &[&Weighed<'_>],
) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if sharers.len() < 2 && sharers.iter().all(|w| w.planned() < 2) {
        reasons.push(Reason::new("nobody-to-share-with", "one pod alone has nobody to share a card with"));
    }
    reasons.extend(several_groups(sharers));
    let (mut frozen, mut held) = (Vec::new(), Vec::new());
    let crew = crew(weighed);
    let homes: BTreeSet<&str> = sharers.iter().flat_map(|w| &w.pods).map(|pod| pod.node.as_str()).collect();
    for node in pool_nodes(request).filter(|node| homes.contains(node.name.as_str())) {
        match site(request, weighed, &crew, node) {
            Err(why) => reasons.push(Reason::new("node-not-plain", format!("{}: {why}", node.name))),
            Ok(site) if !site.frozen => {}
            Ok(_) if request.pool.frozen.contains(&node.name) => frozen.push(node.name.clone()),
            Ok(_) => held.push(node.name.clone()),
        }
    }
    if !frozen.is_empty() {
        reasons.push(
            Reason::new(
                "must-not-move",
                format!(
                    "pods that would share run on frozen nodes, which keep them: {}",
                    first_few(&frozen, 3, ", ")
                ),
            )
            .with_advice("take the nodes out of `frozen_nodes`, or let these workloads run on other nodes"),
        );
    }
    if !held.is_empty() {
        reasons.push(Reason::new(
            "must-not-move",
            format!(
                "a pod that nothing makes anew, or that runs to an end, runs on {}",
                first_few(&held, 3, ", ")
            ),
        ));
    }
    reasons
}

fn several_groups(sharers: &[&Weighed<'_>]) -> Option<Reason> {
    let namespaces: BTreeSet<&str> = sharers.iter().map(|w| w.workload.id.namespace.as_str()).collect();
    let deciders: BTreeSet<_> = sharers.iter().map(|w| w.policy.decided_by.get("production")).collect();
    (namespaces.len() > 1 && deciders.len() > 1).then(|| {
        Reason::new(
            "several-groups",
            format!(
                "workloads of {} under different policy rules would share cards",
                counted(namespaces.len(), "namespace")
            ),
        )
    })
}

/// The nodes that may be shared under proof, or why there are none. A group whose nodes come and go is shared as a
/// whole or not at all.
pub(super) fn ground<'a>(
    request: &Request<'a>,
    weighed: &[Weighed<'_>],
    sharers: &[&Weighed<'_>],
    terms: &Terms<'_>,
) -> Result<Ground<'a>, Vec<Reason>> {
    let others = others(request, weighed, sharers);
    let crew = crew(weighed);
    let mut nodes = Vec::new();
    let mut barred: Vec<Reason> = Vec::new();
    let mut kept_off = BTreeSet::new();
    for node in pool_nodes(request) {
        match may_be_shared(request, weighed, &crew, sharers, &others, terms, node) {
            Ok(why) => {
                nodes.push(node);
                kept_off.extend(why);
            }
            Err(reason) if barred.iter().any(|known| known.code == reason.code) => {}
            Err(reason) => barred.push(reason),
        }
    }
    if nodes.is_empty() || (request.pool.kind == PoolKind::Elastic && !barred.is_empty()) {
        return Err(barred);
    }
    Ok(Ground { nodes, kept_off: kept_off.into_iter().collect() })
}

/// What keeps others off the node when its cards are shared, or why it may not be shared.
fn may_be_shared(
    request: &Request<'_>,
    weighed: &[Weighed<'_>],
    crew: &Crew<'_>,
    sharers: &[&Weighed<'_>],
    others: &[Other<'_>],
    terms: &Terms<'_>,
    node: &Node,
) -> Result<Vec<String>, Reason> {
    if let Some(why) = not_at_rest(request, weighed, crew, sharers, node) {
        return Err(Reason::new("node-left-out", format!("{} is left out: {why}", node.name)));
    }
    let barred = |w: &&&Weighed<'_>| !may_run(request, w.workload, request.declared.of(&w.workload.id), node);
    if let Some(w) = sharers.iter().find(barred) {
        return Err(Reason::new(
            "may-not-run",
            format!("{} may not run on {}, by its taints or selectors", w.workload.id, node.name),
        ));
    }
    if let Some(pod) = request
        .inventory
        .unattributed_pods
        .iter()
        .find(|pod| keeps_others_off(node).is_none() || request.pool.nodes.contains(&pod.node))
    {
        return Err(Reason::new(
            "unknown-pods",
            format!("{} asks for a GPU and may land on {}, and who owns it is not known", pod.pod, node.name),
        ));
    }
    let mut by_selector = Vec::new();
    let mut come = Vec::new();
    for other in others {
        match other.kept_off(request, node, terms) {
            Some(Barrier::Taint) => {}
            Some(Barrier::Selector) => by_selector.push(other),
            None => come.push(other),
        }
    }
    let inside: Vec<&Other<'_>> = come.iter().copied().filter(|other| other.in_pool).collect();
    if !inside.is_empty() {
        return Err(others_may_meet(&inside));
    }
    match keeps_others_off(node) {
        Some(_) if !come.is_empty() => Err(strangers_may_come(&come)),
        Some(taint) => {
            let mut sentences = vec![format!("the taint `{taint}` keeps other pods off these nodes")];
            if !by_selector.is_empty() {
                sentences.push(format!(
                    "{} tolerate it and are kept off by their node selectors: {}",
                    counted(by_selector.len(), "other workload"),
                    first_few(&names(&by_selector), 3, ", ")
                ));
            }
            Ok(sentences)
        }
        // Without a taint, that nobody else is known proves nothing; that all who are known choose other nodes does.
        None if come.is_empty() && !by_selector.is_empty() => Ok(vec![format!(
            "no taint keeps others off these nodes, node selectors do: {} of this cluster choose other nodes",
            counted(by_selector.len(), "other GPU workload")
        )]),
        None => Err(no_taint(request, node)),
    }
}

/// Why the node is no place for a change now, whoever may come.
fn not_at_rest(
    request: &Request<'_>,
    weighed: &[Weighed<'_>],
    crew: &Crew<'_>,
    sharers: &[&Weighed<'_>],
    node: &Node,
) -> Option<String> {
    if request.pool.frozen.contains(&node.name) {
        return Some("it is frozen".to_owned());
    }
    if node.sharing() != Sharing::Whole {
        return Some("its cards are shared or cut already".to_owned());
    }
    if let Some(why) = unfit(node) {
        return Some(why);
    }
    let pods = crew.get(node.name.as_str()).map_or(&[][..], Vec::as_slice);
    let shares = |id: &WorkloadId| sharers.iter().any(|sharer| sharer.workload.id == *id);
    if let Some((t, _)) = pods.iter().find(|(t, _)| !shares(&weighed[*t].workload.id)) {
        return Some(format!("{} has a whole card there", weighed[*t].workload.id));
    }
    let held = |uuid: &str| pods.iter().any(|(_, pod)| pod.cards.iter().any(|card| card == uuid));
    let ghost = node
        .cards
        .iter()
        .find(|card| !held(&card.uuid) && card.used_now.is_some_and(|used| used > IDLE_FLOOR));
    ghost.map(|card| {
        format!("{} are in use on {}, which no known pod holds", card.used_now.unwrap_or_default(), card.uuid)
    })
}

/// Somebody else who asks for whole cards.
struct Other<'a> {
    id: WorkloadId,
    declared: Option<&'a DeclaredWorkload>,
    /// Pods of it are in the pool now.
    in_pool: bool,
    /// It ran on cards like the pool's in the window and does not run now.
    may_come_back: bool,
}

/// Why a workload cannot come to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Barrier {
    Taint,
    Selector,
}

impl Other<'_> {
    fn kept_off(&self, request: &Request<'_>, node: &Node, terms: &Terms<'_>) -> Option<Barrier> {
        match self.declared {
            Some(declared) => barrier(request, declared, node, terms),
            // Who is seen to run elsewhere, and has no manifest here, is kept off by a taint that is not the usual one.
            None if self.in_pool || self.may_come_back => None,
            None => keeps_others_off(node).map(|_| Barrier::Taint),
        }
    }
}

/// What keeps pods so declared off the node once its cards are shared.
fn barrier(
    request: &Request<'_>,
    declared: &DeclaredWorkload,
    node: &Node,
    terms: &Terms<'_>,
) -> Option<Barrier> {
    if !tolerates(declared, node) {
        return Some(Barrier::Taint);
    }
    let off = declared.node_selector.iter().any(|(key, value)| match key.as_str() {
        PLUGIN_LABEL => !terms.may_be_key(value),
        PRODUCT_LABEL => node.label(key).is_some_and(|label| format!("{label}-SHARED") != *value),
        "kubernetes.io/hostname" => node.name != *value,
        _ => {
            let written =
                request.declared.node_labels.get(&node.name).and_then(|carrier| carrier.labels.get(key));
            let shown = request.inventory.nodes.iter().any(|node| node.label(key).is_some());
            match node.label(key).or(written.map(String::as_str)) {
                Some(label) => label != value,
                // Absent where others show it is absent; where nobody shows it, nothing is known.
                None => shown,
            }
        }
    });
    off.then_some(Barrier::Selector)
}

/// Everybody in the cluster who asks for whole cards and is not to share: measured, running, or declared alone.
fn others<'a>(request: &Request<'a>, weighed: &[Weighed<'_>], sharers: &[&Weighed<'_>]) -> Vec<Other<'a>> {
    let models: BTreeSet<&str> = pool_nodes(request).flat_map(Node::model_names).collect();
    let shares = |id: &WorkloadId| sharers.iter().any(|w| w.workload.id == *id);
    let measured = request
        .inventory
        .workloads
        .iter()
        .filter(|workload| workload.resource == "nvidia.com/gpu" && !shares(&workload.id))
        .map(|workload| {
            let profile = request.measured.profiles.get(&workload.id);
            let ran_on_such = profile.is_some_and(|profile| models.contains(profile.model_name.as_str()));
            Other {
                id: workload.id.clone(),
                declared: request.declared.of(&workload.id),
                in_pool: weighed.iter().any(|w| w.workload.id == workload.id),
                may_come_back: workload.pods.is_empty() && ran_on_such,
            }
        });
    let seen: BTreeSet<WorkloadId> = request
        .inventory
        .workloads
        .iter()
        .filter_map(|workload| request.declared.find(&workload.id).map(|(id, _)| id))
        .collect();
    let unseen =
        request.declared.workloads.iter().filter(|(id, _)| !seen.contains(*id)).map(|(id, declared)| Other {
            id: id.clone(),
            declared: Some(declared),
            in_pool: false,
            may_come_back: false,
        });
    let mut others: Vec<Other<'a>> = measured.chain(unseen).collect();
    others.sort_by(|a, b| a.id.cmp(&b.id));
    others
}

fn names(others: &[&Other<'_>]) -> Vec<String> {
    others.iter().map(|other| other.id.to_string()).collect()
}

fn others_may_meet(inside: &[&Other<'_>]) -> Reason {
    Reason::new(
        "others-may-meet",
        format!(
            "{} of this pool may not share a card, and nothing would keep them off a shared one: {}",
            counted(inside.len(), "workload"),
            first_few(&names(inside), 3, ", ")
        ),
    )
    .with_advice(
        "give the workloads that may share a pool of their own, or let the others select their nodes by a label that \
         shared nodes lack",
    )
}

fn strangers_may_come(come: &[&Other<'_>]) -> Reason {
    Reason::new(
        "strangers-may-come",
        format!(
            "{} from outside the pool may land on its cards: {}",
            counted(come.len(), "workload"),
            first_few(&names(come), 3, ", ")
        ),
    )
    .with_advice("keep them off by a taint that they do not tolerate, or by their selectors")
}

fn no_taint(request: &Request<'_>, node: &Node) -> Reason {
    Reason::new(
        "no-taint",
        format!(
            "{} carries no taint of its own: any pod that asks for `nvidia.com/gpu` may land on a shared card, so no \
             number of replicas has a proof",
            node.name
        ),
    )
    .with_advice(format!(
        "taint the pool's nodes for these workloads (`{}=:NoSchedule`) and let them tolerate it",
        slug(&request.pool.id.pool)
    ))
}

/// A taint that is not the usual one of every GPU node.
fn keeps_others_off(node: &Node) -> Option<String> {
    node.taints.iter().find(|taint| lasts(taint) && taint.key != "nvidia.com/gpu").map(|taint| {
        if taint.value.is_empty() {
            format!("{}:{}", taint.key, taint.effect)
        } else {
            format!("{}={}:{}", taint.key, taint.value, taint.effect)
        }
    })
}

/// Whether pods so declared, bound to a key of the device plugin, may land on a node that carries the key already.
pub(super) fn may_follow(declared: &DeclaredWorkload, node: &Node, key: &str) -> bool {
    tolerates(declared, node) && node.label(PLUGIN_LABEL) == Some(key)
}
