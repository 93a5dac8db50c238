//! `help`: what can be asked for.

use super::{Command, Least, Spec};

pub(super) const SPEC: Spec = Spec {
    verb: "help",
    aliases: &[],
    arguments: &[],
    least: Least::Read,
    does: "lists what can be asked for",
    example: "help",
    read: |_| Ok(Command::Help),
};
