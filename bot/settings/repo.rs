//! What an infrastructure repository may say about itself, in `.slicewright.yaml` on its default branch.
//!
//! Whoever may write to the repository may write this file, so that it only narrows what the service's configuration
//! allows. It is read at the commit that a run reads, never from a branch that somebody proposes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use slicewright_core::plan::pool::Pool;
use slicewright_core::policy::freeze::{Freeze, Window};
use slicewright_core::policy::rules::{PolicyRule, wildcard};
use slicewright_core::policy::{PolicySettings, narrow};
use slicewright_core::review::limits::Limits;

use super::{lines, wording};

/// Where the file stands in the repository.
pub const PLACE: &str = ".slicewright.yaml";

/// Most bytes that are read. One of a large company has some 5 KiB.
const LARGEST: usize = 256 << 10;

/// Most characters of what is wrong with it.
const LONGEST_PROBLEM: usize = 600;

/// The file. Every field is documented in `config/repo-example.yaml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RepoSettings {
    /// Nothing is opened, updated or closed while this is `true`.
    pub paused: bool,
    /// What holds for every workload, where it is stricter than the service's configuration.
    pub policy: PolicySettings,
    /// What holds for some.
    pub rules: Vec<PolicyRule>,
    /// Nodes that must not be touched, `dc1-lab-*`.
    pub frozen_nodes: BTreeSet<String>,
    /// Windows in which nothing is opened, updated or closed.
    pub freeze: Vec<Freeze>,
    /// How many proposals there may be, and when they are made; of two limits the lower holds.
    pub proposals: Limits,
    /// More labels of new merge requests.
    pub labels: Vec<String>,
}

impl RepoSettings {
    /// Reads the file's content.
    ///
    /// # Errors
    /// What is wrong, with line and column, in words for the people of the repository.
    pub fn parse(content: &[u8]) -> Result<Self, String> {
        // It becomes a comment, and the file's own words in it may be long.
        let broken = |problem: &str| match problem.char_indices().nth(LONGEST_PROBLEM) {
            Some((end, _)) => format!("`{PLACE}` cannot be used: {}…", &problem[..end]),
            None => format!("`{PLACE}` cannot be used: {problem}"),
        };
        if content.len() > LARGEST {
            return Err(broken(&format!(
                "it has {} bytes, more than the {LARGEST} that are read",
                content.len()
            )));
        }
        let text = std::str::from_utf8(content).map_err(|_| broken("it is not UTF-8 text"))?;
        let nothing = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
        if text.lines().all(nothing) {
            return Ok(Self::default());
        }
        let settings: Self =
            serde_saphyr::from_str(text).map_err(|error| broken(&wording::worded(&error)))?;
        settings.check().map_err(|(place, problem)| {
            let line = lines::line_of(text, &place).map_or_else(String::new, |n| format!(" (line {n})"));
            broken(&format!("`{place}`{line}: {problem}"))
        })?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), (String, String)> {
        narrow::check(&self.policy).map_err(|(setting, problem)| (format!("policy.{setting}"), problem))?;
        for (n, rule) in self.rules.iter().enumerate() {
            let place = format!("rules[{n}]");
            narrow::check(&rule.set)
                .map_err(|(setting, problem)| (format!("{place}.set.{setting}"), problem))?;
            super::service::check_selectors(rule, &place)?;
        }
        for (n, freeze) in self.freeze.iter().enumerate() {
            freeze.check().map_err(|(setting, problem)| (format!("freeze[{n}].{setting}"), problem))?;
        }
        if self.frozen_nodes.iter().any(|pattern| pattern.trim().is_empty()) {
            return Err(("frozen_nodes".to_owned(), "an empty name freezes no node".to_owned()));
        }
        let fits =
            |label: &&String| label.trim().is_empty() || label.chars().count() > 50 || label.contains(',');
        if let Some(label) = self.labels.iter().find(fits) {
            let problem = format!("`{}` is no label: 1 to 50 characters, no comma", label.escape_debug());
            return Err(("labels".to_owned(), problem));
        }
        self.proposals.check().map_err(|(setting, problem)| (format!("proposals.{setting}"), problem))
    }

    /// Adds frozen nodes and windows to the pools.
    pub fn freeze(&self, pools: &mut [Pool]) {
        for pool in pools {
            let frozen = |node: &&String| self.frozen_nodes.iter().any(|pattern| wildcard(pattern, node));
            let nodes: Vec<String> = pool.nodes.iter().filter(frozen).cloned().collect();
            pool.frozen.extend(nodes);
            let windows =
                self.freeze.iter().map(|freeze| Window { freeze: freeze.clone(), place: PLACE.to_owned() });
            pool.freeze.extend(windows);
        }
    }
}

/// The settings of a repository's files; the default where it has no such file.
///
/// # Errors
/// As [`RepoSettings::parse`], and when the file is there and was not read.
pub fn read(
    files: &BTreeMap<String, Vec<u8>>,
    skipped: &BTreeMap<String, String>,
) -> Result<RepoSettings, String> {
    match (files.get(PLACE), skipped.get(PLACE)) {
        (Some(content), _) => RepoSettings::parse(content),
        (None, Some(why)) => Err(format!("`{PLACE}` cannot be used: {why}")),
        (None, None) if is_there(files, skipped) => {
            Err(format!("`{PLACE}` cannot be used: it is a folder, and only a file is read"))
        }
        (None, None) => Ok(RepoSettings::default()),
    }
}

/// Whether the repository has something of that name, be it a file, a link or a folder.
pub fn is_there(files: &BTreeMap<String, Vec<u8>>, skipped: &BTreeMap<String, String>) -> bool {
    let below = format!("{PLACE}/");
    let is_it = |path: &String| path == PLACE || path.starts_with(&below);
    files.keys().chain(skipped.keys()).any(is_it)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const EXAMPLE: &str = include_str!("../../config/repo-example.yaml");

    fn error(text: &str) -> String {
        RepoSettings::parse(text.as_bytes()).unwrap_err()
    }

    fn uncommented() -> String {
        EXAMPLE.lines().map(|line| format!("{}\n", line.strip_prefix("#:").unwrap_or(line))).collect()
    }

    fn schema() -> Value {
        serde_json::from_str(include_str!("../../config/repo-schema.json")).unwrap()
    }

    fn keys(value: &Value) -> BTreeSet<&str> {
        value.as_object().unwrap().keys().map(String::as_str).collect()
    }

    #[test]
    fn no_file_and_an_empty_one_say_nothing() {
        let files = |text: &str| [(PLACE.to_owned(), text.as_bytes().to_vec())].into();
        assert_eq!(read(&[].into(), &[].into()), Ok(RepoSettings::default()));
        assert_eq!(read(&files("# nothing yet\n"), &[].into()), Ok(RepoSettings::default()));
        assert!(read(&files("paused: true\n"), &[].into()).unwrap().paused);
        let skipped = [(PLACE.to_owned(), "a symlink, which is never followed".to_owned())].into();
        assert!(read(&[].into(), &skipped).unwrap_err().contains("symlink"));
        let folder = [(format!("{PLACE}/a"), Vec::new())].into();
        assert!(read(&folder, &[].into()).unwrap_err().contains("it is a folder"));
    }

    #[test]
    fn an_error_names_line_and_column_and_the_way_out() {
        for (text, said) in [
            ("paused: maybe\n", "must be `true` or `false` at line 1, column 9"),
            ("a: 1\n", "no setting is called `a` here; there are `paused`"),
            (
                "policy:\n  production: false\n",
                "`policy.production` (line 2): a repository can only make the policy stricter",
            ),
            ("rules:\n  - {set: {exclude: true}}\n", "`rules[0]` (line 2): says nothing about whom"),
            ("freeze: [{weekly: []}]\n", "`freeze[0].from` (line 1): says no day"),
            ("frozen_nodes: ['']\n", "`frozen_nodes` (line 1)"),
            ("labels: ['a,b']\n", "`labels` (line 1): `a,b` is no label"),
            ("proposals: {max_open: 0}\n", "`proposals.max_open` (line 1)"),
            ("- a\n", "must be a mapping"),
            ("paused: [\n", "at line 1, column 9"),
        ] {
            let message = error(text);
            assert!(message.starts_with("`.slicewright.yaml` cannot be used: "), "{message}");
            assert!(message.contains(said), "`{said}` is missing in: {message}");
        }
        assert!(RepoSettings::parse(b"\xff").unwrap_err().contains("UTF-8"));
        let large = vec![b'#'; LARGEST + 1];
        assert!(RepoSettings::parse(&large).unwrap_err().contains("more than the"));
    }

    #[test]
    fn a_hostile_file_is_refused_and_said_in_few_words() {
        let deep = format!("rules: {}", "[".repeat(200_000));
        let deep_map = format!("rules: {}", "{a: ".repeat(50_000));
        let aliases = {
            let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
            for n in 1..9 {
                let list = vec![format!("*a{}", n - 1); 10].join(", ");
                text.push_str(&format!("a{n}: &a{n} [{list}]\n"));
            }
            text + "frozen_nodes: *a8\n"
        };
        let long_key = format!("{}: 1\n", "k".repeat(200_000));
        let long_value = format!("paused: {}\n", "v".repeat(200_000));
        let nul = "paused: \"\\0\"\n".to_owned();
        let label = format!("labels: ['{}']\n", "l".repeat(200_000));
        let node = format!("frozen_nodes: [{}]\n", vec!["''"; 50_000].join(","));
        for text in [deep, deep_map, aliases, long_key, long_value, nul, label, node] {
            let message = error(&text);
            assert!(message.len() < 1_000, "{} bytes: {}", message.len(), &message[..300]);
        }
    }

    #[test]
    fn the_example_works_and_follows_the_schema_that_editors_use() {
        let text = uncommented();
        RepoSettings::parse(text.as_bytes()).unwrap();
        let validator = jsonschema::validator_for(&schema()).unwrap();
        for text in [EXAMPLE, text.as_str(), "paused: true\n"] {
            let value: Value = serde_saphyr::from_str(text).unwrap();
            let errors: Vec<_> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{errors:?}");
        }
        for text in [
            "a: 1",
            "policy: {production: false}",
            "rules: [{set: {exclude: true}}]",
            "proposals: {max_open: 0}",
        ] {
            let value: Value = serde_saphyr::from_str(text).unwrap();
            assert!(!validator.is_valid(&value) && RepoSettings::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn schema_and_settings_name_the_same_things() {
        let schema = schema();
        let all = serde_json::to_value(RepoSettings::default()).unwrap();
        assert_eq!(keys(&schema["properties"]), keys(&all));
        assert_eq!(keys(&schema["properties"]["proposals"]["properties"]), keys(&all["proposals"]));
        let of = |definition: &str| keys(&schema["$defs"][definition]["properties"]);
        assert_eq!(of("policy"), keys(&all["policy"]));
        assert_eq!(of("rule"), keys(&serde_json::to_value(PolicyRule::default()).unwrap()));
        assert_eq!(of("freeze"), keys(&serde_json::to_value(Freeze::default()).unwrap()));
        let hours = slicewright_core::review::limits::Hours::default();
        assert_eq!(of("hours"), keys(&serde_json::to_value(hours).unwrap()));
        for key in of("policy").into_iter().chain(of("rule")).chain(keys(&all)) {
            assert!(
                key == "max_surge" || uncommented().contains(&format!("{key}:")),
                "`{key}` is not in the example"
            );
        }
    }
}
