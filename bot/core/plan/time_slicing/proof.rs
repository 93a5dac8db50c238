//! Why so many pods may share a card and no fewer cards would do, and what that costs them.

use super::super::{PluginSharing, Proof, Request, Weighed};
use super::groups::{Divided, Group, Terms, p99, percent};
use super::pins::Selectors;
use super::{PLUGIN_LABEL, pool_nodes};
use crate::pack::mps::{memory_share, threads_milli};
use crate::pack::time_slicing::Limit;
use crate::units::{Mib, Ratio, counted};

/// The worst that can meet, group by group, and who is kept off.
pub(super) fn proof(
    request: &Request<'_>,
    divided: &Divided<'_, '_>,
    terms: &Terms<'_>,
    kept_off: &[String],
    selectors: &Selectors,
) -> Proof {
    let groups = &divided.groups;
    let mut sentences: Vec<String> =
        groups.iter().flat_map(|group| of_group(group, terms, groups.len() > 1)).collect();
    let needed: u32 = groups.iter().filter_map(|group| group.answer.n_cards).sum();
    let kept = cards_of(request, groups);
    let n_nodes: usize = groups.iter().map(|group| group.nodes.len()).sum();
    if kept > needed {
        sentences.push(format!(
            "{} with {} are kept: all cards of a node are shared alike, and CPU and memory of a node, and replicas that \
             must be apart, may ask for more",
            counted(n_nodes, "node"),
            counted(kept as usize, "card")
        ));
    }
    sentences.push(
        "peaks are device-level `FB_USED`, which holds the CUDA contexts already: nothing is added for them"
            .to_owned(),
    );
    sentences.extend(kept_off.iter().cloned());
    if selectors.values().any(|selector| selector.contains_key(PLUGIN_LABEL)) {
        sentences.push(format!(
            "a node selector on `{PLUGIN_LABEL}` binds each pod to the nodes of its group: {}",
            if groups.len() > 1 { "pods of the two never meet" } else { "none goes back to a whole card" }
        ));
    }
    Proof { n_cards: kept, proven: divided.fewest && kept == needed, sentences }
}

fn cards_of(request: &Request<'_>, groups: &[Group<'_, '_>]) -> u32 {
    let chosen =
        pool_nodes(request).filter(|node| groups.iter().any(|group| group.nodes.contains(&node.name)));
    u32::try_from(chosen.map(|node| node.cards.len()).sum::<usize>()).unwrap_or(u32::MAX)
}

fn of_group(group: &Group<'_, '_>, terms: &Terms<'_>, several: bool) -> Vec<String> {
    let answer = &group.answer;
    let replicas = answer.replicas;
    let whose = if several {
        format!("`{}`, pods up to {}: ", group.key, group.largest_peak())
    } else {
        String::new()
    };
    let mut sentences = vec![format!(
        "{whose}any {replicas} of the {} pods may meet on a card: their largest peaks together need {}, and {} may be used \
         ({} of the smallest framebuffer); their busiest p99 are {} of its compute together, of {}",
        answer.n_pods,
        Mib(answer.worst_mib),
        terms.usable,
        terms.policy.usable_share,
        percent(u32::try_from(answer.worst_compute_milli).unwrap_or(u32::MAX)),
        terms.policy.compute_limit
    )];
    let capped = || match terms.sharing {
        PluginSharing::Mps => terms.why_no_more(&group.members, replicas),
        PluginSharing::TimeSlicing => None,
    };
    if terms.sharing == PluginSharing::Mps {
        sentences.push(format!(
            "each of {replicas} MPS clients may take {} and {} of the SMs, enforced by the server",
            Mib(memory_share(terms.framebuffer.0, replicas)),
            percent(threads_milli(replicas))
        ));
    }
    let most = format!("{replicas} replicas are the most");
    sentences.push(match answer.limit {
        Limit::Memory => format!(
            "with one more the largest peaks would need {}: {most}",
            Mib(answer.worst_mib_with_one_more.unwrap_or(answer.worst_mib))
        ),
        Limit::Compute => {
            format!("with one more their compute would exceed {}: {most}", terms.policy.compute_limit)
        }
        Limit::MaxReplicas => match capped() {
            Some(why) => format!("{why}: {most}"),
            None => format!("{most} that policy allows"),
        },
        Limit::Pods => format!("all {} pods fit on one card", answer.n_pods),
    });
    sentences.push(format!(
        "{} pods at {replicas} a card need {}: no plan with this many replicas can use fewer",
        answer.n_pods,
        counted(answer.n_cards.unwrap_or(0) as usize, "card")
    ));
    sentences
}

/// What pods lose in throughput and latency, group by group, with the source.
pub(super) fn effects(request: &Request<'_>, groups: &[Group<'_, '_>], terms: &Terms<'_>) -> Vec<String> {
    let mut effects = Vec::new();
    for group in groups {
        effects.extend(match terms.sharing {
            PluginSharing::TimeSlicing => turns(request, group, terms),
            PluginSharing::Mps => shares(request, group, terms),
        });
    }
    effects.push(
        match terms.sharing {
            PluginSharing::TimeSlicing => {
                "source: NVIDIA GPU Operator documentation, \"Time-Slicing GPUs in Kubernetes\": no memory or fault \
                 isolation between replicas, an equal share of time for every process of every client, and no quality of \
                 service beyond that"
            }
            PluginSharing::Mps => {
                "source: NVIDIA/k8s-device-plugin, cmd/mps-control-daemon: memory and threads of a client are limited to an \
                 equal share; memory bandwidth and cache are not, and nothing is guaranteed"
            }
        }
        .to_owned(),
    );
    effects
}

/// Pods take turns: the worst is an equal share of time, the expected follows from what was measured.
fn turns(request: &Request<'_>, group: &Group<'_, '_>, terms: &Terms<'_>) -> Vec<String> {
    let replicas = group.answer.replicas;
    let mut effects = vec![format!(
        "at worst, while all {replicas} pods of a card are busy, each gets 1/{replicas} of its time: work takes {replicas} \
         times as long and waits for {} at a time (with one process a pod; a pod with more of them gets more turns)",
        counted(replicas as usize - 1, "other turn")
    )];
    let sum = percent(u32::try_from(group.answer.worst_compute_milli).unwrap_or(u32::MAX));
    let measured = format!(
        "measured, the {replicas} largest p99 of compute are {sum} of a card together, of {}",
        terms.policy.compute_limit
    );
    effects.push(match busy_together(request, group) {
        None => format!(
            "{measured}; which part of the time their kernels run was not measured for all, so that the waiting cannot be \
             estimated"
        ),
        Some(time) if time <= Ratio::ONE => format!(
            "{measured}; their kernels ask for about {time} of the card's time when these are at their busiest at \
             once, so that turns rarely wait long"
        ),
        Some(time) => format!(
            "{measured}; their kernels ask for about {time} of the card's time when these are at their busiest at \
             once: work then takes about {} times as long",
            tenths(time)
        ),
    });
    effects
}

/// Pods run at once, each within its share.
fn shares(request: &Request<'_>, group: &Group<'_, '_>, terms: &Terms<'_>) -> Vec<String> {
    let replicas = group.answer.replicas;
    let share = percent(threads_milli(replicas));
    let busiest = group.members.iter().filter_map(|w| p99(request, w)).max().unwrap_or(Ratio::ZERO);
    let sum = percent(u32::try_from(group.answer.worst_compute_milli).unwrap_or(u32::MAX));
    vec![format!(
        "a client may use {share} of the SMs even when the others rest: kernels that fill more of the card today take \
         longer; the busiest p99 is {busiest}, and the {replicas} largest are {sum} together, of {}",
        terms.policy.compute_limit
    )]
}

/// Which part of the time the kernels of the busiest pods that may meet run, added up. `None`: not measured for all.
fn busy_together(request: &Request<'_>, group: &Group<'_, '_>) -> Option<Ratio> {
    let mut times = Vec::new();
    for w in &group.members {
        let time = busy(request, w)?;
        times.extend(std::iter::repeat_n(time, w.planned().max(1) as usize));
    }
    times.sort_unstable_by(|a, b| b.cmp(a));
    let sum =
        times.iter().take(group.answer.replicas as usize).fold(0u32, |sum, t| sum.saturating_add(t.ppm()));
    Some(Ratio::from_ppm(sum))
}

/// `SM_ACTIVE` is time times width, so that time is that over the width; the other metrics measure time themselves.
fn busy(request: &Request<'_>, weighed: &Weighed<'_>) -> Option<Ratio> {
    let profile = request.measured.profiles.get(&weighed.workload.id)?;
    let compute = profile.compute?;
    if compute.source.is_upper_bound() {
        return Some(compute.p99.min(Ratio::ONE));
    }
    let width = profile.kernel_width_p95?;
    Some(Ratio::of(u64::from(compute.p99.ppm()), u64::from(width.ppm()))?.min(Ratio::ONE))
}

/// 1,640,000 parts per million as `1.6`, rounded up.
fn tenths(ratio: Ratio) -> String {
    let tenths = ratio.ppm().div_ceil(100_000);
    format!("{}.{}", tenths / 10, tenths % 10)
}
