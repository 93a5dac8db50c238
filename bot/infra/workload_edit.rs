//! The edit that lets one workload ask for another resource, and its proof.

use std::collections::BTreeMap;

use slicewright_core::ids::WorkloadId;
use slicewright_core::plan::Change;
use slicewright_yaml::{Document, Edit, Op, RefusalKind, Shared, Step};

use super::ManualChange;
use super::manifest::{Finding, GpuRequest, PRODUCT, find};
use super::repository::{Object, Parsed};

/// What a workload should ask for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish<'a> {
    pub(super) from: &'a str,
    pub(super) to: &'a str,
    /// `None`: whatever stands there.
    pub(super) count: Option<u32>,
    pub(super) pin: &'a BTreeMap<String, String>,
}

impl<'a> Wish<'a> {
    /// The same resource on nodes of its own.
    pub(super) fn pin(selector: &'a BTreeMap<String, String>) -> Self {
        let same = "nvidia.com/gpu";
        Self { from: same, to: same, count: None, pin: selector }
    }

    /// The workload that a change is about, and what it should ask for. `None`: the change is about something else.
    pub(super) fn of(change: &'a Change) -> Option<(&'a WorkloadId, Self)> {
        match change {
            Change::SetWorkloadResource { workload, from, to, count, pin } => {
                Some((workload, Self { from, to, count: Some(*count), pin }))
            }
            Change::PinWorkload { workload, selector } => Some((workload, Self::pin(selector))),
            Change::SetMigConfig { .. }
            | Change::SetPluginConfig { .. }
            | Change::LabelNodes { .. }
            | Change::LabelGroup { .. }
            | Change::AddNodePool { .. } => None,
        }
    }
}

/// The change in words and text, for people.
pub(super) fn by_hand(
    workload: &WorkloadId,
    place: Option<&str>,
    wish: &Wish<'_>,
    why: String,
) -> ManualChange {
    let Wish { from, to, count, pin } = wish;
    let count = count.unwrap_or(1);
    let mut text = String::new();
    if from != to {
        text = format!("resources:\n  requests:\n    {to}: {count}\n  limits:\n    {to}: {count}\n");
    }
    if !pin.is_empty() {
        text.push_str("nodeSelector:\n");
        for (key, value) in *pin {
            text.push_str(&format!("  {}: {}\n", super::text::yaml(key), super::text::yaml(value)));
        }
    }
    let at = place.map_or_else(String::new, |place| format!(" (`{place}`)"));
    let what = if from == to {
        format!("Set the node selector of {} `{workload}`{at}", workload.kind)
    } else {
        format!("Let {} `{workload}`{at} ask for `{to}: {count}` instead of `{from}: {count}`", workload.kind)
    };
    ManualChange { what, why, text }
}

/// Makes one workload ask for something else, or says why that cannot be done here.
///
/// `before` is what is read of the text. The result is read again: this workload must ask for the new resource everywhere, and every other workload of the
/// file for what it asked for before.
pub(super) fn apply(
    before: &Parsed,
    text: &str,
    finding: &Finding,
    wish: &Wish<'_>,
) -> Result<String, String> {
    let now = before
        .objects
        .iter()
        .find(|object| object.document == finding.object.document && object.prefix == finding.object.prefix)
        .and_then(|object| find(&finding.path, before, object))
        .ok_or_else(|| "it is no longer there".to_owned())?;
    let mut edits = Vec::new();
    if wish.from != wish.to {
        let due: Vec<&GpuRequest> =
            now.requests.iter().filter(|request| request.resource == wish.from).collect();
        if due.is_empty() && !now.requests.iter().any(|request| request.resource == wish.to) {
            return Err(format!("it does not ask for `{}`", wish.from));
        }
        for request in &due {
            if let Some(count) = wish.count
                && request.value.parse() != Ok(count)
            {
                return Err(format!(
                    "line {} asks for {} of `{}`, and the plan is for {count}",
                    request.line, request.value, wish.from
                ));
            }
            let mut at = request.mapping.clone();
            if request.named {
                at.push("name".into());
                edits.push((at, Op::Set { value: wish.to.into() }, request.borrowed));
            } else {
                at.push(wish.from.into());
                edits.push((at, Op::RenameKey { to: wish.to.to_owned() }, request.borrowed));
            }
        }
    }
    if now.pods.is_empty() && !wish.pin.is_empty() {
        return Err(format!("a {} has no node selector of its own", finding.object.kind));
    }
    for (key, value) in wish.pin {
        for pod in &now.pods {
            let mut at = pod.clone();
            at.extend(["nodeSelector".into(), key.as_str().into()]);
            let root = before.at(&Object { prefix: Vec::new(), ..finding.object.clone() });
            let old =
                root.and_then(|root| root.node.at(&at)).and_then(|node| node.as_str().map(ToOwned::to_owned));
            if selects(old.as_deref(), key, value)? {
                continue;
            }
            edits.push((at, Op::Put { value: value.as_str().into() }, false));
        }
    }
    if edits.is_empty() {
        return Ok(text.to_owned());
    }
    let changed = write(text, finding.object.document, &edits)?;
    check(&finding.path, before, &changed, &finding.object, wish)?;
    Ok(changed)
}

/// Whether a node selector that asks for `old` under `key` does so for `value` already; the reason says that it asks
/// for nodes of another kind.
pub(super) fn selects(old: Option<&str>, key: &str, value: &str) -> Result<bool, String> {
    match old {
        Some(old) if old == value => Ok(true),
        Some(old) if key == PRODUCT && product(old) == product(value) => Ok(false),
        Some(old) => Err(format!("its node selector asks for `{key}: {old}`, the plan needs `{value}`")),
        None => Ok(false),
    }
}

/// A product label without what sharing appends to it.
pub(super) fn product(label: &str) -> &str {
    let label = label.strip_suffix("-SHARED").unwrap_or(label);
    label.find("-MIG-").map_or(label, |at| &label[..at])
}

/// Tries the edits as they are; where an anchor is shared, once more at the anchor itself. [`check`] then decides
/// whether what the aliases changed was meant.
fn write(text: &str, document: usize, edits: &[(Vec<Step>, Op, bool)]) -> Result<String, String> {
    let edit = |at: &Vec<Step>, op: &Op, shared: Shared| Edit {
        document: Document::Index(document),
        at: at.clone(),
        op: op.clone(),
        shared,
    };
    let strict: Vec<Edit> = edits.iter().map(|(at, op, _)| edit(at, op, Shared::Refuse)).collect();
    let refusal = match slicewright_yaml::edit(text, &strict) {
        Ok(changed) => return Ok(changed),
        Err(refusal) => refusal,
    };
    let by_anchor = matches!(
        refusal.kind,
        RefusalKind::SharedAnchor | RefusalKind::PathThroughAlias | RefusalKind::PathNotFound
    );
    if !by_anchor || edits.iter().all(|(_, _, borrowed)| *borrowed) {
        return Err(refusal.to_string());
    }
    let lenient: Vec<Edit> = edits
        .iter()
        .filter(|(_, _, borrowed)| !borrowed)
        .map(|(at, op, _)| edit(at, op, Shared::Edit))
        .collect();
    slicewright_yaml::edit(text, &lenient).map_err(|_| refusal.to_string())
}

fn check(path: &str, before: &Parsed, changed: &str, target: &Object, wish: &Wish<'_>) -> Result<(), String> {
    let after = Parsed::new(changed)?;
    if before.objects.len() != after.objects.len() {
        return Err("the edit would change other objects of the file".to_owned());
    }
    for (old, new) in before.objects.iter().zip(&after.objects) {
        let (old_finding, new_finding) = (find(path, before, old), find(path, &after, new));
        let is_target = old.document == target.document && old.prefix == target.prefix;
        let list = |finding: Option<Finding>, rename: bool| -> Vec<(Vec<Step>, String, String)> {
            finding
                .into_iter()
                .flat_map(|finding| finding.requests)
                .map(|request| {
                    let moved = rename && request.resource == wish.from;
                    let resource = if moved { wish.to.to_owned() } else { request.resource };
                    (request.mapping, resource, request.value)
                })
                .collect()
        };
        let selectors = |finding: &Option<Finding>| {
            finding.as_ref().map(|finding| finding.declared.node_selector.clone()).unwrap_or_default()
        };
        let mut wanted = selectors(&old_finding);
        if is_target {
            wanted.extend(wish.pin.clone());
        }
        let same_selectors = wanted == selectors(&new_finding);
        let mut wanted = list(old_finding, is_target);
        let mut got = list(new_finding, false);
        wanted.sort();
        got.sort();
        if wanted != got || !same_selectors {
            let what = if is_target {
                "not all of its pods".to_owned()
            } else {
                format!("{} `{}` too", old.kind, old.name)
            };
            return Err(format!("its text is shared through an anchor: the edit would change {what}"));
        }
    }
    Ok(())
}
