//! The log on standard error, and traces where somebody collects them.

use std::io::IsTerminal as _;
use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{FilterExt as _, Targets, filter_fn};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use super::args::{Args, Command, LogFormat};
use crate::engine::VERSION;

/// Where the collector is, as the OpenTelemetry specification names the variables; either switches traces on.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];

/// How long the last traces may take to arrive.
const LAST_TRACES: Duration = Duration::from_secs(3);

/// What is logged from here on. [`Log::end`] sends what is left.
pub struct Log(Option<SdkTracerProvider>);

/// Starts the log, and traces where an environment variable of the OpenTelemetry specification says where they go.
///
/// Outside any runtime: traces are sent from a thread of their own.
///
/// # Errors
/// When the variables say something that cannot be meant.
pub fn start(args: &Args) -> anyhow::Result<Log> {
    let format = match &args.command {
        Command::Serve(serve) => Some(serve.log_format),
        Command::Demo(_)
        | Command::Propose(_)
        | Command::Record(_)
        | Command::Replay(_)
        | Command::Explain(_)
        | Command::Doctor(_)
        | Command::Catalog(_)
        | Command::Schema => None,
    };
    let level = match args.verbose {
        // Nobody watches a server: what it did is in its log.
        0 if format.is_some() => "warn,slicewright=info",
        0 => "warn",
        1 => "info,slicewright=debug",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let colours =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    let lines = match format {
        Some(LogFormat::Json) => lines.json().boxed(),
        Some(LogFormat::Text) => lines.boxed(),
        None => lines.without_time().boxed(),
    };
    let provider = provider()?;
    let traces = provider.as_ref().map(|provider| {
        tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("slicewright"))
            .with_location(false)
            .with_threads(false)
            // Whatever the log leaves out; and of our own alone, since to send traces is a request too.
            .with_filter(Targets::new().with_target("slicewright", LevelFilter::INFO))
    });
    // The driver warns of parameters of the database's URL that it does not know, with their values.
    let secret = filter_fn(|meta| !meta.target().starts_with("sqlx_postgres::options"));
    tracing_subscriber::registry().with(lines.with_filter(filter.and(secret))).with(traces).init();
    Ok(Log(provider))
}

fn provider() -> anyhow::Result<Option<SdkTracerProvider>> {
    let said = |name: &str| std::env::var(name).unwrap_or_default();
    let disabled = said("OTEL_SDK_DISABLED").eq_ignore_ascii_case("true");
    if disabled || ENDPOINTS.iter().all(|name| said(name).is_empty()) {
        return Ok(None);
    }
    let exporter = SpanExporter::builder()
        .with_http()
        .build()
        .map_err(|error| anyhow::anyhow!("traces cannot be sent: check the variables `OTEL_…`: {error}"))?;
    let version = opentelemetry::KeyValue::new("service.version", VERSION);
    let mut resource = Resource::builder().with_attribute(version);
    if said("OTEL_SERVICE_NAME").is_empty() && !said("OTEL_RESOURCE_ATTRIBUTES").contains("service.name=") {
        resource = resource.with_service_name("slicewright");
    }
    let provider = SdkTracerProvider::builder().with_resource(resource.build());
    Ok(Some(provider.with_batch_exporter(exporter).build()))
}

impl Log {
    /// Sends the traces that are left.
    pub fn end(self) {
        let Some(provider) = self.0 else { return };
        if let Err(error) = provider.shutdown_with_timeout(LAST_TRACES) {
            tracing::warn!("the last traces were not sent: {error}");
        }
    }
}
