//! The `git` program, by its plumbing alone: no work tree, no hooks, no configuration but the repository's own.
//!
//! What the commands are for is the question of the forge that calls them.

pub(super) mod remote;

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::content::{self, Entry, Listing};
use super::{ForgeError, Tree};

/// The most processes that read contents at once: one unpacks some 300,000 small files a second, and a machine that runs
/// this has other work.
const MOST_READERS: usize = 4;

/// A process for fewer contents takes longer to start than it saves.
const FEWEST_EACH: usize = 1_000;

/// Bytes that a pipe holds on Linux.
const PIPE: usize = 64 << 10;

/// A git directory.
#[derive(Clone, Debug)]
pub(super) struct Git {
    directory: PathBuf,
}

/// Who a commit is by, and when.
pub(super) struct Signature<'a> {
    /// Name.
    pub(super) name: &'a str,
    /// E-mail.
    pub(super) email: &'a str,
    /// Seconds since 1970, UTC.
    pub(super) seconds: &'a str,
}

/// Where git is. The standard library copies the whole process for a program without its folder that gets a `PATH` of
/// its own; in a bot that holds a repository's files in memory, that takes longer than git does.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut places = std::env::split_paths(&path).map(|folder| folder.join("git"));
        // Without one, the call itself says what is wrong.
        places.find(|place| place.is_absolute() && place.is_file()).unwrap_or_else(|| PathBuf::from("git"))
    })
}

impl Git {
    /// The repository at `path`, bare or with a work tree, which is never looked at.
    pub(super) fn open(path: &Path) -> Result<Self, ForgeError> {
        let bare = path.join("objects").is_dir() && path.join("HEAD").is_file();
        let directory = if bare { path.to_path_buf() } else { path.join(".git") };
        if !directory.exists() {
            return Err(ForgeError::NotFound { what: format!("a git repository at `{}`", path.display()) });
        }
        Ok(Self { directory })
    }

    /// A new bare repository at `path`, whose `HEAD` names `branch`.
    pub(super) fn init(path: &Path, branch: &str) -> Result<Self, ForgeError> {
        let git = Self { directory: path.to_path_buf() };
        git.ask(&["init", "--quiet", "--bare", "--initial-branch", branch], &[], None)?;
        Ok(git)
    }

    /// The repository as people know it.
    pub(super) fn name(&self) -> String {
        self.directory.display().to_string()
    }

    /// A command with nothing of our environment but the search path, and no way to run anything else.
    fn command(&self) -> Command {
        let mut command = Command::new(program());
        command.env_clear();
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command
            .env("LC_ALL", "C")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ALLOW_PROTOCOL", "https:ssh:file")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0"])
            .arg("--git-dir")
            .arg(&self.directory)
            .stdin(Stdio::null());
        command
    }

    /// Runs one command to its end.
    fn run<A: AsRef<OsStr>>(
        &self,
        args: &[A],
        env: &[(&str, &OsStr)],
        input: Option<&[u8]>,
    ) -> Result<Output, ForgeError> {
        let shown =
            || args.first().map_or_else(String::new, |verb| verb.as_ref().to_string_lossy().into_owned());
        let broken = |cause: std::io::Error| ForgeError::Failed {
            what: format!("cannot run `git {}` in `{}`", shown(), self.directory.display()),
            cause: Some(Box::new(cause)),
        };
        let mut command = self.command();
        command.args(args).envs(env.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if input.is_some() {
            command.stdin(Stdio::piped());
        }
        let mut child = command.spawn().map_err(broken)?;
        let feeder = feed(&mut child, input.map(<[u8]>::to_vec));
        let output = child.wait_with_output().map_err(broken)?;
        drop(feeder.map(std::thread::JoinHandle::join));
        Ok(output)
    }

    /// Runs one command that must succeed; returns what it printed.
    fn ask<A: AsRef<OsStr>>(
        &self,
        args: &[A],
        env: &[(&str, &OsStr)],
        input: Option<&[u8]>,
    ) -> Result<Vec<u8>, ForgeError> {
        let output = self.run(args, env, input)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let words: Vec<_> = args.iter().map(|arg| arg.as_ref().to_string_lossy().into_owned()).collect();
        Err(ForgeError::Failed {
            what: format!(
                "`git {}` in `{}` failed: {}",
                words.join(" "),
                self.directory.display(),
                String::from_utf8_lossy(&output.stderr).trim()
            ),
            cause: None,
        })
    }

    fn ask_line<A: AsRef<OsStr>>(&self, args: &[A]) -> Result<String, ForgeError> {
        self.ask(args, &[], None).map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// The ref that `HEAD` points to, `refs/heads/main`.
    pub(super) fn head_ref(&self) -> Result<String, ForgeError> {
        self.ask_line(&["symbolic-ref", "HEAD"])
    }

    /// The object that `name` stands for; `None` when there is none.
    pub(super) fn resolve(&self, name: &str) -> Result<Option<String>, ForgeError> {
        refuse_options(name)?;
        let output = self.run(&["rev-parse", "--verify", "--quiet", "--end-of-options", name], &[], None)?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok((output.status.success() && !text.is_empty()).then_some(text))
    }

    /// Names of the branches in a folder of them, at any depth.
    pub(super) fn branches_below(&self, folder: &str) -> Result<Vec<String>, ForgeError> {
        let listed = self.ask_line(&[
            "for-each-ref",
            "--format=%(refname:lstrip=2)",
            &format!("refs/heads/{folder}/"),
        ])?;
        Ok(listed.lines().map(str::to_owned).collect())
    }

    /// Every entry below `tree`, with its folders, by path. Paths that are not UTF-8 are given as bytes would read.
    pub(super) fn entries(&self, tree: &str) -> Result<Listing, ForgeError> {
        Ok(self.listed(tree)?.into_iter().collect())
    }

    /// As [`Git::entries`], in the order of paths.
    fn listed(&self, tree: &str) -> Result<Vec<(String, Entry)>, ForgeError> {
        refuse_options(tree)?;
        let listing = self.ask(
            &["ls-tree", "-r", "-t", "-l", "-z", "--full-tree", "--end-of-options", tree],
            &[],
            None,
        )?;
        let mut entries = Vec::new();
        for line in listing.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
            let line = String::from_utf8_lossy(line);
            let (facts, path) = line.split_once('\t').ok_or_else(|| strange("ls-tree", &line))?;
            let mut words = facts.split_ascii_whitespace();
            let (Some(mode), Some(_), Some(id), Some(size)) =
                (words.next(), words.next(), words.next(), words.next())
            else {
                return Err(strange("ls-tree", &line));
            };
            let entry = Entry { mode: mode.to_owned(), id: id.to_owned(), size: size.parse().ok() };
            entries.push((path.to_owned(), entry));
        }
        // Git has them in order but for folders beside files of a like name.
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(entries)
    }

    /// Every file at `commit` that can be read as text of ours, and what was left out.
    pub(super) fn tree(&self, commit: &str) -> Result<Tree, ForgeError> {
        let mut tree = Tree { commit: commit.to_owned(), ..Tree::default() };
        let wanted = content::wanted(self.listed(commit)?, &mut tree);
        tree.files = self.blobs(wanted)?;
        content::sort_out(&mut tree);
        Ok(tree)
    }

    /// The content of many objects, by the names they are asked under. What stands under several names is read once.
    pub(super) fn blobs(
        &self,
        ids: BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, Vec<u8>>, ForgeError> {
        let (mut distinct, mut n_left): (Vec<&str>, Vec<usize>) = Default::default();
        let mut numbers: HashMap<&str, usize> = HashMap::with_capacity(ids.len());
        let mut asked = Vec::with_capacity(ids.len());
        for id in ids.values() {
            let number = *numbers.entry(id).or_insert_with(|| {
                distinct.push(id);
                n_left.push(0);
                distinct.len() - 1
            });
            n_left[number] += 1;
            asked.push(number);
        }
        let most = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_READERS);
        let size = distinct.len().div_ceil(most).max(FEWEST_EACH);
        let parts = std::thread::scope(|scope| {
            let parts = distinct.chunks(size).map(|part| scope.spawn(move || self.contents(part)));
            let parts: Vec<_> = parts.collect();
            let join = |part: std::thread::ScopedJoinHandle<'_, _>| {
                part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            parts.into_iter().map(join).collect::<Result<Vec<Vec<Vec<u8>>>, ForgeError>>()
        })?;
        let mut contents: Vec<Vec<u8>> = parts.into_iter().flatten().collect();
        let named = ids.into_keys().zip(asked).map(|(path, number)| {
            n_left[number] -= 1;
            let last = n_left[number] == 0;
            let content = &mut contents[number];
            (path, if last { std::mem::take(content) } else { content.clone() })
        });
        Ok(named.collect())
    }

    /// The content of objects in their order, through one process.
    fn contents(&self, ids: &[&str]) -> Result<Vec<Vec<u8>>, ForgeError> {
        let broken = |cause: std::io::Error| ForgeError::Failed {
            what: format!("cannot read objects of `{}`", self.directory.display()),
            cause: Some(Box::new(cause)),
        };
        let mut command = self.command();
        command
            // Without `--buffer` it writes out every object on its own, as if somebody waited for each.
            .args(["cat-file", "--batch", "--buffer"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().map_err(broken)?;
        let asked: String = ids.iter().flat_map(|id| [*id, "\n"]).collect();
        let feeder = feed(&mut child, Some(asked.into_bytes()));
        let stdout = child.stdout.take().ok_or_else(|| strange("cat-file", "no output"))?;
        let mut answers = BufReader::with_capacity(PIPE, stdout);
        let (mut found, mut line) = (Vec::with_capacity(ids.len()), String::new());
        for id in ids {
            line.clear();
            answers.read_line(&mut line).map_err(broken)?;
            let size = line
                .strip_prefix(id)
                .and_then(|rest| rest.trim().strip_prefix("blob "))
                .and_then(|size| size.parse::<usize>().ok())
                .ok_or_else(|| strange("cat-file", &line))?;
            let mut content = vec![0; size + 1];
            answers.read_exact(&mut content).map_err(broken)?;
            content.pop();
            found.push(content);
        }
        drop(answers);
        drop(feeder.map(std::thread::JoinHandle::join));
        child.wait().map_err(broken)?;
        Ok(found)
    }

    /// Differences between two trees: path to the entry then, `None` where it is gone. Renames are two entries.
    pub(super) fn diff(&self, from: &str, to: &str) -> Result<BTreeMap<String, Option<Entry>>, ForgeError> {
        refuse_options(from)?;
        refuse_options(to)?;
        let listing = self.ask(
            &["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--end-of-options", from, to],
            &[],
            None,
        )?;
        let mut differences = BTreeMap::new();
        let mut parts = listing.split(|byte| *byte == 0).filter(|part| !part.is_empty());
        while let Some(facts) = parts.next() {
            let facts = String::from_utf8_lossy(facts).into_owned();
            let path = parts.next().ok_or_else(|| strange("diff-tree", &facts))?;
            let words: Vec<&str> = facts.trim_start_matches(':').split(' ').collect();
            let [_, mode, _, id, status] = words[..] else { return Err(strange("diff-tree", &facts)) };
            let then =
                (status != "D").then(|| Entry { mode: mode.to_owned(), id: id.to_owned(), size: None });
            differences.insert(String::from_utf8_lossy(path).into_owned(), then);
        }
        Ok(differences)
    }

    /// The best common ancestor; `None` when the histories are unrelated.
    pub(super) fn merge_base(&self, a: &str, b: &str) -> Result<Option<String>, ForgeError> {
        let output = self.run(&["merge-base", a, b], &[], None)?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok((output.status.success() && !text.is_empty()).then_some(text))
    }

    /// Commits of `to` that `from` does not have, oldest first: id, author's and committer's e-mail.
    pub(super) fn log(&self, from: &str, to: &str) -> Result<Vec<(String, [String; 2])>, ForgeError> {
        let range = format!("{from}..{to}");
        let text = self.ask(
            &[
                "log",
                "--reverse",
                "--topo-order",
                "--no-show-signature",
                "-z",
                "--format=%H%n%ae%n%ce",
                &range,
            ],
            &[],
            None,
        )?;
        String::from_utf8_lossy(&text)
            .split('\0')
            .filter(|record| !record.is_empty())
            .map(|record| {
                let mut lines = record.lines();
                match (lines.next(), lines.next(), lines.next()) {
                    (Some(id), author, committer) => {
                        let own = |text: Option<&str>| text.unwrap_or_default().to_owned();
                        Ok((id.to_owned(), [own(author), own(committer)]))
                    }
                    _ => Err(strange("log", record)),
                }
            })
            .collect()
    }

    /// Seconds since 1970 at which `commit` was committed.
    pub(super) fn committed_at(&self, commit: &str) -> Result<String, ForgeError> {
        refuse_options(commit)?;
        self.ask_line(&["show", "-s", "--no-show-signature", "--format=%ct", "--end-of-options", commit])
    }

    /// Writes a blob and returns its id.
    pub(super) fn write_blob(&self, content: &[u8]) -> Result<String, ForgeError> {
        let id = self.ask(&["hash-object", "-w", "-t", "blob", "--stdin"], &[], Some(content))?;
        Ok(String::from_utf8_lossy(&id).trim().to_owned())
    }

    /// Writes the tree of `base` (or an empty one) with other entries, `None` removing one; returns its id.
    pub(super) fn write_tree(
        &self,
        base: Option<&str>,
        entries: &BTreeMap<String, Option<(String, String)>>,
    ) -> Result<String, ForgeError> {
        let index = Index::new(&self.directory);
        let env = [("GIT_INDEX_FILE", index.path.as_os_str())];
        self.ask(&["read-tree", base.unwrap_or("--empty")], &env, None)?;
        let zero = "0".repeat(base.map_or(40, str::len));
        let mut lines = Vec::new();
        for (path, entry) in entries {
            let (mode, id) = entry.as_ref().map_or(("0", zero.as_str()), |(mode, id)| (mode, id));
            lines.extend_from_slice(format!("{mode} {id}\t{path}\0").as_bytes());
        }
        self.ask(&["update-index", "-z", "--index-info"], &env, Some(&lines))?;
        // A copy that was fetched without the contents of files has none to look at.
        let id = self.ask(&["write-tree", "--missing-ok"], &env, None)?;
        Ok(String::from_utf8_lossy(&id).trim().to_owned())
    }

    /// Writes a commit with at most one parent; equal input gives an equal id.
    pub(super) fn write_commit(
        &self,
        tree: &str,
        parent: Option<&str>,
        message: &str,
        by: &Signature<'_>,
    ) -> Result<String, ForgeError> {
        let date = format!("{} +0000", by.seconds);
        let env = [
            ("GIT_AUTHOR_NAME", OsStr::new(by.name)),
            ("GIT_AUTHOR_EMAIL", OsStr::new(by.email)),
            ("GIT_AUTHOR_DATE", OsStr::new(&date)),
            ("GIT_COMMITTER_NAME", OsStr::new(by.name)),
            ("GIT_COMMITTER_EMAIL", OsStr::new(by.email)),
            ("GIT_COMMITTER_DATE", OsStr::new(&date)),
        ];
        let message = format!("{}\n", message.trim_end());
        let mut args = vec!["commit-tree", "--no-gpg-sign"];
        args.extend(parent.into_iter().flat_map(|parent| ["-p", parent]));
        args.extend(["-F", "-", tree]);
        let id = self.ask(&args, &env, Some(message.as_bytes()))?;
        Ok(String::from_utf8_lossy(&id).trim().to_owned())
    }

    /// Moves `name` from `old` to `new`, `None` standing for "is not there", in one step or not at all.
    pub(super) fn move_ref(
        &self,
        name: &str,
        old: Option<&str>,
        new: Option<&str>,
    ) -> Result<(), ForgeError> {
        let width = old.or(new).map_or(40, str::len);
        let zero = "0".repeat(width);
        let (old_id, new_id) = (old.unwrap_or(&zero), new.unwrap_or(&zero));
        let line = format!("update {name}\0{new_id}\0{old_id}\0");
        let done = self.ask(&["update-ref", "-z", "--stdin"], &[], Some(line.as_bytes()));
        // The message differs between versions of git, so the ref itself says whether somebody was faster.
        match done {
            Ok(_) => Ok(()),
            Err(_) if self.resolve(name)?.as_deref() != old => {
                Err(ForgeError::Conflict { what: format!("`{name}` of `{}`", self.directory.display()) })
            }
            Err(error) => Err(error),
        }
    }
}

/// A temporary index beside the repository's own, gone when dropped.
struct Index {
    path: PathBuf,
}

impl Index {
    fn new(directory: &Path) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        // A work tree added with `git worktree` has a file here, which points elsewhere.
        let folder = if directory.is_dir() { directory.to_path_buf() } else { std::env::temp_dir() };
        Self { path: folder.join(format!("slicewright-{}-{n}.index", std::process::id())) }
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        // Best effort: a left-over index is never read again.
        drop(std::fs::remove_file(&self.path));
    }
}

/// Writes `input` from a thread, so that neither side waits for the other's full pipe.
fn feed(child: &mut Child, input: Option<Vec<u8>>) -> Option<std::thread::JoinHandle<()>> {
    let (mut stdin, input) = (child.stdin.take()?, input?);
    Some(std::thread::spawn(move || {
        // A command that stops reading early says why in its own exit code.
        drop(stdin.write_all(&input));
    }))
}

fn refuse_options(value: &str) -> Result<(), ForgeError> {
    if value.starts_with('-') || value.is_empty() || value.contains(['\0', '\n']) {
        return Err(ForgeError::Denied { what: format!("the name `{}`", value.escape_debug()) });
    }
    Ok(())
}

fn strange(command: &str, answer: &str) -> ForgeError {
    ForgeError::Failed {
        what: format!(
            "`git {command}` answered what cannot be understood: `{}`",
            answer.trim().escape_debug()
        ),
        cause: None,
    }
}
