//! The one test binary.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends there; `expect` names an invariant")]
#![expect(clippy::cast_precision_loss, reason = "counts and MiB of the tests are far below 2^53")]

mod fuzzed;
mod journeys;
mod tidy;
mod world;
