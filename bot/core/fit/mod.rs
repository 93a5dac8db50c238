//! Which sharing method fits one workload on one GPU model, and why.
//!
//! Looks at one workload alone. Whether its neighbours leave room is the question of `pack`.

mod cautions;
mod counterfactual;
mod evidence;
mod keep_whole;
mod mig;
mod mps;
mod obstacle;
mod slice;
mod time_slicing;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::catalog::GpuModel;
use crate::catalog::names::Names;
use crate::ids::WorkloadId;
use crate::inventory::{DeclaredWorkload, Workload};
use crate::policy::{Method, Policy};
use crate::units::{Mib, Ratio};
use crate::usage::WorkloadProfile;

/// The answer for one workload, with every candidate that was weighed.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FitReport {
    /// Who was weighed.
    pub workload: WorkloadId,
    /// Catalog id of the model it was weighed on, `a100-40gb`. `None`: the model is unknown.
    pub model: Option<String>,
    /// What its pods hold today.
    pub holds: Holds,
    /// What it gets.
    pub verdict: Verdict,
    /// What a slice must offer. `None`: not enough was measured to say.
    pub needs: Option<Needs>,
    /// Best first; holds the verdict's own candidate too, so that a reviewer can argue with it.
    pub considered: Vec<Candidate>,
    /// Things that fit but deserve a word: latency, growth, one replica.
    pub cautions: Vec<Reason>,
    /// What would have to be otherwise for it to get less: ``fits `1g.10gb` of an A100 80GB if the peak were at most
    /// 8,106 MiB; it was above on 2 of 30 days``. `None`: nothing that anybody could change, or it holds a slice.
    #[serde(default)]
    pub counterfactual: Option<Reason>,
}

/// What the pods of a workload hold today.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Holds {
    /// Whole cards.
    #[default]
    Whole,
    /// MIG slices of one profile.
    Slice {
        /// List spelling, as the driver prints it: `2g.10gb`.
        profile: String,
    },
}

/// What a slice must offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Needs {
    /// Peak memory measured.
    pub peak: Mib,
    /// Peak with headroom.
    pub memory: Mib,
    /// 99th percentile of compute over the fill, in thousandths of the card's SMs. `None`: not measured.
    pub compute_milli: Option<u32>,
    /// The compute figure is only an upper bound.
    pub compute_is_upper_bound: bool,
}

/// What one workload gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Verdict {
    /// A MIG slice; another one where it holds a slice today.
    Mig {
        /// List spelling of the profile, as the cluster's driver prints it: `2g.10gb`.
        profile: String,
    },
    /// May share a card by time-slicing; how many fit is decided for the pool.
    TimeSlicing,
    /// May share a card through an MPS server; how many fit is decided for the pool.
    Mps,
    /// Keeps its whole card.
    KeepWhole {
        /// Why.
        reason: Reason,
    },
    /// Keeps the slice that it has: it is right, nothing larger will do, or too little is known.
    ///
    /// A slice is never traded for a whole card: that takes a card more, and is reported with its way out instead.
    KeepSlice {
        /// List spelling of the profile.
        profile: String,
        /// Why.
        reason: Reason,
    },
    /// Nothing can be said yet.
    NotEnoughEvidence {
        /// Everything that is missing, each with its way out.
        reasons: Vec<Reason>,
    },
    /// Left alone by policy or by the workload's owner.
    Excluded {
        /// By what.
        reason: Reason,
    },
}

impl Verdict {
    /// One word for tables: `mig`, `time-slicing`, `mps`, `keep`, `no-evidence`, `excluded`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Mig { .. } => "mig",
            Self::TimeSlicing => "time-slicing",
            Self::Mps => "mps",
            Self::KeepWhole { .. } => "keep",
            Self::KeepSlice { .. } => "keep-slice",
            Self::NotEnoughEvidence { .. } => "no-evidence",
            Self::Excluded { .. } => "excluded",
        }
    }

    /// Why nothing changes, for verdicts that change nothing.
    pub fn reasons(&self) -> Vec<&Reason> {
        match self {
            Self::Mig { .. } | Self::TimeSlicing | Self::Mps => Vec::new(),
            Self::KeepWhole { reason } | Self::KeepSlice { reason, .. } | Self::Excluded { reason } => {
                vec![reason]
            }
            Self::NotEnoughEvidence { reasons } => reasons.iter().collect(),
        }
    }
}

/// A reason as data: a stable code, the sentence with its numbers, and the way out if there is one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Reason {
    /// Stable name, `memory-too-small`.
    pub code: String,
    /// The sentence, with both numbers and their unit; lower case, no full stop.
    pub text: String,
    /// What would change it, or what to do.
    pub advice: Option<String>,
}

impl Reason {
    /// A reason without advice.
    pub fn new(code: &str, text: impl Into<String>) -> Self {
        Self { code: code.to_owned(), text: text.into(), advice: None }
    }

    /// Adds what would change it.
    #[must_use]
    pub fn with_advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

/// One way that was weighed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The method.
    pub method: Method,
    /// `2g.10gb`, `time-slicing`, `MPS`, `keep whole`.
    pub name: String,
    /// It would do.
    pub fits: bool,
    /// Why it does or does not, in numbers; the first is the one that decided.
    pub reasons: Vec<Reason>,
    /// Usable memory of it, lowest figure known.
    pub memory: Option<Mib>,
    /// SMs of it.
    pub sm: Option<u32>,
    /// Index in [`GpuModel::chain`], for the packer.
    pub chain_index: Option<usize>,
}

/// Facts about the ground that the workload stands on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ground {
    /// Usable memory seen on real slices of this model, by profile; smaller than the catalog's wins.
    pub slice_memory: BTreeMap<String, Mib>,
    /// Smallest framebuffer seen of this model in the cluster.
    pub smallest_framebuffer: Option<Mib>,
    /// Oldest driver of the pool's nodes. `None`: not known.
    pub driver: Option<String>,
    /// What the pool's drivers call the model's profiles, by their names in the catalog. Empty: as the catalog does.
    #[serde(default)]
    pub names: Names,
    /// Why MIG cannot be used in this pool: strategy, driver, provider, operator.
    pub mig_refused: Option<Reason>,
    /// Why time-slicing cannot be used in this pool.
    pub time_slicing_refused: Option<Reason>,
    /// Why MPS cannot be used in this pool.
    #[serde(default)]
    pub mps_refused: Option<Reason>,
    /// Why no node may hold slices beside whole cards.
    #[serde(default)]
    pub no_mixed_nodes: Option<Reason>,
    /// What does not forbid MIG here, and should be known before a node is changed.
    #[serde(default)]
    pub cautions: Vec<Reason>,
}

impl Ground {
    /// The model with its profiles called as they are here.
    pub fn model_here(&self, model: &GpuModel) -> GpuModel {
        if self.names.is_empty() { model.clone() } else { model.renamed(&self.names) }
    }
}

/// Everything that is asked about one workload.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The workload as it is today.
    pub workload: &'a Workload,
    /// What it was measured to use. `None`: no sample carries one of its pods.
    pub profile: Option<&'a WorkloadProfile>,
    /// The card model it runs on. `None`: not in the catalog.
    pub model: Option<&'a GpuModel>,
    /// What is allowed.
    pub policy: &'a Policy,
    /// Where it stands.
    pub ground: &'a Ground,
    /// What the repository says of it. `None`: not found there.
    pub declared: Option<&'a DeclaredWorkload>,
}

impl Question<'_> {
    /// What its pods hold: as the readings say, else as its resource does.
    pub(crate) fn holds(&self) -> Holds {
        let read = self.profile.and_then(|profile| profile.slice.clone());
        let asked = || {
            crate::catalog::ProfileName::from_resource(&self.workload.resource).map(|name| name.to_string())
        };
        read.or_else(asked).map_or(Holds::Whole, |profile| Holds::Slice { profile })
    }
}

/// Fits one workload onto its model under its policy.
pub fn fit(question: &Question<'_>) -> FitReport {
    match evidence::gate(question) {
        Ok(needs) => match question.holds() {
            Holds::Whole => choose(question, needs),
            Holds::Slice { profile } => slice::judge(question, needs, &profile),
        },
        Err(report) => *report,
    }
}

fn choose(question: &Question<'_>, needs: Needs) -> FitReport {
    let slices = mig::weigh(question, &needs);
    let refusal = mig::refusal(question);
    let mut considered: Vec<Candidate> = match &refusal {
        Some(reason) => vec![mig::refused(reason.clone())],
        None => slices.iter().map(|one| mig::candidate(question, &needs, one)).collect(),
    };
    let time_slicing = time_slicing::obstacles(question, &needs);
    considered.push(time_slicing::candidate(question, &needs, &time_slicing));
    mps::candidate(question, &needs, &mut considered);
    let (verdict, whole) = keep_whole::decide(question, &needs, &considered);
    considered.push(whole);
    // Stable sort: within "fits" and "does not" the makers' own order, smallest first, stays.
    considered.sort_by_key(|candidate| !candidate.fits);
    FitReport {
        workload: question.workload.id.clone(),
        model: question.model.map(|model| model.id.clone()),
        holds: Holds::Whole,
        cautions: cautions::cautions(question, &verdict),
        counterfactual: counterfactual::counterfactual(
            question,
            &verdict,
            &slices,
            refusal.as_ref(),
            &time_slicing,
        ),
        verdict,
        needs: Some(needs),
        considered,
    }
}

/// `190` thousandths as `19 %`.
fn milli(value: u32) -> String {
    Ratio::from_ppm(value.saturating_mul(1_000)).to_string()
}
