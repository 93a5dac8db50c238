//! What a proposal says, as words and numbers in the order of the text. How it looks is the question of the templates.

use std::collections::BTreeMap;

use serde::Serialize;
use slicewright_core::fit::{Holds, Verdict};
use slicewright_core::plan::{
    Alternative, CardUse, Confidence, Item, NodeFate, NodeOutcome, Plan, Risk, RiskLevel, Step,
};
use slicewright_core::policy::Method;
use slicewright_core::review::HOLD_LABEL;
use slicewright_core::units::counted;
use slicewright_core::usage::{Finding, Severity};

use super::escape::{cut, plain, tick};
use super::evidence::{self, Evidence};
use super::picture::{self, Packing};
use super::rows::{self, Row, some_of};
use super::trade_offs::{self, Property};
use super::{ByHand, Dialect, FileChange, Query, View};

/// Rows of the table on the first screen, the one that says "more" included. With 10 the screen has 23 lines.
const FIRST_ROWS: usize = 10;

/// Longest title, in characters: what both forges show in one line of a list.
const LONGEST_TITLE: usize = 72;

/// Everything the templates may use.
#[derive(Debug, Serialize)]
pub(super) struct Page {
    pub(super) request: &'static str,
    pub(super) local: bool,
    /// What starts a command; empty where nobody listens.
    pub(super) trigger: String,
    /// Asks that everything stays as it is.
    pub(super) hold_label: &'static str,
    pub(super) cluster: String,
    pub(super) pool: String,
    pub(super) sentence: String,
    pub(super) draft: Vec<String>,
    pub(super) first_rows: Vec<Row>,
    pub(super) all_rows: Vec<Row>,
    pub(super) more_rows: usize,
    pub(super) gpus: String,
    pub(super) nodes_line: String,
    pub(super) money: String,
    pub(super) risk: String,
    pub(super) confidence: String,
    pub(super) by_hand: Vec<ByHand>,
    pub(super) method: &'static str,
    pub(super) in_short: &'static str,
    pub(super) properties: &'static [Property],
    pub(super) risks: Vec<RiskLine>,
    pub(super) cautions: Vec<String>,
    pub(super) effects: Vec<String>,
    pub(super) overrides: Vec<String>,
    pub(super) alternatives: Vec<AlternativeLine>,
    pub(super) proof_heading: String,
    pub(super) proof: Vec<String>,
    pub(super) rollout: Vec<StepLine>,
    pub(super) rollback: Vec<StepLine>,
    pub(super) side_effects: Vec<String>,
    pub(super) nodes: Vec<NodeLine>,
    /// Cards to scale, as lines of text; empty where none is divided.
    pub(super) layout: String,
    pub(super) evidence: Vec<Evidence>,
    pub(super) queries: Vec<Query>,
    pub(super) kept: Vec<KeptLine>,
    pub(super) data: Vec<[String; 2]>,
    pub(super) findings: Vec<FindingLine>,
    pub(super) files: Vec<FileChange>,
    pub(super) show_diffs: bool,
    pub(super) owners: Vec<String>,
    pub(super) branch: String,
    pub(super) base_branch: String,
    pub(super) fingerprint: String,
    pub(super) as_of: String,
    pub(super) left_out: Vec<&'static str>,
    pub(super) budget: String,
}

/// A risk that fired.
#[derive(Debug, Serialize)]
pub(super) struct RiskLine {
    pub(super) level: &'static str,
    pub(super) rule: String,
    pub(super) text: String,
}

/// Another way, with its numbers.
#[derive(Debug, Serialize)]
pub(super) struct AlternativeLine {
    pub(super) name: String,
    pub(super) cards: String,
    pub(super) reason: String,
}

/// A step; empty texts are not shown.
#[derive(Debug, Serialize)]
pub(super) struct StepLine {
    pub(super) what: String,
    pub(super) commands: String,
    pub(super) wait_for: String,
    pub(super) cost: String,
    pub(super) on_failure: String,
}

/// A node before and after.
#[derive(Debug, Serialize)]
pub(super) struct NodeLine {
    pub(super) name: String,
    pub(super) fate: &'static str,
    pub(super) before: String,
    pub(super) after: String,
    pub(super) restarts: String,
}

/// A workload that stays.
#[derive(Debug, Serialize)]
pub(super) struct KeptLine {
    pub(super) workload: String,
    pub(super) kind: String,
    pub(super) cards: u32,
    pub(super) verdict: &'static str,
    pub(super) why: String,
}

/// Something wrong with the data.
#[derive(Debug, Serialize)]
pub(super) struct FindingLine {
    pub(super) severity: &'static str,
    pub(super) text: String,
    pub(super) advice: String,
}

impl Page {
    /// Gathers what `view` says.
    pub(super) fn new(view: &View<'_>) -> Self {
        let plan = view.plan;
        let all_rows = rows::rows(plan);
        let shown = if all_rows.len() > FIRST_ROWS { FIRST_ROWS - 1 } else { all_rows.len() };
        Self {
            request: view.dialect.request(),
            local: view.dialect == Dialect::Local,
            trigger: view.handle.map(|handle| format!("@{handle}")).unwrap_or_default(),
            hold_label: HOLD_LABEL,
            cluster: plan.pool.cluster.clone(),
            pool: plan.pool.pool.clone(),
            sentence: sentence(plan),
            draft: draft(view),
            first_rows: all_rows[..shown].to_vec(),
            more_rows: all_rows.len() - shown,
            all_rows,
            gpus: gpus(plan),
            nodes_line: nodes_line(plan),
            money: money(plan),
            risk: risk(plan),
            confidence: confidence(plan, view),
            by_hand: view.changes.by_hand.clone(),
            method: plan.method.name(),
            in_short: trade_offs::in_short(plan.method),
            properties: trade_offs::properties(plan.method),
            risks: plan.risks.iter().map(risk_line).collect(),
            cautions: cautions(plan),
            effects: plan.effects.clone(),
            overrides: plan.overrides.clone(),
            alternatives: plan.alternatives.iter().map(alternative).collect(),
            proof_heading: proof_heading(plan),
            proof: plan.proof.sentences.clone(),
            rollout: plan.rollout.iter().map(step).collect(),
            rollback: plan.rollback.iter().map(step).collect(),
            side_effects: view.changes.side_effects.iter().chain(&plan.notes).cloned().collect(),
            nodes: plan.nodes.iter().map(|outcome| node(outcome, plan.method)).collect(),
            layout: picture::diagram(&Packing::of(plan, view.model)),
            evidence: plan
                .items
                .iter()
                .map(|item| evidence::evidence(item, view.profiles.get(&item.fit.workload)))
                .collect(),
            queries: view.queries.to_vec(),
            kept: plan.kept.iter().map(kept).collect(),
            data: data(view),
            findings: view.quality.findings.iter().map(finding).collect(),
            files: view.changes.files.clone(),
            show_diffs: matches!(view.dialect, Dialect::Local | Dialect::Terminal),
            owners: view.changes.owners.iter().map(|owner| tick(owner)).collect(),
            branch: view.branch.to_owned(),
            base_branch: view.base_branch.to_owned(),
            fingerprint: plan.fingerprint.chars().take(12).collect(),
            as_of: as_of(view),
            left_out: Vec::new(),
            budget: slicewright_core::units::thousands(view.dialect.budget() as u64),
        }
    }
}

/// One line without markup, at most 72 characters.
pub(super) fn title(plan: &Plan) -> String {
    let what = match plan.saving.cards_freed {
        0 if plan.items.iter().any(Item::grows) => "Grow slices".to_owned(),
        0 => "Share GPUs".to_owned(),
        n => format!("Free {}", counted(n as usize, "GPU")),
    };
    let most = if plan.saving.cards_of_autoscalers > 0 { " at the autoscalers' maximum" } else { "" };
    let tail = format!("{most} by {}", plan.method.name());
    let head = format!("{what} in {}", plain(&plan.pool.to_string()));
    let head = cut(&head, LONGEST_TITLE - tail.chars().count());
    // Titles are not Markdown, yet both forges link references in them.
    format!("{head}{tail}")
        .replace('@', "@\u{2060}")
        .replace('#', "#\u{2060}")
        .chars()
        .take(LONGEST_TITLE)
        .collect()
}

/// Why the proposal waits for people; empty: it does not.
pub(super) fn draft(view: &View<'_>) -> Vec<String> {
    let mut reasons = Vec::new();
    if !view.changes.by_hand.is_empty() {
        let n = counted(view.changes.by_hand.len(), "change");
        reasons.push(format!("{n} must be made by hand before this is merged, see below"));
    }
    if view.plan.confidence == Confidence::Low {
        reasons.push(format!("confidence is low: {}", view.plan.confidence_reason));
    }
    reasons
}

fn sentence(plan: &Plan) -> String {
    let saving = &plan.saving;
    let what = format!(
        "Move {} of pool {} in cluster {} from {} ({}) to {}",
        counted(plan.items.len(), "workload"),
        tick(&plan.pool.pool),
        tick(&plan.pool.cluster),
        held_today(plan),
        plan.model_name,
        match plan.method {
            Method::Mig => "MIG slices",
            Method::TimeSlicing => "time-sliced cards",
            Method::Mps => "cards shared by MPS",
            Method::KeepWhole => "whole cards",
        }
    );
    let money =
        saving.per_month.as_ref().map_or_else(String::new, |money| format!(", about {money} a month"));
    let most = if saving.cards_of_autoscalers > 0 { " at the autoscalers' maximum" } else { "" };
    format!(
        "{what}: {}{}{most} and {}{money}; {}. Risk: {}. Confidence: {}.",
        grown(plan),
        format_args!("frees {}", counted(saving.cards_freed as usize, "GPU")),
        counted(n_nodes_freed(plan), "node"),
        trade_offs::in_short(plan.method),
        level(worst(plan)),
        confidence_word(plan.confidence),
    )
}

/// What the workloads hold that move.
fn held_today(plan: &Plan) -> &'static str {
    let on_slices = plan.items.iter().filter(|item| item.fit.holds != Holds::Whole).count();
    match on_slices {
        0 => "whole cards",
        n if n == plan.items.len() => "other slices",
        _ => "whole cards and other slices",
    }
}

/// `2 of them run short of memory today; `, or nothing.
fn grown(plan: &Plan) -> String {
    let n = plan.items.iter().filter(|item| item.is_short()).count();
    if n == 0 {
        return String::new();
    }
    format!("{n} of them {} short of memory today; ", if n == 1 { "runs" } else { "run" })
}

fn n_nodes_freed(plan: &Plan) -> usize {
    let fewer = plan.saving.nodes_before.saturating_sub(plan.saving.nodes_after) as usize;
    if plan.saving.nodes_freed.is_empty() { fewer } else { plan.saving.nodes_freed.len() }
}

fn gpus(plan: &Plan) -> String {
    let saving = &plan.saving;
    let (before, after) = (saving.cards_in_use_before, saving.cards_in_use_after);
    if after > before {
        return format!(
            "none: {after} in use then, {before} today, {} in the pool; larger slices need more room",
            saving.cards_before
        );
    }
    if saving.cards_of_autoscalers > 0 {
        let held = before - saving.cards_of_autoscalers;
        return format!(
            "{} when the autoscalers are at their maximum: {before} cards needed as it is, {after} then; pods hold {held} \
             now, so that {} of those are freed at once; {} in the pool",
            saving.cards_freed,
            held.saturating_sub(after),
            saving.cards_before
        );
    }
    format!(
        "{} of {before} that pods hold today; {after} in use then, {} in the pool",
        saving.cards_freed, saving.cards_before
    )
}

fn nodes_line(plan: &Plan) -> String {
    let saving = &plan.saving;
    let names: Vec<&str> = saving.nodes_freed.iter().map(String::as_str).collect();
    let which = if names.is_empty() { String::new() } else { format!(": {}", some_of(&names, 4)) };
    format!("{} of {}{which}", n_nodes_freed(plan), saving.nodes_before)
}

fn money(plan: &Plan) -> String {
    let saving = &plan.saving;
    let sum = match &saving.per_month {
        Some(money) => format!("{money} a month less. Price: {}", saving.price_source),
        None if saving.price_source.is_empty() => {
            "no price is known; set `prices` in the configuration to see what it saves".into()
        }
        None if n_nodes_freed(plan) == 0 => {
            format!("the bill stays the same. Price: {}", saving.price_source)
        }
        None => format!("no sum can be given: {}", saving.price_source),
    };
    let sum = sum.trim_end_matches('.');
    if saving.condition.is_empty() {
        return format!("{sum}.");
    }
    format!("{sum}. For the bill to fall: {}.", saving.condition.trim_end_matches('.'))
}

fn worst(plan: &Plan) -> Option<RiskLevel> {
    plan.risks.iter().map(|risk| risk.level).min()
}

pub(super) fn level(level: Option<RiskLevel>) -> &'static str {
    match level {
        Some(RiskLevel::High) => "high",
        Some(RiskLevel::Medium) => "medium",
        Some(RiskLevel::Low) => "low",
        None => "none named",
    }
}

fn risk(plan: &Plan) -> String {
    let rules: Vec<String> =
        plan.risks.iter().map(|risk| format!("{} ({})", tick(&risk.rule), level(Some(risk.level)))).collect();
    match worst(plan) {
        None => "no rule fired".into(),
        found => format!("{}: {}", level(found), rules.join(", ")),
    }
}

pub(super) fn confidence_word(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::High => "high",
        Confidence::Medium => "medium",
        Confidence::Low => "low",
    }
}

fn confidence(plan: &Plan, view: &View<'_>) -> String {
    let word = confidence_word(plan.confidence);
    format!(
        "{word}: {}; {} of {} days have data",
        plan.confidence_reason, view.quality.days_had, view.quality.days_asked
    )
}

pub(super) fn risk_line(risk: &Risk) -> RiskLine {
    RiskLine { level: level(Some(risk.level)), rule: risk.rule.clone(), text: risk.text.clone() }
}

/// Each caution once, with the workloads that it is about.
fn cautions(plan: &Plan) -> Vec<String> {
    let mut about: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for item in &plan.items {
        for reason in &item.fit.cautions {
            about.entry(reason_words(reason)).or_default().push(item.fit.workload.to_string());
        }
    }
    let line = |(text, ids): (String, Vec<String>)| {
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        format!("{}: {text}", some_of(&ids, 5))
    };
    about.into_iter().map(line).collect()
}

/// A reason with its way out.
pub(super) fn reason_words(reason: &slicewright_core::fit::Reason) -> String {
    match &reason.advice {
        Some(advice) => format!("{}; {advice}", reason.text),
        None => reason.text.clone(),
    }
}

fn alternative(alternative: &Alternative) -> AlternativeLine {
    AlternativeLine {
        name: alternative.name.clone(),
        cards: alternative.n_cards.map_or_else(|| "not possible".into(), |n| n.to_string()),
        reason: alternative.reason.clone(),
    }
}

fn proof_heading(plan: &Plan) -> String {
    let n = counted(plan.proof.n_cards as usize, "card");
    match (plan.proof.proven, plan.proof.n_cards) {
        (true, 1) => format!("Why {n} is the fewest"),
        (true, _) => format!("Why {n} are the fewest"),
        (false, _) => format!("Why {n}; fewer could not be ruled out"),
    }
}

fn step(step: &Step) -> StepLine {
    let own = |text: &Option<String>| text.clone().unwrap_or_default();
    StepLine {
        what: step.what.clone(),
        commands: step.commands.join("\n"),
        wait_for: own(&step.wait_for),
        cost: own(&step.cost),
        on_failure: own(&step.on_failure),
    }
}

fn node(node: &NodeOutcome, method: Method) -> NodeLine {
    let lines = |texts: Vec<String>| if texts.is_empty() { "—".to_owned() } else { texts.join("; ") };
    let cards = |cards: &[CardUse]| lines(cards.iter().map(ToString::to_string).collect());
    NodeLine {
        name: node.name.clone(),
        fate: fate(node.fate, method),
        before: cards(&node.before),
        after: cards(&node.after),
        restarts: lines(node.restarts.clone()),
    }
}

/// What happens to a node, for people.
pub(super) fn fate(fate: NodeFate, method: Method) -> &'static str {
    match fate {
        NodeFate::Touched if method == Method::TimeSlicing => "its cards are shared",
        NodeFate::Touched if method == Method::Mps => "drained, its cards are shared",
        NodeFate::Freed => "freed",
        NodeFate::Touched => "drained, changed, used again",
        NodeFate::Untouched => "as it is",
    }
}

fn kept(kept: &slicewright_core::plan::Kept) -> KeptLine {
    let reasons: Vec<String> = kept.reasons.iter().map(reason_words).collect();
    KeptLine {
        workload: kept.fit.workload.to_string(),
        kind: kept.fit.workload.kind.clone(),
        cards: kept.n_cards,
        verdict: verdict_words(&kept.fit.verdict),
        why: reasons.join("; "),
    }
}

/// The verdict for people.
pub(super) fn verdict_words(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Mig { .. } => "would fit a MIG slice",
        Verdict::TimeSlicing => "could share by time-slicing",
        Verdict::Mps => "could share by MPS",
        Verdict::KeepWhole { .. } => "keeps its whole card",
        Verdict::KeepSlice { .. } => "keeps its slice",
        Verdict::NotEnoughEvidence { .. } => "not enough evidence",
        Verdict::Excluded { .. } => "left alone",
    }
}

fn data(view: &View<'_>) -> Vec<[String; 2]> {
    let quality = view.quality;
    let mut lines = vec![
        ["Window".into(), format!("{} of {} days have GPU samples", quality.days_had, quality.days_asked)],
        ["Cards seen".into(), slicewright_core::units::thousands(u64::from(quality.n_cards))],
        ["Metrics used".into(), ticks(&quality.metrics)],
        ["Metrics missing".into(), ticks(&quality.missing_metrics)],
        ["Node labels from kube-state-metrics".into(), if quality.node_labels { "yes" } else { "no" }.into()],
    ];
    if let Some(seconds) = quality.sample_interval_seconds {
        lines.insert(1, ["One sample every".into(), format!("{seconds} s")]);
    }
    if !quality.pod_label.is_empty() {
        lines.push(["Pods are named by the label".into(), tick(&quality.pod_label)]);
    }
    if quality.n_unattributed_pods > 0 {
        let n = counted(quality.n_unattributed_pods as usize, "pod");
        lines.push([
            "Without a known owner".into(),
            format!("{n}: not sized, and their cards are left alone"),
        ]);
    }
    lines
}

fn ticks(names: &[String]) -> String {
    if names.is_empty() {
        return "none".into();
    }
    names.iter().map(|name| tick(name)).collect::<Vec<_>>().join(", ")
}

fn finding(finding: &Finding) -> FindingLine {
    FindingLine {
        severity: severity(finding.severity),
        text: finding.text.clone(),
        advice: finding.advice.clone(),
    }
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Blocker => "blocker",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

/// The line that changes with every run; its first words are how the body's hash knows it.
fn as_of(view: &View<'_>) -> String {
    let days = view.plan.items.iter().filter_map(|item| view.profiles.get(&item.fit.workload));
    let window = days.map(|profile| profile.window).reduce(|a, b| slicewright_core::usage::Window {
        first: a.first.min(b.first),
        last: a.last.max(b.last),
        ..a
    });
    let span =
        window.map_or_else(String::new, |window| format!(", days {} to {}", window.first, window.last));
    format!(
        "{}{}{span}, by Slicewright {}.",
        slicewright_core::review::metadata::AS_OF,
        view.as_of.strftime("%Y-%m-%d %H:%M UTC"),
        view.version
    )
}
