//! `slicewright replay`.

use super::args::ReplayArgs;
use super::out::Out;
use super::progress::Bar;
use super::propose::{draw, exit_code, show};
use crate::engine::Engine;
use crate::engine::propose::Wishes;

pub(super) async fn run(args: &ReplayArgs, out: &mut Out) -> anyhow::Result<u8> {
    let recording = super::read_recording(&args.recording)?;
    let engine = super::engine_of(&recording)?;
    let inputs = Engine::replayed(&recording);
    let wishes = Wishes {
        cluster: args.cluster.clone(),
        pool: args.pool.clone(),
        asked: args.pool.is_some(),
        dry_run: true,
    };
    let report = engine.propose(&inputs, &wishes, &Bar::silent()).await?;
    show(&report, args.output, true, out)?;
    draw(&engine, &report, args.pictures.as_deref())?;
    Ok(exit_code(&report, args.fail_on))
}
