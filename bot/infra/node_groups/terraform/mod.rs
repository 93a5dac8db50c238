//! Node groups in Terraform's and OpenTofu's language: the clouds' own resources, and inputs of common modules.

mod group;

mod resource;

mod module;

mod second;

mod copied;

use hcl_edit::structure::Body;
use slicewright_core::plan::node_group::{NodeGroup, NodeGroupKind};

use super::{Found, Label, Today};
use crate::infra::hcl::{self, Holder, Map, line, span};
use crate::infra::kustomize::{parent, resolve};
use crate::infra::repository::{Repository, is_terraform};
use crate::infra::text::one_line;
pub(super) use copied::{Beside, Outcome, beside};
use group::{Group, many};
use module::source;

/// Words that a file with a node group holds.
const WORDS: &[&str] = &[
    "aws_eks_node_group",
    "azurerm_kubernetes_cluster",
    "google_container_node_pool",
    "terraform-aws-eks",
    "terraform-aws-modules/eks/aws",
    "kubernetes-engine",
];

/// The declarations of this group, and the places of those that may be it.
pub(super) fn find<'a>(
    repository: &'a Repository<'_>,
    label: &Label<'a>,
    wanted: &NodeGroup,
) -> (Vec<Found<'a>>, Vec<String>) {
    let mut found = Vec::new();
    let nearly = each(repository, wanted, |one| {
        let Place { path, text, n, group, .. } = one;
        found.push(declaration(repository, path, text, n, group, label, wanted.kind));
    });
    (found, nearly)
}

/// A declaration of the group that is looked for.
struct Place<'t, 'b> {
    path: &'t str,
    text: &'t str,
    body: &'b Body,
    /// How many declarations of this cloud stand before it in the file.
    n: usize,
    group: &'b Group<'b>,
}

/// Shows every declaration of this group, and gives the places of those that may be it.
fn each<'a>(
    repository: &'a Repository<'_>,
    wanted: &NodeGroup,
    mut show: impl FnMut(Place<'a, '_>),
) -> Vec<String> {
    let mut nearly = Vec::new();
    let mut n_found = 0;
    for (path, text) in files(repository) {
        let body = match hcl::parse(text) {
            Ok(body) => body,
            Err(why) => {
                nearly.push(format!("`{path}` (it was not read: {why})"));
                continue;
            }
        };
        for (n, group) in groups(text, &body, wanted.kind).into_iter().enumerate() {
            if group.name.is(&wanted.name) {
                n_found += 1;
                show(Place { path, text, body: &body, n, group: &group });
            } else if group.name.may_be(&wanted.name) {
                let why = group.blocked.map_or("its name is computed".to_owned(), |(why, _)| why);
                nearly.push(format!("`{path}:{}` ({why})", line(text, group.start)));
            }
        }
    }
    if n_found == 0 {
        nearly.extend(elsewhere(repository, &wanted.name));
    }
    nearly
}

/// Places that name a group in forms which are not edited.
fn elsewhere(repository: &Repository<'_>, name: &str) -> Vec<String> {
    let form = |path: &str| match path {
        _ if path.ends_with(".tf.json") || path.ends_with(".tofu.json") => Some("JSON"),
        _ if path.ends_with(".tfvars") || path.ends_with(".tfvars.json") => Some("the values of variables"),
        _ if path.ends_with(".hcl") => Some("the language of Terragrunt"),
        _ => None,
    };
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut found = Vec::new();
    for (path, text) in repository.texts.iter().filter(|_| !name.is_empty()) {
        let Some(form) = form(path) else { continue };
        let named = |line: &str| line.split(|c: char| !is_part(c)).any(|word| word == name);
        if let Some(line) = text.lines().position(named) {
            found.push(format!("`{path}:{}` (it names the group in {form}, which is not edited)", line + 1));
        }
    }
    found
}

/// Whether some file tells this, in a tag for instance.
pub(super) fn says(repository: &Repository<'_>, tag: &str) -> bool {
    repository.texts.iter().any(|(path, text)| is_terraform(path) && text.contains(tag))
}

/// Lines with a smallest size of 0 in the declarations of this group.
pub(super) fn from_zero(repository: &Repository<'_>, wanted: &NodeGroup) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in files(repository) {
        let Ok(body) = hcl::parse(text) else { continue };
        for group in groups(text, &body, wanted.kind) {
            if let Some(at) = group.from_zero.filter(|_| group.name.is(&wanted.name)) {
                found.push(format!("{path}:{at}"));
            }
        }
    }
    found
}

fn files<'a>(repository: &'a Repository<'_>) -> impl Iterator<Item = (&'a str, &'a str)> {
    repository
        .texts
        .iter()
        .map(|(path, text)| (*path, *text))
        .filter(|(path, text)| is_terraform(path) && WORDS.iter().any(|word| text.contains(word)))
}

fn declaration<'a>(
    repository: &Repository<'_>,
    path: &str,
    text: &'a str,
    n: usize,
    group: &Group<'_>,
    label: &Label<'a>,
    kind: NodeGroupKind,
) -> Found<'a> {
    let name = group.labels.clone();
    let place = format!("{path}:{}", line(text, place_of(text, group)));
    let today = match (&group.holder, &group.blocked, several_callers(repository, path)) {
        (_, Some((why, at)), _) => Err(format!("{why} (`{path}:{at}`)")),
        (_, None, Some(why)) => Err(why),
        (Err(why), None, None) => Err(why.clone()),
        (Ok(holder), None, None) => hcl::map(text, holder, &name).and_then(|map| match map {
            Map::Missing => Ok(Today::Unset),
            Map::Literal { object, alone } => match hcl::entry(text, object, label.key)? {
                Some((value, _)) => Ok(Today::Set(value)),
                None if alone => Ok(Today::Unset),
                None => Ok(Today::Unknown),
            },
        }),
    };
    let (key, value) = (label.key.to_owned(), label.value.to_owned());
    // Google's module keeps the labels of its pools by their names.
    let within = if name.ends_with("labels") { "" } else { "# in `node_pools_labels` of the module\n" };
    Found {
        path: path.to_owned(),
        today,
        text: format!(
            "{within}{name} = {{\n  \"{}\" = \"{}\"\n}}\n",
            one_line(label.key),
            one_line(label.value)
        ),
        second: second::text(text, n, group, label, kind),
        effects: vec![in_place(&place, kind)],
        place,
        put: Box::new(move |text| put(text, n, kind, &name, &key, &value)),
    }
}

fn put(
    text: &str,
    n: usize,
    kind: NodeGroupKind,
    name: &str,
    key: &str,
    value: &str,
) -> Result<String, String> {
    // The text that is edited is read again, so that places of an older text are never used.
    let body = hcl::parse(text)?;
    if n >= groups(text, &body, kind).len() {
        return Err("it is not there any more".to_owned());
    }
    hcl::put(text, &move |body| nth(body, n, kind), name, key, value)
}

/// The holder of the group at a position; positions do not depend on the text.
fn nth(body: &Body, n: usize, kind: NodeGroupKind) -> Option<Holder<'_>> {
    groups("", body, kind).into_iter().nth(n)?.holder.ok()
}

/// The line that people look for: the labels', else the group's first.
fn place_of(text: &str, group: &Group<'_>) -> usize {
    let labels = group.holder.as_ref().ok().and_then(|holder| holder.get(&group.labels));
    match labels {
        Some(labels) => {
            let at = span(labels).start;
            let line_start =
                text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |found| found + 1);
            line_start.max(group.start)
        }
        None => group.start,
    }
}

fn in_place(place: &str, kind: NodeGroupKind) -> String {
    let more = match kind {
        NodeGroupKind::Gke => {
            " Older versions of the provider make the whole pool anew instead: read the plan before it is applied."
        }
        NodeGroupKind::Eks | NodeGroupKind::Aks | NodeGroupKind::Karpenter | NodeGroupKind::ClusterApi => "",
    };
    format!(
        "`{place}`: applying this sets the label on the group's nodes that run as well, not on new ones alone: their pods \
         with a GPU have to be gone by then.{more}"
    )
}

/// All declarations of one cloud in a file, in the order in which they stand.
fn groups<'b>(text: &str, body: &'b Body, kind: NodeGroupKind) -> Vec<Group<'b>> {
    let mut found = Vec::new();
    for block in body.blocks() {
        match block.ident.as_str() {
            "resource" => found.extend(resource::declared(text, block, kind)),
            "module" if kind == NodeGroupKind::Eks => module::eks(text, block, &mut found),
            "module" if kind == NodeGroupKind::Gke => module::gke(text, block, &mut found),
            _ => {}
        }
    }
    found
}

/// Why a file is not this cluster's alone: its folder is a module that is called more than once, or from elsewhere.
fn several_callers(repository: &Repository<'_>, path: &str) -> Option<String> {
    let folder = parent(path);
    let mut callers = Vec::new();
    let mut foreign = false;
    for (other, text) in repository.texts.iter().chain(repository.elsewhere()) {
        if !is_terraform(other) || !text.contains("source") || parent(other) == folder {
            continue;
        }
        let Ok(body) = hcl::parse(text) else { continue };
        for block in body.blocks().filter(|block| block.ident.as_str() == "module") {
            let source = source(block);
            let local = source.starts_with("./") || source.starts_with("../");
            if local && resolve(parent(other), source).as_deref() == Some(folder) {
                let n = if many(text, block).is_some() { 2 } else { 1 };
                foreign |= !repository.texts.contains_key(other);
                callers
                    .extend(std::iter::repeat_n(format!("`{other}:{}`", line(text, span(block).start)), n));
            }
        }
    }
    if callers.len() < 2 && !foreign {
        return None;
    }
    callers.dedup();
    Some(format!(
        "its folder is a module that is called from several places, or from outside of the cluster's files: {}",
        callers.join(", ")
    ))
}
