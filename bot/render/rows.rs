//! The change table: object, field, before, after, why.
//!
//! Rows follow the plan's changes; which of them stand on the first screen is the question of `page`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use slicewright_core::fit::Verdict;
use slicewright_core::ids::WorkloadId;
use slicewright_core::plan::node_group::NodeGroup;
use slicewright_core::plan::node_pool::PoolCards;
use slicewright_core::plan::{CardUse, Change, Item, MigEntry, Plan};
use slicewright_core::units::Mib;

use super::escape::{cut, tick};

/// A row of the change table.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    /// The workload's number, by which commands name it; empty for what is no workload.
    pub(super) number: String,
    object: String,
    pub(super) field: String,
    pub(super) before: String,
    pub(super) after: String,
    pub(super) why: String,
}

/// The pool's settings first, since there are few of them, then workloads.
pub(super) fn rows(plan: &Plan) -> Vec<Row> {
    let mut settings = Vec::new();
    let mut workloads = Vec::new();
    let mut edited = BTreeSet::new();
    for change in &plan.changes {
        match change {
            Change::SetMigConfig { .. } | Change::SetPluginConfig { .. } => {
                settings.extend(config_row(change, plan))
            }
            Change::LabelNodes { key, value, nodes } => settings.extend(label_rows(key, value, nodes, plan)),
            Change::LabelGroup { key, value, previous, beside, group } => settings.push(Row {
                number: String::new(),
                object: group_words(group.as_ref(), *beside),
                field: format!("label {}", tick(key)),
                before: previous.as_deref().map_or_else(|| "not set".to_owned(), tick),
                after: tick(value),
                why: "its nodes come and go: the label belongs where the group is declared".into(),
            }),
            Change::AddNodePool { group, name, cards, keeps_old } => {
                let (after, does) = match cards {
                    PoolCards::Partition { profile, per_card } => {
                        (format!("{per_card} × {} on every card", tick(profile)), "cuts")
                    }
                    PoolCards::TimeSharing { clients } => {
                        (format!("{clients} pods in turns on every card"), "shares")
                    }
                };
                settings.push(Row {
                    number: String::new(),
                    object: group_words(Some(group), true),
                    field: tick(name),
                    before: "not there".into(),
                    after,
                    why: format!(
                        "how a pool {does} its cards is fixed when it is made; {}",
                        if *keeps_old {
                            "who keeps a whole card stays in the old one"
                        } else {
                            "the old one goes last"
                        }
                    ),
                });
            }
            // The workload's own row follows below: what it asks for stays as it is.
            Change::PinWorkload { workload, selector } => {
                workloads.extend(selector.iter().map(|(key, value)| Row {
                    number: number(plan, workload),
                    object: workload_words(workload),
                    field: format!("node selector {}", tick(key)),
                    before: "not set".into(),
                    after: tick(value),
                    why: "its pods run on the nodes of their group and nowhere else".into(),
                }));
            }
            Change::SetWorkloadResource { workload, from, to, count, pin } => {
                edited.insert(workload);
                workloads.extend(resource_rows(workload, [from, to], *count, pin, plan));
            }
        }
    }
    for item in plan.items.iter().filter(|item| !edited.contains(&item.fit.workload)) {
        workloads.push(Row {
            number: number(plan, &item.fit.workload),
            object: workload_words(&item.fit.workload),
            field: "share of a card".into(),
            before: "whole card".into(),
            after: item.share.clone(),
            why: needs_words(item),
        });
    }
    settings.extend(workloads);
    settings
}

fn config_row(change: &Change, plan: &Plan) -> Option<Row> {
    let none = || "not there".to_owned();
    match change {
        Change::SetMigConfig { name, entries, .. } => Some(Row {
            number: String::new(),
            object: "MIG layouts".into(),
            field: tick(name),
            before: none(),
            after: entries.iter().map(entry_words).collect::<Vec<_>>().join("; "),
            why: "no layout of the operator's own cuts the cards like this".into(),
        }),
        Change::SetPluginConfig { key, resource, replicas, .. } => Some(Row {
            number: String::new(),
            object: "device plugin config".into(),
            field: format!("{}, replicas of {}", tick(key), tick(resource)),
            before: none(),
            after: replicas.to_string(),
            why: peaks_words(key, *replicas, plan),
        }),
        Change::LabelNodes { .. }
        | Change::LabelGroup { .. }
        | Change::AddNodePool { .. }
        | Change::SetWorkloadResource { .. }
        | Change::PinWorkload { .. } => None,
    }
}

fn entry_words(entry: &MigEntry) -> String {
    let cards = match entry.cards[..] {
        [] => "all cards".to_owned(),
        [one] => format!("card {one}"),
        _ => format!("cards {}", entry.cards.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    };
    let cut: Vec<String> = entry.instances.iter().map(|(name, n)| format!("{n} × {}", tick(name))).collect();
    if cut.is_empty() { format!("{cards}: MIG off") } else { format!("{cards}: {}", cut.join(", ")) }
}

/// The node group that a label is set on.
fn group_words(group: Option<&NodeGroup>, beside: bool) -> String {
    let name = group.map(|group| match group.name.as_str() {
        "" => group.kind.name().to_owned(),
        name => format!("{} {}", group.kind.name(), tick(name)),
    });
    match (beside, name) {
        (true, Some(name)) => format!("a new node group beside {name}"),
        (true, None) => "a new node group beside this one".to_owned(),
        (false, Some(name)) => name,
        (false, None) => "the node group".to_owned(),
    }
}

/// One row a value that the label has today.
fn label_rows(key: &str, value: &str, nodes: &BTreeMap<String, Option<String>>, plan: &Plan) -> Vec<Row> {
    let mut by_today: BTreeMap<Option<&str>, Vec<&str>> = BTreeMap::new();
    for (node, today) in nodes {
        by_today.entry(today.as_deref()).or_default().push(node);
    }
    let row = |(today, nodes): (Option<&str>, Vec<&str>)| {
        let cards = plan.nodes.iter().find(|node| nodes.first() == Some(&node.name.as_str()));
        Row {
            number: String::new(),
            object: format!("{} {}", if nodes.len() == 1 { "node" } else { "nodes" }, some_of(&nodes, 3)),
            field: format!("label {}", tick(key)),
            before: today.map_or_else(|| "not set".to_owned(), tick),
            after: tick(value),
            why: cards.map_or_else(String::new, |node| cut(&cards_words(&node.after), 160)),
        }
    };
    by_today.into_iter().map(row).collect()
}

/// Cards that are used alike once, in the order of the first: `2 cards, each 3 × 2g.10gb: a, b, free; idle`.
fn cards_words(cards: &[CardUse]) -> String {
    let mut alike: Vec<(String, usize)> = Vec::new();
    for card in cards.iter().map(ToString::to_string) {
        match alike.iter_mut().find(|(known, _)| *known == card) {
            Some((_, n)) => *n += 1,
            None => alike.push((card, 1)),
        }
    }
    let words = |(card, n): &(String, usize)| match n {
        1 => card.clone(),
        n => format!("{n} cards, each {card}"),
    };
    alike.iter().map(words).collect::<Vec<_>>().join("; ")
}

fn resource_rows(
    workload: &WorkloadId,
    [from, to]: [&String; 2],
    count: u32,
    pin: &BTreeMap<String, String>,
    plan: &Plan,
) -> Vec<Row> {
    let item = plan.items.iter().find(|item| item.fit.workload == *workload);
    let mut rows = vec![Row {
        number: number(plan, workload),
        object: workload_words(workload),
        field: "requests and limits".into(),
        before: format!("{}: {count}", tick(from)),
        after: format!("{}: {count}", tick(to)),
        why: item.map_or_else(String::new, needs_words),
    }];
    rows.extend(pin.iter().map(|(key, value)| Row {
        number: number(plan, workload),
        object: workload_words(workload),
        field: format!("node selector {}", tick(key)),
        before: "not set".into(),
        after: tick(value),
        why: "the resource must mean this card model".into(),
    }));
    rows
}

/// Its place among the plan's workloads, from 1.
fn number(plan: &Plan, id: &WorkloadId) -> String {
    let place = plan.items.iter().position(|item| item.fit.workload == *id);
    place.map_or_else(String::new, |place| (place + 1).to_string())
}

pub(super) fn workload_words(id: &WorkloadId) -> String {
    format!("{} ({})", tick(&id.to_string()), id.kind)
}

fn needs_words(item: &Item) -> String {
    match &item.fit.needs {
        Some(needs) if shares_memory(item) => format!("peak {}, {}", needs.peak, gets_words(item)),
        Some(needs) => format!("peak {}, needs {}, {}", needs.peak, needs.memory, gets_words(item)),
        None => String::new(),
    }
}

/// Its memory is the card's: what counts are the peaks together, and the headroom is what the card keeps free.
pub(super) fn shares_memory(item: &Item) -> bool {
    match &item.fit.verdict {
        Verdict::Mig { .. } | Verdict::KeepSlice { .. } => false,
        Verdict::TimeSlicing
        | Verdict::Mps
        | Verdict::KeepWhole { .. }
        | Verdict::NotEnoughEvidence { .. }
        | Verdict::Excluded { .. } => true,
    }
}

/// What it gets; a time slice has no memory of its own.
pub(super) fn gets_words(item: &Item) -> String {
    if shares_memory(item) {
        return format!("shares {} with others", item.share_memory);
    }
    format!("gets {}", item.share_memory)
}

/// Why so many replicas: the largest peaks that may meet on one card.
fn peaks_words(key: &str, replicas: u32, plan: &Plan) -> String {
    let mut peaks: Vec<Mib> = plan
        .items
        .iter()
        .filter(|item| may_be_under(key, item, plan))
        .filter_map(|item| Some((item.fit.needs.as_ref()?.peak, item.replicas as usize)))
        .flat_map(|(peak, n)| std::iter::repeat_n(peak, n))
        .collect();
    peaks.sort_unstable();
    let largest: Vec<Mib> = peaks.into_iter().rev().take(replicas as usize).collect();
    let usable = plan.items.iter().map(|item| item.share_memory).min().unwrap_or_default();
    let n = largest.len();
    let sum: Mib = largest.into_iter().sum();
    format!("the {n} largest peaks of the pods are {sum} together, of {usable} that may be filled")
}

/// Its pods are bound to the key, or to no key at all.
fn may_be_under(key: &str, item: &Item, plan: &Plan) -> bool {
    plan.changes.iter().all(|change| match change {
        Change::PinWorkload { workload, selector } if *workload == item.fit.workload => {
            selector.get("nvidia.com/device-plugin.config").is_none_or(|bound| bound == key)
        }
        Change::PinWorkload { .. }
        | Change::SetMigConfig { .. }
        | Change::SetPluginConfig { .. }
        | Change::LabelNodes { .. }
        | Change::LabelGroup { .. }
        | Change::AddNodePool { .. }
        | Change::SetWorkloadResource { .. } => true,
    })
}

/// The first few names, and how many more there are.
pub(super) fn some_of(names: &[&str], shown: usize) -> String {
    let shown = if names.len() == shown + 1 { shown + 1 } else { shown };
    let list: Vec<String> = names.iter().take(shown).map(|name| tick(name)).collect();
    match names.len().saturating_sub(shown) {
        0 => list.join(", "),
        more => format!("{} and {more} more", list.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_that_are_used_alike_are_counted() {
        let whole = || CardUse::Whole { workload: WorkloadId::new("Deployment", "chat", "sdxl") };
        let cards = [whole(), CardUse::Idle, whole(), whole()];
        assert_eq!(cards_words(&cards), "3 cards, each whole: chat/sdxl; idle");
    }
}
