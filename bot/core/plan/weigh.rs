//! The workloads of a pool, each with its fit and with what else keeps it as it is.

use std::collections::BTreeMap;

use super::pool::{Pool, Spread};
use super::{Kept, Request, ground, time_slicing};
use crate::catalog::GpuModel;
use crate::fit::{self, FitReport, Question, Reason, Verdict};
use crate::inventory::{Declared, Pod, Resources, Workload};
use crate::policy::{ManualEdits, Method, Policy};

/// More replicas than this of one GPU workload are a typing error or a broken metric; doubling it only costs time.
const MOST_REPLICAS: u32 = 10_000;

/// One workload of the pool, weighed.
#[derive(Clone, Debug)]
pub(crate) struct Weighed<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) policy: &'a Policy,
    pub(crate) fit: FitReport,
    /// Its pods on nodes of this pool.
    pub(crate) pods: Vec<&'a Pod>,
    /// Set when the plan leaves it as it is although the fit would allow more.
    pub(crate) held_back: Option<Reason>,
}

impl Weighed<'_> {
    /// Replicas to plan for in this pool.
    pub(crate) fn planned(&self) -> u32 {
        let now = u32::try_from(self.pods.len()).unwrap_or(u32::MAX);
        let wanted = if self.policy.plan_for_hpa_max {
            self.workload.planned_replicas()
        } else {
            self.workload.replicas
        };
        if self.workload.pods.len() == self.pods.len() { now.max(wanted.min(MOST_REPLICAS)) } else { now }
    }

    /// Extra pods while it rolls: as configured, as measured, as declared, else Kubernetes' default of 25 %, rounded up.
    pub(crate) fn max_surge(&self, declared: &Declared) -> u32 {
        let rolls_with_surge = matches!(self.workload.id.kind.as_str(), "Deployment" | "Rollout");
        self.policy
            .max_surge
            .or(self.workload.max_surge)
            .or_else(|| declared.of(&self.workload.id)?.max_surge)
            .map(|surge| surge.min(MOST_REPLICAS))
            .unwrap_or(if rolls_with_surge { self.planned().div_ceil(4) } else { 0 })
    }

    /// How far its replicas must be apart: as configured for it, else as the pool says.
    pub(crate) fn spread(&self, pool: &Pool) -> Spread {
        self.policy.spread.unwrap_or(pool.spread)
    }

    /// The largest request of its pods here, figure by figure. `None`: it has none, or one is not known.
    pub(crate) fn largest_pod(&self) -> Option<Resources> {
        self.pods
            .iter()
            .map(|pod| pod.requests.map(Resources::from))
            .reduce(|a, b| Some(a?.larger(b?)))
            .flatten()
    }

    /// The candidate that the verdict chose.
    pub(crate) fn chosen(&self) -> Option<&fit::Candidate> {
        match &self.fit.verdict {
            Verdict::Mig { profile } => self.fit.considered.iter().find(|c| c.name == *profile),
            Verdict::TimeSlicing => self.fitting(Method::TimeSlicing),
            Verdict::Mps => self.fitting(Method::Mps),
            Verdict::KeepWhole { .. }
            | Verdict::KeepSlice { .. }
            | Verdict::NotEnoughEvidence { .. }
            | Verdict::Excluded { .. } => None,
        }
    }

    /// The first candidate of a method that fits.
    pub(crate) fn fitting(&self, method: Method) -> Option<&fit::Candidate> {
        self.fit.considered.iter().find(|candidate| candidate.method == method && candidate.fits)
    }

    pub(crate) fn kept(&self) -> Kept {
        let mut reasons: Vec<Reason> = self.held_back.iter().cloned().collect();
        reasons.extend(self.fit.verdict.reasons().into_iter().cloned());
        let n_cards = self.pods.iter().map(|pod| pod.cards.len()).sum::<usize>();
        Kept { fit: self.fit.clone(), reasons, n_cards: u32::try_from(n_cards).unwrap_or(u32::MAX) }
    }
}

/// Fits one workload wherever it runs; for `explain` and for workloads outside every pool.
pub fn weigh_one(request: &Request<'_>, workload: &Workload) -> FitReport {
    weigh_on(request, workload, &mut Grounds::new())
}

/// The ground and the model as it is called there, by product name. It takes a look at every node, and most workloads of
/// a pool stand on the same.
type Grounds = BTreeMap<Option<String>, (fit::Ground, Option<GpuModel>)>;

fn weigh_on(request: &Request<'_>, workload: &Workload, grounds: &mut Grounds) -> FitReport {
    let profile = request.measured.profiles.get(&workload.id);
    let node_model = || {
        workload.pods.iter().find_map(|pod| {
            request.inventory.node(&pod.node)?.model_names().into_iter().next().map(str::to_owned)
        })
    };
    let name = profile.map(|profile| profile.model_name.clone()).or_else(node_model);
    let (ground, model) = grounds.entry(name).or_insert_with_key(|name| {
        let model = name.as_deref().and_then(|name| request.catalog.find_by_product(name));
        let ground = ground::ground(request, name.as_deref(), model);
        let model = model.map(|model| ground.model_here(model));
        (ground, model)
    });
    let default = Policy::default();
    let policy = request.policies.get(&workload.id).unwrap_or(&default);
    fit::fit(&Question {
        workload,
        profile,
        model: model.as_ref(),
        policy,
        ground,
        declared: request.declared.of(&workload.id),
    })
}

/// The workloads with a pod in the pool and a policy, by name.
pub(super) fn weigh<'a>(request: &Request<'a>) -> Vec<Weighed<'a>> {
    let mut weighed = Vec::new();
    let mut grounds = Grounds::new();
    let mut workloads: Vec<&Workload> = request.inventory.workloads.iter().collect();
    workloads.sort_by(|a, b| a.id.cmp(&b.id));
    for workload in workloads {
        let pods: Vec<_> =
            workload.pods.iter().filter(|pod| request.pool.nodes.contains(&pod.node)).collect();
        let Some(policy) = request.policies.get(&workload.id) else { continue };
        if pods.is_empty() {
            continue;
        }
        let fit = weigh_on(request, workload, &mut grounds);
        let mut one = Weighed { workload, policy, fit, pods, held_back: None };
        one.held_back = held_back(request, &one);
        weighed.push(one);
    }
    weighed
}

/// Reasons outside the fit to leave a workload as it is.
pub(super) fn held_back(request: &Request<'_>, weighed: &Weighed<'_>) -> Option<Reason> {
    let Weighed { workload, policy, fit, pods, .. } = weighed;
    let pods_here = pods.len();
    if !matches!(fit.verdict, Verdict::Mig { .. } | Verdict::TimeSlicing | Verdict::Mps) {
        return None;
    }
    if workload.planned_replicas() > MOST_REPLICAS {
        return Some(Reason::new(
            "absurd-replicas",
            format!("{} replicas are asked for: that is taken for a mistake", workload.planned_replicas()),
        ));
    }
    if workload.pods.len() != pods_here {
        return Some(Reason::new(
            "several-pools",
            format!(
                "{pods_here} of its {} pods run in this pool: one pod template cannot serve two kinds of cards",
                workload.pods.len()
            ),
        ));
    }
    if matches!(fit.verdict, Verdict::TimeSlicing | Verdict::Mps) {
        return time_slicing::together(request, weighed);
    }
    if policy.manual_edits == ManualEdits::Allow {
        return None;
    }
    match request.declared.of(&workload.id) {
        None => Some(
            Reason::new("not-in-repository", "its manifest was not found in the repository")
                .with_advice("add its repository or folder, or set `manual_edits: allow`"),
        ),
        Some(declared) => declared.editable.as_ref().err().map(|why| {
            Reason::new("cannot-edit", format!("its GPU request cannot be edited safely ({why})"))
                .with_advice("set `manual_edits: allow` to plan it and make this change by hand")
        }),
    }
}
