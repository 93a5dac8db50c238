//! Strategic merge and JSON patches on data, as far as pods need them.
//!
//! Lists other than those merged by `name` are replaced. Kustomize merges a few more of them by other keys; none of
//! these holds resources or node selectors, and a rendering is only ever compared with another one of the same rules.

use std::collections::BTreeMap;

use super::tree::Tree;
use crate::infra::kinds;

/// Whether lists of containers are merged by name in this `apiVersion`. Kustomize knows the schemas of Kubernetes' own
/// kinds; of all others it replaces lists as a whole.
pub(super) fn merges_lists(api_version: &str) -> Result<bool, String> {
    match api_version {
        "v1" | "apps/v1" | "batch/v1" => Ok(true),
        other if matches!(kinds::group(other), "" | "apps" | "batch" | "extensions") => {
            Err(format!("it is not known how Kustomize merges lists of `{other}`"))
        }
        _ => Ok(false),
    }
}

/// Merges a patch into an object. `Ok(false)`: the patch deletes it.
pub(super) fn strategic(tree: &mut Tree, patch: &Tree, lists: bool) -> Result<bool, String> {
    match (patch, directive(patch)?) {
        (Tree::Map(_), Some("delete")) => return Ok(false),
        (Tree::Map(entries), how) => {
            if how == Some("replace") || !matches!(tree, Tree::Map(_)) {
                *tree = Tree::Map(BTreeMap::new());
            }
            let Tree::Map(into) = tree else { return Ok(true) };
            for (key, value) in without_directive(entries) {
                if key.starts_with('$') {
                    return Err(format!("the directive `{key}` is not known here"));
                }
                if value == Tree::Null {
                    into.remove(&key);
                    continue;
                }
                let missing = !into.contains_key(&key);
                let old = into.entry(key.clone()).or_insert(Tree::Null);
                let kept = match (&value, &mut *old) {
                    (Tree::List(patch), old) if lists && is_named(patch) => {
                        let mut items = match old {
                            Tree::List(items) if is_named(items) => std::mem::take(items),
                            Tree::List(_) | Tree::Null | Tree::Scalar { .. } | Tree::Map(_) => Vec::new(),
                        };
                        by_name(&mut items, patch)?;
                        *old = Tree::List(items);
                        true
                    }
                    (Tree::List(patch), old) => {
                        *old = Tree::List(patch.clone());
                        true
                    }
                    (Tree::Map(_), old) => strategic(old, &value, lists)?,
                    (Tree::Null | Tree::Scalar { .. }, old) => {
                        *old = value.clone();
                        true
                    }
                };
                if !kept || (missing && *old == Tree::Null) {
                    into.remove(&key);
                }
            }
        }
        (Tree::Null | Tree::Scalar { .. } | Tree::List(_), _) => {
            return Err("the patch is no mapping".to_owned());
        }
    }
    Ok(true)
}

fn directive(patch: &Tree) -> Result<Option<&str>, String> {
    match patch.get("$patch").map(|found| found.as_str()) {
        None => Ok(None),
        Some(Some(known @ ("delete" | "replace" | "merge"))) => Ok(Some(known)),
        Some(_) => Err("its `$patch` is not known".to_owned()),
    }
}

fn without_directive(entries: &BTreeMap<String, Tree>) -> BTreeMap<String, Tree> {
    let mut entries = entries.clone();
    entries.remove("$patch");
    entries
}

fn is_named(items: &[Tree]) -> bool {
    !items.is_empty() && items.iter().all(|item| item.get("name").is_some_and(|name| name.as_str().is_some()))
}

fn is_deletion(item: &Tree) -> bool {
    item.get("$patch").and_then(Tree::as_str) == Some("delete")
}

/// The most entries of a list that is merged; real ones have a few.
const MAX_NAMED: usize = 500;

/// The patch's entries come first, in its order; then what it does not name. As Kustomize has it, to the surprise of
/// patches that count containers.
fn by_name(items: &mut Vec<Tree>, patch: &[Tree]) -> Result<(), String> {
    if items.len() > MAX_NAMED || patch.len() > MAX_NAMED {
        return Err(format!("a list with more than {MAX_NAMED} named entries is not merged here"));
    }
    let mut left = std::mem::take(items);
    for entry in patch {
        let same = |item: &Tree| item.get("name") == entry.get("name");
        let mut merged = match left.iter().position(same) {
            Some(at) => left.remove(at),
            None if is_deletion(entry) => continue,
            None => Tree::Map(BTreeMap::new()),
        };
        if strategic(&mut merged, entry, true)? {
            items.push(merged);
        }
    }
    items.append(&mut left);
    Ok(())
}

/// The parts of a JSON pointer, unescaped.
pub(super) fn pointer(path: &str) -> Option<Vec<String>> {
    let rest = path.strip_prefix('/')?;
    Some(rest.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect())
}

/// Applies one operation of a JSON patch.
pub(super) fn operation(tree: &mut Tree, operation: &Tree) -> Result<(), String> {
    let text = |key: &str| operation.get(key).and_then(Tree::as_str);
    let path = text("path").ok_or("an operation has no path")?;
    let at = pointer(path).ok_or_else(|| format!("the path `{path}` is not one"))?;
    if matches!(at.first().map(String::as_str), Some("kind" | "apiVersion"))
        || (at.len() < 3
            && at[0] == "metadata"
            && at.get(1).is_none_or(|key| key == "name" || key == "namespace"))
    {
        return Err(format!("`{path}` changes what the object is"));
    }
    let value = || operation.get("value").cloned().unwrap_or(Tree::Null);
    match text("op") {
        Some("add") => put(tree, &at, value(), true),
        Some("replace") => put(tree, &at, value(), false),
        Some("remove") => take(tree, &at).map(|_| ()),
        Some("test") => match find(tree, &at) {
            Some(found) if *found == value() => Ok(()),
            Some(_) | None => Err(format!("the test of `{path}` fails")),
        },
        Some(op @ ("copy" | "move")) => {
            let from = text("from").and_then(pointer).ok_or("an operation has no `from`")?;
            let moved = if op == "move" { Some(take(tree, &from)?) } else { find(tree, &from).cloned() };
            put(tree, &at, moved.ok_or("`from` is not there")?, true)
        }
        Some(_) | None => Err("an operation is not known".to_owned()),
    }
    .map_err(|why| format!("{why} (`{path}`)"))
}

fn find<'t>(tree: &'t Tree, at: &[String]) -> Option<&'t Tree> {
    at.iter().try_fold(tree, |tree, part| match tree {
        Tree::Map(entries) => entries.get(part),
        Tree::List(items) => items.get(index(part)?),
        Tree::Null | Tree::Scalar { .. } => None,
    })
}

fn index(part: &str) -> Option<usize> {
    part.parse().ok().filter(|_| part == "0" || !part.starts_with(['0', '+']))
}

fn parent<'t, 'p>(tree: &'t mut Tree, at: &'p [String]) -> Result<(&'t mut Tree, &'p String), String> {
    let (last, way) = at.split_last().ok_or("the path is empty")?;
    let parent = way.iter().try_fold(tree, |tree, part| match tree {
        Tree::Map(entries) => entries.get_mut(part),
        Tree::List(items) => items.get_mut(index(part)?),
        Tree::Null | Tree::Scalar { .. } => None,
    });
    Ok((parent.ok_or("what the path leads to is not there")?, last))
}

fn put(tree: &mut Tree, at: &[String], value: Tree, add: bool) -> Result<(), String> {
    let (parent, last) = parent(tree, at)?;
    match parent {
        // Kustomize's library replaces keys of mappings that are not there, too.
        Tree::Map(entries) => {
            entries.insert(last.clone(), value);
        }
        Tree::List(items) if add => {
            let position = if last == "-" { items.len() } else { index(last).ok_or("no position")? };
            if position > items.len() {
                return Err("the list is shorter".to_owned());
            }
            items.insert(position, value);
        }
        Tree::List(items) => {
            *index(last).and_then(|position| items.get_mut(position)).ok_or("the list is shorter")? = value;
        }
        Tree::Null | Tree::Scalar { .. } => return Err("there is nothing to replace".to_owned()),
    }
    Ok(())
}

fn take(tree: &mut Tree, at: &[String]) -> Result<Tree, String> {
    let (parent, last) = parent(tree, at)?;
    let taken = match parent {
        Tree::Map(entries) => entries.remove(last),
        Tree::List(items) => {
            index(last).filter(|position| *position < items.len()).map(|position| items.remove(position))
        }
        Tree::Null | Tree::Scalar { .. } => None,
    };
    taken.ok_or_else(|| "there is nothing to remove".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> Tree {
        Tree::new(slicewright_yaml::read(text).unwrap().document(0).unwrap()).unwrap()
    }

    fn check(base: &str, patch: &str, lists: bool, expected: &str) {
        let mut merged = tree(base);
        assert!(strategic(&mut merged, &tree(patch), lists).unwrap());
        assert_eq!(merged, tree(expected));
    }

    #[test]
    fn a_renamed_key_leaves_the_bases_key_unless_null_deletes_it() {
        check("{limits: {gpu: 1}}", "{limits: {mig: 1}}", true, "{limits: {gpu: 1, mig: 1}}");
        check("{limits: {gpu: 1}}", "{limits: {gpu: null, mig: 1}}", true, "{limits: {mig: 1}}");
        check("{}", "{limits: {gpu: null}}", true, "{limits: {}}");
        check(
            "{limits: {gpu: 1}}",
            "{limits: {$patch: replace, mig: 1, cpu: null}}",
            true,
            "{limits: {mig: 1}}",
        );
        check("{}", "{l: [{name: a, gpu: null}]}", true, "{l: [{name: a}]}");
        check("{}", "{l: [{name: a, gpu: null}]}", false, "{l: [{name: a, gpu: null}]}");
    }

    #[test]
    fn containers_merge_by_name_and_those_of_the_patch_come_first() {
        let base = "{containers: [{name: a, image: x}, {name: b}]}";
        let patch = "{containers: [{name: c}, {name: a, tty: true}]}";
        check(base, patch, true, "{containers: [{name: c}, {name: a, image: x, tty: true}, {name: b}]}");
        check(
            base,
            "{containers: [{name: b, tty: true}]}",
            true,
            "{containers: [{name: b, tty: true}, {name: a, image: x}]}",
        );
        check(base, patch, false, patch);
        check(base, "{containers: [{name: a, $patch: delete}]}", true, "{containers: [{name: b}]}");
    }

    #[test]
    fn operations_fail_where_kustomize_fails() {
        let check = |op: &str, expected: Option<&str>| {
            let mut patched = tree("{a: {b/c: 1}, l: [x, y]}");
            let outcome = operation(&mut patched, &tree(op));
            assert_eq!(outcome.ok().map(|()| patched), expected.map(tree), "{op}");
        };
        check("{op: replace, path: /a/b~1c, value: 2}", Some("{a: {b/c: 2}, l: [x, y]}"));
        check("{op: replace, path: /a/d, value: 2}", Some("{a: {b/c: 1, d: 2}, l: [x, y]}"));
        check("{op: replace, path: /l/2, value: 2}", None);
        check("{op: add, path: /z/d, value: 2}", None);
        check("{op: remove, path: /a/d}", None);
        check("{op: add, path: /l/-, value: z}", Some("{a: {b/c: 1}, l: [x, y, z]}"));
        check("{op: remove, path: /l/0}", Some("{a: {b/c: 1}, l: [y]}"));
        check("{op: move, from: /a/b~1c, path: /a/d}", Some("{a: {d: 1}, l: [x, y]}"));
        check("{op: replace, path: /metadata/name, value: x}", None);
    }
}
