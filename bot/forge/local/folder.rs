//! One merge request as a folder of files that people read and answer in.
//!
//! `body.md` is the text, `state.json` what a forge shows beside it, `comments/<topic>.md` what the bot says about it.
//! Each file is written as a whole or not at all.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use slicewright_core::review::metadata::{Metadata, State};

use crate::forge::{ForgeError, FoundRequest, RequestText, Topic, held_by_label};

/// How the names of the bot's answers start.
const REPLY: &str = "reply-";

/// Bytes of the largest file that is taken for a comment: GitHub's own limit is some 64 KiB, GitLab's 1 MB.
const LARGEST_REMARK: u64 = 1 << 20;

/// The folder of one branch.
pub(super) struct Folder {
    path: PathBuf,
    branch: String,
}

/// What `state.json` holds. The first field takes people's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Shown {
    /// `open`, or why it is closed. A person writes `declined` to close it, and `open` to open it again.
    state: String,
    /// Branch that the change is on.
    branch: String,
    /// Branch that it is for.
    base_branch: Option<String>,
    draft: bool,
    /// Labels; `slicewright/hold` keeps the branch as it is.
    labels: Vec<String>,
    /// Whom CODEOWNERS names.
    reviewers: Vec<String>,
}

impl Folder {
    /// Of `branch`, below the folder for all merge requests. Nothing is read or made yet.
    pub(super) fn new(below: &Path, branch: &str) -> Self {
        Self { path: below.join(branch.replace('/', "__")), branch: branch.to_owned() }
    }

    fn body(&self) -> PathBuf {
        self.path.join("body.md")
    }

    fn state(&self) -> PathBuf {
        self.path.join("state.json")
    }

    /// Where the head stands while branch and text do not agree yet.
    fn note(&self) -> PathBuf {
        self.path.join(".unfinished-head")
    }

    /// Whether there is a merge request.
    pub(super) fn is_there(&self) -> Result<bool, ForgeError> {
        Ok(self.text_of(&self.body())?.is_some())
    }

    /// The merge request, if there is one.
    pub(super) fn read(&self) -> Result<Option<FoundRequest>, ForgeError> {
        let Some(text) = self.text_of(&self.body())? else { return Ok(None) };
        let (title, body) = parse_body(&text);
        let shown = self.shown()?;
        let open = match &shown {
            Some(shown) => shown.state.trim().eq_ignore_ascii_case(State::Open.name()),
            // Somebody removed the file: what the bot wrote last holds.
            None => Metadata::parse(&body).is_none_or(|noted| noted.state == State::Open),
        };
        let shown = shown.unwrap_or_default();
        Ok(Some(FoundRequest {
            id: self.branch.clone(),
            by_bot: true,
            open,
            draft: shown.draft,
            title,
            body,
            url: self.body().display().to_string(),
            base_branch: shown.base_branch,
            held: held_by_label(shown.labels.iter().map(String::as_str)),
            ..FoundRequest::default()
        }))
    }

    /// Writes text and state, each unless it says so already. Labels and reviewers are those of a new one.
    pub(super) fn write(&self, request: &RequestText) -> Result<PathBuf, ForgeError> {
        let there = self.shown()?;
        let is_new = there.as_ref().is_none_or(|there| !there.state.eq_ignore_ascii_case(State::Open.name()));
        let mut shown = Shown {
            branch: self.branch.clone(),
            base_branch: Some(request.base_branch.clone()).filter(|branch| !branch.is_empty()),
            draft: request.draft,
            ..there.unwrap_or_default()
        };
        if is_new {
            shown.labels.clone_from(&request.labels);
            shown.reviewers.clone_from(&request.reviewers);
        }
        self.write_both(&request.title, &request.body, shown)
    }

    /// Writes title, text, and the state that the text has.
    pub(super) fn close(&self, title: &str, body: &str) -> Result<(), ForgeError> {
        let shown =
            self.shown()?.unwrap_or_else(|| Shown { branch: self.branch.clone(), ..Shown::default() });
        self.write_both(title, body, shown).map(drop)
    }

    /// Puts a label on, or takes it off in every spelling. All else stays as people wrote it.
    pub(super) fn label(&self, label: &str, on: bool) -> Result<(), ForgeError> {
        let Some(request) = self.read()? else {
            let what = format!("a merge request at `{}`", self.path.display());
            return Err(ForgeError::NotFound { what });
        };
        let mut shown = self.shown()?.unwrap_or_else(|| Shown {
            // Somebody removed the file: what the text says holds.
            state: Metadata::parse(&request.body).map_or(State::Open, |noted| noted.state).name().to_owned(),
            branch: self.branch.clone(),
            ..Shown::default()
        });
        let is_it = |known: &String| known.eq_ignore_ascii_case(label);
        if shown.labels.iter().any(is_it) == on {
            return Ok(());
        }
        match on {
            true => shown.labels.push(label.to_owned()),
            false => shown.labels.retain(|known| !is_it(known)),
        }
        self.put_state(&shown)
    }

    fn write_both(&self, title: &str, body: &str, shown: Shown) -> Result<PathBuf, ForgeError> {
        let state = Metadata::parse(body).map_or("closed", |noted| noted.state.name());
        let shown = Shown { state: state.to_owned(), ..shown };
        self.put(&self.body(), format_body(title, body).as_bytes())?;
        self.put_state(&shown)?;
        Ok(self.body())
    }

    fn put_state(&self, shown: &Shown) -> Result<(), ForgeError> {
        let json = serde_json::to_string_pretty(shown).expect("texts always serialise");
        self.put(&self.state(), format!("{json}\n").as_bytes())
    }

    /// The head that was noted before the branch moved, where the text was not written since.
    pub(super) fn unfinished_head(&self) -> Result<Option<String>, ForgeError> {
        let text = self.text_of(&self.note())?;
        Ok(text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()))
    }

    /// Notes the head that the branch is about to get.
    pub(super) fn note_head(&self, head: &str) -> Result<(), ForgeError> {
        self.put(&self.note(), head.as_bytes())
    }

    /// Branch and text agree.
    pub(super) fn forget_head(&self) -> Result<(), ForgeError> {
        remove(&self.note())
    }

    /// Makes `text` the bot's words about `topic`, or removes them.
    pub(super) fn say(&self, topic: Topic, text: Option<&str>) -> Result<(), ForgeError> {
        let path = self.path.join("comments").join(format!("{}.md", topic.code()));
        match text {
            Some(text) => self.put(&path, format!("{}\n", text.trim_end()).as_bytes()),
            None => remove(&path),
        }
    }

    /// Answers once.
    pub(super) fn reply(&self, marker: &str, text: &str) -> Result<(), ForgeError> {
        let path = self.path.join("comments").join(format!("{REPLY}{marker}.md"));
        match self.text_of(&path)? {
            Some(_) => Ok(()),
            None => self.put(&path, format!("{}\n", text.trim_end()).as_bytes()),
        }
    }

    /// What people wrote: name, text, and the facts of the file. What is no plain file of some size is none.
    pub(super) fn remarks(&self) -> Result<Vec<(String, String, std::fs::Metadata)>, ForgeError> {
        let folder = self.path.join("comments");
        let broken = |cause: std::io::Error| failed(format!("cannot read `{}`", folder.display()), cause);
        let entries = match std::fs::read_dir(&folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(broken)?,
        };
        let mut remarks = Vec::new();
        for entry in entries {
            let entry = entry.map_err(broken)?;
            let Ok(file) = entry.file_name().into_string() else { continue };
            let Some(name) = file.strip_suffix(".md") else { continue };
            let by_bot = name.starts_with(REPLY) || Topic::ALL.iter().any(|topic| topic.code() == name);
            if by_bot || name.starts_with('.') {
                continue;
            }
            let facts = std::fs::symlink_metadata(entry.path()).map_err(broken)?;
            if !facts.is_file() || facts.len() > LARGEST_REMARK {
                continue;
            }
            if let Some(text) = self.text_of(&entry.path())? {
                remarks.push((name.to_owned(), text, facts));
            }
        }
        Ok(remarks)
    }

    fn shown(&self) -> Result<Option<Shown>, ForgeError> {
        let Some(text) = self.text_of(&self.state())? else { return Ok(None) };
        serde_json::from_str(&text).map(Some).map_err(|cause| ForgeError::Failed {
            what: format!(
                "`{}` cannot be understood; put it right, or remove it to take the state from the text",
                self.state().display()
            ),
            cause: Some(Box::new(cause)),
        })
    }

    /// The text of a plain file; a symlink is never followed.
    fn text_of(&self, path: &Path) -> Result<Option<String>, ForgeError> {
        let broken = |cause: std::io::Error| failed(format!("cannot read `{}`", path.display()), cause);
        for path in [self.path.as_path(), path] {
            match std::fs::symlink_metadata(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(broken(error)),
                Ok(facts) if facts.is_symlink() => {
                    let what = format!("`{}`, which is a symlink,", path.display());
                    return Err(ForgeError::Denied { what });
                }
                Ok(_) => {}
            }
        }
        let text = std::fs::read(path).map_err(broken)?;
        Ok(Some(String::from_utf8_lossy(&text).trim_start_matches('\u{feff}').replace("\r\n", "\n")))
    }

    /// Writes a file, unless it has this content already.
    fn put(&self, path: &Path, content: &[u8]) -> Result<(), ForgeError> {
        let broken = |cause: std::io::Error| failed(format!("cannot write `{}`", path.display()), cause);
        if std::fs::read(path).is_ok_and(|there| there == content) {
            return Ok(());
        }
        std::fs::create_dir_all(path.parent().unwrap_or(&self.path)).map_err(broken)?;
        replace(path, content).map_err(broken)
    }
}

fn remove(path: &Path) -> Result<(), ForgeError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(failed(format!("cannot remove `{}`", path.display()), error))
        }
        _ => Ok(()),
    }
}

fn format_body(title: &str, body: &str) -> String {
    let title: String = title.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("# {}\n\n{}\n", title.trim(), body.trim())
}

/// Title and text of [`format_body`], with what people do to it.
fn parse_body(text: &str) -> (String, String) {
    let text = text.trim_start();
    match text.strip_prefix("# ") {
        None => (String::new(), text.trim_end().to_owned()),
        Some(rest) => {
            let (title, body) = rest.split_once('\n').unwrap_or((rest, ""));
            (title.trim().to_owned(), body.trim().to_owned())
        }
    }
}

/// Writes the file with the standing of all merge requests, unless it says so already.
pub(super) fn show_board(below: &Path, title: &str, text: &str) -> Result<PathBuf, ForgeError> {
    let path = below.join("dashboard.md");
    Folder::new(below, "").put(&path, format_body(title, text).as_bytes())?;
    Ok(path)
}

/// Writes a file as a whole or not at all.
fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let temporary = path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    let write = || {
        let mut file = std::fs::File::create(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)
    };
    write().inspect_err(|_| drop(std::fs::remove_file(&temporary)))
}

pub(super) fn failed(what: String, cause: std::io::Error) -> ForgeError {
    ForgeError::Failed { what, cause: Some(Box::new(cause)) }
}
