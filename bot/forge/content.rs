//! Which files of a tree are read, what is said about the rest, and which paths may be written.

use std::collections::BTreeMap;

use super::{ForgeError, Tree};

/// Larger files are not read: no manifest that people review has 2 MiB. Doubling it costs memory only.
const LARGEST_FILE: u64 = 2 << 20;

/// Together no more than this is held. A repository of 20,000 manifests has some 60 MiB.
pub(super) const LARGEST_TREE: u64 = 256 << 20;

/// How a Git LFS pointer starts; the file's real content is elsewhere.
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";

/// One entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// `100644`, `100755`, `120000` (symlink), `160000` (submodule), `040000` (folder).
    pub(super) mode: String,
    /// Object id.
    pub(super) id: String,
    /// Bytes, for files, where the listing says it.
    pub(super) size: Option<u64>,
}

impl Entry {
    /// A folder, which says nothing that its files do not say.
    pub(super) fn is_folder(&self) -> bool {
        self.mode == "040000"
    }

    /// A plain file, executable or not.
    pub(super) fn is_file(&self) -> bool {
        self.mode == "100644" || self.mode == "100755"
    }
}

/// Every entry of a tree, folders included, by path.
pub(super) type Listing = BTreeMap<String, Entry>;

/// Ids of the files to read, by path; the others are named in `tree.skipped`. The entries come in the order of paths.
pub(super) fn wanted(
    entries: impl IntoIterator<Item = (String, Entry)>,
    tree: &mut Tree,
) -> BTreeMap<String, String> {
    let mut total = 0;
    let mut why_not = |path: &str, entry: &Entry| {
        let size = entry.size.unwrap_or_default();
        Some(match entry.mode.as_str() {
            _ if path.contains(char::REPLACEMENT_CHARACTER) => "its name is not UTF-8".to_owned(),
            "120000" => "a symlink, which is never followed".to_owned(),
            "160000" => "a submodule, which lives in another repository".to_owned(),
            "100644" | "100755" if size > LARGEST_FILE => too_large(size),
            "100644" | "100755" if total + size > LARGEST_TREE => {
                format!("the files before it have {total} bytes, close to the limit")
            }
            "100644" | "100755" => {
                total += size;
                return None;
            }
            mode => format!("an entry of mode {mode}"),
        })
    };
    let mut wanted = Vec::new();
    for (path, entry) in entries.into_iter().filter(|(_, entry)| !entry.is_folder()) {
        match why_not(&path, &entry) {
            Some(why) => drop(tree.skipped.insert(path, why)),
            None => wanted.push((path, entry.id)),
        }
    }
    wanted.into_iter().collect()
}

/// Takes out of `tree` what was read and is of no use: pointers to content that is elsewhere, and files whose listing
/// did not say how large they are.
pub(super) fn sort_out(tree: &mut Tree) {
    let why = |bytes: &[u8]| {
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let pointer = bytes.starts_with(LFS_POINTER);
        match pointer {
            true => Some("a Git LFS pointer, whose content is elsewhere".to_owned()),
            false => (size > LARGEST_FILE).then(|| too_large(size)),
        }
    };
    let out: Vec<_> =
        tree.files.iter().filter_map(|(path, bytes)| Some((path.clone(), why(bytes)?))).collect();
    for (path, why) in out {
        tree.files.remove(&path);
        tree.skipped.insert(path, why);
    }
}

/// Object ids of the files among what a branch changes, by path.
pub(super) fn ids(changed: &BTreeMap<String, Option<Entry>>) -> BTreeMap<String, String> {
    let files = changed.iter().filter_map(|(path, entry)| Some((path, entry.as_ref()?)));
    files.filter(|(_, entry)| entry.is_file()).map(|(path, entry)| (path.clone(), entry.id.clone())).collect()
}

/// What a branch changes, with contents. A symlink or submodule is not ours; its mode keeps it from looking like a file
/// that we wrote.
pub(super) fn filled(
    changed: BTreeMap<String, Option<Entry>>,
    mut content: impl FnMut(&str) -> Option<Vec<u8>>,
) -> BTreeMap<String, Option<Vec<u8>>> {
    let fill = |(path, entry): (String, Option<Entry>)| {
        let filled = entry.map(|entry| content(&path).unwrap_or_else(|| entry.mode.into_bytes()));
        (path, filled)
    };
    changed.into_iter().map(fill).collect()
}

/// Whether the branch at `head`, which grew from `base`, is merged: the default branch says all of it (`all_there`), or
/// holds the head itself. A branch that a person put back to a commit of the default branch is no merged proposal, which is
/// known by the head that the bot `noted`.
pub(super) fn is_merged(all_there: bool, base: &str, head: &str, noted: Option<&str>) -> bool {
    match base == head {
        true => noted == Some(head),
        false => all_there,
    }
}

fn too_large(size: u64) -> String {
    format!("{size} bytes, more than the {LARGEST_FILE} that are read")
}

/// The mode that `path` gets, or why it may not be written.
pub(super) fn writable(path: &str, there: &Listing) -> Result<String, ForgeError> {
    let denied =
        |why: &str| ForgeError::Denied { what: format!("writing `{}`, {why},", path.escape_debug()) };
    let bad_part =
        |part: &str| part.is_empty() || part == "." || part == ".." || part.eq_ignore_ascii_case(".git");
    if path.starts_with('-') || path.contains(['\0', '\\', '\n']) || path.split('/').any(bad_part) {
        return Err(denied("which is not a plain path inside the repository"));
    }
    if [".github/", ".gitlab/", ".forgejo/", ".gitea/"].iter().any(|folder| path.starts_with(folder))
        || path == ".gitlab-ci.yml"
    {
        return Err(denied("which is how the repository is built"));
    }
    if path == ".slicewright.yaml" && there.contains_key(path) {
        return Err(denied("which is the people's own word to the bot"));
    }
    for (end, _) in path.match_indices('/') {
        if there.get(&path[..end]).is_some_and(|entry| entry.mode != "040000") {
            return Err(denied("whose folder is a symlink, a submodule or a file"));
        }
    }
    match there.get(path).map(|entry| entry.mode.as_str()) {
        None => Ok("100644".into()),
        Some(mode @ ("100644" | "100755")) => Ok(mode.into()),
        Some(_) => Err(denied("which is a symlink, a submodule or a folder")),
    }
}
