//! What each workload of a proposal gets, in few bytes: a hidden block must fit beside the text.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Most workloads that are noted. Their digests take 8 kB; GitHub takes 65,536 characters with the text, which may have
/// 52,000. Doubled, the largest proposals would be refused there.
const MOST: usize = 1_000;

/// Hexadecimal digits of a workload's digest. Of 1,000 that are noted, one more is taken for one of them once in four
/// million times, and then the branch is looked at more strictly than it need be.
const DIGITS: usize = 8;

/// Shares by workload, `search/ranker` to `2g.10gb`, by digests of the workloads' names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Shares(
    /// Share to the digests of all that get it, one after another. A share without digests stands for too many to note.
    BTreeMap<String, String>,
);

impl Shares {
    /// Of these workloads.
    pub fn of(shares: &BTreeMap<String, String>) -> Self {
        let mut noted: BTreeMap<String, String> = BTreeMap::new();
        for (workload, share) in shares {
            noted.entry(share.clone()).or_default().push_str(&digest(workload));
        }
        if shares.len() > MOST {
            noted.values_mut().for_each(String::clear);
        }
        Self(noted)
    }

    /// Nothing is noted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Shares that `workload` may have: its own, or all of a proposal with more workloads than are noted.
    pub fn may_be<'a>(&'a self, workload: &str) -> impl Iterator<Item = &'a str> {
        let wanted = digest(workload);
        let holds = move |digests: &String| {
            digests.is_empty() || digests.as_bytes().chunks(DIGITS).any(|one| one == wanted.as_bytes())
        };
        self.0.iter().filter(move |(_, digests)| holds(digests)).map(|(share, _)| share.as_str())
    }
}

fn digest(workload: &str) -> String {
    Sha256::digest(workload).iter().take(DIGITS / 2).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(n: usize) -> BTreeMap<String, String> {
        let share = |i: usize| if i.is_multiple_of(3) { "1g.5gb" } else { "2g.10gb" };
        (0..n).map(|i| (format!("search/ranker-{i}"), share(i).to_owned())).collect()
    }

    #[test]
    fn every_workload_gets_its_own_back() {
        let noted = Shares::of(&shares(1_000));
        for (workload, share) in shares(1_000) {
            assert_eq!(noted.may_be(&workload).collect::<Vec<_>>(), [share]);
        }
        assert_eq!(noted.may_be("search/other").count(), 0);
        let json = serde_json::to_string(&noted).unwrap();
        assert!(json.len() < 8_100, "{}", json.len());
        assert_eq!(serde_json::from_str::<Shares>(&json).unwrap(), noted);
    }

    #[test]
    fn of_too_many_every_share_is_possible() {
        let noted = Shares::of(&shares(1_001));
        assert_eq!(noted.may_be("search/other").collect::<Vec<_>>(), ["1g.5gb", "2g.10gb"]);
    }
}
