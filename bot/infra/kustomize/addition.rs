//! A new patch: its text, and its entry in the kustomization that lists it.

use slicewright_yaml::{Document, Edit, Op, Shared, Step, Value};

use super::carrier::{self, Aim, Carrier};
use super::layer::Source;
use super::parent;
use super::render::{Files, Made};
use super::tree::Delta;
use crate::infra::kinds;
use crate::infra::repository::is_plain_path;
use crate::infra::text::yaml;

/// The file of a patch that the bot makes, beside its kustomization.
pub(super) fn patch_name(kind: &str, name: &str) -> String {
    format!("slicewright-{}-{name}.yaml", kind.to_ascii_lowercase())
}

/// Adds a patch to a kustomization: inline where all of its patches are, else a file beside it.
pub(super) fn add_patch<'r>(
    files: &Files<'r>,
    path: &str,
    made: &Made,
    deltas: &[Delta],
    aim: Aim<'_>,
) -> Result<Files<'r>, String> {
    let outer = files.text(path).ok_or("its kustomization is gone")?.to_owned();
    let layer = files.layer(parent(path))?;
    let (name, namespace) = made.ids.first().ok_or("it has no name")?;
    let folder = parent(path);
    let file = patch_name(&made.kind, name);
    let new = if folder.is_empty() { file.clone() } else { format!("{folder}/{file}") };
    if !is_plain_path(&new) || name.contains(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '.'))
    {
        return Err(format!("`{name}` is not a name that files can have"));
    }
    let in_lists = deltas.iter().any(|delta| match delta {
        Delta::Set(at, _) | Delta::Unset(at) => at.iter().any(|step| matches!(step, Step::Position(_))),
    });
    let operations = in_lists && !aim.lists;
    let text = if operations {
        carrier::operations(deltas)
    } else {
        let mut seed = format!(
            "apiVersion: {}\nkind: {}\nmetadata:\n  name: {}\n",
            made.api_version,
            made.kind,
            yaml(name)
        );
        if let Some(namespace) = namespace {
            seed.push_str(&format!("  namespace: {}\n", yaml(namespace)));
        }
        let carrier = Carrier { source: Source::File(new.clone()), document: 0, operations: false };
        carrier.with(&files.with(&new, seed), deltas, aim)?
    };
    let mut entry = Vec::new();
    if operations {
        let version = made.api_version.rsplit('/').next().unwrap_or_default();
        let group = kinds::group(&made.api_version);
        let parts = [
            ("group", Some(group)),
            ("version", Some(version)),
            ("kind", Some(made.kind.as_str())),
            ("name", Some(name.as_str())),
            ("namespace", namespace.as_deref()),
        ];
        let part = |(key, value): (&str, Option<&str>)| Some((key.to_owned(), Value::from(value?)));
        entry.push(("target".to_owned(), Value::Mapping(parts.into_iter().filter_map(part).collect())));
    }
    let style = Style::of(files, path, layer.document)?;
    let (at, op) = if style == Style::Inline {
        entry.push(("patch".to_owned(), Value::String(text.trim_end().to_owned())));
        (vec!["patches".into()], Op::Append { value: Value::Mapping(entry) })
    } else {
        if files.repository.all.contains_key(new.as_str()) || files.repository.unread.contains(new.as_str()) {
            return Err(format!("`{new}` exists already"));
        }
        entry.insert(0, ("path".to_owned(), Value::from(file.as_str())));
        match style {
            Style::Merges if !operations => {
                (vec!["patchesStrategicMerge".into()], Op::Append { value: Value::from(file.as_str()) })
            }
            Style::Files => (vec!["patches".into()], Op::Append { value: Value::Mapping(entry) }),
            Style::None | Style::Merges | Style::Inline => {
                let value = Value::Sequence(vec![Value::Mapping(entry)]);
                (vec!["patches".into()], Op::Put { value })
            }
        }
    };
    let edit = Edit { document: Document::Index(layer.document), at, op, shared: Shared::Refuse };
    let listed = slicewright_yaml::edit(&outer, &[edit]).map_err(|refusal| format!("`{path}`: {refusal}"))?;
    let flush = is_flush(files, path, layer.document)?;
    let listed = if flush && style == Style::None { unindented(&outer, &listed) } else { listed };
    let files = files.with(path, listed);
    if style == Style::Inline {
        return Ok(files);
    }
    let text = if flush { lists_unindented(&text) } else { text };
    let text = if outer.contains("\r\n") { text.replace('\n', "\r\n") } else { text };
    Ok(files.with(&new, text))
}

/// Whether the kustomization writes the dashes of its lists below the first letter of their keys.
fn is_flush(files: &Files<'_>, path: &str, document: usize) -> Result<bool, String> {
    let parsed = files.parsed(path)?;
    let root = parsed.documents().nth(document).ok_or("its kustomization is gone")?;
    let mut lists = root.entries().into_iter().filter(|(_, value)| value.is_sequence());
    Ok(lists.any(|(_, list)| list.column() == root.column()))
}

/// `new` with the lines that it has more than `old`, below the first of them, two columns to the left.
fn unindented(old: &str, new: &str) -> String {
    let (old, lines): (Vec<&str>, Vec<&str>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let same = old.iter().zip(&lines).take_while(|(old, new)| old.trim_end() == new.trim_end()).count();
    let added = same + lines.len().saturating_sub(old.len());
    let shifted = lines.iter().enumerate().map(|(at, line)| {
        if at > same && at < added { line.strip_prefix("  ").unwrap_or(line) } else { line }
    });
    shifted.collect()
}

/// A new patch with the dashes of its containers below the first letter of their key.
fn lists_unindented(text: &str) -> String {
    let mut list: Option<usize> = None;
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let indent = line.len() - line.trim_start().len();
        let inside = list.is_some_and(|list| indent > list);
        if !inside {
            list = matches!(line.trim(), "containers:" | "initContainers:").then_some(indent);
        }
        out.push_str(if inside { line.strip_prefix("  ").unwrap_or(line) } else { line });
    }
    out
}

/// How a kustomization has its patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// No list of patches yet.
    None,
    /// `patches`, some of them files.
    Files,
    /// `patches`, all of them inline.
    Inline,
    /// `patchesStrategicMerge` alone.
    Merges,
}

impl Style {
    fn of(files: &Files<'_>, path: &str, document: usize) -> Result<Self, String> {
        let parsed = files.parsed(path)?;
        let root = parsed.documents().nth(document).ok_or("its kustomization is gone")?;
        let list = |key: &str| root.get(key).filter(|list| list.items().len() > 0);
        Ok(match (list("patches"), list("patchesStrategicMerge")) {
            (Some(patches), _) if patches.items().all(|entry| entry.get("patch").is_some()) => Self::Inline,
            (Some(_), _) => Self::Files,
            (None, Some(_)) => Self::Merges,
            (None, None) => Self::None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_lines_move_to_the_left_and_others_stay() {
        let old = "resources:\n- a\nimages:\n  - b\n";
        let new = "resources:\n- a\nimages:\n  - b\npatches:\n  - path: c\n    target: {}\n";
        assert_eq!(
            unindented(old, new),
            "resources:\n- a\nimages:\n  - b\npatches:\n- path: c\n  target: {}\n"
        );
        assert_eq!(unindented("a: 1", "a: 1\npatches:\n  - b"), "a: 1\npatches:\n- b");
        let patch = "spec:\n  containers:\n    - name: a\n      resources: {}\n  nodeSelector:\n    b: c\n";
        let flush = "spec:\n  containers:\n  - name: a\n    resources: {}\n  nodeSelector:\n    b: c\n";
        assert_eq!(lists_unindented(patch), flush);
    }
}
