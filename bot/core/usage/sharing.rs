//! Whose a day's reading of a card is: one pod's alone, a slice's, or nobody's because the card was shared.

use std::collections::{BTreeMap, BTreeSet};

use super::fold::{CardReading, DayFacts, PodDay, PodName};
use crate::units::counted;

/// How a card was handed to the pod that a reading names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Handed {
    /// The whole card, alone: the reading is the pod's.
    Alone,
    /// A MIG slice of this profile: the reading is the pod's.
    Slice(String),
    /// Shared: the reading belongs to nobody in particular.
    Shared(String),
    /// Per-process readings are all zero while the device's is not.
    Unusable,
}

/// Two pods may both be called running for this long when one follows the other on a card.
const HANDOVER_SECONDS: u64 = 900;

/// Pods that hold a card for another product's scheduler.
pub(super) fn is_reservation_pod(pod: &PodName) -> bool {
    pod.namespace == "runai-reservation"
        || pod.name.starts_with("runai-reservation")
        || pod.name.starts_with("gpu-reservation")
        || pod.name.starts_with("reservation-pod")
}

/// The answer for each of the day's readings, in their order.
pub(super) fn handed(
    facts: &DayFacts,
    pods: &BTreeMap<&PodName, &PodDay>,
    shared_nodes: &BTreeMap<String, String>,
) -> Vec<Handed> {
    let mut by_card: BTreeMap<&str, Vec<&CardReading>> = BTreeMap::new();
    for reading in &facts.cards {
        by_card.entry(&reading.card).or_default().push(reading);
    }
    let mut cards_of: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut node_of: BTreeMap<&str, &str> = BTreeMap::new();
    for (card, readings) in &by_card {
        if let Some(node) = node(readings, facts, pods, shared_nodes) {
            cards_of.entry(node).or_default().insert(card);
            node_of.insert(card, node);
        }
    }
    let shared: BTreeMap<&str, Shared> = by_card
        .iter()
        .filter_map(|(card, readings)| {
            let node = node_of.get(card).copied();
            let n_cards = node.and_then(|node| cards_of.get(node)).map_or(0, BTreeSet::len);
            Some((*card, card_is_shared(readings, node, n_cards, facts, pods, shared_nodes)?))
        })
        .collect();
    facts
        .cards
        .iter()
        .map(|reading| {
            if let Some(slice) = &reading.slice {
                return Handed::Slice(slice.profile.clone());
            }
            if let Some(pod) = reading.pod.as_ref().and_then(|pod| pods.get(pod)) {
                if let Some(profile) = &pod.slice_profile {
                    return Handed::Slice(profile.clone());
                }
                if let Some(how) = &pod.shared {
                    return Handed::Shared(how.clone());
                }
            }
            match shared.get(reading.card.as_str()) {
                Some(Shared::ZeroPerProcess) => Handed::Unusable,
                Some(Shared::How(how)) => Handed::Shared(how.clone()),
                None => Handed::Alone,
            }
        })
        .collect()
}

/// Pods that were on a shared card or node that day, also those that got no sample because of it.
pub(super) fn shared_pods(
    facts: &DayFacts,
    pods: &BTreeMap<&PodName, &PodDay>,
    handed: &[Handed],
    shared_nodes: &BTreeMap<String, String>,
) -> BTreeMap<PodName, String> {
    let mut out = BTreeMap::new();
    let mut read_alone: BTreeSet<&PodName> = BTreeSet::new();
    let mut nodes: BTreeMap<&str, &str> = BTreeMap::new();
    for (reading, handed) in facts.cards.iter().zip(handed) {
        let Some(pod) = &reading.pod else { continue };
        match handed {
            Handed::Shared(how) => {
                out.insert(pod.clone(), how.clone());
                if let Some(node) = pods.get(pod).and_then(|pod| pod.node.as_deref()) {
                    nodes.insert(node, how);
                }
            }
            Handed::Unusable => {
                out.insert(pod.clone(), "time-slicing".to_owned());
            }
            Handed::Alone | Handed::Slice(_) => {
                read_alone.insert(pod);
            }
        }
    }
    for pod in &facts.pods {
        let node = pod.node.as_deref().unwrap_or_default();
        let how = pod.shared.as_deref().or_else(|| {
            if pod.slice_profile.is_some() || read_alone.contains(&pod.pod) {
                None
            } else {
                nodes.get(node).copied().or_else(|| shared_nodes.get(node).map(String::as_str))
            }
        });
        if let Some(how) = how {
            out.entry(pod.pod.clone()).or_insert_with(|| how.to_owned());
        }
    }
    out
}

enum Shared {
    How(String),
    ZeroPerProcess,
}

/// The Kubernetes node of a card: what the exporter says if such a node exists, else where its pods ran.
fn node<'a>(
    readings: &[&'a CardReading],
    facts: &'a DayFacts,
    pods: &BTreeMap<&PodName, &'a PodDay>,
    shared_nodes: &BTreeMap<String, String>,
) -> Option<&'a str> {
    let known = |host: &&str| facts.node_gpus.contains_key(*host) || shared_nodes.contains_key(*host);
    let hosts = readings.iter().filter_map(|reading| reading.host.as_deref());
    hosts.clone().find(known).or_else(|| {
        let mut found =
            readings.iter().filter_map(|reading| pods.get(reading.pod.as_ref()?)?.node.as_deref());
        found.next().or_else(|| hosts.clone().next())
    })
}

fn card_is_shared(
    readings: &[&CardReading],
    node: Option<&str>,
    n_cards: usize,
    facts: &DayFacts,
    pods: &BTreeMap<&PodName, &PodDay>,
    shared_nodes: &BTreeMap<String, String>,
) -> Option<Shared> {
    if readings.iter().any(|reading| reading.slice.is_some()) {
        return None;
    }
    if readings.iter().any(|reading| reading.vgpu) {
        let per_pod_zero = readings
            .iter()
            .filter(|reading| reading.pod.is_some())
            .all(|reading| reading.peak.is_none_or(|peak| peak.0 == 0));
        let device_used = readings
            .iter()
            .any(|reading| reading.pod.is_none() && reading.peak.is_some_and(|peak| peak.0 > 64));
        if per_pod_zero && device_used {
            return Some(Shared::ZeroPerProcess);
        }
        return Some(Shared::How("time-slicing".to_owned()));
    }
    let offered = node.and_then(|node| facts.node_gpus.get(node)).copied();
    match (offered, node.and_then(|node| shared_nodes.get(node))) {
        (Some(offered), _) if offered > n_cards as u64 && n_cards > 0 => {
            return Some(Shared::How(format!(
                "{} offered on {}",
                counted(usize::try_from(offered).unwrap_or(usize::MAX), "GPU"),
                counted(n_cards, "card")
            )));
        }
        // Labels are those of today; that day's own count is better evidence of that day.
        (Some(_), how) if how.is_none_or(|how| !how.starts_with("MIG")) => {}
        (_, Some(how)) => return Some(Shared::How(how.clone())),
        (_, None) => {}
    }
    let held: BTreeMap<&PodName, u64> = readings.iter().fold(BTreeMap::new(), |mut held, reading| {
        if let Some(pod) = &reading.pod {
            *held.entry(pod).or_default() += reading.samples;
        }
        held
    });
    if readings.iter().any(|reading| reading.pod.as_ref().is_some_and(is_reservation_pod)) {
        return Some(Shared::How("another scheduler's reservation".to_owned()));
    }
    if held.len() > 1 {
        let possible = facts.seconds / facts.interval_seconds.max(1) + 1;
        let samples: u64 = held.values().sum();
        let ran: u64 =
            held.keys().map(|pod| pods.get(*pod).and_then(|pod| pod.running_seconds).unwrap_or(0)).sum();
        let handovers = HANDOVER_SECONDS * (held.len() as u64 - 1);
        if samples * 100 > possible * 105 || ran > facts.seconds + facts.seconds / 50 + handovers {
            return Some(Shared::How("several pods on one card".to_owned()));
        }
    }
    None
}
