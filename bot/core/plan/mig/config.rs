//! Which config name each touched node gets: the operator's own, or one of ours with what is behind it.

use std::collections::{BTreeMap, BTreeSet};

use super::super::place::{Card, Placement};
use super::super::{MigEntry, Request, ground};
use super::{MIG_LABEL, Mig};
use crate::catalog::operator_config::for_product;
use crate::ids::{short_hash, slug};
use crate::pack::Fate;
use crate::pack::geometry::Geometry;

/// Which config name each touched node gets, and what is behind names that the operator does not bring.
pub(super) struct Configs {
    /// Name by node index.
    pub(super) by_node: BTreeMap<usize, String>,
    /// Entries by name, for names of our own.
    pub(super) own: BTreeMap<String, Vec<MigEntry>>,
}

impl Configs {
    pub(super) fn new(mig: &Mig<'_, '_>, found: &Placement) -> Self {
        let mut configs = Self { by_node: BTreeMap::new(), own: BTreeMap::new() };
        for node in found.with_fate(Fate::Touched) {
            let entries = entries(&found.cards[node], &mig.geometry);
            let name = ready_made(mig, &entries).unwrap_or_else(|| {
                let text: String =
                    entries.iter().map(|e| format!("{:?}{:?};", e.cards, e.instances)).collect();
                let name = own_name(mig.request, &text);
                configs.own.insert(name.clone(), entries.clone());
                name
            });
            configs.by_node.insert(node, name);
        }
        configs
    }
}

/// Card indices by what they are cut into. The node is drained, and its cards are equal: any index will do.
fn entries(cards: &[Card], geometry: &Geometry) -> Vec<MigEntry> {
    let mut by_layout: BTreeMap<BTreeMap<String, u32>, Vec<u32>> = BTreeMap::new();
    for (index, card) in cards.iter().enumerate() {
        let mut instances = BTreeMap::new();
        if let Card::Cut(slots) = card {
            for slot in slots {
                *instances.entry(geometry.types[slot.kind].name.clone()).or_default() += 1;
            }
        }
        by_layout.entry(instances).or_default().push(u32::try_from(index).unwrap_or(u32::MAX));
    }
    let whole_node = by_layout.len() == 1;
    let mut entries: Vec<MigEntry> = by_layout
        .into_iter()
        .map(|(instances, cards)| MigEntry { cards: if whole_node { Vec::new() } else { cards }, instances })
        .collect();
    entries.sort_by(|a, b| a.cards.cmp(&b.cards));
    entries
}

/// The operator's own name for "every card cut into this profile", when that is what is wanted and it is there.
pub(super) fn ready_made(mig: &Mig<'_, '_>, entries: &[MigEntry]) -> Option<String> {
    let [MigEntry { cards, instances }] = entries else { return None };
    if instances.is_empty() {
        return Some("all-disabled".to_owned());
    }
    let (profile, count) = instances.iter().next().filter(|_| cards.is_empty() && instances.len() == 1)?;
    let product = mig.model.product(&mig.model_name)?;
    let config = for_product(mig.model, product, profile.parse().ok()?)?;
    let operator = &mig.request.declared.operator;
    let generated = operator.mig_config_map.is_none()
        && operator.version.as_deref().is_some_and(|version| ground::numbers(version) >= vec![26, 3]);
    // A custom map replaces the operator's own configs on every node, and its entries of that name may be anything.
    let known = operator.mig_config_map.is_none() && (config.in_static_file || generated);
    (u32::from(config.count) == *count && known).then_some(config.name)
}

/// Every value of the MIG label in the cluster: a custom config map must hold them all.
pub(super) fn names_in_use(request: &Request<'_>) -> Vec<String> {
    let names: BTreeSet<String> = request
        .inventory
        .nodes
        .iter()
        .filter_map(|node| node.label(MIG_LABEL).map(str::to_owned))
        .chain(
            request
                .declared
                .node_labels
                .values()
                .filter_map(|carrier| carrier.labels.get(MIG_LABEL).cloned()),
        )
        .chain(std::iter::once("all-disabled".to_owned()))
        .collect();
    names.into_iter().collect()
}

/// A config name of our own: the pool's, cut so that it is a label value, and the content's hash.
pub(super) fn own_name(request: &Request<'_>, content: &str) -> String {
    let mut pool = slug(&request.pool.id.pool);
    pool.truncate(40);
    format!("{}-{}", pool.trim_end_matches('-'), short_hash(content, 8))
}
