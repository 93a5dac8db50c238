//! The command line: arguments in, text and an exit code out.

pub mod args;

pub mod log;

mod out;

mod progress;

mod json;

mod propose;

mod record;

mod replay;

mod serve;

mod explain;

mod doctor;

mod catalog;

mod demo;

use std::process::ExitCode;

use anyhow::Context as _;
use jiff::Timestamp;

use crate::engine::recording::Recording;
use crate::engine::{Engine, Inputs};
use crate::settings::ServiceSettings;
use args::{Args, Command, From};
use out::Out;

/// Done, or nothing to do.
const DONE: u8 = 0;
/// Something went wrong.
const FAILED: u8 = 1;
/// There are findings, and the caller asked to fail on them.
const FINDINGS: u8 = 3;

/// Runs one command. Wrong usage has ended before with exit code 2, as `clap` does it.
pub async fn run(args: Args) -> ExitCode {
    let mut out = Out::new();
    let result = match args.command {
        Command::Demo(args) => demo::run(&args, &mut out).await,
        Command::Propose(args) => propose::run(&args, &mut out).await,
        Command::Record(args) => record::run(&args, &mut out).await,
        Command::Replay(args) => replay::run(&args, &mut out).await,
        Command::Explain(args) => explain::run(&args, &mut out).await,
        Command::Doctor(args) => doctor::run(&args, &mut out).await,
        Command::Serve(args) => serve::run(&args, &mut out).await,
        Command::Catalog(args) => catalog::run(&args, &mut out),
        Command::Schema => out.line(&json::schema()).map(|()| DONE),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            out.error(&error);
            ExitCode::from(FAILED)
        }
    }
}

/// Tells why nothing was begun.
pub fn refuse(error: &anyhow::Error) -> ExitCode {
    Out::new().error(error);
    ExitCode::from(FAILED)
}

/// An engine and its inputs: live from a configuration, or from a recording.
async fn open(from: &From, at: Option<Timestamp>, cluster: Option<&str>) -> anyhow::Result<(Engine, Inputs)> {
    match &from.recording {
        Some(path) => {
            let recording = read_recording(path)?;
            let engine = engine_of(&recording)?;
            Ok((engine, Engine::replayed(&recording)))
        }
        None => {
            let (settings, _) = ServiceSettings::load(&from.config)?;
            let engine = Engine::new(settings)?;
            let inputs = engine.live(cluster, at.unwrap_or_else(now))?;
            Ok((engine, inputs))
        }
    }
}

fn read_recording(path: &std::path::Path) -> anyhow::Result<Recording> {
    let bytes =
        std::fs::read(path).with_context(|| format!("cannot read the recording `{}`", path.display()))?;
    Recording::from_bytes(&bytes).with_context(|| format!("cannot use the recording `{}`", path.display()))
}

fn engine_of(recording: &Recording) -> anyhow::Result<Engine> {
    let settings = ServiceSettings::parse(
        &recording.config,
        "the recording's configuration",
        std::path::Path::new("."),
    )?;
    Engine::with_catalog_files(settings, recording.catalog_files.clone())
}

/// The present, in whole minutes, so that a rerun within the minute asks the same questions.
fn now() -> Timestamp {
    let now = Timestamp::now();
    now.round(jiff::TimestampRound::new().smallest(jiff::Unit::Minute).mode(jiff::RoundMode::Trunc))
        .unwrap_or(now)
}

/// Splits `namespace/name`.
fn parse_workload(text: &str) -> anyhow::Result<(String, String)> {
    match text.split('/').collect::<Vec<_>>().as_slice() {
        [namespace, name] if !namespace.is_empty() && !name.is_empty() => {
            Ok(((*namespace).to_owned(), (*name).to_owned()))
        }
        _ => anyhow::bail!("`{text}` names no workload: write it as `namespace/name`"),
    }
}
