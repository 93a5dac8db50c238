//! Which line of the configuration holds for one workload.
//!
//! Three steps, each overriding the one before: what holds for all (service, cluster, pool), rules about namespaces and
//! kinds, rules about workloads. So the most specific line wins whatever layer it stands in, and among equals the later.

use std::collections::BTreeMap;
use std::convert::identity;

use serde::{Deserialize, Serialize};

use super::{Policy, PolicySettings};
use crate::inventory::{DeclaredWorkload, Workload, sanitised_label};
use crate::units::Mib;

/// A rule: which workloads, and what holds for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyRule {
    /// What people call the rule; shown beside its number.
    pub name: Option<String>,
    /// Namespaces by name; `*` stands for any run of characters: `dev-*`.
    pub namespaces: Vec<String>,
    /// Namespace labels that must all be there with this value, `*` allowed; keys as Kubernetes spells them.
    pub namespace_labels: BTreeMap<String, String>,
    /// Workloads as `namespace/name`, `*` allowed.
    pub workloads: Vec<String>,
    /// Labels of the pod template or of the workload, as the repository declares them, that must all be there with this
    /// value, `*` allowed.
    pub workload_labels: BTreeMap<String, String>,
    /// Owner kinds: `Notebook`.
    pub kinds: Vec<String>,
    /// What holds for them.
    pub set: PolicySettings,
}

impl PolicyRule {
    /// Whether the rule says whom it is for.
    pub fn selects(&self) -> bool {
        !(self.namespaces.is_empty()
            && self.namespace_labels.is_empty()
            && self.workloads.is_empty()
            && self.workload_labels.is_empty()
            && self.kinds.is_empty())
    }

    /// Whether the rule speaks of this workload. An empty list says nothing; all that are given must match.
    /// A workload that the repository does not declare has no labels.
    pub fn matches(&self, workload: &Workload, declared: Option<&DeclaredWorkload>) -> bool {
        let id = &workload.id;
        let any = |patterns: &[String], text: &str| {
            patterns.is_empty() || patterns.iter().any(|pattern| wildcard(pattern, text))
        };
        let has = |value: Option<&String>, pattern: &str| value.is_some_and(|value| wildcard(pattern, value));
        let label = |key: &str| declared.and_then(|declared| declared.labels.get(key));
        self.selects()
            && any(&self.namespaces, &id.namespace)
            && any(&self.workloads, &id.to_string())
            && (self.kinds.is_empty() || self.kinds.contains(&id.kind))
            && self
                .namespace_labels
                .iter()
                .all(|(key, pattern)| has(workload.namespace_labels.get(&sanitised_label(key)), pattern))
            && self.workload_labels.iter().all(|(key, pattern)| has(label(key), pattern))
    }

    fn step(&self) -> Step {
        if self.workloads.is_empty() && self.workload_labels.is_empty() {
            Step::Namespaces
        } else {
            Step::Workloads
        }
    }
}

/// What a rule is about, the more general first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Namespaces,
    Workloads,
}

/// One layer with its name: `service`, `cluster dc1`, `pool a100-40gb`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer<'a> {
    /// Where the layer stands, for `decided_by`.
    pub name: String,
    /// What holds for all of it.
    pub all: &'a PolicySettings,
    /// Rules in order; of those about the same, later ones win.
    pub rules: &'a [PolicyRule],
}

impl Layer<'_> {
    /// `cluster dc1, rule 2`, with the rule's own name where it has one.
    pub(crate) fn place(&self, n: usize, rule: &PolicyRule) -> String {
        let name = rule.name.as_ref().map_or_else(String::new, |name| format!(" `{name}`"));
        format!("{}, rule {}{name}", self.name, n + 1)
    }
}

/// Resolves the policy of one workload from the built-in defaults and these layers, the outermost first.
pub fn resolve(workload: &Workload, declared: Option<&DeclaredWorkload>, layers: &[Layer<'_>]) -> Policy {
    let mut policy = Policy::default();
    for layer in layers {
        apply(&mut policy, layer.all, &layer.name);
    }
    for step in [Step::Namespaces, Step::Workloads] {
        for layer in layers {
            for (n, rule) in layer.rules.iter().enumerate() {
                if rule.step() == step && rule.matches(workload, declared) {
                    apply(&mut policy, &rule.set, &layer.place(n, rule));
                }
            }
        }
    }
    policy
}

fn apply(policy: &mut Policy, settings: &PolicySettings, place: &str) {
    macro_rules! take {
        ($($setting:ident => $target:expr, $read:expr);* $(;)?) => {$(
            if let Some(value) = settings.$setting.clone() {
                $target = $read(value);
                decided(policy, settings, stringify!($setting), place);
            }
        )*};
    }
    take! {
        production => policy.production, identity;
        exclude => policy.excluded, |exclude: bool| exclude.then(|| format!("excluded by {place}"));
        headroom_percent => policy.headroom_percent, identity;
        headroom_min_mib => policy.headroom_min, Mib;
        compute_fill => policy.compute_fill, identity;
        bandwidth_fill => policy.bandwidth_fill, identity;
        min_history_days => policy.min_history_days, identity;
        min_coverage => policy.min_coverage, identity;
        min_runs => policy.min_runs, identity;
        methods => policy.methods, identity;
        min_profile => policy.min_profile, Some;
        time_slicing_usable_share => policy.time_slicing.usable_share, identity;
        time_slicing_compute_limit => policy.time_slicing.compute_limit, identity;
        time_slicing_max_replicas => policy.time_slicing.max_replicas, identity;
        mps_max_replicas => policy.mps_max_replicas, identity;
        fail_requests_greater_than_one => policy.time_slicing.fail_requests_greater_than_one, identity;
        plan_for_hpa_max => policy.plan_for_hpa_max, identity;
        max_surge => policy.max_surge, Some;
        spread => policy.spread, Some;
        refuse_latency_stretch => policy.refuse_latency_stretch, identity;
        manual_edits => policy.manual_edits, identity;
    }
}

/// Notes who decided, and where that stands.
pub(super) fn decided(policy: &mut Policy, settings: &PolicySettings, setting: &str, place: &str) {
    policy.decided_by.insert(setting.to_owned(), place.to_owned());
    match settings.stands_at.get(setting) {
        Some(at) => policy.stands_at.insert(setting.to_owned(), at.clone()),
        None => policy.stands_at.remove(setting),
    };
}

/// Whether `text` matches `pattern`, where `*` stands for any run of characters and `?` for one, which no Kubernetes name
/// holds itself. Linear in practice, never exponential.
pub fn wildcard(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        if pattern.get(p) == Some(&'*') {
            star = Some((p, t));
            p += 1;
        } else if pattern.get(p) == Some(&'?') || pattern.get(p) == text.get(t) {
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
