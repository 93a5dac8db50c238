//! Days on which nothing of a pool may be proposed or pushed.
//!
//! Pure arithmetic of days in a time zone: the moment is handed in, and time zones come with the program, so that a
//! run repeated elsewhere decides alike.

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use jiff::civil::{Date, Weekday};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use serde::{Deserialize, Serialize};

/// Windows that follow on each other without a gap are joined up to this many, some eight years of weekends and weeks
/// in turn. Doubled, nothing changes but the time that it takes to say "without an end".
const MOST_JOINED: usize = 800;

/// One window: either from a day to a day, or the same weekdays every week.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Freeze {
    /// First day.
    pub from: Option<Day>,
    /// Last day.
    pub to: Option<Day>,
    /// Weekdays, every week: `[fri, sat, sun]`.
    pub weekly: BTreeSet<DayOfWeek>,
    /// Where the days begin and end, `Europe/Berlin`. Default: UTC.
    pub time_zone: Option<Zone>,
    /// Why, for people.
    pub reason: Option<String>,
}

/// A day of the calendar, written `2026-12-20`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(pub Date);

/// A day of the week, written `mon` or `monday`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names of the days say it")]
pub enum DayOfWeek {
    #[serde(alias = "monday")]
    Mon,
    #[serde(alias = "tuesday")]
    Tue,
    #[serde(alias = "wednesday")]
    Wed,
    #[serde(alias = "thursday")]
    Thu,
    #[serde(alias = "friday")]
    Fri,
    #[serde(alias = "saturday")]
    Sat,
    #[serde(alias = "sunday")]
    Sun,
}

/// A time zone by its IANA name, `Europe/Berlin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

/// A window of a pool, and the layer of the configuration that it stands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The window.
    pub freeze: Freeze,
    /// `service`, `cluster dc1`, `pool a100-40gb`.
    pub place: String,
}

/// A pool is frozen now. Displays as `frozen until 2027-01-05 (holidays; pool a100-40gb)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// First moment at which no window holds. `None`: years away, if it comes at all.
    pub until: Option<Timestamp>,
    /// Time zone of the window that ends last.
    zone: Option<Zone>,
    /// The windows that hold now: reason and place.
    why: Vec<String>,
}

impl Freeze {
    /// The first value that cannot be meant, as setting and what is wrong with it.
    ///
    /// # Errors
    /// A window without days or with both kinds, an end before its start, all seven weekdays.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let wrong = |setting, problem: &str| Err((setting, problem.to_owned()));
        match (self.from, self.to, self.weekly.len()) {
            (None, None, 0) => wrong("from", "says no day: give `from` and `to`, or `weekly: [sat, sun]`"),
            (None, None, 7) => wrong("weekly", "freezes every day: use `policy: {exclude: true}` for that"),
            (None, None, _) => Ok(()),
            (Some(_), None, 0) => wrong("to", "give the last day too: `to: 2027-01-04`"),
            (None, Some(_), 0) => wrong("from", "give the first day too: `from: 2026-12-20`"),
            (Some(from), Some(to), 0) if to < from => {
                Err(("to", format!("{to} is before {from}: `from` is the first day, `to` the last")))
            }
            (Some(_), Some(_), 0) => Ok(()),
            _ => wrong("weekly", "give either `from` and `to` or `weekly`: a window each"),
        }
    }

    /// The end of the window's run of days that `at` is in. `None`: `at` is in none.
    fn holds_until(&self, at: Timestamp) -> Option<Timestamp> {
        let zone = self.zone();
        let today = zone.to_datetime(at).date();
        let after = match (self.from, self.to) {
            (Some(Day(from)), Some(Day(to))) => (from..=to).contains(&today).then(|| to.tomorrow().ok())?,
            _ => {
                let frozen = |day: Date| self.weekly.contains(&DayOfWeek::of(day));
                frozen(today).then(|| {
                    // Of seven days in a row one is free, unless the week is frozen as a whole.
                    std::iter::successors(today.tomorrow().ok(), |day| day.tomorrow().ok())
                        .take(7)
                        .find(|day| !frozen(*day))
                })?
            }
        };
        let start_of = |day: Date| day.to_zoned_datetime(zone.clone()).ok().map(|start| start.timestamp());
        Some(after.and_then(start_of).unwrap_or(Timestamp::MAX))
    }

    fn zone(&self) -> TimeZone {
        self.time_zone.as_ref().map_or(TimeZone::UTC, Zone::get)
    }
}

impl Zone {
    pub(crate) fn get(&self) -> TimeZone {
        self.0.clone()
    }
}

impl fmt::Display for Freeze {
    /// `2026-12-20 to 2027-01-04`, `fri, sat, sun Europe/Berlin`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.from, self.to) {
            (Some(from), Some(to)) => write!(f, "{from} to {to}")?,
            _ => {
                let days: Vec<&str> = self.weekly.iter().map(|day| day.name()).collect();
                f.write_str(&days.join(", "))?;
            }
        }
        self.time_zone.as_ref().map_or(Ok(()), |zone| write!(f, " {zone}"))
    }
}

/// Whether one of these windows holds at `at`, and until when; windows that follow on each other count as one.
pub fn held(windows: &[Window], at: Timestamp) -> Option<Hold> {
    let covering = |at: Timestamp| {
        windows.iter().filter_map(move |window| Some((window.freeze.holds_until(at)?, window)))
    };
    let now: Vec<_> = covering(at).collect();
    let (mut until, mut last) = now.iter().copied().max_by_key(|(until, _)| *until)?;
    let mut joined = 0;
    while let Some((later, window)) = covering(until).max_by_key(|(later, _)| *later) {
        (until, last) = (later, window);
        joined += 1;
        if joined >= MOST_JOINED || later == Timestamp::MAX {
            break;
        }
    }
    Some(Hold {
        until: (joined < MOST_JOINED && until < Timestamp::MAX).then_some(until),
        zone: last.freeze.time_zone.clone(),
        why: now
            .iter()
            .map(|(_, window)| match &window.freeze.reason {
                Some(reason) => format!("{reason}; {}", window.place),
                None => window.place.clone(),
            })
            .collect(),
    })
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zone = self.zone.as_ref();
        let day = |at: Timestamp| zone.map_or(&TimeZone::UTC, |zone| &zone.0).to_datetime(at).date();
        match (self.until, zone) {
            (None, _) => write!(f, "frozen without an end")?,
            (Some(until), None) => write!(f, "frozen until {}", day(until))?,
            (Some(until), Some(zone)) => write!(f, "frozen until {} {zone}", day(until))?,
        }
        write!(f, " ({})", self.why.join("), ("))
    }
}

impl DayOfWeek {
    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mon => "mon",
            Self::Tue => "tue",
            Self::Wed => "wed",
            Self::Thu => "thu",
            Self::Fri => "fri",
            Self::Sat => "sat",
            Self::Sun => "sun",
        }
    }

    pub(crate) fn of(day: Date) -> Self {
        match day.weekday() {
            Weekday::Monday => Self::Mon,
            Weekday::Tuesday => Self::Tue,
            Weekday::Wednesday => Self::Wed,
            Weekday::Thursday => Self::Thu,
            Weekday::Friday => Self::Fri,
            Weekday::Saturday => Self::Sat,
            Weekday::Sunday => Self::Sun,
        }
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Day {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Day {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // jiff takes a time behind the day too, and would leave it out.
        text.parse::<Date>().ok().filter(|day| day.to_string() == text).map(Self).ok_or_else(|| {
            serde::de::Error::custom(format!("`{text}` is no day of the calendar: write it like 2026-12-20"))
        })
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.iana_name().unwrap_or("UTC"))
    }
}

impl Serialize for Zone {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Zone {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        TimeZoneDatabase::bundled().get(&text).map(Self).map_err(|_| {
            serde::de::Error::custom(format!(
                "`{text}` is no time zone: write it as the IANA database does, like Europe/Berlin"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn freeze(value: serde_json::Value) -> Freeze {
        serde_json::from_value(value).unwrap()
    }

    fn windows(freezes: &[serde_json::Value]) -> Vec<Window> {
        let window =
            |value: &serde_json::Value| Window { freeze: freeze(value.clone()), place: "pool a".into() };
        freezes.iter().map(window).collect()
    }

    /// What is said at `at`; empty when nothing holds.
    fn said(freezes: &[serde_json::Value], at: &str) -> String {
        held(&windows(freezes), at.parse().unwrap()).map_or_else(String::new, |hold| hold.to_string())
    }

    fn holidays() -> serde_json::Value {
        json!({"from": "2026-12-20", "to": "2027-01-04", "reason": "holidays"})
    }

    #[test]
    fn both_days_of_a_window_belong_to_it() {
        let frozen = "frozen until 2027-01-05 (holidays; pool a)";
        for (at, expected) in [
            ("2026-12-19T23:59:59Z", ""),
            ("2026-12-20T00:00:00Z", frozen),
            ("2027-01-04T23:59:59Z", frozen),
            ("2027-01-05T00:00:00Z", ""),
        ] {
            assert_eq!(said(&[holidays()], at), expected, "{at}");
        }
    }

    #[test]
    fn weekdays_come_back_every_week() {
        let weekend = json!({"weekly": ["fri", "saturday", "sun"]});
        // 2026-12-03 is a Thursday.
        assert_eq!(said(std::slice::from_ref(&weekend), "2026-12-03T23:59:59Z"), "");
        for at in ["2026-12-04T00:00:00Z", "2026-12-06T12:00:00Z"] {
            assert_eq!(said(std::slice::from_ref(&weekend), at), "frozen until 2026-12-07 (pool a)", "{at}");
        }
        assert_eq!(said(&[weekend], "2026-12-07T00:00:00Z"), "");
    }

    #[test]
    fn days_begin_where_the_time_zone_says() {
        let berlin = json!({"from": "2026-07-01", "to": "2026-07-01", "time_zone": "Europe/Berlin"});
        // Summer time: two hours before UTC. In winter it is one.
        for (at, expected) in [
            ("2026-06-30T21:59:59Z", ""),
            ("2026-06-30T22:00:00Z", "frozen until 2026-07-02 Europe/Berlin (pool a)"),
            ("2026-07-01T21:59:59Z", "frozen until 2026-07-02 Europe/Berlin (pool a)"),
            ("2026-07-01T22:00:00Z", ""),
        ] {
            assert_eq!(said(std::slice::from_ref(&berlin), at), expected, "{at}");
        }
        let winter = json!({"from": "2026-12-20", "to": "2026-12-20", "time_zone": "Europe/Berlin"});
        let hold = held(&windows(&[winter]), "2026-12-20T12:00:00Z".parse().unwrap()).unwrap();
        assert_eq!(hold.until, Some("2026-12-20T23:00:00Z".parse().unwrap()));
    }

    #[test]
    fn windows_that_follow_on_each_other_count_as_one() {
        // 2027-01-05 is a Tuesday.
        let next = json!({"from": "2027-01-05", "to": "2027-01-07", "reason": "stocktaking"});
        let weekend = json!({"weekly": ["fri", "sat", "sun"], "reason": "weekend"});
        let all = [holidays(), next, weekend];
        assert_eq!(said(&all, "2027-01-04T12:00:00Z"), "frozen until 2027-01-11 (holidays; pool a)");
        assert_eq!(
            said(&all, "2027-01-03T12:00:00Z"),
            "frozen until 2027-01-11 (holidays; pool a), (weekend; pool a)"
        );
    }

    #[test]
    fn windows_that_leave_no_day_have_no_end() {
        let halves =
            [json!({"weekly": ["mon", "tue", "wed"]}), json!({"weekly": ["thu", "fri", "sat", "sun"]})];
        assert_eq!(said(&halves, "2026-12-06T12:00:00Z"), "frozen without an end (pool a)");
        let long = json!({"from": "2026-01-01", "to": "9999-12-31"});
        assert_eq!(said(&[long], "2026-12-06T12:00:00Z"), "frozen without an end (pool a)");
    }

    #[test]
    fn windows_that_cannot_be_meant_are_refused() {
        for (value, setting, said) in [
            (json!({}), "from", "says no day"),
            (json!({"from": "2026-12-20"}), "to", "give the last day too"),
            (json!({"to": "2026-12-20"}), "from", "give the first day too"),
            (
                json!({"from": "2026-12-20", "to": "2026-12-19"}),
                "to",
                "2026-12-19 is before 2026-12-20: `from` is the first day",
            ),
            (json!({"from": "2026-12-20", "to": "2026-12-21", "weekly": ["mon"]}), "weekly", "give either"),
            (json!({"from": "2026-12-20", "weekly": ["mon"]}), "weekly", "give either"),
            (
                json!({"weekly": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]}),
                "weekly",
                "freezes every day",
            ),
        ] {
            let (at, problem) = freeze(value).check().unwrap_err();
            assert_eq!(at, setting, "{problem}");
            assert!(problem.contains(said), "{problem}");
        }
        assert_eq!(freeze(holidays()).check(), Ok(()));
        assert_eq!(freeze(json!({"from": "2026-12-20", "to": "2026-12-20"})).check(), Ok(()));
    }

    #[test]
    fn days_and_zones_that_there_are_not_are_named() {
        for (value, said) in [
            (
                json!({"from": "2026-02-30"}),
                "`2026-02-30` is no day of the calendar: write it like 2026-12-20",
            ),
            (json!({"from": "20.12.2026"}), "`20.12.2026` is no day of the calendar"),
            (json!({"from": "2026-12-20T18:00:00"}), "`2026-12-20T18:00:00` is no day of the calendar"),
            (json!({"weekly": ["freitag"]}), "unknown variant `freitag`"),
            (json!({"time_zone": "Europe/Berlim"}), "`Europe/Berlim` is no time zone"),
        ] {
            let error = serde_json::from_value::<Freeze>(value).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_window_reads_as_its_days() {
        assert_eq!(freeze(holidays()).to_string(), "2026-12-20 to 2027-01-04");
        let weekend = freeze(json!({"weekly": ["sun", "fri"], "time_zone": "Asia/Tokyo"}));
        assert_eq!(weekend.to_string(), "fri, sun Asia/Tokyo");
    }

    #[test]
    fn a_window_is_written_as_it_is_read() {
        let written = serde_json::to_value(freeze(holidays())).unwrap();
        assert_eq!(freeze(written), freeze(holidays()));
        let zone = freeze(json!({"weekly": ["sun"], "time_zone": "europe/berlin"}));
        assert_eq!(serde_json::to_value(&zone).unwrap()["time_zone"], "Europe/Berlin");
    }
}
