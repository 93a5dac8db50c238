//! Node groups in Terraform's and OpenTofu's language: the clouds' own resources, and inputs of common modules.

use std::collections::BTreeSet;

use hcl_edit::expr::Expression;
use hcl_edit::structure::{Block, Body};
use slicewright_core::plan::node_group::{NodeGroup, NodeGroupKind};

use super::{Found, Label, Today, second_name};
use crate::infra::hcl::{self, Holder, Map, line, slice, span};
use crate::infra::kustomize::{parent, resolve};
use crate::infra::repository::{Repository, is_terraform};
use crate::infra::text::one_line;

/// One kind of block that declares a group: which resource, where its name and its labels stand.
struct Row {
    resource: &'static str,
    kind: NodeGroupKind,
    name: &'static str,
    /// The block inside that holds name and labels, or the labels alone.
    inside: Inside,
    labels: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    /// Name and labels stand in the resource.
    Resource,
    /// Only the labels stand in this block.
    Labels(&'static str),
    /// Name and labels stand in this block.
    Both(&'static str),
}

const ROWS: &[Row] = &[
    Row {
        resource: "aws_eks_node_group",
        kind: NodeGroupKind::Eks,
        name: "node_group_name",
        inside: Inside::Resource,
        labels: "labels",
    },
    Row {
        resource: "azurerm_kubernetes_cluster_node_pool",
        kind: NodeGroupKind::Aks,
        name: "name",
        inside: Inside::Resource,
        labels: "node_labels",
    },
    Row {
        resource: "azurerm_kubernetes_cluster",
        kind: NodeGroupKind::Aks,
        name: "name",
        inside: Inside::Both("default_node_pool"),
        labels: "node_labels",
    },
    Row {
        resource: "google_container_node_pool",
        kind: NodeGroupKind::Gke,
        name: "name",
        inside: Inside::Labels("node_config"),
        labels: "labels",
    },
];

/// Words that a file with a node group holds.
const WORDS: &[&str] = &[
    "aws_eks_node_group",
    "azurerm_kubernetes_cluster",
    "google_container_node_pool",
    "terraform-aws-eks",
    "terraform-aws-modules/eks/aws",
    "kubernetes-engine",
];

/// Characters that a provider appends to a name prefix, so that names are unique.
const SUFFIX: usize = 26;

/// What a declaration calls the group.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    Literal(String),
    /// The provider appends a suffix of its own.
    Prefix(String),
    /// Computed; what is known of its start and end.
    Computed(String, String),
}

impl Name {
    fn is(&self, name: &str) -> bool {
        match self {
            Self::Literal(literal) => literal == name,
            Self::Prefix(prefix) => name
                .strip_prefix(prefix.as_str())
                .is_some_and(|rest| rest.len() == SUFFIX && rest.chars().all(|c| c.is_ascii_hexdigit())),
            Self::Computed(..) => false,
        }
    }

    fn may_be(&self, name: &str) -> bool {
        match self {
            Self::Literal(_) | Self::Prefix(_) => self.is(name),
            Self::Computed(start, end) => {
                name.len() >= start.len() + end.len()
                    && name.starts_with(start.as_str())
                    && name.ends_with(end.as_str())
            }
        }
    }
}

/// How a second group is made of the text of one.
#[derive(Clone, Debug)]
enum Copy {
    /// A block of its own, whose name in this language stands there.
    Block(Option<std::ops::Range<usize>>),
    /// An entry of a map, under another key.
    Entry,
    /// What there is of it stands in several places.
    No,
}

/// One declaration of a group in a parsed file.
struct Group<'b> {
    name: Name,
    /// Where labels are put; `Err`: there is no such place.
    holder: Result<Holder<'b>, String>,
    /// The name of the map.
    labels: String,
    /// The whole of it, for copies: from its first byte to its last.
    start: usize,
    end: usize,
    /// Where the name stands as a plain string.
    name_at: Option<std::ops::Range<usize>>,
    /// How a second group beside it is written.
    copy: Copy,
    /// Why it is not edited, if so, with the line.
    blocked: Option<(String, usize)>,
    /// Line of a smallest size of 0.
    from_zero: Option<usize>,
}

/// The declarations of this group, and the places of those that may be it.
pub(super) fn find<'a>(
    repository: &'a Repository<'_>,
    label: &Label<'a>,
    wanted: &NodeGroup,
) -> (Vec<Found<'a>>, Vec<String>) {
    let mut found = Vec::new();
    let mut nearly = Vec::new();
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
                found.push(declaration(repository, path, text, n, &group, label, wanted.kind));
            } else if group.name.may_be(&wanted.name) {
                let why = group.blocked.map_or("its name is computed".to_owned(), |(why, _)| why);
                nearly.push(format!("`{path}:{}` ({why})", line(text, group.start)));
            }
        }
    }
    (found, nearly)
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
    Found {
        path: path.to_owned(),
        today,
        text: format!("{name} = {{\n  \"{}\" = \"{}\"\n}}\n", one_line(label.key), one_line(label.value)),
        second: second(text, n, group, label, kind),
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
    let of = |body: &Body| -> Option<usize> { Some(groups(text, body, kind).len()) };
    let n_groups = of(&body);
    if n_groups.is_none_or(|n_groups| n >= n_groups) {
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
            "resource" => found.extend(resource(text, block, kind)),
            "module" if kind == NodeGroupKind::Eks => eks_module(text, block, &mut found),
            "module" if kind == NodeGroupKind::Gke => gke_module(text, block, &mut found),
            _ => {}
        }
    }
    found
}

fn resource<'b>(text: &str, block: &'b Block, kind: NodeGroupKind) -> Option<Group<'b>> {
    let resource = block.labels.first()?.as_str();
    let row = ROWS.iter().find(|row| row.resource == resource && row.kind == kind)?;
    let whole = Holder::block(block);
    let inner = |name: &str| {
        let mut blocks = block.body.blocks().filter(|inner| inner.ident.as_str() == name);
        match (blocks.next(), blocks.next()) {
            (Some(one), None) => Ok(Holder::block(one)),
            (None, _) => Err(format!("it has no block `{name}` that could hold labels")),
            (Some(_), Some(_)) => Err(format!("it has several blocks `{name}`")),
        }
    };
    let (named, holder) = match row.inside {
        Inside::Resource => (Some(whole), Ok(whole)),
        Inside::Labels(name) => (Some(whole), inner(name)),
        Inside::Both(name) => (inner(name).ok(), inner(name)),
    };
    let prefix = format!("{}_prefix", row.name);
    let name = named.map_or_else(unknown, |named| match named.get(row.name) {
        Some(value) => name_of(text, value),
        None => match named.string(&prefix) {
            Some(prefix) => Name::Prefix(prefix.to_owned()),
            None => unknown(),
        },
    });
    // A second group beside one that is part of a cluster is a resource of its own.
    let (place, copy) = match (row.inside, &holder) {
        (Inside::Both(_), Ok(Holder::Body(_, start, end))) => (*start..*end, Copy::No),
        (Inside::Both(_), _) => (span(block), Copy::No),
        (Inside::Resource | Inside::Labels(_), _) => (span(block), Copy::Block(title(block, 1))),
    };
    Some(Group {
        name,
        holder,
        labels: row.labels.to_owned(),
        start: place.start,
        end: place.end,
        name_at: named.and_then(|named| named.get(row.name)).filter(|value| value.is_str()).map(span),
        copy,
        blocked: many(text, block).or_else(|| ignored(text, block, row)),
        from_zero: from_zero_in(text, block),
    })
}

/// Where a label of a block stands.
fn title(block: &Block, n: usize) -> Option<std::ops::Range<usize>> {
    block.labels.get(n).map(|label| match label {
        hcl_edit::structure::BlockLabel::Ident(ident) => span(ident),
        hcl_edit::structure::BlockLabel::String(string) => span(string),
    })
}

/// `for_each` and `count`: one text stands for several groups, or for none.
fn many(text: &str, block: &Block) -> Option<(String, usize)> {
    ["for_each", "count"].iter().find_map(|name| {
        let value = block.body.get_attribute(name)?;
        Some((
            format!("it is declared with `{name}`, which may make several groups of it"),
            line(text, span(value).start),
        ))
    })
}

/// `lifecycle { ignore_changes = […] }` on what would be edited.
fn ignored(text: &str, block: &Block, row: &Row) -> Option<(String, usize)> {
    let lifecycle = block.body.blocks().find(|inner| inner.ident.as_str() == "lifecycle")?;
    let ignored = lifecycle.body.get_attribute("ignore_changes")?;
    let names: BTreeSet<&str> = match row.inside {
        Inside::Resource => BTreeSet::from([row.labels]),
        Inside::Labels(inside) | Inside::Both(inside) => BTreeSet::from([inside]),
    };
    let hits = |value: &Expression| {
        let shown = value.as_str().unwrap_or_else(|| slice(text, value)).trim();
        let name = shown.split(['[', '.']).next().unwrap_or_default().trim();
        // A part of a block is told by its whole way.
        let other_part = match row.inside {
            Inside::Resource => false,
            Inside::Labels(_) | Inside::Both(_) => shown.contains('.') && !shown.contains(row.labels),
        };
        shown == "all" || (names.contains(name) && !other_part)
    };
    let hit = match &ignored.value {
        Expression::Array(array) => array.iter().any(hits),
        other => hits(other),
    };
    hit.then(|| {
        (
            "it ignores changes of its labels (`ignore_changes`), so that an edit would do nothing"
                .to_owned(),
            line(text, span(ignored).start),
        )
    })
}

fn from_zero_in(text: &str, block: &Block) -> Option<usize> {
    let least = ["min_size", "min_count", "min_node_count", "total_min_node_count"];
    let bodies = std::iter::once(&block.body).chain(
        block
            .body
            .blocks()
            .filter(|inner| {
                matches!(inner.ident.as_str(), "scaling_config" | "autoscaling" | "default_node_pool")
            })
            .map(|inner| &inner.body),
    );
    bodies.flat_map(Body::attributes).find_map(|attribute| {
        let zero = attribute.value.as_number().is_some_and(|number| number.as_u64() == Some(0));
        (least.contains(&attribute.key.as_str()) && zero).then(|| line(text, span(attribute).start))
    })
}

fn name_of(text: &str, value: &Expression) -> Name {
    match value {
        Expression::String(string) => Name::Literal(string.as_str().to_owned()),
        Expression::StringTemplate(_) => {
            let shown = slice(text, value).trim_matches('"');
            let start = shown.split("${").next().unwrap_or_default();
            let end = shown.rsplit('}').next().unwrap_or_default();
            Name::Computed(start.to_owned(), end.to_owned())
        }
        _ => unknown(),
    }
}

fn unknown() -> Name {
    Name::Computed(String::new(), String::new())
}

/// The source of a module, where it is one of a public module's spellings.
fn source(block: &Block) -> &str {
    Holder::block(block).string("source").unwrap_or_default()
}

/// The name of a group in the EKS module: a prefix unless it says otherwise.
fn eks_name(text: &str, holder: &Holder<'_>, key: Option<&str>) -> Name {
    let name = match (holder.get("name"), key) {
        (Some(value), _) => name_of(text, value),
        (None, Some(key)) => Name::Literal(key.to_owned()),
        (None, None) => unknown(),
    };
    let by_prefix = holder.get("use_name_prefix").is_none_or(|value| value.as_bool() != Some(false));
    match name {
        Name::Literal(name) if by_prefix => Name::Prefix(format!("{name}-")),
        other => other,
    }
}

fn eks_module<'b>(text: &str, block: &'b Block, found: &mut Vec<Group<'b>>) {
    let source = source(block);
    if !source.contains("terraform-aws-modules/eks/aws")
        && !source.contains("terraform-aws-modules/terraform-aws-eks")
    {
        return;
    }
    let module = Holder::block(block);
    let place = span(block);
    if source.contains("modules/eks-managed-node-group") {
        found.push(Group {
            name: eks_name(text, &module, None),
            holder: Ok(module),
            labels: "labels".to_owned(),
            start: place.start,
            end: place.end,
            name_at: module.get("name").filter(|value| value.is_str()).map(span),
            copy: Copy::Block(title(block, 0)),
            blocked: many(text, block),
            from_zero: from_zero_in(text, block),
        });
        return;
    }
    if source.contains("//modules/") {
        return;
    }
    let Some(value) = module.get("eks_managed_node_groups") else { return };
    let Expression::Object(object) = value else {
        let place = span(value);
        found.push(Group {
            name: unknown(),
            holder: Err("its groups do not stand there".to_owned()),
            labels: "labels".to_owned(),
            start: place.start,
            end: place.end,
            name_at: None,
            copy: Copy::No,
            blocked: None,
            from_zero: None,
        });
        return;
    };
    // Labels of the defaults are replaced by those of a group, not merged with them.
    let defaults = match module.get("eks_managed_node_group_defaults") {
        Some(Expression::Object(defaults)) => {
            Holder::Object(defaults).get("labels").map(|value| span(value).start)
        }
        Some(other) => Some(span(other).start),
        None => None,
    };
    for (key, value) in object {
        let place = span(value.expr());
        let Expression::Object(group) = value.expr() else {
            found.push(Group {
                name: hcl::key_text(key).map_or_else(unknown, |key| Name::Prefix(format!("{key}-"))),
                holder: Err(format!(
                    "it is `{}`",
                    one_line(&slice(text, value.expr()).chars().take(60).collect::<String>())
                )),
                labels: "labels".to_owned(),
                start: place.start,
                end: place.end,
                name_at: None,
                copy: Copy::No,
                blocked: None,
                from_zero: None,
            });
            continue;
        };
        let holder = Holder::Object(group);
        let lost = defaults.filter(|_| holder.get("labels").is_none()).map(|at| {
            let why = "labels of its own would replace those of `eks_managed_node_group_defaults`";
            (why.to_owned(), line(text, at))
        });
        let from_zero = holder
            .get("min_size")
            .filter(|value| value.as_number().is_some_and(|number| number.as_u64() == Some(0)))
            .map(|value| line(text, span(value).start));
        found.push(Group {
            name: eks_name(text, &holder, hcl::key_text(key)),
            holder: Ok(holder),
            labels: "labels".to_owned(),
            start: place.start,
            end: place.end,
            name_at: holder.get("name").filter(|value| value.is_str()).map(span),
            copy: Copy::Entry,
            blocked: many(text, block).or(lost),
            from_zero,
        });
    }
}

/// Google's module keeps labels of all pools in one map beside the list of pools.
fn gke_module<'b>(text: &str, block: &'b Block, found: &mut Vec<Group<'b>>) {
    if !source(block).contains("kubernetes-engine") {
        return;
    }
    let module = Holder::block(block);
    let Some(Expression::Array(pools)) = module.get("node_pools") else { return };
    for pool in pools.iter() {
        let Expression::Object(object) = pool else { continue };
        let place = span(pool);
        let pool = Holder::Object(object);
        let name = pool.get("name").map_or_else(unknown, |value| name_of(text, value));
        let holder = match module.get("node_pools_labels") {
            Some(Expression::Object(labels)) => Ok(Holder::Object(labels)),
            Some(_) => Err("`node_pools_labels` of the module is not a map that stands there".to_owned()),
            None => Err("the module has no `node_pools_labels`".to_owned()),
        };
        let labels = pool.string("name").unwrap_or_default().to_owned();
        let from_zero = pool
            .get("min_count")
            .filter(|value| value.as_number().is_some_and(|number| number.as_u64() == Some(0)))
            .map(|value| line(text, span(value).start));
        found.push(Group {
            name,
            holder,
            labels,
            start: place.start,
            end: place.end,
            name_at: pool.get("name").filter(|value| value.is_str()).map(span),
            copy: Copy::No,
            blocked: many(text, block),
            from_zero,
        });
    }
}

/// Why a file is not this cluster's alone: its folder is a module that is called more than once.
fn several_callers(repository: &Repository<'_>, path: &str) -> Option<String> {
    let folder = parent(path);
    let mut callers = Vec::new();
    for (other, text) in repository.texts.iter().filter(|(other, _)| is_terraform(other)) {
        if !text.contains("source") || parent(other) == folder {
            continue;
        }
        let Ok(body) = hcl::parse(text) else { continue };
        for block in body.blocks().filter(|block| block.ident.as_str() == "module") {
            let source = source(block);
            let local = source.starts_with("./") || source.starts_with("../");
            if local && resolve(parent(other), source).as_deref() == Some(folder) {
                let n = if many(text, block).is_some() { 2 } else { 1 };
                callers
                    .extend(std::iter::repeat_n(format!("`{other}:{}`", line(text, span(block).start)), n));
            }
        }
    }
    if callers.len() < 2 {
        return None;
    }
    callers.dedup();
    Some(format!("its folder is a module that makes several groups: {}", callers.join(", ")))
}

/// A copy of the group under another name, with the label.
fn second(text: &str, n: usize, group: &Group<'_>, label: &Label<'_>, kind: NodeGroupKind) -> String {
    let (longest, old) = match kind {
        // AKS takes 12 characters, none of them a dash.
        NodeGroupKind::Aks => (12, group.name_at.clone()),
        NodeGroupKind::Gke => (40, group.name_at.clone()),
        NodeGroupKind::Eks | NodeGroupKind::Karpenter | NodeGroupKind::ClusterApi => {
            (63, group.name_at.clone())
        }
    };
    let today = match &group.name {
        Name::Literal(name) => name.clone(),
        Name::Prefix(name) => name.trim_end_matches('-').to_owned(),
        Name::Computed(..) => String::new(),
    };
    let mut name = second_name(&today, label, longest);
    if kind == NodeGroupKind::Aks {
        name = second_name(&today, label, longest + 1).replace('-', "");
    }
    let title = match &group.copy {
        Copy::Block(title) => Some(title.clone()),
        Copy::Entry => Some(None),
        Copy::No => None,
    };
    let labelled =
        title.is_some().then(|| put(text, n, kind, &group.labels, label.key, label.value).ok()).flatten();
    let copy = labelled.and_then(|changed| {
        // The edit stands behind the group's name and title, so that their places hold in the edited text.
        let grown = (group.end + changed.len()).checked_sub(text.len())?;
        let mut copy = changed.get(group.start..grown)?.to_owned();
        let inside = |place: &std::ops::Range<usize>| place.start >= group.start && place.end <= group.end;
        let mut places: Vec<(std::ops::Range<usize>, String)> = Vec::new();
        places.extend(old.filter(inside).map(|place| (place, format!("\"{name}\""))));
        let title = title.flatten().filter(inside);
        places.extend(title.map(|place| {
            let today = text.get(place.clone()).unwrap_or_default();
            let quote = if today.starts_with('"') { "\"" } else { "" };
            let end = if label.key == "nvidia.com/mig.config" { "_mig" } else { "_shared" };
            (place, format!("{quote}{}{end}{quote}", today.trim_matches('"')))
        }));
        places.sort_by_key(|(place, _)| std::cmp::Reverse(place.start));
        for (place, new) in places {
            let (from, to) = (place.start - group.start, place.end - group.start);
            if copy.get(from..to) != text.get(place) {
                return None;
            }
            copy.replace_range(from..to, &new);
        }
        Some(copy)
    });
    match copy {
        Some(copy) if matches!(group.copy, Copy::Entry) => {
            format!("# beside the group at line {}\n{name} = {}\n", line(text, group.start), dedented(&copy))
        }
        Some(copy) => format!("{copy}\n"),
        None => format!(
            "# a copy of the group at line {} named `{name}`, with\n{} = {{\n  \"{}\" = \"{}\"\n}}\n",
            line(text, group.start),
            group.labels,
            one_line(label.key),
            one_line(label.value)
        ),
    }
}

/// The lines after the first as far to the left as the last one stands.
fn dedented(text: &str) -> String {
    let last = text.rsplit('\n').next().unwrap_or_default();
    let indent: String = last.chars().take_while(|c| matches!(c, ' ' | '\t')).collect();
    let lines: Vec<&str> =
        text.split('\n').map(|line| line.strip_prefix(indent.as_str()).unwrap_or(line)).collect();
    lines.join("\n")
}
