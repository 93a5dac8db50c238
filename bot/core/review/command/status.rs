//! `status`: where the proposal stands.

use super::{Command, Least, Spec};

pub(super) const SPEC: Spec = Spec {
    verb: "status",
    aliases: &[],
    arguments: &[],
    least: Least::Read,
    does: "says where the proposal stands, when the bot last looked, and what holds it",
    example: "status",
    read: |_| Ok(Command::Status),
};
