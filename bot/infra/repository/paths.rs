//! What a path alone says of a file: whether the bot keeps off it, and what the file holds.

/// Folders and files that the bot neither reads nor writes: pipelines, and its own configuration.
const PROTECTED: &[&str] = &[
    ".git",
    ".github",
    ".gitlab",
    ".circleci",
    ".buildkite",
    ".woodpecker",
    ".gitlab-ci.yml",
    ".gitlab-ci.yaml",
    ".slicewright.yaml",
    ".slicewright.yml",
    ".travis.yml",
    ".drone.yml",
    ".woodpecker.yml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "cloudbuild.yaml",
    "Jenkinsfile",
    "CODEOWNERS",
];

/// Whether the bot keeps its hands off `path`.
pub(in crate::infra) fn is_protected(path: &str) -> bool {
    let first = path.split('/').next().unwrap_or_default();
    let last = path.rsplit('/').next().unwrap_or_default();
    // Of most paths the first letters tell.
    if ![first, last].iter().any(|name| name.starts_with(['.', 'a', 'A', 'b', 'B', 'c', 'C', 'j', 'J']))
        && !path.contains("/.")
    {
        return false;
    }
    PROTECTED.iter().any(|name| first.eq_ignore_ascii_case(name) || last.eq_ignore_ascii_case(name))
        || path.split('/').any(|part| part.eq_ignore_ascii_case(".git"))
}

/// A relative path without empty parts, `.`, `..`, backslashes or control characters.
pub(in crate::infra) fn is_plain_path(path: &str) -> bool {
    !path.is_empty()
        && !path.contains('\\')
        && !path.contains(char::is_control)
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// Whether the name says that the file holds YAML.
pub(in crate::infra) fn is_yaml(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name == "Kustomization"
        || name
            .rsplit_once('.')
            .is_some_and(|(_, end)| end.eq_ignore_ascii_case("yaml") || end.eq_ignore_ascii_case("yml"))
}

/// Whether the name says that the file holds Terraform's or OpenTofu's language.
pub(in crate::infra) fn is_terraform(path: &str) -> bool {
    path.ends_with(".tf") || path.ends_with(".tofu")
}

/// Whether a file that cannot be read is worth a note.
pub(super) fn is_read(path: &str) -> bool {
    is_yaml(path) || is_terraform(path)
}

/// Whether this is the file that makes a folder a Kustomize one.
pub(in crate::infra) fn is_kustomization(path: &str) -> bool {
    matches!(path.rsplit('/').next(), Some("kustomization.yaml" | "kustomization.yml" | "Kustomization"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipelines_and_odd_paths_are_left_alone() {
        for path in
            [".github/workflows/x.yaml", "apps/.gitlab-ci.yml", ".slicewright.yaml", "a/.git/config.yaml"]
        {
            assert!(is_protected(path), "{path}");
        }
        assert!(!is_protected("apps/github/x.yaml"));
        for path in ["", "/etc/passwd", "../x.yaml", "a//b.yaml", "a\\b.yaml", "a/./b.yaml", "a\nb"] {
            assert!(!is_plain_path(path), "{path:?}");
        }
        assert!(is_plain_path("clusters/dc1/a b.yaml"));
    }
}
