//! Where the GPU Operator's settings stand: a `ClusterPolicy`, or the values of its Helm chart.

use slicewright_yaml::{Document, Edit, Op, Shared, Step};

use super::kinds;
use super::kustomize::parent;
use super::repository::{Parsed, Repository};
use super::walk::{self, At};

/// Name of NVIDIA's chart.
const CHART: &str = "gpu-operator";

/// One place with settings of the operator.
#[derive(Debug)]
pub(super) struct Site<'a> {
    pub(super) path: String,
    pub(super) line: usize,
    document: usize,
    /// The way to the settings: `spec` of a ClusterPolicy, the values of a chart.
    prefix: Vec<Step>,
    /// The settings are YAML inside a block scalar at `prefix`.
    embedded: bool,
    /// Namespace that the operator is installed in, if this place says so.
    pub(super) namespace: Option<String>,
    /// Version of the chart, if it is one exact version.
    pub(super) version: Option<String>,
    text: &'a str,
}

impl Site<'_> {
    /// `path:line`.
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.path, self.line)
    }

    fn with<T>(&self, look: impl FnOnce(At<'_>) -> Option<T>) -> Option<T> {
        let parsed = Parsed::new(self.text).ok()?;
        let node = parsed.documents().nth(self.document)?.at(&self.prefix)?;
        if self.embedded {
            let inner = slicewright_yaml::read(node.as_str()?).ok()?;
            return look(At::new(inner.document(0)?, Vec::new()));
        }
        look(At::new(node, self.prefix.clone()))
    }

    /// A setting as text.
    pub(super) fn text(&self, dotted: &str) -> Option<String> {
        self.with(|root| walk::text(root.node, dotted).map(ToOwned::to_owned))
    }

    /// The keys of a mapping among the settings.
    pub(super) fn keys(&self, dotted: &str) -> Vec<String> {
        self.with(|root| {
            Some(
                walk::down(root.node, dotted)?.entries().into_iter().map(|(key, _)| key.to_owned()).collect(),
            )
        })
        .unwrap_or_default()
    }

    /// Puts settings into `text`, the file as it stands.
    pub(super) fn put(&self, text: &str, wanted: &[(&str, &str)]) -> Result<String, String> {
        let document = Document::Index(self.document);
        let edits: Vec<Edit> = wanted
            .iter()
            .map(|(dotted, value)| {
                let inside = walk::steps(dotted);
                let at = if self.embedded { inside } else { [self.prefix.clone(), inside].concat() };
                Edit {
                    document: if self.embedded { Document::Index(0) } else { document.clone() },
                    at,
                    op: Op::Put { value: (*value).into() },
                    shared: Shared::Refuse,
                }
            })
            .collect();
        if self.embedded {
            slicewright_yaml::edit_embedded(text, &document, &self.prefix, &edits)
        } else {
            slicewright_yaml::edit(text, &edits)
        }
        .map_err(|refusal| refusal.to_string())
    }
}

/// Every place with settings, `ClusterPolicy` first.
pub(super) fn sites<'a>(repository: &Repository<'a>) -> Vec<Site<'a>> {
    let mut policies = Vec::new();
    let mut charts = Vec::new();
    for (file, parsed, object) in repository.objects() {
        if !matches!(object.kind.as_str(), "ClusterPolicy" | "HelmRelease" | "Application")
            || repository.overlays().patch_files.contains(file.path)
            || super::helm_template::helm_chart(&repository.texts, file.path).is_some()
        {
            continue;
        }
        let Some(root) = parsed.at(object) else { continue };
        let site = |line: usize, prefix: Vec<Step>, embedded: bool| Site {
            path: file.path.to_owned(),
            line,
            document: object.document,
            prefix,
            embedded,
            namespace: None,
            version: None,
            text: file.text,
        };
        let under = |dotted: &str| [object.prefix.clone(), walk::steps(dotted)].concat();
        match (kinds::group(&object.api_version), object.kind.as_str()) {
            ("nvidia.com", "ClusterPolicy") => policies.push(site(object.line, under("spec"), false)),
            ("helm.toolkit.fluxcd.io", "HelmRelease")
                if walk::text(root.node, "spec.chart.spec.chart") == Some(CHART) =>
            {
                let mut found = site(object.line, under("spec.values"), false);
                found.namespace = walk::text(root.node, "spec.targetNamespace")
                    .map(ToOwned::to_owned)
                    .or_else(|| repository.namespace(file.path, object));
                found.version = exact(walk::text(root.node, "spec.chart.spec.version"));
                charts.push(found);
            }
            ("argoproj.io", "Application") => {
                let sources = ["spec.source", "spec.sources[]"].iter().flat_map(|dotted| root.all(dotted));
                for source in sources.filter(|source| walk::text(source.node, "chart") == Some(CHART)) {
                    let helm =
                        |key: &str| [source.path.clone(), walk::steps(&format!("helm.{key}"))].concat();
                    let embedded = source.down("helm.values").is_some();
                    let prefix = helm(if embedded { "values" } else { "valuesObject" });
                    let mut found = site(source.node.line(), prefix, embedded);
                    found.namespace =
                        walk::text(root.node, "spec.destination.namespace").map(ToOwned::to_owned);
                    found.version = exact(walk::text(source.node, "targetRevision"));
                    charts.push(found);
                }
            }
            _ => {}
        }
    }
    charts.extend(own_charts(repository));
    policies.append(&mut charts);
    // A ClusterPolicy without a chart reference takes its version from the chart beside it.
    policies
}

/// Charts of the repository that depend on NVIDIA's: the settings stand in their `values.yaml`.
fn own_charts<'a>(repository: &Repository<'a>) -> Vec<Site<'a>> {
    let mut found = Vec::new();
    for file in repository.files.values().filter(|file| file.path.rsplit('/').next() == Some("Chart.yaml")) {
        let Ok(parsed) = &file.parsed else { continue };
        let Some(root) = parsed.documents().next() else { continue };
        for dependency in At::new(root, Vec::new()).all("dependencies[]") {
            if walk::text(dependency.node, "name") != Some(CHART) {
                continue;
            }
            let folder = parent(file.path);
            let values =
                if folder.is_empty() { "values.yaml".to_owned() } else { format!("{folder}/values.yaml") };
            let Some((_, text)) = repository.texts.get_key_value(values.as_str()) else { continue };
            let key = walk::text(dependency.node, "alias").unwrap_or(CHART);
            found.push(Site {
                path: values,
                line: 1,
                document: 0,
                prefix: vec![key.into()],
                embedded: false,
                namespace: None,
                version: exact(walk::text(dependency.node, "version")),
                text,
            });
        }
    }
    found
}

/// `25.10.1` of `v25.10.1`. A range or a wildcard is no version.
fn exact(text: Option<&str>) -> Option<String> {
    let text = text?;
    let version = text.strip_prefix('v').unwrap_or(text);
    let parts: Vec<&str> = version.split('.').collect();
    let digits = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    (parts.len() == 3 && parts.iter().all(digits)).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_versions_count() {
        assert_eq!(exact(Some("v25.10.1")), Some("25.10.1".into()));
        assert_eq!(exact(Some("24.9.2")), Some("24.9.2".into()));
        for range in [">=24.9.0", "24.9.x", "*", "25.10", "v25.3.0-rc.1"] {
            assert_eq!(exact(Some(range)), None, "{range}");
        }
    }
}
