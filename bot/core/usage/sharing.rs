//! Whose a day's reading of a card or of a MIG slice is: one pod's alone, or nobody's because it was shared.

use std::collections::{BTreeMap, BTreeSet};

use super::fold::{CardReading, DayFacts, NodeToday, PodDay, PodName};
use crate::inventory::{UNKNOWN_PROFILE, slice_profile};
use crate::units::counted;

/// How a card was handed to the pod that a reading names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Handed {
    /// The whole card, alone: the reading is the pod's.
    Alone,
    /// A MIG slice of this profile: the reading is the pod's.
    Slice(String),
    /// A MIG slice of this profile, but the reading is of its whole card: it is nobody's.
    CardOfSlice(String),
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
    nodes_today: &BTreeMap<String, NodeToday>,
) -> Vec<Handed> {
    let mut by_card: BTreeMap<&str, Vec<&CardReading>> = BTreeMap::new();
    for reading in &facts.cards {
        by_card.entry(&reading.card).or_default().push(reading);
    }
    let mut cards_of: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut node_of: BTreeMap<&str, &str> = BTreeMap::new();
    for (card, readings) in &by_card {
        if let Some(node) = node(readings, facts, pods, nodes_today) {
            cards_of.entry(node).or_default().insert(card);
            node_of.insert(card, node);
        }
    }
    let judged: BTreeMap<&str, CardDay> = by_card
        .iter()
        .map(|(card, readings)| {
            let node = node_of.get(card).copied();
            let n_cards = node.and_then(|node| cards_of.get(node)).map_or(0, BTreeSet::len);
            (*card, judge(readings, node, n_cards, facts, pods, nodes_today))
        })
        .collect();
    facts
        .cards
        .iter()
        .map(|reading| {
            let pod = reading.pod.as_ref().and_then(|pod| pods.get(pod));
            if let Some(how) = pod.and_then(|pod| pod.shared.as_ref()) {
                return Handed::Shared(how.clone());
            }
            let asked = pod.and_then(|pod| pod.slice_profile.as_deref());
            let card = judged.get(reading.card.as_str());
            if let Some(slice) = &reading.slice {
                return match card.and_then(|card| card.shared_slices.get(&slice.id)) {
                    Some(how) => Handed::Shared(how.clone()),
                    None => Handed::Slice(slice_profile(&slice.profile, asked)),
                };
            }
            if let Some(asked) = asked {
                return Handed::CardOfSlice(asked.to_owned());
            }
            match card.map(|card| &card.whole) {
                Some(Whole::ZeroPerProcess) => Handed::Unusable,
                Some(Whole::Shared(how)) => Handed::Shared(how.clone()),
                Some(Whole::Cut(profile)) => Handed::CardOfSlice(profile.clone()),
                Some(Whole::Alone) | None => Handed::Alone,
            }
        })
        .collect()
}

/// Pods that were on a shared card or node that day, or on a slice that was not read: also those that got no sample
/// because of it.
pub(super) fn not_alone(
    facts: &DayFacts,
    pods: &BTreeMap<&PodName, &PodDay>,
    handed: &[Handed],
    nodes_today: &BTreeMap<String, NodeToday>,
) -> BTreeMap<PodName, NotAlone> {
    let mut out = BTreeMap::new();
    let mut read_alone: BTreeSet<&PodName> = BTreeSet::new();
    let mut nodes: BTreeMap<&str, NotAlone> = BTreeMap::new();
    for (reading, handed) in facts.cards.iter().zip(handed) {
        let Some(pod) = &reading.pod else { continue };
        match handed {
            Handed::Shared(how) => {
                let how = NotAlone::Shared(how.clone());
                out.insert(pod.clone(), how.clone());
                // What one slice is handed out as says nothing of the node's other cards.
                if let (None, Some(node)) =
                    (&reading.slice, pods.get(pod).and_then(|pod| pod.node.as_deref()))
                {
                    nodes.insert(node, how);
                }
            }
            Handed::Unusable => {
                out.insert(pod.clone(), NotAlone::Shared("time-slicing".to_owned()));
            }
            Handed::CardOfSlice(profile) => {
                if pods.get(pod).is_none_or(|pod| pod.slice_profile.is_none()) {
                    out.insert(pod.clone(), NotAlone::UnreadSlice(profile.clone()));
                }
            }
            Handed::Alone | Handed::Slice(_) => {
                read_alone.insert(pod);
            }
        }
    }
    // Its own slice was read as well: the card beside it does no harm.
    out.retain(|pod, how| !(matches!(how, NotAlone::UnreadSlice(_)) && read_alone.contains(pod)));
    for pod in &facts.pods {
        let node = pod.node.as_deref().unwrap_or_default();
        let how = pod.shared.clone().map(NotAlone::Shared).or_else(|| {
            if pod.slice_profile.is_some() || read_alone.contains(&pod.pod) {
                return None;
            }
            nodes.get(node).cloned().or_else(|| match nodes_today.get(node)? {
                NodeToday::SharedCards(how) => Some(NotAlone::Shared(how.clone())),
                NodeToday::UnreadSlices(profile) => Some(NotAlone::UnreadSlice(profile.clone())),
                NodeToday::SharedSlices => None,
            })
        });
        if let Some(how) = how {
            out.entry(pod.pod.clone()).or_insert(how);
        }
    }
    out
}

/// What a pod held that was not a whole card alone and not a slice of its own that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotAlone {
    /// A shared card or slice, and how.
    Shared(String),
    /// A slice of this profile under the name of a whole GPU, of which there is no reading.
    UnreadSlice(String),
}

/// What a card was on one day.
struct CardDay {
    /// Whose a reading of the whole card is.
    whole: Whole,
    /// Slices that several pods were on, by id, and how.
    shared_slices: BTreeMap<String, String>,
}

enum Whole {
    Alone,
    Shared(String),
    ZeroPerProcess,
    /// Cut into MIG slices, of this profile as far as it is known.
    Cut(String),
}

/// The Kubernetes node of a card: what the exporter says if such a node exists, else where its pods ran.
fn node<'a>(
    readings: &[&'a CardReading],
    facts: &'a DayFacts,
    pods: &BTreeMap<&PodName, &'a PodDay>,
    nodes_today: &BTreeMap<String, NodeToday>,
) -> Option<&'a str> {
    let known = |host: &&str| facts.node_gpus.contains_key(*host) || nodes_today.contains_key(*host);
    let hosts = readings.iter().filter_map(|reading| reading.host.as_deref());
    hosts.clone().find(known).or_else(|| {
        let mut found =
            readings.iter().filter_map(|reading| pods.get(reading.pod.as_ref()?)?.node.as_deref());
        found.next().or_else(|| hosts.clone().next())
    })
}

fn judge(
    readings: &[&CardReading],
    node: Option<&str>,
    n_cards: usize,
    facts: &DayFacts,
    pods: &BTreeMap<&PodName, &PodDay>,
    nodes_today: &BTreeMap<String, NodeToday>,
) -> CardDay {
    let mut by_slice: BTreeMap<&str, Vec<&CardReading>> = BTreeMap::new();
    let mut of_card: Vec<&CardReading> = Vec::new();
    for reading in readings {
        match &reading.slice {
            Some(slice) => by_slice.entry(&slice.id).or_default().push(reading),
            None => of_card.push(reading),
        }
    }
    let today = node.and_then(|node| nodes_today.get(node));
    if by_slice.is_empty() {
        let offered = node.and_then(|node| facts.node_gpus.get(node)).copied();
        let whole = shared_whole(&of_card, offered, n_cards, facts, pods, today);
        return CardDay { whole, shared_slices: BTreeMap::new() };
    }
    let mut shared_slices = BTreeMap::new();
    for (id, readings) in &by_slice {
        let how = if matches!(today, Some(NodeToday::SharedSlices)) || readings.iter().any(|r| r.vgpu) {
            Some("time-slicing of its MIG slice")
        } else {
            several_pods(readings, facts, pods).then_some("several pods on one MIG slice")
        };
        shared_slices.extend(how.map(|how| ((*id).to_owned(), how.to_owned())));
    }
    // A card that was cut in the course of the day has readings of both kinds, one after the other. Where they overlap,
    // the exporter shows the parent beside its instances (`-d g+i`), and no pod holds a parent.
    let samples = |readings: &[&CardReading]| readings.iter().map(|reading| reading.samples).sum::<u64>();
    let held: Vec<&CardReading> = of_card.iter().copied().filter(|reading| reading.pod.is_some()).collect();
    let slices = by_slice.values().map(|readings| samples(readings)).max().unwrap_or(0);
    let whole = if more_than_possible(samples(&held) + slices, facts) {
        Whole::Cut(UNKNOWN_PROFILE.to_owned())
    } else if of_card.iter().any(|reading| reading.vgpu) {
        Whole::Shared("time-slicing".to_owned())
    } else if several_pods(&of_card, facts, pods) {
        Whole::Shared("several pods on one card".to_owned())
    } else {
        Whole::Alone
    };
    CardDay { whole, shared_slices }
}

/// Whose the readings of a card without instances are.
fn shared_whole(
    readings: &[&CardReading],
    offered: Option<u64>,
    n_cards: usize,
    facts: &DayFacts,
    pods: &BTreeMap<&PodName, &PodDay>,
    today: Option<&NodeToday>,
) -> Whole {
    if readings.iter().any(|reading| reading.vgpu) {
        let per_pod_zero = readings
            .iter()
            .filter(|reading| reading.pod.is_some())
            .all(|reading| reading.peak.is_none_or(|peak| peak.0 == 0));
        let device_used = readings
            .iter()
            .any(|reading| reading.pod.is_none() && reading.peak.is_some_and(|peak| peak.0 > 64));
        if per_pod_zero && device_used {
            return Whole::ZeroPerProcess;
        }
        return Whole::Shared("time-slicing".to_owned());
    }
    match (offered, today) {
        // Instances that the exporter does not show today were not shown earlier either.
        (_, Some(NodeToday::UnreadSlices(profile))) => return Whole::Cut(profile.clone()),
        (Some(offered), _) if offered > n_cards as u64 && n_cards > 0 => {
            return Whole::Shared(format!(
                "{} offered on {}",
                counted(usize::try_from(offered).unwrap_or(usize::MAX), "GPU"),
                counted(n_cards, "card")
            ));
        }
        // Labels are those of today; that day's own count is better evidence of that day.
        (None, Some(NodeToday::SharedCards(how))) => return Whole::Shared(how.clone()),
        (Some(_), _) | (None, Some(NodeToday::SharedSlices) | None) => {}
    }
    if readings.iter().any(|reading| reading.pod.as_ref().is_some_and(is_reservation_pod)) {
        return Whole::Shared("another scheduler's reservation".to_owned());
    }
    if several_pods(readings, facts, pods) {
        return Whole::Shared("several pods on one card".to_owned());
    }
    Whole::Alone
}

/// Several pods held one card or slice at the same time, and not one after the other.
fn several_pods(readings: &[&CardReading], facts: &DayFacts, pods: &BTreeMap<&PodName, &PodDay>) -> bool {
    let held: BTreeMap<&PodName, u64> = readings.iter().fold(BTreeMap::new(), |mut held, reading| {
        if let Some(pod) = &reading.pod {
            *held.entry(pod).or_default() += reading.samples;
        }
        held
    });
    if held.len() < 2 {
        return false;
    }
    let ran: u64 =
        held.keys().map(|pod| pods.get(*pod).and_then(|pod| pod.running_seconds).unwrap_or(0)).sum();
    let handovers = HANDOVER_SECONDS * (held.len() as u64 - 1);
    more_than_possible(held.values().sum(), facts) || ran > facts.seconds + facts.seconds / 50 + handovers
}

/// More samples than one series can have that day.
fn more_than_possible(samples: u64, facts: &DayFacts) -> bool {
    let possible = facts.seconds / facts.interval_seconds.max(1) + 1;
    samples * 100 > possible * 105
}
