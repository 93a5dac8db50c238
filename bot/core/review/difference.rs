//! What is another thing than it was, for whoever asked for it.

use std::collections::BTreeSet;

use super::lifecycle::Wanted;
use super::metadata::Metadata;
use crate::units::{counted, first_few};

/// Workloads that are named; more make no line that anybody reads.
const MOST: usize = 3;

/// How what is proposed now differs from what was noted, in half a sentence; empty where people would see no difference.
/// `named` are workloads that may be gone from the plan: the note itself holds no names.
pub fn difference(known: &Metadata, named: &BTreeSet<String>, now: &Wanted) -> String {
    let mut parts = Vec::new();
    if now.cards_freed != known.cards_freed {
        parts.push(format!(
            "it frees {} instead of {}",
            counted(now.cards_freed as usize, "GPU"),
            known.cards_freed
        ));
    }
    if now.method != known.method {
        parts.push(format!("by {} instead of {}", now.method, known.method));
    }
    let all: BTreeSet<&String> = named.iter().chain(now.shares.keys()).collect();
    let differs = |workload: &&String| {
        let was: Vec<&str> = known.shares.may_be(workload).collect();
        match (was.as_slice(), now.shares.get(*workload)) {
            ([], None) => None,
            ([], Some(share)) => Some(format!("`{workload}` gets {share}")),
            (_, None) => Some(format!("`{workload}` keeps what it has")),
            (was, Some(share)) if was.contains(&share.as_str()) => None,
            ([was], Some(share)) => Some(format!("`{workload}` gets {share} instead of {was}")),
            (_, Some(share)) => Some(format!("`{workload}` gets {share}")),
        }
    };
    let workloads: Vec<String> = all.iter().filter_map(differs).collect();
    if !workloads.is_empty() {
        parts.push(first_few(&workloads, MOST, ", "));
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::metadata::example;
    use super::super::shares::Shares;
    use super::*;

    fn shares(all: &[(&str, &str)]) -> BTreeMap<String, String> {
        all.iter().map(|(workload, share)| ((*workload).to_owned(), (*share).to_owned())).collect()
    }

    fn wanted(cards_freed: u32, all: &[(&str, &str)]) -> Wanted {
        Wanted {
            title: String::new(),
            body: String::new(),
            fingerprint: String::new(),
            files: BTreeMap::new(),
            method: "MIG".into(),
            cards_freed,
            shares: shares(all),
            outgrown: Vec::new(),
        }
    }

    #[test]
    fn every_difference_that_people_would_see_is_named() {
        let before = shares(&[("a/one", "2g.10gb"), ("a/two", "2g.10gb"), ("a/three", "1g.5gb")]);
        let known = Metadata { shares: Shares::of(&before), ..example() };
        let named = before.keys().cloned().collect();
        let now = wanted(1, &[("a/one", "3g.20gb"), ("a/three", "1g.5gb"), ("a/four", "1g.5gb")]);
        assert_eq!(
            difference(&known, &named, &now),
            "it frees 1 GPU instead of 2; `a/four` gets 1g.5gb, `a/one` gets 3g.20gb instead of 2g.10gb, `a/two` keeps what it has"
        );
        let same = wanted(2, &[("a/one", "2g.10gb"), ("a/two", "2g.10gb"), ("a/three", "1g.5gb")]);
        assert_eq!(difference(&known, &named, &same), "");
    }
}
