//! What is said about a commit of a proposal where a forge shows whether it may be merged.

use super::lifecycle::{Action, Wanted};

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

/// What `action` says about the head of a proposal that is the bot's and open afterwards. `None`: nothing that was said
/// before is known to be wrong.
pub fn verdict(action: &Action, wanted: Option<&Wanted>) -> Option<Verdict> {
    match action {
        Action::Warn { reason } => Some(Verdict::Harmful(reason.clone())),
        Action::StopEdited { reason, .. } => Some(Verdict::Unchecked(reason.clone())),
        // A branch that is left alone does what it did, unless that is too little by now.
        Action::Open { .. } | Action::Update { .. } | Action::Leave { .. } => {
            let wanted = wanted.filter(|wanted| wanted.outgrown.is_empty())?;
            let freed = match wanted.cards_freed {
                1 => "1 GPU".to_owned(),
                n => format!("{n} GPUs"),
            };
            Some(Verdict::Fine(format!("the measurement supports it: frees {freed} by {}", wanted.method)))
        }
        Action::Withdraw { .. } | Action::RecordMerged { .. } | Action::RecordDeclined { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> Wanted {
        Wanted {
            title: "t".into(),
            body: "b".into(),
            fingerprint: "f".into(),
            files: Default::default(),
            method: "MIG".into(),
            cards_freed: 3,
            shares: Default::default(),
            outgrown: Vec::new(),
        }
    }

    #[test]
    fn only_what_the_plan_supports_is_fine() {
        let leave = Action::Leave { reason: "nothing differs".into() };
        let said = verdict(&leave, Some(&wanted())).unwrap();
        assert_eq!(said, Verdict::Fine("the measurement supports it: frees 3 GPUs by MIG".into()));
        let one = Wanted { cards_freed: 1, ..wanted() };
        assert!(verdict(&leave, Some(&one)).unwrap().sentence().ends_with("frees 1 GPU by MIG"));
        assert_eq!(verdict(&leave, None), None, "nothing was measured that could be held against it");
        let outgrown = Wanted { outgrown: vec!["search/ranker".into()], ..wanted() };
        assert_eq!(verdict(&leave, Some(&outgrown)), None);
        let warn = Action::Warn { reason: "too small".into() };
        assert_eq!(verdict(&warn, Some(&outgrown)), Some(Verdict::Harmful("too small".into())));
        let edited = Action::StopEdited { commits: vec![], reason: "r".into(), way_back: "w".into() };
        assert_eq!(verdict(&edited, Some(&wanted())), Some(Verdict::Unchecked("r".into())));
        assert_eq!(verdict(&Action::Withdraw { reason: "gone".into() }, None), None);
    }
}
