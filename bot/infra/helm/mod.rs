//! Workloads of Helm charts: their resources stand in values, in the layer of one release that decides.
//!
//! A release is known from what installs it: Flux, Argo CD or Helmfile. The templates of a chart in the repository say
//! which values feed which workload. A chart from elsewhere is not read: its one workload with a GPU is known by the
//! names that charts give, and answers to a Deployment and a StatefulSet of these names.

mod asked;

mod chart;

mod declare;

mod edit;

mod release;

mod flux;

mod argo;

mod shared;

mod suggest;

mod template;

mod values;

use std::collections::{BTreeMap, BTreeSet};

use slicewright_core::ids::WorkloadId;
use slicewright_core::inventory::DeclaredWorkload;
use slicewright_core::plan::Change;

use asked::{Asked, asked, names, requests};
use chart::{Chart, Feed, Workload};
use declare::{declared, placement, plain, read_selector, read_tolerations};
use release::{Release, Source};
use template::Scope;
use values::{Tree, at, under};

pub(super) use suggest::text as suggestion;

use super::draft::Draft;
use super::format::{Edition, Format, Reading};
use super::index::Search;
use super::manifest;
use super::repository::Repository;
use super::workload_edit::{Wish, by_hand};

/// Kind of a declaration that only a release's values make: what the chart makes of it is not known.
const RELEASE: &str = "Release";

/// Kinds that a chart from elsewhere may make of the values under `resources`.
const MADE: [&str; 2] = ["Deployment", "StatefulSet"];

/// Values of Helm releases.
#[derive(Debug)]
pub(super) struct HelmValues;

/// What the releases of a repository declare.
#[derive(Debug, Default)]
pub(super) struct Helm {
    releases: Vec<Release>,
    targets: Vec<Target>,
    notes: Vec<String>,
    /// Lines that ask for a GPU and are spoken of here, by path.
    claimed: BTreeSet<(String, usize)>,
}

/// A workload with a GPU, and the values that say so.
#[derive(Clone, Debug)]
struct Target {
    id: WorkloadId,
    /// Further ids that it may have in the cluster.
    aliases: Vec<WorkloadId>,
    release: usize,
    /// Where the values stand that hold `limits` and `requests`.
    resources: Vec<Vec<String>>,
    node_selector: Option<Vec<String>>,
    /// Its chart is not in the repository.
    elsewhere: bool,
    /// The template's file and lines that name the GPU resource.
    written: Option<(String, Vec<usize>)>,
    declared: DeclaredWorkload,
}

impl Format for HelmValues {
    fn read(&self, repository: &Repository<'_>, reading: &mut Reading) {
        let helm = repository.helm();
        for note in &helm.notes {
            reading.unmatched(note.clone());
        }
        let ignored_namespaces = manifest::ignored_namespaces(repository);
        for target in &helm.targets {
            let mut declared = target.declared.clone();
            declared.ignored |= ignored_namespaces.contains(&target.id.namespace);
            reading.add(target.id.clone(), declared);
            for alias in &target.aliases {
                reading.alias(alias.clone(), target.id.clone());
            }
        }
    }

    fn edit(&self, edition: &Edition<'_>, open: &mut Vec<&Change>, draft: &mut Draft<'_>) {
        let helm = edition.repository.helm();
        open.retain(|change| {
            let Some((workload, wish)) = Wish::of(change) else { return true };
            let written = edition.written_as(workload);
            let Some(target) = helm.targets.iter().find(|target| target.id == written) else { return true };
            let release = &helm.releases[target.release];
            match edit::apply(release, target, &wish, &|path| draft.text(path).map(ToOwned::to_owned)) {
                Ok(changed) => {
                    for (path, text) in changed {
                        draft.set(&path, text);
                    }
                    if target.elsewhere && wish.from != wish.to {
                        draft.side_effect(format!(
                            "`{}`: the chart is not in the repository. If its own defaults ask for `{}`, they stay beside \
                             the change, and only `null` under that key takes them away.",
                            target.declared.place, wish.from
                        ));
                    }
                    if let Some((unread, _)) = &release.unread {
                        draft.side_effect(format!(
                            "`{}`: the release takes values from {unread} too, which are not looked into: what they \
                             set for the same resources stays beside the change.",
                            release.place
                        ));
                    }
                }
                Err(why) => {
                    let mut manual = by_hand(workload, Some(&target.declared.place), &wish, why);
                    manual.text = edit::by_hand(target, release, &wish);
                    draft.manual(manual);
                }
            }
            false
        });
    }
}

/// The exact text for a change that people make in a chart's template or in a release's values.
pub(super) fn text_by_hand(repository: &Repository<'_>, id: &WorkloadId, wish: &Wish<'_>) -> Option<String> {
    let helm = repository.helm();
    let target = helm.targets.iter().find(|target| target.id == *id)?;
    match &target.written {
        None => Some(edit::by_hand(target, &helm.releases[target.release], wish)),
        Some((path, lines)) => lines_by_hand(repository, path, lines, wish),
    }
}

/// Lines of a template with another resource.
pub(super) fn lines_by_hand(
    repository: &Repository<'_>,
    path: &str,
    lines: &[usize],
    wish: &Wish<'_>,
) -> Option<String> {
    let text: Vec<&str> = repository.texts.get(path)?.lines().collect();
    let mut out = String::new();
    for number in lines {
        let line = text.get(number.checked_sub(1)?)?;
        if wish.from != wish.to && line.contains(wish.from) {
            out.push_str(&format!(
                "# {path}:{number}\n{}\n",
                line.trim_end().replacen(wish.from, wish.to, 1)
            ));
        }
    }
    if !wish.pin.is_empty() {
        out.push_str("# in the pod spec\nnodeSelector:\n");
        for (key, value) in wish.pin {
            out.push_str(&format!("  {}: {}\n", super::text::yaml(key), super::text::yaml(value)));
        }
    }
    (!out.is_empty()).then_some(out)
}

impl Helm {
    pub(super) fn new(repository: &Repository<'_>) -> Self {
        let mut helm = Self::default();
        // The second is how a parameter spells it.
        let signs = Search::new(&["nvidia.com/", "nvidia\\.com/"]);
        if !repository.texts.keys().any(|path| repository.holds(path, &signs)) {
            return helm;
        }
        let charts = chart::charts(repository);
        let files = release::further(repository);
        helm.releases = release::releases(repository, &files, &charts);
        for number in 0..helm.releases.len() {
            helm.release(repository, &charts, number);
        }
        helm
    }

    /// Whether a line that asks for a GPU is spoken of here.
    pub(super) fn claims(&self, path: &str, line: usize) -> bool {
        self.claimed.contains(&(path.to_owned(), line))
    }

    /// Whether a file holds values of a release, so that its GPUs are spoken of here.
    pub(super) fn holds_values(&self, path: &str) -> bool {
        self.releases.iter().flat_map(|release| &release.layers).any(|layer| layer.path == path)
    }

    fn release(&mut self, repository: &Repository<'_>, charts: &[Chart], number: usize) {
        let asked = asked(&self.releases[number]);
        let source = self.releases[number].source.clone();
        if let (true, Some(patch)) = (asked.is_empty(), &self.releases[number].patch) {
            self.notes.push(format!(
                "`{patch}`: this patch asks for a GPU in Helm values, and it is not the only one of its release or not a \
                 plain one, so its workload was not matched"
            ));
        }
        let chart = match &source {
            Source::Here(folder) => charts.iter().find(|chart| chart.folder == *folder),
            Source::Elsewhere(_) => None,
        };
        let mut left: Vec<&Asked> = asked.iter().collect();
        if let Some(chart) = chart {
            for workload in &chart.workloads {
                self.add_templated(repository, chart, workload, number);
            }
            let fed = |asked: &&Asked| {
                chart.workloads.iter().any(|workload| workload.resources.contains(&asked.path))
            };
            left.retain(|asked| !fed(asked));
        }
        let mut groups: BTreeMap<String, Vec<&Asked>> = BTreeMap::new();
        for asked in left {
            let first = asked.path.first().cloned().unwrap_or_default();
            match (&source, chart) {
                (Source::Elsewhere(name), _) => groups.entry(name.clone()).or_default().push(asked),
                (Source::Here(_), Some(chart)) if chart.dependencies.contains(&first) => {
                    groups.entry(first).or_default().push(asked);
                }
                (Source::Here(folder), _) => self.note(
                    asked,
                    &format!(
                        "no template of the chart `{folder}` is known to give these resources to a workload"
                    ),
                ),
            }
        }
        for (chart, asked) in groups {
            match asked.as_slice() {
                [one] if one.path.iter().all(|key| key != "[]") => {
                    self.add_valued(repository, &chart, one, number)
                }
                [one] => self.note(one, "it stands in a list, whose workloads only the chart knows"),
                several => {
                    for one in several {
                        self.note(one, &format!("several values of the chart `{chart}` ask for GPUs"));
                    }
                }
            }
        }
    }

    fn note(&mut self, asked: &Asked, why: &str) {
        let (path, line) = &asked.place;
        self.claimed.insert(asked.place.clone());
        let note =
            format!("`{path}:{line}` asks for a GPU in Helm values, and {why}: its workload was not matched");
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// One workload of a chart in the repository, as one release makes it.
    fn add_templated(
        &mut self,
        repository: &Repository<'_>,
        chart: &Chart,
        workload: &Workload,
        number: usize,
    ) {
        let release = &self.releases[number];
        let requests = requests(release, &workload.resources);
        if requests.is_empty() && workload.hard.is_empty() {
            return;
        }
        let value = |path: &[&str]| {
            let path: Vec<String> = path.iter().map(|key| (*key).to_owned()).collect();
            match at(&release.layers, &path).map(|found| &found.entry.tree) {
                None | Some(Tree::Null) => release.doubts.is_empty().then(String::new),
                Some(Tree::Scalar(text)) => Some(text.clone()),
                Some(Tree::List(_) | Tree::Map(_)) => None,
            }
        };
        let scope = Scope {
            release: release.name.as_deref(),
            namespace: release.namespace.as_deref(),
            chart: &chart.name,
            defines: &chart.defines,
            value: &value,
        };
        let name = template::word(&workload.name, &scope);
        let namespace = match &workload.namespace {
            Some(written) => template::word(written, &scope),
            None => release.namespace.clone(),
        };
        let hard = workload.hard.first().map(|line| format!("{}:{line}", workload.path));
        let (Some(name), Some(namespace)) = (name, namespace) else {
            for (path, line) in requests.iter().map(|request| request.place.clone()).collect::<BTreeSet<_>>()
            {
                let why = "the name or the namespace of the workload that it feeds is not known from the repository";
                self.note(&Asked { path: Vec::new(), place: (path, line) }, why);
            }
            return;
        };
        let mut declared = declared(release, workload, &requests);
        declared.ignored |= workload.ignored;
        declared.labels = workload.labels.resolved();
        let node_selector = match &workload.node_selector {
            Feed::Values(path) => Some(path.clone()),
            Feed::Absent | Feed::Written(_) => None,
        };
        let written = (!workload.hard.is_empty()).then(|| (workload.path.clone(), workload.hard.clone()));
        if let Some(place) = hard {
            declared.place = place;
            declared.editable = Err(match chart.folder.as_str() {
                "" => "it is rendered by the Helm chart at the root of the repository".to_owned(),
                folder => format!("it is rendered by the Helm chart `{folder}`"),
            });
            self.claimed.extend(workload.hard.iter().map(|line| (workload.path.clone(), *line)));
        } else if workload.looped {
            declared.editable = Err("its template stands in a loop".to_owned());
        }
        let resources: Vec<Vec<String>> = workload
            .resources
            .iter()
            .filter(|path| requests.iter().any(|request| request.resources == **path))
            .cloned()
            .collect();
        // Values that feed more than this workload would change the others too.
        if let Some(other) = chart.workloads.iter().find(|other| {
            !std::ptr::eq(*other, workload) && other.resources.iter().any(|path| resources.contains(path))
        }) {
            declared.editable = Err(format!("its values feed `{}` too", other.path));
        }
        self.claimed.extend(requests.iter().map(|request| request.place.clone()));
        let id = WorkloadId::new(workload.carrier.kind, &namespace, &name);
        let target = Target {
            id,
            aliases: Vec::new(),
            release: number,
            resources,
            node_selector,
            elsewhere: false,
            written,
            declared,
        };
        self.push(repository, target);
    }

    /// The one workload with a GPU of a chart from elsewhere.
    fn add_valued(&mut self, repository: &Repository<'_>, chart: &str, asked: &Asked, number: usize) {
        let release = &self.releases[number];
        let (Some(name), Some(namespace)) = (release.name.clone(), release.namespace.clone()) else {
            self.note(asked, "the name or the namespace of its release is not known from the repository");
            return;
        };
        let above = asked.path.split_last().map(|(_, above)| above.to_vec()).unwrap_or_default();
        let names = names(release, &name, chart, &above);
        // One such workload a release, or one for each chart that it depends on.
        let known_as = match release.source {
            Source::Elsewhere(_) => name.clone(),
            Source::Here(_) => format!("{name}-{chart}"),
        };
        let ids = names.iter().flat_map(|name| MADE.map(|kind| WorkloadId::new(kind, &namespace, name)));
        let resources = vec![asked.path.clone()];
        let requests = requests(release, &resources);
        let selector = under(&above, "nodeSelector");
        let known = release.layers.iter().any(|layer| layer.get(&selector).is_some());
        let mut declared = plain(release, &requests);
        declared.pinned = placement(release, &selector);
        read_selector(release, &selector, &mut declared);
        read_tolerations(release, &under(&above, "tolerations"), &mut declared);
        let target = Target {
            id: WorkloadId::new(RELEASE, &namespace, &known_as),
            aliases: ids.collect(),
            release: number,
            resources,
            node_selector: known.then_some(selector),
            elsewhere: true,
            written: None,
            declared,
        };
        self.claimed.extend(requests.iter().map(|request| request.place.clone()));
        self.push(repository, target);
    }

    /// Adds a target; whether it can be edited is told by trying.
    fn push(&mut self, repository: &Repository<'_>, mut target: Target) {
        let release = &self.releases[target.release];
        if target.declared.editable.is_ok() {
            target.declared.editable = match release.doubts.first() {
                Some(doubt) => Err(doubt.clone()),
                None => refusal(repository, release, &target).map_or(Ok(()), Err),
            };
        }
        self.targets.push(target);
    }
}

/// Why a target cannot be edited, told by trying.
fn refusal(repository: &Repository<'_>, release: &Release, target: &Target) -> Option<String> {
    let texts = |path: &str| repository.texts.get(path).map(|text| (*text).to_owned());
    let pin = BTreeMap::new();
    let asked: BTreeSet<String> =
        requests(release, &target.resources).into_iter().map(|request| request.resource).collect();
    asked.iter().find_map(|from| {
        let wish = Wish { from, to: "nvidia.com/mig-0g.0gb", count: None, pin: &pin };
        edit::apply(release, target, &wish, &texts).err()
    })
}

#[cfg(test)]
mod tests;
