//! What the trial edit of each workload told, taken over by the next run where all that it depends on is as it was.
//!
//! A trial follows from the workload with its variants, from the paths that there are and are the cluster's, from who
//! reads which file, and from the texts that it asked for. Whatever of these differs, it is made again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use super::index::{Known, in_parallel};
use super::kustomize::{Files, Graph, Trial};
use super::manifest::{Declarations, Finding};
use super::repository::Repository;

/// The most scopes whose trials are kept, those of the last runs: a repository holds a few clusters, and a trial has some
/// 3 KiB.
const MAX_SCOPES: usize = 16;

/// Trials of the last runs.
#[derive(Debug, Default)]
pub(super) struct Trials {
    /// The last one last.
    kept: Vec<(Ground, Outcomes)>,
}

/// What all trials of one run depend on.
#[derive(Clone, Debug)]
struct Ground {
    /// The same graph is only kept for the same paths.
    graph: Arc<Graph>,
    /// Of all texts in the order of their paths, whether one is the cluster's.
    own: Vec<bool>,
    unread: BTreeSet<String>,
}

/// By the path of the workload's file.
type Outcomes = Arc<BTreeMap<String, Vec<Arc<Outcome>>>>;

/// One trial.
#[derive(Debug)]
struct Outcome {
    finding: Finding,
    /// Texts that were asked for, and what there was.
    read: Vec<(String, Option<Arc<Known>>)>,
    declarations: Arc<Declarations>,
}

/// What each of the findings declares, in their order.
pub(super) fn tried(
    repository: &Repository<'_>,
    findings: Vec<Finding>,
    declarations: impl Fn(&Files<'_>, &Finding) -> Declarations + Sync,
) -> Vec<Arc<Declarations>> {
    let ground = Ground::of(repository);
    let before = repository.index.trials.lock().unwrap_or_else(PoisonError::into_inner).of(&ground);
    let outcomes = in_parallel(&findings, |finding| {
        let known = before.get(&finding.path).into_iter().flatten();
        let same = |outcome: &&Arc<Outcome>| outcome.finding == *finding && outcome.holds(repository);
        if let Some(outcome) = known.into_iter().find(same) {
            return Arc::clone(outcome);
        }
        let trial = Trial::default();
        let declarations = Arc::new(declarations(&Files::noted(repository, &trial), finding));
        let read = trial.read().into_iter();
        let read =
            read.map(|path| (repository.known(&path).cloned(), path)).map(|(known, path)| (path, known));
        Arc::new(Outcome { finding: finding.clone(), read: read.collect(), declarations })
    });
    let declared = outcomes.iter().map(|outcome| Arc::clone(&outcome.declarations)).collect();
    let mut by_path: BTreeMap<String, Vec<Arc<Outcome>>> = BTreeMap::new();
    for outcome in outcomes {
        by_path.entry(outcome.finding.path.clone()).or_default().push(outcome);
    }
    repository.index.trials.lock().unwrap_or_else(PoisonError::into_inner).keep(ground, Arc::new(by_path));
    declared
}

impl Trials {
    fn of(&self, ground: &Ground) -> Outcomes {
        let found = self.kept.iter().find(|(known, _)| known.is(ground));
        found.map(|(_, outcomes)| Arc::clone(outcomes)).unwrap_or_default()
    }

    fn keep(&mut self, ground: Ground, outcomes: Outcomes) {
        // Trials on another graph are not asked for again.
        self.kept.retain(|(known, _)| Arc::ptr_eq(&known.graph, &ground.graph) && !known.is(&ground));
        if self.kept.len() >= MAX_SCOPES {
            self.kept.remove(0);
        }
        self.kept.push((ground, outcomes));
    }
}

impl Ground {
    fn of(repository: &Repository<'_>) -> Self {
        let mut own = repository.texts.keys().peekable();
        Self {
            graph: Arc::clone(repository.graph()),
            own: repository.all.keys().map(|path| own.next_if_eq(&path).is_some()).collect(),
            unread: repository.unread.iter().map(|path| (*path).to_owned()).collect(),
        }
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.graph, &other.graph) && self.own == other.own && self.unread == other.unread
    }
}

impl Outcome {
    /// Whether every text that was asked for is the same now.
    fn holds(&self, repository: &Repository<'_>) -> bool {
        self.read.iter().all(|(path, then)| match (then, repository.known(path)) {
            (Some(then), Some(now)) => Arc::ptr_eq(then, now) || then.text() == now.text(),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        })
    }
}
