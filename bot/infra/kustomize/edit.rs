//! The edit that lets one root render another resource for one workload: in the base where nobody else uses it, in the
//! patch that sets the GPU, or in a patch more.
//!
//! Every way is tried on a copy and rendered: the workload must come out exactly as intended, and everything else of the
//! root as before. Only files that nothing but this root reads are edited, so that no other root can differ.

use std::collections::{BTreeMap, BTreeSet};

use super::addition::add_patch;
use super::carrier::{Aim, Carrier};
use super::layer::Source;
use super::render::{Files, Made, Rendering, render};
use super::tree::{Delta, Tree, differences};
use super::{Variant, merge, parent};
use crate::infra::manifest::{Finding, find};
use crate::infra::repository::{Object, Repository, is_kustomization};
use crate::infra::workload_edit::{Wish, apply, selects};

/// The files that differ, by path.
pub(in crate::infra) type Edited = BTreeMap<String, String>;

/// Makes one root ask for something else for one workload, or says why that cannot be done here.
pub(in crate::infra) fn edit(
    repository: &Repository<'_>,
    edited: &Edited,
    finding: &Finding,
    variant: &Variant,
    wish: &Wish<'_>,
) -> Result<Edited, String> {
    edit_of(&Files::new(repository, edited.clone()), finding, variant, wish)
}

/// As [`edit`], of these files.
pub(in crate::infra) fn edit_of(
    files: &Files<'_>,
    finding: &Finding,
    variant: &Variant,
    wish: &Wish<'_>,
) -> Result<Edited, String> {
    let repository = files.repository;
    let graph = repository.graph();
    let Some(root) = &variant.root else {
        let users = graph.users(&finding.path);
        if !users.is_empty() {
            return Err(format!(
                "`{}` is read by {}, outside of the cluster's files",
                finding.path,
                listed(&users)
            ));
        }
        if let Some(why) = graph.applied_twice(&finding.path) {
            return Err(why);
        }
        let (before, text) = (files.parsed(&finding.path)?, files.text(&finding.path).unwrap_or_default());
        return Ok(BTreeMap::from([(finding.path.clone(), apply(&before, text, finding, wish)?)]));
    };
    let folder = parent(root).to_owned();
    let users = graph.users(&folder);
    if users.len() > 1 {
        return Err(format!("`{root}` is used more than once: {}", listed(&users)));
    }
    let foreign = |user: &&String| is_kustomization(user) && !repository.texts.contains_key(user.as_str());
    if let Some(user) = users.iter().find(foreign) {
        return Err(format!("`{root}` is taken in by `{user}`, which is not among the cluster's files"));
    }
    if let Some(place) = graph.several(&folder) {
        return Err(format!("an ApplicationSet may apply `{root}` to more than one cluster (`{place}`)"));
    }
    let before = files.rendered(&folder, &finding.path)?;
    let made = made_of(&before, &finding.path, &finding.object, variant)?;
    if let Some(place) = made.layers.iter().find_map(|layer| graph.patched(layer)) {
        return Err(format!("what applies the overlay patches its pods once more (`{place}`)"));
    }
    if let Some(doubt) = made.doubts.first() {
        return Err(doubt.clone());
    }
    let wanted = intended(made, wish)?;
    if wanted == made.tree {
        return Ok(BTreeMap::new());
    }
    let way = Way { files, folder: &folder, users: &users, finding, variant, wanted: &wanted };
    let after = match way.in_base(&before, wish) {
        Some(outcome) => outcome?,
        None => way.in_overlay(wish)?,
    };
    Ok(after.edited.into_iter().filter(|(path, text)| files.text(path) != Some(text)).collect())
}

/// The object of a rendering that a variant speaks of.
pub(super) fn made_of<'m>(
    rendering: &'m Rendering,
    path: &str,
    object: &Object,
    variant: &Variant,
) -> Result<&'m Made, String> {
    position(rendering, path, object, variant)
        .and_then(|at| rendering.objects.get(at).ok_or_else(|| "Kustomize does not render it".to_owned()))
}

fn position(rendering: &Rendering, path: &str, object: &Object, variant: &Variant) -> Result<usize, String> {
    let is_it = |made: &Made| {
        made.is_from(path, object)
            && made.now() == (variant.rendered.0.as_str(), variant.rendered.1.as_deref())
    };
    let mut found = rendering.objects.iter().enumerate().filter(|(_, made)| is_it(made)).map(|(at, _)| at);
    match (found.next(), found.next()) {
        (Some(at), None) => Ok(at),
        (Some(_), Some(_)) => Err("its root makes it twice".to_owned()),
        (None, _) => Err("Kustomize does not render it under this name".to_owned()),
    }
}

/// The object as it should be rendered.
fn intended(made: &Made, wish: &Wish<'_>) -> Result<Tree, String> {
    let parsed = made.parsed();
    let found = parsed
        .objects
        .first()
        .and_then(|object| find(&made.path, &parsed, object))
        .ok_or_else(|| format!("it does not ask for `{}`", wish.from))?;
    if found.claims {
        return Err("its pods claim devices by dynamic resource allocation as well".to_owned());
    }
    let mut wanted = made.tree.clone();
    if wish.from != wish.to {
        let asks = |resource: &str| found.requests.iter().any(|request| request.resource == resource);
        if !asks(wish.from) && !asks(wish.to) {
            return Err(format!("it does not ask for `{}`", wish.from));
        }
        for request in found.requests.iter().filter(|request| request.resource == wish.from) {
            if let Some(count) = wish.count
                && request.value.parse() != Ok(count)
            {
                return Err(format!(
                    "container `{}` asks for {} of `{}`, and the plan is for {count}",
                    request.container, request.value, wish.from
                ));
            }
            let Some(Tree::Map(entries)) = wanted.at_mut(&request.mapping) else { continue };
            if entries.contains_key(wish.to) {
                return Err(format!("it asks for both `{}` and `{}`", wish.from, wish.to));
            }
            if let Some(value) = entries.remove(wish.from) {
                entries.insert(wish.to.to_owned(), value);
            }
        }
    }
    for pod in &found.pods {
        let Some(pod) = wanted.at_mut(pod) else { continue };
        for (key, value) in wish.pin {
            let old = pod.get("nodeSelector").and_then(|selector| selector.get(key)).and_then(Tree::as_str);
            if !selects(old, key, value)? {
                let selector = pod.mapping_mut("nodeSelector").ok_or("its node selector is no mapping")?;
                selector.insert(key.clone(), Tree::text(value));
            }
        }
    }
    Ok(wanted)
}

fn shared(path: &str, users: &BTreeSet<String>) -> String {
    format!(
        "`{path}` is shared by more than one overlay ({}): an edit there would change them all",
        listed(users)
    )
}

fn listed(users: &BTreeSet<String>) -> String {
    users.iter().map(|user| format!("`{user}`")).collect::<Vec<_>>().join(", ")
}

/// Writes differences into a copy of the files.
type Write<'w, 'r> = dyn Fn(&Files<'r>, &[Delta], Aim<'_>) -> Result<Files<'r>, String> + 'w;

/// One workload of one root on its way to what is wanted.
struct Way<'w, 'r> {
    files: &'w Files<'r>,
    folder: &'w str,
    users: &'w BTreeSet<String>,
    finding: &'w Finding,
    variant: &'w Variant,
    wanted: &'w Tree,
}

impl<'r> Way<'_, 'r> {
    fn made<'m>(&self, rendering: &'m Rendering) -> Result<&'m Made, String> {
        made_of(rendering, &self.finding.path, &self.finding.object, self.variant)
    }

    /// Nothing but this root reads the file, and it is one of the cluster's.
    fn owns(&self, path: &str) -> bool {
        let new = !self.files.repository.all.contains_key(path);
        self.files.is_own(path) && (new || self.files.repository.graph().users(path) == *self.users)
    }

    /// The edit where the object stands. `None`: it would not do, or would do more.
    fn in_base(&self, before: &Rendering, wish: &Wish<'_>) -> Option<Result<Files<'r>, String>> {
        let path = &self.finding.path;
        if !self.owns(path) {
            return None;
        }
        let text = self.files.text(path)?;
        match self.files.parsed(path).and_then(|before| apply(&before, text, self.finding, wish)) {
            Ok(changed) => {
                let after = self.files.with(path, changed);
                self.prove(before, &after, Some(path)).ok().map(|()| Ok(after))
            }
            Err(why) => {
                let patched = self.made(before).is_ok_and(|made| !made.touches.is_empty());
                if patched { None } else { Some(Err(why)) }
            }
        }
    }

    /// The edit in patches: of one that sets the GPU, of one that there is, or of a new one.
    fn in_overlay(&self, wish: &Wish<'_>) -> Result<Files<'r>, String> {
        let before = render(self.files, self.folder, None)?;
        let made = self.made(&before)?;
        let mut carriers: Vec<Carrier> = Vec::new();
        for touch in &made.touches {
            let carrier = Carrier::of(touch);
            if self.owns(carrier.path()) && !carriers.contains(&carrier) {
                carriers.push(carrier);
            }
        }
        let mut last_error = None;
        let mut renamed = self.files.clone();
        let mut holder = None;
        if wish.from != wish.to {
            for carrier in &carriers {
                match carrier.renamed(&renamed, wish.from, wish.to) {
                    Ok(Some(text)) => {
                        renamed = renamed.with(carrier.path(), text);
                        holder = Some(carrier);
                    }
                    Ok(None) => {}
                    Err(why) => last_error = Some(why),
                }
            }
        }
        if let Some(holder) = holder {
            match self.finish(&before, &renamed, &|files, deltas, aim| files_with(holder, files, deltas, aim))
            {
                Ok(after) => return Ok(after),
                Err(why) => last_error = Some(why),
            }
        }
        let merging =
            carriers.iter().rev().filter(|carrier| !carrier.operations || names_gpu(carrier, self.files));
        for carrier in merging {
            let write =
                |files: &Files<'r>, deltas: &[Delta], aim: Aim<'_>| files_with(carrier, files, deltas, aim);
            match self.finish(&before, self.files, &write) {
                Ok(after) => return Ok(after),
                Err(why) => last_error = last_error.or(Some(why)),
            }
        }
        // The innermost kustomization first; components and the one that lists the object only where there is no other.
        let mut layers: Vec<&String> = made.layers.iter().collect();
        layers.sort_by_key(|layer| {
            let is_component = self.files.layer(layer).is_ok_and(|layer| layer.is_component);
            is_component || layer.as_str() == made.folder()
        });
        for layer in layers {
            let Some(path) =
                self.files.repository.graph().kustomization(layer).filter(|path| self.owns(path))
            else {
                continue;
            };
            let write =
                |files: &Files<'r>, deltas: &[Delta], aim: Aim<'_>| add_patch(files, path, made, deltas, aim);
            match self.finish(&before, self.files, &write) {
                Ok(after) => return Ok(after),
                Err(why) => last_error = last_error.or(Some(why)),
            }
        }
        // Operations that run after all of these may undo them, so that what is missing can only stand in their list.
        for carrier in carriers.iter().rev().filter(|carrier| carrier.operations) {
            let write =
                |files: &Files<'r>, deltas: &[Delta], aim: Aim<'_>| files_with(carrier, files, deltas, aim);
            if let Ok(after) = self.finish(&before, self.files, &write) {
                return Ok(after);
            }
        }
        Err(last_error.unwrap_or_else(|| {
            let path = &self.finding.path;
            let users = self.files.repository.graph().users(path);
            if users.len() > 1 {
                format!("{}, and no kustomization above it is this cluster's alone", shared(path, &users))
            } else {
                format!("`{path}` and the kustomizations above it are not among the cluster's files")
            }
        }))
    }

    /// Renders `files`, lets `write` write what is still missing, and proves the outcome.
    fn finish(
        &self,
        before: &Rendering,
        files: &Files<'r>,
        write: &Write<'_, 'r>,
    ) -> Result<Files<'r>, String> {
        let now = render(files, self.folder, None)?;
        let made = self.made(&now)?;
        if let Some(doubt) = made.doubts.first() {
            return Err(doubt.clone());
        }
        let deltas = differences(&made.tree, self.wanted)?;
        let after = if deltas.is_empty() {
            files.clone()
        } else {
            let aim = Aim { wanted: self.wanted, lists: merge::merges_lists(&made.api_version)? };
            write(files, &deltas, aim)?
        };
        self.prove(before, &after, None)?;
        Ok(after)
    }

    /// The workload is as it is wanted, and everything else of the root as it was.
    fn prove(&self, before: &Rendering, after: &Files<'r>, only: Option<&str>) -> Result<(), String> {
        let now = render(after, self.folder, only)?;
        let at = position(before, &self.finding.path, &self.finding.object, self.variant)?;
        if before.objects.len() != now.objects.len() {
            return Err("the edit would change what its root holds".to_owned());
        }
        for (index, (old, new)) in before.objects.iter().zip(&now.objects).enumerate() {
            let wanted = if index == at { self.wanted } else { &old.tree };
            let same = (&old.path, old.document, &old.ids) == (&new.path, new.document, &new.ids);
            if !same || new.tree != *wanted || new.doubts != old.doubts {
                let (name, _) = old.now();
                return Err(if index == at {
                    "the edit would not lead to what is wanted".to_owned()
                } else {
                    format!("the edit would change {} `{name}` too", old.kind)
                });
            }
        }
        Ok(())
    }
}

fn files_with<'r>(
    carrier: &Carrier,
    files: &Files<'r>,
    deltas: &[Delta],
    aim: Aim<'_>,
) -> Result<Files<'r>, String> {
    let text = carrier.with(files, deltas, aim)?;
    Ok(files.with(carrier.path(), text))
}

fn names_gpu(carrier: &Carrier, files: &Files<'_>) -> bool {
    match &carrier.source {
        Source::Inline { text, .. } => text.contains("nvidia.com"),
        Source::File(path) => files.text(path).is_some_and(|text| text.contains("nvidia.com")),
    }
}
