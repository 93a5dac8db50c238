//! What the operator's own MIG config names stand for, where the name alone says it.
//!
//! A custom map replaces the operator's file for every node, so that it must spell out each name in use.
//! Names that mean different counts on different cards are spelled out card by card, as NVIDIA's own file does; where
//! that is not possible they are not guessed.

use slicewright_core::plan::MigEntry;
use std::collections::BTreeMap;

/// One-slice and two-slice profiles that mean the same count on every card that has them: the memory size tells the
/// card's family. Wider profiles follow from their width.
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

/// Profiles whose count depends on the card: instances on cards with these packed PCI ids (device, then vendor).
type ByCard = (&'static str, &'static [(u32, &'static [&'static str])]);

/// From the same products as the catalog's: A100 and A800 with 40 GB hold four `1g.10gb`, the 80 GB cards seven.
const BY_CARD: &[ByCard] = &[
    (
        "1g.10gb",
        &[
            (4, &["0x20B010DE", "0x20BD10DE", "0x20F110DE", "0x20F610DE"]),
            (
                7,
                &[
                    "0x20B210DE",
                    "0x20B510DE",
                    "0x20B810DE",
                    "0x20F310DE",
                    "0x20F510DE",
                    "0x20FD10DE",
                    "0x232210DE",
                    "0x232410DE",
                    "0x233010DE",
                    "0x233110DE",
                ],
            ),
        ],
    ),
    ("1g.16gb", &[(4, &["0x20B310DE", "0x233710DE"]), (2, &["0x2C3110DE"])]),
    (
        "1g.24gb",
        &[
            (
                4,
                &[
                    "0x232110DE",
                    "0x232910DE",
                    "0x233910DE",
                    "0x233A10DE",
                    "0x233D10DE",
                    "0x234210DE",
                    "0x2BB110DE",
                    "0x2BB410DE",
                    "0x2BB510DE",
                ],
            ),
            (7, &["0x294110DE"]),
            (2, &["0x2BB310DE"]),
        ],
    ),
    ("1g.35gb", &[(4, &["0x232C10DE", "0x233510DE", "0x233B10DE"]), (7, &["0x31C210DE"])]),
    ("2g.48gb", &[(2, &["0x2BB110DE", "0x2BB410DE", "0x2BB510DE"]), (1, &["0x2BB310DE"])]),
];

/// One entry of a mig-parted layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Packed PCI ids of the cards that it is for; empty: any card.
    pub(super) filter: &'static [&'static str],
    /// Card indices on the node; empty: all.
    pub(super) cards: Vec<u32>,
    /// MIG is on; on without instances is a layout too.
    pub(super) enabled: bool,
    pub(super) instances: BTreeMap<String, u32>,
}

impl From<&MigEntry> for Entry {
    fn from(entry: &MigEntry) -> Self {
        Self {
            filter: &[],
            cards: entry.cards.clone(),
            enabled: !entry.instances.is_empty(),
            instances: entry.instances.clone(),
        }
    }
}

fn all(filter: &'static [&'static str], enabled: bool, instances: &[(&str, u32)]) -> Entry {
    let instances = instances.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    Entry { filter, cards: Vec::new(), enabled, instances }
}

/// The layout behind a name of the operator's own. `None`: the name does not tell.
pub(super) fn own_layout(name: &str) -> Option<Vec<Entry>> {
    match name {
        "all-disabled" => return Some(vec![all(&[], false, &[])]),
        "all-enabled" => return Some(vec![all(&[], true, &[])]),
        _ => {}
    }
    let profile = name.strip_prefix("all-")?;
    let by_card = |wanted: &str| BY_CARD.iter().find(|(name, _)| *name == wanted).map(|(_, cards)| *cards);
    if let Some(base) = profile.strip_suffix(".me") {
        let known =
            COUNTS.iter().any(|(name, _)| *name == base) || matches!(base, "1g.10gb" | "1g.24gb" | "1g.35gb");
        return (known && base.starts_with("1g."))
            .then(|| vec![all(&[], true, &[(&format!("{base}+me"), 1)])]);
    }
    if let Some(cards) = by_card(profile) {
        return Some(cards.iter().map(|(count, filter)| all(filter, true, &[(profile, *count)])).collect());
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
    Some(vec![all(&[], true, &[(profile, count)])])
}

#[cfg(test)]
mod tests {
    use slicewright_core::catalog::{Catalog, CatalogFile};

    use super::*;

    fn check(name: &str, expected: Option<(bool, &[(&str, u32)])>) {
        let expected = expected.map(|(on, instances)| vec![all(&[], on, instances)]);
        assert_eq!(own_layout(name), expected, "{name}");
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
    fn names_that_depend_on_the_card_are_spelled_out_card_by_card() {
        let layout = own_layout("all-1g.10gb").unwrap();
        let counts: Vec<u32> = layout.iter().map(|entry| entry.instances["1g.10gb"]).collect();
        assert_eq!(counts, [4, 7]);
        for (_, cards) in BY_CARD {
            let ids: Vec<&str> = cards.iter().flat_map(|(_, ids)| ids.iter().copied()).collect();
            let unique: std::collections::BTreeSet<&str> = ids.iter().copied().collect();
            assert_eq!(ids.len(), unique.len(), "no card is named twice");
            assert!(ids.iter().all(|id| id.len() == 10 && id.starts_with("0x") && id.ends_with("10DE")));
        }
    }

    #[test]
    fn counts_are_the_catalogs() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/config/catalog");
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files =
            paths.filter(|path| path.extension().is_some_and(|extension| extension == "yaml")).map(|path| {
                serde_saphyr::from_str::<CatalogFile>(&std::fs::read_to_string(path).unwrap()).unwrap()
            });
        let catalog = Catalog::merge(files).unwrap();
        let mut checked = 0;
        for (model, profile) in
            catalog.models().iter().flat_map(|m| m.profiles.iter().map(move |profile| (m, profile)))
        {
            let name = profile.name.to_string();
            let Some(layout) = own_layout(&format!("all-{name}")) else { continue };
            for product in &model.products {
                let filter = product.device_filter().unwrap_or_default();
                let count = layout
                    .iter()
                    .find(|entry| entry.filter.is_empty() || entry.filter.contains(&filter.as_str()))
                    .map(|entry| entry.instances[&name]);
                let Some(count) = count else { continue };
                checked += 1;
                assert_eq!(count, u32::from(profile.max_instances), "{name} on {}", product.name);
            }
        }
        assert!(checked > 100, "{checked}");
    }

    #[test]
    fn names_that_do_not_tell_are_not_guessed() {
        for name in ["all-balanced", "team-a", "all-1g.24gb.gfx", "all-9g.1gb", "all-3g.xgb", "all-"] {
            check(name, None);
        }
    }
}
