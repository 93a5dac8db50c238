use super::super::ComputeSource;
use super::*;

const DAY: u64 = 86_400;
const STEP: u64 = 60;

fn date(day: i8) -> Date {
    Date::constant(2026, 1, day)
}

fn settings() -> FoldSettings {
    FoldSettings {
        window: Window { first: date(1), last: date(7), asked_days: 7, had_days: 0 },
        card_memory: BTreeMap::from([("A100".to_owned(), Mib(40_960))]),
        usable_memory: BTreeMap::new(),
        slice_memory: BTreeMap::new(),
        nodes_today: BTreeMap::new(),
        held_now: BTreeMap::new(),
        framework_says: BTreeMap::new(),
    }
}

fn name(pod: &str) -> PodName {
    PodName { namespace: "a".into(), name: pod.into() }
}

fn reading(card: &str, pod: &str, peak: u64) -> CardReading {
    CardReading {
        card: card.into(),
        model_name: "A100".into(),
        host: Some("n1".into()),
        pod: Some(name(pod)),
        peak: Some(Mib(peak)),
        median: Some(Mib(peak / 2)),
        samples: DAY / STEP,
        compute_p99: [Some(Ratio::from_ppm(100_000)), Some(Ratio::from_ppm(300_000)), None],
        ..CardReading::default()
    }
}

fn pod(pod: &str, workload: &str) -> PodDay {
    PodDay {
        pod: name(pod),
        workload: WorkloadId::new("Deployment", "a", workload),
        run: format!("a/{pod}"),
        node: Some("n1".into()),
        gpus: 1,
        running_seconds: Some(DAY),
        shared: None,
        slice_profile: None,
    }
}

fn day(day: i8, cards: Vec<CardReading>, pods: Vec<PodDay>) -> DayFacts {
    DayFacts {
        day: date(day),
        seconds: DAY,
        interval_seconds: STEP,
        cards,
        pods,
        node_gpus: BTreeMap::new(),
        incomplete: Vec::new(),
    }
}

fn fold(days: &[DayFacts]) -> BTreeMap<String, WorkloadProfile> {
    fold_with(settings(), days)
}

fn fold_with(settings: FoldSettings, days: &[DayFacts]) -> BTreeMap<String, WorkloadProfile> {
    let mut folder = Folder::new(settings);
    for facts in days {
        folder.day(facts);
    }
    let folded = folder.finish(&BTreeSet::new(), None);
    folded.profiles.into_iter().map(|(id, profile)| (id.name, profile)).collect()
}

fn codes(profile: &WorkloadProfile) -> Vec<String> {
    profile
        .gaps
        .iter()
        .map(|gap| serde_json::to_value(gap).unwrap()["code"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_highest_day_is_the_peak_and_names_its_pod() {
    let days = [
        day(1, vec![reading("x", "p", 1_000)], vec![pod("p", "w")]),
        day(2, vec![reading("x", "p", 7_987)], vec![pod("p", "w")]),
        day(3, vec![reading("y", "q", 900)], vec![pod("q", "w")]),
    ];
    let profile = &fold(&days)["w"];
    let peak = profile.peak.clone().unwrap();
    assert_eq!(
        (peak.memory, peak.pod.as_str(), peak.card.as_str(), peak.day),
        (Mib(7_987), "p", "x", date(2))
    );
    assert_eq!(profile.history_days, 3);
    assert_eq!(profile.coverage, Some(Ratio::ONE));
    assert_eq!(profile.compute.unwrap().source, ComputeSource::SmActive);
    assert_eq!((profile.pods_seen, codes(profile)), (2, vec![]));
}

#[test]
fn a_short_pod_is_covered_and_a_scrape_gap_is_not() {
    let mut short = reading("x", "p", 1_000);
    short.samples = 60;
    let mut short_pod = pod("p", "short");
    short_pod.running_seconds = Some(3_600);
    let mut gap = reading("y", "q", 1_000);
    gap.samples = 720;
    let (other, other_pod) = (reading("z", "r", 1_000), pod("r", "other"));
    let folded = fold(&[day(1, vec![short, gap, other], vec![short_pod, pod("q", "gap"), other_pod])]);
    assert_eq!(folded["short"].coverage, Some(Ratio::ONE));
    assert_eq!(folded["gap"].coverage, Some(Ratio::from_ppm(500_000)));
}

#[test]
fn samples_of_a_pod_that_is_over_do_not_stand_for_those_of_another() {
    let mut lingering = reading("x", "p", 1_000);
    lingering.samples = 240;
    let mut over = pod("p", "w");
    over.running_seconds = Some(3_600);
    let other = reading("z", "r", 1_000);
    let pods = vec![over, pod("unseen", "w"), pod("r", "other")];
    let profile = &fold(&[day(1, vec![lingering, other], pods)])["w"];
    assert!(profile.coverage.unwrap() < Ratio::from_ppm(60_000), "{:?}", profile.coverage);
}

#[test]
fn nobody_answers_for_the_hours_before_the_first_sample() {
    let mut half = reading("x", "p", 1_000);
    half.samples = 720;
    let folded = fold(&[day(1, vec![half], vec![pod("p", "w")])]);
    assert_eq!(folded["w"].coverage, Some(Ratio::ONE));
}

#[test]
fn absence_is_a_gap_and_never_zero() {
    let profile = &fold(&[day(1, vec![], vec![pod("p", "w")])])["w"];
    assert_eq!((profile.peak.clone(), profile.compute), (None, None));
    assert_eq!(codes(profile), ["no-samples"]);
    assert_eq!(profile.coverage, Some(Ratio::ZERO));
}

#[test]
fn virtual_gpus_are_shared_cards() {
    let mut a = reading("x", "p", 5_000);
    a.vgpu = true;
    let mut b = reading("x", "q", 5_000);
    b.vgpu = true;
    let folded = fold(&[day(1, vec![a, b], vec![pod("p", "w"), pod("q", "v")])]);
    assert_eq!((folded["w"].peak.clone(), codes(&folded["w"])), (None, vec!["shared-card".to_owned()]));
}

#[test]
fn per_process_zeros_are_no_readings() {
    let mut a = reading("x", "p", 0);
    a.vgpu = true;
    let mut device = reading("x", "p", 4_310);
    device.pod = None;
    let folded = fold(&[day(1, vec![a, device], vec![pod("p", "w")])]);
    assert!(codes(&folded["w"]).contains(&"zero-per-process".to_owned()));
    assert_eq!(folded["w"].peak, None);
}

#[test]
fn labels_that_flip_between_pods_of_one_card_are_seen() {
    let mut a = reading("x", "p", 5_000);
    a.samples = 700;
    let mut b = reading("x", "q", 5_000);
    b.samples = 740;
    let folded = fold(&[day(1, vec![a, b], vec![pod("p", "w"), pod("q", "v")])]);
    assert_eq!(codes(&folded["w"]), ["shared-card"]);
}

#[test]
fn one_pod_after_another_is_not_sharing() {
    let (mut a, mut b) = (reading("x", "p", 5_000), reading("x", "q", 6_000));
    (a.samples, b.samples) = (720, 720);
    let (mut first, mut second) = (pod("p", "w"), pod("q", "w"));
    (first.running_seconds, second.running_seconds) = (Some(43_200), Some(43_500));
    let profile = &fold(&[day(1, vec![a, b], vec![first, second])])["w"];
    assert_eq!(profile.peak.as_ref().unwrap().memory, Mib(6_000));
    assert_eq!(codes(profile), Vec::<String>::new());
}

#[test]
fn more_gpus_than_cards_exclude_also_the_pod_without_a_sample() {
    let mut facts = day(1, vec![reading("x", "p", 5_000)], vec![pod("p", "w"), pod("q", "v")]);
    facts.node_gpus.insert("n1".into(), 4);
    let folded = fold(&[facts]);
    assert_eq!(codes(&folded["w"]), ["shared-card"]);
    assert_eq!(codes(&folded["v"]), ["shared-card"]);
}

#[test]
fn whole_card_history_counts_after_the_sharing_ended() {
    let mut shared = reading("x", "p", 30_000);
    shared.vgpu = true;
    let days = [
        day(1, vec![shared], vec![pod("p", "w")]),
        day(2, vec![reading("x", "p", 5_000)], vec![pod("p", "w")]),
    ];
    let profile = &fold(&days)["w"];
    assert_eq!((profile.peak.as_ref().unwrap().memory, profile.history_days), (Mib(5_000), 1));
    assert_eq!(codes(profile), Vec::<String>::new());
}

#[test]
fn slices_are_judged_by_memory_alone() {
    let mut slice = reading("x", "p", 4_384);
    slice.slice = Some(SliceName { id: "9".into(), profile: "1g.5gb".into() });
    let profile = &fold(&[day(1, vec![slice], vec![pod("p", "w")])])["w"];
    assert_eq!((profile.peak.as_ref().unwrap().memory, profile.compute), (Mib(4_384), None));
    assert_eq!((profile.slice.as_deref(), codes(profile)), (Some("1g.5gb"), Vec::new()));
}

fn on_slice(id: &str, profile: &str, pod: &str, peak: u64) -> CardReading {
    let slice = Some(SliceName { id: id.into(), profile: profile.into() });
    CardReading { slice, media_engines_used: Some(false), ..reading("x", pod, peak) }
}

/// A pod that asks for the slice by name.
fn asking(name: &str, workload: &str, profile: &str) -> PodDay {
    PodDay { slice_profile: Some(profile.into()), ..pod(name, workload) }
}

/// Whole-card days, then days on a slice: peaks, day by day.
fn moved(whole: &[u64], slice: &[u64]) -> Vec<DayFacts> {
    let mut days = Vec::new();
    for peak in whole {
        let mut read = reading("x", "p", *peak);
        read.bandwidth_p99 = Some(Ratio::from_ppm(50_000));
        read.kernel_width_p95 = Some(Ratio::from_ppm(400_000));
        read.media_engines_used = Some(true);
        days.push((read, pod("p", "w")));
    }
    for peak in slice {
        let mut read = on_slice("5", "2g.10gb", "q", *peak);
        read.bandwidth_p99 = Some(Ratio::from_ppm(900_000));
        read.kernel_width_p95 = Some(Ratio::from_ppm(900_000));
        read.compute_p99 = [Some(Ratio::from_ppm(990_000)); 3];
        days.push((read, asking("q", "w", "2g.10gb")));
    }
    let dated = days.into_iter().zip(1..);
    dated.map(|((read, pod), n)| day(n, vec![read], vec![pod])).collect()
}

#[test]
fn a_move_to_a_slice_keeps_the_memory_of_both_places_and_the_compute_of_whole_cards() {
    let profile = &fold(&moved(&[7_000, 8_000, 7_500], &[7_100, 7_200]))["w"];
    let peak = profile.peak.clone().unwrap();
    assert_eq!((peak.memory, peak.day, peak.pod.as_str()), (Mib(8_000), date(2), "p"));
    assert_eq!((profile.history_days, profile.daily_peaks.len()), (5, 5));
    assert_eq!(profile.samples, 5 * DAY / STEP);
    assert_eq!((profile.slice.as_deref(), codes(profile)), (Some("2g.10gb"), Vec::new()));
    assert_eq!(profile.compute.unwrap().p99, Ratio::from_ppm(100_000));
    assert_eq!(profile.bandwidth_p99, Some(Ratio::from_ppm(50_000)));
    assert_eq!(profile.kernel_width_p95, Some(Ratio::from_ppm(400_000)));
    assert_eq!(profile.media_engines_used, Some(true));
    let higher_on_slice = &fold(&moved(&[7_000], &[9_000]))["w"];
    assert_eq!(higher_on_slice.peak.as_ref().unwrap().memory, Mib(9_000));
}

#[test]
fn a_few_whole_card_days_do_not_stand_for_a_window_on_slices() {
    let profile = &fold(&moved(&[7_000], &[7_100, 7_000, 7_200]))["w"];
    assert_eq!((profile.compute, profile.bandwidth_p99, profile.kernel_width_p95), (None, None, None));
    assert_eq!((profile.media_engines_used, profile.history_days), (None, 4));
    let enough = &fold(&moved(&[7_000; 14], &[7_100; 15]))["w"];
    assert!(enough.compute.is_some());
}

#[test]
fn a_move_between_slices_keeps_the_memory_of_both() {
    let days = [
        day(1, vec![on_slice("5", "2g.10gb", "p", 4_100)], vec![asking("p", "w", "2g.10gb")]),
        day(2, vec![on_slice("9", "1g.5gb", "q", 3_900)], vec![asking("q", "w", "1g.5gb")]),
    ];
    let profile = &fold(&days)["w"];
    assert_eq!((profile.slice.as_deref(), profile.history_days), (Some("1g.5gb"), 2));
    assert_eq!(profile.peak.as_ref().unwrap().memory, Mib(4_100));
    assert_eq!((profile.compute, profile.media_engines_used, codes(profile)), (None, None, Vec::new()));
}

#[test]
fn back_on_whole_cards_only_whole_card_days_count() {
    let days = [
        day(1, vec![on_slice("5", "2g.10gb", "p", 9_000)], vec![asking("p", "w", "2g.10gb")]),
        day(2, vec![reading("x", "q", 4_000)], vec![pod("q", "w")]),
    ];
    let profile = &fold(&days)["w"];
    assert_eq!((profile.slice.clone(), profile.history_days), (None, 1));
    assert_eq!(profile.peak.as_ref().unwrap().memory, Mib(4_000));
    assert!(profile.compute.is_some());
}

#[test]
fn what_the_pods_hold_now_decides_and_most_of_them_do() {
    let now = |held: &[(&str, HeldNow)]| {
        let held_now = held.iter().map(|(pod, held)| (name(pod), held.clone())).collect();
        let settings = FoldSettings { held_now, ..settings() };
        fold_with(settings, &moved(&[7_000], &[7_100]))["w"].slice.clone()
    };
    let slice = || HeldNow::Slice("1g.5gb".into());
    assert_eq!(now(&[("q", slice())]), Some("1g.5gb".into()));
    assert_eq!(now(&[("q", HeldNow::Whole)]), None);
    assert_eq!(now(&[("p", HeldNow::Whole), ("q", slice())]), None);
    assert_eq!(HeldNow::of_most([HeldNow::Whole, slice(), slice()]), Some(slice()));
    // A pod of somebody else.
    assert_eq!(now(&[("stranger", HeldNow::Whole)]), Some("2g.10gb".into()));
}

fn flat(days: Vec<DayFacts>) -> BTreeMap<String, WorkloadProfile> {
    let mut days = days;
    for reading in days.iter_mut().flat_map(|facts| &mut facts.cards) {
        reading.median = reading.peak;
    }
    let slices = BTreeMap::from([("2g.10gb".to_owned(), Mib(9_856))]);
    let slice_memory = BTreeMap::from([("A100".to_owned(), slices)]);
    fold_with(FoldSettings { slice_memory, ..settings() }, &days)
}

#[test]
fn a_fraction_is_taken_of_the_slice_and_only_days_on_it_tell() {
    // Nine tenths of the card, then nine tenths of the slice: neither is a need.
    let both = &flat(moved(&[36_864, 36_864], &[8_870, 8_870]))["w"];
    let reservation = both.reservation.clone().unwrap();
    assert!(reservation.evidence.contains("of the slice"), "{}", reservation.evidence);
    assert_eq!(reservation.share_of_card.to_string(), "90 %");
    assert_eq!((both.peak.as_ref().unwrap().memory, both.history_days), (Mib(8_870), 2));
    // A fraction of the card alone says nothing of the slice.
    let before = &flat(moved(&[36_864, 36_864], &[3_000, 3_100]))["w"];
    assert_eq!((before.reservation.clone(), before.peak.as_ref().unwrap().memory), (None, Mib(3_100)));
    assert!(before.compute.is_some());
    // The same memory on a card and on a slice is a fraction of neither.
    let same = &flat(moved(&[8_870, 8_870], &[8_870, 8_870]))["w"];
    assert_eq!((same.reservation.clone(), same.history_days), (None, 4));
}

#[test]
fn a_cut_card_shown_beside_its_instances_is_nobodys() {
    let days = |parent_samples: u64, slice_samples: u64| {
        let mut parent = reading("x", "p", 30_000);
        parent.samples = parent_samples;
        let mut slice = on_slice("5", "2g.10gb", "p", 4_000);
        slice.samples = slice_samples;
        let before = day(1, vec![reading("z", "r", 1_000)], vec![pod("r", "other")]);
        fold(&[before, day(2, vec![parent, slice], vec![pod("p", "w")])])
    };
    let beside = &days(1_440, 1_440)["w"];
    assert_eq!((beside.peak.as_ref().unwrap().memory, codes(beside)), (Mib(4_000), Vec::new()));
    assert_eq!(beside.coverage, Some(Ratio::ONE));
    // Whole until noon and cut since: the morning counts.
    assert_eq!(days(720, 720)["w"].peak.as_ref().unwrap().memory, Mib(30_000));
}

#[test]
fn a_card_read_for_a_slice_is_no_evidence() {
    let profile = &fold(&[day(1, vec![reading("x", "p", 30_000)], vec![asking("p", "w", "1g.5gb")])])["w"];
    assert_eq!((profile.slice.as_deref(), profile.peak.clone()), (Some("1g.5gb"), None));
    assert_eq!((codes(profile), profile.coverage), (vec!["whole-card-readings".into()], Some(Ratio::ZERO)));
}

#[test]
fn a_slice_of_several_pods_is_shared_and_its_neighbour_is_not() {
    let readings = vec![
        on_slice("5", "2g.10gb", "p", 4_000),
        on_slice("5", "2g.10gb", "q", 4_000),
        on_slice("9", "1g.5gb", "r", 2_000),
    ];
    let pods = vec![pod("p", "w"), pod("q", "v"), pod("r", "u")];
    let folded = fold(&[day(1, readings.clone(), pods.clone())]);
    assert_eq!((codes(&folded["w"]), folded["w"].peak.clone()), (vec!["shared-card".into()], None));
    assert_eq!((codes(&folded["u"]), folded["u"].slice.as_deref()), (Vec::new(), Some("1g.5gb")));
    // Where the node says that its slices are shared, one pod's label on a reading is not its own.
    let nodes_today = BTreeMap::from([("n1".to_owned(), NodeToday::SharedSlices)]);
    let settings = FoldSettings { nodes_today, ..settings() };
    let one = vec![on_slice("9", "1g.5gb", "r", 2_000)];
    let folded = fold_with(settings, &[day(1, one, vec![pod("r", "u")])]);
    assert_eq!(codes(&folded["u"]), ["shared-card"]);
}

#[test]
fn a_profile_that_dcgm_cannot_name_is_that_of_the_resource() {
    let days = [day(1, vec![on_slice("5", "unknown", "p", 2_000)], vec![asking("p", "w", "1g.5gb+me")])];
    assert_eq!(fold(&days)["w"].slice.as_deref(), Some("1g.5gb+me"));
}

#[test]
fn the_whole_card_of_a_node_with_a_cut_one_is_held_whole() {
    // Two cards, one of them cut: one whole GPU on offer, and slices under names of their own.
    let mut facts = day(
        1,
        vec![on_slice("5", "2g.10gb", "p", 4_000), reading("y", "q", 9_000)],
        vec![asking("p", "w", "2g.10gb"), pod("q", "v")],
    );
    facts.node_gpus.insert("n1".into(), 1);
    let folded = fold(&[facts]);
    assert_eq!((codes(&folded["v"]), folded["v"].slice.clone()), (Vec::new(), None));
    assert_eq!(folded["v"].peak.as_ref().unwrap().memory, Mib(9_000));
}

#[test]
fn several_models_behind_slices_are_a_gap() {
    let mut other = on_slice("9", "2g.10gb", "p", 4_000);
    other.model_name = "H100".into();
    let days = [
        day(1, vec![other], vec![asking("p", "w", "2g.10gb")]),
        day(2, vec![on_slice("5", "2g.10gb", "q", 3_000)], vec![asking("q", "w", "2g.10gb")]),
    ];
    let profile = &fold(&days)["w"];
    assert_eq!((profile.model_name.as_str(), codes(profile)), ("A100", vec!["several-models".to_owned()]));
    assert_eq!((profile.peak.as_ref().unwrap().memory, profile.history_days), (Mib(3_000), 1));
}

#[test]
fn an_incomplete_day_marks_who_was_there() {
    let mut facts = day(1, vec![reading("x", "p", 1_000)], vec![pod("p", "w")]);
    facts.incomplete.push("memory peaks of 2026-01-01".into());
    let later = day(2, vec![reading("y", "q", 1_000)], vec![pod("q", "v")]);
    let folded = fold(&[facts, later]);
    assert_eq!(codes(&folded["w"]), ["incomplete-answer"]);
    assert_eq!(codes(&folded["v"]), Vec::<String>::new());
}

#[test]
fn a_looser_compute_metric_stands_in_only_where_the_better_one_lacks() {
    let mut without = reading("x", "p", 1_000);
    without.compute_p99 = [None, Some(Ratio::from_ppm(700_000)), None];
    let with = reading("x", "p", 1_000);
    let few: Vec<DayFacts> = (1..=4)
        .map(|d| day(d, vec![if d < 3 { without.clone() } else { with.clone() }], vec![pod("p", "w")]))
        .collect();
    let compute = fold(&few)["w"].compute.unwrap();
    assert_eq!((compute.source, compute.p99), (ComputeSource::GrEngineActive, Ratio::from_ppm(700_000)));
    let many: Vec<DayFacts> = (1..=20)
        .map(|d| day(d, vec![if d < 3 { without.clone() } else { with.clone() }], vec![pod("p", "w")]))
        .collect();
    assert_eq!(fold(&many)["w"].compute.unwrap().source, ComputeSource::SmActive);
}

#[test]
fn a_pod_that_the_owner_series_missed_for_a_day_keeps_its_owner() {
    let days = [
        day(1, vec![reading("x", "p", 1_000)], vec![pod("p", "w")]),
        day(2, vec![reading("x", "p", 9_000)], vec![]),
        day(3, vec![reading("z", "late", 8_000)], vec![]),
        day(4, vec![reading("z", "late", 7_000)], vec![pod("late", "v")]),
    ];
    let folded = fold(&days);
    assert_eq!(folded["w"].peak.as_ref().unwrap().memory, Mib(9_000));
    assert_eq!(folded["v"].peak.as_ref().unwrap().memory, Mib(8_000));
}

#[test]
fn runs_that_are_over_are_counted_once() {
    let mut facts: Vec<DayFacts> = (1..=4)
        .map(|d| {
            let mut night = pod(&format!("night-{d}"), "night");
            night.running_seconds = Some(7_200);
            day(d, vec![], vec![night])
        })
        .collect();
    // Still listed a day later, long over.
    let mut over = pod("night-1", "night");
    over.running_seconds = Some(0);
    facts[1].pods.push(over);
    assert_eq!(fold(&facts)["night"].complete_runs, 4);
}

#[test]
fn reserved_memory_is_named_and_small_services_are_not() {
    let mut reserving = reading("x", "p", 36_410);
    reserving.median = reserving.peak;
    let mut small = reading("y", "q", 4_000);
    small.median = small.peak;
    let folded = fold(&[day(1, vec![reserving, small], vec![pod("p", "llm"), pod("q", "small")])]);
    assert!(folded["llm"].reservation.is_some());
    assert_eq!(folded["small"].reservation, None);
}

proptest::proptest! {
    #[test]
    fn more_memory_never_means_a_smaller_peak(a in 1u64..40_000, b in 1u64..40_000) {
        let days = [
            day(1, vec![reading("x", "p", a)], vec![pod("p", "w")]),
            day(2, vec![reading("x", "p", b)], vec![pod("p", "w")]),
        ];
        let peak = fold(&days)["w"].peak.as_ref().unwrap().memory;
        proptest::prop_assert_eq!(peak, Mib(a.max(b)));
    }
}
