//! What one workload was measured to use, and how its share was chosen.
//!
//! Figures here are peaks, worst days and whole percents: they change when something happened, not with every sample,
//! so that a text is not written anew each day. The picture does move daily; `metadata::body_hash` leaves its line out.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::civil::Date;
use serde::Serialize;
use slicewright_core::fit::Candidate;
use slicewright_core::ids::WorkloadId;
use slicewright_core::plan::Item;
use slicewright_core::units::{Mib, Ratio, counted};
use slicewright_core::usage::{DayPeak, WorkloadProfile};

use super::escape::{plain, tick};
use super::page::reason_words;
use super::template::Templates;
use super::{History, RenderError, WorkloadShown, rows};

/// Characters of a picture; longer windows are drawn with several days a character.
const WIDTH: usize = 60;

/// One workload's evidence.
#[derive(Debug, Serialize)]
pub(super) struct Evidence {
    pub(super) workload: String,
    pub(super) kind: String,
    pub(super) share: String,
    pub(super) summary: String,
    pub(super) facts: Vec<[String; 2]>,
    pub(super) picture: String,
    pub(super) picture_note: String,
    pub(super) candidates: Vec<CandidateLine>,
    pub(super) gaps: Vec<String>,
}

/// One way that was weighed.
#[derive(Debug, Serialize)]
pub(super) struct CandidateLine {
    pub(super) name: String,
    pub(super) fits: &'static str,
    pub(super) memory: String,
    pub(super) sm: String,
    pub(super) why: String,
}

/// Gathers the evidence for one item of the plan.
pub(super) fn evidence(item: &Item, profile: Option<&WorkloadProfile>) -> Evidence {
    let peak =
        item.fit.needs.as_ref().map_or_else(|| "not measured".to_owned(), |needs| needs.peak.to_string());
    let (picture, picture_note) = profile.map_or_else(Default::default, |profile| picture(profile, item));
    Evidence {
        workload: item.fit.workload.to_string(),
        kind: item.fit.workload.kind.clone(),
        share: item.share.clone(),
        summary: format!("peak {peak}, {} ({})", rows::gets_words(item), item.share),
        facts: facts(item, profile),
        picture,
        picture_note,
        candidates: item.fit.considered.iter().map(candidate).collect(),
        gaps: profile.map_or_else(Vec::new, |profile| {
            profile.gaps.iter().map(|gap| format!("{gap}; {}", gap.advice())).collect()
        }),
    }
}

/// See [`super::workloads`].
pub(super) fn workloads(
    items: &[Item],
    profiles: &BTreeMap<WorkloadId, WorkloadProfile>,
) -> Result<Vec<WorkloadShown>, RenderError> {
    let templates = Templates::new()?;
    let shown = |item: &Item| {
        let profile = profiles.get(&item.fit.workload);
        let history = profile.and_then(|profile| History::of(item, profile));
        let mut one = evidence(item, profile);
        if history.is_some() {
            // The row of blocks says the same with less.
            one.picture.clear();
        }
        let summary = plain(&format!("{} ({}): {}", one.workload, one.kind, one.summary));
        let evidence = templates.fill("workload.md", &BTreeMap::from([("one", one)]))?;
        Ok(WorkloadShown { summary, evidence, history })
    };
    items.iter().map(shown).collect()
}

fn facts(item: &Item, profile: Option<&WorkloadProfile>) -> Vec<[String; 2]> {
    let mut facts: Vec<[String; 2]> = Vec::new();
    let mut say = |what: &str, value: String| facts.push([what.to_owned(), value]);
    if let Some(profile) = profile {
        measured(profile, &mut say);
    }
    if let Some(needs) = item.fit.needs.as_ref().filter(|_| rows::shares_memory(item)) {
        say("Counts with", format!("its peak of {}; the headroom is what the card keeps free", needs.peak));
    }
    if let Some(needs) = item.fit.needs.as_ref().filter(|_| !rows::shares_memory(item)) {
        let compute = needs.compute_milli.map_or_else(
            || "compute not measured".into(),
            |milli| {
                let bound = if needs.compute_is_upper_bound { " (from an upper bound)" } else { "" };
                format!("{} of the card's SMs{bound}", thousandths(milli))
            },
        );
        say("Needs with headroom", format!("{}; {compute}", needs.memory));
    }
    say("Gets", format!("{} with {} usable", tick(&item.share), item.share_memory));
    if let Some(smaller) = next_smaller(item) {
        let why = smaller.reasons.first().map_or_else(|| "does not fit".into(), reason_words);
        say("Next smaller", format!("{}: {why}", tick(&smaller.name)));
    }
    let surge = match item.max_surge {
        0 => String::new(),
        n => format!(" and {n} more while it rolls"),
    };
    say("Planned for", format!("{}{surge}", counted(item.replicas as usize, "replica")));
    let then = names(&item.nodes_after);
    let same = item.nodes_before == item.nodes_after;
    say("Runs on", if same { then } else { format!("{}, then {then}", names(&item.nodes_before)) });
    if let Some(place) = &item.place {
        say("In the repository", tick(place));
    }
    if let Some(manual) = &item.manual {
        say("To be changed by hand", manual.clone());
    }
    facts
}

/// What the metrics say; also used by `explain`.
pub(super) fn measured(profile: &WorkloadProfile, say: &mut impl FnMut(&str, String)) {
    match &profile.peak {
        Some(peak) => say(
            "Peak memory",
            format!("{} on {}, pod {} on card {}", peak.memory, peak.day, tick(&peak.pod), tick(&peak.card)),
        ),
        None => say("Peak memory", "not measured".into()),
    }
    if let Some(typical) = profile.typical {
        say("Typical memory", format!("{typical} (highest daily median)"));
    }
    match &profile.compute {
        Some(compute) => {
            let bound =
                if compute.source.is_upper_bound() { ", an upper bound of what it needs" } else { "" };
            let name = tick(compute.source.name());
            say(
                "Compute",
                format!("{} (p99 of {name} on {}, the worst day){bound}", compute.p99, compute.day),
            );
        }
        None => say("Compute", "not measured".into()),
    }
    if let Some(width) = profile.kernel_width_p95 {
        say("Kernel width", format!("{width} of the SMs while busy (p95)"));
    }
    if let Some(bandwidth) = profile.bandwidth_p99 {
        say("Memory bandwidth", format!("{bandwidth} (p99 on the worst day)"));
    }
    if let Some(used) = profile.media_engines_used {
        say("Encoder, decoder", if used { "used" } else { "not used" }.into());
    }
    let coverage = profile.coverage.map_or_else(|| "not known".to_owned(), whole_percent);
    let days = format!("{} of {} days", profile.history_days, profile.window.asked_days);
    say("History", format!("{days}, {coverage} of the samples its pods should have given"));
    if profile.complete_runs > 0 {
        say("Complete runs", profile.complete_runs.to_string());
    }
    if let Some(held) = &profile.reservation {
        let who = held.framework.as_ref().map_or_else(String::new, |name| format!(" by {name}"));
        say("Taken at start", format!("{} of the card{who}: {}", held.share_of_card, held.evidence));
    }
}

/// The largest way of the same method that does not fit and is smaller than what was chosen.
fn next_smaller(item: &Item) -> Option<&Candidate> {
    let chosen = item.fit.considered.iter().find(|candidate| candidate.fits)?;
    let size = |candidate: &Candidate| (candidate.memory, candidate.sm);
    item.fit
        .considered
        .iter()
        .filter(|other| !other.fits && other.method == chosen.method && size(other) < size(chosen))
        .min_by_key(|other| Reverse(size(other)))
}

fn candidate(candidate: &Candidate) -> CandidateLine {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "—".into());
    CandidateLine {
        name: candidate.name.clone(),
        fits: if candidate.fits { "yes" } else { "no" },
        memory: or_dash(candidate.memory.map(|memory| memory.to_string())),
        sm: or_dash(candidate.sm.map(|sm| sm.to_string())),
        why: candidate.reasons.iter().map(reason_words).collect::<Vec<_>>().join("; "),
    }
}

/// Daily peaks as a row of blocks, and what its height means.
fn picture(profile: &WorkloadProfile, item: &Item) -> (String, String) {
    let row = sparkline(&profile.daily_peaks, profile.window.first, profile.window.last, item.share_memory);
    if row.is_empty() {
        return Default::default();
    }
    let note = format!(
        "full height is the line of the share, {}; a dot is a day without samples",
        item.share_memory
    );
    (row, note)
}

/// One character a day, `▁` to `█` for up to `full`, `!` for above it, `·` for no samples.
pub(super) fn sparkline(peaks: &[DayPeak], first: Date, last: Date, full: Mib) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let Some(days) = (last - first).get_days().checked_add(1).and_then(|n| usize::try_from(n).ok()) else {
        return String::new();
    };
    if days == 0 || peaks.is_empty() || full.0 == 0 {
        return String::new();
    }
    let per_column = days.div_ceil(WIDTH);
    let mut columns = vec![None; days.div_ceil(per_column)];
    for peak in peaks {
        let day = usize::try_from((peak.day - first).get_days()).ok();
        if let Some(column) = day.and_then(|day| columns.get_mut(day / per_column)) {
            *column = (*column).max(Some(peak.memory));
        }
    }
    let draw = |column: &Option<Mib>| match column {
        None => '·',
        Some(memory) if *memory > full => '!',
        Some(memory) => {
            let level = (memory.0 * 8).div_ceil(full.0).clamp(1, 8);
            usize::try_from(level - 1).ok().and_then(|level| LEVELS.get(level)).copied().unwrap_or('█')
        }
    };
    columns.iter().map(draw).collect()
}

/// `96.7 %` as `96 %`: tenths change with every run.
fn whole_percent(ratio: Ratio) -> String {
    format!("{} %", ratio.ppm() / 10_000)
}

/// `254` as `25.4 %`.
pub(super) fn thousandths(milli: u32) -> String {
    Ratio::from_ppm(milli.saturating_mul(1_000)).to_string()
}

fn names(nodes: &[String]) -> String {
    let names: Vec<&str> = nodes.iter().map(String::as_str).collect();
    if names.is_empty() { "no node".into() } else { rows::some_of(&names, 4) }
}
