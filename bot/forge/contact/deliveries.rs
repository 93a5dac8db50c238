//! Which deliveries failed for good, from all attempts at them.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::Url;

use super::Delivery;

/// One attempt at a delivery, as the forge lists it.
pub(in crate::forge) struct Attempt {
    pub(in crate::forge) delivery: Delivery,
    pub(in crate::forge) arrived: bool,
}

/// The last attempt at each delivery of which none arrived, oldest first. Attempts at one delivery at one hook share a key;
/// two hooks may share it too, since GitHub gives it to the event.
pub(in crate::forge) fn failed(attempts: Vec<Attempt>) -> Vec<Delivery> {
    let name = |attempt: &Attempt| (attempt.delivery.hook.clone(), attempt.delivery.key.clone());
    let arrived: BTreeSet<_> = attempts.iter().filter(|attempt| attempt.arrived).map(name).collect();
    let mut last = BTreeMap::new();
    for attempt in attempts.into_iter().filter(|attempt| !arrived.contains(&name(attempt))) {
        let kept = last.entry(name(&attempt)).or_insert_with(|| attempt.delivery.clone());
        if kept.id < attempt.delivery.id {
            *kept = attempt.delivery;
        }
    }
    let mut failed: Vec<Delivery> = last.into_values().collect();
    failed.sort_by_key(|delivery| (delivery.at, delivery.id));
    failed
}

/// Whether a hook's address is `ours` or below it. Neither query nor a slash at the end counts.
pub(in crate::forge) fn points_at(hook: &str, ours: &str) -> bool {
    let (Ok(hook), Ok(ours)) = (Url::parse(hook), Url::parse(ours)) else { return false };
    let below = hook.path().strip_prefix(ours.path().trim_end_matches('/'));
    hook.origin().is_tuple()
        && hook.origin() == ours.origin()
        && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::super::HookOf;
    use super::*;

    fn attempt(hook: u64, id: u64, key: &str, arrived: bool) -> Attempt {
        let delivery = Delivery {
            hook: HookOf::Repository(hook),
            id,
            key: key.into(),
            event: "issue_comment".into(),
            at: None,
            outcome: if arrived { "200" } else { "502" }.into(),
        };
        Attempt { delivery, arrived }
    }

    fn ids(attempts: Vec<Attempt>) -> Vec<u64> {
        failed(attempts).iter().map(|delivery| delivery.id).collect()
    }

    #[test]
    fn what_arrived_at_last_did_not_fail() {
        assert_eq!(ids(vec![attempt(1, 3, "a", true), attempt(1, 1, "a", false)]), [0_u64; 0]);
        assert_eq!(ids(vec![attempt(1, 1, "a", true), attempt(1, 3, "a", false)]), [0_u64; 0]);
    }

    #[test]
    fn of_several_attempts_the_last_one_is_told() {
        let attempts = vec![
            attempt(1, 3, "a", false),
            attempt(1, 1, "a", false),
            attempt(1, 2, "b", false),
            attempt(1, 4, "b", false),
        ];
        assert_eq!(ids(attempts), [3, 4]);
    }

    #[test]
    fn two_hooks_that_share_a_key_are_told_apart() {
        assert_eq!(ids(vec![attempt(1, 1, "a", true), attempt(2, 2, "a", false)]), [2]);
    }

    #[test]
    fn a_hook_is_ours_by_origin_and_path() {
        let ours = "https://bot.example.com/hooks/";
        for hook in [
            "https://bot.example.com/hooks",
            "https://BOT.example.com:443/hooks/github?x=1",
            "https://bot.example.com/hooks/gitlab/",
        ] {
            assert!(points_at(hook, ours), "{hook}");
        }
        for hook in [
            "http://bot.example.com/hooks",
            "https://bot.example.com:8443/hooks",
            "https://bot.example.com/hooksx",
            "https://bot.example.com.evil.example/hooks",
            "https://bot.example.com/",
            "mailto:bot@example.com",
            "",
        ] {
            assert!(!points_at(hook, ours), "{hook}");
        }
        assert!(points_at("https://bot.example.com/x", "https://bot.example.com"));
    }
}
