//! Any text as a configuration, of the service and of a repository: settings or an error that names the file, never a panic.

use slicewright::settings::ServiceSettings;
use slicewright::settings::repo::{PLACE, RepoSettings};

pub(crate) fn run(data: &[u8]) {
    if let Err(problem) = RepoSettings::parse(data) {
        assert!(problem.contains(PLACE) && !problem.contains('\n'), "{problem}");
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(error) = ServiceSettings::parse(text, "slicewright.yaml", std::path::Path::new(".")) {
        assert!(error.to_string().contains("slicewright.yaml"));
    }
}
