//! Any text as a configuration: settings or an error that names the file, never a panic.

use slicewright::settings::ServiceSettings;

pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(error) = ServiceSettings::parse(text, "slicewright.yaml", std::path::Path::new(".")) {
        assert!(error.to_string().contains("slicewright.yaml"));
    }
}
