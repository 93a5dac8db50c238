//! What a command changes in what the bot notes about a proposal.
//!
//! Nothing else of a command stays: the proposal is planned again from what is noted.

use jiff::civil::Date;

use super::command::Command;
use super::metadata::Metadata;
use super::overrides::{Item, Overrides, Wishes};

/// Most bytes of all wishes as they are noted, some 50 workloads with names of usual length. A block that is read has 16,384;
/// the shares of 1,000 workloads take 12,000, and these as base64 3,400. Doubled, the two would not fit together.
const MOST_BYTES: usize = 2_500;

/// How an asked pass differs from one that comes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Bring it up to date, approved or not.
    Regenerate {
        /// Also where people wrote on the branch.
        discard_edits: bool,
    },
    /// Put it on what the base branch is now, whatever changed there.
    Rebase,
}

impl Command {
    /// How the pass that this command asks for differs. `None`: it asks for none.
    pub fn asks(&self) -> Option<Asked> {
        match self {
            Self::Regenerate { discard_edits, .. } => {
                Some(Asked::Regenerate { discard_edits: *discard_edits })
            }
            Self::Set(_) | Self::Resume => Some(Asked::Regenerate { discard_edits: false }),
            Self::Rebase => Some(Asked::Rebase),
            Self::Help | Self::Status | Self::Why(_) | Self::Snooze(_) | Self::Decline(_) | Self::Pause => {
                None
            }
        }
    }

    /// What this command wishes.
    pub fn wishes(&self) -> Option<&Wishes> {
        match self {
            Self::Regenerate { wishes, .. } | Self::Set(wishes) => Some(wishes),
            Self::Help
            | Self::Status
            | Self::Why(_)
            | Self::Rebase
            | Self::Snooze(_)
            | Self::Decline(_)
            | Self::Pause
            | Self::Resume => None,
        }
    }

    /// It is about what stands on the branch: it holds only while that is what its author saw.
    pub fn is_about_the_head(&self) -> bool {
        match self {
            Self::Regenerate { .. } | Self::Set(_) | Self::Rebase | Self::Decline(_) => true,
            Self::Help | Self::Status | Self::Why(_) | Self::Snooze(_) | Self::Pause | Self::Resume => false,
        }
    }

    /// What is noted about the proposal after this command, of which `known` was noted before. `numbered` are the workloads
    /// of the table in its text, `namespace/name`; `None` where nobody knows which text the author saw.
    ///
    /// # Errors
    /// Why it cannot be done, for its author.
    pub fn noted(
        &self,
        known: &Metadata,
        numbered: Option<&[String]>,
        today: Date,
    ) -> Result<Metadata, String> {
        let mut noted = known.clone();
        match self {
            Self::Help | Self::Status | Self::Why(_) | Self::Rebase => {}
            Self::Regenerate { wishes, .. } | Self::Set(wishes) => {
                let mut wishes = wishes.clone();
                let exclude = wishes.overrides.exclude.iter();
                wishes.overrides.exclude =
                    exclude.map(|item| named(item, numbered)).collect::<Result<_, _>>()?;
                noted.overrides.merge(wishes);
                check(&noted.overrides)?;
            }
            Self::Snooze(until) => noted.snoozed_until = Some(until.day(today)?),
            Self::Pause => noted.paused = true,
            Self::Decline(reason) => {
                noted.declined_on = Some(today);
                noted.reason.clone_from(reason);
            }
            Self::Resume => {
                if known.silence(today).is_none() {
                    return Err("it is neither paused, nor snoozed, nor declined".to_owned());
                }
                (noted.paused, noted.snoozed_until, noted.declined_on, noted.reason) =
                    (false, None, None, None);
            }
        }
        Ok(noted)
    }
}

impl Metadata {
    /// What a person asked for that keeps the bot silent, if that still holds.
    pub fn silence(&self, today: Date) -> Option<String> {
        if let Some(day) = self.declined_on {
            return Some(format!("it was declined on {day}"));
        }
        if self.paused {
            return Some("it is paused".to_owned());
        }
        self.snoozed_until.filter(|until| *until > today).map(|until| format!("it is snoozed until {until}"))
    }
}

/// The workload that an item stands for, by its name.
///
/// # Errors
/// Why its number says nothing.
pub fn named(item: &Item, numbered: Option<&[String]>) -> Result<Item, String> {
    let Item::Number(number) = item else { return Ok(item.clone()) };
    let Some(numbered) = numbered else {
        return Err(format!(
            "the table that number {number} is from is not that of today's plan: name it as `namespace/workload`"
        ));
    };
    let place = usize::try_from(*number).ok().and_then(|number| number.checked_sub(1));
    match place.and_then(|place| numbered.get(place)) {
        Some(name) => Item::parse(name),
        None => Err(format!("there is no number {number}: the table has {} workloads", numbered.len())),
    }
}

fn check(overrides: &Overrides) -> Result<(), String> {
    let bytes: usize = overrides.shown().iter().map(|wish| wish.len() + 1).sum();
    if bytes <= MOST_BYTES {
        return Ok(());
    }
    Err(format!(
        "the {} workloads that comments took out are more than can be noted here: annotate them with \
         `slicewright/ignore: \"true\"` instead",
        overrides.exclude.len()
    ))
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::super::command::{Parsed, parse};
    use super::super::metadata::example;
    use super::super::shares::Shares;
    use super::*;

    const TODAY: Date = date(2026, 3, 2);

    fn command(line: &str) -> Command {
        match parse(&format!("slicewright {line}"), "slicewright") {
            Parsed::Commands(commands) => commands[0].clone(),
            other @ (Parsed::Nothing | Parsed::Refused(_)) => panic!("{line}: {other:?}"),
        }
    }

    fn noted(line: &str, known: &Metadata) -> Result<Metadata, String> {
        command(line).noted(known, Some(&["search/ranker".to_owned(), "docs/ocr".to_owned()]), TODAY)
    }

    #[test]
    fn what_is_asked_for_is_noted_and_nothing_else() {
        let known = example();
        for line in ["help", "status", "why", "why item=1", "rebase", "regenerate"] {
            assert_eq!(noted(line, &known).as_ref(), Ok(&known), "{line}");
        }
        assert!(noted("pause", &known).unwrap().paused);
        assert_eq!(noted("snooze for=14d", &known).unwrap().snoozed_until, Some(date(2026, 3, 16)));
        let declined = noted("decline reason=\"not now\"", &known).unwrap();
        assert_eq!((declined.declined_on, declined.reason.as_deref()), (Some(TODAY), Some("not now")));
        for silent in [declined, noted("pause", &known).unwrap(), noted("snooze for=1d", &known).unwrap()] {
            assert_eq!(noted("resume", &silent).as_ref(), Ok(&known));
        }
        assert!(noted("resume", &known).unwrap_err().contains("neither paused"));
        let over = Metadata { snoozed_until: Some(TODAY), ..known };
        assert!(noted("resume", &over).is_err(), "a snooze that is over is none");
    }

    #[test]
    fn numbers_stand_for_the_workloads_of_the_table_that_was_seen() {
        let known = example();
        let got = noted("set exclude=2 headroom=30%", &known).unwrap();
        assert_eq!(got.overrides.shown(), ["headroom=30%", "exclude=docs/ocr"]);
        assert!(noted("set exclude=3", &known).unwrap_err().contains("no number 3: the table has 2"));
        let unknown = command("regenerate exclude=1").noted(&known, None, TODAY);
        assert!(unknown.unwrap_err().contains("name it as `namespace/workload`"));
        let back = noted("regenerate exclude=default", &got).unwrap();
        assert_eq!(back.overrides.shown(), ["headroom=30%"]);
    }

    #[test]
    fn a_block_has_room_for_what_can_be_noted() {
        let shares = (0..1_000).map(|n| (format!("search/ranker-{n}"), "2g.10gb".to_owned())).collect();
        let mut known = Metadata { shares: Shares::of(&shares), ..example() };
        let refused =
            (0..100).find_map(|n| match noted(&format!("set exclude=\"{}/n{n}\"", "n".repeat(63)), &known) {
                Ok(more) => {
                    known = more;
                    None
                }
                Err(why) => Some((n, why)),
            });
        let (n, why) = refused.expect("not everything can be noted");
        assert!(n > 30 && why.contains("slicewright/ignore"), "{n}: {why}");
        known.reason = Some("\"".repeat(256));
        let text = known.attach("text", None);
        assert!(Metadata::parse(&text).is_some(), "{}", text.len());
    }
}
