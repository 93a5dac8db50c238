//! A Helm chart of the repository, read as text: which values its workloads take their resources from.
//!
//! Nothing is rendered. A template that is not understood feeds no workload.

use std::collections::BTreeMap;

use super::template::{self, Control};
use crate::infra::helm_template::helm_chart;
use crate::infra::kinds::{self, Carrier};
use crate::infra::labels::{Labels, TemplateLabels};
use crate::infra::manifest::{OPT_OUT, is_gpu};
use crate::infra::repository::Repository;
use crate::infra::walk::At;

/// A chart whose folder is in the repository.
#[derive(Debug)]
pub(super) struct Chart {
    /// Without a slash at the end; empty at the root.
    pub(super) folder: String,
    pub(super) name: String,
    /// Values keys of the charts that it depends on.
    pub(super) dependencies: Vec<String>,
    pub(super) defines: BTreeMap<String, String>,
    pub(super) workloads: Vec<Workload>,
}

/// One workload among the templates.
#[derive(Debug)]
pub(super) struct Workload {
    pub(super) path: String,
    pub(super) carrier: &'static Carrier,
    /// As written, templates and all.
    pub(super) name: String,
    pub(super) namespace: Option<String>,
    /// Where the values stand that become `resources` of a container.
    pub(super) resources: Vec<Vec<String>>,
    /// Lines that name a GPU resource.
    pub(super) hard: Vec<usize>,
    /// The first line whose resources come from something that is not read.
    pub(super) opaque: Option<usize>,
    /// It stands in a `range`, so that one template makes several.
    pub(super) looped: bool,
    pub(super) node_selector: Feed,
    pub(super) tolerations: Feed,
    pub(super) affinity: Feed,
    pub(super) spread: Feed,
    pub(super) replicas: Option<String>,
    /// It says how it rolls.
    pub(super) strategy: bool,
    pub(super) ignored: bool,
    pub(super) labels: Labels,
}

/// Where a part of a pod spec comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Feed {
    Absent,
    Values(Vec<String>),
    /// It stands in the template, from this line on.
    Written(usize),
}

/// Every chart of the cluster's files.
pub(super) fn charts(repository: &Repository<'_>) -> Vec<Chart> {
    let mut found = Vec::new();
    for (path, text) in &repository.texts {
        let folder = match path.strip_suffix("Chart.yaml") {
            Some("") => "",
            Some(folder) => match folder.strip_suffix('/') {
                Some(folder) => folder,
                None => continue,
            },
            None => continue,
        };
        let Ok(stream) = slicewright_yaml::read(text) else { continue };
        let Some(root) = stream.document(0) else { continue };
        let text_at = |key: &str| root.get(key).and_then(|node| node.as_str());
        let Some(name) = text_at("name") else { continue };
        let mut chart = Chart {
            folder: folder.to_owned(),
            name: name.to_owned(),
            dependencies: At::new(root, Vec::new())
                .all("dependencies[]")
                .iter()
                .filter_map(|at| at.get("alias").or_else(|| at.get("name"))?.node.as_str())
                .map(ToOwned::to_owned)
                .collect(),
            defines: BTreeMap::new(),
            workloads: Vec::new(),
        };
        let start = if folder.is_empty() { "templates/".to_owned() } else { format!("{folder}/templates/") };
        for (path, text) in
            repository.texts.range(start.as_str()..).take_while(|(p, _)| p.starts_with(&start))
        {
            if helm_chart(&repository.texts, path) != Some(folder) {
                continue;
            }
            chart.defines.extend(template::defines(text));
            if crate::infra::repository::is_yaml(path) {
                chart.workloads.extend(workloads(path, text));
            }
        }
        found.push(chart);
    }
    found
}

/// What `.` means inside of a block.
#[derive(Clone, Debug)]
enum Dot {
    Root,
    Values(Vec<String>),
    Unknown,
}

/// A document of a template while its lines are read.
struct Page {
    kind: Option<String>,
    api_version: Option<String>,
    in_metadata: bool,
    workload: Option<Workload>,
    labels: TemplateLabels,
}

/// A key and its indentation.
#[derive(Clone, Default)]
struct Key {
    indent: usize,
    name: String,
}

/// The workloads of one template.
fn workloads(path: &str, text: &str) -> Vec<Workload> {
    let mut found = Vec::new();
    let mut dots: Vec<Dot> = vec![Dot::Root];
    let mut page = Page::new(path);
    let mut keys: Vec<Key> = Vec::new();
    let actions = template::actions(text);
    let mut next = actions.iter().peekable();
    let mut start = 0;
    for (number, line) in text.split('\n').enumerate() {
        let end = start + line.len();
        let mut outputs = Vec::new();
        while let Some(action) = next.next_if(|action| action.start < end) {
            step(action.code, &mut dots);
            if template::control(action.code) == Control::Output {
                outputs.push(action.code);
            }
        }
        start = end + 1;
        let line = line.trim_end();
        if line.starts_with("---") {
            found.extend(std::mem::replace(&mut page, Page::new(path)).finish());
            keys.clear();
            continue;
        }
        page.line(line, number + 1, &mut keys, &outputs, &dots);
    }
    found.extend(page.finish());
    found
}

/// Follows the blocks.
fn step(code: &str, dots: &mut Vec<Dot>) {
    match template::control(code) {
        Control::If(_) => dots.push(dots.last().cloned().unwrap_or(Dot::Unknown)),
        Control::With(what) => {
            let inner = values_path(what, dots).map_or(Dot::Unknown, Dot::Values);
            dots.push(inner);
        }
        Control::Range | Control::Define(_) => dots.push(Dot::Unknown),
        Control::End => {
            if dots.len() > 1 {
                dots.pop();
            }
        }
        Control::Else | Control::ElseIf(_) => {
            // What `.` is after the `else` of a `with` depends on the block around it.
            if let [.., outer, inner] = dots.as_mut_slice() {
                *inner = outer.clone();
            }
        }
        Control::Silent | Control::Output => {}
    }
}

/// The path of the values that an operand stands for.
fn values_path(operand: &str, dots: &[Dot]) -> Option<Vec<String>> {
    let plain = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
    };
    let split = |text: &str| text.split('.').map(ToOwned::to_owned).collect::<Vec<String>>();
    if let Some(path) = operand.strip_prefix("$.Values.").filter(|path| plain(path)) {
        return Some(split(path));
    }
    match dots.last() {
        Some(Dot::Root) => operand.strip_prefix(".Values.").filter(|path| plain(path)).map(split),
        Some(Dot::Values(path)) if operand == "." => Some(path.clone()),
        Some(Dot::Values(path)) => {
            let more = operand.strip_prefix('.').filter(|more| plain(more))?;
            Some(path.iter().cloned().chain(split(more)).collect())
        }
        Some(Dot::Unknown) | None => None,
    }
}

/// The operand of `toYaml x | nindent 12` in its spellings.
fn to_yaml(code: &str) -> Option<&str> {
    let mut parts = code.split('|').map(str::trim);
    let first = parts.next()?;
    let operand = match first.strip_prefix("toYaml ") {
        Some(operand) => operand.trim(),
        None => {
            if parts.next() != Some("toYaml") {
                return None;
            }
            first
        }
    };
    let indents = |part: &str| part.starts_with("nindent ") || part.starts_with("indent ") || part == "trim";
    parts.all(indents).then_some(operand)
}

impl Page {
    fn new(path: &str) -> Self {
        let carrier = &kinds::CARRIERS[0];
        let workload = Workload {
            path: path.to_owned(),
            carrier,
            name: String::new(),
            namespace: None,
            resources: Vec::new(),
            hard: Vec::new(),
            opaque: None,
            looped: false,
            node_selector: Feed::Absent,
            tolerations: Feed::Absent,
            affinity: Feed::Absent,
            spread: Feed::Absent,
            replicas: None,
            strategy: false,
            ignored: false,
            labels: Labels::default(),
        };
        Self {
            kind: None,
            api_version: None,
            in_metadata: false,
            workload: Some(workload),
            labels: TemplateLabels::default(),
        }
    }

    /// The workload, if the document holds one whose pods may ask for a GPU.
    fn finish(self) -> Option<Workload> {
        let kind = self.kind?;
        let mut workload = self.workload?;
        workload.carrier = match self.api_version.filter(|version| !version.contains('{')) {
            Some(version) => kinds::carrier(&version, &kind)?,
            None => kinds::CARRIERS.iter().find(|row| row.kind == kind)?,
        };
        let speaks = !workload.resources.is_empty() || !workload.hard.is_empty() || workload.opaque.is_some();
        (speaks && !workload.name.is_empty()).then_some(workload)
    }

    fn line(&mut self, line: &str, number: usize, keys: &mut Vec<Key>, outputs: &[&str], dots: &[Dot]) {
        let Some(workload) = &mut self.workload else { return };
        let bare = line.trim_start();
        if bare.is_empty() || bare.starts_with('#') {
            return;
        }
        let literal = |key: &str| {
            let value = bare.strip_prefix(key)?.strip_prefix(':')?.trim();
            let value = value.split(" #").next().unwrap_or_default().trim().trim_matches(['"', '\'']);
            (!value.is_empty() && !value.contains(['{', '}', '&', '*'])).then(|| value.to_owned())
        };
        self.labels.read(line, self.in_metadata, &literal, &mut workload.labels);
        workload.ignored |= literal(OPT_OUT).is_some_and(|value| value == "true");
        let key = key_of(line);
        if let Some((key, value)) = &key {
            while keys.last().is_some_and(|above| above.indent >= key.indent) {
                keys.pop();
            }
            keys.push(key.clone());
            let way: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
            match way.as_slice() {
                ["kind"] if self.kind.is_none() && !value.contains('{') => {
                    self.kind = Some(value.trim_matches(['"', '\'']).to_owned());
                    workload.looped = dots.iter().any(|dot| matches!(dot, Dot::Unknown));
                }
                ["apiVersion"] => self.api_version = Some(value.trim_matches(['"', '\'']).to_owned()),
                ["metadata", "name"] => workload.name = (*value).to_owned(),
                ["metadata", "namespace"] => workload.namespace = Some((*value).to_owned()),
                ["spec", "replicas"] => workload.replicas = Some((*value).to_owned()),
                ["spec", "strategy" | "updateStrategy"] => workload.strategy = true,
                _ => {}
            }
            self.in_metadata = way.first() == Some(&"metadata");
            if is_gpu(&key.name) {
                workload.hard.push(number);
            }
            let feed = match key.name.as_str() {
                "nodeSelector" => Some(&mut workload.node_selector),
                "tolerations" => Some(&mut workload.tolerations),
                "affinity" => Some(&mut workload.affinity),
                "topologySpreadConstraints" => Some(&mut workload.spread),
                _ => None,
            };
            if let Some(feed) = feed {
                *feed = Feed::Written(number);
            }
        } else if bare.starts_with("{{") && bare.contains("}}:") {
            // The name of a resource, or of something else, comes from the values.
            if keys.last().is_some_and(|key| matches!(key.name.as_str(), "limits" | "requests" | "resources"))
            {
                workload.opaque.get_or_insert(number);
            }
        }
        for code in outputs {
            let Some(above) = keys.last() else { continue };
            let path = to_yaml(code).and_then(|operand| values_path(operand, dots));
            let feed = match above.name.as_str() {
                "resources" => {
                    match path {
                        Some(path) if !workload.resources.contains(&path) => workload.resources.push(path),
                        Some(_) => {}
                        None => {
                            workload.opaque.get_or_insert(number);
                        }
                    }
                    continue;
                }
                "limits" | "requests" | "containers" | "initContainers" | "spec" | "template" => {
                    workload.opaque.get_or_insert(number);
                    continue;
                }
                "nodeSelector" => &mut workload.node_selector,
                "tolerations" => &mut workload.tolerations,
                "affinity" => &mut workload.affinity,
                "topologySpreadConstraints" => &mut workload.spread,
                _ => continue,
            };
            if let Some(path) = path {
                *feed = Feed::Values(path);
            }
        }
    }
}

/// The key that a line starts with, and what follows it.
fn key_of(line: &str) -> Option<(Key, &str)> {
    let bare = line.trim_start_matches([' ', '-']);
    let indent = line.len() - bare.len();
    let (name, value) = bare.split_once(':')?;
    let value = match value.chars().next() {
        None => "",
        Some(' ' | '\t') => value.trim(),
        Some(_) => return None,
    };
    let name = name.trim_matches(['"', '\'']);
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '/');
    let value = value.split(" #").next().unwrap_or_default().trim();
    (!name.is_empty() && name.chars().all(plain)).then(|| (Key { indent, name: name.to_owned() }, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(resources: &str, expected: &[&str], opaque: Option<usize>, hard: &[usize]) {
        let text = format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: x\nspec:\n  template:\n    spec:\n      \
             containers:\n        - name: a\n{resources}"
        );
        let found = workloads("t.yaml", &text);
        let got: Vec<String> = found.iter().flat_map(|w| &w.resources).map(|path| path.join(".")).collect();
        assert_eq!(got, expected, "{resources}");
        assert_eq!(found.first().and_then(|w| w.opaque), opaque, "{resources}");
        assert_eq!(found.first().map(|w| w.hard.clone()).unwrap_or_default(), hard, "{resources}");
    }

    #[test]
    fn the_values_behind_resources_are_told_in_their_spellings() {
        check(
            "          resources:\n            {{- toYaml .Values.resources | nindent 12 }}\n",
            &["resources"],
            None,
            &[],
        );
        check("          resources: {{ .Values.a.b | toYaml | nindent 12 }}\n", &["a.b"], None, &[]);
        check("          resources:\n{{ toYaml $.Values.r | indent 12 }}\n", &["r"], None, &[]);
        check(
            "          {{- with .Values.worker }}\n          resources:\n            {{- toYaml .resources | nindent 12 }}\n          {{- end }}\n",
            &["worker.resources"],
            None,
            &[],
        );
        check(
            "          {{- with .Values.resources }}\n          resources:\n            {{- toYaml . | nindent 12 }}\n          {{- end }}\n",
            &["resources"],
            None,
            &[],
        );
    }

    #[test]
    fn what_is_not_understood_is_not_taken_for_a_key() {
        check(
            "          resources:\n            {{- include \"a.b\" . | nindent 12 }}\n",
            &[],
            Some(11),
            &[],
        );
        check(
            "          {{- range .Values.a }}\n          resources:\n            {{- toYaml .r | nindent 12 }}\n          {{- end }}\n",
            &[],
            Some(12),
            &[],
        );
        check(
            "          resources:\n            limits:\n              nvidia.com/gpu: {{ .Values.gpus }}\n",
            &[],
            None,
            &[12],
        );
        check(
            "          resources:\n            limits:\n              {{ .Values.kind }}: 1\n",
            &[],
            Some(12),
            &[],
        );
    }
}
