//! Takes the webhooks that a forge delivers, as they come.

use std::sync::{Arc, Mutex, PoisonError};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::forge::{Call, Reply, listen};
use super::wait::until;

/// A place to deliver to, on a loopback port of its own.
pub(crate) struct Deliveries {
    url: String,
    taken: Arc<Mutex<Vec<Call>>>,
    /// Ends the server with it.
    _runtime: tokio::runtime::Runtime,
}

impl Deliveries {
    pub(crate) fn take() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind(("127.0.0.1", 0))).unwrap();
        let url = format!("http://{}/hooks", listener.local_addr().unwrap());
        let taken = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&taken);
        runtime.spawn(listen(listener, move |call| {
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(call);
            Ok(Reply { status: 202, ..Reply::default() })
        }));
        Self { url, taken, _runtime: runtime }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Waits for the delivery of an event (`X-GitHub-Event`) about which `wanted` holds.
    pub(crate) fn wait_for(&self, event: &str, wanted: impl Fn(&serde_json::Value) -> bool) -> Call {
        until(30, &format!("the delivery of `{event}`"), || {
            let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
            taken
                .iter()
                .find(|call| call.header("x-github-event") == Some(event) && wanted(&call.json()))
                .cloned()
        })
    }
}

/// Whether `signature` (`sha256=` and 64 digits) is that of the very bytes of `body` with `secret`.
pub(crate) fn is_signed(body: &[u8], signature: &str, secret: &str) -> bool {
    let digits = signature.strip_prefix("sha256=").unwrap_or_default();
    let byte = |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let Some(bytes) = (0..digits.len()).step_by(2).map(byte).collect::<Option<Vec<u8>>>() else {
        return false;
    };
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
    mac.chain_update(body).verify_slice(&bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::is_signed;

    /// The example of GitHub's documentation, *Validating webhook deliveries*.
    #[test]
    fn githubs_own_example_is_signed_and_nothing_near_it() {
        let secret = "It's a Secret to Everybody";
        let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        assert!(is_signed(b"Hello, World!", signature, secret));
        assert!(!is_signed(b"Hello, World!\n", signature, secret));
        assert!(!is_signed(b"Hello, World!", signature, "another"));
        for wrong in ["", "sha256=", &signature[..70], "sha1=757107ea0eb2509fc211221cce984b8a37570b6d"] {
            assert!(!is_signed(b"Hello, World!", wrong, secret), "{wrong}");
        }
    }
}
