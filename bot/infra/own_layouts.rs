//! What the operator's own MIG config names stand for, where the name alone says it.
//!
//! A custom map replaces the operator's file for every node, so that it must spell out each name in use.
//! Names that mean different counts on different cards are not guessed.

use slicewright_core::plan::MigEntry;
use std::collections::BTreeMap;

/// One-slice and two-slice profiles that mean the same count on every card that has them: the memory size tells the
/// card's family. Wider profiles follow from their width. Left out, since their count depends on the card:
/// `1g.10gb`, `1g.16gb`, `1g.24gb`, `1g.35gb`, `2g.48gb`.
const COUNTS: &[(&str, u32)] = &[
    ("1g.5gb", 7),
    ("1g.8gb", 7),
    ("1g.12gb", 7),
    ("1g.18gb", 7),
    ("1g.23gb", 7),
    ("1g.31gb", 7),
    ("1g.34gb", 7),
    ("1g.6gb", 4),
    ("1g.20gb", 4),
    ("1g.36gb", 4),
    ("1g.45gb", 4),
    ("1g.47gb", 4),
    ("1g.67gb", 4),
    ("1g.70gb", 4),
    ("2g.10gb", 3),
    ("2g.16gb", 3),
    ("2g.20gb", 3),
    ("2g.24gb", 3),
    ("2g.35gb", 3),
    ("2g.36gb", 3),
    ("2g.45gb", 3),
    ("2g.47gb", 3),
    ("2g.67gb", 3),
    ("2g.70gb", 3),
    ("2g.12gb", 2),
    ("2g.32gb", 1),
];

/// The layout of one card behind a name of the operator's own, as entries. `None`: the name does not tell.
pub(super) fn own_layout(name: &str) -> Option<(bool, Vec<MigEntry>)> {
    let entry = |instances: &[(&str, u32)]| {
        let instances: BTreeMap<String, u32> =
            instances.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        vec![MigEntry { cards: Vec::new(), instances }]
    };
    match name {
        "all-disabled" => return Some((false, entry(&[]))),
        "all-enabled" => return Some((true, entry(&[]))),
        _ => {}
    }
    let profile = name.strip_prefix("all-")?;
    if let Some(base) = profile.strip_suffix(".me") {
        let known = COUNTS.iter().any(|(name, _)| *name == base) || base == "1g.10gb" || base == "1g.24gb";
        return (known && base.starts_with("1g.")).then(|| (true, entry(&[(&format!("{base}+me"), 1)])));
    }
    let count = match COUNTS.iter().find(|(name, _)| *name == profile) {
        Some((_, count)) => *count,
        None => {
            let (slices, size) = profile.split_once("g.")?;
            let size = size.strip_suffix("gb")?;
            if size.is_empty() || !size.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            match slices {
                "3" => 2,
                "4" | "7" => 1,
                _ => return None,
            }
        }
    };
    Some((true, entry(&[(profile, count)])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: Option<(bool, &[(&str, u32)])>) {
        let found = own_layout(name).map(|(on, entries)| (on, entries[0].instances.clone()));
        let expected = expected.map(|(on, instances)| {
            (on, instances.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect())
        });
        assert_eq!(found, expected, "{name}");
    }

    #[test]
    fn names_that_tell_their_layout_are_spelled_out() {
        check("all-disabled", Some((false, &[])));
        check("all-enabled", Some((true, &[])));
        check("all-1g.5gb", Some((true, &[("1g.5gb", 7)])));
        check("all-2g.10gb", Some((true, &[("2g.10gb", 3)])));
        check("all-3g.40gb", Some((true, &[("3g.40gb", 2)])));
        check("all-1g.5gb.me", Some((true, &[("1g.5gb+me", 1)])));
    }

    #[test]
    fn names_that_depend_on_the_card_are_not_guessed() {
        for name in [
            "all-1g.10gb",
            "all-1g.24gb",
            "all-2g.48gb",
            "all-balanced",
            "team-a",
            "all-1g.24gb.gfx",
            "all-9g.1gb",
        ] {
            check(name, None);
        }
    }
}
