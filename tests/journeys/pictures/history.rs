//! Histories: each day at its height, and breaks where days are missing.

use slicewright::render::History;
use slicewright_core::units::Mib;
use slicewright_core::usage::DayPeak;

use super::{ALL, Demo, is_plain};
use crate::world::pictures::seen;

/// The history of a workload of the demo.
pub(super) fn history(demo: &Demo) -> History {
    let plan = demo.mig();
    let item = &plan.items[0];
    History::of(item, demo.profile(&item.fit.workload)).unwrap()
}

/// A place of a path or circle in tenths of a pixel.
fn tenths(text: &str) -> i64 {
    let (whole, tenth) = text.split_once('.').unwrap_or((text, "0"));
    whole.parse::<i64>().unwrap() * 10 + tenth.parse::<i64>().unwrap()
}

/// Each line of a path, as its places.
fn lines(path: &str) -> Vec<Vec<(i64, i64)>> {
    let place = |text: &str| {
        let (x, y) = text.trim_end_matches("h0").split_once(' ').unwrap();
        (tenths(x), tenths(y))
    };
    path.split('M').filter(|line| !line.is_empty()).map(|line| line.split('L').map(place).collect()).collect()
}

#[test]
fn a_history_shows_every_day_at_its_height_and_breaks_where_days_are_missing() {
    let demo = Demo::new();
    let mut history = history(&demo);
    history.need = Some(Mib(9_000));
    history.usable = Mib(9_855);
    let day = |n: i64| history.first + jiff::Span::new().days(n);
    let days = [(0, 3_000), (1, 5_000), (2, 8_100), (5, 4_000), (8, 8_100), (9, 10_400)];
    let peaks: Vec<DayPeak> = days.map(|(n, mib)| DayPeak { day: day(n), memory: Mib(mib) }).to_vec();
    history.last = day(11);
    history.peaks = peaks;
    let pictures = ALL.map(|clothes| history.svg(clothes));
    for (picture, clothes) in seen(&pictures).iter().zip(ALL) {
        is_plain(picture, clothes);
        let path = |name: &str| picture["paths"][name][0].as_str().unwrap().to_owned();
        let drawn = lines(&path("peaks"));
        assert_eq!(drawn.iter().map(Vec::len).collect::<Vec<_>>(), [3, 1, 2]);
        assert!(path("peaks").contains("h0"), "a day alone is a dot");
        // The axis says how high a MiB is.
        let texts = picture["texts"].as_array().unwrap();
        let tick = |figure: &str| {
            let text = texts.iter().find(|text| text["text"] == figure).unwrap();
            (text["y"].as_i64().unwrap() - 4) * 10
        };
        let (zero, ten) = (tick("0"), tick("10,000"));
        let height = |mib: i64| zero - (zero - ten) * mib / 10_000;
        let near = |a: i64, b: i64| (a - b).abs() <= 10;
        let all: Vec<(i64, i64)> = drawn.into_iter().flatten().collect();
        let width = all[1].0 - all[0].0;
        for ((n, mib), (x, y)) in days.into_iter().zip(&all) {
            assert!(near(height(i64::try_from(mib).unwrap()), *y), "{mib} MiB at {y}");
            assert!((all[0].0 + width * n - x).abs() <= n + 1, "day {n} at {x}");
        }
        for (name, mib) in [("usable", 9_855), ("need", 9_000)] {
            let at = lines(path(name).split('H').next().unwrap())[0][0].1;
            assert!(near(height(mib), at), "{name} at {at}");
        }
        // The first circle stands before the words.
        let peak = picture["peak"][1].as_array().unwrap();
        assert_eq!((tenths(peak[0].as_str().unwrap()), tenths(peak[1].as_str().unwrap())), all[5]);
        assert_eq!(
            picture["gaps"],
            serde_json::json!(["2 days without samples", "2 days without samples", "2 days without samples"])
        );
        let said = picture["texts"].to_string();
        let peak = format!("10,400 MiB peak on {}", day(9));
        for words in [
            "9,855 MiB usable\"",
            "3g.40gb",
            "9,000 MiB with headroom",
            &peak,
            "UTC day",
            ": highest memory a day, MiB",
        ] {
            assert!(said.contains(words), "{words}: {said}");
        }
        let told = picture["desc"].as_str().unwrap();
        assert!(told.starts_with("6 of 12 days from"), "{told}");
    }
}
