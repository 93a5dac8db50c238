//! What is left to people comes with its text, and no chart makes reading panic.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;
use slicewright_core::plan::Change;

use crate::infra::{Scope, Snapshot, edit, read};

const TEMPLATE: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include \"embed.fullname\" . }}
spec:
  template:
    spec:
      {{- with .Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: server
          resources:
            {{- toYaml .Values.resources | nindent 12 }}
";

const HELPERS: &str = "\
{{- define \"embed.fullname\" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else -}}
{{ printf \"%s-%s\" .Release.Name .Chart.Name | trunc 63 }}
{{- end }}
{{- end }}
";

const RELEASE: &str = "\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: prod, namespace: search}
spec:
  chart:
    spec:
      chart: charts/embed
      sourceRef: {kind: GitRepository, name: infra}
  values:
    resources:
      limits: {nvidia.com/gpu: 1}
";

const HELMFILE: &str = "\
releases:
  - name: vllm
    namespace: ai
    chart: models/vllm
    set:
      - name: resources.limits.nvidia\\.com/gpu
        value: 1
";

fn files() -> Vec<(&'static str, String)> {
    vec![
        ("charts/embed/Chart.yaml", "apiVersion: v2\nname: embed\nversion: 1.0.0\n".to_owned()),
        ("charts/embed/templates/_helpers.tpl", HELPERS.to_owned()),
        ("charts/embed/templates/deployment.yaml", TEMPLATE.to_owned()),
        ("charts/embed/values.yaml", "resources: {}\n".to_owned()),
        ("dc1/embed.yaml", RELEASE.to_owned()),
        ("helmfile.yaml", HELMFILE.to_owned()),
    ]
}

fn snapshot(files: Vec<(&str, Vec<u8>)>) -> Snapshot {
    let files: BTreeMap<String, Vec<u8>> =
        files.into_iter().map(|(path, bytes)| (path.to_owned(), bytes)).collect();
    Snapshot { commit: "4f2c9e1".into(), files, ..Snapshot::default() }
}

fn scope() -> Scope {
    Scope {
        cluster: "dc1".into(),
        folders: Vec::new(),
        deployed_by: Vec::new(),
        new_files: "slicewright/".into(),
        operator_namespace: "gpu-operator".into(),
    }
}

fn plan() -> slicewright_core::plan::Plan {
    let workload =
        |namespace: &str, name: &str| json!({"kind": "Deployment", "namespace": namespace, "name": name});
    let change = |workload: serde_json::Value| json!({"change": "set-workload-resource", "workload": workload, "from": "nvidia.com/gpu", "to": "nvidia.com/mig-2g.10gb", "count": 1, "pin": {}});
    crate::infra::tests::plan(
        &json!({"changes": [change(workload("search", "prod-embed")), change(workload("ai", "vllm"))]}),
    )
}

/// The text for people about the one workload that is left.
fn text_of(replace: &[(&str, &str, &str)]) -> String {
    let mut files = files();
    for (path, from, to) in replace {
        let (_, text) = files.iter_mut().find(|(known, _)| known == path).unwrap();
        assert!(text.contains(from), "{path} has no {from}");
        *text = text.replace(from, to);
    }
    let files = files.into_iter().map(|(path, text)| (path, text.into_bytes())).collect();
    let set = edit(&snapshot(files), &scope(), &plan());
    let [manual] = set.manual.as_slice() else { panic!("{:?}", set.manual) };
    manual.text.clone()
}

#[test]
fn a_template_comes_with_its_new_lines() {
    let hard = "limits:\n              nvidia.com/gpu: {{ .Values.gpus }} # whole";
    let text = text_of(&[(
        "charts/embed/templates/deployment.yaml",
        "{{- toYaml .Values.resources | nindent 12 }}",
        hard,
    )]);
    insta::assert_snapshot!(text, @"
    # charts/embed/templates/deployment.yaml:16
                  nvidia.com/mig-2g.10gb: {{ .Values.gpus }} # whole
    ");
}

#[test]
fn values_come_with_the_null_that_takes_the_default_away() {
    let text = text_of(&[("charts/embed/values.yaml", "{}", "{limits: {nvidia.com/gpu: 1}}")]);
    insta::assert_snapshot!(text, @r"
    # values of `prod`
    resources:
      limits:
        nvidia.com/gpu: null
        nvidia.com/mig-2g.10gb: 1
    ");
}

#[test]
fn every_workload_is_edited_as_long_as_nothing_is_in_doubt() {
    let files = files().into_iter().map(|(path, text)| (path, text.into_bytes())).collect();
    let set = edit(&snapshot(files), &scope(), &plan());
    assert!(set.manual.is_empty(), "{:?}", set.manual);
    assert_eq!(set.files.len(), 3, "two edits and the way back: {:?}", set.files.keys());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn no_bytes_of_a_chart_or_a_release_make_it_panic_or_write_twice(
        which in 0_usize..6,
        at in 0_usize..400,
        n in 0_usize..30,
        with in prop_oneof![prop::collection::vec(any::<u8>(), 0..8), "[ \\n:{}&*#|>.$()\"-]{0,6}".prop_map(String::into_bytes)],
    ) {
        let mut files: Vec<(&str, Vec<u8>)> =
            files().into_iter().map(|(path, text)| (path, text.into_bytes())).collect();
        let bytes = &mut files[which].1;
        let at = at.min(bytes.len());
        let end = (at + n).min(bytes.len());
        bytes.splice(at..end, with);
        let before = snapshot(files);
        let set = edit(&before, &scope(), &plan());
        let mut after = before.clone();
        after.files.extend(set.files.clone());
        prop_assert!(edit(&after, &scope(), &plan()).files.is_empty());
        prop_assert!(read(&before, &scope()).workloads.keys().eq(read(&after, &scope()).workloads.keys()));
        let changes = plan().changes.iter().filter(|change| matches!(change, Change::SetWorkloadResource { .. })).count();
        prop_assert!(set.files.len() + set.manual.len() >= changes);
    }
}

#[test]
fn a_release_is_read_with_what_the_planner_needs() {
    let values = "  values:\n    resources:\n      limits: {nvidia.com/gpu: 1}\n    replicaCount: 3\n    nodeSelector: {pool: a100}\n    \
                  tolerations: [{key: nvidia.com/gpu, operator: Exists}]\n    args: [--gpu-memory-utilization, '0.9']\n";
    let mut files = files();
    files[2].1 = TEMPLATE
        .replace("spec:\n  template", "spec:\n  replicas: {{ .Values.replicaCount }}\n  template")
        + "      {{- with .Values.tolerations }}\n      tolerations: {{- toYaml . | nindent 8 }}\n      {{- end }}\n";
    let (head, _) = RELEASE.split_once("  values:\n").unwrap();
    files[4].1 = format!("{head}{values}");
    let files = files.into_iter().map(|(path, text)| (path, text.into_bytes())).collect();
    let declared = read(&snapshot(files), &scope());
    let id = slicewright_core::ids::WorkloadId::new("Deployment", "search", "prod-embed");
    let found = &declared.workloads[&id];
    assert_eq!(found.place, "dc1/embed.yaml:11");
    assert_eq!(found.editable, Ok(()));
    assert_eq!((found.replicas, found.max_surge), (Some(3), Some(1)), "a quarter of 3, rounded up");
    assert_eq!(found.node_selector["pool"], "a100");
    assert_eq!(found.tolerations.iter().collect::<Vec<_>>(), ["nvidia.com/gpu"]);
    assert_eq!(found.memory_flags, ["--gpu-memory-utilization 0.9"]);
    assert_eq!(found.pinned, None);
}
