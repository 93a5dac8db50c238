//! The file that says the way back: the plan's steps, and labels and resources as they were.
//!
//! Made from the plan, and from patches that the edited repository holds too, so that it gets the same file.

use std::collections::BTreeSet;

use slicewright_core::ids::slug;
use slicewright_core::plan::{Change, Plan, Step};

use super::ManualChange;
use super::draft::Draft;
use super::format::Edition;
use super::frame;
use super::kustomize;
use super::manifest;
use super::node_groups::{Label, NewPool};
use super::nodes::is_node_name;
use super::text::{fenced, one_line, shell};
use super::workload_edit::Wish;

const MIG_LABEL: &str = "nvidia.com/mig.config";

/// Writes `rollback/<pool>.md`.
pub(super) fn write(edition: &Edition<'_>, draft: &mut Draft<'_>) {
    let plan = edition.plan;
    if plan.changes.is_empty() {
        return;
    }
    let text = match text(plan, &made_patches(edition, draft)) {
        Ok(text) => text,
        Err(why) => {
            draft.manual(by_hand(plan, why, String::new()));
            return;
        }
    };
    match draft.new_path(&format!("rollback/{}.md", slug(&plan.pool.pool))) {
        Ok(path) => draft.set(&path, text),
        Err(why) => draft.manual(by_hand(plan, why, text)),
    }
}

fn by_hand(plan: &Plan, why: String, text: String) -> ManualChange {
    ManualChange { what: format!("Keep the way back for pool `{}` somewhere", plan.pool), why, text }
}

/// Lines about patches of Kustomize that the bot made for the plan's workloads, now or before.
fn made_patches(edition: &Edition<'_>, draft: &Draft<'_>) -> Vec<String> {
    let repository = edition.repository;
    let is_made = |path: &str| path.rsplit('/').next().is_some_and(|name| name.starts_with("slicewright-"));
    if !repository.all.keys().any(|path| is_made(path)) && !draft.changed().keys().any(|path| is_made(path)) {
        return Vec::new();
    }
    let findings = manifest::findings(repository);
    let mut lines = BTreeSet::new();
    for (workload, _) in edition.plan.changes.iter().filter_map(Wish::of) {
        let written = edition.written_as(workload);
        let found = findings.iter().find_map(|finding| Some((finding, finding.variant(&written)?)));
        let Some((finding, variant)) = found else { continue };
        for (file, kustomization) in kustomize::own_patches(repository, draft.changed(), finding, variant) {
            lines.insert(format!(
                "{} {workload}: if the change made {file}, remove it and its entry in {kustomization}",
                workload.kind
            ));
        }
    }
    lines.into_iter().collect()
}

fn text(plan: &Plan, made: &[String]) -> Result<String, String> {
    let steps: Vec<minijinja::Value> = plan.rollback.iter().map(step).collect();
    let labels: Vec<String> = plan.changes.iter().flat_map(old_labels).collect();
    let mut groups: Vec<String> = plan.changes.iter().filter_map(old_group).collect();
    groups.extend(plan.changes.iter().filter_map(NewPool::of).map(|new| new.back()));
    let mut resources: Vec<String> = plan.changes.iter().filter_map(old_resource).collect();
    resources.extend_from_slice(made);
    let block = |language: &str, lines: &[String]| {
        if lines.is_empty() { String::new() } else { fenced(language, lines) }
    };
    frame::fill(
        "rollback.md",
        minijinja::context! {
            pool => code(&plan.pool.pool),
            cluster => code(&plan.pool.cluster),
            steps,
            labels => block("sh", &labels),
            groups => block("text", &groups),
            resources => block("text", &resources),
        },
    )
}

fn step(step: &Step) -> minijinja::Value {
    minijinja::context! {
        what => prose(&step.what),
        wait_for => step.wait_for.as_deref().map(prose),
        on_failure => step.on_failure.as_deref().map(prose),
        commands => if step.commands.is_empty() { String::new() } else { fenced("sh", &step.commands) },
    }
}

/// A sentence that opens no code block.
fn prose(text: &str) -> String {
    one_line(text).replace("```", "'''")
}

/// A name between backticks that it cannot close.
fn code(name: &str) -> String {
    format!("`{}`", one_line(name).replace('`', "'"))
}

fn old_labels(change: &Change) -> Vec<String> {
    let Change::LabelNodes { key, value: _, nodes } = change else { return Vec::new() };
    nodes
        .iter()
        .filter(|(node, _)| is_node_name(node))
        .map(|(node, old)| match old {
            Some(old) => {
                format!("kubectl label node {} {} --overwrite", shell(node), shell(&format!("{key}={old}")))
            }
            // Taking the label of the MIG manager away does nothing: the cards stay cut.
            None if key == MIG_LABEL => {
                format!("kubectl label node {} nvidia.com/mig.config=all-disabled --overwrite", shell(node))
            }
            None => format!("kubectl label node {} {}", shell(node), shell(&format!("{key}-"))),
        })
        .collect()
}

/// What a node group's declaration said, and what it must say for the cards to be whole again.
fn old_group(change: &Change) -> Option<String> {
    let Label { key, value, previous, beside, group } = Label::of(change)?;
    let name = group.map_or_else(|| "the node group".to_owned(), ToString::to_string);
    if beside {
        return Some(format!("{name}: without the second group that carries {key}: {value}"));
    }
    Some(match previous {
        Some(old) => format!("{name}: {key}: {old} (after the change {value})"),
        None if key == MIG_LABEL => {
            format!(
                "{name}: {key}: all-disabled (after the change {value}); without the label cards stay cut"
            )
        }
        None => format!("{name}: without {key} (after the change {value})"),
    })
}

fn old_resource(change: &Change) -> Option<String> {
    if let Change::PinWorkload { workload, selector } = change {
        let without: Vec<String> = selector.iter().map(|(key, value)| format!("{key}: {value}")).collect();
        return Some(format!(
            "{} {workload}: without the node selector {}",
            workload.kind,
            without.join(", ")
        ));
    }
    let Change::SetWorkloadResource { workload, from, to, count, pin } = change else { return None };
    let pins: String =
        pin.iter().map(|(key, value)| format!(", without the node selector {key}: {value}")).collect();
    Some(format!("{} {workload}: {from}: {count} (after the change {to}: {count}){pins}", workload.kind))
}
