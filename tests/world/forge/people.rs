//! What people do on a forge, through its pages rather than its API.

use super::state::{Comment, Issue, KIM, Request, RequestState, State};
use crate::world::repo::MAIN;

/// How a person merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merge {
    /// A merge commit.
    Commit,
    /// All commits as one.
    Squash,
}

impl State {
    /// The open merge request of a branch, else the last one.
    pub(crate) fn request_of(&mut self, branch: &str) -> &mut Request {
        let requests = &mut self.infra().requests;
        let open = requests.iter().rposition(|one| one.source == branch && one.state == RequestState::Open);
        let at = open.or_else(|| requests.iter().rposition(|one| one.source == branch));
        &mut requests[at.expect("there is a merge request for the branch")]
    }

    /// Closes it.
    pub(crate) fn close(&mut self, branch: &str) {
        let (now, head) = (self.tick(), self.infra().git.head(branch));
        let request = self.request_of(branch);
        request.state = RequestState::Closed;
        request.last_head = head.or_else(|| request.last_head.take());
        (request.closed, request.updated) = (Some(now), now);
    }

    /// Opens a closed one again; its branch comes back where it was.
    pub(crate) fn reopen(&mut self, branch: &str) {
        let now = self.tick();
        let request = self.request_of(branch);
        request.state = RequestState::Open;
        (request.closed, request.updated) = (None, now);
        let head = request.last_head.clone().expect("it had a head");
        if self.infra().git.head(branch).is_none() {
            self.infra().git.git(&["update-ref", &format!("refs/heads/{branch}"), &head]);
        }
    }

    /// Approves the head as it is.
    pub(crate) fn approve(&mut self, branch: &str, user: u64) {
        let (now, head) = (self.tick(), self.infra().git.head(branch).expect("the branch is there"));
        let request = self.request_of(branch);
        request.approvals.push((user, head));
        request.updated = now;
    }

    /// Says something; returns the comment's number.
    pub(crate) fn comment(&mut self, branch: &str, user: u64, body: &str) -> u64 {
        let (id, now) = (self.new_id(), self.tick());
        let comment = Comment::new(id, user, body, now);
        let request = self.request_of(branch);
        request.comments.push(comment);
        request.updated = now;
        id
    }

    /// Changes what was said.
    pub(crate) fn edit_comment(&mut self, branch: &str, id: u64, body: &str) {
        let now = self.tick();
        let comments = &mut self.request_of(branch).comments;
        let comment = comments.iter_mut().find(|comment| comment.id == id).expect("it was made");
        (comment.body, comment.updated) = (body.to_owned(), now);
    }

    /// Merges it into its target.
    pub(crate) fn merge(&mut self, branch: &str, how: Merge) {
        let now = self.tick();
        let git = &self.infra().git;
        let head = git.head(branch).expect("the branch is there");
        let commit = git.merge_as_human(branch, how == Merge::Squash);
        let request = self.request_of(branch);
        request.state = RequestState::Merged(commit);
        request.last_head = Some(head);
        (request.closed, request.updated) = (Some(now), now);
    }

    /// Presses the button that merges the base branch into the proposal's.
    pub(crate) fn update_branch(&mut self, branch: &str) {
        self.infra().git.update_from_main(branch);
    }

    /// Kim opens an issue; returns its number.
    pub(crate) fn report(&mut self, title: &str) -> u64 {
        let now = self.tick();
        let number = self.infra().next_number();
        let (title, body) = (title.to_owned(), String::new());
        let issue = Issue { number, title, body, author: KIM, open: true, created: now, updated: now };
        self.infra().issues.push(issue);
        number
    }

    /// Kim opens a merge request from a branch, with a text of theirs.
    pub(crate) fn open_by_kim(&mut self, branch: &str, title: &str, body: &str) -> u64 {
        let now = self.tick();
        let number = self.infra().next_number();
        let request = Request {
            number,
            title: title.to_owned(),
            body: body.to_owned(),
            source: branch.to_owned(),
            target: MAIN.to_owned(),
            author: KIM,
            ..Request::new(now)
        };
        self.infra().requests.push(request);
        number
    }
}

impl Request {
    /// An open one with nothing in it.
    pub(crate) fn new(now: i64) -> Self {
        Self {
            number: 0,
            title: String::new(),
            body: String::new(),
            source: String::new(),
            target: String::new(),
            author: 0,
            state: RequestState::Open,
            draft: false,
            labels: std::collections::BTreeSet::new(),
            reviewers: std::collections::BTreeSet::new(),
            approvals: Vec::new(),
            comments: Vec::new(),
            last_head: None,
            merging: false,
            fork: None,
            unchecked: 0,
            created: now,
            updated: now,
            closed: None,
        }
    }
}
