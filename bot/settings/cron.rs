//! Moments in a time zone, as `croner` asks for them: it knows `jiff` 0.2, and this program uses 1.0.

use std::cmp::Ordering;

use croner::errors::CronError;
use croner::{CivilDateTime, CronDateTime, Resolution, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};

/// A moment, and where its clock is.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    pub(super) at: Timestamp,
    pub(super) zone: TimeZone,
}

impl Moment {
    fn clock(&self) -> jiff::civil::DateTime {
        self.zone.to_datetime(self.at)
    }

    fn same_zone(&self, at: Timestamp) -> Self {
        Self { at, zone: self.zone.clone() }
    }
}

impl CronDateTime for Moment {
    fn to_civil(&self) -> CivilDateTime {
        let clock = self.clock();
        let part = |part: i8| u32::from(part.unsigned_abs());
        CivilDateTime::new(
            croner::CivilDate::from_parts_unchecked(
                i32::from(clock.year()),
                part(clock.month()),
                part(clock.day()),
            ),
            croner::CivilTime::from_parts_unchecked(
                part(clock.hour()),
                part(clock.minute()),
                part(clock.second()),
            ),
        )
    }

    fn civil_weekday(&self) -> Weekday {
        let day = self.clock().weekday().to_sunday_zero_offset();
        Weekday::from_days_from_sunday(u32::from(day.unsigned_abs()))
    }

    fn resolve_civil(&self, civil: CivilDateTime) -> Result<Resolution<Self>, CronError> {
        let part = |part: u32| i8::try_from(part).map_err(|_| CronError::InvalidDate);
        let clock = jiff::civil::DateTime::new(
            i16::try_from(civil.year()).map_err(|_| CronError::InvalidDate)?,
            part(civil.month())?,
            part(civil.day())?,
            part(civil.hour())?,
            part(civil.minute())?,
            part(civil.second())?,
            0,
        )
        .map_err(|_| CronError::InvalidDate)?;
        let moment = |offset: jiff::tz::Offset| {
            offset.to_timestamp(clock).map(|at| self.same_zone(at)).map_err(|_| CronError::InvalidTime)
        };
        Ok(match self.zone.to_ambiguous_timestamp(clock).offset() {
            AmbiguousOffset::Unambiguous { offset } => Resolution::Single(moment(offset)?),
            AmbiguousOffset::Fold { before, after } => Resolution::Ambiguous(moment(before)?, moment(after)?),
            AmbiguousOffset::Gap { .. } => Resolution::Gap,
        })
    }

    fn checked_add_seconds(&self, seconds: i64) -> Option<Self> {
        Some(self.same_zone(self.at.checked_add(SignedDuration::from_secs(seconds)).ok()?))
    }

    fn cmp_instant(&self, other: &Self) -> Ordering {
        self.at.cmp(&other.at)
    }
}
