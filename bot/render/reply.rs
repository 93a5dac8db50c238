//! What the bot says beside a proposal: one short comment for each topic, edited in place.

use serde::Serialize;

use super::template::Templates;
use super::{Dialect, Onboarding, RenderError};

/// What there is to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The proposal is another one than it was.
    Updated {
        /// Why.
        reason: &'a str,
        /// Head of the branch before.
        before: &'a str,
        /// Head of the branch now.
        after: &'a str,
    },
    /// The branch stays, and must not be merged.
    Warned {
        /// Why.
        reason: &'a str,
    },
    /// The commit does what the plan says, and the plan holds.
    Supported {
        /// What supports it.
        reason: &'a str,
    },
    /// People changed the commit, so that nobody looked at what it does.
    Unchecked {
        /// What was found.
        reason: &'a str,
    },
    /// The bot closed it.
    Closed {
        /// Why.
        reason: &'a str,
    },
    /// A person wrote on the branch.
    Edited {
        /// What was found.
        reason: &'a str,
        /// How a person gives the branch back: "taking the commits off the branch".
        way_back: &'a str,
    },
    /// The repository's own configuration cannot be used.
    Misconfigured {
        /// What is wrong with it, with the place.
        problem: &'a str,
    },
}

#[derive(Default, Serialize)]
struct Page<'a> {
    reason: &'a str,
    before: &'a str,
    after: &'a str,
    way_back: &'a str,
    request: &'a str,
}

/// See [`super::reply`].
pub(super) fn reply(reply: &Reply<'_>, dialect: Dialect) -> Result<String, RenderError> {
    let page = Page { request: dialect.request(), ..Page::default() };
    let (name, page) = match *reply {
        Reply::Updated { reason, before, after } => {
            ("updated.md", Page { reason, before: short(before), after: short(after), ..page })
        }
        Reply::Warned { reason } => ("warned.md", Page { reason, ..page }),
        Reply::Supported { reason } => ("supported.md", Page { reason, ..page }),
        Reply::Unchecked { reason } => ("unchecked.md", Page { reason, ..page }),
        Reply::Closed { reason } => ("closed.md", Page { reason, ..page }),
        Reply::Misconfigured { problem } => ("misconfigured.md", Page { reason: problem, ..page }),
        Reply::Edited { reason, way_back } => ("edited.md", Page { reason, way_back, ..page }),
    };
    Templates::new()?.fill(name, &page)
}

/// See [`super::onboarding`].
pub(super) fn onboarding(onboarding: &Onboarding<'_>, dialect: Dialect) -> Result<String, RenderError> {
    let names: Vec<String> =
        onboarding.clusters.iter().map(|name| format!("`{}`", name.replace('`', ""))).collect();
    let clusters = format!("{} {}", if names.len() == 1 { "cluster" } else { "clusters" }, names.join(", "));
    let page = minijinja::context! {
        clusters,
        request => dialect.request(),
        file => onboarding.file,
        base_branch => onboarding.base_branch,
        max_open => onboarding.max_open,
        max_per_hour => onboarding.max_per_hour,
        has_hours => onboarding.has_hours,
    };
    Templates::new()?.fill("onboarding.md", &page)
}

fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_says_what_happened_and_what_a_person_can_do() {
        let (before, after) = ("1".repeat(40), "2".repeat(40));
        let updated = Reply::Updated { reason: "the plan changed", before: &before, after: &after };
        assert_eq!(
            reply(&updated, Dialect::GitHub).unwrap(),
            "**Updated:** the plan changed.\n\nThe branch was at `111111111111` and is at `222222222222` now; what was \
             said about the older commit, approvals included, may no longer hold."
        );
        let edited =
            Reply::Edited { reason: "a commit is not the bot's", way_back: "taking it off the branch" };
        let text = reply(&edited, Dialect::GitLab).unwrap();
        assert!(text.contains("**Give it back** by taking it off the branch"), "{text}");
        let closed = reply(&Reply::Closed { reason: "it is gone" }, Dialect::GitHub).unwrap();
        assert!(closed.contains("A new pull request comes"), "{closed}");
    }

    #[test]
    fn onboarding_says_what_merging_and_closing_do() {
        let view = Onboarding {
            clusters: vec!["dc1".into(), "dc`2".into()],
            file: ".slicewright.yaml",
            base_branch: "main",
            max_open: Some(3),
            max_per_hour: Some(2),
            has_hours: true,
        };
        crate::render::tests::snapshot("onboarding", &onboarding(&view, Dialect::GitHub).unwrap());
        let unlimited = Onboarding { max_open: None, max_per_hour: None, has_hours: false, ..view };
        let text = onboarding(&unlimited, Dialect::Local).unwrap();
        assert!(text.contains("until this merge request is merged") && !text.contains("At most"), "{text}");
    }

    #[test]
    fn strangers_words_are_only_words() {
        let reason = "/close\n@everyone <b>`x`</b> [a](http://evil)";
        for dialect in [Dialect::GitHub, Dialect::GitLab, Dialect::Local] {
            let text = reply(&Reply::Warned { reason }, dialect).unwrap();
            assert!(!text.lines().any(|line| line.starts_with('/')), "{text}");
            assert!(
                !text.contains("@everyone") && !text.contains("<b>") && !text.contains(" [a]("),
                "{text}"
            );
        }
    }
}
