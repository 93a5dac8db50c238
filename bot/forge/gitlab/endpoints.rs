//! The endpoints that are asked: those of the `gitlab` crate where they fit, else our own.
//!
//! Our own are those that the crate sends in another way than GitLab's pages say: it puts the parameters of the tree
//! into the body of a GET, which proxies drop; it leaves the slashes in the name of a branch to delete; and it sends
//! commits, merge requests and comments as forms, which are limited in size and number of fields.

use std::borrow::Cow;

use gitlab::api::issues::IssueScope;
use gitlab::api::personal_access_tokens::PersonalAccessTokenSelf;
use gitlab::api::projects::hooks::Hooks;
use gitlab::api::projects::issues::Issues as ProjectIssues;
use gitlab::api::projects::members::AllProjectMember;
use gitlab::api::projects::merge_requests::approvals::MergeRequestApprovals;
use gitlab::api::projects::merge_requests::notes::MergeRequestNotes;
use gitlab::api::projects::merge_requests::notes::awards::MergeRequestNoteAwards;
use gitlab::api::projects::merge_requests::{MergeRequest, MergeRequestScope, MergeRequests};
use gitlab::api::projects::pipeline_schedules::PipelineSchedules;
use gitlab::api::projects::protected_branches::ProtectedBranches;
use gitlab::api::projects::repository::branches::{Branch, Branches};
use gitlab::api::projects::repository::commits::{Commit, CommitStatuses, Commits, CommitsOrder};
use gitlab::api::projects::repository::{Archive, ArchiveFormat};
use gitlab::api::users::{CurrentUser, User, Users};
use gitlab::api::{BodyError, Endpoint, QueryParams, projects};
use reqwest::Method;
use serde_json::Value;

use crate::forge::ForgeError;
use crate::forge::contact::HookOf;
use crate::forge::remote::http::part;

/// Something to ask.
pub(super) type Asked = Box<dyn Endpoint + Send + Sync>;

/// An endpoint of our own; a body goes as JSON.
#[derive(Clone, Debug)]
struct Own {
    method: Method,
    path: String,
    query: Vec<(&'static str, String)>,
    body: Option<Value>,
}

impl Endpoint for Own {
    fn method(&self) -> Method {
        self.method.clone()
    }

    fn endpoint(&self) -> Cow<'static, str> {
        self.path.clone().into()
    }

    fn parameters(&self) -> QueryParams<'_> {
        let mut parameters = QueryParams::default();
        for (name, value) in &self.query {
            parameters.push(*name, value);
        }
        parameters
    }

    fn body(&self) -> Result<Option<(&'static str, Vec<u8>)>, BodyError> {
        self.body.as_ref().map_or(Ok(None), gitlab::api::JsonParams::into_body)
    }
}

fn own(method: Method, path: String) -> Own {
    Own { method, path, query: Vec::new(), body: None }
}

fn own_write(method: Method, path: String, body: Value) -> Asked {
    Box::new(Own { body: Some(body), ..own(method, path) })
}

/// What a builder of the crate made; it fails when a field is missing only.
fn built<E, X>(endpoint: Result<E, X>) -> Result<Asked, ForgeError>
where
    E: Endpoint + Send + Sync + 'static,
    X: std::error::Error + Send + Sync + 'static,
{
    match endpoint {
        Ok(endpoint) => Ok(Box::new(endpoint)),
        Err(cause) => Err(ForgeError::Failed {
            what: "a question to GitLab cannot be asked".into(),
            cause: Some(Box::new(cause)),
        }),
    }
}

/// The account of the token.
pub(super) fn current_user() -> Result<Asked, ForgeError> {
    built(CurrentUser::builder().build())
}

/// The account with a name.
pub(super) fn user_named(name: &str) -> Result<Asked, ForgeError> {
    built(Users::builder().username(name.to_owned()).build())
}

/// A project by its path: the only question that names the path, since some proxies decode its slashes.
pub(super) fn project(path: &str) -> Result<Asked, ForgeError> {
    built(projects::Project::builder().project(path.to_owned()).build())
}

/// The patterns of protected branches.
pub(super) fn protected_branches(project: u64) -> Result<Asked, ForgeError> {
    built(ProtectedBranches::builder().project(project).build())
}

/// One branch.
pub(super) fn branch(project: u64, name: &str) -> Result<Asked, ForgeError> {
    built(Branch::builder().project(project).branch(name.to_owned()).build())
}

/// Branches below a folder, with their heads.
pub(super) fn branches_below(project: u64, folder: &str) -> Result<Asked, ForgeError> {
    built(Branches::builder().project(project).search(format!("^{folder}/")).build())
}

/// Deletes a branch, whatever its head is.
pub(super) fn delete_branch(project: u64, name: &str) -> Asked {
    Box::new(own(Method::DELETE, format!("projects/{project}/repository/branches/{}", part(name))))
}

/// Every entry of a commit's tree.
pub(super) fn tree(project: u64, commit: &str) -> Asked {
    let query = [("ref", commit), ("recursive", "true"), ("pagination", "keyset")];
    Box::new(Own {
        query: query.map(|(name, value)| (name, value.to_owned())).into(),
        ..own(Method::GET, format!("projects/{project}/repository/tree"))
    })
}

/// All files of a commit, packed; Git LFS pointers as they stand in it.
pub(super) fn archive(project: u64, commit: &str) -> Result<Asked, ForgeError> {
    let mut archive = Archive::builder();
    archive.project(project).format(ArchiveFormat::TarGz).sha(commit.to_owned()).include_lfs_blobs(false);
    built(archive.build())
}

/// The content of one file by its object id.
pub(super) fn blob(project: u64, id: &str) -> Asked {
    Box::new(own(Method::GET, format!("projects/{project}/repository/blobs/{}/raw", part(id))))
}

/// One commit.
pub(super) fn commit(project: u64, id: &str) -> Result<Asked, ForgeError> {
    built(Commit::builder().project(project).commit(id.to_owned()).stats(false).build())
}

/// Commits of `to` that `from` does not have, the latest first.
pub(super) fn commits(project: u64, from: &str, to: &str) -> Result<Asked, ForgeError> {
    let range = format!("{from}..{to}");
    built(Commits::builder().project(project).ref_name(range).order(CommitsOrder::Topo).build())
}

/// The best common ancestor.
pub(super) fn merge_base(project: u64, a: &str, b: &str) -> Asked {
    Box::new(Own {
        query: vec![("refs[]", a.to_owned()), ("refs[]", b.to_owned())],
        ..own(Method::GET, format!("projects/{project}/repository/merge_base"))
    })
}

/// The latest pushes to a project, by whomever.
pub(super) fn pushes(project: u64) -> Asked {
    Box::new(Own {
        query: vec![("action", "pushed".to_owned()), ("per_page", "100".to_owned())],
        ..own(Method::GET, format!("projects/{project}/events"))
    })
}

/// Makes a commit and moves or creates a branch.
pub(super) fn create_commit(project: u64, body: Value) -> Asked {
    own_write(Method::POST, format!("projects/{project}/repository/commits"), body)
}

/// Merge requests from a branch of this name, in whatever state, from forks too.
pub(super) fn merge_requests(project: u64, branch: &str) -> Result<Asked, ForgeError> {
    let mut requests = MergeRequests::builder();
    requests.project(project).source_branch(branch.to_owned()).scope(MergeRequestScope::All);
    // Without it a list says what was known of conflicts when somebody last opened the merge request's page.
    requests.with_merge_status_recheck(true);
    built(requests.build())
}

/// One merge request.
pub(super) fn merge_request(project: u64, number: u64) -> Result<Asked, ForgeError> {
    built(MergeRequest::builder().project(project).merge_request(number).build())
}

/// Who approved a merge request.
pub(super) fn approvals(project: u64, number: u64) -> Result<Asked, ForgeError> {
    built(MergeRequestApprovals::builder().project(project).merge_request(number).build())
}

/// Opens a merge request.
pub(super) fn create_merge_request(project: u64, body: Value) -> Asked {
    own_write(Method::POST, format!("projects/{project}/merge_requests"), body)
}

/// Changes a merge request.
pub(super) fn edit_merge_request(project: u64, number: u64, body: Value) -> Asked {
    own_write(Method::PUT, format!("projects/{project}/merge_requests/{number}"), body)
}

/// Comments on a merge request.
pub(super) fn notes(project: u64, number: u64) -> Result<Asked, ForgeError> {
    built(MergeRequestNotes::builder().project(project).merge_request(number).build())
}

/// Writes a comment.
pub(super) fn create_note(project: u64, number: u64, text: &str) -> Asked {
    let body = serde_json::json!({ "body": text });
    own_write(Method::POST, format!("projects/{project}/merge_requests/{number}/notes"), body)
}

/// Changes a comment.
pub(super) fn edit_note(project: u64, number: u64, note: u64, text: &str) -> Asked {
    let body = serde_json::json!({ "body": text });
    own_write(Method::PUT, format!("projects/{project}/merge_requests/{number}/notes/{note}"), body)
}

/// Removes a comment.
pub(super) fn delete_note(project: u64, number: u64, note: u64) -> Asked {
    Box::new(own(Method::DELETE, format!("projects/{project}/merge_requests/{number}/notes/{note}")))
}

/// Issues by an author, in whatever state.
pub(super) fn issues(project: u64, author: u64) -> Result<Asked, ForgeError> {
    built(ProjectIssues::builder().project(project).author(author).scope(IssueScope::All).build())
}

/// Opens an issue.
pub(super) fn create_issue(project: u64, body: Value) -> Asked {
    own_write(Method::POST, format!("projects/{project}/issues"), body)
}

/// Changes an issue.
pub(super) fn edit_issue(project: u64, number: u64, body: Value) -> Asked {
    own_write(Method::PUT, format!("projects/{project}/issues/{number}"), body)
}

/// What was reported for a commit under a name.
pub(super) fn statuses(project: u64, commit: &str, name: &str) -> Result<Asked, ForgeError> {
    built(CommitStatuses::builder().project(project).commit(commit.to_owned()).name(name.to_owned()).build())
}

/// Reports for a commit.
pub(super) fn report_status(project: u64, commit: &str, body: Value) -> Asked {
    own_write(Method::POST, format!("projects/{project}/statuses/{}", part(commit)), body)
}

/// What a person may do in a project, whatever it comes from: the project, its groups, a group that was invited.
pub(super) fn member(project: u64, user: u64) -> Result<Asked, ForgeError> {
    built(AllProjectMember::builder().project(project).user(user).build())
}

/// An account by its number.
pub(super) fn user(id: u64) -> Result<Asked, ForgeError> {
    built(User::builder().user(id).build())
}

/// Emoji at a comment.
pub(super) fn awards(project: u64, number: u64, note: u64) -> Result<Asked, ForgeError> {
    built(MergeRequestNoteAwards::builder().project(project).merge_request(number).note(note).build())
}

/// Puts an emoji at a comment.
pub(super) fn create_award(project: u64, number: u64, note: u64, name: &str) -> Asked {
    let path = format!("projects/{project}/merge_requests/{number}/notes/{note}/award_emoji");
    own_write(Method::POST, path, serde_json::json!({ "name": name }))
}

/// Webhooks of a project.
pub(super) fn hooks(project: u64) -> Result<Asked, ForgeError> {
    built(Hooks::builder().project(project).build())
}

/// Webhooks of a group, by its path.
pub(super) fn group_hooks(group: &str) -> Asked {
    Box::new(own(Method::GET, format!("groups/{}/hooks", part(group))))
}

/// One webhook of the project with this number, or of a group.
fn hook(project: u64, hook: &HookOf) -> Option<String> {
    match hook {
        HookOf::App => None,
        HookOf::Repository(hook) => Some(format!("projects/{project}/hooks/{hook}")),
        HookOf::Group { group, hook } => Some(format!("groups/{}/hooks/{hook}", part(group))),
    }
}

/// What a webhook sent, the latest first. `None`: GitLab has no such hooks.
pub(super) fn hook_events(project: u64, of: &HookOf) -> Option<Asked> {
    Some(Box::new(own(Method::GET, format!("{}/events", hook(project, of)?))))
}

/// Sends it again. `None`: GitLab has no such hooks.
pub(super) fn resend(project: u64, of: &HookOf, event: u64) -> Option<Asked> {
    Some(Box::new(own(Method::POST, format!("{}/events/{event}/resend", hook(project, of)?))))
}

/// The token that is used.
pub(super) fn own_token() -> Result<Asked, ForgeError> {
    built(PersonalAccessTokenSelf::builder().build())
}

/// Pipelines that run by the clock.
pub(super) fn pipeline_schedules(project: u64) -> Result<Asked, ForgeError> {
    built(PipelineSchedules::builder().project(project).build())
}

/// A form with one file.
#[derive(Clone, Debug)]
struct Upload {
    path: String,
    form: Vec<u8>,
}

/// With what the parts of the form are kept apart.
const FORM: &str = "multipart/form-data; boundary=slicewright-b41f0a6e7c8d4c61a7f2-part";

impl Endpoint for Upload {
    fn method(&self) -> Method {
        Method::POST
    }

    fn endpoint(&self) -> Cow<'static, str> {
        self.path.clone().into()
    }

    fn body(&self) -> Result<Option<(&'static str, Vec<u8>)>, BodyError> {
        Ok(Some((FORM, self.form.clone())))
    }
}

/// Keeps a file. `None`: it cannot be told from the end of its own form. (The crate has no such endpoint.)
pub(super) fn upload(project: u64, name: &str, content: &[u8]) -> Option<Asked> {
    let boundary = FORM.split_once("boundary=").map_or(FORM, |(_, boundary)| boundary);
    if content.windows(boundary.len()).any(|part| part == boundary.as_bytes()) {
        return None;
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = name.chars().map(plain).collect();
    let mut form = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\nContent-Type: \
         application/octet-stream\r\n\r\n"
    )
    .into_bytes();
    form.extend_from_slice(content);
    form.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    Some(Box::new(Upload { path: format!("projects/{project}/uploads"), form }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_is_one_part_of_a_path() {
        let path = delete_branch(7, "slicewright/dc1/a#b").endpoint().into_owned();
        assert_eq!(path, "projects/7/repository/branches/slicewright%2Fdc1%2Fa%23b");
        let path = branch(7, "slicewright/dc1/a#b").unwrap().endpoint().into_owned();
        assert_eq!(path, "projects/7/repository/branches/slicewright%2Fdc1%2Fa%23b");
    }
}
