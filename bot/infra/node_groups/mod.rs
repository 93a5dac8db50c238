//! A label of a whole node group, set where the group is declared: Karpenter, Cluster API, Terraform, NFD rules.
//!
//! Clouds that cut cards by a field of the group get a new group beside it.
//!
//! Nodes of such groups come and go, so that a label on a node would be gone with it. A group that is not declared
//! exactly once is left to people, as is a second group beside one that stays.

mod karpenter;

mod cluster_api;

mod topology;

mod nfd;

mod terraform;

mod spot;

mod new_pool;

mod shared;

mod traps;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use slicewright_core::plan::Change;
use slicewright_core::plan::node_group::{NodeGroup, NodeGroupKind};
use slicewright_yaml::{Document, Edit, Op, Shared, Step};

use super::ManualChange;
use super::draft::Draft;
use super::format::{Edition, Format, Reading};
use super::helm_template::helm_chart;
use super::repository::{File, Object, Parsed, Repository, is_terraform};
use super::text::{one_line, yaml};
pub(super) use new_pool::NewPool;

/// Declarations of node groups.
#[derive(Debug)]
pub(super) struct NodeGroups;

/// Files are parsed for these words when a group is looked for.
const WORDS: &[&str] = &["karpenter.sh/", "cluster.x-k8s.io/", "nfd.k8s-sigs.io/"];

/// What the operator sets on nodes that carry no layout: no declaration says it.
const UNSET: &str = "all-disabled";

/// The change, as its fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label<'a> {
    pub(super) key: &'a str,
    pub(super) value: &'a str,
    pub(super) previous: Option<&'a str>,
    pub(super) beside: bool,
    pub(super) group: Option<&'a NodeGroup>,
}

/// One declaration of the group.
struct Found<'a> {
    path: String,
    /// `path:line`.
    place: String,
    /// The value that the declaration gives the label; `Err` holds why it cannot be edited.
    today: Result<Today, String>,
    /// Edits the file's text.
    put: Put<'a>,
    /// What to write by hand in the group's declaration.
    text: String,
    /// A second group beside this one, as text.
    second: String,
    /// What the edit brings about, as sentences.
    effects: Vec<String>,
}

/// An edit of a text, or why it is not made.
type Put<'a> = Box<dyn Fn(&str) -> Result<String, String> + 'a>;

/// What a declaration says about the label.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Today {
    Set(String),
    /// It does not stand there.
    Unset,
    /// It does not stand there, and what it is merged with cannot be read.
    Unknown,
}

impl Format for NodeGroups {
    fn read(&self, _repository: &Repository<'_>, _reading: &mut Reading) {}

    fn edit(&self, edition: &Edition<'_>, open: &mut Vec<&Change>, draft: &mut Draft<'_>) {
        if !open.iter().any(|change| Label::of(change).is_some() || NewPool::of(change).is_some()) {
            return;
        }
        let objects = Objects::new(edition.repository);
        open.retain(|change| {
            if let Some(label) = Label::of(change) {
                settle(edition, &objects, &label, draft);
            } else if let Some(new) = NewPool::of(change) {
                new_pool::settle(edition, &objects, &new, draft);
            } else {
                return true;
            }
            false
        });
    }
}

/// Makes the change or leaves it to people.
fn settle(edition: &Edition<'_>, objects: &Objects<'_>, label: &Label<'_>, draft: &mut Draft<'_>) {
    let (mut found, nearly) = match label.group {
        Some(group) => match group.kind {
            NodeGroupKind::Karpenter => (karpenter::find(objects, label, &group.name), Vec::new()),
            NodeGroupKind::ClusterApi => cluster_api::find(objects, label, group),
            NodeGroupKind::Eks | NodeGroupKind::Gke | NodeGroupKind::Aks => {
                terraform::find(edition.repository, label, group)
            }
        },
        None => (Vec::new(), Vec::new()),
    };
    let rules = nfd::find(objects, label);
    if found.len() > 1 {
        let places: Vec<String> = found.iter().map(|one| format!("`{}`", one.place)).collect();
        let why = format!("it is declared more than once: {}", places.join(", "));
        draft.manual(label.by_hand(None, why, None));
        return;
    }
    let group = found.pop();
    let sets = |found: &Found<'_>| matches!(&found.today, Ok(Today::Set(_)));
    let (mut carriers, others): (Vec<Found<'_>>, Vec<Found<'_>>) =
        rules.into_iter().partition(|rule| rule.today.as_ref().is_ok_and(|today| label.is_carried(today)));
    for rule in others {
        draft.side_effect(format!(
            "`{}`: this rule of NFD sets `{}` too. Where it matches nodes of this group, the two change the label in turn.",
            rule.place, label.key
        ));
    }
    // One rule may be the source of the value that the nodes carry; the operator's own default may be as well.
    let only = carriers.len() == 1 && label.previous != Some(UNSET);
    match (group, carriers.pop()) {
        (None, None) => {
            let why = label.group.map_or_else(
                || "the labels of its nodes do not tell which node group it is".to_owned(),
                |group| not_found(objects, group, &nearly),
            );
            draft.manual(label.by_hand(None, why, None));
        }
        (None, Some(rule)) if only && !label.beside => write(label, &rule, draft),
        (None, Some(rule)) => {
            let why =
                format!("a rule of NFD sets this label (`{}`), and not for this group alone", rule.place);
            draft.manual(label.by_hand(None, why, None));
        }
        (Some(group), _) if label.beside => {
            let why =
                "other workloads stay on whole cards of this group, so that its own label must not change"
                    .to_owned();
            draft.manual(label.by_hand(Some(&group.place), why, Some(group.second)));
        }
        (Some(group), None) => write(label, &group, draft),
        (Some(group), Some(rule)) if only && !sets(&group) => write(label, &rule, draft),
        (Some(group), Some(rule)) => {
            let why =
                format!("a rule of NFD sets this label too (`{}`): one of the two must go first", rule.place);
            draft.manual(label.by_hand(Some(&group.place), why, Some(group.text)));
        }
    }
    if let Some(sentence) = traps::order(edition, label) {
        draft.side_effect(sentence);
    }
    for sentence in traps::of(edition, objects, label) {
        draft.side_effect(sentence);
    }
}

/// Puts the label into a declaration, if it says what the nodes say.
fn write(label: &Label<'_>, found: &Found<'_>, draft: &mut Draft<'_>) {
    let by_hand = |why: String| label.by_hand(Some(&found.place), why, Some(found.text.clone()));
    let key = label.key;
    match &found.today {
        Err(why) => return draft.manual(by_hand(why.clone())),
        Ok(Today::Set(today)) if today == label.value => {
            for sentence in &found.effects {
                draft.side_effect(sentence.clone());
            }
            return;
        }
        Ok(Today::Set(today)) if label.previous != Some(today.as_str()) => {
            let nodes = label.previous.map_or_else(|| "no value".to_owned(), |value| format!("`{value}`"));
            return draft.manual(by_hand(format!(
                "it sets `{key}: {}`, and the nodes carry {nodes}",
                one_line(today)
            )));
        }
        Ok(Today::Unset) => {
            if let Some(previous) = label.previous.filter(|previous| *previous != UNSET) {
                return draft.manual(by_hand(format!(
                    "it does not set `{key}`, and the nodes carry `{previous}`: something else sets it"
                )));
            }
        }
        Ok(Today::Set(_) | Today::Unknown) => {}
    }
    let text = draft.text(&found.path).unwrap_or_default().to_owned();
    match (found.put)(&text) {
        Ok(changed) => {
            draft.set(&found.path, changed);
            for sentence in &found.effects {
                draft.side_effect(sentence.clone());
            }
        }
        Err(why) => draft.manual(by_hand(why)),
    }
}

fn not_found(objects: &Objects<'_>, group: &NodeGroup, nearly: &[String]) -> String {
    let nearly: Vec<String> = nearly.iter().cloned().chain(objects.templates(group)).collect();
    let mut why = format!("{group} was not found among the cluster's files");
    if !nearly.is_empty() {
        why.push_str(&format!("; it may be what stands at {}", nearly.join(", ")));
    }
    why
}

impl<'a> Label<'a> {
    pub(super) fn of(change: &'a Change) -> Option<Self> {
        match change {
            Change::LabelGroup { key, value, previous, beside, group } => Some(Self {
                key,
                value,
                previous: previous.as_deref(),
                beside: *beside,
                group: group.as_ref(),
            }),
            Change::SetMigConfig { .. }
            | Change::SetPluginConfig { .. }
            | Change::LabelNodes { .. }
            | Change::AddNodePool { .. }
            | Change::SetWorkloadResource { .. }
            | Change::PinWorkload { .. } => None,
        }
    }

    /// Whether the nodes get their value of today from what says this, or did before it was edited. Nodes without a
    /// value got none from it.
    fn is_carried(&self, today: &Today) -> bool {
        match (today, self.previous) {
            (Today::Set(today), Some(UNSET)) => today == UNSET,
            (Today::Set(today), Some(previous)) => today == previous || today == self.value,
            (Today::Set(_), None) | (Today::Unset | Today::Unknown, _) => false,
        }
    }

    /// The change for people to make; the text is that of the group's own language where its declaration was found.
    pub(super) fn by_hand(&self, place: Option<&str>, why: String, text: Option<String>) -> ManualChange {
        let group =
            self.group.map_or_else(|| "the node group".to_owned(), |group| one_line(&group.to_string()));
        let place = place.map_or_else(String::new, |place| format!(" (`{place}`)"));
        let (key, value) = (one_line(self.key), one_line(self.value));
        let what = if self.beside {
            format!("Make a second node group beside {group}{place}, with the label `{key}: {value}`")
        } else {
            format!("Set the label `{key}: {value}` of {group}, where it is declared{place}")
        };
        let text = text.unwrap_or_else(|| {
            format!(
                "# in the node group's labels (Karpenter NodePool, Terraform, Cluster API, …){}\n{}: {}\n",
                self.previous.map_or_else(String::new, |old| format!("; today `{}`", one_line(old))),
                yaml(self.key),
                yaml(self.value)
            )
        });
        ManualChange { what, why, text }
    }
}

/// The cluster's objects, those of files that nothing else had to parse too.
struct Objects<'a> {
    repository: &'a Repository<'a>,
    further: BTreeMap<&'a str, File<'a>>,
}

impl<'a> Objects<'a> {
    fn new(repository: &'a Repository<'a>) -> Self {
        Self { repository, further: repository.further(WORDS) }
    }

    /// Objects of an API group, without charts' templates and Kustomize's patches.
    fn of<'s>(&'s self, group: &'s str) -> impl Iterator<Item = Declared<'s>> {
        let patches = &self.repository.overlays().patch_files;
        self.repository
            .files
            .values()
            .chain(self.further.values())
            .filter(|file| {
                helm_chart(&self.repository.texts, file.path).is_none() && !patches.contains(file.path)
            })
            .filter_map(|file| Some((file, file.parsed.as_deref().ok()?)))
            .flat_map(|(file, parsed)| {
                parsed.objects.iter().map(move |object| Declared { file, parsed, object })
            })
            .filter(move |one| {
                super::kinds::group(&one.object.api_version) == group
                    && !self.repository.is_foreign(one.file.path, one.object)
            })
    }

    /// Files that speak of such a group and are no plain manifests.
    fn templates(&self, group: &NodeGroup) -> Vec<String> {
        let kinds: &[&str] = match group.kind {
            NodeGroupKind::Karpenter => &["kind: NodePool"],
            NodeGroupKind::ClusterApi => &["kind: MachineDeployment", "kind: MachinePool", "kind: Cluster"],
            NodeGroupKind::Eks | NodeGroupKind::Gke | NodeGroupKind::Aks => &[],
        };
        let texts = &self.repository.texts;
        let files = self.repository.files.values().chain(self.further.values());
        let templates = files
            .filter(|file| file.parsed.is_err() || helm_chart(texts, file.path).is_some())
            .filter(|file| kinds.iter().any(|kind| file.text.contains(kind)))
            .map(|file| format!("`{}` (it is a template, or cannot be read)", file.path));
        // Terraform applies manifests too: as text, or spelled out in its own language.
        let bare = kinds.iter().filter_map(|kind| kind.strip_prefix("kind: ")).next();
        let applied = texts
            .iter()
            .filter(|(path, text)| is_terraform(path) && bare.is_some_and(|kind| text.contains(kind)))
            .map(|(path, _)| format!("`{path}` (a manifest that Terraform applies is not edited)"));
        templates.chain(applied).collect()
    }

    /// Names that Kustomize gives an object, and why it is not edited where there is a reason.
    fn names(&self, one: &Declared<'_>) -> (BTreeSet<String>, Option<String>) {
        let variants = self.repository.variants(one.file.path, one.object);
        let roots: BTreeSet<String> =
            variants.iter().filter_map(|one| one.root.as_ref()).map(|root| format!("`{root}`")).collect();
        let patch = variants.iter().find_map(|variant| variant.patched.as_ref());
        let why = match (patch, roots.len()) {
            (Some(patch), _) => Some(format!("the patch at `{patch}` speaks about it too")),
            (None, 0 | 1) => shared::users(self.repository, one.file.path),
            (None, _) => {
                let roots: Vec<String> = roots.into_iter().collect();
                Some(format!("several kustomizations take it: {}", roots.join(", ")))
            }
        };
        (variants.into_iter().map(|variant| variant.name).collect(), why)
    }
}

/// One object with its file.
#[derive(Clone, Copy)]
struct Declared<'a> {
    file: &'a File<'a>,
    parsed: &'a Parsed,
    object: &'a Object,
}

impl Declared<'_> {
    fn place(&self, line: usize) -> String {
        format!("{}:{line}", self.file.path)
    }
}

/// One edit of one object's text.
fn edit_yaml(text: &str, object: &Object, at: &[Step], op: Op) -> Result<String, String> {
    let at = [object.prefix.clone(), at.to_vec()].concat();
    let edit = Edit { document: Document::Index(object.document), at, op, shared: Shared::Refuse };
    slicewright_yaml::edit(text, &[edit]).map_err(|refusal| refusal.to_string())
}

/// Longest copy of a group that is shown, in bytes; beyond it what differs is said.
const LONGEST_COPY: usize = 8_000;

/// The name of a second group beside one.
fn second_name(name: &str, label: &Label<'_>, longest: usize) -> String {
    let end = if label.key == "nvidia.com/mig.config" { "-mig" } else { "-shared" };
    let kept: String = name.chars().take(longest.saturating_sub(end.len())).collect();
    format!("{}{end}", kept.trim_end_matches('-'))
}
