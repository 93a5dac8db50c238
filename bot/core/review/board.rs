//! Where each pool's proposal stands, for the one page that shows all of a repository's.

use super::lifecycle::Action;
use super::metadata::State;

/// A part of the page, in its order: what needs somebody comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// Nothing can be said or done until somebody puts something right.
    Problems,
    /// The branch is people's, or must not be merged as it is.
    WithPeople,
    /// To be reviewed.
    Open,
    /// Would be opened, and something holds it back: a limit, a freeze, metrics that are missing.
    Waiting,
    /// A person said no, or not now.
    Declined,
    /// The change is on the default branch.
    Merged,
    /// Nothing to propose.
    Nothing,
}

impl Section {
    /// All of them in the order of the page.
    pub const ALL: [Self; 7] = [
        Self::Problems,
        Self::WithPeople,
        Self::Open,
        Self::Waiting,
        Self::Declined,
        Self::Merged,
        Self::Nothing,
    ];

    /// Its heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Problems => "Problems",
            Self::WithPeople => "Needs a person",
            Self::Open => "Open",
            Self::Waiting => "Waiting",
            Self::Declined => "Declined",
            Self::Merged => "Merged",
            Self::Nothing => "Nothing to propose",
        }
    }

    /// A pool here may have a merge request that is worth a look.
    pub fn has_request(self) -> bool {
        self != Self::Nothing
    }
}

/// What is known of one pool after a pass.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    /// What was decided.
    pub action: &'a Action,
    /// The merge request was open before, and the bot's.
    pub was_open: bool,
    /// What the bot noted in the merge request before.
    pub state: Option<State>,
    /// There is something to propose.
    pub has_plan: bool,
    /// The repository's own configuration cannot be used.
    pub misconfigured: bool,
}

impl Standing<'_> {
    /// The bot's merge request is open after the action.
    pub fn is_open(&self) -> bool {
        match self.action {
            Action::Open { .. } => true,
            Action::Withdraw { .. } | Action::RecordMerged { .. } | Action::RecordDeclined { .. } => false,
            Action::Update { .. }
            | Action::Warn { .. }
            | Action::Leave { .. }
            | Action::StopEdited { .. } => self.was_open,
        }
    }
}

/// The part of the page that a pool belongs in.
pub fn section(standing: &Standing<'_>) -> Section {
    match standing.action {
        Action::Warn { .. } | Action::StopEdited { .. } => Section::WithPeople,
        Action::Open { .. } | Action::Update { .. } => Section::Open,
        Action::Withdraw { .. } => Section::Nothing,
        Action::RecordMerged { .. } => Section::Merged,
        Action::RecordDeclined { .. } => Section::Declined,
        Action::Leave { .. } if standing.misconfigured => Section::Problems,
        // Declined by a comment it waits for somebody to close it.
        Action::Leave { .. } if standing.was_open && standing.state != Some(State::Declined) => Section::Open,
        Action::Leave { .. } => match standing.state {
            Some(State::Declined) => Section::Declined,
            Some(State::Merged) => Section::Merged,
            _ if standing.has_plan => Section::Waiting,
            _ => Section::Nothing,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_somebody_comes_first_and_the_rest_where_it_belongs() {
        let leave = Action::Leave { reason: "r".into() };
        let standing =
            Standing { action: &leave, was_open: false, state: None, has_plan: false, misconfigured: false };
        assert_eq!(section(&standing), Section::Nothing);
        assert_eq!(section(&Standing { has_plan: true, ..standing }), Section::Waiting);
        assert_eq!(section(&Standing { was_open: true, ..standing }), Section::Open);
        assert_eq!(section(&Standing { was_open: true, misconfigured: true, ..standing }), Section::Problems);
        let declined = Standing { state: Some(State::Declined), has_plan: true, ..standing };
        assert_eq!(section(&declined), Section::Declined);
        assert_eq!(section(&Standing { was_open: true, ..declined }), Section::Declined);
        assert_eq!(section(&Standing { state: Some(State::Merged), ..standing }), Section::Merged);
        assert_eq!(section(&Standing { state: Some(State::Withdrawn), ..standing }), Section::Nothing);
        let edited = Action::StopEdited { commits: vec![], reason: "r".into(), way_back: "w".into() };
        assert_eq!(section(&Standing { action: &edited, was_open: true, ..standing }), Section::WithPeople);
        assert!(Standing { action: &edited, was_open: true, ..standing }.is_open());
        let withdraw = Action::Withdraw { reason: "r".into() };
        assert!(!Standing { action: &withdraw, was_open: true, ..standing }.is_open());
        assert!(Section::Problems < Section::WithPeople && Section::WithPeople < Section::Open);
    }
}
