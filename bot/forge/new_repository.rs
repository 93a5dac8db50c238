//! A new bare repository with some files in one commit: what the demo works on.

use std::collections::BTreeMap;
use std::path::Path;

use super::ForgeError;
use super::git::{Git, Signature};

/// Makes a bare repository at `path` whose `branch` has one commit with `files`. Equal files give an equal commit.
///
/// # Errors
/// When git is not there or cannot write to `path`.
pub fn new_repository(
    path: &Path,
    branch: &str,
    files: &BTreeMap<String, Vec<u8>>,
) -> Result<(), ForgeError> {
    let git = Git::init(path, branch)?;
    let mut entries = BTreeMap::new();
    for (name, content) in files {
        entries.insert(name.clone(), Some(("100644".to_owned(), git.write_blob(content)?)));
    }
    let tree = git.write_tree(None, &entries)?;
    let by = Signature { name: "Platform team", email: "platform@example.com", seconds: "1767225600" };
    let commit = git.write_commit(&tree, None, "Import the infrastructure repository", &by)?;
    git.move_ref(&format!("refs/heads/{branch}"), None, Some(&commit))
}
