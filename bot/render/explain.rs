//! Every candidate, every number and every reason of one workload.

use slicewright_core::fit::{Candidate, FitReport, Verdict};
use slicewright_core::policy::{ManualEdits, Policy};
use slicewright_core::usage::WorkloadProfile;

use super::evidence::{measured, sparkline, thousandths};
use super::page::{reason_words, verdict_words};
use super::terminal::finish;

/// The text for `slicewright explain`.
pub(super) fn explain(report: &FitReport, profile: Option<&WorkloadProfile>, policy: &Policy) -> String {
    let mut lines = vec![
        format!("{} ({})", report.workload, report.workload.kind),
        format!("  verdict: {}", verdict(&report.verdict)),
    ];
    for reason in report.verdict.reasons() {
        lines.push(format!("    {}", reason_words(reason)));
    }
    for caution in &report.cautions {
        lines.push(format!("    note: {}", reason_words(caution)));
    }
    lines.extend(["".into(), "Measured".into()]);
    match profile {
        Some(profile) => measurements(&mut lines, profile, report),
        None => lines.push("  no sample carries one of its pods".into()),
    }
    if let Some(needs) = &report.needs {
        let compute = needs.compute_milli.map_or_else(
            || "compute: not measured".to_owned(),
            |milli| {
                let bound = if needs.compute_is_upper_bound { ", from an upper bound" } else { "" };
                format!(
                    "compute: {} of the card's SMs (p99 over the fill of {}{bound})",
                    thousandths(milli),
                    policy.compute_fill
                )
            },
        );
        lines.extend([
            "".into(),
            "Needs".into(),
            format!(
                "  memory: {} (the larger of peak + {} % and peak + {})",
                needs.memory, policy.headroom_percent, policy.headroom_min
            ),
            format!("  {compute}"),
        ]);
    }
    let model = report.model.as_deref().unwrap_or("a model that the catalog does not know");
    lines.extend(["".into(), format!("Candidates on {model}, best first")]);
    if report.considered.is_empty() {
        lines.push("  none was weighed".into());
    }
    for candidate in &report.considered {
        weigh(&mut lines, candidate);
    }
    lines.extend(["".into(), "Policy (a value that is not the default names who decided)".into()]);
    values(&mut lines, policy);
    finish(&lines)
}

fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Mig { profile } => format!("MIG slice {profile}"),
        Verdict::TimeSlicing
        | Verdict::KeepWhole { .. }
        | Verdict::KeepSlice { .. }
        | Verdict::NotEnoughEvidence { .. }
        | Verdict::Excluded { .. } => verdict_words(verdict).to_owned(),
    }
}

fn measurements(lines: &mut Vec<String>, profile: &WorkloadProfile, report: &FitReport) {
    lines.push(format!("  on: {}", profile.model_name));
    measured(profile, &mut |what, value| lines.push(format!("  {}: {value}", what.to_lowercase())));
    lines.push(format!("  days asked: {} to {}", profile.window.first, profile.window.last));
    lines.push(format!("  pods seen: {}, samples: {}", profile.pods_seen, profile.samples));
    // The picture needs a line to be measured against: what fits best, else its own peak.
    let best =
        report.considered.iter().find(|candidate| candidate.fits).and_then(|candidate| candidate.memory);
    if let Some(full) = best.or_else(|| profile.peak.as_ref().map(|peak| peak.memory)) {
        let row = sparkline(&profile.daily_peaks, profile.window.first, profile.window.last, full);
        if !row.is_empty() {
            lines.push(format!("  daily peaks: {row} (full height {full})"));
        }
    }
    for gap in &profile.gaps {
        lines.push(format!("  gap: {gap}; {}", gap.advice()));
    }
}

fn weigh(lines: &mut Vec<String>, candidate: &Candidate) {
    let fits = if candidate.fits { "fits" } else { "no" };
    let memory = candidate.memory.map_or_else(String::new, |memory| format!(", {memory}"));
    let sm = candidate.sm.map_or_else(String::new, |sm| format!(", {sm} SMs"));
    lines.push(format!("  {fits:<4}  {} ({}{memory}{sm})", candidate.name, candidate.method.name()));
    lines.extend(candidate.reasons.iter().map(|reason| format!("        {}", reason_words(reason))));
}

fn values(lines: &mut Vec<String>, policy: &Policy) {
    let yes = |value: bool| if value { "yes" } else { "no" }.to_owned();
    let methods: Vec<&str> = policy.methods.iter().map(|method| method.name()).collect();
    let slicing = &policy.time_slicing;
    let values: [(&str, String); 17] = [
        ("production", yes(policy.production)),
        ("exclude", policy.excluded.clone().unwrap_or_else(|| "no".into())),
        ("headroom_percent", format!("{} %", policy.headroom_percent)),
        ("headroom_min_mib", policy.headroom_min.to_string()),
        ("compute_fill", policy.compute_fill.to_string()),
        ("bandwidth_fill", policy.bandwidth_fill.to_string()),
        ("min_history_days", policy.min_history_days.to_string()),
        ("min_coverage", policy.min_coverage.to_string()),
        ("min_runs", policy.min_runs.to_string()),
        ("methods", methods.join(", ")),
        ("min_profile", policy.min_profile.clone().unwrap_or_else(|| "none".into())),
        ("time_slicing_usable_share", slicing.usable_share.to_string()),
        ("time_slicing_compute_limit", slicing.compute_limit.to_string()),
        ("time_slicing_max_replicas", slicing.max_replicas.to_string()),
        ("fail_requests_greater_than_one", yes(slicing.fail_requests_greater_than_one)),
        ("plan_for_hpa_max", yes(policy.plan_for_hpa_max)),
        ("refuse_latency_stretch", yes(policy.refuse_latency_stretch)),
    ];
    let manual = match policy.manual_edits {
        ManualEdits::Deny => "deny",
        ManualEdits::Allow => "allow",
    };
    for (name, value) in values.into_iter().chain([("manual_edits", manual.to_owned())]) {
        let who = policy.decided_by.get(name).map_or_else(String::new, |who| format!("  (decided by {who})"));
        lines.push(format!("  {name}: {value}{who}"));
    }
}
