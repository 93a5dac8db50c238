//! What has to differ in the cluster for an assignment to come true.

use std::collections::{BTreeMap, BTreeSet};

use super::super::place::Placement;
use super::super::{Change, Request, Weighed};
use super::config::{Configs, names_in_use};
use super::land::{Land, slice_of};
use super::{MIG_LABEL, Mig};
use crate::catalog::{GpuModel, MigProfile};
use crate::inventory::Node;

pub(super) fn changes(
    mig: &Mig<'_, '_>,
    land: &Land<'_>,
    found: &Placement,
    configs: &Configs,
) -> Vec<Change> {
    let request = mig.request;
    let mut changes: Vec<Change> = configs
        .own
        .iter()
        .map(|(name, entries)| Change::SetMigConfig {
            name: name.clone(),
            entries: entries.clone(),
            names_in_use: names_in_use(request),
        })
        .collect();
    let mut by_name: BTreeMap<&str, BTreeMap<String, Option<String>>> = BTreeMap::new();
    for (node, name) in &configs.by_node {
        let node = land.nodes[*node];
        let previous = label_today(request, node, MIG_LABEL);
        by_name.entry(name).or_default().insert(node.name.clone(), previous);
    }
    changes.extend(by_name.into_iter().map(|(name, nodes)| Change::LabelNodes {
        key: MIG_LABEL.to_owned(),
        value: name.to_owned(),
        nodes,
    }));
    changes.extend(resources(mig, mig.weighed, &found.converted));
    changes
}

/// The pod templates that ask for a slice then.
pub(super) fn resources(
    mig: &Mig<'_, '_>,
    weighed: &[Weighed<'_>],
    converted: &BTreeSet<usize>,
) -> Vec<Change> {
    let names: BTreeSet<&str> = mig.request.inventory.nodes.iter().flat_map(Node::model_names).collect();
    let models: Vec<&GpuModel> =
        names.into_iter().filter_map(|name| mig.request.catalog.find_by_product(name)).collect();
    converted
        .iter()
        .filter_map(|i| {
            let w = &weighed[*i];
            let profile = mig.chain[slice_of(w)?];
            Some(Change::SetWorkloadResource {
                workload: w.workload.id.clone(),
                from: w.workload.resource.clone(),
                to: profile.name.resource(),
                count: w.workload.gpus_per_pod,
                pin: pin(mig, w, profile, &models),
            })
        })
        .collect()
}

/// A selector on the product, where another model of the cluster offers a slice of the same name but other size.
fn pin(
    mig: &Mig<'_, '_>,
    weighed: &Weighed<'_>,
    profile: &MigProfile,
    models: &[&GpuModel],
) -> BTreeMap<String, String> {
    let own = mig.request.catalog.find_by_product(&mig.model_name);
    let mut others = models.iter().filter(|model| own.is_none_or(|own| own.id != model.id));
    let ambiguous = others.any(|model| model.profile(profile.name).is_some());
    let label = "nvidia.com/gpu.product";
    let selected = mig
        .request
        .declared
        .of(&weighed.workload.id)
        .is_some_and(|declared| declared.node_selector.contains_key(label));
    match own.and_then(|model| model.product(&mig.model_name)) {
        Some(product) if ambiguous && !selected => {
            BTreeMap::from([(label.to_owned(), product.gfd_label.clone())])
        }
        _ => BTreeMap::new(),
    }
}

/// A label as the node carries it, else as the repository declares it.
pub(in crate::plan) fn label_today(request: &Request<'_>, node: &Node, key: &str) -> Option<String> {
    let declared = || request.declared.node_labels.get(&node.name)?.labels.get(key).cloned();
    node.label(key).map(str::to_owned).or_else(declared)
}
