//! GPU requests in Helm templates and other files that are not plain YAML: found in the text, never edited.

use std::collections::{BTreeMap, BTreeSet};

use slicewright_core::ids::WorkloadId;
use slicewright_core::inventory::DeclaredWorkload;

use super::format::Reading;
use super::helm::lines_by_hand;
use super::kustomize::parent;
use super::labels::{Labels, TemplateLabels};
use super::manifest::{OPT_OUT, is_gpu};
use super::repository::{File, Repository};
use super::workload_edit::Wish;

/// The folder of the Helm chart whose `templates/` hold `path`.
pub(super) fn helm_chart<'p>(texts: &BTreeMap<&str, &str>, path: &'p str) -> Option<&'p str> {
    path.match_indices("/templates/")
        .map(|(at, _)| &path[..at])
        .chain(path.strip_prefix("templates/").map(|_| ""))
        .find(|folder| {
            let chart =
                if folder.is_empty() { "Chart.yaml".to_owned() } else { format!("{folder}/Chart.yaml") };
            texts.contains_key(chart.as_str())
        })
}

/// GPU requests in templates: named where the text tells whose they are, noted where it does not.
pub(super) fn read(repository: &Repository<'_>, reading: &mut Reading) {
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
            if repository.helm().claims(file.path, guess.line) {
                continue;
            }
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
                        labels: guess.labels.resolved(),
                        node_selector: BTreeMap::new(),
                        tolerations: BTreeSet::new(),
                        pinned: Some("written in a Helm template".to_owned()),
                        memory_flags: Vec::new(),
                    };
                    reading.add(WorkloadId::new(&kind, &namespace, &name), declared);
                }
                _ => reading
                    .unmatched(format!("`{place}` asks for a GPU, and {why}: its workload was not matched")),
            }
        }
    }
}

/// The line of a template with another resource; `None`: the place is in no template.
pub(super) fn text_by_hand(repository: &Repository<'_>, place: &str, wish: &Wish<'_>) -> Option<String> {
    let (path, line) = place.rsplit_once(':')?;
    let is_template = helm_chart(&repository.texts, path).is_some()
        || repository.files.get(path).is_some_and(|file| file.parsed.is_err());
    if !is_template {
        return None;
    }
    lines_by_hand(repository, path, &[line.parse().ok()?], wish)
}

/// What the text of one document of a template shows without rendering it.
#[derive(Debug, Default)]
struct Guess {
    kind: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
    ignored: bool,
    labels: Labels,
    line: usize,
}

fn guesses(file: &File<'_>) -> Vec<Guess> {
    let mut found = Vec::new();
    let mut guess = Guess::default();
    let mut in_metadata = false;
    let mut labels = TemplateLabels::default();
    for (number, line) in file.text.lines().enumerate() {
        if line.starts_with("---") {
            found.push(std::mem::take(&mut guess));
            labels = TemplateLabels::default();
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
        labels.read(code, in_metadata, &literal, &mut guess.labels);
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
