//! The one place that prints: results to standard output, everything else to standard error.

use std::io::Write as _;

/// Standard output and standard error.
pub(super) struct Out {
    stdout: std::io::Stdout,
    stderr: std::io::Stderr,
}

impl Out {
    pub(super) fn new() -> Self {
        Self { stdout: std::io::stdout(), stderr: std::io::stderr() }
    }

    /// A piece of the result, ended by a line break. A reader that has gone away ends the program quietly.
    pub(super) fn line(&mut self, text: &str) -> anyhow::Result<()> {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let written = writeln!(self.stdout, "{text}").and_then(|()| self.stdout.flush());
        match written {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
            written => Ok(written?),
        }
    }

    /// A remark that is not part of the result.
    pub(super) fn note(&mut self, text: &str) {
        // Nothing can be done when standard error is closed.
        let _ = writeln!(self.stderr, "{text}");
    }

    /// An error with its whole chain of causes, and what to do where a cause says so.
    pub(super) fn error(&mut self, error: &anyhow::Error) {
        let mut text = format!("error: {error}");
        for cause in error.chain().skip(1) {
            text.push_str(&format!("\n  because: {cause}"));
        }
        if let Some(advice) = crate::engine::way_out(error) {
            text.push_str(&format!("\n  way out: {advice}"));
        }
        self.note(&text);
    }
}
