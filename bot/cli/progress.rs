//! How far a measurement is: a bar on a terminal, plain lines now and then elsewhere.

use std::sync::atomic::{AtomicU32, Ordering};

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::engine::Progress;

/// Plain lines are printed for every tenth of the way.
const TENTHS: u32 = 10;

/// Shows progress on standard error.
pub(super) enum Bar {
    /// A terminal.
    Drawn(ProgressBar),
    /// A log or a pipe; remembers the last tenth that was told.
    Plain(AtomicU32),
    /// Nobody.
    Silent,
}

impl Bar {
    pub(super) fn new() -> Self {
        if !Term::stderr().is_term() {
            return Self::Plain(AtomicU32::new(u32::MAX));
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {wide_msg}") {
            bar.set_style(style);
        }
        Self::Drawn(bar)
    }

    /// Says nothing: for runs that ask no server.
    pub(super) fn silent() -> Self {
        Self::Silent
    }

    /// Takes the bar off the screen.
    pub(super) fn done(&self) {
        if let Self::Drawn(bar) = self {
            bar.finish_and_clear();
        }
    }
}

impl Progress for Bar {
    fn step(&self, done: u32, total: u32, text: &str) {
        match self {
            Self::Drawn(bar) => {
                bar.set_length(u64::from(total));
                bar.set_position(u64::from(done));
                bar.set_message(text.to_owned());
            }
            Self::Plain(last) => {
                let tenth = done * TENTHS / total.max(1);
                if last.swap(tenth, Ordering::Relaxed) != tenth {
                    super::out::Out::new().note(&format!("{done} of {total} steps done; {text}"));
                }
            }
            Self::Silent => {}
        }
    }
}
