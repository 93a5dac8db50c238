//! What GitHub says, as far as it is needed. Unknown fields are passed over; what may be missing is optional.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::forge::remote::board;

#[derive(Debug, Deserialize)]
pub(super) struct Repository {
    pub(super) id: u64,
    pub(super) full_name: String,
    pub(super) node_id: String,
    pub(super) default_branch: Option<String>,
    #[serde(default)]
    pub(super) archived: bool,
    #[serde(default)]
    pub(super) private: bool,
    #[serde(default)]
    pub(super) disabled: bool,
    /// Newer servers only.
    pub(super) has_pull_requests: Option<bool>,
    pub(super) permissions: Option<Permissions>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Permissions {
    pub(super) admin: bool,
    pub(super) maintain: bool,
    pub(super) push: bool,
    pub(super) triage: bool,
    pub(super) pull: bool,
}

/// What a person may do.
#[derive(Debug, Deserialize)]
pub(super) struct CollaboratorPermission {
    /// `admin`, `write`, `read` or `none`: older servers say this one only.
    pub(super) permission: String,
    /// The same in more words, or the name of a role that the organization made.
    pub(super) role_name: Option<String>,
    pub(super) user: Option<User>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Reference {
    /// `refs/heads/…`.
    #[serde(rename = "ref")]
    pub(super) name: String,
    pub(super) object: Object,
}

#[derive(Debug, Deserialize)]
pub(super) struct Object {
    pub(super) sha: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Tree {
    pub(super) sha: String,
    #[serde(default)]
    pub(super) tree: Vec<TreeEntry>,
    #[serde(default)]
    pub(super) truncated: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct TreeEntry {
    pub(super) path: String,
    pub(super) mode: String,
    pub(super) sha: String,
    pub(super) size: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Blob {
    content: String,
    encoding: String,
}

impl Blob {
    /// Its bytes; `None` when it is not packed as GitHub packs bytes: Base64 on several lines.
    pub(super) fn bytes(self) -> Option<Vec<u8>> {
        match self.encoding.as_str() {
            "utf-8" => Some(self.content.into_bytes()),
            "base64" => {
                let digits: Vec<u8> =
                    self.content.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
                STANDARD.decode(digits).ok()
            }
            _ => None,
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct GitCommit {
    pub(super) committer: Stamp,
    pub(super) message: String,
    pub(super) tree: Object,
    #[serde(default)]
    pub(super) parents: Vec<Parent>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Stamp {
    pub(super) date: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Comparison {
    pub(super) merge_base_commit: Object,
    pub(super) total_commits: usize,
    #[serde(default)]
    pub(super) commits: Vec<ComparedCommit>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ComparedCommit {
    pub(super) sha: String,
    pub(super) commit: People,
    #[serde(default)]
    pub(super) parents: Vec<Parent>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct People {
    pub(super) author: Option<Person>,
    pub(super) committer: Option<Person>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Person {
    pub(super) email: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Parent {
    pub(super) sha: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Pull {
    pub(super) number: u64,
    pub(super) node_id: String,
    pub(super) html_url: String,
    pub(super) title: String,
    /// `None` where it is empty.
    pub(super) body: Option<String>,
    pub(super) state: String,
    #[serde(default)]
    pub(super) draft: bool,
    pub(super) user: Option<User>,
    #[serde(default)]
    pub(super) labels: Vec<Label>,
    pub(super) merged_at: Option<String>,
    pub(super) updated_at: String,
    /// Set when it is to be merged as soon as it can be.
    pub(super) auto_merge: Option<serde::de::IgnoredAny>,
    pub(super) head: Side,
    pub(super) base: Side,
    /// Not in lists; `None` while it is being worked out.
    pub(super) mergeable: Option<bool>,
}

impl Pull {
    pub(super) fn is_open(&self) -> bool {
        self.state == "open"
    }

    /// Its text, with the line ends that were sent.
    pub(super) fn text(&self) -> String {
        self.body.as_deref().unwrap_or_default().replace("\r\n", "\n")
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Side {
    #[serde(rename = "ref")]
    pub(super) branch: String,
    pub(super) sha: String,
    /// `None` when the fork is gone.
    pub(super) repo: Option<Named>,
}

impl Side {
    /// The branch lies in the repository `acme/infra`, and not in a fork.
    pub(super) fn is_in(&self, repository: &str) -> bool {
        self.repo.as_ref().is_some_and(|repo| repo.full_name.eq_ignore_ascii_case(repository))
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Named {
    pub(super) full_name: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct User {
    pub(super) id: u64,
    pub(super) login: String,
    /// `User`, `Bot`, `Organization`.
    #[serde(rename = "type", default)]
    pub(super) kind: String,
}

impl User {
    /// The account is a person's; the others are Apps, organizations, and accounts that were brought in from elsewhere.
    pub(super) fn is_person(&self) -> bool {
        self.kind == "User"
    }

    /// The account is an App's. Nobody else can have a name with brackets.
    pub(super) fn is_program(&self) -> bool {
        self.kind == "Bot" && self.login.ends_with("[bot]")
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Label {
    pub(super) name: String,
}

/// Who moved a branch.
#[derive(Debug, Deserialize)]
pub(super) struct Move {
    /// `refs/heads/…`.
    #[serde(rename = "ref")]
    pub(super) branch: String,
    pub(super) after: String,
    pub(super) actor: Option<User>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Review {
    pub(super) user: Option<User>,
    pub(super) state: String,
    pub(super) commit_id: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Comment {
    pub(super) id: u64,
    pub(super) user: Option<User>,
    pub(super) body: Option<String>,
    pub(super) created_at: String,
    pub(super) updated_at: String,
}

/// A webhook of a repository.
#[derive(Debug, Deserialize)]
pub(super) struct Hook {
    pub(super) id: u64,
    #[serde(default)]
    pub(super) active: bool,
    pub(super) config: HookConfig,
    pub(super) last_response: Option<HookResponse>,
}

#[derive(Debug, Deserialize)]
pub(super) struct HookConfig {
    pub(super) url: Option<String>,
}

/// `code` is missing before the first delivery, and 0 where nothing answered.
#[derive(Debug, Deserialize)]
pub(super) struct HookResponse {
    pub(super) code: Option<u64>,
    pub(super) message: Option<String>,
}

/// One attempt to deliver.
#[derive(Debug, Deserialize)]
pub(super) struct Delivery {
    pub(super) id: u64,
    pub(super) guid: String,
    pub(super) delivered_at: String,
    /// In words.
    #[serde(default)]
    pub(super) status: String,
    /// 0 where nothing answered.
    pub(super) status_code: u64,
    pub(super) event: String,
    pub(super) repository_id: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Issue {
    number: u64,
    title: String,
    body: Option<String>,
    state: String,
    html_url: String,
    pub(super) user: Option<User>,
    /// Set for pull requests, which are listed among issues.
    pub(super) pull_request: Option<serde::de::IgnoredAny>,
}

impl Issue {
    /// The same in the words of both forges.
    pub(super) fn shown(self) -> board::Issue {
        board::Issue {
            number: self.number,
            title: self.title,
            body: self.body.unwrap_or_default(),
            open: self.state == "open",
            url: self.html_url,
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct CheckRuns {
    #[serde(default)]
    pub(super) check_runs: Vec<CheckRun>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CheckRun {
    pub(super) id: u64,
    pub(super) name: String,
    /// `None` while it runs.
    pub(super) conclusion: Option<String>,
    pub(super) output: CheckOutput,
    pub(super) app: Option<App>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CheckOutput {
    pub(super) title: Option<String>,
    pub(super) summary: Option<String>,
}

/// The newest status of each context.
#[derive(Debug, Deserialize)]
pub(super) struct CombinedStatus {
    #[serde(default)]
    pub(super) statuses: Vec<CommitStatus>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CommitStatus {
    pub(super) context: String,
    pub(super) state: String,
    pub(super) description: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Installation {
    pub(super) id: u64,
    #[serde(default)]
    pub(super) permissions: BTreeMap<String, String>,
}

/// Not to be shown.
#[derive(Deserialize)]
pub(super) struct Token {
    pub(super) token: String,
    pub(super) expires_at: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct App {
    pub(super) slug: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Rule {
    #[serde(rename = "type")]
    pub(super) kind: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct GraphQlAnswer {
    pub(super) data: Option<serde_json::Value>,
    #[serde(default)]
    pub(super) errors: Vec<GraphQlError>,
}

#[derive(Debug, Deserialize)]
pub(super) struct GraphQlError {
    #[serde(default)]
    pub(super) message: String,
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) extensions: Option<Extensions>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Extensions {
    pub(super) code: Option<String>,
}
