//! Fleets drawn at random: whatever is planned keeps what was promised, and says the same thing twice.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;
use crate::inventory::{NodeCarrier, Slice, SliceId};
use crate::plan::pool::{Spread, Waves};

/// Model names as DCGM prints them, with the cuts that their cards may have already.
const MODELS: [(&str, &[&[&str]]); 6] = [
    (A100, &[&["2g.10gb", "2g.10gb", "2g.10gb"], &["3g.20gb", "2g.10gb", "1g.5gb"], &["1g.5gb"; 7]]),
    (
        "NVIDIA A100-SXM4-80GB",
        &[&["3g.40gb", "3g.40gb"], &["4g.40gb", "2g.20gb", "1g.10gb"], &["1g.20gb"; 4]],
    ),
    (
        "NVIDIA H100 80GB HBM3",
        &[&["1g.10gb"; 7], &["3g.40gb", "2g.20gb", "1g.10gb"], &["2g.20gb", "2g.20gb"]],
    ),
    ("NVIDIA A30", &[&["1g.6gb"; 4], &["2g.12gb", "1g.6gb", "1g.6gb"], &["4g.24gb"]]),
    ("NVIDIA A10G", &[]),
    ("NVIDIA L4", &[]),
];

const KINDS: [&str; 6] = ["Deployment", "Deployment", "StatefulSet", "Notebook", "Job", "Rollout"];

/// What keeps pods off a node, or does not.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Door {
    Open,
    Dedicated,
    OtherTeam,
    Cordoned,
}

#[derive(Clone, Debug)]
struct NodeSpec {
    n_cards: usize,
    /// Which cards are cut already and how.
    cuts: Vec<Option<usize>>,
    frozen: bool,
    door: Door,
    labelled: bool,
    labelled_by_merge: bool,
    cpu_milli: Option<u64>,
}

#[derive(Clone, Debug)]
struct WorkloadSpec {
    kind: &'static str,
    /// One a pod: which of the free cards or slices it holds.
    picks: Vec<usize>,
    holds_slices: bool,
    /// Peak in thousandths of the card or slice.
    peak: u64,
    sm: u32,
    hpa_more: Option<u32>,
    max_surge: Option<u32>,
    knows_requests: bool,
    production: bool,
    methods: Option<Vec<Method>>,
    min_profile: Option<&'static str>,
    spread: Option<Spread>,
    media: bool,
    editable: bool,
    pinned: bool,
    ignored: bool,
}

#[derive(Clone, Debug)]
struct PoolSpec {
    model: usize,
    elastic: bool,
    goal: Goal,
    spread: Spread,
    spare_cards: u32,
    concurrent_rollouts: u32,
    waves: Waves,
    max_layouts: Option<u32>,
}

fn of<T: Clone + std::fmt::Debug + 'static>(values: &[T]) -> impl Strategy<Value = T> + use<T> {
    prop::sample::select(values.to_vec())
}

fn nodes() -> impl Strategy<Value = Vec<NodeSpec>> {
    let doors = of(&[
        Door::Open,
        Door::Open,
        Door::Open,
        Door::Dedicated,
        Door::Dedicated,
        Door::OtherTeam,
        Door::Cordoned,
    ]);
    let node = (
        of(&[1, 1, 2, 2, 4, 8]),
        prop::collection::vec(prop::option::weighted(0.15, 0usize..3), 8),
        prop::bool::weighted(0.15),
        doors,
        prop::bool::weighted(0.9),
        any::<bool>(),
        of(&[Some(64_000), Some(64_000), Some(64_000), Some(9_000), None]),
    );
    let node = node.prop_map(|(n_cards, cuts, frozen, door, labelled, labelled_by_merge, cpu_milli)| {
        NodeSpec { n_cards, cuts, frozen, door, labelled, labelled_by_merge, cpu_milli }
    });
    prop::collection::vec(node, 1..9)
}

fn workloads() -> impl Strategy<Value = Vec<WorkloadSpec>> {
    let methods = of(&[
        None,
        None,
        None,
        Some(vec![Method::Mig]),
        Some(vec![Method::TimeSlicing]),
        Some(vec![Method::Mps, Method::TimeSlicing]),
        Some(vec![]),
    ]);
    let use_of_it = (
        of(&KINDS),
        prop::collection::vec(any::<usize>(), 1..7),
        prop::bool::weighted(0.25),
        of(&[30, 60, 100, 180, 300, 450, 900]),
        of(&[0, 20, 50, 90, 150, 300, 800]),
        prop::option::weighted(0.2, 0u32..5),
        of(&[None, Some(0), Some(0), Some(0), Some(1), Some(3)]),
    );
    let rules = (
        prop::bool::weighted(0.95),
        prop::bool::weighted(0.6),
        methods,
        of(&[None, None, None, None, Some("2g.10gb"), Some("3g.40gb")]),
        of(&[None, None, Some(Spread::None), Some(Spread::Card), Some(Spread::Node)]),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.95),
        prop::bool::weighted(0.05),
        prop::bool::weighted(0.05),
    );
    let workload = (use_of_it, rules).prop_map(|(use_of_it, rules)| {
        let (kind, picks, holds_slices, peak, sm, hpa_more, max_surge) = use_of_it;
        let (knows_requests, production, methods, min_profile, spread, media, editable, pinned, ignored) =
            rules;
        WorkloadSpec {
            kind,
            picks,
            holds_slices,
            peak,
            sm,
            hpa_more,
            max_surge,
            knows_requests,
            production,
            methods,
            min_profile,
            spread,
            media,
            editable,
            pinned,
            ignored,
        }
    });
    prop::collection::vec(workload, 1..13)
}

fn pool() -> impl Strategy<Value = PoolSpec> {
    let all = (
        of(&[0, 0, 1, 2, 3, 4, 5]),
        prop::bool::weighted(0.15),
        of(&[Goal::Bill, Goal::Bill, Goal::Capacity]),
        of(&[Spread::Node, Spread::Node, Spread::Card, Spread::None]),
        of(&[0, 0, 0, 1, 3]),
        of(&[1, 1, 2]),
        of(&[Waves::SingleReplica, Waves::AllowDowntime, Waves::Borrow, Waves::NoDowntime]),
        of(&[None, None, Some(1), Some(2)]),
    );
    all.prop_map(|(model, elastic, goal, spread, spare_cards, concurrent_rollouts, waves, max_layouts)| {
        PoolSpec { model, elastic, goal, spread, spare_cards, concurrent_rollouts, waves, max_layouts }
    })
}

fn fleets() -> impl Strategy<Value = Cluster> {
    (pool(), nodes(), workloads()).prop_map(|(pool, nodes, workloads)| build(&pool, &nodes, &workloads))
}

/// A free card, or a free slice of it with its name.
type Place = (usize, usize, Option<(usize, String)>);

fn build(pool: &PoolSpec, nodes: &[NodeSpec], workloads: &[WorkloadSpec]) -> Cluster {
    let (model_name, cuts) = MODELS[pool.model];
    let mut cluster = Cluster::new("odd");
    cluster.pool = PoolSettings {
        kind: Some(if pool.elastic { PoolKind::Elastic } else { PoolKind::Static }),
        goal: Some(pool.goal),
        spread: Some(pool.spread),
        spare_cards: Some(pool.spare_cards),
        concurrent_rollouts: Some(pool.concurrent_rollouts),
        waves: Some(pool.waves),
        max_layouts: pool.max_layouts,
        ..cluster.pool
    };
    let mut free: Vec<Place> = Vec::new();
    for (n, spec) in nodes.iter().enumerate() {
        let name = format!("n{n}");
        cluster.node(&name, model_name, spec.n_cards);
        let node = cluster.inventory.nodes.last_mut().unwrap();
        for (c, card) in node.cards.iter_mut().enumerate() {
            let Some(cut) = spec.cuts[c].and_then(|cut| cuts.get(cut)) else {
                free.push((n, c, None));
                continue;
            };
            for (s, profile) in cut.iter().enumerate() {
                let id = s.to_string();
                card.slices.push(Slice { id, profile: (*profile).into(), ..Slice::default() });
                free.push((n, c, Some((s, (*profile).into()))));
                let resource = format!("nvidia_com_mig_{}", profile.replace('.', "_"));
                *node.gpu_allocatable.entry(resource).or_default() += 1;
            }
        }
        let taint = match spec.door {
            Door::Open => None,
            Door::Dedicated => Some("dedicated"),
            Door::OtherTeam => Some("team"),
            Door::Cordoned => Some("node.kubernetes.io/unschedulable"),
        };
        node.taints = taint.map(taint_of).into_iter().collect();
        if !spec.labelled {
            node.labels.clear();
        }
        match (spec.cpu_milli, node.allocatable.as_mut()) {
            (Some(cpu_milli), Some(allocatable)) => allocatable.cpu_milli = cpu_milli,
            _ => node.allocatable = None,
        }
        if spec.frozen {
            cluster.pool.frozen_nodes.insert(name.clone());
        }
        if spec.labelled_by_merge {
            let carrier =
                NodeCarrier { place: format!("{name}.yaml:1"), labels: BTreeMap::new(), editable: Ok(()) };
            cluster.declared.node_labels.insert(name, carrier);
        }
    }
    for (w, spec) in workloads.iter().enumerate() {
        put(&mut cluster, &format!("w{w:02}"), spec, &mut free);
    }
    cluster
}

fn taint_of(key: &str) -> Taint {
    taint(key, "NoSchedule")
}

/// Adds a workload, as far as there is something that its pods can hold.
fn put(cluster: &mut Cluster, name: &str, spec: &WorkloadSpec, free: &mut Vec<Place>) {
    let mut wanted: Option<Option<String>> = (!spec.holds_slices).then_some(None);
    let mut places = Vec::new();
    for pick in &spec.picks {
        let fits = |place: &Place| match (&wanted, &place.2) {
            (None, slice) => slice.is_some(),
            (Some(wanted), slice) => *wanted == slice.as_ref().map(|(_, profile)| profile.clone()),
        };
        let open: Vec<usize> = (0..free.len()).filter(|i| fits(&free[*i])).collect();
        if open.is_empty() {
            break;
        }
        let place = free.remove(open[pick % open.len()]);
        wanted = Some(place.2.as_ref().map(|(_, profile)| profile.clone()));
        places.push(place);
    }
    if places.is_empty() {
        return;
    }
    let nodes: Vec<String> = places.iter().map(|(n, ..)| format!("n{n}")).collect();
    let on: Vec<(&str, usize)> = nodes.iter().zip(&places).map(|(n, (_, c, _))| (n.as_str(), *c)).collect();
    let model = CATALOG.find_by_product(model_of(cluster)).unwrap();
    let slice = places[0].2.as_ref().map(|(_, profile)| profile.clone());
    let memory = match &slice {
        Some(profile) => model.profile(profile.parse().unwrap()).unwrap().memory_min,
        None => model.framebuffer.unwrap(),
    };
    let old = cluster.workload(name, &on, memory.0 * spec.peak / 1_000, f64::from(spec.sm) / 1_000.0);
    let id = WorkloadId::new(spec.kind, "search", name);
    let mut profile = cluster.measured.profiles.remove(&old).unwrap();
    let mut declared = cluster.declared.workloads.remove(&old).unwrap();
    let workload = cluster.inventory.workloads.last_mut().unwrap();
    (workload.id, profile.workload) = (id.clone(), id.clone());
    workload.max_surge = spec.max_surge;
    declared.max_surge = spec.max_surge;
    workload.hpa_max = spec.hpa_more.map(|more| workload.replicas + more);
    profile.media_engines_used = Some(spec.media);
    profile.complete_runs = 9;
    if let Some(slice) = slice {
        workload.resource = format!("nvidia.com/mig-{slice}");
        (profile.slice, profile.compute) = (Some(slice), None);
        for (pod, (_, _, held)) in workload.pods.iter_mut().zip(&places) {
            let card = pod.cards.remove(0);
            pod.slices =
                held.iter().map(|(s, _)| SliceId { card: card.clone(), id: s.to_string() }).collect();
        }
    }
    if !spec.knows_requests {
        for pod in &mut workload.pods {
            pod.requests = None;
        }
    }
    if !spec.editable {
        declared.editable = Err("a template".into());
    }
    if spec.pinned {
        declared.pinned = Some("required node affinity".into());
    }
    declared.ignored = spec.ignored;
    cluster.measured.profiles.insert(id.clone(), profile);
    cluster.declared.workloads.insert(id.clone(), declared);
    cluster.rules.push(PolicyRule {
        workloads: vec![id.to_string()],
        set: PolicySettings {
            production: Some(spec.production),
            methods: spec.methods.clone().map(|methods| methods.into_iter().collect()),
            min_profile: spec.min_profile.map(str::to_owned),
            spread: spec.spread,
            ..PolicySettings::default()
        },
        ..PolicyRule::default()
    });
}

/// The pool's model, as DCGM prints it.
fn model_of(cluster: &Cluster) -> &str {
    &cluster.inventory.nodes[0].cards[0].model_name
}

/// Pods of every workload by node, in the plan's words. Nodes whose cards the plan does not look into are left out.
fn pods(
    plan: &Plan,
    cards: impl Fn(&NodeOutcome) -> &Vec<CardUse>,
) -> BTreeMap<WorkloadId, BTreeMap<String, usize>> {
    let mut pods: BTreeMap<WorkloadId, BTreeMap<String, usize>> = BTreeMap::new();
    for node in &plan.nodes {
        for card in cards(node) {
            let held: Vec<&WorkloadId> = match card {
                CardUse::Whole { workload } => vec![workload],
                CardUse::Slices { slices } => slices.iter().filter_map(|s| s.workload.as_ref()).collect(),
                CardUse::Shared { workloads, .. } => workloads.iter().collect(),
                CardUse::Idle | CardUse::Other { .. } => Vec::new(),
            };
            for id in held {
                *pods.entry(id.clone()).or_default().entry(node.name.clone()).or_default() += 1;
            }
        }
    }
    pods
}

/// The label changes, everybody moves, and no card of the group keeps what it is.
fn moves_as_a_whole(cluster: &Cluster, plan: &Plan) -> bool {
    let alone = plan.changes.iter().any(|change| matches!(change, Change::LabelGroup { beside: false, .. }));
    alone && plan.method == Method::Mig && plan.items.len() == cluster.inventory.workloads.len()
}

/// The plan in a few lines, for whoever reads a failure.
fn in_short(outcome: &Outcome) -> String {
    let Outcome::Plan(plan) = outcome else { return "nothing".to_owned() };
    let card = |card: &CardUse| match card {
        CardUse::Idle => "idle".to_owned(),
        CardUse::Whole { workload } => workload.name.clone(),
        CardUse::Slices { slices } => slices
            .iter()
            .map(|slice| format!("{}:{}", slice.profile, slice.workload.as_ref().map_or("-", |id| &id.name)))
            .collect::<Vec<_>>()
            .join("+"),
        CardUse::Shared { replicas, workloads, .. } => {
            let names: Vec<&str> = workloads.iter().map(|id| id.name.as_str()).collect();
            format!("{replicas}x{}", names.join("+"))
        }
        CardUse::Other { .. } => "other".to_owned(),
    };
    let cards = |cards: &[CardUse]| cards.iter().map(card).collect::<Vec<_>>().join(" | ");
    let node = |node: &NodeOutcome| {
        format!("\n{} {:?}: {} => {}", node.name, node.fate, cards(&node.before), cards(&node.after))
    };
    let nodes: String = plan.nodes.iter().map(node).collect();
    let items: Vec<&str> = plan.items.iter().map(|item| item.fit.workload.name.as_str()).collect();
    let waves: Vec<_> = plan.waves.iter().map(|wave| (&wave.nodes, wave.borrowed)).collect();
    format!("{:?} {:?} {items:?} {waves:?}{nodes}", plan.goal, plan.method)
}

/// The promises of a plan for named nodes that can be read from it without knowing how it was made.
fn promises(cluster: &Cluster, plan: &Plan) -> Result<(), TestCaseError> {
    let (before, after) = (pods(plan, |node| &node.before), pods(plan, |node| &node.after));
    let total =
        |pods: Option<&BTreeMap<String, usize>>| pods.map_or(0, |nodes| nodes.values().sum::<usize>());
    let moves = |id: &WorkloadId| plan.items.iter().find(|item| item.fit.workload == *id);
    for workload in &cluster.inventory.workloads {
        let id = &workload.id;
        let kept = plan.kept.iter().filter(|kept| kept.fit.workload == *id).count();
        prop_assert_eq!(kept + usize::from(moves(id).is_some()), 1, "{} is in the plan once", id);
        prop_assert!(total(after.get(id)) >= total(before.get(id)), "{id} loses pods");
        if let Some(item) = moves(id) {
            prop_assert_eq!(total(after.get(id)), item.replicas as usize, "{} has all its replicas", id);
            prop_assert!(item.replicas as usize >= workload.pods.len(), "{id} shrinks");
        }
        let declared = &cluster.declared.workloads[id];
        for (node, n) in after.get(id).into_iter().flatten() {
            let was = before.get(id).and_then(|nodes| nodes.get(node)).copied().unwrap_or(0);
            if *n <= was {
                continue;
            }
            let site = cluster.inventory.node(node).unwrap();
            prop_assert!(workload.pods.iter().all(|pod| pod.requests.is_some()), "{id} comes to {node}");
            let strange = site.taints.iter().any(|taint| taint.key != "dedicated");
            let there = workload.pods.iter().any(|pod| pod.node == *node);
            prop_assert!(there || !strange, "{id} comes to {node}, which repels it");
            prop_assert!(there || declared.pinned.is_none(), "{id} is pinned and comes to {node}");
        }
        if let Some(item) = moves(id) {
            let rule = &cluster.rules.iter().find(|rule| rule.workloads[0] == id.to_string()).unwrap().set;
            prop_assert!(rule.methods.as_ref().is_none_or(|methods| methods.contains(&plan.method)));
            prop_assert!(plan.method == Method::Mig || rule.production != Some(true), "{id} is production");
            prop_assert!(!declared.ignored && (declared.editable.is_ok() || plan.method != Method::Mig));
            prop_assert!(item.fit.needs.as_ref().is_some_and(|needs| item.share_memory >= needs.memory));
        }
        let restarts = |pod: &Pod| {
            let name = format!("search/{}", pod.name);
            plan.nodes.iter().any(|node| node.restarts.contains(&name))
        };
        if workload.id.kind == "Job" || declared.ignored {
            prop_assert!(!workload.pods.iter().any(restarts), "{id} must run to its end");
        }
        for pod in workload.pods.iter().filter(|pod| cluster.pool.frozen_nodes.contains(&pod.node)) {
            prop_assert!(!restarts(pod), "{} restarts on a frozen node", pod.name);
        }
    }
    for node in plan.nodes.iter().filter(|node| node.fate != NodeFate::Untouched) {
        prop_assert!(!cluster.pool.frozen_nodes.contains(&node.name), "{} is frozen", node.name);
    }
    let labelled: BTreeSet<String> = labels_of(plan).into_iter().map(|(node, _)| node).collect();
    prop_assert!(labelled.is_disjoint(&cluster.pool.frozen_nodes));
    Ok(())
}

/// Cards and nodes of the saving are those of the nodes.
fn sums(cluster: &Cluster, plan: &Plan) -> Result<(), TestCaseError> {
    let saving = &plan.saving;
    let in_use = |cards: &[CardUse]| cards.iter().filter(|card| **card != CardUse::Idle).count();
    let before: usize = plan.nodes.iter().map(|node| in_use(&node.before)).sum();
    let after: usize = plan.nodes.iter().map(|node| in_use(&node.after)).sum();
    let freed = plan.nodes.iter().filter(|node| node.fate == NodeFate::Freed).count();
    prop_assert_eq!(saving.nodes_before as usize, cluster.inventory.nodes.len());
    prop_assert_eq!(saving.nodes_before - saving.nodes_after, u32::try_from(freed).unwrap());
    let n_cards: usize = cluster.inventory.nodes.iter().map(|node| node.cards.len()).sum();
    prop_assert_eq!(saving.cards_before as usize, n_cards);
    prop_assert_eq!(saving.cards_in_use_before as usize, before + saving.cards_of_autoscalers as usize);
    prop_assert!(saving.cards_in_use_after as usize >= after);
    prop_assert!(
        saving.cards_in_use_after as usize <= after + saving.cards_of_autoscalers as usize,
        "more whole cards than today"
    );
    Ok(())
}

proptest! {
    // As in `place`: always the same fleets, and others by `PROPTEST_RNG_SEED` and `PROPTEST_CASES`.
    #![proptest_config(ProptestConfig {
        cases: match ProptestConfig::default().cases {
            256 => 60,
            asked => asked,
        },
        failure_persistence: None,
        rng_seed: match ProptestConfig::default().rng_seed {
            RngSeed::Random => RngSeed::Fixed(3),
            fixed @ RngSeed::Fixed(_) => fixed,
        },
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_plan_keeps_its_promises(cluster in fleets()) {
        let Outcome::Plan(plan) = cluster.plan() else { return Ok(()) };
        if plan.pool_kind == PoolKind::Static {
            promises(&cluster, &plan)?;
            sums(&cluster, &plan)?;
        }
    }

    #[test]
    fn the_order_of_a_fleet_changes_nothing(cluster in fleets()) {
        let first = cluster.plan();
        prop_assert_eq!(&first, &cluster.plan());
        let mut other = cluster;
        other.inventory.nodes.reverse();
        other.inventory.workloads.reverse();
        prop_assert_eq!(first, other.plan());
    }

    #[test]
    fn a_fleet_is_planned_once(cluster in fleets()) {
        // Cards that a plan frees can be the refuge without which `waves` forbade the next, and a pool that is shared in
        // one way on some nodes may be shared in another on the rest. Otherwise there is one plan and no other.
        let mut now = cluster;
        let mut story = String::new();
        let mut before = None;
        for _ in 0..=now.inventory.nodes.len() {
            let outcome = now.plan();
            let Outcome::Plan(plan) = &outcome else { return Ok(()) };
            if plan.pool_kind == PoolKind::Elastic && !moves_as_a_whole(&now, plan) {
                return Ok(());
            }
            story += &format!("\nthen {}", in_short(&outcome));
            let may_go_on = plan.pool_kind == PoolKind::Static && now.pool.waves != Some(Waves::AllowDowntime);
            prop_assert!(may_go_on || before != Some(plan.method), "{story}");
            before = Some(plan.method);
            now = applied(&now, plan);
        }
        prop_assert!(false, "without an end: {story}");
    }
}
