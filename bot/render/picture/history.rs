//! The highest memory of a workload, day by day, under the memory of the share that it gets.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use slicewright_core::plan::Item;
use slicewright_core::units::{Mib, counted, thousands};
use slicewright_core::usage::{DayPeak, WorkloadProfile};

use super::svg::{Anchor, Area, Pattern, Pen, Weight, fit, tenths, width};
use super::{Clothes, Room};
use crate::render::rows;

/// From one line of words to the next, in pixels.
const LINE: u32 = 16;
/// A figure on the left of the plot ends so far from it, and a word on its right begins so far from it.
const OFF: u32 = 8;
/// Length of the mark before the words of a line.
const MARK: u32 = 36;

/// Where things are, in pixels.
struct Frame {
    /// The area of the days: room for figures on its left.
    plot: Area,
    width: u32,
    /// Days with their date below, at most.
    most_dates: i64,
    /// What the lines mean stands below the plot; else on its right, beside each line.
    below: bool,
}

const WIDE: Frame =
    Frame { plot: Area { x: 64, y: 30, width: 640, height: 180 }, width: 960, most_dates: 8, below: false };
const NARROW: Frame =
    Frame { plot: Area { x: 56, y: 30, width: 284, height: 150 }, width: 341, most_dates: 4, below: true };

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
        let frame = match clothes.room() {
            Room::Wide => &WIDE,
            Room::Narrow => &NARROW,
        };
        let highest = self.highest();
        let scale = Scale::new(self, frame, highest);
        let mut pen = Pen::new(clothes);
        let unit = ": highest memory a day, MiB";
        let name = fit(&self.workload, frame.width.saturating_sub(width(unit, Weight::Bold)), Weight::Bold);
        pen.text("head", Anchor::Start, (0, 14), &format!("{name}{unit}"));
        scale.draw(&mut pen);
        for (first, days) in self.gaps() {
            draw_gap(&mut pen, &scale, first, days);
        }
        let bottom = self.draw_lines(&mut pen, &scale, highest);
        pen.path("peaks", &self.path(&scale));
        if let Some(peak) = highest {
            pen.circle("peak", (scale.x(self.day(peak.day)), scale.y(peak.memory)), 4);
        }
        let title = format!("Peak memory of {} a day", self.workload);
        pen.done((frame.width, bottom), &title, &self.described(highest))
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
    fn path(&self, scale: &Scale<'_>) -> String {
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

    /// The lines of what it gets and of what it needs; the words of these and of the peak, the highest first. Says
    /// where the picture ends.
    fn draw_lines(&self, pen: &mut Pen, scale: &Scale<'_>, highest: Option<DayPeak>) -> u32 {
        let (plot, frame) = (scale.frame.plot, scale.frame);
        let (right, axis_end) = (plot.x + plot.width, plot.y + plot.height + 46);
        let mark = if frame.below { plot.x - MARK - OFF } else { right + OFF };
        let words = mark + MARK + OFF;
        let mut free_from = if frame.below { axis_end + LINE } else { 0 };
        for Level { class, memory, said, of } in self.levels(highest) {
            let y = scale.y(memory);
            let at = if frame.below { free_from } else { (y / 10 + 4).max(free_from) };
            if class == "peak" {
                pen.circle(class, ((mark + MARK / 2) * 10, (at - 4) * 10), 4);
            } else {
                pen.path(class, &format!("M{} {}H{right}", plot.x, tenths(y)));
                pen.path(class, &format!("M{mark} {}h{MARK}", at - 4));
            }
            pen.text("who", Anchor::Start, (words, at), &fit(&said, frame.width - words, Weight::Plain));
            free_from = at + LINE;
            if !of.is_empty() {
                pen.text(
                    "quiet",
                    Anchor::Start,
                    (words, free_from),
                    &fit(of, frame.width - words, Weight::Plain),
                );
                free_from += LINE;
            }
        }
        axis_end.max(free_from)
    }

    /// What the words beside the plot are about, the highest first.
    fn levels(&self, highest: Option<DayPeak>) -> Vec<Level<'_>> {
        let gets = if self.shared { "usable, shared" } else { "usable" };
        let said = format!("{} {gets}", self.usable);
        let mut levels = vec![Level { class: "usable", memory: self.usable, said, of: &self.share }];
        levels.extend(self.need.map(|need| {
            let said = format!("{need} with headroom");
            Level { class: "need", memory: need, said, of: "" }
        }));
        levels.extend(highest.map(|peak| {
            let said = format!("{} peak on {}", peak.memory, peak.day);
            Level { class: "peak", memory: peak.memory, said, of: "" }
        }));
        levels.sort_by_key(|level| std::cmp::Reverse(level.memory));
        levels
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

/// A height with its words.
struct Level<'a> {
    class: &'static str,
    memory: Mib,
    said: String,
    /// What it is the memory of; may be empty.
    of: &'a str,
}

/// Days without samples: hatched, and told where there is room.
fn draw_gap(pen: &mut Pen, scale: &Scale<'_>, first: i64, days: i64) {
    let left = scale.edge(first);
    let area = Area { x: left, width: scale.edge(first + days) - left, ..scale.frame.plot };
    let days = counted(usize::try_from(days).unwrap_or(0), "day");
    pen.group("gap", &format!("{days} without samples"));
    pen.pattern(Pattern::Lines, area);
    let said = fit("no samples", area.width, Weight::Plain);
    if !said.is_empty() && !said.ends_with('…') {
        pen.text("who", Anchor::Middle, (area.x + area.width / 2, area.y + area.height / 2), &said);
    }
    pen.end();
}

/// From days and MiB to places, in tenths of a pixel.
struct Scale<'a> {
    frame: &'a Frame,
    first: Date,
    n_days: i64,
    step: u64,
    top: u64,
}

impl<'a> Scale<'a> {
    fn new(history: &History, frame: &'a Frame, highest: Option<DayPeak>) -> Self {
        let peak = highest.map_or(0, |peak| peak.memory.0);
        let most = peak.max(history.usable.0).max(history.need.unwrap_or_default().0).max(1);
        let tens = std::iter::successors(Some(1_u64), |ten| ten.checked_mul(10));
        let steps = tens.flat_map(|ten| [1, 2, 5].map(|n| ten.saturating_mul(n)));
        let step = steps.take_while(|step| *step < u64::MAX).find(|step| most / step < 5).unwrap_or(most);
        // The highest line is never the upper edge.
        Self {
            frame,
            first: history.first,
            n_days: history.n_days().max(1),
            step,
            top: (most / step + 1).saturating_mul(step),
        }
    }

    /// The middle of a day.
    fn x(&self, day: i64) -> u32 {
        let plot = self.frame.plot;
        let tenths = i64::from(plot.width) * 10 * (2 * day + 1) / (2 * self.n_days);
        plot.x * 10 + u32::try_from(tenths).unwrap_or(0)
    }

    /// Where a day begins, in whole pixels.
    fn edge(&self, day: i64) -> u32 {
        let plot = self.frame.plot;
        plot.x + u32::try_from(i64::from(plot.width) * day / self.n_days).unwrap_or(0)
    }

    fn y(&self, memory: Mib) -> u32 {
        let plot = self.frame.plot;
        let height = u64::from(plot.height) * 10;
        let up = u128::from(height) * u128::from(memory.0.min(self.top)) / u128::from(self.top);
        plot.y * 10 + u32::try_from(u128::from(height) - up).unwrap_or(0)
    }

    /// Both axes, with their figures.
    fn draw(&self, pen: &mut Pen) {
        let plot = self.frame.plot;
        let bottom = plot.y + plot.height;
        for n in 0..=self.top / self.step {
            let memory = n * self.step;
            let y = self.y(Mib(memory));
            pen.path("grid", &format!("M{} {}h{}", plot.x, tenths(y), plot.width));
            pen.text("quiet", Anchor::End, (plot.x - OFF, y / 10 + 4), &thousands(memory));
        }
        let from_date_to_date = (self.n_days + self.frame.most_dates - 1) / self.frame.most_dates;
        for day in (0..self.n_days).step_by(usize::try_from(from_date_to_date).unwrap_or(1)) {
            let x = self.x(day);
            pen.path("grid", &format!("M{} {bottom}v5", tenths(x)));
            let date = self.first.saturating_add(jiff::Span::new().days(day));
            pen.text("quiet", Anchor::Middle, (x / 10, bottom + 20), &date.to_string());
        }
        pen.text("quiet", Anchor::Middle, (plot.x + plot.width / 2, bottom + 42), "UTC day");
    }
}
