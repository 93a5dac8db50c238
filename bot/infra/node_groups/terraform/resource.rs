//! The resources that declare node groups, a row each.

use std::collections::BTreeSet;

use hcl_edit::expr::Expression;
use hcl_edit::structure::{Block, Body};
use slicewright_core::plan::node_group::NodeGroupKind;

use super::group::{Copy, Group, Name, many, name_of, title, unknown};
use crate::infra::hcl::{Holder, line, slice, span};

/// One kind of block that declares a group: which resource, where its name and its labels stand.
struct Row {
    resource: &'static str,
    kind: NodeGroupKind,
    name: &'static str,
    /// The block inside that holds name and labels, or the labels alone.
    inside: Inside,
    labels: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    /// Name and labels stand in the resource.
    Resource,
    /// Only the labels stand in this block.
    Labels(&'static str),
    /// Name and labels stand in this block.
    Both(&'static str),
}

const ROWS: &[Row] = &[
    Row {
        resource: "aws_eks_node_group",
        kind: NodeGroupKind::Eks,
        name: "node_group_name",
        inside: Inside::Resource,
        labels: "labels",
    },
    Row {
        resource: "azurerm_kubernetes_cluster_node_pool",
        kind: NodeGroupKind::Aks,
        name: "name",
        inside: Inside::Resource,
        labels: "node_labels",
    },
    Row {
        resource: "azurerm_kubernetes_cluster",
        kind: NodeGroupKind::Aks,
        name: "name",
        inside: Inside::Both("default_node_pool"),
        labels: "node_labels",
    },
    Row {
        resource: "google_container_node_pool",
        kind: NodeGroupKind::Gke,
        name: "name",
        inside: Inside::Labels("node_config"),
        labels: "labels",
    },
];

/// The group that a resource declares, if it is one of a row.
pub(super) fn declared<'b>(text: &str, block: &'b Block, kind: NodeGroupKind) -> Option<Group<'b>> {
    let resource = block.labels.first()?.as_str();
    let row = ROWS.iter().find(|row| row.resource == resource && row.kind == kind)?;
    let whole = Holder::block(block);
    let inner = |name: &str| {
        let mut blocks = block.body.blocks().filter(|inner| inner.ident.as_str() == name);
        match (blocks.next(), blocks.next()) {
            (Some(one), None) => Ok(Holder::block(one)),
            (None, _) => Err(format!("it has no block `{name}` that could hold labels")),
            (Some(_), Some(_)) => Err(format!("it has several blocks `{name}`")),
        }
    };
    let (named, holder) = match row.inside {
        Inside::Resource => (Some(whole), Ok(whole)),
        Inside::Labels(name) => (Some(whole), inner(name)),
        Inside::Both(name) => (inner(name).ok(), inner(name)),
    };
    let prefix = format!("{}_prefix", row.name);
    let name = named.map_or_else(unknown, |named| match named.get(row.name) {
        Some(value) => name_of(text, value),
        None => match named.string(&prefix) {
            Some(prefix) => Name::Prefix(prefix.to_owned()),
            None => unknown(),
        },
    });
    // A second group beside one that is part of a cluster is a resource of its own.
    let (place, copy) = match (row.inside, &holder) {
        (Inside::Both(_), Ok(Holder::Body(_, start, end))) => (*start..*end, Copy::No),
        (Inside::Both(_), _) => (span(block), Copy::No),
        (Inside::Resource | Inside::Labels(_), _) => (span(block), Copy::Block(title(block, 1))),
    };
    Some(Group {
        name,
        holder,
        labels: row.labels.to_owned(),
        start: place.start,
        end: place.end,
        name_at: named.and_then(|named| named.get(row.name)).filter(|value| value.is_str()).map(span),
        copy,
        blocked: many(text, block).or_else(|| ignored(text, block, row)),
        from_zero: from_zero_in(text, block),
    })
}

/// `lifecycle { ignore_changes = […] }` on what would be edited.
fn ignored(text: &str, block: &Block, row: &Row) -> Option<(String, usize)> {
    let lifecycle = block.body.blocks().find(|inner| inner.ident.as_str() == "lifecycle")?;
    let ignored = lifecycle.body.get_attribute("ignore_changes")?;
    let names: BTreeSet<&str> = match row.inside {
        Inside::Resource => BTreeSet::from([row.labels]),
        Inside::Labels(inside) | Inside::Both(inside) => BTreeSet::from([inside]),
    };
    let hits = |value: &Expression| {
        let shown = value.as_str().unwrap_or_else(|| slice(text, value)).trim();
        let name = shown.split(['[', '.']).next().unwrap_or_default().trim();
        // A part of a block is told by its whole way.
        let other_part = match row.inside {
            Inside::Resource => false,
            Inside::Labels(_) | Inside::Both(_) => shown.contains('.') && !shown.contains(row.labels),
        };
        shown == "all" || (names.contains(name) && !other_part)
    };
    let hit = match &ignored.value {
        Expression::Array(array) => array.iter().any(hits),
        other => hits(other),
    };
    hit.then(|| {
        (
            "it ignores changes of its labels (`ignore_changes`), so that an edit would do nothing"
                .to_owned(),
            line(text, span(ignored).start),
        )
    })
}

/// The line of a smallest size of 0.
pub(super) fn from_zero_in(text: &str, block: &Block) -> Option<usize> {
    let least = ["min_size", "min_count", "min_node_count", "total_min_node_count"];
    let bodies = std::iter::once(&block.body).chain(
        block
            .body
            .blocks()
            .filter(|inner| {
                matches!(inner.ident.as_str(), "scaling_config" | "autoscaling" | "default_node_pool")
            })
            .map(|inner| &inner.body),
    );
    bodies.flat_map(Body::attributes).find_map(|attribute| {
        let zero = attribute.value.as_number().is_some_and(|number| number.as_u64() == Some(0));
        (least.contains(&attribute.key.as_str()) && zero).then(|| line(text, span(attribute).start))
    })
}
