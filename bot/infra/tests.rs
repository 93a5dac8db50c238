//! Repositories as folders, and what must hold for every one of them.
//!
//! A case is `tests/cases/infra/<format>/<case>/`: `repo/` is the repository, `plan.json` holds the fields of a plan
//! that differ from an empty one, `scope.json` those of the scope. `expected/` holds the changed files and no others;
//! the rollback file counts where `expected/` has it. Every line of `expected-refusal.txt` stands in a change to make by
//! hand, and without that file there is none; `expected-effects.txt` and `expected-notes.txt` do the same for side
//! effects and notes, and their absence says nothing. `expected-text.txt` is the text of what is left to people, one change
//! after the other. `UPDATE_CASES=1` writes what comes out, to be read before it is
//! committed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};
use slicewright_core::ids::WorkloadId;
use slicewright_core::inventory::MigStrategy;
use slicewright_core::plan::{Change, Plan};

use super::{ChangeSet, DeployedBy, Index, Scope, Snapshot, edit, read};

pub(super) fn plan(wanted: &Value) -> Plan {
    let mut plan = json!({
        "pool": {"cluster": "dc1", "pool": "a100-40gb"},
        "pool_kind": "static",
        "goal": "bill",
        "model": "a100-40gb",
        "model_name": "NVIDIA A100-SXM4-40GB",
        "method": "mig",
        "changes": [],
        "items": [],
        "kept": [],
        "nodes": [],
        "saving": serde_json::to_value(slicewright_core::plan::saving::Saving::default()).unwrap(),
        "proof": {"n_cards": 0, "proven": true, "sentences": []},
        "alternatives": [],
        "rollout": [],
        "rollback": [],
        "risks": [],
        "confidence": "high",
        "confidence_reason": "",
        "notes": [],
        "overrides": [],
        "fingerprint": "",
    });
    for (key, value) in wanted.as_object().unwrap() {
        plan[key] = value.clone();
    }
    serde_json::from_value(plan).unwrap()
}

fn deployed_by(wanted: &Value) -> Vec<DeployedBy> {
    let flux = wanted["flux"].as_str().map(|root| DeployedBy::Flux { root: root.to_owned() });
    let argo_cd = wanted["argo_cd"].as_array().map(|texts| DeployedBy::ArgoCd {
        destinations: texts.iter().map(|text| text.as_str().unwrap().to_owned()).collect(),
    });
    flux.into_iter().chain(argo_cd).collect()
}

pub(super) fn scope(wanted: &Value) -> Scope {
    let text = |key: &str, default: &str| wanted[key].as_str().unwrap_or(default).to_owned();
    let folders = wanted["folders"].as_array().cloned().unwrap_or_default();
    Scope {
        cluster: text("cluster", "dc1"),
        folders: folders.iter().map(|folder| folder.as_str().unwrap().to_owned()).collect(),
        deployed_by: deployed_by(wanted),
        new_files: text("new_files", "slicewright/"),
        operator_namespace: text("operator_namespace", "gpu-operator"),
    }
}

pub(super) fn tree(root: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(root: &Path, folder: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(root, &path, found);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(root, root, &mut found);
    found
}

fn json_or(path: &Path, default: &Value) -> Value {
    fs::read(path).map_or_else(|_| default.clone(), |bytes| serde_json::from_slice(&bytes).unwrap())
}

fn case_folders(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for format in fs::read_dir(root).into_iter().flatten() {
        for case in fs::read_dir(format.unwrap().path()).into_iter().flatten() {
            let case = case.unwrap().path();
            if case.join("plan.json").is_file() {
                found.push(case);
            }
        }
    }
    found.sort();
    found
}

fn lines_missing(folder: &Path, name: &str, got: &str) -> Vec<String> {
    let Ok(expected) = fs::read_to_string(folder.join(name)) else { return Vec::new() };
    expected
        .lines()
        .filter(|line| !line.trim().is_empty() && !got.contains(line.trim()))
        .map(|line| format!("{name}: no `{}` in\n{got}", line.trim()))
        .collect()
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\r', "\\r")
}

fn manual_text(set: &ChangeSet) -> String {
    set.manual.iter().map(|change| format!("{}: {}\n", change.what, change.why)).collect()
}

fn run(folder: &Path) -> Vec<String> {
    let snapshot =
        Snapshot { commit: "4f2c9e1".into(), files: tree(&folder.join("repo")), ..Snapshot::default() };
    let plan = plan(&json_or(&folder.join("plan.json"), &json!({})));
    let scope = scope(&json_or(&folder.join("scope.json"), &json!({})));
    let set = edit(&snapshot, &scope, &plan);
    let manual = manual_text(&set);
    let effects = set.side_effects.join("\n");
    let notes = read(&snapshot, &scope).notes.join("\n");
    if std::env::var_os("UPDATE_CASES").is_some() {
        update(folder, &set, &manual, &effects, &notes);
    }
    let mut failed = Vec::new();
    let rollback = format!("{}rollback/", scope.new_files);
    let expected = tree(&folder.join("expected"));
    for (path, text) in &set.files {
        match expected.get(path) {
            Some(expected) if expected == text => {}
            Some(expected) => {
                failed.push(format!("{path}:\n--- expected\n{}--- got\n{}", shown(expected), shown(text)));
            }
            None if path.starts_with(&rollback) => {}
            None => failed.push(format!("{path} is changed and not expected:\n{}", shown(text))),
        }
    }
    failed.extend(
        expected
            .keys()
            .filter(|path| !set.files.contains_key(*path))
            .map(|path| format!("{path} is not changed")),
    );
    if !folder.join("expected-refusal.txt").is_file() && !set.manual.is_empty() {
        failed.push(format!("left to people:\n{manual}"));
    }
    failed.extend(lines_missing(folder, "expected-refusal.txt", &manual));
    let texts: String = set.manual.iter().map(|change| change.text.as_str()).collect();
    match fs::read_to_string(folder.join("expected-text.txt")) {
        Ok(expected) if expected != texts => {
            failed.push(format!("expected-text.txt:\n--- expected\n{expected}--- got\n{texts}"));
        }
        Ok(_) | Err(_) => {}
    }
    failed.extend(lines_missing(folder, "expected-effects.txt", &effects));
    failed.extend(lines_missing(folder, "expected-notes.txt", &notes));
    failed.extend(holds(&snapshot, &scope, &plan, &set));
    failed
}

/// What is true of every edit.
fn holds(snapshot: &Snapshot, scope: &Scope, plan: &Plan, set: &ChangeSet) -> Vec<String> {
    let mut failed = Vec::new();
    let mut edited = snapshot.clone();
    edited.files.extend(set.files.clone());
    let again = edit(&edited, scope, plan);
    for (path, text) in &again.files {
        failed.push(format!("{path} changes again:\n{}", shown(text)));
    }
    if manual_text(&again) != manual_text(set) {
        // Lines of refusals may move by what other edits added.
        let count = |set: &ChangeSet| set.manual.len();
        if count(&again) != count(set) {
            failed.push(format!("the second time other things are left to people:\n{}", manual_text(&again)));
        }
    }
    let (before, after) = (read(snapshot, scope), read(&edited, scope));
    let known = Index::default();
    let first = known.edit(snapshot, scope, plan);
    if (&first, &known.edit(&edited, scope, plan), &known.read(snapshot, scope)) != (set, &again, &before) {
        failed.push("what is known of another commit changes the answer".to_owned());
    }
    if before.workloads.keys().ne(after.workloads.keys()) {
        failed.push("the edited repository declares other workloads".to_owned());
    }
    let by_hand = manual_text(set);
    for change in &plan.changes {
        match change {
            Change::SetMigConfig { name, .. } if !by_hand.contains(name.as_str()) => {
                for wanted in [name.as_str(), "all-disabled"] {
                    if !after.operator.mig_config_names.contains(wanted) {
                        failed.push(format!("the map does not hold `{wanted}`"));
                    }
                }
                if !before.operator.mig_config_names.is_subset(&after.operator.mig_config_names) {
                    failed.push("names of the map are gone".to_owned());
                }
            }
            Change::SetPluginConfig { key, .. } if !by_hand.contains(key.as_str()) => {
                if !after.operator.plugin_config_keys.contains(key) {
                    failed.push(format!("the map does not hold `{key}`"));
                }
            }
            Change::LabelNodes { key, value, nodes } if !by_hand.contains(&format!("`{key}: {value}`")) => {
                for (node, carrier) in
                    nodes.keys().filter_map(|node| Some((node, after.node_labels.get(node)?)))
                {
                    if carrier.editable.is_ok() && carrier.labels.get(key) != Some(value) {
                        failed.push(format!("the manifest of `{node}` does not hold the label"));
                    }
                }
            }
            Change::PinWorkload { workload, selector } if !by_hand.contains(&workload.to_string()) => {
                let declared =
                    after.of(workload).map(|found| found.node_selector.clone()).unwrap_or_default();
                if selector.iter().any(|(key, value)| declared.get(key) != Some(value)) {
                    failed.push(format!("`{workload}` does not select its nodes"));
                }
            }
            Change::SetMigConfig { .. }
            | Change::SetPluginConfig { .. }
            | Change::LabelNodes { .. }
            | Change::LabelGroup { .. }
            | Change::AddNodePool { .. }
            | Change::SetWorkloadResource { .. }
            | Change::PinWorkload { .. } => {}
        }
    }
    failed
}

fn update(folder: &Path, set: &ChangeSet, manual: &str, effects: &str, notes: &str) {
    let _ = fs::remove_dir_all(folder.join("expected"));
    for (path, text) in &set.files {
        if path.contains("rollback/") && !folder.ends_with("rollback-file") {
            continue;
        }
        let path = folder.join("expected").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    for (name, text) in
        [("expected-refusal.txt", manual), ("expected-effects.txt", effects), ("expected-notes.txt", notes)]
    {
        let _ = fs::remove_file(folder.join(name));
        if !text.is_empty() {
            fs::write(folder.join(name), format!("{}\n", text.trim_end())).unwrap();
        }
    }
}

#[expect(clippy::print_stdout, reason = "people who bring cases want to see that they ran")]
#[test]
fn repositories_are_edited_as_their_cases_say() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/infra");
    let mut cases = case_folders(&own);
    assert!(!cases.is_empty(), "no cases under {}", own.display());
    if let Some(extra) = std::env::var_os("SLICEWRIGHT_EXTRA_CASES") {
        let extra = Path::new(&extra).join("infra");
        let found = case_folders(&extra);
        assert!(!found.is_empty(), "no cases under {}", extra.display());
        println!("{} further cases from {}", found.len(), extra.display());
        cases.extend(found);
    }
    let mut failed = Vec::new();
    for case in &cases {
        let problems = run(case);
        if !problems.is_empty() {
            failed.push(format!("== {}\n{}", case.display(), problems.join("\n")));
        }
    }
    assert!(failed.is_empty(), "{} of {} cases failed\n{}", failed.len(), cases.len(), failed.join("\n"));
}

fn snapshot(files: &[(&str, &str)]) -> Snapshot {
    let files = files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect();
    Snapshot { commit: "4f2c9e1".into(), files, ..Snapshot::default() }
}

const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: embed-svc
  namespace: search
spec:
  replicas: 6
  selector: {matchLabels: {app: embed}}
  template:
    metadata:
      labels: {app: embed}
    spec:
      nodeSelector:
        nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB
      tolerations:
        - {key: nvidia.com/gpu, operator: Exists}
        - {key: dedicated, value: search}
      containers:
        - name: server
          args: [--gpu-memory-utilization, '0.9']
          resources:
            requests:
              nvidia.com/gpu: 1
            limits:
              nvidia.com/gpu: 1
";

#[test]
fn a_deployment_is_read_with_all_that_the_planner_needs() {
    let declared = read(&snapshot(&[("apps/embed.yaml", DEPLOYMENT)]), &scope(&json!({})));
    let found = &declared.workloads[&WorkloadId::new("Deployment", "search", "embed-svc")];
    assert_eq!(found.place, "apps/embed.yaml:25");
    assert_eq!(found.editable, Ok(()));
    assert_eq!((found.replicas, found.max_surge), (Some(6), Some(2)), "a quarter of 6, rounded up");
    assert!(!found.ignored);
    assert_eq!(found.node_selector["nvidia.com/gpu.product"], "NVIDIA-A100-SXM4-40GB");
    assert_eq!(found.tolerations.iter().collect::<Vec<_>>(), ["dedicated=search", "nvidia.com/gpu"]);
    assert_eq!(found.memory_flags, ["--gpu-memory-utilization 0.9"]);
    assert!(declared.notes.is_empty(), "{:?}", declared.notes);
}

#[test]
fn surge_is_read_as_written_or_as_kubernetes_does_it() {
    let check = |from: &str, to: &str, expected: Option<u32>| {
        let text = DEPLOYMENT.replace(from, to);
        let declared = read(&snapshot(&[("a.yaml", &text)]), &scope(&json!({})));
        assert_eq!(declared.workloads.values().next().unwrap().max_surge, expected, "{to}");
    };
    let strategy = |text: &str| format!("  replicas: 6\n  strategy: {text}\n");
    check("  replicas: 6\n", &strategy("{rollingUpdate: {maxSurge: 0}}"), Some(0));
    check("  replicas: 6\n", &strategy("{rollingUpdate: {maxSurge: '50%'}}"), Some(3));
    check("  replicas: 6\n", &strategy("{type: Recreate}"), Some(0));
    check("  replicas: 6\n", "", Some(1));
    check("kind: Deployment", "kind: StatefulSet", Some(0));
}

#[test]
fn an_opted_out_namespace_or_pod_template_counts() {
    let check = |files: &[(&str, &str)]| {
        let declared = read(&snapshot(files), &scope(&json!({})));
        assert!(declared.workloads.values().next().unwrap().ignored, "{files:?}");
    };
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: search\n  annotations: {slicewright/ignore: \"true\"}\n";
    check(&[("a.yaml", DEPLOYMENT), ("ns.yaml", namespace)]);
    let template = DEPLOYMENT.replace(
        "      labels: {app: embed}\n",
        "      labels: {app: embed}\n      annotations: {slicewright/ignore: 'true'}\n",
    );
    check(&[("a.yaml", &template)]);
}

#[test]
fn the_operator_is_read_from_where_its_settings_stand() {
    let check = |path: &str, text: &str, version: Option<&str>| {
        let declared = read(&snapshot(&[(path, text)]), &scope(&json!({})));
        let operator = declared.operator;
        assert!(operator.declared_in_repository, "{path}");
        assert_eq!(operator.mig_strategy, Some(MigStrategy::Mixed), "{path}");
        let place = operator.mig_strategy_place.unwrap();
        assert!(place.starts_with(&format!("{path}:")), "{place}");
        assert_eq!(operator.plugin_config_map.as_deref(), Some("time-slicing-config"), "{path}");
        assert_eq!(operator.version.as_deref(), version, "{path}");
    };
    let settings = "mig: {strategy: mixed}, devicePlugin: {config: {name: time-slicing-config}}";
    check(
        "policy.yaml",
        &format!(
            "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {{name: cluster-policy}}\nspec: {{{settings}}}\n"
        ),
        None,
    );
    check(
        "release.yaml",
        &format!(
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: gpu-operator, namespace: \
             gpu-operator}}\nspec: {{chart: {{spec: {{chart: gpu-operator, version: v25.10.1}}}}, values: {{{settings}}}}}\n"
        ),
        Some("25.10.1"),
    );
    check(
        "app.yaml",
        &format!(
            "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: gpu-operator}}\nspec:\n  source:\n    \
             chart: gpu-operator\n    targetRevision: v24.9.2\n    helm:\n      values: |\n        {{{settings}}}\n"
        ),
        Some("24.9.2"),
    );
}

#[test]
fn parts_of_the_operator_that_do_not_run_are_known() {
    let policy = "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: cluster-policy}\nspec:\n  \
                  migManager: {enabled: false}\n  devicePlugin: {enabled: true}\n";
    let operator = read(&snapshot(&[("a.yaml", policy)]), &scope(&json!({}))).operator;
    assert_eq!(operator.mig_manager_off.unwrap(), "`migManager.enabled` is `false` in `a.yaml:1`");
    assert_eq!(operator.device_plugin_off, None);

    let other = policy.replace("migManager: {enabled: false}", "mig: {strategy: single}");
    let one = policy.replace("migManager: {enabled: false}", "mig: {strategy: mixed}");
    let operator = read(&snapshot(&[("a.yaml", &one), ("b.yaml", &other)]), &scope(&json!({}))).operator;
    assert_eq!(operator.mig_strategy, None, "the two disagree");

    let dra = "apiVersion: nvidia.com/v1alpha1\nkind: GPUCluster\nmetadata: {name: gpus}\nspec: {}\n";
    let operator = read(&snapshot(&[("a.yaml", dra)]), &scope(&json!({}))).operator;
    assert_eq!(operator.gpu_cluster.as_deref(), Some("GPUCluster `gpus` in `a.yaml:1`"));
    assert_eq!((operator.mig_manager_off, operator.mig_strategy_place), (None, None));
    let another = dra.replace("nvidia.com/v1alpha1", "example.com/v1");
    assert_eq!(read(&snapshot(&[("a.yaml", &another)]), &scope(&json!({}))).operator.gpu_cluster, None);
}

#[test]
fn a_policy_of_another_product_is_not_the_operators() {
    let text = "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: nvidia.com/x}\nspec: {}\n";
    assert!(!read(&snapshot(&[("a.yaml", text)]), &scope(&json!({}))).operator.declared_in_repository);
}

#[test]
fn what_was_not_read_is_named() {
    let mut repository = snapshot(&[
        ("lfs.yaml", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"),
        ("broken.yaml", "a: [nvidia.com/gpu\n"),
        ("../out.yaml", "a: 1\n"),
    ]);
    repository.files.insert("latin1.yaml".into(), b"a: \xe9\n".to_vec());
    repository.skipped.insert("huge.yaml".into(), "it has 40 MiB".into());
    let notes = read(&repository, &scope(&json!({}))).notes.join("\n");
    for path in ["lfs.yaml", "broken.yaml", "../out.yaml", "latin1.yaml", "huge.yaml"] {
        assert!(notes.contains(path), "{path}: {notes}");
    }
}

#[test]
fn a_symlink_beside_the_overlay_that_is_changed_is_named() {
    let mut repository = snapshot(&[
        ("base/a.yaml", DEPLOYMENT),
        ("base/kustomization.yaml", "resources: [a.yaml]\n"),
        ("overlays/dc1/kustomization.yaml", "resources: [../../base]\n"),
    ]);
    for path in ["overlays/dc2", "overlays/README.md", "LICENSE"] {
        repository.skipped.insert(path.into(), "a symlink, which is never followed".into());
    }
    let change = json!({"change": "set-workload-resource", "workload": {"kind": "Deployment", "namespace": "search", "name": "embed-svc"}, "from": "nvidia.com/gpu", "to": "nvidia.com/mig-2g.10gb", "count": 1, "pin": {}});
    let set = edit(&repository, &scope(&json!({})), &plan(&json!({"changes": [change]})));
    assert!(set.files.contains_key("base/a.yaml"), "{:?}", set.manual);
    let named: Vec<_> = set.side_effects.iter().filter(|effect| effect.contains("symlink")).collect();
    assert_eq!(
        named,
        [
            "`overlays/dc2` was not read: a symlink, which is never followed. If it leads to `overlays/dc1`, the change \
          reaches whoever uses it."
        ]
    );
}

#[test]
fn only_the_clusters_folders_are_read() {
    let other = DEPLOYMENT.replace("embed-svc", "other");
    let files = snapshot(&[("clusters/dc1/a.yaml", DEPLOYMENT), ("clusters/dc2/a.yaml", &other)]);
    let declared = read(&files, &scope(&json!({"folders": ["clusters/dc1/"]})));
    assert_eq!(declared.workloads.keys().map(|id| id.name.as_str()).collect::<Vec<_>>(), ["embed-svc"]);
}

/// projectcapsule/capsule#1891: a bot moved what a pipeline runs to a malicious commit.
#[test]
fn pipelines_are_never_written_to() {
    let files = snapshot(&[(".github/workflows/a.yaml", DEPLOYMENT)]);
    let change = json!({"change": "set-workload-resource", "workload": {"kind": "Deployment", "namespace": "search", "name": "embed-svc"}, "from": "nvidia.com/gpu", "to": "nvidia.com/mig-2g.10gb", "count": 1, "pin": {}});
    let label =
        json!({"change": "label-nodes", "key": "nvidia.com/mig.config", "value": "x", "nodes": {"n": null}});
    for new_files in [".github/workflows/", "../", "/etc/"] {
        let set = edit(
            &files,
            &scope(&json!({"new_files": new_files})),
            &plan(&json!({"changes": [change, label]})),
        );
        assert!(set.files.is_empty(), "{new_files}: {:?}", set.files.keys());
        assert_eq!(set.manual.len(), 3, "{new_files}: {:?}", set.manual);
    }
}

#[test]
fn hostile_names_stay_names() {
    let wish = json!({
        "pool": {"cluster": "dc1\n$(reboot)", "pool": "a; b"},
        "changes": [{"change": "label-nodes", "key": "nvidia.com/mig.config", "value": "$(reboot)", "nodes": {"n1": "`x`", "n; reboot\nreboot": null, "--all": null}}],
        "rollback": [{"what": "```\n# Heading", "commands": ["````", "a\nb"], "wait_for": null, "cost": null, "on_failure": null}],
    });
    let set = edit(&Snapshot::default(), &scope(&json!({})), &plan(&wish));
    assert_eq!(set.manual.len(), 2, "{:?}", set.manual);
    insta::assert_snapshot!(String::from_utf8_lossy(&set.files["slicewright/labels/a-b.sh"]), @r"
    #!/bin/sh
    # Node labels of pool a; b in cluster dc1 $(reboot) that no manifest of this repository holds.
    # Run it as the merge request's rollout says: a node is cordoned and drained before its label changes.
    set -eu
    kubectl label node n1 'nvidia.com/mig.config=$(reboot)' --overwrite
    ");
    insta::assert_snapshot!(String::from_utf8_lossy(&set.files["slicewright/rollback/a-b.md"]), @r"
    # The way back for pool `a; b` in cluster `dc1 $(reboot)`

    Read all of it before you begin, and keep the order: the revert also removes this file.

    ## Steps

    1. ''' # Heading

    `````sh
    ````
    a b
    `````

    ## Labels as they were

    ```sh
    kubectl label node n1 'nvidia.com/mig.config=`x`' --overwrite
    ```
    ");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_bytes_make_it_panic(at in 0..DEPLOYMENT.len(), n in 0_usize..40, with in prop::collection::vec(any::<u8>(), 0..12)) {
        let mut bytes = DEPLOYMENT.as_bytes().to_vec();
        let end = (at + n).min(bytes.len());
        bytes.splice(at..end, with);
        let files = BTreeMap::from([("a.yaml".to_owned(), bytes)]);
        let snapshot = Snapshot { files, ..Snapshot::default() };
        let change = json!({"change": "set-workload-resource", "workload": {"kind": "Deployment", "namespace": "search", "name": "embed-svc"}, "from": "nvidia.com/gpu", "to": "nvidia.com/mig-2g.10gb", "count": 1, "pin": {"pool": "a"}});
        let (scope, plan) = (scope(&json!({})), plan(&json!({"changes": [change]})));
        let set = edit(&snapshot, &scope, &plan);
        prop_assert_eq!(holds(&snapshot, &scope, &plan, &set), Vec::<String>::new());
        prop_assert_eq!(&set, &edit(&snapshot, &scope, &plan));
        // Made or left to people, never dropped.
        prop_assert!(set.files.contains_key("a.yaml") || !set.manual.is_empty());
    }
}

const BUNDLE: &[(&str, &str)] = &[
    ("apps/deployment.yaml", DEPLOYMENT),
    (
        "apps/kustomization.yaml",
        "namespace: search\nresources:\n  - deployment.yaml\npatches:\n  - path: patch.yaml\n",
    ),
    ("apps/patch.yaml", "kind: Deployment\nmetadata: {name: embed-svc}\nspec: {replicas: 2}\n"),
    (
        "gpu/policy.yaml",
        "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: cluster-policy}\nspec:\n  mig: {strategy: mixed}\n  \
         devicePlugin:\n    config: {name: time-slicing-config}\n",
    ),
    (
        "gpu/plugin.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: time-slicing-config, namespace: gpu-operator}\ndata:\n  any: |\n    \
         version: v1\n",
    ),
    ("nodes.yaml", "apiVersion: v1\nkind: Node\nmetadata:\n  name: n1\n  labels: {a: b}\n"),
    (
        "pdb.yaml",
        "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: p, namespace: search}\nspec: {selector: {matchLabels: {app: embed}}}\n",
    ),
    ("slicewright/kustomization.yaml", "resources: []\n"),
];

fn every_change() -> Plan {
    let workload = json!({"kind": "Deployment", "namespace": "search", "name": "embed-svc"});
    plan(&json!({"changes": [
        {"change": "set-mig-config", "name": "a100-40gb-3f9a1c", "entries": [{"cards": [0], "instances": {"2g.10gb": 3}}], "names_in_use": ["all-1g.5gb"]},
        {"change": "set-plugin-config", "key": "a10g-x4", "resource": "nvidia.com/gpu", "replicas": 4, "fail_requests_greater_than_one": true},
        {"change": "label-nodes", "key": "nvidia.com/mig.config", "value": "a100-40gb-3f9a1c", "nodes": {"n1": "all-disabled", "n2": null}},
        {"change": "set-workload-resource", "workload": workload, "from": "nvidia.com/gpu", "to": "nvidia.com/mig-2g.10gb", "count": 1, "pin": {"pool": "a"}},
    ]}))
}

#[test]
fn a_whole_plan_is_made_true_and_only_what_it_names_changes() {
    let before = snapshot(BUNDLE);
    let set = edit(&before, &scope(&json!({})), &every_change());
    assert!(set.manual.is_empty(), "{:?}", set.manual);
    let expected = [
        "apps/deployment.yaml",
        "gpu/plugin.yaml",
        "gpu/policy.yaml",
        "nodes.yaml",
        "slicewright/kustomization.yaml",
        "slicewright/labels/a100-40gb.sh",
        "slicewright/rollback/a100-40gb.md",
        "slicewright/slicewright-mig-parted-config.yaml",
    ];
    assert_eq!(set.files.keys().collect::<Vec<_>>(), expected);
    assert_eq!(holds(&before, &scope(&json!({})), &every_change(), &set), Vec::<String>::new());
}

#[test]
fn nothing_is_written_over_a_file_that_was_not_read() {
    let mut files = snapshot(&[]);
    files
        .skipped
        .insert("slicewright/slicewright-mig-parted-config.yaml".into(), "it is a symbolic link".into());
    files.files.insert("slicewright/rollback/a100-40gb.md".into(), vec![0xff]);
    let set = edit(&files, &scope(&json!({})), &every_change());
    // The labels wait: they name a layout that only people can write down now.
    let expected = ["slicewright/time-slicing-config.yaml"];
    assert_eq!(set.files.keys().collect::<Vec<_>>(), expected);
    assert!(manual_text(&set).contains("exists and was not read"));
}

#[test]
fn a_default_that_shares_every_card_is_named() {
    let mut files = BUNDLE.to_vec();
    files[3].1 = "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec: {devicePlugin: {config: {name: m, default: any}}}\n";
    files[4].1 = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, namespace: gpu-operator}\ndata:\n  any: |\n    version: v1\n    sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n";
    let notes = read(&snapshot(&files), &scope(&json!({}))).notes.join("\n");
    assert!(notes.contains("shares the cards of every node"), "{notes}");
}

#[test]
fn workloads_on_dynamic_resource_allocation_are_not_edited() {
    let text = DEPLOYMENT
        .replace("      nodeSelector:\n", "      resourceClaims: [{name: gpu}]\n      nodeSelector:\n");
    let declared = read(&snapshot(&[("a.yaml", &text)]), &scope(&json!({})));
    assert!(declared.workloads.values().all(|workload| workload.editable.is_err()));
}

#[test]
fn many_files_are_read_in_any_number_of_threads_to_the_same_result() {
    let texts: Vec<(String, String)> = (0..300)
        .map(|n| (format!("apps/{n}.yaml"), DEPLOYMENT.replace("embed-svc", &format!("svc-{n}"))))
        .collect();
    let files: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let declared = read(&snapshot(&files), &scope(&json!({})));
    assert_eq!(declared.workloads.len(), 300);
    for (path, text) in &texts {
        let one = read(&snapshot(&[(path, text)]), &scope(&json!({})));
        for (id, workload) in one.workloads {
            assert_eq!(declared.workloads[&id], workload);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_file_of_a_repository_makes_it_panic_or_write_twice(
        which in 0..BUNDLE.len(),
        at in 0_usize..400,
        n in 0_usize..30,
        with in prop_oneof![prop::collection::vec(any::<u8>(), 0..8), "[ \\n:{}&*#|>-]{0,6}".prop_map(String::into_bytes)],
    ) {
        let mut snapshot = snapshot(BUNDLE);
        let bytes = snapshot.files.get_mut(BUNDLE[which].0).unwrap();
        let at = at.min(bytes.len());
        let end = (at + n).min(bytes.len());
        bytes.splice(at..end, with);
        let (scope, plan) = (scope(&json!({})), every_change());
        let set = edit(&snapshot, &scope, &plan);
        prop_assert_eq!(&set, &edit(&snapshot, &scope, &plan));
        let mut edited = snapshot.clone();
        edited.files.extend(set.files.clone());
        let again = edit(&edited, &scope, &plan);
        prop_assert!(again.files.is_empty(), "{:?}", again.files.keys());
    }
}

#[test]
fn what_is_left_to_people_comes_with_its_exact_text() {
    let texts = |files: &[(&str, &str)], plan: &Plan| -> String {
        edit(&snapshot(files), &scope(&json!({})), plan)
            .manual
            .iter()
            .map(|change| format!("{}\n{}\n", change.what, change.text))
            .collect()
    };
    let mut unknown = every_change();
    if let Change::SetMigConfig { names_in_use, .. } = &mut unknown.changes[0] {
        names_in_use.push("all-balanced".into());
    }
    insta::assert_snapshot!(texts(&[], &unknown), @r"
    Add the layout `a100-40gb-3f9a1c` to the MIG config map `slicewright-mig-parted-config` of namespace `gpu-operator`
    # MIG layouts of this cluster, read by the MIG manager of the NVIDIA GPU Operator.
    # This map replaces the operator's own one for every node: it must hold every name that a node label
    # `nvidia.com/mig.config` uses, `all-disabled` too.
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: slicewright-mig-parted-config
      namespace: gpu-operator
    data:
      config.yaml: |
        version: v1
        mig-configs:
          all-disabled:
            - devices: all
              mig-enabled: false
          all-1g.5gb:
            - devices: all
              mig-enabled: true
              mig-devices:
                1g.5gb: 7
          a100-40gb-3f9a1c:
            - devices:
                - 0
              mig-enabled: true
              mig-devices:
                2g.10gb: 3
    ---
    # ClusterPolicy `cluster-policy`; in Helm values the same without `spec`
    spec:
      migManager:
        config:
          name: slicewright-mig-parted-config

    Label 2 nodes `nvidia.com/mig.config: a100-40gb-3f9a1c`
    kubectl label node n1 nvidia.com/mig.config=a100-40gb-3f9a1c --overwrite
    kubectl label node n2 nvidia.com/mig.config=a100-40gb-3f9a1c --overwrite

    Let Deployment `search/embed-svc` ask for `nvidia.com/mig-2g.10gb: 1` instead of `nvidia.com/gpu: 1`
    resources:
      requests:
        nvidia.com/mig-2g.10gb: 1
      limits:
        nvidia.com/mig-2g.10gb: 1
    nodeSelector:
      pool: a

    Set `devicePlugin.config.name: time-slicing-config` in the GPU Operator's settings
    # ClusterPolicy `cluster-policy`; in Helm values the same without `spec`
    spec:
      devicePlugin:
        config:
          name: time-slicing-config
          default: default
    ");
}
