//! A run written down: every answer of Prometheus, the repository and what was proposed, so that it can be repeated
//! offline to the byte.
//!
//! The file is gzip'd JSON Lines: a header, one line a fact, a last line with their number, so that a file that was
//! cut off is noticed. The configuration is kept without what says where things are and how to sign
//! in: `prometheus:`, `forges:`, `signing_keys:` and the place of each repository.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::sync::Mutex;

use anyhow::Context as _;
use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::propose::Wishes;
use super::source::Source;
use super::{Engine, Inputs, VERSION};
use crate::forge::contact::Contact;
use crate::forge::{
    Check, Commit, Forge, ForgeError, Found, FoundCommit, FoundRequest, Identity, RequestText, Topic, Tree,
};
use crate::prometheus::{Client, Progress, RecordedAnswer, Recorder};

const FORMAT: &str = "slicewright-recording";
const FORMAT_VERSION: u32 = 1;

/// Largest recording that is read, unpacked, in bytes.
/// A month of a thousand cards with a repository of ten thousand files takes about a tenth of it.
const LIMIT: u64 = 4 << 30;

/// One run, written down.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// Moment that the run looked at.
    pub at: Timestamp,
    /// The configuration, without addresses and secrets.
    pub config: String,
    /// The operator's own catalog files in order: name and text.
    pub catalog_files: Vec<(String, String)>,
    /// Facts by cluster.
    pub clusters: BTreeMap<String, RecordedCluster>,
}

/// What one cluster's run read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedCluster {
    /// Every question with its answer.
    pub answers: Vec<RecordedAnswer>,
    /// The repository at the commit that was read.
    pub tree: Tree,
    /// What was there for each branch that was looked at.
    pub found: BTreeMap<String, Found>,
    /// Every branch that is the bot's to write.
    pub branches: BTreeSet<String>,
    /// Who the bot is there.
    pub identity: Identity,
    /// Branch that proposals are for.
    pub base_branch: String,
}

/// One line of the file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Line {
    Header {
        format: String,
        version: u32,
        made_by: String,
        at: Timestamp,
        config: String,
    },
    Catalog {
        name: String,
        text: String,
    },
    Cluster {
        name: String,
        own_emails: BTreeSet<String>,
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        forge_emails: BTreeSet<String>,
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        branches: BTreeSet<String>,
        base_branch: String,
    },
    Answer {
        cluster: String,
        answer: RecordedAnswer,
    },
    Repository {
        cluster: String,
        commit: String,
        skipped: BTreeMap<String, String>,
    },
    File {
        cluster: String,
        path: String,
        content: Content,
    },
    Found(Box<FoundLine>),
    End {
        lines: u64,
    },
}

/// Text as it is, other bytes as hexadecimal digits.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Content {
    Text(String),
    Hex(String),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FoundLine {
    cluster: String,
    branch: String,
    branch_head: Option<String>,
    commits: Vec<(String, [String; 2])>,
    base: Option<String>,
    changed: BTreeMap<String, Option<Content>>,
    stale: BTreeSet<String>,
    unfinished_head: Option<String>,
    request: Option<FoundRequest>,
    /// Commits that the forge made to merge the base branch.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    base_merges: BTreeSet<String>,
    /// Commits that the forge made to rebase what the bot left.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    rebased: BTreeSet<String>,
    merged: bool,
}

impl Recording {
    /// Packs the recording. Equal recordings give equal bytes.
    ///
    /// # Errors
    /// When it cannot be written out.
    pub fn to_bytes(&self) -> anyhow::Result<Vec<u8>> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        let mut lines = 0;
        let mut write = |line: &Line| -> anyhow::Result<()> {
            serde_json::to_writer(&mut out, line)?;
            out.write_all(b"\n")?;
            lines += 1;
            Ok(())
        };
        write(&Line::Header {
            format: FORMAT.to_owned(),
            version: FORMAT_VERSION,
            made_by: VERSION.to_owned(),
            at: self.at,
            config: self.config.clone(),
        })?;
        for (name, text) in &self.catalog_files {
            write(&Line::Catalog { name: name.clone(), text: text.clone() })?;
        }
        for (name, cluster) in &self.clusters {
            write(&Line::Cluster {
                name: name.clone(),
                own_emails: cluster.identity.emails.clone(),
                forge_emails: cluster.identity.forge_emails.clone(),
                branches: cluster.branches.clone(),
                base_branch: cluster.base_branch.clone(),
            })?;
            write(&Line::Repository {
                cluster: name.clone(),
                commit: cluster.tree.commit.clone(),
                skipped: cluster.tree.skipped.clone(),
            })?;
            for (path, bytes) in &cluster.tree.files {
                write(&Line::File {
                    cluster: name.clone(),
                    path: path.clone(),
                    content: Content::of(bytes),
                })?;
            }
            for (branch, found) in &cluster.found {
                write(&Line::Found(Box::new(FoundLine::of(name, branch, found))))?;
            }
            for answer in &cluster.answers {
                write(&Line::Answer { cluster: name.clone(), answer: answer.clone() })?;
            }
        }
        let end = Line::End { lines };
        serde_json::to_writer(&mut out, &end)?;
        out.write_all(b"\n")?;
        Ok(out.finish()?)
    }

    /// Unpacks a recording.
    ///
    /// # Errors
    /// When it is none, of another version, cut off, or too large; with the line.
    pub fn from_bytes(bytes: &[u8]) -> anyhow::Result<Self> {
        Self::from_lines(BufReader::new(flate2::read::GzDecoder::new(bytes)))
    }

    /// Reads a recording that is unpacked.
    ///
    /// # Errors
    /// As [`Recording::from_bytes`].
    pub fn from_lines(unpacked: impl BufRead) -> anyhow::Result<Self> {
        let mut recording = Self::default();
        let (mut n, mut ended, mut begun) = (0_u64, false, false);
        for line in unpacked.take(LIMIT).lines() {
            let line = line.with_context(|| format!("line {}: not a recording, or damaged", n + 1))?;
            anyhow::ensure!(!ended, "line {}: there is more after the end", n + 1);
            let line: Line =
                serde_json::from_str(&line).with_context(|| format!("line {}: not understood", n + 1))?;
            anyhow::ensure!(
                begun != matches!(line, Line::Header { .. }),
                "line {}: a recording starts with one header",
                n + 1
            );
            begun = true;
            if let Line::End { lines } = line {
                anyhow::ensure!(lines == n, "the recording says it has {lines} lines and has {n}");
                ended = true;
            } else {
                recording.take(line).with_context(|| format!("line {}", n + 1))?;
                n += 1;
            }
        }
        anyhow::ensure!(ended, "the recording is cut off after line {n}: record again");
        Ok(recording)
    }

    fn take(&mut self, line: Line) -> anyhow::Result<()> {
        match line {
            Line::Header { format, version, made_by, at, config } => {
                anyhow::ensure!(format == FORMAT, "not a recording of Slicewright");
                anyhow::ensure!(
                    version == FORMAT_VERSION,
                    "made by Slicewright {made_by} in form {version}; this one reads form {FORMAT_VERSION}"
                );
                self.at = at;
                self.config = config;
            }
            Line::Catalog { name, text } => self.catalog_files.push((name, text)),
            Line::Cluster { name, own_emails, forge_emails, branches, base_branch } => {
                let cluster = self.clusters.entry(name).or_default();
                cluster.branches = branches;
                cluster.identity = Identity { emails: own_emails, forge_emails };
                cluster.base_branch = base_branch;
            }
            Line::Answer { cluster, answer } => self.cluster(&cluster)?.answers.push(answer),
            Line::Repository { cluster, commit, skipped } => {
                let tree = &mut self.cluster(&cluster)?.tree;
                tree.commit = commit;
                tree.skipped = skipped;
            }
            Line::File { cluster, path, content } => {
                self.cluster(&cluster)?.tree.files.insert(path, content.bytes()?);
            }
            Line::Found(found) => {
                let (cluster, branch, found) = found.into_parts()?;
                self.cluster(&cluster)?.found.insert(branch, found);
            }
            Line::End { .. } => {}
        }
        Ok(())
    }

    fn cluster(&mut self, name: &str) -> anyhow::Result<&mut RecordedCluster> {
        self.clusters.get_mut(name).with_context(|| format!("cluster `{name}` was not introduced"))
    }
}

impl Content {
    fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Hex(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        }
    }

    fn bytes(self) -> anyhow::Result<Vec<u8>> {
        match self {
            Self::Text(text) => Ok(text.into_bytes()),
            Self::Hex(digits) => {
                let digits = digits.as_bytes();
                anyhow::ensure!(digits.len().is_multiple_of(2), "an odd number of hexadecimal digits");
                digits.chunks(2).map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?)).collect()
            }
        }
    }
}

impl FoundLine {
    fn of(cluster: &str, branch: &str, found: &Found) -> Self {
        Self {
            cluster: cluster.to_owned(),
            branch: branch.to_owned(),
            branch_head: found.branch_head.clone(),
            commits: found.commits.iter().map(|c| (c.id.clone(), c.emails.clone())).collect(),
            base: found.base.clone(),
            changed: found
                .changed
                .iter()
                .map(|(path, bytes)| (path.clone(), bytes.as_deref().map(Content::of)))
                .collect(),
            stale: found.stale.clone(),
            unfinished_head: found.unfinished_head.clone(),
            // Where it is on the forge is nobody's who replays it.
            request: found.request.clone().map(|request| FoundRequest { url: String::new(), ..request }),
            rebased: found.commits.iter().filter(|c| c.rebased).map(|c| c.id.clone()).collect(),
            base_merges: found.commits.iter().filter(|c| c.merges_base).map(|c| c.id.clone()).collect(),
            merged: found.merged,
        }
    }

    fn into_parts(self) -> anyhow::Result<(String, String, Found)> {
        let mut changed = BTreeMap::new();
        for (path, content) in self.changed {
            changed.insert(path, content.map(Content::bytes).transpose()?);
        }
        let found = Found {
            branch_head: self.branch_head,
            commits: self
                .commits
                .into_iter()
                .map(|(id, emails)| FoundCommit {
                    merges_base: self.base_merges.contains(&id),
                    rebased: self.rebased.contains(&id),
                    id,
                    emails,
                })
                .collect(),
            base: self.base,
            changed,
            stale: self.stale,
            unfinished_head: self.unfinished_head,
            request: self.request,
            merged: self.merged,
        };
        Ok((self.cluster, self.branch, found))
    }
}

/// A forge as it was: reads are answered, nothing can be written.
pub(super) struct ReplayedForge {
    cluster: RecordedCluster,
}

impl ReplayedForge {
    pub(super) fn new(cluster: RecordedCluster) -> Self {
        Self { cluster }
    }
}

fn offline() -> ForgeError {
    ForgeError::Denied { what: "writing while a run is recorded or repeated".to_owned() }
}

#[async_trait]
impl Forge for ReplayedForge {
    async fn base_branch(&self) -> Result<String, ForgeError> {
        Ok(self.cluster.base_branch.clone())
    }

    async fn head(&self) -> Result<String, ForgeError> {
        Ok(self.cluster.tree.commit.clone())
    }

    async fn read_tree(&self, commit: &str) -> Result<Tree, ForgeError> {
        if commit == self.cluster.tree.commit {
            return Ok(self.cluster.tree.clone());
        }
        Err(ForgeError::NotFound { what: format!("commit {commit} in the recording") })
    }

    async fn branches(&self) -> Result<BTreeSet<String>, ForgeError> {
        Ok(self.cluster.branches.clone())
    }

    async fn find(&self, branch: &str, _: &str) -> Result<Found, ForgeError> {
        Ok(self.cluster.found.get(branch).cloned().unwrap_or_default())
    }

    async fn publish(&self, _: &str, _: Option<&str>, _: &Commit) -> Result<String, ForgeError> {
        Err(offline())
    }

    async fn write_request(&self, _: &str, _: Option<&str>, _: &RequestText) -> Result<String, ForgeError> {
        Err(offline())
    }

    async fn close(
        &self,
        _: &str,
        _: Option<&str>,
        _: Option<&str>,
        _: &str,
        _: &str,
    ) -> Result<(), ForgeError> {
        Err(offline())
    }

    async fn say(&self, _: &str, _: &str, _: Topic, _: Option<&str>) -> Result<(), ForgeError> {
        Err(offline())
    }

    async fn hush(&self, _: &str, _: &str, _: &[Topic]) -> Result<(), ForgeError> {
        Err(offline())
    }

    async fn check(&self, _: &str, _: &Check) -> Result<(), ForgeError> {
        Err(offline())
    }

    async fn show_board(&self, _: &str, _: &str) -> Result<Option<String>, ForgeError> {
        Err(offline())
    }

    async fn identity(&self) -> Result<Identity, ForgeError> {
        Ok(self.cluster.identity.clone())
    }

    fn contact(&self) -> Option<&dyn Contact> {
        None
    }
}

/// Passes reads on and keeps them; writes nothing.
struct RecordingForge {
    forge: Box<dyn Forge>,
    kept: std::sync::Arc<Mutex<RecordedCluster>>,
}

impl RecordingForge {
    fn keep(&self, take: impl FnOnce(&mut RecordedCluster)) {
        take(&mut self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    }
}

#[async_trait]
impl Forge for RecordingForge {
    async fn base_branch(&self) -> Result<String, ForgeError> {
        let branch = self.forge.base_branch().await?;
        self.keep(|kept| kept.base_branch.clone_from(&branch));
        Ok(branch)
    }

    async fn head(&self) -> Result<String, ForgeError> {
        self.forge.head().await
    }

    async fn read_tree(&self, commit: &str) -> Result<Tree, ForgeError> {
        let tree = self.forge.read_tree(commit).await?;
        self.keep(|kept| kept.tree = tree.clone());
        Ok(tree)
    }

    async fn branches(&self) -> Result<BTreeSet<String>, ForgeError> {
        let branches = self.forge.branches().await?;
        self.keep(|kept| kept.branches.clone_from(&branches));
        Ok(branches)
    }

    async fn find(&self, branch: &str, main: &str) -> Result<Found, ForgeError> {
        let found = self.forge.find(branch, main).await?;
        self.keep(|kept| {
            kept.found.insert(branch.to_owned(), found.clone());
        });
        Ok(found)
    }

    async fn publish(&self, _: &str, _: Option<&str>, _: &Commit) -> Result<String, ForgeError> {
        Err(offline())
    }

    async fn write_request(&self, _: &str, _: Option<&str>, _: &RequestText) -> Result<String, ForgeError> {
        Err(offline())
    }

    async fn close(
        &self,
        _: &str,
        _: Option<&str>,
        _: Option<&str>,
        _: &str,
        _: &str,
    ) -> Result<(), ForgeError> {
        Err(offline())
    }

    async fn say(&self, _: &str, _: &str, _: Topic, _: Option<&str>) -> Result<(), ForgeError> {
        Err(offline())
    }

    async fn hush(&self, _: &str, _: &str, _: &[Topic]) -> Result<(), ForgeError> {
        Err(offline())
    }

    async fn check(&self, _: &str, _: &Check) -> Result<(), ForgeError> {
        Err(offline())
    }

    async fn show_board(&self, _: &str, _: &str) -> Result<Option<String>, ForgeError> {
        Err(offline())
    }

    async fn identity(&self) -> Result<Identity, ForgeError> {
        self.forge.identity().await
    }

    fn contact(&self) -> Option<&dyn Contact> {
        None
    }
}

/// Runs as `propose --dry-run` does, and keeps all that was read.
pub(super) async fn record(
    engine: &Engine,
    config: &str,
    only: Option<&str>,
    at: Timestamp,
    progress: &dyn Progress,
) -> anyhow::Result<Recording> {
    let mut inputs = Inputs { at, sources: BTreeMap::new(), forges: BTreeMap::new() };
    let mut kept = BTreeMap::new();
    for cluster in engine.clusters(only)? {
        let client =
            Client::new(&cluster.prometheus).with_context(|| format!("cluster `{}`", cluster.name))?;
        inputs.sources.insert(cluster.name.clone(), Source::Recording(Box::new(Recorder::new(client))));
        let forge = engine.forge(cluster)?;
        let identity = forge.identity().await?;
        let cell =
            std::sync::Arc::new(Mutex::new(RecordedCluster { identity, ..RecordedCluster::default() }));
        kept.insert(cluster.name.clone(), std::sync::Arc::clone(&cell));
        inputs.forges.insert(cluster.name.clone(), Box::new(RecordingForge { forge, kept: cell }));
    }
    let wishes = Wishes { cluster: only.map(str::to_owned), dry_run: true, ..Wishes::default() };
    engine.propose(&inputs, &wishes, progress).await?;
    // Where the files lie on this machine is nobody's business.
    let nameless = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let mut recording = Recording {
        at,
        config: engine.settings().without_addresses(config)?,
        catalog_files: engine
            .catalog_files
            .iter()
            .map(|(path, text)| (nameless(path), text.clone()))
            .collect(),
        clusters: BTreeMap::new(),
    };
    for (name, source) in inputs.sources {
        let cell = kept.remove(&name).unwrap_or_default();
        let mut cluster = cell.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        if let Source::Recording(recorder) = source {
            cluster.answers = recorder.finish();
        }
        recording.clusters.insert(name, cluster);
    }
    Ok(recording)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn sample() -> Recording {
        let cluster = RecordedCluster {
            tree: Tree {
                commit: "c0ffee".into(),
                files: BTreeMap::from([
                    ("a.yaml".into(), b"a: 1\n".to_vec()),
                    ("b.bin".into(), vec![0xff, 0x00]),
                ]),
                skipped: BTreeMap::from([("link".into(), "a symlink".into())]),
            },
            found: BTreeMap::from([(
                "slicewright/c/p".into(),
                Found { branch_head: Some("d00d".into()), ..Found::default() },
            )]),
            branches: BTreeSet::from(["slicewright/c/p".into()]),
            identity: Identity { emails: ["bot@x".to_owned()].into(), ..Identity::default() },
            base_branch: "main".into(),
            answers: Vec::new(),
        };
        Recording {
            at: "2026-01-15T00:00:00Z".parse().unwrap(),
            config: "clusters: []\n".into(),
            catalog_files: vec![("mine.yaml".into(), "models: []\n".into())],
            clusters: BTreeMap::from([("c".into(), cluster)]),
        }
    }

    #[test]
    fn what_is_packed_comes_back_and_packs_to_the_same_bytes() {
        let bytes = sample().to_bytes().unwrap();
        let back = Recording::from_bytes(&bytes).unwrap();
        assert_eq!(back, sample());
        assert_eq!(back.to_bytes().unwrap(), bytes);
    }

    #[test]
    fn a_recording_that_was_cut_off_is_refused() {
        let mut text = String::new();
        flate2::read::GzDecoder::new(sample().to_bytes().unwrap().as_slice())
            .read_to_string(&mut text)
            .unwrap();
        let cut: String = text.lines().take(3).map(|line| format!("{line}\n")).collect();
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(cut.as_bytes()).unwrap();
        let error = Recording::from_bytes(&packed.finish().unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "the recording is cut off after line 3: record again");
    }

    #[test]
    fn other_bytes_are_refused_with_the_line() {
        for bytes in [&b""[..], b"PK\x03\x04", b"\x1f\x8b\x08"] {
            assert!(Recording::from_bytes(bytes).is_err());
        }
    }
}
