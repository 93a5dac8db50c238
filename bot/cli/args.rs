//! What may be written on the command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use jiff::Timestamp;

/// Finds workloads that hold a whole GPU and use a slice of it, and opens the merge request that gives them a slice.
///
/// Reads Prometheus and a git repository. Writes branches and merge requests of its own, nothing else, and never
/// talks to a cluster.
#[derive(Debug, Parser)]
#[command(name = "slicewright", version, max_term_width = 100, after_help = EXAMPLES)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Log more: -v for decisions, -vv for every question asked. Logs go to standard error.
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub verbose: u8,
}

const EXAMPLES: &str = "\
Examples:
  slicewright demo                                      see it work, without a network
  slicewright doctor --config slicewright.yaml          what metrics and repository lack
  slicewright propose --config slicewright.yaml --dry-run
  slicewright explain search/ranker --config slicewright.yaml
  slicewright record --config slicewright.yaml --to run.slicewright
  slicewright replay run.slicewright --output markdown
  slicewright serve --config slicewright.yaml           webhooks, commands in comments, a schedule, pages

Exit codes: 0 done or nothing to do, 1 error, 2 wrong usage, 3 findings (with --fail-on findings)";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the whole way on a recorded fleet: needs no network and no server.
    #[command(after_help = "Examples:\n  slicewright demo\n  slicewright demo --folder /tmp/look")]
    Demo(DemoArgs),
    /// Measure, plan, and open or update one merge request a node pool.
    #[command(after_help = "Examples:
  slicewright propose --config slicewright.yaml --dry-run
  slicewright propose --config slicewright.yaml --cluster dc1 --pool a100-40gb
  slicewright propose --config slicewright.yaml --output json --fail-on findings")]
    Propose(ProposeArgs),
    /// Run as a server: deliveries of webhooks, commands in comments, a schedule, pages.
    #[command(after_help = "Example:\n  slicewright serve --config slicewright.yaml

The section `server:` of the configuration says where it listens and what forges sign with. SIGHUP reads it again,
SIGTERM ends the server when the jobs in work are done.")]
    Serve(ServeArgs),
    /// Run as `propose --dry-run` does, and save all that was read in one file.
    #[command(after_help = "Example:\n  slicewright record --config slicewright.yaml --to run.slicewright")]
    Record(RecordArgs),
    /// Repeat a recorded run offline: the same result to the byte.
    #[command(after_help = "Example:\n  slicewright replay run.slicewright --output markdown")]
    Replay(ReplayArgs),
    /// Every candidate, every number and every reason of one workload.
    #[command(after_help = "Examples:
  slicewright explain search/ranker --config slicewright.yaml
  slicewright explain search/ranker --recording run.slicewright")]
    Explain(ExplainArgs),
    /// What the metrics, the repository and the forge lack, and how to fix it. Ends with 1 when nothing can be proposed.
    #[command(after_help = "Example:\n  slicewright doctor --config slicewright.yaml --cluster dc1")]
    Doctor(DoctorArgs),
    /// GPU models that are known: sizes, slices, what they hold.
    #[command(after_help = "Examples:\n  slicewright catalog list\n  slicewright catalog show a100-40gb")]
    Catalog(CatalogArgs),
    /// Print the JSON Schema of `--output json`.
    #[command(after_help = "Example:\n  slicewright schema > report.schema.json")]
    Schema,
}

/// Where the facts come from.
#[derive(Clone, Debug, clap::Args)]
pub struct From {
    /// Configuration file; see config/example.yaml for every setting.
    #[arg(short, long, env = "SLICEWRIGHT_CONFIG", default_value = "slicewright.yaml")]
    pub config: PathBuf,
    /// A recording made by `slicewright record`, instead of the configured servers.
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub recording: Option<PathBuf>,
}

/// How results are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A summary for people.
    #[default]
    Text,
    /// One document by the schema of `slicewright schema`.
    Json,
    /// The merge requests as they are written.
    Markdown,
}

/// When to fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// On errors alone.
    #[default]
    Error,
    /// With exit code 3 when something is or would be proposed.
    Findings,
}

/// `demo`
#[derive(Clone, Debug, clap::Args)]
pub struct DemoArgs {
    /// Folder for the demo's repository and merge requests; made anew when it is the demo's own.
    #[arg(long, default_value = "slicewright-demo")]
    pub folder: PathBuf,
}

/// `serve`
#[derive(Clone, Debug, clap::Args)]
pub struct ServeArgs {
    /// Configuration file; see config/example.yaml for every setting.
    #[arg(short, long, env = "SLICEWRIGHT_CONFIG", default_value = "slicewright.yaml")]
    pub config: PathBuf,
    /// Moment that every look is made at, instead of the present: for metrics of the past, RFC 3339.
    #[arg(long, value_name = "MOMENT", hide = true)]
    pub at: Option<Timestamp>,
    /// How the log is written.
    #[arg(long, value_enum, default_value_t)]
    pub log_format: LogFormat,
}

/// How the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line, with the numbers of requests and deliveries.
    Json,
}

/// `propose`
#[derive(Clone, Debug, clap::Args)]
pub struct ProposeArgs {
    /// Configuration file; see config/example.yaml for every setting.
    #[arg(short, long, env = "SLICEWRIGHT_CONFIG", default_value = "slicewright.yaml")]
    pub config: PathBuf,
    /// This cluster alone.
    #[arg(long)]
    pub cluster: Option<String>,
    /// This pool alone.
    #[arg(long)]
    pub pool: Option<String>,
    /// Decide and show, but write nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// How to show the result.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
    /// Draw the cards of each plan before and after, and each workload's memory day by day, as SVG below this folder.
    #[arg(long, value_name = "FOLDER")]
    pub pictures: Option<PathBuf>,
    /// When to fail.
    #[arg(long, value_enum, default_value_t)]
    pub fail_on: FailOn,
    /// Look at this moment instead of now: 2026-01-15T00:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub at: Option<Timestamp>,
}

/// `record`
#[derive(Clone, Debug, clap::Args)]
pub struct RecordArgs {
    /// Configuration file.
    #[arg(short, long, env = "SLICEWRIGHT_CONFIG", default_value = "slicewright.yaml")]
    pub config: PathBuf,
    /// File to write. It holds metric values, names and the repository's files: handle it like those.
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    /// This cluster alone.
    #[arg(long)]
    pub cluster: Option<String>,
    /// Look at this moment instead of now: 2026-01-15T00:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub at: Option<Timestamp>,
}

/// `replay`
#[derive(Clone, Debug, clap::Args)]
pub struct ReplayArgs {
    /// A recording made by `slicewright record`.
    pub recording: PathBuf,
    /// This cluster alone.
    #[arg(long)]
    pub cluster: Option<String>,
    /// This pool alone.
    #[arg(long)]
    pub pool: Option<String>,
    /// How to show the result.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
    /// Draw the cards of each plan before and after, and each workload's memory day by day, as SVG below this folder.
    #[arg(long, value_name = "FOLDER")]
    pub pictures: Option<PathBuf>,
    /// When to fail.
    #[arg(long, value_enum, default_value_t)]
    pub fail_on: FailOn,
}

/// `explain`
#[derive(Clone, Debug, clap::Args)]
pub struct ExplainArgs {
    /// The workload, as `namespace/name`.
    pub workload: String,
    /// Where the facts come from.
    #[command(flatten)]
    pub from: From,
    /// This cluster alone.
    #[arg(long)]
    pub cluster: Option<String>,
    /// Look at this moment instead of now: 2026-01-15T00:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "recording")]
    pub at: Option<Timestamp>,
}

/// `doctor`
#[derive(Clone, Debug, clap::Args)]
pub struct DoctorArgs {
    /// Where the facts come from.
    #[command(flatten)]
    pub from: From,
    /// Look at the webhooks of the repository that point here or below.
    #[arg(long, value_name = "URL", value_parser = address, conflicts_with = "recording")]
    pub hooks_at: Option<String>,
    /// This cluster alone.
    #[arg(long)]
    pub cluster: Option<String>,
    /// Look at this moment instead of now: 2026-01-15T00:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "recording")]
    pub at: Option<Timestamp>,
}

/// `catalog`
#[derive(Clone, Debug, clap::Args)]
pub struct CatalogArgs {
    /// What to show.
    #[command(subcommand)]
    pub command: CatalogCommand,
    /// Configuration file, for catalog files of your own.
    #[arg(short, long, env = "SLICEWRIGHT_CONFIG", global = true)]
    pub config: Option<PathBuf>,
}

/// What of the catalog to show.
#[derive(Clone, Debug, Subcommand)]
pub enum CatalogCommand {
    /// One line a model.
    List,
    /// Everything known about one model.
    Show {
        /// Its id, or the name of a product as DCGM or the node label spells it.
        model: String,
    },
}

/// An address on the web.
fn address(text: &str) -> Result<String, String> {
    let url = reqwest::Url::parse(text).ok().filter(|url| url.has_host() && url.scheme().starts_with("http"));
    url.map(|_| text.to_owned()).ok_or_else(|| "write it as https://bot.example.com/hooks".to_owned())
}

/// A moment, or the start of a UTC day.
fn time(text: &str) -> Result<Timestamp, String> {
    text.parse::<Timestamp>().or_else(|_| format!("{text}T00:00:00Z").parse()).map_err(|_| {
        "write it as 2026-01-15T00:00:00Z, or as 2026-01-15 for the start of that UTC day".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn an_address_has_a_host() {
        assert!(super::address("https://bot.example.com/hooks").is_ok());
        for text in ["bot.example.com", "/hooks", "mailto:bot@example.com", ""] {
            assert!(super::address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_day_is_its_first_moment() {
        assert_eq!(super::time("2026-01-15").unwrap().to_string(), "2026-01-15T00:00:00Z");
        assert!(super::time("yesterday").unwrap_err().contains("2026-01-15T00:00:00Z"));
    }

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        super::Args::command().debug_assert();
    }
}
