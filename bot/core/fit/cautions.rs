//! What fits but deserves a word: latency, upper bounds, media engines that were not measured, growth.

use super::obstacle::latency;
use super::{Holds, Question, Reason, Verdict};
use crate::catalog::ProfileName;
use crate::units::Mib;
use crate::usage::WorkloadProfile;

pub(super) fn cautions(question: &Question<'_>, verdict: &Verdict) -> Vec<Reason> {
    let (Some(model), Some(profile)) = (question.model, question.profile) else { return Vec::new() };
    let mut cautions = Vec::new();
    if let Verdict::Mig { profile: name } = verdict {
        let by_name = |name: &str| model.profile(name.parse::<ProfileName>().ok()?);
        let chosen = by_name(name);
        let held = match question.holds() {
            Holds::Whole => None,
            Holds::Slice { profile } => by_name(&profile),
        };
        // A slice with as many SMs as the workload has now takes no longer than that one.
        let no_narrower =
            chosen.zip(held).is_some_and(|(chosen, held)| chosen.compute_slices >= held.compute_slices);
        if !no_narrower {
            cautions.extend(chosen.and_then(|candidate| latency(profile, model, candidate)));
        }
        if question.profile.and_then(|profile| profile.compute).is_some_and(|c| c.source.is_upper_bound()) {
            cautions
                .push(Reason::new("upper-bound", "compute is an upper bound: SM_ACTIVE was not measured"));
        }
        let had_decoder = held.is_none_or(|held| held.decoders() > 0);
        if profile.media_engines_used.is_none()
            && had_decoder
            && chosen.is_some_and(|chosen| chosen.decoders() == 0)
        {
            cautions.push(Reason::new(
                "media-unknown",
                "this slice has no video decoder, and whether the workload uses one was not measured",
            ));
        }
    }
    cautions.extend(growth(profile));
    cautions
}

/// The usual daily peak of the last third of the days is more than a tenth above that of the first third. Medians, so
/// that one busy day is no growth.
fn growth(profile: &WorkloadProfile) -> Option<Reason> {
    let days = &profile.daily_peaks;
    let third = days.len() / 3;
    let usual = |days: &[crate::usage::DayPeak]| {
        let mut peaks: Vec<Mib> = days.iter().map(|day| day.memory).collect();
        peaks.sort_unstable();
        peaks.get(peaks.len() / 2).copied()
    };
    let first = usual(days.get(..third)?)?;
    let last = usual(days.get(days.len() - third..)?)?;
    (last.0 * 10 > first.0 * 11).then(|| {
        Reason::new(
            "growing",
            format!(
                "its usual daily peak grew from {first} to {last} between the first and last {third} days of the window"
            ),
        )
    })
}
