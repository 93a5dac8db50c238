//! A forge as tests meet it: real git repositories, and merge requests, people and comments in memory, behind the HTTP
//! interface of GitHub or GitLab.
//!
//! `state` is what both faces show and change; a face turns one call into one reply. What a face asks of its callers
//! (the published schemas) is checked for every call and every reply: what breaks a rule is kept, and the test fails when
//! the forge is dropped.

pub(crate) mod state;

pub(crate) mod people;

pub(crate) mod hooks;

pub(crate) mod faults;

pub(crate) mod git_http;

pub(crate) mod github;

pub(crate) mod gitlab;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sha2::Digest as _;

use faults::{Fault, Faults};
use state::State;

/// Which forge it looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Face {
    GitHub,
    GitLab,
}

/// One request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: String,
    /// As sent, with its percent-encoding.
    pub(crate) path: String,
    /// Decoded.
    pub(crate) query: Vec<(String, String)>,
    pub(crate) raw_query: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Call {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn asked(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or(serde_json::Value::Null)
    }

    /// The parts of the path, decoded one by one, so that an encoded slash stays inside its part.
    pub(crate) fn parts(&self) -> Vec<String> {
        self.path.split('/').filter(|part| !part.is_empty()).map(decoded).collect()
    }

    pub(crate) fn reads(&self) -> bool {
        self.method == "GET" || self.method == "HEAD"
    }
}

/// One answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(status: u16, value: &serde_json::Value) -> Self {
        let headers = vec![("content-type".to_owned(), "application/json; charset=utf-8".to_owned())];
        Self { status, headers, body: serde_json::to_vec(value).unwrap() }
    }

    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// What was asked and answered, in order.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) status: u16,
}

/// A forge that listens. It ends when it is dropped, and fails the test then if a rule was broken.
pub(crate) struct FakeForge {
    face: Face,
    address: std::net::SocketAddr,
    shared: Arc<Shared>,
    /// Ends the server with it.
    _runtime: tokio::runtime::Runtime,
}

struct Shared {
    face: Face,
    state: Mutex<State>,
    faults: Mutex<Option<Faults>>,
    log: Mutex<Vec<Line>>,
    /// Seconds spent on answers.
    busy: Mutex<f64>,
    broken: Mutex<Vec<String>>,
}

impl FakeForge {
    /// Serves `state` on a port of its own on the loopback.
    pub(crate) fn start(face: Face, mut state: State) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind(("127.0.0.1", 0))).unwrap();
        let address = listener.local_addr().unwrap();
        state.url = format!("http://{address}");
        let shared = Arc::new(Shared {
            face,
            state: Mutex::new(state),
            faults: Mutex::new(None),
            log: Mutex::new(Vec::new()),
            busy: Mutex::new(0.0),
            broken: Mutex::new(Vec::new()),
        });
        let served = Arc::clone(&shared);
        runtime.spawn(listen(listener, move |call| faulty(&served, call)));
        Self { face, address, shared, _runtime: runtime }
    }

    pub(crate) fn face(&self) -> Face {
        self.face
    }

    /// `http://127.0.0.1:4711`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The state, to look at or to change as a person would. No request is answered meanwhile.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared.state)
    }

    /// From now on answers go wrong as `faults` says; `None` ends that, and lets late calls arrive.
    pub(crate) fn set_faults(&self, faults: Option<Faults>) {
        let late = std::mem::replace(&mut *lock(&self.shared.faults), faults).map(|faults| faults.late);
        for call in late.unwrap_or_default() {
            self.shared.answer(&call);
        }
    }

    /// The person of [`Faults::person_before`] has come.
    pub(crate) fn person_came(&self) -> bool {
        lock(&self.shared.faults).as_ref().is_none_or(Faults::person_came)
    }

    /// How often it was asked since [`FakeForge::take_log`].
    pub(crate) fn n_asked(&self) -> usize {
        lock(&self.shared.log).len()
    }

    /// What was asked since the last time that this was called.
    pub(crate) fn take_log(&self) -> Vec<Line> {
        std::mem::take(&mut *lock(&self.shared.log))
    }
}

impl FakeForge {
    /// Seconds that were spent on answers since the last time that this was called, one after another.
    pub(crate) fn take_busy(&self) -> f64 {
        std::mem::take(&mut *lock(&self.shared.busy))
    }
}

impl Drop for FakeForge {
    fn drop(&mut self) {
        let broken = std::mem::take(&mut *lock(&self.shared.broken));
        if !std::thread::panicking() {
            assert!(broken.is_empty(), "rules of {:?} were broken:\n{}", self.face, broken.join("\n"));
        } else if !broken.is_empty() {
            #[expect(clippy::print_stderr, reason = "a test that fails says all it knows")]
            {
                eprintln!("rules of {:?} were broken:\n{}", self.face, broken.join("\n"));
            }
        }
    }
}

impl Shared {
    /// The face's reply, checked, with what every forge does for every reply.
    fn answer(&self, call: &Call) -> Reply {
        let mut state = lock(&self.state);
        let started = std::time::Instant::now();
        let mut broken = Vec::new();
        let mut reply = match git_http::repository_of(call) {
            Some(_) => git_http::answer(&mut state, call),
            None => match self.face {
                Face::GitHub => github::answer(&mut state, call, &mut broken),
                Face::GitLab => gitlab::answer(&mut state, call, &mut broken),
            },
        };
        drop(state);
        *lock(&self.busy) += started.elapsed().as_secs_f64();
        lock(&self.broken).extend(broken);
        if call.reads() && reply.status == 200 {
            let tag: String =
                sha2::Sha256::digest(&reply.body).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            let tag = format!("W/\"{tag}\"");
            if call.header("if-none-match") == Some(&tag) {
                reply = Reply { status: 304, ..Reply::default() };
            }
            reply = reply.with("etag", &tag);
        }
        let line = Line { method: call.method.clone(), path: call.path.clone(), status: reply.status };
        lock(&self.log).push(line);
        reply
    }
}

/// A fault that ends the connection.
#[derive(Debug)]
pub(crate) struct Dropped;

impl std::fmt::Display for Dropped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the connection was dropped on purpose")
    }
}

impl std::error::Error for Dropped {}

/// Answers every call until the runtime ends.
pub(crate) async fn listen(
    listener: tokio::net::TcpListener,
    answer: impl Fn(Call) -> Result<Reply, Dropped> + Send + Sync + 'static,
) {
    let answer = Arc::new(answer);
    while let Ok((stream, _)) = listener.accept().await {
        let answer = Arc::clone(&answer);
        tokio::spawn(async move {
            let service = service_fn(move |request| serve(Arc::clone(&answer), request));
            let connection =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            // A fault ends the connection with an error, as it should.
            drop(connection.await);
        });
    }
}

async fn serve(
    answer: Arc<impl Fn(Call) -> Result<Reply, Dropped> + Send + Sync + 'static>,
    request: hyper::Request<hyper::body::Incoming>,
) -> Result<hyper::Response<Full<Bytes>>, Dropped> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Dropped)?.to_bytes().to_vec();
    let raw_query = parts.uri.query().unwrap_or_default().to_owned();
    let call = Call {
        method: parts.method.as_str().to_owned(),
        path: parts.uri.path().to_owned(),
        query: pairs(&raw_query),
        raw_query,
        headers: (parts.headers.iter())
            .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into()))
            .collect(),
        body,
    };
    let reply = tokio::task::spawn_blocking(move || answer(call)).await.map_err(|_| Dropped)??;
    let mut response = hyper::Response::builder().status(reply.status);
    for (name, value) in &reply.headers {
        response = response.header(name, value);
    }
    response.body(Full::new(Bytes::from(reply.body))).map_err(|_| Dropped)
}

/// The reply, unless a fault comes between.
fn faulty(shared: &Shared, call: Call) -> Result<Reply, Dropped> {
    let fault = lock(&shared.faults).as_mut().and_then(|faults| faults.next(&call));
    let answered = |call: &Call| {
        let reply = shared.answer(call);
        let mut faults = lock(&shared.faults);
        let Some(known) = faults.as_mut() else { return reply };
        if call.reads() {
            known.remember(call, &reply);
        }
        let late = std::mem::take(&mut known.late);
        drop(faults);
        // What was held back arrives after somebody else's call.
        for call in late {
            shared.answer(&call);
        }
        reply
    };
    match fault {
        None => Ok(answered(&call)),
        Some(Fault::Refuse(reply)) => Ok(reply),
        Some(Fault::RefuseAfter(reply)) => {
            answered(&call);
            Ok(reply)
        }
        Some(Fault::Drop) => Err(Dropped),
        Some(Fault::DropAfter) => {
            answered(&call);
            Err(Dropped)
        }
        Some(Fault::Twice) => {
            answered(&call);
            Ok(answered(&call))
        }
        Some(Fault::Late) => {
            if let Some(faults) = lock(&shared.faults).as_mut() {
                faults.late.push(call);
            }
            Err(Dropped)
        }
        Some(Fault::Stale(reply)) => Ok(reply),
        Some(Fault::After(person)) => {
            person(&mut lock(&shared.state));
            Ok(answered(&call))
        }
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pairs(query: &str) -> Vec<(String, String)> {
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(&key.replace('+', " ")), decoded(&value.replace('+', " ")))
    };
    query.split('&').filter(|pair| !pair.is_empty()).map(pair).collect()
}

/// Without percent-encoding.
pub(crate) fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = text.get(at + 1..at + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code.filter(|_| bytes[at] == b'%') {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
