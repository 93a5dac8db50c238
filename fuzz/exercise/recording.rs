//! Any bytes as a recording: what is read packs to what is read again.

use slicewright::engine::recording::Recording;

pub(crate) fn run(data: &[u8]) {
    if let Ok(recording) = Recording::from_bytes(data) {
        let bytes = recording.to_bytes().expect("what was read can be written");
        assert_eq!(Recording::from_bytes(&bytes).expect("what was written can be read"), recording);
    }
}
