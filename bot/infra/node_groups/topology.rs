//! Groups of machines of a Cluster API `Cluster` with a topology: `spec.topology.workers`.
//!
//! Cluster API makes a `MachineDeployment` or `MachinePool` of each, named after the cluster and the group with a random
//! end, and takes back what is edited there. Their labels stand in the topology and reach the machines at once; of those,
//! nodes get labels of three domains, and others where the controller is told to copy them.

use slicewright_core::plan::node_group::NodeGroup;
use slicewright_yaml::{Op, Step};

use super::cluster_api::carries;
use super::spot::Spot;
use super::{Declared, Found, LONGEST_COPY, Label, Objects, Today, edit_yaml, second_name};
use crate::infra::repository::{Object, Parsed, Repository};
use crate::infra::text::{one_line, yaml};
use crate::infra::walk::{self, At};

/// Lists of groups in a `Cluster`.
const LISTS: [&str; 2] = ["spec.topology.workers.machineDeployments", "spec.topology.workers.machinePools"];

/// The label of whatever a topology makes (sigs.k8s.io/cluster-api, `ClusterTopologyOwnedLabel`).
const OWNED: &str = "topology.cluster.x-k8s.io/owned";

/// Characters of a generated name's random end, and the most that a name has.
const RANDOM: usize = 5;
const LONGEST: usize = 63;

/// The option by which Cluster API's controller copies further labels from machines to nodes.
const COPY_OPTION: &str = "--additional-sync-machine-labels";

/// Whether an object was made of a topology: it is no place for edits.
pub(super) fn is_made(one: &Declared<'_>) -> bool {
    one.parsed.at(one.object).is_some_and(|root| {
        ["metadata.labels", "metadata.annotations"]
            .iter()
            .filter_map(|dotted| root.down(dotted))
            .any(|at| at.node.get(OWNED).is_some())
    })
}

/// The groups of topologies that are this one.
pub(super) fn find<'a>(objects: &'a Objects<'_>, label: &Label<'a>, group: &NodeGroup) -> Vec<Found<'a>> {
    let mut all = Vec::new();
    for one in objects.of("cluster.x-k8s.io").filter(|one| one.object.kind == "Cluster") {
        let Some(root) = one.parsed.at(one.object) else { continue };
        let (names, shared) = objects.names(&one);
        for entry in LISTS.iter().flat_map(|list| root.all(&format!("{list}[]"))) {
            let topology = walk::text(entry.node, "name").unwrap_or_default();
            let is_it = if group.name.is_empty() {
                carries(entry.down("metadata.labels"), group)
            } else {
                names.iter().any(|cluster| is_generated(&group.name, cluster, topology))
            };
            if is_it {
                all.push(found(objects.repository, &one, &entry, label, shared.clone()));
            }
        }
    }
    all
}

/// Whether this is what Cluster API calls the machines of a cluster's group: `dc1-gpu-x7k2p`.
fn is_generated(name: &str, cluster: &str, topology: &str) -> bool {
    let start: String = format!("{cluster}-{topology}-").chars().take(LONGEST - RANDOM).collect();
    !topology.is_empty()
        && name.strip_prefix(start.as_str()).is_some_and(|end| {
            end.len() == RANDOM && end.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
        })
}

fn found<'a>(
    repository: &Repository<'_>,
    one: &Declared<'a>,
    entry: &At<'_>,
    label: &Label<'a>,
    shared: Option<String>,
) -> Found<'a> {
    let below: Vec<Step> = ["metadata", "labels", label.key].into_iter().map(Step::from).collect();
    let spot = Spot::new(entry, &below);
    let inside = entry.path[one.object.prefix.len()..].to_vec();
    let way: Vec<Step> = inside.iter().cloned().chain(below).collect();
    let place = one.place(spot.line);
    let today = match (shared, spot.today) {
        (Some(why), _) => Err(why),
        (None, Ok(Today::Unset)) if !is_copied(repository, label.key) => Err(format!(
            "machines would get the label and nodes would not: Cluster API copies labels of this domain where its \
             controller is started with `{COPY_OPTION}`, which no file here says"
        )),
        (None, today) => today.and_then(|today| {
            // A try says whether the text can be edited at all.
            put(one.file.text, one.object, &way, label.value)?;
            Ok(today)
        }),
    };
    let (object, value) = (one.object.clone(), label.value.to_owned());
    let name = walk::text(entry.node, "name").unwrap_or_default();
    Found {
        path: one.file.path.to_owned(),
        today,
        text: format!(
            "# in `{name}` of the Cluster's `spec.topology.workers`\nmetadata:\n  labels:\n    {}: {}\n# and, where it is \
             not there yet, an argument of Cluster API's controller\n{COPY_OPTION}={}\n",
            yaml(label.key),
            yaml(label.value),
            one_line(label.key),
            name = one_line(name),
        ),
        second: second(one, &inside, &way, name, label),
        effects: vec![format!(
            "`{place}`: Cluster API hands this label on to machines and nodes that run as well, and makes none of them anew; \
             its controller copies it to nodes where it is told to (`{COPY_OPTION}`)."
        )],
        place,
        put: Box::new(move |text| put(text, &object, &way, &value)),
    }
}

fn put(text: &str, object: &Object, way: &[Step], value: &str) -> Result<String, String> {
    edit_yaml(text, object, way, Op::Put { value: value.into() })
}

/// Whether some file starts the controller so that it copies this label, by a name or a pattern.
fn is_copied(repository: &Repository<'_>, key: &str) -> bool {
    let texts = repository.texts.iter().chain(repository.elsewhere());
    let options = texts.flat_map(|(_, text)| text.split(COPY_OPTION).skip(1));
    options.filter_map(|rest| rest.lines().next()).any(|rest| {
        let patterns = rest.trim_start_matches(['=', ' ', '"', '\'']);
        let end =
            patterns.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'')).unwrap_or(patterns.len());
        patterns[..end].split(',').any(|pattern| {
            let pattern = pattern.replace('\\', "");
            let pattern = pattern.trim_start_matches('^').trim_end_matches('$');
            match pattern.strip_suffix(".*").or(pattern.strip_suffix(".+")) {
                Some(start) => key.starts_with(start),
                None => key == pattern,
            }
        })
    })
}

/// A further entry of the list, or what differs where the text cannot be copied.
fn second(one: &Declared<'_>, inside: &[Step], way: &[Step], name: &str, label: &Label<'_>) -> String {
    let new = second_name(name, label, LONGEST);
    let mut name_at = inside.to_vec();
    name_at.push("name".into());
    let copied = edit_yaml(one.file.text, one.object, &name_at, Op::Set { value: new.as_str().into() })
        .and_then(|text| put(&text, one.object, way, label.value))
        .and_then(|text| {
            let parsed = Parsed::new(&text)?;
            let root = parsed.at(one.object).ok_or("the object is gone")?;
            let entry = root.node.at(inside).ok_or("the entry is gone")?.span();
            let copy = text.get(entry.clone()).unwrap_or_default().trim_end();
            let line = text[..entry.start].rfind('\n').map_or(0, |at| at + 1);
            let indent = " ".repeat(entry.start - line);
            let lines: Vec<&str> =
                copy.split('\n').map(|line| line.strip_prefix(indent.as_str()).unwrap_or(line)).collect();
            match copy.len() {
                0 => Err("no copy".to_owned()),
                n if n > LONGEST_COPY => Err("no copy".to_owned()),
                _ => Ok(lines.join("\n  ")),
            }
        });
    let list = match inside.iter().rev().nth(1) {
        Some(Step::Key(list)) => list.as_str(),
        Some(Step::Position(_)) | None => "workers",
    };
    match copied {
        Ok(copy) => format!("# a further entry of `{list}`\n- {copy}\n"),
        Err(_) => format!(
            "# a further entry of `{list}` like `{}`, with\nname: {}\nmetadata:\n  labels:\n    {}: {}\n",
            one_line(name),
            yaml(&new),
            yaml(label.key),
            yaml(label.value)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_are_told_by_cluster_group_and_random_end() {
        let check = |name: &str, expected: bool| {
            assert_eq!(is_generated(name, "dc1", "gpu"), expected, "{name}");
        };
        check("dc1-gpu-x7k2p", true);
        check("dc1-gpu-a100-x7k2p", false);
        check("dc1-gpu", false);
        check("dc1-gpu-x7k2", false);
        check("dc2-gpu-x7k2p", false);
        let long = "a".repeat(70);
        assert!(is_generated(&format!("{}x7k2p", "a".repeat(58)), &long, "gpu"));
    }
}
