//! Which cuts of one card are possible: every way to fill it, and whether a wanted one can be placed at all.
//!
//! Adding up slices is not enough. `3g` takes four of eight memory slices, so that two of them fill an A100 with
//! a compute slice to spare; one that starts at 4 leaves room for four `1g`, one that starts at 0 for three.
//! The driver picks the places, so that a layout counts as possible when any placement exists.

use std::collections::{BTreeMap, BTreeSet};

use super::{DriverVersion, GpuModel, MigProfile, ProfileName};

/// How many instances of each profile a card holds.
pub type Multiset = BTreeMap<ProfileName, u8>;

/// Where the instances of one card sit, ascending by start.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Layout {
    /// One an instance.
    pub placements: Vec<Placement>,
}

/// One instance: `2g.10gb` on memory slices 4 and 5 has start 4 and size 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Placement {
    /// First memory slice.
    pub start: u8,
    /// Number of memory slices.
    pub size: u8,
    /// What is there.
    pub profile: ProfileName,
}

impl Layout {
    /// How many instances of each profile there are.
    pub fn multiset(&self) -> Multiset {
        let mut counts = Multiset::new();
        for placement in &self.placements {
            *counts.entry(placement.profile).or_default() += 1;
        }
        counts
    }
}

/// What limits a layout beside the memory slices.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'a> {
    /// Keep within the card's media engines, as far as they are known.
    pub engines: bool,
    /// Keep out what this driver refuses side by side. `None`: a current driver.
    pub driver: Option<&'a DriverVersion>,
}

impl Limits<'static> {
    /// Everything that a current driver enforces.
    pub const CURRENT: Self = Self { engines: true, driver: None };
    /// Slices alone.
    pub const SLICES_ONLY: Self = Self { engines: false, driver: None };
}

/// Every layout of `profiles` on `model` (one of a `Catalog`, so that its placements are sound) to which no instance of `profiles` can be added, in a fixed order.
///
/// Some hundred at most on the cards that exist (239 on an A100 with every profile).
pub fn maximal(model: &GpuModel, profiles: &[&MigProfile], limits: Limits<'_>) -> Vec<Layout> {
    let mut found = Vec::new();
    fill(&mut Card::empty(model, limits), profiles, 0, &mut found);
    found
}

/// The distinct multisets of `layouts`.
pub fn multisets(layouts: &[Layout]) -> BTreeSet<Multiset> {
    layouts.iter().map(Layout::multiset).collect()
}

/// A placement of exactly `wanted` on one card of `model`, the lowest starts first. `None`: there is none, or
/// the model has no profile of one of the names.
///
/// Names of other driver branches are understood, and the layout carries the model's own.
pub fn place(model: &GpuModel, wanted: &Multiset, limits: Limits<'_>) -> Option<Layout> {
    let mut instances = Vec::new();
    for (name, count) in wanted {
        let profile = model.profile(*name)?;
        if *count > model.max_instances {
            return None;
        }
        instances.extend(std::iter::repeat_n(profile, usize::from(*count)));
    }
    instances.sort_by_key(|profile| (std::cmp::Reverse(profile.size), profile.starts.len(), profile.name));
    let mut card = Card::empty(model, limits);
    put_all(&mut card, &instances).then(|| card.layout())
}

/// Places `instances`, of which equal ones stand side by side.
fn put_all<'a>(card: &mut Card<'a>, instances: &[&'a MigProfile]) -> bool {
    let Some((first, rest)) = instances.split_first() else {
        return true;
    };
    // Equal instances go from left to right only: swapping them gives nothing new.
    let from = match card.placed.last() {
        Some((before, start)) if before.name == first.name => start + 1,
        Some(_) | None => 0,
    };
    for &start in first.starts.iter().filter(|start| **start >= from) {
        if card.takes(first, start) {
            card.push(first, start);
            if put_all(card, rest) {
                return true;
            }
            card.pop();
        }
    }
    false
}

/// Decides memory slice `slot` and all after it.
fn fill<'a>(card: &mut Card<'a>, profiles: &[&'a MigProfile], slot: u8, found: &mut Vec<Layout>) {
    if slot >= card.model.memory_slices {
        let full =
            !profiles.iter().any(|profile| profile.starts.iter().any(|start| card.takes(profile, *start)));
        if full && !card.placed.is_empty() {
            found.push(card.layout());
        }
        return;
    }
    for &profile in profiles {
        if profile.starts.contains(&slot) && card.takes(profile, slot) {
            card.push(profile, slot);
            fill(card, profiles, slot + profile.size, found);
            card.pop();
        }
    }
    fill(card, profiles, slot + 1, found);
}

/// A card while it is being cut.
struct Card<'a> {
    model: &'a GpuModel,
    limits: Limits<'a>,
    placed: Vec<(&'a MigProfile, u8)>,
}

impl<'a> Card<'a> {
    fn empty(model: &'a GpuModel, limits: Limits<'a>) -> Self {
        Self { model, limits, placed: Vec::new() }
    }

    fn push(&mut self, profile: &'a MigProfile, start: u8) {
        self.placed.push((profile, start));
    }

    fn pop(&mut self) {
        self.placed.pop();
    }

    /// Whether an instance of `profile` can be added at `start`.
    fn takes(&self, profile: &MigProfile, start: u8) -> bool {
        let overlaps =
            |&(other, at): &(&MigProfile, u8)| start < at + other.size && at < start + profile.size;
        let same = self.placed.iter().filter(|(other, _)| other.name == profile.name).count();
        let compute: u8 = self.placed.iter().map(|(other, _)| other.compute_slices).sum();
        !self.placed.iter().any(overlaps)
            && same < usize::from(profile.max_instances)
            && self.placed.len() < usize::from(self.model.max_instances)
            && compute + profile.compute_slices <= self.model.compute_slices
            && self.has_engines_for(profile)
            && !self.driver_refuses(profile)
    }

    fn has_engines_for(&self, profile: &MigProfile) -> bool {
        let Some(total) = self.model.engines_total.filter(|_| self.limits.engines) else {
            return true;
        };
        let all = || self.placed.iter().map(|(other, _)| *other).chain([profile]);
        (0..total.counts().len()).all(|kind| {
            let used: u32 =
                all().filter_map(|one| one.engines).map(|engines| u32::from(engines.counts()[kind])).sum();
            used <= u32::from(total.counts()[kind])
        })
    }

    fn driver_refuses(&self, profile: &MigProfile) -> bool {
        let Some(driver) = self.limits.driver else {
            return false;
        };
        let present = |name: &ProfileName| {
            profile.is_named(*name) || self.placed.iter().any(|(other, _)| other.is_named(*name))
        };
        self.model
            .not_together
            .iter()
            .any(|rule| driver < &rule.before_driver && rule.profiles.iter().all(present))
    }

    fn layout(&self) -> Layout {
        let mut placements: Vec<_> = self
            .placed
            .iter()
            .map(|(profile, start)| Placement { start: *start, size: profile.size, profile: profile.name })
            .collect();
        placements.sort();
        Layout { placements }
    }
}
