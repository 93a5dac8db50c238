//! The highest memory of a workload, day by day, under the memory of the share that it gets.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use slicewright_core::plan::Item;
use slicewright_core::units::{Mib, counted, thousands};
use slicewright_core::usage::{DayPeak, WorkloadProfile};

use super::Clothes;
use super::svg::{Anchor, Area, Pattern, Pen, fit, tenths};
use crate::render::rows;

/// The area of the days, in pixels: room for figures on its left, for the words of the lines on its right.
const PLOT: Area = Area { x: 96, y: 44, width: 540, height: 180 };
const SIZE: (u32, u32) = (840, 276);
/// Least distance of two lines of words, in pixels.
const APART: u32 = 16;
/// Days with their date below, at most.
const MOST_DATES: i64 = 6;
/// Days that are drawn: longer windows than any retention that was met. The latest are.
const MOST_DAYS: i64 = 1_000;

/// What a workload used, as it is drawn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// The workload, `search/embed-svc`.
    pub workload: String,
    /// First UTC day that was asked for.
    pub first: Date,
    /// Last UTC day that was asked for; may be in progress.
    pub last: Date,
    /// Highest memory of a day, oldest first; days without samples are absent.
    pub peaks: Vec<DayPeak>,
    /// What it gets, `2g.10gb`.
    pub share: String,
    /// Usable memory of that.
    pub usable: Mib,
    /// Others use the same memory.
    pub shared: bool,
    /// The peak with headroom. `None`: not what decides, or not known.
    pub need: Option<Mib>,
}

impl History {
    /// The history of one workload of a plan. `None`: nothing was measured.
    #[must_use]
    pub fn of(item: &Item, profile: &WorkloadProfile) -> Option<Self> {
        let shared = rows::shares_memory(item);
        let window = profile.window;
        let first = window.first.max(window.last.saturating_sub(jiff::Span::new().days(MOST_DAYS - 1)));
        let within = |peak: &&DayPeak| first <= peak.day && peak.day <= window.last;
        let peaks: Vec<DayPeak> = profile.daily_peaks.iter().filter(within).copied().collect();
        (!peaks.is_empty()).then(|| Self {
            workload: item.fit.workload.to_string(),
            first,
            last: window.last,
            peaks,
            share: item.share.clone(),
            usable: item.share_memory,
            shared,
            need: item.fit.needs.as_ref().filter(|_| !shared).map(|needs| needs.memory),
        })
    }

    /// Draws it.
    #[must_use]
    pub fn svg(&self, clothes: Clothes<'_>) -> String {
        let highest = self.highest();
        let title = format!("Peak memory of {} a day", self.workload);
        let mut pen = Pen::new(clothes, SIZE, &title, &self.described(highest));
        let scale = Scale::new(self, highest);
        pen.text("head", Anchor::Start, (0, 16), "Highest memory a day, MiB");
        scale.draw(&mut pen);
        for (first, days) in self.gaps() {
            let left = scale.edge(first);
            let area = Area { x: left, width: scale.edge(first + days) - left, ..PLOT };
            pen.group(
                "gap",
                &format!("{} without samples", counted(usize::try_from(days).unwrap_or(0), "day")),
            );
            pen.pattern(Pattern::Lines, area);
            pen.end();
        }
        self.draw_lines(&mut pen, &scale);
        pen.path("peaks", &self.path(&scale));
        if let Some(peak) = highest {
            let (x, y) = (scale.x(self.day(peak.day)), scale.y(peak.memory));
            pen.circle("peak", (x, y), 4);
            let anchor = match x / 10 {
                x if x < PLOT.x + 110 => Anchor::Start,
                x if x > PLOT.x + PLOT.width - 110 => Anchor::End,
                _ => Anchor::Middle,
            };
            let said = format!("peak {} on {}", peak.memory, peak.day);
            // Below it, since the lines of what it gets and needs are above it; not on the axis.
            let below = y / 10 + 20;
            let at = if below > PLOT.y + PLOT.height - 4 { y / 10 - 10 } else { below };
            pen.text("what", anchor, (x / 10, at), &said);
        }
        pen.done()
    }

    /// The first of the days with the highest memory.
    fn highest(&self) -> Option<DayPeak> {
        self.peaks.iter().copied().max_by_key(|peak| (peak.memory, std::cmp::Reverse(peak.day)))
    }

    fn day(&self, day: Date) -> i64 {
        i64::from((day - self.first).get_days())
    }

    fn n_days(&self) -> i64 {
        self.day(self.last) + 1
    }

    /// Days without samples that follow each other: the first, and how many.
    fn gaps(&self) -> Vec<(i64, i64)> {
        let mut gaps = Vec::new();
        let mut next = 0;
        for day in self.peaks.iter().map(|peak| self.day(peak.day)).chain([self.n_days()]) {
            if day > next {
                gaps.push((next, day - next));
            }
            next = day + 1;
        }
        gaps
    }

    /// The line from day to day, with a break where days are missing; a day alone is a dot.
    fn path(&self, scale: &Scale) -> String {
        let mut path = String::new();
        let mut last = None;
        let mut alone = false;
        for peak in &self.peaks {
            let day = self.day(peak.day);
            let follows = last == Some(day - 1);
            if alone && !follows {
                path.push_str("h0");
            }
            let (x, y) = (tenths(scale.x(day)), tenths(scale.y(peak.memory)));
            path.push_str(&format!("{}{x} {y}", if follows { 'L' } else { 'M' }));
            (last, alone) = (Some(day), !follows);
        }
        path + if alone { "h0" } else { "" }
    }

    /// The lines of what it gets and of what it needs, each with its words on the right.
    fn draw_lines(&self, pen: &mut Pen, scale: &Scale) {
        let gets = if self.shared { "usable, shared" } else { "usable" };
        let mut lines = vec![("usable", self.usable, format!("{} {gets}", self.usable))];
        lines.extend(self.need.map(|need| ("need", need, format!("{need} with headroom"))));
        lines.sort_by_key(|(_, memory, _)| std::cmp::Reverse(*memory));
        let right = PLOT.x + PLOT.width;
        let mut free_from = 0;
        for (class, memory, said) in lines {
            let y = scale.y(memory);
            pen.path(class, &format!("M{} {}H{right}", PLOT.x, tenths(y)));
            let words = (y / 10 + 4).max(free_from);
            pen.text("who", Anchor::Start, (right + 8, words), &fit(&said, SIZE.0 - right - 8));
            free_from = words + APART;
            if class == "usable" {
                let share = if self.shared { self.share.clone() } else { format!("in {}", self.share) };
                let share = fit(&share, SIZE.0 - right - 8);
                pen.text("quiet", Anchor::Start, (right + 8, free_from), &share);
                free_from += APART;
            }
        }
    }

    fn described(&self, highest: Option<DayPeak>) -> String {
        let had = self.peaks.len();
        let asked = usize::try_from(self.n_days()).unwrap_or(had);
        let peak =
            highest.map_or_else(String::new, |peak| format!("The peak is {} on {}. ", peak.memory, peak.day));
        let need = self.need.map_or_else(String::new, |need| format!(" With headroom it needs {need}."));
        let with = if self.shared { ", which others use too" } else { "" };
        format!(
            "{had} of {} from {} to {} have samples. {peak}It gets {} with {} usable{with}.{need}",
            counted(asked, "day"),
            self.first,
            self.last,
            self.share,
            self.usable
        )
    }
}

/// From days and MiB to places, in tenths of a pixel.
struct Scale {
    first: Date,
    n_days: i64,
    step: u64,
    top: u64,
}

impl Scale {
    fn new(history: &History, highest: Option<DayPeak>) -> Self {
        let peak = highest.map_or(0, |peak| peak.memory.0);
        let most = peak.max(history.usable.0).max(history.need.unwrap_or_default().0).max(1);
        let tens = std::iter::successors(Some(1_u64), |ten| ten.checked_mul(10));
        let steps = tens.flat_map(|ten| [1, 2, 5].map(|n| ten.saturating_mul(n)));
        let step = steps.take_while(|step| *step < u64::MAX).find(|step| most / step < 5).unwrap_or(most);
        // The highest line is never the upper edge.
        Self {
            first: history.first,
            n_days: history.n_days().max(1),
            step,
            top: (most / step + 1).saturating_mul(step),
        }
    }

    /// The middle of a day.
    fn x(&self, day: i64) -> u32 {
        let tenths = i64::from(PLOT.width) * 10 * (2 * day + 1) / (2 * self.n_days);
        PLOT.x * 10 + u32::try_from(tenths).unwrap_or(0)
    }

    /// Where a day begins, in whole pixels.
    fn edge(&self, day: i64) -> u32 {
        PLOT.x + u32::try_from(i64::from(PLOT.width) * day / self.n_days).unwrap_or(0)
    }

    fn y(&self, memory: Mib) -> u32 {
        let height = u64::from(PLOT.height) * 10;
        let up = u128::from(height) * u128::from(memory.0.min(self.top)) / u128::from(self.top);
        PLOT.y * 10 + u32::try_from(u128::from(height) - up).unwrap_or(0)
    }

    /// Both axes, with their figures.
    fn draw(&self, pen: &mut Pen) {
        let bottom = PLOT.y + PLOT.height;
        for n in 0..=self.top / self.step {
            let memory = n * self.step;
            let y = self.y(Mib(memory));
            pen.path("grid", &format!("M{} {}h{}", PLOT.x, tenths(y), PLOT.width));
            pen.text("quiet", Anchor::End, (PLOT.x - 8, y / 10 + 4), &thousands(memory));
        }
        let from_date_to_date = (self.n_days + MOST_DATES - 1) / MOST_DATES;
        for day in (0..self.n_days).step_by(usize::try_from(from_date_to_date).unwrap_or(1)) {
            let x = self.x(day);
            pen.path("grid", &format!("M{} {bottom}v5", tenths(x)));
            let date = self.first.saturating_add(jiff::Span::new().days(day));
            pen.text("quiet", Anchor::Middle, (x / 10, bottom + 20), &date.to_string());
        }
        pen.text("quiet", Anchor::Middle, (PLOT.x + PLOT.width / 2, bottom + 42), "UTC day");
    }
}
