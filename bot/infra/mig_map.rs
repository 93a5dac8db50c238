//! Layouts in the MIG manager's config map: merged into the one that there is, or into a new one.

use slicewright_core::plan::MigEntry;
use slicewright_yaml::{Document, Edit, Op, Shared, Step, Value};

use super::ManualChange;
use super::config_map;
use super::draft::Draft;
use super::format::Edition;
use super::gpu_operator::{
    MIG_KEY, MIG_LABEL, OPERATORS_MAP, Target, assume, fill_map, home, mig_map_name, refer, reference,
    target, write_map,
};
use super::own_layouts::{Entry, own_layout};
use super::text::one_line;
use super::walk;

/// Makes one layout part of the map, and with it every name in use that a map of its own must spell out.
pub(super) fn set_mig(
    edition: &Edition<'_>,
    draft: &mut Draft<'_>,
    name: &str,
    entries: &[MigEntry],
    names_in_use: &[String],
) -> Result<(), ManualChange> {
    let repository = edition.repository;
    let operator = &edition.declared.operator;
    let home = home(repository, operator);
    let (map_name, referenced) = mig_map_name(operator);
    let mut due: Vec<Layout> =
        own_layout("all-disabled").map(|layout| ("all-disabled".to_owned(), layout)).into_iter().collect();
    let mut unknown = Vec::new();
    // Nodes that were down while the metrics were taken have their labels in manifests all the same.
    let in_manifests = edition.declared.node_labels.values().filter_map(|node| node.labels.get(MIG_LABEL));
    for used in names_in_use.iter().chain(in_manifests).filter(|used| !used.is_empty()) {
        match own_layout(used) {
            _ if used == name || due.iter().any(|(known, _)| known == used) => {}
            Some(layout) => due.push((used.clone(), layout)),
            None if unknown.contains(used) => {}
            None => unknown.push(used.clone()),
        }
    }
    due.push((name.to_owned(), planned(entries)));
    let whole = |names: &[Layout]| -> String {
        new_mig_map(&map_name, &home)
            .and_then(|frame| merge_mig(&frame, 0, &[], names))
            .unwrap_or_else(|why| one_line(&why))
    };
    let manual = |why: String| ManualChange {
        what: format!("Add the layout `{name}` to the MIG config map `{map_name}` of namespace `{home}`"),
        why,
        text: if referenced {
            whole(&due)
        } else {
            format!("{}---\n{}", whole(&due), reference(&[("migManager.config.name", &map_name)]))
        },
    };
    let target =
        target(edition, draft, &map_name, &home, referenced, "mig-config-map.yaml").map_err(&manual)?;
    let known = target.map.inner_keys_of(&target.text, MIG_KEY, "mig-configs").map_err(&manual)?;
    unknown.retain(|used| !known.contains(used));
    if !unknown.is_empty() {
        return Err(manual(format!(
            "the map replaces the operator's own one for every node, and it must hold {} too, which node labels use: \
             what they stand for depends on the card",
            unknown.iter().map(|name| format!("`{}`", one_line(name))).collect::<Vec<_>>().join(", ")
        )));
    }
    if known.contains(name) && !same_mig(&target, name, entries) {
        return Err(manual(format!("`{name}` is there already with another content")));
    }
    let missing: Vec<_> = due.iter().filter(|(used, _)| !known.contains(used)).cloned().collect();
    let text = merge_mig(&target.text, target.map.document, &target.map.prefix, &missing).map_err(&manual)?;
    write_map(edition, draft, &target, text, &home, &map_name).map_err(&manual)?;
    assume(edition, draft, &target, "migManager.config.name", referenced);
    if !referenced {
        if edition.declared.operator.mig_config_map.as_deref() == Some(OPERATORS_MAP) {
            draft.side_effect(format!(
                "The operator refers to its own map `{OPERATORS_MAP}` by name and reverts edits to it; the reference now \
                 names `{map_name}`."
            ));
        }
        let effect = format!(
            "The operator now reads its MIG layouts from `{map_name}` for every node of the cluster: the MIG manager \
             restarts on all of them, nodes whose cards match their label are left as they are, and layouts that the \
             operator generates by itself are switched off."
        );
        refer(edition, draft, &[("migManager.config.name", &map_name)], &effect);
    }
    Ok(())
}

fn new_mig_map(name: &str, home: &str) -> Result<String, String> {
    fill_map("mig-config-map.yaml", name, home)
}

/// Adds layouts to the YAML inside the map.
fn merge_mig(text: &str, document: usize, prefix: &[Step], layouts: &[Layout]) -> Result<String, String> {
    let puts: Vec<Edit> = layouts
        .iter()
        .map(|(name, entries)| Edit {
            document: Document::Index(0),
            at: vec!["mig-configs".into(), name.as_str().into()],
            op: Op::Put { value: layout_value(entries) },
            shared: Shared::Refuse,
        })
        .collect();
    if puts.is_empty() {
        return Ok(text.to_owned());
    }
    let at = [prefix.to_vec(), vec!["data".into(), MIG_KEY.into()]].concat();
    slicewright_yaml::edit_embedded(text, &Document::Index(document), &at, &puts)
        .map_err(|refusal| refusal.to_string())
}

/// A name and what it stands for.
type Layout = (String, Vec<Entry>);

/// A plan's entries; none at all leave the cards whole.
fn planned(entries: &[MigEntry]) -> Vec<Entry> {
    if entries.is_empty() {
        return own_layout("all-disabled").unwrap_or_default();
    }
    entries.iter().map(Entry::from).collect()
}

/// Entries as mig-parted reads them.
fn layout_value(entries: &[Entry]) -> Value {
    let entry = |entry: &Entry| {
        let mut fields = Vec::new();
        if !entry.filter.is_empty() {
            let ids = entry.filter.iter().map(|id| Value::from(*id)).collect();
            fields.push(("device-filter".to_owned(), Value::Sequence(ids)));
        }
        let devices = if entry.cards.is_empty() {
            Value::from("all")
        } else {
            Value::Sequence(entry.cards.iter().map(|card| Value::Integer(i64::from(*card))).collect())
        };
        fields.push(("devices".to_owned(), devices));
        fields.push(("mig-enabled".to_owned(), Value::Bool(entry.enabled)));
        if entry.enabled {
            let count =
                |(profile, count): (&String, &u32)| (profile.clone(), Value::Integer(i64::from(*count)));
            fields.push((
                "mig-devices".to_owned(),
                Value::Mapping(entry.instances.iter().map(count).collect()),
            ));
        }
        Value::Mapping(fields)
    };
    Value::Sequence(entries.iter().map(entry).collect())
}

/// Whether the map holds `name` with just these entries.
fn same_mig(target: &Target, name: &str, entries: &[MigEntry]) -> bool {
    let Some(inner) = target.map.inner(&target.text, MIG_KEY) else { return false };
    let Ok(frame) = new_mig_map("x", "x") else { return false };
    let Ok(wanted) = merge_mig(&frame, 0, &[], &[(name.to_owned(), planned(entries))]) else {
        return false;
    };
    let Some(wanted) = config_map::in_text("x", &wanted, "x").and_then(|map| map.inner(&wanted, MIG_KEY))
    else {
        return false;
    };
    let layout = |text: &str| {
        let stream = slicewright_yaml::read(text).ok()?;
        let root = stream.document(0)?;
        Some(config_map::plain(walk::down(root, "mig-configs")?.get(name)?, 0))
    };
    layout(&inner).is_some() && layout(&inner) == layout(&wanted)
}
