//! The server: deliveries in, pages and figures out, and workers beside them.
//!
//! What a delivery means and what is done about it is the question of `engine::service`; here are HTTP and processes.

mod pages;

mod router;

mod telemetry;

mod webhook;

mod worker;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum_server::tls_rustls::RustlsConfig;
use jiff::Timestamp;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::engine::Engine;
use crate::engine::service::Service;
use crate::settings::server::TlsSettings;
use telemetry::Telemetry;

/// How long requests and jobs in work may take to end after somebody said stop. What is not done by then is done by the
/// next server, when the lease is over.
const LAST_SECONDS: Duration = Duration::from_secs(20);

/// How long the store may take to end its connections after that.
const LAST_ANSWER: Duration = Duration::from_secs(2);

/// How long a client may take to say what it wants.
const HEADER_TIME: Duration = Duration::from_secs(10);

/// What every handler needs.
#[derive(Clone)]
struct Shared {
    service: Arc<Service>,
    telemetry: Arc<Telemetry>,
}

/// Serves until somebody says stop (SIGTERM, SIGINT). With SIGHUP it goes on with what `reread` gives.
///
/// `ready` is told the address when it listens.
///
/// # Errors
/// When it cannot listen, or its memory cannot be written at the start.
pub async fn serve(
    service: Service,
    reread: impl Fn() -> anyhow::Result<Engine>,
    ready: impl FnOnce(&str),
) -> anyhow::Result<()> {
    // Before anything else: a signal that nobody waits for ends the process.
    let mut term = signal(SignalKind::terminate()).context("cannot wait for signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for signals")?;
    let mut hangup = signal(SignalKind::hangup()).context("cannot wait for signals")?;
    let service = Arc::new(service);
    let engine = service.engine();
    let settings = &engine.settings().server;
    let fixed = settings.fixed();
    let address: SocketAddr =
        settings.listen().parse().context("`server.listen` is no address with a port")?;
    let listener = std::net::TcpListener::bind(address).with_context(|| {
        format!("cannot listen on {address}: change `server.listen`, or end what listens there")
    })?;
    let address = listener.local_addr().context("cannot tell where it listens")?;
    let tls = match &settings.tls {
        None => None,
        Some(tls) => {
            // Whoever installed one before is right.
            let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
            let config = RustlsConfig::from_pem_file(&tls.certificate_file, &tls.key_file).await;
            Some(config.with_context(|| unusable(tls))?)
        }
    };
    service.set_up(Timestamp::now()).await.context("cannot write into the store")?;
    let telemetry = Arc::new(Telemetry::new());
    let shared = Shared { service: Arc::clone(&service), telemetry: Arc::clone(&telemetry) };
    let app = router::router(shared, engine.settings().server.pages.clone())?;
    let stop = CancellationToken::new();
    let workers = worker::start(&service, &telemetry, settings.workers(), &stop);

    let handle = axum_server::Handle::new();
    let scheme = if tls.is_some() { "https" } else { "http" };
    ready(&format!("{scheme}://{address}"));
    tell_systemd(&[sd_notify::NotifyState::Ready]);
    for (forge, path) in service.routes() {
        tracing::info!(forge, path, "takes deliveries");
    }
    let serving = listen(listener, tls.clone(), app, handle.clone());
    tokio::pin!(serving);
    loop {
        tokio::select! {
            ended = &mut serving => {
                ended.context("the server ended by itself")?;
                break;
            }
            _ = term.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => {
                let taken = async { take(&service, reread()?, &fixed, tls.as_ref()).await };
                match taken.await {
                    Ok(()) => tracing::info!("goes on with the configuration as it is now"),
                    Err(error) => tracing::error!("the configuration stays as it was: {error:#}"),
                }
            }
        }
    }
    tracing::info!("stopping");
    tell_systemd(&[sd_notify::NotifyState::Stopping]);
    stop.cancel();
    handle.graceful_shutdown(Some(LAST_SECONDS));
    let _ = tokio::join!(tokio::time::timeout(LAST_SECONDS, serving), workers.end(LAST_SECONDS));
    if tokio::time::timeout(LAST_ANSWER, service.close()).await.is_err() {
        tracing::warn!("the store does not answer: what it was not told is done again");
    }
    Ok(())
}

/// Goes on with another configuration; what holds only from the next start on is said.
async fn take(
    service: &Service,
    engine: Engine,
    fixed: &[(&'static str, String)],
    tls: Option<&RustlsConfig>,
) -> anyhow::Result<()> {
    let settings = engine.settings().server.clone();
    service.reload(engine)?;
    if let Err(error) = service.set_up(Timestamp::now()).await {
        tracing::error!("its schedules are not written down, send SIGHUP again: {error:#}");
    }
    if let (Some(config), Some(files)) = (tls, &settings.tls)
        && let Err(error) = load(config, files).await
    {
        tracing::error!("the certificate stays as it was: {error:#}");
    }
    let changed = fixed.iter().zip(settings.fixed()).filter(|(before, now)| **before != *now);
    for (_, (setting, _)) in changed {
        tracing::warn!("`server.{setting}` is another one now: that holds when the server starts anew");
    }
    Ok(())
}

/// Serves with the certificate and the key that are in the files now.
async fn load(config: &RustlsConfig, files: &TlsSettings) -> anyhow::Result<()> {
    let read = config.reload_from_pem_file(&files.certificate_file, &files.key_file).await;
    read.with_context(|| unusable(files))
}

fn unusable(files: &TlsSettings) -> String {
    let (certificate, key) = (files.certificate_file.display(), files.key_file.display());
    format!("`server.tls`: cannot use `{certificate}` with `{key}`")
}

async fn listen(
    listener: std::net::TcpListener,
    tls: Option<RustlsConfig>,
    app: axum::Router,
    handle: axum_server::Handle<SocketAddr>,
) -> std::io::Result<()> {
    match tls {
        None => {
            let mut server =
                axum_server::from_tcp(listener)?.handle(handle).first_request_timeout(HEADER_TIME);
            patience(&mut server);
            server.serve(app.into_make_service()).await
        }
        Some(tls) => {
            let server = axum_server::from_tcp_rustls(listener, tls)?;
            let mut server = server.handle(handle).first_request_timeout(HEADER_TIME);
            patience(&mut server);
            server.serve(app.into_make_service()).await
        }
    }
}

fn patience<A: axum_server::Address, B>(server: &mut axum_server::Server<A, B>) {
    let timer = hyper_util::rt::TokioTimer::new();
    server.http_builder().http1().timer(timer).header_read_timeout(HEADER_TIME).max_buf_size(64 << 10);
}

/// Tells systemd, where that started it.
fn tell_systemd(states: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!("nobody is told that it runs: {error}");
    }
}
