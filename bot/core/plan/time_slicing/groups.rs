//! How many pods a card may have, in one group or in two by a memory threshold, and the selectors that bind pods to the
//! nodes of their group.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{Alternative, PluginSharing, PoolKind, Request, Weighed};
use super::outcome::apart;
use super::seats::{Ask, Floor};
use super::{key, two_groups_left};
use crate::catalog::GpuModel;
use crate::fit::Reason;
use crate::inventory::Node;
use crate::pack;
use crate::pack::mps::{Client, memory_share, threads_milli};
use crate::pack::time_slicing::{Cut, Limit, Limits, Pod, cuts, time_slicing};
use crate::policy::TimeSlicingPolicy;
use crate::units::{Mib, Ratio};

/// What a card offers to pods that share it, by the strictest of their policies.
pub(super) struct Terms<'a> {
    pub(super) sharing: PluginSharing,
    model: &'a GpuModel,
    /// The smallest framebuffer seen or known: what an MPS server divides.
    pub(super) framebuffer: Mib,
    /// What the largest peaks together may take.
    pub(super) usable: Mib,
    pub(super) policy: TimeSlicingPolicy,
    pub(super) limits: Limits,
}

impl<'a> Terms<'a> {
    /// `None`: the framebuffer is not known.
    pub(super) fn new(
        request: &Request<'_>,
        model: &'a GpuModel,
        model_name: &str,
        sharers: &[&Weighed<'_>],
        sharing: PluginSharing,
    ) -> Option<Self> {
        let policy = strictest(sharers);
        let seen = request.measured.smallest_framebuffer.get(model_name).copied();
        let framebuffer = model.framebuffer_with(seen)?;
        let usable = framebuffer.share_floor(policy.usable_share);
        let max_replicas = match sharing {
            PluginSharing::TimeSlicing => policy.max_replicas,
            PluginSharing::Mps => {
                let asked = sharers.iter().map(|w| w.policy.mps_max_replicas).min();
                asked.unwrap_or(0).min(model.mps_max_replicas)
            }
        };
        let limits = Limits {
            card_mib: usable.0,
            headroom_percent: 0,
            // Peaks are device-level FB_USED: the contexts of the pod's own processes are in them.
            context_mib: 0,
            compute_limit_milli: u64::from(policy.compute_limit.ppm() / 1_000),
            max_replicas,
        };
        Some(Self { sharing, model, framebuffer, usable, policy, limits })
    }

    /// The most pods a card when any of `members` may meet.
    fn most(&self, request: &Request<'_>, members: &[&Weighed<'_>]) -> pack::time_slicing::Group {
        match self.sharing {
            PluginSharing::TimeSlicing => time_slicing(&pods(request, members), &self.limits).one,
            PluginSharing::Mps => {
                let clients: Vec<Client> = members
                    .iter()
                    .flat_map(|w| {
                        let client = Client {
                            pod: pod(request, w),
                            need_mib: w.fit.needs.as_ref().map_or(u64::MAX, |needs| needs.memory.0),
                            need_milli: w
                                .fit
                                .needs
                                .as_ref()
                                .and_then(|n| n.compute_milli)
                                .unwrap_or(u32::MAX),
                        };
                        std::iter::repeat_n(client, n_pods(request, w))
                    })
                    .collect();
                pack::mps::mps(&clients, self.framebuffer.0, &self.limits)
            }
        }
    }

    fn key(&self, replicas: u32) -> String {
        key(self.model, replicas, self.sharing)
    }

    /// Some plan of this kind for such cards could use the value as its key.
    pub(super) fn may_be_key(&self, value: &str) -> bool {
        (2..=self.limits.max_replicas).any(|replicas| self.key(replicas) == value)
    }

    /// Why pods as large as these cannot even share in pairs.
    fn too_few(&self, group: &pack::time_slicing::Group, members: &[&Weighed<'_>]) -> Reason {
        let worst = Mib(group.worst_mib_with_one_more.unwrap_or(group.worst_mib));
        match (group.limit, self.capped(members)) {
            (Limit::MaxReplicas, Some(why)) => Reason::new("share-too-small", why),
            (Limit::Memory, _) => Reason::new(
                "peaks-too-large",
                format!("the two largest peaks need {worst} and {} may be used of a card", self.usable),
            ),
            (Limit::Compute, _) => Reason::new(
                "too-busy",
                format!(
                    "the two busiest pods together exceed the compute limit of {}",
                    self.policy.compute_limit
                ),
            ),
            (Limit::MaxReplicas | Limit::Pods, _) => {
                Reason::new("nobody-to-share-with", "there are no two pods to share a card")
            }
        }
    }

    /// Why not even two equal MPS shares hold the largest client.
    fn capped(&self, members: &[&Weighed<'_>]) -> Option<String> {
        (self.sharing == PluginSharing::Mps).then(|| self.why_no_more(members, 1)).flatten()
    }

    /// What forbids one more MPS client than `replicas`: the largest one would not fit its equal share.
    pub(super) fn why_no_more(&self, members: &[&Weighed<'_>], replicas: u32) -> Option<String> {
        let needs = || members.iter().filter_map(|w| w.fit.needs.as_ref());
        let more = replicas + 1;
        let (memory, milli) = (Mib(memory_share(self.framebuffer.0, more)), threads_milli(more));
        let largest = needs().map(|needs| needs.memory).max()?;
        if largest > memory {
            return Some(format!(
                "with {more} clients each may take {memory}, and the largest needs {largest} with headroom"
            ));
        }
        let busiest = needs().filter_map(|needs| needs.compute_milli).max()?;
        (busiest > milli).then(|| {
            format!(
                "with {more} clients each may use {} of the SMs, and the busiest needs {}",
                percent(milli),
                percent(busiest)
            )
        })
    }
}

/// Thousandths as `19 %`.
pub(super) fn percent(milli: u32) -> Ratio {
    Ratio::from_ppm(milli.saturating_mul(1_000))
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

fn pods(request: &Request<'_>, members: &[&Weighed<'_>]) -> Vec<Pod> {
    members.iter().flat_map(|w| std::iter::repeat_n(pod(request, w), n_pods(request, w))).collect()
}

/// Its pods at the autoscaler's maximum and while it rolls.
fn n_pods(request: &Request<'_>, weighed: &Weighed<'_>) -> usize {
    weighed.planned().saturating_add(weighed.max_surge(request.declared)) as usize
}

fn pod(request: &Request<'_>, weighed: &Weighed<'_>) -> Pod {
    Pod {
        key: weighed.workload.id.to_string(),
        peak_mib: peak(weighed),
        compute_milli: u64::from(p99(request, weighed).map_or(1_000, Ratio::milli_ceil)),
    }
}

fn peak(weighed: &Weighed<'_>) -> u64 {
    weighed.fit.needs.as_ref().map_or(0, |needs| needs.peak.0)
}

/// The 99th percentile of compute that was measured.
pub(super) fn p99(request: &Request<'_>, weighed: &Weighed<'_>) -> Option<Ratio> {
    Some(request.measured.profiles.get(&weighed.workload.id)?.compute?.p99)
}

/// Pods that share cards under one key of the device plugin, on nodes of their own.
pub(super) struct Group<'w, 'a> {
    pub(super) key: String,
    pub(super) members: Vec<&'w Weighed<'a>>,
    pub(super) answer: pack::time_slicing::Group,
    pub(super) nodes: BTreeSet<String>,
}

impl Group<'_, '_> {
    /// `1 of 4 time slices`.
    pub(super) fn share(&self, sharing: PluginSharing) -> String {
        match sharing {
            PluginSharing::TimeSlicing => format!("1 of {} time slices", self.answer.replicas),
            PluginSharing::Mps => format!("1 of {} MPS shares", self.answer.replicas),
        }
    }

    pub(super) fn has(&self, weighed: &Weighed<'_>) -> bool {
        self.members.iter().any(|member| member.workload.id == weighed.workload.id)
    }

    /// The highest peak of its pods.
    pub(super) fn largest_peak(&self) -> Mib {
        Mib(self.members.iter().map(|w| peak(w)).max().unwrap_or(0))
    }
}

/// The groups of a plan, smallest peaks first.
pub(super) struct Divided<'w, 'a> {
    pub(super) groups: Vec<Group<'w, 'a>>,
    /// No other choice of nodes, with one threshold or none, keeps fewer (`Bill`) or fewer cards (`Capacity`).
    pub(super) fewest: bool,
    /// Two groups where they would do better and cannot be made.
    pub(super) undivided: Option<Alternative>,
}

impl<'w, 'a> Divided<'w, 'a> {
    pub(super) fn group_of(&self, weighed: &Weighed<'_>) -> Option<&Group<'w, 'a>> {
        self.groups.iter().find(|group| group.has(weighed))
    }
}

/// The best of one group and every threshold, by the pool's goal; of equals one group. `not_two`: why two cannot be.
pub(super) fn divide<'w, 'a>(
    request: &Request<'_>,
    sharers: &[&'w Weighed<'a>],
    terms: &Terms<'_>,
    nodes: &[&Node],
    not_two: Option<&Reason>,
) -> Result<Divided<'w, 'a>, Vec<Reason>> {
    let floor = Floor::new(sharers, nodes, request.pool.goal).ok_or_else(|| vec![room_unknown()])?;
    let one = terms.most(request, sharers);
    let alone = (one.replicas >= 2)
        .then(|| floor.place(&[ask(request, sharers, one.replicas, one.n_pods)]))
        .flatten();
    let split = match (terms.sharing, request.pool.kind) {
        (PluginSharing::TimeSlicing, PoolKind::Static) => {
            best_cut(request, sharers, terms, &floor, alone.as_ref().map(|placed| placed.cost))
        }
        (PluginSharing::Mps, _) | (_, PoolKind::Elastic) => None,
    };
    let mut undivided = None;
    if let Some((cut, placed)) = &split {
        match not_two {
            None => {
                let (small, large): (Vec<_>, Vec<_>) =
                    sharers.iter().copied().partition(|w| peak(w) <= cut.small_max_peak_mib);
                let made = [small, large].into_iter().zip(&placed.nodes);
                let groups = made.map(|(members, nodes)| group(request, terms, members, nodes)).collect();
                return Ok(Divided { groups, fewest: placed.cost == placed.least, undivided });
            }
            Some(why) => {
                let n_nodes = placed.nodes.iter().map(BTreeSet::len).sum();
                undivided = Some(two_groups_left(cut.n_cards(), n_nodes, why.text.clone()));
            }
        }
    }
    match alone {
        Some(placed) => Ok(Divided {
            groups: placed.nodes.iter().map(|nodes| group(request, terms, sharers.to_vec(), nodes)).collect(),
            fewest: placed.cost == placed.least && split.is_none(),
            undivided,
        }),
        None if one.replicas < 2 => Err(vec![terms.too_few(&one, sharers)]),
        None => Err(vec![Reason::new(
            "no-room-on-nodes",
            format!(
                "the nodes that may be shared have CPU, memory and cards for {} of {} pods",
                floor.most_pods(one.replicas),
                one.n_pods
            ),
        )]),
    }
}

fn group<'w, 'a>(
    request: &Request<'_>,
    terms: &Terms<'_>,
    members: Vec<&'w Weighed<'a>>,
    nodes: &BTreeSet<String>,
) -> Group<'w, 'a> {
    let answer = terms.most(request, &members);
    Group { key: terms.key(answer.replicas), members, answer, nodes: nodes.clone() }
}

fn ask(request: &Request<'_>, members: &[&Weighed<'_>], replicas: u32, n_pods: u32) -> Ask {
    let apart = members.iter().any(|w| apart(request, w));
    let mut here: BTreeMap<String, usize> = BTreeMap::new();
    for pod in members.iter().flat_map(|w| &w.pods) {
        *here.entry(pod.node.clone()).or_default() += 1;
    }
    Ask { replicas, n_pods, n_nodes: if apart { 2 } else { 1 }, here }
}

/// The threshold whose groups cost less than `to_beat`: every one is looked at that could.
fn best_cut(
    request: &Request<'_>,
    sharers: &[&Weighed<'_>],
    terms: &Terms<'_>,
    floor: &Floor<'_>,
    to_beat: Option<u64>,
) -> Option<(Cut, super::seats::Placed)> {
    let mut cuts = cuts(&pods(request, sharers), &terms.limits);
    // Groups of one factor would have one key, and one key is one group.
    cuts.retain(|cut| cut.small.1 >= 2 && cut.large.1 >= 2 && cut.small.1 != cut.large.1);
    cuts.sort_by_key(|cut| (cut.n_cards(), cut.small_max_peak_mib));
    let mut best: Option<(Cut, super::seats::Placed)> = None;
    for cut in cuts {
        let cost = best.as_ref().map(|(_, placed)| placed.cost).or(to_beat);
        let least = [cut.small, cut.large].iter().map(|(n, k)| floor.least(*k, *n)).sum::<Option<u64>>();
        let Some(least) = least else { continue };
        if cost.is_some_and(|cost| least >= cost) {
            continue;
        }
        let (small, large): (Vec<&Weighed<'_>>, Vec<&Weighed<'_>>) =
            sharers.iter().copied().partition(|w| peak(w) <= cut.small_max_peak_mib);
        let asks =
            [ask(request, &small, cut.small.1, cut.small.0), ask(request, &large, cut.large.1, cut.large.0)];
        if let Some(placed) = floor.place(&asks)
            && cost.is_none_or(|cost| placed.cost < cost)
        {
            best = Some((cut, placed));
        }
    }
    best
}

fn room_unknown() -> Reason {
    Reason::new("room-unknown", "how much CPU and memory the nodes have left is not known: no pod is moved")
        .with_advice(
            "let kube-state-metrics expose pod requests and node allocatable (its defaults do) for GPU nodes",
        )
}
