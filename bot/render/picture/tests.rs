//! Whole pictures. What they show is held against the plan by a parser in `tests/journeys/pictures.rs`.

use slicewright_core::catalog::GpuModel;
use slicewright_core::ids::WorkloadId;
use slicewright_core::plan::{CardUse, PluginSharing, SliceUse};

use super::svg::{Weight, fit, wrapped};
use super::*;
use crate::render::sample::{Sample, mig, time_slicing};
use crate::render::tests::snapshot;

/// The golden case with its cards as the planner says them.
fn with_cards(mut sample: Sample, then: CardUse) -> Sample {
    let workloads: Vec<WorkloadId> = sample.plan.items.iter().map(|item| item.fit.workload.clone()).collect();
    for (node, workload) in sample.plan.nodes.iter_mut().zip(workloads) {
        node.before = vec![CardUse::Whole { workload }];
        node.after.clear();
    }
    sample.plan.nodes[0].after = vec![then];
    sample
}

fn cut() -> Sample {
    let sample = mig();
    let slice = |(start, n): (u8, usize)| SliceUse {
        profile: "2g.10gb".into(),
        start,
        workload: sample.plan.items.get(n).map(|item| item.fit.workload.clone()),
    };
    let slices = [(0, 0), (2, 1), (4, 3)].map(slice).to_vec();
    with_cards(mig(), CardUse::Slices { slices })
}

/// An A100 40GB as far as a picture cares.
fn model() -> GpuModel {
    let profile = serde_json::json!({
        "name": "2g.10gb", "memory_mib": 9_856, "memory_mib_min": 9_855, "compute_slices": 2, "memory_slices": 2,
        "starts": [0, 2, 4], "size": 2, "max_instances": 3, "confidence": "verified",
    });
    let model = serde_json::json!({
        "id": "a100-40gb", "generation": "ampere", "products": [], "compute_slices": 7, "memory_slices": 8,
        "max_instances": 7, "mps_max_replicas": 48, "profiles": [profile], "confidence": "verified",
    });
    serde_json::from_value(model).unwrap()
}

const PAGE: Clothes<'_> = Clothes::Page { id: "picture", room: Room::Wide };
const PHONE: Clothes<'_> = Clothes::Page { id: "picture", room: Room::Narrow };

#[test]
fn cards_that_are_cut() {
    let packing = Packing::of(&cut().plan, Some(&model()));
    snapshot("picture-packing-mig", &packing.svg(PAGE, usize::MAX));
    snapshot("picture-packing-mig-narrow", &packing.svg(PHONE, 1));
}

#[test]
fn cards_on_which_pods_take_turns() {
    let sample = time_slicing();
    let workloads = sample.plan.items.iter().map(|item| item.fit.workload.clone()).collect();
    let then = CardUse::Shared { sharing: PluginSharing::TimeSlicing, replicas: 4, workloads };
    let packing = Packing::of(&with_cards(sample, then).plan, None);
    snapshot("picture-packing-time-slicing", &packing.svg(PAGE, usize::MAX));
}

#[test]
fn a_history_day_by_day() {
    let sample = mig();
    let item = &sample.plan.items[2];
    let history = History::of(item, &sample.profiles[&item.fit.workload]).unwrap();
    snapshot("picture-history", &history.svg(PAGE));
    snapshot("picture-history-narrow", &history.svg(PHONE));
}

#[test]
fn cards_to_scale_where_no_picture_can_be() {
    let mut sample = cut();
    let drawn = |sample: &Sample| diagram(&Packing::of(&sample.plan, Some(&model())));
    insta::assert_snapshot!(drawn(&sample), @r"
    dc1-gpu-07
      then   GPU 1        |2g.10gb        |2g.10gb        |2g.10gb        |not cut        |
                          |embed-svc      |classify-svc   |free           |               |
    ");
    // Today's are drawn where they are divided.
    sample.plan.nodes[0].before = sample.plan.nodes[0].after.clone();
    sample.plan.nodes[0].after.push(CardUse::Idle);
    assert!(drawn(&sample).contains("  today  GPU 1        |2g.10gb        |"), "{}", drawn(&sample));
    sample.plan.nodes[0].after.extend([CardUse::Idle, CardUse::Idle]);
    let said = drawn(&sample);
    assert!(said.contains("  then   GPU 2 to 4   |idle "), "{said}");
    assert_eq!(said.lines().map(|line| line.chars().count()).collect::<Vec<_>>(), [10, 87, 87, 87, 87, 87]);
    sample.plan.nodes[0].after = vec![CardUse::Idle];
    assert_eq!(drawn(&sample), "");
}

#[test]
fn nothing_measured_is_no_picture() {
    let sample = mig();
    let item = &sample.plan.items[0];
    let mut profile = sample.profiles[&item.fit.workload].clone();
    profile.daily_peaks.clear();
    assert_eq!(History::of(item, &profile), None);
}

/// The peak is all that there is, and one day is the whole window.
#[test]
fn a_window_of_one_day_and_a_peak_of_nothing_are_drawn() {
    let sample = mig();
    let item = &sample.plan.items[0];
    let mut profile = sample.profiles[&item.fit.workload].clone();
    profile.window.first = profile.window.last;
    profile.daily_peaks.retain(|peak| peak.day == profile.window.last);
    profile.daily_peaks[0].memory.0 = 0;
    let mut history = History::of(item, &profile).unwrap();
    (history.usable.0, history.need) = (0, None);
    let text = history.svg(PAGE);
    assert!(text.contains("M384 210h0"), "{text}");
    history.usable.0 = u64::MAX;
    assert!(history.svg(PAGE).contains("18,446,744,073,709,551,615 MiB"));
}

#[test]
fn words_are_cut_to_their_room_and_not_between() {
    let check =
        |text: &str, width: u32, expected: &str| assert_eq!(fit(text, width, Weight::Plain), expected);
    check("search/embed-svc", 112, "search/embed-svc");
    check("search/embed-svc", 70, "search/em…");
    check("search/embed-svc", 21, "");
    check("日本語の名前", 84, "日本語の名前");
    check("日本語の名前", 70, "日本語の…");
    assert_eq!(fit("time slice 1/4", 112, Weight::Bold), "time slice 1/4");
    assert_eq!(fit("time slice 1/4", 111, Weight::Bold), "time slice 1…");
    assert_eq!(wrapped("one two  three", 56), ["one two", "three"]);
    assert_eq!(wrapped("unbreakable", 7), ["unbreakable"]);
}
