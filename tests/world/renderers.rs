//! What the tools of other people make of a repository: `kubectl kustomize` and `helm template`, offline.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::python_tool;

/// Rendered objects by kind, namespace and name.
pub(crate) type Objects = BTreeMap<(String, String, String), Value>;

/// What Kustomize builds from a folder, or what it says against it.
pub(crate) fn kustomize(folder: &Path) -> Result<Objects, String> {
    run(Command::new(python_tool("kubectl")).arg("kustomize").arg(folder))
}

/// What Helm makes of a chart's folder with these values files, in order.
pub(crate) fn helm(
    chart: &Path,
    release: &str,
    namespace: &str,
    values: &[&Path],
) -> Result<Objects, String> {
    let mut command = Command::new(python_tool("helm"));
    command.args(["template", release]).arg(chart).args(["--namespace", namespace]);
    for file in values {
        command.arg("--values").arg(file);
    }
    run(&mut command)
}

fn run(command: &mut Command) -> Result<Objects, String> {
    let output = command.env("HOME", "/nonexistent").output().map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    objects(&String::from_utf8_lossy(&output.stdout))
}

fn objects(text: &str) -> Result<Objects, String> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|e| e.to_string())?;
    let mut objects = Objects::new();
    for object in documents.into_iter().filter(|object| !object.is_null()) {
        let part =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let key = (part("/kind"), part("/metadata/namespace"), part("/metadata/name"));
        if objects.insert(key.clone(), object).is_some() {
            return Err(format!("{key:?} is there twice"));
        }
    }
    Ok(objects)
}
