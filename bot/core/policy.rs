//! Headroom, evidence gates and what may share with what, for one workload.
//!
//! Each value remembers which line of the configuration decided, so that `explain` can say so. Which line that is is
//! the question of `rules`.

pub mod rules;

pub mod freeze;

pub mod narrow;

pub mod wished;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::plan::pool::Spread;
use crate::units::{Mib, Ratio, thousands};

/// What is allowed and asked for one workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Production shares only with hardware isolation.
    pub production: bool,
    /// Left alone, with the reason.
    pub excluded: Option<String>,
    /// Added to the peak memory, in percent.
    pub headroom_percent: u32,
    /// Added to the peak memory at least.
    pub headroom_min: Mib,
    /// Share of a slice's SMs that the 99th percentile may use.
    pub compute_fill: Ratio,
    /// Share of a slice's memory bandwidth that the 99th percentile may use.
    pub bandwidth_fill: Ratio,
    /// Days of history before anything is proposed.
    pub min_history_days: u32,
    /// Share of expected samples that must be there.
    pub min_coverage: Ratio,
    /// Complete runs that batch kinds must have.
    pub min_runs: u32,
    /// Methods that may be used.
    pub methods: BTreeSet<Method>,
    /// Smallest MIG profile to use, by list spelling: `2g.10gb`.
    pub min_profile: Option<String>,
    /// Time-slicing limits.
    pub time_slicing: TimeSlicingPolicy,
    /// Most MPS clients a card, 2 to 48. Each gets an equal share of memory and threads, so that more mean smaller ones.
    pub mps_max_replicas: u32,
    /// Plan for the autoscaler's maximum, not for the replicas of now.
    pub plan_for_hpa_max: bool,
    /// Extra pods while it rolls. `None`: as measured, else as declared.
    pub max_surge: Option<u32>,
    /// How far its replicas must be apart. `None`: as the pool says.
    pub spread: Option<Spread>,
    /// Refuse slices whose kernels are wider than the slice, instead of naming the latency risk.
    pub refuse_latency_stretch: bool,
    /// What to do with workloads whose request cannot be edited.
    pub manual_edits: ManualEdits,
    /// Which line decided a value that is configured, by the setting's name: `cluster dc1, rule 2`.
    pub decided_by: BTreeMap<String, String>,
    /// Where that line stands, `slicewright.yaml:42`, as far as it is known. For `explain` alone: proposals leave it out,
    /// since it moves with every comment above it.
    pub stands_at: BTreeMap<String, String>,
}

impl Default for Policy {
    /// The numbers of the rule table in the documentation.
    fn default() -> Self {
        Self {
            production: true,
            excluded: None,
            headroom_percent: 20,
            headroom_min: Mib(512),
            compute_fill: Ratio::from_ppm(750_000),
            bandwidth_fill: Ratio::from_ppm(800_000),
            min_history_days: 14,
            min_coverage: Ratio::from_ppm(900_000),
            min_runs: 5,
            methods: BTreeSet::from([Method::Mig, Method::TimeSlicing]),
            min_profile: None,
            time_slicing: TimeSlicingPolicy::default(),
            mps_max_replicas: 8,
            plan_for_hpa_max: true,
            max_surge: None,
            spread: None,
            refuse_latency_stretch: false,
            manual_edits: ManualEdits::Deny,
            decided_by: BTreeMap::new(),
            stands_at: BTreeMap::new(),
        }
    }
}

impl Policy {
    /// Memory that a slice must offer for a peak: max(⌈peak × (1 + headroom)⌉, peak + floor).
    pub fn memory_need(&self, peak: Mib) -> Mib {
        peak.with_headroom_percent(self.headroom_percent).max(peak + self.headroom_min)
    }

    /// Thousandths of the whole card's SMs that a slice must offer: ⌈p99 ÷ fill⌉.
    pub fn compute_need_milli(&self, p99: Ratio) -> u32 {
        let need = (u64::from(p99.ppm()) * 1_000).div_ceil(u64::from(self.compute_fill.ppm().max(1)));
        u32::try_from(need).unwrap_or(u32::MAX)
    }

    /// The value of a setting by its name in [`PolicySettings`], as people write it. Empty for a name that there is not.
    pub fn shown(&self, setting: &str) -> String {
        match setting {
            "production" => self.production.to_string(),
            "exclude" => self.excluded.is_some().to_string(),
            "headroom_percent" => self.headroom_percent.to_string(),
            "headroom_min_mib" => self.headroom_min.0.to_string(),
            "compute_fill" => self.compute_fill.to_string(),
            "bandwidth_fill" => self.bandwidth_fill.to_string(),
            "min_history_days" => self.min_history_days.to_string(),
            "min_coverage" => self.min_coverage.to_string(),
            "min_runs" => self.min_runs.to_string(),
            "methods" => self.methods.iter().map(|method| method.name()).collect::<Vec<_>>().join(", "),
            "min_profile" => self.min_profile.clone().unwrap_or_else(|| "none".to_owned()),
            "time_slicing_usable_share" => self.time_slicing.usable_share.to_string(),
            "time_slicing_compute_limit" => self.time_slicing.compute_limit.to_string(),
            "time_slicing_max_replicas" => self.time_slicing.max_replicas.to_string(),
            "mps_max_replicas" => self.mps_max_replicas.to_string(),
            "fail_requests_greater_than_one" => self.time_slicing.fail_requests_greater_than_one.to_string(),
            "plan_for_hpa_max" => self.plan_for_hpa_max.to_string(),
            "max_surge" => self.max_surge.map_or_else(|| "as declared".to_owned(), |pods| pods.to_string()),
            "spread" => self.spread.map_or("as the pool", Spread::name).to_owned(),
            "refuse_latency_stretch" => self.refuse_latency_stretch.to_string(),
            "manual_edits" => match self.manual_edits {
                ManualEdits::Deny => "deny".to_owned(),
                ManualEdits::Allow => "allow".to_owned(),
            },
            _ => String::new(),
        }
    }

    /// Configured values that are not the default, as `` `production` = false (cluster dc1, rule 1)``.
    pub fn overrides(&self) -> impl Iterator<Item = String> {
        let default = Self::default();
        self.decided_by
            .iter()
            .filter(move |(setting, _)| self.shown(setting) != default.shown(setting))
            .map(|(setting, place)| format!("`{setting}` = {} ({place})", self.shown(setting)))
    }

    /// The method may be used for this workload. Production shares only where hardware isolates the sharers.
    pub fn allows(&self, method: Method) -> bool {
        let isolated = match method {
            Method::Mig | Method::KeepWhole => true,
            Method::TimeSlicing | Method::Mps => false,
        };
        self.methods.contains(&method) && (isolated || !self.production)
    }
}

/// Every setting of a workload in the order in which people read them, by its name in [`PolicySettings`].
pub const SETTINGS: &[&str] = &[
    "production",
    "exclude",
    "headroom_percent",
    "headroom_min_mib",
    "compute_fill",
    "bandwidth_fill",
    "min_history_days",
    "min_coverage",
    "min_runs",
    "methods",
    "min_profile",
    "time_slicing_usable_share",
    "time_slicing_compute_limit",
    "time_slicing_max_replicas",
    "mps_max_replicas",
    "fail_requests_greater_than_one",
    "plan_for_hpa_max",
    "max_surge",
    "spread",
    "refuse_latency_stretch",
    "manual_edits",
];

/// A way to give a workload less than a whole card, or not to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// A MIG slice: memory, compute and faults isolated by hardware.
    Mig,
    /// Several pods take turns on a card: nothing isolated.
    TimeSlicing,
    /// Several pods at once through one MPS server: memory shares enforced, faults shared.
    Mps,
    /// The whole card, as today.
    KeepWhole,
}

impl Method {
    /// As people read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mig => "MIG",
            Self::TimeSlicing => "time-slicing",
            Self::Mps => "MPS",
            Self::KeepWhole => "keep whole",
        }
    }
}

/// Limits of time-slicing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeSlicingPolicy {
    /// Share of the smallest framebuffer that the largest peaks together may take.
    pub usable_share: Ratio,
    /// What the 99th percentiles of compute may sum to.
    pub compute_limit: Ratio,
    /// Most replicas a card.
    pub max_replicas: u32,
    /// Refuse pods that ask for more than one replica.
    pub fail_requests_greater_than_one: bool,
}

impl Default for TimeSlicingPolicy {
    fn default() -> Self {
        Self {
            usable_share: Ratio::from_ppm(800_000),
            compute_limit: Ratio::from_ppm(700_000),
            max_replicas: 8,
            fail_requests_greater_than_one: true,
        }
    }
}

/// What to do with workloads whose GPU request cannot be edited in the repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ManualEdits {
    /// They keep their whole card in the plan.
    #[default]
    Deny,
    /// They are planned; the merge request is a draft and says so first.
    Allow,
}

/// What one layer of the configuration says; absent fields leave the value as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicySettings {
    /// Treat as production (`true`) or not.
    pub production: Option<bool>,
    /// Leave alone.
    pub exclude: Option<bool>,
    /// Added to the peak memory, in percent.
    pub headroom_percent: Option<u32>,
    /// Added to the peak memory at least, in MiB.
    pub headroom_min_mib: Option<u64>,
    /// Share of a slice's SMs that the 99th percentile may use, 0 to 1.
    pub compute_fill: Option<Ratio>,
    /// Share of a slice's memory bandwidth that the 99th percentile may use, 0 to 1.
    pub bandwidth_fill: Option<Ratio>,
    /// Days of history before anything is proposed.
    pub min_history_days: Option<u32>,
    /// Share of expected samples that must be there, 0 to 1.
    pub min_coverage: Option<Ratio>,
    /// Complete runs that batch kinds must have.
    pub min_runs: Option<u32>,
    /// Methods that may be used: `mig`, `time-slicing`, `mps`.
    pub methods: Option<BTreeSet<Method>>,
    /// Smallest MIG profile to use, `2g.10gb`.
    pub min_profile: Option<String>,
    /// Share of the smallest framebuffer that time-slicing may fill, 0 to 1.
    pub time_slicing_usable_share: Option<Ratio>,
    /// What the compute of pods on one time-sliced card may sum to, 0 to 1.
    pub time_slicing_compute_limit: Option<Ratio>,
    /// Most time-slicing replicas a card, 2 to 48.
    pub time_slicing_max_replicas: Option<u32>,
    /// Most MPS clients a card, 2 to 48.
    pub mps_max_replicas: Option<u32>,
    /// Refuse pods that ask for more than one replica of a shared card.
    pub fail_requests_greater_than_one: Option<bool>,
    /// Plan for the autoscaler's maximum.
    pub plan_for_hpa_max: Option<bool>,
    /// Extra pods while the workload rolls, whatever is measured or declared.
    pub max_surge: Option<u32>,
    /// How far replicas must be apart, whatever the pool says: `node`, `card` or `none`.
    pub spread: Option<Spread>,
    /// Refuse slices narrower than the workload's kernels.
    pub refuse_latency_stretch: Option<bool>,
    /// What to do with workloads whose request cannot be edited: `deny` or `allow`.
    pub manual_edits: Option<ManualEdits>,
    /// Where each setting stands, `slicewright.yaml:42`, by its name. Filled by whoever read the file.
    #[serde(skip)]
    pub stands_at: BTreeMap<String, String>,
}

impl PolicySettings {
    /// The first value that cannot be meant, as setting and what is wrong with it.
    ///
    /// # Errors
    /// A share outside of 0 to 1, a method that there is not, a profile name that is none.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let shares = [
            ("compute_fill", self.compute_fill),
            ("bandwidth_fill", self.bandwidth_fill),
            ("min_coverage", self.min_coverage),
            ("time_slicing_usable_share", self.time_slicing_usable_share),
            ("time_slicing_compute_limit", self.time_slicing_compute_limit),
        ];
        for (setting, share) in shares {
            if let Some(share) = share
                && !(Ratio::from_ppm(1)..=Ratio::ONE).contains(&share)
            {
                return Err((
                    setting,
                    format!("{share} is not above 0 and at most 1 (75 % is written 0.75)"),
                ));
            }
        }
        if let Some(n) = self.headroom_percent.filter(|n| *n > 1_000) {
            return Err(("headroom_percent", format!("{n} is more than 1,000 percent")));
        }
        let replicas = [
            ("time_slicing_max_replicas", self.time_slicing_max_replicas),
            ("mps_max_replicas", self.mps_max_replicas),
        ];
        for (setting, n) in replicas {
            if let Some(n) = n.filter(|n| !(2..=48).contains(n)) {
                return Err((setting, format!("{n} is not between 2 and 48")));
            }
        }
        if self.methods.iter().flatten().any(|method| *method == Method::KeepWhole) {
            let problem =
                "`keep-whole` is what is left where no method is allowed: write `[]`, or `exclude: true`";
            return Err(("methods", problem.to_owned()));
        }
        if let Some(n) = self.max_surge.filter(|n| *n > 1_000) {
            return Err(("max_surge", format!("{} extra pods are more than 1,000", thousands(u64::from(n)))));
        }
        match &self.min_profile {
            Some(name) if name.parse::<crate::catalog::ProfileName>().is_err() => {
                Err(("min_profile", format!("`{name}` is no MIG profile: it is written like `2g.10gb`")))
            }
            _ => Ok(()),
        }
    }
}
