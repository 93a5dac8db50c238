//! Parses arguments, starts logging, turns the outcome into an exit code.

use std::process::ExitCode;

use clap::Parser as _;
use slicewright::cli;

fn main() -> ExitCode {
    let args = cli::args::Args::parse();
    let level = match args.verbose {
        0 => "warn",
        1 => "info,slicewright=debug",
        _ => "debug",
    };
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(level));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).without_time().init();
    match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime.block_on(cli::run(args)),
        Err(error) => {
            tracing::error!(%error, "cannot start the runtime");
            ExitCode::FAILURE
        }
    }
}
