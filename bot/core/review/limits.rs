//! How many proposals may be open, how many may be made in an hour, and in which hours.
//!
//! Counted from what the forge shows, so that a restart forgets nothing. Proposals that are there already are not the
//! question: they are updated, closed and recorded at any time.

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::civil::Time;
use serde::{Deserialize, Serialize};

use crate::policy::freeze::{DayOfWeek, Zone};
use crate::units::counted;

/// Limits of one repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Proposals that are open at once. `None`: no limit.
    pub max_open: Option<u32>,
    /// Proposals that are made in an hour. `None`: no limit.
    pub max_per_hour: Option<u32>,
    /// Hours in which new ones are made. None: at any time.
    pub hours: Vec<Hours>,
    /// Hours of somebody else that must hold as well. Filled by [`Limits::narrowed`].
    #[serde(skip)]
    pub and_hours: Vec<Hours>,
}

/// Hours of some weekdays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hours {
    /// Weekdays, `[mon, tue]`. None: every day.
    pub days: BTreeSet<DayOfWeek>,
    /// First minute, `08:00`. Default: midnight.
    pub from: Option<Time>,
    /// First minute after, `17:30`. Default: midnight.
    pub to: Option<Time>,
    /// Where the clock hangs, `Europe/Berlin`. Default: UTC.
    pub time_zone: Option<Zone>,
}

/// What a repository has now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Open proposals of the bot.
    pub n_open: u32,
    /// When each was made, open or not, as far as it is known.
    pub made: Vec<Timestamp>,
}

/// Whether something was done within an hour of now. What lies further ahead was noted by a clock that was wrong, or by
/// somebody who would like the bot to wait forever.
pub fn within_an_hour(then: Timestamp, now: Timestamp) -> bool {
    now.duration_since(then).as_secs().unsigned_abs() < 3_600
}

impl Limits {
    /// The limits of a repository that others look after too: three open, two new in an hour.
    pub fn shared() -> Self {
        Self { max_open: Some(3), max_per_hour: Some(2), ..Self::default() }
    }

    /// These, and those of `other` where nothing is said here.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self {
            max_open: self.max_open.or(other.max_open),
            max_per_hour: self.max_per_hour.or(other.max_per_hour),
            hours: if self.hours.is_empty() { other.hours.clone() } else { self.hours.clone() },
            and_hours: self.and_hours.clone(),
        }
    }

    /// These and `other` at once: of two limits the lower holds, and of two lists of hours both.
    #[must_use]
    pub fn narrowed(&self, other: &Self) -> Self {
        let lower = |one: Option<u32>, another: Option<u32>| one.into_iter().chain(another).min();
        Self {
            max_open: lower(self.max_open, other.max_open),
            max_per_hour: lower(self.max_per_hour, other.max_per_hour),
            hours: self.hours.clone(),
            and_hours: other.hours.clone(),
        }
    }

    /// The first value that cannot be meant, as setting and what is wrong with it.
    ///
    /// # Errors
    /// A limit of nothing; hours that end before they start.
    pub fn check(&self) -> Result<(), (String, String)> {
        for (setting, most) in [("max_open", self.max_open), ("max_per_hour", self.max_per_hour)] {
            if most == Some(0) {
                let problem = "is 0, so that nothing could ever be proposed: use `freeze` for a pause";
                return Err((setting.to_owned(), problem.to_owned()));
            }
        }
        for (i, hours) in self.hours.iter().enumerate() {
            let (from, to) = (hours.from.unwrap_or(Time::midnight()), hours.to.unwrap_or(Time::midnight()));
            if to != Time::midnight() && to <= from {
                let problem = format!(
                    "{} is not after {}: for hours over midnight give one entry for each day",
                    to.strftime("%H:%M"),
                    from.strftime("%H:%M")
                );
                return Err((format!("hours[{i}].to"), problem));
            }
        }
        Ok(())
    }

    /// Why no new proposal may be made now, if so. `asked`: a person asked for this one, which passes the counts and not
    /// the hours.
    pub fn forbid(&self, standing: &Standing, at: Timestamp, asked: bool) -> Option<String> {
        let outside = |hours: &[Hours]| !hours.is_empty() && !hours.iter().any(|hours| hours.holds(at));
        if outside(&self.hours) || outside(&self.and_hours) {
            return Some("new proposals are made in the configured hours only".to_owned());
        }
        if asked {
            return None;
        }
        if let Some(most) = self.max_open.filter(|most| standing.n_open >= *most) {
            let open = counted(standing.n_open as usize, "open proposal");
            return Some(format!("there is room for {most} in this repository, and it has {open}"));
        }
        let recent = standing.made.iter().filter(|made| within_an_hour(**made, at));
        let n_recent = u32::try_from(recent.count()).unwrap_or(u32::MAX);
        self.max_per_hour.filter(|most| n_recent >= *most).map(|most| {
            let made = counted(n_recent as usize, "new proposal");
            format!("at most {most} are made in an hour, and the last hour had {made}")
        })
    }
}

impl Hours {
    fn holds(&self, at: Timestamp) -> bool {
        let now = self.time_zone.as_ref().map_or(jiff::tz::TimeZone::UTC, Zone::get).to_datetime(at);
        let day = self.days.is_empty() || self.days.contains(&DayOfWeek::of(now.date()));
        let from = self.from.unwrap_or(Time::midnight());
        let before = self.to.filter(|to| *to != Time::midnight()).is_none_or(|to| now.time() < to);
        day && now.time() >= from && before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn counts_hold_back_and_a_persons_wish_passes_them() {
        let limits = Limits::shared();
        let now = at("2026-03-02T10:00:00Z");
        let standing =
            |n_open, made: &[&str]| Standing { n_open, made: made.iter().map(|text| at(text)).collect() };
        assert_eq!(limits.forbid(&standing(2, &[]), now, false), None);
        let three = standing(3, &[]);
        assert_eq!(
            limits.forbid(&three, now, false).unwrap(),
            "there is room for 3 in this repository, and it has 3 open proposals"
        );
        assert_eq!(limits.forbid(&three, now, true), None);
        let two = standing(0, &["2026-03-02T09:00:01Z", "2026-03-02T09:59:00Z"]);
        assert!(
            limits
                .forbid(&two, now, false)
                .unwrap()
                .contains("at most 2 are made in an hour, and the last hour had 2 new proposals")
        );
        let earlier = standing(0, &["2026-03-02T09:00:00Z", "2026-03-02T09:59:00Z"]);
        assert_eq!(limits.forbid(&earlier, now, false), None);
        assert_eq!(Limits::default().forbid(&standing(99, &[]), now, false), None);
    }

    #[test]
    fn what_a_wrong_clock_noted_holds_nothing_back() {
        let limits = Limits::shared();
        let now = at("2026-03-02T10:00:00Z");
        let made = vec![at("2036-03-02T10:00:00Z"); 5];
        assert_eq!(limits.forbid(&Standing { n_open: 0, made }, now, false), None);
    }

    #[test]
    fn hours_hold_for_everybody() {
        let limits = Limits {
            hours: vec![Hours {
                days: [DayOfWeek::Mon, DayOfWeek::Tue].into(),
                from: Some(jiff::civil::time(8, 0, 0, 0)),
                to: Some(jiff::civil::time(17, 30, 0, 0)),
                time_zone: Some(serde_json::from_str("\"Europe/Berlin\"").unwrap()),
            }],
            ..Limits::default()
        };
        let open = |text: &str| limits.forbid(&Standing::default(), at(text), true).is_none();
        // Monday, in winter an hour before UTC.
        assert!(!open("2026-03-02T06:59:00Z") && open("2026-03-02T07:00:00Z"));
        assert!(open("2026-03-02T16:29:00Z") && !open("2026-03-02T16:30:00Z"));
        assert!(!open("2026-03-04T10:00:00Z"), "Wednesday");
    }

    #[test]
    fn of_two_limits_the_lower_holds_and_of_hours_both() {
        let hours = |from| Hours { from: Some(jiff::civil::time(from, 0, 0, 0)), ..Hours::default() };
        let one = Limits { max_open: Some(3), hours: vec![hours(8)], ..Limits::default() };
        let other =
            Limits { max_open: Some(5), max_per_hour: Some(1), hours: vec![hours(10)], ..Limits::default() };
        let both = one.narrowed(&other);
        assert_eq!((both.max_open, both.max_per_hour), (Some(3), Some(1)));
        let open = |limits: &Limits, text| limits.forbid(&Standing::default(), at(text), true).is_none();
        assert!(open(&one, "2026-03-02T09:00:00Z") && !open(&both, "2026-03-02T09:00:00Z"));
        assert!(open(&both, "2026-03-02T10:00:00Z"));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let zero = Limits { max_open: Some(0), ..Limits::default() };
        assert_eq!(zero.check().unwrap_err().0, "max_open");
        let (from, to) = (Some(jiff::civil::time(18, 0, 0, 0)), Some(jiff::civil::time(6, 0, 0, 0)));
        let night = Limits { hours: vec![Hours { from, to, ..Hours::default() }], ..Limits::default() };
        assert_eq!(night.check().unwrap_err().0, "hours[0].to");
        assert!(Limits::shared().check().is_ok());
    }
}
