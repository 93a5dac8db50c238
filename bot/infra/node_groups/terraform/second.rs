//! The text of a second group beside one.

use std::ops::Range;

use slicewright_core::plan::node_group::NodeGroupKind;

use super::group::{Copy, Group, Name};
use super::put;
use crate::infra::hcl::line;
use crate::infra::node_groups::{LONGEST_COPY, Label, second_name};
use crate::infra::text::one_line;

/// A copy of the group under another name, with the label.
pub(super) fn text(
    text: &str,
    n: usize,
    group: &Group<'_>,
    label: &Label<'_>,
    kind: NodeGroupKind,
) -> String {
    let today = match &group.name {
        Name::Literal(name) => name.clone(),
        Name::Prefix(name) => name.trim_end_matches('-').to_owned(),
        Name::Computed(..) => String::new(),
    };
    let name = match kind {
        // AKS takes 12 characters, none of them a dash.
        NodeGroupKind::Aks => second_name(&today, label, 13).replace('-', ""),
        NodeGroupKind::Gke => second_name(&today, label, 40),
        NodeGroupKind::Eks | NodeGroupKind::Karpenter | NodeGroupKind::ClusterApi => {
            second_name(&today, label, 63)
        }
    };
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
        let inside = |place: &Range<usize>| place.start >= group.start && place.end <= group.end;
        let mut places: Vec<(Range<usize>, String)> = Vec::new();
        places.extend(group.name_at.clone().filter(inside).map(|place| (place, format!("\"{name}\""))));
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
        (copy.len() <= LONGEST_COPY).then_some(copy)
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
