use std::path::Path;
use std::sync::Mutex;

use slicewright_core::usage::DataGap;

use super::super::{Answer, Ask, Problem, Recorded, RecordedAnswer};
use super::*;

#[derive(serde::Deserialize)]
struct CaseSettings {
    now: Timestamp,
    window_days: u32,
    matchers: BTreeMap<String, String>,
}

fn case(folder: &Path) -> (MeasureSettings, Vec<RecordedAnswer>) {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let case: CaseSettings = serde_json::from_str(&read("settings.json")).unwrap();
    let settings = MeasureSettings {
        window_days: case.window_days,
        matchers: case.matchers,
        profile_names: ["1g.5gb", "1g.5gb+me", "2g.10gb"].map(|name| name.parse().unwrap()).into(),
        ..MeasureSettings::new("c1", case.now)
    };
    (settings, serde_json::from_str(&read("answers.json")).unwrap())
}

fn cases() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/prometheus")
}

fn run(settings: &MeasureSettings, source: &impl Source) -> Result<Measurement, MeasureError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(measure(source, settings, &Quiet))
}

/// One line a workload, node and finding: what a reader would check by hand.
fn summary(found: &Measurement) -> String {
    let mut out = String::new();
    for workload in &found.inventory.workloads {
        let profile = &found.measured.profiles[&workload.id];
        let peak =
            profile.peak.as_ref().map(|peak| format!("{} of {} on {}", peak.memory, peak.pod, peak.day));
        let compute = profile.compute.map(|compute| format!("{} {}", compute.source.name(), compute.p99));
        let show = |text: Option<String>| text.unwrap_or_else(|| "none".to_owned());
        out.push_str(&format!(
            "{} {}: {} {} x{}, {} of {} run; peak {}; compute {}; coverage {}; {} days; {} runs\n",
            workload.id.kind,
            workload.id,
            profile.model_name,
            workload.resource,
            workload.gpus_per_pod,
            workload.pods.len(),
            workload.replicas,
            show(peak),
            show(compute),
            show(profile.coverage.map(|share| share.to_string())),
            profile.history_days,
            profile.complete_runs,
        ));
        if let Some(slice) = &profile.slice {
            let held = workload.pods.iter().flat_map(|pod| &pod.slices);
            let held: Vec<String> = held.map(|slice| format!("{} of {}", slice.id, slice.card)).collect();
            out.push_str(&format!("  slice: {slice}; now instance {}\n", held.join(", ")));
        }
        for gap in &profile.gaps {
            out.push_str(&format!("  gap: {gap}\n"));
        }
        if let Some(reservation) = &profile.reservation {
            out.push_str(&format!("  reservation: {}\n", reservation.evidence));
        }
    }
    for node in &found.inventory.nodes {
        let models: Vec<&str> = node.model_names().into_iter().collect();
        let sharing = node.sharing();
        out.push_str(&format!(
            "node {}: {} x {}, {sharing:?}\n",
            node.name,
            node.cards.len(),
            models.join(", ")
        ));
        for (card, slice) in node.cards.iter().flat_map(|card| card.slices.iter().map(move |s| (card, s))) {
            let mib = |memory: Option<Mib>| memory.map_or("?".to_owned(), |memory| memory.to_string());
            out.push_str(&format!(
                "  instance {} of {}: {}, {} of {} in use\n",
                slice.id,
                card.uuid,
                slice.profile,
                mib(slice.used_now),
                mib(slice.usable)
            ));
        }
    }
    for finding in &found.measured.data_quality.findings {
        out.push_str(&format!("{:?} {}: {}\n", finding.severity, finding.code, finding.text));
    }
    out
}

/// Every recording under `tests/cases/prometheus/` gives the summary beside it.
#[test]
fn recordings_of_real_servers_give_what_is_written_beside_them() {
    let mut failed = Vec::new();
    let mut n_cases = 0;
    for entry in std::fs::read_dir(cases()).unwrap() {
        let folder = entry.unwrap().path();
        let (settings, answers) = case(&folder);
        let found = run(&settings, &Recorded::new(answers)).unwrap();
        let text = serde_json::to_string(&found.measured).unwrap();
        assert_eq!(serde_json::from_str::<Measured>(&text).unwrap(), found.measured);
        let found = summary(&found);
        let expected = std::fs::read_to_string(folder.join("expected.txt")).unwrap_or_default();
        if std::env::var_os("UPDATE_CASES").is_some() {
            std::fs::write(folder.join("expected.txt"), &found).unwrap();
        } else if found != expected {
            failed.push(format!("{}:\n{found}", folder.display()));
        }
        n_cases += 1;
    }
    assert!(n_cases >= 3);
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// A recording in which some questions fail.
struct Failing<F> {
    inner: Recorded,
    fails: F,
    asked: Mutex<Vec<String>>,
}

impl<F: Fn(&Ask) -> Option<Problem> + Sync> Source for Failing<F> {
    async fn instant(&self, ask: &Ask) -> Result<Answer, AskError> {
        self.asked.lock().unwrap().push(ask.name.to_owned());
        match (self.fails)(ask) {
            None => self.inner.instant(ask).await,
            Some(problem) => Err(AskError {
                what: ask.what.clone(),
                problem,
                status: None,
                detail: "made up".into(),
                advice: String::new(),
            }),
        }
    }
}

fn failing(
    fails: impl Fn(&Ask) -> Option<Problem> + Sync,
) -> (Result<Measurement, MeasureError>, Vec<String>) {
    let (settings, answers) = case(&cases().join("whole-and-shared-cards"));
    let source = Failing { inner: Recorded::new(answers), fails, asked: Mutex::default() };
    let result = run(&settings, &source);
    (result, source.asked.into_inner().unwrap())
}

fn incomplete(found: &Measurement) -> usize {
    let gap = |gap: &DataGap| matches!(gap, DataGap::IncompleteAnswer { .. });
    found.measured.profiles.values().filter(|profile| profile.gaps.iter().any(gap)).count()
}

#[test]
fn a_part_that_cannot_be_read_marks_everybody_it_may_concern() {
    for name in ["memory-peak", "memory-samples", "sm-p99", "requests", "pod-owners", "running"] {
        let day = "2026-01-14";
        let fails = |ask: &Ask| {
            (ask.name == name && ask.time.to_string().starts_with(day)).then_some(Problem::Partial)
        };
        let found = failing(fails).0.unwrap();
        let alive = found
            .measured
            .profiles
            .values()
            .filter(|profile| profile.daily_peaks.iter().any(|peak| peak.day.to_string() == day))
            .count();
        assert!(incomplete(&found) >= alive.max(1), "{name}: {} of {alive}", incomplete(&found));
        let codes: Vec<&str> =
            found.measured.data_quality.findings.iter().map(|finding| finding.code.as_str()).collect();
        assert!(codes.contains(&"incomplete-answer"), "{name}: {codes:?}");
    }
}

#[test]
fn an_unreachable_server_is_an_error_and_no_empty_answer() {
    for problem in [Problem::Unreachable, Problem::Denied, Problem::NotFound] {
        let first = failing(|_| Some(problem));
        assert!(first.0.is_err());
        assert_eq!(first.1.len(), 1);
        let later = failing(|ask| (ask.name == "memory-median").then_some(problem));
        assert!(later.0.is_err());
    }
}

#[test]
fn a_server_in_trouble_is_left_alone() {
    let (settings, answers) = case(&cases().join("whole-and-shared-cards"));
    let settings = MeasureSettings { window_days: 30, ..settings };
    let names = ["memory-peak", "memory-samples", "sm-p99", "gr-p99"];
    let source = Failing {
        inner: Recorded::new(answers),
        fails: |ask: &Ask| names.contains(&ask.name).then_some(Problem::Partial),
        asked: Mutex::default(),
    };
    assert!(run(&settings, &source).is_err());
}

#[test]
fn an_unreadable_kernel_width_is_no_figure() {
    let found = failing(|ask| (ask.name == "kernel-width").then_some(Problem::Refused)).0.unwrap();
    assert_eq!(incomplete(&found), 0);
    assert!(found.measured.profiles.values().all(|profile| profile.kernel_width_p95.is_none()));
}

fn spans(now: &str, window_days: u32) -> Vec<String> {
    let settings = MeasureSettings { window_days, ..MeasureSettings::new("c", now.parse().unwrap()) };
    days(&settings)
        .unwrap()
        .into_iter()
        .map(|(day, stretch)| format!("{day} {}", stretch.seconds()))
        .collect()
}

#[test]
fn days_are_utc_and_the_last_ends_now() {
    assert_eq!(spans("2026-01-15T00:00:00Z", 2), ["2026-01-13 86400", "2026-01-14 86400"]);
    assert_eq!(
        spans("2026-01-15T06:00:00Z", 2),
        ["2026-01-13 86400", "2026-01-14 86400", "2026-01-15 21600"]
    );
}

#[test]
fn absurd_windows_are_refused() {
    for window_days in [0, 401] {
        let settings = MeasureSettings { window_days, ..MeasureSettings::new("c", Timestamp::UNIX_EPOCH) };
        assert!(days(&settings).is_none());
    }
}
