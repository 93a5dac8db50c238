//! `pause`: write nothing more.

use super::{Command, Least, Spec};

pub(super) const SPEC: Spec = Spec {
    verb: "pause",
    aliases: &[],
    arguments: &[],
    least: Least::Write,
    does: "writes nothing more here until `resume`",
    example: "pause",
    read: |_| Ok(Command::Pause),
};
