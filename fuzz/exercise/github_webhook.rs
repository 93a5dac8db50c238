//! Any bytes as what GitHub tells, as every event that is read: news or a refusal.

use slicewright::forge::settings::RemoteKind;
use slicewright::forge::webhook::told;

const EVENTS: [&str; 9] = [
    "issue_comment",
    "issues",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "push",
    "ping",
    "installation",
    "installation_repositories",
];

pub(crate) fn run(data: &[u8]) {
    for name in EVENTS {
        assert_eq!(told(RemoteKind::GitHub, name, data), told(RemoteKind::GitHub, name, data));
    }
}
