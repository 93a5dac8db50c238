//! The GPU Operator in a repository: its settings, and the config maps of the MIG manager and the device plugin.
//!
//! Existing maps are merged, never replaced; the cluster's MIG strategy is read and never changed.

use std::collections::BTreeSet;

use slicewright_core::inventory::{MigStrategy, Operator};
use slicewright_core::plan::{Change, MigEntry};
use slicewright_yaml::{Document, Edit, Op, Shared, Step, Value};

use super::ManualChange;
use super::config_map::{self, ConfigMap};
use super::draft::Draft;
use super::format::{Edition, Format, Reading};
use super::frame;
use super::operator_site::{Site, sites};
use super::own_layouts::own_layout;
use super::repository::{Parsed, Repository};
use super::text::{one_line, yaml};
use super::walk;

/// Name of the MIG config map that the bot makes where there is none.
const MIG_MAP: &str = "slicewright-mig-parted-config";

/// Name of the device plugin's config map that the bot makes where there is none: the one in NVIDIA's documentation.
const PLUGIN_MAP: &str = "time-slicing-config";

/// The operator's own map. It reverts edits to it, so that a reference to it counts as none.
const OPERATORS_MAP: &str = "default-mig-parted-config";

/// The only key that the MIG manager reads.
const MIG_KEY: &str = "config.yaml";

/// Key of the plugin's map that shares nothing.
const NEUTRAL_KEY: &str = "default";

/// `ClusterPolicy`, the operator's Helm values, and its config maps.
#[derive(Debug)]
pub(super) struct GpuOperator;

/// Parses the files that hold the operator's config maps, whatever their names are.
pub(super) fn load(repository: &mut Repository<'_>) {
    let mut names: BTreeSet<String> = [MIG_MAP, PLUGIN_MAP].map(ToOwned::to_owned).into();
    for site in sites(repository) {
        names.extend(site.text("migManager.config.name"));
        names.extend(site.text("devicePlugin.config.name"));
    }
    names.remove("");
    let words: Vec<&str> = names.iter().map(String::as_str).collect();
    repository.load(&words);
}

impl Format for GpuOperator {
    fn read(&self, repository: &Repository<'_>, reading: &mut Reading) {
        let sites = sites(repository);
        if sites.len() > 1 {
            let places: Vec<String> = sites.iter().map(|site| format!("`{}`", site.place())).collect();
            reading.note(format!("the GPU Operator is configured more than once: {}", places.join(", ")));
        }
        let first = |dotted: &str| sites.iter().find_map(|site| site.text(dotted)).filter(|text| !text.is_empty());
        let operator = &mut reading.declared.operator;
        operator.declared_in_repository = !sites.is_empty();
        operator.namespace = namespace(repository, &sites);
        operator.version = sites.iter().find_map(|site| site.version.clone());
        operator.mig_strategy = first("mig.strategy").and_then(|text| match text.as_str() {
            "none" => Some(MigStrategy::None),
            "single" => Some(MigStrategy::Single),
            "mixed" => Some(MigStrategy::Mixed),
            _ => None,
        });
        operator.mig_config_map = first("migManager.config.name");
        operator.plugin_config_map = first("devicePlugin.config.name");
        operator.plugin_config_default = first("devicePlugin.config.default");
        adopt(repository, reading);
        let operator = reading.declared.operator.clone();
        let home = home(repository, &operator);
        let names = mig_map_name(&operator).0;
        for map in config_map::find(repository, &names, &home) {
            reading.declared.operator.mig_config_names.extend(map.inner_keys(MIG_KEY, "mig-configs"));
        }
        for map in config_map::find(repository, plugin_map_name(&operator).0, &home) {
            reading.declared.operator.plugin_config_keys.extend(map.keys());
        }
        for site in &sites {
            reading.declared.operator.plugin_config_keys.extend(site.keys("devicePlugin.config.data"));
        }
        for (file, _, object) in repository.objects() {
            if object.kind == "GPUCluster" && object.api_version.starts_with("nvidia.com/") {
                reading.note(format!(
                    "`{}:{}`: GPUCluster `{}` puts the GPUs under dynamic resource allocation: config maps and node \
                     labels have no effect there",
                    file.path, object.line, object.name
                ));
            }
        }
    }

    fn edit(&self, edition: &Edition<'_>, open: &mut Vec<&Change>, draft: &mut Draft<'_>) {
        open.retain(|change| {
            let outcome = match change {
                Change::SetMigConfig { name, entries, names_in_use } => {
                    set_mig(edition, draft, name, entries, names_in_use)
                }
                Change::SetPluginConfig { key, resource, replicas, fail_requests_greater_than_one } => {
                    let wish = Sharing { key, resource, replicas: *replicas, fail: *fail_requests_greater_than_one };
                    set_plugin(edition, draft, &wish)
                }
                Change::LabelNodes { .. } | Change::LabelGroup { .. } | Change::SetWorkloadResource { .. } => return true,
            };
            if let Err(manual) = outcome {
                draft.manual(manual);
            }
            false
        });
    }
}

/// Takes the one config map that looks like the operator's for it, where the operator's settings are elsewhere.
///
/// A second map beside it would leave the operator with the first one.
fn adopt(repository: &Repository<'_>, reading: &mut Reading) {
    let operator = reading.declared.operator.clone();
    if operator.declared_in_repository {
        return;
    }
    let home = home(repository, &operator);
    let only = |fits: &dyn Fn(&ConfigMap) -> bool| {
        let mut found: Vec<ConfigMap> = config_map::all(repository)
            .into_iter()
            .filter(|map| {
                // A map that the bot made says nothing about what the operator reads.
                let made = map.path == format!("{}{}.yaml", repository.scope.new_files, map.name);
                !made && map.namespace.as_deref().is_none_or(|namespace| namespace == home) && fits(map)
            })
            .collect();
        if found.len() == 1 { found.pop() } else { None }
    };
    let mig = only(&|map| !map.inner_keys(MIG_KEY, "mig-configs").is_empty());
    let plugin = only(&|map| map.keys().iter().any(|key| !map.inner_keys(key, "sharing").is_empty()));
    for (map, what) in [(&mig, "MIG layouts"), (&plugin, "configurations of the device plugin")] {
        if let Some(map) = map {
            reading.note(format!(
                "`{}`: config map `{}` holds {what}; the GPU Operator's settings are not among the cluster's files, so it \
                 is taken for the one that the operator reads",
                map.place(),
                map.name
            ));
        }
    }
    reading.declared.operator.mig_config_map = mig.map(|map| map.name);
    reading.declared.operator.plugin_config_map = plugin.map(|map| map.name);
}

fn namespace(repository: &Repository<'_>, sites: &[Site<'_>]) -> Option<String> {
    if let Some(namespace) = sites.iter().find_map(|site| site.namespace.clone()) {
        return Some(namespace);
    }
    let known: BTreeSet<&str> = repository
        .objects()
        .filter(|(_, _, object)| {
            object.kind == "Namespace" && matches!(object.name.as_str(), "gpu-operator" | "nvidia-gpu-operator")
        })
        .map(|(_, _, object)| object.name.as_str())
        .collect();
    if known.len() == 1 {
        return known.first().map(|name| (*name).to_owned());
    }
    // A map that the operator refers to must be in its namespace.
    let mut namespaces = BTreeSet::new();
    for dotted in ["migManager.config.name", "devicePlugin.config.name"] {
        if let Some(name) = sites.iter().find_map(|site| site.text(dotted)).filter(|name| !name.is_empty()) {
            namespaces.extend(config_map::named(repository, &name).into_iter().filter_map(|map| map.namespace));
        }
    }
    if namespaces.len() == 1 { namespaces.pop_first() } else { None }
}

/// The operator's namespace, by the repository or else by the configuration.
pub(super) fn home(repository: &Repository<'_>, operator: &Operator) -> String {
    operator.namespace.clone().unwrap_or_else(|| repository.scope.operator_namespace.clone())
}

/// The MIG config map to write to, and whether the operator refers to it already.
fn mig_map_name(operator: &Operator) -> (String, bool) {
    match operator.mig_config_map.as_deref() {
        None | Some("" | OPERATORS_MAP) => (MIG_MAP.to_owned(), false),
        Some(name) => (name.to_owned(), true),
    }
}

fn plugin_map_name(operator: &Operator) -> (&str, bool) {
    match operator.plugin_config_map.as_deref() {
        None | Some("") => (PLUGIN_MAP, false),
        Some(name) => (name, true),
    }
}

/// The config maps that some changes write to.
pub(super) fn map_names(changes: &[Change], operator: &Operator) -> BTreeSet<String> {
    changes
        .iter()
        .filter_map(|change| match change {
            Change::SetMigConfig { .. } => Some(mig_map_name(operator).0),
            Change::SetPluginConfig { .. } => Some(plugin_map_name(operator).0.to_owned()),
            Change::LabelNodes { .. } | Change::LabelGroup { .. } | Change::SetWorkloadResource { .. } => None,
        })
        .collect()
}

fn set_mig(
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
    let mut due = vec![("all-disabled".to_owned(), Some(false), Vec::new())];
    let mut unknown = Vec::new();
    for used in names_in_use {
        match own_layout(used) {
            _ if used == name || due.iter().any(|(known, _, _)| known == used) => {}
            Some((on, entries)) => due.push((used.clone(), Some(on), entries)),
            None => {
                unknown.push(used.clone());
            }
        }
    }
    due.push((name.to_owned(), None, entries.to_vec()));
    let whole = |names: &[(String, Option<bool>, Vec<MigEntry>)]| -> String {
        new_mig_map(&map_name, &home)
            .and_then(|frame| merge_mig(&frame, 0, &[], names))
            .unwrap_or_else(|why| one_line(&why))
    };
    let manual = |why: String| ManualChange {
        what: format!("Add the layout `{name}` to the MIG config map `{map_name}` of namespace `{home}`"),
        why,
        text: whole(&due),
    };
    if edition.declared.operator.mig_config_map.as_deref() == Some(OPERATORS_MAP) {
        draft.side_effect(format!(
            "The operator refers to its own map `{OPERATORS_MAP}` by name and reverts edits to it; the reference now \
             names `{map_name}`."
        ));
    }
    let target = target(edition, draft, &map_name, &home, referenced, "mig-config-map.yaml").map_err(&manual)?;
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
    let missing: Vec<_> = due.iter().filter(|(used, _, _)| !known.contains(used)).cloned().collect();
    let text = merge_mig(&target.text, target.map.document, &target.map.prefix, &missing).map_err(&manual)?;
    write_map(edition, draft, &target, text, &home, &map_name).map_err(&manual)?;
    assume(edition, draft, &target, "migManager.config.name", referenced);
    if !referenced {
        let effect = format!(
            "The operator now reads its MIG layouts from `{map_name}` for every node of the cluster: the MIG manager \
             restarts on all of them, nodes whose cards match their label are left as they are, and layouts that the \
             operator generates by itself are switched off."
        );
        refer(edition, draft, &[("migManager.config.name", &map_name)], &effect);
    }
    Ok(())
}

/// One key of the device plugin's map.
struct Sharing<'a> {
    key: &'a str,
    resource: &'a str,
    replicas: u32,
    fail: bool,
}

impl Sharing<'_> {
    fn text(&self) -> String {
        let Sharing { resource, replicas, fail, .. } = self;
        format!(
            "version: v1\nsharing:\n  timeSlicing:\n    failRequestsGreaterThanOne: {fail}\n    resources:\n      - \
             name: {}\n        replicas: {replicas}\n",
            yaml(resource)
        )
    }
}

fn set_plugin(edition: &Edition<'_>, draft: &mut Draft<'_>, wish: &Sharing<'_>) -> Result<(), ManualChange> {
    let repository = edition.repository;
    let operator = &edition.declared.operator;
    let home = home(repository, operator);
    let (map_name, referenced) = plugin_map_name(operator);
    let key = wish.key;
    let manual = |why: String| ManualChange {
        what: format!("Add the key `{key}` to the device plugin's config map `{map_name}` of namespace `{home}`"),
        why,
        text: format!(
            "data:\n  {}: |\n{}",
            yaml(key),
            wish.text().lines().map(|line| format!("    {line}\n")).collect::<String>()
        ),
    };
    if wish.replicas < 2 {
        return Err(manual("the device plugin crashes on fewer than 2 replicas".to_owned()));
    }
    if operator.plugin_config_default.as_deref() == Some(key) {
        return Err(manual(format!(
            "`devicePlugin.config.default` names `{key}`: every node without a label would share its cards"
        )));
    }
    let target = target(edition, draft, map_name, &home, referenced, "plugin-config-map.yaml").map_err(&manual)?;
    let parsed = Parsed::new(&target.text).map_err(&manual)?;
    let root = parsed.documents().nth(target.map.document).and_then(|root| root.at(&target.map.prefix));
    let old = root.and_then(|root| root.get("data")).and_then(|data| data.get(key)).map(|node| node.as_str());
    let text = match old {
        Some(old) if old.is_some_and(|old| same_yaml(old, &wish.text())) => target.text.clone(),
        Some(_) => return Err(manual(format!("`{key}` is there already with another content"))),
        None => {
            let at = [target.map.prefix.clone(), vec!["data".into(), key.into()]].concat();
            let put = Edit {
                document: Document::Index(target.map.document),
                at,
                op: Op::Put { value: wish.text().into() },
                shared: Shared::Refuse,
            };
            slicewright_yaml::edit(&target.text, &[put]).map_err(|refusal| manual(refusal.to_string()))?
        }
    };
    write_map(edition, draft, &target, text, &home, map_name).map_err(&manual)?;
    assume(edition, draft, &target, "devicePlugin.config.name", referenced);
    if !referenced {
        let mut wanted = vec![("devicePlugin.config.name", map_name)];
        if target.new && operator.plugin_config_default.is_none() {
            wanted.push(("devicePlugin.config.default", NEUTRAL_KEY));
        }
        let effect = format!(
            "The device plugin now reads `{map_name}`: its pods restart once on every GPU node of the cluster; nodes \
             without the label `nvidia.com/device-plugin.config` share nothing."
        );
        refer(edition, draft, &wanted, &effect);
    }
    Ok(())
}

/// The map to write to: one that exists, or the text of a new one.
struct Target {
    map: ConfigMap,
    text: String,
    new: bool,
}

fn target(
    edition: &Edition<'_>,
    draft: &Draft<'_>,
    name: &str,
    home: &str,
    referenced: bool,
    frame_name: &str,
) -> Result<Target, String> {
    let repository = edition.repository;
    let mut found = config_map::find(repository, name, home);
    if let Some((path, line)) = config_map::generated(repository, name) {
        return Err(format!("Kustomize makes the map from other files (`{path}:{line}`)"));
    }
    if let Some(site) = sites(repository).iter().find(|site| {
        let part = if frame_name.starts_with("mig") { "migManager.config.data" } else { "devicePlugin.config.data" };
        !site.keys(part).is_empty()
    }) {
        return Err(format!("the operator's Helm chart makes the map from the values in `{}`", site.place()));
    }
    match found.len() {
        0 if referenced => {
            Err(format!("the operator refers to the map `{name}`, and it is not among the cluster's files"))
        }
        0 => {
            if let Some(path) = config_map::in_charts(repository, name) {
                return Err(format!("a template of a Helm chart names the map (`{path}`)"));
            }
            let path = draft.new_path(&format!("{name}.yaml"))?;
            if let Some(text) = draft.text(&path).map(ToOwned::to_owned) {
                let map = config_map::in_text(&path, &text, name)
                    .ok_or_else(|| format!("`{path}` exists and does not hold the map `{name}`"))?;
                return Ok(Target { map, text, new: false });
            }
            let text = fill_map(frame_name, name, home)?;
            let map = config_map::in_text(&path, &text, name).ok_or("the frame holds no map")?;
            Ok(Target { map, text, new: true })
        }
        1 => {
            let map = found.remove(0);
            if repository.overlays().patch_files.contains(&map.path) {
                return Err(format!("`{}` is a patch of Kustomize", map.place()));
            }
            let text = draft.text(&map.path).unwrap_or_default().to_owned();
            Ok(Target { map, text, new: false })
        }
        _ => {
            let places: Vec<String> = found.iter().map(|map| format!("`{}`", map.place())).collect();
            Err(format!("the map `{name}` is declared more than once: {}", places.join(", ")))
        }
    }
}

fn fill_map(frame_name: &str, name: &str, home: &str) -> Result<String, String> {
    frame::fill(frame_name, minijinja::context! { name => yaml(name), namespace => yaml(home) })
}

fn new_mig_map(name: &str, home: &str) -> Result<String, String> {
    fill_map("mig-config-map.yaml", name, home)
}

fn write_map(
    edition: &Edition<'_>,
    draft: &mut Draft<'_>,
    target: &Target,
    text: String,
    home: &str,
    name: &str,
) -> Result<(), String> {
    Parsed::new(&text)?;
    draft.set(&target.map.path, text);
    if target.new {
        config_map::list(edition.repository, draft, &target.map.path, home, name);
    }
    Ok(())
}

/// Adds layouts to the YAML inside the map.
fn merge_mig(
    text: &str,
    document: usize,
    prefix: &[Step],
    layouts: &[(String, Option<bool>, Vec<MigEntry>)],
) -> Result<String, String> {
    let puts: Vec<Edit> = layouts
        .iter()
        .map(|(name, on, entries)| Edit {
            document: Document::Index(0),
            at: vec!["mig-configs".into(), name.as_str().into()],
            op: Op::Put { value: layout_value(*on, entries) },
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

/// Entries as mig-parted reads them. `on` is told for layouts without instances, where entries cannot tell.
fn layout_value(on: Option<bool>, entries: &[MigEntry]) -> Value {
    let off = [MigEntry { cards: Vec::new(), instances: std::collections::BTreeMap::new() }];
    let entries = if entries.is_empty() { &off } else { entries };
    let entry = |entry: &MigEntry| {
        let devices = if entry.cards.is_empty() {
            Value::from("all")
        } else {
            Value::Sequence(entry.cards.iter().map(|card| Value::Integer(i64::from(*card))).collect())
        };
        let enabled = on.unwrap_or(!entry.instances.is_empty());
        let mut fields = vec![("devices".to_owned(), devices), ("mig-enabled".to_owned(), Value::Bool(enabled))];
        if enabled {
            let instances = entry
                .instances
                .iter()
                .map(|(profile, count)| (profile.clone(), Value::Integer(i64::from(*count))))
                .collect();
            fields.push(("mig-devices".to_owned(), Value::Mapping(instances)));
        }
        Value::Mapping(fields)
    };
    Value::Sequence(entries.iter().map(entry).collect())
}

/// Whether the map holds `name` with just these entries.
fn same_mig(target: &Target, name: &str, entries: &[MigEntry]) -> bool {
    let Some(inner) = target.map.inner(&target.text, MIG_KEY) else { return false };
    let Ok(frame) = new_mig_map("x", "x") else { return false };
    let Ok(wanted) = merge_mig(&frame, 0, &[], &[(name.to_owned(), None, entries.to_vec())]) else { return false };
    let Some(wanted) = config_map::in_text("x", &wanted, "x").and_then(|map| map.inner(&wanted, MIG_KEY)) else {
        return false;
    };
    let layout = |text: &str| {
        let stream = slicewright_yaml::read(text).ok()?;
        let root = stream.document(0)?;
        Some(config_map::plain(walk::down(root, "mig-configs")?.get(name)?, 0))
    };
    layout(&inner).is_some() && layout(&inner) == layout(&wanted)
}

fn same_yaml(left: &str, right: &str) -> bool {
    let tree = |text: &str| {
        let stream = slicewright_yaml::read(text).ok()?;
        Some(config_map::plain(stream.document(0)?, 0))
    };
    tree(left).is_some() && tree(left) == tree(right)
}

/// Says what is taken for granted where the operator's settings are elsewhere.
fn assume(edition: &Edition<'_>, draft: &mut Draft<'_>, target: &Target, setting: &str, referenced: bool) {
    if referenced && !edition.declared.operator.declared_in_repository {
        draft.side_effect(format!(
            "`{}`: the GPU Operator's settings are not among the cluster's files; it is assumed that its `{setting}` is \
             `{}`.",
            target.map.place(),
            target.map.name
        ));
    }
}

/// Lets the operator's settings name a config map.
fn refer(edition: &Edition<'_>, draft: &mut Draft<'_>, wanted: &[(&str, &str)], effect: &str) {
    let sites = sites(edition.repository);
    let by_hand = |why: String| {
        let mut text = String::from("spec:\n");
        let (group, _) = wanted[0].0.split_once('.').unwrap_or_default();
        text.push_str(&format!("  {group}:\n    config:\n"));
        for (dotted, value) in wanted {
            let key = dotted.rsplit('.').next().unwrap_or_default();
            text.push_str(&format!("      {key}: {}\n", yaml(value)));
        }
        ManualChange {
            what: format!("Set `{}: {}` in the GPU Operator's settings", wanted[0].0, wanted[0].1),
            why,
            text: format!("# ClusterPolicy `cluster-policy`; in Helm values the same without `spec`\n{text}"),
        }
    };
    match sites.as_slice() {
        [] => draft.manual(by_hand("the cluster's files hold neither a ClusterPolicy nor the operator's Helm values".to_owned())),
        [site] => {
            let text = draft.text(&site.path).unwrap_or_default().to_owned();
            match site.put(&text, wanted) {
                Ok(changed) => {
                    draft.set(&site.path, changed);
                    draft.side_effect(effect.to_owned());
                }
                Err(why) => draft.manual(by_hand(format!("`{}`: {why}", site.place()))),
            }
        }
        several => {
            let places: Vec<String> = several.iter().map(|site| format!("`{}`", site.place())).collect();
            draft.manual(by_hand(format!("the operator is configured more than once: {}", places.join(", "))));
        }
    }
}
