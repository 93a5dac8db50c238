//! `set`: wishes that hold from now on.

use super::{Command, Least, Spec, wishes};

/// What reviewers may wish for. `default` takes a wish back.
pub(super) const ARGUMENTS: [(&str, &str); 6] = [
    ("headroom", "on top of the peak memory, `30%`"),
    ("method", "`mig`, `time-slicing`, `mps` or `keep`"),
    ("exclude", "number in the table, or `namespace/workload`"),
    ("min-profile", "smallest slice, `2g.10gb`"),
    ("goal", "`bill` or `capacity`"),
    ("max-replicas", "most pods on one card that takes turns"),
];

pub(super) const SPEC: Spec = Spec {
    verb: "set",
    aliases: &[],
    arguments: &ARGUMENTS,
    least: Least::Write,
    does: "notes a wish that holds for this pool from now on (`default` takes it back), and plans again",
    example: "set min-profile=2g.10gb goal=capacity",
    read: |arguments| {
        if arguments.is_empty() {
            return Err("say what to set: `set headroom=30%`".to_owned());
        }
        Ok(Command::Set(wishes(arguments, &[])?))
    },
};
