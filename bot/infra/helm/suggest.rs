//! The text to paste where a workload was not found and a chart may make it: the values that ask for the GPU, with file
//! and key, or what the values of its release would have to say.
//!
//! Kustomize's `helmCharts`, sets of applications, lists whose workloads only the chart knows, templates of values: what
//! they make is not read, but where they ask for a GPU is seen.

use std::collections::BTreeSet;

use slicewright_core::ids::WorkloadId;
use slicewright_yaml::{Node, Step};

use super::asked::{names, requests};
use super::edit::{Lines, SIDES, nested};
use super::release::Source;
use super::{Helm, lines_by_hand};
use crate::infra::helm_template::helm_chart;
use crate::infra::repository::{Parsed, Repository, is_kustomization};
use crate::infra::text::one_line;
use crate::infra::walk::{self, At};
use crate::infra::workload_edit::Wish;

/// The most places that are shown.
const MOST: usize = 5;

/// Values that a file gives to a chart.
struct Values {
    /// The way to them from the document's root.
    way: Vec<Step>,
    /// The release's name, where the file says it.
    release: Option<String>,
}

/// One place among values that asks for the resource.
struct Hit {
    place: (String, usize),
    /// Key of the values in their file; empty: the file is values. `None`: the text says itself where it stands.
    of: Option<String>,
    release: Option<String>,
    text: String,
}

/// What people may change for a workload that was not found, if a chart may make it.
pub(in crate::infra) fn text(
    repository: &Repository<'_>,
    id: &WorkloadId,
    wish: &Wish<'_>,
) -> Option<String> {
    let helm = repository.helm();
    let mut hits = hits(repository, helm, wish);
    let is_named = |hit: &Hit| hit.release.as_ref().is_some_and(|release| id.name.contains(release.as_str()));
    if hits.iter().any(is_named) {
        hits.retain(is_named);
    }
    if hits.is_empty() {
        return by_release(helm, id, wish);
    }
    let more = hits.len().saturating_sub(MOST);
    let mut text = String::new();
    for hit in hits.iter().take(MOST) {
        let (path, line) = &hit.place;
        if let Some(of) = &hit.of {
            let of = if of.is_empty() { String::new() } else { format!(", in `{of}`") };
            text.push_str(&format!("# {path}:{line}{of}\n"));
        }
        text.push_str(&hit.text);
    }
    if more > 0 {
        text.push_str(&format!("# and {more} more places like these\n"));
    }
    Some(text)
}

/// Places among values that no known workload takes.
fn hits(repository: &Repository<'_>, helm: &Helm, wish: &Wish<'_>) -> Vec<Hit> {
    let known: BTreeSet<(String, usize)> = helm
        .targets
        .iter()
        .flat_map(|target| requests(&helm.releases[target.release], &target.resources))
        .map(|request| request.place)
        .collect();
    let mut hits = Vec::new();
    for file in repository.files.values() {
        let Ok(parsed) = &file.parsed else { continue };
        if !file.text.contains(wish.from)
            || helm_chart(&repository.texts, file.path).is_some()
            || repository.overlays().patch_files.contains(file.path)
        {
            continue;
        }
        for root in parsed.documents() {
            for values in values(file.path, &At::new(root, Vec::new())) {
                let Some(node) = root.at(&values.way) else { continue };
                if let Some(embedded) = node.as_str() {
                    hits.extend(of_text(repository, (file.path, node.line()), embedded, &values, wish));
                } else {
                    hits.extend(of_tree(file.path, node, &values, wish));
                }
            }
        }
    }
    // Templates of values and of objects are no YAML before they are rendered.
    let is_template = |path: &str| {
        path.ends_with(".gotmpl")
            || helm_chart(&repository.texts, path).is_some()
            || repository.files.get(path).is_some_and(|file| file.parsed.is_err())
    };
    let written: BTreeSet<(&str, usize)> = helm
        .targets
        .iter()
        .filter_map(|target| target.written.as_ref())
        .flat_map(|(path, lines)| lines.iter().map(|line| (path.as_str(), *line)))
        .collect();
    for (path, text) in
        repository.texts.iter().filter(|(path, text)| text.contains(wish.from) && is_template(path))
    {
        let lines: Vec<usize> =
            numbers(text, wish.from).filter(|line| !written.contains(&(*path, *line))).collect();
        if let (Some(first), Some(text)) = (lines.first(), lines_by_hand(repository, path, &lines, wish)) {
            let place = ((*path).to_owned(), *first);
            hits.push(Hit { place, of: None, release: None, text });
        }
    }
    hits.retain(|hit| !known.contains(&hit.place));
    hits
}

/// Lines, from 1, that have the resource as a key.
fn numbers<'t>(text: &'t str, resource: &'t str) -> impl Iterator<Item = usize> + 't {
    let is_key = move |line: &str| {
        line.trim_start()
            .trim_start_matches(['"', '\''])
            .strip_prefix(resource)
            .is_some_and(|rest| rest.trim_start_matches(['"', '\'']).trim_start().starts_with(':'))
    };
    text.lines().enumerate().filter(move |(_, line)| is_key(line)).map(|(n, _)| n + 1)
}

/// Where a document gives values to a chart.
fn values(path: &str, root: &At<'_>) -> Vec<Values> {
    let text = |at: &At<'_>, dotted: &str| walk::text(at.node, dotted).map(ToOwned::to_owned);
    let below = |at: &At<'_>, key: &str, release: Option<String>| {
        let way = at.path.iter().cloned().chain([Step::from(key)]).collect();
        Values { way, release: release.filter(|name| !name.is_empty() && !name.contains("{{")) }
    };
    if is_kustomization(path) {
        let charts = root.all("helmCharts[]");
        return charts
            .iter()
            .map(|chart| below(chart, "valuesInline", text(chart, "releaseName").or(text(chart, "name"))))
            .collect();
    }
    let name = text(root, "metadata.name");
    let sources = |spec: &str, name: Option<String>| -> Vec<Values> {
        let all = [format!("{spec}.source"), format!("{spec}.sources[]")];
        let helms = all.iter().flat_map(|dotted| root.all(&format!("{dotted}.helm")));
        helms
            .flat_map(|helm| {
                let release = text(&helm, "releaseName").or(name.clone());
                ["valuesObject", "values"].map(|key| below(&helm, key, release.clone()))
            })
            .collect()
    };
    match walk::text(root.node, "kind") {
        Some("HelmRelease") => {
            let release = text(root, "spec.releaseName").or(name);
            root.down("spec").iter().map(|spec| below(spec, "values", release.clone())).collect()
        }
        Some("Application") => sources("spec", name),
        Some("ApplicationSet") => sources("spec.template.spec", text(root, "spec.template.metadata.name")),
        Some(_) => Vec::new(),
        None => vec![Values { way: Vec::new(), release: None }],
    }
}

/// Places in a mapping of values, one for each `resources`.
fn of_tree(path: &str, node: Node<'_>, values: &Values, wish: &Wish<'_>) -> Vec<Hit> {
    let mut found: Vec<(Vec<Step>, usize, Lines)> = Vec::new();
    let mut open = vec![At::new(node, Vec::new())];
    while let Some(at) = open.pop() {
        let mut asks = Vec::new();
        let mut first = usize::MAX;
        for side in SIDES {
            let Some((side, value)) =
                at.get(side).and_then(|side| Some((side.clone(), side.get(wish.from)?)))
            else {
                continue;
            };
            first = first.min(value.node.line());
            let count = wish
                .count
                .map_or_else(|| value.node.as_str().unwrap_or("1").to_owned(), |count| count.to_string());
            let way = side.path.iter().cloned().chain([Step::from(wish.to)]).collect();
            asks.push((way, count));
        }
        if !asks.is_empty() {
            found.push((at.path.clone(), first, asks));
        }
        open.extend(at.entries().into_iter().map(|(_, value)| value));
        open.extend(at.items());
    }
    found.sort_by_key(|(_, line, _)| *line);
    found
        .into_iter()
        .map(|(resources, line, asks)| {
            let above = resources.split_last().map(|(_, above)| above.to_vec()).unwrap_or_default();
            let mut lines = if wish.from == wish.to { Vec::new() } else { asks };
            lines.extend(pins(&above, wish));
            Hit {
                place: (path.to_owned(), line),
                of: Some(dotted(&values.way)),
                release: values.release.clone(),
                text: nested(&lines),
            }
        })
        .collect()
}

/// Places in values that are one text, perhaps with a template's parts in it.
fn of_text(
    repository: &Repository<'_>,
    (path, start): (&str, usize),
    embedded: &str,
    values: &Values,
    wish: &Wish<'_>,
) -> Vec<Hit> {
    if let Ok(parsed) = Parsed::new(embedded) {
        let hits = parsed.documents().flat_map(|root| of_tree(path, root, values, wish));
        // Its lines are counted from where the text begins.
        return hits.map(|hit| Hit { place: (path.to_owned(), start), ..hit }).collect();
    }
    let file = repository.texts.get(path).copied().unwrap_or_default();
    let lines: Vec<usize> = numbers(file, wish.from)
        .filter(|line| *line > start)
        .take(numbers(embedded, wish.from).count())
        .collect();
    let text = lines_by_hand(repository, path, &lines, wish);
    text.map(|text| Hit {
        place: (path.to_owned(), start),
        of: Some(dotted(&values.way)),
        release: values.release.clone(),
        text,
    })
    .into_iter()
    .collect()
}

/// Entries of a node selector beside resources.
fn pins(above: &[Step], wish: &Wish<'_>) -> Lines {
    let below = |key: &str| above.iter().cloned().chain(["nodeSelector".into(), key.into()]).collect();
    wish.pin.iter().map(|(key, value)| (below(key), crate::infra::text::yaml(value))).collect()
}

/// `helmCharts[0].valuesInline`
fn dotted(way: &[Step]) -> String {
    let mut text = String::new();
    for step in way {
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => text.push_str(&format!(".{key}")),
            Step::Position(n) => text.push_str(&format!("[{n}]")),
        }
    }
    one_line(&text)
}

/// What the values of the release that may make the workload would say: its chart is elsewhere and brings the resources
/// by itself, so that its own key is taken away.
fn by_release(helm: &Helm, id: &WorkloadId, wish: &Wish<'_>) -> Option<String> {
    let release = helm.releases.iter().find(|release| {
        let Source::Elsewhere(chart) = &release.source else { return false };
        let named =
            release.name.as_ref().is_some_and(|name| names(release, name, chart, &[]).contains(&id.name));
        named && release.namespace.as_ref() == Some(&id.namespace)
    })?;
    let count = wish.count.unwrap_or(1).to_string();
    let mut lines: Lines = Vec::new();
    for side in SIDES.iter().filter(|_| wish.from != wish.to) {
        let below = |key: &str| vec!["resources".into(), Step::from(*side), key.into()];
        lines.push((below(wish.from), "null".to_owned()));
        lines.push((below(wish.to), count.clone()));
    }
    lines.extend(pins(&[], wish));
    Some(format!(
        "# values of the release at {}, whose chart is not in the repository: with the keys that it gives to its pods\n{}",
        one_line(&release.place).trim_matches('`'),
        nested(&lines)
    ))
}
