//! One workload on one card, weighed.

use jiff::civil::{Date, date};
use proptest::prelude::*;

use super::*;
use crate::catalog::tests::catalog;
use crate::inventory::Pod;
use crate::usage::{Compute, ComputeSource, DayPeak, Peak, Window};

/// One workload with what was measured of it, and where it stands.
#[derive(Clone, Debug)]
struct Case {
    workload: Workload,
    profile: WorkloadProfile,
    model: GpuModel,
    policy: Policy,
    ground: Ground,
}

fn day(n: i8) -> Date {
    date(2026, 1, n)
}

fn sm_active(p99: f64) -> Option<Compute> {
    Some(Compute { p99: Ratio::from_f64(p99).unwrap(), source: ComputeSource::SmActive, day: day(30) })
}

/// A workload on whole cards of `model`, with this peak on the last of 30 days and 15 % of the SMs.
fn on(model: &str, peak: u64) -> Case {
    let model = catalog().find(model).unwrap().clone();
    let id = WorkloadId::new("Deployment", "search", "ranker");
    let pod = Pod {
        name: "ranker-0".into(),
        node: "n1".into(),
        cards: vec!["GPU-1".into()],
        slices: Vec::new(),
        requests: None,
    };
    Case {
        workload: Workload {
            id: id.clone(),
            gpus_per_pod: 1,
            resource: "nvidia.com/gpu".into(),
            containers: ["main".into()].into(),
            replicas: 1,
            hpa_max: None,
            max_surge: None,
            pods: vec![pod],
            namespace_labels: BTreeMap::new(),
        },
        profile: WorkloadProfile {
            workload: id,
            model_name: model.products[0].name.clone(),
            slice: None,
            window: Window { first: day(1), last: day(30), asked_days: 30, had_days: 30 },
            peak: Some(Peak {
                memory: Mib(peak),
                pod: "ranker-0".into(),
                card: "GPU-1".into(),
                day: day(30),
            }),
            daily_peaks: (1..=30).map(|n| DayPeak { day: day(n), memory: Mib(peak) }).collect(),
            typical: Some(Mib(peak)),
            compute: sm_active(0.08),
            bandwidth_p99: None,
            kernel_width_p95: Ratio::from_f64(0.1),
            media_engines_used: Some(false),
            history_days: 30,
            coverage: Some(Ratio::ONE),
            samples: 8_640,
            complete_runs: 0,
            gpus_per_pod: 1,
            pods_seen: 1,
            reservation: None,
            gaps: Vec::new(),
        },
        model,
        policy: Policy::default(),
        ground: Ground { driver: Some("550.90.07".into()), ..Ground::default() },
    }
}

/// The same on slices of `profile`, where nothing but memory is measured.
fn on_slice(model: &str, profile: &str, peak: u64) -> Case {
    let mut case = on(model, peak);
    case.holding(profile);
    case.profile.compute = None;
    case.profile.kernel_width_p95 = None;
    case.profile.media_engines_used = None;
    case
}

impl Case {
    fn holding(&mut self, profile: &str) {
        self.profile.slice = Some(profile.into());
        self.workload.resource = crate::catalog::tests::name(profile).resource();
    }

    fn fit(&self) -> FitReport {
        fit(&Question {
            workload: &self.workload,
            profile: Some(&self.profile),
            model: Some(&self.model),
            policy: &self.policy,
            ground: &self.ground,
            declared: None,
        })
    }

    /// `mig 2g.10gb`, `keep memory-too-small`, `keep-slice right-size`.
    fn verdict(&self) -> String {
        let report = self.fit();
        let what = match &report.verdict {
            Verdict::Mig { profile } => profile.clone(),
            Verdict::TimeSlicing | Verdict::Mps => String::new(),
            Verdict::KeepWhole { .. }
            | Verdict::KeepSlice { .. }
            | Verdict::NotEnoughEvidence { .. }
            | Verdict::Excluded { .. } => report.verdict.reasons()[0].code.clone(),
        };
        format!("{} {what}", report.verdict.code()).trim_end().to_owned()
    }

    fn counterfactual(&self) -> String {
        self.fit().counterfactual.map(|reason| reason.text).unwrap_or_default()
    }

    fn scaled(&self, percent: u64) -> Self {
        let mut case = self.clone();
        let scale = |memory: Mib| Mib(memory.0 * percent / 100);
        if let Some(peak) = &mut case.profile.peak {
            peak.memory = scale(peak.memory);
        }
        for day in &mut case.profile.daily_peaks {
            day.memory = scale(day.memory);
        }
        if let Some(compute) = &mut case.profile.compute {
            let ppm = u64::from(compute.p99.ppm()) * percent / 100;
            compute.p99 = Ratio::from_ppm(u32::try_from(ppm).unwrap());
        }
        case
    }
}

#[test]
fn the_smallest_slice_that_will_do_is_given() {
    assert_eq!(on("a100-40gb", 4_000).verdict(), "mig 1g.5gb");
    assert_eq!(on("a100-40gb", 7_987).verdict(), "mig 1g.10gb");
    assert_eq!(on("a100-40gb", 17_000).verdict(), "keep memory-too-small");
    assert_eq!(on("a100-40gb", 16_000).verdict(), "mig 3g.20gb");
}

#[test]
fn media_engines_are_given_to_those_alone_that_use_them() {
    let mut case = on("a100-40gb", 3_000);
    case.profile.media_engines_used = Some(true);
    assert_eq!(case.verdict(), "mig 1g.5gb+me");
    assert_eq!(case.fit().considered[0].chain_index, Some(1));
    case.profile.media_engines_used = Some(false);
    assert_eq!(case.verdict(), "mig 1g.5gb");
    assert!(!case.fit().considered.iter().any(|candidate| candidate.name.contains("+me")));
    case.profile.media_engines_used = None;
    assert_eq!(case.verdict(), "mig 1g.5gb");
    assert!(case.fit().cautions.iter().any(|caution| caution.code == "media-unknown"));

    let mut hopper = on("h100-80gb-sxm", 3_000);
    hopper.profile.media_engines_used = Some(true);
    assert_eq!(hopper.verdict(), "mig 1g.10gb", "a plain slice of it has a decoder");
}

#[test]
fn media_engines_need_the_driver_that_makes_them() {
    let mut case = on("a100-40gb", 3_000);
    case.profile.media_engines_used = Some(true);
    case.ground.driver = Some("460.106.00".into());
    assert_eq!(case.verdict(), "mig 2g.10gb", "1g.5gb+me needs R470, 1g.10gb R525");
}

#[test]
fn a_profile_that_an_old_driver_refuses_beside_others_is_not_given() {
    let mut case = on("a100-40gb", 15_000);
    case.profile.compute = sm_active(0.35);
    assert_eq!(case.verdict(), "mig 4g.20gb");
    case.ground.driver = Some("470.57.02".into());
    assert_eq!(case.verdict(), "keep driver-too-old");
    let report = case.fit();
    let largest = report.considered.iter().find(|candidate| candidate.name == "4g.20gb").unwrap();
    assert_eq!(
        largest.reasons[0].text,
        "drivers before R510 refuse it beside smaller slices, the pool has 470.57.02"
    );
    assert_eq!(case.counterfactual(), "fits `4g.20gb` of an A100 40GB if the driver were R510 or newer");
}

#[test]
fn a_minimum_is_understood_under_both_names_of_a_profile() {
    let mut case = on("gb200-186gb", 3_000);
    case.policy.min_profile = Some("1g.24gb".into());
    case.model.sm_total = Some(152);
    assert_eq!(case.verdict(), "mig 1g.23gb");
}

#[test]
fn a_minimum_that_the_card_does_not_have_is_said_to_be_missing() {
    let mut case = on("a100-80gb", 3_000);
    case.policy.min_profile = Some("2g.21gb".into());
    let fit = case.fit();
    let said = format!("{:?}", fit.considered);
    assert!(said.contains("policy asks for `2g.21gb` at least; A100 80GB has no such slice"), "{said}");
    case.policy.min_profile = Some("2g.20gb".into());
    let said = format!("{:?}", case.fit().considered);
    assert!(said.contains("policy asks for `2g.20gb` at least") && !said.contains("no such slice"), "{said}");
}

#[test]
fn the_next_smaller_slice_says_what_it_would_ask_for() {
    let mut case = on("a100-80gb", 8_500);
    for day in &mut case.profile.daily_peaks[..28] {
        day.memory = Mib(7_000);
    }
    assert_eq!(case.verdict(), "mig 1g.20gb");
    assert_eq!(
        case.counterfactual(),
        "fits `1g.10gb` of an A100 80GB if the peak were at most 8,106 MiB; it was above on 2 of 30 days"
    );
    case.profile.compute = sm_active(0.15);
    assert_eq!(case.verdict(), "mig 2g.20gb");
    assert_eq!(
        case.counterfactual(),
        "fits `1g.20gb` of an A100 80GB if the 99th percentile of SM_ACTIVE were at most 9.7 %; SM_ACTIVE reaches 15 %"
    );
    assert_eq!(on("a100-80gb", 3_000).counterfactual(), "", "there is nothing smaller");
}

#[test]
fn a_card_kept_whole_says_what_would_free_it() {
    let mut case = on("a100-40gb", 17_000);
    assert_eq!(
        case.counterfactual(),
        "fits `3g.20gb` of an A100 40GB if the peak were at most 16,640 MiB; it was above on 30 of 30 days"
    );
    case.profile.peak.as_mut().unwrap().memory = Mib(8_000);
    case.profile.bandwidth_p99 = Ratio::from_f64(0.5);
    case.profile.compute = sm_active(0.9);
    assert_eq!(
        case.counterfactual(),
        "fits `4g.20gb` of an A100 40GB if the 99th percentile of SM_ACTIVE were at most 38.9 % and the 99th percentile \
         of DRAM_ACTIVE were at most 40 %; SM_ACTIVE reaches 90 %, DRAM_ACTIVE reaches 50 %",
    );
}

#[test]
fn a_card_that_cannot_be_cut_says_what_would_let_it_be_shared() {
    let mut case = on("a10g", 4_000);
    assert_eq!(case.counterfactual(), "may share a card if it were not production");
    case.policy.production = false;
    case.profile.compute = sm_active(0.9);
    assert_eq!(
        case.counterfactual(),
        "may share a card if the 99th percentile of SM_ACTIVE were below 70 %; SM_ACTIVE reaches 90 %"
    );
}

#[test]
fn an_upper_bound_is_named_as_what_stands_in_the_way() {
    let mut case = on("a100-40gb", 4_000);
    case.profile.compute = Some(Compute { p99: Ratio::ONE, source: ComputeSource::GpuUtil, day: day(30) });
    assert_eq!(case.verdict(), "no-evidence upper-bound-only");
    assert_eq!(
        case.counterfactual(),
        "fits `4g.20gb` of an A100 40GB if SM_ACTIVE were measured and its 99th percentile at most 38.9 %; GPU_UTIL \
         reaches 100 %"
    );
}

#[test]
fn where_the_ground_refuses_the_slice_that_would_do_is_named() {
    let mut case = on("a100-40gb", 4_000);
    case.ground.mig_refused = Some(Reason::new("x", "no").with_advice("do that first"));
    let counterfactual = case.fit().counterfactual.unwrap();
    assert_eq!(counterfactual.text, "fits `1g.5gb` of an A100 40GB if MIG were possible here");
    assert_eq!(counterfactual.advice.as_deref(), Some("do that first"));
}

#[test]
fn a_slice_that_is_right_is_kept() {
    let case = on_slice("a100-40gb", "1g.10gb", 7_987);
    assert_eq!(case.verdict(), "keep-slice right-size");
    assert_eq!(case.fit().holds, Holds::Slice { profile: "1g.10gb".into() });
    assert_eq!(
        case.fit().verdict.reasons()[0].text,
        "has 9,855 MiB for 9,585 MiB (peak 7,987 MiB with headroom)"
    );
}

#[test]
fn a_slice_grows_once_less_than_half_of_the_headroom_is_left() {
    // 20 % are wanted on top of the peak, and 1g.5gb has 4,863 MiB: half is gone above 4,420 MiB.
    assert_eq!(on_slice("a100-40gb", "1g.5gb", 4_000).verdict(), "keep-slice right-size");
    assert_eq!(on_slice("a100-40gb", "1g.5gb", 4_400).verdict(), "keep-slice headroom-thin");
    assert_eq!(on_slice("a100-40gb", "1g.5gb", 4_430).verdict(), "mig 1g.10gb");
    let report = on_slice("a100-40gb", "1g.5gb", 4_430).fit();
    assert_eq!(report.considered[0].name, "1g.10gb");
    let held = report.considered.iter().find(|candidate| candidate.name == "1g.5gb").unwrap();
    assert!(!held.fits);
    assert_eq!(
        held.reasons[0].text,
        "has 4,863 MiB, the peak is 4,430 MiB: less than half of the headroom is left of the 5,316 MiB that are wanted"
    );
}

#[test]
fn a_slice_that_is_nearly_full_grows_whatever_the_headroom_is() {
    let mut case = on_slice("a100-40gb", "1g.5gb", 4_735);
    case.policy.headroom_percent = 2;
    case.policy.headroom_min = Mib(0);
    assert_eq!(case.verdict(), "mig 1g.10gb");
    case.profile.peak.as_mut().unwrap().memory = Mib(4_734);
    assert_eq!(case.verdict(), "keep-slice right-size");
}

#[test]
fn a_slice_shrinks_by_half_and_with_a_tenth_to_spare() {
    // 1g.5gb has 4,863 MiB: a need of 4,420 MiB leaves a tenth, so a peak of 3,683 MiB.
    assert_eq!(on_slice("a100-40gb", "1g.10gb", 3_683).verdict(), "mig 1g.5gb");
    assert_eq!(on_slice("a100-40gb", "1g.10gb", 3_700).verdict(), "keep-slice right-size");
    let mut wide = on_slice("a100-40gb", "4g.20gb", 16_000);
    wide.profile.compute = sm_active(0.2);
    assert_eq!(
        wide.verdict(),
        "keep-slice right-size",
        "3g.20gb takes the same memory and 3 of 4 compute slices"
    );
    let mut wide = on_slice("a100-40gb", "2g.10gb", 7_000);
    wide.profile.compute = sm_active(0.08);
    assert_eq!(wide.verdict(), "mig 1g.10gb", "the same memory with half the compute slices");
}

#[test]
fn fewer_sms_are_not_proposed_where_compute_was_never_measured() {
    let mut case = on_slice("a100-40gb", "2g.10gb", 3_000);
    assert_eq!(case.verdict(), "keep-slice compute-unknown-on-slice");
    let report = case.fit();
    let reason = report.verdict.reasons()[0];
    assert_eq!(
        reason.text,
        "`1g.5gb` has memory enough (4,863 MiB for 3,600 MiB), but has 14 SMs instead of 28 SMs, and what compute it \
         needs was not measured: counters of slices do not say"
    );
    assert_eq!(reason.advice.as_deref(), Some("run one replica on a whole card for a week to measure it"));
    case.profile.compute = sm_active(0.05);
    assert_eq!(case.verdict(), "mig 1g.5gb");
    case.profile.compute = sm_active(0.15);
    assert_eq!(case.verdict(), "keep-slice right-size", "14 of 108 SMs are too few");
}

#[test]
fn compute_measured_on_whole_cards_makes_a_slice_grow_and_an_upper_bound_does_not() {
    let mut case = on_slice("a100-40gb", "1g.10gb", 7_000);
    case.profile.compute = sm_active(0.11);
    assert_eq!(case.verdict(), "keep-slice right-size", "more than half of what is kept free is left");
    case.profile.compute = sm_active(0.18);
    assert_eq!(case.verdict(), "mig 2g.10gb");
    case.profile.compute.as_mut().unwrap().source = ComputeSource::GrEngineActive;
    assert_eq!(case.verdict(), "keep-slice right-size");
}

#[test]
fn a_slice_that_nobody_uses_is_named() {
    let case = on_slice("a100-40gb", "2g.10gb", 12);
    assert_eq!(case.verdict(), "keep-slice slice-unused");
    assert_eq!(
        case.fit().verdict.reasons()[0].text,
        "its memory never rose above 12 MiB in 30 days, less than a CUDA context takes: the slice is held and not used"
    );
    assert_eq!(on_slice("a100-40gb", "2g.10gb", 0).verdict(), "keep-slice slice-unused");
}

#[test]
fn a_slice_is_not_traded_for_a_whole_card() {
    let case = on_slice("a100-40gb", "4g.20gb", 19_000);
    assert_eq!(case.verdict(), "keep-slice too-small-and-nothing-larger");
    assert!(case.fit().verdict.reasons()[0].advice.as_ref().unwrap().contains("takes a card more"));
    let case = on_slice("a100-40gb", "7g.40gb", 19_900);
    assert_eq!(case.verdict(), "keep-slice right-size", "a slice of the whole card is the largest");
    assert_eq!(on_slice("a100-40gb", "7g.40gb", 39_900).verdict(), "keep-slice too-small-and-nothing-larger");
}

#[test]
fn a_slice_with_media_engines_keeps_a_decoder() {
    let case = on_slice("a100-40gb", "1g.5gb+me", 4_600);
    assert_eq!(case.verdict(), "mig 1g.10gb");
    let mut case = on_slice("a100-40gb", "1g.10gb", 3_000);
    case.profile.media_engines_used = Some(true);
    assert_eq!(case.verdict(), "mig 1g.5gb+me");
    case.profile.media_engines_used = None;
    assert_eq!(case.verdict(), "mig 1g.5gb");
    assert!(case.fit().cautions.iter().any(|caution| caution.code == "media-unknown"));
}

#[test]
fn slices_that_nothing_is_known_of_are_left_alone() {
    let other_card = on_slice("a100-40gb", "1g.7gb", 3_000);
    assert_eq!(other_card.verdict(), "no-evidence unknown-slice");
    let mut unnamed = on_slice("a100-40gb", "1g.10gb", 3_000);
    unnamed.profile.slice = Some("unknown".into());
    assert_eq!(unnamed.fit().verdict.reasons()[0].text, "which slice it holds is not known (`unknown`)");
    let graphics = on_slice("rtx-pro-6000-blackwell-96gb", "2g.48gb+gfx", 3_000);
    assert_eq!(graphics.verdict(), "keep-slice graphics-slice");
    let mut several = on_slice("a100-40gb", "2g.10gb", 3_000);
    several.workload.gpus_per_pod = 2;
    assert_eq!(several.verdict(), "keep-slice several-gpus");
    let mut shared = on_slice("a100-40gb", "2g.10gb", 3_000);
    shared.workload.resource = "nvidia.com/mig-2g.10gb.shared".into();
    assert_eq!(shared.verdict(), "keep-slice already-shared");
    let mut short = on_slice("a100-40gb", "1g.10gb", 3_000);
    short.profile.history_days = 3;
    assert_eq!(short.verdict(), "no-evidence short-history");
}

#[test]
fn a_slice_on_ground_that_refuses_mig_is_kept_and_the_wish_is_named() {
    let mut case = on_slice("a100-40gb", "1g.10gb", 3_000);
    case.ground.mig_refused = Some(Reason::new("provider-owned", "the pool is the cloud's"));
    assert_eq!(case.verdict(), "keep-slice provider-owned");
    assert_eq!(
        case.fit().verdict.reasons()[0].text,
        "`1g.5gb` would do instead, but the pool is the cloud's"
    );
}

#[test]
fn a_slice_below_the_policys_minimum_grows_to_it() {
    let mut case = on_slice("a100-40gb", "1g.5gb", 3_000);
    case.policy.min_profile = Some("2g.10gb".into());
    assert_eq!(case.verdict(), "mig 2g.10gb");
}

#[test]
fn policy_that_refuses_latency_refuses_a_narrower_slice() {
    let mut case = on_slice("a100-40gb", "2g.10gb", 3_000);
    case.profile.compute = sm_active(0.05);
    case.profile.kernel_width_p95 = Ratio::from_f64(0.5);
    case.policy.refuse_latency_stretch = true;
    assert_eq!(case.verdict(), "keep-slice right-size");
}

#[test]
fn no_peak_makes_noise_move_a_workload_twice() {
    for peak in (1_000..16_000).step_by(13) {
        let mut case = on_slice("a100-40gb", "4g.20gb", peak);
        case.profile.compute = sm_active(0.02);
        for (before, after) in [(98, 102), (102, 98)] {
            let then = applied(&case.scaled(before));
            if then.profile.slice == case.profile.slice {
                continue;
            }
            let mut again = case.scaled(after);
            again.holding(then.profile.slice.as_deref().unwrap());
            let first = case.scaled(before).verdict();
            assert!(again.verdict().starts_with("keep-slice"), "{peak}: {first} then {}", again.verdict());
        }
    }
}

const MODELS: [&str; 6] =
    ["a100-40gb", "a100-80gb", "a30-24gb", "h100-80gb-sxm", "h200-141gb", "rtx-pro-6000-blackwell-96gb"];

/// How much of a card the verdict takes: index in the chain, or past its end.
fn size(case: &Case) -> usize {
    let report = case.fit();
    let chain = case.model.chain();
    let place = |name: &str| chain.iter().position(|profile| profile.name.to_string() == name);
    match &report.verdict {
        Verdict::Mig { profile } => place(profile).unwrap(),
        Verdict::KeepSlice { reason, .. } if reason.code == "too-small-and-nothing-larger" => chain.len() + 1,
        Verdict::KeepSlice { profile, .. } => place(profile).unwrap_or(chain.len()),
        Verdict::KeepWhole { .. } => chain.len() + 1,
        Verdict::TimeSlicing
        | Verdict::Mps
        | Verdict::NotEnoughEvidence { .. }
        | Verdict::Excluded { .. } => {
            panic!("{report:#?}")
        }
    }
}

/// The workload after its verdict came true.
fn applied(case: &Case) -> Case {
    let mut after = case.clone();
    if let Verdict::Mig { profile } = case.fit().verdict {
        after.holding(&profile);
    }
    after
}

fn any_case() -> impl Strategy<Value = Case> {
    let whole = (0..MODELS.len(), 64u64..100_000, 0u32..1_000_000, any::<bool>());
    (whole, proptest::option::of((0usize..7, any::<bool>()))).prop_map(
        |((model, peak, ppm, media), slice)| {
            let mut case = on(MODELS[model], peak);
            case.profile.compute.as_mut().unwrap().p99 = Ratio::from_ppm(ppm);
            case.profile.media_engines_used = Some(media);
            if let Some((held, measured)) = slice {
                let plain = case.model.plain_profiles();
                let name = plain[held % plain.len()].name.to_string();
                case.holding(&name);
                if !measured {
                    case.profile.compute = None;
                }
            }
            case
        },
    )
}

proptest! {
    #[test]
    fn more_memory_never_yields_a_smaller_slice(case in any_case(), more in 0u64..50_000) {
        let mut larger = case.clone();
        larger.profile.peak.as_mut().unwrap().memory.0 += more;
        prop_assert!(size(&larger) >= size(&case), "{} then {}", case.verdict(), larger.verdict());
    }

    #[test]
    fn more_compute_never_yields_a_smaller_slice(case in any_case(), more in 0u32..500_000) {
        let mut larger = case.clone();
        if let Some(compute) = &mut larger.profile.compute {
            compute.p99 = Ratio::from_ppm(compute.p99.ppm() + more);
        }
        prop_assert!(size(&larger) >= size(&case), "{} then {}", case.verdict(), larger.verdict());
    }

    #[test]
    fn a_verdict_that_came_true_stands(case in any_case()) {
        let after = applied(&case);
        if after.profile.slice.is_some() {
            prop_assert!(after.verdict().starts_with("keep-slice"), "{} then {}", case.verdict(), after.verdict());
        }
    }

    #[test]
    fn noise_does_not_move_a_workload_again(case in any_case(), before in 98u64..=102, after in 98u64..=102) {
        // Below some hundred MiB rounding alone is more than two percent.
        prop_assume!(case.profile.peak.as_ref().unwrap().memory >= Mib(1_000));
        let then = applied(&case.scaled(before));
        let mut again = case.scaled(after);
        if let Some(held) = &then.profile.slice {
            again.holding(held);
            prop_assert!(
                again.verdict().starts_with("keep-slice") || case.profile.slice == then.profile.slice,
                "{} then {}", case.scaled(before).verdict(), again.verdict()
            );
        }
    }
}
