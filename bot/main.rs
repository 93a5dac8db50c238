//! Parses arguments, starts logging, turns the outcome into an exit code.

use std::process::ExitCode;

use clap::Parser as _;
use slicewright::cli;

fn main() -> ExitCode {
    let args = cli::args::Args::parse();
    let log = match cli::log::start(&args) {
        Ok(log) => log,
        Err(error) => return cli::refuse(&error),
    };
    let code = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
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
    };
    log.end();
    code
}
