//! Observed proposal and plan to the next action.
