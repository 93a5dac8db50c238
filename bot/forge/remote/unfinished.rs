//! Branches that the bot moved and whose text it did not write since.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Heads by branch, for as long as this run lasts. What an earlier run left behind is not known here.
#[derive(Default)]
pub(in crate::forge) struct Unfinished(Mutex<BTreeMap<String, String>>);

impl Unfinished {
    /// The head that the bot gave the branch.
    pub(in crate::forge) fn of(&self, branch: &str) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(branch).cloned()
    }

    /// The branch is about to get this head, or has it.
    pub(in crate::forge) fn note(&self, branch: &str, head: &str) {
        let mut heads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heads.insert(branch.to_owned(), head.to_owned());
    }

    /// Branch and text agree, or the head came to nothing.
    pub(in crate::forge) fn forget(&self, branch: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(branch);
    }
}
