//! `snooze`: silence until a day.

use jiff::ToSpan as _;
use jiff::civil::Date;

use super::{Command, Least, Spec};

/// Most days of silence. What was true three months ago is no evidence any more.
const MOST_DAYS: i32 = 90;

/// When a silence ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// After so many days.
    Days(i32),
    /// On this day, UTC.
    Day(Date),
}

impl Until {
    /// The day on which the bot speaks again.
    ///
    /// # Errors
    /// When it is past, or too far away.
    pub fn day(self, today: Date) -> Result<Date, String> {
        let day = match self {
            Self::Days(days) => today.checked_add(days.days()).map_err(|error| error.to_string())?,
            Self::Day(day) => day,
        };
        let away = today.until(day).map_or(i32::MAX, |span| span.get_days());
        match away {
            1..=MOST_DAYS => Ok(day),
            ..1 => Err(format!("{day} is not to come; today is {today}")),
            _ => Err(format!("{day} is more than {MOST_DAYS} days away")),
        }
    }
}

pub(super) const SPEC: Spec = Spec {
    verb: "snooze",
    aliases: &[],
    arguments: &[("for", "days, `14d`"), ("until", "day, `2026-12-24`")],
    least: Least::Write,
    does: "says and writes nothing until then",
    example: "snooze for=14d",
    read: |arguments| match (arguments.get("for"), arguments.get("until")) {
        (Some(days), None) => {
            let number = days.strip_suffix('d').and_then(|days| days.parse().ok());
            let number = number.filter(|number| (1..=MOST_DAYS).contains(number));
            let wrong = || format!("`{days}` is no number of days between `1d` and `{MOST_DAYS}d`");
            Ok(Command::Snooze(Until::Days(number.ok_or_else(wrong)?)))
        }
        (None, Some(day)) => {
            let wrong = |_| format!("`{day}` is no day, such as `2026-12-24`");
            Ok(Command::Snooze(Until::Day(day.parse().map_err(wrong)?)))
        }
        _ => Err("say how long: `for=14d` or `until=2026-12-24`".to_owned()),
    },
};

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    #[test]
    fn a_silence_ends_within_three_months() {
        let today = date(2026, 12, 1);
        assert_eq!(Until::Days(14).day(today), Ok(date(2026, 12, 15)));
        assert_eq!(Until::Day(date(2027, 3, 1)).day(today), Ok(date(2027, 3, 1)));
        assert!(Until::Day(date(2027, 3, 2)).day(today).unwrap_err().contains("more than 90 days"));
        assert!(Until::Day(today).day(today).unwrap_err().contains("not to come"));
        assert!(Until::Day(date(9999, 1, 1)).day(today).is_err());
    }
}
