//! What is there of a proposal.
//!
//! Asked again, an unchanged proposal costs three reads that say "as before": branch, merge requests, approvals.
//! Everything else is known by the id of a commit or of an object.

use super::{GitLab, dto, endpoints};
use crate::forge::remote::look::look;
use crate::forge::{Forge as _, ForgeError, Found, FoundCommit, FoundRequest, branch, noted_head};

/// How often a merge request is looked at again while GitLab is still finding out whether it has conflicts.
const MOST_LOOKS: usize = 2;

impl GitLab {
    /// What is there for `branch`.
    pub(super) async fn proposal(&self, branch: &str, main: &str) -> Result<Found, ForgeError> {
        branch::check(branch)?;
        let branch_head = self.branch(branch).await?.map(|branch| branch.commit.id);
        let mut found = Found { branch_head, ..Found::default() };
        let mut noted = None;
        if let Some((request, by_bot)) = self.shown_request(branch).await? {
            noted = noted_head(request.body()).filter(|_| by_bot);
            found.merged = by_bot && request.state == "merged";
            found.request = Some(self.observed(request, by_bot).await?);
        }
        look(self, main, noted.as_deref(), &mut found).await?;
        if let Some(head) = found.branch_head.clone()
            && noted.is_some_and(|noted| noted != head)
            && self.pushed(branch, &head, &found.commits).await?
        {
            found.unfinished_head = Some(head);
        }
        Ok(found)
    }

    /// Whether the bot itself put the branch where it is, and was stopped before it wrote the text: it remembers so, or
    /// GitLab does, which anybody's commit with the bot's address cannot forge.
    async fn pushed(&self, branch: &str, head: &str, commits: &[FoundCommit]) -> Result<bool, ForgeError> {
        let unfinished = self.unfinished.of(branch).is_some_and(|noted| noted == head);
        let own = self.identity().await?.emails;
        let [only] = commits else { return Ok(unfinished) };
        if unfinished || !only.emails.iter().all(|email| own.contains(email)) {
            return Ok(unfinished);
        }
        let project = self.project().await?.id;
        let what = self.on("reading the latest pushes");
        let events: Option<Vec<dto::Event>> = self.client.find(&what, &endpoints::pushes(project)).await?;
        let bot = self.account().await?.id;
        // The latest first: whoever put the branch back to an older commit of the bot pushed after it.
        let pushes = events
            .unwrap_or_default()
            .into_iter()
            .map(|event| (event.author.id, event.push_data.unwrap_or_default()));
        let mut of_branch = pushes.filter(|(_, push)| {
            push.ref_type.as_deref() == Some("branch") && push.name.as_deref() == Some(branch)
        });
        Ok(of_branch.next().is_some_and(|(by, push)| by == bot && push.commit_to.as_deref() == Some(head)))
    }

    /// The merge request to show, and whether the bot made it: the bot's open one, else anybody's open one, else the
    /// bot's last one.
    async fn shown_request(&self, branch: &str) -> Result<Option<(dto::MergeRequest, bool)>, ForgeError> {
        let mut requests = self.requests_of(branch).await?;
        requests.sort_by_key(|(request, by_bot)| {
            let rank = match (request.is_open(), by_bot) {
                (true, true) => 2,
                (true, false) => 1,
                (false, _) => 0,
            };
            (rank, request.iid)
        });
        requests.retain(|(request, by_bot)| request.is_open() || *by_bot);
        Ok(requests.pop())
    }

    /// Merge requests from the branch of this project, and whether the bot made them. A fork may have a branch of the
    /// same name.
    pub(super) async fn requests_of(
        &self,
        branch: &str,
    ) -> Result<Vec<(dto::MergeRequest, bool)>, ForgeError> {
        let project = self.project().await?.id;
        let what = self.on(&format!("reading the merge requests of `{branch}`"));
        let all: Vec<dto::MergeRequest> =
            self.client.list(&what, &endpoints::merge_requests(project, branch)?).await?;
        let mut ours = Vec::new();
        for request in all.into_iter().filter(|request| request.source_project_id == Some(project)) {
            let by_bot = self.is_bot(&request.author).await?;
            ours.push((request, by_bot));
        }
        Ok(ours)
    }

    /// Whether an approval is a person's. Who approves is a developer here or above, or was made an approver by a maintainer
    /// (<https://docs.gitlab.com/user/project/merge_requests/approvals/rules/#eligible-approvers>): GitLab takes no other
    /// approval. The accounts of access tokens are developers too, though.
    async fn counts(&self, user: &dto::User) -> Result<bool, ForgeError> {
        if self.is_bot(user).await? {
            return Ok(false);
        }
        match self.program(user.id).await {
            Ok(is_program) => Ok(is_program != Some(true)),
            // What stays unknown holds the branch rather than lets it move under an approval.
            Err(ForgeError::Denied { .. } | ForgeError::Blocked { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The merge request in our words.
    async fn observed(&self, shown: dto::MergeRequest, by_bot: bool) -> Result<FoundRequest, ForgeError> {
        let project = self.project().await?.id;
        let mut request = shown;
        let mut approvals = 0;
        if request.is_open() {
            let what = self.on(&format!("reading merge request !{}", request.iid));
            for _ in 0..MOST_LOOKS {
                if !request.is_being_checked() {
                    break;
                }
                // To look at it is what makes GitLab find out.
                request = self.client.get(&what, &endpoints::merge_request(project, request.iid)?).await?;
            }
            let what = self.on(&format!("reading the approvals of merge request !{}", request.iid));
            // Servers without approvals have no such page.
            let given: Option<dto::Approvals> =
                self.client.find(&what, &endpoints::approvals(project, request.iid)?).await?;
            let given = given.unwrap_or_default();
            for approval in given.approved_by {
                approvals += u32::from(self.counts(&approval.user).await?);
            }
        }
        Ok(FoundRequest {
            id: request.iid.to_string(),
            by_bot,
            open: request.is_open(),
            draft: request.is_draft(),
            title: dto::bare(&request.title).to_owned(),
            body: request.body().to_owned(),
            url: request.web_url.clone(),
            base_branch: Some(request.target_branch.clone()),
            approvals,
            held: request.held().filter(|_| request.is_open()),
            conflicted: request.is_open() && request.conflicts(),
        })
    }
}
