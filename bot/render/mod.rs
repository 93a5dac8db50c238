//! Plans as text that people read: the proposal's body, the summary for a terminal, the answer to "why".
//!
//! Text out, no IO. `page` gathers what is said, the templates in `templates/proposal/` say how, `escape` keeps
//! strangers' words from being more than words. Whether a text is written is the question of `core::review`.

mod answer;
mod board;
mod body;
mod diff;
mod escape;
mod evidence;
mod explain;
mod html;
mod page;
mod picture;
mod reply;
mod rows;
mod template;
mod terminal;
mod trade_offs;

#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use answer::{Answer, Brief, Explained};
pub use board::{Board, BoardProblem, BoardRow};
pub use html::{HtmlPage, STYLE, html};
use jiff::Timestamp;
pub use picture::{Bar, Clothes, History, NodeRow, Packing, Piece, PieceKind, Room};
pub use reply::Reply;
use serde::{Deserialize, Serialize};
use slicewright_core::catalog::GpuModel;
use slicewright_core::fit::{FitReport, Reason};
use slicewright_core::ids::{PoolId, WorkloadId};
use slicewright_core::plan::pool::Pool;
use slicewright_core::plan::{Item, Kept, Plan};
use slicewright_core::policy::Policy;
use slicewright_core::review::metadata::State;
use slicewright_core::usage::{DataQuality, WorkloadProfile};

/// Everything that a proposal's text is made of.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct View<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Model of the pool's cards. `None`: not in the catalog.
    pub model: Option<&'a GpuModel>,
    /// What the workloads were measured to use.
    pub profiles: &'a BTreeMap<WorkloadId, WorkloadProfile>,
    /// What the commit changes, and what it leaves to people.
    pub changes: &'a ChangeSummary,
    /// What the metrics have and lack.
    pub quality: &'a DataQuality,
    /// Queries with which a reader can check the figures.
    pub queries: &'a [Query],
    /// When the data was read. The only clock in the text; its line is outside the body's hash.
    pub as_of: Timestamp,
    /// Version of the program.
    pub version: &'a str,
    /// Branch that carries the change.
    pub branch: &'a str,
    /// Branch that it is for.
    pub base_branch: &'a str,
    /// Where the text is read.
    pub dialect: Dialect,
    /// What people mention to give a command, without the `@`. `None`: nobody listens.
    pub handle: Option<&'a str>,
}

/// What a commit changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeSummary {
    /// Files, by path.
    pub files: Vec<FileChange>,
    /// What people must do by hand.
    pub by_hand: Vec<ByHand>,
    /// What else the change touches, as sentences.
    pub side_effects: Vec<String>,
    /// Whom the repository's CODEOWNERS names for these files: `@user`, `@org/team`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<String>,
}

/// One changed file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Path in the repository.
    pub path: String,
    /// Unified diff. Shown where no forge shows it; may be left out.
    pub diff: Option<String>,
}

/// A change for people to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByHand {
    /// What to change, with the place if it was found.
    pub what: String,
    /// Why the bot does not do it.
    pub why: String,
    /// The exact text or commands.
    pub text: String,
}

/// A query that a reader can run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Query {
    /// What it shows.
    pub what: String,
    /// The PromQL.
    pub promql: String,
}

/// Where a text is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// A pull request on GitHub.
    GitHub,
    /// A merge request on GitLab.
    GitLab,
    /// A file in a folder.
    Local,
    /// Markdown on a terminal: a dry run.
    Terminal,
}

impl Dialect {
    /// Most bytes of a body. GitHub refuses more than 65,536 of its own counting, and 58,000 was refused once
    /// (renovatebot/renovate#37211); GitLab takes a million, but nobody reads that.
    pub fn budget(self) -> usize {
        match self {
            Self::GitHub => 55_000,
            Self::GitLab | Self::Local | Self::Terminal => 200_000,
        }
    }

    /// What the forge calls a proposal.
    pub fn request(self) -> &'static str {
        match self {
            Self::GitHub => "pull request",
            Self::GitLab | Self::Local | Self::Terminal => "merge request",
        }
    }
}

/// A proposal's text, without the hidden block, which `core::review::metadata` attaches.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rendered {
    /// At most 72 characters, one line, no markup.
    pub title: String,
    /// Markdown, at most [`Dialect::budget`] bytes.
    pub body: String,
    /// The same for a page that draws the cards and shows the evidence of each workload itself; without any limit.
    pub for_page: String,
    /// It waits for people: changes by hand are needed, or the evidence is thin.
    pub draft: bool,
}

/// What one workload was measured to use and why it gets its share, for a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadShown {
    /// The workload and what it gets, one line without markup.
    pub summary: String,
    /// Figures and candidates, Markdown.
    pub evidence: String,
    /// Its memory day by day. `None`: nothing was measured.
    pub history: Option<History>,
}

/// A template that could not be filled.
#[derive(Debug, thiserror::Error)]
#[error("cannot fill the template `{template}`")]
pub struct RenderError {
    /// File below `templates/`.
    pub template: String,
    /// Line and reason.
    #[source]
    pub cause: minijinja::Error,
}

/// Title and body of a proposal. Equal views give equal bytes.
///
/// # Errors
/// When a template is broken or does not come to an end.
pub fn body(view: &View<'_>) -> Result<Rendered, RenderError> {
    body::body(view)
}

/// Workloads of a plan, each with what it was measured to use.
///
/// # Errors
/// When a template is broken.
pub fn workloads(
    items: &[Item],
    profiles: &BTreeMap<WorkloadId, WorkloadProfile>,
) -> Result<Vec<WorkloadShown>, RenderError> {
    evidence::workloads(items, profiles)
}

/// The message of the proposal's one commit. It names the fingerprint and no measurement, so that equal plans make
/// equal commits.
pub fn commit_message(view: &View<'_>) -> String {
    body::commit_message(view)
}

/// `body`, without its hidden block, as the text of a proposal in `state`: closed ones say so and why in their first
/// line, open ones do not.
pub fn closing(body: &str, state: State, reason: &str) -> String {
    body::closing(body, state, reason)
}

/// A comment beside a proposal.
///
/// # Errors
/// When a template is broken.
pub fn reply(reply: &Reply<'_>, dialect: Dialect) -> Result<String, RenderError> {
    reply::reply(reply, dialect)
}

/// A workload in a line, with its number in the proposal's table.
pub fn brief(report: &FitReport, number: Option<usize>) -> Brief {
    explain::brief(report, number)
}

/// An answer to a command.
///
/// # Errors
/// When a template is broken.
pub fn answer(answer: &Answer<'_>, dialect: Dialect) -> Result<String, RenderError> {
    answer::answer(answer, dialect)
}

/// What a repository is told before anything is proposed in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Onboarding<'a> {
    /// Clusters whose files are in it.
    pub clusters: Vec<String>,
    /// Its own configuration file.
    pub file: &'a str,
    /// Branch that proposals are for.
    pub base_branch: &'a str,
    /// Proposals that are open at once. `None`: no limit.
    pub max_open: Option<u32>,
    /// Proposals that are made in an hour. `None`: no limit.
    pub max_per_hour: Option<u32>,
    /// New ones are made in some hours only.
    pub has_hours: bool,
}

/// The text of the merge request that asks a repository's people first.
///
/// # Errors
/// When a template is broken.
pub fn onboarding(onboarding: &Onboarding<'_>, dialect: Dialect) -> Result<String, RenderError> {
    reply::onboarding(onboarding, dialect)
}

/// The page that shows where every proposal of a repository stands.
///
/// # Errors
/// When a template is broken.
pub fn board(board: &Board<'_>, dialect: Dialect) -> Result<String, RenderError> {
    board::board(board, dialect)
}

/// A few lines about one pool's plan, for a terminal. No colours, no markup.
pub fn terminal(view: &View<'_>) -> String {
    terminal::terminal(view)
}

/// Every candidate, every number and every reason of one workload, and who decided its policy and the rules of its
/// pool; `None`: it runs in none now.
pub fn explain(
    report: &FitReport,
    profile: Option<&WorkloadProfile>,
    policy: &Policy,
    pool: Option<&Pool>,
) -> String {
    explain::explain(report, profile, policy, pool)
}

/// Why a pool gets no proposal: `why` for the pool as a whole, if there is such a reason, and each workload's own.
pub fn nothing(pool: &PoolId, reasons: &[Reason], kept: &[Kept]) -> String {
    terminal::nothing(pool, reasons, kept)
}

/// The difference of one file as a unified diff with three lines around each change; `None` where the file is not
/// there. Empty for equal contents; one line for contents that are not text.
pub fn unified_diff(path: &str, old: Option<&[u8]>, new: Option<&[u8]>) -> String {
    diff::unified(path, old, new)
}
