//! The result of a run as JSON: a document of its own, so that the program's inner types may change without it.
//!
//! `slicewright schema` prints the JSON Schema. Fields are added within a version; a removed or changed field makes a
//! new one.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use slicewright_core::fit::{Candidate, FitReport, Holds, Reason, Verdict};
use slicewright_core::plan::{Kept, NodeFate, NodeOutcome, Outcome, Plan, Step};
use slicewright_core::units::Money;
use slicewright_core::usage::{DataQuality, WorkloadProfile};

use crate::engine::VERSION;
use crate::engine::orphans::Orphan;
use crate::engine::propose::{ClusterReport, PoolReport, Report};

/// Version of the document.
const SCHEMA: &str = "slicewright.report/v1";

/// The result of one run.
#[derive(Serialize, JsonSchema)]
struct Document {
    /// `slicewright.report/v1`.
    schema: &'static str,
    /// Version of the program.
    version: &'static str,
    /// Nothing was written.
    dry_run: bool,
    /// One entry a cluster.
    clusters: Vec<JsonCluster>,
    /// Repositories in which nothing is proposed before their people said so.
    waiting: Vec<JsonWaiting>,
    /// Branches that belong to no pool that is configured or measured: nothing there is updated or withdrawn. Of
    /// repositories that were looked at as a whole.
    orphans: Vec<JsonOrphan>,
}

/// A branch of no pool.
#[derive(Serialize, JsonSchema)]
struct JsonOrphan {
    /// Clusters that its repository describes.
    clusters: Vec<String>,
    /// Its name.
    branch: String,
    /// What is the case, in a sentence.
    problem: String,
    /// What to do about it.
    advice: String,
}

/// A repository whose people are asked first.
#[derive(Serialize, JsonSchema)]
struct JsonWaiting {
    /// Where it is.
    repository: String,
    /// Branch of the merge request that asks.
    branch: String,
    /// As for pools.
    action: String,
    /// Why that.
    action_reason: String,
    /// Where a person finds it.
    url: Option<String>,
}

/// One cluster.
#[derive(Serialize, JsonSchema)]
struct JsonCluster {
    /// Name.
    name: String,
    /// Moment that was looked at, RFC 3339.
    as_of: String,
    /// Commit of the repository that was read.
    commit: String,
    /// What the metrics have and lack.
    data_quality: JsonQuality,
    /// One entry a pool.
    pools: Vec<JsonPool>,
    /// Workloads that hold no card now.
    not_running: Vec<JsonFit>,
}

/// What the metrics have and lack.
#[derive(Serialize, JsonSchema)]
struct JsonQuality {
    /// Days asked for.
    days_asked: u32,
    /// Days with any GPU sample.
    days_had: u32,
    /// Cards seen.
    cards: u32,
    /// Pods with GPU samples but no known owner.
    unattributed_pods: u32,
    /// Findings: `code: text`.
    findings: Vec<String>,
}

/// One pool.
#[derive(Serialize, JsonSchema)]
struct JsonPool {
    /// Name.
    name: String,
    /// Branch of its proposal.
    branch: String,
    /// `open`, `update`, `leave`, `warn`, `withdraw`, `stop-edited`, `record-merged` or `record-declined`.
    action: String,
    /// Why that.
    action_reason: String,
    /// Where a person finds the merge request.
    url: Option<String>,
    /// What is proposed; absent when there is nothing to do.
    proposal: Option<JsonProposal>,
    /// Why nothing is proposed, for the pool as a whole.
    reasons: Vec<JsonReason>,
    /// Workloads that stay as they are.
    kept: Vec<JsonKept>,
}

/// What is proposed for a pool.
#[derive(Serialize, JsonSchema)]
struct JsonProposal {
    /// Title of the merge request.
    title: String,
    /// Its text in Markdown.
    body: String,
    /// It waits for people.
    draft: bool,
    /// Hash of what changes, without the noise of metrics.
    fingerprint: String,
    /// `MIG` or `time-slicing`.
    method: String,
    /// Catalog id of the cards.
    model: String,
    /// `high`, `medium` or `low`.
    confidence: String,
    /// Whole cards in use today.
    gpus_in_use_before: u32,
    /// Whole cards in use then.
    gpus_in_use_after: u32,
    /// The difference.
    gpus_freed: u32,
    /// Nodes that may go, by name.
    nodes_freed: Vec<String>,
    /// Nodes of the pool today.
    nodes_before: u32,
    /// Nodes of the pool then.
    nodes_after: u32,
    /// What the bill loses a month; absent when no price is known or no node goes.
    saved_per_month: Option<JsonMoney>,
    /// Where the price comes from.
    price_source: String,
    /// What has to happen for the bill to fall.
    condition: String,
    /// Why fewer cards are impossible.
    proof: Vec<String>,
    /// The proof is complete.
    proven: bool,
    /// Workloads that move to a share of a card.
    items: Vec<JsonItem>,
    /// Nodes of the pool.
    nodes: Vec<JsonNode>,
    /// Changed files: path to unified diff.
    files: BTreeMap<String, Option<String>>,
    /// Changes to make by hand, as `what: why`.
    by_hand: Vec<String>,
    /// What else the change touches.
    side_effects: Vec<String>,
    /// What a reviewer should know of the plan: nodes that were left out, and why.
    notes: Vec<String>,
    /// Rules of the pool and settings of moving workloads that are not the default, with who decided.
    overrides: Vec<String>,
    /// Other ways that were weighed, and why they lost.
    alternatives: Vec<JsonAlternative>,
    /// Named risks, worst first.
    risks: Vec<JsonRisk>,
    /// Steps in order.
    rollout: Vec<JsonStep>,
    /// The way back.
    rollback: Vec<JsonStep>,
}

/// Another way.
#[derive(Serialize, JsonSchema)]
struct JsonAlternative {
    /// `time-slicing`, `MIG`, `nothing`.
    name: String,
    /// Cards it would need; absent when it is not possible.
    gpus: Option<u32>,
    /// Why it lost.
    reason: String,
}

/// A workload that moves.
#[derive(Serialize, JsonSchema)]
struct JsonItem {
    /// How it was weighed.
    #[serde(flatten)]
    fit: JsonFit,
    /// `2g.10gb`, or `1 of 4 time slices`.
    share: String,
    /// Replicas planned for.
    replicas: u32,
    /// Nodes today.
    nodes_before: Vec<String>,
    /// Nodes then.
    nodes_after: Vec<String>,
    /// `path:line` in the repository.
    place: Option<String>,
}

/// A workload that stays.
#[derive(Serialize, JsonSchema)]
struct JsonKept {
    /// How it was weighed.
    #[serde(flatten)]
    fit: JsonFit,
    /// Why it stays.
    reasons: Vec<JsonReason>,
    /// Whole cards that it holds.
    gpus: u32,
}

/// How one workload was weighed.
#[derive(Serialize, JsonSchema)]
struct JsonFit {
    /// `namespace/name`.
    workload: String,
    /// Kind of the owner.
    kind: String,
    /// `mig`, `time-slicing`, `mps`, `keep`, `keep-slice`, `no-evidence` or `excluded`.
    verdict: String,
    /// The MIG profile of the verdicts `mig` and `keep-slice`, `2g.10gb`.
    profile: Option<String>,
    /// The MIG profile that its pods hold today. Absent: whole cards.
    holds: Option<String>,
    /// Catalog id of the cards it runs on.
    model: Option<String>,
    /// Highest memory measured, MiB.
    peak_mib: Option<u64>,
    /// Memory that a slice must offer, MiB.
    need_mib: Option<u64>,
    /// Compute that a slice must offer, thousandths of the card's SMs.
    need_compute_milli: Option<u32>,
    /// Days with samples.
    history_days: Option<u32>,
    /// Samples had over samples expected, 0 to 1.
    coverage: Option<f64>,
    /// It fits, and these deserve a word.
    cautions: Vec<JsonReason>,
    /// What would have to be otherwise for it to get less.
    counterfactual: Option<JsonReason>,
    /// Everything that was weighed, best first.
    candidates: Vec<JsonCandidate>,
}

/// One way that was weighed.
#[derive(Serialize, JsonSchema)]
struct JsonCandidate {
    /// `MIG`, `time-slicing`, `MPS` or `keep whole`.
    method: String,
    /// `2g.10gb`.
    name: String,
    /// It would do.
    fits: bool,
    /// Why, or why not.
    reasons: Vec<JsonReason>,
}

/// A reason.
#[derive(Serialize, JsonSchema)]
struct JsonReason {
    /// Stable name.
    code: String,
    /// The sentence.
    text: String,
    /// What would change it.
    advice: Option<String>,
}

/// A node.
#[derive(Serialize, JsonSchema)]
struct JsonNode {
    /// Name.
    name: String,
    /// `freed`, `touched` or `untouched`.
    fate: String,
    /// One text a card, today.
    before: Vec<String>,
    /// One text a card, then.
    after: Vec<String>,
    /// Pods that restart.
    restarts: Vec<String>,
}

/// A named risk.
#[derive(Serialize, JsonSchema)]
struct JsonRisk {
    /// Stable name of the rule.
    rule: String,
    /// `high`, `medium` or `low`.
    level: String,
    /// The sentence.
    text: String,
}

/// One step.
#[derive(Serialize, JsonSchema)]
struct JsonStep {
    /// What happens.
    what: String,
    /// Commands.
    commands: Vec<String>,
    /// What must be true before the next.
    wait_for: Option<String>,
    /// How long, and what is down.
    cost: Option<String>,
    /// What to do when it fails.
    on_failure: Option<String>,
}

/// Money.
#[derive(Serialize, JsonSchema)]
struct JsonMoney {
    /// Millionths of the currency's unit.
    micros: i64,
    /// ISO 4217 code.
    currency: String,
}

/// The JSON Schema of the document.
pub(super) fn schema() -> String {
    let schema = schemars::schema_for!(Document);
    serde_json::to_string_pretty(&schema).unwrap_or_default()
}

/// The document.
pub(super) fn report(report: &Report, dry_run: bool) -> anyhow::Result<String> {
    let document = Document {
        schema: SCHEMA,
        version: VERSION,
        dry_run,
        clusters: report.clusters.iter().map(cluster).collect(),
        waiting: (report.waiting.iter())
            .map(|waiting| JsonWaiting {
                repository: waiting.repository.clone(),
                branch: waiting.branch.clone(),
                action: waiting.action.code().to_owned(),
                action_reason: waiting.action.reason().to_owned(),
                url: waiting.url.clone(),
            })
            .collect(),
        orphans: (report.orphans.iter())
            .map(|orphan| JsonOrphan {
                clusters: orphan.clusters.clone(),
                branch: orphan.branch.clone(),
                problem: orphan.problem(),
                advice: Orphan::ADVICE.to_owned(),
            })
            .collect(),
    };
    Ok(serde_json::to_string_pretty(&document)?)
}

fn cluster(cluster: &ClusterReport) -> JsonCluster {
    let analysis = &cluster.analysis;
    JsonCluster {
        name: analysis.cluster.clone(),
        as_of: analysis.at.to_string(),
        commit: analysis.snapshot.commit.clone(),
        data_quality: quality(&analysis.measured.data_quality),
        pools: cluster.pools.iter().map(|report| pool(cluster, report)).collect(),
        not_running: analysis
            .elsewhere
            .iter()
            .map(|report| fit(report, analysis.measured.profiles.get(&report.workload)))
            .collect(),
    }
}

fn quality(quality: &DataQuality) -> JsonQuality {
    JsonQuality {
        days_asked: quality.days_asked,
        days_had: quality.days_had,
        cards: quality.n_cards,
        unattributed_pods: quality.n_unattributed_pods,
        findings: quality.findings.iter().map(|f| format!("{}: {}", f.code, f.text)).collect(),
    }
}

fn pool(cluster: &ClusterReport, report: &PoolReport) -> JsonPool {
    let analysis = &cluster.analysis;
    let outcome = analysis
        .pools
        .iter()
        .zip(&analysis.outcomes)
        .find(|(pool, _)| pool.id == report.pool)
        .map(|(_, o)| o);
    let (reasons, all_kept): (&[Reason], &[Kept]) = match outcome {
        Some(Outcome::Nothing(nothing)) => (&nothing.reasons, &nothing.kept),
        Some(Outcome::Plan(plan)) => (&[], &plan.kept),
        None => (&[], &[]),
    };
    JsonPool {
        name: report.pool.pool.clone(),
        branch: report.branch.clone(),
        action: report.action.code().to_owned(),
        action_reason: report.action.reason().to_owned(),
        url: report.url.clone(),
        proposal: match outcome {
            Some(Outcome::Plan(plan)) => {
                report.proposal.as_ref().map(|text| proposal(plan, text, &analysis.measured.profiles))
            }
            Some(Outcome::Nothing(_)) | None => None,
        },
        reasons: reasons.iter().map(reason).collect(),
        kept: all_kept
            .iter()
            .map(|kept| JsonKept {
                fit: fit(&kept.fit, analysis.measured.profiles.get(&kept.fit.workload)),
                reasons: kept.reasons.iter().map(reason).collect(),
                gpus: kept.n_cards,
            })
            .collect(),
    }
}

fn proposal(
    plan: &Plan,
    text: &crate::engine::proposal::Proposal,
    profiles: &BTreeMap<slicewright_core::ids::WorkloadId, WorkloadProfile>,
) -> JsonProposal {
    let saving = &plan.saving;
    JsonProposal {
        title: text.title.clone(),
        body: text.body.clone(),
        draft: text.draft,
        fingerprint: plan.fingerprint.clone(),
        method: plan.method.name().to_owned(),
        model: plan.model.clone(),
        confidence: lower(&plan.confidence),
        gpus_in_use_before: saving.cards_in_use_before,
        gpus_in_use_after: saving.cards_in_use_after,
        gpus_freed: saving.cards_freed,
        nodes_freed: saving.nodes_freed.clone(),
        nodes_before: saving.nodes_before,
        nodes_after: saving.nodes_after,
        saved_per_month: saving.per_month.as_ref().map(money),
        price_source: saving.price_source.clone(),
        condition: saving.condition.clone(),
        proof: plan.proof.sentences.clone(),
        proven: plan.proof.proven,
        items: plan
            .items
            .iter()
            .map(|item| JsonItem {
                fit: fit(&item.fit, profiles.get(&item.fit.workload)),
                share: item.share.clone(),
                replicas: item.replicas,
                nodes_before: item.nodes_before.clone(),
                nodes_after: item.nodes_after.clone(),
                place: item.place.clone(),
            })
            .collect(),
        nodes: plan.nodes.iter().map(node).collect(),
        files: text.summary.files.iter().map(|file| (file.path.clone(), file.diff.clone())).collect(),
        by_hand: text.summary.by_hand.iter().map(|m| format!("{}: {}", m.what, m.why)).collect(),
        side_effects: text.summary.side_effects.clone(),
        notes: plan.notes.clone(),
        overrides: plan.overrides.clone(),
        alternatives: plan
            .alternatives
            .iter()
            .map(|way| JsonAlternative {
                name: way.name.clone(),
                gpus: way.n_cards,
                reason: way.reason.clone(),
            })
            .collect(),
        risks: plan
            .risks
            .iter()
            .map(|risk| JsonRisk {
                rule: risk.rule.clone(),
                level: lower(&risk.level),
                text: risk.text.clone(),
            })
            .collect(),
        rollout: plan.rollout.iter().map(step).collect(),
        rollback: plan.rollback.iter().map(step).collect(),
    }
}

/// An enum's name in lower case: `High` is `high`.
fn lower(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}

fn node(node: &NodeOutcome) -> JsonNode {
    JsonNode {
        name: node.name.clone(),
        fate: match node.fate {
            NodeFate::Freed => "freed",
            NodeFate::Touched => "touched",
            NodeFate::Untouched => "untouched",
        }
        .to_owned(),
        before: node.before.iter().map(ToString::to_string).collect(),
        after: node.after.iter().map(ToString::to_string).collect(),
        restarts: node.restarts.clone(),
    }
}

fn fit(report: &FitReport, profile: Option<&WorkloadProfile>) -> JsonFit {
    JsonFit {
        workload: report.workload.to_string(),
        kind: report.workload.kind.clone(),
        verdict: report.verdict.code().to_owned(),
        profile: match &report.verdict {
            Verdict::Mig { profile } | Verdict::KeepSlice { profile, .. } => Some(profile.clone()),
            Verdict::TimeSlicing
            | Verdict::Mps
            | Verdict::KeepWhole { .. }
            | Verdict::NotEnoughEvidence { .. }
            | Verdict::Excluded { .. } => None,
        },
        holds: match &report.holds {
            Holds::Whole => None,
            Holds::Slice { profile } => Some(profile.clone()),
        },
        model: report.model.clone(),
        peak_mib: profile.and_then(|profile| profile.peak.as_ref()).map(|peak| peak.memory.0),
        need_mib: report.needs.as_ref().map(|needs| needs.memory.0),
        need_compute_milli: report.needs.as_ref().and_then(|needs| needs.compute_milli),
        history_days: profile.map(|profile| profile.history_days),
        coverage: profile.and_then(|profile| profile.coverage).map(slicewright_core::units::Ratio::as_f64),
        cautions: report.cautions.iter().map(reason).collect(),
        counterfactual: report.counterfactual.as_ref().map(reason),
        candidates: report.considered.iter().map(candidate).collect(),
    }
}

fn candidate(candidate: &Candidate) -> JsonCandidate {
    JsonCandidate {
        method: candidate.method.name().to_owned(),
        name: candidate.name.clone(),
        fits: candidate.fits,
        reasons: candidate.reasons.iter().map(reason).collect(),
    }
}

fn reason(reason: &Reason) -> JsonReason {
    JsonReason { code: reason.code.clone(), text: reason.text.clone(), advice: reason.advice.clone() }
}

fn step(step: &Step) -> JsonStep {
    JsonStep {
        what: step.what.clone(),
        commands: step.commands.clone(),
        wait_for: step.wait_for.clone(),
        cost: step.cost.clone(),
        on_failure: step.on_failure.clone(),
    }
}

fn money(money: &Money) -> JsonMoney {
    JsonMoney { micros: money.micros, currency: money.currency.clone() }
}
