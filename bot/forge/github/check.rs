//! What is said about a commit: a check run where the account may make one, else a commit status.

use std::borrow::Cow;

use reqwest::Method;
use serde_json::json;

use super::GitHub;
use super::checkup::is_refused;
use super::dto::{CheckRun, CheckRuns, CombinedStatus};
use crate::forge::remote::http::part;
use crate::forge::{Check, Conclusion, ForgeError, cut};

/// Characters of a status' description that GitHub takes: 140. A margin, since it counts in its own way.
const MOST_DESCRIPTION: usize = 120;

/// Characters of a check run's title. GitHub does not say how many it takes; others found 255.
const MOST_TITLE: usize = 250;

/// Bytes of a check run's summary. GitHub takes 65,535 characters and refuses the whole run beyond; how it counts differs from
/// ours, and bytes are the most that it may count.
const MOST_SUMMARY: usize = 60_000;

impl GitHub {
    /// Says `check` about `commit`, unless it is said already.
    pub(super) async fn show_check(&self, commit: &str, check: &Check) -> Result<(), ForgeError> {
        if self.who().await?.is_app {
            match self.check_run(commit, check).await {
                // Statuses are a permission of their own.
                Err(error) if is_refused(&error) => {}
                // What is taken back may have been said by a status, when the App was granted less. Without the permission
                // to look it was not.
                Ok(()) if check.conclusion == Conclusion::Settled => {
                    return match self.status(commit, check).await {
                        Err(error) if is_refused(&error) => Ok(()),
                        done => done,
                    };
                }
                done => return done,
            }
        }
        self.status(commit, check).await.map_err(|error| match error {
            // GitHub does not admit that something is there to a token that may not see it.
            ForgeError::Blocked { what } | ForgeError::Denied { what } | ForgeError::NotFound { what } => ForgeError::Blocked {
                what: format!(
                    "{what}: give the App *Checks* or *Commit statuses* with write access (a token the latter), or set \
                     `checks: false`"
                ),
            },
            error => error,
        })
    }

    async fn check_run(&self, commit: &str, check: &Check) -> Result<(), ForgeError> {
        let repository = self.repository().await?;
        let what = format!("checking {commit} of {}", repository.name);
        if self.has_run(&what, commit, check).await? {
            return Ok(());
        }
        let mut body = json!({
            "name": check.name,
            "head_sha": commit,
            "status": "completed",
            "conclusion": conclusion(check.conclusion),
            "output": {"title": cut(&check.sentence, MOST_TITLE), "summary": summary(&check.text)},
        });
        if let Some(url) = &check.url {
            body["details_url"] = json!(url);
        }
        match self.client.write(&what, Method::POST, &repository.path("/check-runs"), Some(&body)).await {
            Err(error @ ForgeError::Unanswered { .. }) => match self.has_run(&what, commit, check).await? {
                true => Ok(()),
                false => Err(error),
            },
            written => written.map(drop),
        }
    }

    /// Nothing is to be said: the newest run of this name says so already, or nothing that has to be taken back.
    async fn has_run(&self, what: &str, commit: &str, check: &Check) -> Result<bool, ForgeError> {
        let repository = self.repository().await?;
        let query = format!("check_name={}&filter=latest", part(&check.name));
        let path = repository.path(&format!("/commits/{}/check-runs?{query}", part(commit)));
        let known: CheckRuns = self.client.get(what, &path).await?.json(what)?;
        let login = &self.who().await?.login;
        let own = known.check_runs.into_iter().filter(|run| {
            let app = run.app.as_ref().map(|app| format!("{}[bot]", app.slug));
            run.name == check.name && app.is_some_and(|app| app.eq_ignore_ascii_case(login))
        });
        let newest = own.max_by_key(|run| run.id);
        if check.conclusion == Conclusion::Settled {
            let said = newest.and_then(|run| run.conclusion);
            return Ok(said.is_none_or(|said| said == conclusion(check.conclusion)));
        }
        let says = |run: CheckRun| {
            run.conclusion.as_deref() == Some(conclusion(check.conclusion))
                && run.output.title.as_deref() == Some(&cut(&check.sentence, MOST_TITLE))
                && run.output.summary.unwrap_or_default().replace("\r\n", "\n") == summary(&check.text)
        };
        Ok(newest.is_some_and(says))
    }

    async fn status(&self, commit: &str, check: &Check) -> Result<(), ForgeError> {
        let repository = self.repository().await?;
        let what = format!("reporting the status of {commit} of {}", repository.name);
        // There is no neutral state, and a green one for what nobody looked at would be a lie.
        let state = match check.conclusion {
            Conclusion::Passed | Conclusion::Settled => "success",
            Conclusion::Failed => "failure",
            Conclusion::Neutral => "pending",
        };
        let description = cut(&check.sentence, MOST_DESCRIPTION);
        let path = repository.path(&format!("/commits/{}/status?per_page=100", part(commit)));
        let known: CombinedStatus = self.client.get(&what, &path).await?.json(&what)?;
        let said = known.statuses.iter().find(|status| status.context == check.name);
        let is_needless = match (check.conclusion, said) {
            (Conclusion::Neutral | Conclusion::Settled, None) => true,
            (Conclusion::Passed | Conclusion::Failed, None) => false,
            (Conclusion::Settled, Some(said)) => said.state == state,
            (_, Some(said)) => said.state == state && said.description.as_deref() == Some(&description),
        };
        if is_needless {
            return Ok(());
        }
        let mut body = json!({"state": state, "context": check.name, "description": description});
        if let Some(url) = &check.url {
            body["target_url"] = json!(url);
        }
        // Said twice it is the same status still.
        let path = repository.path(&format!("/statuses/{}", part(commit)));
        self.client.write(&what, Method::POST, &path, Some(&body)).await.map(drop)
    }
}

/// The text as far as GitHub takes it.
fn summary(text: &str) -> Cow<'_, str> {
    if text.len() <= MOST_SUMMARY {
        return text.into();
    }
    let end = text.floor_char_boundary(MOST_SUMMARY - '…'.len_utf8());
    format!("{}…", &text[..end]).into()
}

fn conclusion(conclusion: Conclusion) -> &'static str {
    match conclusion {
        Conclusion::Passed | Conclusion::Settled => "success",
        Conclusion::Failed => "failure",
        Conclusion::Neutral => "neutral",
    }
}
