//! Node labels: in `Node` manifests where there are some, else in a script.
//!
//! Labels that machines get from a node group's template are the business of other formats.

use std::collections::{BTreeMap, BTreeSet};

use slicewright_core::ids::slug;
use slicewright_core::inventory::NodeCarrier;
use slicewright_core::plan::{Change, PoolKind};
use slicewright_yaml::{Document, Edit, Op, Shared};

use super::ManualChange;
use super::draft::Draft;
use super::format::{Edition, Format, Reading};
use super::frame;
use super::helm_template;
use super::manifest;
use super::repository::{Object, Repository};
use super::text::{one_line, shell, yaml};

/// `Node` manifests.
#[derive(Debug)]
pub(super) struct NodeManifests;

struct Found {
    path: String,
    object: Object,
    carrier: NodeCarrier,
}

impl Format for NodeManifests {
    fn read(&self, repository: &Repository<'_>, reading: &mut Reading) {
        for (name, mut found) in manifests(repository) {
            let first = found.remove(0);
            let mut carrier = first.carrier;
            if !found.is_empty() {
                let places: Vec<String> = std::iter::once(&carrier.place)
                    .chain(found.iter().map(|other| &other.carrier.place))
                    .map(|place| format!("`{place}`"))
                    .collect();
                carrier.editable = Err(format!("declared more than once: {}", places.join(", ")));
            }
            reading.declared.node_labels.insert(name, carrier);
        }
    }

    fn edit(&self, edition: &Edition<'_>, open: &mut Vec<&Change>, draft: &mut Draft<'_>) {
        if !open.iter().any(|change| matches!(change, Change::LabelNodes { .. })) {
            return;
        }
        let manifests = manifests(edition.repository);
        open.retain(|change| {
            let Change::LabelNodes { key, value, nodes } = change else { return true };
            for node in nodes.keys() {
                if !is_node_name(node) {
                    draft.manual(ManualChange {
                        what: format!("Set the label `{key}: {value}` of node `{}`", one_line(node)),
                        why: "Kubernetes has no nodes of such a name".to_owned(),
                        text: String::new(),
                    });
                    continue;
                }
                let declared = edition.declared.node_labels.get(node);
                let done = match (manifests.get(node).and_then(|found| found.first()), declared) {
                    (Some(found), Some(NodeCarrier { editable: Ok(()), .. })) => {
                        let text = draft.text(&found.path).unwrap_or_default().to_owned();
                        put(&text, &found.object, key, value).map(|changed| draft.set(&found.path, changed))
                    }
                    (_, Some(NodeCarrier { editable: Err(why), .. })) => Err(why.clone()),
                    (_, None) | (None, _) => {
                        draft.script.push((node.clone(), key.clone(), value.clone()));
                        continue;
                    }
                };
                if let Err(why) = done {
                    let place = declared.map(|carrier| format!(" (`{}`)", carrier.place)).unwrap_or_default();
                    draft.manual(ManualChange {
                        what: format!("Set the label `{key}: {value}` in the manifest of node `{node}`{place}"),
                        why,
                        text: format!("metadata:\n  labels:\n    {}: {}\n", yaml(key), yaml(value)),
                    });
                    draft.script.push((node.clone(), key.clone(), value.clone()));
                }
            }
            if edition.plan.pool_kind == PoolKind::Elastic {
                draft.manual(ManualChange {
                    what: format!("Set the label `{key}: {value}` in the template of the node group `{}`", edition.plan.pool.pool),
                    why: "nodes of this pool come and go, and a label that only today's nodes have is lost with them; \
                          the group's template was not found among the cluster's files"
                        .to_owned(),
                    text: format!("{}: {}\n", yaml(key), yaml(value)),
                });
            }
            false
        });
    }
}

/// Whether Kubernetes would take this as the name of a node; a leading dash would be an option to `kubectl`.
pub(super) fn is_node_name(name: &str) -> bool {
    name.len() <= 253
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.'))
}

/// Writes the script for labels that no manifest holds.
pub(super) fn write_script(edition: &Edition<'_>, draft: &mut Draft<'_>) {
    if draft.script.is_empty() {
        return;
    }
    let script = std::mem::take(&mut draft.script);
    let labels: BTreeSet<String> = script
        .iter()
        .map(|(node, key, value)| format!("{} {}", shell(node), shell(&format!("{key}={value}"))))
        .collect();
    let n_nodes = script.iter().map(|(node, _, _)| node).collect::<BTreeSet<_>>().len();
    let pool = &edition.plan.pool;
    let written = draft.new_path(&format!("labels/{}.sh", slug(&pool.pool))).and_then(|path| {
        let text = frame::fill(
            "labels.sh",
            minijinja::context! { pool => one_line(&pool.pool), cluster => one_line(&pool.cluster), labels => &labels },
        )?;
        draft.set(&path, text);
        Ok(path)
    });
    match written {
        Ok(path) => draft.side_effect(format!(
            "`{path}` sets the labels of {n_nodes} {} that no editable manifest holds: it must be run by your pipeline \
             or by hand, a merge alone does not change them.",
            if n_nodes == 1 { "node" } else { "nodes" }
        )),
        Err(why) => draft.manual(ManualChange {
            what: format!("Set the node labels of pool `{pool}`"),
            why,
            text: labels.iter().map(|label| format!("kubectl label node {label} --overwrite\n")).collect(),
        }),
    }
}

fn manifests(repository: &Repository<'_>) -> BTreeMap<String, Vec<Found>> {
    let mut all: BTreeMap<String, Vec<Found>> = BTreeMap::new();
    for (file, parsed, object) in repository.objects() {
        if object.kind != "Node" || object.api_version != "v1" || object.name.is_empty() {
            continue;
        }
        let Some(root) = parsed.at(object) else { continue };
        let labels = root.down("metadata.labels");
        let line = labels.as_ref().map_or(object.line, |labels| labels.node.line());
        let editable = if helm_template::helm_chart(&repository.texts, file.path).is_some() {
            Err("it is rendered by a Helm chart".to_owned())
        } else if repository.overlays().patch_files.contains(file.path) {
            Err("it is a patch of Kustomize".to_owned())
        } else {
            put(file.text, object, "nvidia.com/mig.config", "all-0g.0gb").map(|_| ())
        };
        let carrier = NodeCarrier {
            place: format!("{}:{line}", file.path),
            labels: labels.as_ref().map(manifest::strings).unwrap_or_default(),
            editable,
        };
        all.entry(object.name.clone()).or_default().push(Found {
            path: file.path.to_owned(),
            object: object.clone(),
            carrier,
        });
    }
    all
}

fn put(text: &str, object: &Object, key: &str, value: &str) -> Result<String, String> {
    let at = [object.prefix.clone(), vec!["metadata".into(), "labels".into(), key.into()]].concat();
    let edit = Edit {
        document: Document::Index(object.document),
        at,
        op: Op::Put { value: value.into() },
        shared: Shared::Refuse,
    };
    slicewright_yaml::edit(text, &[edit]).map_err(|refusal| refusal.to_string())
}
