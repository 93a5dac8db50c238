//! Re-judges a workload that holds a MIG slice: right, too small, far too large, unused.
//!
//! Memory decides. Compute does where it was measured on whole cards: profiling counters of slices are scaled by the
//! smallest instance of a mixed card and can read above one (NVIDIA/DCGM#138, #152), so that nothing is sized by them.
//!
//! A change costs a restart, so that each has to be worth it. A slice is too small once less than half of the wanted
//! headroom is left. It is far too large when a profile of at most half its size (half the memory slices; or the same
//! memory with half the compute slices) would do with a tenth to spare. The new profile then is the smallest that will
//! do, with a twentieth to spare when it shrinks. Between these lines the workload keeps what it has, so that figures
//! that move by a few percent never move it back.

use super::mig::{self, Weighed, below_minimum, least, offered};
use super::obstacle::{self, Obstacle, share, usable};
use super::{Candidate, FitReport, Holds, Needs, Question, Reason, Verdict, cautions, evidence, milli};
use crate::catalog::{Attribute, GpuModel, MigProfile, ProfileName};
use crate::policy::Method;
use crate::units::Mib;
use crate::usage::WorkloadProfile;

/// A slice with no more than this left above the peak is too small whatever the headroom is: the smallest CUDA context
/// of one more process takes some 200 MiB. Doubled, small workloads with little headroom would restart for nothing.
const NEARLY_FULL: Mib = Mib(128);

/// Percent of the need that a profile of half the size must have to spare before a shrink is proposed. Doubled, fewer
/// slices would be given back; at 0, a workload at a profile's edge would move with every change of its peak.
const SHRINK_SPARE_PERCENT: u64 = 10;

/// Percent of the need that the profile taken by a shrink must have to spare. Half of the above: the difference is what
/// keeps a second shrink from following the first. Doubled to the same figure, it would, at a change of 1 %.
const SETTLE_SPARE_PERCENT: u64 = 5;

/// The slice that a workload has.
struct Held<'a> {
    profile: &'a MigProfile,
    memory: Mib,
    /// Index in the model's chain of the profile of its size; past its end for a slice of the whole card.
    place: usize,
}

/// A question about a holder of a slice, with everything that it needs at hand.
struct Case<'a> {
    question: &'a Question<'a>,
    needs: &'a Needs,
    model: &'a GpuModel,
    measured: &'a WorkloadProfile,
    held: Held<'a>,
    uses_media: bool,
    /// Index in the chain of the smallest profile that policy allows.
    least: usize,
}

/// What becomes of a workload whose pods hold slices of `profile`.
pub(super) fn judge(question: &Question<'_>, needs: Needs, profile: &str) -> FitReport {
    let (verdict, considered) = match case(question, &needs, profile) {
        Some(case) => case.judge(),
        None => {
            let reasons = vec![unknown_slice(profile)];
            (Verdict::NotEnoughEvidence { reasons }, Vec::new())
        }
    };
    FitReport {
        workload: question.workload.id.clone(),
        model: question.model.map(|model| model.id.clone()),
        holds: Holds::Slice { profile: profile.to_owned() },
        cautions: cautions::cautions(question, &verdict),
        verdict,
        needs: Some(needs),
        considered,
        counterfactual: None,
    }
}

fn unknown_slice(profile: &str) -> Reason {
    if profile.parse::<ProfileName>().is_err() {
        return Reason::new("unknown-slice", format!("which slice it holds is not known (`{profile}`)"))
            .with_advice(
                "the exporter must print `GPU_I_PROFILE`: `slicewright doctor` says what is missing",
            );
    }
    let text = format!("`{profile}` is not a slice of this card model in the catalog");
    Reason::new("unknown-slice", text).with_advice("add the profile under `catalog:` in the configuration")
}

fn case<'a>(question: &'a Question<'a>, needs: &'a Needs, profile: &str) -> Option<Case<'a>> {
    let (model, measured) = (question.model?, question.profile?);
    let held = model.profile(profile.parse::<ProfileName>().ok()?)?;
    let chain = model.chain();
    let of_its_size = |one: &&MigProfile| {
        (one.compute_slices, one.memory_slices) == (held.compute_slices, held.memory_slices)
    };
    let itself = chain.iter().position(|one| one.name == held.name);
    let place = itself.or_else(|| chain.iter().position(of_its_size)).unwrap_or(chain.len());
    // Video engines are not measured on a slice: who has a profile for the sake of them is taken to use them.
    let for_engines = matches!(held.name.attribute, Attribute::Me | Attribute::MeAll);
    Some(Case {
        question,
        needs,
        model,
        measured,
        held: Held { profile: held, memory: usable(question, held), place },
        uses_media: measured.media_engines_used.unwrap_or(for_engines),
        least: least(question, model),
    })
}

impl<'a> Case<'a> {
    fn judge(&self) -> (Verdict, Vec<Candidate>) {
        let name = self.held.profile.name.to_string();
        let keep = |reason: Reason| Verdict::KeepSlice { profile: name.clone(), reason };
        if let Some(reason) = self.not_to_be_touched() {
            let held = self.held_candidate(vec![reason.clone()], true);
            return (keep(reason), vec![held]);
        }
        let too_small = self.too_small();
        let growing = too_small.is_some();
        let weighed: Vec<Weighed<'a>> = offered(self.model, self.uses_media)
            .into_iter()
            .filter(|(_, profile)| profile.name != self.held.profile.name)
            .map(|(index, profile)| Weighed {
                index,
                profile,
                obstacles: self.obstacles(index, profile, growing),
            })
            .collect();
        let target = self.target(&weighed, growing);
        let verdict = match (target, mig::refusal(self.question)) {
            (Some(target), None) => Verdict::Mig { profile: target.profile.name.to_string() },
            (Some(target), Some(refusal)) => keep(Reason {
                text: format!("`{}` would do instead, but {}", target.profile.name, refusal.text),
                ..refusal
            }),
            (None, _) => keep(match &too_small {
                Some(reason) => self.nothing_larger(reason),
                None => self.right(&weighed),
            }),
        };
        let held = match (&too_small, &verdict) {
            (Some(reason), _) => self.held_candidate(vec![reason.clone()], false),
            (None, Verdict::KeepSlice { reason, .. }) => self.held_candidate(vec![reason.clone()], true),
            (None, _) => self.held_candidate(vec![self.in_numbers("far-too-large")], true),
        };
        let mut considered: Vec<Candidate> =
            weighed.iter().map(|one| mig::candidate(self.question, self.needs, one)).collect();
        considered.push(held);
        let given = match &verdict {
            Verdict::Mig { profile } | Verdict::KeepSlice { profile, .. } => profile,
            Verdict::TimeSlicing
            | Verdict::Mps
            | Verdict::KeepWhole { .. }
            | Verdict::NotEnoughEvidence { .. }
            | Verdict::Excluded { .. } => &name,
        };
        // Stable sort: the verdict's own first, then what would do, each in the order of the chain.
        considered.sort_by_key(|candidate| (candidate.name != *given, !candidate.fits));
        (verdict, considered)
    }

    /// What keeps a slice as it is, whatever its size.
    fn not_to_be_touched(&self) -> Option<Reason> {
        if self.held.profile.graphics {
            return Some(Reason::new(
                "graphics-slice",
                "its slice may run graphics APIs, which no slice that is offered may",
            ));
        }
        (self.needs.peak < evidence::CONTEXT_FLOOR).then(|| {
            Reason::new(
                "slice-unused",
                format!(
                    "its memory never rose above {} in {} days, less than a CUDA context takes: the slice is held and \
                     not used",
                    self.needs.peak, self.measured.history_days
                ),
            )
            .with_advice("scale it to 0 or take the request out of its pods: that gives the slice back")
        })
    }

    /// Why the slice is too small, if it is.
    fn too_small(&self) -> Option<Reason> {
        if self.tight(self.held.memory) {
            return Some(Reason::new(
                "memory-too-small",
                format!(
                    "has {}, the peak is {}: less than half of the headroom is left of the {} that are wanted",
                    self.held.memory, self.needs.peak, self.needs.memory
                ),
            ));
        }
        if let Some((sm, total)) = self.slow() {
            return Some(Reason::new(
                "compute-too-small",
                format!(
                    "has {sm} of {total} SMs ({}), and on whole cards {} were needed",
                    share(sm, total),
                    milli(self.needs.compute_milli.unwrap_or_default())
                ),
            ));
        }
        below_minimum(self.question, self.model, self.held.place < self.least).map(|obstacle| obstacle.reason)
    }

    /// Less than half of the wanted headroom would be left, or next to nothing.
    fn tight(&self, memory: Mib) -> bool {
        let Needs { peak, memory: need, .. } = self.needs;
        let half = peak.0 + need.0.saturating_sub(peak.0).div_ceil(2);
        half > memory.0 || *peak + NEARLY_FULL >= memory
    }

    /// The SMs that it has, where whole cards showed that it needs more: by more than half of what `compute_fill` keeps
    /// free. An upper bound shows no such thing.
    fn slow(&self) -> Option<(u32, u32)> {
        let compute = self.measured.compute.filter(|compute| !compute.source.is_upper_bound())?;
        let (sm, total) = (self.held.profile.sm?, self.model.sm_total?);
        let twice_the_middle = u64::from(compute.p99.ppm()) + u64::from(self.needs.compute_milli?) * 1_000;
        (twice_the_middle * u64::from(total) > 2_000_000 * u64::from(sm)).then_some((sm, total))
    }

    /// What stands between the workload and another profile of the chain.
    fn obstacles(&self, index: usize, profile: &MigProfile, growing: bool) -> Vec<Obstacle> {
        let question = self.question;
        let spare = if growing { 0 } else { SETTLE_SPARE_PERCENT };
        let memory = obstacle::memory(question, self.needs, self.measured, profile)
            .or_else(|| self.no_spare(usable(question, profile), spare));
        let found = [
            self.wrong_size(index, profile, growing),
            memory,
            obstacle::driver(question, self.model, profile),
            self.compute(profile, spare),
            obstacle::bandwidth(question, self.model, self.measured, profile),
            obstacle::media(self.uses_media, profile),
            self.latency(profile),
            below_minimum(question, self.model, index < self.least),
        ];
        found.into_iter().flatten().collect()
    }

    /// It is not larger, or not small enough to be worth a restart.
    fn wrong_size(&self, index: usize, profile: &MigProfile, growing: bool) -> Option<Obstacle> {
        let held = self.held.profile;
        let n_memory =
            format!("{} memory and {} compute slices", profile.memory_slices, profile.compute_slices);
        if growing {
            return (index <= self.held.place).then(|| {
                Obstacle::firm(Reason::new("not-larger", format!("is not larger than `{}`", held.name)))
            });
        }
        let half_the_memory = 2 * profile.memory_slices <= held.memory_slices;
        let half_the_compute =
            profile.memory_slices == held.memory_slices && 2 * profile.compute_slices <= held.compute_slices;
        (index >= self.held.place || !(half_the_memory || half_the_compute)).then(|| {
            Obstacle::firm(Reason::new(
                "too-little-gained",
                format!(
                    "takes {n_memory} instead of {} and {}: not worth a restart",
                    held.memory_slices, held.compute_slices
                ),
            ))
        })
    }

    fn no_spare(&self, memory: Mib, percent: u64) -> Option<Obstacle> {
        if self.tight(memory) || self.needs.memory.0 * (100 + percent) > memory.0 * 100 {
            return Some(Obstacle::firm(Reason::new(
                "no-spare",
                format!("has {memory} for {}: too close for a move", self.needs.memory),
            )));
        }
        None
    }

    /// As for whole cards where compute was measured on them; else it may have no fewer SMs than the workload has now.
    fn compute(&self, profile: &MigProfile, spare_percent: u64) -> Option<Obstacle> {
        if let Some(need) = self.needs.compute_milli {
            return obstacle::compute(self.question, self.needs, self.model, profile).or_else(|| {
                let (sm, total) = (profile.sm?, self.model.sm_total?);
                let wanted = u64::from(need) * u64::from(total) * (100 + spare_percent);
                (wanted > 100_000 * u64::from(sm)).then(|| {
                    Obstacle::firm(Reason::new(
                        "no-spare",
                        format!(
                            "has {sm} of {total} SMs ({}) for {}: too close for a move",
                            share(sm, total),
                            milli(need)
                        ),
                    ))
                })
            });
        }
        let held = self.held.profile;
        let fewer = match (profile.sm, held.sm) {
            (Some(sm), Some(now)) => sm < now,
            // More compute slices of one card are never fewer SMs.
            _ => profile.compute_slices < held.compute_slices,
        };
        fewer.then(|| {
            let sms = |profile: &MigProfile| {
                profile.sm.map_or_else(|| format!("{} compute slices", profile.compute_slices), |sm| format!("{sm} SMs"))
            };
            Obstacle::firm(
                Reason::new(
                    "compute-unknown-on-slice",
                    format!(
                        "has {} instead of {}, and what compute it needs was not measured: counters of slices do not \
                         say",
                        sms(profile),
                        sms(held)
                    ),
                )
                .with_advice("run one replica on a whole card for a week to measure it"),
            )
        })
    }

    /// Policy refuses slices narrower than the kernels: for a move to fewer SMs, since no other makes them slower.
    fn latency(&self, profile: &MigProfile) -> Option<Obstacle> {
        let fewer = profile.compute_slices < self.held.profile.compute_slices;
        let refused = self.question.policy.refuse_latency_stretch && fewer;
        let reason = refused.then(|| obstacle::latency(self.measured, self.model, profile)).flatten()?;
        Some(Obstacle::firm(reason))
    }

    /// The smallest profile that will do, where a move pays.
    fn target<'w>(&self, weighed: &'w [Weighed<'a>], growing: bool) -> Option<&'w Weighed<'a>> {
        let will_do = |one: &&Weighed<'_>| one.obstacles.is_empty();
        let pays = |one: &Weighed<'_>| {
            self.no_spare(usable(self.question, one.profile), SHRINK_SPARE_PERCENT).is_none()
                && self.compute(one.profile, SHRINK_SPARE_PERCENT).is_none()
        };
        let worth_it = growing || weighed.iter().filter(will_do).any(pays);
        weighed.iter().find(will_do).filter(|_| worth_it)
    }

    /// A slice is not traded for a whole card: that frees nothing, and a card that is whole must be found first.
    fn nothing_larger(&self, too_small: &Reason) -> Reason {
        Reason::new(
            "too-small-and-nothing-larger",
            format!("`{}` is too small ({}), and no larger slice will do", self.held.profile.name, too_small.text),
        )
        .with_advice(
            "let it ask for `nvidia.com/gpu` on nodes whose cards are not cut: this is not proposed, as it takes a card \
             more",
        )
    }

    /// Why the slice is right; or what would have to be known to give it a smaller one.
    fn right(&self, weighed: &[Weighed<'_>]) -> Reason {
        let only_compute_is_unknown = |one: &&Weighed<'_>| {
            matches!(one.obstacles.as_slice(), [only] if only.reason.code == "compute-unknown-on-slice")
                && self.no_spare(usable(self.question, one.profile), SHRINK_SPARE_PERCENT).is_none()
        };
        if let Some(smaller) = weighed.iter().find(only_compute_is_unknown)
            && let [only] = smaller.obstacles.as_slice()
        {
            let memory = usable(self.question, smaller.profile);
            return Reason {
                text: format!(
                    "`{}` has memory enough ({memory} for {}), but {}",
                    smaller.profile.name, self.needs.memory, only.reason.text
                ),
                ..only.reason.clone()
            };
        }
        let code = if self.needs.memory > self.held.memory { "headroom-thin" } else { "right-size" };
        self.in_numbers(code)
    }

    fn in_numbers(&self, code: &str) -> Reason {
        let thin =
            if code == "headroom-thin" { ": less headroom than wanted, more than half of it" } else { "" };
        Reason::new(
            code,
            format!(
                "has {} for {} (peak {} with headroom){thin}",
                self.held.memory, self.needs.memory, self.needs.peak
            ),
        )
    }

    fn held_candidate(&self, reasons: Vec<Reason>, fits: bool) -> Candidate {
        Candidate {
            method: Method::Mig,
            name: self.held.profile.name.to_string(),
            fits,
            reasons,
            memory: Some(self.held.memory),
            sm: self.held.profile.sm,
            chain_index: self.model.chain().iter().position(|profile| profile.name == self.held.profile.name),
        }
    }
}
