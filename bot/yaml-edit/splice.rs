//! Replacements of byte ranges, and the line arithmetic that they need.

use std::ops::Range;

use crate::{Refusal, RefusalKind};

/// A range of the text and what goes there instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Splice {
    pub(crate) range: Range<usize>,
    pub(crate) text: String,
}

/// Applies `splices`; those at one place keep the order in which they were given.
pub(crate) fn apply(text: &str, splices: &[Splice]) -> Result<String, Refusal> {
    let mut sorted: Vec<&Splice> = splices.iter().collect();
    sorted.sort_by_key(|splice| (splice.range.start, splice.range.end));
    let grown: usize = splices.iter().map(|splice| splice.text.len()).sum();
    let mut out = String::with_capacity(text.len() + grown);
    let mut done = 0;
    for splice in sorted {
        let Some(kept) = text.get(done..splice.range.start) else {
            return Err(Refusal::at(
                RefusalKind::ResultDiffers,
                text,
                splice.range.start,
                "the parts of this change overlap",
            ));
        };
        out.push_str(kept);
        out.push_str(&splice.text);
        done = splice.range.end.max(done);
    }
    let Some(rest) = text.get(done..) else {
        return Err(Refusal::at(RefusalKind::ResultDiffers, text, done, "the change ends outside the text"));
    };
    out.push_str(rest);
    Ok(out)
}

/// Start of the line that `at` is on.
pub(crate) fn line_start(text: &str, at: usize) -> usize {
    text.get(..at).and_then(|before| before.rfind(['\n', '\r'])).map_or(0, |brk| brk + 1)
}

/// End of the line that `at` is on, before its line break.
pub(crate) fn line_end(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|rest| rest.find(['\n', '\r'])).map_or(text.len(), |found| at + found)
}

/// The line break at `at`: `\n`, `\r\n`, `\r`, or nothing at the end of the text.
pub(crate) fn break_at(text: &str, at: usize) -> &'static str {
    let rest = text.get(at..).unwrap_or_default();
    if rest.starts_with("\r\n") {
        "\r\n"
    } else if rest.starts_with('\n') {
        "\n"
    } else if rest.starts_with('\r') {
        "\r"
    } else {
        ""
    }
}

/// The line break that most lines of the text have; `\n` where it has none.
pub(crate) fn usual_break(text: &str) -> &'static str {
    let crlf = text.matches("\r\n").count();
    let lf = text.matches('\n').count() - crlf;
    if crlf > lf { "\r\n" } else { "\n" }
}

/// Adds whole lines below the line that `at` is on.
pub(crate) fn insert_below(text: &str, at: usize, lines: &[String]) -> Splice {
    let end = line_end(text, at);
    let brk = break_at(text, end);
    let mut added = String::new();
    if brk.is_empty() {
        let brk = usual_break(text);
        for line in lines {
            added.push_str(brk);
            added.push_str(line);
        }
    } else {
        for line in lines {
            added.push_str(line);
            added.push_str(brk);
        }
    }
    let place = end + brk.len();
    Splice { range: place..place, text: added }
}

/// Replaces the lines from the one that starts at `start` to the one that `last` is on; without `lines` they go,
/// and a text that had no line break at its end still has none.
pub(crate) fn replace_lines(text: &str, start: usize, last: usize, lines: &[String]) -> Splice {
    let end = line_end(text, last);
    let brk = break_at(text, end);
    if !lines.is_empty() {
        let brk = if brk.is_empty() { usual_break(text) } else { brk };
        return Splice { range: start..end, text: lines.join(brk) };
    }
    if !brk.is_empty() {
        return Splice { range: start..end + brk.len(), text: String::new() };
    }
    let before = text.get(..start).unwrap_or_default();
    let from = before.strip_suffix('\n').map_or(before, |cut| cut.strip_suffix('\r').unwrap_or(cut));
    let from = if from.len() == before.len() { before.strip_suffix('\r').unwrap_or(before) } else { from };
    Splice { range: from.len()..end, text: String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_last_line_takes_the_break_before_it() {
        let splice = replace_lines("a\r\nb", 3, 3, &[]);
        assert_eq!(apply("a\r\nb", &[splice]).unwrap(), "a");
        let splice = replace_lines("a\nb\n", 2, 2, &[]);
        assert_eq!(apply("a\nb\n", &[splice]).unwrap(), "a\n");
    }

    #[test]
    fn overlapping_splices_are_refused() {
        let splices =
            [Splice { range: 0..2, text: String::new() }, Splice { range: 1..3, text: String::new() }];
        assert_eq!(apply("abcd", &splices).unwrap_err().kind, RefusalKind::ResultDiffers);
    }
}
