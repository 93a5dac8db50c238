//! Kubernetes' own schemas, by `kubernetes-validate` of the tests' Python environment.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::python_tool;

/// The schemas' Kubernetes version; the example clusters run it.
const VERSION: &str = "1.33.0";

/// Validates files with `--strict`: unknown fields are errors. Kinds without a schema (custom resources) pass.
pub(crate) fn validate(files: &[PathBuf]) -> Result<(), String> {
    let output = Command::new(python_tool("kubernetes-validate"))
        .args(["--strict", "-k", VERSION])
        .args(files)
        .output()
        .map_err(|e| e.to_string())?;
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    if output.status.success() { Ok(()) } else { Err(text.concat()) }
}

/// What the schemas have against files, which are given by their paths below `folder`: one line a complaint.
pub(crate) fn complaints(folder: &Path, files: &[String]) -> Vec<String> {
    if files.is_empty() {
        return Vec::new();
    }
    let mut command = Command::new(python_tool("kubernetes-validate"));
    let output = command.current_dir(folder).args(["--strict", "-k", VERSION]).args(files).output().unwrap();
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    text.lines().filter(|line| line.contains("ERROR")).map(str::to_owned).collect()
}

/// The YAML files below a folder that are Kubernetes manifests: not Kustomize's, not Helm values, not other tools'.
pub(crate) fn manifests_below(folder: &Path) -> Vec<PathBuf> {
    let files = super::repo::files_below(folder).into_iter().filter(|path| {
        let text = std::fs::read_to_string(folder.join(path)).unwrap_or_default();
        let manifest = text.lines().any(|line| line.starts_with("apiVersion:"));
        let name = path.rsplit('/').next().unwrap_or_default();
        path.ends_with(".yaml") && manifest && name != "kustomization.yaml"
    });
    files.map(|path| folder.join(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::checkout;

    #[test]
    fn every_example_manifest_is_valid() {
        let mut files = manifests_below(&checkout("demo/infra"));
        for name in ["golden-dc1", "golden-dev-use1", "golden-train1"] {
            let found = manifests_below(&super::super::repo::example(name));
            assert!(!found.is_empty(), "{name} holds no manifests");
            files.extend(found);
        }
        if let Err(complaint) = validate(&files) {
            panic!("{complaint}");
        }
    }

    #[test]
    fn an_unknown_field_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pod.yaml");
        std::fs::write(&file, "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a}], nodeSelecter: {}}\n")
            .unwrap();
        let complaint = validate(&[file]).unwrap_err();
        assert!(complaint.contains("nodeSelecter"), "{complaint}");
    }
}
