//! Any bytes as what GitLab tells, as every event that is read: news or a refusal.

use slicewright::forge::settings::RemoteKind;
use slicewright::forge::webhook::told;

const EVENTS: [&str; 5] = ["Note Hook", "Issue Hook", "Merge Request Hook", "Push Hook", "System Hook"];

pub(crate) fn run(data: &[u8]) {
    for name in EVENTS {
        assert_eq!(told(RemoteKind::GitLab, name, data), told(RemoteKind::GitLab, name, data));
    }
}
