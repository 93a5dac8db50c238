//! Lines of a text that GitLab does instead of showing them.

/// Actions that change a merge request, or say something to somebody.
const KNOWN: [&str; 34] = [
    "add_contacts",
    "approve",
    "assign",
    "assign_reviewer",
    "award",
    "clear_estimate",
    "close",
    "cc",
    "confidential",
    "copy_metadata",
    "done",
    "draft",
    "due",
    "duplicate",
    "estimate",
    "label",
    "lock",
    "merge",
    "milestone",
    "move",
    "ready",
    "reassign",
    "reassign_reviewer",
    "rebase",
    "relabel",
    "reopen",
    "request_review",
    "spend",
    "subscribe",
    "title",
    "todo",
    "unapprove",
    "unassign",
    "unlabel",
];

/// The lines that are done, outside of code.
pub(super) fn in_text(text: &str) -> Vec<String> {
    let mut fence: Option<&str> = None;
    let mut found = Vec::new();
    for line in text.lines() {
        let start = line.trim_start();
        match fence {
            Some(end) => {
                if start.starts_with(end) {
                    fence = None;
                }
                continue;
            }
            None => fence = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark)),
        }
        // Blanks before it do not help; four make it code.
        let indented = line.starts_with("    ") || line.starts_with('\t');
        let word = start.strip_prefix('/').map(|rest| {
            rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default()
        });
        if !indented && word.is_some_and(|word| KNOWN.contains(&word)) {
            found.push(line.to_owned());
        }
    }
    found
}

/// Whether a text is nothing but such lines.
pub(super) fn only(text: &str) -> bool {
    let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
    lines > 0 && in_text(text).len() == lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_done_where_gitlab_does_it() {
        assert_eq!(in_text("Hello\n/close\n/etc/hosts\n"), ["/close"]);
        assert_eq!(in_text("```\n/close\n```\n/merge"), ["/merge"]);
        assert!(in_text("see /close and `/merge`\n    /approve\n/unknown").is_empty());
        assert!(only("/close\n\n/label ~x") && !only("x\n/close") && !only(""));
    }
}
