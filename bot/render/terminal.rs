//! One pool's plan, or why there is none, in a few lines without markup.

use std::collections::BTreeSet;

use slicewright_core::fit::Reason;
use slicewright_core::ids::PoolId;
use slicewright_core::plan::{Kept, NodeFate};
use slicewright_core::units::counted;

use super::View;
use super::escape::plain;
use super::page::{confidence_word, level, reason_words, verdict_words};

/// Workloads listed by name; more than a screen of them helps nobody.
const SHOWN: usize = 20;

/// A few lines about one plan.
pub(super) fn terminal(view: &View<'_>) -> String {
    let plan = view.plan;
    let saving = &plan.saving;
    let mut lines = Vec::new();
    let nodes = saving.nodes_freed.len().max(saving.nodes_before.saturating_sub(saving.nodes_after) as usize);
    let money = saving.per_month.as_ref().map_or_else(
        || {
            if plan.saving.nodes_after == plan.saving.nodes_before {
                "the bill stays the same".to_owned()
            } else {
                "no price known".to_owned()
            }
        },
        |money| format!("{money} a month once the nodes are gone"),
    );
    let most = if saving.cards_of_autoscalers > 0 { " at the autoscalers' maximum" } else { "" };
    lines.push(format!(
        "{}: {} for {} on {}; frees {}{most} and {}; {money}",
        plan.pool,
        plan.method.name(),
        counted(plan.items.len(), "workload"),
        plan.model_name,
        counted(saving.cards_freed as usize, "GPU"),
        counted(nodes, "node"),
    ));
    let width = plan.items.iter().map(|item| plain(&item.fit.workload.to_string()).chars().count()).max();
    let width = width.unwrap_or(0).min(48);
    for item in plan.items.iter().take(SHOWN) {
        let id = plain(&item.fit.workload.to_string());
        let needs = item.fit.needs.as_ref().map_or_else(String::new, |needs| {
            let peak = format!("peak {:>10}", needs.peak.to_string());
            if super::rows::shares_memory(item) {
                return peak;
            }
            format!("{peak}, needs {:>10}", needs.memory.to_string())
        });
        lines.push(format!("  {id:<width$}  {needs}  -> {} ({})", item.share, item.share_memory));
    }
    more(&mut lines, plan.items.len());
    for (fate, words) in [(NodeFate::Touched, "changed"), (NodeFate::Freed, "freed")] {
        let names: Vec<&str> =
            plan.nodes.iter().filter(|node| node.fate == fate).map(|node| node.name.as_str()).collect();
        if !names.is_empty() {
            lines.push(format!("  {words}: {}", super::rows::some_of(&names, 8).replace('`', "")));
        }
    }
    let rules: Vec<&str> = plan.risks.iter().map(|risk| risk.rule.as_str()).collect();
    let rules = if rules.is_empty() { String::new() } else { format!(" ({})", rules.join(", ")) };
    let worst = plan.risks.iter().map(|risk| risk.level).min();
    lines.push(format!("  risk: {}{rules}; confidence: {}", level(worst), confidence_word(plan.confidence)));
    for change in &view.changes.by_hand {
        lines.push(format!("  by hand: {} ({})", change.what, change.why));
    }
    for note in view.changes.side_effects.iter().chain(&plan.notes) {
        lines.push(format!("  note: {note}"));
    }
    keep(&mut lines, &plan.kept);
    finish(&lines)
}

/// Why a pool gets no proposal, and the ways out, each once.
pub(super) fn nothing(pool: &PoolId, reasons: &[Reason], kept: &[Kept]) -> String {
    let why: Vec<&str> = reasons.iter().map(|reason| reason.text.as_str()).collect();
    let why = if why.is_empty() { String::new() } else { format!(": {}", why.join("; ")) };
    let mut lines = vec![format!("{pool}: nothing to propose{why}")];
    let advice: BTreeSet<&str> = reasons.iter().filter_map(|reason| reason.advice.as_deref()).collect();
    lines.extend(advice.iter().map(|advice| format!("  way out: {advice}")));
    keep(&mut lines, kept);
    finish(&lines)
}

fn keep(lines: &mut Vec<String>, kept: &[Kept]) {
    for kept in kept.iter().take(SHOWN) {
        let id = &kept.fit.workload;
        lines.push(format!("  {id} ({}): {}", id.kind, verdict_words(&kept.fit.verdict)));
        lines.extend(kept.reasons.iter().map(|reason| format!("    {}", reason_words(reason))));
    }
    more(lines, kept.len());
}

fn more(lines: &mut Vec<String>, n: usize) {
    if n > SHOWN {
        lines.push(format!("  … and {} more", n - SHOWN));
    }
}

/// Lines with their indent kept and everything else that moves a cursor gone.
pub(super) fn finish(lines: &[String]) -> String {
    let mut out = String::new();
    for line in lines {
        let indent = line.len() - line.trim_start_matches(' ').len();
        out.push_str(&line[..indent]);
        out.push_str(&columns(&line[indent..]));
        out.push('\n');
    }
    out
}

/// As [`plain`], with runs of blanks kept: they make the columns.
fn columns(text: &str) -> String {
    let parts: Vec<String> = text.split(' ').map(plain).collect();
    parts.join(" ").trim_end().to_owned()
}
