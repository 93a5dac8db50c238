//! What is said about a commit of a proposal where a forge shows whether it may be merged.

use super::lifecycle::{Action, Observed, Wanted};
use super::metadata::{Metadata, State};

/// Whether a commit may be merged, in one sentence without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does what the plan says, and the plan holds.
    Fine(String),
    /// Merging it would do harm.
    Harmful(String),
    /// People changed it: nobody but them knows what it does.
    Unchecked(String),
}

impl Verdict {
    /// The sentence.
    pub fn sentence(&self) -> &str {
        match self {
            Self::Fine(sentence) | Self::Harmful(sentence) | Self::Unchecked(sentence) => sentence,
        }
    }
}

/// What `action` says about the head of a proposal that the bot opened. `None`: nothing that was said about it before is
/// known to be wrong, or nothing is known.
///
/// `observed` is what was there before the action. Only a head that changes exactly what the plan changes is fine: neither
/// addresses on commits nor words in a text, which others can write, earn it that.
pub fn verdict(action: &Action, observed: &Observed, wanted: Option<&Wanted>) -> Option<Verdict> {
    let request = observed.request.as_ref().filter(|request| request.by_bot);
    let is_open = request.is_some_and(|request| request.open);
    let as_planned = |wanted: &&Wanted| {
        is_open && !observed.unrelated && !wanted.files.is_empty() && observed.files == wanted.files
    };
    match action {
        Action::Warn { reason } if is_open => Some(Verdict::Harmful(reason.clone())),
        Action::StopEdited { reason, .. } if is_open => Some(Verdict::Unchecked(reason.clone())),
        Action::Withdraw { reason } => request.map(|_| Verdict::Harmful(reason.clone())),
        Action::Open { push: true, .. } | Action::Update { push: true, .. } => wanted.map(fine),
        Action::Open { push: false, .. } => wanted.filter(|wanted| observed.files == wanted.files).map(fine),
        Action::Update { push: false, .. } => wanted.filter(as_planned).map(fine),
        Action::Leave { .. } => {
            let known = request.and_then(|request| Metadata::parse(&request.body));
            let same_plan = |wanted: &&Wanted| {
                known.is_some_and(|known| {
                    known.state == State::Open && known.fingerprint == wanted.fingerprint
                })
            };
            wanted.filter(as_planned).filter(same_plan).map(fine)
        }
        Action::Warn { .. }
        | Action::StopEdited { .. }
        | Action::RecordMerged { .. }
        | Action::RecordDeclined { .. } => None,
    }
}

fn fine(wanted: &Wanted) -> Verdict {
    let freed = match wanted.cards_freed {
        1 => "1 GPU".to_owned(),
        n => format!("{n} GPUs"),
    };
    Verdict::Fine(format!("the measurement supports it: frees {freed} by {}", wanted.method))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::review::lifecycle::ObservedRequest;
    use crate::review::metadata;

    fn wanted() -> Wanted {
        Wanted {
            title: "t".into(),
            body: "b".into(),
            fingerprint: metadata::example().fingerprint,
            files: BTreeMap::from([("a.yaml".into(), Some(b"new".to_vec()))]),
            method: "MIG".into(),
            cards_freed: 3,
            shares: BTreeMap::new(),
            outgrown: Vec::new(),
        }
    }

    fn observed(open: bool) -> Observed {
        let request = ObservedRequest {
            by_bot: true,
            open,
            title: "t".into(),
            body: metadata::example().attach("b", None),
            base_branch: Some("main".into()),
            approvals: 0,
            held: None,
            conflicted: false,
        };
        Observed { request: Some(request), files: wanted().files, ..Observed::default() }
    }

    fn leave() -> Action {
        Action::Leave { reason: "nothing differs".into() }
    }

    #[test]
    fn a_head_that_changes_what_the_plan_changes_is_fine_and_no_other() {
        let said = verdict(&leave(), &observed(true), Some(&wanted())).unwrap();
        assert_eq!(said, Verdict::Fine("the measurement supports it: frees 3 GPUs by MIG".into()));
        let one = Wanted { cards_freed: 1, ..wanted() };
        assert!(
            verdict(&leave(), &observed(true), Some(&one))
                .unwrap()
                .sentence()
                .ends_with("frees 1 GPU by MIG")
        );
        let none = |observed: &Observed, wanted: Option<&Wanted>| {
            assert_eq!(verdict(&leave(), observed, wanted), None);
        };
        none(&observed(true), None);
        none(&observed(false), Some(&wanted()));
        none(&observed(true), Some(&Wanted { fingerprint: "another".into(), ..wanted() }));
        none(&observed(true), Some(&Wanted { files: BTreeMap::new(), ..wanted() }));
        none(&Observed { files: BTreeMap::new(), ..observed(true) }, Some(&wanted()));
        none(&Observed { unrelated: true, ..observed(true) }, Some(&wanted()));
        let mut strange = observed(true);
        strange.request.as_mut().unwrap().by_bot = false;
        none(&strange, Some(&wanted()));
    }

    #[test]
    fn harm_and_doubt_are_said_about_the_bots_own_alone() {
        let warn = Action::Warn { reason: "too small".into() };
        assert_eq!(verdict(&warn, &observed(true), None), Some(Verdict::Harmful("too small".into())));
        let edited = Action::StopEdited { commits: vec![], reason: "r".into(), way_back: "w".into() };
        assert_eq!(verdict(&edited, &observed(true), Some(&wanted())), Some(Verdict::Unchecked("r".into())));
        assert_eq!(
            verdict(&edited, &Observed::default(), Some(&wanted())),
            None,
            "a branch of somebody else's"
        );
        assert_eq!(verdict(&edited, &observed(false), Some(&wanted())), None);
        let withdraw = Action::Withdraw { reason: "gone".into() };
        assert_eq!(verdict(&withdraw, &observed(true), None), Some(Verdict::Harmful("gone".into())));
    }
}
