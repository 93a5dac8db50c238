//! A node pool beside one, with the field by which the cloud cuts its cards: a copy of the block, behind it.

use hcl_edit::structure::Block;
use slicewright_core::plan::node_group::{NodeGroup, NodeGroupKind};
use slicewright_core::plan::node_pool::{PoolCards, azure_profile};

use super::group::{Copy, Group, Name, many, title};
use super::{Place, each, several_callers};
use crate::infra::hcl::{self, Copied, Holder, Splice, line, span};
use crate::infra::kustomize::parent;
use crate::infra::node_groups::LONGEST_COPY;
use crate::infra::repository::{Repository, is_terraform};

/// A declaration that gets another beside it.
pub(in crate::infra::node_groups) struct Beside {
    pub(in crate::infra::node_groups) path: String,
    /// `path:line` of the pool that is there.
    pub(in crate::infra::node_groups) place: String,
    /// What comes of it.
    pub(in crate::infra::node_groups) outcome: Outcome,
    /// The new pool, or how it differs from the one that is there.
    pub(in crate::infra::node_groups) text: String,
    /// What its sizes bring about, as sentences.
    pub(in crate::infra::node_groups) sizes: Vec<String>,
}

/// What comes of a declaration.
pub(in crate::infra::node_groups) enum Outcome {
    /// The file with the new pool.
    Written(String),
    /// The new pool stands there.
    There,
    /// Why it is left to people.
    Refused(String),
}

/// What says how a pool's cards are cut or shared, and the block that it stands in, as the way from the pool's own.
struct Field {
    way: &'static [&'static str],
    said: Said,
    /// Names in the same block that say what becomes of the cards.
    taken: &'static [&'static str],
}

/// How it is said.
enum Said {
    /// An attribute with a plain string.
    Attribute(&'static str, String),
    /// A block with these attributes, as they are written.
    Block(&'static str, Vec<(&'static str, String)>),
}

impl Said {
    fn name(&self) -> &'static str {
        match self {
            Self::Attribute(name, _) | Self::Block(name, _) => name,
        }
    }

    /// Whether a block says it already.
    fn is_in(&self, text: &str, block: &Block) -> bool {
        match self {
            Self::Attribute(name, value) => Holder::block(block).string(name) == Some(value),
            Self::Block(name, attributes) => {
                block.body.blocks().filter(|inner| inner.ident.as_str() == *name).any(|inner| {
                    let holder = Holder::block(inner);
                    attributes.iter().all(|(name, value)| {
                        holder.get(name).is_some_and(|held| hcl::slice(text, held) == value)
                    })
                })
            }
        }
    }

    fn splice(&self, text: &str, block: &Block) -> Result<Splice, String> {
        match self {
            Self::Attribute(name, value) => hcl::attribute(text, block, name, value),
            Self::Block(name, attributes) => hcl::inner_block(text, block, name, attributes),
        }
    }

    /// As it is written in a resource, a line each.
    fn lines(&self) -> Vec<String> {
        match self {
            Self::Attribute(name, value) => vec![format!("{name} = \"{value}\"")],
            Self::Block(name, attributes) => {
                let longest = attributes.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
                let inside = attributes.iter().map(|(name, value)| format!("  {name:longest$} = {value}"));
                std::iter::once(format!("{name} {{")).chain(inside).chain(["}".to_owned()]).collect()
            }
        }
    }

    /// As it is written in an entry of Google's module, which has no blocks.
    fn entries(&self) -> Vec<String> {
        match self {
            Self::Attribute(name, value) => vec![format!("{name} = \"{value}\"")],
            Self::Block(_, attributes) => {
                attributes.iter().map(|(name, value)| format!("{name} = {value}")).collect()
            }
        }
    }
}

/// `google_container_node_pool` and `azurerm_kubernetes_cluster_node_pool`; none of the fields changes in place
/// (documentation of the two providers). AKS has none for cards that are shared.
fn field(kind: NodeGroupKind, cards: &PoolCards) -> Option<(&'static str, Field)> {
    match (kind, cards) {
        (NodeGroupKind::Gke, cards) => {
            let said = match cards {
                PoolCards::Partition { profile, .. } => {
                    Said::Attribute("gpu_partition_size", profile.clone())
                }
                PoolCards::TimeSharing { clients } => Said::Block(
                    "gpu_sharing_config",
                    vec![
                        ("gpu_sharing_strategy", "\"TIME_SHARING\"".to_owned()),
                        ("max_shared_clients_per_gpu", clients.to_string()),
                    ],
                ),
            };
            let taken: &[&str] = &["gpu_partition_size", "gpu_sharing_config"];
            Some((
                "google_container_node_pool",
                Field { way: &["node_config", "guest_accelerator"], said, taken },
            ))
        }
        (NodeGroupKind::Aks, PoolCards::Partition { profile, .. }) => {
            let said = Said::Attribute("gpu_instance", azure_profile(profile)?);
            Some(("azurerm_kubernetes_cluster_node_pool", Field { way: &[], said, taken: &["gpu_instance"] }))
        }
        (NodeGroupKind::Aks, PoolCards::TimeSharing { .. })
        | (NodeGroupKind::Karpenter | NodeGroupKind::Eks | NodeGroupKind::ClusterApi, _) => None,
    }
}

/// The declarations of this pool with what comes of each, and the places of those that may be it.
pub(in crate::infra::node_groups) fn beside(
    repository: &Repository<'_>,
    wanted: &NodeGroup,
    name: &str,
    cards: &PoolCards,
) -> (Vec<Beside>, Vec<String>) {
    let mut found = Vec::new();
    let Some((resource, field)) = field(wanted.kind, cards) else { return (found, Vec::new()) };
    let ending = match cards {
        PoolCards::Partition { profile, .. } => {
            format!("mig_{}", profile.split('.').next().unwrap_or_default())
        }
        PoolCards::TimeSharing { clients } => format!("shared_{clients}"),
    };
    let new = New { repository, kind: wanted.kind, resource, field, name, ending };
    let there = new.there();
    let nearly = each(repository, wanted, |place| found.push(new.of(&place, there.as_ref())));
    (found, nearly)
}

struct New<'n, 'r> {
    repository: &'n Repository<'r>,
    kind: NodeGroupKind,
    resource: &'static str,
    field: Field,
    name: &'n str,
    /// The end of the new block's name: `mig_2g`.
    ending: String,
}

impl New<'_, '_> {
    fn of(&self, one: &Place<'_, '_>, there: Option<&(String, bool)>) -> Beside {
        let Place { path, text, body, group, .. } = one;
        let at = |start: usize| format!("{path}:{}", line(text, start));
        let block = body.blocks().find(|block| span(*block) == (group.start..group.end));
        let copied = self.copied(path, text, group, block);
        let refused = match there {
            Some((_, true)) => None,
            Some((place, false)) => {
                Some(format!("a node pool `{}` is declared already (`{place}`)", self.name))
            }
            None => several_callers(self.repository, path),
        };
        let shown = copied.as_ref().ok().map(|copied| copied.copy.clone());
        let outcome = match (there, refused, copied) {
            (Some((_, true)), _, _) => Outcome::There,
            (_, Some(why), _) | (_, None, Err(why)) => Outcome::Refused(why),
            (_, None, Ok(copied)) => Outcome::Written(copied.whole),
        };
        let text_by_hand = match shown {
            Some(copy) if copy.len() <= LONGEST_COPY => format!("{copy}\n"),
            None if block.is_none() && self.kind == NodeGroupKind::Gke => self.entry(text, group),
            Some(_) | None => self.difference(line(text, group.start)),
        };
        let sizes = block.map(|block| sizes(path, text, block)).unwrap_or_default();
        Beside { path: (*path).to_owned(), place: at(group.start), outcome, text: text_by_hand, sizes }
    }

    /// The pool of the new name, where the cluster's files have one, and whether it is cut as wished.
    fn there(&self) -> Option<(String, bool)> {
        let group = NodeGroup { kind: self.kind, name: self.name.to_owned(), labels: Default::default() };
        let mut found = None;
        each(self.repository, &group, |Place { path, text, body, group, .. }| {
            let block = body.blocks().find(|block| span(*block) == (group.start..group.end));
            let says = |block| self.within(block).is_ok_and(|within| self.field.said.is_in(text, within));
            let is_meant = block.is_some_and(says);
            found = Some((format!("{path}:{}", line(text, group.start)), is_meant));
        });
        found
    }

    /// The block that holds the field.
    fn within<'b>(&self, block: &'b Block) -> Result<&'b Block, String> {
        let mut within = block;
        for name in self.field.way {
            let dynamic = |inner: &&Block| {
                inner.ident.as_str() == "dynamic"
                    && inner.labels.first().is_some_and(|label| label.as_str() == *name)
            };
            let mut inner = within.body.blocks().filter(|inner| inner.ident.as_str() == *name);
            within = match (inner.next(), inner.next(), within.body.blocks().any(|one| dynamic(&one))) {
                (Some(one), None, false) => one,
                (None, _, false) => {
                    return Err(format!(
                        "it has no block `{name}` that could hold `{}`",
                        self.field.said.name()
                    ));
                }
                (_, _, true) => return Err(format!("its block `{name}` is computed (`dynamic`)")),
                (Some(_), Some(_), false) => return Err(format!("it has several blocks `{name}`")),
            };
        }
        Ok(within)
    }

    /// The file with the copy, or why there is none.
    fn copied(
        &self,
        path: &str,
        text: &str,
        group: &Group<'_>,
        block: Option<&Block>,
    ) -> Result<Copied, String> {
        let block = match (&group.copy, block) {
            (Copy::Block(_), Some(block)) if block.ident.as_str() == "resource" => block,
            _ if self.kind == NodeGroupKind::Aks => {
                return Err("it is the cluster's own first pool, which is cut with the cluster: a pool beside it is a resource \
                            of its own"
                    .to_owned());
            }
            _ => {
                return Err(
                    "it stands in a list of a module, beside maps with its labels, taints and scopes"
                        .to_owned(),
                );
            }
        };
        if let Some((why, at)) = many(text, block) {
            return Err(format!("{why} (`{path}:{at}`)"));
        }
        let name_at = match (&group.name, &group.name_at) {
            (Name::Literal(_), Some(at)) => at.clone(),
            _ => return Err("its name is not written out".to_owned()),
        };
        let within = self.within(block)?;
        let holder = Holder::block(within);
        let taken = self.field.taken.iter().find_map(|name| {
            let blocks = within.body.blocks().find(|inner| inner.ident.as_str() == *name);
            let at = holder.get(name).map(span).or(blocks.map(span))?;
            Some((*name, at.start))
        });
        if let Some((name, at)) = taken {
            return Err(format!("it sets `{name}` already (`{path}:{}`)", line(text, at)));
        }
        let title_at = title(block, 1).ok_or("its block has no name")?;
        let old = text.get(title_at.clone()).unwrap_or_default();
        let quote = if old.starts_with('"') { "\"" } else { "" };
        let title = format!("{}_{}", old.trim_matches('"'), self.ending);
        if let Some(place) = self.titled(path, &title) {
            return Err(format!("`{}.{title}` is declared already (`{place}`)", self.resource));
        }
        let splices = vec![
            Splice::other(title_at, format!("{quote}{title}{quote}")),
            Splice::other(name_at, format!("\"{}\"", self.name)),
            self.field.said.splice(text, within)?,
        ];
        hcl::copy(text, block, splices)
    }

    /// Where the folder has such a resource of this name: all files of a folder are one module.
    fn titled(&self, path: &str, title: &str) -> Option<String> {
        let folder = parent(path);
        let files =
            self.repository.texts.iter().filter(|(other, _)| is_terraform(other) && parent(other) == folder);
        files.filter(|(_, text)| text.contains(title)).find_map(|(other, text)| {
            let body = hcl::parse(text).ok()?;
            let is_it = |block: &&Block| {
                let labels: Vec<&str> = block.labels.iter().map(|label| label.as_str()).collect();
                block.ident.as_str() == "resource" && labels == [self.resource, title]
            };
            let at = body.blocks().find(is_it).map(|block| span(block).start)?;
            Some(format!("{other}:{}", line(text, at)))
        })
    }

    /// The new pool in the list of Google's module, which calls the field as the resource does.
    fn entry(&self, text: &str, group: &Group<'_>) -> String {
        let old = text.get(group.start..group.end).unwrap_or_default();
        let name_at = group.name_at.clone().filter(|at| at.start >= group.start && at.end <= group.end);
        let (Some(at), Some(open)) = (name_at, old.trim_end().strip_suffix('}')) else {
            return self.difference(line(text, group.start));
        };
        let mut entry = open.trim_end().trim_end_matches(',').to_owned();
        let name = at.start - group.start..at.end - group.start;
        entry.replace_range(name, &format!("\"{}\"", self.name));
        let last = entry.rsplit('\n').next().unwrap_or_default();
        let indent: String = last.chars().take_while(|c| matches!(c, ' ' | '\t')).collect();
        let close = indent.strip_suffix("  ").unwrap_or_default();
        let more: String = self.field.said.entries().iter().map(|line| format!("{indent}{line}\n")).collect();
        format!(
            "# beside the pool at line {}, in `node_pools`; the module's maps with labels, taints and scopes need the name \
             too\n{close}{entry}\n{more}{close}}},\n",
            line(text, group.start),
        )
    }

    /// How the new pool differs, for people.
    fn difference(&self, at: usize) -> String {
        let mut text = format!(
            "# a resource `{}` like the pool at line {at}, named `{}`, with\n",
            self.resource, self.name
        );
        for (depth, name) in self.field.way.iter().enumerate() {
            text.push_str(&format!("{}{name} {{\n", "  ".repeat(depth)));
        }
        let depth = self.field.way.len();
        for line in self.field.said.lines() {
            text.push_str(&format!("{}{line}\n", "  ".repeat(depth)));
        }
        for depth in (0..depth).rev() {
            text.push_str(&format!("{}}}\n", "  ".repeat(depth)));
        }
        text
    }
}

/// What a copy of a pool's sizes means.
fn sizes(path: &str, text: &str, block: &Block) -> Vec<String> {
    let fixed = ["node_count", "initial_node_count"].iter().find_map(|name| {
        let value = block.body.get_attribute(name)?;
        Some((*name, line(text, span(value).start)))
    });
    let mut found = Vec::new();
    if let Some((name, at)) = fixed {
        found.push(format!(
            "`{path}:{at}`: the new pool starts with as many nodes as the old one (`{name}`), and both are paid for until \
             the old one is smaller: set what the slices need."
        ));
    }
    found
}
