//! Gaps, copied values and memory grabbed up front.
//!
//! A framework that takes a fraction of the card at start shows a flat line at that fraction whatever it needs. Such
//! a plateau is a setting: it is named with its evidence and never sized from.

use super::{Compute, Reservation};
use crate::units::{Mib, Ratio};

/// How flat a workload's memory is over all its pods and days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plateau {
    pod_days: u32,
    flat: u32,
    highest: Option<Mib>,
    lowest_flat: Option<Mib>,
    /// Widest gap between peak and median of a flat pod-day, in parts per million of the peak.
    widest_ppm: u64,
}

/// Peak and median of a day lie within 2 % of each other on a plateau. Steady services with a cache breathe more.
const FLAT_PPM: u64 = 20_000;
/// A fraction below [`HIGH`] must be flatter than any caching allocator to count: 0.3 %.
const RIGID_PPM: u64 = 3_000;
/// Pod-days of fewer samples are loading, not serving.
const FEW_SAMPLES: u64 = 12;
/// From this share of the card on, a plateau is taken for a reservation whatever its exact height. Sizing from it
/// would say "keep whole"; calling it a reservation says the same and names the experiment.
const HIGH: Ratio = Ratio::from_ppm(845_000);
/// Fractions that frameworks take by default: JAX, SGLang and TGI, vLLM, TensorFlow.
const KNOWN: [(u32, &str); 6] = [
    (750_000, "JAX"),
    (850_000, "SGLang or TGI"),
    (900_000, "vLLM"),
    (920_000, "vLLM or TGI"),
    (950_000, "TGI"),
    (980_000, "TensorFlow"),
];
/// How near to a known fraction is near: contexts and rounding make 1.5 % of the card.
const NEAR_PPM: u32 = 15_000;

/// What a framework takes its fraction of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// A whole card: of either figure.
    Card {
        /// Its memory.
        total: Option<Mib>,
        /// `FB_USED + FB_FREE`.
        usable: Option<Mib>,
    },
    /// A MIG slice.
    Slice {
        /// `FB_USED + FB_FREE` of the instance.
        usable: Option<Mib>,
    },
}

impl Plateau {
    /// Adds one pod's day on one card.
    pub fn add(&mut self, peak: Mib, median: Mib, samples: u64) {
        self.highest = self.highest.max(Some(peak));
        if samples < FEW_SAMPLES || peak.0 == 0 {
            return;
        }
        self.pod_days += 1;
        let spread = peak.0.saturating_sub(median.0) * 1_000_000 / peak.0;
        if spread <= FLAT_PPM {
            self.flat += 1;
            self.widest_ppm = self.widest_ppm.max(spread);
            self.lowest_flat = Some(self.lowest_flat.map_or(median, |low| low.min(median)));
        }
    }

    /// Nine in ten pod-days are flat, all at one height.
    fn height(&self) -> Option<Mib> {
        let (highest, lowest) = (self.highest?, self.lowest_flat?);
        (self.flat * 10 >= self.pod_days * 9 && same_height(highest, lowest)).then_some(highest)
    }

    /// The reservation that the plateau (or the framework itself) gives away.
    pub fn reservation(
        &self,
        base: Base,
        compute: Option<&Compute>,
        framework_says: Option<&(String, String)>,
    ) -> Option<Reservation> {
        let (total, usable, what) = match base {
            Base::Card { total, usable } => (total, usable, "card"),
            Base::Slice { usable } => (None, usable, "slice"),
        };
        let share_of = |base: Option<Mib>, height: Mib| base.and_then(|base| Ratio::of(height.0, base.0));
        if let Some((framework, evidence)) = framework_says {
            let share = self.highest.and_then(|high| share_of(total.or(usable), high)).unwrap_or(Ratio::ZERO);
            return Some(Reservation {
                share_of_card: share,
                evidence: evidence.clone(),
                framework: Some(framework.clone()),
            });
        }
        let height = self.height()?;
        let shares: Vec<Ratio> =
            [share_of(usable, height), share_of(total, height)].into_iter().flatten().collect();
        let near = |share: &Ratio| {
            KNOWN.iter().find(|(fraction, _)| share.ppm().abs_diff(*fraction) <= NEAR_PPM).copied()
        };
        let high = shares.iter().any(|share| *share >= HIGH);
        let known = shares.iter().find_map(near);
        let rigid = self.widest_ppm <= RIGID_PPM;
        if !(high || (known.is_some() && rigid)) {
            return None;
        }
        let share = shares.last().copied()?;
        let flatness = format!(
            "memory stands at {height} ({share} of the {what}) and differs by at most {} % over {} pod-days",
            tenths(self.widest_ppm),
            self.pod_days
        );
        let evidence = match (compute, known) {
            (Some(compute), Some((_, framework))) => format!(
                "{flatness}, while {} reaches {}; {framework} takes such a fraction at start",
                compute.source.name(),
                compute.p99
            ),
            (None, Some((_, framework))) => format!("{flatness}; {framework} takes such a fraction at start"),
            (_, None) => flatness,
        };
        Some(Reservation { share_of_card: share, evidence, framework: None })
    }
}

/// Whether two figures differ by no more than a plateau's own width.
pub(super) fn same_height(a: Mib, b: Mib) -> bool {
    a.0.abs_diff(b.0) * 1_000_000 <= FLAT_PPM * a.0.max(b.0)
}

/// Parts per million as a percentage with one digit, rounded up.
fn tenths(ppm: u64) -> String {
    let tenths = ppm.div_ceil(1_000);
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(days: &[(u64, u64)], total: u64) -> Option<Reservation> {
        let mut plateau = Plateau::default();
        for (peak, median) in days {
            plateau.add(Mib(*peak), Mib(*median), 288);
        }
        plateau.reservation(Base::Card { total: Some(Mib(total)), usable: None }, None, None)
    }

    #[test]
    fn nine_tenths_held_all_day_is_a_reservation() {
        let found = check(&[(36_410, 36_410), (36_410, 36_410)], 40_960).unwrap();
        assert_eq!(found.share_of_card.to_string(), "88.9 %");
        assert!(found.evidence.contains("36,410 MiB"), "{}", found.evidence);
    }

    #[test]
    fn an_idle_reserving_server_is_found_without_any_compute() {
        assert!(check(&[(73_100, 73_099)], 81_559).is_some());
    }

    #[test]
    fn small_steady_services_are_not_reservations() {
        for share in [5, 10, 20, 30, 50] {
            let height = 40_960 * share / 100;
            assert_eq!(check(&[(height, height), (height, height)], 40_960), None, "{share} %");
        }
    }

    #[test]
    fn three_quarters_must_be_rigid() {
        assert!(check(&[(30_720, 30_720)], 40_960).is_some());
        assert_eq!(check(&[(30_720, 30_300)], 40_960), None);
    }

    #[test]
    fn a_breathing_cache_is_a_need() {
        assert_eq!(check(&[(36_000, 30_000), (36_400, 31_000)], 40_960), None);
    }

    #[test]
    fn different_heights_are_not_one_setting() {
        assert_eq!(check(&[(36_400, 36_400), (35_000, 35_000)], 40_960), None);
    }

    #[test]
    fn the_framework_is_believed_at_any_height() {
        let mut plateau = Plateau::default();
        plateau.add(Mib(12_000), Mib(9_000), 288);
        let says = ("vLLM".to_owned(), "`vllm:cache_config_info` says gpu_memory_utilization=0.3".to_owned());
        let found = plateau
            .reservation(Base::Card { total: Some(Mib(40_960)), usable: None }, None, Some(&says))
            .unwrap();
        assert_eq!(found.framework.as_deref(), Some("vLLM"));
    }
}
