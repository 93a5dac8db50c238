//! `decline`: no.

use super::{Command, Least, Spec};

pub(super) const SPEC: Spec = Spec {
    verb: "decline",
    aliases: &[],
    arguments: &[("reason", "in quotes")],
    least: Least::Write,
    does: "notes that this is not wanted, and why; closing the request does the same",
    example: "decline reason=\"needs the whole card in spring\"",
    read: |arguments| {
        let reason = arguments.get("reason").map(|reason| reason.trim().to_owned());
        Ok(Command::Decline(reason.filter(|reason| !reason.is_empty())))
    },
};
