//! The GPU Operator in a repository: its settings, and the config maps of the MIG manager and the device plugin.
//!
//! Existing maps are merged, never replaced; the cluster's MIG strategy is read and never changed.

use std::collections::BTreeSet;

use slicewright_core::inventory::{MigStrategy, Operator};
use slicewright_core::plan::Change;

use super::ManualChange;
use super::config_map::{self, ConfigMap};
use super::draft::Draft;
use super::format::{Edition, Format, Reading};
use super::frame;
use super::mig_map::set_mig;
use super::operator_site::{Site, sites};
use super::plugin_map::{Sharing, set_plugin};
use super::repository::{Parsed, Repository};
use super::text::yaml;

/// Name of the MIG config map that the bot makes where there is none.
pub(super) const MIG_MAP: &str = "slicewright-mig-parted-config";

/// Name of the device plugin's config map that the bot makes where there is none: the one in NVIDIA's documentation.
pub(super) const PLUGIN_MAP: &str = "time-slicing-config";

/// The operator's own map. It reverts edits to it, so that a reference to it counts as none.
pub(super) const OPERATORS_MAP: &str = "default-mig-parted-config";

/// The only key that the MIG manager reads.
pub(super) const MIG_KEY: &str = "config.yaml";

/// Node label that names the layout of a node's cards.
pub(super) const MIG_LABEL: &str = "nvidia.com/mig.config";

/// Key of the plugin's map that shares nothing.
pub(super) const NEUTRAL_KEY: &str = "default";

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
        let first =
            |dotted: &str| sites.iter().find_map(|site| site.text(dotted)).filter(|text| !text.is_empty());
        let operator = &mut reading.declared.operator;
        operator.declared_in_repository = !sites.is_empty();
        operator.namespace = namespace(repository, &sites);
        operator.version = sites.iter().find_map(|site| site.version.clone());
        // Where places disagree, nobody knows which one the cluster has: the nodes' labels must say it.
        let strategies: BTreeSet<String> = sites
            .iter()
            .filter_map(|site| site.text("mig.strategy"))
            .filter(|text| !text.is_empty())
            .collect();
        operator.mig_strategy = match strategies.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["none"] => Some(MigStrategy::None),
            ["single"] => Some(MigStrategy::Single),
            ["mixed"] => Some(MigStrategy::Mixed),
            _ => None,
        };
        let says = |site: &&Site<'_>| site.text("mig.strategy").is_some_and(|text| !text.is_empty());
        operator.mig_strategy_place = sites.iter().find(says).or_else(|| sites.first()).map(Site::place);
        operator.mig_config_map = first("migManager.config.name");
        operator.plugin_config_map = first("devicePlugin.config.name");
        operator.plugin_config_default = first("devicePlugin.config.default");
        let off = |part: &str| {
            let dotted = format!("{part}.enabled");
            let site = sites.iter().find(|site| site.text(&dotted).as_deref() == Some("false"))?;
            Some(format!("`{dotted}` is `false` in `{}`", site.place()))
        };
        operator.mig_manager_off = off("migManager");
        operator.device_plugin_off = off("devicePlugin");
        adopt(repository, reading);
        let operator = reading.declared.operator.clone();
        let home = home(repository, &operator);
        let names = mig_map_name(&operator).0;
        for map in config_map::find(repository, &names, &home) {
            reading.declared.operator.mig_config_names.extend(map.inner_keys(MIG_KEY, "mig-configs"));
        }
        for map in config_map::find(repository, plugin_map_name(&operator).0, &home) {
            reading.declared.operator.plugin_config_keys.extend(map.keys());
            if let Some(key) = &operator.plugin_config_default
                && map
                    .inner_keys(key, "sharing")
                    .iter()
                    .any(|method| method == "timeSlicing" || method == "mps")
            {
                reading.note(format!(
                    "`{}`: `devicePlugin.config.default` names `{key}`, which shares the cards of every node without a \
                     label",
                    map.place()
                ));
            }
        }
        for site in &sites {
            reading.declared.operator.plugin_config_keys.extend(site.keys("devicePlugin.config.data"));
        }
        for (file, _, object) in repository.objects() {
            if object.kind == "GPUCluster" && object.api_version.starts_with("nvidia.com/") {
                let place = format!("GPUCluster `{}` in `{}:{}`", object.name, file.path, object.line);
                reading.declared.operator.gpu_cluster.get_or_insert(place);
            }
        }
    }

    fn edit(&self, edition: &Edition<'_>, open: &mut Vec<&Change>, draft: &mut Draft<'_>) {
        open.retain(|change| {
            let outcome = match change {
                Change::SetMigConfig { name, entries, names_in_use } => {
                    set_mig(edition, draft, name, entries, names_in_use)
                }
                Change::SetPluginConfig {
                    key,
                    resource,
                    replicas,
                    fail_requests_greater_than_one,
                    sharing,
                } => {
                    let wish = Sharing {
                        key,
                        resource,
                        replicas: *replicas,
                        fail: *fail_requests_greater_than_one,
                        how: *sharing,
                    };
                    set_plugin(edition, draft, &wish)
                }
                Change::LabelNodes { .. }
                | Change::LabelGroup { .. }
                | Change::AddNodePool { .. }
                | Change::SetWorkloadResource { .. }
                | Change::PinWorkload { .. } => return true,
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
            object.kind == "Namespace"
                && matches!(object.name.as_str(), "gpu-operator" | "nvidia-gpu-operator")
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
            namespaces
                .extend(config_map::named(repository, &name).into_iter().filter_map(|map| map.namespace));
        }
    }
    if namespaces.len() == 1 { namespaces.pop_first() } else { None }
}

/// The operator's namespace, by the repository or else by the configuration.
pub(super) fn home(repository: &Repository<'_>, operator: &Operator) -> String {
    operator.namespace.clone().unwrap_or_else(|| repository.scope.operator_namespace.clone())
}

/// The MIG config map to write to, and whether the operator refers to it already.
pub(super) fn mig_map_name(operator: &Operator) -> (String, bool) {
    match operator.mig_config_map.as_deref() {
        None | Some("" | OPERATORS_MAP) => (MIG_MAP.to_owned(), false),
        Some(name) => (name.to_owned(), true),
    }
}

pub(super) fn plugin_map_name(operator: &Operator) -> (&str, bool) {
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
            Change::LabelNodes { .. }
            | Change::LabelGroup { .. }
            | Change::AddNodePool { .. }
            | Change::SetWorkloadResource { .. }
            | Change::PinWorkload { .. } => None,
        })
        .collect()
}

/// The map to write to: one that exists, or the text of a new one.
pub(super) struct Target {
    pub(super) map: ConfigMap,
    /// Its file as it stands.
    pub(super) text: String,
    /// The file does not exist yet.
    pub(super) new: bool,
}

pub(super) fn target(
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
        let part =
            if frame_name.starts_with("mig") { "migManager.config.data" } else { "devicePlugin.config.data" };
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

pub(super) fn fill_map(frame_name: &str, name: &str, home: &str) -> Result<String, String> {
    frame::fill(frame_name, minijinja::context! { name => yaml(name), namespace => yaml(home) })
}

pub(super) fn write_map(
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

/// Says what is taken for granted where the operator's settings are elsewhere.
pub(super) fn assume(
    edition: &Edition<'_>,
    draft: &mut Draft<'_>,
    target: &Target,
    setting: &str,
    referenced: bool,
) {
    if referenced && !edition.declared.operator.declared_in_repository {
        draft.side_effect(format!(
            "`{}`: the GPU Operator's settings are not among the cluster's files; it is assumed that its `{setting}` is \
             `{}`.",
            target.map.place(),
            target.map.name
        ));
    }
}

/// The settings that name a config map, as text.
pub(super) fn reference(wanted: &[(&str, &str)]) -> String {
    let mut text =
        String::from("# ClusterPolicy `cluster-policy`; in Helm values the same without `spec`\nspec:\n");
    let (group, _) = wanted[0].0.split_once('.').unwrap_or_default();
    text.push_str(&format!("  {group}:\n    config:\n"));
    for (dotted, value) in wanted {
        let key = dotted.rsplit('.').next().unwrap_or_default();
        text.push_str(&format!("      {key}: {}\n", yaml(value)));
    }
    text
}

/// Lets the operator's settings name a config map.
pub(super) fn refer(edition: &Edition<'_>, draft: &mut Draft<'_>, wanted: &[(&str, &str)], effect: &str) {
    let sites = sites(edition.repository);
    let by_hand = |why: String| ManualChange {
        what: format!("Set `{}: {}` in the GPU Operator's settings", wanted[0].0, wanted[0].1),
        why,
        text: reference(wanted),
    };
    match sites.as_slice() {
        [] => draft.manual(by_hand(
            "the cluster's files hold neither a ClusterPolicy nor the operator's Helm values".to_owned(),
        )),
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
            draft
                .manual(by_hand(format!("the operator is configured more than once: {}", places.join(", "))));
        }
    }
}
