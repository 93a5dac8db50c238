//! Which of a workload's figures count for where it stands now.
//!
//! Memory is memory: device-level `FB_USED` is what a pod holds, on a whole card and on a slice alike, so that a workload
//! that moved keeps its history. Counters of compute are not: on slices they are scaled by the smallest instance of the
//! card (NVIDIA/DCGM#138, #248), and say nothing.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;

use super::figures::{ENOUGH_DAYS, Figures};
use super::fold::{CardReading, FoldSettings};
use super::quality::{Base, same_height};
use super::{Compute, Reservation};
use crate::units::Ratio;

/// Where figures were read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Whole { model: String },
    Slice { model: String, profile: String },
}

impl Place {
    fn model(&self) -> &str {
        match self {
            Self::Whole { model } | Self::Slice { model, .. } => model,
        }
    }

    /// What frameworks take their fraction of here.
    fn base(&self, settings: &FoldSettings) -> Base {
        match self {
            Self::Whole { model } => Base::Card {
                total: settings.card_memory.get(model).copied(),
                usable: settings.usable_memory.get(model).copied(),
            },
            Self::Slice { model, profile } => Base::Slice {
                usable: settings.slice_memory.get(model).and_then(|memory| memory.get(profile)).copied(),
            },
        }
    }
}

/// Figures of one workload by place.
#[derive(Debug, Default)]
pub(super) struct Places(BTreeMap<Place, Figures>);

/// The figures that count.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// The card model that they are of. `None`: nothing was read where it stands.
    pub(super) model: Option<String>,
    /// All models that it ran on, where they are more than one.
    pub(super) models: BTreeSet<String>,
    /// Peaks, days and samples of memory.
    pub(super) memory: Figures,
    pub(super) compute: Option<Compute>,
    pub(super) bandwidth_p99: Option<Ratio>,
    pub(super) kernel_width_p95: Option<Ratio>,
    pub(super) media_engines_used: Option<bool>,
    pub(super) reservation: Option<Reservation>,
}

impl Places {
    pub(super) fn add(&mut self, place: Place, day: Date, reading: &CardReading) {
        self.0.entry(place).or_default().add(day, reading);
    }

    /// For a workload on whole cards: its whole-card days, on the model with the highest peak.
    pub(super) fn on_whole_cards(
        self,
        settings: &FoldSettings,
        framework_says: Option<&(String, String)>,
    ) -> Standing {
        let whole = self.0.into_iter().filter(|(place, _)| matches!(place, Place::Whole { .. }));
        let whole: Vec<(Place, Figures)> = whole.collect();
        let models = several(whole.iter().map(|(place, _)| place));
        let best = whole.into_iter().max_by(|(_, a), (_, b)| a.peak_memory().cmp(&b.peak_memory()));
        let Some((place, figures)) = best else { return Standing { models, ..Standing::default() } };
        let compute = figures.compute();
        Standing {
            model: Some(place.model().to_owned()),
            models,
            reservation: figures.plateau.reservation(place.base(settings), compute.as_ref(), framework_says),
            compute,
            bandwidth_p99: figures.bandwidth_p99,
            kernel_width_p95: figures.kernel_width_p95,
            media_engines_used: figures.media,
            memory: figures,
        }
    }

    /// For a workload on slices of `profile`: memory of every place of the model, compute of its whole cards.
    pub(super) fn on_slices(
        self,
        profile: &str,
        settings: &FoldSettings,
        framework_says: Option<&(String, String)>,
    ) -> Standing {
        let models = several(self.0.keys());
        let here = |place: &Place| matches!(place, Place::Slice { profile: held, .. } if held == profile);
        let last = |figures: &Figures| figures.daily.last_key_value().map(|(day, _)| *day);
        let latest = self
            .0
            .iter()
            .max_by_key(|(place, figures)| (here(place), last(figures), figures.peak_memory()))
            .map(|(place, _)| place.model().to_owned());
        let Some(model) = latest else { return Standing { models, ..Standing::default() } };

        let mut standing = Standing { model: Some(model.clone()), models, ..Standing::default() };
        let mut whole = None;
        let mut peaks_elsewhere = Vec::new();
        let mut peak_here = None;
        let mut days: BTreeSet<Date> = BTreeSet::new();
        for (place, figures) in self.0.into_iter().filter(|(place, _)| *place.model() == model) {
            days.extend(figures.daily.keys());
            let base = place.base(settings);
            if here(&place) {
                // A framework that takes a fraction takes it of the slice: only days on it tell.
                standing.reservation = figures.plateau.reservation(base, None, framework_says);
                standing.memory.add_memory_of(&figures);
                peak_here = figures.peak_memory();
                continue;
            }
            // A fraction of a card that it no longer holds is neither a need nor a history of one.
            if figures.plateau.reservation(base, None, None).is_none() {
                standing.memory.add_memory_of(&figures);
                peaks_elsewhere.extend(figures.peak_memory());
            }
            if matches!(place, Place::Whole { .. }) {
                whole = Some(figures);
            }
        }
        // The same memory on places of different size is no fraction of either.
        let no_fraction = |here| peaks_elsewhere.iter().any(|there| same_height(here, *there));
        if framework_says.is_none() && peak_here.is_some_and(no_fraction) {
            standing.reservation = None;
        }
        if let Some(figures) = whole.filter(|figures| stands_for(figures.daily.len(), days.len())) {
            standing.compute = figures.compute();
            standing.bandwidth_p99 = figures.bandwidth_p99;
            standing.kernel_width_p95 = figures.kernel_width_p95;
            standing.media_engines_used = figures.media;
        }
        standing
    }
}

/// Whole-card days stand for the window when they are enough on their own, or half of all. Fewer would be the quiet
/// days that are left as the window moves on, and a slice must not shrink because of them.
fn stands_for(whole: usize, all: usize) -> bool {
    whole >= ENOUGH_DAYS || whole * 2 >= all
}

/// The models of `places`; none when all are of one.
fn several<'a>(places: impl Iterator<Item = &'a Place>) -> BTreeSet<String> {
    let models: BTreeSet<String> = places.map(|place| place.model().to_owned()).collect();
    if models.len() > 1 { models } else { BTreeSet::new() }
}
