//! `NodePool`s of Karpenter: the labels of their template.

use slicewright_yaml::{Op, Step};

use super::spot::Spot;
use super::{Declared, Found, LONGEST_COPY, Label, Objects, edit_yaml, second_name};
use crate::infra::repository::Parsed;
use crate::infra::text::{one_line, yaml};
use crate::infra::walk::{self, At};

/// The NodePools of this name.
pub(super) fn find<'a>(objects: &'a Objects<'_>, label: &Label<'a>, name: &str) -> Vec<Found<'a>> {
    objects
        .of("karpenter.sh")
        .filter(|one| one.object.kind == "NodePool")
        .filter_map(|one| {
            let (names, shared) = objects.names(&one);
            if !names.contains(name) {
                return None;
            }
            let root = one.parsed.at(one.object)?;
            Some(found(&one, &root, label, shared))
        })
        .collect()
}

fn found<'a>(one: &Declared<'a>, root: &At<'_>, label: &Label<'a>, shared: Option<String>) -> Found<'a> {
    let mut way = walk::steps("spec.template.metadata.labels");
    way.push(label.key.into());
    let spot = Spot::new(root, &way);
    let today = match (shared, requirement(one, root, label)) {
        (Some(why), _) | (None, Some(why)) => Err(why),
        (None, None) => spot.today.clone().and_then(|today| {
            // A try says whether the text can be edited at all.
            put(one.file.text, one, &way, label.value)?;
            Ok(today)
        }),
    };
    let (object, value) = (one.object.clone(), label.value.to_owned());
    let place = one.place(spot.line);
    Found {
        path: one.file.path.to_owned(),
        today,
        text: format!(
            "spec:\n  template:\n    metadata:\n      labels:\n        {}: {}\n",
            yaml(label.key),
            yaml(label.value)
        ),
        second: second(one, label, &way),
        effects: vec![format!(
            "`{place}`: the label is part of the NodePool's template, so that Karpenter takes all of its nodes as drifted \
             and replaces them, as its disruption budgets allow."
        )],
        place,
        put: Box::new(move |text| {
            let way: Vec<Step> = way.clone();
            edit_yaml(text, &object, &way, Op::Put { value: value.as_str().into() })
        }),
    }
}

fn put(text: &str, one: &Declared<'_>, way: &[Step], value: &str) -> Result<String, String> {
    edit_yaml(text, one.object, way, Op::Put { value: value.into() })
}

/// A requirement on the same label: Karpenter makes no node where the two disagree.
fn requirement(one: &Declared<'_>, root: &At<'_>, label: &Label<'_>) -> Option<String> {
    let entries = root.all("spec.template.spec.requirements[]");
    let entry = entries.iter().find(|entry| walk::text(entry.node, "key") == Some(label.key))?;
    let values = entry.all("values[]");
    let says_it = walk::text(entry.node, "operator") == Some("In")
        && !values.is_empty()
        && values.iter().all(|value| value.node.as_str() == Some(label.value));
    (!says_it).then(|| {
        format!("a requirement of it speaks about `{}` too (`{}`)", label.key, one.place(entry.node.line()))
    })
}

/// The whole document of a second NodePool, or what differs where the text cannot be copied.
fn second(one: &Declared<'_>, label: &Label<'_>, way: &[Step]) -> String {
    let name = second_name(&one.object.name, label, 63);
    let renamed = edit_yaml(
        one.file.text,
        one.object,
        &walk::steps("metadata.name"),
        Op::Set { value: name.as_str().into() },
    );
    let copied = renamed.and_then(|text| {
        let text = put(&text, one, way, label.value)?;
        let parsed = Parsed::new(&text)?;
        let root = parsed.at(one.object).ok_or("the object is gone")?;
        let copy = text.get(root.node.span()).unwrap_or_default().trim_end().to_owned();
        // An item of a list stands indented: it is no document of its own.
        if copy.is_empty() || copy.len() > LONGEST_COPY || !one.object.prefix.is_empty() {
            Err("no copy".to_owned())
        } else {
            Ok(copy)
        }
    });
    match copied {
        Ok(copy) => format!("---\n{copy}\n"),
        Err(_) => format!(
            "# a copy of NodePool {} with these changes\nmetadata:\n  name: {}\nspec:\n  template:\n    metadata:\n      \
             labels:\n        {}: {}\n",
            one_line(&one.object.name),
            yaml(&name),
            yaml(label.key),
            yaml(label.value)
        ),
    }
}

/// What Karpenter does not know about slices of cards and shares of them, read off one NodePool.
pub(super) fn traps(one: &Declared<'_>, root: &At<'_>, label: &Label<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for entry in root.all("spec.template.spec.requirements[]") {
        let Some(key) = walk::text(entry.node, "key") else { continue };
        let speaks = key == "nvidia.com/gpu.product" || key.starts_with("nvidia.com/mig.");
        if speaks && key != label.key {
            found.push(format!(
                "`{}`: a requirement on `{}`, a label that GPU Feature Discovery sets once a node runs and that changes \
                 with the layout.",
                one.place(entry.node.line()),
                one_line(key)
            ));
        }
    }
    if let Some(limit) =
        root.get("spec").and_then(|spec| spec.get("limits")).and_then(|at| at.get("nvidia.com/gpu"))
    {
        found.push(format!(
            "`{}`: the limit on `nvidia.com/gpu` counts whole cards; cards that are cut or shared are counted otherwise.",
            one.place(limit.node.line())
        ));
    }
    found
}

/// Whether a `NodeOverlay` tells Karpenter of this resource.
pub(super) fn overlay_tells(objects: &Objects<'_>, resource: &str) -> bool {
    objects.of("karpenter.sh").filter(|one| one.object.kind == "NodeOverlay").any(|one| {
        one.parsed.at(one.object).and_then(|root| root.get("spec")?.get("capacity")?.get(resource)).is_some()
    })
}

/// The NodePool with its root, for the traps.
pub(super) fn named<'a>(objects: &'a Objects<'_>, name: &str) -> Vec<(Declared<'a>, At<'a>)> {
    objects
        .of("karpenter.sh")
        .filter(|one| one.object.kind == "NodePool" && objects.names(one).0.contains(name))
        .filter_map(|one| Some((one, one.parsed.at(one.object)?)))
        .collect()
}
