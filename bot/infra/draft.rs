//! The change set while it grows.

use std::collections::{BTreeMap, BTreeSet};

use super::repository::{self, Repository};
use super::{ChangeSet, ManualChange};

/// Edited texts, and what is left for people.
#[derive(Clone, Debug)]
pub(super) struct Draft<'a> {
    repository: &'a Repository<'a>,
    changed: BTreeMap<String, String>,
    manual: BTreeSet<ManualChange>,
    side_effects: BTreeSet<String>,
    /// Labels for the script: node, key, value.
    pub(super) script: Vec<(String, String, String)>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(repository: &'a Repository<'a>) -> Self {
        Self {
            repository,
            changed: BTreeMap::new(),
            manual: BTreeSet::new(),
            side_effects: BTreeSet::new(),
            script: Vec::new(),
        }
    }

    /// A file as it stands after the edits so far.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.changed.get(path).map(String::as_str).or_else(|| self.repository.texts.get(path).copied())
    }

    /// The files that were edited so far.
    pub(super) fn changed(&self) -> &BTreeMap<String, String> {
        &self.changed
    }

    /// Puts a file's whole new text.
    pub(super) fn set(&mut self, path: &str, text: String) {
        if self.text(path) != Some(text.as_str()) {
            self.changed.insert(path.to_owned(), text);
        }
    }

    /// The path of a file in the folder for new files, or why the bot does not write there.
    pub(super) fn new_path(&self, name: &str) -> Result<String, String> {
        let path = format!("{}{name}", self.repository.scope.new_files);
        if !repository::is_plain_path(&path) || repository::is_protected(&path) {
            return Err(format!(
                "`{}` is not a folder that the bot writes to",
                self.repository.scope.new_files
            ));
        }
        if self.repository.unread.contains(path.as_str()) {
            return Err(format!("`{path}` exists and was not read"));
        }
        Ok(path)
    }

    /// Something is left for people.
    pub(super) fn has_manual(&self) -> bool {
        !self.manual.is_empty()
    }

    /// What was left for people since the last time, taken back.
    pub(super) fn take_manual(&mut self) -> BTreeSet<ManualChange> {
        std::mem::take(&mut self.manual)
    }

    pub(super) fn manual(&mut self, change: ManualChange) {
        self.manual.insert(change);
    }

    pub(super) fn side_effect(&mut self, sentence: String) {
        self.side_effects.insert(sentence);
    }

    /// Files that differ, sorted lists.
    pub(super) fn finish(self) -> ChangeSet {
        let texts = &self.repository.texts;
        let files = self
            .changed
            .into_iter()
            .filter(|(path, text)| texts.get(path.as_str()) != Some(&text.as_str()))
            .map(|(path, text)| (path, text.into_bytes()))
            .collect();
        ChangeSet {
            files,
            manual: self.manual.into_iter().collect(),
            side_effects: self.side_effects.into_iter().collect(),
        }
    }
}
