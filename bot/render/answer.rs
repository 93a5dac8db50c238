//! What the bot answers to commands.

use serde_json::{Value, json};
use slicewright_core::review::command::{COMMANDS, Least, Spec};

use super::template::Templates;
use super::{Dialect, RenderError};

/// An answer to a command.
#[derive(Clone, Copy, Debug)]
pub enum Answer<'a> {
    /// What can be asked for.
    Help {
        /// What people mention, without the `@`.
        handle: &'a str,
    },
    /// Nothing was done.
    Refused {
        /// The command, or the line that is none.
        line: &'a str,
        /// Why, in half a sentence.
        why: &'a str,
        /// The verb that may have been meant.
        nearest: Option<&'a str>,
        /// What people mention, without the `@`.
        handle: &'a str,
    },
    /// Where the proposal stands.
    Standing {
        /// One fact a line.
        lines: &'a [String],
    },
    /// What was done.
    Obeyed {
        /// The command.
        command: &'a str,
        /// Who asked, by name.
        by: &'a str,
        /// What it did, in half a sentence.
        what: &'a str,
        /// Head of the branch before and after, where it moved.
        moved: Option<[&'a str; 2]>,
        /// Everything that was asked for so far and holds.
        wishes: &'a [String],
    },
    /// Every candidate of a workload.
    Why {
        /// The workload, `namespace/name`.
        workload: &'a str,
        /// One entry for each of that name.
        found: &'a [Explained],
    },
    /// Every workload of the pool in a line.
    WhyAll {
        /// The workloads.
        rows: &'a [Brief],
        /// What people mention, without the `@`.
        handle: &'a str,
    },
}

/// What is known of a workload, as text.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Explained {
    /// Where it stands: `pool a100-40gb`.
    pub place: String,
    /// The text, for a terminal.
    pub text: String,
}

/// A workload in a line.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Brief {
    /// Its number in the proposal's table; empty where it has none.
    pub number: String,
    /// `namespace/name`.
    pub workload: String,
    /// What it gets or keeps.
    pub verdict: String,
    /// The reason that decides, if there is one.
    pub why: String,
}

/// Most rows of an answer.
const MOST_ROWS: usize = 100;

/// See [`super::answer`].
pub(super) fn answer(answer: &Answer<'_>, dialect: Dialect) -> Result<String, RenderError> {
    let templates = Templates::new()?;
    match *answer {
        Answer::Help { handle } => {
            let commands: Vec<_> = COMMANDS.iter().map(|spec| row(spec)).collect();
            templates.fill("help.md", &json!({ "commands": commands, "trigger": format!("@{handle}") }))
        }
        Answer::Refused { line, why, nearest, handle } => templates.fill(
            "refused.md",
            &json!({ "line": line, "why": why, "nearest": nearest, "help": format!("@{handle} help") }),
        ),
        Answer::Standing { lines } => {
            templates.fill("standing.md", &json!({ "lines": lines, "request": dialect.request() }))
        }
        Answer::Obeyed { command, by, what, moved, wishes } => {
            let short = |id: &str| id.get(..12).unwrap_or(id).to_owned();
            let moved = moved.map(|heads| heads.map(short).to_vec());
            templates.fill(
                "obeyed.md",
                &json!({ "command": command, "by": by, "what": what, "moved": moved, "wishes": wishes }),
            )
        }
        Answer::Why { workload, found } => {
            templates.fill("why.md", &json!({ "workload": workload, "found": found }))
        }
        Answer::WhyAll { rows, handle } => {
            let more = rows.len().saturating_sub(MOST_ROWS);
            let rows = &rows[..rows.len() - more];
            let ask = format!("@{handle} why item=namespace/workload");
            templates.fill("why-all.md", &json!({ "rows": rows, "more": more, "ask": ask }))
        }
    }
}

fn row(spec: &Spec) -> Value {
    let arguments: Vec<String> =
        spec.arguments.iter().map(|(key, takes)| format!("`{key}=` {takes}")).collect();
    let least = match spec.least {
        Least::Read => "whoever may read",
        Least::Write => "whoever may push",
    };
    json!({ "example": spec.example, "least": least, "does": spec.does, "arguments": arguments })
}

#[cfg(test)]
mod tests {
    use slicewright_core::review::command::{Parsed, parse};

    use super::*;

    /// The bot must not answer itself.
    #[test]
    fn no_answer_gives_a_command() {
        let rows = [Brief {
            number: "1".into(),
            workload: "search/ranker".into(),
            verdict: "MIG slice 2g.10gb".into(),
            why: String::new(),
        }];
        let found =
            [Explained { place: "pool a".into(), text: "x\n@slicewright pause\nslicewright pause\n".into() }];
        let lines = ["it is open".to_owned(), "slicewright pause".to_owned()];
        let wishes = ["headroom=30%".to_owned()];
        let hostile = "slicewright pause";
        for one in [
            Answer::Help { handle: "slicewright" },
            Answer::Refused {
                line: hostile,
                why: "no\nslicewright pause",
                nearest: Some("pause"),
                handle: "slicewright",
            },
            Answer::Standing { lines: &lines },
            Answer::Obeyed {
                command: "regenerate headroom=30%",
                by: "kim",
                what: "it frees 1 GPU instead of 2",
                moved: Some(["1111111111111111", "2222222222222222"]),
                wishes: &wishes,
            },
            Answer::Obeyed { command: hostile, by: hostile, what: hostile, moved: None, wishes: &[] },
            Answer::Why { workload: "search/ranker", found: &found },
            Answer::WhyAll { rows: &rows, handle: "slicewright" },
        ] {
            for dialect in [Dialect::GitHub, Dialect::GitLab, Dialect::Local] {
                let text = answer(&one, dialect).unwrap();
                assert_eq!(parse(&text, "slicewright"), Parsed::Nothing, "{text}");
                assert!(text.lines().all(|line| !line.starts_with('/')), "{text}");
            }
        }
    }

    #[test]
    fn help_names_every_command_and_every_argument() {
        let text = answer(&Answer::Help { handle: "gpu-bot" }, Dialect::GitLab).unwrap();
        for spec in COMMANDS {
            assert!(text.contains(&format!("`@gpu-bot {}`", spec.example)), "{}: {text}", spec.verb);
            assert!(spec.arguments.iter().all(|(key, _)| text.contains(&format!("`{key}=`"))), "{text}");
        }
    }

    #[test]
    fn what_was_done_says_who_asked_and_where_the_branch_was() {
        let text = answer(
            &Answer::Obeyed {
                command: "regenerate headroom=30%",
                by: "kim",
                what: "it frees 1 GPU instead of 2",
                moved: Some(["1111111111111111", "2222222222222222"]),
                wishes: &["headroom=30%".to_owned()],
            },
            Dialect::GitHub,
        )
        .unwrap();
        assert_eq!(
            text,
            "**Done:** `regenerate headroom=30%`, as `kim` asked: it frees 1 GPU instead of 2.\n\n\
             The branch was at `111111111111` and is at `222222222222` now; what was said about the older commit, approvals included, may no longer hold.\n\n\
             Asked for so far: `headroom=30%`. `set` with `default` as a value takes one back."
        );
    }
}
