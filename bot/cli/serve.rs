//! `slicewright serve`: the program as a server.

use super::DONE;
use super::args::ServeArgs;
use super::out::Out;
use crate::engine::Engine;
use crate::engine::service::Service;
use crate::server;
use crate::settings::ServiceSettings;

pub(super) async fn run(args: &ServeArgs, out: &mut Out) -> anyhow::Result<u8> {
    let engine = || {
        let (settings, _) = ServiceSettings::load(&args.config)?;
        Engine::new(settings)
    };
    let service = Service::open(engine()?, args.at).await?;
    let ready = |address: &str| out.note(&format!("listening on {address}"));
    server::serve(service, engine, ready).await?;
    Ok(DONE)
}
