//! Headroom, evidence gates and what may share with what, resolved for one workload.
//!
//! Settings are layered: built-in default, service, cluster, pool; in each layer what holds for all, then its rules in
//! order. Each value remembers which line decided, so that `explain` can say so.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::inventory::Workload;
use crate::units::{Mib, Ratio};

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
    /// Plan for the autoscaler's maximum, not for the replicas of now.
    pub plan_for_hpa_max: bool,
    /// Refuse slices whose kernels are wider than the slice, instead of naming the latency risk.
    pub refuse_latency_stretch: bool,
    /// What to do with workloads whose request cannot be edited.
    pub manual_edits: ManualEdits,
    /// Which line decided a value that is not the default, by the setting's name.
    pub decided_by: BTreeMap<String, String>,
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
            plan_for_hpa_max: true,
            refuse_latency_stretch: false,
            manual_edits: ManualEdits::Deny,
            decided_by: BTreeMap::new(),
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
            "min_profile" => self.min_profile.clone().unwrap_or_default(),
            "time_slicing_usable_share" => self.time_slicing.usable_share.to_string(),
            "time_slicing_compute_limit" => self.time_slicing.compute_limit.to_string(),
            "time_slicing_max_replicas" => self.time_slicing.max_replicas.to_string(),
            "fail_requests_greater_than_one" => self.time_slicing.fail_requests_greater_than_one.to_string(),
            "plan_for_hpa_max" => self.plan_for_hpa_max.to_string(),
            "refuse_latency_stretch" => self.refuse_latency_stretch.to_string(),
            "manual_edits" => match self.manual_edits {
                ManualEdits::Deny => "deny".to_owned(),
                ManualEdits::Allow => "allow".to_owned(),
            },
            _ => String::new(),
        }
    }

    /// The method may be used for this workload.
    pub fn allows(&self, method: Method) -> bool {
        self.methods.contains(&method) && (!self.production || method != Method::TimeSlicing)
    }
}

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
    /// Refuse pods that ask for more than one replica of a shared card.
    pub fail_requests_greater_than_one: Option<bool>,
    /// Plan for the autoscaler's maximum.
    pub plan_for_hpa_max: Option<bool>,
    /// Refuse slices narrower than the workload's kernels.
    pub refuse_latency_stretch: Option<bool>,
    /// What to do with workloads whose request cannot be edited: `deny` or `allow`.
    pub manual_edits: Option<ManualEdits>,
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
        if let Some(n) = self.time_slicing_max_replicas.filter(|n| !(2..=48).contains(n)) {
            return Err(("time_slicing_max_replicas", format!("{n} is not between 2 and 48")));
        }
        let methods = self.methods.iter().flatten();
        if let Some(method) = methods.into_iter().find(|m| !matches!(m, Method::Mig | Method::TimeSlicing)) {
            return Err((
                "methods",
                format!("`{}` cannot be asked for yet: use `mig`, `time-slicing` or both", method.name()),
            ));
        }
        match &self.min_profile {
            Some(name) if name.parse::<crate::catalog::ProfileName>().is_err() => {
                Err(("min_profile", format!("`{name}` is no MIG profile: it is written like `2g.10gb`")))
            }
            _ => Ok(()),
        }
    }
}

/// A rule: which workloads, and what holds for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyRule {
    /// Namespaces by name; `*` stands for any run of characters: `dev-*`.
    pub namespaces: Vec<String>,
    /// Namespace labels that must all be there with this value; keys as Kubernetes spells them.
    pub namespace_labels: BTreeMap<String, String>,
    /// Workloads as `namespace/name`, `*` allowed.
    pub workloads: Vec<String>,
    /// Owner kinds: `Notebook`.
    pub kinds: Vec<String>,
    /// What holds for them.
    pub set: PolicySettings,
}

impl PolicyRule {
    /// Whether the rule speaks of this workload. An empty list says nothing; all that are given must match.
    pub fn matches(&self, workload: &Workload) -> bool {
        let id = &workload.id;
        let any = |patterns: &[String], text: &str| {
            patterns.is_empty() || patterns.iter().any(|pattern| wildcard(pattern, text))
        };
        let given = !(self.namespaces.is_empty()
            && self.namespace_labels.is_empty()
            && self.workloads.is_empty()
            && self.kinds.is_empty());
        given
            && any(&self.namespaces, &id.namespace)
            && any(&self.workloads, &id.to_string())
            && (self.kinds.is_empty() || self.kinds.contains(&id.kind))
            && self.namespace_labels.iter().all(|(key, value)| {
                workload.namespace_labels.get(&crate::inventory::sanitised_label(key)) == Some(value)
            })
    }
}

/// One layer with its name, outermost first: `service`, `cluster dc1`, `pool a100-40gb`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer<'a> {
    /// Where the layer stands, for `decided_by`.
    pub name: String,
    /// What holds for all of it.
    pub all: &'a PolicySettings,
    /// Rules in order; later ones win.
    pub rules: &'a [PolicyRule],
}

/// Resolves the policy of one workload: the built-in defaults, then layer by layer.
pub fn policy(workload: &Workload, layers: &[Layer<'_>]) -> Policy {
    let mut policy = Policy::default();
    for layer in layers {
        apply(&mut policy, layer.all, &layer.name);
        for (n, rule) in layer.rules.iter().enumerate() {
            if rule.matches(workload) {
                apply(&mut policy, &rule.set, &format!("{}, rule {}", layer.name, n + 1));
            }
        }
    }
    policy
}

fn apply(policy: &mut Policy, settings: &PolicySettings, place: &str) {
    macro_rules! take {
        ($($setting:ident => $target:expr),* $(,)?) => {$(
            if let Some(value) = settings.$setting.clone() {
                $target = value;
                policy.decided_by.insert(stringify!($setting).to_owned(), place.to_owned());
            }
        )*};
    }
    take! {
        production => policy.production,
        headroom_percent => policy.headroom_percent,
        compute_fill => policy.compute_fill,
        bandwidth_fill => policy.bandwidth_fill,
        min_history_days => policy.min_history_days,
        min_coverage => policy.min_coverage,
        min_runs => policy.min_runs,
        methods => policy.methods,
        time_slicing_usable_share => policy.time_slicing.usable_share,
        time_slicing_compute_limit => policy.time_slicing.compute_limit,
        time_slicing_max_replicas => policy.time_slicing.max_replicas,
        fail_requests_greater_than_one => policy.time_slicing.fail_requests_greater_than_one,
        plan_for_hpa_max => policy.plan_for_hpa_max,
        refuse_latency_stretch => policy.refuse_latency_stretch,
        manual_edits => policy.manual_edits,
    }
    if let Some(mib) = settings.headroom_min_mib {
        policy.headroom_min = Mib(mib);
        policy.decided_by.insert("headroom_min_mib".into(), place.to_owned());
    }
    if let Some(profile) = &settings.min_profile {
        policy.min_profile = Some(profile.clone());
        policy.decided_by.insert("min_profile".into(), place.to_owned());
    }
    if let Some(exclude) = settings.exclude {
        policy.excluded = exclude.then(|| format!("excluded by {place}"));
        policy.decided_by.insert("exclude".into(), place.to_owned());
    }
}

/// Whether `text` matches `pattern`, where `*` stands for any run of characters. Linear in practice, never exponential.
pub fn wildcard(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        if pattern.get(p) == Some(&'*') {
            star = Some((p, t));
            p += 1;
        } else if pattern.get(p) == text.get(t) {
            p += 1;
            t += 1;
        } else if let Some((at, from)) = star {
            p = at + 1;
            t = from + 1;
            star = Some((at, from + 1));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::WorkloadId;

    fn workload(namespace: &str) -> Workload {
        Workload {
            id: WorkloadId::new("StatefulSet", namespace, "nb-a"),
            gpus_per_pod: 1,
            resource: "nvidia.com/gpu".into(),
            containers: BTreeSet::new(),
            replicas: 1,
            hpa_max: None,
            max_surge: None,
            pods: Vec::new(),
            namespace_labels: BTreeMap::from([("env".into(), "dev".into())]),
        }
    }

    fn rule(namespaces: &[&str], set: PolicySettings) -> PolicyRule {
        PolicyRule {
            namespaces: namespaces.iter().map(|text| (*text).to_owned()).collect(),
            set,
            ..PolicyRule::default()
        }
    }

    #[test]
    fn unknown_means_production() {
        assert!(policy(&workload("anything"), &[]).production);
    }

    #[test]
    fn the_last_matching_line_decides_and_is_named() {
        let none = PolicySettings::default();
        let dev = PolicySettings { production: Some(false), ..PolicySettings::default() };
        let rules = [rule(&["dev-*"], dev.clone())];
        let layers = [Layer { name: "service".into(), all: &none, rules: &rules }];
        let got = policy(&workload("dev-ml"), &layers);
        assert!(!got.production);
        assert_eq!(got.decided_by["production"], "service, rule 1");
        assert!(policy(&workload("prod"), &layers).production);
        let by_label = [PolicyRule {
            namespace_labels: BTreeMap::from([("env".into(), "dev".into())]),
            set: dev,
            ..PolicyRule::default()
        }];
        let layers = [Layer { name: "cluster x".into(), all: &none, rules: &by_label }];
        assert!(!policy(&workload("prod"), &layers).production);
    }

    #[test]
    fn a_rule_without_a_selector_matches_nothing() {
        assert!(!PolicyRule::default().matches(&workload("a")));
    }

    #[test]
    fn production_never_time_slices() {
        assert!(!Policy::default().allows(Method::TimeSlicing));
        assert!(Policy { production: false, ..Policy::default() }.allows(Method::TimeSlicing));
    }

    #[test]
    fn needs_round_up() {
        let policy = Policy::default();
        assert_eq!(policy.memory_need(Mib(1_000)), Mib(1_512));
        assert_eq!(policy.memory_need(Mib(7_987)), Mib(9_585));
        assert_eq!(policy.compute_need_milli(Ratio::from_ppm(190_000)), 254);
    }

    #[test]
    fn wildcards_match_runs_of_characters() {
        for (pattern, text, expected) in
            [("dev-*", "dev-a", true), ("*", "", true), ("a*b*c", "axxbyyc", true), ("a*b", "ac", false)]
        {
            assert_eq!(wildcard(pattern, text), expected, "{pattern} {text}");
        }
    }
}
