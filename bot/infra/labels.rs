//! The labels of a workload: its manifest's, and what Kustomize makes of them.
//!
//! Policies ask for labels, so that a value in doubt is none: a rule that asks for it does not match then.

use std::collections::BTreeMap;

use slicewright_yaml::Node;

use super::manifest::strings;
use super::walk::{self, At};

/// Labels as they stand in a manifest, or after an overlay. `None`: there, with a value in doubt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Labels {
    /// Of the object.
    pub(super) object: BTreeMap<String, Option<String>>,
    /// Of the pod templates with a GPU.
    pub(super) pods: BTreeMap<String, Option<String>>,
}

/// Whose labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    Object,
    Pods,
}

/// What an overlay does to the labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LabelEdit {
    /// Sets a label.
    Set(Side, String, String),
    /// Takes a label away.
    Remove(Side, String),
    /// Takes all away.
    Clear(Side),
    /// Sets or removes a label, perhaps.
    Doubt(Side, String),
}

/// Kinds whose pod templates Kustomize labels too.
const TEMPLATES_LABELLED: [&str; 7] =
    ["Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job", "CronJob"];

impl Labels {
    /// Takes in the labels of the object, or of one more pod template.
    pub(super) fn add_all(&mut self, side: Side, labels: &At<'_>) {
        for (key, value) in strings(labels) {
            self.add(side, key, value);
        }
    }

    /// Adds a label; a second value for it puts both in doubt.
    pub(super) fn add(&mut self, side: Side, key: String, value: String) {
        let known = self.of(side).entry(key).or_insert_with(|| Some(value.clone()));
        if known.as_ref() != Some(&value) {
            *known = None;
        }
    }

    /// Notes a label whose value is not known.
    pub(super) fn doubt(&mut self, side: Side, key: String) {
        self.of(side).insert(key, None);
    }

    /// What `edits` make of them, in order.
    pub(super) fn edited<'a>(&self, edits: impl IntoIterator<Item = &'a LabelEdit>) -> Self {
        let mut labels = self.clone();
        for edit in edits {
            match edit {
                LabelEdit::Set(side, key, value) => {
                    labels.of(*side).insert(key.clone(), Some(value.clone()));
                }
                LabelEdit::Remove(side, key) => {
                    labels.of(*side).remove(key);
                }
                LabelEdit::Clear(side) => labels.of(*side).clear(),
                LabelEdit::Doubt(side, key) => labels.doubt(*side, key.clone()),
            }
        }
        labels
    }

    /// One value a label: the pod template's, else the object's. Labels in doubt are left out.
    pub(super) fn resolved(&self) -> BTreeMap<String, String> {
        let mut all = self.object.clone();
        all.extend(self.pods.clone());
        all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }

    fn of(&mut self, side: Side) -> &mut BTreeMap<String, Option<String>> {
        match side {
            Side::Object => &mut self.object,
            Side::Pods => &mut self.pods,
        }
    }
}

/// Labels in the text of a template that cannot be rendered here: what is literal and under no condition counts, every
/// other value is in doubt.
#[derive(Debug, Default)]
pub(super) struct TemplateLabels {
    /// The `labels:` that the lines now stand below: its indentation, whose they are, and the conditions open there.
    below: Option<(usize, Side, usize)>,
    /// How many `if`, `with` and `range` are open.
    conditions: usize,
}

impl TemplateLabels {
    /// Reads one line without blanks at its end; `literal` gives the literal value of a key that starts it.
    pub(super) fn read(
        &mut self,
        code: &str,
        in_metadata: bool,
        literal: &dyn Fn(&str) -> Option<String>,
        labels: &mut Labels,
    ) {
        let text = code.trim_start();
        let indent = code.len() - text.len();
        if let Some(directive) = text.strip_prefix("{{") {
            let word = directive.trim_start_matches(['-', ' ']).split([' ', '}', '-']).next();
            match word {
                Some("if" | "with" | "range") => self.conditions += 1,
                Some("end") => self.conditions = self.conditions.saturating_sub(1),
                _ => {}
            }
            return;
        }
        if text.is_empty() || text.starts_with('#') {
            return;
        }
        if let Some((outer, side, conditions)) = self.below
            && indent > outer
        {
            let Some((written, _)) = text.split_once(':') else { return };
            let key = written.trim_matches(['"', '\'']).to_owned();
            match literal(written).filter(|_| self.conditions == conditions) {
                Some(value) => labels.add(side, key, value),
                None => labels.doubt(side, key),
            }
            return;
        }
        let side = if in_metadata && indent == 2 { Side::Object } else { Side::Pods };
        self.below = (text == "labels:").then_some((indent, side, self.conditions));
    }
}

/// Labels of two declarations of one workload, of which either may be the true one: what both say alike.
pub(super) fn common(
    one: &BTreeMap<String, String>,
    other: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    one.iter()
        .filter(|(key, value)| other.get(*key) == Some(value))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

impl LabelEdit {
    /// Whether a transformer makes this edit in an object of this kind: pod templates of kinds that Kustomize does not
    /// know keep their labels.
    pub(super) fn transforms(&self, kind: &str) -> bool {
        match self {
            Self::Set(Side::Pods, ..) => TEMPLATES_LABELLED.contains(&kind),
            Self::Set(Side::Object, ..) | Self::Remove(..) | Self::Clear(_) | Self::Doubt(..) => true,
        }
    }

    /// The edit, where it is not certain that it is made.
    pub(super) fn perhaps(self, labels: &Labels) -> Vec<Self> {
        match self {
            Self::Set(side, key, _) | Self::Remove(side, key) | Self::Doubt(side, key) => {
                vec![Self::Doubt(side, key)]
            }
            Self::Clear(side) => {
                let keys = match side {
                    Side::Object => labels.object.keys(),
                    Side::Pods => labels.pods.keys(),
                };
                keys.map(|key| Self::Doubt(side, key.clone())).collect()
            }
        }
    }
}

/// `commonLabels` and `labels` of a kustomization, for any kind of object; see [`LabelEdit::transforms`].
pub(super) fn of_transformers(kustomization: Node<'_>) -> Vec<LabelEdit> {
    let mut edits = Vec::new();
    let mut set = |pairs: Node<'_>, pods: bool| {
        for (key, value) in pairs.entries() {
            let Some(value) = value.as_str() else { continue };
            edits.push(LabelEdit::Set(Side::Object, key.to_owned(), value.to_owned()));
            if pods {
                edits.push(LabelEdit::Set(Side::Pods, key.to_owned(), value.to_owned()));
            }
        }
    };
    for entry in kustomization.get("labels").into_iter().flat_map(|list| list.items()) {
        let on = |key: &str| walk::text(entry, key) == Some("true");
        if let Some(pairs) = entry.get("pairs") {
            set(pairs, on("includeSelectors") || on("includeTemplates"));
        }
    }
    if let Some(pairs) = kustomization.get("commonLabels") {
        set(pairs, true);
    }
    edits
}

/// What a patch does: a part of an object to merge, or a list of operations.
pub(super) fn of_patch(root: Node<'_>) -> Vec<LabelEdit> {
    let mut edits = Vec::new();
    for operation in root.items() {
        of_operation(operation, &mut edits);
    }
    if root.is_mapping() {
        let own = root.get("metadata").and_then(|metadata| metadata.get("labels"));
        if let Some(labels) = own {
            merged(labels, Side::Object, &mut edits);
        }
        for (key, part) in root.entries() {
            if key != "metadata" {
                templates(part, &mut edits);
            }
        }
    }
    edits
}

/// The labels of every pod template below a part of an object.
fn templates(part: Node<'_>, edits: &mut Vec<LabelEdit>) {
    walk::every(part, &mut |key, node| {
        if key == Some("template")
            && let Some(labels) = walk::down(node, "metadata.labels")
        {
            merged(labels, Side::Pods, edits);
        }
    });
}

/// Labels of a part to merge: null takes one away.
fn merged(labels: Node<'_>, side: Side, edits: &mut Vec<LabelEdit>) {
    if walk::text(labels, "$patch").is_some() || labels.is_null() {
        edits.push(LabelEdit::Clear(side));
    }
    for (key, value) in labels.entries().into_iter().filter(|(key, _)| *key != "$patch") {
        edits.push(match value.as_str() {
            Some(value) => LabelEdit::Set(side, key.to_owned(), value.to_owned()),
            None => LabelEdit::Remove(side, key.to_owned()),
        });
    }
}

/// One operation of a JSON patch.
fn of_operation(operation: Node<'_>, edits: &mut Vec<LabelEdit>) {
    let Some(path) = walk::text(operation, "path") else { return };
    let Some((before, rest)) = path.split_once("/metadata/labels") else { return };
    let side = if before.is_empty() { Side::Object } else { Side::Pods };
    let removes = walk::text(operation, "op") == Some("remove");
    let value = operation.get("value");
    match rest.strip_prefix('/') {
        Some(key) => {
            let key = key.replace("~1", "/").replace("~0", "~");
            edits.push(match (removes, value.and_then(|value| value.as_str())) {
                (true, _) => LabelEdit::Remove(side, key),
                (false, Some(value)) => LabelEdit::Set(side, key, value.to_owned()),
                // Copied or moved from elsewhere.
                (false, None) => LabelEdit::Doubt(side, key),
            });
        }
        None if rest.is_empty() => {
            edits.push(LabelEdit::Clear(side));
            if let Some(labels) = value.filter(|_| !removes) {
                merged(labels, side, edits);
            }
        }
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Scope, Snapshot, read};
    use super::*;

    const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: embed
  namespace: search
  labels: {team: search, env: prod, tier: gold}
spec:
  template:
    metadata:
      labels: {app: embed, env: dev}
    spec:
      containers:
        - name: main
          resources: {limits: {nvidia.com/gpu: 1}}
";

    /// The labels of the only workload of these files, as `key=value`.
    fn labels(files: &[(&str, &str)]) -> String {
        let snapshot = Snapshot {
            commit: String::new(),
            files: files.iter().map(|(path, text)| ((*path).into(), text.as_bytes().to_vec())).collect(),
            skipped: BTreeMap::new(),
        };
        let scope = Scope {
            cluster: "dc1".into(),
            folders: Vec::new(),
            deployed_by: Vec::new(),
            new_files: "slicewright/".into(),
            operator_namespace: "gpu-operator".into(),
        };
        let declared = read(&snapshot, &scope);
        assert_eq!(declared.workloads.len(), 1, "{declared:?}");
        let labels = declared.workloads.into_values().flat_map(|workload| workload.labels);
        labels.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    }

    /// As `labels`, of the deployment above under a kustomization that says this.
    fn kustomized(text: &str) -> String {
        let text = format!("resources: [embed.yaml]\n{text}");
        labels(&[("kustomization.yaml", &text), ("embed.yaml", DEPLOYMENT)])
    }

    #[test]
    fn the_pod_templates_value_comes_before_the_objects() {
        assert_eq!(labels(&[("a.yaml", DEPLOYMENT)]), "app=embed env=dev team=search tier=gold");
    }

    #[test]
    fn only_pods_with_a_gpu_count_and_two_of_them_must_agree() {
        let group = |name: &str, labels: &str, gpu: &str| {
            format!(
                "      - groupName: {name}\n        template:\n          metadata: {{labels: {labels}}}\n          \
                 spec: {{containers: [{{name: c, resources: {{limits: {{{gpu}: 1}}}}}}]}}\n"
            )
        };
        let cluster = |groups: &[String]| {
            let head = "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: r, namespace: a, labels: {env: \
                        prod}}\nspec:\n  workerGroupSpecs:\n";
            labels(&[("a.yaml", &format!("{head}{}", groups.concat().replace("      ", "    ")))])
        };
        let dev = group("a", "{env: dev, size: s}", "nvidia.com/gpu");
        let without = group("b", "{env: test, size: l}", "cpu");
        assert_eq!(cluster(&[dev.clone(), without]), "env=dev size=s");
        let other = group("b", "{env: test, size: s}", "nvidia.com/gpu");
        assert_eq!(cluster(&[dev, other]), "size=s", "in doubt, so that not even the object's value counts");
    }

    #[test]
    fn kustomize_sets_labels_where_it_is_told_to() {
        assert_eq!(kustomized("commonLabels: {env: stage}\n"), "app=embed env=stage team=search tier=gold");
        let entry = |more: &str| kustomized(&format!("labels:\n  - pairs: {{env: stage, team: ml}}{more}\n"));
        assert_eq!(entry(""), "app=embed env=dev team=ml tier=gold", "of the object alone");
        assert_eq!(entry("\n    includeTemplates: true"), "app=embed env=stage team=ml tier=gold");
        assert_eq!(entry("\n    includeSelectors: true"), "app=embed env=stage team=ml tier=gold");
    }

    #[test]
    fn patches_change_labels() {
        let merge = |patch: &str| kustomized(&format!("patches:\n  - patch: |\n{patch}"));
        assert_eq!(
            merge(
                "      apiVersion: apps/v1\n      kind: Deployment\n      metadata:\n        name: embed\n        \
                 labels: {team: ml, tier: null}\n      spec: {template: {metadata: {labels: {env: stage}}}}\n"
            ),
            "app=embed env=stage team=ml"
        );
        let operations = |target: &str| {
            merge(&format!(
                "      - {{op: replace, path: /spec/template/metadata/labels/env, value: stage}}\n      - {{op: \
                 remove, path: /metadata/labels/tier}}\n      - {{op: add, path: /metadata/labels/a~1b, value: c}}\n    \
                 target: {target}\n"
            ))
        };
        assert_eq!(operations("{kind: Deployment, name: embed}"), "a/b=c app=embed env=stage team=search");
        assert_eq!(operations("{kind: Deployment, name: other}"), "app=embed env=dev team=search tier=gold");
        for vague in ["{kind: Deployment, labelSelector: a=b}", "{kind: Deployment, name: em.*}"] {
            assert_eq!(operations(vague), "app=embed team=search", "in doubt: {vague}");
        }
        assert_eq!(
            merge(
                "      - {op: replace, path: /metadata/labels, value: {x: y}}\n    target: {kind: Deployment}\n"
            ),
            "app=embed env=dev x=y"
        );
    }

    #[test]
    fn of_two_declarations_what_both_say_alike_counts() {
        let other = DEPLOYMENT.replace("env: dev", "env: stage").replace("tier: gold", "rank: 1");
        assert_eq!(labels(&[("a.yaml", DEPLOYMENT), ("b.yaml", &other)]), "app=embed team=search");
    }

    #[test]
    fn a_templates_literal_labels_count_and_others_are_in_doubt() {
        let template = "\
{{- if .Values.enabled }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: embed
  namespace: search
  labels:
    {{- include \"chart.labels\" . | nindent 4 }}
    team: \"search\"
    env: prod
    {{- if .Values.gold }}
    tier: gold
    {{- end }}
    cost: low
spec:
  selector:
    matchLabels: {app: other}
  template:
    metadata:
      labels:
        app: embed # the name
        env: {{ .Values.env }}
    spec:
      containers:
        - name: main
          resources:
            limits:
              nvidia.com/gpu: 1
{{- end }}
";
        let chart = ("chart/Chart.yaml", "apiVersion: v2\nname: embed\nversion: 1.0.0\n");
        let labels = labels(&[chart, ("chart/templates/deployment.yaml", template)]);
        assert_eq!(labels, "app=embed cost=low team=search");
    }
}
