//! `MachineDeployment`s and `MachinePool`s of Cluster API.
//!
//! Of a machine's labels only those of three domains reach its node, so that this label stands in what kubeadm starts the
//! kubelet with. Where the machines carry it already, the controller was told to copy it, and it is changed there. Groups of
//! a cluster's topology are those of `topology`.

use slicewright_core::inventory::sanitised_label;
use slicewright_core::plan::node_group::NodeGroup;
use slicewright_yaml::{Op, Step, Value};

use super::spot::Spot;
use super::{Declared, Found, Label, Objects, Today, edit_yaml, second_name, topology};
use crate::infra::manifest::strings;
use crate::infra::text::{one_line, yaml};
use crate::infra::walk::{self, At};

/// The domain whose labels Cluster API copies from machines to nodes, and which tells a group.
const SYNCED: &str = "node.cluster.x-k8s.io";

const LABELS: &str = "spec.template.metadata.labels";

const KUBELET: &str = "spec.template.spec.joinConfiguration.nodeRegistration.kubeletExtraArgs";

/// The kubelet's option, as kubeadm names it.
const OPTION: &str = "node-labels";

/// The machines of this group, where people declare them: in the topology of their cluster if they have one. And where
/// they stand as Cluster API made them.
pub(super) fn find<'a>(
    objects: &'a Objects<'_>,
    label: &Label<'a>,
    group: &NodeGroup,
) -> (Vec<Found<'a>>, Vec<String>) {
    let machines =
        |one: &Declared<'_>| matches!(one.object.kind.as_str(), "MachineDeployment" | "MachinePool");
    let mut all = topology::find(objects, label, group);
    let mut made = Vec::new();
    for one in objects.of("cluster.x-k8s.io").filter(machines) {
        let Some(root) = one.parsed.at(one.object) else { continue };
        let (names, shared) = objects.names(&one);
        let is_it = if group.name.is_empty() {
            carries(root.down(LABELS), group)
        } else {
            names.contains(&group.name)
        };
        if is_it && topology::is_made(&one) {
            made.push(format!(
                "`{}` (it is made of its cluster's topology, which takes back what is edited there)",
                one.place(one.object.line)
            ));
        } else if is_it {
            all.push(found(objects, &one, &root, label, shared));
        }
    }
    (all, made)
}

/// Whether the nodes carry every label that the machines hand on, and there is one.
pub(super) fn carries(labels: Option<At<'_>>, group: &NodeGroup) -> bool {
    let labels = labels.map(|labels| strings(&labels)).unwrap_or_default();
    let mut synced = labels
        .iter()
        .filter(|(key, _)| {
            let domain = key.split('/').next().unwrap_or_default();
            domain == SYNCED || domain.ends_with(&format!(".{SYNCED}"))
        })
        .peekable();
    synced.peek().is_some()
        && synced.all(|(key, value)| group.labels.get(&sanitised_label(key)) == Some(value))
}

fn found<'a>(
    objects: &'a Objects<'_>,
    one: &Declared<'a>,
    root: &At<'_>,
    label: &Label<'a>,
    shared: Option<String>,
) -> Found<'a> {
    let mut way = walk::steps(LABELS);
    way.push(label.key.into());
    let spot = Spot::new(root, &way);
    if let Ok(Today::Set(_)) = &spot.today {
        let (object, value) = (one.object.clone(), label.value.to_owned());
        return Found {
            path: one.file.path.to_owned(),
            place: one.place(spot.line),
            today: shared.map_or(spot.today, Err),
            text: format!("{}: {}\n", yaml(label.key), yaml(label.value)),
            second: second(one, label),
            effects: vec![format!(
                "`{}`: Cluster API copies this label to nodes that run as well, where its controller is told to \
                 (`--additional-sync-machine-labels`).",
                one.place(spot.line)
            )],
            put: Box::new(move |text| {
                edit_yaml(text, &object, &way, Op::Set { value: value.as_str().into() })
            }),
        };
    }
    match bootstrap(objects, one, root) {
        Ok(template) => {
            let shared = shared.or_else(|| objects.names(&template).1);
            kubelet(&template, one, label, shared)
        }
        Err(why) => refused(one, label, shared.unwrap_or(why)),
    }
}

/// The one `KubeadmConfigTemplate` that these machines, and no others, start from.
fn bootstrap<'a>(
    objects: &'a Objects<'_>,
    one: &Declared<'_>,
    root: &At<'_>,
) -> Result<Declared<'a>, String> {
    let reference = |root: &At<'_>| {
        let at = root.down("spec.template.spec.bootstrap.configRef")?;
        let part = |key: &str| walk::text(at.node, key).map(str::to_owned);
        Some((part("kind")?, part("name")?))
    };
    let (kind, name) = reference(root).ok_or("it names no bootstrap configuration")?;
    if kind != "KubeadmConfigTemplate" {
        return Err(format!(
            "its machines start from {} `{}`, and Cluster API copies no label of this domain from machines to nodes",
            one_line(&kind),
            one_line(&name)
        ));
    }
    let users = objects
        .of("cluster.x-k8s.io")
        .filter(|other| other.object.namespace == one.object.namespace)
        .filter_map(|other| reference(&other.parsed.at(other.object)?))
        .filter(|named| *named == (kind.clone(), name.clone()))
        .count();
    if users > 1 {
        return Err(format!("{users} groups of machines start from {kind} `{}`", one_line(&name)));
    }
    let templates: Vec<Declared<'_>> = objects
        .of("bootstrap.cluster.x-k8s.io")
        .filter(|other| other.object.kind == kind && other.object.namespace == one.object.namespace)
        .filter(|other| other.object.name == name)
        .collect();
    match templates.as_slice() {
        [template] => Ok(*template),
        [] => Err(format!("{kind} `{}` was not found among the cluster's files", one_line(&name))),
        several => {
            let places: Vec<String> =
                several.iter().map(|other| format!("`{}`", other.place(other.object.line))).collect();
            Err(format!("{kind} `{}` is declared more than once: {}", one_line(&name), places.join(", ")))
        }
    }
}

/// How `node-labels` stands in a template.
struct NodeLabels {
    /// The way to the text that holds the labels, or to the collection that gets it.
    way: Vec<Step>,
    /// The labels as one text; `None`: not there.
    text: Option<String>,
    /// Later versions of the API list options by name instead of mapping them.
    listed: bool,
    line: usize,
}

fn option(root: &At<'_>, api_version: &str) -> NodeLabels {
    let base = walk::steps(KUBELET);
    let at = root.down(KUBELET);
    let listed = at.as_ref().map_or(api_version.ends_with("/v1beta2"), |at| at.node.is_sequence());
    let line = at.as_ref().map_or(root.node.line(), |at| at.node.line());
    let items = at.iter().flat_map(At::items).enumerate();
    for (n, item) in items {
        if walk::text(item.node, "name") == Some(OPTION) {
            let way = [base, vec![n.into(), "value".into()]].concat();
            let text = Some(walk::text(item.node, "value").unwrap_or_default().to_owned());
            return NodeLabels { way, text, listed, line: item.node.line() };
        }
    }
    if listed {
        return NodeLabels { way: base, text: None, listed, line };
    }
    let held = at.as_ref().and_then(|at| at.get(OPTION));
    let line = held.as_ref().map_or(line, |held| held.node.line());
    let text = held.map(|held| held.node.as_str().unwrap_or_default().to_owned());
    NodeLabels { way: [base, vec![OPTION.into()]].concat(), text, listed, line }
}

/// The labels of the option with one of them set; and its value of today.
fn with_label(text: &str, label: &Label<'_>) -> Result<(Today, String), String> {
    let parts: Vec<&str> = text.split(',').filter(|part| !part.is_empty()).collect();
    let start = format!("{}=", label.key);
    let mut held = parts.iter().filter_map(|part| part.trim().strip_prefix(start.as_str()));
    let today = held.next().map_or(Today::Unset, |value| Today::Set(value.to_owned()));
    if held.next().is_some() {
        return Err(format!("`{OPTION}` sets `{}` twice", label.key));
    }
    let wanted = format!("{}={}", label.key, label.value);
    let changed: Vec<String> = parts
        .iter()
        .map(|part| if part.trim().starts_with(&start) { wanted.clone() } else { (*part).to_owned() })
        .chain((today == Today::Unset).then(|| wanted.clone()))
        .collect();
    Ok((today, changed.join(",")))
}

fn kubelet<'a>(
    template: &Declared<'a>,
    machines: &Declared<'a>,
    label: &Label<'a>,
    shared: Option<String>,
) -> Found<'a> {
    let Some(root) = template.parsed.at(template.object) else {
        return refused(machines, label, "its bootstrap configuration cannot be read".to_owned());
    };
    let option = option(&root, &template.object.api_version);
    let held = with_label(option.text.as_deref().unwrap_or_default(), label);
    let today = match (shared, held) {
        (Some(why), _) | (None, Err(why)) => Err(why),
        (None, Ok((today, _))) => Ok(today),
    };
    let (object, label) = (template.object.clone(), *label);
    let place = template.place(option.line);
    let name = one_line(&machines.object.name);
    Found {
        path: template.file.path.to_owned(),
        today,
        text: format!("kubeletExtraArgs:\n  {OPTION}: {}\n", yaml(&format!("{}={}", label.key, label.value))),
        second: second(machines, &label),
        effects: vec![format!(
            "`{place}`: machines that are made from now on start with this label; those that run keep theirs until they \
             are replaced (`clusterctl alpha rollout restart machinedeployment/{name}`)."
        )],
        place,
        put: Box::new(move |text| {
            let (_, labels) = with_label(option.text.as_deref().unwrap_or_default(), &label)?;
            let labels = Value::String(labels);
            if !option.listed || option.text.is_some() {
                return edit_yaml(text, &object, &option.way, Op::Put { value: labels });
            }
            let entry =
                Value::Mapping(vec![("name".to_owned(), OPTION.into()), ("value".to_owned(), labels)]);
            edit_yaml(text, &object, &option.way, Op::Append { value: entry.clone() }).or_else(|_| {
                edit_yaml(text, &object, &option.way, Op::Put { value: Value::Sequence(vec![entry]) })
            })
        }),
    }
}

/// Left to people, with what kubelets must be started with.
fn refused<'a>(one: &Declared<'a>, label: &Label<'a>, why: String) -> Found<'a> {
    Found {
        path: one.file.path.to_owned(),
        place: one.place(one.object.line),
        today: Err(why),
        text: format!(
            "# the kubelet of these machines must be started with\n--{OPTION}={}={}\n",
            one_line(label.key),
            one_line(label.value)
        ),
        second: second(one, label),
        effects: Vec::new(),
        put: Box::new(|_| Err("it is not edited".to_owned())),
    }
}

/// What a second group of machines needs.
fn second(one: &Declared<'_>, label: &Label<'_>) -> String {
    let name = second_name(&one.object.name, label, 63);
    format!(
        "# copies of {} `{}` and of its KubeadmConfigTemplate, both named `{name}`; in the template\n\
         kubeletExtraArgs:\n  {OPTION}: {}\n",
        one.object.kind,
        one_line(&one.object.name),
        yaml(&format!("{}={}", label.key, label.value))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_label_of_the_kubelets_option_changes() {
        let label = Label {
            key: "nvidia.com/mig.config",
            value: "all-1g.5gb",
            previous: None,
            beside: false,
            group: None,
        };
        let check = |text: &str, today: Today, expected: &str| {
            assert_eq!(with_label(text, &label), Ok((today, expected.to_owned())), "{text}");
        };
        check("", Today::Unset, "nvidia.com/mig.config=all-1g.5gb");
        check("a=b", Today::Unset, "a=b,nvidia.com/mig.config=all-1g.5gb");
        check("nvidia.com/mig.config=x,a=b", Today::Set("x".into()), "nvidia.com/mig.config=all-1g.5gb,a=b");
        check(
            "nvidia.com/mig.config.x=1",
            Today::Unset,
            "nvidia.com/mig.config.x=1,nvidia.com/mig.config=all-1g.5gb",
        );
        assert!(with_label("nvidia.com/mig.config=x,nvidia.com/mig.config=y", &label).is_err());
    }
}
