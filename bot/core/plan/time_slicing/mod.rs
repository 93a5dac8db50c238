//! A plan by time-slicing: how many pods may take turns on a card, on which nodes, and what keeps others off.

pub(super) mod rollout;

use std::collections::{BTreeMap, BTreeSet};

use super::mig::{IDLE_FLOOR, item, label_today, left_alone, nothing, one_model, site};
use super::placement::{lasts, may_run, selects, tolerates};
use super::pool::Spread;
use super::saving::{Autoscaled, saving};
use super::{
    Alternative, CardUse, Change, Confidence, Goal, NodeFate, NodeOutcome, Plan, PoolKind, Proof, Request,
    Weighed,
};
use crate::catalog::GpuModel;
use crate::fit::{Reason, Verdict};
use crate::ids::{WorkloadId, slug};
use crate::inventory::{Node, Resources};
use crate::pack::time_slicing::{Group, Limit, Limits, Pod, time_slicing};
use crate::policy::{Method, TimeSlicingPolicy};
use crate::units::{Mib, Ratio, counted, first_few};

/// Node label that chooses the device plugin's config.
pub(super) const PLUGIN_LABEL: &str = "nvidia.com/device-plugin.config";

/// The best plan by time-slicing, or why there is none.
pub(super) fn plan(request: &Request<'_>, weighed: &[Weighed<'_>]) -> Result<Plan, Vec<Reason>> {
    let (model_name, model) = one_model(request, weighed)?;
    let model = &model;
    let sharers: Vec<&Weighed<'_>> =
        weighed.iter().filter(|w| w.fit.verdict == Verdict::TimeSlicing).collect();
    let refusals = refusals(request, weighed, &sharers);
    if !refusals.is_empty() {
        return Err(refusals);
    }
    let policy = strictest(&sharers);
    let usable = usable(request, model, &model_name, &policy).ok_or_else(|| {
        vec![Reason::new("framebuffer-unknown", format!("the framebuffer of {model_name} is not known"))]
    })?;
    let pods = pods(request, &sharers);
    let answer = time_slicing(&pods, &limits(usable, &policy));
    let group = answer.one;
    if group.replicas < 2 || group.n_cards.is_none() {
        return Err(vec![too_few(&group, usable)]);
    }
    let chosen = choose(request, &sharers, &group)?;
    Ok(assemble(request, weighed, &sharers, &model_name, model, &group, usable, &policy, &chosen))
}

/// What forbids a proof for the pool as a whole.
fn refusals(request: &Request<'_>, weighed: &[Weighed<'_>], sharers: &[&Weighed<'_>]) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if sharers.len() < 2 && sharers.iter().all(|w| w.planned() < 2) {
        reasons.push(Reason::new("nobody-to-share-with", "one pod alone has nobody to share a card with"));
    }
    let others: Vec<String> = weighed
        .iter()
        .filter(|w| w.fit.verdict != Verdict::TimeSlicing)
        .map(|w| w.workload.id.to_string())
        .collect();
    if !others.is_empty() {
        reasons.push(
            Reason::new(
                "others-may-meet",
                format!(
                    "{} of this pool may not share a card, and time-slicing would let them land on one: {}",
                    counted(others.len(), "workload"),
                    first_few(&others, 3, ", ")
                ),
            )
            .with_advice("give the workloads that may share a pool of their own"),
        );
    }
    let groups: BTreeSet<(&str, Option<&String>)> = sharers
        .iter()
        .map(|w| (w.workload.id.namespace.as_str(), w.policy.decided_by.get("production")))
        .collect();
    let namespaces: BTreeSet<&str> = groups.iter().map(|(namespace, _)| *namespace).collect();
    let deciders: BTreeSet<_> = groups.iter().map(|(_, decided)| *decided).collect();
    if namespaces.len() > 1 && deciders.len() > 1 {
        reasons.push(Reason::new(
            "several-groups",
            format!(
                "workloads of {} under different policy rules would share cards",
                counted(namespaces.len(), "namespace")
            ),
        ));
    }
    reasons.extend(strangers(request, weighed));
    for w in sharers {
        let declared = request.declared.of(&w.workload.id);
        if declared.is_some_and(|declared| declared.node_selector.contains_key(PRODUCT_LABEL)) {
            reasons.push(
                Reason::new(
                    "selector-breaks",
                    format!(
                        "{} selects `{PRODUCT_LABEL}`, which ends in `-SHARED` on shared cards",
                        w.workload.id
                    ),
                )
                .with_advice("let it select the pool by another label"),
            );
        }
    }
    for node in pool_nodes(request) {
        let holders = weighed.iter().flat_map(|w| &w.pods).filter(|pod| pod.node == node.name).count();
        let ghost = node.cards.iter().any(|card| card.used_now.is_some_and(|used| used > IDLE_FLOOR));
        if holders > 0 || ghost {
            match site(request, weighed, node) {
                Err(why) => reasons.push(Reason::new("node-not-plain", format!("{}: {why}", node.name))),
                Ok(site) if site.frozen => reasons.push(Reason::new(
                    "must-not-move",
                    format!(
                        "{} is frozen, or a pod runs there that nothing makes anew or that runs to an end",
                        node.name
                    ),
                )),
                Ok(_) => {}
            }
        }
        if keeps_others_off(node).is_none() {
            reasons.push(
                Reason::new(
                    "no-taint",
                    format!(
                        "{} carries no taint of its own: any pod that asks for `nvidia.com/gpu` may land on a shared \
                         card, so no number of replicas has a proof",
                        node.name
                    ),
                )
                .with_advice(format!(
                    "taint the pool's nodes for these workloads (`{}=:NoSchedule`) and let them tolerate it",
                    slug(&request.pool.id.pool)
                )),
            );
            break;
        }
    }
    reasons
}

/// GPU workloads outside the pool that may land there all the same: they tolerate its taints and no selector keeps them
/// elsewhere, or they ran on such cards, do not run now, and where they may run is not known.
fn strangers(request: &Request<'_>, weighed: &[Weighed<'_>]) -> Vec<Reason> {
    let nodes: Vec<&Node> = pool_nodes(request).collect();
    let models: BTreeSet<&str> = nodes.iter().flat_map(|node| node.model_names()).collect();
    let mut names = Vec::new();
    for workload in &request.inventory.workloads {
        if weighed.iter().any(|w| w.workload.id == workload.id) {
            continue;
        }
        let ran_on_such = request
            .measured
            .profiles
            .get(&workload.id)
            .is_some_and(|profile| models.contains(profile.model_name.as_str()));
        let may_come = match request.declared.of(&workload.id) {
            Some(declared) => {
                nodes.iter().any(|node| tolerates(declared, node) && selects(request, declared, node))
            }
            None => workload.pods.is_empty() && ran_on_such,
        };
        if may_come {
            names.push(workload.id.to_string());
        }
    }
    if names.is_empty() {
        return Vec::new();
    }
    vec![
        Reason::new(
            "strangers-may-come",
            format!(
                "{} from outside the pool may land on its cards: {}",
                counted(names.len(), "workload"),
                first_few(&names, 3, ", ")
            ),
        )
        .with_advice("keep them off by a taint that they do not tolerate, or by their selectors"),
    ]
}

/// Node label that GPU Feature Discovery changes when cards are shared.
const PRODUCT_LABEL: &str = "nvidia.com/gpu.product";

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

fn pool_nodes<'a>(request: &Request<'a>) -> impl Iterator<Item = &'a Node> {
    let pool = request.pool;
    request.inventory.nodes.iter().filter(move |node| pool.nodes.contains(&node.name))
}

/// The smallest limits that any of the sharers asks for.
fn strictest(sharers: &[&Weighed<'_>]) -> TimeSlicingPolicy {
    sharers.iter().map(|w| &w.policy.time_slicing).fold(
        TimeSlicingPolicy {
            usable_share: Ratio::ONE,
            compute_limit: Ratio::ONE,
            max_replicas: u32::MAX,
            fail_requests_greater_than_one: false,
        },
        |least, policy| TimeSlicingPolicy {
            usable_share: least.usable_share.min(policy.usable_share),
            compute_limit: least.compute_limit.min(policy.compute_limit),
            max_replicas: least.max_replicas.min(policy.max_replicas),
            fail_requests_greater_than_one: least.fail_requests_greater_than_one
                || policy.fail_requests_greater_than_one,
        },
    )
}

fn usable(
    request: &Request<'_>,
    model: &GpuModel,
    model_name: &str,
    policy: &TimeSlicingPolicy,
) -> Option<Mib> {
    let seen = request.measured.smallest_framebuffer.get(model_name).copied();
    let smallest = model.smallest_framebuffer().into_iter().chain(seen).min()?;
    Some(smallest.share_floor(policy.usable_share))
}

fn pods(request: &Request<'_>, sharers: &[&Weighed<'_>]) -> Vec<Pod> {
    sharers
        .iter()
        .flat_map(|w| {
            let pod = Pod {
                key: w.workload.id.to_string(),
                peak_mib: w.fit.needs.as_ref().map_or(0, |needs| needs.peak.0),
                compute_milli: u64::from(p99(w).map_or(1_000, Ratio::milli_ceil)),
            };
            std::iter::repeat_n(pod, w.planned().saturating_add(w.max_surge(request.declared)) as usize)
        })
        .collect()
}

fn p99(weighed: &Weighed<'_>) -> Option<Ratio> {
    // The fit keeps what a slice must offer; the figure itself is that times the fill, rounded the safe way.
    let needs = weighed.fit.needs.as_ref()?.compute_milli?;
    let fill = u64::from(weighed.policy.compute_fill.ppm());
    u32::try_from((u64::from(needs) * fill).div_ceil(1_000)).ok().map(Ratio::from_ppm)
}

fn limits(usable: Mib, policy: &TimeSlicingPolicy) -> Limits {
    Limits {
        card_mib: usable.0,
        headroom_percent: 0,
        // Peaks are device-level FB_USED: the contexts of the pod's own processes are in them.
        context_mib: 0,
        compute_limit_milli: u64::from(policy.compute_limit.ppm() / 1_000),
        max_replicas: policy.max_replicas,
    }
}

fn too_few(group: &Group, usable: Mib) -> Reason {
    let worst = group.worst_mib_with_one_more.unwrap_or(group.worst_mib);
    match group.limit {
        Limit::Memory => Reason::new(
            "peaks-too-large",
            format!("the two largest peaks need {} and {usable} may be used of a card", Mib(worst)),
        ),
        Limit::Compute => Reason::new("too-busy", "the two busiest pods together exceed the compute limit"),
        Limit::MaxReplicas | Limit::Pods => {
            Reason::new("nobody-to-share-with", "there are no two pods to share a card")
        }
    }
}

/// Fewest nodes that hold all pods, by cards and by CPU, memory and pod slots: those that hold the most first, then
/// those where most of the pods are, then by name.
fn choose(
    request: &Request<'_>,
    sharers: &[&Weighed<'_>],
    group: &Group,
) -> Result<BTreeSet<String>, Vec<Reason>> {
    let largest = largest(sharers);
    let pods_on =
        |node: &Node| sharers.iter().flat_map(|w| &w.pods).filter(|pod| pod.node == node.name).count();
    let mut nodes = Vec::new();
    let candidates = pool_nodes(request).filter(|node| !request.pool.frozen.contains(&node.name));
    for node in candidates.filter(|node| sharers.iter().all(|w| may_run(request, w.workload, node))) {
        let Some(holds) = largest.and_then(|largest| holds(sharers, node, largest, group.replicas)) else {
            return Err(vec![room_unknown()]);
        };
        nodes.push((node, holds));
    }
    let occupied = pool_nodes(request).filter(|node| pods_on(node) > 0).count();
    nodes.sort_by_key(|(node, holds)| {
        (std::cmp::Reverse(*holds), std::cmp::Reverse(pods_on(node)), node.name.clone())
    });
    let must_be_apart = |w: &&Weighed<'_>| w.spread(request.pool) == Spread::Node && stands_on_several(w);
    let apart = if sharers.iter().any(must_be_apart) { 2 } else { 1 };
    let mut chosen = BTreeSet::new();
    let mut room = 0;
    for (node, holds) in nodes {
        if room >= group.n_pods && chosen.len() >= apart {
            break;
        }
        room += holds;
        chosen.insert(node.name.clone());
    }
    if room < group.n_pods {
        return Err(vec![Reason::new(
            "no-room-on-nodes",
            format!("the nodes have CPU, memory and cards for {room} of {} pods", group.n_pods),
        )]);
    }
    if chosen.len() >= occupied && request.pool.goal == Goal::Bill {
        return Err(vec![Reason::new(
            "nothing-gained",
            format!(
                "{} would be needed, and the pods stand on {occupied} today",
                counted(chosen.len(), "node")
            ),
        )]);
    }
    Ok(chosen)
}

/// The largest request of any of their pods, figure by figure. `None`: some pod's is not known.
fn largest(sharers: &[&Weighed<'_>]) -> Option<Resources> {
    sharers
        .iter()
        .flat_map(|w| &w.pods)
        .map(|pod| pod.requests.map(Resources::from))
        .reduce(|a, b| Some(a?.larger(b?)))
        .flatten()
}

/// Its replicas are on several nodes today: one node must not hold all of them then.
fn stands_on_several(weighed: &Weighed<'_>) -> bool {
    let nodes: BTreeSet<&str> = weighed.pods.iter().map(|pod| pod.node.as_str()).collect();
    nodes.len() > 1
}

/// Pods of at most the `largest` size that the node holds: by its cards' replicas, and by what is left of CPU, memory,
/// storage and pod slots when the sharers' own pods are taken off it. `None`: not known.
fn holds(sharers: &[&Weighed<'_>], node: &Node, largest: Resources, replicas: u32) -> Option<u32> {
    let here = sharers
        .iter()
        .flat_map(|w| &w.pods)
        .filter(|pod| pod.node == node.name)
        .try_fold(Resources::default(), |sum, pod| Some(sum.plus(pod.requests?.into())))?;
    let room = node.allocatable?.minus(node.requested?.minus(here));
    let cards = u32::try_from(node.cards.len()).unwrap_or(u32::MAX).saturating_mul(replicas);
    (0..=cards).rev().find(|n| largest.times(*n).fits_in(room))
}

fn room_unknown() -> Reason {
    Reason::new("room-unknown", "how much CPU and memory the nodes have left is not known: no pod is moved")
        .with_advice(
            "let kube-state-metrics expose pod requests and node allocatable (its defaults do) for GPU nodes",
        )
}

#[expect(clippy::too_many_arguments, reason = "the parts of one plan, each computed by its own function")]
fn assemble(
    request: &Request<'_>,
    weighed: &[Weighed<'_>],
    sharers: &[&Weighed<'_>],
    model_name: &str,
    model: &GpuModel,
    group: &Group,
    usable: Mib,
    policy: &TimeSlicingPolicy,
    chosen: &BTreeSet<String>,
) -> Plan {
    let key = key(model, group.replicas);
    let mut changes = vec![Change::SetPluginConfig {
        key: key.clone(),
        resource: "nvidia.com/gpu".to_owned(),
        replicas: group.replicas,
        fail_requests_greater_than_one: policy.fail_requests_greater_than_one,
    }];
    let previous = |name: &str| label_today(request, request.inventory.node(name)?, PLUGIN_LABEL);
    changes.push(match request.pool.kind {
        PoolKind::Static => Change::LabelNodes {
            key: PLUGIN_LABEL.to_owned(),
            value: key,
            nodes: chosen.iter().map(|name| (name.clone(), previous(name))).collect(),
        },
        PoolKind::Elastic => Change::LabelGroup {
            key: PLUGIN_LABEL.to_owned(),
            value: key,
            previous: chosen.iter().find_map(|name| previous(name)),
            beside: false,
        },
    });
    let nodes = outcomes(request, sharers, group, chosen);
    let share = format!("1 of {} time slices", group.replicas);
    let items = sharers
        .iter()
        .map(|w| {
            let mut item = item(request, w, share.clone(), usable, chosen.clone());
            // The pod keeps asking for `nvidia.com/gpu: 1`: there is nothing to edit in its manifest.
            item.manual = None;
            item
        })
        .collect();
    let taint = pool_nodes(request).find_map(keeps_others_off);
    let n_kept =
        nodes.iter().filter(|node| node.fate == NodeFate::Touched).map(|node| node.after.len()).sum();
    let mut plan = Plan {
        pool: request.pool.id.clone(),
        pool_kind: request.pool.kind,
        goal: request.pool.goal,
        model: model.id.clone(),
        model_name: model_name.to_owned(),
        method: Method::TimeSlicing,
        changes,
        items,
        kept: weighed.iter().filter(|w| w.fit.verdict != Verdict::TimeSlicing).map(Weighed::kept).collect(),
        saving: saving(request, &nodes, autoscaled(sharers)),
        nodes,
        proof: proof(group, usable, policy, taint.as_deref(), n_kept, chosen.len()),
        alternatives: vec![
            Alternative { name: "MIG".into(), n_cards: None, reason: why_not_mig(sharers, model_name) },
            nothing(sharers),
        ],
        waves: Vec::new(),
        rollout: Vec::new(),
        rollback: Vec::new(),
        risks: Vec::new(),
        confidence: Confidence::Low,
        confidence_reason: String::new(),
        notes: Vec::new(),
        overrides: Vec::new(),
        fingerprint: String::new(),
    };
    if request.pool.kind == PoolKind::Elastic {
        plan.saving.group(
            request,
            plan.nodes.iter().filter(|node| node.before.iter().any(|card| *card != CardUse::Idle)).count(),
            chosen.len(),
            plan.proof.n_cards,
        );
    }
    plan
}

/// All of the pool share cards then, so that no autoscaler adds a whole one.
fn autoscaled(sharers: &[&Weighed<'_>]) -> Autoscaled {
    let missing =
        |w: &&Weighed<'_>| w.planned().saturating_sub(u32::try_from(w.pods.len()).unwrap_or(u32::MAX));
    Autoscaled { before: sharers.iter().map(missing).sum(), after: 0 }
}

/// `a10g-x4`: one key a card model and number of replicas, never a default for the cluster.
fn key(model: &GpuModel, replicas: u32) -> String {
    let name = model.products.first().map_or(model.id.as_str(), |product| product.name.as_str());
    let short = slug(name.trim_start_matches("NVIDIA ").trim_start_matches("Tesla "));
    format!("{short}-x{replicas}")
}

fn outcomes(
    request: &Request<'_>,
    sharers: &[&Weighed<'_>],
    group: &Group,
    chosen: &BTreeSet<String>,
) -> Vec<NodeOutcome> {
    let mut seats = seats(request, sharers, group, chosen);
    let mut known = Vec::new();
    for node in pool_nodes(request) {
        let restarts: Vec<String> = sharers
            .iter()
            .flat_map(|w| w.pods.iter().map(move |pod| (w, pod)))
            .filter(|(_, pod)| pod.node == node.name)
            .map(|(w, pod)| format!("{}/{}", w.workload.id.namespace, pod.name))
            .collect();
        if restarts.is_empty() && !chosen.contains(&node.name) {
            continue;
        }
        let holder = |uuid: &str| {
            sharers
                .iter()
                .find(|w| w.pods.iter().any(|pod| pod.cards.iter().any(|card| card == uuid)))
                .map(|w| w.workload.id.clone())
        };
        let kept = chosen.contains(&node.name);
        let after = if kept {
            node.cards
                .iter()
                .map(|card| CardUse::Shared {
                    replicas: group.replicas,
                    workloads: seats.remove(&card.uuid).unwrap_or_default(),
                })
                .collect()
        } else {
            Vec::new()
        };
        known.push(NodeOutcome {
            name: node.name.clone(),
            // The plugin restarts, the pods on it stay; only the pods of freed nodes move.
            fate: if kept { NodeFate::Touched } else { NodeFate::Freed },
            before: node
                .cards
                .iter()
                .map(|card| holder(&card.uuid).map_or(CardUse::Idle, |workload| CardUse::Whole { workload }))
                .collect(),
            after,
            restarts: if kept { Vec::new() } else { restarts },
            per_hour: request.pool.price_of(node).map(|price| price.per_hour.clone()),
        });
    }
    known.extend(left_alone(request, &known));
    known.sort_by(|a, b| a.name.cmp(&b.name));
    known
}

/// Who may be on which card: pods stay on their node, the others fill the node with the fewest first, as far as its
/// CPU, memory and cards reach. The scheduler decides; this shows that there is a place for everybody.
fn seats(
    request: &Request<'_>,
    sharers: &[&Weighed<'_>],
    group: &Group,
    chosen: &BTreeSet<String>,
) -> BTreeMap<String, Vec<WorkloadId>> {
    let nodes: Vec<&Node> = pool_nodes(request).filter(|node| chosen.contains(&node.name)).collect();
    let mut on_node: Vec<Vec<WorkloadId>> = vec![Vec::new(); nodes.len()];
    let mut homeless = Vec::new();
    for w in sharers {
        for n in 0..w.planned() as usize {
            let home = w.pods.get(n).and_then(|pod| nodes.iter().position(|node| node.name == pod.node));
            match home {
                Some(home) => on_node[home].push(w.workload.id.clone()),
                None => homeless.push(w.workload.id.clone()),
            }
        }
    }
    let largest = largest(sharers).unwrap_or_default();
    let room: Vec<usize> = nodes
        .iter()
        .map(|node| holds(sharers, node, largest, group.replicas).map_or(0, |n| n as usize))
        .collect();
    for id in homeless {
        let free =
            (0..nodes.len()).filter(|i| on_node[*i].len() < room[*i]).min_by_key(|i| (on_node[*i].len(), *i));
        if let Some(i) = free {
            on_node[i].push(id);
        }
    }
    let mut seats = BTreeMap::new();
    for (node, pods) in nodes.iter().zip(on_node) {
        let cards = node.cards.len().max(1);
        for (n, id) in pods.into_iter().enumerate() {
            seats.entry(node.cards[n % cards].uuid.clone()).or_insert_with(Vec::new).push(id);
        }
    }
    seats
}

fn proof(
    group: &Group,
    usable: Mib,
    policy: &TimeSlicingPolicy,
    taint: Option<&str>,
    n_kept: usize,
    n_nodes: usize,
) -> Proof {
    let n_cards = group.n_cards.unwrap_or(0);
    let mut sentences = vec![format!(
        "any {} of the {} pods may meet on a card: their largest peaks together need {}, and {usable} may be used ({} \
         of the smallest framebuffer)",
        group.replicas,
        group.n_pods,
        Mib(group.worst_mib),
        policy.usable_share
    )];
    sentences.push(match group.limit {
        Limit::Memory => format!(
            "with one more the largest peaks would need {}: {} replicas are the most",
            Mib(group.worst_mib_with_one_more.unwrap_or(group.worst_mib)),
            group.replicas
        ),
        Limit::Compute => {
            format!(
                "with one more their compute would exceed {}: {} replicas are the most",
                policy.compute_limit, group.replicas
            )
        }
        Limit::MaxReplicas => format!("{} replicas are the most that policy allows", group.replicas),
        Limit::Pods => format!("all {} pods fit on one card", group.n_pods),
    });
    sentences.push(format!(
        "{} pods at {} a card need {}: no plan with this many replicas can use fewer",
        group.n_pods,
        group.replicas,
        counted(n_cards as usize, "card")
    ));
    if n_kept > n_cards as usize {
        sentences.push(format!(
            "{} with {} are kept: CPU and memory of a node, and replicas that must be apart, ask for that many",
            counted(n_nodes, "node"),
            counted(n_kept, "card")
        ));
    }
    if let Some(taint) = taint {
        sentences.push(format!("the taint `{taint}` keeps other pods off these nodes"));
    }
    Proof {
        n_cards: u32::try_from(n_kept).unwrap_or(u32::MAX),
        proven: n_kept == n_cards as usize,
        sentences,
    }
}

fn why_not_mig(sharers: &[&Weighed<'_>], model_name: &str) -> String {
    sharers
        .iter()
        .flat_map(|w| &w.fit.considered)
        .find(|candidate| candidate.method == Method::Mig && !candidate.fits)
        .and_then(|candidate| candidate.reasons.first())
        .map_or_else(|| format!("no slice of {model_name} fits all of them"), |reason| reason.text.clone())
}

/// Time-slicing as the way not taken: its number where policy would allow it, else why not.
pub(super) fn alternative(request: &Request<'_>, moved: &[&Weighed<'_>]) -> Alternative {
    let production = moved.iter().filter(|w| w.policy.production).count();
    let name = "time-slicing".to_owned();
    if production > 0 {
        return Alternative {
            name,
            n_cards: None,
            reason: format!(
                "{} of {} are production, and time-slicing isolates neither memory nor faults",
                production,
                counted(moved.len(), "workload")
            ),
        };
    }
    let policy = strictest(moved);
    let model = moved
        .iter()
        .find_map(|w| Some((w.fit.model.as_deref()?, request.catalog.find(w.fit.model.as_deref()?)?)));
    let usable =
        model.and_then(|(_, model)| model.smallest_framebuffer()).map(|m| m.share_floor(policy.usable_share));
    let Some(usable) = usable else {
        return Alternative { name, n_cards: None, reason: "the framebuffer is not known".to_owned() };
    };
    let group = time_slicing(&pods(request, moved), &limits(usable, &policy)).one;
    Alternative {
        n_cards: group.n_cards.filter(|_| group.replicas >= 2),
        reason: if group.replicas >= 2 {
            "isolates neither memory nor faults; MIG does".to_owned()
        } else {
            too_few(&group, usable).text
        },
        name: if group.replicas >= 2 { format!("time-slicing ×{}", group.replicas) } else { name },
    }
}

/// The replicas by model of a finished plan, for checks.
fn replicas_of(plan: &Plan) -> BTreeMap<&str, u32> {
    plan.changes
        .iter()
        .filter_map(|change| match change {
            Change::SetPluginConfig { key, replicas, .. } => Some((key.as_str(), *replicas)),
            Change::SetMigConfig { .. }
            | Change::LabelNodes { .. }
            | Change::LabelGroup { .. }
            | Change::SetWorkloadResource { .. } => None,
        })
        .collect()
}
