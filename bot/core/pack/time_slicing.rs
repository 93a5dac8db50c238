//! How many pods may take turns on one card, when any of them may meet.
//!
//! The device plugin gives every card of a node the same number of replicas and isolates no memory, so the worst
//! combination decides, not the mean. Whether pods may be shared at all is the question of `fit`.

use std::cmp::Reverse;

/// One pod; a workload with three replicas is three pods, for they can meet each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pod {
    /// Stable name of its workload.
    pub key: String,
    /// Its memory peak in MiB.
    pub peak_mib: u64,
    /// Its compute peak in thousandths of a card.
    pub compute_milli: u64,
}

/// What a card offers to pods that take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Memory of one card in MiB.
    pub card_mib: u64,
    /// Share of the card's memory that must stay free, in percent.
    pub headroom_percent: u64,
    /// Memory in MiB that each pod takes besides its peak: 0 when peaks were read from the device.
    pub context_mib: u64,
    /// Most that the compute peaks may add up to, in thousandths: 1,000 is one card.
    pub compute_limit_milli: u64,
    /// Most pods on one card.
    pub max_replicas: u32,
}

/// What keeps one more pod off a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// The largest peaks would not fit into the card's memory together.
    Memory,
    /// The largest compute peaks would exceed the limit together.
    Compute,
    /// `max_replicas`.
    MaxReplicas,
    /// There are no more pods.
    Pods,
}

/// Cards of one node group that all take the same number of pods.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Group {
    /// Pods per card; 0 when not even the largest fits alone. Sharing means 2 at least.
    pub replicas: u32,
    /// Pods in the group.
    pub n_pods: u32,
    /// Cards needed; `None` when the largest pod does not fit alone.
    pub n_cards: Option<u32>,
    /// The `replicas` largest memory peaks, largest first: their sum is the worst that can meet.
    pub largest: Vec<Pod>,
    /// Their peaks and contexts together, in MiB.
    pub worst_mib: u64,
    /// The same with one pod more, in MiB; `None` when there is none.
    pub worst_mib_with_one_more: Option<u64>,
    /// The `replicas` largest compute peaks together, in thousandths.
    pub worst_compute_milli: u64,
    /// What keeps one more pod off.
    pub limit: Limit,
}

/// Two node groups, split by memory peak.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct TwoGroups {
    /// Pods up to this peak, in MiB, go to the small group.
    pub small_max_peak_mib: u64,
    /// The group of the smaller pods.
    pub small: Group,
    /// The group of the larger pods.
    pub large: Group,
    /// Cards of both.
    pub n_cards: u32,
}

/// The answer for one node group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct TimeSlicing {
    /// Memory that pods may use on a card, in MiB.
    pub usable_mib: u64,
    /// All pods in one group.
    pub one: Group,
    /// The best split in two, when it needs fewer cards.
    pub two: Option<TwoGroups>,
}

/// How many of `pods` may share a card, and whether two groups would do better.
pub fn time_slicing(pods: &[Pod], limits: &Limits) -> TimeSlicing {
    let usable_mib = usable(limits);
    let sorted = by_peak(pods);
    let one = group(&sorted, usable_mib, limits);
    let two = best_split(&sorted, usable_mib, limits, one.n_cards);
    TimeSlicing { usable_mib, one, two }
}

/// A threshold that splits the pods in two groups which may both share, as numbers alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Pods up to this peak, in MiB, are in the small group.
    pub small_max_peak_mib: u64,
    /// Pods of the small group, and how many of them a card may have.
    pub small: (u32, u32),
    /// Pods of the large group, and how many of them a card may have.
    pub large: (u32, u32),
}

impl Cut {
    /// Cards of both groups.
    pub fn n_cards(&self) -> u32 {
        let cards = |(pods, replicas): (u32, u32)| pods.div_ceil(replicas.max(1));
        cards(self.small).saturating_add(cards(self.large))
    }
}

/// Every threshold at which each group may have one pod a card at least, highest first. Pods of one peak are never
/// separated: they may be replicas of one workload.
pub fn cuts(pods: &[Pod], limits: &Limits) -> Vec<Cut> {
    all_cuts(&by_peak(pods), usable(limits), limits).map(|(cut, _)| cut).collect()
}

/// Largest peak first.
fn by_peak(pods: &[Pod]) -> Vec<&Pod> {
    let mut sorted: Vec<&Pod> = pods.iter().collect();
    sorted.sort_by(|a, b| b.peak_mib.cmp(&a.peak_mib).then_with(|| a.cmp(b)));
    sorted
}

fn usable(limits: &Limits) -> u64 {
    limits.card_mib.saturating_mul(100u64.saturating_sub(limits.headroom_percent)) / 100
}

/// Each cut with the number of pods in its large group, which are the first of `sorted`.
fn all_cuts<'a>(
    sorted: &'a [&Pod],
    usable_mib: u64,
    limits: &Limits,
) -> impl Iterator<Item = (Cut, usize)> + 'a {
    let most = usize::try_from(limits.max_replicas).unwrap_or(usize::MAX);
    // `sorted` has the largest peak first, so the large group is a prefix and the small one the rest.
    let large = replicas_of_prefixes(sorted.iter().copied(), false, most, usable_mib, limits);
    let small = replicas_of_prefixes(sorted.iter().rev().copied(), true, most, usable_mib, limits);
    (1..sorted.len()).filter(|at| sorted[at - 1].peak_mib != sorted[*at].peak_mib).filter_map(move |at| {
        let n_small = sorted.len() - at;
        let (k_large, k_small) = (large[at - 1], small[n_small - 1]);
        let cut = Cut {
            small_max_peak_mib: sorted[at].peak_mib,
            small: (u32::try_from(n_small).ok()?, k_small),
            large: (u32::try_from(at).ok()?, k_large),
        };
        (k_small > 0 && k_large > 0).then_some((cut, at))
    })
}

/// The cheapest threshold that beats `to_beat` cards; of equals the lowest.
fn best_split(sorted: &[&Pod], usable_mib: u64, limits: &Limits, to_beat: Option<u32>) -> Option<TwoGroups> {
    let (cut, at) =
        all_cuts(sorted, usable_mib, limits).min_by_key(|(cut, at)| (cut.n_cards(), Reverse(*at)))?;
    let n_cards = cut.n_cards();
    to_beat.is_none_or(|one| n_cards < one).then(|| TwoGroups {
        small_max_peak_mib: cut.small_max_peak_mib,
        small: group(&sorted[at..], usable_mib, limits),
        large: group(&sorted[..at], usable_mib, limits),
        n_cards,
    })
}

/// For each number of first pods, how many of them may share a card. Pods come with their peaks ascending or
/// descending; only the `most` largest of either kind matter.
fn replicas_of_prefixes<'a>(
    pods: impl Iterator<Item = &'a Pod>,
    ascending: bool,
    most: usize,
    usable_mib: u64,
    limits: &Limits,
) -> Vec<u32> {
    let mut peaks: Vec<u64> = Vec::new();
    let mut computes: Vec<u64> = Vec::new();
    pods.enumerate()
        .map(|(i, pod)| {
            if ascending {
                peaks.insert(0, pod.peak_mib);
            } else {
                peaks.push(pod.peak_mib);
            }
            peaks.truncate(most);
            let at = computes.partition_point(|c| *c >= pod.compute_milli);
            computes.insert(at, pod.compute_milli);
            computes.truncate(most);
            replicas(&peaks, &computes, i + 1, usable_mib, limits).0
        })
        .collect()
}

/// The most pods for which the largest peaks and computes still fit, and what stops one more.
fn replicas(
    peaks: &[u64],
    computes: &[u64],
    n_pods: usize,
    usable_mib: u64,
    limits: &Limits,
) -> (u32, Limit) {
    let (mut memory, mut compute) = (0u64, 0u64);
    let mut k = 0;
    for (peak, milli) in peaks.iter().zip(computes) {
        if k == limits.max_replicas {
            return (k, Limit::MaxReplicas);
        }
        memory = memory.saturating_add(*peak).saturating_add(limits.context_mib);
        compute = compute.saturating_add(*milli);
        if memory > usable_mib {
            return (k, Limit::Memory);
        }
        if compute > limits.compute_limit_milli {
            return (k, Limit::Compute);
        }
        k += 1;
    }
    let all = usize::try_from(k).is_ok_and(|k| k >= n_pods);
    (k, if all { Limit::Pods } else { Limit::MaxReplicas })
}

/// `sorted` has the largest peak first.
fn group(sorted: &[&Pod], usable_mib: u64, limits: &Limits) -> Group {
    let peaks: Vec<u64> = sorted.iter().map(|p| p.peak_mib).collect();
    let mut computes: Vec<u64> = sorted.iter().map(|p| p.compute_milli).collect();
    computes.sort_unstable_by(|a, b| b.cmp(a));
    let (k, limit) = replicas(&peaks, &computes, sorted.len(), usable_mib, limits);
    let n_pods = u32::try_from(sorted.len()).unwrap_or(u32::MAX);
    let at = usize::try_from(k).unwrap_or(usize::MAX).min(sorted.len());
    let worst = |n: usize| {
        peaks
            .iter()
            .take(n)
            .fold(0u64, |sum, peak| sum.saturating_add(*peak).saturating_add(limits.context_mib))
    };
    Group {
        replicas: k,
        n_pods,
        n_cards: if n_pods == 0 { Some(0) } else { (k > 0).then(|| n_pods.div_ceil(k)) },
        largest: sorted[..at].iter().map(|p| (*p).clone()).collect(),
        worst_mib: worst(at),
        worst_mib_with_one_more: (at < sorted.len()).then(|| worst(at + 1)),
        worst_compute_milli: computes[..at].iter().fold(0u64, |sum, c| sum.saturating_add(*c)),
        limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(peaks: &[u64]) -> Vec<Pod> {
        let pod = |(i, peak): (usize, &u64)| Pod { key: format!("p{i}"), peak_mib: *peak, compute_milli: 10 };
        peaks.iter().enumerate().map(pod).collect()
    }

    const LIMITS: Limits = Limits {
        card_mib: 24_000,
        headroom_percent: 10,
        context_mib: 0,
        compute_limit_milli: 1000,
        max_replicas: 16,
    };

    #[test]
    fn the_largest_peaks_decide_and_not_the_mean() {
        let answer = time_slicing(&pods(&[9_000, 1_000, 7_000, 3_000, 3_000, 3_000, 1_000, 1_000]), &LIMITS);
        assert_eq!(answer.one.replicas, 3);
        assert_eq!(answer.one.worst_mib, 19_000);
        assert_eq!(answer.one.worst_mib_with_one_more, Some(22_000));
        assert_eq!(answer.one.limit, Limit::Memory);
        assert_eq!(answer.one.largest.iter().map(|p| p.peak_mib).collect::<Vec<_>>(), [9_000, 7_000, 3_000]);
    }

    #[test]
    fn a_pod_that_does_not_fit_alone_shares_nothing() {
        let answer = time_slicing(&pods(&[22_000, 1_000]), &LIMITS);
        assert_eq!((answer.one.replicas, answer.one.n_cards, answer.two), (0, None, None));
    }

    #[test]
    fn no_pods_need_no_card() {
        assert_eq!(time_slicing(&[], &LIMITS).one.n_cards, Some(0));
    }
}
