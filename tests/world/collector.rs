//! What takes traces, as an OpenTelemetry collector does over HTTP.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use axum::extract::State;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

/// A collector that listens; it ends when it is dropped.
pub(crate) struct Collector {
    address: std::net::SocketAddr,
    taken: Taken,
    /// Ends the server with it.
    _runtime: tokio::runtime::Runtime,
}

type Taken = Arc<Mutex<Vec<ExportTraceServiceRequest>>>;

impl Collector {
    pub(crate) fn start() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind(("127.0.0.1", 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let taken = Taken::default();
        let app =
            axum::Router::new().route("/v1/traces", axum::routing::post(take)).with_state(Arc::clone(&taken));
        runtime.spawn(async move { axum::serve(listener, app).await });
        Self { address, taken, _runtime: runtime }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it was sent so far, as the attributes of the sender and its spans.
    pub(crate) fn taken(&self) -> Vec<(Vec<KeyValue>, Vec<Span>)> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let all = taken.iter().flat_map(|request| &request.resource_spans);
        all.map(|of| {
            let sender = of.resource.as_ref().map(|resource| resource.attributes.clone()).unwrap_or_default();
            (sender, of.scope_spans.iter().flat_map(|scope| scope.spans.clone()).collect())
        })
        .collect()
    }
}

async fn take(State(taken): State<Taken>, body: Bytes) {
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    taken.lock().unwrap_or_else(PoisonError::into_inner).push(request);
}

/// The text that an attribute has.
pub(crate) fn attribute<'a>(all: &'a [KeyValue], name: &str) -> Option<&'a str> {
    match &all.iter().find(|one| one.key == name)?.value {
        Some(AnyValue { value: Some(Value::StringValue(text)) }) => Some(text),
        _ => None,
    }
}
