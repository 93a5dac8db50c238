//! Whether the configs that nodes are labelled with cut their cards as the plan says.

use std::collections::BTreeMap;

use super::super::mig::MIG_LABEL;
use super::super::{CardUse, Change, MigEntry, NodeFate, NodeOutcome, Plan};
use crate::catalog::operator_config::operator_config;
use crate::catalog::{GpuModel, ProfileName};

/// Slices of one card by profile; empty: MIG off.
pub(super) type Layout = BTreeMap<String, u32>;

/// Every node that is cut carries a label, and the config behind it is what the plan shows.
pub(super) fn configs(model: &GpuModel, plan: &Plan, broken: &mut Vec<String>) {
    let mut own: BTreeMap<&str, &[MigEntry]> = BTreeMap::new();
    let mut labels: BTreeMap<&str, &str> = BTreeMap::new();
    for change in &plan.changes {
        match change {
            Change::SetMigConfig { name, entries, .. } => {
                own.insert(name, entries);
            }
            Change::LabelNodes { key, value, nodes } if key == MIG_LABEL => {
                labels.extend(nodes.keys().map(|node| (node.as_str(), value.as_str())));
            }
            Change::LabelNodes { .. }
            | Change::LabelGroup { .. }
            | Change::AddNodePool { .. }
            | Change::SetPluginConfig { .. }
            | Change::PinWorkload { .. }
            | Change::SetWorkloadResource { .. } => {}
        }
    }
    for node in &plan.nodes {
        let label = labels.get(node.name.as_str()).copied();
        match (node.fate, label) {
            (NodeFate::Touched, None) => {
                broken.push(format!("{} is to be cut, and no label says how", node.name));
            }
            (NodeFate::Touched, Some(label)) => {
                let cut = cut_by(model, &own, label, node.after.len());
                if cut != Some(cards(node)) {
                    broken.push(format!("`{label}` does not cut {} as the plan shows", node.name));
                }
            }
            (NodeFate::Freed | NodeFate::Untouched, Some(_)) => {
                broken.push(format!("{} is labelled and is not to be cut", node.name));
            }
            (NodeFate::Freed | NodeFate::Untouched, None) => {}
        }
    }
}

/// What the plan shows for each card, in any order: the cards of a node are equal.
fn cards(node: &NodeOutcome) -> Vec<Layout> {
    let mut cards: Vec<Layout> = node
        .after
        .iter()
        .map(|card| {
            let mut layout = Layout::new();
            if let CardUse::Slices { slices } = card {
                for slice in slices {
                    *layout.entry(slice.profile.clone()).or_default() += 1;
                }
            }
            layout
        })
        .collect();
    cards.sort();
    cards
}

/// What the config does to a node of so many cards. `None`: it leaves a card as it is, or cuts one twice.
pub(in crate::plan) fn cut_by(
    model: &GpuModel,
    own: &BTreeMap<&str, &[MigEntry]>,
    config: &str,
    n_cards: usize,
) -> Option<Vec<Layout>> {
    let Some(entries) = own.get(config) else {
        if config == "all-disabled" {
            return Some(vec![Layout::new(); n_cards]);
        }
        let profile = ProfileName::from_config_name(config)?;
        let count = operator_config(model, profile)?.count;
        return Some(vec![Layout::from([(profile.to_string(), u32::from(count))]); n_cards]);
    };
    let mut cut: Vec<Option<Layout>> = vec![None; n_cards];
    for entry in *entries {
        let all: Vec<u32> = (0..u32::try_from(n_cards).ok()?).collect();
        for card in if entry.cards.is_empty() { &all } else { &entry.cards } {
            let known = cut.get_mut(usize::try_from(*card).ok()?)?;
            if known.replace(entry.instances.clone()).is_some() {
                return None;
            }
        }
    }
    let mut cut: Vec<Layout> = cut.into_iter().collect::<Option<_>>()?;
    cut.sort();
    Some(cut)
}
