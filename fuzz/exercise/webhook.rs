//! Any bytes as a webhook of either forge, and any text as a comment: news or a refusal, never a panic.

use slicewright::forge::settings::RemoteKind;
use slicewright::forge::webhook::{Event, News, What, told};
use slicewright_core::review::command::parse;

/// Events whose payloads are read.
const EVENTS: [(RemoteKind, &str); 8] = [
    (RemoteKind::GitHub, "issue_comment"),
    (RemoteKind::GitHub, "pull_request"),
    (RemoteKind::GitHub, "pull_request_review"),
    (RemoteKind::GitHub, "push"),
    (RemoteKind::GitHub, "installation"),
    (RemoteKind::GitLab, "Note Hook"),
    (RemoteKind::GitLab, "Merge Request Hook"),
    (RemoteKind::GitLab, "Push Hook"),
];

pub(crate) fn run(data: &[u8]) {
    for (kind, name) in EVENTS {
        if let Ok(News::Event(Event { what: What::Comment { text, .. }, .. })) = told(kind, name, data) {
            let _ = parse(&text, "slicewright");
        }
    }
    let _ = parse(&String::from_utf8_lossy(data), "slicewright");
}
