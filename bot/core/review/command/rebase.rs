//! `rebase`: the same change on a newer base.

use super::{Command, Least, Spec};

pub(super) const SPEC: Spec = Spec {
    verb: "rebase",
    aliases: &[],
    arguments: &[],
    least: Least::Write,
    does: "makes the same change on what the base branch is now",
    example: "rebase",
    read: |_| Ok(Command::Rebase),
};
