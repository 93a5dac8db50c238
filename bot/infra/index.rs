//! What is known of the files of one repository, kept from one run to the next, so that only what has changed is read
//! again.
//!
//! Everything here follows from a file's path and text alone. What is kept is taken over only where the text is the same,
//! byte for byte, so that an answer never depends on what was asked before.

use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use memchr::memmem::Finder;
use slicewright_core::inventory::Declared;
use slicewright_core::plan::Plan;
use slicewright_yaml::MAX_BYTES;

use super::gpu_operator::{MIG_MAP, PLUGIN_MAP};
use super::kustomize::{Facts, Graph, named};
use super::repository::{Parsed, is_kustomization, is_plain_path};
use super::trials::Trials;
use super::{ChangeSet, Scope, Snapshot};

/// The most nodes of parsed files that the next run takes over; a node has some 150 bytes.
const MAX_KEPT_NODES: usize = 1_000_000;

/// The most bytes of texts that the next run takes over.
const MAX_KEPT_BYTES: usize = 128 * 1024 * 1024;

/// Texts that files are looked through for in every run. Others are searched for when somebody asks.
const LIST: [&str; 21] = [
    "nvidia.com/",
    "nvidia.com~1",
    // As a parameter of Argo CD spells it.
    "nvidia\\.com/",
    "slicewright/ignore",
    "gpu-operator",
    "mig-configs",
    "timeSlicing",
    "Node",
    "HelmRelease",
    "Application",
    "releases:",
    "OCIRepository",
    "HelmChart",
    "InferenceService",
    "argoproj.io",
    "kustomize.toolkit.fluxcd.io",
    "HorizontalPodAutoscaler",
    "ScaledObject",
    "PodDisruptionBudget",
    MIG_MAP,
    PLUGIN_MAP,
];

static FINDERS: LazyLock<Vec<Finder<'static>>> = LazyLock::new(|| LIST.iter().map(Finder::new).collect());

/// The files of one repository as they were read last.
///
/// A process that looks at a repository again and again keeps one of these for it; one that looks once needs none.
#[derive(Debug, Default)]
pub struct Index {
    /// In the order of their paths.
    kept: Mutex<Vec<Arc<Known>>>,
    graph: Mutex<Option<Drawn>>,
    pub(super) trials: Mutex<Trials>,
}

/// A graph and the files that it was made of.
#[derive(Debug)]
struct Drawn {
    from: Vec<Arc<Known>>,
    graph: Arc<Graph>,
}

/// A file and what follows from its path and text.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) path: String,
    text: String,
    /// A bit for each of [`LIST`].
    words: u32,
    parsed: OnceLock<Result<Arc<Parsed>, String>>,
    /// As a kustomization.
    names: OnceLock<Vec<Arc<str>>>,
    facts: OnceLock<Option<Arc<Facts>>>,
}

impl Index {
    /// As [`super::read`].
    pub fn read(&self, snapshot: &Snapshot, scope: &Scope) -> Declared {
        super::read_with(snapshot, scope, self)
    }

    /// As [`super::edit`].
    pub fn edit(&self, snapshot: &Snapshot, scope: &Scope, plan: &Plan) -> ChangeSet {
        super::edit_with(snapshot, scope, plan, self)
    }

    /// The texts of a snapshot in the order of their paths, each with what is known of it; files that hold no text of a
    /// usual size are left out.
    pub(super) fn texts<'a>(&self, snapshot: &'a Snapshot) -> Vec<(&'a str, &'a str, Arc<Known>)> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut nodes, mut bytes) = (MAX_KEPT_NODES, MAX_KEPT_BYTES);
        let mut old = std::mem::take(&mut *kept).into_iter().peekable();
        let mut files = Vec::with_capacity(snapshot.files.len());
        for (path, content) in &snapshot.files {
            while old.next_if(|other| other.path < *path).is_some() {}
            let known = old.next_if(|other| other.path == *path).filter(|known| {
                nodes = nodes.saturating_sub(known.n_nodes());
                bytes = bytes.saturating_sub(content.len());
                nodes > 0 && bytes > 0
            });
            files.push((path.as_str(), content.as_slice(), known));
        }
        let texts = in_parallel(&files, |(path, content, known)| {
            let same = known.as_ref().filter(|known| known.text.as_bytes() == *content);
            if same.is_none() && (content.len() > MAX_BYTES || !is_plain_path(path)) {
                return None;
            }
            let text = std::str::from_utf8(content).ok()?;
            Some((*path, text, same.cloned().unwrap_or_else(|| Arc::new(Known::new(path, text)))))
        });
        let texts: Vec<_> = texts.into_iter().flatten().collect();
        *kept = texts.iter().map(|(_, _, known)| Arc::clone(known)).collect();
        texts
    }

    /// The graph of these files, in the order of their paths: the last one where nothing differs that it is made of.
    pub(super) fn graph(&self, files: &[(&str, &Arc<Known>)], draw: impl FnOnce() -> Graph) -> Arc<Graph> {
        let files: Vec<_> = files.iter().map(|(_, known)| Arc::clone(known)).collect();
        let mut drawn = self.graph.lock().unwrap_or_else(PoisonError::into_inner);
        let deployers = Search::deployers();
        // Of most files the paths alone count, and of kustomizations what they name.
        let same = |(old, new): (&Arc<Known>, &Arc<Known>)| {
            Arc::ptr_eq(old, new)
                || (old.path == new.path
                    && !old.holds(&deployers)
                    && !new.holds(&deployers)
                    && (!is_kustomization(&new.path) || old.names() == new.names()))
        };
        if let Some(Drawn { from, graph }) = drawn.as_mut()
            && from.len() == files.len()
            && from.iter().zip(&files).all(same)
        {
            *from = files;
            return Arc::clone(graph);
        }
        let graph = Arc::new(draw());
        *drawn = Some(Drawn { from: files, graph: Arc::clone(&graph) });
        graph
    }
}

impl Known {
    pub(super) fn new(path: &str, text: &str) -> Self {
        let found =
            |(n, finder): (usize, &Finder<'_>)| u32::from(finder.find(text.as_bytes()).is_some()) << n;
        let words = FINDERS.iter().enumerate().map(found).sum();
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            words,
            parsed: OnceLock::new(),
            names: OnceLock::new(),
            facts: OnceLock::new(),
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The documents of the file, parsed when somebody asks for the first time.
    pub(super) fn parsed(&self) -> &Result<Arc<Parsed>, String> {
        self.parsed.get_or_init(|| Parsed::new(&self.text).map(Arc::new))
    }

    /// Of a kustomization: what it names as if it were a file or a folder, from the repository's root.
    pub(super) fn names(&self) -> &[Arc<str>] {
        self.names.get_or_init(|| named(self))
    }

    /// Of a kustomization: what it says by itself. `None`: it is none that can be read.
    pub(super) fn facts(&self) -> Option<&Arc<Facts>> {
        let read =
            || self.parsed().as_ref().ok().and_then(|parsed| Facts::new(&self.path, parsed)).map(Arc::new);
        self.facts.get_or_init(read).as_ref()
    }

    /// Whether the text holds one of the words.
    pub(super) fn holds(&self, search: &Search<'_>) -> bool {
        self.words & search.listed != 0
            || search.others.iter().any(|finder| finder.find(self.text.as_bytes()).is_some())
    }

    fn n_nodes(&self) -> usize {
        match self.parsed.get() {
            Some(Ok(parsed)) => parsed.n_nodes(),
            Some(Err(_)) | None => 0,
        }
    }
}

/// Words to look for in many files.
#[derive(Debug)]
pub(super) struct Search<'w> {
    /// Those of [`LIST`], as in [`Known`].
    listed: u32,
    others: Vec<Finder<'w>>,
}

impl<'w> Search<'w> {
    pub(super) fn new(words: &[&'w str]) -> Self {
        let mut search = Self { listed: 0, others: Vec::new() };
        for word in words {
            match LIST.iter().position(|listed| listed == word) {
                Some(n) => search.listed |= 1 << n,
                None => search.others.push(Finder::new(*word)),
            }
        }
        search
    }

    /// Where objects of Flux or Argo CD may stand.
    pub(super) fn deployers() -> Self {
        Self::new(&["kustomize.toolkit.fluxcd.io", "argoproj.io"])
    }
}

/// Below this number, one thread is faster than several.
const SMALL: usize = 64;

/// What `work` makes of each item, in their order, on all processors.
pub(super) fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from).min(16);
    if items.len() < SMALL || n_threads < 2 {
        return items.iter().map(work).collect();
    }
    // More chunks than threads would need a queue; files of one folder are alike, so that equal counts do.
    let size = items.len().div_ceil(n_threads);
    let work = &work;
    std::thread::scope(|scope| {
        let (first, others) = items.split_at(size.min(items.len()));
        let started: Vec<_> = others
            .chunks(size)
            .map(|chunk| scope.spawn(move || chunk.iter().map(work).collect::<Vec<_>>()))
            .collect();
        let mut done: Vec<R> = first.iter().map(work).collect();
        for thread in started {
            match thread.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    })
}

#[cfg(test)]
mod tests;
