//! What can stand between a workload and a MIG profile, each with what would have to be otherwise.

use super::evidence::{days_above, largest_peak_for};
use super::{Needs, Question, Reason, milli};
use crate::catalog::{DriverVersion, GpuModel, MigProfile};
use crate::units::{Mib, Ratio};
use crate::usage::WorkloadProfile;

/// One thing that stands in the way.
#[derive(Clone, Debug)]
pub(super) struct Obstacle {
    pub(super) reason: Reason,
    /// `None`: nothing that anybody could change would help.
    pub(super) unless: Option<Unless>,
}

/// What would have to be otherwise.
#[derive(Clone, Debug)]
pub(super) struct Unless {
    /// `the peak were at most 8,106 MiB`.
    pub(super) condition: String,
    /// `it was above on 2 of 30 days`.
    pub(super) fact: Option<String>,
    /// How far the figure is above its limit, in millionths of the limit; 0 where it is a setting, not a figure.
    pub(super) excess_ppm: u64,
}

impl Obstacle {
    /// Nothing that anybody could change would help.
    pub(super) fn firm(reason: Reason) -> Self {
        Self { reason, unless: None }
    }

    /// A setting stands in the way.
    pub(super) fn setting(reason: Reason, condition: impl Into<String>) -> Self {
        let unless = Unless { condition: condition.into(), fact: None, excess_ppm: 0 };
        Self { reason, unless: Some(unless) }
    }
}

/// Lowest usable memory known: the catalog's, or a smaller one seen on real slices of this cluster.
pub(super) fn usable(question: &Question<'_>, candidate: &MigProfile) -> Mib {
    let seen = question.ground.slice_memory.get(&candidate.name.to_string());
    seen.map_or(candidate.memory_min, |seen| candidate.memory_min.min(*seen))
}

/// The peak with headroom does not fit.
pub(super) fn memory(
    question: &Question<'_>,
    needs: &Needs,
    profile: &WorkloadProfile,
    candidate: &MigProfile,
) -> Option<Obstacle> {
    let memory = usable(question, candidate);
    if needs.memory <= memory {
        return None;
    }
    let limit = largest_peak_for(question, memory);
    let days = days_above(profile, limit);
    Some(Obstacle {
        reason: Reason::new(
            "memory-too-small",
            format!("has {memory}, {} are needed (peak {} with headroom)", needs.memory, needs.peak),
        )
        .with_advice(format!("would fit if the peak were at most {limit}; {days}")),
        unless: Some(Unless {
            condition: format!("the peak were at most {limit}"),
            fact: Some(days),
            excess_ppm: excess_ppm(needs.peak.0, limit.0),
        }),
    })
}

/// The pool's oldest driver cannot make it, or not beside all smaller profiles.
pub(super) fn driver(question: &Question<'_>, model: &GpuModel, candidate: &MigProfile) -> Option<Obstacle> {
    let have: DriverVersion = question.ground.driver.as_ref()?.parse().ok()?;
    let need = model.refused_by(&have, candidate)?;
    let text = if candidate.min_driver.as_ref().is_some_and(|min| have < *min) {
        format!("needs driver {need} or newer, the pool has {have}")
    } else {
        format!("drivers before {need} refuse it beside smaller slices, the pool has {have}")
    };
    Some(Obstacle::setting(
        Reason::new("driver-too-old", text).with_advice("update the driver first"),
        format!("the driver were {need} or newer"),
    ))
}

/// It has fewer SMs than are needed, or nobody knows how many it has.
pub(super) fn compute(
    question: &Question<'_>,
    needs: &Needs,
    model: &GpuModel,
    candidate: &MigProfile,
) -> Option<Obstacle> {
    let (Some(sm), Some(total), Some(need)) = (candidate.sm, model.sm_total, needs.compute_milli) else {
        return Some(Obstacle::firm(Reason::new(
            "compute-unknown",
            "the catalog does not know how many SMs it has: it is not offered",
        )));
    };
    if u64::from(need) * u64::from(total) <= 1_000 * u64::from(sm) {
        return None;
    }
    let limit = compute_limit(question, sm, total);
    let measured = question.profile.and_then(|profile| profile.compute);
    let name = measured.map_or("SM_ACTIVE", |compute| compute.source.name());
    Some(Obstacle {
        reason: Reason::new(
            "compute-too-small",
            format!(
                "has {sm} of {total} SMs ({}), {} are needed{}",
                share(sm, total),
                milli(need),
                if needs.compute_is_upper_bound { " at most (upper bound)" } else { "" }
            ),
        )
        .with_advice(format!("would fit if the 99th percentile were at most {limit}")),
        unless: measured.map(|compute| Unless {
            condition: if needs.compute_is_upper_bound {
                format!("SM_ACTIVE were measured and its 99th percentile at most {limit}")
            } else {
                format!("the 99th percentile of {name} were at most {limit}")
            },
            fact: Some(format!("{name} reaches {}", compute.p99)),
            excess_ppm: excess_ppm(compute.p99.ppm().into(), limit.ppm().into()),
        }),
    })
}

/// Its share of the memory bandwidth is too small.
pub(super) fn bandwidth(
    question: &Question<'_>,
    model: &GpuModel,
    profile: &WorkloadProfile,
    candidate: &MigProfile,
) -> Option<Obstacle> {
    let share = Ratio::of(u64::from(candidate.memory_slices), u64::from(model.memory_slices))?;
    let used = profile.bandwidth_p99?;
    let fill = question.policy.bandwidth_fill;
    let limit = u64::from(fill.ppm()) * u64::from(share.ppm()) / 1_000_000;
    let limit = Ratio::from_ppm(u32::try_from(limit).unwrap_or(u32::MAX));
    (used > limit).then(|| Obstacle {
        reason: Reason::new(
            "bandwidth-too-small",
            format!(
                "has {share} of the memory bandwidth, DRAM_ACTIVE reaches {used} (at most {fill} of the slice's share)"
            ),
        ),
        unless: Some(Unless {
            condition: format!("the 99th percentile of DRAM_ACTIVE were at most {limit}"),
            fact: Some(format!("DRAM_ACTIVE reaches {used}")),
            excess_ppm: excess_ppm(used.ppm().into(), limit.ppm().into()),
        }),
    })
}

/// The workload uses media engines and the profile has none.
pub(super) fn media(uses_media: bool, candidate: &MigProfile) -> Option<Obstacle> {
    (uses_media && candidate.decoders() == 0).then(|| {
        Obstacle::firm(Reason::new("no-media-engine", "has no video decoder, and the workload uses one"))
    })
}

/// Kernels wider than the slice take longer on it even when the card is mostly idle.
pub(super) fn latency(profile: &WorkloadProfile, model: &GpuModel, candidate: &MigProfile) -> Option<Reason> {
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

/// `12.9 %` of the card's SMs.
pub(super) fn share(sm: u32, total: u32) -> Ratio {
    Ratio::of(u64::from(sm), u64::from(total)).unwrap_or(Ratio::ZERO)
}

fn compute_limit(question: &Question<'_>, sm: u32, total: u32) -> Ratio {
    let ppm = u64::from(share(sm, total).ppm()) * u64::from(question.policy.compute_fill.ppm()) / 1_000_000;
    Ratio::from_ppm(u32::try_from(ppm).unwrap_or(u32::MAX))
}

fn excess_ppm(figure: u64, limit: u64) -> u64 {
    figure.saturating_sub(limit).saturating_mul(1_000_000) / limit.max(1)
}

/// `a ÷ b` with one decimal, rounded up.
fn tenths(a: u32, b: u32) -> String {
    let tenths = (u64::from(a) * 10).div_ceil(u64::from(b.max(1)));
    format!("{}.{}", tenths / 10, tenths % 10)
}
