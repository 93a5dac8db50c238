//! The lines of the file in which settings stand, so that `explain` can point at them.

use slicewright_core::policy::PolicySettings;
use slicewright_core::policy::rules::PolicyRule;
use slicewright_yaml::{Node, Step};

use super::ServiceSettings;

/// Notes for every policy setting where it stands, `slicewright.yaml:42`. A file that `slicewright_yaml` does not take
/// is read by its other reader all the same: then the lines are not known.
pub(super) fn note(settings: &mut ServiceSettings, text: &str, shown: &str) {
    let Ok(stream) = slicewright_yaml::read(text) else { return };
    let Some(root) = stream.document(0) else { return };
    let lines = Lines { root, text: text.lines().collect(), shown };
    lines.layer(&mut settings.policy, &mut settings.rules, &[]);
    for (i, cluster) in settings.clusters.iter_mut().enumerate() {
        let way = [Step::from("clusters"), Step::from(i)];
        lines.layer(&mut cluster.policy, &mut cluster.rules, &way);
        for (n, pool) in cluster.pools.iter_mut().enumerate() {
            let way = [way[0].clone(), way[1].clone(), Step::from("pools"), Step::from(n)];
            lines.layer(&mut pool.policy, &mut pool.rules, &way);
        }
    }
}

/// The line of `clusters[0].pools[1].name`, or of the nearest part of that way that is there.
pub(super) fn line_of(text: &str, place: &str) -> Option<usize> {
    let stream = slicewright_yaml::read(text).ok()?;
    let root = stream.document(0)?;
    let way: Vec<Step> = place.split(['.', '[']).filter(|part| !part.is_empty()).map(step).collect();
    (1..=way.len()).rev().find_map(|n| root.at(&way[..n])).map(|node| node.line())
}

/// `name` and `1]`, the parts of a place.
fn step(part: &str) -> Step {
    match part.strip_suffix(']').and_then(|index| index.parse::<usize>().ok()) {
        Some(index) => Step::from(index),
        None => Step::from(part),
    }
}

struct Lines<'a> {
    root: Node<'a>,
    text: Vec<&'a str>,
    shown: &'a str,
}

impl Lines<'_> {
    /// The settings of one layer, whose mapping is at the end of `way`.
    fn layer(&self, policy: &mut PolicySettings, rules: &mut [PolicyRule], way: &[Step]) {
        let Some(layer) = self.root.at(way) else { return };
        self.settings(policy, layer.get("policy"));
        let listed = layer.get("rules").into_iter().flat_map(|list| list.items());
        for (rule, node) in rules.iter_mut().zip(listed) {
            self.settings(&mut rule.set, node.get("set"));
        }
    }

    fn settings(&self, settings: &mut PolicySettings, node: Option<Node<'_>>) {
        let entries = node.map(|node| node.entries()).unwrap_or_default();
        settings.stands_at = entries
            .into_iter()
            .map(|(key, value)| (key.to_owned(), format!("{}:{}", self.shown, self.line_of(key, value))))
            .collect();
    }

    /// The line of a key: that of its value, or the nearest one before it where the value is a list of lines.
    fn line_of(&self, key: &str, value: Node<'_>) -> usize {
        let mut before = self.text.iter().take(value.line());
        before.rposition(|line| line.contains(key)).map_or(value.line(), |found| found + 1)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_layer_and_rule_knows_its_lines() {
        let text = "\
policy:
  headroom_percent: 30
  methods:
    - mig
rules:
  - {namespaces: [a], set: {min_runs: 2}}
  - namespaces: [b]
    set:
      # one is enough here
      min_runs: 1
clusters:
  - name: c
    prometheus: {url: 'http://p'}
    repository: {path: r}
    policy: {min_runs: 3}
    pools:
      - name: p
        nodes: .*
        rules:
          - kinds: [Job]
            set: {min_runs: 4}
";
        let settings = ServiceSettings::parse(text, "x.yaml", Path::new(".")).unwrap();
        let at = |settings: &PolicySettings, name: &str| settings.stands_at[name].clone();
        assert_eq!(at(&settings.policy, "headroom_percent"), "x.yaml:2");
        assert_eq!(at(&settings.policy, "methods"), "x.yaml:3");
        assert_eq!(at(&settings.rules[0].set, "min_runs"), "x.yaml:6");
        assert_eq!(at(&settings.rules[1].set, "min_runs"), "x.yaml:10");
        assert_eq!(at(&settings.clusters[0].policy, "min_runs"), "x.yaml:15");
        assert_eq!(at(&settings.clusters[0].pools[0].rules[0].set, "min_runs"), "x.yaml:21");
    }
}
