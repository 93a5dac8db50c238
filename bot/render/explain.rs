//! Every candidate, every number and every reason of one workload.

use slicewright_core::fit::{Candidate, FitReport, Verdict};
use slicewright_core::plan::{self, pool::Pool};
use slicewright_core::policy::{self, Policy};
use slicewright_core::usage::WorkloadProfile;

use super::Brief;
use super::evidence::{measured, sparkline, thousandths};
use super::page::{reason_words, verdict_words};
use super::terminal::finish;

/// The text for `slicewright explain`.
pub(super) fn explain(
    report: &FitReport,
    profile: Option<&WorkloadProfile>,
    policy: &Policy,
    pool: Option<&Pool>,
) -> String {
    let mut lines = vec![
        format!("{} ({})", report.workload, report.workload.kind),
        format!("  verdict: {}", verdict(&report.verdict)),
    ];
    for reason in report.verdict.reasons() {
        lines.push(format!("    {}", reason_words(reason)));
    }
    if let Some(counterfactual) = &report.counterfactual {
        lines.push(format!("    otherwise: {}", reason_words(counterfactual)));
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
    values(&mut lines, policy, pool);
    finish(&lines)
}

/// See [`super::brief`].
pub(super) fn brief(report: &FitReport, number: Option<usize>) -> Brief {
    Brief {
        number: number.map_or_else(String::new, |number| number.to_string()),
        workload: report.workload.to_string(),
        verdict: verdict(&report.verdict),
        why: report.verdict.reasons().first().map(|reason| reason_words(reason)).unwrap_or_default(),
    }
}

fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Mig { profile } => format!("MIG slice {profile}"),
        Verdict::TimeSlicing
        | Verdict::Mps
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

/// Every setting with its value and who decided it.
fn values(lines: &mut Vec<String>, policy: &Policy, pool: Option<&Pool>) {
    lines.extend(["".into(), "Policy (who decided)".into()]);
    for setting in policy::SETTINGS {
        let place = policy.decided_by.get(*setting).map(|place| match policy.stands_at.get(*setting) {
            Some(at) => format!("{place}; {at}"),
            None => place.clone(),
        });
        lines.push(value(setting, &policy.shown(setting), place.as_deref()));
    }
    let Some(pool) = pool else { return };
    lines.extend(["".into(), format!("Pool {} (who decided)", pool.id.pool)]);
    for setting in plan::pool::SETTINGS {
        let place = pool.decided_by.get(*setting).map(String::as_str);
        lines.push(value(setting, &pool.shown(setting), place));
    }
}

fn value(setting: &str, value: &str, place: Option<&str>) -> String {
    format!("  {setting}: {value} ({})", place.unwrap_or("default"))
}
