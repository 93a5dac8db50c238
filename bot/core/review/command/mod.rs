//! What people write to the bot in comments.
//!
//! A closed set of verbs on lines of their own. What a command does is the question of `engine`; who may give it is
//! asked from the forge when it is carried out.

mod grammar;
mod lines;

mod decline;
mod help;
mod pause;
mod rebase;
mod regenerate;
mod resume;
mod set;
mod snooze;
mod status;
mod why;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use snooze::Until;

use super::overrides::{Item, Wishes};

/// Most commands in one comment.
const MOST_COMMANDS: usize = 3;

/// Characters of a line that are shown again.
const LONGEST_SHOWN: usize = 80;

/// Letters that a mistyped verb may be off.
const MOST_TYPOS: usize = 2;

/// What a person asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// What can be asked for.
    Help,
    /// Where the proposal stands.
    Status,
    /// Why a workload gets what it gets; `None`: all of them, in short.
    Why(Option<Item>),
    /// Plan again, with these wishes besides those that hold.
    Regenerate {
        /// Wishes.
        wishes: Wishes,
        /// Also where people wrote on the branch: their commits go.
        discard_edits: bool,
    },
    /// The same change on what the base branch is now.
    Rebase,
    /// Wishes that hold from now on.
    Set(Wishes),
    /// Say nothing until then.
    Snooze(Until),
    /// No, for this reason.
    Decline(Option<String>),
    /// Write nothing more until `resume`.
    Pause,
    /// Take back a pause, a snooze or a decline.
    Resume,
}

/// Least that somebody must be allowed to in the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Least {
    /// To read it.
    Read,
    /// To write to it.
    Write,
}

/// One verb: what is shown about it, and how it is read.
pub struct Spec {
    /// The verb.
    pub verb: &'static str,
    /// Other words for it.
    pub aliases: &'static [&'static str],
    /// What it takes: key, and what the value may be.
    pub arguments: &'static [(&'static str, &'static str)],
    /// Who may.
    pub least: Least,
    /// What it does, as half a sentence.
    pub does: &'static str,
    /// An example without the trigger.
    pub example: &'static str,
    /// Reads the arguments, whose keys are among `arguments`.
    read: fn(&BTreeMap<&str, &str>) -> Result<Command, String>,
}

/// Every verb, in the order in which people should read them.
pub const COMMANDS: [&Spec; 10] = [
    &help::SPEC,
    &status::SPEC,
    &why::SPEC,
    &regenerate::SPEC,
    &rebase::SPEC,
    &set::SPEC,
    &snooze::SPEC,
    &decline::SPEC,
    &pause::SPEC,
    &resume::SPEC,
];

impl Command {
    /// Its verb with all that is known of it.
    pub fn spec(&self) -> &'static Spec {
        match self {
            Self::Help => &help::SPEC,
            Self::Status => &status::SPEC,
            Self::Why(_) => &why::SPEC,
            Self::Regenerate { .. } => &regenerate::SPEC,
            Self::Rebase => &rebase::SPEC,
            Self::Set(_) => &set::SPEC,
            Self::Snooze(_) => &snooze::SPEC,
            Self::Decline(_) => &decline::SPEC,
            Self::Pause => &pause::SPEC,
            Self::Resume => &resume::SPEC,
        }
    }
}

impl std::fmt::Display for Command {
    /// As a person could have written it, on one line, without the trigger.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.spec().verb)?;
        let wishes = self.wishes().into_iter().flat_map(Wishes::shown);
        wishes.into_iter().try_for_each(|wish| write!(f, " {wish}"))?;
        match self {
            Self::Regenerate { discard_edits: true, .. } => f.write_str(" discard-edits=yes"),
            Self::Why(Some(item)) => write!(f, " item={item}"),
            Self::Snooze(Until::Days(days)) => write!(f, " for={days}d"),
            Self::Snooze(Until::Day(day)) => write!(f, " until={day}"),
            Self::Decline(Some(reason)) => write!(f, " reason=\"{reason}\""),
            Self::Help
            | Self::Status
            | Self::Why(None)
            | Self::Regenerate { .. }
            | Self::Rebase
            | Self::Set(_)
            | Self::Decline(None)
            | Self::Pause
            | Self::Resume => Ok(()),
        }
    }
}

/// What a comment asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Parsed {
    /// It does not speak to the bot.
    #[default]
    Nothing,
    /// These, in order.
    Commands(Vec<Command>),
    /// Something in it cannot be meant, so that none of it is done.
    Refused(Refusal),
}

/// Why nothing of a comment is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The line, cut.
    pub line: String,
    /// What is wrong with it.
    pub why: String,
    /// The verb that may be meant.
    pub nearest: Option<&'static str>,
}

/// Reads a comment. `handle` is what people mention, without the `@`; `slicewright` and `/slicewright` always work.
pub fn parse(comment: &str, handle: &str) -> Parsed {
    let mut commands = Vec::new();
    for line in lines::lines(comment) {
        let Some(said) = grammar::read(line, handle) else { continue };
        match understood(&said) {
            None => {}
            Some(Ok(_)) if commands.len() == MOST_COMMANDS => {
                let why = format!("there are more than {MOST_COMMANDS} commands in one comment");
                return Parsed::Refused(Refusal { line: cut(line), why, nearest: None });
            }
            Some(Ok(command)) => commands.push(command),
            Some(Err((why, nearest))) => {
                return Parsed::Refused(Refusal { line: cut(line), why, nearest });
            }
        }
    }
    if commands.is_empty() { Parsed::Nothing } else { Parsed::Commands(commands) }
}

type Understood = Result<Command, (String, Option<&'static str>)>;

/// The command of a line; `None` where it is a sentence that begins with the bot's name.
fn understood(said: &grammar::Said<'_>) -> Option<Understood> {
    let verb = said.verb.to_ascii_lowercase();
    let known = COMMANDS.iter().find(|spec| spec.verb == verb || spec.aliases.contains(&verb.as_str()));
    let Some(spec) = known else {
        said.arguments.as_ref().ok()?;
        let nearest = nearest(&verb);
        if nearest.is_none() && !said.is_addressed {
            return None;
        }
        return Some(Err(("there is no such command".to_owned(), nearest)));
    };
    let arguments = match &said.arguments {
        Ok(arguments) => arguments,
        Err(_) if !said.is_addressed => return None,
        Err(why) => return Some(Err((why.clone(), None))),
    };
    let takes = |key: &str| spec.arguments.iter().any(|(known, _)| *known == key);
    if let Some(unknown) = arguments.iter().find(|one| !takes(one.key)) {
        let known: Vec<_> = spec.arguments.iter().map(|(key, _)| format!("`{key}`")).collect();
        let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
        return Some(Err((format!("`{}` takes {known}, and not `{}`", spec.verb, unknown.key), None)));
    }
    let arguments = arguments.iter().map(|one| (one.key, one.value)).collect();
    Some((spec.read)(&arguments).map_err(|why| (why, None)))
}

/// The verb that differs least, if it does by few letters.
fn nearest(word: &str) -> Option<&'static str> {
    let distances = COMMANDS.iter().map(|spec| (distance(word, spec.verb), spec.verb));
    // Of a word of three letters, two wrong ones leave nothing.
    let most = MOST_TYPOS.min(word.chars().count().saturating_sub(2));
    distances.filter(|(distance, _)| *distance <= most).min().map(|(_, verb)| verb)
}

/// Letters to change, add or leave out (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(64).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

fn cut(line: &str) -> String {
    if line.chars().count() <= LONGEST_SHOWN {
        return line.to_owned();
    }
    line.chars().take(LONGEST_SHOWN - 1).chain(['…']).collect()
}

/// Reads the wishes among the arguments; other keys are the caller's.
fn wishes(arguments: &BTreeMap<&str, &str>, others: &[&str]) -> Result<Wishes, String> {
    let mut wishes = Wishes::default();
    for (key, value) in arguments.iter().filter(|(key, _)| !others.contains(*key)) {
        wishes.set(key, value)?;
    }
    Ok(wishes)
}
