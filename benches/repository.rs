//! How long it takes to read and edit a repository, over `git grep` on the same commit.
//!
//! `cargo bench --bench repository` commits 20,000 YAML files (250 services in each of 16 folders of clusters, five files
//! a service, every twelfth with a GPU), looks for the GPUs with `git grep -c`, and then reads the commit, indexes it and
//! edits ten workloads. Medians of five runs; the result must hold the ten edits. The last figure is that of a process
//! which knows the commit before: its files are in memory, and an [`Index`] holds what was read of them.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on ends there")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
#![allow(dead_code, unused_imports, reason = "the world is the tests': the benchmark needs a part of it")]

#[path = "../tests/world/mod.rs"]
mod world;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::json;
use slicewright::forge::Forge;
use slicewright::forge::local::{Local, Settings};
use slicewright::infra::{Index, Scope, Snapshot};
use slicewright_core::plan::Plan;
use slicewright_core::plan::saving::Saving;
use world::repo::BareRepo;

const RUNS: usize = 5;
const N_CLUSTERS: usize = 16;
const N_SERVICES: usize = 250;
const N_EDITS: usize = 10;
/// Of so many files, the next commit changes one; some of them are kustomizations.
const N_UNTOUCHED: usize = 1_001;

fn write(folder: &Path, name: &str, text: String) {
    std::fs::write(folder.join(name), text).unwrap();
}

/// Five files of one service.
fn service(folder: &Path, name: &str, gpu: bool) {
    std::fs::create_dir_all(folder).unwrap();
    let limit = if gpu { "              nvidia.com/gpu: 1\n" } else { "              memory: 4Gi\n" };
    write(
        folder,
        "kustomization.yaml",
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n  - deployment.yaml\n  - \
         service.yaml\n  - config.yaml\n  - budget.yaml\n"
            .to_owned(),
    );
    write(
        folder,
        "deployment.yaml",
        format!(
            "# Owned by team search.\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\n  namespace: search\n  \
             labels:\n    app.kubernetes.io/name: {name}\nspec:\n  replicas: 2\n  selector:\n    matchLabels:\n      \
             app.kubernetes.io/name: {name}\n  template:\n    metadata:\n      labels:\n        app.kubernetes.io/name: \
             {name}\n    spec:\n      containers:\n        - name: main\n          image: \
             registry.example.com/search/{name}:1.8.2\n          ports:\n            - containerPort: 8080\n          env:\n            \
             - name: LOG_LEVEL\n              value: info\n          resources:\n            limits:\n{limit}"
        ),
    );
    write(
        folder,
        "service.yaml",
        format!(
            "apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n  namespace: search\nspec:\n  type: ClusterIP\n  \
             selector:\n    app.kubernetes.io/name: {name}\n  ports:\n    - port: 80\n      targetPort: 8080\n"
        ),
    );
    let settings: String = (0..40).map(|i| format!("    option.{i} = value-{i}\n")).collect();
    write(
        folder,
        "config.yaml",
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: search\ndata:\n  app.properties: \
             |\n{settings}"
        ),
    );
    write(
        folder,
        "budget.yaml",
        format!(
            "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata:\n  name: {name}\n  namespace: search\nspec:\n  \
             maxUnavailable: 1\n  selector:\n    matchLabels:\n      app.kubernetes.io/name: {name}\n"
        ),
    );
}

/// Ten workloads of the first cluster get a slice.
fn plan() -> Plan {
    let changes: Vec<_> = (0..N_EDITS)
        .map(|i| {
            json!({
                "change": "set-workload-resource",
                "workload": {"namespace": "search", "name": format!("svc-{}", i * 12), "kind": "Deployment"},
                "from": "nvidia.com/gpu",
                "to": "nvidia.com/mig-1g.5gb",
                "count": 1,
                "pin": {},
            })
        })
        .collect();
    let plan = json!({
        "pool": {"cluster": "c00", "pool": "a100-40gb"}, "pool_kind": "static", "goal": "bill", "model": "a100-40gb",
        "model_name": "NVIDIA A100-SXM4-40GB", "method": "mig", "changes": changes, "items": [], "kept": [],
        "nodes": [], "saving": serde_json::to_value(Saving::default()).unwrap(),
        "proof": {"n_cards": 0, "proven": true, "sentences": []}, "alternatives": [], "rollout": [], "rollback": [],
        "risks": [], "confidence": "high", "confidence_reason": "", "notes": [], "overrides": [], "fingerprint": "",
    });
    serde_json::from_value(plan).unwrap()
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

fn timed<T>(mut work: impl FnMut() -> T) -> f64 {
    let runs = (0..RUNS).map(|_| {
        let started = Instant::now();
        std::hint::black_box(work());
        started.elapsed().as_secs_f64()
    });
    median(runs.collect())
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    for c in 0..N_CLUSTERS {
        for s in 0..N_SERVICES {
            let name = format!("svc-{s}");
            service(&folder.path().join(format!("clusters/c{c:02}/{name}")), &name, s % 12 == 0);
        }
    }
    let repo = BareRepo::from_folder(folder.path());
    // As a forge or a clone keeps it.
    let mut repack = Command::new("git");
    repack.args(["--git-dir"]).arg(repo.path()).args(["repack", "-a", "-d", "-q"]);
    assert!(repack.status().unwrap().success());
    let forge = Local::open(Settings::new(repo.path(), folder.path().join("requests"))).unwrap();
    let head = forge.head().unwrap();
    let plan = plan();
    let scope = |folders: &[&str]| Scope {
        cluster: "c00".to_owned(),
        folders: folders.iter().map(|folder| (*folder).to_owned()).collect(),
        deployed_by: Vec::new(),
        new_files: "slicewright/c00/".to_owned(),
        operator_namespace: "gpu-operator".to_owned(),
    };
    let snapshot = || {
        let tree = forge.read_tree(&head).unwrap();
        Snapshot { commit: tree.commit, files: tree.files, skipped: tree.skipped }
    };
    let own = scope(&["clusters/c00/"]);
    let count =
        |known: &Index, snapshot: &Snapshot, scope: &Scope| known.read(snapshot, scope).workloads.len();
    let change = |known: &Index, snapshot: &Snapshot| {
        let set = known.edit(snapshot, &own, &plan);
        let edited = set.files.keys().filter(|path| path.ends_with("deployment.yaml")).count();
        assert_eq!((edited, set.manual.len()), (N_EDITS, 0), "{:?}", set.manual);
    };

    let grep = timed(|| {
        let mut git = Command::new("git");
        git.args(["--git-dir"]).arg(repo.path()).args(["grep", "-c", "nvidia.com/gpu", &head]);
        assert!(git.stdout(Stdio::null()).status().unwrap().success());
    });
    let cached = snapshot();
    let everywhere = scope(&[]);
    let new = Index::default;
    // The same workload in sixteen folders is declared several times, and counts once.
    assert_eq!(count(&new(), &cached, &everywhere), N_SERVICES.div_ceil(12));
    let reading = timed(snapshot);
    let indexing = timed(|| count(&new(), &cached, &everywhere));
    let editing = timed(|| change(&new(), &cached));
    let cold = timed(|| {
        let (snapshot, known) = (snapshot(), new());
        count(&known, &snapshot, &everywhere);
        change(&known, &snapshot);
    });
    let unknown = timed(|| {
        let known = new();
        count(&known, &cached, &everywhere);
        change(&known, &cached);
    });
    // What a server does: it knows the last commit, and the next one has other texts in some files.
    let mut commits = [cached.clone(), cached.clone()];
    for (n, (path, bytes)) in commits[1].files.iter_mut().enumerate() {
        if n % N_UNTOUCHED == 0 && path.ends_with(".yaml") {
            bytes.extend_from_slice(b"# touched\n");
        }
    }
    let known = new();
    count(&known, &commits[0], &everywhere);
    let mut turn = 0;
    let warm = timed(|| {
        turn += 1;
        let commit = &commits[turn % commits.len()];
        count(&known, commit, &everywhere);
        change(&known, commit);
    });
    println!("{} YAML files", cached.files.len());
    println!("git grep -c               {:7.0} ms", grep * 1e3);
    println!("reading the commit        {:7.0} ms  {:5.2} of git grep", reading * 1e3, reading / grep);
    println!("indexing all clusters     {:7.0} ms  {:5.2}", indexing * 1e3, indexing / grep);
    println!("editing ten workloads     {:7.0} ms  {:5.2}", editing * 1e3, editing / grep);
    println!("all of it                 {:7.0} ms  {:5.2} (at most 3)", cold * 1e3, cold / grep);
    println!("all but reading           {:7.0} ms  {:5.2}", unknown * 1e3, unknown / grep);
    println!("all but reading, from     {:7.0} ms  {:5.2} (at most 1)", warm * 1e3, warm / grep);
    println!("what is known of the last commit, which differs in {} files", cached.files.len() / N_UNTOUCHED);
}
