//! Any bytes as a recording, packed or not: what is read packs to what is read again.

use slicewright::engine::recording::Recording;

pub(crate) fn run(data: &[u8]) {
    // The fuzzer does not find its way through compression: the lines alone reach the parser.
    for read in [Recording::from_bytes(data), Recording::from_lines(data)] {
        let Ok(recording) = read else { continue };
        let bytes = recording.to_bytes().expect("what was read can be written");
        assert_eq!(Recording::from_bytes(&bytes).expect("what was written can be read"), recording);
    }
}
