//! The edits as Kustomize and Helm render them: the workloads of the plan ask for something else, and nothing differs
//! besides.
//!
//! Every case of `tests/cases/infra` whose changes are about workloads is rendered before and after: each folder with a
//! kustomization by `kubectl kustomize`, and the releases that `render.json` names by `helm template`. A case that Kustomize
//! must not build says why in `not-built.txt`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::world::kubernetes;
use crate::world::nvidia::{self, Meant};
use crate::world::renderers::{self, Objects};
use crate::world::repo::files_below;
use crate::world::{case_folders, copy_folder};

/// What the plan wants of one workload.
struct Wish {
    from: String,
    to: String,
    pin: BTreeMap<String, Value>,
}

/// The wishes of a plan by kind, namespace and name. `None`: some change is about something else.
fn wishes(plan: &Value) -> Option<BTreeMap<(String, String, String), Wish>> {
    let mut wishes = BTreeMap::new();
    for change in plan["changes"].as_array()? {
        let id = |key: &str| change["workload"][key].as_str().unwrap_or_default().to_owned();
        let pins = |key: &str| change[key].as_object().cloned().unwrap_or_default().into_iter().collect();
        let text = |key: &str| change[key].as_str().unwrap_or("nvidia.com/gpu").to_owned();
        let wish = match change["change"].as_str()? {
            "set-workload-resource" => Wish { from: text("from"), to: text("to"), pin: pins("pin") },
            "pin-workload" => Wish { from: text("-"), to: text("-"), pin: pins("selector") },
            _ => return None,
        };
        wishes.insert((id("kind"), id("namespace"), id("name")), wish);
    }
    (!wishes.is_empty()).then_some(wishes)
}

/// Lets every container below ask for the other resource, as the plan means it.
fn ask_for(node: &mut Value, wish: &Wish) {
    match node {
        Value::Object(map) => {
            let mut asks = false;
            for container in map.get_mut("containers").and_then(Value::as_array_mut).into_iter().flatten() {
                for side in ["limits", "requests"] {
                    asks |= container["resources"][side].get(&wish.from).is_some();
                }
            }
            if asks && !wish.pin.is_empty() {
                let selector = map.entry("nodeSelector").or_insert_with(|| Value::Object(Default::default()));
                selector.as_object_mut().unwrap().extend(wish.pin.clone());
            }
            for (key, value) in map.iter_mut() {
                if let ("limits" | "requests", Some(resources)) = (key.as_str(), value.as_object_mut())
                    && let Some(n) = resources.remove(&wish.from)
                {
                    resources.insert(wish.to.clone(), n);
                } else {
                    ask_for(value, wish);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| ask_for(item, wish)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What differs between what is rendered and what is meant.
fn compare(
    before: &Objects,
    after: &Objects,
    wishes: &BTreeMap<(String, String, String), Wish>,
    met: &mut BTreeSet<(String, String, String)>,
) -> Vec<String> {
    let mut meant = before.clone();
    let mut wrong = Vec::new();
    for (key, object) in &mut meant {
        // A root that another cluster owns makes an object of the same name: it must not change at all.
        if after.get(key) == before.get(key) {
            continue;
        }
        // Where nothing in the files says the namespace, whoever applies them does.
        let is_it = |(kind, namespace, name): &&(String, String, String)| {
            // The values of a release are those of the workload that its chart makes and names after it.
            let made = key.0 == "HelmRelease" && name.contains(&key.2);
            (made || (*kind == key.0 && *name == key.2)) && (*namespace == key.1 || key.1.is_empty())
        };
        let Some((id, wish)) = wishes.keys().find(is_it).and_then(|id| wishes.get_key_value(id)) else {
            continue;
        };
        met.insert(id.clone());
        ask_for(object, wish);
    }
    for key in meant.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
        if meant.get(key) != after.get(key) {
            let shown =
                |object: Option<&Value>| object.map_or_else(String::new, |object| format!("{object:#}"));
            wrong.push(format!(
                "{key:?}\n--- meant\n{}\n--- rendered\n{}",
                shown(meant.get(key)),
                shown(after.get(key))
            ));
        }
    }
    wrong
}

/// Folders of a tree that Kustomize builds and no other kustomization lists.
fn roots(tree: &Path) -> Vec<PathBuf> {
    let named = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
    let (mut folders, mut listed) = (BTreeSet::new(), BTreeSet::new());
    for path in files_below(tree).iter().filter(|path| named.iter().any(|name| path.ends_with(name))) {
        let text = fs::read_to_string(tree.join(path)).unwrap_or_default();
        let folder = tree.join(path).parent().unwrap().to_path_buf();
        // Flux has a kind of the same name.
        if text.contains("toolkit.fluxcd.io") {
            continue;
        }
        let kustomization: Value = serde_saphyr::from_str(&text).unwrap_or_default();
        for entry in
            ["resources", "bases", "components"].iter().flat_map(|key| kustomization[*key].as_array())
        {
            let below = entry
                .iter()
                .filter_map(Value::as_str)
                .filter_map(|text| folder.join(text).canonicalize().ok());
            listed.extend(below);
        }
        // Components are built as parts of others.
        if kustomization["kind"] != "Component" {
            folders.insert(folder);
        }
    }
    folders.retain(|folder| folder.canonicalize().is_ok_and(|folder| !listed.contains(&folder)));
    folders.into_iter().collect()
}

#[test]
fn edits_render_as_they_are_meant() {
    let mut wrong = Vec::new();
    let (mut n_built, mut n_charts) = (0, 0);
    for case in case_folders("infra") {
        let read =
            |name: &str| -> Option<Value> { serde_json::from_slice(&fs::read(case.join(name)).ok()?).ok() };
        let Some(wishes) = read("plan.json").as_ref().and_then(wishes) else { continue };
        let (before, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        copy_folder(&case.join("repo"), before.path());
        copy_folder(&case.join("repo"), after.path());
        copy_folder(&case.join("expected"), after.path());
        let name = case.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut met = BTreeSet::new();
        let mut check = |what: &str, pair: (Result<Objects, String>, Result<Objects, String>)| match pair {
            (Ok(old), Ok(new)) => {
                let found = compare(&old, &new, &wishes, &mut met);
                wrong.extend(found.into_iter().map(|text| format!("{name}: {what}: {text}")));
            }
            (Err(why), _) | (_, Err(why)) => wrong.push(format!("{name}: {what} is not rendered: {why}")),
        };
        let built = roots(after.path());
        let not_built = case.join("not-built.txt").is_file();
        for folder in &built {
            let below = folder.strip_prefix(after.path()).unwrap();
            let of = |tree: &Path| renderers::kustomize(&tree.join(below));
            if not_built {
                continue;
            }
            n_built += 1;
            check(&below.display().to_string(), (of(before.path()), of(after.path())));
        }
        for release in
            read("render.json").iter().flat_map(|value| value.as_array().cloned().unwrap_or_default())
        {
            let text = |key: &str| release[key].as_str().unwrap_or_default().to_owned();
            let of = |tree: &Path| {
                let values: Vec<PathBuf> = release["values"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|file| tree.join(file.as_str().unwrap_or_default()))
                    .collect();
                let values: Vec<&Path> = values.iter().map(PathBuf::as_path).collect();
                renderers::helm(&tree.join(text("chart")), &text("release"), &text("namespace"), &values)
            };
            n_charts += 1;
            check(&text("release"), (of(before.path()), of(after.path())));
        }
        let rendered = !(built.is_empty() || not_built) || case.join("render.json").is_file();
        let expected = case.join("expected");
        let edits =
            expected.is_dir() && files_below(&expected).iter().any(|path| !path.contains("rollback/"));
        if rendered && edits && met.is_empty() {
            wrong.push(format!("{name}: files change, and no rendered workload does"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(n_built > 60, "{n_built} kustomizations and {n_charts} charts were rendered");
}

/// Files of a tree that a kustomization merges into others: parts of objects.
fn is_patch(tree: &Path, path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let text = fs::read_to_string(tree.join(folder).join("kustomization.yaml")).unwrap_or_default();
    text.split("patches").skip(1).any(|part| part.contains(name))
}

#[test]
fn edits_bring_nothing_that_the_schemas_refuse() {
    let (before, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut files = Vec::new();
    for (i, case) in case_folders("infra").iter().enumerate() {
        let below = format!("{i:03}-{}", case.file_name().unwrap_or_default().to_string_lossy());
        let (old, new) = (before.path().join(&below), after.path().join(&below));
        copy_folder(&case.join("repo"), &old);
        copy_folder(&case.join("repo"), &new);
        copy_folder(&case.join("expected"), &new);
        if !case.join("expected").is_dir() {
            continue;
        }
        let changed = files_below(&case.join("expected")).into_iter().filter(|path| {
            let text = fs::read_to_string(new.join(path)).unwrap_or_default();
            let manifest =
                text.lines().any(|line| line.starts_with("apiVersion:")) && path.ends_with(".yaml");
            manifest && !path.ends_with("kustomization.yaml") && !is_patch(&new, path)
        });
        files.extend(changed.map(|path| format!("{below}/{path}")));
    }
    let there: Vec<String> =
        files.iter().filter(|path| before.path().join(path).is_file()).cloned().collect();
    let known: BTreeSet<String> = kubernetes::complaints(before.path(), &there).into_iter().collect();
    let new: Vec<String> = kubernetes::complaints(after.path(), &files)
        .into_iter()
        .filter(|line| !known.contains(line))
        .collect();
    assert!(new.is_empty(), "{}", new.join("\n"));
    assert!(files.len() > 40, "{} manifests", files.len());
}

#[test]
fn edits_bring_nothing_that_nvidias_parsers_refuse() {
    let mut wrong = Vec::new();
    let (mut n_mig, mut n_plugin, mut n_policies) = (0, 0, 0);
    for case in case_folders("infra").iter().filter(|case| case.join("expected").is_dir()) {
        let plan: Value = serde_json::from_slice(&fs::read(case.join("plan.json")).unwrap()).unwrap();
        let names = plan["changes"].as_array().into_iter().flatten();
        let meant = Meant {
            model: plan["model"].as_str().unwrap_or("a100-40gb").to_owned(),
            names: names.filter_map(|change| change["name"].as_str().map(str::to_owned)).collect(),
        };
        let after = tempfile::tempdir().unwrap();
        copy_folder(&case.join("repo"), after.path());
        let known: BTreeSet<String> = nvidia::look(after.path(), &meant).complaints.into_iter().collect();
        copy_folder(&case.join("expected"), after.path());
        let verdict = nvidia::look(after.path(), &meant);
        n_mig += verdict.n_mig;
        n_plugin += verdict.n_plugin;
        n_policies += verdict.n_policies;
        let new = verdict.complaints.into_iter().filter(|complaint| !known.contains(complaint));
        wrong.extend(new.map(|complaint| format!("{}: {complaint}", case.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        n_mig > 6 && n_plugin > 12 && n_policies > 8,
        "{n_mig} MIG files, {n_plugin} keys, {n_policies} policies"
    );
}
