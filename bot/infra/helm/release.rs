//! Who installs which chart, under which name, and with which layers of values: Flux, Argo CD, Helmfile.

use std::collections::{BTreeMap, BTreeSet};

use slicewright_yaml::Step;

use super::chart::Chart;
use super::shared;
use super::values::{Entry, Form, Layer, Nulls};
use crate::infra::helm_template::helm_chart;
use crate::infra::kinds::group;
use crate::infra::kustomize::{Variant, parent};
use crate::infra::manifest::{OPT_OUT, strings};
use crate::infra::repository::{File, Object, Repository, is_yaml};
use crate::infra::walk::{self, At};

/// Words of the files that install charts.
pub(super) const INSTALLERS: [&str; 3] = ["HelmRelease", "Application", "releases:"];

/// The longest name that Helm takes; Flux shortens a longer one in a way of its own.
const MAX_NAME: usize = 53;

/// One installation of a chart.
#[derive(Debug)]
pub(super) struct Release {
    /// `None`: nothing in the repository installs the chart.
    pub(super) name: Option<String>,
    pub(super) namespace: Option<String>,
    /// `path:line` of what installs it.
    pub(super) place: String,
    pub(super) source: Source,
    /// The weakest first.
    pub(super) layers: Vec<Layer>,
    /// Why the values, or what they lead to, cannot be told.
    pub(super) doubts: Vec<String>,
    /// A source of values that is not looked into, and how many layers are weaker.
    pub(super) unread: Option<(String, usize)>,
    pub(super) ignored: bool,
    /// In how many ways Kustomize makes it; 1 without an overlay.
    pub(super) n_ways: usize,
    /// A patch that asks for a GPU and could not be taken for a layer.
    pub(super) patch: Option<String>,
}

/// Where a chart comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// The folder of a chart in the repository.
    Here(String),
    /// The name of a chart elsewhere.
    Elsewhere(String),
}

/// What is being put together for one release.
struct Draft<'r, 'a> {
    repository: &'r Repository<'a>,
    release: Release,
}

/// Every release of the cluster's files; a chart that nobody installs is one without a name.
pub(super) fn releases(
    repository: &Repository<'_>,
    files: &BTreeMap<&str, File<'_>>,
    charts: &[Chart],
) -> Vec<Release> {
    let mut found = installed(repository, files);
    let known: BTreeSet<Source> = found.iter().map(|release| release.source.clone()).collect();
    for chart in charts.iter().filter(|chart| !known.contains(&Source::Here(chart.folder.clone()))) {
        found.extend(alone(repository, chart));
    }
    shared::lock(repository, &mut found, files);
    found
}

/// What installs charts in the files of a repository.
pub(super) fn installed(repository: &Repository<'_>, files: &BTreeMap<&str, File<'_>>) -> Vec<Release> {
    let mut found = Vec::new();
    for file in repository.files.values().chain(files.values()) {
        let Ok(parsed) = &file.parsed else { continue };
        if repository.overlays().patch_files.contains(file.path)
            || helm_chart(&repository.texts, file.path).is_some()
        {
            continue;
        }
        for object in parsed.objects.iter().filter(|object| !repository.is_foreign(file.path, object)) {
            let Some(root) = parsed.at(object) else { continue };
            match (group(&object.api_version), object.kind.as_str()) {
                ("helm.toolkit.fluxcd.io", "HelmRelease") => {
                    found.extend(flux(repository, files, file, object, &root));
                }
                ("argoproj.io", "Application") => found.extend(argo(repository, file, object, &root)),
                _ => {}
            }
        }
        if is_helmfile(file.path) {
            for (document, root) in parsed.documents().enumerate() {
                found.extend(helmfile(repository, file, document, &At::new(root, Vec::new())));
            }
        }
    }
    found
}

/// The files of the repository that may install charts and were not parsed at first.
pub(super) fn further<'a>(repository: &Repository<'a>) -> BTreeMap<&'a str, File<'a>> {
    let sources = ["OCIRepository", "HelmChart"];
    repository.further(&[INSTALLERS.as_slice(), sources.as_slice()].concat())
}

fn is_helmfile(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    matches!(name, "helmfile.yaml" | "helmfile.yml") || path.split('/').rev().nth(1) == Some("helmfile.d")
}

impl<'r, 'a> Draft<'r, 'a> {
    fn new(repository: &'r Repository<'a>, place: String, source: Source) -> Self {
        let release = Release {
            name: None,
            namespace: None,
            place,
            source,
            layers: Vec::new(),
            doubts: Vec::new(),
            unread: None,
            ignored: false,
            n_ways: 1,
            patch: None,
        };
        Self { repository, release }
    }

    fn doubt(&mut self, text: String) {
        self.release.doubts.push(text);
    }

    /// A file of values.
    fn file(&mut self, path: &str, nulls: Nulls) {
        let repository = self.repository;
        let Some((path, _)) = repository.texts.get_key_value(path) else {
            self.doubt(format!("its values file `{path}` is not among the cluster's files"));
            return;
        };
        self.layer(path, 0, Vec::new(), Form::Tree, nulls);
    }

    /// The values that a chart of the repository brings along; it needs none.
    fn defaults(&mut self) {
        if let Source::Here(folder) = &self.release.source {
            let path = join(folder, "values.yaml");
            if self.repository.texts.contains_key(path.as_str()) {
                self.file(&path, Nulls::Default);
            }
        }
    }

    fn layer(&mut self, path: &str, document: usize, prefix: Vec<Step>, form: Form, nulls: Nulls) {
        let root = Entry::default();
        let mut layer = Layer { path: path.to_owned(), document, prefix, form, nulls, locked: None, root };
        let text = self.repository.texts.get(path).copied().unwrap_or_default();
        match layer.load(text) {
            Ok(()) => self.release.layers.push(layer),
            Err(why) => self.doubt(format!("its values in `{path}` cannot be read: {why}")),
        }
    }
}

fn flux(
    repository: &Repository<'_>,
    files: &BTreeMap<&str, File<'_>>,
    file: &File<'_>,
    object: &Object,
    root: &At<'_>,
) -> Vec<Release> {
    let place = format!("{}:{}", file.path, object.line);
    let text = |dotted: &str| walk::text(root.node, dotted);
    let in_git = |kind: Option<&str>| matches!(kind, Some("GitRepository" | "Bucket"));
    let here = |path: &str| {
        let path = clean("", path)?;
        repository.texts.contains_key(join(&path, "Chart.yaml").as_str()).then_some(path)
    };
    // The chart of a `HelmChart` object is written as the one of a release.
    let (chart, kind, values_files) = match text("spec.chartRef.name") {
        None => (
            text("spec.chart.spec.chart").map(ToOwned::to_owned),
            text("spec.chart.spec.sourceRef.kind").map(ToOwned::to_owned),
            root.all("spec.chart.spec.valuesFiles[]"),
        ),
        Some(name) => {
            let url = source_of(repository, files, text("spec.chartRef.kind").unwrap_or_default(), name);
            (url.map(|(chart, _)| chart), None, Vec::new())
        }
    };
    let Some(chart) = chart else { return Vec::new() };
    let source = match here(&chart).filter(|_| in_git(kind.as_deref())) {
        Some(folder) => Source::Here(folder),
        None => {
            Source::Elsewhere(chart.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned())
        }
    };
    let values_files: Vec<String> =
        values_files.iter().filter_map(|at| at.node.as_str().map(ToOwned::to_owned)).collect();
    let variants = repository.variants(file.path, object);
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for variant in &variants {
        if !seen.insert((&variant.namespace, &variant.name, &variant.patched)) {
            continue;
        }
        let mut draft = Draft::new(repository, place.clone(), source.clone());
        draft.release.n_ways = variants.len();
        let target = text("spec.targetNamespace");
        let name = match (text("spec.releaseName"), target) {
            (Some(name), _) => name.to_owned(),
            (None, Some(target)) => format!("{target}-{}", variant.name),
            (None, None) => variant.name.clone(),
        };
        draft.release.name = (name.len() <= MAX_NAME).then_some(name);
        draft.release.namespace = target.map(ToOwned::to_owned).or_else(|| variant.namespace.clone());
        draft.release.ignored = variant.ignored || opts_out(root);
        if values_files.is_empty() {
            draft.defaults();
        } else if matches!(source, Source::Here(_)) {
            for path in &values_files {
                match clean("", path) {
                    Some(path) => draft.file(&path, Nulls::Default),
                    None => draft.doubt(format!("its values file `{path}` is not among the cluster's files")),
                }
            }
        }
        if let Some(from) = root.all("spec.valuesFrom[]").first() {
            let part = |key: &str| walk::text(from.node, key).unwrap_or("?");
            let what = format!("{} `{}`", part("kind"), part("name"));
            draft.release.unread = Some((what, draft.release.layers.len()));
        }
        if let Some(values) = root.down("spec.values") {
            let prefix = values.path;
            draft.layer(file.path, object.document, prefix, Form::Tree, Nulls::Dropped);
            if variants.len() > 1
                && let Some(layer) = draft.release.layers.last_mut()
            {
                layer.locked = Some(format!("`{}` is shared by more than one overlay", file.path));
            }
        }
        if let Some(patch) = &variant.patched {
            let alone = variants.iter().filter(|other| other.patched.as_ref() == Some(patch)).count() == 1;
            match patch_of(repository, object, &variants, patch) {
                Some((path, document, prefix)) => {
                    draft.layer(&path, document, prefix, Form::Tree, Nulls::Dropped);
                    if let Some(layer) = draft.release.layers.last_mut().filter(|_| !alone) {
                        layer.locked = Some(format!("`{path}` is shared by more than one overlay"));
                    }
                }
                None => {
                    draft.doubt(format!("the patch at `{patch}` speaks about its GPU too"));
                    draft.release.patch = Some(patch.clone());
                }
            }
        }
        if let Some(renderers) = root.down("spec.postRenderers") {
            let mut speaks = false;
            walk::every(renderers.node, &mut |key, node| {
                let text = node.as_str().unwrap_or_default();
                speaks |= [key.unwrap_or_default(), text]
                    .iter()
                    .any(|text| text.contains("resources") || text.contains("nvidia.com"));
            });
            if speaks {
                draft.doubt(format!(
                    "its `postRenderers` (`{}:{}`) may set it again",
                    file.path,
                    renderers.node.line()
                ));
            }
        }
        found.push(draft.release);
    }
    found
}

/// The values in the one patch file that speaks about a release's GPU: file, document and the way to them.
///
/// A variant knows its first such patch alone, so that every patch of this release must be the first of some variant.
fn patch_of(
    repository: &Repository<'_>,
    object: &Object,
    variants: &[Variant],
    place: &str,
) -> Option<(String, usize, Vec<Step>)> {
    let first: BTreeSet<&str> =
        variants.iter().filter_map(|variant| Some(file_of(variant.patched.as_ref()?))).collect();
    let mut found = None;
    let mut all = BTreeSet::new();
    for path in &repository.overlays().patch_files {
        let Some(Ok(parsed)) = repository.files.get(path.as_str()).map(|file| &file.parsed) else { continue };
        for patch in
            parsed.objects.iter().filter(|patch| patch.kind == object.kind && patch.name == object.name)
        {
            let root = parsed.at(patch)?;
            let mut speaks = false;
            walk::every(root.node, &mut |key, _| {
                speaks |= key.is_some_and(|key| key.starts_with("nvidia.com/"))
            });
            if !speaks {
                continue;
            }
            all.insert(path.as_str());
            if path == file_of(place) {
                let values = root.down("spec.values")?;
                // Two documents of one file would be two patches.
                found = found.is_none().then(|| (path.clone(), patch.document, values.path));
            }
        }
    }
    found.filter(|_| all == first)
}

/// The path of `path:line`.
pub(super) fn file_of(place: &str) -> &str {
    place.rsplit_once(':').map_or(place, |(path, _)| path)
}

/// The chart that an object of Flux stands for: its name or path, with the kind of its source.
fn source_of(
    repository: &Repository<'_>,
    files: &BTreeMap<&str, File<'_>>,
    kind: &str,
    name: &str,
) -> Option<(String, Option<String>)> {
    let mut charts = BTreeSet::new();
    for file in repository.files.values().chain(files.values()) {
        let Ok(parsed) = &file.parsed else { continue };
        for object in parsed.objects.iter().filter(|object| object.kind == kind && object.name == name) {
            let root = parsed.at(object)?;
            let text = |dotted: &str| walk::text(root.node, dotted).map(ToOwned::to_owned);
            charts.extend(match kind {
                "OCIRepository" => text("spec.url").map(|url| (url, None)),
                _ => text("spec.chart").map(|chart| (chart, text("spec.sourceRef.kind"))),
            });
        }
    }
    if charts.len() == 1 { charts.pop_first() } else { None }
}

fn argo(repository: &Repository<'_>, file: &File<'_>, object: &Object, root: &At<'_>) -> Vec<Release> {
    let place = format!("{}:{}", file.path, object.line);
    let text = |dotted: &str| walk::text(root.node, dotted).map(ToOwned::to_owned);
    let sources: Vec<At<'_>> =
        ["spec.source", "spec.sources[]"].iter().flat_map(|dotted| root.all(dotted)).collect();
    let refs: BTreeSet<&str> = sources.iter().filter_map(|source| walk::text(source.node, "ref")).collect();
    let n_ways = repository.variants(file.path, object).len();
    let mut found = Vec::new();
    for source in &sources {
        let part = |dotted: &str| walk::text(source.node, dotted);
        let folder = part("path").and_then(|path| clean("", path));
        let from = match (part("chart"), &folder) {
            (Some(chart), _) => Source::Elsewhere(chart.rsplit('/').next().unwrap_or(chart).to_owned()),
            (None, Some(folder)) if repository.texts.contains_key(join(folder, "Chart.yaml").as_str()) => {
                Source::Here(folder.clone())
            }
            (None, Some(folder)) if source.down("helm").is_some() => {
                Source::Elsewhere(folder.rsplit('/').next().unwrap_or_default().to_owned())
            }
            (None, _) => continue,
        };
        let mut draft = Draft::new(repository, place.clone(), from);
        draft.release.name =
            part("helm.releaseName").map(ToOwned::to_owned).or_else(|| Some(object.name.clone()));
        draft.release.namespace = text("spec.destination.namespace");
        draft.release.ignored = opts_out(root);
        draft.defaults();
        for given in source.all("helm.valueFiles[]") {
            let Some(given) = given.node.as_str() else { continue };
            let path = match given.strip_prefix('$').and_then(|rest| rest.split_once('/')) {
                Some((name, path)) if refs.contains(name) => clean("", path),
                Some(_) => None,
                None if given.starts_with('/') => clean("", given),
                // A chart from elsewhere is read with its own files.
                None if part("chart").is_some() => None,
                None => clean(folder.as_deref().unwrap_or_default(), given),
            };
            let known = path.as_deref().filter(|path| repository.texts.contains_key(path));
            match (known, part("helm.ignoreMissingValueFiles")) {
                (Some(path), _) => draft.file(path, Nulls::Kept),
                (None, Some("true")) => {}
                (None, _) => {
                    draft.doubt(format!("its values file `{given}` is not among the cluster's files"));
                }
            }
        }
        let inline = match (source.down("helm.valuesObject"), source.down("helm.values")) {
            // Argo CD reads `values` only where there is no `valuesObject`.
            (Some(values), _) => Some((values.path, Form::Tree, Nulls::Dropped)),
            (None, Some(values)) => Some((values.path, Form::Embedded, Nulls::Kept)),
            (None, None) => None,
        };
        if let Some((prefix, form, nulls)) = inline {
            draft.layer(file.path, object.document, prefix, form, nulls);
        }
        if let Some(list) = source.down("helm.parameters") {
            draft.layer(file.path, object.document, list.path, Form::Parameters, Nulls::Kept);
        }
        for given in source.all("helm.fileParameters[]") {
            let name = walk::text(given.node, "name").unwrap_or_default();
            draft.doubt(format!("its value `{name}` comes from a file"));
        }
        draft.release.n_ways = n_ways;
        if n_ways > 1 {
            for layer in draft.release.layers.iter_mut().filter(|layer| layer.path == file.path) {
                layer.locked = Some(format!("`{}` is shared by more than one overlay", file.path));
            }
        }
        found.push(draft.release);
    }
    found
}

fn helmfile(repository: &Repository<'_>, file: &File<'_>, document: usize, root: &At<'_>) -> Vec<Release> {
    let folder = parent(file.path);
    let mut found = Vec::new();
    for release in root.all("releases[]") {
        let part = |key: &str| walk::text(release.node, key);
        let Some(chart) = part("chart").filter(|_| part("installed") != Some("false")) else { continue };
        let here = clean(folder, chart)
            .filter(|path| repository.texts.contains_key(join(path, "Chart.yaml").as_str()));
        let source = match here {
            Some(folder) => Source::Here(folder),
            None => Source::Elsewhere(
                chart.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned(),
            ),
        };
        let place = format!("{}:{}", file.path, release.node.line());
        let mut draft = Draft::new(repository, place, source);
        let plain = |text: &&str| !text.contains("{{");
        draft.release.name = part("name").filter(plain).map(ToOwned::to_owned);
        draft.release.namespace = part("namespace").filter(plain).map(ToOwned::to_owned);
        draft.defaults();
        for values in release.all("values[]") {
            match values.node.as_str() {
                None => draft.layer(file.path, document, values.path.clone(), Form::Tree, Nulls::Kept),
                Some(given) => match clean(folder, given).filter(|_| is_yaml(given) && plain(&given)) {
                    Some(path) => draft.file(&path, Nulls::Kept),
                    None => draft.doubt(format!("its values file `{given}` is a template")),
                },
            }
        }
        if let Some(list) = release.down("set") {
            draft.layer(file.path, document, list.path, Form::Parameters, Nulls::Kept);
        }
        for key in [
            "secrets",
            "inherit",
            "valuesTemplate",
            "setTemplate",
            "strategicMergePatches",
            "jsonPatches",
            "transformers",
        ] {
            if let Some(at) = release.down(key) {
                draft.doubt(format!("its `{key}` (`{}:{}`) may set it again", file.path, at.node.line()));
            }
        }
        found.push(draft.release);
    }
    found
}

/// A chart that nothing in the repository installs: once for each file of values beside its own.
fn alone(repository: &Repository<'_>, chart: &Chart) -> Vec<Release> {
    let start = if chart.folder.is_empty() { String::new() } else { format!("{}/", chart.folder) };
    let beside: Vec<&str> = repository
        .texts
        .keys()
        .copied()
        .filter(|path| {
            path.strip_prefix(start.as_str()).is_some_and(|name| {
                is_yaml(name) && name.starts_with("values") && !name.contains('/') && name != "values.yaml"
            })
        })
        .collect();
    let place = join(&chart.folder, "Chart.yaml");
    let release = |file: Option<&str>| {
        let mut draft = Draft::new(repository, place.clone(), Source::Here(chart.folder.clone()));
        draft.defaults();
        if let Some(file) = file {
            draft.file(file, Nulls::Kept);
        }
        draft.release
    };
    if beside.is_empty() {
        return vec![release(None)];
    }
    beside.into_iter().map(|file| release(Some(file))).collect()
}

fn opts_out(root: &At<'_>) -> bool {
    root.down("metadata.annotations")
        .is_some_and(|at| strings(&at).get(OPT_OUT).is_some_and(|value| value.eq_ignore_ascii_case("true")))
}

/// A file of a folder.
pub(super) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// A path from the repository's root. `None`: it leads out, or it is a URL.
fn clean(folder: &str, relative: &str) -> Option<String> {
    if relative.contains("://") {
        return None;
    }
    let base = if relative.starts_with('/') { "" } else { folder };
    let mut parts: Vec<&str> = base.split('/').filter(|part| !part.is_empty()).collect();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}
