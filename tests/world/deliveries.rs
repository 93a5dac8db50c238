//! Takes the webhooks that a forge delivers, as they come.

use std::sync::{Arc, Mutex, PoisonError};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use secrecy::SecretString;
use slicewright::forge::settings::RemoteKind;
use slicewright::forge::webhook::{self, Delivery, Rejected, Secrets};

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

/// What the bot makes of a delivery that came, where its hook has `secret`.
pub(crate) fn read(call: &Call, secret: &str) -> Result<Delivery, Rejected> {
    let header = |(name, value): &(String, String)| {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        (name, HeaderValue::from_bytes(value.as_bytes()).unwrap())
    };
    let headers: HeaderMap = call.headers.iter().map(header).collect();
    let secrets = Secrets { signing: vec![SecretString::from(secret)], ..Secrets::default() };
    webhook::read(RemoteKind::GitHub, &headers, &call.body, &secrets, jiff::Timestamp::now())
}
