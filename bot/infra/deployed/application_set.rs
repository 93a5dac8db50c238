//! Argo CD's `Application` and `ApplicationSet`: destinations, sources, and the generators that need no cluster.

use std::collections::{BTreeMap, BTreeSet};

use slicewright_core::policy::rules::wildcard;
use slicewright_yaml::Node;

use super::super::kustomize::resolve;
use super::super::repository::Parsed;
use super::super::walk;
use super::{Deployed, Given, folder, has_folder};

/// Parameters of a template, by the name that it calls them.
pub(super) type Params = BTreeMap<String, String>;

/// No set is made out further than this.
const MOST_APPLICATIONS: usize = 2_000;

/// Branches that may be the one that is read.
const DEFAULT_BRANCHES: [&str; 4] = ["", "HEAD", "main", "master"];

/// Whether the destination is one of those wanted.
///
/// # Errors
/// Why it cannot be told.
pub(super) fn destination(
    spec: Node<'_>,
    params: &Params,
    wanted: &BTreeSet<String>,
) -> Result<bool, String> {
    for key in ["destination.name", "destination.server"] {
        if let Some(text) = walk::text(spec, key).filter(|text| !text.is_empty()) {
            return Ok(wanted.contains(&filled(text, params)?));
        }
    }
    Err("the application has no destination".to_owned())
}

/// Adds the folders and values files of an application's sources.
pub(super) fn sources(
    texts: &BTreeMap<&str, &str>,
    spec: Node<'_>,
    params: &Params,
    place: &str,
    deployed: &mut Deployed,
) {
    let many = spec.get("sources").into_iter().flat_map(|list| list.items());
    for source in spec.get("source").into_iter().chain(many) {
        let revision = walk::text(source, "targetRevision").unwrap_or_default();
        let from_chart = walk::text(source, "chart").is_some();
        let written = walk::text(source, "path");
        if !from_chart && !DEFAULT_BRANCHES.contains(&revision) && written.is_some() {
            deployed.notes.insert(format!(
                "{place}: it follows `{revision}`, which may not be the branch that is read: its folder was left out"
            ));
            continue;
        }
        let own = match written.map(|text| filled(text, params)).transpose() {
            Ok(own) => own,
            Err(why) => {
                deployed.notes.insert(format!("{place}: {why}"));
                continue;
            }
        };
        // A folder that is not here is in another repository.
        let own = own.and_then(|text| folder(&text)).filter(|found| has_folder(texts, found));
        if let Some(own) = &own {
            deployed.paths.insert(own.clone());
            match given(spec, source, params) {
                Ok(given) => {
                    deployed.given.entry(own.clone()).or_default().insert(given);
                }
                Err(why) => {
                    deployed.notes.insert(format!("{place}: {why}"));
                }
            }
        }
        let files = walk::down(source, "helm.valueFiles").into_iter().flat_map(|list| list.items());
        for text in files.filter_map(|file| file.as_str()) {
            match filled(text, params) {
                Ok(text) => {
                    deployed.paths.extend(values_file(texts, own.as_deref().unwrap_or_default(), &text));
                }
                Err(why) => {
                    deployed.notes.insert(format!("{place}: {why}"));
                }
            }
        }
    }
}

/// What an application gives to the objects of a source.
fn given(spec: Node<'_>, source: Node<'_>, params: &Params) -> Result<Given, String> {
    let text =
        |node: Node<'_>, dotted: &str| walk::text(node, dotted).map(|text| filled(text, params)).transpose();
    let forced = text(source, "kustomize.namespace")?;
    Ok(Given {
        all: forced.is_some(),
        namespace: forced.or(text(spec, "destination.namespace")?),
        prefix: text(source, "kustomize.namePrefix")?.unwrap_or_default(),
        suffix: text(source, "kustomize.nameSuffix")?.unwrap_or_default(),
    })
}

/// A values file: beside the chart, from the repository's root, or of a source with a name (`$values/…`).
fn values_file(texts: &BTreeMap<&str, &str>, chart: &str, text: &str) -> Option<String> {
    let found = match text.strip_prefix('$').and_then(|text| text.split_once('/')) {
        Some((_, rest)) => resolve("", rest),
        None => match text.strip_prefix('/') {
            Some(rest) => resolve("", rest),
            None => resolve(chart.trim_end_matches('/'), text),
        },
    };
    found.filter(|path| texts.contains_key(path.as_str()))
}

/// Adds what a set's applications run.
pub(super) fn read(
    texts: &BTreeMap<&str, &str>,
    set: Node<'_>,
    place: &str,
    destinations: &BTreeSet<String>,
    deployed: &mut Deployed,
) {
    let Some(spec) = walk::down(set, "spec.template.spec") else { return };
    let path = place.trim_matches('`').rsplit_once(':').map_or(place, |(path, _)| path).to_owned();
    let generators = walk::down(set, "spec.generators").into_iter().flat_map(|list| list.items());
    for generator in generators {
        let made = match generated(texts, generator, destinations, 0) {
            Ok(made) => made,
            Err(why) => {
                deployed.notes.insert(format!("{place}: {why}"));
                continue;
            }
        };
        for params in made.into_iter().take(MOST_APPLICATIONS) {
            match destination(spec, &params, destinations) {
                Ok(true) => {
                    deployed.paths.insert(path.clone());
                    sources(texts, spec, &params, place, deployed);
                }
                Ok(false) => {}
                Err(why) => {
                    deployed.notes.insert(format!("{place}: {why}"));
                }
            }
        }
    }
}

/// The parameters of every application that a generator makes.
fn generated(
    texts: &BTreeMap<&str, &str>,
    generator: Node<'_>,
    destinations: &BTreeSet<String>,
    depth: usize,
) -> Result<Vec<Params>, String> {
    if generator.get("selector").is_some() {
        return Err("a generator with a selector was not evaluated".to_owned());
    }
    let (name, own) = generator.entries().into_iter().next().ok_or("an empty generator was not evaluated")?;
    match name {
        "list" => {
            let elements = own.get("elements").into_iter().flat_map(|list| list.items());
            Ok(elements.map(|element| flat(element, "")).collect())
        }
        "clusters" if own.get("selector").is_none() => {
            let extra = own.get("values").map(|values| flat(values, "values.")).unwrap_or_default();
            Ok(destinations.iter().map(|text| cluster(text, &extra)).collect())
        }
        "clusters" => Err("which clusters a label selector means is not in the repository".to_owned()),
        "git" => {
            if own.get("files").is_some() {
                return Ok(files(texts, own));
            }
            Ok(directories(texts, own))
        }
        "matrix" if depth == 0 => {
            let parts = own.get("generators").into_iter().flat_map(|list| list.items());
            let mut made = vec![Params::new()];
            for part in parts {
                let more = generated(texts, part, destinations, depth + 1)?;
                made = made
                    .iter()
                    .flat_map(|known| {
                        more.iter().map(|new| known.clone().into_iter().chain(new.clone()).collect())
                    })
                    .take(MOST_APPLICATIONS)
                    .collect();
            }
            Ok(made)
        }
        other => Err(format!("a generator `{other}` was not evaluated")),
    }
}

/// A destination as the cluster generator gives it.
fn cluster(destination: &str, extra: &Params) -> Params {
    let mut params = extra.clone();
    let key = if destination.contains("://") { "server" } else { "name" };
    params.insert(key.to_owned(), destination.to_owned());
    if key == "name" {
        params.insert("nameNormalized".to_owned(), destination.to_lowercase());
    }
    params
}

/// The scalars of a mapping, nested keys joined by dots.
fn flat(node: Node<'_>, prefix: &str) -> Params {
    let mut params = Params::new();
    let mut open = vec![(prefix.to_owned(), node, 0)];
    while let Some((prefix, node, depth)) = open.pop() {
        for (key, value) in node.entries() {
            let name = format!("{prefix}{key}");
            match value.as_str() {
                Some(text) => {
                    params.insert(name, text.to_owned());
                }
                None if depth < 8 => open.push((format!("{name}."), value, depth + 1)),
                None => {}
            }
        }
    }
    params
}

/// What the git generator says of a path; of a file that of its folder.
fn of_path(folder: &str) -> Params {
    let base = folder.rsplit('/').next().unwrap_or_default();
    let mut params = Params::from([
        ("path".to_owned(), folder.to_owned()),
        ("path.path".to_owned(), folder.to_owned()),
        ("path.basename".to_owned(), base.to_owned()),
        ("path.basenameNormalized".to_owned(), base.to_lowercase().replace('_', "-")),
    ]);
    for (i, part) in folder.split('/').enumerate() {
        params.insert(format!("path[{i}]"), part.to_owned());
    }
    params
}

fn directories(texts: &BTreeMap<&str, &str>, git: Node<'_>) -> Vec<Params> {
    let mut wanted: Vec<(&str, bool)> = Vec::new();
    for entry in git.get("directories").into_iter().flat_map(|list| list.items()) {
        if let Some(path) = walk::text(entry, "path") {
            wanted.push((path, walk::text(entry, "exclude") == Some("true")));
        }
    }
    let folders: BTreeSet<&str> =
        texts.keys().flat_map(|path| path.match_indices('/').map(|(at, _)| &path[..at])).collect();
    let meets = |folder: &str, excluded: bool| {
        wanted.iter().any(|(glob, exclude)| *exclude == excluded && matches(glob, folder))
    };
    folders.into_iter().filter(|folder| meets(folder, false) && !meets(folder, true)).map(of_path).collect()
}

fn files(texts: &BTreeMap<&str, &str>, git: Node<'_>) -> Vec<Params> {
    let globs: Vec<&str> = git
        .get("files")
        .into_iter()
        .flat_map(|list| list.items())
        .filter_map(|entry| walk::text(entry, "path"))
        .collect();
    let mut made = Vec::new();
    for (path, text) in texts.iter().filter(|(path, _)| globs.iter().any(|glob| matches(glob, path))) {
        // JSON is YAML.
        let Ok(parsed) = Parsed::new(text) else { continue };
        for root in parsed.documents() {
            let mut params = flat(root, "");
            params.extend(of_path(path.rsplit_once('/').map_or("", |(folder, _)| folder)));
            made.push(params);
        }
    }
    made
}

/// No path has so many folders; the number bounds the work on hostile globs.
const MOST_PARTS: usize = 32;

fn plain(path: &str) -> &str {
    path.trim_start_matches("./").trim_matches('/')
}

/// Globs as Argo CD reads them: `*` within a part, `**` for any number of parts.
fn matches(glob: &str, path: &str) -> bool {
    fn parts(glob: &[&str], path: &[&str]) -> bool {
        match (glob.split_first(), path.split_first()) {
            (None, None) => true,
            (Some((&"**", rest)), _) => {
                parts(rest, path) || path.split_first().is_some_and(|(_, below)| parts(glob, below))
            }
            (Some((part, rest)), Some((name, below))) => wildcard(part, name) && parts(rest, below),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
    let glob: Vec<&str> = plain(glob).split('/').take(MOST_PARTS).collect();
    let path: Vec<&str> = plain(path).split('/').collect();
    parts(&glob, &path)
}

/// A text with its parameters filled in: `{{ name }}` and `{{ .name }}`.
///
/// # Errors
/// A parameter that is not known, or a function.
fn filled(text: &str, params: &Params) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        filled.push_str(before);
        let Some((inside, behind)) = after.split_once("}}") else { break };
        let name = inside.trim().trim_start_matches('.');
        match params.get(name) {
            Some(value) => filled.push_str(value),
            None => return Err(format!("`{{{{{inside}}}}}` in `{text}` was not evaluated")),
        }
        rest = behind;
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_are_read_part_by_part() {
        for (glob, path, meets) in [
            ("apps/*", "apps/a", true),
            ("apps/*", "apps/a/b", false),
            ("apps/**", "apps/a/b", true),
            ("apps/**/x", "apps/a/b/x", true),
            ("apps/*-gpu", "apps/llm-gpu", true),
            ("apps/*-gpu", "apps/llm-cpu", false),
            ("./apps/a*c*e", "apps/abcde", true),
            ("apps", "apps", true),
            ("*", "apps", true),
        ] {
            assert_eq!(matches(glob, path), meets, "{glob} {path}");
        }
    }
}
