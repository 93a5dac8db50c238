//! Who installs which chart, under which name, and with which layers of values: Flux, Argo CD, Helmfile.

use std::collections::{BTreeMap, BTreeSet};

use slicewright_yaml::Step;

use super::chart::Chart;
use super::values::{Entry, Form, Layer, Nulls};
use super::{argo, flux, shared};
use crate::infra::helm_template::helm_chart;
use crate::infra::index::Search;
use crate::infra::kinds::group;
use crate::infra::kustomize::parent;
use crate::infra::manifest::{OPT_OUT, strings};
use crate::infra::repository::{File, Repository, is_yaml};
use crate::infra::walk::{self, At};

/// Words of the files that install charts.
pub(super) const INSTALLERS: [&str; 3] = ["HelmRelease", "Application", "releases:"];

/// The longest name that Helm takes; Flux shortens a longer one in a way of its own.
pub(super) const MAX_NAME: usize = 53;

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
pub(super) struct Draft<'r, 'a> {
    repository: &'r Repository<'a>,
    pub(super) release: Release,
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
    let search = Search::new(&INSTALLERS);
    let mut found = Vec::new();
    for file in repository.files.values().chain(files.values()) {
        let Ok(parsed) = &file.parsed else { continue };
        if !(is_helmfile(file.path) || repository.holds(file.path, &search))
            || repository.overlays().patch_files.contains(file.path)
            || helm_chart(&repository.texts, file.path).is_some()
        {
            continue;
        }
        for object in parsed.objects.iter().filter(|object| !repository.is_foreign(file.path, object)) {
            let Some(root) = parsed.at(object) else { continue };
            match (group(&object.api_version), object.kind.as_str()) {
                ("helm.toolkit.fluxcd.io", "HelmRelease") => {
                    found.extend(flux::of(repository, files, file, object, &root));
                }
                ("argoproj.io", "Application") => found.extend(argo::of(repository, file, object, &root)),
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
    pub(super) fn new(repository: &'r Repository<'a>, place: String, source: Source) -> Self {
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

    pub(super) fn doubt(&mut self, text: String) {
        self.release.doubts.push(text);
    }

    /// A file of values.
    pub(super) fn file(&mut self, path: &str, nulls: Nulls) {
        let repository = self.repository;
        let Some((path, _)) = repository.texts.get_key_value(path) else {
            self.doubt(format!("its values file `{path}` is not among the cluster's files"));
            return;
        };
        self.layer(path, 0, Vec::new(), Form::Tree, nulls);
    }

    /// The values that a chart of the repository brings along; it needs none.
    pub(super) fn defaults(&mut self) {
        if let Source::Here(folder) = &self.release.source {
            let path = join(folder, "values.yaml");
            if self.repository.texts.contains_key(path.as_str()) {
                self.file(&path, Nulls::Default);
            }
        }
    }

    pub(super) fn layer(&mut self, path: &str, document: usize, prefix: Vec<Step>, form: Form, nulls: Nulls) {
        let root = Entry::default();
        let mut layer = Layer { path: path.to_owned(), document, prefix, form, nulls, locked: None, root };
        let text = self.repository.texts.get(path).copied().unwrap_or_default();
        match layer.load(text) {
            Ok(()) => self.release.layers.push(layer),
            Err(why) => self.doubt(format!("its values in `{path}` cannot be read: {why}")),
        }
    }
}

/// The path of `path:line`.
pub(super) fn file_of(place: &str) -> &str {
    place.rsplit_once(':').map_or(place, |(path, _)| path)
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

/// Whether an object asks the bot to keep away.
pub(super) fn opts_out(root: &At<'_>) -> bool {
    root.down("metadata.annotations")
        .is_some_and(|at| strings(&at).get(OPT_OUT).is_some_and(|value| value.eq_ignore_ascii_case("true")))
}

/// A file of a folder.
pub(super) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// A path from the repository's root. `None`: it leads out, or it is a URL.
pub(super) fn clean(folder: &str, relative: &str) -> Option<String> {
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
