//! Parses arguments, starts tracing, turns the outcome into an exit code.
fn main() {}
