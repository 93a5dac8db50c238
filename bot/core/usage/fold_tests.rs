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
