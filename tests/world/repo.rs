//! A bare git repository on disk, as a forge would hold it, and a person who commits to it.
//!
//! Real `git` without work tree, hooks, or anyone's configuration. Author and time are fixed, so that the same files
//! have the same commit id on every machine.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use tempfile::TempDir;

/// The branch that holds the state of the infrastructure.
pub(crate) const MAIN: &str = "main";
/// Who wrote the first commit and every commit of [`BareRepo::commit_as_human`].
pub(crate) const HUMAN: &str = "Robin Ops <robin@example.com>";

/// A bare repository in a folder of its own, which goes with it.
pub(crate) struct BareRepo {
    home: TempDir,
    /// What git said about commits and objects by their ids, which it always says: a process for each look would be
    /// most of a test's time.
    known: Mutex<BTreeMap<Vec<String>, Vec<u8>>>,
}

/// One line of a branch's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) sha: String,
    /// `Name <address>`.
    pub(crate) author: String,
    pub(crate) subject: String,
}

impl BareRepo {
    /// A repository without a commit.
    pub(crate) fn empty() -> Self {
        let repo = Self { home: tempfile::tempdir().unwrap(), known: Mutex::default() };
        repo.git(&["init", "--quiet", "--bare", "--initial-branch", MAIN]);
        repo
    }

    /// A repository whose `main` has one commit with all files of a folder.
    pub(crate) fn from_folder(folder: &Path) -> Self {
        Self::from_folder_with(folder, |_, text| text)
    }

    /// As [`BareRepo::from_folder`], with each file's text (by its path in the folder) changed on the way.
    pub(crate) fn from_folder_with(folder: &Path, change: impl Fn(&str, String) -> String) -> Self {
        let files: Vec<(String, String)> = files_below(folder)
            .into_iter()
            .map(|path| {
                let text = std::fs::read_to_string(folder.join(&path)).unwrap();
                let text = change(&path, text);
                (path, text)
            })
            .collect();
        assert!(!files.is_empty(), "`{}` holds no files", folder.display());
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let repo = Self::empty();
        repo.commit_as_human(MAIN, &files, "Import the infrastructure repository");
        repo
    }

    /// The folder that git calls the repository.
    pub(crate) fn path(&self) -> &Path {
        self.home.path()
    }

    /// Names of all branches, sorted.
    pub(crate) fn branches(&self) -> Vec<String> {
        self.heads().into_keys().collect()
    }

    /// The commit id of a branch; `None` when there is no such branch.
    pub(crate) fn head(&self, branch: &str) -> Option<String> {
        let loose = std::fs::read_to_string(self.path().join("refs/heads").join(branch));
        loose.ok().map(|id| id.trim().to_owned()).or_else(|| self.packed_heads().remove(branch))
    }

    /// All branches with their commit ids. Read from files: a process for each look would be most of a test's time.
    pub(crate) fn heads(&self) -> BTreeMap<String, String> {
        let mut heads = self.packed_heads();
        let folder = self.path().join("refs/heads");
        for name in files_below(&folder).into_iter().filter(|name| !name.ends_with(".lock")) {
            if let Ok(id) = std::fs::read_to_string(folder.join(&name)) {
                heads.insert(name, id.trim().to_owned());
            }
        }
        heads
    }

    fn packed_heads(&self) -> BTreeMap<String, String> {
        let text = std::fs::read_to_string(self.path().join("packed-refs")).unwrap_or_default();
        let head = |line: &str| {
            let (id, name) = line.split_once(" refs/heads/")?;
            Some((name.to_owned(), id.to_owned()))
        };
        text.lines().filter_map(head).collect()
    }

    /// Paths of all files at a branch or commit, sorted.
    pub(crate) fn files(&self, revision: &str) -> Vec<String> {
        let out = self.git(&["ls-tree", "-r", "-z", "--name-only", revision]);
        out.split_terminator('\0').map(str::to_owned).collect()
    }

    /// The text of a file at a branch or commit; `None` when it is not there.
    pub(crate) fn read(&self, revision: &str, path: &str) -> Option<String> {
        let there = self.files(revision).iter().any(|file| file == path);
        there.then(|| self.git(&["cat-file", "blob", &format!("{revision}:{path}")]))
    }

    /// History of a branch or range (`main..slicewright/x`), newest first.
    pub(crate) fn log(&self, range: &str) -> Vec<Commit> {
        let out = self.git(&["log", "--format=%H%x09%an <%ae>%x09%s", range, "--"]);
        out.lines()
            .map(|line| {
                let mut parts = line.splitn(3, '\t').map(str::to_owned);
                let mut next = || parts.next().expect("three columns");
                Commit { sha: next(), author: next(), subject: next() }
            })
            .collect()
    }

    /// The unified diff between two revisions, without context lines when `context` is 0.
    pub(crate) fn diff(&self, from: &str, to: &str, context: usize) -> String {
        let context = format!("-U{context}");
        self.git(&["diff", "--no-color", "--no-ext-diff", "--no-renames", &context, from, to, "--"])
    }

    /// The lines that a diff takes away (`-`) and brings (`+`), with their sign and without file headers.
    pub(crate) fn changed_lines(&self, from: &str, to: &str) -> Vec<String> {
        let diff = self.diff(from, to, 0);
        let body = diff.lines().filter(|line| !line.starts_with("---") && !line.starts_with("+++"));
        body.filter(|line| line.starts_with('-') || line.starts_with('+')).map(str::to_owned).collect()
    }

    /// A person's commit on a branch: files with their new texts. A branch that is new starts at `main`.
    pub(crate) fn commit_as_human(&self, branch: &str, files: &[(&str, &str)], message: &str) -> String {
        let parent = self.head(branch).or_else(|| self.head(MAIN));
        let index = self.path().join("human.index");
        let _ = std::fs::remove_file(&index);
        let environment = [("GIT_INDEX_FILE", index.as_os_str())];
        let git = |arguments: &[&str], input: &str| self.run(arguments, &environment, input);
        if let Some(parent) = &parent {
            git(&["read-tree", parent], "");
        }
        for (path, text) in files {
            let blob = git(&["hash-object", "-w", "--no-filters", "--stdin"], text);
            let entry = format!("100644,{},{path}", blob.trim());
            git(&["update-index", "--add", "--cacheinfo", &entry], "");
        }
        let tree = git(&["write-tree"], "");
        let mut commit = vec!["commit-tree", tree.trim(), "-m", message];
        if let Some(parent) = &parent {
            commit.extend(["-p", parent]);
        }
        let commit = git(&commit, "").trim().to_owned();
        git(&["update-ref", &format!("refs/heads/{branch}"), &commit], "");
        commit
    }

    /// Removes a branch, as a person would after closing its merge request.
    pub(crate) fn delete_branch(&self, branch: &str) {
        self.git(&["update-ref", "-d", &format!("refs/heads/{branch}")]);
    }

    /// Moves a branch's commits into `main`, which must not have moved since: a fast-forward merge.
    pub(crate) fn merge(&self, branch: &str) {
        let head = self.head(branch).expect("the branch to merge is there");
        self.git(&["merge-base", "--is-ancestor", MAIN, &head]);
        self.git(&["update-ref", &format!("refs/heads/{MAIN}"), &head]);
    }

    /// A person merges a branch into `main` with a commit: one with two parents, or all of it as one new commit.
    pub(crate) fn merge_as_human(&self, branch: &str, squash: bool) -> String {
        let (main, head) =
            (self.head(MAIN).expect("main is there"), self.head(branch).expect("the branch is there"));
        let tree = self.git(&["merge-tree", "--write-tree", &main, &head]);
        let mut arguments = vec!["commit-tree", tree.trim(), "-m", "Merge the proposal", "-p", &main];
        if !squash {
            arguments.extend(["-p", &head]);
        }
        let commit = self.git(&arguments).trim().to_owned();
        self.git(&["update-ref", &format!("refs/heads/{MAIN}"), &commit]);
        commit
    }

    /// A person presses the button that merges `main` into a branch.
    pub(crate) fn update_from_main(&self, branch: &str) {
        let (main, head) =
            (self.head(MAIN).expect("main is there"), self.head(branch).expect("the branch is there"));
        let tree = self.git(&["merge-tree", "--write-tree", &head, &main]);
        let message = format!("Merge branch '{MAIN}' into {branch}");
        let arguments = ["commit-tree", tree.trim(), "-m", &message, "-p", &head, "-p", &main];
        let commit = self.git(&arguments).trim().to_owned();
        self.git(&["update-ref", &format!("refs/heads/{branch}"), &commit]);
    }

    /// Presses the button that puts a branch's one commit on `main` anew: its author stays, Robin commits it.
    pub(crate) fn rebase_on_main(&self, branch: &str) {
        let tree = self.git(&["merge-tree", "--write-tree", MAIN, branch]);
        self.commit_anew(branch, tree.trim());
    }

    /// A person changes a file in a branch's one commit, whose author stays.
    pub(crate) fn amend_as_human(&self, branch: &str, path: &str, text: &str) {
        let head = self.head(branch).expect("the branch is there");
        let changed = self.commit_as_human(branch, &[(path, text)], "Amended");
        let tree = self.git(&["rev-parse", &format!("{changed}^{{tree}}")]);
        self.git(&["update-ref", &format!("refs/heads/{branch}"), &head]);
        self.commit_anew(branch, tree.trim());
    }

    /// The last commit of a branch with another tree, on `main`: its author stays, Robin commits it.
    fn commit_anew(&self, branch: &str, tree: &str) {
        let facts = self.git(&["log", "-1", "--format=%an%n%ae%n%B", branch]);
        let mut facts = facts.splitn(3, '\n');
        let mut next = || facts.next().expect("three lines").to_owned();
        let (name, email, message) = (next(), next(), next());
        let author = [("GIT_AUTHOR_NAME", name.as_str()), ("GIT_AUTHOR_EMAIL", email.as_str())];
        let author = author.map(|(key, value)| (key, OsStr::new(value)));
        let commit = self.run(&["commit-tree", tree, "-p", MAIN], &author, &message);
        self.git(&["update-ref", &format!("refs/heads/{branch}"), commit.trim()]);
    }

    /// Runs git on the repository and returns what it printed; panics with its complaint when it fails.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        self.run(arguments, &[], "")
    }

    /// As [`BareRepo::git`], with something to read.
    pub(crate) fn git_with(&self, arguments: &[&str], input: &str) -> String {
        self.run(arguments, &[], input)
    }

    /// As [`BareRepo::git`]; `None` when it fails.
    pub(crate) fn try_git(&self, arguments: &[&str]) -> Option<String> {
        self.bytes(arguments, &[], b"").map(|out| String::from_utf8_lossy(&out).into_owned())
    }

    /// Runs git with bytes in and out; `None` when it fails.
    pub(crate) fn bytes(
        &self,
        arguments: &[&str],
        environment: &[(&str, &str)],
        input: &[u8],
    ) -> Option<Vec<u8>> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key: Option<Vec<String>> =
            is_fixed(arguments).then(|| arguments.iter().map(|argument| (*argument).to_owned()).collect());
        if let Some(said) = key.as_ref().and_then(|key| known().get(key).cloned()) {
            return Some(said);
        }
        let environment: Vec<_> =
            environment.iter().map(|(name, value)| (*name, OsStr::new(*value))).collect();
        let output = self.output(arguments, &environment, input);
        if !output.status.success() {
            return None;
        }
        if let Some(key) = key {
            known().insert(key, output.stdout.clone());
        }
        Some(output.stdout)
    }

    fn run(&self, arguments: &[&str], environment: &[(&str, &OsStr)], input: &str) -> String {
        let output = self.output(arguments, environment, input.as_bytes());
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {}: {complaint}", arguments.join(" "));
        String::from_utf8(output.stdout).expect("git prints text here")
    }

    fn output(
        &self,
        arguments: &[&str],
        environment: &[(&str, &OsStr)],
        input: &[u8],
    ) -> std::process::Output {
        let (name, address) = HUMAN.trim_end_matches('>').split_once(" <").expect("a name and an address");
        // 2026-01-15 08:00 UTC, a working day after the hand-made windows end.
        let time = "1768464000 +0000";
        let mut command = Command::new(git_program());
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").expect("PATH is set"))
            .envs([
                ("GIT_CONFIG_NOSYSTEM", "1"),
                ("GIT_CONFIG_GLOBAL", "/dev/null"),
                ("GIT_TERMINAL_PROMPT", "0"),
                ("LC_ALL", "C"),
            ])
            .envs([("GIT_AUTHOR_NAME", name), ("GIT_AUTHOR_EMAIL", address), ("GIT_AUTHOR_DATE", time)])
            .envs([
                ("GIT_COMMITTER_NAME", name),
                ("GIT_COMMITTER_EMAIL", address),
                ("GIT_COMMITTER_DATE", time),
            ])
            .env("GIT_DIR", self.path())
            .envs(environment.iter().copied())
            .args(["-c", "core.hooksPath=/dev/null", "-c", "core.quotePath=false"])
            .args(arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("`git` is installed: run `tests/run`");
        let (mut stdin, input) = (child.stdin.take().expect("the input is piped"), input.to_vec());
        // Beside the reading: git may print more than a pipe holds before it has read all.
        let feeder = std::thread::spawn(move || drop(std::io::Write::write_all(&mut stdin, &input)));
        let output = child.wait_with_output().unwrap();
        feeder.join().unwrap();
        output
    }
}

/// Where git is. A program without its folder, together with a `PATH` for it, makes the standard library copy the whole
/// process for each call.
pub(crate) fn git_program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let path = std::env::var_os("PATH").expect("PATH is set");
        let mut places = std::env::split_paths(&path).map(|folder| folder.join("git"));
        places.find(|place| place.is_file()).expect("`git` is installed: run `tests/run`")
    })
}

/// Whether git is asked for what has its content for a name, so that it always says the same once it can.
fn is_fixed(arguments: &[&str]) -> bool {
    const READS: [&str; 7] =
        ["cat-file", "rev-parse", "log", "ls-tree", "merge-base", "merge-tree", "rev-list"];
    const KINDS: [&str; 3] = ["blob", "tree", "commit"];
    let is_id = |text: &str| {
        let id = text.split(['^', ':']).next().unwrap_or_default();
        id.len() == 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let [verb, rest @ ..] = arguments else { return false };
    let mut named = rest.iter().filter(|one| !one.starts_with('-') && !KINDS.contains(one)).peekable();
    READS.contains(verb) && named.peek().is_some() && named.all(|one| one.split("..").all(is_id))
}

/// Paths of all files below a folder, relative to it, with `/`, sorted.
pub(crate) fn files_below(folder: &Path) -> Vec<String> {
    fn walk(folder: &Path, prefix: &str, out: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap_or_else(|e| panic!("`{}`: {e}", folder.display())) {
            let entry = entry.unwrap();
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.file_type().unwrap().is_dir() {
                walk(&entry.path(), &format!("{path}/"), out);
            } else {
                out.push(path);
            }
        }
    }
    let mut out = Vec::new();
    walk(folder, "", &mut out);
    out.sort();
    out
}

/// The folder of an example infrastructure repository, `golden-dc1`.
pub(crate) fn example(name: &str) -> PathBuf {
    super::checkout("tests/cases/infra").join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_becomes_a_repository_with_a_fixed_commit() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("apps/search")).unwrap();
        std::fs::write(folder.path().join("apps/search/a.yaml"), "replicas: 1 # one\n").unwrap();
        std::fs::write(folder.path().join("README.md"), "# Infra\r\n").unwrap();
        let repo = BareRepo::from_folder(folder.path());
        assert_eq!(repo.branches(), [MAIN]);
        assert_eq!(repo.files(MAIN), ["README.md", "apps/search/a.yaml"]);
        assert_eq!(repo.read(MAIN, "README.md").as_deref(), Some("# Infra\r\n"), "bytes are kept");
        assert_eq!(repo.read(MAIN, "absent"), None);
        assert_eq!(repo.head(MAIN), BareRepo::from_folder(folder.path()).head(MAIN));

        let edit = [("apps/search/a.yaml", "replicas: 2 # one\n")];
        let sha = repo.commit_as_human("slicewright/dc1/x", &edit, "Scale");
        assert_eq!(repo.head("slicewright/dc1/x").as_deref(), Some(sha.as_str()));
        assert_eq!(
            repo.changed_lines(MAIN, "slicewright/dc1/x"),
            ["-replicas: 1 # one", "+replicas: 2 # one"]
        );
        let log = repo.log("main..slicewright/dc1/x");
        assert_eq!(log, [Commit { sha, author: HUMAN.to_owned(), subject: "Scale".to_owned() }]);
        repo.merge("slicewright/dc1/x");
        repo.delete_branch("slicewright/dc1/x");
        assert_eq!(repo.branches(), [MAIN]);
        assert_eq!(repo.read(MAIN, "apps/search/a.yaml").as_deref(), Some("replicas: 2 # one\n"));
    }
}
