//! One page a repository: where every pool's proposal stands.

use anyhow::Context as _;
use jiff::tz::Offset;
use slicewright_core::ids::PoolId;
use slicewright_core::review::board::Section;
use slicewright_core::review::boxes;
use slicewright_core::usage::Severity;

use super::orphans::Orphan;
use super::propose::{ClusterReport, PoolReport, Report};
use super::{Engine, Inputs};
use crate::render::{self, Board, BoardProblem, BoardRow};
use crate::settings::repo;

/// Title of the page. It is found by its author and its mark; people may look for it by this.
pub(super) const TITLE: &str = "Slicewright: GPU pools";

impl Engine {
    /// Writes the pages of the repositories that want one and all of whose clusters were looked at. What goes wrong
    /// is told in the log: the proposals are done, and no less so without a page.
    pub(super) async fn show_boards(&self, inputs: &Inputs, report: &Report) {
        for (place, clusters) in self.whole(report) {
            let mut here = self.settings().clusters.iter().filter(|one| one.repository.place() == place);
            if !here.all(|one| one.repository.dashboard) {
                continue;
            }
            let orphans = report.orphans.iter().filter(|orphan| orphan.repository == place).collect();
            if let Err(error) = self.show_board(inputs, &clusters, orphans).await {
                tracing::warn!("cannot write the dashboard of `{place}`: {error:#}");
            }
        }
    }

    async fn show_board(
        &self,
        inputs: &Inputs,
        clusters: &[&ClusterReport],
        orphans: Vec<&Orphan>,
    ) -> anyhow::Result<()> {
        let name = &clusters[0].analysis.cluster;
        let settings = self.settings().clusters.iter().find(|one| one.name == *name);
        let settings = settings.context("the cluster is gone from the configuration")?;
        let forge = inputs.forges.get(name).context("the cluster has no repository")?;
        let board = Board {
            day: Offset::UTC.to_datetime(inputs.at).date(),
            rows: clusters.iter().flat_map(|cluster| &cluster.pools).map(row).collect(),
            problems: clusters.iter().flat_map(|cluster| problems(cluster)).collect(),
            orphans: orphans.into_iter().map(|orphan| orphan.branch.as_str()).collect(),
            orphans_advice: Orphan::ADVICE,
            file: repo::PLACE,
        };
        let mut text = render::board(&board, self.dialect(&settings.repository))?;
        if self.hears(&settings.repository) {
            text += &boxes::part(&asked_for(clusters));
        }
        match forge.show_board(TITLE, &text).await? {
            Some(url) => tracing::debug!(url, "the dashboard is up to date"),
            None => tracing::info!("the dashboard was closed, and stays so"),
        }
        Ok(())
    }
}

/// Pools that a look may bring further, in the order of the page.
fn asked_for(clusters: &[&ClusterReport]) -> Vec<PoolId> {
    let moves =
        |pool: &&PoolReport| pool.is_open || matches!(pool.section, Section::Problems | Section::Waiting);
    let mut pools: Vec<_> = clusters.iter().flat_map(|cluster| &cluster.pools).filter(moves).collect();
    pools.sort_by_key(|pool| pool.section);
    pools.into_iter().map(|pool| pool.pool.clone()).collect()
}

fn row(pool: &PoolReport) -> BoardRow<'_> {
    BoardRow {
        section: pool.section,
        pool: format!("{}/{}", pool.pool.cluster, pool.pool.pool),
        title: pool.proposal.as_ref().map(|proposal| proposal.title.as_str()),
        is_open: pool.is_open,
        cards_freed: pool.cards_freed,
        reason: pool.action.reason(),
        url: pool.url.as_deref().filter(|_| pool.section.has_request()),
    }
}

fn problems(cluster: &ClusterReport) -> impl Iterator<Item = BoardProblem<'_>> {
    let findings = cluster.analysis.measured.data_quality.findings.iter();
    findings.filter(|finding| finding.severity == Severity::Blocker).map(|finding| BoardProblem {
        cluster: &cluster.analysis.cluster,
        text: &finding.text,
        advice: &finding.advice,
    })
}
