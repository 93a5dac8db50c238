//! Parses arguments, starts logging, turns the outcome into an exit code.

use std::process::ExitCode;

use clap::Parser as _;
use slicewright::cli;

fn main() -> ExitCode {
    let args = cli::args::Args::parse();
    let serves = matches!(args.command, cli::args::Command::Serve(_));
    let level = match args.verbose {
        // Nobody watches a server: what it did is in its log.
        0 if serves => "warn,slicewright=info",
        0 => "warn",
        1 => "info,slicewright=debug",
        _ => "debug",
    };
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(level));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match &args.command {
        cli::args::Command::Serve(serve) if serve.log_format == cli::args::LogFormat::Json => {
            log.json().init()
        }
        cli::args::Command::Serve(_) => log.init(),
        _ => log.without_time().init(),
    }
    match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(cli::run(args));
            // What a server left in the middle is done again by the next one.
            runtime.shutdown_background();
            code
        }
        Err(error) => {
            tracing::error!(%error, "cannot start the runtime");
            ExitCode::FAILURE
        }
    }
}
