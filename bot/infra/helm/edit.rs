//! The edit of a release's values, and its proof.

use std::collections::BTreeMap;

use slicewright_yaml::{Document, Edit, Op, Shared, Step, Value};

use super::Target;
use super::release::Release;
use super::values::{Form, Layer, Nulls, Tree, at, merged, parameter, under};
use crate::infra::manifest::{PRODUCT, is_gpu};
use crate::infra::workload_edit::{Wish, product};

/// The two mappings of a container's resources.
pub(super) const SIDES: [&str; 2] = ["limits", "requests"];

/// One change of a layer.
enum Change {
    /// Another key with the same value.
    Rename {
        path: Vec<String>,
        to: String,
        position: Option<usize>,
        /// The text stands at an anchor.
        borrowed: bool,
    },
    Put {
        path: Vec<String>,
        value: Value,
    },
}

/// What `text` gives for a file as it stands.
pub(super) type Texts<'t> = &'t dyn Fn(&str) -> Option<String>;

/// Lets the values of a release ask for something else: the files that change, with their new text.
///
/// The layers are read again: together they must hold what was meant and nothing else.
pub(super) fn apply(
    release: &Release,
    target: &Target,
    wish: &Wish<'_>,
    texts: Texts<'_>,
) -> Result<BTreeMap<String, String>, String> {
    let mut layers = release.layers.clone();
    for layer in &mut layers {
        layer.load(&texts(&layer.path).ok_or_else(|| format!("`{}` is gone", layer.path))?)?;
    }
    let (mut changes, own) = resources(&layers, release, target, wish)?;
    changes.extend(pins(&layers, target, wish, own)?);
    let mut changed: BTreeMap<String, String> = BTreeMap::new();
    for (number, layer) in layers.iter().enumerate() {
        let own: Vec<&Change> =
            changes.iter().filter(|(at, _)| *at == number).map(|(_, change)| change).collect();
        if own.is_empty() {
            continue;
        }
        let text = match changed.get(&layer.path) {
            Some(text) => text.clone(),
            None => texts(&layer.path).unwrap_or_default(),
        };
        changed.insert(layer.path.clone(), write(layer, &text, &own)?);
    }
    if !changed.is_empty() {
        check(&layers, target, wish, &changed)?;
    }
    Ok(changed)
}

/// Changes with the number of their layer.
type Changes = Vec<(usize, Change)>;

/// The changes of the resources, and the layer that the release's other changes belong to.
fn resources(
    layers: &[Layer],
    release: &Release,
    target: &Target,
    wish: &Wish<'_>,
) -> Result<(Changes, Option<usize>), String> {
    let mut changes = Vec::new();
    let mut own = None;
    let mut asks = false;
    for path in &target.resources {
        for side in SIDES {
            let path = under(path, side);
            let now = merged(layers, &path);
            let winner = now.iter().filter(|(key, _)| is_gpu(key)).map(|(_, found)| found.layer).max();
            if wish.from == wish.to {
                asks |= winner.is_some();
                own = own.max(winner.map(|winner| own_layer(layers, winner)).transpose()?);
                continue;
            }
            asks |= now.contains_key(wish.to);
            let Some(found) = now.get(wish.from) else { continue };
            asks = true;
            let written = found.entry.text().unwrap_or_default();
            if let Some(count) = wish.count
                && written.parse() != Ok(count)
            {
                return Err(format!(
                    "`{}` asks for {written} of `{}`, and the plan is for {count}",
                    layers[found.layer].place(found.entry),
                    wish.from
                ));
            }
            if now.contains_key(wish.to) {
                return Err(format!("its values ask for `{}` already, beside `{}`", wish.to, wish.from));
            }
            if let Some((unread, n_weaker)) = &release.unread
                && found.layer < *n_weaker
            {
                return Err(format!("values from {unread}, which are not looked into, may set it again"));
            }
            let chosen = own_layer(layers, found.layer)?;
            own = own.max(Some(chosen));
            let (from, to) = (under(&path, wish.from), under(&path, wish.to));
            let below = layers[..chosen].iter().enumerate().find(|(_, layer)| layer.sets(&from));
            let Some((default, _)) = below else {
                changes.push((
                    chosen,
                    Change::Rename {
                        path: from,
                        to: wish.to.to_owned(),
                        position: found.entry.position,
                        borrowed: found.entry.borrowed,
                    },
                ));
                continue;
            };
            let default =
                layers[default].get(&from).map_or_else(String::new, |entry| layers[default].place(entry));
            match layers[chosen].nulls {
                Nulls::Kept => {}
                Nulls::Dropped => {
                    return Err(format!(
                        "`{default}` is a default that Helm takes away only by `null`, and a `null` in `{}` does not \
                         outlive the next apply",
                        layers[chosen].path
                    ));
                }
                Nulls::Default => {
                    return Err(format!(
                        "`{default}` sets it as well, and a `null` in `{}` would stay in what is rendered",
                        layers[chosen].path
                    ));
                }
            }
            let value = written
                .parse()
                .map(Value::Integer)
                .map_err(|_| format!("`{}` is not a whole number", layers[found.layer].place(found.entry)))?;
            changes.push((chosen, Change::Put { path: from, value: Value::Null }));
            changes.push((chosen, Change::Put { path: to, value }));
        }
    }
    if !asks {
        return Err(format!("it does not ask for `{}`", wish.from));
    }
    Ok((changes, own))
}

/// The layer to write to for something that `winner` decides: itself, or the strongest above that is the release's own.
fn own_layer(layers: &[Layer], winner: usize) -> Result<usize, String> {
    let Some(why) = &layers[winner].locked else { return Ok(winner) };
    let above = (winner + 1..layers.len())
        .rev()
        .find(|number| layers[*number].locked.is_none() && layers[*number].form != Form::Parameters);
    above.ok_or_else(|| why.clone())
}

/// The changes of the node selector.
fn pins(layers: &[Layer], target: &Target, wish: &Wish<'_>, own: Option<usize>) -> Result<Changes, String> {
    let mut changes = Vec::new();
    if wish.pin.is_empty() {
        return Ok(changes);
    }
    let Some(path) = &target.node_selector else {
        return Err("no key of its values is known to be its node selector".to_owned());
    };
    let now = merged(layers, path);
    for (key, value) in wish.pin {
        match now.get(key.as_str()).and_then(|found| found.entry.text()) {
            Some(old) if old == value => continue,
            Some(old) if key == PRODUCT && product(old) == product(value) => {}
            Some(old) => {
                return Err(format!("its node selector asks for `{key}: {old}`, the plan needs `{value}`"));
            }
            None => {}
        }
        // Beside what it selects already, else beside the resources.
        let beside = layers.iter().rposition(|layer| {
            let filled = |tree: &Tree| matches!(tree, Tree::Map(entries) if !entries.is_empty());
            layer.locked.is_none()
                && layer.form != Form::Parameters
                && layer.get(path).is_some_and(|entry| filled(&entry.tree))
        });
        let layer = match (now.get(key.as_str()), beside) {
            (Some(found), _) => own_layer(layers, found.layer)?,
            (None, Some(beside)) => beside,
            (None, None) => own_layer(layers, own.unwrap_or_default())?,
        };
        changes.push((layer, Change::Put { path: under(path, key), value: value.as_str().into() }));
    }
    Ok(changes)
}

fn write(layer: &Layer, text: &str, changes: &[&Change]) -> Result<String, String> {
    let document = Document::Index(layer.document);
    let embedded = layer.form == Form::Embedded;
    let way = |inside: Vec<Step>| if embedded { inside } else { [layer.prefix.clone(), inside].concat() };
    let steps = |path: &[String]| path.iter().map(|key| Step::Key(key.clone())).collect::<Vec<Step>>();
    let mut edits = Vec::new();
    for change in changes {
        let (at, op) = match change {
            Change::Rename { path, to, position: Some(position), .. } => {
                let (_, above) = path.split_last().ok_or_else(|| "it has no name".to_owned())?;
                let value = parameter(&under(above, to)).into();
                (way(vec![(*position).into(), "name".into()]), Op::Set { value })
            }
            Change::Rename { path, to, position: None, .. } => {
                (way(steps(path)), Op::RenameKey { to: to.clone() })
            }
            Change::Put { .. } if layer.form == Form::Parameters => {
                return Err(format!("`{}` sets it as a parameter", layer.path));
            }
            Change::Put { path, value } => (way(steps(path)), Op::Put { value: value.clone() }),
        };
        let document = if embedded { Document::Index(0) } else { document.clone() };
        edits.push(Edit { document, at, op, shared: Shared::Refuse });
    }
    let refusal = match if embedded {
        slicewright_yaml::edit_embedded(text, &document, &layer.prefix, &edits)
    } else {
        slicewright_yaml::edit(text, &edits)
    } {
        Ok(changed) => return Ok(changed),
        Err(refusal) => refusal,
    };
    // Once more at the anchors themselves, where the whole document is values, so that [`check`] sees all that follows.
    let own: Vec<Edit> = edits
        .into_iter()
        .zip(changes)
        .filter(|(_, change)| !matches!(change, Change::Rename { borrowed: true, .. }))
        .map(|(edit, _)| Edit { shared: Shared::Edit, ..edit })
        .collect();
    let whole = layer.form == Form::Tree && layer.prefix.is_empty();
    let again = (whole && !own.is_empty()).then(|| slicewright_yaml::edit(text, &own).ok()).flatten();
    again.ok_or_else(|| format!("`{}`: {refusal}", layer.path))
}

/// Reads the changed layers again: the release must ask for the new resource wherever it asked for the old one, select
/// what the plan says, and keep every other value.
fn check(
    before: &[Layer],
    target: &Target,
    wish: &Wish<'_>,
    changed: &BTreeMap<String, String>,
) -> Result<(), String> {
    let mut after = before.to_vec();
    for layer in &mut after {
        if let Some(text) = changed.get(&layer.path) {
            layer.load(text)?;
        }
    }
    let mut expected = flat(before);
    for path in target.resources.iter().flat_map(|path| SIDES.map(|side| under(path, side))) {
        if wish.from != wish.to
            && let Some(value) = expected.remove(&under(&path, wish.from))
        {
            expected.insert(under(&path, wish.to), value);
        }
    }
    if let Some(path) = &target.node_selector {
        for (key, value) in wish.pin {
            expected.insert(under(path, key), value.clone());
        }
    }
    if flat(&after) != expected {
        return Err("the edit would change other values too".to_owned());
    }
    Ok(())
}

/// Every value that Helm makes of the layers, by path; lists as a whole.
fn flat(layers: &[Layer]) -> BTreeMap<Vec<String>, String> {
    let mut paths = std::collections::BTreeSet::new();
    for layer in layers {
        layer.root.every(&mut |path, entry| {
            let whole: Option<Vec<String>> = path.iter().map(|key| key.map(ToOwned::to_owned)).collect();
            if let Some(path) = whole
                && !matches!(entry.tree, Tree::Map(_))
            {
                paths.insert(path);
            }
        });
    }
    paths
        .into_iter()
        .filter_map(|path| {
            let found = at(layers, &path)?;
            let mut text = String::new();
            found.entry.every(&mut |path, entry| {
                text.push_str(&format!("{path:?}={:?};", entry.text()));
            });
            let text = found.entry.text().map_or(text, ToOwned::to_owned);
            Some((path, text))
        })
        .collect()
}

/// The values as they have to be written, for people.
pub(super) fn by_hand(target: &Target, release: &Release, wish: &Wish<'_>) -> String {
    let layers = &release.layers;
    let mut root = Vec::new();
    for path in target.resources.iter().flat_map(|path| SIDES.map(|side| under(path, side))) {
        let now = merged(layers, &path);
        let Some(found) = now.get(wish.from).filter(|_| wish.from != wish.to) else { continue };
        let n_setting = layers.iter().filter(|layer| layer.sets(&under(&path, wish.from))).count();
        let locked = layers[found.layer].locked.is_some();
        if n_setting > 1 || locked {
            root.push((under(&path, wish.from), "null".to_owned()));
        }
        let count = wish
            .count
            .map_or_else(|| found.entry.text().unwrap_or("1").to_owned(), |count| count.to_string());
        root.push((under(&path, wish.to), count));
    }
    let selector = target.node_selector.clone().unwrap_or_else(|| vec!["nodeSelector".to_owned()]);
    for (key, value) in wish.pin {
        root.push((under(&selector, key), crate::infra::text::yaml(value)));
    }
    let name = release.name.as_deref().unwrap_or("this chart");
    let root: Lines =
        root.into_iter().map(|(path, value)| (path.into_iter().map(Step::Key).collect(), value)).collect();
    format!("# values of `{}`\n{}", crate::infra::text::one_line(name), nested(&root))
}

/// Values with the ways to them.
pub(super) type Lines = Vec<(Vec<Step>, String)>;

/// Values by their ways, as block YAML; entries of lists are told by their position.
pub(super) fn nested(values: &[(Vec<Step>, String)]) -> String {
    let mut text = String::new();
    let mut above: &[Step] = &[];
    for (path, value) in values {
        let shared = above.iter().zip(path).take_while(|(a, b)| a == b).count();
        for (depth, step) in path.iter().enumerate().skip(shared) {
            let indent = "  ".repeat(depth);
            let end = if depth + 1 == path.len() { format!(" {value}") } else { String::new() };
            match step {
                Step::Key(key) => {
                    text.push_str(&format!("{indent}{}:{end}\n", crate::infra::text::yaml(key)));
                }
                Step::Position(n) => text.push_str(&format!("{indent}- # entry {}\n", n + 1)),
            }
        }
        above = path;
    }
    text
}
