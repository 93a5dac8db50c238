//! The forge as GitLab shows it.

use serde_json::json;

use super::state::State;
use super::{Call, Reply};

/// Answers one call; what breaks a rule of GitLab's is added to `broken`.
pub(crate) fn answer(_state: &mut State, call: &Call, broken: &mut Vec<String>) -> Reply {
    broken.push(format!("{} {}: no such endpoint", call.method, call.path));
    Reply::json(404, &json!({"message": "Not Found"}))
}
