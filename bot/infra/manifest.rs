//! Pods and their owners in plain manifests: where each GPU request stands, and the edit that changes it.

use std::collections::{BTreeMap, BTreeSet};

use slicewright_core::ids::WorkloadId;
use slicewright_core::inventory::DeclaredWorkload;
use slicewright_core::plan::Change;
use slicewright_yaml::{Document, Edit, Op, RefusalKind, Shared, Step};

use super::ManualChange;
use super::draft::Draft;
use super::format::{Edition, Format, Reading};
use super::kinds::{self, Carrier, Surge};
use super::kustomize::{Variant, parent};
use super::memory_flags::memory_flags;
use super::repository::{File, Object, Parsed, Repository};
use super::walk::{self, At};

/// Annotation that keeps the bot away from a workload or a namespace.
const OPT_OUT: &str = "slicewright/ignore";

/// Node label that holds the product name of the cards.
pub(super) const PRODUCT: &str = "nvidia.com/gpu.product";

/// Plain manifests, `List` kinds and custom resources with pod templates.
#[derive(Debug)]
pub(super) struct Manifests;

/// One declaration of a workload that asks for a GPU.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    pub(super) path: String,
    pub(super) object: Object,
    /// Where `nvidia.com/…` stands as a resource.
    pub(super) requests: Vec<GpuRequest>,
    /// Paths of the pod specs that ask for a GPU.
    pub(super) pods: Vec<Vec<Step>>,
    /// Labels of the pod templates, for selectors elsewhere.
    pub(super) labels: BTreeMap<String, String>,
    /// Node selector terms on the product label outside of `nodeSelector`, as `line: value`.
    pub(super) affinity: Vec<(usize, String)>,
    pub(super) variants: Vec<Variant>,
    declared: DeclaredWorkload,
}

/// One key `nvidia.com/…` under `requests` or `limits`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GpuRequest {
    /// The way to the mapping that holds the key.
    pub(super) mapping: Vec<Step>,
    /// `nvidia.com/gpu`.
    pub(super) resource: String,
    /// As written, without quotes.
    pub(super) value: String,
    /// Container name.
    pub(super) container: String,
    /// `limits` or `requests`.
    pub(super) side: &'static str,
    pub(super) line: usize,
    /// Reached through an alias or a merge key: the text stands elsewhere.
    borrowed: bool,
}

impl Format for Manifests {
    fn read(&self, repository: &Repository<'_>, reading: &mut Reading) {
        let ignored_namespaces = ignored_namespaces(repository);
        for finding in findings(repository) {
            let place = &finding.declared.place;
            let name = format!("{} `{}`", finding.object.kind, finding.object.name);
            let reason = refusal(repository, &finding);
            for variant in &finding.variants {
                if finding.object.name.is_empty() {
                    reading.note(format!("`{place}`: a {} without a name was not matched", finding.object.kind));
                    continue;
                }
                let Some(namespace) = &variant.namespace else {
                    reading.note(format!(
                        "`{place}`: {name} names no namespace and no kustomization gives it one, so it was not matched"
                    ));
                    continue;
                };
                let mut declared = finding.declared.clone();
                declared.ignored |= variant.ignored || ignored_namespaces.contains(namespace);
                declared.editable = reason.clone().map_or(Ok(()), Err);
                if let Some(patch) = &variant.patched {
                    declared.editable = Err(format!("the patch at `{patch}` speaks about its GPU too"));
                }
                reading.add(WorkloadId::new(&finding.object.kind, namespace, &variant.name), declared);
            }
        }
        templates(repository, reading);
        unknown_kinds(repository, reading);
    }

    fn edit(&self, edition: &Edition<'_>, open: &mut Vec<&Change>, draft: &mut Draft<'_>) {
        if !open.iter().any(|change| matches!(change, Change::SetWorkloadResource { .. })) {
            return;
        }
        let findings = findings(edition.repository);
        open.retain(|change| {
            let Change::SetWorkloadResource { workload, from, to, count, pin } = change else { return true };
            let Some(finding) = findings.iter().find(|finding| finding.is(workload)) else { return true };
            let wish = Wish { from, to, count: Some(*count), pin };
            let text = draft.text(&finding.path).unwrap_or_default().to_owned();
            match apply(&text, finding, &wish) {
                Ok(changed) => {
                    draft.set(&finding.path, changed);
                }
                Err(why) => draft.manual(by_hand(workload, Some(&finding.declared.place), &wish, why)),
            }
            false
        });
    }
}

impl Finding {
    /// Whether this declares `workload`.
    pub(super) fn is(&self, workload: &WorkloadId) -> bool {
        self.object.kind == workload.kind
            && self.variants.iter().any(|variant| {
                variant.name == workload.name && variant.namespace.as_deref() == Some(&workload.namespace)
            })
    }
}

/// What a workload should ask for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish<'a> {
    pub(super) from: &'a str,
    pub(super) to: &'a str,
    /// `None`: whatever stands there.
    pub(super) count: Option<u32>,
    pub(super) pin: &'a BTreeMap<String, String>,
}

/// The change in words and text, for people.
pub(super) fn by_hand(workload: &WorkloadId, place: Option<&str>, wish: &Wish<'_>, why: String) -> ManualChange {
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

/// Every declaration of a workload with a GPU, in the order of paths.
pub(super) fn findings(repository: &Repository<'_>) -> Vec<Finding> {
    let overlays = repository.overlays();
    repository
        .objects()
        .filter(|(file, _, _)| {
            helm_chart(&repository.texts, file.path).is_none() && !overlays.patch_files.contains(file.path)
        })
        .filter_map(|(file, parsed, object)| {
            let mut finding = find(file.path, parsed, object)?;
            finding.variants = overlays.variants(file.path, object);
            Some(finding)
        })
        .collect()
}

/// One object as a finding, if it is a workload with a GPU.
fn find(path: &str, parsed: &Parsed, object: &Object) -> Option<Finding> {
    let carrier = kinds::carrier(&object.api_version, &object.kind)?;
    let root = parsed.at(object)?;
    let mut requests = Vec::new();
    let mut pods = Vec::new();
    let mut containers: Vec<At<'_>> = carrier.containers.iter().flat_map(|dotted| root.all(dotted)).collect();
    for container in &containers {
        gpu_requests(container, &mut requests);
    }
    let mut labels = BTreeMap::new();
    let mut node_selector = BTreeMap::new();
    let mut tolerations = BTreeSet::new();
    let mut affinity = Vec::new();
    let mut ignored = opts_out(&root);
    // The containers of an InferenceService's model stand beside its pod spec.
    let beside = !requests.is_empty();
    for dotted in carrier.pods {
        for pod in root.all(dotted) {
            let before = requests.len();
            let inside: Vec<At<'_>> =
                ["initContainers[]", "containers[]"].iter().flat_map(|list| pod.all(list)).collect();
            for container in &inside {
                gpu_requests(container, &mut requests);
            }
            let holds = requests.len() > before || (beside && *dotted == "spec.predictor");
            if holds {
                containers.extend(inside);
                read_pod(&pod, &mut node_selector, &mut tolerations, &mut affinity);
                pods.push(pod.path.clone());
            }
        }
        if let Some(template) = dotted.strip_suffix(".spec") {
            for template in root.all(template) {
                ignored |= opts_out(&template);
                if let Some(found) = template.down("metadata.labels") {
                    labels.extend(strings(&found));
                }
            }
        } else if let Some(found) = root.down("metadata.labels") {
            labels.extend(strings(&found));
        }
    }
    if requests.is_empty() {
        return None;
    }
    let line = requests.iter().find(|request| request.side == "limits").unwrap_or(&requests[0]).line;
    let replicas = carrier.replicas.and_then(|dotted| number(&root, dotted));
    let declared = DeclaredWorkload {
        place: format!("{path}:{line}"),
        editable: Ok(()),
        max_surge: max_surge(&root, carrier, replicas),
        replicas,
        ignored,
        node_selector,
        tolerations,
        memory_flags: memory_flags(&containers),
    };
    Some(Finding {
        path: path.to_owned(),
        object: object.clone(),
        requests,
        pods,
        labels,
        affinity,
        variants: Vec::new(),
        declared,
    })
}

/// Whether a resource name stands for a GPU or a share of one.
pub(super) fn is_gpu(resource: &str) -> bool {
    resource.strip_prefix("nvidia.com/").is_some_and(|rest| {
        rest == "gpu" || rest == "gpu.shared" || rest.starts_with("mig-")
    })
}

fn gpu_requests(container: &At<'_>, found: &mut Vec<GpuRequest>) {
    let name = walk::text(container.node, "name").unwrap_or_default();
    for side in ["limits", "requests"] {
        let Some(mapping) = container.down(&format!("resources.{side}")) else { continue };
        for (key, value) in mapping.entries() {
            if !is_gpu(key) {
                continue;
            }
            let via = value.node.via();
            found.push(GpuRequest {
                mapping: mapping.path.clone(),
                resource: key.to_owned(),
                value: value.node.as_str().unwrap_or_default().to_owned(),
                container: name.to_owned(),
                side,
                line: value.node.line(),
                borrowed: mapping.node.via().alias || via.merge,
            });
        }
    }
}

fn read_pod(
    pod: &At<'_>,
    node_selector: &mut BTreeMap<String, String>,
    tolerations: &mut BTreeSet<String>,
    affinity: &mut Vec<(usize, String)>,
) {
    if let Some(selector) = pod.get("nodeSelector") {
        node_selector.extend(strings(&selector));
    }
    for toleration in pod.all("tolerations[]") {
        let part = |key: &str| walk::text(toleration.node, key);
        tolerations.insert(match (part("key"), part("operator"), part("value")) {
            (None, _, _) => "*".to_owned(),
            (Some(key), Some("Exists"), _) => key.to_owned(),
            (Some(key), _, Some(value)) => format!("{key}={value}"),
            (Some(key), _, None) => format!("{key}="),
        });
    }
    let terms = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[].matchExpressions[]";
    for term in pod.all(terms) {
        if walk::text(term.node, "key") == Some(PRODUCT) && walk::text(term.node, "operator") == Some("In") {
            affinity.extend(
                term.all("values[]")
                    .iter()
                    .filter_map(|value| Some((value.node.line(), value.node.as_str()?.to_owned()))),
            );
        }
    }
}

/// The entries of a mapping whose values are scalars.
pub(super) fn strings(mapping: &At<'_>) -> BTreeMap<String, String> {
    mapping
        .node
        .entries()
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value.as_str()?.to_owned())))
        .collect()
}

fn opts_out(object: &At<'_>) -> bool {
    object
        .down("metadata.annotations")
        .and_then(|annotations| annotations.node.get(OPT_OUT))
        .and_then(|value| value.as_str())
        .is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

fn ignored_namespaces(repository: &Repository<'_>) -> BTreeSet<String> {
    repository
        .objects()
        .filter(|(_, _, object)| object.kind == "Namespace")
        .filter(|(_, parsed, object)| parsed.at(object).is_some_and(|root| opts_out(&root)))
        .map(|(_, _, object)| object.name.clone())
        .collect()
}

fn number(root: &At<'_>, dotted: &str) -> Option<u32> {
    walk::text(root.node, dotted)?.parse().ok()
}

/// A number, or a percentage of `replicas` rounded up.
fn share_of(text: &str, replicas: u32) -> Option<u32> {
    match text.strip_suffix('%') {
        Some(percent) => {
            let percent: u64 = percent.trim().parse().ok().filter(|percent| *percent <= 10_000)?;
            u32::try_from((u64::from(replicas) * percent).div_ceil(100)).ok()
        }
        None => text.parse().ok(),
    }
}

/// Extra pods while the workload rolls, as written or as Kubernetes does when nothing is written.
fn max_surge(root: &At<'_>, carrier: &Carrier, replicas: Option<u32>) -> Option<u32> {
    let replicas = replicas.unwrap_or(1);
    let stated = |dotted: &str, default: &str| {
        share_of(walk::text(root.node, dotted).unwrap_or(default), replicas)
    };
    match carrier.surge {
        Surge::Never => Some(0),
        Surge::Deployment if walk::text(root.node, "spec.strategy.type") == Some("Recreate") => Some(0),
        Surge::Deployment => stated("spec.strategy.rollingUpdate.maxSurge", "25%"),
        Surge::DaemonSet => stated("spec.updateStrategy.rollingUpdate.maxSurge", "0"),
        Surge::Rollout if walk::down(root.node, "spec.strategy.blueGreen").is_some() => Some(replicas),
        Surge::Rollout => stated("spec.strategy.canary.maxSurge", "25%"),
        Surge::LeaderWorkerSet => stated("spec.rolloutStrategy.rollingUpdateConfiguration.maxSurge", "0"),
        Surge::Unknown => None,
    }
}

/// Why a finding cannot be edited where it stands, told by trying.
fn refusal(repository: &Repository<'_>, finding: &Finding) -> Option<String> {
    if finding.variants.len() > 1 {
        let roots: Vec<String> =
            finding.variants.iter().filter_map(|variant| Some(format!("`{}`", variant.root.as_ref()?))).collect();
        return Some(format!(
            "`{}` is shared by more than one overlay ({}): an edit there would change them all",
            finding.path,
            roots.join(", ")
        ));
    }
    let text = repository.texts.get(finding.path.as_str())?;
    let resources: BTreeSet<&str> = finding.requests.iter().map(|request| request.resource.as_str()).collect();
    let pin = BTreeMap::new();
    resources.into_iter().find_map(|from| {
        let wish = Wish { from, to: "nvidia.com/mig-0g.0gb", count: None, pin: &pin };
        apply(text, finding, &wish).err()
    })
}

/// Makes one workload ask for something else, or says why that cannot be done here.
///
/// The result is read again: this workload must ask for the new resource everywhere, and every other workload of the
/// file for what it asked for before.
pub(super) fn apply(text: &str, finding: &Finding, wish: &Wish<'_>) -> Result<String, String> {
    let before = Parsed::new(text)?;
    let now = before
        .objects
        .iter()
        .find(|object| object.document == finding.object.document && object.prefix == finding.object.prefix)
        .and_then(|object| find(&finding.path, &before, object))
        .ok_or_else(|| "it is no longer there".to_owned())?;
    let mut edits = Vec::new();
    if wish.from != wish.to {
        let due: Vec<&GpuRequest> = now.requests.iter().filter(|request| request.resource == wish.from).collect();
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
            at.push(wish.from.into());
            edits.push((at, Op::RenameKey { to: wish.to.to_owned() }, request.borrowed));
        }
    }
    for (key, value) in wish.pin {
        for pod in &now.pods {
            let mut at = pod.clone();
            at.extend(["nodeSelector".into(), key.as_str().into()]);
            let root = before.at(&Object { prefix: Vec::new(), ..finding.object.clone() });
            let old = root.and_then(|root| root.node.at(&at)).and_then(|node| node.as_str().map(ToOwned::to_owned));
            match old {
                Some(old) if old == *value => continue,
                Some(old) if key == PRODUCT && product(&old) == product(value) => {}
                Some(old) => {
                    return Err(format!("its node selector asks for `{key}: {old}`, the plan needs `{value}`"));
                }
                None => {}
            }
            edits.push((at, Op::Put { value: value.as_str().into() }, false));
        }
    }
    if edits.is_empty() {
        return Ok(text.to_owned());
    }
    let changed = write(text, finding.object.document, &edits)?;
    check(&finding.path, &before, &changed, &finding.object, wish)?;
    Ok(changed)
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
            let what = if is_target { "not all of its pods".to_owned() } else { format!("{} `{}` too", old.kind, old.name) };
            return Err(format!("its text is shared through an anchor: the edit would change {what}"));
        }
    }
    Ok(())
}

/// The folder of the Helm chart whose `templates/` hold `path`.
pub(super) fn helm_chart<'p>(texts: &BTreeMap<&str, &str>, path: &'p str) -> Option<&'p str> {
    path.match_indices("/templates/").map(|(at, _)| &path[..at]).chain(path.strip_prefix("templates/").map(|_| "")).find(
        |folder| {
            let chart = if folder.is_empty() { "Chart.yaml".to_owned() } else { format!("{folder}/Chart.yaml") };
            texts.contains_key(chart.as_str())
        },
    )
}

/// GPU requests in templates: named where the text tells whose they are, noted where it does not.
fn templates(repository: &Repository<'_>, reading: &mut Reading) {
    for file in repository.files.values() {
        let chart = helm_chart(&repository.texts, file.path);
        if chart.is_none() && file.parsed.is_ok() {
            continue;
        }
        let why = match chart {
            Some("") => "it is rendered by the Helm chart at the root of the repository".to_owned(),
            Some(chart) => format!("it is rendered by the Helm chart `{chart}`"),
            None => match &file.parsed {
                Err(reason) => reason.clone(),
                Ok(_) => continue,
            },
        };
        for guess in guesses(file) {
            let place = format!("{}:{}", file.path, guess.line);
            let namespace = guess.namespace.or_else(|| {
                repository.overlays().of_folder(parent(file.path)).and_then(|found| found.namespace.clone())
            });
            match (guess.kind, guess.name, namespace) {
                (Some(kind), Some(name), Some(namespace)) => {
                    let declared = DeclaredWorkload {
                        place,
                        editable: Err(why.clone()),
                        max_surge: None,
                        replicas: None,
                        ignored: guess.ignored,
                        node_selector: BTreeMap::new(),
                        tolerations: BTreeSet::new(),
                        memory_flags: Vec::new(),
                    };
                    reading.add(WorkloadId::new(&kind, &namespace, &name), declared);
                }
                _ => reading.note(format!("`{place}` asks for a GPU, and {why}: its workload was not matched")),
            }
        }
    }
}

/// What the text of one document of a template shows without rendering it.
#[derive(Debug, Default)]
struct Guess {
    kind: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
    ignored: bool,
    line: usize,
}

fn guesses(file: &File<'_>) -> Vec<Guess> {
    let mut found = Vec::new();
    let mut guess = Guess::default();
    let mut in_metadata = false;
    for (number, line) in file.text.lines().enumerate() {
        if line.starts_with("---") {
            found.push(std::mem::take(&mut guess));
            continue;
        }
        let code = line.trim_end();
        let literal = |key: &str| {
            let value = code.trim_start().strip_prefix(key)?.strip_prefix(':')?.trim();
            let value = value.split(" #").next().unwrap_or_default().trim().trim_matches(['"', '\'']);
            (!value.is_empty() && !value.contains(['{', '}', '&', '*'])).then(|| value.to_owned())
        };
        if !code.is_empty() && !line.starts_with([' ', '#', '{']) {
            in_metadata = code.starts_with("metadata:");
            guess.kind = guess.kind.take().or_else(|| literal("kind"));
        } else if in_metadata && line.starts_with("  ") && !line.starts_with("   ") {
            guess.name = guess.name.take().or_else(|| literal("name"));
            guess.namespace = guess.namespace.take().or_else(|| literal("namespace"));
        }
        guess.ignored |= literal(OPT_OUT).is_some_and(|value| value == "true");
        let key = code.trim_start().split(':').next().unwrap_or_default().trim_matches(['"', '\'']);
        if guess.line == 0 && is_gpu(key) {
            guess.line = number + 1;
        }
    }
    found.push(guess);
    found.retain(|guess| guess.line > 0);
    found
}

/// GPU requests in kinds that the table does not know.
fn unknown_kinds(repository: &Repository<'_>, reading: &mut Reading) {
    for (file, parsed, object) in repository.objects() {
        if kinds::carrier(&object.api_version, &object.kind).is_some()
            || helm_chart(&repository.texts, file.path).is_some()
            || repository.overlays().patch_files.contains(file.path)
        {
            continue;
        }
        let Some(root) = parsed.at(object) else { continue };
        let mut line = None;
        walk::every(root.node, &mut |key, node| {
            if key != Some("resources") {
                return;
            }
            for side in ["limits", "requests"] {
                let entries = node.get(side).map(|side| side.entries()).unwrap_or_default();
                if let Some((_, value)) = entries.into_iter().find(|(key, _)| is_gpu(key)) {
                    line.get_or_insert(value.line());
                }
            }
        });
        if let Some(line) = line {
            reading.note(format!(
                "`{}:{line}`: {} `{}` asks for a GPU in a place that is not known to hold pods, so it was not matched",
                file.path, object.kind, object.name
            ));
        }
    }
}

