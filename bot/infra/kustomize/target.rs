//! Which objects a patch is for, as Kustomize decides it.

use std::collections::BTreeMap;

use regex_lite::Regex;
use slicewright_yaml::Node;

use super::tree::Tree;
use crate::infra::kinds;
use crate::infra::walk;

/// The longest pattern that is compiled.
const MAX_PATTERN: usize = 300;

/// The target of a patch; a part that is not given fits everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Target {
    parts: BTreeMap<&'static str, String>,
}

const PARTS: [&str; 7] =
    ["group", "version", "kind", "name", "namespace", "labelSelector", "annotationSelector"];

/// What a target is compared with.
pub(super) struct Candidate<'c> {
    pub(super) api_version: &'c str,
    pub(super) kind: &'c str,
    /// The name and namespace at first and now.
    pub(super) ids: [(&'c str, Option<&'c str>); 2],
    pub(super) tree: &'c Tree,
}

impl Target {
    pub(super) fn new(node: Node<'_>) -> Self {
        let part = |key: &'static str| Some((key, walk::text(node, key)?.to_owned()));
        Self {
            parts: PARTS.iter().filter_map(|key| part(key)).filter(|(_, text)| !text.is_empty()).collect(),
        }
    }

    /// Whether the target selects an object; the reason says why that cannot be told.
    pub(super) fn selects(&self, candidate: &Candidate<'_>) -> Result<bool, String> {
        let version = candidate.api_version.rsplit('/').next().unwrap_or_default();
        let [first, now] = candidate.ids;
        let namespace = |id: (&str, Option<&str>)| id.1.unwrap_or("default").to_owned();
        let one_of: [(&str, Vec<String>); 5] = [
            ("group", vec![kinds::group(candidate.api_version).to_owned()]),
            ("version", vec![version.to_owned()]),
            ("kind", vec![candidate.kind.to_owned()]),
            ("name", vec![first.0.to_owned(), now.0.to_owned()]),
            ("namespace", vec![namespace(first), namespace(now)]),
        ];
        for (part, values) in one_of {
            let Some(pattern) = self.parts.get(part) else { continue };
            let fits = if pattern.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
                values.contains(pattern)
            } else {
                let regex = anchored(pattern)?;
                values.iter().any(|value| regex.is_match(value))
            };
            if !fits {
                return Ok(false);
            }
        }
        for (part, at) in
            [("labelSelector", "metadata.labels"), ("annotationSelector", "metadata.annotations")]
        {
            if let Some(selector) = self.parts.get(part)
                && !matches(selector, candidate.tree.down(at))?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A whole value must fit, not a part of it.
fn anchored(pattern: &str) -> Result<Regex, String> {
    if pattern.len() > MAX_PATTERN {
        return Err("the target's pattern is too long".to_owned());
    }
    Regex::new(&format!("^(?:{pattern})$"))
        .map_err(|_| format!("the target's pattern `{pattern}` is not read here"))
}

/// A selector of labels: `a=b`, `a==b`, `a!=b`, `a`, `!a`, with commas between.
fn matches(selector: &str, labels: Option<&Tree>) -> Result<bool, String> {
    if selector.contains(['(', ')', '<', '>']) {
        return Err(format!("the selector `{selector}` is not read here"));
    }
    let value = |key: &str| labels.and_then(|labels| labels.get(key.trim())).and_then(Tree::as_str);
    Ok(selector.split(',').map(str::trim).all(|term| {
        if let Some((key, wanted)) = term.split_once("!=") {
            value(key) != Some(wanted.trim())
        } else if let Some((key, wanted)) = term.split_once('=') {
            value(key) == Some(wanted.trim_start_matches('=').trim())
        } else if let Some(key) = term.strip_prefix('!') {
            value(key).is_none()
        } else {
            value(term).is_some()
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(target: &str) -> Result<bool, String> {
        let read = |text: &str| slicewright_yaml::read(text).unwrap();
        let tree =
            Tree::new(read("metadata: {labels: {app: embed, tier: gpu}}").document(0).unwrap()).unwrap();
        let candidate = Candidate {
            api_version: "apps/v1",
            kind: "Deployment",
            ids: [("embed-svc", None), ("dc1-embed-svc", Some("search"))],
            tree: &tree,
        };
        Target::new(read(target).document(0).unwrap()).selects(&candidate)
    }

    #[test]
    fn patterns_must_fit_the_whole_value() {
        assert_eq!(selects("{kind: Deployment, name: embed}"), Ok(false));
        assert_eq!(selects("{kind: Deploy.*, name: embed-.*}"), Ok(true));
        assert_eq!(selects("{name: dc1-embed-svc, namespace: search}"), Ok(true));
        assert_eq!(selects("{name: embed-svc, namespace: default, group: apps, version: v1}"), Ok(true));
        assert_eq!(selects("{group: batch}"), Ok(false));
        assert!(selects("{name: '(?=x)'}").is_err());
    }

    #[test]
    fn label_selectors_are_evaluated() {
        assert_eq!(selects("{labelSelector: 'app=embed,tier!=cpu'}"), Ok(true));
        assert_eq!(selects("{labelSelector: 'app==rank'}"), Ok(false));
        assert_eq!(selects("{labelSelector: '!app'}"), Ok(false));
        assert!(selects("{labelSelector: 'app in (embed)'}").is_err());
    }
}
