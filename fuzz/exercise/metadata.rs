//! Any text as a proposal: the hidden block is read or not, and what is written is read back.

use slicewright_core::review::metadata::{Metadata, strip};

pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(found) = Metadata::parse(text) {
        let again =
            Metadata::parse(&found.clone().attach(&strip(text), None)).expect("what was written is read");
        assert_eq!(again.fingerprint, found.fingerprint);
    }
}
