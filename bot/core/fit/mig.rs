//! Weighs every MIG profile of the model: memory, SMs, bandwidth, media engines, kernel width.

use super::obstacle::{self, Obstacle, share, usable};
use super::{Candidate, Needs, Question, Reason, milli};
use crate::catalog::{GpuModel, MigProfile, ProfileName};
use crate::policy::Method;
use crate::units::Mib;

/// A profile with everything that stands in its way.
#[derive(Clone, Debug)]
pub(super) struct Weighed<'a> {
    /// Index in the model's chain.
    pub(super) index: usize,
    pub(super) profile: &'a MigProfile,
    pub(super) obstacles: Vec<Obstacle>,
}

/// Why no profile is offered at all: the card, the policy, the ground.
pub(super) fn refusal(question: &Question<'_>) -> Option<Reason> {
    let (model, profile) = (question.model?, question.profile?);
    if model.profiles.is_empty() {
        return Some(Reason::new("cannot-partition", format!("{} cannot be cut by MIG", profile.model_name)));
    }
    if !question.policy.allows(Method::Mig) {
        let text = format!("policy does not allow MIG{}", decided(question, "methods"));
        return Some(Reason::new("not-allowed", text));
    }
    question.ground.mig_refused.clone()
}

/// The candidate that says why MIG is out of the question.
pub(super) fn refused(reason: Reason) -> Candidate {
    Candidate {
        method: Method::Mig,
        name: "MIG".into(),
        fits: false,
        reasons: vec![reason],
        memory: None,
        sm: None,
        chain_index: None,
    }
}

/// Every profile of the model's chain, smallest first. Those with media engines that the plain profile of their size
/// lacks are for workloads that use them: a card has one of them alone.
pub(super) fn weigh<'a>(question: &Question<'a>, needs: &Needs) -> Vec<Weighed<'a>> {
    let (Some(model), Some(profile)) = (question.model, question.profile) else { return Vec::new() };
    let uses_media = profile.media_engines_used == Some(true);
    let chain = offered(model, uses_media);
    let least = least(question, model);
    chain
        .into_iter()
        .map(|(index, candidate)| {
            let latency = question
                .policy
                .refuse_latency_stretch
                .then(|| obstacle::latency(profile, model, candidate))
                .flatten()
                .map(|reason| Obstacle::setting(reason, "policy allowed its requests to take longer"));
            let obstacles = [
                obstacle::memory(question, needs, profile, candidate),
                obstacle::driver(question, model, candidate),
                obstacle::compute(question, needs, model, candidate),
                obstacle::bandwidth(question, model, profile, candidate),
                obstacle::media(uses_media, candidate),
                latency,
                below_minimum(question, model, index < least),
            ];
            Weighed { index, profile: candidate, obstacles: obstacles.into_iter().flatten().collect() }
        })
        .collect()
}

/// The profiles of the chain that are offered, with their index in it.
pub(super) fn offered(model: &GpuModel, uses_media: bool) -> Vec<(usize, &MigProfile)> {
    let fits =
        |profile: &MigProfile| uses_media || profile.name.attribute == crate::catalog::Attribute::Plain;
    model.chain().into_iter().enumerate().filter(|(_, profile)| fits(profile)).collect()
}

/// Index in the chain of the smallest profile that policy allows. A minimum that this model does not have keeps
/// everything smaller than a card away.
pub(super) fn least(question: &Question<'_>, model: &GpuModel) -> usize {
    let Some(wanted) = &question.policy.min_profile else { return 0 };
    let chain = model.chain();
    let name: Option<ProfileName> = wanted.parse().ok();
    name.and_then(|name| chain.iter().position(|profile| profile.is_named(name))).unwrap_or(chain.len())
}

pub(super) fn below_minimum(question: &Question<'_>, model: &GpuModel, is_below: bool) -> Option<Obstacle> {
    is_below.then(|| {
        let wanted = question.policy.min_profile.as_deref().unwrap_or_default();
        let name: Option<ProfileName> = wanted.parse().ok();
        let known = name.is_some_and(|name| model.chain().iter().any(|profile| profile.is_named(name)));
        let unknown = if known { String::new() } else { format!("; {} has no such slice", model.title()) };
        let text =
            format!("policy asks for `{wanted}` at least{}{unknown}", decided(question, "min_profile"));
        Obstacle::setting(Reason::new("below-minimum", text), "policy allowed smaller profiles")
    })
}

/// As reviewers see it.
pub(super) fn candidate(question: &Question<'_>, needs: &Needs, weighed: &Weighed<'_>) -> Candidate {
    let memory = usable(question, weighed.profile);
    let fits = weighed.obstacles.is_empty();
    let reasons = if fits {
        vec![accepts(question, needs, weighed.profile, memory)]
    } else {
        weighed.obstacles.iter().map(|obstacle| obstacle.reason.clone()).collect()
    };
    Candidate {
        method: Method::Mig,
        name: weighed.profile.name.to_string(),
        fits,
        reasons,
        memory: Some(memory),
        sm: weighed.profile.sm,
        chain_index: Some(weighed.index),
    }
}

fn accepts(question: &Question<'_>, needs: &Needs, candidate: &MigProfile, memory: Mib) -> Reason {
    let total = question.model.and_then(|model| model.sm_total);
    let compute = match (candidate.sm, total, needs.compute_milli) {
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

/// ` (service, rule 2)` for a setting that is not the default.
pub(super) fn decided(question: &Question<'_>, setting: &str) -> String {
    question.policy.decided_by.get(setting).map(|place| format!(" ({place})")).unwrap_or_default()
}
