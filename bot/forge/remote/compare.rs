//! A branch against its base and against the default branch, from their listings.

use std::collections::{BTreeMap, BTreeSet};

use crate::forge::content::{Entry, Listing};

/// What a branch changes, seen from the default branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::forge) struct Change {
    /// The branch against its base, by path: `None` where the entry is gone. Folders are left out.
    pub(in crate::forge) files: BTreeMap<String, Option<Entry>>,
    /// Paths of `files` that differ between base and default branch.
    pub(in crate::forge) stale: BTreeSet<String>,
    /// The default branch says all of it already.
    pub(in crate::forge) merged: bool,
}

/// Compares the branch's tree (`head`) with that of its merge base and that of the default branch.
pub(in crate::forge) fn compare(base: &Listing, head: &Listing, main: &Listing) -> Change {
    let files = differences(base, head);
    let stale = files.keys().filter(|path| entry(base, path) != entry(main, path)).cloned().collect();
    let merged = !files.is_empty() && files.keys().all(|path| entry(head, path) == entry(main, path));
    Change { files, stale, merged }
}

/// Whether `merge` is `ours` with everything that `theirs` changed since their common `base`, and nothing else: what a
/// forge's button to update a branch makes.
pub(in crate::forge) fn merges_only(
    base: &Listing,
    ours: &Listing,
    theirs: &Listing,
    merge: &Listing,
) -> bool {
    let changed = differences(base, ours);
    let paths = ours.keys().chain(theirs.keys()).chain(merge.keys());
    paths
        .filter(|path| [ours, theirs, merge].iter().all(|tree| entry_is_no_folder(tree, path)))
        .all(|path| entry(merge, path) == entry(if changed.contains_key(path) { ours } else { theirs }, path))
}

fn differences(from: &Listing, to: &Listing) -> BTreeMap<String, Option<Entry>> {
    let mut differences = BTreeMap::new();
    for path in from.keys().chain(to.keys()) {
        let then = entry(to, path);
        if entry(from, path) != then {
            differences.insert(path.clone(), then.map(|known| known.0.clone()));
        }
    }
    differences
}

/// The file, symlink or submodule at `path`. Sizes are not compared: not every listing knows them.
fn entry<'a>(listing: &'a Listing, path: &str) -> Option<Known<'a>> {
    listing.get(path).filter(|entry| !entry.is_folder()).map(Known)
}

fn entry_is_no_folder(listing: &Listing, path: &str) -> bool {
    listing.get(path).is_none_or(|entry| !entry.is_folder())
}

/// An entry by what it is and holds.
#[derive(Clone, Copy)]
struct Known<'a>(&'a Entry);

impl PartialEq for Known<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.mode == other.0.mode && self.0.id == other.0.id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(entries: &[(&str, &str)]) -> Listing {
        let entry = |id: &str| Entry { mode: "100644".into(), id: id.into(), size: None };
        entries.iter().map(|(path, id)| ((*path).to_owned(), entry(id))).collect()
    }

    #[test]
    fn what_a_branch_changes_and_what_became_of_it_on_the_default_branch() {
        let base = listing(&[("a", "1"), ("b", "1"), ("c", "1")]);
        let head = listing(&[("a", "2"), ("b", "1"), ("d", "1")]);
        let change = compare(&base, &head, &base);
        assert_eq!(change.files.keys().collect::<Vec<_>>(), ["a", "c", "d"]);
        assert_eq!(change.files["c"], None);
        assert!(change.stale.is_empty() && !change.merged);
        let moved = listing(&[("a", "3"), ("b", "9"), ("c", "1")]);
        assert_eq!(compare(&base, &head, &moved).stale, ["a".to_owned()].into());
        let merged = listing(&[("a", "2"), ("b", "7"), ("d", "1")]);
        assert!(compare(&base, &head, &merged).merged);
        assert!(!compare(&base, &base, &base).merged, "no change is not a merged change");
    }

    #[test]
    fn a_mode_that_changed_is_a_change_and_a_size_that_is_not_known_is_none() {
        let base = listing(&[("a", "1")]);
        let mut head = base.clone();
        head.get_mut("a").unwrap().size = Some(3);
        assert!(compare(&base, &head, &base).files.is_empty());
        head.get_mut("a").unwrap().mode = "100755".into();
        assert_eq!(compare(&base, &head, &base).files.len(), 1);
    }

    #[test]
    fn a_merge_of_the_base_is_told_from_one_with_more_in_it() {
        let base = listing(&[("a", "1"), ("b", "1"), ("c", "1")]);
        let ours = listing(&[("a", "2"), ("b", "1"), ("c", "1")]);
        let theirs = listing(&[("a", "1"), ("b", "5"), ("d", "1")]);
        let plain = listing(&[("a", "2"), ("b", "5"), ("d", "1")]);
        assert!(merges_only(&base, &ours, &theirs, &plain));
        for more in [
            listing(&[("a", "2"), ("b", "6"), ("d", "1")]),
            listing(&[("a", "3"), ("b", "5"), ("d", "1")]),
            listing(&[("a", "2"), ("b", "5"), ("d", "1"), ("e", "1")]),
            listing(&[("a", "2"), ("b", "5"), ("c", "1"), ("d", "1")]),
        ] {
            assert!(!merges_only(&base, &ours, &theirs, &more), "{more:?}");
        }
    }
}
