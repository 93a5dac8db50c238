//! Weighs every MIG profile of the model: memory, SMs, bandwidth, media engines, kernel width.

use super::evidence::{days_above, largest_peak_for};
use super::{Candidate, Needs, Question, Reason, Verdict, milli};
use crate::catalog::{DriverVersion, GpuModel, MigProfile};
use crate::policy::Method;
use crate::units::{Mib, Ratio};
use crate::usage::WorkloadProfile;

/// One candidate a plain profile, smallest first; or one that says why MIG is out of the question.
pub(super) fn candidates(question: &Question<'_>, needs: &Needs, out: &mut Vec<Candidate>) {
    let (Some(model), Some(profile)) = (question.model, question.profile) else { return };
    let refused = if model.profiles.is_empty() {
        Some(Reason::new("cannot-partition", format!("{} cannot be cut by MIG", profile.model_name)))
    } else if !question.policy.allows(Method::Mig) {
        Some(Reason::new("not-allowed", format!("policy does not allow MIG{}", decided(question, "methods"))))
    } else {
        question.ground.mig_refused.clone()
    };
    if let Some(reason) = refused {
        out.push(Candidate {
            method: Method::Mig,
            name: "MIG".into(),
            fits: false,
            reasons: vec![reason],
            memory: None,
            sm: None,
            chain_index: None,
        });
        return;
    }
    let chain = model.plain_profiles();
    let least = match &question.policy.min_profile {
        None => 0,
        // A minimum that this model does not have keeps everything smaller than a card away.
        Some(wanted) => {
            chain.iter().position(|candidate| candidate.name.to_string() == *wanted).unwrap_or(chain.len())
        }
    };
    for (index, candidate) in chain.iter().enumerate() {
        let memory = usable(question, candidate);
        let mut reasons = rejections(question, needs, model, profile, candidate);
        if index < least {
            reasons.push(Reason::new(
                "below-minimum",
                format!(
                    "policy asks for `{}` at least{}",
                    question.policy.min_profile.as_deref().unwrap_or_default(),
                    decided(question, "min_profile")
                ),
            ));
        }
        let fits = reasons.is_empty();
        if fits {
            reasons.push(accepts(needs, model, candidate, memory));
        }
        out.push(Candidate {
            method: Method::Mig,
            name: candidate.name.to_string(),
            fits,
            reasons,
            memory: Some(memory),
            sm: candidate.sm,
            chain_index: Some(index),
        });
    }
}

/// Lowest usable memory known: the catalog's, or a smaller one seen on real slices of this cluster.
fn usable(question: &Question<'_>, candidate: &MigProfile) -> Mib {
    let seen = question.ground.slice_memory.get(&candidate.name.to_string());
    seen.map_or(candidate.memory_min, |seen| candidate.memory_min.min(*seen))
}

fn rejections(
    question: &Question<'_>,
    needs: &Needs,
    model: &GpuModel,
    profile: &WorkloadProfile,
    candidate: &MigProfile,
) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let memory = usable(question, candidate);
    if needs.memory > memory {
        let limit = largest_peak_for(question, memory);
        reasons.push(
            Reason::new(
                "memory-too-small",
                format!("has {memory}, {} are needed (peak {} with headroom)", needs.memory, needs.peak),
            )
            .with_advice(format!(
                "would fit if the peak were at most {limit}; {}",
                days_above(profile, limit)
            )),
        );
    }
    let driver = question.ground.driver.as_ref().and_then(|text| text.parse::<DriverVersion>().ok());
    if let (Some(have), Some(need)) = (driver, &candidate.min_driver)
        && have < *need
    {
        reasons.push(
            Reason::new("driver-too-old", format!("needs driver {need} or newer, the pool has {have}"))
                .with_advice("update the driver first"),
        );
    }
    match (candidate.sm, model.sm_total, needs.compute_milli) {
        (Some(sm), Some(total), Some(need)) => {
            if u64::from(need) * u64::from(total) > 1_000 * u64::from(sm) {
                reasons.push(
                    Reason::new(
                        "compute-too-small",
                        format!(
                            "has {sm} of {total} SMs ({}), {} are needed{}",
                            share(sm, total),
                            milli(need),
                            if needs.compute_is_upper_bound { " at most (upper bound)" } else { "" }
                        ),
                    )
                    .with_advice(format!(
                        "would fit if the 99th percentile were at most {}",
                        compute_limit(question, sm, total)
                    )),
                );
            }
        }
        _ => reasons.push(Reason::new(
            "compute-unknown",
            "the catalog does not know how many SMs it has: it is not offered",
        )),
    }
    let memory_share = Ratio::of(u64::from(candidate.memory_slices), u64::from(model.memory_slices));
    if let (Some(used), Some(memory_share)) = (profile.bandwidth_p99, memory_share) {
        let limit =
            u64::from(question.policy.bandwidth_fill.ppm()) * u64::from(memory_share.ppm()) / 1_000_000;
        if u64::from(used.ppm()) > limit {
            reasons.push(Reason::new(
                "bandwidth-too-small",
                format!(
                    "has {memory_share} of the memory bandwidth, DRAM_ACTIVE reaches {used} (at most {} of the \
                     slice's share)",
                    question.policy.bandwidth_fill
                ),
            ));
        }
    }
    if profile.media_engines_used == Some(true) && decoders(candidate) == 0 {
        reasons.push(Reason::new("no-media-engine", "has no video decoder, and the workload uses one"));
    }
    if question.policy.refuse_latency_stretch
        && let Some(reason) = latency(profile, model, candidate)
    {
        reasons.push(reason);
    }
    reasons
}

fn accepts(needs: &Needs, model: &GpuModel, candidate: &MigProfile, memory: Mib) -> Reason {
    let compute = match (candidate.sm, model.sm_total, needs.compute_milli) {
        (Some(sm), Some(total), Some(need)) => {
            format!(", and {sm} of {total} SMs ({}) for {}", share(sm, total), milli(need))
        }
        _ => String::new(),
    };
    Reason::new(
        "fits",
        format!("has {memory} for {} (peak {} with headroom){compute}", needs.memory, needs.peak),
    )
}

/// Video decoders of a slice; one whose engines are not established counts as none.
fn decoders(candidate: &MigProfile) -> u8 {
    candidate.engines.map_or(0, |engines| engines.decoders)
}

/// Kernels wider than the slice take longer on it even when the card is mostly idle.
fn latency(profile: &WorkloadProfile, model: &GpuModel, candidate: &MigProfile) -> Option<Reason> {
    let (sm, total) = (candidate.sm?, model.sm_total?);
    let Some(width) = profile.kernel_width_p95 else {
        return Some(
            Reason::new(
                "latency-unknown",
                format!(
                    "how wide its kernels are was not measured: on {sm} of {total} SMs a request may take up to {} \
                     times as long",
                    tenths(total, sm)
                ),
            )
            .with_advice("enable `DCGM_FI_PROF_SM_ACTIVE` beside `DCGM_FI_PROF_GR_ENGINE_ACTIVE` to know"),
        );
    };
    let have = Ratio::of(u64::from(sm), u64::from(total))?;
    (width > have).then(|| {
        let stretch = (u64::from(width.ppm()) * 10).div_ceil(u64::from(have.ppm().max(1)));
        Reason::new(
            "latency-stretch",
            format!(
                "its kernels fill {width} of the SMs, the slice has {have}: a request may take up to {}.{} times as \
                 long",
                stretch / 10,
                stretch % 10
            ),
        )
    })
}

/// What fits but deserves a word.
pub(super) fn cautions(question: &Question<'_>, verdict: &Verdict) -> Vec<Reason> {
    let (Some(model), Some(profile)) = (question.model, question.profile) else { return Vec::new() };
    let mut cautions = Vec::new();
    if let Verdict::Mig { profile: name } = verdict {
        let chosen = model.plain_profiles().into_iter().find(|candidate| candidate.name.to_string() == *name);
        cautions.extend(chosen.and_then(|candidate| latency(profile, model, candidate)));
        if question.profile.and_then(|profile| profile.compute).is_some_and(|c| c.source.is_upper_bound()) {
            cautions
                .push(Reason::new("upper-bound", "compute is an upper bound: SM_ACTIVE was not measured"));
        }
        if profile.media_engines_used.is_none() && chosen.is_some_and(|c| decoders(c) == 0) {
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

/// `12.9 %` of the card's SMs.
fn share(sm: u32, total: u32) -> Ratio {
    Ratio::of(u64::from(sm), u64::from(total)).unwrap_or(Ratio::ZERO)
}

fn compute_limit(question: &Question<'_>, sm: u32, total: u32) -> Ratio {
    let ppm = u64::from(share(sm, total).ppm()) * u64::from(question.policy.compute_fill.ppm()) / 1_000_000;
    Ratio::from_ppm(u32::try_from(ppm).unwrap_or(u32::MAX))
}

/// `a ÷ b` with one decimal, rounded up.
fn tenths(a: u32, b: u32) -> String {
    let tenths = (u64::from(a) * 10).div_ceil(u64::from(b.max(1)));
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// ` (service, rule 2)` for a setting that is not the default.
pub(super) fn decided(question: &Question<'_>, setting: &str) -> String {
    question.policy.decided_by.get(setting).map(|place| format!(" ({place})")).unwrap_or_default()
}
