//! What GitLab's answers look like: the fields that are needed, and no word about the rest.

use serde::{Deserialize, Deserializer};

/// A value that GitLab writes as `null` when it has none.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(value: D) -> Result<T, D::Error> {
    Option::deserialize(value).map(Option::unwrap_or_default)
}

use crate::forge::held_by_label;
use crate::forge::remote::board;

/// An account. Its addresses are shown to itself only.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct User {
    pub(super) id: u64,
    pub(super) username: String,
    pub(super) email: Option<String>,
    pub(super) public_email: Option<String>,
    pub(super) commit_email: Option<String>,
    /// `active`, `blocked`, `deactivated`.
    pub(super) state: Option<String>,
    /// The account of an access token, or another program. Shown by the account's own page only.
    pub(super) bot: bool,
    /// An administrator of the instance. Shown to administrators only.
    pub(super) is_admin: Option<bool>,
}

impl User {
    /// It may sign in.
    pub(super) fn is_active(&self) -> bool {
        self.state.as_deref() == Some("active")
    }
}

/// A member of a project, of its group or of a group that it is shared with.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Member {
    /// Of the account: `active`, `blocked`.
    pub(super) state: String,
    /// Of the membership: `active`, `awaiting`. Not said everywhere.
    #[serde(default)]
    pub(super) membership_state: Option<String>,
    /// As in [`Access`]; for a role that the group made for itself, the level that it was made from.
    pub(super) access_level: u32,
    /// The day on which the membership ends, if it does.
    #[serde(default)]
    pub(super) expires_at: Option<String>,
}

/// An emoji at a comment.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Award {
    pub(super) name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) user: User,
}

/// A webhook of a project.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Hook {
    pub(super) id: u64,
    pub(super) url: String,
    /// `executable`, `temporarily_disabled`, `disabled`.
    #[serde(default)]
    pub(super) alert_status: Option<String>,
    #[serde(default)]
    pub(super) disabled_until: Option<String>,
    #[serde(default)]
    pub(super) note_events: bool,
    #[serde(default)]
    pub(super) merge_requests_events: bool,
}

impl Hook {
    /// It tells of what the bot listens to: comments, merge requests.
    pub(super) fn may_be_for_a_bot(&self) -> bool {
        self.note_events || self.merge_requests_events
    }
}

/// One attempt to deliver.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct HookEvent {
    pub(super) id: u64,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) url: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) trigger: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) request_headers: std::collections::BTreeMap<String, serde_json::Value>,
    /// What it told of.
    #[serde(default)]
    pub(super) request_data: serde_json::Value,
    #[serde(default)]
    pub(super) response_status: Outcome,
    /// Not in every version.
    #[serde(default)]
    pub(super) created_at: Option<String>,
}

/// A status, `200` or `"200"`, or why there was none: `"internal error"`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "serde_json::Value")]
pub(super) struct Outcome(pub(super) String);

impl From<serde_json::Value> for Outcome {
    fn from(value: serde_json::Value) -> Self {
        Self(match value {
            serde_json::Value::String(text) => text,
            serde_json::Value::Null => "no answer".to_owned(),
            other => other.to_string(),
        })
    }
}

impl Outcome {
    /// The receiver took it.
    pub(super) fn arrived(&self) -> bool {
        self.0.parse().is_ok_and(|status: u16| (200..300).contains(&status))
    }
}

/// What came of sending a delivery again.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Resent {
    pub(super) response_status: Outcome,
}

/// A file that was kept.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Upload {
    pub(super) markdown: String,
}

/// The access token itself.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Token {
    #[serde(deserialize_with = "or_default")]
    pub(super) scopes: Vec<String>,
    /// Its last day.
    pub(super) expires_at: Option<String>,
}

/// A pipeline that runs by the clock.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PipelineSchedule {
    #[serde(default, deserialize_with = "or_default")]
    pub(super) description: String,
    #[serde(default)]
    pub(super) active: bool,
    #[serde(default)]
    pub(super) owner: Option<User>,
}

/// A project.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Project {
    pub(super) id: u64,
    pub(super) path_with_namespace: String,
    pub(super) default_branch: Option<String>,
    pub(super) archived: bool,
    pub(super) empty_repo: bool,
    /// Old servers say this one only.
    pub(super) merge_requests_enabled: Option<bool>,
    pub(super) merge_requests_access_level: Option<String>,
    pub(super) repository_access_level: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) permissions: Permissions,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) namespace: Namespace,
}

/// Where a project is: in a group, or a person's own.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Namespace {
    /// `group`, `user`.
    pub(super) kind: String,
    pub(super) full_path: String,
}

impl Namespace {
    /// The groups that it is in, the outermost first: `acme`, `acme/platform`.
    pub(super) fn groups(&self) -> Vec<&str> {
        if self.kind != "group" || self.full_path.is_empty() {
            return Vec::new();
        }
        let ends = self.full_path.match_indices('/').map(|(end, _)| end);
        ends.chain([self.full_path.len()]).map(|end| &self.full_path[..end]).collect()
    }
}

/// What the account may do in a project: by being a member of it, and of its group.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Permissions {
    pub(super) project_access: Option<Access>,
    pub(super) group_access: Option<Access>,
}

/// 10 guest, 20 reporter, 30 developer, 40 maintainer, 50 owner.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Access {
    pub(super) access_level: u32,
}

/// A protected branch, or a pattern of such.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Protected {
    pub(super) name: String,
}

/// A branch with its head.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Branch {
    pub(super) name: String,
    pub(super) commit: Commit,
    #[serde(default)]
    pub(super) protected: bool,
}

/// A commit.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Commit {
    pub(super) id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) parent_ids: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) message: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) author_email: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) committer_email: String,
}

/// Something that somebody did; here a push.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event {
    #[serde(default, deserialize_with = "or_default")]
    pub(super) author: User,
    pub(super) push_data: Option<Push>,
}

/// Where a push put a branch.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Push {
    #[serde(rename = "ref")]
    pub(super) name: Option<String>,
    pub(super) ref_type: Option<String>,
    pub(super) commit_to: Option<String>,
}

/// An entry of a tree.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Item {
    pub(super) id: String,
    pub(super) path: String,
    pub(super) mode: String,
}

/// A merge request. `prepared_at` and `diff_refs` are null for a while after it was made, and nothing here needs them.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct MergeRequest {
    pub(super) iid: u64,
    pub(super) title: String,
    pub(super) state: String,
    pub(super) target_branch: String,
    #[serde(default)]
    pub(super) source_branch: String,
    #[serde(default)]
    pub(super) description: Option<String>,
    /// `None`: the fork that it came from is gone.
    #[serde(default)]
    pub(super) source_project_id: Option<u64>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) author: User,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) labels: Vec<String>,
    #[serde(default)]
    pub(super) draft: Option<bool>,
    #[serde(default)]
    pub(super) work_in_progress: Option<bool>,
    #[serde(default)]
    pub(super) merge_when_pipeline_succeeds: Option<bool>,
    #[serde(default)]
    pub(super) has_conflicts: Option<bool>,
    #[serde(default)]
    pub(super) merge_status: Option<String>,
    #[serde(default)]
    pub(super) detailed_merge_status: Option<String>,
    #[serde(default)]
    pub(super) web_url: String,
}

impl MergeRequest {
    pub(super) fn is_open(&self) -> bool {
        // `locked` is open, and being merged right now.
        self.state == "opened" || self.state == "locked"
    }

    pub(super) fn body(&self) -> &str {
        self.description.as_deref().unwrap_or_default()
    }

    /// Marked as not ready. Old servers have `work_in_progress` only.
    pub(super) fn is_draft(&self) -> bool {
        self.draft.or(self.work_in_progress).unwrap_or_else(|| bare(&self.title) != self.title)
    }

    /// Why its branch must not move now.
    pub(super) fn held(&self) -> Option<String> {
        if self.state == "locked" {
            return Some("it is being merged right now".into());
        }
        if self.merge_when_pipeline_succeeds == Some(true) {
            return Some("it is set to be merged by itself, or in the merge train".into());
        }
        held_by_label(self.labels.iter().map(String::as_str))
    }

    /// Whether GitLab has yet to find out if it can be merged.
    pub(super) fn is_being_checked(&self) -> bool {
        let known = self.detailed_merge_status.as_deref().or(self.merge_status.as_deref());
        matches!(
            known,
            Some(
                "unchecked"
                    | "checking"
                    | "preparing"
                    | "cannot_be_merged_recheck"
                    | "cannot_be_merged_rechecking"
            )
        )
    }

    /// It cannot be merged as it is. What is not known yet is no conflict.
    pub(super) fn conflicts(&self) -> bool {
        if self.is_being_checked() {
            return false;
        }
        self.has_conflicts == Some(true) || self.detailed_merge_status.as_deref() == Some("conflict")
    }
}

/// Who approved a merge request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Approvals {
    #[serde(default, deserialize_with = "or_default")]
    pub(super) approved_by: Vec<Approval>,
}

/// One approval. GitLab takes them back when the branch moves, or lets them stand for what is there then.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Approval {
    pub(super) user: User,
}

/// A comment, or a line about what happened (`system`).
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Note {
    pub(super) id: u64,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) body: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) author: User,
    #[serde(default)]
    pub(super) system: bool,
    #[serde(default)]
    pub(super) created_at: String,
    #[serde(default)]
    pub(super) updated_at: String,
    #[serde(default)]
    pub(super) internal: Option<bool>,
    /// What `internal` was called before.
    #[serde(default)]
    pub(super) confidential: Option<bool>,
}

/// What GitLab puts in front of a draft's title.
const DRAFT: &str = "Draft: ";

/// A title without the marks of a draft, which GitLab knows in several spellings.
pub(super) fn bare(title: &str) -> &str {
    let mut rest = title.trim();
    while let Some(less) = ["draft:", "[draft]", "(draft)", "wip:", "[wip]"].iter().find_map(|mark| {
        let start = rest.get(..mark.len())?;
        start.eq_ignore_ascii_case(mark).then(|| rest[mark.len()..].trim_start())
    }) {
        rest = less;
    }
    rest
}

/// The title that GitLab takes for a draft, or for none.
pub(super) fn marked(title: &str, draft: bool) -> String {
    if draft { format!("{DRAFT}{}", bare(title)) } else { bare(title).to_owned() }
}

/// An issue.
#[derive(Debug, Deserialize)]
pub(super) struct Issue {
    iid: u64,
    title: String,
    description: Option<String>,
    state: String,
    web_url: String,
}

impl Issue {
    /// The same in the words of both forges.
    pub(super) fn shown(self) -> board::Issue {
        board::Issue {
            number: self.iid,
            title: self.title,
            body: self.description.unwrap_or_default(),
            open: self.state == "opened",
            url: self.web_url,
        }
    }
}

/// What was reported for a commit.
#[derive(Debug, Deserialize)]
pub(super) struct Status {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) status: String,
    pub(super) description: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_bare_in_every_spelling_of_a_draft() {
        for title in
            ["Share", "Draft: Share", "draft:Share", "[Draft] Share", "(Draft) Share", "WIP: Draft: Share"]
        {
            assert_eq!(bare(title), "Share");
        }
        assert_eq!(bare("Drafting rules"), "Drafting rules");
        assert_eq!(bare("Dräft: x"), "Dräft: x");
        assert_eq!(marked("Share", true), "Draft: Share");
        assert_eq!(marked("Draft: Share", true), "Draft: Share");
        assert_eq!(marked("Draft: Share", false), "Share");
    }

    #[test]
    fn what_is_not_known_yet_is_no_conflict() {
        let request = |status: &str, conflicts| MergeRequest {
            detailed_merge_status: Some(status.into()),
            has_conflicts: Some(conflicts),
            ..MergeRequest::default()
        };
        assert!(request("conflict", true).conflicts());
        assert!(request("not_approved", true).conflicts());
        assert!(!request("checking", true).conflicts());
        assert!(request("checking", true).is_being_checked());
        assert!(!request("mergeable", false).conflicts());
    }

    #[test]
    fn a_merge_request_that_is_being_merged_is_held() {
        let request = MergeRequest { state: "opened".into(), ..MergeRequest::default() };
        assert_eq!(request.held(), None);
        assert!(MergeRequest { state: "locked".into(), ..request.clone() }.held().is_some());
        assert!(
            MergeRequest { merge_when_pipeline_succeeds: Some(true), ..request.clone() }.held().is_some()
        );
        assert!(MergeRequest { labels: vec!["slicewright/hold".into()], ..request }.held().is_some());
    }

    #[test]
    fn what_is_null_is_nothing() {
        let commit = r#"{"id":"a","parent_ids":null,"author_email":null,"stats":null}"#;
        assert!(serde_json::from_str::<Commit>(commit).unwrap().parent_ids.is_empty());
        let request = r#"{"iid":1,"title":"t","state":"opened","target_branch":"main","labels":null,"author":null,"description":null,"prepared_at":null}"#;
        assert_eq!(serde_json::from_str::<MergeRequest>(request).unwrap().body(), "");
        assert_eq!(serde_json::from_str::<Project>(r#"{"id":7,"permissions":null}"#).unwrap().id, 7);
    }
}
