//! What is there for a branch.

use std::collections::BTreeMap;

use super::GitHub;
use super::client::GraphQl;
use super::dto::{Move, Pull, Review, User};
use crate::forge::contact::{Contact as _, Person, Role};
use crate::forge::remote::http::{part, retried};
use crate::forge::remote::look::look;
use crate::forge::{ForgeError, Found, FoundCommit, FoundRequest, branch, held_by_label, noted_head};

/// Looks at a pull request that leave open whether it can be merged, before it counts as not known.
const LOOKS_AT_MERGEABLE: usize = 2;

/// A pull request that changed less than so many seconds ago is looked at again: a review in the same second leaves its
/// time of change as it is, and clocks differ.
const SETTLED_SECONDS: i64 = 60;

const QUEUE: &str = "query($id: ID!) { node(id: $id) { ... on PullRequest { isInMergeQueue } } }";

/// What a list does not say of an open pull request. It is the same as long as the request, its branch and its base are.
#[derive(Clone, Copy)]
pub(super) struct Standing {
    approvals: u32,
    conflicted: bool,
    queued: bool,
}

impl GitHub {
    pub(super) async fn found(&self, branch: &str, main: &str) -> Result<Found, ForgeError> {
        branch::check(branch)?;
        let head = self.branch_head(branch).await?;
        let pull = self.pull_of(branch).await?;
        let mut found = Found { branch_head: head.clone(), ..Found::default() };
        let mut noted = None;
        if let Some((pull, by_bot)) = &pull {
            found.request = Some(self.request(pull, *by_bot, head.as_deref(), main).await?);
            found.merged = pull.merged_at.is_some();
            noted = noted_head(&pull.text()).filter(|_| *by_bot);
        }
        found.unfinished_head = self.unfinished.of(branch);
        look(self, main, noted.as_deref(), &mut found).await?;
        if let Some(head) = head
            && found.unfinished_head.as_ref() != Some(&head)
            && noted.is_some_and(|noted| noted != head)
            && self.pushed(branch, &head, &found.commits).await?
        {
            found.unfinished_head = Some(head);
        }
        Ok(found)
    }

    /// Whether the bot itself put the branch where it is, and was stopped before it wrote the text: GitHub notes who moved
    /// which branch, which anybody's commit with the bot's address cannot forge. Older servers keep no such notes.
    async fn pushed(&self, branch: &str, head: &str, commits: &[FoundCommit]) -> Result<bool, ForgeError> {
        let identity = self.known_as().await?;
        let [FoundCommit { emails: [author, committer], .. }] = commits else { return Ok(false) };
        let ours = identity.emails.contains(author)
            && (identity.emails.contains(committer) || identity.forge_emails.contains(committer));
        if !ours {
            return Ok(false);
        }
        let repository = self.repository().await?;
        let what = format!("reading who moved `{branch}` of {}", repository.name);
        let name = format!("refs/heads/{branch}");
        let path = repository.path(&format!("/activity?ref={}&per_page=1", part(&name)));
        let moves: Vec<Move> = match self.client.get(&what, &path).await {
            Ok(answer) => answer.json(&what)?,
            Err(ForgeError::NotFound { .. } | ForgeError::Denied { .. } | ForgeError::Blocked { .. }) => {
                Vec::new()
            }
            Err(error) => return Err(error),
        };
        // The latest first: whoever put the branch back to an older commit of the bot moved it after that.
        let Some(last) = moves.first().filter(|last| last.branch == name && last.after == head) else {
            return Ok(false);
        };
        self.is_own(last.actor.as_ref()).await
    }

    /// The bot's open pull request of a branch, else a person's, else the last one of the bot's that was closed; and
    /// whether it is the bot's.
    async fn pull_of(&self, branch: &str) -> Result<Option<(Pull, bool)>, ForgeError> {
        let mut pulls = Vec::new();
        for pull in self.pulls(branch, "all").await? {
            let by_bot = self.is_own(pull.user.as_ref()).await?;
            pulls.push((pull, by_bot));
        }
        pulls.retain(|(pull, by_bot)| *by_bot || pull.is_open());
        Ok(pulls.into_iter().max_by_key(|(pull, by_bot)| (pull.is_open(), *by_bot, pull.number)))
    }

    /// The pull requests from a branch of this repository, in this state.
    pub(super) async fn pulls(&self, branch: &str, state: &str) -> Result<Vec<Pull>, ForgeError> {
        let repository = self.repository().await?;
        let what = format!("listing the pull requests of `{branch}` in {}", repository.name);
        let head = format!("{}:{branch}", repository.owner());
        let path = repository.path(&format!("/pulls?state={state}&head={}", part(&head)));
        let mut pulls: Vec<Pull> = self.client.list(&what, &path).await?;
        // A fork inside the organization has the same owner, and a filter that is not understood is no filter.
        pulls.retain(|pull| pull.head.is_in(&repository.name) && pull.head.branch == branch);
        Ok(pulls)
    }

    async fn request(
        &self,
        pull: &Pull,
        by_bot: bool,
        head: Option<&str>,
        main: &str,
    ) -> Result<FoundRequest, ForgeError> {
        let standing = match pull.is_open() {
            // The branch itself is ahead of what the pull request says of it, for a moment after it moved.
            true => self.standing(pull, head.unwrap_or(&pull.head.sha), main).await?,
            false => Standing { approvals: 0, conflicted: false, queued: false },
        };
        let held = if standing.queued {
            Some("it is in the merge queue".to_owned())
        } else if pull.auto_merge.is_some() {
            Some("it is to be merged as soon as it can be".to_owned())
        } else {
            held_by_label(pull.labels.iter().map(|label| label.name.as_str()))
        };
        Ok(FoundRequest {
            id: pull.number.to_string(),
            by_bot,
            open: pull.is_open(),
            draft: pull.draft,
            title: pull.title.clone(),
            body: pull.text(),
            url: pull.html_url.clone(),
            base_branch: Some(pull.base.branch.clone()),
            approvals: standing.approvals,
            held,
            conflicted: standing.conflicted,
        })
    }

    async fn standing(&self, pull: &Pull, head: &str, main: &str) -> Result<Standing, ForgeError> {
        let key = format!("{} {} {head} {main}", pull.number, pull.updated_at);
        if let Some(known) = self.standings.get(&key) {
            return Ok(*known);
        }
        let repository = self.repository().await?;
        let what = format!("reading the reviews of #{} in {}", pull.number, repository.name);
        let path = repository.path(&format!("/pulls/{}/reviews", pull.number));
        let reviews: Vec<Review> = self.client.list(&what, &path).await?;
        let mergeable = self.mergeable(pull.number).await?;
        let standing = Standing {
            approvals: self.approvals(&reviews, head).await?,
            conflicted: mergeable == Some(false),
            queued: self.is_queued(pull).await?,
        };
        let changed: Option<jiff::Timestamp> = pull.updated_at.parse().ok();
        let age = changed.map(|changed| jiff::Timestamp::now().as_second() - changed.as_second());
        if mergeable.is_some() && age.is_some_and(|age| age > SETTLED_SECONDS) {
            self.standings.put(&key, standing, 1);
        }
        Ok(standing)
    }

    /// How many people who may write approve `head`. Whoever can read may approve, on a public repository everybody, and
    /// only approvals of those who may write count for GitHub's own rules. Each of them is asked about only where they
    /// approve this head, and again only after the pull request, its head or its base changed.
    async fn approvals(&self, reviews: &[Review], head: &str) -> Result<u32, ForgeError> {
        let mut n_people = 0;
        for person in approving(reviews, head) {
            let counts = match self.role(&person).await {
                Ok(role) => role >= Role::Write,
                Err(error @ (ForgeError::Unanswered { .. } | ForgeError::Busy { .. })) => return Err(error),
                // What stays unknown holds the branch rather than lets it move under an approval.
                Err(error) => {
                    tracing::info!(%error, "the approval counts");
                    true
                }
            };
            n_people += u32::from(counts);
        }
        Ok(n_people)
    }

    /// Whether it can be merged: asking is what makes GitHub work it out.
    async fn mergeable(&self, number: u64) -> Result<Option<bool>, ForgeError> {
        for _ in 0..LOOKS_AT_MERGEABLE {
            let pull = self.pull(number).await?;
            if pull.mergeable.is_some() || !pull.is_open() {
                return Ok(pull.mergeable);
            }
        }
        Ok(None)
    }

    /// One pull request by its number.
    pub(super) async fn pull(&self, number: u64) -> Result<Pull, ForgeError> {
        let repository = self.repository().await?;
        let what = format!("reading pull request #{number} of {}", repository.name);
        self.client.get(&what, &repository.path(&format!("/pulls/{number}"))).await?.json(&what)
    }

    /// Only GraphQL knows of merge queues; a server that does not has none.
    async fn is_queued(&self, pull: &Pull) -> Result<bool, ForgeError> {
        let what = format!("asking whether #{} is in the merge queue", pull.number);
        let variables = serde_json::json!({"id": pull.node_id});
        let ask = || self.client.graphql(&what, QUEUE, variables.clone());
        match retried(ask).await? {
            GraphQl::Data(data) => Ok(data["node"]["isInMergeQueue"] == true),
            GraphQl::Unknown => Ok(false),
            GraphQl::Refused(errors) => {
                let said: Vec<_> = errors.into_iter().map(|error| error.message).collect();
                tracing::debug!(said = said.join("; "), "{what}");
                Ok(false)
            }
        }
    }
}

/// People whose last word on the current head is yes. Programs are none.
fn approving(reviews: &[Review], head: &str) -> Vec<Person> {
    let mut last: BTreeMap<u64, (&User, bool)> = BTreeMap::new();
    for review in reviews {
        let Some(user) = review.user.as_ref().filter(|user| user.is_person()) else { continue };
        // A comment takes nothing back.
        if matches!(review.state.as_str(), "APPROVED" | "CHANGES_REQUESTED" | "DISMISSED") {
            let approves = review.state == "APPROVED" && review.commit_id.as_deref() == Some(head);
            last.insert(user.id, (user, approves));
        }
    }
    let people = last.into_values().filter(|(_, approves)| *approves);
    people.map(|(user, _)| Person { id: user.id, login: user.login.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review(user: u64, state: &str, commit: &str) -> Review {
        let kind = if user < 100 { "User" } else { "Bot" }.to_owned();
        let user = Some(User { id: user, login: format!("user-{user}"), kind });
        Review { user, state: state.to_owned(), commit_id: Some(commit.to_owned()) }
    }

    #[test]
    fn the_last_word_of_each_on_the_head_counts() {
        let reviews = [
            review(1, "APPROVED", "new"),
            review(1, "COMMENTED", "new"),
            review(2, "APPROVED", "old"),
            review(3, "APPROVED", "new"),
            review(3, "CHANGES_REQUESTED", "new"),
            review(4, "CHANGES_REQUESTED", "old"),
            review(4, "APPROVED", "new"),
            review(5, "DISMISSED", "new"),
            review(100, "APPROVED", "new"),
        ];
        let people: Vec<u64> = approving(&reviews, "new").into_iter().map(|person| person.id).collect();
        assert_eq!(people, [1, 4]);
    }
}
