//! The program with a configuration, a repository and a place for merge requests.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::world::prometheus::Prometheus;
use crate::world::repo::{BareRepo, MAIN, files_below};

/// When the golden clusters' data ends.
pub(super) const AT: &str = "2026-01-15T00:00:00Z";

/// A catalog file with a card of one's own.
pub(super) const MODEL: &str = "models:
  - id: my-card
    generation: ada
    products:
      - {name: NVIDIA Mine, gfd_label: NVIDIA-Mine, confidence: verified}
    framebuffer_mib: 10000
    mps_max_replicas: 48
    confidence: verified
";

/// A configured bot.
pub(super) struct Bot {
    pub(super) repo: BareRepo,
    home: TempDir,
    cluster: String,
}

/// What the bot left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Left {
    /// Branches with their heads, `main` included.
    pub(super) branches: Vec<(String, String)>,
    /// Merge requests with their text and the time of their last change.
    pub(super) requests: Vec<(String, String, std::time::SystemTime)>,
}

impl Bot {
    /// For one cluster; `more` is further YAML of the cluster's entry, indented by four blanks.
    pub(super) fn new(prometheus: &Prometheus, repo: BareRepo, cluster: &str, more: &str) -> Self {
        let bot = Self { repo, home: tempfile::tempdir().unwrap(), cluster: cluster.to_owned() };
        bot.configure(&format!("url: {}", prometheus.url()), more, "");
        bot
    }

    /// Writes the configuration anew: the lines of `prometheus:`, more of the cluster's entry, more at the top.
    pub(super) fn configure(&self, prometheus: &str, more: &str, top: &str) {
        let indented: String = prometheus.lines().map(|line| format!("      {line}\n")).collect();
        let text = format!(
            "clusters:\n  - name: {}\n    prometheus:\n{indented}    repository:\n      path: {}\n      \
             merge_requests: {}\n{more}\n{top}",
            self.cluster,
            self.repo.path().display(),
            self.requests().display(),
        );
        std::fs::write(self.config(), text).unwrap();
    }

    pub(super) fn config(&self) -> PathBuf {
        self.home.path().join("slicewright.yaml")
    }

    pub(super) fn requests(&self) -> PathBuf {
        self.home.path().join("merge-requests")
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Runs the program with these arguments and this configuration.
    pub(super) fn run(&self, arguments: &[&str]) -> Output {
        run(self.home.path(), arguments)
    }

    /// `propose` at the end of the data; must succeed.
    pub(super) fn propose(&self, arguments: &[&str]) -> String {
        let output = self.run(&[&["propose", "--at", AT], arguments].concat());
        ok(&output)
    }

    /// The one merge request that there is.
    pub(super) fn request(&self) -> String {
        let left = self.left();
        assert_eq!(left.requests.len(), 1, "{:?}", left.requests);
        left.requests[0].1.clone()
    }

    pub(super) fn left(&self) -> Left {
        let entries = self.requests().read_dir().into_iter().flatten();
        let mut requests: Vec<_> = entries.map(|entry| merge_request(&entry.unwrap().path())).collect();
        requests.sort();
        let branches = self
            .repo
            .branches()
            .into_iter()
            .map(|branch| (branch.clone(), self.repo.head(&branch).unwrap()))
            .collect();
        Left { branches, requests }
    }

    /// Lines that the branch changes: `-old` and `+new`, of all files but those below `slicewright/`.
    pub(super) fn changed_lines(&self, branch: &str) -> Vec<String> {
        self.repo
            .git(&["diff", "--unified=0", MAIN, branch, "--", ".", ":!slicewright"])
            .lines()
            .filter(|line| {
                (line.starts_with('+') && !line.starts_with("+++"))
                    || (line.starts_with('-') && !line.starts_with("---"))
            })
            .map(str::to_owned)
            .collect()
    }
}

/// The name of a merge request's folder; its state, its text and its comments as one text; the last change of any.
fn merge_request(folder: &Path) -> (String, String, std::time::SystemTime) {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let state: serde_json::Value = serde_json::from_str(&read("state.json")).unwrap();
    let mut text = format!("State: {}\n\n{}", state["state"].as_str().unwrap(), read("body.md"));
    let files = files_below(folder);
    for comment in files.iter().filter(|name| name.starts_with("comments/")) {
        text += &format!("\n---- {comment}\n\n{}", read(comment));
    }
    let changed = files.iter().map(|name| folder.join(name).metadata().unwrap().modified().unwrap());
    (folder.file_name().unwrap().to_string_lossy().into_owned(), text, changed.max().unwrap())
}

/// Runs the program in a folder, without anything of the caller's environment that could change it.
pub(super) fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_slicewright"))
        .args(arguments)
        .current_dir(folder)
        .env_remove("SLICEWRIGHT_CONFIG")
        .env_remove("RUST_LOG")
        .env("NO_PROXY", "127.0.0.1")
        .output()
        .unwrap()
}

/// Standard output of a run that succeeded.
pub(super) fn ok(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Standard error of a run that failed with this code.
pub(super) fn failed(output: &Output, code: i32) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    assert_eq!(output.status.code(), Some(code), "{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stderr)
}
