//! `resume`: go on.

use super::{Command, Least, Spec};

pub(super) const SPEC: Spec = Spec {
    verb: "resume",
    aliases: &["unpause"],
    arguments: &[],
    least: Least::Write,
    does: "takes back a pause, a snooze or a decline",
    example: "resume",
    read: |_| Ok(Command::Resume),
};
