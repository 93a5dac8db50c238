//! What is known of other commits never changes an answer: a small repository with everything that is kept, edited at
//! random and read with an index that knows each commit before, and with one that knows none.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::Index;
use crate::infra::tests::{plan, scope};
use crate::infra::{Scope, Snapshot, edit, read};

const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: search}\n";

/// A Deployment with these lines as the resources of its container.
fn deployment(name: &str, resources: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\n  namespace: search\nspec:\n  replicas: 2\n  \
         template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec:\n      containers:\n        - name: main\n          \
         resources: {resources}\n"
    )
}

const GPU: &str = "{limits: {nvidia.com/gpu: 1}}";

/// A patch that sets the GPU of `ranker`.
fn patch(value: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: ranker, namespace: search}}\nspec:\n  template:\n    spec:\n      containers:\n        \
         - name: main\n          resources: {{limits: {{nvidia.com/gpu: {value}}}}}\n"
    )
}

fn flux(path: &str, more: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: apps}}\nspec:\n  path: {path}\n  \
         sourceRef: {{kind: GitRepository, name: flux-system}}\n{more}"
    )
}

fn application(destination: &str, path: &str) -> String {
    format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: apps}}\nspec:\n  destination: {{name: \
         {destination}}}\n  source: {{repoURL: https://git.example.com/infra, path: {path}}}\n"
    )
}

fn release(name: &str, gpus: &str) -> String {
    format!(
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: {name}, namespace: search}}\nspec:\n  chart:\n    \
         spec: {{chart: ./charts/app, sourceRef: {{kind: GitRepository, name: flux-system}}}}\n  values:\n    resources: {{limits: \
         {{nvidia.com/gpu: {gpus}}}}}\n"
    )
}

/// Every path of the repository with the texts that it may have, the first one at the start.
fn choices() -> Vec<(&'static str, Vec<String>)> {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let plain = [
        deployment("embed", GPU),
        deployment("embed", "{limits: {nvidia.com/gpu: 2}}"),
        deployment("other", GPU),
        "version https://git-lfs.github.com/spec/v1\n".to_owned(),
    ];
    let base = [
        deployment("ranker", GPU),
        format!("# Moved by a line.\n{}", deployment("ranker", GPU)),
        deployment("ranker", "{limits: {memory: 1Gi}}"),
        deployment("ranker", "&shared {limits: {nvidia.com/gpu: 1}}"),
        "kind: [\n".to_owned(),
    ];
    vec![
        ("apps/base/deployment.yaml", base.to_vec()),
        (
            "apps/base/kustomization.yaml",
            texts(&[
                "resources: [deployment.yaml]\n",
                "resources: [deployment.yaml]\n# touched\n",
                "resources: [deployment.yaml]\nnamePrefix: my-\n",
                "resources: [deployment.yaml]\nreplicas: [{name: ranker, count: 4}]\n",
                "resources: [service.yaml]\n",
                "resources: [\n",
            ]),
        ),
        (
            "clusters/a/ranker/kustomization.yaml",
            texts(&[
                "resources: [../../../apps/base]\nnamespace: search\npatches: [{path: gpu.yaml}]\n",
                "resources: [../../../apps/base]\nnamespace: other\n",
                "# touched\nresources: [../../../apps/base]\nnamespace: search\npatches: [{path: gpu.yaml}]\n",
                "resources: [../../../apps/base]\ncomponents: [../../../parts/gpu]\n",
                "resources: [../../../apps/base, gpu.yaml]\n",
                "resources: [../../../apps/base]\nnamespace: search\ntransformers: [gpu.yaml]\n",
            ]),
        ),
        ("clusters/a/ranker/gpu.yaml", vec![patch("1"), patch("2"), patch("null"), SERVICE.to_owned()]),
        (
            "clusters/b/ranker/kustomization.yaml",
            texts(&[
                "resources: [../../../apps/other]\n",
                "resources: [../../../apps/base]\nnamespace: search\n",
                "resources: [../../a/ranker]\n",
            ]),
        ),
        (
            "parts/gpu/kustomization.yaml",
            vec![
                format!(
                    "kind: Component\npatches:\n  - patch: |\n      {}",
                    patch("1").trim_end().replace('\n', "\n      ")
                ),
                "kind: Component\nnameSuffix: -gpu\n".to_owned(),
            ],
        ),
        ("clusters/a/plain.yaml", plain.to_vec()),
        ("clusters/a/moved.yaml", [vec![String::new()], plain.to_vec()].concat()),
        ("clusters/a/release.yaml", vec![release("app", "1"), release("app", "2"), release("web", "1")]),
        ("charts/app/Chart.yaml", texts(&["name: app\nversion: 1.0.0\n", "name: api\nversion: 1.0.0\n"])),
        (
            "charts/app/templates/deployment.yaml",
            vec![
                deployment("{{ .Release.Name }}", "{{ toYaml .Values.resources }}"),
                deployment("{{ .Chart.Name }}", "{{ toYaml .Values.resources }}"),
                deployment("{{ .Release.Name }}", GPU),
            ],
        ),
        (
            "clusters/a/apps.yaml",
            vec![
                flux("./clusters/a/ranker", ""),
                flux("./clusters/a/ranker", "  targetNamespace: search\n"),
                flux("./clusters/a/ranker", "  patches: [{patch: 'resources: {}'}]\n"),
                flux("./clusters/b", ""),
            ],
        ),
        (
            "argo/apps.yaml",
            vec![
                application("dc1", "clusters/b"),
                application("dc1", "clusters/a"),
                application("dc2", "clusters/a/ranker"),
            ],
        ),
        (
            "clusters/a/namespace.yaml",
            texts(&[
                "apiVersion: v1\nkind: Namespace\nmetadata: {name: search}\n",
                "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: search\n  annotations: {slicewright/ignore: 'true'}\n",
            ]),
        ),
    ]
}

fn scopes() -> Vec<Scope> {
    [
        json!({}),
        json!({"folders": ["clusters/a/"]}),
        json!({"folders": ["clusters/a/", "apps/"]}),
        json!({"flux": "clusters/a/"}),
        json!({"argo_cd": ["dc1"]}),
    ]
    .iter()
    .map(scope)
    .collect()
}

/// A number beyond the texts of a path deletes it.
fn snapshot(chosen: &[usize]) -> Snapshot {
    let choices = choices();
    let files = choices.iter().zip(chosen).filter_map(|((path, texts), chosen)| {
        let text = texts.get(*chosen).filter(|text| !text.is_empty())?;
        Some(((*path).to_owned(), text.clone().into_bytes()))
    });
    Snapshot { commit: "4f2c9e1".into(), files: files.collect(), skipped: BTreeMap::new() }
}

/// Reads and edits with what is known and with nothing, in every scope.
fn check(known: &Index, chosen: &[usize]) {
    let change = |name: &str| {
        json!({
            "change": "set-workload-resource",
            "workload": {"namespace": "search", "name": name, "kind": "Deployment"},
            "from": "nvidia.com/gpu", "to": "nvidia.com/mig-1g.5gb", "count": 1, "pin": {},
        })
    };
    let changes = ["ranker", "embed", "app"].map(change);
    let plan = plan(&json!({"changes": changes}));
    let snapshot = snapshot(chosen);
    for scope in &scopes() {
        assert_eq!(known.read(&snapshot, scope), read(&snapshot, scope), "{chosen:?}");
        assert_eq!(known.edit(&snapshot, scope, &plan), edit(&snapshot, scope, &plan), "{chosen:?}");
    }
}

#[test]
fn every_single_edit_is_seen_and_its_way_back() {
    let start = vec![0; choices().len()];
    let known = Index::default();
    check(&known, &start);
    for (which, (_, texts)) in choices().iter().enumerate() {
        for text in 1..=texts.len() {
            let mut chosen = start.clone();
            chosen[which] = text;
            check(&known, &chosen);
            check(&known, &start);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_known_of_other_commits_changes_no_answer(
        commits in prop::collection::vec(prop::collection::vec((any::<prop::sample::Index>(), 0_usize..7), 1..4), 1..7),
    ) {
        let known = Index::default();
        let mut chosen = vec![0; choices().len()];
        for edits in std::iter::once(Vec::new()).chain(commits) {
            for (which, text) in edits {
                let which = which.index(chosen.len());
                chosen[which] = text;
            }
            check(&known, &chosen);
        }
    }
}

/// The tests above say something only where there is something to know.
#[test]
fn the_repository_at_the_start_holds_what_is_kept() {
    let declared = read(&snapshot(&vec![0; choices().len()]), &scope(&json!({})));
    let names: Vec<String> = declared.workloads.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["search/app", "search/embed", "search/ranker"], "{:?}", declared.notes);
}
