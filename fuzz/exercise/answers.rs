//! Any bytes as the answer of a Prometheus server: an answer or an error, never a panic.

pub(crate) fn run(data: &[u8]) {
    let _ = slicewright::prometheus::parse_answer(data);
}
