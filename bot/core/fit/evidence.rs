//! Whether enough is known to say anything, and what a slice must offer if so.

use super::{FitReport, Holds, Needs, Question, Reason, Verdict};
use crate::catalog::ProfileName;
use crate::units::{Mib, Ratio, thousands};
use crate::usage::{DataGap, WorkloadProfile};

/// A process that runs on a GPU holds a context of at least this; the smallest measured took some 200 MiB
/// (pytorch/pytorch#28113). Doubled, small idle notebooks would count as broken readings.
pub(super) const CONTEXT_FLOOR: Mib = Mib(64);

/// The needs to weigh candidates against, or the report that ends the matter here.
pub(super) fn gate(question: &Question<'_>) -> Result<Needs, Box<FitReport>> {
    let end = |verdict: Verdict| {
        Box::new(FitReport {
            workload: question.workload.id.clone(),
            model: question.model.map(|model| model.id.clone()),
            holds: question.holds(),
            verdict,
            needs: needs(question).filter(|needs| needs.peak > Mib(0)),
            considered: Vec::new(),
            cautions: Vec::new(),
            counterfactual: None,
        })
    };
    if let Some(reason) = excluded(question) {
        return Err(end(Verdict::Excluded { reason }));
    }
    if let Some(reason) = keeps_regardless(question) {
        return Err(end(match question.holds() {
            Holds::Whole => Verdict::KeepWhole { reason },
            Holds::Slice { profile } => Verdict::KeepSlice { profile, reason },
        }));
    }
    let reasons = missing(question);
    match needs(question) {
        Some(needs) if reasons.is_empty() => Ok(needs),
        _ => Err(end(Verdict::NotEnoughEvidence { reasons })),
    }
}

fn excluded(question: &Question<'_>) -> Option<Reason> {
    if let Some(by) = &question.policy.excluded {
        return Some(Reason::new("excluded", by.clone()));
    }
    question.declared.filter(|declared| declared.ignored).map(|declared| {
        Reason::new(
            "opted-out",
            format!("its owner opted out with `slicewright/ignore: \"true\"` ({})", declared.place),
        )
    })
}

/// Facts that leave it what it has whatever was measured.
fn keeps_regardless(question: &Question<'_>) -> Option<Reason> {
    let workload = question.workload;
    let holds = question.holds();
    let gpus = question.profile.map_or(0, |profile| profile.gpus_per_pod).max(workload.gpus_per_pod);
    if gpus > 1 {
        let what = if holds == Holds::Whole { "GPUs" } else { "slices" };
        return Some(Reason::new(
            "several-gpus",
            format!(
                "each pod holds {gpus} {what}: a process sees one MIG slice at most, and slices have no P2P"
            ),
        ));
    }
    // Under the strategy `single` a slice is asked for as a whole GPU.
    let asks_for_slice = ProfileName::from_resource(&workload.resource).is_some();
    if workload.resource != "nvidia.com/gpu" && !(asks_for_slice && holds != Holds::Whole) {
        return Some(Reason::new(
            "already-shared",
            format!(
                "asks for `{}`: it does not hold a whole {}",
                workload.resource,
                if holds == Holds::Whole { "card" } else { "slice" }
            ),
        ));
    }
    for gap in question.profile.map_or(&[][..], |profile| &profile.gaps) {
        match gap {
            DataGap::SharedCard { .. } | DataGap::ReservationPod => {
                return Some(Reason::new("already-shared", gap.to_string()).with_advice(gap.advice()));
            }
            DataGap::DraManaged => {
                return Some(Reason::new("dra-managed", gap.to_string()).with_advice(gap.advice()));
            }
            DataGap::NoSamples
            | DataGap::ImpossibleReading { .. }
            | DataGap::ZeroPerProcess
            | DataGap::IncompleteAnswer { .. }
            | DataGap::NoComputeMetric
            | DataGap::SeveralModels { .. }
            | DataGap::WholeCardReadings => {}
        }
    }
    workload
        .pods
        .is_empty()
        .then(|| Reason::new("not-running", "no pod of it holds a GPU now: there is no card to free"))
}

/// Everything that is missing, each with its way out.
fn missing(question: &Question<'_>) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let Some(profile) = question.profile else {
        let gap = DataGap::NoSamples;
        return vec![Reason::new("no-samples", gap.to_string()).with_advice(gap.advice())];
    };
    if question.model.is_none() {
        reasons.push(
            Reason::new(
                "unknown-model",
                format!("the card model `{}` is not in the catalog", profile.model_name),
            )
            .with_advice(
                "add it under `catalog:` in the configuration; `slicewright catalog list` shows all known",
            ),
        );
    }
    for gap in &profile.gaps {
        reasons.push(Reason::new(gap_code(gap), gap.to_string()).with_advice(gap.advice()));
    }
    reasons.extend(history(question, profile));
    if let Some(reservation) = &profile.reservation {
        reasons.push(
            Reason::new(
                "memory-reserved",
                format!(
                    "holds {} of the card as a plateau ({}): that is a setting{}, not what it needs",
                    reservation.share_of_card,
                    reservation.evidence,
                    reservation.framework.as_ref().map(|name| format!(" of {name}")).unwrap_or_default(),
                ),
            )
            .with_advice(experiment(reservation.framework.as_deref())),
        );
    }
    if profile.peak.is_none() && reasons.is_empty() {
        let gap = DataGap::NoSamples;
        reasons.push(Reason::new("no-samples", gap.to_string()).with_advice(gap.advice()));
    }
    // A slice reads a few MiB when nothing runs on it, and its compute is not measured on it.
    let whole = question.holds() == Holds::Whole;
    if let Some(peak) = &profile.peak
        && whole
        && peak.memory < CONTEXT_FLOOR
        && (peak.memory == Mib(0) || profile.compute.is_some_and(|compute| compute.p99 > Ratio::ZERO))
    {
        reasons.push(
            Reason::new(
                "memory-reads-nothing",
                format!("its memory never reads more than {}, less than a CUDA context takes", peak.memory),
            )
            .with_advice("the exporter's memory reading is broken: look at its log, and at `hostPID` if it is per process"),
        );
    }
    if whole && profile.compute.is_none() && !profile.gaps.contains(&DataGap::NoComputeMetric) {
        let gap = DataGap::NoComputeMetric;
        reasons.push(Reason::new(gap_code(&gap), gap.to_string()).with_advice(gap.advice()));
    }
    reasons
}

fn history(question: &Question<'_>, profile: &WorkloadProfile) -> Vec<Reason> {
    let policy = question.policy;
    let mut reasons = Vec::new();
    if question.workload.is_batch() {
        if profile.complete_runs < policy.min_runs {
            reasons.push(
                Reason::new(
                    "too-few-runs",
                    format!(
                        "{} complete runs were seen, {} are asked for",
                        profile.complete_runs, policy.min_runs
                    ),
                )
                .with_advice("wait for more runs, or set `min_runs` for it"),
            );
        }
    } else if profile.history_days < policy.min_history_days {
        reasons.push(
            Reason::new(
                "short-history",
                format!(
                    "{} days of samples, {} are asked for",
                    profile.history_days, policy.min_history_days
                ),
            )
            .with_advice(if profile.window.had_days < policy.min_history_days {
                "Prometheus keeps too little: raise its retention, or set `min_history_days` lower"
            } else {
                "wait, or set `min_history_days` for it"
            }),
        );
    }
    match profile.coverage {
        Some(coverage) if coverage < policy.min_coverage => reasons.push(
            Reason::new(
                "low-coverage",
                format!(
                    "{coverage} of the expected samples are there, {} are asked for",
                    policy.min_coverage
                ),
            )
            .with_advice("look for scrape gaps and for pods without labels: `slicewright doctor`"),
        ),
        None if profile.peak.is_some() => reasons.push(
            Reason::new("unknown-coverage", "the share of samples that arrived is not known")
                .with_advice("kube-state-metrics must be scraped over the whole window"),
        ),
        Some(_) | None => {}
    }
    reasons
}

fn gap_code(gap: &DataGap) -> &'static str {
    match gap {
        DataGap::NoSamples => "no-samples",
        DataGap::SharedCard { .. } => "shared-card",
        DataGap::ImpossibleReading { .. } => "impossible-reading",
        DataGap::ZeroPerProcess => "zero-per-process",
        DataGap::IncompleteAnswer { .. } => "incomplete-answer",
        DataGap::NoComputeMetric => "no-compute-metric",
        DataGap::SeveralModels { .. } => "several-models",
        DataGap::DraManaged => "dra-managed",
        DataGap::ReservationPod => "reservation-pod",
        DataGap::WholeCardReadings => "whole-card-readings",
    }
}

/// What to change to find out what a greedy framework really needs.
fn experiment(framework: Option<&str>) -> String {
    let how = match framework {
        Some("vLLM") => {
            "experiment: set `--gpu-memory-utilization` of one replica to a lower value (half of today's), keep it a \
             week of normal load, and watch `vllm:kv_cache_usage_perc` (stays under 0.9) and \
             `vllm:num_requests_waiting` (stays 0)"
        }
        Some("SGLang") => {
            "experiment: lower `--mem-fraction-static` on one replica for a week and watch `sglang:token_usage`"
        }
        Some("TGI") => {
            "experiment: lower `--cuda-memory-fraction` on one replica for a week and watch its queue"
        }
        Some("JAX") => {
            "experiment: set `XLA_PYTHON_CLIENT_PREALLOCATE=false` on one replica for a week and measure again"
        }
        Some("TensorFlow") => {
            "experiment: set `TF_FORCE_GPU_ALLOW_GROWTH=true` on one replica for a week and measure again"
        }
        Some(_) | None => {
            "experiment: let one replica grow on demand instead of reserving (`--gpu-memory-utilization` of vLLM, \
             `XLA_PYTHON_CLIENT_PREALLOCATE=false` of JAX, `TF_FORCE_GPU_ALLOW_GROWTH=true` of TensorFlow) for a \
             week and measure again"
        }
    };
    how.to_owned()
}

/// What a slice must offer, as far as it was measured.
fn needs(question: &Question<'_>) -> Option<Needs> {
    let profile = question.profile?;
    let peak = profile.peak.as_ref()?.memory;
    Some(Needs {
        peak,
        memory: question.policy.memory_need(peak),
        compute_milli: profile.compute.map(|compute| question.policy.compute_need_milli(compute.p99)),
        compute_is_upper_bound: profile.compute.is_some_and(|compute| compute.source.is_upper_bound()),
    })
}

/// `4,863 MiB` and the largest peak that would fit it: for the sentence "fits if the peak were at most …".
pub(super) fn largest_peak_for(question: &Question<'_>, memory: Mib) -> Mib {
    let policy = question.policy;
    let by_percent = memory.0 * 100 / (100 + u64::from(policy.headroom_percent));
    Mib(by_percent.min(memory.0.saturating_sub(policy.headroom_min.0)))
}

/// `it was above on 2 of 30 days`.
pub(super) fn days_above(profile: &WorkloadProfile, limit: Mib) -> String {
    let above = profile.daily_peaks.iter().filter(|day| day.memory > limit).count();
    format!("it was above on {} of {} days", thousands(above as u64), profile.daily_peaks.len())
}
