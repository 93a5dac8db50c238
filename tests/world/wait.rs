//! Waiting for a state: the one place in the tests that may sleep.

use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(20);

/// Asks until there is an answer; panics, naming what was waited for, when there is none within `seconds`.
pub(crate) fn until<T>(seconds: u64, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited {seconds} s in vain for {what}");
        std::thread::sleep(PAUSE);
    }
}

/// As [`until`], for tests that run on tokio.
pub(crate) async fn until_async<T>(seconds: u64, what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited {seconds} s in vain for {what}");
        tokio::time::sleep(PAUSE).await;
    }
}
