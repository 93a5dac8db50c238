//! `why`: why a workload gets what it gets.

use super::{Command, Least, Spec};
use crate::review::overrides::Item;

pub(super) const SPEC: Spec = Spec {
    verb: "why",
    aliases: &["explain"],
    arguments: &[("item", "number in the table, or `namespace/workload`")],
    least: Least::Read,
    does: "shows every candidate of a workload with its numbers",
    example: "why item=search/ranker",
    read: |arguments| Ok(Command::Why(arguments.get("item").map(|item| Item::parse(item)).transpose()?)),
};
