//! `regenerate`: plan again.

use super::{Command, Least, Spec, set, wishes};

pub(super) const SPEC: Spec = Spec {
    verb: "regenerate",
    aliases: &["replan"],
    arguments: &ARGUMENTS,
    least: Least::Write,
    does: "measures and plans again, with these wishes besides those that hold",
    example: "regenerate headroom=30% method=mig exclude=search/ranker",
    read: |arguments| {
        let discard_edits = match arguments.get("discard-edits") {
            None => false,
            Some(&"yes") => true,
            Some(other) => {
                return Err(format!("`discard-edits={other}`: only `discard-edits=yes` means anything"));
            }
        };
        Ok(Command::Regenerate { wishes: wishes(arguments, &["discard-edits"])?, discard_edits })
    },
};

const ARGUMENTS: [(&str, &str); set::ARGUMENTS.len() + 1] = {
    let mut all = [("discard-edits", "`yes`: drop the commits that people made on the branch");
        set::ARGUMENTS.len() + 1];
    let mut n = 0;
    while n < set::ARGUMENTS.len() {
        all[n] = set::ARGUMENTS[n];
        n += 1;
    }
    all
};
