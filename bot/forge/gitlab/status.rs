//! What is said about a commit: its status, which GitLab shows as a pipeline of its own.

use serde_json::json;

use super::client::judged;
use super::{GitLab, dto, endpoints};
use crate::forge::{Check, Conclusion, ForgeError, cut};

/// Characters of a description that GitLab takes.
const MOST_DESCRIPTION: usize = 255;

impl GitLab {
    /// Says `check` about `commit`, unless it is said already.
    pub(super) async fn show_check(&self, commit: &str, check: &Check) -> Result<(), ForgeError> {
        let project = self.project().await?.id;
        let what = self.on(&format!("reporting the status of {commit}"));
        // There is no neutral state, and a green one for what nobody looked at would be a lie.
        let state = match check.conclusion {
            Conclusion::Passed | Conclusion::Settled => "success",
            Conclusion::Failed => "failed",
            Conclusion::Neutral => "pending",
        };
        let description = cut(&check.sentence, MOST_DESCRIPTION);
        let asked = endpoints::statuses(project, commit, &check.name)?;
        let known: Vec<dto::Status> = self.client.list(&what, &asked).await?;
        let latest = known.into_iter().filter(|status| status.name == check.name).max_by_key(|one| one.id);
        let is_needless = match (check.conclusion, &latest) {
            (Conclusion::Neutral | Conclusion::Settled, None) => true,
            (Conclusion::Passed | Conclusion::Failed, None) => false,
            (Conclusion::Settled, Some(said)) => said.status == state,
            (_, Some(said)) => {
                said.status == state && said.description.as_deref().unwrap_or_default() == description
            }
        };
        if is_needless {
            return Ok(());
        }
        let mut body = json!({"state": state, "name": check.name, "description": description});
        if let Some(url) = &check.url {
            body["target_url"] = json!(url);
        }
        // A finished status gets a new one beside it; one that is still pending is the same, and refuses to become so again.
        let answer = self.client.write(&what, &endpoints::report_status(project, commit, body)).await?;
        if answer.status == reqwest::StatusCode::BAD_REQUEST && answer.said().contains("Cannot transition") {
            tracing::debug!(said = answer.said(), "{what}: it is in this state already");
            return Ok(());
        }
        judged(&what, answer).map(drop).map_err(|error| match error {
            ForgeError::Denied { what } => ForgeError::Blocked {
                what: format!("{what}: give the token the role *Developer*, or set `checks: false`"),
            },
            error => error,
        })
    }
}
